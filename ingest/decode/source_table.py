"""The table of its database that a change is of, for topics that several tables share.

Debezium names a topic by its table; `ByLogicalTableRouter`, `RegexRouter` and streams of a whole database bring several
together.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from ingest.config.tables import Table
from ingest.schema.change import problem as problem_of

# The parts of its name, of which an event may lack some (`add.fields`), and a database have none.
NAME_PARTS = ("__db", "__schema", "__table")


def source_table() -> Expression:
    """Its name: `shop.public.orders`; null where the event does not say it."""
    return F.when(F.col("__table") != "", F.concat_ws(".", *NAME_PARTS))


def is_of_another_table(table: Table) -> Expression:
    """Whether an event is of a table that the declaration leaves out. Never null.

    A name is matched as by Debezium's `table.include.list`: whole, whatever its capitals; the database may be left out.
    One with U+FFFD, which stands for damaged bytes, is nobody's: the event is set aside for these.
    """
    named = "|".join(f"(?:{pattern})" for pattern in table.options.table_include_list)
    if not named:
        return F.lit(False)
    name = source_table()
    is_other = ~name.rlike(rf"(?i)^(?:[^.]+\.)?(?:{named})$") & ~name.contains("\ufffd")
    return F.coalesce(is_other, F.lit(False))


def table_problem() -> Expression:
    """A change that does not say its table may be a row of another one."""
    told = "no table, and table_include_list says which: the connector's add.fields must hold db, schema and table"
    return F.when(source_table().isNull(), problem_of("unknown_table", told))
