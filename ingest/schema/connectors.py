"""What differs between the connectors whose events are landed: one object for each, and for a declared order.

No other module asks a connector for its name: `connector_of` gives the object of a table, and the object says which
metadata columns its events have, where in the log a change stands, what is written in place of a value that the log
lacks, what a delete event holds, and what a number means where neither schema nor declaration says.

Sources: Debezium's documentation of each connector ("Data change events", "Data type mappings", "Toasted values"), and
events that Debezium 3 captured from real databases.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import md5
from json import dumps
from types import MappingProxyType
from typing import ClassVar, Literal, Self
from uuid import UUID

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.connectors import COMMON_COLUMNS, LOG_COLUMNS, ConnectorName, MetadataColumn
from ingest.config.tables import SemanticType, Table

# What Debezium writes by default in place of a value that the log does not hold (unavailable.value.placeholder).
UNAVAILABLE_VALUE = "__debezium_unavailable_value"
# What is left of it at least where Debezium truncates it, and no text of one's own begins with.
_BEGINNING = "__debezium"
# Hexadecimal digits of a bigint.
LONG_DIGITS = 16


@dataclass(frozen=True)
class Placeholder:
    """What Debezium writes in place of a value that the log does not hold.

    Such are PostgreSQL's TOAST values, LOBs of Oracle, columns of SQL Server's `max` types and, with
    `binlog_row_image=NOBLOB`, blobs and texts of MySQL and MariaDB.

    It is the placeholder as text or bytes; of hstore as key and value; of an array as its only item, of uuid[] as the
    UUID of its bytes, and of numbers as an item for each byte. A boolean[] has none: Debezium leaves the column out.
    Sources: its UnchangedToastedPlaceholder, and debezium/debezium pull request 7815 for the other arrays of numbers.

    `column.truncate.to.N.chars` truncates it as well: of the default one, any beginning of at least ten letters is it.
    """

    value: str

    @property
    def texts(self) -> tuple[str, ...]:
        """What the text of a JSON event holds then: the placeholder, its base64 or UUID, or its bytes as numbers."""
        text = _BEGINNING if self._may_be_truncated else self.value
        # As Kafka Connect writes an array, and with blanks, as others do.
        arrays = (written(items)[1:-1] for items in self._numbers for written in (_compact, dumps))
        return (text, *self._others, *arrays)

    def may_replace(self, data_type: T.DataType) -> bool:
        """Whether a value that is written with this type may be a placeholder."""
        return isinstance(data_type, T.StringType | T.BinaryType | T.ArrayType | T.MapType)

    def replaces(self, value: Expression, data_type: T.DataType) -> Expression:
        """Whether a value is a placeholder. Never null."""
        if isinstance(data_type, T.StringType):
            arrays = [[self.value], *([text] for text in self._others), *self._numbers]
            found = value.isin(self.value, self._others[0], *map(_compact, (*arrays, {self.value: self.value})))
            if self._may_be_truncated:
                found |= F.lit(self.value).startswith(value) & (F.length(value) >= len(_BEGINNING))
        elif isinstance(data_type, T.BinaryType):
            found = value == F.lit(self.value).cast("binary")
        elif isinstance(data_type, T.MapType) and isinstance(data_type.keyType, T.StringType):
            found = F.map_keys(value) == F.array(F.lit(self.value))
        elif isinstance(data_type, T.ArrayType) and (instead := self._arrays(data_type.elementType)):
            found = value.isin(*instead)
        else:
            found = F.lit(False)
        return F.coalesce(found, F.lit(False))

    def _arrays(self, items: T.DataType) -> list[Expression]:
        """The arrays that stand for one that the log does not hold."""
        arrays: list[list[Expression]] = []
        if isinstance(items, T.StringType):
            arrays = [[F.lit(text)] for text in (self.value, *self._others)]
            arrays += [[F.lit(str(item)) for item in self._numbers[0]]]
        elif isinstance(items, T.BinaryType):
            arrays = [[F.lit(self.value).cast("binary")]]
        elif isinstance(items, T.NumericType):
            arrays = [[F.lit(item).cast(items) for item in self._numbers[0]]]
        return [F.array(*array) for array in arrays]

    @property
    def _may_be_truncated(self) -> bool:
        """Whether a beginning of it is told from a text of one's own."""
        return self.value == UNAVAILABLE_VALUE

    @property
    def _others(self) -> tuple[str, str]:
        """The placeholder's base64, and its UUID as Java's UUID.nameUUIDFromBytes makes it."""
        content = self.value.encode()
        uuid = UUID(bytes=md5(content, usedforsecurity=False).digest(), version=3)
        return base64.b64encode(content).decode(), str(uuid)

    @property
    def _numbers(self) -> tuple[list[int], list[float], list[str]]:
        """The items of an array of numbers: whole, with a fraction, and as `decimal.handling.mode: string` has them."""
        # Java's bytes have a sign (Debezium's UnchangedToastedPlaceholder).
        items = [item - 256 if item > 127 else item for item in self.value.encode()]
        return items, [float(item) for item in items], [str(item) for item in items]


