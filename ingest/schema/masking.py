"""Column policies: what of a row may be written at all, and how a value is hashed.

An excluded column is declared and never read; of a hashed one silver has HMAC-SHA256 (RFC 2104) over a salt from the
environment. Both are applied while events are decoded, before anything is written, the quarantine included.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from json import dumps
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.tables import Table
from ingest.spark.jvm import java_class

# `_lake_form` of an event of which the quarantine keeps what the policies leave, as a JSON text.
MASKED_FORM = dumps({"masked": True})
# In place of a value that could not be hashed, as it is not one of its column's type.
NOT_KEPT = "(not kept)"
_HASH = "^[0-9a-f]{64}$"
_BLOCK = 64  # bytes of a block of SHA-256, which HMAC fills the key up to
_SALTS = ("_lake_salt_inner", "_lake_salt_outer")


def fingerprint(salt: str) -> str:
    """16 digits that tell whether two salts are the same, and nothing else of them."""
    return hmac.new(salt.encode(), b"fingerprint of a salt", hashlib.sha256).hexdigest()[:16]


def salt_of(table: Table) -> str:
    """The salt of a table's connection; '' where it has none."""
    salt = table.connection.hash_salt
    return salt.get_secret_value() if salt else ""


def local_rows(spark: SparkSession, rows: Sequence[Sequence[object]], schema: T.StructType) -> DataFrame:
    """A few rows that no plan shows, and that reach Spark without a file, which Python's own way of doing it writes."""
    gateway: Any = spark.sparkContext._gateway
    listed = java_class(spark, "java.util.ArrayList")()
    for row in rows:
        values = gateway.new_array(java_class(spark, "java.lang.Object"), len(row))
        for place, value in enumerate(row):
            values[place] = value
        listed.add(java_class(spark, "org.apache.spark.sql.RowFactory").create(values))
    parsed = java_class(spark, "org.apache.spark.sql.types.DataType").fromJson(schema.json())
    return DataFrame(spark._jsparkSession.createDataFrame(listed, parsed), spark)


def with_salt(rows: DataFrame, table: Table) -> DataFrame:
    """Adds what `keyed_hash` needs, where the connection has a salt: the keys of HMAC's two rounds.

    They come by a join with a table of one row. As literals they would stand in every plan, and so in event logs.
    """
    salt = salt_of(table).encode()
    if not salt:
        return rows
    key = (hashlib.sha256(salt).digest() if len(salt) > _BLOCK else salt).ljust(_BLOCK, b"\0")
    pads = [bytes(byte ^ pad for byte in key) for pad in (0x36, 0x5C)]
    schema = T.StructType([T.StructField(name, T.BinaryType()) for name in _SALTS])
    return rows.crossJoin(F.broadcast(local_rows(rows.sparkSession, [pads], schema)))


def keyed_hash(data: Expression) -> Expression:
    """HMAC-SHA256 of bytes, as 64 hexadecimal digits; null of null. Of rows `with_salt`."""
    inner = F.sha2(F.concat(F.col(_SALTS[0]), data), 256)
    return F.sha2(F.concat(F.col(_SALTS[1]), F.unhex(inner)), 256)


def canonical(value: Expression, data_type: T.DataType) -> Expression:
    """The bytes of a value that are hashed: the same for equal values, whatever the width of their columns.

    A number without the zeros behind its point, an ISO date, a timestamp's microseconds since 1970, `true` or `false`;
    texts in UTF-8 and bytes as they are.
    """
    if isinstance(data_type, T.StringType | T.BinaryType):
        return value.cast("binary")
    if isinstance(data_type, T.DecimalType):
        pattern = "0." + "#" * data_type.scale if data_type.scale else "0"
        return F.call_function("format_number", value, F.lit(pattern)).cast("binary")
    if isinstance(data_type, T.TimestampType):
        return F.unix_micros(value).cast("string").cast("binary")
    return value.cast("string").cast("binary")


def hashed(value: Expression, data_type: T.DataType) -> Expression:
    """A value of a hashed column as silver has it. Of rows `with_salt`."""
    return keyed_hash(canonical(value, data_type))


def in_silver(rows: DataFrame, table: Table) -> DataFrame:
    """Rows of the source, in its types, with the hashed columns as silver has them."""
    if not table.hashed:
        return rows
    sources = {name: hashed(F.col(f"`{name}`"), data_type) for name, data_type in table.hashed.items()}
    columns = [sources.get(name, F.col(f"`{name}`")).alias(name) for name in rows.columns]
    return with_salt(rows, table).select(*columns)


def not_kept(data: Expression, table: Table) -> Expression:
    """What is told of bytes that cannot be searched for such columns, and so are not kept. Of rows `with_salt`."""
    digest = keyed_hash(data) if salt_of(table) else F.sha2(data, 256)
    how = "HMAC-SHA256" if salt_of(table) else "SHA-256"
    return F.concat(F.lit("not kept: "), F.length(data).cast("string"), F.lit(f" bytes, {how} "), digest)


def taken_as_hashed(table: Table) -> Table:
    """The table for events that were masked before: their hashes are values."""
    columns = tuple(replace(column, hashed_from=None, hashed_before=column.hashed_from) for column in table.columns)
    return replace(table, excluded=(), columns=columns)


def taken(value: Expression, data_type: T.DataType) -> tuple[Expression, Expression]:
    """A hash that a masked event holds, and what is wrong where it holds none."""
    message = F.lit(f"its value was not exactly a {data_type.simpleString()}, and was not kept")
    return value, F.when(~value.rlike(_HASH), message)


def masked_text(values: Mapping[str, Expression], absent: Expression) -> Expression:
    """An event of text values as a JSON text, without the columns in the array `absent`; a null stays a null."""
    entries = (
        F.when(~F.array_contains(absent, name), F.struct(F.lit(name).alias("key"), value.cast("string").alias("value")))
        for name, value in values.items()
    )
    return F.to_json(F.map_from_entries(F.array_compact(F.array(*entries))))


def all_null(values: Sequence[Expression]) -> Expression:
    """Whether none of the values is there."""
    return reduce(lambda left, right: left & right, [value.isNull() for value in values])
