"""Runs the landing of a source: each table by itself, side by side, in one Spark session."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import reduce

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest import batch, quarantine
from ingest.declaration import Table
from ingest.decode.debezium import Part
from ingest.decode.files import HeldBack, Read, read_files, unreadable_avro
from ingest.decode.records import parts_again
from ingest.decode.registry import Registry
from ingest.errors import DeclarationError, InputError, LakeError
from ingest.plan import Plan, Reading, plan
from ingest.session import first_line
from ingest.silver import Counts, SilverTable, State
from ingest.sources.files import EventFile, FilesPosition, TopicFolder

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
    error:
        Why the table failed, or is not whole; None where it is well.
    """

    table: Table
    counts: Counts = field(default_factory=Counts)
    files: int = 0
    seconds: float = 0.0
    error: LakeError | None = None


def land(
    spark: SparkSession, tables: Sequence[Table], *, workers: int = 4, progress: Progress | None = None
) -> list[Landed]:
    """Lands what is pending of each table, in the order of `tables`. One table's failure does not touch the others.

    Parameters
    ----------
    workers:
        How many tables are worked on at a time. Spark's FAIR scheduler shares the cores between them.
    progress:
        Called with table, stage (one of `STAGES`) and a detail whenever a table goes on.
    """
    told: Progress = progress or (lambda table, stage, detail: None)
    results: dict[str, Landed] = {}
    with ThreadPoolExecutor(max_workers=max(1, min(workers, len(tables))), thread_name_prefix="land") as pool:
        futures = {pool.submit(_land_guarded, spark, table, told): table for table in tables}
        for future in as_completed(futures):
            results[futures[future].name] = future.result()
    return [results[table.name] for table in tables]


def _land_guarded(spark: SparkSession, table: Table, progress: Progress) -> Landed:
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", table.name)
    started = time.monotonic()
    try:
        landed = land_table(spark, table, progress)
    except LakeError as error:
        landed = Landed(table, error=error)
    except (PySparkException, Py4JError) as error:
        log.debug("table %s failed", table.name, exc_info=error)
        landed = Landed(table, error=_unexpected(table, error))
    progress(table.name, "done", landed.error.found if landed.error else "")
    return replace(landed, seconds=time.monotonic() - started)


def land_table(spark: SparkSession, table: Table, progress: Progress = lambda table, stage, detail: None) -> Landed:
    """Lands what is pending of one table: reads, orders, deduplicates and commits it with its position and counts.

    Raises
    ------
    LakeError
        The input cannot be read or the lake cannot be written; nothing of the batch is visible then.
    """
    progress(table.name, "list", "")
    silver = SilverTable.of(spark, table)
    state = silver.state()
    root, listed = TopicFolder.of(table).listing(spark)
    position = FilesPosition.from_text(state.position, root) if state else FilesPosition()
    pending = position.pending(listed)
    if not pending:
        if state:
            conforming, _ = _planned(silver, state)
            if conforming.column_types != {c.name: c.data_type.simpleString() for c in silver.held(state)}:
                conforming.conform(state)
            conforming.register()
        return Landed(table)
    progress(table.name, "land", f"{len(pending)} files")
    known, _ = _planned(silver, state)
    read = read_files(spark, known.table, pending)

    def landed(whole: Read) -> Counts:
        if not whole.parts:
            return Counts()
        planned, readings = _planned(silver, state, whole.parts)
        changes = _decoded(planned.table, whole.parts, readings)
        done = batch.apply(planned, state, changes, position.advanced(listed, whole.files).to_text(root))
        planned.register()
        return done

    try:
        counts = landed(read)
    except Py4JJavaError as error:
        # Only reading a file to its end shows that a block within it is broken.
        broken = unreadable_avro(spark, read.files)
        if not broken:
            raise InputError(
                first_line(str(error)),
                where=f"{table.relation}: {_names(read.files)}",
                expected="readable files of change events",
                action="mend or remove the file that is named; nothing of this batch was landed",
            ) from error
        left_out = {item.file for item in broken}
        rest = read_files(spark, known.table, [file for file in read.files if file not in left_out])
        read = replace(rest, held_back=(*read.held_back, *broken))
        counts = landed(read)
    incomplete = _held_back(table, read.held_back) if read.held_back else None
    return Landed(table, counts, len(read.files), error=incomplete)


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
    """What a run would make of a table's schema: the files and bytes that wait, and the plan.

    `error` is what keeps a part of the input, or all of it, from being read; there may be no plan then. A plan that
    fails says so itself.
    """

    table: Table
    files: int = 0
    bytes: int = 0
    plan: Plan | None = None
    error: LakeError | None = None


def pending_plan(spark: SparkSession, table: Table) -> PendingPlan:
    """The plan of a table's next run, by the same steps. Writes nothing, and does not make the schema either."""
    try:
        silver = SilverTable.of(spark, table) if spark.catalog.databaseExists(table.schema) else None
        state = silver.state() if silver else None
        held = silver.held(state) if silver and state else None
        root, listed = TopicFolder.of(table).listing(spark)
        pending = (FilesPosition.from_text(state.position, root) if state else FilesPosition()).pending(listed)
        known = replace(table, columns=plan(table, held).columns)
        read = read_files(spark, known, pending, thorough=True)
    except LakeError as error:
        return PendingPlan(table, error=error)
    found = plan(table, held, [part.version for part in read.parts])
    left_out = _held_back(table, read.held_back) if read.held_back else None
    return PendingPlan(table, len(pending), sum(file.size for file in pending), found, left_out)


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
    nothing = FilesPosition().to_text("")
    planned, changes = decoded_again(silver, state, kept)
    counts = batch.apply(planned, state, changes, state.position if state else nothing, replayed=kept.count())
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
    )
    known, _ = _planned(silver, state)
    registry = Registry.of(table.connection.registry) if table.connection.registry else None
    parts = parts_again(origin, known.table, registry)
    planned, readings = _planned(silver, state, parts)
    return planned, _decoded(planned.table, parts, readings)


def _held_back(table: Table, held_back: Sequence[HeldBack]) -> InputError:
    return InputError(
        "; ".join(f"{item.file.path} is {item.reason}" for item in held_back),
        where=table.relation,
        expected="whole Avro object files",
        action="deliver the files again; they were left out, and the next run takes them. The others were landed",
    )


def _unexpected(table: Table, error: Exception) -> LakeError:
    return LakeError(
        first_line(str(error)),
        where=table.relation,
        action="nothing of this batch was landed; `--debug` shows the whole error",
    )


def _names(files: Sequence[EventFile]) -> str:
    shown = ", ".join(file.path for file in files[:3])
    return shown if len(files) <= 3 else f"{shown} and {len(files) - 3} more"
