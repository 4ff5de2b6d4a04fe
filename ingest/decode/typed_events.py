"""Debezium events that are typed rows, such as the records of Avro, to decoded changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from json import dumps

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.connectors import MetadataColumn
from ingest.config.tables import Table
from ingest.decode.control import CONTROL, is_control_schema
from ingest.decode.decoded import (
    IMAGES,
    MEMBERS,
    MISREAD,
    OBJECTS,
    UNLIKE,
    Outline,
    Part,
    decoded_changes,
)
from ingest.decode.event_problems import ROW_OPS, envelope_problem, lacking, moved_problem
from ingest.decode.fields import DIGITS_OF_DECIMAL, EVENT_AS_JSON, Field, is_text, quoted
from ingest.decode.foreign import foreign_of
from ingest.decode.record_key import RecordKeys
from ingest.schema import masking
from ingest.schema.change import metadata_columns
from ingest.schema.change import problem as problem_of
from ingest.schema.connect import DECIMAL
from ingest.schema.evolution import EventField, Reading, Version
from ingest.spark.prepared import prepared

# The name of a column that is a member of an event begins so (`members`).
_MEMBER = "event."


def typed_part(
    rows: DataFrame,
    semantic_types: Mapping[str, str],
    keys: RecordKeys | None = None,
    form: str | None = "",
    default: frozenset[str] = frozenset(),
) -> Part:
    """Events that are typed rows, such as the records of Avro object files and the rows of Parquet.

    Parameters
    ----------
    rows:
        A Debezium envelope or an unwrapped event: column `event`, a struct, or its members (`members`); and the columns
        of `READ`. See `decode_rows` for further ones.
    semantic_types:
        Debezium's semantic type of a column, where the writer's schema names it (`connect.name`).
    keys:
        How the records' keys are read.
    form:
        `_lake_form` of an event that is kept as it was read (`_lake_value`); '' where it is kept as its row.
    default:
        The fields that may be null, and have a default in the schema.
    """
    event = event_type(rows)
    image = event.fields
    is_envelope = is_envelope_type(event)
    if is_envelope:
        images = [_type_of(event, side) for side in ("before", "after")]
        sides = [side.fields for side in images if isinstance(side, T.StructType)]
        image = list({item.name: item for side in sides for item in side}.values())
    fields = tuple(_event_field(item, semantic_types.get(item.name)) for item in image)
    is_control = any(control.describes(set(event.names)) for control in CONTROL)

    def decode(table: Table, reading: Reading) -> DataFrame:
        def decode_frame(frame: DataFrame) -> DataFrame:
            return decode_rows(frame, table, semantic_types, reading, keys=keys, form=form)

        made_of = (dict(semantic_types), table, reading, keys, form)
        return prepared(rows, f"typed events of {table.relation}", made_of, decode_frame)

    version = Version(fields, has_metadata=not is_envelope, default=default)
    return Part(Version((), whole=False) if is_control else version, decode)


def _event_field(item: T.StructField, meaning: str | None) -> EventField:
    """A field of the row, with the type that its values have where the schema says more than how they are written."""
    name, *parameters = (meaning or "").split(";")
    known = dict(part.split("=", 1) for part in parameters)
    precision, scale = int(known.get("precision", 0)), int(known.get("scale", 0))
    # PostgreSQL's numeric(3,5) has more digits behind the point than digits, its numeric(3,-2) zeros before it.
    digits = max(precision, scale) - min(scale, 0)
    is_coded = name == DECIMAL and isinstance(item.dataType, T.StringType | T.BinaryType)
    if is_coded and precision > 0 and digits <= DIGITS_OF_DECIMAL:
        return EventField(item.name, T.DecimalType(digits, max(scale, 0)), meaning)
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
        A Debezium envelope or an unwrapped event: column `event`, a struct, or its members (`members`); and the columns
        of `READ`. Of records: `_lake_value`, the value as it was, null for a tombstone; and `_lake_unlike`, where some
        may not be of the form of the examples: true for those (`MISREAD`). Of JSON texts: `_lake_json`, the event's
        text; `_lake_nothing`, whether there is none; `_lake_malformed`, what keeps the text from being read.
    semantic_types:
        Debezium's semantic type of a column, where the writer's schema names it (`connect.name`).
    reading:
        What the schema policy makes of the fields.
    keys, form:
        See `typed_part`.
    """
    reading = reading or Reading()
    event = event_type(rows)
    is_one_column = "event" in rows.columns
    row = _Envelope(event, is_one_column) if is_envelope_type(event) else _Row(event, is_one_column)
    fields = {column.name: _field_of(column.name, row, rows, reading, semantic_types) for column in table.columns}
    fields |= {column.name: row.metadata(column) for column in metadata_columns(table)}
    fields["__deleted"] = row.deleted
    tombstone = F.lit(False)
    if "_lake_nothing" in rows.columns:
        tombstone = F.col("_lake_nothing")
    elif "_lake_value" in rows.columns:
        tombstone = F.col("_lake_value").isNull()
    as_row = dumps({"type": event.jsonValue(), "semantic_types": dict(semantic_types)})
    is_update = F.coalesce(row.op == "u", F.lit(True))
    outline = Outline(
        fields=fields,
        raw=F.col("_lake_value") if "_lake_value" in rows.columns else row.text_of_all().cast("binary"),
        ignored=F.lit(is_control_schema(set(event.names), table)) | tombstone,
        tombstone=tombstone,
        problem=_problem(row, rows, table, reading),
        says_deletes=row.says_deletes,
        is_envelope=isinstance(row, _Envelope),
        absent={name: is_update for name in (column.name for column in table.columns)
                if isinstance(fields[name].data_type, T.NullType)},
        unreadable=masking.all_null([field.value for field in fields.values()]) if table.is_masked else F.lit(False),
        further={name: row.field(name) for name in reading.refused},
        keys=keys or RecordKeys(),
        # What is left of a masked event is not what was read any more.
        form=as_row if form == "" or table.is_masked else form,
        optional={column.name for column in table.columns},
    )  # fmt: skip
    return decoded_changes(rows, table, outline)


