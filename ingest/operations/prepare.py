"""Makes the empty tables of a source that has not been landed yet, so that what reads them can be built."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from ingest.config.tables import Table
from ingest.silver import change_log
from ingest.silver.state import State
from ingest.silver.table import SilverTable


def prepare(spark: SparkSession, table: Table) -> bool:
    """Makes a table's empty silver table and its history, in the catalog as well; whether there was something to make.

    A table that was landed is left as it is, and so is an empty one that has the declared columns. Nothing counts as
    landed: the first landing makes the table anew, with as many buckets as its rows ask for.

    Raises
    ------
    WriteError
        The lake cannot be written, or there is a table that ingest did not write, or the folder of one is gone.
    """
    silver = SilverTable.of(spark, table)
    if silver.state() is not None or _is_prepared(silver):
        return False
    if gone := silver.gone():
        raise gone
    with silver.writing():
        return _prepare(silver) if silver.state() is None else False


def _prepare(silver: SilverTable) -> bool:
    table = silver.table
    buckets = silver.buckets_for(0)
    none = replace(State.none(table.options.epoch), buckets=buckets, columns=silver.column_types, hashed=silver.hashed)
    if table.options.history:
        change_log.make_empty(silver, buckets)
    silver.write(silver.no_rows(), none, first=True)
    silver.register()
    return True


def _is_prepared(silver: SilverTable) -> bool:
    relations = [silver.table.relation]
    if silver.table.options.history:
        relations.append(change_log.changes_of(silver).table.relation)
    is_whole = silver.is_committed() and all(silver.spark.catalog.tableExists(name) for name in relations)
    return is_whole and _types(silver.stored()) == _types(silver.no_rows())


def _types(rows: DataFrame) -> dict[str, str]:
    return {
        column.name: column.dataType.simpleString() for column in rows.schema if not column.name.startswith("_hoodie")
    }
