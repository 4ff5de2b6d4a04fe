"""A source that is declared and was never landed: what dbt does without it, and what it never passes over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from conftest import DbtProject, MakeProject, pg, table_of
from dbt.cli.main import dbtRunner
from dbt_common.events.base_types import EventMsg
from pyspark.sql import SparkSession

from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.landing.run import land

pytestmark = pytest.mark.spark
ABSENT = "silver_of_nobody"


class Dbt:
    """Commands of dbt on a project; the status of each node, and what was noted."""

    def __init__(self, project: DbtProject) -> None:
        root = str(project.root)
        where = ["--project-dir", root, "--profiles-dir", root, "--target-path", f"{root}/target", "--log-path", root]
        self._where = where
        self.notes: list[str] = []

    def __call__(self, *arguments: str) -> dict[str, str]:
        self.notes = []

        def follow(event: EventMsg) -> None:
            if event.info.name == "Note":
                self.notes.append(event.data.msg)

        done = dbtRunner(callbacks=[follow]).invoke(["--quiet", *arguments, *self._where])
        assert done.exception is None, done.exception
        results = getattr(done.result, "results", None) or []
        return {item.node.name: str(item.status) for item in results}


@pytest.fixture
def dbt(spark: SparkSession, make_project: MakeProject) -> Iterator[Dbt]:
    """Two sources, of which one is landed; a view, a table and a test of each, and a table of both."""
    before = Path.cwd()
    tables = {"tables": [table_of("note", {"id": "int"}, ["id"])]}
    project = make_project(tables)
    project.deliver("shop.note", 0, [pg("c", 100, id=1)])
    for landed in land(spark, load_source(Project.load(project.root, project.root), "shop").tables):
        assert not landed.error
    other = {"name": "other", "schema": ABSENT, "tables": [table_of("note", {"id": "int"}, ["id"])]}
    _declare(project, {"version": 2, "sources": [other]})
    for source in ("shop", "other"):
        name = f"{source}_notes"
        _write(project, f"stg_{name}", f"select id from {{{{ source('{source}', 'note') }}}}", "view")
        _write(project, name, f"select id from {{{{ ref('stg_{name}') }}}}", "table")
    _write(
        project,
        "both",
        "select * from {{ ref('shop_notes') }} union all select * from {{ ref('other_notes') }}",
        "table",
    )
    tested = [
        {"name": f"{source}_notes", "columns": [{"name": "id", "data_tests": ["not_null"]}]}
        for source in ("shop", "other")
    ]
    _declare(project, {"version": 2, "models": tested}, "_models.yml")
    yield Dbt(project)
    os.chdir(before)


def _declare(project: DbtProject, told: object, name: str = "_other.yml") -> None:
    (project.root / "models" / name).write_text(yaml.safe_dump(told), encoding="utf-8")


def _write(project: DbtProject, name: str, select: str, materialized: str) -> None:
    text = f"{{{{ config(materialized='{materialized}') }}}}\n{select}\n"
    (project.root / "models" / f"{name}.sql").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("has_schema", [pytest.param(False, marks=pytest.mark.slow), True])
def test_what_chooses_all_leaves_out_what_was_never_landed_and_says_so(
    spark: SparkSession, dbt: Dbt, has_schema: bool
) -> None:
    """A schema without tables is what `deploy/aws` makes. A session's temporary views are listed with any schema."""
    if has_schema:
        spark.sql(f"create database {ABSENT}")
    spark.sql("create temporary view of_the_session as select 1 as id")
    try:
        _leaves_out_what_was_never_landed(dbt)
    finally:
        spark.sql("drop view of_the_session")
        spark.sql(f"drop database if exists {ABSENT}")


def _leaves_out_what_was_never_landed(dbt: Dbt) -> None:
    built = {"stg_shop_notes": "success", "shop_notes": "success", "not_null_shop_notes_id": "pass"}
    assert dbt("build") == built
    (note,) = dbt.notes
    assert note.startswith("other was never landed, and what reads it is left out")
    assert dbt("run", "--exclude", "shop_notes") == {"stg_shop_notes": "success"}
    assert set(dbt("test")) == {"not_null_shop_notes_id"}
    # What is chosen is not passed over, and neither is what a list is asked for.
    assert dbt("run", "--select", "stg_other_notes") == {"stg_other_notes": "error"}
    assert set(dbt("run", "--select", "+both").values()) == {"success", "error", "skipped"}
    listed = dbtRunner().invoke(["--quiet", "list", *dbt._where])
    assert len(listed.result) == 9  # type: ignore[arg-type]


def test_a_table_that_is_gone_and_a_lake_that_is_not_there_are_errors(
    spark: SparkSession, dbt: Dbt, make_project: MakeProject
) -> None:
    spark.sql(f"create database {ABSENT}")
    spark.sql(f"create table {ABSENT}.other (id int) using parquet")
    try:
        # Its schema is there, with another table.
        assert dbt("run")["stg_other_notes"] == "error"
        assert dbt.notes == []
    finally:
        spark.sql(f"drop database {ABSENT} cascade")
    empty = make_project()
    sources = [
        {"name": name, "schema": f"{ABSENT}_{name}", "tables": [table_of("note", {"id": "int"}, ["id"])]}
        for name in "ab"
    ]
    _declare(empty, {"version": 2, "sources": sources})
    _write(empty, "stg_a", "select id from {{ source('a', 'note') }}", "view")
    assert Dbt(empty)("run") == {"stg_a": "error"}
