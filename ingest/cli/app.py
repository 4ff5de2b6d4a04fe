"""The command `lake`. Each command reads its options, calls the library and shows what came of it; nothing else."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from ingest import datasets
from ingest.cli import landing, maintenance, plan, reconcile, status
from ingest.cli.console import err, out, told_plainly
from ingest.cli.options import Debug
from ingest.cli.quarantine import quarantine_app

app = typer.Typer(
    name="lake",
    help="Lands database changes captured by Debezium as Hudi tables, as the dbt sources of a project declare them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(quarantine_app, name="quarantine")


@app.command()
def generate(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help=f"One of: {', '.join(datasets.DATASETS)}.")],
    to: Annotated[Path, typer.Option("--out", help="Folder to write bronze/, oracle/ and manifest.json to.")],
    scale: Annotated[float, typer.Option(help="1 is the original size.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed and scale give the same bytes.")] = 42,
    form: Annotated[datasets.Form, typer.Option(help="How Debezium writes the events.")] = "avro",
    phase: Annotated[datasets.Phase, typer.Option(help="The snapshot, the changes after it, or all of it.")] = "all",
    ends: Annotated[
        Optional[datetime],
        typer.Option(formats=["%Y-%m-%d"], help="Day of the last change; by default one in 2023."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Write an example database and its change events, as Debezium and a Kafka Connect sink would."""
    with (
        told_plainly(debug),
        Bars(
            TextColumn("{task.description:<24}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TimeElapsedColumn(),
            console=err,
        ) as progress,
    ):
        bars: dict[str, Any] = {}

        def show(step: str, done: int, total: int) -> None:
            if step not in bars:
                bars[step] = progress.add_task(step, total=total)
            progress.update(bars[step], completed=done, total=total)

        summary = datasets.generate(
            dataset,
            to,
            scale=scale,
            seed=seed,
            form=form,
            phase=phase,
            ends=ends.date() if ends else None,
            progress=show,
        )
    out.print(
        f"{summary.records:,} events in {summary.files} files below {to} "
        f"({summary.late:,} late, {summary.repeated:,} repeated)"
    )


# In the order in which `lake --help` lists them.
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
