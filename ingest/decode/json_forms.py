"""What a batch of JSON texts holds: its forms, found by searching the texts or by a few examples.

Expressions for what no text holds would cost more to plan than a small batch to land.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from hashlib import sha256
from json import loads

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.sources_file import RESERVED
from ingest.config.tables import Table
from ingest.decode.control import control_of, is_control_schema
from ingest.decode.decoded import IMAGES, MEMBERS, OBJECTS
from ingest.decode.fields import BITS, array_of
from ingest.decode.flat_json import FlatForm
from ingest.decode.foreign import FOREIGN, Foreign, foreign_of, foreign_problem
from ingest.schema.change import metadata_columns
from ingest.schema.change import problem as problem_of
from ingest.schema.connectors import connector_of
from ingest.schema.evolution import EventField
from ingest.spark.jvm import java_class

# What may stand around a JSON text (RFC 8259, section 2).
WHITE_SPACE = " \t\n\r"
# So many events are taken for examples of a batch.
EXAMPLES = 20
# From so many events on, cutting their texts saves more than the half second that its expressions take to plan
# (docs/decisions/0020-json-is-read-by-examples.md).
_MANY = 50_000
# More forms of events than this in a batch are not told apart one by one.
_MOST_FORMS = 1000
# Where Spark's reader would keep corrupt records, of which there are none. It refuses all events where one has a field
# of that name (by default `_corrupt_record`) that is no text.
_CORRUPT = ("columnNameOfCorruptRecord", "\x00")
_ROWLESS = r'"(__)?op"\s*:\s*"[dtm]"'


@dataclass(frozen=True)
class JsonForms:
    """What a batch of JSON texts holds: whole envelopes, unwrapped events, {"schema", "payload"} around them.

    `nested`: objects within the events, or something behind them; `placeholder`: values that PostgreSQL's log lacks;
    `control`: heartbeats, transaction markers, schema changes; `unknown`: keys of rows that are no columns;
    `partial`: columns whose key some row lacks; `lacks`: those of them that a create, update or read lacks;
    `beside`: columns that stand in envelopes beside Debezium's members; `foreign`: what is no event of the table;
    `repeated`: rows with a key that stands in them twice; `keys`: all keys of unwrapped events, where they were
    counted; `alike`: the lists of keys of which each event must have one, where the rest was seen in examples;
    `written`: how these write the values of some keys; `flat`: how they are written altogether, where that is simple
    enough to be cut.
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
    beside: frozenset[str] = frozenset()
    foreign: tuple[Foreign, ...] = ()
    repeated: bool = False
    keys: frozenset[str] | None = None
    alike: tuple[tuple[str, ...], ...] = ()
    written: Mapping[str, T.DataType] = field(default_factory=dict)
    flat: FlatForm | None = None

    @classmethod
    def nothing(cls) -> JsonForms:
        """Of records without values."""
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
            keys=frozenset(),
        )

    @classmethod
    def in_examples(cls, texts: Sequence[str], table: Table, number: int) -> JsonForms | None:
        """What the first events say of that many; None where they are not flat, unwrapped and complete."""
        texts = [text for text in texts if text.strip() != "null"]
        try:
            events = [loads(text) for text in texts]
            # A key that is no Unicode (a lone surrogate) cannot stand in an expression: this raises a ValueError.
            "".join(key for event in events if isinstance(event, dict) for key in event).encode()
        except (ValueError, RecursionError):
            return None
        columns = {column.name for column in table.columns}
        known = columns | set(table.excluded)
        passes_over = table.options.schema_policy.add == "keep"

        def is_usual(event: object, text: str) -> bool:
            if not isinstance(event, dict) or not columns <= event.keys() or is_control_schema(set(event), table):
                return False
            more = any(name not in known and not name.startswith("__") for name in event)
            is_flat = text.find("}") == len(text) - 1
            return is_flat and (passes_over or not more) and not any(mark in text for mark in placeholders(table))

        if not events or not all(is_usual(event, text) for event, text in zip(events, texts, strict=True)):
            return None
        forms = tuple(dict.fromkeys(tuple(event) for event in events))
        return replace(
            cls.nothing(),
            keys=frozenset(key for form in forms for key in form),
            alike=forms,
            written=_written(events),
            flat=FlatForm.of(texts) if number >= _MANY else None,
        )

    @classmethod
    def of_forms(cls, found: Sequence[Row], table: Table, *, thorough: bool) -> JsonForms:
        """What texts of these forms (`forms`) hold."""
        policy = table.options.schema_policy
        looks_for_more = thorough or policy.add != "keep"
        looks_for_all = thorough or policy.drop != "keep"
        many = len(found) > _MOST_FORMS

        def says_no_row(form: Row) -> bool:
            return is_control_schema(set(form["keys"] or ()), table) and not form["enveloped"]

        foreign = {tuple(form["keys"] or ()): foreign_of(set(form["keys"] or ()), table) for form in found}
        of_rows = [
            form
            for form in found
            if form["keys"] is not None and not says_no_row(form) and not foreign[tuple(form["keys"])]
        ]
        keyed = [(form, form["image"] if form["enveloped"] else form["keys"]) for form in of_rows]
        in_images = {name for form, names in keyed if form["enveloped"] for name in names or ()}
        images = [set(names) for _, names in keyed if names is not None]
        whole = [set(names or ()) for form, names in keyed if not form["rowless"]]
        columns = [column.name for column in table.columns]
        known = {*columns, *table.excluded}
        key, by_case = {name.lower() for name in table.key}, {name.lower() for name in columns}
        rows = [names for names in images if not key or key & {name.lower() for name in names}]
        others = {
            name
            for names in rows
            for name in names
            if name not in known and (name in in_images or not name.startswith("__"))
        }
        more = bool(others) if looks_for_more else any(name.lower() in by_case for name in others)
        flat_forms = [form for form in found if not form["enveloped"]]
        in_envelopes = {name for form in found if form["enveloped"] for name in form["keys"] or ()}
        beside = [name for name in columns if name.lower() not in MEMBERS and (many or name in in_envelopes)]
        lacks = [name for name in columns if many or any(name not in names for names in whole)]
        return cls(
            wrapped=many or any(form["wrapped"] for form in found),
            enveloped=many or any(form["enveloped"] for form in found),
            unwrapped=many or not all(form["enveloped"] for form in found),
            nested=many or any(form["nested"] for form in found),
            placeholder=many or any(form["placeholder"] for form in found),
            control=many or any(says_no_row(form) for form in found),
            unknown=many or more,
            partial=frozenset(name for name in columns if many or any(name not in names for names in images)),
            lacks=tuple(lacks) if looks_for_all else (),
            beside=frozenset(beside).difference(*images),
            foreign=tuple(form for form in FOREIGN if many or form in foreign.values()),
            repeated=many or any(len({*names}) < len(names) for _, names in keyed if names is not None),
            keys=None if many else frozenset(key for form in flat_forms for key in form["keys"] or ()),
        )


