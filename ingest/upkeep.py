"""Jobs that run beside ingest, at any time: they commit to silver without losing its position."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest import history
from ingest.declaration import Table
from ingest.errors import DeclarationError, WriteError
from ingest.pending import Pending, position_at
from ingest.silver import Counts, SilverTable, State


def keep_up(silver: SilverTable, is_behind: bool) -> None:
    """Compacts a table and its history, where that is due (`SilverTable.compact`).

    Raises
    ------
    WriteError
        Hudi could not write. Nothing is lost then.
    """
    silver.compact(is_behind=is_behind)
    if silver.table.options.history:
        history.changes_of(silver).compact(is_behind=is_behind)


def purge(spark: SparkSession, table: Table, now: datetime | None = None) -> int:
    """Removes the tombstones that are older than the declared retention, for good; how many.

    A tombstone's age is the time since the commit that wrote it. Silver remembers the greatest position of those it
    removed: an event that turns up later, is not newer than that, and is of a key silver does not know, may be older
    than the delete of its row. Nothing can tell any more; it is quarantined.

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
    silver, state = _landed(spark, table)
    until = (now or datetime.now(UTC)) - timedelta(days=days)
    # Hudi writes instants as yyyyMMddHHmmssSSS in the JVM's time zone, which the profile sets to UTC.
    instant = until.astimezone(UTC).strftime("%Y%m%d%H%M%S%f")[:17]
    old = silver.read().where("__deleted = 'true'").where(F.col("_hoodie_commit_time") < instant)
    found = old.agg(F.count("*").alias("rows"), F.max("__position").alias("newest")).first()
    assert found is not None
    if found["rows"]:
        kept = replace(state, counts=Counts(), purged=max(state.purged, found["newest"]))
        silver.delete(old, kept)
        silver.register()
    return int(found["rows"])


def set_position(spark: SparkSession, table: Table, *, to_latest: bool) -> Pending:
    """Decides what counts as landed: all that the source has, or nothing of it; what waits afterwards.

    Events that are landed again do no harm: silver knows them by their positions.

    Raises
    ------
    InputError
        The input is not there.
    WriteError
        There is no such table, or the lake cannot be written.
    """
    silver, state = _landed(spark, table)
    position, pending = position_at(spark, table, to_latest=to_latest)
    nothing = silver.read().limit(0)
    silver.write(nothing.select(*silver.columns()), replace(state, counts=Counts(), position=position), first=False)
    silver.register()
    return pending


def _landed(spark: SparkSession, table: Table) -> tuple[SilverTable, State]:
    silver = SilverTable.of(spark, table)
    state = silver.state()
    if state is None:
        raise WriteError(
            "there is no such table yet", where=table.relation, action=f"run `lake ingest {table.source}` first"
        )
    return silver, state
