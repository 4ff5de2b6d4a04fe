"""One batch of decoded changes becomes one commit of a silver table, by steps that each take and return a `Batch`.

The changes of a key are brought together by one shuffle; its result is materialized, counted once and written from
there. What only some batches need (late changes, values that events lack, truncates, incremental-snapshot rows) is
looked at only where the count finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial, reduce
from typing import Protocol

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from ingest.changes.late import Purged, Truncate, is_late, judge_late, precedes_truncate
from ingest.changes.latest import ranked
from ingest.changes.position import (
    is_read,
    is_unplaced,
    line_of,
    placed_by_delivery,
    with_line,
    with_place_in_file,
    with_position,
)
from ingest.changes.truncates import truncated_rows
from ingest.changes.unavailable import with_removed_values
from ingest.config.tables import Table
from ingest.errors import InputError
from ingest.landing.completion import as_silver, told_again, with_every_value
from ingest.landing.signs import one_table, tell_of_an_older_log
from ingest.landing.summary import Summary, is_last, summary_columns
from ingest.landing.tombstones import knowing_deletes, with_unexplained
from ingest.schema.connectors import order_of
from ingest.silver import change_log, quarantine
from ingest.silver.agreement import derived_of, metadata_of
from ingest.silver.erased_keys import knowing_erased, without_erased
from ingest.silver.places import with_departures
from ingest.silver.state import NONE_ARRIVED, Counts, State
from ingest.silver.table import SilverTable
from ingest.sources.kinds import delivers_files
from ingest.spark.prepared import planned, prepared
from ingest.spark.shared import Shared


class MisreadError(Exception):
    """Events are not written as the examples of their batch are: they have to be read without relying on these."""


class _Keep(Protocol):
    """Materializes a frame's rows for as long as the batch is worked on (see `_kept`)."""

    def __call__(self, frame: DataFrame, *, at_once: bool = False) -> DataFrame: ...


@dataclass(frozen=True)
class Batch:
    """The changes of a batch, and what the steps so far have found of them.

    Attributes
    ----------
    silver, state:
        The table, and the state in its last commit; None where there is no table yet.
    before:
        That state, or the one before every commit, with what the batch tells of deletes.
    keep:
        Materializes rows until the batch is committed.
    replayed:
        Where all changes come back from the quarantine: how many of them are counted. Else None.
    changes:
        All changes; with their positions once they are placed.
    rows:
        The changes to be written, one a key; in the end in silver's columns.
    found:
        What the batch is made of.
    counts:
        What becomes of each event.
    bad:
        The changes that are set aside: those that are bad by themselves first, then what a step found.
    incomplete:
        Changes that may lack values.
    winners:
        Late changes that win against silver, with the positions they win by; None where none are late.
    begun:
        Rows of changed keys, as they began (`ingest.landing.completion.with_every_value`); None where there are none.
    arrivals:
        What the commit notes of rows that come to a partition (`ingest.silver.places`).
    """

    silver: SilverTable
    state: State | None
    before: State
    keep: _Keep
    replayed: int | None
    changes: DataFrame
    rows: DataFrame
    found: Summary = field(default_factory=Summary)
    counts: Counts = field(default_factory=Counts)
    bad: tuple[DataFrame, ...] = ()
    incomplete: tuple[DataFrame, ...] = ()
    winners: DataFrame | None = None
    begun: DataFrame | None = None
    arrivals: str | None = NONE_ARRIVED

    @property
    def table(self) -> Table:
        """The declared table, with the columns that silver will have."""
        return self.silver.table

    @property
    def truncate(self) -> Truncate:
        """The last one, of this batch or before it."""
        before, found = self.before, self.found
        if found.truncated > before.truncated:
            return Truncate(found.truncated, found.truncated_ms)
        return Truncate(before.truncated, before.truncated_ms)


