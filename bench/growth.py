"""What a commit costs as the table grows, in rows and in commits.

The first part lands batches of 900 updates of random rows into tables of several sizes, in turns; the second lands a
thousand small batches into one table and compares the last hundred with the first. Of each commit: seconds, Spark's
jobs, files and bytes that are new in the table's folder, against the bytes of the events. The table is TICKIT's `sale`.
It is not landed row by row: the silver rows of a small `sale` are repeated under other keys and written as a first
batch is, with as many buckets as ingest would choose. The session is that of a continuous run.

The JVM compiles for a hundred commits and more. Growth would hide behind that: so long is the warm-up of the second
part.

The commits of a merge-on-read table are a cycle of ten: the last one compacts as well. `usual` is the median of the
others, `compacting` that of these, and `cycle` the mean of all. Seconds say little on a machine that has other work:
the processor seconds of Java and Python beside them do.

The third part is the first with a partitioned table: each row must be found in whichever partition it is. Its updates
are of random rows as well, and some of them move their row to another partition. A batch has less than the 1,000 rows
from which on it may be compacted at once: every batch of a small table would be.

    python -m bench.growth --rows 100000,1000000,10000000 --partitioned 100000,1000000,10000000 --commits 1000
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table as Grid

from bench.footprint import Footprint, Processes
from bench.lake import lake_of_its_own
from bench.updates import BEHIND, TABLE, landed
from examples import generate
from ingest.config.connections import FilesConnection
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.config.tables import Table
from ingest.schema.change import silver_columns
from ingest.silver.table import SilverTable
from ingest.spark.session import long_running, open_session

# The original `sale` has 172,456 rows at scale 1; this many are enough to repeat.
SAMPLE_SCALE = 0.05
# Eight partitions: a sale is of one to eight tickets.
PARTITION, PARTITIONS = "qtysold", 8
SIZES_AT_MOST, COMMITS_AT_MOST = 1.3, 1.2
CYCLE = 10
WARM_UP = 5
out = Console(width=None if Console().is_terminal else 160, highlight=False)


@dataclass(frozen=True)
class Commit:
    """What landing one batch took, and left in the table's folder."""

    seconds: float
    processor_s: float
    jobs: int
    files: int
    written: int
    events: int
    compacts: bool


@dataclass(frozen=True)
class Changes:
    """What of a thousand changes is no update of a row where it is: rows that move to another partition, new rows."""

    moves: int = 0
    inserts: int = 0


