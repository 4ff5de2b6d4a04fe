"""Each way by which events were once lost, as a test of its own; test_forms.py combines them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from conftest import Event, MakeProject, pg, table_of
from json_records import (
    ALL,
    COLUMNS,
    PLAIN,
    SOURCE,
    TOPIC,
    Value,
    as_bytes,
    connect,
    connect_struct,
    envelope,
    items,
    money,
    records,
    with_schema,
    without_rewrite,
)
from pyspark.sql import SparkSession
from registry_server import serve, use_registry

from ingest.operations.replay import replay
from ingest.schema.connectors import UNAVAILABLE_VALUE
from ingest.silver import quarantine
from ingest.silver.state import Counts

pytestmark = pytest.mark.spark


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "shared", [{}, {"table_include_list": ["item"], "tombstones": "ignore"}], ids=["own", "shared"]
)
def test_a_text_that_is_not_utf8_is_quarantined_with_its_bytes(
    shared: dict[str, Any], make_project: MakeProject, spark: SparkSession
) -> None:
    """Also where the damaged bytes are in the name of its table, of which the topic has several."""
    project = make_project(items(**ALL, **shared))
    good = pg("c", 1, id=1, note="\U0001f600é", price=None, __table="item")
    of_value = json.dumps({**good, "id": 2, "note": "?"}).encode().replace(b'"?"', b'"\xff\xfe"')
    of_table = json.dumps({**good, "id": 3, "__table": "?"}).encode().replace(b'"?"', b'"\xff\xfe"')
    records(project, ({"id": 1}, good), ({"id": 2}, of_value), ({"id": 3}, of_table))
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=1, quarantined=2)
    for _ in range(2):
        found = project.quarantined(spark)
        assert {(bytes(row["raw"]), row["reason_code"]) for row in found} == {
            (bad, "invalid_json") for bad in (of_value, of_table)
        }
        replay(spark, project.source().tables[0])  # nothing has been mended
    assert project.rows(spark, "item") == [{"id": 1, "note": "\U0001f600é", "price": None}]


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_row_is_no_transaction_marker_whatever_its_columns_are_called(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """`event_count` is not declared: beside id and status it makes the fields of a marker."""
    columns = {"id": "int", "status": "string"}
    plain = pg("c", 1, id=1, status="a", event_count=5)
    row = {"id": connect("int32"), "status": connect("string"), "event_count": connect("int32")}
    bare = {"id": 1, "status": "a", "event_count": 5, "changed": 7}
    by_column = table_of("bare", {**columns, "changed": "int"}, ["id"], order_by=["changed"])
    del by_column["config"]["meta"]["ingest"]["connector"]
    project = make_project(
        {"tables": [table_of("plain", columns, ["id"]), table_of("schema", columns, ["id"]), by_column]}
    )
    marker = {"status": "BEGIN", "id": "7", "event_count": None, "data_collections": None, "ts_ms": 1}
    for name, event in (("plain", plain), ("schema", with_schema(plain, row)), ("bare", bare)):
        project.deliver(f"shop.{name}", 0, [event, marker])
    landed = project.land_well(spark)
    for name in ("plain", "schema", "bare"):
        assert landed[name].counts == Counts(read=2, applied=1, ignored=1), name
        assert project.rows(spark, name, "id", "event_count") == [{"id": 1, "event_count": 5}], name


def test_bad_records_at_one_offset_of_two_partitions_are_two(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project(items(**ALL))
    every: list[tuple[Value, Value]] = [(None, f"bad {number}") for number in range(3)]
    every += [(None, pg("c", number, id=number)) for number in range(3)]
    records(project, *every, places=[(number % 3, number // 3) for number in range(6)])
    assert project.land_well(spark)["item"].counts == Counts(read=6, applied=3, quarantined=3)
    found = [(row["partition"], row["offset"], bytes(row["raw"]).decode()) for row in project.quarantined(spark)]
    assert sorted(found) == [(number, 0, f"bad {number}") for number in range(3)]


def truncate(lsn: int) -> dict[str, Any]:
    return {**envelope("t", lsn), "source": {**envelope("t", lsn)["source"], "sequence": json.dumps([None, str(lsn)])}}


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_truncate_may_have_no_member_for_a_row(make_project: MakeProject, spark: SparkSession) -> None:
    """As Debezium's documentation shows it: the source, the op and when."""
    truncate = {name: value for name, value in envelope("t", 2).items() if name not in ("before", "after")}
    tables = [table_of(name, COLUMNS, ["id"]) for name in ("together", "alone")]
    project = make_project({"tables": tables})
    first = envelope("c", 1, after={"id": 1, "note": "a", "price": None})
    project.deliver("shop.together", 0, [first, truncate])
    project.deliver("shop.alone", 0, [first])
    project.land_well(spark)
    project.deliver("shop.alone", 10, [truncate])
    landed = project.land_well(spark)
    assert landed["alone"].counts.quarantined == 0
    assert project.rows(spark, "together") == project.rows(spark, "alone") == []


