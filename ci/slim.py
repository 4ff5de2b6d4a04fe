"""`make slim`: what a pull request changes, built beside what is there, and told of in a text for its readers.

    main's manifest (of its last build)  ->  the selector slim_ci, in schemas of its own, the rest read from main's

Without main's manifest, everything is built; also where what writes tables has changed, for dbt knows of no model that
it is written by it: macros, of which main's manifest tells, and files that are none of dbt's, of which git does.
Incremental models begin as copies of main's tables, so that what is tested is the increment that will run there, and
not a table made from nothing. Of each table that main has too, rows are compared. The text (`target/slim.md`) lists
changed models, their columns, the consumers they reach, and what differs. The schemas are dropped at the end, and
before the build where a killed one has left them. Exit code 0 only where every node is well.

    python -m ci.slim --name 42 --state .lake/state
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
from dbt.cli.main import dbtRunner, dbtRunnerResult
from dbt.contracts.graph.manifest import Manifest
from rich.console import Console

from ci.parts import columns_in, reached
from dev.commands import Built, run_dbt
from ingest.errors import LakeError

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = "LAKE_SCHEMA"
BUILT = ("table", "incremental", "snapshot")
HOOK = "operation."
WITH_ROWS = ("model.", "seed.", "snapshot.")
# What runs a node and is none of dbt's: the plug-in, the profile, the versions of the packages of Python and of Spark.
RUNS = ("dbt_lakehouse", "profiles/profiles.yml", "requirements.lock", "ingest/spark/jars.lock")
# Macros that are called by their names: for a node's materialization and strategy, and by dbt's adapters.
BEGUN = ("materialization_", "snapshot_", "get_incremental_")
CALLED = (
    "list_schemas", "create_schema", "list_relations_without_caching", "get_columns_in_relation",
    "get_columns_in_relation_raw", "rename_relation", "truncate_relation", "drop_relation",
)  # fmt: skip
WHOLE = "Everything was built: main has left no manifest to compare with.\n"
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
                dbt = _Commands.of(self.root, self.options)
                dbt.require_aside(schema)
                dbt.operation("drop_schemas", schema=schema)
                try:
                    return self._built(dbt)
                finally:
                    dbt.operation("drop_schemas", schema=schema)
        finally:
            if before is None:
                del os.environ[SCHEMA]
            else:
                os.environ[SCHEMA] = before

    def _built(self, dbt: _Commands) -> tuple[str, list[str]]:
        if not self.is_slim:
            out.print(f"{self.state}: no manifest of main: everything is built")
            return WHOLE, dbt.run("build").failed
        state = "--state", str(self.state)
        theirs = json.loads((self.state / "manifest.json").read_text(encoding="utf-8"))
        writing = [*dbt.changed_writing(theirs), *_changed_runs(self.root)]
        cloned_are = ("--select", "config.materialized:incremental") if writing else ("--selector", "slim_ci_clones")
        built_are = () if writing else ("--selector", "slim_ci")
        cloned = dbt.run("clone", "--no-write-json", *cloned_are, *state)
        built = dbt.run("build", *built_are, "--defer", "--favor-state", *state)
        modified = dbt.listed("--select", "state:modified", *state)
        changes = [
            Change.of(dbt.node(key), theirs["nodes"].get(key), is_modified=key in modified)
            for key in sorted(built.ids)
            if key.startswith(WITH_ROWS)
        ]
        exposures = sorted(key.split(".")[-1] for key in built.ids if key.startswith("exposure."))
        differences = {
            change.name: Difference.of(dbt, change)
            for change in changes
            if change.is_table and change.there and built.statuses.get(change.name) == "success"
        }
        return _text(changes, exposures, differences, writing), cloned.failed + built.failed


@dataclass(frozen=True)
class _Commands:
    """Commands of dbt for a project that was read once: its manifest is theirs, and what they have in common."""

    manifest: Manifest
    options: tuple[str, ...]

    @classmethod
    def of(cls, root: Path, options: Sequence[str]) -> _Commands:
        """Of the project in a folder."""
        options = ("--project-dir", str(root), "--target-path", str(root / "target"), *options)
        return cls(_result(None, "parse", *options), options)

    def node(self, key: str) -> Node:
        """A node of the manifest, as its file has it."""
        return self.manifest.nodes[key].to_dict()

    def changed_writing(self, theirs: Mapping[str, Any]) -> list[str]:
        """The names of macros that write tables, and are others than in main's manifest, or in one of both alone."""
        hooks = [key for key in self.manifest.nodes if key.startswith(HOOK)]
        ours = {
            "macros": {key: macro.to_dict() for key, macro in self.manifest.macros.items()},
            "nodes": {key: self.node(key) for key in hooks},
        }
        return sorted({_name(key) for key, _ in _writing(ours) ^ _writing(theirs)})

    def require_aside(self, schema: str) -> None:
        """Refuses a project whose nodes would be written over those of main.

        Raises
        ------
        LakeError
            The name of a node's schema does not go by the profile's.
        """
        keys = [key for key in self.manifest.nodes if key.startswith(WITH_ROWS)]
        names = {key: str(self.manifest.nodes[key].relation_name or "") for key in keys}
        beside = sorted(key for key, name in names.items() if name and schema.lower() not in name.lower())
        if beside:
            raise LakeError(
                f"{len(beside)} nodes would be written over main's, the first as {names[beside[0]]}",
                where=beside[0],
                expected=f"schemas whose names hold {schema}",
                action=f"let the profile's schema be env_var('{SCHEMA}'), and generate_schema_name go by target.schema",
            )

    def run(self, *arguments: str) -> Built:
        """What runs nodes, and lists the schemas of these alone."""
        out.print(f"\ndbt {' '.join(arguments)}")
        return run_dbt([*arguments, "--cache-selected-only", *self.options], out, self.manifest)

    def shown(self, query: str) -> Mapping[str, int]:
        """The only row of a query, of counts."""
        (result,) = _result(self.manifest, "show", "--no-populate-cache", "--inline", query, *self.options).results
        (row,) = result.agate_table.rows
        return {name: int(count) for name, count in row.dict().items()}

    def listed(self, *chosen: str) -> set[str]:
        """The ids of a selection's nodes."""
        keys = "--output", "json", "--output-keys", "unique_id"
        return {json.loads(line)["unique_id"] for line in _result(self.manifest, "ls", *chosen, *keys, *self.options)}

    def operation(self, macro: str, **arguments: str) -> None:
        """Runs a macro; its failure is told, and is none of the build's."""
        told = "--args", yaml.safe_dump(arguments)
        done = _asked(self.manifest, "run-operation", macro, *told, *self.options)
        if not done.success:
            out.print(f"[red]{macro} failed[/]: {done.exception or 'see logs/dbt.log'}")


