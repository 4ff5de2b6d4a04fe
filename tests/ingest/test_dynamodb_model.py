"""Records of DynamoDB's streams: silver equals the table, whatever its items hold, however their records arrive.

Tables, their items and their records are drawn by hypothesis, and landed side by side; a plain model in Python says
what must come of them. What a record cannot say is quarantined, with the reason.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import Row, new_project, table_of
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

Attribute = Mapping[str, Any]
_TTL = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
_VIEWS = ("KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES")
_SAYS_ROWS = ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")


# Attribute values, and what they mean


def _number(digits: int, places: int) -> str:
    """A number as DynamoDB sends it: without an exponent, and without zeros that say nothing."""
    text = format(Decimal(digits).scaleb(-places, Context(prec=80)), "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _numbers(most: int, places: int) -> st.SearchStrategy[str]:
    return st.builds(_number, st.integers(-(10**most) + 1, 10**most - 1), st.integers(0, places))


TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.sampled_from(['{"S":"x"}', '"', "\\", "]}", '{"M":{', '"N": 5', "null", "a,b", "ä\u2028\U0001f600", "\x00\x1f"]),
)
NAMES = st.one_of(st.sampled_from(["S", "N", "M", "L", "BOOL", "NULL", "SS", "a", "M{", 'q"']), st.text(max_size=3))
BYTES = st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode())
S = st.builds(lambda text: {"S": text}, TEXTS)
N = st.builds(lambda number: {"N": number}, _numbers(38, 20))
B = st.builds(lambda data: {"B": data}, BYTES)
BOOL = st.builds(lambda flag: {"BOOL": flag}, st.booleans())
NULL = st.just({"NULL": True})
SS = st.builds(lambda items: {"SS": items}, st.lists(TEXTS, min_size=1, max_size=3, unique=True))
NS = st.builds(lambda items: {"NS": items}, st.lists(_numbers(38, 20), min_size=1, max_size=3, unique=True))
BS = st.builds(lambda items: {"BS": items}, st.lists(BYTES, min_size=1, max_size=3, unique=True))
NESTED = st.recursive(
    st.one_of(S, N, B, BOOL, NULL, SS, NS, BS),
    lambda inner: st.one_of(
        st.builds(lambda items: {"L": items}, st.lists(inner, max_size=3)),
        st.builds(lambda members: {"M": members}, st.dictionaries(NAMES, inner, max_size=3)),
    ),
    max_leaves=9,
)
DOCUMENTS = NESTED.filter(lambda attribute: next(iter(attribute)) in ("L", "M"))
DAYS = st.dates(date(1, 1, 1), date(9999, 12, 31))
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2999, 1, 1))
# A column of each type, and the attributes that it can hold.
COLUMNS: Mapping[str, tuple[str, st.SearchStrategy[Attribute]]] = {
    "text": ("string", st.one_of(S, N, BOOL, SS, NS, NULL)),
    "document": ("string", DOCUMENTS),
    "whole": ("int", st.integers(-(2**31), 2**31 - 1).map(lambda number: {"N": str(number)})),
    "big": ("bigint", st.one_of(
        st.integers(-(2**63), 2**63 - 1).map(lambda number: {"N": str(number)}),
        st.builds(lambda number, zeros: {"N": f"{number / 10}E+{zeros}"}, st.integers(-99, 99), st.integers(1, 17)))),
    "exact": ("decimal(38,10)", _numbers(28, 0).flatmap(
        lambda whole: st.integers(0, 10**10 - 1).map(lambda part: {"N": _number(int(f"{whole}{part:010d}"), 10)}))),
    "longest": ("decimal(38,0)", _numbers(38, 0).map(lambda number: {"N": number})),
    "ratio": ("double", st.floats(-1e30, 1e30).map(lambda number: {"N": _number(*_digits(number))})),
    "flag": ("boolean", st.one_of(BOOL, NULL)),
    "blob": ("binary", B),
    "day": ("date", DAYS.map(lambda day: {"S": day.isoformat()})),
    "at": ("timestamp", MOMENTS.map(lambda at: {"S": f"{at.isoformat()}Z"})),
    "tags": ("array<string>", st.one_of(SS, st.lists(st.one_of(S, NULL), max_size=3).map(lambda items: {"L": items}))),
    "sums": ("array<decimal(38,20)>", st.lists(_numbers(18, 0), min_size=1, max_size=3, unique=True).map(
        lambda items: {"NS": items})),
    "blobs": ("array<binary>", BS),
}  # fmt: skip
KEY_TYPES: Mapping[str, tuple[str, st.SearchStrategy[Attribute]]] = {
    "string": ("string", st.text("ab1", min_size=1, max_size=2).map(lambda text: {"S": text})),
    "number": ("bigint", st.integers(0, 5).map(lambda number: {"N": str(number)})),
    "exact": ("decimal(38,2)", st.integers(0, 400).map(lambda number: {"N": _number(number, 2)})),
    "bytes": ("binary", st.binary(min_size=1, max_size=1).map(lambda data: {"B": base64.b64encode(data).decode()})),
}


def _digits(number: float) -> tuple[int, int]:
    exact = Decimal(repr(number))
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits))) * (-1 if sign else 1)
    return (whole * 10 ** max(exponent, 0), max(-exponent, 0))


def plain(attribute: Attribute) -> Any:
    """What an attribute means, as JSON has it; bytes are base64, numbers decimals."""
    ((kind, value),) = attribute.items()
    if kind == "NULL":
        return None
    if kind == "N":
        return Decimal(value)
    if kind == "NS":
        return [Decimal(item) for item in value]
    if kind == "L":
        return [plain(item) for item in value]
    if kind == "M":
        return {name: plain(item) for name, item in value.items()}
    return value


def meant(attribute: Attribute | None, data_type: str) -> Any:
    """What a column of that type has of an attribute. Of a document, a set in a text and a flag the JSON's meaning."""
    value = None if attribute is None else plain(attribute)
    return _MEANT[data_type](value) if value is not None and data_type in _MEANT else value


