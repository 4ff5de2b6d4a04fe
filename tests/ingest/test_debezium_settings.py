"""What settings of Debezium, its transforms and its databases make of events; some are changed amid a stream."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from conftest import MakeProject, Row, pg, table_of
from json_records import ALL, Value, connect, envelope, items, records, with_schema, without_rewrite
from pyspark.sql import SparkSession

from ingest.errors import DeclarationError
from ingest.operations.replay import replay
from ingest.schema.connectors import UNAVAILABLE_VALUE
from ingest.silver.state import Counts

pytestmark = pytest.mark.spark
COLUMNS = {"id": "int", "note": "string", "n": "int"}


def change(op: str, place: int, before: Row | None = None, after: Row | None = None) -> Row:
    """An envelope with the log positions of every database: `place` is its rank in each."""
    lsn = f"0000002a:{place:08x}:0003"
    log = {"file": "bin.000003", "pos": place, "row": 0, "commit_lsn": lsn, "change_lsn": lsn, "event_serial_no": 1}
    event = envelope(op, place, before, after)
    return {**event, "source": {**event["source"], **log, "ts_ms": place}}


@pytest.mark.slow
def test_no_connector_s_placeholder_is_taken_for_a_value(make_project: MakeProject, spark: SparkSession) -> None:
    """SQL Server's `max` types, MySQL's NOBLOB, Oracle's LOBs, and a placeholder of one's own, also as hexadecimal
    octets.
    """
    own = {"unavailable_value_placeholder": "not here"}
    octets = {"unavailable_value_placeholder": "hex:" + b"not here".hex()}
    declared: dict[str, dict[str, Any]] = {
        **{name: {"connector": name} for name in ("sqlserver", "mysql", "mariadb")},
        "oracle": {"connector": None, "order_by": ["__source_ts_ms"]},
        "own": {"connector": "postgresql", **own},
        "octets": {"connector": "postgresql", **octets},
    }
    project = make_project(
        {"tables": [table_of(name, COLUMNS, ["id"], **options) for name, options in declared.items()]}
    )
    for name in declared:
        away = "not here" if name in ("own", "octets") else UNAVAILABLE_VALUE
        known, gone = {"id": 1, "note": "long", "n": 1}, {"id": 2, "note": away, "n": 1}
        project.deliver(f"shop.{name}", 0, [change("c", 10, after=known), change("d", 11, before=gone)])
    project.land_well(spark)
    for name in declared:
        away = "not here" if name in ("own", "octets") else UNAVAILABLE_VALUE
        project.deliver(f"shop.{name}", 10, [change("u", 20, after={"id": 1, "note": away, "n": 2})])
    project.land_well(spark)
    for name in declared:
        assert project.rows(spark, name) == [{"id": 1, "note": "long", "n": 2}], name
        assert [row["id"] for row in project.rows(spark, name, "id", live=False)] == [1, 2]
    project.declare({"tables": [table_of("t", COLUMNS, ["id"], connector="dynamodb", **own)]})
    with pytest.raises(DeclarationError, match="unavailable_value_placeholder"):
        project.source()


@pytest.mark.slow
def test_a_changed_key_takes_no_value_of_another_row(make_project: MakeProject, spark: SparkSession) -> None:
    """A compressed transaction of MySQL is one place of the log: nothing says which of several deletes it was."""
    names = ("one", "several", "later")
    project = make_project({"tables": [table_of(name, COLUMNS, ["id"], connector="mysql") for name in names]})
    old: list[Row] = [{"id": key, "note": f"of {key}", "n": key} for key in (1, 2)]
    new = change("c", 20, after={"id": 3, "note": UNAVAILABLE_VALUE, "n": 1})
    for name in names:
        project.deliver(f"shop.{name}", 0, [change("c", 10 + row["id"], after=row) for row in old])
    project.land_well(spark)
    deletes = [change("d", 20, before=row) for row in old]
    project.deliver("shop.one", 10, [deletes[0], new])
    project.deliver("shop.several", 10, [*deletes, new])
    project.deliver("shop.later", 10, deletes)
    project.land_well(spark)
    project.deliver("shop.later", 20, [new])
    project.land_well(spark)
    assert project.rows(spark, "one") == [old[1], {"id": 3, "note": "of 1", "n": 1}]
    assert [project.rows(spark, name) for name in ("several", "later")] == [[], []]
    told = [(row["source_table"], row["reason_code"]) for row in project.quarantined(spark)]
    assert sorted(told) == [("later", "unavailable_value"), ("several", "unavailable_value")]


@pytest.mark.slow
def test_a_place_of_another_form_orders_nothing(make_project: MakeProject, spark: SparkSession) -> None:
    """LSNs without their leading zeros, and a log's file without its number, would sort elsewhere."""
    project = make_project(
        {"tables": [table_of(name, COLUMNS, ["id"], connector=name) for name in ("sqlserver", "mysql")]}
    )
    for name in ("sqlserver", "mysql"):
        newest, older, bad = (
            change("u", place, after={"id": 1, "note": "x", "n": place}) for place in (0xAB, 0xAA, 0xFF)
        )
        for event in (newest, older):
            lsn = event["source"]["commit_lsn"]
            event["source"] |= {"commit_lsn": lsn.upper() if event is newest else lsn}
        bad["source"] |= {"commit_lsn": "2a:ff:3", "file": "relay"}
        project.deliver(f"shop.{name}", 0, [newest, older, bad])
    project.land(spark)
    for name in ("sqlserver", "mysql"):
        assert project.rows(spark, name) == [{"id": 1, "note": "x", "n": 0xAB}]
    told = {row["source_table"]: (row["reason_code"], row["reason"]) for row in project.quarantined(spark)}
    assert told == {
        "sqlserver": (
            "missing_position",
            "commit_lsn is 2a:ff:3, expected eight, eight and four hexadecimal digits, with colons between",
        ),
        "mysql": ("missing_position", "file is relay, expected a name that ends in the file's number"),
    }


