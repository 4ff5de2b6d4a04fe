"""Debezium events that are JSON texts, to decoded changes: envelopes and unwrapped events, with or without a schema."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from json import JSONDecoder

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.tables import Table
from ingest.decode.decoded import (
    IMAGES,
    MISREAD,
    UNLIKE,
    Outline,
    Part,
    decoded_changes,
)
from ingest.decode.dynamodb import StreamRecords, stream_parts
from ingest.decode.event_problems import ROW_OPS, envelope_problem, lacking, moved_problem
from ingest.decode.fields import Field, meant
from ingest.decode.flat_json import IS_CUT, between, value_column
from ingest.decode.foreign import foreign_problem
from ingest.decode.json_characters import text_problem
from ingest.decode.json_forms import (
    EXAMPLES,
    WHITE_SPACE,
    JsonForms,
    body,
    ends_at_first_brace,
    forms,
    has_more_than_an_object,
    has_placeholder,
    is_control,
    is_envelope,
    is_of_schema,
    repeated_problem,
    unknown_fields,
    written_types,
)
from ingest.decode.json_numbers import has_bare_nan, wide_decimals, with_exact_fractions
from ingest.decode.record_key import RecordKeys
from ingest.decode.typed_events import typed_part
from ingest.schema.change import READ, metadata_columns
from ingest.schema.change import problem as problem_of
from ingest.schema.connect import ConnectSchema, connect_schema
from ingest.schema.connectors import connector_of
from ingest.schema.evolution import EventField, Reading, Version
from ingest.spark.prepared import prepared

# Of Jackson, which reads JSON for Spark (StreamReadConstraints of 2.15), in characters.
_LONGEST_STRING = 20_000_000
_TOO_LONG = f"not a JSON object that is read: a string in it may have at most {_LONGEST_STRING:,} characters"


@dataclass(frozen=True)
class JsonSource:
    """JSON texts of events, and what is known of them before they are looked at.

    Attributes
    ----------
    lines:
        Columns `value` string and those of `READ`; `_lake_unlike` as in `decode_rows`.
    keys:
        How the records' keys are read.
    are_records:
        The texts are values of records, of which an empty one is a mistake; an empty line of a file says nothing.
    events:
        About how many there are. Of many that are alike the texts are cut, where they can be
        (`ingest.decode.flat_json`).
    first:
        The first texts, where they were looked at before; None where they were not.
    meanings:
        The semantic types that their schema says, where Spark cannot read them by it (`ConnectSchema.is_read`).
    """

    lines: DataFrame
    keys: RecordKeys = field(default_factory=RecordKeys)
    are_records: bool = False
    events: int = 0
    first: Sequence[str] | None = None
    meanings: Mapping[str, str] = field(default_factory=dict)

    def examples(self) -> list[str]:
        """The first texts that are not empty: of one Spark job, where nobody has them yet."""
        if self.first is not None:
            texts: Iterable[str | None] = self.first
        else:
            texts = (row["value"] for row in self.lines.select("value").limit(EXAMPLES).collect())
        return [text for text in texts if text and text.strip()]


def json_parts(source: JsonSource, table: Table, *, thorough: bool = False, by_examples: bool = False) -> list[Part]:
    """Events that are JSON texts, as the table's connector has them.

    Debezium's are envelopes and unwrapped events, each with or without Kafka Connect's {"schema", "payload"} around it.
    Those with a schema are a part for each schema, which is believed as an Avro schema is.

    A first look at the texts, which only searches them, finds what they hold; expressions for what they do not hold
    would cost more to plan than a small batch to land. Where events are all alike, as they mostly are, a few examples
    show as much.

    Parameters
    ----------
    table:
        With the columns that are known: the others are looked for, but for those that the policy leaves out.
    thorough:
        Look for every difference, also for those that the policy passes over.
    by_examples:
        Trust the first events: an event of another form is `MISREAD` then, and the parts have to be made without this.
    """
    if connector_of(table).writes == "stream records":
        return stream_parts(StreamRecords(source.lines, source.are_records), table, thorough=thorough)
    return debezium_parts(source, table, thorough=thorough, by_examples=by_examples)


def debezium_parts(
    source: JsonSource, table: Table, *, thorough: bool = False, by_examples: bool = False
) -> list[Part]:
    """The parts of Debezium's events."""
    lines = source.lines
    if by_examples and not table.is_masked:
        texts = source.examples()
        if seen := JsonForms.in_examples(texts, table, source.events):
            return [_text_part(source, seen, ())]
        if prefix := _common_prefix(texts):
            return [_schema_part(source, table, *prefix)]
    found = forms(lines, table, thorough=thorough)
    schemas = {text: known for text in {form["schema"] for form in found} if text and (known := connect_schema(text))}
    parts = []
    for text, known in sorted(schemas.items()):
        own = replace(source, lines=lines.where(is_of_schema([text])))
        if known.is_read:
            parts.append(_schema_part(own, table, None, known))
        else:
            of_it = [form for form in found if form["schema"] == text]
            parts.append(_searched_part(replace(own, meanings=known.meanings), of_it, table, thorough=thorough))
    others = [form for form in found if form["schema"] not in schemas]
    if others or not parts:
        rest = replace(source, lines=lines.where(~is_of_schema(list(schemas)))) if schemas else source
        parts.append(_searched_part(rest, others, table, thorough=thorough))
    return parts


