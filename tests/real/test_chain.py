"""The real chain, as `make up` starts it: databases, Debezium on Kafka Connect, Kafka, a registry."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pytest

from conftest import REPOSITORY
from dev.chain.databases import Databases, system_of
from dev.chain.processes import running
from dev.chain.servers import Chain
from dev.chain.settings import HOST, PORTS, Settings, read_passwords
from dev.chain.topics import Record, Topics
from ingest.datasets import tickit
from ingest.datasets.debezium import topic_of
from ingest.datasets.model import Table, replay
from ingest.datasets.tickit_history import history
from ingest.decode.columns import POSITION_COLUMNS
from real.conftest import free_port

pytestmark = pytest.mark.real

SCALE, SEED, ROW_CHANGES = 0.002, 7, 2_000
_WITHIN_S = 90
TABLES = pytest.mark.parametrize("table", tickit.TABLES, ids=lambda table: table.full_name)


@dataclass(frozen=True)
class Live:
    """A chain of the tests' own."""

    environment: dict[str, str]
    chain: Chain

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """One of the chain's commands, as `make` runs it."""
        return subprocess.run(
            [sys.executable, "-m", "dev.chain", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False,
            env={**os.environ, **self.environment, **environment}, timeout=600,
        )  # fmt: skip

    def well(self, *arguments: str) -> str:
        """What a command says that must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def topics(self) -> Topics:
        return Topics(self.chain.kafka, self.chain.registry)

    @property
    def databases(self) -> Databases:
        return Databases(self.chain.settings, self.chain.postgresql, self.chain.mariadb)

    def processes(self) -> dict[str, psutil.Process | None]:
        """The process of each server."""
        return {server.name: running(server) for server in self.chain.servers}

    def records(self, topic: str, at_least: int) -> list[Record]:
        """Every record of a topic, once there are that many."""
        wait_until(lambda: self.topics.ends().get(topic, 0) >= at_least, f"{at_least} records in {topic}")
        with self.topics.reading(topic.replace(".", "[.]")) as coming:
            return list(islice(coming, self.topics.ends()[topic]))

    def rows(self, topic: str, at_least: int) -> list[dict[str, Any]]:
        """The decoded values of a topic."""
        return [self.topics.decode(record.value) for record in self.records(topic, at_least)]


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not is_so():
        assert time.monotonic() < deadline, f"not within {_WITHIN_S} s: {what}"


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    """The chain, up and filled, with both sets of connectors; in a folder that no other account may enter."""
    home = Path(tempfile.mkdtemp(prefix="lake-chain-"))
    ports = {name: free_port() for name in PORTS}
    environment = {"LAKE_HOME": str(home), **{name: str(port) for name, port in ports.items()}}
    mine = Live(environment, Chain.of(Settings(home / "servers", ports)))
    try:
        told = mine.well(
            "up", "--scale", str(SCALE), "--seed", str(SEED), "--row-changes", str(ROW_CHANGES), "--with-json"
        )
        for server in mine.chain.servers:
            assert server.address in told
        yield mine
    finally:
        mine.run("down")
        shutil.rmtree(home)


def test_every_server_listens_on_loopback_alone(live: Live) -> None:
    for name, process in live.processes().items():
        assert process is not None, name
        listening = {
            connection.laddr[0]
            for each in (process, *process.children(recursive=True))
            for connection in each.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }
        assert listening, name
        assert listening <= {HOST, f"::ffff:{HOST}", "::1"}, name


def test_a_second_up_changes_nothing(live: Live) -> None:
    before = live.processes()
    told = live.well("up", "--with-json")
    assert live.processes() == before
    assert told.count("was up") == len(before)
    assert told.count("was there") == 4
    assert "were filled" in told


def test_passwords_are_for_their_owner_alone(live: Live) -> None:
    file = live.chain.settings.secrets_file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secrets = read_passwords(file).values()
    assert len(set(secrets)) == 4
    commands = [" ".join(process.cmdline()) for process in live.processes().values() if process]
    told = [
        path.read_text(encoding="utf-8", errors="replace") for path in live.chain.settings.home.glob("*/*.properties")
    ]
    told += [server.log.read_text(encoding="utf-8", errors="replace") for server in live.chain.servers]
    for text in (*commands, *told):
        assert not any(secret in text for secret in secrets)


@TABLES
def test_the_snapshot_of_each_table_comes_as_avro(live: Live, table: Table) -> None:
    """A row for each row, its schema in the registry, and every column that ordering needs."""
    rows = tickit.snapshot(SCALE, SEED)[table.full_name]
    records = live.records(topic_of(table), rows.num_rows)[: rows.num_rows]
    assert all(record.value and record.value[0] == 0 for record in records)
    values = [live.topics.decode(record.value) for record in records]
    first = {value[table.key]: value for value in values if value["__op"] == "r"}
    assert sorted(first) == rows.column(0).to_pylist()
    for value in first.values():
        assert value["__deleted"] == "false"
        assert value["__table"] == table.name
        assert value["__name"] == "tickit"
        for column in POSITION_COLUMNS[system_of(table)]:
            assert value[column.name] is not None, column.name


@TABLES
def test_the_snapshot_of_each_table_comes_as_json_beside_it(live: Live, table: Table) -> None:
    rows = tickit.snapshot(SCALE, SEED)[table.full_name]
    values = live.rows(topic_of(table).replace("tickit.", "tickit_json.", 1), rows.num_rows)
    assert {"before", "after", "source", "op", "transaction"} <= set(values[0])
    assert sorted(value["after"][table.key] for value in values if value["op"] == "r") == rows.column(0).to_pylist()


def test_changes_reach_the_databases_and_their_events_can_be_ordered(live: Live) -> None:
    """After the first transactions the databases hold what the generator says, and the topics tell each change."""
    snapshot = tickit.snapshot(SCALE, SEED)
    transactions = history(snapshot, SCALE, SEED, ROW_CHANGES)[:300]
    live.well("changes", "--count", "200")
    live.well("changes", "--count", "100")  # goes on where the first has stopped
    state = replay(tickit.TABLES, snapshot, transactions)
    assert live.databases.counts() == {table.full_name: state[table.full_name].num_rows for table in tickit.TABLES}

    for table in tickit.TABLES:
        # A changed key is a delete and a create.
        changed = [change for each in transactions for change in each.changes if change.table is table]
        expected = len(changed) + sum(change.is_key_change for change in changed)
        values = live.rows(topic_of(table), snapshot[table.full_name].num_rows + expected)
        events = [value for value in values if value["__op"] != "r"]
        assert len(events) == expected, table.full_name
        columns = [column.name for column in POSITION_COLUMNS[system_of(table)]]
        places = [tuple(event[column] for column in columns) for event in events]
        assert not any(None in place for place in places)
        assert all(event["__transaction_id"] and event["__transaction_total_order"] for event in events)
        # The last event of a key, by its place, says what the database holds; of two in one place the delete is older.
        live_keys = {
            event[table.key]: event["__deleted"] == "false"
            for _, _, event in sorted(
                ((place, event["__deleted"] == "false", event) for place, event in zip(places, events, strict=True)),
                key=lambda one: one[:2],
            )
        }
        held = set(state[table.full_name].column(0).to_pylist())
        assert all((key in held) == is_live for key, is_live in live_keys.items()), table.full_name


def test_a_killed_connect_is_healed_by_up(live: Live) -> None:
    before = live.processes()
    killed = before["connect"]
    assert killed is not None
    killed.send_signal(signal.SIGKILL)
    wait_until(lambda: live.processes()["connect"] is None, "connect has ended")
    assert live.run("status").returncode == 1
    written = live.topics.ends()
    live.well("up", "--with-json")
    after = live.processes()
    assert after.pop("connect") not in (None, before.pop("connect"))
    assert after == before
    live.well("changes", "--count", "20")
    tables = [topic_of(table) for table in tickit.TABLES]
    wait_until(
        lambda: sum(live.topics.ends()[topic] - written[topic] for topic in tables) >= 20, "the events of 20 changes"
    )


def test_latency_is_measured(live: Live) -> None:
    told = live.well("latency", "--count", "30", "--rate", "20")
    assert "mariadb" in told
    assert "median ms" in told


def test_a_server_that_is_not_there_is_named(live: Live) -> None:
    done = live.run("logs", "oracle")
    assert done.returncode == 1
    assert "'oracle'" in done.stderr
    assert "mariadb" in done.stderr
    assert "listener" in live.well("logs", "postgresql") or "ready to accept connections" in live.well("logs")


def test_a_port_in_use_is_named_with_what_to_do(live: Live, tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        others = {name: str(free_port()) for name in PORTS}
        done = live.run("up", **{**others, "LAKE_HOME": str(tmp_path), "LAKE_KAFKA_PORT": str(port)})
        stopped = live.run("down", LAKE_HOME=str(tmp_path))
    assert done.returncode == 1
    assert f"kafka: port {port} is in use" in done.stderr
    assert "LAKE_KAFKA_PORT" in done.stderr
    assert stopped.returncode == 0


def test_down_stops_every_server_and_can_be_said_again(live: Live) -> None:
    before = [process for process in live.processes().values() if process]
    assert len(before) == 5
    told = live.well("down")
    order = [line.split()[0] for line in told.splitlines()]
    assert order == ["connect", "registry", "kafka", "mariadb", "postgresql"]
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in before)
    assert live.well("down").count("was down") == 5
