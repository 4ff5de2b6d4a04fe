"""What is read as the first events are written is what the exact way reads, or is told to be read again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import MakeProject, pg, table_of
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from ingest.declaration import Table
from ingest.decode.debezium import MISREAD, Part, json_part
from ingest.plan import Reading

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
    "note": st.text(max_size=5),
    "data": st.just("AAEC"),
}
ROWS = st.fixed_dictionaries(
    {name: st.one_of(values, values, values, values, st.none(), ODD) for name, values in COMMON.items()}
)


def whole_of(make_project: MakeProject) -> Table:
    return make_project({"tables": [table_of("item", COLUMNS, ["id"])]}).source().tables[0]


def lines_of(spark: SparkSession, texts: list[str]) -> DataFrame:
    rows = [(text, 0, 0, number, "file") for number, text in enumerate(texts)]
    # One partition, whose first rows are the examples.
    named = "value string, _partition int, _start_offset bigint, _order bigint, _file string"
    return spark.createDataFrame(rows, named).coalesce(1)


def enveloped(event: dict[str, Any]) -> dict[str, Any]:
    row = {name: event[name] for name in COLUMNS if name in event}
    source = {
        "lsn": event["__lsn"],
        "ts_ms": event["__source_ts_ms"],
        "sequence": event["__source_sequence"],
        "db": "shop",
    }
    return {"before": None, "after": row, "source": source, "op": event["__op"], "ts_ms": 1}


def both(part: Part, table: Table) -> tuple[list[Row], list[Row]]:
    assert part.decode_quickly is not None
    quick = part.decode_quickly(table, Reading()).withColumn("_place", F.col("_order")).orderBy("_place").collect()
    exact = part.decode(table, Reading()).withColumn("_place", F.col("_order")).orderBy("_place").collect()
    return quick, exact


@seed(20_261_121)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(ROWS, min_size=40, max_size=60), form=st.sampled_from(["flat", "envelope", "wrapped"]))
def test_quick_decoding_is_exact_or_says_that_it_is_not(
    rows: list[dict[str, Any]], form: str, make_project: MakeProject, spark: SparkSession
) -> None:
    table = whole_of(make_project)
    events = [pg("u", 10, **USUAL.copy()) for _ in range(20)]
    events += [pg("u", 20 + number, commit=20, **row) for number, row in enumerate(rows)]
    if form == "envelope":
        events = [enveloped(event) for event in events]
    if form == "wrapped":
        events = [{"schema": None, "payload": event} for event in events]
    part = json_part(lines_of(spark, [json.dumps(event) for event in events]), table)
    quick, exact = both(part, table)
    assert len(quick) == len(exact) == len(events)
    misread = [number for number, row in enumerate(quick) if row["_problem"] == MISREAD]
    assert not set(misread) & set(range(20))
    for number, (one, other) in enumerate(zip(quick, exact, strict=True)):
        if number not in misread:
            found, expected = one.asDict(), other.asDict()
            # Of an event that cannot be applied, what is told counts, not what its bad values were cast to.
            compared = [name for name in found if expected["_problem"] is None or name not in COLUMNS]
            differing = {name: (found[name], expected[name]) for name in compared if found[name] != expected[name]}
            assert not differing, (differing, events[number])
    # What is written as the examples are is not read twice.
    read_as_usual = [
        number
        for number, row in enumerate(rows, start=20)
        if all(
            row[name] is None or (type(row[name]) is int and -(2**63) <= row[name] < 2**63)
            for name in ("id", "number", "day", "at")
        )
        and (row["flag"] is None or type(row["flag"]) is bool)
    ]
    assert not set(misread) & set(read_as_usual)


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
