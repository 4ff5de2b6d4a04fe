"""What a table has not landed yet: found by its position, read as parts of one schema, and left behind by a new one.

A source lists and reads (`ingest.sources`), what is read is decoded (`ingest.decode`); the runner sees neither.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.config.tables import Table
from ingest.decode.decoded import Part
from ingest.decode.object_files import HeldBack, unreadable_files
from ingest.decode.raw_input import raw_parts
from ingest.errors import InputError, UnavailableError
from ingest.sources.base import NOTHING_WITHHELD, Offsets, OpenTransaction, Source, Unread, Withheld
from ingest.sources.kinds import position_kind, require_kind, source_of
from ingest.sources.raw import EventFile, RawFiles
from ingest.spark.jvm import root_cause

# What Hadoop's file systems and Spark say of a file that is not there.
_NOT_FOUND = re.compile("FileNotFoundException|PATH_NOT_FOUND")


@dataclass(frozen=True)
class Waiting:
    """Events that were read and wait for the rest of their transaction: how many, and where they are."""

    events: int = 0
    places: Withheld = NOTHING_WITHHELD


NONE_WAITS = Waiting()


@dataclass(frozen=True)
class Pending:
    """What a table's next run begins with: what is unread of its source."""

    source: Source[Any]
    unread: Unread

    @property
    def unit(self) -> str:
        """What the input is counted in: files or records."""
        return self.unread.unit

    @property
    def landed(self) -> int | None:
        """How much was landed, of what the source still has; None where it does not tell it."""
        return self.unread.landed

    @property
    def waiting(self) -> int:
        """How much is unread."""
        return self.unread.number

    @property
    def bytes(self) -> int | None:
        """The size of what is unread; None where the source does not tell it."""
        return self.unread.bytes

    @property
    def behind_ms(self) -> int | None:
        """How far the position is behind the newest of the source; None where it does not tell it."""
        return self.unread.behind_ms

    @property
    def open_transactions(self) -> tuple[OpenTransaction, ...]:
        """The transactions that keep records from being read: they are not among the unread."""
        return self.unread.open_transactions

    @property
    def position(self) -> str:
        """What the source was read up to, as text; as the last commit has it."""
        return self.unread.position

    def portion(self) -> Pending:
        """As much of it as one commit lands."""
        return replace(self, unread=self.unread.portion())

    def is_all_of(self, pending: Pending) -> bool:
        """Of a portion: whether nothing is left of what it is a portion of."""
        return self.unread.is_all_of(pending.unread)

    def read(self, table: Table, *, thorough: bool = False, by_examples: bool = False) -> Read:
        """The events of all that is unread (see `ingest.decode.raw_input.raw_parts` of `thorough`, `by_examples`).

        Raises
        ------
        InputError
            They cannot be read.
        """
        if not self.waiting:
            return Read((), self)
        raw = self.unread.read()
        parts, held_back = raw_parts(self.source.spark, table, raw, thorough=thorough, by_examples=by_examples)
        return Read(parts, self.without(held_back), held_back)

    def without_broken(self, table: Table) -> Read | None:
        """The rest, where what looked whole is broken; None where nothing is. Reads every file to its end."""
        broken = unreadable_files(self.source.spark, table, self._files())
        if not broken:
            return None
        again = self.without(broken).read(table)
        return replace(again, held_back=(*again.held_back, *broken))

    def unreadable(self, error: Py4JJavaError) -> InputError:
        """What it means that Spark could not read it."""
        return self.unread.unreadable(error)

    def require_there(self, table: Table, error: Exception) -> None:
        """Of an error in reading: whether it came of input that had gone since it was listed, or may be back.

        Raises
        ------
        UnavailableError
            It has, or cannot be listed: the next run takes what is there then.
        """
        if not self.source.delivers_files:
            if isinstance(error, Py4JJavaError) and isinstance(told := self.unreadable(error), UnavailableError):
                raise told from error
            return
        paths, cause = [file.path for file in self._files()], root_cause(error)
        gone = [path for path in paths if path in cause and _NOT_FOUND.search(cause)]
        if not gone:
            there = {file.path for file in _everything(self.source.spark, table)._files()}
            gone = [path for path in paths if path not in there]
        if gone:
            raise UnavailableError(
                f"{len(gone)} of {len(paths)} files have gone since the folder was listed: {gone[0]}",
                where=table.relation,
                expected="files that stay until they are landed",
                action="see who moves or removes them; nothing of this batch was landed, and the next run takes what "
                "is there",
            ) from error

    def waits(self, marked: DataFrame) -> Waiting:
        """Which of the changes wait for others, from their column `_lake_waits`."""
        waits = marked.where("_lake_waits")
        if not self.source.delivers_files:
            return _waiting_records(waits)
        return _waiting_files(waits, self._files())

    def after(self, waiting: Waiting = NONE_WAITS) -> str:
        """The position once all of it has been landed, but for what waits for others."""
        return self._written(self.unread.after(waiting.places))

    def at(self, *, to_latest: bool) -> str:
        """The position before everything that was listed, or behind it."""
        return self._written(self.unread.at(to_latest=to_latest))

    def earliest(self, begin: str) -> str:
        """The position before everything that was listed, but for what lies before another one."""
        return self._written(self.unread.earliest(begin))

    def renewed(self) -> str | None:
        """Where nothing is unread: the position as it must be committed nevertheless; None where it need not."""
        position = self.unread.renewed()
        return None if position is None else self._written(position)

    def ends(self) -> Offsets:
        """The end offsets when this was listed; none of files."""
        return self.unread.ends()

    def beyond(self, position: str) -> Pending:
        """What is behind a position, of what the source had when this was listed."""
        return replace(self, unread=self.unread.beyond(position))

    def without(self, held_back: Collection[HeldBack]) -> Pending:
        """The same without files that were held back."""
        return replace(self, unread=self.unread.without({item.file for item in held_back})) if held_back else self

    def _files(self) -> tuple[EventFile, ...]:
        raw = self.unread.read() if self.source.delivers_files else None
        return raw.files if isinstance(raw, RawFiles) else ()

    def _written(self, position: str) -> str:
        """The position, which the next run must know for one of the same source."""
        kind = self.source.connection.type
        if position_kind(position) != kind:
            raise TypeError(f"a source of type '{kind}' writes a position of another: {position[:80]}")
        return position


