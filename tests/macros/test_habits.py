"""What users of dbt do without having read anything here: no row is lost, or one sentence says why not."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
import yaml
from conftest import MakeProject
from dbt.cli.main import dbtRunner
from lake import Server
from modeling import BUCKETS, NUMBERS, MakeModels, Models, hudi_models, numbers
from pyspark.sql import SparkSession

from macros import test_increments as increments

pytestmark = pytest.mark.spark
make_shop = increments.make_shop
PARQUET: dict[str, Any] = {"materialized": "table", "file_format": "parquet", "options": {}}


@pytest.fixture
def make_models(spark: SparkSession, make_project: MakeProject, server: Server | None) -> MakeModels:
    """Incremental models that are Hudi tables, with more configuration where a test has some."""
    made = hudi_models(spark, make_project, server)

    def make(**config: Any) -> Models:
        return made(**{"materialized": "incremental", "unique_key": "id", **config})

    return make


@pytest.mark.slow
def test_a_clock_that_was_set_back_is_refused(make_models: MakeModels) -> None:
    """A commit before the last one is not the newest: nobody saw a rebuild, which said that it went well."""
    models = make_models()
    models.write("increment", "select 1 as id, 'a' as value")
    models.write("rebuilt", "select 1 as id, 'a' as value", materialized="table")
    models.run()
    for name in ("increment", "rebuilt"):
        described = models.ask(f"describe table extended {models.relation(name)}")
        (place,) = (row["data_type"] for row in described if row["col_name"] == "Location")
        timeline = Path(urlparse(place).path) / ".hoodie" / "timeline"
        for file in list(timeline.glob("2*")):
            file.rename(file.with_name(re.sub(r"(?<!\d)2(?=\d{16})", "3", file.name)))
        models.write(name, "select 1 as id, 'b' as value", **({"materialized": "table"} if name == "rebuilt" else {}))
        assert "by the clock of the machine that runs Spark" in models.refusal(name)
        assert models.rows(name) == [{"id": 1, "value": "a"}]
    assert "by the clock of the machine that runs Spark" in models.dbt("run", "--full-refresh")["increment"].message


def test_another_project_writes_no_table_of_its_package(make_models: MakeModels, tmp_path: Path) -> None:
    """dbt takes no materialization from a package: its own appended, or merged, whatever was there."""
    models = make_models()
    models.write("increment", "select 1 as id, 'a' as value")
    models.write("shown", "select * from {{ ref('increment') }}", materialized="view")
    models.run()
    other = tmp_path / "other"
    (other / "models").mkdir(parents=True)
    (other / "models" / "mine.sql").write_text("select * from {{ ref('shown') }}", encoding="utf-8")
    settings = {"name": "mine", "profile": "lakehouse", "models": {"mine": {"+schema": models.project.schema}}}
    (other / "dbt_project.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    (other / "packages.yml").write_text(yaml.safe_dump({"packages": [{"local": "../shop"}]}), encoding="utf-8")
    (other / "dbt_packages").mkdir()
    (other / "dbt_packages" / "tested").symlink_to(models.project.root)

    def run(*words: str) -> Any:
        rooms = ("--project-dir", str(other), "--profiles-dir", str(models.project.root), *models.target)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            return dbtRunner().invoke(["--quiet", *words, *rooms])

    refused = run("run")
    assert not refused.success
    assert "got tables of the package tested (increment) in a run of the project mine" in str(refused.exception)
    assert models.rows("increment") == [{"id": 1, "value": "a"}]
    assert run("run", "--exclude", "increment").success
    assert models.rows("mine") == [{"id": 1, "value": "a"}]


@pytest.mark.parametrize(
    ("sql", "key", "told"),
    [
        ("select * from values (1, 'a'), (null, 'b'), (null, 'c') as t (id, value)", "id", "2 rows with a null"),
        ("select * from values (1, 'a'), (2, 'b'), (2, 'c') as t (id, value)", "id", "2 rows that share theirs"),
        (
            "select * from values (1, 1, 'a'), (1, 2, 'b'), (1, 2, 'b'), (1, null, 'c') as t (id, part, value)",
            ["id", "part"],
            "got 1 rows with a null in unique_key (id, part) and 2 rows that share theirs",
        ),
    ],
)
def test_keys_that_are_null_or_shared_are_refused(sql: str, key: Any, told: str, make_models: MakeModels) -> None:
    models = make_models(unique_key=key)
    # A first build, an increment and a rebuild, none of which writes anything.
    models.write("model", sql)
    assert told in models.refusal("model")
    assert models.tables() == set()
    good = "select 7 as id, 7 as part, 'good' as value" if key != "id" else "select 7 as id, 'good' as value"
    models.write("model", good)
    models.run()
    before = models.rows("model")
    models.write("model", sql)
    assert told in models.refusal("model")
    assert told in models.dbt("run", "--select", "model", "--full-refresh")["model"].message
    assert models.rows("model") == before
    assert models.tables() == {"model"}


@pytest.mark.slow
def test_a_group_whose_key_becomes_null_is_not_left_out(make_shop: increments.MakeShop) -> None:
    shop = make_shop()
    models = shop.models
    sql = "select customer as id, sum(amount) as amount from {{ ref('stg_orders') }} group by customer"
    reach = [{"source": "shop.orders", "by": {"id": "customer"}}]
    models.write("by_customer", sql, materialized="incremental", meta={"affected_by": reach})
    models.run("by_customer")
    before = models.rows("by_customer")
    shop.change(("orders", "u", {"id": 1, "customer": None, "amount": 1, "at": 1}))
    assert "got 1 rows with a null in unique_key (id)" in models.refusal("by_customer")
    assert models.rows("by_customer") == before
    shop.change(("orders", "u", {"id": 1, "customer": 2, "amount": 5, "at": 1}))
    models.run("by_customer")
    assert next(row for row in models.rows("by_customer") if row["id"] == 2)["amount"] == 5 + 5 + 9


@pytest.mark.slow
def test_a_mended_entry_mends_the_mart(make_shop: increments.MakeShop) -> None:
    shop = make_shop()
    models = shop.models
    forgotten = [*increments.REACH_ORDERS[:1], {"source": "shop.customers", "by": {"id": "id"}}]
    models.write("fct_orders", increments.ORDERS, materialized="incremental", meta={"affected_by": forgotten})
    models.run("fct_orders")
    shop.change(("customers", "u", {"id": 2, "name": "other", "region": 1}))
    models.run("fct_orders")
    assert models.rows("fct_orders") != models.rows("select_of_fct_orders")
    models.write(
        "fct_orders", increments.ORDERS, materialized="incremental", meta={"affected_by": increments.REACH_ORDERS}
    )
    models.run("fct_orders")
    assert (
        models.told("fct_orders")[0]
        == "the whole table is compared: its affected_by, unique_key, constraints or settings are others"
    )
    shop.require_law("fct_orders")
    # Nobody need mend it to have the table compared.
    models.do(f"delete from {models.relation('fct_orders')} where id = 1")
    models.dbt("run", "--select", "fct_orders", "--vars", "compare_whole: true")
    assert models.told("fct_orders")[0] == "the whole table is compared: the variable compare_whole says so"
    shop.require_law("fct_orders")


OTHER_SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "key": (
        {"unique_key": ["id", "value"]},
        "got unique_key = 'id, value', expected 'id', with which its table was made",
    ),
    "partition": ({"partition_by": ["value"]}, "got partition_by = 'value', expected '', with which"),
    "type": ({"options": {**BUCKETS, "type": "mor"}}, "got options.type = 'mor', expected 'cow', with which"),
    "buckets": (
        {"options": {**BUCKETS, "hoodie.bucket.index.num.buckets": "2"}},
        "got options.hoodie.bucket.index.num.buckets = '2', expected '1', with which",
    ),
}


def test_settings_that_need_another_table_are_refused(make_models: MakeModels) -> None:
    models = make_models()
    for name in OTHER_SETTINGS:
        models.write(name, NUMBERS.format("'a'", 4))
    models.run()
    for name, (config, _) in OTHER_SETTINGS.items():
        models.write(name, NUMBERS.format("'b'", 3), **config)
    for name, outcome in models.dbt("run").items():
        told = OTHER_SETTINGS[name][1]
        assert (outcome.status, told in outcome.message) == ("error", True), outcome.message
        assert "--full-refresh" in outcome.message
        assert models.rows(name) == numbers("a", 4)
    models.run(whole=True)
    models.run()
    for name in OTHER_SETTINGS:
        assert models.rows(name) == numbers("b")


@pytest.mark.slow
def test_a_table_that_keeps_the_greater_row_is_refused(make_models: MakeModels) -> None:
    """Somebody else has made it: a row that the model gives with a smaller value would stay as it was."""
    models = make_models()
    models.write("first", NUMBERS.format("'a'", 1))
    models.run()  # makes the schema
    properties = "tblproperties (primaryKey = 'id', preCombineField = 'value')"
    models.do(f"create table {models.relation('model')} using hudi {properties} as " + NUMBERS.format("'b'", 3))
    models.write("model", NUMBERS.format("'a'", 3), options={"preCombineField": "value"})
    told = models.dbt("run")["model"]
    assert (told.status, "got a table with preCombineField = 'value'" in told.message) == ("error", True), told.message
    models.run(whole=True)
    models.write("model", NUMBERS.format("'0'", 3), options={"preCombineField": "value"})
    models.run()
    assert models.rows("model") == numbers("0", 3)


@pytest.mark.slow
def test_tables_that_are_read_by_their_names_are_followed(make_models: MakeModels) -> None:
    models = make_models()
    models.write("upstream", NUMBERS.format("'a'", 4))
    models.write("of_files", NUMBERS.format("'x'", 3), **PARQUET)
    models.run()
    # By name; behind a view that is no model of dbt's; and a file.
    upstream, files = models.relation("upstream"), models.relation("of_files")
    schema = upstream.split(".")[0]
    models.do(f"create view {schema}.no_model as select id, value from {upstream} where id < 100")
    models.write("by_name", f"select id, value from {upstream}")
    models.write("by_view", f"select id, value from {schema}.no_model union all select id + 50, value from {files}")
    location = models.ask(f"select distinct _metadata.file_path as path from {files}")[0]["path"].rpartition("/")[0]
    models.write("by_path", f"select id, value from parquet.`{location}`")
    names = ("by_name", "by_view", "by_path")
    models.run(*names)
    models.run(*names)
    assert {name: models.told(name)[0] for name in names} == {
        "by_name": "nothing upstream has changed",
        "by_view": "nothing upstream has changed",
        "by_path": "the whole table is compared: it reads what is no table of the catalog",
    }
    models.write("upstream", NUMBERS.format("'b'", 5))
    models.write("of_files", NUMBERS.format("'y'", 4), **PARQUET)
    models.run("upstream", "of_files")
    models.run("by_name", "by_view")
    assert models.rows("by_name") == numbers("b", 5)
    assert models.rows("by_view") == [*numbers("b", 5), *({"id": 50 + n, "value": "y"} for n in (1, 2, 3))]
    models.do(f"create or replace view {schema}.no_model as select id, 'v' as value from {upstream} where id < 3")
    models.run("by_view")
    assert models.rows("by_view")[:2] == numbers("v")


@pytest.mark.slow
def test_a_source_may_be_a_view(make_models: MakeModels) -> None:
    models = make_models()
    models.write("upstream", NUMBERS.format("'a'", 4))
    models.run()
    schema = models.relation("upstream").split(".")[0]
    models.do(f"create view {schema}.offered as select * from {models.relation('upstream')}")
    models.project.write_models(
        f"version: 2\nsources:\n- name: other\n  schema: {schema}\n  tables:\n  - name: offered\n", "_other.yml"
    )
    models.write("model", "select id, value from {{ source('other', 'offered') }}")
    models.run("model")
    models.run("model")
    assert models.told("model") == ["nothing upstream has changed"]
    models.write("upstream", NUMBERS.format("'b'", 3))
    models.run("upstream")
    models.run("model")
    assert models.rows("model") == numbers("b")


CHANCE = {
    "by_random": "random()",
    "by_uuid": "uuid()",
    "by_place": "monotonically_increasing_id()",
    "by_shuffle": "shuffle(array(1, 2, 3))",
    "by_time": "current_timestamp()",
    "by_word": "cast('now' as timestamp)",
    "by_day": "to_date('today')",
    "by_call": "timestamp('now')",
    "by_literal": "timestamp 'now'",
    "by_zone": "try_cast('today CET' as timestamp)",
}


@pytest.mark.slow
def test_what_is_left_to_chance_is_computed_in_each_run(make_models: MakeModels) -> None:
    models = make_models()
    models.write("upstream", NUMBERS.format("'a'", 4), materialized="view")
    for name, expression in CHANCE.items():
        between = f"select id, {expression} as chance from {{{{ ref('upstream') }}}}"
        models.write(f"view_{name}", between, materialized="view")
        models.write(name, f"select id, cast(chance as string) as value from {{{{ ref('view_{name}') }}}}")
    models.write("steady", "select id, collect_list(value) as value from {{ ref('upstream') }} group by id")
    models.run()
    models.run(*CHANCE, "steady")
    whole = "the whole table is compared: its select is non-deterministic"
    assert {name: models.told(name)[0] for name in CHANCE} == dict.fromkeys(CHANCE, whole)
    assert models.told("steady") == ["nothing upstream has changed"]


@pytest.mark.slow
def test_a_run_that_failed_says_nothing_of_other_commits(make_models: MakeModels) -> None:
    models = make_models()
    models.write(
        "model", "select id, if(value = 'b', raise_error('broken'), value) as value from {{ ref('upstream') }}"
    )
    for value in ("a", "b"):
        models.write("upstream", NUMBERS.format(f"'{value}'", 4))
        models.dbt("run", "--full-refresh")
    models.do(f"insert into {models.relation('model')} (id, value) values (99, 'phantom')")
    assert "broken" in models.refusal("model")


@pytest.mark.slow
def test_a_comment_behind_each_statement_changes_nothing(make_models: MakeModels) -> None:
    models = make_models()
    settings = models.project.root / "dbt_project.yml"
    settings.write_text(settings.read_text(encoding="utf-8") + "query-comment: {comment: ours, append: true}\n")
    models.write("model", NUMBERS.format("'a'", 4))
    models.run()
    models.run()
    assert models.told("model") == ["nothing upstream has changed"]


def test_times_in_maps_are_compared_with_all_their_digits(make_models: MakeModels) -> None:
    models = make_models()
    at = "2026-01-01 00:00:00.123"
    for digits in ("456", "999"):
        models.write("model", f"select 1 as id, map('a', timestamp '{at}{digits}') as value")
        models.run()
    assert models.ask(f"select cast(value['a'] as string) as a from {models.relation('model')}") == [{"a": f"{at}999"}]


@pytest.mark.slow
def test_maps_are_compared_by_what_they_hold(make_models: MakeModels) -> None:
    models = make_models()
    sql = "select id, map('a', {}, 'b', null) as value, array(map('k', '{}')) as more from range(1, 4) as numbers(id)"
    models.write("model", sql.format("id", "x"))
    models.run()
    models.write("model", sql.format("id + 0", "x"))
    models.run()
    assert models.told("model")[-1] == "0 rows differ"
    models.write("model", sql.format("if(id = 2, 7, id)", "x"))
    models.run()
    assert models.told("model")[-1] == "1 rows differ"
    models.write("model", sql.format("if(id = 2, 7, id)", "y"))
    models.run()
    assert models.told("model")[-1] == "3 rows differ"
    assert models.ask(f"select value['a'] as a from {models.relation('model')} where id = 2") == [{"a": 7}]
    # A row goes: that is a merge, which must take what the select knows to hold no null.
    models.write("model", sql.format("7L", "y") + " where id < 3")
    models.run()
    assert models.told("model")[-1] == "2 rows differ"


def test_a_commit_between_is_not_overlooked(make_models: MakeModels) -> None:
    models = make_models()
    models.write("model", NUMBERS.format("'a'", 6))
    models.run()
    # Another run removes a row and adds one, after this one has looked at the table, and before it writes.
    table = models.relation("model")
    hooks = [f"delete from {table} where id = 2", f"insert into {table} (id, value) values (99, 'phantom')"]
    models.write("model", NUMBERS.format("'b'", 6), pre_hook=hooks)
    models.run()
    assert models.told("model") == [
        "the whole table is compared: the model or a view that it reads has another text",
        "6 rows differ",
        "the whole table is compared: another run has written to it meanwhile",
        "6 rows differ",
    ]
    assert models.rows("model") == numbers("b", 6)
    models.write("model", NUMBERS.format("'b'", 6))
    models.run()
    assert models.rows("model") == numbers("b", 6)


def test_in_another_time_zone_a_select_has_other_rows(make_models: MakeModels) -> None:
    """The profile's, which is set anew with each statement in an embedded session: no text tells of it."""
    models = make_models()
    profile = models.project.root / "profiles.yml"
    told = profile.read_text(encoding="utf-8")
    models.write("times", "select 1 as id, timestamp '2026-01-01 03:00:00Z' as at")
    select = "select id, cast(to_date(at) as string) as day from {{ ref('times') }}"
    models.write("model", select)
    models.run()
    models.run("model")
    assert models.told("model") == ["nothing upstream has changed"]
    for zone, day in {"America/New_York": "2025-12-31", "UTC": "2026-01-01"}.items():
        profile.write_text(told.replace("session.timeZone: UTC", f"session.timeZone: {zone}"), encoding="utf-8")
        models.run("model")
        assert models.rows("model") == [{"id": 1, "day": day}]


