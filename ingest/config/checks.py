"""What a declaration cannot mean.

Each `refuse_...` and `require_...` raises DeclarationError, with the place (`where`: file, table and key), what was
found and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, permutations, product

from pyspark.sql import types as T

from ingest.config.connections import EventConnection
from ingest.config.connectors import SAYS_DELETED_ROWS, SAYS_ROWS, ordering_columns
from ingest.config.lake import is_absolute
from ingest.config.project import Project
from ingest.config.tables import Column, ColumnOptions, IngestOptions, Table
from ingest.errors import DeclarationError

# Columns that steps of ingest add to their rows begin so, beside those of the source.
WORKING_PREFIX = "_lake_"
# Tables that ingest keeps beside those of a source.
OWN_TABLES = frozenset({"_quarantine", "_failures", "_erased", "_replayed", "_cuts", "_transactions", "_released"})


def refuse_clashes(declared: tuple[Table, ...]) -> None:
    """Names that two tables would have, or a table and what another has beside itself."""
    for table in declared:
        if [other.name.lower() for other in declared].count(table.name.lower()) > 1:
            raise DeclarationError(
                f"table '{table.name}' is declared twice", where=table.where, expected="names that Spark can tell apart"
            )
        if table.name.lower() in OWN_TABLES:
            raise DeclarationError(
                f"table '{table.name}' has a name that ingest gives a table of its own",
                where=table.where,
                expected=f"another name than {', '.join(sorted(OWN_TABLES))}: `identifier` says it",
            )
        if own := OWN_TABLES.intersection(table.location.lower().split("/")):
            raise DeclarationError(
                f"its location {table.location} is, or is within, that of a table that ingest keeps itself",
                where=table.where,
                expected=f"a location without {', '.join(sorted(own))}",
            )
        beside = {name.lower(): what for name, what in table.beside.items()}
        for other in declared:
            if other is not table:
                _refuse_one_place(table, other)
            if what := beside.get(other.name.lower()):
                raise DeclarationError(
                    f"table '{other.name}' is declared, and it is the {what} of '{table.name}'",
                    where=table.where,
                    expected="another name, or `history: false`, or `table_type: cow`",
                )


def _refuse_one_place(table: Table, other: Table) -> None:
    """Tables of which one would write into the other's folder."""
    if _place_of(other).startswith(_place_of(table)):
        message = "have one location" if _place_of(other) == _place_of(table) else "lie one within the other"
        of = f"'{table.name}' and '{other.name}'"
        if table.source != other.source:
            of = f"'{table.source}.{table.name}' and '{other.source}.{other.name}'"
        raise DeclarationError(
            f"tables {of} {message}: {table.location}",
            where=table.where,
            expected="a location of its own for each",
        )


def _place_of(table: Table) -> str:
    """Where a table lies, as far as a declaration says it: a relative location is in the folder of its schema."""
    if is_absolute(table.location):
        return f"{re.sub('^file:/+', '/', table.location)}/"
    return f"{table.schema.lower()}:{table.location}/"


def refuse_shared_relations(sources: Sequence[tuple[str, tuple[Table, ...]]]) -> None:
    """Tables of two sources that would be one table: each would go on from the other's position.

    So would the transaction topics, and the cuts, of two sources of a schema that are consistent by transaction.
    """
    known: dict[tuple[str, str], str] = {}
    for source, tables in sources:
        for table in tables:
            relation = (table.schema.lower(), table.name.lower())
            if (other := known.setdefault(relation, source)) != source:
                raise DeclarationError(
                    f"table '{table.name}' of schema '{table.schema}' is declared by source '{other}' too",
                    where=table.where,
                    expected="another schema, or another `identifier`",
                )
    for (_, tables), (_, others) in permutations(sources, 2):
        for table, another in product(tables, others):
            _refuse_one_place(table, another)
    cut = [tables[0] for _, tables in sources if tables and tables[0].options.consistent == "transaction"]
    for first, second in combinations(cut, 2):
        if first.schema.lower() == second.schema.lower():
            raise DeclarationError(
                f"sources '{first.source}' and '{second.source}' are consistent by transaction, and have one schema, "
                f"'{second.schema}', in which ingest keeps their transactions",
                where=second.where,
                expected="a schema of its own for each",
            )


def require_topics(options: IngestOptions, connection: EventConnection, *, where: str) -> None:
    """A pattern of topics needs a connection that has topics."""
    if not connection.has_topics:
        raise DeclarationError(
            f"topic_pattern is given, and the connection '{options.connection}' is of type {connection.type}",
            where=f"{where}: config.meta.ingest.topic_pattern",
            expected="a connection that has topics, such as one of type kafka: a folder of files is one topic's",
        )


