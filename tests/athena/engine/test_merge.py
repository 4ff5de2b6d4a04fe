"""What a run of dbt makes of a model's table on Athena: its select, by one commit, or nothing and an error."""

from __future__ import annotations

import dataclasses
import random

import pytest

from athena.engine.building import AthenaModels
from athena.engine.local import LocalAthena

pytestmark = pytest.mark.athena
COLUMNS = "id, name, price, made_at"
FIRST = "(1, 'a', 1.50, timestamp '2026-01-01 00:00:00.123'), (2, null, null, null), (3, 'c', 3.50, null)"
SECOND = "(1, 'a', 1.50, timestamp '2026-01-01 00:00:00.123'), (2, 'b', null, null), (4, null, 4.50, null)"
# The last column has the name of one that the merge had for itself.
NUMBERS = "select id, name, price, _is_wanted from (values {}) as t (id, name, price, _is_wanted)"


def test_a_run_deletes_updates_and_inserts_in_one_commit(models: AthenaModels) -> None:
    """Nulls are values; a run that finds nothing changed commits nothing."""
    models.write("items", NUMBERS.format(FIRST), unique_key="id")
    models.run()
    assert models.rows("items") == [
        ["1", "a", "1.50", "2026-01-01 00:00:00.123000"], ["2", None, None, None], ["3", "c", "3.50", None],
    ]  # fmt: skip
    models.run()
    assert models.snapshots("items") == 1
    models.write("items", NUMBERS.format(SECOND), unique_key="id")
    models.run()
    assert models.rows("items") == [
        ["1", "a", "1.50", "2026-01-01 00:00:00.123000"], ["2", "b", None, None], ["4", None, "4.50", None],
    ]  # fmt: skip
    assert models.snapshots("items") == 2


def test_a_table_is_brought_to_its_select_as_an_incremental_model_is(models: AthenaModels) -> None:
    """And is built anew where its columns are others."""
    models.write("items", NUMBERS.format(FIRST), unique_key="id", materialized="table")
    models.run()
    models.write("items", NUMBERS.format(SECOND), unique_key="id", materialized="table")
    models.run()
    assert models.snapshots("items") == 2
    models.write("items", "select 1 as id, 'x' as other", unique_key="id", materialized="table")
    models.run()
    assert models.rows("items") == [["1", "x"]]
    assert models.snapshots("items") == 1


@pytest.mark.parametrize("is_there", [False, True])
def test_a_key_has_one_row(models: AthenaModels, is_there: bool) -> None:
    """Two rows of a key, equal ones too, or a null in it, fail the run, which writes nothing."""
    if is_there:
        models.write("items", "select 1 as id, 'a' as name", unique_key=["id", "name"])
        models.run()
    models.write(
        "items", "select * from (values (1, 'a'), (1, 'a'), (2, 'b')) as t (id, name)", unique_key=["id", "name"]
    )
    assert (
        "model.tested.items: got 2 rows of the key id = 1, name = a, expected one row for each key"
        in models.refusal("items")
    )
    models.write("items", "select * from (values (1, 'a'), (2, null)) as t (id, name)", unique_key=["id", "name"])
    assert "model.tested.items: got a row with a null in unique_key (id, name)" in models.refusal("items")
    if is_there:
        assert models.rows("items") == [["1", "a"]]


@pytest.mark.slow
def test_another_key_of_which_the_table_has_several_rows_is_refused(models: AthenaModels) -> None:
    """A merge by it would leave rows that no full refresh has; a key that each row has of its own is merged by."""
    rows = "select * from (values (1, 'a'), (2, 'a'), (3, 'c')) as t (id, name)"
    models.write("items", rows, unique_key="id")
    models.run()
    models.write("items", "select * from (values (1, 'a'), (3, 'c')) as t (id, name)", unique_key="name")
    assert (
        "model.tested.items: its table has 2 rows of the key name = a, expected one: the table was made with another "
        "unique_key, and --full-refresh makes it anew; nothing was written" in models.refusal("items")
    )
    assert models.rows("items") == [["1", "a"], ["2", "a"], ["3", "c"]]
    models.run("--full-refresh")
    assert models.rows("items") == [["1", "a"], ["3", "c"]]
    models.write("items", "select * from (values (1, 'a'), (3, 'd')) as t (id, name)", unique_key=["id", "name"])
    models.run()
    assert models.rows("items") == [["1", "a"], ["3", "d"]]


