"""Models of dbt in a project of a test's own: written, run in this process, and what came of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from conftest import REPOSITORY, DbtProject, MakeProject, Row
from dbt.cli.main import dbtRunner
from lake import Server
from pyspark.sql import SparkSession
from rich.console import Console

from dev import site


@dataclass(frozen=True)
class Outcome:
    """What dbt says of a node that was run."""

    status: str
    message: str


@dataclass(frozen=True)
class Models:
    """The models of a project, with the macros of this repository.

    Attributes
    ----------
    spark:
        The session that lands, and that dbt runs in, unless there is a server.
    server:
        Where dbt runs instead, and rows are read.
    """

    spark: SparkSession
    project: DbtProject
    server: Server | None = None

    @classmethod
    def of(cls, spark: SparkSession, project: DbtProject, server: Server | None = None, **config: Any) -> Models:
        """Gives the project this repository's macros, and all of its models a configuration."""
        (project.root / "macros").symlink_to(REPOSITORY / "macros")
        settings = yaml.safe_load((project.root / "dbt_project.yml").read_text(encoding="utf-8"))
        configured = {f"+{name}": value for name, value in {"schema": project.schema, **config}.items()}
        settings |= {"models": {"tested": configured}, "seeds": {"tested": {"+schema": project.schema}}}
        settings["macro-paths"] = ["macros", "own_macros"]
        settings["on-run-start"] = "{{ refuse_other_project() }}"
        settings["on-run-end"] = "{{ hudi_drop_failed(results) }}"
        (project.root / "dbt_project.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        return cls(spark, project, server)

    def write(self, name: str, sql: str, *, below: str = "models", **config: Any) -> None:
        """Writes a model, or another file of SQL, with its configuration."""
        told = ", ".join(f"{setting}={value!r}" for setting, value in config.items())
        path = self.project.root / below / f"{name}.sql"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{{{{ config({told}) }}}}\n{sql}\n" if told else sql, encoding="utf-8")

    def relation(self, name: str) -> str:
        """The name of a model's table for Spark."""
        return f"lakehouse_{self.project.schema}.{name}"

    @property
    def target(self) -> tuple[str, ...]:
        """The options of dbt that say where it runs."""
        return ("--target", "thrift") if self.server else ()

    def ask(self, query: str) -> list[Row]:
        """The rows of a query where dbt runs."""
        return self.server.ask(query) if self.server else [row.asDict() for row in self.spark.sql(query).collect()]

    def do(self, statement: str) -> None:
        """Executes a statement where dbt runs."""
        if self.server:
            self.server.do(statement)
        else:
            self.spark.sql(statement)

    def land(self, *tables: str) -> None:
        """Lands tables of the source, and makes them known to the server: it has a catalog of its own."""
        self.project.land_well(self.spark, *tables)
        for name in tables if self.server else ():
            silver = self.project.silver(self.spark, name)
            self.do(f"create database if not exists {self.project.schema}")
            self.do(f"create table if not exists {silver.table.relation} using hudi location '{silver.path}'")

    def dbt(self, *words: str) -> dict[str, Outcome]:
        """What a command of dbt did, by node; it must succeed exactly where every node does."""
        done = self._invoked(*words)
        assert done.exception is None, done.exception
        of_nodes = [each for each in done.result.results if each.node.resource_type != "operation"]
        found = {each.node.name: Outcome(str(each.status), str(each.message)) for each in of_nodes}
        assert done.success == all(each.status in ("success", "pass", "no-op") for each in found.values())
        return found

    def compiled(self, *names: str) -> dict[str, str]:
        """The SQL of some models or analyses, or of all, compiled without a connection. A refusal is raised."""
        chosen = ("--select", *names) if names else ()
        done = self._invoked("compile", *chosen, "--no-introspect", "--no-populate-cache")
        if done.exception is not None:
            raise done.exception
        return {each.node.name: str(each.node.compiled_code) for each in done.result.results}

    def documented(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the documentation site shows: dbt's manifest, and its catalog."""
        target, here = self.project.root / "target", Path.cwd()
        done = site.generate(Console(quiet=True), target, (*self._rooms, *self.target))
        os.chdir(here)
        assert not done.failed
        manifest, catalog = (json.loads((target / f"{name}.json").read_text()) for name in ("manifest", "catalog"))
        return manifest, catalog

    @property
    def _rooms(self) -> tuple[str, ...]:
        root, target = str(self.project.root), str(self.project.root / "target")
        return ("--project-dir", root, "--profiles-dir", root, "--target-path", target, "--log-path", target)

    def _invoked(self, *words: str) -> Any:
        here = Path.cwd()
        # The manifest of these is looked at; of each other run it is a fifth of a second.
        artifacts = () if words[0] in ("build", "seed") else ("--no-write-json",)
        done = dbtRunner().invoke(["--quiet", *artifacts, *words, *self._rooms, *self.target])
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

    def run_operation(self, macro: str, arguments: str) -> None:
        """Runs a macro, which must go well."""
        done = self._invoked("run-operation", macro, "--args", arguments)
        assert done.success, done.exception

    def refusal(self, name: str) -> str:
        """Why a model cannot be run."""
        outcome = self.dbt("run", "--select", name)[name]
        assert outcome.status == "error", outcome
        return outcome.message

    def rows(self, name: str, *columns: str) -> list[Row]:
        """A model's rows in order, without Hudi's columns."""
        found = [row["col_name"] for row in self.ask(f"show columns in {self.relation(name)}")]
        chosen = ", ".join(f"`{column}`" for column in columns or found if not column.startswith("_hoodie_"))
        return self.ask(f"select {chosen} from {self.relation(name)} order by {chosen}")

    def commits(self, name: str) -> list[tuple[str, str]]:
        """Instant and action of each commit of a model's table, in order."""
        found = self.ask(f"call show_commits(table => '{self.relation(name)}', limit => 1000)")
        return sorted((row["commit_time"], row["action"]) for row in found)

    def tables(self) -> set[str]:
        """The tables and views of the models' schema."""
        found = self.ask(f"show tables in lakehouse_{self.project.schema}")
        return {row["tableName"] for row in found if not row["isTemporary"]}


BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
NUMBERS = "select id, {} as value from range(1, {}) as numbers(id)"
MakeModels = Callable[..., Models]


def hudi_models(spark: SparkSession, make_project: MakeProject, server: Server | None) -> MakeModels:
    """Makes models that are Hudi tables, with more configuration where a test has some."""

    def make(**config: Any) -> Models:
        return Models.of(spark, make_project(), server, **{"file_format": "hudi", "options": BUCKETS, **config})

    return make


def numbers(value: object, upto: int = 3) -> list[dict[str, Any]]:
    """The rows of `NUMBERS`."""
    return [{"id": number, "value": value} for number in range(1, upto)]
