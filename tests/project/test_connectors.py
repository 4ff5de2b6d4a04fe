"""The connectors of deploy/connectors against what ingest needs of them, and the record of a process."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import psutil
import pytest
from conftest import REPOSITORY

from dev.chain import processes
from dev.chain.connectors import Connector, connectors
from dev.chain.processes import Server
from dev.chain.settings import Settings, read_passwords
from examples import databases, names, system
from ingest.config.connectors import LOG_COLUMNS, TRANSACTION_COLUMNS, ConnectorName
from ingest.errors import LakeError
from ingest.schema.connectors import CONNECTORS

TICKIT = connectors(databases("tickit"), with_json=True)
PLAYED = [databases(name) for name in names() if hasattr(system(name), "connectors")]
ALL = [connector for example in PLAYED for connector in connectors(example, with_json=True)]
UNWRAPPED = [connector for connector in ALL if connector.config.get("transforms") == "unwrap"]


def kind(connector: Connector) -> str:
    return connector.config["connector.class"].split(".")[3]


@pytest.mark.parametrize("connector", UNWRAPPED, ids=lambda connector: connector.name)
def test_unwrapped_events_have_every_column_that_orders_them(connector: Connector) -> None:
    handling = connector.config["transforms.unwrap.delete.tombstone.handling.mode"]
    assert handling in ("rewrite", "rewrite-with-tombstone")
    fields = connector.config["transforms.unwrap.add.fields"].split(",")
    # Debezium names a field of a block __<block>_<field>, and of the event or its source __<field>.
    added = {"__" + field.replace(".", "_") for field in fields}
    columns = (*LOG_COLUMNS[kind(connector)], *TRANSACTION_COLUMNS)  # type: ignore[index]
    for column in columns:
        assert added & set(column.names), f"{column.name} is not among {sorted(added)}"
    assert {"__op", "__name", "__db", "__table", "__source_ts_ms"} <= added


@pytest.mark.parametrize("connector", ALL, ids=lambda connector: connector.name)
def test_a_null_stays_null_where_its_column_has_a_default(connector: Connector) -> None:
    """As tests/real/test_chain.py shows by events. Apicurio's AvroConverter cannot be told."""
    writers = ["transforms.unwrap"] if connector in UNWRAPPED else []
    writers += ["value.converter"] if connector.config["value.converter"].endswith(".JsonConverter") else []
    assert all(connector.config[f"{writer}.replace.null.with.default"] == "false" for writer in writers)


@pytest.mark.parametrize("connector", ALL, ids=lambda connector: connector.name)
def test_a_connector_holds_no_secret_and_no_place(connector: Connector) -> None:
    for name, value in connector.config.items():
        if re.search(r"password|hostname|port$|bootstrap|url", name):
            assert re.fullmatch(r"\$\{env:LAKE_[A-Z_]+\}(/[a-z0-9/]+)?", value), f"{name}: {value}"


def test_connectors_share_nothing_that_one_of_them_owns() -> None:
    for name in ("slot.name", "publication.name", "database.server.id", "schema.history.internal.kafka.topic"):
        owned = [connector.config[name] for connector in ALL if name in connector.config]
        assert len(owned) == len(set(owned)) >= 2, name
    assert {connector.config["topic.prefix"] for connector in TICKIT} == {"tickit", "tickit_json"}


def test_every_connector_that_can_be_declared_has_an_object_whose_order_is_by_its_own_columns() -> None:
    assert set(CONNECTORS) == {*get_args(ConnectorName), None}
    for name, connector in CONNECTORS.items():
        columns = {column.name for column in connector.log_columns}
        order = set(connector.order.columns) if connector.order else set()
        assert order <= columns
        assert bool(order) == (name is not None)


def test_only_the_objects_of_connectors_know_their_names() -> None:
    known = {"config/connectors.py", "schema/connectors.py"}
    # Of a database that is asked by JDBC the dialect has the same name; of a stream's record the field of its change.
    dialects = {"operations/databases/rows.py", "sources/reach.py", "decode/dynamodb.py"}
    found = set()
    for path in (REPOSITORY / "ingest").rglob("*.py"):
        texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        if texts & set(get_args(ConnectorName)) and "datasets" not in path.parts:
            found.add(str(path.relative_to(REPOSITORY / "ingest")))
    assert found - dialects == known


class Sleeper(Server):
    """A server that does nothing."""

    name = "sleeper"
    port_variable = "SLEEPER_PORT"

    def prepare(self) -> None:
        """Nothing."""

    def command(self) -> list[str | Path]:
        """Waits for its standard input, which never ends, or to be stopped."""
        return [sys.executable, "-c", "import signal; print('waiting', flush=True); signal.pause()"]

    def is_ready(self) -> bool:
        """Whether it has said so."""
        return "waiting" in self.log.read_text(encoding="utf-8")


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Sleeper]:
    server = Sleeper(tmp_path / "sleeper", 0)  # any free port, and it listens on none
    yield server
    processes.stop(server)


def test_a_server_is_started_once_and_stopped_by_its_process(sleeper: Sleeper) -> None:
    assert processes.start(sleeper)
    process = processes.running(sleeper)
    assert process is not None
    assert not processes.start(sleeper)
    assert processes.running(sleeper) == process
    assert processes.stop(sleeper)
    assert processes.running(sleeper) is None
    assert not processes.stop(sleeper)


def test_a_running_server_is_not_moved_to_another_port(sleeper: Sleeper) -> None:
    processes.start(sleeper)
    process = processes.running(sleeper)
    with pytest.raises(LakeError, match="runs on port 0, and 1234 is wanted"):
        processes.start(Sleeper(sleeper.folder, 1234))
    assert processes.running(sleeper) == process


def test_a_process_that_got_the_number_of_ours_is_left_alone(sleeper: Sleeper) -> None:
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as other:
        try:
            sleeper.folder.mkdir()
            began = psutil.Process(other.pid).create_time() - 3600
            record = json.dumps({"pid": other.pid, "created": began, "ports": [0]})
            (sleeper.folder / "process.json").write_text(record, encoding="utf-8")
            assert processes.running(sleeper) is None
            assert not processes.stop(sleeper)
            assert other.poll() is None
        finally:
            other.kill()


def test_a_server_that_ends_is_told_with_the_last_lines_of_its_log(
    sleeper: Sleeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no room for my data')"]
    monkeypatch.setattr(Sleeper, "command", lambda _: command)
    with pytest.raises(LakeError, match="sleeper has ended") as raised:
        processes.start(sleeper)
    assert "no room for my data" in raised.value.message


def test_a_shell_reads_the_passwords_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page on the chain has them sourced: what a shell expands, or runs, may be in one that somebody has chosen."""
    chosen = "a$HOME;exit&`id`|#(b)"
    monkeypatch.setenv("LAKE_MARIADB_PASSWORD", chosen)
    settings = Settings(tmp_path)
    passwords = settings.passwords
    assert read_passwords(settings.secrets_file) == passwords
    script = f'source {settings.secrets_file}; printf %s "$LAKE_MARIADB_PASSWORD"'
    told = subprocess.run(["bash", "-c", script], env={}, check=True, capture_output=True, text=True)
    assert (passwords["LAKE_MARIADB_PASSWORD"], told.stdout) == (chosen, chosen)
