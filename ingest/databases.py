"""The source's own database: its tables as `lake reconcile` reads them, PostgreSQL and MariaDB by JDBC.

A value is fetched in the form in which Debezium writes it in its default modes, by the column's type in the database,
and then goes through the rules by which events reach silver (`ingest.decode.types`): both sides of a comparison have
one form, whatever type is declared. What cannot have the declared type is told apart from null.

Sources: "Data type mappings" of Debezium's documentation of both connectors; PostgreSQL 15, "System Catalogs" and
"Date/Time Functions and Operators"; MariaDB, "Information Schema COLUMNS Table".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.declaration import Column, Table
from ingest.decode.types import BITS, Field, converted
from ingest.errors import InputError
from ingest.project import JdbcConnection

# A column of rows: the names of those columns whose value is not one of the declared type.
UNFIT = "__unfit"
_ROWS_A_READ = 200_000
_MOST_READS = 64
_DATE = "io.debezium.time.Date"
_MILLIS, _MICROS = "io.debezium.time.Timestamp", "io.debezium.time.MicroTimestamp"
_TIME_MILLIS, _TIME_MICROS = "io.debezium.time.Time", "io.debezium.time.MicroTime"
_Step = Callable[[Expression], Expression]


@dataclass(frozen=True)
class SourceRows:
    """Rows of a source's table.

    Attributes
    ----------
    rows:
        The columns that can be compared, in the types of the source, and `__unfit`.
    normal:
        Of columns whose equal values may reach silver as different texts: what makes them one text, on both sides.
    left_out:
        Columns that have no form to be compared in.
    """

    rows: DataFrame
    normal: Mapping[str, _Step] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _SourceColumn:
    """A column as the database knows it: `kind` is its type, or its elements'; `size` a number of digits or bits."""

    name: str
    kind: str
    size: int | None
    is_array: bool = False
    unsigned: bool = False
    nullable: bool = True


@dataclass(frozen=True)
class _Form:
    """How a value is fetched and what it means.

    `query` is SQL, `element` the same as a text, for an array; `made` gives the value of `data_type` from what was
    fetched, and `semantic_type` its meaning, as in an event. `normal`: see `SourceRows`.
    """

    query: str
    data_type: T.DataType
    semantic_type: str | None = None
    made: _Step | None = None
    normal: _Step | None = None
    element: str | None = None


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
    reader = _Reader(spark, connection, dialect)
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


def _known_columns(reader: _Reader, table: Table) -> dict[str, _SourceColumn]:
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


@dataclass(frozen=True)
class _Reader:
    spark: SparkSession
    connection: JdbcConnection
    dialect: _Dialect

    @property
    def properties(self) -> dict[str, str]:
        return {
            "user": self.connection.user,
            "password": self.connection.password.get_secret_value(),
            "driver": self.dialect.driver,
            "sessionInitStatement": self.dialect.session,
            "fetchsize": "10000",
        }

    def ask(self, query: str) -> list[Row]:
        options = {"url": self.connection.url, "query": query, **self.properties}
        return self.spark.read.format("jdbc").options(**options).load().collect()


def _ranges(reader: _Reader, relation: str, first: str, *, whole: bool) -> list[str]:
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


class _Dialect:
    """How a database writes identifiers, values and bounds, and what columns a table has."""

    driver = ""
    session = ""

    def quote(self, name: str) -> str:
        """An identifier."""
        return '"' + name.replace('"', '""') + '"'

    def columns(self, reader: _Reader, table: tuple[str, ...]) -> list[_SourceColumn]:
        """The columns of a table; none where there is no such table."""
        raise NotImplementedError

    def form(self, column: _SourceColumn, declared: Column) -> _Form | None:
        """How the values of a column are fetched; None: they cannot be compared."""
        raise NotImplementedError

    def bounds(self, relation: str, first: str, reads: int, *, whole: bool) -> str | None:
        """A query for one row: the values that part a column (of `whole` numbers) into ranges; None: it cannot."""
        raise NotImplementedError


