"""The macros that models call for their rows: on Spark they are run, for Athena compiled.

What is compiled for Athena is read by sqlfluff, which knows its grammar. Where it is standard SQL, SQLite runs it too.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlfluff
import yaml
from conftest import Row, new_project
from dbt_common.exceptions import DbtRuntimeError
from modeling import Models
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ATHENA = {
    "type": "athena", "database": "awsdatacatalog", "schema": "lakehouse", "region_name": "eu-west-1",
    "s3_staging_dir": "s3://nowhere/", "threads": 1,
}  # fmt: skip
RNG = random.Random(20)  # noqa: S311

# Versions of orders: of a key many rows, nulls everywhere, and only `delivery` tells all of them apart.
VERSIONS: list[Row] = [
    {
        "region": RNG.choice(("a", "b", "", None)), "number": RNG.choice((1, 2, None)),
        "updated_at": RNG.choice((1, 2, 3, None)), "delivery": RNG.choice((delivery, -delivery)) or None,
        "value": RNG.choice(("x", None)), "__deleted": RNG.choice(("true", "false", None)),
    }
    for delivery in range(120)
]  # fmt: skip
VERSION_TYPES = "region string, number int, updated_at int, delivery int, value string, __deleted string"

# What a separator, an escape or a length could be taken for.
TEXTS = (None, "", "-", "-:", "1:", "1:-", "0:", "a", "a|b", "|", "é", "𝄞", "null", "a1:b", "1:a1:b")
PAIRS: list[Row] = [{"one": one, "two": two} for one, two in itertools.product(TEXTS, TEXTS)]
TYPED: Row = {
    "flag": True, "small": -7, "big": 2**53 + 1, "price": Decimal("0.000001"), "day": date(1987, 1, 2),
    "made_at": datetime(2026, 3, 1, 10, 0, 0, 120000), "gone": None,
}  # fmt: skip
TYPES = {
    "flag": "boolean", "small": "int", "big": "bigint", "price": "decimal(18, 6)", "day": "date",
    "made_at": "timestamp", "gone": "date",
}  # fmt: skip

LINE_TYPES = {
    "id": "bigint", "unitPrice": "decimal(20, 4)", "name": "string", "is paid": "boolean", "ratio": "double",
    "due": "date", "made_at": "timestamp",
}  # fmt: skip
LINE_VALUES: dict[str, Sequence[Any]] = {
    "id": (0, -1, 2**62 + 1),
    "unitPrice": (Decimal("1234567890123456.7891"), Decimal("0.1000"), Decimal(-5)),
    "name": ("", 'a "b" \\', "null", "Tromsø"),
    "is paid": (True, False),
    "ratio": (0.1, -2.5e10),
    "due": (date(2026, 1, 31),),
    "made_at": (datetime(2026, 1, 31, 23, 59, 59, 123000),),
}


def as_json(value: object) -> str:
    """A value as JSON has it; numbers are written out, times are texts."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return json.dumps(RNG.choice((value.isoformat(), str(value), value.replace(tzinfo=UTC).isoformat())))
    return json.dumps(str(value) if isinstance(value, date) else value)


def line_as_json(line: Row | None) -> str:
    """A line as JSON has it; a field that is none is null, or left out."""
    told = ((name, value) for name, value in (line or {}).items() if value is not None or RNG.random() < 0.5)
    return "null" if line is None else "{" + ", ".join(f'"{name}": {as_json(value)}' for name, value in told) + "}"


def random_lines() -> list[Row | None]:
    """Lines of an order, some of them null."""
    return [
        {name: RNG.choice((*values, None)) for name, values in LINE_VALUES.items()} if RNG.random() < 0.9 else None
        for _ in range(RNG.randrange(4))
    ]


ORDERS: list[tuple[int, str | None, list[Row | None]]] = [
    *(
        (number, f"[{', '.join(map(line_as_json, lines))}]", lines)
        for number, lines in enumerate(random_lines() for _ in range(60))
    ),
    *((number, text, []) for number, text in enumerate((None, "", "[]", " null "), start=100)),
]
# What is no array of objects, and what is not of its type.
BROKEN = (
    '{"id": 1}', "5", '[{"id": 1}] more', '[{"id": 1}', "[1]", '[{"id": 1.5}]', '[{"id": "one"}]',
    '[{"is paid": 2}]', '[{"due": "soon"}]', '[{"unitPrice": 12345678901234567890}]', '[{"made_at": "now and then"}]',
)  # fmt: skip

