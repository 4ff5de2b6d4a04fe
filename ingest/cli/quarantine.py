"""Commands on events that could not be applied: `quarantine ls`, `show` and `replay`."""

from __future__ import annotations

from typing import Annotated

import typer
from pyspark.sql import SparkSession

from ingest.cli.console import err, errors_as_messages, print_error, show_rows
from ingest.cli.landing import landed_json
from ingest.cli.options import (
    AsJson,
    Debug,
    ProfilesDir,
    ProjectDir,
    SourceName,
    Tables,
    Target,
    names_of,
)
from ingest.config.project import Project
from ingest.config.sources_file import Source, load_source
from ingest.landing.run import land_safely
from ingest.operations.quarantine import LISTED, SHOWN, quarantined, quarantined_by_reason, undeclared
from ingest.operations.replay import replay
from ingest.silver.state import Counts
from ingest.spark.session import open_session

_NOTHING = "nothing is quarantined"

quarantine_app = typer.Typer(help="Events that could not be applied.", no_args_is_help=True)


@quarantine_app.command("ls")
def quarantine_ls(
    source: SourceName,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """How many events of each table are quarantined, why, and where the first of them is in its topic."""
    with errors_as_messages(debug):
        project = Project.load(project_dir, profiles_dir, target)
        declared = load_source(project, source)
        spark = open_session(project)
        rows = quarantined_by_reason(spark, declared)
        _tell_undeclared(spark, declared)
    show_rows(rows, LISTED, as_json, nothing=_NOTHING)


@quarantine_app.command("show")
def quarantine_show(
    source: SourceName,
    tables: Tables = None,
    limit: Annotated[int, typer.Option(min=1, help="Events to show.")] = 20,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Quarantined events with their place, the reason and what was read."""
    with errors_as_messages(debug):
        project = Project.load(project_dir, profiles_dir, target)
        declared = load_source(project, source)
        names = names_of(tables)
        declared.choose(names)
        spark = open_session(project)
        rows = quarantined(spark, declared, tables=names, limit=limit)
        if not names:
            _tell_undeclared(spark, declared)
    show_rows(rows, SHOWN, as_json, nothing=_NOTHING)


@quarantine_app.command("replay")
def quarantine_replay(
    source: SourceName,
    tables: Tables = None,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Apply quarantined events again, once what was wrong is corrected. Those that still cannot be applied stay."""
    with errors_as_messages(debug):
        project = Project.load(project_dir, profiles_dir, target)
        declared = load_source(project, source)
        names = names_of(tables)
        chosen = declared.choose(names)
        spark = open_session(project)
        results = []
        for table in chosen:
            err.print(f"{table.name}: replaying")
            results.append(land_safely(spark, table, step=lambda spark, table, _: replay(spark, table)))
            if error := results[-1].error:
                print_error(error.message)
        if not names:
            _tell_undeclared(spark, declared)
    failed = any(landed.error for landed in results)
    show_rows(
        [landed_json(landed) for landed in results if landed.counts.read or (as_json and landed.error)],
        ("table", *Counts.__dataclass_fields__),
        as_json,
        nothing="nothing was replayed" if failed else _NOTHING,
    )
    if failed or any(landed.counts.quarantined for landed in results):
        raise typer.Exit(1)


def _tell_undeclared(spark: SparkSession, source: Source) -> None:
    """On standard error: a replay of the whole source leaves these events where they are."""
    if events := undeclared(spark, source):
        err.print(
            f"{sum(events.values()):,} events of tables that are not declared: {', '.join(events)}. No replay applies "
            "them until these are declared again",
            soft_wrap=True,
        )
