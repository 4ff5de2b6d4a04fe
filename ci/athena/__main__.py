"""The lint for Athena: `make lint` runs it. The models are compiled for Athena, without a connection.

What violates a rule and is meant to stands in `ci/athena/baseline.yml`, with the reason. The file may only shrink: an
entry that nothing violates any more is an error as well.

    python -m ci.athena
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import yaml
from rich.console import Console

from ci import rules
from ci.athena.queries import Compiled, written_to
from ci.athena.rules import RULES
from dev.affected.project import ROOT, compiled
from ingest.errors import LakeError

BASELINE = Path(__file__).with_name("baseline.yml")
unexpected = partial(rules.unexpected, file=str(BASELINE))


def violations(project: Compiled) -> dict[tuple[str, str], str]:
    """What violates a rule, by rule and subject, and how."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, check in RULES.items():
        for subject, told in check(project):
            found.setdefault((name, subject), []).append(told)
    return {key: "; ".join(told) for key, told in found.items()}


def main() -> None:
    """Prints what is to be mended; ends with 1 where there is something."""
    argparse.ArgumentParser(
        prog="python -m ci.athena", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    out = Console(soft_wrap=True, highlight=False, markup=False)
    try:
        manifest = compiled(target=written_to(ROOT / "target"), output="athena", kinds=("model", "snapshot"))
    except LakeError as error:
        out.print(str(error))
        raise SystemExit(1) from error
    baseline = yaml.safe_load(BASELINE.read_text(encoding="utf-8")) or {}
    told = unexpected(violations(Compiled.of(manifest)), baseline)
    for line in told:
        out.print(line)
    kept = sum(map(len, baseline.values()))
    out.print(f"{len(RULES)} rules for Athena: {len(told)} to be mended, {kept} kept in {BASELINE.name}")
    raise SystemExit(1 if told else 0)


if __name__ == "__main__":
    main()
