"""Dates, times and timestamps of events, at every precision that Debezium writes."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.decode.fields import (
    DAYS,
    DIGITS,
    FIRST_DAY,
    FIRST_SECOND,
    LAST_DAY,
    LAST_SECOND,
    LONG,
    TIMESTAMPS,
    Ruled,
    Wanted,
    impossible,
)
from ingest.schema.connect import NO_MOMENTS

_FIRST_SECOND_OF_9999, _LAST_SECOND_OF_1 = LAST_SECOND + 1 - 365 * 86_400, FIRST_SECOND + 365 * 86_400 - 1
_ISO_DATE = r"^(?!0000)\d{4}-\d\d-\d\d(Z|[T ]00:00(:00(\.0+)?)?Z?)?$"
# More than six digits of a second must be zeros: silver holds microseconds.
_ISO_TIMESTAMP = r"^(?!0000)\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6}0*)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$"


def date_or_timestamp(value: Expression, found: T.DataType, of: Wanted) -> Ruled:
    """A date or timestamp from a number since 1970 or an ISO text, within the years 1 to 9999.

    Where neither schema nor declaration says what a timestamp's number counts, it is in the connector's usual unit, and
    refused where it could be in another one: PostgreSQL's timestamp(3), time.precision.mode=connect and InsertField
    write milliseconds.

    A timestamp that is declared a date must be midnight; a date that is declared a timestamp is its midnight. What a
    schema calls a time of day, a duration or a year is neither.
    """
    wanted = of.data_type
    if of.meaning in NO_MOMENTS:
        return impossible(wanted)
    is_date = isinstance(wanted, T.DateType)
    usual = "io.debezium.time.Date" if is_date else of.connector.timestamp
    is_told = of.meaning in TIMESTAMPS or of.meaning in DAYS
    meaning = of.meaning if is_told else usual

    def since_1970(number: Expression) -> Expression:
        if meaning in DAYS:
            in_range = number.between(FIRST_DAY, LAST_DAY)
            return F.when(in_range, F.date_from_unix_date(number.cast("int"))).cast(wanted)
        units = TIMESTAMPS[meaning]
        at = _timestamp(number, units)
        if not is_told:
            at = F.when(~_could_be_in_another_unit(number, units), at)
        return F.when(at == F.date_trunc("day", at), at).cast("date") if is_date else at

    if isinstance(found, T.IntegerType | T.LongType):
        typed = since_1970(value.cast("bigint"))
    elif isinstance(found, T.StringType):
        of_text = (
            F.when(value.rlike(_ISO_DATE), F.substring(value, 1, 10).cast("date"))
            if is_date
            else F.when(value.rlike(_ISO_TIMESTAMP), value.cast("timestamp"))
        )
        typed = F.when(value.rlike(DIGITS), since_1970(value.cast("bigint"))).otherwise(of_text)
    elif isinstance(found, T.DateType):
        # It holds more years than SQL's, and Debezium's infinity among them.
        return value.cast(wanted), numbered(value, found).between(FIRST_DAY, LAST_DAY)
    elif isinstance(found, T.TimestampType | T.TimestampNTZType):
        micros = 1_000_000
        in_range = numbered(value, found).between(FIRST_SECOND * micros, (LAST_SECOND + 1) * micros - 1)
        return value.cast(wanted), in_range & (value.cast(wanted).cast(found) == value)
    else:
        return impossible(wanted)
    return typed, typed.isNotNull()


def numbered(value: Expression, found: T.DataType) -> Expression:
    """A date's days, or a timestamp's microseconds, since 1970; any other value's whole number."""
    if isinstance(found, T.DateType):
        return F.unix_date(value)
    if isinstance(found, T.TimestampType | T.TimestampNTZType):
        return F.unix_micros(value.cast("timestamp"))
    return value.cast("bigint")


def _timestamp(number: Expression, units: int) -> Expression:
    """The timestamp of a number of milli-, micro- or nanoseconds; null out of range and between two microseconds."""
    in_range = number.between(max(FIRST_SECOND * units, -LONG), min((LAST_SECOND + 1) * units - 1, LONG - 1))
    if units == 1_000:
        return F.when(in_range, F.timestamp_millis(number))
    if units == 1_000_000:
        return F.when(in_range, F.timestamp_micros(number))
    micros = (number.cast("decimal(20,0)") / 1000).cast("bigint")
    return F.when(in_range & (number % 1000 == 0), F.timestamp_micros(micros))


def _could_be_in_another_unit(number: Expression, units: int) -> Expression:
    """Whether a number of milli- or microseconds could be one of the next other unit as well.

    Microseconds could be the milliseconds of a moment from 1653 to 2286, unless they are within a hundred seconds of
    1970; and the nanoseconds of one from 1973 on. Milliseconds could be microseconds where they lie before 1653 or
    beyond 2286; the years 1 and 9999 are believed, which stand for no beginning and no end in many tables. What cannot
    be told from them are the microseconds of the last four months of 1969 and the first four of 1970.
    """
    last = _FIRST_SECOND_OF_9999 * units - 1
    if units == 1_000:
        return number.between(10**13, last) | number.between((_LAST_SECOND_OF_1 + 1) * units, -(10**13))
    return number.between(10**17, last) | F.abs(number).between(10**8, 10**13)


def time_of_day(number: Expression, units: int) -> Expression:
    """`HH:MM:SS[.ffffff]`, with nine digits only where six do not hold it; MySQL's times reach from -838 to 838 h."""
    size = F.abs(number)
    rest, seconds = size % units, _whole(size, units)
    digits = F.rpad(F.lpad(rest.cast("string"), len(str(units)) - 1, "0"), 9, "0")
    fraction = F.when(rest == 0, F.lit("")).otherwise(
        F.concat(F.lit("."), F.when(digits.endswith("000"), F.substring(digits, 1, 6)).otherwise(digits))
    )
    sign = F.when(number < 0, F.lit("-")).otherwise(F.lit(""))
    hours, minutes = _whole(seconds, 3_600), _whole(seconds, 60) % 60
    text = F.format_string("%s%02d:%02d:%02d%s", sign, hours, minutes, seconds % 60, fraction)
    return F.when(number.between(-839 * 3_600 * units + 1, 839 * 3_600 * units - 1), text)


def _whole(number: Expression, by: int) -> Expression:
    """The whole part of a quotient, exact."""
    return F.call_function("div", number, F.lit(by))
