"""Schemas that change: what is found, what the policy makes of it, and what silver, catalog and views show then."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from conftest import DbtProject, MakeProject, Scenario, table_of, unwrapped
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from typer.testing import CliRunner

from ingest.cli.app import app
from ingest.config.tables import Column, Table
from ingest.errors import DeclarationError
from ingest.schema.evolution import EventField, Version, plan, renames
from ingest.silver.state import Counts

INT, LONG, TEXT, DOUBLE, FLOAT = T.IntegerType(), T.LongType(), T.StringType(), T.DoubleType(), T.FloatType()
DECLARED = {"id": "int", "a": "int", "b": "string"}


def table(
    make_project: MakeProject, columns: Mapping[str, str] = DECLARED, policy: Mapping[str, str] | None = None
) -> Table:
    return (
        make_project({"tables": [table_of("t", columns, ["id"], schema_policy=dict(policy or {}))]}).source().tables[0]
    )


def seen(**fields: T.DataType) -> Version:
    return Version(tuple(EventField(name, data_type) for name, data_type in fields.items()))


SAME: dict[str, T.DataType] = {"id": INT, "a": INT, "b": TEXT}
# Fields of the events, policy, what is found, the columns silver will have, whether a run fails.
EVENTS: dict[str, tuple[dict[str, T.DataType], dict[str, str], list[str], str, bool]] = {
    "the same": (SAME, {}, [], "id int, a int, b string", False),
    "another order": ({"b": TEXT, "a": INT, "id": INT}, {}, [], "id int, a int, b string", False),
    "add": ({**SAME, "c": DOUBLE}, {}, ["add c"], "id int, a int, b string, c double", False),
    "add, keep": ({**SAME, "c": DOUBLE}, {"add": "keep"}, ["add c"], "id int, a int, b string", False),
    "add, quarantine": ({**SAME, "c": DOUBLE}, {"add": "quarantine"}, ["add c"], "id int, a int, b string", False),
    "add, fail": ({**SAME, "c": DOUBLE}, {"add": "fail"}, ["add c"], "id int, a int, b string", True),
    "drop": ({"id": INT, "a": INT}, {}, ["drop b"], "id int, a int, b string", False),
    "drop, fail": ({"id": INT, "a": INT}, {"drop": "fail"}, ["drop b"], "id int, a int, b string", True),
    "rename": ({"id": INT, "a": INT, "z": TEXT}, {}, ["add z", "drop b"], "id int, a int, b string, z string", False),
    "widen": ({**SAME, "a": LONG}, {}, ["widen a"], "id int, a bigint, b string", False),
    "widen, keep": ({**SAME, "a": LONG}, {"widen": "keep"}, ["widen a"], "id int, a int, b string", False),
    "widen, fail": ({**SAME, "a": LONG}, {"widen": "fail"}, ["widen a"], "id int, a int, b string", True),
    "incompatible": ({**SAME, "a": T.ArrayType(INT)}, {}, ["incompatible a"], "id int, a int, b string", False),
    "incompatible, fail": (
        {**SAME, "a": T.ArrayType(INT)}, {"incompatible": "fail"}, ["incompatible a"], "id int, a int, b string", True,
    ),
    "a time that nobody says the unit of": (
        {**SAME, "a": T.TimestampType()}, {"incompatible": "fail"}, ["incompatible a"], "id int, a int, b string", True,
    ),
    "a day's number": ({**SAME, "a": T.DateType()}, {"incompatible": "fail"}, [], "id int, a int, b string", False),
    "another case": ({"ID": INT, "a": INT, "B": TEXT}, {}, [], "id int, a int, b string", False),
    "exact name and another case": ({**SAME, "A": INT}, {}, ["incompatible A"], "id int, a int, b string", False),
    "two other cases": (
        {"id": INT, "b": TEXT, "A": INT, "ä": INT, "Ä": INT}, {}, ["incompatible Ä", "incompatible ä"],
        "id int, a int, b string", False,
    ),
    "metadata": ({**SAME, "__op": TEXT, "__lsn": LONG}, {}, [], "id int, a int, b string", False),
    "text for a number": ({**SAME, "a": TEXT}, {}, [], "id int, a int, b string", False),
}  # fmt: skip


def shown(columns: Sequence[Column]) -> str:
    return ", ".join(f"{column.name} {column.data_type.simpleString()}" for column in columns)


@pytest.mark.parametrize("name", EVENTS)
def test_events_against_the_declaration(name: str, make_project: MakeProject) -> None:
    fields, policy, expected, columns, fails = EVENTS[name]
    found = plan(table(make_project, policy=policy), None, [seen(**fields)])
    assert sorted(f"{item.kind} {item.column}" for item in found.differences) == expected
    assert shown(found.columns) == columns
    assert bool(found.failures) == fails


# The declared type, silver's type, what is found, the type silver will have, whether a run fails.
SILVER = (
    ("bigint", INT, "widen", "bigint", False),
    ("double", FLOAT, "widen", "double", False),
    ("decimal(12,4)", T.DecimalType(8, 2), "widen", "decimal(12,4)", False),
    ("int", LONG, "narrow", "bigint", False),
    ("decimal(8,2)", T.DecimalType(12, 4), "narrow", "decimal(12,4)", False),
    ("decimal(8,4)", T.DecimalType(8, 2), "incompatible", "", True),
    ("timestamp", T.DateType(), "incompatible", "", True),
    ("string", INT, "incompatible", "", True),
)


@pytest.mark.parametrize(("declared", "held", "kind", "then", "fails"), SILVER)
def test_the_declaration_against_silver(
    declared: str, held: T.DataType, kind: str, then: str, fails: bool, make_project: MakeProject
) -> None:
    declaration = table(make_project, {"id": "int", "a": declared})
    found = plan(declaration, [Column("id", INT), Column("a", held), Column("gone", TEXT)])
    assert [f"{item.kind} {item.column}" for item in found.differences] == [f"{kind} a", "drop gone"]
    assert bool(found.failures) == fails
    if not fails:
        assert shown(found.columns) == f"id int, a {then}, gone string"


# The type of a column of the key or the partition, a wider one, whether a value's text is the same in both.
FOUND_BY = (
    ("int", LONG, True),
    ("decimal(8,2)", T.DecimalType(12, 2), True),
    ("decimal(8,2)", T.DecimalType(12, 4), False),
    ("float", DOUBLE, False),
    ("int", DOUBLE, False),
)


@pytest.mark.parametrize("place", ["key", "partition_by"])
@pytest.mark.parametrize(("narrow", "wide", "is_same"), FOUND_BY)
def test_a_column_that_rows_are_found_by_is_widened_where_its_texts_stay(
    place: str, narrow: str, wide: T.DataType, is_same: bool, make_project: MakeProject
) -> None:
    """A row whose key was 1.00 was there again as 1.0000, and deletes did not find it."""

    def declared(data_type: str) -> Table:
        options = {"key": ["id", "a"]} if place == "key" else {"partition_by": ["a"]}
        entry = table_of("t", {"id": "int", "a": data_type}, ["id"])
        entry["config"]["meta"]["ingest"] |= options
        return make_project({"tables": [entry]}).source().tables[0]

    silver = declared(narrow).columns
    assert bool(plan(declared(wide.simpleString()), silver).failures) != is_same
    of_events = plan(declared(narrow), silver, [seen(id=INT, a=wide)])
    assert [f"{item.kind} {item.column}" for item in of_events.differences] == ["widen a"]
    assert not of_events.failures
    assert shown(of_events.columns) == f"id int, a {wide.simpleString() if is_same else narrow}"


def test_columns_that_older_events_brought_outlive_events_without_them(make_project: MakeProject) -> None:
    declaration = table(make_project)
    first = plan(declaration, None, [seen(**SAME, c=INT), seen(**SAME), seen(**SAME, c=LONG)])
    assert shown(first.columns) == "id int, a int, b string, c bigint"
    then = plan(declaration, first.columns, [seen(**SAME)])
    assert then.columns == first.columns
    assert [item.place for item in then.differences] == ["declaration"]


def test_a_renamed_column_is_told_as_such(make_project: MakeProject) -> None:
    found = plan(table(make_project), None, [seen(id=INT, a=INT, z=TEXT)])
    assert [(old.column, new.column) for old, new in renames(found.differences)] == [("b", "z")]


@pytest.mark.parametrize("policy", [{"drop": "evolve"}, {"narrow": "evolve"}, {"widen": "no"}, {"rename": "keep"}])
def test_a_policy_that_makes_no_sense_is_refused(policy: dict[str, str], make_project: MakeProject) -> None:
    with pytest.raises(DeclarationError, match=f"schema_policy.{next(iter(policy))}"):
        table(make_project, policy=policy)


# Landed: JSON


def shop(op: str, pos: int, **row: Any) -> dict[str, Any]:
    return unwrapped(op, {"__source_file": "bin.1", "__source_pos": pos, "__source_row": 0}, row)


def whole(op: str, pos: int, row: dict[str, Any]) -> dict[str, Any]:
    source = {"name": "s", "db": "shop", "file": "bin.1", "pos": pos, "row": 0, "version": "3"}
    return {"before": None, "after": row, "source": source, "op": op, "ts_ms": 2}


MARIA = {"connector": "mariadb"}
COLUMNS = {"id": "int", "a": "int", "b": "string"}
JSON = (
    Scenario(
        "evolve", COLUMNS, ["id"],
        [
            [shop("c", 1, id=1, a=1, b="x")],
            [shop("c", 2, id=2, a=1, b='":,"__', c=1.5), shop("c", 3, id=3, a=1, b='{"c": 1}'),
             shop("u", 4, id=2, a=2, b="y", c=2.5)],
            [shop("u", 5, id=2, a=3, b="y"), shop("u", 6, id=9, a=3, b="n"), shop("c", 7, id=4, a=1, b="x", c=7)],
        ],
        [{"id": 1, "a": 1, "b": "x", "c": None}, {"id": 2, "a": 3, "b": "y", "c": 2.5},
         {"id": 3, "a": 1, "b": '{"c": 1}', "c": None}, {"id": 4, "a": 1, "b": "x", "c": 7.0},
         {"id": 9, "a": 3, "b": "n", "c": None}],
        Counts(read=7, applied=6, superseded=1),
        options=MARIA,
    ),
    Scenario(
        "envelopes", COLUMNS, ["id"],
        [[whole("c", 1, {"id": 1, "a": 1, "b": "}"}), whole("c", 2, {"id": 2, "a": 1, "b": "}", "c": "}"}),
          {"schema": {"fields": []}, "payload": whole("c", 3, {"id": 3, "d": {"x": [1]}})}]],
        [{"id": 1, "a": 1, "b": "}", "c": None, "d": None}, {"id": 2, "a": 1, "b": "}", "c": "}", "d": None},
         {"id": 3, "a": None, "b": None, "c": None, "d": '{"x":[1]}'}],
        Counts(read=3, applied=3),
        options=MARIA,
    ),
    Scenario(
        "left_out", COLUMNS, ["id"], [[shop("c", 1, id=1, a=1, b="x", c=1.5)]], [{"id": 1, "a": 1, "b": "x"}],
        Counts(read=1, applied=1),
        options={**MARIA, "schema_policy": {"add": "keep"}},
    ),
    Scenario(
        "set_aside", COLUMNS, ["id"],
        [[shop("c", 1, id=1, a=1, b="x", c=1.5), shop("c", 2, id=2, a=1, b="x", c=None), shop("c", 3, id=3, a=1)]],
        [{"id": 2, "a": 1, "b": "x"}],
        Counts(read=3, applied=1, quarantined=2),
        ["column c is not declared", "column b is missing"],
        options={**MARIA, "schema_policy": {"add": "quarantine", "drop": "quarantine"}},
    ),
    Scenario(
        "order_and_case", COLUMNS, ["id"],
        [[shop("c", 1, b="x", a=1, id=1), shop("c", 2, id=2, A=2, b="x"), shop("u", 3, id=1, b="y", A=4)]],
        [{"id": 1, "a": 4, "b": "y"}, {"id": 2, "a": 2, "b": "x"}],
        Counts(read=3, applied=2, superseded=1),
        options=MARIA,
    ),
    Scenario(
        "clash", COLUMNS, ["id"],
        [[shop("c", 1, id=1, a=1, b="x", Cc=1), shop("c", 2, id=2, a=1, b="x", cC=1), shop("c", 3, id=3, a=1, b="x")]],
        [{"id": 3, "a": 1, "b": "x"}],
        Counts(read=3, applied=1, quarantined=2),
        ["differs by case alone", "differs by case alone"],
        options=MARIA,
    ),
    Scenario(
        "control", COLUMNS, ["id"],
        [[{"ts_ms": 1}, {"status": "END", "id": "5", "event_count": 2, "data_collections": []}, {"hello": "world"},
          shop("c", 1, id=1, a=1, b="x"), "nonsense"]],
        [{"id": 1, "a": 1, "b": "x"}],
        Counts(read=5, applied=1, ignored=2, quarantined=2),
        ["key column id is null", "not a JSON object"],
        options=MARIA,
    ),
)  # fmt: skip


def landed(project: DbtProject, spark: SparkSession, name: str) -> list[dict[str, Any]]:
    """The live rows of a table by key, as the catalog shows them, without what ingest and Hudi add."""
    found = spark.table(f"`{project.schema}`.`{name}`").where("__deleted = 'false'").orderBy("id")
    names = [column for column in found.columns if not column.startswith("_")]
    return [row.asDict() for row in found.select(*names).collect()]


def scenes_of(project: DbtProject, spark: SparkSession, scenes: Sequence[Scenario]) -> None:
    """Lands all scenarios side by side, batch by batch, and compares what came of each."""
    project.declare({"tables": [table_of(scene.name, scene.columns, scene.key, **scene.options) for scene in scenes]})
    for number in range(max(len(scene.batches) for scene in scenes)):
        fed = [scene for scene in scenes if len(scene.batches) > number]
        for scene in fed:
            project.deliver(f"shop.{scene.name}", number * 100, scene.batches[number])
        project.land_well(spark, *(scene.name for scene in fed))
    quarantined = project.quarantined(spark)
    for scene in scenes:
        reasons = [row["reason"] for row in quarantined if row["source_table"] == scene.name]
        assert landed(project, spark, scene.name) == list(scene.rows), scene.name
        assert project.state(spark, scene.name).totals == scene.totals, scene.name
        assert len(reasons) == len(scene.reasons), (scene.name, reasons)
        assert all(part in reason for part, reason in zip(scene.reasons, reasons, strict=True)), (scene.name, reasons)


@pytest.mark.slow
@pytest.mark.spark
def test_json_events_and_every_policy(spark: SparkSession, make_project: MakeProject) -> None:
    scenes_of(make_project(), spark, JSON)


# Landed: Avro, every form of table


def avro(fields: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bytes:
    """An Avro object file of unwrapped events, created one after the other from position `pos` on."""
    metadata = {"__op": "string", "__deleted": "string", "__source_file": "string", "__source_pos": "long",
                "__source_row": "int"}  # fmt: skip
    types = [{"name": name, "type": ["null", kind], "default": None} for name, kind in {**fields, **metadata}.items()]
    schema = fastavro.parse_schema({"type": "record", "name": "Value", "fields": types})
    content = io.BytesIO()
    fastavro.writer(content, schema, list(rows))
    return content.getvalue()


@pytest.mark.spark
def test_columns_whose_nulls_may_have_come_as_a_default_are_named(
    spark: SparkSession, make_project: MakeProject
) -> None:
    """Kafka Connect writes a column's default for its null, and no event says so."""
    project = make_project({"tables": [table_of("note", {"id": "int", "a": "int", "b": "int", "c": "int"}, ["id"])]})
    fields = [
        {"name": "id", "type": "int", "default": 0},
        {"name": "a", "type": [{"type": "int", "connect.default": 5}, "null"], "default": 5},
        {"name": "b", "type": ["null", "int"], "default": None},
        {"name": "c", "type": ["int", "null"], "default": 7},
        {"name": "undeclared", "type": ["int", "null"], "default": 9},
    ]
    row = {"type": "record", "name": "Value", "fields": fields}
    images = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    content = io.BytesIO()
    envelope = {"type": "record", "name": "Envelope", "fields": [*images, {"name": "op", "type": "string"}]}
    fastavro.writer(content, fastavro.parse_schema(envelope), [{"op": "c", "after": {"id": 1, "a": 5, "c": 7}}])
    project.deliver("shop.note", 0, content.getvalue(), "avro")
    command = ["plan", "shop", "--project-dir", str(project.root)]
    shown = CliRunner().invoke(app, command).stderr
    assert "shop.note: nullable, with a default by the events' schema: a, c. " in shown
    assert json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)[0]["defaults"] == ["a", "c"]


