"""The stand-in for Kinesis as a server of the chain, and its streams."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import boto3
import typer
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dev.chain.processes import Server
from dev.chain.settings import ROOT
from examples.system import StreamRecord
from ingest.config.connections import KinesisConnection
from ingest.config.project import Project
from ingest.config.sources_file import load_sources
from ingest.errors import LakeError

REGION = "us-east-1"
# A name and a key that the stand-in takes, as any other.
ANYBODY = "lake"
_SHARDS = 2
# Records of one call (the Kinesis Data Streams API Reference, "PutRecords").
_MOST_AT_ONCE = 500


class Kinesis(Server):
    """moto's server (`dev.chain.moto_kinesis`). It holds its streams in memory: they are gone once it is stopped."""

    name = "kinesis"
    port_variable = "LAKE_KINESIS_PORT"

    @property
    def address(self) -> str:
        """What a connection has as `endpoint_url`."""
        return f"http://{super().address}"

    def prepare(self) -> None:
        """Nothing: it holds nothing on disk."""

    def command(self) -> Sequence[str | Path]:
        """The server, by this interpreter."""
        return [sys.executable, "-m", "dev.chain.kinesis", "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        """Where its module is."""
        return {"PYTHONPATH": str(ROOT)}

    def is_ready(self) -> bool:
        """Whether it lists its streams."""
        try:
            client_of(self.address).list_streams(Limit=1)
        except (BotoCoreError, ClientError):
            return False
        return True


def client_of(address: str) -> Any:
    """A client of the stand-in, which lets everybody in."""
    config = Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1})
    session = boto3.session.Session(aws_access_key_id=ANYBODY, aws_secret_access_key=ANYBODY)
    return session.client("kinesis", region_name=REGION, endpoint_url=address, config=config)


def make_streams(address: str, names: Iterable[str]) -> list[str]:
    """Makes the streams that are not there, of two shards each; all of their names."""
    client = client_of(address)
    pages = client.get_paginator("list_streams").paginate()
    there = {name for page in pages for name in page["StreamNames"]}
    for name in sorted(set(names) - there):
        client.create_stream(StreamName=name, ShardCount=_SHARDS)
    return sorted(there | set(names))


def put_records(address: str, name: str, records: Iterable[StreamRecord]) -> int:
    """Puts records into a stream, in order, each into the shard of its partition key; how many there were."""
    client, coming, put = client_of(address), iter(records), 0
    while part := list(islice(coming, _MOST_AT_ONCE)):
        entries = [{"PartitionKey": record.partition_key, "Data": record.data} for record in part]
        told = client.put_records(StreamName=name, Records=entries)
        if told["FailedRecordCount"]:
            raise LakeError(f"{told['FailedRecordCount']} of {len(part)} records were refused", where=f"stream {name}")
        put += len(part)
    return put


def declared_streams() -> list[str]:
    """The streams of the tables that the project's declarations read from a connection of type kinesis."""
    return sorted(
        table.options.topic
        for source in load_sources(Project.load(ROOT)).values()
        for table in source.tables
        if isinstance(table.connection, KinesisConnection)
    )


def serve(port: Annotated[int, typer.Option(help="The port on loopback.")]) -> None:
    """Serves until the process is stopped."""
    from dev.chain.moto_kinesis import served  # noqa: PLC0415 - takes half a second, and only this process needs it

    with served(port):
        threading.Event().wait()


if __name__ == "__main__":
    typer.run(serve)
