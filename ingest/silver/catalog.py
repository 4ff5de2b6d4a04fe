"""The catalog's entries of silver tables."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from ingest.spark.jvm import java_class


def register_columns(spark: SparkSession, schema: str, tables: Sequence[str], columns: T.StructType) -> None:
    """Gives the catalog's entries of some tables other columns, by Spark's own call for it."""
    catalog = spark._jsparkSession.sessionState().catalog().externalCatalog()
    data_type = java_class(spark, "org.apache.spark.sql.types.DataType").fromJson(columns.json())
    for table in tables:
        catalog.alterTableDataSchema(schema, table, data_type)