@pytest.mark.slow
def test_a_view_of_another_time_zone_is_another_view(make_models: MakeModels) -> None:
    """Spark keeps the zone in which a view was made, and shows it nowhere."""
    models = make_models()
    profile = models.project.root / "profiles.yml"
    told = profile.read_text(encoding="utf-8")
    models.write("times", "select 1 as id, timestamp '2026-01-01 23:30:00Z' as at", materialized="table")
    models.write("seen", "select id, cast(to_date(at) as string) as day from {{ ref('times') }}", materialized="view")
    models.write("model", "select * from {{ ref('seen') }}")
    models.run()
    profile.write_text(told.replace("session.timeZone: UTC", "session.timeZone: Asia/Tokyo"), encoding="utf-8")
    models.run("seen")
    profile.write_text(told, encoding="utf-8")
    models.run("model")
    assert models.rows("model") == [{"id": 1, "day": "2026-01-02"}]
    models.run("model")
    assert models.told("model") == increments.NOTHING


@pytest.mark.slow
def test_settings_of_a_pre_hook_are_part_of_a_select(make_models: MakeModels) -> None:
    models = make_models()
    models.write("base", NUMBERS.format("'a'", 6), materialized="table")
    select = "select id, size(split(if(id = 5, null, value), ',')) as n from {{ ref('base') }} where id >= ${my.cut}"
    models.run("base")
    ids, sizes = [], []
    for cut, legacy in (("4", "true"), ("2", "true"), ("{{ var('cut', 2) }}", "false")):
        hooks = [f"set my.cut = {cut}", f"set spark.sql.legacy.sizeOfNull = {legacy}", "select '{{ invocation_id }}'"]
        models.write("model", select, pre_hook=hooks)
        models.run("model")
        ids.append([row["id"] for row in models.rows("model")])
        sizes.append(models.rows("model")[-1]["n"])
        models.run("model")
        assert models.told("model") == increments.NOTHING
    assert (ids, sizes) == ([[4, 5], [2, 3, 4, 5], [2, 3, 4, 5]], [-1, -1, None])
    refused = models.dbt("run", "--select", "model", "--vars", "cut: 4")["model"]
    assert "got 2 rows that its select gives no more" in refused.message
    models.do("reset spark.sql.legacy.sizeOfNull")


