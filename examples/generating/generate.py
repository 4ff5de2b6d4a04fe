"""The change events of an example's databases as Debezium would write them, and the states they must lead to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal, Protocol, get_args

from examples.generating.debezium import FORMS, Event, Form, read_log, read_snapshot, topic_of
from examples.generating.delivery import Delivery, deliver, deliver_in_order
from examples.generating.draw import stream
from examples.generating.model import Database, Table, Transaction, replay
from examples.generating.sink import Bronze, write_oracle, write_whole
from ingest.errors import LakeError

Phase = Literal["snapshot", "changes", "all"]
Progress = Callable[[str, int, int], None]

_SNAPSHOT_FLUSH_SIZE: Final = 50_000
_CHANGES_FLUSH_SIZE: Final = 10_000
_DELIVERY_STREAM: Final = 200


class Databases(Protocol):
    """What is written: databases with a history."""

    @property
    def name(self) -> str:
        """Of the example system."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of all its databases."""

    @property
    def snapshot_at_us(self) -> int:
        """When the snapshot is taken, in microseconds since 1970, UTC."""

    @property
    def last_day(self) -> date:
        """The day of the last change."""

    def snapshot(self, scale: float, seed: int) -> Database:
        """All rows before the first change."""

    def history(self, database: Database, scale: float, seed: int) -> list[Transaction]:
        """The transactions after the snapshot, in commit order."""


class Operated(Protocol):
    """An event, of which Debezium's operation is known."""

    @property
    def op(self) -> str:
        """r, c, u or d."""


class Delivered(Protocol):
    """An event as it arrives."""

    @property
    def event(self) -> Operated:
        """What arrives."""

    @property
    def arrival(self) -> str:
        """on_time, late or repeated."""


@dataclass(frozen=True)
class TopicSummary:
    """What one topic holds after one phase.

    Attributes
    ----------
    records:
        Lines or Avro records written; ``events`` of the source plus ``repeated`` deliveries.
    operations:
        Records by ``op`` (r, c, u, d).
    late:
        Events that arrive after a newer event of their row.
    """

    topic: str
    phase: str
    first_offset: int
    records: int
    events: int
    operations: dict[str, int]
    late: int
    repeated: int
    files: int

    @classmethod
    def of(cls, topic: str, phase: str, first_offset: int, deliveries: Sequence[Delivered], files: int) -> TopicSummary:
        """What was written of a topic: these deliveries, into so many files."""
        arrivals = Counter(delivery.arrival for delivery in deliveries)
        return cls(
            topic=topic,
            phase=phase,
            first_offset=first_offset,
            records=len(deliveries),
            events=len(deliveries) - arrivals["repeated"],
            operations=dict(sorted(Counter(delivery.event.op for delivery in deliveries).items())),
            late=arrivals["late"],
            repeated=arrivals["repeated"],
            files=files,
        )


@dataclass(frozen=True)
class Summary:
    """What :func:`generate` wrote: one entry per topic and phase."""

    dataset: str
    seed: int
    scale: float
    form: Form | None
    phase: Phase
    topics: tuple[TopicSummary, ...]

    @property
    def records(self) -> int:
        """Records in all files."""
        return sum(topic.records for topic in self.topics)

    @property
    def files(self) -> int:
        """Bronze files."""
        return sum(topic.files for topic in self.topics)

    @property
    def late(self) -> int:
        """Events delivered after a newer event of their row."""
        return sum(topic.late for topic in self.topics)

    @property
    def repeated(self) -> int:
        """Records that repeat an event."""
        return sum(topic.repeated for topic in self.topics)


def generate(
    databases: Databases,
    out: Path,
    *,
    scale: float,
    seed: int,
    form: Form,
    phase: Phase,
    ends: date | None,
    progress: Progress | None,
) -> Summary:
    """Writes an example's change events and the states they must lead to. Same arguments, same bytes.

    Parameters
    ----------
    out:
        Folder for ``bronze/`` (the events), ``oracle/<phase>/`` (the source's tables after that phase, as Parquet) and
        ``manifest.json``. A second phase adds to the first; anything else needs its own folder.
    form:
        See ``examples.generating.debezium``.
    phase:
        ``snapshot``, ``changes`` (which makes the snapshot again in memory, but does not write it), ``all``.
    ends:
        The day of the last change; by default the example's own. Moves the times at which rows were captured and
        changes committed, not the times in the rows.
    progress:
        Called after each file with topic, records written and records in all of the topic's phase.

    Raises
    ------
    LakeError
        Unknown form or phase; scale or seed out of range; ``out`` holds something else.
    """
    require_one_of("form", form, FORMS)
    require_one_of("phase", phase, get_args(Phase))
    scale = float(scale)
    rows = databases.snapshot(scale, seed)
    settings: dict[str, Any] = {
        "dataset": databases.name,
        "seed": seed,
        "scale": scale,
        "form": form,
        "ends": str(ends or databases.last_day),
    }
    shift_us = ((ends or databases.last_day) - databases.last_day).days * 86_400_000_000
    earlier = earlier_phases(out, settings)
    write_manifest(out, settings, earlier)  # before any event: a run that breaks off leaves its settings behind

    writing = _Writing(databases, rows, scale, seed, shift_us, out, form, progress)
    done: list[TopicSummary] = []
    if phase != "changes":
        done += writing.snapshot()
    if phase != "snapshot":
        done += writing.changes()

    write_manifest(out, settings, [*earlier, *map(asdict, done)])
    return Summary(databases.name, seed, scale, form, phase, tuple(done))


