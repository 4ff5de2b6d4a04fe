"""Silver on S3: Hudi's table version 6, compacted for readers without log files, in Glue and kept in step there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from conftest import DbtProject, MakeProject, Row, chosen, pg, table_of
from pyspark.sql import SparkSession

from dev.chain.moto_s3 import StandIn
from ingest.operations.status import status_of
from ingest.operations.table import layout_of

pytestmark = [pytest.mark.athena, pytest.mark.spark]

READ_OPTIMIZED = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
REAL_TIME = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"


def items(**options: Any) -> dict[str, Any]:
    """A table of items, with descriptions."""
    table = table_of("item", {"id": "int", "kind": "string", "price": "decimal(8,2)"}, ["id"], **options)
    table["description"] = "One row per item,\nas the shop has it."
    table["columns"][1]["description"] = "What it is."
    return table


def item(op: str, lsn: int, id_: int, kind: str, price: str = "1.50") -> Mapping[str, Any]:
    """A change of an item."""
    return pg(op, lsn, id=id_, kind=kind, price=price)


def in_glue(glue: Any, project: DbtProject) -> dict[str, Row]:
    """The tables of the source's schema, without ledgers, by name."""
    found = glue.get_tables(DatabaseName=project.schema)["TableList"]
    return {each["Name"]: each for each in found if not each["Name"].startswith("_")}


def types(table: Row) -> dict[str, str]:
    """The columns of a table of Glue without Hudi's and ingest's own, with their types."""
    columns = table["StorageDescriptor"]["Columns"]
    return {each["Name"]: each["Type"] for each in columns if not each["Name"].startswith("_")}


def comment(table: Row, column: str) -> str:
    """What is said of a column."""
    (told,) = [each["Comment"] for each in table["StorageDescriptor"]["Columns"] if each["Name"] == column]
    return str(told)


def partitions(glue: Any, project: DbtProject, name: str) -> dict[str, str]:
    """The places of a table's partitions, by their values."""
    found = glue.get_partitions(DatabaseName=project.schema, TableName=name)["Partitions"]
    return {"/".join(each["Values"]): each["StorageDescriptor"]["Location"] for each in found}


def rows(spark: SparkSession, relation: str, columns: Sequence[str] = ("id", "kind")) -> list[tuple[Any, ...]]:
    """The live rows of a relation, by key."""
    found = spark.table(relation).where("__deleted = 'false'").orderBy("id").select(*columns).collect()
    return [tuple(row) for row in found]


@pytest.mark.parametrize("table_type", chosen(["mor", "cow"], "mor"))
def test_a_table_on_s3_is_in_glue_and_its_views_read_each_commit(
    spark: SparkSession, make_project: MakeProject, aws: StandIn, glue: Any, table_type: str
) -> None:
    project = make_project({"tables": [items(table_type=table_type)]})
    project.deliver("shop.item", 0, [item("c", 1, 1, "vase"), item("c", 2, 2, "bowl")])
    project.land_well(spark)
    source = project.source()
    layout = layout_of(spark, source.tables[0])
    assert layout.version == 6, "Athena reads no newer one"
    assert layout.path == f"s3://lake/silver/{project.schema}.db/item"

    found = in_glue(glue, project)
    formats = {name: table["StorageDescriptor"]["InputFormat"] for name, table in found.items()}
    views = {"item": READ_OPTIMIZED, "item_ro": READ_OPTIMIZED, "item_rt": REAL_TIME}
    assert formats == (views if table_type == "mor" else {"item": READ_OPTIMIZED})
    for table in found.values():
        assert (table["TableType"], table["StorageDescriptor"]["Location"]) == ("EXTERNAL_TABLE", layout.path)
        assert types(table) == {"id": "int", "kind": "string", "price": "decimal(8,2)"}
        assert table["Description"] == "One row per item, as the shop has it."
        assert {each["Name"]: each["Comment"] for each in table["StorageDescriptor"]["Columns"]}[
            "kind"
        ] == "What it is."

    project.deliver("shop.item", 2, [item("u", 3, 1, "urn"), pg("d", 4, id=2), item("c", 5, 3, "cup")])
    with aws.counted() as asked:
        project.land_well(spark)
    assert not [action for action in asked if action.startswith("glue")], "nothing is new to Glue"
    expected = [(1, "urn"), (3, "cup")]
    for name in formats:
        assert rows(spark, f"{project.schema}.{name}") == expected, f"{name} is as of the last commit"
    (status,) = status_of(spark, source)
    assert (status.state, status.live_rows, status.deleted_rows, status.waiting) == ("up to date", 2, 1, 0)


