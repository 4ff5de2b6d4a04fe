"""Increments driven by the commits of silver: what a changed row reaches is computed again, and the law holds.

The law: after each run an incremental model equals its own select.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from conftest import MakeProject, pg, table_of
from lake import Server
from modeling import Models
from pyspark.sql import SparkSession

from ingest.operations.erase import erase
from ingest.operations.purge import purge

pytestmark = pytest.mark.spark

ORDER = {"id": "int", "customer": "int", "amount": "int", "at": "int"}
CUSTOMER = {"id": "int", "name": "string", "region": "int"}
REGION = {"id": "int", "name": "string"}
LIVE = "select * from {{{{ source('shop', '{}') }}}} where __deleted = 'false'"
ORDERS = """
select orders.id, orders.customer, customers.region, orders.amount, customers.name, regions.name as region_name
from {{ ref('stg_orders') }} as orders
left join {{ ref('stg_customers') }} as customers on orders.customer = customers.id
left join {{ ref('stg_regions') }} as regions on customers.region = regions.id
"""
REACH_ORDERS = [
    {"source": "shop.orders", "by": {"id": "id"}},
    {"source": "shop.customers", "by": {"customer": "id"}},
    {"source": "shop.regions", "by": {"region": "id"}},
]
TOTALS = """
select customers.id, customers.name, count(orders.id) as orders, sum(orders.amount) as amount, max(orders.at) as last_at
from {{ ref('stg_customers') }} as customers
left join {{ ref('stg_orders') }} as orders on customers.id = orders.customer
group by customers.id, customers.name
"""
REACH_TOTALS = [
    {"source": "shop.customers", "by": {"id": "id"}},
    {"source": "shop.orders", "by": {"id": "customer"}, "reads": ["amount", "at"]},
]
MODELS = ("fct_orders", "customer_totals")
OPTIONS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
Change = tuple[str, str, Mapping[str, Any]]


@dataclass
class Shop:
    """A shop whose changes land in silver, and models that are built from it: each beside its own select."""

    models: Models
    offset: int = 0
    tables: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)

    def change(self, *changes: Change) -> None:
        """Lands changes of some tables: table, op, row."""
        by_table: dict[str, list[Mapping[str, Any]]] = {}
        for table, op, row in changes:
            self.offset += 1
            by_table.setdefault(table, []).append(pg(op, 1000 + self.offset, **row))
            rows = self.tables.setdefault(table, {})
            rows.pop(row["id"], None)
            if op != "d":
                rows[row["id"]] = dict(row)
        for table, events in by_table.items():
            self.models.project.deliver(f"shop.{table}", self.offset, events)
        self.models.land(*by_table)

    def require_law(self, *names: str) -> None:
        """Each model's table holds what its select gives."""
        for name in names or MODELS:
            assert self.models.rows(name) == self.models.rows(f"select_of_{name}"), name

    def run(self, *views: str) -> None:
        """An increment of every model, after which the law holds; views that have changed are made anew before."""
        self.models.run(*views, *MODELS)
        self.require_law()


MakeShop = Callable[..., Shop]


@pytest.fixture
def make_shop(spark: SparkSession, make_project: MakeProject, server: Server | None) -> MakeShop:
    """Makes a shop with three tables, landed once, and built once; options are those of its silver tables.

    `marts` are more options of Hudi for its models.
    """

    def make(marts: Mapping[str, str] | None = None, **options: Any) -> Shop:
        tables = {"orders": ORDER, "customers": CUSTOMER, "regions": REGION}
        project = make_project(
            {"tables": [table_of(name, columns, ["id"], **options) for name, columns in tables.items()]}
        )
        of_marts = {**OPTIONS, **(marts or {})}
        models = Models.of(spark, project, server, file_format="hudi", unique_key="id", options=of_marts)
        for name in tables:
            models.write(f"stg_{name}", LIVE.format(name), materialized="view")
        for name, sql, reach in (("fct_orders", ORDERS, REACH_ORDERS), ("customer_totals", TOTALS, REACH_TOTALS)):
            models.write(name, sql, materialized="incremental", meta={"affected_by": reach})
            models.write(f"select_of_{name}", sql, materialized="view")
        shop = Shop(models)
        shop.change(
            *(("regions", "c", {"id": number, "name": f"region {number}"}) for number in (1, 2)),
            *(("customers", "c", {"id": n, "name": f"customer {n}", "region": 1 + n % 2}) for n in range(1, 5)),
            *(("orders", "c", {"id": n, "customer": 1 + n % 4, "amount": n, "at": n}) for n in range(1, 13)),
        )
        models.run()
        shop.require_law()
        return shop

    return make


