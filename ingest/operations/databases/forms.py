"""How values of a database are fetched, so that both sides of a comparison have one form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.connections import JdbcConnection
from ingest.config.tables import Column
from ingest.decode.fields import BITS, Field
from ingest.decode.types import converted

DATE = "io.debezium.time.Date"
_MILLIS, _MICROS = "io.debezium.time.Timestamp", "io.debezium.time.MicroTimestamp"
_TIME_MILLIS, _TIME_MICROS = "io.debezium.time.Time", "io.debezium.time.MicroTime"
Step = Callable[[Expression], Expression]


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
    normal: Mapping[str, Step] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceColumn:
    """A column as the database knows it: `kind` is its type, or its elements'; `size` a number of digits or bits."""

    name: str
    kind: str
    size: int | None
    is_array: bool = False
    unsigned: bool = False
    nullable: bool = True


@dataclass(frozen=True)
class Form:
    """How a value is fetched and what it means.

    `query` is SQL, `element` the same as a text, for an array; `made` gives the value of `data_type` from what was
    fetched, and `semantic_type` its meaning, as in an event. `normal`: see `SourceRows`.
    """

    query: str
    data_type: T.DataType
    semantic_type: str | None = None
    made: Step | None = None
    normal: Step | None = None
    element: str | None = None


# How a value is fetched: from the SQL of the value, its column, and the column as it is declared; None: it cannot be
# compared.
FormOf = Callable[[str, SourceColumn, Column], Form | None]


@dataclass(frozen=True)
class Reader:
    spark: SparkSession
    connection: JdbcConnection
    dialect: Dialect

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


class Dialect:
    """How a database writes identifiers, values and bounds, and what columns a table has."""

    driver = ""
    session = ""

    def quote(self, name: str) -> str:
        """An identifier."""
        return '"' + name.replace('"', '""') + '"'

    def columns(self, reader: Reader, table: tuple[str, ...]) -> list[SourceColumn]:
        """The columns of a table; none where there is no such table."""
        raise NotImplementedError

    def form(self, column: SourceColumn, declared: Column) -> Form | None:
        """How the values of a column are fetched; None: they cannot be compared."""
        raise NotImplementedError

    def bounds(self, relation: str, first: str, reads: int, *, whole: bool) -> str | None:
        """A query for one row: the values that part a column (of `whole` numbers) into ranges; None: it cannot."""
        raise NotImplementedError


def as_text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def scalar_type(column: Column) -> T.DataType:
    wanted = column.data_type
    while isinstance(wanted, T.ArrayType):
        wanted = wanted.elementType
    return wanted


def floating_form(query: str, wanted: T.DataType, *, single: bool, element: str | None = None) -> Form:
    if not single:
        return Form(query, T.DoubleType(), element=element)
    # 0.1 of four bytes is 0.1 in JSON and 0.10000000149011612 in Avro, once it is a double.
    normal: Step | None = None
    if isinstance(wanted, T.DoubleType):

        def normal(value: Expression) -> Expression:
            return value.cast("float").cast("double")

    return Form(query, T.FloatType(), made=lambda value: value.cast("float"), normal=normal, element=element)


def timestamp_form(micros: str, divided_by: str, declared: Column, *, in_millis: bool) -> Form:
    """A timestamp; declared a number or text, in the unit that the event has by its precision or declaration."""
    if isinstance(scalar_type(declared), T.DateType | T.TimestampType):
        return Form(micros, T.LongType(), _MICROS)
    if declared.semantic_type == _MILLIS or (declared.semantic_type != _MICROS and in_millis):
        return Form(f"({micros}) {divided_by} 1000", T.LongType(), _MILLIS)
    return Form(micros, T.LongType(), _MICROS)


def time_form(micros: str, divided_by: str, declared: Column, *, in_millis: bool) -> Form:
    """A time of day; silver has its text, or its number where neither schema nor declaration said that it is one."""
    is_millis = declared.semantic_type == _TIME_MILLIS or (declared.semantic_type != _TIME_MICROS and in_millis)
    meaning = _TIME_MILLIS if is_millis else _TIME_MICROS
    if not isinstance(scalar_type(declared), T.StringType):
        return Form(f"({micros}) {divided_by} 1000" if is_millis else micros, T.LongType(), meaning)

    def normal(value: Expression) -> Expression:
        return converted(value, Field(value, T.StringType(), meaning), None, T.StringType(), None).value

    return Form(micros, T.LongType(), _TIME_MICROS, normal=normal)


def bit_string_form(number: str, length: int | None) -> Form | None:
    """bit(n) of up to 64 bits: a boolean where it is one bit, else its bytes, the last first."""
    if length is None or length > 64:
        return None
    if length == 1:
        return Form(number, T.BooleanType(), made=lambda value: value == 1)
    digits = 2 * -(-length // 8)

    def made(value: Expression) -> Expression:
        in_order = F.lpad(F.hex(value), digits, "0")
        return F.unhex(F.regexp_replace(F.reverse(in_order), "(.)(.)", "$2$1"))

    return Form(number, T.BinaryType(), f"{BITS};length={length}", made=made)


def _unless_null(normal: Expression, value: Expression) -> Expression:
    """A text that has no normal form stays as it is, and so differs from every other."""
    return F.coalesce(normal, value)


def as_one_json(value: Expression) -> Expression:
    return _unless_null(F.to_json(F.from_json(value, T.ArrayType(T.StringType()))), value)


def iso_of_micros(micros: Expression) -> Expression:
    return F.date_format(F.timestamp_micros(micros.cast("bigint")), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")


def as_one_instant(value: Expression) -> Expression:
    """A timestamp with a zone, whatever zeros end it and whatever stands for infinity."""
    infinite = F.when(value.rlike(r"^(\+29\d{7}-.*|infinity)$"), "infinity").when(
        value.rlike(r"^-(29\d{7}-.*|infinity)$"), "-infinity"
    )
    return _unless_null(F.coalesce(infinite, iso_of_micros(F.unix_micros(value.cast("timestamp")))), value)


def as_one_time(value: Expression) -> Expression:
    """A time of day with a zone, in UTC: `HH:MM:SS` and six digits."""
    fraction = F.rpad(F.regexp_extract(value, r"\.(\d+)", 1), 6, "0")
    return F.concat(F.substring(value, 1, 8), F.lit("."), fraction)


def as_one_interval(value: Expression) -> Expression:
    """Months, days and microseconds of `PnYnMnDTnHnMnS`."""
    pattern = r"^P(-?\d+)Y(-?\d+)M(-?\d+)DT(-?\d+)H(-?\d+)M(-?[\d.]+)S$"
    year, month, day, hour, minute = (F.regexp_extract(value, pattern, at).cast("bigint") for at in range(1, 6))
    second = F.regexp_extract(value, pattern, 6).cast("decimal(20,6)")
    micros = (hour * 3600 + minute * 60) * 1_000_000 + (second * 1_000_000).cast("bigint")
    parts = (year * 12 + month, day, micros)
    text = F.concat_ws("/", *(part.cast("string") for part in parts))
    return _unless_null(F.when(value.rlike(pattern), text), value)


def as_one_unsigned(value: Expression) -> Expression:
    """A bigint unsigned, which a long wraps."""
    number = value.cast("decimal(20,0)")
    unwrapped = F.when(number < 0, number + F.lit(Decimal(2**64))).otherwise(number)
    return _unless_null(unwrapped.cast("decimal(20,0)").cast("string"), value)
