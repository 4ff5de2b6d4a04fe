"""`make nightly`: what a day's job does with the marts, and who hears of it where something fails.

    freshness of the sources, a build of everything, what failed of it once more, the documentation

A step that fails does not stop the next: stale sources are built all the same. Exit code 0 only where all is well in
the end. Where it is not, and `LAKE_WEBHOOK` names an address, a JSON text is posted there: `text` in a few lines, which
chat tools show as it is, and `failed`, a list. The address is a secret and is shown nowhere.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
from rich.console import Console

from dev import site
from dev.commands import Built, run_dbt
from ingest.errors import LakeError

ROOT = Path(__file__).resolve().parent.parent
WEBHOOK = "LAKE_WEBHOOK"
# So many failures are told one by one.
TOLD = 20
out = Console(width=None if sys.stdout.isatty() else 140, highlight=False)


def main() -> int:
    """Runs the job; 0 only where all is well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--selector", help="What is built, of selectors.yml: else all that is landed.")
    selector = parser.parse_args().selector
    os.chdir(ROOT)
    failed = nightly(["--selector", selector] if selector else [])
    for line in failed:
        out.print(f"[red]failed[/] {line}", soft_wrap=True)
    if failed and (address := os.environ.get(WEBHOOK)):
        notify(address, failed)
    return 1 if failed else 0


def nightly(chosen: Sequence[str], where: Sequence[str] = (), target: Path = site.TARGET) -> list[str]:
    """All steps; what has failed in the end, and why.

    Parameters
    ----------
    chosen:
        Which nodes are built, as options of dbt.
    where:
        Options for each command: the project's folder and others.
    target:
        The folder of artifacts that they name.
    """
    failed: list[str] = []

    def step(title: str, *arguments: str) -> Built | None:
        out.print(f"\n[bold]{title}[/]: dbt {' '.join(arguments)}")
        try:
            if arguments[0] == "docs":
                return site.generate(out, target, where)
            return run_dbt([*arguments, *where], out)
        except LakeError as error:
            failed.append(f"dbt {arguments[0]}: {error.message}")
            return None

    fresh = step("are the sources fresh", "source", "freshness")
    failed += fresh.failed if fresh else []
    built = step("models, seeds, snapshots and tests", "build", *chosen)
    if built and built.failed:
        out.print(f"{len(built.failed)} failed: they are tried once more")
        built = step("what failed", "retry")
    failed += built.failed if built else []
    documented = step("documentation", "docs", "generate")
    failed += documented.failed if documented else []
    return failed


def notify(address: str, failed: Sequence[str]) -> None:
    """Posts what failed to an address.

    A message that cannot be delivered is told on the terminal, and the job ends as it would have.
    """
    more = [f"and {len(failed) - TOLD} more"] if len(failed) > TOLD else []
    text = "\n".join([f"lakehouse: {len(failed)} failed in the daily job", *failed[:TOLD], *more])
    try:
        httpx.post(address, json={"text": text, "failed": list(failed)}, timeout=30).raise_for_status()
    except httpx.HTTPStatusError as error:
        out.print(f"the address in {WEBHOOK} answered {error.response.status_code}: nobody was told")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        out.print(f"the address in {WEBHOOK} cannot be reached ({type(error).__name__}): nobody was told")


if __name__ == "__main__":
    sys.exit(main())
