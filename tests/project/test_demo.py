"""What `make demo` plays, and on what: it never removes a lake that is not its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY

from dev.demo import BEGUN, BESIDE, begin, begin_anew, duration
from examples import names, system
from examples.system import Demo
from ingest.config.project import Project
from ingest.errors import LakeError


def test_what_a_session_leaves_is_no_lake_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every dbt command that compiles opens one: `make demo` behind `make lint` was refused."""
    home = tmp_path / "lake"
    monkeypatch.setenv("LAKE_HOME", str(home))
    settings = Project.load(REPOSITORY).target["server_side_parameters"]
    named = set(re.findall(rf"{re.escape(str(home))}/(\w+)", " ".join(map(str, settings.values()))))
    # The tables; and what is uploaded, where they are on S3.
    assert named >= {"warehouse", "s3a"}
    for name in named - {"warehouse", "s3a"}:
        (home / name).mkdir(parents=True)
    begin_anew(home)
    assert [*home.iterdir()] == [home / BEGUN]


def test_a_lake_of_an_earlier_demonstration_is_begun_anew(tmp_path: Path) -> None:
    home = tmp_path / "lake"
    (home / "silver").mkdir(parents=True)
    (home / BEGUN).touch()
    begin_anew(home)
    assert [*home.iterdir()] == [home / BEGUN]


@pytest.mark.parametrize("is_of_a_demonstration", [False, True])
def test_servers_and_what_else_lies_beside_a_lake_stay(is_of_a_demonstration: bool, tmp_path: Path) -> None:
    """`make up`, then `make demo`, or the other way round: the data of servers that are running was removed."""
    for name in BESIDE:
        (tmp_path / name).mkdir()
        (tmp_path / name / "kept").touch()
    if is_of_a_demonstration:
        (tmp_path / BEGUN).touch()
        (tmp_path / "silver").mkdir()
    begin_anew(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {*BESIDE, BEGUN}
    assert all((tmp_path / name / "kept").exists() for name in BESIDE)


@pytest.mark.parametrize("beside", [(), ("manifest.json", "bronze")], ids=["alone", "with events of an example"])
def test_a_lake_of_somebody_else_is_refused_and_kept(beside: tuple[str, ...], tmp_path: Path) -> None:
    home = tmp_path / "lake"
    (home / "silver").mkdir(parents=True)
    (home / "metastore").mkdir()
    for name in beside:
        (home / name).mkdir()
    with pytest.raises(LakeError, match="not made by `make demo`"):
        begin_anew(home)
    assert (home / "silver").is_dir()


def test_a_lake_that_a_system_was_played_beside_is_somebodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lake demo` in an empty folder: a later `make demo` removed what was landed there since."""
    monkeypatch.setenv("LAKE_HOME", str(tmp_path))
    begin(tmp_path, system("customers"), is_beside=True)
    (tmp_path / "silver").mkdir()
    with pytest.raises(LakeError, match="not made by `make demo`"):
        begin_anew(tmp_path)


def test_a_minute_has_no_sixtieth_second() -> None:
    told = {0.4: "0 min 0 s", 59.6: "1 min 0 s", 61.2: "1 min 1 s", 419.7: "7 min 0 s"}
    assert {seconds: duration(seconds) for seconds in told} == told


@pytest.mark.parametrize("name", names())
def test_every_system_says_how_it_is_played(name: str) -> None:
    played = system(name)
    assert played.name == name
    assert played.demo.phases[0].phase == "snapshot"
    assert played.about
    assert played.demo.docs
    # What is declared for another system, and not landed, is not built.
    selectors = yaml.safe_load((REPOSITORY / "selectors.yml").read_text(encoding="utf-8"))["selectors"]
    (definition,) = [each["definition"] for each in selectors if each["name"] == name]
    assert definition == {"method": "source", "value": played.demo.source, "childrens_parents": True}
    assert played.demo.build[:2] == ("--selector", name)


def test_what_is_looked_at_is_where_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_SCHEMA", "mine")
    queries = [look.query for name in names() for look in Demo.read(REPOSITORY / "examples" / name / "demo.yml").look]
    assert any(" from mine_" in query for query in queries)
    assert not any("lakehouse_" in query for query in queries)
