"""What Kinesis brings: records that the Kinesis Producer Library aggregates, and answers that a read comes too soon."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from moto.core.exceptions import JsonRESTError
from moto.kinesis import models


def aggregated(events: Sequence[tuple[str, bytes]]) -> bytes:
    """Events, each a partition key and its data, as one record.

    Source: "KPL aggregated record format" of Amazon's documentation.
    """
    keys = list(dict.fromkeys(key for key, _ in events))
    message = b"".join(_field(1, key.encode()) for key in keys)
    for key, data in events:
        message += _field(3, b"\x08" + _varint(keys.index(key)) + _field(3, data))
    return b"\xf3\x89\x9a\xc2" + message + hashlib.md5(message, usedforsecurity=False).digest()


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@contextmanager
def throttled(times: int) -> Iterator[Callable[[], int]]:
    """The stand-in of this process refuses so many reads, as Kinesis does the sixth of a second; how many are left."""
    left = times
    read = models.KinesisBackend.get_records

    def refusing(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            raise JsonRESTError("ProvisionedThroughputExceededException", "Rate exceeded for shard")
        return read(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models.KinesisBackend, "get_records", refusing)
        yield lambda: left
