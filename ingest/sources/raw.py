"""What a source hands to `ingest.decode`: events as they were delivered, with their place.

There are two forms, whatever the source: files with events in them, or records as Kafka has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from pyspark.sql import DataFrame

# `unread`: events are there, in a form that is not read.
Encoding = Literal["avro", "json", "parquet", "unread"]
ENCODINGS: dict[str, Encoding] = {
    ".avro": "avro",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    # What sinks of Kafka Connect write besides, and how files are compressed.
    **dict.fromkeys((".orc", ".bin", ".bz2", ".zst", ".snappy", ".lz4", ".deflate", ".xz", ".zip"), "unread"),
}
# <topic>+<partition>+<start offset>.<extension>, as Kafka Connect's object-store sinks name their files; its HDFS sink
# has the end offset as well, before the extension. Before `.parquet`, and behind a text's ending, they name the codec
# as well (`.gz.parquet`, `.json.gz`).
SINK_ENDING = r"\.(\w+|\w+\.parquet|\w+\.gz)"
_SINK_NAME = re.compile(r".*?\+(?P<partition>\d+)\+(?P<offset>\d+)(?P<end>\+\d+)?" + SINK_ENDING)
# A sink's name without its ending. With another `file.delim` the offset's ten digits, as sinks pad it, tell it from a
# name with a date.
_SINKS = r".*(\+\d+\+\d+|\D\d+\D+\d{10,})"
# What a sink writes beside a file of values (`store.kafka.keys`, `store.kafka.headers`).
_BESIDE_VALUES = re.compile(rf"{_SINKS}\.(keys|headers)\.[\w.]+")
# What has no ending, of which `.gz` would say no more than how it is compressed: a sink's name, or one without a point.
_WITHOUT_ENDING = re.compile(rf"[^.]*|{_SINKS}")
# Stands in a path for bytes that are not UTF-8.
UNTOLD = "\ufffd"


def encoding_of(name: str) -> Encoding | None:
    """How the events of a file are encoded, by its ending; None where that is of no events. Texts may be gzipped."""
    if _BESIDE_VALUES.fullmatch(name):
        return None
    text = re.sub(r"\.gz$", "", name, flags=re.IGNORECASE)
    found = ENCODINGS.get("." + text.rpartition(".")[2].lower())
    if text == name or (found == "json" and name.endswith(".gz")):
        return found
    return "unread" if found is not None or _WITHOUT_ENDING.fullmatch(text) else None


@dataclass(frozen=True, order=True)
class EventFile:
    """A file of change events.

    Attributes
    ----------
    path:
        Its full path, as Spark names it.
    size, modified_ms:
        Bytes, and milliseconds since 1970: a file that was written again is another file.
    first_ms:
        When it was modified as it was first landed, where it is of the same size since and has another time: a copy, a
        restore or a `touch` gives it one. It arrived then.
    """

    path: str
    size: int
    modified_ms: int
    first_ms: int | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def encoding(self) -> Encoding | None:
        """How the events are encoded, by the file's ending; None for a file that holds no events."""
        return encoding_of(self.name)

    @property
    def names_end_offset(self) -> bool:
        """Whether the name has the offset of the last event too, as the HDFS sink gives it."""
        matched = _SINK_NAME.fullmatch(self.name)
        return matched is not None and matched["end"] is not None

    @property
    def is_named_by_sink(self) -> bool:
        """Whether the name says the place of the events, which stays where the file is written again."""
        return _SINK_NAME.fullmatch(self.name) is not None

    @property
    def partition(self) -> int:
        """The Kafka partition in the file's name; 0 where the name has none."""
        matched = _SINK_NAME.fullmatch(self.name)
        return int(matched["partition"]) if matched else 0

    @property
    def start_offset(self) -> int:
        """The Kafka offset of the first event, from the file's name.

        A file that is not named by a sink has its modification time instead, which orders files by arrival.
        """
        matched = _SINK_NAME.fullmatch(self.name)
        arrived_ms = self.modified_ms if self.first_ms is None else self.first_ms
        return int(matched["offset"]) if matched else arrived_ms


@dataclass(frozen=True)
class RawFiles:
    """Files of events, in the order in which they are to be read. Their names and lines are the events' places."""

    files: tuple[EventFile, ...]


@dataclass(frozen=True)
class RawRecords:
    """Records of events.

    Attributes
    ----------
    rows:
        Columns `key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint; further ones are not
        looked at. A null `value` is a tombstone. `topic`, `partition` and `offset` are the event's place: the offset
        grows with every record of a partition, and a record that is read again has the same three. It is below 2^48.
        Where records share an offset, a column `order` bigint tells them apart, and grows at each offset.
    number:
        How many records there are, or may be at most: it bounds what is looked at before they are read.
    """

    rows: DataFrame
    number: int


Raw = RawFiles | RawRecords
