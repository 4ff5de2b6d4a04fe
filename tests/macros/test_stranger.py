"""A project of the kind that people bring along, played at random: after each command every table is as it should be.

A model that keeps the law equals its own select; one that selects a part holds what dbt's users expect of it; a command
that reads no rows, or some, and a model that was not chosen, leave all rows as they were.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml
from conftest import MakeProject, Row, pg, table_of
from lake import Server
from modeling import BUCKETS, Models
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TABLES = {
    "orders": {"id": "int", "customer": "int", "amount": "int"},
    "customers": {"id": "int", "name": "string", "region": "int"},
}
LIVE = "select * from {{{{ source('shop', '{}') }}}} where __deleted = 'false'"
BY_ID = {"source": "shop.orders", "by": {"id": "id"}}
# Models that keep the law: their select, with a number that a step changes, their key, and the right entries.
LAWFUL: dict[str, tuple[str, Any, list[dict[str, Any]]]] = {
    "windowed": (
        """
        select id, customer, amount + {0} as amount, sum(amount) over (partition by customer order by id) as so_far
        from {{{{ ref('stg_orders') }}}}
        """,
        "id",
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
        left join {{{{ ref('stg_customers') }}}} as customers on orders.customer = customers.id
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
        "id",
        [BY_ID, {"source": "shop.customers", "by": {"customer": "id"}}],
    ),
    "marts_on_marts": (
        """
        select windowed.id, windowed.so_far + {0} as so_far, grouped.orders, bands.band
        from {{{{ ref('windowed') }}}} as windowed
        inner join (select customer, sum(orders) as orders from {{{{ ref('grouped') }}}} group by customer) as grouped
            on windowed.customer = grouped.customer
        left join {{{{ ref('bands') }}}} as bands on windowed.amount % 3 = bands.id
        """,
        "id",
        [],
    ),
    "by_name": ("select id, so_far + {0} as value from {schema}.windowed", "id", []),
    "rebuilt": (
        """
        select customer as id, max(amount) + {0} as most
        from {{{{ ref('stg_orders') }}}}
        where customer is not null
        group by customer
        """,
        "id",
        [],
    ),
}
NEWER = " {% if is_incremental() %}where id > (select coalesce(max(id), 0) from {{ this }}){% endif %}"
PARTS = {"asks": "merge", "appended": "append"}


@dataclass
class Stranger:
    """The project, the rows of its sources, and the number in each model's text."""

    models: Models
    draw: random.Random
    offset: int = 0
    tables: dict[str, dict[int, Row]] = field(default_factory=lambda: {name: {} for name in TABLES})
    numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LAWFUL, 1))
    entries: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(LAWFUL, True))
    parts: dict[str, list[Row]] = field(default_factory=dict)

    def change(self) -> None:
        """Some changes of the sources; orders may refer to customers that are not there, or to none."""
        for table, rows in self.tables.items():
            events = []
            for _ in range(self.draw.randint(0 if rows else 6, 5 if rows else 12)):
                self.offset += 1
                number = self.draw.randint(1, 12)
                row: Row = {
                    "id": number,
                    "name": f"name {self.draw.randint(1, 3)}",
                    "region": self.draw.choice([None, 1, 2]),
                }
                if table == "orders":
                    customer = self.draw.choice([None, *range(1, 6)])
                    row = {"id": number, "customer": customer, "amount": self.draw.randint(0, 9)}
                op = "d" if number in rows and self.draw.random() < 0.3 else "u" if number in rows else "c"
                events.append(pg(op, 1000 + self.offset, **row))
                rows.pop(number, None)
                if op != "d":
                    rows[number] = row
            if events:
                self.models.project.deliver(f"shop.{table}", self.offset, events)
                self.models.land(table)

    def write(self, *names: str) -> None:
        """Writes models as they are to be now."""
        schema = self.models.relation("x").partition(".")[0]
        for name in names or LAWFUL:
            sql, key, entries = LAWFUL[name]
            text = sql.format(self.numbers[name], schema=schema)
            config: dict[str, Any] = {
                "materialized": "table" if name == "rebuilt" else "incremental",
                "unique_key": key,
            }
            if entries and self.entries[name]:
                config["meta"] = {"affected_by": entries}
            after = "-- depends_on: {{ ref('windowed') }}\n" if name == "by_name" else ""
            self.models.write(name, after + text, **config)

    def edit(self) -> None:
        """Another text, or an entry more or less."""
        name = self.draw.choice(list(LAWFUL))
        if self.draw.random() < 0.3:
            self.entries[name] = not self.entries[name]
        else:
            self.numbers[name] = self.draw.randint(2, 99)
        self.write(name)

    def reseed(self) -> None:
        """Another seed."""
        lines = "".join(f"{number},band {self.draw.randint(1, 3)}\n" for number in range(self.draw.randint(1, 3)))
        folder = self.models.project.root / "seeds"
        folder.mkdir(exist_ok=True)
        (folder / "bands.csv").write_text(f"id,band\n{lines}", encoding="utf-8")
        self.models.dbt("seed", "--full-refresh")

    def tamper(self) -> None:
        """A row goes by hand."""
        name = self.draw.choice(("windowed", "joined"))
        self.models.do(f"delete from {self.models.relation(name)} where id = {self.draw.randint(1, 12)}")

    def found(self) -> dict[str, list[Row]]:
        """The rows of all tables."""
        return {name: self._rows(f"select * from {self.models.relation(name)}") for name in (*LAWFUL, *PARTS)}

    def run(self, *words: str) -> None:
        """A command of dbt that must go well: of what was chosen each table is right, of all else as it was."""
        before = self.found() if self.parts else {}
        outcomes = self.models.dbt("run", *words)
        assert all(outcome.status == "success" for outcome in outcomes.values()), outcomes
        found, live = self.found(), sorted(self.tables["orders"])
        reads = not {"--empty", "--sample"} & set(words)
        for name in LAWFUL:
            if not reads or name not in outcomes:
                assert found[name] == before[name], (name, words)
            else:
                assert found[name] == self._rows(self.models.compiled(name)[name]), (name, words)
        for name in PARTS:
            had = self.parts.get(name, [])
            if reads and name in outcomes:
                whole = not had or "--full-refresh" in words
                most = 0 if whole else max((row["id"] for row in had), default=0)
                new = [{"id": n, "amount": self.tables["orders"][n]["amount"]} for n in live if n > most]
                self.parts[name] = ([] if whole else had) + new
            assert found[name] == sorted(self.parts[name], key=repr), (name, words)

    def _rows(self, query: str) -> list[Row]:
        rows = [
            {name: value for name, value in row.items() if not name.startswith("_hoodie_")}
            for row in self.models.ask(query)
        ]
        return sorted(rows, key=repr)


