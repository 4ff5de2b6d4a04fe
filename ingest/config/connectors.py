"""The columns in which Debezium's events say where they come from, as data: for each connector those of its log.

What an event of a connector means is in `ingest.schema.connectors`, which builds upon these columns. They stand here
because a declaration is checked against them (`ingest.config.checks`).

Sources: Debezium's documentation of each connector, "Data change events", for the `source` block; and of the
ExtractNewRecordState transform, for the names that `add.fields` gives its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import types as T

ConnectorName = Literal["postgresql", "mariadb", "mysql", "sqlserver", "dynamodb"]
# What a DynamoDB table's stream has of an item besides its key (the DynamoDB API Reference, "StreamSpecification").
StreamViewType = Literal["KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"]
# The connectors whose streams have a view type.
VIEWED: frozenset[ConnectorName] = frozenset({"dynamodb"})
# The view types whose inserts and updates say the row, and those whose deletes say what it was.
SAYS_ROWS: frozenset[StreamViewType] = frozenset({"NEW_IMAGE", "NEW_AND_OLD_IMAGES"})
SAYS_DELETED_ROWS: frozenset[StreamViewType] = frozenset({"OLD_IMAGE", "NEW_AND_OLD_IMAGES"})


@dataclass(frozen=True)
class MetadataColumn:
    """A metadata column of silver.

    Attributes
    ----------
    envelope:
        Its field in the envelope.
    aliases:
        Other names that the unwrap transform may give it.
    required:
        Of a column of the log: a streamed change without it cannot be ordered.
    orders:
        `order_by` may name it.
    """

    name: str
    data_type: T.DataType
    envelope: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    required: bool = True
    orders: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the column in an unwrapped event, the first found wins."""
        return (self.name, *self.aliases)


def _of_log(
    name: str, data_type: T.DataType, alias: str = "", *, required: bool = True, orders: bool = True
) -> MetadataColumn:
    """A field of the `source` block, `__source_<field>` or, where Debezium alone writes it, `__<field>`."""
    field = name.removeprefix("__source_").removeprefix("__")
    return MetadataColumn(name, data_type, ("source", field), (alias,) if alias else (), required, orders)


# Of every connector: the op, and the table and time in the source.
COMMON_COLUMNS = (
    MetadataColumn("__op", T.StringType(), ("op",)),
    MetadataColumn("__name", T.StringType(), ("source", "name"), ("__source_name",)),
    MetadataColumn("__db", T.StringType(), ("source", "db"), ("__source_db",)),
    MetadataColumn("__schema", T.StringType(), ("source", "schema"), ("__source_schema",)),
    MetadataColumn("__table", T.StringType(), ("source", "table"), ("__source_table",)),
    MetadataColumn("__source_ts_ms", T.LongType(), ("source", "ts_ms"), orders=True),
)
_BINLOG = (
    _of_log("__source_file", T.StringType(), "__file"),
    _of_log("__source_pos", T.LongType(), "__pos"),
    # Where `add.fields` has it: an event of the binlog may hold several rows (see `ingest.changes.latest.may_tie`).
    _of_log("__source_row", T.IntegerType(), "__row", required=False),
)
# The fields of Debezium's `source` block that say where in the log of the database a change stands.
LOG_COLUMNS: Mapping[ConnectorName, tuple[MetadataColumn, ...]] = {
    "postgresql": (
        _of_log("__lsn", T.LongType(), "__source_lsn"),
        # A JSON array of two LSNs, which sorts as neither.
        _of_log("__source_sequence", T.StringType(), "__sequence", required=False, orders=False),
    ),
    "mariadb": _BINLOG,
    "mysql": _BINLOG,
    "sqlserver": (
        _of_log("__source_commit_lsn", T.StringType(), "__commit_lsn"),
        _of_log("__source_change_lsn", T.StringType(), "__change_lsn"),
        _of_log("__source_event_serial_no", T.LongType(), "__event_serial_no"),
    ),
    "dynamodb": (
        # A stream record's SequenceNumber: up to 40 digits.
        _of_log("__sequence_number", T.StringType()),
        # Its ApproximateCreationDateTime, where the record says that it counts microseconds.
        _of_log("__source_ts_us", T.LongType(), required=False),
        _of_log("__is_ttl_delete", T.BooleanType(), required=False, orders=False),
    ),
}
# Which transaction an event belongs to (provide.transaction.metadata), and its place within it.
TRANSACTION_COLUMNS = (
    MetadataColumn("__transaction_id", T.StringType(), ("transaction", "id")),
    MetadataColumn("__transaction_total_order", T.LongType(), ("transaction", "total_order")),
)
# The connectors that write transaction metadata.
TRANSACTIONAL: frozenset[ConnectorName] = frozenset({"postgresql", "mariadb", "mysql", "sqlserver"})


def ordering_columns(connector: ConnectorName | None) -> tuple[str, ...]:
    """The metadata columns that `order_by` may name: the source's clock, and the places in the log of its database."""
    of_log = LOG_COLUMNS[connector] if connector else ()
    return tuple(column.name for column in (*COMMON_COLUMNS, *of_log) if column.orders)
