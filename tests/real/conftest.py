"""Real servers for the tests marked `real`: PostgreSQL and MariaDB, on loopback, in folders of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from dev.chain import processes
from dev.chain.servers import MariaDB, PostgreSQL

Database = TypeVar("Database", PostgreSQL, MariaDB)
PASSWORD = "not-a-secret"  # noqa: S105 - of servers that live as long as the tests


@dataclass(frozen=True)
class Server:
    """A running database server."""

    url: str
    client: Sequence[str | Path]
    environment: Mapping[str, str]
    user: str = "lake"

    def run(self, script: str) -> None:
        """Runs SQL; the first error fails the test."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(self.client, input=script, text=True, capture_output=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """PostgreSQL with a database `shop`."""
    options = ("fsync=off", "timezone=Asia/Tokyo")
    with _running(lambda folder: PostgreSQL(folder, free_port(), PASSWORD, options)) as server:
        environment = server.client_environment()
        Server("", server.client(), environment).run("create database shop;")
        yield Server(f"jdbc:postgresql://{server.address}/shop", server.client("shop"), environment)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Server]:
    """MariaDB with a database `shop`."""
    options = ("--default-time-zone=+09:00", "--innodb-flush-log-at-trx-commit=0")
    with _running(lambda folder: MariaDB(folder, free_port(), PASSWORD, options)) as server:
        environment = server.client_environment()
        Server("", server.client(), environment).run("create database shop character set utf8mb4;")
        yield Server(f"jdbc:mariadb://{server.address}/shop", server.client("shop"), environment)


@contextmanager
def _running(made: Callable[[Path], Database]) -> Iterator[Database]:
    folder = Path(tempfile.mkdtemp(prefix="lake-real-"))
    server = made(folder)
    try:
        processes.start(server)
        yield server
    finally:
        processes.stop(server)
        shutil.rmtree(folder)


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
    return port
