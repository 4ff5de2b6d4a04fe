"""What is read as the first events are written is what the exact way reads, or is told to be read again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import MakeProject, pg, table_of
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from ingest.config.tables import Table
from ingest.decode.decoded import MISREAD
from ingest.decode.flat_json import FlatForm
from ingest.decode.json_events import JsonSource, json_parts
from ingest.schema.connectors import UNAVAILABLE_VALUE
from ingest.schema.evolution import Reading

pytestmark = pytest.mark.spark

COLUMNS = {
    "id": "bigint",
    "number": "int",
    "day": "date",
    "at": "timestamp",
    "flag": "boolean",
    "price": "decimal(20,2)",
    "note": "string",
    "data": "binary",
}
# What the first events hold: whole numbers, true and false, texts.
USUAL: dict[str, Any] = {
    "id": 1,
    "number": 5,
    "day": 19_000,
    "at": 1_700_000_000_000_000,
    "flag": True,
    "price": 12.5,
    "note": "n",
    "data": "AAEC",
}
WHOLE = st.one_of(st.integers(-5, 5), st.integers(-(2**40), 2**70), st.sampled_from([2**31, 2**63 - 1, 2**63]))
ODD = st.one_of(
    WHOLE,
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "12", "-0", " 7", "1e3", "true", "2020-02-30", "2020-02-29", "2020-01-01T10:00:00Z", "AAEC"]),
    st.text(max_size=5),
    st.sampled_from([{"scale": 1, "value": "AQ=="}, [], [1], {}]),
    st.none(),
)
COMMON = {
    "id": WHOLE,
    "number": st.integers(-9, 2**31),
    "day": st.integers(-9, 3 * 10**6),
    "at": st.integers(-9, 2**62),
    "flag": st.booleans(),
    "price": st.floats(-99, 99),
    "note": st.one_of(st.text(max_size=5), st.text(max_size=5), st.just(UNAVAILABLE_VALUE)),
    "data": st.just("AAEC"),
}
ALIKE = st.fixed_dictionaries({name: st.one_of(values, st.none()) for name, values in COMMON.items()})
ROWS = st.one_of(
    ALIKE, ALIKE, st.fixed_dictionaries({name: st.one_of(values, values, ODD) for name, values in COMMON.items()})
)


def lines_of(spark: SparkSession, texts: list[str]) -> DataFrame:
    rows = [(text, 0, 0, number, "file", None) for number, text in enumerate(texts)]
    # One partition, whose first rows are the examples.
    named = (
        "value string, _lake_partition int, _lake_start_offset bigint, _lake_order bigint, _lake_file string, "
        "_lake_key binary"
    )
    return spark.createDataFrame(rows, named).coalesce(1)


def decoded(lines: DataFrame, table: Table, *, by_examples: bool, events: int = 0) -> list[Row]:
    (part,) = json_parts(JsonSource(lines, events=events), table, by_examples=by_examples)
    return part.decode(table, Reading()).withColumn("_place", F.col("_lake_order")).orderBy("_place").collect()


def is_usual(text: str) -> bool:
    """Whether an event is a flat object that is written as `USUAL` is."""
    event = json.loads(text)
    return (
        "}" not in text[:-1]
        and UNAVAILABLE_VALUE not in text
        and [name for name in event if name in COLUMNS] == list(COLUMNS)
        and all(
            event[name] is None or (type(event[name]) is int and -(2**63) <= event[name] < 2**63)
            for name in ("id", "number", "day", "at")
        )
        and (event["flag"] is None or type(event["flag"]) is bool)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("separators", "events"), [((", ", ": "), 0), ((",", ":"), 10**6)], ids=["parsed", "cut"])
@seed(20_261_121)
# Nothing is made smaller: each try is a Spark job, and what differs is named.
@settings(max_examples=8, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(rows=st.lists(ROWS, min_size=40, max_size=60), left_out=st.sets(st.integers(0, 40)))
def test_reading_by_examples_is_exact_or_says_that_it_is_not(
    rows: list[dict[str, Any]],
    left_out: set[int],
    separators: tuple[str, str],
    events: int,
    make_project: MakeProject,
    spark: SparkSession,
) -> None:
    table = make_project({"tables": [table_of("item", COLUMNS, ["id"])]}).source().tables[0]
    changes = [pg("u", 10, **USUAL.copy()) for _ in range(20)]
    for number, row in enumerate(rows):
        whole = {name: row[name] for name in COLUMNS if number not in left_out or name != "note"}
        changes.append(pg("u", 20 + number, commit=20, **whole))
    texts = [*(json.dumps(change, separators=separators) for change in changes), "null", ""]
    assert (FlatForm.of(texts[:20]) is None) == (separators == (", ", ": "))
    lines = lines_of(spark, texts)
    quick = decoded(lines, table, by_examples=True, events=events)
    exact = decoded(lines, table, by_examples=False)
    assert len(quick) == len(exact) == len(texts)
    misread = {number for number, row in enumerate(quick) if row["_lake_problem"] == MISREAD}
    odd = {number for number, text in enumerate(texts[:-2]) if not is_usual(text)}
    assert misread == odd, [texts[number] for number in misread ^ odd]
    for number, (one, other) in enumerate(zip(quick, exact, strict=True)):
        if number not in misread:
            found, expected = one.asDict(), other.asDict()
            assert found["_lake_ignored"] == expected["_lake_ignored"], texts[number]
            if expected["_lake_ignored"]:
                continue
            # Of an event that cannot be applied, what is told counts, not what its bad values were cast to.
            compared = [name for name in found if expected["_lake_problem"] is None or name not in COLUMNS]
            differing = {name: (found[name], expected[name]) for name in compared if found[name] != expected[name]}
            assert not differing, (differing, texts[number])


def test_a_batch_whose_values_are_written_otherwise_later_is_landed_whole(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project({"tables": [table_of("item", {"id": "int", "day": "date"}, ["id"])]})
    usual = [pg("c", 10 + key, id=key, day=19_000) for key in range(30)]
    project.deliver("shop.item", 0, [*usual, pg("c", 100, id=100, day="2020-02-29"), pg("c", 101, id="101", day=None)])
    landed = project.land_well(spark)["item"]
    assert (landed.counts.read, landed.counts.applied) == (32, 32)
    rows = project.rows(spark, "item")
    assert [(row["id"], str(row["day"])) for row in rows[-2:]] == [(100, "2020-02-29"), (101, "None")]
    assert project.quarantined(spark) == []


def test_a_batch_with_a_bad_value_says_what_was_found(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project({"tables": [table_of("item", {"id": "int", "day": "date"}, ["id"])]})
    usual = [pg("c", 10 + key, id=key, day=19_000) for key in range(30)]
    project.deliver("shop.item", 0, [*usual, pg("c", 100, id=100, day="yesterday")])
    landed = project.land_well(spark)["item"]
    assert (landed.counts.applied, landed.counts.quarantined) == (30, 1)
    assert [event["reason"] for event in project.quarantined(spark)] == ["column day: yesterday is not exactly a date"]
