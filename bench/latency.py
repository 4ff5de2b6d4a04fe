"""How long a change takes from its commit in a database until a client of `lake serve` reads it, stage by stage.

Needs the real chain (`make up`). A lake of its own is served and lands all seven tables of TICKIT while changes come at
a rate; a probe commits a stamped row to MariaDB or PostgreSQL, in turns, and asks the Thrift server until it reads the
stamp. The stages of a probe:

- captured: from the database's commit until Kafka has the record;
- waited: until the table's batch that has it begins, for the one before it may not be done;
- decoded: until Hudi begins to write: reading, decoding, order, the last change of each key;
- written: until Hudi's commit is complete;
- visible: until the client, which asks again and again, has read it.

    make up && python -m bench.latency
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyhive import hive  # type: ignore[import-untyped]
from rich.console import Console
from rich.table import Table as Grid

from dev.chain.latency import summary
from dev.chain.processes import free_port, run, running
from dev.chain.servers import Chain
from dev.chain.settings import Settings
from dev.chain.topics import Topics
from ingest.errors import LakeError

ROOT = Path(__file__).resolve().parent.parent
STAGES = ("captured", "waited", "decoded", "written", "visible")
WITHIN_S = 120
out = Console()


@dataclass(frozen=True)
class Probe:
    """Where a stamped row is written, and how it is found."""

    table: str
    topic: str
    key: str
    column: str
    statement: str

    @property
    def living(self) -> str:
        """Any key that silver has."""
        return f"select {self.key} from silver_tickit.{self.table} where __deleted = 'false' order by rand() limit 1"

    def query(self, key: int) -> str:
        """The row in silver."""
        return f"select {self.column}, _hoodie_commit_time from silver_tickit.{self.table} where {self.key} = {key}"


PROBES = (
    Probe("sale", "tickit.ecomm.sale", "salesid", "commission",
          "update sale set commission = {stamp} where salesid = {key};"),
    Probe("event", "tickit.ems.event", "eventid", "eventname",
          "update ems.event set eventname = '{stamp}' where eventid = {key};"),
)  # fmt: skip


@dataclass
class Lake:
    """A served lake, what it tells, and when each batch of a table began."""

    process: subprocess.Popen[str]
    home: Path
    port: int
    began: dict[str, list[float]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)

    @property
    def is_well(self) -> bool:
        """Whether every table has begun, and none has failed."""
        return len(self.states) == 7 and set(self.states.values()) <= {"waiting", "landing"}

    def listen(self) -> None:
        """Reads the news until the process ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            news = json.loads(line)
            self.states[news["table"]] = news["state"]
            if news["state"] == "landing":
                self.began.setdefault(news["table"], []).append(datetime.fromisoformat(news["at"]).timestamp())
            if news["error"]:
                out.print(f"[red]{news['table']}: {news['error']}")

    def completed(self, table: str, requested: str) -> float:
        """When the commit that began at an instant was complete, by Hudi's timeline."""
        folder = self.home / "warehouse" / "silver_tickit.db" / table / ".hoodie" / "timeline"
        (name,) = [path.name for path in folder.glob(f"{requested}_*") if "commit" in path.suffix]
        return _instant(name.split("_")[1].split(".")[0])