@pytest.mark.slow
def test_what_a_pre_hook_writes_is_no_surprise(make_models: MakeModels) -> None:
    models = make_models()
    models.write("base", NUMBERS.format("'a'", 4))
    models.write("model", "select * from {{ ref('base') }}", pre_hook="select 1")
    models.run()
    # The table, which has lost a row that no commit upstream tells of; and what the model reads.
    for told, hook in {
        "a pre_hook has written to it": "delete from {{ this }} where id = 2",
        f"{models.relation('base')} has changed, and affected_by does not name it": (
            "update {{ this.schema }}.base set value = 'b' where id = 2"
        ),
    }.items():
        models.write("model", "select * from {{ ref('base') }}", pre_hook=hook)
        models.run("model")
        assert models.told("model") == [f"the whole table is compared: {told}", "1 rows differ"]
        assert models.rows("model") == models.rows("base")


def test_a_commit_that_had_not_seen_the_one_before_it_is_not_trusted(make_models: MakeModels) -> None:
    models = make_models()
    models.write("model", NUMBERS.format("'a'", 4))
    models.run()
    table, state = models.relation("model"), "hoodie.lakehouse.model.tested.model"
    (told,) = models.ask(f"call show_commit_extra_metadata(table => '{table}', metadata_key => '{state}')")
    # What two runs leave whose commits are one upon the other, and of which the second was killed behind its own.
    models.do(f"insert into {table} (id, value) values (99, 'phantom')")
    models.spark.conf.set(state, told["metadata_value"])
    models.do(f"delete from {table} where id = 2")
    models.spark.conf.unset(state)
    models.run()
    assert models.rows("model") == numbers("a", 4)


