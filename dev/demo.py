"""`make demo`: a database and its changes, landed and modelled from nothing, with what came of it in numbers.

Each step says the command that does the same by hand. All steps run in one process and one Spark session.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table as Grid

from dev import site
from dev.commands import Built, bar, run_dbt
from ingest.cli.landing import land_with_progress, landed_grid
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.datasets import generate
from ingest.errors import LakeError
from ingest.landing.table import Landed
from ingest.silver.table import SilverTable
from ingest.spark.session import open_session

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "tickit"
# All sales of TICKIT are of this year, whenever it is played: a microbatch model is told to look at it alone.
YEAR_OF_SALES = ("--event-time-start", "2008-01-01", "--event-time-end", "2009-01-01")
out = Console(width=None if sys.stdout.isatty() else 140)


class PeakMemory(threading.Thread):
    """The most memory that this process and its children (Spark's Java) held at a time, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._over = threading.Event()

    def run(self) -> None:
        """Looks twice a second until stopped."""
        me = psutil.Process()
        while not self._over.wait(0.5):
            held = 0
            for process in [me, *me.children(recursive=True)]:
                try:
                    held += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.peak = max(self.peak, held)

    def stop(self) -> int:
        """Ends the watch; the peak."""
        self._over.set()
        self.join()
        return self.peak


@dataclass(frozen=True)
class Demonstrated:
    """What the dbt commands of a demonstration did."""

    built: Built
    rebuilt: Built
    fresh: Built
    docs: Built

    @property
    def failed(self) -> list[str]:
        """What failed, and why."""
        return [told for done in (self.built, self.rebuilt, self.fresh, self.docs) for told in done.failed]


def main() -> int:
    """Runs the demonstration on a lake of its own; exit code 0 only when every step is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="1 is TICKIT's original size: 424,319 rows")
    scale = parser.parse_args().scale
    os.chdir(ROOT)
    home = Path(os.environ.setdefault("LAKE_HOME", ".lake"))
    try:
        begin_anew(home)
        shutil.rmtree(ROOT / "target", ignore_errors=True)
        return 1 if demonstrate(home, scale).failed else 0
    except LakeError as error:
        out.print(f"[bold red]error[/] {error.message}")
        return 1


def demonstrate(home: Path, scale: float) -> Demonstrated:
    """All steps, and what came of them.

    Raises
    ------
    LakeError
        A step could not be done.
    """
    watch = PeakMemory()
    watch.start()
    started = time.monotonic()
    ends = (datetime.now(UTC) - timedelta(days=1)).date()
    project = Project.load(ROOT)
    tables = load_source(project, SOURCE).tables

    def played(phase: str, number: int, made: str, landed: str, built: str) -> tuple[list[Landed], Built]:
        """A phase of the database's life, in three steps."""
        by_hand = f"lake generate {SOURCE} --out {home} --scale {scale:g} --ends {ends} --phase {phase}"
        _step(number, f"{made}: {by_hand}")
        _generate(home, scale, phase, ends)
        _step(number + 1, f"{landed}: lake ingest {SOURCE}")
        results = _land(project, tables)
        _step(number + 2, f"{built}: dbt build {' '.join(YEAR_OF_SALES)}")
        return results, run_dbt(["build", *YEAR_OF_SALES], out)

    first, built = played(
        "snapshot", 1, "the database and its snapshot", "land the snapshot", "models, seeds and tests"
    )
    second, rebuilt = played(
        "changes", 4, "five days of changes", "land the changes", "the marts again, now incremental"
    )
    _step(7, "freshness and documentation: dbt source freshness, dbt docs generate")
    done = Demonstrated(built, rebuilt, fresh=run_dbt(["source", "freshness"], out), docs=site.generate(out))
    rows = _rows(project, tables)
    marts = _mart_rows(project)
    out.rule("what came of it")
    out.print(_sources_grid(first, second, rows))
    out.print(_marts_grid(built, rebuilt, marts))
    passed = f"{built.passed} after the snapshot, {rebuilt.passed} after the changes"
    out.print(f"tests passed: {passed}; failed: {len(done.failed)}")
    for name in done.failed:
        out.print(f"[red]failed[/] {name}")
    minutes, seconds = divmod(time.monotonic() - started, 60)
    out.print(f"total: {minutes:.0f} min {seconds:.0f} s; peak memory {watch.stop() / 2**30:.1f} GiB")
    out.print(
        "where to look next:\n"
        "  source .venv/bin/activate\n"
        f"  lake status {SOURCE}                      what is landed, and what became of each event\n"
        '  lake sql "select * from lakehouse_sales.fct_sales where sale_id = 200"\n'
        "  dbt docs serve                          the documentation: sources, models, columns, lineage, exposures\n"
        "  docs/model/README.md                    how to add a source and a mart"
    )
    return done


def begin_anew(home: Path) -> None:
    """An empty lake: removes what an earlier demonstration left, and refuses a folder that is something else.

    A lone catalog is no lake yet: every dbt command that compiles (`make lint` too) leaves one.
    """
    held = {entry.name for entry in home.iterdir()} if home.is_dir() else set()
    if held - {"metastore"} and "manifest.json" not in held:
        raise LakeError(
            "this lake was not made by `make demo`",
            where=str(home.resolve()),
            expected="no folder, or one that an earlier `make demo` left",
            action="choose another one with LAKE_HOME, or remove it",
        )
    shutil.rmtree(home, ignore_errors=True)


def _step(number: int, text: str) -> None:
    out.print(f"\n[bold]{number}/7[/] {text}", highlight=False, soft_wrap=True)


def _generate(home: Path, scale: float, phase: Any, ends: Any) -> None:
    with bar("events", out) as (progress, task):
        done: dict[str, tuple[int, int]] = {}

        def show(topic: str, written: int, total: int) -> None:
            done[topic] = (written, total)
            progress.update(task, completed=sum(w for w, _ in done.values()), total=sum(t for _, t in done.values()))

        summary = generate(SOURCE, home, scale=scale, phase=phase, ends=ends, progress=show)
    out.print(f"{summary.records:,} events in {summary.files} files, {summary.late} late, {summary.repeated} repeated")


def _land(project: Project, tables: Any) -> list[Landed]:
    results = land_with_progress(project, tables)
    out.print(landed_grid(SOURCE, results))
    for landed in results:
        if landed.error:
            raise landed.error
    return results


def _rows(project: Project, tables: Any) -> dict[str, int]:
    spark = open_session(project)
    return {table.name: SilverTable.of(spark, table).read().where("__deleted = 'false'").count() for table in tables}


def _mart_rows(project: Project) -> dict[str, int]:
    """Rows of each mart, by the relations of dbt's manifest."""
    spark = open_session(project)
    manifest = json.loads((ROOT / "target" / "manifest.json").read_text(encoding="utf-8"))
    marts = [
        node for node in manifest["nodes"].values() if node["resource_type"] == "model" and node["fqn"][1] == "marts"
    ]
    return {
        node["name"]: spark.table(f"{node['schema']}.{node['alias']}").count()
        for node in sorted(marts, key=lambda node: str(node["name"]))
    }


def _sources_grid(first: Sequence[Landed], second: Sequence[Landed], rows: dict[str, int]) -> Grid:
    grid = Grid(title="source tables: events and live rows", title_justify="left")
    for name in ("table", "read", "applied", "superseded", "duplicate", "quarantined", "rows"):
        grid.add_column(name, justify="left" if name == "table" else "right")
    for before, after in zip(first, second, strict=True):
        counts = before.counts + after.counts
        told = (
            counts.read,
            counts.applied,
            counts.superseded,
            counts.duplicate,
            counts.quarantined,
            rows[before.table.name],
        )
        grid.add_row(before.table.name, *(f"{value:,}" for value in told))
    return grid


def _marts_grid(built: Built, rebuilt: Built, rows: dict[str, int]) -> Grid:
    grid = Grid(title="marts: rows and seconds", title_justify="left")
    for name in ("mart", "rows", "first build", "after the changes"):
        grid.add_column(name, justify="left" if name == "mart" else "right")
    for name, count in rows.items():
        grid.add_row(name, f"{count:,}", f"{built.seconds.get(name, 0):.1f}", f"{rebuilt.seconds.get(name, 0):.1f}")
    return grid


if __name__ == "__main__":
    sys.exit(main())
