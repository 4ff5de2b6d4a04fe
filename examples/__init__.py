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
from examples.system import DatabaseExample, ExampleSystem, StreamedExample, Written
from ingest.errors import LakeError

__all__ = [
    "DatabaseExample",
    "ExampleSystem",
    "Form",
    "Phase",
    "StreamedExample",
    "Summary",
    "Written",
    "databases",
    "generate",
    "names",
    "streamed",
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
    return cast("DatabaseExample", _with(name, "connectors", "no databases"))


def streamed(name: str) -> StreamedExample:
    """A system whose changes go into a stream of Kinesis too.

    Raises
    ------
    LakeError
        There is none of that name, or it has no stream.
    """
    return cast("StreamedExample", _with(name, "stream", "no stream"))


def _with(name: str, member: str, lacking: str) -> ExampleSystem:
    found = system(name)
    if not hasattr(found, member):
        playable = [other for other in names() if hasattr(system(other), member)]
        raise LakeError(
            f"the example {name!r} has {lacking}",
            where="examples",
            expected=f"one of {', '.join(playable)}",
            action="name another one",
        )
    return found


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
