"""Commands on the files of one silver table: `table show`, `commits`, `files` and `compactions`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from ingest.cli.console import errors_as_messages, show_rows
from ingest.cli.options import AsJson, Debug, ProfilesDir, ProjectDir, TableName, Target, named_table
from ingest.operations.table import commits_of, compactions_of, files_of, layout_of
from ingest.spark.session import open_session

table_app = typer.Typer(help="What a silver table is made of: columns, commits, files.", no_args_is_help=True)


@table_app.command("show")
def table_show(
    name: TableName,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """How a table is laid out: type, key, partitions, index, size, and its columns with their types."""
    with errors_as_messages(debug):
        project, table = named_table(project_dir, profiles_dir, target, name)
        layout = asdict(layout_of(open_session(project), table))
    if as_json:
        print(json.dumps(layout, indent=2))
        return
    columns = layout.pop("columns")
    layout["bytes"] = decimal(layout["bytes"])
    _show([{"of the table": key, "value": value} for key, value in layout.items()], False, "")
    _show([{"column": key, "type": value} for key, value in columns.items()], False, "no column is declared")


@table_app.command("commits")
def table_commits(
    name: TableName,
    limit: Annotated[int, typer.Option(min=1, help="Commits to show.")] = 20,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """The last commits of a table, newest first: what wrote them, rows, files and bytes."""
    with errors_as_messages(debug):
        project, table = named_table(project_dir, profiles_dir, target, name)
        commits = [asdict(commit) for commit in commits_of(open_session(project), table, limit)]
    _show(commits, as_json, "no commit was ever completed")


@table_app.command("files")
def table_files(
    name: TableName,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """The file groups of each partition: the base file, and the log files that a reader merges into it."""
    with errors_as_messages(debug):
        project, table = named_table(project_dir, profiles_dir, target, name)
        groups = files_of(open_session(project), table)
    if as_json:
        print(json.dumps([{**asdict(group), "bytes": group.bytes} for group in groups], indent=2))
        return
    rows = [
        {
            "partition": group.partition or "-",
            "base file": group.base_file.name if group.base_file else "-",
            "bytes": decimal(group.base_file.bytes) if group.base_file else "-",
            "log files": "\n".join(file.name for file in group.log_files) or "-",
            "log bytes": "\n".join(decimal(file.bytes) for file in group.log_files) or "-",
        }
        for group in groups
    ]
    _show(rows, False, "no file holds a row")


@table_app.command("compactions")
def table_compactions(
    name: TableName,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """The compactions of a table: those that are planned, and those that were completed."""
    with errors_as_messages(debug):
        project, table = named_table(project_dir, profiles_dir, target, name)
        planned, completed = compactions_of(open_session(project), table)
    if as_json:
        summary = {"planned": [asdict(each) for each in planned], "completed": [asdict(each) for each in completed]}
        print(json.dumps(summary, indent=2))
        return
    _show([asdict(each) for each in planned], False, "no compaction is planned")
    _show([asdict(each) for each in completed], False, "no compaction was ever completed")


def _show(rows: list[dict[str, Any]], as_json: bool, nothing: str) -> None:
    """Rows as a grid or as JSON; in a grid sizes are in kB, MB and so on."""
    if not as_json:
        rows = [{key: decimal(value) if key == "bytes" and isinstance(value, int) else value
                 for key, value in row.items()} for row in rows]  # fmt: skip
    show_rows(rows, tuple(rows[0]) if rows else (), as_json, nothing=nothing)
