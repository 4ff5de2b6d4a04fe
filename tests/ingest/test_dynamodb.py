"""Records of DynamoDB's streams: what one cannot say is quarantined; orders, partitions, policies, declarations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import DbtProject, MakeProject, Played, Row, Scenario, play, table_of
from pyspark.sql import SparkSession

from ingest.errors import DeclarationError
from ingest.operations.replay import replay
from ingest.silver.state import Counts

Attribute = Mapping[str, Any]


# What a record cannot say


def record(event: str, number: object = "100", key: Attribute | None = None, **item: Any) -> Row:
    """A record of DynamoDB Streams, of an item whose `id` is 1; attributes by name, in DynamoDB's JSON."""
    keys = {"id": key or {"N": "1"}}
    image = "OldImage" if event == "REMOVE" else "NewImage"
    told = {"Keys": keys, image: {**keys, **item}, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    place = {} if number is None else {"SequenceNumber": number}
    return {"eventName": event, "dynamodb": {**told, **place, "ApproximateCreationDateTime": 1_700_000_000}}


def without(event: Row, *path: str) -> Row:
    """A record without a member."""
    name, *rest = path
    if not rest:
        return {each: value for each, value in event.items() if each != name}
    return {**event, name: without(event[name], *rest)}


COLUMNS = {"id": "int", "v": "string", "blob": "binary", "n": "int", "big": "bigint", "at": "timestamp"}
GOOD = record("INSERT", "99", {"N": "7"}, v={"S": "good"})
_TIME, _KEYS = "ApproximateCreationDateTime", {"id": {"N": "1"}, "sort": {"S": "a"}}
# Of each: a record, or a line as it stands, and what the quarantine says of it.
BAD: Mapping[str, tuple[Row | str, str]] = {
    "unknown_type": (record("MODIFY", v={"X": "1"}), "has no type that DynamoDB has"),
    "two_types": (record("MODIFY", v={"S": "1", "N": "1"}), "has no type that DynamoDB has"),
    "no_type": (record("MODIFY", v=None), "has no type that DynamoDB has"),
    "unknown_type_within": (record("MODIFY", v={"M": {"a": {"X": "1"}}}), "of type M, is not exactly a string"),
    "bare_text_within": (record("MODIFY", v={"L": ["a"]}), "of type L, is not exactly a string"),
    "bare_value_within": (record("MODIFY", v={"M": {"S": "a"}}), "of type M, is not exactly a string"),
    "number_that_is_none": (record("MODIFY", v={"N": "abc"}), "of type N, is not exactly a string"),
    "json_number": (record("MODIFY", v={"N": 1.23456789012345678901}), "is no JSON string, as DynamoDB writes it"),
    "text_flag": (record("MODIFY", v={"BOOL": "yes"}), "a value is not of the type that its place"),
    "bytes_as_text": (record("MODIFY", v={"B": "AAE="}), "of type B, is not exactly a string"),
    "no_base64": (record("MODIFY", blob={"B": "?"}), "of type B, is not exactly a binary"),
    "text_as_bytes": (record("MODIFY", blob={"S": "AAE="}), "of type S, is not exactly a binary"),
    "too_great": (record("MODIFY", n={"N": "1" * 11}), "is not exactly a int"),
    "fraction": (record("MODIFY", big={"N": "1.5"}), "is not exactly a bigint"),
    "time_of_a_number": (record("MODIFY", at={"N": "1700000000"}), "its semantic_type says what a number counts"),
    "keys_only": (without(record("MODIFY"), "dynamodb", "NewImage"), "no NewImage says the row"),
    "no_sequence": (record("MODIFY", None), "Declare order_by: [__source_ts_us]"),
    "no_number": (record("MODIFY", "1e5"), "SequenceNumber is 1e5, expected up to 40 digits"),
    "line_in_number": (record("MODIFY", "12\n"), "expected up to 40 digits"),
    "too_long": (record("MODIFY", "1" * 41), "expected up to 40 digits"),
    "unknown_event": (record("UPSERT"), "eventName is UPSERT, expected one of INSERT, MODIFY, REMOVE"),
    "no_key": (record("MODIFY", key={"NULL": True}), "key column id is null"),
    "wider_key": ({**GOOD, "dynamodb": {**GOOD["dynamodb"], "Keys": _KEYS}}, "the item's key has sort as well"),
    "no_time": ({**GOOD, "dynamodb": {**GOOD["dynamodb"], _TIME: "today"}}, f"{_TIME} is today"),
    "cut": (json.dumps(GOOD)[:-9], "does not parse as JSON"),
    "twice": (json.dumps(GOOD) * 2, "something follows it in the text"),
    "batch_twice": (json.dumps({"Records": [GOOD]}) * 2, "something follows it in the text"),
    "half": (record("MODIFY", v={"S": "\ud800"}), "a string holds half a character"),
    "list": (json.dumps([GOOD]), "JSON, but not a JSON object"),
    "other": (json.dumps({"hello": "world"}), "no stream record: it lacks dynamodb"),
}


MORE: Mapping[str, Any] = {
    "a": {"N": "1.50"}, "b": {"BOOL": True}, "c": {"SS": ["x"]}, "d": {"M": {"e": {"N": "1"}}}, "f": {"NULL": True},
}  # fmt: skip


# Values within a list, and the texts that they are; lists that hold what is no value.
NESTED: Sequence[tuple[Attribute, str | None]] = (
    ({"M": {"q": {"N": "1.23456789012345678901"}, "at": {"L": [{"N": "2"}]}}},
     '{"q":1.23456789012345678901,"at":[2]}'),
    ({"L": [{"N": "3.50"}, {"NULL": True}]}, "[3.50,null]"), ({"NS": ["1.50"]}, "[1.50]"), ({"SS": ["a"]}, '["a"]'),
    ({"BS": ["AA=="]}, '["AA=="]'), ({"B": "AA=="}, "AA=="), ({"N": "3.50"}, "3.50"), ({"BOOL": True}, "true"),
    ({"NULL": True}, None), ({"S": ""}, ""), ({"S": '{"x'}, '{"x'),
)  # fmt: skip
NO_LISTS: Sequence[Any] = (["a"], [{"X": "1"}], [{"N": "abc"}], [{"M": {"a": {"X": "1"}}}], [{"S": "a", "N": "1"}], [1])
NO_NAMES = ("", "\U00020bb7", "__typename", "__op", "_hoodie_commit_time", "_HOODIE_FILE_NAME", "_lake_x", "a b")


def _undeclared(name: str, policy: str, *batches: Sequence[Row]) -> Scenario:
    return Scenario(name, {"id": "int"}, ["id"], batches, [],
                    options={"connector": "dynamodb", "schema_policy": {"add": policy}})  # fmt: skip


def viewed(view: str, event: str, number: int, **item: Any) -> Row:
    """A record as a stream of that view type has it: no old image of an INSERT, no new one of a REMOVE."""
    keys = {"id": {"N": "1"}}
    old, new = ({**keys, **{name: {"S": f"{when} {value}"} for name, value in item.items()}} for when in ("was", "is"))
    images = {"NewImage": None if event == "REMOVE" else new, "OldImage": None if event == "INSERT" else old}
    held = {"KEYS_ONLY": (), "NEW_IMAGE": ("NewImage",), "OLD_IMAGE": ("OldImage",)}.get(view, tuple(images))
    told = {"Keys": keys, **{name: images[name] for name in held if images[name]}, "StreamViewType": view}
    return {"eventName": event, "dynamodb": {**told, "SequenceNumber": str(number), _TIME: 1_700_000_000}}


def _of_view(name: str, declared: str, *records: Row, **columns: str) -> Scenario:
    return Scenario(name, {"id": "int", **columns}, ["id"], [records], [],
                    options={"connector": "dynamodb", "stream_view_type": declared})  # fmt: skip


def _life(view: str) -> list[Row]:
    return [viewed(view, event, number, v="a") for number, event in enumerate(("INSERT", "MODIFY", "REMOVE"))]


VIEWED = (
    *(_of_view(view.lower(), view, *_life(view), v="string") for view in ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")),
    # Of these the key alone is known, and a stray image of one item is not believed.
    *(_of_view(view.lower(), view, *_life(view)[:2], viewed("NEW_AND_OLD_IMAGES", "MODIFY", 5, v="stray"))
      for view in ("KEYS_ONLY", "OLD_IMAGE")),
    _of_view("told_less", "NEW_AND_OLD_IMAGES", *_life("NEW_AND_OLD_IMAGES")[:2],
             viewed("KEYS_ONLY", "MODIFY", 7, v="b"), viewed("NEW_IMAGE", "REMOVE", 8, v="b"), v="string"),
)  # fmt: skip
SCENES = (
    VIEWED[-1],
    Scenario("bad", COLUMNS, ["id"], [[GOOD, *(bad for bad, _ in BAD.values())]], [],
             options={"connector": "dynamodb"}),
    _undeclared("evolves", "evolve", [record("INSERT", "1", **MORE)],
                [record("MODIFY", "2", a={"N": "7"}), record("MODIFY", "3", g={"X": "x"})]),
    _undeclared("keeps", "keep", [record("INSERT", "1", **MORE)]),
    Scenario("lists", {"id": "int", "items": "array<string>"}, ["id"],
             [[record("INSERT", "1", items={"L": [each for each, _ in NESTED]}),
               *(record("MODIFY", "2", items={"L": items}) for items in NO_LISTS)]], [],
             options={"connector": "dynamodb"}),
    _undeclared("names", "evolve", [record("INSERT", "1", other={"S": "x"}, __typename={"NULL": True}),
                                    *(record("MODIFY", "2", **{name: {"S": "x"}}) for name in NO_NAMES)]),
    _undeclared("names_kept", "keep", [record("MODIFY", "2", **{name: {"S": "x"}}) for name in NO_NAMES]),
    _undeclared("sets_aside", "quarantine", [record("INSERT", "1"), record("MODIFY", "2", a={"S": "x"})]),
)  # fmt: skip


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """A table that gets every bad record and a good one, and one for each policy of undeclared attributes."""
    return play(spark, tmp_path_factory.mktemp("dynamodb"), SCENES)


@pytest.mark.spark
@pytest.mark.parametrize("name", BAD)
def test_what_a_record_cannot_say_is_quarantined_with_the_reason(name: str, played: dict[str, Played]) -> None:
    reasons = dict(zip(BAD, played["bad"].reasons, strict=True))
    assert BAD[name][1] in reasons[name]


@pytest.mark.spark
def test_the_good_record_amid_bad_ones_is_landed(played: dict[str, Played]) -> None:
    totals = played["bad"].totals
    assert (totals.read, totals.quarantined, totals.applied) == (1 + len(BAD), len(BAD), 1)
    assert [(row["id"], row["v"]) for row in played["bad"].rows] == [(7, "good")]


@pytest.mark.spark
def test_an_attribute_that_is_not_declared_follows_the_policy(played: dict[str, Played], spark: SparkSession) -> None:
    evolved = played["evolves"].project.rows(spark, "evolves", "id", "a", "b", "c", "d")
    # The item has no such attributes any more: it has nulls, not what it had.
    assert evolved == [{"id": 1, "a": "7", "b": None, "c": None, "d": None}]
    assert ["silver has no type" in reason for reason in played["evolves"].reasons] == [True]
    assert played["keeps"].rows == [{"id": 1}]
    assert "`a`" not in played["keeps"].project.silver(spark, "keeps").columns()
    assert [reason.split(" (")[0] for reason in played["sets_aside"].reasons] == ["column a is not declared"]


@pytest.mark.spark
def test_an_attribute_that_no_column_can_be_named_after_is_not_lost(
    played: dict[str, Played], spark: SparkSession
) -> None:
    """Whether the name is none of Hudi's, or one that ingest or Hudi has: AppSync writes `__typename`."""
    told = [reason.split(" (")[0] for reason in played["names"].reasons]
    assert told == [f"field '{name}': silver cannot have a column of that name" for name in NO_NAMES]
    assert played["names"].project.rows(spark, "names", "id", "other") == [{"id": 1, "other": "x"}]
    assert (played["names_kept"].rows, played["names_kept"].reasons) == ([{"id": 1}], [])
    assert played["names"].errors == played["names_kept"].errors == []


@pytest.mark.spark
def test_what_is_within_the_elements_of_a_list_is_plain_json(played: dict[str, Played]) -> None:
    """As in a column of text: numbers are numbers, with all their digits."""
    assert played["lists"].rows == [{"id": 1, "items": [text for _, text in NESTED]}]
    assert ["is not exactly a array<string>" in reason for reason in played["lists"].reasons] == [True] * len(NO_LISTS)


@pytest.mark.slow
@pytest.mark.spark
def test_each_view_type_says_what_it_can(spark: SparkSession, tmp_path: Path) -> None:
    """The row of a delete is what the old image was; without one the key alone."""
    played = play(spark, tmp_path, VIEWED[:-1])
    names = ("id", "v", "__deleted")
    for name, kept in (("new_image", None), ("new_and_old_images", "was a")):
        rows = played[name].project.rows(spark, name, *names, live=False)
        assert (rows, played[name].reasons) == ([{"id": 1, "v": kept, "__deleted": "true"}], [])
    for name in ("keys_only", "old_image"):
        assert (played[name].rows, played[name].reasons) == ([{"id": 1}], [])
        assert "`v`" not in played[name].project.silver(spark, name).columns()


@pytest.mark.spark
def test_a_record_without_an_image_that_its_declared_view_type_has_is_quarantined(played: dict[str, Played]) -> None:
    assert played["told_less"].rows == [{"id": 1, "v": "is a"}]
    declares = ", the table declares NEW_AND_OLD_IMAGES"
    assert [reason.split(" (")[0] for reason in played["told_less"].reasons] == [
        f"no NewImage says the row: StreamViewType is KEYS_ONLY{declares}",
        f"no OldImage says what was deleted: StreamViewType is NEW_IMAGE{declares}",
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"stream_view_type": "KEYS_ONLY"}, "is KEYS_ONLY, and of inserts and updates no record says v, at"),
        ({"stream_view_type": "OLD_IMAGE"}, "is OLD_IMAGE, and of inserts and updates no record says v, at"),
        ({"stream_view_type": "NEW_IMAGE", "order_by": ["at"]}, "is NEW_IMAGE, and of deletes no record says at"),
        ({"stream_view_type": "ALL"}, "stream_view_type"),
        ({"stream_view_type": "NEW_IMAGE", "connector": "postgresql"}, "only streams of dynamodb have a view type"),
    ],
)
def test_a_table_of_which_the_stream_cannot_know_everything_is_refused(
    options: Row, told: str, make_project: MakeProject
) -> None:
    columns = {"id": "int", "v": "string", "at": "timestamp"}
    with pytest.raises(DeclarationError) as error:
        make_project({"tables": [table_of("item", columns, ["id"], **{"connector": "dynamodb", **options})]}).source()
    assert told in error.value.message


