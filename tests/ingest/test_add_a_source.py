"""The guide "add a source" is followed as it stands: its declaration, its class, and what it says comes of them."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY, DbtProject, MakeProject, pg
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from ingest.cli.app import app

GUIDE = REPOSITORY / "docs" / "model" / "add-a-source.md"
OUTSIDE = REPOSITORY / "tests" / "outside"
EVENTS = [pg("c", 1, id=1, title="a"), pg("c", 2, id=2, title="b"), pg("u", 3, id=1, title="c"),
          pg("d", 4, id=2, title=None)]  # fmt: skip


def blocks(language: str, title: str = "") -> list[str]:
    """The guide's blocks of code in a language; those whose first line is a comment with that title."""
    text = GUIDE.read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for block in found if not title or block.startswith(f"# {title}\n")]


@pytest.fixture
def project(make_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> DbtProject:
    """A project with the guide's declaration; its schema is the test's."""
    made = make_project(name="notes")
    (declaration,) = blocks("yaml", "models/staging/notes/_notes__sources.yml")
    (source,) = yaml.safe_load(declaration)["sources"]
    made.declare(source)
    monkeypatch.setenv("LAKE_HOME", str(made.root))
    return made


def connect(project: DbtProject, title: str) -> None:
    """Writes the guide's connection."""
    (text,) = blocks("yaml", title)
    (project.root / "connections.yml").write_text(text, encoding="utf-8")


def require_landed(project: DbtProject, spark: SparkSession) -> Any:
    """What the guide's commands show of `EVENTS`; the position that was committed."""
    checked = CliRunner().invoke(app, ["check", "notes", "--project-dir", str(project.root)])
    assert checked.exit_code == 0, checked.output
    assert project.land_well(spark)["note"].counts.read == len(EVENTS)
    assert project.rows(spark, "note") == [{"id": 1, "title": "c"}]
    assert project.land_well(spark)["note"].counts.read == 0, "an event counts once"
    return project.state(spark, "note").position


@pytest.mark.slow
@pytest.mark.spark
def test_a_source_of_a_known_kind_is_a_connection_and_a_declaration(project: DbtProject, spark: SparkSession) -> None:
    connect(project, "profiles/connections.yml")
    project.deliver("shop.note", 0, EVENTS)
    require_landed(project, spark)


def test_the_guides_class_is_the_one_that_the_tests_install() -> None:
    module = (OUTSIDE / "lake_outbox" / "__init__.py").read_text(encoding="utf-8")
    assert "\n\n\n".join(block.strip() for block in blocks("python")) == module.strip()
    (told,) = blocks("toml")
    assert re.findall(r'^(\w+) = "(.+)"$', told, re.MULTILINE) == [("outbox", "lake_outbox:OutboxSource")]
    distribution = Distribution.at(OUTSIDE / "lake_outbox-1.0.dist-info")
    assert [each.value for each in distribution.entry_points if each.name == "outbox"] == ["lake_outbox:OutboxSource"]


@pytest.mark.spark
def test_a_source_of_a_kind_of_its_own_is_landed_by_the_same_declaration(
    project: DbtProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(OUTSIDE)
    connect(project, "profiles/connections.yml, with the outbox")
    put(project.root / "outbox.db", EVENTS)
    position = require_landed(project, spark)
    assert json.loads(position) == {"kind": "outbox", "position": len(EVENTS) + 1}


def put(path: Path, events: Sequence[dict[str, Any]]) -> None:
    """Writes events to an outbox."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table outbox (id integer primary key, topic text, key blob, value blob)")
        rows = [("shop.note", json.dumps({"id": event["id"]}).encode(), json.dumps(event).encode()) for event in events]
        database.executemany("insert into outbox (topic, key, value) values (?, ?, ?)", rows)
