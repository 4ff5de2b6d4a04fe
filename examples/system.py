"""What an example system is: databases with a history, and all that plays them.

A system is a folder beside this file, with `demo.yml` and an object `SYSTEM` in its package; a package elsewhere names
its own by an entry point of the group `lake.examples`. `lake generate`, `lake demo`, `make demo` and `make up` know
nothing of a system but what stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Literal, Protocol

import pydantic
import yaml
from pydantic import BaseModel, ConfigDict

from examples.generating.debezium import Form
from examples.generating.generate import Phase, Progress, Summary
from examples.generating.model import Database, System, Table, Transaction
from ingest.errors import LakeError


class Played(BaseModel):
    """A phase of a system's life as the demonstration plays it, and what it says of each of the three steps."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    phase: Literal["snapshot", "changes"]
    generate: str
    ingest: str
    build: str


class Demo(BaseModel):
    """A system's `demo.yml`.

    Attributes
    ----------
    source:
        The dbt source that its events are landed as.
    build:
        Arguments of each `dbt build`: which models are the system's, and what they need to be told.
    phases:
        In the order in which they are played.
    look:
        A query of one row that shows what came of it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    build: tuple[str, ...]
    phases: tuple[Played, ...]
    look: str

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


class ExampleSystem(Protocol):
    """Databases whose rows and changes follow from a scale and a seed alone."""

    @property
    def name(self) -> str:
        """Its folder here, and the argument of `lake generate` and `lake demo`."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of all its databases."""

    @property
    def connectors(self) -> tuple[str, ...]:
        """Names of its connectors in `deploy/connectors`."""

    @property
    def demo(self) -> Demo:
        """How its demonstration is played."""

    def ddl(self, system: System) -> str:
        """The SQL that makes its tables in one database system; run again, it changes nothing."""

    def snapshot(self, scale: float, seed: int) -> Database:
        """All rows before the first change."""

    def history(self, database: Database, scale: float, seed: int, row_changes: int | None = None) -> list[Transaction]:
        """The transactions after the snapshot, in commit order."""

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
    ) -> Summary:
        """Writes the change events, and the states that they must lead to."""

    def expected(self, to: Path, phase: Phase) -> Mapping[str, Path]:
        """Files with the tables as they must be after a phase, by `<schema>.<table>`; :meth:`generate` wrote them."""

    def demonstrate(self, scale: float) -> int:
        """Plays the demonstration in a process of its own; its exit code."""
