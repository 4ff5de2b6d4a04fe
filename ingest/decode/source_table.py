"""The table of its database that a change is of, for topics that several tables share.

Debezium names a topic by its table; `ByLogicalTableRouter`, `RegexRouter` and streams of a whole database bring several
together.
"""

from __future__ import annotations

import re

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from ingest.config.tables import Table
from ingest.schema.change import problem as problem_of
from ingest.schema.connectors import connector_of

# What stands for a point between the parts of a name in a pattern; a point alone does, too.
_POINT = re.compile(r"\\\.|\[\.\]|(?<!\\)\.(?![*+?{\]])")
# The parts of its name, of which an event may lack some (`add.fields`), and a database have none.
NAME_PARTS = ("__db", "__schema", "__table")


def source_table() -> Expression:
    """Its name: `shop.public.orders`; null where the event does not say it."""
    return F.when(F.col("__table") != "", F.concat_ws(".", *NAME_PARTS))


def is_of_another_table(table: Table) -> Expression:
    """Whether an event is of a table that the declaration leaves out. Never null.

    A name is matched as by Debezium's `table.include.list`: whole, whatever its capitals; the database may be left out.
    One with U+FFFD, which stands for damaged bytes, is nobody's: the event is set aside for these. So is one that says
    less of its name than the declaration does.
    """
    if not table.options.table_include_list:
        return F.lit(False)
    is_other = ~_is_named(table) & ~_lacks_parts(table) & ~source_table().contains("\ufffd")
    return F.coalesce(is_other, F.lit(False))


def table_problem(table: Table) -> Expression:
    """A change that does not say its table, or not whole, may be a row of another one."""
    message = "table_include_list says which: the connector's add.fields must hold db, schema and table"
    return F.when(source_table().isNull(), problem_of("unknown_table", f"no table, and {message}")).when(
        _lacks_parts(table) & ~_is_named(table),
        problem_of("unknown_table", "table ", source_table(), f", which may be one of another schema, and {message}"),
    )


def is_of_several(table: Table) -> bool:
    """Whether the rows may be of several tables of the source, as of shards: not where one is named, by no pattern."""
    names = [_POINT.sub("", pattern) for pattern in table.options.table_include_list]
    is_pattern = any(re.search(r"[\\*+?{}\[\]()|^$]", name) for name in names)
    return table.options.topic_pattern is not None or len(names) > 1 or is_pattern


def truncate_of_one_problem() -> Expression:
    """A truncate empties its own table alone, and a row does not tell for sure of which it is."""
    message = ", one of several tables whose rows this one has: delete its rows, or declare truncate: ignore"
    name = F.coalesce(source_table(), F.lit("one"))
    return F.when(F.col("__op") == "t", problem_of("truncate", "a truncate of ", name, message))


def _is_named(table: Table) -> Expression:
    """Whether the declaration names the event's table; null where the event does not say it."""
    named = "|".join(f"(?:{pattern})" for pattern in table.options.table_include_list)
    return source_table().rlike(rf"(?i)^(?:[^.]+\.)?(?:{named})$")


def _lacks_parts(table: Table) -> Expression:
    """Whether the event leaves out a part of the name that the declaration has (`add.fields`), and its table's own name
    may be the declared one. Never null."""
    patterns = table.options.table_include_list
    wanted = 1 + max(len(_POINT.findall(pattern)) for pattern in patterns)
    lacks = F.size(F.array_compact(F.array(*NAME_PARTS))) < wanted
    if connector_of(table).has_schemas and wanted > 1:
        lacks |= F.col("__schema").isNull()
    own = "|".join(f"(?:{_own_name(pattern)})" for pattern in patterns)
    return lacks & F.coalesce(F.col("__table").rlike(rf"(?i)^(?:{own})$"), F.lit(False))


def _own_name(pattern: str) -> str:
    """The part of a pattern that stands for the table's own name; any where that is no pattern by itself."""
    last = _POINT.split(pattern)[-1]
    try:
        re.compile(last)
    except re.error:
        return ".*"
    return last
