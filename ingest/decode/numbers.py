"""Numbers of events, exact: decimals of every form that Debezium writes, whole numbers, bits."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from json import dumps

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from ingest.decode.fields import (
    DIGITS,
    DIGITS_OF_DECIMAL,
    DIGITS_OF_DOUBLE,
    LONG,
    NOT_NUMBERS,
    TIMESTAMPS,
    Ruled,
    Wanted,
    impossible,
)
from ingest.decode.times import numbered
from ingest.schema.connect import DECIMAL

# Digits that a double keeps whole: at most 15, none of them lost before the point (IEEE 754, DBL_DIG).
_SURE_OF_DOUBLE = r"^-?(?:\d\.?){1,15}0?(?:E(?:\d|1[0-4]|-\d+))?$"


def as_number(value: Expression, found: T.DataType, of: Wanted) -> Ruled:
    """An int, bigint, float or double. Floating point knows NaN and Infinity, also as texts."""
    wanted = of.data_type
    if isinstance(found, T.DateType | T.TimestampType):
        return _since_1970(value, found, of)
    if isinstance(found, T.BinaryType):
        return impossible(wanted)
    # By its shortest text: a real 0.2 is 0.2 in JSON and in a record's key, and 0.20000000298 as a double.
    is_single = isinstance(found, T.FloatType) and isinstance(wanted, T.DoubleType)
    typed = (value.cast("string") if is_single else value).cast(wanted)
    is_fraction = isinstance(wanted, T.FractionalType)
    if isinstance(found, T.StringType):
        if is_fraction:
            return typed, _is_fraction_of_text(typed, value, wanted) | value.isin(*NOT_NUMBERS)
        return typed, (typed.cast("string") == value) | (typed.isNotNull() & value.rlike(r"^[+-]?\d+(\.0*)?$"))
    is_wider = isinstance(found, T.IntegerType) and isinstance(wanted, T.LongType)
    if isinstance(found, T.BooleanType) or is_single or is_wider:
        return typed, None
    exact = typed.cast(found) == value
    if not is_fraction and isinstance(found, T.FloatType | T.DoubleType):
        exact &= F.abs(value) < 2.0**53
    return typed, exact


def _is_fraction_of_text(typed: Expression, text: Expression, wanted: T.DataType) -> Expression:
    """Whether a float or double is the number of a text, which may write it with fewer digits than it has.

    A text beyond the type's range becomes infinite. A whole number is kept where no other one of as many digits is
    nearer to it: 2^53 + 1 is another number, and 36028797018963970 is 2^55 with the digits that tell it. So is what has
    more digits than a float is ever written with (9; IEEE 754, FLT_DECIMAL_DIG).
    """
    finite, shortest = F.abs(typed) < float("inf"), typed.cast("string")
    number, widest = text.cast("decimal(38,0)"), T.DecimalType(38, 0)
    last_digit = F.regexp_replace(text, r"^[+-]?\d*?(0*)$", "1$1").cast(widest)
    is_same = F.abs(typed.cast(widest) - number) * 2 <= last_digit
    is_kept = F.when(text.rlike(r"^[+-]?\d{7,}$"), F.coalesce(is_same, F.lit(True)))
    finite &= ~_vanishes(typed, text)
    if isinstance(wanted, T.DoubleType):
        return finite & F.coalesce(is_kept, F.lit(True))
    is_fraction = (typed.cast("double") == text.cast("double")) | (shortest.cast("double") == text.cast("double"))
    is_fraction |= text.rlike(r"^[+-]?[0.]*(?:\d\.?){1,9}0*(?:[eE][+-]?\d+)?$")
    return finite & F.coalesce(is_kept, is_fraction)


def widest_decimal(value: Expression, found: T.DataType, of: Wanted) -> tuple[Expression, Expression, T.DecimalType]:
    """What a schema calls a decimal, as the widest one of its scale; whether it is exact; and that type."""
    scale = max(0, min(DIGITS_OF_DECIMAL, int(of.parameters.get("scale", 0))))
    widest = T.DecimalType(DIGITS_OF_DECIMAL, scale)
    number, is_exact = as_decimal(value, found, replace(of, data_type=widest))
    assert is_exact is not None
    return number, is_exact, widest


def number_of_decimal(value: Expression, found: T.DataType, of: Wanted) -> Ruled:
    """The number of what a schema calls a decimal, of a column that is declared another number."""
    number, is_decimal, widest = widest_decimal(value, found, of)
    typed, is_number = as_number(number, widest, of)
    assert is_number is not None
    return typed, is_decimal & is_number


def _since_1970(value: Expression, found: T.DataType, of: Wanted) -> Ruled:
    """The number that a typed date or timestamp was written as: days, or its semantic type's part of a second, without
    which nobody knows it."""
    per = 1 if isinstance(found, T.DateType) else 1_000_000 // TIMESTAMPS.get(of.meaning, LONG)
    if per == 0 or isinstance(of.data_type, T.FractionalType):
        return impossible(of.data_type)
    number = numbered(value, found)
    typed = (number.cast("decimal(20,0)") / per).cast("bigint").cast(of.data_type)
    return typed, typed.cast("bigint") * per == number


def as_decimal(value: Expression, found: T.DataType, of: Wanted) -> Ruled:
    """A decimal, from what each `decimal.handling.mode` makes of one.

    precise: bytes of the unscaled integer, two's complement, big-endian, of the schema's scale or else the declared
    one; base64 of these in JSON. Without a fixed scale: a struct of scale and value. string: its text. double: a
    double, of which 15 digits are sure. An unsigned bigint as long wraps: 2^64 is added again where it is declared so.
    """
    wanted = of.data_type
    assert isinstance(wanted, T.DecimalType)
    if isinstance(found, T.BinaryType) and of.meaning == DECIMAL:
        return of_scale(value, int(of.parameters.get("scale", wanted.scale)), wanted)
    if isinstance(found, T.StringType) and of.meaning == DECIMAL:
        return _decimal_of_schema(value, wanted, of)
    if isinstance(found, T.IntegralType | T.StringType) and of.column is not None and of.column.unsigned:
        return _decimal_of_unsigned(value, found, wanted)
    if isinstance(found, T.StringType):
        return _decimal_of_json(value, wanted, of) if of.in_json else decimal_of_text(value, wanted)
    return _decimal_of_number(value, found, wanted) if isinstance(found, T.NumericType) else impossible(wanted)


def _decimal_of_unsigned(value: Expression, found: T.DataType, wanted: T.DecimalType) -> Ruled:
    """A bigint unsigned that was written as a long, from its number or the text of it."""
    number = value.cast("decimal(20,0)")
    typed = F.when(number < 0, number + F.lit(Decimal(2**64))).otherwise(number).cast(wanted)
    is_whole = value.rlike(DIGITS) if isinstance(found, T.StringType) else F.lit(True)
    return typed, is_whole & typed.isNotNull() & number.between(-(2**63), F.lit(Decimal(2**64 - 1)))


def _decimal_of_number(value: Expression, found: T.DataType, wanted: T.DecimalType) -> Ruled:
    if isinstance(found, T.FloatType):
        # By its shortest text, as `as_number`: no digit is there that the source has not.
        typed = value.cast("string").cast(wanted)
        return typed, typed.cast(found) == value
    typed = value.cast(wanted)
    if not isinstance(found, T.DoubleType):
        return typed, typed == value
    exact = typed.cast(found) == value
    return typed, exact & value.cast("string").rlike(_SURE_OF_DOUBLE) if wanted.precision > DIGITS_OF_DOUBLE else exact


def _decimal_of_schema(value: Expression, wanted: T.DecimalType, of: Wanted) -> Ruled:
    """A decimal of which the message's schema says the scale: base64 of the unscaled integer, or its number.

    Which of them is no part of the schema (JsonConverter's `decimal.format`): a JSON number is one; of a string the
    declaration says it, and base64 is the converter's default. What cannot be base64 is a number anyhow.
    """
    scale = int(of.parameters.get("scale", wanted.scale))
    is_number = F.coalesce(of.is_number, F.lit(False)) if of.is_number is not None else F.lit(False)
    is_number |= F.lit(of.column is not None and of.column.decimal == "number")
    is_number |= from_base64(value).isNull()
    of_number, is_exact = decimal_of_text(value, wanted)
    of_bytes, are_exact = of_scale(F.when(~is_number, from_base64(value)), scale, wanted)
    assert is_exact is not None and are_exact is not None
    return F.when(is_number, of_number).otherwise(of_bytes), F.when(is_number, is_exact).otherwise(are_exact)


def _decimal_of_json(value: Expression, wanted: T.DecimalType, of: Wanted) -> Ruled:
    """A decimal in a JSON text: its number, base64 of its unscaled integer, or an object with a scale of its own.

    Some texts are both a number and base64 ("1234"); where the declaration does not say which the column holds, such a
    text is refused, and every other base64 too: no wrong number is ever read.
    """
    way = of.column.decimal if of.column else "number"
    if way == "base64":
        typed, exact = of_scale(from_base64(value), wanted.scale, wanted)
    else:
        ambiguous = r"(?!(?:[0-9+eE]{4})+$)" if way is None and of.connector.has_coded_decimals else ""
        typed, exact = decimal_of_text(value, wanted, ambiguous)
    assert exact is not None
    if not of.nested:
        return typed, exact
    is_object = value.startswith("{")
    own_scale = F.get_json_object(value, "$.scale").cast("int")
    own, own_exact = of_scale(from_base64(F.get_json_object(value, "$.value")), own_scale, wanted)
    assert own_exact is not None
    return F.when(is_object, own).otherwise(typed), F.when(is_object, own_exact).otherwise(exact)


def decimal_of_text(text: Expression, wanted: T.DecimalType, before: str = "") -> Ruled:
    """A decimal from the text of a number; `before` is a look-ahead that the text must pass.

    An exponent without a sign is that of a double from 10^7 on, as Java writes it: it is believed only as far as a
    double is sure. Exponents of a decimal's own text have a sign.
    """
    typed = text.cast(wanted)
    plain = text.rlike(rf"^{before}[+-]?\d*(\.\d{{0,{wanted.scale}}}0*)?$")
    wide = T.DecimalType(38, 38 - (wanted.precision - wanted.scale))
    same = (text.cast(wide) == typed) & (text.cast("double") == typed.cast("double"))
    has_exponent = text.rlike(rf"^{before}[^eE]+[eE][+-]?\d+$")
    sure = ~text.rlike(r"E\d") | text.rlike(_SURE_OF_DOUBLE) if wanted.precision > DIGITS_OF_DOUBLE else F.lit(True)
    return typed, typed.isNotNull() & (plain | (has_exponent & same & sure)) & ~_vanishes(typed, text)


def _vanishes(typed: Expression, text: Expression) -> Expression:
    """Whether the text of a number that is not zero has become zero: 1E-400 is beyond doubles and decimals alike."""
    return (typed == 0) & text.rlike("^[^eE]*[1-9]")


def of_scale(data: Expression, scale: int | Expression, wanted: T.DecimalType) -> Ruled:
    """A decimal from the bytes of its unscaled integer and its scale."""
    if isinstance(scale, int) and 0 <= scale <= wanted.scale:
        typed = _unscaled(data, scale).cast(wanted)
        return typed, typed.isNotNull()
    if isinstance(scale, int) and 0 <= scale <= DIGITS_OF_DECIMAL:
        whole = _unscaled(data, scale)
        typed = whole.cast(wanted)
        return typed, typed.cast(T.DecimalType(DIGITS_OF_DECIMAL, scale)) == whole
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
    schema = dumps({"type": "bytes", "logicalType": "decimal", "precision": DIGITS_OF_DECIMAL, "scale": scale})
    # The number is a zigzag varint: one byte up to 63 ("Primitive Types" of Avro's specification).
    length = F.when(F.length(data) < 64, F.unhex(F.lpad(F.hex(F.length(data) * 2), 2, "0")))
    return from_avro(F.concat(length, data), schema, {"mode": "PERMISSIVE"})


def as_boolean(value: Expression, found: T.DataType, of: Wanted) -> Ruled:
    """True and false, also as 1 and 0: MariaDB's tinyint(1) is a number, and 5 is no boolean."""
    if isinstance(found, T.StringType):
        typed = F.when(value.isin("true", "1"), F.lit(True)).when(value.isin("false", "0"), F.lit(False))
    elif isinstance(found, T.NumericType):
        typed = F.when(value == 1, F.lit(True)).when(value == 0, F.lit(False))
    else:
        typed = F.lit(None).cast("boolean")
    return typed, typed.isNotNull()


def from_base64(text: Expression) -> Expression:
    """The bytes of a base64 text; null of any other, such as hexadecimal digits of an odd number of bytes.

    Every writer pads it to groups of four; Spark would read it without.
    """
    return F.when(F.length(text) % 4 == 0, F.try_to_binary(text, F.lit("base64")))


def as_bits(value: Expression, found: T.DataType, of: Wanted) -> Ruled:
    """bit(n): little-endian bytes, to a number, a boolean, bytes as they are, or text of n digits, up to 64 bits.

    In a text the bytes are base64. PostgreSQL's connector writes as many bytes as have a bit that is set: of zero none.
    """
    wanted = of.data_type
    data = value if isinstance(found, T.BinaryType) else from_base64(value)
    if isinstance(wanted, T.BinaryType):
        return data, data.isNotNull()
    # The bytes in reverse order: reversing the digits turns each pair round as well.
    digits = F.regexp_replace(F.reverse(F.hex(data)), "(.)(.)", "$2$1")
    digits = F.regexp_replace(F.concat(F.lit("0"), digits), "^0+(?=.)", "")
    fits = F.length(digits).between(1, 16)
    number = F.when(fits, F.conv(digits, 16, 10))
    if isinstance(wanted, T.StringType):
        length = int(of.parameters.get("length", 0))
        text = F.when(fits, F.lpad(F.conv(digits, 16, 2), length, "0")) if 0 < length <= 64 else F.lit(None)
        return text.cast("string"), text.isNotNull()
    if isinstance(wanted, T.BooleanType):
        return as_boolean(number, T.StringType(), of)
    typed = number.cast(wanted)
    return typed, typed.isNotNull() & (typed.cast("decimal(20,0)") == number.cast("decimal(20,0)"))
