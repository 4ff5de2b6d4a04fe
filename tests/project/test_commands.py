"""What `make` calls starts as its users start it: from the project's folder, with nothing set for Python."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY


@pytest.mark.parametrize("target", ["demo", "up", "docs", "slim", "nightly", "packages", "bench"])
def test_what_make_calls_finds_its_modules(target: str) -> None:
    # Not what an outer `make test` tells the makes within it (it would have them name their folders), nor Python's.
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))}
    # `--old-file`: the targets that set the machine up are not looked at.
    told = subprocess.run(
        ["make", "--dry-run", "--old-file=setup", "--old-file=.venv/.ready", target],
        cwd=REPOSITORY, env=unset, check=True, capture_output=True, text=True,
    )  # fmt: skip
    python, *arguments = shlex.split(told.stdout.splitlines()[-1])
    assert python == "python"
    started = subprocess.run(
        [sys.executable, *arguments, "--help"], cwd=REPOSITORY, env=unset,
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert started.returncode == 0, started.stderr


def workflow(name: str) -> dict[str, Any]:
    """A workflow of GitHub's, as its file has it."""
    told: dict[str, Any] = yaml.safe_load((REPOSITORY / ".github/workflows" / f"{name}.yml").read_text("utf-8"))
    return told


def test_no_code_of_a_fork_runs_beside_the_lake() -> None:
    """A fork's token may not comment either: each of its pull requests failed there."""
    for job in workflow("pr")["jobs"].values():
        assert job["if"] == "github.event.pull_request.head.repo.full_name == github.repository"
    assert "LAKE_RUNNER" not in str(workflow("ci"))


@pytest.mark.parametrize("name", ["ci", "pr", "nightly"])
def test_a_secret_is_in_the_step_that_needs_it_alone(name: str) -> None:
    for job in workflow(name)["jobs"].values():
        assert "secrets." not in str({key: told for key, told in job.items() if key != "steps"})


@pytest.mark.parametrize("name", ["ci", "pr", "nightly"])
def test_an_action_is_named_by_its_commit(name: str) -> None:
    """A tag can be moved to other code. What is checked out keeps no token."""
    steps = [step for job in workflow(name)["jobs"].values() for step in job["steps"]]
    for action in (step["uses"] for step in steps if "uses" in step):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts and all(step["with"]["persist-credentials"] is False for step in checkouts)
