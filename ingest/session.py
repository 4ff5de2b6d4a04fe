"""The one place that builds a SparkSession.

Its settings are those of the dbt target (`server_side_parameters` in profiles.yml), so that `lake` and dbt's embedded
session write and read Hudi tables with the same configuration.
"""

from __future__ import annotations

import atexit
import fcntl
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyspark
from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.errors import DeclarationError, LakeError, SetupError
from ingest.project import Project, is_secret

log = logging.getLogger(__name__)

# Dates before 1582-10-15 and timestamps before 1900 are written and read as they are, in the proleptic Gregorian
# calendar, which every other reader of Parquet and Avro takes. Spark 3.5 refuses them by default (EXCEPTION in its SQL
# configuration), to be told which of two calendars its files shall have: a run would fail for one value.
REBASE_MODES = {
    f"spark.sql.{written}Mode{way}": "CORRECTED"
    for written in ("parquet.datetimeRebase", "parquet.int96Rebase", "avro.datetimeRebase")
    for way in ("InRead", "InWrite")
}
# An array may hold nulls: Parquet's writer of Avro records refuses them by default, for the sake of old readers (its
# AvroWriteSupport, WRITE_OLD_LIST_STRUCTURE). Hudi upserts by it.
NULLS_IN_ARRAYS = {"spark.hadoop.parquet.avro.write-old-list-structure": "false"}


def open_session(project: Project, more_settings: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """The embedded Spark session of the project's target; the running one where there is one in this process.

    Changes the working directory to the project's root, as dbt does: relative paths in profiles mean the same to both.

    Parameters
    ----------
    more_settings:
        What the session is opened with beside the target's settings.

    Raises
    ------
    DeclarationError
        The target is not an embedded Spark session.
    SetupError
        Java or Spark's jars are missing, or the catalog is in use by another process.
    """
    target = project.target
    if target.get("type") != "spark" or target.get("method") != "session":
        raise DeclarationError(
            f"target '{project.target_name}' is type {target.get('type')}, method {target.get('method')}",
            where=str(project.profiles_dir / "profiles.yml"),
            expected="type spark, method session: lake runs Spark in its own process",
            action="choose such a target with --target",
        )
    os.chdir(project.root)
    _require_hudi()
    builder = SparkSession.builder.enableHiveSupport()
    given = {**REBASE_MODES, **NULLS_IN_ARRAYS, **(target.get("server_side_parameters") or {}), **more_settings}
    settings = {key: str(value) for key, value in given.items()}
    for key, value in settings.items():
        builder = builder.config(key, value)
    if SparkContext._gateway is None:
        _require_free_catalog(project, settings)
    try:
        _start_java(settings)
        session = builder.getOrCreate()
        session.sql("show databases").collect()
    except (PySparkException, Py4JJavaError, RuntimeError) as error:
        raise _session_error(error, project) from error
    _know_classes(session)
    _quiet_size_estimator(session)
    return session


def lasting(project: Project) -> Mapping[str, str]:
    """What a session that lasts is opened with: the JVM's full compiler, which a short one of the profile does without.

    It costs a minute of processor time at first; then a change of a quiet source takes 1.9 s to a query, not 2.6
    (docs/performance.md). Each of its connections has a folder for what Hive downloads, which goes with it, and
    all of them one that Hive looks into at their end.
    """
    name = "spark.driver.extraJavaOptions"
    given = project.target.get("server_side_parameters") or {}
    settings = {name: " ".join(item for item in str(given.get(name, "")).split() if item != "-XX:TieredStopAtLevel=1")}
    if folder := given.get(_RESOURCES):
        own = (project.root / str(folder) / str(os.getpid())).resolve()
        atexit.register(shutil.rmtree, own, ignore_errors=True)
        scratch = own / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        settings |= {_RESOURCES: f"{own}/${{hive.session.id}}", _SCRATCH: str(scratch)}
    return settings


# Two connections that make one folder at the same moment refuse each other.
_RESOURCES = "spark.hadoop.hive.downloaded.resources.dir"
# Where a connection that ends looks for what Hive's scripts have left. Nothing makes Hive's default, a folder by the
# user's name in the one for temporary files: each end was logged as an error.
_SCRATCH = "spark.hadoop.hive.exec.local.scratchdir"


# The classes by whose short names PySpark calls Java.
_PYSPARK_CALLS = ("functions", "PythonUtils", "PythonSQLUtils", "SparkSession", "Column")


def java_class(spark: SparkSession, name: str) -> Any:
    """A Java class by its whole name. py4j's own way, `jvm.org.apache...`, searches every jar for each part of it."""
    return JavaClass(name, spark._jvm._gateway_client)  # type: ignore[union-attr]


def refresh(spark: SparkSession, relation: str) -> None:
    """Lets the session see a new commit: what it knows of the table's files is forgotten.

    `spark.catalog.refreshTable` does so too, but opens the table anew at once, for the rows that a user may have
    cached: 60 ms of each small batch.
    """
    state = spark._jsparkSession.sessionState()
    state.catalog().refreshTable(state.sqlParser().parseTableIdentifier(relation))


def _know_classes(spark: SparkSession) -> None:
    """Looks up once what PySpark looks up with each expression that is written: a fifth of the time of a small batch
    (docs/performance.md)."""
    jvm = spark._jvm
    for name in _PYSPARK_CALLS:
        if name not in vars(jvm):
            setattr(jvm, name, getattr(jvm, name))


def _quiet_size_estimator(spark: SparkSession) -> None:
    """Lets Hudi's size estimator, JOL, look at the JVM once, unheard.

    With its first use it prints that no agent is attached, which it does without; no switch of its own keeps it from
    that. Those of the profile keep it from trying, which takes seconds.
    """
    system = java_class(spark, "java.lang.System")
    heard = system.out
    try:
        system.setOut(
            java_class(spark, "java.io.PrintStream")(java_class(spark, "java.io.OutputStream").nullOutputStream())
        )
        java_class(spark, "org.apache.hudi.org.openjdk.jol.vm.VM").current()
    except Py4JError as error:
        # Another version of Hudi, which has none there.
        log.debug("Hudi's size estimator is not there", exc_info=error)
    finally:
        system.setOut(heard)


def _start_java(settings: Mapping[str, str]) -> None:
    """Starts Spark's Java process, where none runs yet, with the settings that are no secret.

    They stand on its command line, which every user of the machine can read. The secret ones follow by the connection
    to it; only what the process itself starts with (spark.driver.*) must stand there.
    """
    if SparkContext._gateway is not None:
        return
    shown = {
        key: value for key, value in settings.items() if key.startswith("spark.driver.") or not is_secret(key, value)
    }
    with _output_told_as_error():
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(shown.items())))