class _PostgreSql(_Dialect):
    driver = "org.postgresql.Driver"
    session = "set time zone 'UTC'"
    # Structures in an event, or forms that depend on a setting of the connector.
    _without_form = ("point", "line", "lseg", "box", "path", "polygon", "circle", "geometry", "geography", "hstore",
                     "vector", "halfvec", "sparsevec")  # fmt: skip

    def columns(self, reader: _Reader, table: tuple[str, ...]) -> list[_SourceColumn]:
        relation = ".".join(map(self.quote, table)).replace("'", "''")
        # A domain has the type that it is made of.
        rows = reader.ask(f"""
            with recursive typed as (
                select attname, atttypid as type_id, atttypmod as modifier
                from pg_catalog.pg_attribute
                where attrelid = to_regclass('{relation}') and attnum > 0 and not attisdropped
                union all
                select typed.attname, domain.typbasetype, domain.typtypmod
                from typed
                inner join pg_catalog.pg_type as domain on domain.oid = typed.type_id and domain.typtype = 'd'
            )
            select
                typed.attname::text as name,
                coalesce(element.typname, pg_type.typname)::text as kind,
                typed.modifier,
                element.oid is not null as is_array
            from typed
            inner join pg_catalog.pg_type on pg_type.oid = typed.type_id and pg_type.typtype <> 'd'
            left join pg_catalog.pg_type as element
                on element.oid = pg_type.typelem and pg_type.typcategory = 'A'
        """)
        return [
            _SourceColumn(row["name"], row["kind"], row["modifier"] if row["modifier"] >= 0 else None, row["is_array"])
            for row in rows
        ]

    def form(self, column: _SourceColumn, declared: Column) -> _Form | None:
        value = self.quote(column.name)
        if not column.is_array:
            return self._scalar(value, column, declared)
        wanted = declared.data_type
        element = self._scalar("item", column, declared)
        if element is None or column.kind in ("bit", "varbit"):
            return None
        text = element.element or f"({element.query})::text"
        items = f"select json_agg({text} order by place) from unnest({value}) with ordinality as items(item, place)"
        query = f"case when {value} is not null then coalesce(({items}), '[]')::text end"
        as_texts = T.ArrayType(T.StringType())
        normal: _Step | None = None
        if isinstance(wanted, T.StringType):
            # A text of JSON, whose numbers may stand there as numbers or as texts.
            normal = _as_one_json
        elif isinstance(wanted, T.ArrayType) and isinstance(wanted.elementType, T.ArrayType):
            return None
        elif element.normal is not None:
            of_item = element.normal

            def normal(items: Expression) -> Expression:
                return F.transform(items, of_item)

        return _Form(query, as_texts, element.semantic_type, lambda text: F.from_json(text, as_texts), normal)

    def _scalar(self, value: str, column: _SourceColumn, declared: Column) -> _Form | None:  # noqa: PLR0911
        kind, wanted = column.kind, _scalar_type(declared)
        if kind in self._without_form:
            return None
        if kind in ("int2", "int4", "int8", "oid"):
            return _Form(f"{value}::bigint", T.LongType())
        if kind == "bool":
            return _Form(value, T.BooleanType())
        if kind in ("float4", "float8"):
            return _floating(f"{value}::float8", wanted, single=kind == "float4", element=f"{value}::text")
        if kind in ("numeric", "money"):
            return _Form(f"{value}::numeric::text", T.StringType())
        if kind == "bytea":
            way = "hex" if declared.binary == "hex" else "base64"
            return _Form(value, T.BinaryType(), element=f"translate(encode({value}, '{way}'), chr(10), '')")
        if kind in ("bit", "varbit"):
            return _bit_string(f"lpad({value}::text, 64, '0')::bit(64)::bigint", column.size)
        if kind in ("date", "timestamp", "timestamptz", "time", "timetz"):
            return self._temporal(value, column, declared)
        if kind == "interval":
            return self._interval(value, wanted)
        # Unlike a cast, format keeps the blanks that fill a char(n), and leaves a host's address without its mask.
        return _Form(f"case when {value} is not null then format('%s', {value}) end", T.StringType())

    def _temporal(self, value: str, column: _SourceColumn, declared: Column) -> _Form:
        kind, wanted = column.kind, _scalar_type(declared)
        if kind == "date":
            # Debezium's infinity lies beyond every date of PostgreSQL.
            days = self._finite(value, f"{value} - date '1970-01-01'", "2147483647", "-2147483648")
            return _Form(days, T.LongType(), _DATE)
        if kind in ("timestamp", "timestamptz"):
            # The bounds are PGStatement.DATE_POSITIVE_INFINITY and DATE_NEGATIVE_INFINITY of the JDBC driver.
            micros = f"round(extract(epoch from {value}) * 1000000)::bigint"
            micros = self._finite(value, micros, "9223372036825200000", "-9223372036832400000")
            if kind == "timestamptz" and isinstance(wanted, T.StringType):
                written = f"to_char({value} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
                return _Form(f"case when isfinite({value}) then {written} else {value}::text end", T.StringType(),
                             normal=_as_one_instant)  # fmt: skip
            in_millis = kind == "timestamp" and column.size is not None and column.size <= 3
            return _timestamp(micros, "/", declared, in_millis=in_millis)
        if kind == "time":
            micros = f"round(extract(epoch from {value}) * 1000000)::bigint"
            return _time(micros, "/", declared, in_millis=column.size is not None and column.size <= 3)
        return _Form(f"({value} at time zone 'UTC')::time::text", T.StringType(), normal=_as_one_time)

    @staticmethod
    def _finite(value: str, number: str, infinity: str, before: str) -> str:
        """The number of a date or timestamp, and Debezium's numbers for infinity and what is infinitely before."""
        cases = f"when {value} > 'epoch' then {infinity} when {value} < 'epoch' then {before}"
        return f"(case when isfinite({value}) then {number} {cases} end)::bigint"

    def _interval(self, value: str, wanted: T.DataType) -> _Form:
        """`interval.handling.mode`: numeric, where a month has 365.25 / 12 days; or string, declared as such."""
        part = {name: f"extract({name} from {value})" for name in ("year", "month", "day", "hour", "minute", "second")}
        if isinstance(wanted, T.StringType):
            units = zip(("P", "Y", "M", "DT", "H", "M"), part.values(), strict=True)
            told = " || ".join(f"'{unit}' || ({number})::numeric::text" for unit, number in units)
            return _Form(f"{told} || 'S'", T.StringType(), normal=_as_one_interval)
        whole = (f"({part['year']} * 12 + {part['month']}) * 2629800 + {part['day']} * 86400 + {part['hour']} * 3600"
                 f" + {part['minute']} * 60 + {part['second']}")  # fmt: skip
        return _Form(f"round(({whole}) * 1000000)::bigint", T.LongType())

    def bounds(self, relation: str, first: str, reads: int, *, whole: bool) -> str | None:
        parts = ", ".join(
            f"(percentile_disc({number / reads}) within group (order by {first}))::text as b{number}"
            for number in range(1, reads)
        )
        return f"select {parts} from {relation}"


