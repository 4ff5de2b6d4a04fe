"""Notes of a source whose log is random: what is delivered of it, and which changes and versions must come of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from conftest import Row, pg

from ingest.schema.connectors import UNAVAILABLE_VALUE

NOTES = {"note_id": "int", "title": "string", "body": "string"}
START = datetime(2026, 1, 31, 23, 59)


def note(op: str, lsn: int | None, note_id: int, title: str | None, body: str | None = "b", **more: Any) -> Row:
    """An event of the table of notes, made a second for each step of the log after the start."""
    made = START + timedelta(seconds=lsn or 0)
    milliseconds = int((made - datetime(1970, 1, 1)).total_seconds() * 1000)
    return {**pg(op, lsn, note_id=note_id, title=title, body=body, **more), "__source_ts_ms": milliseconds}


def lacking(op: str, lsn: int, note_id: int, title: str | None, **more: Any) -> Row:
    """An event without its body, which PostgreSQL did not log again."""
    return note(op, lsn, note_id, title, UNAVAILABLE_VALUE, **more)


def truncate(lsn: int) -> Row:
    """A truncate of the source table, as an envelope."""
    made = note("u", lsn, 0, None)
    source = {"db": "shop", "table": "note", "ts_ms": made["__source_ts_ms"], "lsn": lsn}
    source["sequence"] = made["__source_sequence"]
    return {"before": None, "after": None, "source": source, "op": "t", "ts_ms": 2}


Values = tuple[str, str | None] | None
Change = tuple[int, str, Values]


@dataclass(frozen=True)
class Case:
    """A source's log, what is delivered of it batch by batch, and the changes and versions that must come of it."""

    batches: Sequence[Sequence[Row]]
    changes: Sequence[tuple[Any, ...]]
    versions: Sequence[tuple[Any, ...]]


def random_case(seed: int, rows: int = 8, changes: int = 120, batches: int = 3) -> Case:
    """Changes of a few rows, delivered in any order, a third of them twice, cut into batches anywhere."""
    rng = random.Random(seed)  # noqa: S311
    live: dict[int, tuple[str, str | None]] = {}
    log: list[Row] = []
    told: dict[int, list[Change]] = {n: [] for n in range(rows)}
    for place in range(1, changes + 1):
        lsn, note_id = place * 10, rng.randrange(rows)
        if place in (changes // 3, changes // 2):
            log.append(truncate(lsn))
            for gone in live:
                told[gone].append((lsn, "t", None))
            live.clear()
        elif note_id in live and rng.random() < 0.2:
            log.append(note("d", lsn, note_id, None, ""))
            told[note_id].append((lsn, "d", None))
            del live[note_id]
        else:
            op, (title, body) = ("u", live[note_id]) if note_id in live else ("c", ("", None))
            title = rng.choice("abc")
            if op == "c" or rng.random() < 0.4:
                body = rng.choice(("long", "longer", None))
                log.append(note(op, lsn, note_id, title, body, commit=lsn - 5))
            else:
                log.append(lacking(op, lsn, note_id, title, commit=lsn - 5))
            live[note_id] = (title, body)
            told[note_id].append((lsn, op, live[note_id]))
    delivered = [*log, *rng.sample(log, len(log) // 3)]
    rng.shuffle(delivered)
    cuts = sorted(rng.sample(range(1, len(delivered)), batches - 1))
    parts = [delivered[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
    return Case(
        parts,
        [change for note_id in told for change in changes_of(note_id, told[note_id])],
        [version for note_id in told for version in versions_of(note_id, told[note_id])],
    )


def changes_of(note_id: int, told: Sequence[Change]) -> list[tuple[Any, ...]]:
    """Each change of a row: its place in the log, what it is, the values before it and after it."""
    before = [None, *(values for _, _, values in told)]
    return [(note_id, lsn, op, *(old or (None,) * 2), *(new or (None,) * 2))
            for old, (lsn, op, new) in zip(before, told, strict=False)]  # fmt: skip


def versions_of(note_id: int, told: Sequence[Change]) -> list[tuple[Any, ...]]:
    """What a row was, from where in the log to where; changes that change nothing are no versions."""
    starts = [item for before, item in zip([(0, "", None), *told], told, strict=False) if item[2] != before[2]]
    ends = [lsn for lsn, _, _ in starts[1:]] + [None]
    return [(note_id, *values, start, end) for (start, _, values), end in zip(starts, ends, strict=True) if values]


def lsn(position: str | None) -> int | None:
    """The LSN of a change; of a row read by a snapshot that of the snapshot."""
    if position is None:
        return None
    commit, own = position.split(".")[1:]
    return int(own, 16) or int(commit, 16)
