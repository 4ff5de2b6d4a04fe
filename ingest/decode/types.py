"""A value of an event to the declared type of its column: exactly, or with the reason why it is not.

Every rule gives a value and whether it is exact; nothing is rounded, wrapped or guessed. Where the writer's schema
names Debezium's semantic type, that says what a value means; without a schema the column's declaration does, then the
connector's usual setting. Values that have the wanted type already are passed on as they are.

Sources, unless a rule names another: "Data type mappings" of Debezium's documentation of each connector
(`decimal.handling.mode`, `time.precision.mode`, `binary.handling.mode`, `bigint.unsigned.handling.mode`,
`interval.handling.mode`), and events that Debezium 3 captured from real databases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.connectors import ConnectorName
from ingest.config.tables import Column
from ingest.decode.fields import (
    BITS,
    DIGITS,
    EVENT_AS_JSON,
    LONG,
    NOT_NUMBERS,
    TIMESTAMPS,
    Converted,
    Field,
    Rule,
    Ruled,
    Wanted,
    advice,
    could_be_hex,
    impossible,
    shown,
)
from ingest.decode.numbers import (
    as_bits,
    as_boolean,
    as_decimal,
    as_number,
    from_base64,
    number_of_decimal,
    of_scale,
    widest_decimal,
)
from ingest.decode.times import date_or_timestamp, numbered, time_of_day
from ingest.schema.connect import DECIMAL, TIMES
from ingest.schema.connectors import CONNECTORS
from ingest.schema.widths import union_members

# PostgreSQL's dates reach from 4713 BC to 5874897 AD ("Date/Time Types"): a day beyond them is Debezium's infinity.
_POSTGRESQL_DAYS = (-2_451_507, 2_145_031_948)
# Debezium's infinity of PostgreSQL's timestamps: PGStatement.DATE_POSITIVE_INFINITY and DATE_NEGATIVE_INFINITY of its
# JDBC driver, taken for microseconds, and what they are as milliseconds; nanoseconds stop at the ends of a long.
_INFINITE_TIMESTAMPS = (
    9_223_372_036_825_200_000, -9_223_372_036_832_400_000, 9_223_372_036_825_200, -9_223_372_036_832_400,
    LONG - 1, -LONG,
)  # fmt: skip
# The same written out: of timestamptz as milliseconds (+292278994-08-16T23:00:00Z), and with
# time.precision.mode=isostring of a timestamp and of a date, its day of Java (-5877611-06-21Z). PostgreSQL's own years
# are -4713 to 5874897, and to 294276 of a timestamp.
_INFINITE_TEXT = r"^([+-]29\d{7}-.*|-5877611-06-2.*|[+]294247-01-10T04:00:25[.]2.*|-290308-12-2.*|-?infinity)$"
# How a struct, map or array becomes a text: with all that is in it, nulls too.
_AS_JSON = {**EVENT_AS_JSON, "ignoreNullFields": "false"}


def converted(
    value: Expression, field: Field, column: Column | None, data_type: T.DataType, connector: ConnectorName | None
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
    wanted = Wanted(
        data_type=data_type,
        meaning=name or (column.semantic_type if column else None) or "",
        parameters=dict(item.split("=", 1) for item in parameters),
        in_json=field.in_json,
        nested=field.nested,
        is_number=field.is_number,
        column=column,
        connector=CONNECTORS[connector],
    )
    typed, exact = _ruled(value, field.data_type, wanted)
    if exact is None:
        return Converted(typed, F.lit(None).cast("string"))
    wrong = value.isNotNull() & ~F.coalesce(exact, F.lit(False))
    if column is not None and column.special_values == "null" and not isinstance(data_type, T.ArrayType):
        special = _is_special(value, field.data_type, wanted)
        typed, wrong = F.when(~special, typed), wrong & ~special
    parts = (shown(value, field.data_type), F.lit(f" is not exactly a {data_type.simpleString()}"))
    return Converted(typed, F.when(wrong, F.concat(*parts, advice(value, field, wanted))))


def _ruled(value: Expression, found: T.DataType, wanted: Wanted) -> Ruled:
    is_coded_text = isinstance(found, T.StringType) and (wanted.meaning in (*TIMES, BITS, DECIMAL))
    # Of Avro and Parquet, which hold more years than SQL does.
    is_ranged = isinstance(found, T.DateType | T.TimestampType)
    if isinstance(found, T.NullType) or (found == wanted.data_type and not is_coded_text and not is_ranged):
        return value.cast(wanted.data_type), None
    return _rule(found, wanted)(value, found, wanted)


def _rule(found: T.DataType, wanted: Wanted) -> Rule:
    """The rule for values that are written with one type and wanted as another."""
    if union_members(found):
        return _of_union
    if isinstance(wanted.data_type, T.ArrayType):
        return _array
    if wanted.meaning == BITS and isinstance(found, T.BinaryType | T.StringType):
        return as_bits
    if isinstance(found, T.StructType | T.MapType | T.ArrayType) and not isinstance(wanted.data_type, T.StringType):
        return _of_structure
    if wanted.meaning == DECIMAL and isinstance(found, T.BinaryType | T.StringType):
        return _RULES_OF_DECIMALS.get(type(wanted.data_type), number_of_decimal)
    return _RULES.get(type(wanted.data_type), as_number)


def _of_union(value: Expression, found: T.DataType, of: Wanted) -> Ruled:
    """The member that has the value, by the rules of its type."""
    nothing = F.lit(None).cast(of.data_type)
    typed, exact = nothing, F.lit(False)
    for item in union_members(found):
        member = value.getField(item.name)
        own, is_exact = _ruled(member, item.dataType, of)
        typed = F.when(member.isNotNull(), own).otherwise(typed)
        exact = F.when(member.isNotNull(), F.lit(True) if is_exact is None else is_exact).otherwise(exact)
    return typed, exact


def _of_nothing(value: Expression, found: T.DataType, of: Wanted) -> Ruled:
    """No value of the type is one of the wanted type."""
    return impossible(of.data_type)


def _of_structure(value: Expression, found: T.DataType, of: Wanted) -> Ruled:
    """A decimal that has its scale beside it (`io.debezium.data.VariableScaleDecimal`); nothing else is one value."""
    if not isinstance(of.data_type, T.DecimalType) or not isinstance(found, T.StructType):
        return impossible(of.data_type)
    if set(found.names) != {"scale", "value"}:
        return impossible(of.data_type)
    return of_scale(value.getField("value"), value.getField("scale"), of.data_type)


def _string(value: Expression, found: T.DataType, of: Wanted) -> Ruled:
    """Any value as text: a time of day as ISO, a struct, map or array as JSON, bytes as base64, else as Spark does.

    Bytes that the schema calls a decimal are its number.
    """
    if of.meaning in TIMES and isinstance(found, T.IntegerType | T.LongType):
        text = time_of_day(value.cast("bigint"), TIMES[of.meaning])
        return text, text.isNotNull()
    if of.meaning in TIMES and isinstance(found, T.StringType):
        text = F.when(value.rlike(DIGITS), time_of_day(value.cast("bigint"), TIMES[of.meaning])).otherwise(value)
        return text, text.isNotNull()
    if of.meaning == DECIMAL and isinstance(found, T.StringType | T.BinaryType):
        number, is_exact, _ = widest_decimal(value, found, of)
        return number.cast("string"), is_exact
    if isinstance(found, T.StructType | T.MapType | T.ArrayType):
        return F.to_json(value, _AS_JSON), None
    if isinstance(found, T.BinaryType):
        return F.regexp_replace(F.base64(value), "\r\n", ""), None
    return value.cast("string"), None


def _binary(value: Expression, found: T.DataType, of: Wanted) -> Ruled:
    """Bytes from text, as `binary.handling.mode` writes them: base64, which is also how JSON holds bytes, or hex.

    Some texts are both ("deadbeef"): where the declaration does not say which the column holds, such a text is refused.
    """
    if not isinstance(found, T.StringType):
        return impossible(T.BinaryType())
    way = of.column.binary if of.column else "base64"
    is_sure = F.lit(True) if way else ~could_be_hex(value)
    if way == "hex":
        typed = F.when(F.length(value) % 2 == 0, F.try_to_binary(value, F.lit("hex")))
    else:
        typed = from_base64(F.translate(value, "-_", "+/") if way == "base64-url-safe" else value)
    return typed, typed.isNotNull() & is_sure


def _array(value: Expression, found: T.DataType, of: Wanted) -> Ruled:
    """An array, from a JSON text or an array: each element by the rules of its type; nulls stay."""
    wanted = of.data_type
    assert isinstance(wanted, T.ArrayType)
    element: T.DataType
    if isinstance(found, T.StringType):
        items, element = F.from_json(value, T.ArrayType(found)), found
    elif isinstance(found, T.ArrayType):
        items, element = value, found.elementType
    else:
        return impossible(wanted)
    rule = replace(of, data_type=wanted.elementType)
    exact = items.isNotNull()
    if isinstance(found, T.StringType):
        # Spark reads the first value of a text, and leaves what follows.
        is_alone = F.json_array_length(F.concat(F.lit("["), value, F.lit("]"))) == 1
        exact &= F.coalesce(is_alone, F.lit(False))
    if isinstance(element, T.ArrayType) or _ruled(F.lit(None).cast(element), element, rule)[1] is not None:
        exact &= ~F.exists(items, lambda item: item.isNotNull() & ~_is_exact(item, element, rule))
    if element == wanted.elementType and not of.meaning:
        return items, exact
    return F.transform(items, lambda item: _ruled(item, element, rule)[0]), exact


# By the wanted type; of any other type it is a number.
_RULES: Mapping[type[T.DataType], Rule] = {
    T.StringType: _string,
    T.DecimalType: as_decimal,
    T.DateType: date_or_timestamp,
    T.TimestampType: date_or_timestamp,
    T.BooleanType: as_boolean,
    T.BinaryType: _binary,
}


# Of what a schema calls a decimal: its base64 may be a text of digits, which is no day, and no moment.
_RULES_OF_DECIMALS: Mapping[type[T.DataType], Rule] = {
    **{kind: _RULES[kind] for kind in (T.StringType, T.DecimalType, T.BinaryType)},
    **dict.fromkeys((T.DateType, T.TimestampType, T.BooleanType), _of_nothing),
}


def _is_exact(item: Expression, found: T.DataType, of: Wanted) -> Expression:
    exact = _ruled(item, found, of)[1]
    return F.lit(True) if exact is None else F.coalesce(exact, F.lit(False))


def _is_special(value: Expression, found: T.DataType, of: Wanted) -> Expression:
    """Whether a value is one that the source has and the wanted type has not: NaN, infinity."""
    special = F.lit(False)
    if isinstance(of.data_type, T.DecimalType):
        if isinstance(found, T.StringType):
            special = value.isin(*NOT_NUMBERS)
        elif isinstance(found, T.FloatType | T.DoubleType):
            special = F.isnan(value) | (F.abs(value) == float("inf"))
    elif isinstance(found, T.StringType | T.IntegerType | T.LongType | T.DateType | T.TimestampType):
        number = numbered(value, found)
        is_instant = isinstance(found, T.TimestampType) or of.meaning in TIMESTAMPS
        are_days = isinstance(of.data_type, T.DateType) and not is_instant
        # Days are an int32 (Debezium's Date): a greater number counts something else.
        is_infinite_day = ~number.between(*_POSTGRESQL_DAYS) & number.between(-(2**31), 2**31 - 1)
        special = is_infinite_day if are_days else number.isin(*_INFINITE_TIMESTAMPS)
        if isinstance(found, T.StringType):
            special = F.when(value.rlike(DIGITS), special).otherwise(value.rlike(_INFINITE_TEXT))
    return F.coalesce(special, F.lit(False))
