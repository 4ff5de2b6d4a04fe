"""Orders by way of an outbox: from files of its rows to who buys what, with what is broken among them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from conftest import REPOSITORY, MakeProject, Row
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession
from records import records_file

from examples import Written, system
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.landing.run import land
from ingest.silver import quarantine
from ingest.silver.state import Counts

pytestmark = [pytest.mark.spark, pytest.mark.systems]
SCALE = 0.5
TOPIC = "msk.datalake.cdc_events"
CENT = Decimal("0.01")
# What the source may hold, though it is no list of items; and orders that have no items.
BROKEN = {
    900_001: '[{"discount": 0.05, "quantity": 3, ',
    900_002: '{"discount": 0.05, "quantity": 3, "unit_price": 14.40}',
    900_003: '[{"discount": 0.05, "quantity": "three", "unit_price": 14.40}]',
}
WITHOUT = {900_004: "[]", 900_005: None}
# A line that is no event, and one with a date that is none.
UNREADABLE = (
    '{"order_id": 900006, "customer_id": ',
    '{"order_id": 900007, "order_date": "soon", "__op": "c", "__lsn": 9}',
)


@dataclass(frozen=True)
class Orders:
    """The lake with the orders landed, and the models built from them once.

    Attributes
    ----------
    statuses:
        Of each node of `dbt build`, by name.
    """

    spark: SparkSession
    written: Written
    counts: Counts
    outbox: list[Row]
    statuses: dict[str, str]

    def ask(self, query: str) -> list[Row]:
        return [row.asDict() for row in self.spark.sql(query).collect()]

    @property
    def items(self) -> dict[int, list[dict[str, Any]]]:
        """The items of each order, by the generator's outbox."""
        return {row["order_id"]: json.loads(row["order_items"], parse_float=Decimal) for row in self.outbox}


@pytest.fixture(scope="module")
def orders(spark: SparkSession) -> Iterator[Orders]:
    """Snapshot and changes landed by one run with the broken rows among them, and one `dbt build --selector orders`."""
    before, home = Path.cwd(), Path(os.environ["LAKE_HOME"]) / "orders"
    example = system("orders")
    written = example.generate(home, scale=SCALE, form="json")
    deliver_broken(home, written.records)
    (landed,) = land(spark, load_source(Project.load(REPOSITORY), "orders").tables)
    assert landed.error is None, landed.error
    where = ["--project-dir", str(REPOSITORY), "--profiles-dir", str(REPOSITORY)]
    done: Any = dbtRunner().invoke(["--quiet", "build", "--selector", "orders", *where])
    assert done.exception is None, done.exception
    statuses = {node.node.name: str(node.status) for node in done.result.results}
    outbox = pq.read_table(example.expected(home, "all")["datalake.cdc_events"]).to_pylist()
    yield Orders(spark, written, landed.counts, outbox, statuses)
    os.chdir(before)


def deliver_broken(home: Path, offset: int) -> None:
    """A file behind the generated ones."""
    at_ms = 1_640_000_000_000
    common = {"customer_id": "BROKE", "order_date": 18_980, "__op": "c", "__deleted": "false", "__source_ts_ms": at_ms}
    events = [
        json.dumps({"order_id": order_id, "order_items": items, "__lsn": 10**9 + order_id, **common})
        for order_id, items in {**BROKEN, **WITHOUT}.items()
    ]
    (home / "bronze" / TOPIC / f"{TOPIC}+0+{offset:010d}.json").write_text(
        "".join(f"{line}\n" for line in (*events, *UNREADABLE)), encoding="utf-8"
    )


def revenue(item: dict[str, Any]) -> Decimal:
    paid: Decimal = item["unit_price"] * item["quantity"] * (1 - item["discount"])
    return paid.quantize(CENT, rounding=ROUND_HALF_UP)


def test_every_record_that_was_delivered_is_read_and_accounted_for(orders: Orders) -> None:
    counts = orders.counts
    assert counts.read == orders.written.records + len(BROKEN) + len(WITHOUT) + len(UNREADABLE)
    told = counts.applied + counts.superseded + counts.duplicate + counts.ignored + counts.quarantined
    assert told == counts.read
    assert counts.superseded > 0
    assert counts.duplicate > 0
    assert counts.quarantined == len(UNREADABLE)
    kept = quarantine.events(orders.spark, load_source(Project.load(REPOSITORY), "orders"))
    assert kept is not None
    assert sorted(bytes(row["raw"]).decode() for row in kept.collect()) == sorted(UNREADABLE)


def test_silver_is_the_outbox_of_the_shop(orders: Orders) -> None:
    """Though an order changes several times in one millisecond, and events come late and twice."""
    columns = list(orders.outbox[0])
    query = f"select {', '.join(columns)} from silver_orders.cdc_events where __deleted = 'false'"
    assert orders.ask(f"{query} and order_id < 900000 order by order_id") == orders.outbox
    # A row of silver is what the source has, whether it can be read or not.
    added = {row["order_id"]: row["order_items"] for row in orders.ask(f"{query} and order_id > 900000")}
    assert added == {**BROKEN, **WITHOUT}


