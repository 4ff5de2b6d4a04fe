"""What is asked of the JVM itself: its start, its classes, and what an error of Java says in one sentence."""

from __future__ import annotations

import atexit
import codecs
import locale
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from ingest.config.rendering import is_secret
from ingest.errors import LakeError

log = logging.getLogger(__name__)
# The classes by whose names PySpark calls Java: with each expression, each lambda in one, each statement, each error.
_LAMBDAS = "org.apache.spark.sql.catalyst.expressions"
_PYSPARK_CALLS = (
    *("functions", "PythonUtils", "PythonSQLUtils", "SparkSession", "SparkSession$", "Column"),
    *(f"{_LAMBDAS}.UnresolvedNamedLambdaVariable", f"{_LAMBDAS}.LambdaFunction", "py4j.reflection.TypeUtil"),
)
# How long a process waits for the end of its Java process.
_END_WITHIN_S = 60
# How long one that answers no more may still take to end.
_ENDED_WITHIN_S = 5


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


def know_classes(spark: SparkSession) -> None:
    """Looks up once what PySpark looks up with each expression that is written: a fifth of the time of a small batch
    (bench/results/session.md). Of a whole name, each part is looked up in every jar."""
    for name in _PYSPARK_CALLS:
        known: Any = spark._jvm
        for part in name.split("."):
            if part not in vars(known):
                setattr(known, part, getattr(known, part))
            known = getattr(known, part)


def quiet_size_estimator(spark: SparkSession) -> None:
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


def quiet_accumulators(spark: SparkSession) -> None:
    """Lets the thread that waits for Java's accumulators take Java's end as the end, and not as an error.

    Where Java ends first, as after a command that fails early, it printed a stack trace in the way of the message.
    """
    server: Any = spark.sparkContext._accumulatorServer
    handle = type(server).handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), EOFError):
            handle(server, request, address)

    server.handle_error = handle_error


def start_java(settings: Mapping[str, str]) -> None:
    """Starts Spark's Java process, where none runs yet, with the settings that are no secret.

    They stand on its command line, which every user of the machine can read. The secret ones follow by the connection
    to it; only what the process itself starts with (spark.driver.*) must stand there.
    """
    if SparkContext._gateway is not None:
        return
    shown = {
        key: value for key, value in settings.items() if key.startswith("spark.driver.") or not is_secret(key, value)
    }
    _name_files_in_utf8()
    with _output_told_as_error():
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(shown.items())))
    atexit.register(end_java, SparkContext._gateway)


def end_java(gateway: Any) -> None:
    """Ends Spark's Java process with this one, which waits for it: the next command finds the embedded catalog free.

    It ends by itself when its standard input does (Spark's PythonGatewayServer), some time after its parent. py4j is
    told before to send nothing more: its thread that gives objects back would find nobody.
    """
    process: subprocess.Popen[bytes] = gateway.proc
    with suppress(Py4JError, OSError):  # it has ended already
        gateway.shutdown()
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_END_WITHIN_S)
    except subprocess.TimeoutExpired:
        log.warning("Spark's Java process %d still runs after %d s", process.pid, _END_WITHIN_S)


def why_java_ended() -> LakeError | None:
    """That Spark's Java process has ended beneath this one; None while it runs, or where none was started."""
    gateway: Any = SparkContext._gateway
    if gateway is None:
        return None
    try:
        # Its connections are closed a moment before the process is gone.
        code = gateway.proc.wait(_ENDED_WITHIN_S)
    except subprocess.TimeoutExpired:
        return None
    return LakeError(
        f"Spark's Java process has ended, {f'by signal {-code}' if code < 0 else f'with exit code {code}'}",
        where=f"process {gateway.proc.pid}",
        expected="one that runs as long as the command",
        action="see in the system's log what ended it (a lack of memory?), and run again: what is committed stays",
    )


def _name_files_in_utf8() -> None:
    """Lets Java, which names files in the locale's encoding, do it in UTF-8 where that is ASCII, as Python does.

    So it is with LC_ALL=C, or with a locale that is not installed. Java does not start in a folder with an ü then.
    """
    if codecs.lookup(locale.nl_langinfo(locale.CODESET)).name == "ascii":
        os.environ["LC_ALL"] = "C.UTF-8"


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
    messages = [(name, message) for name, message in causes if message]
    if not messages:
        return _last_cause(text)
    (name, message), (innermost, _) = messages[-1], causes[-1]
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
