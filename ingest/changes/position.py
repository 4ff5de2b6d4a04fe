"""The total order of changes: each has its place in the source's log and its place of delivery.

Every step of this room takes and returns DataFrames, and none writes anything.

A change's place is its `__position`: `<epoch>.<place in the source's log>/<place of delivery>`, a text that sorts in
the order in which the source made the changes and has no ties.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import WindowSpec

from ingest.config.tables import Table
from ingest.schema.change import UNNAMED
from ingest.schema.connectors import LONG_DIGITS, LogOrder, commit_lsn, connector_of, order_of, padded

# Text before the log position: the epoch and a point.
_EPOCH_LENGTH = 5
# The bits of an event's line in `_lake_order`; before them stands the hash of its file.
_LINE_BITS = 32
# Before the place of delivery of a change that stands right behind another one.
_BEHIND = "~"
# Rows that are sent to every task rather than shuffled.
FEW = 100_000


def log_position(table: Table) -> Expression:
    """Where in the source's log a change stands, as a text that sorts as the log does; null where an event has none.

    By the table's connector, or its `order_by` (`ingest.schema.connectors`). Rows of an incremental snapshot have none,
    and neither have deletes that are bare tombstones.
    """
    return order_of(table).position()


def with_position(changes: DataFrame, table: Table) -> DataFrame:
    """Adds `__position`, and `__key` where the table has one.

    The place of delivery decides between changes that share a log position (rows of a snapshot, repeated
    deliveries): the partition, the file's first offset and the order within the file. A change without a log position
    stands before every other one, until `placed_by_delivery` or `judge_late` find changes of its key that were
    delivered before it.
    """
    epoch = f"{table.options.epoch:04x}."
    offset = F.concat_ws(
        "-", padded("_lake_partition", 4), padded("_lake_start_offset", 12), padded("_lake_order", LONG_DIGITS)
    )
    log = F.coalesce(log_position(table), F.lit(""))
    position = F.concat(F.lit(epoch), log, F.lit("/"), F.lower(offset))
    added = {"__position": position, "__carried": F.lit(None).cast("string")}
    return changes.withColumns({**added, **record_key(table)})


def record_key(table: Table) -> dict[str, Expression]:
    """`__key`, the key as one text, where the table has such a column."""
    if table.record_key != "__key":
        return {}
    types = {column.name: column.data_type for column in table.columns}
    text = F.to_json(F.array(*(_key_text(F.col(f"`{name}`"), types[name]) for name in table.key)))
    has_texts = any(isinstance(types[name], T.StringType | T.BinaryType | T.TimestampType) for name in table.key)
    return {"__key": as_record_key(text) if has_texts else text}


def as_record_key(text: Expression) -> Expression:
    """A text that Hudi's bucket index reads to its end: with JSON's escape for each colon where it would not.

    Hudi takes what stands around a colon in a record key for a column and its value, and searches forever where a key
    has a comma, and none between its last two colons (`KeyGenUtils.extractRecordKeysByFields` of Hudi 1.2).
    """
    end = F.substring_index(text, ":", -2)
    is_endless = text.contains(",") & (end != text) & ~F.substring_index(end, ":", 1).contains(",")
    return F.when(is_endless, F.replace(text, F.lit(":"), F.lit("\\u003a"))).otherwise(text)


def _key_text(value: Expression, data_type: T.DataType) -> Expression:
    """A part of a key as text. JSON has U+FFFD for all bytes that are no UTF-8: such are hexadecimal behind one."""
    if not isinstance(data_type, T.BinaryType):
        return value.cast("string")
    text = F.decode(value, "UTF-8")
    is_text = (text.cast("binary") == value) & ~text.startswith("\ufffd")
    return F.when(is_text, text).otherwise(F.concat(F.lit("\ufffd"), F.hex(value)))


def placed_by_delivery(changes: DataFrame, table: Table) -> DataFrame:
    """The changes of keys that a snapshot read amid their stream, with the positions the order of delivery gives.

    Three things the log position of an event does not say (traps of real streams):

    - a row of an incremental snapshot holds what came before it, and not what comes after it;
    - a delete that is a bare tombstone deletes what came before it. Right behind another delete it says nothing more;
    - a change whose transaction was open while a snapshot read the row has a smaller LSN than that row, comes after
      it, and counts. Only its commit position would say so: Debezium does not know one before the first commit, and
      behind a blocking snapshot it knows one from before it.

    One window by the record key; only for batches in which `ranked` finds such keys.
    """
    delivered, whole_log, offset = _delivered_before(table), log_of(), F.substring_index("__position", "/", -1)
    raised = behind_reads(table) if is_placed_by_lsn(table) else whole_log
    placed = changes.withColumn("_lake_log", raised).withColumn("_lake_unplaced", is_unplaced(table))
    if table.options.tombstones == "delete":
        # What is set aside deletes nothing, and says nothing of others: it may have no key to be grouped by.
        is_good = F.col("_lake_problem").isNull() & ~F.col("_lake_ignored")
        is_gone = F.when(is_good, F.coalesce(F.col("__deleted") == "true", F.lit(False)))
        is_behind = F.coalesce(F.last(is_gone, ignorenulls=True).over(delivered), F.lit(False))
        says_nothing = F.col("_lake_unplaced") & ~is_read() & is_good & is_behind
        placed = placed.withColumn("_lake_ignored", F.col("_lake_ignored") | says_nothing)
    # A row that was read before a topic got more partitions is in another one than its later changes.
    beside = _delivered_before(table, partition_of(F.col("__position")))
    before = F.when(is_read(), F.max("_lake_log").over(beside)).otherwise(F.max("_lake_log").over(delivered))
    before = F.coalesce(before, F.lit(""))
    log = F.when(F.col("_lake_unplaced"), F.greatest("_lake_log", before)).otherwise(F.col("_lake_log"))
    placed = placed.withColumn("__position", F.concat(log, F.lit("/"), offset))
    return _written_behind_deletes(placed, table).drop("_lake_log", "_lake_unplaced")


def _delivered_before(table: Table, *within: Expression) -> WindowSpec:
    """The changes of a change's key that were delivered before it."""
    by_key = Window.partitionBy(f"`{table.record_key}`", *within)
    return by_key.orderBy(F.substring_index("__position", "/", -1)).rowsBetween(Window.unboundedPreceding, -1)


