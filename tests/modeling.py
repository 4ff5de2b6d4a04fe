"""Models of dbt in a project of a test's own: written, run in this process, and what came of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from conftest import REPOSITORY, DbtProject, Row
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Outcome:
    """What dbt says of a node that was run."""

    status: str
    message: str


@dataclass(frozen=True)
class Models:
    """The models of a project, with the macros of this repository."""

    spark: SparkSession
    project: DbtProject

    @classmethod
    def of(cls, spark: SparkSession, project: DbtProject, **config: Any) -> Models:
        """Gives the project this repository's macros, and all of its models a configuration."""
        (project.root / "macros").symlink_to(REPOSITORY / "macros")
        settings = yaml.safe_load((project.root / "dbt_project.yml").read_text(encoding="utf-8"))
        configured = {f"+{name}": value for name, value in {"schema": project.schema, **config}.items()}
        settings |= {"models": {"tested": configured}, "seeds": {"tested": {"+schema": project.schema}}}
        (project.root / "dbt_project.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        return cls(spark, project)

    def write(self, name: str, sql: str, *, below: str = "models", **config: Any) -> None:
        """Writes a model, or another file of SQL, with its configuration."""
        told = ", ".join(f"{setting}={value!r}" for setting, value in config.items())
        path = self.project.root / below / f"{name}.sql"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{{{{ config({told}) }}}}\n{sql}\n" if told else sql, encoding="utf-8")

    def relation(self, name: str) -> str:
        """The name of a model's table for Spark."""
        return f"lakehouse_{self.project.schema}.{name}"

    def dbt(self, *words: str) -> dict[str, Outcome]:
        """What a command of dbt did, by node; it must succeed exactly where every node does."""
        done = self._invoked(*words)
        assert done.exception is None, done.exception
        found = {each.node.name: Outcome(str(each.status), str(each.message)) for each in done.result.results}
        assert done.success == all(each.status in ("success", "pass", "no-op") for each in found.values())
        return found

    def compiled(self, *names: str) -> dict[str, str]:
        """The SQL of some models or analyses, or of all, compiled without a connection. A refusal is raised."""
        chosen = ("--select", *names) if names else ()
        done = self._invoked("compile", *chosen, "--no-introspect", "--no-populate-cache")
        if done.exception is not None:
            raise done.exception
        return {each.node.name: str(each.node.compiled_code) for each in done.result.results}

    def _invoked(self, *words: str) -> Any:
        root, target, here = str(self.project.root), str(self.project.root / "target"), Path.cwd()
        rooms = ("--project-dir", root, "--profiles-dir", root, "--target-path", target, "--log-path", target)
        done = dbtRunner().invoke(["--quiet", *words, *rooms])
        os.chdir(here)
        return done

    def told(self, name: str) -> list[str]:
        """What was logged of a model's table in the last run, in order."""
        lines = (self.project.root / "target" / "dbt.log").read_text(encoding="utf-8").splitlines()
        start = max(number for number, line in enumerate(lines) if "Running with dbt" in line)
        mark = f"{self.relation(name)}: "
        return [line.partition(mark)[2].strip() for line in lines[start:] if mark in line]

    def run(self, *names: str, whole: bool = False) -> None:
        """Runs models, or all of them, which must go well."""
        chosen = ("--select", *names) if names else ()
        outcomes = self.dbt("run", *chosen, *(("--full-refresh",) if whole else ()))
        assert not {name: each.message for name, each in outcomes.items() if each.status != "success"}

    def refusal(self, name: str) -> str:
        """Why a model cannot be run."""
        outcome = self.dbt("run", "--select", name)[name]
        assert outcome.status == "error", outcome
        return outcome.message

    def rows(self, name: str, *columns: str) -> list[Row]:
        """A model's rows in order, without Hudi's columns."""
        table = self.spark.table(self.relation(name))
        chosen = columns or tuple(column for column in table.columns if not column.startswith("_hoodie_"))
        return [row.asDict() for row in table.select(*chosen).orderBy(*chosen).collect()]

    def commits(self, name: str) -> list[tuple[str, str]]:
        """Instant and action of each commit of a model's table, in order."""
        found = self.spark.sql(f"call show_commits(table => '{self.relation(name)}', limit => 1000)").collect()
        return sorted((row["commit_time"], row["action"]) for row in found)

    def tables(self) -> set[str]:
        """The tables and views of the models' schema."""
        found = self.spark.sql(f"show tables in lakehouse_{self.project.schema}").where("not isTemporary").collect()
        return {row["tableName"] for row in found if row["tableName"][-3:] not in ("_ro", "_rt")}
