"""The landing of one table: its unread input, in portions of one commit each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from ingest.config.tables import Table
from ingest.decode.decoded import Part
from ingest.decode.object_files import HeldBack
from ingest.errors import LakeError, UnavailableError, WriteError
from ingest.landing import batch
from ingest.landing.backlog import NONE_WAITS, Pending, Read, pending_of
from ingest.landing.schema_plan import schema_planned
from ingest.landing.transactions import Gate
from ingest.schema.change import derived_columns
from ingest.schema.evolution import Reading
from ingest.silver import change_log, quarantine
from ingest.silver.compaction import keep_up
from ingest.silver.hudi import PUT_BACK
from ingest.silver.state import Counts, State
from ingest.silver.table import SilverTable
from ingest.sources.base import Offsets

log = logging.getLogger(__name__)

Progress = Callable[[str, str, str], None]


@dataclass(frozen=True)
class Landed:
    """What one run did to one table.

    Attributes
    ----------
    counts:
        Of this run; all zero where there was nothing new.
    taken, unit:
        How much of the input was landed, in files or records.
    waiting:
        Events that were read, but wait for the rest of their transaction: they are not counted yet.
    waits_for:
        What they wait for.
    ends:
        The end offsets of the source when the run began; none of files.
    totals:
        What became of all events that were ever read of the table, this run's among them.
    unread:
        How much of the input this run has left to the next, in `unit`, of what was there when it began.
    behind_ms:
        How far what was landed is behind the newest of the source, in milliseconds; None where it does not tell it.
    error:
        Why the table failed, or is not whole, or is unwell though it was landed; None where it is well.
    """

    table: Table
    counts: Counts = field(default_factory=Counts)
    taken: int = 0
    unit: str = ""
    seconds: float = 0.0
    waiting: int = 0
    waits_for: str = ""
    ends: Offsets = field(default_factory=dict)
    totals: Counts = field(default_factory=Counts)
    unread: int = 0
    behind_ms: int | None = None
    error: LakeError | None = None

    def __add__(self, later: Landed) -> Landed:
        """Both as one run."""
        return replace(later, counts=self.counts + later.counts, taken=self.taken + later.taken)


Upkeep = Callable[[SilverTable, bool], None]


@dataclass(frozen=True)
class Begun:
    """What a table's next run begins with: silver, its state, and what waits behind it."""

    silver: SilverTable
    state: State | None
    pending: Pending

    @classmethod
    def of(cls, spark: SparkSession, table: Table) -> Begun:
        silver = SilverTable.of(spark, table)
        state = silver.state()
        return cls(silver, state, pending_of(spark, table, state.position if state else None))

    def gone_on(self, position: str, held_back: Sequence[HeldBack]) -> Begun:
        """The same run, once a portion was landed up to a position: what was held back, and what came after it began,
        is left to the next."""
        pending = self.pending.beyond(position).without(held_back)
        return replace(self, state=self.silver.state(), pending=pending)

    def keeping(self, commits: int | None) -> Begun:
        """The same run, which leaves the files of so many commits; None leaves the number as it is declared."""
        if commits is None:
            return self
        table = self.silver.table
        options = table.options.model_copy(update={"commits_retained": commits})
        return replace(self, silver=replace(self.silver, table=replace(table, options=options)))

    @contextmanager
    def alone(self) -> Iterator[Begun]:
        """The run, as the table is now that no other process writes it."""
        with self.silver.writing():
            last = self.silver.state()
            is_same = (last and last.instant) == (self.state and self.state.instant)
            yield self if is_same else Begun.of(self.silver.spark, self.silver.table)

    @property
    def is_to_be_written(self) -> bool:
        """Whether there is something to commit: events, the declared columns, a position that would become too old,
        or rows in their buckets."""
        if self.pending.waiting or self.pending.renewed() is not None:
            return True
        return self.state is not None and (self.conforming is not None or self.silver.has_left_its_buckets(self.state))

    @property
    def conforming(self) -> SilverTable | None:
        """Silver with the declared columns, where it has others; None of a table that is not there."""
        if self.state is None:
            return None
        held = {column.name: column.data_type.simpleString() for column in self.silver.held(self.state)}
        return self.planned if self.planned.column_types != held else None

    @property
    def totals(self) -> Counts:
        """What became of all events that were read before."""
        return self.state.totals if self.state else Counts()

    @cached_property
    def planned(self) -> SilverTable:
        """Silver with the columns that are known before its events are looked at."""
        return schema_planned(self.silver, self.state)[0]

    @property
    def known(self) -> Table:
        """The table with these columns."""
        return self.planned.table