def _writing(manifest: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The macros that write tables, of which dbt tells no model, with their texts: those that are called by
    their names, what is run before and behind all nodes, and what these call. What stands in the place of one of dbt's
    has its name."""
    macros, called, begun = manifest["macros"], dict[str, list[str]](), [*CALLED]
    for key, macro in macros.items():
        called.setdefault(_name(key), []).extend(map(_name, macro["depends_on"]["macros"]))
    begun += [name for name in called if name.startswith(BEGUN)]
    for key, node in manifest["nodes"].items():
        begun += map(_name, node["depends_on"]["macros"]) if key.startswith(HOOK) else ()
    found = reached(begun, lambda name: called.get(name, ()))
    return {(key, macro["macro_sql"]) for key, macro in macros.items() if _name(key) in found}


def _name(key: str) -> str:
    """A macro's name by its id."""
    return key.rsplit(".", 1)[-1]


def _changed_runs(root: Path) -> list[str]:
    """The files of `RUNS` that are others than where the branch began, of main."""
    for main in ("origin/main", "main"):
        words = ("git", "diff", "--name-only", "--merge-base", main, "--", *RUNS)
        told = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
        if told.returncode == 0:
            return told.stdout.splitlines()
    out.print(f"git knows no main: whether {', '.join(RUNS)} have changed is not looked at")
    return []


def _asked(manifest: Manifest | None, *arguments: str) -> dbtRunnerResult:
    """A command of dbt that builds nothing: it shows nothing, and leaves no manifest (a third of a second to write)."""
    return dbtRunner(manifest).invoke(["--log-level", "none", "--no-write-json", *arguments])


def _result(manifest: Manifest | None, *arguments: str) -> Any:
    """The result of such a command, which must go well."""
    done = _asked(manifest, *arguments)
    if done.exception:
        raise LakeError(f"{done.exception}", where=f"dbt {' '.join(arguments)}", action="see logs/dbt.log")
    return done.result


@dataclass(frozen=True)
class Difference:
    """How the rows of a table differ from main's: what the macro `row_differences` counts, and rows by column."""

    rows: Mapping[str, int]
    columns: Mapping[str, int]

    @classmethod
    def of(cls, dbt: _Commands, change: Change) -> Difference:
        """Columns are looked at where a row has changed."""
        assert change.there is not None
        told = json.dumps([change.here, change.there, change.key])[1:-1]
        rows = dbt.shown("{{ row_differences(" + told + ") }}")
        return cls(rows, dbt.shown("{{ column_differences(" + told + ") }}") if rows["changed"] else {})

    @property
    def line(self) -> str:
        """As cells of a table."""
        counts = (self.rows[name] for name in ("rows_here", "rows_there", "only_here", "only_there", "changed"))
        where = [f"{column} {number:,}" for column, number in self.columns.items() if number]
        return f"{' | '.join(f'{count:,}' for count in counts)} | {', '.join(where)}"


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
        What tells its rows apart: its unique key, of a snapshot when the version began too.
    needs_refresh:
        Main's table was made with a setting that is another one now: a run that is no `--full-refresh` is refused.
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
    needs_refresh: bool

    @classmethod
    def of(cls, node: Node, main: Node | None, *, is_modified: bool) -> Change:
        """Of two nodes of dbt's manifests."""
        ours = {name: column.get("data_type") for name, column in node["columns"].items()}
        theirs = {name: column.get("data_type") for name, column in (main or {"columns": {}})["columns"].items()}
        key = _key(node["config"])
        common = [name for name in ours if name in theirs]
        return cls(
            name=node["name"],
            is_new=main is None,
            is_modified=is_modified,
            is_table=node["config"]["materialized"] in BUILT and bool(key),
            here=node["relation_name"],
            there=main["relation_name"] if main else None,
            key=key,
            added=[name for name in ours if name not in theirs] if main else [],
            removed=[name for name in theirs if name not in ours],
            retyped=[f"{name} ({theirs[name]} → {ours[name]})" for name in common if ours[name] != theirs[name]],
            needs_refresh=main is not None and _needs_refresh(node["config"], main["config"]),
        )

    def because(self, others: str) -> str:
        """Why it is built; of one that has not changed itself, what is said of others."""
        if self.is_new:
            return "it is new"
        if self.needs_refresh:
            return "it has changed, and needs --full-refresh"
        return "it has changed" if self.is_modified else others

    @property
    def columns(self) -> str:
        """Its columns that are others than main's."""
        told = [("new", self.added), ("gone", self.removed), ("another type", self.retyped)]
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in told if names)


