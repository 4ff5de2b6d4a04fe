"""A new lake begins with a copy of an empty catalog, where that is the one that Spark would make."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.spark import embedded_catalog

URL = "spark.hadoop.javax.jdo.option.ConnectionURL"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `make setup` has made: here a file, and one that an open database would have."""
    made = tmp_path / "made"
    (made / "seg0").mkdir(parents=True)
    (made / "seg0" / "c10.dat").write_bytes(b"pages")
    (made / "db.lck").touch()
    monkeypatch.setattr(embedded_catalog, "CATALOG", made)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return made


def test_a_new_lake_has_a_copy(made: Path, tmp_path: Path) -> None:
    catalog = tmp_path / "lake" / "metastore"
    embedded_catalog.begin({URL: f"jdbc:derby:;databaseName={catalog};create=true"})
    assert (catalog / "seg0" / "c10.dat").read_bytes() == b"pages"
    assert sorted(path.name for path in catalog.parent.rglob("*")) == ["c10.dat", "metastore", "seg0"]


def test_the_catalog_of_a_lake_is_left_alone(made: Path, tmp_path: Path) -> None:
    catalog = tmp_path / "lake" / "metastore"
    catalog.mkdir(parents=True)
    (catalog / "service.properties").touch()
    embedded_catalog.begin({URL: f"jdbc:derby:;databaseName={catalog};create=true"})
    assert [path.name for path in catalog.iterdir()] == ["service.properties"]


@pytest.mark.parametrize("other", ["a server's", "another Spark", "another Hive", "none made", "a file in the way"])
def test_else_hive_makes_its_own(other: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    settings = {URL: f"jdbc:derby:;databaseName={lake / 'metastore'};create=true"}
    match other:
        case "a server's":
            settings = {URL: "jdbc:postgresql://localhost/metastore"}
        case "another Spark":
            monkeypatch.setenv("SPARK_HOME", str(tmp_path))
        case "another Hive":
            settings["spark.sql.hive.metastore.version"] = "3.1.3"
        case "none made":
            monkeypatch.setattr(embedded_catalog, "CATALOG", tmp_path / "none")
        case _:
            lake.touch()
    embedded_catalog.begin(settings)
    assert not lake.is_dir()
