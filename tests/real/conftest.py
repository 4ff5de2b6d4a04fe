"""Real servers for the tests marked `real`, on loopback, in folders of their own: databases, Kafka, the whole chain."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from conftest import DbtProject, MakeProject, table_of
from pyspark.sql import SparkSession

from dev.chain import processes
from dev.chain.processes import free_port
from dev.chain.servers import Chain, MariaDB, PostgreSQL
from dev.chain.settings import PORTS, Settings
from real.broker import PASSWORD, Broker, GuardedKafka
from real.live import ROW_CHANGES, SCALE, SEED, Live, MakeKafka

Started = TypeVar("Started", bound=processes.Server)


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
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """MariaDB with a database `shop`, begun where TMPDIR is a folder of this user's alone."""
    options = ("--default-time-zone=+09:00", "--innodb-flush-log-at-trx-commit=0")
    patch = pytest.MonkeyPatch()
    patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("closed")))
    with _running(lambda folder: MariaDB(folder, free_port(), PASSWORD, options)) as server:
        patch.undo()
        environment = server.client_environment()
        Server("", server.client(), environment).run("create database shop character set utf8mb4;")
        yield Server(f"jdbc:mariadb://{server.address}/shop", server.client("shop"), environment)


@contextmanager
def _running(made: Callable[[Path], Started]) -> Iterator[Started]:
    folder = Path(tempfile.mkdtemp(prefix="lake-real-"))
    server = made(folder)
    try:
        processes.start(server)
        yield server
    finally:
        processes.stop(server)
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def broker(spark: SparkSession) -> Iterator[Broker]:
    """Kafka alone."""
    ports = (free_port(), free_port(), free_port())
    with _running(lambda folder: GuardedKafka(folder, *ports)) as kafka:
        yield Broker(spark, kafka)


@pytest.fixture
def make_kafka(make_project: MakeProject) -> MakeKafka:
    """Makes a project of tables with columns id and v: `make_kafka(address, topic, ...)`, with options of theirs."""

    def make(address: str, *topics: str, connection: Mapping[str, Any] | None = None, **options: Any) -> DbtProject:
        columns = {"id": "int", "v": "string"}
        tables = [
            table_of(topic.rpartition(".")[2], columns, ["id"], **{"connection": "kafka", "topic": topic, **options})
            for topic in topics
        ]
        project = make_project({"tables": tables})
        settings = {"type": "kafka", "bootstrap_servers": address, **(connection or {})}
        (project.root / "connections.yml").write_text(yaml.safe_dump({"kafka": settings}), encoding="utf-8")
        return project

    return make


@pytest.fixture(scope="session")
def live() -> Iterator[Live]:
    """The chain, up and filled, with both sets of connectors; in a folder that no other account may enter."""
    home = Path(tempfile.mkdtemp(prefix="lake-chain-"))
    ports = {name: free_port() for name in PORTS}
    environment = {"LAKE_HOME": str(home), **{name: str(port) for name, port in ports.items()}}
    mine = Live(environment, Chain.of(Settings(home / "servers", ports)))
    try:
        size = ("--scale", str(SCALE), "--seed", str(SEED), "--row-changes", str(ROW_CHANGES))
        told = mine.well("up", "--with-json", *size)
        for server in mine.chain.servers:
            assert server.address in told
        yield mine
    finally:
        mine.run("down")
        shutil.rmtree(home)
