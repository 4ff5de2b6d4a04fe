"""Ledgers: the small Hudi tables that ingest keeps beside a source's silver tables, in the same schema.

Each has one key and one bucket, is written by one thread at a time and is registered in the catalog, so that it can be
queried as any other table.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ingest.silver.catalog import register_columns
from ingest.silver.hudi import SMALL_COMMITS, literal, write_error
from ingest.spark.jvm import refresh

# The tables of a source are landed side by side; a ledger is one Hudi table with one writer at a time.
_writing: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)


@dataclass(frozen=True)
class Ledger:
    """One of them: its schema, its name, the column that is its key, and the column of which the greater wins."""

    schema: str
    name: str
    key: str
    ordering: str

    @property
    def relation(self) -> str:
        """The quoted name for Spark SQL."""
        return f"`{self.schema}`.`{self.name}`"

    def location(self, spark: SparkSession) -> str:
        """The folder."""
        return f"{spark.catalog.getDatabase(self.schema).locationUri}/{self.name}"

    @property
    def write_options(self) -> dict[str, str]:
        """Hudi's options to write to it, without the operation."""
        return {
            "hoodie.table.name": self.name,
            "hoodie.database.name": self.schema,
            "hoodie.datasource.write.recordkey.field": self.key,
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.table.ordering.fields": self.ordering,
            "hoodie.write.auto.upgrade": "false",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "1",
            **SMALL_COMMITS,
        }

    @property
    def writing(self) -> threading.RLock:
        """Held while the ledger is written; a caller that reads and then writes holds it for both."""
        return _writing[self.relation]

    def read(self, spark: SparkSession) -> DataFrame | None:
        """The rows without Hudi's own columns; None where nothing was ever written."""
        if not spark.catalog.tableExists(self.relation):
            return None
        refresh(spark, self.relation)
        rows = spark.table(self.relation)
        return rows.drop(*(name for name in rows.columns if name.startswith("_hoodie")))

    def write(
        self, spark: SparkSession, rows: DataFrame, operation: Literal["upsert", "delete", "insert_overwrite_table"]
    ) -> None:
        """Commits the rows; the first write makes the table.

        Raises
        ------
        WriteError
            Hudi could not write: nothing of it is visible then.
        """
        try:
            with self.writing:
                location = self.location(spark)
                writer = rows.write.format("hudi").options(**self.write_options)
                writer.option("hoodie.datasource.write.operation", operation).mode("append").save(location)
                spark.sql(f"create table if not exists {self.relation} using hudi location {literal(location)}")
                if not set(rows.columns) <= set(spark.table(self.relation).columns):
                    # It was made by an earlier version, which had fewer columns.
                    columns = spark.read.format("hudi").load(location).schema
                    register_columns(spark, self.schema, [self.name], columns)
                refresh(spark, self.relation)
        except (PySparkException, Py4JJavaError) as error:
            raise write_error(error, where=self.relation) from error
