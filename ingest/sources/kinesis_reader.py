"""Reads shards of a stream into memory, each from where it was read up to, parents before their children."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from ingest.sources.kinesis_client import IteratorExpiredError, Page, Shard, Stream, StreamClient, offset_of
from ingest.sources.kinesis_records import Columns, Places

# The API's own limits of a read, in records and bytes, and of the reads of a shard: five a second.
_PAGE_RECORDS, _PAGE_BYTES, _PAUSE_S = 10_000, 10_000_000, 0.2
# So many shards are read at a time.
_THREADS = 8
# Records expire at about their time, and clocks differ.
_MARGIN_MS = 10 * 60_000


@dataclass(frozen=True)
class ShardPosition:
    """Where a shard has been read up to.

    Attributes
    ----------
    after:
        The last sequence number that was read; None where none was.
    events:
        How many events have had the place of that number so far.
    since_ms:
        Of a shard without `after`: only what arrives from then on counts. None: everything.
    until_ms:
        What arrived before has been read, or counts for nothing: nothing that matters expires sooner than the stream's
        retention after it.
    has_ended:
        Whether the shard is closed and read to its end.
    """

    after: str | None = None
    events: int = 0
    since_ms: int | None = None
    until_ms: int = 0
    has_ended: bool = False

    def as_json(self) -> dict[str, Any]:
        """What of it says something."""
        content = {"after": self.after, "events": self.events, "since": self.since_ms, "until": self.until_ms,
                "ended": self.has_ended}  # fmt: skip
        return {key: value for key, value in content.items() if value}

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> ShardPosition:
        """The position that `as_json` told."""
        ended = bool(content.get("ended"))
        return cls(content.get("after"), content.get("events", 0), content.get("since"), content.get("until", 0), ended)


@dataclass(frozen=True)
class KinesisPosition:
    """What a table has landed of its stream.

    Attributes
    ----------
    created_ms:
        What tells the stream from another of its name; None where none was read.
    shards:
        By their names; those that are gone from the stream are left out.
    """

    stream: str = ""
    created_ms: int | None = None
    shards: Mapping[str, ShardPosition] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """What JSON can hold."""
        shards = {name: shard.as_json() for name, shard in self.shards.items()}
        return {"stream": self.stream, "created": self.created_ms, "shards": shards}

    @classmethod
    def of_json(cls, content: Any) -> KinesisPosition:
        """The position that `as_json` told."""
        shards = {name: ShardPosition.of_json(shard) for name, shard in content["shards"].items()}
        return cls(content["stream"], content["created"], shards)

    def advanced(self, stream: Stream, shards: Mapping[str, ShardPosition]) -> KinesisPosition:
        """The position with those shards of the stream where they are; without those that are gone from it."""
        there = {shard.name for shard in stream.shards}
        known = {name: shard for name, shard in {**self.shards, **shards}.items() if name in there}
        return KinesisPosition(stream.name, stream.created_ms, known)

    def lost(self, stream: Stream, is_there: Callable[[str, str], bool]) -> list[str]:
        """What is gone that was not read, or may be, in words; nothing where every record since is still there.

        The API does not say it: behind a record that has expired, reading goes on with the oldest that is there.

        Parameters
        ----------
        is_there:
            Whether the record of a shard with a sequence number is still there.
        """
        if self.stream and self.stream != stream.name:
            return [f"the table was read from stream {self.stream}, and its topic is {stream.name} now"]
        if self.created_ms is not None and self.created_ms != stream.created_ms:
            return [f"stream {stream.name} was deleted and made anew"]
        listed = {shard.name: shard for shard in stream.shards}
        awaited = {parent for shard in stream.shards if shard.name not in self.shards for parent in shard.parents}
        found = []
        for name, position in sorted(self.shards.items()):
            if position.has_ended and name not in awaited:
                continue
            if name not in listed and not position.has_ended:
                found.append(f"{name} is gone, and was not read to its end")
            elif position.until_ms >= stream.at_ms - stream.retention_ms + _MARGIN_MS:
                continue
            elif position.has_ended or position.after is None or not is_there(name, position.after):
                hours = stream.retention_ms // 3_600_000
                since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(position.until_ms / 1000))
                found.append(f"{name} was read up to {since} UTC, and the stream keeps records for {hours} hours")
        return found


# Of a record: the offset of its first event, its sequence number, and how many events have had its place so far.
Mark = tuple[int, str, int]


@dataclass
class _Reading:
    """A shard that is being read."""

    shard: Shard
    before: ShardPosition
    position: ShardPosition
    places: Places
    is_new: bool
    iterator: str = ""
    is_done: bool = False
    was_asked: bool = False
    behind_ms: int = 0
    due: float = 0.0
    marks: list[Mark] = field(default_factory=list)

    @classmethod
    def of(cls, shard: Shard, known: ShardPosition | None, listed_ms: int) -> _Reading:
        # One that was never asked is known of from now on: what is there now expires a retention later at most.
        before = known or ShardPosition(until_ms=listed_ms)
        last = None if before.after is None else int(before.after)
        places = Places(shard.first, last, before.events)
        return cls(shard, before, before, places, is_new=known is None, is_done=before.has_ended)


@dataclass(frozen=True)
class Taken:
    """What a reader has read: events, where each shard was read up to, and whether that is all there was.

    Attributes
    ----------
    marks:
        By the shard's number: what is known of each record, to go on from there.
    behind_ms:
        How far what was read last is behind the newest record.
    """

    events: Columns
    before: Mapping[str, ShardPosition]
    after: Mapping[str, ShardPosition]
    marks: Mapping[int, Sequence[Mark]]
    is_all: bool
    behind_ms: int


class Reader:
    """Reads what a stream had when it was listed, from a position on; a call goes on where the last one has stopped.

    A shard is done where nothing is left of it, or what comes next arrived after the stream was listed. A child is
    begun once its parents have ended: those that are gone have, or the position would be refused.

    Parameters
    ----------
    done:
        Shards that are done already, of the same listing.
    """

    def __init__(
        self, client: StreamClient, stream: Stream, before: KinesisPosition, done: Collection[str] = ()
    ) -> None:
        self._client = client
        self._stream = stream
        self._events = Columns()
        self._bytes = 0
        self._readings = {
            shard.name: _Reading.of(shard, before.shards.get(shard.name), stream.at_ms) for shard in stream.shards
        }
        for name in done:
            self._readings[name].is_done = True

    @property
    def done(self) -> frozenset[str]:
        """The shards of which nothing is left."""
        return frozenset(name for name, reading in self._readings.items() if reading.is_done)

    @property
    def is_all(self) -> bool:
        """Whether nothing is left."""
        return all(reading.is_done for reading in self._readings.values())

    @property
    def behind_ms(self) -> int:
        """How far what was read last is behind the newest record of its shard, at most."""
        return max((reading.behind_ms for reading in self._readings.values()), default=0)

    def take(self, records: int | None, size: int | None, *, a_look: bool = False) -> Taken:
        """Reads on, until there are so many events, or bytes of them, or nothing is left.

        Parameters
        ----------
        a_look:
            Ends as soon as each shard that can be read has been asked once, and something was found.

        Raises
        ------
        InputError
            A shard cannot be read.
        UnavailableError
            Nothing answers, or every read is throttled.
        """
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="shard") as pool:
            while ready := self._ready():
                room = None if size is None else size - self._bytes
                left = None if records is None else records - len(self._events)
                if (room is not None and room <= 0) or (left is not None and left <= 0):
                    break
                if a_look and len(self._events) and all(reading.was_asked for reading in ready):
                    break
                chosen = ready[: _THREADS if room is None else max(1, min(_THREADS, room // _PAGE_BYTES))]
                limit = _PAGE_RECORDS if left is None else max(1, min(_PAGE_RECORDS, left // len(chosen)))
                pages = pool.map(lambda reading, limit=limit: self._page(reading, limit), chosen)
                for reading, page in zip(chosen, list(pages), strict=True):
                    self._add(reading, page)
        return Taken(
            self._events,
            {name: reading.before for name, reading in self._readings.items()},
            {name: self._position(reading) for name, reading in self._readings.items()},
            {reading.shard.number: reading.marks for reading in self._readings.values()},
            self.is_all,
            self.behind_ms,
        )

    def ends(self) -> dict[tuple[str, int], int]:
        """Where each shard that may get more was read up to, as a watch has it."""
        return {
            (self._stream.name, reading.shard.number): offset_of(reading.position.after, reading.position.since_ms)
            for reading in self._readings.values()
            if not reading.position.has_ended
        }

    def _ready(self) -> list[_Reading]:
        """The shards that can be read now, those first that have waited longest."""
        open_ = {name for name, reading in self._readings.items() if not reading.position.has_ended}
        ready = (
            reading
            for reading in self._readings.values()
            if not reading.is_done and not open_.intersection(reading.shard.parents)
        )
        return sorted(ready, key=lambda reading: (reading.was_asked, reading.due))

    def _page(self, reading: _Reading, limit: int) -> Page:
        """The next records of a shard, not sooner than it may be asked."""
        time.sleep(max(0.0, reading.due - time.monotonic()))
        stream, shard, position = self._stream.name, reading.shard.name, reading.position

        def page_of(iterator: str) -> Page:
            begins = iterator or self._client.iterator(stream, shard, after=position.after, since_ms=position.since_ms)
            return self._client.page(begins, f"{stream}, {shard}", limit=limit)

        try:
            page = page_of(reading.iterator)
        except IteratorExpiredError:
            page = page_of("")  # other shards were asked meanwhile, or the machine slept
        reading.due = time.monotonic() + _PAUSE_S
        return page

    def _add(self, reading: _Reading, page: Page) -> None:
        """Takes the records of a page, and knows where the shard goes on."""
        number, places = reading.shard.number, reading.places
        for record in page.records:
            held = len(self._events)
            self._events.add(self._stream.name, number, places, record)
            self._bytes += len(record["Data"]) + len(record["PartitionKey"])
            if len(self._events) > held:
                reading.marks.append((self._events.offset[held], record["SequenceNumber"], places.shared))
        # A closed shard that is read to its end says nothing of its children, which go on from there.
        is_at_tip = page.next is None or page.behind_ms == 0
        until = page.at_ms - page.behind_ms
        if page.records and (reading.shard.is_closed or not is_at_tip):
            until = round(page.records[-1]["ApproximateArrivalTimestamp"].timestamp() * 1000)
        elif reading.shard.is_closed:
            until = reading.position.until_ms
        if page.records:
            last = page.records[-1]["SequenceNumber"]
            # A record without events has no place that others could share.
            reading.position = ShardPosition(last, places.shared if places.last == int(last) else 0)
        has_ended = page.next is None or (is_at_tip and reading.shard.is_closed)
        reading.position = replace(reading.position, until_ms=until, has_ended=has_ended)
        # The stream's clock tells seconds, an arrival milliseconds. A closed shard is read on: its children wait.
        is_later = bool(page.records) and until > self._stream.at_ms + 1000
        reading.is_done = is_at_tip or (is_later and not reading.shard.is_closed)
        reading.iterator = page.next or ""
        reading.was_asked = True
        reading.behind_ms = page.behind_ms

    def _position(self, reading: _Reading) -> ShardPosition:
        """Where a shard was read up to; a child that was never asked goes on where its parents' records end."""
        parents = [self._readings[name] for name in reading.shard.parents if name in self._readings]
        if reading.was_asked or not reading.is_new or not parents:
            return reading.position
        return replace(reading.position, until_ms=min(parent.position.until_ms for parent in parents))
