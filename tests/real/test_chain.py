"""The real chain, as `make up` starts it: databases, Debezium on Kafka Connect, Kafka, a registry."""

from __future__ import annotations

import re
import signal
import socket
import stat
import uuid
from itertools import islice
from pathlib import Path

import httpx
import psutil
import pytest
from continuously import wait_until
from listening import listening

from dev.chain.connectors import FOLDER, Connector, deploy
from dev.chain.databases import system_of
from dev.chain.processes import free_port, run
from dev.chain.servers import Kafka
from dev.chain.settings import HOST, PORTS, read_passwords
from examples import databases
from examples.generating.debezium import topic_of
from examples.generating.model import replay
from ingest.config.connectors import LOG_COLUMNS
from real.live import ROW_CHANGES, SCALE, SEED, Live

pytestmark = pytest.mark.real
TICKIT = databases("tickit")


def test_every_server_listens_on_loopback_alone(live: Live) -> None:
    for name, process in live.processes().items():
        assert process is not None, name
        addresses = listening(process)
        assert addresses, name
        assert addresses <= {HOST, "::1"}, name


def test_a_clusters_id_may_begin_as_an_option_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=b"\xf8" * 16))
    Kafka(tmp_path, free_port(), free_port()).prepare()
    kept = (tmp_path / "data" / "meta.properties").read_text(encoding="utf-8").splitlines()
    assert "cluster.id=-Pj4-Pj4-Pj4-Pj4-Pj4-A" in kept


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
    files = [*live.chain.settings.home.glob("*/*.properties"), *(server.log for server in live.chain.servers)]
    for text in (*commands, *(file.read_text(encoding="utf-8", errors="replace") for file in files)):
        assert not any(secret in text for secret in secrets)


def test_the_snapshot_comes_as_avro_with_every_column_that_orders_events(live: Live) -> None:
    rows = TICKIT.snapshot(SCALE, SEED)
    events = live.events("tickit", {table: data.num_rows for table, data in rows.items()})
    for table in TICKIT.tables:
        values = events[table.full_name]
        assert sorted(value[table.key] for value in values) == rows[table.full_name].column(0).to_pylist()
        for value in values:
            assert (value["__op"], value["__deleted"]) == ("r", "false")
            assert (value["__name"], value["__table"]) == ("tickit", table.name)
            for column in LOG_COLUMNS[system_of(table)]:
                assert value[column.name] is not None, (table.full_name, column.name)
    subjects = httpx.get(f"{live.chain.registry.address}/subjects", timeout=30).json()
    assert {f"{topic_of(table)}-{part}" for table in TICKIT.tables for part in ("key", "value")} <= set(subjects)


def test_the_snapshot_comes_as_json_beside_it(live: Live) -> None:
    rows = TICKIT.snapshot(SCALE, SEED)
    events = live.events("tickit_json", {table: data.num_rows for table, data in rows.items()})
    for table in TICKIT.tables:
        values = events[table.full_name]
        assert {"before", "after", "source", "op", "transaction"} <= set(values[0])
        assert sorted(value["after"][table.key] for value in values) == rows[table.full_name].column(0).to_pylist()


@pytest.mark.parametrize("name", ["tickit-json-postgresql", "orders-outbox"])
def test_a_null_stays_null_where_its_column_has_a_default(name: str, live: Live) -> None:
    """In envelopes and unwrapped, as the connectors of JSON are set: else Kafka Connect writes the column's default."""
    prefix, server = f"nulls_{name[:6]}", live.chain.postgresql
    script = f"""create table public.{prefix} (id int primary key, note text default 'none', score int default 5);
        insert into public.{prefix} values (1, null, null), (2, 'some', 6);
        grant select on public.{prefix} to debezium; create publication {prefix} for table public.{prefix};"""
    run(server.client("tickit"), where=server.folder, text=script, **server.client_environment())
    own = {"database.dbname": "tickit", "table.include.list": f"public.{prefix}", "publication.name": prefix,
           "slot.name": prefix, "topic.prefix": prefix}  # fmt: skip
    connector = Connector(prefix, {**Connector.read(FOLDER / f"{name}.json").config, **own})
    deploy(live.chain.connect, [connector])
    topic = f"{prefix}.public.{prefix}"
    wait_until(lambda: live.topics.ends().get(topic) == 2, "two events")
    with live.topics.reading(re.escape(topic)) as coming:
        values = [live.topics.decode(record.value) for record in islice(coming, 2)]
    rows = [value.get("after", value) for value in values]
    assert sorted((row["id"], row["note"], row["score"]) for row in rows) == [(1, None, None), (2, "some", 6)]
    httpx.delete(f"{live.chain.connect.address}/connectors/{prefix}", timeout=60).raise_for_status()


def test_changes_reach_the_databases_and_their_events_can_be_ordered(live: Live) -> None:
    """After the first transactions the databases hold what the generator says, and the topics tell each change."""
    snapshot = TICKIT.snapshot(SCALE, SEED)
    transactions = TICKIT.history(snapshot, SCALE, SEED, ROW_CHANGES)[:300]
    live.well("changes", "--count", "200")
    live.well("changes", "--count", "100")  # goes on where the first has stopped
    state = replay(TICKIT.tables, snapshot, transactions)
    assert live.databases.counts() == {table.full_name: state[table.full_name].num_rows for table in TICKIT.tables}

    changed: dict[str, int] = {table: data.num_rows for table, data in snapshot.items()}
    for change in (change for each in transactions for change in each.changes):
        changed[change.table.full_name] += 2 if change.is_key_change else 1  # a delete and a create
    events = live.events("tickit", changed)
    for table in TICKIT.tables:
        columns = [column.name for column in LOG_COLUMNS[system_of(table)]]
        streamed = [event for event in events[table.full_name] if event["__op"] != "r"]
        assert len(streamed) == changed[table.full_name] - snapshot[table.full_name].num_rows, table.full_name
        is_live: dict[int, bool] = {}
        # In the order of the log; of the two events of a changed key the delete is the older.
        for event in sorted(streamed, key=lambda event: (*(event[column] for column in columns), event["__op"] != "d")):
            assert all(event[column] is not None for column in columns)
            assert event["__transaction_id"]
            assert event["__transaction_total_order"]
            is_live[event[table.key]] = event["__deleted"] == "false"
        held = set(state[table.full_name].column(0).to_pylist())
        assert {key for key, lives in is_live.items() if lives} == held & set(is_live), table.full_name


@pytest.mark.slow
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
    tables = [topic_of(table) for table in TICKIT.tables]
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
    log = live.chain.postgresql.log.read_text(encoding="utf-8").splitlines()
    assert live.well("logs", "postgresql", "--lines", "1").splitlines()[0] in log


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
    assert order == [
        "athena",
        "trino",
        "aws",
        "kinesis",
        "connect",
        "registry",
        "kafka",
        "mariadb",
        "postgresql",
    ]
    assert not [process for process in before if _lives(process)]
    assert live.well("down").count("was down") == len(order)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # whoever began it has learned of its end meanwhile
        return False
