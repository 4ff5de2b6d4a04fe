"""S2 and S3, TICKIT: `make demo` in this process, from change events to tested marts, and what it leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import chosen
from dbt.cli.main import dbtRunner
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from queries import require_queries_answer

from dev.demo import Demonstrated, demonstrate
from examples import system

pytestmark = [pytest.mark.spark, pytest.mark.systems, pytest.mark.timeout(1800)]
REPOSITORY = Path(__file__).resolve().parents[2]
SCALE = 0.01
# An exposure is part of a build, and there is nothing to do for it.
WELL = {"success", "pass", "no-op"}
FACTS = [("lakehouse_sales.fct_sales", "sale"), ("lakehouse_sales.fct_listings", "listing")]


@dataclass
class Pipeline:
    """The repository's own project on a lake of this test's."""

    spark: SparkSession
    home: Path
    target: Path
    done: Demonstrated

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

    def rows(self, relation: str, at: str | None = None) -> set[tuple[Any, ...]]:
        """All rows of a table, or those it had at an instant, without Hudi's own columns."""
        table = self.spark.sql(f"select * from {relation} {f'timestamp as of {at!r}' if at else ''}")
        return {tuple(row) for row in table.select(*[f"`{c}`" for c in table.columns if c[:7] != "_hoodie"]).collect()}

    def commits(self, relation: str) -> list[str]:
        """When each commit of a Hudi table was completed, in order."""
        found = self.spark.sql(f"call show_commits(table => '{relation}', limit => 1000)").collect()
        return sorted(str(row["state_transition_time"]) for row in found)

    def oracle(self, phase: str, table: str, schema: str = "ecomm") -> DataFrame:
        """A table of the database as it was after a phase."""
        return self.spark.read.parquet(str(self.home / f"oracle/{phase}/{schema}.{table}.parquet"))


