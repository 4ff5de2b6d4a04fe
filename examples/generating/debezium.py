"""Debezium's change events for the transactions of a source, in the three shapes in which sinks write them.

Two steps, kept apart: a *connector* turns row changes into :class:`Event` with the log positions of its system
(:func:`read_snapshot`, :func:`read_log`); a *form* turns events into what stands in a file (:func:`encode`).

``avro``
    unwrapped (``ExtractNewRecordState``, deletes rewritten) Avro records in the schema of :func:`avro_schema`;
``json``
    the same records as JSON objects without schemas;
``envelope``
    JSON envelopes: ``before``, ``after``, ``source``, ``transaction``, ``op``, ``ts_ms``, ``ts_us``, ``ts_ns``.

Settings assumed: ``decimal.handling.mode=double``, ``time.precision.mode=adaptive``; on PostgreSQL the default
replica identity, on MariaDB ``binlog_row_image=FULL``. Shapes follow captured events of Debezium 3.7 (PostgreSQL)
and the documentation of its MariaDB and SQL Server connectors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import pyarrow as pa

from examples.generating.model import Column, ColumnType, Database, Row, RowChange, System, Table, Transaction

Form = Literal["avro", "json", "envelope", "parquet"]
FORMS: Final[tuple[Form, ...]] = ("avro", "json", "envelope")
EventOp = Literal["r", "c", "u", "d"]
Source = Mapping[str, Any]
EncodedRow = tuple[Any, ...]

_SNAPSHOT_MARKERS: Final = "first,first_in_data_collection,last_in_data_collection,true,last,false,incremental"

# Metadata that the unwrap transform adds, in this order: name in the record, field of `source` (or `op`).
_UNWRAPPED: Final[Mapping[System, tuple[tuple[str, str], ...]]] = {
    "postgresql": (
        ("__op", "op"), ("__name", "name"), ("__db", "db"), ("__table", "table"), ("__schema", "schema"),
        ("__lsn", "lsn"), ("__source_ts_ms", "ts_ms"), ("__source_sequence", "sequence"), ("__source_txId", "txId"),
        ("__source_snapshot", "snapshot"),
    ),
    "mariadb": (
        ("__op", "op"), ("__name", "name"), ("__db", "db"), ("__table", "table"), ("__source_ts_ms", "ts_ms"),
        ("__source_file", "file"), ("__source_pos", "pos"), ("__source_row", "row"),
        ("__source_snapshot", "snapshot"),
    ),
    "sqlserver": (
        ("__op", "op"), ("__name", "name"), ("__db", "db"), ("__table", "table"), ("__schema", "schema"),
        ("__source_ts_ms", "ts_ms"), ("__source_commit_lsn", "commit_lsn"), ("__source_change_lsn", "change_lsn"),
        ("__source_event_serial_no", "event_serial_no"), ("__source_snapshot", "snapshot"),
    ),
}  # fmt: skip

_AVRO_TYPES: Final[Mapping[ColumnType, Any]] = {
    "int16": {"type": "int", "connect.type": "int16"},
    "int32": "int",
    "string": "string",
    "decimal": "double",
    "date": {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"},
    "timestamp": {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"},
    "datetime": {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.Timestamp"},
    "bit": "boolean",
    "tinyint1": {"type": "int", "connect.type": "int16"},
}
_AVRO_SOURCE_TYPES: Final[Mapping[str, Any]] = {
    "lsn": "long",
    "ts_ms": "long",
    "txId": "long",
    "pos": "long",
    "row": "int",
    "event_serial_no": "long",
    "snapshot": {
        "type": "string",
        "connect.version": 1,
        "connect.parameters": {"allowed": _SNAPSHOT_MARKERS},
        "connect.name": "io.debezium.data.Enum",
    },
}  # everything else is a string


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One change event of a connector.

    Attributes
    ----------
    key:
        The primary key that Kafka would carry; a changed key makes two events.
    before:
        As the connector reports it: the row, the key and fillers, or None.
    source:
        The envelope's ``source``, with the position in the log.
    processed_at_us:
        When the connector handled it; the envelope's ``ts_us``.
    """

    table: Table
    op: EventOp
    key: int
    before: Row | None
    after: Row | None
    source: Source
    processed_at_us: int


