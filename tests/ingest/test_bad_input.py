"""What cannot be read or applied never stops the rest, never vanishes, and is never counted as done."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import fastavro
import pytest
from conftest import DbtProject, MakeProject, pg, table_of
from json_records import connect, with_schema
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest.decode.json_characters import has_half_a_character
from ingest.decode.json_numbers import has_bare_nan
from ingest.errors import InputError, LakeError, WriteError
from ingest.silver.state import Counts

pytestmark = pytest.mark.spark

TOPIC = "shop.item"
COLUMNS = {
    "item_id": "int",
    "price": "decimal(8,2)",
    "stock": "int",
    "total": "bigint",
    "made_on": "date",
    "note": "string",
}


def items(**options: Any) -> dict[str, Any]:
    return table_of("item", COLUMNS, ["item_id"], **options)


def item(op: str, lsn: int | None, key: object, **row: object) -> dict[str, Any]:
    whole: dict[str, Any] = {"item_id": key, "price": 1.5, "stock": 1, "total": 1, "made_on": 19_000, "note": "n"}
    return pg(op, lsn, **whole | row)


def plain(error: LakeError) -> str:
    """The message, which must be one for people: no stack trace, a place, what to do."""
    assert "Traceback" not in error.message
    assert "\tat " not in error.message
    assert len(error.message) < 2000
    assert "to do:" in error.message
    return error.message


GOOD = [item("c", 10, 1), item("c", 20, 2)]
# A line, and the reason that stands in the quarantine.
BAD: dict[str, tuple[str | dict[str, Any], str]] = {
    "no JSON": ("this is no JSON", "not a JSON object"),
    "unfinished": ('{"item_id": 3, "__op": "c", "__ls', "not a JSON object"),
    "list": ('[{"item_id": 3}]', "not a JSON object"),
    "number": ("17", "not a JSON object"),
    "text": ('"item"', "not a JSON object"),
    "two events in a line": (json.dumps(GOOD[0]) + json.dumps(GOOD[1]), "not a JSON object"),
    "something behind": (json.dumps(item("c", 30, 3)) + " and more", "not a JSON object"),
    "a brace too many": (json.dumps(item("c", 30, 3)) + "}", "something follows it in the text"),
    "a brace too many, nested": (json.dumps(item("c", 30, 3, note={"a": "b"})) + " }", "something follows it"),
    "a control character": (json.dumps(item("c", 30, 3)).replace('"n"', '"\x00"'), "control character that is not"),
    "not a number, bare": (json.dumps(item("c", 30, 3, note=float("nan"))), "not a JSON object"),
    "infinite, bare": (json.dumps(item("c", 30, 3, more=-float("inf"))), "not a JSON object"),
    "half a character": (json.dumps(item("c", 30, 3, note="\ud800")), "a string holds half a character"),
    "a column twice": (json.dumps(item("c", 30, 3)).replace('"n"', '"n", "note": "m"'), "a key stands twice"),
    "another object": ({"hello": "world"}, "key column item_id is null"),
    "no key": (item("c", 30, None), "key column item_id is null"),
    "text for a key": (item("c", 30, "three"), "item_id: three is not exactly a int"),
    "text for an int": (item("c", 30, 3, stock="many"), "stock: many is not exactly a int"),
    "fraction for an int": (item("c", 30, 3, stock=4.9), "stock: 4.9 is not exactly a int"),
    "beyond int": (item("c", 30, 3, stock=3_000_000_000), "stock: 3000000000 is not exactly a int"),
    "beyond bigint": (item("c", 30, 3, total=2**63), f"total: {2**63} is not exactly a bigint"),
    "fraction of a great bigint": (item("c", 30, 3, total="9007199254740993.4"), "total: 9007199254740993.4 is not"),
    "too many decimals": (item("c", 30, 3, price=1.239), "price: 1.239 is not exactly a decimal(8,2)"),
    "beyond the decimal": (item("c", 30, 3, price=1_000_000), "price: 1000000 is not exactly a decimal(8,2)"),
    "not a number": (item("c", 30, 3, price="NaN"), "price: NaN is not exactly a decimal(8,2)"),
    "no date": (item("c", 30, 3, made_on="yesterday"), "made_on: yesterday is not exactly a date"),
    "unknown op": (item("x", 30, 3), "op is x, expected one of c, u, d, r"),
    "no position": (item("u", None, 3), "add.fields must hold source.lsn, and add.fields.prefix be __"),
    "text for a position": ({**item("u", 1, 3), "__lsn": "0/16B3748"}, "__lsn: 0/16B3748 is not exactly a bigint"),
    "envelope without a row": (
        {"before": None, "after": None, "source": {"lsn": 30}, "op": "u"}, "the envelope has no row image"
    ),
}  # fmt: skip


def test_every_bad_line_is_quarantined_with_reason_place_and_bytes(
    make_project: MakeProject, spark: SparkSession
) -> None:
    # Nearly all of the file is bad, on purpose.
    project = make_project({"tables": [items(quarantine_limit={"share": 1.0})]})
    lines = [line if isinstance(line, str) else json.dumps(line) for line, _ in BAD.values()]
    texts = [json.dumps(GOOD[0]), *lines, json.dumps(GOOD[1])]
    path = project.deliver(TOPIC, 0, texts)
    landed = project.land_well(spark)["item"]
    assert landed.counts == Counts(read=len(texts), applied=2, quarantined=len(lines))
    assert [row["item_id"] for row in project.rows(spark, "item")] == [1, 2]

    quarantined = project.quarantined(spark)
    assert [row["line"] for row in quarantined] == list(range(1, len(lines) + 1))
    for row, (name, (_, reason)), line in zip(quarantined, BAD.items(), lines, strict=True):
        assert reason in row["reason"], name
        assert bytes(row["raw"]).decode() == line, name
        assert row["file"].endswith(path.name)
        assert (row["source_table"], row["topic"], row["partition"], row["start_offset"]) == ("item", TOPIC, 0, 0)


FLOAT = {"id": connect("int32"), "note": connect("double")}
# The policy of a table, the lines that are delivered to it, and what must come of them.
ODD: dict[str, tuple[dict[str, str], list[str | dict[str, Any]], Counts]] = {
    "nested deeper than a parser goes": (
        {},
        [pg("c", 1, id=1, note="a"), '{"id":2,"note":' + "[" * 1500 + "]" * 1500 + ',"__op":"c","__lsn":2}'],
        Counts(read=2, applied=1, quarantined=1),
    ),
    "nested in a schema": (
        {},
        ['{"schema":' + '{"a":' * 1500 + "1" + "}" * 1500 + ',"payload":null}', pg("c", 1, id=1, note="a")],
        Counts(read=2, applied=1, quarantined=1),
    ),
    "a key that is half a character": (
        {"add": "keep"},
        ['{"id":1,"note":"a","\\ud800":1,"__op":"c","__lsn":1,"__deleted":"false"}', pg("c", 2, id=2, note="b")],
        Counts(read=2, applied=2),
    ),
    "a bare NaN in a form that the first events show": (
        {},
        [
            json.dumps(with_schema(pg("c", key, id=key, note=note), FLOAT), separators=(",", ":"))
            for key, note in ((1, None), (2, float("nan")))
        ],
        Counts(read=2, applied=1, quarantined=1),
    ),
    "a key that nobody declared, twice": (
        {},
        [
            pg("c", 1, id=1, note="a"),
            '{"id":2,"note":"b","extra":1,"extra":2,"__op":"c","__lsn":2,"__deleted":"false"}',
        ],
        Counts(read=2, applied=1, quarantined=1),
    ),
    "a field of the name that Spark gives to corrupt records": (
        {"add": "evolve"},
        [pg("c", 1, id=1, note="a"), {**pg("c", 2, id=2, note="b"), "_corrupt_record": 5}],
        Counts(read=2, applied=2),
    ),
}


@pytest.mark.slow
def test_odd_texts_stop_neither_their_table_nor_the_others(make_project: MakeProject, spark: SparkSession) -> None:
    """Each of them once ended the command, with everything that the other tables had."""
    columns = {"id": "int", "note": "string"}
    tables = [
        table_of(f"odd_{number}", columns, ["id"], schema_policy=policy, quarantine_limit={"share": 1.0})
        for number, (policy, _, _) in enumerate(ODD.values())
    ]
    project = make_project({"tables": tables})
    for number, (_, lines, _) in enumerate(ODD.values()):
        project.deliver(f"shop.odd_{number}", 0, lines)
    landed = project.land_well(spark)
    found = {name: landed[f"odd_{number}"].counts for number, name in enumerate(ODD)}
    assert found == {name: counts for name, (_, _, counts) in ODD.items()}


def test_a_word_that_begins_as_a_number_that_is_none_is_no_bare_nan(spark: SparkSession) -> None:
    """A text with one made the whole batch be read a second time."""
    words = ['{"a":"x, INFORMATION"}', '{"a":"see: Infinity war"}', '{"a":"NaN"}', '{"INF":1,"b":"[NaNny]"}']
    numbers = ['{"a":NaN}', '{"a": -Infinity ,"b":1}', '{"a":[1,+INF]}', '{"a":[Infinity,2]}']
    texts = spark.createDataFrame([(text,) for text in (*words, *numbers)], "value string")
    found = texts.select("value", has_bare_nan(F.col("value")).alias("has")).collect()
    assert [row["value"] for row in found if row["has"]] == numbers


def test_half_a_character_is_told_from_a_whole_one(spark: SparkSession) -> None:
    """Spark reads each half as a question mark: two keys were one row."""
    parts = ["\\ud83d", "\\uDE00", "\\\\", '\\"', "\\n", "\\u0041", "ud800", " : "]
    strings = ['"' + "".join(chosen) + '"' for chosen in product(parts, repeat=3)]
    texts = [*strings, *(f'{{"\\ud800": 1, "note" : {string} }}' for string in strings)]

    def is_half(text: str) -> bool:
        said = json.loads(text)
        note = said["note"] if isinstance(said, dict) else said
        return any(0xD800 <= ord(character) < 0xE000 for character in note)

    found = spark.createDataFrame([(text,) for text in texts], "value string")
    halves = found.where(has_half_a_character(F.col("value"))).collect()
    assert [row["value"] for row in halves] == [text for text in texts if is_half(text)]


def test_lines_that_say_nothing_are_ignored_and_counted(make_project: MakeProject, spark: SparkSession) -> None:
    """Empty lines, Kafka's tombstones, heartbeat-like messages of the log."""
    project = make_project({"tables": [items()]})
    nothing = ["", "   ", "null", '{"schema": null, "payload": null}', json.dumps(pg("m", 5))]
    project.deliver(TOPIC, 0, [*nothing, *(json.dumps(event) for event in GOOD)])
    assert project.land_well(spark)["item"].counts == Counts(read=7, applied=2, ignored=5)
    assert project.quarantined(spark) == []


