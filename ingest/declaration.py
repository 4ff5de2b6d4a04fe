"""Reads and checks the declarations of source systems: dbt `sources` files with `config.meta.ingest`.

dbt reads the same files; no table, key, column or topic is written down twice. The keys are described in
docs/declarations.md. A wrong declaration is refused before anything starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pyspark.sql import types as T

from ingest.errors import DeclarationError, Refusals
from ingest.project import (
    EventConnection,
    JdbcConnection,
    KafkaConnection,
    Project,
    Yaml,
    declaration_error,
    read_yaml,
)

Connector = Literal["postgresql", "mariadb", "mysql", "sqlserver", "dynamodb"]
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

# Without tinyint and smallint: a Hudi table's schema is an Avro schema, whose smallest integer has 32 bits. A 16-bit
# column of the source is declared as int; a table written from Spark's smallint cannot be read back (Hudi 1.2).
SCALAR_TYPES: Mapping[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "integer": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
}
_DECIMAL = re.compile(r"(?:decimal|numeric)\((\d+),\s*(\d+)\)")
# What ingest adds to every silver table, and Hudi's own columns: a column of such a name could not be told apart.
RESERVED = re.compile(r"(__|_hoodie_).*")
# What steps of ingest name columns of their own, beside those of the source.
_WORKING = re.compile(
    r"_(partition|start_offset|order|file|problem|unlike|ignored|unavailable|raw|form|outcome|events|duplicates|mixed|is_held"
    r"|changed|line|event|json|corrupt|row|malformed|empty|unreadable|absent|last|lacking|old_key|log|unplaced|group|alone"
    r"|record_key|tombstone|says_deletes|is_oldest|nothing|kept|removed|rank|repeated|task|first|before|born|length|unfilled|hash|value|kind|is_envelope|metadata"
    r"|(held|further|salt|at|new|moved|erased|key)(_\w*)?)",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"[A-Za-z0-9_]+")


class QuarantineLimit(BaseModel):
    """How many events of a run may be quarantined before the run fails instead: a number of rows, a share, or both.

    Where none is declared, what is too much is set aside and the rest landed; the table is told to be unwell
    (`ingest.runner.judged`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: int | None = Field(default=None, ge=0)
    share: float | None = Field(default=None, ge=0, le=1)


class Database(BaseModel):
    """Where the source's own table is: a connection of type jdbc, and its name where the topic does not say it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connection: str
    table: str | None = Field(default=None, min_length=1)


class SchemaPolicy(BaseModel):
    """What is done where events do not have the columns that are declared (see `ingest.plan`).

    evolve: silver follows; keep: silver stays as it is; quarantine: the events are set aside; fail: nothing is landed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    add: Literal["evolve", "keep", "quarantine", "fail"] = "evolve"
    drop: Literal["keep", "quarantine", "fail"] = "keep"
    widen: Literal["evolve", "keep", "fail"] = "evolve"
    narrow: Literal["keep", "fail"] = "keep"
    incompatible: Literal["quarantine", "fail"] = "quarantine"


class IngestOptions(BaseModel):
    """`config.meta.ingest` of a table, after the source's defaults have been merged in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connection: str
    connector: Connector | None = None
    topic: str = Field(min_length=1)
    topic_pattern: str | None = Field(default=None, min_length=1)
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
    quarantine_limit: QuarantineLimit | None = None
    schema_policy: SchemaPolicy = SchemaPolicy()
    buckets: int | None = Field(default=None, ge=1, le=4096)
    history: bool = False
    database: Database | None = None
    consistent: Literal["table", "transaction"] = "table"
    transaction_topic: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> IngestOptions:
        if self.connector is None and not self.order_by:
            raise ValueError("connector is missing, and so is order_by: one of them says what orders the changes")
        if (self.deletes == "hard") != (self.delete_retention_days is not None):
            raise ValueError(
                f"deletes is '{self.deletes}' and delete_retention_days is {self.delete_retention_days}: "
                "hard needs a retention, soft has none"
            )
        if self.history and not self.key:
            raise ValueError("history is true and key is []: a table without a key appends, silver is its history")
        if self.topic_pattern is not None:
            try:
                re.compile(self.topic_pattern)
            except re.error as error:
                raise ValueError(f"topic_pattern is '{self.topic_pattern}': {error}") from None
            if not self.key:
                raise ValueError("topic_pattern is given and key is []: rows are known by their place in one topic")
        if self.schema_file is not None and self.format == "json":
            raise ValueError("schema_file is an Avro schema, and format is json")
        if self.key_schema_file is not None and not self.key:
            raise ValueError("key_schema_file is given and key is []: records of such a table have no key")
        if self.tombstones == "delete" and not self.key:
            raise ValueError("tombstones is 'delete' and key is []: a tombstone deletes the row of its key")
        if self.tombstones == "delete" and self.consistent == "transaction":
            raise ValueError("tombstones is 'delete' and consistent is 'transaction': a tombstone has no transaction")
        if self.consistent == "transaction" and self.connector in (None, "dynamodb"):
            raise ValueError(f"consistent is 'transaction' and connector is {self.connector}: it has no transactions")
        if self.transaction_topic is not None and self.consistent == "table":
            raise ValueError("transaction_topic is read only where consistent is 'transaction'")
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


@dataclass(frozen=True)
class Column:
    """A column of a source table: the contract of the silver table, and what its values mean in the events.

    Those that silver has besides the declared ones, by the schema policy, are columns as well, but not `declared`.
    `hashed_from`: the type of the values whose hashes silver has (`policy: hash`); `hashed_before`: where the events
    that are decoded, out of the quarantine, hold the hashes themselves.
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

    @property
    def source_type(self) -> T.DataType:
        """The type that values of the source have: that of silver, unless silver has their hashes."""
        return self.hashed_from or self.data_type


@dataclass(frozen=True)
class Table:
    """A table of a source system and how its changes are landed.

    `excluded` are declared columns that nothing is written of; they are none of its `columns`.
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

    @property
    def hashed(self) -> dict[str, T.DataType]:
        """The columns whose hashes silver has, with the types of their values."""
        return {column.name: column.hashed_from for column in self.columns if column.hashed_from is not None}

    @property
    def beside(self) -> dict[str, str]:
        """The names that the table takes in its schema besides its own, and what each is of it."""
        history = {f"{self.name}__changes": "history"} if self.options.history else {}
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
    def relation(self) -> str:
        """The silver table's quoted name for Spark SQL."""
        return f"`{self.schema}`.`{self.name}`"


@dataclass(frozen=True)
class Source:
    """A source system: the tables of one dbt source that `lake` lands."""

    name: str
    schema: str
    tables: tuple[Table, ...]
    file: Path

    def choose(self, names: list[str] | None) -> tuple[Table, ...]:
        """The tables of those names, in the order of the declaration; all of them where `names` is empty.

        Raises
        ------
        DeclarationError
            A name that is not declared.
        """
        known = {table.name for table in self.tables}
        unknown = [name for name in names or [] if name not in known]
        if unknown:
            raise DeclarationError(
                f"source '{self.name}' has no table {', '.join(unknown)}",
                where=str(self.file),
                expected=f"one of: {', '.join(sorted(known))}",
            )
        return tuple(table for table in self.tables if not names or table.name in names)

    def landed_together(self, names: list[str] | None) -> tuple[Table, ...]:
        """As `choose`, but not a part of a source whose transactions are kept whole.

        Raises
        ------
        DeclarationError
            A name that is not declared, or tables chosen of a source that is landed as one.
        """
        chosen = self.choose(names)
        if len(chosen) < len(self.tables) and chosen[0].options.consistent == "transaction":
            raise DeclarationError(
                f"{', '.join(table.name for table in chosen)} alone cannot be landed",
                where=f"{self.file}: {self.name}",
                expected="all tables: the source is consistent by transaction",
                action="run without --tables",
            )
        return chosen


def load_sources(project: Project) -> dict[str, Source]:
    """Every source of the project that has a `config.meta.ingest`, by name.

    Raises
    ------
    DeclarationError
        Everything that cannot be meant, each with file, source, table and key.
    """
    refusals = Refusals()
    sources: dict[str, Source] = {}
    for path, raw in _source_entries(project, refusals):
        with refusals.collected():
            source = _source(project, path.relative_to(project.root), raw, refusals)
            if source is None:
                continue
            if source.name in sources:
                raise DeclarationError(
                    f"source '{source.name}' is declared twice",
                    where=str(source.file),
                    expected=f"once; the first is in {sources[source.name].file}",
                )
            sources[source.name] = source
    refusals.tell()
    return sources


def load_source(project: Project, name: str) -> Source:
    """The source of that name.

    Raises
    ------
    DeclarationError
        There is none, or a declaration is wrong.
    """
    sources = load_sources(project)
    if name not in sources:
        raise DeclarationError(
            f"no source '{name}' with config.meta.ingest is declared",
            where=f"{project.root}: {', '.join(project.model_paths)}",
            expected=f"one of: {', '.join(sources) or 'none is declared'}",
        )
    return sources[name]


def parse_data_type(text: str, *, where: str) -> T.DataType:
    """A Spark type from its SQL name: the scalar types, decimal(p,s) and array<...> of them.

    Raises
    ------
    DeclarationError
        Any other text.
    """
    lowered = text.strip().lower()
    if lowered in SCALAR_TYPES:
        return SCALAR_TYPES[lowered]
    if matched := _DECIMAL.fullmatch(lowered):
        precision, scale = int(matched[1]), int(matched[2])
        if scale <= precision <= 38:
            return T.DecimalType(precision, scale)
    if lowered.startswith("array<") and lowered.endswith(">"):
        return T.ArrayType(parse_data_type(lowered[6:-1], where=where))
    raise DeclarationError(
        f"data_type is '{text}'",
        where=where,
        expected=(
            f"{', '.join(SCALAR_TYPES)}, decimal(precision,scale) with scale <= precision <= 38, "
            "or array<...> of one of them"
        ),
    )


def _source_entries(project: Project, refusals: Refusals) -> Iterator[tuple[Path, Yaml]]:
    for directory in project.model_paths:
        folder = project.root / directory
        for path in sorted([*folder.rglob("*.yml"), *folder.rglob("*.yaml")]):
            where = str(path.relative_to(project.root))
            content = refusals.of(read_yaml, path)
            for entry in refusals.of(_entries, content or {}, "sources", where=where) or []:
                yield path, entry


def _source(project: Project, file: Path, raw: Yaml, refusals: Refusals) -> Source | None:
    """A source with those of its tables that can be meant; None where it has no `config.meta.ingest`."""
    name = _text(raw, "name", where=f"{file}: sources")
    where = f"{file}: source {name}"
    tables = _entries(raw, "tables", where=where)
    if not _is_ingested(raw) and not any(_is_ingested(table) for table in tables):
        return None
    own = {key: value for key, value in raw.items() if key != "tables"}
    rendered = project.renderer.render(own, where=f"{file}: {name}")
    schema = _identifier(str(rendered.get("schema") or name), where=f"{file}: {name}.schema")
    defaults = _ingest_meta(rendered, where=where)
    found = [refusals.of(_rendered_table, project, file, name, schema, defaults, table) for table in tables]
    declared = tuple(table for table in found if table is not None)
    refusals.of(_refuse_clashes, declared)
    refusals.of(_require_one_consistency, declared, where=f"{file}: {name}")
    return Source(name=name, schema=schema, tables=declared, file=file)


def _is_ingested(raw: Any) -> bool:
    """Whether there is a `config.meta.ingest`, right or wrong."""
    try:
        return bool(_ingest_meta(raw, where=""))
    except DeclarationError:
        return True


def _rendered_table(project: Project, file: Path, source: str, schema: str, defaults: Yaml, raw: Any) -> Table:
    _ingest_meta(raw, where=f"{file}: source {source}")
    name = raw.get("name") or "tables"
    return _table(
        project, file, source, schema, defaults, project.renderer.render(raw, where=f"{file}: {source}.{name}")
    )


def _refuse_clashes(declared: tuple[Table, ...]) -> None:
    """Names that two tables would have, or a table and what another has beside itself."""
    for table in declared:
        if [other.name for other in declared].count(table.name) > 1:
            raise DeclarationError(f"table '{table.name}' is declared twice", where=table.where, expected="once")
        for other in declared:
            if what := table.beside.get(other.name):
                raise DeclarationError(
                    f"table '{other.name}' is declared, and it is the {what} of '{table.name}'",
                    where=table.where,
                    expected="another name, or `history: false`, or `table_type: cow`",
                )


def _table(project: Project, file: Path, source: str, schema: str, defaults: Yaml, raw: Yaml) -> Table:
    name = _text(raw, "name", where=f"{file}: {source}.tables")
    where = f"{file}: {source}.{name}"
    refusals = Refusals()
    options = refusals.of(_options, {**defaults, **_ingest_meta(raw, where=where)}, where=where)
    columns, excluded = refusals.of(_columns, raw, where=where) or ((), ())
    external = refusals.of(_external, raw, where=where)
    named = refusals.of(_identifier, str(raw.get("identifier") or name), where=where)
    if options is None:
        raise refusals.error
    place = f"{where}: config.meta.ingest"
    if columns:
        refusals.of(_require_chosen, [column.name for column in columns], excluded, options, where=where)
        refusals.of(_require_sortable, columns, options, where=where)
    connection = refusals.of(_connection, project, columns, options, where=where)
    whole = refusals.of(_with_schema_files, project, options, where=where)
    database = options.database and refusals.of(
        project.database, options.database.connection, where=f"{place}.database.connection"
    )
    refusals.tell()
    assert connection is not None
    assert whole is not None
    return Table(
        source=source,
        name=str(named),
        schema=schema,
        location=str((external or {}).get("location") or name),
        columns=columns,
        options=whole,
        connection=connection,
        where=where,
        database=database or None,
        excluded=excluded,
    )


def _options(merged: Yaml, *, where: str) -> IngestOptions:
    try:
        return IngestOptions.model_validate(merged)
    except ValidationError as error:
        raise declaration_error(error, where=f"{where}: config.meta.ingest") from error


def _columns(raw: Yaml, *, where: str) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns that silver has, and the names of those that are excluded."""
    refusals = Refusals()
    found = [refusals.of(_column, column, where=where) for column in _entries(raw, "columns", where=where)]
    declared = [column for column in found if column is not None]
    columns = tuple(column for column, policy in declared if policy != "exclude")
    excluded = tuple(column.name for column, policy in declared if policy == "exclude")
    refusals.of(_refuse_names, [column.name for column in columns], excluded, where=where)
    refusals.tell()
    if not columns:
        raise DeclarationError("declares no columns", where=where, expected="each column with name and data_type")
    return columns, excluded


def _connection(
    project: Project, columns: tuple[Column, ...], options: IngestOptions, *, where: str
) -> EventConnection:
    """Where the events come from: of a type that has what the options ask for."""
    connection = project.connection(options.connection, where=f"{where}: config.meta.ingest.connection")
    refusals = Refusals()
    refusals.of(_require_hashable, project, columns, options, connection, where=where)
    if options.topic_pattern is not None:
        refusals.of(_require_topics, options, connection, where=where)
    refusals.tell()
    return connection


def _require_topics(options: IngestOptions, connection: EventConnection, *, where: str) -> None:
    if not isinstance(connection, KafkaConnection):
        raise DeclarationError(
            f"topic_pattern is given, and the connection '{options.connection}' is of type {connection.type}",
            where=f"{where}: config.meta.ingest.topic_pattern",
            expected="a connection of type kafka: a folder of files is one topic's",
        )


def _external(raw: Yaml, *, where: str) -> Yaml:
    external: Yaml = raw.get("external") or {}
    if external.get("using", "hudi") != "hudi":
        raise DeclarationError(f"external.using is '{external['using']}'", where=where, expected="hudi")
    return external


def _require_one_consistency(tables: tuple[Table, ...], *, where: str) -> None:
    """A transaction is whole over all tables of its source, or over none."""
    said = {
        (table.options.consistent, table.transaction_topic if table.options.consistent == "transaction" else None)
        for table in tables
    }
    if len(said) > 1:
        told = ", ".join(f"{kind} ({topic})" if topic else kind for kind, topic in sorted(said, key=str))
        raise DeclarationError(
            f"its tables are consistent by {told}",
            where=f"{where}: config.meta.ingest.consistent",
            expected="one for all tables of a source: declare it on the source",
            action="tables of another connector belong to a source of their own",
        )


def is_column_name(name: str) -> bool:
    """Whether silver can have a column of that name: a Hudi table's schema is an Avro schema.

    Source: the Avro specification, "Names", with the letters of any script, as Avro's Java library takes them.
    """
    return not _WORKING.fullmatch(name) and all(
        letter == "_" or letter.isalpha() or (letter.isdecimal() and at) for at, letter in enumerate(name)
    )


def _refuse_names(names: list[str], excluded: tuple[str, ...], *, where: str) -> None:
    """Names that silver cannot have, and those that Spark does not tell apart."""
    for column in names:
        if not is_column_name(column):
            raise DeclarationError(
                f"a column is named '{column}'",
                where=where,
                expected="letters, digits and underscores, a digit not first, as a Hudi table has them"
                + (", and no name that ingest gives a column of its own" if _WORKING.fullmatch(column) else ""),
                action="rename it on its way (Debezium's ReplaceField), or declare it with policy: exclude",
            )
    every = [*names, *excluded]
    for column in every:
        same = [other for other in every if other.lower() == column.lower()]
        if len(same) > 1:
            told = "is declared twice" if len(set(same)) < len(same) else "differs from another by case alone"
            raise DeclarationError(f"column '{column}' {told}", where=where, expected="names that Spark can tell apart")


def _require_chosen(names: list[str], excluded: tuple[str, ...], options: IngestOptions, *, where: str) -> None:
    """What names columns of the table must name columns that silver has."""
    for key, chosen in (
        ("key", options.key),
        ("partition_by", options.partition_by),
        ("order_by", options.order_by),
    ):
        for column in chosen:
            if key == "order_by" and column in ordering_metadata(options.connector):
                continue
            if column in excluded:
                raise DeclarationError(
                    f"column '{column}' is excluded, and {key} names it",
                    where=f"{where}.{column}: config.meta.ingest.policy",
                    expected="a column that no row is known, placed or ordered by",
                )
            if column not in names:
                raise DeclarationError(
                    f"{key} names '{column}'",
                    where=f"{where}: config.meta.ingest.{key}",
                    expected=f"declared columns: {', '.join(names)}"
                    + (f"; or {', '.join(ordering_metadata(options.connector))}" if key == "order_by" else ""),
                )


def _require_sortable(columns: tuple[Column, ...], options: IngestOptions, *, where: str) -> None:
    """What orders changes must have an order: of the table's columns numbers and times, and places in a log."""
    types = {column.name: column.data_type for column in columns}
    for name in options.order_by:
        found = types.get(name)
        if found is not None and not isinstance(found, T.IntegerType | T.LongType | T.DateType | T.TimestampType):
            raise DeclarationError(
                f"order_by names '{name}', a {found.simpleString()}",
                where=f"{where}: config.meta.ingest.order_by",
                expected="columns of type int, bigint, date or timestamp, or of Debezium's metadata: "
                + ", ".join(ordering_metadata(options.connector)),
            )


def ordering_metadata(connector: Connector | None) -> tuple[str, ...]:
    """The metadata columns that `order_by` may name: the source's clock, and the places in the log of its database."""
    of_log: Mapping[Connector, tuple[str, ...]] = {
        "postgresql": ("__lsn",),
        "mariadb": ("__source_file", "__source_pos", "__source_row"),
        "mysql": ("__source_file", "__source_pos", "__source_row"),
        "sqlserver": ("__source_commit_lsn", "__source_change_lsn", "__source_event_serial_no"),
        "dynamodb": ("__sequence_number",),
    }
    return ("__source_ts_ms", *(of_log[connector] if connector else ()))


def _with_schema_files(project: Project, options: IngestOptions, *, where: str) -> IngestOptions:
    """The options with the whole paths of the schemas that they name."""
    paths: dict[str, str] = {}
    for key, named in (("schema_file", options.schema_file), ("key_schema_file", options.key_schema_file)):
        if named is None:
            continue
        if not (project.root / named).is_file():
            raise DeclarationError(
                f"names the schema file '{named}', which is not there",
                where=f"{where}: config.meta.ingest.{key}",
                expected=f"a path from {project.root}",
            )
        paths[key] = str(project.root / named)
    return options.model_copy(update=paths)


def _require_hashable(
    project: Project, columns: tuple[Column, ...], options: IngestOptions, connection: EventConnection, *, where: str
) -> None:
    """Hashed columns need a salt, and may not order or partition the table."""
    for hashed in (column.name for column in columns if column.hashed_from is not None):
        for key, chosen, reason in (
            ("order_by", options.order_by, "hashes have no order of their values"),
            ("partition_by", options.partition_by, "each value would be a partition"),
        ):
            if hashed in chosen:
                raise DeclarationError(
                    f"column '{hashed}' is hashed, and {key} names it: {reason}",
                    where=f"{where}.{hashed}: config.meta.ingest.policy",
                    expected=f"a column that is not in {key}; one of the key may be hashed",
                )
    hashes = [column.name for column in columns if column.hashed_from is not None]
    if hashes and not (connection.hash_salt and connection.hash_salt.get_secret_value()):
        raise DeclarationError(
            f"policy: hash of {', '.join(hashes)} needs a salt, and the connection '{options.connection}' has none",
            where=f"{where}: config.meta.ingest.connection",
            expected=f"in {project.profiles_dir / 'connections.yml'}: hash_salt: \"{{{{ env_var('...') }}}}\"",
            action="set the variable to a long random text, the same wherever hashes should be joined",
        )


def _column(raw: Yaml, *, where: str) -> tuple[Column, str | None]:
    """A column as silver has it, and its policy."""
    name = _text(raw, "name", where=f"{where}.columns")
    here = f"{where}.{name}"
    if RESERVED.fullmatch(name):
        raise DeclarationError(
            "is a name that ingest or Hudi adds itself", where=here, expected="a column of the source table"
        )
    try:
        options = ColumnOptions.model_validate(_ingest_meta(raw, where=here))
    except ValidationError as error:
        raise declaration_error(error, where=f"{here}: config.meta.ingest") from error
    data_type = parse_data_type(_text(raw, "data_type", where=here), where=here)
    _refuse_idle_options(options, data_type, where=f"{here}: config.meta.ingest")
    column = Column(name, data_type, **options.model_dump(exclude={"policy"}))
    if options.policy != "hash":
        return column, options.policy
    if not is_hashable(data_type):
        raise DeclarationError(
            f"policy is hash, of a {data_type.simpleString()}",
            where=f"{here}: config.meta.ingest.policy",
            expected="a type whose equal values have one text: no float, double or array",
        )
    return replace(column, data_type=T.StringType(), hashed_from=data_type), options.policy


def is_hashable(data_type: T.DataType) -> bool:
    """Whether equal values of a type have one text."""
    return not isinstance(data_type, T.FloatType | T.DoubleType | T.ArrayType)


# The semantic types that can be declared, by what their values can become; a number may always stay one.
_TIMES_OF_DAY = ("io.debezium.time.Time", "io.debezium.time.MicroTime", "io.debezium.time.NanoTime")


def _refuse_idle_options(options: ColumnOptions, data_type: T.DataType, *, where: str) -> None:
    """An option that says nothing of a column of that type is a mistake, and would be taken for heeded."""
    scalar = data_type
    while isinstance(scalar, T.ArrayType):
        scalar = scalar.elementType
    whole = T.IntegerType | T.LongType
    if options.semantic_type in _TIMES_OF_DAY:
        allowed, meant = isinstance(scalar, whole | T.StringType), "string, int or bigint"
    elif options.semantic_type == "io.debezium.data.Bits":
        allowed = isinstance(scalar, whole | T.BooleanType | T.BinaryType | T.DecimalType)
        meant = "int, bigint, boolean, binary or decimal"
    else:
        allowed = isinstance(scalar, whole | T.StringType | T.DateType | T.TimestampType)
        meant = "date, timestamp, int, bigint or string"
    checks = [
        ("semantic_type", options.semantic_type, allowed, meant),
        ("decimal", options.decimal, isinstance(scalar, T.DecimalType), "decimal"),
        ("binary", options.binary, isinstance(scalar, T.BinaryType), "binary"),
        (
            "special_values",
            options.special_values,
            isinstance(data_type, T.DecimalType | T.DateType | T.TimestampType),
            "decimal, date or timestamp",
        ),
        (
            "unsigned",
            options.unsigned or None,
            isinstance(scalar, T.DecimalType) and scalar.scale == 0 and scalar.precision >= 20,
            "decimal(20,0) or wider, without decimals, for a bigint unsigned",
        ),
    ]
    for key, declared, fits, expected in checks:
        if declared is not None and not fits:
            raise DeclarationError(
                f"{key} is declared of a {data_type.simpleString()}",
                where=f"{where}.{key}",
                expected=f"a data_type of {expected}",
            )
    if options.unsigned and options.decimal == "base64":
        raise DeclarationError(
            "unsigned and decimal: base64 exclude each other",
            where=where,
            expected="unsigned for bigint.unsigned.handling.mode=long, decimal: base64 for precise",
        )


def _entries(raw: Yaml, key: str, *, where: str) -> list[Any]:
    entries = raw.get(key) or []
    if not isinstance(entries, list):
        raise DeclarationError(f"{key} is {entries!r}", where=where, expected="a list")
    return entries


def _ingest_meta(raw: Any, *, where: str) -> Yaml:
    """`config.meta.ingest`, or dbt's older place, `meta.ingest`."""
    if not isinstance(raw, dict):
        raise DeclarationError(f"holds {raw!r}", where=where, expected="a mapping of keys, with a name")
    config = raw.get("config") or {}
    meta = (config.get("meta") if isinstance(config, dict) else None) or raw.get("meta") or {}
    ingest = meta.get("ingest") or {} if isinstance(meta, dict) else {}
    if not isinstance(ingest, dict):
        raise DeclarationError(f"config.meta.ingest is {ingest!r}", where=where, expected="a mapping of keys")
    return dict(ingest)


def _text(raw: Any, key: str, *, where: str) -> str:
    value = raw.get(key) if isinstance(raw, dict) else None
    if not isinstance(value, str) or not value:
        raise DeclarationError(f"{key} is {value!r}", where=where, expected="a text")
    return value


def _identifier(text: str, *, where: str) -> str:
    if not _IDENTIFIER.fullmatch(text):
        raise DeclarationError(f"is named '{text}'", where=where, expected="letters, digits and underscores")
    return text
