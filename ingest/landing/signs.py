"""What a batch shows of a source that is not what its declaration says: told in warnings, for it may be meant."""

from __future__ import annotations

import logging

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from ingest.config.tables import Table

log = logging.getLogger(__name__)


def origin() -> Expression:
    """The table of its database that a change is of: `shop.public.orders`; null where the event does not say it."""
    return F.when(F.col("__table").isNotNull(), F.concat_ws(".", "__db", "__schema", "__table"))


def one_table(table: Table, known: tuple[str, ...], *seen: str | None) -> tuple[str, ...]:
    """The first and the last name of the source tables whose changes were landed, of those before and those of a batch.

    Changes of a second one are told of: they are rows of one table here, which a key that both have does not tell
    apart. A pattern of topics says that there are several.
    """
    names = sorted({*known, *(name for name in seen if name)})
    found = tuple(dict.fromkeys((names[0], names[-1]))) if names else ()
    if len(found) > 1 and found != known and table.options.topic_pattern is None:
        log.warning(
            "%s: topic %s brings changes of several tables, %s among them: they are rows of one table here, and those "
            "with the same key are one row",
            table.relation,
            table.options.topic,
            " and ".join(found),
        )
    return found


def tell_of_an_older_log(table: Table, lost: int) -> None:
    """That so many changes of a batch, all of which lies before what was landed, lost against newer rows."""
    if lost:
        log.warning(
            "%s: a batch lies before what was landed, by its places in the log, and %d of its changes lost against "
            "newer rows: where the log has begun again (a failover, another server), raise `epoch`",
            table.relation,
            lost,
        )
