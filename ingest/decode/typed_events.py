"""Debezium events that are typed rows, such as the records of Avro, to decoded changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from json import dumps

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.tables import Table
from ingest.decode.decoded import (
    CONTROL,
    EVENT_AS_JSON,
    IMAGES,
    MISREAD,
    ROW_OPS,
    UNLIKE,
    Part,
    decoded_changes,
    envelope_problem,
    is_control_schema,
    is_of_control,
    lacking,
)
from ingest.decode.fields import Field
from ingest.decode.record_key import RecordKeys
from ingest.schema import masking
from ingest.schema.change import MetadataColumn, metadata_columns
from ingest.schema.change import problem as problem_of
from ingest.schema.connect import DECIMAL
from ingest.schema.evolution import EventField, Reading, Version
from ingest.spark.prepared import prepared


def typed_part(
    rows: DataFrame, semantic_types: Mapping[str, str], keys: RecordKeys | None = None, form: str | None = ""
) -> Part:
    """Events that are typed rows, such as the records of Avro object files.

    Parameters
    ----------
    rows:
        Column `event`, a struct: a Debezium envelope or an unwrapped event; and the columns of `READ`. See
        `decode_rows` for further ones.
    semantic_types:
        Debezium's semantic type of a column, where the writer's schema names it (`connect.name`).
    keys:
        How the records' keys are read.
    form:
        `_form` of an event that is kept as it was read (`_value`); '' where it is kept as its row.
    """
    event = rows.schema["event"].dataType
    assert isinstance(event, T.StructType)
    image = event.fields
    if _is_envelope_type(event):
        images = [_type_of(event, side) for side in ("before", "after")]
        sides = [side.fields for side in images if isinstance(side, T.StructType)]
        image = list({item.name: item for side in sides for item in side}.values())
    fields = tuple(_event_field(item, semantic_types.get(item.name)) for item in image)
    is_control = any(is_of_control(set(event.names), fields) for fields in CONTROL)

    def decode(table: Table, reading: Reading) -> DataFrame:
        def decode_frame(frame: DataFrame) -> DataFrame:
            return decode_rows(frame, table, semantic_types, reading, keys=keys, form=form)

        made_of = (dict(semantic_types), table, reading, keys, form)
        return prepared(rows, f"typed events of {table.relation}", made_of, decode_frame)

    return Part(Version((), whole=False) if is_control else Version(fields), decode)


def _event_field(item: T.StructField, meaning: str | None) -> EventField:
    """A field of the row, with the type that its values have where the schema says more than how they are written."""
    name, *parameters = (meaning or "").split(";")
    known = dict(part.split("=", 1) for part in parameters)
    if name == DECIMAL and isinstance(item.dataType, T.StringType) and 0 < int(known.get("precision", 0)) <= 38:
        return EventField(item.name, T.DecimalType(int(known["precision"]), int(known.get("scale", 0))), meaning)
    return EventField(item.name, item.dataType, meaning)


def decode_rows(
    rows: DataFrame,
    table: Table,
    semantic_types: Mapping[str, str],
    reading: Reading | None = None,
    *,
    keys: RecordKeys | None = None,
    form: str | None = "",
) -> DataFrame:
    """Decoded changes from typed rows, such as the records of Avro object files.

    Parameters
    ----------
    rows:
        Column `event`, a struct: a Debezium envelope or an unwrapped event; and the columns of `READ`. Of records:
        `_value`, the value as it was, null for a tombstone; and `_unlike`, where some may not be of the form of the
        examples: true for those (`MISREAD`). Of JSON texts: `_json`, the event's text; `_nothing`, whether there is
        none; `_malformed`, what keeps the text from being read.
    semantic_types:
        Debezium's semantic type of a column, where the writer's schema names it (`connect.name`).
    reading:
        What the schema policy makes of the fields.
    keys, form:
        See `typed_part`.
    """
    reading = reading or Reading()
    event = rows.schema["event"].dataType
    assert isinstance(event, T.StructType)
    names = set(event.names)
    is_envelope = _is_envelope_type(event)
    sides = [side for side in ("before", "after") if is_envelope and isinstance(_type_of(event, side), T.StructType)]
    op = F.col("event.op") if is_envelope else _first_of(event, ("__op",), "event").value

    def row_field(name: str) -> Field:
        if not is_envelope:
            return _first_of(event, (name,), "event")
        found = [(side, _first_of(_struct(event, side), (name,), f"event.{side}")) for side in sides]
        if not found:
            return Field(F.lit(None), T.NullType())
        values = dict(found)
        present = next((field for _, field in found if not isinstance(field.data_type, T.NullType)), found[0][1])
        nothing = F.lit(None).cast(present.data_type)
        before = values["before"].value if "before" in values else nothing
        after = values["after"].value if "after" in values else nothing
        return Field(F.when(op == "d", before).otherwise(after), present.data_type)

    def metadata_field(column: MetadataColumn) -> Field:
        if not is_envelope:
            return _first_of(event, column.names, "event")
        block, *inner = column.envelope
        if inner and isinstance(_first_of(event, (block,), "event").data_type, T.StructType):
            return _first_of(_struct(event, block), tuple(inner), f"event.{block}")
        return Field(F.lit(None), T.NullType()) if inner else _first_of(event, (block,), "event")

    fields = {}
    for declared in table.columns:
        name = reading.names.get(declared.name, declared.name)
        found = Field(F.lit(None), T.NullType()) if name in reading.refused else row_field(name)
        is_number = None
        if "_json" in rows.columns and semantic_types.get(name, "").startswith(DECIMAL):
            is_number = ~F.col("_json").rlike(rf'"{re.escape(name)}"\s*:\s*"')
        fields[declared.name] = Field(
            found.value, found.data_type, semantic_types.get(name), in_json=False, is_number=is_number
        )
    for column in metadata_columns(table):
        fields[column.name] = metadata_field(column)
    deleted = (
        Field((op == "d").cast("string"), T.StringType()) if is_envelope else _first_of(event, ("__deleted",), "event")
    )
    fields["__deleted"] = deleted
    is_update = F.coalesce(op == "u", F.lit(True))
    checks = [F.col("_malformed")] if "_malformed" in rows.columns else []
    if is_envelope:
        has_no_row = F.lit(not sides)
        for side in sides:
            chosen = op == "d" if side == "before" else op != "d"
            has_no_row = F.when(chosen, F.col(f"event.{side}").isNull()).otherwise(has_no_row)
        checks.append(envelope_problem(op, has_no_row, table))
    checks += [
        F.when(row_field(name).value.isNotNull(), problem_of("schema_policy", reason))
        for name, reason in reading.refused.items()
    ]
    has_row = ~F.coalesce(op, F.lit("")).isin("d", "t", "m")
    checks += [F.when(has_row, problem_of("schema_policy", lacking(name))) for name in reading.required]
    tombstone = F.lit(False)
    if "_nothing" in rows.columns:
        tombstone = F.col("_nothing")
    elif "_value" in rows.columns:
        tombstone = F.col("_value").isNull()
    ignored = F.lit(is_control_schema(names, table)) | tombstone
    if UNLIKE in rows.columns:
        checks.insert(0, F.when(F.col(UNLIKE), F.lit(MISREAD)))
    as_row = dumps({"type": event.jsonValue(), "semantic_types": dict(semantic_types)})
    return decoded_changes(
        rows,
        table,
        fields,
        keys=keys,
        raw=F.col("_value") if "_value" in rows.columns else F.to_json("event", EVENT_AS_JSON).cast("binary"),
        ignored=ignored,
        tombstone=tombstone,
        problem=F.coalesce(*checks, F.lit(None).cast("string")),
        says_deletes=op.isin(*ROW_OPS) if is_envelope else deleted.value.isNotNull() | (op == "d"),
        is_envelope=is_envelope,
        # What is left of a masked event is not what was read any more.
        form=as_row if form == "" or table.is_masked else form,
        absent={name: is_update for name in (column.name for column in table.columns)
                if isinstance(fields[name].data_type, T.NullType)},
        optional={column.name for column in table.columns},
        unreadable=masking.all_null([field.value for field in fields.values()]) if table.is_masked else F.lit(False),
        further={name: row_field(name) for name in reading.refused},
    )  # fmt: skip


def _is_envelope_type(event: T.StructType) -> bool:
    names = set(event.names)
    return {"op", "source"} <= names and bool(set(IMAGES) & names)


def _type_of(event: T.StructType, name: str) -> T.DataType | None:
    return event[name].dataType if name in event.names else None


def _struct(event: T.StructType, name: str) -> T.StructType:
    found = event[name].dataType
    assert isinstance(found, T.StructType)
    return found


def _first_of(struct: T.StructType, names: tuple[str, ...], prefix: str) -> Field:
    for name in names:
        if name in struct.names:
            return Field(F.col(f"{prefix}.`{name}`"), struct[name].dataType)
    return Field(F.lit(None), T.NullType())
