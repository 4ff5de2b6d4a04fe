"""Sources are told apart in one place, and another distribution can bring one."""

from __future__ import annotations

import ast
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from conftest import DbtProject, Event, MakeProject, pg, table_of
from continuously import landing, wait_until
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from ingest.config.connections import KafkaConnection
from ingest.config.project import Project
from ingest.errors import DeclarationError, InputError
from ingest.landing import continuous
from ingest.landing.backlog import position_at
from ingest.operations.position import set_position
from ingest.silver.state import Counts
from ingest.sources import kafka
from ingest.sources.files import FilesPosition
from ingest.sources.kafka import KafkaPosition, TopicPosition
from ingest.sources.kafka_client import NO_ID, Partition
from ingest.sources.kinds import position_kind
from ingest.sources.raw import EventFile

REPOSITORY = Path(__file__).parents[2]
# A folder as a package's installation leaves it: the module, and what its distribution says of itself.
OUTSIDE = REPOSITORY / "tests" / "outside"
NOTE = {"id": "int", "title": "string"}


@dataclass(frozen=True)
class Outbox:
    """A project whose one table, `note`, comes from an outbox."""

    project: DbtProject
    path: Path

    def put(self, events: Sequence[Event], topic: str = "shop.note") -> None:
        """Adds events to the outbox."""
        with closing(sqlite3.connect(self.path)) as database, database:
            rows = [(topic, json.dumps({"id": event["id"]}).encode(), json.dumps(event).encode()) for event in events]
            database.executemany("insert into outbox (topic, key, value) values (?, ?, ?)", rows)

    def position(self, spark: SparkSession) -> Any:
        """What the last commit says."""
        return json.loads(self.project.state(spark, "note").position)


@pytest.fixture
def outbox(make_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> Outbox:
    """A project with an empty outbox, whose source is installed."""
    monkeypatch.syspath_prepend(OUTSIDE)
    project = make_project({"tables": [table_of("note", NOTE, ["id"], connection="outbox")]})
    path = project.root / "outbox.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table outbox (id integer primary key, topic text, key blob, value blob)")
    connect(project, path=str(path), batch_records=2)
    return Outbox(project, path)


def connect(project: DbtProject, kind: str = "outbox", **settings: Any) -> None:
    """Writes the connection of that name."""
    text = yaml.safe_dump({"outbox": {"type": kind, **settings}})
    (project.root / "connections.yml").write_text(text, encoding="utf-8")


def note(op: str, lsn: int, note_id: int, title: str | None) -> dict[str, Any]:
    return pg(op, lsn, id=note_id, title=title)


def test_no_room_but_sources_and_config_names_a_kind_of_source() -> None:
    found = []
    for path in sorted((REPOSITORY / "ingest").rglob("*.py")):
        room = path.relative_to(REPOSITORY / "ingest").parts[0]
        if room not in ("sources", "config"):
            found += [f"{path.relative_to(REPOSITORY)} names {name}" for name in kinds_named(path)]
    assert not found


def kinds_named(path: Path) -> list[str]:
    """The classes and modules of one kind of source that a module names."""
    classes = ("FilesConnection", "KafkaConnection", "KinesisConnection")
    modules = ("files", "kafka", "kafka_client", "kinesis", "kinesis_client", "kinesis_reader", "kinesis_records")
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Name):
            names = [node.id]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        for name in names:
            of_sources = f"{name}.".startswith(tuple(f"ingest.sources.{module}." for module in modules))
            if of_sources or name.rsplit(".", 1)[-1] in classes:
                found.append(name)
    return found


def test_a_position_tells_its_kind() -> None:
    """Those of files and Kafka by their form: that is how lakes hold them."""
    files = FilesPosition(frozenset({EventFile("/bronze/a.json", 1, 2)})).to_text("/bronze")
    assert position_kind(files) == position_kind(FilesPosition().to_text("/bronze")) == "files"
    kafka = KafkaPosition({"kind": TopicPosition("id", {0: 3})})
    assert kafka.to_text() == '{"kafka":{"kind":{"id":"id","next":{"0":3}}}}'
    assert position_kind(kafka.to_text()) == position_kind(KafkaPosition().to_text()) == "kafka"
    assert position_kind('{"kind":"outbox","position":7}') == "outbox"


