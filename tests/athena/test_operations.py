"""What is done to a lake besides landing works on S3: prepare, plan, position, purge, erase, replay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import MakeProject, pg, table_of
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from ingest.cli.app import app
from ingest.operations import check
from ingest.operations.erase import erase, parse_key
from ingest.operations.plan import pending_plan
from ingest.operations.position import set_position
from ingest.operations.prepare import prepare
from ingest.operations.purge import purge
from ingest.operations.reconcile import reconcile
from ingest.sources import reach

pytestmark = [pytest.mark.athena, pytest.mark.spark]

NOTE = {"id": "int", "body": "string"}
CANARY = "canary-of-the-seventh-mine"


def names_in(glue: Any, schema: str) -> set[str]:
    """The tables of a schema in Glue."""
    return {each["Name"] for each in glue.get_tables(DatabaseName=schema)["TableList"]}


def test_empty_tables_are_in_glue_and_make_room_for_the_landed_ones(
    spark: SparkSession, glue: Any, make_project: MakeProject
) -> None:
    project = make_project({"tables": [table_of("note", NOTE, ["id"], history=True)]})
    (table,) = project.source().tables
    assert prepare(spark, table)
    three = {"note", "note_ro", "note_rt"}
    both = three | {each.replace("note", "note__changes") for each in three}
    assert names_in(glue, project.schema) == both
    project.deliver("shop.note", 0, [pg("c", 1, id=1, body="a")])
    assert pending_plan(spark, table).waiting == 1
    project.land_well(spark)
    assert names_in(glue, project.schema) == both
    assert project.rows(spark, "note") == [{"id": 1, "body": "a"}]
    # The source is read again from its beginning: what was landed is known.
    set_position(spark, table, to_latest=False)
    assert project.land_well(spark)["note"].counts.duplicate == 1


def test_an_erased_key_is_in_no_object_of_the_bucket(spark: SparkSession, s3: Any, make_project: MakeProject) -> None:
    project = make_project({"tables": [table_of("note", {"id": "string", "body": "string"}, ["id"], history=True)]})
    project.deliver("shop.note", 0, [pg("c", 1, id=CANARY, body="a"), pg("c", 2, id="other", body="b")])
    project.land_well(spark)
    project.deliver("shop.note", 2, [pg("u", 3, id=CANARY, body="c"), pg("u", 4, id="other", body="d"), "{broken"])
    project.land_well(spark)
    (table,) = project.source().tables

    def holding() -> list[str]:
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix=f"silver/{project.schema}.db/")
        keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        bodies = {key: s3.get_object(Bucket="lake", Key=key)["Body"].read() for key in keys}
        return [key for key, body in bodies.items() if CANARY.encode() in body]

    erasure = erase(spark, table, [parse_key(table, f"id={CANARY}")])
    assert (erasure.keys, erasure.holding) == (1, ())
    assert {place.name.split(".")[-1].strip("`"): place.rows for place in erasure.places} == {
        "note": 1,
        "note__changes": 2,
        "_quarantine": 0,
    }
    assert holding() == []
    assert project.rows(spark, "note") == [{"id": "other", "body": "d"}]
    project.land_well(spark)
    assert spark.table(f"{project.schema}.note_ro").count() == 1


@pytest.mark.slow
def test_tombstones_go_for_good_and_the_quarantine_is_replayed(spark: SparkSession, make_project: MakeProject) -> None:
    project = make_project({"tables": [table_of("note", NOTE, ["id"], deletes="hard", delete_retention_days=1)]})
    project.deliver("shop.note", 0, [pg("c", 1, id=1, body="a"), pg("c", 2, id=2, body="b"), pg("d", 3, id=2)])
    project.deliver("shop.note", 3, [pg("c", 4, id="seven", body="c")])
    project.land_well(spark)
    (table,) = project.source().tables
    assert purge(spark, table, datetime.now(UTC) + timedelta(days=2)) == 1
    assert project.rows(spark, "note", "id", live=False) == [{"id": 1}]
    result = CliRunner().invoke(app, ["quarantine", "replay", "shop", "--project-dir", str(project.root)])
    assert result.exit_code in (0, 1), result.output
    assert len(project.quarantined(spark)) == 1, "it cannot be applied by now either"
    result = CliRunner().invoke(app, ["status", "shop", "--project-dir", str(project.root)])
    assert "up to date" in result.output


def test_silver_on_s3_is_compared_with_its_source(
    spark: SparkSession, make_project: MakeProject, tmp_path: Path
) -> None:
    """What silver lacks, has besides, and has with other values, whatever was compacted and what was not."""
    project = make_project({"tables": [table_of("note", NOTE, ["id"])]})
    project.deliver("shop.note", 0, [pg("c", n, id=n, body="a") for n in range(1, 5)])
    project.land_well(spark)
    project.deliver("shop.note", 4, [pg("u", 10, id=1, body="b"), pg("d", 11, id=2, body="a")])
    project.land_well(spark)
    (table,) = project.source().tables
    rows = [{"id": 1, "body": "b"}, {"id": 3, "body": "a"}, {"id": 4, "body": "a"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "note.parquet")
    assert reconcile(spark, table, against=tmp_path, limit=9).told == "equal"
    pq.write_table(pa.Table.from_pylist([*rows[:2], {"id": 5, "body": "a"}]), tmp_path / "note.parquet")
    assert dict(reconcile(spark, table, against=tmp_path, limit=9).counts) == {"missing": 1, "extra": 1, "different": 0}


def test_a_look_says_whether_bucket_and_glue_answer(
    spark: SparkSession, make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lake check` of a lake on S3, before and after its first landing, and where there is no such bucket."""
    # What is answered, however long a busy machine takes to say it.
    monkeypatch.setattr(check, "_WITHIN_S", 60.0)
    monkeypatch.setattr(reach, "_ALL_S", 60.0)
    project = make_project({"tables": [table_of("note", NOTE, ["id"])]})
    project.deliver("shop.note", 0, [pg("c", 1, id=1, body="a")])
    words = ["check", "shop", "--project-dir", str(project.root)]

    def told(code: int) -> str:
        done = CliRunner().invoke(app, words)
        assert done.exit_code == code, done.output
        return " ".join(done.output.split())

    first = told(0)
    assert "lake s3://lake/silver: the bucket answers" in first
    assert f"Glue, database {project.schema}: answers; the first landing makes the database" in first
    project.land_well(spark)
    assert f"Glue, database {project.schema}: is there" in told(0)
    monkeypatch.setenv("LAKE_ROOT", "s3://nowhere/silver")
    assert "NoSuchBucket" in told(1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "Amazon S3 refuses, or does not answer" in told(1)