def test_another_partition_by_is_refused(models: AthenaModels) -> None:
    """A merge would go on with the partitions of the table; of a `table` with a key nothing else was asked for."""
    rows = "select id, kind, cast(date '2026-01-01' as date) as day from (values (1, 'a'){}) as t (id, kind)"
    models.write("items", rows.format(""), unique_key="id", partition_by=["kind"])
    models.write("plain", rows.format("") + " where id > 1", unique_key="id")
    models.write("built", rows.format(""), unique_key="id", partition_by=["day", "kind"], materialized="table")
    models.run()
    models.run()
    assert [models.snapshots(name) for name in ("items", "plain", "built")] == [1, 1, 1], "the same is no other"
    models.write("items", rows.format(", (2, 'b')"), unique_key="id", partition_by=["Day", "kind"])
    assert (
        "model.tested.items: got partition_by = 'Day, kind', expected 'kind', with which its table was made; "
        "dbt run --full-refresh makes it anew; nothing was written" in models.refusal("items")
    )
    models.write("plain", rows.format(""), unique_key="id", partition_by="kind")
    assert "got partition_by = 'kind', expected '', with which its table was made" in models.refusal("plain")
    assert (models.rows("items"), models.rows("plain")) == ([["1", "a", "2026-01-01"]], [])
    models.run("--select", "items", "plain", "--full-refresh")
    models.write("built", rows.format(", (2, 'b')"), unique_key="id", partition_by=["kind"], materialized="table")
    models.run()
    assert [models.snapshots(name) for name in ("items", "plain", "built")] == [1, 1, 1]
    assert [len(models.rows(name)) for name in ("items", "plain", "built")] == [2, 1, 2]


def test_another_type_is_refused(models: AthenaModels) -> None:
    """A merge rounds to the table's types: 1.75 was 2, and each run wrote it again. A `table` is built anew."""
    sql = "select 1 as id, {} as n, {} as price, cast('a' as varchar({})) as name, {} as at"
    given = ["5", "decimal '1.25'", "1", "timestamp '2026-01-01 00:00:00.1'"]
    models.write("items", sql.format(*given), unique_key="id")
    models.write("built", sql.format(*given), unique_key="id", materialized="table")
    models.run()
    given[2:] = ["9", "timestamp '2026-01-01 00:00:00.123456'"]
    models.write("items", sql.format("null", *given[1:]), unique_key="id")
    models.run("--select", "items")
    assert models.rows("items") == [["1", None, "1.25", "a", "2026-01-01 00:00:00.123456"]]
    given[:2] = ["1.75e0", "decimal '1.2567'"]
    for mode in ("ignore", "sync_all_columns"):
        models.write("items", sql.format(*given), unique_key="id", on_schema_change=mode)
        refusal = models.refusal("items")
        assert "n as double (the table: integer), price as decimal(5,4) (the table: decimal(3,2))" in refusal
        assert "--full-refresh" in refusal
    assert models.snapshots("items") == 2
    models.write("built", sql.format("5", *given[1:]), unique_key="id", materialized="table")
    models.run("--select", "built")
    models.run("--select", "items", "--full-refresh")
    assert [models.rows(name)[0][1:3] for name in ("items", "built")] == [["1.75", "1.2567"], ["5", "1.2567"]]


@pytest.mark.slow
def test_a_time_with_time_zone_is_one_of_six_digits(models: AthenaModels, athena: LocalAthena) -> None:
    """As Iceberg has them: `current_timestamp` has three. Within an array none is cast, and Athena refuses it."""
    time = "timestamp '2026-01-01 00:00:00.123 UTC'"
    models.write("items", f"select 1 as id, {time} as at", unique_key="id")
    models.run()
    models.run()
    assert models.rows("items") == [["1", "2026-01-01 00:00:00.123000 UTC"]]
    assert models.snapshots("items") == 1
    models.write("others", f"select 1 as id, array[{time}] as at", unique_key="id")
    assert "Timestamp precision (3) not supported for Iceberg" in models.refusal("others")


