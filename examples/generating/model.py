"""Source databases as plain data: tables, their rows, and the transactions that change them.

Nothing here knows about change data capture. The same tables and transactions can fill a real database, be
encoded as Debezium events (``examples.generating.debezium``) or be replayed in memory (:func:`replay`).

A row is a tuple in the order of its table's columns, holding Python's natural values: ``int``, ``str``,
``Decimal`` (scale 2), ``date``, ``datetime`` (no zone), ``bool`` or ``None``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

System = Literal["postgresql", "mariadb", "sqlserver"]
ColumnType = Literal["int16", "int32", "string", "decimal", "date", "timestamp", "datetime", "bit", "tinyint1"]
Operation = Literal["c", "u", "d"]
Value = int | str | bool | Decimal | date | datetime | None
Row = tuple[Value, ...]
Database = Mapping[str, pa.Table]
"""Rows of every table by ``<schema>.<table>``, sorted by key, in :attr:`Table.arrow_schema`."""

_ARROW_TYPES: Mapping[ColumnType, pa.DataType] = {
    "int16": pa.int16(),
    "int32": pa.int32(),
    "string": pa.string(),
    "decimal": pa.decimal128(8, 2),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "datetime": pa.timestamp("us"),
    "bit": pa.bool_(),
    "tinyint1": pa.bool_(),
}


@dataclass(frozen=True)
class Column:
    """A column of a source table.

    ``timestamp`` is PostgreSQL's (microseconds), ``datetime`` MariaDB's (whole seconds); ``bit`` is SQL Server's
    and ``tinyint1`` MariaDB's boolean; ``decimal`` is ``decimal(8,2)``.
    """

    name: str
    type: ColumnType
    nullable: bool = True
    references: str | None = None  # "<schema>.<table>", whose key this column holds


@dataclass(frozen=True)
class Table:
    """A table of a source database; its first column is its primary key, an integer.

    ``database`` is what the connector calls ``db``; ``schema`` is the middle of the topic's name (on MariaDB,
    which has no schemas, both are the same), ``prefix`` its beginning: the connector's ``topic.prefix``.
    """

    system: System
    database: str
    schema: str
    name: str
    columns: tuple[Column, ...]
    prefix: str

    @cached_property
    def full_name(self) -> str:
        """``<schema>.<table>``, the table's name everywhere in this package."""
        return f"{self.schema}.{self.name}"

    @cached_property
    def key(self) -> str:
        """Name of the primary key's column."""
        return self.columns[0].name

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Place of each column in a row, by name."""
        return {column.name: place for place, column in enumerate(self.columns)}

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """Exact types: int16/int32, decimal(8,2), date32, timestamp[us] without zone, bool, string."""
        return pa.schema([pa.field(c.name, _ARROW_TYPES[c.type], nullable=c.nullable) for c in self.columns])

    def to_arrow(self, rows: Iterable[Row]) -> pa.Table:
        """The rows as an Arrow table in :attr:`arrow_schema`."""
        columns = list(zip(*rows, strict=True)) or [()] * len(self.columns)
        return pa.Table.from_arrays(
            [pa.array(values, type=f.type) for values, f in zip(columns, self.arrow_schema, strict=True)],
            schema=self.arrow_schema,
        )


@dataclass(frozen=True, slots=True)
class RowChange:
    """One changed row.

    An update whose key differs between ``before`` and ``after`` is a change of the primary key. Neighbouring
    changes of one transaction with the same ``statement`` number were made by one SQL statement.
    """

    table: Table
    op: Operation
    before: Row | None
    after: Row | None
    statement: int = 0

    @property
    def is_key_change(self) -> bool:
        """Whether the row's primary key became another."""
        return self.before is not None and self.after is not None and self.before[0] != self.after[0]


@dataclass(frozen=True, slots=True)
class Transaction:
    """Row changes committed together in one source system, at ``committed_at_us`` (microseconds since 1970, UTC)."""

    system: System
    committed_at_us: int
    changes: tuple[RowChange, ...] = field(repr=False)


def row_at(data: pa.Table, index: int) -> Row:
    """One row of an Arrow table as a tuple."""
    return tuple(cast(Value, column[index].as_py()) for column in data.columns)


def replay(tables: Iterable[Table], snapshot: Database, transactions: Iterable[Transaction]) -> dict[str, pa.Table]:
    """The state of every table after the transactions, which must be in commit order.

    Returns
    -------
    By ``<schema>.<table>``: the rows in exact types, sorted by key.
    """
    touched: dict[str, dict[int, Row | None]] = {}
    for transaction in transactions:
        for change in transaction.changes:
            rows = touched.setdefault(change.table.full_name, {})
            if change.before is not None:
                rows[cast(int, change.before[0])] = None
            if change.after is not None:
                rows[cast(int, change.after[0])] = change.after

    state: dict[str, pa.Table] = {}
    for table in tables:
        before = snapshot[table.full_name]
        rows = touched.get(table.full_name, {})
        keys = pa.array(rows.keys(), type=before.schema.field(0).type)
        untouched = before.filter(pc.invert(pc.is_in(before.column(0), value_set=keys)))
        changed = table.to_arrow(row for row in rows.values() if row is not None)
        state[table.full_name] = pa.concat_tables([untouched, changed]).sort_by(table.key).combine_chunks()
    return state