def test_a_run_leaves_what_another_one_has_made(make_models: MakeModels) -> None:
    models = make_models()
    models.write("model", NUMBERS.format("'a'", 4))
    models.run()
    now = int(models.ask("select unix_timestamp() as now")[0]["now"])
    made: Callable[[int], str] = lambda began: f"model__lake_difference__{began:08x}_0123abcd"  # noqa: E731
    for began in (now, now - 2 * 86400):
        models.do(f"create table {models.relation(made(began))} using parquet as select 1 as id")
    models.write("model", NUMBERS.format("'b'", 4))
    models.run()
    assert models.tables() == {"model", made(now)}
    # A run that fails takes its own along.
    models.write("model", "select id, cast(raise_error('broken') as string) as value from range(1, 4) as numbers(id)")
    assert "broken" in models.refusal("model")
    assert models.tables() == {"model", made(now)}


def test_a_model_can_be_proven(make_models: MakeModels) -> None:
    models = make_models(unique_key=["id", "part"])
    models.write("part_of_it", "select 1 as part, map('a', 1) as more", materialized="ephemeral")
    models.write("upstream", NUMBERS.format("'a'", 4), materialized="view")
    sql = (
        "{% set parts = ref('part_of_it') %}with upstream as (select * from {{ ref('upstream') }})\n"
        "select id, part, value, more, cast(null as double) as nothing from upstream cross join {{ parts }};"
    )
    models.write("model", sql)
    told = {"version": 2, "models": [{"name": "model", "data_tests": ["equals_its_select"]}]}
    models.project.write_models(str(told).replace("'", '"'), "_models.yml")
    models.run()
    table = models.relation("model")

    def proven() -> tuple[str, list[str]]:
        (outcome,) = models.dbt("test").values()
        return f"{outcome.status}: {outcome.message}", models.told("model")

    assert proven() == ("pass: None", [])
    models.do(f"update {table} set value = 'edited' where id = 2")
    models.do(f"delete from {table} where id = 3")
    models.do(f"insert into {table} (id, part, value, more) values (9, 1, 'a', map('a', 1))")
    message, told_of = proven()
    assert message.startswith("fail: Got 3 results")
    assert told_of == [
        "id = 2, part = 1: got another row in the table, expected the row of its select",
        "id = 3, part = 1: got 0 rows in the table, expected 1 rows of its select",
        "id = 9, part = 1: got 1 rows in the table, expected 0 rows of its select",
    ]
    assert models.dbt("run", "--select", "model")["model"].status == "success"
    assert proven() == ("pass: None", [])
    # The table has a column that the select has no longer.
    models.write("model", sql.replace("value, ", ""), on_schema_change="append_new_columns")
    assert models.dbt("run", "--select", "model")["model"].status == "success"
    assert models.rows("model", "id", "value") == numbers("a", 4)
    assert proven() == ("pass: None", [])


