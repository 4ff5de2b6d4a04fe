"""The forms of tests/ingest/test_forms.py as Kafka's records: topics of one and two partitions, keys, tombstones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from conftest import asked
from covering import Space, sample_rows, widest
from deliveries.cases import DIMENSIONS, KNOWN, RULES, Case, case_of, parameters
from deliveries.forms import Record
from deliveries.playing import Kafka, Stage, faults, stage
from pyspark.sql import SparkSession

from ingest.spark.jvm import java_class
from real.broker import Broker

# All cases are landed side by side, within the first test.
pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.timeout(1800)]

SEED = 19


@dataclass
class Topics(Kafka):
    """Topics of the tests' broker."""

    broker: Broker

    @property
    def address(self) -> str:
        """Where clients connect."""
        return self.broker.address

    def make(self, topic: str, partitions: int) -> None:
        """Makes a topic."""
        self.broker.make(topic, partitions)

    def send(self, topic: str, records: Sequence[Record]) -> None:
        """Writes records in order, and waits until they are there."""
        made = java_class(self.broker.spark, "org.apache.kafka.clients.producer.ProducerRecord")
        with self.broker.producer({}) as producer:
            for record in records:
                key, value = (_java(content) for content in (record.key, record.value))
                producer.send(made(topic, record.event.partition, key, value))


def _java(content: bytes | None) -> Any:
    return None if content is None else bytearray(content)


def _cases() -> list[Case]:
    """The known combinations, as far as records can come so."""
    begun = []
    for known in KNOWN:
        row = dict(known) | {"carrier": "parquet"}
        for name in ("carrier", "trouble", "delivery", "moves"):
            if row.get(name) not in (None, *OF_RECORDS.dimensions[name]):
                del row[name]
        if OF_RECORDS.is_possible(row):
            begun.append(row)
    rows = sample_rows(OF_RECORDS, SEED, begun)
    return [case_of(f"k{number}", row, number) for number, row in enumerate(widest(rows, len(rows)))]


# A topic has its records once, in the order of their offsets.
OF_RECORDS = Space({**DIMENSIONS, "carrier": ["parquet"], "delivery": ["one", "batches", "repeated"]}, RULES)
# Those that cover the most come first, and are played by `make test-real`; the others are long tests.
CASES = _cases()
SAMPLE = 4


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest, spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """What differs of each case that is asked for: they are landed side by side."""
    with stage(spark, tmp_path_factory.mktemp("forms")) as on:
        yield _found(on, [case for case in CASES if case.name in asked(request)], Topics(broker))


def _found(on: Stage, cases: Sequence[Case], kafka: Topics) -> dict[str, list[str]]:
    return faults(on, cases, kafka=kafka)


@pytest.mark.parametrize("case", parameters(CASES, SAMPLE))
def test_a_case_in_kafka(case: Case, found: dict[str, list[str]]) -> None:
    if found[case.name]:
        pytest.fail("\n".join([str(case), *(line[:1200] for line in found[case.name][:8])]))
