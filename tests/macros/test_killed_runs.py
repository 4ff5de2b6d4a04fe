"""Runs of dbt that are killed in the middle: readers have the old rows or the new ones, and the next run is right.

A model's watermark, what it was built from, stands in the commit of its rows: there is no moment between the two.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import new_project
from killing import PHASES, Child, child_of, wait_until_new
from modeling import Models
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROWS = 2000
OPTIONS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
# Runs dbt with the words that it is told, so that Java is started once a kill.
RUNS_DBT = """
import json
import sys
from pathlib import Path
from dbt.cli.main import dbtRunner
from ingest.config.project import Project
from ingest.spark.session import open_session
open_session(Project.load(Path(sys.argv[1])))
print("ready", flush=True)
for line in sys.stdin:
    done = dbtRunner().invoke(["--quiet", "--log-level", "none", "--log-level-file", "debug", *json.loads(line)])
    print("done" if done.success else f"failed {done.exception}", flush=True)
"""
WRITING = ("requested", "inflight", "files written, not committed", "committed, not registered")
# A kill takes a minute: these are slow tests, the others long ones.
SLOW = {
    ("incremental", "files written, not committed"),
    ("incremental", "committed, not registered"),
    ("table", "files written, not committed"),
}


def marks_of(run: str, phase: str) -> list[pytest.MarkDecorator]:
    """The marks of a kill in a phase of a run."""
    return [pytest.mark.slow if (run, phase) in SLOW else pytest.mark.long]


class Killed:
    """A model in a lake of its own, whose runs can be killed."""

    def __init__(self, spark: SparkSession, where: Path) -> None:
        self.models = Models.of(spark, new_project(where), file_format="hudi", unique_key="id", options=OPTIONS)
        self._home = where / "lake"
        self._value = 0

    def folder(self, name: str = "model") -> Path:
        """The folder of a table."""
        return self._home / "warehouse" / f"lakehouse_{self.models.project.schema}.db" / name

    def found(self) -> set[int]:
        """The values that a reader finds in the model's rows, all of which are there."""
        rows = self.models.spark.read.format("hudi").load(str(self.folder())).select("id", "value").collect()
        assert sorted(row["id"] for row in rows) == list(range(ROWS))
        return {row["value"] for row in rows}

    def run(self, child: Child, command: str = "run") -> None:
        """Has a child run the model, or another command, and does not wait."""
        root, target = str(self.models.project.root), str(self.models.project.root / "target")
        rooms = ("--project-dir", root, "--profiles-dir", root, "--target-path", target, "--log-path", target)
        child.tell(json.dumps([command, *rooms]))

    def change(self, materialized: str, more: str = "") -> None:
        """Writes the model anew, with another value in every row."""
        self._value += 1
        sql = f"select cast(id as int) as id, {self._value} as value{more} from range({ROWS})"
        self.models.write("model", sql, materialized=materialized)

    def require_right(self, child: Child) -> list[str]:
        """A run leaves the model's rows and no other table, and needs no more than itself; what it told."""
        self.run(child)
        child.answer()
        told = self.models.told("model")
        assert self.found() == {self._value}
        return told

    def kill(
        self,
        materialized: str,
        phase: str,
        *,
        more: str = "",
        look: Callable[[], set[str]] | None = None,
        at: str = "model",
    ) -> set[int]:
        """Builds the model, kills the next run in a phase of a table; the values that readers find then."""
        with child_of(RUNS_DBT, self.models.project.root, self._home) as child:
            self.change(materialized)
            self.require_right(child)
            self.change(materialized, more)

            def seen(schema: Path) -> set[str]:
                return look() if look else {new for table in schema.glob(at) for new in PHASES[phase](table)}

            assert wait_until_new(seen, self.folder().parent, child, lambda: self.run(child), phase)
        return self.found() if self.folder().exists() else set()

    def require_old_or_new(self, found: set[int], *phases: str) -> None:
        """Whole rows; and the next run knows by the commit whether there is something left to do."""
        assert found in ({self._value - 1}, {self._value}), phases
        with child_of(RUNS_DBT, self.models.project.root, self._home) as child:
            told = self.require_right(child)
            if "incremental" in phases:
                assert (told == ["nothing upstream has changed"]) == (found == {self._value})