def apply(
    silver: SilverTable,
    state: State | None,
    decoded: DataFrame,
    position: str,
    *,
    share: float = 1.0,
    replayed: int | None = None,
) -> Counts:
    """Orders, judges and commits the changes, with the source's new position and the counts.

    Parameters
    ----------
    state:
        Of the table's last commit; None where there is no table yet.
    decoded:
        Decoded changes (see `ingest.schema.change`).
    position:
        What the source has been read up to.
    share:
        The part of the unread input that these changes are: a new table is made for all of it.
    replayed:
        Where all changes come back from the quarantine: how many of them the table's totals have counted already. Those
        of a run that was killed are not counted.

    Returns
    -------
    What became of each event of the batch.

    Raises
    ------
    MisreadError
        The changes were read by examples, and some are otherwise. Nothing was written.
    InputError
        The declaration wants the batch refused: a truncate, or too many bad events.
    WriteError
        The lake cannot be written, or the counts do not add up. Nothing of the batch is visible then.
    """
    epoch = silver.table.options.epoch
    before = state or knowing_erased(silver.spark, silver.table, State.none(epoch))
    if before.epoch < epoch:
        before = replace(before, unplaced="")
    with ExitStack() as stack:

        def keep(frame: DataFrame, *, at_once: bool = False) -> DataFrame:
            return stack.enter_context(_kept(frame, at_once=at_once))

        batch = Batch(silver, state, before, keep, replayed, changes=decoded, rows=decoded)
        for step in (_place, _latest, _truncate, _late, _complete, _move, _empty):
            batch = step(batch)
        return _commit(batch, position, share)


def _place(batch: Batch) -> Batch:
    """The changes with their positions; those of erased keys mean nothing.

    Files of a table without a key have their lines for their order: its rows are known by their places, and a file that
    is read again may be read in other parts. What comes back from the quarantine has its line already, and the place
    that it had.
    """
    table, changes = batch.table, batch.changes
    if not table.key and batch.replayed is not None:
        changes = with_place_in_file(changes.withColumn("_lake_line", F.col("_lake_order")), table)
    elif not table.key and delivers_files(table):
        changes = with_place_in_file(with_line(changes, changes), table)
    placed = prepared(changes, f"positions of {table.relation}", table, partial(with_position, table=table))
    changes, before = without_erased(placed, table, batch.before)
    return replace(batch, changes=planned(changes), before=before)


def _latest(batch: Batch) -> Batch:
    """The last change of each key, and what the batch is made of."""
    table, before = batch.table, batch.before
    batch = _counted(batch)
    if batch.found.misread:
        raise MisreadError(f"{batch.found.misread} events of {table.relation} are not written as the first ones are")
    unexplained = with_unexplained(batch)
    batch = _counted(unexplained) if unexplained else batch
    if batch.found.mixed:
        batch = _counted(replace(batch, changes=placed_by_delivery(batch.changes, table)))
    found = batch.found
    return replace(
        batch,
        before=knowing_deletes(before, found, table, set_aside=unexplained is not None),
        counts=found.counts,
        bad=(batch.rows.where("_lake_outcome = 'quarantined'"),),
        rows=batch.rows.where("_lake_outcome is null"),
    )


@contextmanager
def _kept(frame: DataFrame, *, at_once: bool = False) -> Iterator[DataFrame]:
    """The frame's rows, computed once, for as long as the block runs: at once, or by the first job that wants them.

    A local checkpoint keeps Spark's own rows. `persist` would turn them into compressed columns first: 0.85 of the
    2.0 s that TICKIT's sale took to be ordered and counted (bench/results/snapshot.md).
    """
    held = frame.localCheckpoint(eager=at_once)
    try:
        yield held
    finally:
        held._jdf.queryExecution().logical().rdd().unpersist(False)


# What `ranked` adds that only the count needs.
_RANKS = ("_lake_rank", "_lake_repeated", "_lake_mixed", "_lake_is_oldest", "_lake_says_deletes")


def _counted(batch: Batch) -> Batch:
    """The last change of each key, materialized, and what became of the rest: counted by the same job."""
    table, before = batch.table, batch.before
    spark = batch.silver.spark
    observed = Observation()
    always = Shared.of(spark).built(f"counts of {table.relation}", table, partial(summary_columns, table))
    late = F.count_if(is_last() & is_late(before.watermark, before.unplaced, table)).alias("late")
    ordered = prepared(batch.changes, f"ranks of {table.relation}", table, partial(ranked, table=table))
    rows = ordered.observe(observed, late, *always)
    last = batch.keep(rows.where("_lake_rank = 1").drop(*_RANKS), at_once=True)
    return replace(batch, rows=last, found=Summary(**observed.get))