def test_columns_that_are_added_and_widened_are_so_in_glue(
    spark: SparkSession, make_project: MakeProject, aws: StandIn, glue: Any
) -> None:
    project = make_project({"tables": [items()]})
    project.deliver("shop.item", 0, [item("c", 1, 1, "vase")])
    project.land_well(spark)
    changed = items()
    changed["columns"][0]["data_type"] = "bigint"
    changed["columns"].append({"name": "weight", "data_type": "double", "description": "In kilograms."})
    project.declare({"tables": [changed]})
    with aws.counted() as asked:
        project.land_well(spark)
    assert asked["glue UpdateTable"] == 3
    for table in in_glue(glue, project).values():
        assert types(table) == {"id": "bigint", "kind": "string", "price": "decimal(8,2)", "weight": "double"}
        assert {each["Name"]: each["Comment"] for each in table["StorageDescriptor"]["Columns"]}[
            "weight"
        ] == "In kilograms."
    with aws.counted() as asked:
        project.land_well(spark)
    assert not [action for action in asked if action.startswith("glue")]


def test_partitions_are_told_glue_as_commits_write_to_them(
    spark: SparkSession, make_project: MakeProject, aws: StandIn, glue: Any
) -> None:
    project = make_project({"tables": [items(partition_by=["kind"], history=True)]})
    project.deliver("shop.item", 0, [item("c", 1, 1, "vase"), item("c", 2, 2, "old/new bowl")])
    project.land_well(spark)
    place = f"s3://lake/silver/{project.schema}.db/item"
    expected = {"vase": f"{place}/kind=vase", "old/new bowl": f"{place}/kind=old%2Fnew bowl"}
    for name in ("item", "item_ro", "item_rt"):
        assert partitions(glue, project, name) == expected
    assert set(partitions(glue, project, "item__changes_ro")) == {"2023-11"}
    assert [each["Name"] for each in in_glue(glue, project)["item"]["PartitionKeys"]] == ["kind"]

    project.deliver("shop.item", 2, [item("u", 3, 1, "urn"), item("u", 4, 2, "old/new bowl", "2.00")])
    with aws.counted() as asked:
        project.land_well(spark)
    counted = {action: number for action, number in asked.items() if action.startswith("glue")}
    assert counted == {"glue BatchCreatePartition": 3}, "one call for the table and each view"
    assert set(partitions(glue, project, "item_ro")) == {*expected, "urn"}
    assert rows(spark, f"{project.schema}.item_ro") == [(1, "urn"), (2, "old/new bowl")]


def test_an_instant_is_that_of_its_commit_though_s3_tells_times_in_whole_seconds(
    spark: SparkSession, make_project: MakeProject
) -> None:
    project = make_project({"tables": [items(table_type="cow")]})
    instants, states = [], []
    for lsn, kind in enumerate(("vase", "urn", "jug"), start=1):
        project.deliver("shop.item", lsn, [item("c" if lsn == 1 else "u", lsn, 1, kind)])
        project.land_well(spark)
        silver = project.silver(spark, "item")
        instants.append(project.state(spark, "item").instant)
        states.append([(row["id"], row["kind"]) for row in silver.read().collect()])
    assert [kind for ((_, kind),) in states] == ["vase", "urn", "jug"]
    silver = project.silver(spark, "item")
    assert [silver.commits_after(instant) for instant in instants] == [2, 1, 0]
    for instant, then in zip(instants, states, strict=True):
        assert [(row["id"], row["kind"]) for row in silver.hudi.as_of(instant).collect()] == then
    (row,) = silver.stored().collect()
    assert instants[-1] == row["_hoodie_commit_time"], "to the millisecond"
    assert [(each["id"], each["kind"]) for each in silver.before(row["_hoodie_commit_time"]).collect()] == states[1]


@pytest.mark.parametrize("history", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_batch_is_seen_however_quickly_it_was_compacted(
    spark: SparkSession, make_project: MakeProject, history: bool
) -> None:
    """Hudi puts log files to base files by the times of commits' files, which S3 tells in whole seconds."""
    options = {"history": True} if history else {}
    project = make_project({"tables": [items(table_type="mor", **options)]})
    seen = []
    for number in range(1, 9):
        project.deliver("shop.item", number, [item("c" if number == 1 else "u", number, 1, f"kind {number}")])
        project.land_well(spark)
        seen.append([row["kind"] for row in project.rows(spark, "item")])
        completed = [
            (str(instant.getCompletionTime()), str(instant.requestedTime()))
            for instant in project.silver(spark, "item").hudi.timeline.active().filterCompletedInstants().getInstants()
            if str(instant.getAction()) != "clean"
        ]
        assert all(ended >= begun for ended, begun in completed[:-1])
    assert seen == [[f"kind {number}"] for number in range(1, 9)]
    if history:
        changes = spark.table(f"{project.schema}.item__changes").select("kind").collect()
        assert sorted(row["kind"] for row in changes) == [f"kind {number}" for number in range(1, 9)]