@dataclass(frozen=True)
class _Writing:
    """What is written, and where; ``shift_us`` moves the times of its events."""

    databases: Databases
    rows: Database
    scale: float
    seed: int
    shift_us: int
    out: Path
    form: Form
    progress: Progress | None

    def snapshot(self) -> list[TopicSummary]:
        bronze, done = Bronze(self.out, self.form, _SNAPSHOT_FLUSH_SIZE), []
        for table in self.databases.tables:
            deliveries = deliver_in_order(read_snapshot(table, self.rows, self._snapshot_at_us))
            done.append(_land(table, "snapshot", deliveries, 0, bronze, self.progress))
        write_oracle(self.out, "snapshot", self.rows)
        return done

    def changes(self) -> list[TopicSummary]:
        transactions = [
            replace(transaction, committed_at_us=transaction.committed_at_us + self.shift_us)
            for transaction in self.databases.history(self.rows, self.scale, self.seed)
        ]
        events: dict[str, list[Event]] = {table.full_name: [] for table in self.databases.tables}
        for event in read_log(transactions):
            events[event.table.full_name].append(event)
        bronze, done = Bronze(self.out, self.form, _CHANGES_FLUSH_SIZE), []
        for number, table in enumerate(self.databases.tables):
            changed = events[table.full_name]
            rng = stream(self.seed, _DELIVERY_STREAM, number)
            deliveries = deliver(changed, self._snapshot_again(table, changed), rng)
            if deliveries:
                first_offset = self.rows[table.full_name].num_rows
                done.append(_land(table, "changes", deliveries, first_offset, bronze, self.progress))
        write_oracle(self.out, "changes", replay(self.databases.tables, self.rows, transactions))
        return done

    @property
    def _snapshot_at_us(self) -> int:
        return self.databases.snapshot_at_us + self.shift_us

    def _snapshot_again(self, table: Table, changes: Sequence[Event]) -> list[Event]:
        """Snapshot events, sent once more, of a few rows that have changed since: one in a thousand changes."""
        rows = self.rows[table.full_name]
        first = int(rows.column(0)[0].as_py())
        touched = sorted({event.key for event in changes if 0 <= event.key - first < rows.num_rows})
        few = touched[:: max(1, len(touched) * 1000 // max(1, len(changes)))][: max(1, len(changes) // 1000)]
        return read_snapshot(table, self.rows, self._snapshot_at_us, [key - first for key in few]) if few else []


def _land(
    table: Table,
    phase: str,
    deliveries: Sequence[Delivery],
    first_offset: int,
    bronze: Bronze,
    progress: Progress | None,
) -> TopicSummary:
    files = bronze.write(table, deliveries, first_offset, progress)
    return TopicSummary.of(topic_of(table), phase, first_offset, deliveries, len(files))


def earlier_phases(out: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Topics that the folder's manifest lists; refuses a folder made with other settings."""
    path = out / "manifest.json"
    if not path.exists():
        return []
    manifest = json.loads(path.read_text())
    found = {name: manifest.get(name) for name in settings}
    if found != settings:
        raise LakeError(
            f"a dataset made with {_words(found)}",
            where=str(path),
            expected=_words(settings),
            action="choose another folder, or remove this one",
        )
    topics: list[dict[str, Any]] = manifest["topics"]
    return topics


def write_manifest(out: Path, settings: dict[str, Any], written: Sequence[dict[str, Any]]) -> None:
    """Writes the folder's settings, and what its topics hold: of what was written twice, the later."""
    last = {(topic["topic"], topic["phase"]): topic for topic in written}
    topics = [last[key] for key in sorted(last, key=lambda key: (key[1] != "snapshot", key[0]))]
    totals = {name: sum(topic[name] for topic in topics) for name in ("records", "events", "late", "repeated")}
    manifest = settings | totals | {"topics": topics}
    write_whole(out / "manifest.json", (json.dumps(manifest, indent=2) + "\n").encode())


def _words(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def require_one_of(what: str, found: str, allowed: Sequence[str]) -> None:
    if found not in allowed:
        raise LakeError(
            f"{what} {found!r}",
            where="generate",
            expected=f"one of {', '.join(allowed)}",
            action=f"name another {what}",
        )
