"""The histories of a table, read by Athena: the same rows as by Spark, of any log and any delivery of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from conftest import MakeProject, Row, table_of
from notes import NOTES, lsn, random_case
from pyspark.sql import SparkSession

from athena.engine.building import AthenaModels
from ingest.operations.replay import replay

pytestmark = [pytest.mark.athena, pytest.mark.spark]
COLUMNS = ["title", "body"]
TIMES = ("valid_from", "valid_to", "known_from", "known_to", "changed_at")
SHOWN = {
    "history": [*COLUMNS, "valid_from", "valid_to", "position_from", "position_to", "is_current", "unknown_columns"],
    "bitemporal_history": [
        *COLUMNS, "valid_from", "valid_to", "known_from", "known_to", "position_from", "position_to", "is_current",
        "unknown_columns",
    ],
    "change_rows": [
        "op", "changed_at", "position",
        *(f"{side}_{column}" for side in ("before", "after") for column in [*COLUMNS, "unknown_columns"]),
    ],
}  # fmt: skip


def dated(event: Row) -> Row:
    """The event with the day from which on its values hold: one of five."""
    return event if "op" in event else {**event, "day": 18_000 + event["__source_ts_ms"] // 1000 % 5}


def texts(columns: Sequence[str], milliseconds: str) -> str:
    """The columns in words that both engines read, as texts."""
    of_time = [column for column in columns if column in TIMES]
    of_names = [column for column in columns if column.endswith("unknown_columns")]
    shown = {column: milliseconds.format(column) for column in of_time}
    shown |= {column: f"array_join({column}, ',')" for column in of_names}
    return ", ".join(f"{shown.get(column, f'cast({column} as varchar(99))')} as {column}" for column in columns)


@pytest.mark.parametrize(("seed", "table_type"), [(3, "mor"), pytest.param(4, "cow", marks=pytest.mark.slow)])
def test_athena_reads_the_history_that_spark_reads(
    spark: SparkSession, make_project: MakeProject, models: AthenaModels, seed: int, table_type: str
) -> None:
    """Versions, versions by valid time, and changes; the first and the last also as the log has them."""
    case, columns = random_case(seed, changes=60), {**NOTES, "day": "date"}
    table = table_of("note", columns, ["note_id"], history=True, table_type=table_type)
    project = make_project({"tables": [table]})
    offset = 0
    for batch in case.batches:
        project.deliver("shop.note", offset, [dated(event) for event in batch])
        project.land_well(spark, "note")
        offset += len(batch)
    replay(spark, project.source().choose(["note"])[0])
    changes = f"'{project.schema}.note__changes', 'note_id'"
    calls = {
        "history": f"{{{{ history({changes}, {COLUMNS}) }}}}",
        "bitemporal_history": f"{{{{ bitemporal_history({changes}, 'day', {COLUMNS}) }}}}",
        "change_rows": f"{{{{ change_rows({changes}, {COLUMNS}) }}}}",
    }
    for name, call in calls.items():
        models.write(name, call, materialized="view")
    models.run()
    found: dict[str, list[list[Any]]] = {}
    for (name, shown), query in zip(SHOWN.items(), project.compiled(*calls.values()), strict=True):
        on_spark = texts(["note_id", *shown], "date_format({}, 'yyyy-MM-dd HH:mm:ss.SSS')")
        wanted = [list(row) for row in spark.sql(f"select {on_spark} from ({query})").collect()]
        on_athena = texts(["note_id", *shown], "date_format({}, '%Y-%m-%d %H:%i:%s') || '.000'")
        found[name] = models.athena.ask(f"select {on_athena} from {models.schema}.{name}")
        assert sorted(found[name], key=str) == sorted(wanted, key=str)
    versions = [(int(row[0]), *row[1:3], lsn(row[5]), lsn(row[6])) for row in found["history"]]
    assert sorted(versions, key=lambda row: (row[0], row[3])) == case.versions
    told = [(int(row[0]), lsn(row[3].partition("/")[0]), row[1], *row[4:6], *row[7:9]) for row in found["change_rows"]]
    assert sorted(told, key=lambda row: row[:2]) == case.changes
