"""Jobs beside ingest, and events that come back: tombstones purged, positions set, the quarantine replayed."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlparse

import pytest
from conftest import MakeProject, pg, table_of, unwrapped
from continuously import landing, wait_until
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest.errors import DeclarationError, QuarantineError, WriteError
from ingest.landing.run import land
from ingest.operations.erase import erase
from ingest.operations.position import set_position
from ingest.operations.purge import purge
from ingest.operations.replay import replay
from ingest.schema.connectors import UNAVAILABLE_VALUE
from ingest.silver import quarantine
from ingest.silver.change_log import changes_of
from ingest.silver.compaction import compact
from ingest.silver.state import Counts
from ingest.silver.table import SilverTable

pytestmark = pytest.mark.spark
TABLE_TYPES = (pytest.param("cow", marks=pytest.mark.slow), "mor")


def notes(**options: Any) -> dict[str, Any]:
    return table_of("note", {"note_id": "int", "title": "string", "body": "string"}, ["note_id"], **options)


def item(kind: str, **options: Any) -> dict[str, Any]:
    """A declaration: where `v` is an int, values of more than 32 bits are quarantined."""
    return {"tables": [table_of("item", {"id": "int", "v": kind}, ["id"], **options)]}


def note(op: str, lsn: int, note_id: int, title: str | None, body: str | None = "b") -> dict[str, Any]:
    return pg(op, lsn, note_id=note_id, title=title, body=body)


@pytest.mark.parametrize("table_type", TABLE_TYPES)
def test_purged_tombstones_do_not_let_older_events_back_in(
    table_type: str, make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project({"tables": [notes(deletes="hard", delete_retention_days=7, table_type=table_type)]})
    (table,) = project.source().tables
    project.deliver("shop.note", 0, [note("c", 10, 1, "a"), note("c", 20, 2, "a"), note("d", 30, 1, None, None)])
    project.land_well(spark)
    assert purge(spark, table) == 0  # younger than seven days
    assert purge(spark, table, datetime.now(UTC) + timedelta(days=8)) == 1
    assert project.rows(spark, "note", "note_id", "__deleted", live=False) == [{"note_id": 2, "__deleted": "false"}]
    assert project.state(spark, "note").totals == Counts(read=3, applied=2, superseded=1)
    assert project.land_well(spark)["note"].taken == 0, "the position is where it was"
    project.deliver("shop.note", 3, [note("u", 25, 1, "late"), note("c", 40, 1, "new life"), note("u", 15, 3, "late")])
    counts = project.land_well(spark)["note"].counts
    assert counts == Counts(read=3, applied=1, superseded=1, quarantined=1)
    assert project.rows(spark, "note", "note_id", "title") == [
        {"note_id": 1, "title": "new life"},
        {"note_id": 2, "title": "a"},
    ]
    (set_aside,) = project.quarantined(spark)
    assert "purged" in set_aside["reason"]
    assert b'"title":"late"' in bytes(set_aside["raw"])


@pytest.mark.slow
@pytest.mark.parametrize("table_type", TABLE_TYPES)
def test_a_snapshots_row_comes_back_behind_purged_tombstones_and_one_from_before_them_does_not(
    table_type: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """Hudi's logs know the place of what was purged: a row without one lost against it, and was counted as applied."""
    options = {"deletes": "hard", "delete_retention_days": 7, "table_type": table_type}
    project = make_project({"tables": [notes(**options)]})
    (table,) = project.source().tables
    read_before, read_since = (pg("r", None, note_id=1, title=title, body="b") for title in ("before", "since"))
    project.deliver("shop.note", 0, [note("c", 10, 1, "a"), note("c", 20, 2, "a")])
    project.deliver("shop.note", 5, [note("d", 30, 1, None, None)])
    project.land_well(spark)
    assert purge(spark, table, datetime.now(UTC) + timedelta(days=8)) == 1
    project.deliver("shop.note", 2, [read_before, note("d", 30, 1, None, None)])
    assert project.land_well(spark)["note"].counts == Counts(read=2, superseded=2), "a delete brings nothing back"
    project.deliver("shop.note", 7, [note("d", 30, 1, None, None)])
    assert project.land_well(spark)["note"].counts == Counts(read=1, superseded=1)
    project.deliver("shop.note", 4, [read_before])
    assert project.land_well(spark)["note"].counts == Counts(read=1, quarantined=1)
    assert project.quarantined(spark)[0]["reason_code"] == "purged"
    project.deliver("shop.note", 6, [read_since])
    assert project.land_well(spark)["note"].counts == Counts(read=1, applied=1)
    assert [row["title"] for row in project.rows(spark, "note")] == ["since", "a"]
    assert replay(spark, table).counts == Counts(read=1, superseded=1)
    assert [row["title"] for row in project.rows(spark, "note")] == ["since", "a"]


