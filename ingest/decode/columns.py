"""What a decoded change looks like, whatever it was decoded from.

A decoded change has, in this order:

- the declared columns of the table, with the declared types;
- the metadata columns of its connector (`metadata_columns`), under the names Debezium's unwrap transform gives them;
- `__deleted`, 'true' or 'false';
- where it came from: `ORIGIN`;
- `_problem`: why it cannot be applied, or null; `_raw`: in that case what was read;
- `_ignored`: true where it means no change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import types as T

from ingest.declaration import Connector, SemanticType, Table


@dataclass(frozen=True)
class MetadataColumn:
    """A metadata column of silver: name, type, its field in the envelope, and other names unwrap may give it."""

    name: str
    data_type: T.DataType
    envelope: tuple[str, ...]
    aliases: tuple[str, ...] = ()

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
    MetadataColumn("__source_row", T.IntegerType(), ("source", "row"), ("__row",)),
)
# The fields of Debezium's `source` block that say where in the log of the database a change stands.
POSITION_COLUMNS: Mapping[Connector, tuple[MetadataColumn, ...]] = {
    "postgresql": (MetadataColumn("__lsn", T.LongType(), ("source", "lsn"), ("__source_lsn",)),),
    "mariadb": _BINLOG,
    "mysql": _BINLOG,
    "sqlserver": (
        MetadataColumn("__source_commit_lsn", T.StringType(), ("source", "commit_lsn"), ("__commit_lsn",)),
        MetadataColumn("__source_change_lsn", T.StringType(), ("source", "change_lsn"), ("__change_lsn",)),
        MetadataColumn("__source_event_serial_no", T.LongType(), ("source", "event_serial_no"), ("__event_serial_no",)),
    ),
}
# What an integer means where a date or timestamp is declared and neither the file's schema nor the declaration says:
# Debezium's time.precision.mode=adaptive for the usual column types (PostgreSQL timestamp(6), MariaDB datetime,
# SQL Server datetime).
DEFAULT_TIMESTAMP: Mapping[Connector, SemanticType] = {
    "postgresql": "io.debezium.time.MicroTimestamp",
    "mariadb": "io.debezium.time.Timestamp",
    "mysql": "io.debezium.time.Timestamp",
    "sqlserver": "io.debezium.time.Timestamp",
}
# `_partition`, `_start_offset` and `_order` are the offset: partition, the file's first offset, order in it.
ORIGIN = ("_partition", "_start_offset", "_order", "_file")


def metadata_columns(connector: Connector) -> tuple[MetadataColumn, ...]:
    """The metadata columns that silver keeps for a connector's tables, without `__deleted` and `__position`."""
    return _COMMON + POSITION_COLUMNS[connector]


def silver_columns(table: Table) -> list[str]:
    """The columns of a silver table, in order, without Hudi's own."""
    return [
        *(column.name for column in table.columns),
        *(column.name for column in metadata_columns(table.options.connector)),
        "__deleted",
        "__position",
    ]
