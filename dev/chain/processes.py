"""Starts servers, waits until they serve, and stops those that are ours, by process id."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from dev.chain.settings import HOST
from ingest.errors import LakeError

READY_WITHIN_S = 120
STOPPED_WITHIN_S = 60
_POLL_S = 0.1
_LAST_LINES = 15
_FREE_PORTS = range(10_000, 32_768)


class Server(ABC):
    """A server: a folder of its own with data, `log` and `process.json`, and a port on loopback."""

    name: str
    port_variable: str = ""
    stop_signal = signal.SIGTERM

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port

    @property
    def log(self) -> Path:
        """What the server says; a new start adds to it."""
        return self.folder / "log"

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"{HOST}:{self.port}"

    @property
    def ports(self) -> Sequence[int]:
        """Every port it listens on."""
        return (self.port,)

    @abstractmethod
    def prepare(self) -> None:
        """Makes what a start needs and finds made what an earlier one has made."""

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """The command that becomes the server. It holds no secret: every user of the machine can read it."""

    def environment(self) -> Mapping[str, str]:
        """What the server finds in its environment beside PATH and the like."""
        return {}

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it does its work for clients, now."""


def running(server: Server) -> psutil.Process | None:
    """The server's process, if it lives and is the one that was started here, not another that got its number."""
    kept = _record(server)
    try:
        process = psutil.Process(kept["pid"]) if kept else None
        if process and abs(process.create_time() - kept["created"]) < 1 and process.status() != psutil.STATUS_ZOMBIE:
            return process
    except psutil.NoSuchProcess:
        pass
    return None


def start(server: Server) -> bool:
    """Sees to it that a server runs and is ready; False where it did already.

    Raises
    ------
    LakeError
        One of its ports is taken, it ended, or it is not ready in time; with the last lines of its log.
    """
    process = running(server)
    if process is not None and _record(server)["ports"] != list(server.ports):
        raise LakeError(
            f"it runs on port {_record(server)['ports'][0]}, and {server.port} is wanted",
            where=server.name,
            action=f"unset {server.port_variable}; or `make down` with the old port, then `make up`",
        )
    if process is not None and server.is_ready():
        return False
    if process is None:
        for port in server.ports:
            _require_free(server, port)
        server.folder.mkdir(parents=True, exist_ok=True)
        server.prepare()
        process = _spawn(server)
    wait_until(
        server.is_ready,
        f"{server.name} is not ready",
        server=server,
        gone=lambda: None if running(server) else f"{server.name} has ended",
    )
    return True


def stop(server: Server) -> bool:
    """Stops a server if it runs; False where it did not."""
    process = running(server)
    record = server.folder / "process.json"
    if process is None:
        record.unlink(missing_ok=True)
        return False
    process.send_signal(server.stop_signal)
    deadline = time.monotonic() + STOPPED_WITHIN_S
    while running(server):
        if time.monotonic() > deadline:
            process.kill()
        time.sleep(_POLL_S)
    record.unlink(missing_ok=True)
    return True


def wait_until(
    is_done: Callable[[], bool],
    otherwise: str,
    *,
    server: Server,
    gone: Callable[[], str | None] = lambda: None,
) -> None:
    """Waits for a condition; `gone` says why there is no point in waiting on.

    Raises
    ------
    LakeError
        Not in time, or no point; with the last lines of the server's log.
    """
    deadline = time.monotonic() + READY_WITHIN_S
    while not is_done():
        reason = gone()
        if reason or time.monotonic() > deadline:
            lines = server.log.read_text(encoding="utf-8", errors="replace").splitlines() if server.log.exists() else []
            told = "\n".join(f"    {line}" for line in lines[-_LAST_LINES:])
            raise LakeError(
                f"{reason or f'{otherwise} after {READY_WITHIN_S} s'}; its log ends with\n{told}",
                where=str(server.log),
                action="mend what it says; `make logs` shows more, `make up` goes on",
            )
        time.sleep(_POLL_S)


