"""Every form in which Debezium writes a value becomes that value exactly, or is refused with what was found."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

import pytest
from conftest import MakeProject, pg, table_of
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.connectors import ConnectorName
from ingest.config.schema_files import semantic_types
from ingest.config.sources_file import parse_data_type
from ingest.config.tables import Column
from ingest.decode.fields import Field
from ingest.decode.types import converted
from ingest.errors import DeclarationError

DATE, MILLIS = "io.debezium.time.Date", "io.debezium.time.Timestamp"
MICROS, NANOS = "io.debezium.time.MicroTimestamp", "io.debezium.time.NanoTimestamp"
TIME, MICRO_TIME, NANO_TIME = (f"io.debezium.time.{name}" for name in ("Time", "MicroTime", "NanoTime"))
ZONED = "io.debezium.time.ZonedTimestamp"
BITS = "io.debezium.data.Bits"
CONNECT_DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE = T.StructType([T.StructField("scale", T.IntegerType()), T.StructField("value", T.BinaryType())])
SINGLE = T.FloatType()
TEXT, INT, LONG, DOUBLE, BYTES = T.StringType(), T.IntegerType(), T.LongType(), T.DoubleType(), T.BinaryType()


class Refused:
    """What stands in a table of cases where a value must be a problem."""


NO = Refused()


@dataclass(frozen=True)
class Case:
    """A column's type and options, the form its values come in, and what must come of each."""

    wanted: str
    found: T.DataType
    values: Sequence[tuple[Any, Any]]
    semantic_type: str | None = None
    in_json: bool = True
    connector: ConnectorName = "postgresql"
    options: Mapping[str, Any] = field(default_factory=dict)


def outcomes(spark: SparkSession, cases: Sequence[Case]) -> Iterator[tuple[Case, Any, Any, Any, str | None]]:
    """Each value with what was expected, what came of it, and the problem; all cases in one Spark job."""
    length = max(len(case.values) for case in cases)
    rows = [
        tuple(case.values[number][0] if number < len(case.values) else None for case in cases)
        for number in range(length)
    ]
    schema = T.StructType([T.StructField(f"c{index}", case.found) for index, case in enumerate(cases)])
    # More than one partition, so that the plan is not folded into a local relation and runs as it does in a landing.
    events = spark.createDataFrame(rows, schema).withColumn("row", F.monotonically_increasing_id()).repartition(2)
    made = []
    for index, case in enumerate(cases):
        wanted = parse_data_type(case.wanted, where="")
        expression = F.col(f"c{index}")
        change = converted(
            expression,
            Field(expression, case.found, case.semantic_type, in_json=case.in_json),
            Column("value", wanted, **case.options),
            wanted,
            case.connector,
        )
        assert events.select(change.value).schema[0].dataType == wanted
        shown = change.value if not isinstance(wanted, T.TimestampType) else F.unix_micros(change.value)
        made += [shown.alias(f"v{index}"), change.problem.alias(f"p{index}")]
    found = events.select("row", *made).orderBy("row").collect()
    for index, case in enumerate(cases):
        for number, (value, expected) in enumerate(case.values):
            yield case, value, expected, found[number][f"v{index}"], found[number][f"p{index}"]


def check(spark: SparkSession, cases: Sequence[Case]) -> None:
    wrong = []
    for case, value, expected, actual, problem in outcomes(spark, cases):
        if isinstance(expected, datetime):
            expected = micros(expected)
        refused = expected is NO
        same = repr(actual) == repr(expected) if isinstance(expected, float) else actual == expected
        if (problem is not None) != refused or (not refused and not same):
            what = f"{case.semantic_type or case.found.simpleString()} {value!r} as {case.wanted} {dict(case.options)}"
            wrong.append(f"{what}: {actual!r}, {problem}; expected {'a problem' if refused else repr(expected)}")
        elif problem and f"is not exactly a {case.wanted.replace(', ', ',')}" not in problem:
            wrong.append(f"{value!r}: {problem}")
    assert not wrong, "\n".join(wrong)


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


def unscaled(number: int) -> bytes:
    """Two's complement, big-endian, as short as can be: what Java's BigInteger.toByteArray gives."""
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


