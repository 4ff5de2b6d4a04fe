"""Processes that write Hudi tables, to be killed; a source of one table, and what must be true of it afterwards.

The phases of a write are seen from outside, on the timeline that Hudi keeps in the table's folder.
"""

from __future__ import annotations

import os
import queue
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conftest import REPOSITORY, DbtProject, new_project, pg, table_of
from pyspark.sql import SparkSession

from ingest.config.tables import HISTORY
from ingest.silver.state import State
from ingest.silver.table import SilverTable

TABLE = "item"
LIMIT_S = 180
EVENTS_A_BATCH = 12
# Lands whatever is there whenever it is told to, so that Java is started once a kill and not once a batch.
LANDS_ON_DEMAND = """
import sys
from pathlib import Path
from ingest.config.sources_file import load_source
from ingest.config.project import Project
from ingest.landing.run import land
from ingest.spark.session import open_session
project = Project.load(Path(sys.argv[1]))
tables = load_source(project, "shop").tables
spark = open_session(project)
print("ready", flush=True)
for _ in sys.stdin:
    for landed in land(spark, tables):
        print(f"failed {landed.error.message}" if landed.error else "landed", flush=True)
"""


def _instants(pattern: str) -> Callable[[Path], set[str]]:
    """The files of the timeline, and below `.temp` beside it, whose names match."""

    def found(table: Path) -> set[str]:
        names = set()
        for folder in (table / ".hoodie", table / ".hoodie" / "timeline"):
            try:
                names |= {entry.name for entry in os.scandir(folder) if re.fullmatch(pattern, entry.name)}
            except FileNotFoundError:
                continue
        return names

    return found


def _markers(table: Path) -> set[str]:
    return {str(path) for path in (table / ".hoodie" / ".temp").rglob("*.marker*")}


def _archive(table: Path) -> set[str]:
    """The files of the archived timeline: what is being archived is written there first, then listed there."""
    return {str(path) for path in (table / ".hoodie" / "timeline" / "history").rglob("*")}


def _oldest(table: Path) -> set[str]:
    """The oldest commit that the timeline still has; a later one once archived commits are being removed from it."""
    commits = _instants(r"\d+(_\d+)?\.(delta)?commit")(table)
    return {min(commits)} if len(commits) > 1 else set()


# What is new on disk when a phase begins.
PHASES: Mapping[str, Callable[[Path], set[str]]] = {
    "requested": _instants(r"\d+\.(delta|replace)?commit\.requested"),
    "inflight": _instants(r"\d+\.(delta|replace)?commit\.inflight|\d+\.inflight"),
    "files written, not committed": _markers,
    "rolling back": _instants(r"\d+\.rollback\.(requested|inflight)"),
    "committed, not registered": _instants(r"\d+(_\d+)?\.(delta|replace)?commit"),
    "compacting": _instants(r"\d+\.compaction\.(requested|inflight)"),
    "cleaning": _instants(r"\d+\.clean\.(requested|inflight)"),
    "archiving": _archive,
    "archived, being removed": _oldest,
}
# Hudi archives once a timeline has more than 30 commits, and leaves 20 there (hoodie.keep.max.commits).
MOST_BATCHES = 34


class Child:
    """A process that does something on demand, and what it answers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """Of the process, and of its group."""
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line.strip())

    def tell(self, line: str = "") -> None:
        """Has it do what it is there for, and does not wait."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def answered(self) -> bool:
        """Whether it has ended something since the last look."""
        return not self._answers.empty() and bool(self.answer())

    def answer(self) -> str:
        """The next answer, which must come within the limit and tell of no failure."""
        answer = self._answers.get(timeout=LIMIT_S)
        assert not answer.startswith("failed"), answer
        return answer


@contextmanager
def child_of(script: str, root: Path, home: Path) -> Iterator[Child]:
    """A process that runs a script with a project and a lake; it and its Java process are killed at the end."""
    environment = {**os.environ, "LAKE_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    environment.pop("SPARK_HOME", None)
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(root)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        start_new_session=True,
    )  # fmt: skip
    try:
        child = Child(process)
        assert child.answer() == "ready"
        yield child
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(LIMIT_S)
        release_catalog(home)


