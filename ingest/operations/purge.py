"""Removes tombstones for good, once their retention is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest.config.tables import Table
from ingest.errors import DeclarationError
from ingest.silver.state import State
from ingest.silver.table import SilverTable
from ingest.silver.timeline import instant_of


def purge(spark: SparkSession, table: Table, now: datetime | None = None) -> int:
    """Removes the tombstones that are older than the declared retention, for good; how many.

    A tombstone's age is the time since the commit that wrote it. Silver remembers the greatest position of those it
    removed: an event that turns up later, is not newer than that, and is of a key silver does not know, may be older
    than the delete of its row. Nothing can tell any more; it is quarantined. Where each row has an order of its own (a
    version, the shards of DynamoDB), the greatest time in the source says it instead.

    Raises
    ------
    DeclarationError
        The table does not declare `deletes: hard`.
    WriteError
        There is no such table, or the lake cannot be written.
    """
    days = table.options.delete_retention_days
    if days is None:
        raise DeclarationError(
            "deletes: soft keeps every tombstone",
            where=f"{table.where}: config.meta.ingest.deletes",
            expected="deletes: hard with delete_retention_days",
        )
    silver = SilverTable.of(spark, table)
    with silver.writing():
        return _purge(silver, silver.required_state(), days, now)


def _purge(silver: SilverTable, state: State, days: int, now: datetime | None) -> int:
    silver.require_buckets(state)
    until = (now or datetime.now(UTC)) - timedelta(days=days)
    old = silver.read().where("__deleted = 'true'").where(F.col("_hoodie_commit_time") < instant_of(until))
    newest, last = F.max("__position").alias("newest"), F.max("__source_ts_ms").alias("last_ms")
    found = old.agg(F.count("*").alias("rows"), F.count("__source_ts_ms").alias("timed"), newest, last).first()
    assert found is not None
    if found["rows"]:
        # Of what an earlier version has purged no time is known, nor of a delete that does not say it.
        is_timed = found["timed"] == found["rows"] and (state.purged_ms is not None or not state.purged)
        last_ms = max(found["last_ms"], state.purged_ms or found["last_ms"]) if is_timed else None
        kept = state.after_removal(purged=max(state.purged, found["newest"]), purged_ms=last_ms)
        silver.delete(old, kept)
        silver.register()
    return int(found["rows"])
