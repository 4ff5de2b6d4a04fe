"""Hudi's timeline of a table: its commits, and when they were completed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from pyspark.sql import SparkSession

from ingest.spark.jvm import java_class


@dataclass(frozen=True)
class Timeline:
    """The commits of the Hudi table at a path, as they are whenever they are asked for."""

    spark: SparkSession
    path: str

    def active(self) -> Any:
        """Hudi's own active timeline."""
        return self._client().getActiveTimeline()

    def is_empty(self) -> bool:
        """Whether no commit was ever completed."""
        return next(self.instants(), None) is None

    def commits(self) -> Iterator[tuple[Any, str]]:
        """Hudi's metadata and the instant of each completed commit, newest first."""
        for timeline, instant in self._completed():
            yield timeline.readCommitMetadata(instant), _completed_at(instant)

    def instants(self) -> Iterator[tuple[str, str]]:
        """When each completed commit was requested, and when it was completed, newest first."""
        for _, instant in self._completed():
            yield str(instant.requestedTime()), _completed_at(instant)

    def commits_after(self, instant: str) -> int:
        """How many commits were completed after that instant."""
        return sum(1 for _ in takewhile(lambda commit: commit[1] > instant, self.instants()))

    def last_before(self, requested: str) -> str | None:
        """The instant of the last commit that was requested before that time; None where there is none."""
        return next((completed for earlier, completed in self.instants() if earlier < requested), None)

    def _client(self) -> Any:
        hadoop = self.spark._jsc.hadoopConfiguration()
        storage = java_class(self.spark, "org.apache.hudi.hadoop.fs.HadoopFSUtils").getStorageConf(hadoop)
        return (
            java_class(self.spark, "org.apache.hudi.common.table.HoodieTableMetaClient")
            .builder()
            .setConf(storage)
            .setBasePath(self.path)
            .build()
        )

    def _completed(self) -> Iterator[tuple[Any, Any]]:
        client = self._client()
        active = client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        yield from _newest_first(active)
        # Other writers' commits may have pushed ingest's last one out of the active timeline.
        archived = client.getArchivedTimeline()
        archived.loadCompletedInstantDetailsInMemory()
        yield from _newest_first(archived.getCommitsTimeline().filterCompletedInstants())


def _newest_first(timeline: Any) -> Iterator[tuple[Any, Any]]:
    instants = timeline.getReverseOrderedInstants().iterator()
    while instants.hasNext():
        yield timeline, instants.next()


def _completed_at(instant: Any) -> str:
    """The instant that time travel takes: of completion, where the table's version records it."""
    return str(instant.getCompletionTime() or instant.requestedTime())
