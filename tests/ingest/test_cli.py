"""The command `lake` on a project that is not TICKIT: what it prints, as text and as JSON, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import REPOSITORY, DbtProject, MakeProject, new_project, pg, table_of
from continuously import wait_until
from typer.testing import CliRunner, Result

from ingest.cli.app import app
from ingest.config.connections import FilesConnection
from ingest.config.project import Project

ZERO = dict.fromkeys(("read", "applied", "superseded", "duplicate", "ignored", "quarantined"), 0)


def lake(*arguments: str | Path, code: int = 0) -> Result:
    """Runs a command in this process; its exit code must be `code`, and nothing may escape from it."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "240"})
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return result


def words(text: str) -> str:
    """The text without borders and repeated blanks, so that a table's row reads as one line."""
    return re.sub(r"[ │┃]+", " ", text)


def shop() -> dict[str, Any]:
    lines = table_of("order_line", {"order_id": "int", "line": "int", "amount": "decimal(8,2)"}, ["order_id", "line"])
    customers = table_of("customer", {"customer_id": "int", "name": "string"}, ["customer_id"], table_type="cow")
    return {"tables": [lines, customers]}


def line(op: str, lsn: int, order: int, number: int, amount: object) -> dict[str, Any]:
    return pg(op, lsn, order_id=order, line=number, amount=amount)


@pytest.fixture
def project(make_project: MakeProject) -> DbtProject:
    """A shop with two tables, and a few events of each."""
    made = make_project(shop())
    made.deliver("shop.order_line", 0, [line("c", 1, 1, 1, 1.5), line("c", 2, 1, 2, 2.5), line("c", 3, 2, 1, 3.5),
                                        line("u", 4, 1, 1, 4.5), line("d", 5, 2, 1, 0)])  # fmt: skip
    made.deliver(
        "shop.customer", 0, [pg("c", 1, customer_id=1, name="Ann"), pg("c", 2, customer_id=2, name="[b]Bo[/b]")]
    )
    return made


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_way_of_a_source_from_check_to_sql(project: DbtProject) -> None:
    here = ("--project-dir", project.root)
    checked = lake("check", "shop", *here).output
    assert "2 tables" in checked
    assert "order_line: shop.order_line, 1 files" in checked

    (before, _) = json.loads(lake("status", "shop", "--json", *here).stdout)
    assert (before["state"], before["last_commit"], before["waiting"]) == ("not landed yet", None, 1)

    landed = {row["table"]: row for row in json.loads(lake("ingest", "shop", "--json", *here).stdout)}
    expected = {
        "table": "order_line",
        "taken": 1,
        "unit": "files",
        "error": None,
        **ZERO,
        "read": 5,
        "applied": 3,
        "superseded": 2,
    }
    expected |= {"waiting": 0, "waits_for": None}
    assert {key: value for key, value in landed["order_line"].items() if key != "seconds"} == expected
    assert landed["customer"]["applied"] == 2

    again = lake("ingest", "shop", *here)
    assert words(again.stdout).count("nothing new") == 2

    rows = {row["table"]: row for row in json.loads(lake("status", "shop", "--json", *here).stdout)}
    assert rows["order_line"] == {
        "source": "shop",
        "table": "order_line",
        "last_commit": rows["order_line"]["last_commit"],
        "live_rows": 2,
        "deleted_rows": 1,
        "landed": 1,
        "waiting": 0,
        "unit": "files",
        "behind_ms": None,
        "open_transactions": [],
        "last": {**ZERO, "read": 5, "applied": 3, "superseded": 2},
        "totals": {**ZERO, "read": 5, "applied": 3, "superseded": 2},
        "state": "up to date",
        "error": None,
    }
    assert re.fullmatch(r"\d{17}", rows["order_line"]["last_commit"])

    project.deliver("shop.order_line", 5, [line("c", 6, 3, 1, 6.5)])
    text = words(lake("status", *here).stdout)
    assert re.search(r"shop\.order_line \d{17} 2 1 1 files 1 files 5 3 2 0 0 0 behind", text)
    assert re.search(r"shop\.customer \d{17} 2 0 1 files 0 files 2 2 0 0 0 0 up to date", text)

    text = words(lake("ingest", "shop", "--tables", "order_line", *here).stdout)
    assert re.search(r"order_line 1 files 1 1 0 0 0 0 [\d.]+ landed", text)
    assert "customer" not in text
    _sql_and_quarantine_answer(project)