def _truncate(batch: Batch) -> Batch:
    """Without the changes that are older than the batch's truncates, where these are to be applied."""
    table, truncates = batch.table, batch.found.truncates
    if truncates and table.options.truncate == "fail":
        raise InputError(
            f"{truncates} truncates of the source table",
            where=table.relation,
            expected="none: the declaration says truncate: fail",
            action="declare truncate: apply, ignore or quarantine and run again; nothing of this batch was landed",
        )
    if not truncates:
        return batch
    gone = precedes_truncate(batch.truncate, table)
    counts = batch.counts.moved(batch.rows.where(gone).count(), "applied", "superseded")
    return replace(batch, rows=batch.rows.where(~gone), counts=counts)


def _late(batch: Batch) -> Batch:
    """Without the changes that lose against silver. Only late changes can; the rest is not looked at.

    Late changes, winning or losing, of rows that silver holds with a value of an older change may bring a value.
    """
    if not batch.found.late or batch.state is None:
        return batch
    table, before = batch.table, batch.before
    is_one = is_late(before.watermark, before.unplaced, table)
    judged = batch.keep(
        judge_late(
            batch.rows.where(is_one),
            batch.silver.read(),
            table,
            number=batch.found.late,
            truncate=batch.truncate,
            purged=Purged(before.purged, before.purged_ms),
            awaits_deletes=before.awaits_deletes,
        )
    )
    carries = F.count_if(F.col("_lake_held_carried").isNotNull())
    streamed = F.count_if(~is_read() & ~is_unplaced(table))
    counted = (F.count("*").alias("events"), carries.alias("carries"), streamed.alias("streamed"))
    found = judged.groupBy("_lake_outcome").agg(*counted).collect()
    outcomes = {row["_lake_outcome"]: row["events"] for row in found}
    if batch.found.newest <= before.watermark and not outcomes.get("duplicate"):
        tell_of_an_older_log(table, sum(row["streamed"] for row in found if row["_lake_outcome"] == "superseded"))
    winners = judged.where("_lake_outcome is null").drop("_lake_held_carried")
    counts, bad, incomplete = batch.counts, batch.bad, batch.incomplete
    for outcome in ("superseded", "duplicate", "quarantined"):
        counts = counts.moved(outcomes.get(outcome, 0), "applied", outcome)
    if outcomes.get("quarantined"):
        undecidable = judged.where("_lake_outcome = 'quarantined'").drop("_lake_held_carried")
        bad = (*bad, undecidable.withColumns(told_again(table)))
    if any(row["carries"] for row in found):
        incomplete = (*incomplete, judged.where("_lake_held_carried is not null").drop("_lake_held_carried"))
    rows = batch.rows.where(~is_one).unionByName(winners)
    return replace(batch, rows=rows, counts=counts, bad=bad, incomplete=incomplete, winners=winners)


def _complete(batch: Batch) -> Batch:
    """The rows in silver's columns, with the values that their events lack, where an earlier change has them."""
    table, found = batch.table, batch.found
    if found.unavailable and table.key:
        lacking = batch.rows.where("_lake_unavailable is not null")
        batch = replace(batch, incomplete=(*batch.incomplete, lacking))
    if batch.incomplete:
        batch = with_every_value(batch)
    rows = batch.rows
    if found.removed:
        rows = with_removed_values(rows, batch.changes, table, number=found.removed)
    return replace(batch, rows=prepared(rows, f"rows of {table.relation}", table, partial(as_silver, table=table)))


def _move(batch: Batch) -> Batch:
    """With departures of the rows of silver that change their partition, where its index does not find them."""
    state = batch.state
    if state is None or not batch.silver.is_bucketed_by_partition(state):
        return batch
    rows, arrivals = with_departures(batch.silver, batch.rows, number=batch.found.keys, keep=batch.keep)
    return replace(batch, rows=rows, arrivals=arrivals)


def _empty(batch: Batch) -> Batch:
    """With tombstones of the rows of silver that a truncate of the batch empties."""
    table, before = batch.table, batch.before
    # One that is delivered again has emptied the table already.
    is_new = _log_of(batch.found.truncated) > _log_of(before.truncated)
    if not batch.found.truncates or batch.state is None or not is_new:
        return batch
    emptied = truncated_rows(batch.silver.read(), table, batch.truncate)
    key = table.record_key
    others = emptied.join(batch.rows.select(f"`{key}`"), key, "left_anti")
    return replace(batch, rows=batch.rows.unionByName(others))


