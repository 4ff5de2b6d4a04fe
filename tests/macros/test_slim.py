"""Builds of pull requests, on branches of a real repository: what is built is what has changed, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY, new_project, pg, table_of
from lake import Server
from modeling import Models
from pyspark.sql import SparkSession

from ci.slim import Change, Slim
from ingest.errors import LakeError

pytestmark = pytest.mark.spark
ORDERS = {"id": "int", "customer": "int", "amount": "int"}
OPTIONS = {"type": "cow", "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
FCT = "select orders.id, customer, {{ in_cents('orders.amount') }} as amount from {{ ref('stg_orders') }} as orders"
TOTALS = (
    "select customer as id, count(*) as orders, sum(amount) as amount from {{ ref('fct_orders') }} group by customer"
)
REGIONS = "select regions.id, regions.name from {{ ref('regions') }} as regions"

VERSIONS = """{%% snapshot snap_regions %%}
{{ config(
    unique_key='id', strategy='timestamp', updated_at='at', file_format='hudi', schema='%s', options={'type': 'cow'},
) }}
select id, name, timestamp '2026-01-01 00:00:00' as at from {{ ref('regions') }}
{%% endsnapshot %%}"""


def columns_of(**types: str) -> list[dict[str, str]]:
    """Columns of a model, as its YAML declares them."""
    return [{"name": name, "data_type": data_type} for name, data_type in types.items()]


DECLARED = {
    "version": 2,
    "models": [
        {"name": "fct_orders", "columns": columns_of(id="int", customer="int", amount="int")},
        {"name": "dim_regions", "columns": columns_of(id="int", name="string")},
    ],
    "exposures": [
        {
            "name": "dashboard", "type": "dashboard", "owner": {"email": "team@example.com"},
            "depends_on": ["ref('customer_totals')"],
        }
    ],
}  # fmt: skip


@dataclass
class Repository:
    """A repository whose main branch is built, with its manifest kept."""

    models: Models
    state: Path

    @property
    def root(self) -> Path:
        """Its folder."""
        return self.models.project.root

    def git(self, *words: str) -> None:
        """Runs git, as nobody in particular."""
        who = ("-c", "user.name=test", "-c", "user.email=test@example.com")
        subprocess.run(["git", *who, *words], cwd=self.root, check=True, capture_output=True)

    def built(self, change: Callable[[Repository], object], name: str) -> tuple[set[str], str]:
        """What a branch with a change builds, but for tests; and what is told of it. Main is as it was, then."""
        self.git("checkout", "-b", name)
        change(self)
        self.git("commit", "--all", "--allow-empty", "--message", name)
        schema = f"lakehouse__pr_{name}"
        # Of a branch whose name begins alike.
        other = f"{schema}_2".lower()
        self.models.do(f"create database {other}")
        before, options = Path.cwd(), ("--profiles-dir", str(self.root), *self.models.target)
        with redirect_stdout(StringIO()) as shown:
            text, failed = Slim(self.root, self.state, options).run(schema)
        os.chdir(before)
        self.git("checkout", "main")
        assert failed == []
        assert "unique_id" not in shown.getvalue()
        assert "rows_here" not in shown.getvalue()
        left = {row["namespace"] for row in self.models.ask("show databases")}
        assert {each for each in left if each.startswith(schema.lower())} == {other}
        self.models.do(f"drop database {other}")
        rows = [line.split("|") for line in text.splitlines() if line.startswith("| ") and "because" not in line]
        return {row[1].strip() for row in rows if len(row) == 5 and "---" not in row[1]}, text


@pytest.fixture(scope="module")
def repository(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, server: Server | None
) -> Iterator[Repository]:
    project = new_project(tmp_path_factory.mktemp("slim"), {"tables": [table_of("orders", ORDERS, ["id"])]})
    models = Models.of(spark, project, server, file_format="hudi", unique_key="id", options=OPTIONS)
    # A branch changes macros as well: the repository has its own.
    macros = (project.root / "macros").resolve()
    (project.root / "macros").unlink()
    shutil.copytree(macros, project.root / "macros")
    (project.root / "macros" / "in_cents.sql").write_text("{% macro in_cents(value) %}100 * {{ value }}{% endmacro %}")
    (project.root / "selectors.yml").symlink_to(REPOSITORY / "selectors.yml")
    (project.root / "seeds").mkdir()
    (project.root / "seeds" / "regions.csv").write_text("id,name\n1,north\n2,south\n")
    models.write(
        "stg_orders", "select * from {{ source('shop', 'orders') }} where __deleted = 'false'", materialized="view"
    )
    reach = [{"source": "shop.orders", "by": {"id": "id"}}]
    models.write("fct_orders", FCT, materialized="incremental", meta={"affected_by": reach})
    models.write("customer_totals", TOTALS, materialized="table")
    models.write("dim_regions", REGIONS, materialized="table")
    models.write("snap_regions", VERSIONS % project.schema, below="snapshots")
    project.write_models(yaml.safe_dump(DECLARED), "_models.yml")
    (project.root / ".gitignore").write_text("target\nbronze\n")
    (project.root / "requirements.lock").write_text("dbt-core==1.10.0\n")
    repository = Repository(models, tmp_path_factory.mktemp("state"))
    repository.git("init", "--initial-branch", "main")
    repository.git("add", "--all")
    repository.git("commit", "--message", "main")
    project.deliver("shop.orders", 0, [pg("c", 10 + n, id=n, customer=n % 3, amount=n) for n in range(9)])
    models.land("orders")
    assert {each.status for each in models.dbt("build").values()} <= {"success", "pass", "no-op"}
    shutil.copy(project.root / "target" / "manifest.json", repository.state)
    yield repository


def more_columns(repository: Repository) -> None:
    models = repository.models
    sql = FCT.replace(" from ", ", orders.amount > 4 as is_large from ", 1)
    models.write("fct_orders", sql, materialized="incremental", on_schema_change="append_new_columns")
    declared = yaml.safe_load(yaml.safe_dump(DECLARED))
    declared["models"][0]["columns"] += columns_of(is_large="boolean")
    models.project.write_models(yaml.safe_dump(declared), "_models.yml")


def other_rows(repository: Repository) -> None:
    sql = FCT + " where orders.id > 0 union all select 77, 7, 7"
    repository.models.write("fct_orders", sql, materialized="incremental")


def described(repository: Repository) -> None:
    declared = yaml.safe_load(yaml.safe_dump(DECLARED))
    declared["models"][1]["description"] = "One row per region."
    repository.models.project.write_models(yaml.safe_dump(declared), "_models.yml")


def another_source(repository: Repository) -> None:
    models, schema = repository.models, repository.models.project.schema
    models.do(f"create table {schema}.orders_kept using parquet as select * from {schema}.orders where id < 5")
    models.project.declare({"tables": [{**table_of("orders", ORDERS, ["id"]), "identifier": "orders_kept"}]})


@pytest.mark.slow
def test_schemas_that_do_not_go_by_the_profile_s_are_refused(repository: Repository) -> None:
    """As many projects have it: models are written where their folder says, whatever the profile's schema is."""
    own = "{% macro generate_schema_name(custom, node) %}{{ custom or 'analytics' }}{% endmacro %}"
    repository.git("checkout", "-b", "Own")
    macro = repository.root / "macros" / "generate_schema_name.sql"
    macro.write_text(own, encoding="utf-8")
    options = ("--profiles-dir", str(repository.root), *repository.models.target)
    try:
        with (
            redirect_stdout(StringIO()),
            pytest.raises(LakeError, match="nodes would be written over main's") as refused,
        ):
            Slim(repository.root, repository.state, options).run("lakehouse__pr_own")
    finally:
        macro.unlink()
        repository.git("checkout", "main")
    assert "schemas whose names hold lakehouse__pr_own" in refused.value.message


