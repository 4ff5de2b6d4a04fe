"""Each way by which values were once lost, or their order, as a test of its own; test_forms.py combines them."""

from __future__ import annotations

import base64
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import MakeProject, pg, table_of, unwrapped
from json_records import ALL, TOPIC, avro, connect, envelope, items, money, records, with_schema
from pyspark.sql import SparkSession
from registry_server import serve, use_registry

from ingest.schema.connectors import UNAVAILABLE_VALUE
from ingest.silver.state import Counts

pytestmark = pytest.mark.spark


DAYS = [date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 5), date(1582, 10, 14), date(1582, 10, 15), date(9999, 12, 31)]
INSTANTS = [
    datetime(1, 1, 1),
    datetime(1582, 10, 4, 23, 59, 59, 999_999),
    datetime(1582, 10, 10, 12),
    datetime(1899, 12, 31, 23, 59, 59),
    datetime(2016, 12, 31, 23, 59, 59, 999_999),
    datetime(9999, 12, 31, 23, 59, 59, 999_999),
]


def micros(at: datetime) -> int:
    return (at.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("table_type", "version"),
    [
        ("cow", 9),
        pytest.param("mor", 9, marks=pytest.mark.slow),
        pytest.param("cow", 6, marks=pytest.mark.slow),
        pytest.param("mor", 6, marks=pytest.mark.slow),
    ],
)
def test_old_dates_and_timestamps_are_landed_everywhere(
    table_type: str, version: int, make_project: MakeProject, spark: SparkSession
) -> None:
    """The first batch is a bulk insert, later ones are merged or logged, the eleventh of a MoR table is compacted."""
    columns = {"id": "int", "day": "date", "at": "timestamp"}
    project = make_project(items(columns, table_type=table_type, table_version=version, history=True))
    wanted: dict[int, tuple[date, datetime]] = {}
    batches = 12 if table_type == "mor" else 3
    for batch in range(batches):
        events = []
        for number in range(len(DAYS)):
            key = number if batch % 2 else batch * 10 + number
            day, at = DAYS[(number + batch) % len(DAYS)], INSTANTS[(number + batch) % len(DAYS)]
            wanted[key] = (day, at)
            row: dict[str, Any] = {"id": key, "day": (day - date(1970, 1, 1)).days, "at": micros(at)}
            events.append(pg("c", 100 * batch + number, **row))
        project.deliver(TOPIC, batch * 10, events)
        assert project.land_well(spark)["item"].counts == Counts(read=len(DAYS), applied=len(DAYS))
    # As numbers: Python has no local time for the first hours of year 1.
    numbers = ("id", "unix_date(day) as day", "unix_micros(at) as at")
    rows = spark.table(f"`{project.schema}`.item").selectExpr(*numbers).collect()
    assert {row["id"]: (row["day"], row["at"]) for row in rows} == {
        key: ((day - date(1970, 1, 1)).days, micros(at)) for key, (day, at) in wanted.items()
    }
    changes = spark.table(f"`{project.schema}`.item__changes").selectExpr(*numbers).collect()
    assert {row["day"] for row in changes} == {(day - date(1970, 1, 1)).days for day in DAYS}
    assert {row["at"] for row in changes} == {micros(at) for at in INSTANTS}
    # Another reader, which knows no calendar but the proleptic Gregorian one: days and microseconds since 1970.
    files = sorted(Path(project.silver(spark, "item").path.removeprefix("file:")).glob("*.parquet"))
    stored = pa.concat_tables([pq.read_table(file, columns=["id", "day", "at"]) for file in files])
    of_files = zip(stored["day"].cast(pa.int32()).to_pylist(), stored["at"].cast(pa.int64()).to_pylist(), strict=True)
    assert {(day, at) for day, at in of_files} <= {
        ((day - date(1970, 1, 1)).days, micros(at)) for day, at in zip(DAYS, INSTANTS, strict=True)
    }


def unscaled(value: Decimal) -> bytes:
    number = int(f"{value:.2f}".replace(".", ""))
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


