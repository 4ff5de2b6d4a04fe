"""`make demo`: an example system, landed and modelled from nothing, with what came of it in numbers.

What is played, and with which arguments of dbt, stands in the system's `demo.yml`. Each step says the command that does
the same by hand. All steps run in one process and one Spark session.
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
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import psutil
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from dev import site
from dev.chain.aws import LAKE_BUCKET, environment_of, make_buckets
from dev.chain.processes import start, stop
from dev.chain.servers import local_athena
from dev.chain.settings import Settings
from dev.commands import Built, bar, begin_parsing, run_dbt
from dev.readers import AthenaReader, Reader, SparkReader
from examples import ExampleSystem, Phase, names, system
from examples.system import Demo, Look
from ingest.cli.landing import land_with_progress, landed_grid
from ingest.config.connections import FilesConnection
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.config.tables import Table
from ingest.errors import LakeError
from ingest.landing.table import Landed
from ingest.silver.state import Counts
from ingest.silver.table import SilverTable
from ingest.spark.session import open_session

ROOT = Path(__file__).resolve().parent.parent
_MOST_ROWS = 100
# In a lake that `make demo` began: the next one may remove it. Generated events alone do not say so, for `lake demo`
# and `lake generate` write them into anybody's lake, an empty one too.
BEGUN = "begun_by_a_demonstration"
# What may lie in the folder of a lake and is none of it: servers, main's manifest, the lake of a real chain.
BESIDE = {"servers", "state", "live"}
out = Console(width=None if sys.stdout.isatty() else 140)


class PeakMemory(threading.Thread):
    """The most memory that this process and its children (Spark's Java) held at a time, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._over = threading.Event()

    def run(self) -> None:
        """Looks twice a second until stopped.

        One that Java has just forked, to begin a command, has all of Java's memory for a moment: what was not there at
        the last look is not counted.
        """
        me = psutil.Process()
        before: set[psutil.Process] = set()
        while not self._over.wait(0.5):
            held, now = 0, {me, *me.children(recursive=True)}
            counted, before = now & before, now
            for process in counted:
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
    """What the dbt commands of a demonstration did, and what of its last look was not as expected."""

    built: Built
    rebuilt: Built
    fresh: Built
    docs: Built
    unexpected: list[str]

    @property
    def failed(self) -> list[str]:
        """What failed, and why; and what was asked at the end and came out otherwise than expected."""
        commands = (self.built, self.rebuilt, self.fresh, self.docs)
        return [told for done in commands for told in done.failed] + self.unexpected


def main() -> int:
    """Runs the demonstration on a lake of its own; exit code 0 only when every step is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", nargs="?", default="tickit", help=f"an example system: {', '.join(names())}")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is the system's original size")
    parser.add_argument("--beside", action="store_true", help="beside what the lake holds; else the lake begins empty")
    parser.add_argument("--target", default="dev", choices=("dev", "athena"), help="athena: on a local one, and S3")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ["LAKE_HOME"] = os.environ.get("LAKE_HOME") or ".lake"
    home = Path(os.environ["LAKE_HOME"])
    try:
        played = system(options.system)
        begin(home, played, is_beside=options.beside)
        if options.target == "athena":
            _stop_athena()
        reader = _begin_athena() if options.target == "athena" else None
        return 1 if demonstrate(home, played, options.scale, reader).failed else 0
    except LakeError as error:
        out.print(f"[bold red]error[/] {escape(error.message)}")
        return 1


def _stop_athena() -> None:
    """Stops the local Athena that an earlier demonstration has left, whose tables would be taken for this one's."""
    for server in reversed(local_athena(Settings.of_environment())):
        stop(server)


def _begin_athena() -> AthenaReader:
    """Starts a local Athena: from now on, the lake of this process is where it reads."""
    aws, trino, athena = local_athena(Settings.of_environment())
    for server in (aws, trino, athena):
        start(server)
        out.print(f"{server.name} is up at {server.address}", highlight=False)
    make_buckets(aws.address)
    os.environ.update(environment_of(aws.address, athena.address), LAKE_ROOT=f"s3://{LAKE_BUCKET}/silver")
    return AthenaReader(athena.address)


def demonstrate(home: Path, played: ExampleSystem, scale: float, athena: AthenaReader | None = None) -> Demonstrated:
    """All steps, and what came of them; dbt works on Athena where there is one.

    Raises
    ------
    LakeError
        A step could not be done.
    """
    watch = PeakMemory()
    watch.start()
    started = time.monotonic()
    ends = (datetime.now(UTC) - timedelta(days=1)).date()
    demo = played.demo
    project = Project.load(ROOT)
    tables = load_source(project, demo.source).tables
    to = folder_of(home, tables)
    steps = 3 * len(demo.phases) + 1
    # More threads than cores build nothing sooner: a model's seconds would be those of its neighbours too.
    target = ["--target", "athena"] if athena else []
    reader: Reader = athena or SparkReader(project)
    build = ["build", *target, "--threads", str(min(4, os.cpu_count() or 1)), *demo.build]
    landed, builds, parsing = [], [], begin_parsing(target)
    for number, phase in enumerate(demo.phases):
        by_hand = f"lake generate {played.name} --out {to} --scale {scale:g} --ends {ends} --phase {phase.phase}"
        _step(3 * number + 1, steps, f"{phase.generate}: {by_hand}")
        _generate(played, to, scale, phase.phase, ends)
        _step(3 * number + 2, steps, f"{phase.ingest}: lake ingest {demo.source}")
        landed.append(_land(project, demo.source, tables))
        parsing.wait()
        of_phase = build if phase.tests else [*build, "--exclude-resource-types", "test", "unit_test"]
        _step(3 * number + 3, steps, f"{phase.build}: dbt {' '.join(of_phase)}")
        builds.append(run_dbt(of_phase, out))
    freshness = ["source", "freshness", *target, "--select", f"source:{demo.source}"]
    _step(steps, steps, f"freshness and documentation: dbt {' '.join(freshness)}, dbt docs generate")
    fresh, docs = run_dbt(freshness, out), site.generate(out, where=target)
    rows = _rows(project, tables)
    marts = _mart_rows(reader, builds[0])
    out.rule("what came of it")
    out.print(_sources_grid(landed, rows))
    out.print(_marts_grid(builds[0], builds[-1], marts))
    unexpected = [told for look in demo.look for told in _looked(reader, look, compared=scale == demo.scale)]
    done = Demonstrated(builds[0], builds[-1], fresh, docs, unexpected)
    passed = ", ".join(
        f"{built.passed} after the {phase.phase}"
        for phase, built in zip(demo.phases, builds, strict=True)
        if phase.tests
    )
    out.print(f"tests passed: {passed}; failed: {len(done.failed)}")
    for name in done.failed:
        out.print(f"[red]failed[/] {escape(name)}")
    out.print(f"total: {duration(time.monotonic() - started)}; peak memory {watch.stop() / 2**30:.1f} GiB")
    _tell_where_to_look(demo, athena)
    return done


def _tell_where_to_look(demo: Demo, athena: AthenaReader | None) -> None:
    out.print("where to look next:\n  source .venv/bin/activate", markup=False)
    query = f'lake sql "{demo.look[0].query}"'
    if athena:
        query = f'dbt show --target athena --inline "{demo.look[0].query}"'
        # What the steps had set for this process alone.
        aws = local_athena(Settings.of_environment())[0].address
        for name in ("LAKE_HOME", "LAKE_ROOT", *environment_of(aws, athena.address)):
            out.print(f"  export {name}={os.environ[name]}", markup=False, highlight=False, soft_wrap=True)
    out.print(
        f"  lake status {demo.source:<28}what is landed, and what became of each event\n"
        f"  {query}\n"
        f"  dbt docs serve                          the documentation, at #!/model/model.lakehouse.{demo.docs}\n"
        "  docs/model/README.md                    how to add a source and a mart",
        markup=False,
        soft_wrap=True,
    )
    if athena:
        out.print(f"the local Athena stays at {athena.address} until `make down`", markup=False)


def duration(seconds: float) -> str:
    """Minutes and whole seconds, such as `6 min 5 s`; rounded first, for a minute has no 60 s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def begin(home: Path, played: ExampleSystem, *, is_beside: bool) -> None:
    """The lake to play on: one that stays as it is, or an empty one, without what dbt has made of another."""
    if is_beside:
        require_not_landed(played)
    else:
        begin_anew(home)
        shutil.rmtree(ROOT / "target", ignore_errors=True)


def begin_anew(home: Path) -> None:
    """An empty lake, which says whose it is: removes what an earlier demonstration left, and refuses a folder that is
    something else."""
    held = _held(home)
    if held and BEGUN not in held:
        raise LakeError(
            "this lake was not made by `make demo`",
            where=str(home.resolve()),
            expected="no folder, or one that an earlier `make demo` left",
            action="choose another one with LAKE_HOME, or remove it",
        )
    if home.is_dir():
        for entry in home.iterdir():
            if entry.is_dir() and entry.name not in BESIDE:
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name not in BESIDE:
                entry.unlink()
    home.mkdir(parents=True, exist_ok=True)
    (home / BEGUN).touch()


def _held(home: Path) -> set[str]:
    """What a lake has. What sessions leave is none yet: every dbt command that compiles has one (`make lint` too)."""
    return {entry.name for entry in home.iterdir()} - {"metastore", "resources"} - BESIDE if home.is_dir() else set()


def require_not_landed(played: ExampleSystem) -> None:
    """Refuses a system of which the lake has events already: nothing of a lake that is in use is removed.

    Raises
    ------
    LakeError
        There are events where the system's are to be written.
    """
    tables = load_source(Project.load(ROOT), played.demo.source).tables
    bronze = _bronze(tables)
    if bronze.exists():
        raise LakeError(
            f"{played.name} is in this lake already",
            where=str(bronze),
            expected=f"no events of {played.name}",
            action="choose another lake with LAKE_HOME",
        )


def folder_of(home: Path, tables: Sequence[Table]) -> Path:
    """Where a system's events are generated: its connection reads the folder `bronze` there."""
    return home if _bronze(tables).parent.resolve() == home.resolve() else _bronze(tables).parent


def _bronze(tables: Sequence[Table]) -> Path:
    (path,) = {Path(table.connection.path) for table in tables if isinstance(table.connection, FilesConnection)}
    return path


def _step(number: int, steps: int, text: str) -> None:
    out.print(f"\n[bold]{number}/{steps}[/] {text}", highlight=False, soft_wrap=True)


def _generate(played: ExampleSystem, to: Path, scale: float, phase: Phase, ends: date) -> None:
    with bar("events", out) as (progress, task):
        done: dict[str, tuple[int, int]] = {}

        def show(topic: str, written: int, total: int) -> None:
            done[topic] = (written, total)
            progress.update(task, completed=sum(w for w, _ in done.values()), total=sum(t for _, t in done.values()))

        summary = played.generate(to, scale=scale, phase=phase, ends=ends, progress=show)
    out.print(f"{summary.records:,} events in {summary.files} files, {summary.late} late, {summary.repeated} repeated")


def _land(project: Project, source: str, tables: Sequence[Table]) -> list[Landed]:
    results = land_with_progress(project, tables)
    out.print(landed_grid(source, results))
    for landed in results:
        if landed.error:
            raise landed.error
    return results


def _looked(reader: Reader, look: Look, *, compared: bool) -> list[str]:
    """Shows what a query gives beside what it is expected to; what is otherwise."""
    found = reader.rows(look.query, _MOST_ROWS)
    # Above the grid, which may be narrow: a title is broken where its grid ends.
    out.print(look.title, style="italic", markup=False)
    out.print(look.query, markup=False, soft_wrap=True)
    grid = Grid()
    names = list(found[0]) if found else list(look.expects[0]) if look.expects else ["no rows"]
    expected = list(look.expects) if compared else []
    for name in (*names, *(["expected"] if expected else [])):
        grid.add_column(name)
    for number, row in enumerate(found):
        as_expected = number < len(expected) and row == expected[number]
        told = "as it is" if as_expected else str(expected[number]) if number < len(expected) else "no such row"
        grid.add_row(*(str(row.get(name)) for name in names), *([escape(told)] if expected else []))
    out.print(grid)
    if not expected or found == expected:
        return []
    return [f"{look.title}: {found}, expected {expected}"]


def _rows(project: Project, tables: Sequence[Table]) -> dict[str, int]:
    spark = open_session(project)
    return {table.name: SilverTable.of(spark, table).read().where("__deleted = 'false'").count() for table in tables}


def _mart_rows(reader: Reader, built: Built) -> dict[str, int]:
    """Rows of each mart that was built, by the relations of dbt's manifest."""
    manifest = json.loads((ROOT / "target" / "manifest.json").read_text(encoding="utf-8"))
    nodes = [manifest["nodes"][unique_id] for unique_id in built.ids if unique_id in manifest["nodes"]]
    marts = [node for node in nodes if node["resource_type"] == "model" and node["fqn"][1] == "marts"]
    return {
        node["name"]: int(
            str(reader.rows(f"select count(*) as row_count from {node['schema']}.{node['alias']}", 1)[0]["row_count"])
        )
        for node in sorted(marts, key=lambda node: str(node["name"]))
    }


def _sources_grid(phases: Sequence[Sequence[Landed]], rows: dict[str, int]) -> Grid:
    grid = Grid(title="source tables: events and live rows", title_justify="left")
    for name in ("table", "read", "applied", "superseded", "duplicate", "ignored", "quarantined", "rows"):
        grid.add_column(name, justify="left" if name == "table" else "right")
    for landed in zip(*phases, strict=True):
        counts = sum((each.counts for each in landed), Counts())
        name = landed[0].table.name
        shown = (
            counts.read,
            counts.applied,
            counts.superseded,
            counts.duplicate,
            counts.ignored,
            counts.quarantined,
            rows[name],
        )
        grid.add_row(name, *(f"{value:,}" for value in shown))
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
