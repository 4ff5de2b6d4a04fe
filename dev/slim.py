"""`make slim`: what a pull request changes, built beside what is there, and told of in a text for its readers.

    main's manifest (of its last build)  ->  the selector slim_ci, in schemas of its own, the rest read from main's

Without main's manifest, everything is built. Incremental models begin as copies of main's tables, so that what is
tested is the increment that will run there, and not a table made from nothing. Of each table that main has too, rows
are compared. The text (`target/slim.md`) lists changed models, their columns, the consumers they reach, and what
differs. The schemas are dropped at the end, however it ends. Exit code 0 only where every node is well.

    python -m dev.slim --name 42 --state .lake/state
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from dbt.cli.main import dbtRunner
from rich.console import Console

from dev.commands import Built, run_dbt
from ingest.errors import LakeError

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = "LAKE_SCHEMA"
BUILT = ("table", "incremental", "snapshot")
WITH_ROWS = ("model", "seed", "snapshot")
DIFFERS = "differs_in_"
out = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
Node = Mapping[str, Any]


@dataclass(frozen=True)
class Slim:
    """A build of what a pull request changes.

    Attributes
    ----------
    root:
        The dbt project's folder.
    state:
        The folder with main's manifest.
    options:
        Options for each command of dbt, but for the selection.
    """

    root: Path
    state: Path
    options: tuple[str, ...] = ()

    @property
    def is_slim(self) -> bool:
        """Whether main's manifest is there."""
        return (self.state / "manifest.json").is_file()

    def run(self, schema: str) -> tuple[str, list[str]]:
        """Builds, compares and drops; the text, and what failed."""
        before, os.environ[SCHEMA] = os.environ.get(SCHEMA), schema
        try:
            with chdir(self.root):
                return self._built()
        finally:
            self._operation("drop_schemas", schema=schema)
            if before is None:
                del os.environ[SCHEMA]
            else:
                os.environ[SCHEMA] = before

    def _built(self) -> tuple[str, list[str]]:
        if not self.is_slim:
            out.print(f"{self.state}: no manifest of main: everything is built")
            return _text([], [], {}, whole=True), self._dbt("build").failed
        deferred = ("--defer", "--favor-state", "--state", str(self.state))
        self._dbt("clone", "--selector", "slim_ci_clones", "--state", str(self.state))
        built = self._dbt("build", "--selector", "slim_ci", *deferred)
        ours = json.loads((self._target / "manifest.json").read_text(encoding="utf-8"))
        theirs = json.loads((self.state / "manifest.json").read_text(encoding="utf-8"))
        chosen = self._listed("--selector", "slim_ci")
        modified = {each["unique_id"] for each in self._listed("--select", "state:modified")}
        changes = [
            Change.of(ours["nodes"][key], theirs["nodes"].get(key), is_modified=key in modified)
            for key in sorted(each["unique_id"] for each in chosen if each["resource_type"] in WITH_ROWS)
        ]
        exposures = sorted(each["name"] for each in chosen if each["resource_type"] == "exposure")
        differences = {
            change.name: self._difference(change)
            for change in changes
            if change.is_table and change.there and built.statuses.get(change.name) == "success"
        }
        return _text(changes, exposures, differences, whole=False), built.failed

    def _difference(self, change: Change) -> dict[str, int]:
        """How the rows of a table differ from main's (see the macro `row_differences`)."""
        assert change.there is not None
        told = json.dumps([change.here, change.there, change.key, change.common])[1:-1]
        query = "{{ row_differences(" + told + ") }}"
        (result,) = self._asked("show", "--inline", query).results
        (row,) = result.agate_table.rows
        return {name: int(value) for name, value in row.dict().items()}

    def _listed(self, *chosen: str) -> list[Node]:
        """The nodes of a selection, against main's."""
        keys = "--output-keys", "unique_id name resource_type"
        state = ("--state", str(self.state), "--output", "json")
        return [json.loads(line) for line in self._asked("ls", *chosen, *state, *keys)]

    def _asked(self, *arguments: str) -> Any:
        """The result of a command of dbt that builds nothing."""
        done = dbtRunner().invoke(["--quiet", *arguments, *self._options])
        if done.exception:
            raise LakeError(f"{done.exception}", where=f"dbt {' '.join(arguments)}", action="see logs/dbt.log")
        return done.result

    def _operation(self, macro: str, **arguments: str) -> None:
        done = dbtRunner().invoke(
            ["--quiet", "run-operation", macro, "--args", yaml.safe_dump(arguments), *self._options]
        )
        if not done.success:
            out.print(f"[red]{macro} failed[/]: {done.exception or 'see logs/dbt.log'}")

    def _dbt(self, *arguments: str) -> Built:
        out.print(f"\ndbt {' '.join(arguments)}")
        return run_dbt([*arguments, *self._options], out)

    @property
    def _target(self) -> Path:
        return self.root / "target"

    @property
    def _options(self) -> tuple[str, ...]:
        return ("--project-dir", str(self.root), "--target-path", str(self._target), *self.options)


