"""Declarations: a right one says all that ingest needs, a wrong one is refused with the place and what is allowed."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY, DbtProject, MakeProject, table_of
from dbt.cli.main import dbtRunner
from pyspark.sql import types as T

from ingest.config.connections import FilesConnection
from ingest.config.project import Project
from ingest.config.sources_file import load_source, load_sources, parse_data_type
from ingest.errors import DeclarationError

Entry = dict[str, Any]


def shop() -> Entry:
    """A right declaration."""
    columns = {"order_id": "bigint", "line": "int", "price": "decimal(8,2)", "tags": "array<string>"}
    return {"tables": [table_of("order_line", columns, ["order_id", "line"])]}


def refused(project: DbtProject) -> DeclarationError:
    with pytest.raises(DeclarationError) as error:
        project.source()
    assert "Traceback" not in error.value.message
    return error.value


def ingest_of(source: Entry) -> Entry:
    found: Entry = source["tables"][0]["config"]["meta"]["ingest"]
    return found


def column_of(source: Entry, index: int = 0) -> Entry:
    found: Entry = source["tables"][0]["columns"][index]
    return found


Change = Callable[[Entry], object]


def with_placeholder(written: str) -> Change:
    return lambda source: ingest_of(source).update(unavailable_value_placeholder=written)


# What is wrong, and texts that the message must hold: the place, what was found, what is allowed.
WRONG: dict[str, tuple[Change, tuple[str, ...]]] = {
    "unknown key": (
        lambda s: ingest_of(s).update(topics="x"),
        ("order_line: config.meta.ingest", "topics is not a known key"),
    ),
    "missing connector": (lambda s: ingest_of(s).pop("connector"), ("connector is missing",)),
    "unknown connector": (
        lambda s: ingest_of(s).update(connector="oracle"),
        ("connector is 'oracle'", "postgresql, mariadb", "declare order_by"),
    ),
    "missing topic": (lambda s: ingest_of(s).pop("topic"), ("topic is missing",)),
    "pattern of topics": (
        lambda s: ingest_of(s).update(topic="shop.*"),
        ("order_line: config.meta.ingest", "'shop.*' is a pattern"),
    ),
    "empty topic": (lambda s: ingest_of(s).update(topic=""), ("topic is ''",)),
    "key is a text": (lambda s: ingest_of(s).update(key="order_id"), ("key is 'order_id'",)),
    "key is no column": (
        lambda s: ingest_of(s).update(key=["id"]),
        ("ingest.key", "key names 'id'", "order_id, line, price"),
    ),
    "key of an array": (
        lambda s: ingest_of(s).update(key=["order_id", "tags"]),
        ("ingest.key", "'tags', of type array<string>", "declare the array as a string"),
    ),
    "partition is no column": (
        lambda s: ingest_of(s).update(partition_by=["day"]),
        ("ingest.partition_by", "'day'", "order_id"),
    ),
    "partition of a timestamp": (
        lambda s: (column_of(s, 2).update(data_type="timestamp"), ingest_of(s).update(partition_by=["price"])),
        ("ingest.partition_by", "'price', of type timestamp", "a date in place of a timestamp", "substring_of"),
    ),
    "partition of bytes": (
        lambda s: (column_of(s, 2).update(data_type="binary"), ingest_of(s).update(partition_by=["price"])),
        ("ingest.partition_by", "'price', of type binary"),
    ),
    "partition of an array": (
        lambda s: (column_of(s, 2).update(data_type="array<int>"), ingest_of(s).update(partition_by=["price"])),
        ("ingest.partition_by", "'price', of type array<int>"),
    ),
    "unknown table type": (
        lambda s: ingest_of(s).update(table_type="iceberg"),
        ("table_type is 'iceberg'", "'mor' or 'cow'"),
    ),
    "unknown table version": (lambda s: ingest_of(s).update(table_version=7), ("table_version is 7", "6, 8 or 9")),
    "hard deletes": (lambda s: ingest_of(s).update(deletes="hard"), ("deletes is 'hard'", "needs a retention")),
    "no buckets": (lambda s: ingest_of(s).update(buckets=0), ("buckets is 0", "greater than or equal to 1")),
    "ingest is a list": (
        lambda s: s["tables"][0]["config"]["meta"].update(ingest=["x"]),
        ("['x']", "a mapping of keys"),
    ),
    "unknown connection": (
        lambda s: ingest_of(s).update(connection="kafka"),
        ("ingest.connection", "'kafka'", "connections.yml: files"),
    ),
    "unknown type": (
        lambda s: column_of(s, 1).update(data_type="number"),
        ("order_line.line", "data_type is 'number'", "bigint"),
    ),
    "smallint": (
        lambda s: column_of(s, 1).update(data_type="smallint"),
        ("data_type is 'smallint'", "int, integer, bigint"),
    ),
    "scale beyond precision": (
        lambda s: column_of(s, 2).update(data_type="decimal(2,8)"),
        ("decimal(2,8)", "scale <= precision <= 38"),
    ),
    "precision beyond 38": (lambda s: column_of(s, 2).update(data_type="decimal(39,2)"), ("decimal(39,2)", "38")),
    "array of unknown": (lambda s: column_of(s, 3).update(data_type="array<money>"), ("'money'", "array<...>")),
    "no data_type": (lambda s: column_of(s, 1).pop("data_type"), ("order_line.line", "data_type is None", "a text")),
    "unknown semantic type": (
        lambda s: column_of(s).update(config={"meta": {"ingest": {"semantic_type": "time"}}}),
        ("order_line.order_id: config.meta.ingest", "semantic_type is 'time'", "io.debezium.time.Timestamp"),
    ),
    "column without a name": (lambda s: column_of(s).pop("name"), ("order_line.columns", "name is None")),
    "column that is a text": (lambda s: s["tables"][0].update(columns=["order_id"]), ("order_line.columns",)),
    "reserved by ingest": (
        lambda s: column_of(s).update(name="__op"),
        ("order_line.__op", "ingest or Hudi adds itself"),
    ),
    "reserved by hudi": (
        lambda s: column_of(s).update(name="_hoodie_commit_time"),
        ("_hoodie_commit_time", "Hudi adds itself"),
    ),
    "duplicate column": (
        lambda s: column_of(s, 1).update(name="order_id"),
        ("order_line", "'order_id' is declared twice"),
    ),
    "no columns": (
        lambda s: s["tables"][0].pop("columns"),
        ("order_line", "declares no columns", "name and data_type"),
    ),
    "duplicate table": (lambda s: s["tables"].append(copy.deepcopy(s["tables"][0])), ("order_line", "declared twice")),
    "same identifier": (
        lambda s: s["tables"].append({**copy.deepcopy(s["tables"][0]), "name": "lines", "identifier": "order_line"}),
        ("order_line", "declared twice"),
    ),
    "table without a name": (lambda s: s["tables"][0].pop("name"), ("shop.tables", "name is None")),
    "table that is a text": (lambda s: s["tables"].append("order"), ("shop", "'order'", "a mapping")),
    "tables are a text": (lambda s: s.update(tables="order_line"), ("shop", "order_line", "a list")),
    "name for a shell": (
        lambda s: s["tables"][0].update(name="a b"),
        ("named 'a b'", "letters, digits and underscores"),
    ),
    "schema with a quote": (lambda s: s["tables"][0].update(identifier="a`b"), ("named 'a`b'",)),
    "not a hudi table": (
        lambda s: s["tables"][0].update(external={"using": "delta"}),
        ("external.using is 'delta'", "hudi"),
    ),
    "external is a text": (
        lambda s: s["tables"][0].update(external="hudi"),
        ("order_line: external is 'hudi'", "a mapping of keys"),
    ),
    "a column of the key twice": (
        lambda s: ingest_of(s).update(key=["order_id", "line", "order_id"]),
        ("ingest.key", "key names 'order_id' twice"),
    ),
    "a column of the partition twice": (
        lambda s: ingest_of(s).update(partition_by=["line", "line"]),
        ("ingest.partition_by", "partition_by names 'line' twice"),
    ),
    "no limit of the quarantine": (
        lambda s: ingest_of(s).update(quarantine_limit={}),
        ("quarantine_limit has neither rows nor share",),
    ),
    "a location within another one": (
        lambda s: s["tables"].append(
            {**table_of("inner", {"id": "int"}, ["id"]), "external": {"location": "order_line//part/"}}
        ),
        ("tables 'order_line' and 'inner' lie one within the other: order_line",),
    ),
    "one location, written in two ways": (
        lambda s: s["tables"].append(
            {**table_of("again", {"id": "int"}, ["id"]), "external": {"location": "order_line/"}}
        ),
        ("tables 'order_line' and 'again' have one location: order_line",),
    ),
    "a topic of two tables": (
        lambda s: s["tables"].append(table_of("customer", {"id": "int"}, ["id"], topic="shop.order_line")),
        ("tables 'order_line' and 'customer' read one topic, shop.order_line", "ByLogicalTableRouter"),
    ),
    **{
        f"a placeholder of {octets}": (
            with_placeholder(octets),
            (f"unavailable_value_placeholder is '{octets}', expected two hexadecimal digits behind hex:",),
        )
        for octets in ("hex:", "hex:616", "hex:no", "hex:ff")
    },
    "tables of a topic, and tombstones that say none": (
        lambda s: ingest_of(s).update(table_include_list=["shop.order_line"]),
        ("table_include_list is given and tombstones is not 'ignore'",),
    ),
    "no pattern of tables": (
        lambda s: ingest_of(s).update(table_include_list=["shop.(order"], tombstones="ignore"),
        ("table_include_list is 'shop.(order'",),
    ),
    "bad jinja": (
        lambda s: ingest_of(s).update(topic="{{ env_var('X' }}"),
        ("ingest.topic", "cannot be rendered", "env_var(...)"),
    ),
    "jinja that divides by zero": (
        lambda s: ingest_of(s).update(topic="{{ 1 / 0 }}"),
        ("ingest.topic", "cannot be rendered"),
    ),
    "jinja with wrong arguments": (
        lambda s: ingest_of(s).update(topic="{{ env_var() }}"),
        ("ingest.topic", "cannot be rendered"),
    ),
    "missing variable of the environment": (
        lambda s: ingest_of(s).update(topic="{{ env_var('NO_SUCH_VARIABLE') }}"),
        ("ingest.topic", "NO_SUCH_VARIABLE is not set"),
    ),
    "missing variable of dbt": (
        lambda s: ingest_of(s).update(topic="{{ var('none') }}"),
        ("variable none is not in dbt_project.yml",),
    ),
    "unknown function": (lambda s: ingest_of(s).update(topic="{{ run_query('x') }}"), ("'run_query' is undefined",)),
}


@pytest.mark.parametrize(("change", "told"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_declaration_is_refused_with_its_place(
    change: Change, told: tuple[str, ...], make_project: MakeProject
) -> None:
    source = shop()
    change(source)
    project = make_project(source)
    error = refused(project)
    assert "models/_sources.yml" in error.message
    for text in told:
        assert text in error.message


def wrong_at_many_places() -> Entry:
    """Four tables, of which one is right; the others are wrong in one to four places."""
    tables = [table_of(name, {"id": "int", "price": "decimal(8,2)"}, ["id"]) for name in ("a", "b", "c", "right")]
    a, b, c, _ = tables
    a["columns"][0]["data_type"] = "number"
    a["columns"][1]["data_type"] = "money"
    a["external"] = {"using": "delta"}
    a["config"]["meta"]["ingest"] |= {"topics": "x", "table_type": "merge"}
    b["config"]["meta"]["ingest"] |= {"key": ["no"], "connection": "nowhere", "schema_file": "none.avsc"}
    c["config"]["meta"]["ingest"]["topic"] = "{{ env_var('NO_SUCH_VARIABLE') }}"
    return {"tables": tables}


def test_all_that_is_wrong_is_told_at_once(make_project: MakeProject) -> None:
    project = make_project(wrong_at_many_places())
    (project.root / "models" / "broken.yml").write_text("sources: [", encoding="utf-8")
    project.write_models("sources:\n- name: other\n  tables: [{name: t, meta: {ingest: 7}}]\n", "other.yml")
    error = refused(project)
    place = "models/_sources.yml: shop"
    told = [
        (f"{place}.a: config.meta.ingest", "topics is not a known key"),
        (f"{place}.a: config.meta.ingest", "table_type is 'merge'"),
        (f"{place}.a.id", "data_type is 'number'"),
        (f"{place}.a.price", "data_type is 'money'"),
        (f"{place}.a", "external.using is 'delta'"),
        (f"{place}.b: config.meta.ingest.key", "key names 'no'"),
        (f"{place}.b: config.meta.ingest.connection", "nowhere"),
        (f"{place}.b: config.meta.ingest.schema_file", "none.avsc"),
        (f"{place}.c.config.meta.ingest.topic", "NO_SUCH_VARIABLE is not set"),
        ("models/broken.yml", "is not YAML"),
        ("models/other.yml: source other", "config.meta.ingest is 7"),
    ]
    for where, found in told:
        assert [item for item in error.each if where in item.where and found in item.found], (where, found)
        assert f"{where}: " in error.message.replace(str(project.root), "")
    # What follows from another refusal alone is none.
    assert len({item.message for item in error.each}) == len(error.each) == len(told) - 1
    assert all(item.where.endswith("right") is False for item in error.each)


def test_a_table_is_told_of_each_of_its_places(make_project: MakeProject) -> None:
    source = shop()
    column_of(source)["data_type"] = "number"
    source["tables"][0]["external"] = {"using": "delta"}
    error = refused(make_project(source))
    assert {item.found for item in error.each} == {"data_type is 'number'", "external.using is 'delta'"}


def test_one_refusal_is_told_as_it_is(make_project: MakeProject) -> None:
    source = shop()
    column_of(source)["data_type"] = "number"
    error = refused(make_project(source))
    assert error.each == (error,)
    assert error.where == "models/_sources.yml: shop.order_line.order_id"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"sources: [", "is not YAML"),
        (b"- a\n- b\n", "holds a list"),
        (b"sources: \xff\xfe\n", "is not YAML"),
        (b"sources:\n- 7\n", "name is None"),
        (b"sources: shop\n", "a list"),
        (b"sources:\n- {name: shop, schema: a, schema: b}\n", "the key 'schema' is there twice"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_name(content: bytes, told: str, make_project: MakeProject) -> None:
    project = make_project(shop())
    (project.root / "models" / "broken.yml").write_bytes(content)
    error = refused(project)
    assert "broken.yml" in error.message
    assert told in error.message


def test_a_source_declared_in_two_files_is_refused(make_project: MakeProject) -> None:
    project = make_project(shop())
    text = (project.root / "models" / "_sources.yml").read_text(encoding="utf-8")
    project.write_models(text, "again.yml")
    error = refused(project)
    assert "source 'shop' is declared twice" in error.message
    assert "models/_sources.yml" in error.message
    assert "models/again.yml" in error.message


# Of two sources: the schema and what is declared of each one's table; and texts that the message must hold.
SHARED: dict[str, tuple[tuple[str, Entry], tuple[str, Entry], tuple[str, ...]]] = {
    "one location": (
        ("a", {"external": {"location": "/lake/item"}}),
        ("b", {"external": {"location": "file:///lake//item/"}}),
        ("have one location", "shop.item", "mall.item"),
    ),
    "one within the other": (
        ("a", {"external": {"location": "s3://lake/item/more"}}),
        ("b", {"external": {"location": "s3://lake/item"}}),
        ("lie one within the other", "s3://lake/item"),
    ),
    "one folder of a schema": (
        ("a", {"identifier": "one", "external": {"location": "item"}}),
        ("A", {"identifier": "two"}),
        ("have one location", "shop.one", "mall.two"),
    ),
    "one table": (("a", {}), ("A", {}), ("table 'item' of schema 'A' is declared by source 'shop' too",)),
    "a companion": (
        ("a", {"external": {"location": "/lake/a.db/_Quarantine"}}),
        ("b", {}),
        ("/lake/a.db/_Quarantine", "without _quarantine"),
    ),
    "transactions": (
        ("a", {"identifier": "one"}),
        ("a", {"identifier": "two"}),
        ("'shop' and 'mall' are consistent by transaction", "one schema, 'a'"),
    ),
    "none": (("a", {}), ("b", {}), ()),
    "names that begin alike": (
        ("a", {"external": {"location": "/lake/item"}}),
        ("b", {"external": {"location": "/lake/items"}}),
        (),
    ),
}


@pytest.mark.parametrize("case", SHARED)
def test_tables_that_would_share_a_place_are_refused(case: str, make_project: MakeProject) -> None:
    project, (first, second, told) = make_project(), SHARED[case]
    consistent = {"consistent": "transaction"} if case == "transactions" else {}
    sources: list[dict[str, Any]] = [
        {"name": name, "schema": schema, "tables": [{**table_of("item", {"id": "int"}, ["id"], **consistent), **more}]}
        for name, (schema, more) in (("shop", first), ("mall", second))
    ]
    for number, source in enumerate(sources):
        # A topic has one table of a source: each source reads its own.
        source["tables"][0]["config"]["meta"]["ingest"]["topic"] = f"{source['name']}.public.item{number}"
        if consistent:
            source["tables"][0]["external"] = {"location": f"item{number}"}
    project.write_models(yaml.safe_dump({"sources": sources}))
    if not told:
        assert list(load_sources(Project.load(project.root))) == ["shop", "mall"]
        return
    with pytest.raises(DeclarationError) as error:
        load_sources(Project.load(project.root))
    assert all(text in error.value.message for text in told), error.value.message


def test_what_dbt_does_not_enable_is_not_there(make_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """As dbt itself has it, of each place where it may be said."""
    monkeypatch.setenv("OFF", "False")
    said = {
        None: None,
        "off": False,
        "on": True,
        "by_env": "{{ env_var('OFF') | as_bool }}",
        "by_var": "{{ var('on') | as_bool }}",
    }
    project = make_project()
    for source, of_source in said.items():
        tables = []
        for table, of_table in said.items():
            declared = table_of(f"t_{table}", {"id": "int"}, ["id"])
            declared["config"]["meta"]["ingest"]["topic"] = f"shop.{source}.{table}"
            tables.append({**declared, "config": {**declared["config"], **enabled(of_table)}})
        # What is wrong in a table that is not there is nobody's business.
        tables.append({"name": "wrong", "config": {"enabled": False, "meta": {"ingest": {"topic": 1}}}})
        entry = {"name": f"s_{source}", "config": enabled(of_source), "tables": tables}
        folder = project.root / "models" / ("deep" if source == "by_var" else "flat")
        folder.mkdir(exist_ok=True)
        (folder / f"{source}.yml").write_text(yaml.safe_dump({"sources": [entry]}), encoding="utf-8")
    settings = yaml.safe_load((project.root / "dbt_project.yml").read_text(encoding="utf-8"))
    settings["vars"] = {"on": True}
    for configs in (
        {},
        {"+enabled": False},
        {settings["name"]: {"+enabled": False, "s_None": {"+enabled": True, "t_None": {"enabled": False}}}},
        {
            settings["name"]: {
                "flat": {"+enabled": "{{ env_var('OFF') | as_bool }}"},
                "deep": {"s_by_var": {"t_None": {"+enabled": False}}},
            }
        },
    ):
        (project.root / "dbt_project.yml").write_text(
            yaml.safe_dump({**settings, "sources": configs}), encoding="utf-8"
        )
        found = {
            f"source:{settings['name']}.{source.name}.{table.name}"
            for source in load_sources(Project.load(project.root)).values()
            for table in source.tables
        }
        assert found == set(sources_of_dbt(project.root)), configs


def enabled(said: bool | str | None) -> Entry:
    return {} if said is None else {"enabled": said}


def sources_of_dbt(root: Path) -> list[str]:
    """The tables of all sources, as dbt lists them."""
    here = Path.cwd()
    asked = ["--quiet", "ls", "--resource-type", "source", "--project-dir", str(root), "--profiles-dir", str(root)]
    result = dbtRunner().invoke([*asked, "--target-path", str(root / "target"), "--log-path", str(root / "target")])
    os.chdir(here)
    assert result.success, result.exception
    return list(result.result)  # type: ignore[arg-type]


@pytest.mark.parametrize("said", ["maybe", 3, "{{ env_var('NO_SUCH_VARIABLE') }}"])
def test_what_is_neither_enabled_nor_disabled_is_refused(said: Any, make_project: MakeProject) -> None:
    source = shop()
    source["tables"][0]["config"]["enabled"] = said
    error = refused(make_project(source))
    assert "order_line: config.enabled" in error.message


def test_a_source_that_is_not_there_is_answered_with_those_that_are(make_project: MakeProject) -> None:
    project = make_project(shop())
    with pytest.raises(DeclarationError, match=r"no source 'stock'(.|\n)*one of: shop"):
        load_source(Project.load(project.root), "stock")
    with pytest.raises(DeclarationError, match=r"no table customer(.|\n)*one of: order_line"):
        project.source().choose(["order_line", "customer"])


def test_tables_take_what_they_do_not_say_from_their_source(make_project: MakeProject) -> None:
    source = shop()
    del ingest_of(source)["connector"]
    second = table_of("customer", {"id": "int"}, ["id"], connector="sqlserver", table_type="mor", buckets=3)
    source["tables"].append(second)
    source["config"] = {"meta": {"ingest": {"connector": "mariadb", "table_type": "cow", "connection": "files"}}}
    project = make_project(source)
    line, customer = project.source().tables
    assert (line.options.connector, line.options.table_type, line.options.buckets) == ("mariadb", "cow", None)
    assert (customer.options.connector, customer.options.table_type, customer.options.buckets) == (
        "sqlserver",
        "mor",
        3,
    )
    assert line.key == ("order_id", "line")
    assert line.connection == FilesConnection(type="files", path=str(project.bronze))


def test_a_topic_may_be_kept_twice(make_project: MakeProject) -> None:
    ids = {"id": "int", "v": "string"}
    whole = table_of("whole", ids, ["id"])
    few = table_of("few", {"id": "int"}, ["id"], topic="shop.whole")
    its_events = table_of("log", ids, [], topic="shop.whole")
    project = make_project({"tables": [whole, few, its_events]})
    assert [table.name for table in project.source().tables] == ["whole", "few", "log"]


def test_what_a_declaration_leaves_out_has_defaults(make_project: MakeProject) -> None:
    (table,) = make_project(shop()).source().tables
    options = table.options
    assert (options.table_type, options.table_version, options.deletes) == ("mor", 9, "soft")
    assert (options.partition_by, options.buckets, table.location) == ((), None, "order_line")


def test_dbts_older_place_of_meta_is_read_too(make_project: MakeProject) -> None:
    source = shop()
    source["tables"][0]["meta"] = source["tables"][0].pop("config")["meta"]
    assert make_project(source).source().tables[0].options.topic == "shop.order_line"


def test_identifier_and_location_name_the_silver_table(make_project: MakeProject) -> None:
    source = shop()
    source["tables"][0] |= {"identifier": "lines", "external": {"using": "hudi", "location": "s3a://lake/lines"}}
    project = make_project(source)
    (table,) = project.source().tables
    assert (table.relation, table.location) == (f"`{project.schema}`.`lines`", "s3a://lake/lines")


def test_sources_without_ingest_are_dbts_business_only(make_project: MakeProject) -> None:
    project = make_project(shop())
    other = (
        "sources:\n- name: erp\n  tables:\n  - {name: any, columns: [{name: x}], description: \"{{ doc('any') }}\"}\n"
    )
    project.write_models(other, "erp.yml")
    assert list(load_sources(Project.load(project.root))) == ["shop"]


def test_declarations_render_variables_target_and_environment(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PREFIX", "prod")
    source = shop()
    ingest_of(source)["topic"] = (
        "{{ env_var('SHOP_PREFIX') }}.{{ var('entity') }}.{{ target.type }}.{{ env_var('NOT', 'x') }}"
    )
    project = make_project(source)
    settings = project.root / "dbt_project.yml"
    written = settings.read_text(encoding="utf-8")
    name = Project.load(project.root).name
    settings.write_text(f"{written}vars: {{entity: line}}\n", encoding="utf-8")
    assert project.source().tables[0].options.topic == "prod.line.spark.x"
    # The project's own win over those of all packages, as in dbt.
    settings.write_text(f"{written}vars: {{entity: line, {name}: {{entity: own}}}}\n", encoding="utf-8")
    assert project.source().tables[0].options.topic == "prod.own.spark.x"


def test_what_only_dbt_renders_of_a_source_is_left_to_it(make_project: MakeProject) -> None:
    source = shop()
    (table, *_) = source["tables"]
    source |= {"description": "{{ doc('shop') }}", "freshness": {"filter": "{{ dbt.dateadd('day', -1, this) }}"}}
    table |= {"description": "{{ doc('lines') }} of {{ var('entity', 'all') }}",
              "data_tests": [{"unique": {"column_name": "id", "config": {"where": "{{ this }}"}}}]}  # fmt: skip
    table["columns"][0]["description"] = "{{ doc('nowhere') }}"
    project = make_project(source)
    blocks = "{% docs lines %}\nLines of orders.\n{% enddocs %} {%- docs shop -%} A shop {%- enddocs -%}"
    with (project.root / "dbt_project.yml").open("a", encoding="utf-8") as file:
        file.write("seed-paths: [tables]\n")
    (project.root / "tables").mkdir()
    (project.root / "tables" / "docs.md").write_text(blocks, encoding="utf-8")
    read = project.source().tables[0]
    assert read.description == "Lines of orders. of all"
    assert read.columns[0].description == "{{ doc('nowhere') }}"


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ env_var.__globals__ }}",
        "{{ env_var.__func__.__globals__['os'].environ }}",
        "{{ var.__self__ }}",
        "{{ ().__class__.__base__.__subclasses__() }}",
        "{{ ''|attr('__class__') }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{% set x = target.update({'type': 'other'}) %}",
        "{% include '/etc/hostname' %}",
        "{{ lipsum() }}{{ cycler }}",
    ],
)
def test_a_template_cannot_leave_its_sandbox(template: str, make_project: MakeProject) -> None:
    source = shop()
    ingest_of(source)["topic"] = template
    error = refused(make_project(source))
    assert "cannot be rendered" in error.message
    assert "ingest.topic" in error.message


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("INT", T.IntegerType()),
        (" bigint ", T.LongType()),
        ("numeric(38, 38)", T.DecimalType(38, 38)),
        ("array<decimal(8,2)>", T.ArrayType(T.DecimalType(8, 2))),
        ("array<array<int>>", T.ArrayType(T.ArrayType(T.IntegerType()))),
        ("timestamp", T.TimestampType()),
    ],
)
def test_types_are_sparks_by_their_sql_names(text: str, data_type: T.DataType) -> None:
    assert parse_data_type(text, where="here") == data_type


# Where the project and its profiles are


@pytest.fixture
def project(make_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> DbtProject:
    for name in ("DBT_PROFILES_DIR", "DBT_PROJECT_DIR", "LAKE_TARGET"):
        monkeypatch.delenv(name, raising=False)
    return make_project(shop())


def moved_profiles(project: DbtProject, to: Path) -> Path:
    to.mkdir()
    for name in ("profiles.yml", "connections.yml"):
        (project.root / name).rename(to / name)
    return to


def test_the_current_folder_is_the_project_unless_another_is_named(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(project.root)
    assert Project.load().root == project.root
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DeclarationError, match=r"no dbt_project\.yml(.|\n)*--project-dir"):
        Project.load()
    monkeypatch.setenv("DBT_PROJECT_DIR", str(project.root))
    assert Project.load().root == project.root


def test_profiles_are_found_where_dbt_finds_them(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert Project.load(project.root).profiles_dir == project.root
    elsewhere = moved_profiles(project, tmp_path / "elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(DeclarationError, match=r"\.dbt: there is no profiles\.yml(.|\n)*DBT_PROFILES_DIR"):
        Project.load(project.root)
    assert Project.load(project.root, elsewhere).profiles_dir == elsewhere
    monkeypatch.setenv("DBT_PROFILES_DIR", str(elsewhere))
    assert Project.load(project.root).profiles_dir == elsewhere
    with pytest.raises(DeclarationError, match="there is no profiles"):  # the option comes before the variable
        Project.load(project.root, tmp_path)
    monkeypatch.delenv("DBT_PROFILES_DIR")
    (tmp_path / "home").mkdir()
    elsewhere.rename(tmp_path / "home" / ".dbt")
    assert Project.load(project.root).profiles_dir == tmp_path / "home" / ".dbt"


def test_connections_lie_beside_the_profiles_that_a_link_leads_to(project: DbtProject, tmp_path: Path) -> None:
    real = moved_profiles(project, tmp_path / "profiles")
    (project.root / "profiles.yml").symlink_to(real / "profiles.yml")
    loaded = Project.load(project.root)
    assert loaded.profiles_dir == real
    assert set(loaded.connections) == {"files"}


def test_the_repositorys_own_profiles_are_a_link() -> None:
    assert Project.load(REPOSITORY).profiles_dir == REPOSITORY / "profiles"


def test_a_target_or_profile_that_is_not_there_is_answered_with_those_that_are(project: DbtProject) -> None:
    with pytest.raises(DeclarationError, match=r"no target 'prod'(.|\n)*one of: dev(.|\n)*--target"):
        Project.load(project.root, target="prod")
    (project.root / "dbt_project.yml").write_text("name: tested\nprofile: other\n", encoding="utf-8")
    with pytest.raises(DeclarationError, match=r"no profile 'other'(.|\n)*found: lakehouse"):
        Project.load(project.root)


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("dbt_project.yml", "name: tested\nprofile: lakehouse\nmodel-paths: models\n", "model-paths: is 'models'"),
        ("dbt_project.yml", "name: tested\nprofile: lakehouse\nvars: [x]\n", "vars: holds a list"),
        ("profiles.yml", "lakehouse: dev\n", "lakehouse: holds a str"),
        ("profiles.yml", "lakehouse: {target: dev, outputs: [dev]}\n", "lakehouse.outputs: holds a list"),
        ("profiles.yml", "lakehouse: {target: dev, outputs: {dev: spark}}\n", "outputs.dev: holds a str"),
        ("connections.yml", "1: {type: files, path: x}\n", "connections.yml: 1"),
    ],
)
def test_a_file_of_the_project_that_holds_something_else_is_refused(
    project: DbtProject, file: str, text: str, told: str
) -> None:
    """Each ended with a stack trace, or looked for declarations in the folders m, o, d, e, l and s."""
    (project.root / file).write_text(text, encoding="utf-8")
    error = refused(project)
    assert file in error.message
    assert told in error.message


def test_what_a_mapping_merges_in_is_no_key_of_its_own(make_project: MakeProject) -> None:
    project = make_project()
    project.write_models(
        "sources:\n- name: shop\n  tables:\n  - name: t\n"
        "    config: {meta: {ingest: {connection: files, connector: mariadb, topic: t, key: [id]}}}\n"
        "    columns:\n    - &id {name: id, data_type: int}\n    - {<<: *id, name: other}\n"
    )
    assert [column.name for column in project.source().tables[0].columns] == ["id", "other"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("files: {type: ftp, path: x}", "is of type 'ftp'"),
        ("files: {type: kafka}", "bootstrap_servers is missing"),
        ("files: {type: kafka, bootstrap_servers: a, options: {group.id: b}}", "group.id, which lake sets"),
        ("files: {type: kafka, bootstrap_servers: a, options: {auto.offset.reset: earliest}}", "which lake sets"),
        (
            "files: {type: kafka, bootstrap_servers: a, options: {sasl.jaas.config: b}}",
            "sasl.jaas.config is written into",
        ),
        ("files: {type: kafka, bootstrap_servers: a, options: {kafka.sasl.jaas.config: geheim}}", "is written into"),
        (
            "files: {type: kafka, bootstrap_servers: a, options: {kafka.client.id: b, consumer.check.crcs: false}}",
            "consumer.check.crcs, kafka.client.id: expected the names of Kafka's clients, check.crcs, client.id",
        ),
        (
            "files: {type: kafka, bootstrap_servers: a, options: "
            "{sasl.jaas.config: \"M required username='{{ env_var('HOME') }}' password='geheim';\"}}",
            "sasl.jaas.config is written into",
        ),
        (
            "files: {type: files, path: x, registry: {url: 'http://a', basic.auth.user.info: 'me:geheim'}}",
            "registry.basic.auth.user.info is not a known key",
        ),
        ("files: {type: files}", "path is missing"),
        ("files: {type: files, path: 'bronze/20??'}", "'bronze/20??' is a pattern"),
        ("files: {type: files, path: x, region: eu}", "region is not a known key"),
        ("files: bronze", "'bronze'"),
        ("files: {type: files, path: \"{{ env_var('NO_SUCH_FOLDER') }}\"}", "NO_SUCH_FOLDER is not set"),
    ],
)
def test_a_wrong_connection_is_refused_with_file_and_name(project: DbtProject, text: str, told: str) -> None:
    (project.root / "connections.yml").write_text(text, encoding="utf-8")
    error = refused(project)
    assert "connections.yml: files" in error.message
    assert told in error.message
    assert "geheim" not in error.message
