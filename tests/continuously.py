"""Tables landed continuously in a test's own process, and conditions waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

from ingest.config.tables import Table
from ingest.landing.continuous import Continuous, Progress

_WITHIN_S = 300


@contextmanager
def landing(
    spark: SparkSession, tables: Sequence[Table], told: Callable[[Progress], None] = lambda _: None
) -> Iterator[Continuous]:
    """The tables, landed continuously for as long as the block runs; `told` hears of their progress."""
    run = Continuous(spark, tables, on_progress=told)
    thread = threading.Thread(target=run.run)
    thread.start()
    try:
        yield run
    finally:
        run.stop()
        thread.join(_WITHIN_S)
    assert not thread.is_alive()


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Waits for a condition, with a limit."""
    deadline = time.monotonic() + _WITHIN_S
    while not is_so():
        assert time.monotonic() < deadline, f"not within {_WITHIN_S} s: {what}"
        time.sleep(0.02)
