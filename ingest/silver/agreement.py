"""What a table was landed with must agree with its declaration: the places, the keys and the files of both are one."""

from __future__ import annotations

from typing import Any

from ingest.config.tables import Table
from ingest.errors import WriteError
from ingest.schema.change import metadata_columns
from ingest.schema.connectors import order_of
from ingest.schema.masking import fingerprint, salt_of
from ingest.silver.state import State


def derived_of(table: Table) -> dict[str, str]:
    """The columns that are derived from the key, with how, as `State` keeps them."""
    return {
        column.name: f"substring({part.column}, {part.start}, {part.length})"
        for column in table.columns
        if (part := column.substring_of) is not None
    }


def metadata_of(table: Table) -> tuple[str, ...]:
    """The columns of Debezium's metadata that events have by the declaration, as `State` keeps them."""
    return tuple(column.name for column in metadata_columns(table))


def require_agreement(table: Table, state: State, config: Any) -> None:
    """Raises WriteError where the declaration no longer says what the table was landed with.

    Parameters
    ----------
    config:
        Hudi's own of the table (`HoodieTableConfig`).
    """
    _require_epoch(table, state)
    _require_salt(table, state)
    _require_layout(table, state, config)
    _require_metadata(table, state)
    _require_order(table, state)


def _require_epoch(table: Table, state: State) -> None:
    if state.epoch > table.options.epoch:
        raise WriteError(
            f"the declaration says epoch {table.options.epoch}, the table was landed in {state.epoch}",
            where=table.where,
            expected=f"epoch {state.epoch} or greater: an epoch only grows",
            action="declare it; nothing was landed",
        )


def _require_salt(table: Table, state: State) -> None:
    """Another salt would give equal values different hashes, without a word."""
    known = set(state.erased) | {of for name, of in state.hashed.items() if name in table.hashed}
    other = known - {"", fingerprint(salt_of(table))}
    if other:
        raise WriteError(
            "the connection's hash_salt is not the one that the table's hashes, or its erased keys, are made with",
            where=table.where,
            expected=f"the salt with the fingerprint {', '.join(sorted(other))}",
            action="set the variable as before; a new salt needs another location and epoch. Nothing was landed",
        )


def _require_layout(table: Table, state: State, config: Any) -> None:
    """Rows of another key would stand beside those that are there, and deletes would not find them; and Hudi takes the
    type and the version of the table from its own `config`, whatever is declared, and refuses another name than its."""
    options, version = table.options, config.getTableVersion().versionCode()
    table_type = "mor" if str(config.getTableType()) == "MERGE_ON_READ" else "cow"
    for name, declared, landed, why in (
        ("identifier", table.name, str(config.getTableName()), "Hudi writes it under no other name"),
        ("key", list(table.key), state.key, "its rows are found by it"),
        ("partition_by", list(options.partition_by), state.partition_by, "its rows are found by it"),
        ("substring_of", derived_of(table), state.derived, "its rows have what it gave them"),
        ("table_type", options.table_type, table_type, "its files are of it"),
        ("table_version", options.table_version, version, "its files are of it"),
    ):
        was = list(landed) if isinstance(landed, tuple) else landed
        if was is not None and was != declared:
            raise WriteError(
                f"the declaration says {name} {declared}, the table was landed with {was}",
                where=table.where,
                expected=f"{name} {was}: {why}",
                action="declare it as before, or land the table anew, by another location and `identifier`; "
                "nothing was landed",
            )


def _require_metadata(table: Table, state: State) -> None:
    """Hudi writes no row that lacks a column of the table."""
    has = metadata_of(table)
    lacking = [name for name in state.metadata or () if name not in has]
    if lacking:
        raise WriteError(
            f"silver has {', '.join(lacking)}, which no event has by the declaration",
            where=table.where,
            expected="connector, order_by and consistent as the table was landed with",
            action="declare them so, or land the table anew, by another location and `identifier`; nothing was landed",
        )


def _require_order(table: Table, state: State) -> None:
    """Places of another order would sort before those that are there, or behind, whatever came first."""
    order = order_of(table).told
    if state.order not in ("", order) and table.options.epoch == state.epoch:
        raise WriteError(
            f"the declaration orders changes by {order}, the table was landed by {state.order}",
            where=table.where,
            expected="one order within an epoch: places of two cannot be compared",
            action="declare connector and order_by as before to land what is unread by them, then raise `epoch` "
            "with the new order: all that is read from then on is newer; nothing was landed",
        )
