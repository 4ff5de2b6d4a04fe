"""The rules of dbt-project-evaluator over dbt's manifest: `make lint` runs them, without a warehouse.

The package (https://github.com/dbt-labs/dbt-project-evaluator) says what its rules mean, and what they are good for. It
finds violations by models of its own, in a warehouse; these read the manifest, and nothing else. Thresholds are the
package's defaults. `incremental_parts`, `unproven_increments`, `macro_folders` and `undocumented_macros` are this
project's own, and what is asked of a model with a `unique_key` (`missing_primary_key_tests`).

What violates a rule and is meant to stands in `ci/rules.baseline.yml`, with the reason. The file may only shrink: an
entry that nothing violates any more is an error as well.

    python -m ci.rules [target/manifest.json]
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from ci.parts import columns_in, why_a_part

ROOT = Path(__file__).resolve().parent.parent
BASELINE = Path(__file__).with_suffix(".baseline.yml")
PREFIXES = {"staging": ("stg_",), "intermediate": ("int_",), "marts": ("fct_", "dim_")}
# From so many on it is a violation.
LEAF_CHILDREN, REFERENCES, CHAINED_VIEWS = 3, 7, 5
# Each folder of macros calls those behind it.
MACRO_FOLDERS = ("tests", "athena", "hudi", "increment", "read", "adapter")
MEANS_OF_KEY = {"unique", "not_null"}
Node = Mapping[str, Any]
Found = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class Graph:
    """dbt's manifest, as the rules ask it: nodes by their id."""

    manifest: Mapping[str, Any]

    @cached_property
    def models(self) -> dict[str, Node]:
        """The project's models."""
        return {key: node for key, node in self.manifest["nodes"].items() if node["resource_type"] == "model"}

    @cached_property
    def sources(self) -> dict[str, Node]:
        """The declared tables."""
        return dict(self.manifest["sources"])

    @cached_property
    def tests(self) -> dict[str, set[tuple[str, frozenset[str]]]]:
        """The generic tests that each node has of all its rows: the kind, and the columns that it looks at."""
        found: dict[str, set[tuple[str, frozenset[str]]]] = {}
        for node in self.manifest["nodes"].values():
            metadata = node.get("test_metadata")
            if node["resource_type"] == "test" and metadata and not node.get("config", {}).get("where"):
                told = metadata.get("kwargs", {})
                names = [
                    told.get("column_name") or node.get("column_name"),
                    *(told.get("combination_of_columns") or ()),
                ]
                columns = frozenset(str(name).strip("`").lower() for name in names if name)
                found.setdefault(node["attached_node"] or "", set()).add((metadata["name"], columns))
        return found

    @cached_property
    def macros(self) -> dict[str, Node]:
        """The project's own macros."""
        name = self.manifest.get("metadata", {}).get("project_name")
        every = self.manifest.get("macros", {})
        return {key: macro for key, macro in every.items() if macro.get("package_name") == name}

    def parents(self, key: str) -> list[str]:
        """What a node reads: models, sources, seeds, snapshots."""
        read = self.manifest["parent_map"].get(key, [])
        return [parent for parent in read if not parent.startswith(("macro.", "test.", "unit_test."))]

    def sources_of(self, key: str) -> list[str]:
        """The sources that a model reads itself."""
        return [parent for parent in self.parents(key) if parent in self.sources]

    def children(self, key: str) -> list[str]:
        """The models that read a node."""
        return [child for child in self.manifest["child_map"].get(key, []) if child in self.models]

    def layer(self, key: str) -> str:
        """The layer of a model, by its folder; '' for any other node."""
        node = self.models.get(key)
        return Path(node["original_file_path"]).parts[1] if node else ""

    def name(self, key: str) -> str:
        """The name of a node, as people know it."""
        node = self.models.get(key) or self.sources.get(key) or self.manifest["exposures"].get(key)
        if node is None:
            return key.rsplit(".", 1)[-1]
        return f"{node['source_name']}.{node['name']}" if key in self.sources else str(node["name"])

    def names(self, keys: Iterator[str] | list[str]) -> str:
        """The names of some nodes, with commas between."""
        return ", ".join(sorted(self.name(key) for key in keys))


Rule = Callable[[Graph], Found]
RULES: dict[str, Rule] = {}


def rule(check: Rule) -> Rule:
    """Makes a function one of the rules, under the name that the package has for it."""
    RULES[check.__name__] = check
    return check


# Modeling


@rule
def direct_join_to_source(graph: Graph) -> Found:
    """A model that reads both a source and a model."""
    for key in graph.models:
        read = graph.sources_of(key)
        if read and set(graph.parents(key)) & graph.models.keys():
            yield graph.name(key), f"reads {graph.names(read)} beside models"


