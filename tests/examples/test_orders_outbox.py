"""The orders and their outbox: the shop's rows, what its triggers make of them, and how the events of it arrive."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from conftest import REPOSITORY

from examples import system
from examples.generating.debezium import avro_schema, record_names
from examples.generating.model import Row, replay
from examples.orders.changes import history
from examples.orders.outbox import Outbox, filled
from examples.orders.rows import BIG, OTHER, RARE, kinds, orders_of, snapshot
from examples.orders.tables import CDC_EVENTS, TABLES
from ingest.config.schema_files import semantic_types
from ingest.errors import LakeError

SCALE = 0.5
SCHEMA = REPOSITORY / "models/staging/orders/schema-msk.datalake.cdc_events.avsc"
Record = dict[str, Any]


@pytest.fixture(scope="module", params=(1, 42))
def seed(request: pytest.FixtureRequest) -> int:
    return cast(int, request.param)


@pytest.fixture(scope="module")
def written(seed: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("orders")
    system("orders").generate(to, scale=SCALE, seed=seed)
    return to


def records_of(to: Path) -> list[Record]:
    """All events of the outbox in the order of their offsets."""
    files = sorted((to / "bronze/msk.datalake.cdc_events").rglob("*.json"), key=lambda path: path.stem)
    return [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]


def oracle(to: Path) -> list[Record]:
    file = system("orders").expected(to, "all")["datalake.cdc_events"]
    rows: list[Record] = pq.read_table(file).to_pylist()
    return rows


def test_after_every_transaction_the_outbox_is_what_the_shops_tables_say(seed: int) -> None:
    shop = snapshot(SCALE, seed)
    outbox, transactions = Outbox(), history(shop, SCALE, seed)
    before, captured = outbox.snapshot(SCALE, seed), outbox.history(shop, SCALE, seed)
    assert [each.committed_at_us for each in captured] == [each.committed_at_us for each in transactions]
    for count in (0, 1, 60, len(captured)):
        after = filled(replay(TABLES, shop, transactions[:count]))
        assert replay([CDC_EVENTS], before, captured[:count])[CDC_EVENTS.full_name].equals(after[CDC_EVENTS.full_name])


def test_one_transaction_fills_the_outbox_several_times(written: Path) -> None:
    """Changes of an order that have one millisecond and, but for the place in the log, nothing to order them by."""
    places: dict[tuple[int, int], set[int]] = defaultdict(set)
    for record in records_of(written):
        if record["__op"] != "r":
            places[record["order_id"], record["__source_ts_ms"]].add(record["__lsn"])
    tied = [found for found in places.values() if len(found) > 1]
    assert len(tied) > len(places) // 3


def test_the_latest_event_of_each_order_is_the_outbox(written: Path) -> None:
    latest: dict[int, Record] = {}
    for record in records_of(written):
        known = latest.get(record["order_id"])
        place = (record["__source_ts_ms"], record["__lsn"])
        if known is None or place >= (known["__source_ts_ms"], known["__lsn"]):
            latest[record["order_id"]] = record
    left = {key: record["order_items"] for key, record in latest.items() if record["__deleted"] == "false"}
    assert left == {row["order_id"]: row["order_items"] for row in oracle(written)}
    assert any(record["__deleted"] == "true" for record in latest.values())


def test_some_events_come_late_and_some_twice(written: Path) -> None:
    records = records_of(written)
    manifest = json.loads((written / "manifest.json").read_text())
    assert manifest["late"] > 0
    assert manifest["repeated"] > 0
    assert manifest["records"] == len(records)
    told = [json.dumps(record) for record in records]
    assert len(told) - len(set(told)) == manifest["repeated"]


def test_customers_are_of_four_kinds(seed: int, written: Path) -> None:
    revenue: dict[str, Decimal] = defaultdict(Decimal)
    orders: dict[str, int] = defaultdict(int)
    items: dict[str, int] = defaultdict(int)
    for row in oracle(written):
        orders[row["customer_id"]] += 1
        for item in json.loads(row["order_items"], parse_float=Decimal):
            items[row["customer_id"]] += 1
            revenue[row["customer_id"]] += item["unit_price"] * item["quantity"] * (1 - item["discount"])
    known = kinds(seed)
    by_revenue = sorted(revenue, key=lambda customer: -revenue[customer])
    assert {known[customer] for customer in by_revenue[:3]} == {BIG}
    assert revenue[by_revenue[2]] > 2 * revenue[by_revenue[3]]
    assert sum(revenue[customer] for customer in by_revenue[:20]) * 2 > sum(revenue.values())
    small = [customer for customer in revenue if known[customer] is not BIG]
    dear = sorted(small, key=lambda customer: -revenue[customer] / items[customer])[:5]
    assert {known[customer] for customer in dear} == {RARE}
    assert {orders[customer] for customer in dear} == {orders_of(RARE, SCALE)}
    assert orders_of(RARE, SCALE) < orders_of(OTHER, SCALE)


def test_the_schema_file_is_that_of_the_outbox() -> None:
    declared = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert [field["name"] for field in declared["fields"]] == list(record_names(CDC_EVENTS))
    assert declared["connect.name"] == avro_schema(CDC_EVENTS)["connect.name"]
    meant = semantic_types(SCHEMA.read_text(encoding="utf-8"))
    assert {column.name for column in CDC_EVENTS.columns if column.type == "date"} == {
        name for name, meaning in meant.items() if meaning == "io.debezium.time.Date"
    }


def test_same_settings_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        system("orders").generate(tmp_path / name, scale=SCALE, seed=5)
    one, two = ({path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.*")
                 if path.is_file()} for name in ("one", "two"))  # fmt: skip
    assert one == two


@pytest.mark.parametrize(("scale", "seed", "told"), [(0.1, 1, "0.5 to 100"), (1.0, -1, "seed -1")])
def test_what_cannot_be_made_is_refused(scale: float, seed: int, told: str, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=told):
        system("orders").generate(tmp_path, scale=scale, seed=seed)


def test_rows_are_those_that_the_database_takes(seed: int) -> None:
    shop = snapshot(SCALE, seed)
    rows: dict[str, list[Row]] = {
        table.full_name: list(zip(*(column.to_pylist() for column in shop[table.full_name].columns), strict=True))
        for table in TABLES
    }
    customers = {row[1] for row in rows["ecommerce.customers"]}
    assert all(len(str(customer)) == 5 for customer in customers)
    assert len(customers) == 91
    assert {row[1] for row in rows["ecommerce.orders"]} == customers
    assert {row[1] for row in rows["ecommerce.order_items"]} == {row[0] for row in rows["ecommerce.orders"]}