def test_a_unit_test_s_time_may_have_a_t(models: AthenaModels) -> None:
    """As YAML's times have; and a text of JSON may be a null, which Trino knows of when it plans."""
    models.write("given", "select 1 as id, localtimestamp as at, '[]' as items", materialized="view")
    models.write(
        "told",
        """
        with rows_of as (select * from {{ ref('given') }}),
        told as (
            {{ json_array_rows('rows_of', 'items', {'n': 'int'}, keep=['id', 'at'], outer=true) }}
        )
        select id, at is not null as has_time, n from told
        """,
        unique_key="id",
    )
    rows = [{"id": 1, "at": "2026-01-01T10:00:00", "items": '[{"n": 7}]'}, {"id": 2, "at": None, "items": None}]
    expected = [{"id": 1, "has_time": True, "n": 7}, {"id": 2, "has_time": False, "n": None}]
    models.declare(
        unit_tests=[
            {"name": "tells", "model": "told", "given": [{"input": "ref('given')", "rows": rows}],
             "expect": {"rows": expected}},
        ],
    )  # fmt: skip
    done = models.dbt("build")
    assert {name: each.status for name, each in done.items()} == {
        "given": "success",
        "tells": "pass",
        "told": "success",
    }


def test_a_contract_is_kept(models: AthenaModels) -> None:
    """Its types, and the constraints that no engine of Athena's knows."""
    constraints = [{"type": "not_null"}, {"type": "check", "expression": "price > 0", "name": "price_is_positive"}]
    declared = [{"name": "id", "data_type": "int"}, {"name": "name", "data_type": "string"},
                {"name": "price", "data_type": "decimal(5, 2)", "constraints": constraints}]  # fmt: skip
    config = {"contract": {"enforced": True}, "on_schema_change": "append_new_columns"}
    models.declare(version=2, models=[{"name": "items", "config": config, "columns": declared}])
    rows = "select id, name, cast(price as {}) as price from (values {}) as t (id, name, price)"
    models.write("items", rows.format("varchar", "(1, 'a', '1')"), unique_key="id")
    assert "This model has an enforced contract that failed" in models.refusal("items")
    models.write("items", rows.format("decimal(5, 2)", "(1, 'a', 1), (2, 'b', -1)"), unique_key="id")
    assert "got a row that breaks price_is_positive, expected price > 0" in models.refusal("items")
    models.write("items", rows.format("decimal(5, 2)", "(1, 'a', 1), (2, 'b', 2)"), unique_key="id")
    models.run()
    models.write("items", rows.format("decimal(5, 2)", "(1, 'a', null), (3, 'b', 3)"), unique_key="id")
    assert "got null in price, expected a value (not_null)" in models.refusal("items")
    assert models.rows("items") == [["1", "a", "1.00"], ["2", "b", "2.00"]]


def test_a_part_of_the_rows_removes_none(models: AthenaModels) -> None:
    """Where the select asks whether it is a run of its table's increment."""
    sql = "select * from (values (1, 'a'), (2, 'b')) as t (id, name)"
    models.write("items", sql, unique_key="id")
    models.run()
    models.write("items", "{% if is_incremental() %} select 2 as id, 'new' as name {% else %} " + sql + " {% endif %}",
                 unique_key="id")  # fmt: skip
    models.run()
    assert models.rows("items") == [["1", "a"], ["2", "new"]]


def test_variables_of_the_command_line_remove_no_row(models: AthenaModels) -> None:
    """A select that asks for one may be narrowed by it; rows that stay are no hindrance, nor is a full refresh."""
    rows = "select * from (values (1, 'a'), (2, '{}'), (3, 'c')) as t (id, name) where id >= {{{{ var('since', 1) }}}}"
    models.write("items", rows.format("b"), unique_key="id")
    models.run()
    models.write("items", rows.format("new"), unique_key="id")
    models.run("--vars", "{since: 1}")
    assert models.rows("items") == [["1", "a"], ["2", "new"], ["3", "c"]]
    told = models.refusal("items", "--vars", "{since: 2}")
    assert "model.tested.items: got a row that its select gives no more" in told
    assert "its text asks for --vars since; run it without them, with --full-refresh, or ask is_incremental()" in told
    assert models.rows("items") == [["1", "a"], ["2", "new"], ["3", "c"]]
    models.run("--vars", "{other: 2}")
    models.run("--vars", "{since: 2}", "--full-refresh")
    assert models.rows("items") == [["2", "new"], ["3", "c"]]


