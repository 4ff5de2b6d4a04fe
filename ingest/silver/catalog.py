"""The catalog's entries of silver tables: schemas, tables, the views of merge-on-read tables, columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from ingest.config.tables import Table
from ingest.silver.hudi import HudiTable, literal, write_error
from ingest.spark.jvm import java_class, refresh
from ingest.spark.shared import Shared


def schema_folder(spark: SparkSession, schema: str) -> str:
    """Where the catalog has the tables of a schema, which is created where it is missing.

    Raises
    ------
    WriteError
        The schema cannot be created.
    """
    try:
        # Tables are landed side by side, and the metastore does not take two creations of a schema at a time.
        with Shared.of(spark).lock("schemas"):
            if not spark.catalog.databaseExists(schema):
                spark.sql(f"create database if not exists `{schema}`")
        return spark.catalog.getDatabase(schema).locationUri
    except (PySparkException, Py4JJavaError) as error:
        raise write_error(error, where=f"schema {schema}") from error


def register(hudi: HudiTable, table: Table, column_types: Mapping[str, str]) -> None:
    """Makes a table and its views known to the catalog, and its new commit to the running session.

    The views of a merge-on-read table are named and marked as Hudi's own sync with a catalog does it: `<table>_ro`
    reads what is compacted, `<table>_rt` everything.

    Parameters
    ----------
    column_types:
        The columns that the catalog must know, by name, with their types.

    Raises
    ------
    WriteError
        The catalog refused.
    """
    spark = hudi.spark
    views = {
        f"`{table.schema}`.`{table.name}{suffix}`": f"'hoodie.query.as.ro.table' = '{str(is_ro).lower()}'"
        for suffix, is_ro in table.views.items()
    }
    try:
        for name, properties in {table.relation: "", **views}.items():
            if not spark.catalog.tableExists(name):
                spark.sql(
                    f"create table if not exists {name} using hudi "
                    f"{f'tblproperties ({properties}) ' if properties else ''}location {literal(hudi.path)}"
                )
        _register_new_columns(hudi, table, column_types)
        for name in (table.relation, *views):
            refresh(spark, name)
    except (PySparkException, Py4JJavaError) as error:
        raise write_error(error, where=table.relation) from error


def _register_new_columns(hudi: HudiTable, table: Table, column_types: Mapping[str, str]) -> None:
    """Brings the catalog's columns up to the table's: an entry keeps those of the day it was made.

    In place, by Spark's own call for it: the table is there at every moment, and Hudi makes no commit of its own.
    """
    state = hudi.spark._jsparkSession.sessionState()
    entry = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(table.relation))
    known = T.StructType.fromJson(json.loads(entry.schema().json()))
    if {column.name: column.dataType.simpleString() for column in known}.items() >= column_types.items():
        return
    partitions = set(table.options.partition_by)
    columns = T.StructType([column for column in hudi.read().schema if column.name not in partitions])
    register_columns(hudi.spark, table.schema, [f"{table.name}{suffix}" for suffix in (*table.views, "")], columns)


def register_columns(spark: SparkSession, schema: str, tables: Sequence[str], columns: T.StructType) -> None:
    """Gives the catalog's entries of some tables other columns, by Spark's own call for it."""
    catalog = spark._jsparkSession.sessionState().catalog().externalCatalog()
    data_type = java_class(spark, "org.apache.spark.sql.types.DataType").fromJson(columns.json())
    for table in tables:
        catalog.alterTableDataSchema(schema, table, data_type)
