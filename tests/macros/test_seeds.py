"""Seeds: a table holds each value as it stands in the file."""

from __future__ import annotations

from datetime import datetime

import pytest
from modeling import MakeModels, hudi_models

pytestmark = pytest.mark.spark
make_models = pytest.fixture(hudi_models)

CELLS = r"""id,text,number,price,at
1,it's,9007199254740993,0.10,2026-01-01 12:00:00.123456
2,"a\b ""%s"" {{ c }}",,,
3,,-1,12345678901234567890.12,
"""
VALUES = [
    (1, "it's", 9007199254740993, "0.10", datetime(2026, 1, 1, 12, 0, 0, 123456)),
    (2, r'a\b "%s" {{ c }}', None, None, None),
    (3, None, -1, "12345678901234567890.12", None),
]


def test_each_value_is_as_it_stands_in_the_file_or_refused(make_models: MakeModels) -> None:
    models = make_models()
    path = models.project.root / "seeds" / "cells.csv"
    path.parent.mkdir()
    path.write_text(CELLS, encoding="utf-8")
    models.project.write_models(
        "version: 2\nseeds:\n- name: cells\n  config:\n    file_format: parquet\n"
        "    column_types: {price: 'decimal(22,2)', at: timestamp}\n"
        "- name: parted\n  config: {file_format: parquet, partition_by: [kind]}\n"
        "- name: of_hudi\n  config: {file_format: hudi}\n"
    )
    for name in ("parted", "of_hudi"):
        (path.parent / f"{name}.csv").write_text("kind,id\nx,1\ny,2\n", encoding="utf-8")
    for _ in range(2):  # the second time the table is there
        done = {name: outcome.status for name, outcome in models.dbt("seed").items()}
        assert done == dict.fromkeys(("cells", "parted", "of_hudi"), "success")
        for name in ("parted", "of_hudi"):
            assert models.rows(name, "id", "kind") == [{"id": 1, "kind": "x"}, {"id": 2, "kind": "y"}]
        assert [tuple(map(_shown, row.values())) for row in models.rows("cells")] == VALUES
    path.write_text(CELLS + "4,,,free,\n", encoding="utf-8")
    told = models.dbt("seed", "--select", "cells")["cells"].message
    assert "seed.tested.cells: got free, expected a value of type decimal(22,2) in column price, or an empty" in told
    # The table has its rows, until the new ones are whole; nothing is left beside it.
    assert [tuple(map(_shown, row.values())) for row in models.rows("cells")] == VALUES
    assert models.tables() == {"cells", "parted", "of_hudi"}
    path.write_text("id,text\n", encoding="utf-8")
    assert models.dbt("seed", "--select", "cells")["cells"].status == "success"
    assert models.rows("cells") == []


@pytest.mark.slow
def test_no_cell_is_cut_or_rounded(make_models: MakeModels) -> None:
    """Spark's cast would do it without a word."""
    models = make_models()
    path = models.project.root / "seeds" / "typed.csv"
    path.parent.mkdir()
    types = {"number": "int", "price": "decimal(10,2)", "day": "date", "at": "timestamp", "code": "varchar(3)"}
    listed = ", ".join(f"{name}: '{data_type}'" for name, data_type in types.items())
    models.project.write_models(
        f"version: 2\nseeds:\n- name: typed\n  config: {{file_format: parquet, column_types: {{{listed}}}}}\n"
    )
    whole = {"number": "-1.0", "price": "1.2300", "day": "2026-01-01 00:00:00", "at": "2026-01-01", "code": "abc"}
    cut = {"number": "1.5", "price": "1.239", "day": "2026-01-01 12:00", "at": "2026-03", "code": "abcd"}
    for cells in (whole, *({**whole, name: cell} for name, cell in cut.items())):
        path.write_text(f"{','.join(cells)}\n{','.join(cells.values())}\n", encoding="utf-8")
        outcome = models.dbt("seed")["typed"]
        broken = next((name for name in cells if cells[name] != whole[name]), None)
        if broken is None:
            assert outcome.status == "success", outcome.message
        else:
            told = f"got {cells[broken]}, expected a value of type {types[broken]} in column {broken}, or an empty cell"
            assert told in outcome.message
        assert [str(value) for value in models.rows("typed")[0].values()] == [
            "-1", "1.23", "2026-01-01", "2026-01-01 00:00:00", "abc",
        ]  # fmt: skip


@pytest.mark.slow
def test_a_seed_that_fails_leaves_no_row_in_the_place_of_the_next(make_models: MakeModels) -> None:
    models = make_models()
    path, place = models.project.root / "seeds" / "placed.csv", models.project.root / "elsewhere"
    path.parent.mkdir()
    models.project.write_models(
        "version: 2\nseeds:\n- name: placed\n"
        f"  config: {{file_format: parquet, location_root: {place}, column_types: {{id: int}}}}\n"
    )
    # 10,000 rows are one statement.
    ids = [str(number) for number in range(10_001)]
    for last, status in (("free", "error"), (ids[-1], "success")):
        path.write_text("\n".join(["id", *ids[:-1], last, ""]), encoding="utf-8")
        assert models.dbt("seed")["placed"].status == status
    counts = f"select count(*) as row_count, count(distinct id) as ids from {models.relation('placed')}"
    assert models.ask(counts) == [{"row_count": len(ids), "ids": len(ids)}]


def _shown(value: object) -> object:
    """A decimal with its digits."""
    return str(value) if type(value).__name__ == "Decimal" else value
