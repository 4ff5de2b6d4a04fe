"""Values that an event does not hold (TOAST, columns left out), filled from earlier changes and from silver."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.changes.position import (
    EVENT,
    FEW,
    Names,
    as_it_is,
    behind_reads,
    epoch_of,
    is_delete,
    is_placed_by_lsn,
    is_read,
    log_of,
    was_open,
)
from ingest.config.tables import Table
from ingest.schema.change import OPTIONAL, UNAVAILABLE_SEPARATOR, silver_columns
from ingest.schema.change import problem as problem_of
from ingest.schema.connectors import connector_of


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
    `_lake_problem` string:
        Why a row cannot be completed, or null.
    `_lake_is_held` boolean:
        The row is silver's own, its last change; `_lake_changed`: and a carried value of it was replaced.
    """
    key = table.record_key
    columns = [*(f"`{name}`" for name in silver_columns(table)), "_lake_unavailable", "_lake_is_held", "_lake_moved_at"]
    unmoved = F.lit(None).cast("string")

    def events(frame: DataFrame) -> DataFrame:
        return frame.withColumns({"_lake_is_held": F.lit(False), "_lake_moved_at": unmoved}).select(*columns)

    # The last changes as they were judged come first: their positions may have been raised.
    candidates = [events(incomplete), events(own)]
    older = [events(earlier)] if earlier is not None else []
    if silver is not None:
        of_silver = {
            "_lake_unavailable": F.lit(None).cast("string"),
            "_lake_is_held": F.lit(True),
            "_lake_moved_at": unmoved,
        }
        held = silver.withColumns(of_silver).select(*columns)
        candidates.append(held.join(F.broadcast(incomplete.select(f"`{key}`").distinct()), key, "left_semi"))
        if moves is not None:
            before = F.broadcast(moves.select(F.col("_lake_old_key").alias(key)).distinct())
            older.append(events(held.join(before, key, "left_semi")))
    if is_placed_by_lsn(table):
        candidates = [_behind_reads(reduce(DataFrame.unionByName, candidates), table)]
    if moves is not None and older:
        candidates.append(_under_new_keys(reduce(DataFrame.unionByName, older), moves, table).select(*columns))
    return _newest_values(reduce(DataFrame.unionByName, candidates), table)


def _behind_reads(candidates: DataFrame, table: Table) -> DataFrame:
    """The candidates at the places that they have among each other: a snapshot's row and what was delivered after it
    may have come in two batches."""
    offset = F.expr("substring(__position, length(substring_index(__position, '/', 1)) + 1)")
    return candidates.withColumn("__position", F.concat(behind_reads(table), offset))


def _under_new_keys(older: DataFrame, moves: DataFrame, table: Table) -> DataFrame:
    """Changes of old keys and silver's rows of them, from before the key was changed, with the new key's columns."""
    key = table.record_key
    return (
        older.drop("_lake_moved_at")
        .join(F.broadcast(moves), F.col(f"`{key}`") == F.col("_lake_old_key"))
        .where(_is_before_move(table))
        .withColumns({name: F.col(f"_lake_new_{name}") for name in dict.fromkeys([*table.key, key])})
    )


