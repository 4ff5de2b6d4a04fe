"""A stand-in for Kinesis Data Streams: moto's server, with what its shards do otherwise than Amazon's.

moto 5.2 numbers the records of each shard from 1, puts records into shards that were split, copies those of merged
shards into the new one, never says that a closed shard has ended, and wants the stream's name beside the token of the
next shards. Amazon's documentation of resharding, of `SequenceNumber`, `GetRecords` and `ListShards` has it as it is
here.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.kinesis import models
from moto.kinesis.exceptions import InvalidArgumentError
from moto.kinesis.utils import decompose_shard_iterator
from moto.server import ThreadedMotoServer

from dev.chain.settings import HOST


class AmazonsShard(models.Shard):
    """A shard whose sequence numbers have 56 digits, of which the first say which shard it is."""

    def __init__(self, shard_id: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(shard_id, *args, **kwargs)
        self.first = 2 << 182 | int(time.time()) << 146 | shard_id << 100
        self.put = 0

    def put_record(self, partition_key: str, data: str, explicit_hash_key: str) -> str:
        self.put += 1
        number = self.first + (self.put << 80) + 2
        self.records[number] = models.Record(partition_key, data, number, explicit_hash_key)
        return str(number)

    def get_records(self, last_sequence_id: str, limit: int | None) -> tuple[list[models.Record], int, int]:
        records, last, behind_ms = super().get_records(last_sequence_id, limit)
        # What was put within one millisecond is behind as well.
        is_behind = bool(self.records) and last < self.get_max_sequence_number()
        return records, last, max(1, behind_ms) if is_behind else 0

    def to_json(self) -> dict[str, Any]:
        told = super().to_json()
        told["SequenceNumberRange"]["StartingSequenceNumber"] = str(self.first)
        return told


class AmazonsStream(models.Stream):
    """A stream whose records stay in the shard that they were put into."""

    def get_shard_for_key(self, partition_key: str, explicit_hash_key: str) -> models.Shard | None:
        digest = hashlib.md5(partition_key.encode(), usedforsecurity=False).hexdigest()
        number = int(explicit_hash_key) if explicit_hash_key else int(digest, 16)
        return next(
            (
                each
                for each in self.shards.values()
                if each.is_open and each.starting_hash <= number <= each.ending_hash
            ),
            None,
        )

    def split_shard(self, shard_to_split: str, new_starting_hash_key: str) -> None:
        shard, at = self.shards[shard_to_split], int(new_starting_hash_key)
        if not shard.is_open or not shard.starting_hash < at < shard.ending_hash:
            raise InvalidArgumentError(f"{shard_to_split} cannot be split at {at}")
        self._close(shard)
        for begin, end in ((shard.starting_hash, at - 1), (at, shard.ending_hash)):
            self._add(begin, end, parent=shard.shard_id)

    def merge_shards(self, shard_to_merge: str, adjacent_shard_to_merge: str) -> None:
        one, other = self.shards[shard_to_merge], self.shards[adjacent_shard_to_merge]
        first, second = sorted((one, other), key=lambda each: each.starting_hash)
        if not (one.is_open and other.is_open) or first.ending_hash + 1 != second.starting_hash:
            raise InvalidArgumentError(f"{shard_to_merge} and {adjacent_shard_to_merge} cannot be merged")
        self._close(one)
        self._close(other)
        self._add(first.starting_hash, second.ending_hash, parent=one.shard_id, adjacent_parent=other.shard_id)

    def _close(self, shard: models.Shard) -> None:
        shard.is_open = False

    def _add(self, begin: int, end: int, **parents: str) -> None:
        shard = AmazonsShard(len(self.shards), begin, end, **parents)
        self.shards[shard.shard_id] = shard


_get_records = models.KinesisBackend.get_records


def _get_records_to_the_end(
    self: models.KinesisBackend, stream_arn: str | None, shard_iterator: str, limit: int | None
) -> tuple[str | None, list[models.Record], int]:
    after, records, behind_ms = _get_records(self, stream_arn, shard_iterator, limit)
    stream, shard_id, _ = decompose_shard_iterator(shard_iterator)
    shard = self.describe_stream(stream_arn=stream_arn, stream_name=stream).get_shard(shard_id)
    return after if shard.is_open or behind_ms else None, records, behind_ms


def _list_shards(
    self: models.KinesisBackend, stream_arn: str | None, stream_name: str | None, limit: int, next_token: str | None
) -> tuple[list[models.Shard], str | None]:
    if next_token and (stream_arn or stream_name):
        raise InvalidArgumentError("NextToken and StreamName cannot be provided together.")
    name, _, begin = next_token.rpartition("/") if next_token else (stream_name, "", "0")
    stream = self.describe_stream(stream_arn=stream_arn, stream_name=name)
    shards = sorted(stream.shards.values(), key=lambda each: each.shard_id)
    end = int(begin) + limit
    return shards[int(begin) : end], f"{name}/{end}" if end < len(shards) else None


def as_amazon_does() -> None:
    """From now on, streams of this process behave as Amazon's."""
    models.Shard = AmazonsShard  # type: ignore[misc]
    models.Stream = AmazonsStream  # type: ignore[misc]
    models.KinesisBackend.list_shards = _list_shards  # type: ignore[assignment, method-assign]
    models.KinesisBackend.get_records = _get_records_to_the_end  # type: ignore[assignment, method-assign]


@contextmanager
def served(port: int = 0) -> Iterator[str]:
    """The stand-in on loopback, for as long as the block runs: its URL. A free port is chosen where none is given."""
    as_amazon_does()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address=HOST, port=port, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()


def streams(region: str) -> dict[str, models.Stream]:
    """The streams of this process's stand-in, by their names: a test looks in, and lets records expire."""
    return models.kinesis_backends[DEFAULT_ACCOUNT_ID][region].streams
