"""Debezium events to decoded changes: envelopes and unwrapped events, text or typed, as DataFrame steps.

Sources of the rules: Debezium's documentation of the event envelope, of the ExtractNewRecordState transform and of the
data type mappings of each connector; the captures in ../shared/data/debezium-captures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.declaration import Column, SemanticType, Table
from ingest.decode.columns import (
    DEFAULT_TIMESTAMP,
    ORIGIN,
    POSITION_COLUMNS,
    MetadataColumn,
    metadata_columns,
)

# Ops that carry a row, and those that carry none: 'm' is a logical decoding message.
_ROW_OPS = ("c", "u", "d", "r")


@dataclass(frozen=True)
class Field:
    """A value as it stands in an event: expression, type, and Debezium's semantic type where a schema names it."""

    value: Expression
    data_type: T.DataType
    semantic_type: str | None = None


def decode_json(lines: DataFrame, table: Table) -> DataFrame:
    """Decoded changes from JSON texts.

    Reads envelopes and unwrapped events, each with or without Kafka Connect's {"schema", "payload"} around it.

    Parameters
    ----------
    lines:
        Columns `value` string and those of `ORIGIN`.
    """
    columns = [column.name for column in table.columns]
    metadata = metadata_columns(table.options.connector)
    flat = _text_struct([*columns, *(name for column in metadata for name in column.names), "__deleted"])
    row = _text_struct(columns)
    source_fields = [column.envelope[1] for column in metadata if column.envelope[0] == "source"]
    envelope = T.StructType(
        [
            T.StructField("before", row),
            T.StructField("after", row),
            T.StructField("source", _text_struct(source_fields)),
            T.StructField("op", T.StringType()),
        ]
    )
    corrupt = T.StructField("_corrupt", T.StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    # A JSON text cannot hold an unescaped quote, so these patterns match keys only.
    is_wrapped = F.col("value").rlike(r'^\s*\{\s*"schema"\s*:') & F.col("value").rlike(r'"payload"\s*:')
    payload = F.when(is_wrapped, F.get_json_object("value", "$.payload")).otherwise(F.col("value"))
    is_envelope = (
        F.col("_json").rlike(r'"op"\s*:')
        & F.col("_json").rlike(r'"(after|before)"\s*:')
        & F.col("_json").rlike(r'"source"\s*:')
        & ~F.col("_json").rlike(r'"__(op|deleted)"\s*:')
    )
    parsed = (
        lines.withColumn("_json", F.trim(payload))
        .withColumn("_is_envelope", is_envelope)
        .withColumn(
            "_flat",
            F.when(~F.col("_is_envelope"), F.from_json("_json", T.StructType([*flat.fields, corrupt]), options)),
        )
        .withColumn(
            "_envelope",
            F.when(F.col("_is_envelope"), F.from_json("_json", T.StructType([*envelope.fields, corrupt]), options)),
        )
    )
    op = F.when(F.col("_is_envelope"), F.col("_envelope.op")).otherwise(F.col("_flat.__op"))
    image = F.when(op == "d", F.col("_envelope.before")).otherwise(F.col("_envelope.after"))

    def either(in_envelope: Expression, in_flat: Expression) -> Field:
        return Field(F.when(F.col("_is_envelope"), in_envelope).otherwise(in_flat), T.StringType())

    fields = {name: either(image.getField(name), F.col(f"_flat.`{name}`")) for name in columns}
    for column in metadata:
        unwrapped = F.coalesce(*(F.col(f"_flat.`{name}`") for name in column.names))
        fields[column.name] = either(F.col("_envelope." + ".".join(column.envelope)), unwrapped)
    fields["__deleted"] = either((op == "d").cast("string"), F.col("_flat.__deleted"))
    empty = F.col("_json").isNull() | F.col("_json").isin("", "null")
    problem = F.when(
        F.coalesce(F.col("_flat._corrupt"), F.col("_envelope._corrupt")).isNotNull()
        | ~F.col("_json").startswith("{")
        | _has_more_than_an_object(F.col("value")),
        F.lit("not a JSON object"),
    ).when(F.col("_is_envelope") & op.isin(*_ROW_OPS) & image.isNull(), F.lit("the envelope has no row image"))
    return _typed(parsed, table, fields, raw=F.col("value").cast("binary"), ignored=empty, problem=problem)


def decode_rows(rows: DataFrame, table: Table, semantic_types: Mapping[str, str]) -> DataFrame:
    """Decoded changes from typed rows, such as the records of Avro object files.

    Parameters
    ----------
    rows:
        Column `event`, a struct: a Debezium envelope or an unwrapped event; and the columns of `ORIGIN`.
    semantic_types:
        Debezium's semantic type of a column, where the writer's schema names it (`connect.name`).
    """
    event = rows.schema["event"].dataType
    assert isinstance(event, T.StructType)
    names = set(event.names)
    is_envelope = {"op", "source"} <= names and bool({"before", "after"} & names)
    op = F.col("event.op") if is_envelope else _first_of(event, ("__op",), "event").value

    def row_field(name: str) -> Field:
        if not is_envelope:
            return _first_of(event, (name,), "event")
        images = [side for side in ("before", "after") if side in names]
        found = [(side, _first_of(_struct(event, side), (name,), f"event.{side}")) for side in images]
        values = dict(found)
        present = next((field for _, field in found if not isinstance(field.data_type, T.NullType)), found[0][1])
        nothing = F.lit(None).cast(present.data_type)
        before = values["before"].value if "before" in values else nothing
        after = values["after"].value if "after" in values else nothing
        return Field(F.when(op == "d", before).otherwise(after), present.data_type)

    def metadata_field(column: MetadataColumn) -> Field:
        if not is_envelope:
            return _first_of(event, column.names, "event")
        if column.envelope[0] == "source":
            return _first_of(_struct(event, "source"), (column.envelope[1],), "event.source")
        return _first_of(event, column.envelope, "event")

    fields = {}
    for declared in table.columns:
        found = row_field(declared.name)
        fields[declared.name] = Field(found.value, found.data_type, semantic_types.get(declared.name))
    for column in metadata_columns(table.options.connector):
        fields[column.name] = metadata_field(column)
    deleted = (
        Field((op == "d").cast("string"), T.StringType()) if is_envelope else _first_of(event, ("__deleted",), "event")
    )
    fields["__deleted"] = deleted
    return _typed(
        rows,
        table,
        fields,
        raw=F.to_json("event").cast("binary"),
        ignored=F.lit(False),
        problem=F.lit(None).cast("string"),
    )


def _has_more_than_an_object(text: Expression) -> Expression:
    """Whether something follows the object: `from_json` reads the first value of a text and drops the rest."""
    # Behind a closing brace a comma, another bracket or the end must come; the exact answer costs a second parse.
    suspicious = text.rlike(r"\}\s*([^\s,}\]]|,\s*\{)")
    alone = F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))) == 1
    return ~text.rlike(r"\}\s*$") | (suspicious & ~F.coalesce(alone, F.lit(False)))