TABLES: dict[str, dict[str, Any]] = {
    f"{kind}_{version}": {"connector": "mariadb", "table_type": kind, "table_version": version}
    for kind in ("mor", "cow")
    for version in (6, 9)
}
WIDE = {"id": "int", "a": "int", "r": "float", "d": "decimal(8,2)"}


def decimal_of(precision: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}


@pytest.mark.slow
@pytest.mark.spark
def test_columns_of_writers_schemas_are_added_and_widened_and_reach_catalog_and_views(
    spark: SparkSession, make_project: MakeProject
) -> None:
    project = make_project({"tables": [table_of(name, WIDE, ["id"], **options) for name, options in TABLES.items()]})
    old = {"id": "int", "a": "int", "r": "float", "d": decimal_of(8)}
    new = {"id": "int", "a": "long", "r": "double", "d": decimal_of(12),
           "on": {"type": "int", "connect.name": "io.debezium.time.Date"}}  # fmt: skip
    for name in TABLES:
        first = [shop("c", pos, id=pos, a=1, r=1.5, d=Decimal("1.25")) for pos in (1, 2, 3)]
        project.deliver(f"shop.{name}", 0, avro(old, first), "avro")
    project.land_well(spark)
    for name in TABLES:
        relation = f"`{project.schema}`.`{name}`"
        spark.sql(
            f"create view `{project.schema}`.`{name}_view` as select id from {relation} where __deleted = 'false'"
        )
        later = shop("u", 10, id=2, a=2**40, r=1.1, d=Decimal("1234567890.25"), on=19_000)
        project.deliver(f"shop.{name}", 100, avro(new, [later]), "avro")
        # Written before the change of the schema, delivered with it.
        project.deliver(f"shop.{name}", 200, avro(old, [shop("u", 9, id=3, a=2, r=2.5, d=Decimal("2.25"))]), "avro")
    project.land_well(spark)

    expected = [
        {"id": 1, "a": 1, "r": 1.5, "d": Decimal("1.25"), "on": None},
        {"id": 2, "a": 2**40, "r": 1.1, "d": Decimal("1234567890.25"), "on": date(2022, 1, 8)},
        {"id": 3, "a": 2, "r": 2.5, "d": Decimal("2.25"), "on": None},
    ]
    for name in TABLES:
        assert landed(project, spark, name) == expected, name
        view = f"`{project.schema}`.`{name}_view`"
        assert sorted(row["id"] for row in spark.table(view).collect()) == [1, 2, 3], name
        spark.sql(f"create or replace view {view} as select id, a, `on` from `{project.schema}`.`{name}`")
        assert sorted(row["a"] for row in spark.table(view).collect()) == [1, 2, 2**40], name
        stored = spark.read.format("hudi").load(project.silver(spark, name).path)
        assert {"a", "r", "d", "on"} <= set(stored.columns), name
        types = dict(stored.select("a", "r", "d", "on").dtypes)
        assert types == {"a": "bigint", "r": "double", "d": "decimal(12,2)", "on": "date"}, name

    # The older schema goes on, past a compaction: the values that its updates do not have stay.
    for batch in range(2):
        for name in ("mor_6", "mor_9"):
            if batch:
                done = spark.sql(
                    f"call run_compaction(op => 'scheduleAndExecute', table => '{project.schema}.{name}', "
                    "options => 'hoodie.compact.inline.max.delta.commits=1')"
                )
                assert [row["state"] for row in done.collect()] == ["COMPLETED"]
            update = shop("u", 20 + batch, id=2, a=batch, r=2.5, d=Decimal("3.25"))
            project.deliver(f"shop.{name}", 300 + batch, avro(old, [update]), "avro")
        project.land_well(spark, "mor_6", "mor_9")
    expected[1] |= {"a": 1, "r": 2.5, "d": Decimal("3.25")}
    for name in ("mor_6", "mor_9"):
        assert landed(project, spark, name) == expected, name


