"""The interface of a source: where change events come from, and up to where they have been read.

A source does I/O and keeps positions. It knows nothing of events, silver or batches. Files, Kafka and Kinesis are
sources; a class of another distribution is one as well, once its entry point in the group `lake.sources` names it
(`ingest.sources.kinds`).
"""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ingest.config.connections import EventConnection
from ingest.config.tables import Table
from ingest.errors import InputError, UnavailableError
from ingest.sources.raw import EventFile, Raw
from ingest.spark.jvm import root_cause

log = logging.getLogger(__name__)
# Offsets by topic and partition.
Offsets = Mapping[tuple[str, int], int]
Connection = TypeVar("Connection", bound=EventConnection)


@dataclass(frozen=True)
class Withheld:
    """What of a portion was read and is not landed yet: it stays unread.

    Attributes
    ----------
    files:
        Of files: how many events of each.
    offsets:
        Of records: the first one's offset, by topic and partition.
    """

    files: Mapping[EventFile, int]
    offsets: Offsets


NOTHING_WITHHELD = Withheld({}, {})


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction of a producer that has not ended: nobody reads the records of its partition from its first on."""

    topic: str
    partition: int
    offset: int
    records: int


class Unread(ABC):
    """What a table has not read of a source, as the source was when it was listed. It does not change.

    Positions are texts, as a table's commits keep them. Those of a source that is none of the project's own are written
    by `position_text`: they name their kind.
    """

    unit: ClassVar[str] = "records"

    @property
    @abstractmethod
    def landed(self) -> int | None:
        """How much lies before the position, of what the source still has, in `unit`; None where it does not tell."""

    @property
    @abstractmethod
    def number(self) -> int:
        """How much is unread, in `unit`: at least so much, where the source does not tell before it is read."""

    @property
    def bytes(self) -> int | None:
        """The size of what is unread; None where the source does not tell it."""
        return None

    @property
    def behind_ms(self) -> int | None:
        """How far the position is behind the newest of the source, in milliseconds; None where it does not tell it."""
        return None

    @property
    def open_transactions(self) -> tuple[OpenTransaction, ...]:
        """What keeps records from being read that the source has: they are not among the unread."""
        return ()

    @property
    @abstractmethod
    def position(self) -> str:
        """What the source was read up to before."""

    @abstractmethod
    def portion(self) -> Unread:
        """As much of it as one commit lands."""

    def is_all_of(self, listed: Unread) -> bool:
        """Of a portion: whether nothing is left of what it is a portion of."""
        return self.number == listed.number

    @abstractmethod
    def read(self) -> Raw:
        """All of it, as it was delivered. Spark may read it later, and more than once.

        Raises
        ------
        InputError
            It cannot be read.
        """

    @abstractmethod
    def after(self, withheld: Withheld = NOTHING_WITHHELD) -> str:
        """The position once all of it has been landed, but for what is withheld."""

    @abstractmethod
    def at(self, *, to_latest: bool) -> str:
        """The position before everything that was listed, or behind it."""

    @abstractmethod
    def beyond(self, position: str) -> Unread:
        """What lies behind a position, of what the source had when this was listed.

        Raises
        ------
        InputError
            The source does not go on from the position: what was not read is gone.
        """

    def earliest(self, begin: str) -> str:
        """The position before everything that was listed, but for what lies before another one of this source.

        That means nothing where the source does not go on from it: what it has now is newer.
        """
        try:
            self.beyond(begin)
        except UnavailableError:
            raise
        except InputError as error:
            log.info("everything there is counts: %s", error.message)
            return self.at(to_latest=False)
        return begin

    def renewed(self) -> str | None:
        """Where nothing is unread: the position as it must be committed nevertheless; None where it need not.

        A position may become old: where a source does not say what has expired, the time tells it that passed since.
        """
        return None

    def ends(self) -> Offsets:
        """The end offsets when this was listed: what `Watch.listen` waits behind. Empty where nothing is watched."""
        return {}

    def without(self, files: Collection[EventFile]) -> Unread:
        """The same without files that cannot be read. A source of records has none."""
        return self

    def unreadable(self, error: Py4JJavaError) -> InputError:
        """What it means that Spark could not read it."""
        return InputError(
            root_cause(error),
            where=self.position,
            expected="readable records of change events",
            action="correct what is named; nothing of this batch was landed",
        )


class Watch(Protocol):
    """Waits for news of one connection. `wait` belongs to one thread, the other methods to any."""

    def listen(self, offsets: Offsets) -> None:
        """From now on, records of these partitions from these offsets on are waited for, until some have come."""

    def wait(self, seconds: float) -> set[tuple[str, int]]:
        """The partitions that have records; they are not waited for any longer. Empty after that time, or `listen`.

        Raises
        ------
        LakeError
            The source does not answer.
        """
        ...

    def close(self) -> None:
        """Ends the watch."""


class Source(ABC, Generic[Connection]):
    """A source of change events, by a connection of `connections.yml`.

    Attributes
    ----------
    model:
        What the connection holds: the model of its type, a subclass of `EventConnection`.
    delivers_files:
        Whether `read` gives files, whose events are ordered by their lines, or records, by their offsets.
    """

    model: ClassVar[type[EventConnection]]
    delivers_files: ClassVar[bool] = False

    def __init__(self, spark: SparkSession, connection: Connection) -> None:
        self.spark = spark
        self.connection = connection

    @abstractmethod
    def listed(self, table: Table) -> Unread:
        """All that the source has of a table, as to one that was never landed.

        Raises
        ------
        InputError
            There is no such input, or it cannot be listed.
        UnavailableError
            The source does not answer: it may later.
        """

    def watch(self) -> Watch | None:
        """A new watch of the connection; None where the source has no news, and must be listed again and again.

        Raises
        ------
        LakeError
            The connection cannot be watched now.
        """
        return None


def position_text(kind: str, position: Any) -> str:
    """A position as a text that names the type of its connection.

    Parameters
    ----------
    position:
        What JSON can hold.
    """
    return json.dumps({"kind": kind, "position": position}, separators=(",", ":"), sort_keys=True)


def position_of(text: str) -> Any:
    """The position that `position_text` wrote."""
    return json.loads(text)["position"]
