"""Lands a source for as long as it is wanted: each table at its own pace, as soon as there is something of it.

Nothing waits for a clock where a source has news: one watch per connection wakes the tables whose records have come.
A source without news, such as files, is listed every other second.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from ingest.config.connections import EventConnection
from ingest.config.tables import Table
from ingest.errors import LakeError, QuarantineError, UnavailableError
from ingest.landing.failures import remember_failures
from ingest.landing.health import judged
from ingest.landing.run import land, land_safely
from ingest.landing.table import Landed, land_table
from ingest.landing.transactions import is_consistent, topic_table
from ingest.silver.compaction import keep_up
from ingest.silver.state import Counts
from ingest.silver.table import SilverTable
from ingest.sources.base import Offsets, Watch
from ingest.sources.kinds import source_of

log = logging.getLogger(__name__)
# Sources without news are listed this often, in seconds.
_LISTED_EVERY_S = 2.0
# A table of a watched source that nothing comes for is listed this often: partitions and topics may have been added.
_LOOKED_FOR_MORE_EVERY_S = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


@dataclass(frozen=True)
class Progress:
    """How a table is doing.

    Attributes
    ----------
    state:
        starting, waiting (for events), unwell (waiting as well, but too much is quarantined), landing, retrying (after
        an error that may heal), failed, stopped.
    batches, totals:
        Commits of this process, and what became of their events.
    last, unit:
        The last batch that had events, and what its input is counted in.
    committed_at:
        When the last batch was visible, in seconds since 1970.
    error:
        Why the table does not go on; or why it is unwell, or cannot be compacted, while it does.
    """

    table: Table
    state: str = "starting"
    batches: int = 0
    totals: Counts = field(default_factory=Counts)
    last: Landed | None = None
    unit: str = ""
    committed_at: float = 0.0
    error: LakeError | None = None

    def as_event(self) -> dict[str, Any]:
        """For a machine: one flat mapping."""
        last = self.last or Landed(self.table)
        return {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "source": self.table.source,
            "table": self.table.name,
            "state": self.state,
            "taken": last.taken,
            "unit": self.unit,
            **asdict(last.counts),
            "waiting": last.waiting,
            "unread": last.unread,
            "seconds": round(last.seconds, 3),
            "batches": self.batches,
            "error": self.error.message if self.error else None,
        }


OnProgress = Callable[[Progress], None]


class Continuous:
    """Lands tables until it is stopped.

    Parameters
    ----------
    on_progress:
        Called whenever a table goes on, from the table's thread.
    workers:
        How many tables land at a time, in the order in which they have events.
    """

    def __init__(
        self,
        spark: SparkSession,
        tables: Sequence[Table],
        *,
        on_progress: OnProgress = lambda progress: None,
        workers: int = 4,
    ) -> None:
        self._spark = spark
        # Tables whose transactions are kept whole are landed together.
        self._groups = [tuple(tables)] if is_consistent(tables) else [(table,) for table in tables]
        self._on_progress = on_progress
        self._workers, self._turns = workers, _Turns(workers)
        self._stopping = threading.Event()
        self._progress = {table.name: Progress(table) for table in tables}
        self._changing = threading.Lock()
        self._watching = _Watching(spark, self._stopping)
        self._upkeep = _Upkeep(spark, self._not_compacted)

    @property
    def progress(self) -> Mapping[str, Progress]:
        """How each table is doing, by name."""
        with self._changing:
            return dict(self._progress)

    @property
    def failed(self) -> list[Progress]:
        """The tables that have stopped, or wait, for an error, or are unwell."""
        return [progress for progress in self.progress.values() if progress.error]

    def stop(self) -> None:
        """Lets every table end with the batch it is at."""
        self._stopping.set()
        self.wake()

    def wake(self) -> None:
        """Lets every table look for what there is, news or not."""
        self._watching.wake()

    def run(self) -> None:
        """Lands until `stop` is called, or every table has failed."""

        def ended(future: Future[None]) -> None:
            if future.exception():
                # A defect: it is raised below, once the others have ended well.
                self.stop()

        with ThreadPoolExecutor(max_workers=len(self._groups), thread_name_prefix="table") as pool:
            futures = [pool.submit(self._go, group) for group in self._groups]
            for future in futures:
                future.add_done_callback(ended)
        self._stopping.set()
        self._watching.close()
        self._upkeep.close()
        for future in futures:
            future.result()

    def _go(self, tables: Sequence[Table]) -> None:
        """One table's life, or that of a source that is landed as one."""
        pause, known = _FIRST_PAUSE_S, None
        while not self._stopping.is_set():
            with self._turns.one():
                if self._stopping.is_set():
                    break
                results, ends = self._land(tables)
            self._count(results)
            kinds = {landed.table.name: type(landed.error) for landed in results}
            if known != kinds:
                # Kept where it changes: what has failed, and what is well again.
                remember_failures(self._spark, results)
                known = kinds
            # What is unwell has been landed: there is nothing to try again.
            errors = [error for landed in results if (error := landed.error) and not isinstance(error, QuarantineError)]
            if not all(isinstance(error, UnavailableError) for error in errors):
                self._set_state(tables, state="failed")
                return
            if errors:
                self._set_state(tables, state="retrying")
                self._stopping.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_S)
                continue
            pause = _FIRST_PAUSE_S
            for landed in results:
                self._set_state([landed.table], state="unwell" if landed.error else "waiting")
            self._watching.wait(tables[0], ends)
        self._set_state(tables, state="stopped")

    def _land(self, tables: Sequence[Table]) -> tuple[Sequence[Landed], Offsets]:
        """What came of it, and the end offsets before it."""
        ends: dict[tuple[str, int], int] = {}

        def show(name: str, stage: str, detail: str) -> None:
            if stage == "land":
                self._set_state([table for table in tables if table.name == name], state="landing")

        if is_consistent(tables):
            # The end of a transaction is news as well.
            ends |= self._watching.ends(topic_table(tables[0]))
            results = land(self._spark, tables, workers=self._workers, progress=show, upkeep=self._upkeep.ask)
        else:
            results = [self._land_portions(tables[0], show)]
        for landed in results:
            ends |= landed.ends
        return [self._judged(landed) for landed in results], ends

    def _land_portions(self, table: Table, show: Callable[[str, str, str], None]) -> Landed:
        """The last portion of what waits; the others are counted as they are landed. None begins after a stop."""
        began = time.monotonic()

        def goes_on(landed: Landed) -> bool:
            nonlocal began
            self._count([self._judged(replace(landed, seconds=time.monotonic() - began))])
            began = time.monotonic()
            return not self._stopping.is_set()

        step = partial(land_table, upkeep=self._upkeep.ask, goes_on=goes_on)
        return replace(land_safely(self._spark, table, show, step), seconds=time.monotonic() - began)

    def _judged(self, landed: Landed) -> Landed:
        """By its batch, and by all batches of this process. An error is a new one only where more is quarantined."""
        was = self._progress[landed.table.name]
        now = judged(self._spark, landed, was.totals + landed.counts)
        if isinstance(was.error, QuarantineError) and isinstance(now.error, QuarantineError):
            return now if landed.counts.quarantined else replace(now, error=was.error)
        return now

    def _count(self, results: Sequence[Landed]) -> None:
        for landed in results:
            was = self._progress[landed.table.name]
            has_landed = landed.taken > 0
            error = landed.error or self._upkeep.errors.get(landed.table.name)
            self._change(
                landed.table,
                has_landed or error != was.error,
                unit=landed.unit or was.unit,
                error=error,
                batches=was.batches + has_landed,
                totals=was.totals + landed.counts,
                last=landed if has_landed or landed.waiting else was.last,
                committed_at=time.time() if has_landed else was.committed_at,
            )

    def _not_compacted(self, table: Table, error: LakeError) -> None:
        self._change(table, True, error=error)

    def _set_state(self, tables: Sequence[Table], *, state: str) -> None:
        for table in tables:
            self._change(table, self._progress[table.name].state != state, state=state)

    def _change(self, table: Table, tells: bool, /, **changes: Any) -> None:
        """Changes some of what is known of a table, and leaves the rest to the other thread that tells of it."""
        with self._changing:
            now = self._progress[table.name] = replace(self._progress[table.name], **changes)
        if tells:
            self._on_progress(now)