@pytest.fixture(scope="module")
def pipeline(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """The lake after `make demo`: a snapshot and five days of changes, landed, built and tested, docs generated."""
    before = Path.cwd()
    home = Path(os.environ["LAKE_HOME"])
    done = demonstrate(home, system("tickit"), SCALE)
    yield Pipeline(spark, home, tmp_path_factory.mktemp("target"), done)
    os.chdir(before)


def test_every_step_of_the_demonstration_is_well(pipeline: Pipeline) -> None:
    done = pipeline.done
    assert done.failed == []
    for built in (done.built, done.rebuilt):
        assert set(built.statuses.values()) <= WELL
    assert done.rebuilt.passed > 100
    assert set(done.fresh.statuses.values()) == {"pass"}
    assert (REPOSITORY / "target/index.html").stat().st_size > 100_000
    assert (REPOSITORY / "target/catalog.json").is_file()


def test_what_reads_no_source_is_well_too(pipeline: Pipeline) -> None:
    """The demonstration builds one system's models and tests; this test is of a macro."""
    alone = "assert_hudi_table_options_are_as_expected"
    assert pipeline.dbt("test", "--select", alone)[alone] == "pass"


@pytest.mark.parametrize(("fact", "table"), FACTS)
def test_facts_have_each_sale_and_listing_once(fact: str, table: str, pipeline: Pipeline) -> None:
    snapshot, changes = pipeline.commits(fact)  # a rebuild is one commit, and the table was not made anew
    first, second = pipeline.rows(fact, snapshot), pipeline.rows(fact, changes)
    assert first != second == pipeline.rows(fact)
    found = [pipeline.spark.sql(f"select * from {fact} timestamp as of '{at}'").count() for at in (snapshot, changes)]
    assert found == [pipeline.oracle(phase, table).count() for phase in ("snapshot", "changes")]


def test_every_sale_of_the_mart_is_as_the_database_has_it(pipeline: Pipeline) -> None:
    built = pipeline.spark.table("lakehouse_sales.fct_sales")
    ours = built.select("sale_id", F.col("quantity_sold").cast("int"), "price_paid", "commission")
    sale = pipeline.oracle("changes", "sale")
    theirs = sale.select("salesid", F.col("qtysold").cast("int"), "pricepaid", "commission")
    assert ours.exceptAll(theirs).count() == theirs.exceptAll(ours).count() == 0
    # The worked example: sale 200 of the article.
    example = built.where("sale_id = 200").select("quantity_sold", "price_paid", "commission").collect()
    assert [tuple(map(str, row)) for row in example] == [("3", "600.00", "90.00")]


def test_days_of_sales_are_those_of_the_database(pipeline: Pipeline) -> None:
    columns = ["sale_date", "sale_count", "quantity_sold", "revenue", "commission"]
    built = pipeline.spark.table("lakehouse_sales.fct_daily_sales").groupBy("sale_date")
    ours = built.agg(*(F.sum(column).cast("decimal(20, 2)").alias(column) for column in columns[1:]))
    sale = pipeline.oracle("changes", "sale").groupBy(F.to_date("saletime").alias("sale_date"))
    sums = [F.count("*"), *(F.sum(column) for column in ("qtysold", "pricepaid", "commission"))]
    theirs = sale.agg(
        *(each.cast("decimal(20, 2)").alias(column) for each, column in zip(sums, columns[1:], strict=True))
    )
    assert ours.count() > 300
    assert ours.exceptAll(theirs).count() == theirs.exceptAll(ours).count() == 0
    # One batch, which the first build made and the second replaced.
    assert len(pipeline.commits("lakehouse_sales.fct_daily_sales")) == 2


def test_the_snapshot_has_each_event_as_both_builds_saw_it(pipeline: Pipeline) -> None:
    versions = pipeline.spark.table("lakehouse_snapshots.snap_tickit__events")
    columns = ["event_id", "venue_id", "category_id", "event_name", "starts_at"]

    def events(phase: str) -> set[tuple[Any, ...]]:
        event = pipeline.oracle(phase, "event", "ems")
        return {tuple(row) for row in event.select("eventid", "venueid", "catid", "eventname", "starttime").collect()}

    def held(condition: str) -> set[tuple[Any, ...]]:
        return {tuple(row) for row in versions.where(condition).select(columns).collect()}

    before, after = events("snapshot"), events("changes")
    assert held("dbt_valid_to is null") == after
    assert held("dbt_valid_to is not null") == before - after != set()


@pytest.mark.slow
def test_every_kind_of_query_answers_as_the_table_was(pipeline: Pipeline) -> None:
    require_queries_answer(lambda query: pipeline.spark.sql(query).collect(), pipeline.home, pipeline.target)


@pytest.mark.parametrize("fact", chosen([fact for fact, _ in FACTS], "lakehouse_sales.fct_sales"))
def test_what_the_changes_left_equals_the_full_refresh(fact: str, pipeline: Pipeline) -> None:
    """So many changes rebuild a fact of this size; tests/e2e/test_marts.py plays few, which are increments."""
    left, model = pipeline.rows(fact), fact.partition(".")[2]
    pipeline.dbt("run", "--select", model)
    assert pipeline.rows(fact) == left
    pipeline.dbt("run", "--full-refresh", "--select", model)
    assert pipeline.rows(fact) == left


@pytest.mark.slow
def test_lost_rows_of_a_mart_are_found_by_its_tests_and_come_back(pipeline: Pipeline) -> None:
    whole = pipeline.rows("lakehouse_sales.fct_sales")
    pipeline.spark.sql("delete from lakehouse_sales.fct_sales where sale_id % 7 = 0")
    failed = {name for name, status in pipeline.dbt("test", "--select", "fct_sales").items() if status == "fail"}
    assert "fct_sales_has_the_rows_of_stg_tickit__sales" in failed
    pipeline.dbt("run", "--select", "fct_sales")
    assert pipeline.rows("lakehouse_sales.fct_sales") == whole


def test_a_hudi_model_without_a_key_is_refused_when_it_is_compiled(pipeline: Pipeline, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "models").mkdir(parents=True)
    (project / "macros").symlink_to(REPOSITORY / "macros")
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
