"""The columns of every case's table, their extremes, and how Debezium writes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_DOWN, Context, Decimal
from typing import Any

from deliveries.schemas import BOOLEAN, BYTES, DOUBLE, INT, LONG, STRING, Kind, array_of, decimal_of

Row = Mapping[str, Any]
# What stands for a value that a log lacks (`unavailable.value.placeholder`), as Debezium has it and as one may set it;
# and ours in a row.
PLACEHOLDERS: Mapping[str, str] = {"usual": "__debezium_unavailable_value", "own": "not in the log"}
UNAVAILABLE = object()
# Each write has a `turn` of its own, so that no two rows are the same; `version` is what `order_by` may name.
COLUMNS: Mapping[str, str] = {
    "turn": "int", "version": "bigint", "flag": "boolean", "n": "int", "big": "bigint", "amount": "decimal(12,2)",
    "exact": "decimal(38,10)", "ratio": "double", "day": "date", "at": "timestamp", "seen": "timestamp",
    "note": "string", "blob": "binary", "tags": "array<string>", "nums": "array<int>",
}  # fmt: skip
# Columns whose long values PostgreSQL keeps out of line.
TOASTED = ("note", "blob", "tags")
USUAL: Row = {
    "flag": True, "n": 7, "big": 2**40, "amount": Decimal("12.30"), "exact": Decimal("0.0000000001"), "ratio": 0.1,
    "day": date(2022, 1, 8), "at": datetime(2018, 6, 20, 15, 13, 16, 945104), "note": "plain", "blob": b"\x00\xff",
    "seen": datetime(2026, 11, 23, 8), "tags": ["a", "b"], "nums": [1, 2],
}  # fmt: skip
_NINES = Decimal("9999999999999999999999999999.9999999999")
_MOMENTS = [
    datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1582, 10, 4, 23, 59, 59, 999999),
    datetime(1582, 10, 5), datetime(1582, 10, 14, 12), datetime(1582, 10, 15), datetime(1899, 12, 31, 23, 59, 59, 1),
    datetime(1900, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2016, 12, 31, 23, 59, 59, 999999),
    datetime(2017, 1, 1), datetime(2024, 3, 31, 1, 30), datetime(2038, 1, 19, 3, 14, 8),
]  # fmt: skip
# Of each theme the columns that have other than usual values.
THEMES: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "usual": {},
    "dates": {
        "day": [date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 4), date(1582, 10, 5), date(1582, 10, 14),
                date(1582, 10, 15), date(1899, 12, 31), date(1900, 1, 1), date(1969, 12, 31), date(2000, 2, 29)],
    },
    "moments": {"at": _MOMENTS, "seen": _MOMENTS[::-1]},
    "numbers": {
        "n": [2**31 - 1, -(2**31), 0],
        "big": [2**63 - 1, -(2**63), 2**53 + 1, 0],
        "amount": [Decimal("9999999999.90"), Decimal("-9999999999.90"), Decimal("0.10"), Decimal("-0.10"), Decimal(0)],
        "exact": [_NINES, _NINES.copy_negate(), Decimal("-1E-10"), Decimal(0), Decimal("12345678901234567.89")],
        "ratio": [math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, -0.0, 1e22, 0.30000000000000004],
        "flag": [False, True],
    },
    "texts": {
        "note": ["", "x" * 40_000,
                 'quotes " and \' and \\ and \\" end\\', "lines\nand\r\n\ttabs", "{\"a\":1},{\"b\":2}",
                 "\x01\x1f\x7f\u2028\u2029\ufeff", "é漢\U0001f600\U0002a6d6\U00030000\U000e0001\U000f0000\U0010fffd",
                 "null", '","note":"x', '"payload":{"op":"d"}', "a\x00b"],
        "blob": [b"", bytes(range(256)), b"\xff" * 5_000, b"\x00", b'{"a":1}'],
    },
    "arrays": {
        "tags": [[], [None], ["", None, 'a,b"\\', "null"], ["x"] * 200, None],
        "nums": [[], [None], [2**31 - 1, None, -(2**31)], None],
    },
    "nulls": {name: [None] for name in USUAL},
}  # fmt: skip
_EPOCH = datetime(1970, 1, 1)
FILLERS: Row = {
    "turn": 0, "version": 0, "flag": False, "n": 0, "big": 0, "amount": Decimal(0), "exact": Decimal(0), "ratio": 0.0,
    "day": date(1970, 1, 1), "at": _EPOCH, "seen": _EPOCH, "note": "", "blob": b"", "tags": [], "nums": [],
}  # fmt: skip


def row_of(theme: str, turn: int, *, decimals: str, in_milliseconds: bool) -> dict[str, Any]:
    """The row of a write: its theme's values in turn, as exact as the form can say them."""
    row = {"turn": turn, "version": turn // 2, **USUAL}
    for name, values in THEMES[theme].items():
        row[name] = values[turn % len(values)]
    if decimals == "scale_less" and row["amount"] is not None:
        row["amount"] = row["amount"].quantize(Decimal("0.1"), ROUND_DOWN)
    if in_milliseconds and row["at"] is not None:
        row["at"] = row["at"].replace(microsecond=row["at"].microsecond // 1000 * 1000)
    return row


def kinds(decimals: str, *, in_milliseconds: bool) -> dict[str, Kind]:
    """How Debezium describes the columns.

    `decimals`: `text`; `precise`, of the declared scale; `number`, the same by its number; `scale_less` and
    `scale_more`, of another one; `money`, of 64 digits, as PostgreSQL's type arrives.
    """
    described = {
        "text": (STRING, STRING),
        "precise": (decimal_of(12, 2), decimal_of(38, 10)),
        "number": (decimal_of(12, 2, is_number=True), decimal_of(38, 10, is_number=True)),
        "scale_less": (decimal_of(11, 1), decimal_of(38, 10)),
        "scale_more": (decimal_of(14, 4), decimal_of(38, 10)),
        "money": (decimal_of(64, 2), decimal_of(64, 10)),
    }
    amount, exact = described[decimals]
    return {
        "turn": INT,
        "version": LONG,
        "flag": BOOLEAN,
        "n": INT,
        "big": LONG,
        "amount": amount,
        "exact": exact,
        "ratio": DOUBLE,
        "day": Kind("int32", "io.debezium.time.Date"),
        "at": _moment(in_milliseconds=in_milliseconds),
        "seen": Kind("string", "io.debezium.time.ZonedTimestamp"),
        "note": STRING,
        "blob": BYTES,
        "tags": array_of(STRING),
        "nums": array_of(INT),
    }


def key_kind(data_type: str, decimals: str, *, in_milliseconds: bool) -> Kind:
    """How Debezium describes a column of the key."""
    if data_type == "decimal(8,2)":
        return STRING if decimals == "text" else decimal_of(8, 2, is_number=decimals == "number")
    return {"int": INT, "string": STRING, "timestamp": _moment(in_milliseconds=in_milliseconds)}[data_type]


def _moment(*, in_milliseconds: bool) -> Kind:
    return Kind("int64", f"io.debezium.time.{'Timestamp' if in_milliseconds else 'MicroTimestamp'}")


def written(kind: Kind, value: Any, placeholder: str = "") -> Any:
    """A value as Connect has it: numbers since 1970, the bytes of an unscaled integer, texts."""
    if value is UNAVAILABLE:
        of_type: dict[str, Any] = {"bytes": placeholder.encode(), "array": [placeholder]}
        return of_type.get(kind.type, placeholder)
    if isinstance(value, Decimal):
        return f"{value:f}" if kind.type == "string" else _unscaled(value, int(dict(kind.parameters)["scale"]))
    if isinstance(value, datetime):
        if kind.type == "string":
            fraction = f".{value.microsecond:06d}" if value.microsecond else ""
            return f"{value.year:04d}-{value:%m-%dT%H:%M:%S}{fraction}Z"
        return micros(value) // (1000 if kind.name.endswith(".Timestamp") else 1)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment.replace(tzinfo=UTC) - _EPOCH.replace(tzinfo=UTC)) // timedelta(microseconds=1)


def _unscaled(value: Decimal, scale: int) -> bytes:
    """Two's complement, big-endian, as short as can be: what Java's BigInteger.toByteArray gives."""
    number = int(value.scaleb(scale, Context(prec=80)))
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
