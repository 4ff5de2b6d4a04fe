"""The quarantine of a source: one Hudi table with every event that could not be applied, why, and what was read.

Written before the commit that counts the events, and keyed by where they came from: a run that is repeated after a
crash writes the same rows again.
"""

from __future__ import annotations

import threading
from collections import defaultdict

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.declaration import Source, Table
from ingest.silver import SMALL_COMMITS, write_error

TABLE = "_quarantine"
# The columns of decoded changes that the quarantine keeps.
TAKES = ("_file", "_partition", "_start_offset", "_order", "_problem", "_raw", "_form")
# The tables of a source are landed side by side; their quarantine is one Hudi table with one writer at a time.
_writing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def relation(schema: str) -> str:
    """The quoted name of a source's quarantine."""
    return f"`{schema}`.`{TABLE}`"


def put(spark: SparkSession, table: Table, changes: DataFrame) -> None:
    """Writes the decoded changes (see `ingest.decode.columns`) to the quarantine, with their `_problem` as reason.

    Columns of the quarantine: `quarantine_id` (key), `source_table`, `topic`, `file`, `partition`, `start_offset` (of
    the file), `line` (0-based, of the event within the file), `reason`, `raw` (bytes as read; a typed event as JSON),
    `form` (a typed event's schema), `quarantined_at`.

    Raises
    ------
    WriteError
        The quarantine could not be written; the caller must not count these events as dealt with.
    """
    rows = changes.select(
        F.sha2(
            F.concat_ws("|", F.lit(table.options.topic), "_file", "_partition", "_start_offset", "_line"), 256
        ).alias("quarantine_id"),
        F.lit(table.name).alias("source_table"),
        F.lit(table.options.topic).alias("topic"),
        F.col("_file").alias("file"),
        F.col("_partition").alias("partition"),
        F.col("_start_offset").alias("start_offset"),
        F.col("_line").alias("line"),
        F.col("_problem").alias("reason"),
        F.col("_raw").alias("raw"),
        F.col("_form").cast("string").alias("form"),
        F.current_timestamp().alias("quarantined_at"),
    )
    with _writing[table.schema]:
        _write(spark, table, rows, "upsert")


def waiting(spark: SparkSession, table: Table) -> DataFrame | None:
    """The quarantined events of a table; None where the source never had any."""
    if not spark.catalog.tableExists(relation(table.schema)):
        return None
    spark.catalog.refreshTable(relation(table.schema))
    return spark.table(relation(table.schema)).where(F.col("source_table") == table.name).select(*_COLUMNS)


def settle(spark: SparkSession, table: Table, replayed: DataFrame) -> None:
    """Removes the events that were replayed, but for those that were set aside again since.

    Parameters
    ----------
    replayed:
        Rows of the quarantine, as they were when the replay began.

    Raises
    ------
    WriteError
        The quarantine could not be written: the events are still in it, and may be replayed again without harm.
    """
    with _writing[table.schema]:
        spark.catalog.refreshTable(relation(table.schema))
        same = ["quarantine_id", "quarantined_at"]
        done = spark.table(relation(table.schema)).join(replayed.select(*same), same, "left_semi")
        _write(spark, table, done.select(*_COLUMNS), "delete")


def events(spark: SparkSession, source: Source) -> DataFrame | None:
    """The quarantine of a source; None where nothing was ever quarantined."""
    if not spark.catalog.tableExists(relation(source.schema)):
        return None
    hudi = [name for name in spark.table(relation(source.schema)).columns if name.startswith("_hoodie")]
    return spark.table(relation(source.schema)).drop(*hudi)


def _write(spark: SparkSession, table: Table, rows: DataFrame, operation: str) -> None:
    try:
        location = f"{spark.catalog.getDatabase(table.schema).locationUri}/{TABLE}"
        options = {**_OPTIONS, "hoodie.database.name": table.schema, "hoodie.datasource.write.operation": operation}
        rows.write.format("hudi").options(**options).mode("append").save(location)
        spark.sql(f"create table if not exists {relation(table.schema)} using hudi location '{location}'")
        spark.catalog.refreshTable(relation(table.schema))
    except (PySparkException, Py4JJavaError) as error:
        raise write_error(error, where=relation(table.schema)) from error


_COLUMNS = (
    "quarantine_id",
    "source_table",
    "topic",
    "file",
    "partition",
    "start_offset",
    "line",
    "reason",
    "raw",
    "form",
    "quarantined_at",
)
_OPTIONS = {
    "hoodie.table.name": TABLE,
    "hoodie.datasource.write.recordkey.field": "quarantine_id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.table.ordering.fields": "quarantined_at",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    **SMALL_COMMITS,
}
