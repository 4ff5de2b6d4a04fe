"""Partitions: of silver, as Athena reads them, and of the tables that dbt makes there."""

from __future__ import annotations

import time

import pytest
from conftest import MakeProject, chosen, pg, table_of
from pyspark.sql import SparkSession

from athena.engine.building import AthenaModels

pytestmark = [pytest.mark.athena, pytest.mark.spark]
DAYS = """select n as id, {name} as name, date_add('day', n, date '2026-01-01') as day
from unnest(sequence(1, {days})) as t (n)"""
VALUES = [("a", None), (None, "b"), (None, None), ("x/kind=__HIVE_DEFAULT_PARTITION__", "\\N"), ("%=é", "b")]


@pytest.mark.parametrize("table_type", chosen(["mor", "cow"], "mor"))
def test_a_null_of_a_partition_is_one(
    spark: SparkSession, make_project: MakeProject, models: AthenaModels, table_type: str
) -> None:
    """As `partition_value` gives it: whatever the engine shows for it, and also where a value looks like it."""
    columns = {"id": "int", "kind": "string", "place": "string"}
    project = make_project({
        "tables": [table_of("item", columns, ["id"], table_type=table_type, partition_by=["kind", "place"])]
    })  # fmt: skip
    events = [pg("c", number, id=number, kind=kind, place=place) for number, (kind, place) in enumerate(VALUES, 1)]
    project.deliver("shop.item", 0, events)
    project.land_well(spark)
    shown = "{{ partition_value('kind') }} as kind, {{ partition_value('place') }} as place"
    models.write("items", f"select id, {shown} from {project.schema}.item", materialized="view")
    models.run()
    assert models.rows("items") == [[str(number), *values] for number, values in enumerate(VALUES, 1)]
    assert [tuple(row.values()) for row in project.rows(spark, "item", "kind", "place")] == VALUES


@pytest.mark.slow
def test_a_table_of_more_partitions_than_one_statement_writes(models: AthenaModels) -> None:
    """It is built in parts, and made anew where a merge would reach too many; a part of its rows is refused."""
    settings = {"unique_key": "id", "partition_by": ["day"]}
    left, at_work = "items__lake_parts__00000001_0123abcd", f"items__lake_parts__{int(time.time()):08x}_0123abcd"
    for name in (left, at_work):
        models.write(name, "select 1 as id", materialized="table")
    models.run()
    for name in (left, at_work):
        models.remove(name)
    models.write("items", DAYS.format(name="'a'", days=450), **settings)
    models.run()
    assert len(models.rows("items")) == 450
    models.write("items", DAYS.format(name="if(n = 7, 'b', 'a')", days=449), **settings)
    before = models.snapshots("items")
    models.run()
    assert models.snapshots("items") == before + 1, "few partitions are merged"
    all_changed = DAYS.format(name="'c'", days=440)
    models.write("items", all_changed + "{% if is_incremental() %} where true {% endif %}", **settings)
    assert "got rows of more partitions than one statement of Athena writes (100)" in models.refusal("items")
    models.write("items", all_changed, on_schema_change="append_new_columns", **settings)
    models.athena.ask(f"alter table {models.schema}.items add columns (old string)")
    assert "and a table with columns that its select has no longer (old)" in models.refusal("items")
    models.athena.ask(f"alter table {models.schema}.items drop column old")
    models.run()
    assert [row[1] for row in models.rows("items")] == ["c"] * 440
    models.write("added", DAYS.format(name="'a'", days=450), incremental_strategy="append", partition_by="day")
    models.run("--select", "added")
    models.run("--select", "added")
    assert len(models.rows("added")) == 900
    shown = models.athena.ask(f"show tables in `{models.schema}`")
    assert sorted(shown) == [["added"], ["items"], [at_work]], "of other runs only the younger one is left beside them"


def test_partitions_by_transforms(models: AthenaModels) -> None:
    """dbt-athena's `partitioned_by`: built in parts by what rows of a partition share, and merged into."""
    rows = """select n as id, if(n % 50 = 0, null, {}) as name, n as number,
    date_add('day', n, timestamp '2026-01-01 00:00:00') as at from unnest(sequence(1, 420)) as t (n)"""
    parts = ["day(at)", "bucket(id, 4)", "truncate(name, 1)", "truncate(number, 100)"]
    name, settings = "'it''s ' || cast(n as varchar)", {"unique_key": "id", "partitioned_by": parts}
    models.write("items", rows.format(name), **settings)
    models.run()
    before = models.snapshots("items")
    models.run()
    assert models.snapshots("items") == before
    models.write("items", rows.format(f"if(n = 7, 'b', {name})"), **settings)
    models.run()
    assert models.snapshots("items") == before + 1
    wanted = [[str(n), None if n % 50 == 0 else "b" if n == 7 else f"it's {n}"] for n in range(1, 421)]
    assert sorted([row[:2] for row in models.rows("items")], key=lambda row: int(str(row[0]))) == wanted
    models.write("items", rows.format("'b'"), unique_key="id", partitioned_by=["month(at)"])
    refusal = models.refusal("items")
    assert "got partitioned_by = 'month(at)', expected 'at_day, id_bucket, name_trunc, number_trunc'" in refusal
    models.write("items", rows.format("'b'"), unique_key="id", partitioned_by=["day(at)", "bucket(id, 128)"])
    refusal = models.refusal("items", "--full-refresh")
    assert "expected buckets of which one statement can write all, 100 at most" in refusal
    models.write("items", rows.format("'b'"), unique_key="id", partitioned_by=["month(made)"])
    assert "got partition_by column 'made'" in models.refusal("items", "--full-refresh")


def test_properties_of_a_table(models: AthenaModels) -> None:
    """What dbt-athena writes into `create table` is written, and what a merge would ignore is refused."""
    settings = {"write_compression": "zstd", "table_properties": {"vacuum_max_snapshot_age_seconds": 86400}}
    models.write("items", "select 1 as id", unique_key="id", format="orc", **settings)
    models.run()
    files = models.athena.ask(f'select file_format from "{models.schema}"."items$files"')
    assert files == [["ORC"]]
    models.write("items", "select 1 as id", unique_key="id", update_condition="target.id > 1")
    assert "got update_condition = target.id > 1, expected none" in models.refusal("items")
