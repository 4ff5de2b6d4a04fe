"""What a command that chooses everything chooses: of sources that `lake` lands, those that were landed.

A source system that is declared and was never landed has no tables, and dbt would fail at each of its models. A source
was never landed where the catalog has no schema for its tables, or an empty one, which `deploy/aws` makes. A table that
is missing beside others stays an error. Where no source was landed all are chosen: a lake that is not there must not
look like one that is well.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbt.adapters.base.impl import BaseAdapter
from dbt.adapters.factory import get_adapter
from dbt.contracts.graph.nodes import SourceDefinition
from dbt.graph.cli import parse_difference
from dbt.graph.selector_spec import SelectionSpec
from dbt.task.list import ListTask
from dbt.task.runnable import GraphRunnableTask
from dbt_common.events.functions import fire_event
from dbt_common.events.types import Note

_chosen = GraphRunnableTask.get_selection_spec


def chosen(task: GraphRunnableTask) -> SelectionSpec:
    """What a command works on: as dbt has it where something is selected, else without what was never landed."""
    told = task.args
    selected = task.selection_arg or told.selector or getattr(told, "inline", None)
    if selected or isinstance(task, ListTask) or task.config.get_default_selector_name():
        return _chosen(task)
    missing = _never_landed(task)
    if not missing:
        return _chosen(task)
    for name in missing:
        note = f"{name} was never landed, and what reads it is left out: `lake ingest {name}`, or `lake prepare {name}`"
        fire_event(Note(msg=note))
    return parse_difference(None, [*(task.exclusion_arg or ()), *(f"source:{name}+" for name in missing)])


def _never_landed(task: GraphRunnableTask) -> list[str]:
    """Names of the sources that `lake` lands and whose schema has no table; none where that is true of all."""
    declared = task.manifest.sources.values() if task.manifest else ()
    places: Mapping[str, tuple[str | None, str]] = {
        source.source_name: (source.database, source.schema) for source in declared if _is_landed_by_lake(source)
    }
    adapter = get_adapter(task.config)
    with adapter.connection_named("master"):
        schemas = {
            (database, schema.lower())
            for database in {database for database, _ in places.values()}
            for schema in adapter.list_schemas(database)
        }
        found = {
            name
            for name, (database, schema) in places.items()
            if (database, schema.lower()) in schemas and _has_tables(adapter, database, schema)
        }
    return sorted(places.keys() - found) if found else []


def _has_tables(adapter: BaseAdapter, database: str | None, schema: str) -> bool:
    """Whether a schema has a table. Of Spark the names alone are asked: dbt-spark lists no table at all where one is
    dropped meanwhile."""
    if adapter.type() != "spark":
        return bool(adapter.list_relations(database, schema))
    _, listed = adapter.execute(f"show tables in {adapter.quote(schema)}", fetch=True)
    # The session's temporary views are listed with each schema: they have none.
    return any(row["namespace"] for row in listed.rows)


def _is_landed_by_lake(source: SourceDefinition) -> bool:
    return "ingest" in source.meta or "ingest" in source.config.meta
