"""What each kind of event makes of a silver table: named scenarios, landed side by side, batch by batch."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from conftest import Played, Row, Scenario, asked, pg, play, unwrapped
from pyspark.sql import SparkSession

from ingest.schema.connectors import UNAVAILABLE_VALUE
from ingest.silver.state import Counts

pytestmark = pytest.mark.spark

NOTES = {"note_id": "int", "title": "string", "body": "string"}


def note(
    op: str, lsn: int | None, note_id: int, title: str | None, body: str | None = UNAVAILABLE_VALUE, **more: int
) -> Row:
    """An event of the table of notes; its body is what PostgreSQL keeps out of line."""
    return pg(op, lsn, **more, note_id=note_id, title=title, body=body)


def envelope(op: str, lsn: int, before: Row | None, after: Row | None) -> Row:
    """A whole envelope of PostgreSQL."""
    source = {"name": "shop", "db": "shop", "schema": "public", "table": "note", "ts_ms": 1, "lsn": lsn}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 2}


def binlog(op: str, pos: int | None, **row: Any) -> Row:
    """An unwrapped event of MariaDB."""
    place = {"__source_file": "mariadb-bin.000001" if pos else None, "__source_pos": pos, "__source_row": 0}
    return unwrapped(op, place, row)


def streamed(event: str, number: str, v: str) -> Row:
    """A record of a DynamoDB stream."""
    keys = {"id": {"N": "1"}}
    return {"eventName": event,
            "dynamodb": {"Keys": keys, "NewImage": {**keys, "v": {"S": v}}, "SequenceNumber": number}}  # fmt: skip


SCENARIOS = (
    # Unavailable values
    Scenario(
        "an_unavailable_value_keeps_what_silver_has",
        NOTES, ["note_id"],
        [[note("c", 10, 1, "a", "long")], [note("u", 20, 1, "b")], [note("u", 30, 1, "c"), note("u", 40, 1, "d")]],
        [{"note_id": 1, "title": "d", "body": "long"}],
        Counts(read=4, applied=3, superseded=1),
    ),
    Scenario(
        "an_unavailable_value_takes_the_newest_of_its_batch",
        NOTES, ["note_id"],
        [[note("c", 10, 1, "a", "old")], [note("u", 20, 1, "b", "new"), note("u", 30, 1, "c"), note("u", 40, 1, None)]],
        [{"note_id": 1, "title": None, "body": "new"}],
        Counts(read=4, applied=2, superseded=2),
    ),
    Scenario(
        "an_available_null_is_a_value",
        NOTES, ["note_id"],
        [[note("c", 10, 1, "a", "old"), note("u", 20, 1, "b", None)], [note("u", 30, 1, "c")]],
        [{"note_id": 1, "title": "c", "body": None}],
        Counts(read=3, applied=2, superseded=1),
    ),
    Scenario(
        "a_value_that_comes_late_reaches_the_row_that_carried_an_older_one",
        NOTES, ["note_id"],
        [
            [note("c", 10, 1, "a", "first")],
            [note("u", 30, 1, "c")],
            [note("u", 20, 1, "b", "second")],
            [note("u", 15, 1, "b", "too old")],
            [note("u", 40, 1, "d")],
        ],
        [{"note_id": 1, "title": "d", "body": "second"}],
        Counts(read=5, applied=4, superseded=1),
    ),
    Scenario(
        "an_unavailable_value_without_an_earlier_one_is_quarantined_and_never_stored",
        NOTES, ["note_id"],
        [[note("u", 20, 1, "b"), note("c", 10, 2, "x", "y")]],
        [{"note_id": 2, "title": "x", "body": "y"}],
        Counts(read=2, applied=1, quarantined=1),
        ["unavailable value of body"],
    ),
    Scenario(
        "a_changed_primary_key_takes_its_unavailable_values_along",
        NOTES, ["note_id"],
        [
            [note("c", 10, 1, "a", "long"), note("c", 11, 5, "e", "other")],
            [note("d", 20, 1, None, ""), note("c", 20, 2, "a")],
            [note("d", 30, 2, None, ""), note("c", 30, 3, "a"), note("u", 40, 3, "z")],
        ],
        [{"note_id": 3, "title": "z", "body": "long"}, {"note_id": 5, "title": "e", "body": "other"}],
        Counts(read=7, applied=6, superseded=1),
    ),
    Scenario(
        "a_changed_primary_key_within_the_batch_of_its_insert",
        {"a": "string", "b": "int", "body": "string"}, ["a", "b"],
        [[
            pg("c", 10, a="x,b:1", b=1, body="long"),
            pg("d", 20, a="x,b:1", b=1, body=""),
            pg("c", 20, a="y", b=2, body=UNAVAILABLE_VALUE),
        ]],
        [{"a": "y", "b": 2, "body": "long"}],
        Counts(read=3, applied=2, superseded=1),
    ),
    Scenario(
        "placeholders_in_arrays_and_bytes_are_unavailable_too",
        {"note_id": "int", "tags": "array<string>", "sizes": "array<int>", "raw": "binary"}, ["note_id"],
        [
            [pg("c", 10, note_id=1, tags=["a", "b"], sizes=[1, 2], raw="AQI=")],
            [pg("u", 20, note_id=1, tags=[UNAVAILABLE_VALUE], sizes=list(UNAVAILABLE_VALUE.encode()),
                raw="X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")],
        ],
        [{"note_id": 1, "tags": ["a", "b"], "sizes": [1, 2], "raw": bytearray(b"\x01\x02")}],
    ),
    Scenario(
        "a_truncated_placeholder_is_unavailable_and_a_text_of_less_is_a_value",
        NOTES, ["note_id"],
        [
            [note("c", 10 + number, number, "a", f"long {number}") for number in (1, 2, 3)],
            [note("u", 20, 1, "b", UNAVAILABLE_VALUE[:20]), note("u", 21, 2, "b", UNAVAILABLE_VALUE[:10]),
             note("u", 22, 3, UNAVAILABLE_VALUE + "s", UNAVAILABLE_VALUE[:9])],
        ],
        [{"note_id": 1, "title": "b", "body": "long 1"}, {"note_id": 2, "title": "b", "body": "long 2"},
         {"note_id": 3, "title": UNAVAILABLE_VALUE + "s", "body": UNAVAILABLE_VALUE[:9]}],
        Counts(read=6, applied=6),
    ),
    Scenario(
        "a_deleted_and_inserted_row_does_not_inherit",
        NOTES, ["note_id"],
        [[note("c", 10, 1, "a", "old")], [note("d", 20, 1, None, ""), note("c", 30, 1, "b", None)],
         [note("u", 40, 1, "c")]],
        [{"note_id": 1, "title": "c", "body": None}],
    ),
    # Columns that an update leaves out
    Scenario(
        "an_update_without_a_column_keeps_it_and_a_null_is_a_null",
        {"id": "int", "email": "string", "city": "string"}, ["id"],
        [[binlog("c", 10, id=1, email="e", city="c"), binlog("c", 11, id=2, email="e", city="c")],
         [binlog("u", 20, id=1, city="d"), binlog("u", 21, id=2, email=None, city="d")]],
        [{"id": 1, "email": "e", "city": "d"}, {"id": 2, "email": None, "city": "d"}],
        options={"connector": "mariadb"},
    ),
    Scenario(
        "nulls_of_updates_are_ignored_where_declared",
        {"id": "int", "email": "string", "city": "string"}, ["id"],
        [[binlog("c", 10, id=1, email="e", city="c"), binlog("c", 11, id=2, email=None, city="c")],
         [binlog("u", 20, id=1, email=None, city="d")]],
        [{"id": 1, "email": "e", "city": "d"}, {"id": 2, "email": None, "city": "c"}],
        options={"connector": "mariadb", "null_updates": "ignore"},
    ),
    # Truncates
    Scenario(
        "a_truncate_empties_the_table_and_what_is_older_stays_gone",
        NOTES, ["note_id"],
        [
            [envelope("c", 10, None, {"note_id": 1, "title": "a", "body": "b"}),
             envelope("c", 11, None, {"note_id": 2, "title": "a", "body": "b"})],
            [envelope("c", 20, None, {"note_id": 3, "title": "a", "body": "b"}),
             envelope("t", 30, None, None),
             envelope("c", 40, None, {"note_id": 2, "title": "new", "body": "b"})],
            [envelope("u", 25, None, {"note_id": 1, "title": "late", "body": "b"}),
             envelope("c", 26, None, {"note_id": 9, "title": "late", "body": "b"}),
             envelope("c", 50, None, {"note_id": 4, "title": "a", "body": "b"})],
        ],
        [{"note_id": 2, "title": "new", "body": "b"}, {"note_id": 4, "title": "a", "body": "b"}],
        Counts(read=8, applied=5, superseded=3),
    ),
    Scenario(
        "a_truncate_is_ignored_where_declared",
        NOTES, ["note_id"],
        [[envelope("c", 10, None, {"note_id": 1, "title": "a", "body": "b"}), envelope("t", 30, None, None)]],
        [{"note_id": 1, "title": "a", "body": "b"}],
        Counts(read=2, applied=1, ignored=1),
        options={"truncate": "ignore"},
    ),
    # Keys
    Scenario(
        "keys_with_separators_unicode_empty_texts_and_nulls_stay_apart",
        {"a": "string", "b": "string", "v": "int"}, ["a", "b"],
        [
            [pg("c", 10, a="x,b:y", b="z", v=1), pg("c", 11, a="x", b="y,b:z", v=2),
             pg("c", 12, a="", b="é\u0000", v=3),
             pg("c", 13, a=None, b="", v=4), pg("c", 14, a="", b=None, v=5), pg("c", 15, a="null", b="", v=6),
             pg("c", 16, a="__null__", b="", v=7), pg("c", 17, a='"', b="\\", v=8)],
            [pg("u", 20, a="x", b="y,b:z", v=20), pg("d", 21, a="", b=None, v=0), pg("u", 22, a=None, b="", v=40)],
        ],
        [{"a": None, "b": "", "v": 40}, {"a": "", "b": "é\u0000", "v": 3}, {"a": '"', "b": "\\", "v": 8},
         {"a": "__null__", "b": "", "v": 7}, {"a": "null", "b": "", "v": 6}, {"a": "x", "b": "y,b:z", "v": 20},
         {"a": "x,b:y", "b": "z", "v": 1}],
        Counts(read=11, applied=11),
    ),
    Scenario(
        "a_key_of_an_empty_text",
        {"code": "string", "v": "int"}, ["code"],
        [[pg("c", 10, code="", v=1), pg("c", 11, code="a", v=2)], [pg("u", 20, code="", v=3)]],
        [{"code": "", "v": 3}, {"code": "a", "v": 2}],
    ),
    Scenario(
        "a_key_of_a_timestamp_is_the_same_on_insert_and_on_update",
        {"at": "timestamp", "v": "int"}, ["at"],
        [[pg("c", 10, at=1_500_000_000_000_001, v=1)], [pg("u", 20, at=1_500_000_000_000_001, v=2)],
         [pg("u", 15, at=1_500_000_000_000_001, v=3)]],
        [{"at": datetime(2017, 7, 14, 2, 40, 0, 1), "v": 2}],
        Counts(read=3, applied=2, superseded=1),
    ),
    Scenario(
        "a_table_without_a_key_appends",
        {"line": "string"}, [],
        [[pg("c", 10, line="a"), pg("c", 10, line="a")], [pg("c", 5, line="b")]],
        [{"line": "b"}, {"line": "a"}, {"line": "a"}],
        Counts(read=3, applied=3),
    ),
    # What is no change of a row
    Scenario(
        "heartbeats_transaction_markers_and_schema_changes_are_ignored_and_counted",
        {"id": "int"}, ["id"],
        [[
            {"ts_ms": 1},
            {"status": "BEGIN", "id": "571:53195829", "event_count": None, "data_collections": None, "ts_ms": 1},
            {"status": "END", "id": "571:53195829", "event_count": 2, "data_collections": [], "ts_ms": 1},
            {"source": {"name": "shop"}, "ts_ms": 1, "databaseName": "shop", "schemaName": None,
             "ddl": "create table t (i int)", "tableChanges": []},
            "null",
            pg("m", 9),
            pg("c", 10, id=1),
        ]],
        [{"id": 1}],
        Counts(read=7, applied=1, ignored=6),
    ),
    # Order
    Scenario(
        "a_transaction_that_was_open_during_the_snapshot_wins_in_one_batch",
        NOTES, ["note_id"],
        [[note("r", 100, 1, "old", "b"), note("u", 90, 1, "open", "b"), note("u", 95, 1, "open 2", "b"),
          note("r", 100, 2, "as read", "b")]],
        [{"note_id": 1, "title": "open 2", "body": "b"}, {"note_id": 2, "title": "as read", "body": "b"}],
        Counts(read=4, applied=2, superseded=2),
    ),
    Scenario(
        "a_transaction_that_was_open_during_the_snapshot_wins_in_later_batches",
        NOTES, ["note_id"],
        [[note("r", 100, 1, "old", "b")], [note("u", 90, 1, "open", "b")], [note("u", 95, 1, "open 2", "b")],
         [note("u", 120, 1, "next", "b", commit=110)], [note("u", 95, 1, "open 2", "b")]],
        [{"note_id": 1, "title": "next", "body": "b"}],
        Counts(read=5, applied=4, superseded=1),
    ),
    Scenario(
        "the_commit_decides_between_interleaved_transactions",
        NOTES, ["note_id"],
        [[note("c", 50, 1, "a", "b", commit=40)],
         [note("u", 80, 1, "committed first", "b", commit=60), note("u", 70, 1, "committed last", "b", commit=90)]],
        [{"note_id": 1, "title": "committed last", "body": "b"}],
    ),
    Scenario(
        "a_row_of_an_incremental_snapshot_stands_where_it_was_delivered",
        NOTES, ["note_id"],
        [
            [note("c", 10, 1, "a", "x"), note("r", None, 1, "b", "x"), note("c", 20, 2, "a", "x")],
            [note("r", None, 2, "b", "x"), note("u", 30, 2, "c", "x"), note("r", None, 1, "c", "x")],
            [note("c", 20, 2, "again", "x"), note("r", None, 3, "new", "x"), note("u", 40, 1, "d", "x")],
        ],
        [{"note_id": 1, "title": "d", "body": "x"}, {"note_id": 2, "title": "c", "body": "x"},
         {"note_id": 3, "title": "new", "body": "x"}],
    ),
    Scenario(
        "declared_columns_order_the_changes",
        {"id": "int", "changed_at": "timestamp", "seq": "int", "v": "string"}, ["id"],
        [
            [{"id": 1, "changed_at": "2024-01-01T00:00:00Z", "seq": 2, "v": "b"},
             {"id": 1, "changed_at": "2024-01-01T00:00:00Z", "seq": 1, "v": "a"},
             {"id": 2, "changed_at": "1969-12-31T23:59:59Z", "seq": 9, "v": "before 1970"},
             {"id": 2, "changed_at": "1969-12-31T23:59:58Z", "seq": 10, "v": "older"}],
            [{"id": 1, "changed_at": "2024-01-01T00:00:00Z", "seq": -5, "v": "late"},
             {"id": 2, "changed_at": "1970-01-01T00:00:00Z", "seq": 0, "v": "newer"}],
        ],
        [{"id": 1, "changed_at": datetime(2024, 1, 1), "seq": 2, "v": "b"},
         {"id": 2, "changed_at": datetime(1970, 1, 1), "seq": 0, "v": "newer"}],
        Counts(read=6, applied=3, superseded=3),
        options={"connector": None, "order_by": ["changed_at", "seq"]},
    ),
    Scenario(
        "sequence_numbers_of_forty_digits_order_a_stream",
        {"id": "int", "v": "string"}, ["id"],
        [[streamed("INSERT", "9" * 21, "older"), streamed("MODIFY", "1" * 22, "newer")],
         [streamed("MODIFY", "2" * 21, "late")]],
        [{"id": 1, "v": "newer"}],
        options={"connector": "dynamodb"},
    ),
    Scenario(
        "a_row_that_changes_partition_stays_one",
        {"id": "int", "region": "string", "v": "int"}, ["id"],
        [[binlog("c", 10, id=1, region="a", v=1), binlog("c", 11, id=2, region="a", v=1)],
         [binlog("u", 20, id=1, region="b", v=2)], [binlog("u", 15, id=1, region="c", v=9)],
         [binlog("d", 30, id=2, region="b", v=1)]],
        [{"id": 1, "region": "b", "v": 2}],
        Counts(read=5, applied=4, superseded=1),
        options={"connector": "mariadb", "partition_by": ["region"]},
    ),
)  # fmt: skip

# tests/ingest/test_model.py plays many orders of batches, tests/ingest/test_forms.py placeholders and types of keys.
SLOW = (
    "_cow",
    "a_value_that_comes_late",
    "snapshot_wins_in_later_batches",
    "takes_the_newest_of_its_batch",
    "placeholders_in_arrays",
    "a_key_of_a_timestamp",
    "declared_columns_order",
    "within_the_batch_of_its_insert",
    "a_truncated_placeholder",
    "a_deleted_and_inserted_row",
    "nulls_of_updates",
    "a_truncate_is_ignored",
    "a_key_of_an_empty_text",
    "the_commit_decides",
    "open_during_the_snapshot_wins_in_one_batch",
    "sequence_numbers_of_forty",
)
BOTH_TYPES = ("late", "row_that_changes_partition", "truncate_empties", "changed_primary_key", "stay_apart")


def scenes() -> list[Scenario]:
    """Every scenario on merge-on-read, and those on copy-on-write as well in which a batch meets rows of silver."""
    made = []
    for scene in SCENARIOS:
        made.append(scene)
        if any(word in scene.name for word in BOTH_TYPES):
            options = {**scene.options, "table_type": "cow"}
            made.append(Scenario(**{**vars(scene), "name": f"{scene.name}_cow", "options": options}))
    return made


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Played]:
    """What came of the scenarios that are asked for."""
    names = asked(request)
    return play(spark, tmp_path_factory.mktemp("scenes"), [scene for scene in scenes() if scene.name in names])


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(scene, id=scene.name, marks=[pytest.mark.slow] if any(word in scene.name for word in SLOW) else [])
        for scene in scenes()
    ],
)
def test_scenario(scene: Scenario, played: dict[str, Played]) -> None:
    result = played[scene.name]
    assert not result.errors
    assert result.rows == scene.rows, json.dumps(result.rows, default=str)
    if scene.totals:
        assert result.totals == scene.totals
    assert len(result.reasons) == len(scene.reasons)
    assert all(part in reason for part, reason in zip(scene.reasons, result.reasons, strict=True))
