"""Removes the whole history of keys from a table of silver and all that lies beside it, and proves that it is gone.

A delete alone hides rows: Hudi keeps earlier versions of files for time travel, and logs hold earlier values. So the
files are compacted and cleaned to one version, and every file that is left is read again.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.changes.position import record_key, with_position
from ingest.config.tables import Table
from ingest.decode.fields import Field
from ingest.decode.types import converted
from ingest.errors import InputError
from ingest.landing.backlog import pending_of
from ingest.landing.transactions import is_consistent, move_cut, require_at_cut, topic_table
from ingest.operations.replay import decoded_again
from ingest.schema.masking import all_null, in_silver, local_rows
from ingest.silver import change_log, quarantine
from ingest.silver.erased_keys import remember
from ingest.silver.hudi import HudiTable
from ingest.silver.ledger import Ledger
from ingest.silver.state import ARRIVALS_KEY, NONE_ARRIVED, State
from ingest.silver.table import SilverTable
from ingest.spark.jvm import java_class

Key = tuple[str | None, ...]
# A shorter key stands by chance in files that say nothing of it, such as a timeline's.
_LEAST_SEARCHED, _LONG = 8, 24
_CHUNK = 1 << 24


@dataclass(frozen=True)
class Erased:
    """What became of one Hudi table.

    Attributes
    ----------
    rows:
        Rows that were removed.
    files, others:
        Data files that were read afterwards, row by row; other files (logs, the timeline) that were searched as bytes.
    holding:
        Files that still hold a key: the proof has failed where there is one.
    """

    name: str
    path: str
    rows: int
    files: int
    others: int
    holding: tuple[str, ...]


@dataclass(frozen=True)
class Erasure:
    """What an erasure did to a table and to all that lies beside it.

    `unsearched`: quarantined events whose key cannot be told, so that they may be of an erased one; `waiting`: how many
    files or records (`unit`) have not been landed, which may bring a later change of a key.
    """

    table: Table
    keys: int
    places: tuple[Erased, ...]
    unsearched: int
    waiting: int
    unit: str

    @property
    def holding(self) -> tuple[str, ...]:
        """Every file that still holds a key."""
        return tuple(path for place in self.places for path in place.holding)


@dataclass(frozen=True)
class Place:
    """A Hudi table that rows of keys are removed from.

    Attributes
    ----------
    metadata:
        What the commits hold besides.
    rows:
        The rows to remove, with all the columns that are written.
    keys:
        Column `key`: the keys, as text, that no file may hold afterwards.
    column:
        Where data files have them; None of Hudi's record keys.
    holds_visible_rows:
        Whether a data file may hold no rows but those that can be read: of a quarantined event that was removed
        before, nothing tells the key.
    """

    hudi: HudiTable
    rows: DataFrame
    keys: DataFrame
    metadata: Mapping[str, str] = field(default_factory=dict)
    column: str | None = None
    holds_visible_rows: bool = False


@dataclass(frozen=True)
class _Quarantined:
    """Quarantined events of keys; `unsearched`: how many of the table's have no key to be found by; `places`: the keys'
    own, with where their events stand (`key`, `__position`), None where nothing is quarantined."""

    ledger: Ledger
    place: Place
    unsearched: int
    places: DataFrame | None


def lines_of(file: Path) -> Iterator[tuple[str, str]]:
    """The lines of a file of keys that are not blank, each with its place.

    Raises
    ------
    InputError
        It is no text in UTF-8.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        # Without its cause, whose text has what the file holds.
        raise InputError(
            "is no text in UTF-8",
            where=str(file),
            expected="a key a line, in UTF-8",
            action="save it as UTF-8 and run again; nothing was erased",
        ) from None
    return ((line, f"{file}, line {number}") for number, line in enumerate(text.split("\n"), 1) if line.strip())


