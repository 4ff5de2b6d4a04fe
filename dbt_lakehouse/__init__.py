"""What this project adds to dbt: a plugin. dbt finds it by the `dbt_` of its name, and loads it with each command."""

from __future__ import annotations

from importlib.util import find_spec

from dbt.plugins.manager import dbtPlugin
from dbt.task.run import MicrobatchModelRunner
from dbt.task.runnable import GraphRunnableTask

from dbt_lakehouse.batches import adds_to_its_table
from dbt_lakehouse.landed import chosen


class Lakehouse(dbtPlugin):
    """The plugin: what was never landed is not chosen, nor asked of Glue; errors of Spark and Hudi are told briefly."""

    def initialize(self) -> None:
        """Before dbt chooses nodes, and before it makes its adapter, whose class names that of its connections."""
        GraphRunnableTask.get_selection_spec = chosen  # type: ignore[method-assign, assignment]
        MicrobatchModelRunner._is_incremental = adds_to_its_table  # type: ignore[method-assign, assignment]
        if find_spec("dbt.adapters.spark"):
            from dbt.adapters.spark.impl import SparkAdapter  # noqa: PLC0415 - where dbt has this adapter

            from dbt_lakehouse.connections import ConnectionManager  # noqa: PLC0415

            SparkAdapter.ConnectionManager = ConnectionManager
        if find_spec("dbt.adapters.athena"):
            from dbt.adapters.athena.impl import AthenaAdapter  # noqa: PLC0415 - where dbt has this adapter

            from dbt_lakehouse.catalog import asked_of_what_is_there  # noqa: PLC0415

            AthenaAdapter._get_one_catalog = asked_of_what_is_there  # type: ignore[method-assign]


plugins = [Lakehouse]
