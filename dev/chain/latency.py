"""How long a change takes from its commit in a database to a consumer of its topic."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from dev.chain.databases import Databases, apply_changes, system_of
from dev.chain.topics import Record, Topics
from examples.generating.model import Transaction
from ingest.errors import LakeError

Latencies = Sequence[float]
_WITHIN_S = 60
_HEARTBEATS = "__debezium-heartbeat[.]tickit"


def measure(databases: Databases, topics: Topics, *, count: int, rate: float) -> Mapping[str, Latencies]:
    """Applies `count` transactions and reads their events at the same time.

    Returns
    -------
    Seconds from the moment the database has acknowledged a commit until its last event was read, by system. The clock
    of both is this process's; a consumer in a process of its own passes the events on, which is part of the time.

    Raises
    ------
    LakeError
        The consumer does not read, or not every event came in time.
    """
    committed: list[tuple[str, int, float]] = []
    records: list[Record] = []
    failed: list[LakeError] = []

    def note(transaction: Transaction) -> None:
        events = sum(2 if change.is_key_change else 1 for change in transaction.changes)
        committed.append((system_of(transaction.changes[0].table), events, time.time()))

    def wait_for(is_so: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _WITHIN_S
        while not is_so():
            if failed or time.monotonic() > deadline:
                told = failed[0].found if failed else f"{otherwise} within {_WITHIN_S} s"
                raise LakeError(told, where="Kafka", action="look at the connectors: `make up`, `make logs`")
            time.sleep(0.1)

    seen: list[tuple[str, tuple[object, ...], float]] = []
    with topics.reading(f"tickit[.](ems|crm|ecomm)[.].*|{_HEARTBEATS}", from_beginning=False) as coming:

        def read() -> None:
            try:
                records.extend(coming)
            except LakeError as error:  # the consumer has ended; at the end of the block it is ended
                failed.append(error)

        threading.Thread(target=read, daemon=True).start()
        # A first heartbeat says that the consumer has its partitions: what is committed from then on is seen.
        wait_for(lambda: bool(records), "nothing was read, not even a heartbeat,")
        apply_changes(databases, count=count, rate=rate, applied=note)
        wanted = sum(events for _, events, _ in committed)

        def all_came() -> bool:
            seen[:] = _changes(topics, list(records))
            return len(seen) >= wanted

        wait_for(all_came, f"not all of {wanted} events came")
    latencies: dict[str, list[float]] = {}
    for system in dict.fromkeys(system for system, _, _ in committed):
        # Transactions were committed one after the other: the log has their events in this order.
        arrived = iter([read_s for of, _, read_s in sorted(seen) if of == system])
        for of, events, acknowledged in committed:
            if of == system:
                latencies.setdefault(system, []).append(max(islice(arrived, events)) - acknowledged)
    return latencies


def summary(seconds: Latencies) -> tuple[float, float, float]:
    """Median, 95th percentile and the longest."""
    ordered = sorted(seconds)
    return statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))], ordered[-1]


def _changes(topics: Topics, records: Sequence[Record]) -> list[tuple[str, tuple[object, ...], float]]:
    """System, place in its log, and time of arrival of each change."""
    seen: list[tuple[str, tuple[object, ...], float]] = []
    for record in records:
        value = topics.decode(record.value)
        if value.get("__op", "r") == "r":
            continue
        if "__lsn" in value:
            seen.append(("postgresql", (value["__lsn"],), record.read_s))
        else:
            place = (value["__source_file"], value["__source_pos"], value["__source_row"])
            seen.append(("mariadb", place, record.read_s))
    return seen
