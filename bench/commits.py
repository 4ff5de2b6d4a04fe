"""How often Hudi commits when it has nothing to wait for: the floor below the latency of continuous ingest.

The seven tables of TICKIT are landed; then each commits the same few of its rows again and again, with ingest's own
settings, in the session of a continuous run. The rows are ready: nothing is read, decoded, ordered or compared, and
nothing is compacted. Told are the commits a second of all tables together, the seconds from one commit of a table to
its next, and the processor seconds of a commit. A change cannot be visible sooner than its table's next commit.

    python -m bench.commits
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue

from pyspark.sql import SparkSession
from rich.console import Console

from bench.footprint import Processes
from bench.lake import lake_of_its_own
from bench.updates import landed
from examples import generate
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.config.tables import Table
from ingest.schema.change import silver_columns
from ingest.silver.table import SilverTable
from ingest.spark.session import long_running, open_session

SCALE = 0.05
out = Console(width=None if Console().is_terminal else 140, highlight=False)


def main() -> None:
    """Prints what Hudi's commits take by themselves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20, help="Rows of a commit.")
    parser.add_argument("--workers", type=int, default=4, help="Tables that commit at a time.")
    parser.add_argument("--warm-up", type=float, default=120, help="Seconds before it counts.")
    parser.add_argument("--seconds", type=float, default=120, help="Seconds that it counts.")
    options = parser.parse_args()
    with lake_of_its_own() as home:
        generate("tickit", home, scale=SCALE, form="json", phase="snapshot")
        project = Project.load(Path(__file__).resolve().parent.parent)
        spark = open_session(project, long_running(project))
        tables = load_source(project, "tickit").tables
        for table in tables:
            landed(spark, table)
        writers = [_Writer(spark, table, options.rows) for table in tables]
        for what, seconds in (("warming up", options.warm_up), ("counted", options.seconds)):
            out.print(f"{what}: {_committed(writers, options.workers, seconds)}")
        spark.stop()


class _Writer:
    """Commits the same rows of a table again; when each commit was done stands in `done`."""

    def __init__(self, spark: SparkSession, table: Table, rows: int) -> None:
        self._silver = SilverTable.of(spark, table)
        state = self._silver.state()
        assert state is not None
        self._state = state
        self.done: list[float] = []
        columns = [f"`{name}`" for name in silver_columns(table)]
        self._rows = self._silver.stored().select(*columns).limit(rows).coalesce(1).localCheckpoint()

    def commit(self) -> None:
        """One commit."""
        self._silver.write(self._rows, self._state, first=False)
        self.done.append(time.monotonic())


def _committed(writers: list[_Writer], workers: int, seconds: float) -> str:
    """What the tables' commits took, each table in its turn."""
    waiting: SimpleQueue[_Writer] = SimpleQueue()
    for writer in writers:
        writer.done.clear()
        waiting.put(writer)

    def go_on(until: float) -> None:
        while time.monotonic() < until:
            writer = waiting.get()
            writer.commit()
            waiting.put(writer)

    until, busy = time.monotonic() + seconds, Processes.of(os.getpid()).processor_s
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(go_on, [until] * workers))
    busy = Processes.of(os.getpid()).processor_s - busy
    between = [later - earlier for writer in writers for earlier, later in pairwise(writer.done)]
    number = sum(len(writer.done) for writer in writers)
    return (
        f"{number} commits, {number / seconds:.1f} a second, {busy / number:.2f} processor seconds each; "
        f"from one of a table to its next {statistics.median(between):.2f} s, "
        f"95th percentile {statistics.quantiles(between, n=20)[18]:.2f} s"
    )


if __name__ == "__main__":
    main()
