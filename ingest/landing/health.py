"""Whether a table that was landed is well: too many of its events in the quarantine are an error."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest.config.tables import Table
from ingest.errors import LakeError, QuarantineError
from ingest.landing.table import Landed
from ingest.silver import quarantine
from ingest.silver.state import Counts

log = logging.getLogger(__name__)

_LONGEST_REASON = 200
# So many events of a table may be quarantined, or this share of those that were read, and it is well all the same.
_WELL_QUARANTINED, _WELL_SHARE = 10, 0.1
# How `_unwell` begins.
_UNWELL = re.compile(r"^\S+: [\d,]+ of [\d,]+ events (of this run|of this run so far|ever read) are quarantined")


def judged(spark: SparkSession, landed: Landed, run: Counts | None = None) -> Landed:
    """What was landed, unwell where more than ten and more than a tenth of the events are quarantined.

    Judged are the run and the whole of the table's history; a `quarantine_limit` is a judgement of its own.

    Parameters
    ----------
    run:
        What became of all events of the run that the batch is a part of; where it is None, the batch is the run.
    """
    if landed.error:
        return landed
    of_each = {"of this run": landed.counts, "of this run so far": run or Counts(), "ever read": landed.totals}
    # Each look at a table where nothing comes would ask for the reason again.
    error = quarantine_error(spark, landed.table, of_each, with_reason=bool(landed.counts.quarantined))
    return replace(landed, error=error) if error else landed


def quarantine_error(
    spark: SparkSession, table: Table, of_each: Mapping[str, Counts], *, with_reason: bool = True
) -> QuarantineError | None:
    """Why a table is unwell: more than ten and more than a tenth of some events are quarantined; None where it is well.

    Parameters
    ----------
    of_each:
        What became of the events of a run, or of all, by the words that say which events they are.
    with_reason:
        Whether the error names the most frequent reason, which reads the quarantine.
    """
    if table.options.quarantine_limit is not None:
        return None
    for which, counts in of_each.items():
        if counts.quarantined > max(_WELL_QUARANTINED, _WELL_SHARE * counts.read):
            reason = _most_frequent_reason(spark, table) if with_reason else ""
            return _unwell(table, counts, which, reason)
    return None


def says_unwell(message: str) -> bool:
    """Whether a message is that of an unwell table: of a failure, the message is all that is remembered."""
    return _UNWELL.search(message) is not None


def is_mended(message: str, totals: Counts) -> bool:
    """Whether a table was unwell and is so no longer, whatever its share: replays have applied what waited."""
    return says_unwell(message) and totals.quarantined <= _WELL_QUARANTINED


def _unwell(table: Table, counts: Counts, which: str, reason: str) -> QuarantineError:
    return QuarantineError(
        f"{counts.quarantined:,} of {counts.read:,} events {which} are quarantined"
        + (f"; the most frequent reason in the quarantine: {reason}" if reason else ""),
        where=table.relation,
        expected=f"no more than {_WELL_QUARANTINED}, or {_WELL_SHARE:.0%} of them: no quarantine_limit is declared",
        action=f"`lake quarantine ls {table.source}` says why: correct it, `lake quarantine replay {table.source}`; "
        "or declare a quarantine_limit that accepts it: what was deleted from the quarantine stays counted. The other "
        "events were landed",
    )


def _most_frequent_reason(spark: SparkSession, table: Table) -> str:
    """One of the most frequent code, in one line; '' where it cannot be told."""
    try:
        events = quarantine.waiting(spark, table)
        if events is None:
            return ""
        reasons = events.groupBy("reason_code").agg(F.count("*").alias("events"), F.min("reason").alias("reason"))
        row = reasons.orderBy(F.desc("events"), "reason_code").first()
    except (LakeError, PySparkException, Py4JJavaError) as error:
        log.debug("the quarantine of %s cannot be read", table.name, exc_info=error)
        return ""
    return " ".join(str(row["reason"]).split())[:_LONGEST_REASON] if row else ""
