"""Truncates of the source table: the rows that are older than one are deleted."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.changes.late import Truncate, precedes_truncate
from ingest.config.tables import Table
from ingest.schema.change import silver_columns


def truncated_rows(silver: DataFrame, table: Table, truncate: Truncate) -> DataFrame:
    """Tombstones, in silver's columns, of the live rows that are older than a truncate."""
    empty = {
        f"{column.name}": F.lit(None).cast(column.data_type)
        for column in table.columns
        if column.name not in (*table.key, *table.options.partition_by) and column.substring_of is None
    }
    return (
        silver.where("__deleted = 'false'")
        .where(precedes_truncate(truncate, table))
        .withColumns(
            {
                **empty,
                "__op": F.lit("t"),
                "__deleted": F.lit("true"),
                "__carried": F.lit(None).cast("string"),
                # Of a table without a key the position says which row it is.
                **({"__position": F.lit(truncate.position)} if table.key else {}),
            }
        )
        .select(*(f"`{name}`" for name in silver_columns(table)))
    )