@pytest.mark.slow
def test_a_batch_without_any_good_row_is_landed_once(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project({"tables": [items()]})
    project.deliver(TOPIC, 0, ["nonsense", ""])
    assert project.land_well(spark)["item"].counts == Counts(read=2, ignored=1, quarantined=1)
    assert project.land_well(spark)["item"].taken == 0
    project.deliver(TOPIC, 2, GOOD)
    assert project.land_well(spark)["item"].counts == Counts(read=2, applied=2)
    assert project.state(spark, "item").totals == Counts(read=4, applied=2, ignored=1, quarantined=1)
    assert [row["item_id"] for row in project.rows(spark, "item")] == [1, 2]


@pytest.mark.slow
def test_a_mended_file_brings_what_was_missing_and_nothing_twice(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project({"tables": [items()]})
    wrong = item("c", 30, 3, stock="many")
    project.deliver(TOPIC, 0, [GOOD[0], wrong, GOOD[1]])
    project.land_well(spark)
    before = project.quarantined(spark)
    assert len(before) == 1
    mended = item("c", 30, 3, stock=7)
    project.deliver(TOPIC, 0, [GOOD[0], mended, GOOD[1]])
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=1, duplicate=2)
    rows = project.rows(spark, "item", "item_id", "stock")
    assert rows == [{"item_id": 1, "stock": 1}, {"item_id": 2, "stock": 1}, {"item_id": 3, "stock": 7}]
    # Delivered once more as it was: the same event waits already, under the same id.
    project.deliver(TOPIC, 0, [GOOD[0], wrong, GOOD[1], item("c", 40, 4)])
    assert project.land_well(spark)["item"].counts == Counts(read=4, applied=1, duplicate=3)
    assert [row["quarantine_id"] for row in project.quarantined(spark)] == [before[0]["quarantine_id"]]


@pytest.mark.slow
def test_lines_are_told_per_file_and_the_quarantine_is_shared_by_the_tables(
    make_project: MakeProject, spark: SparkSession
) -> None:
    tables = [items(), table_of("order", {"id": "int"}, ["id"]), table_of("price", {"id": "int"}, ["id"])]
    project = make_project({"tables": tables})
    for name in ("order", "price"):
        project.deliver(f"shop.{name}", 0, [pg("c", 1, id=1), f"bad {name} 1", pg("c", 2, id=2)])
        project.deliver(f"shop.{name}", 3, [f"bad {name} 3", "", f"bad {name} 5"])
    project.deliver(TOPIC, 0, GOOD)
    landed = project.land_well(spark)
    assert landed["order"].counts == Counts(read=6, applied=2, ignored=1, quarantined=3)
    found = {
        (row["source_table"], row["start_offset"], row["line"]): bytes(row["raw"]).decode()
        for row in project.quarantined(spark)
    }
    assert found == {
        (name, offset, line): f"bad {name} {offset + line}"
        for name in ("order", "price")
        for offset, line in ((0, 1), (3, 0), (3, 2))
    }


def test_fillers_of_a_deleted_row_are_no_mistake(make_project: MakeProject, spark: SparkSession) -> None:
    """PostgreSQL's default replica identity: a delete has its key, and fillers that need not fit the type."""
    project = make_project({"tables": [items()]})
    project.deliver(TOPIC, 0, [*GOOD, item("d", 30, 1, price="", stock="", made_on="", note="")])
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=2, superseded=1)
    rows = project.rows(spark, "item", "item_id", "price", "note", "__deleted", live=False)
    assert rows[0] == {"item_id": 1, "price": None, "note": None, "__deleted": "true"}


