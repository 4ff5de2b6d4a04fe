"""The test of a combination of columns: as the package dbt_utils has it, and live rows only of what ingest lands."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from conftest import MakeProject, pg, table_of
from dbt_common.exceptions import CompilationError
from modeling import Models
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def combination(*columns: str, name: str, where: str | None = None, **arguments: Any) -> dict[str, Any]:
    """The test of some columns, as a project declares it."""
    told = {"name": name, "arguments": {"combination_of_columns": list(columns), **arguments}}
    return {"unique_combination_of_columns": told | ({"config": {"where": where}} if where else {})}


def test_a_combination_that_comes_twice_fails(spark: SparkSession, make_project: MakeProject) -> None:
    models = Models.of(spark, make_project())
    models.write(
        "places",
        "select * from values (1, 'a', 'x'), (2, 'a', 'y'), (3, 'b', 'x'), (4, null, 'x'), (5, null, 'x'),"
        " (6, 'b', null) as places (id, `region of`, town)",
    )
    declared = [
        combination("id", "town", name="differ"),
        combination("town", name="of_one_column"),
        combination("region of", "town", name="with_nulls", quote_columns=True),
        combination("`region of`", "town", name="in_some_rows", where="id <> 5"),
        combination("`region of`", "town", name="in_other_rows", where="id > 3"),
    ]
    content = {"models": [{"name": "places", "data_tests": declared}]}
    (models.project.root / "models" / "_models.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    models.run("places")
    found = {name: (each.status, each.message) for name, each in models.dbt("test", "--select", "places").items()}
    assert {name: status for name, (status, _) in found.items()} == {
        "differ": "pass", "of_one_column": "fail", "with_nulls": "fail", "in_some_rows": "pass",
        "in_other_rows": "fail",
    }  # fmt: skip
    # One for each combination, however often it comes.
    assert found["of_one_column"][1].startswith("Got 1 result")


def test_a_combination_of_a_source_is_one_of_live_rows(spark: SparkSession, make_project: MakeProject) -> None:
    table = table_of("item", {"id": "int", "region": "string", "note": "string"}, ("id",))
    table["data_tests"] = [combination("region", "note", name="items_differ")]
    models = Models.of(spark, make_project({"tables": [table]}))
    rows = [pg("c", number, id=number, region="a", note=str(number)) for number in (1, 2, 3)]
    models.project.deliver("shop.item", 0, [*rows, pg("d", 4, id=2), pg("d", 5, id=3)])
    models.land("item")
    gone = models.project.rows(spark, "item", "region", "note", live=False)
    assert gone.count({"region": None, "note": None}) == 2
    assert models.dbt("test")["items_differ"].status == "pass"
    models.project.deliver("shop.item", 5, [pg("c", 6, id=4, region="a", note="1")])
    models.land("item")
    assert models.dbt("test")["items_differ"].status == "fail"


@pytest.mark.parametrize("columns", ["town", []])
def test_what_is_no_list_of_columns_is_refused(columns: Any, spark: SparkSession, make_project: MakeProject) -> None:
    models = Models.of(spark, make_project())
    models.write("places", "select 1 as id, 'x' as town")
    declared = {"unique_combination_of_columns": {"name": "refused", "arguments": {"combination_of_columns": columns}}}
    content = {"models": [{"name": "places", "data_tests": [declared]}]}
    (models.project.root / "models" / "_models.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    told = f"got combination_of_columns = {columns}, expected a list of columns, at least one"
    with pytest.raises(CompilationError, match=re.escape(told)):
        models.compiled("places")
