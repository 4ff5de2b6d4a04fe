"""Types of Avro and Parquet that Debezium's usual events have not: unions, times of day, what is nested, arrays."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import MakeProject, Row, pg, table_of
from json_records import ALL, connect, envelope, records, with_schema
from pyspark.sql import SparkSession
from registry_server import serve, use_registry

from ingest.operations.replay import replay
from ingest.silver.state import Counts

pytestmark = pytest.mark.spark
AT = datetime(2024, 1, 2, 3, 4, 5, 123_456, tzinfo=UTC)
METADATA = {"__op": "string", "__lsn": "long", "__source_ts_ms": "long", "__deleted": "string"}


def avro_schema(fields: Mapping[str, Any]) -> dict[str, Any]:
    known = {"id": "int", **fields, **{name: ["null", kind] for name, kind in METADATA.items()}}
    named = [{"name": name, "type": kind} for name, kind in known.items()]
    return {"type": "record", "name": "Value", "namespace": "shop.item", "fields": named}


def avro_file(fields: Mapping[str, Any], rows: Sequence[Row]) -> bytes:
    content = io.BytesIO()
    fastavro.writer(content, fastavro.parse_schema(avro_schema(fields)), rows)
    return content.getvalue()


def parquet_file(fields: Mapping[str, Any], rows: Sequence[Row]) -> bytes:
    kinds = {"string": pa.string(), "long": pa.int64()}
    types = {"id": pa.int32(), **fields, **{name: kinds[kind] for name, kind in METADATA.items()}}
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), pa.schema(list(types.items()))), content)
    return content.getvalue()


def logical(kind: str, of: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": of, **more}


def test_avro_s_own_types_are_landed_as_what_they_say(make_project: MakeProject, spark: SparkSession) -> None:
    """A union of several types was `{"member0":"abc"}`, a time of day without a name of Connect's a number, nested
    timestamps ended at the millisecond, and a type that is named twice was unknown the second time.
    """
    nested = {"type": "record", "name": "Nested", "fields": [
        {"name": "a", "type": ["null", "int"]}, {"name": "at", "type": logical("long", "timestamp-micros")}
    ]}  # fmt: skip
    wide = logical("fixed", "decimal", name="Wide", size=20, precision=44, scale=2)
    fields = {
        "either": ["null", "string", "int"],
        "number": ["null", "int", "string"],
        "open": logical("int", "time-millis"),
        "shut": logical("long", "time-micros"),
        "millis": logical("long", "timestamp-millis"),
        "nested": nested,
        "mapped": {"type": "map", "values": logical("long", "timestamp-micros")},
        "wide": wide,
        "wide_too": "Wide",
    }
    row: Row = {"open": time(12, 0, 0, 500_000), "shut": time(12, 0, 0, 1), "millis": AT, "mapped": {"k": AT},
                "nested": {"a": None, "at": AT}, "wide": Decimal("1.50"), "wide_too": Decimal("-2.50")}  # fmt: skip
    columns = {"id": "int", "either": "string", "number": "bigint", "open": "string", "millis": "bigint",
               "nested": "string", "mapped": "string",
               "wide": "decimal(38,2)", "wide_too": "decimal(38,2)"}  # fmt: skip
    project = make_project({"tables": [table_of("item", columns, ["id"], **ALL)]})
    found = [("abc", 5), (7, "6"), (None, "six")]
    rows = [pg("c", key, id=key, either=one, number=other, **row) for key, (one, other) in enumerate(found)]
    project.deliver("shop.item", 0, avro_file(fields, rows), "avro")
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=2, quarantined=1)
    expected = {"open": "12:00:00.500000", "shut": "12:00:00.000001", "millis": 1_704_164_645_123,
                "nested": '{"a":null,"at":"2024-01-02T03:04:05.123456Z"}',
                "mapped": '{"k":"2024-01-02T03:04:05.123456Z"}',
                "wide": Decimal("1.50"), "wide_too": Decimal("-2.50")}  # fmt: skip
    assert project.rows(spark, "item", *columns, "shut") == [
        {"id": 0, "either": "abc", "number": 5, **expected}, {"id": 1, "either": "7", "number": 6, **expected}
    ]  # fmt: skip
    assert ["number" in each["reason"] for each in project.quarantined(spark)] == [True]


@pytest.mark.slow
def test_a_local_timestamp_that_waits_in_the_quarantine_keeps_its_microseconds(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project({"tables": [table_of("item", {"id": "int", "at": "timestamp", "n": "int"}, ["id"], **ALL)]})
    row = pg("c", 1, id=1, at=AT.replace(tzinfo=None), n="5000000000")
    fields = {"at": logical("long", "local-timestamp-micros"), "n": "string"}
    project.deliver("shop.item", 0, avro_file(fields, [row]), "avro")
    assert project.land_well(spark)["item"].counts == Counts(read=1, quarantined=1)
    wider = table_of("item", {"id": "int", "at": "timestamp", "n": "bigint"}, ["id"], **ALL)
    project.declare({"tables": [wider]})
    replay(spark, project.source().tables[0])
    assert project.rows(spark, "item") == [{"id": 1, "at": AT.replace(tzinfo=None), "n": 5_000_000_000}]


@pytest.mark.slow
def test_a_schema_that_spark_has_no_types_for_keeps_its_own_events_out_alone(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """A type that refers to itself, or names that differ by case alone, stopped the table with an error of Java's."""
    tree = {"type": "record", "name": "Tree", "fields": [
        {"name": "leaf", "type": "int"}, {"name": "boughs", "type": {"type": "array", "items": "Tree"}}
    ]}  # fmt: skip
    odd: dict[str, tuple[dict[str, Any], Row, str]] = {
        "tree": ({"note": tree}, {"note": {"leaf": 1, "boughs": []}}, "recursive reference"),
        "case": ({"note": "string", "NOTE": "string"}, {"note": "a", "NOTE": "b"}, "note, NOTE differ by case alone"),
    }
    columns = {"id": "int", "note": "string"}
    names = [f"{form}_{name}" for form in ("files", "records") for name in odd]
    project = make_project({"tables": [table_of(name, columns, ["id"], **ALL) for name in (*names, "rows")]})
    well, good = {"note": "string"}, pg("c", 2, id=2, note="well")
    written = [avro_schema(fields) for fields, *_ in odd.values()]
    schemas = {
        str(number): {"schema": json.dumps(schema)} for number, schema in enumerate([avro_schema(well), *written])
    }
    with serve(schemas) as registry:
        use_registry(project, registry.url)
        for number, (name, (fields, row, _)) in enumerate(odd.items(), 1):
            bad = pg("c", 1, id=1, **row)
            project.deliver(f"shop.files_{name}", 0, avro_file(fields, [bad]), "avro")
            project.deliver(f"shop.files_{name}", 10, avro_file(well, [good]), "avro")
            values = []
            for schema_id, schema, event in ((number, avro_schema(fields), bad), (0, avro_schema(well), good)):
                body = io.BytesIO(b"\0" + schema_id.to_bytes(4, "big"))
                body.seek(0, io.SEEK_END)
                fastavro.schemaless_writer(body, fastavro.parse_schema(schema), event)
                values.append((None, body.getvalue()))
            records(project, *values, topic=f"shop.records_{name}")
        kinds = {"note": pa.string(), "NOTE": pa.string()}
        project.deliver("shop.rows", 0, parquet_file(kinds, [pg("c", 1, id=1, note="a", NOTE="b")]), "parquet")
        project.deliver("shop.rows", 10, parquet_file({"note": pa.string()}, [good]), "parquet")
        landed = project.land(spark)
    reasons = {each["source_table"]: each for each in project.quarantined(spark)}
    for name in (*names, "rows"):
        assert project.rows(spark, name) == [{"id": 2, "note": "well"}], name
        told = odd[name.rpartition("_")[2] if name != "rows" else "case"][2]
        if name.startswith("records"):
            assert reasons[name]["reason_code"] == "unknown_schema"
            assert told in reasons[name]["reason"]
        else:
            error = landed[name].error
            assert error is not None
            assert "not readable by Spark: " in error.message
            assert told in error.message