def land_table(
    spark: SparkSession,
    table: Table,
    progress: Progress = lambda table, stage, detail: None,
    gate: Gate | None = None,
    upkeep: Upkeep = keep_up,
    goes_on: Callable[[Landed], bool] | None = None,
) -> Landed:
    """Lands what is pending of one table, in portions: each is one commit, with its position and counts.

    Parameters
    ----------
    gate:
        Which events may be landed now; None where all may.
    upkeep:
        Called with the table, and whether more of it waits, where it may be compacted: after each portion, and where
        nothing waits.
    goes_on:
        Told of each portion but the last, of which the result is then; the run ends where it says no. By default all
        portions are the result's.

    Raises
    ------
    LakeError
        The input cannot be read or the lake cannot be written; nothing of the portion is visible then.
    """
    progress(table.name, "list", "")
    begun = Begun.of(spark, table)
    quarantine.restore(begun.silver)
    quarantine.tell_of_lost(begun.silver, begun.state)
    if begun.state is None and (gone := begun.silver.gone()):
        if not begun.pending.waiting:
            raise gone
        log.warning("%s: its folder was gone: it is landed anew, with what its source still has", table.relation)
    if not begun.is_to_be_written:
        return _nothing_waits(begun, upkeep)
    with begun.alone() as now:
        indexed = _indexed(now, upkeep)
        if indexed.pending.waiting:
            return _land_waiting(indexed, progress, gate, upkeep, goes_on)
        conforming = _conform(indexed)
        _renew(conforming)
        return _nothing_waits(conforming, upkeep)


def _nothing_waits(begun: Begun, upkeep: Upkeep) -> Landed:
    if begun.state is not None:
        begun.planned.register()
    return Landed(
        begun.silver.table,
        unit=begun.pending.unit,
        ends=begun.pending.ends(),
        totals=begun.totals,
        behind_ms=begun.pending.behind_ms,
        error=_kept_up(begun.silver, upkeep, is_behind=False),
    )


def _land_waiting(
    begun: Begun, progress: Progress, gate: Gate | None, upkeep: Upkeep, goes_on: Callable[[Landed], bool] | None
) -> Landed:
    """Lands what waits of a table that no other process writes (see `land_table`)."""
    table = begun.silver.table
    landed, totals, held_back = Landed(table), begun.totals, list[HeldBack]()
    portions = 0
    while True:
        if gate is not None:
            begun = begun.keeping(gate.retained(table.name, portions))
        # What makes a cut possible again is landed whole: a portion whose events wait would end the run before it.
        portion = begun.pending if gate and gate.far else begun.pending.portion()
        progress(table.name, "land", f"{begun.pending.waiting:,} {portion.unit}")
        # Behind the last portion of a stream there may be nothing, which only a look at its next shards shows.
        share = portion.waiting / max(1, portion.waiting, begun.pending.waiting)
        done, position, left_out = _land_portion(replace(begun, pending=portion), gate, share)
        held_back.extend(left_out)
        is_last = portion.is_all_of(begun.pending)
        error = _kept_up(begun.silver, upkeep, is_behind=not is_last)
        landed += done
        of_run = replace(
            landed,
            ends=begun.pending.ends(),
            totals=totals + landed.counts,
            unread=0 if is_last else max(1, begun.pending.waiting - portion.waiting),
            behind_ms=portion.behind_ms,
        )
        if done.waiting or is_last:
            return replace(of_run, error=held_back_error(table, held_back) if held_back else error)
        if goes_on is not None:
            totals, landed = of_run.totals, Landed(table, unit=of_run.unit)
            if not goes_on(of_run):
                return replace(of_run, counts=Counts(), taken=0)
        begun = begun.gone_on(position, held_back)
        portions += 1


def _kept_up(silver: SilverTable, upkeep: Upkeep, *, is_behind: bool) -> LakeError | None:
    """What kept the table from being compacted: it is landed all the same."""
    try:
        upkeep(silver, is_behind)
    except LakeError as error:
        return error
    return None


def _conform(begun: Begun) -> Begun:
    """The run, once silver is brought to its declaration where no event does."""
    conforming, state = begun.conforming, begun.state
    if conforming is None or state is None:
        return begun
    conforming.conform(state)
    if begun.silver.table.options.history:
        change_log.conform(conforming, state)
    return replace(begun, state=begun.silver.state())


