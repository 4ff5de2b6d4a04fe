"""From change events to tested marts: generate, land, `dbt build`, land the changes, `dbt build` again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest.datasets import generate
from ingest.declaration import Table, load_source
from ingest.project import Project
from ingest.runner import land

pytestmark = pytest.mark.spark
REPOSITORY = Path(__file__).resolve().parents[2]
SCALE = 0.01
# An exposure is part of a build, and there is nothing to do for it.
WELL = {"success", "pass", "no-op"}
FACTS = {"lakehouse_sales.fct_sales": "sale_id", "lakehouse_sales.fct_listings": "listing_id"}


@dataclass
class Pipeline:
    """The repository's own project on a lake of this test's."""

    spark: SparkSession
    home: Path
    target: Path
    ends: date

    def generate(self, phase: Any) -> None:
        """Writes the snapshot or the changes."""
        generate("tickit", self.home, scale=SCALE, phase=phase, ends=self.ends)

    def tables(self) -> tuple[Table, ...]:
        """The declared tables."""
        return load_source(Project.load(REPOSITORY), "tickit").tables

    def land(self) -> None:
        """Lands what is new; every table must be well."""
        results = land(self.spark, self.tables())
        assert not {result.table.name: str(result.error) for result in results if result.error}

    def dbt(self, *arguments: str) -> dict[str, str]:
        """Status of each node of a dbt command, by name."""
        where = ["--project-dir", str(REPOSITORY), "--profiles-dir", str(REPOSITORY)]
        rooms = ["--target-path", str(self.target), "--log-path", str(self.target)]
        result = dbtRunner().invoke(["--quiet", *arguments, *where, *rooms])
        assert result.exception is None, result.exception
        done: Any = result.result
        found = {node.node.name: str(node.status) for node in done.results}
        assert result.success == (not set(found.values()) & {"error", "fail", "skipped"})
        return found

    def rows(self, relation: str) -> set[tuple[Any, ...]]:
        """All rows of a table, without Hudi's own columns."""
        table = self.spark.table(relation)
        return {tuple(row) for row in table.select(*[f"`{c}`" for c in table.columns if c[:7] != "_hoodie"]).collect()}

    def commits(self, relation: str) -> int:
        """How many commits a Hudi table has."""
        return self.spark.sql(f"call show_commits(table => '{relation}', limit => 1000)").count()


@pytest.fixture(scope="module")
def pipeline(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """The lake after the snapshot: landed, built, tested."""
    before = Path.cwd()
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date()
    made = Pipeline(spark, Path(os.environ["LAKE_HOME"]), tmp_path_factory.mktemp("target"), yesterday)
    made.generate("snapshot")
    made.land()
    built = made.dbt("build")
    assert set(built.values()) <= WELL
    assert sum(status == "pass" for status in built.values()) > 100
    yield made
    os.chdir(before)


def test_facts_have_each_sale_and_listing_once(pipeline: Pipeline) -> None:
    counted = {name: pipeline.spark.table(name).count() for name in FACTS}
    oracle = {
        table: pipeline.spark.read.parquet(str(pipeline.home / f"oracle/snapshot/ecomm.{table}.parquet"))
        for table in ("sale", "listing")
    }
    assert counted == {
        "lakehouse_sales.fct_sales": oracle["sale"].count(),
        "lakehouse_sales.fct_listings": oracle["listing"].count(),
    }


def test_an_increment_equals_the_full_refresh_after_changes(pipeline: Pipeline) -> None:
    before = {name: pipeline.rows(name) for name in FACTS}
    pipeline.generate("changes")
    pipeline.land()
    built = pipeline.dbt("build")
    assert set(built.values()) <= WELL
    incremental = {name: pipeline.rows(name) for name in FACTS}
    assert all(incremental[name] != before[name] for name in FACTS)
    commits = {name: pipeline.commits(name) for name in FACTS}
    assert set(commits.values()) == {2}, "an increment is one commit, and no table was made anew"

    sale = pipeline.spark.read.parquet(str(pipeline.home / "oracle/changes/ecomm.sale.parquet"))
    built_sales = pipeline.spark.table("lakehouse_sales.fct_sales")
    ours = built_sales.select("sale_id", F.col("quantity_sold").cast("int"), "price_paid", "commission")
    theirs = sale.select("salesid", F.col("qtysold").cast("int"), "pricepaid", "commission")
    assert ours.exceptAll(theirs).count() == theirs.exceptAll(ours).count() == 0
    # The worked example: sale 200 of the article.
    example = built_sales.where("sale_id = 200").select("quantity_sold", "price_paid", "commission").collect()
    assert [tuple(map(str, row)) for row in example] == [("3", "600.00", "90.00")]

    pipeline.dbt("run", "--select", "fct_sales", "fct_listings")
    assert {name: pipeline.rows(name) for name in FACTS} == incremental
    pipeline.dbt("run", "--full-refresh", "--select", "fct_sales", "fct_listings")
    assert {name: pipeline.rows(name) for name in FACTS} == incremental


def test_lost_rows_of_a_mart_are_found_by_its_tests_and_come_back(pipeline: Pipeline) -> None:
    whole = pipeline.rows("lakehouse_sales.fct_sales")
    pipeline.spark.sql("delete from lakehouse_sales.fct_sales where sale_id % 7 = 0")
    failed = {name for name, status in pipeline.dbt("test", "--select", "fct_sales").items() if status == "fail"}
    assert "fct_sales_has_the_rows_of_stg_tickit__sales" in failed
    pipeline.dbt("run", "--select", "fct_sales")
    assert pipeline.rows("lakehouse_sales.fct_sales") == whole


def test_sources_are_fresh_and_docs_can_be_made(pipeline: Pipeline) -> None:
    assert set(pipeline.dbt("source", "freshness").values()) == {"pass"}
    where = ["--project-dir", str(REPOSITORY), "--profiles-dir", str(REPOSITORY)]
    rooms = ["--target-path", str(pipeline.target), "--log-path", str(pipeline.target)]
    result = dbtRunner().invoke(["--quiet", "docs", "generate", *where, *rooms])
    assert result.success, result.exception
    assert (pipeline.target / "index.html").stat().st_size > 100_000
    assert (pipeline.target / "catalog.json").is_file()


def test_a_hudi_model_without_a_key_is_refused_when_it_is_compiled(pipeline: Pipeline, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "models").mkdir(parents=True)
    (project / "macros").symlink_to(REPOSITORY / "macros" / "hudi")
    (project / "dbt_project.yml").write_text("name: keyless\nversion: '1.0'\nprofile: lakehouse\n", encoding="utf-8")
    model = "{{ config(materialized='table', file_format='hudi') }} select 1 as id"
    (project / "models" / "no_key.sql").write_text(model, encoding="utf-8")
    rooms = ["--target-path", str(tmp_path / "target"), "--log-path", str(tmp_path / "target")]
    result = dbtRunner().invoke(
        ["--quiet", "run", "--project-dir", str(project), "--profiles-dir", str(REPOSITORY), *rooms]
    )
    assert not result.success
    done: Any = result.result
    (node,) = done.results
    assert "got unique_key = none" in str(node.message).lower()
    assert "expected unique_key = a column or a list of columns" in str(node.message)
