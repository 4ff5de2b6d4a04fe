"""A lake that the version before wrote is read, and goes on: nothing on disk has another format.

`lake_of_0_2.tar.xz` holds what version 0.2 landed of the four tables below: a merge-on-read table with a history, a
partitioned copy-on-write table of which a key was erased, a table without a key, one of table version 6; two events
in the quarantine; and the files they came from.
"""

from __future__ import annotations

import tarfile
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlparse

import pytest
from conftest import DbtProject, MakeProject, pg, table_of
from pyspark.sql import SparkSession

from ingest.operations.replay import replay
from ingest.silver.change_log import changes_of
from ingest.silver.state import Counts

pytestmark = [pytest.mark.spark, pytest.mark.systems]
WRITTEN = Path(__file__).with_name("lake_of_0_2.tar.xz")
TABLES = [
    table_of(
        "note", {"note_id": "int", "title": "string", "body": "string"}, ["note_id"],
        history=True, deletes="hard", delete_retention_days=7,
    ),
    table_of(
        "orders", {"id": "int", "region": "string", "amount": "decimal(10,2)"}, ["id", "region"],
        table_type="cow", partition_by=["region"],
    ),
    table_of("log", {"at": "bigint", "text": "string"}, []),
    table_of("plain", {"id": "bigint", "value": "string"}, ["id"], table_version=6, table_type="cow"),
]  # fmt: skip
# Of each table: the live rows, what became of its events, and how many changes its history has.
NOTES = {1: ("second", "b"), 3: ("third", "b"), 4: ("first", "b"), 5: ("first", "b"), 6: ("sixth", "b")}
ORDERS = {(1, "north"): "7.25", **{(n, "north" if n % 2 else "south"): f"{n}.50" for n in range(3, 9)}}


@pytest.fixture
def project(spark: SparkSession, make_project: MakeProject) -> DbtProject:
    """The project that the lake is of, at the lake's schema."""
    made = make_project()
    project = DbtProject(made.root, made.bronze, "shop", "silver_before")
    project.declare({"tables": TABLES})
    warehouse = urlparse(str(spark.conf.get("spark.sql.warehouse.dir"))).path
    with tarfile.open(WRITTEN) as archive:
        of_lake = [entry for entry in archive if entry.name.startswith("silver_before.db")]
        archive.extractall(warehouse, of_lake, filter="data")
        archive.extractall(project.root, [entry for entry in archive if entry not in of_lake], filter="data")
    spark.sql("create database silver_before")
    for companion in ("_quarantine", "_erased"):  # what the catalog of that lake has as well
        location = f"{warehouse}/silver_before.db/{companion}"
        spark.sql(f"create table silver_before.{companion} using hudi location '{location}'")
    return project


def test_a_lake_of_the_version_before_goes_on(project: DbtProject, spark: SparkSession) -> None:
    assert {name: landed.taken for name, landed in project.land_well(spark).items()} == {
        "note": 0, "orders": 0, "log": 0, "plain": 0,
    }, "the positions are known"  # fmt: skip
    require_rows(project, spark, NOTES, ORDERS, lines=3, plain={1: "b", 3: "a"})
    assert project.state(spark, "note").totals == Counts(read=12, applied=10, quarantined=2)
    ids = {row["quarantine_id"] for row in project.quarantined(spark)}
    assert len(ids) == 2

    project.deliver("shop.note", 12, [
        pg("c", 35, note_id=7, title="seventh", body="long"),  # what the update in the quarantine has waited for
        pg("u", 25, note_id=2, title="late", body="b"),  # before its delete
        pg("u", 20, note_id=1, title="second", body="b"),  # delivered again
        pg("u", 60, note_id=4, title="fourth", body="__debezium_unavailable_value"),
    ])  # fmt: skip
    project.deliver("shop.orders", 11, [
        pg("r", 10, id=9, region="north", amount="9.50"),  # erased
        pg("u", 40, id=3, region="north", amount="0.01"),
    ])  # fmt: skip
    project.deliver("shop.log", 3, [pg("c", 20, at=3, text="line 3")])
    project.deliver("shop.plain", 5, [pg("c", 50, id=2, value="again"), pg("d", 60, id=3, value=None)])
    counts = {name: landed.counts for name, landed in project.land_well(spark).items()}
    assert counts == {
        "note": Counts(read=4, applied=2, superseded=1, duplicate=1),
        "orders": Counts(read=2, applied=1, ignored=1),
        "log": Counts(read=1, applied=1),
        "plain": Counts(read=2, applied=2),
    }
    (note,) = project.source().choose(["note"])
    assert replay(spark, note).counts == Counts(read=2, applied=1, quarantined=1)
    notes = {**NOTES, 4: ("fourth", "b"), 7: ("alone", "long")}
    require_rows(project, spark, notes, {**ORDERS, (3, "north"): "0.01"}, lines=4, plain={1: "b", 2: "again"})
    assert project.state(spark, "note").totals == Counts(read=16, applied=13, superseded=1, duplicate=1, quarantined=1)
    history = changes_of(project.silver(spark, "note")).read().where("note_id = 4")
    assert [row["title"] for row in history.orderBy("__position").collect()] == ["first", "fourth"]
    # What waits keeps its id, which did not tell the table.
    (left,) = project.quarantined(spark)
    assert left["quarantine_id"] in ids


def require_rows(
    project: DbtProject,
    spark: SparkSession,
    notes: dict[int, tuple[str, str]],
    orders: dict[tuple[int, str], str],
    *,
    lines: int,
    plain: dict[int, str],
) -> None:
    """The live rows of all tables; silver has followed a column that an event had and nobody declared."""
    rows = {table["name"]: project.rows(spark, table["name"]) for table in TABLES}
    assert {row["note_id"]: (row["title"], row["body"]) for row in rows["note"]} == notes
    tags = {row["note_id"]: row["tag"] for row in project.rows(spark, "note", "note_id", "tag")}
    assert {key for key, tag in tags.items() if tag} == {3}
    assert {(row["id"], row["region"]): row["amount"] for row in rows["orders"]} == {
        key: Decimal(amount) for key, amount in orders.items()
    }
    assert [row["text"] for row in rows["log"]] == [f"line {number}" for number in range(lines)]
    assert {row["id"]: row["value"] for row in rows["plain"]} == plain
