"""`make bench`: the benches, what each compares and how long it takes; or one of them, by its name.

python -m bench
python -m bench latency --count 10
"""

from __future__ import annotations

import argparse
import ast
import runpy
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid

# With its usual options, on two idle cores.
USUAL_TIME = {
    "commits": "5 min",
    "dbt": "30 min",
    "drain": "6 min, after a download of 300 MB",
    "growth": "90 min",
    "kinesis": "2 min",
    "latency": "10 min, beside `make up`",
    "read_cost": "3 min",
    "s3": "5 min",
    "snapshot": "2 min",
    "soak": "75 min, beside `make up`",
    "updates": "4 min",
}


def main() -> int:
    """Lists the benches, or runs one; exit code 2 where there is none of that name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", help="a bench; without one, all are listed")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="its own options; --help lists them")
    chosen = parser.parse_args()
    if chosen.name is None:
        out = Console(width=None if Console().is_terminal else 140, highlight=False)
        out.print(listed())
        out.print("run one: make bench NAME=snapshot ARGS='--scale 0.1'", markup=False)
        return 0
    if chosen.name not in USUAL_TIME:
        print(f"error: bench {chosen.name!r}\n  expected: one of {', '.join(USUAL_TIME)}", file=sys.stderr)
        return 2
    sys.argv = [f"bench.{chosen.name}", *chosen.options]
    runpy.run_module(f"bench.{chosen.name}", run_name="__main__", alter_sys=True)
    return 0


def listed() -> Grid:
    """A row for each bench."""
    grid = Grid(box=None, padding=(0, 2, 0, 0))
    for title in ("bench", "what it compares", "takes about"):
        grid.add_column(title, overflow="fold")
    for name, usual in USUAL_TIME.items():
        grid.add_row(name, compares(name), usual)
    return grid


def compares(name: str) -> str:
    """The first paragraph of a bench's docstring. The module is not imported: that takes seconds."""
    text = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    told = ast.get_docstring(ast.parse(text)) or ""
    return " ".join(told.split("\n\n", 1)[0].split())


if __name__ == "__main__":
    sys.exit(main())
