"""Runs the landing of a source: each table by itself, side by side, in one Spark session."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest import quarantine
from ingest.changes import is_late, judge_late, last_of_each_key, with_line, with_position
from ingest.declaration import Table
from ingest.decode.columns import silver_columns
from ingest.decode.files import Decoded, HeldBack, decode_files, unreadable_avro
from ingest.errors import InputError, LakeError
from ingest.session import first_line
from ingest.silver import Counts, SilverTable, State
from ingest.sources.files import EventFile, FilesPosition, TopicFolder

log = logging.getLogger(__name__)

# What a table is doing, in order; a progress display shows them.
STAGES = ("list", "read", "write", "done")
Progress = Callable[[str, str, str], None]


@dataclass(frozen=True)
class Landed:
    """What one run did to one table.

    Attributes
    ----------
    counts:
        Of this run; all zero where there was nothing new.
    rows:
        Live rows and tombstones the run wrote.
    error:
        Why the table failed, or is not whole; None where it is well.
    """

    table: Table
    counts: Counts = field(default_factory=Counts)
    files: int = 0
    rows: int = 0
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
    return Landed(landed.table, landed.counts, landed.files, landed.rows, time.monotonic() - started, landed.error)


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
            silver.register()
        return Landed(table)
    progress(table.name, "read", f"{len(pending)} files")
    decoded = decode_files(spark, table, pending)

    def apply(whole: Decoded) -> tuple[Counts, int]:
        if whole.changes is None:
            return Counts(), 0
        return _apply(silver, state, whole, position.advanced(listed, whole.files).to_text(root), progress)

    try:
        counts, rows = apply(decoded)
    except Py4JJavaError as error:
        # Only reading a file to its end shows that a block within it is broken.
        broken = unreadable_avro(spark, decoded.files)
        if not broken:
            raise InputError(
                first_line(str(error)),
                where=f"{table.relation}: {_names(decoded.files)}",
                expected="readable files of change events",
                action="mend or remove the file that is named; nothing of this batch was landed",
            ) from error
        left_out = {item.file for item in broken}
        rest = decode_files(spark, table, [file for file in decoded.files if file not in left_out])
        decoded = replace(rest, held_back=(*decoded.held_back, *broken))
        counts, rows = apply(decoded)
    incomplete = _held_back(table, decoded.held_back) if decoded.held_back else None
    return Landed(table, counts, len(decoded.files), rows, error=incomplete)


def _apply(
    silver: SilverTable, state: State | None, decoded: Decoded, position: str, progress: Progress
) -> tuple[Counts, int]:
    """Orders and writes a batch; returns its counts and how many rows were written.

    One shuffle brings the changes of a key together; its result is kept, counted once, and written from there.
    """
    table = silver.table
    assert decoded.changes is not None
    changes = with_position(decoded.changes, table.options.connector)
    with _kept(last_of_each_key(changes, table)) as last:
        watermark = state.watermark if state else ""
        told = _summarise(last, watermark)
        batch, judged = last.where("_outcome is null"), Counts()
        if told.late:
            batch, judged = _without_late(silver, batch, watermark)
        if told.quarantined:
            bad = with_line(last.where("_outcome = 'quarantined'"), changes.select("_file", "_order"))
            quarantine.put(silver.spark, table, bad)
        counts = Counts(
            read=told.events,
            applied=told.keys - judged.superseded - judged.duplicate,
            superseded=told.superseded + judged.superseded,
            duplicate=told.duplicate + judged.duplicate,
            ignored=told.ignored,
            quarantined=told.quarantined,
        )
        counts.require_conservation(where=table.relation)
        progress(table.name, "write", f"{counts.applied} rows")
        rows = batch.select(*(f"`{name}`" for name in silver_columns(table)))
        buckets = state.buckets if state else silver.buckets_for(told.keys)
        totals = state.totals + counts if state else counts
        new = State(position, max(watermark, told.newest), buckets, counts, totals)
        silver.write(rows, new, first=state is None)
        silver.register()
        return counts, counts.applied


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame's rows, computed once, for as long as the block runs.

    A local checkpoint keeps Spark's own rows. `persist` would turn them into compressed columns first: 0.85 of the
    2.0 s that TICKIT's sale took to be ordered and counted (docs/performance.md).
    """
    held = frame.localCheckpoint(eager=False)
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
    late: int
    newest: str


def _summarise(last: DataFrame, watermark: str) -> _Summary:
    good = F.col("_outcome").isNull()
    row = last.agg(
        F.coalesce(F.sum("_events"), F.lit(0)).alias("events"),
        F.count_if(good).alias("keys"),
        F.coalesce(F.sum(F.when(good, F.col("_events") - 1 - F.col("_duplicates"))), F.lit(0)).alias("superseded"),
        F.coalesce(F.sum(F.when(good, F.col("_duplicates"))), F.lit(0)).alias("duplicate"),
        F.count_if(F.col("_outcome") == "ignored").alias("ignored"),
        F.count_if(F.col("_outcome") == "quarantined").alias("quarantined"),
        F.count_if(good & is_late(watermark)).alias("late"),
        F.coalesce(F.max(F.when(good, F.col("__position"))), F.lit("")).alias("newest"),
    ).first()
    assert row is not None
    return _Summary(**row.asDict())


def _without_late(silver: SilverTable, batch: DataFrame, watermark: str) -> tuple[DataFrame, Counts]:
    """The batch without the changes that lose against silver, and how many these were, by outcome.

    Only late changes can lose; the rest of the batch is not looked at.
    """
    late = judge_late(batch.where(is_late(watermark)), silver.read(), silver.table).localCheckpoint(eager=False)
    outcomes = {row["_outcome"]: row["count"] for row in late.groupBy("_outcome").count().collect()}
    counts = Counts(superseded=outcomes.get("superseded", 0), duplicate=outcomes.get("duplicate", 0))
    winning = batch.where(~is_late(watermark)).unionByName(late.where("_outcome is null"))
    return winning, counts


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
