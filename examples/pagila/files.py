"""Envelopes as files, in the two forms of bronze: Parquet, as the article's sink writes it, and lines of JSON.

`<out>/bronze/<topic>/partition=0/<topic>+0+<first offset, 10 digits>.gz.parquet` or `.json`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from examples.generating.debezium import Form
from examples.generating.sink import write_whole
from examples.pagila.events import Event
from examples.pagila.tables import Column, Row, Table

FORMS: Final[tuple[Form, ...]] = ("parquet", "envelope")
_FLUSH_SIZE: Final = 3_000
_SOURCE: Final[Mapping[str, str]] = {
    "version": "string", "connector": "string", "name": "string", "ts_ms": "long", "snapshot": "string", "db": "string",
    "sequence": "string", "ts_us": "long", "ts_ns": "long", "schema": "string", "table": "string", "txId": "long",
    "lsn": "long", "xmin": "long",
}  # fmt: skip
_TAIL: Final[Mapping[str, str]] = {"op": "string", "ts_ms": "long", "ts_us": "long", "ts_ns": "long"}
_ARROW: Final = {"string": pa.string(), "long": pa.int64()}
# Debezium's names of what a text means; a sink writes them into the schema beside the rows.
_MEANINGS: Final[Mapping[str, str]] = {
    "timestamptz": "io.debezium.time.ZonedTimestamp",
    "enum": "io.debezium.data.Enum",
    "tsvector": "io.debezium.data.Tsvector",
}


def write(out: Path, form: Form, table: Table, events: Sequence[Event], first_offset: int) -> list[Path]:
    """Writes events at offsets from `first_offset` on; returns the files."""
    return [
        write_file(out / "bronze", form, table, [envelope(event, form) for event in events[start:][:_FLUSH_SIZE]],
                   first_offset + start)
        for start in range(0, len(events), _FLUSH_SIZE)
    ]  # fmt: skip


def write_file(bronze: Path, form: Form, table: Table, envelopes: Sequence[Mapping[str, Any]], offset: int) -> Path:
    """Writes a file of envelopes that have the values of a form."""
    folder, name = bronze / table.topic / "partition=0", f"{table.topic}+0+{offset:010d}"
    if form == "parquet":
        sink = pa.BufferOutputStream()
        rows = pa.Table.from_pylist(list(envelopes), schema=arrow_schema(table))
        pq.write_table(rows, sink, compression="gzip")
        path = folder / f"{name}.gz.parquet"
        write_whole(path, sink.getvalue())
    else:
        path = folder / f"{name}.json"
        lines = (json.dumps(each, separators=(",", ":"), ensure_ascii=False) + "\n" for each in envelopes)
        write_whole(path, "".join(lines).encode())
    return path


def envelope(event: Event, form: Form) -> dict[str, Any]:
    """An event with the values that a form has."""
    return {
        "before": _image(event.table, event.before, form),
        "after": _image(event.table, event.after, form),
        "source": dict(event.source),
        "transaction": None,
        "op": event.op,
        "ts_ms": event.at_us // 1_000,
        "ts_us": event.at_us,
        "ts_ns": event.at_us * 1_000,
    }


def arrow_schema(table: Table) -> pa.Schema:
    """The columns of a file of envelopes, with the Avro schema that the sink leaves in its footer."""
    row = pa.struct(
        [(column.name, pa.string() if column.type == "timestamptz" else column.arrow) for column in table.columns]
    )
    fields = {
        "before": row,
        "after": row,
        "source": pa.struct([(name, _ARROW[kind]) for name, kind in _SOURCE.items()]),
        "transaction": pa.struct([("id", pa.string()), ("total_order", pa.int64())]),
        **{name: _ARROW[kind] for name, kind in _TAIL.items()},
    }
    written = json.dumps(avro_schema(table), separators=(",", ":"))
    return pa.schema(list(fields.items()), metadata={"parquet.avro.schema": written})


def avro_schema(table: Table) -> dict[str, Any]:
    """The Avro schema of envelopes, as Connect's Avro converter derives it from Debezium's."""
    row = {
        "type": "record",
        "name": "Value",
        "namespace": table.topic,
        "fields": [{"name": column.name, "type": ["null", _avro_type(column)]} for column in table.columns],
    }
    source = {
        "type": "record",
        "name": "Source",
        "namespace": "io.debezium.connector.postgresql",
        "fields": [{"name": name, "type": ["null", kind]} for name, kind in _SOURCE.items()],
    }
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": table.topic,
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", f"{table.topic}.Value"]},
            {"name": "source", "type": source},
            *({"name": name, "type": ["null", kind]} for name, kind in _TAIL.items()),
        ],
        "connect.name": f"{table.topic}.Envelope",
    }


def _avro_type(column: Column) -> Any:
    if column.type == "int":
        return "int"
    if column.type == "text[]":
        return {"type": "array", "items": ["null", "string"]}
    if column.type == "numeric":
        precision, scale = column.digits
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": precision,
            "scale": scale,
            "connect.name": "org.apache.kafka.connect.data.Decimal",
            "connect.parameters": {"scale": str(scale), "connect.decimal.precision": str(precision)},
        }
    meaning = _MEANINGS.get(column.type)
    return {"type": "string", "connect.name": meaning} if meaning else "string"


def _image(table: Table, row: Row | None, form: Form) -> dict[str, Any] | None:
    if row is None:
        return None
    return {column.name: _written(column, row[column.name], form) for column in table.columns}


def _written(column: Column, value: Any, form: Form) -> Any:
    if isinstance(value, datetime):
        return f"{value.isoformat(timespec='microseconds')}Z"
    if isinstance(value, Decimal) and form == "envelope":
        unscaled = int(value.scaleb(column.digits[1]))
        size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
        return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()
    return value
