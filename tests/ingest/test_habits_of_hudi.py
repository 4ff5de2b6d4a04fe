"""What those who know Hudi and Spark SQL do to silver: it equals what was delivered, or a sentence says why not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from conftest import DbtProject, MakeProject, pg, table_of
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
COLUMNS = {"id": "int", "value": "string"}


def shop(make_project: MakeProject, **options: Any) -> DbtProject:
    """A project with a table whose first two rows are delivered."""
    project = make_project({"tables": [table_of("orders", COLUMNS, ["id"], **options)]})
    project.deliver("shop.orders", 0, [pg("c", 1, id=1, value="a"), pg("c", 2, id=2, value="b")])
    return project


def place(project: DbtProject, spark: SparkSession) -> Path:
    return Path(urlparse(project.silver(spark, "orders").path).path)


def refusal(project: DbtProject, spark: SparkSession) -> str:
    """Why the table cannot be landed."""
    error = project.land(spark)["orders"].error
    assert error is not None
    return error.message


@pytest.mark.parametrize("gone", [".hoodie", pytest.param(".hoodie/timeline", marks=pytest.mark.slow)])
def test_files_without_their_table_are_no_rows_of_a_new_one(
    gone: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """They were rows of the table that was landed anew: each key was there twice."""
    project = shop(make_project)
    project.land_well(spark)
    folder = place(project, spark)
    shutil.move(folder / gone, project.root / "away")
    told = refusal(project, spark)
    assert "there are files, and no Hudi table that they belong to" in told
    assert "move the folder away to land the table anew" in told
    shutil.move(project.root / "away", folder / gone)
    assert project.land_well(spark)["orders"].taken == 0
    shutil.move(folder, project.root / "away")
    project.land_well(spark)
    assert project.rows(spark, "orders", "id") == [{"id": 1}, {"id": 2}]


def test_another_table_type_or_version_is_refused(make_project: MakeProject, spark: SparkSession) -> None:
    """Hudi takes them from the table: it was compacted no more, or written in a version that Athena does not read."""
    project = shop(make_project, table_type="mor", table_version=8)
    project.land_well(spark)
    for options, told in (
        ({"table_type": "cow", "table_version": 8}, "says table_type cow, the table was landed with mor"),
        ({"table_version": 6}, "says table_version 6, the table was landed with 8"),
    ):
        project.declare({"tables": [table_of("orders", COLUMNS, ["id"], **options)]})
        assert told in refusal(project, spark)
    project.declare({"tables": [table_of("orders", COLUMNS, ["id"], table_version=8)]})
    spark.sql(f"update {project.schema}.orders set value = 'by hand' where id = 1")
    project.land_well(spark)
    assert project.silver(spark, "orders").hudi.timeline.client().getTableConfig().getTableVersion().versionCode() == 8
