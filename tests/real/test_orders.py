"""The orders on the real chain: triggers fill the outbox, Debezium captures it, and its event router makes events."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY, Row
from continuously import wait_until
from pyspark.sql import SparkSession

from examples.generating.model import replay
from examples.orders.outbox import Outbox
from examples.orders.tables import CDC_EVENTS
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.landing.run import land
from ingest.landing.table import Landed
from ingest.operations.reconcile import reconcile
from real.live import SEED, Live

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.timeout(1800)]
SCALE, ROW_CHANGES = 0.5, 400
TOPIC, ROUTED = "msk.datalake.cdc_events", "outbox.event.order"


@dataclass
class Shop:
    """The chain with the shop in it beside TICKIT, and the session that lands its topics."""

    live: Live
    spark: SparkSession

    def land(self, source: str) -> Landed:
        (landed,) = land(self.spark, load_source(Project.load(REPOSITORY), source).tables)
        assert landed.error is None, landed.error
        return landed

    def rows(self, source: str, table: str) -> list[Row]:
        """Live rows of silver in the outbox's columns, with the items as they are and not as they are written."""
        columns = [column.name for column in CDC_EVENTS.columns]
        found = self.spark.table(f"silver_{source}.{table}").where("__deleted = 'false'")
        return in_values(row.asDict() for row in found.select(*columns).orderBy("order_id").collect())


def in_values(rows: Any) -> list[Row]:
    return [{**row, "order_items": json.loads(row["order_items"], parse_float=Decimal)} for row in rows]


def expected(transactions: int | None) -> list[Row]:
    """The outbox after so many transactions of the history, by the generator."""
    outbox = Outbox()
    before = outbox.snapshot(SCALE, SEED)
    history = outbox.history(before, SCALE, SEED)[:transactions]
    return in_values(replay([CDC_EVENTS], before, history)[CDC_EVENTS.full_name].to_pylist())


@pytest.fixture(scope="module")
def shop(live: Live, spark: SparkSession) -> Iterator[Shop]:
    size = ("--scale", str(SCALE), "--seed", str(SEED), "--row-changes", str(ROW_CHANGES))
    told = live.well("up", "--system", "orders", *size)
    assert "orders-outbox made" in told
    assert "orders-router made" in told
    settings = {**live.environment, **live.chain.settings.passwords, "ORDERS_CONNECTION": "orders_kafka"}
    with pytest.MonkeyPatch.context() as patch:
        home = os.environ["LAKE_HOME"]
        for name, value in settings.items():
            patch.setenv(name, value)
        patch.setenv("LAKE_HOME", home)
        yield Shop(live, spark)


def test_the_outbox_and_the_routers_events_end_as_the_shop_does(shop: Shop) -> None:
    snapshot = expected(0)
    wait_until(lambda: shop.live.topics.ends().get(TOPIC, 0) >= len(snapshot), "the snapshot of the outbox")
    shop.land("orders")
    assert shop.rows("orders", "cdc_events") == snapshot
    shop.live.well("changes", "--system", "orders", "--count", "100")
    shop.live.well("changes", "--system", "orders")
    final = expected(None)

    def is_final(source: str, table: str) -> bool:
        shop.land(source)
        return shop.rows(source, table) == final

    wait_until(lambda: is_final("orders", "cdc_events"), "silver is the outbox")
    wait_until(lambda: is_final("orders_outbox", "orders"), "the router's events end as the outbox")
    (table,) = load_source(Project.load(REPOSITORY), "orders").tables
    compared = reconcile(shop.spark, table)
    assert compared.equal, compared.counts


def test_the_router_writes_payloads_by_the_orders_id(shop: Shop) -> None:
    """What a consumer of the topic sees: a key, JSON without anything of Debezium's, and no value where it is gone."""
    ends = shop.live.topics.ends()[ROUTED]
    keys, values = set(), []
    with shop.live.topics.reading(ROUTED.replace(".", "[.]")) as coming:
        for _ in range(ends):
            record = next(coming)
            keys.add(record.key.decode() if record.key else "")
            values.append(shop.live.topics.decode(record.value))
    payloads = [value for value in values if value is not None]
    assert {str(payload["order_id"]) for payload in payloads} == keys
    assert set(payloads[0]) == {column.name for column in CDC_EVENTS.columns} | {"version"}
    assert None in values


def test_both_systems_live_in_one_chain(shop: Shop, tmp_path: Path) -> None:
    told = shop.live.well("up", "--system", "orders")
    assert "were filled" in told
    assert told.count("was there") == 2
    assert shop.live.run("changes", "--system", "nobody").returncode == 1