def _compact(value: object) -> str:
    """As Kafka Connect writes JSON."""
    return dumps(value, separators=(",", ":"))


@dataclass(frozen=True)
class Order(ABC):
    """What orders the changes of a table: the places of its source's log, or declared columns.

    Attributes
    ----------
    columns:
        The columns that a streamed change must have.
    orders_reads:
        Rows that a snapshot read must have them as well.
    """

    columns: tuple[str, ...]
    orders_reads: bool = False

    @property
    @abstractmethod
    def told(self) -> str:
        """What it orders by: places of two orders are not compared with each other."""

    @property
    def is_of_each_row(self) -> bool:
        """Whether places tell the order of one row's changes alone: of two rows the greater one need not be later."""
        return False

    @abstractmethod
    def position(self) -> Expression:
        """Where a change stands, as a text that sorts as the log does; null where an event has no place in it."""

    def name(self) -> Expression:
        """What a change is known by in the history: the place as it was first written there, however it sorts now."""
        return self.position()

    def ties(self) -> Expression | None:
        """Whether different changes of a row may share this place; None where none do."""
        return None

    def malformed(self) -> Expression | None:
        """What is wrong with an event whose place is of another form, and would sort elsewhere; null where nothing is.

        None where the columns' types leave no other form.
        """
        return None

    @abstractmethod
    def missing(self, *, is_envelope: bool) -> str:
        """What is wrong with an event that lacks one of the columns, in one sentence."""


# As Debezium writes it: ten bytes, of which texts of equal length sort as the numbers do.
_SQL_SERVER_LSN = (
    "^[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}$",
    "eight, eight and four hexadecimal digits, with colons between",
)


@dataclass(frozen=True)
class LogOrder(Order):
    """The places in a database's log, which Debezium writes into the `source` block of its events."""

    fields: tuple[str, ...] = ()
    # Of texts within a place: what they look like, as a regular expression, and in words.
    forms: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType({})

    @classmethod
    def of(cls, connector: ConnectorName) -> Self:
        """The order of a connector's log."""
        required = [column for column in LOG_COLUMNS[connector] if column.required]
        names = tuple(column.name for column in required)
        return cls(names, fields=tuple(".".join(column.envelope) for column in required))

    @property
    def told(self) -> str:
        return f"the log ({', '.join(self.columns)})"

    def malformed(self) -> Expression | None:
        wrong = [
            F.when(
                ~F.col(name).rlike(form),
                F.concat(F.lit(f"{name.removeprefix('__source_')} is "), F.col(name), F.lit(f", expected {expected}")),
            )
            for name, (form, expected) in self.forms.items()
        ]
        return F.coalesce(*wrong) if wrong else None

    def missing(self, *, is_envelope: bool) -> str:
        fields = ", ".join(self.fields)
        if is_envelope:
            return (
                f"no log position: the envelope lacks {fields}. Declare the connector that its source.connector names, "
                "or order_by where that is none of those"
            )
        return f"no log position: the connector's add.fields must hold {fields}, and add.fields.prefix be __"