def forms(lines: DataFrame, table: Table, *, thorough: bool) -> list[Row]:
    """The forms of some JSON texts: their keys, those of their payload and of their row, and the schema of the payload.

    They are few; of more than `_MOST_FORMS` not all are told, but every schema is.
    """
    looks_for_all = thorough or table.options.schema_policy.drop != "keep"
    text = F.coalesce("value", F.lit(""))
    keys, enveloped = F.col("keys"), F.col("enveloped")
    read = (
        lines.select(text.alias("text"), F.json_object_keys(text).alias("outer"))
        .withColumn("wrapped", _is_wrapped(F.col("text"), F.col("outer")))
        .withColumn("body", F.when(F.col("wrapped"), F.get_json_object("text", "$.payload")).otherwise(F.col("text")))
        .withColumn("keys", F.when(F.col("wrapped"), F.json_object_keys("body")).otherwise(F.col("outer")))
        .withColumn("enveloped", F.coalesce(_are_of_envelope(keys) & has_objects(F.col("body")), F.lit(False)))
    )
    schema = F.when(F.col("wrapped"), F.get_json_object("text", "$.schema")).alias("schema")
    forms = read.groupBy(
        "wrapped",
        "enveloped",
        keys,
        schema,
        F.when(enveloped, F.json_object_keys(_image(F.col("body")))).alias("image"),
        (F.col("text").rlike(_ROWLESS) if looks_for_all else F.lit(False)).alias("rowless"),
    ).agg(
        F.bool_or(~ends_at_first_brace(F.col("text"))).alias("nested"),
        F.bool_or(has_placeholder(F.col("text"), table)).alias("placeholder"),
    )
    found = forms.limit(_MOST_FORMS + 1).collect()
    if len(found) > _MOST_FORMS:
        rows = read.select(schema).distinct().collect()
        schemas = {form["schema"] for form in found}
        nothing = found[0].asDict() | {"wrapped": True, "keys": None, "image": None}
        found += [Row(**nothing | {"schema": row["schema"]}) for row in rows if row["schema"] not in schemas]
    return found


