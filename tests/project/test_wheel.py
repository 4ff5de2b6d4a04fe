"""The wheel alone, with what `[project.dependencies]` names and no more, works on somebody else's dbt project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from conftest import REPOSITORY, MakeProject, pg, table_of
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# What only an extra brings, or only this repository has.
NOT_THERE = (
    "numpy",
    "pyarrow",
    "fastavro",
    "psutil",
    "sqlglot",
    "dbt",
    "pandas",
    "examples",
    "ci",
    "dev",
    "bench",
    "tests",
)
IMPORT_ALL = """
import importlib, pkgutil, ingest
for module in pkgutil.walk_packages(ingest.__path__, "ingest."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        print(module.name)
"""


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel."""

    folder: Path

    def run(
        self,
        program: str,
        *arguments: str | Path,
        cwd: Path,
        code: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """A program of the environment, which must end with this exit code."""
        unset = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LAKE_", "DBT_"))}
        done = subprocess.run(
            [self.folder / "bin" / program, *arguments], cwd=cwd, env={**unset, **(environment or {})},
            check=False, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done


def needed(requirements: Sequence[str]) -> dict[str, Distribution]:
    """The installed distributions that requirements name, and what these need in turn."""
    found: dict[str, Distribution] = {}
    left = [Requirement(each) for each in requirements]
    while left:
        requirement = left.pop()
        extras = requirement.extras or {""}
        name = canonicalize_name(requirement.name)
        if name not in found:
            found[name] = distribution(name)
            more = [Requirement(each) for each in found[name].requires or ()]
            left += [
                each for each in more if not each.marker or any(each.marker.evaluate({"extra": e}) for e in extras)
            ]
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel, built from this repository and installed; what it needs is linked from the tests' own environment."""
    source, wheels = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(REPOSITORY / name, source / name)
    for name in ("ingest", "dbt_lakehouse", "examples"):
        shutil.copytree(REPOSITORY / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", wheels, source],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = wheels.glob("*.whl")
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    subprocess.run(
        [*pip, "--python", folder / "bin" / "python", "install", "--no-deps", "--no-index", wheel],
        check=True, capture_output=True,
    )  # fmt: skip
    (packages,) = folder.glob("lib/python*/site-packages")
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for each in needed(project["dependencies"]).values():
        for top in {file.parts[0] for file in each.files or ()} - {"..", "__pycache__"}:
            (packages / top).symlink_to(Path(str(each.locate_file(top))))
    return Installed(folder)


def test_the_wheel_has_the_package_and_its_licence(installed: Installed, tmp_path: Path) -> None:
    (packages,) = installed.folder.glob("lib/python*/site-packages")
    assert {path.name for path in packages.iterdir() if not path.is_symlink() and path.suffix != ".dist-info"} == {
        "ingest",
        "dbt_lakehouse",
    }
    (information,) = packages.glob("lakehouse_modeling-*.dist-info")
    assert {path.name for path in information.rglob("*") if path.parent.name == "licenses"} == {"LICENSE", "NOTICE"}
    assert "License-Expression: Apache-2.0\n" in (information / "METADATA").read_text(encoding="utf-8")
    for name in NOT_THERE:
        installed.run("python", "-c", f"import {name}", cwd=tmp_path, code=1)


def test_every_module_can_be_imported_without_what_an_extra_brings(installed: Installed, tmp_path: Path) -> None:
    imported = installed.run("python", "-c", IMPORT_ALL, cwd=tmp_path).stdout.split()
    assert {"ingest.cli.app", "ingest.landing.run", "ingest.operations.reconcile"} <= set(imported)


def test_the_command_starts(installed: Installed, tmp_path: Path) -> None:
    told = installed.run("lake", "--help", cwd=tmp_path).stdout
    assert all(command in told for command in ("ingest", "check", "status"))


@pytest.mark.parametrize("command", [("generate", "tickit", "--out", "data"), ("demo", "tickit")], ids=" ".join)
def test_what_plays_an_example_says_that_none_is_installed(
    command: tuple[str, ...], installed: Installed, tmp_path: Path
) -> None:
    # Somebody else's folder of this name is no example system.
    (tmp_path / "examples").mkdir()
    told = " ".join(installed.run("python", "-m", "ingest", *command, cwd=tmp_path, code=1).stderr.split())
    assert "no example systems are installed: they are no part of this package" in told
    assert "run this in a clone of the project after `make setup`" in told
    assert not (tmp_path / "data").exists()


@pytest.mark.spark
@pytest.mark.systems
def test_a_source_of_somebody_elses_project_is_checked_and_landed(
    installed: Installed, make_project: MakeProject, tmp_path: Path
) -> None:
    project = make_project({"tables": [table_of("note", {"id": "int", "text": "string"}, ["id"])]})
    project.deliver("shop.note", 0, [pg("c", 100, id=1, text="a"), pg("c", 110, id=2, text="b")])
    project.deliver("shop.note", 2, [pg("u", 120, id=1, text="c"), pg("d", 130, id=2, text="b")])
    lake = {"LAKE_HOME": str(tmp_path / "lake"), "LAKE_MEMORY": "1g"}
    assert "note" in installed.run("lake", "check", "shop", cwd=project.root, environment=lake).stdout
    landed = installed.run("lake", "ingest", "shop", "--json", cwd=project.root, environment=lake)
    (note,) = json.loads(landed.stdout)
    assert (note["read"], note["applied"], note["superseded"], note["quarantined"]) == (4, 2, 2, 0)