class _MariaDb(_Dialect):
    driver = "org.mariadb.jdbc.Driver"
    # Spark has no dialect for MariaDB's URLs and quotes the columns it asks for as the standard does.
    session = "set time_zone = '+00:00', sql_mode = concat(@@sql_mode, ',ANSI_QUOTES')"
    _without_form = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
                     "geometrycollection")  # fmt: skip

    def quote(self, name: str) -> str:
        # The columns of a query are asked for before the session's settings are made.
        return "`" + name.replace("`", "``") + "`"

    def columns(self, reader: _Reader, table: tuple[str, ...]) -> list[_SourceColumn]:
        database, name = ("database()", table[0]) if len(table) == 1 else (_text(table[-2]), table[-1])
        rows = reader.ask(
            "select column_name as name, data_type as kind, column_type as written, "
            "coalesce(datetime_precision, numeric_precision) as size, is_nullable as nullable "
            f"from information_schema.columns where table_schema = {database} and table_name = {_text(name)}"
        )
        return [
            _SourceColumn(
                row["name"],
                row["kind"].lower(),
                None if row["size"] is None else int(row["size"]),
                unsigned="unsigned" in row["written"],
                nullable=row["nullable"] == "YES",
            )
            for row in rows
        ]

    def form(self, column: _SourceColumn, declared: Column) -> _Form | None:  # noqa: PLR0911
        value, kind, wanted = self.quote(column.name), column.kind, _scalar_type(declared)
        if kind in self._without_form:
            return None
        if kind == "bigint" and column.unsigned and not isinstance(wanted, T.IntegerType | T.LongType):
            # The digits that zerofill adds are no part of the number.
            normal = _as_one_unsigned if isinstance(wanted, T.StringType) else None
            return _Form(f"cast(cast({value} as unsigned) as char)", T.StringType(), normal=normal)
        if kind in ("tinyint", "smallint", "mediumint", "int", "bigint", "year"):
            return _Form(f"cast({value} as signed)", T.LongType())
        if kind == "bit":
            return _bit_string(f"cast({value} as signed)", column.size)
        if kind in ("float", "double"):
            return _floating(f"cast({value} as double)", wanted, single=kind == "float")
        if kind == "date":
            return _Form(self._or_zero(f"datediff({value}, '1970-01-01')", column), T.LongType(), _DATE)
        if kind in ("datetime", "timestamp"):
            micros = self._or_zero(f"timestampdiff(microsecond, '1970-01-01', {value})", column)
            if kind == "timestamp" and isinstance(wanted, T.StringType):
                return _Form(micros, T.StringType(), made=_iso_of_micros, normal=_as_one_instant)
            in_millis = kind == "datetime" and (column.size or 0) <= 3
            return _timestamp(micros, "div", declared, in_millis=in_millis)
        if kind == "time":
            return _time(f"cast(time_to_sec({value}) * 1000000 as signed)", "div", declared, in_millis=False)
        if kind in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"):
            return _Form(value, T.BinaryType())
        return _Form(f"cast({value} as char)", T.StringType())

    @staticmethod
    def _or_zero(number: str, column: _SourceColumn) -> str:
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