_MEANT: Mapping[str, Callable[[Any], Any]] = {
    "binary": base64.b64decode,
    "array<binary>": lambda items: [base64.b64decode(item) for item in items],
    "date": date.fromisoformat,
    "timestamp": lambda text: datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None),
    "double": float,
}


def read_back(attribute: Attribute | None, data_type: str, found: Any) -> Any:
    """What silver has, to be compared with `meant`."""
    if found is None or attribute is None:
        return found
    (kind,) = attribute
    if data_type == "string" and kind != "S":
        return json.loads(found, parse_float=Decimal, parse_int=Decimal)
    if data_type in ("binary", "array<binary>"):
        return [bytes(item) for item in found] if isinstance(found, list) else bytes(found)
    return found


# Tables, and what becomes of their items


@dataclass(frozen=True)
class Change:
    """A change of an item, by its place in the stream."""

    place: int
    key: str
    before: Mapping[str, Attribute] | None
    after: Mapping[str, Attribute] | None
    is_ttl: bool

    @property
    def event(self) -> str:
        """INSERT, MODIFY or REMOVE."""
        return "REMOVE" if self.after is None else "INSERT" if self.before is None else "MODIFY"


@dataclass(frozen=True)
class Case:
    """A table, its changes in order, how its stream tells them, and how they arrive."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    changes: tuple[Change, ...]
    view: str
    is_kinesis: bool
    in_batches: bool
    shuffled: int
    declares: bool = False

    @property
    def types(self) -> dict[str, str]:
        """The declared columns, with their types."""
        of_key = {f"k{number}": KEY_TYPES[name][0] for number, name in enumerate(self.keys)}
        return {**of_key, **{name: COLUMNS[name][0] for name in self.columns}}

    def declared(self, name: str) -> dict[str, Any]:
        """The entry of the sources file."""
        options: Row = {"order_by": ["__source_ts_us"]} if self.is_kinesis else {}
        if self.declares and self.says_rows:
            options["stream_view_type"] = self.told
        names = [f"k{number}" for number in range(len(self.keys))]
        return table_of(name, self.types, names, connector="dynamodb", table_type="cow", **options)

    def record(self, change: Change) -> Row:
        """The change as the stream tells it."""
        item = change.after or change.before or {}
        keys = {name: item[name] for name in item if name[0] == "k" and name[1:].isdigit()}
        images = {"NewImage": change.after, "OldImage": change.before}
        view = self.told
        held = {"KEYS_ONLY": (), "NEW_IMAGE": ("NewImage",), "OLD_IMAGE": ("OldImage",)}.get(view, tuple(images))
        told = {"Keys": keys, **{name: images[name] for name in held if images[name] is not None}, "SizeBytes": 7}
        if self.is_kinesis:
            at = {"ApproximateCreationDateTime": 1_700_000_000_000_000 + change.place,
                  "ApproximateCreationDateTimePrecision": "MICROSECOND"}  # fmt: skip
            return {"awsRegion": "eu-west-1", "eventID": str(change.place), "eventName": change.event,
                    "userIdentity": _TTL if change.is_ttl else None, "recordFormat": "application/json",
                    "tableName": "t", "dynamodb": {**at, **told}, "eventSource": "aws:dynamodb"}  # fmt: skip
        # From 20 digits to 21: as texts they would sort the other way round.
        at = {"SequenceNumber": str(10**20 - 3 + change.place), "ApproximateCreationDateTime": 1_700_000_000.5,
              "StreamViewType": view}  # fmt: skip
        identity = {"userIdentity": _TTL} if change.is_ttl else {}
        return {"eventName": change.event, "dynamodb": {**at, **told}, **identity}

    def batches(self) -> tuple[list[str], list[str]]:
        """The lines of two files: every record, some of them twice, in any order."""
        rng = random.Random(self.shuffled)  # noqa: S311
        records = [self.record(change) for change in self.changes]
        records += [rng.choice(records) for _ in range(3)] if records else []
        rng.shuffle(records)
        half = rng.randint(1, len(records)) if records else 0
        first, second = records[:half], records[half:]
        if not self.in_batches:
            return [json.dumps(each) for each in first], [json.dumps(each, ensure_ascii=False) for each in second]
        return [json.dumps({"Records": first})], [json.dumps({"Records": second})] if second else []

    @property
    def delivered(self) -> int:
        """How many records arrive."""
        return len(self.changes) + 3

    @property
    def told(self) -> str:
        """The view type; of Kinesis there is one."""
        return "NEW_AND_OLD_IMAGES" if self.is_kinesis else self.view

    @property
    def says_rows(self) -> bool:
        """Whether the records of inserts and updates say what the items are."""
        return self.is_kinesis or self.view in _SAYS_ROWS or not self.columns

    def last(self) -> dict[str, Change]:
        """The last change of each item that its records tell."""
        return {change.key: change for change in self.changes if self.says_rows or change.after is None}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A table with a handful of items."""
    keys = tuple(draw(st.lists(st.sampled_from(sorted(KEY_TYPES)), min_size=1, max_size=2)))
    columns = tuple(draw(st.permutations(sorted(COLUMNS)))[: draw(st.integers(0, 6))])
    known = [{f"k{number}": draw(KEY_TYPES[name][1]) for number, name in enumerate(keys)} for _ in range(3)]
    live: dict[str, Mapping[str, Attribute]] = {}
    changes: list[Change] = []
    for place in range(draw(st.integers(6, 14))):
        key = draw(st.sampled_from(known))
        name = json.dumps(key)
        before = live.get(name)
        if before is not None and draw(st.integers(0, 2)) == 0:
            live.pop(name)
            changes.append(Change(place, name, before, None, draw(st.booleans())))
            continue
        present = [column for column in columns if draw(st.integers(0, 3))]
        live[name] = {**key, **{column: draw(COLUMNS[column][1]) for column in present}}
        changes.append(Change(place, name, before, live[name], is_ttl=False))
    view = draw(st.sampled_from((*_VIEWS, *_SAYS_ROWS)))
    return Case(keys, columns, tuple(changes), view, draw(st.booleans()), draw(st.booleans()),
                draw(st.integers(0, 2**20)), draw(st.booleans()))  # fmt: skip