@pytest.mark.slow
def test_another_change_at_the_place_of_the_one_that_silver_has_counts(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """An update of a column of `message.key.columns` is a delete and a create at one place, in two partitions. A
    compressed transaction of MySQL is one place, and a read-only incremental snapshot's row is at that of the change
    that it is sent before.
    """
    names = ("moved", "moved_apart", "compressed", "read")
    connectors = dict.fromkeys(names, "mysql") | {"moved_apart": "postgresql"}
    tables = [table_of(name, COLUMNS, ["id"], connector=connectors[name]) for name in names]
    project = make_project({"tables": tables})

    def deliver(name: str, partition: int, offset: int, event: Row) -> None:
        row = event["after"] or event["before"]
        topic = f"shop.{name}"
        records(project, ({"n": row["n"]}, event), offset=offset, places=[(partition, offset)], topic=topic)

    for name in names:
        deliver(name, 0, 1, change("r" if name == "read" else "c", 10, after={"id": 1, "note": "a", "n": 1}))
    project.land_well(spark)
    new = {"id": 1, "note": "b", "n": 2}
    deliver("compressed", 0, 2, change("u", 10, after=new))
    deliver("read", 0, 2, change("u", 10, after=new))
    for name in ("moved", "moved_apart"):
        deliver(name, 1, 7, change("d", 20, before={"id": 1, "note": "a", "n": 1}))
    deliver("moved", 0, 2, change("c", 20, after=new))
    landed = project.land_well(spark)
    assert landed["moved"].counts == Counts(read=2, applied=1, superseded=1)
    deliver("moved_apart", 0, 2, change("c", 20, after=new))
    # And what was landed comes once more.
    deliver("moved", 1, 8, change("d", 20, before={"id": 1, "note": "a", "n": 1}))
    project.land_well(spark)
    for name in names:
        assert project.rows(spark, name) == [new], name


@pytest.mark.slow
def test_tombstones_are_set_aside_where_the_deletes_are_no_longer_said(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """`delete.tombstone.handling.mode` was `rewrite`, and becomes `tombstone`, its default; or the other way round."""
    columns = {"id": "int", "note": "string"}

    def declare(**options: Any) -> None:
        tables = ("stopped", "alone", "begun")
        project.declare({"tables": [table_of(name, columns, ["id"], **ALL, **options) for name in tables]})

    def row(key: int, lsn: int) -> Row:
        return pg("c", lsn, id=key, note="n")

    project = make_project()
    declare()
    said: list[tuple[Value, Value]] = [({"id": key}, row(key, 10 + key)) for key in (1, 2)]
    gone: tuple[Value, Value] = ({"id": 1}, None)
    for name in ("stopped", "alone"):
        deleted: list[tuple[Value, Value]] = [({"id": 2}, pg("d", 20, id=2, note="")), ({"id": 2}, None)]
        records(project, *said, *deleted, topic=f"shop.{name}")
    records(project, ({"id": 1}, without_rewrite(row(1, 11))), gone, said[1], topic="shop.begun")
    assert project.land_well(spark)["begun"].counts == Counts(read=3, applied=2, quarantined=1)
    records(project, ({"id": 3}, without_rewrite(row(3, 30))), gone, offset=10, topic="shop.stopped")
    # The second one is of a delete that was said before.
    records(project, gone, ({"id": 2}, None), offset=10, topic="shop.alone")
    landed = project.land_well(spark)
    assert landed["stopped"].counts == Counts(read=2, applied=1, quarantined=1)
    assert landed["alone"].counts == Counts(read=2, ignored=1, quarantined=1)
    declare(tombstones="delete")
    for table in project.source().tables:
        replay(spark, table)
    left = {name: [each["id"] for each in project.rows(spark, name)] for name in ("stopped", "alone", "begun")}
    assert left == {"stopped": [3], "alone": [], "begun": [2]}


def test_deletes_are_said_by_deleted_alone(make_project: MakeProject, spark: SparkSession) -> None:
    """As in Debezium's example of its unwrap transform: `add.fields=table,lsn`, rewritten deletes with tombstones."""

    def event(lsn: int, key: int, note: str | None, *, deleted: bool = False) -> tuple[Value, Value]:
        said = {"__deleted": str(deleted).lower(), "__table": "item", "__lsn": lsn}
        return {"id": key}, {"id": key, "note": note, **said}

    project = make_project(items({"id": "int", "note": "string"}, **ALL))
    records(project, event(10, 1, "a"), event(11, 2, "b"), event(12, 2, None, deleted=True), ({"id": 2}, None))
    assert project.land_well(spark)["item"].counts == Counts(read=4, applied=2, superseded=1, ignored=1)
    records(project, event(20, 3, "c"), event(21, 1, None, deleted=True), ({"id": 1}, None), offset=10)
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=2, ignored=1)
    assert project.rows(spark, "item", "id", "note") == [{"id": 3, "note": "c"}]
    assert {row["__op"] for row in project.rows(spark, "item", "__op", live=False)} == {"d", None}
    assert project.quarantined(spark) == []


@pytest.mark.slow
def test_the_record_s_key_is_read_by_the_values_schema_and_says_what_the_value_lacks(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """`key.converter.schemas.enable=false` beside values with a schema; and the field that a topic router adds."""
    times = {"at": connect("int64", name="io.debezium.time.Timestamp"), "note": connect("string")}
    prices = {"price": connect("bytes", name="org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"})}
    tables = [
        table_of("times", {"at": "timestamp", "note": "string"}, ["at"]),
        table_of("prices", {"price": "decimal(8,2)"}, ["price"]),
        table_of("shards", {"id": "int", "shard": "string", "note": "string"}, ["id", "shard"]),
    ]
    project = make_project({"tables": tables})
    for name, row, key in (("times", times, {"at": 1_700_000_000_123}), ("prices", prices, {"price": "AfQ="})):
        events = [envelope("c", 1, after=key), envelope("d", 2, before=key)]
        records(project, *((key, with_schema(event, row)) for event in events), topic=f"shop.{name}")
    shards: list[tuple[Value, Value]] = [
        ({"id": 1, "shard": shard}, envelope("c", lsn, after={"id": 1, "note": shard}))
        for lsn, shard in enumerate("ab")
    ]
    gone: tuple[Value, Value] = ({"id": 1, "shard": "a"}, envelope("d", 5, before={"id": 1, "note": ""}))
    records(project, *shards, gone, topic="shop.shards")
    project.land_well(spark)
    for name in ("times", "prices"):
        assert project.rows(spark, name) == []
        assert len(project.rows(spark, name, live=False)) == 1
    assert project.rows(spark, "shards") == [{"id": 1, "shard": "b", "note": "b"}]


def test_dates_and_times_of_connect_become_columns(make_project: MakeProject, spark: SparkSession) -> None:
    """`time.precision.mode=connect`, of columns that nobody declared: they were whole numbers."""
    kinds = {"day": ("int32", "Date"), "at": ("int64", "Timestamp"), "time": ("int32", "Time")}
    row = {"id": connect("int32")}
    row |= {name: connect(kind, name=f"org.apache.kafka.connect.data.{of}") for name, (kind, of) in kinds.items()}
    project = make_project({"tables": [table_of("item", {"id": "int"}, ["id"])]})
    after = {"id": 1, "day": 19_000, "at": 1_700_000_000_123, "time": 43_200_500}
    project.deliver("shop.item", 0, [with_schema(envelope("c", 1, after=after), row)])
    project.land_well(spark)
    expected = {"day": date(2022, 1, 8), "at": datetime(2023, 11, 14, 22, 13, 20, 123_000), "time": "12:00:00.500000"}
    assert project.rows(spark, "item", "day", "at", "time") == [expected]


def test_decimals_of_any_scale_become_columns(make_project: MakeProject, spark: SparkSession) -> None:
    """PostgreSQL's numeric(3,5) and numeric(3,-2), and one of 38 digits behind so many zeros: each run failed."""
    widths = {"small": (3, 5), "round": (3, -2), "wide": (38, -2), "any": (None, -2)}
    row = {"id": connect("int32")}
    for name, (precision, scale) in widths.items():
        digits = {} if precision is None else {"connect.decimal.precision": str(precision)}
        parameters = {"scale": str(scale), **digits}
        row[name] = connect("bytes", name="org.apache.kafka.connect.data.Decimal", parameters=parameters)
    project = make_project({"tables": [table_of("item", {"id": "int"}, ["id"])]})
    after = {"id": 1, **dict.fromkeys(widths, "AN4=")}
    project.deliver("shop.item", 0, [with_schema(envelope("c", 1, after=after), row)])
    project.land_well(spark)
    found = project.rows(spark, "item", *widths)
    assert found == [{"small": Decimal("0.00222"), **dict.fromkeys(("round", "wide", "any"), Decimal(22_200))}]


def test_a_row_that_holds_an_envelope_is_no_envelope(make_project: MakeProject, spark: SparkSession) -> None:
    """Beside envelopes, as once the transform was added; alone it never was one."""
    columns = {"id": "int", "note": "string"}
    project = make_project({"tables": [table_of("item", columns, ["id"])]})
    held = envelope("c", 1, after={"id": 7})
    unwrapped = {"id": 2, "note": held, "__lsn": 2}
    project.deliver("shop.item", 0, [envelope("c", 1, after={"id": 1, "note": "n"}), unwrapped])
    project.land_well(spark)
    notes = {row["id"]: row["note"] for row in project.rows(spark, "item")}
    assert (notes.pop(1), {key: json.loads(note) for key, note in notes.items()}) == ("n", {2: held})


@pytest.mark.parametrize("is_typed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_update_of_a_key_that_is_not_the_record_s_is_set_aside(
    is_typed: bool, make_project: MakeProject, spark: SparkSession
) -> None:
    """Of a table without a primary key no delete of the former row comes: both would be rows."""
    project = make_project(items(tombstones="ignore", **ALL))
    rows = [{"id": number, "note": note, "price": None} for number, note in ((1, "a"), (2, "a"), (1, "b"))]
    events = [
        envelope("c", 1, after=rows[0]),
        envelope("u", 2, before=rows[0], after=rows[1]),
        envelope("u", 3, before=rows[0], after=rows[2]),
    ]
    records(project, *((None, with_schema(event) if is_typed else event) for event in events))
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=1, superseded=1, quarantined=1)
    (aside,) = project.quarantined(spark)
    assert aside["reason_code"] == "changed_key"
    assert aside["reason"].startswith("the key (id) is another one behind the update, and the record's key is not")
    assert project.rows(spark, "item") == [rows[2]]