def _written(events: Sequence[Mapping[str, object]]) -> Mapping[str, T.DataType]:
    """How events write the values of their keys: as whole numbers, or as true and false.

    Spark reads these faster as what they are than as text (bench/results/updates.md). A fraction is not among them: its
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


def written_types(table: Table, seen: JsonForms) -> dict[str, T.DataType]:
    """The keys of unwrapped events whose values are read as they are written, where they mean the same as text."""
    wanted = {column.name: column.source_type for column in table.columns if column.semantic_type != BITS}
    for column in metadata_columns(table):
        wanted |= {name: column.data_type for name in column.names if name not in wanted}
    return {name: written for name, written in seen.written.items() if _is_taken(written, wanted.get(name))}


def _is_taken(written: T.DataType, wanted: T.DataType | None) -> bool:
    if isinstance(written, T.LongType):
        return isinstance(wanted, T.IntegerType | T.LongType | T.DateType | T.TimestampType)
    return isinstance(wanted, T.BooleanType) and isinstance(written, T.BooleanType)


def ends_at_first_brace(text: Expression) -> Expression:
    """Whether a text's first closing brace is its end: a flat object, and nothing behind it."""
    return F.octet_length(F.substring_index(text, "}", 1)) + 1 == F.octet_length(text)


def has_placeholder(text: Expression, table: Table) -> Expression:
    """Whether a text may hold a value that PostgreSQL's log lacks."""
    return reduce(lambda left, right: left | right, map(text.contains, placeholders(table)), F.lit(False))


def placeholders(table: Table) -> tuple[str, ...]:
    """What the text of an event holds where Debezium has no value: the placeholder, as text, base64 or numbers."""
    placeholder = connector_of(table).placeholder
    return placeholder.texts if placeholder else ()


def unknown_fields(lines: DataFrame, table: Table, foreign: Sequence[Foreign]) -> tuple[EventField, ...]:
    """The keys of rows in JSON events that are no columns and have a value somewhere, with the type Spark infers.

    An event without the table's key says nothing of its columns, nor does a `foreign` one. A key that differs from a
    column by case alone has the column's type, whatever it is: nothing is inferred for it.
    """
    event = F.btrim(body(F.col("value")), F.lit(WHITE_SPACE))
    enveloped = is_envelope(event)
    row = F.when(enveloped, _image(event)).otherwise(F.when(~is_control(event, table), event))
    row = F.when(foreign_problem(event, table, foreign).isNull(), row) if foreign else row
    known = F.array(*(F.lit(name) for name in (*(column.name for column in table.columns), *table.excluded)))

    def is_of_row(name: Expression) -> Expression:
        # Metadata stands beside the columns of unwrapped events alone.
        return F.col("enveloped") | ~name.rlike(f"^{RESERVED.pattern}")

    more = F.filter(F.array_except(F.json_object_keys("row"), known), is_of_row)
    suspects = lines.select(row.alias("row"), enveloped.alias("enveloped")).where(F.size(more) > 0)
    valued = F.map_keys(F.map_filter("keys", lambda key, value: value.isNotNull() & is_of_row(key)))
    key_names = [name.lower() for name in table.key]
    is_row = F.exists(valued, lambda name: F.lower(name).isin(key_names)) if key_names else F.lit(True)
    keys = F.from_json("row", "map<string,string>").alias("keys")
    unknown = (
        suspects.select("row", "enveloped", keys).where(is_row).withColumn("unknown", F.array_except(valued, known))
    )
    names = {found["name"] for found in unknown.select(F.explode("unknown").alias("name")).distinct().collect()}
    by_case = {column.name.lower() for column in table.columns}
    fields = [EventField(name, T.StringType()) for name in sorted(names) if name.lower() in by_case]
    names = {name for name in names if name.lower() not in by_case}
    if not names:
        return tuple(fields)
    rows = unknown.where(F.arrays_overlap("unknown", array_of(names))).select("row")
    session = lines.sparkSession
    encoders = java_class(session, "org.apache.spark.sql.Encoders")
    texts = getattr(rows._jdf, "as")(encoders.STRING())
    reader = session._jsparkSession.read().option(*_CORRUPT)
    inferred = T.StructType.fromJson(loads(reader.json(texts).schema().json()))
    types = {item.name: item.dataType for item in inferred}
    # Spark infers nothing of an empty object, and nothing for an empty name: their texts are what is known of them.
    return (*fields, *(EventField(name, types.get(name, T.StringType())) for name in sorted(names)))


