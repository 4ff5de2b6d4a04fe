"""Where rows are in a partitioned table: its index finds a row in its own partition only.

A row whose partition changes must leave the partition where it is, by the commit that writes it where it comes to. So a
batch looks up its keys: in the key and the partition columns of the base files, and in what the commits since have
noted of rows that came to a partition, new ones and those that moved. Log files are not read for it. Where the notes do
not reach back to the base files, as after a commit of very many new rows, the keys are looked up in the merged rows.

The look-up may name a place that a row has left: there is nothing to remove then. It never lacks a row's place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.changes.position import FEW, as_it_is
from ingest.config.lake import HIVES_NULL
from ingest.schema.masking import local_rows
from ingest.silver.file_groups import file_groups
from ingest.silver.state import ARRIVALS_KEY, NONE_ARRIVED
from ingest.silver.table import LEFT, SilverTable

# A commit of more rows does not note which of them came to a partition: its metadata would be large.
MOST_NOTED = 5_000
_NOTES = T.ArrayType(
    T.StructType(
        [T.StructField("at", T.ArrayType(T.StringType())), T.StructField("rows", T.ArrayType(T.LongType()))],
    )
)
# These write base files alone, or remove rows.
_NEED_NO_NOTES = ("bulk_insert", "insert_overwrite_table", "compact", "delete")


def with_departures(
    silver: SilverTable, rows: DataFrame, *, number: int, keep: Callable[[DataFrame], DataFrame]
) -> tuple[DataFrame, str | None]:
    """The rows of a batch, with one more for each that moves: it removes the row from the partition that it leaves.

    Parameters
    ----------
    rows:
        In silver's columns, one a key.
    number:
        How many there are, at most.
    keep:
        Materializes rows until the batch is committed.

    Returns
    -------
    The rows, and what their commit is to note of those that come to a partition; None where there are too many, and of
    a copy-on-write table, which has base files alone.
    """
    table = silver.table
    key, parts = table.record_key, table.options.partition_by
    send = F.broadcast if number <= FEW else as_it_is
    takes_notes = table.options.table_type == "mor" and number <= MOST_NOTED
    targets = rows.select(F.col(f"`{key}`").alias("_lake_key"), *_renamed(parts, "_lake_to"))
    targets = keep(targets.withColumn("_lake_hash", _hash("_lake_key")))
    places = reduce(DataFrame.unionByName, _places(silver, targets, send))
    held = F.struct(*(f"_lake_from{place}" for place in range(len(parts))))
    of_key = places.groupBy("_lake_key").agg(
        F.max(_stays(silver)).alias("_lake_stays"),
        F.collect_set(F.when(~_stays(silver), held)).alias("_lake_leaves"),
    )
    known = keep(targets.join(of_key, "_lake_key", "left"))
    # Of several places only one is the row's, and it need not be the one that it goes to.
    arrives = ~F.coalesce(F.col("_lake_stays"), F.lit(False)) | (F.size("_lake_leaves") > 0)
    note = F.struct("_lake_hash", *(F.col(f"_lake_to{place}").cast("string") for place in range(len(parts))))
    noted = F.collect_list(F.when(arrives, note)) if takes_notes else F.array()
    found = known.agg(F.count_if(F.size("_lake_leaves") > 0).alias("leave"), noted.alias("arrivals")).first()
    assert found is not None
    if found["leave"]:
        rows = rows.unionByName(_departures(rows, known, silver, send))
    return rows, _as_notes(found["arrivals"]) if takes_notes else None


def _places(silver: SilverTable, targets: DataFrame, send: Callable[[DataFrame], DataFrame]) -> list[DataFrame]:
    """Places of the keys, with where their rows are to be.

    Columns: those of `told`, and `_lake_from<n>` for each partition column.
    """
    table = silver.table
    parts = table.options.partition_by
    # The notes come first: a compaction that is done in the meantime writes base files that have more.
    notes = notes_of(silver) if table.options.table_type == "mor" else []
    stored = silver.read() if notes is None or table.options.table_type == "cow" else silver.read_base_files()
    held = stored.select(F.col(f"`{table.record_key}`").alias("_lake_held"), *_renamed(parts, "_lake_from"))
    # Of a large table Spark would make a task of every 8 MB, to read one column.
    held = held.coalesce(2 * silver.spark.sparkContext.defaultParallelism)
    found = held.join(send(targets), F.col("_lake_held") == F.col("_lake_key")).drop("_lake_held")
    if not notes:
        return [found]
    types = {column.name: column.dataType for column in targets.schema}
    texts = local_rows(silver.spark, [[text] for text in notes], T.StructType([T.StructField("text", T.StringType())]))
    noted = texts.select(F.explode(F.from_json("text", _NOTES)).alias("note"))
    noted = noted.select("note.at", F.explode("note.rows").alias("_lake_noted")).select(
        "_lake_noted",
        *(F.col("at")[n].cast(types[f"_lake_to{n}"]).alias(f"_lake_from{n}") for n in range(len(parts))),
    )
    since = targets.join(F.broadcast(noted), F.col("_lake_noted") == F.col("_lake_hash")).drop("_lake_noted")
    return [found, since.select(*found.columns)]


def notes_of(silver: SilverTable) -> list[str] | None:
    """What the commits have noted whose rows are in log files; None where some are missing."""
    timeline = silver.hudi.timeline
    unmerged = [group.since for group in file_groups(timeline) if group.log_files]
    if not unmerged:
        return []
    oldest, commits = min(unmerged), timeline.active_commits()
    if all(requested > oldest for requested, _, _ in commits):
        return None
    later = [metadata for _, completed, metadata in commits if completed > oldest]
    notes = [
        metadata.getExtraMetadata().get(ARRIVALS_KEY)
        for metadata in later
        if str(metadata.getOperationType()).lower() not in _NEED_NO_NOTES
    ]
    return None if any(note is None for note in notes) else [str(note) for note in notes if note != NONE_ARRIVED]


def _stays(silver: SilverTable) -> Expression:
    """Whether a place is the one where the row is to be. Null, the empty text and Hive's word for both are one."""
    parts = silver.table.options.partition_by
    types = {column.name: column.data_type for column in silver.table.columns}
    same = []
    for place, name in enumerate(parts):
        to, held = F.col(f"_lake_to{place}"), F.col(f"_lake_from{place}")
        if isinstance(types.get(name), T.StringType):
            to, held = (F.when(~value.isin("", HIVES_NULL), value) for value in (to, held))
        same.append(to.eqNullSafe(held))
    return reduce(Expression.__and__, same)


