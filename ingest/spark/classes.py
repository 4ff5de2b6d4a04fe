"""Archives the classes that Spark's Java loads, for every later start in this environment.

A session that opens and writes a table loads 20,000 classes, which Java reads from jars, verifies and links: a third
of the processor time of a short command. From an archive (the JVM's class data sharing) it takes them as they were. A
small session with Hudi makes it, once the jars are in place (`python -m ingest.spark.jars`). It belongs to one build of
Java and to these very jars: the JVM looks whether it fits, and goes without it where it does not.

The catalog of that session is kept as well, without a schema in it: new lakes begin with a copy of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ingest.spark.jvm import java_class, start_java

SPARK = Path(pyspark.__file__).resolve().parent
CONF = SPARK / "conf"
LOGGING = CONF / "log4j2.properties"
ENVIRONMENT = CONF / "spark-env.sh"
ARCHIVE = SPARK / "classes.jsa"
# An embedded catalog without a schema (ingest/spark/embedded_catalog.py).
CATALOG = SPARK / "catalog"
# The JVM archives nothing where a folder of the class path holds a file, and Spark's launcher has the folder of its
# configuration there. Where that holds what this package writes and nothing else, another one, which is empty, takes
# its place: both files are found by their names.
_EMPTY = CONF / "empty"
_TIMEOUT_S = 600
# What the JVM says where an archive is missing or does not fit: nothing.
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def environment(java: Path) -> str:
    """The text of `spark-env.sh`, which Spark's launcher runs at every start: which Java, and with which archive."""
    chosen = f"export JAVA_HOME='{java}'\n"
    if not ARCHIVE.is_file():
        return chosen
    ours = " ".join(sorted(path.name for path in (_EMPTY, LOGGING, ENVIRONMENT)))
    options = f"'-XX:SharedArchiveFile={ARCHIVE}' {_QUIET} '-Dlog4j2.configurationFile={LOGGING}'"
    return f"""{chosen}\
# Archived classes (ingest/spark/classes.py), where the archive is whole, or Java would end at once, and where this
# folder holds nothing of somebody else's.
if [ -f '{ARCHIVE}' ] && [ "$(wc -c < '{ARCHIVE}')" -eq {ARCHIVE.stat().st_size} ] &&
  [ "$(cd '{CONF}' && echo *)" = '{ours}' ]; then
  SPARK_CONF_DIR='{_EMPTY}'
  SPARK_SUBMIT_OPTS="{options} $SPARK_SUBMIT_OPTS"
fi
"""


def archive(java: Path) -> None:
    """Makes the archive and the empty catalog, unless they are there and the former fits; where they cannot be made,
    there is none, which is told."""
    _EMPTY.mkdir(parents=True, exist_ok=True)
    if CATALOG.is_dir() and fits(java):
        return
    print("archiving the classes of Spark and Hudi, so that commands start sooner", flush=True)
    ARCHIVE.unlink(missing_ok=True)
    shutil.rmtree(CATALOG, ignore_errors=True)
    _archive_javas_own(java)
    with tempfile.TemporaryDirectory(prefix="classes-") as folder:
        made = Path(folder, "classes.jsa")
        given = {
            "JAVA_HOME": str(java),
            "SPARK_CONF_DIR": str(_EMPTY),
            "SPARK_SUBMIT_OPTS": f"'-XX:ArchiveClassesAtExit={made}'",
        }
        environ = {name: text for name, text in os.environ.items() if name != "SPARK_HOME"} | given
        command = [sys.executable, "-m", "ingest.spark.classes"]
        try:
            subprocess.run(
                command, cwd=folder, env=environ, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
            )
            shutil.move(made, ARCHIVE)
            shutil.move(Path(folder, "metastore"), CATALOG)
        except (OSError, subprocess.SubprocessError) as error:
            message = str(getattr(error, "stderr", None) or error).strip().splitlines()
            print(f"it could not be made, and commands start as without it: {message[-1]}", flush=True)
    if not fits(java):
        ARCHIVE.unlink(missing_ok=True)


