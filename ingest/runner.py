"""Runs the landing of a source: each table by itself, side by side, in one Spark session."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest import batch, quarantine
from ingest.declaration import Table
from ingest.decode.debezium import decode_again
from ingest.decode.files import Decoded, HeldBack, decode_files, unreadable_avro
from ingest.errors import InputError, LakeError
from ingest.session import first_line
from ingest.silver import Counts, SilverTable
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
            silver.register()
        return Landed(table)
    progress(table.name, "land", f"{len(pending)} files")
    decoded = decode_files(spark, table, pending)

    def landed(whole: Decoded) -> Counts:
        if whole.changes is None:
            return Counts()
        done = batch.apply(silver, state, whole.changes, position.advanced(listed, whole.files).to_text(root))
        silver.register()
        return done

    try:
        counts = landed(decoded)
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
        counts = landed(decoded)
    incomplete = _held_back(table, decoded.held_back) if decoded.held_back else None
    return Landed(table, counts, len(decoded.files), error=incomplete)


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
    origin = kept.select(
        F.decode("raw", "UTF-8").alias("value"),
        F.col("form").alias("_form"),
        F.col("partition").alias("_partition"),
        F.col("start_offset").alias("_start_offset"),
        F.col("line").alias("_order"),
        F.col("file").alias("_file"),
    )
    nothing = FilesPosition().to_text("")
    counts = batch.apply(
        silver, state, decode_again(origin, table), state.position if state else nothing, replayed=kept.count()
    )
    silver.register()
    quarantine.settle(spark, table, kept)
    return Landed(table, counts, seconds=time.monotonic() - started)


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
