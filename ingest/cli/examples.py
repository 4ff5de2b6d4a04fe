"""Commands that play example systems, which are no part of this package: `generate` and `demo`.

A system is found by an entry point of the group `lake.examples`, or in the package `examples` that lies beside this one
in a clone of the project. Nothing of either is imported before one of these commands runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Protocol

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ingest.cli.console import err, errors_as_messages, out
from ingest.cli.options import Debug
from ingest.errors import LakeError

GROUP = "lake.examples"
Form = Literal["avro", "json", "envelope", "parquet"]
Phase = Literal["snapshot", "changes", "all"]
Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="An example system, such as tickit.")]


class Written(Protocol):
    """What was generated."""

    @property
    def records(self) -> int:
        """Records in all files."""

    @property
    def files(self) -> int:
        """Files of events."""

    @property
    def late(self) -> int:
        """Events that arrive after a newer event of their row."""

    @property
    def repeated(self) -> int:
        """Records that repeat an event."""


class Example(Protocol):
    """What these commands ask of an example system."""

    def generate(
        self,
        to: Path,
        *,
        scale: float,
        seed: int,
        form: Form = ...,
        phase: Phase,
        ends: date | None,
        progress: Callable[[str, int, int], None] | None,
    ) -> Written:
        """Writes its change events; `progress` is told topic, records written, and records in all. Without a form:
        in one of its own."""

    @property
    def about(self) -> str:
        """What it is, in one line."""

    def demonstrate(self, scale: float | None) -> int:
        """Plays its demonstration; the exit code. Without a scale: at one of its own."""


def find(name: str) -> Example:
    """An example system by its name.

    Raises
    ------
    LakeError
        No examples are installed, none has this name, or what they need themselves is missing.
    """
    loading = _loading()
    if name not in loading:
        raise LakeError(
            f"dataset {name!r}",
            where="examples",
            expected=f"one of {', '.join(sorted(loading))}",
            action="name another one",
        )
    try:
        return loading[name]()
    except ModuleNotFoundError as missing:
        raise LakeError(
            f"the examples need the Python package {missing.name}, which is not installed",
            where=f"example {name}",
            action="install the extra that has it: pip install '.[project]' in a clone of this project",
        ) from missing


def told() -> Iterator[tuple[str, str]]:
    """Each example system by its name, and what it is; or what keeps it from being played.

    Raises
    ------
    LakeError
        No examples are installed.
    """
    for name in sorted(_loading()):
        try:
            yield name, find(name).about
        except LakeError as error:
            yield name, error.message


def _loading() -> Mapping[str, Callable[[], Example]]:
    loading: dict[str, Callable[[], Example]] = {
        **_beside(),
        **{point.name: point.load for point in entry_points(group=GROUP)},
    }
    if not loading:
        raise LakeError(
            "no example systems are installed: they are no part of this package",
            where="examples",
            action="run this in a clone of the project after `make setup`, or install a package that has examples",
        )
    return loading


def _beside() -> Mapping[str, Callable[[], Example]]:
    """The systems of the package `examples`; none where there is no such package, or it is somebody else's."""
    try:
        import_module("examples.system")
    except ModuleNotFoundError as missing:
        if missing.name in ("examples", "examples.system"):
            return {}
        raise
    examples: Any = import_module("examples")
    return {name: partial(examples.system, name) for name in examples.names()}


def generate(
    dataset: Dataset,
    to: Annotated[Path, typer.Option("--out", help="Folder to write bronze/, oracle/ and manifest.json to.")],
    scale: Annotated[float, typer.Option(help="1 is the original size.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed and scale give the same bytes.")] = 42,
    form: Annotated[
        Optional[Form], typer.Option(help="How Debezium writes the events; by default as the system has them.")
    ] = None,
    phase: Annotated[Phase, typer.Option(help="The snapshot, the changes after it, or all of it.")] = "all",
    ends: Annotated[
        Optional[datetime],
        typer.Option(formats=["%Y-%m-%d"], help="Day of the last change; by default one in 2023."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Write an example database and its change events, as Debezium and a Kafka Connect sink would."""
    with (
        errors_as_messages(debug),
        Progress(
            TextColumn("{task.description:<24}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TimeElapsedColumn(),
            console=err,
        ) as progress,
    ):
        bars: dict[str, Any] = {}

        def show(step: str, done: int, total: int) -> None:
            if step not in bars:
                bars[step] = progress.add_task(step, total=total)
            progress.update(bars[step], completed=done, total=total)

        day = ends.date() if ends else None
        play = partial(find(dataset).generate, to, scale=scale, seed=seed, phase=phase, ends=day, progress=show)
        try:
            summary = play(form=form) if form else play()
        except OSError as error:
            raise LakeError(
                f"cannot be written: {error.strerror}",
                where=f"--out {to}" if error.filename is None else str(error.filename),
                expected="a folder this user may write to",
                action="name another one with --out",
            ) from error
    out.print(
        f"{summary.records:,} events in {summary.files} files below {to} "
        f"({summary.late:,} late, {summary.repeated:,} repeated)"
    )


def demo(
    system: Annotated[Optional[str], typer.Argument(metavar="SYSTEM", help="An example system.")] = None,
    scale: Annotated[
        Optional[float], typer.Option(help="1 is the original size; by default one that takes about a minute.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Play an example system: land it and build its marts twice, and test them. Without a name: list the systems."""
    with errors_as_messages(debug):
        if system is None:
            for name, about in told():
                out.print(f"lake demo {name:<12} {about}", markup=False, highlight=False)
            return
        code = find(system).demonstrate(scale)
    raise typer.Exit(code)