def topic_of(table: Table) -> str:
    """``<topic.prefix>.<schema>.<table>``."""
    return f"{table.prefix}.{table.schema}.{table.name}"


# Connectors


def read_snapshot(table: Table, database: Database, at_us: int, indexes: Sequence[int] | None = None) -> list[Event]:
    """The initial snapshot of one table: an ``r`` event per row, in key order, all at one log position.

    Parameters
    ----------
    indexes:
        Only these rows, in this order.
    """
    rows = database[table.full_name]
    chosen = range(rows.num_rows) if indexes is None else indexes
    columns = [column.to_pylist() for column in (rows if indexes is None else rows.take(list(indexes))).columns]
    last = rows.num_rows - 1
    sources = {
        marker: _LOGS[table.system].snapshot_source(table, at_us, marker)
        for marker in ("first_in_data_collection", "true", "last_in_data_collection")
    }
    events = []
    for index, row in zip(chosen, zip(*columns, strict=True), strict=True):
        marker = "first_in_data_collection" if index == 0 else "last_in_data_collection" if index == last else "true"
        events.append(Event(table, "r", cast(int, row[0]), None, row, sources[marker], at_us + 130_000 + 11 * index))
    return events


def read_log(transactions: Iterable[Transaction]) -> Iterator[Event]:
    """The events of transactions in commit order, each with its position in its system's log.

    A changed primary key is a delete of the old and a create of the new key. They share their position, except for
    ``event_serial_no`` on SQL Server, and are told apart only by their keys.
    """
    logs = {system: log() for system, log in _LOGS.items()}
    for transaction in transactions:
        for change, source in logs[transaction.system].read(transaction):
            yield from _events_of(change, source, transaction.committed_at_us + 57_000)


def _events_of(change: RowChange, source: Source, processed_at_us: int) -> Iterator[Event]:
    table, before, after = change.table, change.before, change.after
    reported = before
    if before is not None and table.system == "postgresql":
        reported = _key_and_fillers(table, before) if after is None or change.is_key_change else None
    if change.is_key_change:
        assert before is not None
        assert after is not None
        created = dict(source, event_serial_no=2) if table.system == "sqlserver" else source
        yield Event(table, "d", cast(int, before[0]), reported, None, source, processed_at_us)
        yield Event(table, "c", cast(int, after[0]), None, after, created, processed_at_us)
    else:
        row = after if after is not None else before
        assert row is not None
        yield Event(table, change.op, cast(int, row[0]), reported, after, source, processed_at_us)


def _key_and_fillers(table: Table, row: Row) -> Row:
    """What PostgreSQL's default replica identity leaves of a deleted row: its key; null, 0 or "" elsewhere."""
    fillers = (None if c.nullable else "" if c.type == "string" else 0 for c in table.columns[1:])
    return (row[0], *fillers)


def _common_source(table: Table, ts_us: int, snapshot: str) -> dict[str, Any]:
    versions = {"postgresql": "3.7.0.Final", "mariadb": "3.5.0.Final", "sqlserver": "3.6.1.Final"}
    return {
        "version": versions[table.system],
        "connector": table.system,
        "name": table.prefix,
        "ts_ms": ts_us // 1000,
        "snapshot": snapshot,
        "db": table.database,
        "sequence": None,
        "ts_us": ts_us,
        "ts_ns": ts_us * 1000,
    }


