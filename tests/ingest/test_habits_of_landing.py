"""What is done with a lake by those who know Kafka, Debezium and Hudi, and have not read how this one works."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DbtProject, MakeProject, Row, pg, table_of
from continuously import landing, wait_until
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from ingest.cli.app import app
from ingest.cli.metrics import as_text
from ingest.config.project import Project
from ingest.config.sources_file import load_sources
from ingest.errors import DeclarationError, LakeError
from ingest.landing.continuous import Continuous, Progress
from ingest.operations.plan import pending_plan
from ingest.operations.position import set_position
from ingest.operations.replay import replay
from ingest.silver.change_log import changes_of
from ingest.silver.state import Counts

COLUMNS = {"id": "int", "value": "string"}
SAME_TIME = 1_700_000_000


def put(project: DbtProject, name: str, events: Sequence[Row], *, topic: str = "shop.order_line") -> Path:
    """A file of a name that no sink gives, with the time that all of them have."""
    path = project.bronze / topic / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(event) + "\n" for event in events).encode()
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(list(events)), path)
    else:
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    os.utime(path, (SAME_TIME, SAME_TIME))
    return path


def lake(project: DbtProject, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*arguments, "--project-dir", str(project.root)], env={"COLUMNS": "240"})
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result.output


def lines(numbers: Sequence[int]) -> list[Row]:
    """Rows of a snapshot, which share the place in the log."""
    return [pg("r", 5, id=number, value="x") for number in numbers]


@pytest.mark.spark
@pytest.mark.parametrize(
    "suffix", ["json", *(pytest.param(each, marks=pytest.mark.slow) for each in ("json.gz", "parquet"))]
)
def test_files_of_one_time_lose_no_row_of_a_table_without_a_key(
    suffix: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """Copies keep the time of their files, and an object store tells whole seconds."""
    project = make_project({"tables": [table_of("order_line", COLUMNS, [])]})
    put(project, f"part-0.{suffix}", lines(range(4)))
    project.land_well(spark)
    put(project, f"part-1.{suffix}", lines(range(10, 14)))
    put(project, f"b/part-1.{suffix}", lines(range(20, 24)))
    landed = project.land_well(spark)["order_line"]
    assert (landed.counts.applied, landed.counts.duplicate) == (8, 0)
    table = project.source().tables[0]
    set_position(spark, table, to_latest=False)
    assert project.land_well(spark)["order_line"].counts.duplicate == 12
    rows = spark.table(table.relation).select("id").collect()
    assert sorted(row["id"] for row in rows) == [*range(4), *range(10, 14), *range(20, 24)]


@pytest.mark.slow
@pytest.mark.spark
def test_a_file_of_a_table_without_a_key_that_grows_is_refused(make_project: MakeProject, spark: SparkSession) -> None:
    """Its first rows would be there twice, as nothing says that they are landed; by a key they are told apart."""
    project = make_project({"tables": [table_of("order_line", COLUMNS, []), table_of("payment", COLUMNS, ["id"])]})
    for name in ("order_line", "payment"):
        put(project, "events.json", lines(range(2)), topic=f"shop.{name}")
    project.land_well(spark)
    grown = [put(project, "events.json", lines(range(3)), topic=f"shop.{name}") for name in ("order_line", "payment")]
    done = project.land(spark)
    assert done["payment"].counts == Counts(read=3, applied=1, duplicate=2)
    error = done["order_line"].error
    assert error is not None
    assert str(grown[0]) in str(error)
    assert "was written again since" in str(error)
    assert len(project.rows(spark, "order_line")) == 2
    # The new rows in a file of their own, and the grown file as far as it is known.
    grown[0].unlink()
    put(project, "more.json", lines([2]))
    assert project.land_well(spark)["order_line"].counts == Counts(read=1, applied=1)
    assert len(project.rows(spark, "order_line")) == 3
    # Nor is one landed again that was put into a folder of what is done, which lies below the topic's.
    more = next((project.bronze / "shop.order_line").glob("more.json"))
    done_with = more.parent / "done" / more.name
    done_with.parent.mkdir()
    more.rename(done_with)
    error = project.land(spark)["order_line"].error
    assert error is not None
    assert f"{more} was landed, and is gone: this may be it, moved" in str(error)
    done_with.rename(project.bronze / more.name)
    project.land_well(spark)
    assert len(project.rows(spark, "order_line")) == 3


@pytest.mark.spark
@pytest.mark.slow
def test_what_waited_of_files_of_one_time_has_the_place_that_it_had(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """It was known by its line alone: of two events that waited, one was lost, and each came again with its file."""

    def declare(value: str) -> None:
        project.declare({"tables": [table_of("order_line", {"id": "int", "value": value}, [])]})

    project = make_project()
    declare("int")
    for number, name in enumerate(("part-0.json", "part-1.json", "b/part-1.json")):
        put(project, name, [pg("r", 5, id=10 * number, value=1), pg("r", 5, id=10 * number + 1, value=3 * 10**9)])
    project.land(spark)
    table = project.source().tables[0]
    assert replay(spark, table).counts.quarantined == 3
    assert [(row["line"], row["offset"]) for row in project.quarantined(spark)] == [(1, None)] * 3
    declare("bigint")
    table = project.source().tables[0]
    assert replay(spark, table).counts.applied == 3
    set_position(spark, table, to_latest=False)
    assert project.land_well(spark)["order_line"].counts.duplicate == 6
    rows = spark.table(table.relation).select("id").collect()
    assert sorted(row["id"] for row in rows) == [0, 1, 10, 11, 20, 21]


@pytest.mark.spark
def test_gzipped_lines_are_landed_and_one_that_breaks_off_waits(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project({"tables": [table_of("order_line", COLUMNS, ["id"])]})
    topic = "shop.order_line"
    put(project, f"{topic}+0+0000000000.json.gz", [pg("c", 1, id=1, value="a"), pg("c", 2, id=2, value="b")])
    broken = put(project, f"{topic}+0+0000000010.json.gz", [pg("u", 3, id=1, value=os.urandom(4000).hex())])
    whole = broken.read_bytes()
    broken.write_bytes(whole[:1500])
    landed = project.land(spark)["order_line"]
    assert landed.counts.applied == 2
    assert landed.error is not None
    assert "0000000010.json.gz" in landed.error.message
    broken.write_bytes(whole)
    assert project.land_well(spark)["order_line"].counts.applied == 1
    assert [len(row["value"]) for row in project.rows(spark, "order_line")] == [8000, 1]


@pytest.mark.spark
@pytest.mark.slow
def test_another_key_or_other_partitions_are_refused(make_project: MakeProject, spark: SparkSession) -> None:
    """Rows of the other key would stand beside those that are there, and deletes would not find them."""
    columns = {"a": "int", "b": "string", "c": "string"}

    def declared(key: list[str], **options: Any) -> dict[str, Any]:
        return {"tables": [table_of("order_line", columns, key, **options)]}

    project = make_project(declared(["a", "b"], partition_by=["c"]))
    project.deliver("shop.order_line", 0, [pg("c", 1, a=1, b="x", c="z"), pg("c", 2, a=2, b="x", c="z")])
    project.land_well(spark)
    project.deliver("shop.order_line", 10, [pg("u", 3, a=1, b="x", c="y"), pg("d", 4, a=2, b="x", c="z")])
    for key, partition_by in ((["a", "b", "c"], ["c"]), (["b", "a"], ["c"]), (["a"], ["c"]), (["a", "b"], ["b"])):
        project.declare(declared(key, partition_by=partition_by))
        told = project.land(spark)["order_line"].error
        assert told is not None
        assert "the table was landed with ['a', 'b']" in told.message or "landed with ['c']" in told.message
        assert pending_plan(spark, project.source().tables[0]).error is not None
    project.declare(declared(["a", "b"], partition_by=["c"]))
    project.land_well(spark)
    assert project.rows(spark, "order_line") == [{"a": 1, "b": "x", "c": "y"}]


@pytest.mark.spark
@pytest.mark.slow
def test_another_order_is_refused_within_an_epoch(make_project: MakeProject, spark: SparkSession) -> None:
    """All that came since was older than what was there, and superseded without a word."""
    columns = {"id": "int", "at": "bigint", "seq": "int"}

    def declare(connector: Any = None, **options: Any) -> None:
        project.declare({"tables": [table_of("order_line", columns, ["id"], connector=connector, **options)]})

    project = make_project()
    declare(order_by=["at"])
    project.deliver("shop.order_line", 0, [{"id": 1, "at": 1000, "seq": 1}])
    project.land_well(spark)
    project.deliver("shop.order_line", 10, [pg("u", 10, id=1, at=1001, seq=2)])
    for connector, options in ((None, {"order_by": ["seq"]}), ("postgresql", {})):
        declare(connector, **options)
        told = project.land(spark)["order_line"].error
        assert told is not None
        assert "one order within an epoch" in told.message
    declare("postgresql", epoch=1)
    assert project.land_well(spark)["order_line"].counts.applied == 1
    assert project.rows(spark, "order_line", "seq") == [{"seq": 2}]
    declare("mariadb", epoch=2)
    told = project.land(spark)["order_line"].error
    assert told is not None
    assert "silver has __lsn, __source_sequence, which no event has by the declaration" in told.message


@pytest.mark.spark
def test_another_substring_of_the_key_is_refused(make_project: MakeProject, spark: SparkSession) -> None:
    """The row was there twice: in the partition of its old characters, and in that of its new ones."""

    def declare(length: int) -> None:
        entry = table_of("order_line", {"id": "string", "end": "string"}, ["id"], partition_by=["end"])
        derived = {"column": "id", "start": -length, "length": length}
        entry["columns"][1]["config"] = {"meta": {"ingest": {"substring_of": derived}}}
        project.declare({"tables": [entry]})

    project = make_project()
    declare(1)
    project.deliver("shop.order_line", 0, [pg("c", 1, id="abc")])
    project.land_well(spark)
    declare(2)
    project.deliver("shop.order_line", 10, [pg("u", 2, id="abc")])
    told = project.land(spark)["order_line"].error
    assert told is not None
    assert "the table was landed with {'end': 'substring(id, -1, 1)'}" in told.message


@pytest.mark.spark
@pytest.mark.slow
def test_a_history_that_was_not_kept_for_a_while_goes_on_with_silvers_rows(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """Of a row that changed meanwhile it had the old values, and of a deleted one that it is there."""

    def land(history: bool, offset: int, *events: Row) -> None:
        project.declare({"tables": [table_of("order_line", COLUMNS, ["id"], history=history)]})
        project.deliver("shop.order_line", offset, events)
        project.land_well(spark)

    project = make_project()
    land(True, 0, pg("c", 1, id=1, value="a"), pg("c", 2, id=2, value="b"))
    land(False, 10, pg("u", 10, id=1, value="meanwhile"), pg("d", 11, id=2, value=None))
    land(True, 20, pg("c", 20, id=3, value="c"))
    kept = spark.table(f"{project.schema}.order_line__changes").orderBy("id", "__position")
    assert [tuple(row) for row in kept.select("id", "value", "__op").collect()] == [
        (1, "a", "c"), (1, "meanwhile", "u"), (2, "b", "c"), (2, None, "d"), (3, "c", "c"),
    ]  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
def test_a_history_put_back_from_a_copy_goes_on_with_silvers_rows(
    make_project: MakeProject, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The changes between were missing from it, and of a row that one of them had changed it had the old values."""

    def land(offset: int, *events: Row) -> None:
        project.deliver("shop.order_line", offset, events)
        project.land_well(spark)

    def kept() -> list[tuple[Any, ...]]:
        changes = spark.read.format("hudi").load(str(folder)).orderBy("id", "__position")
        return [tuple(row) for row in changes.select("id", "value", "__op").collect()]

    project = make_project({"tables": [table_of("order_line", COLUMNS, ["id"], history=True)]})
    land(0, pg("c", 1, id=1, value="a"), pg("c", 2, id=2, value="b"))
    folder = Path(urlparse(changes_of(project.silver(spark, "order_line")).path).path)
    shutil.copytree(folder, tmp_path / "copy")
    land(10, pg("u", 10, id=1, value="lost"), pg("u", 11, id=1, value="meanwhile"), pg("d", 12, id=2, value=None))
    assert not caplog.messages
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    land(20, pg("c", 20, id=3, value="c"))
    known = [(1, "a", "c"), (1, "meanwhile", "u"), (2, "b", "c"), (2, None, "d"), (3, "c", "c")]
    assert kept() == known
    assert "as a copy of before would: it goes on with silver's rows" in caplog.text
    caplog.clear()
    land(30, pg("c", 30, id=4, value="d"))
    set_position(spark, project.source().tables[0], to_latest=False)
    project.land_well(spark)
    assert kept() == [*known[:1], (1, "lost", "u"), *known[1:], (4, "d", "c")]
    assert not caplog.messages


