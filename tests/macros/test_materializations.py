"""Hudi tables that dbt builds: first, second and third runs, rebuilds, columns that change, wrong configurations."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import MakeProject
from modeling import Models
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
NUMBERS = "select id, {} as value from range(1, {}) as numbers(id)"
MakeModels = Callable[..., Models]


@pytest.fixture
def make_models(spark: SparkSession, make_project: MakeProject) -> MakeModels:
    """Models that are Hudi tables, with more configuration where a test has some."""

    def make(**config: Any) -> Models:
        return Models.of(spark, make_project(), **{"file_format": "hudi", "options": BUCKETS, **config})

    return make


def numbers(value: object, upto: int = 3) -> list[dict[str, Any]]:
    """The rows of `NUMBERS`."""
    return [{"id": number, "value": value} for number in range(1, upto)]


def require_outcome(models: Models, expected: object) -> None:
    """A run gives these rows; or is refused with a text, and leaves the first ones."""
    if isinstance(expected, str):
        assert expected in models.refusal("model")
        assert models.rows("model") == numbers(1)
    else:
        models.run()
        assert models.rows("model") == expected


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("materialized", ["table", "incremental"])
def test_a_table_is_what_the_model_says_after_each_run(
    materialized: str, table_type: str, make_models: MakeModels
) -> None:
    models = make_models(materialized=materialized, unique_key="id", options={**BUCKETS, "type": table_type})
    for value, upto in (("'a'", 4), ("'b'", 3), ("'c'", 6)):
        models.write("model", NUMBERS.format(value, upto))
        models.run()
        assert models.rows("model") == numbers(value.strip("'"), upto)
    models.run(whole=True)
    assert models.rows("model") == numbers("c", 6)
    # One table throughout, whose history is there: nothing was dropped and made anew.
    assert len(models.commits("model")) == 4
    assert models.tables() == {"model"}


def test_a_failed_rebuild_leaves_the_rows_as_they_were(make_models: MakeModels) -> None:
    models = make_models(materialized="table", unique_key="id")
    models.write("model", NUMBERS.format("'a'", 3))
    models.run()
    # While rows are computed, and before that; then in a table that would have had another layout.
    for broken in ("if(id = 2, raise_error('broken'), 'b')", "broken", "if(id = 2, raise_error('broken'), 1)"):
        models.write("model", NUMBERS.format(broken, 3))
        assert "broken" in models.refusal("model")
        assert models.rows("model") == numbers("a")
    models.write("model", NUMBERS.format("'b'", 3))
    models.run()
    assert models.rows("model") == numbers("b")
    assert models.tables() == {"model"}


def test_readers_find_all_rows_while_a_table_is_rebuilt(make_models: MakeModels) -> None:
    models = make_models(materialized="table", unique_key="id")
    sql = "select id, {} as value from range(1, 1001) as numbers(id)"
    models.write("model", sql.format(0))
    models.run()
    found: list[tuple[int, int, int]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            query = f"select count(*), min(value), max(value) from {models.relation('model')}"
            (row,) = models.spark.newSession().sql(query).collect()
            found.append((row[0], row[1], row[2]))

    reader = threading.Thread(target=read)
    reader.start()
    for value in (1, 2, 3):
        models.write("model", sql.format(value))
        models.run()
    done.set()
    reader.join()
    assert len(found) > 3
    assert {count for count, _, _ in found} == {1000}
    assert all(least == greatest for _, least, greatest in found)


@pytest.mark.parametrize(
    "change",
    [
        {"sql": "select id, 1.5 as value, 'new' as more from range(1, 3) as numbers(id)"},
        {"sql": "select id, 'text' as value from range(1, 3) as numbers(id)"},
        {"options": {**BUCKETS, "type": "mor"}},
        {"unique_key": ["id", "value"]},
        {"partition_by": ["value"]},
    ],
    ids=["more columns", "another type", "another table type", "another key", "partitions"],
)
def test_another_layout_is_another_table_under_the_name(change: dict[str, Any], make_models: MakeModels) -> None:
    models = make_models(materialized="table")
    models.write("model", NUMBERS.format(1, 3), unique_key="id")
    models.run()
    sql = change.get("sql", NUMBERS.format(2, 3))
    models.write("model", sql, **{"unique_key": "id", **{k: v for k, v in change.items() if k != "sql"}})
    models.run()
    assert models.rows("model") == [row.asDict() for row in models.spark.sql(sql).orderBy("id").collect()]
    assert models.tables() == {"model"}
    models.run()
    assert len(models.commits("model")) == 2


def test_a_view_becomes_a_table_and_a_table_of_another_format_too(make_models: MakeModels) -> None:
    models = make_models()
    for config in ({"materialized": "view"}, {"materialized": "table", "file_format": "parquet", "options": None}):
        models.write("model", NUMBERS.format(1, 3), **config)
        models.run()
        models.write("model", NUMBERS.format(2, 3), materialized="table", unique_key="id")
        models.run()
        assert models.rows("model") == numbers(2)
        assert models.tables() == {"model"}
        models.spark.sql(f"drop table {models.relation('model')}")


def test_a_rebuild_that_was_broken_off_between_its_renames_is_taken_up(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    models.write("model", NUMBERS.format(1, 3))
    models.run()
    models.spark.sql(f"alter table {models.relation('model')} rename to {models.relation('model__before')}")
    models.write("model", NUMBERS.format(2, 4))
    models.run()
    assert models.rows("model") == numbers(2, 4)
    assert models.tables() == {"model"}
    assert len(models.commits("model")) == 2


def test_composite_keys_merge_delete_and_keep(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key=["id", "part"])
    models.write("model", "select id, part, 1 as value from range(3) as a(id) cross join range(3) as b(part)")
    models.run()
    assert len(models.rows("model")) == 9
    models.write(
        "model", "select id, part, cast(id as int) as value from range(2) as a(id) cross join range(1, 5) as b(part)"
    )
    models.run()
    expected = [{"id": i, "part": p, "value": i} for i in range(2) for p in range(1, 5)]
    assert models.rows("model") == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("ignore", [{"id": 1, "value": 2}, {"id": 2, "value": 2}]),
        ("append_new_columns", [{"id": 1, "value": 2, "more": 3}, {"id": 2, "value": 2, "more": 3}]),
        ("sync_all_columns", [{"id": 1, "value": 2, "more": 3}, {"id": 2, "value": 2, "more": 3}]),
        ("fail", "got new columns more from the model, expected the table's columns (on_schema_change = fail)"),
    ],
)
def test_a_new_column(mode: str, expected: object, make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id", on_schema_change=mode)
    models.write("model", NUMBERS.format(1, 3))
    models.run()
    models.write("model", "select id, 2 as value, 3 as more from range(1, 3) as numbers(id)")
    require_outcome(models, expected)
    if not isinstance(expected, str):
        require_outcome(models, expected)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("ignore", "got no columns value from the model"),
        ("append_new_columns", [{"id": 1, "value": 1}, {"id": 2, "value": 1}, {"id": 3, "value": None}]),
        ("sync_all_columns", [{"id": 1}, {"id": 2}, {"id": 3}]),
        ("fail", "got no columns value from the model"),
    ],
)
def test_a_column_that_is_gone(mode: str, expected: object, make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id", on_schema_change=mode)
    models.write("model", NUMBERS.format(1, 3))
    models.run()
    models.write("model", "select id from range(1, 4) as numbers(id)")
    require_outcome(models, expected)


@pytest.mark.parametrize("mode", ["ignore", "append_new_columns", "sync_all_columns", "fail"])
def test_a_column_of_another_type(mode: str, make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id", on_schema_change=mode)
    models.write("model", NUMBERS.format(1, 3))
    models.run()
    models.write("model", NUMBERS.format("'text'", 3))
    if mode == "sync_all_columns":
        models.run()
        assert models.rows("model") == numbers("text")
    else:
        assert "got columns value as string (the table: int) from the model" in models.refusal("model")
        assert models.rows("model") == numbers(1)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"unique_key": None}, "expected unique_key = a column or a list of columns"),
        ({"unique_key": "nothing"}, "got unique_key column 'nothing', expected one of id, value"),
        ({"unique_key": ["id", "id"]}, "expected unique_key = a column or a list of columns"),
        ({"partition_by": "day"}, "got partition_by column 'day', expected one of id, value"),
        ({"options": {**BUCKETS, "orderingFields": "at"}}, "got orderingFields column 'at', expected one of id, value"),
        (
            {"options": {**BUCKETS, "orderingFields": "id", "preCombineField": "id"}},
            "got options orderingFields and preCombineField, expected one of them: they are two names of one setting",
        ),
        ({"options": {"primarykey": "id"}}, "got option 'primarykey', expected one of primaryKey, type"),
        ({"options": {**BUCKETS, "primaryKey": "value"}}, "got option primaryKey = 'value', expected 'id'"),
        ({"options": {**BUCKETS, "type": "copy"}}, "got option type = 'copy', expected one of cow, mor"),
        ({"options": {"hoodie.index.type": "BUCKET"}}, "without hoodie.bucket.index.num.buckets"),
        ({"incremental_strategy": "upsert"}, "got incremental_strategy = 'upsert', expected one of merge, append"),
        ({"incremental_predicates": ["id > 1"]}, "got incremental_predicates = ['id > 1'], expected none"),
        ({"incremental_strategy": "insert_overwrite"}, "without partition_by"),
    ],
)
def test_a_wrong_configuration_is_refused_before_anything_is_written(
    config: dict[str, Any], message: str, make_models: MakeModels
) -> None:
    models = make_models(materialized="incremental")
    models.write("model", NUMBERS.format(1, 3), **{"unique_key": "id", **config})
    assert message in models.refusal("model")
    with pytest.raises(PySparkException):
        models.spark.table(models.relation("model"))


def test_insert_overwrite_replaces_the_partitions_that_a_run_has(make_models: MakeModels) -> None:
    models = make_models(
        materialized="incremental",
        incremental_strategy="insert_overwrite",
        unique_key="id",
        partition_by=["day"],
        options={},
    )
    rows = "select * from values {} as rows (id, value, day)"
    models.write("model", rows.format("(1, 'a', '1st'), (2, 'a', '1st'), (3, 'a', '2nd')"))
    models.run()
    models.write("model", rows.format("(4, 'b', '2nd'), (5, 'b', '3rd')"))
    models.run()
    assert [(row["id"], row["value"]) for row in models.rows("model", "id", "value")] == [
        (1, "a"), (2, "a"), (4, "b"), (5, "b"),
    ]  # fmt: skip
    models.run(whole=True)
    assert [row["id"] for row in models.rows("model", "id")] == [4, 5]


@pytest.mark.parametrize("materialized", ["table", "incremental"])
def test_a_model_may_read_a_table_as_it_was(materialized: str, make_models: MakeModels) -> None:
    models = make_models(unique_key="id")
    models.write("base", NUMBERS.format(1, 3), materialized="table")
    models.run("base")
    ((instant, _),) = models.commits("base")
    models.write("base", NUMBERS.format(2, 4), materialized="table")
    models.write(
        "model", f"select * from {models.relation('base')} timestamp as of '{instant}'", materialized=materialized
    )
    models.run("base")
    models.run("model")
    if materialized == "incremental":
        models.write("model", "select id, value from {{ ref('base') }} where id < 3", materialized=materialized)
        models.run("model")
        assert models.rows("model") == numbers(2)
        models.write(
            "model", f"select * from {models.relation('base')} timestamp as of '{instant}'", materialized=materialized
        )
    models.run("model")
    assert models.rows("model") == numbers(1)
    assert models.tables() == {"base", "model"}