class _PostgresLog:
    """LSNs grow with every change; the time is the transaction's; ``sequence`` is [last commit LSN, LSN]."""

    _SNAPSHOT_LSN = 66_608_504
    _SNAPSHOT_TX = 1403

    def __init__(self) -> None:
        self._lsn = self._SNAPSHOT_LSN + 673_568
        self._tx = self._SNAPSHOT_TX + 125
        self._last_commit: int | None = None

    @classmethod
    def _source(
        cls, table: Table, ts_us: int, snapshot: str, tx: int, lsn: int, last_commit: int | None
    ) -> dict[str, Any]:
        source = _common_source(table, ts_us, snapshot)
        source["sequence"] = json.dumps(
            [None if last_commit is None else str(last_commit), str(lsn)], separators=_DENSE
        )
        more = {"schema": table.schema, "table": table.name, "txId": tx, "lsn": lsn}
        return source | more | {"xmin": None, "origin": None, "origin_lsn": None}

    @classmethod
    def snapshot_source(cls, table: Table, at_us: int, marker: str) -> dict[str, Any]:
        return cls._source(table, at_us, marker, cls._SNAPSHOT_TX, cls._SNAPSHOT_LSN, None)

    def read(self, transaction: Transaction) -> Iterator[tuple[RowChange, Source]]:
        self._tx += 1
        self._lsn += 688
        for change in transaction.changes:
            self._lsn += 120
            source = self._source(
                change.table, transaction.committed_at_us, "false", self._tx, self._lsn, self._last_commit
            )
            yield change, source
        self._lsn += 48
        self._last_commit = self._lsn


class _MariadbLog:
    """Rows of one statement share file and position; times are whole seconds; each day begins a new file."""

    _SNAPSHOT_FILE = 3
    _SNAPSHOT_POS = 48_211_932

    def __init__(self) -> None:
        self._file = self._SNAPSHOT_FILE
        self._pos = self._SNAPSHOT_POS
        self._day: int | None = None

    @classmethod
    def _source(cls, table: Table, ts_us: int, snapshot: str, file: int, pos: int, row: int) -> dict[str, Any]:
        return _common_source(table, ts_us // 1_000_000 * 1_000_000, snapshot) | {
            "table": table.name,
            "server_id": 0 if snapshot != "false" else 184_054,
            "gtid": None,
            "file": f"mariadb-bin.{file:06d}",
            "pos": pos,
            "row": row,
            "thread": None,
            "query": None,
        }

    @classmethod
    def snapshot_source(cls, table: Table, at_us: int, marker: str) -> dict[str, Any]:
        return cls._source(table, at_us, marker, cls._SNAPSHOT_FILE, cls._SNAPSHOT_POS, 0)

    def read(self, transaction: Transaction) -> Iterator[tuple[RowChange, Source]]:
        day = transaction.committed_at_us // 86_400_000_000
        if self._day is not None and day != self._day:
            self._file += 1
            self._pos = 379
        self._day = day
        self._pos += 42
        statement, row = None, 0
        for change in transaction.changes:
            row = row + 1 if change.statement == statement else 0
            if row == 0:
                self._pos += 154
            statement = change.statement
            source = self._source(change.table, transaction.committed_at_us, "false", self._file, self._pos, row)
            yield change, source
        self._pos += 31


class _SqlServerLog:
    """One commit LSN a transaction, one change LSN a row; updates carry serial number 2."""

    _FILE = 0x2A
    _SNAPSHOT_BLOCK = 0x4D0

    def __init__(self) -> None:
        self._block = self._SNAPSHOT_BLOCK

    @classmethod
    def _lsn(cls, block: int, slot: int) -> str:
        return f"{cls._FILE + (block >> 24):08x}:{block & 0xFFFFFF:08x}:{slot:04x}"

    @classmethod
    def _source(
        cls, table: Table, ts_us: int, snapshot: str | None, change: str | None, commit: str, serial: int | None
    ) -> dict[str, Any]:
        return _common_source(table, ts_us // 1000 * 1000, snapshot or "false") | {
            "schema": table.schema,
            "table": table.name,
            "change_lsn": change,
            "commit_lsn": commit,
            "event_serial_no": serial,
        }

    @classmethod
    def snapshot_source(cls, table: Table, at_us: int, marker: str) -> dict[str, Any]:
        return cls._source(table, at_us, marker, None, cls._lsn(cls._SNAPSHOT_BLOCK, 3), None)

    def read(self, transaction: Transaction) -> Iterator[tuple[RowChange, Source]]:
        self._block += 0x28
        commit = self._lsn(self._block, len(transaction.changes) + 2)
        for slot, change in enumerate(transaction.changes, start=2):
            serial = 2 if change.op == "u" and not change.is_key_change else 1
            at_us = transaction.committed_at_us
            yield change, self._source(change.table, at_us, None, self._lsn(self._block, slot), commit, serial)


