"""Looks at what the connections of a source lead to, without Spark: topics' folders, brokers, registries, databases.

What only Spark can look at (HDFS, an object store) is left to `lake plan`. Everything is looked at at once, for less
than two seconds in all.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from ingest.config.connections import (
    FilesConnection,
    JdbcConnection,
    KafkaConnection,
    KinesisConnection,
    RegistryConnection,
)
from ingest.config.project import Project
from ingest.config.tables import Table
from ingest.errors import AbsentError, InputError, LakeError, UnavailableError
from ingest.sources.files import no_such_folder
from ingest.sources.kinesis_client import StreamClient, require_boto3
from ingest.sources.raw import encoding_of

# In seconds: for one server to answer, for all servers of a connection, and for everything.
_ONE_S, _SERVERS_S, _ALL_S = 1.0, 1.2, 1.4
# host:port, as Kafka's own clients read it (org.apache.kafka.common.utils.Utils, HOST_PORT_PATTERN).
_BROKER = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]+)\]?:([0-9]+)")
_JDBC = re.compile(r"jdbc:(postgresql|mariadb)://([^/?;]*)")
_SERVER = re.compile(r"\[?([^\[\]()]*?)\]?(?::([0-9]+))?")
_PORTS = {"postgresql": 5432, "mariadb": 3306}

# What was found; raises LakeError where it is not there, or does not answer.
Look = Callable[[], str]
_Server = tuple[str, int]


@dataclass(frozen=True)
class Seen:
    """What was looked at, and what was found there; or the error, where it is not there or does not answer."""

    what: str
    found: str = ""
    error: LakeError | None = None


def look(project: Project, tables: Sequence[Table], beside: Mapping[str, Look] | None = None) -> list[Seen]:
    """What the connections of some tables lead to: an item for each table, then one for each server, in order, and
    what is looked at `beside` them.

    Of files on this machine's file systems, the folder of each topic must be there. Of Kinesis, the stream must, and
    may be described. Of a Kafka cluster, one of the brokers must answer; of a registry, the registry; of a database,
    its server. Whether these let in who asks is not tried, but for a registry.
    """
    if any(isinstance(table.connection, KinesisConnection) for table in tables):
        # Its import takes a third of the time that there is for the answers.
        with suppress(LakeError):
            require_boto3()
    looks: dict[str, Look] = {}
    for table in tables:
        looks[table.name] = partial(_topic, project, table, table.options.topic)
    for table in tables:
        looks |= _beside(project, table)
    looks |= beside or {}
    return [
        Seen(what, error=found) if isinstance(found, LakeError) else Seen(what, found)
        for what, found in _together(looks, _ALL_S).items()
    ]


def _beside(project: Project, table: Table) -> dict[str, Look]:
    """What is looked at once for all tables that have it."""
    looks: dict[str, Look] = {}
    connection, options = table.connection, table.options
    if options.consistent == "transaction":
        looks["transactions"] = partial(_transactions, project, table)
    if isinstance(connection, KafkaConnection):
        looks[f"connection {options.connection}"] = partial(_brokers, connection, options.connection)
    if connection.registry:
        looks[f"registry {connection.registry.url}"] = partial(_registry, connection.registry)
    if table.database and options.database:
        name = options.database.connection
        looks[f"database {name}"] = partial(_database, table.database, name)
    return looks


def _together(looks: Mapping[str, Look], seconds: float) -> dict[str, str | LakeError]:
    """What each look finds, or its error; one that takes longer has not been answered."""
    found: dict[str, str | LakeError] = {}

    def run(what: str, look: Look) -> None:
        try:
            found[what] = look()
        except LakeError as error:
            found[what] = error

    until = time.monotonic() + seconds
    # As daemons: a name server, or a network's file system, that hangs must not keep the command from ending.
    threads = [threading.Thread(target=run, args=item, daemon=True) for item in looks.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    silence = f"nothing answers within {seconds:.1f} seconds"
    return {what: found.get(what) or UnavailableError(silence, where=what) for what in looks}


def _topic(project: Project, table: Table, topic: str) -> str:
    """A topic of a table: its stream; or its folder, where that is on a file system of this machine."""
    connection = table.connection
    if isinstance(connection, KinesisConnection):
        return _stream(connection, topic)
    if not isinstance(connection, FilesConnection):
        pattern = table.options.topic_pattern
        return topic if pattern is None else f"topics like {pattern}"
    path = connection.folder_of(topic)
    folder = _local(project, path)
    if folder is None:
        return f"{path}, which only `lake plan` looks at"
    until = time.monotonic() + _ONE_S
    number = 0
    try:
        if not folder.is_dir():
            raise no_such_folder(str(folder))
        for number, _ in enumerate(_event_files(folder), start=1):
            if time.monotonic() > until:
                return f"{topic}, more than {number:,} files of events"
    except OSError as error:
        raise InputError(
            f"the folder cannot be read: {error.strerror}",
            where=str(error.filename or folder),
            expected="a folder this user may read",
            action="check the rights of the folder and of those above it",
        ) from error
    return f"{topic}, {number:,} files of events"


def _transactions(project: Project, table: Table) -> str:
    """The transaction topic of a table's source, which Debezium makes with the first transaction."""
    try:
        return _topic(project, table, table.transaction_topic)
    except AbsentError:
        return f"{table.transaction_topic}, which is not there: no transaction has ended"


