"""Each way by which events, values or deletes were once lost, as a test of its own; test_forms.py combines them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DbtProject, MakeProject, pg, table_of, unwrapped
from pyspark.sql import SparkSession
from registry_server import serve, use_registry

from ingest.errors import WriteError
from ingest.operations.replay import replay
from ingest.schema.connectors import UNAVAILABLE_VALUE
from ingest.silver import quarantine
from ingest.silver.state import Counts
from ingest.silver.table import SilverTable

pytestmark = pytest.mark.spark

TOPIC = "shop.item"
COLUMNS = {"id": "int", "note": "string", "price": "decimal(8,2)"}
ALL: dict[str, Any] = {"quarantine_limit": {"share": 1.0}}
Value = Mapping[str, Any] | str | bytes | None


def items(columns: Mapping[str, str] = COLUMNS, key: Sequence[str] = ("id",), **options: Any) -> dict[str, Any]:
    return {"tables": [table_of("item", columns, key, **options)]}


def as_bytes(value: Value) -> bytes | None:
    if isinstance(value, bytes) or value is None:
        return value
    return (value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))).encode()


def records(
    project: DbtProject, *content: tuple[Value, Value], offset: int = 0, places: Sequence[tuple[int, int]] | None = None
) -> int:
    """Delivers records of keys and values, as Parquet with the columns of Spark's Kafka source; how many they are.

    `places`: partition and offset of each, where they do not follow each other in partition 0.
    """
    places = places or [(0, offset + number) for number in range(len(content))]
    rows = {
        "key": pa.array([as_bytes(key) for key, _ in content], pa.binary()),
        "value": pa.array([as_bytes(value) for _, value in content], pa.binary()),
        "partition": pa.array([partition for partition, _ in places], pa.int32()),
        "offset": pa.array([at for _, at in places], pa.int64()),
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(rows), sink)
    path = project.bronze / TOPIC / f"{TOPIC}+0+{offset:010d}.parquet"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(sink.getvalue())
    return len(content)


def envelope(op: str, lsn: int | None, before: Any = None, after: Any = None) -> dict[str, Any]:
    source = {"name": "shop", "db": "shop", "schema": "public", "table": "item", "lsn": lsn, "ts_ms": 1_700_000_000_000}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1_700_000_000_001}


def connect(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": True, **more}


def connect_struct(fields: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "type": "struct",
        "optional": True,
        "fields": [{**schema, "field": name} for name, schema in fields.items()],
    }


ROW = {"id": connect("int32"), "note": connect("string"), "price": connect("string")}
SOURCE = {name: connect("string") for name in ("name", "db", "schema", "table")}
SOURCE |= {"lsn": connect("int64"), "ts_ms": connect("int64")}


def with_schema(event: Mapping[str, Any] | None, row: Mapping[str, Any] = ROW) -> dict[str, Any]:
    """An event as JsonConverter writes it with `schemas.enable`."""
    if event is not None and "op" in event:
        sides = {"before": connect_struct(row), "after": connect_struct(row), "source": connect_struct(SOURCE)}
        fields = {**sides, "op": connect("string"), "ts_ms": connect("int64")}
    else:
        metadata = {name: connect("string") for name in ("__op", "__db", "__source_sequence", "__deleted")}
        fields = {**row, **metadata, "__lsn": connect("int64"), "__source_ts_ms": connect("int64")}
    return {"schema": connect_struct(fields), "payload": event}


# Hole 1


@pytest.mark.parametrize("form", ["unwrapped", pytest.param("envelope", marks=pytest.mark.slow)])
def test_json_with_its_schema_that_breaks_off_anywhere_is_quarantined(
    form: str, make_project: MakeProject, spark: SparkSession
) -> None:
    def event(key: int) -> dict[str, Any]:
        row: dict[str, Any] = {"id": key, "note": "a } b", "price": "1.50"}
        return with_schema(pg("c", key, **row) if form == "unwrapped" else envelope("c", key, after=row))

    project = make_project(items(**ALL))
    text = json.dumps(event(7), separators=(",", ":"))
    begins = text.index('"payload"')
    cuts = sorted({1, begins // 2, begins + 9, *range(begins + 10, len(text), 9), len(text) - 2, len(text) - 1})
    good = [({"id": key}, event(key)) for key in (1, 2)]
    broken: list[tuple[Value, Value]] = [({"id": 7}, text[:cut]) for cut in cuts]
    nothing: list[tuple[Value, Value]] = [({"id": 9}, None), ({"id": 9}, "null"), ({"id": 9}, with_schema(None))]
    delivered = records(project, *good, *broken, *nothing)
    counts = project.land_well(spark)["item"].counts
    assert counts == Counts(read=delivered, applied=2, ignored=3, quarantined=len(cuts))
    found = {row["offset"]: row for row in project.quarantined(spark)}
    assert sorted(found) == [2 + number for number in range(len(cuts))]
    for number, cut in enumerate(cuts):
        row = found[2 + number]
        assert (bytes(row["raw"]).decode(), row["reason_code"]) == (text[:cut], "invalid_json"), cut


def test_tombstones_of_an_envelope_topic_are_counted(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project(items())
    row = {"id": 1, "note": "n", "price": "1.50"}
    delivered = records(
        project,
        ({"id": 1}, envelope("c", 1, after=row)),
        ({"id": 2}, envelope("c", 2, after={**row, "id": 2})),
        ({"id": 1}, envelope("d", 3, before=row)),
        ({"id": 1}, None),
    )
    counts = project.land_well(spark)["item"].counts
    assert counts == Counts(read=delivered, applied=2, superseded=1, ignored=1)


def test_a_text_that_is_not_utf8_is_quarantined_with_its_bytes(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project(items(**ALL))
    bad = json.dumps(pg("c", 2, id=2, note="?", price=None)).encode().replace(b'"?"', b'"\xff\xfe"')
    records(project, ({"id": 1}, pg("c", 1, id=1, note="\U0001f600é", price=None)), ({"id": 2}, bad))
    assert project.land_well(spark)["item"].counts == Counts(read=2, applied=1, quarantined=1)
    for _ in range(2):
        (row,) = project.quarantined(spark)
        assert (bytes(row["raw"]), row["reason_code"]) == (bad, "invalid_json")
        replay(spark, project.source().tables[0])  # nothing has been mended
    assert project.rows(spark, "item") == [{"id": 1, "note": "\U0001f600é", "price": None}]


def test_a_broken_event_is_no_transaction_marker(make_project: MakeProject, spark: SparkSession) -> None:
    columns = {"id": "int", "status": "string", "event_count": "int"}
    project = make_project(items(columns, **ALL))
    whole = json.dumps({**pg("c", 1, status="END", event_count=3), "id": 1, "last": "end"})
    marker = {"status": "END", "id": "7", "event_count": 3, "data_collections": None, "ts_ms": 1}
    lines = [whole, whole[:-9], json.dumps({"ts_ms": 1}), json.dumps({"ddl": "create", "tableChanges": []})]
    project.deliver(TOPIC, 0, lines)
    project.deliver("shop.other", 0, [pg("c", 1, id=1), json.dumps(marker), json.dumps(marker)[:-3]])
    project.declare({"tables": [*items(columns, **ALL)["tables"], table_of("other", {"id": "int"}, ["id"], **ALL)]})
    landed = project.land_well(spark)
    assert landed["item"].counts == Counts(read=4, applied=1, ignored=2, quarantined=1)
    assert landed["other"].counts == Counts(read=3, applied=1, ignored=1, quarantined=1)


# Hole 2


def test_bad_records_at_one_offset_of_two_partitions_are_two(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project(items(**ALL))
    every: list[tuple[Value, Value]] = [(None, f"bad {number}") for number in range(3)]
    every += [(None, pg("c", number, id=number)) for number in range(3)]
    records(project, *every, places=[(number % 3, number // 3) for number in range(6)])
    assert project.land_well(spark)["item"].counts == Counts(read=6, applied=3, quarantined=3)
    found = [(row["partition"], row["offset"], bytes(row["raw"]).decode()) for row in project.quarantined(spark)]
    assert sorted(found) == [(number, 0, f"bad {number}") for number in range(3)]


# Hole 3


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


# Hole 4


def money(precision: int = 64) -> dict[str, Any]:
    price = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2,
             "connect.name": "org.apache.kafka.connect.data.Decimal", "connect.parameters": {"scale": "2"}}  # fmt: skip
    fields: list[dict[str, Any]] = [{"name": "id", "type": "int"}]
    fields += [{"name": "price", "type": ["null", price]}]
    metadata = {"__op": "string", "__lsn": "long", "__source_ts_ms": "long", "__deleted": "string"}
    fields += [{"name": name, "type": ["null", kind]} for name, kind in metadata.items()]
    return {"type": "record", "name": "Value", "namespace": "shop.item", "fields": fields}


def avro(schema: dict[str, Any], row: Mapping[str, Any], prefix: bytes = b"") -> bytes:
    body = io.BytesIO()
    plain = json.loads(json.dumps(schema).replace('"logicalType": "decimal", ', ""))
    fastavro.schemaless_writer(body, fastavro.parse_schema(plain), dict(row))
    return prefix + body.getvalue()


def unscaled(value: Decimal) -> bytes:
    number = int(f"{value:.2f}".replace(".", ""))
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


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


# Hole 5


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
        records(project, ({"id": 0}, with_schema(pg("c", 1, **values), wide)),
                ({"id": 2}, with_schema(pg("c", 2, **{**values, "id": 2, "flag": [1]}), wide)))  # fmt: skip
    assert evolving.land_well(spark)["item"].counts == Counts(read=2, applied=1, quarantined=1)
    (row,) = spark.table(f"`{evolving.schema}`.item").collect()
    assert (row["stock"], row["price"], row["extra"]) == (2**40, Decimal("1.5000"), date(2022, 1, 8))
    assert [row["reason_code"] for row in evolving.quarantined(spark)] == ["schema_policy"]
    assert keeping.land_well(spark)["item"].counts == Counts(read=2, quarantined=2)
    assert {row["reason_code"] for row in keeping.quarantined(spark)} == {"bad_value", "schema_policy"}


# Hole 6


def test_a_delete_is_of_its_records_key(make_project: MakeProject, spark: SparkSession) -> None:
    """Whatever `before` holds; and a late older update of the row does not bring it back."""
    key_schema = {"type": "struct", "fields": [{"type": "int32", "optional": False, "field": "id"}], "optional": False}
    keys: dict[int, Value] = {
        1: {"id": 1},
        2: {"schema": key_schema, "payload": {"id": 2}},
        3: "3",
        4: b"\0\0\0\0\5" + b"\x08",  # Avro: 4
        5: {"other": 5, "id": 5},
    }
    registered = {
        "5": {"schema": json.dumps({"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]})}
    }
    project = make_project(items(**ALL))
    with serve(registered) as registry:
        use_registry(project, registry.url)
        records(project, *(({"id": key}, envelope("c", 10 + key, after={"id": key, "note": "n"})) for key in keys))
        project.land_well(spark)
        # Of the last one the value holds another key: a filler.
        befores = [None, None, None, None, {"id": 0, "note": ""}]
        deletes = [(key, envelope("d", 30, before=before)) for key, before in zip(keys.values(), befores, strict=True)]
        unknown: list[tuple[Value, Value]] = [(None, envelope("d", 31)), ("Struct{id=1}", envelope("d", 32))]
        delivered = records(project, *deletes, *unknown, offset=10)
        counts = project.land_well(spark)["item"].counts
        assert counts == Counts(read=delivered, applied=5, quarantined=2)
        assert project.rows(spark, "item") == []
        assert {row["reason_code"] for row in project.quarantined(spark)} == {"missing_key"}
        records(
            project, *(({"id": key}, envelope("u", 20, after={"id": key, "note": "late"})) for key in keys), offset=30
        )
        assert project.land_well(spark)["item"].counts == Counts(read=5, superseded=5)
    assert project.rows(spark, "item") == []


def test_a_quarantined_delete_is_replayed_with_its_key(make_project: MakeProject, spark: SparkSession) -> None:
    columns = {"a": "string", "b": "int", "note": "string"}
    project = make_project(items(columns, ["a", "b"], **ALL))
    key = {"a": "x", "b": 1}
    records(project, (key, envelope("c", 1, after={**key, "note": "n"})), (key, envelope("d", None)))
    assert project.land_well(spark)["item"].counts == Counts(read=2, applied=1, quarantined=1)
    (row,) = project.quarantined(spark)
    assert (row["reason_code"], json.loads(bytes(row["record_key"]))) == ("missing_position", key)
    assert "add.fields" not in row["reason"]
    project.declare(items(columns, ["a", "b"], order_by=["__source_ts_ms"], **ALL))
    replay(spark, project.source().tables[0])
    assert project.quarantined(spark) == []
    assert project.rows(spark, "item") == []


PLAIN = [(({"id": key}), {**pg("c", 10 + key, id=key, note="n", price=None)}) for key in (1, 2, 3)]


def without_rewrite(event: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "__deleted"}


@pytest.mark.parametrize("policy", ["delete", "ignore", None])
def test_bare_tombstones_are_what_the_declaration_says(
    policy: str | None, make_project: MakeProject, spark: SparkSession
) -> None:
    """Debezium's unwrap transform leaves tombstones alone of deletes, unless it is told to rewrite them."""
    declared: dict[str, Any] = {} if policy is None else {"tombstones": policy}
    project = make_project(items(**ALL, **declared))
    first = [(key, without_rewrite(event)) for key, event in PLAIN]
    records(project, *first, ({"id": 1}, None))
    counts = project.land_well(spark)["item"].counts
    expected = {
        "delete": Counts(read=4, applied=3, superseded=1),
        "ignore": Counts(read=4, applied=3, ignored=1),
        None: Counts(read=4, applied=3, quarantined=1),
    }
    assert counts == expected[policy]
    # Alone in a batch; then of a row that comes again, and both once more, as after a crash of Connect.
    records(project, ({"id": 2}, None), offset=10)
    project.land_well(spark)
    again = without_rewrite(pg("c", 50, id=2, note="again", price=None))
    records(project, ({"id": 2}, again), ({"id": 3}, None), ({"id": 3}, None), offset=20)
    project.land_well(spark)
    if policy == "delete":
        records(project, ({"id": 2}, None), offset=30)
        project.land_well(spark)
        records(project, ({"id": 2}, again), offset=31)
        project.land_well(spark)
    left = [row["id"] for row in project.rows(spark, "item")]
    assert left == ([2] if policy == "delete" else [1, 2, 3])
    codes = [row["reason_code"] for row in project.quarantined(spark)]
    assert codes == (["tombstone"] * 4 if policy is None else [])
    assert project.state(spark, "item").totals.read == (10 if policy == "delete" else 8)
    if policy is None:
        project.declare(items(**ALL, tombstones="delete"))
        replay(spark, project.source().tables[0])
        assert project.quarantined(spark) == []
        assert [row["id"] for row in project.rows(spark, "item")] == [2]


