"""The source's own database: its tables as `lake reconcile` reads them, PostgreSQL and MariaDB by JDBC.

A value is fetched in the form in which Debezium writes it in its default modes, by the column's type in the database,
and then goes through the rules by which events reach silver (`ingest.decode.types`): both sides of a comparison have
one form, whatever type is declared. What cannot have the declared type is told apart from null.

Sources: "Data type mappings" of Debezium's documentation of both connectors; PostgreSQL 15, "System Catalogs" and
"Date/Time Functions and Operators"; MariaDB, "Information Schema COLUMNS Table".
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from pyspark.sql import Column as Expression
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.tables import Table
from ingest.decode.fields import Field
from ingest.decode.types import converted
from ingest.errors import InputError
from ingest.operations.databases.forms import Dialect, Reader, SourceColumn, SourceRows
from ingest.operations.databases.mariadb import MariaDb
from ingest.operations.databases.postgresql import PostgreSql

# A column of rows: the names of those columns whose value is not one of the declared type.
UNFIT = "__unfit"
_ROWS_A_READ = 200_000
_MOST_READS = 64


def rows_of(spark: SparkSession, table: Table) -> SourceRows:
    """The rows of a table's database, read in ranges of its key.

    Raises
    ------
    InputError
        The table, or a declared column, is not there, or a column of the key cannot be compared.
    """
    connection = table.database
    assert connection is not None
    dialect = _DIALECTS[connection.dialect]
    reader = Reader(spark, connection, dialect)
    known = _known_columns(reader, table)
    forms = {column.name: dialect.form(known[column.name], column) for column in table.columns}
    left_out = tuple(name for name, form in forms.items() if form is None)
    if lost := [name for name in table.key if name in left_out]:
        raise InputError(
            f"the key's {', '.join(lost)} cannot be compared: {known[lost[0]].kind}",
            where=f"{table.where}: {connection.url}",
            expected="a key of numbers, texts, dates or times",
        )
    compared = [(column, form) for column in table.columns if (form := forms[column.name]) is not None]
    selected = ", ".join(f"{form.query} as {dialect.quote(column.name)}" for column, form in compared)
    relation = ".".join(map(dialect.quote, table.database_name))
    first = dialect.quote(known[table.key[0]].name)
    whole = any(
        column.name == table.key[0] and isinstance(column.data_type, T.IntegerType | T.LongType)
        for column in table.columns
    )
    rows = spark.read.jdbc(
        connection.url,
        f"(select {selected}, {first} as {dialect.quote('__range')} from {relation}) as rows_of_source",
        predicates=_ranges(reader, relation, first, whole=whole),
        properties=reader.properties,
    )
    values, problems = [], []
    for column, form in compared:
        fetched = F.col(f"`{column.name}`")
        made = form.made(fetched) if form.made else fetched
        read = Field(made, form.data_type, form.semantic_type, in_json=False)
        known_as = converted(made, read, column, column.data_type, table.options.connector)
        values.append(known_as.value.alias(column.name))
        problems.append(F.when(fetched.isNotNull() & known_as.problem.isNotNull(), F.lit(column.name)))
    normal = {column.name: form.normal for column, form in compared if form.normal is not None}
    return SourceRows(rows.select(*values, unfit(problems)), normal, left_out)


def unfit(problems: list[Expression]) -> Expression:
    """`__unfit`, from the names of columns, each null where its value is well."""
    return F.array_compact(F.array(*problems)).alias(UNFIT)


def _known_columns(reader: Reader, table: Table) -> dict[str, SourceColumn]:
    """The database's columns, under their declared names: as they are written, or else but for their case."""
    found = reader.dialect.columns(reader, table.database_name)
    exact = {column.name: column for column in found}
    folded = {column.name.casefold(): column for column in found}
    known = {column.name: exact.get(column.name) or folded.get(column.name.casefold()) for column in table.columns}
    if lacking := [name for name, column in known.items() if column is None]:
        raise InputError(
            f"has no column {', '.join(lacking)}" if found else "is not there, or not for this user",
            where=f"{table.where}: {reader.connection.url}, {'.'.join(table.database_name)}",
            expected="the columns that the table declares",
        )
    return {name: column for name, column in known.items() if column is not None}


def _ranges(reader: Reader, relation: str, first: str, *, whole: bool) -> list[str]:
    """Conditions on the key's first column, each true for about as many rows; together they are true for every row."""
    column = reader.dialect.quote("__range")
    rows = reader.ask(f"select count(*) as n from {relation}")[0][0]
    reads = min(_MOST_READS, int(rows) // _ROWS_A_READ)
    query = reader.dialect.bounds(relation, first, reads, whole=whole) if reads > 1 else None
    bounds = [str(value) for value in reader.ask(query)[0] if value is not None] if query else []
    literals = ["'" + bound.replace("'", "''") + "'" for bound in dict.fromkeys(bounds)]
    if not literals:
        return ["1 = 1"]
    between = [f"{column} >= {low} and {column} < {high}" for low, high in pairwise(literals)]
    return [f"{column} < {literals[0]} or {column} is null", *between, f"{column} >= {literals[-1]}"]


_DIALECTS: Mapping[str, Dialect] = {"postgresql": PostgreSql(), "mariadb": MariaDb()}