def _key(config: Mapping[str, Any]) -> list[str]:
    key = columns_in(config.get("unique_key"))
    if config["materialized"] == "snapshot":
        key.append((config.get("snapshot_meta_column_names") or {}).get("dbt_valid_from") or "dbt_valid_from")
    return key


def _needs_refresh(config: Mapping[str, Any], main: Mapping[str, Any]) -> bool:
    """Whether a table of Hudi was made with other settings than its model has now (`hudi_require_settings`)."""
    is_written_to = config["materialized"] == "incremental" and main["materialized"] in BUILT
    return is_written_to and main.get("file_format") == "hudi" and _fixed(config) != _fixed(main)


def _fixed(config: Mapping[str, Any]) -> list[str]:
    """What stays as a table was made."""
    options = {name: str(value) for name, value in (config.get("options") or {}).items()}
    columns = (", ".join(columns_in(config.get(name))) for name in ("unique_key", "partition_by"))
    kind = options.get("type", "cow")
    index = (options.get(f"hoodie.{name}", "") for name in ("index.type", "bucket.index.num.buckets"))
    return [str(value).lower() for value in (*columns, config.get("file_format"), kind, *index)]


def _text(
    changes: Sequence[Change],
    exposures: Sequence[str],
    differences: Mapping[str, Difference],
    writing: Sequence[str],
) -> str:
    if not changes:
        return "Nothing that is built has changed.\n"
    lines = [f"Everything was built, for what writes tables has changed: {', '.join(writing)}.", ""]
    lines = [*(lines if writing else []), "| built | because | columns |", "| --- | --- | --- |"]
    others = "of how it is written" if writing else "of what it reads"
    for change in changes:
        lines.append(f"| {change.name} | {change.because(others)} | {change.columns} |")
    lines += ["", f"Consumers: {', '.join(exposures) or 'none'}."]
    if differences:
        lines += ["", "| table | rows | main's rows | only here | only there | changed | in columns |"]
        lines.append("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    lines += [f"| {name} | {difference.line} |" for name, difference in differences.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Builds what is changed here; 0 only where every node is well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", help="Names the schemas; by default the branch.")
    parser.add_argument("--state", type=Path, help="The folder of main's manifest; by default LAKE_HOME/state.")
    options = parser.parse_args()
    name = re.sub(r"\W+", "_", options.name or _branch()).strip("_").lower() or "change"
    state = options.state or Path(os.environ.get("LAKE_HOME") or ".lake") / "state"
    told = ROOT / "target" / "slim.md"
    told.unlink(missing_ok=True)
    try:
        text, failed = Slim(ROOT, state.resolve()).run(f"{os.environ.get(SCHEMA, 'lakehouse')}__pr_{name}")
    except LakeError as error:
        out.print(f"[bold red]error[/] {error.message}")
        return 1
    told.write_text(text, encoding="utf-8")
    out.print(f"\n{text}", markup=False, soft_wrap=True)
    for line in failed:
        out.print(f"[red]failed[/] {line}", soft_wrap=True)
    return 1 if failed else 0


def _branch() -> str:
    told = subprocess.run(["git", "branch", "--show-current"], cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