def test_a_new_column_comes_with_its_values(models: AthenaModels) -> None:
    """Where `on_schema_change` adds it; else the run is refused, or leaves it out."""
    models.write("items", "select * from (values (1, 'a'), (2, 'b')) as t (id, name)", unique_key="id")
    models.run()
    more = "select *, id * 10 as tens from (values (1, 'a'), (2, 'b')) as t (id, name)"
    models.write("items", more, unique_key="id", on_schema_change="fail")
    assert "got new columns tens from the model" in models.refusal("items")
    models.write("items", more, unique_key="id")
    models.run()
    assert models.rows("items") == [["1", "a"], ["2", "b"]]
    models.write("items", more, unique_key="id", on_schema_change="append_new_columns")
    models.run()
    assert models.rows("items") == [["1", "a", "10"], ["2", "b", "20"]]


@pytest.mark.slow
def test_a_select_may_end_with_a_semicolon(models: AthenaModels) -> None:
    """As on Spark: however it is materialized, in the first run and in the next ones."""
    config = {"contract": {"enforced": True}, "on_schema_change": "fail"}
    columns = [{"name": "id", "data_type": "int"}]
    models.declare(
        version=2, models=[{"name": name, "config": config, "columns": columns} for name in ("items", "built", "shown")]
    )
    configs: dict[str, dict[str, str]] = {
        "items": {"unique_key": "id"}, "built": {"unique_key": "id", "materialized": "table"},
        "shown": {"materialized": "view"}, "added": {"incremental_strategy": "append"},
    }  # fmt: skip
    for number, more in ((1, []), (2, []), (2, ["--empty"])):
        for name, told in configs.items():
            models.write(name, f"select {number} as id;\n", **told)
        models.run(*more)
    assert [models.rows(name) for name in ("items", "built", "shown")] == [[["2"]]] * 3
    assert models.rows("added") == [["1"], ["2"]]


def test_a_batch_takes_the_place_of_its_rows(models: AthenaModels) -> None:
    """Of a microbatch: rows of other times stay, whatever the select would give of them now."""
    event = {"event_time": "at", "batch_size": "day", "begin": "2026-01-01", "unique_key": "id", "lookback": 0}
    rows = "select id, cast(timestamp '2026-01-0{} 12:00:00' as timestamp(6)) as at, '{}' as name"
    events = " union all ".join(
        rows.format(day, name).replace("id", f"{day} as id", 1) for day, name in ((1, "a"), (2, "b"))
    )
    models.write("events", events, unique_key="id", event_time="at")
    models.write("daily", "select * from {{ ref('events') }}", incremental_strategy="microbatch", partition_by=["name"],
                 **event)  # fmt: skip
    models.run("--event-time-start", "2026-01-01", "--event-time-end", "2026-01-03")
    assert [row[0] for row in models.rows("daily")] == ["1", "2"]
    models.write(
        "events",
        "select * from (" + events.replace("'b'", "'new'") + ") where id = 2",
        unique_key="id",
        event_time="at",
    )
    models.run("--event-time-start", "2026-01-02", "--event-time-end", "2026-01-03")
    assert [(row[0], row[2]) for row in models.rows("daily")] == [("1", "a"), ("2", "new")]
    models.run("--event-time-start", "2026-01-01", "--event-time-end", "2026-01-02")
    assert [row[0] for row in models.rows("daily")] == ["2"]