def _typed(
    events: DataFrame,
    table: Table,
    fields: Mapping[str, Field],
    *,
    raw: Expression,
    ignored: Expression,
    problem: Expression,
) -> DataFrame:
    """The decoded changes: every field cast to its type, with the first thing that is wrong as `_problem`."""
    metadata = metadata_columns(table.options.connector)
    declared = {column.name: column for column in table.columns}
    untyped = events.select(
        *ORIGIN,
        raw.alias("_raw"),
        problem.alias("_malformed"),
        ignored.alias("_empty"),
        *(field.value.alias(name) for name, field in fields.items()),
    )
    wanted: dict[str, T.DataType] = {column.name: column.data_type for column in table.columns}
    wanted |= {column.name: column.data_type for column in metadata}
    wanted["__deleted"] = T.StringType()
    typed = {
        name: _cast(F.col(f"`{name}`"), fields[name], data_type, declared.get(name), table)
        for name, data_type in wanted.items()
    }
    is_deleted = F.coalesce(F.col("__deleted") == "true", F.col("__op") == "d", F.lit(False))
    problems = [F.col("_malformed"), _op_problem()]
    for name in table.key:
        problems.append(F.when(F.col(f"`{name}`").isNull(), F.lit(f"key column {name} is null")))
    problems.append(_position_problem(table))
    # PostgreSQL fills the columns of a deleted row with values that were never there (replica identity default).
    filler = is_deleted & F.lit(table.options.connector == "postgresql")
    for name, data_type in wanted.items():
        lossy = ~_is_exact(F.col(f"`{name}`"), typed[name], fields[name].data_type, data_type)
        if name in declared and name not in table.key:
            lossy = lossy & ~filler
        shown = F.concat(
            F.lit(f"column {name}: "),
            F.substring(F.col(f"`{name}`").cast("string"), 1, 100),
            F.lit(f" is not exactly a {data_type.simpleString()}"),
        )
        problems.append(F.when(lossy, shown))
    problem_found = F.when(~F.coalesce(F.col("_empty"), F.lit(False)), F.coalesce(*problems))
    return untyped.select(
        *(
            (
                typed[column.name]
                if column.name in table.key
                else F.when(filler, F.lit(None)).otherwise(typed[column.name])
            ).alias(column.name)
            for column in table.columns
        ),
        *(typed[column.name].alias(column.name) for column in metadata),
        is_deleted.cast("string").alias("__deleted"),
        *ORIGIN,
        F.when(problem_found.isNotNull(), F.col("_raw")).alias("_raw"),
        problem_found.alias("_problem"),
        (F.coalesce(F.col("_empty"), F.lit(False)) | F.coalesce(F.col("__op") == "m", F.lit(False))).alias("_ignored"),
    )


