"""Avro schemas as Spark's reader takes them: logical types that it cannot read are left to `ingest.decode.types`."""

from __future__ import annotations

import json
from typing import Any

from ingest.schema.connect import DECIMAL

# What a number means that a logical type annotates, in the words of Connect and Debezium.
_MEANINGS = {
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
}
# Digits of Spark's widest decimal: of a wider one its reader refuses the whole schema. PostgreSQL's money has 64.
_SPARKS_DIGITS = 38


def readable(schema: str) -> str:
    """The schema with decimals of more than 38 digits as the bytes that they are, and what these mean (`connect.name`).

    The encoding is the same: a logical type only annotates one (Avro specification, "Logical Types").
    """
    if '"decimal"' not in schema:
        return schema
    return json.dumps(_without(json.loads(schema), every=False))


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
    if logical is None or not (every or (is_decimal and int(part.get("precision", 0)) > _SPARKS_DIGITS)):
        return kept
    del kept["logicalType"]
    if logical in _MEANINGS:
        kept.setdefault("connect.name", _MEANINGS[logical])
    if is_decimal:
        parameters = {"scale": str(part.get("scale", 0)), **(part.get("connect.parameters") or {})}
        kept |= {"connect.name": part.get("connect.name", DECIMAL), "connect.parameters": parameters}
    return kept
