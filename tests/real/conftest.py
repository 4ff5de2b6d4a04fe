"""Real servers for the tests marked `real`: PostgreSQL and MariaDB, on loopback, in folders of their own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PASSWORD = "not-a-secret"  # noqa: S105 - of servers that live as long as the tests
_STARTS_WITHIN = 90


@dataclass(frozen=True)
class Server:
    """A running database server."""

    url: str
    client: tuple[str, ...]
    user: str = "lake"

    def run(self, script: str) -> None:
        """Runs SQL; the first error fails the test."""
        done = subprocess.run(self.client, input=script, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """PostgreSQL with a database `shop`."""
    binaries = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
    if binaries is None:
        pytest.fail("PostgreSQL is not installed: run dev/servers.sh")
    with _folder("postgres") as (folder, user):
        password = folder / "password"
        password.write_text(PASSWORD, encoding="utf-8")
        password.chmod(0o644)
        data, port = folder / "data", _free_port()
        _run([*user, f"{binaries}/initdb", "-D", f"{data}", "-U", "lake", "-A", "scram-sha-256", "--pwfile",
              f"{password}", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"])  # fmt: skip
        command = [*user, f"{binaries}/postgres", "-D", f"{data}", "-p", f"{port}", "-h", "127.0.0.1", "-k",
                   f"{folder}", "-c", "fsync=off", "-c", "timezone=Asia/Tokyo"]  # fmt: skip
        login = f"host=127.0.0.1 port={port} user=lake password={PASSWORD}"
        client = (f"{binaries}/psql", "-q", "-v", "ON_ERROR_STOP=1", "-d")
        with _running(command, folder, [*client, f"{login} dbname=postgres", "-c", "select 1"]):
            _run([*client, f"{login} dbname=postgres", "-c", "create database shop"])
            yield Server(f"jdbc:postgresql://127.0.0.1:{port}/shop", (*client, f"{login} dbname=shop"))


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Server]:
    """MariaDB with a database `shop`."""
    server = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
    if server is None:
        pytest.fail("MariaDB is not installed: run dev/servers.sh")
    with _folder("mysql") as (folder, user):
        data, port, script = folder / "data", _free_port(), folder / "init.sql"
        _run([*user, "mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db",
              "--auth-root-authentication-method=normal"])  # fmt: skip
        script.write_text(
            f"create user lake@'127.0.0.1' identified by '{PASSWORD}';\ngrant all on *.* to lake@'127.0.0.1';\n"
            "create database shop character set utf8mb4;\n",
            encoding="utf-8",
        )
        script.chmod(0o644)
        command = [*user, server, "--no-defaults", f"--datadir={data}", f"--port={port}", "--bind-address=127.0.0.1",
                   f"--socket={folder}/socket", f"--pid-file={folder}/pid", f"--init-file={script}", "--skip-log-bin",
                   "--default-time-zone=+09:00", "--innodb-flush-log-at-trx-commit=0"]  # fmt: skip
        client = ("mariadb", "--no-defaults", "-h127.0.0.1", f"-P{port}", "-ulake", f"-p{PASSWORD}",
                  "--default-character-set=utf8mb4", "shop")  # fmt: skip
        with _running(command, folder, [*client, "-e", "select 1"]):
            yield Server(f"jdbc:mariadb://127.0.0.1:{port}/shop", client)


@contextmanager
def _folder(account: str) -> Iterator[tuple[Path, list[str]]]:
    """A folder of a server, and the words before a command that run it as its owner: servers refuse root."""
    folder = Path(tempfile.mkdtemp(prefix="lake-real-"))
    try:
        if os.getuid() != 0:
            yield folder, []
            return
        entry = pwd.getpwnam(account)
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        yield folder, ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "--"]
    finally:
        shutil.rmtree(folder)


@contextmanager
def _running(command: Sequence[str], folder: Path, ready: Sequence[str]) -> Iterator[None]:
    log = folder / "log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, cwd="/") as process:
        try:
            deadline = time.monotonic() + _STARTS_WITHIN
            while subprocess.run(ready, capture_output=True, check=False).returncode != 0:
                ended = process.poll() is not None
                assert not ended and time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr[-2000:]


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
    return port
