"""What dbt's documentation site shows of a Hudi table: the columns of its model, and no settings."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from conftest import MakeProject, table_of
from dbt.cli.main import dbtRunner
from lake import Server
from modeling import NUMBERS, MakeModels, hudi_models
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def make_models(spark: SparkSession, make_project: MakeProject, server: Server | None) -> MakeModels:
    """Models that are Hudi tables."""
    return hudi_models(spark, make_project, server)


def test_the_site_shows_the_columns_of_a_model_and_no_settings(make_models: MakeModels, tmp_path: Path) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    models.project.declare({"tables": [table_of("orders", {"id": "int"}, ["id"])]})
    reach = [{"source": "shop.orders", "by": {"id": "id"}}]
    models.write("plain", NUMBERS.format("named_struct('_hoodie_record_key', 'mine')", 3), meta={"owner": "sales"})
    models.write("followed", NUMBERS.format("'a'", 3), meta={"affected_by": reach, "owner": "sales"})
    models.write("part", NUMBERS.format("'a'", 3) + "{% if is_incremental() %} where id > 1{% endif %}")
    models.write("seen", "select * from {{ ref('plain') }}", materialized="view")
    models.dbt("build", "--select", "plain", "followed", "part")
    before = models.project.root / "target" / "manifest.json"
    shutil.copy(before, tmp_path)
    models.run("seen")

    manifest, catalog = models.documented()
    columns = {name: list(node["columns"]) for name, node in catalog["nodes"].items()}
    assert columns["model.tested.plain"] == columns["model.tested.followed"] == ["id", "value"]
    indices = [column["index"] for column in catalog["nodes"]["model.tested.plain"]["columns"].values()]
    assert indices == [0, 1]
    # A view that has Hudi's columns shows the others.
    assert columns["model.tested.seen"] == ["id", "value"]

    followed = manifest["nodes"]["model.tested.followed"]
    assert followed["meta"] == {"owner": "sales"}
    assert followed["config"]["meta"] == {"affected_by": reach, "owner": "sales"}
    assert followed["description"] == ""
    assert manifest["nodes"]["model.tested.part"]["description"].startswith("*This model asks is_incremental(): a run")
    orders = manifest["sources"]["source.tested.shop.orders"]
    assert orders["meta"] == {}
    assert orders["config"]["meta"]["ingest"]["key"] == ["id"]

    # The manifest that the site has, and one of a build, are the same to a slim build.
    here, root = Path.cwd(), str(models.project.root)
    for state in (models.project.root / "target", tmp_path):
        chosen = ("ls", "--quiet", "--select", "state:modified", "--resource-type", "model", "--state", str(state))
        where = ("--project-dir", root, "--profiles-dir", root, "--target-path", str(tmp_path / "target"))
        listed = dbtRunner().invoke([*chosen, *where, "--log-path", root])
        assert listed.success, listed.exception
        assert listed.result == []
    os.chdir(here)
