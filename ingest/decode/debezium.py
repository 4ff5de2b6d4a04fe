"""Debezium events to decoded changes: envelopes and unwrapped events, text or typed, as DataFrame steps.

Sources of the rules: Debezium's documentation of the event envelope, of the ExtractNewRecordState transform and of the
data type mappings of each connector; the captures in ../shared/data/debezium-captures.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial, reduce
from json import dumps, loads

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest import policies
from ingest.declaration import Table
from ingest.decode.columns import (
    OPTIONAL,
    ORIGIN,
    POSITION_COLUMNS,
    UNAVAILABLE_SEPARATOR,
    UNAVAILABLE_VALUE,
    MetadataColumn,
    metadata_columns,
)
from ingest.decode.flat import IS_CUT, FlatForm, value_column
from ingest.decode.types import BITS, Converted, Field, converted
from ingest.plan import EventField, Reading, Version
from ingest.session import java_class

# How a typed event is kept as text: exact to the microsecond.
EVENT_AS_JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
# Ops that carry a row.
_ROW_OPS = ("c", "u", "d", "r")
# 't' is a truncate, 'm' a logical decoding message: neither carries a row.
_OPS = (*_ROW_OPS, "t", "m")
_ROWLESS = r'"(__)?op"\s*:\s*"[dtm]"'


# `_problem` of an event that is not written as the examples of its batch are: the batch has to be read exactly.
MISREAD = "not of the form of the events before it"
# Whether a record's value is not of the kind that those of the first records are, where that was not looked at before.
UNLIKE = "_unlike"


@dataclass(frozen=True)
class Part:
    """Events that were written with one schema, not decoded yet: the fields they have, and how they are decoded."""

    version: Version
    decode: Callable[[Table, Reading], DataFrame]


def json_part(
    lines: DataFrame, table: Table, *, thorough: bool = False, by_examples: bool = False, events: int = 0
) -> Part:
    """Events that are JSON texts: envelopes and unwrapped events, each with or without Kafka Connect's {"schema",
    "payload"} around it.

    A first look at the texts, which only searches them, finds what they hold; expressions for what they do not hold
    would cost more to plan than a small batch to land. Where flat events are all alike, as they mostly are, a few
    examples show as much.

    Parameters
    ----------
    lines:
        Columns `value` string and those of `ORIGIN`; `_unlike` as in `decode_rows`.
    table:
        With the columns that are known: the others are looked for, but for those that the policy leaves out.
    thorough:
        Look for every difference, also for those that the policy passes over.
    by_examples:
        Trust the first events: an event of another form is `MISREAD` then, and the part has to be made without this.
    events:
        About how many there are. Of many that are alike the texts are cut, where they can be (`ingest.decode.flat`).
    """
    seen = _Seen.in_examples(lines, table, events) if by_examples and not table.is_masked else None
    seen = seen or _Seen.in_texts(lines, table, thorough=thorough)
    fields = _unknown_fields(lines, table) if seen.unknown else ()
    return Part(Version(fields, whole=False, lacks=seen.lacks), partial(_decode_json, lines, seen))


def typed_part(rows: DataFrame, semantic_types: Mapping[str, str]) -> Part:
    """Events that are typed rows, such as the records of Avro object files.

    Parameters
    ----------
    rows:
        Column `event`, a struct: a Debezium envelope or an unwrapped event; and the columns of `ORIGIN`.
    semantic_types:
        Debezium's semantic type of a column, where the writer's schema names it (`connect.name`).
    """
    event = rows.schema["event"].dataType
    assert isinstance(event, T.StructType)
    image = event.fields
    if _is_envelope_type(event):
        sides = [_struct(event, side).fields for side in ("before", "after") if side in event.names]
        image = list({item.name: item for side in sides for item in side}.values())
    fields = tuple(EventField(item.name, item.dataType, semantic_types.get(item.name)) for item in image)
    is_control = is_control_schema(set(event.names))

    def decode(table: Table, reading: Reading) -> DataFrame:
        return decode_rows(rows, table, semantic_types, reading)

    return Part(Version((), whole=False) if is_control else Version(fields), decode)


def _decode_json(lines: DataFrame, seen: _Seen, table: Table, reading: Reading) -> DataFrame:
    bodies = lines.withColumn("_json", F.trim(_payload() if seen.wrapped else F.col("value")))
    if seen.enveloped and seen.unwrapped:
        sorted_out = bodies.withColumn("_is_envelope", _is_envelope(F.col("_json")))
        enveloped, unwrapped = sorted_out.where("_is_envelope"), sorted_out.where("not _is_envelope")
        whole = _decode_enveloped(enveloped, table, seen, reading)
        return whole.unionByName(_decode_unwrapped(unwrapped, table, seen, reading))
    decode = _decode_enveloped if seen.enveloped else _decode_unwrapped
    return decode(bodies, table, seen, reading)


# Texts that mean no change: tombstones, empty lines.
_NOTHING = ("", "null")
# So many events are taken for examples of a batch.
_EXAMPLES = 20
# From so many events on, cutting their texts saves more than its expressions take to plan: 12 µs an event, and half a
# second, on two cores (docs/performance.md).
_MANY = 50_000
# More forms of events than this in a batch are not told apart one by one.
_MOST_FORMS = 1000


@dataclass(frozen=True)
class _Seen:
    """What a batch of JSON texts holds: whole envelopes, unwrapped events, {"schema", "payload"} around them.

    `nested`: objects within the events, or something behind them; `placeholder`: values that PostgreSQL's log lacks;
    `control`: heartbeats, transaction markers, schema changes; `unknown`: keys of rows that are no columns;
    `partial`: columns whose key some row lacks; `lacks`: those of them that a create, update or read lacks;
    `keys`: all keys of unwrapped events, where they were counted; `alike`: the lists of keys of which each event must
    have one, where the rest was seen in examples; `written`: how these write the values of some keys; `flat`: how they
    are written altogether, where that is simple enough to be cut.
    """

    wrapped: bool
    enveloped: bool
    unwrapped: bool
    nested: bool
    placeholder: bool
    control: bool
    unknown: bool
    partial: frozenset[str]
    lacks: tuple[str, ...]
    keys: frozenset[str] | None = None
    alike: tuple[tuple[str, ...], ...] = ()
    written: Mapping[str, T.DataType] = field(default_factory=dict)
    flat: FlatForm | None = None

    @classmethod
    def in_examples(cls, lines: DataFrame, table: Table, number: int) -> _Seen | None:
        """What the first events say of that many; None where they are not flat, unwrapped and complete."""
        found = [text or "" for (text,) in lines.select("value").limit(_EXAMPLES).collect()]
        texts = [text for text in found if text.strip() not in _NOTHING]
        try:
            events = [loads(text) for text in texts]
        except ValueError:
            return None
        columns = {column.name for column in table.columns}
        known = columns | set(table.excluded)
        passes_over = table.options.schema_policy.add == "keep"

        def is_usual(event: object, text: str) -> bool:
            if not isinstance(event, dict) or not columns <= event.keys() or is_control_schema(set(event)):
                return False
            more = any(name not in known and not name.startswith("__") for name in event)
            is_flat = text.find("}") == len(text) - 1
            return is_flat and (passes_over or not more) and not any(mark in text for mark in _placeholders(table))

        if not events or not all(is_usual(event, text) for event, text in zip(events, texts, strict=True)):
            return None
        forms = tuple(dict.fromkeys(tuple(event) for event in events))
        return cls(
            wrapped=False,
            enveloped=False,
            unwrapped=True,
            nested=False,
            placeholder=False,
            control=False,
            unknown=False,
            partial=frozenset(),
            lacks=(),
            keys=frozenset(key for form in forms for key in form),
            alike=forms,
            written=_written(events),
            flat=FlatForm.of(texts) if number >= _MANY else None,
        )

    @classmethod
    def in_texts(cls, lines: DataFrame, table: Table, *, thorough: bool) -> _Seen:
        """Finds the forms of the events: the keys of the text, of its payload and of its row. They are few."""
        policy = table.options.schema_policy
        looks_for_more = thorough or policy.add != "keep"
        looks_for_all = thorough or policy.drop != "keep"
        text = F.coalesce("value", F.lit(""))
        keys, wrapped, enveloped = F.col("keys"), F.col("wrapped"), F.col("enveloped")
        body = F.when(wrapped, F.get_json_object("text", "$.payload")).otherwise(F.col("text"))
        is_row_of = F.array_contains(keys, "op") & F.array_contains(keys, "source")
        has_image = F.array_contains(keys, "after") | F.array_contains(keys, "before")
        flat = F.array_contains(keys, "__op") | F.array_contains(keys, "__deleted")
        payload = F.array(F.lit("payload"))
        with_schema = [F.array(F.lit("schema"), F.lit("payload")), F.array(F.lit("payload"), F.lit("schema"))]
        read = (
            lines.select(text.alias("text"), F.json_object_keys(text).alias("outer"))
            .withColumn("wrapped", F.coalesce(F.col("outer").isin(payload, *with_schema), F.lit(False)))
            .withColumn("keys", F.when(wrapped, F.json_object_keys(body)).otherwise(F.col("outer")))
            .withColumn("enveloped", F.coalesce(is_row_of & has_image & ~flat, F.lit(False)))
        )
        forms = read.groupBy(
            "wrapped",
            "enveloped",
            keys,
            F.when(enveloped, F.json_object_keys(F.get_json_object(body, "$.after"))).alias("image"),
            (F.col("text").rlike(_ROWLESS) if looks_for_all else F.lit(False)).alias("rowless"),
        ).agg(
            F.bool_or(~_ends_at_first_brace(F.col("text"))).alias("nested"),
            F.bool_or(_has_placeholder(F.col("text"), table)).alias("placeholder"),
        )
        found = forms.limit(_MOST_FORMS + 1).collect()
        many = len(found) > _MOST_FORMS

        def is_control(form: Row) -> bool:
            of_no_row = is_control_schema(set(form["keys"] or ())) and not _wants_control(table)
            return of_no_row and not form["enveloped"]

        of_rows = [form for form in found if form["keys"] is not None and not is_control(form)]
        keyed = [(form, form["image"] if form["enveloped"] else form["keys"]) for form in of_rows]
        images = [set(names) for _, names in keyed if names is not None]
        whole = [set(names or ()) for form, names in keyed if not form["rowless"]]
        columns = [column.name for column in table.columns]
        known = {*columns, *table.excluded}
        rows = [names for names in images if not table.key or names & set(table.key)]
        more = any(name not in known and not name.startswith("__") for names in rows for name in names)
        flat_forms = [form for form in found if not form["enveloped"]]
        lacks = [name for name in columns if many or any(name not in names for names in whole)]
        return cls(
            wrapped=many or any(form["wrapped"] for form in found),
            enveloped=many or any(form["enveloped"] for form in found),
            unwrapped=many or not all(form["enveloped"] for form in found),
            nested=many or any(form["nested"] for form in found),
            placeholder=many or any(form["placeholder"] for form in found),
            control=(many and not _wants_control(table)) or any(is_control(form) for form in found),
            unknown=looks_for_more and (many or more),
            partial=frozenset(name for name in columns if many or any(name not in names for names in images)),
            lacks=tuple(lacks) if looks_for_all else (),
            keys=None if many else frozenset(key for form in flat_forms for key in form["keys"] or ()),
        )


def _written(events: Sequence[Mapping[str, object]]) -> Mapping[str, T.DataType]:
    """How events write the values of their keys: as whole numbers, or as true and false.

    Spark reads these faster as what they are than as text (docs/performance.md). A fraction is not among them: its
    text is exact, the double that it would be read as is not.
    """
    kinds: dict[str, set[type]] = {}
    for event in events:
        for name, value in event.items():
            if value is not None:
                fits = not isinstance(value, int) or -(2**63) <= value < 2**63
                kinds.setdefault(name, set()).add(type(value) if fits else str)
    whole = {name: T.LongType() for name, found in kinds.items() if found == {int}}
    return whole | {name: T.BooleanType() for name, found in kinds.items() if found == {bool}}


def _ends_at_first_brace(text: Expression) -> Expression:
    """Whether a text's first closing brace is its end: a flat object, and nothing behind it."""
    return F.octet_length(F.substring_index(text, "}", 1)) + 1 == F.octet_length(text)