@pytest.mark.parametrize(
    ("materialized", "phase"),
    [
        pytest.param(materialized, phase, marks=marks_of(materialized, phase))
        for materialized in ("incremental", "table")
        for phase in WRITING
    ],
)
def test_a_killed_write_leaves_old_or_new_rows(
    materialized: str, phase: str, spark: SparkSession, tmp_path: Path
) -> None:
    killed = Killed(spark, tmp_path)
    found = killed.kill(materialized, phase)
    if phase in ("requested", "inflight"):
        assert found == {killed._value - 1}
    killed.require_old_or_new(found, materialized, phase)


@pytest.mark.parametrize("phase", [pytest.param(phase, marks=marks_of("beside", phase)) for phase in WRITING])
def test_a_rebuild_beside_that_is_killed_leaves_the_old_table(phase: str, spark: SparkSession, tmp_path: Path) -> None:
    killed = Killed(spark, tmp_path)
    found = killed.kill("table", phase, more=", 1 as more", at="model__lake_built__*")
    assert found == {killed._value - 1}
    killed.require_old_or_new(found, "table", phase)


@pytest.mark.slow
def test_a_rebuild_that_is_killed_between_its_renames_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    killed = Killed(spark, tmp_path)
    log = tmp_path / killed.models.project.schema / "target" / "dbt.log"

    def second_rename() -> set[str]:
        return {
            line
            for line in log.read_text(encoding="utf-8").splitlines()
            if "model__lake_built__" in line and " rename to " in line
        }

    found = killed.kill("table", "second rename", more=", 1 as more", look=second_rename)
    # The name is free; what stood under it is beside.
    assert found == set()
    assert list(killed.folder().parent.glob("model__lake_before__*"))
    with child_of(RUNS_DBT, killed.models.project.root, tmp_path / "lake") as child:
        killed.require_right(child)


@pytest.mark.parametrize("phase", [pytest.param(phase, marks=marks_of("incremental", phase)) for phase in WRITING])
def test_a_first_snapshot_that_is_killed_is_taken_again(phase: str, spark: SparkSession, tmp_path: Path) -> None:
    killed = Killed(spark, tmp_path)
    models = killed.models
    config = {"unique_key": "id", "strategy": "check", "check_cols": "all", "file_format": "hudi", "options": OPTIONS,
              "target_schema": killed.folder().parent.stem}  # fmt: skip
    told = ", ".join(f"{name}={value!r}" for name, value in config.items())
    text = f"{{% snapshot kept %}}{{{{ config({told}) }}}} select id, id as value from range({ROWS}){{% endsnapshot %}}"
    models.write("kept", text, below="snapshots")

    def seen(schema: Path) -> set[str]:
        return {new for table in schema.glob("kept*") for new in PHASES[phase](table)}

    with child_of(RUNS_DBT, models.project.root, tmp_path / "lake") as child:
        assert wait_until_new(seen, killed.folder().parent, child, lambda: killed.run(child, "snapshot"), phase)
    with child_of(RUNS_DBT, models.project.root, tmp_path / "lake") as child:
        for _ in range(2):
            killed.run(child, "snapshot")
            child.answer()
    assert models.spark.read.format("hudi").load(str(killed.folder("kept"))).count() == ROWS


@pytest.mark.slow
def test_a_first_table_of_files_that_is_killed_is_built_again(spark: SparkSession, tmp_path: Path) -> None:
    killed = Killed(spark, tmp_path)
    files: dict[str, Any] = {"materialized": "table", "file_format": "parquet", "options": {}}
    killed.models.write("model", "select id from range(30000000)", **files)

    def seen(schema: Path) -> set[str]:
        return {str(path) for path in schema.glob("model*/_temporary")}

    with child_of(RUNS_DBT, killed.models.project.root, tmp_path / "lake") as child:
        assert wait_until_new(seen, killed.folder().parent, child, lambda: killed.run(child), "writing")
    killed.models.write("model", f"select id from range({ROWS})", **files)
    with child_of(RUNS_DBT, killed.models.project.root, tmp_path / "lake") as child:
        killed.run(child)
        child.answer()
    assert spark.read.parquet(str(killed.folder())).count() == ROWS
