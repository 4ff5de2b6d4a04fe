"""What happens to the table of a case, as its connector streams it, and the files and batches it comes in."""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from deliveries.cases import Case
from deliveries.values import FILLERS, TOASTED, UNAVAILABLE, row_of

Key = tuple[Any, ...]
Row = Mapping[str, Any]
NOISE = ("message", "heartbeat", "transaction", "schema_change", "another_table")
# Texts that look like something else, in keys.
AWKWARD = ("", ",", "a,b:1", '"', ".10", " Street", "null", "é\\", "0", " ", "{}", "[]")
# Keys that bad events name, and nothing else.
_BAD_KEYS = 900
# Keys that are times go on from here, past 1970.
_FIRST_MOMENT = datetime(1969, 12, 31, 23, 59, 58)
# Offsets of a batch begin here, times its number: partitions have equal ones.
_BATCH_OFFSETS = 1_000


@dataclass(frozen=True)
class Event:
    """A record of the topic.

    Attributes
    ----------
    number:
        Its own, the same however small the case is made; a record that the connector sends again has another.
    kind:
        `c`, `u`, `d`, `r`, `t`, `tombstone`, one of `NOISE`, or `bad`.
    stage:
        Of the table's life, which the batches follow where nothing comes late: 0 to 2, and 3 for what mends something.
    key, row, before:
        Of a change: which row, as it is then (of a delete, as the event shows it), and as it was.
    place, serial:
        Where in the log it stands: the change, and which of two that share one. None: the event does not say.
    moved_from:
        The key the row had until then.
    cut:
        Of a text that breaks off, which of its boundaries.
    """

    number: int
    kind: str
    stage: int
    key: Key | None = None
    row: Row | None = None
    before: Row | None = None
    place: int | None = None
    serial: int = 0
    moved_from: Key | None = None
    cut: int = 0
    partition: int = 0
    offset: int = -1

    @property
    def at(self) -> tuple[int, int]:
        """The record: its partition and offset."""
        return self.partition, self.offset


@dataclass(frozen=True)
class File:
    """Records that come together, in order, with a batch; `again`: how often they came before."""

    batch: int
    events: tuple[Event, ...]
    again: int = 0


