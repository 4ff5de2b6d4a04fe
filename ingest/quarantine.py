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
from ingest.errors import WriteError
from ingest.session import first_line
from ingest.silver import SMALL_COMMITS

TABLE = "_quarantine"
# The tables of a source are landed side by side; their quarantine is one Hudi table with one writer at a time.
_writing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def relation(schema: str) -> str:
    """The quoted name of a source's quarantine."""
    return f"`{schema}`.`{TABLE}`"


def put(spark: SparkSession, table: Table, changes: DataFrame) -> None:
    """Writes the decoded changes (see `ingest.decode.columns`) to the quarantine, with their `_problem` as reason.

    Columns of the quarantine: `quarantine_id` (key), `source_table`, `topic`, `file`, `partition`, `start_offset` (of
    the file), `line` (0-based, of the event within the file), `reason`, `raw` (bytes as read; an Avro record as JSON),
    `quarantined_at`.

    Raises
    ------
    WriteError
        The quarantine could not be written; the caller must not count these events as dealt with.
    """
    rows = changes.select(
        F.sha2(F.concat_ws("|", F.lit(table.options.topic), "_file", F.col("_line").cast("string")), 256).alias(
            "quarantine_id"
        ),
        F.lit(table.name).alias("source_table"),
        F.lit(table.options.topic).alias("topic"),
        F.col("_file").alias("file"),
        F.col("_partition").alias("partition"),
        F.col("_start_offset").alias("start_offset"),
        F.col("_line").alias("line"),
        F.col("_problem").alias("reason"),
        F.col("_raw").alias("raw"),
        F.current_timestamp().alias("quarantined_at"),
    )
    with _writing[table.schema]:
        try:
            location = f"{spark.catalog.getDatabase(table.schema).locationUri}/{TABLE}"
            rows.write.format("hudi").options(**_OPTIONS).option("hoodie.database.name", table.schema).mode(
                "append"
            ).save(location)
            spark.sql(f"create table if not exists {relation(table.schema)} using hudi location '{location}'")
            spark.catalog.refreshTable(relation(table.schema))
        except (PySparkException, Py4JJavaError) as error:
            raise WriteError(
                f"bad events could not be set aside: {first_line(str(error))}",
                where=relation(table.schema),
                action="nothing of this batch was landed; run again once mended",
            ) from error


def events(spark: SparkSession, source: Source) -> DataFrame | None:
    """The quarantine of a source; None where nothing was ever quarantined."""
    if not spark.catalog.tableExists(relation(source.schema)):
        return None
    hudi = [name for name in spark.table(relation(source.schema)).columns if name.startswith("_hoodie")]
    return spark.table(relation(source.schema)).drop(*hudi)


_OPTIONS = {
    "hoodie.table.name": TABLE,
    "hoodie.datasource.write.recordkey.field": "quarantine_id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.table.ordering.fields": "quarantined_at",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    **SMALL_COMMITS,
}
