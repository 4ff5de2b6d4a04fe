"""Each rule of `ci/rules.py` on a project that is well but for one thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ci.rules import RULES, unexpected, violations

Manifest = dict[str, Any]
STAGING, MART = "model.shop.stg_shop__orders", "model.shop.fct_orders"
SOURCE, EXPOSURE = "source.shop.shop.orders", "exposure.shop.dashboard"


class Project:
    """A manifest to be changed; well as it begins: a source, its staging model, a mart, its consumer."""

    def __init__(self) -> None:
        self.nodes: Manifest = {}
        self.sources: Manifest = {}
        self.reads: dict[str, list[str]] = {}
        self.macros: Manifest = {}
        self.exposures: Manifest = {EXPOSURE: {"name": "dashboard", "depends_on": {"nodes": [MART]}}}
        self.source("orders")
        self.model("stg_shop__orders", [SOURCE], "models/staging/shop", materialized="view")
        self.model("fct_orders", [STAGING], "models/marts/sales", access="public")

    def source(self, name: str) -> str:
        """Declares a table."""
        key = f"source.shop.shop.{name}"
        self.sources[key] = {
            "name": name, "source_name": "shop", "schema": "silver", "identifier": name,
            "relation_name": f"silver.{name}", "description": "Orders.",
            "source_description": "The shop.", "columns": {"id": {"description": "Key."}},
            "freshness": {"warn_after": {"count": 1, "period": "day"}, "error_after": {"count": None, "period": None}},
            "original_file_path": "models/staging/shop/_shop__sources.yml",
        }  # fmt: skip
        return key

    def model(
        self, name: str, reads: list[str], folder: str, *, materialized: str = "table", access: str = "protected",
        sql: str = "select 1", tests: tuple[str, ...] = ("unique", "not_null"), unique_key: Any = None,
    ) -> str:  # fmt: skip
        """Adds a model. Its tests are of the column id, or as they say: `unique of b`, `... of a, b`, `... where`."""
        key = f"model.shop.{name}"
        self.nodes[key] = {
            "resource_type": "model", "name": name, "package_name": "shop", "raw_code": sql,
            "original_file_path": f"{folder}/{name}.sql",
            "description": "Orders.", "columns": {"id": {"description": "Key."}}, "access": access,
            "schema": "lakehouse", "alias": name, "config": {
                "materialized": materialized, "contract": {"enforced": access == "public"}, "unique_key": unique_key,
            },
        }  # fmt: skip
        self.reads[key] = reads
        for test in tests:
            kind, _, told = test.removesuffix(" where").partition(" of ")
            columns = told.split(", ") if told else ["id"]
            of: Any = {"column_name": columns[0]} if len(columns) == 1 else {"combination_of_columns": columns}
            self.nodes[f"test.shop.{test}_{name}"] = {
                "resource_type": "test", "name": f"{name}_{test}", "attached_node": key,
                "test_metadata": {"name": kind, "kwargs": of},
                "config": {"where": "id > 1" if test.endswith(" where") else None},
                "original_file_path": f"{folder}/_models.yml",
            }  # fmt: skip
        return key

    def manifest(self) -> Manifest:
        """All of it, as dbt writes it."""
        children: dict[str, list[str]] = {}
        for child, parents in self.reads.items():
            for parent in parents:
                children.setdefault(parent, []).append(child)
        return {
            "nodes": self.nodes, "sources": self.sources, "exposures": self.exposures, "macros": self.macros,
            "metadata": {"project_name": "shop"}, "parent_map": self.reads, "child_map": children,
        }  # fmt: skip

    def found(self) -> dict[str, set[str]]:
        """The rules that are violated, and by what."""
        found: dict[str, set[str]] = {}
        for rule, subject in violations(self.manifest()):
            found.setdefault(rule, set()).add(subject)
        return found


def chained(project: Project) -> None:
    last = STAGING
    for number in range(4):
        last = project.model(f"int_{number}", [last], "models/intermediate/x", materialized="view")
    project.reads[MART] = [last]


def many_leaves(project: Project) -> None:
    middle = project.model("int_orders", [STAGING], "models/intermediate/x")
    for number in range(4):
        project.model(f"fct_{number}", [middle], "models/marts/x")


def rejoined(project: Project) -> None:
    project.reads[MART] = [STAGING, project.model("int_orders", [STAGING], "models/intermediate/x")]


def two_sources(project: Project) -> None:
    project.reads[STAGING] = [SOURCE, project.source("more")]


def declared_twice(project: Project) -> None:
    second = project.source("more")
    project.sources[second]["relation_name"] = project.sources[SOURCE]["relation_name"]
    project.model("stg_shop__more", [second], "models/staging/shop", materialized="view")


def many_parents(project: Project) -> None:
    project.reads[MART] += [project.model(f"int_{number}", [STAGING], "models/intermediate/x") for number in range(6)]


def declared_elsewhere(project: Project) -> None:
    project.nodes["test.shop.unique_fct_orders"]["original_file_path"] = "models/staging/shop/_models.yml"


PARTS = {
    "by_an_item": "select 1 {% if not flags['FULL_REFRESH'] %} where false {% endif %}",
    "by_the_command": "select 1 {% if not invocation_args_dict.get('full_refresh', false) %} where false {% endif %}",
    "by_its_item": """select 1 {% if not invocation_args_dict[ "full_refresh" ] %} where false {% endif %}""",
    "by_its_name": "{% set there = adapter.get_relation(target.database, target.schema, 'by_its_name') %} select 1",
    "by_a_name": "{% set there = run_query('show tables like by_a_name') %} select 1",
    "by_a_source": "select 1 where 1 > {{ run_query('select max(id) from ' ~ source('own', 'mine')).columns[0][0] }}",
    "by_a_listing": "{% set there = run_query('show tables like ' ~ this.name) %} select 1",
    "by_its_columns": "{% set there = adapter.get_columns_in_relation(api.Relation.create(identifier=this.name)) %}",
    "by_a_package": "select 1 where 1 > {{ theirs('select max(id) from lakehouse.' ~ this.name) }}",
    "by_its_table": "select 1 where 1 > {{ run_query('select max(id) from `Lakehouse`.by_its_table').columns[0][0] }}",
}


def by_a_macro(project: Project) -> None:
    project.nodes[MART]["depends_on"] = {"macros": ["macro.shop.newer"]}
    project.nodes[STAGING]["depends_on"] = {"macros": ["macro.shop.older"]}
    own = {"source_name": "own", "name": "mine", "schema": "Lakehouse", "identifier": "by_a_source"}
    project.sources["source.shop.own.mine"] = project.sources[SOURCE] | own
    calls = {"newer": ["macro.shop.newer", "macro.shop.is_incremental"], "older": ["macro.shop.ref"]}
    project.macros = {f"macro.shop.{name}": {"depends_on": {"macros": called}} for name, called in calls.items()}
    # A guard of its own reads the table as well; who only names it, or tells a hook of it, does not.
    asking = "{% set there = load_relation(this) %} select 1"
    by_its_node = "{% set there = load_relation(api.Relation.create(identifier=model.name)) %} select 1"
    told = "meta={'by': {'a': {'id': 'id'}}}, post_hook='analyze table {{ this }}'"
    naming = f"{{{{ config({told}) }}}} {{# this #}} select '{{{{ this.name }}}}' as name, 'this'"
    naming += """ {{ "flags['FULL_REFRESH']" ~ adapter.quote('id') }}"""
    more = "select 1 {% if not flags.FULL_REFRESH %} where false {% endif %}"
    calling = "select 1 {{ those_not_there() }}"
    project.macros |= {
        "macro.shop.those_not_there": {"macro_sql": "{{ there() }}", "depends_on": {"macros": ["macro.shop.there"]}},
        "macro.shop.there": {"macro_sql": "{{ load_relation(this) }}", "depends_on": {"macros": ["macro.dbt.no"]}},
        "macro.helpers.theirs": {"macro_sql": "{{ run_query(sql) }}", "depends_on": {"macros": []}},
        "macro.dbt.no": {"macro_sql": "{{ flags.FULL_REFRESH }}", "depends_on": {"macros": []}},
    }
    for name, sql, called in (
        ("guarded", asking, ()), ("named", naming, ()), ("refreshed", more, ()), ("by_its_node", by_its_node, ()),
        ("calling", calling, ("those_not_there",)), ("hooked", "select 1", ("there",)),
    ):  # fmt: skip
        project.model(name, [STAGING], "models/marts/sales", materialized="incremental", sql=sql)
        project.nodes[f"model.shop.{name}"]["depends_on"] = {"macros": [f"macro.shop.{each}" for each in called]}
    for name, sql in PARTS.items():
        project.model(name, [STAGING], "models/marts/sales", materialized="incremental", sql=sql)
    project.nodes["model.shop.by_a_package"]["depends_on"] = {"macros": ["macro.helpers.theirs"]}


def undocumented_macros(project: Project) -> None:
    """Two that violate the rule, one that is hidden, one that is described, one of a package."""
    for name, description, shown, package in (
        ("newer", " ", True, "shop"), ("_part", "A part.", True, "shop"), ("_hidden", "", False, "shop"),
        ("older", "Old.", True, "shop"), ("theirs", "", True, "dbt"),
    ):  # fmt: skip
        project.macros[f"macro.{package}.{name}"] = {
            "name": name, "package_name": package, "description": description, "docs": {"show": shown},
            "depends_on": {"macros": []},
        }  # fmt: skip


def calling_upwards(project: Project) -> None:
    """A macro that calls one of a folder above its own, and one that calls one of a folder below."""
    folders = {"newest": "adapter", "newer": "read"}
    for name, called in (("newest", "newer"), ("newer", "newest")):
        project.macros[f"macro.shop.{name}"] = {
            "name": name, "package_name": "shop", "description": "Newer rows.", "docs": {"show": True},
            "original_file_path": f"macros/{folders[name]}/{name}.sql",
            "depends_on": {"macros": [f"macro.shop.{called}"]},
        }  # fmt: skip


CHANGES: dict[str, tuple[Callable[[Project], object], set[str]]] = {
    "direct_join_to_source": (lambda p: p.reads[MART].append(SOURCE), {"fct_orders"}),
    "duplicate_sources": (declared_twice, {"silver.orders"}),
    "hard_coded_references": (lambda p: p.nodes[MART].update(raw_code="select * from a.b"), {"fct_orders"}),
    "marts_or_intermediate_dependent_on_source": (lambda p: p.reads.update({MART: [SOURCE]}), {"fct_orders"}),
    "model_fanout": (many_leaves, {"int_orders"}),
    "multiple_sources_joined": (two_sources, {"stg_shop__orders"}),
    "rejoining_of_upstream_concepts": (rejoined, {"fct_orders"}),
    "root_models": (lambda p: p.reads.update({MART: []}), {"fct_orders"}),
    "source_fanout": (lambda p: p.model("stg_shop__more", [SOURCE], "models/staging/shop"), {"shop.orders"}),
    "staging_dependent_on_marts_or_intermediate": (lambda p: p.reads[STAGING].append(MART), {"stg_shop__orders"}),
    "staging_dependent_on_staging": (
        lambda p: p.model("stg_shop__more", [STAGING], "models/staging/shop"), {"stg_shop__more"},
    ),
    "too_many_joins": (many_parents, {"fct_orders"}),
    "unused_sources": (lambda p: p.source("more"), {"shop.more"}),
    "missing_primary_key_tests": (
        lambda p: p.model("fct_more", [STAGING], "models/marts/x", tests=("unique",)), {"fct_more"},
    ),
    "test_coverage": (lambda p: p.model("fct_more", [STAGING], "models/marts/x", tests=()), {"fct_more"}),
    "sources_without_freshness": (lambda p: p.sources[SOURCE].update(freshness=None), {"shop.orders"}),
    "undocumented_models": (lambda p: p.nodes[STAGING].update(description=" "), {"stg_shop__orders"}),
    "undocumented_source_tables": (
        lambda p: p.sources[SOURCE]["columns"]["id"].update(description=""), {"shop.orders"},
    ),
    "undocumented_sources": (lambda p: p.sources[SOURCE].update(source_description=""), {"shop"}),
    "model_naming_conventions": (lambda p: p.model("orders", [STAGING], "models/marts/x"), {"orders"}),
    "model_directories": (lambda p: p.model("fct_more", [STAGING], "models/other/x"), {"fct_more"}),
    "source_directories": (
        lambda p: p.sources[SOURCE].update(original_file_path="models/staging/_sources.yml"), {"shop.orders"},
    ),
    "test_directories": (declared_elsewhere, {"fct_orders_unique"}),
    "chained_views_dependencies": (chained, {"int_3"}),
    "exposure_parents_materializations": (
        lambda p: p.exposures[EXPOSURE]["depends_on"]["nodes"].append(SOURCE), {"dashboard"},
    ),
    "undocumented_macros": (undocumented_macros, {"newer", "_part"}),
    "macro_folders": (calling_upwards, {"newest"}),
    "incremental_parts": (by_a_macro, {"fct_orders", "guarded", "refreshed", "calling", "by_its_node", *PARTS}),
    "unproven_increments": (
        lambda p: p.nodes[
            p.model("fct_more", [STAGING], "models/marts/x", materialized="incremental", tests=("unique", "not_null"))
        ], {"fct_more"},
    ),
    "public_models_without_contract": (
        lambda p: p.nodes[MART]["config"]["contract"].update(enforced=False), {"fct_orders"},
    ),
    "undocumented_public_models": (
        lambda p: p.nodes[MART]["columns"]["id"].update(description=""), {"fct_orders"},
    ),
    "exposures_dependent_on_private_models": (lambda p: p.nodes[MART].update(access="protected"), {"dashboard"}),
}  # fmt: skip


def test_a_project_that_is_well_violates_nothing() -> None:
    assert Project().found() == {}


def test_every_rule_is_tried() -> None:
    assert CHANGES.keys() == RULES.keys()


@pytest.mark.parametrize("rule", list(CHANGES))
def test_a_rule_finds_what_violates_it(rule: str) -> None:
    change, subjects = CHANGES[rule]
    project = Project()
    change(project)
    assert project.found()[rule] == subjects


def test_the_baseline_may_only_shrink() -> None:
    found = {("root_models", "fct_a"): "reads no source and no model"}
    assert unexpected(found, {"root_models": {"fct_a": "a calendar"}}) == []
    assert unexpected(found, {}) == ["root_models: fct_a reads no source and no model"]
    (told,) = unexpected({}, {"root_models": {"fct_a": "a calendar"}})
    assert told == "root_models: fct_a is well now: take it out of rules.baseline.yml"


@pytest.mark.parametrize(
    ("unique_key", "tests", "told"),
    [
        ("id", ("unique", "not_null"), None),
        ("ID", ("unique", "not_null"), None),
        (["id"], ("unique", "not_null"), None),
        (["id"], ("unique_combination_of_columns of id", "not_null"), None),
        (
            "id",
            ("unique of other", "not_null of other"),
            "has unique_key id, and no tests not_null of id; unique of id",
        ),
        ("id", ("unique", "not_null of other"), "has unique_key id, and no tests not_null of id"),
        ("id", ("unique where", "not_null"), "has unique_key id, and no tests unique of id"),
        (["a", "b"], ("unique_combination_of_columns of b, a", "not_null of a", "not_null of b"), None),
        ("a, b", ("unique_combination_of_columns of a, b", "not_null of a", "not_null of b"), None),
        (
            ["a", "b"],
            ("unique of a", "unique of b", "not_null of a", "not_null of b"),
            "has unique_key a, b, and no tests unique_combination_of_columns of a, b",
        ),
        (
            ["a", "b"],
            ("unique_combination_of_columns of a, b, c", "not_null of a"),
            "has unique_key a, b, and no tests not_null of b; unique_combination_of_columns of a, b",
        ),
        (None, ("unique of a", "not_null of b"), None),
        (None, ("unique of a",), "has no tests not_null"),
    ],
)
def test_a_model_s_own_key_is_tested(unique_key: Any, tests: tuple[str, ...], told: str | None) -> None:
    project = Project()
    project.model("fct_more", [STAGING], "models/marts/x", tests=tests, unique_key=unique_key)
    found = violations(project.manifest())
    assert found.get(("missing_primary_key_tests", "fct_more")) == told


def test_a_consumer_may_read_a_snapshot() -> None:
    project = Project()
    project.exposures[EXPOSURE]["depends_on"]["nodes"].append("snapshot.shop.prices")
    assert project.found() == {}