def _has_placeholder(text: Expression, table: Table) -> Expression:
    """Whether a text may hold a value that PostgreSQL's log lacks."""
    return reduce(lambda left, right: left | right, map(text.contains, _placeholders(table)), F.lit(False))


def _placeholders(table: Table) -> tuple[str, ...]:
    """What the text of an event holds where Debezium has no value: the placeholder, as text, base64 or numbers."""
    if table.options.connector != "postgresql":
        return ()
    encoded = base64.b64encode(UNAVAILABLE_VALUE.encode()).decode()
    numbers = dumps([int(byte) for byte in UNAVAILABLE_VALUE.encode()], separators=(",", ":"))
    return (UNAVAILABLE_VALUE, encoded, numbers[1:-1])


def _unknown_fields(lines: DataFrame, table: Table) -> tuple[EventField, ...]:
    """The keys of rows in JSON events that are no columns and have a value somewhere, with the type Spark infers.

    An event without the table's key says nothing of its columns.
    """
    body = F.trim(_payload())
    row = F.when(_is_envelope(body), F.get_json_object(body, "$.after")).otherwise(F.when(~_is_control(body), body))
    known = F.array(*(F.lit(name) for name in (*(column.name for column in table.columns), *table.excluded)))
    more = F.filter(F.array_except(F.json_object_keys("row"), known), lambda name: ~name.startswith("__"))
    suspects = lines.select(row.alias("row")).where(F.size(more) > 0)
    keyed = [F.element_at("keys", name).isNotNull() for name in table.key]
    is_row = reduce(lambda left, right: left | right, keyed) if keyed else F.lit(True)
    valued = F.map_keys(F.map_filter("keys", lambda key, value: value.isNotNull() & ~key.startswith("__")))
    keys = F.from_json("row", "map<string,string>").alias("keys")
    unknown = suspects.select("row", keys).where(is_row).withColumn("unknown", F.array_except(valued, known))
    rows = unknown.where(F.size("unknown") > 0).select("row")
    names = {found["name"] for found in unknown.select(F.explode("unknown").alias("name")).distinct().collect()}
    if not names:
        return ()
    session = lines.sparkSession
    encoders = java_class(session, "org.apache.spark.sql.Encoders")
    texts = getattr(rows._jdf, "as")(encoders.STRING())
    inferred = T.StructType.fromJson(loads(session._jsparkSession.read().json(texts).schema().json()))
    return tuple(EventField(item.name, item.dataType) for item in inferred if item.name in names)


