"""A field of an event, and what a rule makes of its value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.tables import Column
from ingest.schema.connect import DECIMAL
from ingest.schema.connectors import Connector
from ingest.schema.widths import union_members


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
class Wanted:
    """What a value is to become: the column's type and options, and what its schema or declaration says of it."""

    data_type: T.DataType
    meaning: str
    parameters: Mapping[str, str]
    in_json: bool
    nested: bool
    is_number: Expression | None
    column: Column | None
    connector: Connector


# A rule's answer: the value, and whether it is exact (null counts as no); None where nothing can go wrong.
Ruled = tuple[Expression, Expression | None]
# A rule: from a value, the type that it is written with, and what it is to become.
Rule = Callable[[Expression, T.DataType, Wanted], Ruled]
# How a typed event is kept as text: exact to the microsecond.
EVENT_AS_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
BITS = "io.debezium.data.Bits"
DAYS = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
# Units of a second.
TIMESTAMPS: Mapping[str, int] = {
    "io.debezium.time.Timestamp": 1_000,
    "org.apache.kafka.connect.data.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1_000_000,
    "io.debezium.time.NanoTimestamp": 1_000_000_000,
}
# 0001-01-01 and 9999-12-31, the dates of SQL, in days and seconds since 1970.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
FIRST_SECOND, LAST_SECOND = FIRST_DAY * 86_400, (LAST_DAY + 1) * 86_400 - 1
LONG = 2**63
# Of Spark's widest decimal; and those of any decimal that a double keeps (IEEE 754, DBL_DIG), and with which it is
# written at most (DBL_DECIMAL_DIG).
DIGITS_OF_DECIMAL, DIGITS_OF_DOUBLE, MOST_DIGITS_OF_DOUBLE = 38, 15, 17
NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")
DIGITS = r"^-?\d+$"


def is_text(json: Expression, *names: str) -> Expression:
    """Whether a member of a JSON object with one of these names is a string, or of an array its items. Never null."""
    either = "|".join(map(re.escape, dict.fromkeys(names)))
    return F.coalesce(json.rlike(rf'"(?:{either})"\s*:\s*(?:\[(?:[\s\[,]|null)*+)?"'), F.lit(False))


def meant(found: Field, names: tuple[str, str], meanings: Mapping[str, str], images: Sequence[Expression]) -> Field:
    """A field that was read without its schema, with the semantic type that this gives it.

    `names`: its own, which goes first, and the one that it may have in the events; `images`: the JSON objects in which
    it may stand.
    """
    meaning = next((meanings[name] for name in names if name in meanings), "")
    if not meaning.startswith(DECIMAL):
        return replace(found, semantic_type=meaning or None)
    is_number = ~is_text(F.concat_ws(" ", *images), *names)
    return replace(found, semantic_type=meaning, in_json=False, is_number=is_number)


def impossible(wanted: T.DataType) -> Ruled:
    """The answer where no value of a type can become one of the wanted type."""
    return F.lit(None).cast(wanted), F.lit(False)


def quoted(name: str) -> str:
    """A name as part of a column's, for `pyspark.sql.functions.col`."""
    return f"`{name.replace('`', '``')}`"


def array_of(names: Iterable[str]) -> Expression:
    """An array of these texts, sorted: equal sets are equal expressions."""
    return F.array(*map(F.lit, sorted(names)))


def shown(value: Expression, found: T.DataType) -> Expression:
    """The beginning of a value, for a message."""
    if isinstance(found, T.StructType | T.MapType | T.ArrayType):
        value = F.to_json(value)
    elif isinstance(found, T.BinaryType):
        value = F.hex(value)
    return F.coalesce(F.substring(value.cast("string"), 1, 100), F.lit("?"))


def could_be_hex(text: Expression) -> Expression:
    """Whether a text of base64 could be the hexadecimal digits of bytes as well, as Debezium writes them."""
    return text.rlike(r"^(?:[0-9a-f]{4})+\z")


def advice(value: Expression, field: Field, of: Wanted) -> Expression:
    """What could be done about such a value."""
    if isinstance(field.data_type, T.StructType | T.MapType) and not union_members(field.data_type):
        return F.lit(f": {of.meaning or 'an object'} can be kept as a string only")
    undeclared = of.column is not None and of.column.decimal is None and not of.column.unsigned
    if field.in_json and isinstance(of.data_type, T.DecimalType) and undeclared:
        could_be_base64 = (F.length(value) % 4 == 0) & value.rlike("^[A-Za-z0-9+/]+={0,2}$")
        way = "; say which it holds by `decimal: base64` or `decimal: number` in the column's declaration"
        return F.when(could_be_base64, F.lit(way)).otherwise(F.lit(""))
    if isinstance(of.data_type, T.TimestampType) and of.column is not None and of.meaning not in TIMESTAMPS:
        way = "; say what its numbers count by `semantic_type` in the column's declaration"
        return F.when(value.cast("string").rlike(DIGITS), F.lit(way)).otherwise(F.lit(""))
    is_undeclared = of.column is not None and of.column.binary is None
    if is_undeclared and isinstance(of.data_type, T.BinaryType) and isinstance(field.data_type, T.StringType):
        ways = "`binary: base64`, `base64-url-safe` or `hex`"
        return F.lit(f"; say how a text holds bytes by {ways} in the column's declaration")
    return F.lit("")