def behind_reads(table: Table) -> Expression:
    """Epoch and log position of a change: behind the row that a snapshot has read and delivered before it.

    Of a frame's changes of one key: of PostgreSQL, see `placed_by_delivery`. Only of one partition: which of two
    partitions was written first nothing says but the log.
    """
    partition, whole_log = partition_of(F.col("__position")), log_of()
    epoch, place, own = epoch_of(whole_log), F.split(whole_log, r"\.")[1], F.split(whole_log, r"\.")[2]
    read_at = F.max(F.when(is_read() & F.col("__lsn").isNotNull(), place)).over(
        _delivered_before(table, epoch, partition)
    )
    raised = F.concat(epoch, F.greatest(place, read_at), F.lit("."), own)
    return F.when(~is_read() & ~is_unplaced(table), raised).otherwise(whole_log)


def _written_behind_deletes(placed: DataFrame, table: Table) -> DataFrame:
    """The changes, each write behind the delete of its key that is the same change of the log (`is_one_change`)."""
    is_placed = ~F.col("_lake_unplaced")
    at_once = Window.partitionBy(f"`{table.record_key}`", log_of())
    gone = F.max(F.when(is_delete() & is_placed, F.col("__position"))).over(at_once)
    is_one = is_one_change(table, partition_of(gone) != partition_of(F.col("__position")))
    is_moved = ~is_delete() & ~is_read() & is_placed & is_one & (gone > F.col("__position"))
    return placed.withColumn("__position", F.when(is_moved, behind(gone)).otherwise(F.col("__position")))


def with_line(changes: DataFrame, origins: DataFrame) -> DataFrame:
    """Adds `_lake_line`, the 0-based place of an event in its file.

    Parameters
    ----------
    changes:
        The changes to be placed, few.
    origins:
        `_lake_file` and `_lake_order` of every event that was read together with them.
    """
    task = F.shiftright("_lake_order", 33)
    spans = origins.groupBy("_lake_file", task.alias("_lake_task")).agg(
        F.min("_lake_order").alias("_lake_first"), F.count("*").alias("_lake_length")
    )
    before = Window.partitionBy("_lake_file").orderBy("_lake_task").rowsBetween(Window.unboundedPreceding, -1)
    placed = spans.withColumn("_lake_before", F.coalesce(F.sum("_lake_length").over(before), F.lit(0))).drop(
        "_lake_length"
    )
    return (
        changes.withColumn("_lake_task", task)
        .join(F.broadcast(placed), ["_lake_file", "_lake_task"])
        .withColumn("_lake_line", F.col("_lake_order") - F.col("_lake_first") + F.col("_lake_before"))
        .drop("_lake_task", "_lake_first", "_lake_before")
    )