# A table of changes: id, value, op, place in the log, delivery, time, the columns whose value the event does not hold.
KEPT: list[tuple[int | None, str | None, str, str, str, int, list[str] | None]] = [
    (1, "a", "c", "10", "7", 1000, None),
    (1, None, "u", "20", "2", 2000, ["value"]),
    (1, None, "d", "30", "9", 2000, None),
    (2, None, "u", "15", "1", 1500, ["value"]),
    (2, None, "u", "35", "4", 1500, None),
    (3, "b", "c", "40", "8", 4000, None),
    (3, "read", "r", "40", "3", 5000, None),
    (None, None, "t", "50", "5", 6000, None),
    (3, "c", "c", "60", "6", 7000, None),
]
CHANGES = [
    (1, "c", 1.0, "10/7", None, "a", None, []),
    (1, "u", 2.0, "20/2", "a", "a", [], []),
    (1, "d", 2.0, "30/9", "a", None, [], None),
    (2, "t", 6.0, "50/5", None, None, [], None),
    (2, "u", 1.5, "15/1", None, None, None, ["value"]),
    (2, "u", 1.5, "35/4", None, None, ["value"], []),
    (3, "c", 4.0, "40/8", None, "b", None, []),
    (3, "c", 7.0, "60/6", None, "c", None, []),
    (3, "r", 5.0, "40/3", "b", "read", [], []),
    (3, "t", 6.0, "50/5", "read", None, [], None),
]

# Numerator, denominator and their type; by what it is multiplied, the type of the quotient, and the quotient.
QUOTIENTS = (
    ("23", "160", "int", 100, "decimal(10, 2)", Decimal("14.38")),
    ("57", "200", "bigint", 100, "decimal(5, 0)", Decimal(29)),
    ("-23", "160", "bigint", 100, "decimal(10, 2)", Decimal("-14.38")),
    ("1", "3", "int", None, "decimal(12, 6)", Decimal("0.333333")),
    ("20", "3", "decimal(8, 2)", 100, "decimal(10, 2)", Decimal("666.67")),
    ("9223372036854775807", "1", "bigint", 100, "decimal(30, 2)", Decimal("922337203685477580700.00")),
    ("9999999999999999.99", "0.03", "decimal(18, 2)", None, "decimal(30, 2)", Decimal("333333333333333333.00")),
    ("7", "0", "int", 100, "decimal(10, 2)", None),
    ("null", "7", "int", 100, "decimal(10, 2)", None),
)

LATEST = "{{ latest_by_key(%s, ['region', 'number'], ['updated_at', 'delivery'], columns=%s) }}"
LINES = f"{{{{ json_array_rows(%s, 'lines', {LINE_TYPES}, keep=['number'], outer=%s) }}}}"
SOUND = f"select number, {{{{ is_json_array('lines', {LINE_TYPES}) }}}} as is_read from %s"
COLUMNS = ["value", "region", "number", "updated_at", "delivery"]


def keyed(columns: Mapping[str, str]) -> str:
    """A select of columns with their key."""
    return f"select *, {{{{ surrogate_key({dict(columns)}) }}}} as row_key from %s"


SELECTS = {
    "latest": (LATEST % ("%s", "none"), "versions"),
    "latest_columns": (LATEST % ("%s", COLUMNS), "versions"),
    "alive": ("{{ live_rows(%s) }}", "versions"),
    "keyed_pairs": (keyed({"one": "string", "two": "string"}), "pairs"),
    "keyed_types": (keyed(TYPES), "typed"),
    "some_lines": (LINES % ("%s", "false"), "orders"),
    "all_lines": (LINES % ("%s", "true"), "orders"),
    "changed": ("{{ change_rows(%s, 'id', ['value']) }}", "kept"),
    "versions_of": ("{{ history(%s, 'id', ['value']) }}", "kept"),
    "known_when": ("{{ bitemporal_history(%s, 'id', 'made_at', ['value']) }}", "kept"),
    "broken_lines": (LINES % ("%s", "false"), "broken"),
    "read_orders": (SOUND, "orders"),
    "read_broken": (SOUND, "broken"),
}


# A grammar takes any name for a function; these are Athena's, with the types and words before brackets.
CALLED_ON_ATHENA = {
    "_elements", "all_match", "and", "array", "as", "cast", "coalesce", "contains", "count", "date_add", "decimal",
    "element_at", "filter", "first_value", "from", "from_iso8601_timestamp", "greatest", "join",
    "json_extract_scalar", "json_format", "json_parse", "lag", "last_value", "lead", "length", "lower", "map",
    "md5", "min", "nullif", "or", "over", "replace", "row", "row_number", "split_part", "timestamp", "to_hex",
    "to_utf8", "trim", "try", "unnest", "varchar", "where",
}  # fmt: skip
ON_ATHENA = ("latest_columns", "alive", "keyed_pairs", "keyed_types", "some_lines", "all_lines", "read_orders",
             "changed", "versions_of", "known_when")  # fmt: skip