def parse_key(table: Table, text: str, place: str = "--key") -> Key:
    """A key from a JSON list of its values, in the declared order, or from `column=value` pairs with commas between.

    `place` is where the text stands, for the error: a file of keys may have thousands.

    Raises
    ------
    InputError
        It is neither, or lacks a column; the text itself is not told. The table has no key.
    """
    if not table.key:
        raise InputError("has no key that rows could be found by", where=table.where, expected="a declared key")
    values: Any = None
    if text.lstrip().startswith("["):
        try:
            # A number as it is written: a float would name another key.
            values = json.loads(text, parse_float=str)
        except ValueError:
            values = None
    else:
        names = "|".join(re.escape(name) for name in table.key)
        pairs = re.split(rf",\s*(?=(?:{names})=)", text.strip())
        found = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        values = [found[name] for name in table.key] if found.keys() == set(table.key) else None
    is_scalar = isinstance(values, list) and not any(isinstance(value, list | dict) for value in values)
    if not is_scalar or len(values) != len(table.key):
        raise InputError(
            f"a key of {table.name} cannot be read",
            where=place,
            expected=f"a JSON list of {', '.join(table.key)}, or {','.join(f'{name}=...' for name in table.key)}",
        )
    return tuple(value if value is None or isinstance(value, str) else json.dumps(value) for value in values)


def erase(spark: SparkSession, table: Table, keys: Sequence[Key]) -> Erasure:
    """Removes every trace of some keys from silver and the quarantine, and reads all their files for the proof.

    The keys are remembered by their hashes before anything is removed (`ingest.silver.erased_keys`): whatever brings an
    event of one again, up to where the source was read to, changes nothing. Repeating a broken-off run does no harm.

    Raises
    ------
    InputError
        A value is none of its column's type; the quarantined events cannot be read; readers are at a cut before the
        table's last commit.
    WriteError
        There is no such table, or the lake cannot be written.
    """
    silver = SilverTable.of(spark, table)
    with ExitStack() as held:
        if is_consistent([table]):
            # A run that lands other tables would make a cut of what is removed here.
            held.enter_context(SilverTable.of(spark, topic_table(table)).writing())
        held.enter_context(silver.writing())
        return _erase(silver, silver.required_state(), keys, held)


def _erase(silver: SilverTable, state: State, keys: Sequence[Key], held: ExitStack) -> Erasure:
    spark, table = silver.spark, silver.table
    silver.require_buckets(state)
    is_in_cuts = is_consistent([table])
    if is_in_cuts:
        require_at_cut(spark, table, state.instant)
    known = _record_keys(spark, table, keys).localCheckpoint()
    quarantined = [_quarantined(silver, state, known, *found) for found in quarantine.kept(spark, table)]
    of_silver = _silver(silver, state, known).rows.select(_key_text(table), "__position")
    places = reduce(DataFrame.unionByName, (each.places for each in quarantined if each.places is not None), of_silver)
    after = remember(known, table, state, places).after_removal()
    found = (_silver(silver, after, known), _history(silver, after, known, held))
    # All is removed before what takes long: the search of every file.
    removed = [(place, _remove(place)) for place in found if place is not None]
    of_events = []
    for each in quarantined:
        with each.ledger.writing(spark):
            of_events.append(_searched(each.place, _remove(each.place)))
    silver.register()
    if is_in_cuts:
        move_cut(spark, table, silver.required_state().instant)
    searched = (*(_searched(place, count) for place, count in removed), *of_events)
    pending = pending_of(spark, table, state.position)
    return Erasure(
        table, known.count(), searched, sum(each.unsearched for each in quarantined), pending.waiting, pending.unit
    )


def _record_keys(spark: SparkSession, table: Table, keys: Sequence[Key]) -> DataFrame:
    """The record keys, as text, in column `key`: in the types of the source, hashed where silver's are."""
    schema = T.StructType([T.StructField(name, T.StringType()) for name in table.key])
    rows = local_rows(spark, keys, schema)
    columns = {column.name: column for column in table.columns}
    typed = rows
    for name in table.key:
        column, text = columns[name], Field(F.col(f"`{name}`"), T.StringType(), in_json=False)
        change = converted(text.value, text, column, column.source_type, table.options.connector)
        wrong = rows.where(change.problem.isNotNull()).count()
        if wrong:
            raise InputError(
                f"{wrong} of {len(keys)} keys have a {name} that is not exactly a {column.source_type.simpleString()}",
                where=table.where,
                expected="values as the source's events have them, in the declared types",
                action="nothing was erased",
            )
        typed = typed.withColumn(name, change.value)
    written = in_silver(typed, table).withColumns(record_key(table))
    return (
        written.select(F.col(f"`{table.record_key}`").cast("string").alias("key")).where("key is not null").distinct()
    )


