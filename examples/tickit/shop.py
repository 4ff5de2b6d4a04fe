"""The current rows of TICKIT's databases, and the statements and transactions that change them.

What ``examples.tickit.changes`` does goes through here: rows, references and the tickets left stay in step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Final, cast

import numpy as np

from examples.generating.draw import stream
from examples.generating.model import Database, Operation, Row, RowChange, System, Table, Transaction, Value, row_at
from examples.tickit.names import CITIES
from examples.tickit.rows import WORKED_BUYER, WORKED_SALE, users
from examples.tickit.tables import SALE, TABLES, USER

_HISTORY_STREAM: Final = 100


class TableState:
    """The current rows of one table and how often each is referred to."""

    def __init__(self, table: Table, database: Database) -> None:
        self.table = table
        self._snapshot = database[table.full_name]
        self._snapshot_keys = self._snapshot.column(0).to_numpy()
        self._first = int(self._snapshot_keys[0])
        self._changed: dict[int, Row | None] = {}
        self._recent: list[int] = []
        self.last_key = int(self._snapshot_keys[-1])
        self.references = Counter[int]()
        for child in TABLES:
            for column in child.columns:
                if column.references == table.full_name:
                    keys, counts = np.unique(
                        database[child.full_name].column(column.name).to_numpy(), return_counts=True
                    )
                    self.references.update(dict(zip(keys.tolist(), counts.tolist(), strict=True)))

    def get(self, key: int) -> Row | None:
        """The row of a key; None where it is gone, or never was."""
        if key in self._changed:
            return self._changed[key]
        index = key - self._first
        return row_at(self._snapshot, index) if 0 <= index < len(self._snapshot_keys) else None

    def put(self, key: int, row: Row | None) -> None:
        """Gives a key another row, or none."""
        self._changed[key] = row
        self._recent.append(key)
        self.last_key = max(self.last_key, key)

    def next_key(self) -> int:
        """The key of the next new row."""
        return self.last_key + 1

    def pick(self, rng: np.random.Generator) -> int:
        """A key at random; every third time one that was changed lately. The row may be gone."""
        if self._recent and rng.integers(0, 3) == 0:
            return self._recent[-1 - int(rng.integers(0, min(len(self._recent), 200)))]
        return int(rng.integers(self._first, self.last_key + 1))


class Shop:
    """The shop at one moment, and the log of what was committed until then."""

    def __init__(self, database: Database, begins_us: int, newcomers: int, seed: int) -> None:
        self._rng = stream(seed, _HISTORY_STREAM)
        self._tables = {table.full_name: TableState(table, database) for table in TABLES}
        self._row_changes = 0
        self._now_us = begins_us
        self._log: list[Transaction] = []
        self._pending: list[RowChange] = []
        self._statement = 0
        listing, sale = database["ecomm.listing"], database["ecomm.sale"]
        sold = np.bincount(
            sale["listid"].to_numpy(), weights=sale["qtysold"].to_numpy(), minlength=listing.num_rows + 1
        ).astype(np.int64)
        self._left = dict(enumerate((listing["numtickets"].to_numpy() - sold[1:]).tolist(), start=1))
        first_new_user = database["crm.user"].num_rows + 1
        self._newcomers = [tuple(row.values()) for row in users(first_new_user, newcomers, seed).to_pylist()]
        self._worked = self._worked_example()

    # Time and transactions

    def _commit(self, system: System) -> None:
        """Ends the current transaction, if it has done anything."""
        if self._pending:
            self._log.append(Transaction(system, self._now_us, tuple(self._pending)))
            self._row_changes += len(self._pending)
        self._pending = []
        self._statement = 0

    def _start_of_millisecond(self) -> None:
        self._now_us += 1000 - self._now_us % 1000

    # Statements; each keeps the rows, the references and the tickets left in step

    def _row(self, table: Table, key: int) -> Row | None:
        return self._tables[table.full_name].get(key)

    def _change(self, table: Table, before: Row | None, after: Row | None, *, same_statement: bool = False) -> None:
        if not same_statement:
            self._statement += 1
        op: Operation = "c" if before is None else "d" if after is None else "u"
        self._pending.append(RowChange(table, op, before, after, self._statement))
        state = self._tables[table.full_name]
        for row, sign in ((before, -1), (after, 1)):
            if row is None:
                continue
            for column, value in zip(table.columns, row, strict=True):
                if column.references:
                    self._tables[column.references].references[cast(int, value)] += sign
            if table is SALE:
                self._left[self._of(SALE, row, "listid")] -= sign * self._of(SALE, row, "qtysold")
            state.put(cast(int, row[0]), after if sign > 0 else None)

    def _insert(self, table: Table, row: Row) -> Row:
        self._change(table, None, row)
        return row

    def _update(self, table: Table, key: int, values: Mapping[str, Value], *, same_statement: bool = False) -> None:
        before = self._row(table, key)
        assert before is not None, f"no {table.full_name} {key}"
        after = tuple(values.get(c.name, old) for c, old in zip(table.columns, before, strict=True))
        if after != before:
            self._change(table, before, after, same_statement=same_statement)

    def _delete(self, table: Table, key: int) -> None:
        self._change(table, self._row(table, key), None)

    # Choosing

    def _int(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high))

    def _city(self) -> tuple[str, str]:
        return CITIES[self._int(0, len(CITIES))]

    def _phone(self) -> str:
        return f"(555) 555-{self._int(0, 10_000):04d}"

    @staticmethod
    def _of(table: Table, row: Row, column: str) -> int:
        return cast(int, row[table.positions[column]])

    def _pick(self, table: Table, *, unused: bool = False, tickets: int = 0) -> int | None:
        """A live row's key, or None after many vain tries; what the worked example needs is never picked.

        Parameters
        ----------
        unused:
            Only rows that no other row refers to.
        tickets:
            Only listings with at least so many tickets left.
        """
        state = self._tables[table.full_name]
        for _ in range(200):
            key = state.pick(self._rng)
            if key in self._reserved.get(table.full_name, ()) or state.get(key) is None:
                continue
            if unused and state.references[key] > 0:
                continue
            if tickets and self._left.get(key, 0) < tickets:
                continue
            return key
        return None

    def _worked_example(self) -> dict[str, Value]:
        """The values that sale 200 will get; empty where there is no such sale."""
        sale = self._row(SALE, WORKED_SALE)
        self._reserved: dict[str, set[int]] = {}
        if sale is None:
            return {}
        seller = self._of(SALE, sale, "sellerid")
        buyer = WORKED_BUYER
        if self._row(USER, buyer) is None:
            buyer = next(key for key in (1, 2) if key != seller)
        self._reserved = {
            "ecomm.sale": {WORKED_SALE},
            "ecomm.listing": {self._of(SALE, sale, "listid")},
            "crm.user": {buyer},
        }
        return {"buyerid": buyer, "qtysold": 3, "pricepaid": Decimal("600.00"), "commission": Decimal("90.00")}
