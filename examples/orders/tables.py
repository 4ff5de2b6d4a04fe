"""The tables of the orders system: those that the shop works with, and the outbox that its triggers fill.

All are PostgreSQL's, in the database `orders`. Connectors capture the outbox alone: the topic is the article's.
"""

from __future__ import annotations

from typing import Final

from examples.generating.model import Column, Table

PREFIX: Final = "msk"  # topic.prefix of the connector

CUSTOMERS: Final = Table(
    "postgresql", "orders", "ecommerce", "customers",
    (
        Column("customer_number", "int32", nullable=False),
        Column("customer_id", "string", nullable=False),
        Column("company_name", "string", nullable=False),
    ),
    prefix=PREFIX,
)  # fmt: skip
ORDERS: Final = Table(
    "postgresql", "orders", "ecommerce", "orders",
    (
        Column("order_id", "int32", nullable=False),
        Column("customer_id", "string", nullable=False),
        Column("order_date", "date", nullable=False),
        Column("required_date", "date"),
        Column("shipped_date", "date"),
    ),
    prefix=PREFIX,
)  # fmt: skip
ORDER_ITEMS: Final = Table(
    "postgresql", "orders", "ecommerce", "order_items",
    (
        Column("order_item_id", "int32", nullable=False),
        Column("order_id", "int32", nullable=False, references="ecommerce.orders"),
        Column("product_id", "int16", nullable=False),
        Column("unit_price", "decimal", nullable=False),
        Column("quantity", "int16", nullable=False),
        Column("discount", "decimal", nullable=False),
    ),
    prefix=PREFIX,
)  # fmt: skip
TABLES: Final = (CUSTOMERS, ORDERS, ORDER_ITEMS)

CDC_EVENTS: Final = Table(
    "postgresql", "orders", "datalake", "cdc_events",
    (
        Column("order_id", "int32", nullable=False),
        Column("customer_id", "string", nullable=False),
        Column("company_name", "string"),
        Column("order_date", "date"),
        Column("required_date", "date"),
        Column("shipped_date", "date"),
        Column("order_items", "string"),
    ),
    prefix=PREFIX,
)  # fmt: skip