def _departures(
    rows: DataFrame, known: DataFrame, silver: SilverTable, send: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Of each row that moves one that removes it from each place it may have been at, in silver's columns."""
    key, parts = silver.table.record_key, silver.table.options.partition_by
    left = known.select(F.col("_lake_key"), F.explode("_lake_leaves").alias("_lake_place"))
    leaving = rows.join(send(left), F.col(f"`{key}`") == F.col("_lake_key"))
    places = {name: F.col(f"_lake_place._lake_from{place}") for place, name in enumerate(parts)}
    return leaving.withColumns({**places, "__op": F.lit(LEFT)}).select(*(f"`{name}`" for name in rows.columns))


def _as_notes(arrivals: Sequence[Sequence[str | int | None]]) -> str:
    """The note of a commit: for each partition the hashes of its arrivals' keys."""
    at: dict[tuple[str | int | None, ...], list[str | int | None]] = {}
    for hashed, *place in arrivals:
        at.setdefault(tuple(place), []).append(hashed)
    return json.dumps([{"at": place, "rows": hashes} for place, hashes in at.items()], separators=(",", ":"))


def _renamed(columns: Sequence[str], to: str) -> list[Expression]:
    return [F.col(f"`{name}`").alias(f"{to}{place}") for place, name in enumerate(columns)]


def _hash(column: str) -> Expression:
    """A hash of a key, of 32 bits: many keys have it, so that a note does not tell one that is erased later."""
    return F.shiftrightunsigned(F.xxhash64(F.col(column).cast("string")), 32)