def shop(table: str) -> str:
    """A relation of a table, as a model asks for it."""
    return f"api.Relation.create(schema='shop', identifier='{table}')"


NOT_ON_ATHENA = {
    "latest_by_key('orders', 'id', ['at'])": "orders: got columns = none, expected the list of columns to show",
    f"as_of({shop('orders')}, '2026-01-01')": "as_of: got the engine athena, expected spark: it has no time travel",
    f"at_cut({shop('orders')})": "at_cut: got the engine athena, expected spark: it has no time travel",
}
WRONG = {
    "latest_by_key('orders', 'id', [])": "orders: got order_by = [], expected a list of columns whose last",
    "latest_by_key('orders', 'id', 'at')": "orders: got order_by = at, expected a list",
    "latest_by_key('orders', ['id'], ['at', 'ID'])": "orders: got order_by = ['at', 'ID'], expected a list",
    "latest_by_key('orders', [], ['at'])": "orders: got key = [], expected a column or a list",
    "surrogate_key(['id'])": "surrogate_key: got columns = ['id'], expected a mapping",
    "surrogate_key({'id': 'double'})": "surrogate_key: got the type 'double' of column 'id', expected string",
    "surrogate_key({'id': 'decimal(9, 7)'})": "surrogate_key: got the type 'decimal(9, 7)' of column 'id'",
    "json_array_rows('orders', 'lines', {})": "orders: got fields = {}, expected a mapping",
    "json_array_rows('orders', 'lines', {'id': 'map'})": "orders: got field 'id' of type 'map', expected",
    "is_json_array('lines', {'id': 'map'})": "lines: got field 'id' of type 'map', expected",
    "json_array_rows('orders', 'lines', {'Position': 'int'})": "lists of different names, none of them 'position'",
    "change_rows('orders__changes', ['op'], ['value'])": "orders__changes: got a column 'op', a name",
    "change_rows('orders__changes', 'id', ['unknown_columns'])": "orders__changes: got a column 'unknown_columns'",
    "as_of('orders', 'yesterday')": "orders: got timestamp = 'yesterday', expected yyyy-MM-dd",
}