@pytest.mark.slow
def test_a_proof_waits_for_a_run_where_a_source_has_changed(make_shop: increments.MakeShop) -> None:
    shop = make_shop()
    models = shop.models
    told = {"version": 2, "models": [{"name": "fct_orders", "data_tests": ["equals_its_select"]}]}
    models.project.write_models(str(told).replace("'", '"'), "_models.yml")
    shop.change(("orders", "u", {"id": 1, "customer": 4, "amount": 100, "at": 99}))
    (outcome,) = models.dbt("test").values()
    assert outcome.status == "pass"
    assert "1 keys differ from its select, and something upstream has changed since it was built" in "".join(
        (models.project.root / "target" / "dbt.log").read_text(encoding="utf-8")
    )
    shop.run()
    (outcome,) = models.dbt("test").values()
    assert outcome.status == "pass"
    # An entry that is too narrow: the mart is wrong, and nothing has changed since.
    narrow = [{"source": "shop.customers", "by": {"id": "id"}}, *increments.REACH_ORDERS[:1]]
    models.write("fct_orders", increments.ORDERS, materialized="incremental", meta={"affected_by": narrow})
    models.run("fct_orders")
    shop.change(("customers", "u", {"id": 2, "name": "other", "region": 1}))
    models.run("fct_orders")
    (outcome,) = models.dbt("test").values()
    assert outcome.status == "fail"


