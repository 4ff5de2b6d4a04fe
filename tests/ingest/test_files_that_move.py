"""Folders and files that come and go while they are landed: what passes is tried again, and nothing is lost."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import DbtProject, MakeProject, chosen, pg, table_of, unwrapped
from continuously import landing, wait_until
from pyspark.sql import SparkSession

from ingest.errors import UnavailableError
from ingest.landing import continuous
from ingest.landing.run import land
from ingest.landing.table import Landed
from ingest.silver.state import Counts

pytestmark = pytest.mark.spark

TOPIC = "shop.note"


@pytest.fixture
def project(make_project: MakeProject) -> DbtProject:
    """A project of one table."""
    return make_project({"tables": [table_of("note", {"id": "int"}, ["id"])]})


@pytest.mark.slow
def test_a_folder_that_is_not_there_is_landed_once_it_is(
    project: DbtProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink makes it with its first file, and a disk may be away for a while."""
    monkeypatch.setattr(continuous, "_LISTED_EVERY_S", 0.1)
    monkeypatch.setattr(continuous, "_LONGEST_PAUSE_S", 1.0)
    folder, away = project.bronze / TOPIC, project.bronze / "away"
    with landing(spark, project.source().tables) as run:
        wait_until(lambda: run.progress["note"].state == "retrying", "there is no folder yet")
        assert "there is no such folder" in str(run.progress["note"].error)
        project.deliver(TOPIC, 0, [pg("c", 1, id=1)])
        wait_until(lambda: run.progress["note"].totals.applied == 1, "it has come")
        folder.rename(away)
        wait_until(lambda: run.progress["note"].state == "retrying", "it is away")
        away.rename(folder)
        project.deliver(TOPIC, 1, [pg("c", 2, id=2)])
        wait_until(lambda: run.progress["note"].totals.applied == 2, "it is back")
        wait_until(lambda: run.progress["note"].state == "waiting", "all is well")
    assert not run.failed
    assert project.rows(spark, "note") == [{"id": 1}, {"id": 2}]


@pytest.mark.slow
def test_a_file_that_goes_while_it_is_landed_may_come_back(project: DbtProject, spark: SparkSession) -> None:
    """Whoever moves files to another folder, or gives them another name, may do so between the list and the read."""
    project.deliver(TOPIC, 0, [pg("c", 1, id=1)])
    moved = project.deliver(TOPIC, 1, [pg("c", 2, id=2)])

    def landed(*, moves: Path | None) -> Landed:
        def move(_table: str, stage: str, _detail: str) -> None:
            if moves and stage == "land":
                moves.rename(project.bronze / "moved")

        return land(spark, project.source().tables, progress=move)[0]

    first = landed(moves=moved)
    assert isinstance(first.error, UnavailableError)
    assert f"1 of 2 files have gone since the folder was listed: file:{moved}" in first.error.message
    assert landed(moves=None).counts == Counts(read=1, applied=1)
    (project.bronze / "moved").rename(moved)
    assert landed(moves=None).counts == Counts(read=1, applied=1)
    assert project.rows(spark, "note") == [{"id": 1}, {"id": 2}]


CHANGES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "a transaction that was open, behind a snapshot": (
        {},
        [
            [pg("c", 10, id=1, note="a"), pg("u", 20, id=1, note="b")],
            [pg("u", 50, id=1, note="c")],
            [pg("r", 100, id=1, note="last")],
        ],
    ),
    "a row that an incremental snapshot has read": (
        {},
        [[pg("r", None, id=1, note="read")], [pg("u", 50, id=1, note="last")]],
    ),
    "changes that tie": (
        {"order_by": ["n"], "connector": None},
        [[unwrapped("c", {}, {"id": 1, "note": note, "n": 5})] for note in ("first", "last")],
    ),
}


@pytest.mark.parametrize("name", chosen(CHANGES, "changes that tie"))
def test_a_file_that_gets_another_time_brings_nothing_back(
    name: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """A copy, a restore and an upload once more give it one: what is in it is no newer for that."""
    options, batches = CHANGES[name]
    columns = {"id": "int", "note": "string", "n": "int"}
    project = make_project({"tables": [table_of("note", columns, ["id"], **options)]})
    folder = project.bronze / TOPIC
    folder.mkdir(parents=True)
    now = time.time()
    for number, events in enumerate(batches):
        path = folder / f"a +%{number}.json"
        path.write_text("\n".join(json.dumps(event) for event in events) + "\n", encoding="utf-8")
        os.utime(path, (now - 1000 + number, now - 1000 + number))
        project.land_well(spark)
    assert project.rows(spark, "note", "note") == [{"note": "last"}]
    for later in (500, 100):
        os.utime(folder / "a +%0.json", (now - later, now - later))
        assert project.land_well(spark)["note"].counts.read == len(batches[0])
        assert project.rows(spark, "note", "note") == [{"note": "last"}]
