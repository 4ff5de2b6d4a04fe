"""Runs the landing of a source: each table by itself, side by side, in one Spark session."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial, reduce

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest import batch, history, quarantine
from ingest.declaration import Table
from ingest.decode.decoded import Part
from ingest.decode.files import HeldBack
from ingest.decode.records import parts_again
from ingest.decode.registry import Registry
from ingest.errors import DeclarationError, InputError, LakeError, QuarantineError, UnavailableError
from ingest.ledger import Ledger
from ingest.pending import NONE_WAITS, Pending, Places, Read, pending_of
from ingest.plan import Plan, Reading, plan
from ingest.session import root_cause
from ingest.silver import Counts, SilverTable, State
from ingest.transactions import Gate, is_consistent, make_cut, open_gate, topic_table
from ingest.upkeep import keep_up

log = logging.getLogger(__name__)

# What a table is doing, in order; a progress display shows them.
STAGES = ("list", "land", "done")
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
        Behind which records of Kafka there was nothing when the run began.
    totals:
        What became of all events that were ever read of the table, this run's among them.
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
    ends: Places = field(default_factory=dict)
    totals: Counts = field(default_factory=Counts)
    error: LakeError | None = None

    def __add__(self, later: Landed) -> Landed:
        """Both as one run."""
        return replace(later, counts=self.counts + later.counts, taken=self.taken + later.taken)


_LONGEST_REASON = 200
# So many events of a table may be quarantined, or this share of those that were read, and it is well all the same.
_WELL_QUARANTINED, _WELL_SHARE = 10, 0.1
Upkeep = Callable[[SilverTable, bool], None]


def land(
    spark: SparkSession,
    tables: Sequence[Table],
    *,
    workers: int = 4,
    progress: Progress | None = None,
    upkeep: Upkeep = keep_up,
) -> list[Landed]:
    """Lands what is pending of each table, in the order of `tables`. One table's failure does not touch the others.

    The tables of a source that is consistent by transaction are landed together, and must all be there.

    Parameters
    ----------
    workers:
        How many tables are worked on at a time. Spark's FAIR scheduler shares the cores between them.
    progress:
        Called with table, stage (one of `STAGES`) and a detail whenever a table goes on.
    upkeep:
        See `land_table`.
    """
    told: Progress = progress or (lambda table, stage, detail: None)
    step: _Step = partial(land_table, upkeep=upkeep)
    results: list[Landed] = []
    unread: LakeError | None = None
    with ThreadPoolExecutor(max_workers=max(1, min(workers, len(tables))), thread_name_prefix="land") as pool:
        if is_consistent(tables):
            transactions = judged(spark, land_safely(spark, topic_table(tables[0])))
            gate, unread = _open_gate(spark, tables, pool, transactions)
            step = partial(land_table, gate=gate, upkeep=upkeep)
            results = [] if gate else [Landed(table, error=unread) for table in tables]
        results = results or list(pool.map(lambda table: land_safely(spark, table, told, step), tables))
    if is_consistent(tables) and not any(landed.error for landed in results):
        make_cut(spark, tables)
    # An unwell table is landed, and the cut made: it says that transactions are whole, less what is quarantined.
    results = [judged(spark, landed) for landed in results]
    results = [landed if landed.error else replace(landed, error=unread) for landed in results]
    remember_failures(spark, results)
    return results


def judged(spark: SparkSession, landed: Landed, run: Counts | None = None) -> Landed:
    """What was landed, unwell where more than ten and more than a tenth of the events are quarantined.

    Judged are the run and the whole of the table's history; a `quarantine_limit` is a judgement of its own.

    Parameters
    ----------
    run:
        What became of all events of the run that the batch is a part of; where it is None, the batch is the run.
    """
    if landed.error or landed.table.options.quarantine_limit is not None:
        return landed
    of_each = {"of this run": landed.counts, "of this run so far": run or Counts(), "ever read": landed.totals}
    for which, counts in of_each.items():
        if counts.quarantined > max(_WELL_QUARANTINED, _WELL_SHARE * counts.read):
            # Each look at a table where nothing comes would ask for the reason again.
            reason = _most_frequent_reason(spark, landed.table) if landed.counts.quarantined else ""
            return replace(landed, error=_unwell(landed.table, counts, which, reason))
    return landed


def _unwell(table: Table, counts: Counts, which: str, reason: str) -> QuarantineError:
    return QuarantineError(
        f"{counts.quarantined:,} of {counts.read:,} events {which} are quarantined"
        + (f"; the most frequent reason in the quarantine: {reason}" if reason else ""),
        where=table.relation,
        expected=f"no more than {_WELL_QUARANTINED}, or {_WELL_SHARE:.0%} of them: no quarantine_limit is declared",
        action=f"`lake quarantine ls {table.source}` says why; mend it, then `lake quarantine replay {table.source}`; "
        "or declare a quarantine_limit that accepts it. The other events were landed",
    )


def _most_frequent_reason(spark: SparkSession, table: Table) -> str:
    """One of the most frequent code, in one line; '' where it cannot be told."""
    try:
        events = quarantine.waiting(spark, table)
        if events is None:
            return ""
        reasons = events.groupBy("reason_code").agg(F.count("*").alias("events"), F.min("reason").alias("reason"))
        row = reasons.orderBy(F.desc("events"), "reason_code").first()
    except (PySparkException, Py4JJavaError) as error:
        log.debug("the quarantine of %s cannot be read", table.name, exc_info=error)
        return ""
    return " ".join(str(row["reason"]).split())[:_LONGEST_REASON] if row else ""


def failures(schema: str) -> Ledger:
    """The tables of a source whose last run failed: `source_table` (key), `failed_at`, `message`."""
    return Ledger(schema, "_failures", key="source_table", ordering="failed_at")


def remember_failures(spark: SparkSession, results: Sequence[Landed]) -> None:
    """Keeps which tables have failed, for `lake status`. Written only where one has, or is well again."""
    schema = results[0].table.schema
    failed = {landed.table.name: landed.error.message for landed in results if landed.error}
    try:
        if not spark.catalog.databaseExists(schema):
            return
        known = failures(schema).read(spark)
        well = [landed.table.name for landed in results if not landed.error]
        if known is not None and not (mended := known.where(F.col("source_table").isin(well))).isEmpty():
            failures(schema).write(spark, mended, "delete")
        if failed:
            at = datetime.now(UTC)
            rows = [(name, at, message) for name, message in failed.items()]
            news = spark.createDataFrame(rows, "source_table string, failed_at timestamp, message string")
            failures(schema).write(spark, news, "upsert")
    except (LakeError, PySparkException, Py4JJavaError) as error:
        # The run's own result tells what failed; where nothing can be written, this cannot be either.
        log.warning("what failed cannot be kept for `lake status`: %s", root_cause(error))


_Step = Callable[[SparkSession, Table, Progress], Landed]


def land_safely(
    spark: SparkSession, table: Table, progress: Progress = lambda table, stage, detail: None, step: _Step | None = None
) -> Landed:
    """`land_table`, or another step, whose failure is told in its result."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", table.name)
    started = time.monotonic()
    try:
        landed = (step or land_table)(spark, table, progress)
    except LakeError as error:
        landed = Landed(table, error=error)
    except (PySparkException, Py4JError) as error:
        log.debug("table %s failed", table.name, exc_info=error)
        landed = Landed(table, error=_unexpected(table, error))
    progress(table.name, "done", landed.error.found if landed.error else "")
    return replace(landed, seconds=time.monotonic() - started)


