"""Kinesis as a source, against moto's server: what is read, where it goes on, and what it refuses."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
import yaml
from conftest import DbtProject, MakeProject, new_project, pg, table_of
from continuously import landing, wait_until
from killing import LANDS_ON_DEMAND, PHASES, child_of, wait_until_new
from kinesis_streams import DrivenStream, aggregated, kinesis_served, throttled
from pyspark.sql import SparkSession
from registry_server import serve

from dev.chain import processes
from dev.chain.kinesis import Kinesis, make_streams
from ingest.cli.metrics import as_text
from ingest.config.connections import KinesisConnection
from ingest.landing import continuous
from ingest.operations.position import set_position
from ingest.operations.status import status_of
from ingest.silver.state import Counts
from ingest.silver.table import SilverTable
from ingest.sources import kinesis_reader
from ingest.sources.kinesis_client import StreamClient

pytestmark = [pytest.mark.real, pytest.mark.spark]

COLUMNS = {"id": "int", "v": "string"}
# Keys of which the first two are in the second of two shards, the others in the first.
SECOND, FIRST = (1, 2), (6, 9)
Make = Callable[..., DbtProject]


@pytest.fixture(scope="module")
def kinesis() -> Iterator[KinesisConnection]:
    """A connection to the stand-in."""
    with kinesis_served() as connection:
        yield connection


@pytest.fixture
def make(make_project: MakeProject, kinesis: KinesisConnection) -> Make:
    """Makes a project of tables by their streams: `make("shop.note", ...)`, with options of theirs."""

    def of(*topics: str, connection: Mapping[str, Any] | None = None, **options: Any) -> DbtProject:
        return connected(
            make_project({"tables": [declared(topic, **options) for topic in topics]}), kinesis, connection
        )

    return of


def declared(topic: str, **options: Any) -> dict[str, Any]:
    """A table of a stream."""
    given = {"connection": "stream", "topic": topic, "key": ["id"], **options}
    key: Sequence[str] = given.pop("key")
    return table_of(given.pop("name", topic.rpartition(".")[2]), COLUMNS, key, **given)


def connected(project: DbtProject, kinesis: KinesisConnection, more: Mapping[str, Any] | None = None) -> DbtProject:
    """The project, with its connection."""
    settings = {**kinesis.model_dump(include={"type", "region", "endpoint_url"}), **(more or {})}
    (project.root / "connections.yml").write_text(yaml.safe_dump({"stream": settings}), encoding="utf-8")
    return project


def put(stream: DrivenStream, *events: Mapping[str, Any] | bytes) -> None:
    """Puts events, each under its row's key as Debezium Server does."""
    for event in events:
        data = event if isinstance(event, bytes) else json.dumps(event).encode()
        number = event["id"] if isinstance(event, Mapping) else 1
        stream.put(str(number), data)


def shards(project: DbtProject, spark: SparkSession, table: str) -> dict[str, Any]:
    """Where each shard was read up to, as the table's last commit has it."""
    told = json.loads(project.state(spark, table).position)
    assert told["kind"] == "kinesis"
    return dict(told["position"]["shards"])


def test_records_are_landed_once_and_the_commit_says_up_to_where(
    kinesis: KinesisConnection, make: Make, spark: SparkSession
) -> None:
    stream = DrivenStream(kinesis, "shop.once")
    put(stream, pg("c", 10, id=1, v="a"), pg("u", 20, id=1, v="b"), b"no JSON", pg("c", 30, id=6, v="c"), b"")
    project = make("shop.once")
    assert project.land_well(spark)["once"].counts == Counts(5, applied=2, superseded=1, ignored=1, quarantined=1)
    position = shards(project, spark, "once")
    assert len(position) == 2
    assert all(shard["after"] and shard["until"] for shard in position.values())
    (bad,) = project.quarantined(spark)
    assert (bad["topic"], bad["file"], bad["partition"], bytes(bad["raw"])) == ("shop.once", "shop.once", 1, b"no JSON")

    again = project.land_well(spark)["once"]
    assert (again.counts, again.taken, again.unit, again.behind_ms) == (Counts(), 0, "records", 0)
    put(stream, pg("d", 40, id=6, v=None), pg("u", 20, id=1, v="b"))
    assert project.land_well(spark)["once"].counts == Counts(2, applied=1, duplicate=1)
    assert project.rows(spark, "once") == [{"id": 1, "v": "b"}]