def tombstones_part(source: JsonSource) -> Part:
    """Records that are known to have no value."""
    return _text_part(source, JsonForms.nothing(), ())


def _searched_part(source: JsonSource, found: Sequence[Row], table: Table, *, thorough: bool) -> Part:
    """Texts of these forms, which are read without a schema."""
    seen = JsonForms.of_forms(found, table, thorough=thorough)
    unknown = unknown_fields(source.lines, table, seen.foreign) if seen.unknown else ()
    said = (replace(item, semantic_type=source.meanings.get(item.name) or None) for item in unknown)
    return _text_part(source, seen, tuple(said) if source.meanings else unknown)


def _text_part(source: JsonSource, seen: JsonForms, fields: tuple[EventField, ...]) -> Part:
    return Part(Version(fields, whole=False, lacks=seen.lacks, has_metadata=False), partial(_decode_json, source, seen))


def _common_prefix(texts: Sequence[str]) -> tuple[str, ConnectSchema] | None:
    """How texts begin that all have the same schema before their payload, and that schema; None where they differ."""
    begins = '{"schema":'
    if not texts or not texts[0].startswith(begins):
        return None
    try:
        _, end = JSONDecoder().raw_decode(texts[0], len(begins))
    except (ValueError, RecursionError):
        return None
    prefix = f'{texts[0][:end]},"payload":'
    known = connect_schema(texts[0][len(begins) : end])
    return (prefix, known) if known and known.is_read and all(text.startswith(prefix) for text in texts) else None


def _schema_part(source: JsonSource, table: Table, prefix: str | None, schema: ConnectSchema) -> Part:
    """Events in {"schema", "payload"} that all have the same schema.

    `prefix`: how their texts begin, where that is known of the first ones: another one is `MISREAD`, and none is
    searched for its payload.
    """
    text = F.col("value")
    unlike = F.col(UNLIKE) if UNLIKE in source.lines.columns else F.lit(False)
    exact = with_exact_fractions(text, wide_decimals(table, schema.decimals))
    if prefix is None:
        body = F.get_json_object(exact, "$.payload")
    else:
        unlike = unlike | (text.isNotNull() & ~(text.startswith(prefix) & text.endswith("}"))) | has_bare_nan(text)
        body = between(exact, prefix, "}")
    bodies = source.lines.select("value", body.alias("_lake_json"), unlike.alias(UNLIKE), *READ)
    is_nothing = F.col("_lake_json").isNull() | (F.col("_lake_json") == "null")
    malformed = F.when(is_nothing, text_problem(text)).otherwise(
        _json_problem(F.col("_lake_event._lake_corrupt").isNotNull(), nested=True)
    )
    rows = _parsed(bodies, schema.payload, has_floats=True).select(
        F.when(~is_nothing, F.struct(*(F.col("_lake_event")[name].alias(name) for name in schema.payload.names))).alias(
            "event"
        ),
        F.when(text.isNotNull(), text.cast("binary")).alias("_lake_value"),
        F.col("_lake_json"),
        is_nothing.alias("_lake_nothing"),
        malformed.alias("_lake_malformed"),
        UNLIKE,
        *READ,
    )
    return typed_part(rows, schema.meanings, source.keys, form=None)


def _decode_json(source: JsonSource, seen: JsonForms, table: Table, reading: Reading) -> DataFrame:
    def decode(lines: DataFrame) -> DataFrame:
        return _decoded_json(replace(source, lines=lines), seen, table, reading)

    made_of = (source.keys, source.are_records, dict(source.meanings), seen, table, reading)
    return prepared(source.lines, f"JSON of {table.relation}", made_of, decode)