@pytest.mark.spark
@pytest.mark.slow
def test_writers_schemas_and_the_policies_that_refuse(spark: SparkSession, make_project: MakeProject) -> None:
    policies: dict[str, dict[str, str]] = {
        "quarantined": {"add": "quarantine", "widen": "keep"},
        "no_adding": {"add": "fail"},
        "no_dropping": {"drop": "fail"},
        "no_widening": {"widen": "fail"},
        "no_nonsense": {"incompatible": "fail"},
    }
    tables = [table_of(name, DECLARED, ["id"], connector="mariadb", schema_policy=policy)
              for name, policy in policies.items()]  # fmt: skip
    project = make_project({"tables": tables})
    odd = {"id": "int", "a": "long", "b": {"type": "array", "items": "int"}, "c": "string"}
    good = {"id": "int", "a": "int", "b": "string"}
    rows = [shop("c", 1, id=1, a=1), shop("c", 2, id=2, a=2**40), shop("c", 3, id=3, a=3, c="c")]
    for name in ("quarantined", "no_adding", "no_widening"):
        project.deliver(f"shop.{name}", 0, avro(odd, rows), "avro")
    mapped = {"id": "int", "a": {"type": "map", "values": "int"}}
    content = avro(mapped, [shop("c", 4, id=4, a={"x": 1}), shop("c", 5, id=5)])
    project.deliver("shop.quarantined", 10, content, "avro")
    project.deliver("shop.no_nonsense", 0, avro({**good, "a": {"type": "map", "values": "int"}}, rows[:0]), "avro")
    project.deliver("shop.no_dropping", 0, [shop("c", 1, id=1, a=1, b="x"), shop("c", 2, id=2, a=1)])

    planned = CliRunner().invoke(app, ["plan", "shop", "--json", "--project-dir", str(project.root)])
    assert planned.exit_code == 1, planned.output
    documents = {item["table"]: item for item in json.loads(planned.stdout)}
    assert not spark.catalog.tableExists(f"`{project.schema}`.`quarantined`")

    results = project.land(spark)
    for name in policies:
        error = results[name].error
        assert (error is None) == (name == "quarantined"), name
        assert documents[name]["fails"] == (error is not None), name
    told = results["no_adding"].error
    assert told is not None
    assert "column c: not declared, a string in the events" in told.message
    assert "lake plan shop" in told.message
    assert landed(project, spark, "quarantined") == [{"id": 1, "a": 1, "b": None}, {"id": 5, "a": None, "b": None}]
    assert sorted(row["reason"].split(" (")[0] for row in project.quarantined(spark)) == [
        "column a: 1099511627776 is not exactly a int",
        "column a: a map<string,int> is never a int",
        "column c is not declared",
    ]