def _is_wrapped(text: Expression) -> Expression:
    return _has_key(text, "payload") & text.rlike(r'^\s*\{\s*"(schema|payload)"\s*:')


def _payload() -> Expression:
    text = F.col("value")
    return F.when(_is_wrapped(text), F.get_json_object(text, "$.payload")).otherwise(text)


def _is_envelope(json: Expression) -> Expression:
    # A JSON text cannot hold an unescaped quote, so these patterns match keys only.
    return (
        _has_key(json, "op")
        & _has_key(json, "source")
        & (_has_key(json, "after") | _has_key(json, "before"))
        & ~_has_key(json, "__op")
        & ~_has_key(json, "__deleted")
    )


def _parsed(bodies: DataFrame, struct: T.StructType) -> DataFrame:
    """Adds `_event`, the text as a struct, with what could not be read as `_corrupt`; null where the text was cut."""
    schema = T.StructType([*struct.fields, T.StructField("_corrupt", T.StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    text = F.when(~F.col(IS_CUT), F.col("_json")) if IS_CUT in bodies.columns else F.col("_json")
    return bodies.withColumn("_event", F.from_json(text, schema, options))


def _decode_unwrapped(bodies: DataFrame, table: Table, seen: _Seen, reading: Reading) -> DataFrame:
    columns = [column.name for column in table.columns]
    metadata = metadata_columns(table)
    written = _written_types(table, seen)
    names = [*columns, *(name for column in metadata for name in column.names), "__deleted"]
    known = [name for name in names if seen.keys is None or name in seen.keys]
    struct = _struct_of(known, written)
    if seen.flat:
        bodies = seen.flat.cut(bodies, {item.name: item.dataType for item in struct})
    parsed = _parsed(bodies, struct)

    def member(name: str) -> Expression:
        by_parser = F.col(f"_event.`{name}`")
        return F.when(F.col(IS_CUT), F.col(f"`{value_column(name)}`")).otherwise(by_parser) if seen.flat else by_parser

    def value(*names: str) -> Field:
        found = [name for name in names if name in known]
        if not found:
            return Field(F.lit(None).cast("string"), T.StringType(), nested=seen.nested)
        values, types = [member(name) for name in found], {written.get(name) for name in found}
        if len(found) == 1:
            return Field(values[0], written.get(found[0], T.StringType()), nested=seen.nested)
        only = types.pop() if len(types) == 1 else None
        texts = values if only else [item.cast("string") for item in values]
        return Field(F.coalesce(*texts), only or T.StringType(), nested=seen.nested)

    fields = {name: value(name) for name in columns}
    fields |= {column.name: value(*column.names) for column in metadata}
    fields["__deleted"] = value("__deleted")
    return _typed_json(parsed, table, fields, seen, reading, within="$", no_row=F.lit(False))


def _decode_enveloped(bodies: DataFrame, table: Table, seen: _Seen, reading: Reading) -> DataFrame:
    columns = [column.name for column in table.columns]
    metadata = metadata_columns(table)
    row = _struct_of(columns)
    blocks = dict.fromkeys(column.envelope[0] for column in metadata if len(column.envelope) > 1)
    envelope = [
        T.StructField("before", row),
        T.StructField("after", row),
        *(T.StructField(block, _struct_of([c.envelope[1] for c in metadata if c.envelope[0] == block]))
          for block in blocks),
        T.StructField("op", T.StringType()),
    ]  # fmt: skip
    op = F.col("_event.op")
    parsed = _parsed(bodies, T.StructType(envelope)).withColumn(
        "_row", F.when(op == "d", F.col("_event.before")).otherwise(F.col("_event.after"))
    )
    fields = {name: Field(F.col(f"_row.`{name}`"), T.StringType()) for name in columns}
    for column in metadata:
        fields[column.name] = Field(F.col("_event." + ".".join(column.envelope)), T.StringType())
    fields["__deleted"] = Field((op == "d").cast("string"), T.StringType())
    no_row = op.isin(*_ROW_OPS) & F.col("_row").isNull()
    return _typed_json(parsed, table, fields, seen, reading, within="$.after", no_row=no_row)


def _written_types(table: Table, seen: _Seen) -> dict[str, T.DataType]:
    """The keys of unwrapped events whose values are read as they are written, where they mean the same as text."""
    wanted = {column.name: column.source_type for column in table.columns if column.semantic_type != BITS}
    for column in metadata_columns(table):
        wanted |= {name: column.data_type for name in column.names if name not in wanted}
    return {name: written for name, written in seen.written.items() if _is_taken(written, wanted.get(name))}


def _is_taken(written: T.DataType, wanted: T.DataType | None) -> bool:
    if isinstance(written, T.LongType):
        return isinstance(wanted, T.IntegerType | T.LongType | T.DateType | T.TimestampType)
    return isinstance(wanted, T.BooleanType) and isinstance(written, T.BooleanType)


def _typed_json(
    parsed: DataFrame,
    table: Table,
    fields: dict[str, Field],
    seen: _Seen,
    reading: Reading,
    *,
    within: str,
    no_row: Expression,
) -> DataFrame:
    op, json = fields["__op"].value, F.col("_json")

    def member(name: str) -> Expression:
        return F.get_json_object(json, f"{within}['{name}']")

    def has(name: str) -> Expression:
        """Whether the row has the column; looked at only where the value is null."""
        image = json if within == "$" else F.get_json_object(json, within)
        found = F.json_object_keys(image)
        other = reading.names.get(name, name)
        return F.coalesce(F.array_contains(found, name) | F.array_contains(found, other), F.lit(False))

    for name, other in reading.names.items():
        here = F.when(_has_key(json, name), fields[name].value.cast("string")).otherwise(member(other))
        fields[name] = Field(here, T.StringType())
    # An update without a column says nothing of it; Kafka Connect's converters write nulls out.
    absent = {
        name: fields[name].value.isNull() & F.coalesce(op == "u", F.lit(True)) & ~has(name)
        for name in (column.name for column in table.columns)
        if name in seen.partial
    }
    ignored = json.isNull() | json.isin(*_NOTHING)
    if seen.control:
        ignored = ignored | (op.isNull() & _is_control(json))
    malformed = F.col("_event._corrupt").isNotNull() | ~json.startswith("{")
    if seen.nested:
        malformed = malformed | _has_more_than_an_object(F.col("value"))
    told = F.lit("not a JSON object")
    if seen.alike:
        malformed, told = malformed | ~_is_alike(F.col("value"), seen, table), F.lit(MISREAD)
    unlike = F.col(UNLIKE) if UNLIKE in parsed.columns else F.lit(False)
    problem = F.when(unlike, F.lit(MISREAD)).when(malformed, told).when(no_row, F.lit("the envelope has no row image"))
    for name, reason in reading.refused.items():
        problem = problem.when(member(name).isNotNull(), F.lit(reason))
    for name in reading.required:
        lacks = ~F.coalesce(op, F.lit("")).isin("d", "t", "m") & fields[name].value.isNull() & ~has(name)
        problem = problem.when(lacks, F.lit(_lacking(name)))
    return _typed(
        parsed,
        table,
        fields,
        raw=F.col("value").cast("binary"),
        ignored=ignored,
        problem=problem,
        absent=absent,
        placeholders=seen.placeholder,
        optional={column.name for column in table.columns if not column.declared},
        unreadable=malformed,
        further={name: Field(member(name), T.StringType()) for name in reading.refused},
    )


def _is_alike(text: Expression, seen: _Seen, table: Table) -> Expression:
    """Whether a text is what the examples are: a flat object, with the keys of one of them, and every value there."""
    forms = [F.array(*map(F.lit, form)) for form in seen.alike]
    has_keys = F.coalesce(F.json_object_keys(text).isin(*forms), F.lit(False))
    is_written_so = has_keys & _ends_at_first_brace(text)
    if seen.flat:
        is_written_so = F.col(IS_CUT) | is_written_so
    return is_written_so & ~_has_placeholder(text, table)


def _lacking(name: str) -> str:
    return f"column {name} is missing (schema_policy.drop: quarantine)"


def decode_rows(
    rows: DataFrame, table: Table, semantic_types: Mapping[str, str], reading: Reading | None = None
) -> DataFrame:
    """Decoded changes from typed rows, such as the records of Avro object files.

    Parameters
    ----------
    rows:
        Column `event`, a struct: a Debezium envelope or an unwrapped event; and the columns of `ORIGIN`. Of records:
        `_value`, the value as it was, null for a tombstone; and `_unlike`, where some may not be of the form of the
        examples: true for those (`MISREAD`).
    semantic_types:
        Debezium's semantic type of a column, where the writer's schema names it (`connect.name`).
    reading:
        What the schema policy makes of the fields.
    """
    reading = reading or Reading()
    event = rows.schema["event"].dataType
    assert isinstance(event, T.StructType)
    names = set(event.names)
    is_envelope = _is_envelope_type(event)
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
        block, *inner = column.envelope
        if inner and isinstance(_first_of(event, (block,), "event").data_type, T.StructType):
            return _first_of(_struct(event, block), tuple(inner), f"event.{block}")
        return Field(F.lit(None), T.NullType()) if inner else _first_of(event, (block,), "event")

    fields = {}
    for declared in table.columns:
        name = reading.names.get(declared.name, declared.name)
        found = Field(F.lit(None), T.NullType()) if name in reading.refused else row_field(name)
        fields[declared.name] = Field(found.value, found.data_type, semantic_types.get(name), in_json=False)
    for column in metadata_columns(table):
        fields[column.name] = metadata_field(column)
    deleted = (
        Field((op == "d").cast("string"), T.StringType()) if is_envelope else _first_of(event, ("__deleted",), "event")
    )
    fields["__deleted"] = deleted
    is_update = F.coalesce(op == "u", F.lit(True))
    checks = [F.when(row_field(name).value.isNotNull(), F.lit(reason)) for name, reason in reading.refused.items()]
    has_row = ~F.coalesce(op, F.lit("")).isin("d", "t", "m")
    checks += [F.when(has_row, F.lit(_lacking(name))) for name in reading.required]
    ignored = F.lit(is_control_schema(names) and not _wants_control(table))
    if "_value" in rows.columns:
        ignored = ignored | F.col("_value").isNull()
    if UNLIKE in rows.columns:
        checks.insert(0, F.when(F.col(UNLIKE), F.lit(MISREAD)))
    return _typed(
        rows,
        table,
        fields,
        raw=F.col("_value") if "_value" in rows.columns else F.to_json("event", EVENT_AS_JSON).cast("binary"),
        ignored=ignored,
        problem=F.coalesce(*checks, F.lit(None).cast("string")) if checks else F.lit(None).cast("string"),
        form=dumps({"type": event.jsonValue(), "semantic_types": dict(semantic_types)}),
        absent={name: is_update for name in (column.name for column in table.columns)
                if isinstance(fields[name].data_type, T.NullType)},
        optional={column.name for column in table.columns},
        unreadable=policies.all_null([field.value for field in fields.values()]) if table.is_masked else F.lit(False),
        further={name: row_field(name) for name in reading.refused},
    )  # fmt: skip


def parts_again(events: DataFrame, table: Table) -> list[Part]:
    """The parts of events that the quarantine kept as JSON.

    Parameters
    ----------
    events:
        Columns `value` string, `_form` string (see `ingest.decode.columns`) and those of `ORIGIN`.
    """
    parts = []
    for (form,) in events.select("_form").distinct().collect():
        if form is None:
            parts.append(json_part(events.where("_form is null").select("value", *ORIGIN), table))
            continue
        known = loads(form)
        own = events.where(F.col("_form") == form)
        if "type" in known:
            event = F.from_json("value", T.StructType.fromJson(known["type"]), EVENT_AS_JSON).alias("event")
            # The text itself is kept again where it waits on.
            text = [F.col("value").cast("binary").alias("_value")] if known.get("masked") else []
            part = typed_part(own.select(event, *text, *ORIGIN), known["semantic_types"])
        else:
            part = json_part(own.select("value", *ORIGIN), table)
        parts.append(Part(part.version, partial(_decode_masked, part, form)) if known.get("masked") else part)
    return parts


def _decode_masked(part: Part, form: str, table: Table, reading: Reading) -> DataFrame:
    decoded = part.decode(policies.taken_as_hashed(table), reading)
    return decoded.withColumn("_form", F.when(F.col("_raw").isNotNull(), F.lit(form)))


def _is_envelope_type(event: T.StructType) -> bool:
    names = set(event.names)
    return {"op", "source"} <= names and bool({"before", "after"} & names)


def is_control_schema(names: set[str]) -> bool:
    """Whether a record with these fields is no change of a row: a heartbeat, a transaction marker, a schema change.

    Source: Debezium's documentation of the heartbeat, transaction metadata and schema change topics.
    """
    return names == {"ts_ms"} or {"status", "id", "event_count"} <= names or {"ddl", "tableChanges"} <= names


def _wants_control(table: Table) -> bool:
    """Whether the table's columns are those of a control event: then it is no control event to the table."""
    return is_control_schema({column.name for column in table.columns})


def _is_control(json: Expression) -> Expression:
    """`is_control_schema`, of a JSON text."""
    return (
        json.rlike(r'^\{\s*"ts_ms"\s*:\s*\d+\s*\}$')
        | (_has_key(json, "event_count") & json.rlike(r'"status"\s*:\s*"(BEGIN|END)"'))
        | (_has_key(json, "ddl") & _has_key(json, "tableChanges"))
    )


def _has_key(json: Expression, name: str) -> Expression:
    """Whether a JSON text has a key of that name anywhere; the search for the bare text is cheap and comes first."""
    quoted = dumps(name)
    pattern = re.sub(r"([^\w])", r"\\\1", quoted)
    return json.contains(quoted) & json.rlike(pattern + r"\s*:")


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
    absent: Mapping[str, Expression],
    form: str | None = None,
    placeholders: bool = True,
    optional: Set[str] = frozenset(),
    unreadable: Expression,
    further: Mapping[str, Field],
) -> DataFrame:
    """The decoded changes: every field cast to its type, with the first thing that is wrong as `_problem`.

    `unreadable` and the `further` fields are looked at only for a table with column policies (`ingest.policies`): where
    nothing of an event can be told apart, and what else of it is worth keeping in the quarantine.
    """
    metadata = metadata_columns(table)
    declared = {column.name: column for column in table.columns}
    untyped = events.select(
        *ORIGIN,
        raw.alias("_raw"),
        problem.alias("_malformed"),
        ignored.alias("_empty"),
        _unavailable(fields, table, absent, placeholders, optional).alias("_unavailable"),
        *(field.value.alias(name) for name, field in fields.items()),
        *(_looked_at_for_masks(unreadable, further, absent) if table.is_masked else ()),
    )
    if table.is_masked:
        untyped = policies.with_salt(untyped, table)
    wanted: dict[str, T.DataType] = {column.name: column.source_type for column in table.columns}
    wanted |= {column.name: column.data_type for column in metadata}
    wanted["__deleted"] = T.StringType()
    op = F.coalesce(F.col("__op"), F.lit(""))
    is_empty = F.coalesce(F.col("_empty"), F.lit(False)) | (op == "m")
    is_deleted = F.coalesce(F.col("__deleted") == "true", F.lit(False)) | (op == "d")
    # PostgreSQL fills the columns of a deleted row with values that were never there (replica identity default).
    hidden = is_deleted & F.lit(table.options.connector == "postgresql")
    unavailable = {
        name: F.col("_unavailable").isNotNull() & F.array_contains(F.split("_unavailable", UNAVAILABLE_SEPARATOR), name)
        for name in _may_be_unavailable(fields, table, absent)
    }
    values, checks = {}, []
    for name, data_type in wanted.items():
        change = converted(F.col(f"`{name}`"), fields[name], declared.get(name), data_type, table.options.connector)
        column = declared.get(name)
        if column is not None and column.hashed_from is not None:
            change = _hashed(change, column.hashed_from)
        elif column is not None and column.hashed_before is not None:
            change = Converted(*policies.taken(change.value, column.hashed_before))
        told = F.concat(F.lit(f"column {name}: "), change.problem)
        if name in declared and name not in table.key:
            nothing = hidden | unavailable[name] if name in unavailable else hidden
            values[name] = F.when(nothing, F.lit(None)).otherwise(change.value)
            checks.append(F.when(~nothing, told))
        else:
            values[name] = change.value
            checks.append(told)
    rowless = (op == "t") & F.lit(bool(table.key))
    found = F.coalesce(
        F.col("_malformed"),
        _op_problem(),
        *(F.when(~rowless, problem) for problem in _key_problems(table)),
        _position_problem(table),
        *([_transaction_problem()] if table.options.consistent == "transaction" else []),
        *checks,
    )
    problem_found = F.when(~is_empty, found)
    kept, kept_form = F.col("_raw"), form
    if table.is_masked:
        hashes = {name: _kept_hash(name, values[name], unavailable.get(name)) for name in table.hashed}
        kept, kept_form = _masked(fields, further, hashes, form)
        kept = F.when(F.col("_unreadable"), policies.not_kept(F.col("_raw"), table)).otherwise(kept).cast("binary")
        why = F.when(F.col("_unreadable"), F.concat(F.lit("; "), policies.not_kept(F.col("_raw"), table)))
        problem_found = F.concat(problem_found, F.coalesce(why, F.lit("")))
    return untyped.select(
        *(values[column.name].alias(column.name) for column in table.columns),
        *(values[column.name].alias(column.name) for column in metadata),
        is_deleted.cast("string").alias("__deleted"),
        *ORIGIN,
        F.when(problem_found.isNotNull() | F.col("_unavailable").isNotNull(), kept).alias("_raw"),
        F.when(problem_found.isNotNull() | F.col("_unavailable").isNotNull(), F.lit(kept_form)).alias("_form"),
        problem_found.alias("_problem"),
        F.col("_unavailable"),
        is_empty.alias("_ignored"),
    )


def _looked_at_for_masks(
    unreadable: Expression, further: Mapping[str, Field], absent: Mapping[str, Expression]
) -> list[Expression]:
    named = [F.when(condition, F.lit(name)) for name, condition in absent.items()]
    lacks = F.array_compact(F.array(*named)) if named else F.array().cast("array<string>")
    return [
        F.coalesce(unreadable, F.lit(False)).alias("_unreadable"),
        lacks.alias("_absent"),
        *(field.value.alias(f"_further_{name}") for name, field in further.items()),
    ]


def _hashed(change: Converted, data_type: T.DataType) -> Converted:
    told = F.lit(f"a value that is not exactly a {data_type.simpleString()}, and is not shown (policy: hash)")
    return Converted(policies.hashed(change.value, data_type), F.when(change.problem.isNotNull(), told))


def _masked(
    fields: Mapping[str, Field], further: Mapping[str, Field], hashes: Mapping[str, Expression], form: str | None
) -> tuple[Expression, str]:
    """What the quarantine keeps of an event: an unwrapped one with the columns, but for the excluded ones; its form.

    A list of what is kept, and not of what is left out: nothing else of the event can get through, such as another
    image of the row, or the same column written differently.
    """
    values = {name: hashes.get(name, F.col(f"`{name}`")) for name in fields}
    values |= {name: F.col(_quoted(f"_further_{name}")) for name in further}
    if form is None:
        return policies.masked_text(values, F.col("_absent")), policies.MASKED_FORM
    types = {name: field.data_type for name, field in (*fields.items(), *further.items())}
    types |= dict.fromkeys(hashes, T.StringType())
    names = [name for name, data_type in types.items() if not isinstance(data_type, T.NullType)]
    event = F.to_json(F.struct(*(values[name].alias(name) for name in names)), EVENT_AS_JSON)
    known = {name: meaning for name, meaning in loads(form)["semantic_types"].items() if name not in hashes}
    kept = T.StructType([T.StructField(name, types[name]) for name in names])
    return event, dumps({"type": kept.jsonValue(), "semantic_types": known, "masked": True})


def _kept_hash(name: str, value: Expression, unavailable: Expression | None) -> Expression:
    """What a masked event has of a hashed column: the hash, Debezium's placeholder, null, or that nothing was kept."""
    told = F.coalesce(value, F.lit(policies.NOT_KEPT))
    if unavailable is not None:
        told = F.when(unavailable, F.lit(UNAVAILABLE_VALUE)).otherwise(told)
    return F.when(F.col(f"`{name}`").isNotNull(), told)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _may_be_unavailable(fields: Mapping[str, Field], table: Table, absent: Mapping[str, Expression]) -> Iterator[str]:
    """The declared columns, but for the key's, whose value an event of the table may lack."""
    for column in table.columns:
        placeholder = table.options.connector == "postgresql" and isinstance(
            fields[column.name].data_type, T.StringType | T.BinaryType | T.ArrayType | T.MapType
        )
        ignored = table.options.null_updates == "ignore"
        if column.name not in table.key and (placeholder or ignored or column.name in absent):
            yield column.name


def _unavailable(
    fields: Mapping[str, Field],
    table: Table,
    absent: Mapping[str, Expression],
    placeholders: bool,
    optional: Set[str],
) -> Expression:
    """The names of the columns that an event says nothing of, or null.

    Such are the values that PostgreSQL's log lacks, which Debezium fills with a placeholder (TOAST, replica identity
    default; as text, bytes, base64 of these, or the only item of an array), columns that an update leaves out, and
    nulls of an update where the declaration ignores them. A column that the event's table did not have, or that nobody
    declared, is named once more, behind `OPTIONAL`.
    """
    op = fields["__op"].value
    named = []
    for name in _may_be_unavailable(fields, table, absent):
        field = fields[name]
        lacks = absent.get(name, F.lit(False))
        if table.options.null_updates == "ignore":
            lacks = lacks | (field.value.isNull() & F.coalesce(op == "u", F.lit(True)))
        if placeholders and table.options.connector == "postgresql":
            lacks = lacks | _is_placeholder(field)
        named.append(F.when(lacks, F.lit(name)))
        if name in optional and name in absent:
            named.append(F.when(absent[name], F.lit(OPTIONAL + name)))
    if not named:
        return F.lit(None).cast("string")
    return F.nullif(F.concat_ws(UNAVAILABLE_SEPARATOR, *named), F.lit(""))


def _is_placeholder(field: Field) -> Expression:
    encoded = base64.b64encode(UNAVAILABLE_VALUE.encode()).decode()
    number_items = [int(byte) for byte in UNAVAILABLE_VALUE.encode()]
    if isinstance(field.data_type, T.StringType):
        texts = [UNAVAILABLE_VALUE, encoded, dumps([UNAVAILABLE_VALUE]), dumps(number_items, separators=(",", ":"))]
        return F.coalesce(field.value.isin(*texts), F.lit(False))
    if isinstance(field.data_type, T.BinaryType):
        return F.coalesce(field.value == F.lit(UNAVAILABLE_VALUE).cast("binary"), F.lit(False))
    if isinstance(field.data_type, T.ArrayType):
        items = field.data_type.elementType
        if isinstance(items, T.StringType):
            return F.coalesce(field.value == F.array(F.lit(UNAVAILABLE_VALUE)), F.lit(False))
        if isinstance(items, T.IntegerType | T.LongType):
            whole = F.array(*(F.lit(item).cast(items) for item in number_items))
            return F.coalesce(field.value == whole, F.lit(False))
    return F.lit(False)


def _op_problem() -> Expression:
    op = F.col("__op")
    return F.when(
        op.isNotNull() & ~op.isin(*_OPS),
        F.concat(F.lit("op is "), op, F.lit(f", expected one of {', '.join(_OPS)}")),
    )


def _key_problems(table: Table) -> list[Expression]:
    """A key needs a value: each part of it, unless the key is written as one text, which tells a null from a text."""
    nulls = [F.col(f"`{name}`").isNull() for name in table.key]
    if not nulls:
        return []
    if table.record_key == "__key" and len(nulls) > 1:
        told = f"every key column is null: {', '.join(table.key)}"
        return [F.when(reduce(lambda left, right: left & right, nulls), F.lit(told))]
    return [F.when(nulls[0], F.lit(f"key column {table.key[0]} is null"))]


def _position_problem(table: Table) -> Expression:
    """A streamed change without its log position cannot be ordered; rows read by a snapshot may have none."""
    if table.options.order_by:
        names = list(table.options.order_by)
        told = f"no order: order_by names {', '.join(names)}, and one of them is null"
        streamed = F.lit(True)
    else:
        assert table.options.connector is not None
        columns = [column for column in POSITION_COLUMNS[table.options.connector] if column.required]
        names = [column.name for column in columns]
        fields = ", ".join(".".join(column.envelope) for column in columns)
        told = f"no log position: the connector's add.fields must hold {fields}"
        streamed = ~F.coalesce(F.col("__op"), F.lit("u")).isin("r", "m")
    absent = reduce(lambda left, right: left | right, [F.col(f"`{name}`").isNull() for name in names])
    return F.when(absent & streamed, F.lit(told))


def _transaction_problem() -> Expression:
    """A streamed change that does not say its transaction cannot be kept with the rest of it."""
    absent = F.col("__transaction_id").isNull() | F.col("__transaction_total_order").isNull()
    told = "no transaction: the connector must have provide.transaction.metadata, and its add.fields must hold"
    return F.when(
        absent & ~F.coalesce(F.col("__op"), F.lit("u")).isin("r", "m"),
        F.lit(f"{told} transaction.id and transaction.total_order"),
    )


def _struct_of(names: Sequence[str], types: Mapping[str, T.DataType] | None = None) -> T.StructType:
    """Fields of these types, and of text where none is given."""
    known = types or {}
    return T.StructType([T.StructField(name, known.get(name, T.StringType())) for name in dict.fromkeys(names)])


def _struct(event: T.StructType, name: str) -> T.StructType:
    found = event[name].dataType
    assert isinstance(found, T.StructType)
    return found


def _first_of(struct: T.StructType, names: tuple[str, ...], prefix: str) -> Field:
    for name in names:
        if name in struct.names:
            return Field(F.col(f"{prefix}.`{name}`"), struct[name].dataType)
    return Field(F.lit(None), T.NullType())
