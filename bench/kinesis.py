"""How fast records of Kinesis come to Spark: read by the driver, as it is done here, and by the executors.

Both sides read the same shards once and keep the rows in Spark; then the rows' JSON is parsed and counted. The server
answers with pages that were made before, of events as they are: it takes next to no time, and does not throttle.

    python -m bench.kinesis --events 400000 --shards 8
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.lake import lake_of_its_own
from ingest.config.connections import KinesisConnection
from ingest.config.project import Project
from ingest.sources.kinesis import frame_of
from ingest.sources.kinesis_client import StreamClient
from ingest.sources.kinesis_reader import KinesisPosition, Reader
from ingest.spark.session import open_session

STREAM, REGION, PAGE = "bench", "us-east-1", 10_000
ROWS = "key string, value binary, topic string, partition int, sequence_number string"


def main() -> None:
    """Prints seconds and MB/s of both sides, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.events, options.shards)
        return
    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
    with lake_of_its_own(), served(options.events, options.shards) as url:
        spark = open_session(Project.load(Path(__file__).resolve().parent.parent))
        size = options.events * len(event(0)) / 1e6
        sides: dict[str, Callable[[], DataFrame]] = {
            "driver": partial(by_driver, spark, url),
            "executors": partial(by_executors, spark, url, options.shards),
        }
        best = {name: float("inf") for name in sides}
        for number in range(options.rounds + 1):
            for name, read in sides.items():
                started = time.monotonic()
                found = read().select(F.from_json(F.col("value").cast("string"), "id bigint").alias("row"))
                assert found.where("row.id is not null").count() == options.events
                seconds = time.monotonic() - started
                best[name] = min(best[name], seconds) if number else best[name]
                print(f"{f'round {number}' if number else 'warm-up'}: {name} {seconds:.1f} s", flush=True)
        told = ", ".join(f"{name} {seconds:.1f} s ({size / seconds:.0f} MB/s)" for name, seconds in best.items())
        ratio = best["driver"] / best["executors"]
        print(f"{options.events:,} events of {options.shards} shards: {told}, driver / executors {ratio:.2f}")
        spark.stop()


def by_driver(spark: SparkSession, url: str) -> DataFrame:
    """The rows, read by the driver."""
    client = StreamClient(KinesisConnection(type="kinesis", region=REGION, endpoint_url=url))
    taken = Reader(client, client.stream(STREAM), KinesisPosition()).take(None, None)
    return frame_of(spark, taken.events).localCheckpoint()


def by_executors(spark: SparkSession, url: str, shards: int) -> DataFrame:
    """The rows, read by a task for each shard; kept, as they must not be read again."""

    def read(numbers: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        client = boto3.session.Session(aws_access_key_id="bench", aws_secret_access_key="bench").client(  # noqa: S106
            "kinesis", region_name=REGION, endpoint_url=url
        )
        for number in numbers:
            begin = {"ShardId": f"shardId-{number:012d}", "ShardIteratorType": "TRIM_HORIZON"}
            iterator = client.get_shard_iterator(StreamName=STREAM, **begin)["ShardIterator"]
            while iterator:
                page = client.get_records(ShardIterator=iterator, Limit=PAGE)
                for record in page["Records"]:
                    yield (record["PartitionKey"], record["Data"], STREAM, number, record["SequenceNumber"])
                iterator = page.get("NextShardIterator") if page["MillisBehindLatest"] else None

    rows = spark.sparkContext.parallelize(range(shards), shards).mapPartitions(read)
    return spark.createDataFrame(rows, ROWS, verifySchema=False).localCheckpoint()


def event(number: int) -> bytes:
    """An event of some 400 bytes."""
    row = {"id": number, "title": f"event {number}", "note": "n" * 230, "__op": "c", "__lsn": number}
    return json.dumps({**row, "__source_ts_ms": 1_700_000_000_000, "__deleted": "false"}).encode()


@contextmanager
def served(events: int, shards: int) -> Iterator[str]:
    """A server of the pages, in a process of its own."""
    command = [sys.executable, "-m", "bench.kinesis", "--serve", "--events", str(events), "--shards", str(shards)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


def serve(events: int, shards: int) -> None:
    """Makes the pages and answers as Kinesis does, until it is stopped."""
    pages = made(events, shards)
    listed = [{"ShardId": f"shardId-{number:012d}", "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "1"},
               "SequenceNumberRange": {"StartingSequenceNumber": "1"}} for number in range(shards)]  # fmt: skip
    summary = {"StreamName": STREAM, "StreamCreationTimestamp": 1, "RetentionPeriodHours": 24}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            match self.headers["X-Amz-Target"].partition(".")[2]:
                case "DescribeStreamSummary":
                    answer = json.dumps({"StreamDescriptionSummary": summary}).encode()
                case "ListShards":
                    answer = json.dumps({"Shards": listed}).encode()
                case "GetShardIterator":
                    answer = json.dumps({"ShardIterator": f"{int(asked['ShardId'][-12:])}:0"}).encode()
                case _:
                    shard, at = map(int, asked["ShardIterator"].split(":"))
                    answer = pages[shard][at]
            self.send_response(200)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """A line for each call would take its time."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


def made(events: int, shards: int) -> Sequence[Sequence[bytes]]:
    """The answers to `GetRecords` of each shard, in order."""
    pages = []
    for shard in range(shards):
        numbers = range(shard, events, shards)
        own: list[bytes] = []
        for start in range(0, len(numbers), PAGE):
            records = [
                {"SequenceNumber": str((number << 80) + 2), "PartitionKey": str(number), "ApproximateArrivalTimestamp":
                 1.7e9, "Data": base64.b64encode(event(number)).decode()}
                for number in numbers[start : start + PAGE]
            ]  # fmt: skip
            behind = max(0, len(numbers) - start - PAGE)
            told = {"Records": records, "MillisBehindLatest": behind, "NextShardIterator": f"{shard}:{len(own) + 1}"}
            own.append(json.dumps(told).encode())
        pages.append(own)
    return pages


if __name__ == "__main__":
    main()
