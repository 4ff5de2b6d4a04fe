"""The example system MoMA: rows, history and the worked examples, without Spark."""

from __future__ import annotations

from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest

from examples import generate, system
from examples.generating.model import Table, replay
from examples.moma.changes import WORKED, history
from examples.moma.rows import BAKKER, BELJON, FIRST_ARTWORK, PICADOR, snapshot
from examples.moma.tables import ARTISTS, ARTWORKS, TABLES
from ingest.errors import LakeError


@pytest.mark.parametrize(("scale", "seed"), [(0.001, 1), (0.02, 42), (0.4, 7)])
def test_the_rows_hold_what_they_promise_after_any_history(scale: float, seed: int) -> None:
    before = snapshot(scale, seed)
    transactions = history(before, scale, seed)
    after = replay(TABLES, before, transactions)
    for state in (before, after):
        names = dict(
            zip(*(state["public.artists"].column(each).to_pylist() for each in ("artist_id", "name")), strict=True)
        )
        for work in state["public.artworks"].to_pylist():
            assert work["name"] == names[work["artist_id"]]
    assert before["public.artworks"].column("artwork_id").to_pylist()[0] == FIRST_ARTWORK
    assert {BAKKER, BELJON} & set(after["public.artists"].column("artist_id").to_pylist()) == set()
    (work,) = [row for row in after["public.artworks"].to_pylist() if row["artwork_id"] == PICADOR]
    assert (work["date"], work["acquisition_date"]) == (1959, "2009-04-19")
    # Each worked example is a transaction of its own, and nothing else touches these rows.
    keys = {(table.full_name, key) for _, table, key, _ in WORKED}
    touched = [change for each in transactions for change in each.changes
               if (change.table.full_name, (change.before or change.after or (0,))[0]) in keys]  # fmt: skip
    assert len(touched) == len(WORKED)
    # Rows move between partitions, from and to the one without a name.
    for table, column in ((ARTISTS, "nationality"), (ARTWORKS, "classification")):
        place = table.positions[column]
        moves = {(change.before[place] is None, change.after[place] is None)
                 for each in transactions for change in each.changes
                 if change.table is table and change.before and change.after
                 and change.before[place] != change.after[place]}  # fmt: skip
        assert (False, False) in moves


def test_the_events_lead_to_the_states_that_are_written_beside_them(tmp_path: Path) -> None:
    generate("moma", tmp_path, scale=0.01, seed=3)
    for table in TABLES:
        assert latest(tmp_path, table) == {
            row[table.key]: row
            for row in pq.read_table(system("moma").expected(tmp_path, "all")[table.full_name]).to_pylist()
        }


def latest(out: Path, table: Table) -> dict[int, dict[str, object]]:
    """The rows that remain where the event of the highest log position wins."""
    best: dict[int, dict[str, object]] = {}
    for path in (out / "bronze" / f"moma.{table.full_name}").rglob("*.avro"):
        with path.open("rb") as file:
            for event in fastavro.reader(file):
                assert isinstance(event, dict)
                key = event[table.key]
                if key not in best or event["__lsn"] > best[key]["__lsn"]:
                    best[key] = event
    columns = [column.name for column in table.columns]
    return {
        key: {name: row[name] for name in columns} for key, row in sorted(best.items()) if row["__deleted"] == "false"
    }


def test_the_same_scale_and_seed_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("once", "again"):
        generate("moma", tmp_path / name, scale=0.005, seed=11)
    once, again = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("once", "again")
    )
    assert once == again


def test_a_scale_that_is_none_is_refused() -> None:
    with pytest.raises(LakeError, match=r"dataset moma: scale 0\.0001"):
        snapshot(0.0001, 1)
    assert ARTWORKS.key == "artwork_id"
