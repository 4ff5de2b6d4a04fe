"""`make slim` on Athena: what a change builds beside main's tables, how rows differ, and that nothing is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import REPOSITORY

from athena.engine.building import AthenaModels, invoked
from athena.engine.local import LocalAthena
from ci.slim import Slim

pytestmark = pytest.mark.athena
COLUMNS = [{"name": "id", "data_type": "int"}, {"name": "name", "data_type": "string"}]


def test_a_change_is_built_beside_main(models: AthenaModels, athena: LocalAthena) -> None:
    """As a merge into a copy of main's table, with a column that main's contract lacks; what has not changed is read
    from main's."""
    (models.root / "selectors.yml").symlink_to(REPOSITORY / "selectors.yml")
    declared(models, COLUMNS)
    models.write("source", "select * from (values (1, 'a'), (2, 'b'), (3, null)) as t (id, name)", unique_key="id")
    models.write("items", "select * from {{ ref('source') }}", unique_key="id")
    assert invoked(models.root, "build").success
    declared(models, [*COLUMNS, {"name": "tens", "data_type": "int"}])
    changed = "select id, upper(name) as name, id * 10 as tens from {{ ref('source') }} where id < 3"
    models.write("items", changed + " union all select 4, 'd', 40", unique_key="id")
    here, state = Path.cwd(), models.root / "target_athena"
    options = ("--profiles-dir", str(models.root), "--target", "athena")
    text, failed = Slim(models.root, _kept(state), options).run(f"{models.schema}__pr_1")
    os.chdir(here)
    assert failed == []
    assert "| items | it has changed |" in text
    assert "| source |" not in text
    assert "| items | 3 | 3 | 1 | 1 | 2 | name 2 |" in text
    assert not [row for row in athena.ask("show schemas") if str(row[0]).startswith(f"{models.schema}__pr_")]
    assert models.rows("items") == [["1", "a"], ["2", "b"], ["3", None]]


def declared(models: AthenaModels, columns: list[dict[str, str]]) -> None:
    """The models with their columns, those of `items` as a contract to which columns may be added."""
    config = {"contract": {"enforced": True}, "on_schema_change": "append_new_columns"}
    items = {"name": "items", "config": config, "columns": columns}
    models.declare(version=2, models=[{"name": "source", "columns": COLUMNS}, items])


def _kept(target: Path) -> Path:
    """The manifest of a build, where no later command of dbt writes."""
    kept = target.parent / "state"
    kept.mkdir()
    (kept / "manifest.json").write_bytes((target / "manifest.json").read_bytes())
    return kept
