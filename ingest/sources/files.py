"""Change events from files: lists a topic's folder and says which of its files have not been landed yet."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from ingest.config.connections import FilesConnection
from ingest.config.tables import Table
from ingest.errors import AbsentFolderError, InputError, UnavailableError
from ingest.sources.base import NOTHING_WITHHELD, Source, Unread, Withheld
from ingest.sources.raw import UNTOLD, EventFile, RawFiles
from ingest.spark import s3
from ingest.spark.jvm import java_class, root_cause

# What Hadoop passes over.
_HIDDEN = ("_", ".")
_STATUS = re.compile(
    r"path=(?P<path>.*); isDirectory=false; length=(?P<length>\d+);.*?; modification_time=(?P<modified_ms>\d+)",
    re.DOTALL,
)


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
    topic:
        The topic that they are of; '' in positions of older versions.
    """

    files: frozenset[EventFile] = field(default_factory=frozenset)
    partly: Mapping[EventFile, int] = field(default_factory=dict)
    topic: str = ""

    def pending(self, listed: Iterable[EventFile]) -> list[EventFile]:
        """The listed files that hold events and are not part of this position, in order of partition and offset."""
        unread = [file for file in listed if file.encoding is not None and file not in self.files]
        # Of all that were landed, only where there is something to ask for.
        known = {file.path: file for file in (*self.files, *self.partly)} if unread else {}
        found = (_since(known.get(file.path), file) for file in unread)
        return sorted(found, key=lambda file: (file.partition, file.start_offset, file.path))

    def advanced(
        self, listed: Iterable[EventFile], landed: Iterable[EventFile], waiting: Mapping[EventFile, int] | None = None
    ) -> FilesPosition:
        """The position after `landed`, of which `waiting` were landed in part, without files no longer listed.

        What is known of the others stays: also of one that was written again, until it is landed as it is now.
        """
        done, waits = frozenset(landed), dict(waiting or {})
        others = {file.path for file in listed if file not in done}
        partly = {file: number for file, number in self.partly.items() if file.path in others} | waits
        files = frozenset(file for file in self.files if file.path in others) | (done - waits.keys())
        return replace(self, files=files, partly=partly)

    def to_text(self, root: str) -> str:
        """The position as text for a commit's metadata; paths are kept relative to `root`."""
        every = [*((file, 0) for file in self.files), *self.partly.items()]
        rows = sorted(
            (file.path.removeprefix(root), file.size, file.modified_ms, *_more_of(file, waits)) for file, waits in every
        )
        content = json.dumps({"topic": self.topic, "files": rows}, separators=(",", ":"))
        return base64.b64encode(zlib.compress(content.encode(), 9)).decode()

    @classmethod
    def from_text(cls, text: str, root: str) -> FilesPosition:
        """The position that `to_text` wrote."""
        content = json.loads(zlib.decompress(base64.b64decode(text)))
        # Older versions wrote the files alone.
        topic, rows = (content["topic"], content["files"]) if isinstance(content, dict) else ("", content)
        files: dict[EventFile, int] = {}
        for path, size, modified, *more in rows:
            file = EventFile(root + path, size, modified, first_ms=more[1] if len(more) > 1 else None)
            files[file] = more[0] if more else 0
        whole = frozenset(file for file, waits in files.items() if not waits)
        return cls(whole, {file: waits for file, waits in files.items() if waits}, topic)


def _more_of(file: EventFile, waits: int) -> tuple[int, ...]:
    """What few files have in the text of a position: older versions wrote neither, or the first."""
    if file.first_ms is not None:
        return (waits, file.first_ms)
    return (waits,) if waits else ()


def _since(known: EventFile | None, file: EventFile) -> EventFile:
    """The file, with the time at which it arrived, where it is known with the same size and another time.

    By its new time its events would be newer than what was delivered since: those that have no place in a log but their
    delivery, and those that tie.
    """
    if known is None or known.size != file.size or file.is_named_by_sink:
        return file
    first = known.modified_ms if known.first_ms is None else known.first_ms
    return file if first == file.modified_ms else replace(file, first_ms=first)


def listing(spark: SparkSession, table: Table) -> tuple[str, list[EventFile]]:
    """The qualified path of a topic's folder and every file below it, through Hadoop's file systems (local, HDFS, S3).

    Files that begin with `_` or `.`, or have no byte, are what writers have not finished, or keep for themselves: they
    are left out.

    Raises
    ------
    UnavailableError
        The folder is not there, or cannot be listed: it may be later.
    """
    assert isinstance(table.connection, FilesConnection)
    folder = table.connection.folder_of(table.options.topic)
    try:
        # Spark lists the folder as it is loaded. Its rows would ask for each file once more: on S3 a request each.
        loaded = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(folder)._jdf
        listed = loaded.queryExecution().analyzed().relation().location().allFiles().mkString("\0")
        path = java_class(spark, "org.apache.hadoop.fs.Path")(folder)
        system = path.getFileSystem(spark._jsc.hadoopConfiguration())
        root = str(system.makeQualified(path).toString())
        found = map(_of_status, filter(None, listed.split("\0")))
        return root, [*(file for file in found if file.size), *_not_listed(root)]
    except AnalysisException as error:
        raise no_such_folder(folder) from error
    except Py4JJavaError as error:
        raise UnavailableError(
            f"the folder cannot be listed: {root_cause(error)}",
            where=folder,
            expected="a folder that can be listed and read from here",
            action=s3.to_do(str(error)) or "check `path` of the connection, and the rights of the folder",
        ) from error


