"""What those who know Hudi and Spark SQL do to silver: it equals what was delivered, or a sentence says why not."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from conftest import DbtProject, MakeProject, pg, table_of
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from ingest.cli.app import app
from ingest.errors import UnavailableError, WriteError
from ingest.operations.erase import erase
from ingest.operations.plan import pending_plan
from ingest.operations.position import set_position
from ingest.operations.quarantine import quarantined_by_reason
from ingest.operations.replay import replay
from ingest.operations.status import status_of
from ingest.silver.file_groups import file_groups, require_whole
from ingest.silver.state import Counts
from ingest.silver.timeline import instant_of
from ingest.spark.shared import Shared

pytestmark = pytest.mark.spark
COLUMNS = {"id": "int", "value": "string"}


def shop(make_project: MakeProject, **options: Any) -> DbtProject:
    """A project with a table whose first two rows are delivered."""
    project = make_project({"tables": [table_of("orders", COLUMNS, ["id"], **options)]})
    project.deliver("shop.orders", 0, [pg("c", 1, id=1, value="a"), pg("c", 2, id=2, value="b")])
    return project


def place(project: DbtProject, spark: SparkSession) -> Path:
    return Path(urlparse(project.silver(spark, "orders").path).path)


def refusal(project: DbtProject, spark: SparkSession) -> str:
    """Why the table cannot be landed."""
    error = project.land(spark)["orders"].error
    assert error is not None
    return error.message


def date_anew(timeline: Path, first: str, to: str) -> None:
    """Gives all commits of a timeline other times, by the first digit of their years."""
    for file in list(timeline.glob(f"{first}*")):
        file.rename(file.with_name(re.sub(rf"(?<!\d){first}(?=\d{{16}})", to, file.name)))


def add_row(project: DbtProject, spark: SparkSession, **values: str) -> None:
    """A row like that of the key 1, but for some values, inserted by SQL."""
    relation = f"{project.schema}.orders"
    names = [name for name in spark.table(relation).columns if not name.startswith("_hoodie")]
    chosen = ", ".join(values.get(name, f"`{name}`") for name in names)
    spark.sql(f"insert into {relation} ({', '.join(names)}) select {chosen} from {relation} where id = 1")


@pytest.mark.parametrize(
    ("how", "table_type"),
    [("cluster", "mor"), *(pytest.param(how, "cow", marks=pytest.mark.slow) for how in ("cluster", "overwrite"))],
)
def test_rows_that_another_writer_has_put_out_of_their_buckets_are_found(
    how: str, table_type: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """Each batch failed from then on, with the NumberFormatException of a file's name."""
    project = shop(make_project, table_type=table_type)
    project.land_well(spark)
    relation = f"{project.schema}.orders"
    if how == "cluster":
        spark.sql(f"call run_clustering(table => '{relation}')")
    else:
        columns = ", ".join(f"`{name}`" for name in project.silver(spark, "orders").hudi.columns())
        spark.sql(f"insert overwrite table {relation} select {columns} from {relation}")
    (table,) = project.source().tables
    if table_type == "cow":
        for step in (partial(set_position, to_latest=True), partial(erase, keys=[("1",)])):
            with pytest.raises(UnavailableError, match="without its buckets"):
                step(spark, table)
        # A run that finds nothing new puts its rows back as well.
        project.land_well(spark)
        set_position(spark, table, to_latest=True)
    for number in (1, 2):
        project.deliver("shop.orders", 10 * number, [pg("u", 10 * number, id=1, value=f"update {number}")])
        assert project.land_well(spark)["orders"].counts == Counts(read=1, applied=1)
    assert project.rows(spark, "orders", "value") == [{"value": "update 2"}, {"value": "b"}]