@pytest.mark.parametrize("policy", ["delete", None])
def test_a_tombstone_whose_record_lost_its_key_is_quarantined(
    policy: str | None, make_project: MakeProject, spark: SparkSession
) -> None:
    """A row is gone in the source, and nothing says which: counted as ignored, it would stay in silver unseen."""
    declared: dict[str, Any] = {} if policy is None else {"tombstones": policy}
    project = make_project(items(**ALL, **declared))
    records(project, *((None, without_rewrite(event)) for _, event in PLAIN), (None, None))
    assert project.land_well(spark)["item"].counts == Counts(read=4, applied=3, quarantined=1)
    codes = [row["reason_code"] for row in project.quarantined(spark)]
    assert codes == ["missing_key" if policy else "tombstone"]


def test_a_bare_tombstone_lacks_no_values_where_an_update_does(make_project: MakeProject, spark: SparkSession) -> None:
    """An update without a column says nothing of it; a tombstone says that all are gone."""
    project = make_project(items(tombstones="delete"))
    records(project, *((key, without_rewrite(event)) for key, event in PLAIN))
    project.land_well(spark)
    partial = without_rewrite(pg("u", 20, id=2, price="1.50"))
    # Of a row that silver has, and of one that nothing is known of.
    records(project, ({"id": 1}, None), ({"id": 2}, partial), ({"id": 9}, None), offset=10)
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=3)
    assert [row["note"] for row in project.rows(spark, "item", "id", "note")] == ["n", "n"]
    gone = [(row["id"], row["note"]) for row in project.rows(spark, "item", "id", "note", live=False)]
    assert {(1, None), (9, None)} <= set(gone)