def test_values_that_fit_are_taken_whole(make_project: MakeProject, spark: SparkSession) -> None:
    columns = {"id": "int", "exact": "decimal(38,10)", "big": "bigint", "at": "timestamp", "tags": "array<string>"}
    table = table_of("wide", columns, ["id"])
    table["columns"][3]["config"] = {"meta": {"ingest": {"semantic_type": "io.debezium.time.NanoTimestamp"}}}
    project = make_project({"tables": [table]})
    exact, micros = "1234567890123456789012345678.0123456789", 1_700_000_000_123_465
    project.deliver("shop.wide", 0, [
        pg("c", 1, id=1, exact=exact, big=str(2**63 - 1), at=micros * 1000, tags=["a", "b"]),
        pg("c", 2, id=2, exact="-0.50000000000000", big=-(2**63), at=None, tags=None),
        pg("c", 3, id="3", exact="1e3", big="7.0", at=None, tags=[]),
        pg("c", 4, id=4, exact=exact + "9", big=1, at=None, tags=None),
    ])  # fmt: skip
    assert project.land_well(spark)["wide"].counts == Counts(read=4, applied=3, quarantined=1)
    assert "exact: 12345" in project.quarantined(spark)[0]["reason"]
    rows = project.rows(spark, "wide")
    assert [row["exact"] for row in rows] == [Decimal(exact), Decimal("-0.5"), Decimal(1000)]
    assert [row["big"] for row in rows] == [2**63 - 1, -(2**63), 7]
    assert [row["tags"] for row in rows] == [["a", "b"], None, []]
    (at,) = spark.sql(f"select unix_micros(at) from `{project.schema}`.wide where id = 1").first() or [None]
    assert at == micros


