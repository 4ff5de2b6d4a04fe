"""What `history: true` keeps beside silver, and what the macros make of it, however the events are delivered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from conftest import DbtProject, MakeProject, Row, new_project, pg, table_of
from json_records import envelope, items, records
from notes import NOTES, START, lacking, lsn, note, random_case, truncate
from pyspark.sql import SparkSession

from ingest.errors import DeclarationError
from ingest.operations.erase import erase
from ingest.operations.position import set_position
from ingest.operations.replay import replay
from ingest.silver.change_log import changes_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEEDS = (1, 2)
RANDOM = {f"random_{seed}_{kind}": (random_case(seed), kind) for seed, kind in zip(SEEDS, ("mor", "cow"), strict=True)}
BATCHES: dict[str, Sequence[Sequence[Row]]] = {
    "notes": [
        [note("c", 10, 1, "a", "first"), note("c", 11, 20, "a", "long"), note("c", 12, 30, "a"),
         note("r", 100, 40, "old")],
        [lacking("u", 30, 1, "c"), note("d", 140, 20, None, ""), lacking("c", 140, 21, "x"), lacking("u", 150, 21, "y"),
         note("r", None, 30, "b"), note("u", 90, 40, "open"), note("u", 95, 40, "open 2"), lacking("u", 160, 50, "?")],
        [note("u", 20, 1, "b", "second"), note("u", 170, 30, "c"), note("r", None, 30, "b"),
         note("u", 90, 40, "open"), note("u", 120, 40, "next", commit=110), note("c", 155, 50, "!", "here")],
    ],
    "emptied": [
        [note("c", 10, 1, "a"), note("c", 11, 2, "a")],
        [truncate(30), note("c", 40, 2, "a")],
        [note("u", 25, 1, "late")],
    ],
    "kept_emptied": [[note("c", 10, 1, "a")], [truncate(30)]],
    "begun": [
        [note("c", 10, 1, "a"), note("c", 11, 2, "a"), note("d", 12, 2, None), note("c", 13, 3, "a", "long")],
        [note("u", 20, 1, "b"), lacking("u", 21, 3, "b")],
    ],
    "waiting": [[note("c", 10, 1, "a"), lacking("u", 20, 2, "a")]],
    "moved": [
        [note("c", 10, 1, "a", "long"), note("c", 11, 2, "b", "other"), note("d", 20, 2, None, "")],
        [note("d", 30, 1, None, ""), lacking("c", 30, 2, "x"), note("u", 40, 2, "y", "new")],
    ],
    "grown": [[note("c", 10, 1, "a")], [note("u", 20, 1, "a", extra=2**40)]],
    **{name: case.batches for name, (case, _) in RANDOM.items()},
}  # fmt: skip


def declaration(batch: int) -> Mapping[str, Any]:
    """The tables as they are declared before a batch: one declares its history only when it was landed already."""
    options: dict[str, dict[str, Any]] = {name: {"history": True} for name in BATCHES}
    options["begun"]["history"] = batch > 0
    options["kept_emptied"]["truncate"] = "ignore"
    for name, (_, kind) in RANDOM.items():
        options[name]["table_type"] = kind
    columns = {name: {**NOTES, "later": "date"} if name == "begun" and batch > 2 else NOTES for name in BATCHES}
    return {"tables": [table_of(name, columns[name], ["note_id"], **options[name]) for name in BATCHES]}


@pytest.fixture(scope="module")
def landed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DbtProject:
    """All tables, batch by batch; then what was quarantined is replayed, and a column is declared."""
    project = new_project(tmp_path_factory.mktemp("history"))
    for number in range(3):
        project.declare(declaration(number))
        fed = [name for name, batches in BATCHES.items() if len(batches) > number]
        for name in fed:
            offset = sum(len(batch) for batch in BATCHES[name][:number])
            project.deliver(f"shop.{name}", offset, BATCHES[name][number])
        project.land_well(spark, *fed)
    waiting = {row["source_table"] for row in project.quarantined(spark)}
    for table in project.source().choose(sorted(waiting - {"waiting"})):
        replay(spark, table)
    assert [row["source_table"] for row in project.quarantined(spark)] == ["waiting"]
    project.declare(declaration(3))
    project.land_well(spark, "begun")
    return project


Versions = Mapping[str, list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def histories(spark: SparkSession, landed: DbtProject) -> Mapping[str, list[Row]]:
    """The rows that `history` makes of each table's changes, by key and place."""
    calls = [f"{{{{ history('{landed.schema}.{name}__changes', 'note_id', ['title', 'body']) }}}}" for name in BATCHES]
    queries = zip(BATCHES, landed.compiled(*calls), strict=True)
    return {
        name: [row.asDict() for row in spark.sql(query).orderBy("note_id", "position_from").collect()]
        for name, query in queries
    }


