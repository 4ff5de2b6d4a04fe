"""Tests of data that compare a table with itself as it was: each passes on the usual, and fails on what is not."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from conftest import MakeProject
from modeling import Models
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
OPTIONS = {"type": "cow", "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
# So many rows on each day of January; the last day has only begun.
DAYS = """
select 100 * day + number as id, timestamp(date_add('2026-01-01', int(day))) + interval '1' hour as at
from range(31) as days(day) cross join range(1, 99) as numbers(number) where number <= {}
"""
USUAL = "case day when 30 then 1 else 20 + day % 3 end"
FRESHNESS = {"other": "ref('source_events')", "other_column": "at", "within_hours": 24}
DECLARED = {
    "version": 2,
    "models": [
        {
            "name": "events",
            "data_tests": [{"has_rows_near_before": {"name": "rows", "arguments": {"at_most_prcnt": 10}}}],
            "columns": [
                {
                    "name": "at",
                    "data_tests": [
                        {"has_usual_volume": {"name": "volume", "arguments": {"days": 28}}},
                        {"is_as_fresh_as": {"name": "freshness", "arguments": FRESHNESS}},
                    ],
                }
            ],
        }
    ],
}  # fmt: skip


@pytest.fixture
def models(spark: SparkSession, make_project: MakeProject) -> Models:
    """A table of events, and what it might have been built from."""
    models = Models.of(spark, make_project(), file_format="hudi", unique_key="id", options=OPTIONS)
    models.project.write_models(yaml.safe_dump(DECLARED), "_models.yml")
    return models


def failed(models: Models, rows: str = USUAL, *, source: str = "select timestamp('2026-01-31 01:00:00') as at") -> Any:
    """The tests that fail once the table has so many rows on each day."""
    models.write("events", DAYS.format(rows), materialized="table")
    models.write("source_events", source, materialized="view")
    outcomes = models.dbt("build")
    assert outcomes["events"].status == "success", outcomes["events"].message
    return {name for name in ("rows", "volume", "freshness") if outcomes[name].status == "fail"}


@pytest.mark.slow
def test_each_fails_on_what_is_unusual_alone(models: Models) -> None:
    assert failed(models) == set(), "there is nothing to compare with yet"
    # A fifth of the rows is gone, evenly: each day is like the others.
    assert failed(models, f"cast(0.8 * ({USUAL}) as int)") == {"rows"}
    assert failed(models, f"cast(0.8 * ({USUAL}) as int)") == set(), "it is compared with the last commit"
    assert failed(models) == {"rows"}
    # The last whole day has too many rows, or none.
    for number in (45, 0):
        assert failed(models, f"if(day = 29, {number}, {USUAL})") == {"volume"}
    # The source has an event of the next day, and of the day after.
    assert failed(models, source="select timestamp('2026-02-01 01:00:00') as at") == set()
    assert failed(models, source="select timestamp('2026-02-01 01:00:01') as at") == {"freshness"}


@pytest.mark.slow
def test_few_days_and_empty_tables_have_no_usual_volume(models: Models) -> None:
    assert failed(models, "0", source="select cast(null as timestamp) as at") == set()
    assert failed(models, f"if(day < 9, 0, if(day = 29, 1, {USUAL}))") == {"rows"}
    assert failed(models, "0") == {"rows", "freshness"}
