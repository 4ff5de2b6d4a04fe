"""Names and places of a model's table that are another table's too, or look like it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from modeling import BUCKETS, NUMBERS, MakeModels, hudi_models, numbers
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
make_models = pytest.fixture(hudi_models)
MERGED_AS_READ: dict[str, Any] = {
    "materialized": "incremental",
    "unique_key": "id",
    "options": {**BUCKETS, "type": "mor"},
}


@pytest.mark.slow
def test_a_name_with_capitals_is_read_in_the_run_that_makes_its_table(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    models.write("Numbers", NUMBERS.format(1, 3), alias="NUMBERS")
    models.write("Copies", "select * from {{ ref('Numbers') }}")
    for options in (False, False, True):
        models.run(whole=options)
        assert models.rows("copies", "id", "value") == numbers(1)


@pytest.mark.parametrize("ending", ["ro", pytest.param("rt", marks=pytest.mark.slow)])
def test_a_merge_on_read_mart_takes_no_other_name(make_models: MakeModels, ending: str) -> None:
    """Hudi's merge brings such a table to the catalog under two more names, and replaces what has them."""
    models = make_models()
    models.write("model", NUMBERS.format(1, 4), **MERGED_AS_READ)
    models.write(f"model_{ending}", NUMBERS.format(100, 4), materialized="table", unique_key="id")
    models.run()
    models.write("model", NUMBERS.format(2, 3), **MERGED_AS_READ)
    for _ in range(2):
        models.run()
        assert models.rows("model") == numbers(2)
        assert models.rows(f"model_{ending}") == numbers(100, 4)
    assert models.tables() == {"model", f"model_{ending}"}


@pytest.mark.slow
def test_such_a_mart_keeps_its_comments(make_models: MakeModels) -> None:
    models = make_models(persist_docs={"columns": True})
    described = "version: 2\nmodels: [{name: model, columns: [{name: id, description: its number}]}]"
    models.project.write_models(described, "_models.yml")
    for upto in (4, 3):
        models.write("model", NUMBERS.format(1, upto), **MERGED_AS_READ)
        models.run()
        columns = models.ask(f"describe {models.relation('model')}")
        assert [row["comment"] for row in columns if row["col_name"] == "id"] == ["its number"]


@pytest.mark.parametrize("name", ["before", pytest.param("export_2", marks=pytest.mark.slow)])
def test_a_table_of_a_name_like_a_run_s_is_a_user_s(make_models: MakeModels, name: str) -> None:
    """The first and the last day of a backup are eight digits twice, as when a run began and which one it was."""
    models = make_models(materialized="incremental", unique_key="id")
    other = f"model__{name}__20240101_20240131"
    models.write("model", NUMBERS.format(1, 3))
    models.do(f"create database if not exists lakehouse_{models.project.schema}")
    models.do(f"create table {models.relation(other)} using parquet as {NUMBERS.format(5, 3)}")
    models.run()
    assert models.rows("model") == numbers(1)
    assert models.rows(other) == numbers(5)


def test_models_of_one_run_share_no_view(make_models: MakeModels) -> None:
    """`s`.`shop__model` and `s__shop`.`model`, four at a time in one session."""
    models = make_models(materialized="incremental", unique_key="id")
    pairs = [(f"shop{number}__model", f"model{number}") for number in range(3)]
    for number, (long, short) in enumerate(pairs):
        schema = f"{models.project.schema}__shop{number}"
        models.write(long, NUMBERS.format("'long'", 3), alias=f"shop{number}__model")
        models.write(short, NUMBERS.format("'short'", 3), alias="model", schema=schema)
    models.run()
    for number, (long, _) in enumerate(pairs):
        assert models.rows(long) == numbers("long")
        other = f"lakehouse_{models.project.schema}__shop{number}.model"
        assert {row["value"] for row in models.ask(f"select value from {other}")} == {"short"}


def test_the_files_of_a_table_at_a_place_of_its_own_stay(
    make_models: MakeModels, spark: SparkSession, tmp_path: Path
) -> None:
    models = make_models(materialized="table", unique_key="id")
    table, other = models.relation("model"), models.relation("other")
    models.do(f"create database if not exists lakehouse_{models.project.schema}")
    for name in (table, other):
        models.do(f"create table if not exists {name} (id int, old int) using hudi tblproperties (primaryKey = 'id') "
                  f"location '{tmp_path / 'theirs'}'")  # fmt: skip
    models.do(f"insert into {table} values (1, 1)")
    models.write("model", NUMBERS.format(1, 3))
    models.run()
    assert models.rows("model") == numbers(1)
    assert models.ask(f"select id, old from {other}") == [{"id": 1, "old": 1}]


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["hudi", "parquet"])
def test_a_folder_is_of_one_schema(make_models: MakeModels, tmp_path: Path, file_format: str) -> None:
    models = make_models(materialized="table", location_root=str(tmp_path), file_format=file_format)
    schemas = [f"{models.project.schema}_{number}" for number in (1, 2)]
    for _ in range(2):
        for number, schema in enumerate(schemas):
            config: dict[str, Any] = {"options": {}} if file_format == "parquet" else {"unique_key": "id"}
            models.write(f"model_{number}", NUMBERS.format(number, 3), schema=schema, alias="files", **config)
        models.run()
        for number, schema in enumerate(schemas):
            found = models.ask(f"select id, value from lakehouse_{schema}.files order by id")
            assert found == numbers(number)
