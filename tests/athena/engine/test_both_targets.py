"""Each system on both of dbt's targets, from one silver on S3: the same marts, by rows, values and types."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY
from pyspark.sql import SparkSession

from athena.engine.building import invoked
from athena.engine.local import LocalAthena
from dev.demo import folder_of
from examples import system
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.landing.run import land

pytestmark = [pytest.mark.athena, pytest.mark.spark]
YEAR = ("--event-time-start", "2008-01-01", "--event-time-end", "2009-01-01")
SCALE = 0.01
# Spark's names of types, as Trino tells them of an Iceberg table.
TYPES = {
    "int": "integer", "string": "varchar", "timestamp": "timestamp(6)", "float": "real",
    "array<string>": "array(varchar)",
}  # fmt: skip
# What the projects' models and snapshots are in.
SCHEMAS = ("staging", "intermediate", "reference", "snapshots", "sales", "marketing", "orders", "films", "collection",
           "customers")  # fmt: skip


def test_marts_are_the_same_on_both_targets(spark: SparkSession, athena: LocalAthena, tmp_path: Path) -> None:
    """After five days of changes, which a run on Athena has merged; tests, freshness, docs."""
    made = played(spark, athena, tmp_path, "tickit", SCALE)
    assert made["lakehouse_sales.fct_sales"] == 1
    selected = ("fct_sales", "fct_daily_sales", "dim_venues", "source:tickit.user", "snap_tickit__events")
    _done(tmp_path, "test", "--select", *selected)
    _done(tmp_path, "source", "freshness", "--select", "source:tickit")
    _done(tmp_path, "docs", "generate", "--select", "fct_sales", "stg_tickit__sales")
    catalog = json.loads((tmp_path / "target_athena" / "catalog.json").read_text(encoding="utf-8"))
    assert catalog["nodes"]["model.lakehouse.fct_sales"]["columns"]["price_paid"]["type"] == "decimal(8,2)"


@pytest.mark.long
@pytest.mark.parametrize("name", ["orders", "pagila", "customers", "moma"])
def test_marts_of_other_systems_are_the_same_on_both_targets(
    spark: SparkSession, athena: LocalAthena, tmp_path: Path, name: str
) -> None:
    """With arrays, decimals from texts, rows of JSON arrays, and tombstones that a mart shows; and their tests."""
    assert any(played(spark, athena, tmp_path, name, system(name).demo.scale).values())
    _done(tmp_path, "test", "--selector", name)


def played(spark: SparkSession, athena: LocalAthena, beside: Path, name: str, scale: float) -> dict[str, int]:
    """Lands a system phase by phase and builds it on Athena, then on Spark, and compares its marts; commits of Athena's
    last build."""
    example = system(name)
    tables = load_source(Project.load(REPOSITORY), example.demo.source).tables
    ends = (datetime.now(UTC) - timedelta(days=1)).date()
    # Spark's marts are on disk: only silver is what both targets read, and S3 makes commits of Hudi slow.
    for schema in SCHEMAS:
        spark.sql(f"create database if not exists lakehouse_{schema} location '{(beside / schema).as_uri()}'")
    made, marts = dict[str, int](), set[str]()
    for phase in example.demo.phases:
        example.generate(folder_of(Path(os.environ["LAKE_HOME"]), tables), scale=scale, phase=phase.phase, ends=ends)
        assert not [landed.error for landed in land(spark, tables) if landed.error]
        marts = _built(beside, name, "athena")
        assert marts
        made = {mart: _commits(athena, mart) - made.get(mart, 0) for mart in marts}
        assert set(made.values()) <= {0, 1}, f"{phase.phase}: each mart is written by one commit, or none: {made}"
    # Spark's are built anew: what is merged on Athena is compared with what no increment has made. And beside a
    # lake on S3, Hudi's merge of a table on disk does not find the session's catalog.
    assert _built(beside, name, "dev", "--full-refresh") == marts
    for mart in marts:
        assert _types(athena, mart) == {column: TYPES.get(of, of) for column, of in spark.table(mart).dtypes
                                        if not column.startswith("_hoodie_")}, mart  # fmt: skip
        assert _rows(athena, mart) == _rows_of_spark(spark, mart), mart
    return made


def _built(beside: Path, name: str, target: str, *how: str) -> set[str]:
    """Builds everything of a system, without tests; the marts."""
    kinds = ("--exclude-resource-type", "test", "--exclude-resource-type", "unit_test")
    done = _done(beside, "build", "--selector", name, *kinds, *how, *YEAR, target=target)
    nodes = [each.node for each in done.result.results if each.node.resource_type == "model"]
    return {f"{node.schema}.{node.alias}" for node in nodes if node.fqn[1] == "marts"}


def _done(beside: Path, *words: str, target: str = "athena") -> Any:
    done = invoked(REPOSITORY, *words, target=target, beside=beside)
    results = getattr(done.result, "results", [])
    wrong = {each.node.name: each.message for each in results if str(each.status) in ("error", "fail", "runtime error")}
    assert done.success, wrong or done.exception
    return done


def _types(athena: LocalAthena, mart: str) -> dict[str, str]:
    lines = (str(row[0]).split("\t") for row in athena.ask(f"describe {mart}"))
    return {name: of for name, of, *_ in lines}


def _rows(athena: LocalAthena, mart: str) -> list[list[str | None]]:
    columns = ", ".join(f'"{name}"' for name in sorted(_types(athena, mart)))
    return sorted(athena.ask(f"select {columns} from {mart}"), key=str)


def _rows_of_spark(spark: SparkSession, mart: str) -> list[list[str | None]]:
    table = spark.table(mart)
    columns = sorted(name for name in table.columns if not name.startswith("_hoodie_"))
    return sorted(([_text(value) for value in row] for row in table.select(*columns).collect()), key=str)


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, list):
        return f"[{', '.join('null' if each is None else str(each) for each in value)}]"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    assert isinstance(value, str | bool | int | Decimal | date), f"{value!r}: how Athena writes it is not known here"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _commits(athena: LocalAthena, mart: str) -> int:
    schema, table = mart.split(".")
    return len(athena.ask(f'select snapshot_id from "{schema}"."{table}$snapshots"'))
