"""Hudi tables that dbt builds: first, second and third runs, rebuilds, columns that change, wrong configurations."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import MakeProject, Row
from lake import Server
from modeling import BUCKETS, NUMBERS, MakeModels, Models, hudi_models, numbers
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
_SIZE_OF_FILTER = 400_000  # bytes


@pytest.fixture
def make_models(spark: SparkSession, make_project: MakeProject, server: Server | None) -> MakeModels:
    """Models that are Hudi tables, with more configuration where a test has some."""
    return hudi_models(spark, make_project, server)


@pytest.mark.parametrize("table_type", ["cow", pytest.param("mor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("materialized", [pytest.param("table", marks=pytest.mark.slow), "incremental"])
def test_a_table_is_what_the_model_says_after_each_run(
    materialized: str, table_type: str, make_models: MakeModels
) -> None:
    models = make_models(materialized=materialized, unique_key="id", options={**BUCKETS, "type": table_type})
    for value, upto in (("'a'", 4), ("'b'", 3), ("'c'", 6)):
        models.write("model", NUMBERS.format(value, upto))
        models.run()
        assert models.rows("model") == numbers(value.strip("'"), upto)
    models.run(whole=True)
    assert models.rows("model") == numbers("c", 6)
    # One table throughout, whose history is there: nothing was dropped and made anew.
    assert len(models.commits("model")) == 4
    assert models.tables() == {"model"}


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_a_table_that_was_truncated_is_what_the_model_says(whole: bool, make_models: MakeModels) -> None:
    """No commit is left of it, so that a run has none to begin with."""
    models = make_models(materialized="incremental", unique_key="id")
    models.write("model", NUMBERS.format("'a'", 4))
    models.run()
    models.do(f"truncate table {models.relation('model')}")
    models.run(whole=whole)
    assert models.rows("model") == numbers("a", 4)
    models.run()
    assert models.told("model") == ["nothing upstream has changed"]


def test_a_failed_rebuild_leaves_the_rows_as_they_were(make_models: MakeModels) -> None:
    models = make_models(materialized="table", unique_key="id")
    models.write("model", NUMBERS.format("'a'", 3))
    models.run()
    # While rows are computed, and before that; then in a table that would have had another layout.
    for broken in ("if(id = 2, raise_error('broken'), 'b')", "broken", "if(id = 2, raise_error('broken'), 1)"):
        models.write("model", NUMBERS.format(broken, 3))
        assert "broken" in models.refusal("model")
        assert models.rows("model") == numbers("a")
    models.write("model", NUMBERS.format("'b'", 3))
    models.run()
    assert models.rows("model") == numbers("b")
    assert models.tables() == {"model"}


def test_readers_find_all_rows_while_a_table_is_rebuilt(make_models: MakeModels) -> None:
    models = make_models(materialized="table", unique_key="id")
    sql = "select id, {} as value from range(1, 1001) as numbers(id)"
    models.write("model", sql.format(0))
    models.run()
    found: list[tuple[int, int, int]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            query = f"select count(*), min(value), max(value) from {models.relation('model')}"
            (row,) = models.spark.newSession().sql(query).collect()
            found.append((row[0], row[1], row[2]))

    reader = threading.Thread(target=read)
    reader.start()
    for value in (1, 2, 3):
        models.write("model", sql.format(value))
        models.run()
    done.set()
    reader.join()
    assert len(found) > 3
    assert {count for count, _, _ in found} == {1000}
    assert all(least == greatest for _, least, greatest in found)


@pytest.mark.parametrize(
    "change",
    [
        {"sql": "select id, 1.5 as value, 'new' as more from range(1, 3) as numbers(id)"},
        pytest.param({"sql": "select id, 'text' as value from range(1, 3) as numbers(id)"}, marks=pytest.mark.slow),
        pytest.param({"options": {**BUCKETS, "type": "mor"}}, marks=pytest.mark.slow),
        pytest.param({"unique_key": ["id", "value"]}, marks=pytest.mark.slow),
        pytest.param({"partition_by": ["value"]}, marks=pytest.mark.slow),
    ],
    ids=["more columns", "another type", "another table type", "another key", "partitions"],
)
def test_another_layout_is_another_table_under_the_name(change: dict[str, Any], make_models: MakeModels) -> None:
    models = make_models(materialized="table")
    models.write("model", NUMBERS.format(1, 3), unique_key="id")
    models.run()
    sql = change.get("sql", NUMBERS.format(2, 3))
    models.write("model", sql, **{"unique_key": "id", **{k: v for k, v in change.items() if k != "sql"}})
    models.run()
    assert models.rows("model") == [row.asDict() for row in models.spark.sql(sql).orderBy("id").collect()]
    assert models.tables() == {"model"}
    models.run()
    assert len(models.commits("model")) == 2


@pytest.mark.slow
def test_a_view_becomes_a_table_and_a_table_of_another_format_too(make_models: MakeModels) -> None:
    models = make_models()
    for config in ({"materialized": "view"}, {"materialized": "table", "file_format": "parquet", "options": None}):
        models.write("model", NUMBERS.format(1, 3), **config)
        models.run()
        models.write("model", NUMBERS.format(2, 3), materialized="table", unique_key="id")
        models.run()
        assert models.rows("model") == numbers(2)
        assert models.tables() == {"model"}
        models.do(f"drop table {models.relation('model')}")


@pytest.mark.slow
def test_a_table_stays_where_nothing_can_take_its_name(make_models: MakeModels) -> None:
    models = make_models(unique_key="id")
    for name in ("shown", "coded", "coded_too"):
        models.write(name, NUMBERS.format(1, 3), materialized="incremental")
    models.run()
    models.write("shown", NUMBERS.format("broken", 3), materialized="view")
    folder = models.project.root / "models"
    for name, materialized in (("coded", "table"), ("coded_too", "incremental")):
        (folder / f"{name}.sql").unlink()
        code = f"def model(dbt, session):\n    dbt.config(materialized='{materialized}')\n"
        (folder / f"{name}.py").write_text(f"{code}    return session.range(3)\n", encoding="utf-8")
    told = {name: outcome.message for name, outcome in models.dbt("run").items()}
    assert "broken" in told["shown"]
    for name in ("coded", "coded_too"):
        assert "only supports languages ['sql']; got \"python\"" in told[name]
    for name in told:
        assert models.rows(name) == numbers(1), name
    models.write("shown", NUMBERS.format(2, 3), materialized="view")
    models.run("shown")
    assert models.rows("shown") == numbers(2)
    assert models.tables() == set(told)


def test_a_rebuild_that_was_broken_off_between_its_renames_is_taken_up(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    models.write("model", NUMBERS.format(1, 3))
    models.run()
    before = f"model__lake_before__{int(time.time()):08x}_0123abcd"
    models.do(f"alter table {models.relation('model')} rename to {models.relation(before)}")
    models.write("model", NUMBERS.format(2, 4))
    models.run()
    assert models.rows("model") == numbers(2, 4)
    assert models.tables() == {"model"}
    assert len(models.commits("model")) == 2


@pytest.mark.slow
def test_composite_keys_merge_delete_and_keep(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key=["id", "part"])
    models.write("model", "select id, part, 1 as value from range(3) as a(id) cross join range(3) as b(part)")
    models.run()
    assert len(models.rows("model")) == 9
    models.write(
        "model", "select id, part, cast(id as int) as value from range(2) as a(id) cross join range(1, 5) as b(part)"
    )
    models.run()
    expected = [{"id": i, "part": p, "value": i} for i in range(2) for p in range(1, 5)]
    assert models.rows("model") == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {**BUCKETS, "orderingFields": "at"},
        {**BUCKETS, "type": "mor", "hoodie.bucket.index.num.buckets": "2"},
        {},
        pytest.param({"hoodie.index.type": "BLOOM"}, marks=pytest.mark.long),
        {**BUCKETS, "type": "mor", "orderingFields": "at"},
    ],
    ids=["bucket, ordered", "mor", "simple", "bloom", "mor, ordered"],
)
def test_rows_move_between_partitions_in_one_commit(options: dict[str, str], make_models: MakeModels) -> None:
    draw = random.Random(str(options))  # noqa: S311
    models = make_models(materialized="incremental", unique_key="id", partition_by=["day", "shop"], options=options)
    days = ("date '2026-01-01'", "date '2026-01-02'", "null")
    shops = ("'a'", "'it''s / %41=b'", "''", "'__HIVE_DEFAULT_PARTITION__'", "null")
    rows: dict[int, str] = {}
    places: dict[int, str] = {}
    for number in range(3):
        for key in range(1, 16):
            chance = draw.random()
            if chance < 0.2:
                rows.pop(key, None)
            elif chance < 0.7:
                # Also values of the ordering field that go back, or are missing.
                at, value = draw.choice([1, 5, 9, "null"]), draw.randint(1, 3)
                if draw.random() < 0.6:
                    places[key] = f"{draw.choice(days)}, {draw.choice(shops)}"
                rows[key] = f"({key}, {at}, {value}, {places.setdefault(key, 'null, null')})"
        sql = f"select * from values {', '.join(rows.values())} as rows (id, at, value, day, shop)"
        typed = f"select id, int(at) as at, value, date(day) as day, string(shop) as shop from ({sql})"
        models.write("model", typed)
        models.run()
        # A partition has one name for null, the empty text and that name itself.
        shop = "nullif(nullif(shop, ''), '__HIVE_DEFAULT_PARTITION__') as shop"
        expected = models.spark.sql(f"select id, at, value, day, {shop} from ({typed})")
        assert models.rows("model") == [row.asDict() for row in expected.orderBy("id").collect()]
        assert len(models.commits("model")) == number + 1
    assert models.tables() == {"model"}
    sizes = [file.stat().st_size for file in _folder_of(models).rglob("*.parquet")]
    has_filters = options.get("hoodie.index.type") != "BUCKET"
    assert has_filters == (max(sizes) > _SIZE_OF_FILTER), "a bucket index reads no bloom filter, and others may"


def _folder_of(models: Models) -> Path:
    """Where a model's table is."""
    (row,) = models.spark.sql(f"describe extended {models.relation('model')}").where("col_name = 'Location'").collect()
    return Path(str(row["data_type"]).removeprefix("file:"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {**BUCKETS, "type": "mor", "orderingFields": "at"},
        {**BUCKETS, "orderingFields": "at"},
        {},
        {"type": "mor"},
        pytest.param({"hoodie.index.type": "BLOOM"}, marks=pytest.mark.long),
    ],
    ids=["mor, ordered", "bucket, ordered", "simple", "mor, simple", "bloom"],
)
def test_rows_come_and_change_where_none_goes(options: dict[str, str], make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id", partition_by="day", options=options)
    for number, upto in enumerate((4, 4, 7)):
        # The ordering field goes back from run to run.
        values = f"{9 - number} as at, '{number}' as value, cast(id % 2 as int) as day"
        models.write("model", f"select id, {values} from range({upto}) as numbers(id)")
        models.run()
        expected = [{"id": key, "at": 9 - number, "value": str(number), "day": key % 2} for key in range(upto)]
        assert models.rows("model") == expected
        assert len(models.commits("model")) == number + 1


def test_append_appends_where_merges_were(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    for number, strategy in enumerate(("merge", "merge", "append")):
        models.write("model", NUMBERS.format(number, 3), incremental_strategy=strategy)
        models.run()
    assert models.rows("model") == sorted([*numbers(1), *numbers(2)], key=lambda row: (row["id"], row["value"]))


ADDED, GONE, RETYPED = (
    "select id, 2 as value, 3 as more from range(1, 3) as numbers(id)",
    "select id from range(1, 4) as numbers(id)",
    NUMBERS.format("'text'", 3),
)
WITH_MORE = [{"id": 1, "value": 2, "more": 3}, {"id": 2, "value": 2, "more": 3}]
NO_VALUE = "got no columns value from the model"
NO_TEXT = "got columns value as string (the table: int) from the model"
# By the model's name: its select after the first run, on_schema_change, and the rows then, or why the run is refused.
CHANGED: dict[str, tuple[str, str, list[Row] | str]] = {
    "added_ignore": (ADDED, "ignore", [{"id": 1, "value": 2}, {"id": 2, "value": 2}]),
    "added_append": (ADDED, "append_new_columns", WITH_MORE),
    "added_sync": (ADDED, "sync_all_columns", WITH_MORE),
    "added_fail": (
        ADDED,
        "fail",
        "got new columns more from the model, expected the table's columns (on_schema_change = fail)",
    ),
    "gone_ignore": (GONE, "ignore", NO_VALUE),
    "gone_append": (
        GONE,
        "append_new_columns",
        [{"id": 1, "value": 1}, {"id": 2, "value": 1}, {"id": 3, "value": None}],
    ),
    "gone_sync": (GONE, "sync_all_columns", [{"id": 1}, {"id": 2}, {"id": 3}]),
    "gone_fail": (GONE, "fail", NO_VALUE),
    "retyped_ignore": (RETYPED, "ignore", NO_TEXT),
    "retyped_append": (RETYPED, "append_new_columns", NO_TEXT),
    "retyped_sync": (RETYPED, "sync_all_columns", numbers("text")),
    "retyped_fail": (RETYPED, "fail", NO_TEXT),
}


@pytest.mark.slow
def test_columns_that_come_go_and_change_their_type(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    for name, (_, mode, _) in CHANGED.items():
        models.write(name, NUMBERS.format(1, 3), on_schema_change=mode)
    models.run()
    for name, (sql, mode, _) in CHANGED.items():
        models.write(name, sql, on_schema_change=mode)
    # Once more: what was refused still is, what was changed stays.
    for _ in range(2):
        outcomes = models.dbt("run")
        for name, (_, _, expected) in CHANGED.items():
            if isinstance(expected, str):
                assert (outcomes[name].status, expected in outcomes[name].message) == ("error", True), outcomes[name]
            else:
                assert outcomes[name].status == "success", outcomes[name]
            assert models.rows(name) == (numbers(1) if isinstance(expected, str) else expected), name


def test_a_column_that_was_left_out_has_its_values_once_the_table_takes_it(make_models: MakeModels) -> None:
    """The text is that of the last run by then, and nothing upstream has changed."""
    models = make_models(materialized="incremental", unique_key="id")
    for more, mode in (("", "ignore"), (", id * 2 as more", "ignore"), (", id * 2 as more", "append_new_columns")):
        models.write("model", f"select id, 1 as value{more} from range(1, 3) as numbers(id)", on_schema_change=mode)
        models.run()
    assert models.rows("model") == [{"id": 1, "value": 1, "more": 2}, {"id": 2, "value": 1, "more": 4}]
    told = "the whole table is compared: it has columns that it had not, of which no row has a value"
    assert models.told("model")[0] == told
    models.run()
    assert models.told("model") == ["nothing upstream has changed"]


@pytest.mark.slow
def test_a_column_that_is_gone_keeps_what_it_holds_in_rows_that_change(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id", on_schema_change="append_new_columns")
    for columns in ("1 as value, 1 as more, id as day", "2 as more, 2L as day"):
        for name, partitions in (("model", {}), ("moved", {"partition_by": "day"})):
            models.write(name, f"select id, {columns} from range(1, 3) as numbers(id)", **partitions)
        models.run()
    for name in ("model", "moved"):
        assert models.rows(name, "id", "value", "more", "day") == [
            {"id": number, "value": 1, "more": 2, "day": 2} for number in (1, 2)
        ]


@pytest.mark.slow
def test_a_column_that_comes_may_be_a_map(make_models: MakeModels) -> None:
    """Maps are compared as JSON: the types are those of the table as it is by then."""
    models = make_models(materialized="incremental", unique_key="id", on_schema_change="append_new_columns")
    for more in ("", ", map('a', id) as more"):
        for name, asked in (("whole", ""), ("part", "{% if is_incremental() %}{% endif %}")):
            models.write(name, f"select id{more} from range(1, 3) as numbers(id){asked}")
        models.run()
    for name in ("whole", "part"):
        rows = models.ask(f"select id, more['a'] as a from {models.relation(name)} order by id")
        assert rows == [{"id": 1, "a": 1}, {"id": 2, "a": 2}]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"unique_key": None}, "expected unique_key = a column or a list of columns"),
    ({"unique_key": "nothing"}, "got unique_key column 'nothing', expected one of id, value"),
    ({"unique_key": ["id", "id"]}, "expected unique_key = a column or a list of columns"),
    ({"partition_by": "day"}, "got partition_by column 'day', expected one of id, value"),
    ({"options": {**BUCKETS, "orderingFields": "at"}}, "got orderingFields column 'at', expected one of id, value"),
    (
        {"options": {**BUCKETS, "orderingFields": "id", "preCombineField": "id"}},
        "got options orderingFields and preCombineField, expected one of them: they are two names of one setting",
    ),
    ({"options": {"primarykey": "id"}}, "got option 'primarykey', expected one of primaryKey, type"),
    ({"options": {**BUCKETS, "primaryKey": "value"}}, "got option primaryKey = 'value', expected 'id'"),
    (
        {"options": {**BUCKETS, "orderingFields": "id,value"}},
        "got option orderingFields = id,value, expected one column",
    ),
    (
        {"options": {"hoodie.index.type": "GLOBAL_SIMPLE"}, "partition_by": ["value"]},
        "got option hoodie.index.type = 'GLOBAL_SIMPLE' with partition_by, expected one of BUCKET, SIMPLE, BLOOM",
    ),
    (
        {"options": {**BUCKETS, "orderingFields": "id", "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}},
        "got option hoodie.record.merge.mode = 'EVENT_TIME_ORDERING', expected COMMIT_TIME_ORDERING",
    ),
    ({"options": {**BUCKETS, "hoodie.record.merge.mode": "CUSTOM"}}, "expected COMMIT_TIME_ORDERING"),
    (
        {"options": {**BUCKETS, "hoodie.datasource.write.precombine.field": "id"}},
        "got option hoodie.datasource.write.precombine.field = 'id', expected the option orderingFields",
    ),
    ({"options": {**BUCKETS, "hoodie.datasource.write.recordkey.field": "value"}}, "expected unique_key of the model"),
    ({"options": {**BUCKETS, "hoodie.datasource.insert.dup.policy": "drop"}}, "expected none: what a run writes is"),
    ({"tblproperties": {"hoodie.table.ordering.fields": "id"}}, "expected the option orderingFields"),
    ({"tblproperties": {"payloadClass": "some.Payload"}}, "got option payloadClass = 'some.Payload', expected none"),
    ({"tblproperties": {"primaryKey": "value"}}, "got option primaryKey = 'value', expected 'id'"),
    ({"options": {**BUCKETS, "type": "copy"}}, "got option type = 'copy', expected one of cow, mor"),
    ({"options": {"hoodie.index.type": "BUCKET"}}, "without hoodie.bucket.index.num.buckets"),
    ({"incremental_strategy": "upsert"}, "got incremental_strategy = 'upsert', expected one of merge, append"),
    ({"incremental_predicates": ["id > 1"]}, "got incremental_predicates = ['id > 1'], expected none"),
    ({"incremental_strategy": "insert_overwrite"}, "without partition_by"),
    (
        {"incremental_strategy": "append", "incremental_predicates": ["id > 1"]},
        "got incremental_predicates = ['id > 1'], expected none: append looks at none of the rows that are there",
    ),
    (
        {"clustered_by": ["id"], "buckets": 4},
        "got clustered_by = ['id'], expected the options hoodie.index.type = BUCKET and hoodie.bucket.index.num",
    ),
    (
        {"grants": {"select": ["someone"]}},
        "got grants = {'select': ['someone']}, expected none: Spark's SQL has no grant",
    ),
    (
        {"options": {**BUCKETS, "type": "mor", "hoodie.datasource.hive_sync.table.strategy": "ALL"}},
        "got option hoodie.datasource.hive_sync.table.strategy = 'ALL', expected none: under any other name",
    ),
    ({"location_root": "/srv/a place"}, "got location_root = '/srv/a place', expected a path without blanks"),
    ({"sql_header": "set a=1;"}, "got sql_header = 'set a=1;', expected none: Spark runs one statement at a time"),
]


def test_a_wrong_configuration_is_refused_before_anything_is_written(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental")
    for number, (config, _) in enumerate(WRONG):
        models.write(f"model_{number}", NUMBERS.format(1, 3), **{"unique_key": "id", **config})
    outcomes = models.dbt("run")
    for number, (config, message) in enumerate(WRONG):
        outcome = outcomes[f"model_{number}"]
        assert (outcome.status, message in outcome.message) == ("error", True), (config, outcome.message)
    assert models.tables() == set()


@pytest.mark.slow
def test_hooks_outside_of_a_transaction_are_run(make_models: MakeModels) -> None:
    models = make_models(unique_key="id")
    hook = f"create table {models.relation('hooked_by_')}{{{{ this.name }}}} using parquet as select 1 as id"
    own: dict[str, Any] = {"pre_hook": {"sql": hook, "transaction": False}}
    for name in ("table", "incremental", "view"):
        models.write(f"of_{name}", NUMBERS.format(1, 3), materialized=name, **own)
    models.write("of_files", NUMBERS.format(1, 3), materialized="table", file_format="parquet", options={}, **own)
    seed = models.project.root / "seeds" / "of_seed.csv"
    seed.parent.mkdir()
    seed.write_text("id\n1\n")
    settings = yaml.safe_dump({"version": 2, "seeds": [{"name": "of_seed", "config": own}]})
    models.project.write_models(settings)
    made = {f"of_{name}" for name in ("table", "incremental", "view", "files", "seed")}
    outcomes = models.dbt("build")
    assert {name: outcome.message for name, outcome in outcomes.items() if outcome.status != "success"} == {}
    assert models.tables() == made | {f"hooked_by_{name}" for name in made}


DOCUMENTED = """
models:
  - name: model
    description: {description}
    columns:
      - name: id
        description: {id}
      - name: value
        description: {value}
      - name: part
        description: {part}
"""
TEXTS = {
    "description": "It's \\a table\\",
    "id": 'The "key"\nin two lines',
    "value": "Was it's",
    "part": "Where; it is",
}


@pytest.mark.slow
@pytest.mark.parametrize("materialized", ["table", "incremental"])
def test_descriptions_come_to_the_catalog_and_cost_no_commit(materialized: str, make_models: MakeModels) -> None:
    models = make_models(
        materialized=materialized,
        unique_key="id",
        partition_by=["part"],
        persist_docs={"relation": True, "columns": True},
    )

    def documented(**texts: str) -> None:
        quoted = {name: json.dumps(text) for name, text in texts.items()}
        models.project.write_models(DOCUMENTED.format(**quoted), "_models.yml")

    def told() -> dict[str, str]:
        rows = models.spark.sql(f"describe table extended {models.relation('model')}").collect()
        names = {"id": "id", "value": "value", "part": "part"}
        found = {names[row["col_name"]]: row["comment"] for row in rows if row["col_name"] in names}
        return {**found, "description": next(row["data_type"] for row in rows if row["col_name"] == "Comment")}

    documented(**TEXTS)
    for value in (1, 2, 2):
        models.write("model", f"select id, {value} as value, 'x' as part from range(1, 3) as numbers(id)")
        models.run()
        assert told() == TEXTS
    runs = 3 if materialized == "table" else 2
    assert len(models.commits("model")) == runs
    # Another text is a commit of Hudi's own: the next run compares the table, and then all is as before.
    texts = {**TEXTS, "value": "Is it?", "description": "Other"}
    documented(**texts)
    for _ in range(3):
        models.run()
        assert told() == texts
    if materialized == "incremental":
        assert len(models.commits("model")) == runs + 2
        assert models.told("model") == ["nothing upstream has changed"]
    # Another table under the name.
    models.write("model", "select id, 3 as value, 4 as more, 'x' as part from range(1, 3) as numbers(id)")
    models.run(whole=True)
    assert told() == texts


CONSTRAINED = """
models:
  - name: model
    config: {contract: {enforced: true}}
    constraints:
      - {type: check, name: value_is_small, expression: "value < 10 or id = 0"}
    columns:
      - {name: id, data_type: bigint, constraints: [{type: not_null}]}
      - {name: value, data_type: int}
      - {name: label, data_type: string, constraints: [{type: not_null}]}
"""


@pytest.mark.parametrize("materialized", [pytest.param("table", marks=pytest.mark.slow), "incremental"])
def test_a_contract_is_kept_or_the_rows_stay(materialized: str, make_models: MakeModels) -> None:
    models = make_models(materialized=materialized, unique_key="id", on_schema_change="append_new_columns")
    models.project.write_models(CONSTRAINED, "_models.yml")
    sql = "select '{}' as label, id, {} as value from range(1, 4) as numbers(id)"
    broken = {
        "got null in label, expected a value (not_null)": sql.replace("'{}'", "if(id = 2, null, '{}')").format("a", 1),
        "got a row that breaks value_is_small, expected value < 10 or id = 0": sql.format("a", "cast(id as int) * 5"),
        "data type mismatch": sql.format("a", "'text'"),
    }
    # A first run leaves no table; a later one the old rows.
    for message, text in broken.items():
        models.write("model", text)
        assert message in models.refusal("model")
    assert "model" not in models.tables()
    # Rows that the model leaves out break nothing; null breaks no check.
    models.write(
        "model",
        "select numbers.label, numbers.id, numbers.value from ("
        "select if(id = 9, null, 'a') as label, id, if(id = 9, 99, null) as value from range(1, 10) as r(id)"
        ") as numbers inner join range(1, 4) as chosen on numbers.id = chosen.id",
    )
    models.run()
    rows = [{"id": number, "value": None, "label": "a"} for number in range(1, 4)]
    assert models.rows("model", "id", "value", "label") == rows
    commits = models.commits("model")
    for message, text in broken.items():
        models.write("model", text)
        assert message in models.refusal("model")
        assert models.rows("model", "id", "value", "label") == rows
    assert models.commits("model") == commits
    models.write("model", sql.format("b", 2))
    models.run()
    assert models.rows("model", "id", "value", "label") == [{"id": n, "value": 2, "label": "b"} for n in range(1, 4)]


@pytest.mark.slow
def test_a_rebuild_takes_no_table_of_somebody_else(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id", on_schema_change="sync_all_columns")
    models.write("orders", NUMBERS.format("'a'", 3))
    models.run()
    theirs = models.relation("orders__before")
    models.do(f"create table {theirs} using parquet as {NUMBERS.format('1', 4)}")
    models.write("orders", NUMBERS.format("'b' as more, 1", 3))
    models.run()
    assert models.tables() == {"orders", "orders__before"}
    assert models.rows("orders__before") == numbers(1, 4)
    assert models.rows("orders") == [{"id": number, "more": "b", "value": 1} for number in (1, 2)]
    # Nor is it taken for what a rebuild has left.
    models.do(f"drop table {models.relation('orders')}")
    models.run()
    assert models.rows("orders__before") == numbers(1, 4)


@pytest.mark.slow
def test_what_stands_aside_is_not_dropped_by_the_run_that_fails(make_models: MakeModels) -> None:
    models = make_models(materialized="table", unique_key="id")
    models.write("model", NUMBERS.format(1, 3))
    models.run()
    aside = "alter table {{ this }} rename to {{ hudi_beside(this, 'before') }}"
    models.write("model", NUMBERS.format("broken", 3), pre_hook=aside)
    assert "broken" in models.refusal("model")
    assert [name[:20] for name in models.tables()] == ["model__lake_before__"]
    models.write("model", NUMBERS.format("broken", 3))
    assert "broken" in models.refusal("model")
    assert models.rows("model") == numbers(1)
    assert models.tables() == {"model"}