_DIALECTS: Mapping[str, _Dialect] = {"postgresql": _PostgreSql(), "mariadb": _MariaDb()}


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _scalar_type(column: Column) -> T.DataType:
    wanted = column.data_type
    while isinstance(wanted, T.ArrayType):
        wanted = wanted.elementType
    return wanted


# Forms that both databases have


def _floating(query: str, wanted: T.DataType, *, single: bool, element: str | None = None) -> _Form:
    if not single:
        return _Form(query, T.DoubleType(), element=element)
    # 0.1 of four bytes is 0.1 in JSON and 0.10000000149011612 in Avro, once it is a double.
    normal: _Step | None = None
    if isinstance(wanted, T.DoubleType):

        def normal(value: Expression) -> Expression:
            return value.cast("float").cast("double")

    made: _Step = lambda value: value.cast("float")  # noqa: E731
    return _Form(query, T.FloatType(), made=made, normal=normal, element=element)


def _timestamp(micros: str, divided_by: str, declared: Column, *, in_millis: bool) -> _Form:
    """A timestamp; declared a number or text, in the unit that the event has by its precision or declaration."""
    if isinstance(_scalar_type(declared), T.DateType | T.TimestampType):
        return _Form(micros, T.LongType(), _MICROS)
    if declared.semantic_type == _MILLIS or (declared.semantic_type != _MICROS and in_millis):
        return _Form(f"({micros}) {divided_by} 1000", T.LongType(), _MILLIS)
    return _Form(micros, T.LongType(), _MICROS)