NINES = Decimal("9" * 38)
DECIMALS = [
    Case("decimal(8,2)", TEXT, [
        ("12.30", Decimal("12.3")), ("-0.01", Decimal("-0.01")), ("12", Decimal(12)), ("1.5000", Decimal("1.5")),
        ("1.239", NO), ("1000000", NO), ("NaN", NO), ("Infinity", NO), ("abc", NO), ("", NO), ("CDM=", NO), ("1e3",
            Decimal(1000)),
        ("1.5E-7", NO), ("1234", NO), ("1e10", NO), (".", NO), ("1_0", NO), ("12..", NO), (None, None),
    ]),
    Case("decimal(8,2)", TEXT, [("1234", Decimal(1234)), ("1234.5", Decimal("1234.5"))],
        options={"decimal": "number"}),
    Case("decimal(8,2)", TEXT, [("1234", Decimal(1234))], in_json=False),
    Case("decimal(8,2)", TEXT, [
        ("Yw==", Decimal("0.99")), ("CDM=", Decimal("20.99")), ("1234", Decimal(-26_58_824) / 100), ("AA==",
            Decimal(0)),
        ("/w==", Decimal("-0.01")), ("12.5", NO), ("1500000", NO), ("NaN", NO), ("", NO),
        ('{"scale":1,"value":"BQ=="}', Decimal("0.5")),
    ], options={"decimal": "base64"}),
    Case("decimal(38,0)", TEXT, [
        (b64(unscaled(int(number))), Decimal(number))
        for number in (NINES, NINES.copy_negate(), 2**63, -(2**63), 2**63 - 1, -(2**63) - 1, 2**64, -(2**64), 0, -1,
            127, 128, -128, -129)
    ] + [(b64(unscaled(10**38)), NO), (b64(unscaled(2**200)), NO)], options={"decimal": "base64"}),
    # Unconstrained numeric: each value has its own scale.
    Case("decimal(10,3)", TEXT, [
        ('{"scale":3,"value":"AeJA"}', Decimal("123.456")), ('{"scale":4,"value":"AeJA"}', NO),
        ('{"scale":4,"value":"ZA=="}', Decimal("0.01")), ('{"scale":-2,"value":"ZA=="}', Decimal(10000)),
        ('{"x":1.5,"y":2}', NO),
    ]),
    Case("decimal(10,3)", VARIABLE, [
        ((3, unscaled(123456)), Decimal("123.456")), ((0, unscaled(-7)), Decimal(-7)), ((4, unscaled(1)), NO), (None,
            None),
    ], in_json=False),
    Case("decimal(10,3)", BYTES, [(unscaled(-1250), Decimal("-12.5"))], f"{CONNECT_DECIMAL};scale=2", in_json=False),
    Case("decimal(10,1)", BYTES, [(unscaled(1250), Decimal("12.5")), (unscaled(1251), NO)],
        f"{CONNECT_DECIMAL};scale=2", in_json=False),
    Case("decimal(10,1)", BYTES, [(b"12.5", NO)], in_json=False),  # bytea
    Case("decimal(8,2)", DOUBLE, [(1.5, Decimal("1.5")), (0.1, Decimal("0.1")), (1.239, NO), (float("nan"), NO),
        (float("inf"), NO), (1e9, NO)], in_json=False),
    # A double of more than 15 digits is not what the database held, nor is a JSON number that was read as one.
    Case("decimal(38,2)", DOUBLE, [(12345678901234567.89, NO), (123456789012.25, Decimal("123456789012.25")), (1e15,
        NO)], in_json=False),
    Case("decimal(38,2)", TEXT, [("1.2345678901234568E16", NO), ("1.23456789E9", Decimal(1234567890)), ("1.0E16",
        NO), ("12345678901234567.89", Decimal("12345678901234567.89"))]),
    Case("decimal(38,20)", TEXT, [("1.234567890123E-8", Decimal("1.234567890123E-8")), ("1E-20", Decimal("1E-20")),
        ("0E-20", Decimal(0)), ("1E-21", NO)]),
    Case("decimal(8,2)", T.DecimalType(10, 4), [(Decimal("1.2500"), Decimal("1.25")), (Decimal("1.2510"), NO),
        (Decimal(999999), Decimal(999999))], in_json=False),
    Case("decimal(4,2)", LONG, [(99, Decimal(99)), (100, NO)], in_json=False),
    Case("decimal(8,2)", TEXT, [("NaN", None), ("-Infinity", None), ("1.25", Decimal("1.25")), ("x", NO)],
        options={"special_values": "null"}),
    Case("decimal(8,2)", DOUBLE, [(float("nan"), None), (float("-inf"), None), (1.25, Decimal("1.25"))],
        in_json=False, options={"special_values": "null"}),
    # MariaDB's bigint unsigned: bigint.unsigned.handling.mode long, and precise.
    Case("decimal(20,0)", LONG, [(-1, Decimal(2**64 - 1)), (-(2**63), Decimal(2**63)), (5, Decimal(5))],
        in_json=False, connector="mariadb", options={"unsigned": True}),
    Case("decimal(20,0)", TEXT, [("-1", Decimal(2**64 - 1)), ("7", Decimal(7)), ("1234", Decimal(1234)), ("1.5",
        NO)], connector="mariadb", options={"unsigned": True}),
    Case("decimal(20,0)", TEXT, [(b64(unscaled(2**64 - 1)), Decimal(2**64 - 1))], connector="mariadb",
        options={"decimal": "base64"}),
    Case("decimal(20,0)", LONG, [(-1, Decimal(-1))], in_json=False, connector="mariadb"),
]  # fmt: skip
NUMBERS = [
    Case("int", TEXT, [("7", 7), ("-7", -7), ("7.0", 7), ("4.9", NO), ("many", NO), ("3000000000", NO), ("1e3", NO),
        ("", NO), ("true", NO), (None, None)]),
    Case("bigint", TEXT, [(str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63)), (str(2**63), NO),
        ("9007199254740993.4", NO)]),
    Case("int", LONG, [(2**31 - 1, 2**31 - 1), (2**31, NO), (2**32 + 5, NO)], in_json=False),
    Case("bigint", INT, [(-5, -5)], in_json=False),
    Case("bigint", DOUBLE, [(5.0, 5), (5.5, NO), (2.0**63, NO), (float("nan"), NO)], in_json=False),
    Case("double", TEXT, [("1.5", 1.5), ("NaN", float("nan")), ("Infinity", float("inf")), ("-Infinity",
        float("-inf")), ("1e400", NO), ("x", NO)]),
    Case("float", TEXT, [("0.5", 0.5), ("NaN", float("nan")), ("1e300", NO)]),
    Case("double", LONG, [(2**53, 2.0**53), (2**53 + 1, NO)], in_json=False),
    # A real is its shortest text, as JSON and a record's key have it; what is below every double is not zero.
    Case("double", SINGLE, [(0.2, 0.2), (1.5, 1.5), (None, None)], in_json=False),
    Case("decimal(18,10)", SINGLE, [(1.1, Decimal("1.1")), (0.30000001192092896, Decimal("0.3"))], in_json=False),
    Case("decimal(4,1)", SINGLE, [(1.25, NO), (1.5, Decimal("1.5"))], in_json=False),
    Case("double", TEXT, [("1E-400", NO), ("0E-400", 0.0), ("0.000", 0.0)]),
    Case("decimal(10,2)", TEXT, [("1E-400", NO), ("0E-400", Decimal(0))]),
    # What a schema calls a decimal, in a column of another kind: a text of digits is base64 all the same.
    *(
        Case(wanted, TEXT, [("1234", -2658824), ("AQ==", 1), ("TlI=", 20050)], CONNECT_DECIMAL + ";scale=0",
            in_json=False)
        for wanted in ("bigint", "int")
    ),
    Case("double", TEXT, [("1234", -26588.24), ("AQ==", 0.01)], CONNECT_DECIMAL + ";scale=2", in_json=False),
    Case("bigint", BYTES, [(b"\x04\xd2", 1234), (unscaled(2**63), NO)], CONNECT_DECIMAL + ";scale=0", in_json=False),
    Case("array<bigint>", T.ArrayType(TEXT), [(["1234"], [-2658824])], CONNECT_DECIMAL + ";scale=0", in_json=False),
    Case("timestamp", TEXT, [("1234", NO)], CONNECT_DECIMAL + ";scale=0", in_json=False),
    Case("date", TEXT, [("1234", NO)], CONNECT_DECIMAL + ";scale=0", in_json=False),
    Case("decimal(20,0)", TEXT, [("1234", Decimal(-2658824)), (b64(unscaled(2**64 - 1)), Decimal(2**64 - 1))],
        CONNECT_DECIMAL + ";scale=0", in_json=False, connector="mariadb", options={"unsigned": True}),
    Case("boolean", TEXT, [("true", True), ("false", False), ("1", True), ("0", False), ("5", NO), ("yes", NO)],
        connector="mariadb"),
    Case("boolean", INT, [(1, True), (0, False), (5, NO), (-1, NO)], in_json=False, connector="mariadb"),
    Case("bigint", LONG, [(1, 1)], MICROS, in_json=False),  # the event's own number, in its own unit
    Case("bigint", LONG, [(-86_400_000_000, -86_400_000_000)], "io.debezium.time.MicroDuration", in_json=False),
    Case("int", INT, [(1999, 1999)], "io.debezium.time.Year", in_json=False),
    Case("int", T.StructType([T.StructField("x", DOUBLE)]), [((1.0,), NO)], "io.debezium.data.geometry.Point",
        in_json=False),
]  # fmt: skip
INFINITE = (9_223_372_036_825_200_000, -9_223_372_036_832_400_000)
MOMENT = at(2018, 6, 20, 15, 13, 16, 945104)
TIMES = [
    Case("date", INT, [(0, date(1970, 1, 1)), (-1, date(1969, 12, 31)), (-719162, date(1, 1, 1)), (2932896,
        date(9999, 12, 31)), (2932897, NO), (-719163, NO)], DATE, in_json=False),
    Case("date", TEXT, [("19000", date(2022, 1, 8)), ("2022-01-08", date(2022, 1, 8)), ("2022-01-08Z", date(2022, 1,
        8)), ("2022-02-30", NO), ("yesterday", NO), ("2022-01-08T10:00:00", NO), ("99999999999", NO), ("2022-1-8",
        NO)]),
    Case("date", LONG, [(86_400_000, date(1970, 1, 2)), (86_400_001, NO)], MILLIS, in_json=False),
    Case("date", INT, [(2_147_472_692, None), (-2_147_472_693, None), (2_145_031_949, None), (3_000_000, NO), (1,
        date(1970, 1, 2))], DATE, in_json=False, options={"special_values": "null"}),
    # No day, and no infinity: the column has become a timestamp.
    Case("date", LONG, [(1_700_000_000_000, NO), (1_700_000_000_000_000, NO)], DATE, in_json=False,
        options={"special_values": "null"}),
    Case("timestamp", LONG, [(micros(MOMENT), MOMENT), (-1, at(1969, 12, 31, 23, 59, 59, 999999)), (micros(at(1, 1,
        1)), at(1, 1, 1)), (micros(at(1, 1, 1)) - 1, NO), (INFINITE[0], NO), (INFINITE[1], NO), (2**63 - 1, NO)],
        MICROS, in_json=False),
    Case("timestamp", LONG, [(-1, at(1969, 12, 31, 23, 59, 59, 999000)), (253402300799999, at(9999, 12, 31, 23, 59,
        59, 999000)), (253402300800000, NO), (2**63 - 1, NO), (-(2**63), NO)], MILLIS, in_json=False),
    Case("timestamp", LONG, [(micros(MOMENT) * 1000, MOMENT), (micros(MOMENT) * 1000 + 1, NO), (-1000, at(1969, 12,
        31, 23, 59, 59, 999999)), (2**63 - 1, NO)], NANOS, in_json=False),
    Case("timestamp", LONG, [(1, at(1970, 1, 1, 0, 0, 0, 1000))], "org.apache.kafka.connect.data.Timestamp",
        in_json=False),
    Case("timestamp", INT, [(1, at(1970, 1, 2))], DATE, in_json=False),
    Case("timestamp", TEXT, [
        (str(micros(MOMENT)), MOMENT), ("2018-06-20T15:13:16.945104Z", MOMENT), ("2018-06-20T17:13:16.945104+02:00",
            MOMENT),
        ("2018-06-20T15:13:16.945104000Z", MOMENT), ("2018-06-20T15:13:16.945104001Z", NO),
            ("2018-06-20 15:13:16.945104", MOMENT),
        ("2018-06-20T15:13:16Z", at(2018, 6, 20, 15, 13, 16)), ("2018-13-20T15:13:16Z", NO),
            ("+292278994-08-16T23:00:00.000000Z", NO), ("noon", NO), (str(INFINITE[0]), NO),
        ("0044-03-15 10:00:00 BC", NO), ("99999999999999999999999", NO),
    ], ),
    Case("timestamp", TEXT, [("1", at(1970, 1, 1, 0, 0, 0, 1000)), ("253370764800000", at(9999, 1, 1)),
        ("253370764799999", NO), ("100000000000000", NO), ("31536000000000", NO), ("10000000000000", NO),
        ("9999999999999", at(2286, 11, 20, 17, 46, 39, 999000)), ("-9999999999999", at(1653, 2, 10, 6, 13, 20, 1000)),
        ("-10000000000000", NO), ("-62104060800000", NO), ("-62104060800001", at(1, 12, 31, 23, 59, 59, 999000)),
        ("-62135596800000", at(1, 1, 1)), (str(micros(MOMENT)), NO)], connector="mariadb"),
    # A number whose unit nobody says, and that could be in another one.
    Case("timestamp", TEXT, [("1700000000123", NO), ("-100000000000", NO), ("10000000000000", NO),
        ("13046400000", NO), ("-100000001", NO), ("100000000", NO), ("99999999", at(1970, 1, 1, 0, 1, 39, 999999)),
        ("10000000000001", at(1970, 4, 26, 17, 46, 40, 1)),
        ("170000000000000000", NO), ("253402300799999999", at(9999, 12, 31, 23, 59, 59, 999999))]),
    Case("timestamp", LONG, [(1_700_000_000_123, NO), (micros(MOMENT), MOMENT)], in_json=False),
    Case("timestamp", LONG, [(1_700_000_000_123, at(2023, 11, 14, 22, 13, 20, 123000))], in_json=False,
        options={"semantic_type": MILLIS}),
    Case("timestamp", TEXT, [("1000", at(1970, 1, 1, 0, 0, 0, 1)), ("999", NO)], options={"semantic_type": NANOS}),
    # What a schema calls a time of day, a duration or a year is no moment.
    Case("date", INT, [(2023, NO)], "io.debezium.time.Year", in_json=False),
    Case("timestamp", LONG, [(36_000_000_000, NO)], MICRO_TIME, in_json=False),
    Case("timestamp", INT, [(36_000_000, NO)], TIME, in_json=False),
    Case("timestamp", LONG, [(1_700_000_000_000_000, NO)], "io.debezium.time.MicroDuration", in_json=False),
    # The schema of an event knows better than the declaration.
    Case("timestamp", LONG, [(1, at(1970, 1, 1, 0, 0, 0, 1))], MICROS, in_json=False,
        options={"semantic_type": MILLIS}),
    Case("timestamp", TEXT, [
        ("+292278994-08-16T23:00:00.000000Z", None), ("-292275055-05-16T23:00:00.000000Z", None), ("infinity", None),
            ("-infinity", None), (str(INFINITE[0]), None),
        (str(INFINITE[1]), None), ("noon", NO), ("12000-01-01T00:00:00Z", NO), ("2018-06-20T15:13:16.945104Z",
            MOMENT),
    ], ZONED, options={"special_values": "null"}),
    Case("timestamp", TEXT, [("+294247-01-10T04:00:25.2Z", None), ("-290308-12-21T19:59:27.6Z", None), ("+294247-01-10T"
        "04:00:25Z", NO)], "io.debezium.time.IsoTimestamp", options={"special_values": "null"}),
    Case("date", TEXT, [("-5877611-06-21Z", None), ("-5877611-06-22Z", None), ("+12000-01-01Z", NO)],
        "io.debezium.time.IsoDate", options={"special_values": "null"}),
    Case("timestamp", LONG, [(INFINITE[0] // 1000, None), (-(-INFINITE[1] // 1000), None), (253402300800000, NO)],
        MILLIS, in_json=False, options={"special_values": "null"}),
    Case("string", INT, [(0, "00:00:00"), (45_296_789, "12:34:56.789000"), (86_400_000, "24:00:00")], TIME,
        in_json=False),
    Case("string", LONG, [(45_296_789_012, "12:34:56.789012"), (-3_020_399_000_000, "-838:59:59"), (10**17, NO)],
        MICRO_TIME, in_json=False),
    Case("string", LONG, [(45_296_789_012_000, "12:34:56.789012"), (45_296_789_012_300, "12:34:56.789012300"), (1,
        "00:00:00.000000001")], NANO_TIME, in_json=False),
    Case("string", TEXT, [("45296789012", "12:34:56.789012"), ("12:34:56Z", "12:34:56Z")],
        options={"semantic_type": MICRO_TIME}),
    Case("bigint", LONG, [(45_296_789_012, 45_296_789_012)], MICRO_TIME, in_json=False),
    Case("string", TEXT, [("10:15:30Z", "10:15:30Z")], "io.debezium.time.ZonedTime", in_json=False),
    Case("string", TEXT, [("P1Y2M3DT4H5M6.78S", "P1Y2M3DT4H5M6.78S")], "io.debezium.time.Interval", in_json=False),
]  # fmt: skip
UUID = "6f1b0f1e-5b5e-4d5a-9b2a-000000000001"
OTHERS = [
    Case("string", TEXT, [("  padded  ", "  padded  "), ("", ""), (UUID, UUID)]),
    Case("string", TEXT, [('{"a": 1}', '{"a": 1}')], "io.debezium.data.Json", in_json=False),
    Case("string", T.StructType([T.StructField("x", DOUBLE), T.StructField("wkb", BYTES)]), [((1.0, b"\x01"),
        '{"x":1.0,"wkb":"AQ=="}')], in_json=False),
    Case("string", T.MapType(TEXT, TEXT), [({"a": "b"}, '{"a":"b"}')], in_json=False),  # hstore
    Case("string", BYTES, [(b"\x08\x33" * 50, b64(b"\x08\x33" * 50))], in_json=False),
    Case("binary", TEXT, [("CDM=", b"\x08\x33"), ("", b""), ("A", NO), ("C!M=", NO), ("83a1ff", NO),
        (b64(bytes(range(256)) * 400), bytes(range(256)) * 400)]),
    Case("binary", TEXT, [("0833", b"\x08\x33"), ("083", NO), ("zz", NO)], options={"binary": "hex"}),
    Case("binary", TEXT, [("-_8=", b"\xfb\xff")], options={"binary": "base64-url-safe"}),
    Case("binary", BYTES, [(b"\x08", b"\x08")], in_json=False),
    # The bits of bit(n) stand in little-endian bytes.
    Case("bigint", BYTES, [(b"\x01\x02", 513), (b"\xff" * 7 + b"\x7f", 2**63 - 1), (b"\xff" * 8, NO),
        (b"\x05" + b"\0" * 9, 5), (b"\x01" * 9, NO), (b"", 0)], f"{BITS};length=10", in_json=False),
    Case("int", BYTES, [(b"\xff\xff\xff\x7f", 2**31 - 1), (b"\xff\xff\xff\xff", NO)], BITS, in_json=False),
    Case("decimal(20,0)", BYTES, [(b"\xff" * 8, Decimal(2**64 - 1))], BITS, in_json=False),
    Case("boolean", BYTES, [(b"\x01", True), (b"\x00", False), (b"\x02", NO)], BITS, in_json=False),
    Case("binary", BYTES, [(b"\x01\x02", b"\x01\x02")], BITS, in_json=False),
    Case("string", BYTES, [(b"\x01\x02", "1000000001"), (b"\x05\x00", "0000000101"), (b"", "0000000000")],
        f"{BITS};length=10",
        in_json=False),
    Case("bigint", TEXT, [(b64(b"\x01\x02"), 513), ("", 0), ("!", NO)], options={"semantic_type": BITS}),
    Case("array<string>", TEXT, [('["a",null,"b"]', ["a", None, "b"]), ("[]", []), ("x", NO), ('{"a":1}', NO), (None,
        None)]),
    Case("array<int>", TEXT, [("[1,null,2]", [1, None, 2]), ("[1,2.5]", NO), ('["x"]', NO), ("[1,2] and more", NO),
        ("[1],[2]", NO),
        (" [1] ", [1]), (f"[{2**31}]", NO)]),
    Case("array<decimal(8,2)>", TEXT, [("[1.25,null]", [Decimal("1.25"), None]), ("[1.255]", NO)]),
    Case("array<decimal(8,2)>", TEXT, [('["Yw==",null]', [Decimal("0.99"), None])], options={"decimal": "base64"}),
    Case("array<date>", TEXT, [("[0,null,1]", [date(1970, 1, 1), None, date(1970, 1, 2)]), ("[99999999]", NO)]),
    Case("array<boolean>", TEXT, [("[true,null]", [True, None]), ("[5]", NO)]),
    Case("array<array<int>>", TEXT, [("[[1],[2,null],null]", [[1], [2, None], None]), ("[[1.5]]", NO), ("[1]", NO)]),
    Case("array<string>", T.ArrayType(TEXT), [(["a", None], ["a", None])], in_json=False),
    Case("array<bigint>", T.ArrayType(INT), [([1, None], [1, None]), (None, None)], in_json=False),
    Case("array<date>", T.ArrayType(INT), [([1, None], [date(1970, 1, 2), None]), ([3_000_000], NO)], DATE,
        in_json=False),
    Case("array<decimal(8,2)>", T.ArrayType(BYTES), [([unscaled(125), None], [Decimal("1.25"), None])],
        f"{CONNECT_DECIMAL};scale=2", in_json=False),
    Case("array<decimal(8,2)>", T.ArrayType(VARIABLE), [([(1, unscaled(5)), None], [Decimal("0.5"), None]), ([(3,
        unscaled(5))], NO)], in_json=False),
    Case("int", T.ArrayType(INT), [([1], NO)], in_json=False),
]  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("cases", [DECIMALS, NUMBERS, TIMES, OTHERS], ids=["decimals", "numbers", "times", "others"])
def test_each_form_becomes_its_value_or_is_refused(cases: list[Case], spark: SparkSession) -> None:
    check(spark, cases)


def time_of_day(moment: datetime) -> tuple[str, int]:
    """As silver has it, and as Debezium's MicroTime does."""
    text = moment.strftime("%H:%M:%S") + (f".{moment.microsecond:06d}" if moment.microsecond else "")
    return text, (moment - moment.replace(hour=0, minute=0, second=0, microsecond=0)) // timedelta(microseconds=1)


@pytest.mark.spark
@seed(20261121)
@settings(max_examples=3, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_values_come_back_from_every_encoding(data: st.DataObject, spark: SparkSession) -> None:
    """One Spark job an example, of hundreds of values in each encoding."""

    def some(strategy: st.SearchStrategy[Any]) -> list[Any]:
        return data.draw(st.lists(strategy, min_size=40, max_size=120))

    wide = some(st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-300, 300) | st.integers(-(2**65), 2**65))
    money = some(st.integers(-(10**8) + 1, 10**8 - 1))
    moments = some(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))
    days = some(st.dates())
    numbers = some(st.integers(-(2**63), 2**63 - 1))
    blobs = some(st.binary(max_size=100))
    with localcontext() as context:
        context.prec = 60
        exact = [Decimal(number).scaleb(-10) for number in wide]
    cents = [Decimal(number).scaleb(-2) for number in money]
    epoch = date(1970, 1, 1)
    with_fraction, since_midnight = map(list, zip(*map(time_of_day, moments), strict=True))
    in_array = [[number, None] for number in numbers]

    def case(wanted: str, found: T.DataType, values: list[Any], expected: list[Any], *args: Any, **kwargs: Any) -> Case:
        return Case(wanted, found, list(zip(values, expected, strict=True)), *args, **kwargs)

    base64ed: dict[str, Any] = {"options": {"decimal": "base64"}}
    number: dict[str, Any] = {"options": {"decimal": "number"}}
    binary: dict[str, Any] = {"in_json": False}
    scaled = f"{CONNECT_DECIMAL};scale=10"
    check(spark, [
        case("decimal(38,10)", TEXT, [b64(unscaled(value)) for value in wide], exact, **base64ed),
        case("decimal(38,10)", TEXT, [json.dumps({"scale": 10, "value": b64(unscaled(value))}) for value in wide],
            exact),
        case("decimal(38,10)", TEXT, [str(value) for value in exact], exact, **number),
        case("decimal(38,10)", TEXT, [f"{value:f}" for value in exact], exact, in_json=False),
        case("decimal(38,10)", BYTES, [unscaled(value) for value in wide], exact, scaled, **binary),
        case("decimal(38,10)", VARIABLE, [(10, unscaled(value)) for value in wide], exact, **binary),
        case("decimal(8,2)", TEXT, [str(float(value)) for value in cents], [value if abs(value) < 10**6 else NO
            for value in cents], **number),
        case("decimal(10,2)", DOUBLE, [float(value) for value in cents], cents, **binary),
        case("timestamp", LONG, [micros(moment) for moment in moments], moments, MICROS, **binary),
        case("timestamp", TEXT, [moment.strftime(f"{moment.year:04d}-%m-%dT%H:%M:%S.%fZ") for moment in moments],
            moments),
        case("timestamp", LONG, [micros(moment) // 1000 for moment in moments],
            [moment.replace(microsecond=moment.microsecond // 1000 * 1000) for moment in moments], MILLIS, **binary),
        case("date", INT, [(day - epoch).days for day in days], days, DATE, **binary),
        case("date", TEXT, [day.isoformat() for day in days], days),
        case("string", LONG, since_midnight, with_fraction, MICRO_TIME, **binary),
        case("bigint", TEXT, [str(value) for value in numbers], numbers),
        case("decimal(20,0)", LONG, numbers, [Decimal(value % 2**64) for value in numbers], connector="mariadb",
            options={"unsigned": True}, **binary),
        case("array<bigint>", TEXT, [json.dumps(value) for value in in_array], in_array),
        case("binary", TEXT, [b64(blob) for blob in blobs], blobs),
        case("binary", TEXT, [blob.hex() for blob in blobs], [NO if blob else b"" for blob in blobs]),
        case("binary", TEXT, [blob.hex() for blob in blobs], blobs, options={"binary": "hex"}),
        case("bigint", BYTES, [abs(value).to_bytes(9, "little") for value in numbers], [abs(value)
            if abs(value) < 2**63 else NO for value in numbers], BITS, **binary),
    ])  # fmt: skip


@pytest.mark.spark
def test_a_landing_heeds_the_declaration_of_each_column(make_project: MakeProject, spark: SparkSession) -> None:
    """From the declaration to silver: and what is not exact is quarantined, with what to do about it."""
    columns = {"id": "int", "price": "decimal(8,2)", "plain": "decimal(8,2)", "until": "timestamp", "open": "string"}
    table = table_of("offer", columns, ["id"])
    options: list[dict[str, Any]] = [
        {},
        {"decimal": "base64"},
        {},
        {"special_values": "null"},
        {"semantic_type": MICRO_TIME},
    ]
    for column, declared in zip(table["columns"], options, strict=True):
        column["config"] = {"meta": {"ingest": declared}}
    project = make_project({"tables": [table]})
    project.deliver("shop.offer", 0, [
        pg("c", 1, id=1, price="CDM=", plain=1.5, until=INFINITE[0], open=45_296_000_000),
        pg("c", 2, id=2, price="CDM=", plain="CDM=", until="2022-01-01T00:00:00Z", open=None),
    ])  # fmt: skip
    project.land_well(spark)
    assert project.rows(spark, "offer") == [
        {"id": 1, "price": Decimal("20.99"), "plain": Decimal("1.50"), "until": None, "open": "12:34:56"}
    ]
    reason = project.quarantined(spark)[0]["reason"]
    assert "column plain: CDM= is not exactly a decimal(8,2)" in reason
    assert "`decimal: base64`" in reason


def test_parameters_of_a_schema_stand_behind_the_semantic_type() -> None:
    decimal = {"type": "bytes", "connect.name": CONNECT_DECIMAL, "connect.parameters": {"scale": "2"}}
    bits = {"type": "bytes", "connect.name": BITS, "connect.parameters": {"length": "10"}}
    days = {"type": "int", "connect.name": DATE}
    types = {
        "price": ["null", decimal],
        "flags": bits,
        "days": {"type": "array", "items": ["null", days]},
        "name": "string",
    }
    fields = [{"name": name, "type": found} for name, found in types.items()]
    assert semantic_types(json.dumps({"type": "record", "name": "Value", "fields": fields})) == {
        "price": f"{CONNECT_DECIMAL};scale=2", "flags": f"{BITS};length=10", "days": DATE
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data_type", "options"),
    [
        ("string", {"decimal": "base64"}),
        ("string", {"binary": "hex"}),
        ("bigint", {"unsigned": True}),
        ("decimal(19,0)", {"unsigned": True}),
        ("decimal(22,2)", {"unsigned": True}),
        ("decimal(20,0)", {"unsigned": True, "decimal": "base64"}),
        ("string", {"special_values": "null"}),
        ("boolean", {"semantic_type": MICROS}),
        ("timestamp", {"semantic_type": MICRO_TIME}),
        ("string", {"semantic_type": BITS}),
        ("decimal(8,2)", {"decimal": "text"}),
    ],
)
def test_an_option_that_says_nothing_of_the_type_is_refused(
    data_type: str, options: dict[str, Any], make_project: MakeProject
) -> None:
    table = table_of("offer", {"id": "int", "value": data_type}, ["id"])
    table["columns"][1]["config"] = {"meta": {"ingest": options}}
    with pytest.raises(DeclarationError) as refused:
        make_project({"tables": [table]}).source()
    assert "offer.value: config.meta.ingest" in refused.value.message
    assert next(iter(options)) in refused.value.message