def test_a_bare_tombstone_that_overtakes_its_row_deletes_it(make_project: MakeProject, spark: SparkSession) -> None:
    """It has no place in the log, and comes before anything is known of its key: where it was delivered says it."""
    project = make_project(items(tombstones="delete"))
    # Beside a tombstone behind the row that it deletes, so that places are looked at.
    others = [({"id": key}, without_rewrite(pg("c", 90 + key, id=key))) for key in (3, 4)]
    records(project, *others, ({"id": 4}, None), ({"id": 1}, None), offset=10)
    project.land_well(spark)
    records(project, ({"id": 1}, without_rewrite(pg("c", 50, id=1))), offset=0)
    assert project.land_well(spark)["item"].counts == Counts(read=1, superseded=1)
    assert [row["id"] for row in project.rows(spark, "item")] == [3]


def test_a_row_that_came_again_behind_a_tombstone_outlives_its_replay(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """A connector that goes on from further back sends a delete and what came after it once more."""
    project = make_project(items(**ALL))
    again = ({"id": 1}, without_rewrite(pg("c", 50, id=1, note="again")))
    first = [(key, without_rewrite(event)) for key, event in PLAIN]
    records(project, *first, ({"id": 1}, None), again)
    project.land_well(spark)
    records(project, ({"id": 1}, None), again, ({"id": 3}, None), offset=10)
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=1, quarantined=2)
    project.declare(items(**ALL, tombstones="delete"))
    replay(spark, project.source().tables[0])
    assert [(row["id"], row["note"]) for row in project.rows(spark, "item", "id", "note")] == [(1, "again"), (2, "n")]