class Grown:
    """A silver table of a size, and the batches that come to it."""

    def __init__(
        self, spark: SparkSession, sample: Table, home: Path, rows: int, schema: str, changes: Changes | None = None
    ) -> None:
        self.rows = rows
        self._changes = changes or Changes()
        self._spark = spark
        self._events = _examples(sample)
        # The same rows and keys in every run.
        self._random = random.Random(rows)  # noqa: S311
        self._batches = 0
        topics = home / schema
        self._topic = topics / sample.options.topic
        self._topic.mkdir(parents=True)
        self.table = replace(sample, schema=schema, connection=FilesConnection(type="files", path=str(topics)))
        if changes is not None:
            options = sample.options.model_copy(update={"partition_by": (PARTITION,)})
            self.table = replace(self.table, options=options)
        self.folder = Path(_seeded(spark, sample, self.table, rows).removeprefix("file:"))
        self._before = Footprint.of(self.folder)

    @property
    def timeline(self) -> Footprint:
        """The files of the table's timeline, the archived part included."""
        return self._before.below(self.folder / ".hoodie" / "timeline")

    @property
    def files(self) -> Footprint:
        """The files of the table, as its last commit has left them."""
        return self._before

    def commit(self, changes: int) -> Commit:
        """Lands as many changes, each of a row of its own."""
        file = self._write(changes)
        jobs, busy, started = _jobs(self._spark), Processes.of(os.getpid()).processor_s, time.monotonic()
        landed(self._spark, self.table)
        seconds, busy = time.monotonic() - started, Processes.of(os.getpid()).processor_s - busy
        before, self._before = self._before, Footprint.of(self.folder)
        new = self._before.new_since(before)
        return Commit(
            seconds,
            busy,
            _jobs(self._spark) - jobs,
            len(new),
            self._before.written_since(before),
            file.stat().st_size,
            # Of a merge-on-read table, writes are delta commits, compactions are commits.
            any(path.suffix == ".commit" and "metadata" not in path.parts for path in new),
        )

    def _write(self, changes: int) -> Path:
        self._batches += 1
        lines = []
        inserts, moves = (changes * each // 1000 for each in (self._changes.inserts, self._changes.moves))
        keys = self._random.sample(range(1, self.rows + 1), changes - inserts)
        keys += range(self.rows + 1, self.rows + 1 + inserts)
        for number, key in enumerate(keys):
            event = self._events[key % len(self._events)] | {
                "salesid": key,
                "commission": self._random.randrange(10_000) / 100,
                "__op": "u" if key <= self.rows else "c",
                "__source_pos": BEHIND * self._batches + number,
                "__source_snapshot": "false",
            }
            if number < moves:
                event[PARTITION] = event[PARTITION] % PARTITIONS + 1
            lines.append(json.dumps(event, separators=(",", ":")) + "\n")
        self.rows += inserts
        file = self._topic / f"{self._topic.name}+0+{BEHIND + self._batches:012}.json"
        file.write_text("".join(lines), encoding="utf-8")
        return file


def main() -> None:
    """Prints what a commit takes by the table's rows, and by the commits that it has had."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="100000,1000000,10000000", help="Sizes of the first part; '' leaves it out.")
    parser.add_argument("--partitioned", default="100000,1000000,10000000", help="Sizes of the third part, likewise.")
    parser.add_argument("--moves", type=int, default=10, help="Of 1,000 changes of its batches: rows that move.")
    parser.add_argument("--inserts", type=int, default=100, help="And new rows.")
    parser.add_argument("--updates", type=int, default=900, help="Changes of each batch of these two parts.")
    parser.add_argument("--cycles", type=int, default=1, help="Times ten batches for each size, after a warm-up.")
    parser.add_argument("--commits", type=int, default=1000, help="Commits of the second part; 0 leaves it out.")
    parser.add_argument("--commit-rows", type=int, default=100_000, help="Rows of its table.")
    parser.add_argument("--commit-updates", type=int, default=50, help="Updates of each of its commits.")
    parser.add_argument("--warm-up", type=int, default=100, help="Its commits that are not counted.")
    options = parser.parse_args()
    with lake_of_its_own() as home:
        generate("tickit", home, scale=SAMPLE_SCALE, form="json", phase="snapshot")
        project = Project.load(Path(__file__).resolve().parent.parent)
        spark = open_session(project, long_running(project))
        (sample,) = load_source(project, "tickit").choose([TABLE])
        landed(spark, sample)
        if options.rows:
            tables = _grown(spark, sample, home, options.rows)
            _by_rows(tables, options.updates, options.cycles, f"batches of {options.updates:,} updates")
        if options.commits:
            grown = Grown(spark, sample, home, options.commit_rows, "bench_commits")
            _by_commits(grown, options.commits, options.commit_updates, options.warm_up)
        if options.partitioned:
            changes = Changes(options.moves, options.inserts)
            tables = _grown(spark, sample, home, options.partitioned, changes)
            title = f"partitioned, batches of {options.updates:,} changes; of 1,000, {changes.moves} move their row, "
            title += f"{changes.inserts} are new rows"
            _by_rows(tables, options.updates, options.cycles, title)
        spark.stop()


def _grown(spark: SparkSession, sample: Table, home: Path, sizes: str, changes: Changes | None = None) -> list[Grown]:
    """A table of each size; partitioned where it is said what comes to it besides updates."""
    tables = []
    for rows in (int(text) for text in sizes.split(",")):
        started = time.monotonic()
        schema = f"bench_{rows}" if changes is None else f"bench_partitioned_{rows}"
        tables.append(Grown(spark, sample, home, rows, schema, changes))
        out.print(f"{rows:,} rows in {time.monotonic() - started:.0f} s, {len(tables[-1].files)} files")
    return tables


def _by_rows(tables: Sequence[Grown], updates: int, cycles: int, title: str) -> None:
    rows = [table.rows for table in tables]
    commits: list[list[Commit]] = [[] for _ in tables]
    for number in range(1, WARM_UP + CYCLE * cycles + 1):
        for table, done in zip(tables, commits, strict=True):
            done.append(table.commit(updates))
        told = ", ".join(f"{done[-1].seconds:.2f}{' (compacting)' * done[-1].compacts}" for done in commits)
        out.print(f"batch {number}: {told} s")
    measured = [done[-CYCLE * cycles :] for done in commits]
    grid = _grid(title, "rows")
    for size, done in zip(rows, measured, strict=True):
        grid.add_row(f"{size:,}", *_cells(done, measured[0]))
    out.print(grid)
    usual = [_usual(done) for done in measured]
    _tell("the largest to the smallest", usual[-1] / usual[0], SIZES_AT_MOST)
    _tell("processor seconds", _busy(measured[-1]) / _busy(measured[0]), SIZES_AT_MOST)


def _by_commits(grown: Grown, commits: int, updates: int, warm_up: int) -> None:
    for _ in range(warm_up):
        grown.commit(updates)
    part = max(CYCLE, commits // 10)
    grid = _grid(f"{commits:,} commits of {updates} updates, {grown.rows:,} rows", "commits")
    for title in ("files in all", "of the timeline"):
        grid.add_column(title, justify="right")
    parts: list[list[Commit]] = []
    for end in range(part, commits + 1, part):
        parts.append([grown.commit(updates) for _ in range(part)])
        places = f"{len(grown.files):,}", f"{len(grown.timeline):,}"
        grid.add_row(f"{end - part + 1}-{end}", *_cells(parts[-1], parts[0]), *places)
        told = f"{_usual(parts[-1]):.2f} s, {_busy(parts[-1]):.2f} processor s, {_amplification(parts[-1]):.1f} bytes"
        out.print(f"{end} commits: {told} a byte in; {places[0]} files, {places[1]} of the timeline")
    out.print(grid)
    first, last = (statistics.mean(commit.seconds for commit in each) for each in (parts[0], parts[-1]))
    _tell(f"the last {part} to the first, compactions included", last / first, COMMITS_AT_MOST)
    first, last = (statistics.mean(commit.processor_s for commit in each) for each in (parts[0], parts[-1]))
    _tell("processor seconds, compactions included", last / first, COMMITS_AT_MOST)


def _grid(title: str, first: str) -> Grid:
    grid = Grid(title=title, title_justify="left")
    for name in (
        first, "usual s", "best s", "ratio", "processor s", "ratio", "compacting s", "cycle s", "ratio",
        "jobs", "files", "bytes a byte in", "in the cycle",
    ):  # fmt: skip
        grid.add_column(name, justify="right")
    return grid


def _cells(commits: Sequence[Commit], first: Sequence[Commit]) -> list[str]:
    usual = [commit for commit in commits if not commit.compacts]
    compacting = [commit.seconds for commit in commits if commit.compacts]
    cycle, cycle_at_first = (statistics.mean(commit.seconds for commit in each) for each in (commits, first))
    return [
        f"{_usual(commits):.2f}",
        f"{min(commit.seconds for commit in usual):.2f}",
        f"{_usual(commits) / _usual(first):.2f}",
        f"{_busy(commits):.2f}",
        f"{_busy(commits) / _busy(first):.2f}",
        f"{statistics.median(compacting):.2f}" if compacting else "-",
        f"{cycle:.2f}",
        f"{cycle / cycle_at_first:.2f}",
        f"{statistics.median(commit.jobs for commit in usual):g}",
        f"{statistics.median(commit.files for commit in usual):g}",
        f"{_amplification(usual):.1f}",
        f"{_amplification(commits):.1f}",
    ]


def _usual(commits: Sequence[Commit]) -> float:
    return statistics.median(commit.seconds for commit in commits if not commit.compacts)


def _busy(commits: Sequence[Commit]) -> float:
    return statistics.median(commit.processor_s for commit in commits if not commit.compacts)


def _amplification(commits: Sequence[Commit]) -> float:
    return sum(commit.written for commit in commits) / sum(commit.events for commit in commits)


def _tell(what: str, ratio: float, at_most: float) -> None:
    out.print(f"{what}: {ratio:.2f}, at most {at_most:g} {'reached' if ratio <= at_most else '[red]not reached[/]'}")


def _examples(sample: Table) -> list[dict[str, Any]]:
    assert isinstance(sample.connection, FilesConnection)
    files = sorted(Path(sample.connection.path, sample.options.topic).rglob("*.json"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def _seeded(spark: SparkSession, sample: Table, table: Table, rows: int) -> str:
    """Makes the table's first commit: the sample's rows, again and again, each under a key of its own; its path."""
    small, silver = SilverTable.of(spark, sample), SilverTable.of(spark, table)
    state = small.state()
    assert state is not None
    columns = [f"`{name}`" for name in silver_columns(table)]
    held = small.stored().select(*columns).withColumnRenamed("salesid", "_of")
    # The keys of a snapshot are numbers from 1 on.
    every = spark.range(1, rows + 1).join(F.broadcast(held), F.col("id") % held.count() + 1 == F.col("_of"))
    every = every.withColumn("salesid", F.col("id").cast("int"))
    silver.write(every.select(*columns), replace(state, buckets=silver.buckets_for(rows, held)), first=True)
    silver.register()
    return silver.path


def _jobs(spark: SparkSession) -> int:
    """Jobs that Spark has run so far: Hudi names its job groups itself, so that no group of ours would have them."""
    return int(spark._jsc.sc().dagScheduler().numTotalJobs())


if __name__ == "__main__":
    main()
