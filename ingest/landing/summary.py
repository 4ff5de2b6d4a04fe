"""What a batch is made of: counted by the job that finds the last change of each key."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from ingest.changes.position import unplaced_offset
from ingest.changes.unavailable import may_be_moved
from ingest.config.tables import Table
from ingest.decode.decoded import MISREAD
from ingest.decode.source_table import NAME_PARTS
from ingest.silver.state import Counts


@dataclass(frozen=True)
class Summary:
    """What a batch is made of, counted while the last change of each key is found.

    `tombstones`: those that are ignored, and may be deletes. `silent`: rows of which no event says whether they are
    deleted. `unpaired`: 0 where tombstones and deletes are of the same keys, each of as many. `moved_on`: creates that
    lack values, of rows whose key was changed once more.
    """

    events: int = 0
    keys: int = 0
    superseded: int = 0
    duplicate: int = 0
    ignored: int = 0
    quarantined: int = 0
    truncates: int = 0
    late: int = 0
    unavailable: int = 0
    moved_on: int = 0
    mixed: int = 0
    misread: int = 0
    tombstones: int = 0
    says_deletes: int = 0
    silent: int = 0
    unpaired: Decimal = Decimal(0)
    removed: int = 0
    newest: str = ""
    truncated: str = ""
    truncated_ms: int | None = None
    unplaced: str = ""
    first_table: str = ""
    last_table: str = ""

    @property
    def counts(self) -> Counts:
        """What becomes of the events, unless a later step finds otherwise."""
        return Counts(
            read=self.events,
            applied=self.keys + self.truncates,
            superseded=self.superseded,
            duplicate=self.duplicate,
            ignored=self.ignored,
            quarantined=self.quarantined,
        )


def is_last() -> Expression:
    """Whether a ranked change is the last of its key, and good."""
    return F.col("_lake_outcome").isNull() & (F.col("_lake_rank") == 1)


def summary_columns(table: Table) -> tuple[Expression, ...]:
    """What `Summary` counts, but for the late changes: these follow from silver's state."""
    good = F.col("_lake_outcome").isNull()
    last = is_last()
    is_truncate = F.col("_lake_outcome") == "truncated"
    is_tombstone = F.col("_lake_ignored") & F.col("_lake_problem").isNotNull()
    # As a decimal, which the sum of a large batch does not leave.
    of_key = F.xxhash64(f"`{table.record_key}`").cast("decimal(20,0)")
    pairs = F.when(is_tombstone, of_key).when(good & (F.col("__op") == "d"), -of_key)
    # What is set aside says nothing for sure: its bytes may be damaged.
    of_table = [F.when((good | is_truncate) & (F.col("__table") != ""), F.col(part)) for part in NAME_PARTS]
    return (
        F.count(F.lit(1)).alias("events"),
        F.count_if(last).alias("keys"),
        F.count_if(good & (F.col("_lake_rank") > 1) & ~F.col("_lake_repeated")).alias("superseded"),
        F.count_if(good & F.col("_lake_repeated")).alias("duplicate"),
        F.count_if(F.col("_lake_outcome") == "ignored").alias("ignored"),
        F.count_if(F.col("_lake_outcome") == "quarantined").alias("quarantined"),
        F.count_if(is_truncate).alias("truncates"),
        F.count_if(last & F.col("_lake_unavailable").isNotNull()).alias("unavailable"),
        F.count_if(
            good & (F.col("_lake_rank") > 1) & (F.col("__op") == "c") & F.col("_lake_unavailable").isNotNull()
        ).alias("moved_on"),
        F.count_if(F.col("_lake_mixed")).alias("mixed"),
        F.count_if(F.col("_lake_problem") == MISREAD).alias("misread"),
        F.count_if(is_tombstone).alias("tombstones"),
        F.count_if("_lake_says_deletes").alias("says_deletes"),
        F.count_if(good & ~F.col("_lake_says_deletes")).alias("silent"),
        F.coalesce(F.sum(pairs), F.lit(0)).alias("unpaired"),
        F.count_if(last & (F.col("__op") == "d") & ~F.col("_lake_is_oldest") & F.lit(may_be_moved(table))).alias(
            "removed"
        ),
        F.coalesce(F.max(F.when(good | is_truncate, F.col("__position"))), F.lit("")).alias("newest"),
        F.coalesce(F.max(F.when(is_truncate, F.col("__position"))), F.lit("")).alias("truncated"),
        F.max_by("__source_ts_ms", F.when(is_truncate, F.col("__position"))).alias("truncated_ms"),
        F.coalesce(F.max(F.when(last, unplaced_offset(table))), F.lit("")).alias("unplaced"),
        F.concat_ws(".", *map(F.min, of_table)).alias("first_table"),
        F.concat_ws(".", *map(F.max, of_table)).alias("last_table"),
    )
