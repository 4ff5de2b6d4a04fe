"""Change events from Kinesis Data Streams: what a table has not landed of its stream, and how Spark gets it.

The driver reads the shards, within the bounds of a batch, and hands the batch to Spark as Arrow
(docs/decisions/0042-the-driver-reads-kinesis.md).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from ingest.config.connections import KinesisConnection
from ingest.config.tables import Table
from ingest.errors import InputError
from ingest.sources.base import NOTHING_WITHHELD, Offsets, Source, Unread, Withheld, position_of, position_text
from ingest.sources.kinesis_client import Stream, StreamClient, StreamWatch, offset_of
from ingest.sources.kinesis_reader import KinesisPosition, Reader, ShardPosition, Taken
from ingest.sources.kinesis_records import Columns
from ingest.sources.raw import RawRecords
from ingest.spark.jvm import java_class

KIND = "kinesis"
_ROWS = T.StructType(
    [
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("order", T.LongType()),
        T.StructField("partition_key", T.StringType()),
        T.StructField("sequence_number", T.StringType()),
        T.StructField("arrived_at", T.TimestampType()),
    ]
)
# A task of Spark decodes so many events at least.
_EVENTS_A_TASK = 5_000


@dataclass(frozen=True)
class UnreadShards(Unread):
    """Records of a stream that have not been landed.

    How many there are is not known before they are read: a look reads some of each shard, and a portion goes on there.
    Read as a whole it is a portion, too: the driver holds what it reads.

    Attributes
    ----------
    done:
        Shards that were read up to the listing by portions before.
    taken:
        Of a portion: what was read.
    """

    spark: SparkSession
    table: Table
    connection: KinesisConnection
    stream: Stream
    before: KinesisPosition = field(default_factory=KinesisPosition)
    done: frozenset[str] = frozenset()
    taken: Taken | None = None

    @property
    def landed(self) -> None:
        """Not known."""
        return

    @cached_property
    def number(self) -> int:
        if self.taken:
            return len(self.taken.events)
        look = self._reader.take(self.connection.batch_records, self.connection.batch_bytes, a_look=True)
        return len(look.events) + (not look.is_all)

    @property
    def behind_ms(self) -> int:
        return self.taken.behind_ms if self.taken else self._reader.behind_ms

    @property
    def position(self) -> str:
        return position_text(KIND, self.before.as_json())

    def portion(self) -> UnreadShards:
        return replace(self, taken=self._bounded)

    def is_all_of(self, listed: Unread) -> bool:
        return self.taken is not None and self.taken.is_all

    def read(self) -> RawRecords:
        taken = self.taken or self._bounded
        return RawRecords(frame_of(self.spark, taken.events), len(taken.events))

    def after(self, withheld: Withheld = NOTHING_WITHHELD) -> str:
        taken = self.taken or self._bounded
        shards = dict(taken.after)
        for shard in self.stream.shards:
            first = withheld.offsets.get((self.stream.name, shard.number))
            if first is not None:
                before = taken.before[shard.name]
                landed = [mark for mark in taken.marks[shard.number] if mark[0] < first]
                # No more is known to be read, by its time, than was read before.
                at = ShardPosition(*landed[-1][1:], until_ms=before.until_ms) if landed else before
                shards[shard.name] = at
        return self._text(shards)

    def at(self, *, to_latest: bool) -> str:
        if not to_latest:
            return self._text({})
        at = ShardPosition(since_ms=self.stream.at_ms, until_ms=self.stream.at_ms)
        return self._text({shard.name: replace(at, has_ended=shard.is_closed) for shard in self.stream.shards})

    def beyond(self, position: str) -> UnreadShards:
        before = KinesisPosition.of_json(position_of(position))
        if lost := before.lost(self.stream, self._is_there):
            raise InputError(
                "; ".join(lost),
                where=f"{self.table.relation}: {self.connection.where}",
                expected="every record since the last one that was landed",
                action="take a snapshot of the table (Debezium's incremental snapshot) where changes may be lost, and "
                f"decide: `lake position {self.table.alone} --to earliest` goes on with what there is, `--to latest` "
                "with what will come",
            )
        read = self.__dict__.get("_reader")
        return replace(self, before=before, done=read.done if read else self.done, taken=None)

    def renewed(self) -> str | None:
        half = self.stream.at_ms - self.stream.retention_ms // 2
        is_old = any(not shard.has_ended and shard.until_ms < half for shard in self.before.shards.values())
        return self.after() if is_old and not self.number else None

    def ends(self) -> Offsets:
        read: Reader | None = self.__dict__.get("_reader")
        if read:
            return read.ends()
        latest = offset_of(None, self.stream.at_ms)
        return {(self.stream.name, shard.number): latest for shard in self.stream.shards if not shard.is_closed}

    @cached_property
    def _bounded(self) -> Taken:
        """What a batch may hold: the driver holds it."""
        return self._reader.take(self.connection.batch_records, self.connection.batch_bytes)

    @cached_property
    def _reader(self) -> Reader:
        return Reader(StreamClient(self.connection), self.stream, self.before, self.done)

    def _is_there(self, shard: str, sequence: str) -> bool:
        """Whether a record has not expired yet."""
        client, where = StreamClient(self.connection), f"{self.stream.name}, {shard}"
        page = client.page(client.iterator(self.stream.name, shard, at=sequence), where, limit=1)
        return bool(page.records) and page.records[0]["SequenceNumber"] == sequence

    def _text(self, shards: Mapping[str, ShardPosition]) -> str:
        before = self.before if shards else KinesisPosition()
        return position_text(KIND, before.advanced(self.stream, shards).as_json())


class KinesisSource(Source[KinesisConnection]):
    """Streams of Kinesis: a table's topic is the name of its stream. Each shard is asked for news once a second."""

    model = KinesisConnection

    def listed(self, table: Table) -> UnreadShards:
        stream = StreamClient(self.connection).stream(table.options.topic)
        return UnreadShards(self.spark, table, self.connection, stream)

    def watch(self) -> StreamWatch:
        return StreamWatch(self.connection)


def frame_of(spark: SparkSession, events: Columns) -> DataFrame:
    """Events as rows of Spark, handed over as Arrow, as Spark takes data of pandas: no row is touched by Python.

    Columns: those of `RawRecords`, with `order`; and `partition_key` string, `sequence_number` string, `arrived_at`
    timestamp (`ApproximateArrivalTimestamp`).
    """
    import pyarrow as pa  # noqa: PLC0415 - comes with an extra

    types: Mapping[str, Any] = {
        "binary": pa.binary(), "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
    }  # fmt: skip
    schema = pa.schema([(each.name, types[each.dataType.simpleString()]) for each in _ROWS])
    columns = [pa.array(getattr(events, each.name), schema.field(each.name).type) for each in _ROWS]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    # A task for each part. As a relation of its own, which a small one would be, the optimizer would decode it alone.
    spark.conf.set("spark.sql.execution.arrow.localRelationThreshold", "0")
    step = max(_EVENTS_A_TASK, -(-len(events) // spark.sparkContext.defaultParallelism))
    with tempfile.NamedTemporaryFile(prefix="lake-kinesis-", suffix=".arrow") as file:
        with pa.ipc.new_stream(file.name, schema) as out:
            for start in range(0, len(events), step):
                out.write_batch(batch.slice(start, step))
        python = java_class(spark, "org.apache.spark.sql.api.python.PythonSQLUtils")
        stream = python.readArrowStreamFromFile(str(Path(file.name)))
        frame = python.toDataFrame(stream, _ROWS.json(), spark._jsparkSession)
    return DataFrame(frame, spark)
