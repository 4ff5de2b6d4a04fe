"""Whether a lake with continuous ingest stays as it is: memory, lag and files under a steady load.

Needs the real chain (`make up`; its databases are written to). A lake of its own is served and lands all seven tables
of TICKIT, while rows change at a rate in both databases: a statement changes several rows, some sales are deleted and
inserted again. The databases hold as many rows at the end as at the beginning, so that what grows is the lake's own
doing. The first ten minutes are not looked at: the JVM compiles, and a table's timeline has as many files as it is to
have only after its first forty commits. Then, every minute:

- memory: what Java and Python hold (resident), and what of Java's heap is alive, every fifth time, after a collection;
- lag: records that Kafka has and the lake has not landed;
- files below the lake, and their bytes;
- the rate at which records really came to Kafka.

At the end the median of the last third is compared with that of the first: memory and files may have grown by a fifth,
the lag by half, or to what comes in five seconds. Then the load ends, the lake lands the rest, and `lake reconcile`
compares it with the databases. Exit code 1 where something grew by more, or differs.

    make up && python -m bench.soak --minutes 60 --rate 200
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import psutil
from rich.console import Console
from rich.table import Table as Grid

import examples
from bench.footprint import Footprint, Processes
from bench.latency import ROOT, Lake, chain_that_runs, environment, served, wait
from dev.chain.databases import Databases, Session, System, name, system_of
from dev.chain.processes import free_port
from dev.chain.servers import Chain
from dev.chain.topics import Topics
from examples.generating.model import Table
from examples.tickit.tables import CATEGORY, DATE, EVENT, LISTING, SALE, TABLES, USER, VENUE
from ingest.errors import LakeError

GROWS_AT_MOST, LAG_GROWS_AT_MOST, LAG_OF_S = 1.2, 1.5, 5
HEAP_EVERY = 5
FIRST_LANDING_WITHIN_S, DRAINED_WITHIN_S = 900, 900
# Transactions a second in each database.
PACE = 4
MIB = 1 << 20
out = Console(width=None if Console().is_terminal else 160, highlight=False)


@dataclass(frozen=True)
class Share:
    """How many of a database's row changes a table has, in a hundred, and what is changed, as SQL with a number."""

    table: Table
    of_hundred: int
    change: str


SHARES = (
    Share(SALE, 60, "commission = {} / 100"),
    Share(LISTING, 35, "priceperticket = {} / 100"),
    Share(DATE, 5, "week = {} % 53"),
    Share(EVENT, 50, "eventname = 'event {}'"),
    Share(USER, 40, "city = 'city {}'"),
    Share(VENUE, 8, "venueseats = {}"),
    Share(CATEGORY, 2, "catdesc = 'category {}'"),
)
# Of a hundred changes of sales, those that delete a row which the next transaction inserts again.
REMOVED = 10


@dataclass(frozen=True)
class Sample:
    """One look. `heap` is None where it was not looked at."""

    minute: float
    resident: int
    heap: int | None
    lag: int
    files: int
    bytes: int
    rate: float


