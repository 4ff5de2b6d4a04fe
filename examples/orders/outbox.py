"""The outbox, as the triggers of `ddl/postgresql.sql` fill it: the same rows, in the same order of changes.

One row an order, with all of it. Each row that a transaction changes in the shop's tables fires its trigger, so that an
order of three items changes the outbox four times in one transaction: with one commit time, and four places in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Final, cast

from examples.generating.model import Database, Row, RowChange, Table, Transaction
from examples.orders.changes import LAST_DAY, SNAPSHOT_AT_US, history
from examples.orders.rows import snapshot
from examples.orders.tables import CDC_EVENTS, CUSTOMERS, ORDER_ITEMS, ORDERS, TABLES


class Outbox:
    """What is captured: an `examples.generating.generate.Databases` of one table."""

    name: Final = "orders"
    tables: Final[tuple[Table, ...]] = (CDC_EVENTS,)
    snapshot_at_us: Final = SNAPSHOT_AT_US
    last_day: Final[date] = LAST_DAY

    def snapshot(self, scale: float, seed: int) -> Database:
        """The outbox before the first change: a row for each order."""
        return filled(snapshot(scale, seed))

    def history(self, database: Database, scale: float, seed: int) -> list[Transaction]:
        """What each transaction of the shop does to the outbox."""
        shop = snapshot(scale, seed)
        triggers = _Triggers(shop)
        made = (triggers.fired(transaction) for transaction in history(shop, scale, seed))
        return [transaction for transaction in made if transaction.changes]


def filled(shop: Database) -> Database:
    """The outbox of the shop's rows."""
    triggers = _Triggers(shop)
    return {CDC_EVENTS.full_name: CDC_EVENTS.to_arrow(triggers.outbox[key] for key in sorted(triggers.outbox))}


class _Triggers:
    """The rows of the shop's tables and the outbox; what is captured is what changes in the latter."""

    def __init__(self, shop: Database) -> None:
        self._names: dict[str, Row] = {}
        self._orders: dict[int, Row] = {}
        self._items: dict[int, dict[int, Row]] = {}
        self.outbox: dict[int, Row] = {}
        for table in TABLES:
            for row in zip(*(column.to_pylist() for column in shop[table.full_name].columns), strict=True):
                self._put(RowChange(table, "c", None, row))
        self.outbox = {order_id: self._whole(order_id) for order_id in self._orders}

    def fired(self, transaction: Transaction) -> Transaction:
        """The transaction that the outbox sees; without changes where the shop's touches no order."""
        changes = tuple(change for each in transaction.changes for change in self._fired(each))
        return Transaction(transaction.system, transaction.committed_at_us, changes)

    def _fired(self, change: RowChange) -> Iterator[RowChange]:
        self._put(change)
        for order_id in self._touched(change):
            before = self.outbox.pop(order_id, None)
            if order_id in self._orders:
                after = self.outbox[order_id] = self._whole(order_id)
                yield RowChange(CDC_EVENTS, "c" if before is None else "u", before, after)
            elif before is not None:
                yield RowChange(CDC_EVENTS, "d", before, None)

    def _touched(self, change: RowChange) -> Iterable[int]:
        row = change.after if change.after is not None else change.before
        assert row is not None
        if change.table is CUSTOMERS:
            return [order_id for order_id, order in self._orders.items() if order[1] == row[1]]
        return [cast(int, row[0 if change.table is ORDERS else 1])]

    def _put(self, change: RowChange) -> None:
        table, before, after = change.table, change.before, change.after
        row = after if after is not None else before
        assert row is not None
        if table is CUSTOMERS:
            self._names[cast(str, row[1])] = row
        elif table is ORDERS:
            _put(self._orders, row, is_there=after is not None)
        else:
            _put(self._items.setdefault(cast(int, row[1]), {}), row, is_there=after is not None)

    def _whole(self, order_id: int) -> Row:
        order = self._orders[order_id]
        return (*order[:2], self._names[cast(str, order[1])][2], *order[2:], self._items_of(order_id))

    def _items_of(self, order_id: int) -> str:
        """The items as PostgreSQL writes its `jsonb`: keys by length and then by letter, numbers as they are kept."""
        at = ORDER_ITEMS.positions
        items = (item for _, item in sorted(self._items.get(order_id, {}).items()))
        texts = (
            f'{{"discount": {item[at["discount"]]}, "quantity": {item[at["quantity"]]}, '
            f'"unit_price": {item[at["unit_price"]]}}}'
            for item in items
        )
        return f"[{', '.join(texts)}]"


def _put(rows: dict[int, Row], row: Row, *, is_there: bool) -> None:
    if is_there:
        rows[cast(int, row[0])] = row
    else:
        rows.pop(cast(int, row[0]), None)
