"""Hudi's timeline of a table: its commits, and when they were completed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_LARGE_BATCH_ROWS, _LARGE_BATCH_SHARE = 1_000, 0.1


def newest_first(timeline: Any) -> Iterator[tuple[Any, Any]]:
    instants = timeline.getReverseOrderedInstants().iterator()
    while instants.hasNext():
        yield timeline, instants.next()


def ends_with_a_large_batch(timeline: Any) -> bool:
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


def completed_at(instant: Any) -> str:
    """The instant that time travel takes: of completion, where the table's version records it."""
    return str(instant.getCompletionTime() or instant.requestedTime())