def test_a_new_column_builds_the_model_and_what_reads_it(repository: Repository) -> None:
    built, text = repository.built(more_columns, "Column")
    assert built == {"fct_orders", "customer_totals"}
    assert "| fct_orders | it has changed | new: is_large |" in text
    assert "| customer_totals | of what it reads |  |" in text
    assert "Consumers: dashboard." in text
    # The columns that main has are as they were.
    assert "| fct_orders | 9 | 9 | 0 | 0 | 0 |  |" in text


@pytest.mark.slow
def test_rows_that_differ_are_counted(repository: Repository) -> None:
    built, text = repository.built(other_rows, "rows")
    assert built == {"fct_orders", "customer_totals"}
    assert "| fct_orders | 9 | 9 | 1 | 1 | 0 |  |" in text
    assert "| customer_totals | 4 | 3 | 1 | 0 | 1 | orders 1 |" in text


def test_a_value_that_moves_to_another_column_is_a_change(spark: SparkSession, tmp_path: Path) -> None:
    """Rows are compared by a hash, and Spark's passes over nulls."""
    models = Models.of(spark, new_project(tmp_path), materialized="table", file_format="parquet")
    rows = "select *, map('a', a) as m from values %s, (2, null, null), (3, 1, 1) as rows (id, a, b)"
    models.write("ours", rows % "(1, null, 5), (5, 1, 1)")
    models.write("theirs", rows % "(1, 5, null), (4, 1, 1)")
    between = "ref('ours'), ref('theirs'), ['id']"
    models.write("by_row", f"{{{{ row_differences({between}) }}}}")
    models.write("by_column", f"{{{{ column_differences({between}) }}}}")
    models.run()
    counts = {"rows_here": 4, "rows_there": 4, "only_here": 1, "only_there": 1, "changed": 1}
    assert models.rows("by_row", *counts) == [counts]
    assert models.rows("by_column", "id", "a", "b", "m") == [{"id": 0, "a": 1, "b": 1, "m": 1}]


