"""The order in which a topic's events arrive: mostly that of the source's log, but not always.

About one event in a hundred arrives late, after newer events of its row, sometimes after the row's delete and on a
later day. About one record in a hundred is a repetition: single events sent twice, and a connector that starts again
a few events back. What the tables hold in the end is for the log positions to say, never for this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from examples.generating.debezium import Event

Arrival = Literal["on_time", "late", "repeated"]

_SHARE: Final = 0.01
_DAY_US: Final = 86_400_000_000
_SINK_DELAY_US: Final = 900_000


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """An event as it stands in its topic; the place in the sequence is its offset."""

    event: Event
    arrived_at_us: int
    arrival: Arrival


def deliver_in_order(events: Sequence[Event]) -> list[Delivery]:
    """Every event once, in the order of the log."""
    return [Delivery(e, e.processed_at_us + _SINK_DELAY_US, "on_time") for e in events]


def deliver(events: Sequence[Event], snapshot: Sequence[Event], rng: np.random.Generator) -> list[Delivery]:
    """Events of one topic with late and repeated deliveries.

    Parameters
    ----------
    events:
        The changes, in the order of the log.
    snapshot:
        ``r`` events of some rows that the changes touch; each arrives once more at the end.
    """
    moved = _late(events, rng)
    after: dict[int, list[int]] = {}
    for index, anchor in moved.items():
        after.setdefault(anchor, []).append(index)
    arrivals: list[Delivery] = []
    for index, event in enumerate(events):
        at_us = event.processed_at_us + _SINK_DELAY_US
        if index not in moved:
            arrivals.append(Delivery(event, at_us, "on_time"))
        arrivals += [Delivery(events[late], at_us, "late") for late in after.get(index, ())]
    return _repeat(arrivals, snapshot, rng)


def _late(events: Sequence[Event], rng: np.random.Generator) -> dict[int, int]:
    """Indexes of late events, and the index of the event after which each arrives.

    That is a newer event of the same row, its delete if it has one, or the first event of the day after it.
    """
    by_key: dict[int, list[int]] = {}
    for index, event in enumerate(events):
        by_key.setdefault(event.key, []).append(index)
    newer = {index: later for same in by_key.values() for n, index in enumerate(same) if (later := same[n + 1 :])}
    days = [(e.processed_at_us + _SINK_DELAY_US) // _DAY_US for e in events]
    first_of_day: dict[int, int] = {}
    for index, day in enumerate(days):
        first_of_day.setdefault(day, index)

    candidates = sorted(newer)
    deleted = [index for index in candidates if any(events[n].op == "d" for n in newer[index])]
    overnight = [index for index in candidates if days[newer[index][0]] + 1 in first_of_day]
    chosen: dict[int, int] = {}
    keys: set[int] = set()  # one late event a row, so that the newer events of its row are on time
    for n in range(max(3, round(_SHARE * len(events)))):
        kind = ("overnight", "deleted", "any")[n % 3]
        pool = {"overnight": overnight, "deleted": deleted}.get(kind) or candidates
        pool = [index for index in pool if events[index].key not in keys]
        if not pool:
            continue
        index = pool[int(rng.integers(0, len(pool)))]
        anchor = newer[index][0]
        if kind == "deleted":
            anchor = next((later for later in reversed(newer[index]) if events[later].op == "d"), anchor)
        elif kind == "overnight":
            anchor = first_of_day.get(days[anchor] + 1, anchor)
        chosen[index] = anchor
        keys.add(events[index].key)
    return chosen


def _repeat(arrivals: list[Delivery], snapshot: Sequence[Event], rng: np.random.Generator) -> list[Delivery]:
    """Repeats a run of records after a restart, single records later on, and snapshot rows at the end."""
    if not arrivals:
        return []
    wanted = max(1, round(_SHARE * len(arrivals)) - len(snapshot))
    run = max(1, min(len(arrivals) // 4, wanted // 2, 40))
    again: dict[int, list[int]] = {}
    restart = int(rng.integers(run - 1, len(arrivals)))
    again[restart] = list(range(restart - run + 1, restart + 1))
    for _ in range(max(0, wanted - run)):
        index = int(rng.integers(0, len(arrivals)))
        later = min(len(arrivals) - 1, index + int(rng.integers(0, 200)))
        again.setdefault(later, []).append(index)

    repeated: list[Delivery] = []
    for index, delivery in enumerate(arrivals):
        repeated.append(delivery)
        at_us = delivery.arrived_at_us
        repeated += [Delivery(arrivals[old].event, at_us, "repeated") for old in again.get(index, ())]
    end_us = arrivals[-1].arrived_at_us
    return repeated + [Delivery(event, end_us, "repeated") for event in snapshot]
