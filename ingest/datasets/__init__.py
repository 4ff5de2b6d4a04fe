"""Example source databases, their change events as Debezium would write them, and the state they must lead to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal, get_args

from ingest.datasets import tickit
from ingest.datasets.debezium import FORMS, Event, Form, read_log, read_snapshot, topic_of
from ingest.datasets.delivery import Delivery, deliver, deliver_in_order
from ingest.datasets.model import Database, Table, replay
from ingest.datasets.sink import Bronze, write_oracle, write_whole
from ingest.datasets.tickit_history import LAST_DAY, SNAPSHOT_AT_US, history
from ingest.errors import LakeError

Phase = Literal["snapshot", "changes", "all"]
Progress = Callable[[str, int, int], None]
DATASETS: Final = ("tickit",)

_SNAPSHOT_FLUSH_SIZE: Final = 50_000
_CHANGES_FLUSH_SIZE: Final = 10_000
_DELIVERY_STREAM: Final = 200

__all__ = ["DATASETS", "FORMS", "Form", "Phase", "Summary", "TopicSummary", "generate"]


@dataclass(frozen=True)
class TopicSummary:
    """What one topic holds after one phase.

    Attributes:
        records: lines or Avro records written; ``events`` of the source plus ``repeated`` deliveries.
        operations: records by ``op`` (r, c, u, d).
        late: events that arrive after a newer event of their row.
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


@dataclass(frozen=True)
class Summary:
    """What :func:`generate` wrote: one entry per topic and phase."""

    dataset: str
    seed: int
    scale: float
    form: Form
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
    dataset: str,
    out: Path,
    *,
    scale: float = 1.0,
    seed: int = 42,
    form: Form = "avro",
    phase: Phase = "all",
    ends: date | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Writes a dataset's change events and the states they must lead to. Same arguments, same bytes.

    Args:
        dataset: ``tickit``.
        out: folder for ``bronze/`` (the events), ``oracle/<phase>/`` (the source's tables after that phase, as
            Parquet) and ``manifest.json``. A second phase adds to the first; anything else needs its own folder.
        scale: 1 is 424,319 rows and about 25,000 changes; from 0.001 on.
        form: see ``ingest.datasets.debezium``.
        phase: ``snapshot``, ``changes`` (which makes the snapshot again in memory, but does not write it), ``all``.
        ends: the day of the last change; by default that of the article's demonstration, in 2023. Moves the times at
            which rows were captured and changes committed, not the times in the rows.
        progress: called after each file with topic, records written and records in all of the topic's phase.

    Raises:
        LakeError: unknown dataset, form or phase; scale or seed out of range; ``out`` holds something else.
    """
    _check_one_of("dataset", dataset, DATASETS)
    _check_one_of("form", form, FORMS)
    _check_one_of("phase", phase, get_args(Phase))
    scale = float(scale)
    database = tickit.snapshot(scale, seed)
    settings: dict[str, Any] = {
        "dataset": dataset,
        "seed": seed,
        "scale": scale,
        "form": form,
        "ends": str(ends or LAST_DAY),
    }
    shift_us = ((ends or LAST_DAY) - LAST_DAY).days * 86_400_000_000
    earlier = _earlier_phases(out, settings)
    _write_manifest(out, settings, earlier)  # before any event: a run that breaks off leaves its settings behind

    done: list[TopicSummary] = []
    if phase != "changes":
        done += _write_snapshot(database, shift_us, Bronze(out, form, _SNAPSHOT_FLUSH_SIZE), progress)
    if phase != "snapshot":
        done += _write_changes(database, scale, seed, shift_us, Bronze(out, form, _CHANGES_FLUSH_SIZE), progress)

    written = {(topic["topic"], topic["phase"]): topic for topic in earlier}
    written |= {(topic.topic, topic.phase): asdict(topic) for topic in done}
    topics = [written[key] for key in sorted(written, key=lambda key: (key[1] != "snapshot", key[0]))]
    _write_manifest(out, settings, topics)
    return Summary(dataset, seed, scale, form, phase, tuple(done))


def _write_snapshot(database: Database, shift_us: int, bronze: Bronze, progress: Progress | None) -> list[TopicSummary]:
    done = []
    for table in tickit.TABLES:
        deliveries = deliver_in_order(read_snapshot(table, database, SNAPSHOT_AT_US + shift_us))
        done.append(_land(table, "snapshot", deliveries, 0, bronze, progress))
    write_oracle(bronze.out, "snapshot", database)
    return done


def _write_changes(
    database: Database, scale: float, seed: int, shift_us: int, bronze: Bronze, progress: Progress | None
) -> list[TopicSummary]:
    transactions = [
        replace(transaction, committed_at_us=transaction.committed_at_us + shift_us)
        for transaction in history(database, scale, seed)
    ]
    events: dict[str, list[Event]] = {table.full_name: [] for table in tickit.TABLES}
    for event in read_log(transactions):
        events[event.table.full_name].append(event)
    done = []
    for number, table in enumerate(tickit.TABLES):
        changes = events[table.full_name]
        rng = tickit.stream(seed, _DELIVERY_STREAM, number)
        deliveries = deliver(changes, _snapshot_again(table, database, changes, shift_us), rng)
        if deliveries:
            rows = database[table.full_name].num_rows
            done.append(_land(table, "changes", deliveries, rows, bronze, progress))
    write_oracle(bronze.out, "changes", replay(tickit.TABLES, database, transactions))
    return done


def _snapshot_again(table: Table, database: Database, changes: Sequence[Event], shift_us: int) -> list[Event]:
    """Snapshot events, sent once more, of a few rows that have changed since: one in a thousand changes."""
    rows = database[table.full_name]
    first = int(rows.column(0)[0].as_py())
    touched = sorted({event.key for event in changes if 0 <= event.key - first < rows.num_rows})
    few = touched[:: max(1, len(touched) * 1000 // max(1, len(changes)))][: max(1, len(changes) // 1000)]
    at_us = SNAPSHOT_AT_US + shift_us
    return read_snapshot(table, database, at_us, [key - first for key in few]) if few else []


def _land(
    table: Table,
    phase: str,
    deliveries: Sequence[Delivery],
    first_offset: int,
    bronze: Bronze,
    progress: Progress | None,
) -> TopicSummary:
    files = bronze.write(table, deliveries, first_offset, progress)
    arrivals = Counter(delivery.arrival for delivery in deliveries)
    return TopicSummary(
        topic=topic_of(table),
        phase=phase,
        first_offset=first_offset,
        records=len(deliveries),
        events=len(deliveries) - arrivals["repeated"],
        operations=dict(sorted(Counter(delivery.event.op for delivery in deliveries).items())),
        late=arrivals["late"],
        repeated=arrivals["repeated"],
        files=len(files),
    )


def _earlier_phases(out: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
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


def _write_manifest(out: Path, settings: dict[str, Any], topics: list[dict[str, Any]]) -> None:
    totals = {name: sum(topic[name] for topic in topics) for name in ("records", "events", "late", "repeated")}
    manifest = settings | totals | {"topics": topics}
    write_whole(out / "manifest.json", (json.dumps(manifest, indent=2) + "\n").encode())


def _words(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _check_one_of(what: str, found: str, allowed: Sequence[str]) -> None:
    if found not in allowed:
        raise LakeError(
            f"{what} {found!r}",
            where="generate",
            expected=f"one of {', '.join(allowed)}",
            action=f"name another {what}",
        )
