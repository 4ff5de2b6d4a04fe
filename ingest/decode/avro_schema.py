"""Avro schemas as Spark's reader takes them: logical types that it cannot read are left to `ingest.decode.types`."""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from ingest.config.schema_files import LOGICAL_TYPES
from ingest.decode.fields import DIGITS_OF_DECIMAL
from ingest.schema.connect import DECIMAL, alike_but_for_case
from ingest.spark.jvm import first_line, java_class
from ingest.spark.shared import Shared

_SPARKS_SCHEMA = "org.apache.spark.sql.avro.SchemaConverters"


def readable(schema: str) -> str:
    """The schema with decimals of more than 38 digits as the bytes that they are, and what these mean (`connect.name`).

    The encoding is the same: a logical type only annotates one (Avro specification, "Logical Types"). Of a wider
    decimal than its own Spark's reader refuses the whole schema; PostgreSQL's money has 64 digits.
    """
    if '"decimal"' not in schema:
        return schema
    return json.dumps(_without(json.loads(schema), every=False))


def unreadable(spark: SparkSession, schema: str) -> str:
    """Why Spark's reader has no types for an Avro schema, or ''. Asked once a schema: many files have the same one."""
    known: dict[str, str] = Shared.of(spark).remembered("why Avro schemas are not read")
    if schema not in known:
        known[schema] = _why_unreadable(spark, schema)
    return known[schema]


def _why_unreadable(spark: SparkSession, schema: str) -> str:
    parsed = java_class(spark, "org.apache.avro.Schema$Parser")().parse(readable(schema))
    try:
        found = java_class(spark, _SPARKS_SCHEMA).toSqlType(parsed).dataType().json()
    except Py4JJavaError as error:
        message = first_line(str(error.java_exception.getMessage())).rstrip(" {")
        return f"not readable by Spark: {message}"
    return alike_but_for_case(T.StructType.fromJson(json.loads(found)))


def without_logical_types(schema: str) -> str:
    """The schema with every value as the type that carries it; Connect's names say what it means."""
    return json.dumps(_without(json.loads(schema), every=True))


def _without(part: Any, *, every: bool) -> Any:
    if isinstance(part, list):
        return [_without(item, every=every) for item in part]
    if not isinstance(part, dict):
        return part
    kept = {name: _without(value, every=every) for name, value in part.items()}
    logical = part.get("logicalType")
    is_decimal = logical == "decimal"
    if logical is None or not (every or (is_decimal and int(part.get("precision", 0)) > DIGITS_OF_DECIMAL)):
        return kept
    del kept["logicalType"]
    if logical in LOGICAL_TYPES:
        kept.setdefault("connect.name", LOGICAL_TYPES[logical])
    if is_decimal:
        parameters = {"scale": str(part.get("scale", 0)), **(part.get("connect.parameters") or {})}
        kept |= {"connect.name": part.get("connect.name", DECIMAL), "connect.parameters": parameters}
    return kept
