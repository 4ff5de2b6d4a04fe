"""A silver table that an operation needs to be there."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ingest.config.tables import Table
from ingest.errors import WriteError
from ingest.silver.state import State
from ingest.silver.table import SilverTable


def landed_before(spark: SparkSession, table: Table) -> tuple[SilverTable, State]:
    silver = SilverTable.of(spark, table)
    state = silver.state()
    if state is None:
        raise WriteError(
            "there is no such table yet", where=table.relation, action=f"run `lake ingest {table.source}` first"
        )
    return silver, state
