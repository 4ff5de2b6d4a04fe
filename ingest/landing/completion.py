"""Values that the events of a batch lack, brought by earlier changes of their rows."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.changes.unavailable import completed, followed, key_changes, removed_values
from ingest.config.tables import Table
from ingest.decode.decoded import UNWRAPPED_FORM
from ingest.decode.fields import EVENT_AS_JSON
from ingest.schema.change import metadata_columns, silver_columns
from ingest.schema.masking import MASKED_FORM

if TYPE_CHECKING:
    from ingest.landing.batch import Batch


def with_every_value(batch: Batch) -> Batch:
    """The rows with the values that the incomplete changes lack; what stays incomplete is bad.

    `begun` are the rows of changed keys, as they began, for the history: no change of their own key completes them.
    """
    table, keep = batch.table, batch.keep
    key = table.record_key
    lacking = keep(reduce(DataFrame.unionByName, batch.incomplete))
    good = batch.changes.where("not _lake_ignored and _lake_problem is null")
    own = keep(good.join(F.broadcast(lacking.select(f"`{key}`").distinct()), key, "left_semi"))
    held = batch.silver.read() if batch.state else None
    moves, earlier, begun = None, None, None
    created = own.where("__op = 'c' and _lake_unavailable is not null")
    if not created.isEmpty():
        moves, earlier = _moved_keys(batch, own, good)
        if table.options.history:
            made = created.dropDuplicates([key])
            begun = completed(made, made, held, table, moves=moves, earlier=earlier).where("_lake_problem is null")
    done = keep(completed(lacking, own, held, table, moves=moves, earlier=earlier))
    found = done.agg(
        F.count_if(F.col("_lake_problem").isNotNull()).alias("unfilled"),
        F.count_if(F.col("_lake_problem").isNull() & F.col("_lake_is_held") & F.col("_lake_changed")).alias("repaired"),
    ).first()
    assert found is not None
    written = done.where("_lake_problem is null and (not _lake_is_held or _lake_changed)").drop(
        "_lake_problem", "_lake_is_held", "_lake_changed"
    )
    unfilled = keep(_unfilled(done, own, table))
    together = unfilled.count() if found["unfilled"] else 0
    counts = (
        batch.counts.moved(found["unfilled"], "applied", "quarantined")
        .moved(together - found["unfilled"], "superseded", "quarantined")
        .moved(found["repaired"], "superseded", "applied")
    )
    rest = as_silver(batch.rows.join(F.broadcast(done.select(f"`{key}`")), key, "left_anti"), table)
    return replace(
        batch, rows=rest.unionByName(written), counts=counts, bad=(*batch.bad, unfilled), begun=begun, incomplete=()
    )


def _moved_keys(batch: Batch, own: DataFrame, good: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The changes of primary keys among creates that lack values (`key_changes`), and the changes of the old keys."""
    table, silver, keep = batch.table, batch.silver, batch.keep
    key = table.record_key
    gone = silver.read().where("__op = 'd'") if batch.state else None
    if batch.found.moved_on:
        moves = keep(followed(keep(key_changes(good, good, gone, table)), own, table, keep))
    else:
        moves = keep(key_changes(own, good, gone, table))
    old_keys = F.broadcast(moves.select(F.col("_lake_old_key").alias(key)).distinct())
    earlier = good.join(old_keys, key, "left_semi")
    if gone is not None:
        for commit in gone.join(old_keys, key, "left_semi").select("_hoodie_commit_time").distinct().collect():
            # The delete came in a batch before: what it removed is in silver as it was until then.
            removed = as_silver(silver.before(commit[0]).join(old_keys, key, "left_semi"), table)
            earlier = earlier.unionByName(removed, allowMissingColumns=True)
        of_gone = removed_values(gone.join(old_keys, key, "left_semi"), table)
        earlier = earlier.unionByName(of_gone, allowMissingColumns=True)
    return moves, keep(earlier)


def _unfilled(done: DataFrame, own: DataFrame, table: Table) -> DataFrame:
    """The changes of rows that stay incomplete.

    All of such a row's changes wait, not the last one alone: the others bring it values when it can be completed.
    """
    key = table.record_key
    problems = done.where("_lake_problem is not null").select(
        f"`{key}`", F.col("_lake_problem").alias("_lake_unfilled")
    )
    log = F.substring_index("__position", "/", 1)
    waiting = own.join(F.broadcast(problems), key).withColumn("_lake_log", log).dropDuplicates([key, "_lake_log"])
    return waiting.withColumn("_lake_problem", F.col("_lake_unfilled")).withColumns(told_again(table))


def told_again(table: Table) -> dict[str, Expression]:
    """`_lake_raw` and `_lake_form` of events that were well by themselves: what was read of them was let go."""
    columns = table.in_events.columns
    names = [*(column.name for column in columns), *(column.name for column in metadata_columns(table))]
    event = F.to_json(F.struct(*(f"`{name}`" for name in names), "__deleted"), EVENT_AS_JSON).cast("binary")
    # Of a table with column policies, what was decoded holds hashes already.
    form = F.lit(MASKED_FORM if table.is_masked else UNWRAPPED_FORM)
    return {
        "_lake_form": F.when(F.col("_lake_raw").isNotNull(), F.col("_lake_form").cast("string")).otherwise(form),
        "_lake_raw": F.coalesce("_lake_raw", event),
    }


def as_silver(rows: DataFrame, table: Table) -> DataFrame:
    """The columns of silver, in its order."""
    return rows.select(*(f"`{name}`" for name in silver_columns(table)))
