"""`lake reconcile` finds every difference between silver and its source, and nothing else."""

from __future__ import annotations

import csv
import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from conftest import DbtProject, MakeProject, pg, table_of
from pyspark.sql import SparkSession

from ingest.config.project import Project
from ingest.errors import DeclarationError
from ingest.operations.reconcile import Reconciled, reconcile

COLUMNS = {"region": "string", "number": "int", "note": "string", "price": "decimal(8,2)", "weight": "double",
           "at": "timestamp"}  # fmt: skip
KEY = ("region", "number")
AT = datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=UTC)
LONG = "long text ☃ " * 5_000
NOTES = (None, "", r"\N ", 'a "quoted", text', "two\nlines", "☃", LONG)
REGIONS = ("Zürich", "北京", "a,b", "a'b", "")
ROWS = 200
Source = dict[tuple[str, int], dict[str, Any]]


def source_rows() -> Source:
    rows = {}
    for number in range(ROWS):
        region = REGIONS[number % len(REGIONS)]
        rows[region, number] = {
            "region": region, "number": number, "note": NOTES[number % len(NOTES)],
            "price": None if number % 11 == 0 else Decimal(number).scaleb(-2), "weight": number / 3, "at": AT,
        }  # fmt: skip
    return rows


def landed(project: DbtProject, spark: SparkSession) -> None:
    """Every row, and one more that is created and deleted."""
    micros = int(AT.timestamp()) * 1_000_000 + AT.microsecond
    events = []
    for lsn, row in enumerate(source_rows().values()):
        row |= {"price": None if row["price"] is None else str(row["price"]), "at": micros}
        events.append(pg("c", 100 + lsn, **row))
    gone: dict[str, Any] = {"region": "gone", "number": 1, "note": None, "price": None, "weight": None, "at": None}
    project.deliver("shop.order", 0, [*events, pg("c", 5_000, **gone), pg("d", 5_001, **gone)])
    project.land_well(spark, "order")


@pytest.fixture
def project(make_project: MakeProject, spark: SparkSession) -> DbtProject:
    """A landed table, and one that has nothing to be compared with."""
    made = make_project({"tables": [table_of("order", COLUMNS, KEY), table_of("other", {"id": "int"}, ["id"])]})
    landed(made, spark)
    return made


def compared(project: DbtProject, spark: SparkSession, folder: Path, limit: int = ROWS) -> Reconciled:
    (table,) = project.source().choose(["order"])
    result = reconcile(spark, table, against=folder, limit=limit)
    assert result.error is None
    return result


def write_parquet(folder: Path, rows: Source) -> None:
    folder.mkdir(exist_ok=True)
    schema = pa.schema({"region": pa.string(), "number": pa.int32(), "note": pa.string(), "price": pa.decimal128(9, 3),
                        "weight": pa.float64(), "at": pa.timestamp("us", "UTC")})  # fmt: skip
    pq.write_table(pa.Table.from_pylist(list(rows.values()), schema), folder / "order.parquet")


