"""The options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.config.tables import Table
from ingest.errors import DeclarationError, InputError

SourceName = Annotated[str, typer.Argument(metavar="SOURCE", help="A dbt source with config.meta.ingest.")]
TableName = Annotated[str, typer.Argument(metavar="SOURCE.TABLE", help="A table of a source, such as shop.orders.")]
ProjectDir = Annotated[Optional[Path], typer.Option("--project-dir", help="The dbt project; by default this folder.")]
ProfilesDir = Annotated[
    Optional[Path],
    typer.Option("--profiles-dir", help="Folder of profiles.yml and connections.yml; by default where dbt looks."),
]
Target = Annotated[Optional[str], typer.Option("--target", "-t", help="The target of profiles.yml.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole of an unexpected error.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table.")]
Workers = Annotated[int, typer.Option(min=1, help="Tables worked on at a time.")]
MetricsPort = Annotated[
    Optional[int],
    typer.Option(
        min=0, max=65535, help="While landing continuously: answer /metrics on this port of loopback, for Prometheus."
    ),
]
Tables = Annotated[Optional[str], typer.Option("--tables", help="Only these tables, separated by commas.")]


def chosen_tables(
    project_dir: Path | None, profiles_dir: Path | None, target: str | None, source: str, tables: str | None
) -> tuple[Project, tuple[Table, ...]]:
    """The project that the options lead to, and the tables of a source that they name; all where they name none.

    Raises
    ------
    DeclarationError
        There is no such project, source or table, or a declaration is wrong.
    """
    project = Project.load(project_dir, profiles_dir, target)
    return project, load_source(project, source).choose(names_of(tables))


def named_table(
    project_dir: Path | None, profiles_dir: Path | None, target: str | None, name: str
) -> tuple[Project, Table]:
    """The project that the options lead to, and the table that `SOURCE.TABLE` names.

    Raises
    ------
    DeclarationError
        There is no such project, source or table, or a declaration is wrong.
    """
    source, _, table = name.partition(".")
    if not table:
        raise DeclarationError(f"'{name}' names no table", where="SOURCE.TABLE", expected="such as shop.orders")
    project = Project.load(project_dir, profiles_dir, target)
    (found,) = load_source(project, source).choose([table])
    return project, found


def names_of(text: str | None) -> list[str]:
    """The names of a list that is separated by commas; none where the option is not given.

    Raises
    ------
    InputError
        It is given, and has no name, as of a variable of the shell that is not set: it would mean all tables.
    """
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if text is not None and not names:
        raise InputError("names no table", where="--tables", expected="one table at least, or no --tables: all of them")
    return names
