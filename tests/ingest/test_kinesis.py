"""Kinesis' shards are read once, parents first, whatever is split, merged, bounded or begun again. Without Spark."""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from conftest import MakeProject, table_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kinesis_streams import DrivenStream, aggregated, kinesis_served, throttled
from typer.testing import CliRunner

from dev.chain.kinesis import REGION
from dev.chain.moto_kinesis import streams
from dev.chain.processes import free_port
from ingest.cli.app import app
from ingest.config.connections import KinesisConnection
from ingest.errors import DeclarationError, InputError, SetupError, UnavailableError
from ingest.schema.connectors import connector_of
from ingest.sources import kinesis_client
from ingest.sources.base import Withheld
from ingest.sources.kinesis import UnreadShards
from ingest.sources.kinesis_client import StreamClient, StreamWatch
from ingest.sources.kinesis_reader import KinesisPosition
from ingest.sources.kinesis_records import Event, events_of, place_of

# Keys of which the first shard of two has the last two, with two events aggregated for each.
BOTH = [1, 2, 6, 9]
_NAMES = (f"shop.stream{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def connection() -> Iterator[KinesisConnection]:
    """A connection to the stand-in."""
    with kinesis_served() as found:
        yield found


@dataclass
class Played:
    """A stream that is put into, and a reader that goes on from its position."""

    connection: KinesisConnection
    name: str = field(default_factory=lambda: next(_NAMES))
    put: list[str] = field(default_factory=list)
    read: list[tuple[str, tuple[int, int, int]]] = field(default_factory=list)
    position: KinesisPosition = field(default_factory=KinesisPosition)

    def __post_init__(self) -> None:
        self.stream = DrivenStream(self.connection, self.name)

    def put_events(self, keys: list[int]) -> None:
        """Puts one event for each key, some of them aggregated."""
        for key in keys:
            self.put.append(f"{key}:{len(self.put)}")
            data = self.put[-1].encode()
            if key % 3 == 0:
                self.put.append(f"{key}:{len(self.put)}")
                data = aggregated([(str(key), data), (str(key), self.put[-1].encode())])
            self.stream.put(str(key), data)

    def split(self, which: int) -> None:
        """Splits a shard."""
        self.stream.split(which)

    def merge(self, which: int) -> None:
        """Merges two shards."""
        self.stream.merge(which)

    def unread(self) -> UnreadShards:
        """What is unread now."""
        stream = StreamClient(self.connection).stream(self.name)
        table = SimpleNamespace(relation=f"silver.{self.name}", alone=f"shop --tables {self.name}")
        listed = UnreadShards(None, table, self.connection, stream)  # type: ignore[arg-type]
        return listed.beyond(self.text(listed)) if self.position.shards else listed

    def text(self, listed: UnreadShards) -> str:
        """The position, as a commit has it."""
        return replace(listed, before=self.position).position

    def run(self, records: int, portions: int) -> None:
        """Reads portions of so many records, and commits each; then the process ends."""
        unread = replace(self.unread(), connection=self.connection.model_copy(update={"batch_records": records}))
        for _ in range(portions):
            if not unread.number:
                return
            portion = unread.portion()
            assert portion.taken
            events = portion.taken.events
            places = zip(events.partition, events.offset, events.order, strict=True)
            self.read += zip((value.decode() for value in events.value if value), places, strict=True)
            text = portion.after()
            self.position = KinesisPosition.of_json(json.loads(text)["position"])
            if portion.is_all_of(unread):
                return
            unread = unread.beyond(text)


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put_events"), st.lists(st.integers(1, 9), min_size=1, max_size=6)),
        st.tuples(st.sampled_from(["split", "merge"]), st.integers(0, 3)),
        st.tuples(st.just("run"), st.integers(1, 8), st.integers(1, 3)),
    ),
    max_size=9,
)


