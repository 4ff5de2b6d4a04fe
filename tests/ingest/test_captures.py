"""What a real Debezium wrote of two real databases becomes what stood in their tables at the end."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DbtProject, MakeProject
from pyspark.sql import SparkSession
from registry_server import serve, use_registry

pytestmark = [pytest.mark.spark, pytest.mark.systems]

RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
BASE64 = {"config": {"meta": {"ingest": {"decimal": "base64"}}}}
ZONED = {"config": {"meta": {"ingest": {"semantic_type": "io.debezium.time.ZonedTimestamp"}}}}
# Of each table its key, and its columns in the order of the source table.
TABLES: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
    "moma.artists": (
        ["artist_id"],
        {"artist_id": "int", "name": "string", "nationality": "string", "gender": "string", "birth_year": "int",
         "death_year": "int"},
    ),
    "pagila.actor": (
        ["actor_id"],
        {"actor_id": "int", "first_name": "string", "last_name": "string", "last_update": "timestamp"},
    ),
    "pagila.address": (
        ["address_id"],
        {"address_id": "int", "address": "string", "address2": "string", "district": "string", "city_id": "int",
         "postal_code": "string", "phone": "string", "last_update": "timestamp"},
    ),
    "pagila.film": (
        ["film_id"],
        {"film_id": "int", "title": "string", "description": "string", "release_year": "int", "language_id": "int",
         "original_language_id": "int", "rental_duration": "int", "rental_rate": "decimal(4,2)", "length": "int",
         "replacement_cost": "decimal(5,2)", "rating": "string", "last_update": "timestamp",
         "special_features": "array<string>", "fulltext": "string"},
    ),
}  # fmt: skip


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def write_records(path: Path, records: Iterator[dict[str, Any]]) -> int:
    """Captured records as a file with the columns of Spark's Kafka source; how many they are."""

    def content(record: Mapping[str, Any], name: str) -> bytes | None:
        if f"{name}_b64" in record:
            return None if record[f"{name}_b64"] is None else base64.b64decode(record[f"{name}_b64"])
        return None if record.get(name) is None else record[name].encode()

    rows = [
        {
            "key": content(record, "key"),
            "value": content(record, "value"),
            "topic": record["topic"],
            "partition": record["partition"],
            "offset": record["offset"],
            "timestamp": datetime.fromtimestamp(record["timestamp_ms"] / 1000, UTC),
            "headers": [{"key": key, "value": str(value).encode()} for key, value in record["headers"] or []],
        }
        for record in records
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=RECORDS), path)
    return len(rows)


def shown(text: str, data_type: str) -> Any:
    """A value of PostgreSQL's CSV as Spark gives it."""
    if text == r"\N":
        return None
    if data_type.startswith("array<"):
        [items] = csv.reader([text[1:-1]])
        return items
    kinds: dict[str, Any] = {
        "int": int,
        "bigint": int,
        "double": float,
        "date": date.fromisoformat,
        "boolean": lambda value: value == "t",
        "timestamp": lambda value: datetime.fromisoformat(f"{value}:00").replace(tzinfo=None),
    }
    return Decimal(text) if data_type.startswith("decimal") else kinds.get(data_type, str)(text)


def final_rows(path: Path, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        text = io.StringIO(file.read())
    return [{name: shown(row[name], data_type) for name, data_type in columns.items()} for row in csv.DictReader(text)]


def entry(name: str, key: Sequence[str], columns: Mapping[str, str]) -> dict[str, Any]:
    database, table = name.split(".")
    options = {"decimal": BASE64, "timestamp": ZONED}
    return {
        "name": table,
        "config": {"meta": {"ingest": {"connection": "files", "connector": "postgresql", "key": list(key),
                                       "topic": f"{database}.public.{table}"}}},
        "columns": [
            {"name": column, "data_type": data_type, **options.get(data_type.split("(")[0], {})}
            for column, data_type in columns.items()
        ],
    }  # fmt: skip


def require_rows(
    project: DbtProject, spark: SparkSession, table: str, wanted: list[dict[str, Any]], key: Sequence[str]
) -> None:
    def by_key(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
        return {tuple(row[name] for name in key): row for row in rows}

    found = project.rows(spark, table)
    assert len(found) == len(wanted), table
    held, source = by_key(found), by_key(wanted)
    different = [(source.get(item), held.get(item)) for item in {*held, *source} if held.get(item) != source.get(item)]
    assert different[:3] == [], table


def test_silver_equals_the_source_tables_of_the_captures(
    make_project: MakeProject, spark: SparkSession, shared_data: Path
) -> None:
    captures = shared_data / "debezium-captures"
    registered = {
        str(line["ccompat_id"]): {"schema": json.dumps(line["schema"])}
        for line in lines_of(captures / "registry" / "schemas.jsonl.gz")
    }
    project = make_project({"tables": [entry(name, *of) for name, of in TABLES.items()]})
    records = {}
    for name in TABLES:
        topic = name.replace(".", ".public.")
        target = project.bronze / topic / f"{topic}+0+0000000000.parquet"
        records[name] = write_records(target, lines_of(captures / "events" / f"{topic}.jsonl.gz"))
    with serve(registered) as registry:
        use_registry(project, registry.url)
        landed = project.land_well(spark)
        assert project.quarantined(spark) == []
        # Of the values, and of the keys: these say what a delete deletes.
        assert sorted(registry.asked) == ["/schemas/ids/45", "/schemas/ids/46"]
    for name, (key, columns) in TABLES.items():
        table = name.split(".")[1]
        assert landed[table].counts.read == records[name]
        require_rows(project, spark, table, final_rows(captures / "final" / f"{name}.csv.gz", columns), key)
