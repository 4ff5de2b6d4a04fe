"""The models of a project of the kind that people bring along: their texts, their settings, the columns of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

TABLES = {
    "orders": {"id": "int", "customer": "int", "amount": "int", "year": "int", "changed": "int"},
    "customers": {"id": "int", "name": "string", "region": "int", "code": "int"},
}
STAGED = {
    "orders": """
        select
            id, customer, amount, year, make_timestamp(year, 6, 15, 12, 0, 0) as at,
            changed, timestamp_seconds(changed) as changed_at
        from {{ source('shop', 'orders') }}
        where __deleted = 'false'
        """,
    "customers": "select * from {{ source('shop', 'customers') }} where __deleted = 'false'",
}
BY_ID = {"source": "shop.orders", "by": {"id": "id"}}
# Models that keep the law: their select, with a number that a step changes, their key, and the right entries.
LAWFUL: dict[str, tuple[str, list[str], list[dict[str, Any]]]] = {
    "windowed": (
        """
        select id, customer, amount + {0} as amount, sum(amount) over (partition by customer order by id) as so_far
        from {{{{ ref('stg_orders') }}}}
        """,
        ["id"],
        [BY_ID, {"source": "shop.orders", "by": {"customer": "customer"}}],
    ),
    # Of a customer that comes, neither key nor region are known: every change compares the whole table.
    "grouped": (
        """
        select
            coalesce(orders.customer, 0) as customer,
            coalesce(customers.region, -1) as region,
            count(*) as orders,
            sum(orders.amount) + {0} as amount
        from {{{{ ref('stg_orders') }}}} as orders
        left join {{{{ source('seen', 'seen_customers') }}}} as customers on orders.customer = customers.id
        group by coalesce(orders.customer, 0), coalesce(customers.region, -1)
        """,
        ["customer", "region"],
        [],
    ),
    "joined": (
        """
        select
            orders.id, orders.amount * {0} as amount, orders.customer, customers.name,
            map(coalesce(customers.name, 'none'), {0}) as more
        from {{{{ ref('stg_orders') }}}} as orders
        left join {{{{ ref('stg_customers') }}}} as customers on orders.customer = customers.id
        """,
        ["id"],
        [BY_ID, {"source": "shop.customers", "by": {"customer": "id"}}],
    ),
    # Two bands of one number give an order two rows.
    "marts_on_marts": (
        """
        select windowed.id, windowed.so_far + {0} as so_far, grouped.orders, bands.band
        from {{{{ ref('windowed') }}}} as windowed
        inner join (select customer, sum(orders) as orders from {{{{ ref('grouped') }}}} group by customer) as grouped
            on windowed.customer = grouped.customer
        left join {{{{ ref('bands') }}}} as bands on windowed.amount % 3 = bands.id
        """,
        ["id"],
        [],
    ),
    "by_name": (
        "-- depends_on: {{{{ ref('windowed') }}}}\nselect id, so_far + {0} as value from {1}.windowed",
        ["id"],
        [],
    ),
    # A key that the source does not promise.
    "keyed": (
        "select code, id, name, {0} as number from {{{{ ref('stg_customers') }}}}",
        ["code"],
        [{"source": "shop.customers", "by": {"code": "code"}}],
    ),
}
NEWER = " {% if is_incremental() %}where id > (select coalesce(max(id), 0) from {{ this }}){% endif %}"
PARTS = {"asks": "merge", "appended": "append"}
# Batches of a year: each run computes the last two. Orders are of these years, of the one before, or of none.
THIS_YEAR = datetime.now(UTC).year
BEGIN = THIS_YEAR - 2
YEARS = range(BEGIN - 1, THIS_YEAR + 1)
BATCHES: dict[str, Any] = {
    "incremental_strategy": "microbatch",
    "event_time": "day",
    "batch_size": "year",
    "begin": f"{BEGIN}-01-01",
    "lookback": 1,
    "partition_by": ["year"],
    "options": {},
    "unique_key": ["day", "customer"],
}
DAILY = """
select
    make_date(year, 6, 15) as day, year, coalesce(customer, 0) as customer,
    count(*) as orders, sum(amount) + {0} as amount
from {{{{ ref('stg_orders') }}}}
group by year, coalesce(customer, 0)
"""
# A model whose columns come and go: what each is in the text, and of which type.
MODES = ("append_new_columns", "sync_all_columns", "fail", "ignore")
COLUMNS = {"customer": [("customer", "int")], "more": [("{0}", "int"), ("'{0}'", "string")], "other": [("id", "int")]}
# A snapshot's key is of two columns: an order that has another customer is another key.
VERSIONS = "select id, coalesce(customer, 0) as customer, amount, changed, changed_at from {{ ref('stg_orders') }}"
STRATEGIES: dict[str, dict[str, Any]] = {
    "check": {"strategy": "check", "check_cols": ["amount"]},
    "timestamp": {"strategy": "timestamp", "updated_at": "changed_at"},
}
CHANGING = (*LAWFUL, "daily", "shaped")
NAMES = (*LAWFUL, *PARTS, "daily", "shaped", "versions")


@dataclass
class Shape:
    """The columns of `shaped` beyond its key, by their names: what its text has, and what its table."""

    mode: str = "append_new_columns"
    text: dict[str, tuple[str, str]] = field(default_factory=dict)
    table: dict[str, tuple[str, str]] = field(default_factory=dict)

    def is_refused(self) -> bool:
        """Whether `on_schema_change` lets no run go on."""
        is_more, is_less = self.text.keys() - self.table.keys(), self.table.keys() - self.text.keys()
        is_other = any(self.table[name][1] != type_ for name, (_, type_) in self.text.items() if name in self.table)
        return {
            "append_new_columns": is_other,
            "sync_all_columns": False,
            "fail": bool(is_more or is_less or is_other),
            "ignore": bool(is_less or is_other),
        }[self.mode]

    def after(self) -> dict[str, tuple[str, str]]:
        """The table's columns after an increment."""
        if self.mode == "sync_all_columns":
            return dict(self.text)
        return {**self.table, **self.text} if self.mode == "append_new_columns" else dict(self.table)
