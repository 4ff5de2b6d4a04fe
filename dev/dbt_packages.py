"""Installs the dbt packages of packages.yml, or puts stand-ins where they cannot be had.

dbt refuses every command while packages.yml names a package that is not installed. Where the package hub cannot be
reached, an empty package of that name keeps everything else working; one line says what is left out.

DBT_PACKAGES_FROM may name what to take it from: a folder that holds the package, or a folder for each package, or git
repositories in the same two ways; or one git repository by its URL. A folder is named by its path or by a file:// URL.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

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
    name, version = _name(package), str(package["version"])
    place = target / name
    folder = _folder(mirror)
    if folder is None:
        told = _clone(mirror, version, place)
    else:
        candidates = [folder / name, folder / f"{name}.git", folder]
        if found := next((each for each in candidates if (each / "dbt_project.yml").is_file()), None):
            shutil.copytree(found, place, ignore=shutil.ignore_patterns(".git"))
            told = ""
        elif bare := next((each for each in candidates if _is_repository(each)), None):
            told = _clone(str(bare), version, place)
        else:
            told = f"there is no dbt package {name}; expected it there or in a folder of that name, as files or as git"
    if told:
        print(f"error: {mirror}: {told}", file=sys.stderr)
        return 1
    print(f"dbt package {name} is taken from {mirror}")
    return 0


def _folder(mirror: str) -> Path | None:
    """The folder that a path or a file:// URL names; None for what git is to fetch."""
    url = urlsplit(mirror)
    if url.scheme == "file":
        return Path(unquote(url.path))
    path = Path(mirror).expanduser()
    # What is no folder, and no address either, is a path that was spelt wrong.
    return path if path.is_dir() or (not url.scheme and ":" not in mirror) else None


def _is_repository(folder: Path) -> bool:
    """Whether a folder is a git repository, bare or with files."""
    return (folder / "HEAD").is_file() or (folder / ".git").exists()


def _clone(source: str, version: str, place: Path) -> str:
    """Takes a tag of a repository; what is wrong, or nothing."""
    # A path would be linked to, with a warning that --depth is ignored; as a URL it is fetched.
    url = Path(source).resolve().as_uri() if Path(source).is_dir() else source
    clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", version, url, str(place)]
    done = subprocess.run(clone, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"{done.stderr.strip()}; expected a folder, or a git repository with tag {version}"
    shutil.rmtree(place / ".git", ignore_errors=True)
    return ""


def _stand_in(package: dict[str, Any], target: Path) -> None:
    name = _name(package)
    place = target / name
    (place / "macros").mkdir(parents=True, exist_ok=True)
    project = f"name: {name}\nversion: 0.0.0\nconfig-version: 2\n"
    (place / "dbt_project.yml").write_text(project, encoding="utf-8")
    print(
        f"the dbt package hub cannot be reached: {name} is left out, and with it `{LEFT_OUT.get(name, name)}`; "
        "all else works. `make packages` tries again; DBT_PACKAGES_FROM names a mirror (path, file:// or git URL)."
    )


if __name__ == "__main__":
    sys.exit(main())
