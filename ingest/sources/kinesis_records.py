"""Records of Kinesis as events: those that the Kinesis Producer Library has put together, and each one's place.

Sources: the documentation of the library, "KPL aggregated record format"; the API reference of Kinesis Data Streams,
`Record` and `SequenceNumber`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

# An aggregated record: these bytes, a message of Protocol Buffers, the MD5 of the message.
_MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16
# Types of fields on the wire (Protocol Buffers' documentation, "Encoding").
_VARINT, _LONG, _BYTES, _INT = 0, 1, 2, 5
_FIXED = {_LONG: 8, _INT: 4}
# A place has 48 bits of an offset and 63 of an order. The last 24 of these count the events of one sequence number; the
# other 87 tell sequence numbers apart: 9 have the length of one, in bits, and 78 its first bits.
_COUNT_BITS, _ORDER_BITS, _DIGITS = 24, 39, 78


@dataclass(frozen=True)
class Event:
    """What was put into a stream: a record of Kinesis, or one that was aggregated with others."""

    partition_key: str
    value: bytes


def events_of(partition_key: str, data: bytes) -> list[Event]:
    """The events in a record's data: one, or those that were aggregated.

    Data that only begins as an aggregated record does is one event, whatever it is, as Amazon's own consumer library
    has it.
    """
    message = data[len(_MAGIC) : -_DIGEST_BYTES]
    if not data.startswith(_MAGIC) or hashlib.md5(message).digest() != data[-_DIGEST_BYTES:]:  # noqa: S324 - a checksum
        return [Event(partition_key, data)]
    try:
        return _aggregated(message)
    except (ValueError, IndexError, UnicodeDecodeError):
        return [Event(partition_key, data)]


def _aggregated(message: bytes) -> list[Event]:
    """The events of the message `AggregatedRecord`: 1 the partition keys, 2 the explicit hash keys, 3 the records."""
    keys: list[str] = []
    records: list[bytes] = []
    for number, value in _fields(message):
        if number == 1 and isinstance(value, bytes):
            keys.append(value.decode())
        elif number == 3 and isinstance(value, bytes):
            records.append(value)
    return [_event(record, keys) for record in records]


def _event(record: bytes, keys: Sequence[str]) -> Event:
    """The event of a message `Record`: 1 the index of its partition key, 2 that of its hash key, 3 its data, 4 tags."""
    found = dict(_fields(record))
    index, data = found.get(1), found.get(3)
    if not isinstance(index, int) or not isinstance(data, bytes):
        raise ValueError("an aggregated record without a key or data")
    return Event(keys[index], data)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of Protocol Buffers: number and value."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind not in (_BYTES, *_FIXED):
            raise ValueError(f"a field of type {kind}")
        length, at = _varint(message, at) if kind == _BYTES else (_FIXED[kind], at)
        if at + length > len(message):
            raise ValueError("a field that breaks off")
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and where the next field is."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def place_of(sequence: int, first: int) -> tuple[int, int]:
    """The offset of a sequence number in its shard, and the order at that offset of its first event.

    A sequence number has up to 129 digits, and an offset 48 bits. Both together grow with the sequence number, are the
    same whenever the record is read, and tell numbers apart by their distance from the shard's `first`: 78 binary
    digits of it. Numbers that are alike in these share a place; their events are told apart by `Places`.
    """
    distance = max(0, sequence - first)
    length = distance.bit_length()
    digits = distance << (_DIGITS - length) if length <= _DIGITS else distance >> (length - _DIGITS)
    code = length << _DIGITS | digits
    return code >> _ORDER_BITS, (code & (1 << _ORDER_BITS) - 1) << _COUNT_BITS


@dataclass
class Places:
    """The places of a shard's events, in the order in which they are read.

    Attributes
    ----------
    first:
        The shard's starting sequence number, which stays as long as the shard is there.
    last:
        The last sequence number that was read before; None where none was.
    shared:
        How many events have had its place so far.
    """

    first: int
    last: int | None = None
    shared: int = 0
    _place: tuple[int, int] = (-1, -1)

    def __post_init__(self) -> None:
        if self.last is not None:
            self._place = place_of(self.last, self.first)

    def next(self, sequence: int) -> tuple[int, int]:
        """Offset and order of the next event, which has this sequence number."""
        if sequence != self.last:
            place = place_of(sequence, self.first)
            self.shared = self.shared if place == self._place else 0
            self.last, self._place = sequence, place
        self.shared += 1
        return self._place[0], self._place[1] + self.shared - 1


@dataclass
class Columns:
    """Events as columns, in the order in which they were read.

    Attributes
    ----------
    key:
        The partition key where it may be the key of a change, a JSON object, as Debezium Server writes it. Any other is
        chosen by the producer, such as a random one, and says nothing of the row.
    value:
        None for no bytes, which is how Debezium Server writes a tombstone.
    """

    key: list[bytes | None] = field(default_factory=list)
    value: list[bytes | None] = field(default_factory=list)
    topic: list[str] = field(default_factory=list)
    partition: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    partition_key: list[str] = field(default_factory=list)
    sequence_number: list[str] = field(default_factory=list)
    arrived_at: list[datetime] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.value)

    def add(self, stream: str, partition: int, places: Places, record: Mapping[str, Any]) -> None:
        """Adds the events of a record, as the API has it."""
        sequence, number = record["SequenceNumber"], int(record["SequenceNumber"])
        for event in events_of(record["PartitionKey"], record["Data"]):
            offset, order = places.next(number)
            self.key.append(event.partition_key.encode() if event.partition_key.startswith("{") else None)
            self.value.append(event.value or None)
            self.topic.append(stream)
            self.partition.append(partition)
            self.offset.append(offset)
            self.order.append(order)
            self.partition_key.append(event.partition_key)
            self.sequence_number.append(sequence)
            self.arrived_at.append(record["ApproximateArrivalTimestamp"])