def _archive_javas_own(java: Path) -> None:
    """Lets a Java archive its own classes, which Spark's come on top of: the Java of a Python package comes without.

    Where it may not write, there is no archive of Spark's classes either, which that one says.
    """
    command = java / "bin" / "java"
    if subprocess.run([command, "-Xshare:on", "-version"], capture_output=True, check=False, timeout=60).returncode:
        subprocess.run([command, "-Xshare:dump"], capture_output=True, check=False, timeout=_TIMEOUT_S)


def fits(java: Path) -> bool:
    """Whether there is an archive of this Java and of the jars as they are."""
    if not ARCHIVE.is_file():
        return False
    path = f"{_EMPTY}/:{SPARK}/jars/*"
    asked = subprocess.run(
        [java / "bin" / "java", "-Xshare:on", f"-XX:SharedArchiveFile={ARCHIVE}", "-XX:ErrorFile=/dev/null", "-cp",
         path, "-version"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return asked.returncode == 0


def load_classes() -> None:
    """A small session, as a command's is: loads what most of them do. The lake is the working directory, and goes.

    The archive is written as Java ends, for which this process waits at its own end (`start_java`).
    """
    home = Path.cwd()
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Dderby.stream.error.file=/dev/null",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home}/metastore;create=true",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.shuffle.partitions": "2",
    }
    start_java(settings)
    builder = SparkSession.builder.enableHiveSupport()
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    rows = "select cast(id as int) as id, cast(id as string) as name, timestamp_seconds(id) as at from range({})"
    read = """
        select id, name, at, row_number() over (partition by name order by at desc) as place
        from (select e.* from (select from_json(to_json(struct(*)), 'id int, name string, at timestamp') as e from {0}))
        where id in (select max(id) from {0} group by name)"""
    options = "primaryKey = 'id', preCombineField = 'at', 'hoodie.index.type' = 'BUCKET', "
    options += "'hoodie.bucket.index.num.buckets' = '1', 'hoodie.metadata.enable' = 'false'"
    for kind in ("mor", "cow"):
        session.sql(f"create table {kind} using hudi tblproperties (type = '{kind}', {options}) as {rows.format(20)}")
        session.sql(
            f"merge into {kind} as t using ({rows.format(5)}) as s on t.id = s.id "
            "when matched then update set * when not matched then insert *"
        )
        session.sql(f"create or replace view read_{kind} as {read.format(kind)}")
        session.sql(f"select count(*), min(place) from read_{kind}").collect()
    session.sql(rows.format(3)).write.json(str(home / "json"))
    session.read.json(str(home / "json")).collect()
    for name in [row["viewName"] for row in session.sql("show views").collect()]:
        session.sql(f"drop view {name}")
    for name in [row["tableName"] for row in session.sql("show tables").collect()]:
        session.sql(f"drop table {name}")
    _leave_no_schema(session, home / "metastore")
    session.stop()


def _leave_no_schema(session: SparkSession, catalog: Path) -> None:
    """Takes the schema `default`, which has the path of this session's warehouse, out of its catalog: Hive makes it
    anew where it is missing. And closes the catalog, so that a copy of its files is whole."""
    derby = java_class(session, "org.apache.derby.jdbc.EmbeddedDriver")()
    none = java_class(session, "java.util.Properties")()
    connection = derby.connect(f"jdbc:derby:;databaseName={catalog}", none)
    statement = connection.createStatement()
    for table in ("DATABASE_PARAMS", "DBS"):
        statement.executeUpdate(f'delete from "{table}"')
    connection.close()
    with suppress(Py4JJavaError):  # Derby says that a database is closed by an error
        derby.connect(f"jdbc:derby:;databaseName={catalog};shutdown=true", none)


if __name__ == "__main__":
    load_classes()
