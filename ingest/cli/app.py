"""The command `lake`. Each command reads its options, calls the library and shows what came of it; nothing else."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from ingest.cli import examples, landing, maintenance, plan, reconcile, status
from ingest.cli.quarantine import quarantine_app
from ingest.cli.tables import table_app

app = typer.Typer(
    name="lake",
    help="Lands database changes captured by Debezium as Hudi tables, as the dbt sources of a project declare them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(quarantine_app, name="quarantine")
app.add_typer(table_app, name="table")


def _tell_version(wanted: bool) -> None:
    if wanted:
        print(f"lake {version('lakehouse-modeling')}")
        raise typer.Exit


@app.callback()
def lake(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version, and end.")
    ] = False,
) -> None:
    """Options of `lake` itself."""


# In the order in which `lake --help` lists them.
app.command()(examples.generate)
app.command()(examples.demo)
app.command()(landing.ingest)
app.command()(landing.serve)
app.command()(landing.prepare)
app.command()(plan.check)
app.command("plan")(plan.show_plan)
app.command()(status.status)
app.command()(reconcile.reconcile)
app.command()(status.sql)
app.command("purge")(maintenance.purge_tombstones)
app.command("position")(maintenance.position_to)
app.command("cut")(status.show_cut)
app.command("erase")(maintenance.erase_keys)
