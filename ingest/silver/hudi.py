"""Hudi's options for small commits and compaction, texts for Spark SQL, and what kept Hudi from writing."""

from __future__ import annotations

import re

from ingest.errors import LakeError, WriteError
from ingest.spark.jvm import root_cause

# Hudi's settings for small commits: each of these was measured (docs/performance.md).
SMALL_COMMITS = {
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
}
# Readers of a cut travel back to it: its files must outlast the commits that may follow (ingest.landing.transactions).
KEEPS_CUTS = {
    "hoodie.clean.commits.retained": "20",
    "hoodie.keep.min.commits": "30",
    "hoodie.keep.max.commits": "40",
}
# After so many commits a merge-on-read table is compacted: what its readers merge stays bounded. A batch of so many
# rows that it writes this share of the table's files at once makes each read take four times as long
# (docs/performance.md), and is compacted when nothing waits behind it.
_COMMITS_A_COMPACTION = 10


def compaction_options(table_type: str) -> dict[str, str]:
    """Hudi's options by which a commit plans a compaction where one is due. `SilverTable.compact` carries it out."""
    return {
        "hoodie.compact.inline": "false",
        "hoodie.compact.schedule.inline": "true" if table_type == "mor" else "false",
        "hoodie.compact.inline.max.delta.commits": str(_COMMITS_A_COMPACTION),
    }


def literal(text: str) -> str:
    """A text for Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# What to do about an error of Spark or Hudi, by what it says.
_TO_DO = {
    "OutOfMemoryError|heap space|GC overhead": (
        "give Spark more memory (LAKE_MEMORY), or land less at a time: lower batch_bytes of the connection"
    ),
    "is not a Parquet file|orrupt|EOFException|FileNotFound|[Nn]o such file|does not exist": (
        "a file of the table is broken or gone: restore the file that is named from a copy, or move the table away to "
        "land it anew"
    ),
    "WriteConflict|LockException|acquire lock": "another process writes this table: let one of them end first",
    "onnection refused|UnknownHost|[Tt]imed? ?out|ConnectException": (
        "see that the lake's storage and its catalog answer, and can be reached from here"
    ),
    "[Ss]chema|[Cc]ast|INCOMPATIBLE|UNRESOLVED_COLUMN": (
        "compare the declared columns with those of the table: `lake plan` shows how they differ"
    ),
}
_LOOK_IT_UP = "mend what the message names; `--debug` shows the whole error"


def write_error(error: Exception, *, where: str) -> LakeError:
    """What kept Spark or Hudi from writing, as an error that says what to do."""
    text = str(error)
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
        return WriteError("the disk is full", where=where, action="free space and run again; nothing was landed")
    told = root_cause(error)
    action = next((action for kind, action in _TO_DO.items() if re.search(kind, told)), _LOOK_IT_UP)
    return WriteError(told, where=where, action=f"{action}. Nothing of this batch was landed: run again then")
