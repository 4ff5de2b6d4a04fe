"""Streams of the stand-in for Kinesis, as producers and operators change them; and reads that it refuses."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from moto.core.exceptions import JsonRESTError
from moto.kinesis import models

from dev.chain.kinesis import ANYBODY, REGION, client_of
from dev.chain.moto_kinesis import served, streams
from ingest.config.connections import KinesisConnection


@contextmanager
def kinesis_served() -> Iterator[KinesisConnection]:
    """The stand-in, in this process: a connection to it, whose credentials are in the environment."""
    with pytest.MonkeyPatch.context() as patch, served() as url:
        patch.setenv("AWS_ACCESS_KEY_ID", ANYBODY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", ANYBODY)
        yield KinesisConnection(type="kinesis", region=REGION, endpoint_url=url)


class DrivenStream:
    """A stream of two shards, unless told otherwise."""

    def __init__(self, connection: KinesisConnection, name: str, shards: int = 2) -> None:
        self.name = name
        self.client = client_of(connection.endpoint_url or "")
        self.client.create_stream(StreamName=name, ShardCount=shards)

    def put(self, partition_key: str, data: bytes) -> None:
        """Puts a record into the shard of its key."""
        self.client.put_record(StreamName=self.name, PartitionKey=partition_key, Data=data)

    def open_shards(self) -> list[dict[str, Any]]:
        """The shards that records are put into, by their hash keys."""
        shards = self.client.list_shards(StreamName=self.name)["Shards"]
        open_ = [shard for shard in shards if "EndingSequenceNumber" not in shard["SequenceNumberRange"]]
        return sorted(open_, key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))

    def split(self, which: int) -> None:
        """Splits an open shard in halves."""
        open_ = self.open_shards()
        shard = open_[which % len(open_)]
        begin, end = (int(shard["HashKeyRange"][f"{name}HashKey"]) for name in ("Starting", "Ending"))
        middle = str((begin + end) // 2)
        self.client.split_shard(StreamName=self.name, ShardToSplit=shard["ShardId"], NewStartingHashKey=middle)

    def merge(self, which: int) -> None:
        """Merges an open shard with the next one, where there is one."""
        open_ = self.open_shards()
        if len(open_) > 1:
            one, other = (each["ShardId"] for each in open_[which % (len(open_) - 1) :][:2])
            self.client.merge_shards(StreamName=self.name, ShardToMerge=one, AdjacentShardToMerge=other)

    def vanish(self, shard: str) -> None:
        """Takes a shard away, as Amazon does once a closed one's records have all expired."""
        del streams(REGION)[self.name].shards[shard]

    def expire(self, left: int) -> None:
        """Lets the records of each shard expire, but for the last few."""
        for shard in streams(REGION)[self.name].shards.values():
            for sequence in list(shard.records)[: len(shard.records) - left]:
                del shard.records[sequence]


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
def throttled(times: int, code: str = "ProvisionedThroughputExceededException") -> Iterator[Callable[[], int]]:
    """The stand-in of this process refuses so many reads, as Kinesis does the sixth of a second; how many are left."""
    left = times
    read = models.KinesisBackend.get_records

    def refusing(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            raise JsonRESTError(code, "Rate exceeded for shard")
        return read(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models.KinesisBackend, "get_records", refusing)
        yield lambda: left
