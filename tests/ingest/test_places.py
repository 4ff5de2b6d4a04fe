"""A row that changes its partition moves: there is one row a key, wherever it was, and whatever has come since."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import DbtProject, Event, MakeProject, pg, table_of
from pyspark.sql import SparkSession

from ingest.silver import places
from ingest.silver.state import ARRIVALS_KEY, Counts
from ingest.silver.table import SilverTable

pytestmark = pytest.mark.spark
_SMALL_FILE = 100_000  # bytes
COLUMNS = {"id": "int", "region": "string", "name": "string"}
FORMS: dict[str, dict[str, Any]] = {
    "mor": {"table_type": "mor", "buckets": 2},
    # Of a version of which Hudi refuses a second write, where partition columns are several and the key is one.
    "old": {"table_type": "mor", "table_version": 6, "partition_by": ["region", "name"]},
    "cow": {"table_type": "cow"},
}
FIRST = [
    (1, "north", "a"), (2, "north", "b"), (3, "south", "c"), (4, None, "d"), (5, "Film/Slides: 50% [a]=b", "e"),
    (7, "007", "g"),
]  # fmt: skip
# Each batch, and where rows are once it has been landed: by key, the partition and the name.
BATCHES: Sequence[tuple[Sequence[Event], dict[int, tuple[str | None, str | None]]]] = (
    (
        [pg("u", 20, id=1, region="south", name="a2"), pg("u", 21, id=2, region="north", name="b2"),
         pg("c", 22, id=6, region="south", name="f"), pg("u", 23, id=4, region="", name="d2")],
        {1: ("south", "a2"), 2: ("north", "b2"), 4: ("", "d2"), 6: ("south", "f")},
    ),
    # 6 has only been in a log file, 1 goes back, 5 goes to a new partition.
    (
        [pg("u", 30, id=6, region="north", name="f2"), pg("u", 31, id=1, region="north", name="a3"),
         pg("u", 32, id=5, region="new", name="e2"), pg("d", 33, id=3, region=None, name=None)],
        {1: ("north", "a3"), 3: (None, None), 5: ("new", "e2"), 6: ("north", "f2")},
    ),
    # A late event loses, whichever partition it names; a row is there again after its delete.
    (
        [pg("u", 25, id=6, region="south", name="late"), pg("c", 40, id=3, region="south", name="c2"),
         pg("u", 41, id=1, region="south", name="a4")],
        {1: ("south", "a4"), 3: ("south", "c2")},
    ),
    (
        [pg("u", 50, id=3, region="north", name="c3"), pg("u", 51, id=6, region=None, name="f3"),
         pg("u", 52, id=7, region="north", name="g2")],
        {3: ("north", "c3"), 6: (None, "f3"), 7: ("north", "g2")},
    ),
)  # fmt: skip


def delivered(project: DbtProject, names: Sequence[str], offset: int, events: Sequence[Event]) -> int:
    """Delivers the events to each table; the offset after them."""
    for name in names:
        project.deliver(f"shop.{name}", offset, events)
    return offset + len(events)


def where(silver: SilverTable) -> dict[int, tuple[str | None, str | None]]:
    """Where each row is, by its key; a key that has several rows fails."""
    rows = silver.read().select("id", "region", "name").collect()
    assert len(rows) == len({row["id"] for row in rows}), f"a key has several rows: {sorted(rows)}"
    return {row["id"]: (row["region"] or None, row["name"]) for row in rows}


def one_table_of_each_form(make_project: MakeProject, spark: SparkSession) -> DbtProject:
    entries = [table_of(name, COLUMNS, ["id"], **{"partition_by": ["region"], **form}) for name, form in FORMS.items()]
    project = make_project({"tables": entries})
    first = [pg("r", 10, id=key, region=region, name=name) for key, region, name in FIRST]
    delivered(project, list(FORMS), 0, first)
    project.land_well(spark)
    return project


@pytest.mark.slow
@pytest.mark.parametrize(
    "noted", [pytest.param(places.MOST_NOTED, id="noted"), pytest.param(0, id="too many to be noted")]
)
def test_a_key_has_one_row(
    noted: int, make_project: MakeProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MOST_NOTED", noted)
    project = one_table_of_each_form(make_project, spark)
    expected: dict[int, tuple[str | None, str | None]] = {key: (region, name) for key, region, name in FIRST}
    offset = len(FIRST)
    for events, changed in BATCHES:
        offset = delivered(project, list(FORMS), offset, events)
        project.land_well(spark)
        expected |= {key: (region or None, name) for key, (region, name) in changed.items()}
        for name in FORMS:
            assert where(project.silver(spark, name)) == expected, name
    merged = project.silver(spark, "mor")
    if noted:
        assert places.notes_of(merged), "base files and notes say where the rows are"
    else:
        assert places.notes_of(merged) is None, "the merged rows say where they are"
    merged.hudi.plan_compaction()
    merged.hudi.compact()
    assert where(merged) == expected
    assert places.notes_of(merged) == [], "base files have all rows"
    for name in FORMS:
        files = Path(project.silver(spark, name).path.removeprefix("file:")).rglob("*.parquet")
        large = [file for file in files if file.stat().st_size > _SMALL_FILE]
        assert not large, f"{name}: a file of few rows has no bloom filter beside them"


@pytest.mark.slow
def test_a_row_that_moves_back_behind_a_planned_compaction_is_found(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """The compaction does not have it where it has come back to, and base files of before do."""
    project = one_table_of_each_form(make_project, spark)
    offset = len(FIRST)
    for lsn, region in ((20, "south"), (30, "north"), (40, "south")):
        offset = delivered(project, list(FORMS), offset, [pg("u", lsn, id=1, region=region, name=f"a{lsn}")])
        project.land_well(spark)  # which carries out what is planned
        for name, form in FORMS.items():
            silver = project.silver(spark, name)
            assert where(silver)[1] == (region, f"a{lsn}"), name
            if form["table_type"] == "mor" and lsn == 20:
                silver.hudi.plan_compaction()


@pytest.mark.slow
def test_a_table_with_a_global_index_is_put_into_buckets(
    make_project: MakeProject, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """By a commit of its own, before the batch; what was there stays, also for time travel."""
    project = one_table_of_each_form(make_project, spark)
    for name in FORMS:
        silver, state = project.silver(spark, name), project.state(spark, name)
        before = replace(state, buckets=None)
        silver.hudi.of_buckets(None).insert_overwrite(silver.stored().select(*silver.columns()), before.as_metadata())
    delivered(project, list(FORMS), len(FIRST), [pg("u", 20, id=1, region="south", name="a2")])
    with caplog.at_level(logging.WARNING):
        project.land_well(spark)
    expected = {key: (region, name) for key, region, name in FIRST} | {1: ("south", "a2")}
    for name, form in FORMS.items():
        silver, state = project.silver(spark, name), project.state(spark, name)
        assert (where(silver), state.buckets) == (expected, form.get("buckets", 1)), name
        assert state.counts == Counts(read=1, applied=1), "the batch has a commit of its own"
        assert f"{silver.table.relation}: its rows are put into buckets" in caplog.text
        commits = list(silver.hudi.timeline.described())
        overwritten = next(commit for commit in commits if commit.operation == "insert_overwrite_table")
        assert commits.index(overwritten) == 1, "it is the commit before the batch's"
        then = silver.hudi.as_of(overwritten.instant).select("id", "region").collect()
        assert {row["id"]: row["region"] for row in then} == {key: region for key, region, _ in FIRST}


def test_what_never_moves_is_not_looked_up(make_project: MakeProject, spark: SparkSession) -> None:
    """The key says the partition."""
    entry = table_of("note", COLUMNS, ["id", "region"], partition_by=["region"])
    project = make_project({"tables": [entry]})
    delivered(project, ["note"], 0, [pg("r", 10, id=1, region="north", name="a")])
    project.land_well(spark)
    delivered(project, ["note"], 1, [pg("u", 20, id=1, region="north", name="b")])
    project.land_well(spark)
    silver = project.silver(spark, "note")
    assert where(silver) == {1: ("north", "b")}
    assert all(metadata.getExtraMetadata().get(ARRIVALS_KEY) is None for metadata, _ in silver.hudi.timeline.commits())


@pytest.mark.parametrize(("kind", "buckets"), [("date", 1), ("boolean", 1), ("double", None)])
def test_a_partition_of_which_a_value_may_name_two_folders_has_a_global_index(
    kind: str, buckets: int | None, make_project: MakeProject, spark: SparkSession
) -> None:
    entry = table_of("note", {"id": "int", "part": kind}, ["id"], partition_by=["part"], buckets=buckets)
    assert make_project({"tables": [entry]}).silver(spark, "note").buckets_for(10) == buckets


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "values"),
    [("date", (18_262, 0)), ("decimal(10,2)", ("1.10", "2.00")), ("boolean", (True, False)), ("bigint", (1, -1))],
)
def test_a_row_moves_between_partitions_of_other_types(
    kind: str, values: tuple[Any, Any], make_project: MakeProject, spark: SparkSession
) -> None:
    """A row that stays is found, and one that moves as well."""
    one, other = values
    entry = table_of("note", {"id": "int", "part": kind, "name": "string"}, ["id"], partition_by=["part"])
    project = make_project({"tables": [entry]})
    batches = (
        [pg("r", 10, id=1, part=one, name="a"), pg("r", 11, id=2, part=one, name="b")],
        [pg("u", 20, id=1, part=one, name="a2"), pg("u", 21, id=2, part=other, name="b2")],
        [pg("u", 30, id=2, part=one, name="b3"), pg("c", 31, id=3, part=None, name="c")],
    )
    offset = 0
    for events in batches:
        offset = delivered(project, ["note"], offset, events)
        project.land_well(spark)
    rows = project.silver(spark, "note").read().select("id", "name", "part").collect()
    assert sorted((row["id"], row["name"]) for row in rows) == [(1, "a2"), (2, "b3"), (3, "c")]
    assert len({row["part"] for row in rows if row["id"] < 3} - {None}) == 1
