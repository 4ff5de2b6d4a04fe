"""Late changes, judged by what silver holds."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.changes.latest import may_tie, whole_row
from ingest.changes.position import (
    EVENT,
    FEW,
    Names,
    as_it_is,
    behind,
    delivered_at,
    delivery_of,
    epoch_of,
    is_delete,
    is_one_change,
    is_placed_by_lsn,
    is_read,
    is_unplaced,
    log_of,
    partition_of,
    was_open,
)
from ingest.config.tables import Table
from ingest.schema.change import problem as problem_of
from ingest.schema.connectors import order_of


def is_late(watermark: str, unplaced: str, table: Table) -> Expression:
    """Whether a change may be older than, or the same as, what was landed before it.

    An event that is delivered again has a new offset: it is known by its log position. Rows of one snapshot share
    theirs; those beyond the watermark are not looked up, as they are many, unless their file may be a late one.

    `unplaced`: the last offset at which a change without a log position was landed, in whichever partition.
    """
    before, _, delivered = watermark.partition("/")
    # Of a snapshot's rows, those that were written to their topic before what was landed: their file is a late one.
    overtaken = is_read() & (delivery_of(F.col("__position")) < delivery_of(F.lit(f"/{delivered}")))
    if is_placed_by_lsn(table) and watermark:
        # Offsets of two partitions say nothing of each other: of the first batch of a later snapshot each row is looked
        # up. Then the watermark has the snapshot's own place.
        is_beside = partition_of(F.col("__position")) == partition_of(F.lit(watermark))
        overtaken |= is_read() & ~is_beside & (log_of() != before)
    same_place = (log_of() == before) & ~is_read()
    late = (F.col("__position") <= watermark) | same_place | overtaken
    # A row without a log position holds whatever was delivered before it, however great its place in the log.
    return late | (delivery_of(F.col("__position")) < unplaced) if unplaced else late


class Truncate(NamedTuple):
    """The source's last truncate: its `__position`, '' for none, and its `__source_ts_ms`."""

    position: str = ""
    source_ms: int | None = None


class Purged(NamedTuple):
    """The tombstones that were removed for good: their greatest `__position`, '' for none, and `__source_ts_ms`."""

    position: str = ""
    source_ms: int | None = None


def precedes_truncate(truncate: Truncate, table: Table) -> Expression:
    """Whether a change is older than the truncate.

    Of one without a log position its delivery says it, by the offset. Those of two partitions say nothing of each
    other, and a truncate has no key, so that it comes in any partition: there the times in the source decide, and a
    change without one stays. A new epoch counts its offsets anew.
    """
    at = truncate.position.partition("/")[2]
    delivered = F.substring_index("__position", "/", -1)
    is_earlier = F.coalesce(F.col("__source_ts_ms") < F.lit(truncate.source_ms).cast("bigint"), F.lit(False))
    is_of_before = epoch_of(F.col("__position")) < epoch_of(F.lit(truncate.position))
    by_delivery = is_of_before | F.when(_is_beside(truncate.position), delivered < at).otherwise(is_earlier)
    return F.when(is_unplaced(table), by_delivery).otherwise(F.col("__position") < truncate.position)


def _is_beside(position: str) -> Expression:
    """Whether a change was delivered in the partition of that position."""
    return partition_of(F.col("__position")) == position.partition("/")[2].partition("-")[0]