class _Turns:
    """Lets so many tables land at a time, each in the order in which it asked.

    A semaphore would let a busy table have its next turn before those that wait.
    """

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Waits for a turn, and has it for as long as the block runs."""
        mine = threading.Event()
        with self._lock:
            if self._free:
                self._free -= 1
                mine.set()
            else:
                self._waiting.append(mine)
        mine.wait()
        try:
            yield
        finally:
            with self._lock:
                if self._waiting:
                    self._waiting.popleft().set()
                else:
                    self._free += 1


class _Upkeep:
    """Compacts beside the batches: one table at a time, so that the batches keep most of the processors.

    `errors` are those of the tables that could not be compacted the last time, by name.
    """

    def __init__(self, spark: SparkSession, failed: Callable[[Table, LakeError], None]) -> None:
        self._spark = spark
        self._failed = failed
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="upkeep")
        self._asked: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        self.errors: dict[str, LakeError] = {}

    def ask(self, silver: SilverTable, is_behind: bool) -> None:
        """Has a table compacted where that is due, once those that asked before have been."""
        with self._lock:
            asked = self._asked.get(silver.table.name)
            if asked is None or asked.done():
                if asked:
                    asked.result()
                self._asked[silver.table.name] = self._pool.submit(self._keep_up, silver, is_behind)

    def close(self) -> None:
        """Waits for the compaction that runs; those that wait are left to the next process."""
        self._pool.shutdown(cancel_futures=True)
        for asked in self._asked.values():
            if not asked.cancelled():
                asked.result()

    def _keep_up(self, silver: SilverTable, is_behind: bool) -> None:
        name = silver.table.name
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", "upkeep")
        try:
            keep_up(silver, is_behind)
        except LakeError as error:
            self.errors[name] = error
            self._failed(silver.table, error)
        else:
            self.errors.pop(name, None)


class _Watching:
    """Waits for news with one watch per connection, or for a while where a source has no news."""

    def __init__(self, spark: SparkSession, stopping: threading.Event) -> None:
        self._spark = spark
        self._stopping = stopping
        self._lock = threading.Lock()
        # By their connections, which cannot be hashed; they are few.
        self._watches: list[tuple[EventConnection, Watch | None]] = []
        self._threads: list[threading.Thread] = []
        self._waiting: dict[threading.Event, tuple[Watch, Offsets]] = {}

    def ends(self, table: Table) -> Offsets:
        """The end offsets of a table that nothing is landed of here; none where its source has no news."""
        try:
            if self._watch(table.connection) is None:
                return {}
            return source_of(self._spark, table.connection).listed(table).ends()
        except LakeError as error:
            log.debug("%s cannot be listed", table.options.topic, exc_info=error)
            return {}

    def wait(self, table: Table, ends: Offsets) -> None:
        """Until there are records behind end offsets; or until it is time to look."""
        try:
            watch = self._watch(table.connection)
        except LakeError as error:
            log.debug("%s cannot be watched", table.options.connection, exc_info=error)
            watch = None
        if watch is None:
            self._stopping.wait(_LISTED_EVERY_S)
            return
        here = threading.Event()
        with self._lock:
            self._waiting[here] = (watch, ends)
        watch.listen(ends)
        if not self._stopping.is_set():
            here.wait(_LOOKED_FOR_MORE_EVERY_S)
        with self._lock:
            del self._waiting[here]

    def wake(self) -> None:
        """Ends every wait."""
        with self._lock:
            for event in self._waiting:
                event.set()

    def close(self) -> None:
        """Ends the watches; nothing waits any more."""
        for thread in self._threads:
            thread.join()
        for _, watch in self._watches:
            if watch is not None:
                watch.close()

    def _watch(self, connection: EventConnection) -> Watch | None:
        with self._lock:
            for known, watch in self._watches:
                if known == connection:
                    return watch
            watch = source_of(self._spark, connection).watch()
            self._watches.append((connection, watch))
            if watch is not None:
                self._threads.append(threading.Thread(target=self._watching, args=(watch,), name="watch", daemon=True))
                self._threads[-1].start()
            return watch

    def _watching(self, watch: Watch) -> None:
        while not self._stopping.is_set():
            try:
                found = watch.wait(0.5)
            except LakeError as error:
                # The tables find out themselves, and say so.
                log.debug("the watch for records failed", exc_info=error)
                self.wake()
                self._stopping.wait(_FIRST_PAUSE_S)
                continue
            with self._lock:
                for event, (of, ends) in self._waiting.items():
                    if of is watch and not found.isdisjoint(ends):
                        event.set()