def _same(part: Any) -> Any:
    """A part of a key, in one form."""
    if isinstance(part, Decimal | int):
        return f"{Decimal(part).normalize():f}"
    return bytes(part) if isinstance(part, bytearray) else part


def faults(case: Case, found: Sequence[Row]) -> Iterator[str]:
    """What of a table's rows, tombstones included, is not as the model has it."""
    types, last = case.types, case.last()
    keys = [name for name in types if name not in case.columns]

    def place_of(key: Mapping[str, Any]) -> str:
        return repr([_same(key[name]) for name in keys])

    rows = {place_of(row): row for row in found}
    items = {json.dumps(json.loads(change.key)): change for change in last.values()}
    by_place = {place_of({name: meant(json.loads(key)[name], types[name]) for name in keys}): change
                for key, change in items.items()}  # fmt: skip
    if rows.keys() != by_place.keys() or len(found) != len(rows):
        yield f"keys {sorted(rows.keys() ^ by_place.keys())} are on one side"
        return
    for place, change in by_place.items():
        row = rows[place]
        if row["__deleted"] != str(change.after is None).lower() or row["__is_ttl_delete"] != change.is_ttl:
            yield f"{place}: deleted {row['__deleted']}, by time to live {row['__is_ttl_delete']}, expected {change}"
        for column in case.columns if change.after is not None else ():
            attribute = (change.after or {}).get(column)
            ours, theirs = read_back(attribute, types[column], row[column]), meant(attribute, types[column])
            if ours != theirs:
                yield f"{place}.{column}: {row[column]!r}, expected {theirs!r} of {attribute}"


