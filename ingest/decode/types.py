"""A value of an event to the declared type of its column: exactly, or with the reason why it is not.

Every rule gives a value and whether it is exact; nothing is rounded, wrapped or guessed. Where the writer's schema
names Debezium's semantic type, that says what a value means; without a schema the column's declaration does, then the
connector's usual setting. Values that have the wanted type already are passed on as they are.

Sources, unless a rule names another: "Data type mappings" of Debezium's documentation of each connector
(`decimal.handling.mode`, `time.precision.mode`, `binary.handling.mode`, `bigint.unsigned.handling.mode`,
`interval.handling.mode`), and the captures in ../shared/data/debezium-captures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from json import dumps

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from ingest.declaration import Column, Connector
from ingest.decode.columns import DEFAULT_TIMESTAMP
from ingest.decode.connect_schema import DECIMAL


@dataclass(frozen=True)
class Field:
    """A value as it stands in an event: expression, type, and Debezium's semantic type where a schema names it.

    The semantic type may carry parameters of the schema behind its name:
    `org.apache.kafka.connect.data.Decimal;scale=2`.
    `in_json`: the value stands in a JSON text, where bytes are base64 and every leaf was read as text, unless its type
    says otherwise. `nested`: it may be the text of a JSON object. `is_number`: whether that text was a JSON number, and
    not a string; None where nobody knows.
    """

    value: Expression
    data_type: T.DataType
    semantic_type: str | None = None
    in_json: bool = True
    nested: bool = True
    is_number: Expression | None = None


@dataclass(frozen=True)
class Converted:
    """A value of the wanted type, and a text that says why it is not exactly that; either may be null."""

    value: Expression
    problem: Expression


@dataclass(frozen=True)
class _Wanted:
    """What a value is to become: the column's type and options, and what its schema or declaration says of it."""

    data_type: T.DataType
    meaning: str
    parameters: Mapping[str, str]
    in_json: bool
    nested: bool
    is_number: Expression | None
    column: Column | None
    connector: Connector | None


# A rule's answer: the value, and whether it is exact (null counts as no); None where nothing can go wrong.
_Ruled = tuple[Expression, Expression | None]

BITS = "io.debezium.data.Bits"
_DAYS = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
# Units of a second.
_TIMESTAMPS: Mapping[str, int] = {
    "io.debezium.time.Timestamp": 1_000,
    "org.apache.kafka.connect.data.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1_000_000,
    "io.debezium.time.NanoTimestamp": 1_000_000_000,
}
_TIMES: Mapping[str, int] = {
    "io.debezium.time.Time": 1_000,
    "org.apache.kafka.connect.data.Time": 1_000,
    "io.debezium.time.MicroTime": 1_000_000,
    "io.debezium.time.NanoTime": 1_000_000_000,
}
# 0001-01-01 and 9999-12-31, the dates of SQL, in days and seconds since 1970.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_SECOND, _LAST_SECOND = _FIRST_DAY * 86_400, (_LAST_DAY + 1) * 86_400 - 1
_LONG = 2**63
_DIGITS_OF_DECIMAL = 38
# PostgreSQL's dates reach from 4713 BC to 5874897 AD ("Date/Time Types"): a day beyond them is Debezium's infinity.
_POSTGRESQL_DAYS = (-2_451_507, 2_145_031_948)
# Debezium's infinity of PostgreSQL's timestamps: PGStatement.DATE_POSITIVE_INFINITY and DATE_NEGATIVE_INFINITY of its
# JDBC driver, taken for microseconds, and what they are as milliseconds; nanoseconds stop at the ends of a long.
_INFINITE_TIMESTAMPS = (
    9_223_372_036_825_200_000, -9_223_372_036_832_400_000, 9_223_372_036_825_200, -9_223_372_036_832_400,
    _LONG - 1, -_LONG,
)  # fmt: skip
# The same as milliseconds, written out: timestamptz (+292278994-08-16T23:00:00Z). PostgreSQL ends in 294276.
_INFINITE_TEXT = r"^([+-]29\d{7}-.*|-?infinity)$"
_NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")
_DIGITS = r"^-?\d+$"
_ISO_DATE = r"^(?!0000)\d{4}-\d\d-\d\d(Z|[T ]00:00(:00(\.0+)?)?Z?)?$"
# More than six digits of a second must be zeros: silver holds microseconds.
_ISO_TIMESTAMP = r"^(?!0000)\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6}0*)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$"
# Digits that a double keeps whole: at most 15, none of them lost before the point (IEEE 754, DBL_DIG).
_SURE_OF_DOUBLE = r"^-?(?:\d\.?){1,15}0?(?:E(?:\d|1[0-4]|-\d+))?$"


