"""Installs the dbt packages of packages.yml, or puts stand-ins where they cannot be had.

dbt refuses every command while packages.yml names a package that is not installed. Where the package hub cannot be
reached, an empty package of that name keeps everything else working; one line says what is left out.

DBT_PACKAGES_FROM may name a folder (that holds the package, or a folder per package) or a git URL to take it from.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

# What a package is for here: said when it is left out.
LEFT_OUT = {"dbt_external_tables": "dbt run-operation stage_external_sources"}
_DBT_DEPS_SECONDS = 120


def main() -> int:
    """Installs what is missing; exit code 1 only where a named mirror does not have the package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="also replace what is there")
    again = parser.parse_args().again
    root = Path(__file__).resolve().parent.parent
    target = root / os.environ.get("DBT_PACKAGES_PATH", "dbt_packages")
    wanted = yaml.safe_load((root / "packages.yml").read_text(encoding="utf-8"))["packages"]
    if again:
        shutil.rmtree(target, ignore_errors=True)
    missing = [package for package in wanted if not (target / _name(package) / "dbt_project.yml").is_file()]
    if not missing:
        return 0
    if mirror := os.environ.get("DBT_PACKAGES_FROM"):
        return max(_from_mirror(mirror, package, target) for package in missing)
    if not _from_hub(root):
        for package in missing:
            _stand_in(package, target)
    return 0


def _name(package: dict[str, Any]) -> str:
    return str(package["package"]).rsplit("/", 1)[-1]


def _from_hub(root: Path) -> bool:
    """`dbt deps`; False where it did not get through."""
    try:
        done = subprocess.run(
            [Path(sys.executable).with_name("dbt"), "--quiet", "deps"],
            cwd=root,
            capture_output=True,
            timeout=_DBT_DEPS_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _from_mirror(mirror: str, package: dict[str, Any], target: Path) -> int:
    name = _name(package)
    place = target / name
    if Path(mirror).is_dir():
        found = next(
            (folder for folder in (Path(mirror) / name, Path(mirror)) if (folder / "dbt_project.yml").is_file()), None
        )
        if found is None:
            print(
                f"error: {mirror}: there is no dbt package {name}; expected it there or in a folder of that name",
                file=sys.stderr,
            )
            return 1
        shutil.copytree(found, place, ignore=shutil.ignore_patterns(".git"))
    else:
        clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", str(package["version"]), mirror, str(place)]
        done = subprocess.run(clone, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(
                f"error: {mirror}: {done.stderr.strip()}; expected a folder, or a git repository with tag "
                f"{package['version']}",
                file=sys.stderr,
            )
            return 1
    print(f"dbt package {name} is taken from {mirror}")
    return 0


def _stand_in(package: dict[str, Any], target: Path) -> None:
    name = _name(package)
    place = target / name
    (place / "macros").mkdir(parents=True, exist_ok=True)
    project = f"name: {name}\nversion: 0.0.0\nconfig-version: 2\n"
    (place / "dbt_project.yml").write_text(project, encoding="utf-8")
    print(
        f"the dbt package hub cannot be reached: {name} is left out, and with it `{LEFT_OUT.get(name, name)}`; "
        "all else works. `make packages` tries again; DBT_PACKAGES_FROM names a mirror (folder or git URL)."
    )


if __name__ == "__main__":
    sys.exit(main())