def key_of(case: Case, number: int) -> Key:
    """The key of a row."""
    if case["keys"] == "text":
        return (f"{number}{AWKWARD[number % len(AWKWARD)]}",)
    if case["keys"] == "several":
        return (number // 2, f"{AWKWARD[number % len(AWKWARD)]}{number % 2}")
    if case["keys"] == "moment":
        within = timedelta(milliseconds=number) if case.in_milliseconds else timedelta(microseconds=number)
        return (_FIRST_MOMENT + timedelta(seconds=number) + within,)
    if case["keys"] == "exact":
        return (Decimal(25 * number - 50).scaleb(-2),)
    return (number,)


@dataclass
class _Story:
    """A table as its database sees it, and the events that its connector makes."""

    case: Case
    rows: dict[Key, dict[str, Any]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    stage: int = 0
    turn: int = 0
    place: int = 0

    def add(self, kind: str, key: Key | None = None, **of: Any) -> None:
        routed = f"{len(self.events)}" if self.case["partitions"] == "routed" else ""
        partition = zlib.crc32(f"{key!r}{routed}".encode()) % self.case.partitions if key is not None else 0
        of.setdefault("partition", partition)
        self.events.append(Event(len(self.events), kind, self.stage, key, **of))

    def fresh(self) -> dict[str, Any]:
        """A new row."""
        self.turn += 1
        case = self.case
        return row_of(case["values"], self.turn, decimals=case["decimals"], in_milliseconds=case.in_milliseconds)

    def write(self, number: int, *, unavailable: bool = False, again: bool = False) -> None:
        """Inserts the row or updates it; long values that stay may be unavailable then. `again`: at the last place."""
        key = key_of(self.case, number)
        before = self.rows.get(key)
        row = self.fresh()
        shown = dict(row)
        if before is not None and unavailable:
            row |= {name: before[name] for name in TOASTED}
            shown |= dict.fromkeys(TOASTED, UNAVAILABLE)
        self.place += not again
        self.rows[key] = row
        self.add("u" if before else "c", key, row=shown, before=before, place=self.place)

    def make_noise(self) -> None:
        """What is no change of the table: of another one it has the key of a row."""
        noise = self.case["noise"]
        if noise == "another_table":
            self.place += 1
            self.add(noise, key_of(self.case, 0), row=self.fresh(), place=self.place)
        elif noise != "none":
            self.add(noise)

    def delete(self, number: int) -> None:
        """Deletes the row, where it is there."""
        if key_of(self.case, number) in self.rows:
            self.place += 1
            self._log_delete(key_of(self.case, number), serial=0)

    def move(self, number: int, to: int, *, unavailable: bool, apart: bool = False) -> None:
        """Changes the row's key: a delete and a create at one place of the log; `apart`: in two batches."""
        old, new = key_of(self.case, number), key_of(self.case, to)
        if old not in self.rows or new in self.rows:
            return
        before, row = self.rows[old], self.fresh()
        self.place += 1
        self._log_delete(old, serial=0)
        self.stage += apart
        shown = dict(row)
        if unavailable:
            row |= {name: before[name] for name in TOASTED}
            shown |= dict.fromkeys(TOASTED, UNAVAILABLE)
        self.rows[new] = row
        self.add("c", new, row=shown, place=self.place, serial=1, moved_from=old)

    def route(self, number: int) -> None:
        """Changes a column that only the record's key has: a delete and a create, in two partitions."""
        key = key_of(self.case, number)
        if key not in self.rows:
            return
        row, self.place = self.fresh(), self.place + 1
        self._log_delete(key, serial=0)
        self.rows[key] = row
        other = (self.events[-1].partition + 1) % self.case.partitions
        self.add("c", key, row=row, place=self.place, serial=1, partition=other)

    def read(self, number: int, *, place: int | None) -> None:
        """A snapshot reads the row; of an incremental one it has no place."""
        key = key_of(self.case, number)
        if key not in self.rows:
            self.rows[key] = self.fresh()
        self.add("r", key, row=dict(self.rows[key]), place=place)

    def truncate(self) -> None:
        """Empties the table, where the declaration wants that applied: its later life goes on from what is there."""
        # No two changes share its place.
        self.place += 4 - self.place % 2
        self.add("t", None, place=self.place)
        self.place += 1
        if self.case["truncate"] == "apply":
            self.rows.clear()

    def change_keys(self) -> None:
        """What the case changes of keys, and at one place of the log."""
        moves = self.case["moves"]
        if moves in ("key_change", "unavailable_moved"):
            self.move(3, 7, unavailable=moves == "unavailable_moved")
            self.write(7)
        if moves == "moved_apart":
            self.write(8)
            self.move(8, 9, unavailable=True, apart=True)
        if moves == "message_key":
            for number in (3, 0, 5):
                self.route(number)
            self.write(5)
        if moves == "one_place":
            for number in (1, 1, 0, 0):
                self.write(number, again=True)

    def _log_delete(self, key: Key, serial: int) -> None:
        before = self.rows.pop(key)
        if self.case.tombstones_delete:
            self.add("tombstone", key)
            return
        shown = {"fillers": FILLERS, "no_before": None}.get(self.case["deletes"], before)
        self.add("d", key, row=shown, before=shown, place=self.place, serial=serial)
        if self.case["tombstones"] == "ignored":
            self.add("tombstone", key)


def history(case: Case) -> list[Event]:
    """The case's events in the order of the log, with their batches and without offsets."""
    story = _Story(case)
    moves = case["moves"]
    for number in range(3):
        if case["snapshot"] == "initial":
            story.read(number, place=0)
        else:
            story.write(number)
    story.write(3)
    story.write(4)
    story.write(0, unavailable=moves == "unavailable")
    story.make_noise()
    story.stage = 1
    story.write(1)
    story.delete(2)
    if case["snapshot"] in ("incremental", "read_only"):
        for number in (0, 1, 6):
            # A read-only one gives its rows the place of the change that they are sent before.
            story.read(number, place=story.place + 1 if case["snapshot"] == "read_only" else None)
    story.write(0)
    story.write(0, unavailable=moves == "unavailable")
    story.write(2)
    if case["truncate"] != "none":
        story.truncate()
    story.write(5)
    story.write(3)
    story.make_noise()
    story.delete(4)
    story.change_keys()
    story.stage = 2
    story.write(0)
    story.write(4)
    story.write(1, unavailable=moves.startswith("unavailable"))
    story.delete(5)
    story.write(10)
    story.make_noise()
    events = [*story.events, *_bad_events(story)]
    return [event for event in events if event.number not in case.without]


def _bad_events(story: _Story) -> list[Event]:
    """Bad events, as many in each partition."""
    case, bad = story.case, story.case["bad"]
    if bad == "none":
        return []
    story.events, first = [], len(story.events)
    story.stage = 0 if case["bad_at"] == "first" else 2
    for number in range({"cut": 40, "cut_schema": 24}.get(bad, 4)):
        key = None if bad == "no_key" else key_of(case, _BAD_KEYS + number)
        story.place += 2
        row = story.fresh()
        if bad == "unavailable":
            row |= dict.fromkeys(TOASTED, UNAVAILABLE)
        place = None if bad == "no_position" else story.place
        story.add("bad", key, row=row, place=place, cut=number, partition=number % case.partitions)
    if bad == "unavailable" and case["replay"] == "mended":
        # What it lacks comes in a batch of its own, behind all others, and is older, by any order: also by one that has
        # the same value for two places.
        story.stage = 3
        for event in list(story.events):
            assert event.place is not None and event.row is not None
            row = story.fresh() | {"version": event.row["version"] - 1}
            story.add("c", event.key, row=row, place=event.place - 2, partition=event.partition)
    return [replace(event, number=first + event.number) for event in story.events]


def delivered(case: Case) -> list[File]:
    """The events as files, with offsets: out of order, or sent and delivered again, where the case says so."""
    rng = random.Random(f"delivery {case.seed}")  # noqa: S311
    stages: dict[int, list[Event]] = defaultdict(list)
    for event in history(case):
        stages[_batch_of(case, event.stage)].append(event)
    if case["delivery"] == "repeated":
        again = _sent_again(stages[0], rng)
        stages[0], stages[1] = ([*stages[0], *again], stages[1]) if case.seed % 2 else (stages[0], [*again, *stages[1]])
    files = []
    ends: dict[int, int] = defaultdict(int)
    for stage, events in sorted(stages.items()):
        by_partition = _with_offsets(case, stage, events, ends, rng)
        for chunk in _chunks(case, by_partition, rng):
            batch = rng.randrange(case.batches) if case["delivery"] == "late" and stage < case.batches else stage
            files.append(File(batch, chunk))
    if case["delivery"] == "repeated" and files:
        files.append(replace(files[0], batch=1, again=1))
    return sorted(files, key=lambda file: file.batch)


def _batch_of(case: Case, stage: int) -> int:
    """The batch that a part of the table's life comes in, where nothing comes late."""
    if stage > 2:
        return case.batches
    return {1: 0, 2: max(0, stage - 1)}.get(case.batches, stage)


def _sent_again(events: Sequence[Event], rng: random.Random) -> list[Event]:
    """The connector crashed, and goes on from further back: the last changes come once more, in order."""
    changes = [event for event in events if event.kind not in ("r", "bad", *NOISE)]
    first = rng.randrange(max(1, len(changes) - 1))
    while first and (changes[first].moved_from is not None or changes[first].kind == "tombstone"):
        first -= 1
    return [replace(event, number=event.number + 10_000) for event in changes[first:]]


def _with_offsets(
    case: Case, stage: int, events: Sequence[Event], ends: dict[int, int], rng: random.Random
) -> dict[int, list[Event]]:
    """The batch's events by partition. Bad ones stand at equal offsets, somewhere amid the others."""
    partitions = range(case.partitions)
    good = {number: [event for event in events if event.partition == number and event.kind != "bad"]
            for number in partitions}  # fmt: skip
    bad = {number: [event for event in events if event.partition == number and event.kind == "bad"]
           for number in partitions}  # fmt: skip
    before = rng.randint(0, min(len(found) for found in good.values()))
    placed = {}
    for number in partitions:
        mixed = [*good[number][:before], *bad[number], *good[number][before:]]
        start = max(stage * _BATCH_OFFSETS, ends[number])
        placed[number] = [replace(event, offset=start + index) for index, event in enumerate(mixed)]
        ends[number] = start + len(mixed)
    return placed


def _chunks(case: Case, by_partition: Mapping[int, Sequence[Event]], rng: random.Random) -> list[tuple[Event, ...]]:
    """Files: of records of all partitions, or each of one partition; small ones where they come out of order."""
    every = list(by_partition.values())
    if case["delivery"] != "late":
        if case["carrier"] == "parquet":
            return [tuple(event for events in every for event in events)] if any(every) else []
        return [tuple(events) for events in every if events]
    chunks = []
    for events in every:
        start = 0
        while start < len(events):
            end = start + rng.randint(2, 5)
            chunks.append(tuple(events[start:end]))
            start = end
    return chunks