def converted(
    value: Expression, field: Field, column: Column | None, data_type: T.DataType, connector: Connector | None
) -> Converted:
    """A value of an event as the wanted type.

    Parameters
    ----------
    value:
        The value, of type `field.data_type`.
    column:
        The declared column, for its options; None for a metadata column.

    Returns
    -------
    The value, null where it cannot be of the type; and the problem, null where the value is exact.
    """
    name, *parameters = (field.semantic_type or "").split(";")
    wanted = _Wanted(
        data_type=data_type,
        meaning=name or (column.semantic_type if column else None) or "",
        parameters=dict(item.split("=", 1) for item in parameters),
        in_json=field.in_json,
        nested=field.nested,
        is_number=field.is_number,
        column=column,
        connector=connector,
    )
    typed, exact = _ruled(value, field.data_type, wanted)
    if exact is None:
        return Converted(typed, F.lit(None).cast("string"))
    wrong = value.isNotNull() & ~F.coalesce(exact, F.lit(False))
    if column is not None and column.special_values == "null" and not isinstance(data_type, T.ArrayType):
        special = _is_special(value, field.data_type, data_type)
        typed, wrong = F.when(~special, typed), wrong & ~special
    told = (_shown(value, field.data_type), F.lit(f" is not exactly a {data_type.simpleString()}"))
    return Converted(typed, F.when(wrong, F.concat(*told, _advice(value, field, wanted))))


def _ruled(value: Expression, found: T.DataType, wanted: _Wanted) -> _Ruled:  # noqa: PLR0911
    data_type = wanted.data_type
    is_coded_text = isinstance(found, T.StringType) and (wanted.meaning in _TIMES or wanted.meaning == BITS)
    if isinstance(found, T.NullType) or (found == data_type and not is_coded_text):
        return value.cast(data_type), None
    if isinstance(data_type, T.ArrayType):
        return _array(value, found, data_type, wanted)
    if isinstance(found, T.StructType) and isinstance(data_type, T.DecimalType):
        if {"scale", "value"} == set(found.names):  # io.debezium.data.VariableScaleDecimal
            scale = value.getField("scale")
            return _of_scale(value.getField("value"), scale, data_type)
        return F.lit(None).cast(data_type), F.lit(False)
    if wanted.meaning == BITS and isinstance(found, T.BinaryType | T.StringType):
        return _bits(value if isinstance(found, T.BinaryType) else _from_base64(value), data_type, wanted)
    if isinstance(data_type, T.StringType):
        return _string(value, found, wanted)
    if isinstance(found, T.StructType | T.MapType | T.ArrayType):
        return F.lit(None).cast(data_type), F.lit(False)
    if isinstance(data_type, T.DecimalType):
        return _decimal(value, found, data_type, wanted)
    if isinstance(data_type, T.DateType | T.TimestampType):
        return _date_or_timestamp(value, found, data_type, wanted)
    if isinstance(data_type, T.BooleanType):
        return _boolean(value, found)
    if isinstance(data_type, T.BinaryType):
        return _binary(value, found, wanted)
    return _number(value, found, data_type)


# Numbers


def _number(value: Expression, found: T.DataType, wanted: T.DataType) -> _Ruled:  # noqa: PLR0911
    """An int, bigint, float or double. Floating point knows NaN and Infinity, also as texts."""
    typed = value.cast(wanted)
    if isinstance(found, T.BinaryType | T.DateType | T.TimestampType):
        return F.lit(None).cast(wanted), F.lit(False)
    if isinstance(wanted, T.FractionalType):
        if isinstance(found, T.StringType):
            # A text beyond the type's range becomes infinite.
            return typed, (F.abs(typed) < float("inf")) | value.isin(*_NOT_NUMBERS)
        if isinstance(found, T.BooleanType) or (isinstance(found, T.FloatType) and isinstance(wanted, T.DoubleType)):
            return typed, None
        return typed, typed.cast(found) == value
    if isinstance(found, T.StringType):
        return typed, (typed.cast("string") == value) | (typed.isNotNull() & value.rlike(r"^[+-]?\d+(\.0*)?$"))
    if isinstance(found, T.BooleanType) or (isinstance(found, T.IntegerType) and isinstance(wanted, T.LongType)):
        return typed, None
    if isinstance(found, T.FloatType | T.DoubleType):
        return typed, (typed.cast(found) == value) & (F.abs(value) < 2.0**53)
    return typed, typed.cast(found) == value