def drawn(number: int, of: int) -> list[Case]:
    """So many tables that differ; the same ones for the same number `of`."""
    found: dict[tuple[str, ...], Case] = {}

    @seed(of)
    @settings(max_examples=8 * number, deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(cases())
    def draw(case: Case) -> None:
        found.setdefault(case.columns, case)

    draw()
    return sorted(found.values(), key=lambda case: len(case.columns), reverse=True)[:number]


_LOOKS_LIKE: Sequence[Attribute] = (
    {"S": "12"}, {"N": "1"}, {"BOOL": True}, {"NULL": True}, {"SS": ["1"]}, {"NS": ["1"]}, {"L": []}, {"M": {}},
)  # fmt: skip


def documents(number: int, of: int) -> Case:
    """A table of so many items, each with a document."""
    found: list[Attribute] = []

    @seed(of)
    @settings(max_examples=number, deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(DOCUMENTS)
    def draw(document: Attribute) -> None:
        found.append(document)

    draw()
    # Attributes with the names of types, whose values look like one when they are taken for it.
    found += [{"M": {one: value}} for one in ("S", "N", "BOOL", "NULL", "SS", "NS", "L", "M") for value in _LOOKS_LIKE]
    deepest: Attribute = {"N": "1"}
    for level in range(31):
        deepest = {"M": {"M": deepest}} if level % 2 else {"L": [deepest, {"S": "]}"}]}
    changes = []
    for place, document in enumerate([*found, deepest]):
        key = {"k0": {"N": str(place)}}
        changes.append(Change(place, json.dumps(key), None, {**key, "document": document}, is_ttl=False))
    return Case(("number",), ("document",), tuple(changes), "NEW_IMAGE", False, True, of)


@pytest.mark.spark
@pytest.mark.parametrize(
    "of",
    [
        pytest.param(7, marks=pytest.mark.slow),
        *(pytest.param(of, marks=pytest.mark.long) for of in range(8, 20)),
    ],
)
def test_silver_equals_the_table_whatever_its_items_hold(of: int, spark: SparkSession, tmp_path: Path) -> None:
    tables = {f"t{number}": case for number, case in enumerate([documents(200, of), *drawn(9, of)])}
    declared = [case.declared(name) for name, case in tables.items()]
    project = new_project(tmp_path, {"tables": declared})
    for number in range(2):
        fed = {name: lines for name, case in tables.items() if (lines := case.batches()[number])}
        for name, lines in fed.items():
            project.deliver(f"shop.{name}", number * 1_000, lines)
        results = project.land(spark, *fed)
        errors = {name: landed.error.message for name, landed in results.items() if landed.error}
        assert not {name: told for name, told in errors.items() if tables[name].says_rows}
    wrong = []
    reasons = {row["source_table"]: row["reason"] for row in project.quarantined(spark)}
    for name, case in tables.items():
        totals = project.state(spark, name).totals
        unsaid = 0 if case.says_rows else sum(change.after is not None for change in case.changes)
        if totals.read != case.delivered or (totals.quarantined > 0) != (unsaid > 0):
            told = f"{totals}, {reasons.get(name)}"
            wrong.append(f"{name}: {told}, expected {case.delivered} records, some of {unsaid} quarantined")
        names = (*case.types, "__deleted", "__is_ttl_delete")
        wrong += [f"{name}: {told}" for told in faults(case, project.rows(spark, name, *names, live=False))]
    assert not wrong, "\n".join(wrong[:10])
