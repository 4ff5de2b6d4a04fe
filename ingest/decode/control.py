"""Events that are no change of a row: heartbeats, transaction markers, schema changes."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from ingest.config.tables import Table


@dataclass(frozen=True)
class Control:
    """An event that is no change of a row, by its fields: those that it has, and if they are known all it may have.

    Sources: Debezium's documentation of the heartbeat, transaction metadata and schema change topics.
    """

    has: frozenset[str]
    may_have: frozenset[str] | None = None

    def describes(self, names: Set[str]) -> bool:
        """Whether an event with these fields is one."""
        is_its = self.has <= names and (self.may_have is None or names <= self.may_have)
        # What the unwrap transform has written is a row, whatever its columns are called.
        return is_its and not any(name.startswith("__") for name in names)


_TRANSACTION = frozenset({"status", "id", "event_count"})
HEARTBEAT = Control(frozenset({"ts_ms"}), frozenset({"ts_ms"}))
CONTROL = (
    HEARTBEAT,
    Control(_TRANSACTION, _TRANSACTION | {"data_collections", "ts_ms", "ts_us", "ts_ns"}),
    Control(frozenset({"tableChanges", "ddl"})),
)


def control_of(table: Table) -> list[Control]:
    """What is no change of this table: its declared columns may be those of a control event.

    Of `_transactions`, which nobody declares, any of its columns may.
    """
    columns = {column.name for column in table.columns if column.declared} or {column.name for column in table.columns}
    return [each for each in CONTROL if not (columns == each.has if each is HEARTBEAT else each.has <= columns)]


def is_control_schema(names: Set[str], table: Table) -> bool:
    """Whether a record with these fields is no change of a row: a heartbeat, a transaction marker, a schema change."""
    return any(control.describes(names) for control in control_of(table))