@rule
def duplicate_sources(graph: Graph) -> Found:
    """Two declarations of one table."""
    relations = Counter(node["relation_name"] for node in graph.sources.values())
    for relation, number in relations.items():
        if number > 1:
            yield relation, f"is declared {number} times"


@rule
def hard_coded_references(graph: Graph) -> Found:
    """A table that is named in SQL, and not by ref or source."""
    for key, node in graph.models.items():
        text = re.sub(r"\{#.*?#\}|--[^\n]*|\{\{.*?\}\}|\{%.*?%\}", " ", node["raw_code"], flags=re.DOTALL)
        text = re.sub(r"\bextract\s*\([^()]*\)", " ", text, flags=re.IGNORECASE)
        for found in re.finditer(r"\b(?:from|join)\s+([`\"]?\w+[`\"]?(?:\.[`\"]?\w+[`\"]?)+)", text, re.IGNORECASE):
            yield graph.name(key), f"names {found[1]}"


@rule
def marts_or_intermediate_dependent_on_source(graph: Graph) -> Found:
    """A model behind staging that reads a source."""
    for key in graph.models:
        read = graph.sources_of(key)
        if read and graph.layer(key) in ("intermediate", "marts"):
            yield graph.name(key), f"reads {graph.names(read)}"


@rule
def model_fanout(graph: Graph) -> Found:
    """A model that several models read which nobody reads."""
    for key in graph.models:
        leaves = [child for child in graph.children(key) if not graph.children(child)]
        if len(leaves) > LEAF_CHILDREN and graph.layer(key) != "staging":
            yield graph.name(key), f"is read by {len(leaves)} models at the end: {graph.names(leaves)}"


@rule
def multiple_sources_joined(graph: Graph) -> Found:
    """A model that reads several sources."""
    for key in graph.models:
        read = graph.sources_of(key)
        if len(read) > 1:
            yield graph.name(key), f"reads {graph.names(read)}"


@rule
def rejoining_of_upstream_concepts(graph: Graph) -> Found:
    """A model that reads a parent and a child of it which nobody else reads."""
    for key in graph.models:
        read = set(graph.parents(key))
        for between in read & graph.models.keys():
            if graph.children(between) == [key]:
                for parent in sorted(read & set(graph.parents(between))):
                    yield (
                        graph.name(key),
                        f"reads {graph.name(parent)}, and {graph.name(between)}, which reads it for this alone",
                    )


@rule
def root_models(graph: Graph) -> Found:
    """A model that reads nothing."""
    for key in graph.models:
        if not graph.parents(key):
            yield graph.name(key), "reads no source and no model"


@rule
def source_fanout(graph: Graph) -> Found:
    """A source that several models read."""
    for key in graph.sources:
        if len(graph.children(key)) > 1:
            yield graph.name(key), f"is read by {graph.names(graph.children(key))}"


@rule
def staging_dependent_on_marts_or_intermediate(graph: Graph) -> Found:
    """A staging model that reads a model behind staging."""
    yield from _staging_that_reads(graph, "intermediate", "marts")


@rule
def staging_dependent_on_staging(graph: Graph) -> Found:
    """A staging model that reads another one."""
    yield from _staging_that_reads(graph, "staging")


def _staging_that_reads(graph: Graph, *layers: str) -> Found:
    for key in graph.models:
        read = [each for each in graph.parents(key) if graph.layer(each) in layers]
        if read and graph.layer(key) == "staging":
            yield graph.name(key), f"reads {graph.names(read)}"


@rule
def too_many_joins(graph: Graph) -> Found:
    """A model that reads many others."""
    for key in graph.models:
        if len(graph.parents(key)) >= REFERENCES:
            yield graph.name(key), f"reads {len(graph.parents(key))}: {graph.names(graph.parents(key))}"


@rule
def unused_sources(graph: Graph) -> Found:
    """A source that no model reads."""
    for key in graph.sources:
        if not graph.children(key):
            yield graph.name(key), "is read by no model"


# Testing


@rule
def missing_primary_key_tests(graph: Graph) -> Found:
    """A model whose `unique_key` is not tested, or that has none and no other tested key: unique, and never null."""
    for key, node in graph.models.items():
        tests, columns = graph.tests.get(key, set()), _unique_key(node)
        if columns:
            wanted: list[tuple[str, tuple[str, ...]]] = [("not_null", (column,)) for column in columns]
            # Of one column, a combination of it alone will do.
            if ("unique_combination_of_columns", frozenset(columns)) not in tests:
                wanted.append(("unique" if len(columns) == 1 else "unique_combination_of_columns", columns))
            lacking = [f"{kind} of {', '.join(of)}" for kind, of in wanted if (kind, frozenset(of)) not in tests]
            if lacking:
                yield graph.name(key), f"has unique_key {', '.join(columns)}, and no tests {'; '.join(lacking)}"
        elif lacking := sorted(MEANS_OF_KEY - {kind for kind, _ in tests}):
            yield graph.name(key), f"has no tests {', '.join(lacking)}"


