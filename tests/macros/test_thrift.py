"""The same over Thrift: dbt at work on a `lake serve`, as the other tests of macros have it in the embedded session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import MakeProject
from lake import Lake, Server, serving
from modeling import MakeModels, Models
from pyspark.sql import SparkSession

from macros import test_docs as docs
from macros import test_errors as errors
from macros import test_habits as habits
from macros import test_increments as increments
from macros import test_materializations as materializations
from macros import test_slim as slim
from macros import test_snapshots as snapshots

pytestmark = [pytest.mark.spark, pytest.mark.slow]
make_models = materializations.make_models
make_shop = increments.make_shop
repository = slim.repository
make_incremental = habits.make_models


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server, which dbt's target `thrift` leads to."""
    with serving(tmp_path_factory.mktemp("served")) as started, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKE_THRIFT_PORT", str(started.port))
        yield started


@pytest.mark.long
@pytest.mark.parametrize("materialized", ["table", "incremental"])
def test_a_table_is_what_the_model_says_after_each_run(materialized: str, make_models: MakeModels) -> None:
    materializations.test_a_table_is_what_the_model_says_after_each_run(materialized, "cow", make_models)


@pytest.mark.long
def test_a_failed_rebuild_leaves_the_rows_as_they_were(make_models: MakeModels) -> None:
    materializations.test_a_failed_rebuild_leaves_the_rows_as_they_were(make_models)


@pytest.mark.long
def test_a_view_becomes_a_table_and_a_table_of_another_format_too(make_models: MakeModels) -> None:
    materializations.test_a_view_becomes_a_table_and_a_table_of_another_format_too(make_models)


@pytest.mark.long
def test_versions_begin_and_end_with_each_run(spark: SparkSession, make_project: MakeProject, server: Server) -> None:
    snapshots.test_versions_begin_and_end_with_each_run("check", spark, make_project, server)


def test_an_increment_follows_the_commits_of_its_sources(make_shop: increments.MakeShop) -> None:
    shop = make_shop(table_type="mor")
    shop.run()
    assert shop.models.told("fct_orders") == ["nothing upstream has changed"]
    shop.change(("orders", "u", {"id": 1, "customer": 4, "amount": 100, "at": 99}))
    shop.run()
    assert shop.models.told("fct_orders") == ["1 rows differ"]
    assert shop.models.told("customer_totals") == ["2 rows differ"]


def test_rows_that_differ_are_counted(repository: slim.Repository) -> None:
    slim.test_rows_that_differ_are_counted(repository)


def test_tables_that_are_read_by_their_names_are_followed(make_incremental: MakeModels) -> None:
    habits.test_tables_that_are_read_by_their_names_are_followed(make_incremental)


def test_what_is_left_to_chance_is_computed_in_each_run(make_incremental: MakeModels) -> None:
    habits.test_what_is_left_to_chance_is_computed_in_each_run(make_incremental)


def test_a_commit_between_is_not_overlooked(make_incremental: MakeModels) -> None:
    habits.test_a_commit_between_is_not_overlooked(make_incremental)


def test_a_model_can_be_proven(make_incremental: MakeModels) -> None:
    habits.test_a_model_can_be_proven(make_incremental)


def test_errors_of_models_are_told_in_a_few_lines(make_models: MakeModels) -> None:
    errors.test_errors_of_models_are_told_in_a_few_lines(make_models)


def test_the_site_shows_the_columns_of_a_model_and_no_settings(make_models: MakeModels, tmp_path: Path) -> None:
    docs.test_the_site_shows_the_columns_of_a_model_and_no_settings(make_models, tmp_path)


def test_the_exit_code_of_a_run_is_that_of_its_nodes(
    spark: SparkSession, make_project: MakeProject, server: Server
) -> None:
    models = Models.of(spark, make_project(), server, materialized="table")
    models.write("well", "select 1 as id")
    models.write("broken", "select raise_error('broken') as id")
    lake = Lake({"LAKE_THRIFT_PORT": str(server.port)})
    root = str(models.project.root)

    def exit_code(name: str) -> int:
        where = ("--project-dir", root, "--profiles-dir", root, "--target-path", f"{root}/target", "--log-path", root)
        return lake.command("dbt", "run", "--select", name, *models.target, *where).returncode

    assert (exit_code("well"), exit_code("broken")) == (0, 1)