def _of_status(text: str) -> EventFile:
    """A file by the text of Hadoop's `FileStatus`: one answer of Java's has those of all files."""
    found = _STATUS.search(text)
    assert found, text
    return EventFile(found["path"], int(found["length"]), int(found["modified_ms"]))


def _not_listed(root: str) -> Iterator[EventFile]:
    """Files of a local folder that Java passes over, as their paths are not UTF-8: each with U+FFFD for what is not."""
    if not root.startswith("file:/"):
        return
    for folder, folders, names in os.walk(root.removeprefix("file:")):
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
        for path in (f"{folder}/{name}" for name in names if not name.startswith(_HIDDEN)):
            text = os.fsencode(path).decode(errors="replace")
            if UNTOLD in text:
                found = Path(path).lstat()
                yield EventFile(f"file:{text}", found.st_size, found.st_mtime_ns // 1_000_000)


def no_such_folder(path: str) -> AbsentFolderError:
    """What is wrong where a topic has no folder: a sink makes it with its first file, and a disk may be away."""
    return AbsentFolderError(
        "there is no such folder",
        where=path,
        expected="a folder named as the topic, with .avro, .json, .jsonl, .ndjson, .json.gz or .parquet files below it",
        action="check `topic` in the declaration and `path` of the connection, and that the sink has written",
    )


@dataclass(frozen=True)
class UnreadFiles(Unread):
    """Files of events that have not been landed."""

    table: Table
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
    def number(self) -> int:
        return len(self.files)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def position(self) -> str:
        return self.before.to_text(self.root)

    def portion(self) -> UnreadFiles:
        if self.bytes <= self.batch_bytes:
            return self
        # By offset first: the partitions go on side by side.
        unread = sorted(self.files, key=lambda file: (file.start_offset, file.partition, file.path))
        sizes = accumulate(file.size for file in unread)
        taken = {file for file, size in zip(unread, sizes, strict=True) if size <= self.batch_bytes} or {unread[0]}
        return replace(self, files=tuple(file for file in self.files if file in taken))

    def read(self) -> RawFiles:
        if not self.table.key:
            self._require_unchanged()
        return RawFiles(self.files)

    def _require_unchanged(self) -> None:
        """A file that has grown holds rows that were landed, and one that was replaced does not: none says which it is.
        Nor does one that was moved: another of its name, size and time is gone.

        Where a sink has named it, its rows have their places from the name.
        """
        known = {file.path for file in (*self.before.files, *self.before.partly)}
        there = {file.path for file in self.listed}
        gone = {
            (file.name, file.size, file.modified_ms): file.path for file in self.before.files if file.path not in there
        }
        for file in self.files:
            moved = gone.get((file.name, file.size, file.modified_ms))
            if moved and not file.is_named_by_sink:
                raise InputError(
                    f"{moved} was landed, and is gone: this may be it, moved",
                    where=file.path,
                    expected="files that stay where they are: no key says which of its rows are landed already",
                    action="move it back, or out of the topic's folder; new events need a file of another name",
                )
            # One that was landed in part, and has not changed, is read again.
            if file.path in known and file not in self.before.partly and not file.is_named_by_sink:
                raise InputError(
                    "the file was landed, and was written again since",
                    where=file.path,
                    expected="files that stay as they are: no key says which of its rows are landed already",
                    action="give new events a file of their own, of another name; where it has none, skip it by "
                    f"`lake position {self.table.alone} --to latest`",
                )

    def after(self, withheld: Withheld = NOTHING_WITHHELD) -> str:
        partly = {file: withheld.files[file] for file in self.files if file in withheld.files}
        return self.before.advanced(self.listed, self.files, partly).to_text(self.root)

    def at(self, *, to_latest: bool) -> str:
        nothing = FilesPosition(topic=self.before.topic)
        return (nothing.advanced(self.listed, self.listed) if to_latest else nothing).to_text(self.root)

    def beyond(self, position: str) -> UnreadFiles:
        before, topic = FilesPosition.from_text(position, self.root), self.before.topic
        if before.topic not in ("", topic):
            raise InputError(
                f"files of topic {before.topic} were landed, and the declaration says {topic}",
                where=self.root,
                expected="the topic that was read before: of two tables, the rows would be mixed",
                action=f"declare {before.topic} again; where {topic} is of the same table, `lake position "
                f"{self.table.alone} --to earliest` goes on with its files, with a raised `epoch` where its changes "
                "are of another log",
            )
        before = replace(before, topic=topic)
        return replace(self, before=before, files=tuple(before.pending(self.listed)))

    def without(self, files: Collection[EventFile]) -> UnreadFiles:
        return replace(self, files=tuple(file for file in self.files if file not in files))

    def unreadable(self, error: Py4JJavaError) -> InputError:
        shown = ", ".join(file.path for file in self.files[:3])
        return InputError(
            root_cause(error),
            where=shown if len(self.files) <= 3 else f"{shown} and {len(self.files) - 3} more",
            expected="readable files of change events",
            action="correct or remove the file that is named; nothing of this batch was landed",
        )


class FilesSource(Source[FilesConnection]):
    """Folders of files, one for each topic. Nothing tells of new files: the folders are listed again."""

    model = FilesConnection
    delivers_files = True

    def listed(self, table: Table) -> UnreadFiles:
        root, files = listing(self.spark, table)
        before = FilesPosition(topic=table.options.topic)
        return UnreadFiles(
            table=table,
            root=root,
            batch_bytes=self.connection.batch_bytes,
            listed=tuple(files),
            before=before,
            files=tuple(before.pending(files)),
        )