def _unique_key(node: Node) -> tuple[str, ...]:
    """The columns of a model's `unique_key` in lower case, written as one text or as a list."""
    return tuple(name.lower() for name in columns_in(node["config"].get("unique_key")))


@rule
def test_coverage(graph: Graph) -> Found:
    """A model without any test."""
    for key in graph.models:
        if not graph.tests.get(key):
            yield graph.name(key), "has no test"


@rule
def sources_without_freshness(graph: Graph) -> Found:
    """A source of which nothing says how old it may be."""
    for key, node in graph.sources.items():
        freshness = node.get("freshness") or {}
        if not any((freshness.get(name) or {}).get("count") for name in ("warn_after", "error_after")):
            yield graph.name(key), "has no freshness"


# Documentation


@rule
def undocumented_models(graph: Graph) -> Found:
    """A model without a description, or with a column that has none."""
    yield from _undocumented(graph, graph.models)


@rule
def undocumented_source_tables(graph: Graph) -> Found:
    """A source table without a description, or with a column that has none."""
    yield from _undocumented(graph, graph.sources)


@rule
def undocumented_sources(graph: Graph) -> Found:
    """A source without a description."""
    for name in sorted(
        {node["source_name"] for node in graph.sources.values() if not node["source_description"].strip()}
    ):
        yield name, "has no description"


@rule
def undocumented_macros(graph: Graph) -> Found:
    """A macro of the project that the docs site shows without a description; or a private one that it shows."""
    for macro in graph.macros.values():
        if macro["docs"]["show"]:
            if macro["name"].startswith("_"):
                yield str(macro["name"]), "is private, and not hidden: docs: {show: false}"
            elif not macro["description"].strip():
                yield str(macro["name"]), "has no description, and is not hidden: docs: {show: false}"


def _undocumented(graph: Graph, nodes: Mapping[str, Node]) -> Found:
    for key, node in nodes.items():
        bare = [name for name, column in node["columns"].items() if not column["description"].strip()]
        if not node["description"].strip():
            yield graph.name(key), "has no description"
        elif bare:
            yield graph.name(key), f"has columns without a description: {', '.join(bare)}"


# Structure


@rule
def model_naming_conventions(graph: Graph) -> Found:
    """A model whose name does not begin as those of its layer."""
    for key in graph.models:
        expected = PREFIXES.get(graph.layer(key), ())
        if not graph.name(key).startswith(expected):
            yield graph.name(key), f"does not begin with {' or '.join(expected)}"


@rule
def model_directories(graph: Graph) -> Found:
    """A model in the folder of no layer, or a staging model away from its source's folder."""
    for key, node in graph.models.items():
        layer, folder = graph.layer(key), Path(node["original_file_path"]).parent
        if layer not in PREFIXES:
            yield graph.name(key), f"lies in {folder}, expected one of models/{', models/'.join(PREFIXES)}"
        for parent in graph.parents(key):
            if layer == "staging" and parent in graph.sources:
                expected = Path("models", "staging", graph.sources[parent]["source_name"])
                if folder != expected:
                    yield graph.name(key), f"lies in {folder}, expected {expected}"


@rule
def source_directories(graph: Graph) -> Found:
    """A declaration away from the folder of its source's staging models."""
    for key, node in graph.sources.items():
        folder, expected = Path(node["original_file_path"]).parent, Path("models", "staging", node["source_name"])
        if folder != expected:
            yield graph.name(key), f"is declared in {folder}, expected {expected}"


@rule
def test_directories(graph: Graph) -> Found:
    """A model whose tests are declared in another folder."""
    for node in graph.manifest["nodes"].values():
        tested = graph.models.get(node.get("attached_node") or "")
        if node["resource_type"] == "test" and tested is not None:
            folder, expected = (Path(each["original_file_path"]).parent for each in (node, tested))
            if folder != expected:
                yield str(node["name"]), f"is declared in {folder}, expected {expected}"


# Performance


@rule
def chained_views_dependencies(graph: Graph) -> Found:
    """Views upon views upon views: each reader computes them all."""

    def length(key: str) -> int:
        node = graph.models.get(key)
        if node is None or node["config"]["materialized"] not in ("view", "ephemeral"):
            return 0
        return 1 + max(map(length, graph.parents(key)), default=0)

    for key in graph.models:
        if length(key) >= CHAINED_VIEWS:
            yield graph.name(key), f"ends a chain of {length(key)} views"


