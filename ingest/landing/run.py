"""Runs the landing of a source: each table by itself, side by side, in one Spark session."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ingest.config.tables import Table
from ingest.errors import AbsentError, LakeError, QuarantineError, UnavailableError, WriteError
from ingest.landing.backlog import Read
from ingest.landing.failures import error_of, remember_failures
from ingest.landing.health import judged
from ingest.landing.schema_plan import schema_planned
from ingest.landing.table import Begun, Landed, Progress, Upkeep, decoded, land_table
from ingest.landing.transactions import Gate, cuts, far_from_cut, is_consistent, make_cut, open_gate, topic_table
from ingest.silver.compaction import keep_up
from ingest.silver.table import SilverTable
from ingest.spark.jvm import root_cause
from ingest.spark.shared import Shared

log = logging.getLogger(__name__)
# What a table is doing, in order; a progress display shows them.
STAGES = ("list", "land", "done")


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
    if not is_consistent(tables):
        return _land(spark, tables, workers, progress, upkeep)
    landed: list[Landed] = []
    try:
        # A cut has each table's newest commit: no other run may land some while this one makes it.
        with SilverTable.of(spark, topic_table(tables[0])).writing():
            landed = _land(spark, tables, workers, progress, upkeep)
    except (UnavailableError, WriteError) as error:
        return [replace(each, error=each.error or error) for each in landed or map(Landed, tables)]
    return landed


def _land(
    spark: SparkSession, tables: Sequence[Table], workers: int, progress: Progress | None, upkeep: Upkeep
) -> list[Landed]:
    shown: Progress = progress or (lambda table, stage, detail: None)
    step: _Step = partial(land_table, upkeep=upkeep)
    gate: Gate | None = None
    unread: LakeError | None = None
    with ThreadPoolExecutor(max_workers=max(1, min(workers, len(tables))), thread_name_prefix="land") as pool:
        if is_consistent(tables):
            transactions = judged(spark, land_safely(spark, topic_table(tables[0])))
            gate, unread = _open_gate(spark, tables, pool, transactions)
            step = partial(land_table, gate=gate, upkeep=upkeep)
        if unread and gate is None:
            results = [Landed(table, error=unread) for table in tables]
        else:
            far = gate.far if gate else {}
            results = _land_far_last(tables, far, pool, lambda table: land_safely(spark, table, shown, step))
    # Where a table has more to read, so may a transaction that the others have landed.
    if is_consistent(tables) and not any(landed.error or landed.unread for landed in results):
        uncut = _cut(spark, tables)
        results = [replace(landed, error=uncut) for landed in results]
        if gate and gate.far and uncut is None:
            # The cut was overdue: the run goes on from it.
            more = _land(spark, tables, workers, progress, upkeep)
            results = [landed + later for landed, later in zip(results, more, strict=True)]
    # An unwell table is landed, and the cut made: it says that transactions are whole, less what is quarantined.
    results = [judged(spark, landed) for landed in results]
    results = [landed if landed.error else replace(landed, error=unread) for landed in results]
    remember_failures(spark, results)
    return results


_Step = Callable[[SparkSession, Table, Progress], Landed]


def land_safely(
    spark: SparkSession, table: Table, progress: Progress = lambda table, stage, detail: None, step: _Step | None = None
) -> Landed:
    """`land_table`, or another step, whose failure is told in its result."""
    # Neither another table nor queries that the same session serves hold it up.
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", table.name)
    started = time.monotonic()
    try:
        landed = (step or land_table)(spark, table, progress)
    except (LakeError, PySparkException, Py4JError) as error:
        log.debug("table %s failed", table.name, exc_info=error)
        landed = Landed(table, error=error_of(table, error))
    progress(table.name, "done", landed.error.found if landed.error else "")
    return replace(landed, seconds=time.monotonic() - started)


def _land_far_last(
    tables: Sequence[Table], far: Mapping[str, int], pool: ThreadPoolExecutor, step: Callable[[Table], Landed]
) -> list[Landed]:
    """Lands the tables; those that are far from the newest cut go no further while another one fails."""
    near = [table for table in tables if table.name not in far]
    done = {landed.table.name: landed for landed in pool.map(step, near)}
    late = [table for table in tables if table.name in far]
    if any(landed.error for landed in done.values()):
        done |= {table.name: Landed(table, error=far_from_cut(table, far[table.name])) for table in late}
    else:
        done |= {landed.table.name: landed for landed in pool.map(step, late)}
    return [done[table.name] for table in tables]


def _cut(spark: SparkSession, tables: Sequence[Table]) -> LakeError | None:
    """Makes the cut; what kept it from being made, which the next run tries again."""
    try:
        make_cut(spark, tables)
    except (LakeError, PySparkException, Py4JError) as error:
        log.debug("the cut of %s cannot be made", tables[0].source, exc_info=error)
        return UnavailableError(
            f"the cut cannot be made: {error.found if isinstance(error, LakeError) else root_cause(error)}",
            where=cuts(tables[0].schema).relation,
            action="correct what is named, and run again; the tables are landed, readers stay at the cut before",
        )
    return None


def _open_gate(
    spark: SparkSession, tables: Sequence[Table], pool: ThreadPoolExecutor, transactions: Landed
) -> tuple[Gate | None, LakeError | None]:
    """Which of the events that wait may be landed; and why none may, or too few, which is said of every table."""
    unwell = transactions.error
    if isinstance(unwell, AbsentError) and SilverTable.of(spark, transactions.table).state() is None:
        # Debezium makes the topic with the first transaction: there is none while the first snapshot is read.
        _warn_of_absent(spark, transactions.table)
        unwell = None
    if unwell and not isinstance(unwell, QuarantineError):
        return None, unwell
    try:
        places = dict(pool.map(partial(_waiting_places, spark), tables))
        return open_gate(spark, tables, {name: rows for name, rows in places.items() if rows is not None}), unwell
    except (LakeError, PySparkException, Py4JError) as error:
        log.debug("source %s failed", tables[0].source, exc_info=error)
        return None, error_of(transactions.table, error)


def _warn_of_absent(spark: SparkSession, topic: Table) -> None:
    """Says once of a source that its transaction topic is not there."""
    if Shared.of(spark).new_of("transaction topics that are not there", [topic.relation]):
        log.warning(
            "%s: there is no transaction topic %s: no transaction has ended, and only rows of snapshots are landed",
            topic.source,
            topic.options.topic,
        )


def _waiting_places(spark: SparkSession, table: Table) -> tuple[str, DataFrame | None]:
    """The transactions of a table's pending events (see `open_gate`); None where they cannot be read.

    Landing the table says why. What cannot be read has not come: the transactions it belongs to wait.
    """
    try:
        begun = Begun.of(spark, table)
        try:
            return table.name, _places(begun, begun.pending.read(begun.known))
        except Py4JJavaError:
            rest = begun.pending.without_broken(begun.known)
            return table.name, _places(begun, rest) if rest else None
    except (LakeError, PySparkException, Py4JJavaError) as error:
        log.debug("table %s cannot be read", table.name, exc_info=error)
        return table.name, None


def _places(begun: Begun, read: Read) -> DataFrame | None:
    if not read.parts:
        return None
    planned, readings = schema_planned(begun.silver, begun.state, read.parts)
    changes = decoded(planned.table, read.parts, readings).where("__transaction_id is not null")
    return changes.select("__transaction_id", "__transaction_total_order").distinct().localCheckpoint()
