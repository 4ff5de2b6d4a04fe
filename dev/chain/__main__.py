"""The commands of the chain: `python -m dev.chain --help`; `make up`, `make down` and `make logs` are three of them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

import examples
from dev.chain.aws import LAKE_BUCKET, environment_of, make_buckets
from dev.chain.connectors import connectors, deploy
from dev.chain.databases import DEFAULT_ROW_CHANGES, Databases, apply_changes
from dev.chain.kinesis import declared_streams, make_streams, put_records
from dev.chain.latency import measure, summary
from dev.chain.processes import Server, running, start, stop
from dev.chain.servers import Chain
from dev.chain.settings import ROOT, Settings
from dev.chain.topics import Topics
from examples import Phase
from ingest.errors import LakeError, SetupError

app = typer.Typer(help="The real chain on one machine; see docs/operate/chain.md.", no_args_is_help=True,
                  add_completion=False, pretty_exceptions_enable=False)  # fmt: skip
out = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
err = Console(stderr=True, highlight=False)

Count = Annotated[int | None, typer.Option(min=1, help="Transactions; by default all that are left.")]
Rate = Annotated[float | None, typer.Option(min=0.01, help="Transactions a second; by default as fast as it goes.")]
Seed = Annotated[int, typer.Option(help="Seed of a system's rows and changes.")]
Example = Annotated[str, typer.Option("--system", help="The example system that has databases.")]


@contextmanager
def _told_plainly() -> Iterator[Chain]:
    """The chain of the environment; errors become their message and exit code 1."""
    try:
        yield Chain.of(Settings.of_environment())
    except LakeError as error:
        err.print(f"[bold red]error[/] {escape(error.message)}", soft_wrap=True)
        raise typer.Exit(1) from error


@contextmanager
def _alone(chain: Chain) -> Iterator[None]:
    """No other of these commands starts, fills or stops the servers meanwhile."""
    home = chain.settings.home
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SetupError("another command is at work on these servers", where=str(home),
                             action="wait for it to end") from None  # fmt: skip
        yield


def _timed(title: str, step: Callable[[], str]) -> None:
    began = time.monotonic()
    told = step()
    out.print(f"{title:<12} {told:<44} {time.monotonic() - began:6.1f} s", markup=False)


def _start(servers: Sequence[Server]) -> None:
    """Starts servers side by side; every one is waited for, then the first error is raised."""

    def begin(server: Server) -> None:
        _timed(server.name, lambda: "up" if start(server) else "was up")

    with ThreadPoolExecutor(len(servers)) as pool:
        for done in [pool.submit(begin, server) for server in servers]:
            done.result()


@app.command()
def up(
    system: Example = "tickit",
    scale: Annotated[
        float, typer.Option(help="Size of the system's databases, where they are empty; 1 is the original.")
    ] = 1,
    seed: Seed = 42,
    row_changes: Annotated[
        int, typer.Option(min=1, help="Row changes that `changes` can apply.")
    ] = DEFAULT_ROW_CHANGES,
    with_json: Annotated[
        bool, typer.Option("--with-json", help="Also the connectors that write JSON envelopes.")
    ] = False,
    with_kinesis: Annotated[
        bool, typer.Option("--with-kinesis", help="Also a stand-in for Kinesis, with the declared streams.")
    ] = False,
    athena: Annotated[
        bool,
        typer.Option("--athena", help="A local Athena instead, with S3 and Glue: nothing of the chain is started."),
    ] = False,
    stream: Annotated[list[str] | None, typer.Option(help="One more stream of it; may be given again.")] = None,
) -> None:
    """Install what is missing, start what does not run, fill empty databases, post the connectors."""
    with _told_plainly() as chain, _alone(chain):
        if athena:
            _start_athena(chain)
            return
        filled = _databases(chain, system)
        wanted = connectors(filled.example, with_json=with_json)
        if subprocess.run(["bash", ROOT / "dev" / "servers.sh"], check=False).returncode != 0:
            raise SetupError("the databases' packages are missing", where="this machine")
        *first, connect = chain.servers
        _start([*first, chain.kinesis] if with_kinesis else first)
        if with_kinesis:
            streams = [*declared_streams(), *(stream or ())]
            _timed("streams", lambda: ", ".join(make_streams(chain.kinesis.address, streams)) or "none is declared")
        _timed("tables", lambda: _fill(filled, scale, seed, row_changes))
        _start([connect])
        _timed("connectors", lambda: ", ".join(deploy(chain.connect, wanted)))
        _show(chain)


def _start_athena(chain: Chain) -> None:
    # One after the other: Trino looks for what it reads when it starts.
    for server in chain.local_athena:
        _start([server])
    _timed("buckets", lambda: ", ".join(make_buckets(chain.aws.address)))
    _show(chain)
    out.print("for dbt (--target athena) and AWS's own tools:")
    for name, value in environment_of(chain.aws.address, chain.athena.address).items():
        out.print(f"  export {name}={value}", markup=False)
    own = "/tmp/lake-athena"  # noqa: S108 - what somebody may type
    out.print(
        "it holds no table yet: land and build TICKIT, for one, with these, in a lake of its own:\n"
        f"  export LAKE_ROOT=s3://{LAKE_BUCKET}/silver\n"
        f"  lake generate tickit --out {own} --scale 0.01\n"
        f"  LAKE_HOME={own} lake ingest tickit\n"
        "  dbt build --target athena --selector tickit",
        markup=False,
        soft_wrap=True,
    )


def _databases(chain: Chain, system: str) -> Databases:
    return Databases(chain.settings, chain.postgresql, chain.mariadb, examples.databases(system))


def _fill(databases: Databases, scale: float, seed: int, row_changes: int) -> str:
    databases.create()
    progress = databases.progress()
    if progress is None:
        return f"filled with {databases.fill(scale, seed, row_changes):,} rows"
    return f"were filled, scale {progress.scale:g}, {progress.transactions:,} transactions since"


@app.command()
def down() -> None:
    """Stop the servers; databases, Kafka and the registry keep their data, the stand-ins of AWS lose theirs."""
    with _told_plainly() as chain, _alone(chain):
        for server in reversed(chain.all):
            _timed(server.name, lambda server=server: "down" if stop(server) else "was down")  # type: ignore[misc]


@app.command()
def status() -> None:
    """Show which servers run, where, and where their logs are."""
    with _told_plainly() as chain:
        _show(chain)
        raise typer.Exit(0 if all(running(server) for server in chain.servers) else 1)


@app.command()
def logs(
    server: Annotated[str | None, typer.Argument(help="One server; by default all.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until interrupted.")] = False,
    lines: Annotated[int, typer.Option(help="Last lines of each.")] = 20,
) -> None:
    """Show the end of the servers' logs."""
    with _told_plainly() as chain:
        names = [each.name for each in chain.all]
        if server is not None and server not in names:
            raise SetupError(f"no server is named '{server}'", where="logs", expected=", ".join(names))
        files = [each.log for each in chain.all if server in (None, each.name) and each.log.exists()]
        if files:
            end = ["tail", "-n", str(lines), *(["-F"] if follow else [])]
            os.execvp("tail", [*end, *map(str, files)])  # noqa: S606 - tail takes our place