def differing(lines: Iterable[str]) -> list[int]:
    """How many rows a run has written to a model, by its log."""
    return [int(line.split()[0]) for line in lines if line.endswith("rows differ")]


NOTHING = ["nothing upstream has changed"]


def written(shop: Shop) -> dict[str, list[str]]:
    """What a run says of each model that it has written."""
    shop.run()
    return {name: shop.models.told(name) for name in MODELS}


@pytest.mark.slow
def test_a_run_without_changes_asks_the_catalog_once_for_a_schema(make_shop: MakeShop) -> None:
    shop = make_shop()
    models = shop.models
    models.run("fct_orders")
    assert models.told("fct_orders") == NOTHING
    log = (models.project.root / "target" / "dbt.log").read_text(encoding="utf-8")
    last = log[log.rindex("Running with dbt") :]
    silver = models.project.silver(models.spark, "orders").table.relation.replace("`", "").partition(".")[0]
    assert last.count(f"show table extended in `{silver}` like '") == 1
    assert f"describe table extended {silver}." not in last


def require_commits_alone(shop: Shop) -> None:
    """No run is beside the others: each has one commit of its own, and they hold the watermark."""
    assert {action for _, action in shop.models.commits("fct_orders")} == {"commit"}


@pytest.mark.parametrize("table_type", ["cow", pytest.param("mor", marks=pytest.mark.slow)])
def test_an_increment_reaches_what_changed_and_nothing_else(table_type: str, make_shop: MakeShop) -> None:
    shop = make_shop(table_type=table_type)
    # An order moves from customer 2 to customer 4: both totals change, the one it has left as well. One of customer 1
    # is gone.
    shop.change(
        ("orders", "u", {"id": 1, "customer": 4, "amount": 100, "at": 99}),
        ("orders", "d", {"id": 4, "customer": 1, "amount": 4, "at": 4}),
    )
    assert written(shop) == {"fct_orders": ["2 rows differ"], "customer_totals": ["3 rows differ"]}
    # A customer's name is in each of its orders, which are two; a region's, which no total shows, in the five of its
    # customers.
    shop.change(
        ("customers", "u", {"id": 2, "name": "other", "region": 1}),
        ("regions", "u", {"id": 2, "name": "elsewhere"}),
    )
    assert written(shop) == {"fct_orders": ["7 rows differ"], "customer_totals": ["1 rows differ"]}
    require_commits_alone(shop)


@pytest.mark.slow
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_an_increment_reaches_what_refers_to_rows_that_are_gone_or_come_late(
    table_type: str, make_shop: MakeShop
) -> None:
    shop = make_shop(table_type=table_type)
    # What orders refer to is gone: they stay.
    shop.change(("customers", "d", {"id": 3, "name": "customer 3", "region": 2}))
    assert written(shop)["customer_totals"] == ["1 rows differ"]
    # What was missing comes: rows that wait for it are found by what they refer to.
    shop.change(("orders", "c", {"id": 50, "customer": 60, "amount": 7, "at": 1}))
    assert written(shop) == {"fct_orders": ["1 rows differ"], "customer_totals": ["0 rows differ"]}
    assert written(shop) == {"fct_orders": NOTHING, "customer_totals": NOTHING}
    shop.change(("customers", "c", {"id": 60, "name": "late", "region": 70}))
    assert written(shop) == {"fct_orders": ["1 rows differ"], "customer_totals": ["1 rows differ"]}
    shop.change(("regions", "c", {"id": 70, "name": "later"}))
    assert written(shop)["fct_orders"] == ["1 rows differ"]
    require_commits_alone(shop)


