"""Kafka tombstones of which no declaration says what they mean: what the events say of deletes tells it.

Where events say of each row whether it is deleted, a tombstone behind a delete is Kafka's sign that older records of
its key may go, and means nothing. Where they do not, it may be the delete itself, and is set aside. A topic may hold
both: `delete.tombstone.handling.mode` of Debezium's unwrap transform may be changed, and has `tombstone` for its
default; and of a compacted topic the tombstone may be all that is left of a delete.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.changes.position import is_delete
from ingest.config.tables import Table
from ingest.silver.state import State

if TYPE_CHECKING:
    from ingest.landing.batch import Batch
    from ingest.landing.summary import Summary

_LONE = "_lake_lone"


def with_unexplained(batch: Batch) -> Batch | None:
    """The batch with the tombstones that may be deletes set aside, with the reason they have; None where none may.

    All are, where no event has said of a row whether it is deleted, or some event of the batch does not. Else those of
    rows that silver has, and that no event of the batch deletes: looked for where its tombstones and deletes are not
    of the same keys.
    """
    found, before = batch.found, batch.before
    is_said = found.says_deletes or before.says_deletes
    if not found.tombstones:
        return None
    if found.silent or not is_said:
        ignored = F.col("_lake_ignored") & F.col("_lake_problem").isNull()
        return replace(batch, changes=batch.changes.withColumn("_lake_ignored", ignored))
    if not found.unpaired or batch.state is None:
        return None
    lone = batch.keep(_lone(batch), at_once=True)
    if lone.isEmpty():
        return None
    key, columns = batch.table.record_key, batch.changes.columns
    marked = batch.changes.join(F.broadcast(lone.withColumn(_LONE, F.lit(True))), key, "left")
    is_lone = F.coalesce(F.col(_LONE), F.lit(False)) & F.col("_lake_problem").isNotNull()
    changes = marked.withColumn("_lake_ignored", F.col("_lake_ignored") & ~is_lone)
    return replace(batch, changes=changes.select(*(f"`{name}`" for name in columns)))


def _lone(batch: Batch) -> DataFrame:
    """The record keys of ignored tombstones whose rows are there, as far as silver and the batch's deletes say.

    What tells the changes apart is kept first. Spark carries a filter down to where events are decoded, with what each
    of its columns is computed of in the place of its name: of a key that is a time it compiled that for minutes.
    """
    key = f"`{batch.table.record_key}`"
    is_tombstone = F.col("_lake_ignored") & F.col("_lake_problem").isNotNull()
    is_gone = is_delete() & ~F.col("_lake_ignored")
    marked = batch.changes.select(key, is_tombstone.alias("_lake_is_tombstone"), is_gone.alias("_lake_is_gone"))
    marked = batch.keep(marked, at_once=True)
    keys, gone = marked.where("_lake_is_tombstone").select(key).distinct(), marked.where("_lake_is_gone").select(key)
    live = batch.silver.read().where("__deleted = 'false'").select(key)
    name = batch.table.record_key
    return keys.join(gone, name, "left_anti").join(live, name, "left_semi")


def knowing_deletes(before: State, found: Summary, table: Table, *, set_aside: bool) -> State:
    """The state before the batch, with what is known of deletes now.

    `set_aside`: tombstones of the batch may be deletes.
    """
    says_deletes = before.says_deletes or found.says_deletes > 0
    # What waited before any event said deletes is explained once one does.
    still_awaits = before.awaits_deletes and (before.says_deletes or not says_deletes)
    awaits_deletes = table.options.tombstones is None and (still_awaits or set_aside)
    return replace(before, says_deletes=says_deletes, awaits_deletes=awaits_deletes)
