"""What a decoded change looks like, whatever it was decoded from.

A decoded change has, in this order:

- the declared columns of the table, with the declared types;
- the metadata columns of its connector (`metadata_columns`), under the names Debezium's unwrap transform gives them;
- `__deleted`, 'true' or 'false';
- where it came from: `ORIGIN`;
- `_lake_problem`: why it cannot be applied (`problem`), or null; `_lake_ignored`: true where it means no change. A
  tombstone of which the declaration does not say what it means has both: the batch decides (`ingest.landing.batch`);
- `_lake_says_deletes`: true where the event's form says of a row whether it is deleted: an envelope, or a rewritten
  event;
- `_lake_unavailable`: names of the columns whose value the event does not hold (`UNAVAILABLE_SEPARATOR` between them),
  or null where it holds all;
- of an event that has a problem or unavailable values, `_lake_raw`: what was read (a typed event as JSON),
  `_lake_form`: for a typed event its schema and Debezium's semantic types, as JSON, so that it can be decoded again,
  and `_lake_record_key`: the bytes of the record's key.
"""

from __future__ import annotations

from typing import Literal

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from ingest.config.connectors import TRANSACTION_COLUMNS, MetadataColumn
from ingest.config.tables import Table
from ingest.schema.connectors import connector_of

UNAVAILABLE_SEPARATOR = "\u001f"
# Before a name in `_lake_unavailable`: the value is null where no earlier change brought one.
OPTIONAL = "?"
# `_lake_partition`, `_lake_start_offset`, `_lake_order` are the offset: partition, first one of the file, order in it.
# The partition of a file that no sink has named is 0; for a table without a key UNNAMED, until its lines have places.
UNNAMED = -1
ORIGIN = ("_lake_partition", "_lake_start_offset", "_lake_order", "_lake_file")
# What is known of an event beside its value, before it is decoded: `_lake_key` is the record's key as bytes, null in
# files that hold values alone.
READ = (*ORIGIN, "_lake_key")
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
    "unknown_table",
    "changed_key",
]
_CODE_ENDS = "\u001e"


def problem(code: ReasonCode, *parts: str | Expression) -> Expression:
    """A `_lake_problem`: its code, and what is told of it in one sentence; null where a part of that is."""
    return F.concat(F.lit(f"{code}{_CODE_ENDS}"), *(F.lit(part) if isinstance(part, str) else part for part in parts))


def reason_of(found: Expression) -> tuple[Expression, Expression]:
    """The code and the sentence of a `_lake_problem`."""
    return F.substring_index(found, _CODE_ENDS, 1), F.substring_index(found, _CODE_ENDS, -1)


def is_record() -> Expression:
    """Whether an event is a record, whose key would be known: by its `_lake_file`, a topic or a file of records."""
    return F.col("_lake_file").endswith(".parquet") | ~F.col("_lake_file").contains("/")


def metadata_columns(table: Table) -> tuple[MetadataColumn, ...]:
    """The metadata columns that silver keeps for a table, without those ingest adds itself."""
    within = TRANSACTION_COLUMNS if table.options.consistent == "transaction" else ()
    return connector_of(table).metadata_columns + within


def derived_columns(table: Table) -> dict[str, Expression]:
    """The columns that no event has, from a decoded change's key; null where the key's text is too short for any."""
    found = {}
    for column in table.columns:
        if (part := column.substring_of) is not None:
            text = F.substring(F.col(f"`{part.column}`").cast("string"), part.start, part.length)
            found[column.name] = F.nullif(text, F.lit(""))
    return found


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