@pytest.mark.slow
def test_rows_that_share_a_key_in_the_table_are_made_one(make_models: MakeModels) -> None:
    models = make_models()
    names = ("alike", "kept", "by_hand")
    for strategy in ("merge", "append", "merge"):
        for name in names:
            models.write(name, NUMBERS.format("'a'", 4), incremental_strategy=strategy)
        # With a column that the model has no longer, which a rebuild would take.
        modes = {"incremental_strategy": strategy, "on_schema_change": "append_new_columns"}
        models.write("kept", NUMBERS.format("'a'" if strategy == "merge" else "1 as more, 'a'", 4), **modes)
        outcomes = models.dbt("run")
    told = "6 rows of the table share their unique_key (id) with others, or have a null in it"
    assert models.told("alike") == [
        "the whole table is compared: its last commit does not say from what it was built",
        f"{told}: it is rebuilt",
    ]
    assert f"and {told}, expected one row for each key" in outcomes["kept"].message
    assert models.rows("alike") == models.rows("by_hand") == numbers("a", 4)
    assert len(models.rows("kept")) == 6
    table = models.relation("by_hand")
    models.do(f"alter table {table} set tblproperties ('hoodie.spark.sql.insert.into.operation' = 'insert')")
    models.do(f"insert into {table} (id, value) values (2, 'a')")
    models.run("by_hand")
    assert models.rows("by_hand") == numbers("a", 4)
    models.run("alike", "by_hand")
    assert [models.told(name) for name in ("alike", "by_hand")] == [increments.NOTHING] * 2