@dataclass
class Load:
    """Changes of rows in one database, in several transactions a second, until it is stopped."""

    databases: Databases
    system: System
    rate: float
    stopping: threading.Event
    error: LakeError | None = None
    _keys: dict[str, Sequence[str]] = field(default_factory=dict)
    _random: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311

    def run(self) -> None:
        """Keeps the pace; a transaction that came late is not left out."""
        try:
            with self.databases.open(self.system) as session:
                shares = [share for share in SHARES if system_of(share.table) == self.system]
                for share in shares:
                    keys = session.run(f"select {share.table.key} from {name(share.table)};")
                    self._keys[share.table.name] = keys
                began, number, back = time.monotonic(), 0, ""
                while not self.stopping.wait(max(0.0, began + number / PACE - time.monotonic())):
                    number += 1
                    back = self._transaction(session, shares, self.rate / PACE, back)
                session.run(f"begin;\n{back}commit;")
        except LakeError as error:
            self.error = error
            self.stopping.set()

    def _transaction(self, session: Session, shares: Sequence[Share], rows: float, back: str) -> str:
        """One transaction; the statement that undoes its deletes, for the next."""
        statements, again = [back], ""
        for share in shares:
            wanted = rows * share.of_hundred / 100
            if share.table is SALE:
                # A row that is removed comes back: two changes.
                removed = self._whole(wanted * REMOVED / 200)
                wanted -= 2 * removed
                if removed:
                    gone, again = self._removed(session, removed)
                    statements.append(gone)
            if changed := self._whole(wanted):
                keys = ", ".join(self._some(share.table, changed))
                change = share.change.format(self._random.randrange(100_000))
                statements.append(f"update {name(share.table)} set {change} where {share.table.key} in ({keys});\n")
        session.run("begin;\n" + "".join(statements) + "commit;")
        return again

    def _removed(self, session: Session, rows: int) -> tuple[str, str]:
        keys = ", ".join(self._some(SALE, rows))
        columns = ", ".join(f"quote({column.name})" for column in SALE.columns)
        found = session.run(f"select concat_ws(', ', {columns}) from {name(SALE)} where {SALE.key} in ({keys});")
        # Those that the transaction before has removed are not there yet: they are left alone.
        if not found:
            return "", ""
        keys = ", ".join(row.partition(",")[0] for row in found)
        values = ", ".join(f"({row})" for row in found)
        return (
            f"delete from {name(SALE)} where {SALE.key} in ({keys});\n",
            f"insert into {name(SALE)} values {values};\n",
        )

    def _some(self, table: Table, rows: int) -> list[str]:
        keys = self._keys[table.name]
        return self._random.sample(keys, min(rows, len(keys)))

    def _whole(self, rows: float) -> int:
        """A whole number of rows, which is on average the wanted one."""
        return int(rows) + (self._random.random() < rows % 1)


@dataclass
class Watcher:
    """Looks at a served lake and at Kafka."""

    lake: Lake
    topics: Topics
    metrics_port: int
    _came: list[tuple[float, int]] = field(default_factory=list)

    def look(self, minute: float, *, at_heap: bool) -> Sample:
        """How it is now."""
        pid = self.lake.process.pid
        heap = _live_heap(pid) if at_heap else None
        below = Footprint.of(self.lake.home)
        lag = self.lag()
        (before_s, before), (now_s, now) = self._came[-2:]
        rate = (now - before) / (now_s - before_s)
        return Sample(minute, Processes.of(pid).resident, heap, lag, len(below), sum(below.sizes.values()), rate)

    def lag(self) -> int:
        """Records that are in the tables' topics and were not landed."""
        ends = self.topics.ends()
        came = sum(ends.get(f"tickit.{table.full_name}", 0) for table in TABLES)
        self._came.append((time.monotonic(), came))
        return came - self._landed()

    def is_quiet(self) -> bool:
        """Whether all has landed, and nothing has come since the look before this one."""
        return self.lag() <= 0 and len(self._came) > 1 and self._came[-1][1] == self._came[-2][1]

    def _landed(self) -> int:
        text = httpx.get(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30).text
        return sum(int(float(value)) for value in re.findall(r"^lake_events_total\{.*\} (\S+)$", text, re.MULTILINE))