_DENSE: Final = (",", ":")
_LOGS: Final[Mapping[System, type[_PostgresLog] | type[_MariadbLog] | type[_SqlServerLog]]] = {
    "postgresql": _PostgresLog,
    "mariadb": _MariadbLog,
    "sqlserver": _SqlServerLog,
}


# Forms


def encode_values(table: Table, rows: Iterable[Row]) -> list[EncodedRow]:
    """Rows with Debezium's values: decimals as floats; dates in days, PostgreSQL's timestamps in microseconds and
    MariaDB's datetimes in milliseconds since 1970; tinyint(1) as an integer."""
    data = table.to_arrow(rows)
    columns = []
    for column, values in zip(table.columns, data.columns, strict=True):
        if column.type == "decimal":
            # By way of the text: Arrow's own cast multiplies by 0.01 and gives 48.230000000000004 for 48.23.
            values = values.cast(pa.string()).cast(pa.float64())
        elif column.type == "date":
            values = values.cast(pa.int32())
        elif column.type == "timestamp":
            values = values.cast(pa.int64())
        elif column.type == "datetime":
            values = values.cast(pa.timestamp("ms")).cast(pa.int64())
        elif column.type == "tinyint1":
            values = values.cast(pa.int16())
        columns.append(values.to_pylist())
    return list(zip(*columns, strict=True))


def record_names(table: Table) -> tuple[str, ...]:
    """Names of an unwrapped record's fields: the columns, then the metadata, then ``__deleted``."""
    return (*(c.name for c in table.columns), *(name for name, _ in _UNWRAPPED[table.system]), "__deleted")


def encode(form: Form, events: Sequence[Event]) -> list[dict[str, Any]]:
    """Events of one table as the records of a form: unwrapped (``avro`` and ``json``) or envelopes."""
    if not events:
        return []
    table = events[0].table
    rows = iter(encode_values(table, (row for e in events for row in (e.before, e.after) if row is not None)))
    encoded = [(None if e.before is None else next(rows), None if e.after is None else next(rows)) for e in events]
    if form == "envelope":
        return [_envelope(e, before, after) for e, (before, after) in zip(events, encoded, strict=True)]
    names = record_names(table)
    fields = [field for _, field in _UNWRAPPED[table.system][1:]]
    hidden = table.system == "sqlserver"  # there the transform finds no snapshot marker in a streamed event
    records = []
    for event, (before, after) in zip(events, encoded, strict=True):
        row = before if after is None else after
        assert row is not None
        metadata = [event.source[field] for field in fields]
        if hidden and metadata[-1] == "false":
            metadata[-1] = None
        deleted = "true" if event.op == "d" else "false"
        records.append(dict(zip(names, (*row, event.op, *metadata, deleted), strict=True)))
    return records


def _envelope(event: Event, before: EncodedRow | None, after: EncodedRow | None) -> dict[str, Any]:
    names = [column.name for column in event.table.columns]
    return {
        "before": None if before is None else dict(zip(names, before, strict=True)),
        "after": None if after is None else dict(zip(names, after, strict=True)),
        "source": event.source,
        "transaction": None,
        "op": event.op,
        "ts_ms": event.processed_at_us // 1000,
        "ts_us": event.processed_at_us,
        "ts_ns": event.processed_at_us * 1000,
    }


def avro_schema(table: Table) -> dict[str, Any]:
    """The Avro schema of unwrapped records, as Connect's Avro converter derives it from Debezium's."""
    topic = topic_of(table)
    metadata = [(name, _AVRO_SOURCE_TYPES.get(field, "string")) for name, field in _UNWRAPPED[table.system]]
    return {
        "type": "record",
        "name": "Value",
        "namespace": topic,
        "fields": [
            *(_avro_field(column) for column in table.columns),
            *(_nullable(name, avro_type) for name, avro_type in (*metadata, ("__deleted", "string"))),
        ],
        "connect.name": f"{topic}.Value",
    }


def _avro_field(column: Column) -> dict[str, Any]:
    avro_type = _AVRO_TYPES[column.type]
    return _nullable(column.name, avro_type) if column.nullable else {"name": column.name, "type": avro_type}


def _nullable(name: str, avro_type: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", avro_type], "default": None}
