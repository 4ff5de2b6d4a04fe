"""A lake of a test's own, worked with as users do: by commands, in processes of their own."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from conftest import REPOSITORY, Row
from continuously import wait_until
from pyhive import hive  # type: ignore[import-untyped]

from dev.chain.processes import free_port

_WITHIN_S = 300


@dataclass(frozen=True)
class Server:
    """A `lake serve`, which listens on a port of loopback, and its process."""

    port: int
    process: int = 0

    def connect(self) -> Any:
        """A client's connection, which is a session of Spark's."""
        return closing(hive.connect("127.0.0.1", port=self.port, username="analyst"))

    def ask(self, query: str) -> list[Row]:
        """The rows of a query, over a connection of its own."""
        with self.connect() as connection, closing(connection.cursor()) as cursor:
            cursor.execute(query)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def do(self, statement: str) -> None:
        """Executes a statement that has no rows: asked for them, PyHive fails."""
        with self.connect() as connection, closing(connection.cursor()) as cursor:
            cursor.execute(statement)


def asked(connection: Any, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query over a connection that stays."""
    with closing(connection.cursor()) as cursor:
        cursor.execute(query)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


@contextmanager
def serving(home: Path) -> Iterator[Server]:
    """A `lake serve` on a lake of its own, in a process of its own, for as long as the block runs."""
    home.mkdir(parents=True, exist_ok=True)
    port, log = free_port(), home / "serve.log"
    environment = {"LAKE_HOME": str(home), "LAKE_THRIFT_PORT": str(port), "LAKE_MEMORY": "1g"}
    command = [sys.executable, "-m", "ingest", "serve"]
    with (
        log.open("w") as told,
        subprocess.Popen(
            command, stdout=told, stderr=told, cwd=REPOSITORY, env={**os.environ, **environment}
        ) as process,
    ):
        try:
            wait_until(
                lambda: process.poll() is not None or "serving: " in log.read_text(),
                "`lake serve` serves, or has ended",
            )
            assert process.poll() is None, log.read_text()
            yield Server(port, process.pid)
        finally:
            process.terminate()
            process.wait()
    # What Hive logs where a connection's folder is not its own (`long_running`).
    assert "pipeout" not in log.read_text()


@dataclass
class Lake:
    """The environment of the commands, and the news of the one that runs."""

    environment: Mapping[str, str]
    _news: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)
    _batches: dict[str, int] = field(default_factory=dict)
    _states: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of `lake`, to its end."""
        return self.command(sys.executable, "-m", "ingest", *arguments)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Any command, to its end."""
        return subprocess.run(
            words, capture_output=True, text=True, check=False, cwd=REPOSITORY, env=self._variables, timeout=1500
        )

    @contextmanager
    def running(
        self, *arguments: str, until_landed: Iterable[str] = (), log: IO[str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """A command that lands continuously with --json; the block runs once these tables have landed, or any news.
        What it says beside that goes to the log, where there is one."""
        command = [sys.executable, "-m", "ingest", *arguments, "--json"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=REPOSITORY, env=self._variables
        ) as process:
            assert process.stdout is not None
            self._news, self._batches, self._states = queue.Queue(), {}, {}
            reader = threading.Thread(target=self._read, args=(process.stdout, self._news), daemon=True)
            reader.start()
            try:
                if until_landed:
                    self.wait_for(*until_landed)
                else:
                    self._hear(time.monotonic() + _WITHIN_S)
                yield process
            finally:
                process.kill()
                process.wait()
                reader.join()

    def wait_for(self, *tables: str) -> None:
        """Until there is news of a batch of each table that there was no news of before."""
        known, missing, deadline = dict(self._batches), set(tables), time.monotonic() + _WITHIN_S
        while missing:
            news = self._hear(deadline)
            missing -= {news["table"]} if news["batches"] > known.get(news["table"], 0) else set()

    def wait_until_nothing_is_tried_again(self) -> None:
        """Until no table that there was news of waits for a server that is away, or is landing yet."""
        deadline = time.monotonic() + _WITHIN_S
        while set(self._states.values()) & {"retrying", "landing"}:
            self._hear(deadline)

    def _hear(self, deadline: float) -> dict[str, Any]:
        news = self._news.get(timeout=max(0.1, deadline - time.monotonic()))
        self._batches[news["table"]], self._states[news["table"]] = news["batches"], news["state"]
        return news

    @property
    def _variables(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    @staticmethod
    def _read(lines: Iterable[str], news: queue.Queue[dict[str, Any]]) -> None:
        for line in lines:
            news.put(json.loads(line))
