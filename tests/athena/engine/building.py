"""Models of dbt on the local Athena, in a project of a test's own, with this repository's macros and profile."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from conftest import REPOSITORY
from dbt.cli.main import dbtRunner

from athena.engine.local import LocalAthena


@dataclass(frozen=True)
class Outcome:
    """What dbt says of a node that was run."""

    status: str
    message: str


@dataclass(frozen=True)
class AthenaModels:
    """A project whose models are Iceberg tables; its schemas are `<schema>` and what models name."""

    athena: LocalAthena
    root: Path
    schema: str

    @classmethod
    def of(cls, athena: LocalAthena, root: Path, schema: str) -> AthenaModels:
        """An empty project in a folder, with this repository's macros and its target athena."""
        (root / "models").mkdir(parents=True)
        (root / "macros").symlink_to(REPOSITORY / "macros")
        settings = {
            "name": "tested", "version": "1.0.0", "profile": "lakehouse",
            "models": {"tested": {"+table_type": "iceberg", "+materialized": "incremental",
                                  "+incremental_strategy": "merge"}},
            "snapshots": {"tested": {"+table_type": "iceberg"}},
        }  # fmt: skip
        (root / "dbt_project.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        profiles = (REPOSITORY / "profiles" / "profiles.yml").read_text(encoding="utf-8")
        (root / "profiles.yml").write_text(profiles, encoding="utf-8")
        athena.ask(f"create schema if not exists `{schema}`")
        return cls(athena, root, schema)

    def write(self, name: str, sql: str, **config: Any) -> None:
        """Writes a model with its configuration."""
        told = ", ".join(f"{setting}={value!r}" for setting, value in config.items())
        (self.root / "models" / f"{name}.sql").write_text(f"{{{{ config({told}) }}}}\n{sql}\n", encoding="utf-8")

    def remove(self, name: str) -> None:
        """Takes a model away; its table stays."""
        (self.root / "models" / f"{name}.sql").unlink()

    def declare(self, **properties: Any) -> None:
        """Writes the properties of models, sources and the like."""
        (self.root / "models" / "properties.yml").write_text(yaml.safe_dump(properties), encoding="utf-8")

    def dbt(self, *words: str) -> dict[str, Outcome]:
        """What a command of dbt did, by node."""
        done = invoked(self.root, *words)
        assert done.exception is None, done.exception
        return {each.node.name: Outcome(str(each.status), str(each.message)) for each in done.result.results}

    def run(self, *words: str) -> None:
        """Runs the models, which must go well."""
        self._well("run", *words)

    def build(self, *words: str) -> None:
        """Builds models and snapshots, which must go well."""
        self._well("build", *words)

    def _well(self, *words: str) -> None:
        assert not {name: each.message for name, each in self.dbt(*words).items() if each.status != "success"}

    def refusal(self, name: str, *words: str) -> str:
        """Why a model cannot be run."""
        outcome = self.dbt("run", "--select", name, *words)[name]
        assert outcome.status == "error", outcome
        return outcome.message

    def rows(self, name: str) -> list[list[str | None]]:
        """A model's rows, as texts, in their order."""
        return sorted(self.athena.ask(f"select * from {self.schema}.{name}"), key=str)

    def snapshots(self, name: str) -> int:
        """How many commits a table has."""
        return len(self.athena.ask(f'select snapshot_id from "{self.schema}"."{name}$snapshots"'))


def invoked(root: Path, *words: str, target: str = "athena", beside: Path | None = None) -> Any:
    """What dbt says of a command on a project; it writes into the project, or beside it."""
    here, place = Path.cwd(), str((beside or root) / f"target_{target}")
    options: Sequence[str] = ("--project-dir", str(root), "--profiles-dir", str(root), "--target", target,
                              "--target-path", place, "--log-path", place)  # fmt: skip
    done = dbtRunner().invoke(["--quiet", *words, *options])
    os.chdir(here)
    return done