def _open_gate(
    spark: SparkSession, tables: Sequence[Table], pool: ThreadPoolExecutor, transactions: Landed
) -> tuple[Gate | None, LakeError | None]:
    """Which of the events that wait may be landed; and why none may, or too few, which is said of every table."""
    unwell = transactions.error
    if unwell and not isinstance(unwell, QuarantineError):
        return None, unwell
    try:
        places = dict(pool.map(partial(_waiting_places, spark), tables))
        return open_gate(spark, tables, {name: rows for name, rows in places.items() if rows is not None}), unwell
    except LakeError as error:
        return None, error
    except (PySparkException, Py4JError) as error:
        log.debug("source %s failed", tables[0].source, exc_info=error)
        return None, _unexpected(transactions.table, error)


def _waiting_places(spark: SparkSession, table: Table) -> tuple[str, DataFrame | None]:
    """The transactions of a table's pending events (see `open_gate`); None where they cannot be read.

    Landing the table says why. What cannot be read has not come: the transactions it belongs to wait.
    """
    try:
        begun = _Begun.of(spark, table)
        try:
            return table.name, _places(begun, begun.pending.read(begun.known))
        except Py4JJavaError:
            rest = begun.pending.without_broken(begun.known)
            return table.name, _places(begun, rest) if rest else None
    except (LakeError, Py4JJavaError) as error:
        log.debug("table %s cannot be read", table.name, exc_info=error)
        return table.name, None


