"""Compacts silver tables and their histories where that is due."""

from __future__ import annotations

from ingest.silver import change_log
from ingest.silver.table import SilverTable


def keep_up(silver: SilverTable, is_behind: bool) -> None:
    """Compacts a table and its history, where that is due (`SilverTable.compact`).

    Raises
    ------
    WriteError
        Hudi could not write. Nothing is lost then.
    """
    silver.compact(is_behind=is_behind)
    if silver.table.options.history:
        change_log.changes_of(silver).compact(is_behind=is_behind)