def key_changes(own: DataFrame, changes: DataFrame, gone: DataFrame | None, table: Table) -> DataFrame:
    """The changes of a primary key among creates that lack values: PostgreSQL logs delete and create at one LSN.

    Other changes may share a place of the log: a create there is of no old key where several were deleted.

    Parameters
    ----------
    own:
        Changes of the new keys, few.
    changes:
        The whole batch, where the deletes of the old keys are.
    gone:
        Silver's tombstones, where they are if they came in a batch before; None before the first commit.

    Columns: `_lake_old_key` (record key) and `_lake_gone_at`, the position of its delete, for PostgreSQL with
    `_lake_gone_lsn` and `_lake_gone_sequence`; `_lake_new_<column>` of each key column and of the record key;
    `_lake_moved_at`, the position of the create; `_lake_from`, see `followed`, null.
    """
    # An LSN, and not a place in the log: the place of one of the two may have been raised.
    event = F.concat(epoch_of("__position"), F.col("__lsn").cast("string")) if connector_of(table).has_lsn else log_of()
    created = own.where("__op = 'c' and _lake_unavailable is not null").select(
        *(F.col(f"`{name}`").alias(f"_lake_new_{name}") for name in dict.fromkeys([*table.key, table.record_key])),
        F.col("__position").alias("_lake_moved_at"),
        event.alias("_lake_event"),
    )
    old = [
        F.col(f"`{table.record_key}`").alias("_lake_old_key"),
        F.col("__position").alias("_lake_gone_at"),
        event.alias("_lake_event"),
    ]
    begins = F.lit(None).cast("bigint" if connector_of(table).has_lsn else "string")
    if connector_of(table).has_lsn:
        old += [F.col("__source_sequence").alias("_lake_gone_sequence"), F.col("__lsn").alias("_lake_gone_lsn")]
    deleted = changes.where("__op = 'd'").select(*old)
    if gone is not None:
        deleted = deleted.unionByName(gone.select(*old)).distinct()
    moves = deleted.join(F.broadcast(created), "_lake_event").drop("_lake_event").withColumn("_lake_from", begins)
    if connector_of(table).has_lsn:
        return moves
    at_once = Window.partitionBy("_lake_moved_at", f"_lake_new_{table.record_key}")
    others = F.min("_lake_old_key").over(at_once) != F.max("_lake_old_key").over(at_once)
    return moves.withColumn("_lake_others", others).where("not _lake_others").drop("_lake_others")