def judge_late(
    late: DataFrame,
    silver: DataFrame,
    table: Table,
    *,
    number: int,
    truncate: Truncate,
    purged: Purged,
    awaits_deletes: bool,
) -> DataFrame:
    """Late changes against what silver holds.

    Parameters
    ----------
    late:
        Changes, one per key, that `is_late` finds.
    number:
        How many there are. Few are sent to every task; many, as of a table that is delivered once more, are shuffled.
    silver:
        The silver table, tombstones included.
    truncate:
        The last one: what is older is gone.
    purged:
        The tombstones that were removed for good: of a key that silver does not know, an event at or before the
        greatest of their positions may be older than its delete, and nothing can say so any more. A change without a
        log position is at or before it where it was delivered before it in its partition. A delete changes nothing
        there. Where positions of two rows say nothing of each other, the times in the source do.
    awaits_deletes:
        Bare tombstones wait in the quarantine, and may be replayed as deletes: a change that is delivered again moves
        its row behind those between the two, which a connector that goes on from further back sends again as well.

    Adds
    ----
    `_lake_outcome` string:
        'duplicate', 'superseded', 'quarantined', or null where the change wins.
    `_lake_held_carried` string:
        `__carried` of the row that silver holds.
    """
    joined = _with_held(late, silver, table, number=number).withColumn("_lake_unplaced", is_unplaced(table))
    joined = joined.withColumn("__position", F.coalesce(_raised(table, purged.position), F.col("__position")))
    counts_again = _counts_again(table, awaits_deletes=awaits_deletes)
    outcome = _outcome(table, counts_again, truncate=truncate, purged=purged)
    problem = F.when(
        outcome == "quarantined",
        problem_of("purged", "older than deletes that were purged: it may have been deleted since"),
    ).otherwise(F.col("_lake_problem"))
    return joined.withColumns({"_lake_outcome": outcome, "_lake_problem": problem}).drop(
        "_lake_held",
        "_lake_held_op",
        "_lake_held_sequence",
        "_lake_held_lsn",
        "_lake_held_key",
        "_lake_held_row",
        "_lake_held_unplaced",
        "_lake_unplaced",
        "_lake_held_deleted",
    )


def _with_held(late: DataFrame, silver: DataFrame, table: Table, *, number: int) -> DataFrame:
    """Late changes with what silver holds of their keys, as `_lake_held...`; null where it knows no such key."""
    held_columns = [F.col("__position").alias("_lake_held"), F.col("__op").alias("_lake_held_op")]
    carried = F.when(~is_delete(), F.col("__carried"))
    held_columns += [carried.alias("_lake_held_carried"), is_unplaced(table).alias("_lake_held_unplaced")]
    held_columns.append((F.col("__deleted") == "true").alias("_lake_held_deleted"))
    if is_placed_by_lsn(table):
        held_columns += [
            F.col("__source_sequence").alias("_lake_held_sequence"),
            F.col("__lsn").alias("_lake_held_lsn"),
        ]
    if may_tie(table) is not None:
        held_columns.append(whole_row(table).alias("_lake_held_row"))
    key = f"`{table.record_key}`"
    held = silver.select(F.col(key).alias("_lake_held_key"), *held_columns)
    same_key = F.col(key) == F.col("_lake_held_key")
    send = F.broadcast if number <= FEW else as_it_is
    relevant = held.join(send(late.select(key)), same_key, "left_semi")
    return late.join(send(relevant), same_key, "left")


def _is_after() -> Expression:
    """Whether a change was delivered after the one that silver holds."""
    return delivered_at("__position") > delivered_at("_lake_held")


def _raised(table: Table, purged: str) -> Expression:
    """The position of a change that counts against a held one with a greater place in the log, or may count against one
    that was purged, which a log file of Hudi still knows; null of any other."""
    position, offset = F.col("__position"), F.substring_index("__position", "/", -1)
    log, held_log = log_of(), F.substring_index("_lake_held", "/", 1)
    # What a row without a position of its own comes after is known now.
    raised = F.when(F.col("_lake_unplaced") & _is_after() & (log < held_log), F.concat(held_log, F.lit("/"), offset))
    purged_log = F.lit(purged.partition("/")[0])
    is_unknown = F.col("_lake_unplaced") & F.col("_lake_held").isNull() & (log < purged_log)
    raised = raised.when(is_unknown, F.concat(purged_log, F.lit("/"), offset))
    raised = raised.when(_is_moved(table) & ~_is_after(), behind(F.col("_lake_held")))
    if not is_placed_by_lsn(table):
        return raised
    of_held = Names("_lake_held_sequence", "_lake_held_lsn", "_lake_held")
    counts = ~is_read() & (log < held_log) & was_open(EVENT, of_held, F.col("_lake_held_op") == "r")
    from_held = F.concat(F.substring_index("_lake_held", ".", 2), F.lit("."), F.substring_index(position, ".", -1))
    return raised.when(counts, from_held)