@pytest.mark.slow
def test_a_row_reaches_others_by_what_they_read_of_it(make_shop: MakeShop) -> None:
    shop = make_shop()
    models = shop.models

    def written(op: str, **order: int) -> list[str]:
        shop.change(("orders", op, order))
        models.run("customer_totals")
        return models.told("customer_totals")

    # The entry is not true, for totals show when the last order was: so it is seen what is not looked for.
    reach = [REACH_TOTALS[0], {"source": "shop.orders", "by": {"id": "customer"}, "reads": ["amount"]}]
    models.write("customer_totals", TOTALS, materialized="incremental", meta={"affected_by": reach})
    models.run("customer_totals")
    assert written("u", id=1, customer=2, amount=1, at=98) == ["0 rows differ"]
    assert written("u", id=1, customer=2, amount=7, at=98) == ["1 rows differ"]
    shop.require_law("customer_totals")
    assert written("u", id=1, customer=3, amount=7, at=98) == ["2 rows differ"]
    assert written("c", id=40, customer=1, amount=0, at=99) == ["1 rows differ"]
    assert written("d", id=40, customer=1, amount=0, at=99) == ["1 rows differ"]
    shop.require_law("customer_totals")


@pytest.mark.slow
def test_many_events_rebuild_a_model_in_one_commit(make_shop: MakeShop) -> None:
    shop = make_shop()
    shop.change(*(("orders", "c", {"id": n, "customer": n % 7, "amount": n, "at": n}) for n in range(100, 201)))
    shop.run()
    told = "101 events upstream: it is rebuilt, which takes less than to look for what they reach"
    assert [shop.models.told(name) for name in MODELS] == [[told]] * 2
    assert [action for _, action in shop.models.commits("fct_orders")] == ["commit", "replacecommit"]
    shop.run()
    assert shop.models.told("fct_orders") == NOTHING
    shop.change(("orders", "u", {"id": 100, "customer": 4, "amount": 100, "at": 99}))
    shop.run()
    assert shop.models.told("fct_orders") == ["1 rows differ"]
    # A rebuild of few rows reads all of a source that has many: it follows the events.
    many = range(1_000, 22_000)
    shop.change(*(("orders", "c", {"id": n, "customer": 4, "amount": n, "at": n}) for n in many))
    shop.models.run("customer_totals")
    shop.change(*(("orders", "u", {"id": n, "customer": 4, "amount": 0, "at": n}) for n in many[:101]))
    shop.models.run("customer_totals")
    assert shop.models.told("customer_totals") == ["1 rows differ"]
    shop.require_law("customer_totals")


@pytest.mark.slow
def test_many_events_take_no_column_that_a_model_has_no_longer(make_shop: MakeShop) -> None:
    shop = make_shop()
    config: dict[str, Any] = {"materialized": "incremental", "meta": {"affected_by": REACH_ORDERS[:1]}}
    for columns in ("amount, 'kept' as more", "amount"):
        sql = f"select id, {columns} from {{{{ ref('stg_orders') }}}}"
        shop.models.write("fct_orders", sql, on_schema_change="append_new_columns", **config)
        shop.models.run("fct_orders", whole=columns != "amount")
    shop.change(*(("orders", "c", {"id": n, "customer": 1, "amount": n, "at": n}) for n in range(100, 201)))
    shop.models.run("fct_orders")
    assert len([row for row in shop.models.rows("fct_orders", "id", "more") if row["more"] == "kept"]) == 12


@pytest.mark.slow
def test_a_seed_that_is_written_again_has_not_changed(make_shop: MakeShop) -> None:
    """`dbt build` writes every seed anew: what reads one follows the events all the same."""
    shop = make_shop()
    models = shop.models
    seed = models.project.root / "seeds" / "bands.csv"
    seed.parent.mkdir()
    seed.write_text("least,band\n1,low\n6,high\n")
    sql = """
    select orders.id, min(bands.band) as band from {{ ref('stg_orders') }} as orders
    left join {{ ref('bands') }} as bands on orders.amount >= bands.least group by orders.id
    """
    reach = [{"source": "shop.orders", "by": {"id": "id"}}]
    models.write("banded", sql, materialized="incremental", meta={"affected_by": reach})
    models.write("select_of_banded", sql, materialized="view")
    models.dbt("build", "--select", "bands", "banded", "select_of_banded")
    seed.write_text("least,band\n6,high\n1,low\n")
    models.dbt("build", "--select", "bands", "banded")
    assert models.told("banded") == NOTHING
    shop.change(("orders", "u", {"id": 1, "customer": 2, "amount": 50, "at": 1}))
    models.dbt("build", "--select", "bands", "banded")
    assert models.told("banded") == ["1 rows differ"]
    seed.write_text("least,band\n1,low\n8,high\n")
    models.dbt("build", "--select", "bands", "banded")
    (told, differ) = models.told("banded")
    assert told.endswith("bands has changed, and affected_by does not name it")
    assert differ == "2 rows differ"
    shop.require_law("banded")
    # Where all would be compared, and many events have come, it is rebuilt.
    shop.change(*(("orders", "c", {"id": n, "customer": 1, "amount": n, "at": n}) for n in range(100, 201)))
    seed.write_text("least,band\n1,low\n9,high\n")
    models.dbt("build", "--select", "bands", "banded")
    (told,) = models.told("banded")
    assert told.startswith("101 events upstream: it is rebuilt")
    shop.require_law("banded")


