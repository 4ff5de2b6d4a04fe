"""Resets the position of a table: to the earliest offsets, or to the latest."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from ingest.config.sources_file import Source
from ingest.config.tables import Table
from ingest.landing.backlog import Pending, position_at
from ingest.landing.transactions import is_consistent, topic_table
from ingest.silver.state import State
from ingest.silver.table import SilverTable
from ingest.sources.kinds import require_kind


def tables_of(source: Source, names: list[str]) -> tuple[Table, ...]:
    """The tables of those names: of a source whose transactions are kept whole, its transaction topic may be named too.

    Raises
    ------
    DeclarationError
        A name that is none of them.
    """
    topics = (topic_table(source.tables[0]),) if is_consistent(source.tables) else ()
    return replace(source, tables=(*source.tables, *topics)).choose(names)


def set_position(spark: SparkSession, table: Table, *, to_latest: bool) -> Pending:
    """Decides what counts as landed: all that the source has, or nothing of it; what waits afterwards.

    Events that are landed again do no harm: silver knows them by their positions. Those of an epoch that is over would
    count as newer than what came since: where the source still has some, they stay landed. Those of a table without a
    key are known by where they were delivered, and not in another kind of input.

    Raises
    ------
    InputError
        The input is not there, or nothing tells what of it is landed already.
    WriteError
        There is no such table, or the lake cannot be written.
    """
    silver = SilverTable.of(spark, table)
    with silver.writing():
        return _set(silver, silver.required_state(), to_latest=to_latest)


def _set(silver: SilverTable, state: State, *, to_latest: bool) -> Pending:
    spark, table = silver.spark, silver.table
    silver.require_buckets(state)
    if state.position and not (to_latest or table.key):
        require_kind(table, state.position)
    # An epoch that was raised, and nothing was landed in yet, begins behind all that was landed.
    begin = state.position if table.options.epoch > state.epoch else state.epoch_begin
    position, pending = position_at(spark, table, begin=begin, to_latest=to_latest)
    nothing = silver.read().limit(0)
    silver.write(nothing.select(*silver.columns()), state.without_events(position=position, quarantine=""), first=False)
    silver.register()
    return pending