def _time(micros: str, divided_by: str, declared: Column, *, in_millis: bool) -> _Form:
    """A time of day; silver has its text, or its number where neither schema nor declaration said that it is one."""
    is_millis = declared.semantic_type == _TIME_MILLIS or (declared.semantic_type != _TIME_MICROS and in_millis)
    meaning = _TIME_MILLIS if is_millis else _TIME_MICROS
    if not isinstance(_scalar_type(declared), T.StringType):
        return _Form(f"({micros}) {divided_by} 1000" if is_millis else micros, T.LongType(), meaning)

    def normal(value: Expression) -> Expression:
        return converted(value, Field(value, T.StringType(), meaning), None, T.StringType(), None).value

    return _Form(micros, T.LongType(), _TIME_MICROS, normal=normal)


def _bit_string(number: str, length: int | None) -> _Form | None:
    """bit(n) of up to 64 bits: a boolean where it is one bit, else its bytes, the last first."""
    if length is None or length > 64:
        return None
    if length == 1:
        return _Form(number, T.BooleanType(), made=lambda value: value == 1)
    digits = 2 * -(-length // 8)

    def made(value: Expression) -> Expression:
        in_order = F.lpad(F.hex(value), digits, "0")
        return F.unhex(F.regexp_replace(F.reverse(in_order), "(.)(.)", "$2$1"))

    return _Form(number, T.BinaryType(), f"{BITS};length={length}", made=made)


# Texts of which several mean the same


def _unless_null(normal: Expression, value: Expression) -> Expression:
    """A text that has no normal form stays as it is, and so differs from every other."""
    return F.coalesce(normal, value)


def _as_one_json(value: Expression) -> Expression:
    return _unless_null(F.to_json(F.from_json(value, T.ArrayType(T.StringType()))), value)


def _iso_of_micros(micros: Expression) -> Expression:
    return F.date_format(F.timestamp_micros(micros.cast("bigint")), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")


def _as_one_instant(value: Expression) -> Expression:
    """A timestamp with a zone, whatever zeros end it and whatever stands for infinity."""
    infinite = F.when(value.rlike(r"^(\+29\d{7}-.*|infinity)$"), "infinity").when(
        value.rlike(r"^-(29\d{7}-.*|infinity)$"), "-infinity"
    )
    return _unless_null(F.coalesce(infinite, _iso_of_micros(F.unix_micros(value.cast("timestamp")))), value)


def _as_one_time(value: Expression) -> Expression:
    """A time of day with a zone, in UTC: `HH:MM:SS` and six digits."""
    fraction = F.rpad(F.regexp_extract(value, r"\.(\d+)", 1), 6, "0")
    return F.concat(F.substring(value, 1, 8), F.lit("."), fraction)


def _as_one_interval(value: Expression) -> Expression:
    """Months, days and microseconds of `PnYnMnDTnHnMnS`."""
    pattern = r"^P(-?\d+)Y(-?\d+)M(-?\d+)DT(-?\d+)H(-?\d+)M(-?[\d.]+)S$"
    year, month, day, hour, minute = (F.regexp_extract(value, pattern, at).cast("bigint") for at in range(1, 6))
    second = F.regexp_extract(value, pattern, 6).cast("decimal(20,6)")
    micros = (hour * 3600 + minute * 60) * 1_000_000 + (second * 1_000_000).cast("bigint")
    parts = (year * 12 + month, day, micros)
    told = F.concat_ws("/", *(part.cast("string") for part in parts))
    return _unless_null(F.when(value.rlike(pattern), told), value)


def _as_one_unsigned(value: Expression) -> Expression:
    """A bigint unsigned, which a long wraps."""
    number = value.cast("decimal(20,0)")
    unwrapped = F.when(number < 0, number + F.lit(Decimal(2**64))).otherwise(number)
    return _unless_null(unwrapped.cast("decimal(20,0)").cast("string"), value)
