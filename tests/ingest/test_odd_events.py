"""Events of rows that look like something else, or that one setting makes odd: each is landed right, or set aside."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DbtProject, MakeProject, Row, pg, table_of
from json_records import ALL, connect, connect_struct, envelope, records, with_schema
from pyspark.sql import SparkSession

from ingest.operations.replay import replay
from ingest.schema.connectors import UNAVAILABLE_VALUE

pytestmark = pytest.mark.spark
# A table whose columns have the names of an envelope's members.
MEMBERS = {"id": "int", "source": "string", "op": "string", "message": "string", "at": "bigint"}
OPS = ("c", "d", "m", "insert")
ORDERED: dict[str, Any] = {"connector": None, "order_by": ["at"], **ALL}


def of_parquet(rows: Sequence[Row], types: Mapping[str, pa.DataType]) -> bytes:
    """Unwrapped events as a file of Parquet."""
    own = {"__op": pa.string(), "__lsn": pa.int64(), "__source_ts_ms": pa.int64(), "__deleted": pa.string()}
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), pa.schema(list({**types, **own}.items()))), sink)
    return sink.getvalue()


def set_aside(project: DbtProject, spark: SparkSession) -> dict[str, list[str]]:
    """The codes of what is quarantined, by table."""
    found = defaultdict(list)
    for event in project.quarantined(spark):
        found[event["source_table"]].append(event["reason_code"])
    return dict(found)


def test_a_real_of_a_key_is_the_number_of_the_record_s_key(make_project: MakeProject, spark: SparkSession) -> None:
    """0.2 of four bytes is 0.20000000298 as a double: a delete of 0.2 missed its row."""
    columns = {"f": "double", "n": "int"}
    project = make_project({"tables": [table_of("reals", columns, ["f"], **ALL)]})
    row = {"f": connect("float"), "n": connect("int32")}
    events = [pg("c", 1, f=0.1, n=1), pg("c", 2, f=0.2, n=1), pg("d", 3, f=0.2, n=0)]
    records(project, *(({"f": event["f"]}, with_schema(event, row)) for event in events), topic="shop.reals")
    project.land_well(spark)
    assert project.rows(spark, "reals") == [{"f": 0.1, "n": 1}]


def test_a_placeholder_is_no_key(make_project: MakeProject, spark: SparkSession) -> None:
    """An unchanged TOASTed key: its value is that of the record's key, and nothing is known of it without one."""
    columns = {"id": "string", "note": "string"}
    project = make_project({"tables": [table_of(name, columns, ["id"], **ALL) for name in ("bare", "keyed")]})
    events = [pg("c", 1, id="k", note="a"), pg("u", 2, id=UNAVAILABLE_VALUE, note="b")]
    project.deliver("shop.bare", 0, events)
    records(project, *(({"id": "k"}, event) for event in events), topic="shop.keyed")
    project.land_well(spark)
    assert project.rows(spark, "bare") == [{"id": "k", "note": "a"}]
    assert project.rows(spark, "keyed") == [{"id": "k", "note": "b"}]
    assert set_aside(project, spark) == {"bare": ["missing_key"]}


@pytest.mark.parametrize("form", ["plain", "beside a broken line", "schema", "parquet"])
def test_a_row_with_the_columns_of_an_envelope_is_a_row(
    form: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """Without `__op`, nothing but its `source` tells: an envelope's is an object."""
    project = make_project({"tables": [table_of("logs", MEMBERS, ["id"], **ORDERED)]})
    rows: list[Row] = [
        {"id": key, "source": "web", "op": op, "message": "hello", "at": key} for key, op in enumerate(OPS)
    ]
    if form == "parquet":
        types = {"id": pa.int32(), "at": pa.int64(), **dict.fromkeys(("source", "op", "message"), pa.string())}
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(list(types.items()))), sink)
        project.deliver("shop.logs", 0, sink.getvalue(), "parquet")
    else:
        of_schema = {"id": connect("int32"), "at": connect("int64")}
        of_schema |= {name: connect("string") for name in ("source", "op", "message")}
        wrapped = [{"schema": connect_struct(of_schema), "payload": row} for row in rows]
        events = [json.dumps(event) for event in (wrapped if form == "schema" else rows)]
        project.deliver("shop.logs", 0, [*events, *(["{broken"] if "broken" in form else [])])
    project.land_well(spark)
    assert [(row["id"], row["op"]) for row in project.rows(spark, "logs")] == list(enumerate(OPS))
    assert set_aside(project, spark) == ({"logs": ["invalid_json"]} if "broken" in form else {})