@pytest.mark.parametrize(
    ("buckets", "table_type"),
    [(4, "mor"), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((4, "cow"), (1, "mor")))],
)
def test_rows_that_sql_has_inserted_are_found_and_none_is_there_twice(
    buckets: int, table_type: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """They are in any bucket, beside those of their keys: an update left its row twice, a delete left one."""
    project = shop(make_project, buckets=buckets, table_type=table_type)
    project.land_well(spark)
    add_row(project, spark, id="explode(sequence(1, 9))", value="'by hand'")
    add_row(project, spark, id="2", value="'without a place'", __position="null")
    project.deliver("shop.orders", 10, [pg("u", 10, id=3, value="c"), pg("d", 11, id=4, value=None)])
    assert project.land_well(spark)["orders"].counts == Counts(read=2, applied=2)
    expected = {1: "a", 2: "b", 3: "c"} | dict.fromkeys(range(5, 10), "by hand")
    assert [(row["id"], row["value"]) for row in project.rows(spark, "orders")] == list(expected.items())
    assert project.silver(spark, "orders").commits_after(project.state(spark, "orders").instant) == 0
    # Without anything new, a run puts them back as well, and the next one has nothing to do.
    add_row(project, spark, id="1", value="'again'")
    project.land_well(spark)
    last = project.state(spark, "orders").instant
    project.land_well(spark)
    assert project.state(spark, "orders").instant == last
    assert project.rows(spark, "orders", "value")[:2] == [{"value": "a"}, {"value": "b"}]


@pytest.mark.parametrize(
    ("how", "names"),
    [
        ("cluster", ["_quarantine"]),
        pytest.param("cluster", ["_quarantine", "orders__changes", "_erased"], marks=pytest.mark.slow),
        pytest.param("insert", ["_quarantine", "orders__changes", "_erased"], marks=pytest.mark.slow),
    ],
)
def test_companion_tables_that_another_writer_has_written_to_are_written_on(
    how: str, names: list[str], make_project: MakeProject, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """Each write failed from then on, with the NumberFormatException of a file's name; rows were there twice."""
    with_all = len(names) > 1
    project = shop(make_project, history=with_all)
    project.deliver("shop.orders", 2, [pg("c", 3, id=3, value="gone"), "{broken"])
    project.land_well(spark)
    (table,) = project.source().tables
    if with_all:
        erase(spark, table, [("3",)])
    for name in names:
        relation = f"{project.schema}.{name}"
        if how == "cluster":
            spark.sql(f"call run_clustering(table => '{relation}')")
        else:
            columns = [f"`{each}`" for each in spark.table(relation).columns if not each.startswith("_hoodie")]
            spark.sql(f"insert into {relation} ({', '.join(columns)}) select {', '.join(columns)} from {relation}")
    project.deliver("shop.orders", 4, [pg("u", 10, id=1, value="c"), "{broken too"])
    assert project.land_well(spark)["orders"].counts == Counts(read=2, applied=1, quarantined=1)
    assert [bytes(row["raw"]) for row in project.quarantined(spark)] == [b"{broken", b"{broken too"]
    if with_all:
        assert erase(spark, table, [("2",)]).holding == ()
    keys = {"_quarantine": "quarantine_id", "orders__changes": "__change", "_erased": "erased_id"}
    for name in names:
        rows = spark.table(f"{project.schema}.{name}")
        assert rows.count() == rows.select(keys[name]).distinct().count() == 2
        assert len([told for told in caplog.messages if f"`{name}`: its rows are put into buckets" in told]) == 1


@pytest.mark.slow
def test_a_row_inserted_into_a_partition_of_its_own_is_found(make_project: MakeProject, spark: SparkSession) -> None:
    project = shop(make_project, partition_by=["value"])
    project.land_well(spark)
    add_row(project, spark, id="8", value="'new'")
    project.deliver("shop.orders", 10, [pg("u", 10, id=8, value="a"), pg("u", 11, id=1, value="new")])
    project.land_well(spark)
    assert [(row["id"], row["value"]) for row in project.rows(spark, "orders")] == [(1, "new"), (2, "b"), (8, "a")]


def test_a_rollback_that_was_only_planned_is_refused(make_project: MakeProject, spark: SparkSession) -> None:
    """The next batch carried it out, with a position behind the rows that it took away: they were lost."""
    project = shop(make_project)
    project.land_well(spark)
    for number in (10, 20):
        project.deliver("shop.orders", number, [pg("c", number, id=number, value="new")])
        project.land_well(spark)
    relation, timeline = f"{project.schema}.orders", project.silver(spark, "orders").hudi.timeline
    last, middle, _ = (requested for requested, _ in timeline.instants())
    call = f"call rollback_to_instant(table => '{relation}', instant_time => '{{}}')"
    with pytest.raises(Py4JJavaError, match="rollback greater commits first"):
        spark.sql(call.format(middle))
    spark.sql(call.format(last))
    project.deliver("shop.orders", 30, [pg("u", 30, id=1, value="c")])
    assert f"commit {middle} is to be rolled back, by a plan that was not carried out" in refusal(project, spark)
    (status,) = status_of(spark, project.source())
    assert "files 2" in str(status.error)
    spark.sql(call.format(middle))
    project.land_well(spark)
    assert project.rows(spark, "orders", "id") == [{"id": 1}, {"id": 2}, {"id": 10}, {"id": 20}]


def test_a_commit_whose_file_is_cut_is_told_with_what_to_do(make_project: MakeProject, spark: SparkSession) -> None:
    """`lake status` ended with the error of one table, and neither named it nor showed the others."""
    project = shop(make_project)
    project.land_well(spark)
    project.deliver("shop.orders", 10, [pg("u", 10, id=1, value="c")])
    project.land_well(spark)
    *_, last = sorted((place(project, spark) / ".hoodie" / "timeline").glob("*.deltacommit"))
    last.write_bytes(last.read_bytes()[:2000])
    told = f"the file of its commit {last.name[:17]} (deltacommit) cannot be read"
    (status,) = status_of(spark, project.source())
    assert told in str(status.error)
    assert told in refusal(project, spark)
    last.unlink()
    assert project.land_well(spark)["orders"].counts == Counts(read=1, applied=1)
    assert project.rows(spark, "orders", "value") == [{"value": "c"}, {"value": "b"}]


@pytest.mark.parametrize("states", [["requested"], pytest.param(["requested", "inflight"], marks=pytest.mark.slow)])
def test_a_plan_of_a_rollback_that_a_full_disk_has_cut_is_made_anew(
    states: list[str], make_project: MakeProject, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing was landed any more, by "Not an Avro data file", and no file was named."""
    project = shop(make_project)
    project.land_well(spark)
    timeline = place(project, spark) / ".hoodie" / "timeline"
    killed, planned = (instant_of(datetime.now(UTC) + timedelta(milliseconds=ms)) for ms in (0, 1))
    for state in ("requested", "inflight"):
        (timeline / f"{killed}.deltacommit.{state}").touch()
    cut = [timeline / f"{planned}.rollback.{state}" for state in states]
    for file in cut:
        file.touch()
    project.deliver("shop.orders", 10, [pg("u", 10, id=1, value="c")])
    (status,) = status_of(spark, project.source())
    assert (status.state, [file.exists() for file in cut]) == ("behind", [True for _ in cut])
    project.land_well(spark)
    assert f"{cut[0].name} cut, as by a full disk: it is removed" in caplog.text
    assert not any(file.exists() for file in cut)
    assert [file.name.split("_")[0] for file in timeline.glob("*.rollback")] > [planned]
    assert not list(timeline.glob(f"{killed}*"))
    assert project.rows(spark, "orders", "value") == [{"value": "c"}, {"value": "b"}]


@pytest.mark.slow
def test_a_plan_of_a_cleaning_that_is_cut_is_named(make_project: MakeProject, spark: SparkSession) -> None:
    project = shop(make_project)
    project.land_well(spark)
    planned = instant_of(datetime.now(UTC))
    for state in ("requested", "inflight"):
        (place(project, spark) / ".hoodie" / "timeline" / f"{planned}.clean.{state}").touch()
    project.deliver("shop.orders", 10, [pg("u", 10, id=1, value="c")])
    told = refusal(project, spark)
    assert f"{planned}.clean.requested, below .hoodie, cut as by a full disk, and removed by now" in told
    assert "run again: it is planned anew" in told
    project.land_well(spark)
    assert project.rows(spark, "orders", "value") == [{"value": "c"}, {"value": "b"}]


@pytest.mark.slow
def test_a_planned_clustering_is_refused_and_carried_out_it_is_not(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = shop(make_project)
    project.land_well(spark)
    path = project.silver(spark, "orders").path
    spark.sql(f"call run_clustering(path => '{path}', op => 'schedule')")
    project.deliver("shop.orders", 10, [pg("u", 10, id=1, value="c")])
    assert "carry it out (`call run_clustering(path => ..., op => 'execute')`)" in refusal(project, spark)
    spark.sql(f"call run_clustering(path => '{path}', op => 'execute')")
    project.land_well(spark)
    assert project.rows(spark, "orders", "value") == [{"value": "c"}, {"value": "b"}]


def test_a_column_that_sql_has_added_is_kept(make_project: MakeProject, spark: SparkSession) -> None:
    """No batch was landed from then on: Hudi writes no row that lacks a column of the table."""
    project = shop(make_project, table_type="cow")
    project.land_well(spark)
    relation = f"{project.schema}.orders"
    spark.sql(f"alter table {relation} add columns (remark string)")
    project.deliver("shop.orders", 10, [pg("u", 10, id=1, value="c")])
    project.land_well(spark)
    spark.sql(f"update {relation} set remark = 'mine' where id = 1")
    project.deliver("shop.orders", 20, [pg("u", 20, id=1, value="d")])
    project.land_well(spark)
    assert project.rows(spark, "orders", "value", "remark") == [
        {"value": "d", "remark": "mine"}, {"value": "b", "remark": None},
    ]  # fmt: skip


@pytest.mark.slow
def test_a_column_that_sql_has_added_to_a_companion_table_is_null_from_then_on(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """Hudi wrote no row that lacks a column of the table: no batch with such a row was landed any more."""
    project = shop(make_project, history=True)
    project.deliver("shop.orders", 2, [pg("c", 3, id=3, value="gone"), "{broken"])
    project.land_well(spark)
    (table,) = project.source().tables
    erase(spark, table, [("3",)])
    for name in ("_quarantine", "orders__changes", "_erased"):
        spark.sql(f"alter table {project.schema}.{name} add columns (note string)")
    spark.sql(f"update {project.schema}._quarantine set note = 'seen'")
    for number in (1, 2):
        project.deliver("shop.orders", 10 * number, [pg("u", 10 * number, id=1, value="c"), "{broken too"])
        assert project.land_well(spark)["orders"].counts == Counts(read=2, applied=1, quarantined=1)
    waiting = project.quarantined(spark)
    assert [(bytes(row["raw"]), row["note"]) for row in waiting] == [
        (b"{broken", "seen"), (b"{broken too", None), (b"{broken too", None),
    ]  # fmt: skip
    assert erase(spark, table, [("2",)]).holding == ()
    assert replay(spark, table).counts == Counts(read=3, quarantined=3)
    assert [row["note"] for row in spark.table(f"{project.schema}.orders__changes").collect()] == [None] * 3


@pytest.mark.slow
@pytest.mark.parametrize("gone", [".hoodie", ".hoodie/timeline"])
def test_files_without_their_table_are_no_rows_of_a_new_one(
    gone: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """They were rows of the table that was landed anew: each key was there twice."""
    project = shop(make_project)
    project.land_well(spark)
    folder = place(project, spark)
    shutil.move(folder / gone, project.root / "away")
    told = refusal(project, spark)
    expected = {
        ".hoodie": "there are files, and no Hudi table that they belong to",
        ".hoodie/timeline": ".hoodie/timeline does not exist",
    }
    assert expected[gone] in told
    assert "away to land" in told
    shutil.move(project.root / "away", folder / gone)
    assert project.land_well(spark)["orders"].taken == 0
    shutil.move(folder, project.root / "away")
    project.land_well(spark)
    assert project.rows(spark, "orders", "id") == [{"id": 1}, {"id": 2}]


def test_a_table_whose_folder_is_gone_is_told(
    make_project: MakeProject, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """It was not landed yet, and then landed anew, or nothing was new of it, where its source had nothing any more."""
    project = shop(make_project)
    project.land_well(spark)
    table = project.source().tables[0]
    shutil.rmtree(place(project, spark))
    (status,) = status_of(spark, project.source())
    assert (status.state, status.waiting) == ("failed", 1)
    assert "its folder is gone, and the catalog has the table still" in str(status.error)
    shutil.move(project.bronze / "shop.orders", project.root / "away")
    (project.bronze / "shop.orders").mkdir()
    assert "put the folder back from a copy" in refusal(project, spark)
    (project.bronze / "shop.orders").rmdir()
    shutil.move(project.root / "away", project.bronze / "shop.orders")
    assert not caplog.messages
    project.land_well(spark)
    assert caplog.messages == [
        f"{table.relation}: its folder was gone: it is landed anew, with what its source still has"
    ]
    assert project.rows(spark, "orders", "id") == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("how", ["removed", pytest.param("dropped", marks=pytest.mark.slow)])
def test_a_history_that_is_gone_is_told(
    how: str, make_project: MakeProject, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """It began anew without a word, and its table was well."""
    project = shop(make_project, history=True)
    project.land_well(spark)
    name = f"{project.schema}.orders__changes"
    folder = place(project, spark).with_name("orders__changes")
    if how == "dropped":
        spark.sql(f"drop table {name} purge")
    shutil.rmtree(folder, ignore_errors=True)
    (status,) = status_of(spark, project.source())
    assert status.state == "failed"
    assert "/orders__changes: its folder is gone, and silver's last commit was kept in it" in str(status.error)
    assert "`lake position shop --tables orders --to earliest`" in str(status.error)
    project.deliver("shop.orders", 10, [pg("u", 10, id=1, value="c")])
    assert not caplog.messages
    project.land_well(spark)
    (told,) = caplog.messages
    assert "`orders__changes` is gone: it goes on with silver's rows, and changes between are missing" in told
    (status,) = status_of(spark, project.source())
    assert (status.state, spark.table(name).count()) == ("up to date", 3)


@pytest.mark.parametrize(
    "options",
    [
        {"table_type": "mor"},
        pytest.param({"table_type": "mor", "table_version": 6}, marks=pytest.mark.slow),
        pytest.param({"table_type": "cow"}, marks=pytest.mark.slow),
    ],
    ids=lambda options: "-".join(str(value) for value in options.values()),
)
def test_each_file_that_holds_rows_is_missed_and_no_other(
    options: dict[str, Any], make_project: MakeProject, spark: SparkSession
) -> None:
    """Without one of them the rows were gone, the table was up to date, and its next batch was landed."""
    project = shop(make_project, partition_by=["value"], **options)
    project.land_well(spark)
    relation, folder = f"{project.schema}.orders", place(project, spark)
    spark.sql(f"call run_clustering(table => '{relation}')")
    silver = project.silver(spark, "orders").hudi
    timeline = silver.timeline
    for number in (1, 2, 3):
        project.deliver("shop.orders", 10 * number, [pg("u", 10 * number, id=1, value="ab"[number % 2])])
        project.land_well(spark)
        if number == 2 and options["table_type"] == "mor":
            silver.plan_compaction()
            silver.compact()
    holding = {file.name for group in file_groups(timeline) for file in (group.base_file, *group.log_files) if file}
    files = [path for path in folder.rglob("*") if re.search(r"\.parquet$|\.log\.[^.]*$", path.name)]
    assert holding < {path.name for path in files}
    require_whole(timeline)
    for path in files:
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        if path.name in holding:
            with pytest.raises(WriteError, match=re.escape(path.name)):
                require_whole(timeline)
        else:
            require_whole(timeline)
        path.write_bytes(content)
    gone = next(path for path in files if path.name in holding)
    shutil.rmtree(gone.parent)
    (status,) = status_of(spark, project.source())
    assert status.state == "failed"
    assert gone.name in str(status.error)
    assert "put the files back from a copy" in str(status.error)


@pytest.mark.slow
def test_a_quarantine_that_was_rolled_back_is_told(
    make_project: MakeProject, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """Events were missing from it that silver counts, without a word."""
    project = shop(make_project)
    for number in (2, 3):
        project.deliver("shop.orders", number, [f"{{broken {number}"])
        project.land_well(spark)
    relation = f"{project.schema}._quarantine"
    kept = place(project, spark).with_name("_quarantine")
    shutil.copytree(kept, project.root / "kept")
    newest = spark.sql(f"call show_commits(table => '{relation}')").collect()[0]["commit_time"]
    spark.sql(f"call rollback_to_instant(table => '{relation}', instant_time => '{newest}')")
    assert not caplog.messages
    # Nobody looks at each batch; one that sets events aside does, and each process that begins.
    project.deliver("shop.orders", 4, ["{broken 4"])
    project.land_well(spark)
    (told,) = caplog.messages
    assert "_quarantine` lacks the commit of" in told
    assert "`lake position shop --tables orders --to earliest` brings those that the source still has" in told
    shutil.rmtree(kept)
    shutil.move(project.root / "kept", kept)
    Shared.of(spark).remembered("commits of quarantines, looked for").clear()  # as in another process
    project.land_well(spark)
    project.land_well(spark)
    assert [message.partition(", as")[0] for message in caplog.messages[1:]] == [
        f"`{project.schema}`.`_quarantine` lacks the commit of {project.state(spark, 'orders').quarantine}"
    ]
    (table,) = project.source().tables
    set_position(spark, table, to_latest=False)
    project.land_well(spark)
    assert len(caplog.messages) == 2
    assert [bytes(row["raw"]) for row in project.quarantined(spark)] == [b"{broken 2", b"{broken 3", b"{broken 4"]


def test_a_lake_whose_catalog_was_lost_is_seen(make_project: MakeProject, spark: SparkSession) -> None:
    """Nothing of it was landed yet, and nothing quarantined: the catalog knew no such schema."""
    project = shop(make_project)
    project.deliver("shop.orders", 2, ["{broken"])
    (before,) = status_of(spark, project.source())
    assert (before.state, spark.catalog.databaseExists(project.schema)) == ("not landed yet", False)
    project.land_well(spark)
    folder = place(project, spark).parent

    def lose_catalog() -> None:
        # The files go with the schema that is dropped.
        shutil.move(folder, project.root / "kept")
        spark.sql(f"drop schema {project.schema} cascade")
        shutil.move(project.root / "kept", folder)

    lose_catalog()
    (after,) = status_of(spark, project.source())
    assert (after.state, after.live_rows, after.totals.quarantined) == ("up to date", 2, 1)
    lose_catalog()
    (events,) = quarantined_by_reason(spark, project.source())
    assert events["events"] == 1


@pytest.mark.slow
def test_a_table_that_is_broken_is_told_with_what_to_do(make_project: MakeProject, spark: SparkSession) -> None:
    """It was the bare message of a Java exception."""
    project = shop(make_project)
    project.deliver("shop.orders", 5, ["{broken"])
    project.land_well(spark)
    here = ["--project-dir", str(project.root)]
    (base, *_) = place(project, spark).rglob("*.parquet")
    whole = base.read_bytes()
    base.write_bytes(bytes(len(whole)))
    (status,) = status_of(spark, project.source())
    assert status.state == "failed"
    assert "orders`: " in str(status.error)
    assert base.name in str(status.error)
    base.write_bytes(whole)
    shutil.rmtree(place(project, spark).parent / "_quarantine")
    (status,) = status_of(spark, project.source())
    assert status.state == "failed"
    assert "/_quarantine: its folder is gone, and the catalog has the table still" in str(status.error)
    (place(project, spark) / ".hoodie" / "hoodie.properties").write_bytes(b"")
    for command, where, to_do in (
        (["table", "commits", "shop.orders"], "/orders: ", "restore the file that is named from a copy"),
        (["quarantine", "ls", "shop"], "/_quarantine: ", "restore the folder from a copy"),
        (["quarantine", "show", "shop"], "/_quarantine: ", "restore the folder from a copy"),
    ):
        result = CliRunner().invoke(app, [*command, *here], env={"COLUMNS": "240"})
        assert result.exit_code == 1
        assert where in result.stderr
        assert to_do in result.stderr


def test_another_table_type_or_version_is_refused(make_project: MakeProject, spark: SparkSession) -> None:
    """Hudi takes them from the table: it was compacted no more, or written in a version that Athena does not read."""
    project = shop(make_project, table_type="mor", table_version=8)
    project.land_well(spark)
    for options, told in (
        ({"table_type": "cow", "table_version": 8}, "says table_type cow, the table was landed with mor"),
        ({"table_version": 6}, "says table_version 6, the table was landed with 8"),
    ):
        project.declare({"tables": [table_of("orders", COLUMNS, ["id"], **options)]})
        assert told in refusal(project, spark)
    project.declare({"tables": [table_of("orders", COLUMNS, ["id"], table_version=8)]})
    spark.sql(f"update {project.schema}.orders set value = 'by hand' where id = 1")
    project.land_well(spark)
    assert project.silver(spark, "orders").hudi.timeline.client().getTableConfig().getTableVersion().versionCode() == 8


def test_another_name_at_the_same_location_is_refused_before_anything_is_landed(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """`lake plan` and `lake status` called it well, and Hudi refused each write by a conflict of its settings."""
    project = shop(make_project)
    project.land_well(spark)
    renamed = {**table_of("sales", COLUMNS, ["id"], topic="shop.orders"), "external": {"location": "orders"}}
    project.declare({"tables": [renamed]})
    told = "the declaration says identifier sales, the table was landed with orders"
    (status,) = status_of(spark, project.source())
    assert (status.state, told in str(status.error)) == ("failed", True)
    assert told in str(pending_plan(spark, project.source().tables[0]).error)
    assert told in str(project.land(spark)["sales"].error)
    project.declare({"tables": [{**renamed, "identifier": "orders"}]})
    project.land_well(spark)


@pytest.mark.slow
def test_a_name_under_which_the_catalog_has_something_else_is_told(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """Whoever read the table by its name went on with the old rows."""
    project = shop(make_project, table_type="cow")
    project.land_well(spark)
    moved = {**table_of("orders", COLUMNS, ["id"], table_type="cow"), "external": {"location": "orders_anew"}}
    project.declare({"tables": [moved]})
    told = refusal(project, spark)
    assert "the catalog has a table of hudi at" in told
    assert f"expected: none, or the Hudi table at {project.silver(spark, 'orders').path}" in told
    spark.sql(f"drop table {project.schema}.orders")
    spark.sql(f"create view {project.schema}.orders as select 1 as id")
    assert "the catalog has a view under that name" in refusal(project, spark)
    spark.sql(f"drop view {project.schema}.orders")
    project.deliver("shop.orders", 10, [pg("u", 10, id=1, value="c")])
    project.land_well(spark)
    assert project.rows(spark, "orders", "value") == [{"value": "c"}, {"value": "b"}]


@pytest.mark.slow
def test_a_table_that_was_renamed_is_told_how_it_gets_its_name_back(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = shop(make_project, table_type="cow")
    project.land_well(spark)
    spark.sql(f"alter table {project.schema}.orders rename to {project.schema}.orders_old")
    project.deliver("shop.orders", 10, [pg("u", 10, id=1, value="c")])
    assert "rename the table back if it was renamed" in refusal(project, spark)
    spark.sql(f"alter table {project.schema}.orders_old rename to {project.schema}.orders")
    project.land_well(spark)
    assert project.rows(spark, "orders", "value") == [{"value": "c"}, {"value": "b"}]


@pytest.mark.slow
def test_what_a_new_catalog_does_not_know_is_there(make_project: MakeProject, spark: SparkSession) -> None:
    """An erased key ended the run of every table, and a replay found nothing: both were looked for by their names."""
    project = shop(make_project)
    project.deliver("shop.orders", 5, ["{broken", pg("u", 6, id=2, value="B")])
    project.land_well(spark)
    (table,) = project.source().tables
    assert erase(spark, table, [("1",)]).holding == ()
    for name in ("_erased", "_quarantine", "orders", "orders_ro", "orders_rt"):
        spark.sql(f"drop table {project.schema}.{name}")
    project.deliver("shop.orders", 0, [pg("c", 1, id=1, value="a"), pg("u", 3, id=2, value="c")])
    assert project.land_well(spark)["orders"].counts == Counts(read=2, superseded=1, ignored=1)
    assert replay(spark, table).counts == Counts(read=1, quarantined=1)


@pytest.mark.slow
def test_an_erased_key_stays_away_from_a_table_that_is_landed_anew(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = shop(make_project)
    project.land_well(spark)
    assert erase(spark, project.source().tables[0], [("1",)]).holding == ()
    spark.sql(f"truncate table {project.schema}.orders")
    assert project.land_well(spark)["orders"].counts == Counts(read=2, applied=1, ignored=1)
    project.deliver("shop.orders", 10, [pg("c", 1, id=1, value="a")])
    assert project.land_well(spark)["orders"].counts == Counts(read=1, ignored=1)
    # Where nothing says which keys were erased, none comes back unnoticed: all are to be erased again.
    assert erase(spark, project.source().tables[0], [("2",)]).holding == ()
    spark.sql(f"drop table {project.schema}._erased")
    shutil.rmtree(place(project, spark).parent / "_erased")
    project.deliver("shop.orders", 20, [pg("c", 1, id=1, value="a"), pg("c", 2, id=2, value="b")])
    for key, told in (("1", "has none of them"), ("3", "has not 1 of the 2"), ("2", "has not 1 of the 3")):
        assert told in refusal(project, spark)
        erase(spark, project.source().tables[0], [(key,)])
    assert project.land_well(spark)["orders"].counts == Counts(read=2, ignored=2)
    # Places of another epoch cannot be compared with the erasure's: what happened before it stays away.
    project.declare({"tables": [table_of("orders", COLUMNS, ["id"], epoch=1)]})
    later = {**pg("c", 2, id=2, value="born again"), "__source_ts_ms": 4_000_000_000_000}
    project.deliver("shop.orders", 30, [later])
    shutil.rmtree(place(project, spark))
    assert project.land_well(spark)["orders"].counts == Counts(read=6, applied=1, ignored=5)
    assert project.rows(spark, "orders", "value") == [{"value": "born again"}]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["orders", "_quarantine"])
def test_a_clock_that_was_set_back_is_refused(
    name: str, make_project: MakeProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit before the last one is not the newest: nobody saw its rows, or the events that it set aside."""
    project = shop(make_project)
    project.deliver("shop.orders", 2, ["{broken"])
    project.land_well(spark)
    timeline = place(project, spark).with_name(name) / ".hoodie" / "timeline"
    date_anew(timeline, "2", "3")
    monkeypatch.setattr("ingest.silver.timeline._CLOCKS_WITHIN_S", 0)
    project.deliver("shop.orders", 3, [pg("u", 4, id=1, value="c"), "{broken too"])
    assert "this machine's clock says" in refusal(project, spark)
    date_anew(timeline, "3", "2")
    assert project.land_well(spark)["orders"].counts == Counts(read=2, applied=1, quarantined=1)
    assert project.rows(spark, "orders", "value") == [{"value": "c"}, {"value": "b"}]
    assert len(project.quarantined(spark)) == 2


@pytest.mark.slow
def test_a_schema_that_is_dropped_in_a_running_session_is_landed_anew(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """What a session remembers of failures was looked for in a table that is gone."""
    project = shop(make_project)
    project.land_well(spark)
    shutil.move(place(project, spark) / ".hoodie", project.root / "away")
    refusal(project, spark)
    spark.sql(f"drop schema {project.schema} cascade")
    shutil.rmtree(place(project, spark), ignore_errors=True)
    project.land_well(spark)
    assert project.rows(spark, "orders", "id") == [{"id": 1}, {"id": 2}]


@pytest.mark.slow
def test_an_erasure_that_is_repeated_finds_what_a_savepoint_keeps(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """Its files hold the key still, and no row of them can be read: the second erasure said that none does."""
    project = make_project({"tables": [table_of("orders", {"id": "bigint", "value": "int"}, ["id"], history=True)]})
    key = int(f"{datetime.now(UTC):%Y%m%d}")  # as instants of commits begin
    project.deliver(
        "shop.orders", 0, [pg("c", 1, id=key, value=1), pg("c", 2, id=2, value=2), pg("u", 3, id=key, value="x")]
    )
    project.land(spark)
    names = [f"{project.schema}.{name}" for name in ("orders__changes", "_quarantine")]
    newest = {name: spark.sql(f"call show_commits(table => '{name}')").collect()[0]["commit_time"] for name in names}
    for name, instant in newest.items():
        spark.sql(f"call create_savepoint(table => '{name}', commit_time => '{instant}')")
    (table,) = project.source().tables
    for _ in range(2):
        held = {place.name.replace("`", "") for place in erase(spark, table, [(str(key),)]).places if place.holding}
        assert held == set(names)
    for name, instant in newest.items():
        spark.sql(f"call delete_savepoint(table => '{name}', instant_time => '{instant}')")
    assert erase(spark, table, [(str(key),)]).holding == ()
