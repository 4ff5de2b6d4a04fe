"""Compares silver with its source: finds every difference, and names the keys.

Both sides are cut to the declared columns and brought to the declared types; a value of the source that is not one of
its type differs from every value of silver. A hash of each row is summed up by bucket of its key; buckets that agree
are done, and only the rows of the others are joined. The source is read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.tables import Table
from ingest.decode.fields import Field, quoted
from ingest.decode.types import converted
from ingest.errors import InputError, LakeError
from ingest.landing.backlog import pending_of
from ingest.operations.databases.forms import SourceRows
from ingest.operations.databases.rows import UNFIT, rows_of, unfit
from ingest.schema.masking import in_silver
from ingest.silver.table import SilverTable
from ingest.spark.jvm import first_line

Kind = Literal["missing", "extra", "different"]
KINDS: Mapping[Kind, str] = {
    "missing": "in the source, not in silver",
    "extra": "in silver, not in the source",
    "different": "in both, with other values",
}
_BUCKETS = 1024
_SUFFIXES = (".parquet", ".csv", ".csv.gz")
# A text that no file holds: it keeps Spark's CSV reader from taking any text for a null.
_NO_TEXT = "\u0001no text\u0001"


@dataclass(frozen=True)
class Difference:
    """A row that is not the same on both sides: its kind, its key as text, and the columns that differ."""

    kind: Kind
    key: Mapping[str, str | None]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reconciled:
    """What the comparison of one table found.

    Attributes
    ----------
    against:
        What silver was compared with; empty where there is nothing to compare with.
    instant, position:
        The commit of silver that was read, and the highest `__position` it knows.
    waiting, unit:
        Files of events that are not landed yet: differences may lie in them.
    source_rows, silver_rows:
        Rows of both sides; tombstones are not rows.
    counts:
        Differences, by kind: all of them.
    differences:
        The first of each kind, by key.
    left_out:
        Columns that could not be compared: their values have no one form on both sides.
    error:
        Why the table could not be compared.
    """

    table: Table
    against: str = ""
    instant: str = ""
    position: str = ""
    waiting: int = 0
    unit: str = ""
    source_rows: int = 0
    silver_rows: int = 0
    counts: Mapping[Kind, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    differences: tuple[Difference, ...] = ()
    left_out: tuple[str, ...] = ()
    error: LakeError | None = None

    @property
    def equal(self) -> bool:
        """Whether the table was compared and nothing differs."""
        return bool(self.against) and self.error is None and not any(self.counts.values())

    @property
    def missed_deletes(self) -> int:
        """Rows of silver that the source has no longer, where silver is made from queries, which see no deletes."""
        return self.counts["extra"] if self.table.options.connector is None else 0

    def words(self, kind: Kind) -> str:
        """What a kind of difference is."""
        return KINDS[kind] + (": a delete that no query saw" if kind == "extra" and self.missed_deletes else "")

    @property
    def told(self) -> str:
        """The result in words."""
        if self.error:
            return "failed"
        if not self.against:
            return "nothing to compare with"
        behind = f"; silver is behind, {self.waiting:,} {self.unit} wait" if self.waiting else ""
        without = f"; not compared: {', '.join(self.left_out)}" if self.left_out else ""
        return ("equal" if self.equal else "different") + without + behind


def reconcile(
    spark: SparkSession, table: Table, *, against: Path | None = None, null_text: str = r"\N", limit: int = 10
) -> Reconciled:
    """Compares a silver table with its database, or with the file of its name in the folder `against`.

    Parameters
    ----------
    against:
        A folder of `<name>.parquet`, `.csv` or `.csv.gz` with a header; a name is the table's, or its topic's without
        any of its first parts (`sale`, `ecomm.sale`, `tickit.ecomm.sale`).
    null_text:
        The text that means null in a CSV file. An empty field is the empty text then; where `null_text` is itself
        empty, an empty field is null and only a quoted one is the empty text.
    limit:
        Keys to name of each kind. All are counted.

    A failure is the result's `error`: the other tables of a source can still be compared.
    """
    found = Reconciled(table)
    try:
        with _as_input_error(table):
            return _compare(spark, found, against, null_text, limit)
    except LakeError as error:
        return Reconciled(table, error=error)


def _compare(spark: SparkSession, found: Reconciled, against: Path | None, null_text: str, limit: int) -> Reconciled:
    # What silver derives from the key is no column of the source.
    table = found.table.in_events
    if not table.key:
        raise InputError("has no key, so no row can be told from another", where=table.where, expected="a declared key")
    path = _oracle_file(table, against) if against else None
    if path is None and (against is not None or table.database is None):
        return found
    silver = SilverTable.to_look_at(spark, table)
    state = silver.state() if silver else None
    if silver is None or state is None:
        raise InputError("is not landed yet", where=table.where, action=f"lake ingest {table.source}")
    pending = pending_of(spark, table, state.position)

    source = _source(spark, table, path, null_text)
    compared = replace(table, columns=tuple(item for item in table.columns if item.name not in source.left_out))
    read = silver.read()
    live = read.where("__deleted = 'false'")
    ours = _canonical(compared, source, live.select(*(
        F.col(quoted(column.name)) if column.name in read.columns else F.lit(None).alias(column.name)
        for column in compared.columns
    ), unfit([]).cast("array<string>").alias(UNFIT)))  # fmt: skip
    theirs = _canonical(compared, source, source.rows)
    theirs = theirs.persist(StorageLevel.DISK_ONLY)
    try:
        sums = _sums(theirs, "theirs").join(_sums(ours, "ours"), "__bucket", "full_outer").persist()
        totals = sums.agg(*(F.coalesce(F.sum(f"{side}.rows"), F.lit(0)).alias(side) for side in ("theirs", "ours")))
        (rows,) = totals.collect()
        unequal = [
            row[0] for row in sums.where(~F.col("theirs").eqNullSafe(F.col("ours"))).select("__bucket").collect()
        ]
        sums.unpersist()
        counts, differences = _differences(compared, theirs, ours, unequal, limit)
    finally:
        theirs.unpersist()
    return Reconciled(
        table,
        against=str(path) if path else f"{table.database.url}, {'.'.join(table.database_name)}",  # type: ignore[union-attr]
        instant=state.instant,
        position=state.watermark,
        waiting=pending.waiting,
        unit=pending.unit,
        source_rows=rows["theirs"],
        silver_rows=rows["ours"],
        counts=counts,
        differences=differences,
        left_out=source.left_out,
    )


def _canonical(table: Table, source: SourceRows, rows: DataFrame) -> DataFrame:
    """The declared columns, so that `<=>` says whether two values are the same, and the bucket of the key."""
    columns = []
    for column in table.columns:
        value = F.col(quoted(column.name)).cast(column.data_type)
        if column.name in source.normal and column.hashed_from is None:
            value = source.normal[column.name](value)
        columns.append(_comparable(value, column.data_type).alias(column.name))
    keys = [F.col(quoted(name)) for name in table.key]
    return rows.select(*columns, UNFIT).withColumn("__bucket", F.pmod(_hash(keys), F.lit(_BUCKETS)).cast("int"))


def _source(spark: SparkSession, table: Table, path: Path | None, null_text: str) -> SourceRows:
    """The source's rows; of a hashed column the hashes, which are made here. Excluded columns are not read."""
    source = table.in_source
    found = SourceRows(_file(spark, source, path, null_text)) if path else rows_of(spark, source)
    return replace(found, rows=in_silver(found.rows, table))


