"""Change events from Kafka: which records of a table's topics have not been landed yet, and how they are read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.config.connections import KafkaConnection
from ingest.config.tables import Table
from ingest.errors import InputError
from ingest.sources.base import NOTHING_WITHHELD, Offsets, OpenTransaction, Source, Unread, Withheld
from ingest.sources.kafka_client import NO_ID, KafkaWatch, Partition, partitions, read_error
from ingest.sources.raw import RawRecords

# So many records of each range say how long its records are.
_EXAMPLES = 100
# A record is shorter than this many bytes, unless it is looked at.
_LONG_RECORD = 50_000


@dataclass(frozen=True, order=True)
class Range:
    """Records of a partition, from an offset up to another that is not among them."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def length(self) -> int:
        """How many offsets there are; a compacted topic has fewer records."""
        return self.end - self.start


@dataclass(frozen=True)
class TopicPosition:
    """The offset to go on from in each partition of a topic, and the id that tells the topic from one made anew."""

    topic_id: str
    next: Mapping[int, int] = field(default_factory=dict)

    def is_unlike(self, partition: Partition) -> str:
        """What tells that a partition is of another topic, made anew under the name; '' where nothing does.

        Where there are no ids, offsets that went back tell it, and nothing else.
        """
        if NO_ID not in (self.topic_id, partition.topic_id):
            return "" if self.topic_id == partition.topic_id else "was deleted and made anew"
        at = self.next.get(partition.number, 0)
        if at <= partition.end:
            return ""
        return (
            f"was deleted and made anew, or has lost records: partition {partition.number} ends at offset "
            f"{partition.end}, and was read up to {at}"
        )


