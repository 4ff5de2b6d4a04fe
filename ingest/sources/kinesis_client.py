"""What Kinesis says of a stream, and its records: the API of Kinesis Data Streams, through boto3.

boto3 comes with the extra `kinesis`. It finds credentials as every tool of AWS does: in the environment, in the user's
profile, or from the machine's role. Nothing of them is kept here.

Sources: the API reference of Kinesis Data Streams (`ListShards`, `GetShardIterator`, `GetRecords`), and "Quotas and
limits": five reads a second and 2 MB a second of a shard, 10 MB a read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from ingest.config.connections import KinesisConnection
from ingest.config.extras import required
from ingest.errors import AbsentError, InputError, LakeError, UnavailableError
from ingest.sources.base import Offsets

log = logging.getLogger(__name__)

# Throttled and broken calls are tried again so often, with pauses that grow to 20 s (botocore's mode `standard`).
_ATTEMPTS = 10
# What the API has for "later": throttling, and failures of its own.
_LATER = ("Throttl", "ThroughputExceeded", "LimitExceeded", "InternalFailure", "ServiceUnavailable", "InternalServer")
_REFUSED = ("AccessDenied", "UnrecognizedClient", "InvalidSignature", "ExpiredToken", "InvalidClientToken", "KMS",
            "IncompleteSignature", "MissingAuthentication", "OptInRequired", "NotAuthorized")  # fmt: skip
# As many as one answer has at most (`ListShards`).
_SHARDS_A_PAGE = 10_000
# A shard is read five times a second at most, by all that read it: a watch leaves most of that to the batches.
_WATCHED_EVERY_S, _SOONEST_S = 1.0, 0.2


class IteratorExpiredError(UnavailableError):
    """Where a shard was read up to was asked for five minutes ago or more."""


@dataclass(frozen=True, order=True)
class Shard:
    """A shard, as the stream lists it.

    Attributes
    ----------
    first:
        Its starting sequence number.
    is_closed:
        Whether it was split or merged: it gets no more records.
    parents:
        The shards that it came from; they may be gone.
    """

    name: str
    first: int
    is_closed: bool
    parents: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """The number in its name: a shard that comes from others has a greater one than these."""
        return int(self.name.rpartition("-")[2])


@dataclass(frozen=True)
class Stream:
    """A stream at a moment.

    Attributes
    ----------
    created_ms:
        What tells it from another of its name.
    retention_ms:
        For how long it keeps a record.
    at_ms:
        When it was listed, by its own clock.
    """

    name: str
    created_ms: int
    retention_ms: int
    at_ms: int
    shards: tuple[Shard, ...]


@dataclass(frozen=True)
class Page:
    """Some records of a shard.

    Attributes
    ----------
    next:
        Where the next ones are; None behind the last record of a closed shard.
    behind_ms:
        How far these are behind the newest of the shard; 0 where there are no more now.
    at_ms:
        When they were read, by the stream's own clock.
    """

    records: Sequence[Mapping[str, Any]]
    next: str | None
    behind_ms: int
    at_ms: int


class StreamClient:
    """The calls that are made of one connection. Every method may be called by any thread.

    Parameters
    ----------
    quick:
        For a look: one attempt, and a second for it.
    """

    def __init__(self, connection: KinesisConnection, *, quick: bool = False) -> None:
        require_boto3()
        with _told(connection.where):
            self._client = _client(connection.region, connection.endpoint_url, quick)

    def stream(self, name: str) -> Stream:
        """A stream and its shards, the closed ones among them.

        Raises
        ------
        InputError
            There is no such stream, or it may not be read.
        UnavailableError
            Nothing answers.
        """
        with _told(name):
            answer = self._client.describe_stream_summary(StreamName=name)
            summary = answer["StreamDescriptionSummary"]
            listed = self._listed(name)
        created = _ms(summary["StreamCreationTimestamp"])
        retention = int(summary["RetentionPeriodHours"]) * 3_600_000
        return Stream(name, created, retention, _now(answer), _shards(listed))

    def _listed(self, name: str) -> list[Mapping[str, Any]]:
        """All shards of a stream. boto3's own pages ask for the next one by the stream's name too, which is refused."""
        asked: dict[str, Any] = {"StreamName": name}
        listed: list[Mapping[str, Any]] = []
        while asked:
            page = self._client.list_shards(MaxResults=_SHARDS_A_PAGE, **asked)
            listed += page["Shards"]
            asked = {"NextToken": page["NextToken"]} if page.get("NextToken") else {}
        return listed

    def iterator(self, stream: str, shard: str, *, after: str | None = None, since_ms: int | None = None,
                 at: str | None = None) -> str:  # fmt: skip
        """Where reading begins: behind a sequence number, at one, with what arrives from a time on; or at the start.

        Raises
        ------
        InputError, UnavailableError
            As `stream`.
        """
        begin: dict[str, Any] = {"ShardIteratorType": "TRIM_HORIZON"}
        if after is not None:
            begin = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": after}
        elif at is not None:
            begin = {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": at}
        elif since_ms is not None:
            begin = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": datetime.fromtimestamp(since_ms / 1000, UTC)}
        with _told(f"{stream}, {shard}"):
            return str(self._client.get_shard_iterator(StreamName=stream, ShardId=shard, **begin)["ShardIterator"])

    def page(self, iterator: str, where: str, *, limit: int) -> Page:
        """The next records, no more than `limit`.

        Raises
        ------
        InputError, UnavailableError
            As `stream`.
        IteratorExpiredError
            The iterator is older than five minutes: another one goes on at the same place.
        """
        with _told(where):
            answer = self._client.get_records(ShardIterator=iterator, Limit=limit)
        behind = int(answer.get("MillisBehindLatest") or 0)
        return Page(answer["Records"], answer.get("NextShardIterator"), behind, _now(answer))


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Errors of boto3 as the project's own."""
    from botocore import exceptions  # noqa: PLC0415 - comes with an extra

    try:
        yield
    except exceptions.ClientError as error:
        answer = error.response["Error"]
        raise _of_the_api(str(answer["Code"]), str(answer.get("Message", "")), where) from error
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:
        raise _unavailable(f"Kinesis does not answer: {error}", where) from error
    except exceptions.BotoCoreError as error:
        raise InputError(
            f"Kinesis cannot be asked: {error}",
            where=where,
            expected="a region, and credentials in the environment, a profile or the machine's role",
            action="set `region` of the connection or AWS_REGION, and see what `aws sts get-caller-identity` says",
        ) from error


