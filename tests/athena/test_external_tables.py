"""The plan by which dbt_external_tables registers silver on Athena: what it is, and what is refused.

Athena and Glue are moto's. With the real package, where DBT_PACKAGES_FROM has one, Athena gets the plan's statements.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from conftest import REPOSITORY
from dbt.cli.main import dbtRunner
from moto.server import ThreadedMotoServer
from sqlglot import exp, parse_one

pytestmark = pytest.mark.athena
ROOT = "s3://lake/silver"
REGION = "us-east-1"
KEYS = {"aws_access_key_id": "lake", "aws_secret_access_key": "lake-on-this-machine"}
TABLES: dict[str, dict[str, Any]] = {
    "sale": {},
    "Listing": {"ingest": {"table_type": "cow"}, "external": {"location": "s3a://elsewhere/listing"}},
    "in_parts": {"ingest": {"partition_by": ["name"]}},
    "too_new": {"ingest": {"table_version": 9}},
    "of_parquet": {"external": {"using": "parquet"}},
    "on_disk": {"external": {"location": "file:///tmp/on_disk"}},
    "untyped": {"columns": [{"name": "id"}]},
    "without_columns": {"columns": []},
}
COLUMNS = [
    {"name": "saleId", "data_type": "int"},
    {"name": "name", "data_type": "string"},
    {"name": "price", "data_type": "decimal(8,2)", "config": {"meta": {"ingest": {"policy": "hash"}}}},
    {"name": "phone", "data_type": "string", "config": {"meta": {"ingest": {"policy": "exclude"}}}},
    {"name": "sold_at", "data_type": "timestamp"},
]
OWN = ["saleid int", "name string", "price string", "sold_at timestamp"]
# One macro of the test, beside those of the repository: prints the plan of a source table.
PLAN = """
{% macro print_plan(table) %}
    {% for node in graph.sources.values() if node.name == table %}
        {{ print(tojson(athena__get_external_build_plan(node))) }}
    {% endfor %}
{% endmacro %}
"""


def declaration(name: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a table in the sources file."""
    return {
        "name": name,
        "external": {"using": "hudi", **told.get("external", {})},
        "config": {"meta": {"ingest": {"key": ["saleId"], **told.get("ingest", {})}}},
        "columns": told.get("columns", COLUMNS),
    }