def _sql_and_quarantine_answer(project: DbtProject) -> None:
    here = ("--project-dir", project.root)
    live = f"from {project.schema}.order_line where __deleted = 'false'"
    result = lake("sql", f"select order_id, line, amount {live} order by 1, 2", "--json", *here)
    assert json.loads(result.stdout) == [
        {"order_id": 1, "line": 1, "amount": "4.50"},
        {"order_id": 1, "line": 2, "amount": "2.50"},
        {"order_id": 3, "line": 1, "amount": "6.50"},
    ]
    text = lake("sql", f"select name, null as nothing from {project.schema}.customer order by name", *here).stdout
    assert "[b]Bo[/b] null" in words(text)
    limited = lake("sql", f"select * {live}", "--limit", "1", *here)
    assert "the first 1 rows; more with --limit" in limited.stderr
    assert "nothing is quarantined" in lake("quarantine", "ls", "shop", *here).stdout
    assert json.loads(lake("quarantine", "show", "shop", "--json", *here).stdout) == []


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_what_json_has_no_form_of_is_a_text(project: DbtProject) -> None:
    """NaN is no JSON, bytes were shown as Python writes them, and a map by dates ended with a stack trace."""
    query = "select double('nan') a, -double('inf') b, binary('ab') c, map(date'2024-01-02', array(1.5)) d, null e"
    (row,) = json.loads(
        lake("sql", query, "--json", "--project-dir", project.root).stdout,
        parse_constant=lambda name: pytest.fail(f"{name} is no JSON"),
    )
    assert row == {"a": "NaN", "b": "-Infinity", "c": "YWI=", "d": {"2024-01-02": ["1.5"]}, "e": None}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_quarantined_events_are_told_listed_and_shown(project: DbtProject) -> None:
    here = ("--project-dir", project.root)
    path = project.deliver(
        "shop.order_line", 5, [line("c", 6, 3, 1, "too many"), "no [red]JSON", line("c", 7, 4, 1, 7)]
    )
    project.deliver("shop.customer", 2, ["none either"])
    result = lake("ingest", "shop", *here)  # bad events stop nothing
    assert "see lake quarantine ls shop" in words(result.stderr)
    assert re.search(r"order_line 2 files 8 4 2 0 0 2 [\d.]+ landed", words(result.stdout))

    listed = json.loads(lake("quarantine", "ls", "shop", "--json", *here).stdout)
    reason = "column amount: too many is not exactly a decimal(8,2)"
    not_json = "not a JSON object: the text does not parse as JSON"
    assert sorted((row["source_table"], row["reason"], row["events"]) for row in listed) == [
        ("customer", not_json, 1),
        ("order_line", reason, 1),
        ("order_line", not_json, 1),
    ]
    assert reason in words(lake("quarantine", "ls", "shop", *here).stdout)

    shown = json.loads(lake("quarantine", "show", "shop", "--tables", "order_line", "--json", *here).stdout)
    assert [(row["line"], row["reason"], row["raw"]) for row in shown] == [
        (0, reason, json.dumps(line("c", 6, 3, 1, "too many"))),
        (1, not_json, "no [red]JSON"),
    ]
    assert {row["file"].rsplit("/", 1)[-1] for row in shown} == {path.name}
    assert "no [red]JSON" in words(lake("quarantine", "show", "shop", *here).stdout)
    assert len(json.loads(lake("quarantine", "show", "shop", "--limit", "1", "--json", *here).stdout)) == 1


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_one_broken_table_fails_the_command_but_not_the_others(project: DbtProject) -> None:
    here = ("--project-dir", project.root)
    (project.bronze / "shop.customer").rename(project.root / "away")
    assert "there is no such folder" in lake("check", "shop", *here, code=1).stderr
    result = lake("ingest", "shop", *here, code=1)
    assert "there is no such folder" in result.stderr
    assert "shop.customer" in result.stderr
    assert re.search(r"order_line 1 files 5 3 2 0 0 0 [\d.]+ landed", words(result.stdout))
    assert re.search(r"customer 0 0 0 0 0 0 0 [\d.]+ failed", words(result.stdout))
    rows = {row["table"]: row for row in json.loads(lake("status", "--json", *here, code=1).stdout)}
    assert (rows["order_line"]["state"], rows["customer"]["state"]) == ("up to date", "failed")
    assert "there is no such folder" in rows["customer"]["error"]
    failed = {row["table"]: row for row in json.loads(lake("ingest", "shop", "--json", *here, code=1).stdout)}
    assert failed["order_line"]["error"] is None
    assert "there is no such folder" in failed["customer"]["error"]
    # The folder is back: the last run has failed nevertheless, until one is well.
    (project.root / "away").rename(project.bronze / "shop.customer")
    assert "shop.customer: there is no such folder" in lake("status", *here, code=1).stderr
    lake("ingest", "shop", *here)
    assert "failed" not in lake("status", *here).stdout


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("select * from no_such_table", "TABLE_OR_VIEW_NOT_FOUND"),
        ("selec 1", "PARSE_SYNTAX_ERROR"),
        ("select assert_true(false)", "'false' is not true"),
        ("select raise_error('deep in a task') from range(10)", "deep in a task"),
    ],
)
def test_a_query_that_fails_is_told_in_one_line(query: str, told: str, project: DbtProject) -> None:
    result = lake("sql", query, "--project-dir", project.root, code=1)
    assert told in result.stderr.replace("\n", "")
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ingest", "stock"], "no source 'stock'"),
        (["check", "stock"], "one of: shop"),
        (["status", "stock"], "no source 'stock'"),
        (["quarantine", "ls", "stock"], "no source 'stock'"),
        (["ingest", "shop", "--tables", "orders"], "one of: customer, order_line"),
        (["ingest", "shop", "--target", "prod"], "no target 'prod'"),
        (["ingest", "shop", "--profiles-dir", "nowhere"], "there is no profiles.yml"),
        (["ingest", "shop", "--metrics-port", "0"], "expected: --continuous beside it"),
        (["serve", "--metrics-port", "0"], "expected: --ingest SOURCE beside it"),
        (["serve", "--json"], "--json: nothing is landed"),
        (["table", "show", "shop."], "such as shop.orders"),
        (["table", "show", "shop.customer,order_line"], "source 'shop' has no table customer,order_line"),
    ],
)
def test_what_is_not_there_is_exit_code_1_with_what_is(arguments: list[str], told: str, project: DbtProject) -> None:
    result = lake(*arguments, "--project-dir", project.root, code=1)
    assert told in result.stderr.replace("\n", " ")
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["ingest"],
        ["ingest", "shop", "--workers", "0"],
        ["ingest", "shop", "--tabels", "x"],
        ["land", "shop"],
        ["sql"],
        ["sql", "select 1", "--limit", "0"],
        ["generate", "tickit"],
        ["generate", "tickit", "--out", "x", "--ends", "tomorrow"],
        ["generate", "tickit", "--out", "x", "--form", "xml"],
        ["generate", "tickit", "--out", "x", "--phase", "some"],
        ["quarantine", "show"],
    ],
    ids=" ".join,
)
def test_a_command_that_cannot_be_meant_is_exit_code_2(arguments: list[str]) -> None:
    assert lake(*arguments, code=2).stderr