def _image(envelope: Expression) -> Expression:
    """The row of an envelope: as it is, or of a delete as it was."""
    return F.coalesce(F.get_json_object(envelope, "$.after"), F.get_json_object(envelope, "$.before"))


def _is_wrapped(text: Expression, keys: Expression | None = None) -> Expression:
    """Whether a text is Kafka Connect's {"schema", "payload"}, or {"payload"} alone. Never null.

    A text that breaks off has no keys that could be told: it is none, and no JSON either.
    """
    found = F.json_object_keys(text) if keys is None else keys
    of_it = F.array(F.lit("schema"), F.lit("payload"))
    is_one = F.array_contains(found, "payload") & (F.size(F.array_except(found, of_it)) == 0)
    return F.coalesce(text.rlike(r'^\s*\{\s*"(schema|payload)"\s*:') & is_one, F.lit(False))


def body(text: Expression) -> Expression:
    """The event of a text, without {"schema", "payload"} around it: `null` where the payload is null."""
    payload = F.coalesce(F.get_json_object(text, "$.payload"), F.lit("null"))
    return F.when(_is_wrapped(text), payload).otherwise(text)


def is_of_schema(schemas: Sequence[str]) -> Expression:
    """Whether the text's payload has one of these schemas. Never null.

    Known by their hashes: a schema's defaults may be values of a column that is excluded, and plans are logged.
    """
    text = F.col("value")
    found = F.sha2(F.when(_is_wrapped(text), F.get_json_object(text, "$.schema")), 256)
    return F.coalesce(found.isin(*(sha256(schema.encode()).hexdigest() for schema in schemas)), F.lit(False))


def is_envelope(json: Expression) -> Expression:
    """Whether a JSON text has the members of an envelope. Never null; the search for a bare text is cheap and first."""
    is_of = json.contains('"op"') & _are_of_envelope(F.json_object_keys(json)) & has_objects(json)
    return F.coalesce(is_of, F.lit(False))


def has_objects(json: Expression) -> Expression:
    """Whether the source or an image of a JSON text is an object, as an envelope's is, and no text of a column."""
    return reduce(lambda left, right: left | right, (_is_object(json, name) for name in OBJECTS))


def _is_object(json: Expression, name: str) -> Expression:
    return F.coalesce(F.get_json_object(json, f"$.{name}").startswith("{"), F.lit(False))


def _are_of_envelope(keys: Expression) -> Expression:
    """Whether these are the keys of an envelope. A truncate has no row, and may have no member for it."""
    has_image = F.arrays_overlap(keys, array_of(IMAGES)) | (F.size(F.array_except(keys, array_of(MEMBERS))) == 0)
    has_place = F.array_contains(keys, "op") & F.array_contains(keys, "source")
    return has_place & has_image & ~F.arrays_overlap(keys, array_of({"__op", "__deleted"}))


def is_control(json: Expression, table: Table) -> Expression:
    """`is_control_schema`, of a JSON text. Never null; the search for the bare text is cheap and comes first."""
    keys = F.json_object_keys(json)
    found = F.lit(False)
    for control in control_of(table):
        first, *_ = sorted(control.has)
        is_one = F.size(F.array_except(array_of(control.has), keys)) == 0
        if control.may_have is not None:
            is_one &= F.size(F.array_except(keys, array_of(control.may_have))) == 0
        found = found | (json.contains(f'"{first}"') & is_one)
    return F.coalesce(found & ~F.exists(keys, lambda name: name.startswith("__")), F.lit(False))


def repeated_problem(row: Expression) -> Expression:
    """What is told of a row (JSON) with a key that stands in it twice, or null: a parser takes the last value."""
    keys = F.json_object_keys(row)
    message = problem_of("invalid_json", "a key stands twice in the row: which of its values counts is not known")
    return F.when(F.size(F.array_distinct(keys)) < F.size(keys), message)


def has_more_than_an_object(text: Expression) -> Expression:
    """Whether something follows the object: `from_json` reads the first value of a text and drops the rest."""
    # Behind a closing brace a comma, another bracket or the end must come; the exact answer costs a second parse.
    suspicious = text.rlike(r"\}\s*([^\s,}\]]|,\s*\{)")
    # So does one brace too many. Braces within strings may make it suspicious for nothing, or hide it.
    opening, closing = (F.octet_length(F.replace(text, F.lit(brace))) for brace in "{}")
    suspicious |= opening != closing
    alone = F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))) == 1
    return ~text.rlike(r"\}\s*$") | (suspicious & ~F.coalesce(alone, F.lit(False)))
