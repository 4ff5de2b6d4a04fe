"""dbt's snapshots as Hudi tables: versions begin and end, a deleted row's too, run after run."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import MakeProject
from lake import Server
from modeling import Models
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
OPTIONS = {"type": "cow", "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
STRATEGIES: dict[str, dict[str, Any]] = {
    "check": {"strategy": "check", "check_cols": ["value"]},
    "timestamp": {"strategy": "timestamp", "updated_at": "at"},
}
Version = tuple[int, str, bool]


def snapshot(models: Models, **config: Any) -> None:
    """Writes a snapshot of the model `rows`."""
    told = {
        "file_format": "hudi",
        "options": OPTIONS,
        "unique_key": "id",
        "target_schema": f"lakehouse_{models.project.schema}",
        **config,
    }
    settings = ", ".join(f"{name}={value!r}" for name, value in told.items())
    text = "{% snapshot versions %}{{ config(" + settings + ") }} select * from {{ ref('rows') }}{% endsnapshot %}"
    models.write("versions", text, below="snapshots")


def taken(models: Models, rows: str) -> list[Version]:
    """The versions after a run with these rows: id, value, whether it holds still."""
    models.write(
        "rows", f"select id, value, timestamp(at) as at from values {rows} as rows (id, value, at)", materialized="view"
    )
    models.run("rows")
    outcome = models.dbt("snapshot")["versions"]
    assert outcome.status == "success", outcome.message
    found = models.rows("versions", "id", "value", "dbt_valid_to")
    return [(row["id"], row["value"], row["dbt_valid_to"] is None) for row in found]


@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_versions_begin_and_end_with_each_run(
    strategy: str, spark: SparkSession, make_project: MakeProject, server: Server | None
) -> None:
    models = Models.of(spark, make_project(), server)
    snapshot(models, **STRATEGIES[strategy], hard_deletes="invalidate")
    first = "(1, 'a', '2026-01-01'), (2, 'a', '2026-01-01'), (3, 'a', '2026-01-01')"
    assert taken(models, first) == [(1, "a", True), (2, "a", True), (3, "a", True)]
    second = "(1, 'b', '2026-01-02'), (2, 'a', '2026-01-01'), (4, 'a', '2026-01-02')"
    after_second = [(1, "a", False), (1, "b", True), (2, "a", True), (3, "a", False), (4, "a", True)]
    assert taken(models, second) == after_second
    commits = models.commits("versions")
    assert taken(models, second) == after_second
    assert models.commits("versions") == commits
    third = "(1, 'c', '2026-01-03'), (2, 'a', '2026-01-01'), (3, 'b', '2026-01-03'), (4, 'a', '2026-01-02')"
    assert taken(models, third) == [
        *((1, "a", False), (1, "b", False), (1, "c", True)),
        *((2, "a", True), (3, "a", False), (3, "b", True), (4, "a", True)),
    ]
    assert len(models.commits("versions")) == len(commits) + 1


def test_a_deleted_row_can_be_a_version_of_its_own(spark: SparkSession, make_project: MakeProject) -> None:
    models = Models.of(spark, make_project())
    snapshot(models, **STRATEGIES["check"], hard_deletes="new_record")
    taken(models, "(1, 'a', '2026-01-01'), (2, 'a', '2026-01-01')")
    assert taken(models, "(1, 'a', '2026-01-01')") == [(1, "a", True), (2, "a", True), (2, "a", False)]
    rows = models.rows("versions", "id", "dbt_is_deleted", "dbt_valid_to")
    assert [(row["id"], row["dbt_is_deleted"]) for row in rows if row["dbt_valid_to"] is None] == [
        (1, "False"),
        (2, "True"),
    ]
    # It comes back.
    assert taken(models, "(1, 'a', '2026-01-01'), (2, 'b', '2026-01-03')")[-1] == (2, "b", True)