def _decoded_json(source: JsonSource, seen: JsonForms, table: Table, reading: Reading) -> DataFrame:
    exact = with_exact_fractions(F.col("value"), wide_decimals(table))
    text = body(exact) if seen.wrapped else exact
    bodies = source.lines.withColumn("_lake_json", F.btrim(text, F.lit(WHITE_SPACE)))
    if seen.enveloped and seen.unwrapped:
        sorted_out = bodies.withColumn("_lake_is_envelope", is_envelope(F.col("_lake_json")))
        enveloped, unwrapped = sorted_out.where("_lake_is_envelope"), sorted_out.where("not _lake_is_envelope")
        whole = _decode_enveloped(enveloped, table, seen, reading, source)
        return whole.unionByName(_decode_unwrapped(unwrapped, table, seen, reading, source))
    decode = _decode_enveloped if seen.enveloped else _decode_unwrapped
    return decode(bodies, table, seen, reading, source)


# Before the name of a member of a parsed text that differs by case alone from that of the column which it is.
_OTHER = "_lake_other_"
_CORRUPT = T.StructField("_lake_corrupt", T.StringType())


def _told_apart(row: Expression, struct: T.StructType, others: Collection[str]) -> Expression:
    """The row with names that differ by more than case, as Spark tells them apart; a JSON parser does by case too."""
    names = [f"{_OTHER}{item.name}" if item.name in others else item.name for item in struct]
    fields = [T.StructField(name, item.dataType) for name, item in zip(names, struct, strict=True)]
    return row.cast(T.StructType(fields))


def _with_own_names(events: DataFrame, image: Expression, others: Mapping[str, str]) -> DataFrame:
    """Adds `_lake_own`: the columns that stand in the row (JSON) by their own names, of those with another one too."""
    own = F.array_intersect(F.json_object_keys(image), F.array(*map(F.lit, others)))
    return events.withColumn("_lake_own", F.coalesce(own, F.array().cast("array<string>")))


def _either(name: str, own: Expression, other: Expression) -> Field:
    """A column that is found by its own name, or by the one that differs from it by case."""
    is_here = F.array_contains("_lake_own", name)
    return Field(F.when(is_here, own.cast("string")).otherwise(other.cast("string")), T.StringType())


def _parsed(bodies: DataFrame, struct: T.StructType, *, has_floats: bool = False) -> DataFrame:
    """Adds `_lake_event`: the text as a struct, what could not be read as `_lake_corrupt`; null where it was cut.

    `has_floats`: some field of the struct is a float or double, of which "NaN" is a value as well.
    """
    schema = T.StructType([*struct.fields, _CORRUPT])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_lake_corrupt"}
    # NaN as it stands is no JSON; the option that refuses it refuses the text "NaN" for a float, too.
    options |= {} if has_floats else {"allowNonNumericNumbers": "false"}
    text = F.when(~F.col(IS_CUT), F.col("_lake_json")) if IS_CUT in bodies.columns else F.col("_lake_json")
    return bodies.withColumn("_lake_event", F.from_json(text, schema, options))


def _decode_unwrapped(
    bodies: DataFrame, table: Table, seen: JsonForms, reading: Reading, source: JsonSource
) -> DataFrame:
    columns = [column.name for column in table.columns]
    metadata = metadata_columns(table)
    written = written_types(table, seen)
    names = [*columns, *(name for column in metadata for name in column.names), "__deleted", *reading.names.values()]
    known = [name for name in names if seen.keys is None or name in seen.keys]
    others = set(reading.names.values()).intersection(known)
    struct = _struct_of(known, written)
    if seen.flat:
        bodies = seen.flat.cut(bodies, {item.name: item.dataType for item in struct})
    parsed = _parsed(bodies, struct)
    if others:
        event = T.StructType([*struct.fields, _CORRUPT])
        parsed = parsed.withColumn("_lake_event", _told_apart(F.col("_lake_event"), event, others))
        parsed = _with_own_names(parsed, F.col("_lake_json"), reading.names)

    def member(name: str) -> Expression:
        by_parser = F.col(f"_lake_event.`{_OTHER * (name in others)}{name}`")
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
    for name, other in reading.names.items():
        if other in others:
            fields[name] = _either(name, fields[name].value, member(other))
    fields |= {column.name: value(*column.names) for column in metadata}
    fields["__deleted"] = value("__deleted")
    return _typed_json(parsed, table, fields, seen, reading, source, within="$")