@pytest.mark.slow
def test_what_parquet_writes_as_bytes_and_numbers_is_what_the_footer_says(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """Times of day and nanoseconds kept their file out, and decimals in an array were bytes."""
    columns = {"id": "int", "open": "string", "at": "timestamp", "prices": "array<decimal(38,2)>"}
    project = make_project({"tables": [table_of(name, columns, ["id"], **ALL) for name in ("rows", "envelopes")]})
    fields = {"open": pa.time64("us"), "shut": pa.time32("ms"), "at": pa.timestamp("ns"),
              "later": pa.timestamp("ns", tz="UTC"), "prices": pa.list_(pa.decimal256(40, 2)),
              "more": pa.list_(pa.decimal256(40, 2)), "times": pa.list_(pa.time32("ms"))}  # fmt: skip
    moment = 1_704_164_645_123_456_000
    row: Row = {"open": time(12, 0, 0, 5), "shut": time(12, 0, 0, 5000), "at": moment, "later": moment,
           "prices": [Decimal("1.50"), None], "more": [Decimal("-1.50")], "times": [time(1, 2, 3), None]}  # fmt: skip
    rows = [pg("c", 1, id=1, **row), pg("c", 2, id=2, **{**row, "at": moment + 1})]
    project.deliver("shop.rows", 0, parquet_file(fields, rows), "parquet")
    content = io.BytesIO()
    image = pa.struct([("id", pa.int32()), *fields.items()])
    source = pa.struct([("lsn", pa.int64()), ("ts_ms", pa.int64())])
    kinds = [("before", image), ("after", image), ("source", source), ("op", pa.string()), ("ts_ms", pa.int64())]
    event = envelope("c", 1, after={"id": 1, **row})
    pq.write_table(pa.Table.from_pylist([event], pa.schema(kinds)), content)
    project.deliver("shop.envelopes", 0, content.getvalue(), "parquet")
    landed = project.land_well(spark)
    assert landed["rows"].counts == Counts(read=2, applied=1, quarantined=1)
    at = AT.replace(tzinfo=None)
    expected = {"id": 1, "open": "12:00:00.000005", "shut": "12:00:00.005000", "at": at, "later": at,
                "prices": [Decimal("1.50"), None], "more": [Decimal("-1.50")],
                "times": ["01:02:03", None]}  # fmt: skip
    for name in ("rows", "envelopes"):
        assert project.rows(spark, name, *expected) == [expected], name


@pytest.mark.slow
def test_arrays_and_maps_that_nobody_declared_are_what_the_schema_says(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """Each event with an array of dates or timestamps was quarantined, silver having a date or a timestamp for it; the
    base64 of an array's decimals was taken for numbers, and a map by numbers was no value at all.
    """
    named = "io.debezium.time."
    decimal = connect("bytes", name="org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"})
    items = {
        "days": connect("int32", name=f"{named}Date"),
        "ats": connect("int64", name=f"{named}MicroTimestamp"),
        "times": connect("int64", name=f"{named}MicroTime"),
        "prices": decimal,
        "costs": decimal,
        "numbers": decimal,
    }
    row = {"id": connect("int32"), **{name: connect("array", items=item) for name, item in items.items()}}
    row["by_number"] = connect("map", keys=connect("int32"), values=connect("string"))
    after = {"id": 1, "days": [19_000, None], "ats": [1_704_164_645_123_456], "times": [43_200_000_001],
             "prices": [None, "AJY="], "costs": ["AJY="], "numbers": [1500, 2.25],
             "by_number": [[1, "a"], [2, None]]}  # fmt: skip
    project = make_project({"tables": [table_of("item", {"id": "int", "costs": "array<decimal(8,2)>"}, ["id"])]})
    project.deliver("shop.item", 0, [with_schema(envelope("c", 1, after=after), row)])
    project.land_well(spark)
    expected = {"days": [date(2022, 1, 8), None], "ats": [AT.replace(tzinfo=None)], "times": ["12:00:00.000001"],
                "prices": [None, Decimal("1.50")], "costs": [Decimal("1.50")],
                "numbers": [Decimal("1500.00"), Decimal("2.25")], "by_number": '[[1,"a"],[2,null]]'}  # fmt: skip
    assert project.rows(spark, "item", *expected) == [expected]


@pytest.mark.slow
def test_a_text_that_could_be_base64_or_hexadecimal_is_not_guessed(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """`binary.handling.mode=hex` without `binary: hex`: other bytes were landed."""
    tables = [table_of(name, {"id": "int", "data": "binary"}, ["id"], **ALL) for name in ("plain", "hex", "base64")]
    for table in tables[1:]:
        table["columns"][1]["config"] = {"meta": {"ingest": {"binary": table["name"]}}}
    project = make_project({"tables": tables})
    for name in ("plain", "hex", "base64"):
        texts = ["deadbeef", "AP8="] if name != "hex" else ["deadbeef"]
        project.deliver(f"shop.{name}", 0, [pg("c", key, id=key, data=text) for key, text in enumerate(texts)])
    project.land_well(spark)
    found = {name: [bytes(row["data"]) for row in project.rows(spark, name)] for name in ("plain", "hex", "base64")}
    assert found == {
        "plain": [b"\0\xff"], "hex": [b"\xde\xad\xbe\xef"], "base64": [b"u\xe6\x9dm\xe7\x9f", b"\0\xff"]
    }  # fmt: skip
    (reason,) = [each["reason"] for each in project.quarantined(spark)]
    assert "column data: deadbeef is not exactly a binary; say how a text holds bytes by `binary: base64`" in reason


@pytest.mark.slow
def test_a_column_that_a_transform_puts_beside_an_envelope_s_row_has_its_value(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """InsertField before the events are unwrapped: the declared columns were null."""
    columns = {"id": "int", "note": "string", "loaded_at": "timestamp", "place": "bigint"}
    project = make_project({"tables": [table_of(name, columns, ["id"]) for name in ("plain", "schema", "rows")]})
    added = {"loaded_at": 1_704_164_645_123, "place": 7}
    events = [
        {**envelope("c", 1, after={"id": 1, "note": "a"}), **added},
        {**envelope("c", 2, after={"id": 2, "note": "b"}), **added},
        {**envelope("d", 3, before={"id": 2, "note": ""}), **added},
    ]
    project.deliver("shop.plain", 0, [{**event, "loaded_at": "2024-01-02T03:04:05.123Z"} for event in events])
    row = {"id": connect("int32"), "note": connect("string")}
    beside = [
        {**connect("int64", name="org.apache.kafka.connect.data.Timestamp"), "field": "loaded_at"},
        {**connect("int64"), "field": "place"},
    ]
    written = [with_schema(event, row) for event in events]
    for each in written:
        each["schema"]["fields"] += beside
    project.deliver("shop.schema", 0, written)
    image = pa.struct([("id", pa.int32()), ("note", pa.string())])
    source = pa.struct([("lsn", pa.int64()), ("ts_ms", pa.int64())])
    kinds = [("before", image), ("after", image), ("source", source), ("op", pa.string()),
             ("loaded_at", pa.timestamp("ms")), ("place", pa.int64())]  # fmt: skip
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(events, pa.schema(kinds)), content)
    project.deliver("shop.rows", 0, content.getvalue(), "parquet")
    for landed in project.land_well(spark).values():
        assert landed.counts == Counts(read=3, applied=2, superseded=1)
    at = AT.replace(tzinfo=None, microsecond=123_000)
    for name in ("plain", "schema", "rows"):
        assert project.rows(spark, name) == [{"id": 1, "note": "a", "loaded_at": at, "place": 7}], name
