"""The history of a table that declares it: one Hudi table, `<table>__changes`, with every change that was landed.

Silver keeps the last change of a row; what loses against it (an older change of the batch, a late one) is kept here
alone. The changes are written before silver's commit and keyed by what they are, not by how they came: a run that is
repeated after a crash, a delivery that comes again and a full replay write the same rows. No position is kept here:
silver's commit holds it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.changes.late import Truncate, precedes_truncate
from ingest.changes.position import (
    as_record_key,
    delivered_at,
    epoch_of,
    is_placed_by_lsn,
    is_read,
    is_unplaced,
    log_of,
    log_position,
)
from ingest.config.tables import HISTORY, Table
from ingest.errors import WriteError
from ingest.schema.change import OPTIONAL, UNAVAILABLE_SEPARATOR, silver_columns
from ingest.schema.connectors import order_of
from ingest.silver import file_groups
from ingest.silver.hudi import BUCKETS_KEY, HudiTable
from ingest.silver.state import State
from ingest.silver.table import SilverTable
from ingest.spark.prepared import prepared

log = logging.getLogger(__name__)
# The columns of the history besides silver's own.
_ADDED = ("__unavailable", "__change", "__rank", "__month")


def changes_of(silver: SilverTable) -> SilverTable:
    """The history of a silver table, beside it."""
    table = silver.table
    options = table.options.model_copy(update={"partition_by": ("__month",)})
    named = replace(table, name=f"{table.name}{HISTORY}", options=options)
    return replace(silver, table=named, path=f"{silver.path}{HISTORY}")


def put(
    silver: SilverTable,
    state: State | None,
    changes: DataFrame,
    *,
    buckets: int | None,
    raised: DataFrame | None,
    filled: DataFrame | None,
    set_aside: Sequence[DataFrame],
    truncate: Truncate | None,
) -> str:
    """Writes the good changes of a batch to the history: superseded, late and repeated ones, and truncates as well.

    A history that begins after its silver table begins with silver's rows, and so goes on one that was not kept for a
    while, or is a copy of before: what was before them is not known.

    Parameters
    ----------
    state:
        Silver's state before the batch; None before its first commit.
    changes:
        All changes of the batch with their positions (see `ingest.changes.position.with_position`).
    buckets:
        Silver's number of buckets: the history has as many in each partition.
    raised:
        The late changes that won against silver, with the positions they won by; None where there were none.
    filled:
        Rows in silver's columns, one per change of `changes` whose lacking values another key's row had brought.
    set_aside:
        Changes that the batch quarantines though they were good by themselves: they come with their replay.
    truncate:
        The last one, where the batch has changes without a place in the log; None where it has none of these.

    Returns
    -------
    The instant of the history's last commit, which the next batch must find there.

    Raises
    ------
    WriteError
        The history could not be written; the caller must not commit the batch.
    """
    table = silver.table
    history = changes_of(silver)
    begins = state is not None and (state.has_history is False or not _holds(silver, state))
    good = _good(changes, table)
    if truncate is not None:
        before = _before(silver, history, is_whole=not begins, truncate=truncate) if state else None
        good = _standing(good, before, table, truncate)
    if raised is not None and is_placed_by_lsn(table):
        good = _raised(good, raised, table)
    rows = prepared(good, f"history of {table.relation}", table, partial(_as_kept, table=table))
    rows = _as_judged(rows, set_aside, filled, table)
    if state is None:
        history.remove_empty()
    if begins:
        rows = rows.unionByName(_as_kept(_held(silver), table))
    _write(history, rows, buckets)
    return next(completed for _, completed in history.hudi.timeline.instants())


def _as_judged(rows: DataFrame, set_aside: Sequence[DataFrame], filled: DataFrame | None, table: Table) -> DataFrame:
    """The history's rows without the changes that are set aside, and those that are filled as they were filled."""
    if set_aside:
        waiting = reduce(DataFrame.unionByName, (frame.select(_change(table).alias("__change")) for frame in set_aside))
        rows = rows.join(F.broadcast(waiting.distinct()), "__change", "left_anti")
    if filled is not None:
        whole = _as_kept(_holding_all(filled), table)
        rows = rows.join(F.broadcast(whole.select("__change")), "__change", "left_anti").unionByName(whole)
    return rows