def require_one_consistency(tables: tuple[Table, ...], *, where: str) -> None:
    """A transaction is whole over all tables of its source, or over none."""
    said = {
        (table.options.consistent, table.transaction_topic if table.options.consistent == "transaction" else None)
        for table in tables
    }
    if len(said) > 1:
        message = ", ".join(f"{kind} ({topic})" if topic else kind for kind, topic in sorted(said, key=str))
        raise DeclarationError(
            f"its tables are consistent by {message}",
            where=f"{where}: config.meta.ingest.consistent",
            expected="one for all tables of a source: declare it on the source",
            action="tables of another connector belong to a source of their own",
        )


def refuse_one_collection(declared: tuple[Table, ...]) -> None:
    """Two tables whose events the end of a transaction would count as one table's: those of one topic are."""
    for other, table in combinations(declared, 2):
        is_cut = table.options.consistent == "transaction"
        if is_cut and table.collection == other.collection and table.options.topic != other.options.topic:
            raise DeclarationError(
                f"tables '{other.name}' and '{table.name}' are both {table.collection} in the source's transactions",
                where=table.where,
                expected="names that differ in their last two parts where consistent is 'transaction': events are "
                "counted by these",
                action="give each database a connector and a source of its own, with its own topic.prefix",
            )


def refuse_mixed_topics(declared: tuple[Table, ...]) -> None:
    """Two tables of one topic that are not one table kept twice: each would take the other's events for its own."""
    for other, table in combinations(declared, 2):
        is_shared = (table.connection, table.options.topic) == (other.connection, other.options.topic)
        tell_apart = table.options.table_include_list and other.options.table_include_list
        if is_shared and not tell_apart and not _is_kept_twice(table, other):
            raise DeclarationError(
                f"tables '{other.name}' and '{table.name}' read one topic, {table.options.topic}, by other keys or "
                "columns: each event would be a row of both",
                where=table.where,
                expected="a topic for each table, as Debezium names them",
                action="declare table_include_list of each where the connector routes several tables to one topic "
                "(ByLogicalTableRouter, RegexRouter); a table that is kept twice has the other's key or none, and its "
                "columns or some of them",
            )


def _is_kept_twice(table: Table, other: Table) -> bool:
    """Whether all columns of one are also columns of the other, and they know rows by the same key.

    One without a key is the log of the other's events.
    """
    one, two = (
        {column.name.lower() for column in each.in_events.columns} | {name.lower() for name in each.excluded}
        for each in (table, other)
    )
    return (table.key == other.key or not table.key or not other.key) and (one <= two or two <= one)


def is_column_name(name: str) -> bool:
    """Whether silver can have a column of that name: a Hudi table's schema is an Avro schema.

    Source: the Avro specification, "Names", with the letters of any script, as Avro's Java library takes them.
    """
    letters = all(letter == "_" or letter.isalpha() or (letter.isdecimal() and at) for at, letter in enumerate(name))
    # Of a letter beyond U+FFFF the library sees two halves, neither of which is a letter.
    is_seen_whole = all(letter <= "\uffff" for letter in name)
    return bool(name) and letters and is_seen_whole and not name.lower().startswith(WORKING_PREFIX)


def refuse_names(names: list[str], excluded: tuple[str, ...], *, where: str) -> None:
    """Names that silver cannot have, and those that Spark does not tell apart."""
    for column in names:
        if not is_column_name(column):
            raise DeclarationError(
                f"a column is named '{column}'",
                where=where,
                expected="letters, digits and underscores, a digit not first, as a Hudi table has them"
                + f", and no {WORKING_PREFIX} before them",
                action="rename it on its way (Debezium's ReplaceField), or declare it with policy: exclude",
            )
    every = [*names, *excluded]
    for column in every:
        same = [other for other in every if other.lower() == column.lower()]
        if len(same) > 1:
            message = "is declared twice" if len(set(same)) < len(same) else "differs from another by case alone"
            raise DeclarationError(
                f"column '{column}' {message}", where=where, expected="names that Spark can tell apart"
            )


def require_chosen(names: list[str], excluded: tuple[str, ...], options: IngestOptions, *, where: str) -> None:
    """What names columns of the table must name columns that silver has."""
    for key, chosen in (
        ("key", options.key),
        ("partition_by", options.partition_by),
        ("order_by", options.order_by),
    ):
        for column in chosen:
            if chosen.count(column) > 1:
                raise DeclarationError(
                    f"{key} names '{column}' twice",
                    where=f"{where}: config.meta.ingest.{key}",
                    expected="each column once",
                )
            if key == "order_by" and column in ordering_columns(options.connector):
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
                    + (f"; or {', '.join(ordering_columns(options.connector))}" if key == "order_by" else ""),
                )


