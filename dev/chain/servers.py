"""The servers of the chain: how each is made, started, and known to be ready."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import struct
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import httpx

from dev.chain.artifacts import newer_java, unpacked
from dev.chain.athena.server import Athena
from dev.chain.aws import Aws
from dev.chain.kinesis import Kinesis
from dev.chain.processes import Server, give, owner_of, run
from dev.chain.settings import HOST, Settings, write_private
from dev.chain.trino import Trino
from ingest.errors import SetupError
from ingest.spark.jars import choose_java

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
# One processor's worth of Java: what lives on a laptop beside Spark must start fast and stay small.
_SMALL_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true", "-Duser.timezone=UTC")
_ANSWERS_WITHIN_S = 5
# The converter's jar does not say that it is one. Connect finds it all the same by reading every class of every plugin,
# which takes ten seconds.
_CONVERTER = ("org.apache.kafka.connect.storage.Converter", "io.apicurio.registry.utils.converter.AvroConverter")


class _Database(Server):
    """A database in a folder of its own, whose owner `lake` has a password."""

    def __init__(self, folder: Path, port: int, password: str, options: Sequence[str] = ()) -> None:
        super().__init__(folder, port)
        self._password = password
        self._options = options

    @property
    def _data(self) -> Path:
        return self.folder / "data"


class PostgreSQL(_Database):
    """PostgreSQL with logical decoding; its superuser is `lake`."""

    name = "postgresql"
    port_variable = "LAKE_POSTGRESQL_PORT"
    stop_signal = signal.SIGINT  # ends the sessions of clients; SIGTERM would wait for them

    def prepare(self) -> None:
        """A new cluster, where there is none."""
        if (self._data / "PG_VERSION").exists():
            return
        give(self._data, "postgres")
        password = self.folder / "password"
        try:
            write_private(password, self._password)
            if os.getuid() == 0:
                shutil.chown(password, "postgres")
            run([*owner_of("postgres", self._data), self._program("initdb"), "-D", self._data, "-U", "lake", "-A",
                 "scram-sha-256", "--pwfile", password, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
                where=self.folder)  # fmt: skip
        finally:
            password.unlink(missing_ok=True)

    def command(self) -> Sequence[str | Path]:
        """No socket file: a path in a deep folder is too long for one."""
        settings = ("listen_addresses=" + HOST, "unix_socket_directories=", "wal_level=logical", "timezone=UTC",
                    "max_wal_senders=8", "max_replication_slots=8", "shared_buffers=64MB", *self._options)  # fmt: skip
        return [*owner_of("postgres", self._data), self._program("postgres"), "-D", self._data, "-p", str(self.port),
                *(word for setting in settings for word in ("-c", setting))]  # fmt: skip

    def is_ready(self) -> bool:
        """Whether it answers a query."""
        return _succeeds(self.client(), self.client_environment(), "select 1")

    def client(self, database: str = "postgres", user: str = "lake") -> list[str | Path]:
        """psql, which stops at the first error."""
        login = f"host={HOST} port={self.port} user={user} dbname={database} connect_timeout={_ANSWERS_WITHIN_S}"
        return [self._program("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", login]

    def client_environment(self) -> dict[str, str]:
        """The password, where psql looks for it."""
        return {"PGPASSWORD": self._password, "PGCLIENTENCODING": "UTF8"}

    @staticmethod
    def _program(name: str) -> Path:
        found = sorted(
            Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]), reverse=True
        )
        if not found:
            raise _not_installed("PostgreSQL")
        return found[0]


class MariaDB(_Database):
    """MariaDB with a row-based log; its user `lake` owns what is in it."""

    name = "mariadb"
    port_variable = "LAKE_MARIADB_PORT"

    @property
    def _first_words(self) -> Path:
        return self.folder / "init.sql"

    @property
    def _temporary(self) -> Path:
        """Of its own: where we are root, its account may not write to the one that TMPDIR names."""
        return self.folder / "tmp"

    def prepare(self) -> None:
        """A new data folder, where there is none; and the statements that each start begins with."""
        account = owner_of("mysql", self._data)
        give(self._temporary, "mysql")
        if not (self._data / "mysql").is_dir():
            give(self._data, "mysql")
            # Root logs in through the socket alone, as this machine's user.
            run([*account, "mariadb-install-db", "--no-defaults", f"--datadir={self._data}",
                 f"--tmpdir={self._temporary}", "--skip-test-db"], where=self.folder)  # fmt: skip
        script = self._first_words
        write_private(
            script,
            f"create user if not exists lake@'{HOST}';\nalter user lake@'{HOST}' identified by '{self._password}';\n"
            f"grant all on *.* to lake@'{HOST}' with grant option;\n",
        )
        if account:
            shutil.chown(script, "mysql")

    def command(self) -> Sequence[str | Path]:
        """Its socket is in its data folder, by a short name: a path in a deep folder is too long for one."""
        return [*owner_of("mysql", self._data), _mariadbd(), "--no-defaults", f"--datadir={self._data}",
                f"--tmpdir={self._temporary}", f"--port={self.port}", f"--bind-address={HOST}",
                "--socket=mariadb.sock", "--pid-file=mariadb.pid",
                f"--init-file={self._first_words}", "--skip-name-resolve", "--log-bin=mariadb-bin",
                "--binlog-format=ROW", "--binlog-row-image=FULL", "--server-id=1", "--default-time-zone=+00:00",
                "--character-set-server=utf8mb4", "--innodb-buffer-pool-size=64M", *self._options]  # fmt: skip

    def is_ready(self) -> bool:
        """Whether it answers a query."""
        return _succeeds(self.client("mysql"), self.client_environment(), "select 1")

    def client(self, database: str = "") -> list[str | Path]:
        """The command line client, which stops at the first error."""
        program = shutil.which("mariadb")
        if program is None:
            raise _not_installed("MariaDB")
        return [program, "--no-defaults", f"--host={HOST}", f"--port={self.port}", "--user=lake", "--batch",
                "--skip-column-names", "--local-infile=1", "--default-character-set=utf8mb4",
                f"--connect-timeout={_ANSWERS_WITHIN_S}", *([database] if database else [])]  # fmt: skip

    def client_environment(self) -> dict[str, str]:
        """The password, where the client looks for it."""
        return {"MYSQL_PWD": self._password}


class Kafka(Server):
    """One Kafka node that is broker and controller at once."""

    name = "kafka"
    port_variable = "LAKE_KAFKA_PORT"

    def __init__(self, folder: Path, port: int, controller_port: int) -> None:
        super().__init__(folder, port)
        self._controller_port = controller_port

    @property
    def ports(self) -> Sequence[int]:
        """The clients' and the controller's."""
        return (self.port, self._controller_port)

    def prepare(self) -> None:
        """Its settings, and formatted storage."""
        settings = self.folder / "server.properties"
        _write_properties(settings, {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": f"{self.folder / 'data'}",
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": "16777216",
        })  # fmt: skip
        if not (self.folder / "data" / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            # In one word: of 64 ids one begins with a hyphen, as an option does.
            run([*java_command("kafka.tools.StorageTool", heap_mb=128), "format", f"--cluster-id={cluster}",
                 "-c", settings], where=self.folder)  # fmt: skip

    def command(self) -> Sequence[str | Path]:
        """The broker, with its settings in a file."""
        return [*java_command("kafka.Kafka", heap_mb=512), self.folder / "server.properties"]

    def is_ready(self) -> bool:
        """Whether it answers the request that every client begins with (ApiVersions)."""
        request = struct.pack(">hhih", 18, 0, 1, -1)
        try:
            with socket.create_connection((HOST, self.port), _ANSWERS_WITHIN_S) as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                answer = connection.recv(10)
        except OSError:
            return False
        return len(answer) == 10 and struct.unpack(">ih", answer[4:]) == (1, 0)


class Registry(Server):
    """Apicurio Registry, which keeps its schemas in a database file."""

    name = "registry"
    port_variable = "LAKE_REGISTRY_PORT"

    @property
    def address(self) -> str:
        """Its API as Confluent's clients speak it."""
        return f"http://{HOST}:{self.port}/apis/ccompat/v7"

    def prepare(self) -> None:
        """Nothing: it makes its database."""

    def command(self) -> Sequence[str | Path]:
        """The registry, with settings that are no secret."""
        settings = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": self.port,
            # Health and metrics, which would listen on every address of the machine; nobody asks for them here.
            "quarkus.management.host": HOST,
            "quarkus.management.port": 0,
            "apicurio.storage.kind": "sql",
            "apicurio.storage.sql.kind": "h2",
            "apicurio.datasource.url": f"jdbc:h2:file:{self.folder / 'data' / 'registry'}",
        }
        return [newer_java(21, "the schema registry") / "bin" / "java", "-Xmx320m", *_SMALL_JAVA,
                *(f"-D{name}={value}" for name, value in settings.items()),
                "-jar", unpacked("registry") / "quarkus-run.jar"]  # fmt: skip

    def is_ready(self) -> bool:
        """Whether it lists its schemas."""
        return _answers(f"{self.address}/subjects")