@pytest.mark.spark
@pytest.mark.slow
def test_a_changed_declaration_reaches_silver_without_events(spark: SparkSession, make_project: MakeProject) -> None:
    def declare(columns: Mapping[str, str]) -> list[dict[str, Any]]:
        return [table_of(name, columns, ["id"], **options) for name, options in TABLES.items()]

    project = make_project({"tables": declare({"id": "int", "a": "int"})})
    for name in TABLES:
        project.deliver(f"shop.{name}", 0, [shop("c", 1, id=1, a=1)])
    project.land_well(spark)
    project.declare({"tables": declare({"id": "int", "b": "string", "a": "bigint"})})
    shown = CliRunner().invoke(app, ["plan", "shop", "--project-dir", str(project.root)])
    assert shown.exit_code == 0, shown.output
    assert "silver's column is widened" in shown.output
    project.land_well(spark)
    for name in TABLES:
        assert [(row["id"], row["a"], row["b"]) for row in landed(project, spark, name)] == [(1, 1, None)], name
        assert dict(spark.table(f"`{project.schema}`.`{name}`").dtypes)["a"] == "bigint", name
        project.deliver(f"shop.{name}", 10, [shop("u", 2, id=1, a=2**40, b="x")])
    project.land_well(spark)
    for name in TABLES:
        assert [(row["id"], row["a"], row["b"]) for row in landed(project, spark, name)] == [(1, 2**40, "x")], name
    project.declare({"tables": declare({"id": "int", "a": "date"})})
    for name, result in project.land(spark).items():
        assert isinstance(result.error, DeclarationError), name
        assert "column a: declared date, bigint in silver" in result.error.message