@pytest.mark.slow
def test_a_mart_that_compacts_itself_is_followed(make_shop: MakeShop) -> None:
    shop = make_shop({"type": "mor", "hoodie.compact.inline.max.delta.commits": "2"})
    for number in range(4):
        shop.change(("orders", "u", {"id": 1, "customer": 2, "amount": 50 + number, "at": 1}))
        shop.run()
        assert shop.models.told("fct_orders") == shop.models.told("customer_totals") == ["1 rows differ"]
    actions = [action for _, action in shop.models.commits("fct_orders")]
    assert (actions.count("deltacommit"), actions.count("commit")) == (5, 2)


@pytest.mark.slow
def test_a_key_of_several_columns_is_followed(make_shop: MakeShop) -> None:
    shop = make_shop()
    models = shop.models
    sql = "select customer, id, amount from {{ ref('stg_orders') }}"
    reach = [{"source": "shop.orders", "by": {"customer": "customer", "id": "id"}}]
    key = ["customer", "id"]
    models.write("orders_of", sql, materialized="incremental", unique_key=key, meta={"affected_by": reach})
    models.write("select_of_orders_of", sql, materialized="view")
    models.run("orders_of", "select_of_orders_of")
    # One order moves to another customer, which is another key; one has another amount, one is gone.
    shop.change(
        ("orders", "u", {"id": 1, "customer": 4, "amount": 1, "at": 1}),
        ("orders", "u", {"id": 2, "customer": 3, "amount": 50, "at": 2}),
        ("orders", "d", {"id": 3, "customer": 4, "amount": 3, "at": 3}),
    )
    models.run("orders_of")
    assert models.told("orders_of") == ["4 rows differ"]
    shop.require_law("orders_of")


@pytest.mark.slow
def test_rows_without_a_value_are_a_partition_of_a_window(make_shop: MakeShop) -> None:
    shop = make_shop()
    models = shop.models
    sql = """
    select id, customer, amount, min(at) over (partition by customer) as first_at from {{ ref('stg_orders') }}
    """
    reach = [
        {"source": "shop.orders", "by": {"id": "id"}},
        {"source": "shop.orders", "by": {"customer": "customer"}, "reads": ["at"]},
    ]
    shop.change(*(("orders", "c", {"id": n, "customer": None, "amount": n, "at": n}) for n in (60, 61)))
    models.write("first_orders", sql, materialized="incremental", meta={"affected_by": reach})
    models.write("select_of_first_orders", sql, materialized="view")
    models.run("first_orders", "select_of_first_orders")
    shop.change(("orders", "u", {"id": 61, "customer": None, "amount": 61, "at": 1}))
    models.run("first_orders")
    assert models.told("first_orders") == ["2 rows differ"]
    shop.require_law("first_orders")


