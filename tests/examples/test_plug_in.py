"""How `lake generate` and `lake demo` find example systems: beside this package, and in packages elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import examples
from ingest.cli.app import app
from ingest.cli.examples import find
from ingest.errors import LakeError

ELSEWHERE = """
from types import SimpleNamespace

class Shop:
    about = "a shop of one table"

    def generate(self, to, *, scale, seed, form, phase, ends, progress):
        progress("shop.sale", 3, 3)
        return SimpleNamespace(records=3, files=1, late=0, repeated=0)

    def demonstrate(self, scale):
        return 7 if scale == 0.5 else 0

SYSTEM = Shop()
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package on Python's path that has an example system and says so by an entry point."""
    (tmp_path / "shop_example.py").write_text(ELSEWHERE, encoding="utf-8")
    information = tmp_path / "shop_example-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-example\nVersion: 1.0\n", encoding="utf-8")
    points = "[lake.examples]\nshop = shop_example:SYSTEM\nunfit = shop_example_of_none:SYSTEM\n"
    (information / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_system_beside_this_package_is_found() -> None:
    assert find("tickit") is examples.system("tickit")


def test_a_system_of_a_package_elsewhere_is_found_and_played(elsewhere: None, tmp_path: Path) -> None:
    written = CliRunner().invoke(app, ["generate", "shop", "--out", str(tmp_path / "data")])
    assert written.exit_code == 0, written.output
    assert "3 events in 1 files" in " ".join(written.output.split())
    assert CliRunner().invoke(app, ["demo", "shop", "--scale", "0.5"]).exit_code == 7


def test_without_a_name_all_are_listed_and_what_one_of_them_lacks(elsewhere: None) -> None:
    listed = CliRunner().invoke(app, ["demo"], env={"COLUMNS": "200"})
    assert listed.exit_code == 0, listed.output
    lines = dict(line.removeprefix("lake demo ").split(None, 1) for line in listed.output.splitlines())
    assert lines["shop"] == "a shop of one table"
    assert lines["tickit"] == examples.system("tickit").about
    assert "shop_example_of_none, which is not installed" in lines["unfit"]


def test_a_name_that_is_none_lists_the_systems(elsewhere: None) -> None:
    with pytest.raises(LakeError, match=r"one of (\w+, )*shop, tickit, unfit"):
        find("nothing")


def test_what_an_example_needs_and_has_not_is_named(elsewhere: None) -> None:
    with pytest.raises(LakeError, match="the Python package shop_example_of_none, which is not installed"):
        find("unfit")


def test_a_package_examples_of_somebody_else_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "examples"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(LakeError, match="no example systems are installed"):
        find("tickit")
    monkeypatch.delitem(sys.modules, "examples")