def with_place_in_file(changes: DataFrame, table: Table) -> DataFrame:
    """The changes with their lines (`_lake_line`) for `_lake_order`, however the files were read.

    Files that no sink has named may have one time: copied ones, and those of one second of an object store. Their
    lines are told apart by the hash of the path below the topic's folder.
    """
    path = F.substring_index("_lake_file", f"/{table.options.topic}/", -1)
    is_unnamed = F.col("_lake_partition") == UNNAMED
    within = F.shiftleft(F.xxhash64(path).bitwiseAND(0x7FFFFFFF), _LINE_BITS) + F.col("_lake_line")
    return changes.withColumns(
        {
            "_lake_order": F.when(is_unnamed, within).otherwise(F.col("_lake_line")),
            "_lake_partition": F.when(is_unnamed, 0).otherwise(F.col("_lake_partition")),
        }
    ).drop("_lake_line")


def line_of(order: Expression) -> Expression:
    """The line in an order of `with_place_in_file`, in a file that no sink has named."""
    return order.bitwiseAND(2**_LINE_BITS - 1)


def as_it_is(frame: DataFrame) -> DataFrame:
    return frame


def delivery_of(position: Expression) -> Expression:
    """The offset in a position's place of delivery: first of the file, then within it."""
    return F.substring(F.substring_index(position, "/", -1), 6, 29)


def behind(position: Expression) -> Expression:
    """A change's position right behind another one, before every further one: no digit sorts behind the mark."""
    return F.concat(position, F.lit(_BEHIND), F.substring_index("__position", "/", -1))


def partition_of(position: Expression) -> Expression:
    """The partition in a position's place of delivery."""
    own = F.substring_index(F.substring_index(position, "/", -1), _BEHIND, -1)
    return F.substring_index(own, "-", 1)


def log_of() -> Expression:
    """Epoch and log position of `__position`."""
    return F.substring_index("__position", "/", 1)


def is_read() -> Expression:
    """Whether a row was read by a snapshot."""
    return F.coalesce(F.col("__op") == "r", F.lit(False))


def is_delete() -> Expression:
    """Whether a change, or a row of silver, is a delete of one row. Never null."""
    return F.coalesce(F.col("__op") == "d", F.lit(False))


def unplaced_offset(table: Table) -> Expression:
    """The offset of a change without a place in the log; null for any other change."""
    return F.when(is_unplaced(table), delivery_of(F.col("__position")))


def epoch_of(position: str | Expression) -> Expression:
    """The epoch of a position, with the point behind it."""
    return F.substring(position, 1, _EPOCH_LENGTH)


def is_unplaced(table: Table) -> Expression:
    """Whether a change has no place in the log: a row of an incremental snapshot, a delete that is a bare tombstone."""
    return log_position(table).isNull()


def is_one_change(table: Table, other_partition: Expression) -> Expression:
    """Whether a delete and a write of one key at one place of the log are one change, of which the write counts.

    Where the record's key has other columns than the table's (`message.key.columns`), Debezium makes a delete and a
    create of an update of these, and they may come in any order, in two partitions. Where different changes share a
    place, only the partitions tell this.
    """
    order = order_of(table)
    if not isinstance(order, LogOrder):
        return F.lit(False)
    ties = order.ties()
    return F.lit(True) if ties is None else ~ties | other_partition


def is_placed_by_lsn(table: Table) -> bool:
    """Whether a change's place is the LSN of a commit, which events of an open transaction do not know."""
    return connector_of(table).is_placed_by_lsn


@dataclass(frozen=True)
class Names:
    """The columns of a change of PostgreSQL, or of a row that silver holds, in a frame that has both."""

    sequence: str
    lsn: str
    position: str


EVENT = Names("__source_sequence", "__lsn", "__position")


def was_open(change: Names, held: Names, held_is_read: Expression) -> Expression:
    """Whether a change that is no snapshot's row counts against a held row with a greater place in the log.

    It does where its transaction was open while a snapshot read the row (see `placed_by_delivery`): it was delivered
    after that row, in its partition, or after a change that stands behind it. Never null.
    """
    own_place = F.greatest(commit_lsn(held.sequence), held.lsn)
    is_behind_read = F.conv(F.split(held.position, r"\.")[1], 16, 10).cast("bigint") > own_place
    is_newer = is_behind_read & (F.col(change.lsn) > F.col(held.lsn))
    is_newer = F.when(held_is_read, F.col(held.lsn).isNotNull()).otherwise(is_newer)
    is_after = delivered_at(change.position) > delivered_at(held.position)
    is_beside = partition_of(F.col(change.position)) == partition_of(F.col(held.position))
    return F.coalesce(is_newer & is_after & is_beside, F.lit(False))


def delivered_at(position: str) -> Expression:
    """When a position was delivered, as a text that sorts so: a new epoch counts its offsets anew."""
    return F.concat(epoch_of(position), F.substring_index(position, "/", -1))
