"""One batch of decoded changes becomes one commit of a silver table.

The changes of a key are brought together by one shuffle; its result is kept, counted once and written from there. What
only some batches need (late changes, values that events lack, truncates, rows read amid the stream) is looked at only
where the count finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from ingest.changes.late import is_late, judge_late, precedes_truncate
from ingest.changes.latest import ranked
from ingest.changes.position import placed_by_delivery, unplaced_offset, with_line, with_position
from ingest.changes.truncates import truncated_rows
from ingest.changes.unavailable import (
    completed,
    key_changes,
    may_be_moved,
    removed_values,
    with_removed_values,
)
from ingest.config.tables import Table
from ingest.decode.decoded import EVENT_AS_JSON, MISREAD
from ingest.errors import InputError
from ingest.schema.change import metadata_columns, silver_columns
from ingest.schema.masking import MASKED_FORM
from ingest.silver import change_log, quarantine
from ingest.silver.erased_keys import without_erased
from ingest.silver.state import Counts, State
from ingest.silver.table import SilverTable
from ingest.sources.kinds import delivers_files


class _Keep(Protocol):
    """Keeps a frame's rows for as long as the batch is worked on (see `_kept`)."""

    def __call__(self, frame: DataFrame, *, at_once: bool = False) -> DataFrame: ...


class MisreadError(Exception):
    """Events are not written as the examples of their batch are: they have to be read without relying on these."""


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
        The part of all that waits that these changes are: a new table is made for all of it.
    replayed:
        How many of the changes come back from the quarantine, where all of them do: the table's totals have counted
        them already.

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
    table = silver.table
    before = state or State.none(table.options.epoch)
    if before.epoch != table.options.epoch:
        before = replace(before, unplaced="")
    with ExitStack() as stack:

        def keep(frame: DataFrame, *, at_once: bool = False) -> DataFrame:
            return stack.enter_context(_kept(frame, at_once=at_once))

        changes, last, told = _arranged(_placed(decoded, table, replayed), table, before, keep)
        _require_no_truncate(table, told)
        before = _knowing_deletes(before, told, table)
        counts = Counts(
            read=told.events,
            applied=told.keys + told.truncates,
            superseded=told.superseded,
            duplicate=told.duplicate,
            ignored=told.ignored,
            quarantined=told.quarantined,
        )
        bad = [last.where("_outcome = 'quarantined'")]
        batch = last.where("_outcome is null")
        truncated = max(before.truncated, told.truncated)
        if told.truncates:
            gone = precedes_truncate(truncated, table)
            counts = counts.moved(batch.where(gone).count(), "applied", "superseded")
            batch = batch.where(~gone)
        incomplete: list[DataFrame] = []
        raised, filled = None, None
        if told.late and state is not None:
            batch, judged = _without_late(batch, silver, replace(before, truncated=truncated), told.late, keep)
            for outcome, number in judged.outcomes.items():
                counts = counts.moved(number, "applied", outcome)
            if judged.outcomes["quarantined"]:
                bad.append(judged.undecidable)
            if judged.carries:
                incomplete.append(judged.carried)
            raised = judged.winning
        columns = [f"`{name}`" for name in silver_columns(table)]
        if told.unavailable and table.key:
            incomplete.append(batch.where("_unavailable is not null"))
        if incomplete:
            batch, counts, unfilled, filled = _with_every_value(
                batch, reduce(DataFrame.unionByName, incomplete), changes, silver, state, counts, keep
            )
            bad.append(unfilled)
        if told.removed:
            batch = with_removed_values(batch, changes, table, number=told.removed)
        rows = batch.select(*columns)
        # One that is delivered again has emptied the table already.
        if told.truncates and state is not None and _log_of(told.truncated) > _log_of(before.truncated):
            emptied = truncated_rows(silver.read(), table, truncated)
            rows = rows.unionByName(emptied.join(rows.select(f"`{table.record_key}`"), table.record_key, "left_anti"))
        counts.require_conservation(where=table.relation)
        _require_limit(table, counts)
        if counts.quarantined:
            counts = _set_aside(silver, state, bad, changes, counts, keep, are_replayed=replayed is not None)
        totals = before.totals + (counts if replayed is None else counts.as_replayed(replayed))
        new = State(
            position=position,
            watermark=max(before.watermark, told.newest),
            buckets=before.buckets if state else silver.buckets_for(round(told.keys / share)),
            counts=counts,
            totals=totals,
            epoch=table.options.epoch,
            truncated=truncated,
            purged=before.purged,
            unplaced=max(before.unplaced, told.unplaced),
            columns=silver.column_types,
            hashed=silver.hashed,
            erased=before.erased,
            says_deletes=before.says_deletes,
            awaits_deletes=before.awaits_deletes,
        )
        if table.options.history:
            change_log.put(silver, state, changes, buckets=new.buckets, raised=raised, filled=filled, set_aside=bad[1:])
        silver.write(rows, new, first=state is None)
        return counts


