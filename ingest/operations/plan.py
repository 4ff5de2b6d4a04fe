"""What a run would make of changed schemas; nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.config.tables import Table
from ingest.errors import LakeError
from ingest.landing.backlog import pending_of
from ingest.landing.failures import error_of
from ingest.landing.table import held_back_error
from ingest.schema.evolution import Plan, plan
from ingest.silver.table import SilverTable


@dataclass(frozen=True)
class PendingPlan:
    """What a run would make of a table's schema: how much waits, and the plan.

    `defaults` are the columns whose nulls Kafka Connect may have written as the default that the events' schema has.
    `error` is what keeps a part of the input, or all of it, from being read; there may be no plan then. A plan that
    fails says so itself.
    """

    table: Table
    waiting: int = 0
    unit: str = ""
    bytes: int | None = None
    plan: Plan | None = None
    defaults: tuple[str, ...] = ()
    error: LakeError | None = None


def pending_plan(spark: SparkSession, table: Table) -> PendingPlan:
    """The plan of a table's next run, by the same steps. Writes nothing, and does not make the schema either."""
    try:
        silver = SilverTable.to_look_at(spark, table)
        state = silver.state() if silver else None
        held = silver.held(state) if silver and state else None
        pending = pending_of(spark, table, state.position if state else None)
        known = replace(table, columns=plan(table, held).columns)
        read = pending.read(known, thorough=True)
    except (LakeError, PySparkException, Py4JJavaError) as error:
        return PendingPlan(table, error=error_of(table, error))
    found = plan(table, held, [part.version for part in read.parts])
    left_out = held_back_error(table, read.held_back) if read.held_back else None
    default = frozenset[str]().union(*(part.version.default for part in read.parts))
    defaults = tuple(column.name for column in found.columns if column.name in default)
    return PendingPlan(table, pending.waiting, pending.unit, pending.bytes, found, defaults, left_out)