def followed(links: DataFrame, keys: DataFrame, table: Table, keep: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """The changes of primary keys that led to some keys, over every key that their rows had between.

    Parameters
    ----------
    links:
        All changes of a key in the batch (`key_changes`).
    keys:
        The record keys that the rows have in the end.
    keep:
        Materializes rows, which each step joins once more.

    Returns
    -------
    The columns of `key_changes`, from each old key to the last one. `_lake_from` is the place in the log at which the
    row got its old key, by a change that lacks values; null where it had it from the beginning. What that key had
    before is another row's.
    """
    new, place = f"_lake_new_{table.record_key}", _gone_place(table)
    placed = links.drop("_lake_from").withColumn("_lake_place", place)
    got = placed.select(F.col(new).alias("_lake_old_key"), F.col("_lake_place").alias("_lake_got"))
    begun = (
        placed.select("_lake_old_key", "_lake_place")
        .join(got, "_lake_old_key")
        .where("_lake_got < _lake_place")
        .groupBy("_lake_old_key", "_lake_place")
        .agg(F.max("_lake_got").alias("_lake_from"))
    )
    before = keep(placed.join(begun, ["_lake_old_key", "_lake_place"], "left"))
    last = keys.select(F.col(f"`{table.record_key}`").alias(new)).distinct()
    moves = before.join(F.broadcast(last), new, "left_semi")
    # Each time twice as many changes of a row's key are passed.
    while not (further := keep(_through(moves, before, new))).isEmpty():
        moves, before = keep(moves.unionByName(further)), keep(_through(before, before, new))
    return moves.drop("_lake_place")


def _through(later: DataFrame, earlier: DataFrame, new: str) -> DataFrame:
    """The changes of a key that led to the old key of a later one, as changes to its new key."""
    of_new = [name for name in later.columns if name.startswith("_lake_new_")] + ["_lake_moved_at", "_lake_place"]
    from_old = (F.col("_lake_old_key").alias("_lake_key"), F.col("_lake_from").alias("_lake_at"))
    to = later.select(*(f"`{name}`" for name in of_new), *from_old)
    of_old = [name for name in earlier.columns if name not in of_new]
    ways = earlier.select(*of_old, F.col(f"`{new}`").alias("_lake_key"), F.col("_lake_place").alias("_lake_at"))
    return ways.join(to, ["_lake_key", "_lake_at"]).select(*(f"`{name}`" for name in later.columns))


def _gone_place(table: Table) -> Expression:
    """Where in the log a key was changed: there are its delete and its create."""
    return F.col("_lake_gone_lsn") if connector_of(table).has_lsn else F.substring_index("_lake_gone_at", "/", 1)


def _is_before_move(table: Table) -> Expression:
    """Of a change, or a row of silver, joined with `key_changes`: whether the delete of its key comes after it."""
    is_before = F.col("__position") < F.col("_lake_gone_at")
    if connector_of(table).has_lsn:
        is_before |= was_open(Names("_lake_gone_sequence", "_lake_gone_lsn", "_lake_gone_at"), EVENT, is_read())
    own = F.col("__lsn") if connector_of(table).has_lsn else log_of()
    return is_before & (F.col("__op") != "d") & F.coalesce(own >= F.col("_lake_from"), F.lit(True))


def _newest_values(candidates: DataFrame, table: Table) -> DataFrame:
    """One row a key: the newest candidate, each unavailable value from the newest candidate that has it.

    A value that came with a changed key has the place of that change; among those, the one of its own place decides.
    What is older than the row's last create is of a row that is gone, and brings nothing.
    """
    key = table.record_key
    carried = F.when(~is_delete(), F.from_json("__carried", "map<string,string>"))
    lacking = F.split(F.coalesce("_lake_unavailable", F.lit("")), UNAVAILABLE_SEPARATOR)
    fillable = [column.name for column in table.columns if column.name not in table.key]
    born = F.max(F.when(F.col("_lake_moved_at").isNull() & (F.col("__op") == "c"), F.col("__position")))
    origins = {f"_lake_at_{name}": _origin(name, carried, lacking) for name in fillable}
    rest = [name for name in silver_columns(table) if name not in (key, *fillable, "__carried")]
    grouped = (
        candidates.withColumn("_lake_born", born.over(Window.partitionBy(f"`{key}`")))
        .withColumns(origins)
        .groupBy(f"`{key}`")
        .agg(
            F.max_by(F.struct(*(f"`{name}`" for name in rest), "__carried", "_lake_is_held"), "__position").alias(
                "_lake_last"
            ),
            F.max_by(lacking, "__position").alias("_lake_lacking"),
            *(F.max_by(f"`{name}`", f"_lake_at_{name}").alias(name) for name in fillable),
            *(F.max(f"_lake_at_{name}").alias(f"_lake_at_{name}") for name in fillable),
        )
    )
    entries = F.filter(
        F.array(
            *(F.struct(F.lit(name).alias("key"), F.col(f"_lake_at_{name}.place").alias("value")) for name in fillable)
        ),
        lambda entry: entry["value"] < F.col("_lake_last.__position"),
    )
    now_carried = F.when(F.size(entries) > 0, F.to_json(F.map_from_entries(entries)))
    missing = [
        F.when(F.col(f"_lake_at_{name}").isNull() & ~F.array_contains("_lake_lacking", OPTIONAL + name), F.lit(name))
        for name in fillable
    ]
    names = F.concat_ws(", ", *missing)
    problem = problem_of(
        "unavailable_value", "unavailable value of ", names, ": no earlier change of the row brought it"
    )
    values = {name: F.col(f"`{name}`") for name in (key, *fillable)}
    values |= {name: F.col(f"_lake_last.`{name}`") for name in rest}
    values["__carried"] = now_carried
    return grouped.select(
        *(values[name].alias(name) for name in silver_columns(table)),
        F.when(F.concat_ws("", *missing) != "", problem).alias("_lake_problem"),
        F.col("_lake_last._lake_is_held").alias("_lake_is_held"),
        (~F.col("_lake_last.__carried").eqNullSafe(now_carried)).alias("_lake_changed"),
    )


def _origin(name: str, carried: Expression, lacking: Expression) -> Expression:
    """Where a candidate's value of a column is from: `place`, and of equal ones `within`; null where it brings none."""
    own = F.coalesce(carried[name], F.col("__position"))
    moved = F.col("_lake_moved_at").isNotNull()
    # "~" sorts behind every position: the change's own value goes before one that came with its key.
    place = F.struct(
        F.coalesce("_lake_moved_at", own).alias("place"), F.when(moved, own).otherwise("~").alias("within")
    )
    is_gone = ~moved & (own < F.coalesce("_lake_born", F.lit("")))
    return F.when(~F.array_contains(lacking, name) & ~is_gone, place)


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
    lacking = F.split(F.coalesce("_lake_unavailable", F.lit("")), UNAVAILABLE_SEPARATOR)

    def newest(name: str) -> Expression:
        found = F.struct(F.col(f"`{name}`").alias("value"), F.col("__position").alias("at"))
        return F.max_by(found, F.when(~F.array_contains(lacking, name), F.col("__position"))).alias(name)

    rows = changes.where("not _lake_ignored and _lake_problem is null and __deleted = 'false' and __op != 't'")
    send = F.broadcast if number <= FEW else as_it_is
    gone = batch.where(is_delete()).select(key)
    brought = rows.join(send(gone), table.record_key, "left_semi").groupBy(key).agg(*map(newest, columns))
    kept = brought.select(key, F.to_json(F.struct(*(f"`{name}`" for name in columns))).alias("_lake_removed"))
    carried = F.when(is_delete(), F.coalesce("_lake_removed", "__carried")).otherwise(F.col("__carried"))
    return batch.join(send(kept), table.record_key, "left").withColumn("__carried", carried).drop("_lake_removed")


def removed_values(gone: DataFrame, table: Table) -> DataFrame:
    """What tombstones of silver keep of their rows (`with_removed_values`), as the rows were.

    The columns of silver, and `_lake_unavailable`.
    """
    columns = {name: data_type.simpleString() for name, data_type in _carryable(table).items()}
    schema = ", ".join(f"`{name}` struct<value: {kind}, at: string>" for name, kind in columns.items())
    kept = gone.where("__carried is not null").withColumn("_lake_kept", F.from_json("__carried", schema))
    places = [F.col("_lake_kept")[name]["at"] for name in columns]
    at = F.create_map(*(part for name, place in zip(columns, places, strict=True) for part in (F.lit(name), place)))
    known = F.map_filter(at, lambda _, place: place.isNotNull())
    others = [column.name for column in table.columns if column.name not in (*columns, *table.key)]
    lacks = [F.when(place.isNull(), F.lit(name)) for name, place in zip(columns, places, strict=True)]
    values = {name: F.col("_lake_kept")[name]["value"] for name in columns}
    return (
        kept.withColumns(values)
        .withColumns(
            {
                "__op": F.lit("u"),
                "__deleted": F.lit("false"),
                "__position": F.array_max(F.map_values(known)),
                "__carried": F.to_json(known),
                "_lake_unavailable": F.concat_ws(UNAVAILABLE_SEPARATOR, *map(F.lit, others), *lacks),
            }
        )
        .where("__position is not null")
        .select(*(f"`{name}`" for name in silver_columns(table)), "_lake_unavailable")
    )


def _carryable(table: Table) -> dict[str, T.DataType]:
    """The columns of which a log may lack the value, with their types."""
    large = T.StringType | T.BinaryType | T.ArrayType
    return {
        column.name: column.data_type
        for column in table.columns
        if column.name not in table.key and column.substring_of is None and isinstance(column.data_type, large)
    }


def may_be_moved(table: Table) -> bool:
    """Whether the create of a changed key may come in a later batch than its delete, and lack values of the row.

    Looked at on PostgreSQL, where long texts of every table are such values.
    """
    return connector_of(table).has_lsn and bool(table.key) and bool(_carryable(table))