def require_places(columns: tuple[Column, ...], options: IngestOptions, *, where: str) -> None:
    """Rows are known by texts of their key, and lie in folders that are named by their partition columns' values.

    Two arrays may have one text. Hudi gives a timestamp folders of two names, neither with its microseconds, and bytes
    the name of a Java object.
    """
    types = {column.name: column.data_type for column in columns}
    for name in options.key:
        found = types.get(name)
        if isinstance(found, T.ArrayType):
            raise DeclarationError(
                f"key names '{name}', of type {found.simpleString()}, of which two values may have one text",
                where=f"{where}: config.meta.ingest.key",
                expected="columns of another type: declare the array as a string, which holds it as JSON",
                action="a table that is landed may lack rows: land it anew",
            )
    for name in options.partition_by:
        found = types.get(name)
        if isinstance(found, T.TimestampType | T.BinaryType | T.ArrayType):
            raise DeclarationError(
                f"partition_by names '{name}', of type {found.simpleString()}, which a folder's name does not hold",
                where=f"{where}: config.meta.ingest.partition_by",
                expected="columns of another type, such as a date in place of a timestamp",
                action="partition by a column of characters of the key (substring_of) where the source has none; "
                "a table that is landed has wrong values there: land it anew",
            )


def require_sortable(columns: tuple[Column, ...], options: IngestOptions, *, where: str) -> None:
    """What orders changes must have an order: of the table's columns numbers and times, and places in a log."""
    types = {column.name: column.data_type for column in columns}
    for name in options.order_by:
        found = types.get(name)
        if found is not None and not isinstance(found, T.IntegerType | T.LongType | T.DateType | T.TimestampType):
            raise DeclarationError(
                f"order_by names '{name}', a {found.simpleString()}",
                where=f"{where}: config.meta.ingest.order_by",
                expected="columns of type int, bigint, date or timestamp, or of Debezium's metadata: "
                + ", ".join(ordering_columns(options.connector)),
            )


def require_told(columns: tuple[Column, ...], options: IngestOptions, *, where: str) -> None:
    """What a table has, and what orders it, must be in the records of its stream, by the view type that is declared."""
    view = options.stream_view_type
    if view is None:
        return
    others = [column.name for column in columns if column.name not in options.key and column.substring_of is None]
    place = f"{where}: config.meta.ingest.stream_view_type"
    if others and view not in SAYS_ROWS:
        raise DeclarationError(
            f"is {view}, and of inserts and updates no record says {', '.join(others)}",
            where=place,
            expected=f"{' or '.join(sorted(SAYS_ROWS))}, or the columns of the key alone",
            action="a stream's view type is fixed: disable the stream, and enable another",
        )
    ordering = [name for name in options.order_by if name in others]
    if ordering and view not in SAYS_DELETED_ROWS:
        raise DeclarationError(
            f"is {view}, and of deletes no record says {', '.join(ordering)}, by which order_by orders the changes",
            where=place,
            expected=f"NEW_AND_OLD_IMAGES, or order_by of {', '.join(ordering_columns(options.connector))}",
        )


def require_derivable(columns: tuple[Column, ...], options: IngestOptions, *, where: str) -> None:
    """A derived column is a text of the key's, so that every change has it; nothing is known or ordered by it."""
    types = {column.name: column.data_type for column in columns}
    parts = [name for name in options.key if isinstance(types.get(name), T.StringType | T.IntegerType | T.LongType)]
    for column in columns:
        if column.substring_of is None:
            continue
        place = f"{where}.{column.name}: config.meta.ingest.substring_of"
        if not isinstance(column.data_type, T.StringType):
            found = column.data_type.simpleString()
            raise DeclarationError(f"is declared of a {found}", where=place, expected="a data_type of string")
        for key, chosen in (("key", options.key), ("order_by", options.order_by)):
            if column.name in chosen:
                raise DeclarationError(f"{key} names '{column.name}'", where=place, expected="a column of the source")
        of = next((each for each in columns if each.name == column.substring_of.column), None)
        if of is None or of.name not in parts or of.substring_of is not None:
            raise DeclarationError(
                f"names '{column.substring_of.column}'",
                where=place,
                expected=f"a column of the key, of type string, int or bigint: {', '.join(parts) or 'it has none'}",
            )


def require_hashable(
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


def is_hashable(data_type: T.DataType) -> bool:
    """Whether equal values of a type have one text."""
    return not isinstance(data_type, T.FloatType | T.DoubleType | T.ArrayType)


# The semantic types that can be declared, by what their values can become; a number may always stay one.
_TIMES_OF_DAY = ("io.debezium.time.Time", "io.debezium.time.MicroTime", "io.debezium.time.NanoTime")


def refuse_idle_options(options: ColumnOptions, data_type: T.DataType, *, where: str) -> None:
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
    if options.substring_of is not None and options.model_fields_set != {"substring_of"}:
        others = ", ".join(sorted(options.model_fields_set - {"substring_of"}))
        raise DeclarationError(
            f"substring_of and {others} exclude each other",
            where=where,
            expected="substring_of alone: no event has the column",
        )
    if options.unsigned and options.decimal == "base64":
        raise DeclarationError(
            "unsigned and decimal: base64 exclude each other",
            where=where,
            expected="unsigned for bigint.unsigned.handling.mode=long, decimal: base64 for precise",
        )