def test_the_record_s_key_is_the_partition_key_where_it_is_one(
    kinesis: KinesisConnection, make: Make, spark: SparkSession
) -> None:
    """Debezium Server writes a tombstone without bytes, and the key as JSON; other producers choose what they like."""
    stream = DrivenStream(kinesis, "shop.keyed")
    put(stream, pg("c", 10, id=1, v="a"), pg("c", 20, id=2, v="b"))
    stream.put('{"id": 1}', b"")
    stream.put("default", json.dumps({**pg("d", 30, id=2, v=None)}).encode())
    project = make("shop.keyed", tombstones="delete")
    assert project.land_well(spark)["keyed"].counts.applied == 2
    assert project.rows(spark, "keyed") == []


def test_avro_is_decoded_by_a_registry_or_by_a_declared_schema(
    kinesis: KinesisConnection, make: Make, spark: SparkSession
) -> None:
    fields = {"id": "int", "v": ["null", "string"], "__op": "string", "__lsn": "long", "__deleted": "string"}
    schema = {"type": "record", "name": "Value",
              "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}  # fmt: skip
    rows = [{"id": number, "v": f"v{number}", "__op": "c", "__lsn": number, "__deleted": "false"} for number in (1, 6)]

    def avro(row: Mapping[str, Any]) -> bytes:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(dict(schema)), dict(row))
        return body.getvalue()

    with_ids, bare = DrivenStream(kinesis, "shop.with_ids"), DrivenStream(kinesis, "shop.bare")
    for row in rows:
        with_ids.put(str(row["id"]), b"\x00" + (7).to_bytes(4, "big") + avro(row))
        bare.put(str(row["id"]), avro(row))
    with serve({"7": {"schema": json.dumps(schema)}}) as registry:
        project = make("shop.with_ids", connection={"registry": {"url": registry.url}})
        assert project.land_well(spark)["with_ids"].counts == Counts(2, applied=2)
    assert project.rows(spark, "with_ids") == [{"id": 1, "v": "v1"}, {"id": 6, "v": "v6"}]
    project = make("shop.bare", schema_file="value.avsc")
    (project.root / "value.avsc").write_text(json.dumps(schema), encoding="utf-8")
    assert project.land_well(spark)["bare"].counts == Counts(2, applied=2)
    assert project.rows(spark, "bare") == [{"id": 1, "v": "v1"}, {"id": 6, "v": "v6"}]


