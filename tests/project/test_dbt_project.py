"""The dbt project against its own rules, by dbt's manifest; needs no Spark."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.cli.main import dbtRunner

from ingest.config.project import Project
from ingest.config.sources_file import load_sources
from ingest.spark.session import REBASE_MODES

REPOSITORY = Path(__file__).resolve().parents[2]
Node = dict[str, Any]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """dbt's manifest of the project, parsed anew."""
    target = tmp_path_factory.mktemp("target")
    here = Path.cwd()
    result = dbtRunner().invoke(
        [
            *("--quiet", "parse", "--no-partial-parse", "--warn-error", "--project-dir", str(REPOSITORY)),
            *("--profiles-dir", str(REPOSITORY), "--target-path", str(target), "--log-path", str(target)),
        ]
    )
    os.chdir(here)
    assert result.success, result.exception
    content: dict[str, Any] = json.loads((target / "manifest.json").read_text(encoding="utf-8"))
    return content


def own_nodes(manifest: dict[str, Any], *kinds: str) -> list[Node]:
    """The project's nodes of some resource types."""
    return [
        node
        for node in manifest["nodes"].values()
        if node["resource_type"] in kinds and node["package_name"] == "lakehouse"
    ]


def test_dbt_and_ingest_read_the_same_declarations(manifest: dict[str, Any]) -> None:
    by_dbt = {
        (node["source_name"], node["name"]): (
            node["schema"],
            node["identifier"],
            node["external"]["location"],
            [column["name"] for column in node["columns"].values()],
            {**node["source_meta"]["ingest"], **node["config"]["meta"]["ingest"]},
        )
        for node in manifest["sources"].values()
    }
    by_ingest = {}
    for source in load_sources(Project.load(REPOSITORY)).values():
        for table in source.tables:
            options = table.options.model_dump(exclude_unset=True)
            options = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
            if "schema_file" in options:
                options["schema_file"] = str(Path(options["schema_file"]).relative_to(REPOSITORY))
            names = [column.name for column in table.columns]
            by_ingest[source.name, table.name] = (table.schema, table.name, table.location, names, options)
    assert by_ingest == by_dbt


def test_every_embedded_target_writes_and_reads_old_dates_as_they_are() -> None:
    outputs = yaml.safe_load((REPOSITORY / "profiles" / "profiles.yml").read_text(encoding="utf-8"))["lakehouse"][
        "outputs"
    ]
    embedded = [output for output in outputs.values() if output.get("method") == "session"]
    assert embedded
    for output in embedded:
        settings = output["server_side_parameters"]
        assert {name: settings.get(name) for name in REBASE_MODES} == dict.fromkeys(REBASE_MODES, "CORRECTED")
    assert len(REBASE_MODES) == 6


def test_the_models_of_the_article_are_there(manifest: dict[str, Any]) -> None:
    names = {node["name"] for node in own_nodes(manifest, "model")}
    staging = {
        f"stg_tickit__{name}" for name in ("categories", "dates", "events", "listings", "sales", "users", "venues")
    }
    intermediate = {"int_buyers_extracted_from_users", "int_sellers_extracted_from_users"}
    marts = {"fct_sales", "fct_listings", "dim_events", "dim_venues", "dim_dates", "dim_buyers", "dim_sellers"}
    assert staging | intermediate | marts <= names
    exposure = manifest["exposures"]["exposure.lakehouse.tickit_sales_summary"]
    assert {name.rsplit(".", 1)[-1] for name in exposure["depends_on"]["nodes"]} == {"fct_sales", "fct_listings"}


def test_every_column_of_every_model_seed_snapshot_and_source_is_described(manifest: dict[str, Any]) -> None:
    nodes = [*own_nodes(manifest, "model", "seed", "snapshot"), *manifest["sources"].values()]
    bare = [node["unique_id"] for node in nodes if not node["description"].strip()]
    bare += [
        f"{node['unique_id']}.{column['name']}"
        for node in nodes
        for column in node["columns"].values()
        if not column["description"].strip()
    ]
    assert not bare
    assert not [node["unique_id"] for node in nodes if not node["columns"]]


def test_every_model_has_a_key_that_is_tested_unique_and_not_null(manifest: dict[str, Any]) -> None:
    tested: dict[str, set[str]] = {}
    for test in own_nodes(manifest, "test"):
        if metadata := test.get("test_metadata"):
            tested.setdefault(test["attached_node"] or "", set()).add(metadata["name"])
    missing = []
    for node in own_nodes(manifest, "model", "seed", "snapshot"):
        kinds = tested.get(node["unique_id"], set())
        if "not_null" not in kinds or not kinds & {"unique", "unique_combination_of_columns"}:
            missing.append(node["unique_id"])
    assert not missing


def test_there_are_over_a_hundred_data_tests_with_names_of_their_own(manifest: dict[str, Any]) -> None:
    tests = own_nodes(manifest, "test")
    assert len(tests) > 100
    names = Counter(test["name"] for test in tests)
    assert not [name for name, count in names.items() if count > 1]
    # dbt's made-up names end in a hash or repeat the arguments: a given name says what fails.
    assert not [name for name in names if re.search(r"_[0-9a-f]{32}$", name)]
    singular = [test for test in tests if not test.get("test_metadata")]
    assert singular
    assert not [test["name"] for test in singular if not re.match(r"\s*-- Fails if", test["raw_code"])]


def test_calculations_have_unit_tests(manifest: dict[str, Any]) -> None:
    tested = {test["model"] for test in manifest["unit_tests"].values()}
    assert {"stg_tickit__sales", "fct_sales", "fct_listings", "fct_orders", "dim_order_customers"} <= tested