def _decode_enveloped(
    bodies: DataFrame, table: Table, seen: JsonForms, reading: Reading, source: JsonSource
) -> DataFrame:
    columns = [column.name for column in table.columns]
    metadata = metadata_columns(table)
    others = reading.names
    row = _struct_of([*columns, *others.values()])
    blocks = dict.fromkeys(column.envelope[0] for column in metadata if len(column.envelope) > 1)
    envelope = [
        T.StructField("before", row),
        T.StructField("after", row),
        *(T.StructField(block, _struct_of([c.envelope[1] for c in metadata if c.envelope[0] == block]))
          for block in blocks),
        T.StructField("op", T.StringType()),
        *(T.StructField(name, T.StringType()) for name in sorted(seen.beside)),
    ]  # fmt: skip
    op = F.col("_lake_event.op")
    image = F.when(op == "d", F.col("_lake_event.before")).otherwise(F.col("_lake_event.after"))
    if others:
        image = _told_apart(image, row, others.values())
    parsed = _parsed(bodies, T.StructType(envelope)).withColumn("_lake_row", image)
    if others:
        before, after = (F.get_json_object("_lake_json", f"$.{side}") for side in ("before", "after"))
        parsed = _with_own_names(parsed, F.when(op == "d", before).otherwise(after), others)
    fields = {name: Field(F.col(f"_lake_row.`{name}`"), T.StringType()) for name in columns}
    # A transform has put them there, such as InsertField.
    for name in seen.beside:
        fields[name] = Field(F.coalesce(fields[name].value, F.col(f"_lake_event.`{name}`")), T.StringType())
    for name, other in others.items():
        fields[name] = _either(name, fields[name].value, F.col(f"_lake_row.`{_OTHER}{other}`"))
    for column in metadata:
        fields[column.name] = Field(F.col("_lake_event." + ".".join(column.envelope)), T.StringType())
    fields["__deleted"] = Field((op == "d").cast("string"), T.StringType())

    def image_of(side: str, name: str) -> Expression:
        if name not in others:
            return F.col(f"_lake_event.{side}.`{name}`")
        # Two names that differ by case alone are one to Spark.
        return F.coalesce(*(F.get_json_object("_lake_json", f"$.{side}['{each}']") for each in (name, others[name])))

    former, later = ({name: image_of(side, name) for name in table.key} for side in ("before", "after"))
    no_event = [envelope_problem(op, F.col("_lake_row").isNull(), table), moved_problem(op, former, later)]
    return _typed_json(parsed, table, fields, seen, reading, source, within="$.after", no_event=no_event)


def _typed_json(
    parsed: DataFrame,
    table: Table,
    fields: dict[str, Field],
    seen: JsonForms,
    reading: Reading,
    source: JsonSource,
    *,
    within: str,
    no_event: Sequence[Expression] = (),
) -> DataFrame:
    if source.meanings:
        sides = [f"$.{side}" for side in IMAGES[:2]] if within != "$" else [within]
        images = [F.get_json_object("_lake_json", side) for side in sides]
        names = {name: (name, reading.names.get(name, name)) for name in fields}
        fields = {name: meant(found, names[name], source.meanings, images) for name, found in fields.items()}
    row = _JsonRow(fields, within, reading.names)
    op, json = fields["__op"].value, F.col("_lake_json")
    tombstone = json.isNull() | (json == "null")
    # An update without a column says nothing of it; Kafka Connect's converters write nulls out.
    absent = {
        name: row.is_null(name) & F.coalesce(op == "u", F.lit(True)) & ~row.has(name) & ~tombstone
        for name in (column.name for column in table.columns)
        if name in seen.partial
    }
    is_blank = json == ""
    ignored = tombstone if source.are_records else tombstone | is_blank
    is_corrupt = F.col("_lake_event._lake_corrupt").isNotNull() | ~json.startswith("{")
    if seen.control:
        ignored = ignored | (op.isNull() & ~is_corrupt & is_control(json, table))
    malformed = F.when(is_blank, problem_of("invalid_record", "the value is empty")).otherwise(
        _json_problem(is_corrupt, nested=seen.nested)
    )
    if seen.repeated:
        malformed = F.coalesce(malformed, repeated_problem(row.image))
    if seen.alike:
        malformed = F.when(malformed.isNotNull() | ~_is_alike(F.col("value"), seen, table), F.lit(MISREAD))
    unlike = F.col(UNLIKE) if UNLIKE in parsed.columns else F.lit(False)
    foreign = [foreign_problem(json, table, seen.foreign)] if seen.foreign else []
    problem = F.when(unlike, F.lit(MISREAD)).otherwise(F.coalesce(*foreign, malformed, *no_event))
    outline = Outline(
        fields=fields,
        raw=F.col("value").cast("binary"),
        ignored=ignored,
        tombstone=tombstone,
        problem=reduce(F.coalesce, row.refusals(reading), problem),
        says_deletes=row.says_deletes,
        is_envelope=row.is_envelope,
        absent=absent,
        unreadable=malformed.isNotNull(),
        further={name: Field(row.member(name), T.StringType()) for name in reading.refused},
        keys=source.keys,
        placeholders=seen.placeholder,
        optional={column.name for column in table.columns if not column.declared},
    )
    return decoded_changes(parsed, table, outline)