@pytest.mark.slow
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


@pytest.mark.slow
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


def _moved(lsn: int, old: int, new: int) -> list[Event]:
    """A changed key, as PostgreSQL logs it."""
    return [pg("d", lsn, id=old, note=""), pg("c", lsn, id=new, note=UNAVAILABLE_VALUE)]


@pytest.mark.parametrize("history", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_key_that_changes_several_times_in_a_batch_brings_its_values(
    history: bool, make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project(items({"id": "int", "note": "string"}, history=history, **ALL))
    ways = {
        "on": (pg("c", 10, id=1, note="on"), *_moved(20, 1, 2), *_moved(30, 2, 3)),
        "back": (pg("c", 10, id=11, note="back"), *_moved(21, 11, 12), *_moved(31, 12, 11)),
        "swapped": (pg("c", 10, id=21, note="swapped"), pg("c", 11, id=22, note="other"), *_moved(22, 21, 29),
                    *_moved(32, 22, 21), *_moved(42, 29, 22)),
        "onto": (pg("c", 10, id=31, note="onto"), pg("c", 12, id=32, note="gone"), pg("d", 14, id=32, note=""),
                 *_moved(23, 31, 32), *_moved(33, 32, 33)),
        "far": (pg("c", 10, id=41, note="far"), *(each for n in range(41, 47) for each in _moved(n + 9, n, n + 1))),
    }  # fmt: skip
    project.deliver(TOPIC, 0, [event for events in ways.values() for event in events])
    project.land_well(spark)
    assert project.quarantined(spark) == []
    assert project.rows(spark, "item") == [
        {"id": key, "note": note}
        for key, note in ((3, "on"), (11, "back"), (21, "other"), (22, "swapped"), (33, "onto"), (47, "far"))
    ]


CLOUD_EVENT: dict[str, Any] = {
    "id": "name:shop;lsn:1",
    "source": "/debezium/postgresql/shop",
    "specversion": "1.0",
    "type": "change",
    "iodebeziumop": "c",
    "iodebeziumlsn": "1",
    "data": {"before": None, "after": {"id": 1}},
}
WITH_TEXT = CLOUD_EVENT | {"data": "{}"}
OF_MONGODB = {**envelope("c", 1, after='{"_id": {"$oid": "63"}}'), "updateDescription": None}
FOREIGN: list[tuple[Value, str]] = [
    (CLOUD_EVENT, "a CloudEvent"),
    (CLOUD_EVENT["data"], "as the data of a CloudEvent is"),
    ({"schema": connect_struct(dict.fromkeys(WITH_TEXT, connect("string"))), "payload": WITH_TEXT}, "a CloudEvent"),
    (OF_MONGODB, "an envelope of the MongoDB connector"),
    ({**OF_MONGODB, "op": "d", "after": None}, "an envelope of the MongoDB connector"),
    ({"key": {"id": 1}, "value": envelope("c", 1, after={"id": 1})}, "a record of Kafka with its key and value"),
    ({"topic": TOPIC, "partition": 0, "offset": 1, "key": None, "payload": "{}"}, "a record of Kafka with its key"),
    ({"database": "d", "table": "t", "type": "insert", "ts": 1, "xid": 9, "data": {"id": 1}}, "as Maxwell or Canal"),
    ({"data": [{"id": 1}], "id": 9, "table": "t", "database": "d", "type": "INSERT", "old": None}, "Maxwell or Canal"),
    ({"data": {"id": 1}, "metadata": {"operation": "insert", "record-type": "data"}}, "as AWS DMS writes it"),
    ({"schemaId": 1, "payload": envelope("c", 1, after={"id": 1})}, "as Apicurio's ExtJsonConverter writes it"),
    ({"before": None, "after": {"id": 1}, "source": {"lsn": 1}}, "an envelope without op"),
    ({"before": None, "after": {"id": 1}, "op": "r", "ts_ms": 1}, "an envelope without source"),
]
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
    *((value, "not_an_event", told) for value, told in FOREIGN),
    (pg("c", 1, note="n"), "missing_key", "key column id is null"),
    (pg("u", None, id=1), "missing_position", "add.fields must hold source.lsn"),
    (envelope("u", None, after={"id": 1}), "missing_position", "lacks source.lsn. Declare the connector"),
    (pg("c", 1, id="one"), "bad_value", "column id: one is not exactly a int"),
    (pg("c", 1, id=1, price="1.239"), "bad_value", "column price: 1.239"),
    (pg("u", 1, id=1, note=UNAVAILABLE_VALUE), "unavailable_value", "unavailable value of note"),
]


@pytest.mark.slow
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


@pytest.mark.slow
def test_rows_may_have_the_fields_of_what_is_no_event(make_project: MakeProject, spark: SparkSession) -> None:
    columns = dict.fromkeys(("id", "key", "value", "source"), "string") | {"time": "bigint"}
    project = make_project(items(columns, connector=None, order_by=["time"]))
    more: list[dict[str, Any]] = [{"specversion": "1.0", "type": "t"}, {"topic": "t"}, {"before": "x", "after": "y"}]
    rows = [{**dict.fromkeys(columns), "id": str(place), "time": place, **row} for place, row in enumerate(more)]
    records(project, *((None, row) for row in rows))
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=3)
    found = spark.table(f"{project.schema}.item").orderBy("id").select("specversion", "topic", "after").collect()
    assert [tuple(row) for row in found] == [("1.0", None, None), (None, "t", None), (None, None, "y")]


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_envelope_of_no_row_says_nothing_of_deletes(make_project: MakeProject, spark: SparkSession) -> None:
    """Truncates and messages are envelopes in a topic of unwrapped events too."""
    project = make_project(items(**ALL, truncate="ignore"))
    first = [(key, without_rewrite(event)) for key, event in PLAIN]
    records(project, *first, (None, truncate(5)), (None, {**envelope("m", 6), "message": {}}), ({"id": 1}, None))
    assert project.land_well(spark)["item"].counts == Counts(read=6, applied=3, ignored=2, quarantined=1)
    assert [row["reason_code"] for row in project.quarantined(spark)] == ["tombstone"]


