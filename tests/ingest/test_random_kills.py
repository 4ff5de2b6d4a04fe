"""Landing is killed at random moments, again and again: afterwards silver is what it had been without."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from killing import Source, a_source
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _kill_at_random_moments(source: Source, kills: int) -> None:
    for _ in range(kills):
        with source.child() as child:
            for _ in range(source.rng.randint(1, 3)):
                source.change()
                child.tell()
            # The moment is what is random here, so that this waits for nothing but time.
            threading.Event().wait(source.rng.uniform(0.0, 6.0))


def _killed_and_drained(source: Source, spark: SparkSession, *, rounds: int, kills: int) -> None:
    for _ in range(rounds):
        _kill_at_random_moments(source, kills)
        ended = source.lake("ingest", "shop")
        assert ended.returncode == 0, ended.stderr
        source.require_equal(spark)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_ten_kills_at_random_moments(table_type: str, spark: SparkSession, tmp_path: Path) -> None:
    _killed_and_drained(a_source(tmp_path, table_type, "ten moments"), spark, rounds=2, kills=5)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_a_hundred_kills_at_random_moments(table_type: str, spark: SparkSession, tmp_path: Path) -> None:
    _killed_and_drained(a_source(tmp_path, table_type, "random moments"), spark, rounds=10, kills=10)