MakeStranger = Callable[[random.Random], Stranger]


@pytest.fixture
def make_stranger(spark: SparkSession, make_project: MakeProject, server: Server | None) -> MakeStranger:
    """Makes the project, lands its sources and builds it once."""

    def make(draw: random.Random) -> Stranger:
        project = make_project({"tables": [table_of(name, columns, ["id"]) for name, columns in TABLES.items()]})
        options = {**BUCKETS, "type": draw.choice(["cow", "mor"])}
        models = Models.of(
            spark, project, server, file_format="hudi", options=options, on_schema_change="append_new_columns"
        )
        for name in TABLES:
            models.write(f"stg_{name}", LIVE.format(name), materialized="view")
        for name, strategy in PARTS.items():
            sql = "select id, amount from {{ ref('stg_orders') }}" + NEWER
            models.write(name, sql, materialized="incremental", unique_key="id", incremental_strategy=strategy)
        settings = yaml.safe_load((project.root / "dbt_project.yml").read_text(encoding="utf-8"))
        settings["seeds"]["tested"]["+file_format"] = "parquet"
        (project.root / "dbt_project.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        stranger = Stranger(models, draw)
        stranger.write()
        stranger.change()
        stranger.reseed()
        stranger.run()
        return stranger

    return make


ROUNDS = [
    (1, 4),
    *(pytest.param(seed, 8, marks=pytest.mark.slow) for seed in (2, 3)),
    *(pytest.param(seed, 12, marks=pytest.mark.long) for seed in range(4, 13)),
]


@pytest.mark.parametrize(("seed", "rounds"), ROUNDS)
def test_any_commands_leave_every_table_as_it_should_be(seed: int, rounds: int, make_stranger: MakeStranger) -> None:
    draw = random.Random(seed)  # noqa: S311
    stranger = make_stranger(draw)
    commands: list[tuple[str, ...]] = [
        (), (), ("--empty",), ("--sample", "1 day"), ("--select", "windowed+"), ("--select", "joined", "asks"),
        ("--full-refresh", "--select", "windowed", "asks", "appended"), ("--vars", "compare_whole: true"),
    ]  # fmt: skip
    steps = [stranger.change, stranger.edit, stranger.reseed, stranger.tamper]
    for _ in range(rounds):
        for step in draw.sample(steps, draw.randint(1, 2)):
            step()
        stranger.run(*draw.choice(commands))
        stranger.run()  # what was left out is right then
