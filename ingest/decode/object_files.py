"""Files of change events to decoded changes: JSON lines, Avro object files and Parquet, which bring their schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from json import dumps

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.config.schema_files import defaults_of_nullables, semantic_types
from ingest.config.tables import Table
from ingest.decode.avro_schema import readable, unreadable
from ingest.decode.decoded import Part
from ingest.decode.json_events import JsonSource, json_parts
from ingest.decode.parquet_files import Footer, footer_of
from ingest.decode.registry import Registry
from ingest.decode.typed_events import members, typed_part
from ingest.decode.wire_format import RECORD_COLUMNS, record_parts
from ingest.schema.change import UNNAMED
from ingest.sources.raw import UNTOLD, EventFile
from ingest.spark import s3
from ingest.spark.jvm import java_class, root_cause

_SYNC_BYTES = 16
_FORMS = "events come as .json, .jsonl or .ndjson, each with .gz behind it or not, .avro and .parquet"
# Bytes of an unwrapped event in a text, where how many there are must be guessed.
_USUAL_TEXT = 400


@dataclass(frozen=True)
class HeldBack:
    """A file that cannot be read to its end, and why. It is not landed, and is tried again by the next run."""

    file: EventFile
    reason: str


def read_files(
    spark: SparkSession,
    table: Table,
    files: Sequence[EventFile],
    *,
    thorough: bool,
    by_examples: bool,
) -> tuple[tuple[Part, ...], tuple[HeldBack, ...]]:
    """The events of some files of a table, not decoded yet, in parts of one schema each; and the files left out.

    Reads the headers of Avro files and the footers of Parquet files, and searches texts.

    `table` has the columns that are known (see `ingest.decode.json_events.json_parts`, of `thorough` and `by_examples`
    too).
    """
    held_back = [HeldBack(file, reason) for file in files if (reason := _why_unread(file))]
    files = [file for file in files if not _why_unread(file)]
    text = [file for file in files if file.encoding == "json"]
    of_avro: dict[str, list[EventFile]] = {}
    of_parquet: dict[str, tuple[Footer, list[EventFile]]] = {}
    of_records: list[EventFile] = []
    for file in files:
        if file.encoding == "avro":
            schema, reason = probe_avro(spark, file)
            if reason:
                held_back.append(HeldBack(file, reason))
            else:
                of_avro.setdefault(schema, []).append(file)
        if file.encoding == "parquet":
            footer = footer_of(spark, table, file)
            if footer.problem:
                held_back.append(HeldBack(file, footer.problem))
            elif footer.holds == "records":
                of_records.append(file)
            else:
                of_parquet.setdefault(repr(footer), (footer, []))[1].append(file)
    parts: list[Part] = []
    if text:
        lines = spark.read.text(_literal(text))
        own = lines.select("value", *_origin(table, text))
        events = sum(file.size for file in text) // _USUAL_TEXT
        parts += json_parts(JsonSource(own, events=events), table, thorough=thorough, by_examples=by_examples)
    for written, group in of_avro.items():
        schema = readable(written)
        rows = spark.read.format("avro").option("avroSchema", schema).load(_literal(group))
        parts.append(_rows_part(rows, semantic_types(schema), table, group, defaults_of_nullables(schema)))
    for footer, group in of_parquet.values():
        rows = spark.read.schema(footer.schema).parquet(*_literal(group))
        parts.append(_rows_part(rows, footer.meanings, table, group))
    if of_records:
        records = spark.read.schema(RECORD_COLUMNS).parquet(*_literal(of_records))
        registry = Registry.of(spark, table)
        with_file = records.select("*", F.col("_metadata.file_path").alias("_lake_file"))
        parts.extend(record_parts(with_file, table, registry, thorough=thorough, by_examples=by_examples))
    return tuple(parts), tuple(held_back)


def _why_unread(file: EventFile) -> str:
    """Why a file is not read at all, by its name; '' where it is."""
    if file.encoding == "unread":
        return f"not read here: {_FORMS}"
    # Hadoop looks for a checksum beside each file of a local disk, by a name that it makes of the file's.
    if file.path.startswith("file:") and ":" in file.name:
        return "not read from a local disk: Hadoop takes no name there that has a colon. Give it another one"
    if UNTOLD in file.path:
        return "not read: its path is not UTF-8, and Java passes over it. Give it another one"
    return ""


def _rows_part(
    rows: DataFrame,
    meanings: Mapping[str, str],
    table: Table,
    files: Sequence[EventFile],
    default: frozenset[str] = frozenset(),
) -> Part:
    """Events that are rows of files, with what their schema says of the fields (see `typed_part`)."""
    return typed_part(rows.select(*members(rows), *_origin(table, files)), meanings, default=default)


def probe_avro(spark: SparkSession, file: EventFile) -> tuple[str, str]:
    """The writer's schema of an Avro object file, and what is wrong with the file, or ''.

    Avro's readers take a file that breaks off within a block for one that ends before it: the rest would be lost
    without a word. Each block ends with the sync marker of the header, so a whole file does (Avro specification,
    "Object Container Files"); this looks for it.
    """
    hadoop = spark._jsc.hadoopConfiguration()
    path = java_class(spark, "org.apache.hadoop.fs.Path")(file.path)
    decoder = java_class(spark, "org.apache.avro.generic.GenericDatumReader")()
    try:
        bytes_of = java_class(spark, "org.apache.avro.mapred.FsInput")(path, hadoop)
        reader = java_class(spark, "org.apache.avro.file.DataFileReader")(bytes_of, decoder)
        try:
            schema = str(reader.getSchema().toString())
            kind = str(reader.getSchema().getType().getName())
            first_block = int(reader.previousSync())
        finally:
            reader.close()
        stream = path.getFileSystem(hadoop).open(path)
        try:
            stream.seek(first_block - _SYNC_BYTES)
            marker = bytes(stream.readNBytes(_SYNC_BYTES))
            stream.seek(file.size - _SYNC_BYTES)
            ending = bytes(stream.readNBytes(_SYNC_BYTES))
        finally:
            stream.close()
    except Py4JJavaError as error:
        message = error.java_exception.getMessage() or error.java_exception.getClass().getSimpleName()
        return "", f"not an Avro object file: {message}"
    if kind != "record":
        return "", f"not a file of change events: it holds values of type {kind}"
    if ending != marker:
        return schema, f"truncated: its {file.size} bytes do not end with the file's sync marker"
    return schema, unreadable(spark, schema)


def unreadable_files(spark: SparkSession, table: Table, files: Sequence[EventFile]) -> tuple[HeldBack, ...]:
    """Those of the files that look whole, and have a block that cannot be read. Reads each to its end, one by one."""
    broken = []
    for file in files:
        if _why_unread(file):
            continue
        if file.encoding == "avro":
            schema, _ = probe_avro(spark, file)
            rows = spark.read.format("avro").option("avroSchema", readable(schema)).load(_literal([file]))
        elif file.encoding == "parquet":
            rows = spark.read.schema(footer_of(spark, table, file).schema).parquet(*_literal([file]))
        else:
            rows = spark.read.text(_literal([file]))
        try:
            # Of a struct whose nulls are counted one column alone is read; of its text all are.
            rows.agg(F.max(F.length(F.to_json(F.struct("*"))))).collect()
        except Py4JJavaError as error:
            if why := _why_broken(file, error):
                broken.append(HeldBack(file, why))
    return tuple(broken)


def _why_broken(file: EventFile, error: Py4JJavaError) -> str:
    """What is wrong with a file that could not be read; '' where it is the storage that did not give it."""
    cause = root_cause(error)
    if "ChecksumException" in cause:
        return f"of another checksum than .{file.name}.crc beside it says. Where it was written again, remove that"
    # Any bytes are a text, as long as nothing compresses it.
    is_plain = file.encoding == "json" and not file.name.endswith(".gz")
    return "" if is_plain or s3.to_do(str(error)) else f"corrupt: {cause}"


def _literal(files: Iterable[EventFile]) -> list[str]:
    """The files' paths for Spark's readers, which take a path for a pattern."""
    return [re.sub(r"([\\\[\]{}*?])", r"\\\1", file.path) for file in files]


def _origin(table: Table, files: Sequence[EventFile]) -> list[Expression]:
    """The columns of `READ`, from the file a row was read from, which is one of these.

    `_lake_order` grows within a file: Spark numbers the rows of a scan by task, and gives a file's splits to tasks in
    order.
    """
    name = F.col("_metadata.file_name")
    # <topic>+<partition>+<first offset>.<ending>, cut at its marks: a pattern costs as much as reading the line does.
    # The ending is of one part, or of two that name a codec, as `EventFile.start_offset` has it.
    partition = F.substring_index(F.substring_index(name, "+", -2), "+", 1).cast("bigint")
    last = F.substring_index(name, "+", -1)
    has_ending = (F.substring_index(last, ".", 2) == last) | (
        (F.substring_index(last, ".", 3) == last) & (last.endswith(".parquet") | last.endswith(".gz"))
    )
    offset = F.when(has_ending, F.substring_index(last, ".", 1).cast("bigint"))
    if any(file.names_end_offset for file in files):
        # <topic>+<partition>+<first offset>+<last offset>.<ending>
        three = F.substring_index(name, "+", -3)
        first = F.substring_index(three, "+", 1).cast("bigint")
        has_three = offset.isNotNull() & partition.isNotNull() & first.isNotNull() & (three != name)
        partition, offset = (
            F.when(has_three, first).otherwise(partition),
            F.when(has_three, partition).otherwise(offset),
        )
    is_sinks = partition.isNotNull() & offset.isNotNull()
    modified = F.unix_millis(F.col("_metadata.file_modification_time"))
    if arrived := {file.path: file.first_ms for file in files if file.first_ms is not None}:
        # Spark names a file by its URI, of which a `+` is itself.
        path = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
        modified = F.coalesce(F.from_json(F.lit(dumps(arrived)), "map<string,bigint>")[path], modified)
    return [
        F.when(is_sinks, partition.cast("int")).otherwise(0 if table.key else UNNAMED).alias("_lake_partition"),
        F.when(is_sinks, offset).otherwise(modified).alias("_lake_start_offset"),
        F.monotonically_increasing_id().alias("_lake_order"),
        F.col("_metadata.file_path").alias("_lake_file"),
        F.lit(None).cast("binary").alias("_lake_key"),
    ]
