"""What the local Athena makes of Athena's statements, types and values; no server runs."""

from __future__ import annotations

import pytest

from dev.chain.athena.dialect import Dialect, RefusedError
from dev.chain.athena.engine import Rows
from dev.chain.athena.names import Name, hive_type, listed, trino_type
from dev.chain.athena.values import column_info, result

OF_ICEBERG = Name("shop", "marts")
DIALECT = Dialect("shop", lambda name: name == OF_ICEBERG)

TRANSLATED = {
    "select 1 -- a remark; with `quotes`": ("select 1 -- a remark; with `quotes`",),
    "-- /* {\"app\": \"dbt\"} */\nselect 1;\n": ("select 1",),
    "merge into marts using t on a = b when matched then delete":
        ("merge into marts using t on a = b when matched then delete",),
    "create schema if not exists `lake_sales`": ('create schema if not exists  "awsdatacatalog"."lake_sales"',),
    "drop database if exists `lake_sales` cascade": ('drop schema if exists  "awsdatacatalog"."lake_sales"  cascade',),
    'create table "awsdatacatalog"."shop"."new" with (table_type=\'iceberg\', is_external=false, '
    "location='s3://lake/new', partitioning=array['day', 'bucket(id, 4)'], format='parquet') as select ')' as x":
        ('create table  "iceberg"."shop"."new" with (location = \'s3://lake/new\', '
         "partitioning = array['day', 'bucket(id, 4)'], format = 'PARQUET') as\nselect ')' as x",),
    "create table new with (table_type='hive', is_external=true, external_location='s3://lake/new', "
    "write_compression='zstd', format='parquet') as with a as (select 1) select * from a":
        ('create table  "awsdatacatalog"."shop"."new" with (external_location = \'s3://lake/new\', '
         "format = 'PARQUET') as\nwith a as (select 1) select * from a",),
    "create external table `shop`.`seed` (`id` string, `when` string comment 'it''s, (so)') row format serde "
    "'org.apache.hadoop.hive.serde2.OpenCSVSerde' location 's3://lake/seed' "
    "tblproperties ('skip.header.line.count'='1')":
        ('create table  "awsdatacatalog"."shop"."seed" ("id" varchar, "when" varchar comment \'it\'\'s, (so)\') with '
         "(external_location = 's3://lake/seed', format = 'CSV', skip_header_line_count = 1)",),
    "create table shop.t (id int, tags array<string>) partitioned by (day(at)) location 's3://lake/t' "
    "tblproperties ('table_type'='ICEBERG')":
        ('create table "iceberg"."shop"."t" ("id" integer, "tags" array(varchar)) with '
         "(location = 's3://lake/t', partitioning = array['day(at)'])",),
    "create or replace view v as select * from t":
        ('create or replace  view "awsdatacatalog"."shop"."v" as\n select * from t',),
    "alter table `shop`.`marts` rename to `shop`.`old`":
        ('alter table "iceberg"."shop"."marts" rename to "iceberg"."shop"."old"',),
    "alter table files rename to old":
        ('alter table "awsdatacatalog"."shop"."files" rename to "awsdatacatalog"."shop"."old"',),
    "alter table marts add columns (a int, b map<string,int>)":
        ('alter table "iceberg"."shop"."marts" add column "a" integer',
         'alter table "iceberg"."shop"."marts" add column "b" map(varchar, integer)'),
    "alter table marts drop column a": ('alter table "iceberg"."shop"."marts" drop column "a"',),
    "alter table marts change column a b int": ('alter table "iceberg"."shop"."marts" rename column "a" to "b"',),
    "alter table marts change a a bigint":
        ('alter table "iceberg"."shop"."marts" alter column "a" set data type bigint',),
    "drop table if exists `shop`.`marts`": ('drop table if exists  "iceberg"."shop"."marts"',),
    "drop view v": ('drop view  "awsdatacatalog"."shop"."v"',),
    "msck repair table files": ("call awsdatacatalog.system.sync_partition_metadata('shop', 'files', 'FULL')",),
    "optimize marts rewrite data using bin_pack where day = date '2020-01-01'":
        ("alter table \"iceberg\".\"shop\".\"marts\" execute optimize  where day = date '2020-01-01'",),
    "show tables in `other`": ('show tables from "awsdatacatalog"."other"',),
    "describe shop.marts": ('describe "awsdatacatalog"."shop"."marts"',),
}  # fmt: skip
REFUSED = {
    'create schema if not exists "lake"': "mismatched input '\"'",
    'alter table "shop"."t" rename to "x"': "mismatched input '\"'",
    "truncate table t": "mismatched input 'truncate'",
    "alter table t recover partitions": "alter table is translated for rename",
    "create external table t (a int) row format serde 'org.openx.data.jsonserde.JsonSerDe' location 's3://lake/t'":
        "for OpenCSVSerde alone",
    "create table t (a int)": "found no location",
}  # fmt: skip
TYPES = {
    "string": "varchar", "int": "integer", "float": "real", "binary": "varbinary", "bigint": "bigint",
    "decimal(8,2)": "decimal(8,2)", "date": "date", "array<array<int>>": "array(array(integer))",
    "map<string,decimal(3,1)>": "map(varchar, decimal(3,1))",
    "struct<a:int,b:array<string>>": "row(a integer, b array(varchar))",
}  # fmt: skip


