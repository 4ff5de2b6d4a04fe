"""A mirror of dbt packages may be a folder or a git repository, named by its path or by a URL."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dev import dbt_packages

NAME, VERSION = "dbt_external_tables", "0.12.0"
PACKAGE = {"package": f"dbt-labs/{NAME}", "version": VERSION}


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def mirrors(tmp_path: Path) -> Path:
    """A folder `mirrors/` with the package as files, as a git repository, and as a bare one."""
    root = tmp_path / "the mirrors"
    files = root / "files" / NAME
    files.mkdir(parents=True)
    (files / "dbt_project.yml").write_text(f"name: {NAME}\nversion: {VERSION}\n", encoding="utf-8")
    (root / "bare").mkdir()
    git(files, "init", "--quiet")
    git(files, "add", ".")
    git(files, "commit", "--quiet", "--message", "one")
    git(files, "tag", VERSION)
    git(root, "clone", "--quiet", "--bare", str(files), str(root / "bare" / f"{NAME}.git"))
    return root


@pytest.mark.parametrize("place", ["files", f"files/{NAME}", "bare", f"bare/{NAME}.git"])
@pytest.mark.parametrize("as_url", [False, True], ids=["path", "file-url"])
def test_a_package_is_taken_from_a_folder_or_a_mirror(
    place: str, as_url: bool, mirrors: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    named = mirrors / place
    mirror = named.as_uri() if as_url else str(named)
    assert dbt_packages._from_mirror(mirror, PACKAGE, tmp_path / "packages") == 0
    assert (tmp_path / "packages" / NAME / "dbt_project.yml").is_file()
    assert not (tmp_path / "packages" / NAME / ".git").exists()
    assert capfd.readouterr() == (f"dbt package {NAME} is taken from {mirror}\n", "")


@pytest.mark.parametrize("kind", ["path", "file-url"])
def test_a_folder_that_is_not_there_is_refused(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "missing"
    mirror = str(missing) if kind == "path" else missing.as_uri()
    assert dbt_packages._from_mirror(mirror, PACKAGE, tmp_path / "packages") == 1
    assert f"error: {mirror}: there is no dbt package {NAME}" in capfd.readouterr().err


def test_a_mirror_without_the_version_is_refused(
    mirrors: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wanted = {**PACKAGE, "version": "9.9.9"}
    mirror = str(mirrors / "bare")
    assert dbt_packages._from_mirror(mirror, wanted, tmp_path / "packages") == 1
    assert "expected a folder, or a git repository with tag 9.9.9" in capfd.readouterr().err


@pytest.mark.parametrize("mirror", ["https://example.com/a.git", "git@example.com:a.git", "ssh://example.com/a"])
def test_an_address_is_for_git(mirror: str) -> None:
    assert dbt_packages._folder(mirror) is None