class _JsonRow:
    """The row of a JSON event (`_lake_json`), which stands in the whole text or in a member of it."""

    def __init__(self, fields: Mapping[str, Field], within: str, names: Mapping[str, str]) -> None:
        self.json = F.col("_lake_json")
        self.within = within
        self.names = names
        self.is_envelope = within != "$"
        self.fields = fields

    @property
    def image(self) -> Expression:
        return F.get_json_object(self.json, self.within) if self.is_envelope else self.json

    @property
    def says_deletes(self) -> Expression:
        """Whether the event's form says of a row whether it is deleted."""
        op = self.fields["__op"].value
        return op.isin(*ROW_OPS) if self.is_envelope else self.fields["__deleted"].value.isNotNull() | (op == "d")

    def member(self, name: str) -> Expression:
        # Spark's paths have no such names (JsonPathParser), and find nothing there.
        if not name or {"'", "?"} & set(name):
            return F.from_json(self.image, "map<string, string>")[name]
        return F.get_json_object(self.json, f"{self.within}['{name}']")

    def is_null(self, name: str) -> Expression:
        return self.fields[name].value.isNull()

    def has(self, name: str) -> Expression:
        """Whether the row has the column; looked at only where the value is null."""
        found = F.json_object_keys(self.image)
        other = self.names.get(name, name)
        return F.coalesce(F.array_contains(found, name) | F.array_contains(found, other), F.lit(False))

    def refusals(self, reading: Reading) -> Iterator[Expression]:
        """What the schema policy sets an event aside for."""
        for name, reason in reading.refused.items():
            yield F.when(self.member(name).isNotNull(), problem_of("schema_policy", reason))
        op = F.coalesce(self.fields["__op"].value, F.lit(""))
        for name in reading.required:
            lacks = ~op.isin("d", "t", "m") & self.is_null(name) & ~self.has(name)
            yield F.when(lacks, problem_of("schema_policy", lacking(name)))


def _is_alike(text: Expression, seen: JsonForms, table: Table) -> Expression:
    """Whether a text is what the examples are: a flat object, with the keys of one of them, and every value there."""
    forms = [F.array(*map(F.lit, form)) for form in seen.alike]
    has_keys = F.coalesce(F.json_object_keys(text).isin(*forms), F.lit(False))
    is_written_so = has_keys & ends_at_first_brace(text)
    if seen.flat:
        is_written_so = F.col(IS_CUT) | is_written_so
    return is_written_so & ~has_placeholder(text, table)


def _json_problem(is_corrupt: Expression, *, nested: bool) -> Expression:
    """What keeps a text (`value`, of which `_lake_json` is the event) from being one JSON object, or null."""
    json = F.col("_lake_json")
    is_json = F.get_json_object(json, "$").isNotNull()
    message = (
        "a value is not of the type that its place in an event has, or holds a control character that is not escaped"
    )
    of_corrupt = (
        F.when(is_json & ~json.startswith("{"), problem_of("not_an_event", "JSON, but not a JSON object"))
        .when(is_json, problem_of("bad_value", message))
        .when(F.length(json) > _LONGEST_STRING, problem_of("invalid_json", _TOO_LONG))
        .otherwise(problem_of("invalid_json", "not a JSON object: the text does not parse as JSON"))
    )
    found = F.when(is_corrupt, of_corrupt)
    if nested:
        more = problem_of("invalid_json", "not a JSON object: something follows it in the text")
        found = found.when(has_more_than_an_object(F.col("value")), more)
    return F.coalesce(found, text_problem(F.col("value")))


def _struct_of(names: Sequence[str], types: Mapping[str, T.DataType] | None = None) -> T.StructType:
    """Fields of these types, and of text where none is given."""
    known = types or {}
    return T.StructType([T.StructField(name, known.get(name, T.StringType())) for name in dict.fromkeys(names)])
