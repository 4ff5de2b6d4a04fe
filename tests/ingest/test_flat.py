"""What was cut from a text is what a parser finds in it, whatever the text is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from ingest.decode.flat_json import IS_CUT, FlatForm, value_column

pytestmark = pytest.mark.spark

# One member of each kind; each sequence has one comma, and the last member is not wanted.
USUAL: dict[str, Any] = {
    "id": 7,
    "price": 12.5,
    "sequence": '["24","25"]',
    "näme": "Zoë",
    "flag": True,
    "nothing": None,
    "count": 3,
    "at": "2020-01-01T00:00:00Z",
    "end": "x",
}
TYPES = {
    "id": T.LongType(),
    "price": T.StringType(),
    "sequence": T.StringType(),
    "näme": T.StringType(),
    "flag": T.BooleanType(),
    "nothing": T.StringType(),
    "count": T.StringType(),
    "at": T.StringType(),
}
TEXTS = st.one_of(
    st.text(max_size=6), st.sampled_from(["", ",", '"', "\\", '\\"', "a,b", "null", "{", "}", "\t", "\x7f"])
)
VALUES = {
    "id": st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, -1, 2**63])),
    "price": st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.0, -0.0, 1e7, 1e-3, 1e22])),
    "sequence": st.one_of(st.lists(st.sampled_from([None, "1", "2"]), max_size=3).map(json.dumps), TEXTS),
    "näme": TEXTS,
    "flag": st.booleans(),
    "nothing": st.one_of(st.none(), st.integers(0, 3)),
    "count": st.integers(-9, 2**64),
    "at": TEXTS,
    "end": TEXTS,
}
CHANGES = st.one_of(
    *(st.tuples(st.just(name), st.one_of(values, values, st.none())) for name, values in VALUES.items())
)
# Most events differ from the usual one in one member or two, so that there is something to be cut.
EVENTS = st.lists(CHANGES, max_size=2).map(lambda changes: USUAL | dict(changes))
# A text is written otherwise by an edit: so many characters at a place are replaced.
EDITS = st.tuples(st.floats(0, 1), st.integers(0, 2), st.sampled_from(["", *' 0-,"\\}{1.e+\x01\t']))


def compact(event: dict[str, Any]) -> str:
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False)


def parsed(text: str) -> dict[str, Any] | None:
    """What a text is, with its numbers as they are written; None where it is no JSON, or has a key twice."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(found)) < len(found):
            raise ValueError(found)
        return dict(found)

    def no_constant(text: str) -> None:
        raise ValueError(text)

    try:
        found = json.loads(text, object_pairs_hook=pairs, parse_float=str, parse_constant=no_constant)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


@seed(20_261_122)
# Nothing is made smaller: each try is a Spark job, and what differs is named.
@settings(max_examples=4, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    events=st.lists(EVENTS, min_size=400, max_size=400),
    edits=st.lists(st.lists(EDITS, max_size=1), min_size=400, max_size=400),
)
def test_what_is_cut_is_what_a_parser_finds(
    events: list[dict[str, Any]], edits: list[list[tuple[float, int, str]]], spark: SparkSession
) -> None:
    examples = [compact(USUAL | {"id": number}) for number in range(5)]
    form = FlatForm.of(examples)
    assert form is not None
    texts = [*examples, compact(dict.fromkeys(USUAL) | {"sequence": '["1",null]'}), "", "null"]
    for event, changes in zip(events, edits, strict=True):
        text = compact(event)
        for place, length, instead in changes:
            at = round(place * len(text))
            text = text[:at] + instead + text[at + length :]
        texts.append(text.encode("utf-8", "replace").decode())
    lines = spark.createDataFrame([(text, number) for number, text in enumerate(texts)], "value string, number int")
    rows = {row["number"]: row for row in form.cut(lines, TYPES).collect()}
    assert all(rows[number][IS_CUT] for number in range(6))
    assert sum(row[IS_CUT] for row in rows.values()) > 100
    for number, text in enumerate(texts):
        if not rows[number][IS_CUT]:
            continue
        found = parsed(text)
        assert found is not None and list(found) == list(USUAL), text
        cut = {name: rows[number][value_column(name)] for name in TYPES}
        # Wanted as a string; null stays null.
        expected = {name: found[name] for name in TYPES} | {
            "count": None if found["count"] is None else str(found["count"])
        }
        assert cut == expected, text


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["{}x"],
        ['{"a": 1}'],
        ['{"a":1}', '{"b":1}'],
        ['{"a":1}', '{"a":"1"}'],
        ['{"a":[1]}'],
        ['{"a":{"b":1}}'],
        ['{"a":"x\\ny"}'],
        ['{"a":"1,2"}', '{"a":"1"}'],
        ['{"a,b":1}'],
        ['{"a":1,"a":2}'],
        ["not JSON"],
    ],
)
def test_what_is_not_flat_and_alike_has_no_form(texts: list[str]) -> None:
    assert FlatForm.of(texts) is None