def _field_of(column: str, row: _Row, rows: DataFrame, reading: Reading, semantic_types: Mapping[str, str]) -> Field:
    """The value of a declared column: null where the event has no such field, or none that is read."""
    name = reading.names.get(column, column)
    found = _no_field() if name in reading.refused else row.field(name)
    is_number = None
    if "_lake_json" in rows.columns and semantic_types.get(name, "").startswith(DECIMAL):
        is_number = ~is_text(row.text(F.col("_lake_json"), name), name)
    return Field(found.value, found.data_type, semantic_types.get(name), in_json=False, is_number=is_number)


def _problem(row: _Row, rows: DataFrame, table: Table, reading: Reading) -> Expression:
    """What keeps an event from being decoded: the first of these, or null."""
    has_row = ~F.coalesce(row.op, F.lit("")).isin("d", "t", "m")
    foreign = foreign_of(set(row.event.names), table)
    return F.coalesce(
        *([F.when(F.col(UNLIKE), F.lit(MISREAD))] if UNLIKE in rows.columns else []),
        *([F.col("_lake_malformed")] if "_lake_malformed" in rows.columns else []),
        *([problem_of("not_an_event", foreign.told)] if foreign else []),
        *row.problems(table),
        *(
            F.when(row.field(name).value.isNotNull(), problem_of("schema_policy", reason))
            for name, reason in reading.refused.items()
        ),
        *(F.when(has_row, problem_of("schema_policy", lacking(name))) for name in reading.required),
        F.lit(None).cast("string"),
    )


@dataclass(frozen=True)
class _Row:
    """Where the fields of an unwrapped event stand: in its struct, or as columns of their own (`members`)."""

    event: T.StructType
    is_one_column: bool

    @cached_property
    def op(self) -> Expression:
        return self._first_of(("__op",)).value

    @property
    def deleted(self) -> Field:
        return self._first_of(("__deleted",))

    @property
    def says_deletes(self) -> Expression:
        return self.deleted.value.isNotNull() | (self.op == "d")

    def field(self, name: str) -> Field:
        """A column of the row."""
        return self._first_of((name,))

    def text(self, json: Expression, name: str) -> Expression:
        """What of the event's JSON text has a field of that name once: the row's."""
        return json

    def text_of_all(self) -> Expression:
        """The event as a JSON text."""
        if self.is_one_column:
            return F.to_json("event", EVENT_AS_JSON)
        return F.to_json(F.struct(*(self._at(name).alias(name) for name in self.event.names)), EVENT_AS_JSON)

    def metadata(self, column: MetadataColumn) -> Field:
        return self._first_of(column.names)

    def problems(self, table: Table) -> list[Expression]:
        """What the event lacks."""
        return []

    def _at(self, member: str, *within: str) -> Expression:
        """The value of a member of the event, or of a field within it."""
        first = f"event.{quoted(member)}" if self.is_one_column else quoted(_MEMBER + member)
        return F.col(".".join((first, *map(quoted, within))))

    def _first_of(self, names: tuple[str, ...], member: str | None = None) -> Field:
        """The first of these fields that there is, of the event or of a member of it."""
        struct = self.event if member is None else _struct(self.event, member)
        for name in names:
            if name in struct.names:
                return Field(self._at(*((name,) if member is None else (member, name))), struct[name].dataType)
        return _no_field()