@contextmanager
def _output_told_as_error() -> Iterator[None]:
    """What is started meanwhile writes its standard output to standard error: the former belongs to the command."""
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _require_hudi() -> None:
    jars = Path(pyspark.__file__).parent / "jars"
    if not os.environ.get("SPARK_HOME") and not list(jars.glob("*hudi-spark*bundle*.jar")):
        raise SetupError(
            "Spark has no Hudi bundle",
            where="this Python environment",
            expected="the jars of ingest/jars.lock beside Spark's own",
            action="run `make setup`, or `python -m ingest.jars` in the environment",
        )


def _require_free_catalog(project: Project, settings: Mapping[str, str]) -> None:
    """Looks whether another process has the embedded catalog open, before Java is started to find it out.

    Derby holds a lock of the operating system on the file `dbex.lck` of an open database.
    """
    url = settings.get("spark.hadoop.javax.jdo.option.ConnectionURL", "")
    found = re.fullmatch(r"jdbc:derby:[^;]*;.*?databaseName=([^;]+).*", url)
    if not found:
        return
    file = Path(found[1]) / "dbex.lck"
    try:
        with file.open("r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _catalog_in_use(project) from error
    except OSError:
        return  # there is none yet, or it cannot be written: Spark will say so


def _catalog_in_use(project: Project) -> SetupError:
    return SetupError(
        "the embedded catalog cannot be opened: another process (a dbt or lake command) has it open",
        where=f"target '{project.target_name}'",
        expected="one process at a time on an embedded catalog",
        action="use one `lake serve` for all (dbt: --target thrift), wait for the other process to end, or give this "
        "one a lake of its own with LAKE_HOME",
    )


def _session_error(error: Exception, project: Project) -> LakeError:
    text = str(error)
    if "Another instance of Derby" in text or "XSDB6" in text:
        return _catalog_in_use(project)
    if "Unable to instantiate" in text and "metastore" in text.lower():
        return SetupError(
            "the catalog's database cannot be opened",
            where=f"target '{project.target_name}'",
            expected="a database that answers, in a folder that can be written where it is the embedded one",
            action="see the errors above: LAKE_METASTORE_URL and its user and password; another process that has the "
            "embedded catalog open (use `lake serve` for all)",
        )
    if "JAVA" in text.upper() and "gateway" in text:
        return SetupError(
            "Spark's Java process did not start", where="this machine", expected="Java 17", action="run `make setup`"
        )
    return SetupError(root_cause(error), where=f"Spark session of target '{project.target_name}'")


# What is told of an error, in letters.
_LONGEST = 500
# Spark tells a task's error, with all that it came from, as a text of its own.
_CAUSE = re.compile(r"^(?:Caused by: |Job aborted due to stage failure: .*[(]\S+ executor \w+[)]: )(.+)", re.MULTILINE)


def root_cause(error: Exception) -> str:
    """What an error of Spark, Hudi or py4j came from, in one line: the class and the message of its innermost cause.

    Hudi's own message says no more than what failed ("Failed to upsert for commit time ...").
    """
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    try:
        causes = [] if java is None else list(_causes(java))
        text = str(error)
    except Py4JError:
        # Java does not answer any more, and says nothing of its own error either.
        return type(error).__name__
    told = [(name, message) for name, message in causes if message]
    if not told:
        return _last_cause(text)
    (name, message), (innermost, _) = told[-1], causes[-1]
    if _CAUSE.search(message):
        return _last_cause(message)
    shown = f"{name}: {_sentence(message)}"
    return (shown if innermost == name else f"{innermost} within {shown}")[:_LONGEST]


def _causes(java: Any) -> Iterator[tuple[str, str]]:
    """Class and message of a Java exception and of each that it came from, the innermost last."""
    for _ in range(50):
        if java is None:
            return
        yield str(java.getClass().getName()), str(java.getMessage() or "").strip()
        java = java.getCause()


def _last_cause(text: str) -> str:
    """The last of the causes that a text names, with its class; where it names none, its first line."""
    named = _CAUSE.findall(text)
    return str(named[-1]).strip()[:_LONGEST] if named else first_line(text)


def _sentence(message: str) -> str:
    """The first line of a message; and what follows where it ends with a colon."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    end = next((at for at, line in enumerate(lines) if not line.endswith(":")), len(lines) - 1)
    return " ".join(lines[: end + 1])


def first_line(text: str) -> str:
    """The first line of an error's text that says something, for messages that must stay readable."""
    # py4j puts a colon before the exception's own line
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    java = [
        line
        for line in lines
        if line.startswith(("org.", "java.", "Caused by:"))
        and not line.startswith("org.apache.spark.SparkException: Job aborted")
    ]
    return (java or lines or ["no message"])[0][:_LONGEST]
