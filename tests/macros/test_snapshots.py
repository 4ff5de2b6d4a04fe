"""dbt's snapshots as Hudi tables: versions begin and end, a deleted row's too, run after run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from conftest import MakeProject
from lake import Server
from modeling import Models
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
OPTIONS = {"type": "cow", "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
STRATEGIES: dict[str, dict[str, Any]] = {
    "check": {"strategy": "check", "check_cols": ["value"]},
    "timestamp": {"strategy": "timestamp", "updated_at": "at"},
}
Version = tuple[int, str, bool]


def snapshot(models: Models, **config: Any) -> None:
    """Writes a snapshot of the model `rows`."""
    told = {
        "file_format": "hudi",
        "options": OPTIONS,
        "unique_key": "id",
        "target_schema": f"lakehouse_{models.project.schema}",
        **config,
    }
    settings = ", ".join(f"{name}={value!r}" for name, value in told.items())
    text = "{% snapshot versions %}{{ config(" + settings + ") }} select * from {{ ref('rows') }}{% endsnapshot %}"
    models.write("versions", text, below="snapshots")


def taken(models: Models, rows: str) -> list[Version]:
    """The versions after a run with these rows: id, value, whether it holds still."""
    models.write(
        "rows", f"select id, value, timestamp(at) as at from values {rows} as rows (id, value, at)", materialized="view"
    )
    models.run("rows")
    outcome = models.dbt("snapshot")["versions"]
    assert outcome.status == "success", outcome.message
    found = models.rows("versions", "id", "value", "dbt_valid_to")
    return [(row["id"], row["value"], row["dbt_valid_to"] is None) for row in found]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["check", "timestamp"])
def test_ids_of_versions_follow_from_what_the_table_holds(
    strategy: str, spark: SparkSession, make_project: MakeProject, server: Server | None
) -> None:
    """Of two runs at one moment each begins the same versions: which of them commits last makes no difference."""
    models = Models.of(spark, make_project(), server)
    snapshot(models, **STRATEGIES[strategy], hard_deletes="new_record")
    taken(models, "(1, 'a', '2026-01-01'), (2, 'a', '2026-01-01')")
    taken(models, "(1, 'b', '2026-01-02'), (3, 'a', '2026-01-01')")
    found = {row["dbt_scd_id"] for row in models.rows("versions", "dbt_scd_id")}
    instant, _ = models.commits("versions")[-1]
    models.ask(f"call rollback_to_instant(table => '{models.relation('versions')}', instant_time => '{instant}')")
    assert taken(models, "(1, 'b', '2026-01-02'), (3, 'a', '2026-01-01')")
    again = {row["dbt_scd_id"] for row in models.rows("versions", "dbt_scd_id")}
    assert len(found) == 5
    assert again == found


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["check", "timestamp"])
def test_versions_begin_and_end_with_each_run(
    strategy: str, spark: SparkSession, make_project: MakeProject, server: Server | None
) -> None:
    models = Models.of(spark, make_project(), server)
    snapshot(models, **STRATEGIES[strategy], hard_deletes="invalidate")
    first = "(1, 'a', '2026-01-01'), (2, 'a', '2026-01-01'), (3, 'a', '2026-01-01')"
    assert taken(models, first) == [(1, "a", True), (2, "a", True), (3, "a", True)]
    second = "(1, 'b', '2026-01-02'), (2, 'a', '2026-01-01'), (4, 'a', '2026-01-02')"
    after_second = [(1, "a", False), (1, "b", True), (2, "a", True), (3, "a", False), (4, "a", True)]
    assert taken(models, second) == after_second
    commits = models.commits("versions")
    assert taken(models, second) == after_second
    assert models.commits("versions") == commits
    third = "(1, 'c', '2026-01-03'), (2, 'a', '2026-01-01'), (3, 'b', '2026-01-03'), (4, 'a', '2026-01-02')"
    assert taken(models, third) == [
        *((1, "a", False), (1, "b", False), (1, "c", True)),
        *((2, "a", True), (3, "a", False), (3, "b", True), (4, "a", True)),
    ]
    assert len(models.commits("versions")) == len(commits) + 1


@pytest.mark.slow
def test_a_deleted_row_can_be_a_version_of_its_own(spark: SparkSession, make_project: MakeProject) -> None:
    models = Models.of(spark, make_project())
    snapshot(models, **STRATEGIES["check"], hard_deletes="new_record")
    taken(models, "(1, 'a', '2026-01-01'), (2, 'a', '2026-01-01')")
    assert taken(models, "(1, 'a', '2026-01-01')") == [(1, "a", True), (2, "a", True), (2, "a", False)]
    rows = models.rows("versions", "id", "dbt_is_deleted", "dbt_valid_to")
    assert [(row["id"], row["dbt_is_deleted"]) for row in rows if row["dbt_valid_to"] is None] == [
        (1, "False"),
        (2, "True"),
    ]
    # It comes back.
    assert taken(models, "(1, 'a', '2026-01-01'), (2, 'b', '2026-01-03')")[-1] == (2, "b", True)


Key = tuple[str, int]
Rows = dict[Key, tuple[str, str]]
COMPOSITE = ("region", "id")
# Texts and times of rows by their key. A bar in a key is no separator: with the one below it makes the same text.
ROUNDS: tuple[Rows, ...] = (
    {("a", 1): ("first", "2026-01-01"), ("a", 2): ("first", "2026-01-01"), ("b", 1): ("first", "2026-01-01")},
    {("a", 1): ("second", "2026-01-02"), ("b", 1): ("first", "2026-01-01"), ("b", 2): ("first", "2026-01-02")},
    {("a", 1): ("third", "2026-01-03"), ("b", 2): ("second", "2026-01-03"), ("c", 1): ("first", "2026-01-03")},
    {("a", 1): ("third", "2026-01-03"), ("a", 2): ("again", "2026-01-04"), ("c", 1): ("second", "2026-01-04")},
    {("a", 1): ("third", "2026-01-03"), ("a", 2): ("again", "2026-01-04"), ("b", 2): ("again", "2026-01-05")},
)


@dataclass
class History:
    """What a snapshot should hold: the texts of each key in order, which was a deletion, and whether the last holds."""

    hard_deletes: str
    versions: dict[Key, list[tuple[str, bool]]] = field(default_factory=dict)
    current: dict[Key, bool] = field(default_factory=dict)

    def see(self, rows: Rows) -> None:
        """Takes what a run finds."""
        for key, (text, _) in rows.items():
            own = self.versions.setdefault(key, [])
            if not self.current.get(key) or own[-1] != (text, False):
                own.append((text, False))
                self.current[key] = True
        for key in self.versions.keys() - rows.keys():
            if self.hard_deletes == "invalidate":
                self.current[key] = False
            elif self.hard_deletes == "new_record" and not self.versions[key][-1][1]:
                self.versions[key].append((self.versions[key][-1][0], True))

    def flat(self) -> list[tuple[str, int, str, bool, bool]]:
        """Region, id, text, whether a deletion, whether it holds."""
        return sorted(
            (*key, text, is_deletion, number == len(own) and self.current[key])
            for key, own in self.versions.items()
            for number, (text, is_deletion) in enumerate(own, start=1)
        )


def composite(models: Models, strategy: str, **config: Any) -> None:
    """Writes a snapshot whose key has two columns."""
    snapshot(models, **{**STRATEGIES[strategy], "unique_key": list(COMPOSITE), **config})


def give(models: Models, rows: Sequence[tuple[str | None, int | None, str, str]]) -> None:
    """Makes these the rows that a snapshot is taken of."""
    values = ", ".join(
        f"({repr(region) if region else 'null'}, {number or 'null'}, {text!r}, timestamp({at!r}))"
        for region, number, text, at in rows
    )
    models.write("rows", f"select * from values {values} as rows (region, id, value, at)", materialized="view")
    models.run("rows")


def held(models: Models) -> list[tuple[str, int, str, bool, bool]]:
    """The versions of a snapshot, as `History.flat` has them."""
    return sorted(
        (row["region"], row["id"], row["value"], row.get("dbt_is_deleted") == "True", row["dbt_valid_to"] is None)
        for row in models.rows("versions")
    )


@pytest.mark.parametrize(
    ("strategy", "hard_deletes", "rounds"),
    [
        ("timestamp", "new_record", 3),
        *(
            pytest.param(strategy, hard_deletes, len(ROUNDS), marks=pytest.mark.slow)
            for strategy in ("check", "timestamp")
            for hard_deletes in ("invalidate", "ignore", "new_record")
        ),
    ],
)
def test_a_key_of_several_columns_has_its_versions_run_after_run(
    strategy: str, hard_deletes: str, rounds: int, spark: SparkSession, make_project: MakeProject
) -> None:
    models, history = Models.of(spark, make_project()), History(hard_deletes)
    composite(models, strategy, hard_deletes=hard_deletes)
    for rows in ROUNDS[:rounds]:
        give(models, [(*key, *values) for key, values in rows.items()])
        outcome = models.dbt("snapshot")["versions"]
        assert outcome.status == "success", outcome.message
        history.see(rows)
        assert held(models) == history.flat()
        for each in models.rows("versions"):
            assert not [name for name in each if name.startswith("dbt_unique_key")]
    commits = models.commits("versions")
    assert models.dbt("snapshot")["versions"].status == "success"
    assert (held(models), models.commits("versions")) == (history.flat(), commits)
    if strategy == "check" and hard_deletes == "new_record":
        # Each version but the last ends when the next one begins.
        times = models.rows("versions", *COMPOSITE, "dbt_valid_from", "dbt_valid_to")
        for before, after in pairwise(times):
            is_one_key = [before[name] for name in COMPOSITE] == [after[name] for name in COMPOSITE]
            assert before["dbt_valid_to"] == (after["dbt_valid_from"] if is_one_key else None)


@pytest.mark.slow
def test_a_snapshot_that_was_given_the_joined_columns_is_mended(spark: SparkSession, make_project: MakeProject) -> None:
    models, history = Models.of(spark, make_project()), History("ignore")
    composite(models, "check")
    for number, rows in enumerate(ROUNDS[:3]):
        give(models, [(*key, *values) for key, values in rows.items()])
        assert models.dbt("snapshot")["versions"].status == "success"
        history.see(rows)
        if number == 0:
            joined = "dbt_unique_key_1 string, dbt_unique_key_2 int"
            models.do(f"alter table {models.relation('versions')} add columns ({joined})")
        assert held(models) == history.flat()
        assert "dbt_unique_key_1" not in models.rows("versions")[0] or number == 0


@pytest.mark.slow
def test_keys_that_differ_only_by_where_a_bar_is_are_two(spark: SparkSession, make_project: MakeProject) -> None:
    models = Models.of(spark, make_project())
    snapshot(models, strategy="check", check_cols=["value"], unique_key=["region", "value"])
    give(models, [("a", 1, "a", "2026-01-01")])
    assert models.dbt("snapshot")["versions"].status == "success"
    give(models, [("a", 1, "a", "2026-01-01"), ("a|b", 2, "c", "2026-01-01"), ("a", 3, "b|c", "2026-01-01")])
    assert models.dbt("snapshot")["versions"].status == "success"
    assert [row[0] for row in held(models)] == ["a", "a", "a|b"]


@pytest.mark.parametrize("is_first", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_key_that_is_null_or_comes_twice_is_refused_and_nothing_is_written(
    is_first: bool, spark: SparkSession, make_project: MakeProject
) -> None:
    models = Models.of(spark, make_project())
    composite(models, "check", hard_deletes="invalidate")
    good = ("a", 1, "first", "2026-01-01")
    if not is_first:
        give(models, [good])
        assert models.dbt("snapshot")["versions"].status == "success"
        before = (held(models), models.commits("versions"))
    twice, thrice = [("b", 1, text, "2026-01-02") for text in "xy"], [("b", 2, "z", "2026-01-02")] * 3
    give(models, [("a", 1, "second", "2026-01-02"), *twice, *thrice, ("c", None, "x", "2026-01-02")])
    outcome = models.dbt("snapshot")["versions"]
    assert outcome.status == "error"
    assert "got 1 rows with a null in unique_key (region, id)" in outcome.message
    assert "and 2 keys with more than one row, expected one row for each key" in outcome.message
    if is_first:
        assert "versions" not in models.tables()
    else:
        assert (held(models), models.commits("versions")) == before


def test_keys_are_those_that_a_pre_hook_leaves(spark: SparkSession, make_project: MakeProject) -> None:
    models = Models.of(spark, make_project())
    models.do(f"create database if not exists lakehouse_{models.project.schema}")
    rows, runs = models.relation("staged"), models.relation("runs")
    models.do(f"create table {rows} using parquet as select 1 as id, 'x' as value union all select 1, 'y'")
    models.do(f"create table {runs} (id int) using parquet")
    twice, current = "got 0 rows with a null in unique_key (id) and 1 keys with more than one row", []
    for number, values in enumerate(("(1, 'a'), (1, 'b')", "(1, 'c')", "(1, 'd'), (1, 'e')", "(1, 'f')"), start=1):
        hooks = [f"insert overwrite table {rows} values {values}", f"insert into {runs} values ({number})"]
        snapshot(models, strategy="check", check_cols=["value"], pre_hook=hooks)
        path = models.project.root / "snapshots" / "versions.sql"
        path.write_text(path.read_text(encoding="utf-8").replace("{{ ref('rows') }}", rows), encoding="utf-8")
        outcome = models.dbt("snapshot")["versions"]
        is_refused = number % 2 == 1
        assert (outcome.status, twice in outcome.message) == ("error" if is_refused else "success", is_refused)
        current += [] if is_refused else [values[5]]
        assert [row["id"] for row in models.rows("runs")] == [*range(1, number + 1)], "each hook runs once"
        if current:
            assert [row["value"] for row in models.rows("versions", "value", "dbt_valid_to")] == current


def test_an_empty_run_leaves_a_snapshot_as_it_is(spark: SparkSession, make_project: MakeProject) -> None:
    models = Models.of(spark, make_project())
    composite(models, "check", hard_deletes="invalidate")
    give(models, [(*key, *values) for key, values in ROUNDS[0].items()])
    assert models.dbt("snapshot")["versions"].status == "success"
    before = (models.rows("versions"), models.commits("versions"))
    for words in (("snapshot", "--empty"), ("build", "--empty"), ("build", "--empty", "--full-refresh")):
        assert models.dbt(*words, "--select", "versions")["versions"].status == "success"
        assert (models.rows("versions"), models.commits("versions")) == before
        assert models.told("versions") == ["it stays as it is: --empty reads no more of the upstreams than it has to"]
    # Its select is looked at all the same.
    text = (models.project.root / "snapshots" / "versions.sql").read_text(encoding="utf-8")
    models.write("versions", text.replace("select *", "select missing"), below="snapshots")
    outcome = models.dbt("snapshot", "--empty")["versions"]
    assert (outcome.status, "missing" in outcome.message) == ("error", True)


@pytest.mark.slow
def test_all_columns_of_a_hudi_table_are_its_own(spark: SparkSession, make_project: MakeProject) -> None:
    models = Models.of(spark, make_project(), file_format="hudi", options=OPTIONS)
    models.write("rows", "select 1 as id, 'a' as value", materialized="table", unique_key="id")
    snapshot(models, strategy="check", check_cols="all")
    for _ in range(2):
        models.dbt("build")
    assert [(row["id"], row["value"]) for row in models.rows("versions", "id", "value")] == [(1, "a")]


@pytest.mark.slow
def test_a_column_keeps_the_type_that_the_table_has(spark: SparkSession, make_project: MakeProject) -> None:
    models = Models.of(spark, make_project())
    snapshot(models, strategy="check", check_cols=["value"])

    def see(value: str) -> str:
        models.write("rows", f"select 1 as id, {value} as value, 2 as more", materialized="view")
        models.run("rows")
        return models.dbt("snapshot")["versions"].message

    see("1")
    before = models.rows("versions")
    for value, type_ in (
        ("1.5D", "double"),
        ("'x1'", "string"),
        ("cast(1.55 as decimal(4, 2))", "decimal(4,2)"),
        ("2L", "bigint"),
    ):
        told = f"got column 'value' of type {type_}, expected int, which the snapshot has: cast it in the select"
        assert told in see(value)
        assert models.rows("versions") == before
    snapshot(models, strategy="check", check_cols=["value"], hard_deletes="new_record")
    assert 'missing configured columns (missing "dbt_is_deleted")' in see("2")
    assert models.rows("versions") == before
    snapshot(models, strategy="check", check_cols=["value"])
    see("2")
    assert [(row["value"], row["dbt_valid_to"] is None) for row in models.rows("versions")] == [(1, False), (2, True)]


@pytest.mark.slow
def test_a_column_that_the_select_has_no_longer_stays(spark: SparkSession, make_project: MakeProject) -> None:
    models = Models.of(spark, make_project())
    snapshot(models, strategy="check", check_cols=["value"])
    taken(models, "(1, 'a', '2026-01-01'), (2, 'a', '2026-01-01')")
    rows = "values (1, 'b'), (2, 'a') as rows (id, value)"
    models.write("rows", f"select id, value from {rows}", materialized="view")
    models.run("rows")
    outcome = models.dbt("snapshot")["versions"]
    assert outcome.status == "success", outcome.message
    found = models.rows("versions", "id", "value", "at", "dbt_valid_to")
    assert [(row["id"], row["value"], row["at"] is None, row["dbt_valid_to"] is None) for row in found] == [
        (1, "a", False, False), (1, "b", True, True), (2, "a", False, True),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("then", [None, "to_date('9999-01-01')"])
def test_another_end_of_the_current_versions_is_refused(
    then: str | None, spark: SparkSession, make_project: MakeProject
) -> None:
    models = Models.of(spark, make_project())
    models.write("rows", "select 1 as id, 'a' as value", materialized="view")
    models.run("rows")
    snapshot(models, strategy="check", check_cols=["value"], dbt_valid_to_current="to_date('9999-12-31')")
    assert models.dbt("snapshot")["versions"].status == "success"
    before = models.rows("versions")
    snapshot(models, strategy="check", check_cols=["value"], **({"dbt_valid_to_current": then} if then else {}))
    told = models.dbt("snapshot")["versions"].message
    assert f"got dbt_valid_to_current = {then or 'none'}, and 1 versions of dbt_valid_to = 9999-12-31" in told
    assert models.rows("versions") == before
    # A table that has ends by null may get the setting: dbt knows both.
    models.do(f"update {models.relation('versions')} set dbt_valid_to = null")
    assert models.dbt("snapshot")["versions"].status == "success"
    assert [row["dbt_valid_to"] for row in models.rows("versions")] == [None]


def test_a_table_with_the_key_of_the_source_is_refused(spark: SparkSession, make_project: MakeProject) -> None:
    """Hudi would write a new version in place of the one that ends."""
    models = Models.of(spark, make_project())
    models.write("rows", "select 1 as id, 'a' as value", materialized="view")
    models.run("rows")
    snapshot(models, strategy="check", check_cols=["value"])
    assert models.dbt("snapshot")["versions"].status == "success"
    versions = models.relation("versions")
    models.do(f"create table {versions}_own using hudi tblproperties (primaryKey = 'id') as select "
              f"id, value, dbt_scd_id, dbt_updated_at, dbt_valid_from, dbt_valid_to from {versions}")  # fmt: skip
    models.do(f"drop table {versions}")
    models.do(f"alter table {versions}_own rename to {versions}")
    told = models.dbt("snapshot")["versions"].message
    assert "got a table with the record key 'id', expected 'dbt_scd_id'" in told
    assert len(models.rows("versions")) == 1
