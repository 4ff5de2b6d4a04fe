"""Debezium's envelopes of Pagila's changes, and the order in which they arrive.

Shapes follow captured events of Debezium 3.7 on PostgreSQL 15 (replica identity default, `decimal.handling.mode`
precise): `before` of an update is null, that of a delete has the key and fillers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import numpy as np

from examples.pagila.changes import SNAPSHOT_AT, Change, Transaction
from examples.pagila.tables import DATABASE, SCHEMA, Key, Row, Table

Arrival = Literal["on_time", "late", "repeated"]

_EPOCH: Final = datetime(1970, 1, 1)
_SNAPSHOT_LSN: Final = 66_728_608
_SNAPSHOT_TX: Final = 1403
_SHARE: Final = 0.02
# Rows of the snapshot that come once more, long after they have changed or gone.
_AGAIN: Final = 12


@dataclass(frozen=True)
class Event:
    """A change as Debezium tells it.

    Attributes
    ----------
    before:
        Of a delete: the key and fillers.
    source:
        The block `source` of the envelope.
    at_us:
        When the connector handled it, in microseconds since 1970.
    """

    table: Table
    op: Literal["r", "c", "u", "d"]
    before: Row | None
    after: Row | None
    source: Mapping[str, Any]
    at_us: int

    @property
    def key(self) -> Key:
        """The primary key of the row."""
        return self.table.key_of(self.after or self.before or {})


@dataclass(frozen=True)
class Delivery:
    """An event as it stands in its topic; the place in the sequence is its offset."""

    event: Event
    arrival: Arrival


def read_snapshot(table: Table, rows: Sequence[Row], shift: timedelta) -> list[Event]:
    """The snapshot of a table: an `r` event of each row, all at one position of the log."""
    at_us = _micros(SNAPSHOT_AT + shift)
    marks = {0: "first_in_data_collection", len(rows) - 1: "last_in_data_collection"}
    return [
        Event(
            table,
            "r",
            None,
            row,
            _source(table, at_us, marks.get(number, "true"), _SNAPSHOT_TX, _SNAPSHOT_LSN, None),
            at_us + 130_000 + number,
        )
        for number, row in enumerate(rows)
    ]


def read_log(
    transactions: Iterable[Transaction], shift: timedelta, begins: int = _SNAPSHOT_LSN + 553_464
) -> Iterator[Event]:
    """The events of transactions in commit order. A position grows with each change, the time with each transaction.

    `begins`: the position before the first change.
    """
    lsn, last_commit = begins, None
    for number, transaction in enumerate(transactions, start=1):
        at_us = _micros(transaction.committed_at + shift)
        for change in transaction.changes:
            lsn += 0 if change.is_moved else 120
            source = _source(change.table, at_us, "false", _SNAPSHOT_TX + 124 + number, lsn, last_commit)
            yield Event(change.table, change.op, _reported(change), change.after, source, at_us + 57_000)
        lsn += 48
        last_commit = lsn


def deliver(changes: Sequence[Event], snapshot: Sequence[Event], rng: np.random.Generator) -> list[Delivery]:
    """A topic's changes as they arrive: some late, behind the newest change of their row; some again.

    Parameters
    ----------
    changes:
        In the order of the log.
    snapshot:
        The rows before; some of those that have changed or gone since come again at the end.
    """
    if not changes:
        return []
    newest = {event.key: index for index, event in enumerate(changes)}
    late: dict[Key, int] = {}
    for index, event in enumerate(changes):
        if newest[event.key] != index and len(late) < max(3, round(_SHARE * len(changes))):
            late.setdefault(event.key, index)
    arrivals: list[Delivery] = []
    for index, event in enumerate(changes):
        if late.get(event.key) != index:
            arrivals.append(Delivery(event, "on_time"))
        if event.key in late and newest[event.key] == index:
            arrivals.append(Delivery(changes[late[event.key]], "late"))
    for _ in range(max(2, round(_SHARE * len(changes)))):
        index = int(rng.integers(0, len(arrivals)))
        again = Delivery(arrivals[index].event, "repeated")
        arrivals.insert(min(len(arrivals), index + 1 + int(rng.integers(0, 40))), again)
    touched = [event for event in snapshot if event.key in newest]
    return arrivals + [Delivery(event, "repeated") for event in touched[:_AGAIN]]


def _reported(change: Change) -> Row | None:
    """What the log of the default replica identity has of the row before."""
    return change.table.key_and_fillers(change.before) if change.op == "d" and change.before else None


def _source(table: Table, at_us: int, snapshot: str, tx: int, lsn: int, last_commit: int | None) -> Mapping[str, Any]:
    last = None if last_commit is None else str(last_commit)
    return {
        "version": "3.7.0.Final",
        "connector": "postgresql",
        "name": DATABASE,
        "ts_ms": at_us // 1_000,
        "snapshot": snapshot,
        "db": DATABASE,
        "sequence": json.dumps([last, str(lsn)], separators=(",", ":")),
        "ts_us": at_us,
        "ts_ns": at_us * 1_000,
        "schema": SCHEMA,
        "table": table.name,
        "txId": tx,
        "lsn": lsn,
        "xmin": None,
    }


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)