def test_a_text_that_names_no_folder_stops_no_table(make_project: MakeProject, spark: SparkSession) -> None:
    """A partition's folder has a name of 255 bytes at most, with what Hudi escapes; Hive's name for null is none."""
    texts = {
        "long": "x" * 254,
        "wide": "\u00e9" * 127,
        "escaped": "a/" * 64,
        "null": "__HIVE_DEFAULT_PARTITION__",
    }
    fits = {"long": "x" * 253, "wide": "\u00e9" * 126, "escaped": "a/" * 63, "null": "HIVE_DEFAULT_PARTITION"}
    columns = {"id": "int", "p": "string"}
    project = make_project({"tables": [table_of(name, columns, ["id"], partition_by=["p"], **ALL) for name in texts]})
    for name, text in texts.items():
        events = [pg("c", 1, id=1, p=fits[name]), pg("c", 2, id=2, p=text), pg("c", 3, id=3, p="a")]
        project.deliver(f"shop.{name}", 0, events)
    project.land_well(spark)
    assert {name: [row["p"] for row in project.rows(spark, name)] for name in texts} == {
        name: [text, "a"] for name, text in fits.items()
    }
    assert set_aside(project, spark) == {name: ["bad_value"] for name in texts}


@pytest.mark.parametrize("form", ["envelope", "unwrapped", "plain", "parquet"])
def test_a_name_with_a_backtick_stops_no_table(form: str, make_project: MakeProject, spark: SparkSession) -> None:
    """Of a field that no declaration names, and that silver cannot have: only where it has a value."""
    project = make_project({"tables": [table_of("odd", {"id": "int"}, ["id"], **ALL)]})
    values: list[dict[str, Any]] = [{"id": 1, "a`b": None}, {"id": 2, "a`b": "v"}, {"id": 3, "a`b": None}]
    row = {"id": connect("int32"), "a`b": connect("string")}
    if form == "parquet":
        events = [pg("c", value["id"], **value) for value in values]
        content = of_parquet(events, {"id": pa.int32(), "a`b": pa.string()})
        project.deliver("shop.odd", 0, content, "parquet")
    elif form == "envelope":
        project.deliver("shop.odd", 0, [with_schema(envelope("c", each["id"], after=each), row) for each in values])
    else:
        events = [pg("c", value["id"], **value) for value in values]
        project.deliver("shop.odd", 0, [with_schema(event, row) if form == "unwrapped" else event for event in events])
    project.land_well(spark)
    assert [each["id"] for each in project.rows(spark, "odd")] == [1, 3]
    assert set_aside(project, spark) == {"odd": ["schema_policy"]}


