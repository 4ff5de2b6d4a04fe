"""Avro schemas as files that a declaration names (`schema_file`), and what a schema says of its columns' values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from ingest.config.checks import refuse_idle_options
from ingest.config.tables import Column, ColumnOptions, SemanticType
from ingest.errors import DeclarationError

_DECLARABLE = get_args(SemanticType)
_TIME = "io.debezium.time."
# The same in the words of Kafka Connect, whose values are days and milliseconds (time.precision.mode=connect).
_OF_CONNECT = {f"org.apache.kafka.connect.data.{name}": f"{_TIME}{name}" for name in ("Date", "Time", "Timestamp")}
# What Avro's own logical types say, where no name is beside them.
LOGICAL_TYPES = {
    "date": f"{_TIME}Date",
    "time-millis": f"{_TIME}Time",
    "time-micros": f"{_TIME}MicroTime",
    "timestamp-millis": f"{_TIME}Timestamp",
    "timestamp-micros": f"{_TIME}MicroTimestamp",
    "timestamp-nanos": f"{_TIME}NanoTimestamp",
    "local-timestamp-millis": f"{_TIME}Timestamp",
    "local-timestamp-micros": f"{_TIME}MicroTimestamp",
    "local-timestamp-nanos": f"{_TIME}NanoTimestamp",
}


def with_meanings(columns: tuple[Column, ...], path: Path, *, where: str) -> tuple[Column, ...]:
    """The columns with the semantic types that a schema gives them: where events have no schema of their own, such as
    JSON without one, their dates and times mean what the file says. A column's own `semantic_type` comes first.

    Raises
    ------
    DeclarationError
        The file holds no Avro schema of a record.
    """
    try:
        known = semantic_types(path.read_text(encoding="utf-8"))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DeclarationError(
            f"the schema file '{path}' holds no schema of a record",
            where=f"{where}: config.meta.ingest.schema_file",
            expected="the Avro schema of a record (.avsc), as JSON",
        ) from error
    return tuple(_with_meaning(column, known.get(column.name)) for column in columns)


def _with_meaning(column: Column, meaning: str | None) -> Column:
    meaning = _OF_CONNECT.get(meaning or "", meaning)
    if column.semantic_type is not None or meaning not in _DECLARABLE:
        return column
    said = ColumnOptions.model_validate({"semantic_type": meaning})
    try:
        refuse_idle_options(said, column.data_type, where=column.name)
    except DeclarationError:  # of a type that such a value is not written to: the landing says what becomes of it
        return column
    return replace(column, semantic_type=said.semantic_type)


def semantic_types(schema: str) -> dict[str, str]:
    """Debezium's semantic type of each column whose Avro schema says one, by column name: its `connect.name`, or what
    its logical type means.

    Looks into the record itself and, for an envelope, into its `before` and `after`; of an array, at its elements.
    Parameters that a value cannot be understood without stand behind the name (`...Decimal;scale=2`).
    """
    record = json.loads(schema)
    named = _by_name(record)
    found = {}
    for field in _of_row(record["fields"], named):
        for branch in _branches(field["type"]):
            resolved = _element(_resolved(branch, named))
            if resolved.get("type") != "record" and (meaning := _meaning(resolved)):
                known = resolved.get("connect.parameters", {})
                parameters = [f"{key}={known[key]}" for key in ("scale", "length") if key in known]
                found[field["name"]] = ";".join([meaning, *parameters])
    return found


def defaults_of_nullables(schema: str) -> frozenset[str]:
    """The columns of an Avro schema that may be null, and have a default that is not: Kafka Connect may have written it
    in place of a null."""
    record = json.loads(schema)
    return frozenset(
        field["name"]
        for field in _of_row(record["fields"], _by_name(record))
        if "null" in _branches(field["type"]) and field.get("default") is not None
    )


def _of_row(fields: Iterable[dict[str, Any]], named: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of the row in an event: of an envelope those of `before` and `after`."""
    for field in fields:
        rows = [_resolved(branch, named) for branch in _branches(field["type"])]
        rows = [row for row in rows if row.get("type") == "record"]
        if field["name"] in ("before", "after") and rows:
            for row in rows:
                yield from _of_row(row["fields"], named)
        else:
            yield field


def _resolved(branch: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = named.get(branch, {}) if isinstance(branch, str) else branch
    return found


def _by_name(record: dict[str, Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for found in _named(record):
        named.setdefault(found["name"], found)
    return named


def _meaning(avro_type: dict[str, Any]) -> str | None:
    found = avro_type.get("connect.name") or LOGICAL_TYPES.get(avro_type.get("logicalType", ""))
    return None if found is None else str(found)


def _element(avro_type: Any) -> Any:
    """The type of an array's elements, whatever else may be null; any other type as it is."""
    while isinstance(avro_type, dict) and avro_type.get("type") == "array":
        items = [item for item in _branches(avro_type["items"]) if item != "null"]
        avro_type = items[0] if items and isinstance(items[0], dict) else {}
    return avro_type


def _branches(avro_type: Any) -> list[Any]:
    return avro_type if isinstance(avro_type, list) else [avro_type]


def _named(avro_type: Any) -> Iterator[dict[str, Any]]:
    """The types that a schema gives a name, by which it may refer to them again."""
    for branch in _branches(avro_type):
        if isinstance(branch, dict):
            if branch.get("type") in ("record", "fixed", "enum"):
                yield branch
            for field in branch.get("fields", ()):
                yield from _named(field["type"])
            yield from _named([branch[part] for part in ("items", "values") if part in branch])