def test_declarations_of_one_table_are_refused(make_project: MakeProject) -> None:
    project = make_project({"tables": [table_of("orders", COLUMNS, ["id"])]})
    entry = {**table_of("orders", COLUMNS, ["id"])}
    (project.root / "models" / "_other.yml").write_text(
        json.dumps({"version": 2, "sources": [{"name": "other", "schema": project.schema.upper(), "tables": [entry]}]})
    )
    with pytest.raises(DeclarationError, match=r"declared by source '(shop|other)' too"):
        load_sources(Project.load(project.root))
    (project.root / "models" / "_other.yml").unlink()
    for tables, told in (
        ([table_of("orders", COLUMNS, ["id"]), table_of("Orders", COLUMNS, ["id"])], "declared twice"),
        ([table_of("_quarantine", COLUMNS, ["id"])], "a name that ingest gives a table of its own"),
        (
            [
                {**table_of(name, COLUMNS, ["id"]), "external": {"location": "one/place"}}
                for name in ("orders", "customers")
            ],
            "have one location",
        ),
    ):
        project.declare({"tables": tables})
        with pytest.raises(LakeError, match=told):
            project.source()


def failed_over(project: DbtProject, spark: SparkSession, value: str = "bigint") -> None:
    """Three events before a failover, two of them bad, and two behind it, in a log that begins again."""

    def declared(epoch: int, value: str) -> dict[str, Any]:
        return {"tables": [table_of("order_line", {"id": "int", "value": value}, ["id"], epoch=epoch)]}

    project.declare(declared(0, "int"))
    old = [pg("c", 100, id=1, value=1), pg("u", 200, id=1, value=3 * 10**9), pg("c", 300, id=2, value=3 * 10**9)]
    project.deliver("shop.order_line", 0, old)
    project.land_well(spark)
    project.declare(declared(1, "int"))
    project.deliver("shop.order_line", 10, [pg("u", 50, id=1, value=7), pg("d", 60, id=2, value=None)])
    project.land_well(spark)
    project.declare(declared(1, value))