def test_a_table_of_soft_deletes_is_not_purged(make_project: MakeProject, spark: SparkSession) -> None:
    (table,) = make_project({"tables": [notes()]}).source().tables
    with pytest.raises(DeclarationError, match="deletes: hard with delete_retention_days"):
        purge(spark, table)


@pytest.mark.slow
def test_a_replay_applies_what_can_be_applied_by_now_and_nothing_twice(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """An update without its large value waits for the insert that brings it; a broken line stays broken."""
    project = make_project({"tables": [notes()]})
    (table,) = project.source().tables
    first: list[Any] = [note("u", 20, 1, "second", UNAVAILABLE_VALUE), "{broken", note("c", 5, 9, "other")]
    project.deliver("shop.note", 1, first)
    assert project.land_well(spark)["note"].counts == Counts(read=3, applied=1, quarantined=2)
    assert replay(spark, table).counts == Counts(read=2, quarantined=2), "nothing is mended yet"
    project.deliver("shop.note", 0, [note("c", 10, 1, "first", "long")])
    project.land_well(spark)
    assert replay(spark, table).counts == Counts(read=2, applied=1, quarantined=1)
    assert project.rows(spark, "note") == [
        {"note_id": 1, "title": "second", "body": "long"},
        {"note_id": 9, "title": "other", "body": "b"},
    ]
    assert [row["line"] for row in project.quarantined(spark)] == [1]
    assert project.state(spark, "note").totals == Counts(read=4, applied=3, quarantined=1)
    assert replay(spark, table).counts == Counts(read=1, quarantined=1)
    assert project.state(spark, "note").totals == Counts(read=4, applied=3, quarantined=1)
    assert project.land_well(spark)["note"].taken == 0


@pytest.mark.slow
def test_a_replay_that_is_killed_before_the_quarantine_is_emptied_counts_once(
    make_project: MakeProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one took the events off the quarantined ones again: -1 of them hid as many that came since."""
    project = make_project(item("int"))
    project.deliver("shop.item", 0, [pg("c", 10, id=1, v=1), pg("c", 11, id=2, v=2**40), "{broken"])
    project.land_well(spark)
    project.declare(item("bigint"))
    (table,) = project.source().tables
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(quarantine, "settle", Mock(side_effect=KeyboardInterrupt))
        replay(spark, table)
    project.deliver("shop.item", 3, ["{broken, too"])
    project.land(spark)
    assert replay(spark, table).counts == Counts(read=2, quarantined=2)
    assert project.state(spark, "item").totals == Counts(read=4, applied=2, quarantined=2)
    assert [row["line"] for row in project.quarantined(spark)] == [2, 0]
    assert project.rows(spark, "item", "v") == [{"v": 1}, {"v": 2**40}]


@pytest.mark.slow
@pytest.mark.parametrize("next_is", ["a run", "a replay"])
def test_events_of_a_replay_that_is_rolled_back_wait_again(
    next_is: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """They were in the quarantine no longer, and silver lost them."""
    project = make_project(item("int"))
    project.deliver("shop.item", 0, [pg("c", 10, id=1, v=1), pg("c", 11, id=2, v=2**40), "{broken"])
    project.land_well(spark)
    before = project.quarantined(spark)
    project.declare(item("bigint"))
    (table,) = project.source().tables
    assert replay(spark, table).counts == Counts(read=2, applied=1, quarantined=1)
    project.deliver("shop.item", 3, [pg("c", 12, id=3, v=3)])
    project.land_well(spark)
    # That stays while the commit of the replay does.
    call = "call rollback_to_instant(table => '{}.item', instant_time => '{}')"
    commits = [requested for requested, _ in project.silver(spark, "item").hudi.timeline.instants()]
    spark.sql(call.format(project.schema, commits[0]))
    project.land_well(spark)
    assert [row["line"] for row in project.quarantined(spark)] == [2]
    commits = [requested for requested, _ in project.silver(spark, "item").hudi.timeline.instants()]
    for commit in commits[:2]:
        spark.sql(call.format(project.schema, commit))
    if next_is == "a run":
        assert project.land_well(spark)["item"].counts == Counts(read=1, applied=1)
        assert [row["quarantine_id"] for row in project.quarantined(spark)] == [row["quarantine_id"] for row in before]
        assert project.state(spark, "item").totals == Counts(read=4, applied=2, quarantined=2)
    assert replay(spark, table).counts == Counts(read=2, applied=1, quarantined=1)
    project.land_well(spark)
    assert project.state(spark, "item").totals == Counts(read=4, applied=3, quarantined=1)
    assert project.rows(spark, "item", "v") == [{"v": 1}, {"v": 2**40}, {"v": 3}]
    assert [row["line"] for row in project.quarantined(spark)] == [2]
    assert erase(spark, table, [("2",)]).holding == ()
    assert "_replayed" in [place.name.strip("`").rpartition("`")[2] for place in erase(spark, table, [("3",)]).places]


@pytest.mark.slow
def test_a_replay_that_is_killed_before_its_commit_counts_once(
    make_project: MakeProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was still bad had been set aside anew, and was read once more by the next one."""
    project = make_project(item("int"))
    project.deliver("shop.item", 0, [pg("c", 11, id=2, v=2**40), "{broken"])
    project.land_well(spark)
    project.declare(item("bigint"))
    (table,) = project.source().tables
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SilverTable, "write", Mock(side_effect=KeyboardInterrupt))
        replay(spark, table)
    assert replay(spark, table).counts == Counts(read=2, applied=1, quarantined=1)
    assert project.state(spark, "item").totals == Counts(read=2, applied=1, quarantined=1)


@pytest.mark.slow
def test_a_table_with_replays_is_landed_anew(make_project: MakeProject, spark: SparkSession) -> None:
    """Each run failed, for a commit that was looked for where no table is."""
    project = make_project(item("int"))
    project.deliver("shop.item", 0, [pg("c", 10, id=1, v=1), pg("c", 11, id=2, v=2**40)])
    project.land_well(spark)
    project.declare(item("bigint"))
    (table,) = project.source().tables
    assert replay(spark, table).counts == Counts(read=1, applied=1)
    shutil.rmtree(project.silver(spark, "item").path.removeprefix("file:"))
    assert project.land_well(spark)["item"].counts == Counts(read=2, applied=2)
    # What was replayed waits again, and no commit of this table has counted it.
    assert replay(spark, table).counts == Counts(read=1, duplicate=1)
    assert project.state(spark, "item").totals == Counts(read=3, applied=2, duplicate=1)


@pytest.mark.slow
def test_each_epoch_has_its_own_events_in_the_quarantine(make_project: MakeProject, spark: SparkSession) -> None:
    """A bad event of a topic that was made anew took the place of one that waited; and the database's new name kept
    both from being replayed."""
    project = make_project(item("int"))
    folder = project.bronze / "shop.item"
    for epoch in (0, 1):
        project.declare(item("int", epoch=epoch))
        if epoch:
            shutil.rmtree(folder)
            project.deliver("shop.item", 0, [pg("c", 1, id=9, v=9, __db="shop1")])
            project.land_well(spark)
            shutil.rmtree(folder)
            folder.mkdir()
            set_position(spark, project.source().tables[0], to_latest=False)
        project.deliver("shop.item", 0, [pg("c", 10, id=epoch, v=2**40, __table="item", __db=f"shop{epoch}")])
        project.land_well(spark)
    assert len(project.quarantined(spark)) == 2
    project.declare(item("bigint", epoch=1))
    assert replay(spark, project.source().tables[0]).counts == Counts(read=2, applied=2)
    assert project.rows(spark, "item", "id") == [{"id": 0}, {"id": 1}, {"id": 9}]


@pytest.mark.slow
def test_what_a_killed_run_has_set_aside_is_counted_behind_a_commit_without_events(
    make_project: MakeProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for counted by that commit: nobody counted it, and the table was well, with bad events alone."""
    project = make_project(item("int"))
    project.deliver("shop.item", 0, [pg("c", 10, id=1, v=1)])
    project.land_well(spark)
    (table,) = project.source().tables
    project.deliver("shop.item", 1, [pg("c", 11, id=2, v=2**40), *["{broken"] * 11])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SilverTable, "write", Mock(side_effect=KeyboardInterrupt))
        project.land(spark)
    set_position(spark, table, to_latest=False)
    landed = project.land(spark)["item"]
    assert landed.counts == Counts(read=13, duplicate=1, quarantined=12)
    assert isinstance(landed.error, QuarantineError)
    # A replay that comes before the next landing counts what it applies.
    project.deliver("shop.item", 20, [pg("c", 20, id=3, v=2**40)])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SilverTable, "write", Mock(side_effect=KeyboardInterrupt))
        project.land(spark)
    project.declare(item("bigint"))
    (table,) = project.source().tables
    assert replay(spark, table).counts == Counts(read=13, applied=2, quarantined=11)
    assert project.state(spark, "item").totals == Counts(read=15, applied=3, duplicate=1, quarantined=11)
    assert project.land(spark)["item"].counts == Counts(read=1, duplicate=1)
    assert project.rows(spark, "item", "v") == [{"v": 1}, {"v": 2**40}, {"v": 2**40}]


def test_a_position_is_set_back_without_harm_and_forward_on_purpose(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project({"tables": [notes()]})
    (table,) = project.source().tables
    project.deliver("shop.note", 0, [note("c", 10, 1, "a"), note("u", 20, 1, "b")])
    project.deliver("shop.note", 2, [note("c", 30, 2, "a"), note("d", 40, 2, None, None)])
    project.land_well(spark)
    before = project.rows(spark, "note", "note_id", "title", "__position", live=False)
    assert set_position(spark, table, to_latest=False).waiting == 2
    assert project.land_well(spark)["note"].counts == Counts(read=4, duplicate=2, superseded=2)
    assert project.rows(spark, "note", "note_id", "title", "__position", live=False) == before
    project.deliver("shop.note", 4, [note("c", 50, 3, "skipped")])
    assert set_position(spark, table, to_latest=True).waiting == 0
    assert project.land_well(spark)["note"].taken == 0
    assert project.rows(spark, "note", "note_id", "title", "__position", live=False) == before


def test_an_epoch_lets_a_log_that_begins_again_win(make_project: MakeProject, spark: SparkSession) -> None:
    """After a failover the new server counts from the start."""
    project = make_project({"tables": [notes()]})
    project.deliver("shop.note", 0, [note("c", 1000, 1, "old server"), note("c", 1001, 2, "old server")])
    project.land_well(spark)
    project.declare({"tables": [notes(epoch=1)]})
    project.deliver("shop.note", 2, [note("u", 10, 1, "new server"), note("d", 11, 2, None, None)])
    assert project.land_well(spark)["note"].counts == Counts(read=2, applied=2)
    assert project.rows(spark, "note", "title") == [{"title": "new server"}]
    project.declare({"tables": [notes()]})
    project.deliver("shop.note", 4, [note("u", 2000, 1, "who knows")])
    error = project.land(spark)["note"].error
    assert error is not None
    assert "epoch 0" in error.message


def test_too_many_bad_events_fail_the_run_and_leave_nothing(make_project: MakeProject, spark: SparkSession) -> None:
    limited = notes(quarantine_limit={"rows": 1, "share": 0.5})
    project = make_project({"tables": [limited]})
    project.deliver("shop.note", 0, [note("c", 10, 1, "a"), "{broken", "{broken", note("c", 20, 2, "a")])
    error = project.land(spark)["note"].error
    assert error is not None
    assert "2 of 4 events" in error.message
    assert project.quarantined(spark) == []
    assert project.silver(spark, "note").state() is None


def test_a_share_is_exact(make_project: MakeProject, spark: SparkSession) -> None:
    """29 of 100 are no larger share than 0.29, whose product with 100 is less than 29 as a floating-point number."""
    project = make_project({"tables": [notes(quarantine_limit={"share": 0.29})]})
    project.deliver("shop.note", 0, [*(note("c", 10 + key, key, "a") for key in range(71)), *["{broken"] * 29])
    assert project.land_well(spark)["note"].counts == Counts(read=100, applied=71, quarantined=29)


@pytest.mark.slow
def test_the_limit_of_the_quarantine_keeps_nothing_from_being_replayed(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """What waits was set aside by earlier batches: of three events that one batch may not have, none was applied."""

    def declare(data_type: str) -> None:
        columns = {"id": "int", "value": data_type}
        project.declare({"tables": [table_of("orders", columns, ["id"], quarantine_limit={"rows": 1})]})

    project = make_project()
    declare("int")
    for offset, value in ((0, "x"), (10, "y"), (20, 3 * 10**9)):
        project.deliver("shop.orders", offset, [pg("c", 1 + offset, id=offset, value=value)])
        project.land_well(spark)
    declare("bigint")
    counts = replay(spark, project.source().tables[0]).counts
    assert (counts.applied, counts.quarantined) == (1, 2)
    assert project.rows(spark, "orders") == [{"id": 20, "value": 3 * 10**9}]


@pytest.mark.slow
def test_a_table_is_compacted_beside_its_batches(make_project: MakeProject, spark: SparkSession) -> None:
    """The plan of the tenth batch is carried out while more batches are landed."""
    project = make_project({"tables": [notes(table_type="mor", history=True)]})
    (table,) = project.source().tables
    silver = project.silver(spark, "note")
    places = (silver, changes_of(silver))

    def commits(kind: str) -> list[int]:
        return [len(list(Path(urlparse(place.path).path, ".hoodie", "timeline").glob(kind))) for place in places]

    def deliver(number: int) -> None:
        project.deliver("shop.note", 10 * number, [note("c" if number == 0 else "u", number, 1, f"batch {number}")])

    for number in range(12):
        deliver(number)
        (landed,) = land(spark, [table], upkeep=lambda *_: None)
        assert landed.error is None
    assert commits("*.compaction.requested") == [1, 1], "planned"
    assert commits("*.commit") == [1, 0], "of the first batch, in bulk; nothing is compacted yet"
    with landing(spark, [table]) as run:
        for number in range(12, 15):
            deliver(number)
            batches = number - 11
            wait_until(lambda: run.progress["note"].batches == batches, f"batch {number}")  # noqa: B023 - called at once
        wait_until(lambda: commits("*.commit") == [2, 1], "the compactions")
    assert run.failed == []
    assert not any(compact(place) for place in places), "nothing is left to be done"
    assert project.rows(spark, "note") == [{"note_id": 1, "title": "batch 14", "body": "b"}]
    assert changes_of(silver).read().count() == 15
    assert project.state(spark, "note").totals == Counts(read=15, applied=15)


@pytest.mark.slow
def test_a_batch_that_is_large_for_its_table_is_compacted_when_nothing_waits_behind_it(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """Readers merge no log files of it; small batches, and large ones amid a backlog, are left to a later commit."""
    project = make_project({"tables": [notes(table_type="mor")]})
    silver, position = project.silver(spark, "note"), 0

    def deliver(op: str, rows: int, text: str) -> None:
        nonlocal position
        events = [note(op, 10_000 * position + number, number, text) for number in range(1, rows + 1)]
        project.deliver("shop.note", position, events)
        position += rows

    def log_files() -> int:
        slices = spark.sql(f"call show_fsview_latest(table => '{project.schema}.note')")
        return sum(row["num_delta_files"] for row in slices.select("num_delta_files").collect())

    deliver("c", 2_000, "first")
    project.land_well(spark)
    deliver("u", 900, "few")
    project.land_well(spark)
    assert log_files() == 1
    deliver("u", 1_500, "many")
    project.land_well(spark)
    assert log_files() == 0
    deliver("u", 1_500, "a")
    deliver("u", 1_500, "b")
    project.connect({"batch_bytes": 1})
    portions: list[int] = []
    refused = WriteError("it cannot be compacted", where="note")

    def fails(_: SilverTable, behind: bool) -> None:
        portions.append(behind)
        raise refused

    (landed,) = land(spark, project.source().tables, upkeep=fails)
    assert landed.error is refused
    assert (portions, landed.taken) == ([True, False], 2), "it goes on landing"
    assert not compact(silver, is_behind=True)
    assert log_files() == 2
    project.land_well(spark)
    assert log_files() == 0, "what was left is found where nothing is new"
    titles = project.rows(spark, "note", "title")
    assert [titles.count({"title": text}) for text in ("b", "first")] == [1_500, 500]


def test_a_compaction_is_planned_behind_a_commit_that_is_being_made(
    make_project: MakeProject, spark: SparkSession, tmp_path: Path
) -> None:
    """Below version 8 a plan that is made amid a commit leaves its log files to no reader, or is passed over."""
    project = make_project({"tables": [notes(table_type="mor", table_version=6)]})
    silver, go_on = project.silver(spark, "note"), tmp_path / "go on"
    for number, op in enumerate("cu"):
        events = [note(op, 10_000 * number + key, key, op) for key in range(1, 1_501)]
        project.deliver("shop.note", 2_000 * number, events)
        (landed,) = land(spark, project.source().tables, upkeep=lambda *_: None)
        assert landed.error is None

    timeline = str(Path(urlparse(silver.path).path, ".hoodie"))

    def begun() -> int:
        return len(list(Path(timeline).glob("*.deltacommit.requested")))

    before = begun()

    @F.udf("string")
    def slow(_: str) -> str:
        """Hudi looks at the rows once more before it requests the commit."""
        until = time.monotonic() + 180
        while begun() > before and not go_on.exists() and time.monotonic() < until:
            time.sleep(0.02)
        return "slow"

    def commit() -> None:
        with silver.writing():
            rows = silver.read().select(*silver.columns()).limit(5).withColumn("title", slow("title"))
            silver.hudi.of_buckets(silver.required_state().buckets).upsert(rows)

    def compacted() -> bool:
        threads.append(threading.get_ident())
        return compact(silver)

    def waits() -> bool:
        frame = sys._current_frames().get(threads[0]) if threads else None
        return frame is not None and frame.f_code.co_name == "plan_compaction"

    threads: list[int] = []
    with ThreadPoolExecutor() as pool:
        committing = pool.submit(commit)
        wait_until(lambda: begun() > before or committing.done(), "the commit")
        compacting = pool.submit(compacted)
        wait_until(lambda: waits() or compacting.done() or committing.done(), "the compaction waits, or has ended")
        go_on.touch()
        committing.result(180)
        assert compacting.result(180)
    assert silver.read().where("title = 'slow'").count() == 5
    assert silver.hudi.read_base_files().where("title = 'slow'").count() == 5


@pytest.mark.parametrize(
    ("rows", "buckets"),
    [(0, 1), (99_000, 1), (172_456, 2), (400_000, 4), (4_000_000, 4), (10_000_000, 10)],
)
def test_a_large_table_has_few_buckets(rows: int, buckets: int, make_project: MakeProject, spark: SparkSession) -> None:
    """A commit of random rows writes a file into each bucket."""
    assert make_project({"tables": [notes()]}).silver(spark, "note").buckets_for(rows) == buckets
    declared = make_project({"tables": [notes(buckets=7)]})
    assert declared.silver(spark, "note").buckets_for(rows) == 7


@pytest.mark.slow
def test_a_folder_is_landed_in_portions_and_the_table_made_for_all_of_it(
    make_project: MakeProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.silver.table._ROWS_A_BUCKET", 20)
    project = make_project({"tables": [notes(table_type="cow")]})
    events = [[note("c", number, number, "a") for number in range(start, start + 10)] for start in range(0, 60, 10)]
    sizes = {project.deliver("shop.note", 10 * at, lines).stat().st_size for at, lines in enumerate(events)}
    project.connect({"batch_bytes": 2 * max(sizes)})
    landed = project.land_well(spark)["note"]
    assert (landed.counts, landed.taken) == (Counts(read=60, applied=60), 6)
    assert spark.sql(f"call show_commits(table => '{project.schema}.note')").count() == 3
    assert len(project.rows(spark, "note")) == 60
    assert project.state(spark, "note").buckets == 3
    project.connect({"batch_bytes": 1})
    project.deliver("shop.note", 60, [note("u", 100, 1, "b")])
    project.deliver("shop.note", 61, [note("u", 101, 1, "c")])
    assert project.land_well(spark)["note"].counts == Counts(read=2, applied=2), "a file at least"


def version(op: str, note_id: int, number: int, at_ms: int | None) -> dict[str, Any]:
    """A change that its row's own version orders, at a time in the source."""
    event = unwrapped(op, {}, {"note_id": note_id, "title": f"of {number}", "version": number})
    return {**event, "__source_ts_ms": at_ms}


@pytest.mark.parametrize("does", ["purge", pytest.param("erase", marks=pytest.mark.slow)])
def test_what_is_removed_for_good_says_nothing_of_other_rows_versions(
    does: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """Each row counts its versions by itself: a new one begins below those of others that are gone."""
    columns = {"note_id": "int", "title": "string", "version": "int"}
    now = int(datetime.now(UTC).timestamp() * 1000)
    declared = table_of("note", columns, ["note_id"], deletes="hard", delete_retention_days=7, order_by=["version"])
    del declared["config"]["meta"]["ingest"]["connector"]
    project = make_project({"tables": [declared]})
    (table,) = project.source().tables
    first = [version("c", 1, 900, 1), version("d", 1, 901, 5), version("c", 2, 5000, 1), version("c", 3, 1, 1)]
    project.deliver("shop.note", 0, [*first, version("u", 3, 2, 4)])
    project.land_well(spark)
    if does == "purge":
        assert purge(spark, table, datetime.now(UTC) + timedelta(days=8)) == 1
    else:
        erase(spark, table, [("1",), ("3",)])
    late = [version("u", 1, 899, 3), version("u", 3, 2, 4)]
    later = [version("c", 1, 902, now + 60_000)] if does == "erase" else []
    project.deliver("shop.note", 5, [*late, *later, version("c", 4, 1, now + 60_000)])
    counts = project.land_well(spark)["note"].counts
    rows = {row["note_id"]: row["version"] for row in project.rows(spark, "note", "note_id", "version")}
    if does == "purge":
        assert (counts, rows) == (Counts(read=3, applied=1, duplicate=1, quarantined=1), {2: 5000, 3: 2, 4: 1})
    else:
        assert (counts.read, counts.applied, rows) == (4, 2, {1: 902, 2: 5000, 4: 1})


def test_where_a_purged_delete_says_no_time_its_version_decides(make_project: MakeProject, spark: SparkSession) -> None:
    """By the times of the others an event from before that delete would bring its row back."""
    columns = {"note_id": "int", "title": "string", "version": "int"}
    declared = table_of("note", columns, ["note_id"], deletes="hard", delete_retention_days=7, order_by=["version"])
    del declared["config"]["meta"]["ingest"]["connector"]
    project = make_project({"tables": [declared]})
    (table,) = project.source().tables
    deletes = [version("d", 1, 9, None), version("d", 2, 3, 5)]
    project.deliver("shop.note", 0, [version("c", 1, 1, 1), version("c", 2, 1, 1), version("c", 3, 20, 1), *deletes])
    project.land_well(spark)
    assert purge(spark, table, datetime.now(UTC) + timedelta(days=8)) == 2
    project.deliver("shop.note", 5, [version("u", 1, 8, 100)])
    assert project.land_well(spark)["note"].counts == Counts(read=1, quarantined=1)
    assert project.rows(spark, "note", "note_id") == [{"note_id": 3}]
