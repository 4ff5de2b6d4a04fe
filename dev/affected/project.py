"""The project as dbt knows it: its incremental models, and what the relations that they read are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbt.cli.main import dbtRunner

from dev.affected.entries import Declared, Findings, find
from dev.affected.queries import Reader, Table
from ingest.errors import LakeError

ROOT = Path(__file__).resolve().parents[2]
Node = Mapping[str, Any]
READ_WHERE_THEY_STAND = ("view", "ephemeral")


@dataclass(frozen=True)
class Model:
    """An incremental model: its query, its unique key, and what it has in `meta.affected_by`."""

    name: str
    query: str
    unique_key: tuple[str, ...]
    written: Any


@dataclass(frozen=True)
class Project:
    """The models that are merged, what the names of relations stand for, and the declared source tables."""

    models: Mapping[str, Model]
    tables: Mapping[str, Table]
    sources: Mapping[str, Declared]

    def find(self, name: str) -> Findings:
        """What is to be said of a model."""
        model = self.models[name]
        return find(model.query, model.unique_key, model.written, Reader(self.tables), self.sources)


def compiled(
    root: Path = ROOT, target: Path | None = None, *, output: str = "", kinds: Sequence[str] = ("model",)
) -> Mapping[str, Any]:
    """dbt's manifest with every node of some kinds compiled, without a connection.

    Parameters
    ----------
    target:
        The folder that dbt writes to.
    output:
        The profile's output to compile for; its default without.

    Raises
    ------
    LakeError
        The project cannot be compiled.
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
        done = dbtRunner().invoke(["--quiet", *words, *rooms, "--log-path", str(target)])
        if not done.success:
            told = str(done.exception or "a model does not compile")
            raise LakeError(told, where="dbt compile", action=f"see {target / 'dbt.log'}")
    finally:
        os.chdir(here)
    manifest: Mapping[str, Any] = json.loads((target / "manifest.json").read_text(encoding="utf-8"))
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
        return Table(node["name"], query=node.get("compiled_code") or "")
    columns = {column: str(each.get("data_type") or "") for column, each in node["columns"].items()}
    return Table(node["name"], columns, frozenset(column.lower() for column in _key(config)))


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
            yield Model(node["name"], node.get("compiled_code") or "", _key(config), _meta(node).get("affected_by"))