class Connect(Server):
    """Kafka Connect with Debezium's connectors and Apicurio's converter."""

    name = "connect"
    port_variable = "LAKE_CONNECT_PORT"

    def __init__(self, folder: Path, port: int, variables: Mapping[str, str]) -> None:
        super().__init__(folder, port)
        self._variables = variables

    @property
    def address(self) -> str:
        """Its REST API."""
        return f"http://{HOST}:{self.port}"

    def prepare(self) -> None:
        """Its settings."""
        plugins = [unpacked("debezium"), unpacked("avro", provides=_CONVERTER)]
        _write_properties(self.folder / "connect.properties", {
            "bootstrap.servers": self._variables["LAKE_KAFKA_BOOTSTRAP"],
            "group.id": "lake-connect",
            # There is one worker: what it ran before a crash waits for nobody else.
            "scheduled.rebalance.max.delay.ms": "0",
            "listeners": self.address,
            "rest.advertised.host.name": HOST,
            "plugin.path": ",".join(str(folder) for folder in plugins),
            "plugin.discovery": "service_load",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "config.storage.topic": "connect-configs",
            "config.storage.replication.factor": "1",
            "offset.storage.topic": "connect-offsets",
            "offset.storage.replication.factor": "1",
            "offset.storage.partitions": "4",
            "offset.flush.interval.ms": "1000",
            "status.storage.topic": "connect-status",
            "status.storage.replication.factor": "1",
            "status.storage.partitions": "2",
            # Connectors name what is secret or differs between machines as ${env:...}.
            "config.providers": "env",
            "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            "config.providers.env.param.allowlist.pattern": "LAKE_.*",
        })  # fmt: skip

    def command(self) -> Sequence[str | Path]:
        """The worker, with its settings in a file."""
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        return [*java_command(main, heap_mb=512), self.folder / "connect.properties"]

    def environment(self) -> Mapping[str, str]:
        """What the connectors' settings name."""
        return self._variables

    def is_ready(self) -> bool:
        """Whether it lists its connectors: before it has joined its group it does not answer that."""
        return _answers(f"{self.address}/connectors")


