"""What the footer of a Parquet file says: whether it holds Kafka's records or events as typed rows, and the schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from json import loads
from typing import Any, Literal

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from ingest.config.schema_files import semantic_types
from ingest.config.tables import Table
from ingest.decode.control import is_control_schema
from ingest.decode.fields import DIGITS_OF_DECIMAL
from ingest.decode.typed_events import is_envelope_type
from ingest.schema.connect import DECIMAL, alike_but_for_case
from ingest.sources.raw import EventFile
from ingest.spark.jvm import java_class

_SPARKS_SCHEMA = "org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter"
# Where parquet-avro, which Connect's sinks write with, leaves the Avro schema of the rows (AvroWriteSupport).
_AVRO_SCHEMA = "parquet.avro.schema"
# What Spark does not read as what it is, and is read as the bytes or the number that carry it: a decimal of bytes, as
# parquet-avro writes each, of less than 19 digits, and any of more than 38; times of day, and nanoseconds.
_CODED = re.compile(
    r"\b(?P<written>binary|fixed_len_byte_array\(\d+\)|int32|int64) (?P<name>\S+) \("
    r"(?:DECIMAL\((?P<digits>\d+),(?P<scale>\d+)\)|(?P<kind>TIME|TIMESTAMP)\((?P<unit>\w+),\w+\))\)"
)
_GROUP = re.compile(r"^\s*\w+ group (\S+)")
_TIMES = {
    ("TIME", "MILLIS"): "io.debezium.time.Time",
    ("TIME", "MICROS"): "io.debezium.time.MicroTime",
    ("TIME", "NANOS"): "io.debezium.time.NanoTime",
    ("TIMESTAMP", "NANOS"): "io.debezium.time.NanoTimestamp",
}
# Codecs of the format whose classes are in no jar of Spark's.
_UNREAD_CODECS = ("BROTLI", "LZO")
# A value is bytes, or a text of them.
_OF_RECORDS: Mapping[str, tuple[type[T.DataType], ...]] = {
    "value": (T.BinaryType, T.StringType),
    "partition": (T.IntegerType,),
    "offset": (T.LongType,),
}
_EXPECTED = {"value": "binary", "partition": "int", "offset": "bigint"}


@dataclass(frozen=True)
class Footer:
    """What is in a Parquet file.

    Attributes
    ----------
    holds:
        `records`: Kafka's, with a value each; `events`: a row each; None where it is neither.
    schema:
        The columns.
    meanings:
        Debezium's semantic types of columns of the row, where the file has the schema that names them, and of decimals
        that are bytes.
    problem:
        Why the file cannot be landed, or ''.
    """

    holds: Literal["records", "events"] | None = None
    schema: T.StructType = field(default_factory=T.StructType)
    meanings: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def footer_of(spark: SparkSession, table: Table, file: EventFile) -> Footer:
    """The footer of a Parquet file of a table's topic.

    Events are envelopes, have a field of Debezium's unwrap transform (`__...`) or the table's key, or are no changes of
    a row, such as heartbeats. Sources of the rules: the columns of Spark's Kafka source ("Structured Streaming + Kafka
    Integration Guide"); Debezium's documentation of the envelope and of ExtractNewRecordState.
    """
    hadoop = spark._jsc.hadoopConfiguration()
    path = java_class(spark, "org.apache.hadoop.fs.Path")(file.path)
    parquet = "org.apache.parquet.hadoop"
    try:
        bytes_of = java_class(spark, f"{parquet}.util.HadoopInputFile").fromPath(path, hadoop)
        reader = java_class(spark, f"{parquet}.ParquetFileReader").open(bytes_of)
        try:
            footer = reader.getFooter()
            written, codec = footer.getFileMetaData(), _codec(footer)
        finally:
            reader.close()
    except Py4JJavaError as error:
        return Footer(problem=f"not a Parquet file, or truncated: {_told(error)}")
    if codec in _UNREAD_CODECS:
        return Footer(problem=f"compressed by {codec}, which Spark does not read: write it by ZSTD, SNAPPY or GZIP")
    try:
        schema, coded = _schema_of(spark, written.getSchema())
    except (Py4JJavaError, PySparkException) as error:
        return Footer(problem=f"not readable by Spark: {_told(error)}")
    if problem := alike_but_for_case(schema):
        return Footer(problem=problem)
    avro = written.getKeyValueMetaData().get(_AVRO_SCHEMA)
    return _sorted_out(table, schema, {**(semantic_types(str(avro)) if avro else {}), **coded})


def _codec(footer: Any) -> str:
    """The codec of a file's first column, and so of all that its writer has written; '' of a file without rows."""
    blocks = footer.getBlocks()
    return "" if blocks.isEmpty() else str(blocks.get(0).getColumns().get(0).getCodec().toString())


