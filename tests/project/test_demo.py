"""What `make demo` begins on: it never removes a lake that is not its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.demo import begin_anew
from ingest.errors import LakeError


def test_a_catalog_that_a_dbt_command_left_is_no_lake_yet(tmp_path: Path) -> None:
    home = tmp_path / "lake"
    (home / "metastore").mkdir(parents=True)
    begin_anew(home)
    assert not home.exists()


def test_a_lake_of_an_earlier_demonstration_is_begun_anew(tmp_path: Path) -> None:
    home = tmp_path / "lake"
    (home / "silver").mkdir(parents=True)
    (home / "manifest.json").write_text("{}", encoding="utf-8")
    begin_anew(home)
    assert not home.exists()


def test_a_lake_of_somebody_else_is_refused_and_kept(tmp_path: Path) -> None:
    home = tmp_path / "lake"
    (home / "silver").mkdir(parents=True)
    (home / "metastore").mkdir()
    with pytest.raises(LakeError, match="not made by `make demo`"):
        begin_anew(home)
    assert (home / "silver").is_dir()
