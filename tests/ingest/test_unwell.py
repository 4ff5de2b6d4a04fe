"""A table of which nearly all is quarantined is landed and unwell; errors of Spark and Hudi say what they came from."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from conftest import DbtProject, Event, MakeProject, pg, table_of
from continuously import landing, wait_until
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from ingest.cli.app import app
from ingest.config.tables import Table
from ingest.errors import InputError, QuarantineError, UnavailableError, WriteError
from ingest.landing import continuous
from ingest.landing.continuous import Continuous, Progress
from ingest.landing.failures import failures
from ingest.landing.run import land
from ingest.landing.transactions import newest_cut
from ingest.operations.replay import replay
from ingest.operations.status import status_of
from ingest.silver.state import Counts
from ingest.silver.write_errors import write_error
from ingest.sources.files import FilesSource
from ingest.spark.jvm import java_class, root_cause

pytestmark = pytest.mark.spark

NOTE = {"id": "int", "amount": "decimal(8,2)"}
BAD = "no JSON"


def lake(*arguments: str | Path, code: int = 0) -> Result:
    """Runs a command in this process; its exit code must be `code`."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "240"})
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


def words(text: str) -> str:
    """The text without borders, ends of lines and repeated blanks."""
    return re.sub(r"[ │┃\n]+", " ", text)


def notes(name: str = "note", **options: Any) -> dict[str, Any]:
    return table_of(name, NOTE, ["id"], **options)


def good(number: int, first: int = 1) -> list[Event]:
    return [pg("c", lsn, id=lsn, amount=1) for lsn in range(first, first + number)]


def mixed(bad: int, read: int, first: int = 1) -> list[Event | str]:
    """So many events, of which so many are bad."""
    return [*good(read - bad, first), *[BAD] * bad]


def of_error(project: DbtProject, spark: SparkSession, table: str = "note") -> str:
    """What a run says of an unwell table."""
    error = project.land(spark)[table].error
    assert isinstance(error, QuarantineError)
    return error.message