def _of_the_api(code: str, message: str, where: str) -> InputError:
    shown = f"{code}: {message}"
    if code.startswith("ResourceNotFound"):
        return AbsentError(
            f"there is no such stream or shard: {message}",
            where=where,
            expected="the stream that the table's events are put into, named as `topic`",
            action="check `topic` in the declaration, and region and account of the connection",
        )
    if code.startswith("ExpiredIterator"):
        return IteratorExpiredError(
            shown, where=where, expected="an iterator of the last five minutes", action="run again"
        )
    if any(part in code for part in _LATER):
        return _unavailable(f"Kinesis does not serve this now, after {_ATTEMPTS} attempts: {shown}", where)
    if any(part in code for part in _REFUSED):
        return InputError(
            f"access is refused: {shown}",
            where=where,
            expected="the rights kinesis:DescribeStreamSummary, ListShards, GetShardIterator and GetRecords",
            action="check which credentials are found, and the rights of their role",
        )
    return InputError(shown, where=where, expected="records of the stream", action="see what the message says")


def _unavailable(found: str, where: str) -> UnavailableError:
    return UnavailableError(
        found,
        where=where,
        expected="an answer",
        action="see whether the endpoint can be reached, and who else reads the stream; nothing of this batch was "
        "landed, and the next run goes on",
    )


@lru_cache(maxsize=16)
def _client(region: str | None, endpoint: str | None, quick: bool) -> Any:
    """The client of a region and endpoint: made once, it keeps its connections."""
    boto3, config = require_boto3()
    limits = {"connect_timeout": 1, "read_timeout": 1} if quick else {"connect_timeout": 5, "read_timeout": 30}
    retries = {"mode": "standard", "total_max_attempts": 1 if quick else _ATTEMPTS}
    settings = config.Config(retries=retries, max_pool_connections=32, **limits)
    # A session of its own: the one that boto3 shares must not be used by several threads at once.
    return boto3.session.Session().client("kinesis", region_name=region, endpoint_url=endpoint, config=settings)


