"""The last change of each key, and what becomes of those before it."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from ingest.changes.position import is_delete, is_one_change, is_read, is_unplaced, log_of, partition_of
from ingest.config.tables import Table
from ingest.schema.change import ORIGIN
from ingest.schema.connectors import order_of


def ranked(changes: DataFrame, table: Table) -> DataFrame:
    """The changes of each key, newest first. Changes that are of no key's stand each by itself.

    One window by the record key.

    Adds
    ----
    `_lake_outcome` string:
        'ignored', 'quarantined', 'truncated', or null for a change of a key.
    `_lake_rank` int:
        1 for the last change of its key by position, and for those of no key's.
    `_lake_repeated` boolean:
        The next newer change of the key is the same one, delivered once more.
    `_lake_mixed` boolean:
        Of this change and the next newer one of the key only one was read by a snapshot, or only one has a place in
        the log, or one is a delete at the place of the other: see `placed_by_delivery`.
    `_lake_is_oldest` boolean:
        There is no older change of the key.
    """
    is_truncate = F.coalesce(F.col("__op") == "t", F.lit(False))
    truncated = "ignored" if table.options.truncate == "ignore" else "truncated"
    outcome = (
        F.when(F.col("_lake_ignored"), "ignored")
        .when(F.col("_lake_problem").isNotNull(), "quarantined")
        .when(is_truncate, truncated)
    )
    if not table.key:
        alone = {
            "_lake_rank": F.lit(1),
            "_lake_repeated": F.lit(False),
            "_lake_mixed": F.lit(False),
            "_lake_is_oldest": F.lit(True),
        }
        return changes.withColumns({"_lake_outcome": outcome, **alone})
    # A group of its own for each change that has no key to be grouped by.
    place = (F.coalesce(F.col(name).cast("string"), F.lit("")) for name in ORIGIN)
    of_no_key = F.when(outcome.isNotNull(), F.concat_ws("/", *place))
    of_a_key = F.when(outcome.isNull(), F.col(f"`{table.record_key}`"))
    newest_first = Window.partitionBy("_lake_group", "_lake_alone").orderBy(F.col("__position").desc())
    kind = _kind(table)
    is_same = (F.lag(log_of()).over(newest_first) == log_of()) & (F.lag(kind).over(newest_first) == kind)
    if (ties := may_tie(table)) is not None:
        row = F.when(ties, F.to_json(whole_row(table), {"ignoreNullFields": "false"}))
        is_same &= F.lag(row).over(newest_first).eqNullSafe(row)
    return (
        changes.withColumns({"_lake_outcome": outcome, "_lake_group": of_a_key, "_lake_alone": of_no_key})
        .withColumns(
            {
                "_lake_rank": F.row_number().over(newest_first),
                "_lake_repeated": F.coalesce(is_same, F.lit(False)),
                "_lake_mixed": _is_mixed(table, kind, newest_first),
                "_lake_is_oldest": F.lead(F.lit(False), 1, True).over(newest_first),
            }
        )
        .drop("_lake_group", "_lake_alone")
    )


# What a change at a place in the log is; at one place the same is the same change.
_BARE, _DELETE, _READ, _WRITE = "bare tombstone", "delete", "read", "write"
_MOVED = (_DELETE + _WRITE, _WRITE + _DELETE)


def _kind(table: Table) -> Expression:
    """Which kind of change it is. A bare tombstone stands at the place of what it deletes, and a row that a read-only
    incremental snapshot of a binlog reads at the place of the change that it is sent before."""
    is_bare = is_delete() & is_unplaced(table)
    return F.when(is_bare, _BARE).when(is_delete(), _DELETE).when(is_read(), _READ).otherwise(_WRITE)


def _is_mixed(table: Table, kind: Expression, newest_first: WindowSpec) -> Expression:
    """`_lake_mixed`. A bare tombstone and an incremental snapshot's row come behind what a snapshot has read before."""
    standing = F.when(is_unplaced(table), "unplaced").when(is_read(), "read").otherwise("placed")
    partition = partition_of(F.col("__position"))
    is_at_newer = F.lag(log_of()).over(newest_first) == log_of()
    is_two_kinds = F.concat(F.lag(kind).over(newest_first), kind).isin(*_MOVED)
    is_moved = is_at_newer & is_two_kinds & is_one_change(table, F.lag(partition).over(newest_first) != partition)
    return F.coalesce((F.lag(standing).over(newest_first) != standing) | is_moved, F.lit(False))


def whole_row(table: Table) -> Expression:
    """What a change says of its row."""
    return F.struct("__deleted", *(f"`{column.name}`" for column in table.columns))


def may_tie(table: Table) -> Expression | None:
    """Whether different changes of a row may share a place in the log, of which the later delivered counts; or None."""
    return order_of(table).ties()