def free_ports(number: int) -> list[int]:
    """So many ports of loopback that nothing listens on.

    Between 10,000 and 32,767: below those that Linux gives to connections and to whoever asks for any port
    (`ip_local_port_range`), for one of these may be somebody else's before our server is up. No seed
    decides: two tests would ask for the same.
    """
    with ExitStack() as held:
        ports: list[int] = []
        for port in random.SystemRandom().sample(_FREE_PORTS, len(_FREE_PORTS)):
            probe = held.enter_context(socket.socket())
            try:
                probe.bind((HOST, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                ports.append(port)
            if len(ports) == number:
                return ports
    raise LakeError(f"{len(ports)} free ports", where=HOST, expected=f"{number}, of {_FREE_PORTS}")


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    return free_ports(1)[0]


def owner_of(account: str, folder: Path) -> list[str]:
    """The words before a command that run it as an account of the machine, where we are root: databases refuse root.

    The folder must be reached by that account. Where one above it is closed to others (a home folder), the server
    keeps a single right of root's: to pass through and read what is closed.
    """
    if os.getuid() != 0:
        return []
    entry = _account(account, folder)
    words = ["setpriv", f"--reuid={entry[0]}", f"--regid={entry[1]}", "--clear-groups"]
    if any(not above.stat().st_mode & 0o001 for above in folder.resolve().parents):
        words += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return [*words, "--"]


def give(folder: Path, account: str) -> None:
    """Makes a folder the account's, where we are root."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.getuid() == 0:
        os.chown(folder, *_account(account, folder))


def run(command: Sequence[str | Path], *, where: Path, text: str | None = None, **environment: str) -> str:
    """Runs a command to its end; its output.

    Raises
    ------
    LakeError
        It failed; with the last lines of what it said.
    """
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, cwd="/", env={**os.environ, **environment}
    )
    if done.returncode != 0:
        told = (done.stderr.strip() or done.stdout.strip()).splitlines()[-_LAST_LINES:]
        program = next((str(word) for word in command if Path(word).is_file()), str(command[0]))
        raise LakeError(f"{Path(program).name} ended with {done.returncode}: {' / '.join(told)}", where=str(where))
    return done.stdout


def _account(account: str, folder: Path) -> tuple[int, int]:
    import pwd  # noqa: PLC0415 - not on every system

    try:
        entry = pwd.getpwnam(account)
    except KeyError:
        raise LakeError(
            f"there is no account '{account}' on this machine",
            where=str(folder),
            expected="the account that Debian's package makes: the server refuses to run as root",
            action="run dev/servers.sh, or run this as another user than root",
        ) from None
    return entry.pw_uid, entry.pw_gid


def _require_free(server: Server, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            variable = f"set {server.port_variable} to a free port, or stop" if server.port_variable else "stop"
            raise LakeError(
                f"port {port} is in use{_by_whom(port)}",
                where=server.name,
                action=f"{variable} what listens there, and run again",
            ) from None


def _by_whom(port: int) -> str:
    try:
        found = [
            connection.pid
            for connection in psutil.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN and connection.pid and connection.laddr[1:] == (port,)
        ]
        return f" by {psutil.Process(found[0]).name()}, process {found[0]}" if found else ""
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return ""


def _record(server: Server) -> dict[str, Any]:
    """What was noted of the server's process when it was started; nothing where it was not."""
    file = server.folder / "process.json"
    try:
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise LakeError("not the record of a process", where=str(file), action="remove the file") from error
    return kept


def _spawn(server: Server) -> psutil.Process:
    with server.log.open("ab") as log:
        process = subprocess.Popen(
            server.command(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, **server.environment()},
            start_new_session=True,
        )
    started = psutil.Process(process.pid)
    record = json.dumps({"pid": process.pid, "created": started.create_time(), "ports": list(server.ports)})
    (server.folder / "process.json").write_text(record, encoding="utf-8")
    _CHILDREN.append(process)
    return started


# Kept, so that a process that ends while we live is waited for.
_CHILDREN: list[subprocess.Popen[bytes]] = []
