"""Random histories of a source's tables, as its connector would stream them, and how they may be delivered.

A case is a handful of rows nobody else touches, the first part of the key says which; a table holds many cases, which
share one log. `history` writes the source's log, `delivered` makes files and batches of it, `source_rows` says what
must be in silver.
"""

from __future__ import annotations

import json
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from conftest import table_of, unwrapped

from ingest.schema.connectors import UNAVAILABLE_VALUE

Key = tuple[Any, ...]
Connector = Literal["postgresql", "mariadb", "sqlserver"]
# Columns that PostgreSQL keeps out of line where their text is long, and does not log again while they stay.
TOAST = {"body": "string", "note": "string"}
KEYS: dict[str, dict[str, str]] = {
    "text": {"id": "string"},
    "int": {"case_id": "int", "id": "int"},
    "composite": {"case_id": "int", "a": "string", "b": "int"},
}
AWKWARD = ("", ",", "a,b:1", '"', "null", "é\\")
# Of each type: a value as Debezium writes it to JSON, and what it means.
WRITTEN: dict[str, Callable[[random.Random], Any]] = {
    "int": lambda rng: rng.randint(-(2**31), 2**31 - 1),
    "bigint": lambda rng: rng.randint(-(2**63), 2**63 - 1),
    "decimal(12,2)": lambda rng: f"{rng.randint(-(10**11), 10**11) / 100:.2f}",
    "boolean": lambda rng: rng.random() < 0.5,
    "double": lambda rng: rng.uniform(-1e9, 1e9),
    "string": lambda rng: rng.choice(("", "null", "plain", 'a "quoted" é', "{}")),
    "date": lambda rng: rng.randint(-30_000, 30_000),
    "timestamp": lambda rng: rng.randint(-(10**12), 2 * 10**12),
    "array<int>": lambda rng: [rng.randint(0, 9) for _ in range(rng.randint(0, 3))],
}


def meant(value: Any, data_type: str, connector: Connector) -> Any:
    """A written value as the declared type."""
    if value is None:
        return None
    if data_type.startswith("decimal"):
        return Decimal(value)
    if data_type == "date":
        return date(1970, 1, 1) + timedelta(days=value)
    if data_type == "timestamp":
        unit = timedelta(microseconds=1) if connector == "postgresql" else timedelta(milliseconds=1)
        return (datetime(1970, 1, 1, tzinfo=UTC) + value * unit).replace(tzinfo=None)
    return value


@dataclass(frozen=True)
class Spec:
    """A table and what may happen to it."""

    name: str
    connector: Connector
    table_type: str
    key: str
    partitions: int = 1
    cases: int = 12
    truncates: bool = False
    late: bool = False  # then no key change of PostgreSQL lacks values: docs/operate/quarantine.md
    options: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, str]:
        """The declared columns."""
        return {**KEYS[self.key], **self.values, **TOAST}

    def declaration(self, name: str) -> dict[str, Any]:
        """The entry of the sources file."""
        options = {"connector": self.connector, "table_type": self.table_type, **self.options}
        return table_of(name, self.columns, list(KEYS[self.key]), **options)


@dataclass(frozen=True)
class Change:
    """What the source did to a row, or a snapshot read of it: `place` is its place in the order of commits."""

    place: int
    case: int
    key: Key
    op: Literal["c", "u", "d", "r", "t"]
    row: Mapping[str, Any]
    position: Mapping[str, Any]
    moved_from: Key | None = None

    @property
    def lacks(self) -> bool:
        """Whether the event holds a placeholder."""
        return UNAVAILABLE_VALUE in self.row.values()


@dataclass(frozen=True)
class File:
    """A file of events, and the batch it comes with."""

    partition: int
    offset: int
    changes: tuple[Change, ...]
    batch: int


# The source


@dataclass
class _Transaction:
    rows: dict[Key, dict[str, Any] | None] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)