def test_a_setting_can_be_asked_for(make_models: MakeModels) -> None:
    models = make_models(materialized="table")
    asked = "run_query('set spark.sql.session.timeZone').rows[0][1] if execute"
    told = "{% do run_query('set my.own = 1') %}{% do run_query(\"set time zone 'UTC'\") %}"
    models.write("model", f"{told} select 1 as id, '{{{{ {asked} }}}}' as zone, ${{my.own}} as own")
    models.run()
    assert models.rows("model") == [{"id": 1, "zone": "UTC", "own": 1}]


def test_rows_of_a_key_with_a_null_go_and_leave_none_behind(make_models: MakeModels) -> None:
    """As another writer has made them: in a partition, Hudi reads an empty text as null."""
    models = make_models(unique_key=["id", "part"], partition_by="part")
    models.write("model", "select * from values (1, 'a', 'x'), (2, 'a', 'x') as rows (id, value, part)")
    models.run()
    models.do(f"insert into {models.relation('model')} (id, value, part) values (3, 'a', '')")
    assert models.rows("model", "id", "part")[-1] == {"id": 3, "part": None}
    models.run()
    assert models.told("model")[-1] == (
        "1 rows of the table share their unique_key (id, part) with others, or have a null in it: it is rebuilt"
    )
    assert models.rows("model") == [{"id": number, "value": "a", "part": "x"} for number in (1, 2)]


@pytest.mark.parametrize("strategy", [None, "insert_overwrite"])
def test_a_hudi_table_takes_no_rows_of_another_format(strategy: str | None, make_models: MakeModels) -> None:
    models = make_models()
    models.write("model", NUMBERS.format("'a'", 4))
    models.run()
    models.write(
        "model", NUMBERS.format("'b'", 5), **{**PARQUET, "materialized": "incremental"}, incremental_strategy=strategy
    )
    assert "got file_format = 'parquet', expected 'hudi', with which its table was made" in models.refusal("model")
    assert models.rows("model") == numbers("a", 4)
    models.run(whole=True)
    assert models.rows("model") == numbers("b", 5)


@pytest.mark.slow
def test_names_that_the_macros_use_too_are_a_models_own(make_models: MakeModels) -> None:
    models = make_models()
    names = "id as rows_of_key, id as is_in_table, false as is_to_be_removed, id as present"
    sql = f"select id, {names} from range({{}}, {{}}) as numbers(id)"
    # A file's name that is none of Spark's has another one in the catalog.
    for start in (0, 2):
        models.write("my-model", sql.format(start, start + 3), alias="model")
        models.run()
    assert [row["rows_of_key"] for row in models.rows("model")] == [2, 3, 4]