@pytest.mark.parametrize("connector", ["mysql", pytest.param("sqlserver", marks=pytest.mark.slow)])
def test_a_delete_whose_row_cannot_be_read_deletes_it(
    connector: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """The source has widened a column: the row is gone whatever it was, or it would stay as it was before."""
    table = table_of("item", COLUMNS, ["id"], connector=connector, partition_by=["n"], **ALL)
    project = make_project({"tables": [table_of("t", COLUMNS, ["id"], connector=connector, **ALL), table]})
    known, wide = ({"id": 1, "note": "a", "n": number} for number in (1, 3_000_000_000))
    for name in ("t", "item"):
        delivered = [change("c", 1, after=known), change("u", 2, before=known, after=wide), change("d", 3, before=wide)]
        project.deliver(f"shop.{name}", 0, delivered)
    counts = {name: landed.counts for name, landed in project.land_well(spark).items()}
    assert counts["t"] == Counts(read=3, applied=1, superseded=1, quarantined=1)
    assert project.rows(spark, "t") == []
    # Of a column by which rows lie in partitions the value has to be known.
    assert counts["item"] == Counts(read=3, applied=1, quarantined=2)


def test_a_truncate_of_one_of_several_tables_empties_none(make_project: MakeProject, spark: SparkSession) -> None:
    """Silver's rows are of all: which are of the one is decided by somebody."""
    several = {"table_include_list": ["public[.]item_[0-9]+"], "tombstones": "ignore", **ALL}
    one = {"table_include_list": [r"public\.item_1"], "tombstones": "ignore", **ALL}
    names = {"several": several, "one": one}
    project = make_project({"tables": [table_of(name, COLUMNS, ["id"], **told) for name, told in names.items()]})
    for name in names:
        events = [envelope(op, lsn, after=after) for op, lsn, after in (
            ("c", 1, {"id": 1, "note": "a", "n": 1}), ("c", 2, {"id": 2, "note": "b", "n": 1}), ("t", 3, None),
        )]  # fmt: skip
        for event, table in zip(events, ("item_1", "item_2", "item_1"), strict=True):
            event["source"]["table"] = table
        project.deliver(f"shop.{name}", 0, events)
    landed = project.land_well(spark)
    assert landed["several"].counts == Counts(read=3, applied=2, quarantined=1)
    (aside,) = project.quarantined(spark)
    assert (aside["reason_code"], aside["reason"][:38]) == ("truncate", "a truncate of shop.public.item_1, one ")
    assert len(project.rows(spark, "several")) == 2
    assert landed["one"].counts == Counts(read=3, applied=1, superseded=1, ignored=1)
    assert project.rows(spark, "one") == []


@pytest.mark.parametrize(
    ("pattern", "parts", "is_set_aside"),
    [
        ("public[.]item_[0-9]+", {"__schema": None, "__db": None}, True),
        ("public.item_[0-9]+", {"__schema": None}, True),
        ("shop[.]public[.]item_[0-9]+", {"__db": None}, True),
        ("(public[.]item_1|public[.]item_2)", {"__schema": None}, True),
        ("item_[0-9]+", {"__db": None, "__schema": None}, False),
        ("public[.]thing", {"__db": None, "__schema": None}, False),
        ("[^.]+[.]item_[0-9]+", {}, False),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_a_name_without_all_parts_that_are_declared_is_set_aside(
    pattern: str, parts: Row, is_set_aside: bool, make_project: MakeProject, spark: SparkSession
) -> None:
    """Where it may be the declared one: ignored, each event would be lost without a word."""
    options = {"table_include_list": [pattern], "tombstones": "ignore", **ALL}
    project = make_project({"tables": [table_of("item", COLUMNS, ["id"], **options)]})
    whole = {"__db": "shop", "__schema": "public", "__table": "item_1"}
    project.deliver("shop.item", 0, [{**pg("c", 1, id=1, note="a", n=1), **whole, **parts}])
    counts = project.land_well(spark)["item"].counts
    outcome = "quarantined" if is_set_aside else "ignored" if "thing" in pattern else "applied"
    assert counts == Counts(read=1, **{outcome: 1})
    if is_set_aside:
        (aside,) = project.quarantined(spark)
        assert aside["reason_code"] == "unknown_table"