def main() -> None:
    """Prints how it was at first and at last; ends with 1 where it grew by too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=200, help="Row changes a second, half of them in each database.")
    parser.add_argument("--every", type=float, default=60, help="Seconds from one look to the next.")
    parser.add_argument("--warm-up", type=float, default=10, help="Minutes of load before the first look.")
    options = parser.parse_args()
    chain = chain_that_runs()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home, port = Path(folder), free_port()
        with served(chain, home, "--metrics-port", str(port)) as lake:
            watcher = Watcher(lake, Topics(chain.kafka, chain.registry), port)
            wait(lambda: lake.is_well, "all tables", FIRST_LANDING_WITHIN_S)
            wait(watcher.is_quiet, "what the topics have already", FIRST_LANDING_WITHIN_S)
            with _loaded(chain, options.rate) as ended:
                samples = list(_looks(watcher, ended, options.minutes, options.every, options.warm_up))
            drained = _seconds(partial(wait, watcher.is_quiet, "the rest", DRAINED_WITHIN_S))
            out.print(f"drained in {drained:.0f} s")
        command = [sys.executable, "-m", "ingest", "reconcile", "tickit"]
        is_equal = subprocess.run(command, cwd=ROOT, env=environment(chain, home), check=False).returncode == 0
    is_flat = _compared(samples, options.rate)
    raise SystemExit(0 if is_flat and is_equal else 1)


def _looks(
    watcher: Watcher, ended: Callable[[], bool], minutes: float, every: float, warm_up: float
) -> Iterator[Sample]:
    out.print(f"loaded; the first look in {warm_up:g} minutes")
    began = time.monotonic() + 60 * warm_up
    time.sleep(60 * warm_up)
    watcher.lag()
    for number in range(1, int(60 * minutes / every) + 1):
        time.sleep(max(0.0, began + number * every - time.monotonic()))
        if ended():
            raise SystemExit("the load or the lake has ended")
        sample = watcher.look(number * every / 60, at_heap=number % HEAP_EVERY == 1)
        heap = "" if sample.heap is None else f" ({sample.heap / MIB:,.0f} MiB of heap alive)"
        out.print(
            f"{sample.minute:5.1f} min: {sample.resident / MIB:,.0f} MiB{heap}, lag {sample.lag:,}, "
            f"{sample.files:,} files, {sample.bytes / MIB:,.0f} MiB, {sample.rate:.0f} records a second"
        )
        yield sample


@contextmanager
def _loaded(chain: Chain, rate: float) -> Iterator[Callable[[], bool]]:
    """Half of the rate in each database, until the block ends; tells whether it has ended before."""
    stopping = threading.Event()
    databases = Databases(chain.settings, chain.postgresql, chain.mariadb, examples.databases("tickit"))
    loads = [Load(databases, system, rate / len(databases.systems), stopping) for system in databases.systems]
    threads = [threading.Thread(target=load.run, name=load.system) for load in loads]
    for thread in threads:
        thread.start()
    try:
        yield stopping.is_set
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
        if failed := [load for load in loads if load.error]:
            raise SystemExit(f"{failed[0].system}: {failed[0].error}")


def _live_heap(pid: int) -> int | None:
    """What of the heap of a process's Java is reachable, in bytes: looked at after a whole collection, of a second or
    less. None where Java has no `jcmd`."""
    for process in psutil.Process(pid).children(recursive=True):
        jcmd = Path(process.exe()).with_name("jcmd")
        if process.name() == "java" and jcmd.exists():
            for order in ("GC.run", "GC.heap_info"):
                told = subprocess.run([jcmd, str(process.pid), order], capture_output=True, text=True, check=True)
            # Young and old generation; what lies behind is no heap.
            heap = told.stdout.partition("Metaspace")[0]
            return 1024 * sum(map(int, re.findall(r"(?:PSYoungGen|ParOldGen)\s.*used (\d+)K", heap)))
    return None


def _compared(samples: Sequence[Sample], rate: float) -> bool:
    """Prints the first and the last third; whether nothing grew by more than it may."""
    third = max(1, len(samples) // 3)
    rows: list[tuple[str, Callable[[Sample], float | None], float, float]] = [
        ("memory, MiB", lambda sample: sample.resident / MIB, GROWS_AT_MOST, 0),
        ("heap alive, MiB", lambda sample: None if sample.heap is None else sample.heap / MIB, GROWS_AT_MOST, 0),
        ("lag, records", lambda sample: sample.lag, LAG_GROWS_AT_MOST, LAG_OF_S * rate),
        ("files", lambda sample: sample.files, GROWS_AT_MOST, 0),
        ("bytes, MiB", lambda sample: sample.bytes / MIB, 0, 0),
        ("records a second", lambda sample: sample.rate, 0, 0),
    ]
    grid = Grid(title=f"{samples[-1].minute:g} minutes, {rate:g} row changes a second", title_justify="left")
    for title in ("median of", "first third", "last third", "ratio", "at most"):
        grid.add_column(title, justify="left" if title == "median of" else "right")
    is_flat = True
    for title, value, at_most, or_at_most in rows:
        first, last = (
            [number for number in map(value, part) if number is not None]
            for part in (samples[:third], samples[-third:])
        )
        if not first or not last:
            grid.add_row(title, "-", "-", "-", "")
            continue
        before, after = statistics.median(first), statistics.median(last)
        is_well = not at_most or after <= max(at_most * before, or_at_most)
        is_flat = is_flat and is_well
        told = f"{after / before:.2f}" if before else "-"
        grid.add_row(title, f"{before:,.0f}", f"{after:,.0f}", told if is_well else f"[red]{told}",
                     f"{at_most:g}" if at_most else "")  # fmt: skip
    out.print(grid)
    return is_flat


def _seconds(work: Callable[[], None]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


if __name__ == "__main__":
    main()
