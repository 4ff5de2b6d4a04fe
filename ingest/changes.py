"""Steps between decoded changes and silver: the total order of changes, and the last change of each key.

Every step takes and returns a DataFrame, and none reads or writes anything.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ingest.declaration import Connector, Table


def log_position(connector: Connector) -> Expression:
    """Where in the source's log a change stands, as a text of fixed width that sorts as the log does.

    - postgresql: LSN;
    - mariadb, mysql: number of the binlog file, position, row;
    - sqlserver: commit LSN, change LSN, event serial number (Debezium's documented order of its events).

    A part that is missing, as for rows of an incremental snapshot, sorts first: such a row says what the table held
    and must not win against a change.
    """
    if connector == "postgresql":
        return _number("__lsn", 16)
    if connector in ("mariadb", "mysql"):
        file_number = F.lpad(F.regexp_extract(F.coalesce("__source_file", F.lit("")), r"(\d*)$", 1), 10, "0")
        return F.concat(file_number, F.lit("."), _number("__source_pos", 16), F.lit("."), _number("__source_row", 8))
    none = "00000000:00000000:0000"
    return F.concat(
        F.coalesce("__source_commit_lsn", F.lit(none)),
        F.lit("."),
        F.coalesce("__source_change_lsn", F.lit(none)),
        F.lit("."),
        _number("__source_event_serial_no", 8),
    )


def with_position(changes: DataFrame, connector: Connector) -> DataFrame:
    """Adds `__position`: `<log position>/<offset>`, which sorts as text and has no ties.

    The offset decides between changes that share a log position (rows of a snapshot, repeated deliveries): the
    partition, the file's first offset and the order within the file.
    """
    offset = F.concat(
        _number("_partition", 4), F.lit("-"), _number("_start_offset", 12), F.lit("-"), _number("_order", 16)
    )
    return changes.withColumn("__position", F.concat(log_position(connector), F.lit("/"), offset))


def last_of_each_key(changes: DataFrame, table: Table) -> DataFrame:
    """One row per key: its last change by position. Changes that cannot or need not be applied stay, each by itself.

    Adds
    ----
    `_outcome` string:
        'ignored', 'quarantined', or null for the last change of a key.
    `_events` bigint, `_duplicates` bigint:
        How many events the row stands for, and how many of these were delivered more than once.
    """
    outcome = F.when(F.col("_ignored"), "ignored").when(F.col("_problem").isNotNull(), "quarantined")
    # A group of its own for each change that has no key to be grouped by.
    alone = F.when(outcome.isNotNull(), F.concat_ws("/", "_file", F.col("_order").cast("string")))
    key = [F.when(outcome.isNull(), F.col(f"`{name}`")).alias(f"_key_{name}") for name in table.key]
    grouped = changes.withColumn("_outcome", outcome).withColumn("_alone", alone)
    for name, column in zip(table.key, key, strict=True):
        grouped = grouped.withColumn(f"_key_{name}", column)
    partition = [*(f"_key_{name}" for name in table.key), "_alone"]
    newest_first = Window.partitionBy(*partition).orderBy(F.col("__position").desc())
    whole = Window.partitionBy(*partition)
    log = F.substring_index("__position", "/", 1)
    return (
        grouped.withColumn("_rank", F.row_number().over(newest_first))
        .withColumn("_repeated", (F.lag(log).over(newest_first) == log).cast("int"))
        .withColumn("_events", F.count("*").over(whole))
        .withColumn("_duplicates", F.coalesce(F.sum("_repeated").over(whole), F.lit(0)))
        .where("_rank = 1")
        .drop("_rank", "_repeated", *partition)
    )


def is_late(watermark: str) -> Expression:
    """Whether a change may be older than, or the same as, what was landed before it.

    An event that is delivered again has a new offset: it is known by its log position. Rows of one snapshot share
    theirs; those beyond the watermark are not looked up, as they are many.
    """
    log = F.substring_index("__position", "/", 1)
    same_place = (log == watermark.split("/", maxsplit=1)[0]) & ~F.coalesce(F.col("__op") == "r", F.lit(False))
    return (F.col("__position") <= watermark) | same_place


def judge_late(late: DataFrame, silver: DataFrame, table: Table) -> DataFrame:
    """Late changes against what silver holds: adds `_outcome` 'duplicate', 'superseded', or null where they win.

    Parameters
    ----------
    late:
        Changes, one per key, that `is_late` finds. Few: they are broadcast.
    silver:
        The silver table, tombstones included.
    """
    held = silver.select(
        *(F.col(f"`{name}`").alias(f"_key_{name}") for name in table.key), F.col("__position").alias("_held")
    )
    same_key = F.lit(True)
    for name in table.key:
        same_key = same_key & (F.col(f"`{name}`") == F.col(f"_key_{name}"))
    keys = late.select(*(f"`{name}`" for name in table.key))
    relevant = held.join(F.broadcast(keys), same_key, "left_semi")
    log = F.substring_index("__position", "/", 1)
    held_log = F.substring_index("_held", "/", 1)
    # A snapshot may read a row again at the same position (incremental ones have none): the later reading counts.
    read_again = (F.col("__op") == "r") & (F.col("__position") > F.col("_held"))
    outcome = F.when((log == held_log) & ~F.coalesce(read_again, F.lit(False)), "duplicate").when(
        log < held_log, "superseded"
    )
    return (
        late.join(F.broadcast(relevant), same_key, "left")
        .withColumn("_outcome", outcome)
        .drop("_held", *(f"_key_{name}" for name in table.key))
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


def _number(name: str, width: int) -> Expression:
    return F.lpad(F.lower(F.hex(F.coalesce(F.col(name).cast("bigint"), F.lit(0)))), width, "0")
