"""Ledgers: the small Hudi tables that ingest keeps beside a source's silver tables, in the same schema.

Each has one key and one bucket, is written by one thread of one process at a time and is registered in the session's
catalog, so that it can be queried as any other table. Glue is told of it with the tables
(`ingest.silver.catalog.glue`): what is set aside must not wait for Glue.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ingest.config.lake import required_table_version
from ingest.errors import WriteError
from ingest.silver.catalog.base import Entry
from ingest.silver.catalog.hive import HiveCatalog
from ingest.silver.file_groups import require_whole
from ingest.silver.hudi import HudiTable, TableOptions
from ingest.silver.process_lock import one_process
from ingest.silver.write_errors import write_error
from ingest.spark.jvm import refresh, root_cause
from ingest.spark.passing import may_pass
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
        path = f"{HiveCatalog(spark).folder_of(self.schema)}/{self.name}"
        version = required_table_version(path)
        options = TableOptions(
            self.schema, self.name, self.key, self.ordering, buckets=1, version=version, is_companion=True
        )
        return HudiTable(spark, path, options)

    @contextmanager
    def writing(self, spark: SparkSession) -> Iterator[None]:
        """Held while the ledger is written; a caller that reads and then writes holds it for both.

        The tables of a source are landed side by side, sources of a schema by several processes, and a ledger is one
        Hudi table with one writer at a time.

        Raises
        ------
        UnavailableError
            Another process has been writing it for longer than is waited.
        """
        with Shared.of(spark).lock(self.relation), one_process(spark, self.hudi(spark).path, where=self.relation):
            yield

    def read(self, spark: SparkSession) -> DataFrame | None:
        """The rows without Hudi's own columns; None where nothing was ever written.

        Raises
        ------
        UnavailableError
            The storage does not answer now.
        WriteError
            Its files are not those of a whole Hudi table.
        """
        if not spark.catalog.tableExists(self.relation) and not self._is_registered_anew(spark):
            return None
        try:
            refresh(spark, self.relation)
            rows = spark.table(self.relation)
        except (PySparkException, Py4JJavaError) as error:
            if may_pass(error):
                raise write_error(error, where=self.relation) from error
            raise self._broken(spark, root_cause(error)) from error
        return rows.drop(*(name for name in rows.columns if name.startswith("_hoodie")))

    def require_whole(self, spark: SparkSession) -> None:
        """Looks for the files of the rows that it holds.

        Raises
        ------
        WriteError
            The catalog has it, and its folder is gone; or files of its commits are.
        """
        table = self.hudi(spark)
        if table.exists():
            require_whole(table.timeline)
        elif HiveCatalog(spark).has(Entry(table, {})):
            raise self._broken(spark, "its folder is gone, and the catalog has the table still")

    def _broken(self, spark: SparkSession, found: str) -> WriteError:
        return WriteError(
            found,
            where=self.hudi(spark).path,
            expected="a whole Hudi table, as the catalog has it",
            action="restore the folder from a copy; or move what is left of it away, and "
            f"`lake sql 'drop table {self.schema}.{self.name}'`: what it held is forgotten then",
        )

    def _is_registered_anew(self, spark: SparkSession) -> bool:
        """Whether there is one that the catalog does not know, since it is another one or has dropped it."""
        if not HiveCatalog(spark).has_schema(self.schema):
            return False
        table = self.hudi(spark)
        if not table.exists() or table.timeline.is_empty():
            return False
        HiveCatalog(spark).register(Entry(table, {}))
        return True

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
                # What was made by an earlier version had fewer columns.
                types = {column.name: column.dataType.simpleString() for column in rows.schema}
                HiveCatalog(spark).register(Entry(table, types))
            except (PySparkException, Py4JJavaError) as error:
                raise write_error(error, where=self.relation) from error
