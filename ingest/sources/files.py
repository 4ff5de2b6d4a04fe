"""Change events from files: lists a topic's folder and says which of its files have not been landed yet."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from ingest.config.connections import FilesConnection
from ingest.config.tables import Table
from ingest.errors import InputError
from ingest.spark.jvm import java_class

Encoding = Literal["avro", "json", "records"]
ENCODINGS: dict[str, Encoding] = {".avro": "avro", ".json": "json", ".jsonl": "json", ".parquet": "records"}
# <topic>+<partition>+<start offset>.<extension>, as Kafka Connect's object-store sinks name their files.
_SINK_NAME = re.compile(r".*\+(?P<partition>\d+)\+(?P<offset>\d+)\.\w+")


@dataclass(frozen=True, order=True)
class EventFile:
    """A file of change events.

    Attributes
    ----------
    path:
        Its full path, as Spark names it.
    size, modified_ms:
        Bytes, and milliseconds since 1970: a file that was written again is another file.
    """

    path: str
    size: int
    modified_ms: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def encoding(self) -> Encoding | None:
        """How the events are encoded, by the file's extension; None for a file that holds no events."""
        return ENCODINGS.get("." + self.name.rsplit(".", 1)[-1])

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
        return int(matched["offset"]) if matched else self.modified_ms


@dataclass(frozen=True)
class FilesPosition:
    """The files a table has landed: its position in a source of files.

    Kept whole, not as a watermark: sinks that write several folders or partitions at once finish files in any order,
    and a name or time older than the newest does not show that a file was seen. Files that are gone from the source
    are dropped from the position, so its size is bounded by the files that exist.

    Attributes
    ----------
    files:
        Those of which every event was landed.
    partly:
        Those of which some events wait for the rest of their transaction, with the number that waits. They stay
        pending; what was landed of them is known when it is read again.
    """

    files: frozenset[EventFile] = field(default_factory=frozenset)
    partly: Mapping[EventFile, int] = field(default_factory=dict)

    def pending(self, listed: Iterable[EventFile]) -> list[EventFile]:
        """The listed files that hold events and are not part of this position, in order of partition and offset."""
        found = (file for file in listed if file.encoding is not None and file not in self.files)
        return sorted(found, key=lambda file: (file.partition, file.start_offset, file.path))

    def advanced(
        self, listed: Iterable[EventFile], landed: Iterable[EventFile], waiting: Mapping[EventFile, int] | None = None
    ) -> FilesPosition:
        """The position after `landed`, of which `waiting` were landed in part, without files no longer listed."""
        partly = dict(waiting or {})
        return FilesPosition((self.files & frozenset(listed)) | (frozenset(landed) - partly.keys()), partly)

    def to_text(self, root: str) -> str:
        """The position as text for a commit's metadata; paths are kept relative to `root`."""
        every = [*((file, ()) for file in self.files), *((file, (waits,)) for file, waits in self.partly.items())]
        rows = sorted((file.path.removeprefix(root), file.size, file.modified_ms, *more) for file, more in every)
        return base64.b64encode(zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 9)).decode()

    @classmethod
    def from_text(cls, text: str, root: str) -> FilesPosition:
        """The position that `to_text` wrote."""
        rows = json.loads(zlib.decompress(base64.b64decode(text)))
        files = {EventFile(root + path, size, modified): more for path, size, modified, *more in rows}
        whole = frozenset(file for file, more in files.items() if not more)
        return cls(whole, {file: more[0] for file, more in files.items() if more})


@dataclass(frozen=True)
class TopicFolder:
    """The folder of one topic."""

    path: str

    @classmethod
    def of(cls, table: Table) -> TopicFolder:
        """The folder of a table's topic, below its connection's path."""
        assert isinstance(table.connection, FilesConnection)
        return cls(f"{table.connection.path.rstrip('/')}/{table.options.topic}")

    def listing(self, spark: SparkSession) -> tuple[str, list[EventFile]]:
        """The folder's qualified path and every file below it, through Hadoop's file systems (local, HDFS, S3).

        Files that begin with `_` or `.` are what writers have not finished, or keep for themselves: they are left out.

        Raises
        ------
        InputError
            The folder does not exist or cannot be read.
        """
        try:
            listing = (
                spark.read.format("binaryFile")
                .option("recursiveFileLookup", "true")
                .load(self.path)
                .select("path", "length", "modificationTime")
                .selectExpr("path", "length", "unix_millis(modificationTime) as modified_ms")
            )
        except AnalysisException as error:
            raise InputError(
                "there is no such folder",
                where=self.path,
                expected="a folder named as the topic, with .avro, .json, .jsonl or .parquet files below it",
                action="check `topic` in the declaration and `path` of the connection, and that the sink has written",
            ) from error
        path = java_class(spark, "org.apache.hadoop.fs.Path")(self.path)
        system = path.getFileSystem(spark._jsc.hadoopConfiguration())
        root = str(system.makeQualified(path).toString())
        return root, [EventFile(row.path, row.length, row.modified_ms) for row in listing.collect()]
