"""The command `lake`. Each command reads its options, calls the library and shows what came of it; nothing else."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table as Grid

from ingest.cli import examples
from ingest.cli.metrics import served
from ingest.config.project import Project
from ingest.config.sources_file import Source, load_source, load_sources
from ingest.config.tables import Table
from ingest.errors import DeclarationError, InputError, LakeError, QuarantineError
from ingest.landing.backlog import pending_of
from ingest.landing.continuous import Continuous, Progress
from ingest.landing.failures import failures
from ingest.landing.run import STAGES, land
from ingest.landing.table import Landed
from ingest.landing.transactions import is_consistent, newest_cut
from ingest.landing.transactions import release as release_transaction
from ingest.operations.erase import erase, parse_key
from ingest.operations.plan import PendingPlan, pending_plan
from ingest.operations.position import set_position
from ingest.operations.purge import purge
from ingest.operations.reconcile import KINDS, Reconciled
from ingest.operations.reconcile import reconcile as reconcile_table
from ingest.operations.replay import replay
from ingest.schema.evolution import renames
from ingest.silver import quarantine
from ingest.silver.state import Counts
from ingest.silver.table import SilverTable
from ingest.spark.jvm import root_cause
from ingest.spark.session import lasting, open_session
from ingest.spark.thrift import require_free, server_settings, serving

app = typer.Typer(
    name="lake",
    help="Lands database changes captured by Debezium as Hudi tables, as the dbt sources of a project declare them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
quarantine_app = typer.Typer(help="Events that could not be applied.", no_args_is_help=True)
app.add_typer(quarantine_app, name="quarantine")

# Where nobody watches, such as a log, tables are wide rather than cut.
_WIDE = None if "COLUMNS" in os.environ else 240
out = Console(width=None if sys.stdout.isatty() else _WIDE)
err = Console(stderr=True, width=None if sys.stderr.isatty() else _WIDE)


class PositionTo(StrEnum):
    """Where `lake position` may put a table."""

    earliest = "earliest"
    latest = "latest"


SourceName = Annotated[str, typer.Argument(metavar="SOURCE", help="A dbt source with config.meta.ingest.")]
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


def _tell_error(message: str) -> None:
    """An error on standard error, in lines of its own making."""
    err.print(f"[bold red]error[/] {escape(message)}", soft_wrap=True)


@contextmanager
def told_plainly(debug: bool = False) -> Iterator[None]:
    """Turns an error of this project, or one of Spark's, into its message and exit code 1."""
    if not sys.stdout.isatty():
        # A pipe has no width of its own: wide enough for the tables.
        os.environ.setdefault("COLUMNS", "140")
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, stream=sys.stderr)
    for noisy in ("py4j", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        yield
    except LakeError as error:
        if debug:
            raise
        for each in error.each:
            _tell_error(each.message)
        raise typer.Exit(1) from error
    except (PySparkException, Py4JJavaError) as error:
        if debug:
            raise
        _tell_error(root_cause(error))
        raise typer.Exit(1) from error


app.command()(examples.generate)
app.command()(examples.demo)


@app.command()
def ingest(
    source: SourceName,
    tables: Tables = None,
    continuous: Annotated[
        bool, typer.Option("--continuous/--once", help="Go on until stopped: each table as soon as there are events.")
    ] = False,
    workers: Workers = 4,
    metrics_port: MetricsPort = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON instead of a table; with --continuous a line for each news.")
    ] = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Land what is new in a source, once or for as long as it runs. Exit code 0 only when every table is well."""
    with told_plainly(debug):
        project = Project.load(project_dir, profiles_dir, target)
        chosen = load_source(project, source).landed_together(_names(tables))
        if continuous:
            err.print("starting Spark")
            spark = open_session(project, lasting(project))
            with _signalled() as stop:
                well = _land_continuously(spark, chosen, stop, workers, metrics_port=metrics_port, as_json=as_json)
            raise typer.Exit(0 if well else 1)
        results = land_with_progress(project, chosen, workers=workers)
    if as_json:
        print(json.dumps([_landed_json(landed) for landed in results], indent=2))
    else:
        out.print(landed_grid(source, results))
    failed = [landed for landed in results if landed.error]
    for landed in failed:
        assert landed.error is not None
        _tell_error(landed.error.message)
    if any(landed.counts.quarantined for landed in results):
        err.print(f"[yellow]quarantined events: see[/] lake quarantine ls {source}")
    for landed in results:
        if landed.waiting:
            err.print(f"{landed.waiting:,} events of {landed.table.name} wait: {escape(landed.waits_for)}")
    if failed:
        raise typer.Exit(1)


@app.command()
def serve(
    ingested: Annotated[
        Optional[str], typer.Option("--ingest", metavar="SOURCE", help="Land this source continuously as well.")
    ] = None,
    port: Annotated[
        int, typer.Option(min=1, max=65535, envvar="LAKE_THRIFT_PORT", help="Where to listen, on loopback.")
    ] = 10010,
    workers: Workers = 4,
    metrics_port: MetricsPort = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --ingest: a JSON line for each news.")] = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Serve the lake to dbt (target thrift), beeline, PyHive and BI tools, until stopped: Spark's Thrift server."""
    with told_plainly(debug):
        project = Project.load(project_dir, profiles_dir, target)
        tables = load_source(project, ingested).tables if ingested else ()
        require_free(port)
        err.print("starting Spark")
        spark = open_session(project, {**lasting(project), **server_settings(port)})
        with _signalled() as stop, serving(spark, port) as address:
            err.print(f"serving: dbt --target thrift, beeline -u jdbc:hive2://{address}")
            well = not tables or _land_continuously(
                spark, tables, stop, workers, metrics_port=metrics_port, as_json=as_json
            )
            stop.wait()
        raise typer.Exit(0 if well else 1)


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


def _land_continuously(
    spark: SparkSession,
    tables: Sequence[Table],
    stop: threading.Event,
    workers: int,
    *,
    metrics_port: int | None,
    as_json: bool,
) -> bool:
    """Lands until it is to stop, or every table has failed; whether every table is well then."""
    shown = threading.Lock()
    known: dict[str, LakeError | None] = {}

    def told(progress: Progress) -> None:
        with shown:
            if as_json:
                print(json.dumps(progress.as_event()), flush=True)
            elif progress.error and progress.error is not known.get(progress.table.name):
                _tell_error(progress.error.message)
            known[progress.table.name] = progress.error

    run = Continuous(spark, tables, told=told, workers=workers)
    with ExitStack() as stack:
        if metrics_port is not None:
            port = stack.enter_context(served(metrics_port, lambda: run.progress))
            err.print(f"metrics: http://127.0.0.1:{port}/metrics")
        working = stack.enter_context(ThreadPoolExecutor(max_workers=1)).submit(run.run)
        view = stack.enter_context(Live(console=err, auto_refresh=False)) if not as_json and err.is_terminal else None
        while not working.done():
            if stop.is_set():
                run.stop()
            wait([working], timeout=0.25)
            if view:
                view.update(_continuous_grid(tables[0].source, run.progress.values()), refresh=True)
        working.result()
    for progress in run.failed:
        assert progress.error is not None
        _tell_error(progress.error.message)
    return not run.failed


def _continuous_grid(title: str, every: Iterable[Progress]) -> Grid:
    """How each table is doing, now."""
    grid = Grid(title=title, title_justify="left")
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


@app.command()
def check(
    source: SourceName,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Check a source's declaration and its connections. Writes nothing."""
    failures = 0
    with told_plainly(debug):
        project = Project.load(project_dir, profiles_dir, target)
        declared = load_source(project, source)
        out.print(f"declaration {declared.file}: {len(declared.tables)} tables, well")
        spark = open_session(project)
        for table in declared.tables:
            try:
                pending = pending_of(spark, table, None)
                out.print(f"{table.name}: {table.options.topic}, {pending.waiting:,} {pending.unit} of events")
            except LakeError as error:
                failures += 1
                _tell_error(error.message)
    if failures:
        raise typer.Exit(1)


@app.command("plan")
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
    with told_plainly(debug):
        project = Project.load(project_dir, profiles_dir, target)
        chosen = load_source(project, source).choose(_names(tables))
        spark = open_session(project)
        documents = [_planned_json(pending_plan(spark, table)) for table in chosen]
    if as_json:
        print(json.dumps(documents, indent=2))
    else:
        out.print(_planned_grid(source, documents))
    for document in documents:
        if document["error"]:
            _tell_error(document["error"])
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
            rows.append(("-", "the input is not whole", "-", "fail"))
        size = "-" if document["bytes"] is None else f"{document['bytes']:,}"
        start = (document["table"], f"{document['waiting']:,} {document['unit']}", size)
        for number, row in enumerate(rows or [("-", "none", "-", "-")]):
            grid.add_row(*(start if number == 0 else ("", "", "")), *(escape(text) for text in row))
    return grid


@app.command()
def status(
    source: Annotated[Optional[str], typer.Argument(metavar="SOURCE", help="By default every source.")] = None,
    as_json: AsJson = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Show per table what is landed, what waits, and what became of the events. Exit code 1 where a table is unwell."""
    with told_plainly(debug):
        project = Project.load(project_dir, profiles_dir, target)
        sources = [load_source(project, source)] if source else list(load_sources(project).values())
        spark = open_session(project)
        rows = [
            _status(spark, table, failing.get(table.name))
            for found in sources
            for failing in [_failing(spark, found)]
            for table in found.tables
        ]
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        grid = Grid()
        for name in (
            "table",
            "last commit",
            "live",
            "deleted",
            "landed",
            "waiting",
            *Counts.__dataclass_fields__,
            "state",
        ):
            grid.add_column(
                name, justify="left" if name in ("table", "last commit", "state") else "right", overflow="fold"
            )
        for row in rows:
            counts = [f"{value:,}" for value in row["totals"].values()]
            grid.add_row(
                f"{row['source']}.{row['table']}",
                row["last_commit"] or "-",
                *(f"{row[name]:,}" for name in ("live_rows", "deleted_rows")),
                *(f"{row[name]:,} {row['unit']}" for name in ("landed", "waiting")),
                *counts,
                row["state"],
            )
        out.print(grid)
    for row in rows:
        if row["error"]:
            _tell_error(row["error"])
    if any(row["error"] for row in rows):
        raise typer.Exit(1)


@app.command()
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
    with told_plainly(debug):
        project = Project.load(project_dir, profiles_dir, target)
        chosen = load_source(project, source).choose(_names(tables))
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
            _tell_error(result.error.message)
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


@app.command()
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
    with told_plainly(debug):
        project = Project.load(project_dir, profiles_dir, target)
        result = open_session(project).sql(query)
        rows = result.take(limit + 1)
    shown = rows[:limit]
    if as_json:
        print(json.dumps([row.asDict(recursive=True) for row in shown], default=str, indent=2))
        return
    grid = Grid()
    for name in result.columns:
        grid.add_column(escape(name), overflow="fold")
    for row in shown:
        grid.add_row(*(escape("null" if value is None else str(value)) for value in row))
    out.print(grid)
    if len(rows) > limit:
        err.print(f"the first {limit} rows; more with --limit")


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
    with told_plainly(debug):
        events = _quarantine(project_dir, profiles_dir, target, source)
        rows = (
            events.groupBy("source_table", "topic", "reason_code", "reason")
            .agg(
                F.count("*").alias("events"),
                F.min(F.struct("partition", "offset")).alias("first"),
                F.max("quarantined_at").cast("string").alias("last_at"),
            )
            .select("*", "first.partition", "first.offset")
            .orderBy("source_table", F.col("events").desc())
            .collect()
            if events is not None
            else []
        )
    names = ("source_table", "topic", "partition", "offset", "reason_code", "reason", "events", "last_at")
    _show_rows([{name: row[name] for name in names} for row in rows], names, as_json)


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
    chosen_tables = _names(tables)
    with told_plainly(debug):
        events = _quarantine(project_dir, profiles_dir, target, source)
        rows = []
        if events is not None:
            chosen = events.where(F.col("source_table").isin(chosen_tables)) if chosen_tables else events
            rows = (
                chosen.withColumns({name: F.decode(name, "UTF-8") for name in ("record_key", "raw")})
                .orderBy("source_table", "topic", "partition", "offset", "file", "line")
                .limit(limit)
                .collect()
            )
    place = ("source_table", "topic", "partition", "offset", "file", "line")
    names = (*place, "reason_code", "reason", "record_key", "raw")
    _show_rows([{name: row[name] for name in names} for row in rows], names, as_json)


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
    """Apply quarantined events again, once what was wrong is mended. Those that still cannot be applied stay."""
    with told_plainly(debug):
        project = Project.load(project_dir, profiles_dir, target)
        chosen = load_source(project, source).choose(_names(tables))
        spark = open_session(project)
        results = []
        for table in chosen:
            err.print(f"{table.name}: replaying")
            results.append(replay(spark, table))
    _show_rows(
        [_landed_json(landed) for landed in results if landed.counts.read],
        ("table", *Counts.__dataclass_fields__),
        as_json,
    )
    if any(landed.counts.quarantined for landed in results):
        raise typer.Exit(1)


@app.command("purge")
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
    with told_plainly(debug):
        project = Project.load(project_dir, profiles_dir, target)
        chosen = load_source(project, source).choose(_names(tables))
        if not tables:
            chosen = tuple(table for table in chosen if table.options.deletes == "hard")
        spark = open_session(project)
        rows = [{"table": table.name, "purged": purge(spark, table)} for table in chosen]
    _show_rows(rows, ("table", "purged"), as_json, nothing="no table declares deletes: hard")


@app.command("position")
def position_to(
    source: SourceName,
    to: Annotated[PositionTo, typer.Option("--to", help="earliest: land everything again; latest: skip what waits.")],
    tables: Annotated[str, typer.Option("--tables", help="These tables, separated by commas.")],
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    debug: Debug = False,
) -> None:
    """Decide where a table goes on. Events that are landed again are known by their positions and do no harm."""
    with told_plainly(debug):
        project = Project.load(project_dir, profiles_dir, target)
        chosen = load_source(project, source).choose(_names(tables))
        spark = open_session(project)
        for table in chosen:
            pending = set_position(spark, table, to_latest=to is PositionTo.latest)
            out.print(f"{table.name}: goes on from {to.value}, {pending.waiting:,} {pending.unit} wait")


@app.command("cut")
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
    with told_plainly(debug):
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
    _show_rows(rows, ("table", "instant", "read"), as_json, nothing="no cut yet: every table must have been landed")


@app.command("erase")
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
    with told_plainly(debug):
        lines = [*(key or []), *(keys.read_text(encoding="utf-8").splitlines() if keys else [])]
        project = Project.load(project_dir, profiles_dir, target)
        (chosen,) = load_source(project, source).choose([table])
        parsed = [parse_key(chosen, line) for line in lines if line.strip()]
        if not parsed:
            raise InputError("names no key", where="--key, --keys", expected="one key at least")
        erasure = erase(open_session(project), chosen, parsed)
    rows = [
        {"table": place.name.replace("`", ""), **asdict(place), "holding": list(place.holding)}
        for place in erasure.places
    ]
    if as_json:
        told = {"keys": erasure.keys, "unsearched_events": erasure.unsearched, "waiting": erasure.waiting}
        print(json.dumps({**told, "places": rows}, indent=2))
    else:
        _show_rows(rows, ("table", "rows", "files", "others", "holding"), False, nothing="")
        if erasure.unsearched:
            out.print(f"{erasure.unsearched} quarantined events could not be searched: their key cannot be told")
        if erasure.waiting:
            out.print(f"{erasure.waiting:,} {erasure.unit} of events wait: what they say of the keys will be landed")
    if erasure.holding:
        _tell_error(f"{len(erasure.holding)} files still hold a key: {', '.join(erasure.holding[:5])}")
        raise typer.Exit(1)


def _quarantine(project_dir: Path | None, profiles_dir: Path | None, target: str | None, source: str) -> Any:
    project = Project.load(project_dir, profiles_dir, target)
    declared: Source = load_source(project, source)
    return quarantine.events(open_session(project), declared)


def _show_rows(
    rows: Sequence[dict[str, Any]], names: Sequence[str], as_json: bool, nothing: str = "nothing is quarantined"
) -> None:
    if as_json:
        print(json.dumps(list(rows), default=str, indent=2))
        return
    if not rows:
        out.print(nothing)
        return
    grid = Grid(show_lines=True)
    for name in names:
        grid.add_column(name, overflow="fold")
    for row in rows:
        grid.add_row(*(escape(str(row[name])) for name in names))
    out.print(grid)


def _failing(spark: SparkSession, source: Source) -> dict[str, str]:
    """Why the last run of some tables failed, by their names."""
    known = failures(source.schema).read(spark)
    return {} if known is None else {row["source_table"]: row["message"] for row in known.collect()}


def _status(spark: SparkSession, table: Table, failed: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "source": table.source,
        "table": table.name,
        "last_commit": None,
        "live_rows": 0,
        "deleted_rows": 0,
        "landed": 0,
        "waiting": 0,
        "unit": "",
        "last": asdict(Counts()),
        "totals": asdict(Counts()),
        "state": "not landed yet",
        "error": None,
    }
    try:
        # Looking must not make the schema, which SilverTable.of would.
        silver = SilverTable.of(spark, table) if spark.catalog.databaseExists(table.schema) else None
        state = silver.state() if silver else None
        pending = pending_of(spark, table, state.position if state else None)
        row |= {"landed": pending.landed, "waiting": pending.waiting, "unit": pending.unit}
        if silver and state:
            counted = {
                item["__deleted"]: item["count"] for item in silver.read().groupBy("__deleted").count().collect()
            }
            row |= {
                "last_commit": state.instant,
                "live_rows": counted.get("false", 0),
                "deleted_rows": counted.get("true", 0),
                "last": asdict(state.counts),
                "totals": asdict(state.totals),
                "state": "behind" if row["waiting"] else "up to date",
            }
        if failed:
            row |= {"state": "failed", "error": failed}
    except LakeError as error:
        row |= {"state": "failed", "error": error.message}
    return row


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _landed_json(landed: Landed) -> dict[str, Any]:
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
