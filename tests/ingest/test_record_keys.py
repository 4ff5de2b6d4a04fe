"""Deletes and tombstones: the key of a record says which row goes, whatever its value holds."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from conftest import MakeProject, pg, table_of, unwrapped
from json_records import ALL, PLAIN, Value, connect, envelope, items, records, with_schema, without_rewrite
from pyspark.sql import SparkSession
from registry_server import serve, use_registry

from ingest.errors import WriteError
from ingest.operations.erase import erase
from ingest.operations.position import set_position
from ingest.operations.replay import replay
from ingest.silver.state import Counts
from ingest.silver.table import SilverTable

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_a_delete_is_of_its_records_key(make_project: MakeProject, spark: SparkSession) -> None:
    """Whatever `before` holds; and a late older update of the row does not bring it back."""
    key_schema = {"type": "struct", "fields": [{"type": "int32", "optional": False, "field": "id"}], "optional": False}
    keys: dict[int, Value] = {
        1: {"id": 1},
        2: {"schema": key_schema, "payload": {"id": 2}},
        3: "3",
        4: b"\0\0\0\0\5" + b"\x08",  # Avro: 4
        5: b"\0\0\0\0\6" + b"\x0a",  # Avro, of an int alone: 5
        6: b"\0\0\0\0\7" + b"\x026",  # Avro, of a string alone: "6"
        7: {"other": 7, "id": 7},
    }
    registered = {
        "5": {"schema": json.dumps({"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]})},
        "6": {"schema": json.dumps({"type": "int", "connect.type": "int16"})},
        "7": {"schema": json.dumps("string")},
    }
    project = make_project(items(**ALL))
    with serve(registered) as registry:
        use_registry(project, registry.url)
        records(project, *(({"id": key}, envelope("c", 10 + key, after={"id": key, "note": "n"})) for key in keys))
        project.land_well(spark)
        # Of the last one the value holds another key: a filler.
        befores = [*[None] * 6, {"id": 0, "note": ""}]
        deletes = [(key, envelope("d", 30, before=before)) for key, before in zip(keys.values(), befores, strict=True)]
        unknown: list[tuple[Value, Value]] = [(None, envelope("d", 31)), ("Struct{id=1}", envelope("d", 32))]
        delivered = records(project, *deletes, *unknown, offset=10)
        counts = project.land_well(spark)["item"].counts
        assert counts == Counts(read=delivered, applied=7, quarantined=2)
        assert project.rows(spark, "item") == []
        assert {row["reason_code"] for row in project.quarantined(spark)} == {"missing_key"}
        records(
            project, *(({"id": key}, envelope("u", 20, after={"id": key, "note": "late"})) for key in keys), offset=30
        )
        assert project.land_well(spark)["item"].counts == Counts(read=7, superseded=7)
    assert project.rows(spark, "item") == []


BARE = ["10 Downing Street", "1.10", "1e5", "true love", "007", "12.50", "NaN", "1 2", "null", '"', 'a "b"']
# What a JSON parser makes of some of those.
NEIGHBOURS = ["10", "1.1", "100000.0", "true", "7", "12.5", "1"]


def test_a_bare_key_is_its_own_text(make_project: MakeProject, spark: SparkSession) -> None:
    """As StringConverter writes it; a JSON string is what it says. No other row is deleted, nor is one by half a
    character, which is read as a question mark."""
    columns = {"id": "string", "note": "string"}
    project = make_project(items(columns, **ALL))
    texts = {**{key: key for key in BARE}, "a b": '"a b"', 'c"\u00e9': '"c\\"\\u00e9"'}
    rows = [*texts, *NEIGHBOURS, "?"]
    halves: list[Value] = ['"\\ud800"', '{"id":"\\udfff"}', {"payload": {"id": "\ud800"}}]
    created: list[tuple[Value, Value]] = [(None, envelope("c", 1, after={"id": key, "note": "n"})) for key in rows]
    records(project, *created, *((key, envelope("d", 9)) for key in [*texts.values(), *halves]))
    expected = Counts(read=len(rows) + len(texts) + 3, applied=len(rows), superseded=len(texts), quarantined=3)
    assert project.land_well(spark)["item"].counts == expected
    assert [row["id"] for row in project.rows(spark, "item")] == sorted([*NEIGHBOURS, "?"])


def test_a_key_may_be_written_in_another_case(make_project: MakeProject, spark: SparkSession) -> None:
    columns = {"a": "int", "b": "int", "note": "string"}
    tables = [table_of("one", columns, ["a"]), table_of("two", columns, ["a", "b"])]
    project = make_project({"tables": tables})
    for name, key in (("one", {"A": 1}), ("two", {"A": 1, "b": 2})):
        events: list[tuple[Value, Value]] = [
            (key, envelope("c", 1, after={"a": 1, "b": 2, "note": "n"})),
            (key, envelope("d", 2)),
        ]
        records(project, *events, topic=f"shop.{name}")
    landed = project.land_well(spark)
    assert {landed[name].counts for name in ("one", "two")} == {Counts(read=2, applied=1, superseded=1)}


@pytest.mark.slow
def test_a_row_that_its_record_s_key_does_not_say_is_set_aside(make_project: MakeProject, spark: SparkSession) -> None:
    """`column.mask.hash...`, `column.truncate...` and transforms of `$Value` leave the key as it was: a delete of it
    missed the row, and the plain key was silver's. A bare key may be what the records are partitioned by.
    """
    columns = {"email": "string", "price": "decimal(8,2)", "name": "string"}
    names = ("envelope", "described", "unwrapped", "scalar", "avro", "several")
    keys = {name: ["email", "price"] if name == "several" else ["email"] for name in names}
    project = make_project({"tables": [table_of(name, columns, keys[name], **ALL) for name in names]})
    row = {"email": connect("string"), "price": connect("string"), "name": connect("string")}
    schema = {"type": "record", "name": "Key", "fields": [{"name": "email", "type": "string"}]}

    def key_of(name: str, email: str, price: str) -> Value:
        if name == "scalar":
            return email
        if name == "avro":
            return b"\0\0\0\0\5" + bytes([2 * len(email)]) + email.encode()
        return {"price": price, "email": email} if name == "several" else {"email": email}

    # A key is written as other text than the value, and says the same.
    said = [("ann@x.org", "3f1c", "1.50"), ("bob@x.org", "bob@x.org", "2.5"), ('c"@x.org', 'c"@x.org', "3.00")]
    with serve({"5": {"schema": json.dumps(schema)}}) as registry:
        use_registry(project, registry.url)
        for name in names:
            events: list[tuple[Value, Value]] = []
            for lsn, (email, written, price) in enumerate(said, 10):
                after = {"email": written, "price": price, "name": "n"}
                event: Value = envelope("c", lsn, after=after)
                if name == "described":
                    event = with_schema(envelope("c", lsn, after=after), row)
                elif name == "unwrapped":
                    event = pg("c", lsn, email=written, price=price, name="n")
                events.append((key_of(name, email, f"{float(price):.2f}"), event))
            records(project, *events, topic=f"shop.{name}")
        landed = project.land_well(spark)
    assert landed["scalar"].counts == Counts(read=3, applied=3)
    for name in set(names) - {"scalar"}:
        assert landed[name].counts == Counts(read=3, applied=2, quarantined=1), name
        assert [found["email"] for found in project.rows(spark, name)] == ["bob@x.org", 'c"@x.org']
    for found in project.quarantined(spark):
        assert (found["reason_code"], "ann" in found["reason"]) == ("bad_value", False)
        assert found["reason"].startswith("column email: the record's key has another value than the row")


@pytest.mark.slow
def test_a_quarantined_delete_is_replayed_with_its_key(make_project: MakeProject, spark: SparkSession) -> None:
    columns = {"a": "string", "b": "int", "note": "string"}
    project = make_project(items(columns, ["a", "b"], **ALL))
    key = {"a": "x", "b": 1}
    records(project, (key, envelope("c", 1, after={**key, "note": "n"})), (key, envelope("d", None)))
    assert project.land_well(spark)["item"].counts == Counts(read=2, applied=1, quarantined=1)
    (row,) = project.quarantined(spark)
    assert (row["reason_code"], json.loads(bytes(row["record_key"]))) == ("missing_position", key)
    assert "add.fields" not in row["reason"]
    # Another order needs another epoch.
    project.declare(items(columns, ["a", "b"], order_by=["__source_ts_ms"], epoch=1, **ALL))
    replay(spark, project.source().tables[0])
    assert project.quarantined(spark) == []
    assert project.rows(spark, "item") == []


@pytest.mark.parametrize(
    "policy", ["delete", *(pytest.param(each, marks=pytest.mark.slow) for each in ("ignore", None))]
)
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


def test_a_tombstone_is_explained_by_the_delete_of_its_own_key(make_project: MakeProject, spark: SparkSession) -> None:
    """That of 1 was compacted away; that of 2 stands in the batch, and its own tombstone in the next one."""
    project = make_project(items(**ALL))
    records(project, *PLAIN)
    project.land_well(spark)
    records(project, ({"id": 1}, None), ({"id": 2}, pg("d", 20, id=2)), offset=10)
    assert project.land_well(spark)["item"].counts == Counts(read=2, applied=1, quarantined=1)
    records(project, ({"id": 2}, None), ({"id": 3}, pg("d", 30, id=3)), ({"id": 3}, None), offset=20)
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=1, ignored=2)
    assert [row["reason_code"] for row in project.quarantined(spark)] == ["tombstone"]


@pytest.mark.slow
def test_what_is_set_aside_keeps_no_tombstone_from_its_own_outcome(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """Two that have lost their keys are two rows; a delete without a place in the log deletes nothing."""
    project = make_project(items(**ALL, tombstones="delete"))
    bad = without_rewrite(pg("d", None, id=2))
    tombstones: list[tuple[Value, Value]] = [({"id": 1}, None), (None, None), (None, None), ({"id": 2}, None)]
    records(project, *((key, without_rewrite(event)) for key, event in PLAIN), ({"id": 2}, bad), *tombstones)
    assert project.land_well(spark)["item"].counts == Counts(read=8, applied=3, superseded=2, quarantined=3)
    assert [row["id"] for row in project.rows(spark, "item")] == [3]
    codes = sorted(row["reason_code"] for row in project.quarantined(spark))
    assert codes == ["missing_key", "missing_key", "missing_position"]


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_bare_tombstone_has_the_unit_of_its_rows_schema(make_project: MakeProject, spark: SparkSession) -> None:
    """The key has no schema, and MySQL's default is milliseconds: another row was deleted, also a batch later."""
    options = {"connector": "mysql", "tombstones": "delete"}
    project = make_project({"tables": [table_of("item", {"since": "timestamp", "v": "int"}, ["since"], **options)]})
    row = {"since": connect("int64", name="io.debezium.time.MicroTimestamp"), "v": connect("int32")}
    place = {"__file": "binlog.1", "__pos": 1}
    created = [
        ({"since": at}, with_schema(without_rewrite(unwrapped("c", place, {"since": at, "v": at})), row))
        for at in (1_000_000, 2_000_000, 3_000_000)
    ]
    records(project, *created, ({"since": 1_000_000}, None), offset=0)
    project.land_well(spark)
    records(project, ({"since": 2_000_000}, None), offset=10)
    project.land_well(spark)
    assert project.rows(spark, "item", "v") == [{"v": 3_000_000}]


