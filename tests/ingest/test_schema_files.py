"""A schema in a file says what the values of JSON without a schema mean, as it does for Avro without an id."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any

import pytest
from conftest import DbtProject, MakeProject, pg, table_of
from pyspark.sql import SparkSession
from records import records_file

from ingest.errors import DeclarationError
from ingest.silver.state import Counts

COLUMNS = {"item_id": "int", "made_on": "date", "made_at": "timestamp", "note": "string"}
# As Connect's Avro converter names them; PostgreSQL's own default is microseconds.
MEANINGS: dict[str, Any] = {
    "item_id": "int",
    "made_on": {"type": "int", "connect.name": "io.debezium.time.Date"},
    "made_at": {"type": "long", "connect.name": "io.debezium.time.Timestamp"},
    "note": {"type": "string", "connect.name": "io.debezium.data.Json"},
}
SCHEMA = json.dumps(
    {"type": "record", "name": "Value", "fields": [{"name": n, "type": ["null", t]} for n, t in MEANINGS.items()]}
)


def project_of(make_project: MakeProject, schema: str = SCHEMA, **options: Any) -> DbtProject:
    options = {"schema_file": "models/item.avsc", **options}
    project = make_project({"tables": [table_of("item", COLUMNS, ["item_id"], **options)]})
    project.write_models(schema, "item.avsc")
    return project


def item(number: int) -> dict[str, Any]:
    """An event whose time is in milliseconds."""
    return pg("c", 100 + number, item_id=number, made_on=18_979, made_at=1_639_862_055_615, note='{"a": 1}')


def test_a_column_means_what_the_file_says_unless_it_says_so_itself(make_project: MakeProject) -> None:
    project = project_of(make_project)
    found = {column.name: column.semantic_type for column in project.source().tables[0].columns}
    assert found == {
        "item_id": None,
        "made_on": "io.debezium.time.Date",
        "made_at": "io.debezium.time.Timestamp",
        # Nothing that could be declared of a text.
        "note": None,
    }
    table = table_of("item", COLUMNS, ["item_id"], schema_file="models/item.avsc")
    table["columns"][2]["config"] = {"meta": {"ingest": {"semantic_type": "io.debezium.time.NanoTimestamp"}}}
    project.declare({"tables": [table]})
    assert project.source().tables[0].columns[2].semantic_type == "io.debezium.time.NanoTimestamp"


@pytest.mark.parametrize(
    "written",
    [
        {"type": "long", "connect.name": "org.apache.kafka.connect.data.Timestamp", "logicalType": "timestamp-millis"},
        {"type": "long", "logicalType": "timestamp-millis"},
    ],
    ids=["connect", "avro"],
)
def test_milliseconds_are_told_in_the_words_of_connect_and_avro_too(
    written: dict[str, Any], make_project: MakeProject
) -> None:
    """`time.precision.mode=connect`: PostgreSQL's times were taken for microseconds, and were of 1970."""
    schema = {"type": "record", "name": "Value", "fields": [{"name": "made_at", "type": ["null", written]}]}
    columns = project_of(make_project, json.dumps(schema)).source().tables[0].columns
    assert {column.name: column.semantic_type for column in columns}["made_at"] == "io.debezium.time.Timestamp"


@pytest.mark.parametrize("schema", ["no JSON", "[]", '{"type": "record"}'])
def test_a_file_without_a_records_schema_is_refused(schema: str, make_project: MakeProject) -> None:
    with pytest.raises(DeclarationError) as error:
        project_of(make_project, schema).source()
    assert "shop.item: config.meta.ingest.schema_file" in error.value.message
    assert "expected: the Avro schema of a record" in error.value.message


@pytest.mark.slow
def test_json_of_files_and_of_records_is_read_by_the_file(make_project: MakeProject, spark: SparkSession) -> None:
    project = project_of(make_project, format="json")
    project.deliver("shop.item", 0, [item(1), {**item(2), "more": 7}])
    # The first byte of a bare Avro value could be any: `format: json` says that it is a text's.
    values = [json.dumps(item(3)).encode(), b"\x02", None]
    project.deliver("shop.item", 10, records_file([(None, value) for value in values], offset=10), "parquet")
    landed = project.land_well(spark)["item"]
    assert landed.counts == Counts(read=5, applied=3, ignored=1, quarantined=1)
    made = {"made_on": date(2021, 12, 18), "made_at": datetime(2021, 12, 18, 21, 14, 15, 615_000), "note": '{"a": 1}'}
    assert project.rows(spark, "item", *COLUMNS) == [{"item_id": number, **made} for number in (1, 2, 3)]
    # A key that the file does not have follows the schema policy.
    assert project.rows(spark, "item", "item_id", "more")[1] == {"item_id": 2, "more": 7}
