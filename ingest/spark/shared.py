"""What all that works in one Spark application shares: locks, and values that are built once.

It hangs on the application's SparkContext and ends with it; no module holds any of it. (Clients of AWS are the
process's: they hold connections alone.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from pyspark.sql import SparkSession

_NAME = "_lake_shared"
_Value = TypeVar("_Value")
_Item = TypeVar("_Item")


class Shared:
    """Locks by name, and values by place. May be used from several threads."""

    def __init__(self) -> None:
        self._locks: dict[str, threading.RLock] = {}
        self._built: dict[str, tuple[object, object]] = {}
        self._remembered: dict[str, dict[Any, Any]] = {}

    @classmethod
    def of(cls, spark: SparkSession) -> Shared:
        """That of the session's application."""
        return cast(Shared, vars(spark.sparkContext).setdefault(_NAME, cls()))

    def lock(self, name: str) -> threading.RLock:
        """The lock of that name: one thread holds it at a time, as often as it likes."""
        return self._locks.setdefault(name, threading.RLock())

    def remembered(self, what: str) -> dict[Any, Any]:
        """What one module remembers from batch to batch, by table or connection."""
        return self._remembered.setdefault(what, {})

    def new_of(self, what: str, items: Iterable[_Item]) -> list[_Item]:
        """Those of some items that are asked for by one module for the first time: what is told, or looked at, once."""
        with self.lock(what):
            known = self.remembered(what)
            new = [item for item in items if item not in known]
            known |= dict.fromkeys(new, True)
        return new

    def built(self, place: str, made_of: object, build: Callable[[], _Value]) -> _Value:
        """What `build` gives; built anew only where `made_of` is not equal to what it was in that place before.

        One value a place is kept: expressions of a table whose columns have changed replace those of before. What is
        built must depend on nothing but `made_of`, and must not be changed.
        """
        known = self._built.get(place)
        if known is not None and known[0] == made_of:
            return cast(_Value, known[1])
        value = build()
        self._built[place] = (made_of, value)
        return value