def test_the_version_is_that_of_the_distribution() -> None:
    assert lake("--version").stdout == f"lake {version('lakehouse-modeling')}\n"


def test_a_wrong_declaration_is_told_before_spark_starts(project: DbtProject) -> None:
    source = shop()
    source["tables"][0]["config"]["meta"]["ingest"]["topics"] = "x"
    project.declare(source)
    for command in ("check", "ingest", "status"):
        told = lake(command, "shop", "--project-dir", project.root, code=1).stderr.replace("\n", "")
        assert "models/_sources.yml: shop.order_line" in told
        assert "topics is not a known key" in told


def test_every_wrong_declaration_is_told_by_one_check(project: DbtProject) -> None:
    source = shop()
    source["tables"][0]["config"]["meta"]["ingest"]["topics"] = "x"
    source["tables"][1]["columns"][0]["data_type"] = "number"
    project.declare(source)
    told = lake("check", "shop", "--project-dir", project.root, code=1).stderr
    assert told.count("error models/_sources.yml: shop.") == 2
    assert "topics is not a known key" in told
    assert "shop.customer.customer_id: data_type is 'number'" in told.replace("\n", " ")


def test_generate_writes_a_data_set_and_says_how_much(tmp_path: Path) -> None:
    out = tmp_path / "data"
    result = lake("generate", "tickit", "--out", out, "--scale", "0.001", "--seed", "7", "--form", "json")
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    files = [path for path in (out / "bronze").rglob("*.json") if path.is_file()]
    told = " ".join(result.stdout.split())
    assert f"{manifest['records']:,} events in {len(files)} files below" in told
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) == manifest["records"]