def test_what_has_no_place_in_the_log_comes_behind_a_snapshot_s_row(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """In one batch, where no change of the key was streamed: a bare tombstone, and an incremental snapshot's row."""
    project = make_project(items(tombstones="delete"))

    def read(key: int, lsn: int | None, note: str) -> tuple[Value, Value]:
        return {"id": key}, without_rewrite(pg("r", lsn, id=key, note=note, price=None))

    first = (read(1, 10, "gone"), read(2, 10, "before"), read(3, None, "gone"), ({"id": 4}, None))
    delivered = records(
        project, *first, ({"id": 1}, None), read(2, None, "since"), ({"id": 3}, None), read(4, 10, "new")
    )
    # Of two readings at one place the first counts as repeated.
    assert project.land_well(spark)["item"].counts == Counts(read=delivered, applied=4, superseded=3, duplicate=1)
    assert project.rows(spark, "item", "id", "note") == [{"id": 2, "note": "since"}, {"id": 4, "note": "new"}]


@pytest.mark.slow
def test_an_erased_key_that_comes_again_is_deleted_and_read_as_any_other(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """A tombstone and a snapshot's row have no place in the log: what was delivered, or read, before the erasure means
    nothing, and what came since counts."""
    project = make_project(items(**ALL, tombstones="delete"))
    first = [(key, without_rewrite(event)) for key, event in PLAIN]
    records(project, *first, ({"id": 1}, None))
    project.land_well(spark)
    (table,) = project.source().tables
    assert erase(spark, table, [("1",)]).places[0].rows == 1
    read_before = without_rewrite(pg("r", None, id=1, note="before", price=None))
    records(project, ({"id": 1}, read_before), offset=10)
    set_position(spark, table, to_latest=False)
    project.land_well(spark)
    assert [row["id"] for row in project.rows(spark, "item", live=False)] == [2, 3]
    records(project, ({"id": 1}, without_rewrite(pg("c", 50, id=1, note="again", price=None))), offset=20)
    project.land_well(spark)
    records(project, ({"id": 1}, None), offset=30)
    assert project.land_well(spark)["item"].counts == Counts(read=1, applied=1)
    assert [row["id"] for row in project.rows(spark, "item")] == [2, 3]
    read_since = {**read_before, "note": "since", "__source_ts_ms": int(time.time() * 1000)}
    records(project, ({"id": 1}, read_since), offset=40)
    assert project.land_well(spark)["item"].counts == Counts(read=1, applied=1)
    assert [row["note"] for row in project.rows(spark, "item")] == ["since", "n", "n"]


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("declared", [{}, {"tombstones": "delete"}])
def test_tombstones_behind_rewritten_deletes_say_nothing_more(
    declared: dict[str, Any], make_project: MakeProject, spark: SparkSession
) -> None:
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