@pytest.mark.parametrize("form", ["unwrapped", pytest.param("envelope", marks=pytest.mark.slow)])
def test_what_spark_infers_nothing_of_is_not_left_out(
    form: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """An empty object is a value, and so is that of an empty name, which no column has."""
    project = make_project({"tables": [table_of("maps", {"id": "int"}, ["id"], **ALL)]})
    rows: list[Row] = [{"id": 1, "h": {}, "l": [{}], "n": 1}, {"id": 2, "": 5}, {"id": 3, "": None}]
    of_rows = {
        "unwrapped": [pg("c", each["id"], **each) for each in rows],
        "envelope": [envelope("c", each["id"], after=each) for each in rows],
    }
    project.deliver("shop.maps", 0, of_rows[form])
    project.land_well(spark)
    first = {"id": 1, "h": "{}", "l": "[{}]", "n": 1}
    assert project.rows(spark, "maps", *first) == [first, {"id": 3, "h": None, "l": None, "n": None}]
    assert set_aside(project, spark) == {"maps": ["schema_policy"]}


@pytest.mark.parametrize("form", ["unwrapped", pytest.param("envelope", marks=pytest.mark.slow)])
def test_names_that_differ_by_case_leave_the_others_their_meanings(
    form: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """Spark reads no such row by its schema, which says what the values of the other columns mean all the same."""
    columns = {"id": "int", "name": "string", "at": "timestamp", "time": "string"}
    columns |= {"price": "decimal(8,2)", "n": "decimal(8,2)"}
    project = make_project({"tables": [table_of("t", columns, ["id"], **ALL)]})
    decimal = connect("bytes", name="org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"})
    row = {"id": connect("int32"), "name": connect("string"), "NAME": connect("string"), "price": decimal, "n": decimal}
    row["at"] = connect("int64", name="io.debezium.time.Timestamp")
    row["time"] = row["new"] = connect("int64", name="io.debezium.time.MicroTime")
    values: dict[str, Any] = {"id": 1, "name": "n", "NAME": None, "at": 86_400_000, "price": "BNI=", "n": 12.5}
    values |= {"time": 1, "new": 2}
    event = pg("c", 1, **values) if form == "unwrapped" else envelope("c", 1, after=values)
    project.deliver("shop.t", 0, [with_schema(event, row)])
    project.land_well(spark)
    assert project.quarantined(spark) == []
    shown = ("name", "time", "new", *(f"cast({name} as string) as {name}" for name in ("at", "price", "n")))
    found = spark.table(project.source().tables[0].relation).selectExpr(*shown).first()
    assert found == ("n", "00:00:00.000001", "00:00:00.000002", "1970-01-02 00:00:00", "12.34", "12.50")


def test_an_event_with_a_map_of_numbers_is_replayed(make_project: MakeProject, spark: SparkSession) -> None:
    """JSON, as which it waits in the quarantine, has texts for keys: reading it again failed for the whole table."""
    project = make_project({"tables": [table_of("maps", {"id": "int", "m": "string", "n": "int"}, ["id"], **ALL)]})
    rows = [pg("c", 1, id=1, m=[(7, "c")], n="5000000000"), pg("c", 2, id=2, m=[(7, "c")], n="1")]
    content = of_parquet(rows, {"id": pa.int32(), "m": pa.map_(pa.int32(), pa.string()), "n": pa.string()})
    project.deliver("shop.maps", 0, content, "parquet")
    project.land_well(spark)
    assert set_aside(project, spark) == {"maps": ["bad_value"]}
    declared = table_of("maps", {"id": "int", "m": "string", "n": "bigint"}, ["id"], **ALL)
    project.declare({"tables": [declared]})
    project.land_well(spark)
    assert replay(spark, project.source().choose(["maps"])[0]).error is None
    wanted = [{"id": key, "m": '{"7":"c"}', "n": number} for key, number in ((1, 5_000_000_000), (2, 1))]
    assert project.rows(spark, "maps") == wanted
    assert project.quarantined(spark) == []


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
def test_a_placeholder_beyond_ascii_is_known_in_an_array(
    separators: tuple[str, str], make_project: MakeProject, spark: SparkSession
) -> None:
    """Java's bytes, which stand for an array of numbers, have a sign."""
    word = "\u043d\u0435"
    options = {"unavailable_value_placeholder": word, **ALL}
    project = make_project({"tables": [table_of("a", {"id": "int", "a": "array<int>", "n": "int"}, ["id"], **options)]})
    signed = [byte - 256 if byte > 127 else byte for byte in word.encode()]
    events = [pg("c", 1, id=1, a=[5], n=1), pg("u", 2, id=1, a=signed, n=2)]
    project.deliver("shop.a", 0, [json.dumps(event, separators=separators) for event in events])
    project.land_well(spark)
    assert project.rows(spark, "a") == [{"id": 1, "a": [5], "n": 2}]