class _Envelope(_Row):
    """The same of an envelope, of which a delete has its row before the change, and any other change after it."""

    @cached_property
    def sides(self) -> list[str]:
        """The images of the row that its schema has."""
        return [side for side in ("before", "after") if isinstance(_type_of(self.event, side), T.StructType)]

    @cached_property
    def op(self) -> Expression:
        return self._at("op")

    @property
    def deleted(self) -> Field:
        return Field((self.op == "d").cast("string"), T.StringType())

    @property
    def says_deletes(self) -> Expression:
        return self.op.isin(*ROW_OPS)

    def field(self, name: str) -> Field:
        values = {side: self._first_of((name,), side) for side in self.sides}
        if not any(name in _struct(self.event, side).names for side in self.sides):
            # Beside the images, where a transform may have put it, such as InsertField.
            return _no_field() if name in MEMBERS else self._first_of((name,))
        found = list(values.values())
        present = next((field for field in found if not isinstance(field.data_type, T.NullType)), found[0])
        nothing = F.lit(None).cast(present.data_type)
        before = values["before"].value if "before" in values else nothing
        after = values["after"].value if "after" in values else nothing
        return Field(F.when(self.op == "d", before).otherwise(after), present.data_type)

    def text(self, json: Expression, name: str) -> Expression:
        if not any(name in _struct(self.event, side).names for side in self.sides):
            return json
        before, after = (F.get_json_object(json, f"$.{side}") for side in ("before", "after"))
        return F.when(self.op == "d", before).otherwise(after)

    def metadata(self, column: MetadataColumn) -> Field:
        block, *inner = column.envelope
        if inner and isinstance(self._first_of((block,)).data_type, T.StructType):
            return self._first_of(tuple(inner), block)
        return _no_field() if inner else self._first_of((block,))

    def problems(self, table: Table) -> list[Expression]:
        has_no_row = F.lit(not self.sides)
        for side in self.sides:
            chosen = self.op == "d" if side == "before" else self.op != "d"
            has_no_row = F.when(chosen, self._at(side).isNull()).otherwise(has_no_row)
        images = [_struct(self.event, side) for side in self.sides]
        keyed = [name for name in table.key if len(images) > 1 and all(_has_once(image, name) for image in images)]
        former, later = ({name: self._at(side, name) for name in keyed} for side in IMAGES[:2])
        moved = [moved_problem(self.op, former, later)] if keyed else []
        return [envelope_problem(self.op, has_no_row, table), *moved]


def members(rows: DataFrame) -> list[Expression]:
    """The columns of a file's rows as the members of an event each, by names that no other column has.

    They are no struct, as those of a record's value are: Spark's optimizer puts the whole struct in the place of each
    field that is asked for, and takes it out again: a third of the time of a small batch (bench/results/demo.md).
    """
    return [F.col(quoted(name)).alias(_MEMBER + name) for name in rows.columns]


def event_type(rows: DataFrame) -> T.StructType:
    """What the fields of an event are, of rows of either kind (`typed_part`)."""
    if "event" not in rows.columns:
        own = [item for item in rows.schema if item.name.startswith(_MEMBER)]
        return T.StructType([T.StructField(item.name.removeprefix(_MEMBER), item.dataType) for item in own])
    event = rows.schema["event"].dataType
    assert isinstance(event, T.StructType)
    return event


def is_envelope_type(event: T.StructType) -> bool:
    """Whether a row has the columns of Debezium's envelope, and none that the unwrap transform gives one.

    An envelope's `source` or image is an object: a table may have columns of all these names, which are texts.
    """
    names = set(event.names)
    is_flat = bool({"__op", "__deleted"} & names)
    has_objects = any(isinstance(_type_of(event, name), T.StructType | T.MapType) for name in OBJECTS)
    has_members = {"op", "source"} <= names and (bool(set(IMAGES) & names) or names <= MEMBERS)
    return not is_flat and has_members and has_objects


def _type_of(event: T.StructType, name: str) -> T.DataType | None:
    return event[name].dataType if name in event.names else None


def _has_once(image: T.StructType, name: str) -> bool:
    """Whether an image has the column, and no other one whose name differs by case alone: both are one to Spark."""
    return name in image.names and [each.lower() for each in image.names].count(name.lower()) == 1


def _struct(event: T.StructType, name: str) -> T.StructType:
    found = event[name].dataType
    assert isinstance(found, T.StructType)
    return found


def _no_field() -> Field:
    return Field(F.lit(None), T.NullType())