def test_where_records_have_expired_no_other_partition_goes_back_before_the_epoch(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka removes whole segments, of each partition for itself: those that are there may begin before the epoch."""
    project = make_project({"tables": [table_of("note", NOTE, ["id"], connection="outbox")]})
    connect(project, "kafka", bootstrap_servers="nowhere.invalid:9092")
    begin = KafkaPosition({"shop.note": TopicPosition("a", {0: 1_000, 1: 50, 2: 90})}).to_text()
    table = project.source().tables[0]
    no_session: Any = None

    def earliest(topic_id: str) -> Any:
        listed = [Partition("shop.note", topic_id, number, first, 2_050)
                  for number, first in ((0, 2_000), (1, 0), (2, 0), (3, 7))]  # fmt: skip
        monkeypatch.setattr(kafka, "partitions", lambda *_: listed)
        position, pending = position_at(no_session, table, begin=begin, to_latest=False)
        assert pending.position == position
        return KafkaPosition.from_text(position).topics["shop.note"].next

    for topic_id in ("a", NO_ID):
        assert earliest(topic_id) == {0: 2_000, 1: 50, 2: 90, 3: 7}
    assert earliest("made anew") == {0: 2_000, 1: 0, 2: 0, 3: 7}


@given(st.sampled_from(["a", NO_ID]), st.sampled_from(["a", "b", NO_ID]), st.integers(0, 9), st.integers(0, 9))
def test_a_topic_is_another_one_by_its_id_or_where_there_is_none_by_offsets_that_went_back(
    before: str, now: str, read: int, end: int
) -> None:
    """Brokers that tell no ids have one for all topics; a newer version of them brings ids of the same topics."""
    table: Any = SimpleNamespace(relation="silver.note", alone="shop --tables note")
    position = KafkaPosition({"shop.note": TopicPosition(before, {0: read, 1: 2})})
    listed = [Partition("shop.note", now, 0, 0, end), Partition("shop.note", now, 1, 0, 2)]
    if {before, now} == {"a", "b"} or read > end:
        with pytest.raises(InputError) as caught:
            position.pending(listed, table)
        is_truncated = before == now == "a"
        assert ("was deleted and made anew" in caught.value.message) == (not is_truncated)
        assert ("raise the table's `epoch`" in caught.value.message) == (not is_truncated)
        if not is_truncated:
            assert position.earliest(listed).topics["shop.note"].next[0] == 0
        return
    assert sum(part.length for part in position.pending(listed, table)) == end - read
    after = position.advanced(listed, {("shop.note", 0): end})
    assert after.topics["shop.note"] == TopicPosition(before if now == NO_ID else now, {0: end, 1: 2})


def test_the_connection_of_an_installed_source_is_checked_as_any_other(outbox: Outbox) -> None:
    project = outbox.project
    assert project.source().tables[0].connection.type == "outbox"
    for kind, settings, expected in (
        ("outbox", {}, "path"),
        ("outbox", {"path": "x", "pth": "y"}, "pth"),
        ("outbox", {"path": "x", "token": "secret"}, "token is written into the file"),
        ("inbox", {"path": "x"}, "one of: files, kafka, kinesis, jdbc, broken, modelless, outbox"),
        ("broken", {"path": "x"}, "the source 'broken' cannot be loaded"),
        ("modelless", {"path": "x"}, "the source 'modelless' has no model of its connections"),
    ):
        connect(project, kind, **settings)
        with pytest.raises(DeclarationError) as caught:
            Project.load(project.root)
        assert expected in caught.value.message
        assert "secret" not in caught.value.message


def test_a_source_without_topics_takes_no_pattern(outbox: Outbox) -> None:
    table = table_of("note", NOTE, ["id"], connection="outbox", topic_pattern="shop.*")
    outbox.project.declare({"tables": [table]})
    with pytest.raises(DeclarationError, match="topic_pattern is given, and the connection 'outbox' is of type outbox"):
        outbox.project.source()


@pytest.mark.spark
@pytest.mark.slow
def test_a_source_from_outside_is_landed_and_gone_on_with(outbox: Outbox, spark: SparkSession) -> None:
    project = outbox.project
    outbox.put([note("c", 1, 1, "a"), note("c", 2, 2, "b"), note("u", 3, 1, "c")])
    outbox.put([note("c", 4, 9, "of another")], topic="shop.other")
    first = project.land_well(spark)["note"]
    assert (first.taken, first.unit, first.ends) == (3, "records", {("shop.note", 0): 4})
    assert project.rows(spark, "note") == [{"id": 1, "title": "c"}, {"id": 2, "title": "b"}]
    assert outbox.position(spark) == {"kind": "outbox", "position": 4}
    assert project.land_well(spark)["note"].taken == 0
    outbox.put([note("d", 5, 2, None), note("u", 6, 1, "e")])
    assert project.land_well(spark)["note"].counts == Counts(read=2, applied=2)
    assert project.rows(spark, "note") == [{"id": 1, "title": "e"}]
    assert project.state(spark, "note").totals.read == 5

    (table,) = project.source().tables
    assert set_position(spark, table, to_latest=False).waiting == 5
    assert project.land_well(spark)["note"].counts.applied == 0, "silver knows events by their positions"
    assert project.rows(spark, "note") == [{"id": 1, "title": "e"}]

    connect(project, "files", path=str(project.bronze))
    (project.bronze / "shop.note").mkdir()
    error = project.land(spark)["note"].error
    assert error is not None
    assert "the table was read from outbox, and its connection is of type files now" in error.message


@pytest.mark.slow
@pytest.mark.spark
def test_a_table_without_a_key_is_not_landed_again_from_another_kind_of_input(
    outbox: Outbox, spark: SparkSession
) -> None:
    """Its rows are known by where they were delivered: each was there twice."""
    project = outbox.project
    project.declare({"tables": [table_of("note", NOTE, [], connection="outbox")]})
    outbox.put([note("c", 1, 1, "a"), note("c", 2, 2, "b")])
    project.land_well(spark)
    (table,) = project.source().tables
    assert set_position(spark, table, to_latest=False).waiting == 2
    assert project.land_well(spark)["note"].counts == Counts(read=2, duplicate=2)
    connect(project, "files", path=str(project.bronze))
    project.deliver("shop.note", 1, [note("c", 1, 1, "a"), note("c", 2, 2, "b")])
    (table,) = project.source().tables
    with pytest.raises(InputError, match="--to latest` goes on with what will come: without a key"):
        set_position(spark, table, to_latest=False)
    assert set_position(spark, table, to_latest=True).waiting == 0
    project.deliver("shop.note", 3, [note("c", 3, 3, "c")])
    assert project.land_well(spark)["note"].counts == Counts(read=1, applied=1)
    assert [row["id"] for row in project.rows(spark, "note")] == [1, 2, 3]


@pytest.mark.spark
def test_news_of_a_source_from_outside_wake_its_tables(
    outbox: Outbox, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing but the watch can wake the table.
    monkeypatch.setattr(continuous, "_LOOKED_FOR_MORE_EVERY_S", 3600.0)
    outbox.put([note("c", 1, 1, "a")])
    with landing(spark, outbox.project.source().tables) as run:
        wait_until(lambda: run.progress["note"].totals.read == 1, "the first event is landed")
        wait_until(lambda: run.progress["note"].state == "waiting", "the table waits")
        outbox.put([note("u", 2, 1, "b")])
        wait_until(lambda: run.progress["note"].totals.read == 2, "the second is landed")
    assert outbox.project.rows(spark, "note") == [{"id": 1, "title": "b"}]
    assert outbox.position(spark) == {"kind": "outbox", "position": 3}


def test_settings_of_kafka_may_be_numbers_and_booleans_as_yaml_reads_them(make_project: MakeProject) -> None:
    project = make_project({"tables": [table_of("note", NOTE, ["id"], connection="outbox")]})
    login = "M required username=\"{{ env_var('HOME') }}\" password=\"{{ env_var('HOME') }}\";"
    options = {"request.timeout.ms": 5_000, "check.crcs": False, "client.id": "lake", "sasl.jaas.config": login}
    connect(project, "kafka", bootstrap_servers="nowhere.invalid:9092", options=options)
    connection = project.source().tables[0].connection
    assert isinstance(connection, KafkaConnection)
    assert (
        connection.settings.items()
        >= {"request.timeout.ms": "5000", "check.crcs": "false", "client.id": "lake"}.items()
    )