def _schema_of(spark: SparkSession, message: Any) -> tuple[T.StructType, dict[str, str]]:
    """The columns as Spark reads them, and what those are that it reads as bytes or numbers (`_CODED`)."""
    converter = java_class(spark, _SPARKS_SCHEMA)(spark._jsparkSession.sessionState().conf())

    def converted(written: Any) -> T.StructType:
        schema = _landed(T.StructType.fromJson(loads(converter.convert(written).json())))
        assert isinstance(schema, T.StructType)
        return schema

    text, coded = _without_codes(str(message.toString()))
    if not coded:
        return converted(message), {}
    schema = converted(java_class(spark, "org.apache.parquet.schema.MessageTypeParser").parseMessageType(text))
    meanings = {}
    for (*within, name), meaning in coded.items():
        image: T.DataType = schema
        if within and within[0] in ("before", "after"):
            image = schema[within.pop(0)].dataType
        column = [*within, name][0]
        if isinstance(image, T.StructType) and column in image.names and _is_plain(image[column].dataType):
            meanings[column] = meaning
        elif not meaning.startswith(DECIMAL):
            # Within a struct nothing would say what the number is: Spark refuses it.
            return converted(message), {}
    return schema, meanings


def _without_codes(message: str) -> tuple[str, dict[tuple[str, ...], str]]:
    """A schema's text without the annotations of `_CODED`, and what these say, by the path of the field."""
    coded: dict[tuple[str, ...], str] = {}
    path: list[str] = []

    def without(found: re.Match[str]) -> str:
        if found["digits"] is None:
            meaning = _TIMES.get((found["kind"], found["unit"]))
        else:
            is_read = found["written"] in ("int32", "int64") or (
                found["written"] != "binary" and int(found["digits"]) <= DIGITS_OF_DECIMAL
            )
            meaning = None if is_read else f"{DECIMAL};precision={found['digits']};scale={found['scale']}"
        if meaning is None:
            return found[0]
        coded[(*path, found["name"])] = meaning
        return f"{found['written']} {found['name']}"

    lines = message.splitlines()
    for at, line in enumerate(lines[1:-1], 1):
        if group := _GROUP.match(line):
            path.append(group[1])
        elif line.strip() == "}":
            path.pop()
        else:
            lines[at] = _CODED.sub(without, line)
    return "\n".join(lines), coded


def _is_plain(data_type: T.DataType) -> bool:
    """Whether a column holds a value, or an array of values, and no fields of its own."""
    while isinstance(data_type, T.ArrayType):
        data_type = data_type.elementType
    return not isinstance(data_type, T.StructType | T.MapType)


def _sorted_out(table: Table, schema: T.StructType, meanings: Mapping[str, str]) -> Footer:
    found = {item.name: item.dataType for item in schema.fields}
    is_unwrapped = any(name.startswith("__") for name in found)
    if is_envelope_type(schema) or is_unwrapped or is_control_schema(set(found), table):
        return Footer("events", schema, meanings)
    wrong = [
        f"{name} {found[name].simpleString() if name in found else 'absent'}"
        for name, types in _OF_RECORDS.items()
        if not isinstance(found.get(name), types)
    ]
    if not wrong:
        return Footer("records", schema)
    if table.key and set(table.key) <= found.keys():
        return Footer("events", schema, meanings)
    return Footer(
        problem=f"not a file of records: {', '.join(wrong)}; expected Kafka's columns ({_EXPECTED}); nor of events: "
        f"neither an envelope, nor with a column __op, nor with the key {', '.join(table.key)}"
    )


def _landed(data_type: T.DataType) -> T.DataType:
    """A type as silver can have it: no integer of less than 32 bits, and one kind of timestamp (decision 6)."""
    if isinstance(data_type, T.StructType):
        return T.StructType([T.StructField(each.name, _landed(each.dataType)) for each in data_type.fields])
    if isinstance(data_type, T.ArrayType):
        return T.ArrayType(_landed(data_type.elementType))
    if isinstance(data_type, T.MapType):
        return T.MapType(_landed(data_type.keyType), _landed(data_type.valueType))
    if isinstance(data_type, T.ByteType | T.ShortType):
        return T.IntegerType()
    return T.TimestampType() if isinstance(data_type, T.TimestampNTZType) else data_type


def _told(error: Py4JJavaError | PySparkException) -> str:
    if isinstance(error, PySparkException):
        return str(error)
    return str(error.java_exception.getMessage() or error.java_exception.getClass().getSimpleName())
