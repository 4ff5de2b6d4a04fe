"""The project's incremental marts keep the law: after each run they equal their own select.

TICKIT at a small scale, whose seven tables change at random: rows come, go, change, take another key, come again, refer
to what is gone or not there yet. Events arrive late and twice, and between runs silver is compacted and cleaned.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import REPOSITORY, DbtProject, new_project
from modeling import Models
from pyspark.sql import SparkSession

from examples.generating.debezium import Event, read_log, read_snapshot
from examples.generating.delivery import deliver, deliver_in_order
from examples.generating.model import Database, Row, RowChange, Table, Transaction, replay, row_at
from examples.generating.sink import Bronze
from examples.tickit.changes import HISTORY_FROM_US, SNAPSHOT_AT_US
from examples.tickit.rows import snapshot as tickit_snapshot
from examples.tickit.tables import TABLES
from ingest.silver.compaction import compact

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SCALE = 0.002
ROUNDS = 2
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 13))]
# Facts change most; a change of what they refer to reaches many of them.
WEIGHTS = {"sale": 8, "listing": 5, "user": 3, "event": 3, "venue": 1, "category": 1, "date": 1}
WHOLE = "the whole table is compared"
# Of TICKIT: the project has other systems as well, which are not landed here.
INCREMENTAL = "config.materialized:incremental,source:tickit+"
# A batch that is not computed again stays as it was: the law is none of a microbatch model's.
BATCHES_ASIDE = ("--exclude", "config.incremental_strategy:microbatch")


@dataclass
class Shop:
    """TICKIT's databases, of which every change is known, and the project's own models built from them.

    Attributes
    ----------
    rows:
        The live rows of each table, by key.
    gone:
        Keys that were in a table, and are not.
    log:
        All transactions so far: the connectors' positions follow from them.
    held:
        Events that have not arrived yet.
    offsets:
        Records in each table's topic.
    compactions:
        Of silver tables, so far.
    """

    models: Models
    draw: random.Random
    snapshot: Database
    rows: dict[str, dict[int, Row]]
    gone: dict[str, list[int]] = field(default_factory=dict)
    log: list[Transaction] = field(default_factory=list)
    held: list[Event] = field(default_factory=list)
    offsets: Counter[str] = field(default_factory=Counter)
    compactions: int = 0

    @classmethod
    def opened(cls, spark: SparkSession, where: Path, seed: int) -> Shop:
        """A shop whose snapshot is landed, and whose marts are built."""
        snapshot = tickit_snapshot(SCALE, seed)
        rows = {table.name: {int(str(row[0])): row for row in _rows(snapshot[table.full_name])} for table in TABLES}
        shop = cls(Models(spark, project_of_tickit(where)), random.Random(seed), snapshot, rows)  # noqa: S311
        for table in TABLES:
            shop._write(table, deliver_in_order(read_snapshot(table, snapshot, SNAPSHOT_AT_US)))
        shop.models.project.land_well(spark)
        shop.models.dbt("seed")
        shop.models.run(f"+{INCREMENTAL}", *BATCHES_ASIDE)
        return shop

    def change(self, count: int, tables: Sequence[Table], *, last: bool = False) -> None:
        """Changes rows of some tables, and lands what has arrived by now; at last all."""
        before = len(list(read_log(self.log)))
        for _ in range(count):
            change = self._changed(self.draw.choices(tables, [WEIGHTS[table.name] for table in tables])[0])
            at_us = HISTORY_FROM_US + 1_000_000 * len(self.log)
            self.log.append(Transaction(change.table.system, at_us, (change,)))
        events = self.held + list(read_log(self.log))[before:]
        self.held = [] if last else [event for event in events if self.draw.random() < 0.1]
        late = {id(event) for event in self.held}
        rng = np.random.default_rng(self.draw.randrange(2**32))
        for table in TABLES:
            arrived = [event for event in events if event.table is table and id(event) not in late]
            self._write(table, deliver(arrived, [], rng))
        self.models.project.land_well(self.models.spark)

    def _changed(self, table: Table) -> RowChange:
        """A row that comes, goes, moves to another key or gets some values of another row."""
        rows, gone, draw = self.rows[table.name], self.gone.setdefault(table.name, []), self.draw
        key = draw.choice(list(rows))
        kind = draw.choices(["update", "insert", "delete", "move"], [5, 3, 2, 1])[0]
        if kind in ("insert", "move"):
            # A key that was there before, now and then: it comes again, or another row takes it.
            new = (
                gone.pop(draw.randrange(len(gone))) if gone and draw.random() < 0.5 else max(rows) + draw.randint(1, 3)
            )
        row = rows[key]
        if kind == "insert":
            rows[new] = (new, *row[1:])
            return RowChange(table, "c", None, rows[new])
        if kind == "delete" and len(rows) > 1:
            gone.append(key)
            return RowChange(table, "d", rows.pop(key), None)
        if kind == "move":
            gone.append(key)
            rows[new] = (new, *rows.pop(key)[1:])
            return RowChange(table, "u", row, rows[new])
        other = rows[draw.choice(list(rows))]
        values = [theirs if draw.random() < 0.3 else mine for mine, theirs in zip(row, other, strict=True)]
        columns = zip(values[1:], table.columns[1:], strict=True)
        rows[key] = (key, *(None if column.nullable and draw.random() < 0.05 else value for value, column in columns))
        return RowChange(table, "u", row, rows[key])

    def _write(self, table: Table, deliveries: Sequence[Any]) -> None:
        bronze = Bronze(self.models.project.root, "json", 10_000)
        bronze.write(table, deliveries, self.offsets[table.name])
        self.offsets[table.name] += len(deliveries)

    def upkeep(self, name: str) -> None:
        """Compacts a silver table, and removes the files that it no longer needs for its rows."""
        silver, schema = self.models.project.silver(self.models.spark, name), self.models.project.schema
        options = "hoodie.compact.inline.max.delta.commits=1"
        self.models.spark.sql(f"call run_compaction(op => 'schedule', path => '{silver.path}', options => '{options}')")
        self.compactions += compact(silver)
        self.models.spark.sql(f"call run_clean(table => '{schema}.{name}', retain_commits => 1)")
        silver.register()

    def require_law(self) -> None:
        """Each incremental mart holds what its select gives, no row more and no row less."""
        compiled = self.models.project.root / "target" / "compiled" / "lakehouse" / "models"
        for name in self.marts:
            (path,) = compiled.rglob(f"{name}.sql")
            table = self.models.spark.table(self.models.relation(name))
            columns = [column for column in table.columns if not column.startswith("_hoodie_")]
            wanted = self.models.spark.sql(path.read_text(encoding="utf-8"))
            there, here = (Counter(frame.select(*columns).collect()) for frame in (table, wanted))
            assert there - here == here - there == Counter(), f"{name}, after {len(self.log)} changes"

    def require_source(self) -> None:
        """Silver is what the databases hold, once all events have arrived."""
        state = replay(TABLES, self.snapshot, self.log)
        for table in TABLES:
            found = self.models.project.rows(self.models.spark, table.name, table.key)
            assert [row[table.key] for row in found] == state[table.full_name].column(0).to_pylist(), table.name

    @property
    def marts(self) -> list[str]:
        """TICKIT's incremental marts that keep the law."""
        manifest = json.loads((self.models.project.root / "target" / "manifest.json").read_text(encoding="utf-8"))

        def is_of_tickit(key: str) -> bool:
            parents = manifest["parent_map"].get(key, [])
            return key.startswith("source.lakehouse.tickit.") or any(map(is_of_tickit, parents))

        found = (node for node in manifest["nodes"].values() if node["resource_type"] == "model")
        return sorted(
            node["name"]
            for node in found
            if node["config"]["materialized"] == "incremental"
            and is_of_tickit(node["unique_id"])
            and node["config"]["incremental_strategy"] != "microbatch"
        )