@dataclass(frozen=True)
class WalOrder(LogOrder):
    """PostgreSQL's write-ahead log: the last commit before the change or its own LSN, the greater; and its own LSN.

    Debezium gives both in `source.sequence`, or the change's own alone. Either lies between the commit before and the
    change's own commit, so that the first part sorts transactions as they were committed. A row read by a snapshot
    holds all that was committed before either. Of a blocking snapshot its LSN may be where the slot began, long ago
    (`PostgresSnapshotChangeEventSource.getTransactionStartLsn`), and the commit is the last one that was streamed; the
    commit that the next change knows may be one from before the snapshot.
    """

    def position(self) -> Expression:
        return self._place(F.greatest(self._commit(), self._own()))

    def name(self) -> Expression:
        commit = F.coalesce(self._commit(), self._own())
        return self._place(F.when(F.col("__op") == "r", self._own()).otherwise(commit))

    def _place(self, commit: Expression) -> Expression:
        own = F.when(F.col("__op") == "r", F.lit("0" * LONG_DIGITS)).otherwise(self._own())
        return F.when(F.col("__lsn").isNotNull(), F.concat(commit, F.lit("."), own))

    def _own(self) -> Expression:
        return hexadecimal("__lsn", LONG_DIGITS)

    def _commit(self) -> Expression:
        return F.lower(F.hex(commit_lsn().cast("binary")))


@dataclass(frozen=True)
class BinlogOrder(LogOrder):
    """The binlog of MariaDB and MySQL: number of the file, position, and the row within the event where it is known.

    `compresses_transactions`: all events of one may have its position, and count their rows anew (MySQL's
    `binlog_transaction_compression`).
    """

    compresses_transactions: bool = False
    forms = MappingProxyType({"__source_file": ("(?:^|[0-9])$", "a name that ends in the file's number")})

    def position(self) -> Expression:
        within = F.lower(F.concat(padded("__source_pos", LONG_DIGITS), F.lit("."), padded("__source_row", 8)))
        place = F.concat(_sortable("__source_file", T.StringType()), F.lit("."), within)
        return F.when(F.col("__source_pos").isNotNull() & F.col("__source_file").isNotNull(), place)

    def ties(self) -> Expression:
        """Changes of one event of the binlog share its place where their row within it is not known."""
        return F.lit(True) if self.compresses_transactions else F.col("__source_row").isNull()


@dataclass(frozen=True)
class ChangeTableOrder(LogOrder):
    """SQL Server's change tables: commit LSN, change LSN, and of both the event serial number.

    Within a commit that is the order of the log, but for updates of a unique clustered key (`__$command_id`).
    """

    forms = MappingProxyType(dict.fromkeys(("__source_commit_lsn", "__source_change_lsn"), _SQL_SERVER_LSN))

    def position(self) -> Expression:
        none = "00000000:00000000:0000"
        place = F.concat(
            F.lower("__source_commit_lsn"),
            F.lit("."),
            F.coalesce(F.lower("__source_change_lsn"), F.lit(none)),
            F.lit("."),
            hexadecimal("__source_event_serial_no", 8),
        )
        return F.when(F.col("__source_commit_lsn").isNotNull(), place)


@dataclass(frozen=True)
class SequenceOrder(LogOrder):
    """A DynamoDB stream: the sequence number of its records, up to 40 digits. Each shard counts by itself."""

    @property
    def is_of_each_row(self) -> bool:
        return True

    def position(self) -> Expression:
        return _sortable("__sequence_number", T.StringType())

    def missing(self, *, is_envelope: bool) -> str:
        return (
            "no place in the stream: the record lacks dynamodb.SequenceNumber, as those do that go to Kinesis. "
            "Declare order_by: [__source_ts_us] for these"
        )


