"""Compacts silver tables and their histories where that is due."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError

from ingest.config.lake import is_on_s3
from ingest.silver import change_log
from ingest.silver.hudi import HudiTable
from ingest.silver.table import SilverTable
from ingest.silver.write_errors import compaction_error

# A batch of so many rows that it writes this share of the table's files at once makes each read slower, which merges
# them, and is compacted when nothing waits behind it.
_LARGE_BATCH_ROWS, _LARGE_BATCH_SHARE = 1_000, 0.1


def keep_up(silver: SilverTable, is_behind: bool) -> None:
    """Compacts a table and its history, where that is due (`compact`).

    Raises
    ------
    WriteError
        Hudi could not write. Nothing is lost then.
    """
    compact(silver, is_behind=is_behind)
    if silver.table.options.history:
        compact(change_log.changes_of(silver), is_behind=is_behind)


def compact(silver: SilverTable, *, is_behind: bool = False) -> bool:
    """Carries out the compaction that is due, or that was broken off; whether there was one.

    Due is what a commit has planned, and what the last commit has written where that is much for the table; of a table
    on S3, whatever it has written: Athena reads its `_ro`. Other commits may be made meanwhile.

    Parameters
    ----------
    is_behind:
        More input is unread: only what is planned is compacted.

    Raises
    ------
    WriteError
        Hudi could not write. Nothing is lost then: the plan stays.
    """
    table = silver.hudi
    if table.options.table_type != "mor" or not table.exists():
        return False
    is_planned = _is_planned(table)
    if not is_planned and (is_behind or not _is_due(table)):
        return False
    with silver.writing():
        # Another process may have carried it out meanwhile.
        if is_planned and _is_planned(table):
            table.compact()
        # What was written behind the plan is in none: on S3 it has to be.
        if is_behind or (is_planned and not is_on_s3(table.path)) or not _is_due(table):
            return is_planned
        table.plan_compaction()
        table.compact()
    return True


def _is_planned(table: HudiTable) -> bool:
    try:
        return table.timeline.has_planned_compaction()
    except Py4JJavaError as error:
        raise compaction_error(error, where=table.options.relation) from error


def _is_due(table: HudiTable) -> bool:
    """Whether the last commits have written so much into log files that reading takes longer; or anything, where
    readers see only what is compacted."""
    try:
        timeline = table.timeline.active()
        return _has_logs(timeline) if is_on_s3(table.path) else _ends_with_a_large_batch(timeline)
    except Py4JJavaError as error:
        raise compaction_error(error, where=table.options.relation) from error


def _has_logs(timeline: Any) -> bool:
    """Whether a commit has written to a log file since the last compaction."""
    instants = timeline.getCommitsTimeline().filterCompletedInstants().getReverseOrderedInstants().iterator()
    while instants.hasNext():
        instant = instants.next()
        if instant.getAction() != "deltacommit":
            return False
        if any(".log." in str(written.getPath()) for written in timeline.readCommitMetadata(instant).getWriteStats()):
            return True
    return False


def _ends_with_a_large_batch(timeline: Any) -> bool:
    """Whether the last commit has written log files of at least a tenth of what the last compaction wrote."""
    last = timeline.getCommitsTimeline().filterCompletedInstants().lastInstant()
    if not last.isPresent() or last.get().getAction() != "deltacommit":
        return False
    batch = timeline.readCommitMetadata(last.get())
    if batch.fetchTotalRecordsWritten() < _LARGE_BATCH_ROWS:
        return False
    whole = timeline.getCommitAndReplaceTimeline().filterCompletedInstants().lastInstant()
    if not whole.isPresent():
        return False
    share = _LARGE_BATCH_SHARE * timeline.readCommitMetadata(whole.get()).fetchTotalBytesWritten()
    return bool(batch.fetchTotalBytesWritten() >= share)
