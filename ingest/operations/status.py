"""How a source's tables are: what is landed, what waits, what became of the events, and whether a table is well."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from ingest.config.sources_file import Source
from ingest.config.tables import Table
from ingest.errors import LakeError
from ingest.landing.backlog import pending_of
from ingest.landing.failures import failures
from ingest.landing.health import is_mended, quarantine_error, says_unwell
from ingest.silver import change_log, quarantine
from ingest.silver.erased_keys import erased_keys
from ingest.silver.file_groups import require_whole
from ingest.silver.state import Counts, State
from ingest.silver.table import SilverTable
from ingest.silver.timeline import instant_of
from ingest.sources.base import OpenTransaction
from ingest.spark import s3
from ingest.spark.jvm import root_cause


@dataclass(frozen=True)
class TableStatus:
    """How a table is.

    Attributes
    ----------
    last_commit:
        Hudi's instant of the last commit by ingest; None where there is none.
    live_rows, deleted_rows:
        Rows of silver, and tombstones in it.
    landed, waiting, unit:
        How much of the input was landed, of what the source still has, and how much was not; in files or records. A
        source that does not tell it has None, and at least so much.
    behind_ms:
        How far silver is behind the newest of the source, in milliseconds; None where the source does not tell it.
    open_transactions:
        Transactions of producers that have not ended: records behind them are not among the unread.
    last, totals:
        What became of the events of the last run, and of all runs.
    state:
        not landed yet, up to date, behind, unwell (too many events are quarantined) or failed.
    error:
        Why it is unwell, or has failed; None where it is well.
    """

    table: Table
    last_commit: str | None = None
    live_rows: int = 0
    deleted_rows: int = 0
    landed: int | None = 0
    waiting: int = 0
    behind_ms: int | None = None
    unit: str = ""
    open_transactions: tuple[OpenTransaction, ...] = ()
    last: Counts = field(default_factory=Counts)
    totals: Counts = field(default_factory=Counts)
    state: str = "not landed yet"
    error: str | None = None


def status_of(spark: SparkSession, source: Source) -> list[TableStatus]:
    """How each table of a source is, in the order of the declaration. Writes nothing, and makes no schema.

    A table whose last run failed has failed until a run of it is well, or has made a commit. A table of which more than
    ten, and more than a tenth, of all events ever read are quarantined is unwell, as the run that landed it said
    (`ingest.landing.health`).
    """
    known = failures(source.schema).read(spark)
    failed = {} if known is None else {row["source_table"]: row for row in known.collect()}
    return [_status(spark, table, failed.get(table.name)) for table in source.tables]


def _require_whole(silver: SilverTable, state: State) -> None:
    """Raises WriteError where files of the table, or of a companion that has rows of it, are gone."""
    schema = silver.table.schema
    require_whole(silver.hudi.timeline)
    if silver.table.options.history:
        change_log.require_whole(silver, state)
    ledgers = [(state.totals.quarantined, quarantine.of(schema)), (state.erased, erased_keys(schema))]
    for has_rows, ledger in ledgers:
        if has_rows:
            ledger.require_whole(silver.spark)


def _status(spark: SparkSession, table: Table, last_failure: Row | None) -> TableStatus:
    found = TableStatus(table)
    try:
        silver = SilverTable.to_look_at(spark, table)
        state = silver.state() if silver else None
        pending = pending_of(spark, table, state.position if state else None)
        found = replace(found, landed=pending.landed, waiting=pending.waiting, unit=pending.unit)
        found = replace(found, behind_ms=pending.behind_ms, open_transactions=pending.open_transactions)
        if silver and state is None and (gone := silver.gone()):
            raise gone
        if silver and state:
            _require_whole(silver, state)
            counted = {row["__deleted"]: row["count"] for row in silver.read().groupBy("__deleted").count().collect()}
            found = replace(
                found,
                last_commit=state.instant,
                live_rows=counted.get("false", 0),
                deleted_rows=counted.get("true", 0),
                last=state.counts,
                totals=state.totals,
                state="behind" if found.waiting else "up to date",
            )
    except LakeError as error:
        return replace(found, state="failed", error=error.message)
    except (PySparkException, Py4JError) as error:
        unread = LakeError(
            root_cause(error), where=table.relation, expected="a table whose files can be read",
            action=s3.to_do(str(error)) or "restore what is named from a copy",
        )  # fmt: skip
        return replace(found, state="failed", error=unread.message)
    failed = _of_last_run(last_failure, found)
    if failed and not is_mended(failed, found.totals):
        return replace(found, state="unwell" if says_unwell(failed) else "failed", error=failed)
    unwell = quarantine_error(spark, table, {"ever read": found.totals})
    return replace(found, state="unwell", error=unwell.message) if unwell else found


def _of_last_run(failure: Row | None, found: TableStatus) -> str | None:
    """What a failure says, unless the table was landed since, by another process. One that is unwell stays so."""
    if failure is None:
        return None
    is_landed_since = found.last_commit is not None and instant_of(failure["failed_at"]) < found.last_commit
    return None if is_landed_since and not says_unwell(failure["message"]) else str(failure["message"])
