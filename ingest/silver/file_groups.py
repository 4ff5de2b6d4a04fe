"""The files that a Hudi table is made of, as its readers find them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ingest.errors import WriteError
from ingest.silver.timeline import Timeline
from ingest.spark.jvm import java_class

# So many missing files are named.
_NAMED = 3


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


def require_whole(timeline: Timeline) -> None:
    """Looks, by one listing of each partition, for the files that a table's commits have written.

    Readers find what is there: without a file they lack its rows, and say nothing. A file group that only archived
    commits have written to is not looked at.

    Raises
    ------
    WriteError
        Files are gone, or shorter than they were written.
    """
    # What the commits have made obsolete since, the cleaner may have taken while the files were listed.
    missing = _missing(timeline) and _missing(timeline)
    if missing:
        named = ", ".join(sorted(missing)[:_NAMED])
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise WriteError(
            f"files of its commits are gone, or shorter than they were written: {named}{more}",
            where=timeline.path,
            expected="each file that holds rows: readers lack those of the others, or fail",
            action="put the files back from a copy, before anything is landed; or move the folder away to land the "
            "table anew, with what its source still has",
        )


def _missing(timeline: Timeline) -> set[str]:
    """The files, below the table's folder, that hold rows by its commits, and are not there as they were written."""
    base: dict[tuple[str, str], tuple[str, str, int]] = {}
    logs: list[tuple[tuple[str, str], str, str, int]] = []
    for requested, instant, metadata in timeline.active_commits():
        for at, written in json.loads(str(metadata.toJsonString()))["partitionToWriteStats"].items():
            for file in written:
                group, path, size = (at, file["fileId"]), file["path"], file["fileSizeInBytes"]
                if ".log." in path:
                    logs.append((group, instant, path, size))
                else:
                    base[group] = max(base.get(group, ("", "", 0)), (requested, path, size))
    # A base file holds what the log files had that were completed before it was begun.
    needed = {group: [(path, size)] for group, (_, path, size) in base.items()}
    for group, instant, path, size in logs:
        if group not in base or instant > base[group][0]:
            needed.setdefault(group, []).append((path, size))
    groups = needed.keys() - timeline.replaced()
    there = {path: size for at in {at for at, _ in groups} for path, size in timeline.files_in(at)}
    return {path for group in groups for path, size in needed[group] if there.get(path, 0) < size}


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
