"""The customers of a DynamoDB table, and what becomes of them: every change of an item, in the order of its stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import numpy as np

from examples.generating.draw import stream

# An item: attributes by name. A text, or a whole number; an item may lack any but its key.
Item = Mapping[str, str | int]
# The customer of the worked example: inserted, modified twice, removed.
WORKED_EXAMPLE: Final = "100007"
# Days of changes after the snapshot.
DAYS: Final = 5
_CUSTOMERS: Final = 2_000
_FIRST_ID: Final = 100_008
_DAY_MS: Final = 86_400_000
_FIRST_NAMES: Final = (
    "Ada",
    "Bela",
    "Chen",
    "Dana",
    "Emil",
    "Fatima",
    "Grace",
    "Hugo",
    "Ines",
    "Jonas",
    "Kofi",
    "Lena",
)
_LAST_NAMES: Final = ("Abiodun", "Berg", "Costa", "Dubois", "Egger", "Fischer", "García", "Horváth", "Ito", "Jansen")
_PROVIDERS: Final = ("example.com", "example.org", "example.net")


@dataclass(frozen=True)
class Change:
    """A change of an item: what it was and what it is, when, and where in the stream.

    Attributes
    ----------
    before, after:
        The item; None where it was not there yet, or is not any more.
    is_ttl:
        Time to live has deleted it.
    """

    sequence: int
    at_ms: int
    before: Item | None
    after: Item | None
    is_ttl: bool = False

    @property
    def id(self) -> str:
        """The item's key."""
        return str((self.after or self.before or {})["id"])


@dataclass(frozen=True)
class History:
    """All changes of a table, and the items after each phase."""

    inserts: tuple[Change, ...]
    changes: tuple[Change, ...]

    def items(self, *, after_changes: bool) -> dict[str, Item]:
        """The items by key: after the inserts, or after everything."""
        found: dict[str, Item] = {}
        for change in (*self.inserts, *(self.changes if after_changes else ())):
            if change.after is None:
                found.pop(change.id, None)
            else:
                found[change.id] = change.after
        return found


def history(scale: float, seed: int, last_day: date) -> History:
    """The table's life: its customers, then :data:`DAYS` days of changes, the last of them `last_day`."""
    ends_ms = int(datetime.combine(last_day, datetime.min.time(), UTC).timestamp() * 1000) + _DAY_MS
    begins_ms = ends_ms - DAYS * _DAY_MS
    rng = stream(seed, 700)
    count = max(40, round(_CUSTOMERS * scale))
    born = [_customer(rng, _FIRST_ID + number, begins_ms) for number in range(count)]
    # The numbers of the stream have 21 digits at first and 22 later: as texts they would sort otherwise.
    numbers = _sequence(rng, 10**21 - 400 * count)
    inserts = tuple(
        Change(next(numbers), begins_ms - (count - place) * 1_000, None, item) for place, item in enumerate(born)
    )
    items = {str(item["id"]): item for item in born}
    planned = sorted(_planned(rng, items, count, begins_ms, ends_ms), key=lambda each: each[0])
    changes = tuple(_played(rng, planned, items, numbers))
    return History(inserts, changes)


def _sequence(rng: np.random.Generator, first: int) -> Iterator[int]:
    number = first
    while True:
        yield number
        number += int(rng.integers(1, 1_000))


def _customer(rng: np.random.Generator, number: int, begins_ms: int) -> dict[str, str | int]:
    """A new customer: one in ten has no email, one in five is on trial and expires, some within the changes."""
    first, last = (names[int(rng.integers(0, len(names)))] for names in (_FIRST_NAMES, _LAST_NAMES))
    registered = datetime.fromtimestamp(begins_ms / 1000, UTC) - timedelta(seconds=int(rng.integers(3_600, 30_000_000)))
    item: dict[str, str | int] = {
        "id": str(number),
        "custName": f"{first} {last}",
        "registrationDate": f"{registered:%Y-%m-%d %H:%M:%S}",
    }
    if rng.integers(0, 10):
        item["email"] = _email(rng, number)
    if not rng.integers(0, 5):
        item["expiresAt"] = begins_ms // 1000 + int(rng.integers(0, 10 * 86_400))
    return item


def _email(rng: np.random.Generator, number: int) -> str:
    return f"customer{number}.{int(rng.integers(0, 1_000))}@{_PROVIDERS[int(rng.integers(0, len(_PROVIDERS)))]}"


def _planned(
    rng: np.random.Generator, items: Mapping[str, Item], count: int, begins_ms: int, ends_ms: int
) -> Iterator[tuple[int, str, str]]:
    """When, what and of which customer: 'modify', 'remove', 'insert', 'expire', and those of the worked example."""
    ids = list(items)
    last_ms = ends_ms - 60_000
    for number in range(count):
        at = int(rng.integers(begins_ms, last_ms))
        kind = ("modify", "modify", "modify", "remove", "insert")[int(rng.integers(0, 5))]
        yield at, kind, str(_FIRST_ID + count + number) if kind == "insert" else ids[int(rng.integers(0, count))]
        if kind == "modify" and not rng.integers(0, 4):
            # Once more within the same second, as an application that saves twice does.
            yield at + int(rng.integers(1, 900)), "modify", ids[int(rng.integers(0, count))]
    for name, item in items.items():
        expires = item.get("expiresAt")
        # DynamoDB deletes what has expired within two days.
        at = int(expires) * 1000 + int(rng.integers(0, 2 * _DAY_MS)) if expires is not None else last_ms
        if at < last_ms:
            yield at, "expire", name
    for place, kind in enumerate(("insert", "modify", "modify", "remove")):
        yield begins_ms + _DAY_MS + place * 60_000, kind, WORKED_EXAMPLE


def _played(
    rng: np.random.Generator, planned: list[tuple[int, str, str]], items: dict[str, Any], numbers: Iterator[int]
) -> Iterator[Change]:
    """The changes that were possible: of a customer who is gone there are none but an insert."""
    live = dict(items)
    for at_ms, kind, name in planned:
        before = live.get(name)
        if kind == "insert":
            # One in three takes up the id of a customer who is gone, as a new item.
            gone = [each for each in items if each not in live]
            chosen = (
                gone[int(rng.integers(0, len(gone)))] if gone and name != WORKED_EXAMPLE and at_ms % 3 == 0 else name
            )
            if chosen in live:
                continue
            live[chosen] = _customer(rng, int(chosen), at_ms)
            live[chosen].pop("expiresAt", None)
            yield Change(next(numbers), at_ms, None, live[chosen])
        elif before is not None and kind == "modify":
            live[name] = {**before, "email": _email(rng, int(name))}
            if not rng.integers(0, 6):
                # The attribute is removed: the item has none then, not an empty one.
                del live[name]["email"]
            yield Change(next(numbers), at_ms, before, live[name])
        elif before is not None and (kind == "remove" or "expiresAt" in before):
            del live[name]
            yield Change(next(numbers), at_ms, before, None, is_ttl=kind == "expire")