@pytest.mark.slow
def test_the_whole_table_is_compared_where_commits_cannot_tell(make_shop: MakeShop) -> None:
    shop = make_shop()
    models = shop.models
    # Another writer: what it did is undone.
    models.do(f"delete from {models.relation('fct_orders')} where id < 4")
    shop.run()
    assert models.told("fct_orders") == [
        "the whole table is compared: its last commit does not say from what it was built", "3 rows differ",
    ]  # fmt: skip
    assert models.told("customer_totals") == NOTHING
    # A view between has another text.
    models.write("stg_regions", LIVE.format("regions") + " and id <> 2", materialized="view")
    shop.run("stg_regions")
    assert (
        models.told("fct_orders")[0]
        == "the whole table is compared: the model or a view that it reads has another text"
    )
    # A source that no entry names.
    models.write("fct_orders", ORDERS, materialized="incremental", meta={"affected_by": REACH_ORDERS[:1]})
    shop.run()
    shop.change(("customers", "u", {"id": 2, "name": "other", "region": 1}))
    shop.run()
    (told, _) = models.told("fct_orders")
    assert told.endswith("customers has changed, and affected_by does not name it")
    shop.change(("orders", "u", {"id": 1, "customer": 4, "amount": 100, "at": 99}))
    shop.run()
    assert models.told("fct_orders") == ["1 rows differ"]
    # A column by which an entry looks for rows, and which the table has not (on_schema_change: ignore).
    named = """
    select orders.id, customers.name{} from {{{{ ref('stg_orders') }}}} as orders
    left join {{{{ ref('stg_customers') }}}} as customers on orders.customer = customers.id
    """
    models.write("named", named.format(""), materialized="incremental", meta={"affected_by": REACH_ORDERS[:1]})
    models.write("select_of_named", named.format(""), materialized="view")
    models.run("named", "select_of_named")
    models.write(
        "named", named.format(", customer"), materialized="incremental", meta={"affected_by": REACH_ORDERS[:2]}
    )
    models.run("named")
    shop.change(("customers", "u", {"id": 2, "name": "another", "region": 1}))
    models.run("named")
    assert models.told("named")[0] == (
        "the whole table is compared: it has no column customer, by which affected_by looks for rows"
    )
    shop.require_law("named")


@pytest.mark.slow
def test_a_source_may_change_while_it_is_read(make_shop: MakeShop) -> None:
    shop = make_shop()
    models = shop.models
    totals: dict[str, Any] = {"materialized": "incremental", "meta": {"affected_by": REACH_TOTALS}}
    # Order 1 leaves customer 2 for 3 behind the version that the run was told, and before it reads: 3's total has it.
    shop.change(("orders", "u", {"id": 2, "customer": 3, "amount": 50, "at": 2}))
    hook = f"update {models.project.schema}.orders set customer = 3 where id = 1"
    models.write("customer_totals", TOTALS, pre_hook=hook, **totals)
    models.run("customer_totals")
    shop.require_law("customer_totals")
    # Now it leaves 3 as well, which neither the version of that run knows nor the table as it is.
    models.write("customer_totals", TOTALS, **totals)
    shop.change(("orders", "u", {"id": 1, "customer": 4, "amount": 1, "at": 1}))
    shop.run()
    assert models.told("customer_totals") == ["2 rows differ"]


@pytest.mark.slow
def test_a_commit_of_when_a_source_was_read_may_be_archived(make_shop: MakeShop) -> None:
    shop = make_shop(table_type="cow")
    models = shop.models
    totals: dict[str, Any] = {"materialized": "incremental", "meta": {"affected_by": REACH_TOTALS}}
    silver = models.project.silver(models.spark, "orders").table.relation.replace("`", "")
    # Order 5 is customer 3's for the moment in which the run reads it, and comes back to customer 2 behind that.
    shop.change(("orders", "u", {"id": 2, "customer": 2, "amount": 50, "at": 2}))
    models.write("customer_totals", TOTALS, pre_hook=f"update {silver} set customer = 3 where id = 5", **totals)
    models.run("customer_totals")
    models.write("customer_totals", TOTALS, **totals)
    for amount in (51, 52):
        shop.change(("orders", "u", {"id": 2, "customer": 2, "amount": amount, "at": 2}))
    archived_early = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.automatic": "false"}
    for name, value in archived_early.items():
        models.do(f"set {name} = {value}")
    models.do(f"update {silver} set customer = 2 where id = 5")
    for name in archived_early:
        models.do(f"reset {name}")
    models.run("customer_totals")
    shop.require_law("customer_totals")
    told = f"the whole table is compared: {silver} may have had commits while the last run read it that are archived"
    assert models.told("customer_totals")[0] == told