def test_shards_that_are_split_and_merged_are_read_parents_first(
    kinesis: KinesisConnection, make: Make, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No log orders the changes here: the one that was delivered last counts, in whichever shard it is."""
    monkeypatch.setattr(kinesis_reader, "_PAUSE_S", 0.0)
    stream = DrivenStream(kinesis, "shop.moved")
    keys = range(1, 7)

    def round_of(name: str) -> None:
        put(stream, *(pg("u", 100, id=key, v=name) for key in keys))

    round_of("a")
    project = make("shop.moved", connection={"batch_records": 4}, connector=None, order_by=["__source_ts_ms"])
    assert project.land_well(spark)["moved"].counts.read == 6
    stream.split(0)
    stream.split(2)
    round_of("b")
    stream.merge(1)
    round_of("c")
    landed = project.land_well(spark)["moved"]
    assert landed.counts.read == 12
    assert project.rows(spark, "moved") == [{"id": key, "v": "c"} for key in keys]
    position = shards(project, spark, "moved")
    assert [bool(position[name].get("ended")) for name in sorted(position)] == [
        True,
        True,
        False,
        True,
        True,
        False,
        False,
    ]
    round_of("d")
    assert project.land_well(spark)["moved"].counts == Counts(6, applied=6)


def test_a_closed_shard_whose_children_are_empty_is_landed_to_its_end(
    kinesis: KinesisConnection, make: Make, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last records fill a portion: whether there is another one, only the children tell."""
    monkeypatch.setattr(kinesis_reader, "_PAUSE_S", 0.0)
    stream = DrivenStream(kinesis, "shop.closed")
    put(stream, *(pg("u", 100 + number, id=FIRST[0], v=str(number)) for number in range(4)))
    stream.split(0)
    project = make("shop.closed", connection={"batch_records": 2})
    assert project.land_well(spark)["closed"].counts.read == 4
    assert project.rows(spark, "closed") == [{"id": FIRST[0], "v": "3"}]
    position = shards(project, spark, "closed")
    assert [bool(position[name].get("ended")) for name in sorted(position)] == [True, False, False, False]


def test_aggregated_records_are_events_and_are_known_when_they_come_again(
    kinesis: KinesisConnection, make: Make, spark: SparkSession
) -> None:
    stream = DrivenStream(kinesis, "shop.packed")
    events = [json.dumps(pg("c", 10 + number, id=number, v="a")).encode() for number in range(5)]
    for _ in range(2):
        stream.put("1", aggregated([("any", each) for each in [*events, b"bad", b"worse"]]))
    project = make("shop.packed", key=[], history=False)
    assert project.land_well(spark)["packed"].counts == Counts(14, applied=10, quarantined=4)
    assert len(project.quarantined(spark)) == 4
    set_position(spark, project.source().tables[0], to_latest=False)
    counts = project.land(spark)["packed"].counts
    assert (counts.read, counts.applied) == (14, 0), "each event is known by its place"
    assert len(project.rows(spark, "packed", "id", "v")) == 10
    assert len(project.quarantined(spark)) == 4


@pytest.mark.parametrize("to_latest", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_records_that_may_have_expired_are_for_somebody_to_decide(
    to_latest: bool, kinesis: KinesisConnection, make: Make, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in lets nothing expire by itself: records are taken away, and a day counts as over at once."""
    name = f"expired_{to_latest}".lower()
    stream = DrivenStream(kinesis, f"shop.{name}")
    put(stream, *(pg("c", number, id=number, v="a") for number in (*FIRST, *SECOND)))
    project = make(f"shop.{name}")
    project.land_well(spark)
    monkeypatch.setattr(kinesis_reader, "_MARGIN_MS", 2 * 24 * 3_600_000)
    assert project.land_well(spark)[name].counts.read == 0, "the last records are still there"
    put(stream, *(pg("u", 100 + number, id=number, v="b") for number in (*FIRST, *SECOND)))
    put_by_ms = time.time() * 1000
    stream.expire(left=1)
    error = project.land(spark)[name].error
    assert error is not None
    assert "the stream keeps records for 24 hours" in error.message
    (declared_,) = project.source().tables
    assert f"`lake position shop --tables {declared_.name} --to earliest`" in error.message
    monkeypatch.undo()
    # The stream's clock tells seconds: what arrived in the second of its listing is still to come.
    wait_until(lambda: StreamClient(kinesis).stream(stream.name).at_ms > put_by_ms, "a later second of the stream")
    pending = set_position(spark, declared_, to_latest=to_latest)
    assert pending.waiting == (0 if to_latest else 2)
    assert project.land_well(spark)[name].counts.read == (0 if to_latest else 2)


def test_a_shard_that_vanishes_before_it_was_read_stops_its_table_alone(
    kinesis: KinesisConnection, make_project: MakeProject, spark: SparkSession
) -> None:
    """One that was split and read to its end is missed by nobody; a stream without a record is no mistake."""
    gone, well, still = [DrivenStream(kinesis, f"shop.{name}") for name in ("gone", "well", "still")]
    project = connected(
        make_project({"tables": [declared(each) for each in ("shop.gone", "shop.well", "shop.still")]}), kinesis
    )
    for stream in (gone, well):
        put(stream, *(pg("c", 10 + number, id=number, v="a") for number in (*FIRST, *SECOND)))
        stream.split(0)
    assert project.land_well(spark)["still"].counts == Counts()
    well.vanish("shardId-000000000000")
    gone.vanish("shardId-000000000001")
    for stream in (gone, well, still):
        put(stream, pg("u", 100, id=FIRST[0], v="b"))
    landed = project.land(spark)
    error = landed["gone"].error
    assert error is not None
    assert "shardId-000000000001 is gone, and was not read to its end" in error.message
    assert "`lake position shop --tables gone --to earliest`" in error.message
    assert [landed[name].error for name in ("well", "still")] == [None, None]
    assert [landed[name].counts for name in ("well", "still")] == [Counts(1, applied=1)] * 2
    assert landed["gone"].counts == Counts()


def test_throttled_reads_are_landed_all_the_same(kinesis: KinesisConnection, make: Make, spark: SparkSession) -> None:
    stream = DrivenStream(kinesis, "shop.busy")
    put(stream, *(pg("c", number, id=number, v="a") for number in (*FIRST, *SECOND)))
    project = make("shop.busy")
    with throttled(4) as left:
        assert project.land_well(spark)["busy"].counts == Counts(4, applied=4)
        assert left() == 0


@pytest.mark.slow
def test_two_tables_read_one_stream_each_from_its_own_position(
    kinesis: KinesisConnection, make_project: MakeProject, spark: SparkSession
) -> None:
    stream = DrivenStream(kinesis, "shop.shared")
    tables = [declared("shop.shared"), declared("shop.shared", name="shared_log", key=[])]
    project = connected(make_project({"tables": tables}), kinesis)
    put(stream, pg("c", 10, id=1, v="a"), pg("u", 20, id=1, v="b"))
    assert project.land_well(spark, "shared")["shared"].counts.read == 2
    put(stream, pg("u", 30, id=1, v="c"))
    landed = project.land_well(spark)
    assert (landed["shared"].counts.read, landed["shared_log"].counts.read) == (1, 3)
    assert project.rows(spark, "shared") == [{"id": 1, "v": "c"}]
    assert sorted(row["v"] for row in project.rows(spark, "shared_log", "v")) == ["a", "b", "c"]


def test_a_quiet_stream_s_position_is_renewed(kinesis: KinesisConnection, make: Make, spark: SparkSession) -> None:
    stream = DrivenStream(kinesis, "shop.quiet", shards=1)
    put(stream, pg("c", 10, id=1, v="a"))
    project = make("shop.quiet")
    project.land_well(spark)
    silver, state = project.silver(spark, "quiet"), project.state(spark, "quiet")
    told = json.loads(state.position)
    (shard,) = told["position"]["shards"].values()
    shard["until"] -= 13 * 3_600_000
    nothing = silver.read().limit(0).select(*silver.columns())
    silver.write(nothing, replace(state, counts=Counts(), position=json.dumps(told)), first=False)
    old = project.state(spark, "quiet").instant
    assert project.land_well(spark)["quiet"].counts.read == 0
    (renewed,) = shards(project, spark, "quiet").values()
    assert renewed["until"] > shard["until"] + 12 * 3_600_000
    assert renewed["after"] == shard["after"]
    new = project.state(spark, "quiet")
    assert new.instant != old
    assert new.totals.read == 1
    assert project.land_well(spark)["quiet"].counts.read == 0
    assert project.state(spark, "quiet").instant == new.instant, "once"


def test_news_wake_a_table_and_its_lag_is_told(
    kinesis: KinesisConnection, make: Make, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing but the watch can wake the table.
    monkeypatch.setattr(continuous, "_LOOKED_FOR_MORE_EVERY_S", 3600.0)
    stream = DrivenStream(kinesis, "shop.live")
    put(stream, pg("c", 10, id=1, v="a"))
    project = make("shop.live")
    with landing(spark, project.source().tables) as run:
        wait_until(lambda: run.progress["live"].totals.read == 1, "the first event is landed")
        wait_until(lambda: run.progress["live"].state == "waiting", "the table waits")
        put(stream, pg("u", 20, id=1, v="b"))
        wait_until(lambda: run.progress["live"].totals.read == 2, "the second is landed")
        wait_until(lambda: run.progress["live"].state == "waiting", "the table waits again")
        stream.split(1)
        put(stream, pg("u", 30, id=1, v="c"))
        wait_until(lambda: run.progress["live"].totals.read == 3, "the one behind the split is landed")
        assert 'lake_behind_seconds{source="shop",table="live"} 0' in as_text(run.progress)
    assert project.rows(spark, "live") == [{"id": 1, "v": "c"}]
    put(stream, pg("u", 40, id=1, v="d"), pg("u", 50, id=1, v="e"))
    (status,) = status_of(spark, project.source())
    assert (status.state, status.landed, status.behind_ms) == ("behind", None, 0)
    assert status.waiting >= 1


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["files written, not committed", "committed, not registered"])
def test_a_killed_run_is_gone_on_with(
    phase: str, kinesis: KinesisConnection, tmp_path: Path, spark: SparkSession
) -> None:
    name = f"killed_{len(phase)}"
    stream = DrivenStream(kinesis, f"shop.{name}")
    project = connected(new_project(tmp_path, {"tables": [declared(f"shop.{name}", key=[])]}), kinesis)
    home = tmp_path / "lake"
    table = home / "warehouse" / f"{project.schema}.db" / name
    put(stream, *(pg("c", number, id=number, v="a") for number in (*FIRST, *SECOND)))
    with child_of(LANDS_ON_DEMAND, project.root, home) as child:
        child.tell()
        child.answer()
        put(stream, *(pg("u", 10 + number, id=number, v="b") for number in (*FIRST, *SECOND)))
        assert wait_until_new(PHASES[phase], table, child, child.tell, phase)
    put(stream, pg("u", 100, id=1, v="c"))
    with child_of(LANDS_ON_DEMAND, project.root, home) as child:
        child.tell()
        child.answer()
    (declared_,) = project.source().tables
    state = SilverTable(spark, declared_, str(table)).state()
    assert state is not None
    assert (state.totals.read, state.totals.applied) == (9, 9)
    rows = spark.read.format("hudi").load(str(table)).select("id", "v").collect()
    assert len(rows) == 9, "every event once, of a table without a key"


@pytest.mark.slow
def test_the_chain_s_server_is_started_and_stopped(tmp_path: Path) -> None:
    server = Kinesis(tmp_path / "kinesis", processes.free_port())
    assert processes.start(server)
    try:
        assert not processes.start(server), "it runs"
        assert make_streams(server.address, ["shop.one", "shop.two"]) == ["shop.one", "shop.two"]
        assert make_streams(server.address, ["shop.one"]) == ["shop.one", "shop.two"]
    finally:
        assert processes.stop(server)
    assert processes.running(server) is None
