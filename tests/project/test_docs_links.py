"""The documents lead where they say, and the reference holds every key, command, metric and variable of the code."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import REPOSITORY
from pydantic import BaseModel

from ingest.cli import app as cli
from ingest.cli.landing import landed_json
from ingest.cli.metrics import as_text
from ingest.cli.status import status_json
from ingest.config.connections import (
    FilesConnection,
    JdbcConnection,
    KafkaConnection,
    KinesisConnection,
    RegistryConnection,
)
from ingest.config.project import Project
from ingest.config.sources_file import load_sources
from ingest.config.tables import ColumnOptions, Database, IngestOptions, QuarantineLimit, SchemaPolicy
from ingest.landing.continuous import Progress
from ingest.landing.table import Landed
from ingest.operations.status import TableStatus

REFERENCE = REPOSITORY / "docs" / "reference"
# The variables that `dev/chain` sets for Kafka Connect stand in the environment's page as well.
VARIABLE = re.compile(
    r"""env_var\(\s*['"](\w+)['"]"""  # profiles, connections, models
    r"""|environ(?:\.\w+)?[\[(]\s*["'](\w+)["']"""
    r"""|envvar=["'](\w+)["']"""
    r"""|\$\{env:(\w+)"""  # Spark's log settings, connectors
    r"""|["']((?:LAKE|TICKIT|DBT)_[A-Z_]+)["']"""
)
CODE = re.compile(r"^ {0,3}(`{3,})[^\n]*\n.*?^ {0,3}\1`*\s*$", re.DOTALL | re.MULTILINE)
# Folders of code whose paths the documents name.
PATH = re.compile(r"`((?:ingest|examples|dev|bench|macros|models|tests|deploy|docs|profiles|snapshots)/[\w./-]*)`")
# What those say of other times: they name paths as they were.
OF_ANOTHER_TIME = ("CHANGELOG.md", "bench/results/")


def tracked(*patterns: str) -> list[Path]:
    """Files that the repository holds, or is to hold."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.splitlines() if (path := REPOSITORY / name).is_file()]


@cache
def prose(path: Path) -> str:
    """A document without its blocks of code."""
    return CODE.sub("", path.read_text(encoding="utf-8"))


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} +(.+?)\s*$", prose(path), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return frozenset(found)


DOCUMENTS = tracked("*.md")


def names(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_every_relative_link_and_anchor_leads_somewhere(document: Path) -> None:
    lost = []
    without_literals = re.sub(r"`[^`\n]*`", "", prose(document))
    for link in re.findall(r"\]\(([^)\s]+)\)", without_literals):
        if re.match(r"\w+:", link) or link.startswith("#!"):
            continue
        place, _, anchor = link.partition("#")
        target = (document.parent / place).resolve() if place else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert not lost


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_every_table_is_whole(document: Path) -> None:
    # A row that a blank line cuts off is no row: it is shown as text, with its bars.
    broken = []
    for block in re.findall(r"(?:^ *\|.*\n?)+", prose(document), re.MULTILINE):
        rows = [re.sub(r"\\\|", "", line).strip() for line in block.splitlines()]
        cells = {row.count("|") for row in rows}
        if len(rows) < 2 or not re.fullmatch(r"\|(?: *:?-+:? *\|)+", rows[1]) or len(cells) != 1:
            broken.append(rows[0])
    assert not broken


@pytest.mark.parametrize(
    "document", [each for each in DOCUMENTS if not names(each).startswith(OF_ANOTHER_TIME)], ids=names
)
def test_every_path_of_code_that_is_named_is_there(document: Path) -> None:
    named = PATH.findall(prose(document))
    assert not [path for path in named if not (REPOSITORY / path).exists()]


def test_every_document_that_code_names_is_there() -> None:
    lost = []
    for path in tracked("*.py", "*.sql", "*.yml", "*.toml", "*.sh", "Makefile"):
        named = re.findall(r"\bdocs/[\w./-]+\.md\b", path.read_text(encoding="utf-8"))
        lost += [f"{names(path)}: {each}" for each in named if not (REPOSITORY / each).is_file()]
    assert not lost


def test_every_decision_has_a_row_in_the_index() -> None:
    index = REPOSITORY / "docs" / "decisions" / "README.md"
    listed = dict(re.findall(r"^\| (\d+) \| \[[^\]]+\]\(([^)]+)\) \|", index.read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == {str(int(path.name[:4])): path.name for path in tracked("docs/decisions/0*.md")}


def rows(page: str, heading: str = "") -> set[str]:
    """What a page's tables have in backticks in the first column, below a heading or all."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    if heading:
        text = re.split(rf"^#+ {heading}$", text, flags=re.MULTILINE)[1]
        text = re.split(r"^#", text, flags=re.MULTILINE)[0]
    firsts = re.findall(r"^\|([^|]+)\|", text, re.MULTILINE)
    return {name for first in firsts for name in re.findall(r"`([^`]+)`", first)}


@pytest.mark.parametrize(
    ("model", "page", "heading"),
    [
        (IngestOptions, "declarations.md", "Keys of a table"),
        (QuarantineLimit, "declarations.md", "Quarantine limit"),
        (Database, "declarations.md", "Database"),
        (SchemaPolicy, "declarations.md", "Schema policy"),
        (ColumnOptions, "declarations.md", "Keys of a column"),
        (FilesConnection, "connections.md", "Files"),
        (KafkaConnection, "connections.md", "Kafka"),
        (KinesisConnection, "connections.md", "Kinesis"),
        (RegistryConnection, "connections.md", "Registry"),
        (JdbcConnection, "connections.md", "JDBC"),
    ],
)
def test_every_key_has_a_row_and_no_row_is_of_another(model: type[BaseModel], page: str, heading: str) -> None:
    assert rows(page, heading) == set(model.model_fields)


def commands(command: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    """The commands below one, each with its options. (Not by click's classes: typer may bring a click of its own.)"""
    if nested := getattr(command, "commands", None):
        for name, each in nested.items():
            yield from commands(each, f"{path} {name}")
    else:
        yield path, [option for each in command.params for option in each.opts if option.startswith("--")]


def test_every_command_and_option_is_in_the_reference() -> None:
    page = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    told = {" ".join(re.findall(r"\b[a-z]+\b", cell)) for cell in rows("commands.md")}
    known = dict(commands(typer.main.get_command(cli.app), "lake"))
    assert len(known) > 10
    missing = [name for name in known if not any(f"{cell} ".startswith(f"{name} ") for cell in told)]
    missing += [f"{name} {option}" for name, options in known.items() for option in options if option not in page]
    assert not missing


def test_every_key_of_json_has_a_row_and_no_row_is_of_another() -> None:
    table = next(iter(load_sources(Project.load(REPOSITORY)).values())).tables[0]
    given = {*status_json(TableStatus(table)), *landed_json(Landed(table)), *Progress(table).as_event()}
    assert rows("commands.md", "What `--json` gives") == given


def test_every_metric_is_in_the_reference() -> None:
    assert rows("metrics.md") >= set(re.findall(r"^# HELP (\w+) ", as_text({}), re.MULTILINE))


def variables() -> set[str]:
    """What the code, the profiles and the connectors read of the environment."""
    found: set[str] = set()
    places = (
        "ingest",
        "ci",
        "dev",
        "profiles",
        "models",
        "dbt_project.yml",
        "packages.yml",
        "deploy/connectors",
        "bench",
    )
    for path in tracked(*places):
        text = path.read_text(encoding="utf-8", errors="ignore")
        if path.suffix == ".py":
            # Examples in docstrings are no code.
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (
                    told := ast.get_docstring(node, clean=False)
                ):
                    text = text.replace(told, "")
        found |= {name for match in VARIABLE.findall(text) for name in match if name}
    return found


def test_every_variable_is_in_the_reference() -> None:
    page = (REFERENCE / "environment.md").read_text(encoding="utf-8")
    # PATH is every program's.
    assert not {name for name in variables() - {"PATH"} if f"`{name}`" not in page}