def _placed(decoded: DataFrame, table: Table, replayed: int | None) -> DataFrame:
    """The changes; of files of a table without a key with their lines for their order.

    Its rows are known by their places, and a file that is read again may be read in other parts. What comes back from
    the quarantine has its line already.
    """
    if table.key or replayed is not None or not delivers_files(table):
        return decoded
    return with_line(decoded, decoded).drop("_order").withColumnRenamed("_line", "_order")


def _require_no_truncate(table: Table, told: _Summary) -> None:
    if told.truncates and table.options.truncate == "fail":
        raise InputError(
            f"{told.truncates} truncates of the source table",
            where=table.relation,
            expected="none: the declaration says truncate: fail",
            action="declare truncate: apply, ignore or quarantine and run again; nothing of this batch was landed",
        )


def _arranged(decoded: DataFrame, table: Table, before: State, keep: _Keep) -> tuple[DataFrame, DataFrame, _Summary]:
    """The changes with their positions, the last of each key, and what the batch is made of."""
    changes = without_erased(with_position(decoded, table), table, before.erased)
    last, told = _last_of_each_key(changes, table, before, keep)
    if told.misread:
        raise MisreadError(f"{told.misread} events of {table.relation} are not written as the first ones are")
    tombstones = told.tombstones
    if tombstones and not (told.says_deletes or before.says_deletes):
        # Nothing says whether these are the deletes themselves: they are set aside, with the reason they have.
        changes = changes.withColumn("_ignored", F.col("_ignored") & F.col("_problem").isNull())
        last, told = _last_of_each_key(changes, table, before, keep)
    if told.mixed:
        changes = placed_by_delivery(changes, table)
        last, told = _last_of_each_key(changes, table, before, keep)
    return changes, last, replace(told, tombstones=tombstones)


def _knowing_deletes(before: State, told: _Summary, table: Table) -> State:
    """The state before the batch, with what is known of deletes now."""
    says_deletes = before.says_deletes or told.says_deletes > 0
    may_be_deletes = table.options.tombstones is None and not says_deletes
    awaits_deletes = may_be_deletes and (before.awaits_deletes or told.tombstones > 0)
    return replace(before, says_deletes=says_deletes, awaits_deletes=awaits_deletes)


def _log_of(position: str) -> str:
    return position.partition("/")[0]


@contextmanager
def _kept(frame: DataFrame, *, at_once: bool = False) -> Iterator[DataFrame]:
    """The frame's rows, computed once, for as long as the block runs: at once, or by the first job that wants them.

    A local checkpoint keeps Spark's own rows. `persist` would turn them into compressed columns first: 0.85 of the
    2.0 s that TICKIT's sale took to be ordered and counted (docs/performance.md).
    """
    held = frame.localCheckpoint(eager=at_once)
    try:
        yield held
    finally:
        held._jdf.queryExecution().logical().rdd().unpersist(False)


@dataclass(frozen=True)
class _Summary:
    events: int
    keys: int
    superseded: int
    duplicate: int
    ignored: int
    quarantined: int
    truncates: int
    late: int
    unavailable: int
    mixed: int
    misread: int
    tombstones: int
    says_deletes: int
    removed: int
    newest: str
    truncated: str
    unplaced: str


# What `ranked` adds that only the count needs.
_RANKS = ("_rank", "_repeated", "_mixed", "_is_oldest", "_says_deletes")


