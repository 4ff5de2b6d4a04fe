"""What a source has read, whatever the source, to parts of one schema each."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest.config.tables import Table
from ingest.decode.decoded import Part
from ingest.decode.object_files import HeldBack, read_files
from ingest.decode.registry import Registry
from ingest.decode.wire_format import record_parts
from ingest.sources.raw import Raw, RawFiles


def raw_parts(
    spark: SparkSession, table: Table, raw: Raw, *, thorough: bool, by_examples: bool
) -> tuple[tuple[Part, ...], tuple[HeldBack, ...]]:
    """The events of raw input, not decoded yet; and the files left out, of which a source of records has none.

    `table` has the columns that are known (see `ingest.decode.json_events.json_parts`, of `thorough` and `by_examples`
    too).

    Raises
    ------
    InputError
        As `read_files` and `record_parts`.
    """
    table = table.in_events
    if isinstance(raw, RawFiles):
        return read_files(spark, table, raw.files, thorough=thorough, by_examples=by_examples)
    registry = Registry.of(spark, table)
    records = raw.rows.withColumn("_lake_file", F.col("topic"))
    parts = record_parts(records, table, registry, thorough=thorough, by_examples=by_examples, events=raw.number)
    return tuple(parts), ()