def test_a_text_that_is_shown_may_ask_is_incremental(make_models: MakeModels) -> None:
    models = make_models()
    text = "{{ config(materialized='incremental') }} select 1 as id {% if is_incremental() %}where false{% endif %}"
    assert models.dbt("show", "--inline", text)["inline_query"].status == "success"


@pytest.mark.slow
def test_an_upstream_may_become_a_view_or_a_table_of_files(make_models: MakeModels) -> None:
    models = make_models()
    for name in ("up", "up_too"):
        models.write(name, NUMBERS.format("'a'", 4))
        models.write(f"of_{name}", f"select id, value from {{{{ ref('{name}') }}}}")
    models.run()
    models.write("up", NUMBERS.format("'b'", 5), **PARQUET)
    models.write("up_too", NUMBERS.format("'b'", 5), materialized="view")
    models.run()
    for name in ("of_up", "of_up_too"):
        assert models.rows(name) == numbers("b", 5), name
    models.run("of_up", "of_up_too")
    assert [models.told(name) for name in ("of_up", "of_up_too")] == [increments.NOTHING] * 2


# Two rows at a time, the first of which Hudi takes for one without a key, or for one of another key.
UNWRITABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "empty": ("('', 'x'), ('a', 'x')", {}),
    "empty_parts": ("('', ''), ('', 'x')", {"unique_key": ["id", "part"]}),
    "endless": ("('Doe, 12:30:00', 'x'), ('a', 'x')", {}),
    "endless_part": ("('b', 'of Doe, 12:30:00'), ('a', 'x')", {"unique_key": ["id", "part"]}),
    "alike": ("('x,part:y', 'z'), ('x', 'y,part:z')", {"unique_key": ["id", "part"]}),
    "blank_part": ("('b', ''), ('a', 'x')", {"unique_key": ["id", "part"], "partition_by": "part"}),
    "hive_part": (
        "('b', '__HIVE_DEFAULT_PARTITION__'), ('a', 'x')",
        {"unique_key": ["id", "part"], "partition_by": "part"},
    ),
    "appended": ("(cast(null as string), 'x'), ('b', 'x')", {"incremental_strategy": "append"}),
    "overwritten": ("('', 'x'), ('b', 'x')", {"incremental_strategy": "insert_overwrite", "partition_by": ["part"]}),
}


@pytest.mark.slow
def test_keys_that_hudi_does_not_keep_apart_are_refused(make_models: MakeModels) -> None:
    models = make_models()
    for rows in ("('a', 'x')", None):
        for name, (broken, config) in UNWRITABLE.items():
            models.write(name, f"select id, part, 1 as value from values {rows or broken} as t (id, part)", **config)
        if rows:
            models.run()
    for name, outcome in models.dbt("run").items():
        told = f"got 1 rows with a null in unique_key ({'id, part' if 'unique_key' in UNWRITABLE[name][1] else 'id'})"
        assert told in outcome.message, outcome.message
        assert "not of empty text" in outcome.message
        assert [row["id"] for row in models.rows(name, "id")] == ["a"], name
    assert models.tables() == set(UNWRITABLE)
    assert "got 1 rows" in models.dbt("run", "--select", "alike", "--full-refresh")["alike"].message


@pytest.mark.slow
def test_a_clone_is_made_anew_with_full_refresh(make_models: MakeModels) -> None:
    models = make_models()
    models.write("model", NUMBERS.format("'a'", 4))
    models.dbt("build")
    state = models.project.root / "state"
    state.mkdir()
    (state / "manifest.json").write_text((models.project.root / "target" / "manifest.json").read_text())
    relation = f"other_{models.project.schema}.model"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "LAKE_SCHEMA", "other")
        models.dbt("clone", "--state", str(state))
        models.do(f"delete from {relation} where id = 1")
        models.dbt("clone", "--state", str(state))
        assert models.ask(f"select count(*) as rows from {relation}") == [{"rows": 2}]
        models.dbt("clone", "--full-refresh", "--state", str(state))
    assert models.ask(f"select count(*) as rows from {relation}") == [{"rows": 3}]
