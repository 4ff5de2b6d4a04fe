"""Commands that land change events, or make ready for them: `ingest`, `serve` and `prepare`."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Annotated, Any, Optional

import typer
from pyspark.sql import SparkSession
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table as Grid

from ingest.cli.console import done_to_each, err, errors_as_messages, out, print_error, show_rows
from ingest.cli.metrics import served
from ingest.cli.options import (
    AsJson,
    Debug,
    MetricsPort,
    ProfilesDir,
    ProjectDir,
    SourceName,
    Tables,
    Target,
    Workers,
    chosen_tables,
    names_of,
)
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.config.tables import Table
from ingest.errors import InputError, LakeError, QuarantineError
from ingest.landing.continuous import Continuous, Progress
from ingest.landing.run import STAGES, land
from ingest.landing.table import Landed
from ingest.operations.prepare import prepare as prepare_table
from ingest.silver.state import Counts
from ingest.spark.session import long_running, open_session
from ingest.spark.thrift import require_free, server_settings, serving


def ingest(
    source: SourceName,
    tables: Tables = None,
    continuous: Annotated[
        bool, typer.Option("--continuous/--once", help="Go on until stopped: each table as soon as there are events.")
    ] = False,
    workers: Workers = 4,
    metrics_port: MetricsPort = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="JSON instead of a table; with --continuous a line for each batch."),
    ] = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Land what is new in a source, once or for as long as it runs. Exit code 0 only when every table is well."""
    with errors_as_messages(debug):
        if metrics_port is not None and not continuous:
            raise InputError("nothing would answer", where="--metrics-port", expected="--continuous beside it")
        project = Project.load(project_dir, profiles_dir, target)
        chosen = load_source(project, source).landed_together(names_of(tables))
        if continuous:
            err.print("starting Spark")
            run = _continuous(open_session(project, long_running(project)), chosen, workers, as_json=as_json)
            with _signalled() as stop, _measured(run, metrics_port):
                well = _land_continuously(run, stop, as_json=as_json)
            raise typer.Exit(0 if well else 1)
        results = land_with_progress(project, chosen, workers=workers)
    if as_json:
        print(json.dumps([landed_json(landed) for landed in results], indent=2))
    else:
        out.print(landed_grid(source, results))
    failed = [landed for landed in results if landed.error]
    for landed in failed:
        assert landed.error is not None
        print_error(landed.error.message)
    if any(landed.counts.quarantined for landed in results):
        err.print(f"[yellow]quarantined events: see[/] lake quarantine ls {source}")
    for landed in results:
        if landed.waiting:
            err.print(f"{landed.waiting:,} events of {landed.table.name} wait: {escape(landed.waits_for)}")
    if failed:
        raise typer.Exit(1)


