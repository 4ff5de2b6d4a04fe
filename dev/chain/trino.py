"""Trino, the engine behind the local Athena: on the stand-ins' S3 and Glue, every table under one catalog's name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from dev.chain.artifacts import newer_java, unpacked
from dev.chain.athena.engine import Engine, EngineError
from dev.chain.aws import KEY, NAME, REGION
from dev.chain.processes import Server
from dev.chain.settings import HOST

JAVA = 24
# Athena's name for the catalog of Glue.
CATALOG = "awsdatacatalog"
ICEBERG, HUDI = "iceberg", "hudi"
# A third of the archive: three connectors, none of which reads a Hadoop file system here.
_PLUGINS = re.compile(r"trino-server-\d+/(lib/|plugin/(hive|hudi|iceberg)/(?!hdfs/))")
_HEAP_MB = 1536


class Trino(Server):
    """One node of Trino, which reads and writes what the stand-in for AWS holds."""

    name = "trino"
    port_variable = "LAKE_TRINO_PORT"

    def __init__(self, folder: Path, port: int, aws: str) -> None:
        super().__init__(folder, port)
        self._aws = aws

    @property
    def address(self) -> str:
        """Its REST API."""
        return f"http://{HOST}:{self.port}"

    def prepare(self) -> None:
        """Its settings, and those of its catalogs."""
        (self.folder / "catalog").mkdir(parents=True, exist_ok=True)
        (self.folder / "data").mkdir(exist_ok=True)
        _write(self.folder / "config.properties", {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": self.port,
            "discovery.uri": self.address,
            "query.max-memory": "600MB",
            "query.max-memory-per-node": "600MB",
            "memory.heap-headroom-per-node": "300MB",
            "task.concurrency": 2,
            "task.max-worker-threads": 4,
            "query.max-history": 20,
            "query.min-expire-age": "1m",
            "plugin.dir": _trino() / "plugin",
            "catalog.config-dir": self.folder / "catalog",
            "query.client.timeout": "2m",
        })  # fmt: skip
        _write(self.folder / "log.properties", {"io.trino": "WARN", "io.airlift": "WARN", "org.hibernate": "ERROR"})
        _write(self.folder / "catalog" / f"{CATALOG}.properties", {
            "connector.name": "hive",
            **self._metastore,
            **self._s3,
            "hive.hudi-catalog-name": HUDI,
            "hive.iceberg-catalog-name": ICEBERG,
            "hive.security": "allow-all",
            "hive.non-managed-table-writes-enabled": "true",
            "hive.non-managed-table-creates-enabled": "true",
            "hive.timestamp-precision": "NANOSECONDS",
            # moto has no calls for the statistics of columns.
            "hive.table-statistics-enabled": "false",
            "hive.collect-column-statistics-on-write": "false",
            "hive.max-partitions-per-writers": 100,
        })  # fmt: skip
        _write(self.folder / "catalog" / f"{HUDI}.properties",
               {"connector.name": "hudi", **self._metastore, **self._s3})  # fmt: skip
        _write(self.folder / "catalog" / f"{ICEBERG}.properties", {
            "connector.name": "iceberg",
            "iceberg.catalog.type": "glue",
            **{name: value for name, value in self._metastore.items() if name != "hive.metastore"},
            **self._s3,
            "iceberg.unique-table-location": "true",
            "iceberg.expire-snapshots.min-retention": "0s",
            "iceberg.remove-orphan-files.min-retention": "0s",
            "iceberg.hive-catalog-name": CATALOG,
            "iceberg.max-partitions-per-writer": 100,
            "iceberg.table-statistics-enabled": "false",
            "iceberg.extended-statistics.enabled": "false",
        })  # fmt: skip

    def command(self) -> Sequence[str | Path]:
        """The server, without its launcher, which would write outside its folder."""
        folder = _trino()
        return [
            newer_java(JAVA, "Trino") / "bin" / "java",
            f"-Xmx{_HEAP_MB}m",
            *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"),
            *("-XX:-OmitStackTraceInFastThrow", "-XX:ReservedCodeCacheSize=256M", "-Duser.timezone=UTC"),
            *("-Djdk.attach.allowAttachSelf=true", "-Dfile.encoding=UTF-8", "--add-modules=jdk.incubator.vector"),
            *("--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED"),
            "-Dnode.environment=lake",
            "-Dnode.id=lake",
            f"-Dnode.internal-address={HOST}",
            f"-Dnode.bind-ip={HOST}",
            f"-Dnode.data-dir={self.folder / 'data'}",
            f"-Dconfig={self.folder / 'config.properties'}",
            f"-Dlog.levels-file={self.folder / 'log.properties'}",
            *("-cp", folder / "lib" / "*", "io.trino.server.TrinoServer"),
        ]

    def is_ready(self) -> bool:
        """Whether a query passes: it says that it has started before one does."""
        try:
            return Engine(self.address, CATALOG, "default").run("select 1").rows == [[1]]
        except EngineError:
            return False

    @property
    def _metastore(self) -> Mapping[str, object]:
        return {
            "hive.metastore": "glue",
            "hive.metastore.glue.region": REGION,
            "hive.metastore.glue.endpoint-url": self._aws,
            "hive.metastore.glue.aws-access-key": NAME,
            "hive.metastore.glue.aws-secret-key": KEY,
        }

    @property
    def _s3(self) -> Mapping[str, object]:
        return {
            "fs.native-s3.enabled": "true",
            "s3.endpoint": self._aws,
            "s3.region": REGION,
            "s3.path-style-access": "true",
            "s3.aws-access-key": NAME,
            "s3.aws-secret-key": KEY,
        }


@cache
def _trino() -> Path:
    (folder,) = unpacked("trino", needed=lambda member: _PLUGINS.match(member) is not None).glob("trino-server-*")
    return folder


def _write(file: Path, settings: Mapping[str, object]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
