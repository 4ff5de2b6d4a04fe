"""What incremental models have to say in `meta.affected_by`, derived from their queries.

python -m dev.affected [MODEL ...]      the entries implied, what is wrong with the written ones, what cannot be told
python -m dev.affected --check          what is wrong alone; ends with 1 where there is something
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from dev.affected.entries import Findings
from dev.affected.project import Project, compiled, read
from ingest.errors import LakeError


def lines(findings: Findings) -> list[str]:
    """The findings of a model, as they are shown."""
    shown = (
        ["meta={'affected_by': [", *(f"    {entry}," for entry in findings.proposed), "]},"]
        if findings.proposed
        else []
    )
    shown += [f"# no entry for {table}: {why}" for table, why in findings.left_out.items()]
    shown += [f"wrong: {told}" for told in findings.wrong]
    shown += [f"cannot tell: {told}" for told in findings.unsure]
    return shown


def chosen(project: Project, names: list[str]) -> list[str]:
    """The models that are asked for, or all.

    Raises
    ------
    LakeError
        One is none of the project's incremental models that are merged.
    """
    for name in names:
        if name not in project.models:
            known = ", ".join(sorted(project.models)) or "one: there is none"
            raise LakeError(
                f"{name} is no incremental model that is merged", where="models", expected=known, action="name one"
            )
    return names or sorted(project.models)


def main(
    models: Annotated[list[str] | None, typer.Argument(help="Incremental models; all without.")] = None,
    check: Annotated[bool, typer.Option(help="Only what is proven to be wrong; 1 where there is something.")] = False,
) -> None:
    """Derives the entries of `meta.affected_by`, and compares them with what is written."""
    out = Console(soft_wrap=True, highlight=False, markup=False)
    try:
        project = read(compiled())
        names = chosen(project, models or [])
    except LakeError as error:
        out.print(str(error))
        raise SystemExit(1) from error
    wrong = 0
    for name in names:
        findings = project.find(name)
        wrong += len(findings.wrong)
        if check:
            for told in findings.wrong:
                out.print(f"affected_by: {name}: {told}")
        else:
            out.print(f"{name}", style="bold")
            for line in lines(findings):
                out.print(f"  {line}")
    if check:
        out.print(f"affected_by of {len(names)} models: {wrong} to be mended")
        raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