def _key_text(table: Table) -> Expression:
    return F.col(f"`{table.record_key}`").cast("string").alias("key")


def _silver(silver: SilverTable, state: State, keys: DataFrame) -> Place:
    table = silver.table
    is_gone = F.col(f"`{table.record_key}`").cast("string") == F.col("key")
    rows = silver.stored().join(F.broadcast(keys), is_gone, "left_semi").select(*silver.columns())
    metadata = {**state.as_metadata(), ARRIVALS_KEY: NONE_ARRIVED}
    return Place(silver.hudi.of_buckets(state.buckets), rows, keys, metadata)


def _history(silver: SilverTable, state: State, keys: DataFrame, held: ExitStack) -> Place | None:
    """The table's changes, where it has any: declared or not, they may be there from before. Nobody else writes them
    until `held` lets go."""
    changes = change_log.changes_of(silver)
    if not changes.is_committed():
        return None
    held.enter_context(changes.writing())
    is_gone = F.col(f"`{silver.table.record_key}`").cast("string") == F.col("key")
    rows = changes.stored().join(F.broadcast(keys), is_gone, "left_semi").select(*changes.columns()).localCheckpoint()
    return Place(change_log.hudi_table(changes, state.buckets), rows, keys, column=silver.table.record_key)


def _quarantined(silver: SilverTable, state: State, keys: DataFrame, ledger: Ledger, kept: DataFrame) -> _Quarantined:
    """The quarantine, or what was replayed, with the events of the keys; `kept`: those of the table."""
    spark, table = silver.spark, silver.table
    kept = kept.localCheckpoint()
    rows, unsearched, places = kept, 0, None
    if not kept.isEmpty():
        planned, decoded = decoded_again(silver, state, kept)
        placed = with_position(decoded, planned.table)
        is_unknown = all_null([F.col(f"`{name}`") for name in table.key]) & ~F.coalesce(
            F.col("__op") == "t", F.lit(False)
        )
        key = _key_text(table)
        place = {**quarantine.PLACE, "line": "_lake_order"}
        known = placed.select(
            *(F.col(name).alias(of) for of, name in place.items()), key, "__position", is_unknown.alias("unknown")
        ).localCheckpoint()
        unsearched = known.where("unknown").count()
        of_keys = known.join(F.broadcast(keys), "key", "left_semi")
        found, places = of_keys.select(*place), of_keys.where("__position is not null").select("key", "__position")
        rows = kept.join(F.broadcast(found), [*place], "left_semi").select(*kept.columns).localCheckpoint()
    ids = rows.select(F.col("quarantine_id").alias("key"))
    return _Quarantined(ledger, Place(ledger.hudi(spark), rows, ids, holds_visible_rows=True), unsearched, places)


def _remove(place: Place) -> int:
    """Removes the rows, and the versions of files that had them; how many rows."""
    count = place.rows.count()
    place.hudi.erase(place.rows, place.metadata)
    place.hudi.spark.catalog.refreshTable(place.hudi.options.relation)
    return count


def _searched(place: Place, count: int) -> Erased:
    """Reads every file that is left."""
    spark, table = place.hudi.spark, place.hudi
    files = list(_files_below(spark, table.path))
    data = [path for path in files if path.endswith(".parquet") and "/.hoodie/" not in path]
    others = sorted({*files}.difference(data))
    return Erased(table.options.relation, table.path, count, len(data), len(others), _holding(place, data, others))


