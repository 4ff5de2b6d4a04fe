"""Values that Apicurio's own serializers write: global ids and content ids, in a real Apicurio where they differ."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DbtProject, MakeProject, pg, table_of
from pyspark.sql import SparkSession
from registry_server import CCOMPAT, use_registry

from dev.chain import processes
from dev.chain.processes import free_port
from dev.chain.servers import Registry
from ingest.silver.state import Counts

pytestmark = [pytest.mark.real, pytest.mark.spark]

SIZE = {"type": "enum", "name": "Size", "namespace": "shop", "symbols": ["S", "L"]}


def schema_of(name: str, **columns: Any) -> dict[str, Any]:
    """The schema of unwrapped events with these columns; each may be null."""
    fields: list[dict[str, Any]] = [{"name": "item_id", "type": "int"}]
    columns |= {"__op": "string", "__lsn": "long", "__source_ts_ms": "long", "__deleted": "string"}
    fields += [{"name": column, "type": ["null", kind], "default": None} for column, kind in columns.items()]
    return {"type": "record", "name": name, "namespace": "shop", "fields": fields}


ITEM = schema_of("Item", stock="long")
# The same bytes by another table's schema: read with it, a value has no `stock`.
OTHER = schema_of("Other", weight="long")
SIZED = schema_of("Sized", size="shop.Size")


@dataclass(frozen=True)
class Ids:
    """The two ids of an artifact version."""

    global_id: int
    content_id: int


@dataclass(frozen=True)
class Apicurio:
    """A running Apicurio, with what is registered in it."""

    root: str

    def register(self, subject: str, schema: Mapping[str, Any], **references: Any) -> Ids:
        body = {"schema": json.dumps(schema), **references}
        self._ask("POST", f"{CCOMPAT}/subjects/{subject}/versions", body)
        told = self._ask("GET", f"/apis/registry/v3/groups/default/artifacts/{subject}/versions/branch=latest")
        return Ids(told["globalId"], told["contentId"])

    def spend_a_content_id(self, subject: str) -> None:
        """What is refused for its name, which is taken, has got a content id before, and no global id."""
        content = {"content": json.dumps(schema_of("Refused")), "contentType": "application/json"}
        body = {"artifactId": subject, "artifactType": "AVRO", "firstVersion": {"content": content}}
        self._ask("POST", "/apis/registry/v3/groups/default/artifacts", body, status=409)

    def _ask(self, method: str, path: str, body: object = None, *, status: int = 200) -> Any:
        answer = httpx.request(method, self.root + path, json=body, timeout=30)
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def apicurio() -> Iterator[Apicurio]:
    """Apicurio alone."""
    folder = Path(tempfile.mkdtemp(prefix="lake-real-"))
    server = Registry(folder, free_port())
    try:
        processes.start(server)
        yield Apicurio(server.address.removesuffix(CCOMPAT))
    finally:
        processes.stop(server)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def registered(apicurio: Apicurio) -> Mapping[str, Ids]:
    """Schemas of which one's global id is another's content id, and one content in two artifacts."""
    ids = {"first": apicurio.register("first", schema_of("First"))}
    apicurio.spend_a_content_id("first")
    ids["other"] = apicurio.register("other", OTHER)
    ids["item"] = apicurio.register("item", ITEM)
    ids["again"] = apicurio.register("again", ITEM)
    apicurio.register("size", SIZE)
    references = [{"name": "shop.Size", "subject": "size", "version": 1}]
    ids["sized"] = apicurio.register("sized", SIZED, references=references)
    assert ids["item"].global_id == ids["other"].content_id
    assert ids["item"].content_id == ids["again"].content_id
    return ids


def value(schema_id: int, schema: Mapping[str, Any], event: Mapping[str, Any]) -> bytes:
    """A value as Apicurio's serializers write it, with an id of eight bytes."""
    body = io.BytesIO()
    names: dict[str, Any] = {}
    fastavro.parse_schema(SIZE, names)
    fastavro.schemaless_writer(body, fastavro.parse_schema(dict(schema), names), dict(event))
    return b"\x00" + schema_id.to_bytes(8, "big") + body.getvalue()


def deliver(project: DbtProject, values: Sequence[bytes]) -> None:
    rows = {
        "value": pa.array(values, pa.binary()),
        "partition": pa.array([0] * len(values), pa.int32()),
        "offset": pa.array(range(len(values)), pa.int64()),
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(rows), sink)
    project.deliver("shop.item", 0, sink.getvalue(), "parquet")


@pytest.mark.parametrize(
    ("path", "use_id"), [(CCOMPAT, None), ("/apis/registry/v2", None), (CCOMPAT, "contentId")], ids=str
)
def test_ids_of_eight_bytes_are_those_that_the_connection_says(
    path: str,
    use_id: str | None,
    apicurio: Apicurio,
    registered: Mapping[str, Ids],
    make_project: MakeProject,
    spark: SparkSession,
) -> None:
    def id_of(subject: str) -> int:
        ids = registered[subject]
        return ids.content_id if use_id == "contentId" else ids.global_id

    project = make_project(
        {"tables": [table_of("item", {"item_id": "int", "stock": "bigint", "size": "string"}, ["item_id"])]}
    )
    values = [
        value(id_of("item"), ITEM, pg("c", 10, item_id=1, stock=7)),
        value(id_of("again"), ITEM, pg("c", 11, item_id=2, stock=8)),
        value(id_of("sized"), SIZED, pg("c", 12, item_id=3, size="L")),
        value(10**6, ITEM, pg("c", 13, item_id=4, stock=9)),
        value(2**64 - 1, ITEM, pg("c", 14, item_id=5, stock=9)),
    ]
    deliver(project, values)
    use_registry(project, apicurio.root + path, id_bytes=8, **({"use_id": use_id} if use_id else {}))
    assert project.land_well(spark)["item"].counts == Counts(read=5, applied=3, quarantined=2)
    assert project.rows(spark, "item") == [
        {"item_id": 1, "stock": 7, "size": None},
        {"item_id": 2, "stock": 8, "size": None},
        {"item_id": 3, "stock": None, "size": "L"},
    ]
    assert {row["start_offset"]: row["reason"] for row in project.quarantined(spark)} == {
        3: "schema id 1000000 is not in the registry",
        4: f"schema id {2**64 - 1} is not in the registry",
    }