@pytest.mark.slow
def test_an_event_of_a_table_without_a_key_may_lack_a_column(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project(items(key=(), **ALL))
    lacking = {name: value for name, value in pg("u", 2, id=2, note=None, price=None).items() if name != "note"}
    toasted = pg("u", 3, id=3, note=UNAVAILABLE_VALUE, price=None)
    records(project, (None, pg("c", 1, id=1, note="n", price=None)), (None, lacking), (None, toasted))
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=1, quarantined=2)
    assert {row["reason_code"] for row in project.quarantined(spark)} == {"unavailable_value"}


@pytest.mark.slow
def test_what_waits_beside_a_lacking_value_is_read_again_whatever_the_source_writes(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """A change that is well by itself is kept as it was decoded: with `decimal: base64` its number was no base64."""
    table = table_of("item", {"id": "decimal(4,0)", "note": "string"}, ["id"], **ALL)
    table["columns"][0]["config"] = {"meta": {"ingest": {"decimal": "base64"}}}
    project = make_project({"tables": [table]})
    project.deliver(TOPIC, 0, [pg("d", 15, id="BNI=", note=""), pg("c", 20, id="BNI=", note=UNAVAILABLE_VALUE)])
    project.land_well(spark)
    for _ in range(2):
        assert [row["reason_code"] for row in project.quarantined(spark)] == ["unavailable_value"] * 2
        replay(spark, project.source().tables[0])


@pytest.mark.parametrize("form", ["envelope", pytest.param("rewritten", marks=pytest.mark.slow)])
@pytest.mark.parametrize("history", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_deletes_of_keys_alone_are_applied_where_a_column_orders(
    form: str, history: bool, make_project: MakeProject, spark: SparkSession
) -> None:
    """PostgreSQL's deletes hold their key, and fillers for what may not be null: none of them says where it stands."""
    rng = random.Random(f"{form} {history}")  # noqa: S311
    entry = table_of("item", {"id": "int", "at": "int", "v": "string"}, ["id"], order_by=["at"], history=history)
    project = make_project({"tables": [entry]})
    live: dict[int, str] = {}
    events: list[Event] = []
    for at in range(1, 80):
        key = rng.randrange(8)
        row: dict[str, Any] = {"id": key, "at": at, "v": f"v{at}"}
        op = rng.choice("ud") if key in live else "c"
        if op == "d":
            del live[key]
            row |= {"at": rng.choice([0, None]), "v": None}
        else:
            live[key] = row["v"]
        after = None if op == "d" else row
        events.append(pg(op, at, **row) if form == "rewritten" else envelope(op, at, before=row, after=after))
    offset = 0
    while offset < len(events):
        size = rng.choice([3, 17, 40])
        project.deliver("shop.item", offset, events[offset : offset + size])
        counts = project.land_well(spark)["item"].counts
        assert (counts.quarantined, counts.read) == (0, min(size, len(events) - offset))
        offset += size
    assert {row["id"]: row["v"] for row in project.rows(spark, "item")} == live
    project.deliver("shop.item", 1000, events[-30:])
    project.land_well(spark)
    assert {row["id"]: row["v"] for row in project.rows(spark, "item")} == live