def _comparable(value: Column, data_type: T.DataType) -> Column:
    """Arrays as texts: Spark's hash passes over the nulls in them."""
    if not isinstance(data_type, T.ArrayType):
        return value
    if isinstance(data_type.elementType, T.ArrayType):
        return F.to_json(F.transform(value, lambda item: _comparable(item, data_type.elementType)))
    is_binary = isinstance(data_type.elementType, T.BinaryType)
    # Not as they are: JSON's timestamps end with the milliseconds.
    return F.to_json(F.transform(value, lambda item: F.hex(item) if is_binary else item.cast("string")))


def _hash(values: Sequence[Column]) -> Column:
    """A hash that tells null from the empty text, and ('a', null) from (null, 'a'): Spark's own passes over nulls."""
    return F.xxhash64(*(part for value in values for part in (value.isNull(), value)))


def _sums(rows: DataFrame, side: str) -> DataFrame:
    values = [F.col(quoted(name)) for name in rows.columns if name != "__bucket"]
    summed = rows.groupBy("__bucket").agg(F.count("*").alias("rows"), F.bit_xor(_hash(values)).alias("hashes"))
    return summed.select("__bucket", F.struct("rows", "hashes").alias(side))


def _differences(
    table: Table, theirs: DataFrame, ours: DataFrame, buckets: Sequence[int], limit: int
) -> tuple[dict[Kind, int], tuple[Difference, ...]]:
    counts: dict[Kind, int] = dict.fromkeys(KINDS, 0)
    if not buckets:
        return counts, ()
    left, right = (
        rows.where(F.col("__bucket").isin(*buckets)).withColumn("__here", F.lit(True)).alias(side)
        for rows, side in ((theirs, "theirs"), (ours, "ours"))
    )
    same_key = F.lit(True)
    for name in table.key:
        same_key = same_key & _of("theirs", name).eqNullSafe(_of("ours", name))
    others = [column.name for column in table.columns if column.name not in table.key]
    unequal = [
        F.when(
            ~_of("theirs", name).eqNullSafe(_of("ours", name)) | F.array_contains(_of("theirs", UNFIT), name),
            F.lit(name),
        )
        for name in others
    ]
    kind = (
        F.when(_of("ours", "__here").isNull(), "missing")
        .when(_of("theirs", "__here").isNull(), "extra")
        .when(F.size("__columns") > 0, "different")
    )
    found = (
        left.join(right, same_key, "full_outer")
        .withColumn("__columns", F.array_compact(F.array(*unequal)) if unequal else F.array().cast("array<string>"))
        .select(
            kind.alias("__kind"),
            "__columns",
            *(F.coalesce(_of("theirs", name), _of("ours", name)).alias(name) for name in table.key),
        )
        .where("__kind is not null")
        .persist(StorageLevel.DISK_ONLY)
    )
    try:
        counts |= {row["__kind"]: row["count"] for row in found.groupBy("__kind").count().collect()}
        differences = []
        for name in (name for name in KINDS if counts[name]):
            chosen = found.where(F.col("__kind") == name).orderBy(*map(quoted, table.key)).limit(limit)
            for row in chosen.select("__columns", *(_shown(table, key).alias(key) for key in table.key)).collect():
                key = {part: row[part] for part in table.key}
                differences.append(Difference(name, key, tuple(row["__columns"]) if name == "different" else ()))
        return counts, tuple(differences)
    finally:
        found.unpersist()