def _decimal(value: Expression, found: T.DataType, wanted: T.DecimalType, of: _Wanted) -> _Ruled:  # noqa: PLR0911
    """A decimal, from what each `decimal.handling.mode` makes of one.

    precise: bytes of the unscaled integer, two's complement, big-endian, of the schema's scale or else the declared
    one; base64 of these in JSON. Without a fixed scale: a struct of scale and value. string: its text. double: a
    double, of which 15 digits are sure. An unsigned bigint as long wraps: 2^64 is added again where it is declared so.
    """
    column = of.column
    if isinstance(found, T.BinaryType):
        if of.meaning != DECIMAL:
            return F.lit(None).cast(wanted), F.lit(False)
        return _of_scale(value, int(of.parameters.get("scale", wanted.scale)), wanted)
    if column is not None and column.unsigned and isinstance(found, T.IntegralType | T.StringType):
        number = value.cast("decimal(20,0)")
        typed = F.when(number < 0, number + F.lit(Decimal(2**64))).otherwise(number).cast(wanted)
        is_whole = value.rlike(_DIGITS) if isinstance(found, T.StringType) else F.lit(True)
        return typed, is_whole & typed.isNotNull() & number.between(-(2**63), F.lit(Decimal(2**64 - 1)))
    if isinstance(found, T.StringType):
        if of.meaning == DECIMAL:
            return _decimal_of_schema(value, wanted, of)
        return _decimal_of_json(value, wanted, of) if of.in_json else _decimal_of_text(value, wanted)
    typed = value.cast(wanted)
    if isinstance(found, T.FloatType | T.DoubleType):
        exact = typed.cast(found) == value
        return typed, exact & value.cast("string").rlike(_SURE_OF_DOUBLE) if wanted.precision > 15 else exact
    if isinstance(found, T.NumericType):
        return typed, typed == value
    return F.lit(None).cast(wanted), F.lit(False)


def _decimal_of_schema(value: Expression, wanted: T.DecimalType, of: _Wanted) -> _Ruled:
    """A decimal of which the message's schema says the scale: base64 of the unscaled integer, or its number.

    Which of them is no part of the schema (JsonConverter's `decimal.format`): a JSON number is one; of a string the
    declaration says it, and base64 is the converter's default. What cannot be base64 is a number anyhow.
    """
    scale = int(of.parameters.get("scale", wanted.scale))
    is_number = F.coalesce(of.is_number, F.lit(False)) if of.is_number is not None else F.lit(False)
    is_number |= F.lit(of.column is not None and of.column.decimal == "number")
    is_number |= (F.length(value) % 4 != 0) | ~value.rlike("^[A-Za-z0-9+/]+={0,2}$")
    of_number, is_exact = _decimal_of_text(value, wanted)
    of_bytes, are_exact = _of_scale(F.when(~is_number, _from_base64(value)), scale, wanted)
    assert is_exact is not None and are_exact is not None
    return F.when(is_number, of_number).otherwise(of_bytes), F.when(is_number, is_exact).otherwise(are_exact)


def _decimal_of_json(value: Expression, wanted: T.DecimalType, of: _Wanted) -> _Ruled:
    """A decimal in a JSON text: its number, base64 of its unscaled integer, or an object with a scale of its own.

    Some texts are both a number and base64 ("1234"); where the declaration does not say which the column holds, such a
    text is refused, and every other base64 too: no wrong number is ever read.
    """
    way = of.column.decimal if of.column else "number"
    if way == "base64":
        in_fours = F.length(value) % 4 == 0
        typed, exact = _of_scale(F.when(in_fours, _from_base64(value)), wanted.scale, wanted)
    else:
        ambiguous = r"(?!(?:[0-9+eE]{4})+$)" if way is None and of.connector not in (None, "dynamodb") else ""
        typed, exact = _decimal_of_text(value, wanted, ambiguous)
    assert exact is not None
    if not of.nested:
        return typed, exact
    is_object = value.startswith("{")
    own_scale = F.get_json_object(value, "$.scale").cast("int")
    own, own_exact = _of_scale(_from_base64(F.get_json_object(value, "$.value")), own_scale, wanted)
    assert own_exact is not None
    return F.when(is_object, own).otherwise(typed), F.when(is_object, own_exact).otherwise(exact)


