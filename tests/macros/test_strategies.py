"""Increments that merge no key: append, insert_overwrite, microbatch; and models that read a table as it was."""

from __future__ import annotations

import pytest
from modeling import NUMBERS, MakeModels, numbers

from macros import test_materializations as materializations

pytestmark = pytest.mark.spark
make_models = materializations.make_models


def test_insert_overwrite_replaces_the_partitions_that_a_run_has(make_models: MakeModels) -> None:
    models = make_models(
        materialized="incremental",
        incremental_strategy="insert_overwrite",
        unique_key="id",
        partition_by=["day"],
        options={},
    )
    rows = "select * from values {} as rows (id, value, day)"
    models.write("model", rows.format("(1, 'a', '1st'), (2, 'a', '1st'), (3, 'a', '2nd')"))
    models.run()
    models.write("model", rows.format("(4, 'b', '2nd'), (5, 'b', '3rd')"))
    models.run()
    assert [(row["id"], row["value"]) for row in models.rows("model", "id", "value")] == [
        (1, "a"), (2, "a"), (4, "b"), (5, "b"),
    ]  # fmt: skip
    models.run(whole=True)
    assert [row["id"] for row in models.rows("model", "id")] == [4, 5]


def test_rows_are_appended_whatever_capitals_their_columns_have(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", incremental_strategy="append", unique_key="id")
    for number, name in enumerate(("value", "VALUE")):
        models.write("model", f"select {number} as id, 'a' as {name}")
        models.run()
    assert models.rows("model") == [{"id": 0, "value": "a"}, {"id": 1, "value": "a"}]


@pytest.mark.slow
@pytest.mark.parametrize("first", ["merge", "append"])
def test_partitions_that_a_run_has_not_stay_where_the_strategy_was_another(first: str, make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id", partition_by=["day"], options={})
    rows = "select * from values {} as rows (id, value, day)"
    models.write("model", rows.format("(1, 'a', '1st'), (2, 'a', '2nd')"), incremental_strategy=first)
    models.run()
    models.write("model", rows.format("(3, 'b', '2nd')"), incremental_strategy="insert_overwrite")
    models.run()
    assert [row["id"] for row in models.rows("model", "id")] == [1, 3]
    # A full refresh by the strategy of before replaces all of them.
    models.write("model", rows.format("(4, 'c', '2nd')"), incremental_strategy=first)
    models.run(whole=True)
    assert [row["id"] for row in models.rows("model", "id")] == [4]


@pytest.mark.slow
@pytest.mark.parametrize("materialized", ["table", "incremental"])
def test_a_model_may_read_a_table_as_it_was(materialized: str, make_models: MakeModels) -> None:
    models = make_models(unique_key="id")
    models.write("base", NUMBERS.format(1, 3), materialized="table")
    models.run("base")
    ((instant, _),) = models.commits("base")
    models.write("base", NUMBERS.format(2, 4), materialized="table")
    models.write(
        "model", f"select * from {models.relation('base')} timestamp as of '{instant}'", materialized=materialized
    )
    models.run("base")
    models.run("model")
    if materialized == "incremental":
        models.write("model", "select id, value from {{ ref('base') }} where id < 3", materialized=materialized)
        models.run("model")
        assert models.rows("model") == numbers(2)
        models.write(
            "model", f"select * from {models.relation('base')} timestamp as of '{instant}'", materialized=materialized
        )
    models.run("model")
    assert models.rows("model") == numbers(1)
    assert models.tables() == {"base", "model"}


EVENTS = """
select id, cast('2026-01-0' || day as date) as day, timestamp('2026-01-0' || day || ' 12:00:00') as at, '{}' as value
from values (1, '1'), (2, '1'), (3, '2'), (4, '3') as events (id, day)
"""


@pytest.mark.slow
def test_microbatch_replaces_the_days_that_it_is_told(make_models: MakeModels) -> None:
    models = make_models(unique_key="id", options={})
    models.write("events", EVENTS.format("a"), materialized="view", event_time="at")
    models.run("events")
    models.write(
        "model", "select * from {{ ref('events') }}", materialized="incremental", incremental_strategy="microbatch",
        event_time="at", batch_size="day", begin="2026-01-01", lookback=1, partition_by=["day"],
    )  # fmt: skip

    def run(start: int, end: int, *words: str) -> list[tuple[int, str]]:
        times = ("--event-time-start", f"2026-01-0{start}", "--event-time-end", f"2026-01-0{end}")
        assert models.dbt("run", "--select", "model", *times, *words)["model"].status == "success"
        return [(row["id"], row["value"]) for row in models.rows("model", "id", "value")]

    assert run(1, 4) == [(1, "a"), (2, "a"), (3, "a"), (4, "a")]
    # A batch is a commit, which the others stand beside.
    assert len(models.commits("model")) == 3
    models.write("events", EVENTS.format("b") + "where id <> 2", materialized="view", event_time="at")
    models.run("events")
    assert run(1, 2) == [(1, "b"), (3, "a"), (4, "a")]
    assert run(2, 4) == [(1, "b"), (3, "b"), (4, "b")]
    # A day that has no events any more.
    models.write("events", EVENTS.format("c") + "where id <> 3", materialized="view", event_time="at")
    models.run("events")
    assert run(2, 4) == [(1, "b"), (4, "c")]
    assert run(1, 4, "--full-refresh") == [(1, "c"), (2, "c"), (4, "c")]
    assert models.tables() == {"events", "model"}


def test_a_microbatch_takes_no_rows_of_another_one_with_it(make_models: MakeModels) -> None:
    models = make_models(unique_key="id", options={})
    models.write("events", EVENTS.format("a"), materialized="view", event_time="at")
    models.write(
        "model", "select *, date_format(at, 'yyyy-MM') as month from {{ ref('events') }}", materialized="incremental",
        incremental_strategy="microbatch", event_time="at", batch_size="day", begin="2026-01-01", lookback=0,
        partition_by="month",
    )  # fmt: skip
    models.run("events")
    times = ("--event-time-start", "2026-01-01", "--event-time-end", "2026-01-04")
    outcome = models.dbt("run", "--select", "model", *times)["model"]
    assert outcome.status == "partial success", outcome
    told = "got partition_by month, of which 2026-01 has rows of other batches too, or without a time, expected columns"
    assert told in (models.project.root / "target" / "dbt.log").read_text(encoding="utf-8")
    assert [row["id"] for row in models.rows("model", "id")] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["append", "insert_overwrite"])
def test_columns_that_come_and_go_where_no_key_is_merged(strategy: str, make_models: MakeModels) -> None:
    models = make_models(
        materialized="incremental", incremental_strategy=strategy, unique_key="id", partition_by=["day"],
        on_schema_change="append_new_columns", options={},
    )  # fmt: skip
    models.write("model", "select 1 as id, 'a' as value, 'x' as day")
    models.run()
    models.write("model", "select 2 as id, 5 as more, 'y' as day")
    models.run()
    assert models.rows("model", "id", "value", "more", "day") == [
        {"id": 1, "value": "a", "more": None, "day": "x"},
        {"id": 2, "value": None, "more": 5, "day": "y"},
    ]
