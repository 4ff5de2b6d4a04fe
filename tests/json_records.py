"""Records of a topic `shop.item` with keys and values: what Debezium and JsonConverter write, also broken."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from conftest import DbtProject, pg, table_of

TOPIC = "shop.item"
COLUMNS = {"id": "int", "note": "string", "price": "decimal(8,2)"}
ALL: dict[str, Any] = {"quarantine_limit": {"share": 1.0}}
Value = Mapping[str, Any] | str | bytes | None


def items(columns: Mapping[str, str] = COLUMNS, key: Sequence[str] = ("id",), **options: Any) -> dict[str, Any]:
    return {"tables": [table_of("item", columns, key, **options)]}


def as_bytes(value: Value) -> bytes | None:
    if isinstance(value, bytes) or value is None:
        return value
    return (value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))).encode()


def records(
    project: DbtProject,
    *content: tuple[Value, Value],
    offset: int = 0,
    places: Sequence[tuple[int, int]] | None = None,
    topic: str = TOPIC,
) -> int:
    """Delivers records of keys and values, as Parquet with the columns of Spark's Kafka source; how many they are.

    `places`: partition and offset of each, where they do not follow each other in partition 0.
    """
    places = places or [(0, offset + number) for number in range(len(content))]
    rows = {
        "key": pa.array([as_bytes(key) for key, _ in content], pa.binary()),
        "value": pa.array([as_bytes(value) for _, value in content], pa.binary()),
        "partition": pa.array([partition for partition, _ in places], pa.int32()),
        "offset": pa.array([at for _, at in places], pa.int64()),
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(rows), sink)
    path = project.bronze / topic / f"{topic}+0+{offset:010d}.parquet"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(sink.getvalue())
    return len(content)


def envelope(op: str, lsn: int | None, before: Any = None, after: Any = None) -> dict[str, Any]:
    source = {"name": "shop", "db": "shop", "schema": "public", "table": "item", "lsn": lsn, "ts_ms": 1_700_000_000_000}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1_700_000_000_001}


def connect(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": True, **more}


def connect_struct(fields: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "type": "struct",
        "optional": True,
        "fields": [{**schema, "field": name} for name, schema in fields.items()],
    }


ROW = {"id": connect("int32"), "note": connect("string"), "price": connect("string")}
SOURCE = {name: connect("string") for name in ("name", "db", "schema", "table")}
SOURCE |= {"lsn": connect("int64"), "ts_ms": connect("int64")}


def with_schema(event: Mapping[str, Any] | None, row: Mapping[str, Any] = ROW) -> dict[str, Any]:
    """An event as JsonConverter writes it with `schemas.enable`."""
    if event is not None and "op" in event:
        sides = {"before": connect_struct(row), "after": connect_struct(row), "source": connect_struct(SOURCE)}
        fields = {**sides, "op": connect("string"), "ts_ms": connect("int64")}
    else:
        metadata = {name: connect("string") for name in ("__op", "__db", "__source_sequence", "__deleted")}
        places = {name: connect("int64") for name in ("__lsn", "__pos", "__source_ts_ms")}
        fields = {**row, **metadata, **places, "__file": connect("string")}
    return {"schema": connect_struct(fields), "payload": event}


PLAIN = [(({"id": key}), {**pg("c", 10 + key, id=key, note="n", price=None)}) for key in (1, 2, 3)]


def without_rewrite(event: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "__deleted"}


def money(precision: int = 64) -> dict[str, Any]:
    price = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2,
             "connect.name": "org.apache.kafka.connect.data.Decimal", "connect.parameters": {"scale": "2"}}  # fmt: skip
    fields: list[dict[str, Any]] = [{"name": "id", "type": "int"}]
    fields += [{"name": "price", "type": ["null", price]}]
    metadata = {"__op": "string", "__lsn": "long", "__source_ts_ms": "long", "__deleted": "string"}
    fields += [{"name": name, "type": ["null", kind]} for name, kind in metadata.items()]
    return {"type": "record", "name": "Value", "namespace": "shop.item", "fields": fields}


def avro(schema: dict[str, Any], row: Mapping[str, Any], prefix: bytes = b"") -> bytes:
    body = io.BytesIO()
    plain = json.loads(json.dumps(schema).replace('"logicalType": "decimal", ', ""))
    fastavro.schemaless_writer(body, fastavro.parse_schema(plain), dict(row))
    return prefix + body.getvalue()