def _decimal_of_text(text: Expression, wanted: T.DecimalType, before: str = "") -> _Ruled:
    """A decimal from the text of a number; `before` is a look-ahead that the text must pass.

    A JSON number with a fraction has been read as a double on its way into a text: from 10^7 on it shows an exponent
    without a sign, and is believed only as far as a double is sure. Exponents of a decimal's own text have a sign.
    """
    typed = text.cast(wanted)
    plain = text.rlike(rf"^{before}[+-]?\d*(\.\d{{0,{wanted.scale}}}0*)?$")
    wide = T.DecimalType(38, 38 - (wanted.precision - wanted.scale))
    same = (text.cast(wide) == typed) & (text.cast("double") == typed.cast("double"))
    has_exponent = text.rlike(rf"^{before}[^eE]+[eE][+-]?\d+$")
    sure = ~text.rlike(r"E\d") | text.rlike(_SURE_OF_DOUBLE) if wanted.precision > 15 else F.lit(True)
    return typed, typed.isNotNull() & (plain | (has_exponent & same & sure))


def _of_scale(data: Expression, scale: int | Expression, wanted: T.DecimalType) -> _Ruled:
    """A decimal from the bytes of its unscaled integer and its scale."""
    if isinstance(scale, int) and 0 <= scale <= wanted.scale:
        typed = _unscaled(data, scale).cast(wanted)
        return typed, typed.isNotNull()
    if isinstance(scale, int) and 0 <= scale <= _DIGITS_OF_DECIMAL:
        whole = _unscaled(data, scale)
        typed = whole.cast(wanted)
        return typed, typed.cast(T.DecimalType(_DIGITS_OF_DECIMAL, scale)) == whole
    whole = _unscaled(data, 0)
    digits = whole.cast("string")
    scale = F.lit(scale) if isinstance(scale, int) else scale
    typed = F.concat(digits, F.lit("E"), (-scale).cast("string")).cast(wanted)
    zeros = F.length(digits) - F.length(F.regexp_replace(digits, "0+$", ""))
    return typed, typed.isNotNull() & ((zeros >= scale - wanted.scale) | (whole == 0))


def _unscaled(data: Expression, scale: int) -> Expression:
    """The decimal of that scale whose unscaled integer these bytes are, two's complement, big-endian; null beyond 38
    digits, and of no bytes.

    Avro encodes a decimal as these bytes behind their number, and Spark's reader of Avro is one expression: written out
    in functions it is a hundred, for each column and each check of it, and to plan a table of a few decimals took
    minutes.
    """
    schema = dumps({"type": "bytes", "logicalType": "decimal", "precision": _DIGITS_OF_DECIMAL, "scale": scale})
    # The number is a zigzag varint: one byte up to 63 ("Primitive Types" of Avro's specification).
    length = F.when(F.length(data) < 64, F.unhex(F.lpad(F.hex(F.length(data) * 2), 2, "0")))
    return from_avro(F.concat(length, data), schema, {"mode": "PERMISSIVE"})


def _boolean(value: Expression, found: T.DataType) -> _Ruled:
    """True and false, also as 1 and 0: MariaDB's tinyint(1) is a number, and 5 is no boolean."""
    if isinstance(found, T.StringType):
        typed = F.when(value.isin("true", "1"), F.lit(True)).when(value.isin("false", "0"), F.lit(False))
    elif isinstance(found, T.NumericType):
        typed = F.when(value == 1, F.lit(True)).when(value == 0, F.lit(False))
    else:
        typed = F.lit(None).cast("boolean")
    return typed, typed.isNotNull()


# Dates and times


