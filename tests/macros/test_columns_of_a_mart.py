"""Columns whose names, descriptions or elements something else could be taken for."""

from __future__ import annotations

import json

import pytest
from modeling import NUMBERS, MakeModels, hudi_models

pytestmark = pytest.mark.spark
make_models = pytest.fixture(hudi_models)


@pytest.mark.parametrize("materialized", ["incremental", pytest.param("table", marks=pytest.mark.slow)])
def test_a_column_that_hudi_would_take_for_its_own_is_refused(make_models: MakeModels, materialized: str) -> None:
    models = make_models(materialized=materialized, unique_key="id")
    for name in ("_hoodie_is_deleted", "_hoodie_operation", "_hoodie_mine"):
        models.write(name, f"select id, id = 2 as {name} from range(1, 3) as numbers(id)")
        assert f"got column '{name}', expected a name that does not begin with _hoodie_" in models.refusal(name)
    models.write("upstream", NUMBERS.format(1, 3))
    models.write("model", "select * from {{ ref('upstream') }}")
    models.run("upstream", "model")
    assert len(models.rows("model")) == 2


def test_a_column_may_be_called_as_those_of_a_look_at_keys(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="row_count")
    models.write("model", "select id as row_count, id as null_count from range(1, 3) as numbers(id)")
    models.run()
    models.run(whole=True)
    assert [row["row_count"] for row in models.rows("model")] == [1, 2]


def test_a_null_within_a_value_is_compared(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    text = "select id, array(id, null) as items, named_struct('x', id, 'y', cast(null as bigint)) as pair"
    models.write("model", f"{text}, map('a', array(id, null)) as named from range(1, 4) as numbers(id)")
    models.project.write_models("{version: 2, models: [{name: model, data_tests: [equals_its_select]}]}", "_models.yml")
    models.run()
    table = models.relation("model")

    def differing() -> list[str]:
        models.dbt("test")
        return [line.partition(":")[0] for line in models.told("model")]

    assert differing() == []
    models.do(f"update {table} set items = array(null, id) where id = 1")
    models.do(f"update {table} set pair = named_struct('x', cast(null as bigint), 'y', id) where id = 2")
    models.do(f"update {table} set named = map('a', array(null, id)) where id = 3")
    assert differing() == ["id = 1", "id = 2", "id = 3"]


@pytest.mark.slow
def test_descriptions_of_any_length_and_words_cost_no_run(make_models: MakeModels) -> None:
    """Hive's catalog holds 256 letters of a column's; dbt-spark looks for words anywhere in what the catalog says."""
    models = make_models(persist_docs={"relation": True, "columns": True}, unique_key="id")
    for name in ("table", "incremental"):
        models.write(name, NUMBERS.format(1, 3), materialized=name)
    for letters in (257, 300):
        described = "Purchase Type: VIEW means a view.\nProvider: delta is another one."
        columns = [{"name": "id", "description": "é" * letters}, {"name": "value", "description": "Type: VIEW"}]
        told = [{"name": name, "description": described, "columns": columns} for name in ("table", "incremental")]
        models.project.write_models(json.dumps({"version": 2, "models": told}), "_models.yml")
        for is_whole in (False, False, True):
            models.run(whole=is_whole)
    for name in ("table", "incremental"):
        columns = models.ask(f"describe {models.relation(name)}")
        assert [row["comment"] for row in columns if row["col_name"] == "id"] == ["é" * 255 + "…"]