def _rows(data: Any) -> Iterator[Row]:
    return (row_at(data, index) for index in range(data.num_rows))


def project_of_tickit(where: Path) -> DbtProject:
    """A copy of this repository's project, whose source and models have a schema and events of their own."""
    made = new_project(where, name="tickit")
    for folder in ("models", "seeds"):
        shutil.copytree(REPOSITORY / folder, made.root / folder, dirs_exist_ok=True)
    (made.root / "macros").symlink_to(REPOSITORY / "macros")
    declared = made.root / "models/staging/tickit/_tickit__sources.yml"
    text = declared.read_text(encoding="utf-8")
    declared.write_text(text.replace("schema: silver_tickit", f"schema: {made.schema}"), encoding="utf-8")
    settings = yaml.safe_load((REPOSITORY / "dbt_project.yml").read_text(encoding="utf-8"))
    for kind in ("models", "seeds"):
        _give_schema(settings[kind], made.schema)
    (made.root / "dbt_project.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    connections = yaml.safe_load((REPOSITORY / "profiles/connections.yml").read_text(encoding="utf-8"))
    connections["tickit_cdc"]["path"] = str(made.bronze)
    (made.root / "connections.yml").write_text(yaml.safe_dump(connections), encoding="utf-8")
    return made


def _give_schema(settings: dict[str, Any], schema: str) -> None:
    for name, value in settings.items():
        if name == "+schema":
            settings[name] = schema
        elif isinstance(value, dict):
            _give_schema(value, schema)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_changes_keep_the_law(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop.opened(spark, tmp_path, seed)
    assert shop.marts
    shop.require_law()
    told: list[str] = []
    for number in range(ROUNDS):
        tables = shop.draw.sample(TABLES, shop.draw.randint(1, len(TABLES)))
        shop.change(shop.draw.randint(1, 40), tables, last=number == ROUNDS - 1)
        # Every second time silver no longer knows what it was at the last run, and whole tables are compared.
        for table in shop.draw.sample(tables, min(3, len(tables))) if number % 2 else ():
            shop.upkeep(table.name)
        shop.models.run(INCREMENTAL, *BATCHES_ASIDE)
        shop.require_law()
        told += [line for name in shop.marts for line in shop.models.told(name)]
    shop.require_source()
    assert shop.compactions
    rows = [int(line.split()[0]) for line in told if line.endswith("rows differ")]
    whole = [line for line in told if line.startswith(WHOLE)]
    assert len(rows) > len(whole), told
    assert sum(rows) > 0, told
    assert not [line for line in whole if "removed for good" in line], "a compaction removes no rows"
