"""The tables whose last run failed, kept for `lake status`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest.config.tables import Table
from ingest.errors import LakeError, UnavailableError
from ingest.landing.table import Landed
from ingest.silver.ledger import Ledger
from ingest.spark import s3
from ingest.spark.jvm import root_cause
from ingest.spark.passing import may_pass
from ingest.spark.shared import Shared

log = logging.getLogger(__name__)


def failures(schema: str) -> Ledger:
    """The tables of a source whose last run failed: `source_table` (key), `failed_at`, `message`."""
    return Ledger(schema, "_failures", key="source_table", ordering="failed_at")


def remember_failures(spark: SparkSession, results: Sequence[Landed]) -> None:
    """Keeps which tables have failed, for `lake status`. Written only where one has, or is well again.

    A table is landed by one process at a time: what the ledger says of it is read once a session.
    """
    schema = results[0].table.schema
    failed = {landed.table.name: landed.error.message for landed in results if landed.error}
    names = [landed.table.name for landed in results]
    remembered = Shared.of(spark).remembered(f"failures in {schema}")
    try:
        if not remembered.keys() >= set(names):
            if not spark.catalog.databaseExists(schema):
                return
            remembered |= dict.fromkeys(names, False) | dict.fromkeys(_names(spark, schema), True)
        mended = [name for name in names if remembered[name] and name not in failed]
        # Whoever drops the schema drops what it remembers.
        if mended and (known := failures(schema).read(spark)) is not None:
            failures(schema).write(spark, known.where(F.col("source_table").isin(mended)), "delete")
        if failed:
            at = datetime.now(UTC)
            rows = [(name, at, message) for name, message in failed.items()]
            news = spark.createDataFrame(rows, "source_table string, failed_at timestamp, message string")
            failures(schema).write(spark, news, "upsert")
        remembered |= {name: name in failed for name in names}
    except (LakeError, PySparkException, Py4JJavaError) as error:
        # The run's own result tells what failed; where nothing can be written, this cannot be either.
        log.warning("what failed cannot be kept for `lake status`: %s", root_cause(error))


def _names(spark: SparkSession, schema: str) -> list[str]:
    known = failures(schema).read(spark)
    return [] if known is None else [row["source_table"] for row in known.select("source_table").collect()]


def error_of(table: Table, error: Exception) -> LakeError:
    """What kept a table from being landed, as an error of the family: `UnavailableError` where it may pass."""
    passes = may_pass(error)
    if isinstance(error, LakeError):
        if not passes or isinstance(error, UnavailableError):
            return error
        return UnavailableError(error.found, where=error.where, expected=error.expected, action=error.action)
    action = s3.to_do(str(error))
    return (UnavailableError if passes else LakeError)(
        root_cause(error),
        where=table.relation,
        action=f"{f'{action}; ' if action else ''}nothing of this batch was landed; `--debug` shows the whole error",
    )
