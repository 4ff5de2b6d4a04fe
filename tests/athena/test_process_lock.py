"""The lock of companion tables, on S3 and on a disk: one holds it at a time, whoever is gone or loses an answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeProject, pg, table_of
from pyspark.sql import SparkSession

from athena.conftest import BUCKET
from dev.chain.moto_s3 import Fault, Request, StandIn
from ingest.errors import UnavailableError
from ingest.silver import process_lock
from ingest.silver.process_lock import FileLock, ObjectLock
from ingest.silver.table import SilverTable

pytestmark = pytest.mark.athena

KEY = "shop.db/._quarantine.lock"
LEFT_AFTER_S = 1.5


@pytest.fixture(autouse=True)
def _soon_left(monkeypatch: pytest.MonkeyPatch, s3: Any) -> None:
    monkeypatch.setattr(process_lock, "LEFT_AFTER_S", LEFT_AFTER_S)
    s3.delete_object(Bucket=BUCKET, Key=KEY)


Lock = ObjectLock | FileLock


def taken(lock: Lock | None = None) -> Lock:
    """The lock, once it is free."""
    lock, deadline = lock or ObjectLock(BUCKET, KEY), time.monotonic() + 60
    while not lock.take():
        assert time.monotonic() < deadline
    return lock


@dataclass
class Counter:
    """Counts as one who reads and then writes does it."""

    lock: Callable[[], Lock]
    number: int = 0
    within: int = 0

    def count(self, _: int) -> bool:
        """Adds one, and says whether the lock was held to the end."""
        lock = taken(self.lock())
        self.within += 1
        assert self.within == 1, "two hold it"
        self.number += 1
        self.within -= 1
        return lock.release()


@pytest.mark.parametrize("is_done", [False, True], ids=["as it is", "answers are lost"])
def test_one_holds_it_at_a_time(aws: StandIn, s3: Any, is_done: bool) -> None:
    counter, seen = Counter(lambda: ObjectLock(BUCKET, KEY)), 0

    def breaks(request: Request) -> Fault | None:
        nonlocal seen
        seen += request.action == "PUT"
        lost = is_done and request.action == "PUT" and seen % 5 == 0
        return Fault(503, "SlowDown", is_done=True) if lost else None

    with aws.broken(breaks), ThreadPoolExecutor(4) as pool:
        assert all(pool.map(counter.count, range(12)))
    assert counter.number == 12
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET, Prefix=KEY), "nothing is left behind"


def test_a_location_beside_which_nothing_may_be_written_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(process_lock._lock_beside(f"file:{tmp_path}/orders"), FileLock)
    monkeypatch.setattr("os.access", lambda *_: False)
    assert process_lock._lock_beside(f"file:{tmp_path}/orders") is None
    assert isinstance(process_lock._lock_beside(f"file:{tmp_path}/not/there/orders"), FileLock)


def test_one_holds_it_at_a_time_on_a_disk(tmp_path: Path) -> None:
    counter = Counter(lambda: FileLock(tmp_path / "shop.db" / "._quarantine.lock"))
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(counter.count, range(100)))
    assert counter.number == 100


def test_one_that_is_held_is_not_taken_and_one_that_was_left_is(aws: StandIn, s3: Any) -> None:
    held, other, began = taken(), ObjectLock(BUCKET, KEY), time.monotonic()
    while time.monotonic() < began + 2 * LEFT_AFTER_S:
        assert not other.take()
    assert "process" in other.holder()
    assert held.release()
    assert taken(other).release()
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"of a process that is gone")
    assert taken().release()


@pytest.mark.spark
def test_nothing_is_committed_once_another_process_may_hold_the_lock(
    spark: SparkSession, s3: Any, make_project: MakeProject
) -> None:
    """A process that was paused wakes within a batch: what it goes on from was read before another one wrote."""
    project = make_project({"tables": [table_of("item", {"id": "int"}, ["id"])]})
    project.deliver("shop.item", 0, [pg("c", 1, id=1)])
    project.land_well(spark)
    (table,) = project.source().tables
    silver = SilverTable.of(spark, table)
    state = silver.required_state()
    bucket, _, key = silver.path.removeprefix("s3://").partition("/")
    lock = f"{key.rpartition('/')[0]}/.item.lock"
    with pytest.raises(UnavailableError, match="another process has taken over its lock"), silver.writing():
        silver.conform(state)
        s3.put_object(Bucket=bucket, Key=lock, Body=b"of another process")
        last = silver.required_state().instant
        began = time.monotonic()
        while time.monotonic() < began + 2 * LEFT_AFTER_S:
            time.sleep(0.1)
        with pytest.raises(UnavailableError, match="another process has taken over its lock"):
            silver.conform(state)
        assert silver.required_state().instant == last
    s3.delete_object(Bucket=bucket, Key=lock)


def test_a_process_whose_lock_was_taken_over_knows_it(aws: StandIn, s3: Any) -> None:
    held = taken()
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"of another process")
    assert not held.release()
    assert s3.get_object(Bucket=BUCKET, Key=KEY)["Body"].read() == b"of another process", "it is left to that one"
    assert not [thread for thread in threading.enumerate() if thread.name == "lock"]
