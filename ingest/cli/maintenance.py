"""Commands that change what is landed: `purge`, `position` and `erase`."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

from ingest.cli.console import done_to_each, errors_as_messages, out, print_error, show_rows
from ingest.cli.options import (
    AsJson,
    Debug,
    ProfilesDir,
    ProjectDir,
    SourceName,
    Tables,
    Target,
    chosen_tables,
    names_of,
)
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.errors import InputError
from ingest.operations.erase import erase, lines_of, parse_key
from ingest.operations.position import set_position, tables_of
from ingest.operations.purge import purge
from ingest.spark.session import open_session


class PositionTo(StrEnum):
    """Where `lake position` may put a table."""

    earliest = "earliest"
    latest = "latest"


def purge_tombstones(
    source: SourceName,
    tables: Tables = None,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Remove the tombstones that are older than the declared retention (deletes: hard), for good."""
    with errors_as_messages(debug):
        project, chosen = chosen_tables(project_dir, profiles_dir, target, source, tables)
        if not tables:
            chosen = tuple(table for table in chosen if table.options.deletes == "hard")
        spark = open_session(project)
        rows = done_to_each(chosen, "purged", lambda table: purge(spark, table), otherwise=0)
    shown = [row for row in rows if as_json or not row["error"]]
    show_rows(shown, ("table", "purged"), as_json, nothing="nothing was purged")
    if any(row["error"] for row in rows):
        raise typer.Exit(1)


def position_to(
    source: SourceName,
    to: Annotated[PositionTo, typer.Option("--to", help="earliest: land all again; latest: skip the unread input.")],
    tables: Annotated[str, typer.Option("--tables", help="These tables, separated by commas.")],
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Decide where a table goes on. Events that are landed again are known by their positions and do no harm."""
    with errors_as_messages(debug):
        project = Project.load(project_dir, profiles_dir, target)
        chosen = tables_of(load_source(project, source), names_of(tables))
        spark = open_session(project)
        for table in chosen:
            pending = set_position(spark, table, to_latest=to is PositionTo.latest)
            out.print(f"{table.name}: goes on from {to.value}, {pending.waiting:,} {pending.unit} wait")


def erase_keys(
    source: SourceName,
    table: Annotated[str, typer.Option("--table", help="The table the keys are of.")],
    key: Annotated[
        Optional[list[str]],
        typer.Option("--key", help="A JSON list of the key's values, or column=value pairs with commas between."),
    ] = None,
    keys: Annotated[
        Optional[Path],
        typer.Option(
            "--keys", exists=True, dir_okay=False, help="A file with a key a line: other users can see --key."
        ),
    ] = None,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Remove keys with their whole history; read every file for the proof. Exit code 1 where one still holds a key."""
    with errors_as_messages(debug):
        lines = [*((text, "--key") for text in key or []), *(lines_of(keys) if keys else [])]
        project = Project.load(project_dir, profiles_dir, target)
        (chosen,) = load_source(project, source).choose([table])
        parsed = [parse_key(chosen, text, place) for text, place in lines]
        if not parsed:
            raise InputError("names no key", where="--key, --keys", expected="one key at least")
        erasure = erase(open_session(project), chosen, parsed)
    rows = [
        {"table": place.name.replace("`", ""), **asdict(place), "holding": list(place.holding)}
        for place in erasure.places
    ]
    if as_json:
        summary = {"keys": erasure.keys, "unsearched_events": erasure.unsearched, "waiting": erasure.waiting}
        print(json.dumps({**summary, "places": rows}, indent=2))
    else:
        show_rows(rows, ("table", "rows", "files", "others", "holding"), False, nothing="")
        if erasure.unsearched:
            out.print(f"{erasure.unsearched} quarantined events could not be searched: their key cannot be told")
        if erasure.waiting:
            out.print(f"{erasure.waiting:,} {erasure.unit} of events wait: what they say of the keys will be landed")
    if erasure.holding:
        print_error(f"{len(erasure.holding)} files still hold a key: {', '.join(erasure.holding[:5])}")
        raise typer.Exit(1)
