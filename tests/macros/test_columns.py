"""Columns that a Hudi table cannot hold are refused in one sentence, and keys and partitions of any other type work."""

from __future__ import annotations

from typing import Any

import pytest
from modeling import MakeModels, numbers

from macros import test_habits as habits
from macros import test_snapshots as snapshots

pytestmark = pytest.mark.spark
make_models = habits.make_models

CAST = "or another type that Hudi writes there: cast it in the select; nothing was written"
NAME = "expected a name of letters, digits and _ that begins with no digit"
# A select, its configuration, and why it is refused.
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "small": ("1 as id, cast(1 as smallint) as x", {}, f"got column 'x' of type smallint, expected int {CAST}"),
    "tiny": ("1 as id, cast(1 as tinyint) as x", {}, f"got column 'x' of type tinyint, expected int {CAST}"),
    "nested": (
        "1 as id, named_struct('smallint', 1, 'a', array(1S)) as x",
        {},
        "of type struct<smallint:int,a:array<smallint>>, expected struct<smallint:int,a:array<int>> or",
    ),
    "nothing": ("1 as id, null as x", {}, "got column 'x' of type void, expected string or"),
    "local": ("1 as id, timestamp_ntz '2026-01-01' as x", {}, "of type timestamp_ntz, expected timestamp or"),
    "span": ("1 as id, interval '1' day as x", {}, "got column 'x' of type interval day, expected string or"),
    "map": ("1 as id, map(1, 2) as x", {}, "got column 'x' of type map<int,int>, expected map<string,... or"),
    "maps": (
        "1 as id, array(map(struct(1 as a), 2)) as x",
        {},
        "of type array<map<struct<a:int>,int>>, expected array<map<string,... or",
    ),
    "spaces": ("1 as id, 2 as `my x`", {}, f"got column 'my x', {NAME}"),
    "digit": ("1 as id, 2 as `1x`", {}, f"got column '1x', {NAME}"),
    "ours": (
        "1 as id, 2 as _lake_rows_of_key",
        {},
        "got column '_lake_rows_of_key', expected a name that does not begin with _lake_",
    ),
    "field": ("1 as id, named_struct('a b', 1, 'c', 2) as x", {}, f"got column 'a b', {NAME}"),
    "key": ("cast('a' as binary) as id", {}, "of type binary in unique_key, expected string or"),
    "keys": ("array(1) as id", {}, "of type array<int> in unique_key, expected string or"),
    "at": ("1 as id, timestamp '2026-01-01' as x", {"partition_by": "x"}, "timestamp in partition_by, expected date"),
    "of": ("1 as id, cast('a' as binary) as x", {"partition_by": ["x"]}, "binary in partition_by, expected string or"),
    "case": ("1 as Id", {}, "got unique_key column 'id', expected one of Id"),
    "cases": ("1 as id, 1 as Day", {"partition_by": "DAY"}, "got partition_by column 'DAY', expected one of id, Day"),
    "parts": ("1 as id, array(1) as x", {"partition_by": ["x"]}, "array<int> in partition_by, expected string or"),
}


def test_columns_that_a_table_does_not_hold_are_refused(make_models: MakeModels) -> None:
    models = make_models()
    for name, (select, config, _) in REFUSED.items():
        models.write(name, f"select {select}", **config)
    snapshots.snapshot(models, **snapshots.STRATEGIES["check"])
    models.write("rows", "select 1 as id, 1S as x", materialized="view")
    models.write(
        "letters",
        "select 1 as id, 2 as `größe`, 3 as `列`, binary('a') as x, timestamp '2026-01-01' as at",
        unique_key=["id "],
    )
    outcomes = models.dbt("build")
    for name, (_, _, told) in REFUSED.items():
        assert (outcomes[name].status, told in outcomes[name].message) == ("error", True), outcomes[name].message
    assert "got column 'x' of type smallint, expected int" in outcomes["versions"].message
    assert models.tables() == {"rows", "letters"}
    (row,) = models.rows("letters")
    assert (row["größe"], row["列"]) == (2, 3)


OF_TIMES = "select timestamp('2026-01-01 00:00:0' || id || '.1') as at, id, '{}' as value from range(1, {}) as t(id)"


@pytest.mark.slow
@pytest.mark.parametrize("key", ["at", ["id", "at"]])
def test_a_key_may_be_a_timestamp(key: Any, make_models: MakeModels) -> None:
    models = make_models(unique_key=key)
    models.write("model", OF_TIMES.format("a", 4))
    models.write("other", OF_TIMES.format("a", 4), unique_key="id", materialized="table")
    models.run()
    # Rows change, go and come.
    models.write("model", OF_TIMES.format("b", 6) + " where id <> 2")
    models.run("model")
    assert models.rows("model", "id", "value") == [row for row in numbers("b", 6) if row["id"] != 2]
    # Tables of other keys have not got the option: with another layout each of them would be built anew.
    option = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
    properties = {name: models.ask(f"show tblproperties {models.relation(name)}") for name in ("model", "other")}
    assert [option in {row["key"] for row in found} for found in properties.values()] == [True, False]
    # A table that was made without it is not written to.
    made_before = f"'{option}' = 'false', 'lakehouse.layout' = ''"
    models.do(f"alter table {models.relation('model')} set tblproperties ({made_before})")
    assert "got a table with the timestamp at in unique_key, expected one that was made with" in models.refusal("model")
    # Nor does a run need it that looks for no key.
    models.write("model", OF_TIMES.format("c", 8) + " where id > 5", incremental_strategy="append")
    models.run("model")
    assert [row["id"] for row in models.rows("model", "id")] == [1, 3, 4, 5, 6, 7]
    models.write("model", OF_TIMES.format("b", 6))
    models.run("model", whole=True)
    assert len(models.commits("model")) == 1


@pytest.mark.slow
def test_zero_is_one_key_with_either_sign(make_models: MakeModels) -> None:
    models = make_models()
    for zero, value in (("0.0", "a"), ("-0.0", "b")):
        models.write("model", f"select double('{zero}') as id, '{value}' as value")
        models.run()
    assert models.rows("model") == [{"id": 0.0, "value": "b"}]
