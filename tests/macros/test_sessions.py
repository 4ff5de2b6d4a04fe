"""What a run takes for the same text: views, hooks and settings of the session decide what a select is, too."""

from __future__ import annotations

import pytest
from modeling import MakeModels, Models, hudi_models

pytestmark = pytest.mark.spark
make_models = pytest.fixture(hudi_models)
LEAST = "select id from range(1, 4) as numbers(id) where id >= ${my.least}"


def ids(models: Models) -> list[int]:
    return [row["id"] for row in models.rows("model")]


@pytest.mark.parametrize(
    "label",
    [
        "Created By: ",
        *(pytest.param(label, marks=pytest.mark.slow) for label in ("Last Access: ", "Table Properties: [")),
    ],
)
def test_a_view_s_text_is_looked_at_whole(make_models: MakeModels, label: str) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    models.write("model", "select * from {{ ref('upstream') }}")
    for factor in (1, 1000):
        text = f"select id, '{label}' as label, id * {factor} as value from range(1, 3) as numbers(id)"
        models.write("upstream", text, materialized="view")
        models.run()
        assert [row["value"] for row in models.rows("model")] == [factor, 2 * factor]
    models.run()
    assert models.told("model") == ["nothing upstream has changed"]


@pytest.mark.parametrize("way", ["hook", *(pytest.param(way, marks=pytest.mark.slow) for way in ("query", "run"))])
def test_a_setting_in_a_text_is_seen_whoever_has_set_it(make_models: MakeModels, way: str) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    settings = models.project.root / "dbt_project.yml"
    before = settings.read_text(encoding="utf-8")

    def by_hook(least: int) -> None:
        models.write("model", LEAST, pre_hook=f"-- the least\nset my.least = {least}")

    def by_query(least: int) -> None:
        models.write("model", f"{{% do run_query('set my.least = {least}') %}}{LEAST}")

    def by_run(least: int) -> None:
        models.write("model", LEAST)
        start = f"on-run-start: [\"{{{{ refuse_other_project() }}}}\", 'set my.least = {least}']"
        settings.write_text(before.replace("on-run-start: '{{ refuse_other_project() }}'", start), encoding="utf-8")
        assert start in settings.read_text(encoding="utf-8")

    for least in (1, 3, 2):
        {"hook": by_hook, "query": by_query, "run": by_run}[way](least)
        models.run()
        assert ids(models) == list(range(least, 4))
    models.run()
    assert models.told("model") == ["nothing upstream has changed"]


@pytest.mark.slow
def test_a_setting_by_which_spark_computes_is_seen(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    models.write("upstream", "select id, cast(id / 3 as decimal(38, 18)) as part from range(1, 3) as numbers(id)",
                 materialized="table", unique_key="id")  # fmt: skip
    text = "select id, cast(part * cast(3 as decimal(38, 18)) as string) as value from {{ ref('upstream') }}"
    models.write("model", text)
    models.run()
    found = []
    for is_allowed in ("true", "false"):
        models.do(f"set spark.sql.decimalOperations.allowPrecisionLoss = {is_allowed}")
        models.run("model")
        found.append(models.rows("model"))
        models.run("model")
        assert models.told("model") == ["nothing upstream has changed"]
    models.spark.conf.unset("spark.sql.decimalOperations.allowPrecisionLoss")
    assert found[0] != found[1]


@pytest.mark.slow
def test_a_select_is_a_statement_to_its_end(make_models: MakeModels) -> None:
    """Texts and comments may hold what ends a statement, and comments may follow it."""
    models = make_models(materialized="incremental", unique_key="id")
    ends = [";", ";\n-- the end", "; -- the end;\n/* of; it */ ;\n", "\n-- the end;", " /* ; */", ""]
    text = "select 1 as id, '; -- no end \\'; /*' as value"
    for number, end in enumerate(ends):
        models.write(f"model_{number}", f"{text} -- of it;\n{end}")
    models.write("model_6", text)
    models.run()
    models.run()
    for number in range(len(ends) + 1):
        assert models.rows(f"model_{number}") == [{"id": 1, "value": "; -- no end '; /*"}], number


def test_a_repartition_is_not_chance(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    models.write("upstream", "select id from range(1, 4) as numbers(id)", materialized="view")
    models.write("hinted", "select /*+ repartition(2) */ id from {{ ref('upstream') }}")
    models.write("spread", "select id from {{ ref('upstream') }} distribute by id")
    models.write("chance", "select /*+ repartition(2) */ id, rand() as value from {{ ref('upstream') }}")
    models.run()
    models.run()
    for name in ("hinted", "spread"):
        assert models.told(name) == ["nothing upstream has changed"]
    assert models.told("chance")[0] == "the whole table is compared: its select is non-deterministic"


@pytest.mark.slow
def test_a_select_that_says_its_schema_does_not_read_itself(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    text = "select id, '{{ this.schema }}' as built_in, '{{ this.database }}' as beside from range(1, %d) as n(id)"
    for upto in (4, 3):
        models.write("model", text % upto)
        models.run()
        assert [row["id"] for row in models.rows("model", "id")] == list(range(1, upto))
    models.write("other", "select * from {{ this.schema }}.{{ this.name }}")
    models.do(f"create table {models.relation('other')} using parquet as select 1 as id")
    assert "it reads itself" in models.refusal("other")