def test_a_first_column_named_schema_is_no_wrapper(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project({"tables": [table_of("grant", {"schema": "string", "id": "int"}, ["id"])]})
    wrapped = {"schema": {"type": "struct"}, "payload": pg("c", 2, schema="two", id=2)}
    project.deliver("shop.grant", 0, [pg("c", 1, schema="one", id=1), wrapped])
    assert project.land_well(spark)["grant"].counts == Counts(read=2, applied=2)
    assert [row["schema"] for row in project.rows(spark, "grant")] == ["one", "two"]


# Avro


SCHEMA = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "item_id", "type": "int"},
        {"name": "stock", "type": ["null", "int"], "default": None},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "__op", "type": ["null", "string"], "default": None},
        {"name": "__lsn", "type": ["null", "long"], "default": None},
        {"name": "__deleted", "type": ["null", "string"], "default": None},
    ],
}
MARKER = b"0123456789abcdef"


def avro(keys: Sequence[int], schema: Any = SCHEMA, records: Sequence[Any] | None = None) -> bytes:
    """An Avro object file with a block for every few records."""
    content = io.BytesIO()
    rows = records if records is not None else [
        {"item_id": key, "stock": key, "note": "x" * 40, "__op": "c", "__lsn": 1000 + key, "__deleted": "false"}
        for key in keys
    ]  # fmt: skip
    fastavro.writer(content, fastavro.parse_schema(schema), rows, codec="null", sync_interval=200, sync_marker=MARKER)
    return content.getvalue()


