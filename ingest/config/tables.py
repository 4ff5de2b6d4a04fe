"""The tables of source systems as they are declared: `config.meta.ingest` of dbt's sources, typed.

The keys are described in docs/reference/declarations.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pyspark.sql import types as T

from ingest.config.connections import EventConnection, JdbcConnection, of_one_folder
from ingest.config.connectors import TRANSACTIONAL, VIEWED, ConnectorName, StreamViewType

# What the history of a table is called: its name, and this.
HISTORY = "__changes"
SemanticType = Literal[
    "io.debezium.time.Date",
    "io.debezium.time.Timestamp",
    "io.debezium.time.MicroTimestamp",
    "io.debezium.time.NanoTimestamp",
    "io.debezium.time.ZonedTimestamp",
    "io.debezium.time.Time",
    "io.debezium.time.MicroTime",
    "io.debezium.time.NanoTime",
    "io.debezium.data.Bits",
]


class QuarantineLimit(BaseModel):
    """How many events of a batch may be quarantined before the run fails instead: a number of rows, a share, or both.

    Where none is declared, what is too much is set aside and the rest landed; the table is told to be unwell
    (`ingest.landing.health.judged`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: int | None = Field(default=None, ge=0)
    share: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def _limits(self) -> QuarantineLimit:
        if self.rows is None and self.share is None:
            raise ValueError("quarantine_limit has neither rows nor share: one of them says what is too much")
        return self


class Database(BaseModel):
    """Where the source's own table is: a connection of type jdbc, and its name where the topic does not say it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connection: str
    table: str | None = Field(default=None, min_length=1)


class SchemaPolicy(BaseModel):
    """What is done where events do not have the columns that are declared (see `ingest.schema.evolution`).

    evolve: silver follows; keep: silver stays as it is; quarantine: the events are set aside; fail: nothing is landed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    add: Literal["evolve", "keep", "quarantine", "fail"] = "evolve"
    drop: Literal["keep", "quarantine", "fail"] = "keep"
    widen: Literal["evolve", "keep", "fail"] = "evolve"
    narrow: Literal["keep", "fail"] = "keep"
    incompatible: Literal["quarantine", "fail"] = "quarantine"


def _require_pattern(name: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{name} is '{pattern}': {error}") from None


class IngestOptions(BaseModel):
    """`config.meta.ingest` of a table, after the source's defaults have been merged in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connection: str
    connector: ConnectorName | None = None
    stream_view_type: StreamViewType | None = None
    topic: str = Field(min_length=1)
    topic_pattern: str | None = Field(default=None, min_length=1)
    table_include_list: tuple[str, ...] = ()
    format: Literal["auto", "json", "avro"] = "auto"
    schema_file: str | None = None
    key_schema_file: str | None = None
    key: tuple[str, ...]
    order_by: tuple[str, ...] = ()
    epoch: int = Field(default=0, ge=0, le=0xFFFF)
    table_type: Literal["mor", "cow"] = "mor"
    table_version: Literal[6, 8, 9] = 9
    partition_by: tuple[str, ...] = ()
    deletes: Literal["soft", "hard"] = "soft"
    delete_retention_days: int | None = Field(default=None, ge=0)
    truncate: Literal["apply", "ignore", "quarantine", "fail"] = "apply"
    tombstones: Literal["delete", "ignore"] | None = None
    null_updates: Literal["apply", "ignore"] = "apply"
    unavailable_value_placeholder: str | None = Field(default=None, min_length=1)
    quarantine_limit: QuarantineLimit | None = None
    schema_policy: SchemaPolicy = SchemaPolicy()
    buckets: int | None = Field(default=None, ge=1, le=4096)
    commits_retained: int | None = Field(default=None, ge=1)
    history: bool = False
    database: Database | None = None
    consistent: Literal["table", "transaction"] = "table"
    transaction_topic: str | None = Field(default=None, min_length=1)

    @field_validator("connector", mode="before")
    @classmethod
    def _of_a_known_log(cls, connector: object) -> object:
        if isinstance(connector, str) and connector not in get_args(ConnectorName):
            raise ValueError(
                f"connector is '{connector}', expected one of {', '.join(get_args(ConnectorName))}; of another "
                "database leave it out, and declare order_by: [__source_ts_ms], or what else orders its changes"
            )
        return connector

    @field_validator("topic")
    @classmethod
    def _of_one_topic(cls, topic: str) -> str:
        return of_one_folder(topic)

    @field_validator("unavailable_value_placeholder")
    @classmethod
    def _as_debezium_reads_it(cls, written: str | None) -> str | None:
        """The text of it: a setting that begins with `hex:` is hexadecimal octets (Debezium's documentation)."""
        if written is None or not written.startswith("hex:"):
            return written
        try:
            text = bytes.fromhex(written.removeprefix("hex:")).decode()
        except ValueError:
            text = ""
        if not text:
            raise ValueError(
                f"unavailable_value_placeholder is '{written}', expected two hexadecimal digits behind hex: for each "
                "byte of a text in UTF-8"
            )
        return text

    @model_validator(mode="after")
    def _consistent(self) -> IngestOptions:
        if self.connector is None and not self.order_by:
            raise ValueError("connector is missing, and so is order_by: one of them says what orders the changes")
        if (self.deletes == "hard") != (self.delete_retention_days is not None):
            raise ValueError(
                f"deletes is '{self.deletes}' and delete_retention_days is {self.delete_retention_days}: "
                "hard needs a retention, soft has none"
            )
        if self.stream_view_type is not None and self.connector not in VIEWED:
            raise ValueError(
                f"stream_view_type is {self.stream_view_type} and connector is {self.connector}: "
                f"only streams of {', '.join(VIEWED)} have a view type"
            )
        if self.history and not self.key:
            raise ValueError("history is true and key is []: a table without a key appends, silver is its history")
        if self.topic_pattern is not None:
            _require_pattern("topic_pattern", self.topic_pattern)
            if not self.key:
                raise ValueError("topic_pattern is given and key is []: rows are known by their place in one topic")
        if self.key_schema_file is not None and not self.key:
            raise ValueError("key_schema_file is given and key is []: records of such a table have no key")
        if self.tombstones == "delete" and not self.key:
            raise ValueError("tombstones is 'delete' and key is []: a tombstone deletes the row of its key")
        if self.tombstones == "delete" and self.consistent == "transaction":
            raise ValueError("tombstones is 'delete' and consistent is 'transaction': a tombstone has no transaction")
        if self.consistent == "transaction" and self.connector not in TRANSACTIONAL:
            raise ValueError(f"consistent is 'transaction' and connector is {self.connector}: it has no transactions")
        if self.transaction_topic is not None and self.consistent == "table":
            raise ValueError("transaction_topic is read only where consistent is 'transaction'")
        return self

    @model_validator(mode="after")
    def _shares_its_topic(self) -> IngestOptions:
        if not self.table_include_list:
            return self
        for pattern in self.table_include_list:
            _require_pattern("table_include_list", pattern)
        if self.tombstones != "ignore":
            raise ValueError(
                "table_include_list is given and tombstones is not 'ignore': a tombstone does not say its table"
            )
        if self.consistent == "transaction":
            raise ValueError(
                "table_include_list is given and consistent is 'transaction': its events are counted by topic"
            )
        if self.connector in VIEWED:
            raise ValueError(
                f"table_include_list is given and connector is {self.connector}: its streams have one table each"
            )
        return self

    @model_validator(mode="after")
    def _lacks_values(self) -> IngestOptions:
        if self.unavailable_value_placeholder is not None and self.connector in VIEWED:
            raise ValueError(
                f"unavailable_value_placeholder is given and connector is {self.connector}: no value of its streams is "
                "unavailable"
            )
        return self

    @model_validator(mode="after")
    def _cuts_are_retained(self) -> IngestOptions:
        if self.commits_retained is not None and self.consistent == "transaction":
            raise ValueError(
                "commits_retained is given and consistent is 'transaction': cuts say how many are retained"
            )
        return self


class Substring(BaseModel):
    """A column that the source does not have: so many characters of a column of the key, as SQL's substring counts.

    A row has one as long as it has its key, its delete as well.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    column: str = Field(min_length=1)
    start: int
    length: int = Field(ge=1)

    @model_validator(mode="after")
    def _counted_from_one(self) -> Substring:
        if self.start == 0:
            raise ValueError("start is 0: the first character is 1, the last is -1")
        return self


class ColumnOptions(BaseModel):
    """`config.meta.ingest` of a column: what its values mean where the events do not say it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    semantic_type: SemanticType | None = None
    decimal: Literal["number", "base64"] | None = None
    binary: Literal["base64", "base64-url-safe", "hex"] | None = None
    special_values: Literal["quarantine", "null"] | None = None
    unsigned: bool = False
    policy: Literal["exclude", "hash"] | None = None
    substring_of: Substring | None = None


@dataclass(frozen=True)
class Column:
    """A column of a source table: the contract of the silver table, and what its values mean in the events.

    Those that silver has besides the declared ones, by the schema policy, are columns as well, but not `declared`.
    `hashed_from`: the type of the values whose hashes silver has (`policy: hash`); `hashed_before`: where the events
    that are decoded, out of the quarantine, hold the hashes themselves. `substring_of`: no event has it, silver derives
    it from the key. `description`: what catalogs tell readers of it. `told`: of a key column the semantic type that the
    last schema of its events has told, for keys of records without one.
    """

    name: str
    data_type: T.DataType
    semantic_type: SemanticType | None = None
    decimal: Literal["number", "base64"] | None = None
    binary: Literal["base64", "base64-url-safe", "hex"] | None = None
    special_values: Literal["quarantine", "null"] | None = None
    unsigned: bool = False
    declared: bool = True
    hashed_from: T.DataType | None = None
    hashed_before: T.DataType | None = None
    substring_of: Substring | None = None
    description: str = ""
    told: str | None = None

    @property
    def source_type(self) -> T.DataType:
        """The type that values of the source have: that of silver, unless silver has their hashes."""
        return self.hashed_from or self.data_type


@dataclass(frozen=True)
class Table:
    """A table of a source system and how its changes are landed.

    `excluded` are declared columns that nothing is written of; they are none of its `columns`. `description` is what
    catalogs tell readers of the table.
    """

    source: str
    name: str
    schema: str
    location: str
    columns: tuple[Column, ...]
    options: IngestOptions
    connection: EventConnection
    where: str
    database: JdbcConnection | None = None
    excluded: tuple[str, ...] = ()
    description: str = ""

    @property
    def hashed(self) -> dict[str, T.DataType]:
        """The columns whose hashes silver has, with the types of their values."""
        return {column.name: column.hashed_from for column in self.columns if column.hashed_from is not None}

    @property
    def beside(self) -> dict[str, str]:
        """The names that the table takes in its schema besides its own, and what each is of it."""
        history = {f"{self.name}{HISTORY}": "history"} if self.options.history else {}
        return history | {f"{self.name}{suffix}": f"view {suffix}" for suffix in self.views}

    @property
    def views(self) -> dict[str, bool]:
        """Hudi's names for two ways to read a merge-on-read table, and whether it is read without its log files."""
        return {"_ro": True, "_rt": False} if self.options.table_type == "mor" else {}

    @property
    def is_masked(self) -> bool:
        """Whether an event of the table must not be kept as it was read."""
        return bool(self.excluded or self.hashed)

    @property
    def in_events(self) -> Table:
        """The table with the columns that events have: without those that silver derives."""
        if all(column.substring_of is None for column in self.columns):
            return self
        return replace(self, columns=tuple(column for column in self.columns if column.substring_of is None))

    @property
    def in_source(self) -> Table:
        """The table with the types that the source has."""
        columns = tuple(replace(column, data_type=column.source_type, hashed_from=None) for column in self.columns)
        return replace(self, columns=columns)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key, in order."""
        return self.options.key

    @property
    def database_name(self) -> tuple[str, ...]:
        """The parts of the table's name in its database: as declared, or the topic's last two, as Debezium names it."""
        declared = self.options.database.table if self.options.database else None
        return tuple(declared.split(".") if declared else self.options.topic.split(".")[-2:])

    @property
    def collection(self) -> str:
        """The table's name as the END of a transaction has it, as far as it is looked at: its last two parts."""
        return ".".join(self.database_name[-2:])

    @property
    def transaction_topic(self) -> str:
        """Where Debezium writes the source's transactions: as declared, or `<topic.prefix>.transaction`."""
        return self.options.transaction_topic or f"{self.options.topic.split('.')[0]}.transaction"

    @property
    def record_key(self) -> str:
        """The column that is Hudi's record key.

        A single whole number is its own record key. Any other key is written as one text, `__key`: Hudi refuses an
        empty text, writes a timestamp differently on insert and on update, and joins the parts of a composite key
        with separators that a text may hold as well. A table without a key appends: its rows are known by their place.
        """
        if not self.key:
            return "__position"
        types = {column.name: column.data_type for column in self.columns}
        whole = len(self.key) == 1 and isinstance(types[self.key[0]], T.IntegerType | T.LongType)
        return self.key[0] if whole else "__key"

    @property
    def alone(self) -> str:
        """What names this table alone to a command of `lake`."""
        return f"{self.source} --tables {self.name}"

    @property
    def relation(self) -> str:
        """The silver table's quoted name for Spark SQL."""
        return f"`{self.schema}`.`{self.name}`"