def _of(side: str, name: str) -> Column:
    return F.col(f"{side}.{quoted(name)}")


def _shown(table: Table, key: str) -> Column:
    """A part of a key as text, in its declared type; bytes in hexadecimal digits."""
    (data_type,) = (column.data_type for column in table.columns if column.name == key)
    value = F.col(quoted(key))
    if isinstance(data_type, T.BinaryType):
        return F.hex(value)
    return value.cast("string")


def _oracle_file(table: Table, folder: Path) -> Path | None:
    parts = table.options.topic.split(".")
    names = [table.name, *(".".join(parts[start:]) for start in range(len(parts)))]
    places = (folder / f"{name}{suffix}" for name in names for suffix in _SUFFIXES)
    return next((place for place in places if place.exists()), None)


def _file(spark: SparkSession, table: Table, path: Path, null_text: str) -> DataFrame:
    """The declared columns of a file. Raises InputError where it lacks one."""
    place = f"file:{path.resolve()}"  # as it is, not as a URI quotes it
    text = path.suffix != ".parquet"
    if text:
        options = {"header": "true", "multiLine": "true", "escape": '"', "nullValue": _NO_TEXT, "mode": "FAILFAST"}
        rows = spark.read.options(**options).csv(place)
    else:
        rows = spark.read.parquet(place)
    lacking = [column.name for column in table.columns if column.name not in rows.columns]
    if lacking:
        raise InputError(
            f"has no column {', '.join(lacking)}", where=str(path), expected="the columns that the table declares"
        )
    columns, problems = [], []
    for column in table.columns:
        value = F.col(quoted(column.name))
        if text and null_text:
            # Spark gives an empty field as null, whatever means null.
            value = F.when(value == null_text, None).otherwise(F.coalesce(value, F.lit("")))
        if isinstance(column.data_type, T.DecimalType):
            # Exactly, or not at all: a digit too many is a difference, and not rounded away.
            read = Field(value, rows.schema[column.name].dataType, in_json=False)
            exactly = converted(value, read, column, column.data_type, table.options.connector)
            typed, wrong = exactly.value, exactly.problem.isNotNull()
        else:
            typed = (_from_text(value, column.data_type) if text else value).cast(column.data_type)
            wrong = typed.isNull()
        columns.append(typed.alias(column.name))
        problems.append(F.when(value.isNotNull() & wrong, F.lit(column.name)))
    return rows.select(*columns, unfit(problems))


def _from_text(value: Column, data_type: T.DataType) -> Column:
    if isinstance(data_type, T.ArrayType):
        return F.from_json(value, data_type)
    if isinstance(data_type, T.BinaryType):
        return F.unhex(F.regexp_replace(value, r"^\\x", ""))
    return value


@contextmanager
def _as_input_error(table: Table) -> Iterator[None]:
    """Spark's and the driver's errors as InputError, without the password."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if table.database:
            text = text.replace(table.database.password.get_secret_value() or _NO_TEXT, "***")
        causes = [line for line in text.splitlines() if "SQLException" in line or "PSQLException" in line]
        where = f"{table.where}: {table.database.url}" if table.database else table.where
        raise InputError(
            first_line("\n".join(causes) or text), where=where, action="correct it and compare again"
        ) from error