def _stream(connection: KinesisConnection, name: str) -> str:
    stream = StreamClient(connection, quick=True).stream(name)
    open_ = sum(not shard.is_closed for shard in stream.shards)
    return f"{name}, {open_:,} open shards, keeps records for {stream.retention_ms // 3_600_000} hours"


def _local(project: Project, path: str) -> Path | None:
    """The path on this machine; None where Hadoop takes it for another file system's."""
    if found := re.fullmatch(r"file:(?://)?(/.*)", path):
        return Path(found[1])
    settings = project.target.get("server_side_parameters") or {}
    standard = str(settings.get("spark.hadoop.fs.defaultFS", "file:///"))
    is_configured = (Path(os.environ.get("HADOOP_CONF_DIR") or "/nowhere") / "core-site.xml").is_file()
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path) or is_configured or not standard.startswith("file:"):
        return None
    return project.root / path


def _event_files(folder: Path) -> Iterator[str]:
    """The files of events below a folder, without those that Spark's listing leaves out."""

    def tell(error: OSError) -> None:
        raise error

    for _, folders, files in os.walk(folder, onerror=tell, followlinks=True):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        yield from (name for name in files if not _is_hidden(name) and encoding_of(name))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _brokers(connection: KafkaConnection, name: str) -> str:
    servers = []
    for text in re.split(r"[\s,]+", connection.bootstrap_servers.strip(" ,")):
        matched = _BROKER.fullmatch(text)
        if not matched or int(matched[2]) > 0xFFFF:
            raise InputError(
                f"bootstrap_servers names '{text}'",
                where=f"connection {name}",
                expected="host:port, with commas between",
            )
        servers.append((matched[1], int(matched[2])))
    return _answering(servers, f"connection {name}", "a Kafka broker", "`bootstrap_servers` of the connection")


def _database(connection: JdbcConnection, name: str) -> str:
    matched = _JDBC.match(connection.url)
    assert matched is not None  # as the connection's own check has it
    found = [_SERVER.fullmatch(text) for text in matched[2].split(",")]
    servers = [(each[1] or "localhost", int(each[2] or _PORTS[matched[1]])) for each in found if each]
    if len(servers) < len(found):
        return "which only `lake reconcile` looks at"
    expected = f"a {matched[1]} server"
    return _answering(servers, f"database {name}", expected, "`url` of the connection, which `lake reconcile` reads")


def _answering(servers: Sequence[_Server], where: str, expected: str, check: str) -> str:
    """Which of the servers answer and which do not, in words.

    Raises
    ------
    UnavailableError
        None does.
    """
    found = _together({_shown(server): partial(_connect, server) for server in servers}, _SERVERS_S)
    silent = [f"{name} does not: {it.found}" for name, it in found.items() if isinstance(it, LakeError)]
    if len(silent) < len(found):
        answering = ", ".join(name for name, it in found.items() if not isinstance(it, LakeError))
        return "; ".join([f"{answering} answers", *silent])
    raise UnavailableError(
        "; ".join(f"{name}: {it.found}" for name, it in found.items() if isinstance(it, LakeError)),
        where=where,
        expected=f"{expected} that answers",
        action=f"check {check}, whether it runs, and whether it can be reached from this machine",
    )


def _connect(server: _Server) -> str:
    try:
        with socket.create_connection(server, timeout=_ONE_S):
            return _shown(server)
    except (OSError, UnicodeError) as error:
        message = str(getattr(error, "strerror", None) or error)
        raise UnavailableError(message, where=_shown(server)) from error


def _shown(server: _Server) -> str:
    host, port = server
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _registry(connection: RegistryConnection) -> str:
    try:
        response = httpx.get(connection.url, auth=connection.auth, timeout=_ONE_S)
    except (httpx.HTTPError, httpx.InvalidURL, ImportError, ValueError, OSError) as error:
        raise UnavailableError(
            f"the schema registry cannot be reached: {error}",
            where=connection.url,
            expected="a registry that answers",
            action="check `registry.url` of the connection, whether it runs and can be reached from this machine, and "
            "what the environment has in ALL_PROXY, HTTPS_PROXY, HTTP_PROXY and SSL_CERT_FILE",
        ) from error
    if response.status_code in (401, 403) or response.status_code >= 500:
        action = "see the registry's log" if response.status_code >= 500 else "check username and password"
        raise UnavailableError(
            f"the schema registry answers with {response.status_code} {response.reason_phrase}",
            where=connection.url,
            expected="a registry that lets this connection in",
            action=f"{action} of the connection's registry" if response.status_code < 500 else action,
        )
    return "answers"
