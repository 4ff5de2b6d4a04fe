"""A lake for the length of a measurement, and its clock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def lake_of_its_own() -> Iterator[Path]:
    """Its folder, `LAKE_HOME` from here on: below the one that is named, else among the temporary files.

    It is removed in the end.
    """
    named = os.environ.get("LAKE_HOME")
    if named:
        Path(named).mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="bench-", dir=named, ignore_cleanup_errors=True) as home:
        os.environ["LAKE_HOME"] = home
        yield Path(home)


def timed(work: Callable[..., None], *arguments: object) -> float:
    """The seconds that it takes."""
    started = time.monotonic()
    work(*arguments)
    return time.monotonic() - started