@pytest.fixture(scope="module")
def versions(histories: Mapping[str, list[Row]]) -> Versions:
    """Key, title, body and places in the log of each table's versions."""
    return {
        name: [
            (row["note_id"], row["title"], row["body"], lsn(row["position_from"]), lsn(row["position_to"]))
            for row in rows
        ]
        for name, rows in histories.items()
    }


def of(rows: Sequence[tuple[Any, ...]], *note_ids: int) -> list[tuple[Any, ...]]:
    """The versions of some notes."""
    return [row for row in rows if row[0] in note_ids]


@pytest.mark.parametrize("name", list(RANDOM))
def test_any_delivery_gives_the_history_of_the_log(versions: Versions, name: str) -> None:
    assert versions[name] == RANDOM[name][0].versions, json.dumps(RANDOM[name][0].batches)


def test_a_change_has_the_values_before_it_and_after_it(spark: SparkSession, landed: DbtProject) -> None:
    changes = (f"'{landed.schema}.{name}__changes'" for name in RANDOM)
    calls = [f"{{{{ change_rows({table}, 'note_id', ['title', 'body']) }}}}" for table in changes]
    shown = [f"{side}_{name}" for side in ("before", "after") for name in ("title", "body")]
    for name, query in zip(RANDOM, landed.compiled(*calls), strict=True):
        rows = [row.asDict() for row in spark.sql(query).collect()]
        for row in rows:
            row["place"] = lsn(row["position"].partition("/")[0])
            assert row["changed_at"] == START + timedelta(seconds=row["place"])
            assert row["before_unknown_columns"] == (None if row["before_title"] is None else [])
            assert row["after_unknown_columns"] == (None if row["op"] in ("d", "t") else [])
        found = [tuple(row[column] for column in ("note_id", "place", "op", *shown)) for row in rows]
        assert sorted(found, key=lambda row: row[:2]) == RANDOM[name][0].changes, json.dumps(RANDOM[name][0].batches)


@pytest.mark.parametrize("name", list(RANDOM))
def test_the_current_versions_are_silvers_rows(
    spark: SparkSession, landed: DbtProject, versions: Versions, name: str
) -> None:
    current = [{"note_id": row[0], "title": row[1], "body": row[2]} for row in versions[name] if row[4] is None]
    assert current == landed.rows(spark, name)


@pytest.mark.parametrize("name", list(RANDOM))
def test_a_change_is_kept_once(spark: SparkSession, landed: DbtProject, name: str) -> None:
    changes = spark.table(f"{landed.schema}.{name}__changes")
    distinct = {json.dumps(event) for batch in RANDOM[name][0].batches for event in batch}
    assert changes.count() == len(distinct)
    assert changes.select("__month").distinct().count() > 1


def test_a_late_value_reaches_every_later_version_that_lacks_it(versions: Versions) -> None:
    assert of(versions["notes"], 1) == [
        (1, "a", "first", 10, 20),
        (1, "b", "second", 20, 30),
        (1, "c", "second", 30, None),
    ]


def test_a_changed_primary_key_takes_its_values_along(versions: Versions) -> None:
    assert of(versions["notes"], 20, 21) == [
        (20, "a", "long", 11, 140),
        (21, "x", "long", 140, 150),
        (21, "y", "long", 150, None),
    ]


def test_a_row_under_a_key_that_was_another_one_s_takes_none_of_its_values(
    histories: Mapping[str, list[Row]], versions: Versions
) -> None:
    assert of(versions["moved"], 2) == [(2, "b", "other", 11, 20), (2, "x", None, 30, 40), (2, "y", "new", 40, None)]
    unknown = {row["title"]: row["unknown_columns"] for row in histories["moved"] if row["note_id"] == 2}
    assert unknown == {"b": [], "x": ["body"], "y": []}


def test_a_row_of_an_incremental_snapshot_stands_where_it_was_first_delivered(versions: Versions) -> None:
    assert [row[1] for row in of(versions["notes"], 30)] == ["a", "b", "c"]