@given(_STEPS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_event_is_read_once_in_the_order_of_its_key(connection: KinesisConnection, steps: list[Any]) -> None:
    """By place as well: places grow with the events of a key, over splits and merges."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ingest.sources.kinesis_reader._PAUSE_S", 0.0)
        played = Played(connection)
        for name, *arguments in steps:
            getattr(played, name)(*arguments)
        played.run(1000, 100)
        values = [value for value, _ in played.read]
        assert sorted(values) == sorted(played.put)
        assert len({place for _, place in played.read}) == len(values)
        for key in {value.partition(":")[0] for value in values}:
            own = [(int(value.partition(":")[2]), place) for value, place in played.read if value.startswith(f"{key}:")]
            assert own == sorted(own)
            assert [place for _, place in own] == sorted(place for _, place in own)
        # From the start again, in other portions: every event has the place that it had.
        read, played.read, played.position = played.read, [], KinesisPosition()
        played.run(3, 1000)
        assert sorted(played.read) == sorted(read)


def test_places_grow_with_sequence_numbers_and_tell_them_apart() -> None:
    """Of numbers of up to 129 digits, as the API has them."""

    @given(st.integers(0, 10**128), st.lists(st.integers(0, 10**129), min_size=2))
    def check(first: int, sequences: list[int]) -> None:
        numbers = sorted({first + distance for distance in sequences})
        places = [place_of(number, first) for number in numbers]
        assert places == sorted(places)
        assert all(0 <= offset < 1 << 48 and 0 <= order < 1 << 63 for offset, order in places)
        near = [number for number in numbers if number - first < 1 << 78]
        assert len({place_of(number, first) for number in near}) == len(near)

    check()
    # As they are in Amazon's documentation of `DescribeStream` and `PutRecord`.
    first = 49546986683135544286507457935754639466300920667981217794
    record = 49546986683135544286507457936321625675700192471156785154
    assert place_of(record, first) > place_of(first + 1, first)


def test_data_that_only_looks_aggregated_is_one_event() -> None:
    events = [("a", b"1"), ("b", b""), ("a", b"x" * 300)]
    data = aggregated(events)
    assert events_of("of the record", data) == [Event(*event) for event in events]
    assert events_of("k", aggregated([])) == []
    message = b"\x1a\x02\x08\x07"
    of_no_key = data[:4] + message + hashlib.md5(message, usedforsecurity=False).digest()
    for other in (b"", b"{}", data[:4], data[:-1], data[:-1] + b"?", data[1:], of_no_key):
        assert events_of("k", other) == [Event("k", other)]


def test_what_may_have_expired_is_an_error_and_what_is_there_is_not(connection: KinesisConnection) -> None:
    """A position is moved back in time, as a day's silence would leave it."""
    played = Played(connection)
    played.put_events(BOTH)
    played.run(1000, 10)
    read = played.position

    def as_of(hours: int) -> UnreadShards:
        back = {
            name: replace(shard, until_ms=shard.until_ms - hours * 3_600_000) for name, shard in read.shards.items()
        }
        played.position = replace(read, shards=back)
        return played.unread()

    assert as_of(0).renewed() is None
    renewed = as_of(13).renewed()
    assert renewed, "half of a day without a record"
    assert KinesisPosition.of_json(json.loads(renewed)["position"]).shards.keys() == read.shards.keys()
    assert not as_of(25).number, "the last record that was read is still there"
    played.put_events(BOTH)
    assert as_of(25).number == 6
    played.stream.expire(left=1)
    assert as_of(23).number == 3, "within the retention nothing has expired"
    with pytest.raises(InputError, match=r"was read up to .* UTC, and the stream keeps records for 24 hours"):
        as_of(25)
    played.stream.vanish("shardId-000000000001")
    with pytest.raises(InputError, match="shardId-000000000001 is gone, and was not read to its end") as caught:
        as_of(0)
    assert f"`lake position shop --tables {played.name} --to earliest`" in caught.value.message
    played.stream.client.delete_stream(StreamName=played.name)
    with pytest.raises(InputError, match="there is no such stream"):
        as_of(0)
    played.stream.client.create_stream(StreamName=played.name, ShardCount=2)
    with pytest.raises(InputError, match="was deleted and made anew"):
        as_of(0)


def test_what_is_unread_of_a_backlog_is_known_by_its_time(connection: KinesisConnection) -> None:
    """A first run that stops amid records of twenty hours ago: four hours later, the others have expired."""
    played = Played(connection)
    played.put_events([1, 2, 4, 5])
    played.split(1)
    back = timedelta(hours=20)
    for shard in streams(REGION)[played.name].shards.values():
        for record in shard.records.values():
            record.created_at_datetime -= back
            record.created_at -= back.total_seconds()
    played.put_events([1, 2, 4, 5])
    played.run(1, 1)
    assert 0 < len(played.read) < 8
    after = [shard for shard in played.position.shards.values() if shard.after or shard.until_ms]
    hours = sorted(round((time.time() * 1000 - shard.until_ms) / 3_600_000) for shard in after)
    assert hours == [0, 20, 20, 20], "the shard without records; the one that is read, and its children"
    assert played.unread().number
    played.position = replace(played.position, shards={
        name: replace(shard, until_ms=shard.until_ms - 5 * 3_600_000) for name, shard in played.position.shards.items()
    })  # fmt: skip
    played.stream.expire(left=0)
    with pytest.raises(InputError, match="the stream keeps records for 24 hours"):
        played.unread()


def test_a_position_behind_everything_takes_what_comes(connection: KinesisConnection) -> None:
    played = Played(connection)
    played.put_events([1, 2, 4, 5])
    played.split(0)
    listed = played.unread()
    earliest, latest = listed.beyond(listed.at(to_latest=False)), listed.beyond(listed.at(to_latest=True))
    assert earliest.portion().is_all_of(earliest)
    assert earliest.number == 4
    assert latest.before.shards["shardId-000000000000"].has_ended
    # The stand-in's clock tells seconds: a record of the same one may be read.
    latest = replace(
        latest,
        before=replace(
            latest.before,
            shards={
                name: replace(shard, since_ms=(shard.since_ms or 0) + 1000)
                for name, shard in latest.before.shards.items()
            },
        ),
    )
    assert not latest.number


def test_what_is_withheld_is_read_again(connection: KinesisConnection) -> None:
    """From the first record of each shard that waits for its transaction, with the places that it had."""
    played = Played(connection)
    played.put_events([1, 6, 2, 9, 4, 6])
    unread = played.unread()
    portion = unread.portion()
    assert portion.taken
    events = portion.taken.events
    places = list(zip(events.partition, events.offset, events.order, events.value, strict=True))
    first = max(place[1] for place in places if place[0] == 0)
    text = portion.after(Withheld({}, {(played.name, 0): first}))
    again = unread.beyond(text)
    again = replace(again, done=frozenset()).portion()
    assert again.taken
    found = again.taken.events
    read = list(zip(found.partition, found.offset, found.order, found.value, strict=True))
    assert read == [place for place in places if place[0] == 0 and place[1] == first]
    assert len(read) == 2, "the events of the last record, which is aggregated"


def test_throttled_reads_are_tried_again(connection: KinesisConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(connection)
    played.put_events([1, 2, 4])
    with throttled(3) as left:
        played.run(1000, 10)
        assert left() == 0
    assert len(played.read) == 3
    monkeypatch.setattr(kinesis_client, "_ATTEMPTS", 2)
    kinesis_client._client.cache_clear()
    played.position = KinesisPosition()
    with throttled(1000), pytest.raises(UnavailableError, match="ProvisionedThroughputExceededException"):
        played.run(1000, 10)
    kinesis_client._client.cache_clear()


def test_an_iterator_that_has_expired_is_asked_for_again(connection: KinesisConnection) -> None:
    """One lives five minutes, which other shards may take, or a machine that sleeps."""
    played = Played(connection)
    played.put_events([1, 2, 4])
    with throttled(2, "ExpiredIteratorException") as left:
        played.run(1000, 1)
        assert left() == 0
    assert sorted(value for value, _ in played.read) == sorted(played.put)


def test_more_shards_than_one_answer_has_are_listed(
    connection: KinesisConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amazon refuses the stream's name beside the token of the next ones, which boto3's own pages send."""
    monkeypatch.setattr(kinesis_client, "_SHARDS_A_PAGE", 2)
    DrivenStream(connection, name := next(_NAMES), shards=5)
    assert [shard.number for shard in StreamClient(connection).stream(name).shards] == [*range(5)]


def test_a_look_reads_no_more_than_a_batch(connection: KinesisConnection) -> None:
    """As `lake plan` does: the driver holds what it reads."""
    played = Played(connection)
    played.put_events(BOTH * 20)
    unread = replace(played.unread(), connection=connection.model_copy(update={"batch_records": 10}))
    assert 10 <= len(unread._bounded.events) < len(played.put)  # the last records may be aggregated
    after = KinesisPosition.of_json(json.loads(unread.after())["position"])
    assert after != KinesisPosition.of_json(json.loads(unread.position)["position"])


def test_what_cannot_be_asked_says_why(connection: KinesisConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = connection.model_copy(update={"endpoint_url": f"http://127.0.0.1:{free_port()}"})
    with pytest.raises(UnavailableError, match="Kinesis does not answer"):
        StreamClient(silent, quick=True).stream("shop.none")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    unknown = connection.model_copy(update={"endpoint_url": f"{connection.endpoint_url}/"})
    with pytest.raises(InputError, match="Kinesis cannot be asked: Unable to locate credentials"):
        StreamClient(unknown).stream("shop.none")
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(SetupError, match=r"`make setup` .* pip install '<clone>\[kinesis\]'"):
        StreamClient(connection)


def test_a_watch_wakes_for_records_and_for_shards_that_are_closed(connection: KinesisConnection) -> None:
    played = Played(connection)
    played.put_events([1, 2, 4, 5])
    unread = played.unread()
    assert unread.portion().is_all_of(unread)
    watch = StreamWatch(connection)
    watch.listen(unread.ends())
    assert watch.wait(0.1) == set()
    played.stream.put("1", b"1")
    (place,) = found = watch.wait(10)
    assert found <= set(unread.ends())
    assert watch.wait(0.1) == set(), "it is not waited for any more"
    played.split(1 - place[1])
    assert watch.wait(10) == {(played.name, 1 - place[1])}
    watch.listen({(played.name, place[1]): unread.ends()[place], ("shop.gone", 0): 0})
    assert ("shop.gone", 0) in watch.wait(10), "its table finds out why"
    watch.close()


def test_lake_check_looks_at_the_stream(
    connection: KinesisConnection, make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(connection)
    tables = [table_of(name, {"id": "int"}, ["id"], connection="stream", topic=topic)
              for name, topic in (("note", played.name), ("other", "shop.none"))]  # fmt: skip
    project = make_project({"tables": tables})
    settings_ = connection.model_dump(include={"type", "region", "endpoint_url"})
    (project.root / "connections.yml").write_text(yaml.safe_dump({"stream": settings_}), encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "240")
    result = CliRunner().invoke(app, ["check", "shop", "--project-dir", str(project.root)])
    assert result.exit_code == 1
    assert f"{played.name}, 2 open shards, keeps records for 24 hours" in result.stdout
    assert "there is no such stream" in result.output


@pytest.mark.parametrize(
    ("options", "ordered_by"),
    [({}, ("__source_ts_us",)), ({"order_by": ["__sequence_number"]}, ("__sequence_number",))],
)
def test_records_of_dynamodb_are_ordered_by_their_time_unless_declared_otherwise(
    options: dict[str, Any], ordered_by: tuple[str, ...], make_project: MakeProject
) -> None:
    table = table_of("item", {"id": "int"}, ["id"], connection="stream", connector="dynamodb", **options)
    project = make_project({"tables": [table]})
    connection = {"stream": {"type": "kinesis", "region": REGION}}
    (project.root / "connections.yml").write_text(yaml.safe_dump(connection), encoding="utf-8")
    (declared,) = project.source().tables
    order = connector_of(declared).order
    assert order is not None
    assert order.columns == ordered_by


def test_a_connection_holds_no_secret(make_project: MakeProject) -> None:
    for told, settings_ in (
        ("aws_secret_access_key", {"aws_secret_access_key": "x"}),
        ("without user or password", {"endpoint_url": "http://user:secret@host"}),
        ("topic_pattern", {"region": "us-east-1"}),
    ):
        table = table_of("note", {"id": "int"}, ["id"], connection="stream", topic="shop.note", topic_pattern="a.*")
        project = make_project({"tables": [table]})
        text = yaml.safe_dump({"stream": {"type": "kinesis", **settings_}})
        (project.root / "connections.yml").write_text(text, encoding="utf-8")
        with pytest.raises(DeclarationError, match=told):
            project.source()
