"""`lake reconcile` against real PostgreSQL and MariaDB servers, whose session time zone is not UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from conftest import REPOSITORY, DbtProject, MakeProject, table_of, unwrapped
from pyspark.sql import SparkSession

from ingest import reconcile as module
from ingest.datasets import generate
from ingest.declaration import Table
from ingest.reconcile import Reconciled, reconcile
from real.conftest import PASSWORD, Server

pytestmark = [pytest.mark.spark, pytest.mark.real]

DECLARATION = REPOSITORY / "models" / "staging" / "tickit" / "_tickit__sources.yml"


def connect(project: DbtProject, monkeypatch: pytest.MonkeyPatch, server: Server, **files: str) -> None:
    monkeypatch.setenv("REAL_PASSWORD", PASSWORD)
    database = {"type": "jdbc", "url": server.url, "user": server.user, "password": "{{ env_var('REAL_PASSWORD') }}"}
    connections: dict[str, Any] = {name: {"type": "files", "path": path} for name, path in files.items()}
    text = yaml.safe_dump({**connections, "source_db": database})
    (project.root / "connections.yml").write_text(text, encoding="utf-8")


def compared(project: DbtProject, spark: SparkSession, table: str) -> Reconciled:
    result = reconcile(spark, project.source().choose([table])[0], limit=100)
    assert result.error is None, result.error
    return result


def told(result: Reconciled) -> set[tuple[str, str, tuple[str, ...]]]:
    return {(row.kind, "/".join(str(part) for part in row.key.values()), row.columns) for row in result.differences}


def literal(value: object) -> str:
    if value is None:
        return "null"
    text = str(value).replace("'", "''")
    return text.lower() if isinstance(value, bool) else f"'{text}'"


def fill(server: Server, table: Table, oracle: Path, types: dict[str, str]) -> None:
    rows = pq.read_table(oracle).to_pylist()
    name = table.options.topic.rsplit(".", 1)[-1]
    spelled = {column.name: column.data_type.simpleString() for column in table.columns}
    columns = ", ".join(f"{column} {types.get(spelling, spelling)}" for column, spelling in spelled.items())
    values = ",\n".join("(" + ", ".join(map(literal, row.values())) + ")" for row in rows)
    quote = "`" if "mariadb" in server.url else '"'
    server.run(f"create table {quote}{name}{quote} ({columns}, primary key ({', '.join(table.key)}));\n"
               f"insert into {quote}{name}{quote} values {values};\n")  # fmt: skip


@pytest.mark.parametrize("server_name", ["postgresql", "mariadb"])
def test_tickit(
    server_name: str,
    make_project: MakeProject,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """The example's tables are equal; then each kind of difference is found, and its key."""
    server: Server = request.getfixturevalue(server_name)
    schema = "public" if server_name == "postgresql" else "shop"
    types = {"string": "text", "timestamp": "timestamp(6)" if schema == "public" else "datetime(6)"}
    (source,) = [
        entry
        for entry in yaml.safe_load(DECLARATION.read_text(encoding="utf-8"))["sources"]
        if entry["name"] == "tickit"
    ]
    source["tables"] = [table for table in source["tables"] if table["name"] in ("sale", "user", "date", "category")]
    for table in source["tables"]:
        ingest = table["config"]["meta"]["ingest"]
        ingest["database"] = {"connection": "source_db", "table": f"{schema}.{ingest['topic'].rsplit('.', 1)[-1]}"}
    project = make_project(source, name="tickit")
    connect(project, monkeypatch, server, tickit_cdc=str(project.bronze))
    generate("tickit", project.root, scale=0.002, form="avro")
    project.land_well(spark)
    tables = project.source().tables
    for declared in tables:
        oracle = project.root / "oracle" / "changes" / f"{declared.options.topic.removeprefix('tickit.')}.parquet"
        fill(server, declared, oracle, types)
    monkeypatch.setattr(module, "_ROWS_A_READ", 50)  # several reads, also of a small table
    for declared in tables:
        result = compared(project, spark, declared.name)
        assert result.equal, (declared.name, told(result))
        assert result.source_rows == result.silver_rows > 0

    keys = [row["salesid"] for row in project.rows(spark, "sale", "salesid")][:4]
    server.run(
        f"update sale set qtysold = qtysold + 1 where salesid = {keys[0]};"
        f"update sale set commission = commission + 0.01 where salesid = {keys[1]};"
        f"delete from sale where salesid = {keys[2]};"
        f"update sale set salesid = 99999999 where salesid = {keys[3]};"
    )
    assert told(compared(project, spark, "sale")) == {
        ("different", str(keys[0]), ("qtysold",)),
        ("different", str(keys[1]), ("commission",)),
        ("extra", str(keys[2]), ()),
        ("extra", str(keys[3]), ()),
        ("missing", "99999999", ()),
    }


AT = datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=UTC)
MICROS = int(AT.timestamp()) * 1_000_000 + AT.microsecond
DAY = (date(1969, 12, 31) - date(1970, 1, 1)).days


def test_types_of_mariadb(
    make_project: MakeProject, spark: SparkSession, mariadb: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"id": "decimal(20,0)", "flag": "int", "at": "timestamp", "stamped": "timestamp", "day": "date",
               "price": "decimal(12,4)", "note": "string"}  # fmt: skip
    table = table_of("order", columns, ["id"], connector="mariadb", database={"connection": "source_db"})
    # Twenty digits could be base64 as well.
    table["columns"][0]["config"] = {"meta": {"ingest": {"decimal": "number"}}}
    project = make_project({"tables": [table]})
    connect(project, monkeypatch, mariadb, files=str(project.bronze))
    row = {"id": "18446744073709551615", "flag": 1, "at": MICROS // 1000, "stamped": "2024-02-29T23:59:59Z", "day": DAY,
           "price": "1.0001", "note": ""}  # fmt: skip
    position = {"__source_file": "bin.000001", "__source_pos": 4, "__source_row": 0}
    project.deliver("shop.order", 0, [unwrapped("c", position, row)])
    project.land_well(spark)
    mariadb.run(
        "create table `order` (id bigint unsigned primary key, flag tinyint(1), at datetime(3), stamped timestamp, "
        "day date, price decimal(12,4), note longtext);"
        "insert into `order` values (18446744073709551615, 1, '2024-02-29 23:59:59.123', '2024-03-01 08:59:59', "
        "'1969-12-31', 1.0001, '');"
    )
    result = compared(project, spark, "order")
    assert result.equal, told(result)
    mariadb.run("update `order` set note = null, at = '2024-02-29 23:59:59.124', price = 1.0002")
    assert told(compared(project, spark, "order")) == {
        ("different", "18446744073709551615", ("at", "price", "note"))
    }  # fmt: skip
