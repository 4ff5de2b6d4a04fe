"""MoMA, a museum's collection in one PostgreSQL database, as in the article on open data lakes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from examples.generating.relational import RelationalExample
from examples.moma.changes import LAST_DAY, SNAPSHOT_AT_US, history
from examples.moma.rows import snapshot
from examples.moma.tables import TABLES
from examples.system import DatabaseExample

SYSTEM: Final[DatabaseExample] = RelationalExample(
    name="moma",
    about="a museum's artists and works, merge-on-read and copy-on-write side by side, partitioned",
    folder=Path(__file__).parent,
    tables=TABLES,
    connectors=("moma-postgresql",),
    make_snapshot=snapshot,
    make_history=history,
    snapshot_at_us=SNAPSHOT_AT_US,
    last_day=LAST_DAY,
)