def release_catalog(home: Path) -> None:
    """Derby's lock names a process that is gone: waits until Java has let go of its files."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        held = subprocess.run(["fuser", str(home / "metastore" / "dbex.lck")], capture_output=True, check=False)
        if not held.stdout.strip():
            return
    raise AssertionError("the killed process still holds the catalog")


def wait_until_new(
    look: Callable[[Path], set[str]], table: Path, child: Child, doing: Callable[[], None], phase: str
) -> bool:
    """Has a process do something, and returns as soon as there is something new; false where it ends before."""
    before = look(table)
    doing()
    deadline = time.monotonic() + LIMIT_S
    while not look(table) - before:
        if child.answered():
            return False
        assert time.monotonic() < deadline, f"the process hangs before {phase}"
    return True


@dataclass
class Source:
    """A table of a source, what it holds, and the files of its events."""

    project: DbtProject
    home: Path
    rng: random.Random
    rows: dict[int, int] = field(default_factory=dict)
    changes: list[tuple[int, int, str]] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    delivered: int = 0
    bad: int = 0

    @property
    def table(self) -> Path:
        """The folder of the silver table."""
        return self.home / "warehouse" / f"{self.project.schema}.db" / TABLE

    def change(self) -> None:
        """Delivers a batch of changes; its last event cannot be applied."""
        events: list[Mapping[str, Any] | str] = []
        for number in range(EVENTS_A_BATCH - 1):
            lsn = 100 + self.delivered + number
            key = self.rng.randint(1, 40)
            if key in self.rows and self.rng.random() < 0.2:
                del self.rows[key]
                self.gone.add(key)
                op = "d"
            else:
                op = "u" if key in self.rows else "c"
                self.rows[key] = lsn
                self.gone.discard(key)
            events.append(pg(op, lsn, id=key, v=0 if op == "d" else lsn))
            self.changes.append((lsn, key, op))
        events.append("{broken")
        self.project.deliver(f"shop.{TABLE}", self.delivered, events)
        self.delivered += len(events)
        self.bad += 1

    def child(self) -> AbstractContextManager[Child]:
        """A process that lands on demand, to be killed."""
        return child_of(LANDS_ON_DEMAND, self.project.root, self.home)

    def lake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command `lake`, to its end."""
        environment = {**os.environ, "LAKE_HOME": str(self.home)}
        return subprocess.run(
            [sys.executable, "-m", "ingest", *arguments, "--project-dir", str(self.project.root)],
            cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip

    def silver(self, spark: SparkSession) -> SilverTable:
        """The silver table, as another session reads it."""
        return SilverTable(spark, self.project.source().choose([TABLE])[0], str(self.table))

    def found(self, spark: SparkSession, instant: str | None = None) -> dict[int, int | None]:
        """What silver holds, now or then: values by key, None for a tombstone."""
        reader = spark.read.format("hudi")
        rows = (reader.option("as.of.instant", instant) if instant else reader).load(str(self.table)).collect()
        assert len({row["id"] for row in rows}) == len(rows), "a key is there twice"
        return {row["id"]: None if row["__deleted"] == "true" else row["v"] for row in rows}

    def expected(self) -> dict[int, int | None]:
        """What silver must hold once everything has been landed."""
        return {**self.rows, **dict.fromkeys(self.gone)}

    def require_equal(self, spark: SparkSession) -> State:
        """Silver equals the source, every event is counted once, and the quarantine has each bad one once."""
        state = self.silver(spark).state()
        assert state is not None
        assert {key: value for key, value in self.found(spark).items() if value is not None} == self.rows
        totals = state.totals
        assert totals.read == self.delivered
        parts = (totals.applied, totals.superseded, totals.duplicate, totals.ignored, totals.quarantined)
        assert totals.read == sum(parts)
        assert totals.quarantined == self.bad
        quarantine = spark.read.format("hudi").load(str(self.table.parent / "_quarantine"))
        assert (quarantine.count(), quarantine.select("quarantine_id").distinct().count()) == (self.bad, self.bad)
        return state

    def require_history(self, spark: SparkSession) -> None:
        """The history holds every change once, and nothing else."""
        rows = spark.read.format("hudi").load(f"{self.table}{HISTORY}").collect()
        assert sorted((row["__lsn"], row["id"], row["__op"]) for row in rows) == sorted(self.changes)
        assert all(row["v"] == row["__lsn"] for row in rows if row["__op"] != "d")


def a_source(where: Path, table_type: str, seed: str, **options: Any) -> Source:
    """A source of one table with a lake of its own."""
    table = table_of(TABLE, {"id": "int", "v": "int"}, ["id"], table_type=table_type, **options)
    return Source(new_project(where, {"tables": [table]}), where / "lake", random.Random(seed))  # noqa: S311


def kill_when(source: Source, phase: str, suffix: str = "") -> bool:
    """Lands batch after batch, and kills the process as soon as the phase begins; whether it was seen to.

    `suffix`: of the table beside silver whose phase it is.
    """
    table = source.table.with_name(source.table.name + suffix)
    look = PHASES[phase]
    with source.child() as child:
        for _ in range(MOST_BATCHES):
            source.change()
            if wait_until_new(look, table, child, child.tell, phase):
                return True
    return False