def _files_below(spark: SparkSession, path: str) -> Iterator[str]:
    root = java_class(spark, "org.apache.hadoop.fs.Path")(path)
    found = root.getFileSystem(spark._jsc.hadoopConfiguration()).listFiles(root, True)
    while found.hasNext():
        yield str(found.next().getPath().toString())


def _holding(place: Place, data: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """The files that hold a key: data files by their rows, all others by their bytes."""
    spark = place.keys.sparkSession
    holding = _of_rows(place, data) if data else []
    texts = [row["key"].encode() for row in place.keys.collect()]
    longest = max(map(len, texts), default=0)
    own = [_by_itself(text) for text in texts if len(text) >= _LEAST_SEARCHED]
    anywhere = [re.compile(re.escape(text)) for text in texts]
    for path in others:
        # A log holds rows: there, any key counts. Hudi's own are the timeline and `.hoodie_partition_metadata`.
        searched = own if "/.hoodie" in path else anywhere
        if searched and _has_any(spark, path, searched, longest):
            holding.append(path)
    return tuple(holding)


def _of_rows(place: Place, data: Sequence[str]) -> list[str]:
    spark, stored = place.keys.sparkSession, F.col("_hoodie_record_key")
    file = F.col("_metadata.file_path").alias("file")
    if place.column is not None:
        key = F.col(f"`{place.column}`").cast("string").alias("key")
        alike = _by_type(spark, data, place.column)
        keyed = reduce(DataFrame.union, (spark.read.parquet(*files).select(file, key) for files in alike))
    else:
        # With several partition columns Hudi writes the name of the key's column before the key.
        prefix = place.hudi.options.key + ":"
        key = F.when(stored.startswith(prefix), F.substring(stored, len(prefix) + 1, 1 << 30)).otherwise(stored)
        rows = spark.read.schema("_hoodie_record_key string").parquet(*data)
        keyed = rows.select(file, F.explode(F.array(key, stored)).alias("key"))
    if place.holds_visible_rows:
        held = keyed.join(place.hudi.read().select(stored.alias("key")), "key", "left_anti")
    else:
        held = keyed.join(F.broadcast(place.keys), "key", "left_semi")
    return [row["file"] for row in held.select("file").distinct().collect()]


def _by_type(spark: SparkSession, data: Sequence[str], column: str) -> list[list[str]]:
    """Files by the type that a column has in them: it may have been widened, and Spark 3.5 reads no int as a bigint."""
    footer = java_class(spark, "org.apache.parquet.hadoop.ParquetFileReader")
    path_of = java_class(spark, "org.apache.hadoop.fs.Path")
    whole = java_class(spark, "org.apache.parquet.format.converter.ParquetMetadataConverter").NO_FILTER
    configuration = spark._jsc.hadoopConfiguration()
    alike: dict[str, list[str]] = defaultdict(list)
    for path in data:
        schema = footer.readFooter(configuration, path_of(path), whole).getFileMetaData().getSchema()
        alike[str(schema.getType(schema.getFieldIndex(column)).toString())].append(path)
    return list(alike.values())


def _by_itself(text: bytes) -> re.Pattern[bytes]:
    """Finds a key that is no part of a longer word or number: a timeline is full of digits.

    Of a longer key nothing is asked: none stands there by chance, and the length that Avro writes before a text of 24
    bytes or more looks like a digit or letter.
    """
    pattern = re.escape(text)
    return re.compile(b"(?<![0-9A-Za-z])" + pattern + b"(?![0-9A-Za-z])" if len(text) < _LONG else pattern)


def _has_any(spark: SparkSession, path: str, searched: Sequence[re.Pattern[bytes]], longest: int) -> bool:
    file = java_class(spark, "org.apache.hadoop.fs.Path")(path)
    stream = file.getFileSystem(spark._jsc.hadoopConfiguration()).open(file)
    overlap = longest + 1
    try:
        before = b""
        while chunk := bytes(stream.readNBytes(_CHUNK)):
            within = before + chunk
            if any(pattern.search(within) for pattern in searched):
                return True
            before = within[-overlap:]
        return False
    finally:
        stream.close()
