"""dbt_external_tables on Spark, the real package: it registers silver from the declaration that ingest reads.

On Athena it takes the project's plan: tests/athena/test_external_tables.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY, new_project, pg, table_of
from modeling import Models
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_silver_is_registered_as_ingest_had_it(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    if "DBT_PACKAGES_FROM" not in os.environ:
        pytest.skip("needs dbt_external_tables: DBT_PACKAGES_FROM names a mirror of it")
    declared = table_of("item", {"id": "int", "name": "string"}, ["id"], table_type=kind)
    external = {"using": "hudi", "location": "item"}
    project = new_project(tmp_path, {"tables": [{**declared, "external": external}]})
    models = Models.of(spark, project)
    settings = yaml.safe_load((project.root / "dbt_project.yml").read_text(encoding="utf-8"))
    settings["packages-install-path"] = "packages"
    (project.root / "dbt_project.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    place = {**os.environ, "DBT_PACKAGES_PATH": str(project.root / "packages")}
    subprocess.run([sys.executable, REPOSITORY / "dev" / "dbt_packages.py"], env=place, check=True)

    project.deliver("shop.item", 0, [pg("c", 10, id=1, name="a"), pg("c", 11, id=2, name="b")])
    models.land("item")
    table = project.silver(spark, "item").table.relation
    before = project.rows(spark, "item")
    spark.sql(f"drop table {table}")
    models.run_operation("stage_external_sources", "select: shop.item")
    assert project.rows(spark, "item") == before == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    told = {row["key"]: row["value"] for row in spark.sql(f"show tblproperties {table}").collect()}
    assert (told["primaryKey"], told["type"]) == ("id", kind)

    # What lands afterwards is read by the same entry.
    project.deliver("shop.item", 2, [pg("u", 12, id=2, name="c")])
    models.land("item")
    assert [row["name"] for row in project.rows(spark, "item")] == ["a", "c"]
