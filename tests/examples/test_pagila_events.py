"""Pagila's envelopes lead to its tables, in both forms, whatever arrives late or twice."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from examples import Form, generate, system
from examples.pagila.tables import TABLES, Table
from ingest.errors import LakeError

SCALE = 0.4


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def envelopes(folder: Path, table: Table) -> Iterator[dict[str, Any]]:
    """All that a topic holds, in the order of its offsets."""
    for path in sorted((folder / "bronze" / table.topic).rglob("*+*"), key=lambda path: path.name.split("+")[2]):
        if path.suffix == ".parquet":
            yield from pq.read_table(path).to_pylist()
        else:
            yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def value(table: Table, name: str, told: Any) -> Any:
    """A value of an envelope as the database has it."""
    (column,) = [each for each in table.columns if each.name == name]
    if column.type == "timestamptz":
        return told.removesuffix("Z").replace("T", " ")
    if column.type == "numeric" and isinstance(told, str):
        return Decimal(int.from_bytes(base64.b64decode(told), "big", signed=True)).scaleb(-column.digits[1])
    return told


def led_to(folder: Path, table: Table) -> list[dict[str, Any]]:
    """The rows that the newest envelope of each key leaves, by the log's position alone."""
    newest: dict[tuple[Any, ...], tuple[tuple[int, bool], dict[str, Any]]] = {}
    for told in envelopes(folder, table):
        row = told["before"] if told["op"] == "d" else told["after"]
        key, position = tuple(row[name] for name in table.key), (told["source"]["lsn"], told["op"] != "r")
        if key not in newest or position >= newest[key][0]:
            newest[key] = position, told
    rows = [told["after"] for _, (_, told) in sorted(newest.items()) if told["op"] != "d"]
    return [{name: value(table, name, told) for name, told in row.items()} for row in rows]


@pytest.mark.parametrize("form", ["parquet", "envelope"])
@pytest.mark.parametrize("seed", [1, 42])
def test_envelopes_lead_to_the_tables(form: Form, seed: int, tmp_path: Path) -> None:
    written = generate("pagila", tmp_path, scale=SCALE, seed=seed, form=form)
    assert written.late > 0 < written.repeated
    for table in TABLES:
        expected = pq.read_table(system("pagila").expected(tmp_path, "all")[table.full_name]).to_pylist()
        times = [f"{row['last_update']:%Y-%m-%d %H:%M:%S.%f}" for row in expected]
        rows = [row | {"last_update": time} for row, time in zip(expected, times, strict=True)]
        assert led_to(tmp_path, table) == rows, table.name


def test_films_1_to_5_become_what_the_article_shows(tmp_path: Path) -> None:
    generate("pagila", tmp_path, scale=SCALE)
    (film,) = [table for table in TABLES if table.name == "film"]
    columns = ("film_id", "release_year", "rental_rate", "rental_duration")
    found = [tuple(str(row[name]) for name in columns) for row in led_to(tmp_path, film) if row["film_id"] <= 5]
    assert found == [("1", "2019", "3.99", "6"), ("2", "2006", "4.99", "7"), ("3", "2006", "2.99", "7"),
                     ("4", "2017", "3.99", "5")]  # fmt: skip


def test_equal_arguments_give_equal_bytes_in_one_phase_or_two(tmp_path: Path) -> None:
    generate("pagila", tmp_path / "whole", scale=SCALE)
    for phase in ("snapshot", "changes"):
        generate("pagila", tmp_path / "phases", scale=SCALE, phase=phase)
    assert files(tmp_path / "whole") == files(tmp_path / "phases")
    generate("pagila", tmp_path / "other", scale=SCALE, seed=43)
    assert files(tmp_path / "other") != files(tmp_path / "whole")


def test_a_key_that_changes_is_a_delete_and_a_create_of_one_position(tmp_path: Path) -> None:
    generate("pagila", tmp_path, scale=SCALE)
    (table,) = [table for table in TABLES if table.name == "film_category"]
    of_3 = [
        told
        for told in envelopes(tmp_path, table)
        if 3 in ((told["before"] or {}).get("film_id"), (told["after"] or {}).get("film_id"))
    ]
    positions: dict[int, set[str]] = {}
    for told in of_3:
        positions.setdefault(told["source"]["lsn"], set()).add(told["op"])
    assert sorted(map(sorted, positions.values())) == [["c", "d"], ["c", "d"], ["r"]]


def test_a_form_that_it_has_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"form 'avro'.*\n?.*one of parquet, envelope"):
        generate("pagila", tmp_path, form="avro")
    assert not list(tmp_path.iterdir())


def test_a_footer_has_the_schema_of_its_rows_as_a_sink_leaves_it(tmp_path: Path) -> None:
    generate("pagila", tmp_path, scale=0.4, phase="snapshot")
    for table in TABLES:
        (path,) = (tmp_path / "bronze" / table.topic).rglob("*.gz.parquet")
        schema = json.loads(pq.read_metadata(path).metadata[b"parquet.avro.schema"])
        row = schema["fields"][0]["type"][1]
        assert [field["name"] for field in row["fields"]] == [column.name for column in table.columns]
