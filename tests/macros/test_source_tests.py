"""Tests of dbt on the tables that ingest lands."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import MakeProject, pg, table_of
from lake import Server
from modeling import Models
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("deletes", [
    pytest.param({}, marks=pytest.mark.slow),
    {"deletes": "soft"},
    pytest.param({"deletes": "hard", "delete_retention_days": 30}, marks=pytest.mark.slow),
])  # fmt: skip
@pytest.mark.parametrize("is_of_source", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_test_of_a_source_looks_at_live_rows(
    is_of_source: bool, deletes: dict[str, Any], make_project: MakeProject, spark: SparkSession, server: Server | None
) -> None:
    table = table_of("item", {"id": "int", "note": "string"}, ("id",), **deletes)
    table["columns"][1]["data_tests"] = ["not_null"]
    source: dict[str, Any] = {"tables": [table]}
    if is_of_source:
        # What the tables of a source have in common may stand above them.
        source |= {"config": {"meta": {"ingest": table["config"]["meta"]["ingest"]}}}
        table["config"] = {}
    models = Models.of(spark, make_project(source), server)
    models.project.deliver("shop.item", 0, [pg("c", 1, id=1, note="a"), pg("c", 2, id=2, note="b"), pg("d", 3, id=2)])
    models.land("item")
    (gone,) = models.project.rows(spark, "item", "id", "note", live=False)[1:]
    assert gone == {"id": 2, "note": None}
    (passed,) = models.dbt("test").values()
    assert passed.status == "pass", passed
    models.project.deliver("shop.item", 3, [pg("c", 4, id=3, note=None)])
    models.land("item")
    (failed,) = models.dbt("test").values()
    assert failed.status == "fail", failed


def test_a_row_that_is_deleted_is_no_parent(
    make_project: MakeProject, spark: SparkSession, server: Server | None
) -> None:
    parents = table_of("parent", {"id": "int"}, ("id",))
    children = table_of("child", {"id": "int", "parent_id": "int"}, ("id",))
    refers = {"arguments": {"to": "source('shop', 'parent')", "field": "id"}}
    children["columns"][1]["data_tests"] = [{"relationships": refers}, {"has_no_orphans": refers}]
    models = Models.of(spark, make_project({"tables": [parents, children]}), server)
    models.project.deliver("shop.parent", 0, [pg("c", 1, id=1), pg("c", 2, id=2)])
    models.project.deliver("shop.child", 0, [pg("c", 3, id=1, parent_id=1), pg("c", 4, id=2, parent_id=None)])
    models.land("parent", "child")
    assert [each.status for each in models.dbt("test").values()] == ["pass", "pass"]
    models.project.deliver("shop.parent", 2, [pg("d", 5, id=1)])
    models.land("parent")
    assert [each.status for each in models.dbt("test").values()] == ["fail", "fail"]
