"""The forms of tests/ingest/test_forms.py as Kinesis' records: streams of one and two shards, keys, tombstones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from conftest import asked
from covering import Rule, Space, covering_rows, widest
from deliveries.cases import DIMENSIONS, RULES, Case, case_of, parameters
from deliveries.forms import Record
from deliveries.playing import Kafka, Stage, faults, stage
from kinesis_streams import DrivenStream, kinesis_served
from pyspark.sql import SparkSession

from ingest.config.connections import KinesisConnection
from ingest.sources.kinesis_client import StreamClient
from ingest.sources.kinesis_records import place_of

# All cases are landed side by side, within the first test.
pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.timeout(1800)]

SEED = 42


@dataclass
class Streams(Kafka):
    """Streams of the stand-in, which have the topics' names; their shards are the partitions."""

    to: KinesisConnection
    made: dict[str, DrivenStream] = field(default_factory=dict)
    firsts: dict[str, Sequence[int]] = field(default_factory=dict)
    numbers: dict[tuple[str, int, int], int] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def connection(self) -> dict[str, Any]:
        """The connection that leads there."""
        return dict(self.to.model_dump(include={"type", "region", "endpoint_url"}))

    def offset_of(self, topic: str, partition: int, offset: int) -> int:
        """Which record of its shard has the offset."""
        return self.numbers[topic, partition, offset]

    def make(self, topic: str, partitions: int) -> None:
        """Makes a stream."""
        self.made[topic] = DrivenStream(self.to, topic, partitions)
        self.firsts[topic] = [shard.first for shard in StreamClient(self.to).stream(topic).shards]

    def send(self, topic: str, records: Sequence[Record]) -> None:
        """Puts records in order, each into the shard of its partition."""
        stream = self.made[topic]
        starts = [shard["HashKeyRange"]["StartingHashKey"] for shard in stream.open_shards()]
        for record in records:
            partition = record.event.partition
            told = stream.client.put_record(
                StreamName=topic,
                PartitionKey=record.key.decode() if record.key else "any",
                ExplicitHashKey=starts[partition],
                Data=record.value or b"",
            )
            offset, _ = place_of(int(told["SequenceNumber"]), self.firsts[topic][partition])
            end = self.ends.get((topic, partition), 0)
            self.numbers[topic, partition, offset], self.ends[topic, partition] = end, end + 1


def _has_text(form: str, record_key: str) -> bool:
    """A partition key is a text of 256 characters at most."""
    return record_key == "absent" or form.endswith("_plain")


def _of_kinesis(form: str, database: str) -> bool:
    """DynamoDB's records are those that it puts into Kinesis."""
    return (form == "stream_kinesis") == (database == "dynamodb")


# What may differ by the way that records come; the rest is the decoder's, and the same as for Kafka.
VARIED = {
    "form": ["unwrapped_plain", "envelope_plain", "envelope_schema", "unwrapped_avro4", "envelope_avro8",
             "envelope_declared", "stream_kinesis"],
    "database": ["postgresql", "dynamodb"],
    "partitions": ["1", "2"],
    "keys": ["int", "several", "none"],
    "record_key": ["absent", "struct"],
    "deletes": ["full", "no_before", "bare"],
    "tombstones": ["none", "ignored"],
    "bad": ["none", "not_json", "cut_avro"],
    "delivery": ["one", "batches", "repeated"],
    "trouble": ["none", "killed_before", "killed_after"],
    "replay": ["no", "stays"],
}  # fmt: skip
CHOSEN = {name: VARIED.get(name, values[:1]) for name, values in DIMENSIONS.items()}
SPACE = Space(
    {**CHOSEN, "carrier": ["parquet"]},
    [*RULES, Rule(("form", "record_key"), _has_text), Rule(("form", "database"), _of_kinesis)],
)
ROWS = covering_rows(SPACE, SEED)
# Those that cover the most come first, and are played by `make test-real`; the others are long tests.
CASES = [case_of(f"k{number}", row, number) for number, row in enumerate(widest(ROWS, len(ROWS)))]
SAMPLE = 2


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """What differs of each case that is asked for: they are landed side by side."""
    with stage(spark, tmp_path_factory.mktemp("forms")) as on, kinesis_served() as connection:
        yield _found(on, [case for case in CASES if case.name in asked(request)], Streams(connection))


def _found(on: Stage, cases: Sequence[Case], streams: Streams) -> dict[str, list[str]]:
    return faults(on, cases, kafka=streams)


@pytest.mark.parametrize("case", parameters(CASES, SAMPLE))
def test_a_case_in_kinesis(case: Case, found: dict[str, list[str]]) -> None:
    if found[case.name]:
        pytest.fail("\n".join([str(case), *(line[:1200] for line in found[case.name][:8])]))