def test_a_row_of_an_incremental_snapshot_stands_amid_the_changes_of_its_partition(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project(items({"id": "int", "note": "string"}, history=True))
    records(project, ({"id": 9}, pg("c", 1000, id=9, note="far")), places=[(1, 0)])
    project.land_well(spark)
    changes = [pg("c", 10, id=1, note="a"), pg("r", None, id=1, note="a"), pg("u", 20, id=1, note="b")]
    records(project, *(({"id": 1}, change) for change in changes), offset=10)
    project.land_well(spark)
    records(project, (None, envelope("t", 2000)), ({"id": 1}, pg("r", None, id=1, note="anew")), offset=20)
    project.land_well(spark)
    [query] = project.compiled(f"{{{{ history('{project.schema}.item__changes', 'id', ['note']) }}}}")
    rows = spark.sql(query).where("id = 1").orderBy("position_from").collect()
    found = [(row["note"], lsn(row["position_from"]), lsn(row["position_to"])) for row in rows]
    assert found == [("a", 10, 20), ("b", 20, 2000), ("anew", 2000, None)]
    assert project.rows(spark, "item") == [{"id": 1, "note": "anew"}]
    # Behind the change that a batch before has brought, and before the next one.
    for offset, change in enumerate(
        (pg("c", 2010, id=2, note="x"), pg("r", None, id=2, note="y"), pg("u", 2020, id=2, note="z")), start=30
    ):
        records(project, ({"id": 2}, change), offset=offset)
        project.land_well(spark)
    rows = spark.sql(query).where("id = 2").orderBy("position_from").collect()
    assert [(row["note"], lsn(row["position_from"])) for row in rows] == [("x", 2010), ("y", 2010), ("z", 2020)]


def test_a_transaction_that_was_open_during_the_snapshot_stands_behind_it(versions: Versions) -> None:
    assert [row[1] for row in of(versions["notes"], 40)] == ["old", "open", "open 2", "next"]


def test_a_version_ends_when_the_next_begins(histories: Mapping[str, list[Row]]) -> None:
    for row in (row for rows in histories.values() for row in rows):
        assert row["unknown_columns"] == [] or row in histories["moved"]
        assert row["is_current"] == (row["position_to"] is None)
    for row in (row for name in RANDOM for row in histories[name]):
        places = {"valid_from": lsn(row["position_from"]), "valid_to": lsn(row["position_to"])}
        for name, place in places.items():
            assert row[name] == (None if place is None else START + timedelta(seconds=place))


def test_a_change_that_waits_in_the_quarantine_is_not_in_the_history(versions: Versions) -> None:
    assert versions["waiting"] == [(1, "a", "b", 10, None)]


def test_what_the_quarantine_gives_back_reaches_the_history(versions: Versions) -> None:
    assert of(versions["notes"], 50) == [(50, "!", "here", 155, 160), (50, "?", "here", 160, None)]


def test_a_truncate_ends_every_row_that_was_there(versions: Versions) -> None:
    assert versions["emptied"] == [
        (1, "a", "b", 10, 25),
        (1, "late", "b", 25, 30),
        (2, "a", "b", 11, 30),
        (2, "a", "b", 40, None),
    ]
    assert versions["kept_emptied"] == [(1, "a", "b", 10, None)]


def test_a_history_that_begins_late_begins_with_silvers_rows(versions: Versions) -> None:
    assert versions["begun"] == [
        (1, "a", "b", 10, 20),
        (1, "b", "b", 20, None),
        (3, "a", "long", 13, 21),
        (3, "b", "long", 21, None),
    ]


def test_columns_that_silver_gets_reach_the_history(spark: SparkSession, landed: DbtProject) -> None:
    changes = f"api.Relation.create(schema='{landed.schema}', identifier='grown__changes')"
    [query] = landed.compiled(f"{{{{ history({changes}, 'note_id') }}}}", introspect=True)
    rows = spark.sql(query).orderBy("position_from").select("title", "extra").collect()
    assert [tuple(row) for row in rows] == [("a", None), ("a", 2**40)]
    begun = spark.table(f"{landed.schema}.begun__changes")
    assert dict(begun.dtypes)["later"] == "date"


def test_columns_named_as_those_of_the_history_are_refused(
    landed: DbtProject, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AssertionError, match="inline query"):
        landed.compiled("{{ history('a.b', 'id', columns=['valid_from']) }}")
    assert "a.b: got a column 'valid_from', a name the history adds itself" in capsys.readouterr().out


def test_a_history_needs_a_key_and_a_name_of_its_own(make_project: MakeProject) -> None:
    project = make_project({"tables": [table_of("lines", {"line": "string"}, [], history=True)]})
    with pytest.raises(DeclarationError, match="history is true and key is \\[\\]"):
        project.source()
    tables = [table_of("note", NOTES, ["note_id"], history=True), table_of("note__changes", NOTES, ["note_id"])]
    project.declare({"tables": tables})
    with pytest.raises(DeclarationError, match="it is the history of 'note'"):
        project.source()


@pytest.mark.slow
def test_a_history_keeps_its_buckets(make_project: MakeProject, spark: SparkSession) -> None:
    """With another number declared, each change that came again stood there twice, and was found by no erasure."""

    def declared(**options: Any) -> dict[str, Any]:
        return {"tables": [table_of("item", {"id": "int", "v": "int"}, ["id"], history=True, **options)]}

    project = make_project(declared())
    project.deliver("shop.item", 0, [pg("c", number, id=number, v=number) for number in range(1, 9)])
    project.land_well(spark)
    project.declare(declared(buckets=4))
    (table,) = project.source().tables
    set_position(spark, table, to_latest=False)
    project.land_well(spark)
    assert changes_of(project.silver(spark, "item")).read().count() == 8
    assert erase(spark, table, [("1",)]).holding == ()
