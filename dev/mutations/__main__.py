"""`python -m dev.mutations [PATTERN]`: breaks, asks the tests, writes the table."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from dev.mutations import MUTATIONS, Mutation
from dev.mutations.base import ORDER

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENT = REPOSITORY / "docs" / "mutations.md"
AT_A_TIME = 2  # as many as the processes of make test


def _copy(to: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        source = REPOSITORY / name
        if source.is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            # profiles.yml is a link; what it points to stands beside connections.yml.
            shutil.copy2(source, to / name, follow_symlinks=False)


def _noticed_by(mutation: Mutation, tree: Path) -> str:
    """The first test that fails, or ''."""
    file = tree / mutation.file
    text = file.read_text(encoding="utf-8")
    found = text.count(mutation.text)
    if found != 1:
        raise SystemExit(f"mutation '{mutation.name}': its text is {found} times in {mutation.file}, expected once")
    file.write_text(text.replace(mutation.text, mutation.instead), encoding="utf-8")
    return _first_failure(tree, mutation.tests)


def _first_failure(tree: Path, tests: tuple[str, ...]) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not long", "-p", "no:cacheprovider", *tests],
        cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ran.returncode == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) \S*?(test_\w+\.py(?:::.+?)?)(?: - |$)", ran.stdout, re.MULTILINE)
    if ran.returncode != 1 or failed is None:
        raise SystemExit(f"pytest could not run {' '.join(tests)}\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return failed[1]


def main(wanted: str = "") -> int:
    """Runs the mutations whose name the pattern finds, two at a time; the exit code."""
    asked = [mutation for mutation in MUTATIONS if re.search(wanted, mutation.name)]
    if not asked:
        raise SystemExit(f"no mutation matches '{wanted}'")
    noticed = written()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_A_TIME) as pool:
        whole = Path(folder, "whole")  # copied once: who goes on editing meanwhile changes no answer
        _copy(whole)
        if failed := _first_failure(whole, (ORDER,)):
            raise SystemExit(f"{failed} fails where nothing is broken: what follows would say nothing")
        for done, (mutation, test, seconds) in enumerate(pool.map(partial(_tried, whole), asked), start=1):
            noticed[mutation.name] = test
            print(f"{done} of {len(asked)}: {mutation.name}: {test or 'NOT NOTICED'} ({seconds:.0f} s)", flush=True)
            _write(noticed)
    return 0 if all(noticed[mutation.name] for mutation in asked) else 1


def _tried(whole: Path, mutation: Mutation) -> tuple[Mutation, str, float]:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "broken")
        shutil.copytree(whole, tree, symlinks=True)
        test = _noticed_by(mutation, tree)
    return mutation, test, time.monotonic() - started


def _write(noticed: dict[str, str]) -> None:
    """The document: after each mutation, so that what ran stays written where the rest is not waited for."""
    rows = [(mutation, noticed[mutation.name]) for mutation in MUTATIONS if mutation.name in noticed]
    table = "\n".join(
        f"| {mutation.name} | `{mutation.file}` | {f'`{test}`' if test else '**none**'} |" for mutation, test in rows
    )
    DOCUMENT.write_text(
        "# What the tests notice\n\n`make mutations` breaks ingest and increments in one place at a time, on a copy, "
        "and writes this table: of the\ntests that it names for a breakage, the first one that failed.\n\n"
        f"| what was broken | where | the first test that failed |\n| --- | --- | --- |\n{table}\n",
        encoding="utf-8",
    )


def written() -> dict[str, str]:
    """What the document says so far: the test that noticed each breakage, or ''."""
    text = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.is_file() else ""
    lines = re.findall(r"^\| (.+?) \| `[^`]+` \| (?:`(.+)`|\*\*none\*\*) \|$", text, re.MULTILINE)
    return dict(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m dev.mutations", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="a regular expression of names; all without it")
    sys.exit(main(parser.parse_args().pattern))
