"""The local Athena by its API: queries, tables of Iceberg and of Hudi, views, and what it refuses."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from conftest import MakeProject, Row, pg, table_of
from pyspark.sql import SparkSession

from athena.engine.local import LocalAthena
from dev.chain.aws import client_of

pytestmark = [pytest.mark.athena, pytest.mark.spark]
COLUMNS = {"id": "int", "name": "string", "price": "decimal(8, 2)", "day": "date", "made_at": "timestamp",
           "big": "bigint", "is_new": "boolean"}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def shop(athena: LocalAthena) -> None:
    """A schema for what is made here."""
    athena.ask("create schema if not exists `shop`")


def test_a_query_passes(athena: LocalAthena) -> None:
    """With values of each type, and its kind."""
    assert athena.ask("select 1, cast(null as varchar), decimal '1.50', timestamp '2020-01-01 00:00:00.123456'") == [
        ["1", None, "1.50", "2020-01-01 00:00:00.123456"]
    ]  # fmt: skip


def test_many_rows_come_in_pages(athena: LocalAthena) -> None:
    """A page of Athena's has a thousand rows, and the first the header."""
    assert athena.ask("select n from unnest(sequence(1, 2500)) as t(n)") == [[str(n)] for n in range(1, 2501)]


def test_an_iceberg_table_is_made_merged_altered_and_renamed(athena: LocalAthena) -> None:
    """By Athena's statements."""
    athena.ask("create table shop.numbers with (table_type='iceberg', is_external=false, "
               "location='s3://lakehouse/numbers', format='parquet', partitioning=array['kind']) as "
               "select n, 'a' as kind from unnest(sequence(1, 3)) as t(n)")  # fmt: skip
    athena.ask("merge into numbers using (select 2 as n) as t on numbers.n = t.n when matched then delete")
    athena.ask("alter table `shop`.`numbers` add columns (`note` string)")
    athena.ask("alter table `shop`.`numbers` rename to `shop`.`counted`")
    assert athena.ask("select n, kind, note from counted order by n") == [["1", "a", None], ["3", "a", None]]
    athena.ask("drop table `shop`.`counted`")
    assert athena.refusal("select * from counted").startswith("TABLE_NOT_FOUND: ")


def test_a_view_has_its_columns_in_the_catalog(athena: LocalAthena) -> None:
    """dbt reads their types there."""
    athena.ask("create or replace view v as select 1 as id, 'x' as name, timestamp '2020-01-01 00:00:00' as at")
    view = client_of(athena.aws, "glue").get_table(DatabaseName="shop", Name="v")["Table"]
    assert [(each["Name"], each["Type"]) for each in view["StorageDescriptor"]["Columns"]] == [
        ("id", "int"), ("name", "string"), ("at", "timestamp"),
    ]  # fmt: skip
    assert athena.ask("select name from v") == [["x"]]


def test_times_of_an_iceberg_table_have_six_digits(athena: LocalAthena) -> None:
    """Athena takes no others, where Trino would round them."""
    told = athena.refusal("create table shop.times with (table_type='iceberg', location='s3://lakehouse/times') as "
                          "select timestamp '2020-01-01 00:00:00.123' as at")  # fmt: skip
    assert told.startswith("NOT_SUPPORTED: Timestamp precision (3) not supported for Iceberg")


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_hudi_table_that_spark_writes_is_read(
    athena: LocalAthena, spark: SparkSession, make_project: MakeProject, table_type: str
) -> None:
    """By the name that Glue has of it: its newest rows, also of a merge-on-read table, which is compacted."""
    name = f"item_{table_type}"
    project = make_project({"tables": [table_of(name, COLUMNS, ["id"], table_type=table_type)]})
    rows: list[Row] = [
        {
            "id": n, "name": f"n{n}", "price": f"{n}.50", "day": 18_000 + n,
            "made_at": 1_600_000_000_123_000 + n * 1000, "big": 2**40 + n, "is_new": n % 2 == 0,
        }
        for n in range(1, 4)
    ]  # fmt: skip
    project.deliver(f"shop.{name}", 0, [pg("c", 10 + n, **row) for n, row in enumerate(rows)])
    project.land_well(spark, name)
    project.deliver(f"shop.{name}", 10, [pg("u", 20, **{**rows[0], "name": "new"}), pg("d", 21, **rows[1])])
    project.land_well(spark, name)
    columns = f"{', '.join(COLUMNS).replace('made_at', 'cast(made_at as timestamp(3))')}, __deleted"
    assert athena.ask(f"select {columns} from {project.schema}.{name} order by id") == [
        ["1", "new", "1.50", "2019-04-15", "2020-09-13 12:26:40.124", "1099511627777", "false", "false"],
        ["2", *[None] * 6, "true"],
        ["3", "n3", "3.50", "2019-04-17", "2020-09-13 12:26:40.126", "1099511627779", "false", "false"],
    ]


def test_what_has_no_output_location_is_refused(athena: LocalAthena) -> None:
    """As by a workgroup that has none, where the query names none either."""
    with pytest.raises(ClientError, match="No output location provided"):
        athena.run("select 1", WorkGroup="without_output")
    with pytest.raises(ClientError, match="Unable to verify/create output bucket nowhere"):
        athena.run("select 1", WorkGroup="without_output", ResultConfiguration={"OutputLocation": "s3://nowhere/"})
    with pytest.raises(ClientError, match="WorkGroup unknown is not found"):
        athena.run("select 1", WorkGroup="unknown")


def test_a_query_is_stopped(athena: LocalAthena) -> None:
    """One that would run for long."""
    client = client_of(athena.athena, "athena")
    long = f"select count(*) from {', '.join(f'unnest(sequence(1, 9000)) as {name}(n)' for name in 'abc')}"
    started = client.start_query_execution(QueryString=long)["QueryExecutionId"]
    client.stop_query_execution(QueryExecutionId=started)
    assert athena.ended(started)["Status"]["State"] == "CANCELLED"