@pytest.fixture(scope="module")
def models(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Models:
    """Views on rows of a file each."""
    models = Models.of(spark, new_project(tmp_path_factory.mktemp("selects")), materialized="view")
    frames = {
        "versions": spark.createDataFrame(VERSIONS, VERSION_TYPES),
        "pairs": spark.createDataFrame(PAIRS, "one string, two string"),
        "typed": spark.createDataFrame([TYPED], ", ".join(f"{name} {of_type}" for name, of_type in TYPES.items())),
        "orders": spark.createDataFrame([order[:2] for order in ORDERS], "number int, lines string"),
        "kept": spark.createDataFrame(
            [
                (key, value, op, f"{place}/{delivery}", made, str(op in "dt").lower(), unavailable)
                for key, value, op, place, delivery, made, unavailable in KEPT
            ],
            "id int, value string, __op string, __position string, __source_ts_ms long, __deleted string, "
            "__unavailable array<string>",
        ).selectExpr("*", "timestamp_millis(__source_ts_ms) as made_at"),
        "broken": spark.createDataFrame(list(enumerate(BROKEN)), "number int, lines string"),
    }
    for name, frame in frames.items():
        path = models.project.root / "rows" / name
        frame.write.parquet(str(path))
        models.write(name, f"select * from parquet.`{path}`")
    for name, (sql, rows) in SELECTS.items():
        called = f"{{{{ ref('{rows}') }}}}" if sql.endswith("from %s") else f"ref('{rows}')"
        models.write(name, sql % called)
    for number, call in enumerate(WRONG):
        # Refused when dbt reads the model; it would read no other one then.
        models.write(f"wrong_{number}", f"{{% if execute %}}{{{{ {call} }}}}{{% endif %}}")
    models.run(*frames, *SELECTS)
    return models


@pytest.fixture(scope="module")
def on_athena(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Models:
    """The selects as models whose target is Athena, and what is refused there. Nothing of them is ever run."""
    project = new_project(tmp_path_factory.mktemp("athena"))
    profile = {"lakehouse": {"target": "athena", "outputs": {"athena": ATHENA}}}
    (project.root / "profiles.yml").write_text(yaml.safe_dump(profile), encoding="utf-8")
    models = Models.of(spark, project)
    for name in ON_ATHENA:
        sql, rows = SELECTS[name]
        models.write(name, sql % (f"shop.{rows}" if sql.endswith("from %s") else f"'shop.{rows}'"))
    for number, call in enumerate(NOT_ON_ATHENA):
        models.write(f"refused_{number}", f"{{{{ {call} }}}}")
    return models


@pytest.fixture(scope="module")
def athena(on_athena: Models) -> dict[str, str]:
    """The selects as dbt compiles them for Athena."""
    return on_athena.compiled(*ON_ATHENA)


def sqlite_rows(sql: str, name: str, rows: Sequence[Row]) -> list[Row]:
    """What SQLite answers to a query on one table `shop.<name>`."""
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    connection.create_function("to_utf8", 1, str.encode)
    connection.create_function("md5", 1, lambda value: hashlib.md5(value, usedforsecurity=False).digest())
    connection.create_function("to_hex", 1, lambda value: value.hex().upper())
    connection.execute("attach ':memory:' as shop")
    connection.execute(f"create table shop.{name} ({', '.join(rows[0])})")
    values = ", ".join("?" for _ in rows[0])
    connection.executemany(f"insert into shop.{name} values ({values})", [tuple(row.values()) for row in rows])
    return [dict(row) for row in connection.execute(sql).fetchall()]


def in_order(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows as texts that can be sorted."""
    return sorted(repr(dict(row)) for row in rows)


def latest_versions(*columns: str) -> list[Row]:
    """The row of each key behind which no other one comes: a null is before any value."""
    found: dict[tuple[Any, Any], Row] = {}
    for row in sorted(
        VERSIONS, key=lambda row: [(row[n] is not None, row[n] or 0) for n in ("updated_at", "delivery")]
    ):
        found[row["region"], row["number"]] = {name: row[name] for name in columns}
    return list(found.values())


def test_the_latest_row_of_each_key_is_one_row_as_it_is(models: Models, athena: Mapping[str, str]) -> None:
    names = list(VERSIONS[0])
    assert models.spark.table(models.relation("latest")).columns == names
    assert in_order(models.rows("latest", *names)) == in_order(latest_versions(*names))
    assert models.spark.table(models.relation("latest_columns")).columns == COLUMNS
    expected = in_order(latest_versions(*COLUMNS))
    assert in_order(models.rows("latest_columns", *COLUMNS)) == expected
    assert in_order(sqlite_rows(athena["latest_columns"], "versions", VERSIONS)) == expected


def test_only_tombstones_are_hidden(models: Models, athena: Mapping[str, str]) -> None:
    expected = in_order([row for row in VERSIONS if row["__deleted"] != "true"])
    assert in_order(models.rows("alive", *VERSIONS[0])) == expected
    assert in_order(sqlite_rows(athena["alive"], "versions", VERSIONS)) == expected


def test_rows_that_differ_have_keys_that_differ(models: Models, athena: Mapping[str, str]) -> None:
    rows = models.rows("keyed_pairs", "one", "two", "row_key")
    assert len({row["row_key"] for row in rows}) == len(PAIRS)
    assert in_order(rows) == in_order(sqlite_rows(athena["keyed_pairs"], "pairs", PAIRS))


def test_halves_are_rounded_up(models: Models) -> None:
    columns = [
        f"{{{{ quotient('over{number}', 'under{number}', '{of_type}', times={times or 'none'}) }}}} as q{number}"
        for number, (_, _, _, times, of_type, _) in enumerate(QUOTIENTS)
    ]
    given = [
        f"cast({over} as {of_type}) as over{number}, cast({under} as {of_type}) as under{number}"
        for number, (over, under, of_type, *_) in enumerate(QUOTIENTS)
    ]
    models.write("quotients", f"select {', '.join(columns)} from (select {', '.join(given)})")
    models.run("quotients")
    (row,) = models.rows("quotients")
    assert list(row.values()) == [quotient for *_, quotient in QUOTIENTS]


def test_values_of_all_types_are_written_in_one_way(models: Models) -> None:
    written = "4:true2:-716:90071992547409938:0.00000110:1987-01-0226:2026-03-01 10:00:00.120000-"
    (row,) = models.rows("keyed_types", "row_key")
    assert row["row_key"] == hashlib.md5(written.encode(), usedforsecurity=False).hexdigest()


def test_a_change_has_the_values_before_it_and_after_it(models: Models) -> None:
    shown = ("id", "op", "double(changed_at)", "position", "before_value", "after_value", "before_unknown_columns",
             "after_unknown_columns")  # fmt: skip
    rows = models.spark.table(models.relation("changed")).selectExpr(*shown)
    assert in_order([dict(zip(shown, row, strict=True)) for row in rows.collect()]) == in_order(
        [dict(zip(shown, row, strict=True)) for row in CHANGES]
    )


@pytest.mark.parametrize("name", ["some_lines", "all_lines"])
def test_elements_of_json_arrays_are_rows(models: Models, name: str) -> None:
    nothing = dict.fromkeys(LINE_TYPES)
    expected = [
        {"number": number, "position": position, **(line or nothing)}
        for number, _, lines in ORDERS
        for position, line in enumerate(lines, start=1)
    ]
    if name == "all_lines":
        expected += [{"number": number, "position": None, **nothing} for number, _, lines in ORDERS if not lines]
    found = models.spark.table(models.relation(name))
    assert dict(found.dtypes) == {
        "number": "int",
        "position": "int",
        **{n: t.replace(" ", "") for n, t in LINE_TYPES.items()},
    }
    rows = [row.asDict() for row in found.collect()]
    for row in [*rows, *expected]:
        row["unitPrice"] = row["unitPrice"] and row["unitPrice"].quantize(Decimal("0.0001"))
    assert in_order(rows) == in_order(expected)


def test_json_that_is_not_what_was_said_fails(models: Models) -> None:
    rows = models.spark.table(models.relation("broken_lines"))
    for number, text in enumerate(BROKEN):
        try:
            found = rows.where(f"number = {number}").collect()
        except (PySparkException, Py4JJavaError) as error:
            assert "MALFORMED_RECORD" in str(error), error
        else:
            pytest.fail(f"{text} gave {found}")


def test_what_would_fail_is_known_before(models: Models) -> None:
    assert {row["is_read"] for row in models.rows("read_orders", "is_read")} == {True}
    assert {row["is_read"] for row in models.rows("read_broken", "is_read")} == {False}


def test_what_is_compiled_for_athena_is_athenas_sql(athena: Mapping[str, str]) -> None:
    for sql in athena.values():
        sqlfluff.parse(sql, dialect="athena")
        assert {name.lower() for name in re.findall(r"(\w+) *\(", sql)} <= CALLED_ON_ATHENA
        assert not re.search(r"\bas (string|int)\b", sql)


def test_what_athena_has_not_is_refused(on_athena: Models) -> None:
    for number, message in enumerate(NOT_ON_ATHENA.values()):
        with pytest.raises(DbtRuntimeError, match=message):
            on_athena.compiled(f"refused_{number}")


def test_wrong_arguments_are_refused(models: Models) -> None:
    found = models.dbt("run", "--select", "wrong_*")
    for number, (call, message) in enumerate(WRONG.items()):
        assert message in found[f"wrong_{number}"].message, call


def test_a_hudi_table_is_read_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    models = Models.of(spark, new_project(tmp_path), file_format="hudi", options=buckets, materialized="table")
    for value in (1, 2):
        models.write("counted", f"select 1 as id, {value} as value", unique_key="id")
        models.run("counted")
    commits = spark.sql(f"call show_commits(table => '{models.relation('counted')}')")
    first, last = sorted(row["state_transition_time"] for row in commits.collect())
    as_text = f"{datetime.strptime(first, '%Y%m%d%H%M%S%f')}"[:-3]
    asked = {"first": (first, 1), "last": (last, 2), "text": (as_text, 1), "day": ("2090-01-01", 2)}
    for name, (at, _) in asked.items():
        call = f"select then.value from {{{{ as_of(ref('counted'), '{at}') }}}} as then"
        models.write(name, call, below="analyses")
    queries = models.compiled()
    for name, (_, value) in asked.items():
        assert [tuple(row) for row in spark.sql(queries[name]).collect()] == [(value,)], name
    at_first = f"select 1 as id, then.value from {{{{ as_of(ref('counted'), '{first}') }}}} as then"
    for materialized in ("table", "incremental", "view"):
        models.write(f"as_{materialized}", at_first, materialized=materialized, unique_key="id")
    outcomes = models.dbt("run", "--select", "as_*")
    assert "TIME_TRAVEL" in outcomes["as_view"].message
    assert models.rows("as_table", "value") == models.rows("as_incremental", "value") == [{"value": 1}]