@dataclass(frozen=True)
class DeclaredOrder(Order):
    """`order_by`: the declared columns, of the table or of Debezium's metadata. Of a tie the later delivered counts."""

    types: tuple[T.DataType, ...] = ()

    @property
    def is_of_each_row(self) -> bool:
        """A number may be a version, which each row counts by itself; a time is none."""
        is_clock = self.columns[0].startswith("__source_ts") or isinstance(self.types[0], T.TimestampType | T.DateType)
        return not is_clock

    @property
    def told(self) -> str:
        return f"order_by ({', '.join(self.columns)})"

    def position(self) -> Expression:
        first, *others = map(_sortable, self.columns, self.types)
        return reduce(lambda left, right: F.concat(left, F.lit("."), right), others, first)

    def ties(self) -> Expression:
        """Any two changes may tie."""
        return F.lit(True)

    def missing(self, *, is_envelope: bool) -> str:
        return f"no order: order_by names {', '.join(self.columns)}, and one of them is null"


@dataclass(frozen=True)
class Connector:
    """A connector's events.

    Attributes
    ----------
    log_columns:
        The metadata columns that say where in the log a change stands.
    order:
        What orders the changes; None where only a declaration can say it.
    delete_holds:
        What a delete event has of its row: all of it, or the key alone, and fillers in the other columns.
    placeholder:
        What is written in place of a value that the log lacks; None where a log holds every value.
    has_lsn:
        `__lsn` numbers each change, and `__source_sequence` the commits before it.
    timestamp:
        What an integer means where a timestamp is declared and neither schema nor declaration says it: Debezium's
        time.precision.mode=adaptive for the usual column type.
    has_nanoseconds:
        Its timestamps may be finer than microseconds, which is what silver's have: `datetime2(7)`.
    has_schemas:
        A table's name has a schema between its database's and its own.
    has_coded_decimals:
        A decimal in a JSON text may be base64 of its unscaled integer (decimal.handling.mode=precise).
    writes:
        What its JSON texts are: Debezium's events, or the records of DynamoDB's streams (`ingest.decode.dynamodb`).
    renumbered_order:
        What orders its records where a connection numbers them anew, as Kinesis does: their own place is lost.
    """

    log_columns: tuple[MetadataColumn, ...] = ()
    order: Order | None = None
    delete_holds: Literal["row", "key"] = "row"
    placeholder: Placeholder | None = None
    has_lsn: bool = False
    timestamp: SemanticType = "io.debezium.time.Timestamp"
    has_nanoseconds: bool = False
    has_schemas: bool = False
    has_coded_decimals: bool = True
    writes: Literal["events", "stream records"] = "events"
    renumbered_order: tuple[str, ...] = ()

    @property
    def metadata_columns(self) -> tuple[MetadataColumn, ...]:
        """The metadata columns that silver keeps of its events, without those of transactions."""
        return COMMON_COLUMNS + self.log_columns

    @property
    def is_placed_by_lsn(self) -> bool:
        """Whether a change's place is the LSN of a commit, which events of an open transaction do not know."""
        return isinstance(self.order, WalOrder)


