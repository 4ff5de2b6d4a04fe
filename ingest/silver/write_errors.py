"""What kept Spark or Hudi from writing a table, as an error of the family, which says what to do."""

from __future__ import annotations

import re

from ingest.errors import LakeError, UnavailableError, WriteError
from ingest.spark import s3
from ingest.spark.jvm import root_cause
from ingest.spark.passing import may_pass

# A writer that begins rolls back what another one has not completed: its timeline lacks that then.
_ANOTHER_WRITES = r"WriteConflict|LockException|acquire lock|/\.hoodie/\S+\.(requested|inflight)\S* does not exist"
# What to do about an error of Spark or Hudi, by what it says.
_TO_DO = {
    "OutOfMemoryError|heap space|GC overhead": (
        "give Spark more memory (LAKE_MEMORY), or land less at a time: lower batch_bytes of the connection"
    ),
    _ANOTHER_WRITES: "another process writes this table: let one of them end first",
    # Hudi names no file, and its next writer removes the plan of a clean or a compaction that it could not read.
    "Not an Avro data file": (
        "a file of the table's timeline breaks off, as where a process was killed: run again first, once or twice, and "
        "the plan of a clean or a compaction is removed. Where the message stays, restore what is empty or cut below "
        ".hoodie/timeline from a copy, or move the table away to land it anew"
    ),
    "Found pending restore": (
        "a restore to a savepoint was not completed: `call rollback_to_savepoint(table => ..., instant_time => ...)` "
        "again, with the savepoint of before (`call show_savepoints(table => ...)` lists them)"
    ),
    "is not a Parquet file|orrupt|EOFException|FileNotFound|[Nn]o such file|does not exist": (
        "a file of the table is broken or gone: restore the file that is named from a copy, or move the table away to "
        "land it anew"
    ),
    "Config conflict": (
        "the table's own settings (.hoodie/hoodie.properties) have the value that is named last: rename the table back "
        "if it was renamed, or move one that something else has made away, to land it anew"
    ),
    "ClusteringUpdate|pending clustering": (
        "another writer has planned a clustering of the table: carry it out (`call run_clustering(path => ..., "
        "op => 'execute')`) and run again, which puts the rows into their buckets"
    ),
    "[Ss]chema|[Cc]ast|INCOMPATIBLE|UNRESOLVED_COLUMN": (
        "compare the declared columns with those of the table: `lake plan` shows how they differ"
    ),
}
_DOES_NOT_ANSWER = "see that the lake's storage and its catalog answer, and can be reached from here"
_LOOK_IT_UP = "correct what the message names; `--debug` shows the whole error"


def write_error(error: Exception, *, where: str) -> LakeError:
    """What kept Spark or Hudi from writing, as an error that says what to do: `UnavailableError` where it may pass."""
    text, passes = str(error), may_pass(error)
    if action := s3.to_do(text):
        return (UnavailableError if passes else WriteError)(
            f"S3 {'does not serve it now' if passes else 'refuses it'}: {root_cause(error)}",
            where=where,
            action=f"{action}; nothing of this batch was landed, run again then",
        )
    if (
        "Permission denied" in text
        or "Read-only file system" in text
        or "Mkdirs failed" in text
        or "AccessDenied" in text
    ):
        return WriteError(
            "the lake cannot be written here",
            where=where,
            expected="a folder this user may write to",
            action="check LAKE_HOME (or spark.sql.warehouse.dir in the profile) and its rights; nothing was landed",
        )
    if "No space left" in text:
        return UnavailableError("the disk is full", where=where, action="free space and run again; nothing was landed")
    cause = root_cause(error)
    kind = next((kind for kind in _TO_DO if re.search(kind, cause)), "")
    action = _TO_DO.get(kind) or (_DOES_NOT_ANSWER if passes else _LOOK_IT_UP)
    return (UnavailableError if passes or kind == _ANOTHER_WRITES else WriteError)(
        cause, where=where, action=f"{action}; nothing of this batch was landed, run again then"
    )


def compaction_error(error: Exception, *, where: str) -> WriteError:
    """What kept a table from being compacted."""
    return WriteError(
        f"it cannot be compacted: {root_cause(error)}",
        where=where,
        action="what was read is landed, and readers see it; it is tried again after the next batch, or run",
    )
