"""Commands that look and write nothing: `check` and `plan`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table as Grid

from ingest.cli.console import errors_as_messages, out, print_error, tell_warning
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
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.operations.check import look_at_all
from ingest.operations.plan import PendingPlan, pending_plan
from ingest.schema.evolution import renames
from ingest.spark.session import open_session


def check(
    source: SourceName,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Check a source's declaration, its connections and a lake on S3, without Spark. Writes nothing."""
    with errors_as_messages(debug):
        project = Project.load(project_dir, profiles_dir, target)
        declared = load_source(project, source)
        out.print(f"declaration {declared.file}: {len(declared.tables)} tables, well")
        every = look_at_all(project, declared.tables)
    for seen in every:
        if seen.error:
            print_error(seen.error.message)
        else:
            out.print(escape(f"{seen.what}: {seen.found}"), highlight=False, soft_wrap=True)
    if any(seen.error for seen in every):
        raise typer.Exit(1)


def show_plan(
    source: SourceName,
    tables: Tables = None,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Show what a run would make of changed schemas. Writes nothing; exit code 1 where a table would fail."""
    with errors_as_messages(debug):
        project, chosen = chosen_tables(project_dir, profiles_dir, target, source, tables)
        spark = open_session(project)
        documents = [_planned_json(pending_plan(spark, table)) for table in chosen]
    if as_json:
        print(json.dumps(documents, indent=2))
    else:
        out.print(_planned_grid(source, documents))
    for document in documents:
        if document["defaults"]:
            tell_warning(
                f"{source}.{document['table']}: nullable, with a default by the events' schema: "
                f"{', '.join(document['defaults'])}. Kafka Connect writes it in place of a null, unless it is told "
                "otherwise (docs/reference/declarations.md: nulls of columns that have a default)"
            )
        if document["error"]:
            print_error(document["error"])
    if any(document["fails"] for document in documents):
        raise typer.Exit(1)


def _planned_json(pending: PendingPlan) -> dict[str, Any]:
    columns = pending.plan.columns if pending.plan else ()
    differences = pending.plan.differences if pending.plan else ()
    return {
        "table": pending.table.name,
        "waiting": pending.waiting,
        "unit": pending.unit,
        "bytes": pending.bytes,
        "columns": {column.name: column.data_type.simpleString() for column in columns},
        "differences": [{**asdict(item), "told": item.told} for item in differences],
        "renames": [[old.column, new.column] for old, new in renames(differences)],
        "defaults": list(pending.defaults),
        "fails": pending.error is not None or bool(pending.plan and pending.plan.failures),
        "error": pending.error.message if pending.error else None,
    }


def _planned_grid(title: str, documents: Sequence[dict[str, Any]]) -> Grid:
    grid = Grid(title=title, title_justify="left")
    for name in ("table", "waiting", "bytes", "column", "difference", "policy", "what a run would do"):
        grid.add_column(name, justify="right" if name in ("waiting", "bytes") else "left", overflow="fold")
    for document in documents:
        rows = [
            (item["column"], f"{item['kind']}: {item['told']}", item["policy"] or "-", item["effect"])
            for item in document["differences"]
        ]
        rows += [(old, f"perhaps renamed: {new}", "-", "a drop and an add") for old, new in document["renames"]]
        if document["error"]:
            rows.append(("-", "an error, told below", "-", "fail"))
        size = "-" if document["bytes"] is None else f"{document['bytes']:,}"
        start = (document["table"], f"{document['waiting']:,} {document['unit']}", size)
        for number, row in enumerate(rows or [("-", "none", "-", "-")]):
            grid.add_row(*(start if number == 0 else ("", "", "")), *(escape(text) for text in row))
    return grid