def test_a_row_of_no_time_of_its_batch_is_refused(models: AthenaModels) -> None:
    """The batch of that time would remove it again: a row is lost that no run has left out."""
    event = {"event_time": "at", "batch_size": "day", "begin": "2026-01-01", "unique_key": "id", "lookback": 0}
    models.write("events", "select 1 as id, cast(timestamp '2026-01-01 20:00:00' as timestamp(6)) as at",
                 unique_key="id", event_time="at")  # fmt: skip
    models.run()
    of_a_day = ("--event-time-start", "2026-01-01", "--event-time-end", "2026-01-02")
    late = "select {}id, at + interval '{}' hour as at from {{{{ ref('events') }}}}"

    def write(*filled: object) -> None:
        select = late.format(*filled)
        models.write("daily", select, incremental_strategy="microbatch", partition_by=["id"], **event)

    # The last one has a column before the others that the table has not, and that is not read.
    for number, filled in enumerate((("", 6), ("", 0), ("1 as more, ", 6))):
        write(*filled)
        if filled[-1] == 0:
            models.run(*of_a_day)
            continue
        models.refusal("daily", *of_a_day)
        told = next(models.root.glob("*/dbt.log")).read_text(encoding="utf-8")
        refused = "Cannot cast 'model.tested.daily: got a row whose at is null, or no time of its batch (2026-01-01"
        assert told.count(refused) > number
    assert [row[0] for row in models.rows("daily")] == ["1"]


def test_a_table_stays_where_no_rows_are_read(models: AthenaModels) -> None:
    """With `--empty` a model's select is looked at, and its table left."""
    models.write("source", "select 1 as id", unique_key="id")
    models.write("items", "select * from {{ ref('source') }}", unique_key="id")
    models.run()
    models.run("--empty")
    assert (models.rows("source"), models.rows("items")) == ([["1"]], [["1"]])
    models.write("items", "select nothing from {{ ref('source') }}", unique_key="id")
    assert "COLUMN_NOT_FOUND" in models.refusal("items", "--empty")


@pytest.mark.slow
def test_rows_are_appended_of_whole_upstreams(models: AthenaModels) -> None:
    """With `--sample` a table of `append` stays, or rows that it passes over never came. Another format is refused."""
    source = "select id, cast({} as timestamp(6)) as at from (values {}) as t (id)"
    models.write("source", source.format("localtimestamp", "1"), unique_key="id", event_time="at")
    for name, config in {"items": {}, "files": {"table_type": "hive"}}.items():
        models.write(name, NEW_SALES.replace("sales", "source"), incremental_strategy="append", **config)
    models.run()
    old = "case id when 2 then timestamp '2020-01-01 00:00:00' else localtimestamp end"
    models.write("source", source.format(old, "1, 2, 3"), unique_key="id", event_time="at")
    models.run("--select", "source")
    models.run("--select", "items", "files", "--sample", "3 days")
    assert (models.rows("items"), models.rows("files")) == ([["1"]], [["1"]])
    models.run()
    assert (models.rows("items"), models.rows("files")) == ([["1"], ["2"], ["3"]], [["1"], ["2"], ["3"]])
    models.write("files", NEW_SALES.replace("sales", "source"), incremental_strategy="append")
    assert "got a table of another format, expected the table as it is" in models.refusal("files")
    models.run("--full-refresh")
    assert models.rows("items") == models.rows("files") == [["1"], ["2"], ["3"]]