def _last_of_each_key(changes: DataFrame, table: Table, before: State, keep: _Keep) -> tuple[DataFrame, _Summary]:
    """The last change of each key, kept, and what became of the rest: told while they are computed, by no job more."""
    good = F.col("_outcome").isNull()
    last = good & (F.col("_rank") == 1)
    is_truncate = F.col("_outcome") == "truncated"
    told = Observation()
    rows = ranked(changes, table).observe(
        told,
        F.count(F.lit(1)).alias("events"),
        F.count_if(last).alias("keys"),
        F.count_if(good & (F.col("_rank") > 1) & ~F.col("_repeated")).alias("superseded"),
        F.count_if(good & F.col("_repeated")).alias("duplicate"),
        F.count_if(F.col("_outcome") == "ignored").alias("ignored"),
        F.count_if(F.col("_outcome") == "quarantined").alias("quarantined"),
        F.count_if(is_truncate).alias("truncates"),
        F.count_if(last & is_late(before.watermark, before.unplaced, table)).alias("late"),
        F.count_if(last & F.col("_unavailable").isNotNull()).alias("unavailable"),
        F.count_if(F.col("_mixed")).alias("mixed"),
        F.count_if(F.col("_problem") == MISREAD).alias("misread"),
        F.count_if(F.col("_ignored") & F.col("_problem").isNotNull()).alias("tombstones"),
        F.count_if("_says_deletes").alias("says_deletes"),
        F.count_if(last & (F.col("__op") == "d") & ~F.col("_is_oldest") & F.lit(may_be_moved(table))).alias("removed"),
        F.coalesce(F.max(F.when(good | is_truncate, F.col("__position"))), F.lit("")).alias("newest"),
        F.coalesce(F.max(F.when(is_truncate, F.col("__position"))), F.lit("")).alias("truncated"),
        F.coalesce(F.max(F.when(last, unplaced_offset(table))), F.lit("")).alias("unplaced"),
    )
    kept = keep(rows.where("_rank = 1").drop(*_RANKS), at_once=True)
    return kept, _Summary(**told.get)


@dataclass(frozen=True)
class _Judged:
    outcomes: dict[str, int]
    winning: DataFrame
    undecidable: DataFrame
    carries: int
    carried: DataFrame


def _without_late(
    batch: DataFrame, silver: SilverTable, before: State, number: int, keep: _Keep
) -> tuple[DataFrame, _Judged]:
    """The batch without the changes that lose against silver. Only late changes can; the rest is not looked at.

    `carried` are the late changes, winning or losing, of rows that silver holds with a value of an older change.
    """
    table = silver.table
    is_one = is_late(before.watermark, before.unplaced, table)
    late = batch.where(is_one)
    held = silver.read()
    judged = keep(
        judge_late(
            late,
            held,
            table,
            number=number,
            truncated=before.truncated,
            purged=before.purged,
            awaits_deletes=before.awaits_deletes,
        )
    )
    carries = F.count_if(F.col("_held_carried").isNotNull())
    rows = judged.groupBy("_outcome").agg(F.count("*").alias("events"), carries.alias("carries")).collect()
    outcomes = {row["_outcome"]: row["events"] for row in rows}
    winning = judged.where("_outcome is null").drop("_held_carried")
    undecidable = judged.where("_outcome = 'quarantined'").drop("_held_carried").withColumns(_told_again(table))
    return (
        batch.where(~is_one).unionByName(winning),
        _Judged(
            {name: outcomes.get(name, 0) for name in ("superseded", "duplicate", "quarantined")},
            winning,
            undecidable,
            sum(row["carries"] for row in rows),
            judged.where("_held_carried is not null").drop("_held_carried"),
        ),
    )


def _told_again(table: Table) -> dict[str, Expression]:
    """`_raw` and `_form` of events that were well by themselves: what was read of them was let go."""
    names = [*(column.name for column in table.columns), *(column.name for column in metadata_columns(table))]
    event = F.to_json(F.struct(*(f"`{name}`" for name in names), "__deleted"), EVENT_AS_JSON).cast("binary")
    # Of a table with column policies, what was decoded holds hashes already.
    told = F.lit(MASKED_FORM if table.is_masked else None)
    return {
        "_form": F.when(F.col("_raw").isNotNull(), F.col("_form").cast("string")).otherwise(told),
        "_raw": F.coalesce("_raw", event),
    }