@pytest.mark.slow
def test_a_macro_builds_what_uses_it(repository: Repository) -> None:
    macro = "{% macro in_cents(value) %}1000 * {{ value }}{% endmacro %}"
    path = repository.root / "macros" / "in_cents.sql"
    built, text = repository.built(lambda _: path.write_text(macro), "macro")
    assert built == {"fct_orders", "customer_totals"}
    assert "| fct_orders | 9 | 9 | 0 | 0 | 8 | amount 8 |" in text


@pytest.mark.slow
def test_a_source_builds_what_reads_it(repository: Repository) -> None:
    built, text = repository.built(another_source, "source")
    assert built == {"stg_orders", "fct_orders", "customer_totals"}
    assert "| stg_orders | of what it reads |  |" in text
    assert "| fct_orders | 5 | 9 | 0 | 4 | 0 |  |" in text
    assert "Consumers: dashboard." in text


@pytest.mark.slow
def test_what_writes_tables_builds_all(repository: Repository) -> None:
    """dbt tells no model that it is written by it."""
    macros = repository.root / "macros"
    edited = (
        macros / "hudi" / "hudi_merge_sql.sql",
        macros / "hudi" / "hudi_drop_failed.sql",
        macros / "hudi" / "snapshot_check_all_get_existing_columns.sql",
        macros / "adapter" / "list_relations_without_caching.sql",
    )

    def change(_: Repository) -> None:
        for path in edited:
            path.write_text(re.sub(r"(?m)^(\{% macro .* -%\})$", r"\1{#- -#}", path.read_text(encoding="utf-8")))
        # dbt's own stands in its place.
        (macros / "adapter" / "create_table_as.sql").unlink()
        (repository.root / "requirements.lock").write_text("dbt-core==1.10.1\n")

    built, told = repository.built(change, "written")
    assert built >= {"stg_orders", "fct_orders", "customer_totals", "dim_regions"}
    said, _, names = told.splitlines()[0].partition(": ")
    assert said == "Everything was built, for what writes tables has changed"
    assert names.split(", ") == [
        "_is_written_beside", "_without_columns_of_hudi", "hudi_drop_failed", "hudi_merge_sql",
        "snapshot_check_all_get_existing_columns", "spark__create_table_as", "spark__list_relations_without_caching",
        "requirements.lock.",
    ]  # fmt: skip
    assert "| fct_orders | of how it is written |  |" in told
    assert "| fct_orders | 9 | 9 | 0 | 0 | 0 |  |" in told