@dataclass(frozen=True)
class KafkaPosition:
    """What a table has landed of its topics: its position in Kafka, by the topic's name."""

    topics: Mapping[str, TopicPosition] = field(default_factory=dict)

    def pending(self, listed: Iterable[Partition], table: Table) -> list[Range]:
        """The records that were not landed yet, up to the ends of the listed partitions.

        Raises
        ------
        InputError
            Records are gone that were not landed, or a topic is not the one that was read before, or is not among
            the listed: nobody but its owner can say what that means.
        """
        ranges, lost, is_anew = [], [], False
        listed = sorted(listed)
        for topic in sorted(self.topics.keys() - {partition.topic for partition in listed}):
            lost.append(f"{topic} was read, and is none of the table's topics now, or may not be described")
        for partition in listed:
            known = self.topics.get(partition.topic)
            name = f"{partition.topic}, partition {partition.number}"
            if known and (unlike := known.is_unlike(partition)):
                lost.append(f"{partition.topic} {unlike}")
                is_anew = True
                continue
            # A partition that was added later begins with its first record, which is the first there ever was.
            start = known.next.get(partition.number, 0) if known else partition.first
            if start < partition.first:
                lost.append(f"{name}: {partition.first - start} records expired, from offset {start} on")
            elif start > partition.end:
                lost.append(f"{name} ends at offset {partition.end}, and was read up to {start}")
            elif start < partition.end:
                ranges.append(Range(partition.topic, partition.number, start, partition.end))
        if lost:
            # Offsets tell which of two changes came later where a log does not: those of two topics do not compare.
            first = "raise the table's `epoch` by one, for offsets begin again; " if is_anew else ""
            raise InputError(
                "; ".join(dict.fromkeys(lost)),
                where=table.relation,
                expected="every record since the last one that was landed",
                action=f"{first}take a snapshot of the table (Debezium's incremental snapshot) where changes may be "
                f"lost, and decide: `lake position {table.alone} --to earliest` goes on with what there is, "
                "`--to latest` with what will come",
            )
        return ranges

    def earliest(self, listed: Collection[Partition]) -> KafkaPosition:
        """The first record that is there of each partition, or this position where that is behind it.

        Kafka removes old records of each partition for itself, so that some may have records from before it.
        """
        offsets = {}
        for partition in listed:
            known = self.topics.get(partition.topic)
            begin = known.next.get(partition.number, 0) if known and not known.is_unlike(partition) else 0
            offsets[partition.topic, partition.number] = min(max(begin, partition.first), partition.end)
        return KafkaPosition().advanced(listed, offsets)

    def advanced(self, listed: Iterable[Partition], next_offsets: Mapping[tuple[str, int], int]) -> KafkaPosition:
        """The position with the offsets to go on from, by topic and partition; the others stay."""
        ids = {partition.topic: partition.topic_id for partition in listed}
        topics = dict(self.topics)
        for (topic, number), offset in sorted(next_offsets.items()):
            known, topic_id = topics.get(topic), ids[topic]
            if known and topic_id == NO_ID:
                topic_id = known.topic_id
            offsets = dict(known.next) if known and known.topic_id in (topic_id, NO_ID) else {}
            topics[topic] = TopicPosition(topic_id, {**offsets, number: offset})
        return KafkaPosition(topics)

    def to_text(self) -> str:
        """The position as text for a commit's metadata."""
        topics = {name: {"id": topic.topic_id, "next": topic.next} for name, topic in self.topics.items()}
        return json.dumps({"kafka": topics}, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> KafkaPosition:
        """The position that `to_text` wrote.

        Raises
        ------
        ValueError
            It was not.
        """
        topics = json.loads(text)["kafka"] if text.startswith('{"kafka"') else None
        if topics is None:
            raise ValueError("no position in Kafka")
        return cls(
            {
                name: TopicPosition(
                    position["id"], {int(number): offset for number, offset in position["next"].items()}
                )
                for name, position in topics.items()
            }
        )


def bounded(ranges: Sequence[Range], records: int) -> list[Range]:
    """The first records of each range, as many of each as keep the whole within a number."""
    whole = sum(part.length for part in ranges)
    if whole <= records:
        return list(ranges)
    shares = [max(1, part.length * records // whole) for part in ranges]
    return [
        Range(part.topic, part.partition, part.start, part.start + share)
        for part, share in zip(ranges, shares, strict=True)
    ]


def record_bytes(spark: SparkSession, table: Table, ranges: Sequence[Range]) -> float:
    """How many bytes the values of some records have on average, from the first of each range; 0 where they have none.

    Raises
    ------
    InputError
        They cannot be read.
    """
    few = [replace(part, end=min(part.end, part.start + _EXAMPLES)) for part in ranges]
    try:
        found = read(spark, table, few).agg(F.avg(F.coalesce(F.length("value"), F.lit(0)))).first()
    except Py4JJavaError as error:
        raise read_error(error, where=table.relation) from error
    return float(found[0] or 0) if found else 0.0


def read(spark: SparkSession, table: Table, ranges: Sequence[Range]) -> DataFrame:
    """The records of the ranges, with the columns of Spark's Kafka source. Every record, or the read fails."""
    connection = table.connection
    assert isinstance(connection, KafkaConnection)
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for part in ranges:
        starts.setdefault(part.topic, {})[str(part.partition)] = part.start
        ends.setdefault(part.topic, {})[str(part.partition)] = part.end
    assigned = {topic: [int(number) for number in offsets] for topic, offsets in starts.items()}
    # Spark's consumer asks once more behind the last record, and there is nothing to wait for: 0.63 s of each read with
    # Kafka's default of 500 ms, 0.12 s with this.
    given = {"fetch.max.wait.ms": "10", **connection.settings}
    settings = {f"kafka.{name}": value for name, value in given.items()}
    return (
        spark.read.format("kafka")
        .options(**settings)
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", json.dumps(ends))
        .option("failOnDataLoss", "true")
        .load()
    )


@dataclass(frozen=True)
class UnreadRecords(Unread):
    """Records of Kafka that have not been landed."""

    spark: SparkSession
    table: Table
    connection: KafkaConnection
    listed: tuple[Partition, ...]
    before: KafkaPosition
    ranges: tuple[Range, ...]

    @property
    def landed(self) -> int:
        return sum(part.end - part.first for part in self.listed) - self.number

    @property
    def number(self) -> int:
        return sum(part.length for part in self.ranges)

    @property
    def open_transactions(self) -> tuple[OpenTransaction, ...]:
        return tuple(
            OpenTransaction(part.topic, part.number, part.end, part.high - part.end)
            for part in self.listed
            if part.high > part.end
        )

    @property
    def position(self) -> str:
        return self.before.to_text()

    def portion(self) -> UnreadRecords:
        records = min(self.number, self.connection.batch_records)
        # How long the records are is looked at only where it may matter: that takes a job.
        if records * _LONG_RECORD > self.connection.batch_bytes:
            each = record_bytes(self.spark, self.table, self.ranges)
            records = min(records, max(1, int(self.connection.batch_bytes / max(each, 1))))
        return replace(self, ranges=tuple(bounded(self.ranges, records)))

    def read(self) -> RawRecords:
        return RawRecords(read(self.spark, self.table, self.ranges), self.number)

    def after(self, withheld: Withheld = NOTHING_WITHHELD) -> str:
        # A partition without unread records is known from now on: records that expired before are none that it lost.
        ends = {(part.topic, part.number): part.end for part in self.listed}
        ends |= {(part.topic, part.partition): part.end for part in self.ranges}
        # From the first that waits on, records are read again: those that were landed are known by their positions.
        offsets = {place: withheld.offsets.get(place, end) for place, end in ends.items()}
        return self.before.advanced(self.listed, offsets).to_text()

    def at(self, *, to_latest: bool) -> str:
        offsets = {(part.topic, part.number): part.end if to_latest else part.first for part in self.listed}
        return KafkaPosition().advanced(self.listed, offsets).to_text()

    def beyond(self, position: str) -> UnreadRecords:
        before = KafkaPosition.from_text(position)
        return replace(self, before=before, ranges=tuple(before.pending(self.listed, self.table)))

    def earliest(self, begin: str) -> str:
        return KafkaPosition.from_text(begin).earliest(self.listed).to_text()

    def ends(self) -> Offsets:
        return {(part.topic, part.number): part.end for part in self.listed}

    def unreadable(self, error: Py4JJavaError) -> InputError:
        places = ((f"{part.topic}-{part.partition}", part.start, part.end) for part in self.ranges)
        message = ", ".join(f"{name} from offset {start} to {end}" for name, start, end in places)
        return read_error(error, where=f"{self.table.relation}: {message}")


class KafkaSource(Source[KafkaConnection]):
    """Topics of Kafka. One consumer per connection is answered by the brokers as soon as there are records."""

    model = KafkaConnection

    def listed(self, table: Table) -> UnreadRecords:
        found = tuple(partitions(self.spark, table))
        before = KafkaPosition()
        ranges = tuple(before.pending(found, table))
        return UnreadRecords(self.spark, table, self.connection, found, before, ranges)

    def watch(self) -> KafkaWatch:
        return KafkaWatch(self.spark, self.connection)