@dataclass(frozen=True)
class Read:
    """Events in parts of one schema each, what they are of, and what was left out."""

    parts: tuple[Part, ...]
    of: Pending
    held_back: tuple[HeldBack, ...] = ()


def pending_of(spark: SparkSession, table: Table, position: str | None) -> Pending:
    """What of a table's input lies behind a position; all of it where there is none.

    Raises
    ------
    InputError
        The input is not there, or does not go on from the position.
    """
    everything = _everything(spark, table)
    return everything.beyond(require_kind(table, position)) if position else everything


def position_at(spark: SparkSession, table: Table, *, begin: str, to_latest: bool) -> tuple[str, Pending]:
    """The position before everything there is, or behind it; and what is pending then.

    Parameters
    ----------
    begin:
        A position that nothing before may be landed from, '' for none. It means nothing where the source does not go
        on from it: what it has now is newer.

    Raises
    ------
    InputError
        The input is not there.
    """
    everything = _everything(spark, table)
    if begin and not to_latest and position_kind(begin) == table.connection.type:
        position = everything.earliest(begin)
    else:
        position = everything.at(to_latest=to_latest)
    return position, everything.beyond(position)


def _everything(spark: SparkSession, table: Table) -> Pending:
    """All that the source has, as to a table that was never landed."""
    source = source_of(spark, table.connection)
    return Pending(source, source.listed(table))


def _waiting_files(waits: DataFrame, files: Collection[EventFile]) -> Waiting:
    """How many events of each file wait."""
    by_path = {unquote(file.path): file for file in files}
    rows = waits.groupBy("_lake_file").agg(F.count("*").alias("events")).collect()
    places = {by_path[unquote(row["_lake_file"])]: row["events"] for row in rows}
    return Waiting(sum(places.values()), Withheld(places, {}))


def _waiting_records(waits: DataFrame) -> Waiting:
    """The offset of the first event of each partition that waits."""
    found = waits.groupBy("_lake_file", "_lake_partition")
    rows = found.agg(F.count("*").alias("events"), F.min("_lake_start_offset").alias("first")).collect()
    places = {(row["_lake_file"], row["_lake_partition"]): row["first"] for row in rows}
    return Waiting(sum(row["events"] for row in rows), Withheld({}, places))
