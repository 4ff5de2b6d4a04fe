"""The command `reconcile`: silver against its source."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.markup import escape
from rich.table import Table as Grid

from ingest.cli.console import errors_as_messages, out, print_error
from ingest.cli.options import (
    AsJson,
    Debug,
    ProfilesDir,
    ProjectDir,
    SourceName,
    Tables,
    Target,
    chosen_tables,
)
from ingest.operations.reconcile import KINDS, Reconciled
from ingest.operations.reconcile import reconcile as reconcile_table
from ingest.spark.session import open_session


def reconcile(
    source: SourceName,
    tables: Tables = None,
    against: Annotated[
        Optional[Path],
        typer.Option("--against", exists=True, file_okay=False, help="A folder of files instead of the database."),
    ] = None,
    null_text: Annotated[str, typer.Option("--null-text", help="What means null in its CSV files.")] = r"\N",
    limit: Annotated[int, typer.Option(min=1, help="Keys to name of each kind of difference; all are counted.")] = 10,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Compare silver with its source. Exit code 0 only when something was compared and nothing differs."""
    with errors_as_messages(debug):
        project, chosen = chosen_tables(project_dir, profiles_dir, target, source, tables)
        folder = against.resolve() if against else None
        spark = open_session(project)
        results = [reconcile_table(spark, table, against=folder, null_text=null_text, limit=limit) for table in chosen]
    if as_json:
        print(json.dumps([_reconciled_json(result) for result in results], indent=2))
    else:
        out.print(_reconciled_grid(source, results))
        for result in results:
            for difference in result.differences:
                key = ", ".join(f"{name}={value}" for name, value in difference.key.items())
                columns = f": {', '.join(difference.columns)}" if difference.columns else ""
                line = f"{result.table.name} {key[:200]} {result.words(difference.kind)}{columns}"
                out.print(escape(line), highlight=False, soft_wrap=True)
    for result in results:
        if result.error:
            print_error(result.error.message)
    compared = [result for result in results if result.against]
    if not compared or any(not result.equal for result in compared) or any(result.error for result in results):
        raise typer.Exit(1)


def _reconciled_grid(title: str, results: Sequence[Reconciled]) -> Grid:
    grid = Grid(title=title, title_justify="left")
    for name in ("table", "silver at", "source rows", "silver rows", *KINDS, "state"):
        grid.add_column(name, justify="left" if name in ("table", "silver at", "state") else "right", overflow="fold")
    for result in results:
        numbers = (result.source_rows, result.silver_rows, *(result.counts[kind] for kind in KINDS))
        grid.add_row(result.table.name, result.instant or "-", *(f"{number:,}" for number in numbers), result.told)
    return grid


def _reconciled_json(result: Reconciled) -> dict[str, Any]:
    return {
        "table": result.table.name,
        "state": result.told,
        "against": result.against or None,
        "instant": result.instant or None,
        "position": result.position or None,
        "waiting": result.waiting,
        "unit": result.unit or None,
        "source_rows": result.source_rows,
        "silver_rows": result.silver_rows,
        "counts": dict(result.counts),
        "missed_deletes": result.missed_deletes,
        "not_compared": list(result.left_out),
        "differences": [asdict(difference) for difference in result.differences],
        "error": result.error.message if result.error else None,
    }