def _places(begun: _Begun, read: Read) -> DataFrame | None:
    if not read.parts:
        return None
    planned, readings = _planned(begun.silver, begun.state, read.parts)
    changes = _decoded(planned.table, read.parts, readings).where("__transaction_id is not null")
    return changes.select("__transaction_id", "__transaction_total_order").distinct().localCheckpoint()


@dataclass(frozen=True)
class _Begun:
    """What a table's next run begins with: silver, its state, and what waits behind it."""

    silver: SilverTable
    state: State | None
    pending: Pending

    @classmethod
    def of(cls, spark: SparkSession, table: Table) -> _Begun:
        silver = SilverTable.of(spark, table)
        state = silver.state()
        return cls(silver, state, pending_of(spark, table, state.position if state else None))

    def gone_on(self) -> _Begun:
        """The same run, once a portion has been landed: what was not there when it began is left to the next."""
        state = self.silver.state()
        return replace(self, state=state, pending=self.pending.beyond(state.position)) if state else self

    @property
    def totals(self) -> Counts:
        """What became of all events that were read before."""
        return self.state.totals if self.state else Counts()

    @property
    def known(self) -> Table:
        """The table with the columns that are known before its events are looked at."""
        return _planned(self.silver, self.state)[0].table


def land_table(
    spark: SparkSession,
    table: Table,
    progress: Progress = lambda table, stage, detail: None,
    gate: Gate | None = None,
    upkeep: Upkeep = keep_up,
) -> Landed:
    """Lands what is pending of one table, in portions: each is one commit, with its position and counts.

    Parameters
    ----------
    gate:
        Which events may be landed now; None where all may.
    upkeep:
        Called with the table, and whether more of it waits, where it may be compacted: after each portion, and where
        nothing waits.

    Raises
    ------
    LakeError
        The input cannot be read or the lake cannot be written; nothing of the portion is visible then.
    """
    progress(table.name, "list", "")
    begun = _Begun.of(spark, table)
    if not begun.pending.waiting:
        _conform(begun)
        nothing = Landed(table, unit=begun.pending.unit, ends=begun.pending.ends(), totals=begun.totals)
        return _kept_up(nothing, begun.silver, upkeep, is_behind=False)
    landed, totals = None, begun.totals
    while True:
        portion = begun.pending.portion()
        progress(table.name, "land", f"{begun.pending.waiting:,} {portion.unit}")
        share = portion.waiting / begun.pending.waiting
        done = _land_portion(replace(begun, pending=portion), gate, share)
        is_last = portion.waiting == begun.pending.waiting
        done = _kept_up(done, begun.silver, upkeep, is_behind=not is_last)
        landed = landed + done if landed else done
        if done.error or done.waiting or is_last:
            return replace(landed, ends=begun.pending.ends(), totals=totals + landed.counts)
        begun = begun.gone_on()