@pytest.mark.slow
def test_what_was_cleaned_away_is_not_missed(make_shop: MakeShop) -> None:
    shop = make_shop()
    for number in range(25):
        shop.change(("orders", "u", {"id": 1 + number % 5, "customer": 1 + number % 3, "amount": number, "at": number}))
    shop.run()
    # Totals need the customers that the orders had before: the files that held them are gone.
    (told, _) = shop.models.told("customer_totals")
    assert told.startswith("the whole table is compared: ")
    assert told.endswith("is cleaned away")
    assert differing(shop.models.told("fct_orders")) == [5]


@pytest.mark.slow
def test_rows_that_are_removed_for_good_are_followed(make_shop: MakeShop) -> None:
    """Each erasure and each purge, the second one as the first: none leaves a tombstone."""
    shop = make_shop(deletes="hard", delete_retention_days=7)
    models = shop.models
    orders = models.project.source().choose(["orders"])[0]
    # Of the two deletes, the one that is landed later is the earlier one in the source's log.
    for number, lsn in ((1, None), (2, None), (3, 3000), (4, 2000)):
        if lsn is None:
            erase(models.spark, orders, [(str(number),)])
        else:
            models.project.deliver("shop.orders", 100 + number, [pg("d", lsn, **shop.tables["orders"][number])])
            models.land("orders")
            assert purge(models.spark, orders, datetime.now(UTC) + timedelta(days=8)) == 1
        models.run("fct_orders")
        told, differ = models.told("fct_orders")
        assert (told.endswith("were removed for good, or it was made anew"), differ) == (True, "1 rows differ")
    shop.require_law("fct_orders")


@pytest.mark.slow
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_rows_that_another_writer_removes_are_followed(table_type: str, make_shop: MakeShop) -> None:
    shop = make_shop(table_type=table_type)
    models = shop.models
    silver = models.project.silver(models.spark, "orders").table.relation.replace("`", "")
    models.do(f"delete from {silver} where id = 1")
    # Ingest lands behind it: its commit is the last one.
    shop.change(("orders", "u", {"id": 2, "customer": 4, "amount": 100, "at": 99}))
    told = f"the whole table is compared: another writer than ingest has removed rows of {silver}"
    assert written(shop) == {"fct_orders": [told, "2 rows differ"], "customer_totals": [told, "3 rows differ"]}
    models.do(f"update {silver} set amount = 7 where id = 3")
    assert written(shop)["fct_orders"] == ["1 rows differ"]
    models.do(f"insert overwrite {silver} select * from {silver} where id <> 4")
    assert written(shop)["fct_orders"] == [told, "1 rows differ"]


@pytest.mark.slow
def test_what_a_widened_column_makes_of_rows_that_have_not_changed_is_followed(make_shop: MakeShop) -> None:
    """A hash of texts, as in a data vault: `1` has become `1.0` in each row."""
    shop = make_shop()
    models, reach = shop.models, {"affected_by": REACH_ORDERS[:1]}
    digests = "select id, md5(cast(amount as string)) as digest from {{ source('shop', 'orders') }}"
    models.write("digests", digests, materialized="incremental", meta=reach)
    models.write("select_of_digests", digests, materialized="view")
    models.run("digests", "select_of_digests")
    tables = {"orders": {**ORDER, "amount": "double"}, "customers": CUSTOMER, "regions": REGION}
    models.project.declare({"tables": [table_of(name, columns, ["id"]) for name, columns in tables.items()]})
    shop.change(("orders", "u", {"id": 2, "customer": 4, "amount": 100, "at": 99}))
    models.run("digests")
    silver = models.project.silver(models.spark, "orders").table.relation.replace("`", "")
    told = [f"the whole table is compared: columns of {silver} have other types", "12 rows differ"]
    assert models.told("digests") == told
    shop.require_law("digests")
    models.run("digests")
    assert models.told("digests") == NOTHING


# In `make test`, tests/macros/test_stranger.py plays random changes.
SEEDS = [
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2)),
    *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 23)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_changes_keep_the_law(seed: int, make_shop: MakeShop) -> None:
    draw = random.Random(seed)  # noqa: S311
    shop = make_shop({"type": draw.choice(["cow", "mor"])}, table_type=draw.choice(["cow", "mor"]))
    for _ in range(6):
        shop.change(*(some_change(draw, shop) for _ in range(draw.randint(0, 8))))
        if draw.random() < 0.3:
            erase(shop.models.spark, draw.choice(shop.models.project.source().tables), [(str(draw.randint(1, 15)),)])
        shop.run()