@pytest.mark.slow
def test_a_new_proof_of_a_model_that_is_not_built_is_of_main_s_table(repository: Repository) -> None:
    declared = yaml.safe_load(yaml.safe_dump(DECLARED))
    declared["models"][0]["data_tests"] = ["equals_its_select"]
    built, _ = repository.built(
        lambda it: it.models.project.write_models(yaml.safe_dump(declared), "_models.yml"), "proof"
    )
    assert built == set()


def test_a_description_builds_nothing_that_has_rows(repository: Repository) -> None:
    built, text = repository.built(described, "yaml")
    assert built == set()
    assert text == "Nothing that is built has changed.\n"


@pytest.mark.slow
def test_a_seed_builds_what_reads_it(repository: Repository) -> None:
    path = repository.root / "seeds" / "regions.csv"
    built, text = repository.built(lambda _: path.write_text("id,name\n1,north\n2,west\n3,east\n"), "seed")
    assert built == {"regions", "dim_regions", "snap_regions"}
    for name in ("dim_regions", "snap_regions"):
        assert f"| {name} | 3 | 2 | 1 | 0 | 1 | name 1 |" in text
    assert "Consumers: none." in text


@pytest.mark.parametrize(
    ("config", "is_refused"),
    [
        ({"unique_key": ["id"]}, False),
        ({"unique_key": "id, at"}, True),
        ({"partition_by": "at"}, True),
        ({"options": {"type": "mor"}}, True),
        ({"options": {"hoodie.bucket.index.num.buckets": 2}}, True),
        ({"options": {"type": "cow", "hoodie.clean.automatic": "false"}}, False),
        ({"file_format": "parquet"}, True),
        ({"materialized": "table", "unique_key": "at"}, False),
    ],
)
def test_a_setting_that_stays_as_the_table_was_made_needs_a_full_refresh(
    config: dict[str, Any], is_refused: bool
) -> None:
    settings = {"materialized": "incremental", "file_format": "hudi", "unique_key": "id"}
    main, node = (
        {"name": "fct", "relation_name": "shop.fct", "columns": {}, "config": {**settings, **more}}
        for more in ({}, config)
    )
    change = Change.of(node, main, is_modified=True)
    assert not any("," in column for column in change.key)
    told = change.because("of what it reads")
    assert told == ("it has changed, and needs --full-refresh" if is_refused else "it has changed")


@pytest.mark.parametrize(("names", "began"), [(None, "dbt_valid_from"), ({"dbt_valid_from": "since"}, "since")])
def test_a_snapshot_has_a_row_for_each_version(names: dict[str, str] | None, began: str) -> None:
    config = {"materialized": "snapshot", "unique_key": "id, place", "snapshot_meta_column_names": names}
    node = {"name": "snap", "relation_name": "shop.snap", "columns": {}, "config": config}
    assert Change.of(node, None, is_modified=True).key == ["id", "place", began]


@pytest.mark.slow
def test_without_a_state_everything_is_built(repository: Repository, tmp_path: Path) -> None:
    repository.state, kept = tmp_path, repository.state
    _, text = repository.built(lambda _: None, "whole")
    repository.state = kept
    assert text.startswith("Everything was built")