def test_marts_have_contracts_groups_and_hudi_tables_of_their_key(manifest: dict[str, Any]) -> None:
    marts = [node for node in own_nodes(manifest, "model") if node["fqn"][1] == "marts"]
    assert len(marts) >= 8
    for node in marts:
        config = node["config"]
        assert config["contract"]["enforced"], node["name"]
        assert config["file_format"] == "hudi", node["name"]
        assert config["unique_key"], node["name"]
        assert config["group"], node["name"]
    facts = {node["name"] for node in marts if node["config"]["materialized"] == "incremental"}
    assert {"fct_sales", "fct_listings", "fct_daily_sales", "fct_orders", "fct_order_items", "fct_film_actors"} <= facts
    owners = {group["name"]: group["owner"] for group in manifest["groups"].values()}
    assert all(owner["name"] and owner["email"].endswith("example.com") for owner in owners.values())


def test_every_source_table_has_freshness(manifest: dict[str, Any]) -> None:
    for node in manifest["sources"].values():
        assert node["loaded_at_field"], node["name"]
        assert node["freshness"]["warn_after"]["count"], node["name"]


def test_layers_are_kept(manifest: dict[str, Any]) -> None:
    allowed = {
        "staging": {"source"},
        "intermediate": {"staging", "intermediate"},
        "marts": {"staging", "intermediate", "marts", "seed"},
    }
    nodes = {**manifest["nodes"], **manifest["sources"]}
    wrong = []
    for node in own_nodes(manifest, "model"):
        for parent_id in node["depends_on"]["nodes"]:
            parent = nodes[parent_id]
            layer = parent["fqn"][1] if parent["resource_type"] == "model" else parent["resource_type"]
            if layer not in allowed[node["fqn"][1]]:
                wrong.append(f"{node['name']} <- {parent['name']} ({layer})")
    assert not wrong


def test_seeds_are_joined_by_marts(manifest: dict[str, Any]) -> None:
    used = {parent for node in own_nodes(manifest, "model") for parent in node["depends_on"]["nodes"]}
    assert not [seed["name"] for seed in own_nodes(manifest, "seed") if seed["unique_id"] not in used]


def test_no_lock_says_where_a_package_came_from() -> None:
    names = ("requirements.lock", "ingest/spark/jars.lock", "Makefile", "dev/setup.sh", "pyproject.toml", ".ci/run")
    for file in (*(REPOSITORY / name for name in names), *(REPOSITORY / "dev" / "chain" / "locks").iterdir()):
        assert "://" not in file.read_text(encoding="utf-8"), file
    assert "--hash=sha256:" in (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")


def test_what_a_column_is_called_in_a_database_is_no_description(manifest: dict[str, Any]) -> None:
    nodes = [*own_nodes(manifest, "model", "seed", "snapshot"), *manifest["sources"].values()]
    columns = [(node["name"], column) for node in nodes for column in node["columns"].values()]
    told = [
        (name, column["name"]) for name, column in columns if re.match(r"(primary )?key\b", column["description"], re.I)
    ]
    assert not told


def test_the_docs_site_opens_with_a_page_of_ours_whose_links_lead_somewhere(manifest: dict[str, Any]) -> None:
    page = manifest["docs"]["doc.lakehouse.__overview__"]["block_contents"]
    linked = re.findall(r"\(#!/(\w+)/([\w.]+)\)", page)
    assert len(linked) > 5
    known = manifest["nodes"].keys() | manifest["sources"].keys()
    assert not [node for kind, node in linked if node not in known or not node.startswith(f"{kind}.")]
    # Blocks of docs, and no other text of docs/.
    sources = {node["source_name"] for node in manifest["sources"].values()}
    known_docs = {"overview.md", *(f"staging/{name}/_{name}__docs.md" for name in sources)}
    found = {doc["path"] for doc in manifest["docs"].values() if doc["package_name"] == "lakehouse"}
    assert {"overview.md", "staging/tickit/_tickit__docs.md"} <= found <= known_docs


def test_each_layer_has_a_colour_of_its_own_in_the_graph(manifest: dict[str, Any]) -> None:
    colours: dict[str, set[str | None]] = {}
    for node in own_nodes(manifest, "model", "seed", "snapshot"):
        layer = node["fqn"][1] if node["resource_type"] == "model" else node["resource_type"]
        colours.setdefault(layer, set()).add(node["docs"]["node_color"])
    assert colours.keys() == {"staging", "intermediate", "marts", "seed", "snapshot"}
    (distinct,) = {len(each) for each in colours.values()}
    assert distinct == 1
    assert len(set.union(*colours.values()) - {None}) == len(colours)


def test_a_macro_has_the_arguments_that_are_told_of_it(manifest: dict[str, Any]) -> None:
    wrong: dict[str, tuple[list[str], list[str]]] = {}
    for macro in manifest["macros"].values():
        told = [argument["name"] for argument in macro["arguments"]]
        head = re.search(rf"macro {macro['name']}\((.*?)\)\s*-?%}}", macro["macro_sql"], re.DOTALL)
        if told and head and macro["package_name"] == "lakehouse":
            has = re.findall(r"(?:^|,)\s*(\w+)", head[1])
            wrong |= {macro["name"]: (told, has)} if told != has else {}
    assert wrong == {}


def test_snapshots_are_blocks_of_sql(manifest: dict[str, Any]) -> None:
    """Partial parsing loses one that YAML alone declares, once the macro of a test on it has changed (dbt 1.11)."""
    paths = [str(node["original_file_path"]) for node in own_nodes(manifest, "snapshot")]
    assert paths
    assert all(path.endswith(".sql") for path in paths)
