"""The catalog's entries of silver tables: schemas, tables, the views of merge-on-read tables, columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
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
        with suppress(AnalysisException):
            return folder_of(spark, schema)
        # Tables are landed side by side, and the metastore does not take two creations of a schema at a time.
        with Shared.of(spark).lock("schemas"):
            if not spark.catalog.databaseExists(schema):
                spark.sql(f"create database if not exists `{schema}`")
        return folder_of(spark, schema)
    except (PySparkException, Py4JJavaError) as error:
        raise write_error(error, where=f"schema {schema}") from error


def folder_of(spark: SparkSession, schema: str) -> str:
    """Where the catalog has the tables of a schema that is there.

    As `spark.catalog.getDatabase` says it, but by one look-up in the metastore: each batch asks for it.
    """
    found = _external(spark).getDatabase(schema)
    return str(java_class(spark, "org.apache.spark.sql.catalyst.catalog.CatalogUtils").URIToString(found.locationUri()))


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
    external = _external(spark)
    views = {
        f"{table.name}{suffix}": f"'hoodie.query.as.ro.table' = '{str(is_ro).lower()}'"
        for suffix, is_ro in table.views.items()
    }
    try:
        for name, properties in {table.name: "", **views}.items():
            if not external.tableExists(table.schema, name):
                spark.sql(
                    f"create table if not exists `{table.schema}`.`{name}` using hudi "
                    f"{f'tblproperties ({properties}) ' if properties else ''}location {literal(hudi.path)}"
                )
        _register_new_columns(hudi, table, column_types)
        for name in (table.name, *views):
            refresh(spark, f"`{table.schema}`.`{name}`")
    except (PySparkException, Py4JJavaError) as error:
        raise write_error(error, where=table.relation) from error


def _register_new_columns(hudi: HudiTable, table: Table, column_types: Mapping[str, str]) -> None:
    """Brings the catalog's columns up to the table's: an entry keeps those of the day it was made.

    In place, by Spark's own call for it: the table is there at every moment, and Hudi makes no commit of its own.
    """
    entry = _external(hudi.spark).getTable(table.schema, table.name)
    text, place = str(entry.schema().json()), f"columns of {table.relation}"
    made_of = (text, dict(column_types))
    if Shared.of(hudi.spark).built(place, made_of, lambda: _types_in(text).items() >= column_types.items()):
        return
    partitions = set(table.options.partition_by)
    columns = T.StructType([column for column in hudi.read().schema if column.name not in partitions])
    register_columns(hudi.spark, table.schema, [f"{table.name}{suffix}" for suffix in (*table.views, "")], columns)


def _types_in(schema: str) -> dict[str, str]:
    """The types of the columns, by name, in a schema as JSON."""
    return {column.name: column.dataType.simpleString() for column in T.StructType.fromJson(json.loads(schema))}


def register_columns(spark: SparkSession, schema: str, tables: Sequence[str], columns: T.StructType) -> None:
    """Gives the catalog's entries of some tables other columns, by Spark's own call for it."""
    catalog = _external(spark)
    data_type = java_class(spark, "org.apache.spark.sql.types.DataType").fromJson(columns.json())
    for table in tables:
        catalog.alterTableDataSchema(schema, table, data_type)


def _external(spark: SparkSession) -> Any:
    """Spark's own way to the metastore. `spark.catalog` looks up schema and table before it asks what it is asked."""
    return spark._jsparkSession.sessionState().catalog().externalCatalog()