def test_a_derived_column_and_one_that_is_excluded_need_no_image(make_project: MakeProject) -> None:
    columns = {"id": "int", "last": "string", "secret": "string"}
    table = table_of("item", columns, ["id"], connector="dynamodb", stream_view_type="KEYS_ONLY")
    derived = {"substring_of": {"column": "id", "start": -1, "length": 1}}
    for place, options in ((1, derived), (2, {"policy": "exclude"})):
        table["columns"][place]["config"] = {"meta": {"ingest": options}}
    (made,) = make_project({"tables": [table]}).source().tables
    assert made.options.stream_view_type == "KEYS_ONLY"


# Places of records, partitions of rows, and what is retained of them


def sequenced(project: DbtProject, spark: SparkSession, *batches: Sequence[Row]) -> None:
    """Lands each batch by a commit of its own."""
    for number, records in enumerate(batches):
        project.deliver("shop.item", 10 * number, records)
        project.land_well(spark, "item")


@pytest.mark.slow
@pytest.mark.spark
def test_a_row_is_partitioned_by_its_key_and_the_cleaner_keeps_what_is_declared(
    make_project: MakeProject, spark: SparkSession
) -> None:
    table = table_of("item", {"id": "string", "v": "string"}, ["id"], connector="dynamodb", table_type="cow",
                     partition_by=["last", "other"], commits_retained=1)  # fmt: skip
    for name, start in (("last", -1), ("other", -2)):
        derived = {"substring_of": {"column": "id", "start": start, "length": 1}}
        table["columns"].append({"name": name, "data_type": "string", "config": {"meta": {"ingest": derived}}})
    project = make_project({"tables": [table]})
    key = {"S": "4711"}
    sequenced(
        project, spark,
        [record("INSERT", "1", key, v={"S": "a"}), record("INSERT", "10", {"S": "7"})],
        *([record("MODIFY", str(number), key, v={"S": "b"})] for number in range(2, 5)),
        [record("REMOVE", "9", key), record("MODIFY", "8", key, v={"S": "late"})],
    )  # fmt: skip
    rows = project.rows(spark, "item", "id", "last", "other", "__deleted", live=False)
    assert rows == [
        {"id": "4711", "last": "1", "other": "1", "__deleted": "true"},
        # A key of one character has no second to last.
        {"id": "7", "last": "7", "other": None, "__deleted": "false"},
    ]
    path = Path(project.silver(spark, "item").path.removeprefix("file:"))
    # Five commits wrote the row: its file is there in the last version, and in the one before.
    assert len(list((path / "last=1" / "other=1").glob("*.parquet"))) == 2


