"""What a batch shows of a source that is not what its declaration says: told, or refused where rows would be mixed."""

from __future__ import annotations

import logging

from ingest.config.tables import Table
from ingest.errors import InputError
from ingest.silver.state import State

log = logging.getLogger(__name__)


def one_table(table: Table, before: State, *seen: str) -> tuple[str, ...]:
    """The source table whose changes are landed: of those before, and of a batch; two names of a lake that has several.

    A name that lacks parts is that of the table whose name has them: `add.fields` may say more later, or less.

    A key that two of them have does not tell their rows apart. Where the declaration names them, or a pattern of their
    topics, several are meant; of a new epoch another one may be.

    Raises
    ------
    InputError
        The batch brings changes of another table.
    """
    if table.options.table_include_list or table.options.topic_pattern is not None:
        return ()
    epoch = table.options.epoch
    known = before.tables if epoch == before.epoch else ()
    said = {*known, *seen} - {""}
    names = sorted(name for name in said if not any(_lacks_parts(name, other) for other in said - {name}))
    found = tuple(dict.fromkeys((names[0], names[-1]))) if names else ()
    if len(found) > 1 and found != known:
        raise InputError(
            f"topic {table.options.topic} brings changes of several tables, {' and '.join(found)} among them",
            where=table.relation,
            expected="those of one: the rows of two that have the same key would be one row",
            action="declare table_include_list, with the tables whose changes are rows of this one; nothing of this "
            "batch was landed",
        )
    return before.tables if epoch < before.epoch else found


def _lacks_parts(name: str, other: str) -> bool:
    """Whether a name is another one without some parts: `orders` and `shop.orders` are `shop.public.orders`."""
    *own, table = name.split(".")
    *others, other_table = other.split(".")
    left = iter(others)
    return table == other_table and all(part in left for part in own)


def tell_of_an_older_log(table: Table, lost: int) -> None:
    """That so many changes of a batch, all of which lies before what was landed, lost against newer rows."""
    if lost:
        log.warning(
            "%s: a batch lies before what was landed, by its places in the log, and %d of its changes lost against "
            "newer rows: where the log has begun again (a failover, another server), raise `epoch`",
            table.relation,
            lost,
        )
