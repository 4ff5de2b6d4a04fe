"""What must be in silver and in the quarantine after a delivery, by the documents: a plain fold over the events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from deliveries.cases import CODES, Case
from deliveries.history import NOISE, Event, File, Key
from deliveries.values import COLUMNS, UNAVAILABLE

Place = tuple[int, int]
Fate = Literal["change", "ignored", "quarantined"]


@dataclass(frozen=True)
class Counted:
    """What must be counted of a batch; applied and superseded where the documents say how many exactly."""

    read: int = 0
    ignored: int = 0
    quarantined: int = 0
    applied: int | None = None
    superseded: int | None = None


@dataclass(frozen=True)
class Expected:
    """What must come of a delivery.

    Attributes
    ----------
    rows:
        The live rows with their keys: one a key, or, of a table without one, all of them.
    gone:
        Keys of which a tombstone must be there, each with its row, where the documents say what is left of it.
    quarantined:
        The records in the quarantine by partition and offset, with what it may say of each.
    batches:
        The counts of each batch.
    """

    rows: Sequence[tuple[Key, Mapping[str, Any]]]
    gone: Mapping[Key, Mapping[str, Any] | None]
    quarantined: Mapping[tuple[int, int], frozenset[str]]
    batches: Mapping[int, Counted] = field(default_factory=dict)


def fate_of(case: Case, event: Event) -> tuple[Fate, frozenset[str]]:
    """What becomes of an event by itself, and the reasons that the quarantine may give."""
    if event.kind == "bad":
        return "quarantined", CODES[case["bad"]]
    if event.kind in NOISE:
        return "ignored", frozenset()
    if event.kind == "tombstone" and case["deletes"] != "bare":
        is_known = case["deletes"] != "undeclared"
        return ("ignored", frozenset()) if is_known else ("quarantined", frozenset({"tombstone"}))
    if event.kind == "t" and case["truncate"] != "apply":
        is_known = case["truncate"] == "ignore"
        return ("ignored", frozenset()) if is_known else ("quarantined", frozenset({"truncate"}))
    if event.kind == "d" and event.row is None and case["record_key"] == "absent":
        return "quarantined", frozenset({"missing_key"})
    return "change", frozenset()


def expected(case: Case, files: Iterable[File]) -> Expected:
    """What must come of a case's files.

    Raises
    ------
    LookupError
        An event lacks a value that none before it has: no such history exists.
    """
    every = {event.at: event for file in files for event in file.events}
    changes = [event for event in every.values() if fate_of(case, event)[0] == "change"]
    bad = {event.at: codes for event in every.values() if (codes := fate_of(case, event)[1])}
    rows, gone = _appended(case, changes) if case["keys"] == "none" else _folded(case, changes)
    return Expected(rows, gone, bad, _counts(case, files))


def mended(case: Case) -> Case:
    """The case as it is declared once what can be mended has been."""
    if case["deletes"] == "undeclared":
        case = case.but(deletes="bare")
    return case.but(truncate="apply") if case["truncate"] == "quarantine" else case


def expected_when_mended(case: Case, files: Iterable[File]) -> Expected:
    """What must come of them once the causes are mended and the quarantine has been replayed."""
    after = mended(case)

    def well(event: Event) -> Event:
        if event.kind != "bad" or case["bad"] not in ("unknown_id", "unavailable", "out_of_range"):
            return event
        assert event.row is not None
        row = {**event.row, "n": 3_000_000_000} if case["bad"] == "out_of_range" else event.row
        is_mended = case["bad"] != "out_of_range" or case.encoding == "plain"
        return replace(event, kind="u" if case["bad"] == "unavailable" else "c", row=row) if is_mended else event

    return expected(after, [replace(file, events=tuple(map(well, file.events))) for file in files])


# Order


def _ranked(case: Case, changes: Sequence[Event]) -> list[tuple[Place, Event]]:
    """The changes in the order in which they count: by their place, then by their offset.

    A change that says no place stands behind what was written to its partition before it, of its row or to all.
    """
    ranked = []
    for event in changes:
        rank = _rank(case, event)
        if rank is None:
            before = [
                found
                for other in changes
                if other.partition == event.partition and other.offset < event.offset
                and (other.key == event.key or other.kind == "t")
                and (found := _rank(case, other)) is not None
            ]  # fmt: skip
            rank = max(before, default=(-1, 0))
        ranked.append((rank, event))
    return sorted(ranked, key=lambda item: (item[0], item[1].offset, item[1].partition))


def _rank(case: Case, event: Event) -> Place | None:
    """The change's place by what its event says; None where it says none."""
    if event.place is None or event.kind == "tombstone":
        return None
    if case["database"] == "order_column":
        assert event.row is not None
        return event.row["version"], 0
    is_coarse = case["database"] == "order_ts" or (
        case["database"] in ("mariadb", "mysql") and case["optional"] == "without"
    )
    return (event.place // 2, 0) if is_coarse else (event.place, event.serial)


_Rows = list[tuple[Key, Mapping[str, Any]]]
_Gone = dict[Key, Mapping[str, Any] | None]


def _folded(case: Case, changes: Sequence[Event]) -> tuple[_Rows, _Gone]:
    rows: dict[Key, Mapping[str, Any]] = {}
    left: dict[Key, Mapping[str, Any]] = {}
    gone: _Gone = {}
    for _, event in _ranked(case, changes):
        if event.kind == "t":
            gone |= dict.fromkeys(rows)
            rows.clear()
            continue
        assert event.key is not None
        if event.kind in ("d", "tombstone"):
            # A delete that is sent again finds nothing.
            if event.key in rows:
                left[event.key] = rows.pop(event.key)
            gone[event.key] = _left_of(case, event)
            continue
        assert event.row is not None
        older = left[event.moved_from] if event.moved_from in left else rows.get(event.key, {})
        lacking = {name: older[name] for name, value in event.row.items() if value is UNAVAILABLE}
        rows[event.key] = {**event.row, **lacking}
        gone.pop(event.key, None)
    return list(rows.items()), gone


def _left_of(case: Case, event: Event) -> Mapping[str, Any] | None:
    """What a tombstone shows of a deleted row."""
    if case["database"] == "postgresql":
        return dict.fromkeys(COLUMNS)
    return None if case.is_ordered else event.row


def _appended(case: Case, changes: Sequence[Event]) -> tuple[_Rows, _Gone]:
    """Of a table without a key every record is a row of its own."""
    rows: _Rows = []
    for _, event in _ranked(case, changes):
        if event.kind == "t":
            rows.clear()
        elif event.kind != "d":
            assert event.key is not None and event.row is not None
            rows.append((event.key, event.row))
    return rows, {}


# Counts


def _counts(case: Case, files: Iterable[File]) -> dict[int, Counted]:
    counted: dict[int, Counted] = {}
    known: set[tuple[int, int]] = set()
    by_batch: dict[int, list[Event]] = {}
    for file in files:
        by_batch.setdefault(file.batch, []).extend(file.events)
    in_order = case["delivery"] in ("one", "batches")
    for batch, events in sorted(by_batch.items()):
        fates = Counter(
            "duplicate" if event.at in known and fate == "quarantined" else fate
            for event in events
            for fate in [fate_of(case, event)[0]]
        )
        known |= {event.at for event in events}
        changes = [event for event in events if fate_of(case, event)[0] == "change"]
        applied = _applied(case, changes) if in_order else None
        # A row that a snapshot reads amid the stream may be the change before it once more: superseded or duplicate.
        is_exact = applied is not None and case["snapshot"] != "incremental"
        superseded = len(changes) - applied if applied is not None and is_exact else None
        ignored = fates["ignored"] + _said_again(changes)
        if superseded is not None:
            superseded -= _said_again(changes)
        counted[batch] = Counted(len(events), ignored, fates["quarantined"], applied, superseded)
    return counted


def _said_again(changes: Sequence[Event]) -> int:
    """How many tombstones of a batch stand right behind another delete of their row, and say nothing more."""
    of_key: dict[Key | None, list[Event]] = {}
    for event in sorted(changes, key=lambda event: event.at):
        of_key.setdefault(event.key, []).append(event)
    return sum(
        event.kind == "tombstone" and before.kind in ("d", "tombstone")
        for events in of_key.values()
        for before, event in pairwise(events)
    )


def _applied(case: Case, changes: Sequence[Event]) -> int:
    """How many changes of a batch reach silver, where none of it comes late: the last of each key, and truncates."""
    ranked = _ranked(case, changes)
    truncates = [rank for rank, event in ranked if event.kind == "t"]
    kept = [
        event.at if case["keys"] == "none" else event.key
        for rank, event in ranked
        if event.kind != "t" and (not truncates or rank > max(truncates))
    ]
    return len(set(kept)) + len(truncates)
