"""Commands that show what the lake holds: `status`, `cut` and `sql`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any, Optional

import typer
from rich.markup import escape
from rich.table import Table as Grid

from ingest.cli.console import as_json_value, err, errors_as_messages, out, print_error, show_rows, tell_warning
from ingest.cli.options import AsJson, Debug, ProfilesDir, ProjectDir, SourceName, Target
from ingest.config.project import Project
from ingest.config.sources_file import load_source, load_sources
from ingest.errors import DeclarationError
from ingest.landing.transactions import is_consistent, newest_cut
from ingest.landing.transactions import release as release_transaction
from ingest.operations.status import TableStatus, status_of
from ingest.silver.state import Counts
from ingest.sources.base import OpenTransaction
from ingest.spark.session import open_session


def status(
    source: Annotated[Optional[str], typer.Argument(metavar="SOURCE", help="By default every source.")] = None,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Show per table what is landed, the unread input, and the counts. Exit code 1 where one is not well."""
    with errors_as_messages(debug):
        project = Project.load(project_dir, profiles_dir, target)
        sources = [load_source(project, source)] if source else list(load_sources(project).values())
        spark = open_session(project)
        rows = [row for found in sources for row in status_of(spark, found)]
    if as_json:
        print(json.dumps([status_json(row) for row in rows], indent=2))
    else:
        out.print(_status_grid(rows))
    for row in rows:
        for held in row.open_transactions:
            tell_warning(_open_transaction(row, held))
        if row.error:
            print_error(row.error)
    if any(row.error for row in rows):
        raise typer.Exit(1)


def _open_transaction(row: TableStatus, held: OpenTransaction) -> str:
    """What a transaction that has not ended keeps from being landed, and what to do."""
    place = f"--topic {held.topic} --partition {held.partition} --start-offset {held.offset}"
    return (
        f"{row.table.source}.{row.table.name}: {held.records:,} records of {held.topic}, partition {held.partition}, "
        f"stand behind a transaction that is open from offset {held.offset} on: nobody reads them until it ends. Look "
        "again: where it stays, and its producer is gone, Kafka's "
        f"`kafka-transactions.sh --bootstrap-server ... abort {place}` ends it"
    )


def _status_grid(rows: Sequence[TableStatus]) -> Grid:
    grid = Grid()
    left = ("table", "last commit", "state")
    for name in (*left[:2], "live", "deleted", "landed", "unread", *Counts.__dataclass_fields__, "state"):
        grid.add_column(name, justify="left" if name in left else "right", overflow="fold")
    for row in rows:
        # Where the source tells a time and no number, the state says it.
        behind = f"behind by {timedelta(seconds=row.behind_ms // 1000)}" if row.behind_ms else row.state
        grid.add_row(
            f"{row.table.source}.{row.table.name}",
            row.last_commit or "-",
            *(f"{number:,}" for number in (row.live_rows, row.deleted_rows)),
            *("-" if number is None else f"{number:,} {row.unit}" for number in (row.landed, row.waiting)),
            *(f"{number:,}" for number in asdict(row.totals).values()),
            behind if row.state == "behind" else row.state,
        )
    return grid


def status_json(row: TableStatus) -> dict[str, Any]:
    """How a table is, as `--json` gives it."""
    return {
        "source": row.table.source,
        "table": row.table.name,
        "last_commit": row.last_commit,
        "live_rows": row.live_rows,
        "deleted_rows": row.deleted_rows,
        "landed": row.landed,
        "waiting": row.waiting,
        "unit": row.unit,
        "behind_ms": row.behind_ms,
        "open_transactions": [asdict(held) for held in row.open_transactions],
        "last": asdict(row.last),
        "totals": asdict(row.totals),
        "state": row.state,
        "error": row.error,
    }


def show_cut(
    source: SourceName,
    release: Annotated[
        Optional[str], typer.Option("--release", metavar="ID", help="Let a transaction pass whose events are lost.")
    ] = None,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Show the newest cut of a source that is consistent by transaction: an instant of each table to read it at."""
    with errors_as_messages(debug):
        project = Project.load(project_dir, profiles_dir, target)
        declared = load_source(project, source)
        if not is_consistent(declared.tables):
            raise DeclarationError(
                "its tables are landed one by one",
                where=f"{declared.file}: {source}",
                expected="config.meta.ingest.consistent: transaction",
            )
        spark = open_session(project)
        if release:
            release_transaction(spark, declared.tables[0], release)
            err.print(f"transaction {escape(release)} passes with the next run")
        relations = {table.name: table.relation for table in declared.tables}
        rows = [
            {"table": name, "instant": instant, "read": f"{relations[name]} timestamp as of '{instant}'"}
            for name, instant in sorted(newest_cut(spark, declared.schema).items())
        ]
    show_rows(rows, ("table", "instant", "read"), as_json, nothing="no cut yet: every table must have been landed")


def sql(
    query: Annotated[str, typer.Argument(help="One statement of Spark SQL.")],
    limit: Annotated[int, typer.Option(min=1, help="Rows to show.")] = 50,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Run one query in the embedded session."""
    with errors_as_messages(debug):
        project = Project.load(project_dir, profiles_dir, target)
        result = open_session(project).sql(query)
        rows = result.take(limit + 1)
    shown = rows[:limit]
    if as_json:
        print(json.dumps([as_json_value(row.asDict(recursive=True)) for row in shown], indent=2))
        return
    grid = Grid()
    for name in result.columns:
        grid.add_column(escape(name), overflow="fold")
    for row in shown:
        grid.add_row(*(escape("null" if value is None else str(value)) for value in row))
    out.print(grid)
    if len(rows) > limit:
        err.print(f"the first {limit} rows; more with --limit")