def require_boto3() -> tuple[Any, Any]:
    """boto3, and botocore's settings.

    Raises
    ------
    SetupError
        They are not installed: they come with the extra `kinesis`.
    """
    needed = "connections of type kinesis need it"
    boto3, config, _ = required("kinesis", needed, "boto3", "botocore.config", "pyarrow")
    return boto3, config


def _shards(listed: Sequence[Mapping[str, Any]]) -> tuple[Shard, ...]:
    """Shards by their names. One that others come from is closed."""
    parents = {
        shard["ShardId"]: tuple(shard[key] for key in ("ParentShardId", "AdjacentParentShardId") if shard.get(key))
        for shard in listed
    }
    split = {parent for its in parents.values() for parent in its}
    return tuple(
        sorted(
            Shard(
                shard["ShardId"],
                int(shard["SequenceNumberRange"]["StartingSequenceNumber"]),
                "EndingSequenceNumber" in shard["SequenceNumberRange"] or shard["ShardId"] in split,
                parents[shard["ShardId"]],
            )
            for shard in listed
        )
    )


def _now(answer: Mapping[str, Any]) -> int:
    """When an answer was given, by the clock of who gave it: this machine's may be another."""
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return _ms(parsedate_to_datetime(date)) if date else int(time.time() * 1000)


def _ms(time_: datetime) -> int:
    return round(time_.timestamp() * 1000)


class StreamWatch:
    """Waits for records of some shards: asks each of them once a second. The batch reads what has come.

    An offset is where a shard was read up to, as `offset_of` has it.
    """

    def __init__(self, connection: KinesisConnection) -> None:
        # One attempt: what is throttled now is asked again in a second.
        self._client = StreamClient(connection, quick=True)
        self._lock = threading.Lock()
        self._wanted: dict[tuple[str, int], int] = {}
        # Where each is asked next, of which offset, and when.
        self._next: dict[tuple[str, int], tuple[str, int, float]] = {}

    def listen(self, offsets: Offsets) -> None:
        """From now on, records of these shards behind these offsets are waited for, until some have come."""
        with self._lock:
            self._wanted |= offsets

    def wait(self, seconds: float) -> set[tuple[str, int]]:
        """The shards that have records, or have been closed; empty after that time."""
        deadline = time.monotonic() + seconds
        while True:
            with self._lock:
                wanted = dict(self._wanted)
            found = {place for place, offset in wanted.items() if self._has_come(place, offset)}
            if found or time.monotonic() >= deadline:
                break
            time.sleep(min(0.05, seconds))
        with self._lock:
            for place in found:
                if self._wanted.get(place) == wanted[place]:
                    del self._wanted[place]
                self._next.pop(place, None)
        return found

    def close(self) -> None:
        """Ends the watch: nothing is held."""

    def _has_come(self, place: tuple[str, int], offset: int) -> bool:
        """Whether a shard has records, has been closed, or cannot be read: the table finds out itself, and says why."""
        iterator, of, due = self._next.get(place, ("", offset, 0.0))
        if of == offset and due > time.monotonic():
            return False
        try:
            page = self._page(place, iterator if of == offset else "", offset)
        except UnavailableError as error:
            log.debug("%s, shard %s does not answer", *place, exc_info=error)
            self._next[place] = ("", offset, time.monotonic() + _WATCHED_EVERY_S)
            return False
        except LakeError as error:
            log.debug("%s, shard %s cannot be watched", *place, exc_info=error)
            return True
        if page.records or page.next is None:
            return True
        # Records may lie behind pages without any.
        pause = _SOONEST_S if page.behind_ms else _WATCHED_EVERY_S
        self._next[place] = (page.next, offset, time.monotonic() + pause)
        return False

    def _page(self, place: tuple[str, int], iterator: str, offset: int) -> Page:
        stream, shard = place[0], shard_name(place[1])
        return self._client.page(
            iterator or self._client.iterator(stream, shard, **_begin(offset)), f"{stream}, {shard}", limit=1
        )


def shard_name(number: int) -> str:
    """The name of the shard with that number."""
    return f"shardId-{number:012d}"


def offset_of(after: str | None, since_ms: int | None) -> int:
    """Where a shard was read up to, as one number for a watch: a sequence number, 0, or a time below 0."""
    return int(after) if after is not None else -(since_ms or 0)


def _begin(offset: int) -> dict[str, Any]:
    if offset > 0:
        return {"after": str(offset)}
    return {"since_ms": -offset} if offset else {}
