"""The project as dbt knows it: its incremental models, and what the relations that they read are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dbt.cli.main import dbtRunner
from dbt.context.providers import RuntimeDatabaseWrapper, RuntimeProvider
from dbt.task.compile import CompileTask

from dev.affected.entries import Declared, Findings, find, underived
from dev.affected.queries import Reader, Table
from ingest.errors import LakeError

ROOT = Path(__file__).resolve().parents[2]
Node = Mapping[str, Any]
READ_WHERE_THEY_STAND = ("view", "ephemeral")
NOT_COMPILED = "not_compiled"  # in a node of the manifest: why


@dataclass(frozen=True)
class Model:
    """An incremental model: its query, or why there is none, its unique key, and what it has in `meta.affected_by`."""

    name: str
    query: str
    unique_key: tuple[str, ...]
    written: Any
    not_compiled: str = ""


@dataclass(frozen=True)
class Project:
    """The models that are merged, what the names of relations stand for, and the declared source tables."""

    models: Mapping[str, Model]
    tables: Mapping[str, Table]
    sources: Mapping[str, Declared]

    def find(self, name: str) -> Findings:
        """What is to be said of a model."""
        model = self.models[name]
        if model.not_compiled:
            return underived(model.written, self.sources, model.not_compiled)
        return find(model.query, model.unique_key, model.written, Reader(self.tables), self.sources)


class _Unconnected(RuntimeDatabaseWrapper):
    """What a query asks of a database that nobody is connected to: no table is there, and the rest has no answer."""

    def get_relation(self, *_: Any, **__: Any) -> None:
        """None is there."""


def compiled(
    root: Path = ROOT, target: Path | None = None, *, output: str = "", kinds: Sequence[str] = ("model",)
) -> Mapping[str, Any]:
    """dbt's manifest with every node of some kinds compiled, without a connection, or with why it cannot be.

    To `is_incremental()` there is no table yet. A node that asks for more (`run_query`, the columns of a table) has
    `not_compiled` in place of `compiled_code`.

    Parameters
    ----------
    target:
        The folder that dbt writes to.
    output:
        The profile's output to compile for; its default without.

    Raises
    ------
    LakeError
        The project cannot be read.
    """
    target, here = target or root / "target", Path.cwd()
    rooms = ("--project-dir", str(root), "--profiles-dir", str(root), "--target-path", str(target))
    words = (
        "compile",
        "--no-introspect",
        "--no-populate-cache",
        "--select",
        *(f"resource_type:{kind}" for kind in kinds),
        "--indirect-selection",
        "empty",
        *(("--target", output) if output else ()),
    )
    try:
        with (
            patch.object(RuntimeProvider, "DatabaseWrapper", _Unconnected),
            # dbt goes on behind a node that does not compile, with those that read it too.
            patch.object(CompileTask, "raise_on_first_error", lambda _: False),
            patch.object(CompileTask, "_mark_dependent_errors", lambda *_: None),
        ):
            done = dbtRunner().invoke(["--quiet", *words, *rooms, "--log-path", str(target)])
        if done.exception:
            raise LakeError(str(done.exception), where="dbt compile", action=f"see {target / 'dbt.log'}")
    finally:
        os.chdir(here)
    manifest: Mapping[str, Any] = json.loads((target / "manifest.json").read_text(encoding="utf-8"))
    result: Any = done.result
    for each in result.results:
        if each.status == "error":
            told = " ".join(str(each.message).partition(" for thread")[0].split())
            manifest["nodes"][each.node.unique_id][NOT_COMPILED] = f"it does not compile without a connection: {told}"
    return manifest


def read(manifest: Node) -> Project:
    """A project by its compiled manifest."""
    tables, sources = {}, {}
    for node in manifest["sources"].values():
        name = f"{node['source_name']}.{node['name']}"
        told = {**(node.get("source_meta") or {}).get("ingest", {}), **_meta(node).get("ingest", {})}
        key = frozenset(str(column).lower() for column in told.get("key") or ())
        columns = {column: str(each.get("data_type") or "") for column, each in node["columns"].items()}
        tables[node["relation_name"]] = Table(name, columns, key, is_source=bool(told))
        if told:  # what is deleted from a table that ingest does not land leaves no tombstone to follow
            sources[name] = Declared(tuple(columns), key)
    for node in manifest["nodes"].values():
        if node.get("relation_name"):
            tables[node["relation_name"]] = _table(node)
    return Project({model.name: model for model in _merged(manifest)}, tables, sources)


def _table(node: Node) -> Table:
    config = node["config"]
    if config.get("materialized") in READ_WHERE_THEY_STAND:
        return Table(node["name"], query=node.get("compiled_code") or "", not_compiled=node.get(NOT_COMPILED, ""))
    columns = {column: str(each.get("data_type") or "") for column, each in node["columns"].items()}
    # A snapshot has a row for each version of a key.
    key = () if node["resource_type"] == "snapshot" else _key(config)
    return Table(node["name"], columns, frozenset(column.lower() for column in key))


def _meta(node: Node) -> Mapping[str, Any]:
    return node["config"].get("meta") or {}


def _key(config: Mapping[str, Any]) -> tuple[str, ...]:
    key = config.get("unique_key") or ()
    names = key.split(",") if isinstance(key, str) else key
    return tuple(name.strip() for name in names)


def _merged(manifest: Node) -> Iterator[Model]:
    for node in manifest["nodes"].values():
        config = node["config"]
        if node["resource_type"] != "model" or config.get("materialized") != "incremental":
            continue
        if (config.get("incremental_strategy") or "merge") == "merge" and _key(config):
            query, written = node.get("compiled_code") or "", _meta(node).get("affected_by")
            yield Model(node["name"], query, _key(config), written, node.get(NOT_COMPILED, ""))
