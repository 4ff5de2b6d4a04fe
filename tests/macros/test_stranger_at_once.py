"""The stranger's project on a `lake serve`: dbt or the server is killed at any moment, and two runs work at a time.

The next run leaves every table as if there had been one run.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
from conftest import REPOSITORY, MakeProject
from continuously import wait_until
from killing import PHASES, release_catalog
from lake import Server, serving
from modeling import Outcome
from pyspark.sql import SparkSession
from stranger import Stranger, stranger_of

from macros import test_killed_runs as killed_runs
from macros import test_stranger as strangers
from macros import test_two_runs as two_runs

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]
# Two runs at a time: seeds and views are dbt-spark's, and what is appended is so by each of the two.
TOGETHER = [("run", "--exclude", "config.materialized:view", "appended"), ("snapshot",)]


@dataclass
class Running:
    """A dbt that works in a process of its own, with a target of its own."""

    process: subprocess.Popen[str]
    target: Path

    @classmethod
    def of(cls, stranger: Stranger, number: int, *words: str) -> Running:
        """Starts a command."""
        root = stranger.models.project.root
        target = root / f"target{number}"
        rooms = ("--project-dir", root, "--profiles-dir", root, "--target-path", target, "--log-path", target)
        command = ["dbt", "--quiet", *words, *stranger.models.target, *map(str, rooms)]
        for name in ("dbt.log", "run_results.json"):
            (target / name).unlink(missing_ok=True)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=REPOSITORY)
        return cls(process, target)

    def statements(self) -> int:
        """How many statements it has begun."""
        log = self.target / "dbt.log"
        return log.read_text(encoding="utf-8").count("On model.") if log.exists() else 0

    def ended(self) -> dict[str, Outcome]:
        """What it did, by node."""
        told, _ = self.process.communicate()
        results = self.target / "run_results.json"
        assert results.exists(), told
        found = json.loads(results.read_text(encoding="utf-8"))["results"]
        nodes = [each for each in found if not each["unique_id"].startswith("operation.")]
        # Why a batch has failed is in the log alone.
        log = (self.target / "dbt.log").read_text(encoding="utf-8")
        return {
            each["unique_id"].split(".")[2]: Outcome(
                each["status"], log if each["batch_results"] else str(each["message"])
            )
            for each in nodes
        }


@dataclass
class Served:
    """The stranger's project, and the server that it is on."""

    stranger: Stranger
    home: Path
    stack: ExitStack

    def kill(self) -> None:
        """dbt is killed in a run, at a statement or in a phase of a write, alone or after its server."""
        draw, schema = self.stranger.draw, self.stranger.models.relation("x").partition(".")[0]
        phase, number, is_server = (
            draw.choice(["statement", *killed_runs.WRITING]),
            draw.randint(1, 60),
            draw.random() < 0.4,
        )
        folder = self.home / "warehouse" / f"{schema}.db"

        def seen() -> set[str]:
            return {new for table in folder.iterdir() for new in PHASES[phase](table)}

        before = set() if phase == "statement" else seen()
        running = Running.of(self.stranger, 1, "build")

        def is_time() -> bool:
            if phase == "statement":
                return running.statements() >= number
            return len(seen() - before) > number // 10

        wait_until(lambda: running.process.poll() is not None or is_time(), f"{phase} {number}")
        if is_server:
            self._kill_server()
        running.process.kill()
        running.process.communicate()
        if is_server:
            self.stranger.models = replace(self.stranger.models, server=serve(self.home, self.stack))

    def two(self) -> None:
        """Two runs at a time: one that finds the other says so; one that goes well has left its tables right."""
        self.stranger.mend()
        words = self.stranger.draw.choice(TOGETHER)
        both = [Running.of(self.stranger, number, *words) for number in (1, 2)]
        for outcomes in [each.ended() for each in both]:
            failed = [each.message for each in outcomes.values() if each.status not in ("success", "skipped")]
            assert all(any(told in message for told in two_runs.OTHER_RUN) for message in failed), failed
            if not failed:
                assert self.stranger.require(outcomes, words[1:])

    def _kill_server(self) -> None:
        server = self.stranger.models.server
        assert server is not None
        process = psutil.Process(server.process)
        for each in [*process.children(recursive=True), process]:
            each.kill()
        process.wait()
        release_catalog(self.home)


def serve(home: Path, stack: ExitStack) -> Server:
    """A server, which dbt's target `thrift` leads to."""
    server = stack.enter_context(serving(home))
    os.environ["LAKE_THRIFT_PORT"] = str(server.port)
    return server


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """The servers of a test, which end with it."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as servers:
        patch.setenv("LAKE_THRIFT_PORT", "")
        yield servers


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 8))])
def test_kills_and_two_runs_at_a_time_are_made_good(
    seed: int, spark: SparkSession, make_project: MakeProject, tmp_path: Path, stack: ExitStack
) -> None:
    draw, home = random.Random(seed), tmp_path / "served"  # noqa: S311
    served = Served(stranger_of(draw, spark, make_project, serve(home, stack)), home, stack)
    for _ in range(4):
        strangers.some_steps(draw, served.stranger)
        draw.choice([served.kill, served.two])()
        while not served.stranger.run("build"):
            served.stranger.mend()