class _Database:
    """One table of a database, written by transactions side by side, and the stream its connector makes of it."""

    def __init__(self, spec: Spec, rng: random.Random) -> None:
        self.spec, self.rng = spec, rng
        self.rows: dict[Key, dict[str, Any]] = {}
        self.open: list[_Transaction] = []
        self.stream: list[Change] = []
        self.lsn, self.committed, self.serial = 9, 0, 0

    def key(self, case: int) -> Key:
        number = self.rng.randint(1, 4)
        if self.spec.key == "text":
            return (f"{case}{AWKWARD[number]}",)
        return (case, number) if self.spec.key == "int" else (case, self.rng.choice(AWKWARD[:2]), number)

    def case_of(self, key: Key) -> int:
        if self.spec.key != "text":
            return int(key[0])
        return int("".join(letter for letter in key[0].split("b")[0] if letter.isdigit()))

    def written(self, before: Mapping[str, Any] | None) -> dict[str, Any]:
        """New values of a row; out-of-line ones stay as often as not."""
        rng = self.rng
        row = {name: None if rng.random() < 0.15 else WRITTEN[kind](rng) for name, kind in self.spec.values.items()}
        for name in TOAST:
            fresh = rng.choice((None, "short", f"long {rng.randrange(10**6)}", f"long {rng.randrange(10**6)}"))
            row[name] = before[name] if before is not None and rng.random() < 0.6 else fresh
        return row

    def write(self, transaction: _Transaction) -> None:
        """One statement: insert, update, delete or a change of the key, of a row no other transaction holds."""
        rng = self.rng
        held = {key for other in self.open if other is not transaction for key in other.rows}
        key = self.key(rng.randrange(self.spec.cases))
        if key in held:
            return
        before = transaction.rows.get(key, self.rows.get(key))
        if before is None:
            self._log(transaction, "c", key, self.written(None), None)
            return
        chance = rng.random()
        if chance < 0.2:
            self._log(transaction, "d", key, None, before)
        elif chance < 0.4:
            new = self.key(self.case_of(key))
            if new in held or transaction.rows.get(new, self.rows.get(new)) is not None:
                return
            self._log(transaction, "d", key, None, before)
            self._log(transaction, "c", new, self.written(before), before, moved_from=key)
        else:
            self._log(transaction, "u", key, self.written(before), before)

    def _log(
        self,
        transaction: _Transaction,
        op: Literal["c", "u", "d"],
        key: Key,
        after: dict[str, Any] | None,
        before: Mapping[str, Any] | None,
        moved_from: Key | None = None,
    ) -> None:
        transaction.rows[key] = after
        if moved_from is None:
            self.lsn += self.rng.randint(1, 40)
        is_postgresql = self.spec.connector == "postgresql"
        if after is None:
            fillers = {**dict.fromkeys(self.spec.values, None), **dict.fromkeys(TOAST, "")}
            event = fillers if is_postgresql else dict(before or {})
        else:
            event = dict(after)
            # A changed key's long values are left out only where its delete and create are read together (`delivered`).
            together = self.spec.partitions == 1 and not self.spec.late
            if is_postgresql and before is not None and (moved_from is None or together):
                for name in TOAST:
                    if (after[name] or "").startswith("long") and after[name] == before[name]:
                        event[name] = UNAVAILABLE_VALUE
        position = {"lsn": self.lsn, "serial": 2 if moved_from else 1}
        transaction.changes.append(Change(-1, self.case_of(key), key, op, event, position, moved_from))

    def commit(self, transaction: _Transaction) -> None:
        """The changes of a transaction reach the stream when it commits, with the positions the connector gives."""
        self.open.remove(transaction)
        for key, row in transaction.rows.items():
            self.rows.pop(key, None)
            if row is not None:
                self.rows[key] = row
        self.lsn += self.rng.randint(1, 40)
        for number, change in enumerate(transaction.changes):
            position = self._position(change.position["lsn"], change.position["serial"], number)
            self.stream.append(replace(change, place=len(self.stream), position=position))
        self.committed = self.lsn

    def _position(self, lsn: int, serial: int, number: int) -> dict[str, Any]:
        if self.spec.connector == "postgresql":
            last = str(self.committed) if self.committed else None
            return {"__lsn": lsn, "__source_sequence": json.dumps([last, str(lsn)])}
        if self.spec.connector == "mariadb":
            # A transaction reaches the binlog when it commits; an event of several rows has one position.
            file, pos = divmod(self.lsn * 10 + number // 3, 3_000)
            return {"__source_file": f"bin.{999_999 + file:06d}", "__source_pos": pos, "__source_row": number % 3}
        return {
            "__source_commit_lsn": f"0000002a:{self.lsn:08x}:0003",
            "__source_change_lsn": f"0000002a:{lsn:08x}:{9 + number:04x}",
            "__source_event_serial_no": serial,
        }

    def snapshot(self) -> None:
        """Reads every committed row at one position, as the first or a blocking snapshot; transactions may be open."""
        self.lsn += 1
        position: dict[str, Any]
        if self.spec.connector == "postgresql":
            # While the task goes on that made the slot, a blocking snapshot gives its rows the LSN that this began at.
            slot = 10 if self.committed and self.rng.random() < 0.5 else self.lsn
            last = str(self.committed) if self.committed else None
            position = {"__lsn": slot, "__source_sequence": json.dumps([last, str(slot)])}
        elif self.spec.connector == "mariadb":
            position = {**self._position(self.lsn, 0, 0), "__source_row": 0}
        else:
            position = {"__source_commit_lsn": f"0000002a:{self.lsn:08x}:0003"}
        self._read(self.rows, position)

    def read_some(self) -> None:
        """A chunk of an incremental snapshot: rows as they are committed now, without a log position."""
        case = self.rng.randrange(self.spec.cases)
        self._read([key for key in self.rows if self.case_of(key) == case], {"__lsn": None})

    def _read(self, keys: Iterable[Key], position: Mapping[str, Any]) -> None:
        for key in keys:
            place = len(self.stream)
            self.stream.append(Change(place, self.case_of(key), key, "r", dict(self.rows[key]), position))

    def truncate(self) -> None:
        """Empties the table: only where no transaction is open, as the lock demands."""
        self.lsn += 1
        self.rows.clear()
        position = self._position(self.lsn, 1, 0)
        self.stream.append(Change(len(self.stream), -1, (), "t", {}, position))
        self.lsn += 1
        self.committed = self.lsn


def history(spec: Spec, rng: random.Random) -> list[Change]:
    """The stream of a table's life, in the order of commits."""
    base = _Database(spec, rng)
    for _ in range(spec.cases * 2):
        key = base.key(rng.randrange(spec.cases))
        base.rows[key] = base.written(None)
    if spec.connector == "postgresql":
        for _ in range(2):
            base.open.append(_Transaction())
            for _ in range(spec.cases // 2):
                base.write(base.open[-1])
    base.snapshot()
    for _ in range(spec.cases * 14):
        _go_on(base, spec, rng)
    while base.open:
        base.commit(rng.choice(base.open))
    return base.stream


def _go_on(base: _Database, spec: Spec, rng: random.Random) -> None:
    """One of the things that happen in a database: mostly a row that is written."""
    chance = rng.random()
    if chance < 0.12 and len(base.open) < 4:
        base.open.append(_Transaction())
    elif chance < 0.24 and base.open:
        base.commit(rng.choice(base.open))
    elif chance < 0.285 and spec.connector == "postgresql":
        (base.read_some if chance < 0.28 else base.snapshot)()
    elif chance < 0.295 and spec.truncates:
        while base.open:
            base.commit(base.open[0])
        base.truncate()
    elif base.open:
        base.write(rng.choice(base.open))


# The delivery


def delivered(spec: Spec, stream: Sequence[Change], rng: random.Random, batches: int) -> list[File]:
    """The stream as files: connectors and sinks that begin again further back, files that come late or twice."""
    topics: dict[int, list[Change]] = defaultdict(list)

    def send(change: Change) -> None:
        topics[zlib.crc32(repr(change.key).encode()) % spec.partitions].append(change)

    for number, change in enumerate(stream):
        send(change)
        if rng.random() < 0.02:
            # The connector crashed: streamed changes come once more, those behind the last whole snapshot. Its chunks
            # would be read anew.
            whole = [at for at in range(number) if stream[at].op == "r" and stream[at].position.get("__lsn")]
            first = max(0, number - rng.randint(1, 12), *whole)
            first -= 1 if stream[first].moved_from is not None else 0
            for again in stream[first : number + 1]:
                if again.op != "r":
                    send(again)
    files = []
    for partition, changes in topics.items():
        start = 0
        while start < len(changes):
            end = start + rng.randint(1, max(2, 2 * len(changes) // (batches * 3)))
            # The delete and the create of a changed key stay together: the create takes its long values from there.
            while end < len(changes) and changes[end].moved_from is not None:
                end += 1
            batch = start * batches // len(changes)
            if spec.late and rng.random() < 0.15:
                batch = min(batches - 1, batch + rng.randint(1, 3))
            file = File(partition, start, tuple(changes[start:end]), batch)
            files.append(file)
            if rng.random() < 0.1 and batch < batches - 1:
                files.append(replace(file, batch=rng.randint(batch + 1, batches - 1)))
            start = end
    return files


def source_rows(changes: Iterable[Change]) -> tuple[dict[Key, Mapping[str, Any]], set[Key]]:
    """The source's rows and the keys it has no longer, from the changes in the order of commits.

    Raises
    ------
    LookupError
        A change holds a placeholder, and none before it the value: no such history exists.
    """
    rows: dict[Key, Mapping[str, Any]] = {}
    gone: set[Key] = set()
    moving: dict[Key, Mapping[str, Any]] = {}
    for change in sorted({change.place: change for change in changes}.values(), key=lambda change: change.place):
        if change.op == "t":
            gone |= rows.keys()
            rows.clear()
        elif change.op == "d":
            moving[change.key] = rows.pop(change.key, {})
            gone.add(change.key)
        else:
            before = moving.get(change.moved_from, {}) if change.moved_from is not None else rows.get(change.key, {})
            lacking = {name: before[name] for name, value in change.row.items() if value == UNAVAILABLE_VALUE}
            rows[change.key] = {**change.row, **lacking}
            gone.discard(change.key)
    return rows, gone


def event(change: Change, spec: Spec) -> dict[str, Any]:
    """The change as Debezium's unwrap transform writes it; a truncate as its envelope."""
    if change.op == "t":
        source = {"name": "shop", "lsn": change.position["__lsn"], "sequence": change.position["__source_sequence"]}
        return {"before": None, "after": None, "source": {**source, "ts_ms": 1}, "op": "t", "ts_ms": 2}
    return unwrapped(change.op, change.position, {**dict(zip(KEYS[spec.key], change.key, strict=True)), **change.row})
