"""`lake check` looks at a declaration and its connections without Spark: no Java is needed, and none is started."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY, DbtProject, MakeProject, pg, table_of
from pyspark import SparkContext
from typer.testing import CliRunner, Result

from ingest.cli.app import app
from ingest.sources import reach

NOTE = {"id": "int", "name": "string"}
TEMPLATE = "{{ env_var('LAKE_TEST_PASSWORD') }}"


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    """None may be started: whatever asks for a JVM fails."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("lake check has asked for a JVM")

    monkeypatch.setattr(SparkContext, "_ensure_initialized", refuse)


def check(project: DbtProject, code: int = 0) -> Result:
    """Runs `lake check`; its exit code must be `code`."""
    result = CliRunner().invoke(app, ["check", "shop", "--project-dir", str(project.root)], env={"COLUMNS": "240"})
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


def lines(result: Result) -> list[str]:
    """What is told of each table and server."""
    return result.stdout.splitlines()[1:]


def connect(project: DbtProject, **connections: dict[str, Any]) -> None:
    (project.root / "connections.yml").write_text(yaml.safe_dump(connections), encoding="utf-8")


@contextmanager
def listening() -> Iterator[int]:
    """A server that takes connections and says nothing; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def answering(status: int) -> Iterator[tuple[str, list[str | None]]]:
    """A registry that answers everything with that status; its URL, and the credentials it was asked with."""
    asked: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Authorization"))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def closed() -> int:
    """A port that nothing listens on."""
    with listening() as port:
        return port


def test_a_command_without_java_checks_a_source(make_project: MakeProject, tmp_path: Path) -> None:
    project = make_project({"tables": [table_of("note", NOTE, ["id"])]})
    project.deliver("shop.note", 0, [pg("c", 1, id=1, name="a")])
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    # An empty folder in place of every command: `java` is not found.
    environment |= {
        "PATH": str(tmp_path / "nothing"),
        "JAVA_HOME": str(tmp_path / "nothing"),
        "PYTHONPATH": str(REPOSITORY),
    }
    command = [sys.executable, "-m", "ingest", "check", "shop", "--project-dir", str(project.root)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "declaration models/_sources.yml: 1 tables, well",
        "note: shop.note, 1 files of events",
    ]


def test_files_are_counted_as_a_run_would_take_them(make_project: MakeProject) -> None:
    project = make_project({"tables": [table_of("note", NOTE, ["id"]), table_of("other", NOTE, ["id"])]})
    path = project.deliver("shop.note", 0, [pg("c", 1, id=1, name="a")])
    for name in ("deeper/a.avro", "a.parquet", "a.jsonl", "_unfinished.json", ".hidden/a.json", "_tmp/a.json", "a.txt"):
        (path.parent / name).parent.mkdir(exist_ok=True)
        (path.parent / name).write_text("", encoding="utf-8")
    (project.bronze / "shop.other").mkdir()
    assert lines(check(project)) == ["note: shop.note, 4 files of events", "other: shop.other, 0 files of events"]
    # A path may be a URI, or relative to the project.
    for written in (project.bronze.as_uri(), "bronze/"):
        connect(project, files={"type": "files", "path": written})
        assert lines(check(project))[0] == "note: shop.note, 4 files of events"


def test_each_topic_whose_folder_is_missing_is_named(make_project: MakeProject) -> None:
    project = make_project({"tables": [table_of(name, NOTE, ["id"]) for name in ("note", "other", "third")]})
    project.deliver("shop.other", 0, [])
    result = check(project, code=1)
    assert lines(result) == ["other: shop.other, 1 files of events"]
    assert result.stderr.count("there is no such folder") == 2
    for name in ("note", "third"):
        assert f"error {project.bronze}/shop.{name}: there is no such folder" in result.stderr
    assert "check `topic` in the declaration and `path` of the connection" in result.stderr


def test_the_folder_of_a_sources_transactions_may_be_there(make_project: MakeProject) -> None:
    ingest = {"consistent": "transaction", "transaction_topic": "shop.transaction"}
    project = make_project({"config": {"meta": {"ingest": ingest}}, "tables": [table_of("note", NOTE, ["id"])]})
    project.deliver("shop.note", 0, [])
    assert lines(check(project))[1] == "transactions: shop.transaction, which is not there: no transaction has ended"
    (project.bronze / "shop.transaction").mkdir()
    assert lines(check(project)) == [
        "note: shop.note, 1 files of events",
        "transactions: shop.transaction, 0 files of events",
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_may_not_be_read_is_named(make_project: MakeProject) -> None:
    project = make_project({"tables": [table_of("note", NOTE, ["id"])]})
    folder = project.deliver("shop.note", 0, []).parent
    folder.chmod(0)
    try:
        told = check(project, code=1).stderr
    finally:
        folder.chmod(0o700)
    assert f"{folder}: the folder cannot be read: Permission denied" in told


@pytest.mark.parametrize("path", ["s3a://bucket/bronze", "hdfs:///bronze"])
def test_what_only_spark_can_look_at_is_said_to_be(path: str, make_project: MakeProject) -> None:
    project = make_project({"tables": [table_of("note", NOTE, ["id"])]})
    connect(project, files={"type": "files", "path": path})
    assert lines(check(project)) == [f"note: {path}/shop.note, which only `lake plan` looks at"]


def test_a_path_is_not_this_machines_where_hadoop_has_another_file_system(
    make_project: MakeProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project({"tables": [table_of("note", NOTE, ["id"])]})
    (tmp_path / "core-site.xml").write_text("<configuration/>", encoding="utf-8")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert lines(check(project)) == [f"note: {project.bronze}/shop.note, which only `lake plan` looks at"]
    connect(project, files={"type": "files", "path": project.bronze.as_uri()})
    assert "there is no such folder" in check(project, code=1).stderr


def test_one_broker_must_answer(make_project: MakeProject) -> None:
    project = make_project({"tables": [table_of("note", NOTE, ["id"]), table_of("other", NOTE, ["id"])]})
    dead = closed()
    with listening() as port:
        servers = f"PLAINTEXT://127.0.0.1:{port}, 127.0.0.1:{dead}"
        connect(project, files={"type": "kafka", "bootstrap_servers": servers})
        told = lines(check(project))
        assert told[:2] == ["note: shop.note", "other: shop.other"]
        assert told[2:] == [
            f"connection files: 127.0.0.1:{port} answers; 127.0.0.1:{dead} does not: Connection refused"
        ]
    connect(project, files={"type": "kafka", "bootstrap_servers": f"127.0.0.1:{dead}"})
    silent = check(project, code=1)
    assert f"error connection files: 127.0.0.1:{dead}: Connection refused" in silent.stderr
    assert "expected: a Kafka broker that answers" in silent.stderr
    assert "check `bootstrap_servers` of the connection" in silent.stderr
    assert silent.stderr.count("error ") == 1, "one error for both tables"


@pytest.mark.parametrize("servers", ["127.0.0.1", "127.0.0.1:99999", "http://here:9092/"])
def test_brokers_are_named_by_host_and_port(servers: str, make_project: MakeProject) -> None:
    project = make_project({"tables": [table_of("note", NOTE, ["id"])]})
    connect(project, files={"type": "kafka", "bootstrap_servers": servers})
    told = check(project, code=1).stderr
    assert f"connection files: bootstrap_servers names '{servers}'" in told
    assert "host:port" in told


def test_a_registry_must_answer_and_let_the_connection_in(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_TEST_PASSWORD", "canary")
    project = make_project({"tables": [table_of("note", NOTE, ["id"])]})
    project.deliver("shop.note", 0, [])

    def registry(url: str) -> None:
        project.connect({"registry": {"url": url, "username": "lake", "password": TEMPLATE}})

    for status, told in ((200, ""), (404, ""), (401, "check username and password"), (503, "see the registry's log")):
        with answering(status) as (url, asked):
            registry(url)
            result = check(project, code=1 if told else 0)
            assert asked[0] is not None
            assert asked[0].startswith("Basic ")
        assert told in result.stderr
        assert (f"registry {url}: answers" in result.stdout) == (not told)
        assert "canary" not in result.output
    registry(f"http://127.0.0.1:{closed()}")
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy:1080")
    assert "the schema registry cannot be reached: Using SOCKS proxy" in check(project, code=1).stderr
    monkeypatch.delenv("ALL_PROXY")
    told = check(project, code=1).stderr
    assert "the schema registry cannot be reached" in told
    assert "canary" not in told


def test_a_databases_server_must_answer(make_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_TEST_PASSWORD", "canary")
    project = make_project({"tables": [table_of("note", NOTE, ["id"], database={"connection": "shop_db"})]})
    project.deliver("shop.note", 0, [])
    files = {"type": "files", "path": str(project.bronze)}

    def database(url: str) -> None:
        connect(project, files=files, shop_db={"type": "jdbc", "url": url, "user": "lake", "password": TEMPLATE})

    with listening() as port:
        database(f"jdbc:postgresql://127.0.0.1:{port}/shop?ssl=true")
        assert lines(check(project))[1:] == [f"database shop_db: 127.0.0.1:{port} answers"]
        database(f"jdbc:mariadb://127.0.0.1:{closed()},127.0.0.1:{port}/shop")
        assert f"127.0.0.1:{port} answers; " in lines(check(project))[1]
    database(f"jdbc:mariadb://127.0.0.1:{port}/shop")
    told = check(project, code=1).stderr
    assert f"database shop_db: 127.0.0.1:{port}: Connection refused" in told
    assert "expected: a mariadb server that answers" in told
    database("jdbc:mariadb://address=(host=one)(port=1)/shop")
    assert lines(check(project))[1:] == ["database shop_db: which only `lake reconcile` looks at"]


def test_a_server_has_its_databases_port_where_none_is_given(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def connected(server: tuple[str, int], timeout: float) -> socket.socket:
        assert timeout <= 2
        asked.append(server)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", connected)
    monkeypatch.setenv("LAKE_TEST_PASSWORD", "x")
    project = make_project({"tables": [table_of("note", NOTE, ["id"], database={"connection": "db"})]})
    urls = {"jdbc:postgresql://db.shop/x": ("db.shop", 5432), "jdbc:mariadb://db.shop": ("db.shop", 3306),
            "jdbc:postgresql:///x": ("localhost", 5432), "jdbc:postgresql://[::1]:5433/x": ("::1", 5433)}  # fmt: skip
    for url, server in urls.items():
        connection = {"type": "jdbc", "url": url, "user": "u", "password": TEMPLATE}
        connect(project, files={"type": "files", "path": "s3a://b"}, db=connection)
        check(project, code=1)
        assert asked.pop() == server


def test_what_hangs_is_told_and_does_not_keep_the_command_waiting(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that does not answer: a connection's own timeout begins only once it has."""
    over = threading.Event()

    def connected(*_: object, **__: object) -> socket.socket:
        over.wait(60)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", connected)
    monkeypatch.setattr(reach, "_SERVERS_S", 0.1)
    project = make_project({"tables": [table_of("note", NOTE, ["id"])]})
    connect(project, files={"type": "kafka", "bootstrap_servers": "nowhere.invalid:9092"})
    try:
        told = check(project, code=1).stderr
    finally:
        over.set()
    assert "nowhere.invalid:9092: nothing answers within 0.1 seconds" in told


def test_help_needs_no_java(tmp_path: Path) -> None:
    environment = {
        "PATH": str(tmp_path),
        "JAVA_HOME": str(tmp_path),
        "PYTHONPATH": str(REPOSITORY),
        "HOME": str(tmp_path),
    }
    code = (
        "import json, sys\nfrom ingest.cli.app import app\napp(['--help'], standalone_mode=False)\n"
        "from pyspark import SparkContext\nprint(json.dumps([SparkContext._gateway, SparkContext._jvm]))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "check" in done.stdout
    assert json.loads(done.stdout.splitlines()[-1]) == [None, None]
