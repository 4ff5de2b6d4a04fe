"""Each rule of `ci/athena/rules.py` on a project that is well but for one thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ci.athena.__main__ import unexpected, violations
from ci.athena.queries import Compiled, calls
from ci.athena.rules import QUERY_BYTES, RULES

Manifest = dict[str, Any]
Change = Callable[["Project"], None]
WELL = """
with sales as (
    select * from "awsdatacatalog"."staging"."stg_sales"
),

final (sale_id, sold_at, amounts) as (
    select sale_id, sold_at, array_agg(cast(price as decimal(8, 2)) order by price) filter (where price in (1, 2))
    from sales
    group by sale_id, sold_at
)

select sale_id, cast(sold_at as timestamp(6)) as sold_at, amounts from final
"""
STAGING = """
select sale_id, sold_at, price, json_extract_scalar(_element, '$.name') as name
from "awsdatacatalog"."silver_shop"."sale"
cross join unnest(cast(json_parse(lines) as array(json))) with ordinality as _elements (_element, _at)
where not coalesce(__deleted, 'false') = 'true'
"""


class Project:
    """A compiled manifest to be changed: a source, a staging view, and a mart as an Iceberg table."""

    def __init__(self) -> None:
        columns = {"sale_id": "int", "sold_at": "timestamp", "price": "decimal(8, 2)", "lines": "string"}
        self.source: Manifest = {
            "unique_id": "source.shop.sale", "source_name": "shop", "name": "sale", "schema": "silver_shop",
            "identifier": "sale", "relation_name": '"awsdatacatalog"."silver_shop"."sale"',
            "columns": {name: {"data_type": kind} for name, kind in columns.items()},
            "loaded_at_field": "from_unixtime(__source_ts_ms / 1000)", "external": {"using": "hudi"},
            "config": {"meta": {"ingest": {"key": ["sale_id"]}}}, "source_meta": {"ingest": {"table_version": 6}},
        }  # fmt: skip
        self.nodes: Manifest = {}
        self.macros: Manifest = {}
        self.view = self.add("stg_sales", STAGING, "staging", ["source.shop.sale"], materialized="view")
        self.mart = self.add("fct_sales", WELL, "sales", ["model.shop.stg_sales"], table_type="iceberg")

    def add(self, name: str, sql: str, schema: str, reads: list[str], **config: Any) -> Manifest:
        """Adds a model: a table, or what its settings say."""
        key = f"model.shop.{name}"
        self.nodes[key] = {
            "unique_id": key, "resource_type": "model", "name": name, "alias": name, "schema": schema,
            "relation_name": f'"awsdatacatalog"."{schema}"."{name}"', "compiled_code": sql, "columns": {},
            "depends_on": {"nodes": reads}, "config": {"materialized": "table", **config},
        }  # fmt: skip
        node: Manifest = self.nodes[key]
        return node

    def found(self) -> dict[tuple[str, str], str]:
        """What violates a rule."""
        manifest = {
            "nodes": self.nodes, "sources": {"source.shop.sale": self.source}, "macros": self.macros,
            "metadata": {"project_name": "shop"},
        }  # fmt: skip
        return violations(Compiled.of(manifest))


def mart(sql: str, **config: Any) -> Change:
    """Gives the mart another text, and settings."""

    def change(project: Project) -> None:
        project.mart["compiled_code"] = sql
        project.mart["config"].update(config)

    return change


def view(sql: str) -> Change:
    """Gives the staging view another text."""
    return lambda project: project.view.update(compiled_code=sql)


def source(**told: Any) -> Change:
    """Declares the source table otherwise."""
    return lambda project: project.source.update(told)


def parts(*names: str, **config: Any) -> Change:
    """Partitions the mart."""
    return lambda project: project.mart["config"].update(partitioned_by=list(names), **config)


def declared(name: str, **contract: Any) -> Change:
    """Declares a column of the mart, with a contract or without."""

    def change(project: Project) -> None:
        project.mart["columns"] = {
            name: {"data_type": contract.pop("data_type", "int"), "quote": contract.pop("quote", None)}
        }
        project.mart["config"]["contract"] = contract

    return change


def own_tables(*changes: Change, package: str = "shop") -> Change:
    """Has a package make tables by a macro of its own, and changes the project besides."""

    def change(project: Project) -> None:
        project.macros[f"macro.{package}.athena__create_table_as"] = {}
        for each in changes:
            each(project)

    return change


def days_of_the_mart(project: Project) -> None:
    """Adds an Iceberg table that reads another."""
    text = 'select sold_at from "awsdatacatalog"."sales"."fct_sales"'
    project.add("dim_days", text, "sales", ["model.shop.fct_sales"], table_type="iceberg")


def of_an_unknown_type(project: Project) -> None:
    """Declares a timestamp of the mart that a function gives of which nothing is known."""
    declared("sold_at", data_type="timestamp")(project)
    project.mart["compiled_code"] = FROM_VIEW.format("unheard(price) as sold_at")


FROM_VIEW = 'select {} from "awsdatacatalog"."staging"."stg_sales"'
SOLD_AT = FROM_VIEW.format("sold_at")
TWO_VERSIONS = {"options": {"hoodie.table.version": "8"}, "tbl_properties": None}
WRONG: list[tuple[str, Change, str, str, str]] = [
    ("a table's version", source(config={"meta": {"ingest": {"table_version": 9}}}), "hudi_table_versions",
     "shop.sale", "version 9, expected 6"),
    ("a source's version", source(source_meta={"ingest": {"table_version": 8}}), "hudi_table_versions", "shop.sale",
     "version 8"),
    ("a property of the table", source(external=TWO_VERSIONS), "hudi_table_versions", "shop.sale", "version 8"),
    ("a real-time view", view('select * from "awsdatacatalog"."silver_shop"."sale_rt"'), "real_time_timestamps",
     "stg_sales", "read sale_ro"),
    ("a function of Spark", mart(FROM_VIEW.format("collect_list(price) as prices")), "functions", "fct_sales",
     "calls collect_list,"),
    ("a newer function of Trino", mart(FROM_VIEW.format("bitwise_xor_agg(sale_id) as x")), "functions", "fct_sales",
     "calls bitwise_xor_agg"),
    ("a function in upper case", mart(FROM_VIEW.format("1 + DATEDIFF(sold_at, sold_at) as x")), "functions",
     "fct_sales", "calls datediff"),
    ("a function of the freshness", source(loaded_at_field="timestamp_millis(__source_ts_ms)"), "functions", "shop",
     "calls timestamp_millis"),
    ("milliseconds of a source in Iceberg", mart(SOLD_AT), "timestamp_precisions", "fct_sales",
     "writes sold_at as timestamp(3), expected timestamp(6) of an Iceberg table"),
    ("the greatest of them", mart(FROM_VIEW.format("max(coalesce(sold_at, sold_at)) as last_sold_at")),
     "timestamp_precisions", "fct_sales", "writes last_sold_at as timestamp(3)"),
    ("a timestamp without digits", mart(FROM_VIEW.format("cast(price as timestamp) as sold_at")),
     "timestamp_precisions", "fct_sales", "timestamp(3)"),
    ("microseconds in Hive", mart(WELL, table_type="hive"), "timestamp_precisions", "fct_sales",
     "writes sold_at as timestamp(6), expected timestamp(3) of a Hive table"),
    ("microseconds in a Hive table that says nothing", mart(WELL, table_type=None), "timestamp_precisions",
     "fct_sales", "a Hive table"),
    ("nanoseconds", mart(FROM_VIEW.format("cast(sold_at as timestamp(9)) as sold_at")), "timestamp_precisions",
     "fct_sales", "timestamp(9)"),
    ("a view with a time zone", view(STAGING.replace("sold_at,", "now() as sold_at,")), "timestamp_precisions",
     "stg_sales", "shows sold_at with time zone"),
    ("a Hive table with a time zone", mart(FROM_VIEW.format("from_unixtime(1) as at"), table_type="hive"),
     "timestamp_precisions", "fct_sales", "shows at with time zone"),
    ("a time zone of milliseconds in Iceberg", mart(FROM_VIEW.format("now() as built_at")), "timestamp_precisions",
     "fct_sales", "writes built_at as timestamp(3), expected timestamp(6) of an Iceberg table"),
    ("milliseconds within an array, which are not cast", own_tables(mart(FROM_VIEW.format("array_agg(sold_at) as a"))),
     "timestamp_precisions", "fct_sales", "writes a with a timestamp(3) within, expected timestamp(6) of an Iceberg"),
    ("milliseconds within a row, which are not cast", own_tables(mart(FROM_VIEW.format(
        "cast(row(1, now()) as row(n integer, at timestamp(3) with time zone)) as a"))),
     "timestamp_precisions", "fct_sales", "writes a with a timestamp(3) within"),
    ("a time zone within an array of a view", view(STAGING.replace("sold_at,", "array[now()] as sold_at,")),
     "timestamp_precisions", "stg_sales", "shows sold_at with time zone"),
    ("a timestamp of an unknown function", of_an_unknown_type, "timestamp_precisions", "fct_sales",
     "writes sold_at with an unknown precision"),
    ("milliseconds in tables of dbt-athena's own", own_tables(mart(SOLD_AT), package="dbt_athena"),
     "timestamp_precisions", "fct_sales", "timestamp(3)"),
    ("microseconds in a Hive table of a project's own", own_tables(mart(WELL, table_type="hive")),
     "timestamp_precisions", "fct_sales", "timestamp(6)"),
    ("partitions", parts("sale_id"), "open_partitions", "fct_sales", "expected few, with the reason in the baseline"),
    ("partitions of every engine", lambda project: project.mart["config"].update(partition_by="sale_id"),
     "open_partitions", "fct_sales", "is partitioned by sale_id"),
    ("partitions of every engine, in parts", lambda project: project.mart["config"].update(
        partition_by=["sale_id"], force_batch=True,
     ), "open_partitions", "fct_sales", "is partitioned by sale_id"),
    ("buckets by days", parts("day(sold_at)", "bucket(sale_id, 4)"), "open_partitions", "fct_sales", "day(sold_at)"),
    ("200 buckets", parts("bucket(sale_id, 20)", "bucket(price, 10)"), "open_partitions", "fct_sales", "bucket"),
    ("a reserved alias", mart(FROM_VIEW.format("sale_id as first")), "reserved_words", "fct_sales", "names first"),
    ("a reserved column of a contract", declared("last", enforced=True), "reserved_words", "fct_sales", "names last"),
    ("a column in upper case", source(columns={"saleId": {"data_type": "int"}}), "upper_case", "shop.sale", "saleId"),
    ("an alias in upper case", mart(FROM_VIEW.format('sale_id as "saleId"')), "upper_case", "fct_sales", "saleId"),
    ("a table in upper case", lambda project: project.mart.update(alias="Sales"), "upper_case", "fct_sales", "Sales"),
    ("a long name", lambda project: project.view.update(alias="ä" * 128), "long_names", "stg_sales", "256 bytes"),
    ("a long query", mart(FROM_VIEW.format("sale_id") + " -- " + "x" * QUERY_BYTES), "query_sizes", "fct_sales",
     "expected at most 262144"),
    ("what is no SQL", mart("select from where"), "unreadable", "fct_sales", "cannot be read"),
    ("what is not compiled", lambda project: project.mart.update(
        compiled_code=None, not_compiled="it does not compile without a connection",
     ), "unreadable", "fct_sales", "without a connection"),
    ("a function in WITH", mart("with function f(x integer) returns integer return x " + SOLD_AT), "newer_syntax",
     "fct_sales", "says with function"),
    ("groups of their own", mart(FROM_VIEW.format("count(*) as n, sale_id") + " group\n by auto"), "newer_syntax",
     "fct_sales", "says group by auto"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "rule", "subject", "told"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG]
)
def test_what_athena_refuses_is_found(change: Change, rule: str, subject: str, told: str) -> None:
    project = Project()
    change(project)
    found = project.found()
    assert (rule, subject) in found
    assert told in found[rule, subject]


RIGHT: list[tuple[str, Change]] = [
    ("all of it", lambda project: None),
    ("the version that Athena reads", source(config={"meta": {"ingest": {"table_version": 6}}})),
    ("a read-optimized view", view('select * from "awsdatacatalog"."silver_shop"."sale_ro"')),
    ("milliseconds in Hive", mart(SOLD_AT, table_type="hive")),
    ("microseconds of another Iceberg table", days_of_the_mart),
    ("a time zone in an Iceberg table", mart(FROM_VIEW.format("cast(now() as timestamp(6) with time zone) as at"))),
    ("a time zone where a project casts it", own_tables(mart(FROM_VIEW.format("now() as built_at")))),
    ("microseconds within an array", own_tables(mart(FROM_VIEW.format("array[cast(sold_at as timestamp(6))] as a")))),
    ("milliseconds where a project casts them", own_tables(mart(SOLD_AT))),
    ("unknown types where a project casts them", own_tables(of_an_unknown_type, mart(FROM_VIEW.format("price as x")))),
    ("partitions in parts", parts("sale_id", force_batch=True)),
    ("a hundred buckets", parts("bucket(sale_id, 10)", "bucket(price, 10)")),
    ("a reserved word in quotes", mart(FROM_VIEW.format('sale_id as "first"'))),
    ("a reserved column in quotes", declared("last", enforced=True, quote=True)),
    ("a reserved word in a text", mart(FROM_VIEW.format("'skip' as name"))),
    ("newer syntax in a text", mart(FROM_VIEW.format("'with function (' as name"))),
]  # fmt: skip


@pytest.mark.parametrize("change", [case[1] for case in RIGHT], ids=[case[0] for case in RIGHT])
def test_what_athena_takes_is_passed_over(change: Change) -> None:
    project = Project()
    change(project)
    assert project.found() == {}


def test_each_rule_has_a_case_that_violates_it_and_a_page_that_says_so() -> None:
    assert {case[2] for case in WRONG} == set(RULES)
    for name, check in RULES.items():
        assert "https://docs.aws.amazon.com/athena/" in (check.__doc__ or ""), name


def each_call() -> Iterator[tuple[str, set[str]]]:
    """Texts, and the functions that they call."""
    yield "select count (*), cast(a as decimal(8, 2)), x in (1), 'f(' || b from t as u (c, d)", {"count", "cast"}
    yield "with a (x) as (select 1), b (y) as (select 2) select * from a, b", set()
    yield "select transform(a, x -> f(x)), row_number() over (order by 1)", {"transform", "f", "row_number"}
    yield 'select "quoted" (1) -- g(1)', set()
    yield "select max(a) filter (where b), listagg(c) within group (order by c)", {"max", "filter", "listagg"}


@pytest.mark.parametrize(("text", "called"), list(each_call()))
def test_calls_are_told_from_syntax_types_and_names(text: str, called: set[str]) -> None:
    assert set(calls(text)) == called


def test_the_baseline_takes_what_it_names_and_may_only_shrink() -> None:
    found = {("functions", "fct_sales"): "calls collect_list"}
    assert unexpected(found, {}) == ["functions: fct_sales calls collect_list"]
    assert unexpected(found, {"functions": {"fct_sales": "Spark's."}}) == []
    assert "fct_sales is well now" in unexpected({}, {"functions": {"fct_sales": "Spark's."}})[0]