def _date_or_timestamp(value: Expression, found: T.DataType, wanted: T.DataType, of: _Wanted) -> _Ruled:
    """A date or timestamp from a number since 1970 or an ISO text, within the years 1 to 9999.

    A timestamp that is declared a date must be midnight; a date that is declared a timestamp is its midnight.
    """
    is_date = isinstance(wanted, T.DateType)
    usual = "io.debezium.time.Date" if is_date else DEFAULT_TIMESTAMP[of.connector]
    meaning = of.meaning if of.meaning in _TIMESTAMPS or of.meaning in _DAYS else usual

    def since_1970(number: Expression) -> Expression:
        if meaning in _DAYS:
            in_range = number.between(_FIRST_DAY, _LAST_DAY)
            return F.when(in_range, F.date_from_unix_date(number.cast("int"))).cast(wanted)
        at = _timestamp(number, _TIMESTAMPS[meaning])
        return F.when(at == F.date_trunc("day", at), at).cast("date") if is_date else at

    if isinstance(found, T.IntegerType | T.LongType):
        typed = since_1970(value.cast("bigint"))
    elif isinstance(found, T.StringType):
        of_text = (
            F.when(value.rlike(_ISO_DATE), F.substring(value, 1, 10).cast("date"))
            if is_date
            else F.when(value.rlike(_ISO_TIMESTAMP), value.cast("timestamp"))
        )
        typed = F.when(value.rlike(_DIGITS), since_1970(value.cast("bigint"))).otherwise(of_text)
    elif isinstance(found, T.DateType):
        return value.cast(wanted), None
    elif isinstance(found, T.TimestampType | T.TimestampNTZType):
        return value.cast(wanted), value.cast(wanted).cast(found) == value
    else:
        return F.lit(None).cast(wanted), F.lit(False)
    return typed, typed.isNotNull()


def _timestamp(number: Expression, units: int) -> Expression:
    """The timestamp of a number of milli-, micro- or nanoseconds; null out of range and between two microseconds."""
    in_range = number.between(max(_FIRST_SECOND * units, -_LONG), min((_LAST_SECOND + 1) * units - 1, _LONG - 1))
    if units == 1_000:
        return F.when(in_range, F.timestamp_millis(number))
    if units == 1_000_000:
        return F.when(in_range, F.timestamp_micros(number))
    micros = (number.cast("decimal(20,0)") / 1000).cast("bigint")
    return F.when(in_range & (number % 1000 == 0), F.timestamp_micros(micros))


def _time_of_day(number: Expression, units: int) -> Expression:
    """`HH:MM:SS[.ffffff]`, with nine digits only where six do not hold it; MySQL's times reach from -838 to 838 h."""
    size = F.abs(number)
    rest = size % units
    seconds = ((size - rest) / units).cast("bigint")
    minutes = ((seconds - seconds % 60) / 60).cast("bigint")
    hours = ((minutes - minutes % 60) / 60).cast("bigint")
    digits = F.rpad(F.lpad(rest.cast("string"), len(str(units)) - 1, "0"), 9, "0")
    fraction = F.when(rest == 0, F.lit("")).otherwise(
        F.concat(F.lit("."), F.when(digits.endswith("000"), F.substring(digits, 1, 6)).otherwise(digits))
    )
    sign = F.when(number < 0, F.lit("-")).otherwise(F.lit(""))
    text = F.format_string("%s%02d:%02d:%02d%s", sign, hours, minutes % 60, seconds % 60, fraction)
    return F.when(number.between(-839 * 3_600 * units + 1, 839 * 3_600 * units - 1), text)


# Texts, bytes, bits, arrays


def _string(value: Expression, found: T.DataType, of: _Wanted) -> _Ruled:
    """Any value as text: a time of day as ISO, a struct, map or array as JSON, bytes as base64, else as Spark does."""
    if of.meaning in _TIMES and isinstance(found, T.IntegerType | T.LongType):
        text = _time_of_day(value.cast("bigint"), _TIMES[of.meaning])
        return text, text.isNotNull()
    if of.meaning in _TIMES and isinstance(found, T.StringType):
        text = F.when(value.rlike(_DIGITS), _time_of_day(value.cast("bigint"), _TIMES[of.meaning])).otherwise(value)
        return text, text.isNotNull()
    if isinstance(found, T.StructType | T.MapType | T.ArrayType):
        return F.to_json(value), None
    if isinstance(found, T.BinaryType):
        return F.regexp_replace(F.base64(value), "\r\n", ""), None
    return value.cast("string"), None


def _binary(value: Expression, found: T.DataType, of: _Wanted) -> _Ruled:
    """Bytes from text, as `binary.handling.mode` writes them: base64, which is also how JSON holds bytes, or hex."""
    if not isinstance(found, T.StringType):
        return F.lit(None).cast("binary"), F.lit(False)
    way = of.column.binary if of.column else "base64"
    if way == "hex":
        typed = F.when(F.length(value) % 2 == 0, F.try_to_binary(value, F.lit("hex")))
    else:
        typed = _from_base64(F.translate(value, "-_", "+/") if way == "base64-url-safe" else value)
    return typed, typed.isNotNull()


def _from_base64(text: Expression) -> Expression:
    return F.try_to_binary(text, F.lit("base64"))