def _with_every_value(
    batch: DataFrame,
    incomplete: DataFrame,
    changes: DataFrame,
    silver: SilverTable,
    state: State | None,
    counts: Counts,
    keep: _Keep,
) -> tuple[DataFrame, Counts, DataFrame, DataFrame | None]:
    """The batch with the values that its `incomplete` changes lack, the counts, and what stays incomplete.

    The last are the rows of changed keys, as they began, for the history: no change of their own key completes them.
    """
    table = silver.table
    key = table.record_key
    lacking = keep(incomplete)
    good = changes.where("not _ignored and _problem is null")
    own = keep(good.join(F.broadcast(lacking.select(f"`{key}`").distinct()), key, "left_semi"))
    moves, earlier = None, None
    if not own.where("__op = 'c' and _unavailable is not null").isEmpty():
        gone = silver.read().where("__op = 'd'") if state else None
        moves = keep(key_changes(own, good, gone, table))
        old_keys = F.broadcast(moves.select(F.col("_old_key").alias(key)).distinct())
        earlier = good.join(old_keys, key, "left_semi")
        if gone is not None:
            columns = [f"`{name}`" for name in silver_columns(table)]
            for commit in gone.join(old_keys, key, "left_semi").select("_hoodie_commit_time").distinct().collect():
                # The delete came in a batch before: what it removed is in silver as it was until then.
                removed = silver.before(commit[0]).join(old_keys, key, "left_semi").select(*columns)
                earlier = earlier.unionByName(removed, allowMissingColumns=True)
            of_gone = removed_values(gone.join(old_keys, key, "left_semi"), table)
            earlier = earlier.unionByName(of_gone, allowMissingColumns=True)
        earlier = keep(earlier)
    held = silver.read() if state else None
    begun = None
    if moves is not None and table.options.history:
        made = own.where("__op = 'c' and _unavailable is not null").dropDuplicates([key])
        begun = completed(made, made, held, table, moves=moves, earlier=earlier).where("_problem is null")
    done = keep(completed(lacking, own, held, table, moves=moves, earlier=earlier))
    found = done.agg(
        F.count_if(F.col("_problem").isNotNull()).alias("unfilled"),
        F.count_if(F.col("_problem").isNull() & F.col("_is_held") & F.col("_changed")).alias("repaired"),
    ).first()
    assert found is not None
    written = done.where("_problem is null and (not _is_held or _changed)").drop("_problem", "_is_held", "_changed")
    problems = done.where("_problem is not null").select(f"`{key}`", F.col("_problem").alias("_unfilled"))
    # All of the row's changes wait, not the last one alone: the others bring it values when it can be completed.
    log = F.substring_index("__position", "/", 1)
    waiting = own.join(F.broadcast(problems), key).withColumn("_log", log).dropDuplicates([key, "_log"])
    unfilled = keep(waiting.withColumn("_problem", F.col("_unfilled")).withColumns(_told_again(table)))
    together = unfilled.count() if found["unfilled"] else 0
    counts = (
        counts.moved(found["unfilled"], "applied", "quarantined")
        .moved(together - found["unfilled"], "superseded", "quarantined")
        .moved(found["repaired"], "superseded", "applied")
    )
    columns = [f"`{name}`" for name in silver_columns(table)]
    rest = batch.join(F.broadcast(done.select(f"`{key}`")), key, "left_anti").select(*columns)
    return rest.unionByName(written), counts, unfilled, begun


def _set_aside(
    silver: SilverTable,
    state: State | None,
    bad: list[DataFrame],
    changes: DataFrame,
    counts: Counts,
    keep: _Keep,
    *,
    are_replayed: bool,
) -> Counts:
    """Writes the bad changes to the quarantine; the counts, in which those that wait there already are duplicates."""
    every = reduce(DataFrame.unionByName, [frame.select(*quarantine.TAKES) for frame in bad])
    if are_replayed:
        # A replayed event has its line for an order, and was counted when it was set aside.
        quarantine.put(silver.spark, silver.table, every.withColumn("_line", F.col("_order")))
        return counts
    lines = keep(with_line(every, changes))
    again = quarantine.put(silver.spark, silver.table, lines, state.instant if state else None)
    return counts.moved(again, "quarantined", "duplicate")


def _require_limit(table: Table, counts: Counts) -> None:
    limit = table.options.quarantine_limit
    if limit is None:
        return
    allowed = min(
        counts.read if limit.rows is None else limit.rows,
        counts.read if limit.share is None else int(limit.share * counts.read),
    )
    if counts.quarantined > allowed:
        raise InputError(
            f"{counts.quarantined} of {counts.read} events cannot be applied",
            where=table.relation,
            expected=f"at most {allowed} (quarantine_limit)",
            action="`lake ingest` with a higher limit sets them aside and names them; nothing of this batch was landed",
        )
