"""The one place that builds a SparkSession.

Its settings are those of the dbt target (`server_side_parameters` in profiles.yml), so that `lake` and dbt's embedded
session write and read Hudi tables with the same configuration.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.config.project import Project
from ingest.errors import DeclarationError, LakeError, SetupError
from ingest.spark import embedded_catalog, s3
from ingest.spark.interruption import interruptible
from ingest.spark.jvm import know_classes, quiet_accumulators, quiet_size_estimator, root_cause, start_java

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
# The greatest lengths, in bytes and in items, that Avro's decoder makes room for (its SystemLimitException). Bytes that
# are not of their schema may say a length of 2 GB: the room for it does not fit in the heap, and Spark ends Java for
# that. Options of Java, for the decoder reads them once.
_AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{of}={limit}"
    for of, limit in (
        ("bytes.maxLength", 128 * 2**20),
        ("string.maxLength", 128 * 2**20),
        ("collectionItems.maxLength", 16 * 2**20),
    )
)
# What a URI quotes by a percent sign.
_QUOTED_IN_URIS = re.compile(r"[\s%#?\"<>\[\]^`{|}\\]")
log = logging.getLogger(__name__)


def open_session(project: Project, more_settings: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """The embedded Spark session of the project's target; the running one where there is one in this process.

    Changes the working directory to the project's root, as dbt does: relative paths in profiles mean the same to both.
    The process's time zone becomes UTC, which is the session's: PySpark gives timestamps in the former.

    Parameters
    ----------
    more_settings:
        What the session is opened with beside the target's settings.

    Raises
    ------
    DeclarationError
        The target is not an embedded Spark session.
    SetupError
        Java or Spark's jars are missing, the catalog is in use by another process or is that of a lake elsewhere, or
        Hudi's SQL would not find its tables in the lake's folder.
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
    os.environ["TZ"] = "UTC"
    time.tzset()
    _require_hudi()
    _require_plain_path(project)
    builder = SparkSession.builder.enableHiveSupport()
    defaults = {**REBASE_MODES, **NULLS_IN_ARRAYS, **s3.settings()}
    given = {**defaults, **(target.get("server_side_parameters") or {}), **more_settings}
    settings = with_java_options({key: str(value) for key, value in given.items()})
    for key, value in settings.items():
        builder = builder.config(key, value)
    is_first = SparkContext._gateway is None
    if is_first:
        embedded_catalog.require_free(project, settings)
        embedded_catalog.begin(settings)
    try:
        start_java(settings)
        session = builder.getOrCreate()
        interruptible(session.sparkContext)
        session.sql("show databases").collect()
    except (PySparkException, Py4JJavaError, RuntimeError) as error:
        raise _session_error(error, project) from error
    if is_first:
        embedded_catalog.require_own(session, project, settings)
    know_classes(session)
    quiet_size_estimator(session)
    quiet_accumulators(session)
    return session


def with_java_options(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings, with Avro's limits for the driver and the executors. Of two equal options Java takes the last one:
    the profile's own."""
    names = [f"spark.{process}.extraJavaOptions" for process in ("driver", "executor")]
    return {**settings, **{name: f"{_AVRO_LIMITS} {settings.get(name, '')}".strip() for name in names}}


def long_running(project: Project) -> Mapping[str, str]:
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


def _require_hudi() -> None:
    jars = Path(pyspark.__file__).parent / "jars"
    if not os.environ.get("SPARK_HOME") and not list(jars.glob("*hudi-spark*bundle*.jar")):
        raise SetupError(
            "Spark has no Hudi bundle",
            where="this Python environment",
            expected="the jars of ingest/spark/jars.lock beside Spark's own",
            action="run `make setup`, or `python -m ingest.spark.jars` in the environment",
        )


def _require_plain_path(project: Project) -> None:
    """Hudi takes a table's path from the catalog as a URI has it, with %20 for a blank, and finds no table there.

    Hive has no database at `s3://bucket`, whose path is empty.
    """
    root = project.lake_root
    path = root if re.match(r"\w+:", root) else str(project.root / root)
    if found := _QUOTED_IN_URIS.search(path):
        raise SetupError(
            f"the path of the lake has {'a blank' if found[0].isspace() else found[0]}",
            where=path,
            expected="a path without blanks and without any of %#?\"<>[]^`{|}\\: Hudi's SQL finds no table there",
            action="set LAKE_HOME, or LAKE_ROOT, to another folder",
        )
    if re.fullmatch(r"\w+://[^/]+", path):
        raise SetupError(
            "the path of the lake is a bucket without a folder",
            where=path,
            expected=f"a folder, such as {path}/lake, or the bucket itself as {path}/",
            action="set LAKE_ROOT to it",
        )


def _session_error(error: Exception, project: Project) -> LakeError:
    text = str(error)
    if "Another instance of Derby" in text or "XSDB6" in text:
        return embedded_catalog.in_use(project)
    if "Unable to instantiate" in text and "metastore" in text.lower():
        return SetupError(
            f"the catalog's database cannot be opened: {root_cause(error)}",
            where=f"target '{project.target_name}'",
            expected="a database that answers, in a folder that can be written where it is the embedded one",
            action="correct what it came from: LAKE_METASTORE_URL and its user and password, a full disk, or another "
            "process that has the embedded catalog open (use `lake serve` for all)",
        )
    if "JAVA" in text.upper() and "gateway" in text:
        return SetupError(
            "Spark's Java process did not start", where="this machine", expected="Java 17", action="run `make setup`"
        )
    return SetupError(root_cause(error), where=f"Spark session of target '{project.target_name}'")
