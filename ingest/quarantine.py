"""The quarantine of a source: one Hudi table with every event that could not be applied, why, and what was read.

Written before the commit that counts the events, and keyed by where they came from: a run that is repeated after a
crash writes the same rows again.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.declaration import Source, Table
from ingest.silver import SMALL_COMMITS, literal, write_error

TABLE = "_quarantine"
# The columns of decoded changes that the quarantine keeps.
TAKES = ("_file", "_partition", "_start_offset", "_order", "_problem", "_raw", "_form")
# The tables of a source are landed side by side; their quarantine is one Hudi table with one writer at a time.
_writing: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)


def relation(schema: str, name: str = TABLE) -> str:
    """The quoted name of a source's quarantine, or of another table beside it."""
    return f"`{schema}`.`{name}`"


def identity(table: Table, line: str = "_line") -> Expression:
    """`quarantine_id` of a decoded change: where it came from."""
    place = ("_file", "_partition", "_start_offset", line)
    return F.sha2(F.concat_ws("|", F.lit(table.options.topic), *place), 256).alias("quarantine_id")


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
        identity(table),
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
    write_beside(spark, table.schema, TABLE, rows, "upsert", write_options(table.schema))


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
        write_beside(spark, table.schema, TABLE, done.select(*_COLUMNS), "delete", write_options(table.schema))


def events(spark: SparkSession, source: Source) -> DataFrame | None:
    """The quarantine of a source; None where nothing was ever quarantined."""
    if not spark.catalog.tableExists(relation(source.schema)):
        return None
    hudi = [name for name in spark.table(relation(source.schema)).columns if name.startswith("_hoodie")]
    return spark.table(relation(source.schema)).drop(*hudi)


def location(spark: SparkSession, schema: str, name: str = TABLE) -> str:
    """The folder of a source's quarantine, or of another table beside it."""
    return f"{spark.catalog.getDatabase(schema).locationUri}/{name}"


def write_options(
    schema: str, name: str = TABLE, *, key: str = "quarantine_id", order: str = "quarantined_at"
) -> dict[str, str]:
    """Hudi's options to write to the quarantine, or to another table beside it, without the operation."""
    return {
        **_OPTIONS,
        "hoodie.table.name": name,
        "hoodie.database.name": schema,
        "hoodie.datasource.write.recordkey.field": key,
        "hoodie.table.ordering.fields": order,
    }


def write_beside(
    spark: SparkSession, schema: str, name: str, rows: DataFrame, operation: str, options: Mapping[str, str]
) -> None:
    """Writes to a table of a source beside its silver tables, one writer at a time; makes it where it is missing.

    Raises
    ------
    WriteError
        Hudi or the catalog refused.
    """
    try:
        path = location(spark, schema, name)
        with _writing[schema]:
            writer = rows.write.format("hudi").options(**options)
            writer.option("hoodie.datasource.write.operation", operation).mode("append").save(path)
            spark.sql(f"create table if not exists {relation(schema, name)} using hudi location {literal(path)}")
            spark.catalog.refreshTable(relation(schema, name))
    except (PySparkException, Py4JJavaError) as error:
        raise write_error(error, where=relation(schema, name)) from error


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
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    **SMALL_COMMITS,
}
