"""The commands of the chain: `python -m dev.chain --help`; `make up`, `make down` and `make logs` are three of them."""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from dev.chain.processes import Server, running, start, stop
from dev.chain.servers import servers_of
from dev.chain.settings import Settings
from ingest.errors import LakeError, SetupError

app = typer.Typer(help="The real chain on one machine.", no_args_is_help=True, add_completion=False,
                  pretty_exceptions_enable=False)  # fmt: skip
out = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
err = Console(stderr=True, highlight=False)


@contextmanager
def _alone() -> Iterator[Settings]:
    """The chain's settings, while no other of these commands starts or stops its servers; errors are told plainly."""
    try:
        settings = Settings.of_environment()
        settings.home.mkdir(parents=True, exist_ok=True)
        with (settings.home / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SetupError(
                    "another command starts or stops these servers",
                    where=str(settings.home),
                    action="wait for it to end",
                ) from None
            yield settings
    except LakeError as error:
        err.print(f"[bold red]error[/] {escape(error.message)}", soft_wrap=True)
        raise typer.Exit(1) from error


def _start(servers: Sequence[Server]) -> None:
    """Starts servers side by side; every one is waited for, then the first error is raised."""

    def timed(server: Server) -> None:
        began = time.monotonic()
        told = "up" if start(server) else "was up"
        out.print(f"{server.name:<12} {told:<8} {time.monotonic() - began:5.1f} s")

    with ThreadPoolExecutor(len(servers)) as pool:
        for done in [pool.submit(timed, server) for server in servers]:
            done.result()


@app.command()
def up() -> None:
    """Start what does not run, and wait until all of it serves."""
    with _alone() as settings:
        *first, connect = servers_of(settings)
        _start(first)
        _start([connect])
        _show(settings)


@app.command()
def down() -> None:
    """Stop the servers; what they hold stays."""
    with _alone() as settings:
        for server in reversed(servers_of(settings)):
            began = time.monotonic()
            told = "down" if stop(server) else "was down"
            out.print(f"{server.name:<12} {told:<8} {time.monotonic() - began:5.1f} s")


def _show(settings: Settings) -> None:
    grid = Grid(box=None, padding=(0, 2, 0, 0))
    for title in ("server", "address", "process", "log"):
        grid.add_column(title)
    for server in servers_of(settings):
        process = running(server)
        grid.add_row(server.name, server.address, str(process.pid) if process else "-", str(server.log))
    out.print(grid)


if __name__ == "__main__":
    app()