def blocks(content: bytes) -> list[int]:
    """Where the header and each block end."""
    ends, at = [], content.find(MARKER)
    while at >= 0:
        ends.append(at + len(MARKER))
        at = content.find(MARKER, at + 1)
    return ends


def keys_of(project: DbtProject, spark: SparkSession) -> list[int]:
    return [row["item_id"] for row in project.rows(spark, "item")]


def avro_items() -> dict[str, Any]:
    return table_of("item", {"item_id": "int", "stock": "int", "note": "string"}, ["item_id"])


def test_broken_avro_files_are_held_back_until_they_are_whole(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project({"tables": [avro_items()]})
    whole = avro(range(100, 130))
    ends = blocks(whole)
    assert len(ends) > 4
    broken = {
        1000: whole[: ends[0] - 20],  # within the header
        1030: whole[: ends[0] + 7],  # within the first block
        1060: whole[:-1],
        1090: whole[: ends[2] - 16],  # before a block's marker
        1120: b"Obj",
        1150: b"PK\x03\x04 this is a zip",
        1180: b"Obj\x01",
    }
    paths = {offset: project.deliver(TOPIC, offset, content, "avro") for offset, content in broken.items()}
    project.deliver(TOPIC, 0, avro(range(1, 4)), "avro")
    landed = project.land(spark)["item"]
    assert landed.counts == Counts(read=3, applied=3)
    assert landed.error is not None
    message = plain(landed.error)
    for path in paths.values():
        assert path.name in message
    assert message.count("truncated") == 3
    assert message.count("not an Avro object file") == 4
    assert "deliver the files again" in message
    assert "None" not in message
    assert keys_of(project, spark) == [1, 2, 3]

    again = project.land(spark)["item"]  # still broken: still told, nothing landed
    assert (again.counts, again.taken) == (Counts(), 0)
    assert again.error is not None

    for number, offset in enumerate(broken):
        project.deliver(TOPIC, offset, avro(range(100 + number * 30, 130 + number * 30)), "avro")
    landed = project.land_well(spark)["item"]
    assert landed.counts == Counts(read=210, applied=210)
    assert keys_of(project, spark) == [1, 2, 3, *range(100, 310)]
    assert project.quarantined(spark) == []


@pytest.mark.slow
def test_what_lies_behind_files_that_are_held_back_is_landed(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project({"tables": [avro_items()]})
    project.connect({"batch_bytes": 1})
    whole = avro(range(4, 8))
    broken = [project.deliver(TOPIC, offset, content, "avro") for offset, content in ((0, b"Obj"), (20, whole[:-1]))]
    for offset in (10, 30):
        project.deliver(TOPIC, offset, avro([offset]), "avro")
    landed = project.land(spark)["item"]
    assert (landed.counts, landed.taken) == (Counts(read=2, applied=2), 2)
    assert landed.error is not None
    assert all(path.name in plain(landed.error) for path in broken)
    assert keys_of(project, spark) == [10, 30]
    for offset in (0, 20):
        project.deliver(TOPIC, offset, avro([offset]), "avro")
    assert project.land_well(spark)["item"].counts == Counts(read=2, applied=2)
    assert keys_of(project, spark) == [0, 10, 20, 30]


def test_an_avro_file_that_ends_with_a_block_is_whole(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project({"tables": [avro_items()]})
    whole = avro(range(30))
    ends = blocks(whole)
    cut = whole[: ends[2]]
    expected = [record["item_id"] for record in fastavro.reader(io.BytesIO(cut))]  # type: ignore[index, call-overload]
    assert 0 < len(expected) < 30
    project.deliver(TOPIC, 0, cut, "avro")
    project.deliver(TOPIC, 50, whole[: ends[0]], "avro")  # a header alone: no events
    landed = project.land_well(spark)["item"]
    assert (landed.counts, landed.taken) == (Counts(read=len(expected), applied=len(expected)), 2)
    assert keys_of(project, spark) == expected


def test_a_corrupt_block_is_named_and_lands_nothing_of_its_file(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project({"tables": [avro_items(), table_of("other", {"id": "int"}, ["id"])]})
    whole = avro(range(100, 130))
    ends = blocks(whole)
    corrupt = whole[: ends[1] + 4] + b"\xff" * 60 + whole[ends[1] + 64 :]
    path = project.deliver(TOPIC, 100, corrupt, "avro")
    good = [project.deliver(TOPIC, key, avro([key]), "avro") for key in range(1, 6)]
    project.deliver("shop.other", 0, [pg("c", 1, id=1)])
    landed = project.land(spark)
    assert landed["other"].error is None
    error = landed["item"].error
    assert error is not None
    message = plain(error)
    assert path.name in message
    assert not [file.name for file in good if file.name in message]
    assert keys_of(project, spark) == [1, 2, 3, 4, 5]
    project.deliver(TOPIC, 100, whole, "avro")
    assert project.land_well(spark)["item"].counts == Counts(read=30, applied=30)
    assert keys_of(project, spark) == [1, 2, 3, 4, 5, *range(100, 130)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "records"),
    [
        ("string", ["a"]),
        ({"type": "record", "name": "R", "fields": [{"name": "other", "type": "int"}]}, [{"other": 1}]),
    ],
    ids=["texts", "records of something else"],
)
def test_avro_of_something_else_does_not_disturb_the_other_tables(
    schema: Any, records: list[Any], make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project({"tables": [avro_items(), table_of("other", {"id": "int"}, ["id"])]})
    path = project.deliver(TOPIC, 0, avro([], schema, records), "avro")
    project.deliver(TOPIC, 10, avro([7]), "avro")
    project.deliver("shop.other", 0, [pg("c", 1, id=1)])
    landed = project.land(spark)
    assert landed["other"].counts == Counts(read=1, applied=1)
    assert keys_of(project, spark) == [7]
    error, quarantined = landed["item"].error, project.quarantined(spark)
    if error is not None:
        assert path.name in plain(error)
    else:
        assert [row["reason"] for row in quarantined] == ["key column item_id is null"]


# Folders


def test_a_missing_folder_is_told_and_does_not_stop_the_others(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project({"tables": [items(), table_of("absent", {"id": "int"}, ["id"])]})
    project.deliver(TOPIC, 0, GOOD)
    landed = project.land(spark)
    assert landed["item"].counts == Counts(read=2, applied=2)
    error = landed["absent"].error
    assert isinstance(error, InputError)
    message = plain(error)
    assert f"{project.bronze}/shop.absent: there is no such folder" in message
    assert "check `topic` in the declaration" in message
    project.deliver("shop.absent", 0, [pg("c", 1, id=1)])
    assert project.land_well(spark)["absent"].counts == Counts(read=1, applied=1)


@pytest.mark.slow
def test_names_with_blanks_and_patterns_are_names(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project({"tables": [items()]})
    folder = project.bronze / TOPIC / "day=2023-11-21 [eu]"
    folder.mkdir(parents=True)
    (folder / "my events {1}.json").write_text(json.dumps(GOOD[0]) + "\n", encoding="utf-8")
    (folder / "100% good.json").write_text(json.dumps(GOOD[1]) + "\n", encoding="utf-8")
    (folder / "_unfinished.json").write_text("{", encoding="utf-8")
    (folder / ".hidden.json").write_text("{", encoding="utf-8")
    (folder / "readme.txt").write_text("no events", encoding="utf-8")
    landed = project.land_well(spark)["item"]
    assert (landed.counts, landed.taken) == (Counts(read=2, applied=2), 2)
    assert project.land_well(spark)["item"].taken == 0
    (folder / "at 10:00.json").write_text(json.dumps(item("c", 90, 9)) + "\n", encoding="utf-8")
    (folder / "edited.json").write_text(json.dumps(item("c", 99, 11)) + "\n", encoding="utf-8")
    (folder / ".edited.json.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + b"\0\0\0\0")
    (folder / os.fsdecode(b"caf\xe9.json")).write_text(json.dumps(item("c", 95, 10)) + "\n", encoding="utf-8")
    project.deliver(TOPIC, 5, [item("c", 50, 5)])
    landed = project.land(spark)["item"]
    assert (landed.counts, landed.taken) == (Counts(read=1, applied=1), 1)
    assert landed.error is not None
    told = plain(landed.error)
    assert "at 10:00.json is not read from a local disk: Hadoop takes no name there that has a colon" in told
    assert "edited.json is of another checksum than .edited.json.crc beside it says" in told
    assert "caf\ufffd.json is not read: its path is not UTF-8" in told


def test_a_lake_that_cannot_be_written_lands_nothing_and_says_so(
    make_project: MakeProject, spark: SparkSession, tmp_path: Path
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder", encoding="utf-8")
    entry = items() | {"external": {"using": "hudi", "location": f"{blocked}/item"}}
    project = make_project({"tables": [entry, table_of("other", {"id": "int"}, ["id"])]})
    project.deliver(TOPIC, 0, GOOD)
    project.deliver("shop.other", 0, [pg("c", 1, id=1)])
    landed = project.land(spark)
    assert landed["other"].counts == Counts(read=1, applied=1)
    error = landed["item"].error
    assert isinstance(error, WriteError)
    message = plain(error)
    assert str(blocked) in message
    assert "nothing" in message
    assert landed["item"].counts == Counts()
    blocked.unlink()
    assert project.land_well(spark)["item"].counts == Counts(read=2, applied=2)


def test_a_table_that_ingest_did_not_write_is_left_alone(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project({"tables": [items()]})
    project.deliver(TOPIC, 0, GOOD)
    silver = project.silver(spark, "item")
    options = {"hoodie.table.name": "item", "hoodie.datasource.write.recordkey.field": "id",
               "hoodie.datasource.write.operation": "bulk_insert"}  # fmt: skip
    spark.createDataFrame([(1,)], "id int").write.format("hudi").options(**options).save(silver.path)
    error = project.land(spark)["item"].error
    assert isinstance(error, WriteError)
    assert "none of its commits holds a position" in plain(error)
    assert spark.read.format("hudi").load(silver.path).count() == 1
