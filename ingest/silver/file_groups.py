"""The files that a Hudi table is made of, as its readers find them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ingest.silver.timeline import Timeline
from ingest.spark.jvm import java_class


@dataclass(frozen=True)
class File:
    """A file of a table, and its size in bytes."""

    name: str
    bytes: int


@dataclass(frozen=True)
class FileGroup:
    """The files in which a share of a partition's keys is: the newest base file, and the log files since.

    Attributes
    ----------
    partition:
        The folder below the table's; empty where the table is not partitioned.
    base_file:
        None where there are only log files yet.
    log_files:
        What a reader merges into the base file, oldest first.
    """

    partition: str
    file_id: str
    base_file: File | None
    log_files: tuple[File, ...]

    @property
    def since(self) -> str:
        """When the writing of the base file was begun; of the first log file where there is none.

        Log files hold what was written since.
        """
        # <file id>_<write token>_<instant>.parquet, .<file id>_<instant>.log.<version>_<write token>
        name = self.base_file.name if self.base_file else self.log_files[0].name.partition(".log.")[0]
        return name.rpartition("_")[2].partition(".")[0]

    @property
    def bytes(self) -> int:
        """The size of all these files."""
        return sum(file.bytes for file in (self.base_file, *self.log_files) if file)


def file_groups(timeline: Timeline) -> list[FileGroup]:
    """The file groups of a table as of its last commit, by partition and file id. No rows are read.

    Files that newer ones have made obsolete, and wait to be cleaned, are not among them.
    """
    newest = next(timeline.instants(), None)
    if newest is None:
        return []
    spark, (engine, client, config) = timeline.spark, timeline.listing()
    views = java_class(spark, "org.apache.hudi.common.table.view.FileSystemViewManager")
    view = views.createInMemoryFileSystemView(engine, client, config)
    try:
        # A planned compaction begins a new slice of the group: merged, it is one with the slice before.
        last = str(
            client.getActiveTimeline().filterCompletedAndCompactionInstants().lastInstant().get().requestedTime()
        )
        found = [
            _file_group(partition, piece)
            for partition in timeline.partitions()
            for piece in _each(view.getLatestMergedFileSlicesBeforeOrOn(partition, last))
        ]
    finally:
        view.close()
    return sorted(found, key=lambda group: (group.partition, group.file_id))


def _file_group(partition: str, piece: Any) -> FileGroup:
    base = piece.getBaseFile()
    logs = [File(str(log.getFileName()), log.getFileSize()) for log in _each(piece.getLogFiles())]
    return FileGroup(
        partition,
        str(piece.getFileId()),
        File(str(base.get().getFileName()), base.get().getFileSize()) if base.isPresent() else None,
        tuple(reversed(logs)),  # Hudi has the newest first
    )


def _each(stream: Any) -> Iterator[Any]:
    items = stream.iterator()
    while items.hasNext():
        yield items.next()