@pytest.mark.slow
def test_avro_decimals_of_more_than_38_digits_are_read(make_project: MakeProject, spark: SparkSession) -> None:
    """PostgreSQL's money arrives as decimal(64,2), which Spark's reader refuses with the whole schema."""
    columns = {"id": "int", "price": "decimal(38,2)"}
    nines = "9" * 36 + ".99"
    values = [Decimal("12.50"), Decimal("-0.01"), Decimal(nines), Decimal(f"-{nines}")]
    beyond = Decimal("9" * 37 + ".00")
    rows = [pg("c", key, id=key, price=unscaled(value)) for key, value in enumerate([*values, beyond])]
    assert len(rows[2]["price"]) == 16
    by_registry, as_files, wider = (make_project(items(columns, **ALL)) for _ in range(3))
    with serve({"3": {"schema": json.dumps(money())}}) as registry:
        use_registry(by_registry, registry.url)
        records(by_registry, *((None, avro(money(), row, b"\0\0\0\0\3")) for row in rows))
        landed = [by_registry.land_well(spark)]
    for project, filled in ((as_files, False), (wider, True)):
        plain = json.loads(json.dumps(money()).replace('"logicalType": "decimal", ', ""))
        sink = io.BytesIO()
        written = [
            {**row, "price": row["price"].rjust(20, b"\xff" if row["price"][0] > 127 else b"\0")} if filled else row
            for row in rows
        ]
        fastavro.writer(sink, fastavro.parse_schema(plain), written)
        project.deliver(TOPIC, 0, sink.getvalue(), "avro")
        landed.append(project.land_well(spark))
    for project, results in zip((by_registry, as_files, wider), landed, strict=True):
        assert results["item"].counts == Counts(read=5, applied=4, quarantined=1)
        assert [row["price"] for row in project.rows(spark, "item")] == values
        assert [row["reason_code"] for row in project.quarantined(spark)] == ["bad_value"]


def decimal_schema(scale: int, precision: int | None = None) -> dict[str, Any]:
    parameters = {"scale": str(scale)} | ({"connect.decimal.precision": str(precision)} if precision else {})
    return connect("bytes", name="org.apache.kafka.connect.data.Decimal", version=1, parameters=parameters)


@pytest.mark.parametrize("form", ["unwrapped", "envelope"])
def test_the_schema_of_a_json_event_is_believed(form: str, make_project: MakeProject, spark: SparkSession) -> None:
    """1.5000 of scale 4 is 1.50, whatever scale is declared; a date in days is one, a timestamp has its own unit."""
    columns = {"id": "int", "price": "decimal(8,2)", "at": "timestamp", "big": "string", "data": "binary"}
    row = {
        "id": connect("int32"),
        "price": decimal_schema(4),
        "at": connect("int64", name="io.debezium.time.Timestamp", version=1),
        "big": connect("string"),
        "data": connect("bytes"),
    }
    project = make_project(items(columns, **ALL))

    def event(key: int, price: Any) -> dict[str, Any]:
        values = {"id": key, "price": price, "at": 1_700_000_000_123, "big": "null", "data": "AP8="}
        return with_schema(pg("c", key, **values) if form == "unwrapped" else envelope("c", key, after=values), row)

    # 15000 of scale 4; 150 as a number (decimal.format=NUMERIC); 12345 of scale 4 does not fit two decimals.
    prices = ["Opg=", 1.5, "MDk=", None]
    delivered = records(project, *(({"id": key}, event(key, price)) for key, price in enumerate(prices)))
    assert project.land_well(spark)["item"].counts == Counts(read=delivered, applied=3, quarantined=1)
    rows = project.rows(spark, "item")
    at = datetime(2023, 11, 14, 22, 13, 20, 123_000)
    assert [(row["price"], row["at"], bytes(row["data"])) for row in rows] == [
        (Decimal("1.50"), at, b"\0\xff"), (Decimal("1.50"), at, b"\0\xff"), (None, at, b"\0\xff")
    ]  # fmt: skip
    assert [(row["offset"], row["reason_code"]) for row in project.quarantined(spark)] == [(2, "bad_value")]