def test_a_table_of_which_nearly_all_is_quarantined_fails_the_command_and_is_landed(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project({"tables": [notes(), notes("other")]})
    here = ("--project-dir", project.root)
    project.deliver("shop.note", 0, mixed(60, 100))
    project.deliver("shop.other", 0, good(3))
    first = lake("ingest", "shop", *here, code=1)
    told = words(first.stderr)
    assert f"`{project.schema}`.`note`: 60 of 100 events of this run are quarantined" in told
    assert "the most frequent reason in the quarantine: not a JSON object" in told
    assert "expected: no more than 10, or 10% of them" in told
    for advice in ("lake quarantine ls shop", "lake quarantine replay shop", "quarantine_limit", "stays counted"):
        assert advice in told
    shown = words(first.stdout)
    assert "note 1 files 100 40 0 0 0 60" in shown
    assert "unwell" in shown
    assert len(project.rows(spark, "note")) == 40
    assert len(project.quarantined(spark)) == 60
    (note, other) = json.loads(lake("status", "--json", *here, code=1).stdout)
    assert (note["state"], other["state"], other["error"]) == ("unwell", "up to date", None)
    assert "60 of 100 events of this run" in note["error"]
    assert "60 of 100 events of this run" in lake("status", *here, code=1).stderr

    # Nothing has come, and nothing is well again.
    again = lake("ingest", "shop", *here, code=1)
    assert "60 of 100 events ever read are quarantined" in again.stderr
    assert "60 of 100 events ever read" in lake("status", *here, code=1).stderr

    # The same where no failure of a run is remembered: what the table's commits hold says it.
    of_runs = failures(project.schema)
    remembered = of_runs.read(spark)
    assert remembered is not None
    of_runs.write(spark, remembered, "delete")
    unwell = lake("status", "shop", *here, code=1)
    assert words(unwell.stdout).count("unwell") == 1
    assert "60 of 100 events ever read are quarantined; the most frequent reason" in words(unwell.stderr)


@pytest.mark.slow
def test_more_than_ten_and_more_than_a_tenth_are_too_many(make_project: MakeProject, spark: SparkSession) -> None:
    cases = {"ten": (10, 10), "tenth": (11, 110), "eleven": (11, 109), "all": (11, 11)}
    project = make_project({"tables": [notes(name) for name in cases]})
    for name, (bad, read) in cases.items():
        project.deliver(f"shop.{name}", 0, mixed(bad, read))
    landed = project.land(spark)
    assert {name: item.error is None for name, item in landed.items()} == {
        "ten": True, "tenth": True, "eleven": False, "all": False,
    }  # fmt: skip
    assert {name: (item.counts.quarantined, item.counts.read) for name, item in landed.items()} == cases


@pytest.mark.slow
def test_a_run_is_judged_by_all_its_portions_and_none_of_them_ends_it(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project({"tables": [notes("little"), notes("first")]})
    project.connect({"batch_bytes": 1})
    for number in range(3):
        project.deliver("shop.little", 10 * number, mixed(4, 5, first=1 + 10 * number))
        project.deliver("shop.first", 20 * number, mixed(20, 20) if number == 0 else good(5, first=1 + 20 * number))
    landed = project.land(spark)
    assert landed["little"].counts == Counts(read=15, applied=3, quarantined=12)
    assert "12 of 15 events of this run" in str(landed["little"].error)
    assert landed["first"].taken == 3
    assert len(project.rows(spark, "first")) == 10
    assert "20 of 30 events of this run" in str(landed["first"].error)


@pytest.mark.slow
def test_a_run_with_few_events_is_judged_by_all_that_was_ever_read(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project({"tables": [notes()]})
    project.deliver("shop.note", 0, mixed(20, 40))
    assert "20 of 40 events of this run" in of_error(project, spark)
    project.deliver("shop.note", 40, good(10, first=100))
    assert "20 of 50 events ever read" in of_error(project, spark)
    project.deliver("shop.note", 50, good(150, first=200))
    project.land_well(spark)  # 20 of 200: a tenth
    assert project.state(spark, "note").totals == Counts(read=200, applied=180, quarantined=20)
    project.deliver("shop.note", 200, mixed(11, 11))
    assert "11 of 11 events of this run" in of_error(project, spark)


@pytest.mark.slow
def test_a_declared_limit_is_the_only_one(make_project: MakeProject, spark: SparkSession) -> None:
    tables = [notes("any", quarantine_limit={"share": 1.0}), notes("few", quarantine_limit={"rows": 5})]
    project = make_project({"tables": tables})
    for name in ("any", "few"):
        project.deliver(f"shop.{name}", 0, mixed(12, 20))
    landed = project.land(spark)
    assert landed["any"].error is None
    assert landed["any"].counts == Counts(read=20, applied=8, quarantined=12)
    states = {row.table.name: row.state for row in status_of(spark, project.source())}
    assert states == {"any": "up to date", "few": "failed"}
    few = landed["few"].error
    assert isinstance(few, InputError)
    assert not isinstance(few, QuarantineError)
    assert "nothing of this batch was landed" in few.message
    assert landed["few"].counts == Counts()
    assert not project.silver(spark, "few").is_committed()


@pytest.mark.slow
def test_what_is_replayed_heals_a_table(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project({"tables": [notes()]})
    long = [pg("c", lsn, id=lsn, amount="1000000000") for lsn in range(1, 21)]
    project.deliver("shop.note", 0, long)
    assert "20 of 20 events of this run" in of_error(project, spark)
    # Those that are bad still are no failure of the replay.
    (table,) = project.source().tables
    assert (replay(spark, table).counts.quarantined, replay(spark, table).error) == (20, None)
    project.declare({"tables": [table_of("note", {**NOTE, "amount": "decimal(12,2)"}, ["id"])]})
    (table,) = project.source().tables
    assert replay(spark, table).counts == Counts(read=20, applied=20)
    lake("status", "--project-dir", project.root)


TRANSACTIONS = "shop.transaction"


@pytest.mark.slow
def test_events_of_tables_that_are_not_declared_are_told(make_project: MakeProject, spark: SparkSession) -> None:
    """A replay passed them over without a word."""
    project = make_project({"tables": [notes(), notes("other")]})
    for name, bad in (("note", 1), ("other", 2)):
        project.deliver(f"shop.{name}", 0, mixed(bad, 5))
    project.land(spark)
    assert "not declared" not in lake("quarantine", "ls", "shop", "--project-dir", project.root).stderr
    project.declare({"tables": [notes()]})
    for command, code in (("ls", 0), ("show", 0), ("replay", 1)):
        told = lake("quarantine", command, "shop", "--project-dir", project.root, code=code).stderr
        assert "2 events of tables that are not declared: other. No replay applies them" in told
    chosen = lake("quarantine", "show", "shop", "--tables", "note", "--project-dir", project.root)
    assert "not declared" not in chosen.stderr


def bank(make_project: MakeProject) -> DbtProject:
    """Two tables of a source that is consistent by transaction, with a row of each from a snapshot."""
    names = ("checking", "saving")
    ingest = {"consistent": "transaction", "transaction_topic": TRANSACTIONS}
    project = make_project({"config": {"meta": {"ingest": ingest}}, "tables": [notes(name) for name in names]})
    for name in names:
        project.deliver(f"shop.{name}", 0, [pg("r", 1, id=1, amount=100)])
    (project.bronze / TRANSACTIONS).mkdir()
    return project


@pytest.mark.slow
def test_a_cut_is_made_of_unwell_tables(make_project: MakeProject, spark: SparkSession) -> None:
    """Without one, fifteen commits later the tables that are well would wait for the one that is not."""
    project = bank(make_project)
    project.land_well(spark)
    before = newest_cut(spark, project.schema)
    project.deliver("shop.saving", 1, [pg("r", 2, id=2, amount=1), *[BAD] * 20])
    landed = project.land(spark)
    assert landed["checking"].error is None
    assert isinstance(landed["saving"].error, QuarantineError)
    now = newest_cut(spark, project.schema)
    assert now["saving"] == project.state(spark, "saving").instant
    assert before["saving"] < now["saving"]


@pytest.mark.slow
def test_markers_of_transactions_that_cannot_be_read_are_told_of_every_table(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = bank(make_project)
    project.deliver(TRANSACTIONS, 0, [BAD] * 20)
    landed = project.land(spark)
    assert {name: item.counts.applied for name, item in landed.items()} == {"checking": 1, "saving": 1}
    for item in landed.values():
        assert isinstance(item.error, QuarantineError)
        assert f"`{project.schema}`.`_transactions`: 20 of 20 events" in item.error.message


@pytest.mark.slow
def test_an_unwell_table_is_landed_continuously_and_told_as_unwell(
    make_project: MakeProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continuous, "_LISTED_EVERY_S", 0.1)
    project = make_project({"tables": [notes(), notes("other")]})
    project.deliver("shop.note", 0, mixed(20, 40))
    project.deliver("shop.other", 0, good(1))
    news: list[Progress] = []
    looks: list[str] = []
    listed = FilesSource.listed

    def looking(self: FilesSource, table: Table) -> Any:
        looks.append(table.name)
        return listed(self, table)

    monkeypatch.setattr(FilesSource, "listed", looking)

    def is_landed(run: Continuous, number: int) -> bool:
        now = run.progress["note"]
        return now.totals.read == number and now.state == "unwell"

    def errors() -> Sequence[object]:
        return list(dict.fromkeys(item.error for item in news if item.error))

    with landing(spark, project.source().tables, news.append) as run:
        wait_until(lambda: is_landed(run, 40), "the first batch is landed")
        seen = len(looks)
        wait_until(lambda: len(looks) > seen + 5, "the table is looked at again and again")
        assert len(errors()) == 1
        project.deliver("shop.note", 40, good(5, first=100))
        wait_until(lambda: is_landed(run, 45), "good events are landed")
        assert len(errors()) == 1
        project.deliver("shop.note", 45, mixed(3, 5, first=200))
        wait_until(lambda: is_landed(run, 50), "more bad events are landed")
        wait_until(lambda: run.progress["other"].state == "waiting", "the other table waits")
        assert [progress.table.name for progress in run.failed] == ["note"]
        assert run.progress["note"].batches == 3
    (progress,) = run.failed
    assert progress.state == "stopped"
    assert "23 of 50 events of this run so far are quarantined" in str(progress.error)
    assert {item.state for item in news if item.table.name == "note"} == {"landing", "unwell", "stopped"}
    assert "23 of 50" not in lake("status", "--project-dir", project.root, code=1).stdout
    assert "are quarantined" in lake("status", "--project-dir", project.root, code=1).stderr

    # What heals while it runs is told to be well.
    with landing(spark, project.source().tables, news.append) as run:
        wait_until(lambda: run.progress["note"].state == "unwell", "looked at")
        project.deliver("shop.note", 50, good(300, first=300))
        wait_until(lambda: run.progress["note"].state == "waiting", "well again")
        assert not run.failed
    lake("status", "--project-dir", project.root)


def test_a_failure_is_over_once_another_process_has_landed_the_table(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """The process that lands the table knows of no failure of another one, and removes none."""
    project = make_project({"tables": [notes()]})
    project.deliver("shop.note", 0, good(1))
    project.land_well(spark)
    failed = [("note", datetime.now(UTC), "note: the lake cannot be written")]
    rows = spark.createDataFrame(failed, "source_table string, failed_at timestamp, message string")
    failures(project.schema).write(spark, rows, "upsert")
    (status,) = status_of(spark, project.source())
    assert (status.state, status.error) == ("failed", "note: the lake cannot be written")
    project.deliver("shop.note", 1, good(1, first=2))
    project.land_well(spark)
    (status,) = status_of(spark, project.source())
    assert (status.state, status.error) == ("up to date", None)


def java_error(spark: SparkSession, *causes: tuple[str, str | None]) -> Py4JJavaError:
    """An error of Java, from the outermost of its causes to the innermost."""
    made = None
    for name, message in reversed(causes):
        of = java_class(spark, name)
        made = of(message) if made is None else of(message, made)
    return Py4JJavaError("An error occurred while calling o1.save.\n", made)


def test_an_error_says_what_it_came_from(spark: SparkSession) -> None:
    upsert = ("org.apache.hudi.exception.HoodieUpsertException", "Failed to upsert for commit time 20240101")
    disk = ("java.io.IOException", "the disk is on fire:\n  all of it\n\tat x.y.Z")
    assert root_cause(java_error(spark, upsert, disk)) == "java.io.IOException: the disk is on fire: all of it"
    silent = ("java.lang.IllegalStateException", None)
    assert root_cause(java_error(spark, upsert, silent)) == (
        f"java.lang.IllegalStateException within {upsert[0]}: {upsert[1]}"
    )
    told = "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0 "
    told += "in stage 1.0 (TID 1) (a-host executor driver): java.lang.RuntimeException: outer\n\tat a.b.C\n"
    aborted = ("java.lang.RuntimeException", told)
    assert root_cause(java_error(spark, upsert, aborted)) == "java.lang.RuntimeException: outer"
    aborted = ("java.lang.RuntimeException", f"{told}Caused by: java.io.EOFException: inner\n\tat d.e.F\n")
    assert root_cause(java_error(spark, upsert, aborted)) == "java.io.EOFException: inner"
    long = ("java.io.IOException", "x" * 5000)
    assert len(root_cause(java_error(spark, upsert, long))) == 500
    with pytest.raises(AnalysisException) as caught:
        spark.sql("select * from no_such_table")
    assert "[TABLE_OR_VIEW_NOT_FOUND]" in root_cause(caught.value)
    assert "\n" not in root_cause(caught.value)
    assert root_cause(RuntimeError("a\nb")) == "a"


@pytest.mark.slow
def test_a_write_that_fails_says_why(make_project: MakeProject, spark: SparkSession) -> None:
    """A file of the table is broken: Hudi's own message says that an upsert failed, and no more."""
    project = make_project({"tables": [notes(table_type="cow")]})
    project.deliver("shop.note", 0, good(3))
    project.land_well(spark)
    (table,) = project.source().tables
    for path in Path(urlparse(project.silver(spark, "note").path).path).glob("*.parquet"):
        path.write_bytes(b"neither begins nor ends as it should")
        path.with_name(f".{path.name}.crc").unlink()
    project.deliver("shop.note", 3, good(3, first=4))
    (landed,) = land(spark, [table])
    assert isinstance(landed.error, WriteError)
    assert "Failed to" not in landed.error.found
    assert "is not a Parquet file" in landed.error.found
    assert "restore the file that is named from a copy, or move the table away to land it anew" in landed.error.action


@pytest.mark.parametrize(
    ("cause", "told", "passes"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "give Spark more memory (LAKE_MEMORY)", False),
        ("org.apache.hudi.exception.HoodieWriteConflictException: both", "another process writes this table", True),
        (
            "java.lang.IllegalArgumentException: File file:/lake/silver.db/_quarantine/.hoodie/timeline/"
            "20261126133112581.commit.requested does not exist!",
            "another process writes this table",
            True,
        ),
        ("java.net.ConnectException: Connection refused", "see that the lake's storage and its catalog answer", True),
        ("org.apache.hudi.exception.SchemaCompatibilityException: no", "`lake plan` shows how they differ", False),
        ("java.io.EOFException within java.io.IOException: Not an Avro data file.", "run again first", False),
        (
            "java.lang.IllegalArgumentException: Found pending restore in active timeline. Please complete the restore",
            "`call rollback_to_savepoint(table => ..., instant_time => ...)` again",
            False,
        ),
        (
            "java.lang.IllegalStateException: odd",
            "correct what the message names; `--debug` shows the whole error",
            False,
        ),
        ("java.io.IOException: No space left on device", "free space and run again", True),
        ("java.io.IOException: Mkdirs failed to create", "check LAKE_HOME", False),
    ],
)
def test_an_error_of_writing_says_what_is_to_be_mended(cause: str, told: str, passes: bool) -> None:
    """What passes by itself, continuous ingest tries again."""
    error = write_error(RuntimeError(cause), where="`silver`.`note`")
    assert isinstance(error, UnavailableError if passes else WriteError)
    assert told in error.action


def test_the_end_of_java_is_no_error_of_its_accumulators(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that fails early ends Java while PySpark's thread still waits for it: no stack trace of that."""
    server: Any = spark.sparkContext._accumulatorServer
    for error, is_told in ((EOFError(), False), (OSError("broken"), True)):
        try:
            raise error
        except (EOFError, OSError):
            server.handle_error(None, None)
        assert ("Traceback" in capsys.readouterr().err) == is_told
