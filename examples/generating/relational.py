"""An example of relational databases: its snapshot and history, written as Debezium's events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol

from examples.generating.debezium import Form
from examples.generating.generate import Phase, Progress, Summary, generate
from examples.generating.model import Database, System, Table, Transaction
from examples.generating.sink import oracle_file
from examples.system import Demonstrated


class MakeSnapshot(Protocol):
    """Makes all rows from a scale and a seed."""

    def __call__(self, scale: float, seed: int) -> Database: ...


class MakeHistory(Protocol):
    """Makes the transactions after a snapshot."""

    def __call__(
        self, database: Database, scale: float, seed: int, row_changes: int | None = None
    ) -> list[Transaction]: ...


@dataclass(frozen=True)
class RelationalExample(Demonstrated):
    """An :class:`examples.system.DatabaseExample` made of two functions; its folder has `ddl/<database system>.sql`.

    Attributes
    ----------
    snapshot_at_us:
        When the snapshot is taken, in microseconds since 1970, UTC.
    last_day:
        The day of the last change.
    """

    tables: tuple[Table, ...]
    connectors: tuple[str, ...]
    make_snapshot: MakeSnapshot
    make_history: MakeHistory
    snapshot_at_us: int
    last_day: date

    def ddl(self, system: System) -> str:
        """The SQL that makes its tables in one database system."""
        return (self.folder / "ddl" / f"{system}.sql").read_text(encoding="utf-8")

    def snapshot(self, scale: float, seed: int) -> Database:
        """All rows before the first change."""
        return self.make_snapshot(scale, seed)

    def history(self, database: Database, scale: float, seed: int, row_changes: int | None = None) -> list[Transaction]:
        """The transactions after the snapshot, in commit order."""
        return self.make_history(database, scale, seed, row_changes)

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
        """Writes the change events and the states they must lead to: see `examples.generating.generate`."""
        return generate(self, to, scale=scale, seed=seed, form=form, phase=phase, ends=ends, progress=progress)

    def expected(self, to: Path, phase: Phase) -> Mapping[str, Path]:
        """Files with the tables as they must be after a phase, by `<schema>.<table>`."""
        after = "changes" if phase == "all" else phase
        return {table.full_name: oracle_file(to, after, table.full_name) for table in self.tables}
