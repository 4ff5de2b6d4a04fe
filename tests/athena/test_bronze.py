"""Bronze on S3: what Kafka Connect's S3 sink writes, read by the files source from s3a://."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DbtProject, MakeProject, pg, table_of
from pyspark.sql import SparkSession

from dev.chain.moto_s3 import Fault, Request, StandIn
from ingest.operations.status import status_of

pytestmark = [pytest.mark.athena, pytest.mark.spark]

BUCKET = "bronze"
COLUMNS = {"id": "int", "v": "string"}
FIELDS: Mapping[str, Any] = {
    "id": "int",
    "v": ["null", "string"],
    "__op": "string",
    "__lsn": "long",
    "__source_ts_ms": "long",
    "__deleted": "string",
}
AVRO = {"type": "record", "name": "item", "fields": [{"name": name, "type": each} for name, each in FIELDS.items()]}


class Sink:
    """The sink: each object is named by its topic, partition and first offset, as `topics.dir/<topic>/partition=N/`."""

    def __init__(self, s3: Any, project: DbtProject) -> None:
        self._s3 = s3
        self.root = f"{project.schema}/topics"
        s3.create_bucket(Bucket=BUCKET)
        project.connect({"path": f"s3a://{BUCKET}/{self.root}"})

    def put(self, partition: int, offset: int, body: bytes, suffix: str) -> str:
        """Writes an object; its key."""
        key = f"{self.root}/shop.item/partition={partition}/shop.item+{partition}+{offset:010d}.{suffix}"
        self._s3.put_object(Bucket=BUCKET, Key=key, Body=body)
        return key

    def json(self, partition: int, offset: int, *events: Mapping[str, Any]) -> str:
        """Writes lines of JSON."""
        return self.put(partition, offset, "".join(f"{json.dumps(event)}\n" for event in events).encode(), "json")


@pytest.fixture
def project(make_project: MakeProject) -> DbtProject:
    """A source of one table."""
    return make_project({"tables": [table_of("item", COLUMNS, ["id"])]})


def change(op: str, lsn: int, id_: int, v: str | None) -> dict[str, Any]:
    """A change, in the columns of the Avro schema."""
    event = pg(op, lsn, id=id_, v=v)
    return {name: event[name] for name in FIELDS}


def test_objects_of_each_form_are_landed_once_also_late_ones(
    spark: SparkSession, aws: StandIn, s3: Any, project: DbtProject
) -> None:
    sink = Sink(s3, project)
    sink.json(0, 0, change("c", 1, 1, "one"), change("c", 2, 2, "two"))
    avro = io.BytesIO()
    fastavro.writer(avro, AVRO, [change("c", 3, 3, "three"), change("u", 6, 1, "uno")], codec="deflate")
    sink.put(1, 0, avro.getvalue(), "avro")
    rows = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([change("c", 4, 4, "four"), change("d", 7, 2, None)]), rows)
    sink.put(2, 0, rows.getvalue(), "snappy.parquet")
    landed = project.land_well(spark)["item"]
    assert (landed.taken, landed.counts.read) == (3, 6)
    assert [(row["id"], row["v"]) for row in project.rows(spark, "item")] == [(1, "uno"), (3, "three"), (4, "four")]

    # An object whose offsets are older than what was landed, and one that goes on.
    late = sink.json(0, 2, change("u", 5, 1, "too late"), change("c", 8, 5, "five"))
    newer = sink.json(1, 2, change("u", 9, 3, "tres"))
    (status,) = status_of(spark, project.source())
    assert (status.state, status.waiting) == ("behind", 2)
    begin = len(aws.requests)
    landed = project.land_well(spark)["item"]
    assert (landed.taken, landed.counts.read) == (2, 3)
    read = {each.path for each in aws.requests[begin:] if each.action == "GET" and each.path.startswith(f"/{BUCKET}/")}
    assert read == {f"/{BUCKET}/{late}", f"/{BUCKET}/{newer}"}, "only what is new is read"
    expected = [(1, "uno"), (3, "tres"), (4, "four"), (5, "five")]
    assert [(row["id"], row["v"]) for row in project.rows(spark, "item")] == expected


@pytest.mark.slow
def test_many_small_objects_and_one_of_several_parts_are_a_few_commits(
    spark: SparkSession, aws: StandIn, s3: Any, project: DbtProject, tmp_path: Path
) -> None:
    sink = Sink(s3, project)
    number = 300
    for lsn in range(1, number + 1):
        sink.json(lsn % 3, lsn // 3, change("c", lsn, lsn, "small"))
    # As a sink writes a large object: it is there once its parts are put together.
    large = tmp_path / "large.json"
    events = (json.dumps(change("c", number + n, number + n, "x" * 200)) for n in range(1, 30_001))
    large.write_text("".join(f"{event}\n" for event in events))
    key = f"{sink.root}/shop.item/partition=3/shop.item+3+0000000000.json"
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
    parts, content = [], large.read_bytes()
    half = 6 * 1024 * 1024
    assert len(content) > half
    for part, body in enumerate((content[:half], content[half:]), start=1):
        answer = s3.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=part, Body=body)
        parts.append({"PartNumber": part, "ETag": answer["ETag"]})
    landed = project.land_well(spark)["item"]
    assert landed.counts.applied == number, "parts are no object yet"
    s3.complete_multipart_upload(Bucket=BUCKET, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})
    begin = len(aws.requests)
    with aws.counted() as asked:
        landed = project.land_well(spark)["item"]
    assert landed.counts.applied == 30_000
    assert asked["s3 GET"] < number, "objects that were landed are not opened again"
    of_objects = [each for each in aws.requests[begin:] if each.action == "HEAD" and each.path.endswith(".json")]
    assert len(of_objects) < 10, "and none is asked for that was listed"
    assert project.state(spark, "item").totals.applied == number + 30_000


def test_what_is_wrong_with_a_bucket_or_an_object_is_said(
    spark: SparkSession, aws: StandIn, s3: Any, project: DbtProject
) -> None:
    sink = Sink(s3, project)

    def said() -> str:
        error = project.land(spark)["item"].error
        assert error is not None
        return error.message

    assert "there is no such folder" in said()
    sink.json(0, 0, change("c", 1, 1, "one"))
    refused = Fault(403, "AccessDenied", "Access Denied")
    with aws.broken(lambda request: refused if request.path.startswith(f"/{BUCKET}/") else None):
        message = said()
    assert "s3:ListBucket" in message
    assert f"s3a://{BUCKET}/{sink.root}/shop.item" in message

    def reading(request: Request) -> Fault | None:
        return refused if request.path.endswith(".json") and request.action == "GET" else None

    with aws.broken(reading):
        assert "s3:GetObject" in said()
    project.connect({"path": "s3a://nowhere-at-all/topics"})
    assert "nowhere-at-all" in said()
    project.connect({"path": f"s3a://{BUCKET}/{sink.root}"})
    project.land_well(spark)
    assert [(row["id"], row["v"]) for row in project.rows(spark, "item")] == [(1, "one")]