def serve(
    ingested: Annotated[
        Optional[str], typer.Option("--ingest", metavar="SOURCE", help="Land this source continuously as well.")
    ] = None,
    port: Annotated[
        int, typer.Option(min=1, max=65535, envvar="LAKE_THRIFT_PORT", help="Where to listen, on loopback.")
    ] = 10010,
    workers: Workers = 4,
    metrics_port: MetricsPort = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --ingest: a JSON line for each batch.")] = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Serve the lake to dbt (target thrift), beeline, PyHive and BI tools, until stopped: Spark's Thrift server."""
    with errors_as_messages(debug):
        if not ingested and (metrics_port is not None or as_json):
            option = "--json" if as_json else "--metrics-port"
            raise InputError("nothing is landed", where=option, expected="--ingest SOURCE beside it")
        project = Project.load(project_dir, profiles_dir, target)
        tables = load_source(project, ingested).tables if ingested else ()
        require_free(port)
        err.print("starting Spark")
        spark = open_session(project, {**long_running(project), **server_settings(port)})
        run = _continuous(spark, tables, workers, as_json=as_json) if ingested else None
        # Readers are served on where every table has failed, and the metrics say that it has.
        with _signalled() as stop, serving(spark, port) as address, _measured(run, metrics_port):
            err.print(f"serving: dbt --target thrift, beeline -u jdbc:hive2://{address}")
            well = run is None or _land_continuously(run, stop, as_json=as_json)
            stop.wait()
        raise typer.Exit(0 if well else 1)


def prepare(
    source: SourceName,
    tables: Tables = None,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Make the empty tables of a source that is not landed yet, so that dbt can build what reads them."""
    with errors_as_messages(debug):
        project, chosen = chosen_tables(project_dir, profiles_dir, target, source, tables)
        spark = open_session(project)
        rows = done_to_each(chosen, "made", lambda table: prepare_table(spark, table), otherwise=False)
    show_rows(rows, ("table", "made"), as_json, nothing="no table is declared")
    if any(row["error"] for row in rows):
        raise typer.Exit(1)


@contextmanager
def _signalled() -> Iterator[threading.Event]:
    """What is set once a signal asks this process to end."""
    asked = threading.Event()
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _continuous(spark: SparkSession, tables: Sequence[Table], workers: int, *, as_json: bool) -> Continuous:
    """A run that lands these tables for as long as it is not stopped, and tells of each batch and each error."""
    shown = threading.Lock()
    known: dict[str, LakeError | None] = {}

    def show(progress: Progress) -> None:
        with shown:
            if as_json:
                print(json.dumps(progress.as_event()), flush=True)
            elif progress.error and progress.error is not known.get(progress.table.name):
                print_error(progress.error.message)
            known[progress.table.name] = progress.error

    return Continuous(spark, tables, on_progress=show, workers=workers)


@contextmanager
def _measured(run: Continuous | None, metrics_port: int | None) -> Iterator[None]:
    """The metrics of a run are served until the block ends, where a port is given."""
    if run is None or metrics_port is None:
        yield
        return
    with served(metrics_port, lambda: run.progress) as port:
        err.print(f"metrics: http://127.0.0.1:{port}/metrics")
        yield


def _land_continuously(run: Continuous, stop: threading.Event, *, as_json: bool) -> bool:
    """Lands until it is to stop, or every table has failed; whether every table is well then."""
    with ExitStack() as stack:
        working = stack.enter_context(ThreadPoolExecutor(max_workers=1)).submit(run.run)
        view = stack.enter_context(Live(console=err, auto_refresh=False)) if not as_json and err.is_terminal else None
        while not working.done():
            if stop.is_set():
                run.stop()
            wait([working], timeout=0.25)
            if view:
                view.update(_continuous_grid(list(run.progress.values())), refresh=True)
        working.result()
    for progress in run.failed:
        assert progress.error is not None
        print_error(progress.error.message)
    return not run.failed


def _continuous_grid(every: Sequence[Progress]) -> Grid:
    """How each table of a source is doing, now."""
    grid = Grid(title=every[0].table.source, title_justify="left")
    grid.add_column("table")
    for name in ("batches", *Counts.__dataclass_fields__, "last batch", "seconds", "ago"):
        grid.add_column(name, justify="right")
    grid.add_column("state")
    for item in every:
        counts = [f"{value:,}" for value in asdict(item.totals).values()]
        last = (f"{item.last.taken:,} {item.unit}", f"{item.last.seconds:.1f}") if item.last else ("-", "-")
        ago = f"{time.time() - item.committed_at:.0f} s" if item.committed_at else "-"
        state = f"[red]{item.state}" if item.error else item.state
        grid.add_row(item.table.name, f"{item.batches:,}", *counts, *last, ago, state)
    return grid


def land_with_progress(project: Project, tables: Sequence[Table], *, workers: int = 4) -> list[Landed]:
    """`land`, with a bar per table on standard error."""
    columns = (
        TextColumn("{task.description:<16}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[stage]:<30}"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=err) as progress:
        starting = progress.add_task("Spark", total=1, stage="starting")
        spark = open_session(project)
        progress.update(starting, completed=1, stage="ready")
        bars = {table.name: progress.add_task(table.name, total=len(STAGES) - 1, stage="waiting") for table in tables}

        def show(table: str, stage: str, detail: str) -> None:
            progress.update(bars[table], completed=STAGES.index(stage), stage=f"{stage} {detail}"[:30])

        return land(spark, tables, workers=workers, progress=show)


def landed_grid(title: str, results: Sequence[Landed]) -> Grid:
    """The counts of a run, a row a table."""
    grid = Grid(title=title, title_justify="left")
    grid.add_column("table")
    for name in ("input", *Counts.__dataclass_fields__, "seconds"):
        grid.add_column(name, justify="right")
    grid.add_column("state")
    for landed in results:
        state = "landed" if landed.taken else "nothing new"
        if landed.error:
            state = "[red]unwell" if isinstance(landed.error, QuarantineError) else "[red]failed"
        counts = [f"{value:,}" for value in asdict(landed.counts).values()]
        grid.add_row(landed.table.name, f"{landed.taken:,} {landed.unit}", *counts, f"{landed.seconds:.1f}", state)
    return grid


def landed_json(landed: Landed) -> dict[str, Any]:
    """What a run did to a table, as `--json` gives it."""
    return {
        "table": landed.table.name,
        "taken": landed.taken,
        "unit": landed.unit,
        **asdict(landed.counts),
        "waiting": landed.waiting,
        "waits_for": landed.waits_for or None,
        "seconds": round(landed.seconds, 3),
        "error": landed.error.message if landed.error else None,
    }