def test_a_snapshot_is_taken_of_whole_rows_of_one_key(models: AthenaModels) -> None:
    """With `--empty` each version had ended; two rows of a key, a null in it, and other types are refused."""
    place = models.root / "snapshots" / "versions.sql"
    place.parent.mkdir()
    place.write_text(VERSIONS, encoding="utf-8")
    rows = "select id, {} as price from (values {}) as t (id)"
    models.write("sales", rows.format("decimal '1.25'", "1, 2"), unique_key="id", materialized="view")
    models.build()
    for more in ([], ["--full-refresh"]):
        models.build("--empty", *more)
    current = [row for row in models.rows("versions") if row[-1] is None]
    assert len(current) == 2
    for price, ids, told in (
        ("decimal '1.25'", "1, 1, 2", "got 0 rows with a null in unique_key (id) and 1 keys with more than one row"),
        ("decimal '1.25'", "1, null", "got 1 rows with a null in unique_key (id) and 0 keys with more than one row"),
        ("1.5e0", "1, 2", "got columns price as double (the table: decimal(3,2)) from its select"),
    ):
        models.write("sales", rows.format(price, ids), materialized="view")
        assert told in models.dbt("build")["versions"].message
    # Of the rows that a pre-hook leaves, as of those of the first run.
    models.write("sales", rows.format("decimal '1.25'", "1, 2"), materialized="view")
    models.run()
    for name, ids, told in (
        ("versions", "1, 1", "1 keys with more than one row"),
        ("first", "cast(null as int)", "got 1 rows"),
    ):
        hook = f"create or replace view {models.schema}.sales as " + rows.format("decimal '1.25'", ids)
        hooked = VERSIONS.replace("config(", f'config(pre_hook="{hook}", ').replace(" versions ", f" {name} ")
        (place.parent / f"{name}.sql").write_text(hooked, encoding="utf-8")
        assert told in models.dbt("build", "--select", name)[name].message
    (place.parent / "first.sql").unlink()
    place.write_text(VERSIONS, encoding="utf-8")
    models.write("sales", rows.format("decimal '2.25'", "1, 2"), materialized="view")
    named = "unique_key='id', snapshot_meta_column_names={'dbt_valid_to': 'ended_at'}"
    for name, said in {
        "unique_key": "unique_key=['id', 'price']", "dbt_valid_to_current": REMOTE, "snapshot_meta_column_names": named
    }.items():  # fmt: skip
        place.write_text(VERSIONS.replace("unique_key='id'", said), encoding="utf-8")
        assert f"snapshot.tested.versions: got {name} = " in models.dbt("build")["versions"].message
    assert models.rows("versions") == current
    place.write_text(VERSIONS, encoding="utf-8")
    models.build()
    assert [row[1] for row in models.rows("versions") if row[-1] is None] == ["2.25", "2.25"]
    assert len(models.rows("versions")) == 4


def test_a_row_that_is_back_as_it_was_has_a_version(models: AthenaModels) -> None:
    """By its time it is the version that has ended: dbt-athena's own merge leaves it without one."""
    place = models.root / "snapshots" / "versions.sql"
    place.parent.mkdir()
    timed = VERSIONS.replace("strategy='check', check_cols='all'", "strategy='timestamp', updated_at='at'")
    place.write_text(timed, encoding="utf-8")
    rows = "select id, cast(timestamp '2026-01-01 00:00:00' as timestamp(6)) as at from (values {}) as t (id)"
    for ids in ("1, 2", "1", "1, 2", "1", "1, 2"):
        models.write("sales", rows.format(ids), materialized="view")
        models.build()
        current = [row[0] for row in models.rows("versions") if row[-1] is None]
        assert current == ids.split(", "), ids
    assert len(models.rows("versions")) == 4


def test_what_needs_spark_is_refused_in_a_sentence(models: AthenaModels) -> None:
    """Time travel on Hudi tables is none of Athena's."""
    models.write("items", "select * from {{ as_of(this, '2026-01-01') }}", unique_key="id")
    assert "as_of: got the engine athena, expected spark: it has no time travel for Hudi tables" in models.refusal(
        "items"
    )


STEPS = 6
SALES = """
select sale.id, sale.price, owner.name
from {{ source('shop', 'sale') }} as sale
left join {{ source('shop', 'owner') }} as owner on sale.owner = owner.id
"""
OWNERS = """
select coalesce(name, '-') as name, count(*) as sale_count, sum(price) as total
from {{ ref('sales') }}
group by 1
"""


NEW_SALES = """
select id from {{ ref('sales') }}
{% if is_incremental() %}where id > (select coalesce(max(id), 0) from {{ this }}){% endif %}
"""
VERSIONS = """
{% snapshot versions %}
{{ config(unique_key='id', strategy='check', check_cols='all', hard_deletes='invalidate') }}
select * from {{ ref('sales') }}
{% endsnapshot %}
"""
REMOTE = "unique_key='id', dbt_valid_to_current=\"date '9999-12-31'\""