def write_rows(folder: Path, name: str, *lines: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


LINES = ("order_id,line,amount", "1,1,4.50", "1,2,2.50")
CUSTOMERS = ("customer_id,name", "1,Ann", "2,[b]Bo[/b]")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_reconcile_names_each_difference_and_ends_well_only_without_one(project: DbtProject, tmp_path: Path) -> None:
    files = tmp_path / "files"
    here = ("reconcile", "shop", "--project-dir", project.root, "--against", files)
    write_rows(files, "order_line.csv", *LINES)
    assert "order_line" in lake(*here, code=1).stderr  # it is not landed yet
    lake("ingest", "shop", "--project-dir", project.root)

    partly = lake(*here)
    assert re.search(r"order_line \d{17} 2 2 0 0 0 equal", words(partly.stdout))
    assert re.search(r"customer - 0 0 0 0 0 nothing to compare with", words(partly.stdout))
    assert "nothing to compare with" in lake(*here, "--tables", "customer", code=1).stdout

    write_rows(files, "order_line.csv", LINES[0], "1,1,4.51", "3,1,1.00")
    write_rows(files, "shop.customer.csv", *CUSTOMERS)
    told = lake(*here, code=1).stdout
    assert re.search(r"order_line \d{17} 2 2 1 1 1 different", words(told))
    assert re.search(r"customer \d{17} 2 2 0 0 0 equal", words(told))
    assert told.splitlines()[-3:] == [
        "order_line order_id=3, line=1 in the source, not in silver",
        "order_line order_id=1, line=2 in silver, not in the source",
        "order_line order_id=1, line=1 in both, with other values: amount",
    ]
    (line_of, customer_of) = json.loads(lake(*here, "--json", code=1).stdout)
    assert (customer_of["state"], customer_of["differences"]) == ("equal", [])
    assert {key: line_of[key] for key in ("table", "state", "source_rows", "silver_rows", "counts", "error")} == {
        "table": "order_line", "state": "different", "source_rows": 2, "silver_rows": 2,
        "counts": {"missing": 1, "extra": 1, "different": 1}, "error": None,
    }  # fmt: skip
    assert line_of["differences"] == [
        {"kind": "missing", "key": {"order_id": "3", "line": "1"}, "columns": []},
        {"kind": "extra", "key": {"order_id": "1", "line": "2"}, "columns": []},
        {"kind": "different", "key": {"order_id": "1", "line": "1"}, "columns": ["amount"]},
    ]
    assert (line_of["missed_deletes"], line_of["not_compared"], line_of["waiting"]) == (0, [], 0)

    write_rows(files, "order_line.csv", LINES[0])
    named = json.loads(lake(*here, "--limit", "1", "--tables", "order_line", "--json", code=1).stdout)[0]
    assert (named["counts"]["extra"], len(named["differences"])) == (2, 1)
    write_rows(files, "order_line.csv", "order_id,amount", "1,4.50")
    failed = lake(*here, code=1)
    assert "has no column line" in failed.stderr
    assert re.search(r"customer \d{17} 2 2 0 0 0 equal", words(failed.stdout))

    write_rows(files, "order_line.csv", *LINES)
    write_rows(files, "shop.customer.csv", CUSTOMERS[0], "1,nothing", CUSTOMERS[2])
    project.deliver("shop.customer", 2, [pg("u", 9, customer_id=1, name=None)])
    behind = lake(*here, "--null-text", "nothing", code=1).stdout
    assert "customer customer_id=1 in both, with other values: name" in behind
    assert "different; silver is behind, 1 files wait" in words(behind)
    lake("ingest", "shop", "--project-dir", project.root)
    lake(*here, "--null-text", "nothing")
    lake("reconcile", "shop", "--project-dir", project.root, "--against", tmp_path / "nowhere", code=2)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_reconcile_tells_the_deletes_that_no_query_saw(make_project: MakeProject, tmp_path: Path) -> None:
    options: dict[str, Any] = {"connector": None, "order_by": ["changed_at"]}
    columns = {"id": "int", "changed_at": "bigint"}
    project = make_project({"tables": [table_of("stock", columns, ["id"], **options)]})
    project.deliver("shop.stock", 0, [{"id": 1, "changed_at": 5}, {"id": 2, "changed_at": 6}])
    lake("ingest", "shop", "--project-dir", project.root)
    write_rows(tmp_path / "files", "stock.csv", "id,changed_at", "2,6")
    here = ("reconcile", "shop", "--project-dir", project.root, "--against", tmp_path / "files")
    assert lake(*here, code=1).stdout.splitlines()[-1] == (
        "stock id=1 in silver, not in the source: a delete that no query saw"
    )
    (found,) = json.loads(lake(*here, "--json", code=1).stdout)
    assert (found["missed_deletes"], found["differences"][0]["key"]) == (1, {"id": "1"})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nobody"], "dataset 'nobody'"),
        (["tickit", "--scale", "0"], "scale"),
    ],
)
def test_generate_refuses_what_it_does_not_know(arguments: list[str], told: str, tmp_path: Path) -> None:
    result = lake("generate", *arguments, "--out", tmp_path / "data", code=1)
    assert told in result.stderr.replace("\n", " ")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("out", "told"), [("file", "File exists"), ("file/below", "Not a directory")])
