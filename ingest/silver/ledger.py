"""Ledgers: the small Hudi tables that ingest keeps beside a source's silver tables, in the same schema.

Each has one key and one bucket, is written by one thread at a time and is registered in the catalog, so that it can be
queried as any other table.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ingest.silver.catalog import folder_of, register_columns
from ingest.silver.hudi import HudiTable, TableOptions, literal, write_error
from ingest.spark.jvm import refresh
from ingest.spark.shared import Shared


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

    def hudi(self, spark: SparkSession) -> HudiTable:
        """The Hudi table, in the folder of its schema."""
        options = TableOptions(self.schema, self.name, key=self.key, ordering=self.ordering, buckets=1)
        return HudiTable(spark, f"{folder_of(spark, self.schema)}/{self.name}", options)

    def writing(self, spark: SparkSession) -> threading.RLock:
        """Held while the ledger is written; a caller that reads and then writes holds it for both.

        The tables of a source are landed side by side, and a ledger is one Hudi table with one writer at a time.
        """
        return Shared.of(spark).lock(self.relation)

    def read(self, spark: SparkSession) -> DataFrame | None:
        """The rows without Hudi's own columns; None where nothing was ever written."""
        if not spark.catalog.tableExists(self.relation):
            return None
        refresh(spark, self.relation)
        rows = spark.table(self.relation)
        return rows.drop(*(name for name in rows.columns if name.startswith("_hoodie")))

    def write(self, spark: SparkSession, rows: DataFrame, operation: Literal["upsert", "delete", "overwrite"]) -> None:
        """Commits the rows; the first write makes the table.

        Raises
        ------
        WriteError
            Hudi could not write: nothing of it is visible then.
        """
        with self.writing(spark):
            try:
                table = self.hudi(spark)
                write = {"upsert": table.upsert, "delete": table.delete, "overwrite": table.insert_overwrite}
                write[operation](rows)
                self._register(table, rows)
            except (PySparkException, Py4JJavaError) as error:
                raise write_error(error, where=self.relation) from error

    def _register(self, table: HudiTable, rows: DataFrame) -> None:
        """Makes the table known to the catalog, and its new commit to the running session."""
        spark = table.spark
        spark.sql(f"create table if not exists {self.relation} using hudi location {literal(table.path)}")
        if not set(rows.columns) <= set(spark.table(self.relation).columns):
            # It was made by an earlier version, which had fewer columns.
            register_columns(spark, self.schema, [self.name], table.read().schema)
        refresh(spark, self.relation)
