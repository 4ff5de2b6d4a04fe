"""A source that is not landed yet has empty tables, where they are asked for; its first landing makes them anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from conftest import DbtProject, MakeProject, pg, table_of
from modeling import Models
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from ingest.cli.app import app
from ingest.operations.prepare import prepare
from ingest.operations.status import status_of
from ingest.silver.state import Counts

pytestmark = pytest.mark.spark

NOTE = {"id": "int", "name": "string"}


def prepared(project: DbtProject, code: int = 0) -> dict[str, bool]:
    """Runs `lake prepare`: which tables it made."""
    result = CliRunner().invoke(app, ["prepare", "shop", "--json", "--project-dir", str(project.root)])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return {row["table"]: row["made"] for row in json.loads(result.stdout)}


def declared(columns: dict[str, str], **more: Any) -> dict[str, Any]:
    """Tables of each kind."""
    of_each: dict[str, dict[str, Any]] = {
        "mor": {"history": True, "buckets": 3},
        "cow": {"table_type": "cow", "table_version": 6},
        "parted": {"partition_by": ["name"]},
        "keyed": {},
    }
    tables = [table_of(name, columns, ["id"], **{**options, **more}) for name, options in of_each.items()]
    tables[-1] = table_of("keyed", columns, ["id", "name"], **more)
    return {"tables": tables}


@pytest.mark.slow
def test_a_source_without_events_has_empty_tables_and_is_landed_as_any_other(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project(declared(NOTE))
    names = ("mor", "cow", "parted", "keyed")
    assert prepared(project) == dict.fromkeys(names, True)
    for name in names:
        assert project.rows(spark, name, "id", "name", "__deleted", "__lsn", "__position") == []
        assert project.silver(spark, name).state() is None
    for relation in ("mor_ro", "mor_rt", "mor__changes"):
        assert spark.table(f"`{project.schema}`.`{relation}`").count() == 0
    assert prepared(project) == dict.fromkeys(names, False)

    # The declaration goes on until events come.
    project.declare(declared({"id": "bigint", "name": "string", "size": "int"}))
    assert prepared(project) == dict.fromkeys(names, True)
    project.declare(declared({"id": "bigint", "name": "string", "size": "bigint"}))
    for name in names:
        project.deliver(
            f"shop.{name}", 0, [pg("c", 1, id=1, name="a", size=5_000_000_000), pg("c", 2, id=2, name="b", size=1)]
        )
    assert {row.state for row in status_of(spark, project.source())} == {"not landed yet"}
    assert {row.waiting for row in status_of(spark, project.source())} == {1}
    project.land_well(spark)
    for name in names:
        assert project.rows(spark, name) == [
            {"id": 1, "name": "a", "size": 5_000_000_000},
            {"id": 2, "name": "b", "size": 1},
        ]
        assert project.state(spark, name).totals == Counts(read=2, applied=2)
        # One commit: that of the empty table is gone.
        assert project.silver(spark, name).commits_after("0") == 1
    assert project.state(spark, "mor").buckets == 3
    assert spark.table(f"`{project.schema}`.`mor__changes`").count() == 2
    assert spark.table(f"`{project.schema}`.`mor_rt`").count() == 2

    # What was landed is left as it is, and goes on.
    assert prepared(project) == dict.fromkeys(names, False)
    for name in names:
        project.deliver(f"shop.{name}", 2, [pg("u", 3, id=1, name="a", size=3), pg("d", 4, id=2, name="b")])
    project.land_well(spark)
    for name in names:
        assert project.rows(spark, name) == [{"id": 1, "name": "a", "size": 3}]


def test_a_prepared_table_gets_the_buckets_of_its_first_landing(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project({"tables": [table_of("note", NOTE, ["id"])]})
    (table,) = project.source().tables
    assert prepare(spark, table)
    lines = [pg("c", lsn, id=lsn, name="a") for lsn in range(1, 21)]
    project.deliver("shop.note", 0, lines)
    project.declare({"tables": [table_of("note", NOTE, ["id"], buckets=5)]})
    project.land_well(spark)
    assert project.state(spark, "note").buckets == 5
    assert len(project.rows(spark, "note")) == 20
    project.deliver("shop.note", 20, [pg("u", 30 + lsn, id=lsn, name="b") for lsn in range(1, 21)])
    project.land_well(spark)
    assert [row["name"] for row in project.rows(spark, "note")] == ["b"] * 20


LIVE = "select * from {{{{ source('shop', '{}') }}}} where __deleted = 'false'"
NAMES = """
select notes.id, notes.name, others.name as other
from {{ ref('stg_note') }} as notes
left join {{ ref('stg_other') }} as others on notes.id = others.id
"""


@pytest.mark.slow
def test_models_are_built_on_a_table_that_is_not_landed_yet_and_follow_its_first_landing(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project({"tables": [table_of(name, NOTE, ["id"]) for name in ("note", "other")]})
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    models = Models.of(spark, project, file_format="hudi", unique_key="id", options=options)
    for name in ("note", "other"):
        models.write(f"stg_{name}", LIVE.format(name), materialized="view")
    reach = [{"source": "shop.note", "by": {"id": "id"}}, {"source": "shop.other", "by": {"id": "id"}}]
    models.write("names", NAMES, materialized="incremental", meta={"affected_by": reach})
    project.deliver("shop.note", 0, [pg("c", lsn, id=lsn, name="a") for lsn in (1, 2)])
    models.land("note")
    assert prepared(project) == {"note": False, "other": True}
    models.run("stg_note", "stg_other", "names")
    assert [(row["id"], row["other"]) for row in models.rows("names")] == [(1, None), (2, None)]
    project.deliver("shop.other", 0, [pg("c", 3, id=2, name="b")])
    models.land("other")
    models.run("names")
    assert [(row["id"], row["other"]) for row in models.rows("names")] == [(1, None), (2, "b")]


def test_a_table_whose_folder_is_gone_is_not_prepared(make_project: MakeProject, spark: SparkSession) -> None:
    """An empty table in its place would say that nothing was ever landed; the others are prepared all the same."""
    project = make_project({"tables": [table_of(name, NOTE, ["id"]) for name in ("gone", "new")]})
    project.deliver("shop.gone", 0, [pg("c", 1, id=1, name="a")])
    project.land_well(spark, "gone")
    shutil.rmtree(Path(urlparse(project.silver(spark, "gone").path).path))
    assert prepared(project, code=1) == {"gone": False, "new": True}
    gone, _ = status_of(spark, project.source())
    assert "its folder is gone" in str(gone.error)
