"""`lake table show`, `commits`, `files` and `compactions`: what they say against the folder of the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from conftest import DbtProject, new_project, pg, table_of
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from ingest.cli.app import app
from ingest.silver.compaction import compact

pytestmark = pytest.mark.spark
COLUMNS = {"id": "int", "region": "string", "amount": "decimal(8,2)"}


def asked(project: DbtProject, *arguments: str, code: int = 0) -> str:
    """What a command prints."""
    here = ["--project-dir", str(project.root)]
    result = CliRunner().invoke(app, ["table", *arguments, *here], env={"COLUMNS": "300"})
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result.output


def told(project: DbtProject, *arguments: str) -> Any:
    """What a command says as JSON."""
    return json.loads(asked(project, *arguments, "--json"))


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DbtProject:
    """Partitioned merge-on-read tables after three batches, the same rows copy-on-write, and a table never landed."""
    names = {"orders": "mor", "compacted": "mor", "orders_cow": "cow"}
    tables = [
        table_of(name, COLUMNS, ["id"], table_type=kind, partition_by=["region"], topic="shop.orders")
        for name, kind in names.items()
    ]
    project = new_project(tmp_path_factory.mktemp("shop"), {"tables": [*tables, table_of("returns", COLUMNS, ["id"])]})
    project.deliver("shop.orders", 0, [pg("c", n, id=n, region="a/b" if n % 2 else "c", amount=1) for n in range(1, 9)])
    project.land_well(spark, *names)
    project.deliver("shop.orders", 8, [pg("u", 20, id=1, region="a/b", amount=2)])
    project.land_well(spark, *names)
    project.deliver("shop.orders", 9, [pg("u", 30, id=2, region="c", amount=3), pg("d", 31, id=3, region=None)])
    project.land_well(spark, *names)
    return project


def on_disk(project: DbtProject, spark: SparkSession, table: str) -> dict[str, int]:
    """Sizes of the files beside Hudi's own folder, by name."""
    root = Path(urlparse(project.silver(spark, table).path).path)
    return {
        path.name: path.stat().st_size
        for path in root.rglob("*")
        if path.is_file() and ".hoodie" not in path.parts[len(root.parts) :] and not path.name.endswith(".crc")
        and not path.name.startswith(".hoodie")
    }  # fmt: skip


@pytest.mark.slow
def test_a_table_is_described_down_to_its_files(shop: DbtProject, spark: SparkSession) -> None:
    layout = told(shop, "show", "shop.orders")
    found = {key: layout[key] for key in ("table_type", "version", "key", "ordering", "partition_by", "index")}
    assert found == {
        "table_type": "MERGE_ON_READ", "version": 9, "key": "id", "ordering": "__position", "partition_by": "region",
        "index": "bucket",
    }  # fmt: skip
    assert {**COLUMNS, "__op": "string"}.items() <= layout["columns"].items()

    groups = told(shop, "files", "shop.orders")
    files = [file for group in groups for file in (group["base_file"], *group["log_files"]) if file]
    assert {file["name"]: file["bytes"] for file in files} == on_disk(shop, spark, "orders")
    assert any(group["log_files"] for group in groups)
    assert layout["bytes"] == sum(group["bytes"] for group in groups) == sum(file["bytes"] for file in files)
    assert (layout["file_groups"], layout["partitions"]) == (len(groups), len({each["partition"] for each in groups}))

    # Of a copy-on-write table the newest version of each group is listed, and nothing to merge.
    groups = told(shop, "files", "shop.orders_cow")
    assert all(group["base_file"] and not group["log_files"] for group in groups)
    assert {group["base_file"]["name"] for group in groups} < on_disk(shop, spark, "orders_cow").keys()


def test_commits_say_what_they_wrote_and_when(shop: DbtProject, spark: SparkSession) -> None:
    commits = told(shop, "commits", "shop.orders")
    assert [each["operation"] for each in commits] == ["upsert", "upsert", "bulk_insert"]
    assert [each["action"] for each in commits] == ["deltacommit", "deltacommit", "commit"]
    first = commits[-1]
    assert (first["inserted"], first["updated"], first["deleted"], first["partitions"]) == (8, 0, 0, 2)
    assert first["bytes"] > 0
    assert told(shop, "commits", "shop.orders", "--limit", "1") == commits[:1]
    # An instant is one of time travel: the row as the commit before had left it.
    relation = shop.source().choose(["orders"])[0].relation
    for number, amount in ((1, 2), (2, 1)):
        travel = f"select amount from {relation} timestamp as of '{commits[number]['instant']}' where id = 1"
        assert [row["amount"] for row in spark.sql(travel).collect()] == [amount]
    assert {each["action"] for each in told(shop, "commits", "shop.orders_cow")} == {"commit"}
    assert "bulk_insert" in asked(shop, "commits", "shop.orders")


def test_compactions_are_planned_and_then_completed(shop: DbtProject, spark: SparkSession) -> None:
    assert told(shop, "compactions", "shop.compacted") == {"planned": [], "completed": []}
    assert "no compaction is planned" in asked(shop, "compactions", "shop.compacted")
    silver = shop.silver(spark, "compacted")
    with_logs = [group for group in told(shop, "files", "shop.compacted") if group["log_files"]]
    silver.hudi.plan_compaction()
    (planned,) = told(shop, "compactions", "shop.compacted")["planned"]
    assert planned["state"] == "requested"
    assert (planned["file_groups"], planned["log_files"]) == (
        len(with_logs),
        sum(len(group["log_files"]) for group in with_logs),
    )
    # A plan changes nothing of what readers merge.
    assert [group for group in told(shop, "files", "shop.compacted") if group["log_files"]] == with_logs
    assert compact(silver)
    after = told(shop, "compactions", "shop.compacted")
    assert after["planned"] == []
    assert [(each["requested"], each["action"]) for each in after["completed"]] == [(planned["requested"], "commit")]
    assert not [group for group in told(shop, "files", "shop.compacted") if group["log_files"]]


def test_what_is_no_landed_table_is_told(shop: DbtProject) -> None:
    assert "there is no such table yet" in asked(shop, "files", "shop.returns", code=1)
    assert "'orders' names no table" in asked(shop, "show", "orders", code=1)
    assert "nothing" in asked(shop, "commits", "shop.nothing", code=1)