def test_a_random_history_leaves_each_table_as_its_select(models: AthenaModels, athena: LocalAthena) -> None:
    """Rows come, go, change, move between groups and lose what they refer to: joined rows, and groups of them, merged
    and built anew; rows that are appended; and a snapshot, whose versions that are valid are the rows."""
    rng = random.Random(20_260)  # noqa: S311
    schema = models.schema
    for table, columns in {"sale": "1 as id, 1 as owner, 1 as price", "owner": "1 as id, 'a' as name"}.items():
        place = f"table_type='iceberg', location='s3://lakehouse/{schema}/{table}'"
        athena.ask(f"create table {schema}.{table} with ({place}) as select {columns}")
    tables = [{"name": "sale"}, {"name": "owner"}]
    models.declare(version=2, sources=[{"name": "shop", "schema": schema, "tables": tables}])
    models.write("sales", SALES, unique_key="id", partition_by=["name"])
    models.write("owners", OWNERS, unique_key="name")
    models.write("owners_anew", OWNERS, materialized="table")
    models.write("new_sales", NEW_SALES, incremental_strategy="append")
    (models.root / "snapshots").mkdir()
    (models.root / "snapshots" / "versions.sql").write_text(VERSIONS, encoding="utf-8")
    appended: list[int] = []
    for step in range(STEPS):
        for _ in range(rng.randrange(1, 4)):
            athena.ask(_change(rng, schema))
        is_anew = step == STEPS // 2
        models.build(*(["--full-refresh"] if is_anew else []))
        expected = athena.ask(
            f"select s.id, s.price, o.name from {schema}.sale s left join {schema}.owner o on s.owner = o.id"
        )
        assert models.rows("sales") == sorted(expected, key=str), step
        groups = athena.ask(f"select coalesce(o.name, '-'), count(*), sum(s.price) from {schema}.sale s left join "
                            f"{schema}.owner o on s.owner = o.id group by 1")  # fmt: skip
        assert models.rows("owners") == models.rows("owners_anew") == sorted(groups, key=str), step
        valid = athena.ask(f"select id, price, name from {schema}.versions where dbt_valid_to is null")
        assert sorted(valid, key=str) == models.rows("sales"), step
        appended = [] if is_anew else appended
        appended += sorted(key for row in expected if (key := int(str(row[0]))) > max(appended, default=0))
        assert sorted(int(str(row[0])) for row in models.rows("new_sales")) == appended, step


def _change(rng: random.Random, schema: str) -> str:
    key, new = rng.randrange(1, 6), f"insert into {schema}.sale select coalesce(max(id), 0) + 1"
    return rng.choice((
        f"{new}, {rng.randrange(4)}, {rng.randrange(9)} from {schema}.sale",
        f"{new}, {rng.randrange(4)}, null from {schema}.sale",
        f"update {schema}.sale set owner = {rng.randrange(4)} where id = {key}",
        f"update {schema}.sale set price = {rng.choice(('null', '5'))} where id = {key}",
        f"delete from {schema}.sale where id = {key}",
        f"update {schema}.owner set name = '{rng.choice('abc')}' where id = {rng.randrange(4)}",
        f"delete from {schema}.owner where id = {rng.randrange(4)}",
        f"insert into {schema}.owner select {rng.randrange(4)}, 'z' where not exists (select 1 from {schema}.owner)",
    ))  # fmt: skip


@pytest.mark.slow
def test_a_clone_is_made_anew_with_full_refresh(models: AthenaModels, monkeypatch: pytest.MonkeyPatch) -> None:
    models.write("items", "select 1 as id", unique_key="id")
    models.write("shown", "select 1 as id", materialized="view")
    models.run()
    state = models.root / "state"
    state.mkdir()
    (state / "manifest.json").write_text((models.root / "target_athena" / "manifest.json").read_text())
    other = dataclasses.replace(models, schema=f"{models.schema}_other")
    monkeypatch.setenv("LAKE_SCHEMA", other.schema)
    models.athena.ask(f"create schema if not exists `{other.schema}`")
    models.athena.ask(f"create view {other.schema}.items as select 0 as id")
    told = []
    for number, more in ((1, ["--full-refresh"]), (2, []), (2, ["--full-refresh"])):
        models.athena.ask(f"delete from {models.schema}.items")
        models.athena.ask(f"insert into {models.schema}.items values ({number})")
        models.dbt("clone", "--state", str(state), *more)
        told.append(other.rows("items"))
    assert told == [[["1"]], [["1"]], [["2"]]]
    assert [row[0] for row in models.athena.ask(f"show tables in `{other.schema}`")] == ["items"]
