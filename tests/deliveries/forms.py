"""The bytes of a case's events: keys and values, in every form that Kafka Connect's converters write."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deliveries.cases import Case
from deliveries.history import NOISE, Event
from deliveries.schemas import (
    INT,
    LONG,
    STRING,
    Kind,
    array_of,
    avro_bytes,
    avro_of,
    block_of,
    json_of,
    struct,
    text_of,
)
from deliveries.streams import stream_record
from deliveries.values import key_kind, kinds, written

_SOURCE_TS_MS = 1_700_000_000_000
# Where one JSON token ends and the next begins.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"{}\[\],:]+|[{}\[\],:]')
_OPS = {"c": "c", "u": "u", "d": "d", "r": "r", "t": "t", "message": "m"}


@dataclass
class Book:
    """What a registry holds: each schema has a content id and a global id, and both are another schema's other id."""

    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    global_ids: dict[str, str] = field(default_factory=dict)
    _known: dict[str, int] = field(default_factory=dict)

    def register(self, schema: Any) -> tuple[int, int]:
        """The content id and the global id of a schema."""
        text = json.dumps(schema)
        if text not in self._known:
            number = len(self._known) + 1
            self._known[text] = number
            self._hold(number, self._global(number), text)
            # The same numbers the other way round are of another table, whose fields stand in another order.
            other = {**schema, "namespace": f"other{number}", "fields": schema["fields"][::-1]}
            self._hold(self._global(number), number, json.dumps(other))
        return self._known[text], self._global(self._known[text])

    def register_as(self, number: int, schema: Any) -> None:
        """Registers a schema under a number that was unknown until then, as content id and as global id."""
        self._hold(number, number, json.dumps(schema))

    def _hold(self, content_id: int, global_id: int, text: str) -> None:
        self.schemas[str(content_id)] = {"schema": text}
        self.global_ids[str(global_id)] = str(content_id)

    @staticmethod
    def _global(number: int) -> int:
        return number + 5_000


def unknown_id(case: Case) -> int:
    """The id that the bad events of a case name: no registry knows it, for as long as nothing is mended."""
    return 1_000_000 + int.from_bytes(case.name.encode()[-4:], "big") % 1_000_000_000


@dataclass(frozen=True)
class Record:
    """What is delivered of an event; of an Avro object file its schema and value, in place of bytes."""

    event: Event
    key: bytes | None
    value: bytes | None
    schema: Any = None
    row: Mapping[str, Any] | None = None


def record_of(case: Case, event: Event, topic: str, book: Book) -> Record:
    """An event as it is delivered."""
    key = _key_bytes(case, event, topic, book)
    if event.kind == "tombstone":
        return Record(event, key, None)
    if case.shape == "stream":
        content = stream_record(case, event).encode()
        return Record(event, key, _spoilt(case, event, content) if event.kind == "bad" else content)
    kind, value = _typed(case, event, topic)
    if case.encoding == "objects":
        return Record(event, key, None, avro_of(kind), value)
    content = _encoded(case, kind, value, book)
    return Record(event, key, _spoilt(case, event, content) if event.kind == "bad" else content)


def value_schema(case: Case, topic: str) -> Any:
    """The Avro schema of the table's values."""
    return avro_of(_event_kind(case, topic))


def key_schema(case: Case, topic: str) -> Any:
    """The Avro schema of the table's keys."""
    return avro_of(_key_kind(case, topic))


# What events are made of


def _key_kind(case: Case, topic: str) -> Kind:
    columns = {
        name: key_kind(data_type, case["decimals"], in_milliseconds=case.in_milliseconds).required
        for name, data_type in case.key_columns.items()
    }
    return struct(f"{topic}.Key", columns)


def _row_kind(case: Case, topic: str, *, key_is_optional: bool = False) -> Kind:
    keys = {name: replace(kind, is_optional=key_is_optional) for name, kind in _key_kind(case, topic).fields}
    return struct(f"{topic}.Value", {**keys, **_column_kinds(case)})


def _column_kinds(case: Case) -> dict[str, Kind]:
    described = kinds(case["decimals"], in_milliseconds=case.in_milliseconds)
    return {name: described[name] for name in case.columns}


