"""Hudi's timeline of a table: its commits and compactions, and when they were completed."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ingest.errors import UnavailableError, WriteError
from ingest.spark.jvm import java_class, root_cause
from ingest.spark.passing import may_pass

log = logging.getLogger(__name__)
# Tables before this version do not record when a commit was completed: Hudi takes the time of the file instead, which
# S3 tells in whole seconds, before the request of the commit itself.
_RECORDS_COMPLETION = 8
# So long is waited for clocks that are apart; so long between two looks; digits of an instant without its milliseconds.
_CLOCKS_WITHIN_S, _SETTLES_S, _SECONDS = 20, 0.1, 14


@dataclass(frozen=True)
class Commit:
    """A completed commit, as its metadata describes it.

    Attributes
    ----------
    instant:
        What time travel takes: when it was completed, or, where the table's version keeps no record of that, begun.
    requested:
        When it was begun: `_hoodie_commit_time` of its rows.
    action:
        Hudi's: commit, deltacommit (of a merge-on-read table) or replacecommit.
    operation:
        What wrote it, such as upsert, bulk_insert or compact.
    inserted, updated, deleted:
        Rows.
    partitions, files:
        To which it wrote.
    bytes:
        That it wrote.
    """

    instant: str
    requested: str
    action: str
    operation: str
    inserted: int
    updated: int
    deleted: int
    partitions: int
    files: int
    bytes: int

    @property
    def is_compaction(self) -> bool:
        """Whether it wrote log files into base files."""
        return self.operation == "compact"


@dataclass(frozen=True)
class PlannedCompaction:
    """A compaction that is planned and not yet completed.

    Attributes
    ----------
    state:
        requested: nobody has begun it; inflight: it is at work, or was broken off.
    file_groups, log_files:
        How many it is to compact.
    """

    requested: str
    state: str
    file_groups: int
    log_files: int


@dataclass(frozen=True)
class Timeline:
    """The commits of the Hudi table at a path, as they are whenever they are asked for."""

    spark: SparkSession
    path: str

    def active(self) -> Any:
        """Hudi's own active timeline."""
        return self.client().getActiveTimeline()

    def is_empty(self) -> bool:
        """Whether no commit was ever completed."""
        return next(self.instants(), None) is None

    def commits(self, client: Any = None) -> Iterator[tuple[Any, str]]:
        """Hudi's metadata and the instant of each completed commit, newest first; as a `client` sees them.

        Raises
        ------
        UnavailableError
            The storage does not answer now.
        WriteError
            The file of a commit cannot be read.
        """
        for timeline, instant, completed in self._completed(client):
            try:
                metadata = timeline.readCommitMetadata(instant)
            except Py4JJavaError as error:
                if may_pass(error):
                    raise UnavailableError(
                        f"its timeline cannot be read now: {root_cause(error)}",
                        where=self.path,
                        action="see that the lake's storage answers; nothing was landed, run again then",
                    ) from error
                raise WriteError(
                    f"the file of its commit {instant.requestedTime()} ({instant.getAction()}) cannot be read: "
                    f"{root_cause(error)}",
                    where=self.path,
                    expected="a whole file of each commit, below .hoodie",
                    action="restore it from a copy; or, where it is the last commit, remove it: the commit counts as "
                    "broken off then, and the next run lands its events again. Nothing was landed",
                ) from error
            yield metadata, completed

    def withdraw_unreadable(self) -> list[str]:
        """Removes the file of the last commit, and the plan of a cleaning or compaction, where it is cut, as by a full
        disk; the names of these.

        Hudi takes such a commit for completed; without the file it is one that was broken off, which the next writer
        rolls back. Of such a plan each later run fails; it is planned again.
        """
        client = self.client()
        active = client.getActiveTimeline()
        cleaning = java_class(self.spark, "org.apache.hudi.common.util.CleanerUtils")
        compacting = java_class(self.spark, "org.apache.hudi.common.util.CompactionUtils")
        commits = [commit for _, commit in _newest_first(active.getCommitsTimeline().filterCompletedInstants())]
        last = sorted(commits, key=lambda commit: str(commit.getCompletionTime()))[-1:]
        plans = [plan for _, plan in _newest_first(active.getCleanerTimeline().filterInflightsAndRequested())]
        compactions = [plan for _, plan in _newest_first(active.filterPendingCompactionTimeline())]
        return [
            *self._withdraw(client, last, active.readCommitMetadata),
            *self._withdraw(client, plans, partial(cleaning.getCleanerPlan, client)),
            *self._withdraw(
                client, compactions, lambda plan: compacting.getCompactionPlan(client, plan.requestedTime())
            ),
            *self.withdraw_rollbacks(client),
        ]

    def withdraw_rollbacks(self, client: Any) -> list[str]:
        """Removes the plan of a rollback that is cut, as by a full disk, before Hudi meets it, which plans it again;
        the names of the files. The caller is the only one who writes the table."""
        return self._withdraw(client, self._rollbacks(client), self._reads_rollback(client))

    def _rollbacks(self, client: Any) -> list[Any]:
        return [plan for _, plan in _newest_first(client.getActiveTimeline().filterPendingRollbackTimeline())]

    def _reads_rollback(self, client: Any) -> Callable[[Any], Any]:
        return partial(
            java_class(self.spark, "org.apache.hudi.table.action.rollback.RollbackUtils").getRollbackPlan, client
        )

    def _withdraw(self, client: Any, instants: Iterable[Any], read: Callable[[Any], Any]) -> list[str]:
        """Removes the files of the instants that are cut; their names."""
        withdrawn = []
        for instant in instants:
            if self._unless_cut(client, instant, read) is None:
                for file in self._files_of(client, instant):
                    file.getFileSystem(self.spark._jsc.hadoopConfiguration()).delete(file, False)
                    withdrawn.append(str(file.getName()))
        if withdrawn:
            log.warning("%s: %s cut, as by a full disk: it is removed", self.path, " and ".join(withdrawn))
        return withdrawn

    def _unless_cut(self, client: Any, instant: Any, read: Callable[[Any], Any]) -> Any:
        """What its file says; None where that is cut. One that the storage did not give just now may be whole: this
        raises then, or it is read at the second look."""
        for _ in range(2):
            try:
                return read(instant)
            except Py4JJavaError:
                self._content(self._files_of(client, instant)[-1])
        return None

    def instants(self) -> Iterator[tuple[str, str]]:
        """When each completed commit was requested, and its instant, newest first."""
        for _, instant, completed in self._completed():
            yield str(instant.requestedTime()), completed

    def commits_after(self, instant: str) -> int:
        """How many commits have a later instant."""
        return sum(1 for _ in takewhile(lambda commit: commit[1] > instant, self.instants()))

    def rolled_back(self, instants: Set[str]) -> set[str]:
        """Those of some instants of its commits that it has no longer; what is archived it has."""
        there = self._active_instants()
        return {instant for instant in instants - there if there and instant > min(there)}

    def revocable(self, instants: Set[str]) -> set[str]:
        """Those of some instants of its commits that can be rolled back, or were: all but the archived ones."""
        there = self._active_instants()
        return {instant for instant in instants if there and instant >= min(there)}

    def _active_instants(self) -> Set[str]:
        client = self.client()
        active = _newest_first(client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants())
        return {completed for _, _, completed in self._with_instants(client, active)}

    def written_after(self, instant: str) -> Iterator[tuple[str, int]]:
        """The file groups that the commits with a later instant have written to, with the number of rows that each
        has inserted there. Those of compactions are left out: they put no row elsewhere."""
        for timeline, commit, completed in self._completed():
            if completed <= instant:
                return
            metadata = timeline.readCommitMetadata(commit)
            if str(metadata.getOperationType()) != "COMPACT":
                for written in metadata.getWriteStats():
                    yield str(written.getFileId()), int(written.getNumInserts())

    def active_commits(self) -> list[tuple[str, str, Any]]:
        """Of each completed commit that is not archived: when it was requested, its instant, Hudi's metadata of it."""
        client = self.client()
        active = _newest_first(client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants())
        return [
            (str(instant.requestedTime()), completed, timeline.readCommitMetadata(instant))
            for timeline, instant, completed in self._with_instants(client, active)
        ]

    def replaced(self) -> set[tuple[str, str]]:
        """The file groups, by partition and file id, that commits which are not archived have put others in place of:
        a clustering, an `insert overwrite`, a partition that was dropped."""
        active, found = self.active(), set()
        for timeline, instant in _newest_first(active.getCompletedReplaceTimeline()):
            groups = json.loads(str(timeline.readReplaceCommitMetadata(instant).toJsonString()))
            found |= {(at, each) for at, ids in groups["partitionToReplaceFileIds"].items() for each in ids}
        return found

    def last_before(self, requested: str) -> str | None:
        """The instant of the last commit that was requested before that time; None where there is none."""
        return next((completed for earlier, completed in self.instants() if earlier < requested), None)

    def described(self) -> Iterator[Commit]:
        """Each completed commit, newest first."""
        for timeline, instant, completed in self._completed():
            metadata = timeline.readCommitMetadata(instant)
            yield Commit(
                instant=completed,
                requested=str(instant.requestedTime()),
                action=str(instant.getAction()),
                operation=str(metadata.getOperationType()).lower(),
                inserted=metadata.fetchTotalInsertRecordsWritten(),
                updated=metadata.fetchTotalUpdateRecordsWritten(),
                deleted=metadata.getTotalRecordsDeleted(),
                partitions=metadata.fetchTotalPartitionsWritten(),
                files=metadata.fetchTotalFiles(),
                bytes=metadata.fetchTotalBytesWritten(),
            )

    def await_past(self, client: Any) -> None:
        """Waits until the last commit is no later than now.

        Commits are ordered by the clock of the machine that makes them. One that is made before the last one, by a
        clock that was set back, is not the newest: no reader would see its rows, and the next run not its position.

        Raises
        ------
        UnavailableError
            The last commit is too far ahead.
        """
        last = client.getActiveTimeline().getLatestCompletionTime()
        if not last.isPresent():
            return
        deadline = time.monotonic() + _CLOCKS_WITHIN_S
        while str(last.get()) > (now := instant_of(datetime.now(UTC))):
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"its last commit is of {last.get()}, and this machine's clock says {now}",
                    where=self.path,
                    expected="a clock that has not gone back: commits are ordered by it, those of the lake's storage "
                    f"and of other machines within {_CLOCKS_WITHIN_S} seconds",
                    action="set this machine's clock, by NTP. If the commit was made by a clock that was ahead, wait "
                    "until that time, or restore the table from a copy of before; nothing of this batch was landed",
                )
            time.sleep(_SETTLES_S)

    def settle(self) -> None:
        """Sees to it that each commit was completed no earlier than it was requested.

        Hudi's readers put a log file to the newest base file that was requested before the base file in its name was
        completed. Tables below version 8 have no other record of that than the time of the commit's file. Where a file
        system tells whole seconds, a commit that is completed within the second of its request was completed before
        it: log files of its base files then go to the base files before these, where no reader sees them, and the
        cleaner takes them away. So the commit's file is written again, as it is, once that second is over.

        Source: `getBaseInstantTime` of Hudi's HoodieFileGroup; measured on S3, where each batch from the third on was
        lost.

        Raises
        ------
        WriteError
            The clock of the storage and that of this machine are too far apart.
        """
        deadline = time.monotonic() + _CLOCKS_WITHIN_S
        while unsettled := self._unsettled():
            client, early = unsettled
            if time.monotonic() > deadline:
                raise WriteError(
                    f"the files of {len(early)} commits are older than the commits",
                    where=self.path,
                    expected=f"the clocks of this machine and of the storage within {_CLOCKS_WITHIN_S} seconds",
                    action="set this machine's clock, by NTP; the next run goes on where this one has stopped",
                )
            time.sleep(_SETTLES_S)
            now = instant_of(datetime.now(UTC))
            for instant in early:
                if now[:_SECONDS] > str(instant.requestedTime())[:_SECONDS]:
                    self._write_again(client, instant)

    def _unsettled(self) -> tuple[Any, list[Any]] | None:
        """Hudi's client, and the commits whose files are older than they are.

        Looked at is what came since the last base files were written, and that commit: log files of those before it go
        nowhere any more, and a later time of theirs would lead to newer base files.
        """
        client = self.client()
        if client.getTableConfig().getTableVersion().versionCode() >= _RECORDS_COMPLETION:
            return None
        commits = client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        instants = []
        for _, instant in _newest_first(commits):
            instants.append(instant)
            if str(instant.getAction()) != "deltacommit":
                break
        early = [each for each in instants if str(each.getCompletionTime()) < str(each.requestedTime())]
        return (client, early) if early else None

    def _write_again(self, client: Any, instant: Any) -> None:
        """Puts the file of a commit in its own place, by one request."""
        file = self._file_of(client, instant)
        held = self._content(file)
        written = file.getFileSystem(self.spark._jsc.hadoopConfiguration()).create(file, True)
        held.writeTo(written)
        written.close()

    def _content(self, file: Any) -> Any:
        """The bytes of a file, in Java's memory."""
        hadoop = self.spark._jsc.hadoopConfiguration()
        held = java_class(self.spark, "java.io.ByteArrayOutputStream")()
        copy = java_class(self.spark, "org.apache.hadoop.io.IOUtils").copyBytes
        copy(file.getFileSystem(hadoop).open(file), held, hadoop, True)
        return held

    def _file_of(self, client: Any, instant: Any) -> Any:
        """The place of the file of a commit, as Hadoop has it."""
        name = client.getInstantFileNameGenerator().getFileName(instant)
        return java_class(self.spark, "org.apache.hadoop.fs.Path")(f"{client.getTimelinePath()}/{name}")

    def _files_of(self, client: Any, instant: Any) -> list[Any]:
        """The places of the files of an instant, the one that says what it is last: of what is planned, the plan."""
        own = self._file_of(client, instant)
        if not instant.isInflight():
            return [own]
        requested = java_class(self.spark, "org.apache.hudi.common.table.timeline.HoodieInstant$State").REQUESTED
        make = client.getInstantGenerator().createNewInstant
        return [own, self._file_of(client, make(requested, instant.getAction(), instant.requestedTime()))]

    def partitions(self) -> list[str]:
        """The folders of the partitions, below the table's own: as they are on the lake's storage, which is listed."""
        engine, client, config = self.listing()
        utils = java_class(self.spark, "org.apache.hudi.common.fs.FSUtils")
        return [str(folder) for folder in utils.getAllPartitionPaths(engine, client, config)]

    def files_in(self, partition: str) -> list[tuple[str, int]]:
        """The files in the folder of a partition, by their paths below the table's own, with their sizes in bytes."""
        path = java_class(self.spark, "org.apache.hadoop.fs.Path")(f"{self.path}/{partition}".rstrip("/"))
        system = path.getFileSystem(self.spark._jsc.hadoopConfiguration())
        if not system.exists(path):
            return []
        below = f"{partition}/" if partition else ""
        return [(f"{below}{each.getPath().getName()}", each.getLen()) for each in system.listStatus(path)]

    def written_besides(self, seen: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
        """When each commit was requested that is not archived, and the folders of the partitions that those have
        written to whose requests were not seen before; none of these where nothing was."""
        requests, written = set(), set()
        for timeline, instant in _newest_first(self.active().getCommitsTimeline().filterCompletedInstants()):
            requested = str(instant.requestedTime())
            requests.add(requested)
            if seen and requested not in seen:
                written |= {str(folder) for folder in timeline.readCommitMetadata(instant).getWritePartitionPaths()}
        return frozenset(requests), frozenset(written)

    def listing(self) -> tuple[Any, Any, Any]:
        """What Hudi lists files with: its engine, the client, and the settings of the metadata table, which silver is
        written without."""
        client = self.client()
        config = java_class(self.spark, "org.apache.hudi.common.config.HoodieMetadataConfig").newBuilder()
        engine = java_class(self.spark, "org.apache.hudi.common.engine.HoodieLocalEngineContext")
        return engine(client.getStorageConf()), client, config.enable(False).build()

    def require_no_rollback(self, client: Any, table: str) -> None:
        """Looks for the plan of a rollback that was not carried out, of a commit that is there still.

        Hudi's next writer carries it out as it begins. What it knows of the table by then is not so any more: its
        position would lie behind the rows that go.

        Raises
        ------
        WriteError
            There is one.
        """
        completed = client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        for plan in self._rollbacks(client):
            planned = self._unless_cut(client, plan, self._reads_rollback(client))
            if planned is None:
                continue  # the next write removes it
            commit = str(planned.getInstantToRollback().getCommitTime())
            if completed.containsInstant(commit):
                raise WriteError(
                    f"commit {commit} is to be rolled back, by a plan that was not carried out",
                    where=self.path,
                    expected="no such plan: Hudi carries it out with the next write, whose position lies behind it",
                    action=f"`call rollback_to_instant(table => '{table}', instant_time => '{commit}')` carries it "
                    "out, once each later commit was rolled back so, the newest first; or remove the plan, the files "
                    f"{plan.requestedTime()}.rollback.* below .hoodie. Nothing was landed",
                )

    def has_planned_compaction(self) -> bool:
        """Whether a compaction is planned and not yet completed."""
        return not self.active().filterPendingCompactionTimeline().empty()

    def planned_compactions(self) -> list[PlannedCompaction]:
        """The compactions that are planned and not yet completed, newest first."""
        client = self.client()
        plans = java_class(self.spark, "org.apache.hudi.common.util.CompactionUtils")
        planned = []
        for _, instant in _newest_first(client.getActiveTimeline().filterPendingCompactionTimeline()):
            operations = list(plans.getCompactionPlan(client, str(instant.requestedTime())).getOperations())
            planned.append(
                PlannedCompaction(
                    requested=str(instant.requestedTime()),
                    state=str(instant.getState()).lower(),
                    file_groups=len(operations),
                    log_files=sum(len(operation.getDeltaFilePaths()) for operation in operations),
                )
            )
        return planned

    def client(self) -> Any:
        """Hudi's own client of the table's metadata, as they are now."""
        hadoop = self.spark._jsc.hadoopConfiguration()
        storage = java_class(self.spark, "org.apache.hudi.hadoop.fs.HadoopFSUtils").getStorageConf(hadoop)
        return (
            java_class(self.spark, "org.apache.hudi.common.table.HoodieTableMetaClient")
            .builder()
            .setConf(storage)
            .setBasePath(self.path)
            .build()
        )

    def _completed(self, client: Any = None) -> Iterator[tuple[Any, Any, str]]:
        client = client or self.client()
        active = client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        yield from self._with_instants(client, self._each_commit(client, active))

    @staticmethod
    def _with_instants(client: Any, commits: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any, str]]:
        """Each commit with its timeline and its instant, newest first."""
        is_recorded = client.getTableConfig().getTableVersion().versionCode() >= _RECORDS_COMPLETION
        for timeline, instant in commits:
            completed = instant.getCompletionTime() if is_recorded else None
            yield timeline, instant, str(completed or instant.requestedTime())

    @staticmethod
    def _each_commit(client: Any, active: Any) -> Iterator[tuple[Any, Any]]:
        yield from _newest_first(active)
        # Other writers' commits may have pushed ingest's last one out of the active timeline.
        archived = client.getArchivedTimeline()
        archived.loadCompletedInstantDetailsInMemory()
        yield from _newest_first(archived.getCommitsTimeline().filterCompletedInstants())


def instant_of(moment: datetime) -> str:
    """A moment as Hudi writes instants, yyyyMMddHHmmssSSS in the time zone of the session, which is UTC."""
    return f"{moment.astimezone(UTC):%Y%m%d%H%M%S%f}"[:17]


def _newest_first(timeline: Any) -> Iterator[tuple[Any, Any]]:
    instants = timeline.getReverseOrderedInstants().iterator()
    while instants.hasNext():
        yield timeline, instants.next()