def _log_of(position: str) -> str:
    return position.partition("/")[0]


def _commit(batch: Batch, position: str, share: float) -> Counts:
    """Writes the quarantine, the history and silver, in this order; what became of each event."""
    table, silver, state = batch.table, batch.silver, batch.state
    batch.counts.require_conservation(where=table.relation)
    tables = one_table(table, batch.before, batch.found.first_table, batch.found.last_table)
    if batch.replayed is None:
        _require_limit(table, batch.counts)
    if batch.counts.quarantined:
        batch = _set_aside(batch)
    found, counts, replayed, before = batch.found, batch.counts, batch.replayed, batch.before
    totals = before.totals + (counts if replayed is None else counts.as_replayed(replayed))
    new = replace(
        before,
        position=position,
        watermark=max(before.watermark, found.newest),
        buckets=before.buckets if state else silver.buckets_for(round(found.keys / share), batch.rows),
        counts=counts,
        totals=totals,
        epoch=max(before.epoch, table.options.epoch),
        epoch_begin=before.position if before.epoch < table.options.epoch else before.epoch_begin,
        truncated=batch.truncate.position,
        truncated_ms=batch.truncate.source_ms,
        # Offsets of an epoch that is over say nothing of this one.
        unplaced=max(before.unplaced, found.unplaced if table.options.epoch >= before.epoch else ""),
        columns=silver.column_types,
        hashed=silver.hashed,
        key=table.key,
        partition_by=tuple(table.options.partition_by),
        derived=derived_of(table),
        metadata=metadata_of(table),
        order=order_of(table).told,
        told={column.name: column.told for column in table.columns if column.told},
        tables=tables,
        has_history=table.options.history,
        counted="",
    )
    if table.options.history:
        written = change_log.put(
            silver,
            state,
            batch.changes,
            buckets=new.buckets,
            raised=batch.winners,
            filled=batch.begun,
            set_aside=batch.bad[1:],
            truncate=batch.truncate if found.mixed or found.unplaced else None,
        )
        new = replace(new, history=written)
    silver.write(batch.rows, new, first=state is None, arrivals=batch.arrivals)
    return counts


def _set_aside(batch: Batch) -> Batch:
    """Writes the bad changes to the quarantine; those that wait there already are counted as duplicates."""
    silver, state = batch.silver, batch.state
    every = reduce(DataFrame.unionByName, [frame.select(*quarantine.TAKES) for frame in batch.bad])
    order = F.col("_lake_order")
    if batch.replayed is not None:
        # A replayed event has its line in its order, and was counted when it was set aside.
        line = F.when(quarantine.has_offset(), order).otherwise(line_of(order))
        _, instant = quarantine.put(silver.spark, silver.table, every.withColumn("_lake_line", line))
        return replace(batch, before=replace(batch.before, quarantine=instant))
    # A record has its order for a line: it tells it from others of its offset.
    ordered = every.withColumn("_lake_line", order)
    lines = batch.keep(with_line(every, batch.changes) if delivers_files(batch.table) else ordered)
    quarantine.tell_of_lost(silver, state, anew=True)
    again, instant = quarantine.put(silver.spark, silver.table, lines, state.counted_until if state else None)
    counts = batch.counts.moved(again, "quarantined", "duplicate")
    return replace(batch, counts=counts, before=replace(batch.before, quarantine=instant))


def _require_limit(table: Table, counts: Counts) -> None:
    limit = table.options.quarantine_limit
    if limit is None:
        return
    allowed = min(
        counts.read if limit.rows is None else limit.rows,
        # In decimals, as it is declared: 0.29 of 100 are 29, and as floating-point numbers less.
        counts.read if limit.share is None else int(Decimal(str(limit.share)) * counts.read),
    )
    if counts.quarantined > allowed:
        raise InputError(
            f"{counts.quarantined} of {counts.read} events cannot be applied",
            where=table.relation,
            expected=f"at most {allowed} (quarantine_limit)",
            action="`lake ingest` with a higher limit sets them aside and names them; nothing of this batch was landed",
        )