@dataclass(frozen=True)
class Chain:
    """The servers of one chain."""

    settings: Settings
    postgresql: PostgreSQL
    mariadb: MariaDB
    kafka: Kafka
    registry: Registry
    connect: Connect
    kinesis: Kinesis
    aws: Aws
    trino: Trino
    athena: Athena

    @classmethod
    def of(cls, settings: Settings) -> Chain:
        """The servers as the settings describe them; none is started."""
        home, ports, passwords = settings.home, settings.ports, settings.passwords
        return cls(
            settings,
            PostgreSQL(home / "postgresql", ports["LAKE_POSTGRESQL_PORT"], passwords["LAKE_POSTGRESQL_PASSWORD"]),
            MariaDB(home / "mariadb", ports["LAKE_MARIADB_PORT"], passwords["LAKE_MARIADB_PASSWORD"]),
            Kafka(home / "kafka", ports["LAKE_KAFKA_PORT"], ports["LAKE_KAFKA_CONTROLLER_PORT"]),
            Registry(home / "registry", ports["LAKE_REGISTRY_PORT"]),
            Connect(home / "connect", ports["LAKE_CONNECT_PORT"], settings.variables),
            Kinesis(home / "kinesis", ports["LAKE_KINESIS_PORT"]),
            *local_athena(settings),
        )

    @property
    def servers(self) -> Sequence[Server]:
        """Those of every chain, in the order in which they need each other."""
        return (self.postgresql, self.mariadb, self.kafka, self.registry, self.connect)

    @property
    def all(self) -> Sequence[Server]:
        """Those, and what is started where it is asked for."""
        return (*self.servers, self.kinesis, *self.local_athena)

    @property
    def local_athena(self) -> Sequence[Server]:
        """What answers as S3, Glue and Athena, in the order in which they need each other."""
        return (self.aws, self.trino, self.athena)


def local_athena(settings: Settings) -> tuple[Aws, Trino, Athena]:
    """What answers as S3, Glue and Athena; none is started."""
    home, ports = settings.home, settings.ports
    aws = Aws(home / "aws", ports["LAKE_AWS_PORT"])
    trino = Trino(home / "trino", ports["LAKE_TRINO_PORT"], aws.address)
    return aws, trino, Athena(home / "athena", ports["LAKE_ATHENA_PORT"], trino.address, aws.address)


def java_command(main: str, *, heap_mb: int) -> list[str | Path]:
    """The words that run a class of Kafka's."""
    jars = unpacked("kafka") / "kafka" / "*"
    return [_java() / "bin" / "java", f"-Xmx{heap_mb}m", *_SMALL_JAVA,
            f"-Dlog4j2.configurationFile={_LOG_SETTINGS}", "-cp", jars, main]  # fmt: skip


_java = cache(choose_java)


def _mariadbd() -> str:
    program = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise _not_installed("MariaDB")
    return program


def _not_installed(server: str) -> SetupError:
    return SetupError(f"{server} is not installed", where="this machine", action="run `bash dev/servers.sh`")


def _write_properties(file: Path, settings: Mapping[str, str]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")


def _succeeds(client: Sequence[str | Path], environment: Mapping[str, str], query: str) -> bool:
    try:
        done = subprocess.run(
            client, input=query, text=True, capture_output=True, check=False, cwd="/", timeout=2 * _ANSWERS_WITHIN_S,
            env={**os.environ, **environment},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=_ANSWERS_WITHIN_S).status_code == 200
    except httpx.HTTPError:
        return False
