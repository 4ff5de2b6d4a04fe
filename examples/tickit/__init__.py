"""TICKIT, the ticket shop of Redshift's samples, spread over three databases as in the multi-database article."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from examples.generating.relational import RelationalExample
from examples.system import DatabaseExample
from examples.tickit.changes import LAST_DAY, SNAPSHOT_AT_US, history
from examples.tickit.rows import snapshot
from examples.tickit.tables import TABLES

SYSTEM: Final[DatabaseExample] = RelationalExample(
    name="tickit",
    about="a ticket shop in three databases, seven tables",
    folder=Path(__file__).parent,
    tables=TABLES,
    connectors=("tickit-postgresql", "tickit-mariadb", "tickit-json-postgresql", "tickit-json-mariadb"),
    make_snapshot=snapshot,
    make_history=history,
    snapshot_at_us=SNAPSHOT_AT_US,
    last_day=LAST_DAY,
)
