"""What a source's quarantine holds, as rows to show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest.config.sources_file import Source
from ingest.landing.transactions import is_consistent, topic_table
from ingest.silver import quarantine

# The columns of `quarantined_by_reason`, and of `quarantined`.
LISTED = ("source_table", "topic", "partition", "offset", "reason_code", "reason", "events", "last_at")
_PLACE = ("source_table", "topic", "partition", "offset", "file", "line")
SHOWN = (*_PLACE, "reason_code", "reason", "record_key", "raw")


def quarantined_by_reason(spark: SparkSession, source: Source) -> list[dict[str, Any]]:
    """How many events of each table, topic and reason are quarantined; the most frequent reason of a table first.

    Returns
    -------
    list
        Rows with the columns `LISTED`: `partition` and `offset` are those of the first event, `last_at` is when the
        last was quarantined, as text.
    """
    events = quarantine.events(spark, source)
    if events is None:
        return []
    rows = (
        events.groupBy("source_table", "topic", "reason_code", "reason")
        .agg(
            F.count("*").alias("events"),
            F.min(F.struct("partition", "offset")).alias("first"),
            F.max("quarantined_at").cast("string").alias("last_at"),
        )
        .select("*", "first.partition", "first.offset")
        .orderBy("source_table", F.col("events").desc())
        .collect()
    )
    return [{name: row[name] for name in LISTED} for row in rows]


def quarantined(
    spark: SparkSession, source: Source, *, tables: Sequence[str] = (), limit: int = 20
) -> list[dict[str, Any]]:
    """Quarantined events of some tables, or of all where none is named, in the order of their places.

    Returns
    -------
    list
        At most `limit` rows with the columns `SHOWN`: `record_key` and `raw` are what was read, as text.
    """
    events = quarantine.events(spark, source)
    if events is None:
        return []
    chosen = events.where(F.col("source_table").isin(list(tables))) if tables else events
    rows = (
        chosen.withColumns({name: F.decode(name, "UTF-8") for name in ("record_key", "raw")})
        .orderBy(*_PLACE)
        .limit(limit)
        .collect()
    )
    return [{name: row[name] for name in SHOWN} for row in rows]


def undeclared(spark: SparkSession, source: Source) -> dict[str, int]:
    """How many events are quarantined of tables that are not declared, by their names: no replay reaches them."""
    events = quarantine.events(spark, source)
    if events is None:
        return {}
    topics = [topic_table(source.tables[0])] if is_consistent(source.tables) else []
    declared = [table.name for table in (*source.tables, *topics)]
    counted = events.where(~F.col("source_table").isin(declared)).groupBy("source_table").count()
    return {row["source_table"]: row["count"] for row in counted.orderBy("source_table").collect()}
