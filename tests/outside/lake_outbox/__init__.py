"""A source of another distribution: an outbox, a table of events in SQLite, which applications write and `lake` reads.

`outbox`: `id` integer, which grows; `topic` text; `key` blob; `value` blob, null for a tombstone.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import Field, SecretStr
from pyspark.sql import SparkSession

from ingest.config.connections import EventConnection
from ingest.config.tables import Table
from ingest.errors import InputError
from ingest.sources.base import (
    NOTHING_WITHHELD,
    Offsets,
    Source,
    Unread,
    Withheld,
    position_of,
    position_text,
)
from ingest.sources.raw import RawRecords

_RECORDS = "key binary, value binary, topic string, partition int, offset bigint"


class OutboxConnection(EventConnection):
    """A file of SQLite with an outbox."""

    type: Literal["outbox"]
    path: str
    token: SecretStr | None = None
    batch_records: int = Field(default=1000, ge=1)


def rows_of(path: str, query: str, *values: Any) -> list[Any]:
    """The rows of a query."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query, values).fetchall()


@dataclass(frozen=True)
class UnreadRows(Unread):
    """Rows of a topic, from an id up to another that is not among them."""

    spark: SparkSession
    connection: OutboxConnection
    topic: str
    ids: tuple[int, ...]
    start: int
    end: int

    @property
    def landed(self) -> int:
        return sum(each < self.start for each in self.ids)

    @property
    def number(self) -> int:
        return sum(self.start <= each < self.end for each in self.ids)

    @property
    def position(self) -> str:
        return position_text("outbox", self.start)

    def portion(self) -> UnreadRows:
        unread = [each for each in self.ids if self.start <= each < self.end]
        taken = unread[: self.connection.batch_records]
        return replace(self, end=taken[-1] + 1) if taken else self

    def read(self) -> RawRecords:
        query = "select key, value, topic, 0, id from outbox where topic = ? and id >= ? and id < ? order by id"
        rows = rows_of(self.connection.path, query, self.topic, self.start, self.end)
        return RawRecords(self.spark.createDataFrame(rows, _RECORDS), len(rows))

    def after(self, withheld: Withheld = NOTHING_WITHHELD) -> str:
        return position_text("outbox", withheld.offsets.get((self.topic, 0), self.end))

    def at(self, *, to_latest: bool) -> str:
        return position_text("outbox", self.end if to_latest else 0)

    def beyond(self, position: str) -> UnreadRows:
        return replace(self, start=position_of(position))

    def ends(self) -> Offsets:
        return {(self.topic, 0): self.end}


class OutboxWatch:
    """Asks for the newest id of each topic, often: that costs next to nothing here."""

    def __init__(self, connection: OutboxConnection) -> None:
        self._path = connection.path
        self._lock = threading.Lock()
        self._offsets: dict[tuple[str, int], int] = {}

    def listen(self, offsets: Offsets) -> None:
        with self._lock:
            self._offsets |= offsets

    def wait(self, seconds: float) -> set[tuple[str, int]]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            newest = dict(rows_of(self._path, "select topic, max(id) from outbox group by topic"))
            with self._lock:
                found = {place for place, offset in self._offsets.items() if newest.get(place[0], -1) >= offset}
                for place in found:
                    del self._offsets[place]
            if found:
                return found
            time.sleep(0.05)
        return set()

    def close(self) -> None:
        pass


class OutboxSource(Source[OutboxConnection]):
    """The outbox of a file: a table's topic is that of its rows."""

    model = OutboxConnection

    def listed(self, table: Table) -> UnreadRows:
        topic = table.options.topic
        try:
            ids = rows_of(self.connection.path, "select id from outbox where topic = ? order by id", topic)
        except sqlite3.Error as error:
            raise InputError(f"there is no outbox: {error}", where=self.connection.path) from error
        every = tuple(each for (each,) in ids)
        return UnreadRows(self.spark, self.connection, topic, every, 0, every[-1] + 1 if every else 0)

    def watch(self) -> OutboxWatch:
        return OutboxWatch(self.connection)
