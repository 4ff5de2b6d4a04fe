"""A source of one table, what it holds, and what must be true of silver however S3 and Glue have answered meanwhile."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from conftest import DbtProject, pg, table_of
from pyspark.sql import SparkSession

from ingest.silver.table import SilverTable

TABLE = "item"
_CHANGES, _KEYS = 12, 40


def items(**options: Any) -> dict[str, Any]:
    """The declaration of the table."""
    return table_of(TABLE, {"id": "int", "v": "int"}, ["id"], **options)


@dataclass
class Shop:
    """The source: it delivers batches of random changes, and with some an event that cannot be applied."""

    project: DbtProject
    rng: random.Random
    rows: dict[int, int] = field(default_factory=dict)
    bad_every: int = 3
    batches: int = 0
    delivered: int = 0
    bad: int = 0

    @property
    def path(self) -> str:
        """The folder of the silver table."""
        return f"s3://lake/silver/{self.project.schema}.db/{TABLE}"

    def change(self) -> None:
        """Delivers a batch."""
        events: list[Mapping[str, Any] | str] = []
        for number in range(_CHANGES):
            lsn, key = 100 + self.delivered + number, self.rng.randint(1, _KEYS)
            if key in self.rows and self.rng.random() < 0.2:
                del self.rows[key]
                events.append(pg("d", lsn, id=key))
            else:
                events.append(pg("u" if key in self.rows else "c", lsn, id=key, v=lsn))
                self.rows[key] = lsn
        if self.batches % self.bad_every == 0:
            events.append("{broken")
            self.bad += 1
        self.project.deliver(f"shop.{TABLE}", self.delivered, events)
        self.batches += 1
        self.delivered += len(events)

    def found(self, spark: SparkSession, *, compacted: bool = False) -> dict[int, int]:
        """What silver holds: values by key."""
        kind = "read_optimized" if compacted else "snapshot"
        read = spark.read.format("hudi").option("hoodie.datasource.query.type", kind).load(self.path)
        rows = read.where("__deleted = 'false'").select("id", "v").collect()
        assert len({row["id"] for row in rows}) == len(rows), "a key is there twice"
        return {row["id"]: row["v"] for row in rows}

    def require_equal(self, spark: SparkSession) -> None:
        """Silver equals the source, also for who reads no log files; each event is counted once, each bad one kept."""
        state = SilverTable(spark, self.project.source().tables[0], self.path).state()
        assert state is not None
        totals = state.totals
        assert (totals.read, totals.quarantined) == (self.delivered, self.bad)
        assert totals.read == totals.applied + totals.superseded + totals.duplicate + totals.ignored + self.bad
        assert self.found(spark) == self.rows
        assert self.found(spark, compacted=True) == self.rows
        quarantine = spark.read.format("hudi").load(f"s3://lake/silver/{self.project.schema}.db/_quarantine")
        assert (quarantine.count(), quarantine.select("quarantine_id").distinct().count()) == (self.bad, self.bad)
