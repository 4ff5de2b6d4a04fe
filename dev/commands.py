"""dbt's commands in this process, with a bar for their nodes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dbt.cli.main import dbtRunner, dbtRunnerResult
from dbt.contracts.graph.manifest import Manifest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ingest.errors import LakeError

_OF_NODES = (
    "LogModelResult", "LogTestResult", "LogSeedResult", "LogSnapshotResult", "LogFreshnessResult", "LogNodeNoOpResult",
    "SkippingDetails",
)  # fmt: skip


WELL = ("success", "pass", "warn", "no-op")


@dataclass(frozen=True)
class Built:
    """What a dbt command did: the ids of its nodes, seconds and status of each by its name, how many tests passed, what
    failed and why; how many statements it sent, and the seconds until each was answered, added up."""

    ids: list[str]
    seconds: dict[str, float]
    statuses: dict[str, str]
    passed: int
    failed: list[str]
    statements: int
    in_statements: float


def run_dbt(arguments: Sequence[str], out: Console, manifest: Manifest | None = None) -> Built:
    """A dbt command in this process. Its failures are told as dbt tells them.

    Parameters
    ----------
    manifest:
        The project as it was read before; None where the command is to read it.

    Raises
    ------
    LakeError
        dbt came to no result, for nodes or at all.
    """
    answered: list[float] = []
    with bar("dbt " + arguments[0], out) as (progress, task):

        def follow(event: Any) -> None:
            if event.info.name == "SQLQueryStatus":
                answered.append(event.data.elapsed)
            total = getattr(event.data, "total", 0) or getattr(event.data, "num_models", 0)
            if event.info.name in _OF_NODES and total:
                progress.update(task, total=total, advance=1)

        result: dbtRunnerResult = dbtRunner(manifest, [follow]).invoke(["--quiet", *arguments])
        ended = progress.tasks[0].completed or 1  # dbt counts nodes that it tells nothing of
        progress.update(task, total=ended, completed=ended)
    if result.exception:
        raise LakeError(f"{result.exception}", where=f"dbt {' '.join(arguments)}", action="see logs/dbt.log")
    results: list[Any] = list(getattr(result.result, "results", None) or [])
    nodes = [item for item in results if getattr(item, "node", None) and item.node.resource_type != "operation"]
    failed = [_told(item) for item in nodes if str(item.status) not in WELL]
    return Built(
        ids=[item.node.unique_id for item in nodes],
        seconds={item.node.name: item.execution_time for item in nodes},
        statuses={item.node.name: str(item.status) for item in nodes},
        passed=sum(item.node.resource_type in ("test", "unit_test") and str(item.status) == "pass" for item in nodes),
        failed=failed if failed or result.success else [f"dbt {' '.join(arguments)}: see logs/dbt.log"],
        statements=len(answered),
        in_statements=sum(answered),
    )


def _told(result: Any) -> str:
    """What came of a node. Of a stale source dbt has no message."""
    if result.node.resource_type != "source":
        return f"{result.node.name}: {result.message}"
    name = f"{result.node.source_name}.{result.node.name}"
    return f"{name}: {result.message or f'stale, its newest row is {result.age / 3600:.1f} hours old'}"


def begin_parsing(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """A process that reads the project for dbt, beside what this one does: the first command finds what it has read.

    Whether it ends well means nothing. What it did not read, a command reads itself, and says what is wrong.
    """
    command = [sys.executable, "-m", "dbt.cli.main", "--quiet", "parse", *arguments]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def bar(title: str, out: Console) -> Iterator[tuple[Progress, Any]]:
    """A bar of progress, until the block ends."""
    with Progress(
        TextColumn("{task.description:<16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=out
    ) as progress:
        yield progress, progress.add_task(title, total=None)