def write_csv(folder: Path, rows: Source) -> None:
    folder.mkdir(exist_ok=True)
    with (folder / "shop.order.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in rows.values():
            writer.writerow([r"\N" if value is None else value for value in row.values()])


def found(result: Reconciled) -> dict[str, dict[tuple[str, int], tuple[str, ...]]]:
    by_kind: dict[str, dict[tuple[str, int], tuple[str, ...]]] = {kind: {} for kind in result.counts}
    for difference in result.differences:
        key = (str(difference.key["region"]), int(str(difference.key["number"])))
        by_kind[difference.kind][key] = difference.columns
    return by_kind


@pytest.mark.spark
def test_exactly_the_injected_differences_are_found(project: DbtProject, spark: SparkSession, tmp_path: Path) -> None:
    for name, write in (("parquet", write_parquet), ("csv", write_csv)):
        folder = tmp_path / f"mit Lücke {name}"
        write(folder, source_rows())
        result = compared(project, spark, folder)
        assert (result.equal, result.told, result.source_rows, result.silver_rows) == (True, "equal", ROWS, ROWS), name
        assert result.instant

    chance = random.Random(7)  # noqa: S311 - the same differences in every run
    rows = source_rows()
    chosen = chance.sample(sorted(rows), 40)
    removed, changed = chosen[:10], chosen[10:]
    for key in removed:
        del rows[key]
    added = [("Zürich", -1), ("", ROWS)]
    for region, number in added:
        rows[region, number] = {**dict.fromkeys(COLUMNS), "region": region, "number": number}
    expected = {}
    for key in changed:
        column = chance.choice(["note", "price", "weight", "at"])
        row, value = rows[key], rows[key][column]
        rows[key] = {**row, column: {
            "note": "" if value is None else None if value == "" else f"{value}.",
            "price": (row["price"] or Decimal(0)) + Decimal("0.001"),
            "weight": row["weight"] + 1e-9,
            "at": AT.replace(microsecond=123457),
        }[column]}  # fmt: skip
        expected[key] = (column,)
    write_parquet(tmp_path / "parquet", rows)
    result = compared(project, spark, tmp_path / "parquet")
    nothing: tuple[str, ...] = ()
    assert found(result) == {
        "missing": dict.fromkeys(added, nothing), "extra": dict.fromkeys(removed, nothing), "different": expected
    }  # fmt: skip

    few = compared(project, spark, tmp_path / "parquet", limit=2)
    assert few.counts == {"missing": 2, "extra": 10, "different": 30}
    assert len(few.differences) == 6

    other = reconcile(spark, project.source().choose(["other"])[0], against=tmp_path / "parquet")
    assert (other.told, other.equal) == ("nothing to compare with", False)

    deleted: dict[str, Any] = {**dict.fromkeys(COLUMNS), "region": "Zürich", "number": 0}
    project.deliver("shop.order", 10_000, [pg("d", 9_000, **deleted)])
    behind = compared(project, spark, tmp_path / "parquet", limit=1)
    assert behind.waiting == 1
    assert "silver is behind" in behind.told


@pytest.mark.spark
def test_what_is_not_of_the_declared_type_differs_from_null(
    make_project: MakeProject, spark: SparkSession, tmp_path: Path
) -> None:
    """An array is compared element by element, to the microsecond, and a null in it has its place."""
    columns = {"number": "int", "price": "decimal(4,2)", "at": "timestamp", "moments": "array<timestamp>"}
    made = make_project({"tables": [table_of("order", {"id": "int", **columns}, ["id"])]})
    micros = int(AT.timestamp()) * 1_000_000 + AT.microsecond
    row: dict[str, Any] = {**dict.fromkeys(columns), "moments": [micros, None]}
    made.deliver("shop.order", 0, [pg("c", 1 + key, id=key, **row) for key in range(6)])
    made.land_well(spark)
    head, null, moment = ["id", *columns], r"\N", AT.replace(tzinfo=None).isoformat()
    same = [null, null, null, f'["{moment}Z", null]']

    def against(rows: list[list[str]]) -> dict[str | None, tuple[str, ...]]:
        with (tmp_path / "order.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([head, *([str(key), *row] for key, row in enumerate(rows))])
        result = compared(made, spark, tmp_path)
        assert {difference.kind for difference in result.differences} <= {"different"}
        return {difference.key["id"]: difference.columns for difference in result.differences}

    assert against([same] * 6) == {}
    of_key = ["number", "price", "at", "moments", "moments", "moments"]
    assert against([
        ["a few", null, null, same[3]],
        [null, "1000", null, same[3]],
        [null, null, "in March", same[3]],
        [null, null, null, f'["{moment[:-1]}7Z", null]'],
        [null, null, null, f'[null, "{moment}Z"]'],
        [null, null, null, null],
    ]) == {str(key): (column,) for key, column in enumerate(of_key)}  # fmt: skip


@pytest.mark.spark
def test_bytes_in_csv_are_read_as_postgresql_writes_them(
    make_project: MakeProject, spark: SparkSession, tmp_path: Path
) -> None:
    made = make_project({"tables": [table_of("order", {"id": "int", "seal": "binary"}, ["id"])]})
    made.deliver("shop.order", 0, [pg("c", 1 + key, id=key, seal="AP8Q") for key in range(3)])
    made.land_well(spark)
    (tmp_path / "order.csv").write_text("id,seal\n0,\\x00ff10\n1,00FF10\n2,\\x00ff11\n", encoding="utf-8")
    assert [difference.key for difference in compared(made, spark, tmp_path).differences] == [{"id": "2"}]


def test_a_password_is_shown_nowhere(make_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project({"tables": [table_of("order", COLUMNS, KEY, database={"connection": "shop_db"})]})
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    connections = project.root / "connections.yml"
    files = yaml.safe_load(connections.read_text(encoding="utf-8"))
    well = {"type": "jdbc", "url": "jdbc:postgresql://db:5432/shop", "user": "lake",
            "password": "{{ env_var('SHOP_PASSWORD') }}"}  # fmt: skip

    connections.write_text(yaml.safe_dump({**files, "shop_db": well}), encoding="utf-8")
    (table,) = project.source().tables
    assert table.database_name == ("shop", "order")
    assert "hunter2" not in f"{table!r} {Project.load(project.root)!r}"

    for wrong in (
        {**well, "password": "hunter2"},
        {**well, "passwort": "hunter2"},
        {**well, "url": "jdbc:postgresql://db/shop?password=hunter2"},
        {**well, "url": "jdbc:mariadb://lake:hunter2@db/shop"},
        {**well, "url": "jdbc:oracle:thin:@db"},
        {name: value for name, value in well.items() if name != "password"},
    ):
        connections.write_text(yaml.safe_dump({**files, "shop_db": wrong}), encoding="utf-8")
        with pytest.raises(DeclarationError) as error:
            project.source()
        assert "shop_db" in error.value.message
        assert "hunter2" not in error.value.message

    connections.write_text(yaml.safe_dump(files), encoding="utf-8")
    with pytest.raises(DeclarationError, match=r"database\.connection.*shop_db"):
        project.source()
