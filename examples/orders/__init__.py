"""Orders of a shop, whose triggers write every change to an outbox: the system of the data lake article."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from examples.generating.debezium import Form
from examples.generating.generate import Databases, Phase, Progress, Summary, generate
from examples.generating.relational import RelationalExample
from examples.generating.sink import oracle_file
from examples.orders.changes import LAST_DAY, SNAPSHOT_AT_US, history
from examples.orders.outbox import Outbox
from examples.orders.rows import snapshot
from examples.orders.tables import TABLES
from examples.system import DatabaseExample


@dataclass(frozen=True)
class OutboxExample(RelationalExample):
    """A database of which the outbox alone is captured.

    Attributes
    ----------
    outbox:
        What the triggers make of the rows and transactions.
    """

    outbox: Databases

    def generate(
        self,
        to: Path,
        *,
        scale: float = 1.0,
        seed: int = 42,
        form: Form = "json",
        phase: Phase = "all",
        ends: date | None = None,
        progress: Progress | None = None,
    ) -> Summary:
        """Writes the outbox's change events: unwrapped JSON without a schema, unless another form is asked for."""
        return generate(self.outbox, to, scale=scale, seed=seed, form=form, phase=phase, ends=ends, progress=progress)

    def expected(self, to: Path, phase: Phase) -> Mapping[str, Path]:
        """The file with the outbox as it must be after a phase, by `<schema>.<table>`."""
        after = "changes" if phase == "all" else phase
        return {table.full_name: oracle_file(to, after, table.full_name) for table in self.outbox.tables}


SYSTEM: Final[DatabaseExample] = OutboxExample(
    name="orders",
    about="a shop whose triggers write each order to an outbox: one table, JSON in a column",
    folder=Path(__file__).parent,
    tables=TABLES,
    connectors=("orders-outbox", "orders-router"),
    make_snapshot=snapshot,
    make_history=history,
    snapshot_at_us=SNAPSHOT_AT_US,
    last_day=LAST_DAY,
    outbox=Outbox(),
)