def _holds(silver: SilverTable, state: State) -> bool:
    """Whether the history has the commit that silver's state names, or any where that names none. One that is gone, or
    was put back from a copy of before, has not: changes are gone from it."""
    history = changes_of(silver)
    is_committed = history.is_committed()
    if is_committed and (
        not state.history or any(completed == state.history for _, completed in history.hudi.timeline.instants())
    ):
        return True
    if is_committed or state.has_history:
        log.warning(
            "%s %s: it goes on with silver's rows, and changes between are missing from it; `lake position %s --to "
            "earliest` brings those that the source still has",
            history.table.relation,
            f"lacks the commit of {state.history}, as a copy of before would" if is_committed else "is gone",
            silver.table.alone,
        )
    return False


def require_whole(silver: SilverTable, state: State) -> None:
    """Looks for the files of the history.

    Raises
    ------
    WriteError
        Silver's last commit was kept in it, and it is gone; or files of its commits are.
    """
    history = changes_of(silver)
    if history.is_committed():
        file_groups.require_whole(history.hudi.timeline)
    elif state.has_history:
        raise WriteError(
            "its folder is gone, and silver's last commit was kept in it",
            where=history.path,
            expected=f"the history of {silver.table.relation}, as it was written",
            action=f"put the folder back from a copy; or the next batch begins it anew with silver's rows, and `lake "
            f"position {silver.table.alone} --to earliest` brings the changes that the source still has",
        )


def make_empty(silver: SilverTable, buckets: int | None) -> None:
    """Makes the history of a table that has no rows yet.

    Raises
    ------
    WriteError
        Hudi could not write.
    """
    history = changes_of(silver)
    history.remove_empty()
    _write(history, _as_kept(_holding_all(silver.no_rows()), silver.table), buckets)


def conform(silver: SilverTable, state: State) -> None:
    """Gives the history the columns that silver was given, by a commit without rows.

    Raises
    ------
    WriteError
        Hudi could not write.
    """
    nothing = _holding_all(silver.read().limit(0))
    history = changes_of(silver)
    if history.is_committed():
        _write(history, _as_kept(nothing, silver.table), state.buckets)


def _good(changes: DataFrame, table: Table) -> DataFrame:
    """The changes of a batch that the history keeps."""
    is_truncate = F.coalesce(F.col("__op") == "t", F.lit(False))
    good = changes.where("not _lake_ignored and _lake_problem is null")
    if table.options.truncate == "ignore":
        good = good.where(~is_truncate)
    return good.withColumn("__deleted", F.when(is_truncate, "true").otherwise(F.col("__deleted")))


def _standing(changes: DataFrame, before: DataFrame | None, table: Table, truncate: Truncate) -> DataFrame:
    """The changes, those without a place in the log behind what was delivered before them.

    Such are the changes of their key in the batch (`placed_by_delivery`) and `before` it, and the last truncate. What
    other partitions have brought by then says nothing: the key's next change may stand before it.
    """
    logs = [log_of()]
    if truncate.position:
        at = F.lit(truncate.position.partition("/")[0])
        logs.append(F.when(~precedes_truncate(truncate, table), at))
    joined = changes
    if before is not None:
        key = F.col(f"`{table.record_key}`")
        known = before.select(key.alias("_lake_known_key"), F.col("__position").alias("_lake_known"))
        is_its = (key == F.col("_lake_known_key")) & (delivered_at("_lake_known") < delivered_at("__position"))
        found = changes.where(is_unplaced(table)).join(known, is_its)
        last = found.groupBy(F.col("__position").alias("_lake_own")).agg(
            F.max(F.substring_index("_lake_known", "/", 1)).alias("_lake_last")
        )
        joined = changes.join(last, F.col("__position") == F.col("_lake_own"), "left")
        logs.append(F.col("_lake_last"))
    log = F.greatest(*logs) if len(logs) > 1 else logs[0]
    stands = F.when(is_unplaced(table), F.concat(log, F.lit("/"), _offset())).otherwise(F.col("__position"))
    return joined.withColumn("__position", stands).select(*(f"`{name}`" for name in changes.columns))


def _before(silver: SilverTable, history: SilverTable, *, is_whole: bool, truncate: Truncate) -> DataFrame:
    """The changes that were landed before: the last ones, as silver has them, or all where a truncate took some."""
    return history.read() if is_whole and truncate.position else silver.read()


def _held(silver: SilverTable) -> DataFrame:
    """Silver's rows as changes. A row that a truncate emptied is a delete of that row here."""
    op = F.when(F.col("__op") == "t", "d").otherwise(F.col("__op"))
    return _holding_all(silver.read().withColumn("__op", op))


def _holding_all(rows: DataFrame) -> DataFrame:
    """Rows in silver's columns as changes that hold every value."""
    return rows.withColumn("_lake_unavailable", F.lit(None).cast("string"))


