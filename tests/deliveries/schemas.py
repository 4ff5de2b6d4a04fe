"""Types as Kafka Connect's converters know them: as a block of JSON, as an Avro schema, and values of both.

Sources: Kafka Connect's JsonConverter (`schemas.enable`), Confluent's AvroData, and captured events and schemas.
"""

from __future__ import annotations

import base64
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

DECIMAL = "org.apache.kafka.connect.data.Decimal"
# Around a number that is to stand in JSON with all its digits: a character for private use.
_BARE = "\ue000"
_AVRO = {"boolean": "boolean", "int32": "int", "int64": "long", "double": "double", "string": "string",
         "bytes": "bytes"}  # fmt: skip
_ARROW = {"boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "double": pa.float64(), "string": pa.string(),
          "bytes": pa.binary()}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A type: one of Connect's, with the semantic type and its parameters where it has one.

    `is_number`: JSON has a decimal's number, and not its bytes (`decimal.format=NUMERIC`).
    """

    type: str
    name: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    items: Kind | None = None
    fields: tuple[tuple[str, Kind], ...] = ()
    is_optional: bool = True
    is_number: bool = False

    @property
    def required(self) -> Kind:
        """The same, without null."""
        return replace(self, is_optional=False)


BOOLEAN, INT, LONG = Kind("boolean"), Kind("int32"), Kind("int64")
DOUBLE, STRING, BYTES = Kind("double"), Kind("string"), Kind("bytes")


def array_of(items: Kind) -> Kind:
    """An array of a type."""
    return Kind("array", items=items)


def struct(name: str, fields: Mapping[str, Kind]) -> Kind:
    """A struct; its name is `<namespace>.<name>`."""
    return Kind("struct", name, fields=tuple(fields.items()), is_optional=False)


def decimal_of(precision: int, scale: int, *, is_number: bool = False) -> Kind:
    """Connect's decimal, as Debezium describes one (`decimal.handling.mode=precise`)."""
    parameters = (("scale", str(scale)), ("connect.decimal.precision", str(precision)))
    return Kind("bytes", DECIMAL, parameters, is_number=is_number)


def block_of(kind: Kind, field: str | None = None) -> dict[str, Any]:
    """The block that JsonConverter writes of a type."""
    block: dict[str, Any] = {"type": kind.type}
    if kind.items is not None:
        block["items"] = block_of(kind.items)
    if kind.type == "struct":
        block["fields"] = [block_of(item, name) for name, item in kind.fields]
    block["optional"] = kind.is_optional
    if kind.name:
        block |= {"name": kind.name, "version": 1}
    if kind.parameters:
        block["parameters"] = dict(kind.parameters)
    return block if field is None else {**block, "field": field}


def json_of(kind: Kind, value: Any) -> Any:
    """A value as JsonConverter writes it: bytes as base64, what is no number as its name."""
    if value is None:
        return None
    if kind.type == "bytes":
        number = f"{_BARE}{_decimal(value, int(dict(kind.parameters)['scale'])):f}{_BARE}" if kind.is_number else None
        return number or base64.b64encode(value).decode()
    if kind.type == "double" and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if kind.items is not None:
        return [json_of(kind.items, item) for item in value]
    if kind.type == "struct":
        return {name: json_of(item, value.get(name)) for name, item in kind.fields if item.is_optional or name in value}
    return value


def text_of(value: Any) -> str:
    """JSON as Jackson writes it: compact, in UTF-8."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return re.sub(f'"{_BARE}(.*?){_BARE}"', r"\1", text)


def avro_of(kind: Kind, defined: set[str] | None = None) -> Any:
    """The Avro schema that AvroData makes of a type. A record is written out once, then named."""
    known = set() if defined is None else defined
    written = _avro_type(kind, known)
    return ["null", written] if kind.is_optional else written


def _avro_type(kind: Kind, defined: set[str]) -> Any:
    if kind.type == "struct":
        if kind.name in defined:
            return kind.name
        defined.add(kind.name)
        namespace, _, name = kind.name.rpartition(".")
        fields = [_avro_field(name, item, defined) for name, item in kind.fields]
        return {"type": "record", "name": name, "namespace": namespace, "fields": fields, "connect.name": kind.name}
    if kind.items is not None:
        return {"type": "array", "items": avro_of(kind.items, defined)}
    if not kind.name:
        return _AVRO[kind.type]
    written: dict[str, Any] = {"type": _AVRO[kind.type], "connect.version": 1, "connect.name": kind.name}
    if kind.parameters:
        written["connect.parameters"] = dict(kind.parameters)
    if kind.name == DECIMAL:
        parameters = dict(kind.parameters)
        written |= {"scale": int(parameters["scale"]), "precision": int(parameters["connect.decimal.precision"]),
                    "logicalType": "decimal"}  # fmt: skip
    return written


def _avro_field(name: str, kind: Kind, defined: set[str]) -> dict[str, Any]:
    field = {"name": name, "type": avro_of(kind, defined)}
    return {**field, "default": None} if kind.is_optional else field


def avro_bytes(schema: Any, value: Mapping[str, Any]) -> bytes:
    """A value in Avro, without anything around it."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), dict(value))
    return body.getvalue()


def avro_file(schema: Any, values: Sequence[Mapping[str, Any]]) -> bytes:
    """An Avro object file."""
    content = io.BytesIO()
    fastavro.writer(content, fastavro.parse_schema(schema), list(values))
    return content.getvalue()


def parquet_file(schema: Any, values: Sequence[Mapping[str, Any]]) -> bytes:
    """A file of Parquet as a sink writes it by parquet-avro: rows, with their Avro schema in its footer."""
    named: dict[str, Any] = {}
    row = _arrow_of(schema, named)
    columns = pa.schema(list(row), metadata={"parquet.avro.schema": json.dumps(schema)})
    rows = [_as_arrow(schema, value, named) for value in values]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=columns), sink)
    return sink.getvalue()


def _branch(schema: Any, named: Mapping[str, Any]) -> Any:
    """The schema of a value that is not null; that of a name where it is one."""
    found = next(each for each in schema if each != "null") if isinstance(schema, list) else schema
    return named.get(found, found) if isinstance(found, str) else found


def _arrow_of(schema: Any, named: dict[str, Any]) -> pa.DataType:
    found = _branch(schema, named)
    if isinstance(found, str):
        return _ARROW[found]
    if found["type"] == "record":
        named[f"{found['namespace']}.{found['name']}"] = found
        return pa.struct([(field["name"], _arrow_of(field["type"], named)) for field in found["fields"]])
    if found["type"] == "array":
        return pa.list_(_arrow_of(found["items"], named))
    if found.get("logicalType") == "decimal":
        of_digits = pa.decimal128 if found["precision"] <= 38 else pa.decimal256
        return of_digits(found["precision"], found["scale"])
    return _ARROW[found["type"]]


def _as_arrow(schema: Any, value: Any, named: Mapping[str, Any]) -> Any:
    found = _branch(schema, named)
    if value is None or isinstance(found, str):
        return value
    if found["type"] == "record":
        fields = {field["name"]: field["type"] for field in found["fields"]}
        return {name: _as_arrow(fields[name], each, named) for name, each in value.items() if name in fields}
    if found["type"] == "array":
        return [_as_arrow(found["items"], each, named) for each in value]
    if found.get("logicalType") == "decimal" and isinstance(value, bytes):
        return _decimal(value, found["scale"])
    return value


def _decimal(unscaled: bytes, scale: int) -> Decimal:
    return Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, Context(prec=80))
