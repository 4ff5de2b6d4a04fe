"""After any history, delivery, repetition and batch cut silver equals the source: random ones, against a plain model.

A failure is made small and printed with its events (tests/histories.py writes them).
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import count, takewhile
from pathlib import Path
from typing import Any, Literal

import pytest
from conftest import DbtProject, new_project
from histories import KEYS, TOAST, WRITTEN, Change, File, Key, Spec, delivered, event, history, meant, source_rows
from pyspark.sql import SparkSession

from ingest.operations.replay import replay
from ingest.schema.connectors import UNAVAILABLE_VALUE

pytestmark = pytest.mark.spark


def faults(spark: SparkSession, where: Path, tables: Mapping[str, tuple[Spec, Sequence[File]]]) -> dict[str, list[str]]:
    """Lands the tables side by side, drains their quarantine, and says what differs from the source, by table."""
    project = new_project(where, {"tables": [spec.declaration(name) for name, (spec, _) in tables.items()]})
    found: dict[str, list[str]] = {name: [] for name in tables}
    batches = 1 + max(file.batch for _, files in tables.values() for file in files)
    for number in range(batches):
        fed = []
        for name, (spec, files) in tables.items():
            now = [file for file in files if file.batch == number]
            for file in now:
                _write(project, name, spec, file, number)
            fed += [name] if now else []
        for name, landed in (project.land(spark, *fed) if fed else {}).items():
            counts = asdict(landed.counts)
            if landed.error:
                found[name].append(f"batch {number}: {landed.error.message}")
            elif counts["read"] != sum(counts.values()) - counts["read"]:
                found[name].append(f"batch {number}: not conserved: {counts}")
    for name, (spec, files) in tables.items():
        if not found[name]:
            found[name] += _differences(spark, project, name, spec, files)
    return found


def _write(project: DbtProject, name: str, spec: Spec, file: File, batch: int) -> None:
    path = project.bronze / f"shop.{name}" / f"shop.{name}+{file.partition}+{file.offset:010d}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(event(change, spec))}\n" for change in file.changes), encoding="utf-8")
    os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))  # a file that is written again is another file


def _differences(
    spark: SparkSession, project: DbtProject, name: str, spec: Spec, files: Sequence[File]
) -> Iterator[str]:
    declared = project.source().choose([name])[0]
    waiting = project.state(spark, name).totals.quarantined
    while waiting:
        replay(spark, declared)
        left = project.state(spark, name).totals.quarantined
        if left == waiting:
            reasons = [row["reason"] for row in project.quarantined(spark) if row["source_table"] == name]
            yield f"{left} events stay in the quarantine: {reasons[:3]}"
            break
        waiting = left
    rows, gone = source_rows(change for file in files for change in file.changes)
    expected: dict[Key, dict[str, Any] | None] = dict.fromkeys(gone)
    for key, row in rows.items():
        expected[key] = {column: meant(row[column], kind, spec.connector)
                         for column, kind in {**spec.values, **TOAST}.items()}  # fmt: skip
    found: dict[Key, dict[str, Any] | None] = {}
    keys = list(KEYS[spec.key])
    for row in project.rows(spark, name, *spec.columns, "__deleted", live=False):
        key = tuple(row.pop(column) for column in keys)
        if key in found:
            yield f"{key} is there more than once"
        found[key] = None if row.pop("__deleted") == "true" else row
    for key in sorted(expected.keys() | found.keys(), key=repr):
        # What a truncate removed within the batch that brought it never was in silver.
        if spec.truncates and key not in found and expected[key] is None:
            continue
        if key not in found or key not in expected or found[key] != expected[key]:
            yield f"{key}: expected {expected.get(key, 'nothing')}, found {found.get(key, 'nothing')}"
    totals = asdict(project.state(spark, name).totals)
    if totals["read"] != sum(len(file.changes) for file in files):
        yield f"{sum(len(file.changes) for file in files)} events were delivered: {totals}"
    if totals["read"] != sum(totals.values()) - totals["read"]:
        yield f"totals are not conserved: {totals}"


# Failures made small


def smallest(
    spark: SparkSession, where: Path, spec: Spec, files: Sequence[File], *, rounds: int = 14
) -> tuple[Sequence[File], list[str]]:
    """The smallest delivery found that still fails: without cases first, then without single changes."""
    told: list[str] = []

    def units(files: Sequence[File]) -> tuple[list[Any], Callable[[Change], Any]]:
        cases = sorted({change.case for file in files for change in file.changes})
        if len(cases) > 1:
            return cases, lambda change: change.case
        return sorted({change.place for file in files for change in file.changes}), lambda change: change.place

    parts = 2
    for number in range(rounds):
        names, unit_of = units(files)
        candidates: dict[str, tuple[Spec, Sequence[File]]] = {}
        size = -(-len(names) // parts)
        chunks = [set(names[start : start + size]) for start in range(0, len(names), size)]
        for chunk in [set(names) - chunk for chunk in chunks if parts == 2] + chunks:
            kept = _without(files, unit_of, chunk)
            if kept and _is_possible(kept):
                candidates[f"candidate_{len(candidates)}"] = (spec, kept)
            if len(candidates) == 8:
                break
        results = faults(spark, where / f"round_{number}", candidates) if candidates else {}
        failing = [name for name, differences in results.items() if differences]
        if failing:
            best = min(failing, key=lambda name: sum(len(file.changes) for file in candidates[name][1]))
            files, told, parts = candidates[best][1], results[best], 2
        elif size <= 1:
            break
        else:
            parts = min(len(names), parts * 2)
    return files, told


def _without(files: Sequence[File], unit_of: Callable[[Change], Any], dropped: set[Any]) -> list[File]:
    kept = (
        replace(file, changes=tuple(change for change in file.changes if unit_of(change) not in dropped))
        for file in files
    )
    return [file for file in kept if file.changes]


def _is_possible(files: Sequence[File]) -> bool:
    try:
        source_rows(change for file in files for change in file.changes)
    except LookupError:
        return False
    return True


def _shown(spec: Spec, files: Sequence[File]) -> str:
    lines = [f"table {spec.name}: {spec}"]
    for file in sorted(files, key=lambda file: (file.batch, file.partition, file.offset)):
        lines.append(f"batch {file.batch}, partition {file.partition}, offset {file.offset}")
        lines += [f"  [{change.place}] {json.dumps(event(change, spec))}" for change in file.changes]
    return "\n".join(lines)


# The tables


def specs(seed: int, cases: int) -> list[Spec]:
    """The tables of a run: every connector, table type and form of key, with columns of random types."""
    rng = random.Random(f"columns {seed}")  # noqa: S311

    def columns() -> dict[str, str]:
        return {f"v{number}": kind for number, kind in enumerate(rng.sample(list(WRITTEN), rng.randint(2, 4)))}

    made = [
        Spec("text_mor", "postgresql", "mor", "text", cases=cases),
        Spec("int_cow", "postgresql", "cow", "int", partitions=3, cases=cases, late=True),
        Spec("composite_mor", "postgresql", "mor", "composite", partitions=2, cases=cases, late=True),
        Spec("truncated_mor", "postgresql", "mor", "int", cases=cases, truncates=True),
        Spec("mariadb_mor", "mariadb", "mor", "composite", partitions=2, cases=cases, late=True),
        Spec("sqlserver_cow", "sqlserver", "cow", "int", cases=cases, late=True),
    ]
    return [replace(spec, values=columns()) for spec in made]


def run(spark: SparkSession, where: Path, seed: int, *, cases: int, batches: int, among: str = "") -> int:
    """Plays one seed with the tables whose names a pattern finds; the number of cases.

    Fails with the smallest failing delivery found.
    """
    tables: dict[str, tuple[Spec, Sequence[File]]] = {}
    for spec in (spec for spec in specs(seed, cases) if re.search(among, spec.name)):
        rng = random.Random(f"{spec.name} {seed}")  # noqa: S311
        tables[spec.name] = (spec, delivered(spec, history(spec, rng), rng, batches))
    results = faults(spark, where / "all", tables)
    for name, told in results.items():
        if told:
            spec, files = tables[name]
            small, of_small = smallest(spark, where / name, spec, files)
            differences = "\n".join((of_small or told)[:10])
            pytest.fail(f"seed {seed}: silver differs from the source\n{differences}\n{_shown(spec, small)}")
    return cases * len(tables)


@pytest.mark.parametrize(("among", "batches"), [("text|mariadb", 2), pytest.param("", 3, marks=pytest.mark.slow)])
def test_silver_equals_the_source_after_any_history_and_delivery(
    among: str, batches: int, spark: SparkSession, tmp_path: Path
) -> None:
    assert run(spark, tmp_path, 1, cases=25, batches=batches, among=among)


def _change(
    place: int, op: Literal["c", "u", "d", "r"], key: int, lsn: int | None, commit: int | None, *values: Any,
    moved_from: Key | None = None,
) -> Change:  # fmt: skip
    position = {"__lsn": lsn, "__source_sequence": json.dumps([commit and str(commit), str(lsn)])} if lsn else {}
    row = dict(zip(("v", *TOAST), values, strict=True))
    return Change(place, 1, (1, key), op, row, position, moved_from)


_AWAY = UNAVAILABLE_VALUE
_OPEN = (
    _change(2, "d", 1, 95, None, None, "", ""),
    _change(3, "c", 2, 95, None, 2, _AWAY, _AWAY, moved_from=(1, 1)),
)
# Smallest deliveries of a PostgreSQL table after which silver once differed: files that come late, or cut a key change.
MENDED: Mapping[str, list[File]] = {
    "a quarantined update does not hide the value of one before it": [
        File(0, 1, (_change(1, "u", 1, 20, 15, 2, "B1", _AWAY), _change(2, "u", 1, 30, 25, 3, _AWAY, _AWAY)), 0),
        File(0, 0, (_change(0, "c", 1, 10, 5, 1, "B0", "N0"),), 1),
    ],
    "an event that is set aside from two deliveries is counted once": [
        File(0, 1, (_change(1, "u", 1, 20, 15, 2, "B", _AWAY),), 0),
        File(0, 1, (_change(1, "u", 1, 20, 15, 2, "B", _AWAY),), 1),
        File(0, 0, (_change(0, "c", 1, 10, 5, 1, "B0", "N0"),), 2),
    ],
    "a row of an incremental snapshot that comes late loses": [
        File(0, 1, (_change(1, "u", 1, 50, 45, 9, "B", "N"), _change(2, "c", 2, 60, 55, 2, "B", "N")), 0),
        File(0, 0, (_change(0, "r", 1, None, None, 1, "A", "N"),), 1),
    ],
    "a change that comes late, from before a row of an incremental snapshot, loses": [
        File(0, 1, (_change(1, "r", 1, None, None, 2, "B", "N"),), 0),
        File(0, 0, (_change(0, "c", 1, 10, 5, 1, "A", "N"),), 1),
    ],
    "a changed key is one, though its delete and create come in two batches": [
        File(0, 0, (_change(0, "c", 1, 10, 5, 1, "B0", "N0"),), 0),
        File(0, 1, (_change(1, "d", 1, 20, 15, None, "", ""),), 1),
        File(0, 2, (_change(2, "c", 2, 20, 15, 1, _AWAY, "N0", moved_from=(1, 1)),), 2),
    ],
    "a changed key keeps its row's value where the new key's own row was deleted since": [
        File(
            0,
            0,
            (
                _change(0, "c", 1, 10, 5, 1, "B1", "N1"),
                _change(1, "c", 2, 20, 15, 2, "B2", "N2"),
                _change(2, "d", 2, 30, 25, None, "", ""),
                _change(3, "d", 1, 40, 35, None, "", ""),
                _change(4, "c", 2, 40, 35, 1, _AWAY, "N1", moved_from=(1, 1)),
            ),
            0,
        ),
    ],
    "a late change of a deleted row brings nothing to the row that took its key": [
        File(0, 0, (_change(0, "c", 1, 10, 5, 1, "B1", "N1"),), 0),
        File(
            0,
            2,
            (
                _change(3, "d", 2, 30, 25, None, "", ""),
                _change(4, "d", 1, 40, 35, None, "", ""),
                _change(5, "c", 2, 40, 35, 1, _AWAY, "N1", moved_from=(1, 1)),
                _change(6, "u", 2, 50, 45, 3, _AWAY, "N1"),
            ),
            0,
        ),
        File(0, 1, (_change(1, "c", 2, 20, 15, 2, "B2", "N2"), _change(2, "u", 2, 25, 21, 2, "B3", "N2")), 1),
    ],
    "a key that a transaction changed which was open during the snapshot takes its values along": [
        File(0, 0, (_change(0, "r", 1, 100, None, 1, "A", "N"), _change(1, "u", 1, 90, None, 2, _AWAY, _AWAY)), 0),
        File(0, 2, (*_OPEN,), 1),
    ],
    "the same, in the batch of the snapshot": [
        File(0, 0, (_change(0, "r", 1, 100, None, 1, "A", "N"), _change(1, "u", 1, 90, None, 2, _AWAY, _AWAY)), 0),
        File(0, 2, (*_OPEN,), 0),
    ],
    "the same, and the old key is a row again": [
        File(0, 0, (_change(0, "r", 1, 100, None, 1, "A", "N"), _change(1, "u", 1, 90, None, 2, _AWAY, _AWAY)), 0),
        File(0, 2, (*_OPEN, _change(4, "c", 1, 97, None, 5, "B", "N")), 1),
    ],
    "a snapshot that comes after a change of a transaction it saw open loses": [
        File(0, 1, (_change(1, "u", 1, 90, None, 9, "B", "N"),), 0),
        File(0, 0, (_change(0, "r", 1, 100, None, 1, "A", "N"),), 1),
    ],
    # A blocking snapshot of the task that made the slot gives its rows the LSN of that, however long ago.
    "a blocking snapshot heals what was lost, with its rows at the place where the slot began": [
        File(0, 0, (_change(0, "r", 1, 50, None, 1, "A", "N"), _change(1, "u", 1, 90, 85, 2, "B", "N")), 0),
        File(0, 2, (_change(2, "r", 1, 50, 95, 3, "C", "N"),), 1),
        File(0, 3, (_change(3, "u", 1, 101, 95, 4, "D", "N"),), 2),
    ],
    "the same, in one batch": [
        File(0, 0, (_change(0, "r", 1, 50, None, 1, "A", "N"), _change(1, "u", 1, 90, 85, 2, "B", "N")), 0),
        File(0, 2, (_change(2, "r", 1, 50, 95, 3, "C", "N"),), 0),
    ],
    **{
        f"what comes after a blocking snapshot counts, {told}": [
            File(0, 0, (_change(0, "c", 1, 90, 85, 1, "A", "N"), _change(1, "c", 2, 91, 85, 1, "A", "N")), 0),
            File(0, 2, (_change(2, "r", 1, 100, None, 1, "A", "N"), _change(3, "r", 2, 100, None, 1, "A", "N")), read),
            # The commit before is from before the snapshot; key 2 was written before it as well, and not committed.
            File(0, 4, (_change(4, "u", 2, 98, 95, 2, "B", _AWAY), _change(5, "u", 1, 105, 95, 2, "B", _AWAY)), at),
            File(0, 6, (_change(6, "u", 2, 109, 95, 3, _AWAY, "O"), _change(7, "u", 1, 120, 110, 3, _AWAY, "O")), then),
        ]
        for told, read, at, then in (
            ("in one batch", 0, 0, 0),
            ("in its own", 1, 2, 3),
            ("in the next", 0, 1, 1),
            ("before its rows", 1, 0, 2),
        )
    },
}


@pytest.fixture(scope="module")
def differing(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    spec = Spec("differing", "postgresql", "cow", "int", values={"v": "int"})
    tables = {f"t{number}": (spec, files) for number, files in enumerate(MENDED.values())}
    found = faults(spark, tmp_path_factory.mktemp("differing"), tables)
    return dict(zip(MENDED, found.values(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("delivery", MENDED)
def test_a_delivery_that_once_differed(delivery: str, differing: dict[str, list[str]]) -> None:
    assert differing[delivery] == []


@pytest.mark.long
@pytest.mark.timeout(2 * 3600)
def test_many_more_histories(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As many as there is time for: LAKE_HISTORIES_MINUTES, by default 45. Prints how many cases an hour are played."""
    started, cases = time.monotonic(), 0
    ends = started + 60 * float(os.environ.get("LAKE_HISTORIES_MINUTES", "45"))
    for seed in takewhile(lambda _: time.monotonic() < ends, count(100)):
        cases += run(spark, tmp_path / str(seed), seed, cases=150, batches=random.Random(seed).randint(2, 12))  # noqa: S311
    hours = (time.monotonic() - started) / 3600
    with capsys.disabled():
        print(f"\n{cases:,} cases in {hours * 60:.0f} min: {cases / hours:,.0f} cases an hour")  # noqa: T201