def _op_problem() -> Expression:
    op = F.col("__op")
    return F.when(
        op.isNotNull() & ~op.isin(*_ROW_OPS, "m"),
        F.concat(F.lit("op is "), op, F.lit(f", expected one of {', '.join(_ROW_OPS)}")),
    )


def _position_problem(table: Table) -> Expression:
    """A streamed change without its log position cannot be ordered; rows read by a snapshot may have none."""
    columns = POSITION_COLUMNS[table.options.connector]
    absent = F.lit(False)
    for column in columns:
        absent = absent | F.col(column.name).isNull()
    fields = ", ".join(".".join(column.envelope) for column in columns)
    return F.when(
        absent & ~F.coalesce(F.col("__op"), F.lit("u")).isin("r", "m"),
        F.lit(f"no log position: the connector's add.fields must hold {fields}"),
    )


def _cast(value: Expression, field: Field, data_type: T.DataType, column: Column | None, table: Table) -> Expression:
    """The value as the wanted type; null where it cannot be."""
    semantic_type = (column.semantic_type if column else None) or field.semantic_type
    if isinstance(data_type, T.TimestampType):
        return _timestamp(value, field.data_type, semantic_type or DEFAULT_TIMESTAMP[table.options.connector])
    if isinstance(data_type, T.DateType):
        days = F.date_add(F.lit("1970-01-01").cast("date"), value.cast("int"))
        if isinstance(field.data_type, T.IntegerType | T.LongType):
            return days
        if isinstance(field.data_type, T.StringType):
            return F.when(value.rlike(r"^-?\d+$"), days).otherwise(value.cast("date"))
    if isinstance(data_type, T.BinaryType) and isinstance(field.data_type, T.StringType):
        return F.unbase64(value)
    if isinstance(data_type, T.ArrayType) and isinstance(field.data_type, T.StringType):
        return F.from_json(value, data_type)
    return value.cast(data_type)


def _timestamp(value: Expression, found: T.DataType, semantic_type: SemanticType | str) -> Expression:
    def epoch(number: Expression) -> Expression:
        if semantic_type == "io.debezium.time.MicroTimestamp":
            return F.timestamp_micros(number)
        if semantic_type == "io.debezium.time.NanoTimestamp":
            # As decimals: nanoseconds since 1970 have more digits than a double holds.
            return F.timestamp_micros(F.floor(number.cast("decimal(20,0)") / 1000).cast("bigint"))
        return F.timestamp_millis(number)

    if isinstance(found, T.LongType | T.IntegerType):
        return epoch(value.cast("bigint"))
    if isinstance(found, T.StringType):
        return F.when(value.rlike(r"^-?\d+$"), epoch(value.cast("bigint"))).otherwise(value.cast("timestamp"))
    return value.cast("timestamp")


def _is_exact(value: Expression, typed: Expression, found: T.DataType, wanted: T.DataType) -> Expression:
    """True where nothing was lost on the way to the wanted type; nulls are exact."""
    if found == wanted or isinstance(wanted, T.StringType):
        return F.lit(True)
    both = value.isNull() | typed.isNotNull()
    if (isinstance(wanted, T.NumericType) and not isinstance(wanted, T.FractionalType | T.DecimalType)) or isinstance(
        wanted, T.DecimalType
    ):
        # 4.9 as an integer and 1.239 as a decimal(8,2) are cast without complaint: compare what came of it.
        exact = both & F.coalesce(value.cast("double") == typed.cast("double"), value.isNull() & typed.isNull())
        if isinstance(found, T.StringType):
            # A text may have more digits than a double: none may stand behind the scale, but zeros.
            scale = wanted.scale if isinstance(wanted, T.DecimalType) else 0
            fits = value.rlike(rf"^\s*[+-]?\d*(\.\d{{0,{scale}}}0*)?\s*$") | value.rlike("[eE]")
            return exact & F.coalesce(fits, F.lit(True))
        return exact
    return both


def _text_struct(names: list[str]) -> T.StructType:
    return T.StructType([T.StructField(name, T.StringType()) for name in dict.fromkeys(names)])


def _struct(event: T.StructType, name: str) -> T.StructType:
    found = event[name].dataType
    assert isinstance(found, T.StructType)
    return found


def _first_of(struct: T.StructType, names: tuple[str, ...], prefix: str) -> Field:
    for name in names:
        if name in struct.names:
            return Field(F.col(f"{prefix}.`{name}`"), struct[name].dataType)
    return Field(F.lit(None), T.NullType())
