"""Numbers in JSON texts that Spark's parser takes for other than they are."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.tables import Column, Table
from ingest.decode.fields import DIGITS_OF_DOUBLE, MOST_DIGITS_OF_DOUBLE

_LONG_FRACTION = rf"(-?(?=[\d.]{{{DIGITS_OF_DOUBLE + 2},}})\d+\.\d+(?:[eE][+-]?\d+)?)(?=\s*[,\]}}])"


def wide_decimals(table: Table, described: Sequence[str] = ()) -> list[str]:
    """The columns whose values or items may have more digits than a double keeps: decimals, and doubles that nobody has
    declared to be such.

    `described`: decimals by the schema of their events, which may be columns that nobody declared, and of any type.
    """
    kinds = {column.name: _item_of(column.source_type) for column in table.columns}
    wide = [name for name, kind in kinds.items() if isinstance(kind, T.DecimalType) and not _is_narrow(kind)]
    wide += [column.name for column in table.columns if is_guessed_double(column)]
    return [*wide, *(name for name in described if name not in wide and not _is_narrow(kinds.get(name)))]


def is_guessed_double(column: Column) -> bool:
    """Whether a column is a double because a number with a fraction came, and nobody has declared it."""
    return not column.declared and isinstance(column.source_type, T.DoubleType)


def beyond_double(text: Expression) -> Expression:
    """Whether the text of a number has more digits than a double is ever written with."""
    return F.length(F.regexp_replace(text, r"^[-+0.]+|\.|[eE].*$", "")) > MOST_DIGITS_OF_DOUBLE


def _item_of(kind: T.DataType) -> T.DataType:
    return _item_of(kind.elementType) if isinstance(kind, T.ArrayType) else kind


def _is_narrow(kind: T.DataType | None) -> bool:
    return isinstance(kind, T.DecimalType) and kind.precision <= DIGITS_OF_DOUBLE


def with_exact_fractions(text: Expression, names: Sequence[str]) -> Expression:
    """The JSON text, in which fractions of many digits are strings of their digits: members of these names, and items.

    Spark's parser makes a double of a number with a fraction, also where its text is wanted.
    """
    if not names:
        return text
    # A JSON text cannot hold an unescaped quote, so the pattern matches keys only.
    key = rf'(?i)("(?:{"|".join(map(re.escape, names))})"\s*:\s*'
    quoted = F.regexp_replace(text, rf"{key}){_LONG_FRACTION}", '$1"$2"')
    # Of an array each match goes on where the one before it has ended: arrays of numbers have no quotes before that.
    items = F.regexp_replace(quoted, rf'(?:{key}\[)|\G(?!^))([^"{{}}]*?(?<=[\s,\[])){_LONG_FRACTION}', '$1$2"$3"')
    quoted = F.when(quoted.contains("["), items).otherwise(quoted)
    # Two short searches take less than half of what the whole pattern takes, or one for both.
    return F.when(text.rlike(r"\.\d{8}") | text.rlike(r"\d{9}\.\d"), quoted).otherwise(text)


def has_bare_nan(text: Expression) -> Expression:
    """Whether a text may hold NaN or infinity as a number, which is no JSON, and Spark's reader takes. Never null."""
    may_have = text.contains("NaN") | text.contains("Inf") | text.contains("INF")
    # What follows a number tells it from a word of a text: a batch with one of these is read once more.
    return F.coalesce(may_have & text.rlike(r"[:,\[]\s*[+-]?(NaN|Infinity|INF)\s*[,}\]]"), F.lit(False))