def _raised(changes: DataFrame, winners: DataFrame, table: Table) -> DataFrame:
    """The changes of transactions that were open while a snapshot read their row, behind that row.

    `judge_late` raises the last change of a key; the older ones of the same batch go with it.
    """
    key = table.record_key
    commit = F.split(F.substring_index("__position", "/", 1), r"\.")[1]
    to = winners.where(~is_read() & (commit > F.split(log_position(table), r"\.")[0])).select(
        F.col(f"`{key}`"), commit.alias("_lake_commit"), F.col("__lsn").alias("_lake_upto")
    )
    own = F.concat(
        epoch_of("__position"),
        F.col("_lake_commit"),
        F.lit("."),
        F.substring_index("__position", ".", -1),
    )
    late = ~is_read() & (F.col("__lsn") <= F.col("_lake_upto")) & (commit < F.col("_lake_commit"))
    return (
        changes.join(F.broadcast(to), key, "left")
        .withColumn("__position", F.when(F.coalesce(late, F.lit(False)), own).otherwise(F.col("__position")))
        .drop("_lake_commit", "_lake_upto")
    )


def _as_kept(changes: DataFrame, table: Table) -> DataFrame:
    """The changes as rows of the history.

    Columns of the history: silver's, where `__position` ends with its first or last delivery, and
    `__unavailable` array of text:
        The columns whose value the event does not hold; null where it holds all.
    `__change` text (key):
        Epoch and log position, what it is (`c`, `d`, `r`, `t`), and the record key.
    `__rank` text:
        Of two deliveries of one change the one with the greater rank is kept.
    `__month` text (partition):
        Of `__source_ts_ms`, in UTC: a commit meets the files of the months that it has changes of.
    """
    names = F.transform(
        F.split("_lake_unavailable", UNAVAILABLE_SEPARATOR), lambda name: F.regexp_replace(name, f"^\\{OPTIONAL}", "")
    )
    # A row of an incremental snapshot stands where it was first delivered, any other change where it was placed last:
    # digits turned round sort the other way.
    rank = F.when(is_unplaced(table), F.translate("__position", "0123456789abcdef", "fedcba9876543210")).otherwise(
        F.col("__position")
    )
    month = F.coalesce(F.date_format(F.timestamp_millis("__source_ts_ms"), "yyyy-MM"), F.lit("none"))
    added = (F.array_distinct(names), _change(table), rank, month)
    return changes.select(
        *(F.col(f"`{name}`") for name in silver_columns(table)),
        *(value.alias(name) for name, value in zip(_ADDED, added, strict=True)),
    )


def _change(table: Table) -> Expression:
    """What a change is, however often it is delivered.

    A row of an incremental snapshot has no place in the log: it is known by what it holds and when it was read. A
    tombstone says neither: it is known by where it was delivered.
    """
    epoch = epoch_of("__position")
    values = (F.col(f"`{column.name}`").cast("string") for column in table.columns)
    content = F.sha2(F.to_json(F.array(F.col("__source_ts_ms").cast("string"), *values)), 256)
    kind = F.when(F.col("__op") == "t", "t").when(is_read(), "r").when(F.col("__deleted") == "true", "d").otherwise("c")
    key = F.when(F.coalesce(F.col("__op") != "t", F.lit(True)), F.col(f"`{table.record_key}`").cast("string"))
    place = F.coalesce(order_of(table).name(), F.when(is_read(), content).otherwise(_offset()))
    return as_record_key(F.concat_ws("/", F.concat(epoch, place), kind, key))


def _offset() -> Expression:
    return F.substring_index("__position", "/", -1)


def hudi_table(history: SilverTable, buckets: int | None) -> HudiTable:
    """The history (`changes_of`) as it is written: with the buckets it has in each month; at first silver's number of
    them, unless one is declared."""
    silver = history.hudi
    options = replace(
        silver.options,
        key="__change",
        ordering="__rank",
        removed_where=None,
        buckets=_noted_buckets(history) or history.table.options.buckets or buckets or 1,
        combines=True,
        keeps_cuts=False,
        is_companion=True,
    )
    return replace(silver, options=options)


def _write(history: SilverTable, rows: DataFrame, buckets: int | None) -> None:
    with history.writing():
        hudi_table(history, buckets).upsert(rows)
    history.register()


def _noted_buckets(history: SilverTable) -> int | None:
    """The number of buckets that the history's last commit by ingest tells; None in commits of older versions."""
    if not history.exists():
        return None
    noted = (metadata.getExtraMetadata().get(BUCKETS_KEY) for metadata, _ in history.hudi.timeline.commits())
    return next((int(str(text)) for text in noted if text), None)