@pytest.mark.slow
def test_a_decimal_is_as_wide_as_the_schema_of_a_json_event_says(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project(items({"id": "int", "price": "decimal(6,2)"}))
    for batch, (digits, price) in enumerate(((6, "MDk="), (12, "AlQL47U="))):
        row = {"id": connect("int32"), "price": decimal_schema(2, digits), "more": decimal_schema(1, digits)}
        values = {"id": batch, "price": price, "more": "MDk="}
        records(project, ({"id": batch}, with_schema(envelope("c", batch + 1, after=values), row)), offset=10 * batch)
        project.land_well(spark)
    rows = project.rows(spark, "item", "price", "more")
    assert [row["price"] for row in rows] == [Decimal("123.45"), Decimal("99999999.25")]
    types = dict(spark.table(f"{project.schema}.item").dtypes)
    assert (types["price"], types["more"]) == ("decimal(12,2)", "decimal(12,1)")
    assert project.quarantined(spark) == []


def test_a_decimal_is_a_number_whatever_stands_beside_its_row(make_project: MakeProject, spark: SparkSession) -> None:
    """With decimal.format=NUMERIC or base64; of `name` the envelope's source has a text, and so may the row before."""
    names = ("name", "qty")
    project = make_project(items({"id": "int", **dict.fromkeys(names, "decimal(8,2)"), "note": "string"}))
    row = {"id": connect("int32"), **dict.fromkeys(names, decimal_schema(2)), "note": connect("string")}
    number, text = Decimal("1234.00"), Decimal("123.45")
    # What is written before the change, after it, and what it is. A null is followed by the text of another column.
    written: list[tuple[Any, Any, Decimal | None]] = [
        (None, 1234, number),
        (None, "MDk=", text),
        ("MDk=", 1234, number),
        (1234, "MDk=", text),
        ("MDk=", None, None),
    ]
    cases = [("c", None, after, wanted) for _, after, wanted in written]
    cases += [("u", before, after, wanted) for before, after, wanted in written]
    events = []
    for key, (op, before, after, _) in enumerate(cases):
        was = {"id": key, **dict.fromkeys(names, before), "note": "a"} if op == "u" else None
        event = envelope(op, key + 1, was, {"id": key, **dict.fromkeys(names, after), "note": "a"})
        events.append(({"id": key}, with_schema(event, row)))
    records(project, *events)
    project.land_well(spark)
    found = [(row["name"], row["qty"]) for row in project.rows(spark, "item")]
    assert found == [(wanted, wanted) for *_, wanted in cases]


@pytest.mark.parametrize("form", ["unwrapped", "envelope", "payload", "described", "described envelope"])
def test_a_number_keeps_every_digit(form: str, make_project: MakeProject, spark: SparkSession) -> None:
    """JsonConverter with `decimal.format=NUMERIC`: Spark's parser makes doubles of fractions, in keys and arrays."""
    digits = "12345678901234567890.123456789"
    small = "-1234.000000000000123456789"
    project = make_project(
        items(
            {
                "id": "decimal(38,9)",
                "price": "decimal(38,21)",
                "prices": "array<decimal(38,21)>",
                "ratio": "double",
                "note": "string",
            },
            key=["id"],
        )
    )
    row = {"id": decimal_schema(9), "price": decimal_schema(21), "prices": connect("array", items=decimal_schema(21)),
           "ratio": connect("double"), "note": connect("string")}  # fmt: skip
    values: dict[str, Any] = {
        "id": "ID",
        "price": "PRICE",
        "prices": ["PRICE", 2.5, None, "PRICE"],
        "ratio": 0.30000000000000004,
        "note": f': {digits}, a"b\\,"price": {digits}, "c',
    }
    written = pg("c", 5, **values) if "envelope" not in form else envelope("c", 5, after=values)
    event = {"payload": written} if form == "payload" else written
    event = with_schema(written, row) if form.startswith("described") else event

    def bare(value: Any) -> str:
        return json.dumps(value, separators=(",", ":")).replace('"ID"', digits).replace('"PRICE"', small)

    records(project, (bare({"id": "ID"}), bare(event)))
    project.land_well(spark)
    exact: dict[str, Any] = {"id": Decimal(digits), "price": Decimal(small)}
    exact["prices"] = [exact["price"], Decimal("2.5"), None, exact["price"]]
    assert project.rows(spark, "item", *values) == [{**values, **exact}]


@pytest.mark.slow
def test_a_fraction_is_the_number_of_its_text(make_project: MakeProject, spark: SparkSession) -> None:
    """A float or double holds what a text says, which has as few digits as the number needs; or the text is refused."""
    written = {
        "float": ["0.1", "16777216", "1.0E10", "3.4028235E38", "1.17549435E-38", "0.10000000149011612", "0.12345679"],
        "double": [
            "9007199254740992",
            "-51126493454698140",
            "12345678901234567000",
            "1e19",
            "0.1",
            "1.7976931348623157E308",
        ],
    }
    refused = {
        "float": ["16777217", "9007199254740993", "0.123456789012", "1e40", "12345678901234567890"],
        "double": ["9007199254740993", "12345678901234567890", "1e400"],
    }
    project = make_project({"tables": [table_of(kind, {"id": "int", "value": kind}, ["id"]) for kind in written]})
    for kind, texts in written.items():
        every = enumerate([*texts, *refused[kind]])
        project.deliver(f"shop.{kind}", 0, [pg("c", number, id=number, value=text) for number, text in every])
    landed = project.land_well(spark)
    for kind, texts in written.items():
        counts = Counts(read=len(texts) + len(refused[kind]), applied=len(texts), quarantined=len(refused[kind]))
        assert landed[kind].counts == counts
        found = [row["value"] for row in project.rows(spark, kind, "value")]
        as_written = [float(np.float32(text)) if kind == "float" else float(text) for text in texts]
        assert found == as_written


def test_a_decimal_of_a_schema_is_its_number_in_a_text(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project(items({"id": "int", "note": "string"}))
    row = {"id": connect("int32"), "note": decimal_schema(2)}
    created = [with_schema(pg("c", key, id=key, note=note), row) for key, note in enumerate(["AfM=", 4.5, None])]
    records(project, *(({"id": key}, event) for key, event in enumerate(created)))
    project.land_well(spark)
    assert [found["note"] for found in project.rows(spark, "item")] == ["4.99", "4.50", None]


def test_typed_dates_and_timestamps_are_of_the_years_that_sql_has(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """And declared a number they are the number that was written."""
    kinds = {
        "at": ("long", "timestamp-millis", "Timestamp"),
        "day": ("int", "date", "Date"),
        "millis": ("long", "timestamp-millis", "Timestamp"),
        "days": ("int", "date", "Date"),
    }
    fields: list[dict[str, Any]] = [{"name": "id", "type": "int"}]
    for name, (kind, logical, meaning) in kinds.items():
        written = {"type": kind, "logicalType": logical, "connect.name": f"org.apache.kafka.connect.data.{meaning}"}
        fields.append({"name": name, "type": ["null", written]})
    metadata = {"__op": "string", "__lsn": "long", "__source_ts_ms": "long", "__deleted": "string"}
    fields += [{"name": name, "type": ["null", kind]} for name, kind in metadata.items()]
    infinite = {2: (9_223_372_036_825_200, 2_147_483_647), 3: (-9_223_372_036_832_400, -2_147_483_648)}
    others = {1: (-1_500, -1), 4: (253_402_300_800_000, 2_932_897), 5: (-62_135_596_800_001, -719_163)}
    rows = [
        pg("c", key, id=key, at=at, day=day, millis=at, days=day) for key, (at, day) in {**infinite, **others}.items()
    ]
    columns = {"id": "int", "at": "timestamp", "day": "date", "millis": "bigint", "days": "int"}
    tables = [table_of(name, columns, ["id"], **ALL) for name in ("strict", "special")]
    for number in (1, 2):
        tables[1]["columns"][number]["config"] = {"meta": {"ingest": {"special_values": "null"}}}
    project = make_project({"tables": tables})
    content = io.BytesIO()
    fastavro.writer(content, fastavro.parse_schema({"type": "record", "name": "Value", "fields": fields}), rows)
    for name in ("strict", "special"):
        project.deliver(f"shop.{name}", 0, content.getvalue(), "avro")
    landed = project.land_well(spark)
    assert landed["strict"].counts == Counts(read=5, applied=1, quarantined=4)
    assert landed["special"].counts == Counts(read=5, applied=3, quarantined=2)
    first: dict[str, Any] = {"id": 1, "at": datetime(1969, 12, 31, 23, 59, 58, 500_000), "day": date(1969, 12, 31)}
    numbers = [{"millis": at, "days": day} for at, day in (others[1], *infinite.values())]
    assert project.rows(spark, "strict") == [{**first, **numbers[0]}]
    nulls: list[dict[str, Any]] = [{"id": key, "at": None, "day": None} for key in infinite]
    assert project.rows(spark, "special") == [{**row, **n} for row, n in zip([first, *nulls], numbers, strict=True)]


@pytest.mark.slow
def test_the_schema_policy_sees_types_of_json_with_a_schema(make_project: MakeProject, spark: SparkSession) -> None:
    columns = {"id": "int", "stock": "int", "price": "decimal(8,2)", "flag": "boolean"}
    wide = {
        "id": connect("int32"),
        "stock": connect("int64"),
        "price": decimal_schema(4, 12),
        "flag": connect("array", items=connect("int32")),
        "extra": connect("int32", name="io.debezium.time.Date", version=1),
    }
    values: dict[str, Any] = {"id": 1, "stock": 2**40, "price": "Opg=", "flag": None, "extra": 19_000}
    evolving = make_project(items(columns))
    keeping = make_project(items(columns, **ALL, schema_policy={"widen": "keep", "add": "keep"}))
    for project in (evolving, keeping):
        records(project, ({"id": 1}, with_schema(pg("c", 1, **values), wide)),
                ({"id": 2}, with_schema(pg("c", 2, **{**values, "id": 2, "flag": [1]}), wide)))  # fmt: skip
    assert evolving.land_well(spark)["item"].counts == Counts(read=2, applied=1, quarantined=1)
    (row,) = spark.table(f"`{evolving.schema}`.item").collect()
    assert (row["stock"], row["price"], row["extra"]) == (2**40, Decimal("1.5000"), date(2022, 1, 8))
    assert [row["reason_code"] for row in evolving.quarantined(spark)] == ["schema_policy"]
    assert keeping.land_well(spark)["item"].counts == Counts(read=2, quarantined=2)
    assert {row["reason_code"] for row in keeping.quarantined(spark)} == {"bad_value", "schema_policy"}


def binlog(op: str, pos: int, row: int | None = None, **values: Any) -> dict[str, Any]:
    position = {"__source_file": "bin.000001", "__source_pos": pos} | ({} if row is None else {"__source_row": row})
    return unwrapped(op, position, values)


@pytest.mark.slow
@pytest.mark.parametrize("connector", ["mariadb", "mysql"])
def test_file_and_position_order_the_changes_of_a_key(
    connector: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """The articles' add.fields have no row: of the changes of one event in the binlog the later offset counts."""
    project = make_project(items(connector=connector))
    records(
        project,
        ({"id": 1}, binlog("c", 100, id=1, note="a")),
        ({"id": 1}, binlog("u", 200, id=1, note="b")),
        ({"id": 2}, binlog("c", 300, id=2, note="a")),  # update item set id = id + 1: all at one position
        ({"id": 2}, binlog("d", 300, id=2, note="a")),
        ({"id": 3}, binlog("c", 300, id=3, note="a")),
        ({"id": 3}, binlog("c", 300, id=3, note="a")),  # once more
    )
    counts = project.land_well(spark)["item"].counts
    assert counts == Counts(read=6, applied=3, superseded=2, duplicate=1)
    assert [(row["id"], row["note"]) for row in project.rows(spark, "item")] == [(1, "b"), (3, "a")]
    records(
        project,
        ({"id": 3}, binlog("d", 300, id=3, note="a")),  # of the same event, in a later batch
        ({"id": 1}, binlog("u", 150, id=1, note="late")),
        ({"id": 2}, binlog("d", 300, id=2, note="a")),
        offset=10,
    )
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=1, superseded=1, duplicate=1)
    assert [(row["id"], row["note"]) for row in project.rows(spark, "item")] == [(1, "b")]


def test_debeziums_own_fields_order_changes_and_ties_are_counted(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """order_by __source_ts_ms: two changes of one millisecond are told apart by their offsets."""

    def event(at: int, **row: Any) -> dict[str, Any]:
        return {**row, "__op": "c", "__deleted": "false", "__source_ts_ms": at}

    entry = items(order_by=["__source_ts_ms"])
    del entry["tables"][0]["config"]["meta"]["ingest"]["connector"]
    project = make_project(entry)
    ties = [event(5, id=1, note=note) for note in ("a", "a", "b", "b", "c")]
    project.deliver(TOPIC, 0, [event(9, id=2, note="z"), *ties, event(3, id=2, note="old"), {"id": 4, "__op": "c"}])
    counts = project.land_well(spark)["item"].counts
    assert counts == Counts(read=8, applied=2, superseded=3, duplicate=2, quarantined=1)
    assert [(row["id"], row["note"]) for row in project.rows(spark, "item")] == [(1, "c"), (2, "z")]
    project.deliver(TOPIC, 20, [event(5, id=1, note="c"), event(5, id=2, note="late")])
    assert project.land_well(spark)["item"].counts == Counts(read=2, superseded=1, duplicate=1)
    project.deliver(TOPIC, 30, [event(5, id=1, note="d")])
    assert project.land_well(spark)["item"].counts == Counts(read=1, applied=1)
    assert [(row["id"], row["note"]) for row in project.rows(spark, "item")] == [(1, "d"), (2, "z")]
    assert [row["reason_code"] for row in project.quarantined(spark)] == ["missing_position"]


@pytest.mark.parametrize("apart", [False, True])
def test_in_files_of_any_name_a_snapshot_s_row_stands_where_debeziums_own_fields_say(
    apart: bool, make_project: MakeProject, spark: SparkSession
) -> None:
    """When such a file was written, it may be as a copy, says nothing of its events."""
    project = make_project(items({"id": "int", "note": "string"}, connector=None, order_by=["__source_ts_ms"]))
    for name, op, at in (("changes", "u", 200), ("snapshot", "r", 100)):
        row = {"id": 1, "note": name, "__op": op, "__deleted": "false", "__source_ts_ms": at}
        path = project.bronze / TOPIC / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(row), encoding="utf-8")
        if apart:
            project.land_well(spark)
    project.land_well(spark)
    assert project.rows(spark, "item") == [{"id": 1, "note": "changes"}]


@pytest.mark.parametrize("batches", [(0, 0), (0, 1), (1, 0)])
def test_of_a_snapshot_s_row_and_a_change_in_another_partition_the_log_says_which_counts(
    batches: tuple[int, int], make_project: MakeProject, spark: SparkSession
) -> None:
    """By `message.key.columns` a row's changes are in two partitions, and so they are once a topic has got more."""
    project = make_project(items({"id": "int", "note": "string"}))
    by_partition = {
        3: [pg("c", 90, id=1, note="old"), pg("d", 120, commit=110, id=1, note=""), pg("u", 95, id=2, note="old")],
        1: [pg("c", 120, commit=110, id=1, note="moved"), *(pg("r", 200, id=key, note="read") for key in (1, 2))],
    }
    for batch in (0, 1):
        for (partition, events), at in zip(by_partition.items(), batches, strict=True):
            if at == batch:
                project.deliver(TOPIC, 0, events, partition=partition)
        project.land_well(spark)
    assert project.rows(spark, "item") == [{"id": 1, "note": "read"}, {"id": 2, "note": "read"}]


def test_a_late_file_s_snapshot_row_is_older_than_what_was_delivered_behind_it(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """A transaction was open while the snapshot read the row; the last change of all is in another partition."""
    project = make_project(items({"id": "int", "note": "string"}))
    project.deliver(TOPIC, 950, [pg("u", 240, commit=200, id=1, note="open")])
    project.deliver(TOPIC, 50, [pg("c", 250, commit=245, id=7, note="other")], partition=1)
    project.land_well(spark)
    project.deliver(TOPIC, 900, [pg("r", 300, commit=200, id=1, note="read")])
    assert project.land_well(spark)["item"].counts == Counts(read=1, superseded=1)
    assert project.rows(spark, "item") == [{"id": 1, "note": "open"}, {"id": 7, "note": "other"}]


AWAY = [float(item) for item in UNAVAILABLE_VALUE.encode()]
# By column: its type, how Connect writes it, a value, and what Debezium writes where the log does not hold it.
TOASTED: dict[str, tuple[str, dict[str, Any], Any, Any]] = {
    "pairs": ("string", connect("string"), '{"a":"b"}', f'{{"{UNAVAILABLE_VALUE}":"{UNAVAILABLE_VALUE}"}}'),
    "mapped": ("string", connect("map", keys=connect("string"), values=connect("string")), {"a": "b"},
               {UNAVAILABLE_VALUE: UNAVAILABLE_VALUE}),
    "uuids": ("array<string>", connect("array", items=connect("string")), ["9d4c4f3e-0000-3000-8000-000000000000"],
              ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
    "files": ("array<binary>", connect("array", items=connect("bytes")), ["AP8="],
              [base64.b64encode(UNAVAILABLE_VALUE.encode()).decode()]),
    "small": ("array<int>", connect("array", items=connect("int16")), [1], list(UNAVAILABLE_VALUE.encode())),
    "real": ("array<float>", connect("array", items=connect("float")), [1.5], AWAY),
    "exact": ("array<double>", connect("array", items=connect("double")), [1.5], AWAY),
    "prices": ("array<decimal(8,2)>", connect("array", items=connect("string")), ["1.50"],
               [str(item) for item in UNAVAILABLE_VALUE.encode()]),
}  # fmt: skip


@pytest.mark.slow
def test_no_placeholder_of_any_type_is_taken_for_a_value(make_project: MakeProject, spark: SparkSession) -> None:
    """An update of another column leaves what PostgreSQL's log does not hold as it was."""
    columns = {"id": "int", "note": "string", **{name: declared for name, (declared, *_) in TOASTED.items()}}
    row = {"id": connect("int32"), "note": connect("string"), **{name: kind for name, (_, kind, *_) in TOASTED.items()}}
    values = {name: value for name, (_, _, value, _) in TOASTED.items()}
    away = {name: value for name, (*_, value) in TOASTED.items()}
    events = [pg("c", 1, id=1, note="a", **values), pg("u", 2, id=1, note="b", **away)]
    project = make_project({"tables": [table_of(name, columns, ["id"]) for name in ("plain", "schema")]})
    project.deliver("shop.plain", 0, events)
    project.deliver("shop.schema", 0, [with_schema(event, row) for event in events])
    landed = project.land_well(spark)
    for name in ("plain", "schema"):
        assert landed[name].counts == Counts(read=2, applied=1, superseded=1)
        (found,) = project.rows(spark, name)
        assert found == {
            "id": 1,
            "note": "b",
            **values,
            "mapped": '{"a":"b"}',
            "files": [bytearray(b"\0\xff")],
            "prices": [Decimal("1.50")],
        }


def test_what_no_placeholder_stands_for_is_landed(make_project: MakeProject, spark: SparkSession) -> None:
    """Maps that are not compared, as those in an array, and maps by a number: one such field stopped the table."""
    columns = {"id": "int", "maps": "string", "by_number": "string"}
    project = make_project({"tables": [table_of("item", columns, ["id"])]})
    maps = pa.map_(pa.string(), pa.string())
    types = {"id": pa.int32(), "maps": pa.list_(maps), "by_number": pa.map_(pa.int32(), pa.string())}
    types |= {"__op": pa.string(), "__lsn": pa.int64(), "__source_ts_ms": pa.int64(), "__deleted": pa.string()}
    row = pg("c", 1, id=1, maps=[[("a", "b")]], by_number=[(7, "c")])
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row], pa.schema(list(types.items()))), content)
    project.deliver(TOPIC, 0, content.getvalue(), "parquet")
    project.land_well(spark)
    assert project.rows(spark, "item") == [{"id": 1, "maps": '[{"a":"b"}]', "by_number": '{"7":"c"}'}]


@pytest.mark.parametrize("form", ["unwrapped", pytest.param("envelope", marks=pytest.mark.slow)])
def test_a_number_that_nobody_declared_is_not_rounded(
    form: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """Without a schema it may be a decimal (`decimal.format=NUMERIC`), of which a double would keep some digits."""
    project = make_project(items({"id": "int"}, **ALL))
    numbers = {1: "0.30000000000000004", 2: "12345678901234567.89", 3: "1.5", 4: "0.12345678901234567891"}
    lines = []
    for number, told in numbers.items():
        row = {"id": number, "amount": 0}
        event = pg("c", number, **row) if form == "unwrapped" else envelope("c", number, after=row)
        lines.append(json.dumps(event).replace('"amount": 0', f'"amount": {told}'))
    project.deliver(TOPIC, 0, lines)
    assert project.land_well(spark)["item"].counts == Counts(read=4, applied=2, quarantined=2)
    assert project.rows(spark, "item", "id", "amount") == [
        {"id": 1, "amount": 0.30000000000000004},
        {"id": 3, "amount": 1.5},
    ]
    assert {row["reason_code"] for row in project.quarantined(spark)} == {"bad_value"}
