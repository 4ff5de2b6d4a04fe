"""Steps between decoded changes and silver: the total order of changes, the last change of each key, late changes,
values that an event does not hold, and truncates.

Every step takes and returns DataFrames, and none writes anything.

A change's place is its `__position`: `<epoch>.<place in the source's log>/<place of delivery>`, a text that sorts in
the order in which the source made the changes and has no ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.declaration import Table
from ingest.decode.columns import OPTIONAL, ORIGIN, UNAVAILABLE_SEPARATOR, metadata_columns, silver_columns
from ingest.decode.columns import problem as problem_of

# Text before the log position: the epoch and a point.
_EPOCH_LENGTH = 5
# Rows that are sent to every task rather than shuffled.
_FEW = 100_000
# Hexadecimal digits of a bigint.
_LONG = 16


def log_position(table: Table) -> Expression:
    """Where in the source's log a change stands, as a text that sorts as the log does; null where an event has none.

    - order_by: the declared columns, of the table or of Debezium's metadata;
    - postgresql: LSN of the last commit before the change, LSN of the change. Debezium gives both in
      `source.sequence`; where it does not, the change's own LSN stands for the commit's. A row read by a snapshot
      holds all that was committed before its LSN;
    - mariadb, mysql: number of the binlog file, position, and the row within that event where it is known;
    - sqlserver: commit LSN, change LSN, event serial number (Debezium's documented order of its events);
    - dynamodb: sequence number, up to 40 digits.

    Rows of an incremental snapshot have none, and neither have deletes that are bare tombstones.
    """
    options = table.options
    if options.order_by:
        types = {column.name: column.data_type for column in table.columns}
        types |= {column.name: column.data_type for column in metadata_columns(table)}
        first, *others = (_sortable(name, types[name]) for name in options.order_by)
        return reduce(lambda left, right: F.concat(left, F.lit("."), right), others, first)
    if options.connector == "postgresql":
        own = _number("__lsn", _LONG)
        commit = F.coalesce(F.lower(F.hex(_commit_lsn().cast("binary"))), own)
        read = F.concat(own, F.lit("." + "0" * 16))
        place = F.when(is_read(), read).otherwise(F.concat(commit, F.lit("."), own))
        return F.when(F.col("__lsn").isNotNull(), place)
    if options.connector in ("mariadb", "mysql"):
        within = F.lower(F.concat(_digits("__source_pos", _LONG), F.lit("."), _digits("__source_row", 8)))
        place = F.concat(_sortable("__source_file", T.StringType()), F.lit("."), within)
        return F.when(F.col("__source_pos").isNotNull() & F.col("__source_file").isNotNull(), place)
    if options.connector == "dynamodb":
        return _sortable("__sequence_number", T.StringType())
    none = "00000000:00000000:0000"
    place = F.concat(
        F.col("__source_commit_lsn"),
        F.lit("."),
        F.coalesce("__source_change_lsn", F.lit(none)),
        F.lit("."),
        _number("__source_event_serial_no", 8),
    )
    return F.when(F.col("__source_commit_lsn").isNotNull(), place)


def with_position(changes: DataFrame, table: Table) -> DataFrame:
    """Adds `__position`, and `__key` where the table has one.

    The place of delivery decides between changes that share a log position (rows of a snapshot, repeated
    deliveries): the partition, the file's first offset and the order within the file. A change without a log position
    stands before every other one, until `placed_by_delivery` or `judge_late` find changes of its key that were
    delivered before it.
    """
    epoch = f"{table.options.epoch:04x}."
    offset = F.concat_ws("-", _digits("_partition", 4), _digits("_start_offset", 12), _digits("_order", _LONG))
    log = F.coalesce(log_position(table), F.lit(""))
    position = F.concat(F.lit(epoch), log, F.lit("/"), F.lower(offset))
    added = {"__position": position, "__carried": F.lit(None).cast("string")}
    return changes.withColumns({**added, **record_key(table)})


def record_key(table: Table) -> dict[str, Expression]:
    """`__key`, the key as one text, where the table has such a column."""
    if table.record_key != "__key":
        return {}
    return {"__key": F.to_json(F.array(*(F.col(f"`{name}`").cast("string") for name in table.key)))}


def placed_by_delivery(changes: DataFrame, table: Table) -> DataFrame:
    """The changes of keys that a snapshot read amid their stream, with the positions the order of delivery gives.

    Three things the log position of an event does not say (traps of real streams):

    - a row of an incremental snapshot holds what came before it, and not what comes after it;
    - a delete that is a bare tombstone deletes what came before it. Right behind another delete it says nothing more;
    - a change whose transaction was open while a snapshot read the row has a smaller LSN than that row, comes after
      it, and counts. Only its commit position would say so, and Debezium does not know one before the first commit.

    One window by the record key; only for batches in which `ranked` finds such keys.
    """
    delivered = (
        Window.partitionBy(f"`{table.record_key}`")
        .orderBy(F.substring_index("__position", "/", -1))
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    whole_log, offset = _log(), F.substring_index("__position", "/", -1)
    raised = whole_log
    if _is_placed_by_lsn(table):
        read_at = F.max(F.when(is_read() & F.col("__lsn").isNotNull(), F.split(whole_log, r"\.")[1])).over(delivered)
        commit = F.greatest(F.split(whole_log, r"\.")[1], F.coalesce(read_at, F.lit("")))
        own = F.concat(epoch_of(whole_log), commit, F.lit("."), F.split(whole_log, r"\.")[2])
        raised = F.when(~is_read() & ~is_unplaced(table) & _commit_lsn().isNull(), own).otherwise(whole_log)
    placed = changes.withColumn("_log", raised).withColumn("_unplaced", is_unplaced(table))
    if table.options.tombstones == "delete":
        is_behind = F.lag("__deleted").over(delivered.rowsBetween(-1, -1)) == "true"
        says_nothing = F.col("_unplaced") & ~is_read() & F.coalesce(is_behind, F.lit(False))
        placed = placed.withColumn("_ignored", F.col("_ignored") | says_nothing)
    before = F.coalesce(F.max("_log").over(delivered), F.lit(""))
    log = F.when(F.col("_unplaced"), F.greatest("_log", before)).otherwise(F.col("_log"))
    return placed.withColumn("__position", F.concat(log, F.lit("/"), offset)).drop("_log", "_unplaced")


def ranked(changes: DataFrame, table: Table) -> DataFrame:
    """The changes of each key, newest first. Changes that are of no key's stand each by itself.

    One window by the record key.

    Adds
    ----
    `_outcome` string:
        'ignored', 'quarantined', 'truncated', or null for a change of a key.
    `_rank` int:
        1 for the last change of its key by position, and for those of no key's.
    `_repeated` boolean:
        The next newer change of the key is the same one, delivered once more.
    `_mixed` boolean:
        Of this change and the next newer one of the key one was read by a snapshot, or has no place in the log: see
        `placed_by_delivery`.
    `_is_oldest` boolean:
        There is no older change of the key.
    """
    is_truncate = F.coalesce(F.col("__op") == "t", F.lit(False))
    truncated = "ignored" if table.options.truncate == "ignore" else "truncated"
    outcome = (
        F.when(F.col("_ignored"), "ignored")
        .when(F.col("_problem").isNotNull(), "quarantined")
        .when(is_truncate, truncated)
    )
    if not table.key:
        alone = {"_rank": F.lit(1), "_repeated": F.lit(False), "_mixed": F.lit(False), "_is_oldest": F.lit(True)}
        return changes.withColumns({"_outcome": outcome, **alone})
    # A group of its own for each change that has no key to be grouped by.
    place = (F.coalesce(F.col(name).cast("string"), F.lit("")) for name in ORIGIN)
    of_no_key = F.when(outcome.isNotNull(), F.concat_ws("/", *place))
    of_a_key = F.when(outcome.isNull(), F.col(f"`{table.record_key}`"))
    newest_first = Window.partitionBy("_group", "_alone").orderBy(F.col("__position").desc())
    # What a bare tombstone deletes stands at its place in the log, and is another change.
    is_bare = _is_delete() & is_unplaced(table)
    is_same = (F.lag(_log()).over(newest_first) == _log()) & (F.lag(is_bare).over(newest_first) == is_bare)
    if (ties := may_tie(table)) is not None:
        row = F.when(ties, F.to_json(_row(table), {"ignoreNullFields": "false"}))
        is_same &= F.lag(row).over(newest_first).eqNullSafe(row)
    amid = is_read() | is_unplaced(table)
    return (
        changes.withColumns({"_outcome": outcome, "_group": of_a_key, "_alone": of_no_key})
        .withColumns(
            {
                "_rank": F.row_number().over(newest_first),
                "_repeated": F.coalesce(is_same, F.lit(False)),
                "_mixed": F.coalesce(F.lag(amid).over(newest_first) != amid, F.lit(False)),
                "_is_oldest": F.lead(F.lit(False), 1, True).over(newest_first),
            }
        )
        .drop("_group", "_alone")
    )


def is_late(watermark: str, unplaced: str, table: Table) -> Expression:
    """Whether a change may be older than, or the same as, what was landed before it.

    An event that is delivered again has a new offset: it is known by its log position. Rows of one snapshot share
    theirs; those beyond the watermark are not looked up, as they are many, unless their file is a late one.

    `unplaced`: the last offset at which a change without a log position was landed, in whichever partition.
    """
    before, _, delivered = watermark.partition("/")
    # Of a snapshot's rows, those that were written to their topic before what was landed: their file is a late one.
    overtaken = is_read() & (_offset(F.col("__position")) < _offset(F.lit(f"/{delivered}")))
    same_place = (_log() == before) & ~is_read()
    late = (F.col("__position") <= watermark) | same_place | overtaken
    # A row without a log position holds whatever was delivered before it, however great its place in the log.
    return late | (_offset(F.col("__position")) < unplaced) if unplaced else late


def precedes_truncate(truncated: str, table: Table) -> Expression:
    """Whether a change is older than the truncate at that position. Without a log position, the delivery says it."""
    delivered = F.substring_index("__position", "/", -1) < truncated.partition("/")[2]
    return F.when(is_unplaced(table), delivered).otherwise(F.col("__position") < truncated)


def judge_late(
    late: DataFrame, silver: DataFrame, table: Table, *, number: int, truncated: str, purged: str, awaits_deletes: bool
) -> DataFrame:
    """Late changes against what silver holds.

    Parameters
    ----------
    late:
        Changes, one per key, that `is_late` finds.
    number:
        How many there are. Few are sent to every task; many, as of a table that is delivered once more, are shuffled.
    silver:
        The silver table, tombstones included.
    truncated:
        The position of the last truncate: what is older is gone.
    purged:
        The greatest position of a tombstone that was removed for good: of a key that silver does not know, an event
        at or before it may be older than its delete, and nothing can say so any more.
    awaits_deletes:
        Bare tombstones wait in the quarantine, and may be replayed as deletes: a change that is delivered again moves
        its row behind those between the two, which a connector that goes on from further back sends again as well.

    Adds
    ----
    `_outcome` string:
        'duplicate', 'superseded', 'quarantined', or null where the change wins.
    `_held_carried` string:
        `__carried` of the row that silver holds.
    """
    held_columns = [F.col("__position").alias("_held"), F.col("__op").alias("_held_op")]
    carried = F.when(~_is_delete(), F.col("__carried"))
    held_columns += [carried.alias("_held_carried"), is_unplaced(table).alias("_held_unplaced")]
    held_columns.append((F.col("__deleted") == "true").alias("_held_deleted"))
    if _is_placed_by_lsn(table):
        held_columns += [F.col("__source_sequence").alias("_held_sequence"), F.col("__lsn").alias("_held_lsn")]
    ties = may_tie(table)
    if ties is not None:
        held_columns.append(_row(table).alias("_held_row"))
    key = f"`{table.record_key}`"
    held = silver.select(F.col(key).alias("_held_key"), *held_columns)
    same_key = F.col(key) == F.col("_held_key")
    send = F.broadcast if number <= _FEW else _as_it_is
    relevant = held.join(send(late.select(key)), same_key, "left_semi")
    joined = late.join(send(relevant), same_key, "left").withColumn("_unplaced", is_unplaced(table))
    position, offset = F.col("__position"), F.substring_index("__position", "/", -1)
    log, held_log = _log(), F.substring_index("_held", "/", 1)
    after = _delivered("__position") > _delivered("_held")
    # What a row without a position of its own comes after is known now.
    raised = F.when(F.col("_unplaced") & after & (log < held_log), F.concat(held_log, F.lit("/"), offset))
    overtaken = F.lit(False)
    if _is_placed_by_lsn(table):
        of_held = _Names("_held_sequence", "_held_lsn", "_held")
        counts = ~is_read() & (log < held_log) & _was_open(_EVENT, of_held, F.col("_held_op") == "r")
        from_held = F.concat(F.substring_index("_held", ".", 2), F.lit("."), F.substring_index(position, ".", -1))
        raised = raised.when(counts, from_held)
        # The other way round: the change of the transaction that was open is there, and the row comes late.
        held_unknown = (F.col("_held_op") != "r") & _commit_lsn("_held_sequence").isNull()
        overtaken = F.coalesce(is_read() & ~after & held_unknown, F.lit(False))
    joined = joined.withColumn("__position", F.coalesce(raised, position))
    # A snapshot may read a row again at the same position: the later reading counts.
    counts_again = is_read() & (position > F.col("_held"))
    # A tombstone deletes what was delivered before it, unless it is deleted; what comes after one may be the row anew.
    counts_again |= F.col("_unplaced") & after & ~F.col("_held_deleted")
    counts_again |= F.col("_held_unplaced") & F.col("_held_deleted") & after & ~F.col("_unplaced")
    if awaits_deletes:
        counts_again |= after & ~F.col("_unplaced")
    if ties is not None:
        # Where a log does not tie, it is the same change again; elsewhere the later delivery of another row counts.
        counts_again |= ties & after & ~_row(table).eqNullSafe(F.col("_held_row"))
    unknowable = F.col("_held").isNull() & (position <= purged) & ~F.col("_unplaced")
    outcome = (
        F.when(precedes_truncate(truncated, table), "superseded")
        .when(unknowable, "quarantined")
        # The one that was delivered later counts, where one of them has no other place.
        .when((F.col("_unplaced") | F.col("_held_unplaced")) & ~after, "superseded")
        .when((log == held_log) & ~F.coalesce(counts_again, F.lit(False)), "duplicate")
        .when(log < held_log, "superseded")
        .when(overtaken, "superseded")
    )
    problem = F.when(
        outcome == "quarantined",
        problem_of("purged", "older than deletes that were purged: it may have been deleted since"),
    ).otherwise(F.col("_problem"))
    return joined.withColumns({"_outcome": outcome, "_problem": problem}).drop(
        "_held", "_held_op", "_held_sequence", "_held_lsn", "_held_key", "_held_row", "_held_unplaced", "_unplaced",
        "_held_deleted",
    )  # fmt: skip


def completed(
    incomplete: DataFrame,
    own: DataFrame,
    silver: DataFrame | None,
    table: Table,
    *,
    moves: DataFrame | None,
    earlier: DataFrame | None,
) -> DataFrame:
    """The rows of keys whose last change does not hold every value, with each value from the last change that does.

    The value of an unavailable column is that of the newest older change of the key that has it: in this batch, or in
    silver. `__carried` keeps where it came from, so that a change which is delivered late, between the two, still
    brings its value. After a change of the primary key the old key's row is the older one.

    Parameters
    ----------
    incomplete:
        The last changes concerned, with their positions. Few: their keys are broadcast.
    own:
        All changes of the batch of these keys.
    silver:
        The silver table, tombstones included; None before the first commit.
    moves, earlier:
        What `key_changes` finds, and the batch's changes of the old keys; None where no key was changed.

    Returns
    -------
    The columns of silver, and
    `_problem` string:
        Why a row cannot be completed, or null.
    `_is_held` boolean:
        The row is silver's own, its last change; `_changed`: and a carried value of it was replaced.
    """
    key = table.record_key
    columns = [*(f"`{name}`" for name in silver_columns(table)), "_unavailable", "_is_held", "_moved_at"]
    unmoved = F.lit(None).cast("string")

    def events(frame: DataFrame) -> DataFrame:
        return frame.withColumns({"_is_held": F.lit(False), "_moved_at": unmoved}).select(*columns)

    # The last changes as they were judged come first: their positions may have been raised.
    candidates = [events(incomplete), events(own)]
    older = [events(earlier)] if earlier is not None else []
    if silver is not None:
        of_silver = {"_unavailable": F.lit(None).cast("string"), "_is_held": F.lit(True), "_moved_at": unmoved}
        held = silver.withColumns(of_silver).select(*columns)
        candidates.append(held.join(F.broadcast(incomplete.select(f"`{key}`").distinct()), key, "left_semi"))
        if moves is not None:
            before = F.broadcast(moves.select(F.col("_old_key").alias(key)).distinct())
            older.append(events(held.join(before, key, "left_semi")))
    if moves is not None and older:
        renamed = (
            reduce(DataFrame.unionByName, older)
            .drop("_moved_at")
            .join(F.broadcast(moves), F.col(f"`{key}`") == F.col("_old_key"))
            .where(_is_before_move(table))
            .withColumns({name: F.col(f"_new_{name}") for name in dict.fromkeys([*table.key, key])})
        )
        candidates.append(renamed.select(*columns))
    return _newest_values(reduce(DataFrame.unionByName, candidates), table)


def key_changes(own: DataFrame, changes: DataFrame, gone: DataFrame | None, table: Table) -> DataFrame:
    """The changes of a primary key among creates that lack values: PostgreSQL logs delete and create at one LSN.

    Parameters
    ----------
    own:
        Changes of the new keys, few.
    changes:
        The whole batch, where the deletes of the old keys are.
    gone:
        Silver's tombstones, where they are if they came in a batch before; None before the first commit.

    Columns: `_old_key` (record key) and `_gone_at`, the position of its delete, for PostgreSQL with `_gone_lsn` and
    `_gone_sequence`; `_new_<column>` of each key column and of the record key; `_moved_at`, the position of the create.
    """
    # An LSN, and not a place in the log: the place of one of the two may have been raised.
    event = F.concat(epoch_of("__position"), F.col("__lsn").cast("string")) if _has_lsn(table) else _log()
    created = own.where("__op = 'c' and _unavailable is not null").select(
        *(F.col(f"`{name}`").alias(f"_new_{name}") for name in dict.fromkeys([*table.key, table.record_key])),
        F.col("__position").alias("_moved_at"),
        event.alias("_event"),
    )
    old = [
        F.col(f"`{table.record_key}`").alias("_old_key"),
        F.col("__position").alias("_gone_at"),
        event.alias("_event"),
    ]
    if _has_lsn(table):
        old += [F.col("__source_sequence").alias("_gone_sequence"), F.col("__lsn").alias("_gone_lsn")]
    deleted = changes.where("__op = 'd'").select(*old)
    if gone is not None:
        deleted = deleted.unionByName(gone.select(*old)).distinct()
    return deleted.join(F.broadcast(created), "_event").drop("_event")


def _is_before_move(table: Table) -> Expression:
    """Of a change, or a row of silver, joined with `key_changes`: whether the delete of its key comes after it."""
    is_before = F.col("__position") < F.col("_gone_at")
    if _has_lsn(table):
        is_before |= _was_open(_Names("_gone_sequence", "_gone_lsn", "_gone_at"), _EVENT, is_read())
    return is_before & (F.col("__op") != "d")


def _newest_values(candidates: DataFrame, table: Table) -> DataFrame:
    """One row a key: the newest candidate, each unavailable value from the newest candidate that has it.

    A value that came with a changed key has the place of that change; among those, the one of its own place decides.
    What is older than the row's last create is of a row that is gone, and brings nothing.
    """
    key = table.record_key
    carried = F.when(~_is_delete(), F.from_json("__carried", "map<string,string>"))
    lacking = F.split(F.coalesce("_unavailable", F.lit("")), UNAVAILABLE_SEPARATOR)
    fillable = [column.name for column in table.columns if column.name not in table.key]

    def origin(name: str) -> Expression:
        own = F.coalesce(carried[name], F.col("__position"))
        moved = F.col("_moved_at").isNotNull()
        # "~" sorts behind every position: the change's own value goes before one that came with its key.
        place = F.struct(F.coalesce("_moved_at", own).alias("place"), F.when(moved, own).otherwise("~").alias("within"))
        is_gone = ~moved & (own < F.coalesce("_born", F.lit("")))
        return F.when(~F.array_contains(lacking, name) & ~is_gone, place)

    born = F.max(F.when(F.col("_moved_at").isNull() & (F.col("__op") == "c"), F.col("__position")))
    origins = {f"_at_{name}": origin(name) for name in fillable}
    rest = [name for name in silver_columns(table) if name not in (key, *fillable, "__carried")]
    grouped = (
        candidates.withColumn("_born", born.over(Window.partitionBy(f"`{key}`")))
        .withColumns(origins)
        .groupBy(f"`{key}`")
        .agg(
            F.max_by(F.struct(*(f"`{name}`" for name in rest), "__carried", "_is_held"), "__position").alias("_last"),
            F.max_by(lacking, "__position").alias("_lacking"),
            *(F.max_by(f"`{name}`", f"_at_{name}").alias(name) for name in fillable),
            *(F.max(f"_at_{name}").alias(f"_at_{name}") for name in fillable),
        )
    )
    entries = F.filter(
        F.array(*(F.struct(F.lit(name).alias("key"), F.col(f"_at_{name}.place").alias("value")) for name in fillable)),
        lambda entry: entry["value"] < F.col("_last.__position"),
    )
    now_carried = F.when(F.size(entries) > 0, F.to_json(F.map_from_entries(entries)))
    missing = [
        F.when(F.col(f"_at_{name}").isNull() & ~F.array_contains("_lacking", OPTIONAL + name), F.lit(name))
        for name in fillable
    ]
    told = F.concat_ws(", ", *missing)
    problem = problem_of(
        "unavailable_value", "unavailable value of ", told, ": no earlier change of the row brought it"
    )
    values = {name: F.col(f"`{name}`") for name in (key, *fillable)}
    values |= {name: F.col(f"_last.`{name}`") for name in rest}
    values["__carried"] = now_carried
    return grouped.select(
        *(values[name].alias(name) for name in silver_columns(table)),
        F.when(F.concat_ws("", *missing) != "", problem).alias("_problem"),
        F.col("_last._is_held").alias("_is_held"),
        (~F.col("_last.__carried").eqNullSafe(now_carried)).alias("_changed"),
    )


def with_removed_values(batch: DataFrame, changes: DataFrame, table: Table, *, number: int) -> DataFrame:
    """The batch, whose deletes keep what earlier changes of the batch brought, for a key that may have been changed.

    PostgreSQL logs no large value again that did not change, and a changed key is a delete and a create. Where the
    create comes with a later batch, its value is to be had from nowhere else: silver never had the row. It stands in
    the tombstone's `__carried`, by column: `value`, and `at`, the position of its change.

    Parameters
    ----------
    batch:
        The last changes of the batch.
    changes:
        All of them.
    number:
        How many deletes are concerned. Few are sent to every task.
    """
    key, columns = f"`{table.record_key}`", _carryable(table)
    lacking = F.split(F.coalesce("_unavailable", F.lit("")), UNAVAILABLE_SEPARATOR)

    def newest(name: str) -> Expression:
        found = F.struct(F.col(f"`{name}`").alias("value"), F.col("__position").alias("at"))
        return F.max_by(found, F.when(~F.array_contains(lacking, name), F.col("__position"))).alias(name)

    rows = changes.where("not _ignored and _problem is null and __deleted = 'false' and __op != 't'")
    send = F.broadcast if number <= _FEW else _as_it_is
    gone = batch.where(_is_delete()).select(key)
    brought = rows.join(send(gone), table.record_key, "left_semi").groupBy(key).agg(*map(newest, columns))
    kept = brought.select(key, F.to_json(F.struct(*(f"`{name}`" for name in columns))).alias("_removed"))
    carried = F.when(_is_delete(), F.coalesce("_removed", "__carried")).otherwise(F.col("__carried"))
    return batch.join(send(kept), table.record_key, "left").withColumn("__carried", carried).drop("_removed")


def removed_values(gone: DataFrame, table: Table) -> DataFrame:
    """What tombstones of silver keep of their rows (`with_removed_values`), as the rows were.

    The columns of silver, and `_unavailable`.
    """
    columns = {name: data_type.simpleString() for name, data_type in _carryable(table).items()}
    schema = ", ".join(f"`{name}` struct<value: {kind}, at: string>" for name, kind in columns.items())
    kept = gone.where("__carried is not null").withColumn("_kept", F.from_json("__carried", schema))
    places = [F.col("_kept")[name]["at"] for name in columns]
    at = F.create_map(*(part for name, place in zip(columns, places, strict=True) for part in (F.lit(name), place)))
    known = F.map_filter(at, lambda _, place: place.isNotNull())
    others = [column.name for column in table.columns if column.name not in (*columns, *table.key)]
    lacks = [F.when(place.isNull(), F.lit(name)) for name, place in zip(columns, places, strict=True)]
    values = {name: F.col("_kept")[name]["value"] for name in columns}
    return (
        kept.withColumns(values)
        .withColumns(
            {
                "__op": F.lit("u"),
                "__deleted": F.lit("false"),
                "__position": F.array_max(F.map_values(known)),
                "__carried": F.to_json(known),
                "_unavailable": F.concat_ws(UNAVAILABLE_SEPARATOR, *map(F.lit, others), *lacks),
            }
        )
        .where("__position is not null")
        .select(*(f"`{name}`" for name in silver_columns(table)), "_unavailable")
    )


def _carryable(table: Table) -> dict[str, T.DataType]:
    """The columns of which an event of PostgreSQL may lack the value, with their types."""
    large = T.StringType | T.BinaryType | T.ArrayType
    return {
        column.name: column.data_type
        for column in table.columns
        if column.name not in table.key and isinstance(column.data_type, large)
    }


def may_be_moved(table: Table) -> bool:
    """Whether an event of a changed key may lack values of its row."""
    return table.options.connector == "postgresql" and bool(table.key) and bool(_carryable(table))


def truncated_rows(silver: DataFrame, table: Table, truncated: str) -> DataFrame:
    """Tombstones, in silver's columns, of the live rows that are older than a truncate."""
    empty = {
        f"{column.name}": F.lit(None).cast(column.data_type)
        for column in table.columns
        if column.name not in (*table.key, *table.options.partition_by)
    }
    return (
        silver.where("__deleted = 'false'")
        .where(precedes_truncate(truncated, table))
        .withColumns(
            {
                **empty,
                "__op": F.lit("t"),
                "__deleted": F.lit("true"),
                "__carried": F.lit(None).cast("string"),
                # Of a table without a key the position says which row it is.
                **({"__position": F.lit(truncated)} if table.key else {}),
            }
        )
        .select(*(f"`{name}`" for name in silver_columns(table)))
    )


def with_line(changes: DataFrame, origins: DataFrame) -> DataFrame:
    """Adds `_line`, the 0-based place of an event in its file.

    Parameters
    ----------
    changes:
        The changes to be placed, few.
    origins:
        `_file` and `_order` of every event that was read together with them.
    """
    task = F.shiftright("_order", 33)
    spans = origins.groupBy("_file", task.alias("_task")).agg(
        F.min("_order").alias("_first"), F.count("*").alias("_length")
    )
    before = Window.partitionBy("_file").orderBy("_task").rowsBetween(Window.unboundedPreceding, -1)
    placed = spans.withColumn("_before", F.coalesce(F.sum("_length").over(before), F.lit(0))).drop("_length")
    return (
        changes.withColumn("_task", task)
        .join(F.broadcast(placed), ["_file", "_task"])
        .withColumn("_line", F.col("_order") - F.col("_first") + F.col("_before"))
        .drop("_task", "_first", "_before")
    )


def _as_it_is(frame: DataFrame) -> DataFrame:
    return frame


def _number(name: str, width: int) -> Expression:
    return F.lower(_digits(name, width))


def _digits(name: str, width: int) -> Expression:
    # A bigint is eight bytes, whatever its value: no padding.
    digits = F.hex(F.coalesce(F.col(name).cast("bigint"), F.lit(0)).cast("binary"))
    return digits if width == _LONG else F.substring(digits, _LONG + 1 - width, width)


def _offset(position: Expression) -> Expression:
    """The offset in a position's place of delivery: first of the file, then within it."""
    return F.substring(F.substring_index(position, "/", -1), 6, 29)


def _log() -> Expression:
    """Epoch and log position of `__position`."""
    return F.substring_index("__position", "/", 1)


def is_read() -> Expression:
    """Whether a row was read by a snapshot."""
    return F.coalesce(F.col("__op") == "r", F.lit(False))


def _is_delete() -> Expression:
    """Whether a change, or a row of silver, is a delete of one row. Never null."""
    return F.coalesce(F.col("__op") == "d", F.lit(False))


def _row(table: Table) -> Expression:
    """What a change says of its row."""
    return F.struct("__deleted", *(f"`{column.name}`" for column in table.columns))


def may_tie(table: Table) -> Expression | None:
    """Whether different changes of a row may share a place in the log, of which the later delivered counts; or None.

    Declared columns may, and changes of one event of the binlog whose row within it is not known.
    """
    if table.options.order_by:
        return F.lit(True)
    return F.col("__source_row").isNull() if table.options.connector in ("mariadb", "mysql") else None


def unplaced_offset(table: Table) -> Expression:
    """The offset of a change without a place in the log; null for any other change."""
    return F.when(is_unplaced(table), _offset(F.col("__position")))


def epoch_of(position: str | Expression) -> Expression:
    """The epoch of a position, with the point behind it."""
    return F.substring(position, 1, _EPOCH_LENGTH)


def is_unplaced(table: Table) -> Expression:
    """Whether a change has no place in the log: a row of an incremental snapshot, a delete that is a bare tombstone."""
    return log_position(table).isNull()


def _has_lsn(table: Table) -> bool:
    return table.options.connector == "postgresql"


def _is_placed_by_lsn(table: Table) -> bool:
    return _has_lsn(table) and not table.options.order_by


@dataclass(frozen=True)
class _Names:
    """The columns of a change of PostgreSQL, or of a row that silver holds, in a frame that has both."""

    sequence: str
    lsn: str
    position: str


_EVENT = _Names("__source_sequence", "__lsn", "__position")


def _was_open(change: _Names, held: _Names, held_is_read: Expression) -> Expression:
    """Whether a change that is no snapshot's row counts against a held row with a greater place in the log.

    It does where its transaction was open while a snapshot read the row, or was one of those (see
    `placed_by_delivery`): nothing knows a commit of either, and the change was delivered later. Never null.
    """
    unknown = _commit_lsn(change.sequence).isNull() & _commit_lsn(held.sequence).isNull()
    is_newer = F.when(held_is_read, F.col(held.lsn).isNotNull()).otherwise(F.col(change.lsn) > F.col(held.lsn))
    after = _delivered(change.position) > _delivered(held.position)
    return F.coalesce(unknown & is_newer & after, F.lit(False))


def _delivered(position: str) -> Expression:
    """When a position was delivered, as a text that sorts so: a new epoch counts its offsets anew."""
    return F.concat(epoch_of(position), F.substring_index(position, "/", -1))


def _commit_lsn(sequence: str = "__source_sequence") -> Expression:
    """PostgreSQL's LSN of the last commit before a change: the first item of Debezium's `source.sequence`, or null."""
    return F.regexp_extract(F.coalesce(F.col(sequence), F.lit("")), r'^\["?(\d+)"?,', 1).cast("bigint")


def _sortable(name: str, data_type: T.DataType) -> Expression:
    """A number or time as 16 hexadecimal digits that sort as it does, a text of Debezium's metadata as its digits do.

    Null of null.
    """
    column = F.col(f"`{name}`")
    if name == "__source_file":
        # The digits at the end of the file's name.
        digits = F.expr("substring(__source_file, length(rtrim('0123456789', __source_file)) + 1)")
        return F.lpad(digits, 10, "0")
    if isinstance(data_type, T.StringType):
        return F.lpad(column, 40, "0")
    if isinstance(data_type, T.TimestampType):
        column = F.unix_micros(column)
    elif isinstance(data_type, T.DateType):
        column = F.unix_date(column)
    # The sign bit turned round, so that negative numbers sort first.
    return F.lower(F.hex(column.cast("bigint").bitwiseXOR(F.lit(-(2**63))).cast("binary")))
