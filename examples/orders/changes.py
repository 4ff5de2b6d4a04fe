"""What happens in the shop in the two days after the snapshot, as transactions in commit order.

Orders come, change, are shipped and cancelled. On purpose there is what an outbox makes hard: a transaction that fills
it several times with one order, transactions of one order within a millisecond, an order that is cancelled and comes
again, and a customer whose new name is in all its orders at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final, cast

import numpy as np

from examples.generating.draw import Ints, stream
from examples.generating.model import Database, Operation, Row, RowChange, Table, Transaction, Value
from examples.orders.rows import RARE, kinds, made_item, made_items, orders_of
from examples.orders.tables import CUSTOMERS, ORDER_ITEMS, ORDERS, TABLES


def _us(day: int, hour: int = 0, minute: int = 0) -> int:
    return int(datetime(2021, 12, day, hour, minute, tzinfo=UTC).timestamp()) * 1_000_000


SNAPSHOT_AT_US: Final = _us(18, 21, 14) + 615_000
HISTORY_FROM_US: Final = _us(19)
LAST_DAY: Final = date(2021, 12, 20)
_HISTORY_DAYS: Final = 2
_ROW_CHANGES_AT_SCALE_1: Final = 800
_FEWEST_ROW_CHANGES: Final = 400


def history(database: Database, scale: float, seed: int, row_changes: int | None = None) -> list[Transaction]:
    """Transactions after the snapshot ``database``, made with the same scale and seed; some 800 row changes at 1.

    ``row_changes`` asks for another number of them, which makes another history. The rare buyers order nothing more,
    and nothing of theirs is cancelled.
    """
    target = max(_FEWEST_ROW_CHANGES, int(_ROW_CHANGES_AT_SCALE_1 * scale)) if row_changes is None else row_changes
    return _ShopLife(database, scale, seed, target).run()


class _ShopLife:
    """The shop's rows at one moment, what may happen next, and the log of what was committed until then."""

    def __init__(self, database: Database, scale: float, seed: int, target: int) -> None:
        self._rng = stream(seed, 100)
        self._target = target
        self._now_us = HISTORY_FROM_US
        # A step changes 1.7 rows on average; the last should come near the end of the second day.
        self._gap_us = _HISTORY_DAYS * 86_400_000_000 * 8 // 5 // target
        self._log: list[Transaction] = []
        self._pending: list[RowChange] = []
        self._row_changes = 0
        self._kinds = kinds(seed)
        self._buyers = [name for name, kind in self._kinds.items() if kind is not RARE]
        self._weights = np.cumsum([orders_of(self._kinds[name], scale) for name in self._buyers])
        self._rows: dict[str, dict[int, Row]] = {
            table.full_name: {
                cast(int, row[0]): row
                for row in zip(*(column.to_pylist() for column in database[table.full_name].columns), strict=True)
            }
            for table in TABLES
        }
        self._items: dict[int, list[int]] = {}
        for item_id, item in self._rows[ORDER_ITEMS.full_name].items():
            self._items.setdefault(cast(int, item[1]), []).append(item_id)
        self._open = [order_id for order_id, row in self._rows[ORDERS.full_name].items() if self._is_free(row)]
        self._next = {name: max(rows) + 1 for name, rows in self._rows.items()}

    def run(self) -> list[Transaction]:
        """Each kind once, then a weighted mix of them until the target is reached."""
        acts: tuple[tuple[int, Callable[[], None]], ...] = (
            (10, self._order),
            (8, self._correct_quantity),
            (4, self._add_item),
            (3, self._drop_item),
            (10, self._ship),
            (2, self._cancel),
            (1, self._cancel_and_order_again),
            (2, self._change_one_order_at_once),
            (1, self._rename_customer),
        )
        for _, act in acts:
            self._step(act)
        weights = np.cumsum([weight for weight, _ in acts])
        while self._row_changes < self._target:
            self._step(acts[self._drawn(weights)][1])
        return self._log

    # Time, transactions, statements

    def _step(self, act: Callable[[], None]) -> None:
        self._now_us += self._int(self._gap_us // 10, self._gap_us * 19 // 10)
        act()

    def _commit(self) -> None:
        if self._pending:
            self._log.append(Transaction("postgresql", self._now_us, tuple(self._pending)))
            self._row_changes += len(self._pending)
        self._pending = []

    def _change(self, table: Table, before: Row | None, after: Row | None) -> None:
        op: Operation = "c" if before is None else "d" if after is None else "u"
        self._pending.append(RowChange(table, op, before, after, len(self._pending)))
        rows = self._rows[table.full_name]
        if before is not None:
            del rows[cast(int, before[0])]
        if after is not None:
            rows[cast(int, after[0])] = after

    def _update(self, table: Table, key: int, values: Mapping[str, Value]) -> None:
        before = self._rows[table.full_name][key]
        after = tuple(values.get(column.name, old) for column, old in zip(table.columns, before, strict=True))
        if after != before:
            self._change(table, before, after)

    def _insert_order(self, order: Row) -> None:
        order_id = cast(int, order[0])
        self._change(ORDERS, None, order)
        kind = self._kinds[cast(str, order[1])]
        for item in made_items(self._rng, kind, order_id, self._next[ORDER_ITEMS.full_name]):
            self._insert_item(item)
        self._open.append(order_id)

    def _insert_item(self, item: Row) -> None:
        self._change(ORDER_ITEMS, None, item)
        self._items.setdefault(cast(int, item[1]), []).append(cast(int, item[0]))
        self._next[ORDER_ITEMS.full_name] += 1

    def _delete_item(self, item_id: int) -> None:
        item = self._rows[ORDER_ITEMS.full_name][item_id]
        self._items[cast(int, item[1])].remove(item_id)
        self._change(ORDER_ITEMS, item, None)

    def _delete_order(self, order_id: int) -> Row:
        for item_id in list(self._items[order_id]):
            self._delete_item(item_id)
        order = self._rows[ORDERS.full_name][order_id]
        self._change(ORDERS, order, None)
        self._open.remove(order_id)
        return order

    # Choosing

    def _int(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high))

    def _drawn(self, weights: Ints) -> int:
        return int(np.searchsorted(weights, self._int(0, int(weights[-1])), side="right"))

    def _is_free(self, order: Row) -> bool:
        """Whether an order may be changed: no rare buyer's."""
        return self._kinds[cast(str, order[1])] is not RARE

    def _pick(self) -> int:
        """An order that may be changed: every other time one of the last."""
        if self._int(0, 2):
            return self._open[-1 - self._int(0, min(len(self._open), 40))]
        return self._open[self._int(0, len(self._open))]

    # What happens: each makes one transaction, or several that belong together

    def _order(self) -> None:
        customer = self._buyers[self._drawn(self._weights)]
        today = datetime.fromtimestamp(self._now_us // 1_000_000, tz=UTC).date()
        order_id = self._next[ORDERS.full_name]
        self._next[ORDERS.full_name] += 1
        self._insert_order((order_id, customer, today, today + timedelta(days=self._int(14, 29)), None))
        self._commit()

    def _correct_quantity(self) -> None:
        item_id = self._items[order_id := self._pick()][0]
        kind = self._kinds[cast(str, self._rows[ORDERS.full_name][order_id][1])]
        self._update(ORDER_ITEMS, item_id, {"quantity": self._int(kind.quantity[0], kind.quantity[1] + 1)})
        self._commit()

    def _add_item(self) -> None:
        order_id = self._pick()
        kind = self._kinds[cast(str, self._rows[ORDERS.full_name][order_id][1])]
        self._insert_item(made_item(self._rng, kind, order_id, self._next[ORDER_ITEMS.full_name]))
        self._commit()

    def _drop_item(self) -> None:
        order_id = self._pick()
        if len(self._items[order_id]) > 1:
            self._delete_item(self._items[order_id][self._int(0, len(self._items[order_id]))])
            self._commit()

    def _ship(self) -> None:
        order_id = self._pick()
        ordered = cast(date, self._rows[ORDERS.full_name][order_id][2])
        self._update(ORDERS, order_id, {"shipped_date": ordered + timedelta(days=self._int(1, 11))})
        self._commit()

    def _cancel(self) -> None:
        self._delete_order(self._pick())
        self._commit()

    def _cancel_and_order_again(self) -> None:
        """An order that is deleted and inserted again under its id: at once, or in a later transaction."""
        order = self._delete_order(self._pick())
        if self._int(0, 2):
            self._commit()
            self._now_us += self._int(10, 400_000)
        self._insert_order(order)
        self._commit()

    def _change_one_order_at_once(self) -> None:
        """Three transactions on one order within a millisecond."""
        self._now_us += 1000 - self._now_us % 1000
        order_id = self._pick()
        kind = self._kinds[cast(str, self._rows[ORDERS.full_name][order_id][1])]
        for _ in range(3):
            item_id = self._items[order_id][0]
            self._update(ORDER_ITEMS, item_id, {"quantity": self._int(kind.quantity[0], kind.quantity[1] + 1)})
            self._commit()
            self._now_us += 130

    def _rename_customer(self) -> None:
        number = self._int(1, len(self._kinds) + 1)
        name = cast(str, self._rows[CUSTOMERS.full_name][number][2]).partition(" and ")[0]
        self._update(
            CUSTOMERS, number, {"company_name": f"{name} and {('Sons', 'Daughters', 'Partners')[self._int(0, 3)]}"}
        )
        self._commit()
