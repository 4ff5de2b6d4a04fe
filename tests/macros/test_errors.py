"""What dbt tells of an error of Spark or Hudi: what was found and what it came from; the stack trace is logged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY, MakeProject
from dbt_common.exceptions import DbtRuntimeError
from lake import Lake, Server
from modeling import BUCKETS, MakeModels, Models, hudi_models
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from dbt_lakehouse.errors import brief

TRACE = "\tat "
# What Spark's Thrift server answers, with two frames of each hundred.
FRAMES = (
    "\n\tat org.apache.spark.rdd.RDD.iterator(RDD.scala:331)\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
)
DRIVER = f"{FRAMES}\nDriver stacktrace:{FRAMES}"
HIVE = "org.apache.hive.service.cli.HiveSQLException: Error running query: "
IN_A_TASK = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 1 times, most "
    "recent failure: Lost task 1.0 in stage 0.0 (TID 1) (192.0.2.2 executor driver): "
)
CAST = """\
org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'a50' of the type "STRING" cannot be cast.
== SQL(line 17, position 8) ==
select cast(concat('a', id) as int) as id from range(100)
       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^"""
WRITE = "org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/lake/raised."
CAUSE = f"Caused by: java.lang.RuntimeException: x{FRAMES}\t... 17 more\n"
MISSING = """\
org.apache.spark.sql.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table or view `nowhere` cannot be found.
To tolerate the error on drop use DROP VIEW IF EXISTS or DROP TABLE IF EXISTS.; line 17 pos 5"""
PLAN = """\
;
'CreateTable `spark_catalog`.`lakehouse`.`missing`, ErrorIfExists
+- 'Project [*]
   +- 'UnresolvedRelation [nowhere], [], false