@pytest.mark.slow
@pytest.mark.spark
def test_keys_that_end_in_odd_characters_have_partitions_and_an_empty_file_is_no_mistake(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """Two tables side by side: one gets a key for each odd character, one an empty file."""
    columns = {"id": "string", "v": "string"}
    tables = [table_of(name, columns, ["id"], connector="dynamodb", partition_by=["last"]) for name in ("odd", "empty")]
    derived = {"substring_of": {"column": "id", "start": -1, "length": 1}}
    for table in tables:
        table["columns"].append({"name": "last", "data_type": "string", "config": {"meta": {"ingest": derived}}})
    project = make_project({"tables": tables})
    odd = "/%=: .\\'\"{}*?#+&[]ßé€\u3042\u2028\n"
    keys = [f"k{letter}" for letter in odd]
    project.deliver("shop.odd", 0, [record("INSERT", "1", {"S": key}, v={"S": "a"}) for key in keys])
    project.deliver("shop.empty", 0, b"", "json")
    assert project.land_well(spark)["empty"].counts == Counts()
    project.deliver("shop.odd", 100, [record("MODIFY", "2", {"S": key}, v={"S": "b"}) for key in keys])
    project.deliver("shop.empty", 0, [record("INSERT", "1", {"S": "late"})])
    project.land_well(spark)
    assert project.quarantined(spark) == []
    found = project.rows(spark, "odd")
    assert [(row["id"], row["v"], row["last"]) for row in found] == [(key, "b", key[-1]) for key in sorted(keys)]
    one = f"select id from `{project.schema}`.odd where last = '/'"
    assert [row["id"] for row in spark.sql(one).collect()] == ["k/"]
    assert [row["id"] for row in project.rows(spark, "empty")] == ["late"]


@pytest.mark.slow
@pytest.mark.spark
def test_records_of_kinesis_are_ordered_by_microseconds_and_by_nothing_coarser(
    make_project: MakeProject, spark: SparkSession
) -> None:
    def of_kinesis(event: str, at: int, precision: str | None, v: str) -> Row:
        told = record(event, None, v={"S": v})
        unit = {"ApproximateCreationDateTimePrecision": precision} if precision else {}
        of_change = {**without(told["dynamodb"], "StreamViewType"), "ApproximateCreationDateTime": at, **unit}
        return {**told, "tableName": "item", "recordFormat": "application/json", "dynamodb": of_change}

    options: Row = {"connector": "dynamodb", "order_by": ["__source_ts_us"]}
    project = make_project({"tables": [table_of("item", {"id": "int", "v": "string"}, ["id"], **options)]})
    at = 1_700_000_000_000_001
    project.deliver("shop.item", 0, [
        of_kinesis("MODIFY", at + 1, "MICROSECOND", "newer"), of_kinesis("INSERT", at, "MICROSECOND", "older"),
        of_kinesis("MODIFY", at // 1000 + 5, "MILLISECOND", "coarse"), of_kinesis("MODIFY", at // 1000, None, "old"),
    ])  # fmt: skip
    project.land(spark, "item")
    names = ("v", "__source_ts_ms", "__source_ts_us", "__table")
    (row,) = project.rows(spark, "item", *names)
    assert tuple(row.values()) == ("newer", at // 1000, at + 1, "item")
    assert [each["reason_code"] for each in project.quarantined(spark)] == ["missing_position"] * 2


@pytest.mark.slow
@pytest.mark.spark
def test_a_record_that_is_replayed_is_read_as_it_was(make_project: MakeProject, spark: SparkSession) -> None:
    columns = {"id": "int", "at": "timestamp"}
    project = make_project({"tables": [table_of("item", columns, ["id"], connector="dynamodb")]})
    project.deliver("shop.item", 0, [record("INSERT", "1", at={"N": "1700000000000"})])
    project.land(spark, "item")
    assert [each["reason_code"] for each in project.quarantined(spark)] == ["bad_value"]
    table = table_of("item", columns, ["id"], connector="dynamodb")
    table["columns"][1]["config"] = {"meta": {"ingest": {"semantic_type": "io.debezium.time.Timestamp"}}}
    project.declare({"tables": [table]})
    assert replay(spark, project.source().choose(["item"])[0]).counts.applied == 1
    assert project.rows(spark, "item") == [{"id": 1, "at": datetime(2023, 11, 14, 22, 13, 20)}]


@pytest.mark.parametrize(
    ("derived", "told"),
    [
        ({"substring_of": {"column": "v", "start": -1, "length": 1}}, "a column of the key"),
        ({"substring_of": {"column": "nothing", "start": -1, "length": 1}}, "names 'nothing'"),
        ({"substring_of": {"column": "id", "start": 0, "length": 1}}, "start is 0"),
        ({"substring_of": {"column": "id", "start": 1, "length": 0}}, "length"),
        ({"substring_of": {"column": "id", "start": 1, "length": 1}, "policy": "hash"}, "exclude each other"),
    ],
)
def test_a_column_that_cannot_be_derived_is_refused(derived: Row, told: str, make_project: MakeProject) -> None:
    table = table_of("item", {"id": "int", "v": "string", "last": "string"}, ["id"], connector="dynamodb")
    table["columns"][2]["config"] = {"meta": {"ingest": derived}}
    with pytest.raises(DeclarationError) as error:
        make_project({"tables": [table]}).source()
    assert told in error.value.message


def test_a_derived_column_is_a_text_and_orders_nothing(make_project: MakeProject) -> None:
    table = table_of("item", {"id": "int", "last": "int"}, ["id", "last"], connector="dynamodb")
    table["columns"][1]["config"] = {"meta": {"ingest": {"substring_of": {"column": "id", "start": 1, "length": 1}}}}
    with pytest.raises(DeclarationError, match="is declared of a int"):
        make_project({"tables": [table]}).source()
    table["columns"][1]["data_type"] = "string"
    with pytest.raises(DeclarationError, match="key names 'last'"):
        make_project({"tables": [table]}).source()


def test_cuts_say_what_is_retained(make_project: MakeProject) -> None:
    table = table_of("item", {"id": "int"}, ["id"], commits_retained=2, consistent="transaction")
    with pytest.raises(DeclarationError, match="commits_retained is given"):
        make_project({"tables": [table]}).source()