@dataclass(frozen=True)
class Change:
    """A node that is built, beside what main has of it.

    Attributes
    ----------
    is_modified:
        The node itself is another one; else something that it reads is.
    here, there:
        Its table, and main's.
    key:
        Its unique key.
    common:
        Columns that both have.
    """

    name: str
    is_new: bool
    is_modified: bool
    is_table: bool
    here: str
    there: str | None
    key: list[str]
    added: list[str]
    removed: list[str]
    retyped: list[str]
    common: list[str]

    @classmethod
    def of(cls, node: Node, main: Node | None, *, is_modified: bool) -> Change:
        """Of two nodes of dbt's manifests."""
        ours = {name: column.get("data_type") for name, column in node["columns"].items()}
        theirs = {name: column.get("data_type") for name, column in (main or {"columns": {}})["columns"].items()}
        key = node["config"].get("unique_key") or []
        common = [name for name in ours if name in theirs]
        return cls(
            name=node["name"],
            is_new=main is None,
            is_modified=is_modified,
            is_table=node["config"]["materialized"] in BUILT and bool(key),
            here=node["relation_name"],
            there=main["relation_name"] if main else None,
            key=[key] if isinstance(key, str) else list(key),
            added=[name for name in ours if name not in theirs] if main else [],
            removed=[name for name in theirs if name not in ours],
            retyped=[f"{name} ({theirs[name]} → {ours[name]})" for name in common if ours[name] != theirs[name]],
            common=common,
        )

    @property
    def columns(self) -> str:
        """Its columns that are others than main's."""
        told = [("new", self.added), ("gone", self.removed), ("another type", self.retyped)]
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in told if names)


def _text(
    changes: Sequence[Change], exposures: Sequence[str], differences: Mapping[str, Mapping[str, int]], *, whole: bool
) -> str:
    if whole:
        return "Everything was built: main has left no manifest to compare with.\n"
    if not changes:
        return "Nothing that is built has changed.\n"
    lines = ["| built | because | columns |", "| --- | --- | --- |"]
    for change in changes:
        why = "it is new" if change.is_new else "it has changed" if change.is_modified else "of what it reads"
        lines.append(f"| {change.name} | {why} | {change.columns} |")
    lines += ["", f"Consumers: {', '.join(exposures) or 'none'}."]
    if differences:
        lines += ["", "| table | rows | main's rows | only here | only there | changed | in columns |"]
        lines.append("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for name, told in differences.items():
        columns = {name.removeprefix(DIFFERS): number for name, number in told.items() if name.startswith(DIFFERS)}
        where = [f"{column} {number:,}" for column, number in columns.items() if number]
        counts = (told[count] for count in ("rows_here", "rows_there", "only_here", "only_there", "changed"))
        lines.append(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} | {', '.join(where)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Builds what is changed here; 0 only where every node is well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", help="Names the schemas; by default the branch.")
    parser.add_argument("--state", type=Path, help="The folder of main's manifest; by default LAKE_HOME/state.")
    options = parser.parse_args()
    name = re.sub(r"\W+", "_", options.name or _branch()).strip("_").lower() or "change"
    state = options.state or Path(os.environ.get("LAKE_HOME", ".lake")) / "state"
    try:
        text, failed = Slim(ROOT, state.resolve()).run(f"{os.environ.get(SCHEMA, 'lakehouse')}__pr_{name}")
    except LakeError as error:
        out.print(f"[bold red]error[/] {error.message}")
        return 1
    (ROOT / "target" / "slim.md").write_text(text, encoding="utf-8")
    out.print(f"\n{text}", markup=False, soft_wrap=True)
    for line in failed:
        out.print(f"[red]failed[/] {line}", soft_wrap=True)
    return 1 if failed else 0


def _branch() -> str:
    told = subprocess.run(["git", "branch", "--show-current"], cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
