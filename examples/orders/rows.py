"""The rows of the shop before the first change: customers of four kinds, their orders, and what they ordered.

Three customers order much and often; with seventeen more they make the majority of the revenue. Five buy seldom, and
then expensive things. The others are many and small. Which customer is of which kind follows from the seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

import numpy as np

from examples.generating.draw import require_scale, require_seed, shuffled, stream
from examples.generating.model import Database, Row
from examples.orders.tables import CUSTOMERS, ORDER_ITEMS, ORDERS

MIN_SCALE: Final = 0.5
MAX_SCALE: Final = 100.0
FIRST_ORDER_ID: Final = 10248
_ORDERS_AT_SCALE_1: Final = 830
_FIRST_DAY: Final = date(2020, 1, 1)
_DAYS: Final = 715  # up to the day before the snapshot
_NOT_SHIPPED_YET: Final = 9  # days
DISCOUNTS: Final = tuple(map(Decimal, ("0.00", "0.00", "0.00", "0.00", "0.05", "0.10", "0.15", "0.20", "0.25")))
_FIRST_WORDS: Final = (
    "Alder", "Birch", "Cedar", "Dover", "Ember", "Fjord", "Gable", "Heron", "Islet", "Jasper", "Kettle", "Linden",
    "Maple", "Nutmeg", "Orchard", "Poplar", "Quarry", "Rowan", "Sorrel", "Thistle", "Umber", "Vesper", "Willow",
)  # fmt: skip
_SECOND_WORDS: Final = ("Foods", "Market", "Traders", "Kitchens")


@dataclass(frozen=True)
class Kind:
    """A kind of customers, and how they order.

    Attributes
    ----------
    customers:
        How many there are.
    items:
        Fewest and most items of an order; `quantity` likewise, of an item.
    products:
        Fewest and most of the numbers of the products that they buy.
    """

    name: str
    customers: int
    items: tuple[int, int]
    quantity: tuple[int, int]
    products: tuple[int, int]


_USUAL, _EXPENSIVE = (1, 72), (73, 77)
BIG: Final = Kind("big", 3, (3, 4), (40, 60), _USUAL)
REGULAR: Final = Kind("regular", 17, (2, 3), (15, 34), _USUAL)
RARE: Final = Kind("rare", 5, (2, 2), (8, 16), _EXPENSIVE)
OTHER: Final = Kind("other", 66, (1, 3), (4, 14), _USUAL)
KINDS: Final = (BIG, REGULAR, RARE, OTHER)
CUSTOMER_COUNT: Final = sum(kind.customers for kind in KINDS)


def order_count(scale: float) -> int:
    """Orders in the snapshot: 830 at a scale of 1. Customers are 91 at every scale.

    Raises
    ------
    LakeError
        The scale is outside 0.5 to 100: with fewer orders the kinds of customers cannot be told apart.
    """
    require_scale(scale, "orders", MIN_SCALE, MAX_SCALE, f"{_ORDERS_AT_SCALE_1} orders")
    return int(_ORDERS_AT_SCALE_1 * scale + 0.5)


def kinds(seed: int) -> Mapping[str, Kind]:
    """The kind of each customer, by `customer_id`, in the order of their numbers."""
    every = [kind for kind in KINDS for _ in range(kind.customers)]
    placed = shuffled(stream(seed, 0), len(every)).tolist()
    return {customer_id: every[place] for (customer_id, _), place in zip(_customers(), placed, strict=True)}


def orders_of(kind: Kind, scale: float) -> int:
    """How many orders of the snapshot a customer of a kind has; of the many small ones, at least."""
    count = order_count(scale)
    shares = {BIG: count * 4 // 100, REGULAR: count * 18 // 1000, RARE: 2}
    if kind in shares:
        return shares[kind]
    return (count - sum(each.customers * number for each, number in shares.items())) // kind.customers


def snapshot(scale: float, seed: int) -> Database:
    """All rows of customers, orders and order items, sorted by key; order ids begin at 10248, other keys at 1.

    What holds: every reference has its row; an order has at least one item; it is required two to four weeks after its
    day, and shipped ten days after it at the latest, but for the last days' orders, which are not shipped yet.

    Raises
    ------
    LakeError
        The scale or the seed is out of range.
    """
    require_seed(seed, "orders")
    count, by_customer = order_count(scale), kinds(seed)
    rng = stream(seed, 1)
    buyers = [customer for customer, kind in by_customer.items() for _ in range(orders_of(kind, scale))]
    others = [customer for customer, kind in by_customer.items() if kind is OTHER]
    buyers += others[: count - len(buyers)]
    days = sorted(rng.integers(0, _DAYS, count).tolist())
    orders: list[Row] = []
    items: list[Row] = []
    for number, (place, day) in enumerate(zip(shuffled(rng, count).tolist(), days, strict=True)):
        order_id, customer_id = FIRST_ORDER_ID + number, buyers[place]
        orders.append(_order(rng, order_id, customer_id, day))
        items += made_items(rng, by_customer[customer_id], order_id, len(items) + 1)
    customers = [(number, *customer) for number, customer in enumerate(_customers(), start=1)]
    return {
        "ecommerce.customers": CUSTOMERS.to_arrow(customers),
        "ecommerce.orders": ORDERS.to_arrow(orders),
        "ecommerce.order_items": ORDER_ITEMS.to_arrow(items),
    }


def made_items(rng: np.random.Generator, kind: Kind, order_id: int, first_id: int) -> list[Row]:
    """The items of a new order, as a customer of a kind orders them."""
    count = int(rng.integers(kind.items[0], kind.items[1] + 1))
    return [made_item(rng, kind, order_id, item_id) for item_id in range(first_id, first_id + count)]


def made_item(rng: np.random.Generator, kind: Kind, order_id: int, item_id: int) -> Row:
    """One item; expensive products cost some 180 to 260, all others 4 to 60."""
    product_id = int(rng.integers(kind.products[0], kind.products[1] + 1))
    quantity = int(rng.integers(kind.quantity[0], kind.quantity[1] + 1))
    return (item_id, order_id, product_id, price(product_id), quantity, DISCOUNTS[int(rng.integers(0, len(DISCOUNTS)))])


def price(product_id: int) -> Decimal:
    """What a product costs; it never changes."""
    cents = 18_000 + 1900 * (product_id - 73) if product_id >= _EXPENSIVE[0] else 400 + product_id * 3571 % 5600
    return (Decimal(cents) / 100).quantize(Decimal("0.01"))


def _order(rng: np.random.Generator, order_id: int, customer_id: str, day: int) -> Row:
    ordered = _FIRST_DAY + timedelta(days=day)
    required = ordered + timedelta(days=int(rng.integers(14, 29)))
    shipped = ordered + timedelta(days=int(rng.integers(1, 11)))
    return order_id, customer_id, ordered, required, None if day > _DAYS - _NOT_SHIPPED_YET else shipped


def _customers() -> Iterator[tuple[str, str]]:
    """Customers' ids of five letters, and the names that they come from."""
    names: Sequence[tuple[str, str]] = [(first, second) for second in _SECOND_WORDS for first in _FIRST_WORDS]
    for first, second in names[:CUSTOMER_COUNT]:
        yield f"{first[:3]}{second[:2]}".upper(), f"{first} {second}"