def main() -> None:
    """Prints the latency of each stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60, help="Probes.")
    parser.add_argument("--rate", type=float, default=50, help="Transactions a second beside them.")
    parser.add_argument("--warm-up", type=float, default=60, help="Seconds of load before the first probe.")
    options = parser.parse_args()
    chain = chain_that_runs()
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as home,
        served(chain, Path(home)) as lake,
        _load(options.rate),
        _written(chain) as written,
    ):
        wait(lambda: lake.is_well, "all tables")
        idle = [hive.connect("127.0.0.1", port=lake.port) for _ in range(4)]
        out.print(f"{len(idle)} idle connections, {options.rate:g} transactions a second, warming up")
        time.sleep(options.warm_up)
        client = hive.connect("127.0.0.1", port=lake.port).cursor()
        found = []
        for number in range(options.count):
            probe = PROBES[number % 2]
            stages = _probe(chain, lake, written, client, probe)
            told = ", ".join(f"{name} {value:.2f}" for name, value in zip(STAGES, stages, strict=True))
            out.print(f"{number + 1:>3} {probe.table:<6} {sum(stages):5.2f} s: {told}", highlight=False)
            found.append(stages)
    grid = Grid(title=f"{options.count} probes, {options.rate:g} transactions a second", title_justify="left")
    for title in ("", "median s", "95th percentile s", "longest s"):
        grid.add_column(title, justify="right" if title else "left")
    for name, values in ("in all", [sum(each) for each in found]), *zip(STAGES, zip(*found, strict=True), strict=True):
        grid.add_row(name, *(f"{value:.2f}" for value in summary(values)))
    out.print(grid)


def _probe(
    chain: Chain, lake: Lake, written: dict[tuple[str, str], float], client: Any, probe: Probe
) -> Sequence[float]:
    """Seconds of each stage of one change."""
    # Not in step with the batches before it.
    time.sleep(random.uniform(0.0, 2.0))  # noqa: S311
    stamp = f"{random.randrange(10_000, 99_999)}.00"  # noqa: S311
    server, database = (chain.mariadb, "ecomm") if probe.table == "sale" else (chain.postgresql, "tickit")
    # A key that has gone with the load would never be found.
    client.execute(probe.living)
    ((key,),) = client.fetchall()
    statement = probe.statement.format(stamp=stamp, key=key)
    run(server.client(database), where=server.folder, text=statement, **server.client_environment())
    committed = time.time()
    deadline = time.monotonic() + WITHIN_S
    while True:
        client.execute(probe.query(key))
        ((value, requested),) = client.fetchall() or [(None, None)]
        if str(value) == stamp:
            break
        if time.monotonic() > deadline:
            raise SystemExit(f"{probe.table} {key}: not seen within {WITHIN_S} s")
        # Asking without a pause would take a processor of its own.
        time.sleep(0.2)
    seen = time.time()
    wait(lambda: (probe.topic, stamp) in written, "the record's time")
    in_kafka, writes = written[(probe.topic, stamp)], _instant(requested)
    begun = max(moment for moment in lake.began[probe.table] if moment <= writes)
    done = lake.completed(probe.table, requested)
    # A batch that has begun before the record came has listed it later than its beginning.
    begun = max(begun, in_kafka)
    return in_kafka - committed, begun - in_kafka, writes - begun, done - writes, seen - done


def _instant(text: str) -> float:
    return datetime.strptime(text, "%Y%m%d%H%M%S%f").replace(tzinfo=UTC).timestamp()


def wait(is_so: Callable[[], bool], what: str, within_s: float = 2 * WITHIN_S) -> None:
    """Waits for a condition, and ends the bench where it does not come."""
    deadline = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {within_s:g} s: {what}")
        time.sleep(0.05)


def chain_that_runs() -> Chain:
    """The chain of the environment; ends the bench where a server of it does not run."""
    chain = Chain.of(Settings.of_environment())
    if not all(running(server) for server in chain.servers):
        raise SystemExit("the chain does not run: `make up`")
    return chain


def environment(chain: Chain, home: Path) -> dict[str, str]:
    """What `lake` finds in its environment to land this chain into a lake of its own."""
    ports = {name: str(value) for name, value in chain.settings.ports.items()}
    return {**os.environ, **ports, **chain.settings.passwords, "LAKE_HOME": str(home),
            "TICKIT_CONNECTION": "tickit_kafka"}  # fmt: skip


@contextmanager
def served(chain: Chain, home: Path, *options: str) -> Iterator[Lake]:
    """`lake serve --ingest tickit` on a lake of its own, until the block ends."""
    port = free_port()
    variables = {**environment(chain, home), "LAKE_THRIFT_PORT": str(port)}
    command = [sys.executable, "-m", "ingest", "serve", "--ingest", "tickit", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=variables) as process:
        lake = Lake(process, home, port)
        threading.Thread(target=lake.listen, daemon=True).start()
        try:
            yield lake
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(WITHIN_S)


@contextmanager
def _load(rate: float) -> Iterator[None]:
    """TICKIT's changes at a rate, until the block ends."""
    command = [sys.executable, "-m", "dev.chain", "changes", "--rate", str(rate)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        try:
            yield
            if process.poll() is not None:
                raise SystemExit("the load has ended before the probes: `up --row-changes` makes the history longer")
        finally:
            process.terminate()
            process.wait(WITHIN_S)


@contextmanager
def _written(chain: Chain) -> Iterator[dict[tuple[str, str], float]]:
    """When Kafka was given each stamp, by topic: filled while the block runs."""
    topics, moments = Topics(chain.kafka, chain.registry), dict[tuple[str, str], float]()
    names = "|".join(re.escape(probe.topic) for probe in PROBES)
    columns = {probe.topic.rpartition(".")[2]: (probe.topic, probe.column) for probe in PROBES}
    with topics.reading(names, from_beginning=False) as coming:

        def note() -> None:
            with suppress(LakeError):  # the consumer has ended, with the block
                for record in coming:
                    value = topics.decode(record.value)
                    if value and value["__table"] in columns:
                        topic, column = columns[value["__table"]]
                        moments[(topic, str(value[column]))] = record.written_ms / 1000

        threading.Thread(target=note, daemon=True).start()
        yield moments


if __name__ == "__main__":
    main()
