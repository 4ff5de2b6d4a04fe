"""MariaDB, as `lake reconcile` reads it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import types as T

from ingest.config.tables import Column
from ingest.operations.databases.forms import (
    DATE,
    Dialect,
    Form,
    FormOf,
    Reader,
    SourceColumn,
    as_one_instant,
    as_one_unsigned,
    as_text,
    bit_string_form,
    floating_form,
    iso_of_micros,
    scalar_type,
    time_form,
    timestamp_form,
)


class MariaDb(Dialect):
    driver = "org.mariadb.jdbc.Driver"
    # Spark has no dialect for MariaDB's URLs and quotes the columns it asks for as the standard does.
    session = "set time_zone = '+00:00', sql_mode = concat(@@sql_mode, ',ANSI_QUOTES')"

    def quote(self, name: str) -> str:
        # The columns of a query are asked for before the session's settings are made.
        return "`" + name.replace("`", "``") + "`"

    def columns(self, reader: Reader, table: tuple[str, ...]) -> list[SourceColumn]:
        database, name = ("database()", table[0]) if len(table) == 1 else (as_text(table[-2]), table[-1])
        rows = reader.ask(
            "select column_name as name, data_type as kind, column_type as written, "
            "coalesce(datetime_precision, numeric_precision) as size, is_nullable as nullable "
            f"from information_schema.columns where table_schema = {database} and table_name = {as_text(name)}"
        )
        return [
            SourceColumn(
                row["name"],
                row["kind"].lower(),
                None if row["size"] is None else int(row["size"]),
                unsigned="unsigned" in row["written"],
                nullable=row["nullable"] == "YES",
            )
            for row in rows
        ]

    def form(self, column: SourceColumn, declared: Column) -> Form | None:
        return _FORMS.get(column.kind, _text)(self.quote(column.name), column, declared)

    def bounds(self, relation: str, first: str, reads: int, *, whole: bool) -> str | None:
        if not whole:
            return None
        # As decimals: of keys that lie far apart, as ids by time do, MariaDB's bigint has no room for a product.
        width = f"(cast(max({first}) as decimal(20)) - min({first}))"
        parts = ", ".join(
            f"min({first}) + floor({width} * {number} / {reads}) as b{number}" for number in range(1, reads)
        )
        return f"select {parts} from {relation}"


def _none(value: str, column: SourceColumn, declared: Column) -> None:
    """A structure in an event."""


def _whole(value: str, column: SourceColumn, declared: Column) -> Form:
    return Form(f"cast({value} as signed)", T.LongType())


def _bigint(value: str, column: SourceColumn, declared: Column) -> Form:
    wanted = scalar_type(declared)
    if not column.unsigned or isinstance(wanted, T.IntegerType | T.LongType):
        return _whole(value, column, declared)
    # The digits that zerofill adds are no part of the number.
    normal = as_one_unsigned if isinstance(wanted, T.StringType) else None
    return Form(f"cast(cast({value} as unsigned) as char)", T.StringType(), normal=normal)


def _bits(value: str, column: SourceColumn, declared: Column) -> Form | None:
    return bit_string_form(f"cast({value} as signed)", column.size)


def _floating(value: str, column: SourceColumn, declared: Column) -> Form:
    return floating_form(f"cast({value} as double)", scalar_type(declared), single=column.kind == "float")


def _date(value: str, column: SourceColumn, declared: Column) -> Form:
    return Form(_or_zero(f"datediff({value}, '1970-01-01')", column), T.LongType(), DATE)


def _timestamp(value: str, column: SourceColumn, declared: Column) -> Form:
    micros = _or_zero(f"timestampdiff(microsecond, '1970-01-01', {value})", column)
    if column.kind == "timestamp" and isinstance(scalar_type(declared), T.StringType):
        return Form(micros, T.StringType(), made=iso_of_micros, normal=as_one_instant)
    in_millis = column.kind == "datetime" and (column.size or 0) <= 3
    return timestamp_form(micros, "div", declared, in_millis=in_millis)


def _time(value: str, column: SourceColumn, declared: Column) -> Form:
    return time_form(f"cast(time_to_sec({value}) * 1000000 as signed)", "div", declared, in_millis=False)


def _bytes(value: str, column: SourceColumn, declared: Column) -> Form:
    return Form(value, T.BinaryType())


def _text(value: str, column: SourceColumn, declared: Column) -> Form:
    return Form(f"cast({value} as char)", T.StringType())


def _or_zero(number: str, column: SourceColumn) -> str:
    """Debezium writes the zero date, of which MariaDB makes no number, as the epoch where null cannot be."""
    return number if column.nullable else f"coalesce({number}, 0)"


# How the values of a type are fetched; those of any other as their text.
_FORMS: Mapping[str, FormOf] = {
    **dict.fromkeys(("geometry", "point", "linestring", "polygon", "geometrycollection"), _none),
    **dict.fromkeys(("multipoint", "multilinestring", "multipolygon"), _none),
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "year"), _whole),
    "bigint": _bigint,
    "bit": _bits,
    **dict.fromkeys(("float", "double"), _floating),
    "date": _date,
    **dict.fromkeys(("datetime", "timestamp"), _timestamp),
    "time": _time,
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _bytes),
}
