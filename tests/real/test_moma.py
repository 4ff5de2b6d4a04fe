"""MoMA on the real chain: PostgreSQL's rows and changes, through Debezium and the registry, in four silver tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from conftest import REPOSITORY, Row
from continuously import wait_until
from pyspark.sql import SparkSession

from examples.generating.model import Database, Table, replay
from examples.moma import SYSTEM
from examples.moma.rows import BAKKER, BELJON, PICADOR
from examples.moma.tables import ARTISTS, ARTWORKS, TABLES
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.landing.run import land
from ingest.operations.reconcile import reconcile
from real.live import SEED, Live

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]
SCALE, ROW_CHANGES = 0.001, 60
DEFAULT = "__HIVE_DEFAULT_PARTITION__"


@cache
def states() -> tuple[Database, dict[str, Any]]:
    """The tables before the first change, and after the last, by the generator."""
    before = SYSTEM.snapshot(SCALE, SEED)
    return before, replay(TABLES, before, SYSTEM.history(before, SCALE, SEED, ROW_CHANGES))


@dataclass
class Museum:
    """The chain with the museum in it, and the session that lands its topics."""

    live: Live
    spark: SparkSession

    def land(self) -> None:
        results = land(self.spark, load_source(Project.load(REPOSITORY), "moma").tables)
        assert [landed.error.message for landed in results if landed.error] == []

    def is_landed(self, state: Database) -> bool:
        """Lands what is there; whether both table types have just these rows then."""
        self.land()
        return all(
            self.rows(f"{table.name}_{kind}", table) == state[table.full_name].to_pylist()
            for table in TABLES
            for kind in ("mor", "cow")
        )

    def rows(self, name: str, table: Table) -> list[Row]:
        """Live rows in the source's columns, by key."""
        columns = [column.name for column in table.columns]
        found = self.spark.table(f"silver_moma.{name}").where("__deleted = 'false'").select(*columns)
        return [row.asDict() for row in found.orderBy(columns[0]).collect()]

    def of_key(self, name: str, table: Table, key: int) -> list[Row]:
        """Every row of a key, tombstones included."""
        found = self.spark.table(f"silver_moma.{name}").where(f"{table.columns[0].name} = {key}")
        return [row.asDict() for row in found.collect()]


@pytest.fixture(scope="module")
def museum(live: Live, spark: SparkSession) -> Iterator[Museum]:
    size = ("--scale", str(SCALE), "--seed", str(SEED), "--row-changes", str(ROW_CHANGES))
    assert "moma-postgresql made" in live.well("up", "--system", "moma", *size)
    settings = {**live.environment, **live.chain.settings.passwords, "MOMA_CONNECTION": "moma_kafka"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**settings, "LAKE_HOME": os.environ["LAKE_HOME"]}.items():
            patch.setenv(name, value)
        yield Museum(live, spark)


def test_both_table_types_end_as_the_museum_s_database_does(museum: Museum) -> None:
    """The snapshot, then every change of two days, the worked examples among them."""
    before, after = states()
    topics = {f"moma.{table.full_name}": before[table.full_name].num_rows for table in TABLES}
    wait_until(
        lambda: all(museum.live.topics.ends().get(topic, 0) >= rows for topic, rows in topics.items()), "the snapshot"
    )
    assert museum.is_landed(before)
    museum.live.well("changes", "--system", "moma")
    wait_until(lambda: museum.is_landed(after), "silver is the museum's database")
    compared = [reconcile(museum.spark, table) for table in load_source(Project.load(REPOSITORY), "moma").tables]
    assert [result.equal for result in compared] == [True] * 4, [result.counts for result in compared]


def test_the_worked_examples_of_the_article_end_as_it_tells(museum: Museum) -> None:
    """By the default replica identity a delete has its key alone: its row is in the default partition."""
    _, after = states()
    for kind in ("mor", "cow"):
        (work,) = museum.of_key(f"artworks_{kind}", ARTWORKS, PICADOR)
        assert (work["date"], work["acquisition_date"], work["__op"]) == (1959, "2009-04-19", "u")
        for artist in (BELJON, BAKKER):
            (row,) = museum.of_key(f"artists_{kind}", ARTISTS, artist)
            assert (row["__op"], row["__deleted"], row["name"]) == ("d", "true", None)
            assert row["_hoodie_partition_path"] == f"nationality={DEFAULT}"
    assert PICADOR in after[ARTWORKS.full_name].column("artwork_id").to_pylist()
