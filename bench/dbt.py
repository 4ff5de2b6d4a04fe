"""What dbt on Hudi costs: a build against its statements, an increment against a full refresh, a slim build against a
whole one, and a small model at all.

TICKIT at a scale is landed, served by a Thrift server in this process, and built through it. Then, on the warm server:

- round by round each mart of a copy of the project, one at a time, changes its text and is built as `make slim` does,
  beside main's tables, then alone, with its tests and from nothing, which is the least that a slim build can take; then
  everything is built from nothing;
- everything is built once more, in one thread: the whole against the statements that it sent;
- round by round rows of `sale` change and are landed; each incremental mart runs as it is, then with --full-refresh;
- a model of ten rows runs, as a table and as a merge.

    python -m bench.dbt --changes 1000
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table as Grid

from bench.lake import lake_of_its_own
from bench.updates import landed
from ci.slim import Slim
from dev.chain.processes import free_port
from dev.commands import Built, run_dbt
from examples import generate
from ingest.config.connections import FilesConnection
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.config.tables import Table
from ingest.spark.session import long_running, open_session
from ingest.spark.thrift import server_settings, serving

ROOT = Path(__file__).resolve().parent.parent
# What makes the dbt project.
PARTS = ("*.yml", "models", "macros", "seeds", "analyses", "tests", "profiles", "dbt_packages")
INCREMENTAL = ("--select", "config.materialized:incremental")
SERVED = ("--target", "thrift")
BEHIND = 10**10
TEN_ROWS = "select id, {} as value from range(10) as numbers(id)"
out = Console(width=None if Console().is_terminal else 140, highlight=False)


def main() -> None:
    """Prints seconds of both sides of each comparison, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--changes", type=int, default=1000, help="Rows of sale that change in each round.")
    parser.add_argument(
        "--rounds", type=int, default=4, help="Of slim builds and of increments, after one of each for warming up."
    )
    parser.add_argument("--newest", action="store_true", help="The sales of the last days change, not random ones.")
    parser.add_argument("--increments-only", action="store_true", help="Increments against full refreshes alone.")
    options = parser.parse_args()
    port = free_port()
    os.environ["LAKE_THRIFT_PORT"] = str(port)
    # A microbatch model makes one batch, that of the year which the sales are of, and not one for each year since.
    os.environ |= {"DBT_EVENT_TIME_START": "2008-01-01", "DBT_EVENT_TIME_END": "2009-01-01"}
    with lake_of_its_own() as home:
        generate("tickit", home, scale=options.scale, form="json", phase="snapshot")
        project = Project.load(ROOT)
        spark = open_session(project, {**long_running(project), **server_settings(port)})
        with serving(spark, port):
            _measure(spark, project, home, options)
        spark.stop()


def _measure(spark: SparkSession, project: Project, home: Path, options: argparse.Namespace) -> None:
    tables = load_source(project, "tickit").tables
    for table in tables:
        landed(spark, table)
    copy = home / "project"
    copy.mkdir()
    for path in (path for part in PARTS for path in ROOT.glob(part)):
        shutil.copytree(path, copy / path.name) if path.is_dir() else shutil.copy(path, copy)
    os.chdir(copy)
    _timed(["build", "--full-refresh"])
    (sale,) = (table for table in tables if table.name == "sale")
    if options.increments_only:
        out.print(_increments(spark, sale, options))
        return
    state = home / "state"
    state.mkdir()
    shutil.copy(copy / "target" / "manifest.json", state)
    # Before anything changes in silver: neither of them reads log files.
    out.print(_slim_builds(copy, state, options.rounds))
    built, alone = _timed(["build", "--full-refresh", "--threads", "1"])
    out.print(
        f"dbt build in one thread: {alone:.1f} s, its {built.statements:,} statements {built.in_statements:.1f} s, "
        f"ratio {alone / built.in_statements:.2f}"
    )
    out.print(_increments(spark, sale, options))
    for materialized in ("table", "incremental"):
        took = _ten_rows(home / materialized, materialized)
        out.print(f"ten rows, {materialized}: {', '.join(f'{seconds:.2f}' for seconds in took)} s")