@pytest.mark.spark
def test_what_waited_from_before_a_failover_is_older_than_what_came_since(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project()
    failed_over(project, spark)
    assert replay(spark, project.source().tables[0]).counts.superseded == 2
    assert project.rows(spark, "order_line") == [{"id": 1, "value": 7}]
    assert project.quarantined(spark) == []


@pytest.mark.slow
@pytest.mark.spark
def test_the_earliest_position_is_that_of_the_epoch(make_project: MakeProject, spark: SparkSession) -> None:
    """Events of before a failover that the source still has would count as newer than what came since."""
    project = make_project()
    failed_over(project, spark)
    assert "goes on from earliest, 1 files" in lake(
        project, "position", "shop", "--tables", "order_line", "--to", "earliest"
    )
    assert project.land_well(spark)["order_line"].counts.duplicate == 2
    assert project.rows(spark, "order_line") == [{"id": 1, "value": 7}]


@pytest.mark.spark
@pytest.mark.slow
def test_the_earliest_position_of_an_epoch_that_nothing_was_landed_in_is_where_the_last_one_ended(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """An event of the epoch before, landed again in this one, would win against all of a log that begins again."""

    def declare(epoch: int) -> None:
        project.declare({"tables": [table_of("order_line", COLUMNS, ["id"], epoch=epoch)]})

    project = make_project()
    for epoch, lsn in ((0, 300), (1, 200), (2, 100)):
        declare(epoch)
        if epoch:
            set_position(spark, project.source().tables[0], to_latest=False)
        project.deliver("shop.order_line", 10 * epoch, [pg("u", lsn, id=1, value=f"of epoch {epoch}")])
        assert project.land_well(spark)["order_line"].counts.applied == 1
        assert project.rows(spark, "order_line", "value") == [{"value": f"of epoch {epoch}"}]


def told_of_landing(project: DbtProject, spark: SparkSession, caplog: pytest.LogCaptureFixture) -> str:
    """What the log says of landing what is unread."""
    caplog.clear()
    project.land_well(spark)
    return caplog.text


@pytest.mark.slow
@pytest.mark.spark
def test_a_log_that_seems_to_have_begun_again_is_told(
    make_project: MakeProject, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """As after `RESET MASTER`: all that came since was superseded without a word."""
    project = make_project({"tables": [table_of("order_line", COLUMNS, ["id"])]})

    def told(offset: int, *changes: Row) -> bool:
        project.deliver("shop.order_line", offset, list(changes))
        return "raise `epoch`" in told_of_landing(project, spark, caplog)

    first = [pg("c", 300 + number, id=number, value="old") for number in range(3)]
    assert not told(0, *first)
    assert told(10, pg("u", 5, id=1, value="new"), pg("c", 6, id=7, value="new"))
    # Nor is it told of what is delivered once more, or comes late beside what is newer.
    assert not told(20, *first, pg("u", 100, id=1, value="late"))
    assert not told(30, pg("u", 110, id=1, value="late"), pg("u", 400, id=2, value="newer"))
    assert {row["id"]: row["value"] for row in project.rows(spark, "order_line")} == {
        0: "old", 1: "old", 2: "newer", 7: "new",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.spark
def test_a_topic_of_several_tables_mixes_no_rows(make_project: MakeProject, spark: SparkSession) -> None:
    """As ByLogicalTableRouter and RegexRouter make one: of shards, which are meant, or of tables that share nothing."""
    project = make_project({"tables": [table_of("order_line", COLUMNS, ["id"])]})

    def deliver(offset: int, *tables: str | None, **parts: str | None) -> None:
        events = [pg("c", 10 + offset + number, id=number, value=name) for number, name in enumerate(tables)]
        of_tables = [
            {**event, "__table": name, **parts} if name else event for event, name in zip(events, tables, strict=True)
        ]
        project.deliver("shop.order_line", offset, of_tables)

    def values(table: str) -> dict[int, str]:
        return {row["id"]: row["value"] for row in project.rows(spark, table)}

    # The connector's `add.fields` says more of its name later: it is the same table.
    deliver(0, "a", "a", __db=None)
    deliver(2, "a", __schema="public")
    project.land_well(spark)
    deliver(4, "a")
    project.land_well(spark)
    assert project.state(spark, "order_line").tables == ("shop.public.a",)
    deliver(10, "a", "b_1", "b_2")
    message = lake(project, "ingest", "shop", code=1)
    assert "brings changes of several tables, shop.b_2 and shop.public.a among them" in " ".join(message.split())
    assert values("order_line") == {0: "a", 1: "a"}

    options = {"topic": "shop.order_line", "tombstones": "ignore"}
    both = {"order_line": ["a"], "part": ["shop[.]B_.*"]}
    project.declare(
        {"tables": [table_of(name, COLUMNS, ["id"], table_include_list=of, **options) for name, of in both.items()]}
    )
    deliver(20, "a", "c", None)
    told = project.land(spark)
    assert (values("order_line"), values("part")) == ({0: "a", 1: "a"}, {1: "b_1", 2: "b_2"})
    assert (told["order_line"].counts, told["part"].counts) == (
        Counts(read=6, applied=1, superseded=1, ignored=3, quarantined=1),
        Counts(read=10, applied=2, ignored=7, quarantined=1),
    )
    aside = sorted((row["source_table"], row["reason_code"]) for row in project.quarantined(spark))
    assert aside == [("order_line", "unknown_table"), ("part", "unknown_table")]


@pytest.mark.spark
def test_another_topic_of_files_is_refused_until_a_position_is_chosen(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """Two topics that were swapped put the rows of each table among those of the other, without a word."""

    def declare(*topics: str) -> None:
        of_tables = zip(("order_line", "payment"), topics, strict=True)
        project.declare({"tables": [table_of(name, COLUMNS, ["id"], topic=topic) for name, topic in of_tables]})

    one, other = topics = ("shop.order_line", "shop.payment")
    project = make_project()
    declare(*topics)
    for number, topic in enumerate(topics):
        project.deliver(topic, 0, [pg("c", 10 + number, id=1, value=topic)])
    project.land_well(spark)
    declare(other, one)
    for name, outcome in project.land(spark).items():
        assert outcome.error is not None
        assert "were landed, and the declaration says" in outcome.error.message
        assert f"`lake position shop --tables {name} --to earliest`" in outcome.error.message
    assert project.rows(spark, "order_line", "value") == [{"value": one}]
    declare(one, "shop.payment_renamed")
    project.deliver("shop.payment_renamed", 0, [pg("u", 20, id=1, value="by its new name")])
    assert project.land(spark)["payment"].error is not None
    set_position(spark, project.source().tables[1], to_latest=False)
    project.land_well(spark)
    assert project.rows(spark, "payment", "value") == [{"value": "by its new name"}]


@pytest.mark.spark
def test_rows_of_a_snapshot_behind_a_truncate_are_there_whatever_their_partition(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """A truncate has no key, so that it comes in any partition, whose offsets say nothing of the others'."""
    project = make_project({"tables": [table_of("order_line", COLUMNS, ["id"])]})
    topic = project.bronze / "shop.order_line"
    topic.mkdir()

    def deliver(partition: int, offset: int, at_ms: int, *events: Row) -> None:
        text = "".join(json.dumps({**event, "__source_ts_ms": at_ms}) + "\n" for event in events)
        (topic / f"shop.order_line+{partition}+{offset:010d}.json").write_text(text)

    deliver(0, 5, 1_000, pg("c", 100, id=1, value="a"), pg("r", None, id=4, value="read before"))
    deliver(1, 900, 2_000, pg("t", 200, id=None, value=None))
    project.land_well(spark)
    assert project.rows(spark, "order_line") == []
    deliver(0, 7, 3_000, pg("r", None, id=2, value="b"))
    deliver(2, 1, 3_000, pg("r", None, id=3, value="c"))
    deliver(2, 2, 1_500, pg("r", None, id=5, value="read before"))
    landed = project.land_well(spark)["order_line"]
    assert (landed.counts.applied, landed.counts.superseded) == (2, 1)
    assert [row["id"] for row in project.rows(spark, "order_line")] == [2, 3]


@pytest.mark.spark
def test_a_truncate_empties_what_a_topic_before_a_failover_had(make_project: MakeProject, spark: SparkSession) -> None:
    """The offsets of a new topic begin again, and are less than those of the rows of an incremental snapshot."""

    def declare(epoch: int) -> None:
        project.declare({"tables": [table_of("order_line", COLUMNS, ["id"], epoch=epoch)]})

    project = make_project()
    declare(0)
    project.deliver("shop.order_line", 900, [pg("c", 300, id=1, value="a"), pg("r", None, id=2, value="b")])
    project.land_well(spark)
    declare(1)
    project.deliver("shop.order_line", 5, [pg("t", 100, id=None, value=None), pg("r", None, id=3, value="c")])
    project.land_well(spark)
    assert project.rows(spark, "order_line", "id") == [{"id": 3}]


@pytest.mark.spark
@pytest.mark.slow
def test_one_table_that_cannot_keeps_no_other_from_a_purge_or_a_replay(
    make_project: MakeProject, spark: SparkSession
) -> None:
    hard: Any = {"deletes": "hard", "delete_retention_days": 0}
    tables = [
        table_of("never_landed", COLUMNS, ["id"], **hard),
        table_of("order_line", COLUMNS, ["id"], **hard),
        table_of("broken", {"id": "int", "value": "int"}, ["id"]),
        table_of("mended", {"id": "int", "value": "int"}, ["id"]),
    ]
    project = make_project({"tables": tables})
    (project.bronze / "shop.never_landed").mkdir()
    project.deliver("shop.order_line", 0, [pg("c", 1, id=1, value="a"), pg("d", 2, id=1, value="a")])
    for name in ("broken", "mended"):
        project.deliver(f"shop.{name}", 0, [pg("c", 1, id=1, value=3 * 10**9)])
    project.land(spark)
    told = lake(project, "purge", "shop", code=1)
    assert "there is no such table yet" in told
    assert project.rows(spark, "order_line", "id", live=False) == []
    tables[2:] = [
        table_of("broken", COLUMNS, ["id"]),
        table_of("mended", {"id": "int", "value": "bigint"}, ["id"]),
    ]
    project.declare({"tables": tables})
    told = lake(project, "quarantine", "replay", "shop", "--tables", "broken,mended", code=1)
    assert "shop.broken: column value: declared string, int in silver" in told
    assert project.rows(spark, "mended", "id") == [{"id": 1}]


@pytest.mark.parametrize("command", [("position", "shop", "--to", "latest"), ("ingest", "shop"), ("prepare", "shop")])
def test_an_empty_list_of_tables_is_not_all_of_them(command: Sequence[str], make_project: MakeProject) -> None:
    """As of a variable of the shell that is not set."""
    project = make_project({"tables": [table_of("order_line", COLUMNS, ["id"])]})
    assert "--tables: names no table" in lake(project, *command, "--tables", "", code=1)


@pytest.mark.spark
def test_the_quarantine_of_no_such_table_is_an_error(make_project: MakeProject) -> None:
    project = make_project({"tables": [table_of("order_line", COLUMNS, ["id"])]})
    assert "no table nosuch" in lake(project, "quarantine", "show", "shop", "--tables", "nosuch", code=1)


@pytest.mark.slow
@pytest.mark.spark
def test_another_bad_event_at_the_place_of_one_that_waits_is_counted(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project({"tables": [table_of("order_line", {"id": "int", "value": "int"}, ["id"])]})
    for at, (text, quarantined) in enumerate((("one", 1), ("another", 1), ("another", 0))):
        file = project.deliver("shop.order_line", 0, [pg("c", 1, id=1, value=text)])
        os.utime(file, (SAME_TIME + at, SAME_TIME + at))
        counts = project.land_well(spark)["order_line"].counts
        assert (counts.quarantined, counts.duplicate) == (quarantined, 1 - quarantined)


def test_a_stop_ends_continuous_ingest_with_the_batch_it_is_at(make_project: MakeProject, spark: SparkSession) -> None:
    """Each portion of a backlog is told of as it is landed, and none begins behind a stop."""
    project = make_project({"tables": [table_of("item", {"id": "int", "v": "string"}, ["id"])]})
    project.connect({"batch_bytes": 1})
    for offset in range(4):
        project.deliver("shop.item", offset, [pg("c", offset, id=offset, v="a")])
    batches: list[int] = []
    running: list[Continuous] = []

    def told(progress: Progress) -> None:
        if progress.batches:
            batches.append(progress.batches)
            running[0].stop()

    with landing(spark, project.source().tables, told) as run:
        running.append(run)
        wait_until(lambda: bool(batches), "a batch is told of")
    assert set(batches) == {1}
    assert len(project.rows(spark, "item")) == 1
    assert run.progress["item"].as_event()["unread"] == 3
    assert 'lake_unread_input{source="shop",table="item"} 3' in as_text(run.progress)
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=3)