def some_change(draw: random.Random, shop: Shop) -> Change:
    """A create, update or delete of a row of a table; rows may refer to what is not there."""
    table = draw.choice(["orders", "orders", "orders", "customers", "regions"])
    rows = shop.tables[table]
    number = draw.randint(1, 15)
    if number in rows and draw.random() < 0.3:
        return table, "d", rows[number]
    row: dict[str, Any] = {"id": number, "name": f"name {draw.randint(1, 9)}"}
    if table == "customers":
        row["region"] = draw.choice([None, 1, 2, 3])
    if table == "orders":
        row = {"id": number, "customer": draw.choice([None, *range(1, 8)]), "amount": draw.randint(0, 9), "at": number}
    return table, "u" if number in rows else "c", row


WRONG = [
    ({"source": "shop.nothing", "by": {"id": "id"}}, "got affected_by source 'shop.nothing', expected a declared"),
    (
        {"source": "shop.orders", "by": {"id": "number"}},
        "got affected_by column 'number' of shop.orders, expected one of id",
    ),
    (
        {"source": "shop.orders", "by": {"number": "id"}},
        "got affected_by column 'number', expected one of id, customer",
    ),
    (
        {"source": "shop.orders", "by": {"id": "id"}, "reads": ["price"]},
        "got affected_by column 'price' of shop.orders, expected one of id",
    ),
    (
        {"source": "shop.orders", "by": {"id": "id"}, "reads": "amount"},
        "each with reads: [<column of the table>] or without",
    ),
    ({"source": "shop.orders"}, "expected a list of {source: <source>.<table>, by: {"),
    ({"source": "other.orders", "by": {"id": "id"}}, "source 'other.orders', expected one that lake ingest lands"),
]


@pytest.mark.slow
def test_a_wrong_entry_is_refused(make_shop: MakeShop) -> None:
    shop = make_shop()
    shop.change(("orders", "u", {"id": 1, "customer": 4, "amount": 100, "at": 99}))
    other = "sources: [{name: other, tables: [{name: orders, columns: [{name: id}]}]}]"
    shop.models.project.write_models(f"version: 2\n{other}\n", "_other.yml")
    for entry, message in WRONG:
        shop.models.write("fct_orders", ORDERS, materialized="incremental", meta={"affected_by": [entry]})
        assert message in shop.models.refusal("fct_orders")


@pytest.mark.slow
def test_a_source_that_is_rolled_back_is_followed(make_shop: MakeShop) -> None:
    shop = make_shop()
    models = shop.models
    before = models.rows("fct_orders")
    shop.change(("orders", "u", {"id": 1, "customer": 4, "amount": 100, "at": 99}))
    shop.run()
    assert models.rows("fct_orders") != before
    silver = models.project.silver(models.spark, "orders").table.relation.replace("`", "")
    commits = models.ask(f"call show_commits(table => '{silver}', limit => 100)")
    last = max(row["commit_time"] for row in commits)
    models.ask(f"call rollback_to_instant(table => '{silver}', instant_time => '{last}')")
    models.do(f"refresh table {silver}")
    shop.run()
    assert models.told("fct_orders")[0] == f"the whole table is compared: commits of {silver} are gone"
    assert models.rows("fct_orders") == before
    assert written(shop)["fct_orders"] == NOTHING


@pytest.mark.slow
def test_a_source_that_was_cleaned_or_truncated_by_hand_is_followed(make_shop: MakeShop) -> None:
    """A clean by file versions names no commit to retain, and a table that was landed anew has none of the old ones."""
    shop = make_shop(table_type="cow")
    models = shop.models
    silver = models.project.silver(models.spark, "orders").table.relation.replace("`", "")
    shop.change(("orders", "u", {"id": 1, "customer": 4, "amount": 100, "at": 99}))
    by_versions = "clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1"
    models.ask(f"call run_clean(table => '{silver}', {by_versions})")
    assert written(shop)["customer_totals"][0].endswith("is cleaned away")
    models.do(f"truncate table {silver}")
    for expired in list((models.project.bronze / "shop.orders").iterdir())[:1]:
        expired.unlink()
    shop.change(("orders", "c", {"id": 50, "customer": 4, "amount": 100, "at": 99}))
    assert written(shop)["fct_orders"][0] == f"the whole table is compared: commits of {silver} are gone"
