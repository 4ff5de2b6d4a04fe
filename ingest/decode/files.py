"""Files of change events to decoded changes: JSON lines, and Avro object files with the schema each file carries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.declaration import Table
from ingest.decode.debezium import decode_json, decode_rows
from ingest.session import first_line
from ingest.sources.files import EventFile

_SYNC_BYTES = 16


@dataclass(frozen=True)
class HeldBack:
    """A file that cannot be read to its end, and why. It is not landed, and is tried again by the next run."""

    file: EventFile
    reason: str


@dataclass(frozen=True)
class Decoded:
    """Decoded changes of a table (see `ingest.decode.columns`), the files they come from, and the files left out."""

    changes: DataFrame | None
    files: tuple[EventFile, ...]
    held_back: tuple[HeldBack, ...]


def decode_files(spark: SparkSession, table: Table, files: Sequence[EventFile]) -> Decoded:
    """The decoded changes of some files of a table. Reads the headers of Avro files; rows are read by an action."""
    text = [file for file in files if file.encoding == "json"]
    by_schema: dict[str, list[EventFile]] = {}
    held_back = []
    for file in files:
        if file.encoding == "avro":
            schema, reason = probe_avro(spark, file)
            if reason:
                held_back.append(HeldBack(file, reason))
            else:
                by_schema.setdefault(schema, []).append(file)
    parts = []
    if text:
        lines = spark.read.text(_literal(text))
        parts.append(decode_json(lines.select("value", *_origin()), table))
    for schema, group in by_schema.items():
        records = spark.read.format("avro").option("avroSchema", schema).load(_literal(group))
        event = F.struct(*(F.col(f"`{name}`") for name in records.columns)).alias("event")
        parts.append(decode_rows(records.select(event, *_origin()), table, semantic_types(schema)))
    left_out = {item.file for item in held_back}
    return Decoded(
        changes=reduce(DataFrame.unionByName, parts) if parts else None,
        files=tuple(file for file in files if file not in left_out),
        held_back=tuple(held_back),
    )


def probe_avro(spark: SparkSession, file: EventFile) -> tuple[str, str]:
    """The writer's schema of an Avro object file, and what is wrong with the file, or ''.

    Avro's readers take a file that breaks off within a block for one that ends before it: the rest would be lost
    without a word. Each block ends with the sync marker of the header, so a whole file does (Avro specification,
    "Object Container Files"); this looks for it.
    """
    jvm: Any = spark._jvm
    hadoop = spark._jsc.hadoopConfiguration()
    path = jvm.org.apache.hadoop.fs.Path(file.path)
    try:
        reader = jvm.org.apache.avro.file.DataFileReader(
            jvm.org.apache.avro.mapred.FsInput(path, hadoop), jvm.org.apache.avro.generic.GenericDatumReader()
        )
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
        told = error.java_exception.getMessage() or error.java_exception.getClass().getSimpleName()
        return "", f"not an Avro object file: {told}"
    if kind != "record":
        return "", f"not a file of change events: it holds values of type {kind}"
    if ending != marker:
        return schema, f"truncated: its {file.size} bytes do not end with the file's sync marker"
    return schema, ""


def unreadable_avro(spark: SparkSession, files: Sequence[EventFile]) -> tuple[HeldBack, ...]:
    """Those of the files that have a block that cannot be read. Reads every file to its end, one by one."""
    broken = []
    for file in files:
        if file.encoding == "avro":
            rows = spark.read.format("avro").load(_literal([file]))
            try:
                rows.agg(*(F.max(F.col(f"`{name}`").isNull()) for name in rows.columns)).collect()
            except Py4JJavaError as error:
                broken.append(HeldBack(file, f"corrupt: {first_line(str(error))}"))
    return tuple(broken)


def _literal(files: Iterable[EventFile]) -> list[str]:
    """The files' paths for Spark's readers, which take a path for a pattern."""
    return [re.sub(r"([\\\[\]{}*?])", r"\\\1", file.path) for file in files]


def semantic_types(schema: str) -> dict[str, str]:
    """Debezium's semantic type of each column whose Avro schema names one (`connect.name`), by column name.

    Looks into the record itself and, for an envelope, into its `before` and `after`; of an array, at its elements.
    Parameters that a value cannot be understood without stand behind the name (`...Decimal;scale=2`).
    """
    record = json.loads(schema)
    named: dict[str, Any] = {}
    for found in _records(record):
        named.setdefault(found.get("name", ""), found)

    def columns(fields: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str]]:
        for field in fields:
            for branch in _branches(field["type"]):
                resolved = _element(named.get(branch, {}) if isinstance(branch, str) else branch)
                if field["name"] in ("before", "after") and resolved.get("type") == "record":
                    yield from columns(resolved["fields"])
                elif "connect.name" in resolved and resolved.get("type") != "record":
                    known = resolved.get("connect.parameters", {})
                    parameters = [f"{key}={known[key]}" for key in ("scale", "length") if key in known]
                    yield field["name"], ";".join([resolved["connect.name"], *parameters])

    return dict(columns(record["fields"]))


def _element(avro_type: Any) -> Any:
    """The type of an array's elements, whatever else may be null; any other type as it is."""
    while isinstance(avro_type, dict) and avro_type.get("type") == "array":
        items = [item for item in _branches(avro_type["items"]) if item != "null"]
        avro_type = items[0] if items and isinstance(items[0], dict) else {}
    return avro_type


def _branches(avro_type: Any) -> list[Any]:
    return avro_type if isinstance(avro_type, list) else [avro_type]


def _records(avro_type: Any) -> Iterator[dict[str, Any]]:
    for branch in _branches(avro_type):
        if isinstance(branch, dict) and branch.get("type") == "record":
            yield branch
            for field in branch["fields"]:
                yield from _records(field["type"])


def _origin() -> list[Expression]:
    """The columns of `ORIGIN`, from the file a row was read from.

    `_order` grows within a file: Spark numbers the rows of a scan by task, and gives a file's splits to tasks in order.
    """
    name = F.col("_metadata.file_path")
    sink = r".*\+(\d+)\+(\d+)\.\w+$"
    modified = F.unix_millis(F.col("_metadata.file_modification_time"))
    return [
        F.coalesce(F.regexp_extract(name, sink, 1).cast("int"), F.lit(0)).alias("_partition"),
        F.coalesce(F.regexp_extract(name, sink, 2).cast("bigint"), modified).alias("_start_offset"),
        F.monotonically_increasing_id().alias("_order"),
        name.alias("_file"),
    ]
