"""What keeps an event as a whole from being applied: its op, row, key, position and transaction, its row's folder.

What is wrong of a value stands with its conversion (`ingest.decode.types`). Each problem is a text (see
`ingest.schema.change.problem`), null where nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.lake import HIVES_NULL, is_on_s3
from ingest.config.tables import Table
from ingest.schema.change import OPTIONAL, UNAVAILABLE_SEPARATOR
from ingest.schema.change import problem as problem_of
from ingest.schema.connectors import connector_of, order_of

# Ops that carry a row.
ROW_OPS = ("c", "u", "d", "r")
# 't' is a truncate, 'm' a logical decoding message: neither carries a row.
_OPS = (*ROW_OPS, "t", "m")
# The longest name of a file or folder, in bytes: of Linux (NAME_MAX) and of HDFS
# (dfs.namenode.fs-limits.max-component-length). S3 has none.
_LONGEST_NAME = 255
# What Hudi writes as `%` and two digits in the name of a partition's folder (PartitionPathEncodeUtils).
_ESCAPED = r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]"""


def event_op() -> Expression:
    return F.coalesce(F.col("__op"), F.lit(""))


def is_deleted() -> Expression:
    """Whether an event deletes its row. Never null."""
    return event_op() == "d"


def op_problem() -> Expression:
    op = F.col("__op")
    return F.when(
        op.isNotNull() & ~op.isin(*_OPS),
        problem_of("unknown_op", "op is ", op, f", expected one of {', '.join(_OPS)}"),
    )


def envelope_problem(op: Expression, has_no_row: Expression, table: Table) -> Expression:
    """What an envelope lacks. Of a delete the record's key may say the row, where the table has one."""
    needs_row = op.isin(*(name for name in ROW_OPS if name != "d" or not table.key))
    return F.when(op.isNull(), problem_of("unknown_op", "the envelope's op is null")).when(
        needs_row & has_no_row, problem_of("not_an_event", "the envelope has no row image")
    )


def moved_problem(op: Expression, former: Mapping[str, Expression], later: Mapping[str, Expression]) -> Expression:
    """An update that gives its row another key: where no delete of the former one comes, its row would stay.

    Debezium sends that delete where the record's key changes. It does not where the declared key is another one, as of
    a table without a primary key, or by `message.key.columns`.

    Parameters
    ----------
    former, later:
        The columns of the key in the row's images, as they are written; null where an image has none.
    """
    is_moved = reduce(lambda found, name: found | (former[name] != later[name]), former, F.lit(False))
    message = (
        f"the key ({', '.join(former)}) is another one behind the update, and the record's key is not: declare the "
        "columns of the record's key, or let message.key.columns name those of the declared one"
    )
    return F.when((op == "u") & F.coalesce(is_moved, F.lit(False)), problem_of("changed_key", message))


def key_problems(table: Table, values: Mapping[str, Expression]) -> list[Expression]:
    """A key needs a value: each part of it, unless the key is written as one text, which tells a null from a text."""
    nulls = [values[name].isNull() for name in table.key]
    if not nulls:
        return []
    of_record = F.when(is_deleted(), F.lit(", and the record's key does not say it")).otherwise(F.lit(""))
    if table.record_key == "__key" and len(nulls) > 1:
        message = problem_of("missing_key", f"every key column is null: {', '.join(table.key)}", of_record)
        return [F.when(reduce(lambda left, right: left & right, nulls), message)]
    return [F.when(nulls[0], problem_of("missing_key", f"key column {table.key[0]} is null", of_record))]


def position_problem(table: Table, *, is_envelope: bool) -> Expression:
    """A streamed change without its log position cannot be ordered; rows read by a snapshot may have none.

    Nor may a delete that holds its key alone, where other columns of the row order: its delivery places it, as it does
    a bare tombstone.
    """
    order = order_of(table)
    streamed = F.lit(True) if order.orders_reads else ~F.coalesce(F.col("__op"), F.lit("u")).isin("r", "m")
    of_rows = {column.name for column in table.columns}.difference(table.key)
    if connector_of(table).delete_holds == "key" and of_rows.intersection(order.columns):
        streamed &= ~is_deleted()
    absent = reduce(lambda left, right: left | right, [F.col(f"`{name}`").isNull() for name in order.columns])
    missing = F.when(absent & streamed, problem_of("missing_position", order.missing(is_envelope=is_envelope)))
    malformed = order.malformed()
    return missing if malformed is None else F.coalesce(missing, problem_of("missing_position", malformed))


def transaction_problem() -> Expression:
    """A streamed change that does not say its transaction cannot be kept with the rest of it."""
    absent = F.col("__transaction_id").isNull() | F.col("__transaction_total_order").isNull()
    message = "no transaction: the connector must have provide.transaction.metadata, and its add.fields must hold"
    return F.when(
        absent & ~F.coalesce(F.col("__op"), F.lit("u")).isin("r", "m"),
        problem_of("missing_transaction", f"{message} transaction.id and transaction.total_order"),
    )


def nothing_brings_it() -> Expression:
    """A value that an event of a table without a key lacks: no earlier change of its row is known."""
    names = F.split("_lake_unavailable", UNAVAILABLE_SEPARATOR)
    lacking = F.filter(
        names, lambda name: ~name.startswith(OPTIONAL) & ~F.array_contains(names, F.concat(F.lit(OPTIONAL), name))
    )
    message = problem_of(
        "unavailable_value", "unavailable value of ", F.array_join(lacking, ", "), ", of a row without a key"
    )
    return F.when((F.size(lacking) > 0) & (event_op() != "t"), message)


def truncate_problem() -> Expression:
    message = "a truncate of the source table, which is not applied (truncate: quarantine)"
    return F.when(F.col("__op") == "t", problem_of("truncate", message))


def tombstone_problem() -> Expression:
    return problem_of(
        "tombstone",
        "a tombstone, and no event says that its row is deleted: declare tombstones: delete or tombstones: ignore",
    )


def lacking(name: str) -> str:
    return f"column {name} is missing (schema_policy.drop: quarantine)"


def partition_problems(table: Table, values: Mapping[str, Expression]) -> Iterator[Expression]:
    """A text that no folder of a partition can be named by: it would stop the table, or be read as null.

    Parameters
    ----------
    values:
        The columns, with their types.
    """
    types = {column.name: column.data_type for column in table.columns}
    for name in table.options.partition_by:
        if not isinstance(types.get(name), T.StringType):
            continue
        is_null = F.when(
            values[name] == HIVES_NULL,
            problem_of("bad_value", f"column {name}: {HIVES_NULL} is Hive's name for null, and would be read as null"),
        )
        written = F.octet_length(F.regexp_replace(values[name], _ESCAPED, "%00"))
        most = _LONGEST_NAME - len(f"{name}=".encode())
        too_long = problem_of(
            "bad_value",
            f"column {name}: a text of ",
            written.cast("string"),
            f" bytes, expected at most {most}: it names the folder of a partition",
        )
        yield is_null if is_on_s3(table.location) else is_null.when(written > most, too_long)
