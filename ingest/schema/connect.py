"""Kafka Connect's schema as its JsonConverter writes it beside each payload (`schemas.enable`), as Spark's types.

Source: Kafka's `org.apache.kafka.connect.json.JsonSchema`, and how its converter writes each type: bytes as base64,
`org.apache.kafka.connect.data.Decimal` by `decimal.format` as base64 of the unscaled integer or as a number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as T

DECIMAL = "org.apache.kafka.connect.data.Decimal"
# Times of day, in units of a second; and all semantic types whose numbers count no moment: Debezium's documentation,
# "Temporal types".
TIMES: Mapping[str, int] = {
    "io.debezium.time.Time": 1_000,
    "org.apache.kafka.connect.data.Time": 1_000,
    "io.debezium.time.MicroTime": 1_000_000,
    "io.debezium.time.NanoTime": 1_000_000_000,
}
NO_MOMENTS = frozenset({
    *TIMES, "io.debezium.time.Year", "io.debezium.time.MicroDuration", "io.debezium.time.NanoDuration"
})  # fmt: skip
_SCALARS: Mapping[str, T.DataType] = {
    "boolean": T.BooleanType(),
    # Spark's JSON reader takes any of them; a Hudi table has no smaller integer.
    "int8": T.IntegerType(),
    "int16": T.IntegerType(),
    "int32": T.IntegerType(),
    "int64": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "bytes": T.BinaryType(),
}
# Parameters of a schema that say what a value is, or how wide the column; Debezium adds the digits of a decimal.
_PARAMETERS = {"scale": "scale", "length": "length", "connect.decimal.precision": "precision"}


@dataclass(frozen=True)
class ConnectSchema:
    """What a schema says: the fields of the payload, and the semantic types of the row's columns.

    `meanings` has them by column, with the parameters behind the name (see `ingest.decode.fields.Field`). Where names
    differ by case alone Spark reads no such struct (`is_read`): there it has every column, '' where nothing is said.
    """

    payload: T.StructType
    meanings: Mapping[str, str]
    is_read: bool = True

    @property
    def decimals(self) -> list[str]:
        """The columns that are decimals."""
        return [name for name, meaning in self.meanings.items() if meaning.partition(";")[0] == DECIMAL]


def connect_schema(text: str) -> ConnectSchema | None:
    """The schema of a payload that is a struct; None for any other text, which says nothing of an event's columns."""
    try:
        written = json.loads(text)
        # A name that is no Unicode (a lone surrogate) cannot stand in an expression: this raises a ValueError.
        json.dumps(written, ensure_ascii=False).encode()
        if not isinstance(written, dict) or written.get("type") != "struct":
            return None
        payload = _type_of(written)
        assert isinstance(payload, T.StructType)
        said = dict(_meanings(written["fields"]))
        if alike_but_for_case(payload):
            return ConnectSchema(payload, dict.fromkeys(_columns(payload), "") | said, is_read=False)
        return ConnectSchema(payload, said)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def alike_but_for_case(data_type: T.DataType) -> str:
    """Why Spark does not read values of a type: it takes names that differ by case alone for one; or ''."""
    if isinstance(data_type, T.ArrayType):
        return alike_but_for_case(data_type.elementType)
    if isinstance(data_type, T.MapType):
        return alike_but_for_case(data_type.valueType)
    if not isinstance(data_type, T.StructType):
        return ""
    by_case: dict[str, list[str]] = {}
    for name in data_type.names:
        by_case.setdefault(name.lower(), []).append(name)
    alike = next((names for names in by_case.values() if len(names) > 1), None)
    if alike:
        return (
            f"not readable by Spark: its fields {', '.join(alike)} differ by case alone; rename or exclude one of them"
        )
    return next(filter(None, (alike_but_for_case(item.dataType) for item in data_type.fields)), "")


def _columns(payload: T.StructType) -> Iterator[str]:
    """The fields of an event, and of an envelope those of the rows before and after."""
    for item in payload:
        yield item.name
        if isinstance(item.dataType, T.StructType) and item.name in ("before", "after"):
            yield from item.dataType.names


def _type_of(schema: Mapping[str, Any]) -> T.DataType:
    """The type that Spark's JSON reader is to read a value as.

    Raises
    ------
    KeyError
        A type that Kafka Connect does not have.
    """
    kind = schema["type"]
    if kind == "struct":
        return T.StructType([T.StructField(str(each["field"]), _type_of(each)) for each in schema["fields"]])
    if kind == "array":
        return T.ArrayType(_type_of(schema["items"]))
    if kind == "map":
        # Where keys are no texts it is an array of pairs, whose items have two types: kept as its text.
        has_text_keys = schema["keys"]["type"] == "string"
        return T.MapType(T.StringType(), _type_of(schema["values"])) if has_text_keys else T.StringType()
    # As text, whether it is base64 or a number: `decimal.format` is not part of the schema.
    return T.StringType() if schema.get("name") == DECIMAL else _SCALARS[kind]


def _meanings(fields: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The semantic types of the columns; of an envelope those of the rows before and after, of an array its items'."""
    for each in fields:
        schema = each
        while schema["type"] == "array":
            schema = schema["items"]
        if schema["type"] == "struct" and each["field"] in ("before", "after"):
            yield from _meanings(schema["fields"])
        elif schema.get("name") and schema["type"] != "struct":
            known = schema.get("parameters") or {}
            parameters = [f"{ours}={known[name]}" for name, ours in _PARAMETERS.items() if name in known]
            yield str(each["field"]), ";".join([str(schema["name"]), *parameters])
