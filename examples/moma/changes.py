"""What happens in the museum in the two days after the snapshot, as transactions in commit order.

Curators acquire works, correct what is known of works and artists, and move both to other partitions of the lake: an
artist's nationality, a work's classification. The worked examples of the article are among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Final, cast

import numpy as np

from examples.generating.draw import stream
from examples.generating.model import Database, Row, RowChange, Table, Transaction, Value, row_at
from examples.moma.names import CLASSES, GIVERS, NATIONALITIES
from examples.moma.rows import BAKKER, BELJON, PICADOR, RESERVED, artists, artworks
from examples.moma.tables import ARTISTS, ARTWORKS, TABLES

_HISTORY_STREAM: Final = 100
_ROW_CHANGES_AT_SCALE_1: Final = 10_000
_FEWEST_ROW_CHANGES: Final = 200


def _us(day: int, hour: int = 0, minute: int = 0, second: int = 0) -> int:
    return int(datetime(2021, 12, day, hour, minute, second, tzinfo=UTC).timestamp()) * 1_000_000


# The days of the article's demonstration.
SNAPSHOT_AT_US: Final = _us(28, 15, 4, 37) + 51_000
HISTORY_FROM_US: Final = _us(29)
HISTORY_DAYS: Final = 2
LAST_DAY: Final = date(2021, 12, 30)

_SHEET: Final = "composition: 20 13/16 x 25 3/16 in (52.9 x 64 cm); sheet: 24 7/16 x 29 1/2 in (62.1 x 75 cm)"
# When, which row, and the columns that change; none: the row is deleted.
WORKED: Final[tuple[tuple[int, Table, int, Mapping[str, Value] | None], ...]] = (
    (_us(29, 17, 10), ARTWORKS, PICADOR, {"date": 1959}),
    (_us(29, 17, 25), ARTWORKS, PICADOR, {"acquisition_date": "2009-04-15"}),
    (_us(29, 17, 40), ARTWORKS, PICADOR, {"dimensions": _SHEET}),
    (_us(29, 17, 55), ARTWORKS, PICADOR, {"acquisition_date": "2009-04-19"}),
    (_us(29, 21, 47, 16), ARTISTS, BELJON, None),
    (_us(30, 13, 20), ARTISTS, BAKKER, {"birth_year": 1907}),
    (_us(30, 13, 24), ARTISTS, BAKKER, {"death_year": 1989}),
    (_us(30, 14, 18), ARTISTS, BAKKER, {"name": "Gerhard M. Bakker"}),
    (_us(30, 14, 40), ARTISTS, BAKKER, {"nationality": "German"}),
    (_us(30, 17, 17), ARTISTS, BAKKER, {"birth_year": 1905}),
    (_us(30, 18, 2), ARTISTS, BAKKER, None),
)


def worked_examples(rows: Mapping[int, Row]) -> list[Transaction]:
    """The transactions of the worked examples, each of one row change, in commit order.

    Parameters
    ----------
    rows:
        Artists 299 and 441 and the work 128,447 before them, by key: their numbers are apart.
    """
    now: dict[int, Row | None] = dict(rows)
    done = []
    for at_us, table, key, values in WORKED:
        before = now[key]
        assert before is not None
        now[key] = None if values is None else changed(table, before, values)
        change = RowChange(table, "d" if values is None else "u", before, now[key], 1)
        done.append(Transaction("postgresql", at_us, (change,)))
    return done


def changed(table: Table, row: Row, values: Mapping[str, Value]) -> Row:
    """A row with other values in some columns."""
    return tuple(values.get(column.name, old) for column, old in zip(table.columns, row, strict=True))


def history(database: Database, scale: float, seed: int, row_changes: int | None = None) -> list[Transaction]:
    """Transactions after the snapshot ``database``, made with the same scale and seed; about 10,000 row changes at 1.

    ``row_changes`` asks for another number of them, which makes another history. The worked examples are in each, and
    no other transaction touches their rows.
    """
    target = max(_FEWEST_ROW_CHANGES, int(_ROW_CHANGES_AT_SCALE_1 * scale)) if row_changes is None else row_changes
    museum = _Museum(database, target, seed)
    return sorted([*museum.worked(), *museum.run()], key=lambda transaction: transaction.committed_at_us)


class _Museum:
    """The collection at one moment, and the log of what was committed until then."""

    def __init__(self, database: Database, target: int, seed: int) -> None:
        self._rng = stream(seed, _HISTORY_STREAM)
        self._seed, self._target = seed, target
        self._database = database
        self._keys = {
            table.full_name: (int(database[table.full_name].column(0)[0].as_py()), database[table.full_name].num_rows)
            for table in TABLES
        }
        self._next = {name: first + count for name, (first, count) in self._keys.items()}
        self._rows: dict[tuple[str, int], Row | None] = {}
        makers = database[ARTWORKS.full_name].column("artist_id").to_pylist()
        self._works = Counter[int](makers)
        self._now_us = HISTORY_FROM_US
        self._gap_us = HISTORY_DAYS * 86_400_000_000 // (target + 1)
        self._log: list[Transaction] = []
        self._pending: list[RowChange] = []

    def worked(self) -> list[Transaction]:
        """The worked examples, on the rows of the snapshot."""
        rows = {key: row for table, key in ((ARTISTS, BAKKER), (ARTISTS, BELJON), (ARTWORKS, PICADOR))
                if (row := self._row(table, key))}  # fmt: skip
        return worked_examples(rows)

    def run(self) -> list[Transaction]:
        """Each kind once, then a weighted mix of them until the target is reached."""
        kinds: tuple[tuple[int, Callable[[], None]], ...] = (
            (20, self._acquire),
            (6, self._acquire_of_a_newcomer),
            (16, self._correct_work),
            (12, self._reclassify),
            (4, self._reattribute),
            (6, self._deaccession),
            (2, self._deaccession_undone),
            (10, self._correct_artist),
            (8, self._change_nationality),
            (2, self._remove_artist),
            (1, self._renumber_artist),
            (3, self._correct_work_twice),
        )
        weights = np.cumsum([weight for weight, _ in kinds])
        acts = [act for _, act in kinds]
        changes = 0
        while changes < self._target:
            number = len(self._log)
            drawn = int(np.searchsorted(weights, self._rng.integers(0, weights[-1]), side="right"))
            self._now_us += self._int(self._gap_us // 10, self._gap_us * 19 // 10)
            (acts[number] if number < len(acts) else acts[drawn])()
            if self._pending:
                self._log.append(Transaction("postgresql", self._now_us, tuple(self._pending)))
                changes += len(self._pending)
                self._pending = []
        return self._log

    # Rows

    def _int(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high))

    def _row(self, table: Table, key: int) -> Row | None:
        first, count = self._keys[table.full_name]
        stored = row_at(self._database[table.full_name], key - first) if 0 <= key - first < count else None
        return self._rows.get((table.full_name, key), stored)

    def _pick(self, table: Table) -> Row:
        """A live row at random; none of the worked examples."""
        first, _ = self._keys[table.full_name]
        while True:
            key = self._int(first, self._next[table.full_name])
            row = None if key in (*RESERVED, PICADOR) else self._row(table, key)
            if row is not None:
                return row

    def _change(self, table: Table, before: Row | None, after: Row | None) -> None:
        op: dict[tuple[bool, bool], str] = {(False, True): "c", (True, False): "d"}
        kind = op.get((before is not None, after is not None), "u")
        self._pending.append(RowChange(table, kind, before, after, len(self._pending) + 1))  # type: ignore[arg-type]
        for row, sign in ((before, -1), (after, 1)):
            if row is None:
                continue
            if table is ARTWORKS:
                self._works[cast(int, row[2])] += sign
            key = cast(int, row[0])
            self._rows[table.full_name, key] = after if sign > 0 else None
            self._next[table.full_name] = max(self._next[table.full_name], key + 1)

    def _update(self, table: Table, row: Row, **values: Value) -> Row:
        after = changed(table, row, values)
        if after != row:
            self._change(table, row, after)
        return after

    def _new_work(self, maker: Row) -> None:
        key = self._next[ARTWORKS.full_name]
        (row,) = artworks(key, 1, [maker], self._seed)
        self._change(ARTWORKS, None, row)

    def _artist_without_works(self) -> Row | None:
        for _ in range(200):
            row = self._pick(ARTISTS)
            if not self._works[cast(int, row[0])]:
                return row
        return None

    # What happens: each makes one transaction, or none

    def _acquire(self) -> None:
        self._new_work(self._pick(ARTISTS))

    def _acquire_of_a_newcomer(self) -> None:
        (row,) = artists(self._next[ARTISTS.full_name], 1, self._seed)
        self._change(ARTISTS, None, row)
        self._new_work(row)

    def _correct_work(self) -> None:
        row = self._pick(ARTWORKS)
        self._update(ARTWORKS, row, date=self._int(1860, 2015), credit=GIVERS[self._int(0, 3)])

    def _correct_work_twice(self) -> None:
        """Two changes of one row in one transaction: the same time, two log positions."""
        row = self._update(ARTWORKS, self._pick(ARTWORKS), title=f"Untitled ({self._int(1, 900)})")
        self._update(ARTWORKS, row, catalogue="N" if row[9] == "Y" else "Y")

    def _reclassify(self) -> None:
        classification, medium, department, _ = CLASSES[self._int(0, len(CLASSES))]
        row = self._pick(ARTWORKS)
        self._update(ARTWORKS, row, classification=classification, medium=medium, department=department)

    def _reattribute(self) -> None:
        maker = self._pick(ARTISTS)
        self._update(ARTWORKS, self._pick(ARTWORKS), artist_id=maker[0], name=maker[1])

    def _deaccession(self) -> None:
        self._change(ARTWORKS, self._pick(ARTWORKS), None)

    def _deaccession_undone(self) -> None:
        row = self._pick(ARTWORKS)
        self._change(ARTWORKS, row, None)
        self._change(ARTWORKS, None, row)

    def _correct_artist(self) -> None:
        born = self._int(1840, 1986)
        self._update(ARTISTS, self._pick(ARTISTS), birth_year=born, death_year=born + self._int(24, 95))

    def _change_nationality(self) -> None:
        self._update(ARTISTS, self._pick(ARTISTS), nationality=NATIONALITIES[self._int(0, len(NATIONALITIES))])

    def _remove_artist(self) -> None:
        if row := self._artist_without_works():
            self._change(ARTISTS, row, None)

    def _renumber_artist(self) -> None:
        """A changed primary key: Debezium makes a delete and a create of it."""
        if row := self._artist_without_works():
            self._update(ARTISTS, row, artist_id=self._next[ARTISTS.full_name])
