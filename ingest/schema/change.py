"""What a decoded change looks like, whatever it was decoded from.

A decoded change has, in this order:

- the declared columns of the table, with the declared types;
- the metadata columns of its connector (`metadata_columns`), under the names Debezium's unwrap transform gives them;
- `__deleted`, 'true' or 'false';
- where it came from: `ORIGIN`;
- `_problem`: why it cannot be applied (`problem`), or null; `_ignored`: true where it means no change. A tombstone of
  which the declaration does not say what it means has both: the batch decides (`ingest.landing.batch`);
- `_says_deletes`: true where the event's form says of a row whether it is deleted: an envelope, or a rewritten event;
- `_unavailable`: names of the columns whose value the event does not hold (`UNAVAILABLE_SEPARATOR` between them), or
  null where it holds all;
- of an event that has a problem or unavailable values, `_raw`: what was read (a typed event as JSON), `_form`: for a
  typed event its schema and Debezium's semantic types, as JSON, so that it can be decoded again, and `_record_key`: the
  bytes of the record's key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.tables import Connector, SemanticType, Table


@dataclass(frozen=True)
class MetadataColumn:
    """A metadata column of silver: name, type, its field in the envelope, and other names unwrap may give it.

    `required` says of a position column that a streamed change without it cannot be ordered.
    """

    name: str
    data_type: T.DataType
    envelope: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    required: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the column in an unwrapped event, the first found wins."""
        return (self.name, *self.aliases)


_COMMON = (
    MetadataColumn("__op", T.StringType(), ("op",)),
    MetadataColumn("__name", T.StringType(), ("source", "name"), ("__source_name",)),
    MetadataColumn("__db", T.StringType(), ("source", "db"), ("__source_db",)),
    MetadataColumn("__schema", T.StringType(), ("source", "schema"), ("__source_schema",)),
    MetadataColumn("__table", T.StringType(), ("source", "table"), ("__source_table",)),
    MetadataColumn("__source_ts_ms", T.LongType(), ("source", "ts_ms")),
)
_BINLOG = (
    MetadataColumn("__source_file", T.StringType(), ("source", "file"), ("__file",)),
    MetadataColumn("__source_pos", T.LongType(), ("source", "pos"), ("__pos",)),
    # Where `add.fields` has it: an event of the binlog may hold several rows (see `ingest.changes.latest.may_tie`).
    MetadataColumn("__source_row", T.IntegerType(), ("source", "row"), ("__row",), required=False),
)
# The fields of Debezium's `source` block that say where in the log of the database a change stands.
POSITION_COLUMNS: Mapping[Connector, tuple[MetadataColumn, ...]] = {
    "postgresql": (
        MetadataColumn("__lsn", T.LongType(), ("source", "lsn"), ("__source_lsn",)),
        MetadataColumn("__source_sequence", T.StringType(), ("source", "sequence"), ("__sequence",), required=False),
    ),
    "mariadb": _BINLOG,
    "mysql": _BINLOG,
    "sqlserver": (
        MetadataColumn("__source_commit_lsn", T.StringType(), ("source", "commit_lsn"), ("__commit_lsn",)),
        MetadataColumn("__source_change_lsn", T.StringType(), ("source", "change_lsn"), ("__change_lsn",)),
        MetadataColumn("__source_event_serial_no", T.LongType(), ("source", "event_serial_no"), ("__event_serial_no",)),
    ),
    # A DynamoDB stream record's SequenceNumber: up to 40 digits.
    "dynamodb": (MetadataColumn("__sequence_number", T.StringType(), ("source", "sequence_number")),),
}
# Which transaction an event belongs to (provide.transaction.metadata), and its place within it.
TRANSACTION_COLUMNS = (
    MetadataColumn("__transaction_id", T.StringType(), ("transaction", "id")),
    MetadataColumn("__transaction_total_order", T.LongType(), ("transaction", "total_order")),
)
# What an integer means where a date or timestamp is declared and neither the file's schema nor the declaration says:
# Debezium's time.precision.mode=adaptive for the usual column types (PostgreSQL timestamp(6), MariaDB datetime,
# SQL Server datetime).
DEFAULT_TIMESTAMP: Mapping[Connector | None, SemanticType] = {
    None: "io.debezium.time.Timestamp",
    "postgresql": "io.debezium.time.MicroTimestamp",
    "mariadb": "io.debezium.time.Timestamp",
    "mysql": "io.debezium.time.Timestamp",
    "sqlserver": "io.debezium.time.Timestamp",
    "dynamodb": "io.debezium.time.Timestamp",
}
UNAVAILABLE_SEPARATOR = "\u001f"
# Before a name in `_unavailable`: the value is null where no earlier change brought one.
OPTIONAL = "?"
# What Debezium writes in place of a value that PostgreSQL's log does not hold (unavailable.value.placeholder).
UNAVAILABLE_VALUE = "__debezium_unavailable_value"
# `_partition`, `_start_offset` and `_order` are the offset: partition, the file's first offset, order in it.
ORIGIN = ("_partition", "_start_offset", "_order", "_file")
# What is known of an event beside its value, before it is decoded: `_key` is the record's key as bytes, null in files
# that hold values alone.
READ = (*ORIGIN, "_key")
# Why an event is quarantined, as one word (docs/reference/quarantine.md has the list).
ReasonCode = Literal[
    "invalid_json",
    "invalid_avro",
    "invalid_record",
    "unknown_schema",
    "not_an_event",
    "unknown_op",
    "missing_key",
    "missing_position",
    "missing_transaction",
    "bad_value",
    "unavailable_value",
    "schema_policy",
    "truncate",
    "tombstone",
    "purged",
]
_CODE_ENDS = "\u001e"


def problem(code: ReasonCode, *told: str | Expression) -> Expression:
    """A `_problem`: its code, and what is told of it in one sentence; null where a part of that is."""
    return F.concat(F.lit(f"{code}{_CODE_ENDS}"), *(F.lit(part) if isinstance(part, str) else part for part in told))


def reason_of(found: Expression) -> tuple[Expression, Expression]:
    """The code and the sentence of a `_problem`."""
    return F.substring_index(found, _CODE_ENDS, 1), F.substring_index(found, _CODE_ENDS, -1)


def is_record() -> Expression:
    """Whether an event is a record of Kafka, whose key would be known: by its `_file`, a topic or a file of records."""
    return F.col("_file").endswith(".parquet") | ~F.col("_file").contains("/")


def metadata_columns(table: Table) -> tuple[MetadataColumn, ...]:
    """The metadata columns that silver keeps for a table, without those ingest adds itself."""
    connector = table.options.connector
    within = TRANSACTION_COLUMNS if table.options.consistent == "transaction" else ()
    return _COMMON + (POSITION_COLUMNS[connector] if connector else ()) + within


def silver_columns(table: Table) -> list[str]:
    """The columns of a silver table, in order, without Hudi's own.

    `__carried` names, as a JSON object, the columns whose value an older event brought, and that event's position.
    """
    return [
        *(column.name for column in table.columns),
        *(column.name for column in metadata_columns(table)),
        "__deleted",
        "__carried",
        *(["__key"] if table.record_key == "__key" else []),
        "__position",
    ]
