"""`make docs`: dbt's documentation site in target/, whose pages show what a model is, and not how it is configured.

The site shows `meta` of a node above all else, lists and maps as JSON. These are settings (`affected_by`, `ingest`),
which are read from `config.meta`, by state comparisons too, and stay there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ci.parts import why_a_part
from dev.commands import Built, run_dbt
from ingest.errors import LakeError

# What the page of a model says that need not equal its full refresh.
_PART = (
    "*This model {why}: a run upserts the rows that it selects and removes none, so that the table need not equal its "
    "full refresh.*"
)
ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "target"


def generate(out: Console, target: Path = TARGET, where: Sequence[str] = ()) -> Built:
    """Makes the site.

    Parameters
    ----------
    target:
        dbt's folder of artifacts, which the site is in.
    where:
        Options of dbt: the project's folder and others.

    Raises
    ------
    LakeError
        There is no site.
    """
    done = run_dbt(["docs", "generate", *where], out)
    path = target / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    for node in (*manifest["nodes"].values(), *manifest["sources"].values()):
        if node["resource_type"] == "model" and (why := why_a_part(node, manifest)):
            node["description"] = f"{node['description']}\n\n{_PART.format(why=why)}".strip()
        node["meta"] = {name: told for name, told in node["meta"].items() if not isinstance(told, (dict, list))}
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return done


def main() -> int:
    """Makes the site; 0 only where it is whole."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    os.chdir(ROOT)
    out = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    try:
        failed = generate(out).failed
    except LakeError as error:
        failed = [error.message]
    for line in failed:
        out.print(f"[red]failed[/] {line}", soft_wrap=True)
    if not failed:
        out.print("the site is in target/, and `dbt docs serve` shows it")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
