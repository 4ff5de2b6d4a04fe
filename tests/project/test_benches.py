"""`make bench` lists every bench, and runs the one that is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conftest import REPOSITORY

from bench.__main__ import USUAL_TIME, compares


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments], cwd=REPOSITORY, check=False, capture_output=True, text=True
    )


def test_every_bench_is_listed_with_what_it_compares_and_its_time() -> None:
    runnable = {
        path.stem for path in Path(REPOSITORY, "bench").glob("[a-z]*.py") if "\ndef main(" in path.read_text("utf-8")
    }
    assert runnable == set(USUAL_TIME)
    listed = bench()
    assert listed.returncode == 0
    told = " ".join(listed.stdout.split())
    for name, usual in USUAL_TIME.items():
        assert f"{name} {compares(name)[:30]}" in told
        assert usual.split(",")[0] in told


def test_a_bench_is_given_its_own_options() -> None:
    told = bench("snapshot", "--help")
    assert told.returncode == 0, told.stderr
    assert "usage: snapshot.py" in told.stdout
    assert "--rounds" in told.stdout


def test_a_bench_that_is_none_is_refused() -> None:
    told = bench("speed")
    assert told.returncode == 2
    assert "bench 'speed'" in told.stderr
    assert ", ".join(USUAL_TIME) in told.stderr