def test_generate_writes_into_no_file(out: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("somebody's", encoding="utf-8")
    error = lake("generate", "tickit", "--scale", "0.01", "--out", tmp_path / out, code=1).stderr.replace("\n", " ")
    assert f"cannot be written: {told}" in error
    assert "name another one with --out" in error
    assert (tmp_path / "file").read_text(encoding="utf-8") == "somebody's"


@pytest.mark.slow
def test_neither_the_time_zone_nor_the_locale_of_a_machine_is_seen(tmp_path: Path) -> None:
    """In a folder whose name is no ASCII: Java did not start there. In Kolkata midnight was shown as half past five."""
    home = tmp_path / "Übung"
    home.mkdir()
    project = new_project(home)
    environment = {**os.environ, "TZ": "Asia/Kolkata", "LC_ALL": "C", "LAKE_HOME": "See", "LAKE_MEMORY": "1g"}
    command = [sys.executable, "-m", "ingest", "sql", "--json", "--project-dir", str(project.root)]
    query = "select timestamp '2020-01-01 00:00:00' as at, 'ü' as text"
    done = subprocess.run(
        [*command, query], env=environment, cwd=home, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{"at": "2020-01-01 00:00:00", "text": "ü"}]
    assert (project.root / "See" / "metastore").is_dir()


@pytest.mark.parametrize(("home", "told"), [("my lake", "has a blank"), ("100%", "has %")])
def test_a_lake_in_whose_folder_hudi_would_find_no_table_is_refused(
    home: str, told: str, project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table was written, and could not be made known to the catalog."""
    monkeypatch.setenv("LAKE_HOME", home)
    refused = words(lake("ingest", "shop", "--project-dir", project.root, code=1).output)
    assert f"the path of the lake {told}" in refused
    assert "set LAKE_HOME, or LAKE_ROOT, to another folder" in refused


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a variable of the shell that is not set: the lake was in /warehouse, and its catalog in /metastore."""
    for name in ("LAKE_HOME", "LAKE_ROOT", "LAKE_METASTORE_URL"):
        monkeypatch.setenv(name, "")
    project = Project.load(REPOSITORY)
    settings = project.target["server_side_parameters"]
    assert project.lake_root == ".lake/warehouse"
    catalog = "jdbc:derby:;databaseName=.lake/metastore;create=true"
    assert settings["spark.hadoop.javax.jdo.option.ConnectionURL"] == catalog
    connection = project.connection("tickit_cdc", where="here")
    assert isinstance(connection, FilesConnection)
    assert connection.path == ".lake/bronze"


def test_a_bucket_without_a_folder_is_refused(project: DbtProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hive opens no catalog for it: the run blamed the catalog's database."""
    monkeypatch.setenv("LAKE_ROOT", "s3://lake")
    refused = words(lake("ingest", "shop", "--project-dir", project.root, code=1).output)
    assert "the path of the lake is a bucket without a folder" in refused
    assert "a folder, such as s3://lake/lake, or the bucket itself as s3://lake/" in refused


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--continuous",)])
def test_java_that_is_killed_is_told_in_a_sentence(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The system kills it where memory is short: it was a traceback of py4j's, behind the reports of all tables."""
    project = new_project(tmp_path, shop())
    for topic in ("shop.order_line", "shop.customer"):
        project.deliver(topic, 0, [line("c", n, n, 1, 1.5) for n in range(100)])
    environment = {**os.environ, "LAKE_HOME": str(tmp_path / "lake"), "LAKE_MEMORY": "1g"}
    command = [sys.executable, "-m", "ingest", "ingest", "shop", "--project-dir", str(project.root), *words]
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as landing:
        wait_until(lambda: any(tmp_path.rglob(".hoodie")), "a table is begun")
        for child in psutil.Process(landing.pid).children(recursive=True):
            child.kill()
        told = landing.communicate(timeout=120)[1]
    assert landing.returncode == 1
    assert "Spark's Java process has ended, by signal 9" in told
    assert "Traceback" not in told


@pytest.mark.slow
def test_a_copy_of_a_lake_is_not_taken_for_it(tmp_path: Path) -> None:
    """The catalog has whole paths: what was landed into the copy went into the lake that it was copied from."""
    project = new_project(tmp_path)
    command = [sys.executable, "-m", "ingest", "sql", "--project-dir", str(project.root), "select 1"]

    def asked(home: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "LAKE_HOME": str(tmp_path / home), "LAKE_MEMORY": "1g", "COLUMNS": "240"}
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert asked("lake").returncode == 0
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    refused = asked("copy")
    assert refused.returncode == 1
    assert f"the catalog is that of the lake in {tmp_path / 'lake'}" in refused.stderr
