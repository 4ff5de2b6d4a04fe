"""A table with the columns that silver will have, by its declaration and its schema policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ingest.config.tables import Table
from ingest.decode.decoded import Part
from ingest.errors import DeclarationError, InputError
from ingest.schema.evolution import Plan, Reading, plan
from ingest.silver.state import State
from ingest.silver.table import SilverTable


def schema_planned(
    silver: SilverTable, state: State | None, parts: Sequence[Part] = ()
) -> tuple[SilverTable, tuple[Reading, ...]]:
    """Silver with the columns it will have, and how each part is read, as declaration and schema policy say.

    Raises
    ------
    DeclarationError, InputError
        The declaration does not fit silver, or the policy wants the run to fail.
    """
    table = silver.table
    found = plan(table, silver.held(state) if state else None, [part.version for part in parts])
    _require_possible(table, found)
    semantic_types = dict(state.told) if state else {}
    fields = {field.name.lower(): field for part in parts for field in part.version.fields if field.semantic_type}
    semantic_types |= {name: str(fields[name.lower()].semantic_type) for name in table.key if name.lower() in fields}
    columns = tuple(replace(each, told=semantic_types.get(each.name)) for each in found.columns)
    return replace(silver, table=replace(table, columns=columns)), found.readings


def _require_possible(table: Table, found: Plan) -> None:
    for place in ("declaration", "events"):
        failures = [difference for difference in found.failures if difference.place == place]
        message = "; ".join(f"column {item.column}: {item.told}" for item in failures)
        if failures and place == "declaration":
            raise DeclarationError(
                message,
                where=table.where,
                expected="columns that silver has, or can be given",
                action=f"`lake plan {table.source}` shows each difference; nothing was landed",
            )
        if failures:
            raise InputError(
                message,
                where=table.relation,
                expected="the declared columns: the declaration says fail for such a change (schema_policy)",
                action=f"change the declaration; `lake plan {table.source}` shows each difference; nothing was landed",
            )