def test_what_waits_in_the_quarantine_is_counted_once_though_a_run_is_killed(
    make_project: MakeProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delivered again in the batch of a kill, an event is a duplicate: its first batch has counted it."""
    project = make_project(items(**ALL))
    records(project, *PLAIN[:2], ({"id": 9}, b"{broken"))
    project.land_well(spark)
    (waiting,) = project.quarantined(spark)

    def killed(*_: Any, **__: Any) -> None:
        raise WriteError("the process was killed", where="a test")

    records(project, *PLAIN[:2], ({"id": 9}, b"{broken"), PLAIN[2])
    with monkeypatch.context() as patch:
        patch.setattr(SilverTable, "write", killed)
        assert project.land(spark)["item"].error
    assert project.land_well(spark)["item"].counts == Counts(read=4, applied=1, duplicate=3)
    (found,) = project.quarantined(spark)
    assert found["quarantine_id"] == waiting["quarantine_id"]


def test_tombstones_behind_rewritten_deletes_say_nothing_more(make_project: MakeProject, spark: SparkSession) -> None:
    with_policy: dict[str, Any] = {"tombstones": "delete"}
    for declared in ({}, with_policy):
        project = make_project(items(**declared))
        records(project, *PLAIN, ({"id": 1}, pg("d", 20, id=1)), ({"id": 1}, None))
        project.land_well(spark)
        records(project, ({"id": 2}, pg("d", 30, id=2)), offset=10)
        project.land_well(spark)
        records(project, ({"id": 2}, None), offset=11)
        counts = project.land_well(spark)["item"].counts
        assert counts == (Counts(read=1, duplicate=1) if declared else Counts(read=1, ignored=1))
        assert [row["id"] for row in project.rows(spark, "item")] == [3]
        found = project.rows(spark, "item", "id", "__op", "__lsn", live=False)
        assert [(row["id"], row["__op"], row["__lsn"]) for row in found] == [(1, "d", 20), (2, "d", 30), (3, "c", 13)]
        assert project.quarantined(spark) == []


# Hole 8


def truncate(lsn: int) -> dict[str, Any]:
    return {**envelope("t", lsn), "source": {**envelope("t", lsn)["source"], "sequence": json.dumps([None, str(lsn)])}}


def test_a_truncate_empties_a_table_without_a_key(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project(items(key=()))
    records(project, *((None, pg("c", lsn, id=lsn)) for lsn in (1, 2)))
    assert project.land_well(spark)["item"].counts == Counts(read=2, applied=2)
    records(project, (None, pg("c", 5, id=5)), (None, truncate(10)), (None, pg("c", 20, id=20)), offset=10)
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=2, superseded=1)
    assert [row["id"] for row in project.rows(spark, "item")] == [20]
    records(project, (None, truncate(10)), offset=20)  # once more
    project.land_well(spark)
    assert [row["id"] for row in project.rows(spark, "item")] == [20]


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_truncate_may_be_quarantined(key: Sequence[str], make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project(items(key=key, truncate="quarantine", **ALL))
    records(project, (None, pg("c", 1, id=1)), (None, truncate(10)))
    assert project.land_well(spark)["item"].counts == Counts(read=2, applied=1, quarantined=1)
    assert [(row["reason_code"], row["offset"]) for row in project.quarantined(spark)] == [("truncate", 1)]
    project.declare(items(key=key))
    replay(spark, project.source().tables[0])
    assert project.rows(spark, "item") == []
    assert project.quarantined(spark) == []


# Hole 9


def test_a_changed_key_brings_values_that_only_its_first_batch_had(
    make_project: MakeProject, spark: SparkSession
) -> None:
    columns = {"id": "int", "note": "string", "tags": "array<string>", "data": "binary", "size": "int"}
    project = make_project(items(columns, history=True))
    lacking: dict[str, Any] = {
        "note": UNAVAILABLE_VALUE,
        "tags": [UNAVAILABLE_VALUE],
        "data": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    }
    row: dict[str, Any] = {"note": "long", "tags": ["a", None], "data": "AP8=", "size": 1}
    gone: dict[str, Any] = {"note": "", "tags": [], "data": "", "size": 0}
    records(
        project,
        ({"id": 1}, pg("c", 10, id=1, **row)),
        ({"id": 1}, pg("u", 20, id=1, **{**row, **lacking, "tags": ["b"], "size": 2})),
        ({"id": 1}, pg("d", 30, id=1, **gone)),
        ({"id": 7}, pg("c", 40, id=7, **row)),
    )
    assert project.land_well(spark)["item"].counts == Counts(read=4, applied=2, superseded=2)
    tombstone = project.rows(spark, "item", "id", "note", "tags", "data", live=False)[0]
    assert tombstone == {"id": 1, "note": None, "tags": None, "data": None}
    records(project, ({"id": 2}, pg("c", 30, id=2, **{**row, **lacking, "size": 2})), offset=10)
    assert project.land_well(spark)["item"].counts == Counts(read=1, applied=1)
    assert project.rows(spark, "item")[0] == {
        "id": 2, "note": "long", "tags": ["b"], "data": bytearray(b"\0\xff"), "size": 2
    }  # fmt: skip
    # The old key comes back, and an older change of it late: neither takes what the tombstone had.
    records(project, ({"id": 1}, pg("c", 50, id=1, **{**row, "note": "anew"})), offset=20)
    project.land_well(spark)
    records(project, ({"id": 1}, pg("u", 25, id=1, **row)), offset=30)
    assert project.land_well(spark)["item"].counts == Counts(read=1, superseded=1)
    assert project.rows(spark, "item", "note")[0] == {"note": "anew"}
    assert project.quarantined(spark) == []


# Holes 10, 11, 15


def binlog(op: str, pos: int, row: int | None = None, **values: Any) -> dict[str, Any]:
    position = {"__source_file": "bin.000001", "__source_pos": pos} | ({} if row is None else {"__source_row": row})
    return unwrapped(op, position, values)


@pytest.mark.parametrize("connector", ["mariadb", pytest.param("mysql", marks=pytest.mark.slow)])
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


# Hole 13


CODES: list[tuple[Value, str, str]] = [
    ("this is no JSON", "invalid_json", "not a JSON object"),
    ("[1]", "not_an_event", "not a JSON object"),
    ("17", "not_an_event", "not a JSON object"),
    (b"", "invalid_record", "the value is empty"),
    (" \n", "invalid_record", "the value is empty"),
    (b"\x01\x02", "invalid_record", "its first byte is 0x01"),
    (b"\0\0", "invalid_record", "truncated: 2 bytes"),
    (b"\0\0\0\0\x63rest", "unknown_schema", "schema id 99 is not in the registry"),
    (b"\0\0\0\0\3", "invalid_avro", "does not decode with schema id 3"),
    (pg("x", 1, id=1), "unknown_op", "op is x"),
    ({**envelope("c", 1, after={"id": 1}), "op": None}, "unknown_op", "the envelope's op is null"),
    (envelope("u", 1), "not_an_event", "the envelope has no row image"),
    ({"before": None, "after": {"id": 1}, "source": {"lsn": 1}}, "not_an_event", "an envelope without op"),
    (pg("c", 1, note="n"), "missing_key", "key column id is null"),
    (pg("u", None, id=1), "missing_position", "add.fields must hold source.lsn"),
    (envelope("u", None, after={"id": 1}), "missing_position", "the envelope lacks source.lsn"),
    (pg("c", 1, id="one"), "bad_value", "column id: one is not exactly a int"),
    (pg("c", 1, id=1, price="1.239"), "bad_value", "column price: 1.239"),
    (pg("u", 1, id=1, note=UNAVAILABLE_VALUE), "unavailable_value", "unavailable value of note"),
]


def test_each_reason_has_its_code(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project(items(**ALL))
    with serve({"3": {"schema": json.dumps(money(38))}}) as registry:
        use_registry(project, registry.url)
        delivered = records(project, *((None, value) for value, _, _ in CODES))
        assert project.land_well(spark)["item"].counts == Counts(read=delivered, quarantined=delivered)
    found = {row["offset"]: row for row in project.quarantined(spark)}
    for offset, (value, code, reason) in enumerate(CODES):
        assert (found[offset]["reason_code"], bytes(found[offset]["raw"])) == (code, as_bytes(value)), value
        assert reason in found[offset]["reason"], value


def test_logical_decoding_messages_are_ignored(make_project: MakeProject, spark: SparkSession) -> None:
    message = {"op": "m", "ts_ms": 2, "source": envelope("m", 7)["source"],
               "message": {"prefix": "p", "content": "AQ=="}}  # fmt: skip
    fields = {"op": connect("string"), "source": connect_struct(SOURCE), "ts_ms": connect("int64"),
              "message": connect_struct({"prefix": connect("string"), "content": connect("bytes")})}  # fmt: skip
    project = make_project(items())
    for batch, value in enumerate((message, {"schema": connect_struct(fields), "payload": message}, pg("m", 5))):
        records(project, (None, pg("c", batch + 1, id=batch)), (None, value), offset=batch * 10)
        assert project.land_well(spark)["item"].counts == Counts(read=2, applied=1, ignored=1)
    assert project.quarantined(spark) == []


def test_a_quarantine_of_an_earlier_version_goes_on(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project(items(**ALL))
    records(project, (None, "bad"), ({"id": 1}, pg("c", 1, id=1)))
    project.land_well(spark)
    (row,) = project.quarantined(spark)
    other = make_project(items(**ALL))
    records(other, ({"id": 1}, pg("c", 1, id=1)))
    other.land_well(spark)
    later = {"reason_code", "offset", "record_key"}
    before = spark.table(f"`{project.schema}`._quarantine").drop(*later)
    before = before.drop(*(name for name in before.columns if name.startswith("_hoodie")))
    quarantine.of(other.schema).write(spark, before, "upsert")
    assert later.isdisjoint(spark.table(f"`{other.schema}`._quarantine").columns)
    (kept,) = other.quarantined(spark)
    assert {**row, **dict.fromkeys(later)} == kept
    records(other, ({"id": 2}, "worse"), offset=10)
    other.land_well(spark)
    found = spark.table(f"`{other.schema}`._quarantine").orderBy("start_offset").collect()
    assert [(row["reason_code"], row["offset"]) for row in found] == [(None, None), ("invalid_json", 10)]
    assert bytes(found[1]["record_key"]) == b'{"id":2}'


def test_a_key_is_not_kept_of_a_table_with_column_policies(make_project: MakeProject, spark: SparkSession) -> None:
    table = table_of("item", {**COLUMNS, "hint": "string"}, ["id"], **ALL)
    table["columns"][-1]["config"] = {"meta": {"ingest": {"policy": "exclude"}}}
    project = make_project({"tables": [table]})
    key = {"id": 1, "hint": "hidden"}
    records(project, (key, pg("c", 1, id=1, hint="hidden")), (key, envelope("d", None, before=key)), (key, "hidden"),
            (key, envelope("d", 3)))  # fmt: skip
    assert project.land_well(spark)["item"].counts == Counts(read=4, applied=1, superseded=1, quarantined=2)
    assert project.rows(spark, "item") == []
    assert [row["record_key"] for row in project.quarantined(spark)] == [None, None]
    assert "hidden" not in str(project.quarantined(spark))


def test_a_file_that_is_delivered_again_brings_no_row_of_a_table_without_a_key_again(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """Wherever it is read among others: a row is known by its partition, the file's first offset and its line."""
    project = make_project(items(key=()))
    rows = [[pg("c", 10 * file + number, id=10 * file + number) for number in range(4)] for file in range(3)]
    for file, events in enumerate(rows):
        project.deliver(TOPIC, 10 * file, events)
    assert project.land_well(spark)["item"].counts == Counts(read=12, applied=12)
    project.deliver(TOPIC, 20, [*rows[2], pg("c", 90, id=90)])
    assert project.land_well(spark)["item"].counts == Counts(read=5, applied=1, duplicate=4)
    assert len(project.rows(spark, "item")) == 13
    # Nor does a row that comes out of the quarantine take the place of another, which has the same position in the log.
    project.deliver(
        TOPIC, 40, [pg("c", 7, id=number) if number < 2 else pg("c", 7, id=3 * 10**9) for number in range(3)]
    )
    project.land_well(spark)
    project.declare(items({**COLUMNS, "id": "bigint"}, key=()))
    replay(spark, project.source().tables[0])
    assert len(project.rows(spark, "item")) == 16


def test_an_envelope_of_no_row_says_nothing_of_deletes(make_project: MakeProject, spark: SparkSession) -> None:
    """Truncates and messages are envelopes in a topic of unwrapped events too."""
    project = make_project(items(**ALL, truncate="ignore"))
    first = [(key, without_rewrite(event)) for key, event in PLAIN]
    records(project, *first, (None, truncate(5)), (None, {**envelope("m", 6), "message": {}}), ({"id": 1}, None))
    assert project.land_well(spark)["item"].counts == Counts(read=6, applied=3, ignored=2, quarantined=1)
    assert [row["reason_code"] for row in project.quarantined(spark)] == ["tombstone"]


def test_an_event_of_a_table_without_a_key_may_lack_a_column(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project(items(key=(), **ALL))
    lacking = {name: value for name, value in pg("u", 2, id=2, note=None, price=None).items() if name != "note"}
    toasted = pg("u", 3, id=3, note=UNAVAILABLE_VALUE, price=None)
    records(project, (None, pg("c", 1, id=1, note="n", price=None)), (None, lacking), (None, toasted))
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=1, quarantined=2)
    assert {row["reason_code"] for row in project.quarantined(spark)} == {"unavailable_value"}
