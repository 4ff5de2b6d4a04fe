"""Selects that give a part of a table's rows: no run removes what it was not asked for."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import MakeProject
from lake import Server
from modeling import BUCKETS, NUMBERS, MakeModels, hudi_models, numbers
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NEWER = NUMBERS + "{{% if is_incremental() %}} where id > (select max(id) from {{{{ this }}}}){{% endif %}}"


@pytest.fixture
def make_models(spark: SparkSession, make_project: MakeProject, server: Server | None) -> MakeModels:
    """Models that are Hudi tables, with more configuration where a test has some."""
    return hudi_models(spark, make_project, server)


@pytest.mark.parametrize("options", [{}, pytest.param({"type": "mor"}, marks=pytest.mark.slow)])
def test_a_model_that_asks_is_incremental_keeps_its_rows(options: dict[str, str], make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id", options={**BUCKETS, **options})
    models.write("model", NEWER.format("'a'", 31))
    models.run()
    models.write("model", NEWER.format("'b'", 33))
    models.run()
    assert models.rows("model") == [*numbers("a", 31), {"id": 31, "value": "b"}, {"id": 32, "value": "b"}]
    assert models.told("model") == [
        "it asks is_incremental(): its rows are upserted and none is removed, "
        "the table need not equal its full refresh",
        "2 rows differ",
    ]
    # No row is new, and a row that is there is given again: that one is replaced.
    models.run()
    assert len(models.rows("model")) == 32
    for value, asked in (("c", "is_incremental()"), ("d", "dbt.is_incremental()")):
        models.write("model", f"select 5L as id, '{value}' as value {{% if not {asked} %}} where false {{% endif %}}")
        models.run()
        assert [row for row in models.rows("model") if row["value"] == value] == [{"id": 5, "value": value}]
        assert len(models.rows("model")) == 32
    # As a full select again it is compared whole, for no commit of a part says what it was built from.
    models.write("model", NUMBERS.format("'d'", 3))
    models.run()
    assert models.told("model")[0].startswith("the whole table is compared: its last commit does not say")
    assert models.rows("model") == numbers("d", 3)
    models.write("model", NEWER.format("'e'", 5))
    models.run(whole=True)
    assert models.rows("model") == numbers("e", 5)
    assert models.tables() == {"model"}


@pytest.mark.slow
def test_a_model_that_reads_itself_keeps_its_rows(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    models.write("model", NUMBERS.format("'a'", 4))
    models.run()
    models.write("model", "select id, 'b' as value from {{ this }} where id = 2")
    models.run()
    assert models.rows("model") == [{"id": 1, "value": "a"}, {"id": 2, "value": "b"}, {"id": 3, "value": "a"}]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        (
            NEWER.format("'b'", 5) + " union all select 9, 'x' union all select 9, 'y'",
            "0 rows with a null in unique_key (id) and 2",
        ),
        (
            NEWER.format("'b'", 5) + " union all select cast(null as bigint), 'x'",
            "1 rows with a null in unique_key (id) and 0",
        ),
        (
            NEWER.format("'b' as value, 1", 5).replace("1 as value", "1 as more"),
            "is_incremental(), and the rows that it does not select would be gone",
        ),
    ],
)
def test_a_part_that_cannot_be_merged_is_refused(sql: str, told: str, make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id", on_schema_change="sync_all_columns")
    models.write("model", NEWER.format("'a'", 3))
    models.run()
    models.write("model", sql)
    assert told in models.refusal("model")
    assert models.rows("model") == numbers("a", 3)
    assert models.tables() == {"model"}


@pytest.mark.parametrize("strategy", ["append", "insert_overwrite"])
def test_what_adds_to_a_table_does_not_replace_it(strategy: str, make_models: MakeModels) -> None:
    models = make_models(
        materialized="incremental", incremental_strategy=strategy, unique_key="id", partition_by=["day"],
        on_schema_change="sync_all_columns", options={},
    )  # fmt: skip
    models.write("model", "select 1 as id, 'a' as value, 'x' as day")
    models.run()
    models.write("model", "select 2 as id, 'b' as value, 1 as more, 'y' as day")
    told = f"incremental_strategy = {strategy} adds to it, and the rows that it does not select would be gone"
    assert told in models.refusal("model")
    assert [row["id"] for row in models.rows("model")] == [1]


EMPTIES = "{% if load_relation(this) %}delete from {{ this }}{% else %}select 1{% endif %}"
STAYING: dict[str, dict[str, Any]] = {
    "rebuilt": {"materialized": "table", "pre_hook": EMPTIES},
    "increment": {"materialized": "incremental", "pre_hook": EMPTIES},
    "shown": {"materialized": "view"},
    "anew": {"materialized": "incremental", "full_refresh": True},
    "files_anew": {"materialized": "table", "full_refresh": True, "file_format": "parquet", "options": {}},
    "of_files": {"materialized": "table", "file_format": "parquet", "options": {}},
    "overwritten": {
        "materialized": "incremental",
        "file_format": "parquet",
        "incremental_strategy": "insert_overwrite",
        "options": {},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("said", [("--empty",), ("--sample", "1 day")])
def test_what_is_there_stays_where_a_run_reads_no_rows_or_some(said: tuple[str, ...], make_models: MakeModels) -> None:
    models = make_models(unique_key="id")
    models.write(
        "upstream", NUMBERS.format("timestamp '2020-01-01' as at, 'a'", 4), event_time="at", materialized="table"
    )

    def write(value: str) -> None:
        for name, config in STAYING.items():
            models.write(name, f"select id, {value} as value from {{{{ ref('upstream') }}}}", **config)

    write("'a'")
    models.run()
    for outcome in models.dbt("run", *said).values():
        assert outcome.status == "success", outcome.message
    assert len(models.rows("upstream")) == 3
    for name in STAYING:
        assert models.rows(name) == numbers("a", 4), name
    write("broken")
    refused = models.dbt("run", "--select", *STAYING, *said)
    for name in STAYING:
        assert "broken" in refused[name].message, name
    write("'b'")
    models.run()
    for name in STAYING:
        assert models.rows(name) == numbers("b", 4), name


MACROS = """
{% macro newer() %}{{ newer_than_there('id') }}{% endmacro %}
{% macro newer_than_there(column) %}
    {% set there = load_relation(this) if execute %}
    {% if there %} where {{ column }} > (select max({{ column }}) from {{ there }}){% endif %}
{% endmacro %}
{% macro analyzed() %}analyze table {{ this }} compute statistics{% endmacro %}
{% macro of_the_last() %}{% if not flags.FULL_REFRESH %} where id > 3{% endif %}{% endmacro %}
{% macro since() %}{% if var('since', none) %} where id >= {{ var('since') }}{% endif %}{% endmacro %}
"""
GUARDED = {
    "loaded": "{{% set there = load_relation(this) if execute %}}"
    + NUMBERS
    + "{{% if there %}} where id > {{{{ run_query('select max(id) from ' ~ this).columns[0][0] }}}}{{% endif %}}",
    "asked": "{{% set there = adapter.get_relation(this.database, this.schema, this.identifier) if execute %}}"
    + NUMBERS
    + "{{% if there %}} where id > {{{{ run_query('select max(id) from ' ~ there).columns[0][0] }}}}{{% endif %}}",
    "quoted": "{{% set there = load_relation(api.Relation.create(schema=model.schema, identifier=model.name)) %}}"
    + NUMBERS
    + "{{% if there %}} where id > (select max(id) from `{{{{ model.schema }}}}`.`{{{{ model.name }}}}`){{% endif %}}",
    "of_the_catalog": "{{% set table, name = model.schema ~ '.' ~ model.name, model.name %}}"
    "{{% set there = load_relation(api.Relation.create(schema=model.schema, identifier=name)) %}}"
    + NUMBERS
    + "{{% if there %}} where id > (select max(id) from spark_catalog.{{{{ table }}}}){{% endif %}}",
    "named_by_its_node": "{{% set named = api.Relation.create(schema=model.schema, identifier=model['alias']) %}}"
    + NUMBERS
    + "{{% if load_relation(named) %}} where id > 3{{% endif %}}",
    "by_a_macro": NUMBERS + "{{% if execute %}}{{{{ newer() }}}}{{% endif %}}",
    "asked_by_a_text": "{{% set there = adapter.get_relation(database, schema, 'asked_by_a_text') if execute %}}"
    + NUMBERS
    + "{{% if there %}} where id > 3{{% endif %}}",
    "loaded_by_a_text": "{{% set named = api.Relation.create(schema=schema, identifier='loaded_by_a_text') %}}"
    + NUMBERS
    + "{{% if load_relation(named) %}} where id > 3{{% endif %}}",
}
# By a query, which may be on any table.
ASKING = {
    "listed_by_a_text": "{{% set listed = 'show tables in ' ~ model.schema ~ \" like 'listed_by_a_text'\" %}}"
    "{{% set there = run_query(listed) if execute %}}"
    + NUMBERS
    + "{{% if there and there.rows | length > 0 %}} where id > 3{{% endif %}}",
    "listed": "{{% set listed = 'show tables in ' ~ model.schema ~ \" like '\" ~ this.name ~ \"'\" %}}"
    "{{% set there = run_query(listed) if execute %}}"
    + NUMBERS
    + "{{% if there and there.rows | length > 0 %}} where id > 3{{% endif %}}",
}
ASKING |= {
    "described": "{{% set named = api.Relation.create(schema=schema, identifier=this.identifier) %}}"
    "{{% set there = adapter.get_columns_in_relation(named) if execute %}}"
    + NUMBERS
    + "{{% if there %}} where id > 3{{% endif %}}",
}
# A macro of another package, which runs what it is given.
ANSWERS = """
{% macro answer(sql) %}{{ return(adapter.dispatch('answer', 'helpers')(sql)) }}{% endmacro %}
{% macro default__answer(sql) %}
    {%- call statement('answer', fetch_result=true) -%}{{ sql }}{%- endcall -%}
    {{- return(load_result('answer').table.columns[0][0]) -}}
{% endmacro %}
"""
WHOLE = {
    "answered": "{{% set one = helpers.answer('select 1') if execute %}}" + NUMBERS,
    "quoted_name": NUMBERS + " where {{{{ adapter.quote('id') }}}} > 0 and '{{{{ this.name }}}}' <> 'x'",
    "queried_another": "{{% set one = run_query('select 1') if execute %}}" + NUMBERS,
    "hooked_by_a_macro": "{{{{ config(post_hook='{{{{ analyzed() }}}}') }}}} " + NUMBERS,
    "named": NUMBERS + " where '{{{{ this.name }}}}' <> 'x' {{# this #}}",
    "named_too": "{{{{ config(post_hook='analyze table {{{{ this }}}} compute statistics') }}}} " + NUMBERS,
    "hooked": "{{{{ config(meta={{'a': [{{'b': {{'c': 'd'}}}}]}}, post_hook='select 1 from {{{{ this }}}}') }}}} "
    + NUMBERS,
    "ended": NUMBERS + " ;",
    "asking_for_another": NUMBERS + "{{% if load_relation(ref('unbuilt')) %}} where false{{% endif %}}",
    "named_in_a_comment": "-- depends_on: {{{{ ref('unbuilt') }}}}\n" + NUMBERS,
    # Its name begins with that of the one before.
    "named_to": "select id, value from {{{{ ref('named_too') }}}} where {} is not null and {} > 0",
}


@pytest.mark.slow
def test_a_guard_of_ones_own_loses_no_row(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    models.write("macros", MACROS, below="own_macros")
    package = models.project.root / "dbt_packages" / "helpers"
    (package / "macros").mkdir(parents=True)
    (package / "dbt_project.yml").write_text("name: helpers\nversion: 1.0.0\nconfig-version: 2\n")
    (package / "macros" / "answer.sql").write_text(ANSWERS)
    models.write("unbuilt", NUMBERS.format("'x'", 2))
    for value, upto in (("'a'", 4), ("'b'", 6)):
        for name, sql in (GUARDED | ASKING | WHOLE).items():
            models.write(name, sql.format(value, upto))
        last = f"{{{{ run_query('select max(id) from {models.relation('queried')}').columns[0][0] if execute }}}}"
        models.write("queried", NUMBERS.format(value, upto) + (f" where id > {last}" if upto == 6 else ""))
        query = f"'select max(id) from ' ~ target.schema ~ '_{models.project.schema}.' ~ this.name"
        last = f"{{{{ helpers.answer({query}) if execute }}}}"
        models.write("packaged", NUMBERS.format(value, upto) + (f" where id > {last}" if upto == 6 else ""))
        models.run("queried", "packaged", *GUARDED, *ASKING, *WHOLE)
    for name in ("queried", "packaged", *GUARDED, *ASKING):
        assert models.rows(name) == [*numbers("a", 4), {"id": 4, "value": "b"}, {"id": 5, "value": "b"}], name
        why = "it asks for a table, which may be its own" if name.endswith("by_a_text") else "it reads itself"
        why = "it runs a query, which may be on its own table" if name in ("packaged", *ASKING) else why
        assert models.told(name)[0].startswith(f"{why}: its rows are upserted and none is removed"), name
    for name in WHOLE:
        assert models.rows(name) == numbers("b", 6), name
        assert models.told(name)[0].startswith("the whole table is compared: "), name


def test_a_table_that_is_read_under_another_name_loses_no_row(make_models: MakeModels) -> None:
    """Declared as a source, which dbt takes for no circle, and by a view, whose text names it."""
    models = make_models(materialized="incremental", unique_key="id")
    models.project.write_models(
        f"sources:\n- name: own\n  schema: lakehouse_{models.project.schema}\n"
        "  tables: [{name: declared}, {name: whole, identifier: declared}]\n",
        "_own.yml",
    )
    for name in ("declared", "watched"):
        models.write(name, NUMBERS.format("'a'", 4))
    models.run()
    last = "{{{{ run_query('select max(id) from ' ~ source('own', '{}')).columns[0][0] if execute else 0 }}}}"
    models.write("declared", NUMBERS.format("'b'", 6) + f" where id > {last.format('declared')}")
    models.write("whole", NUMBERS.format("'b'", 6) + f" where id < {last.format('whole')}")
    models.write("last", f"select max(id) as id from {models.relation('watched')}", materialized="view")
    models.write("watched", NUMBERS.format("'b'", 6) + " where id > (select id from {{ ref('last') }})")
    models.run()
    for name in ("declared", "watched"):
        assert models.rows(name) == [*numbers("a", 4), {"id": 4, "value": "b"}, {"id": 5, "value": "b"}], name
        assert models.told(name)[0].startswith("it reads itself: its rows are upserted and none is removed"), name
    # Another's table that a source has under the model's name is not its own.
    models.write("whole", NUMBERS.format("'b'", 3) + f" where id < {last.format('whole')}")
    models.run("whole")
    assert models.rows("whole") == numbers("b", 3)


def test_variables_that_choose_what_is_read_remove_no_row(make_models: MakeModels) -> None:
    """They stand in the declaration of a source, whose name the model has in its text by then."""
    models = make_models(materialized="incremental", unique_key="id")
    models.write("raw_all", NUMBERS.format("'a'", 5), materialized="table", file_format="parquet", options={})
    models.write("raw_few", NUMBERS.format("'a'", 3), materialized="table", file_format="parquet", options={})
    schema = f"lakehouse_{models.project.schema}"
    models.project.write_models(
        f"sources:\n- name: raw\n  schema: {schema}\n"
        "  tables: [{name: numbers, identifier: \"{{ var('raw_table', 'raw_all') }}\"}]\n",
        "_raw.yml",
    )
    models.run("raw_all", "raw_few")
    models.write("model", "select id, value from {{ source('raw', 'numbers') }}")
    models.run("model")
    refused = models.dbt("run", "--select", "model", "--vars", "{raw_table: raw_few}")["model"]
    assert "got 2 rows that its select gives no more" in refused.message
    assert "it reads other tables than in its last run, as --vars raw_table, may have it; run it" in refused.message
    assert models.rows("model") == numbers("a", 5)
    # Other variables are no hindrance to a text that is another one: what it reads is what it read.
    models.write("model", "select id, value from {{ source('raw', 'numbers') }} where id > 1")
    assert models.dbt("run", "--select", "model", "--vars", "{run: 7}")["model"].status == "success"
    assert models.rows("model") == numbers("a", 5)[1:]
    # As it was built by a variable, so it stays without.
    narrow = ("run", "--select", "model", "--vars", "{raw_table: raw_few}", "--full-refresh")
    assert models.dbt(*narrow)["model"].status == "success"
    models.write("model", "select id, value from {{ source('raw', 'numbers') }} where id > 2")
    told = "it reads other tables than in its last run, as --vars raw_table, which its last run had, may have it; run"
    assert told in models.refusal("model")


@pytest.mark.slow
def test_a_select_of_more_with_full_refresh_loses_no_row(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    newer = "{{% if not {} %}} where id > 3{{% endif %}}"
    texts = {"flagged": newer.format("flags.FULL_REFRESH"), "asking": newer.format("should_full_refresh()")}
    texts |= {"named_flag": newer.format("flags['FULL_REFRESH']")}
    texts |= {"argument": newer.format("invocation_args_dict['full_refresh']")}
    texts |= {"asked_argument": newer.format('invocation_args_dict.get("full_refresh", false)')}
    texts |= {"by_a_macro": "{{ of_the_last() }}"}
    models.write("macros", MACROS, below="own_macros")
    models.write("between", NUMBERS.format("'x'", 5) + texts["flagged"], materialized="ephemeral")
    for value in ("a", "b"):
        for name, newer in texts.items():
            models.write(name, NUMBERS.format(f"'{value}'", 5) + newer)
        models.write("inlined", f"select id, '{value}' as value from {{{{ ref('between') }}}}")
        models.run(whole=value == "a")
    for name in (*texts, "inlined"):
        assert models.rows(name) == [*numbers("a", 4), {"id": 4, "value": "b"}], name
        assert models.told(name)[0].startswith("it asks for --full-refresh: its rows are upserted"), name


@pytest.mark.slow
def test_variables_of_the_command_line_remove_no_row(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    since = "{% if var('since', none) %} where id >= {{ var('since') }}{% endif %}"
    models.write("model", NUMBERS.format("'a'", 5) + since)
    models.write("moved", NUMBERS.format("{{ var('to', 1) }}", 5), partition_by="value")
    models.run()
    refused = models.dbt("run", "--vars", "{since: 3, to: 2}")
    told = "got 2 rows that its select gives no more, expected all rows of the table: its text asks for --vars since; "
    assert told in refused["model"].message
    assert models.rows("model") == numbers("a", 5)
    # A row that moves to another partition is none that goes; a table that was made with a variable is merged with it.
    assert (refused["moved"].status, models.rows("moved")) == ("success", numbers(2, 5))
    for words in (("--full-refresh",), ()):
        assert models.dbt("run", "--select", "model", "--vars", "since: 3", *words)["model"].status == "success"
    assert [row["id"] for row in models.rows("model")] == [3, 4]
    # Rows come, and none goes.
    assert models.dbt("run", "--select", "model", "--vars", "since: 2")["model"].status == "success"
    models.run("model")
    assert models.rows("model") == numbers("a", 5)


@pytest.mark.slow
def test_variables_remove_no_row_by_other_ways(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id", on_schema_change="sync_all_columns")
    since = " {% if var('since', none) %} where id >= {{ var('since') }}{% endif %}"
    models.write("inline", NUMBERS.format("'a'", 5) + since, materialized="ephemeral")
    models.write("shown", NUMBERS.format("'a'", 5) + since.replace("var(", "var ("), materialized="view")
    models.write("of_inline", "select * from {{ ref('inline') }}")
    models.write("of_shown", "select * from {{ ref('shown') }}")
    models.write("synced", NUMBERS.format("'a'", 5) + since)
    models.write("macros", MACROS, below="own_macros")
    models.write("by_a_macro", NUMBERS.format("'a'", 5) + "{{ since() }}")
    models.write(
        "reformatted", NUMBERS.format("'a'", 5) + since, materialized="table", file_format="parquet", options={}
    )
    models.run()
    # As it was built by a variable, so it stays without.
    models.write("narrowed", NUMBERS.format("'a'", 5) + "{% if not var('whole', false) %} where id >= 3{% endif %}")
    assert models.dbt("run", "--select", "narrowed", "--vars", "whole: true")["narrowed"].status == "success"
    told = "expected all rows of the table: its text asks for --vars whole, which its last run had; run it"
    assert told in models.refusal("narrowed")
    assert models.rows("narrowed") == numbers("a", 5)
    # A view that a run with a variable has made is read by a later one, without.
    assert models.dbt("run", "--select", "shown", "--vars", "since: 3")["shown"].status == "success"
    told = f"its text asks for --vars since (by which the view {models.relation('shown')} was made); run it"
    assert told in models.refusal("of_shown")
    assert models.rows("of_shown") == numbers("a", 5)
    models.write("synced", NUMBERS.format("1 as more, 'a'", 5) + since)
    models.write("reformatted", NUMBERS.format("'a'", 5) + since)
    refused = models.dbt("run", "--vars", "since: 3")
    for name in ("of_inline", "of_shown", "by_a_macro"):
        assert "got 2 rows that its select gives no more" in refused[name].message, name
    for name in ("synced", "reformatted"):
        told = "expected the table as it is: its text asks for --vars since, and the rows that it does not select"
        assert told in refused[name].message, name
    names = ("of_inline", "of_shown", "by_a_macro", "synced", "reformatted")
    for name in names:
        assert models.rows(name) == numbers("a", 5), name
    models.run("shown", *names)
    assert [len(models.rows(name)) for name in names] == [4] * len(names)


BY_OTHER_WAYS = {
    "by_parameter": "{{ from_of('since') }}",
    "by_config": "{% set since = config.get('meta').get('since') %}{% if since %} where id >= {{ since }}{% endif %}",
    "by_has_var": "{% if var.has_var('since') %} where id >= 3{% endif %}",
    "by_a_held_name": "{% set name = 'since' %}{% if var(name, none) %} where id >= {{ var(name) }}{% endif %}",
    "by_a_held_macro": "{% set narrow = from_of %}{{ narrow('since') }}",
    "by_dispatch": "{{ adapter.dispatch('from_of')('since') }}",
}


@pytest.mark.slow
def test_variables_that_no_text_names_remove_no_row(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id", meta={"since": "{{ var('since', '') }}"})
    asked = "{% macro from_of(name) %}{% if var(name, none) %} where id >= {{ var(name) }}{% endif %}{% endmacro %}"
    models.write("macros", asked + asked.replace("from_of", "default__from_of"), below="own_macros")
    for name, since in BY_OTHER_WAYS.items():
        models.write(name, NUMBERS.format("'a'", 5) + since)
    models.write("seen", NUMBERS.format("'a'", 5) + BY_OTHER_WAYS["by_parameter"], materialized="view")
    models.write("of_seen", "select * from {{ ref('seen') }}")
    models.run()
    refused = models.dbt("run", "--vars", "since: 3", "--select", "seen", *BY_OTHER_WAYS)
    for name in BY_OTHER_WAYS:
        assert "got 2 rows that its select gives no more" in refused[name].message, name
        assert "its SQL is another one, and its code is not, as --vars since, may have it" in refused[name].message
        assert models.rows(name) == numbers("a", 5), name
    # The view was made with it, and a later run without reads it.
    assert f"as --vars since (by which the view {models.relation('seen')} was made), may" in models.refusal("of_seen")
    assert models.rows("of_seen") == numbers("a", 5)
    models.run()
    assert [len(models.rows(name)) for name in ("of_seen", *BY_OTHER_WAYS)] == [4] * (len(BY_OTHER_WAYS) + 1)
    # Rows come; another code is another select, and so is one whose variables are none of the command line.
    assert (
        models.dbt("run", "--vars", "since: 3", "--full-refresh", "--select", "by_parameter")["by_parameter"].status
        == "success"
    )
    models.run("by_parameter")
    assert models.rows("by_parameter") == numbers("a", 5)
    models.write("by_parameter", NUMBERS.format("'a'", 4) + BY_OTHER_WAYS["by_parameter"])
    assert models.dbt("run", "--vars", "other: 3", "--select", "by_parameter")["by_parameter"].status == "success"
    assert models.rows("by_parameter") == numbers("a", 4)