def _is_overtaken(table: Table) -> Expression:
    """Whether the change of a transaction that was open is there, and the row that a snapshot read comes late."""
    if not is_placed_by_lsn(table):
        return F.lit(False)
    is_before = ~_is_after() & ~_is_in_other_partition()
    return F.coalesce(is_read() & is_before & (F.col("_lake_held_op") != "r"), F.lit(False))


def _is_moved(table: Table) -> Expression:
    """Whether the held row is gone by the same change of the log that writes it (`is_one_change`)."""
    is_gone = (F.col("_lake_held_op") == "d") & ~F.col("_lake_held_unplaced")
    is_write = ~is_delete() & ~is_read() & ~F.col("_lake_unplaced")
    is_at_held = log_of() == F.substring_index("_lake_held", "/", 1)
    return is_gone & is_write & is_at_held & is_one_change(table, _is_in_other_partition())


def _is_in_other_partition() -> Expression:
    """Whether a change was delivered in another partition than the one that silver holds."""
    return partition_of(F.col("__position")) != partition_of(F.col("_lake_held"))


def _counts_again(table: Table, *, awaits_deletes: bool) -> Expression:
    """Whether a change at the place of the held one is another one, and counts. May be null, for no."""
    after = _is_after()
    # A snapshot may read a row again at the same position: the later reading counts.
    counts_again = is_read() & (F.col("__position") > F.col("_lake_held"))
    # A tombstone deletes what was delivered before it, unless it is deleted; what comes after one may be the row anew.
    counts_again |= F.col("_lake_unplaced") & after & ~F.col("_lake_held_deleted")
    counts_again |= F.col("_lake_held_unplaced") & F.col("_lake_held_deleted") & after & ~F.col("_lake_unplaced")
    if awaits_deletes:
        counts_again |= after & ~F.col("_lake_unplaced")
    # What a row was read before by a read-only incremental snapshot, and what writes a row that it has deleted.
    counts_again |= (F.col("_lake_held_op") == "r") & ~is_read() & after
    counts_again |= _is_moved(table)
    ties = may_tie(table)
    if ties is not None:
        # Where a log does not tie, it is the same change again; elsewhere the later delivery of another row counts.
        is_gone = is_delete() & (F.col("_lake_held_op") != "d") & is_one_change(table, _is_in_other_partition())
        counts_again |= ties & after & ~is_gone & ~whole_row(table).eqNullSafe(F.col("_lake_held_row"))
    return counts_again


def _outcome(table: Table, counts_again: Expression, *, truncate: Truncate, purged: Purged) -> Expression:
    """`_lake_outcome`, of changes with their raised positions."""
    position, log, held_log = F.col("__position"), log_of(), F.substring_index("_lake_held", "/", 1)
    # The delete itself, in a file that is read again beside others, has another order within it.
    up_to = F.when(is_delete() & ~F.col("_lake_unplaced"), log).otherwise(position)
    is_before = (up_to <= purged.position) & (~F.col("_lake_unplaced") | _is_beside(purged.position))
    if order_of(table).is_of_each_row and purged.source_ms is not None:
        is_before = F.coalesce(F.col("__source_ts_ms") <= purged.source_ms, is_before)
    unknowable = F.col("_lake_held").isNull() & is_before
    # What was written before a topic got more partitions is in another one: no offset tells which came first.
    held_by_delivery = F.col("_lake_held_unplaced") & ~(_is_in_other_partition() & (log > held_log))
    return (
        F.when(precedes_truncate(truncate, table), "superseded")
        .when(unknowable, F.when(is_delete(), "superseded").otherwise("quarantined"))
        # The one that was delivered later counts, where one of them has no other place.
        .when((F.col("_lake_unplaced") | held_by_delivery) & ~_is_after(), "superseded")
        .when((log == held_log) & ~F.coalesce(counts_again, F.lit(False)), "duplicate")
        .when(log < held_log, "superseded")
        .when(_is_overtaken(table), "superseded")
    )