def _kept_up(landed: Landed, silver: SilverTable, upkeep: Upkeep, *, is_behind: bool) -> Landed:
    """What was landed, with the error that kept the table from being compacted, where it has no other."""
    try:
        upkeep(silver, is_behind)
    except LakeError as error:
        return landed if landed.error else replace(landed, error=error)
    return landed


def _conform(begun: _Begun) -> None:
    """Brings silver to its declaration where no event does."""
    silver, state = begun.silver, begun.state
    if state is None:
        return
    conforming, _ = _planned(silver, state)
    if conforming.column_types != {c.name: c.data_type.simpleString() for c in silver.held(state)}:
        conforming.conform(state)
        if silver.table.options.history:
            history.conform(conforming, state)
    conforming.register()


def _land_portion(begun: _Begun, gate: Gate | None, share: float) -> Landed:
    """Reads, orders, deduplicates and commits the events, with their position and counts.

    `share`: the part that they are of all that waits.
    """
    silver, state, pending = begun.silver, begun.state, begun.pending
    table, known = silver.table, begun.known

    def landed_of(read: Read) -> Landed:
        if not read.parts:
            return Landed(table, unit=pending.unit)
        planned, readings = _planned(silver, state, read.parts)
        changes = _decoded(planned.table, read.parts, readings)
        waiting = NONE_WAITS
        if gate is not None:
            marked = gate.marked(changes)
            waiting = read.of.waits(marked)
            changes = marked.where("not _waits").drop("_waits")
        position = read.of.after(waiting)
        waits_for = gate.waits_for if gate is not None and waiting.events else ""
        if waiting.events and (position == pending.position or changes.isEmpty()):
            return Landed(table, unit=pending.unit, waiting=waiting.events, waits_for=waits_for)
        counts = batch.apply(planned, state, changes, position, share=share)
        planned.register()
        return Landed(table, counts, read.of.waiting, pending.unit, waiting=waiting.events, waits_for=waits_for)

    # What waits for its transaction is marked before it is seen how it is written.
    read = pending.read(known, by_examples=gate is None)
    try:
        try:
            done = landed_of(read)
        except batch.MisreadError as error:
            log.debug("%s", error)
            read = pending.read(known)
            done = landed_of(read)
    except Py4JJavaError as error:
        # Only reading a file to its end shows that a block within it is broken.
        rest = read.of.without_broken(known)
        if rest is None:
            raise read.of.unreadable(error) from error
        read = replace(rest, held_back=(*read.held_back, *rest.held_back))
        done = landed_of(read)
    return replace(done, error=_held_back(table, read.held_back)) if read.held_back else done


def _planned(
    silver: SilverTable, state: State | None, parts: Sequence[Part] = ()
) -> tuple[SilverTable, tuple[Reading, ...]]:
    """Silver with the columns it will have, and how each part is read, as declaration and schema policy say.

    Raises
    ------
    DeclarationError, InputError
        The declaration does not fit silver, or the policy wants the run to fail.
    """
    table = silver.table
    found = plan(table, silver.held(state) if state else None, [part.version for part in parts])
    _require_possible(table, found)
    return replace(silver, table=replace(table, columns=found.columns)), found.readings


def _decoded(table: Table, parts: Sequence[Part], readings: Sequence[Reading]) -> DataFrame:
    decoded = (part.decode(table, reading) for part, reading in zip(parts, readings, strict=True))
    return reduce(DataFrame.unionByName, decoded)


@dataclass(frozen=True)
class PendingPlan:
    """What a run would make of a table's schema: how much waits, and the plan.

    `error` is what keeps a part of the input, or all of it, from being read; there may be no plan then. A plan that
    fails says so itself.
    """

    table: Table
    waiting: int = 0
    unit: str = ""
    bytes: int | None = None
    plan: Plan | None = None
    error: LakeError | None = None


