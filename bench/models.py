"""What an increment costs against a full refresh, and what a small Hudi model costs at all.

TICKIT at a scale is landed and built in one warm embedded session. Then, round by round, rows of `sale` change, are
landed, and the incremental marts run: first as they are, then with --full-refresh. Seconds are dbt's own of each model,
from its first statement to its last. A model of ten rows is run beside them, as a table and as a merge.

    python -m bench.models --changes 1000
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table as Grid

from dev.commands import run_dbt
from ingest.datasets import generate
from ingest.declaration import load_source
from ingest.project import FilesConnection, Project
from ingest.runner import land
from ingest.session import open_session

ROOT = Path(__file__).resolve().parent.parent
INCREMENTAL = ("--select", "config.materialized:incremental")
BEHIND = 10**10
TEN_ROWS = "select id, {} as value from range(10) as numbers(id)"
out = Console(width=None if Console().is_terminal else 140, highlight=False)


def main() -> None:
    """Prints seconds of each model, and the ratio of its increment to its full refresh."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--changes", type=int, default=1000, help="Rows of sale that change in each round.")
    parser.add_argument("--rounds", type=int, default=4, help="After one for warming up.")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="bench-"))
    os.environ["LAKE_HOME"] = str(home)
    os.chdir(ROOT)
    try:
        _measure(home, options.scale, options.changes, options.rounds)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _measure(home: Path, scale: float, changes: int, rounds: int) -> None:
    generate("tickit", home, scale=scale, form="json", phase="snapshot")
    project = Project.load(ROOT)
    spark = open_session(project)
    tables = load_source(project, "tickit").tables
    for landed in land(spark, tables):
        if landed.error:
            raise landed.error
    rooms = ["--target-path", str(home / "target"), "--log-path", str(home / "target")]
    _ran(["build", "--exclude-resource-type", "test", "--exclude-resource-type", "unit_test", *rooms])
    (sale,) = (table for table in tables if table.name == "sale")
    assert isinstance(sale.connection, FilesConnection)
    topic = Path(sale.connection.path) / sale.options.topic
    events = [json.loads(line) for path in sorted(topic.rglob("*.json")) for line in path.read_text().splitlines()]
    draw = random.Random(1)  # noqa: S311
    spent: dict[str, list[tuple[float, float]]] = {}
    for number in range(1, rounds + 2):
        changed = draw.sample(events, changes)
        lines = (json.dumps(_updated(event, number, at)) for at, event in enumerate(changed))
        (topic / f"{sale.options.topic}+0+{number * BEHIND}.json").write_text("\n".join(lines) + "\n")
        for landed in land(spark, [sale]):
            if landed.error:
                raise landed.error
        increment, full = _ran(["run", *INCREMENTAL, *rooms]), _ran(["run", "--full-refresh", *INCREMENTAL, *rooms])
        if number > 1:
            for model, seconds in increment.items():
                spent.setdefault(model, []).append((seconds, full[model]))
    grid = Grid(title=f"{changes:,} changes of sale, scale {scale:g}, median of {rounds}", title_justify="left")
    for title in ("model", "increment, s", "full refresh, s", "ratio"):
        grid.add_column(title, justify="left" if title == "model" else "right")
    for model, pairs in spent.items():
        increment_s, full_s = (statistics.median(column) for column in zip(*pairs, strict=True))
        grid.add_row(model, f"{increment_s:.2f}", f"{full_s:.2f}", f"{increment_s / full_s:.2f}")
    out.print(grid)
    for materialized in ("table", "incremental"):
        took = _ten_rows(home / materialized, materialized)
        out.print(f"ten rows, {materialized}: {', '.join(f'{seconds:.2f}' for seconds in took)} s")


def _updated(event: dict[str, object], number: int, at: int) -> dict[str, object]:
    """The row with another commission, later in the log than all before."""
    return {**event, "commission": number, "__op": "u", "__source_pos": BEHIND * number + at}


def _ran(arguments: list[str]) -> dict[str, float]:
    """Seconds of each node of a dbt command, which must go well."""
    built = run_dbt(arguments, out)
    if built.failed:
        raise SystemExit("\n".join(built.failed))
    return built.seconds


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
    where = ["--project-dir", str(root), "--profiles-dir", str(ROOT), "--log-path", str(root / "target")]
    found = []
    for number in range(8):
        (root / "models" / f"ten_{materialized}.sql").write_text(
            f"{{{{ config({told}) }}}}\n{TEN_ROWS.format(f'{number} + {time.time_ns()}')}\n"
        )
        found.append(_ran(["run", *where])[f"ten_{materialized}"])
    return found


if __name__ == "__main__":
    main()