"""
CONFLICT = "java.util.ConcurrentModificationException: Cannot resolve conflicts for overlapping writes"
ANSWERS = {
    "a cast": (
        f"{HIVE}{IN_A_TASK}{CAST}\n\n{DRIVER}"
        f"Caused by: {IN_A_TASK}{CAST}\n\n{DRIVER}\t... 16 more\nCaused by: {CAST}\n{FRAMES}",
        CAST,
    ),
    "a failed write": (
        f"{HIVE}{IN_A_TASK}{WRITE}{FRAMES}{CAUSE}\nDriver stacktrace:{FRAMES}Caused by: {WRITE}{FRAMES}{CAUSE}",
        f"{WRITE}\nCaused by: java.lang.RuntimeException: x",
    ),
    "a missing table": (
        f"{HIVE}[TABLE_OR_VIEW_NOT_FOUND] {MISSING}{PLAN}{FRAMES}Caused by: {MISSING}{PLAN}{FRAMES}\t... 16 more\n",
        MISSING,
    ),
    "two writers": (
        f"{HIVE}org.apache.hudi.exception.HoodieWriteConflictException: {CONFLICT}\n{FRAMES}"
        f"Caused by: org.apache.hudi.exception.HoodieWriteConflictException: {CONFLICT}\n{FRAMES}"
        f"Caused by: {CONFLICT}\n{FRAMES}\t... 9 more\n",
        CONFLICT,
    ),
    "a cause without a message": (
        f"An error occurred while calling o9.sql.\n: org.apache.hudi.exception.HoodieException: no commit\n{FRAMES}"
        f"Caused by: java.lang.NullPointerException\n{FRAMES}\t... 9 more\n",
        "org.apache.hudi.exception.HoodieException: no commit\nCaused by: java.lang.NullPointerException",
    ),
    "nothing to leave out": ("got unique_key = 'a', expected 'b'", "got unique_key = 'a', expected 'b'"),
    "no text": ("", ""),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_of_spark_is_told_in_its_first_lines_and_those_of_its_cause(name: str) -> None:
    whole, told = ANSWERS[name]
    assert brief(whole) == told
    # As dbt puts one error's text into another's.
    if whole:
        assert brief(f"{DbtRuntimeError(whole)}") == told


def test_dbt_finds_the_plugin_wherever_it_is_called(tmp_path: Path) -> None:
    asked = "import pkgutil; print([name for _, name, _ in pkgutil.iter_modules() if name.startswith('dbt_')])"
    found = subprocess.run(
        [sys.executable, "-I", "-c", asked], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "'dbt_lakehouse'" in found.stdout


@pytest.fixture
def make_models(spark: SparkSession, make_project: MakeProject, server: Server | None) -> MakeModels:
    """Tables, with more configuration where a test has some."""
    return hudi_models(spark, make_project, server)


FAILING = {
    "in_a_task": (
        "select if(assert_true(id < 50) is null, id, 0) as id from range(100)",
        [r"RuntimeException: '\(id#\d+L < cast\(50 as bigint\)\)' is not true"],
    ),
    "raised": ("select cast(raise_error('the cause') as string) as id", ["the cause"]),
    "missing": ("select *\nfrom nowhere", [r"\[TABLE_OR_VIEW_NOT_FOUND\] .*`nowhere`", r"line \d+ pos 5$"]),
    "misspelt": (
        "select\n    idd\nfrom (select id, id + 1 as next from range(9))",
        [r"\[UNRESOLVED_COLUMN.* `idd`", r"line \d+ pos 4$"],
    ),
    "unparsed": (
        "\n".join(["select", *(f"    {at} as column_{at}," for at in range(50)), "    sum(id) over (order id)"]),
        [r"\[PARSE_SYNTAX_ERROR\]", r"line \d+, pos", "== SQL ==$", r"sum\(id\) over \(order id\)", r"^ *-+\^\^\^$"],
    ),
    "fetched": (
        '{% set rows = run_query("select assert_true(id < 50) from range(100)") %}\nselect 1 as id',
        ["RuntimeException: .* is not true"],
    ),
    "indexed": ("select 1 as id", ["hoodie.index.type should be one of .*, but was NONSENSE"]),
}


@pytest.mark.spark
def test_errors_of_models_are_told_in_a_few_lines(make_models: MakeModels) -> None:
    models = make_models(materialized="table", file_format="parquet", options={})
    hudi: dict[str, Any] = {
        "file_format": "hudi",
        "unique_key": "id",
        "options": {**BUCKETS, "hoodie.index.type": "NONSENSE"},
    }
    for name, (sql, _) in FAILING.items():
        models.write(name, sql, **(hudi if name == "indexed" else {}))
    messages = {name: outcome.message for name, outcome in models.dbt("run").items()}
    for name, (_, patterns) in FAILING.items():
        told = messages[name]
        assert not [pattern for pattern in patterns if not re.search(pattern, told, re.MULTILINE)], told
        assert TRACE not in told
        assert "+- " not in told
        assert len(told.splitlines()) <= 9, told
    log = models.project.root / "target" / "dbt.log"
    assert f"The stack trace is in {log}, or here with --debug." in messages["raised"]
    assert log.read_text(encoding="utf-8").count(TRACE) > 100


@pytest.mark.spark
def test_the_place_in_the_sql_is_told(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        with pytest.raises(Py4JJavaError) as raised:
            spark.sql("select\n    id,\n    1 / (id - 50) as ratio\nfrom range(100)").collect()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "false")
    assert len(str(raised.value).splitlines()) > 50
    first, *place = brief(str(raised.value)).splitlines()
    assert first.startswith("org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] ")
    assert place == ["== SQL(line 3, position 5) ==", "    1 / (id - 50) as ratio", "    ^^^^^^^^^^^^^"]


@pytest.mark.slow
@pytest.mark.spark
def test_a_terminal_has_no_trace_without_debug(spark: SparkSession, make_project: MakeProject, tmp_path: Path) -> None:
    models = Models.of(spark, make_project(), materialized="table")
    models.write("raised", "select raise_error('the cause') as id")
    root = str(models.project.root)
    dbt = str(Path(sys.executable).with_name("dbt"))
    lake = Lake({"LAKE_HOME": str(tmp_path / "home"), "LAKE_MEMORY": "1g"})

    def run(*flags: str) -> subprocess.CompletedProcess[str]:
        where = ("--project-dir", root, "--profiles-dir", root, "--target-path", f"{root}/target", "--log-path", root)
        return lake.command(dbt, *flags, "run", *where)

    done = run()
    terminal = done.stdout + done.stderr
    assert done.returncode == 1
    assert "the cause" in done.stdout
    assert not [line for line in terminal.splitlines() if line.lstrip().startswith("at ")]
    # Spark's own log, too, has a line for each of its errors.
    assert len(terminal.splitlines()) < 40, terminal
    assert TRACE in (models.project.root / "dbt.log").read_text(encoding="utf-8")
    assert TRACE in run("--debug").stdout


def test_what_is_packed_has_the_plugin() -> None:
    settings = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'^include = \[.*"dbt_lakehouse"', settings, re.MULTILINE)
