"""Tables of files, Parquet and others, in a project whose other tables are Hudi's."""

from __future__ import annotations

from typing import Any

import pytest
from modeling import NUMBERS, MakeModels, hudi_models, numbers

pytestmark = pytest.mark.spark
make_models = pytest.fixture(hudi_models)
PARQUET: dict[str, Any] = {"file_format": "parquet", "options": {}}
HUDI: dict[str, Any] = {"file_format": "hudi", "unique_key": "id"}


@pytest.mark.parametrize(
    ("kind", "before"),
    [
        ("table", {"materialized": "table", **HUDI}),
        pytest.param("table", {"materialized": "view"}, marks=pytest.mark.slow),
        pytest.param("table", {"materialized": "table", **PARQUET}, marks=pytest.mark.slow),
        pytest.param("incremental", {"materialized": "incremental", **HUDI}, marks=pytest.mark.slow),
        pytest.param("incremental", {"materialized": "incremental", **PARQUET}, marks=pytest.mark.slow),
    ],
)
def test_what_is_there_stays_where_its_files_cannot_be_made(
    kind: str, before: dict[str, Any], make_models: MakeModels
) -> None:
    models = make_models()
    models.write("model", NUMBERS.format("'a'", 3), **before)
    models.run()
    broken = NUMBERS.format("if(id = 2, raise_error('broken'), 'b')", 4)
    for told, sql, more in (("delta", NUMBERS.format("'b'", 4), {"file_format": "delta"}), ("broken", broken, {})):
        models.write("model", sql, materialized=kind, **{**PARQUET, **more})
        assert told in models.dbt("run", "--full-refresh")["model"].message
        assert models.rows("model") == numbers("a")
    models.write("model", NUMBERS.format("'b'", 4), materialized=kind, **PARQUET)
    models.run(whole=True)
    assert models.rows("model") == numbers("b", 4)
    assert models.tables() == {"model"}


def test_a_run_that_fails_overwrites_nothing(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", incremental_strategy="insert_overwrite", **PARQUET)
    broken, names = "if(id = 2, raise_error('broken'), 'a')", ("whole", "parted")
    for value, upto in (("'a'", 3), (broken, 4), ("'a'", 4)):
        models.write("whole", NUMBERS.format(value, upto))
        models.write("parted", NUMBERS.format(value, upto), partition_by="value")
        outcomes = models.dbt("run")
        assert [outcomes[name].status for name in names] == ["error" if value == broken else "success"] * 2
        for name in names:
            assert models.rows(name) == numbers("a", 3 if value == broken else upto), name
    assert models.tables() == set(names)


def test_a_table_with_a_place_of_its_own_is_built_anew(make_models: MakeModels) -> None:
    models = make_models()
    place = models.project.root / "elsewhere"
    # A run of dbt-spark that was killed has left it.
    (place / "model" / "_temporary").mkdir(parents=True)
    for value in ("a", "b", "c"):
        models.write(
            "model", NUMBERS.format(f"'{value}'", 3), materialized="table", location_root=str(place), **PARQUET
        )
        models.run()
        assert models.rows("model") == numbers(value)
    # No copy of the earlier rows is left on the disk.
    kept = [models.ask(f"select * from parquet.`{folder}` order by 1") for folder in place.glob("model__*")]
    assert sorted(kept, key=len) == [[], [], numbers("c")]


def test_columns_of_hudi_stay_out_of_files(make_models: MakeModels) -> None:
    models = make_models()
    models.write("mart", NUMBERS.format("'a'", 3), materialized="incremental", **HUDI)
    every = {"materialized": "incremental", "incremental_strategy": "append", **PARQUET}
    models.write("appended", "select * from {{ ref('mart') }};", **every)
    models.write("told", "select id, _hoodie_record_key from {{ ref('mart') }}", materialized="table", **PARQUET)
    models.run()
    models.run()
    assert models.ask(f"select * from {models.relation('appended')} order by id") == [
        row for row in numbers("a") for _ in range(2)
    ]
    told = models.ask(f"select * from {models.relation('told')} order by id")
    assert told == [{"id": n, "_hoodie_record_key": str(n)} for n in (1, 2)]