class Shop:
    """A dbt project whose target is moto's Athena, with the repository's macros."""

    def __init__(self, root: Path, address: str) -> None:
        self.root, self.address = root, address
        self.profile = {
            "type": "athena", "database": "awsdatacatalog", "schema": "shop", "region_name": REGION,
            "s3_staging_dir": "s3://results/", "threads": 1, "poll_interval": 0.1, **KEYS,
        }  # fmt: skip
        settings = {
            "name": "shop", "profile": "shop", "macro-paths": [str(REPOSITORY / "macros"), "macros"],
            "packages-install-path": "packages",
        }  # fmt: skip
        source = {"name": "shop", "schema": "silver_shop", "tables": [declaration(*each) for each in TABLES.items()]}
        for path, told in {
            "dbt_project.yml": yaml.safe_dump(settings),
            "profiles.yml": yaml.safe_dump({"shop": {"target": "athena", "outputs": {"athena": self.profile}}}),
            "models/sources.yml": yaml.safe_dump({"sources": [source]}),
            "macros/print_plan.sql": PLAN,
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(told, encoding="utf-8")

    def client(self, service: Any) -> Any:
        """A client of moto's server."""
        session = boto3.session.Session(KEYS["aws_access_key_id"], KEYS["aws_secret_access_key"], region_name=REGION)
        return session.client(service, endpoint_url=self.address)

    def dbt(self, *words: str) -> Any:
        """Runs a command of dbt."""
        rooms = ("--project-dir", str(self.root), "--profiles-dir", str(self.root))
        return dbtRunner().invoke(["--quiet", *words, *rooms])

    def register(self, name: str, location: str, columns: Mapping[str, str]) -> None:
        """Makes a table in Glue."""
        self.client("glue").create_table(DatabaseName="silver_shop", TableInput={
            "Name": name, "TableType": "EXTERNAL_TABLE", "Parameters": {"EXTERNAL": "TRUE"},
            "StorageDescriptor": {
                "Location": location, "Columns": [{"Name": each, "Type": kind} for each, kind in columns.items()],
            },
        })  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The project, and a server of its own."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    here, (_, port) = Path.cwd(), server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        patch.setenv("LAKE_ROOT", ROOT)
        yield Shop(tmp_path_factory.mktemp("shop"), f"http://127.0.0.1:{port}")
    server.stop()
    os.chdir(here)


Printed = pytest.CaptureFixture[str]


def plan_of(shop: Shop, table: str, capsys: Printed, *words: str) -> list[str]:
    """The statements that register a table."""
    capsys.readouterr()
    done = shop.dbt("run-operation", "print_plan", "--args", json.dumps({"table": table}), *words)
    assert done.success, done.exception
    plan: list[str] = json.loads(capsys.readouterr().out.strip())
    return plan


def refused(shop: Shop, table: str, capsys: Printed) -> str:
    """What is said where a table has no plan."""
    capsys.readouterr()
    assert not shop.dbt("run-operation", "print_plan", "--args", json.dumps({"table": table})).success
    return capsys.readouterr().out


def table_of(statement: str) -> tuple[str, list[str], str, str]:
    """Of a statement that creates a table: its name, its columns, its input format, its place."""
    created = parse_one(statement, dialect="athena")
    assert isinstance(created, exp.Create)
    shape = created.this
    columns = [f"{each.name} {each.kind.sql('hive').lower()}" for each in shape.expressions]
    formats = created.find(exp.InputOutputFormat)
    place = created.find(exp.LocationProperty)
    assert formats is not None
    assert place is not None
    return ".".join(part.name for part in shape.this.parts), columns, formats.args["input_format"].name, place.this.name


def test_a_merge_on_read_table_is_three_tables(shop: Shop, capsys: Printed) -> None:
    schema, *tables = plan_of(shop, "sale", capsys)
    assert schema == "create schema if not exists `silver_shop`"
    found = [table_of(each) for each in tables]
    assert [(name, kind.rsplit(".", 1)[-1]) for name, _, kind, _ in found] == [
        ("silver_shop.sale", "HoodieParquetInputFormat"),
        ("silver_shop.sale_ro", "HoodieParquetInputFormat"),
        ("silver_shop.sale_rt", "HoodieParquetRealtimeInputFormat"),
    ]
    for _, columns, _, place in found:
        assert columns[:1] == ["_hoodie_commit_time string"]
        assert columns[5:] == [*OWN, "__op string", "__deleted string", "__source_ts_ms bigint", "__position string"]
        assert place == f"{ROOT}/silver_shop.db/sale/"


def test_a_copy_on_write_table_is_one_where_it_is_declared(shop: Shop, capsys: Printed) -> None:
    _, *tables = plan_of(shop, "Listing", capsys)
    assert [(name, place) for name, _, _, place in map(table_of, tables)] == [
        ("silver_shop.listing", "s3://elsewhere/listing/")
    ]


def test_a_table_that_is_there_gets_what_it_lacks(shop: Shop, capsys: Printed) -> None:
    shop.client("glue").create_database(DatabaseInput={"Name": "silver_shop"})
    columns = dict(each.split() for each in table_of(plan_of(shop, "Listing", capsys)[1])[1])
    shop.register("listing", "s3a://elsewhere/listing", columns)
    assert plan_of(shop, "Listing", capsys) == []
    again = plan_of(shop, "Listing", capsys, "--vars", "{ext_full_refresh: true}")
    assert again[1] == "drop table if exists `silver_shop`.`listing`"
    assert table_of(again[2])[0] == "silver_shop.listing"
    shop.client("glue").delete_table(DatabaseName="silver_shop", Name="listing")
    shop.register("listing", "s3://elsewhere/listing/", {"saleid": "int", "__op": "string"})
    (added,) = plan_of(shop, "Listing", capsys)
    assert added.startswith("alter table `silver_shop`.`listing` add columns (`_hoodie_commit_time` string, ")
    assert "`sold_at` timestamp" in added
    assert "`saleid`" not in added
    shop.client("glue").delete_table(DatabaseName="silver_shop", Name="listing")
    shop.register("listing", "s3://another/place", {"saleid": "int"})
    told = refused(shop, "Listing", capsys)
    assert "shop.Listing: got `silver_shop`.`listing` at s3://another/place/, expected s3://elsewhere/listing/" in told
    assert "ext_full_refresh: true" in told


@pytest.mark.parametrize(("table", "told"), [
    ("in_parts", "shop.in_parts: got a table with partitions, expected one without: Athena finds no partitions"),
    ("too_new", "shop.too_new: got table_version = 9, expected 6, which Athena reads"),
    ("of_parquet", "shop.of_parquet: got external.using = parquet, expected hudi"),
    ("on_disk", "shop.on_disk: got external.location = 'file:///tmp/on_disk' and LAKE_ROOT = 's3://lake/silver'"),
    ("untyped", "shop.untyped: got column 'id' without data_type, expected a type of each column"),
    ("without_columns", "shop.without_columns: got no columns, expected the declared ones"),
])  # fmt: skip
def test_what_cannot_be_registered_is_refused(shop: Shop, table: str, told: str, capsys: Printed) -> None:
    assert told in refused(shop, table, capsys)


def test_without_a_root_a_relative_place_is_refused(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.delenv("LAKE_ROOT")
    told = refused(shop, "sale", capsys)
    assert "shop.sale: got external.location = 'sale' and LAKE_ROOT = '', expected s3://" in told


def test_the_real_package_gives_athena_the_plan(shop: Shop, capsys: Printed) -> None:
    if "DBT_PACKAGES_FROM" not in os.environ:
        pytest.skip("needs dbt_external_tables: DBT_PACKAGES_FROM names a mirror of it")
    wanted = plan_of(shop, "sale", capsys)
    place = {**os.environ, "DBT_PACKAGES_PATH": str(shop.root / "packages")}
    subprocess.run([sys.executable, REPOSITORY / "dev" / "dbt_packages.py"], env=place, check=True, cwd=shop.root)
    done = shop.dbt("run-operation", "stage_external_sources", "--args", "select: shop.sale")
    assert done.success, done.exception
    athena = shop.client("athena")
    ran = [
        athena.get_query_execution(QueryExecutionId=each)["QueryExecution"]["Query"].split("*/", 1)[1].split()
        for each in athena.list_query_executions()["QueryExecutionIds"]
    ]
    assert sorted(ran) == sorted(each.split() for each in wanted)
