"""The dbt project that `lake` works on: where it is, how its YAML is rendered, which target and connections it uses.

`lake` looks for things where dbt looks for them, so that one pair of options (`--project-dir`, `--profiles-dir`)
means the same to both. Nothing in here knows any particular source.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from ingest.config.connections import (
    Connection,
    EventConnection,
    JdbcConnection,
    read_connections,
)
from ingest.config.rendering import Renderer, Yaml, mapping, read_yaml
from ingest.errors import DeclarationError

# The folders of a project, in all of which dbt looks for docs blocks, unless `docs-paths` says where.
_FOLDERS = {"model-paths": "models", "seed-paths": "seeds", "snapshot-paths": "snapshots",
            "analysis-paths": "analyses", "macro-paths": "macros"}  # fmt: skip
_DOCS_BLOCK = re.compile(r"\{%-?\s*docs\s+(\w+)\s*-?%\}(.*?)\{%-?\s*enddocs\s*-?%\}", re.DOTALL)


@dataclass(frozen=True)
class Project:
    """A dbt project with the target chosen for this run."""

    root: Path
    profiles_dir: Path
    name: str
    target_name: str
    target: Yaml
    model_paths: tuple[str, ...]
    docs_paths: tuple[str, ...]
    connections: Mapping[str, Connection]
    renderer: Renderer
    source_configs: Yaml

    @classmethod
    def load(
        cls,
        project_dir: Path | None = None,
        profiles_dir: Path | None = None,
        target: str | None = None,
    ) -> Project:
        """Reads dbt_project.yml, profiles.yml and connections.yml.

        Raises
        ------
        DeclarationError
            A file is missing or wrong; names the file, the key and the places that were searched.
        """
        root = _find_project(project_dir)
        project_file = root / "dbt_project.yml"
        raw = read_yaml(project_file)
        variables = _variables(raw, where=f"{project_file}: vars")
        renderer = Renderer(variables)
        name = str(renderer.render(raw.get("profile") or raw.get("name"), where=f"{project_file}: profile"))
        directory = _find_profiles(root, profiles_dir)
        target_name, output = _output(directory / "profiles.yml", name, target, renderer, named_in=project_file)
        shown = {
            "name": target_name,
            "profile_name": name,
            "schema": output.get("schema"),
            "type": output.get("type"),
            "threads": output.get("threads"),
        }
        with_target = Renderer(variables, shown)
        folders = {key: _paths(raw, key, [default], project_file) for key, default in _FOLDERS.items()}
        return cls(
            root=root,
            profiles_dir=directory,
            name=str(raw.get("name")),
            target_name=target_name,
            target=output,
            model_paths=folders["model-paths"],
            docs_paths=_paths(raw, "docs-paths", list(chain.from_iterable(folders.values())), project_file),
            connections=read_connections(directory / "connections.yml", with_target),
            renderer=with_target,
            source_configs=mapping(raw.get("sources"), where=f"{project_file}: sources"),
        )

    @property
    def lake_root(self) -> str:
        """Where the schemas of the lake are: of an embedded session, as its target says. Empty where it does not."""
        settings = self.target.get("server_side_parameters") or {}
        return str(settings.get("spark.sql.warehouse.dir") or "")

    def enables(self, file: Path, source: str, table: str, *declared: Any) -> bool:
        """Whether a table of a source is there for dbt: by its `config: {enabled: ...}`.

        The last that says something counts, as in dbt: of dbt_project.yml the key that leads furthest, by the folders
        of the file, the source and the table; then what was `declared`, from the source to the table.

        Parameters
        ----------
        file:
            The declaration, from the project's folder.
        """
        found: list[tuple[Any, str]] = []
        folder = next((path for path in self.model_paths if file.is_relative_to(path)), ".")
        names: list[str] = [self.name, *file.relative_to(folder).parent.parts, source, table]
        level, where = self.source_configs, "dbt_project.yml: sources"
        for name in ["", *names]:
            below = level.get(name) if name else level
            if not isinstance(below, dict):
                break
            level, where = below, f"{where}.{name}" if name else where
            found += [(level[key], f"{where}.{key}") for key in ("enabled", "+enabled") if key in level]
        found += [(value, f"{file}: {source}.{table}: config.enabled") for value in declared if value is not None]
        said = [(value, place) for value, place in found if not isinstance(value, dict)]
        return not said or self._is_true(*said[-1])

    def _is_true(self, value: Any, where: str) -> bool:
        rendered = str(self.renderer.render(value, where=where)).strip().lower()
        if rendered not in ("true", "false"):
            raise DeclarationError(f"is {value!r}", where=where, expected="true or false")
        return rendered == "true"

    def described(self, text: str) -> str:
        """A description with the docs blocks that it names; as it stands where only dbt can render it."""
        with suppress(DeclarationError):
            return str(self.renderer.render(text, where="description", doc=lambda *names: self._docs_blocks[names[-1]]))
        return text

    @cached_property
    def _docs_blocks(self) -> dict[str, str]:
        """The texts of dbt's docs blocks, by name: of the project's Markdown."""
        files = (path for folder in self.docs_paths for path in sorted((self.root / folder).rglob("*.md")))
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in files)
        return {name: block.strip() for text in texts for name, block in _DOCS_BLOCK.findall(text)}

    def connection(self, name: str, *, where: str) -> EventConnection:
        """The connection for events of that name; DeclarationError at `where`, which asks for it, if there is none."""
        found = self.connections.get(name)
        if isinstance(found, EventConnection):
            return found
        raise self._no_connection(name, (EventConnection,), where)

    def database(self, name: str, *, where: str) -> JdbcConnection:
        """The connection to a database of that name; `where` as of `connection`."""
        found = self.connections.get(name)
        if isinstance(found, JdbcConnection):
            return found
        raise self._no_connection(name, (JdbcConnection,), where)

    def _no_connection(self, name: str, kinds: tuple[type[Connection], ...], where: str) -> DeclarationError:
        found = self.connections.get(name)
        known = [other for other, connection in self.connections.items() if isinstance(connection, kinds)]
        return DeclarationError(
            f"names the connection '{name}', which is " + ("not there" if found is None else f"of type {found.type}"),
            where=where,
            expected=f"one of {self.profiles_dir / 'connections.yml'}: {', '.join(known) or 'none'}",
        )


def _variables(raw: Yaml, *, where: str) -> Yaml:
    """The variables of the project: those below its name win over those of all packages, as in dbt."""
    every = mapping(raw.get("vars"), where=where)
    own = every.get(str(raw.get("name")))
    return {**every, **own} if isinstance(own, dict) else every


def _paths(raw: Yaml, key: str, default: list[str], file: Path) -> tuple[str, ...]:
    paths = raw.get(key) or default
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise DeclarationError(f"is {paths!r}", where=f"{file}: {key}", expected="a list of folders, such as [models]")
    return tuple(paths)


def _output(profiles_file: Path, name: str, target: str | None, renderer: Renderer, named_in: Path) -> tuple[str, Yaml]:
    """The name of the target, the asked one or the profile's own, and what the profile says of it."""
    profiles = read_yaml(profiles_file)
    if name not in profiles:
        raise DeclarationError(
            f"has no profile '{name}'",
            where=str(profiles_file),
            expected=f"the profile that {named_in} names; found: {', '.join(profiles) or 'none'}",
        )
    profile = mapping(profiles[name], where=f"{profiles_file}: {name}")
    target_name = target or str(
        renderer.render(profile.get("target", "default"), where=f"{profiles_file}: {name}.target")
    )
    outputs = mapping(profile.get("outputs"), where=f"{profiles_file}: {name}.outputs")
    if target_name not in outputs:
        raise DeclarationError(
            f"profile '{name}' has no target '{target_name}'",
            where=f"{profiles_file}: {name}.outputs",
            expected=f"one of: {', '.join(outputs) or 'none is there'}",
            action="choose one with --target, or add it",
        )
    place = f"{profiles_file}: {name}.outputs.{target_name}"
    output = mapping(renderer.render(outputs[target_name], where=place), where=place)
    mapping(output.get("server_side_parameters"), where=f"{place}.server_side_parameters")
    return target_name, output


def _find_project(project_dir: Path | None) -> Path:
    start = (project_dir or Path(os.environ.get("DBT_PROJECT_DIR", "."))).expanduser().resolve()
    if (start / "dbt_project.yml").is_file():
        return start
    raise DeclarationError(
        "there is no dbt_project.yml",
        where=str(start),
        expected="a dbt project",
        action="go there, or give --project-dir",
    )


def _find_profiles(root: Path, profiles_dir: Path | None) -> Path:
    given = profiles_dir or (Path(os.environ["DBT_PROFILES_DIR"]) if "DBT_PROFILES_DIR" in os.environ else None)
    searched = [given.expanduser()] if given else [root, Path.home() / ".dbt"]
    for directory in searched:
        if (directory / "profiles.yml").is_file():
            # connections.yml lies beside the real file, also where profiles.yml is a link to it
            return (directory / "profiles.yml").resolve().parent
    raise DeclarationError(
        "there is no profiles.yml",
        where=", ".join(str(directory) for directory in searched),
        action="give --profiles-dir or set DBT_PROFILES_DIR",
    )
