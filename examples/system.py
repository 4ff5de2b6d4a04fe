"""What an example system is: something that changes, and all that plays it.

A system is a folder beside this file, with `demo.yml` and an object `SYSTEM` in its package; a package elsewhere names
its own by an entry point of the group `lake.examples`. `lake generate`, `lake demo`, `make demo` and `make up` know
nothing of a system but what stands here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

import pydantic
import yaml
from pydantic import BaseModel, ConfigDict, field_validator

from examples.generating.debezium import Form
from examples.generating.generate import Phase, Progress
from examples.generating.model import Database, System, Table, Transaction
from ingest.errors import LakeError

_REPOSITORY = Path(__file__).resolve().parents[1]


class Played(BaseModel):
    """A phase of a system's life as the demonstration plays it, and what it says of each of the three steps.

    Attributes
    ----------
    tests:
        Whether the build has the system's tests too. They take about as long as its models.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    phase: Literal["snapshot", "changes"]
    generate: str
    ingest: str
    build: str
    tests: bool = True


class Look(BaseModel):
    """What to look at once a system is played: a query, and the rows that it must give at the demonstration's scale.

    Attributes
    ----------
    expects:
        By column, as text; empty where the query is only shown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    query: str
    expects: tuple[dict[str, str | None], ...] = ()

    @field_validator("query")
    @classmethod
    def _where_it_is_built(cls, query: str) -> str:
        """As the profiles name schemas: `LAKE_SCHEMA` is what stands before a mart's."""
        return re.sub(r"\blakehouse_", f"{os.environ.get('LAKE_SCHEMA', 'lakehouse')}_", query)

    @field_validator("expects", mode="before")
    @classmethod
    def _as_text(cls, rows: Sequence[Mapping[str, object]]) -> list[dict[str, str | None]]:
        return [{name: None if value is None else str(value) for name, value in row.items()} for row in rows]


class Demo(BaseModel):
    """A system's `demo.yml`.

    Attributes
    ----------
    source:
        The dbt source that its events are landed as.
    scale:
        What `lake demo` plays it at where it is told nothing else: about a minute. 1 is the original size.
    build:
        Arguments of each `dbt build`: which models are the system's, and what they need to be told.
    phases:
        In the order in which they are played.
    look:
        What came of it.
    docs:
        The model whose page of the documentation is a place to begin.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    scale: float = 1.0
    build: tuple[str, ...]
    phases: tuple[Played, ...]
    look: tuple[Look, ...]
    docs: str

    @classmethod
    def read(cls, file: Path) -> Demo:
        """The file's content.

        Raises
        ------
        LakeError
            It is no YAML, or has other keys than these.
        """
        try:
            return cls.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
        except (yaml.YAMLError, pydantic.ValidationError) as error:
            raise LakeError(
                f"{error}", where=str(file), expected=", ".join(cls.model_fields), action="mend the file"
            ) from error


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


class ExampleSystem(Protocol):
    """Something that changes, and whose change events follow from a scale and a seed alone."""

    @property
    def name(self) -> str:
        """Its folder here, and the argument of `lake generate` and `lake demo`."""

    @property
    def about(self) -> str:
        """What it is, in one line."""

    @property
    def demo(self) -> Demo:
        """How its demonstration is played."""

    def generate(
        self,
        to: Path,
        *,
        scale: float = 1.0,
        seed: int = 42,
        form: Form = "avro",
        phase: Phase = "all",
        ends: date | None = None,
        progress: Progress | None = None,
    ) -> Written:
        """Writes the change events below `bronze/`, and the states that they must lead to."""

    def expected(self, to: Path, phase: Phase) -> Mapping[str, Path]:
        """Files with the tables as they must be after a phase, by `<schema>.<table>`; :meth:`generate` wrote them."""

    def demonstrate(self, scale: float | None) -> int:
        """Plays the demonstration in a process of its own; its exit code. Without a scale: at `demo.scale`."""


@dataclass(frozen=True)
class StreamRecord:
    """A record of a stream: what chooses its shard, and what it holds."""

    partition_key: str
    data: bytes


class StreamedExample(ExampleSystem, Protocol):
    """A system whose changes go into a stream of Kinesis too, which `python -m dev.chain put` plays."""

    @property
    def stream(self) -> str:
        """The stream's name, which is the topic of its table."""

    def records(self, *, scale: float, seed: int, phase: Phase) -> Iterator[StreamRecord]:
        """The records as they arrive: some late, some twice."""


class DatabaseExample(ExampleSystem, Protocol):
    """Databases with rows and a history, which `make up` plays on real ones too."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of all its databases."""

    @property
    def connectors(self) -> tuple[str, ...]:
        """Names of its connectors in `deploy/connectors`."""

    def ddl(self, system: System) -> str:
        """The SQL that makes its tables in one database system; run again, it changes nothing."""

    def snapshot(self, scale: float, seed: int) -> Database:
        """All rows before the first change."""

    def history(self, database: Database, scale: float, seed: int, row_changes: int | None = None) -> list[Transaction]:
        """The transactions after the snapshot, in commit order."""


@dataclass(frozen=True)
class Demonstrated:
    """A system that is played by `dev.demo`, as its `demo.yml` says.

    Attributes
    ----------
    folder:
        Where `demo.yml` is.
    about:
        What the system is, in one line.
    """

    name: str
    about: str
    folder: Path

    @cached_property
    def demo(self) -> Demo:
        """How its demonstration is played: `demo.yml`."""
        return Demo.read(self.folder / "demo.yml")

    def demonstrate(self, scale: float | None) -> int:
        """Plays the demonstration beside what the lake has, in a process of its own; its exit code."""
        played = f"{self.demo.scale if scale is None else scale:g}"
        command = [sys.executable, "-m", "dev.demo", self.name, "--scale", played, "--beside"]
        return subprocess.run(command, cwd=_REPOSITORY, check=False).returncode
