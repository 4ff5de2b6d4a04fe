"""Batches of a microbatch model: a row stands where the last batch of its time says, and what went well stays."""

from __future__ import annotations

from typing import Any

import pytest
from modeling import MakeModels, Models

from macros import test_habits as habits

pytestmark = pytest.mark.spark
make_models = habits.make_models

EVENTS = """
select id, timestamp('2026-01-0' || day || ' 12:00:00') as at, cast('2026-01-0' || day as date) as day, region,
    '{value}' as value
from values {rows} as events (id, day, region)
"""
MICROBATCH: dict[str, Any] = {
    "incremental_strategy": "microbatch", "event_time": "at", "batch_size": "day", "begin": "2026-01-01",
    "lookback": 0, "partition_by": ["day", "region"], "options": {},
}  # fmt: skip


def write_events(models: Models, value: str, rows: str, broken: int = 0) -> None:
    """Writes the microbatch model, and what it reads."""
    models.write("events", EVENTS.format(value=value, rows=rows), materialized="view", event_time="at")
    checked = f"if(id = {broken}, cast(raise_error('broken') as string), value)"
    models.write("model", f"select id, at, day, region, {checked} as value from {{{{ ref('events') }}}}", **MICROBATCH)


def run_days(models: Models, *words: str) -> str:
    """The status of the model after a run of three days."""
    models.run("events")
    days = ("--event-time-start", "2026-01-01", "--event-time-end", "2026-01-04")
    return models.dbt("build", "--select", "model", *days, *words)["model"].status


def found(models: Models) -> list[tuple[int, str | None, str]]:
    """Id, region and value of each row."""
    return [(row["id"], row["region"], row["value"]) for row in models.rows("model", "id", "region", "value")]


@pytest.mark.slow
def test_a_batch_leaves_no_row_in_partitions_that_it_has_left(make_models: MakeModels) -> None:
    models = make_models()
    write_events(models, "a", "(1,'1','A'), (2,'1','B'), (3,'2','A'), (4,'2',null), (5,'3','A'), (6,'3',null)")
    assert run_days(models) == "success"
    commits = len(models.commits("model"))
    # One moves to another region, one to none; the only row without a region is gone, and that of another day stays.
    write_events(models, "b", "(1,'1',null), (2,'1','A'), (3,'2','A'), (5,'3','A'), (6,'3',null)")
    assert run_days(models) == "success"
    expected = [(1, None, "b"), (2, "A", "b"), (3, "A", "b"), (5, "A", "b"), (6, None, "b")]
    assert found(models) == expected
    # Where nothing has left a partition, a batch is one commit.
    assert len(models.commits("model")) == commits + 3 + 2
    assert models.tables() == {"events", "model"}
    write_events(models, "c", "(1,'1','A'), (3,'2','A'), (3,'2','B')")
    assert run_days(models) == "partial success"
    told = (models.project.root / "target" / "dbt.log").read_text(encoding="utf-8")
    assert "got 0 rows with a null in unique_key (id) and 2 rows that share theirs" in told
    # The batches before and after the one that is refused are computed.
    assert found(models) == [(1, "A", "c"), (3, "A", "b")]


def test_a_batch_has_an_index_that_looks_into_its_partition(make_models: MakeModels) -> None:
    models = make_models()
    write_events(models, "a", "(1,'1','A'), (2,'1','B')")
    # One over all partitions finds a row in its new place, where that of the old place is to be removed: both go.
    options = {"hoodie.index.type": "GLOBAL_SIMPLE"}
    models.write("model", "select * from {{ ref('events') }}", **MICROBATCH | {"options": options})
    assert run_days(models) == "error"
    told = (models.project.root / "target" / "dbt.log").read_text(encoding="utf-8")
    assert "hoodie.index.type = 'GLOBAL_SIMPLE' with partition_by, expected one of BUCKET, SIMPLE, BLOOM" in told
    assert models.tables() == {"events"}


@pytest.mark.parametrize("at", ["at + interval 12 hours", pytest.param("if(id = 1, null, at)", marks=pytest.mark.slow)])
def test_a_row_of_no_time_of_its_batch_is_refused(at: str, make_models: MakeModels) -> None:
    """The next batch would take its place: a row is lost that no run has left out."""
    models = make_models()
    write_events(models, "a", "(1,'1','A'), (2,'2','A')")
    models.write("model", f"select id, {at} as at, day, region, value from {{{{ ref('events') }}}}", **MICROBATCH)
    assert run_days(models) == "error"
    told = (models.project.root / "target" / "dbt.log").read_text(encoding="utf-8")
    assert "got a row whose at is null, or no time of its batch (2026-01-01 00:00:00+00:00 to 2026-01-02" in told
    assert models.tables() == {"events"}


@pytest.mark.slow
def test_a_row_without_a_time_is_not_replaced(make_models: MakeModels) -> None:
    """Such rows are of no batch: a table that was merged before may hold them."""
    models = make_models()
    write_events(models, "a", "(1,'2','A'), (9,'2','A')")
    of_day: dict[str, Any] = {"partition_by": ["day"], "options": {}}
    merged = "select id, if(id = 9, null, at) as at, day, region, value from {{ ref('events') }}"
    models.write("model", merged, **of_day)
    assert run_days(models) == "success"
    models.write("model", "select * from {{ ref('events') }} where id < 9", **MICROBATCH | of_day)
    # The second batch is refused; the others have no rows. A run that was killed left a view, and a table.
    left = [f"{models.relation('model')}__{purpose}__00000001_abcdef01" for purpose in ("tried", "kept")]
    models.do(f"create view {left[0]} as select 1 as id")
    models.do(f"create table {left[1]} using parquet as select 1 as id")
    assert run_days(models) == "partial success"
    told = (models.project.root / "target" / "dbt.log").read_text(encoding="utf-8")
    assert "got partition_by day, of which 2026-01-02 has rows of other batches too, or without a time" in told
    assert found(models) == [(1, "A", "a"), (9, "A", "a")]
    # Nor has the batch left its rows beside the table.
    assert models.tables() == {"events", "model"}


@pytest.mark.slow
def test_a_refused_batch_keeps_no_later_one_from_a_table_as_it_was(make_models: MakeModels) -> None:
    models = make_models()
    write_events(models, "a", "(1,'1','A'), (2,'2','A'), (3,'3','A')")
    models.write("base", "select * from {{ ref('events') }}", materialized="table")
    models.run("events", "base")
    ((instant, _),) = models.commits("base")
    was = f"{models.relation('base')} timestamp as of '{instant}'"
    day = "{% if model.batch %} where day = date '{{ model.batch.event_time_start.date() }}'{% endif %}"
    models.write("model", f"select if(id = 2, null, id) as id, at, day, region, value from {was}{day}", **MICROBATCH)
    assert run_days(models) == "partial success"
    assert found(models) == [(1, "A", "a"), (3, "A", "a")]


@pytest.mark.slow
def test_a_retry_keeps_the_batches_that_went_well(make_models: MakeModels) -> None:
    models = make_models()
    rows = "(1,'1','A'), (2,'2','A'), (3,'3','A')"
    write_events(models, "a", rows)
    assert run_days(models) == "success"
    write_events(models, "b", rows, broken=2)
    assert run_days(models, "--full-refresh") == "partial success"
    write_events(models, "b", rows)
    models.run("events")
    assert models.dbt("retry")["model"].status == "success"
    assert found(models) == [(number, "A", "b") for number in (1, 2, 3)]
