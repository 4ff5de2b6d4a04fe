"""Ctrl-C ends a command in one line, whatever Java does for it at that moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import MakeProject, new_project, pg, table_of
from continuously import wait_until
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from ingest.cli import quarantine
from ingest.cli.app import app
from ingest.landing.table import Landed

ENDLESS = "select count(*) from range(100000000000) where id % 7 = sqrt(id)"


@contextmanager
def interrupted_at_work(spark: SparkSession) -> Iterator[None]:
    """This process gets SIGINT as soon as Spark runs a job, or a minute has passed."""
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getActiveJobsIds())
    done = threading.Event()

    def interrupt() -> None:
        while not done.wait(0.1):
            if set(tracker.getActiveJobsIds()) - before:
                os.kill(os.getpid(), signal.SIGINT)
                return

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        spark.sparkContext.cancelAllJobs()


@pytest.mark.spark
def test_a_query_that_is_interrupted_ends_in_one_line_and_the_session_goes_on(
    make_project: MakeProject, spark: SparkSession
) -> None:
    here = ("--project-dir", str(make_project({"tables": [table_of("note", {"id": "int"}, ["id"])]}).root))
    with interrupted_at_work(spark):
        result = CliRunner().invoke(app, ["sql", ENDLESS, *here])
    assert (result.exit_code, result.output) == (130, "interrupted; run it again\n")
    assert spark.sql("select 1 + 1").first() == (2,)


@pytest.mark.spark
def test_an_interrupted_replay_goes_on_with_no_other_table(
    make_project: MakeProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for the failure of the first table."""
    project = make_project({"tables": [table_of(name, {"id": "int"}, ["id"]) for name in ("note", "other")]})
    replayed = []

    def replay(spark: SparkSession, table: object) -> Landed:
        replayed.append(table)
        spark.sql(ENDLESS).collect()
        raise AssertionError("it went on")

    monkeypatch.setattr(quarantine, "replay", replay)
    with interrupted_at_work(spark):
        result = CliRunner().invoke(app, ["quarantine", "replay", "shop", "--project-dir", str(project.root)])
    assert result.exit_code == 130
    assert result.output == "note: replaying\ninterrupted; run it again\n"
    assert len(replayed) == 1


@pytest.mark.slow
def test_ctrl_c_ends_each_command_whenever_it_comes(tmp_path: Path) -> None:
    """Ctrl-C signals the whole group of processes: Java's too."""
    project = new_project(tmp_path, {"tables": [table_of("note", {"id": "int"}, ["id"])]})
    project.deliver("shop.note", 0, [pg("c", number, id=number) for number in range(1, 1000)])
    lock = tmp_path / "lake" / "metastore" / "db.lck"

    def lake(*words: str) -> subprocess.Popen[str]:
        lock.unlink(missing_ok=True)
        environment = {**os.environ, "LAKE_HOME": str(tmp_path / "lake"), "LAKE_MEMORY": "1g"}
        command = [sys.executable, "-m", "ingest", *words, "--project-dir", str(project.root)]
        return subprocess.Popen(
            command, env=environment, cwd=tmp_path, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def interrupted(*words: str) -> None:
        with lake(*words) as running:
            try:
                # Java opens the catalog for a call that the command waits for.
                wait_until(lambda: lock.exists() or running.poll() is not None, "the catalog is opened")
                os.killpg(running.pid, signal.SIGINT)
                told = running.communicate(timeout=120)[1]
            finally:
                running.kill()
        assert running.returncode == 130, told
        assert told.rstrip().endswith("interrupted; run it again")
        assert "Traceback" not in told

    interrupted("ingest", "shop")
    with lake("ingest", "shop") as landing:
        assert "Traceback" not in landing.communicate(timeout=120)[1]
    assert landing.returncode == 0
    interrupted("erase", "shop", "--table", "note", "--key", "[1]")
    interrupted("purge", "shop", "--tables", "note")
    interrupted("position", "shop", "--tables", "note", "--to", "earliest")
