"""Applies quarantined events again."""

from __future__ import annotations

import time
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.config.tables import Table
from ingest.decode.registry import Registry
from ingest.decode.wire_format import parts_again
from ingest.landing import batch
from ingest.landing.schema_plan import schema_planned
from ingest.landing.table import Landed, decoded
from ingest.schema.change import UNNAMED
from ingest.silver import quarantine
from ingest.silver.state import Counts, State
from ingest.silver.table import SilverTable


def replay(spark: SparkSession, table: Table) -> Landed:
    """Applies a table's quarantined events again, by the same code; those that still cannot be applied stay.

    Their positions are those of their first delivery, so that a replay that was broken off, or is done twice, changes
    nothing; and silver's commit says up to when the events were set aside that it has counted.

    Raises
    ------
    LakeError
        As `land_table`.
    """
    started = time.monotonic()
    silver = SilverTable.of(spark, table)
    quarantine.restore(silver)
    events = quarantine.waiting(spark, table)
    if events is None or events.isEmpty():
        return Landed(table)
    with silver.writing():
        counts = _replay(silver, silver.state(), events.localCheckpoint())
    return Landed(table, counts, seconds=time.monotonic() - started)


def _replay(silver: SilverTable, state: State | None, kept: DataFrame) -> Counts:
    spark, table, counts = silver.spark, silver.table, Counts()
    if state is not None:
        silver.require_buckets(state)
    # Each in the epoch it was delivered in: what came before a failover is older than all that came since.
    for (epoch,) in kept.select("epoch").distinct().orderBy("epoch").collect():
        own = kept.where(F.col("epoch").eqNullSafe(F.lit(epoch)))
        if state is not None and state.replayed is not None and state.replayed[0] == epoch:
            own = _without_counted(spark, table, own, state.replayed[1], state.instant)
        number, until = own.agg(F.count("*"), F.max("quarantined_at").cast("string")).collect()[0]
        if not number:
            continue
        # What a run set aside that was killed, or a table that is there no more, is not counted as quarantined.
        counted = min(number, state.totals.quarantined if state else 0)
        planned, changes = decoded_again(silver, state, own)
        options = table.options if epoch is None else table.options.model_copy(update={"epoch": epoch})
        dated = replace(planned, table=replace(planned.table, options=options))
        before = replace(state, replayed=(epoch, until)) if state else None
        counts += batch.apply(dated, before, changes, state.position if state else "", replayed=counted)
        planned.register()
        state = silver.required_state()
        quarantine.settle(spark, table, own, state.instant)
    return counts


def _without_counted(spark: SparkSession, table: Table, events: DataFrame, until: str, instant: str) -> DataFrame:
    """The events without those that a replay has applied and counted, and was broken off before it removed them: what
    is quarantined later, or again, has a later time."""
    is_counted = F.col("quarantined_at") <= F.lit(until).cast("timestamp")
    counted = events.where(is_counted)
    if not counted.isEmpty():
        quarantine.settle(spark, table, counted, instant)
    return events.where(~is_counted)


def decoded_again(silver: SilverTable, state: State | None, events: DataFrame) -> tuple[SilverTable, DataFrame]:
    """Rows of the quarantine as decoded changes, each with its line as `_lake_order`; and silver as it will be.

    Raises
    ------
    LakeError
        As `land_table`.
    """
    table = silver.table
    origin = events.select(
        F.col("raw").alias("_lake_raw"),
        F.col("form").alias("_lake_form"),
        F.col("partition").alias("_lake_partition"),
        F.col("start_offset").alias("_lake_start_offset"),
        F.col("line").alias("_lake_order"),
        F.col("file").alias("_lake_file"),
        F.col("record_key").alias("_lake_key"),
    )
    if not table.key:
        partition = F.when(quarantine.has_offset(), F.col("_lake_partition")).otherwise(UNNAMED)
        origin = origin.withColumn("_lake_partition", partition)
    known, _ = schema_planned(silver, state)
    registry = Registry.of(silver.spark, table)
    parts = parts_again(origin, known.table, registry)
    planned, readings = schema_planned(silver, state, parts)
    return planned, decoded(planned.table, parts, readings)