_DEFAULT_PLACEHOLDER = Placeholder(UNAVAILABLE_VALUE)
_MARIADB = Connector(LOG_COLUMNS["mariadb"], BinlogOrder.of("mariadb"), placeholder=_DEFAULT_PLACEHOLDER)
# Of each name that a declaration may give; None: the declaration gives none, and an order instead.
CONNECTORS: Mapping[ConnectorName | None, Connector] = {
    "postgresql": Connector(
        LOG_COLUMNS["postgresql"],
        WalOrder.of("postgresql"),
        # With the replica identity that tables have by default.
        delete_holds="key",
        placeholder=_DEFAULT_PLACEHOLDER,
        has_lsn=True,
        has_schemas=True,
        # timestamp(6); of MariaDB and SQL Server it is datetime, in milliseconds.
        timestamp="io.debezium.time.MicroTimestamp",
    ),
    "mariadb": _MARIADB,
    "mysql": replace(_MARIADB, order=replace(BinlogOrder.of("mysql"), compresses_transactions=True)),
    "sqlserver": Connector(
        LOG_COLUMNS["sqlserver"],
        ChangeTableOrder.of("sqlserver"),
        placeholder=_DEFAULT_PLACEHOLDER,
        has_nanoseconds=True,
        has_schemas=True,
    ),
    # Its numbers are texts.
    "dynamodb": Connector(
        LOG_COLUMNS["dynamodb"],
        SequenceOrder.of("dynamodb"),
        has_coded_decimals=False,
        writes="stream records",
        # What AWS names as the order of the changes.
        renumbered_order=("__source_ts_us",),
    ),
    # Applications write whole numbers; Oracle and Db2 have nanoseconds.
    None: Connector(has_coded_decimals=False, placeholder=_DEFAULT_PLACEHOLDER, has_nanoseconds=True),
}


def connector_of(table: Table) -> Connector:
    """The connector of a table's events, with what is declared of them, or follows from their connection."""
    connector = CONNECTORS[table.options.connector]
    if written := table.options.unavailable_value_placeholder:
        connector = replace(connector, placeholder=Placeholder(written))
    renumbered = connector.renumbered_order if table.connection.numbers_records_anew else ()
    names = table.options.order_by or renumbered
    if not names:
        return connector
    types = {column.name: column.data_type for column in table.columns}
    types |= {column.name: column.data_type for column in connector.metadata_columns}
    return replace(connector, order=DeclaredOrder(names, orders_reads=True, types=tuple(types[name] for name in names)))


def order_of(table: Table) -> Order:
    """What orders the changes of a table: a declaration without a connector has an order (`IngestOptions`)."""
    order = connector_of(table).order
    assert order is not None
    return order


def commit_lsn(sequence: str = "__source_sequence") -> Expression:
    """PostgreSQL's LSN of the last commit before a change: the first item of Debezium's `source.sequence`, or null."""
    return F.regexp_extract(F.coalesce(F.col(sequence), F.lit("")), r'^\["?(\d+)"?,', 1).cast("bigint")


def hexadecimal(name: str, width: int) -> Expression:
    """A column's whole number as so many hexadecimal digits in lower case; 0 of null."""
    return F.lower(padded(name, width))


def padded(name: str, width: int) -> Expression:
    """The same in upper case."""
    # A bigint is eight bytes, whatever its value: no padding.
    digits = F.hex(F.coalesce(F.col(name).cast("bigint"), F.lit(0)).cast("binary"))
    return digits if width == LONG_DIGITS else F.substring(digits, LONG_DIGITS + 1 - width, width)


def _sortable(name: str, data_type: T.DataType) -> Expression:
    """A number or time as 16 hexadecimal digits that sort as it does, a text of Debezium's metadata as its digits do.

    Null of null.
    """
    column = F.col(f"`{name}`")
    if name == "__source_file":
        # The digits at the end of the file's name.
        digits = F.expr("substring(__source_file, length(rtrim('0123456789', __source_file)) + 1)")
        return F.lpad(digits, 10, "0")
    if isinstance(data_type, T.StringType):
        return F.lpad(column, 40, "0")
    if isinstance(data_type, T.TimestampType):
        column = F.unix_micros(column)
    elif isinstance(data_type, T.DateType):
        column = F.unix_date(column)
    # The sign bit turned round, so that negative numbers sort first.
    return F.lower(F.hex(column.cast("bigint").bitwiseXOR(F.lit(-(2**63))).cast("binary")))