def _slim_builds(project: Path, state: Path, rounds: int) -> Grid:
    marts = {path: path.read_text(encoding="utf-8") for path in sorted(project.glob("models/marts/**/*.sql"))}
    spent: dict[str, list[tuple[float, ...]]] = {mart.stem: [] for mart in marts}
    for number in range(rounds + 1):
        took = {}
        for mart, text in marts.items():
            mart.write_text(text + "\nwhere true\n", encoding="utf-8")
            slim = _slim(project, state)
            mart.write_text(text, encoding="utf-8")
            _, alone = _timed(["build", "--full-refresh", "--select", mart.stem])
            took[mart.stem] = slim, alone
        _, whole = _timed(["build", "--full-refresh"])
        if number:
            for name, seconds in took.items():
                spent[name].append((*seconds, whole))
    return _grid(f"one changed mart, median of {rounds}", ("slim build", "build of it alone", "build of all"), spent)


def _grid(title: str, sides: Sequence[str], spent: Mapping[str, list[tuple[float, ...]]]) -> Grid:
    """Medians of all sides, and of the rounds' ratios to the last side."""
    grid = Grid(title=title, title_justify="left")
    for column in ("model", *(f"{side}, s" for side in sides), *(f"{side}, ratio" for side in sides[:-1])):
        grid.add_column(column, justify="left" if column == "model" else "right")
    for model, rounds in spent.items():
        seconds = (statistics.median(column) for column in zip(*rounds, strict=True))
        ratios = zip(*([side / last for side in others] for *others, last in rounds), strict=True)
        grid.add_row(model, *(f"{number:.2f}" for number in (*seconds, *map(statistics.median, ratios))))
    return grid


def _increments(spark: SparkSession, sale: Table, options: argparse.Namespace) -> Grid:
    assert isinstance(sale.connection, FilesConnection)
    topic = Path(sale.connection.path) / sale.options.topic
    events = [json.loads(line) for path in sorted(topic.rglob("*.json")) for line in path.read_text().splitlines()]
    draw = random.Random(1)  # noqa: S311
    spent: dict[str, list[tuple[float, ...]]] = {}
    newest = sorted(events, key=lambda event: int(event["saletime"]))[-options.changes :]
    for number in range(1, options.rounds + 2):
        changed = newest if options.newest else draw.sample(events, options.changes)
        lines = (json.dumps(_updated(event, number, at)) for at, event in enumerate(changed))
        (topic / f"{sale.options.topic}+0+{number * BEHIND}.json").write_text("\n".join(lines) + "\n")
        landed(spark, sale)
        increment, _ = _timed(["run", *INCREMENTAL, "--threads", "1"])
        full, _ = _timed(["run", "--full-refresh", *INCREMENTAL, "--threads", "1"])
        if number > 1:
            for model, seconds in increment.seconds.items():
                spent.setdefault(model, []).append((seconds, full.seconds[model]))
    which = f"{options.changes:,} changes of {'the newest rows' if options.newest else 'any rows'} of sale"
    return _grid(f"{which}, median of {options.rounds}", ("increment", "full refresh"), spent)


def _updated(event: dict[str, object], number: int, at: int) -> dict[str, object]:
    """The row with another price, later in the log than all before."""
    price = {"pricepaid": 1000.0 + number, "commission": 150.0}
    return {**event, **price, "__op": "u", "__source_pos": BEHIND * number + at}


def _slim(project: Path, state: Path) -> float:
    """Seconds of a pull request's build."""
    began = time.monotonic()
    _, failed = Slim(project, state, SERVED).run("lakehouse__pr_bench")
    if failed:
        raise SystemExit("\n".join(failed))
    return time.monotonic() - began


def _timed(arguments: list[str]) -> tuple[Built, float]:
    """A dbt command through the server, which must go well, and its seconds."""
    began = time.monotonic()
    built = run_dbt([*arguments, *SERVED], out)
    if built.failed:
        raise SystemExit("\n".join(built.failed))
    return built, time.monotonic() - began


def _ten_rows(root: Path, materialized: str) -> list[float]:
    """Seconds of a model of ten rows, which change from run to run."""
    (root / "models").mkdir(parents=True)
    (root / "macros").symlink_to(ROOT / "macros")
    (root / "dbt_project.yml").write_text(yaml.safe_dump({"name": "ten", "version": "1.0", "profile": "lakehouse"}))
    config = {
        "materialized": materialized, "file_format": "hudi", "unique_key": "id",
        "options": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"},
    }  # fmt: skip
    told = ", ".join(f"{name}={value!r}" for name, value in config.items())
    name = f"ten_{materialized}"
    found = []
    for number in range(8):
        (root / "models" / f"{name}.sql").write_text(
            f"{{{{ config({told}) }}}}\n{TEN_ROWS.format(f'{number} + {time.time_ns()}')}\n"
        )
        built, _ = _timed(["run", "--project-dir", str(root), "--profiles-dir", str(ROOT)])
        found.append(built.seconds[name])
    return found


if __name__ == "__main__":
    main()
