"""Two processes of one lake, each with a catalog of its own, write one table: silver's own, or a companion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import DbtProject, new_project, pg, table_of
from killing import Child, child_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROUNDS, EVENTS = 6, 3
# Lands whatever is there whenever it is told to; and says how many events of its table wait in the quarantine.
LANDS_AND_COUNTS = """
import sys
from pathlib import Path
from ingest.config.sources_file import load_sources
from ingest.config.project import Project
from ingest.landing.run import land
from ingest.silver import quarantine
from ingest.spark.session import open_session
project = Project.load(Path(sys.argv[1]))
(source,) = load_sources(project).values()
spark = open_session(project)
print("ready", flush=True)
for line in sys.stdin:
    if line.strip():
        rows = quarantine.events(spark, source).groupBy("source_table").count().collect()
        print(" ".join(f"{row['source_table']}={row['count']}" for row in sorted(rows)), flush=True)
        continue
    for landed in land(spark, source.tables):
        done, ever = landed.counts, landed.totals
        told = f"failed {landed.error.message}" if landed.error else f"{done.read} {done.quarantined} {ever.read}"
        print(told, flush=True)
"""


@pytest.fixture
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, DbtProject]:
    """Two sources of one schema, in projects of their own, by the name of their only table."""
    monkeypatch.setenv("LAKE_ROOT", str(tmp_path / "warehouse"))
    first = new_project(tmp_path, name="item")
    second = replace(new_project(tmp_path, name="sale"), schema=first.schema)
    for project in (first, second):
        columns, limit = {"id": "int", "v": "int"}, {"share": 1.0}
        project.declare({"tables": [table_of(project.source_name, columns, ["id"], quarantine_limit=limit)]})
    return {project.source_name: project for project in (first, second)}


@contextmanager
def children_of(projects: Mapping[str, DbtProject], where: Path) -> Iterator[dict[str, Child]]:
    """A process for each, with a home of its own."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(child_of(LANDS_AND_COUNTS, project.root, where / f"home_{name}"))
            for name, project in projects.items()
        }


@pytest.fixture
def children(projects: dict[str, DbtProject], tmp_path: Path) -> Iterator[dict[str, Child]]:
    with children_of(projects, tmp_path) as found:
        yield found


def test_two_runs_of_one_source_land_each_event_once(projects: dict[str, DbtProject], tmp_path: Path) -> None:
    project = projects["item"]
    with children_of({"one": project, "other": project}, tmp_path) as runs:
        for number in range(1, ROUNDS + 1):
            at = number * EVENTS
            project.deliver("shop.item", at, [pg("u", at + each, id=each, v=at) for each in range(EVENTS)])
            for run in runs.values():
                run.tell()
            told = [run.answer() for run in runs.values()]
            assert not any(text.startswith("failed") for text in told), told
            counted = [tuple(map(int, text.split())) for text in told]
            assert sum(read for read, _, _ in counted) == EVENTS, "each event is landed by one of them"
            assert max(ever for _, _, ever in counted) == number * EVENTS


def test_what_two_processes_quarantine_at_one_moment_is_all_there(
    projects: dict[str, DbtProject], children: dict[str, Child]
) -> None:
    for number in range(ROUNDS):
        for name, project in projects.items():
            bad = [f"{{broken {number} {event}" for event in range(EVENTS - 1)]
            project.deliver(f"shop.{name}", number * EVENTS, [pg("c", number, id=number, v=1), *bad])
        # The first of them makes the table.
        for child in children.values():
            child.tell()
        assert {child.answer() for child in children.values()} == {f"{EVENTS} {EVENTS - 1} {(number + 1) * EVENTS}"}
    for child in children.values():
        child.tell("count")
    counted = " ".join(f"{name}={ROUNDS * (EVENTS - 1)}" for name in sorted(projects))
    assert {child.answer() for child in children.values()} == {counted}