def test_an_order_whose_items_cannot_be_read_is_told_of_and_not_lost(orders: Orders) -> None:
    found = orders.ask(
        "select order_id, item_count, revenue, has_readable_items from lakehouse_orders.fct_orders "
        "where order_id > 900000"
    )
    nothing = {"item_count": 0, "revenue": Decimal("0.00")}
    assert sorted(found, key=lambda row: int(row["order_id"])) == [
        {"order_id": order_id, **nothing, "has_readable_items": order_id in WITHOUT}
        for order_id in sorted({**BROKEN, **WITHOUT})
    ]
    (customer,) = orders.ask("select * from lakehouse_orders.dim_order_customers where customer_id = 'BROKE'")
    assert (customer["order_count"], customer["unreadable_order_count"]) == (5, 3)
    assert {name: status for name, status in orders.statuses.items() if status not in ("success", "pass", "no-op")} == {
        "fct_orders_items_can_be_read": "warn"
    }


def test_every_order_item_is_a_row(orders: Orders) -> None:
    rows = orders.ask("select * from lakehouse_orders.fct_order_items")
    assert len(rows) == sum(map(len, orders.items.values()))
    found = {
        (row["order_id"], row["item_number"]): (row["quantity"], row["unit_price"], row["revenue"]) for row in rows
    }
    assert found == {
        (order_id, number): (item["quantity"], item["unit_price"], revenue(item))
        for order_id, items in orders.items.items()
        for number, item in enumerate(items, start=1)
    }


def test_three_customers_are_big(orders: Orders) -> None:
    rows = orders.ask(
        "select revenue, order_count from lakehouse_orders.dim_order_customers order by revenue desc limit 4"
    )
    assert rows[2]["revenue"] > 2 * rows[3]["revenue"]
    assert min(row["order_count"] for row in rows[:3]) > rows[3]["order_count"]


def test_the_first_twenty_customers_make_the_majority(orders: Orders) -> None:
    rows = orders.ask("select revenue from lakehouse_orders.dim_order_customers order by revenue desc")
    every = [row["revenue"] for row in rows]
    assert sum(every) == sum(revenue(item) for items in orders.items.values() for item in items)
    assert len(every) > 80
    assert sum(every[:20]) * 2 > sum(every)


def test_five_customers_buy_seldom_and_then_expensive_things(orders: Orders) -> None:
    rows = orders.ask(
        "select order_count, average_quantity, average_revenue from lakehouse_orders.dim_order_customers "
        "where customer_id != 'BROKE' order by revenue desc"
    )
    big, others = rows[:3], sorted(rows[3:], key=lambda row: row["average_revenue"], reverse=True)
    rare, usual = others[:5], others[5:]
    assert max(row["order_count"] for row in rare) <= min(row["order_count"] for row in usual)
    assert min(row["average_revenue"] for row in rare) > max(row["average_revenue"] for row in usual)
    # The big ones stand in the other corner: much of everything.
    assert min(row["average_quantity"] for row in big) > 2 * max(row["average_quantity"] for row in rare)


def test_events_of_the_event_router_are_landed_by_their_version(make_project: MakeProject, spark: SparkSession) -> None:
    """Debezium's router writes the payload alone: the key says whose it is, nothing at all says that it is gone."""
    file = REPOSITORY / "models/staging/orders_outbox/_orders_outbox__sources.yml"
    (declared,) = yaml.safe_load(file.read_text(encoding="utf-8"))["sources"]
    declared["config"]["meta"]["ingest"]["connection"] = "files"
    project = make_project({name: value for name, value in declared.items() if name not in ("name", "schema")})
    items = '[{"discount": 0.05, "quantity": 12, "unit_price": 14.40}]'

    def placed(order_id: int, version: int, customer: str) -> tuple[bytes, bytes]:
        payload = {"order_id": order_id, "customer_id": customer, "company_name": None, "order_date": "2021-12-19",
                   "required_date": None, "version": version}  # fmt: skip
        value = f'{json.dumps(payload)[:-1]}, "shipped_date": null, "order_items": {items}}}'
        return b"%d" % order_id, value.encode()

    gone = (b"2", None)
    records = [placed(1, 11, "new"), placed(1, 10, "late"), placed(2, 12, "gone"), gone, placed(3, 14, "stays")]
    project.deliver("outbox.event.order", 0, records_file(records), "parquet")
    landed = project.land_well(spark)["orders"]
    assert [row["reason"] for row in project.quarantined(spark)] == []
    assert landed.counts == Counts(read=5, applied=3, superseded=2)
    found = project.rows(spark, "orders", "order_id", "customer_id", "order_items", "version")
    assert [(row["order_id"], row["customer_id"], row["version"]) for row in found] == [
        (1, "new", 11),
        (3, "stays", 14),
    ]
    assert [json.loads(row["order_items"], parse_float=Decimal) for row in found] == [
        json.loads(items, parse_float=Decimal)
    ] * 2