def _place_kinds(case: Case) -> dict[str, Kind]:
    """The fields of `source` that say where in the log a change stands."""
    of: dict[str, dict[str, Kind]] = {
        "postgresql": {"lsn": LONG, "sequence": STRING},
        "mariadb": {"file": STRING, "pos": LONG, "row": INT},
        "mysql": {"file": STRING, "pos": LONG, "row": INT},
        "sqlserver": {"commit_lsn": STRING, "change_lsn": STRING, "event_serial_no": LONG},
    }
    found = of.get(case["database"], {})
    left_out = ("sequence", "row") if case["optional"] == "without" else ()
    return {name: kind for name, kind in found.items() if name not in left_out}


def _place(case: Case, event: Event) -> dict[str, Any]:
    """Where the event stands in its database's log; nothing of one that does not say it."""
    place, is_read = event.place, event.kind == "r"
    if place is None:
        return {}
    # An update of a column of `message.key.columns` is one change for the log.
    serial = 0 if case["moves"] == "message_key" else event.serial
    if case["database"] == "postgresql":
        lsn = 1_000 + 8 * place
        last = None if is_read else str(lsn - 3)
        found: dict[str, Any] = {"lsn": lsn, "sequence": text_of([last, str(lsn)])}
    elif case["database"] in ("mariadb", "mysql"):
        # An event of several rows has one position; the number of the file grows by a digit.
        file, pos = divmod(place // 2, 5)
        row = place % 2 * 2 + serial
        found = {"file": f"bin.{999_998 + file:06d}", "pos": 90 + 5 * pos, "row": row}
    elif case["database"] == "sqlserver":
        commit = f"0000002a:{0xFFFE + place // 2:08x}:0003"
        change = {"change_lsn": f"0000002a:{0xFFFE + place // 2:08x}:{9 + place % 2:04x}",
                  "event_serial_no": 1 + serial}  # fmt: skip
        found = {"commit_lsn": commit, **({} if is_read else change)}
    else:
        found = {}
    return {name: found[name] for name in _place_kinds(case) if name in found}


def source_ts_ms(event: Event) -> int | None:
    """When the database made the change: whole seconds, which two changes share. Of a row that an incremental snapshot
    has read, when it was sent: later than of changes that come after it."""
    if event.place is None:
        return _SOURCE_TS_MS + 1_000_000 if event.kind == "r" else None
    return _SOURCE_TS_MS + event.place // 2 * 1_000


def _event_kind(case: Case, topic: str, *, shape: str = "", key_is_optional: bool = False) -> Kind:
    row = _row_kind(case, topic, key_is_optional=key_is_optional)
    if (shape or case.shape) == "envelope":
        image = replace(row, is_optional=True)
        fields = {"before": image, "after": image, "source": _source_kind(case), "op": STRING.required, "ts_ms": LONG}
        return struct(f"{topic}.Envelope", fields)
    flags = {} if case.tombstones_delete else {"__deleted": STRING}
    of = {"__table": STRING} if case.shares_its_topic else {}
    return struct(row.name, {**dict(row.fields), "__op": STRING, "__db": STRING, **of, **_unwrapped_places(case),
                             "__source_ts_ms": LONG, **flags})  # fmt: skip


def _unwrapped_places(case: Case) -> dict[str, Kind]:
    """The position fields as `add.fields` names them: with the block's name, or, as some declare it, without."""
    short = case["database"] == "postgresql" and case.seed % 2
    return {f"__{name}" if short else f"__source_{name}": kind for name, kind in _place_kinds(case).items()}


def _source_kind(case: Case) -> Kind:
    known = {"version": STRING.required, "connector": STRING.required, "name": STRING.required, "ts_ms": LONG,
             "snapshot": STRING, "db": STRING.required, "table": STRING}  # fmt: skip
    return struct(f"io.debezium.connector.{case['database']}.Source", {**known, **_place_kinds(case)})


def _source(case: Case, event: Event) -> dict[str, Any]:
    return {"version": "3.7.0.Final", "connector": case["database"], "name": "shop", "ts_ms": source_ts_ms(event),
            "snapshot": "true" if event.kind == "r" else "false", "db": "shop", "table": "t",
            **_place(case, event)}  # fmt: skip


def _image(case: Case, event: Event, row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A row as Connect has it, with its key."""
    if row is None:
        return None
    key = _key_values(case, event)
    image = {**key, **{name: written(kind, row[name], case.placeholder) for name, kind in _column_kinds(case).items()}}
    if event.kind == "bad":
        if case["bad"] == "out_of_range":
            image |= {"n": 3_000_000_000} if case.encoding == "plain" else {"day": 3_000_000}
        if case["bad"] == "no_position" and case["database"] == "order_column":
            image["version"] = None
    return image


def _key_values(case: Case, event: Event) -> dict[str, Any]:
    """The key's columns as Connect has them; nulls of an event without a key."""
    values = event.key or (None,) * len(case.key_columns)
    return {name: written(kind, value) for (name, kind), value in zip(_key_kind(case, "").fields, values, strict=True)}


def _op(case: Case, event: Event) -> str | None:
    if event.kind != "bad":
        return _OPS[event.kind]
    return {"no_op": None, "unknown_op": "x", "unavailable": "u"}.get(case["bad"], "c")


def _typed(case: Case, event: Event, topic: str) -> tuple[Kind, dict[str, Any]]:
    """An event with its type."""
    if event.kind in NOISE:
        return _of_another_table(case, event, topic) if event.kind == "another_table" else _noise(case, event)
    bad = case["bad"] if event.kind == "bad" else ""
    shape = "envelope" if event.kind == "t" else case.shape
    kind = _event_kind(case, topic, shape=shape, key_is_optional=bad == "no_key")
    op = _op(case, event)
    if shape == "envelope":
        if bad == "no_op":
            kind = replace(kind, fields=tuple((name, STRING if name == "op" else it) for name, it in kind.fields))
        # PostgreSQL's default replica identity says nothing of an updated row as it was.
        before = None if case["deletes"] == "fillers" and event.kind == "u" else event.before
        after = None if event.kind == "d" or bad == "no_image" else event.row
        images = {"before": _image(case, event, before), "after": _image(case, event, after)}
        return kind, {**images, "source": _source(case, event), "op": op, "ts_ms": _SOURCE_TS_MS}
    image = _image(case, event, event.row) or {}
    places = dict(zip(_unwrapped_places(case), _place_kinds(case), strict=True))
    place = _place(case, event)
    of = {"__table": "t"} if case.shares_its_topic else {}
    value = {**image, "__op": op, "__db": "shop", **of, "__source_ts_ms": source_ts_ms(event),
             **{name: place.get(of) for name, of in places.items()}}  # fmt: skip
    return kind, value if case.tombstones_delete else {**value, "__deleted": str(event.kind == "d").lower()}


def _of_another_table(case: Case, event: Event, topic: str) -> tuple[Kind, dict[str, Any]]:
    """A change of a table that has a column of another type, and one more."""
    kind, value = _typed(case, replace(event, kind="d" if event.number % 2 else "u", before=event.row), topic)

    def other(of: Kind) -> Kind:
        return replace(
            of, fields=(*((name, STRING if name == "turn" else it) for name, it in of.fields), ("y", STRING))
        )

    def row(of: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if of is None else {**of, "turn": f"{of['turn']} turns", "y": "z"}

    if case.shape == "envelope":
        images = {name: row(value[name]) for name in ("before", "after")}
        fields = tuple((name, other(it) if name in images else it) for name, it in kind.fields)
        return replace(kind, fields=fields), {**value, **images, "source": {**value["source"], "table": "of_others"}}
    return other(kind), {**(row(value) or {}), "__table": "of_others"}


def _noise(case: Case, event: Event) -> tuple[Kind, dict[str, Any]]:
    """What is no change of a row, on the table's topic all the same."""
    name, debezium = event.kind, "io.debezium.connector.common"
    value: dict[str, Any]
    if name == "heartbeat":
        return struct(f"{debezium}.Heartbeat", {"ts_ms": LONG.required}), {"ts_ms": _SOURCE_TS_MS}
    if name == "transaction":
        counts = struct(f"{debezium}.event.collection", {"data_collection": STRING.required, "event_count": LONG})
        fields = {"status": STRING.required, "id": STRING.required, "event_count": LONG,
                  "data_collections": array_of(counts), "ts_ms": LONG}  # fmt: skip
        value = {"status": "BEGIN", "id": str(event.number), "event_count": None, "data_collections": None,
                 "ts_ms": _SOURCE_TS_MS}  # fmt: skip
        return struct(f"{debezium}.TransactionMetadataValue", fields), value
    source = {"source": _source_kind(case)}
    if name == "schema_change":
        change = struct(f"{debezium}.schema.Change", {"type": STRING.required, "id": STRING.required})
        fields = {**source, "databaseName": STRING, "schemaName": STRING, "ddl": STRING,
                  "tableChanges": array_of(change.required)}  # fmt: skip
        value = {"source": _source(case, event), "databaseName": "shop", "schemaName": None,
                 "ddl": 'alter table t add column "payload" int',
                 "tableChanges": [{"type": "ALTER", "id": "t"}]}  # fmt: skip
        return struct(f"{debezium}.SchemaChangeValue", fields), value
    message = struct(f"{debezium}.MessageValue.Message", {"prefix": STRING, "content": STRING})
    fields = {"op": STRING, "ts_ms": LONG, **source, "message": replace(message, is_optional=True)}
    value = {"op": "m", "ts_ms": _SOURCE_TS_MS, "source": _source(case, event),
             "message": {"prefix": "p", "content": "Ym9keQ=="}}  # fmt: skip
    return struct(f"{debezium}.MessageValue", fields), value


# Their bytes


def _key_bytes(case: Case, event: Event, topic: str, book: Book) -> bytes | None:
    if case["record_key"] == "absent":
        return None
    if event.kind in NOISE and event.key is None:
        name = {"heartbeat": "serverName", "transaction": "id", "message": "prefix"}.get(event.kind, "databaseName")
        kind = struct(f"io.debezium.connector.common.{event.kind}.Key", {name: STRING.required})
        return _encoded(case, kind, {name: "shop"}, book)
    if event.key is None:
        return None
    kind = _key_kind(case, topic)
    if case["record_key"] == "scalar":
        return _scalar_bytes(case, kind, event.key[0])
    key = _key_values(case, event)
    if case["record_key"] in ("plain", "described"):
        return _json(kind, key, described=case["record_key"] == "described")
    return _encoded(case, kind, key, book)


def _scalar_bytes(case: Case, kind: Kind, scalar: Any) -> bytes:
    """The only column of a key, by StringConverter or as a bare JSON value."""
    if not case.is_json or (case.encoding == "plain" and case.seed % 2):
        return str(scalar).encode()
    ((_, only),) = kind.fields
    return text_of({"schema": block_of(only), "payload": scalar} if case.encoding == "schema" else scalar).encode()


def _json(kind: Kind, value: Mapping[str, Any], *, described: bool) -> bytes:
    """What JsonConverter writes, with its schema or without."""
    plain = json_of(kind, value)
    return text_of({"schema": block_of(kind), "payload": plain} if described else plain).encode()


def _encoded(case: Case, kind: Kind, value: Mapping[str, Any], book: Book) -> bytes:
    if case.is_json:
        return _json(kind, value, described=case.encoding == "schema")
    schema = avro_of(kind)
    content = avro_bytes(schema, value)
    if case.encoding == "declared":
        return content
    content_id, global_id = book.register(schema)
    return prefix(case, content_id if case.encoding == "avro4" else global_id) + content


def prefix(case: Case, schema_id: int) -> bytes:
    """What stands before an Avro value: the id of its schema."""
    return b"\x00" + schema_id.to_bytes(4 if case.encoding == "avro4" else 8, "big")


def _spoilt(case: Case, event: Event, content: bytes) -> bytes:
    """A bad event's bytes, of those that it had if it were well."""
    bad, own = case["bad"], text_of({"hello": "world"})
    wide = len(prefix(case, 0)) if case.encoding in ("avro4", "avro8") else 0
    if bad == "not_utf8":
        head, _, tail = content.rpartition(b'"shop"')
        return head + b'"sh\xff\xc3op"' + tail
    if bad in ("cut", "cut_schema"):
        return _cut(content.decode(), case.seed + event.cut, in_schema=bad == "cut_schema").encode()
    if bad == "list":
        return b"[" + content + b"]"
    if bad == "other" and case.encoding == "schema":
        own = text_of({"schema": block_of(struct("shop.Hello", {"hello": STRING})), "payload": {"hello": "world"}})
    if bad == "unknown_id":
        return prefix(case, unknown_id(case)) + content[wide:]
    texts = {"not_json": b"this is no JSON", "number": b"17", "text": b'"item"', "other": own.encode(),
             "cut_id": content[: wide - 2], "empty": b"", "bytes": b"\x01\x02\x03",
             "cut_avro": content[: wide + (len(content) - wide) // (2 + event.cut)]}  # fmt: skip
    return texts.get(bad, content)


def _cut(text: str, number: int, *, in_schema: bool) -> str:
    """The text up to one of its boundaries, those of its payload or of its schema: each number has another."""
    payload = text.find('"payload":') if text.startswith('{"schema"') else 0
    ends = [found.end() for found in _TOKEN.finditer(text)][:-1]
    chosen = [end for end in ends if (end < payload) == in_schema]
    # Amid a token is a boundary as well: every third time.
    end = chosen[number * (7 if in_schema else 3) % len(chosen)]
    return text[: max(1, end - (number % 3 == 2))]