@pytest.mark.parametrize("statement", TRANSLATED)
def test_a_statement_of_athena_is_one_of_trino(statement: str) -> None:
    """Quotes, brackets, properties and catalogs become Trino's; queries are left as they are."""
    assert DIALECT.translate(statement).steps == TRANSLATED[statement]


@pytest.mark.parametrize("statement", REFUSED)
def test_what_athena_refuses_is_refused(statement: str) -> None:
    """Also what Trino alone would take."""
    with pytest.raises(RefusedError, match=REFUSED[statement]):
        DIALECT.translate(statement)


def test_properties_of_a_table_are_the_catalogs() -> None:
    """They are no statement of Trino's."""
    told = DIALECT.translate("alter table `shop`.`t` set tblproperties ('classification' = 'parquet')")
    assert (told.steps, told.properties) == ((), (Name("shop", "t"), {"classification": "parquet"}))


def test_kinds_say_how_rows_are_read() -> None:
    """dbt skips the first row of a query, and none of other statements."""
    kinds = {
        sql: DIALECT.translate(sql).kind for sql in ("select 1", "show tables", "drop view v", "insert into t values 1")
    }
    assert list(kinds.values()) == ["DML", "UTILITY", "DDL", "DML"]


@pytest.mark.parametrize("hive", TYPES)
def test_types_are_the_same_both_ways(hive: str) -> None:
    """What a table is made with is what the catalog has."""
    assert trino_type(hive) == TYPES[hive]
    assert hive_type(TYPES[hive]) == hive


def test_types_that_the_catalog_has_without_their_size() -> None:
    """Glue has no precision of times, and no length of texts."""
    types = ("timestamp(6)", "varchar(10)", "row(integer, varchar(1))", 'row("a b" timestamp(3))')
    assert [hive_type(of) for of in types] == [
        "timestamp", "string", "struct<field0:int,field1:string>", "struct<a b:timestamp>",
    ]  # fmt: skip


def test_a_list_is_cut_at_its_own_commas() -> None:
    """Not in brackets, and not in quotes."""
    assert listed("a decimal(8, 2), b map<string, int>, c 'x, y', ") == [
        "a decimal(8, 2)",
        "b map<string, int>",
        "c 'x, y'",
    ]


def test_values_are_texts() -> None:
    """As the API of Athena gives them; a null is no text."""
    types = [
        "integer",
        "boolean",
        "varbinary",
        "array(varchar)",
        "map(varchar, integer)",
        "row(a integer, b boolean)",
        "date",
    ]
    row = [1, True, "AP8=", ["a", "", None], {"k": 1}, [1, False], None]
    rows = Rows([(f"c{number}", of) for number, of in enumerate(types)], [row])
    header, values = result(rows, plain=False)
    assert header == ["c0", "c1", "c2", "c3", "c4", "c5", "c6"]
    assert values == ["1", "true", "00 ff", "[a, , null]", "{k=1}", "{a=1, b=false}", None]
    assert result(Rows([("t", "varchar")], [["a", None, "b"]]), plain=True) == [["a\tb"]]


def test_columns_tell_the_type_without_its_size() -> None:
    """As dbt compares it with the contract's; a decimal's digits stand beside it."""
    told = {
        of: column_info("c", of)
        for of in ("decimal(8,2)", "varchar(3)", "timestamp(6)", "timestamp(3) with time zone", "real")
    }
    assert [each["Type"] for each in told.values()] == [
        "decimal", "varchar", "timestamp", "timestamp with time zone", "float"
    ]  # fmt: skip
    assert (told["decimal(8,2)"]["Precision"], told["decimal(8,2)"]["Scale"]) == (8, 2)
