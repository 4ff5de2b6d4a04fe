"""The quarantine of a source: one Hudi table with every event that could not be applied, why, and what was read.

Written before the commit that counts the events, and keyed by where they came from: a run that is repeated after a
crash writes the same rows again. Events that a replay has applied are kept beside it until the commit that holds them
is archived: where that is rolled back, they wait again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.config.sources_file import Source
from ingest.config.tables import Table
from ingest.schema.change import is_record, reason_of
from ingest.silver.ledger import Ledger
from ingest.silver.state import State
from ingest.silver.table import SilverTable
from ingest.sources.raw import SINK_ENDING
from ingest.spark.shared import Shared

log = logging.getLogger(__name__)

# The columns of decoded changes that the quarantine keeps.
TAKES = (
    "_lake_file",
    "_lake_partition",
    "_lake_start_offset",
    "_lake_order",
    "_lake_problem",
    "_lake_raw",
    "_lake_form",
    "_lake_record_key",
)
# Columns that the quarantine of an earlier version lacks until something is written to it.
_LATER = {"reason_code": "string", "offset": "bigint", "record_key": "binary", "epoch": "int"}
# Where an event was, in the columns of the quarantine and in those of decoded changes.
PLACE = {
    "file": "_lake_file",
    "partition": "_lake_partition",
    "start_offset": "_lake_start_offset",
    "line": "_lake_line",
}
# How a sink names a file: it ends with the partition, and the offset of the first event.
_SINKS_NAME = rf"\+\d+\+\d+{SINK_ENDING}$"
# How the form of a typed row begins, which is its schema (`ingest.decode.typed_events`).
_ROW_FORM = '{"type"'


def of(schema: str) -> Ledger:
    """The quarantine of the source with that schema."""
    return Ledger(schema, "_quarantine", key="quarantine_id", ordering="quarantined_at")


def replayed(schema: str) -> Ledger:
    """The events of that source that were applied by a replay, until the commit that holds them is archived.

    As in its quarantine, and `commit`, the instant of silver's commit, and `replayed_at`.
    """
    return Ledger(schema, "_replayed", key="quarantine_id", ordering="replayed_at")


def _identity(*of: Expression | str) -> Expression:
    """`quarantine_id` of an event: its table, where it came from, and its epoch (`_of_epoch`). Several tables may read
    one topic, and a topic that is made anew has other events at the same offsets."""
    return F.sha2(F.concat_ws("|", *of), 256)


def _of_epoch(epoch: Expression) -> Expression:
    """What an epoch adds to the place of an event: nothing in the first."""
    return F.when(epoch > 0, epoch.cast("string"))


def has_offset() -> Expression:
    """Whether a decoded change has an offset in its partition: it is a record, or of a file that a sink has named."""
    # The line of a record is 0. A row of a file of Parquet is none: it is kept with the schema of its file.
    is_row = F.col("_lake_file").contains("/") & F.coalesce(F.col("_lake_form").startswith(_ROW_FORM), F.lit(False))
    return F.col("_lake_file").rlike(_SINKS_NAME) | (is_record() & ~is_row)


def _is_counted(last: str) -> Expression:
    """Whether a row of the quarantine is counted by the commit of an instant, or by one before (`State`)."""
    return F.date_format("quarantined_at", "yyyyMMddHHmmssSSS") <= F.lit(last)


def put(spark: SparkSession, table: Table, changes: DataFrame, last: str | None = None) -> tuple[int, str]:
    """Writes the decoded changes (see `ingest.schema.change`) to the quarantine, with their `_lake_problem` as reason.

    Returned is how many of them waited there already and were counted by the `last` commit, an instant, or before; and
    the instant of the quarantine's commit. The former keep their `quarantined_at`: what is younger than the last commit
    is of a run that was killed before it counted.

    Columns of the quarantine: `quarantine_id` (key), `source_table`, `topic`, `file`, `partition`, `start_offset` (of
    the file), `line` (0-based, of the event within the file), `offset` (of the record in its partition; null in a file
    that is not named by a sink), `reason_code` (`ingest.schema.change.ReasonCode`), `reason`, `raw` (bytes as read; a
    typed event as JSON), `form` (a typed event's schema), `record_key` (bytes of the record's key), `quarantined_at`,
    `epoch` (that it was delivered in; null in rows of older versions).

    Raises
    ------
    WriteError
        The quarantine could not be written; the caller must not count these events as dealt with.
    """
    code, reason = reason_of(F.col("_lake_problem"))
    offset = F.when(has_offset(), F.col("_lake_start_offset") + F.col("_lake_line"))
    epoch = _of_epoch(F.lit(table.options.epoch))
    rows = changes.select(
        _identity(F.lit(table.name), F.lit(table.options.topic), *PLACE.values(), epoch).alias("quarantine_id"),
        F.lit(table.name).alias("source_table"),
        F.lit(table.options.topic).alias("topic"),
        *(F.col(name).alias(kept) for kept, name in PLACE.items()),
        reason.alias("reason"),
        F.col("_lake_raw").alias("raw"),
        F.col("_lake_form").cast("string").alias("form"),
        F.current_timestamp().alias("quarantined_at"),
        code.alias("reason_code"),
        offset.alias("offset"),
        F.col("_lake_record_key").alias("record_key"),
        # By way of a text, as a literal is never null: rows of older versions have none, and Hudi would refuse it.
        F.lit(str(table.options.epoch)).cast("int").alias("epoch"),
    )
    ledger = of(table.schema)
    with ledger.writing(spark):
        known = waiting(spark, table)
        again = 0
        if known is not None:
            rows, again = _as_known(_with_older_ids(rows, known), known, last)
        ledger.write(spark, rows, "upsert")
        return again, next(completed for _, completed in ledger.hudi(spark).timeline.instants())


def tell_of_lost(silver: SilverTable, state: State | None, *, anew: bool = False) -> None:
    """Warns, once a process, where the quarantine lacks the commit with the table's last events.

    One that was rolled back, or put back from a copy of before, does. It is looked at once a process, or `anew`: one
    that is gone is told by `Ledger.require_whole`.
    """
    spark, table = silver.spark, silver.table
    if state is None or not state.quarantine:
        return
    shared, named = Shared.of(spark), (silver.path, state.quarantine)
    is_new = bool(shared.new_of("commits of quarantines, looked for", [named]))
    if not (is_new or anew):
        return
    ledger = of(table.schema).hudi(spark)
    if not ledger.exists():
        return
    is_there = any(completed == state.quarantine for _, completed in ledger.timeline.instants())
    if not is_there and shared.new_of("commits of quarantines, told of", [named]):
        log.warning(
            "%s lacks the commit of %s, as one that was rolled back, or a copy of before, would: events of %s that "
            "were set aside are missing from it; `lake position %s --to earliest` brings those that the source still "
            "has",
            ledger.options.relation,
            state.quarantine,
            table.relation,
            table.alone,
        )


def _as_known(rows: DataFrame, known: DataFrame, last: str | None) -> tuple[DataFrame, int]:
    """The rows, those that wait already as they were set aside; and how many of them the `last` commit has counted."""
    if last is None:
        return rows, 0
    counted = known.where(_is_counted(last)).select(
        F.col("quarantine_id").alias("_lake_id"),
        F.col("raw").alias("_lake_raw"),
        F.col("quarantined_at").alias("_lake_since"),
        F.col("epoch").alias("_lake_epoch"),
    )
    # An event that is another one by now, in the place of the first, is none of those.
    is_same = (F.col("quarantine_id") == F.col("_lake_id")) & F.col("raw").eqNullSafe(F.col("_lake_raw"))
    again = rows.join(counted, is_same, "left_semi").count()
    if not again:
        return rows, 0
    kept = {
        "quarantined_at": F.coalesce("_lake_since", "quarantined_at"),
        "epoch": F.when(F.col("_lake_id").isNull(), F.col("epoch")).otherwise(F.col("_lake_epoch")),
    }
    return rows.join(counted, is_same, "left").withColumns(kept).select(*rows.columns), again


def _with_older_ids(rows: DataFrame, known: DataFrame) -> DataFrame:
    """The rows; those that an earlier version set aside keep the ids they have, without table or epoch."""
    place = ("source_table", "topic", *PLACE)
    today, id_of = _identity(*place, _of_epoch(F.col("epoch"))), F.col("quarantine_id")
    is_older = (id_of == _identity("topic", *PLACE)) | ((id_of == _identity(*place)) & (id_of != today))
    older = known.where(is_older).select(id_of.alias("_lake_older"), today.alias("_lake_id"))
    older = older.localCheckpoint()
    if older.isEmpty():
        return rows
    joined = rows.join(older, F.col("quarantine_id") == F.col("_lake_id"), "left")
    return joined.withColumn("quarantine_id", F.coalesce("_lake_older", "quarantine_id")).select(*rows.columns)


def waiting(spark: SparkSession, table: Table) -> DataFrame | None:
    """The quarantined events of a table; None where the source never had any."""
    every = _read(spark, of(table.schema))
    return None if every is None else _of_table(every, table)


def kept(spark: SparkSession, table: Table) -> Iterator[tuple[Ledger, DataFrame]]:
    """Each ledger that may hold events of a table as they were read, with these."""
    for ledger in (of(table.schema), replayed(table.schema)):
        if (every := _read(spark, ledger)) is not None:
            yield ledger, _of_table(every, table)


def _of_table(every: DataFrame, table: Table) -> DataFrame:
    return every.where(F.col("source_table") == table.name)


def _commits_of(replays: DataFrame) -> frozenset[str]:
    return frozenset(row["commit"] for row in replays.select("commit").distinct().collect())


def settle(spark: SparkSession, table: Table, events: DataFrame, commit: str) -> None:
    """Removes the events that were replayed, but for those that were set aside again since.

    Parameters
    ----------
    events:
        Those of the quarantine, as they were when the replay began.
    commit:
        The instant of silver's commit that holds them, or of one behind it.

    Raises
    ------
    WriteError
        The quarantine could not be written: the events are still in it, and may be replayed again without harm.
    """
    ledger = of(table.schema)
    with ledger.writing(spark):
        every = ledger.read(spark)
        assert every is not None
        again = every.join(events.select(*_SAME), [*_SAME], "left_anti").select("quarantine_id")
        _remember(spark, table, events.join(again, "quarantine_id", "left_anti"), commit)
        ledger.write(spark, every.join(events.select(*_SAME), [*_SAME], "left_semi").select(*every.columns), "delete")


def _remember(spark: SparkSession, table: Table, events: DataFrame, commit: str) -> None:
    """Keeps replayed events, and forgets those whose commits are archived: nobody can roll these back any more."""
    done = replayed(table.schema)
    with done.writing(spark):
        done.write(spark, events.withColumns({"commit": F.lit(commit), "replayed_at": F.current_timestamp()}), "upsert")
        known = done.read(spark)
        assert known is not None
        mine = _of_table(known, table)
        commits = _commits_of(mine)
        if old := commits - SilverTable.of(spark, table).hudi.timeline.revocable(commits):
            done.write(spark, mine.where(F.col("commit").isin(sorted(old))), "delete")


def restore(silver: SilverTable) -> None:
    """Puts events of replays back into the quarantine whose commits are not there any more.

    The commits were rolled back, the table was restored from a copy, or it is gone.

    Raises
    ------
    WriteError
        The quarantine cannot be read or written.
    """
    spark, table = silver.spark, silver.table
    commits = _replays(silver)
    gone = silver.hudi.timeline.rolled_back(commits) if commits and silver.exists() else commits
    if not gone:
        return
    ledger, done = of(table.schema), replayed(table.schema)
    with ledger.writing(spark), done.writing(spark):
        every, known = ledger.read(spark), done.read(spark)
        assert every is not None
        assert known is not None
        back = _of_table(known, table).where(F.col("commit").isin(sorted(gone))).localCheckpoint()
        # One that was set aside anew is there already.
        lacking = back.join(every.select("quarantine_id"), "quarantine_id", "left_anti")
        ledger.write(spark, lacking.drop("commit", "replayed_at"), "upsert")
        done.write(spark, back, "delete")
    log.warning(
        "%s: %d replayed events wait in the quarantine again, as the commit that held them is gone: `lake quarantine "
        "replay %s` applies them", table.relation, back.count(), table.alone,
    )  # fmt: skip


def _replays(silver: SilverTable) -> frozenset[str]:
    """The commits that hold replayed events of a table: read anew only where there are others."""
    spark, table = silver.spark, silver.table
    done, shared = replayed(table.schema), Shared.of(silver.spark)
    # A catalog that was lost knows of no ledger until it is looked for.
    looked_for = shared.remembered("replays looked for")
    if not spark.catalog.tableExists(done.relation) and (
        looked_for.setdefault(table.schema, False) or done.read(spark) is None
    ):
        looked_for[table.schema] = True
        return frozenset()

    def read() -> frozenset[str]:
        known = done.read(spark)
        assert known is not None
        return _commits_of(_of_table(known, table))

    last = next(done.hudi(spark).timeline.instants(), None)
    return shared.built(f"replays of {table.relation}", last, read)


def events(spark: SparkSession, source: Source) -> DataFrame | None:
    """The quarantine of a source; None where nothing was ever quarantined."""
    return _read(spark, of(source.schema))


def _read(spark: SparkSession, ledger: Ledger) -> DataFrame | None:
    every = ledger.read(spark)
    if every is None:
        return None
    return every.withColumns(
        {name: F.lit(None).cast(kind) for name, kind in _LATER.items() if name not in every.columns}
    )


_SAME = ("quarantine_id", "quarantined_at")