def _indexed(begun: Begun, upkeep: Upkeep) -> Begun:
    """The run, once the table has its rows in buckets: one that is partitioned and was made with a global index, or
    one that another writer has written to without its index."""
    silver, state = begun.silver, begun.state
    if state is None or not silver.may_have_buckets:
        return begun
    has_left = silver.has_left_its_buckets(state)
    if state.buckets is not None and not has_left:
        return begun
    if silver.hudi.timeline.has_planned_compaction():
        if not has_left:
            return begun  # another batch will find it carried out
        _require_compacted(silver, upkeep)
    log.warning(PUT_BACK, silver.table.relation)
    # A history has as many buckets as silver had, which was none.
    silver.index_anew(state, 1 if change_log.changes_of(silver).is_committed() else None)
    silver.register()
    return replace(begun, state=silver.state())


def _require_compacted(silver: SilverTable, upkeep: Upkeep) -> None:
    upkeep(silver, True)
    if silver.hudi.timeline.has_planned_compaction():
        raise UnavailableError(
            "another writer has written to it without its buckets, while a compaction is planned",
            where=silver.table.relation,
            expected="no planned compaction, so that its rows can be put into buckets",
            action="it is tried again once the compaction is carried out; nothing of this batch was landed",
        )


def _renew(begun: Begun) -> None:
    """Commits the position where it would become too old, and nothing else."""
    position = begun.pending.renewed()
    if position is not None:
        _go_to(begun, position)


def _go_to(begun: Begun, position: str) -> None:
    """Commits another position, and nothing else. Of a table that is not there none is kept."""
    silver, state = begun.silver, begun.state
    if state is not None and position != state.position:
        nothing = silver.read().limit(0).select(*silver.columns())
        silver.write(nothing, state.without_events(position=position), first=False)
        silver.register()


def _land_portion(begun: Begun, gate: Gate | None, share: float) -> tuple[Landed, str, Sequence[HeldBack]]:
    """Reads, orders, deduplicates and commits the events, with their position and counts; that position, and what was
    held back.

    `share`: the part that they are of all that waits.
    """
    silver, state, pending = begun.silver, begun.state, begun.pending
    table, known = silver.table, begun.known

    def landed_of(read: Read) -> tuple[Landed, str]:
        if not read.parts:
            # Offsets without records: those of aborted transactions, or that compaction has left.
            position = read.of.after()
            _go_to(begun, position)
            return Landed(table, unit=pending.unit), position
        planned, readings = schema_planned(silver, state, read.parts)
        changes = decoded(planned.table, read.parts, readings)
        waiting = NONE_WAITS
        if gate is not None:
            marked = gate.marked(changes)
            waiting = read.of.waits(marked)
            changes = marked.where("not _lake_waits").drop("_lake_waits")
        position = read.of.after(waiting)
        waits_for = gate.waits_for if gate is not None and waiting.events else ""
        if waiting.events and (position == pending.position or changes.isEmpty()):
            return Landed(table, unit=pending.unit, waiting=waiting.events, waits_for=waits_for), position
        counts = batch.apply(planned, state, changes, position, share=share)
        planned.register()
        done = Landed(table, counts, read.of.waiting, pending.unit, waiting=waiting.events, waits_for=waits_for)
        return done, position

    read = Read((), pending)
    try:
        try:
            # What waits for its transaction is marked before it is seen how it is written.
            read = pending.read(known, by_examples=gate is None)
            done, position = landed_of(read)
        except batch.MisreadError as error:
            log.debug("%s", error)
            read = pending.read(known)
            done, position = landed_of(read)
    except (AnalysisException, WriteError, Py4JJavaError) as error:
        read.of.require_there(table, error)
        if not isinstance(error, Py4JJavaError):
            raise
        # Only reading a file to its end shows that a block within it is broken.
        rest = read.of.without_broken(known)
        if rest is None and not read.parts:
            raise  # what keeps it from being looked at is told as any error of Spark or S3
        if rest is None:
            raise read.of.unreadable(error) from error
        read = replace(rest, held_back=(*read.held_back, *rest.held_back))
        done, position = landed_of(read)
    return done, position, read.held_back


def decoded(table: Table, parts: Sequence[Part], readings: Sequence[Reading]) -> DataFrame:
    """The decoded changes of all parts, with the columns that silver derives."""
    decoded = (part.decode(table.in_events, reading) for part, reading in zip(parts, readings, strict=True))
    changes, derived = reduce(DataFrame.unionByName, decoded), derived_columns(table)
    return changes.withColumns(derived) if derived else changes


def held_back_error(table: Table, held_back: Sequence[HeldBack]) -> UnavailableError:
    return UnavailableError(
        "; ".join(f"{item.file.path} is {item.reason}" for item in held_back),
        where=table.relation,
        expected="whole files of events, of a form that is read",
        action="deliver the files again; they were left out, and the next run takes them. The others were landed",
    )