@rule
def exposure_parents_materializations(graph: Graph) -> Found:
    """A consumer that reads a source, or a view."""
    for key, exposure in graph.manifest["exposures"].items():
        for parent in exposure["depends_on"]["nodes"]:
            model = graph.models.get(parent)
            if parent in graph.sources or (model and model["config"]["materialized"] in ("view", "ephemeral")):
                yield graph.name(key), f"reads {graph.name(parent)}, which is no table of a model"


@rule
def incremental_parts(graph: Graph) -> Found:
    """A model that asks is_incremental(), itself or by a macro, or reads itself: it need not equal its full refresh."""
    for key, node in graph.models.items():
        why = why_a_part(node, graph.manifest)
        if why is not None:
            yield graph.name(key), f"{why}: a run upserts what it selects, and removes no row"


@rule
def unproven_increments(graph: Graph) -> Found:
    """An incremental model that is to equal its full refresh (`merge`), without the test that compares the two."""
    for key, node in graph.models.items():
        told = node["config"]
        is_merged = told.get("materialized") == "incremental" and told.get("incremental_strategy") in (None, "merge")
        is_proven = "equals_its_select" in {kind for kind, _ in graph.tests.get(key, ())}
        if is_merged and not is_proven and why_a_part(node, graph.manifest) is None:
            yield graph.name(key), "has no test equals_its_select"


@rule
def macro_folders(graph: Graph) -> Found:
    """A macro that calls one of a folder above its own: folders may be read from the bottom up."""

    def folder(macro: Node) -> str:
        return Path(macro["original_file_path"]).parts[1]

    macros = {key: macro for key, macro in graph.macros.items() if macro.get("original_file_path")}
    for key, macro in macros.items():
        for called in sorted(macros.keys() & set(macro["depends_on"]["macros"])):
            above, below = folder(macros[called]), folder(macro)
            if MACRO_FOLDERS.index(above) < MACRO_FOLDERS.index(below):
                yield graph.name(key), f"of macros/{below} calls {graph.name(called)} of macros/{above}"


# Governance


@rule
def public_models_without_contract(graph: Graph) -> Found:
    """A public model whose columns may change at any time."""
    for key, node in graph.models.items():
        if node["access"] == "public" and not node["config"]["contract"]["enforced"]:
            yield graph.name(key), "is public, and has no enforced contract"


@rule
def undocumented_public_models(graph: Graph) -> Found:
    """A public model without a description, or with a column that has none."""
    yield from _undocumented(graph, {key: node for key, node in graph.models.items() if node["access"] == "public"})


@rule
def exposures_dependent_on_private_models(graph: Graph) -> Found:
    """A consumer that reads what is not meant for it."""
    for key, exposure in graph.manifest["exposures"].items():
        for parent in exposure["depends_on"]["nodes"]:
            if parent in graph.models and graph.models[parent]["access"] != "public":
                yield graph.name(key), f"reads {graph.name(parent)}, whose access is {graph.models[parent]['access']}"


def violations(manifest: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """What violates a rule, by rule and subject, and how."""
    graph = Graph(manifest)
    found: dict[tuple[str, str], str] = {}
    for name, check in RULES.items():
        for subject, told in check(graph):
            found[name, subject] = "; ".join(filter(None, [found.get((name, subject)), told]))
    return found


def unexpected(
    found: Mapping[tuple[str, str], str], baseline: Mapping[str, Mapping[str, str]], *, file: str = BASELINE.name
) -> list[str]:
    """What is to be mended: violations that the baseline does not name, and entries of it that nothing violates."""
    known = {(name, subject) for name, entries in baseline.items() for subject in entries}
    new = [f"{name}: {subject} {told}" for (name, subject), told in found.items() if (name, subject) not in known]
    old = sorted(f"{name}: {subject} is well now: take it out of {file}" for name, subject in known - found.keys())
    return new + old


def main() -> None:
    """Prints what is to be mended; ends with 1 where there is something."""
    parser = argparse.ArgumentParser(
        prog="python -m ci.rules", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    at = ROOT / "target" / "manifest.json"
    parser.add_argument("manifest", nargs="?", type=Path, default=at, help="dbt's; by default target/manifest.json")
    path: Path = parser.parse_args().manifest
    if not path.is_file():
        raise SystemExit(f"{path}: not found, expected dbt's manifest: run `dbt parse` first")
    baseline = yaml.safe_load(BASELINE.read_text(encoding="utf-8")) or {}
    told = unexpected(violations(json.loads(path.read_text(encoding="utf-8"))), baseline)
    out = Console(soft_wrap=True, highlight=False)
    for line in told:
        out.print(line)
    kept = sum(map(len, baseline.values()))
    out.print(f"{len(RULES)} rules: {len(told)} to be mended, {kept} kept in {BASELINE.name}")
    raise SystemExit(1 if told else 0)


if __name__ == "__main__":
    main()
