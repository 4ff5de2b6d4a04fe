"""What a table has not landed yet: found by its position, read as parts of one schema, and left behind by a new one.

The one place that knows which kind of source a connection is. A source lists and reads (`ingest.sources`), what is read
is decoded (`ingest.decode`); the runner sees neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Protocol
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.config.connections import FilesConnection, KafkaConnection
from ingest.config.tables import Table
from ingest.decode.decoded import Part
from ingest.decode.object_files import HeldBack, read_files, unreadable_avro
from ingest.decode.registry import Registry
from ingest.decode.wire_format import record_parts
from ingest.errors import InputError
from ingest.sources import kafka
from ingest.sources.files import EventFile, FilesPosition, TopicFolder
from ingest.sources.kafka import KafkaPosition, Partition, Range
from ingest.spark.jvm import root_cause

# A record is shorter than this many bytes, unless it is looked at.
_LONG_RECORD = 50_000
# Offsets by topic and partition.
Places = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Waiting:
    """Events that were read and wait for the rest of their transaction: how many, and where they are.

    `places`: of files, how many events of each wait; of partitions of Kafka, the offset of the first that waits.
    """

    events: int = 0
    places: Mapping[object, int] = field(default_factory=dict)


NONE_WAITS = Waiting()


class Pending(Protocol):
    """What a table's next run begins with.

    Attributes
    ----------
    unit:
        What the input is counted in: files or records.
    landed, waiting:
        How many were landed, of those that the source still has, and how many were not.
    bytes:
        The size of what waits; None where the source does not tell it.
    position:
        What the source was read up to, as text; as the last commit has it.
    """

    @property
    def unit(self) -> str: ...
    @property
    def landed(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def bytes(self) -> int | None: ...
    @property
    def position(self) -> str: ...

    def portion(self) -> Pending:
        """As much of it as one commit lands."""
        ...

    def read(self, table: Table, *, thorough: bool = False, by_examples: bool = False) -> Read:
        """The events of all that waits (see `ingest.decode.json_events.json_parts` of `thorough` and `by_examples`).

        Raises
        ------
        InputError
            They cannot be read.
        """
        ...

    def without_broken(self, table: Table) -> Read | None:
        """The rest, where what looked whole is broken; None where nothing is. Reads every file to its end."""
        ...

    def unreadable(self, error: Py4JJavaError) -> InputError:
        """What it means that Spark could not read it."""
        ...

    def waits(self, marked: DataFrame) -> Waiting:
        """Which of the changes wait for others, from their column `_waits`."""
        ...

    def after(self, waiting: Waiting = NONE_WAITS) -> str:
        """The position once all of it has been landed, but for what waits for others."""
        ...

    def at(self, *, to_latest: bool) -> str:
        """The position before everything that was listed, or behind it."""
        ...

    def ends(self) -> Places:
        """Behind which records of which partition there was nothing when this was listed; none of files."""
        ...

    def beyond(self, position: str) -> Pending:
        """What is behind a position, of what the source had when this was listed."""
        ...


@dataclass(frozen=True)
class Read:
    """Events in parts of one schema each, what they are of, and what was left out."""

    parts: tuple[Part, ...]
    of: Pending
    held_back: tuple[HeldBack, ...] = ()


def pending_of(spark: SparkSession, table: Table, position: str | None) -> Pending:
    """What of a table's input lies behind a position; all of it where there is none.

    Raises
    ------
    InputError
        The input is not there, or does not go on from the position.
    """
    everything = _everything(spark, table)
    return everything.beyond(_of_kind(table, position)) if position else everything


def position_at(spark: SparkSession, table: Table, *, to_latest: bool) -> tuple[str, Pending]:
    """The position before everything there is, or behind it; and what is pending then.

    Raises
    ------
    InputError
        The input is not there.
    """
    everything = _everything(spark, table)
    position = everything.at(to_latest=to_latest)
    return position, everything.beyond(position)


def _everything(spark: SparkSession, table: Table) -> Pending:
    """All that the source has, as to a table that was never landed."""
    if isinstance(table.connection, FilesConnection):
        root, listed = TopicFolder.of(table).listing(spark)
        return PendingFiles(
            spark,
            root,
            table.connection.batch_bytes,
            tuple(listed),
            FilesPosition(),
            tuple(FilesPosition().pending(listed)),
        )
    partitions = tuple(kafka.partitions(spark, table))
    before = KafkaPosition()
    return PendingRecords(spark, table, partitions, before, tuple(before.pending(partitions, where=table.relation)))


def _of_kind(table: Table, position: str) -> str:
    is_kafkas = position.startswith("{")
    if is_kafkas == isinstance(table.connection, KafkaConnection):
        return position
    raise InputError(
        f"the table was read from {'Kafka' if is_kafkas else 'files'}, and its connection is of type "
        f"{table.connection.type} now",
        where=table.relation,
        expected="the kind of input that the table's position is of",
        action="decide where to go on: `lake position --to earliest` or `--to latest`",
    )


@dataclass(frozen=True)
class PendingFiles:
    """Files of events that have not been landed."""

    spark: SparkSession
    root: str
    batch_bytes: int
    listed: tuple[EventFile, ...]
    before: FilesPosition
    files: tuple[EventFile, ...]

    unit = "files"

    @property
    def landed(self) -> int:
        return len(self.before.files)

    @property
    def waiting(self) -> int:
        return len(self.files)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def position(self) -> str:
        return self.before.to_text(self.root)

    def portion(self) -> Pending:
        if self.bytes <= self.batch_bytes:
            return self
        # By offset first: the partitions go on side by side.
        waiting = sorted(self.files, key=lambda file: (file.start_offset, file.partition, file.path))
        sizes = accumulate(file.size for file in waiting)
        taken = {file for file, size in zip(waiting, sizes, strict=True) if size <= self.batch_bytes} or {waiting[0]}
        return replace(self, files=tuple(file for file in self.files if file in taken))

    def read(self, table: Table, *, thorough: bool = False, by_examples: bool = False) -> Read:
        parts, held_back = read_files(self.spark, table, self.files, thorough=thorough, by_examples=by_examples)
        return Read(parts, self._without(held_back), held_back)

    def without_broken(self, table: Table) -> Read | None:
        broken = unreadable_avro(self.spark, self.files)
        if not broken:
            return None
        again = self._without(broken).read(table)
        return replace(again, held_back=(*again.held_back, *broken))

    def _without(self, held_back: Sequence[HeldBack]) -> PendingFiles:
        left_out = {item.file for item in held_back}
        return replace(self, files=tuple(file for file in self.files if file not in left_out))

    def unreadable(self, error: Py4JJavaError) -> InputError:
        shown = ", ".join(file.path for file in self.files[:3])
        return InputError(
            root_cause(error),
            where=shown if len(self.files) <= 3 else f"{shown} and {len(self.files) - 3} more",
            expected="readable files of change events",
            action="mend or remove the file that is named; nothing of this batch was landed",
        )

    def waits(self, marked: DataFrame) -> Waiting:
        by_path = {unquote(file.path): file for file in self.files}
        rows = marked.where("_waits").groupBy("_file").agg(F.count("*").alias("events")).collect()
        places: dict[object, int] = {by_path[unquote(row["_file"])]: row["events"] for row in rows}
        return Waiting(sum(places.values()), places)

    def after(self, waiting: Waiting = NONE_WAITS) -> str:
        partly = {file: waiting.places[file] for file in self.files if file in waiting.places}
        return self.before.advanced(self.listed, self.files, partly).to_text(self.root)

    def at(self, *, to_latest: bool) -> str:
        nothing = FilesPosition()
        return (nothing.advanced(self.listed, self.listed) if to_latest else nothing).to_text(self.root)

    def ends(self) -> Places:
        return {}

    def beyond(self, position: str) -> Pending:
        before = FilesPosition.from_text(position, self.root)
        return replace(self, before=before, files=tuple(before.pending(self.listed)))


@dataclass(frozen=True)
class PendingRecords:
    """Records of Kafka that have not been landed."""

    spark: SparkSession
    table: Table
    listed: tuple[Partition, ...]
    before: KafkaPosition
    ranges: tuple[Range, ...]

    unit = "records"
    bytes = None

    @property
    def landed(self) -> int:
        return sum(part.end - part.first for part in self.listed) - self.waiting

    @property
    def waiting(self) -> int:
        return sum(part.length for part in self.ranges)

    @property
    def position(self) -> str:
        return self.before.to_text()

    def portion(self) -> Pending:
        connection = self.table.connection
        assert isinstance(connection, KafkaConnection)
        records = min(self.waiting, connection.batch_records)
        # How long the records are is looked at only where it may matter: that takes a job.
        if records * _LONG_RECORD > connection.batch_bytes:
            each = kafka.record_bytes(self.spark, self.table, self.ranges)
            records = min(records, max(1, int(connection.batch_bytes / max(each, 1))))
        return replace(self, ranges=tuple(kafka.bounded(self.ranges, records)))

    def read(self, table: Table, *, thorough: bool = False, by_examples: bool = False) -> Read:
        if not self.ranges:
            return Read((), self)
        records = kafka.read(self.spark, table, self.ranges).withColumn("_file", F.col("topic"))
        registry = Registry.of(table.connection.registry) if table.connection.registry else None
        parts = record_parts(records, table, registry, thorough=thorough, by_examples=by_examples, events=self.waiting)
        return Read(tuple(parts), self)

    def without_broken(self, table: Table) -> Read | None:
        return None

    def unreadable(self, error: Py4JJavaError) -> InputError:
        places = ((f"{part.topic}-{part.partition}", part.start, part.end) for part in self.ranges)
        told = ", ".join(f"{name} from offset {start} to {end}" for name, start, end in places)
        return kafka.read_error(error, where=f"{self.table.relation}: {told}")

    def waits(self, marked: DataFrame) -> Waiting:
        found = marked.where("_waits").groupBy("_file", "_partition")
        rows = found.agg(F.count("*").alias("events"), F.min("_start_offset").alias("first")).collect()
        places: dict[object, int] = {(row["_file"], row["_partition"]): row["first"] for row in rows}
        return Waiting(sum(row["events"] for row in rows), places)

    def after(self, waiting: Waiting = NONE_WAITS) -> str:
        ends = {(part.topic, part.partition): part.end for part in self.ranges}
        # From the first that waits on, records are read again: those that were landed are known by their positions.
        offsets = {place: waiting.places.get(place, end) for place, end in ends.items()}
        return self.before.advanced(self.listed, offsets).to_text()

    def at(self, *, to_latest: bool) -> str:
        offsets = {(part.topic, part.number): part.end if to_latest else part.first for part in self.listed}
        return KafkaPosition().advanced(self.listed, offsets).to_text()

    def ends(self) -> Places:
        return {(part.topic, part.number): part.end for part in self.listed}

    def beyond(self, position: str) -> Pending:
        before = KafkaPosition.from_text(position)
        return replace(self, before=before, ranges=tuple(before.pending(self.listed, where=self.table.relation)))
