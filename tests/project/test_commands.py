"""What `make` calls starts as its users start it: from the project's folder, with nothing set for Python."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest
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
