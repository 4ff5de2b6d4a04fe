"""MariaDB, as `lake reconcile` reads it."""

from __future__ import annotations

from pyspark.sql import types as T

from ingest.config.tables import Column
from ingest.operations.databases.forms import (
    DATE,
    Dialect,
    Form,
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
    _without_form = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
                     "geometrycollection")  # fmt: skip

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

    def form(self, column: SourceColumn, declared: Column) -> Form | None:  # noqa: PLR0911
        value, kind, wanted = self.quote(column.name), column.kind, scalar_type(declared)
        if kind in self._without_form:
            return None
        if kind == "bigint" and column.unsigned and not isinstance(wanted, T.IntegerType | T.LongType):
            # The digits that zerofill adds are no part of the number.
            normal = as_one_unsigned if isinstance(wanted, T.StringType) else None
            return Form(f"cast(cast({value} as unsigned) as char)", T.StringType(), normal=normal)
        if kind in ("tinyint", "smallint", "mediumint", "int", "bigint", "year"):
            return Form(f"cast({value} as signed)", T.LongType())
        if kind == "bit":
            return bit_string_form(f"cast({value} as signed)", column.size)
        if kind in ("float", "double"):
            return floating_form(f"cast({value} as double)", wanted, single=kind == "float")
        if kind == "date":
            return Form(self._or_zero(f"datediff({value}, '1970-01-01')", column), T.LongType(), DATE)
        if kind in ("datetime", "timestamp"):
            micros = self._or_zero(f"timestampdiff(microsecond, '1970-01-01', {value})", column)
            if kind == "timestamp" and isinstance(wanted, T.StringType):
                return Form(micros, T.StringType(), made=iso_of_micros, normal=as_one_instant)
            in_millis = kind == "datetime" and (column.size or 0) <= 3
            return timestamp_form(micros, "div", declared, in_millis=in_millis)
        if kind == "time":
            return time_form(f"cast(time_to_sec({value}) * 1000000 as signed)", "div", declared, in_millis=False)
        if kind in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"):
            return Form(value, T.BinaryType())
        return Form(f"cast({value} as char)", T.StringType())

    @staticmethod
    def _or_zero(number: str, column: SourceColumn) -> str:
        """Debezium writes the zero date, of which MariaDB makes no number, as the epoch where null cannot be."""
        return number if column.nullable else f"coalesce({number}, 0)"

    def bounds(self, relation: str, first: str, reads: int, *, whole: bool) -> str | None:
        if not whole:
            return None
        parts = ", ".join(
            f"min({first}) + (max({first}) - min({first})) * {number} div {reads} as b{number}"
            for number in range(1, reads)
        )
        return f"select {parts} from {relation}"