def pending_plan(spark: SparkSession, table: Table) -> PendingPlan:
    """The plan of a table's next run, by the same steps. Writes nothing, and does not make the schema either."""
    try:
        silver = SilverTable.of(spark, table) if spark.catalog.databaseExists(table.schema) else None
        state = silver.state() if silver else None
        held = silver.held(state) if silver and state else None
        pending = pending_of(spark, table, state.position if state else None)
        known = replace(table, columns=plan(table, held).columns)
        read = pending.read(known, thorough=True)
    except LakeError as error:
        return PendingPlan(table, error=error)
    found = plan(table, held, [part.version for part in read.parts])
    left_out = _held_back(table, read.held_back) if read.held_back else None
    return PendingPlan(table, pending.waiting, pending.unit, pending.bytes, found, left_out)


def _require_possible(table: Table, found: Plan) -> None:
    for place in ("declaration", "events"):
        failures = [difference for difference in found.failures if difference.place == place]
        told = "; ".join(f"column {item.column}: {item.told}" for item in failures)
        if failures and place == "declaration":
            raise DeclarationError(
                told,
                where=table.where,
                expected="columns that silver has, or can be given",
                action=f"`lake plan {table.source}` shows each difference; nothing was landed",
            )
        if failures:
            raise InputError(
                told,
                where=table.relation,
                expected="the declared columns: the declaration says fail for such a change (schema_policy)",
                action=f"change the declaration; `lake plan {table.source}` shows each difference; nothing was landed",
            )


def replay(spark: SparkSession, table: Table) -> Landed:
    """Applies a table's quarantined events again, by the same code; those that still cannot be applied stay.

    Their positions are those of their first delivery, so that a replay that was broken off, or is done twice, changes
    nothing.

    Raises
    ------
    LakeError
        As `land_table`.
    """
    started = time.monotonic()
    silver = SilverTable.of(spark, table)
    state = silver.state()
    events = quarantine.waiting(spark, table)
    kept = events.localCheckpoint() if events is not None else None
    if kept is None or kept.isEmpty():
        return Landed(table)
    planned, changes = decoded_again(silver, state, kept)
    counts = batch.apply(planned, state, changes, state.position if state else "", replayed=kept.count())
    planned.register()
    quarantine.settle(spark, table, kept)
    return Landed(table, counts, seconds=time.monotonic() - started)


def decoded_again(silver: SilverTable, state: State | None, events: DataFrame) -> tuple[SilverTable, DataFrame]:
    """Rows of the quarantine as decoded changes, each with its line as `_order`; and silver as it will be.

    Raises
    ------
    LakeError
        As `land_table`.
    """
    table = silver.table
    origin = events.select(
        F.col("raw").alias("_raw"),
        F.col("form").alias("_form"),
        F.col("partition").alias("_partition"),
        F.col("start_offset").alias("_start_offset"),
        F.col("line").alias("_order"),
        F.col("file").alias("_file"),
        F.col("record_key").alias("_key"),
    )
    known, _ = _planned(silver, state)
    registry = Registry.of(table.connection.registry) if table.connection.registry else None
    parts = parts_again(origin, known.table, registry)
    planned, readings = _planned(silver, state, parts)
    return planned, _decoded(planned.table, parts, readings)


def _held_back(table: Table, held_back: Sequence[HeldBack]) -> UnavailableError:
    return UnavailableError(
        "; ".join(f"{item.file.path} is {item.reason}" for item in held_back),
        where=table.relation,
        expected="whole Avro object files",
        action="deliver the files again; they were left out, and the next run takes them. The others were landed",
    )


def _unexpected(table: Table, error: Exception) -> LakeError:
    return LakeError(
        root_cause(error),
        where=table.relation,
        action="nothing of this batch was landed; `--debug` shows the whole error",
    )