@app.command()
def changes(system: Example = "tickit", count: Count = None, rate: Rate = None) -> None:
    """Apply the next transactions of a system's history to its live databases."""
    with _told_plainly() as chain, _alone(chain):
        done: Counter[str] = Counter()
        began = time.monotonic()

        try:
            apply_changes(
                _databases(chain, system), count=count, rate=rate,
                applied=lambda transaction: done.update(change.table.full_name for change in transaction.changes),
            )  # fmt: skip
        finally:
            seconds = time.monotonic() - began
            out.print(f"{done.total():,} row changes in {seconds:.1f} s: "
                      + ", ".join(f"{table} {rows:,}" for table, rows in sorted(done.items())))  # fmt: skip


@app.command()
def put(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="The example system that has a stream.")],
    phase: Annotated[Phase, typer.Option(help="What was before the changes, these, or both.")] = "all",
    scale: Annotated[float, typer.Option(help="1 is the system's original size.")] = 1,
    seed: Seed = 42,
) -> None:
    """Put a system's changes into its stream of the stand-in for Kinesis."""
    with _told_plainly() as chain:
        played, address = examples.streamed(system), chain.kinesis.address
        if running(chain.kinesis) is None:
            raise SetupError("the stand-in for Kinesis is down", where=address, action="make up KINESIS=1")
        make_streams(address, [played.stream])
        records = played.records(scale=scale, seed=seed, phase=phase)
        _timed(played.stream, lambda: f"{put_records(address, played.stream, records):,} records")


@app.command()
def latency(
    count: Annotated[int, typer.Option(min=1, help="Transactions.")] = 200,
    rate: Annotated[float, typer.Option(min=0.01, help="Transactions a second.")] = 20,
) -> None:
    """Apply changes of TICKIT, and measure the time from each commit until a consumer has its event."""
    with _told_plainly() as chain, _alone(chain):
        databases = _databases(chain, "tickit")
        measured = measure(databases, Topics(chain.kafka, chain.registry), count=count, rate=rate)
        grid = Grid(box=None, padding=(0, 2, 0, 0))
        for title in ("from commit to consumer", "changes", "median ms", "p95 ms", "max ms"):
            grid.add_column(title, justify="left" if title.startswith("from") else "right")
        for system, seconds in measured.items():
            grid.add_row(system, f"{len(seconds):,}", *(f"{1000 * value:.0f}" for value in summary(seconds)))
        out.print(grid)


@app.command()
def topics(
    name: Annotated[str | None, typer.Argument(metavar="TOPIC", help="Show this topic's first records.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many of its records.")] = 10,
) -> None:
    """List the topics and their records; or show records of one."""
    with _told_plainly() as chain:
        kafka = Topics(chain.kafka, chain.registry)
        ends = kafka.ends()
        if name is None:
            for topic, records in sorted(ends.items()):
                out.print(f"{records:>10,}  {topic}", markup=False)
        elif not ends.get(name):
            raise LakeError(f"{'no records in' if name in ends else 'no'} topic {name}", where="Kafka")
        else:
            with kafka.reading(name.replace(".", "[.]")) as coming:
                for record in islice(coming, min(count, ends[name])):
                    print(record.partition, record.offset, kafka.decode(record.key), kafka.decode(record.value))


def _show(chain: Chain) -> None:
    grid = Grid(box=None, padding=(0, 2, 0, 0))
    for title in ("server", "address", "process", "log"):
        grid.add_column(title)
    for server in chain.all:
        process = running(server)
        if process is None and server not in chain.servers:
            continue
        log = os.path.relpath(server.log, Path.cwd())
        grid.add_row(server.name, server.address, str(process.pid) if process else "down", log)
    out.print(grid)
    out.print(f"passwords: {os.path.relpath(chain.settings.secrets_file, Path.cwd())}")


if __name__ == "__main__":
    app()