def _bits(data: Expression, wanted: T.DataType, of: _Wanted) -> _Ruled:
    """bit(n): little-endian bytes, to a number, a boolean, bytes as they are, or text of n digits, up to 64 bits."""
    if isinstance(wanted, T.BinaryType):
        return data, data.isNotNull()
    # The bytes in reverse order: reversing the digits turns each pair round as well.
    digits = F.regexp_replace(F.reverse(F.hex(data)), "(.)(.)", "$2$1")
    digits = F.regexp_replace(digits, "^0+(?=.)", "")
    fits = F.length(digits).between(1, 16)
    number = F.when(fits, F.conv(digits, 16, 10))
    if isinstance(wanted, T.StringType):
        length = int(of.parameters.get("length", 0))
        text = F.when(fits, F.lpad(F.conv(digits, 16, 2), length, "0")) if 0 < length <= 64 else F.lit(None)
        return text.cast("string"), text.isNotNull()
    if isinstance(wanted, T.BooleanType):
        return _boolean(number, T.StringType())
    typed = number.cast(wanted)
    return typed, typed.isNotNull() & (typed.cast("decimal(20,0)") == number.cast("decimal(20,0)"))


def _array(value: Expression, found: T.DataType, wanted: T.ArrayType, of: _Wanted) -> _Ruled:
    """An array, from a JSON text or an array: each element by the rules of its type; nulls stay."""
    element: T.DataType
    if isinstance(found, T.StringType):
        items, element = F.from_json(value, T.ArrayType(found)), found
    elif isinstance(found, T.ArrayType):
        items, element = value, found.elementType
    else:
        return F.lit(None).cast(wanted), F.lit(False)
    rule = replace(of, data_type=wanted.elementType)
    exact = items.isNotNull()
    if isinstance(element, T.ArrayType) or _ruled(F.lit(None).cast(element), element, rule)[1] is not None:
        exact &= ~F.exists(items, lambda item: item.isNotNull() & ~_is_exact(item, element, rule))
    if element == wanted.elementType and not of.meaning:
        return items, exact
    return F.transform(items, lambda item: _ruled(item, element, rule)[0]), exact


def _is_exact(item: Expression, found: T.DataType, of: _Wanted) -> Expression:
    exact = _ruled(item, found, of)[1]
    return F.lit(True) if exact is None else F.coalesce(exact, F.lit(False))


# What cannot be said in the wanted type


def _is_special(value: Expression, found: T.DataType, wanted: T.DataType) -> Expression:
    """Whether a value is one that the source has and the wanted type has not: NaN, infinity."""
    special = F.lit(False)
    if isinstance(wanted, T.DecimalType):
        if isinstance(found, T.StringType):
            special = value.isin(*_NOT_NUMBERS)
        elif isinstance(found, T.FloatType | T.DoubleType):
            special = F.isnan(value) | (F.abs(value) == float("inf"))
    elif isinstance(found, T.StringType | T.IntegerType | T.LongType):
        number = value.cast("bigint")
        special = (
            ~number.between(*_POSTGRESQL_DAYS) if isinstance(wanted, T.DateType) else number.isin(*_INFINITE_TIMESTAMPS)
        )
        if isinstance(found, T.StringType):
            special = F.when(value.rlike(_DIGITS), special).otherwise(value.rlike(_INFINITE_TEXT))
    return F.coalesce(special, F.lit(False))


def _shown(value: Expression, found: T.DataType) -> Expression:
    """The beginning of a value, for a message."""
    if isinstance(found, T.StructType | T.MapType | T.ArrayType):
        value = F.to_json(value)
    elif isinstance(found, T.BinaryType):
        value = F.hex(value)
    return F.coalesce(F.substring(value.cast("string"), 1, 100), F.lit("?"))


def _advice(value: Expression, field: Field, of: _Wanted) -> Expression:
    """What could be done about such a value."""
    if isinstance(field.data_type, T.StructType | T.MapType):
        return F.lit(f": {of.meaning or 'an object'} can be kept as a string only")
    undeclared = of.column is not None and of.column.decimal is None and not of.column.unsigned
    if field.in_json and isinstance(of.data_type, T.DecimalType) and undeclared:
        could_be_base64 = (F.length(value) % 4 == 0) & value.rlike("^[A-Za-z0-9+/]+={0,2}$")
        told = "; say which it holds by `decimal: base64` or `decimal: number` in the column's declaration"
        return F.when(could_be_base64, F.lit(told)).otherwise(F.lit(""))
    return F.lit("")
