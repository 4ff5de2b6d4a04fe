"""Example systems: databases with a history, to try this project on. No part of what is installed.

One system is a folder here. Everything that plays one asks :func:`system` for it by its name.
"""

from __future__ import annotations

from datetime import date
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import cast

from examples.generating.debezium import Form
from examples.generating.generate import Phase, Progress, Summary
from examples.system import DatabaseExample, ExampleSystem, Written
from ingest.errors import LakeError

__all__ = [
    "DatabaseExample",
    "ExampleSystem",
    "Form",
    "Phase",
    "Summary",
    "Written",
    "databases",
    "generate",
    "names",
    "system",
]


def names() -> tuple[str, ...]:
    """The example systems: the folders here that have a `demo.yml`."""
    return tuple(sorted(file.parent.name for file in Path(__file__).parent.glob("*/demo.yml")))


def system(name: str) -> ExampleSystem:
    """A system by its name.

    Raises
    ------
    LakeError
        There is none of that name.
    """
    if name not in names():
        raise LakeError(
            f"dataset {name!r}", where="examples", expected=f"one of {', '.join(names())}", action="name another one"
        )
    return cast("ExampleSystem", import_module(f"examples.{name}").SYSTEM)


def databases(name: str) -> DatabaseExample:
    """A system that real databases can play.

    Raises
    ------
    LakeError
        There is none of that name, or it has no databases.
    """
    found = system(name)
    if not hasattr(found, "connectors"):
        playable = [other for other in names() if hasattr(system(other), "connectors")]
        raise LakeError(
            f"the example {name!r} has no databases",
            where="examples",
            expected=f"one of {', '.join(playable)}",
            action="name another one",
        )
    return cast("DatabaseExample", found)


def generate(
    name: str,
    to: Path,
    *,
    scale: float = 1.0,
    seed: int = 42,
    form: Form | None = None,
    phase: Phase = "all",
    ends: date | None = None,
    progress: Progress | None = None,
) -> Written:
    """Writes a system's change events: its :meth:`ExampleSystem.generate`; without a form in one of its own."""
    play = partial(system(name).generate, to, scale=scale, seed=seed, phase=phase, ends=ends, progress=progress)
    return play(form=form) if form else play()
