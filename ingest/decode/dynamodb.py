"""Records of a DynamoDB table's stream to decoded changes: what DynamoDB Streams writes, and what goes to Kinesis.

Both say an item's change by its images before and after, in typed attribute values. Sources: the DynamoDB API
Reference, "Record", "StreamRecord" and "Identity" of DynamoDB Streams; the DynamoDB Developer Guide, "Using Kinesis
Data Streams to capture changes to DynamoDB"; the Lambda Developer Guide, "Process DynamoDB records with Lambda".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.connectors import SAYS_DELETED_ROWS, SAYS_ROWS
from ingest.config.tables import Column, Table
from ingest.decode.attribute_values import ATTRIBUTE, NO_STRING, NUMBER, plain_json, type_of
from ingest.decode.decoded import MISREAD, UNLIKE, Outline, Part, decoded_changes
from ingest.decode.fields import Field
from ingest.decode.json_characters import text_problem
from ingest.decode.json_forms import WHITE_SPACE, has_more_than_an_object
from ingest.decode.numbers import decimal_of_text, from_base64
from ingest.schema.change import metadata_columns
from ingest.schema.change import problem as problem_of
from ingest.schema.evolution import EventField, Reading, Version
from ingest.spark.prepared import prepared

_OPS = {"INSERT": "c", "MODIFY": "u", "REMOVE": "d"}
# Who deletes what time to live has expired.
_TTL = "dynamodb.amazonaws.com"


def _texts(*names: str) -> list[T.StructField]:
    return [T.StructField(name, T.StringType()) for name in names]


_IMAGES = ("Keys", "NewImage", "OldImage")
_CHANGE = T.StructType(
    [
        *_texts("ApproximateCreationDateTime", "ApproximateCreationDateTimePrecision"),
        *_texts("SequenceNumber", "StreamViewType"),
        *(T.StructField(name, T.MapType(T.StringType(), ATTRIBUTE)) for name in _IMAGES),
    ]
)
_RECORD = T.StructType(
    [
        *_texts("eventName", "tableName", "eventSourceARN", "_lake_corrupt"),
        T.StructField("userIdentity", T.MapType(T.StringType(), T.StringType())),
        T.StructField("dynamodb", _CHANGE),
    ]
)
# The types of an undeclared attribute, and what its column holds; any others together are a text, but for bytes.
_NATURAL: Mapping[frozenset[str], T.DataType] = {
    frozenset({"BOOL"}): T.BooleanType(),
    frozenset({"B"}): T.BinaryType(),
    frozenset({"BS"}): T.ArrayType(T.BinaryType()),
    frozenset({"SS"}): T.ArrayType(T.StringType()),
    frozenset({"NS"}): T.ArrayType(T.StringType()),
}
_AS_TEXT = frozenset({"S", "N", "BOOL", "L", "M", "SS", "NS"})
# The types of the values of each attribute in some records, by its name; None of what has no known one.
Seen = Mapping[str, frozenset[str | None]]


@dataclass(frozen=True)
class StreamRecords:
    """JSON texts of records, or of whole batches of them, `{"Records": [...]}`.

    Attributes
    ----------
    lines:
        Columns `value` string and those of `READ`; `_lake_unlike` as in `ingest.decode.typed_events.decode_rows`.
    are_records:
        The texts are values of records, of which an empty one is a mistake; an empty line of a file says nothing.
    """

    lines: DataFrame
    are_records: bool


def stream_parts(records: StreamRecords, table: Table, *, thorough: bool) -> list[Part]:
    """All records as one part. A first look finds the attributes that they have, and of which types.

    Parameters
    ----------
    table:
        With the columns that are known: others are looked for, unless the policy leaves them out.
    thorough:
        Look for them all the same.
    """
    lines = _single(records)
    seen = _seen(lines, table, thorough=thorough)
    fields = tuple(
        EventField(name, natural) for name, types in seen.items() if (natural := _natural(types)) is not None
    )
    return [Part(Version(fields, whole=False, has_metadata=False), partial(_decoded, lines, seen, records.are_records))]


def _single(records: StreamRecords) -> DataFrame:
    """One row a record: a batch is taken apart. A stream record says its key itself, whatever carries it."""
    text = F.col("value")
    # What follows a batch in its text would be lost: taken for a record, such a text is quarantined as a whole.
    is_batch = text.rlike(r'^\s*\{\s*"Records"\s*:') & ~has_more_than_an_object(text)
    batch = F.when(is_batch, F.from_json(F.get_json_object(text, "$.Records"), "array<string>"))
    each = F.when(F.size(batch) > 0, batch).otherwise(F.array(text))
    others = [name for name in records.lines.columns if name not in ("value", "_lake_key", "_lake_order")]
    order = F.col("_lake_order") + F.col("_lake_within")
    return (
        records.lines.select("_lake_order", *others, F.posexplode(each).alias("_lake_within", "value"))
        .withColumns(
            {
                "_lake_order": order.cast("bigint") if records.are_records else F.monotonically_increasing_id(),
                "_lake_key": F.lit(None).cast("binary"),
            }
        )
        .drop("_lake_within")
    )


def _parsed(lines: DataFrame, table: Table) -> DataFrame:
    """Adds the record, and of it `_lake_op`, null where it is none of DynamoDB's, and `_lake_image`, the item.

    Where the declared view type has no rows the item is its key: what a stray image says of one row would be null in
    the others, and nobody knows that it is.
    """
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_lake_corrupt"}
    op = F.lit(None).cast("string")
    for name, letter in _OPS.items():
        op = F.when(F.col("_lake_event.eventName") == name, letter).otherwise(op)
    image = F.when(F.col("_lake_op") == "d", _of_change("OldImage")).otherwise(_of_change("NewImage"))
    says_rows = (table.options.stream_view_type or "NEW_AND_OLD_IMAGES") in SAYS_ROWS
    return (
        lines.withColumn("_lake_json", F.btrim("value", F.lit(WHITE_SPACE)))
        .withColumn("_lake_event", F.from_json("_lake_json", _RECORD, options))
        .withColumn("_lake_op", op)
        .withColumn("_lake_image", F.coalesce(image, _of_change("Keys")) if says_rows else _of_change("Keys"))
    )


def _of_change(name: str) -> Expression:
    return F.col(f"_lake_event.dynamodb.{name}")


def _seen(lines: DataFrame, table: Table, *, thorough: bool) -> Seen:
    """The attributes of the declared columns, and of rows those that nobody declared, with the types of their values.

    One aggregate; it brings a row for each attribute and type.
    """
    entries = F.flatten(F.array_compact(F.array(F.map_entries(_of_change("Keys")), F.map_entries("_lake_image"))))
    columns = {column.name for column in table.columns}
    rows = (
        _parsed(lines, table)
        .select(F.explode(entries).alias("entry"), (F.col("_lake_op") != "d").alias("is_row"))
        .groupBy(F.col("entry.key").alias("name"), type_of(F.col("entry.value")).alias("type"))
        .agg(F.bool_or("is_row").alias("is_row"))
    )
    if table.options.schema_policy.add == "keep" and not thorough:
        known = {name.lower() for name in columns}
        rows = rows.where(F.lower("name").isin(*known))
    found: dict[str, set[str | None]] = {}
    for row in sorted(rows.collect(), key=lambda row: str(row["name"])):
        if row["is_row"] or row["name"] in columns:
            found.setdefault(row["name"], set()).add(row["type"])
    return {name: frozenset(types) for name, types in found.items()}


def _natural(types: frozenset[str | None]) -> T.DataType | None:
    """The type of an undeclared attribute's column; None where it has no value anywhere.

    A number is a text: no decimal has room for every place of the point that its 38 digits may have.
    """
    held = types - {"NULL"}
    if not held:
        return None
    if None in held or (not held <= _AS_TEXT and held not in _NATURAL):
        return T.NullType()
    return _NATURAL.get(frozenset(name for name in held if name), T.StringType())


def _decoded(lines: DataFrame, seen: Seen, are_records: bool, table: Table, reading: Reading) -> DataFrame:
    def decode(frame: DataFrame) -> DataFrame:
        return _decode(frame, seen, are_records, table, reading)

    made_of = (seen, are_records, table, reading)
    return prepared(lines, f"stream records of {table.relation}", made_of, decode)


def _decode(lines: DataFrame, seen: Seen, are_records: bool, table: Table, reading: Reading) -> DataFrame:
    attributes = [_Attribute.of(column, table, seen, reading) for column in table.columns]
    parsed = _parsed(lines, table).withColumns({each.place: each.found for each in attributes})
    json, op = F.col("_lake_json"), F.col("_lake_op")
    fields = {each.column.name: each.field for each in attributes}
    fields |= {column.name: _nothing() for column in metadata_columns(table)}
    fields |= _metadata()
    fields["__deleted"] = Field((op == "d").cast("string"), T.StringType())
    is_blank = json == ""
    malformed = F.when(is_blank, problem_of("invalid_record", "the value is empty")).otherwise(_json_problem())
    unlike = F.col(UNLIKE) if UNLIKE in lines.columns else F.lit(False)
    refused = (
        F.when(_has_value(F.col("_lake_image"), name), problem_of("schema_policy", reason))
        for name, reason in reading.refused.items()
    )
    wrong = chain(_record_problems(table), refused, (each.problem for each in attributes))
    outline = Outline(
        fields=fields,
        raw=F.col("value").cast("binary"),
        ignored=json.isNull() if are_records else F.coalesce(is_blank, F.lit(True)),
        tombstone=json.isNull(),
        problem=F.when(unlike, F.lit(MISREAD)).otherwise(F.coalesce(malformed, *wrong)),
        says_deletes=op.isNotNull(),
        is_envelope=True,
        absent={},
        unreadable=malformed.isNotNull(),
        further={
            name: Field(F.to_json(F.col("_lake_image")[name]), T.StringType())
            for name in reading.refused
            if name not in fields
        },
        placeholders=False,
    )
    return decoded_changes(parsed, table, outline)


def _has_value(image: Expression, name: str) -> Expression:
    """Whether an image has an attribute, of whatever type, that is not null."""
    return F.map_contains_key(image, name) & F.coalesce(type_of(image[name]) != "NULL", F.lit(True))


def _nothing() -> Field:
    return Field(F.lit(None).cast("string"), T.StringType())


def _metadata() -> dict[str, Field]:
    """What a record says of its change, by metadata column.

    `__source_ts_us` is there only where the record says that it counts microseconds: what is ordered by it must not be
    ordered by something coarser.
    """
    arn = F.nullif(F.regexp_extract(F.col("_lake_event.eventSourceARN"), ":table/([^/]+)", 1), F.lit(""))
    micros = _created_us()
    is_micros = _of_change("ApproximateCreationDateTimePrecision") == "MICROSECOND"
    return {
        "__op": Field(F.col("_lake_op"), T.StringType()),
        "__table": Field(F.coalesce("_lake_event.tableName", arn), T.StringType()),
        "__source_ts_ms": Field(F.floor(micros / 1000).cast("bigint"), T.LongType()),
        "__source_ts_us": Field(F.when(is_micros, micros.cast("bigint")), T.LongType()),
        "__sequence_number": Field(_of_change("SequenceNumber"), T.StringType()),
        "__is_ttl_delete": Field(_is_ttl_delete(), T.BooleanType()),
    }


def _is_ttl_delete() -> Expression:
    """Whether time to live has deleted the item. Never null. Lambda and GetRecords spell the fields differently."""
    identity = F.col("_lake_event.userIdentity")
    kind, principal = (
        F.coalesce(identity[name], identity[name.title()[0] + name[1:]]) for name in ("type", "principalId")
    )
    return F.coalesce((F.col("_lake_op") == "d") & (kind == "Service") & (principal == _TTL), F.lit(False))


def _created_us() -> Expression:
    """`ApproximateCreationDateTime` in microseconds since 1970, a decimal; null where it is no number.

    Kinesis Data Streams for DynamoDB says its unit, and wrote milliseconds before it did; DynamoDB Streams, which
    always has a sequence number, writes seconds.
    """
    number = _of_change("ApproximateCreationDateTime").cast("decimal(24,6)")
    precision = _of_change("ApproximateCreationDateTimePrecision")
    is_of_streams = _of_change("SequenceNumber").isNotNull() | _of_change("StreamViewType").isNotNull()
    return (
        F.when(precision == "MICROSECOND", number.cast("decimal(31,6)"))
        .when(precision == "MILLISECOND", (number * 1_000).cast("decimal(31,6)"))
        .when(precision.isNotNull(), F.lit(None))
        .when(is_of_streams, (number * 1_000_000).cast("decimal(31,6)"))
        .otherwise((number * 1_000).cast("decimal(31,6)"))
    )


def _json_problem() -> Expression:
    """What keeps a text from being one record, or null."""
    json, text = F.col("_lake_json"), F.col("value")
    is_json = F.get_json_object(json, "$").isNotNull()
    is_corrupt = F.col("_lake_event._lake_corrupt").isNotNull() | ~json.startswith("{")
    of_corrupt = (
        F.when(is_json & ~json.startswith("{"), problem_of("not_an_event", "JSON, but not a JSON object"))
        .when(is_json, problem_of("bad_value", "a value is not of the type that its place in a stream record has"))
        .otherwise(problem_of("invalid_json", "not a JSON object: the text does not parse as JSON"))
    )
    more = problem_of("invalid_json", "not a JSON object: something follows it in the text")
    message = "a value of type S, N or B is no JSON string, as DynamoDB writes it"
    no_record = problem_of("not_an_event", "no stream record: it lacks dynamodb")
    return F.coalesce(
        F.when(is_corrupt, of_corrupt).when(has_more_than_an_object(text), more),
        text_problem(text),
        F.when(F.col("_lake_event.dynamodb").isNull(), no_record).when(
            json.rlike(NO_STRING), problem_of("bad_value", message)
        ),
    )


def _record_problems(table: Table) -> Iterator[Expression]:
    """What keeps a record from being the change of a row of the table: each of them, or null."""
    name = F.coalesce("_lake_event.eventName", F.lit("absent"))
    message = problem_of("unknown_op", "eventName is ", name, f", expected one of {', '.join(_OPS)}")
    yield F.when(F.col("_lake_op").isNull(), message)
    if table.key:
        others = F.array_except(F.map_keys(_of_change("Keys")), F.array(*map(F.lit, table.key)))
        declared = f" as well, the declared key is {', '.join(table.key)}: different items would be one row"
        message = problem_of("missing_key", "the item's key has ", F.array_join(others, ", "), declared)
        yield F.when(F.size(others) > 0, message)
    if any(column.name not in table.key for column in table.columns):
        yield from _missing_images(table)
    number = _of_change("SequenceNumber")
    shown = F.substring(number, 1, 100)
    message = problem_of("missing_position", "dynamodb.SequenceNumber is ", shown, ", expected up to 40 digits")
    yield F.when(number.isNotNull() & ~number.rlike(r"^\d{1,40}\z"), message)
    created = _of_change("ApproximateCreationDateTime")
    precision = F.coalesce(_of_change("ApproximateCreationDateTimePrecision"), F.lit("not told"))
    shown = F.concat(F.substring(created, 1, 100), F.lit(", its precision "), precision)
    message = problem_of("bad_value", "dynamodb.ApproximateCreationDateTime is ", shown)
    yield F.when(created.isNotNull() & _created_us().isNull(), message)


def _missing_images(table: Table) -> Iterator[Expression]:
    """That a record lacks the image that says the row: of an insert or update any, of a delete the declared one.

    A delete without its old image is applied where no view type is declared: that the item is gone is certain.
    """
    declared = table.options.stream_view_type
    view = F.coalesce(_of_change("StreamViewType"), F.lit("not told"))
    expected = f", the table declares {declared}" if declared else f", expected {' or '.join(sorted(SAYS_ROWS))}"
    message = problem_of("not_an_event", "no NewImage says the row: StreamViewType is ", view, expected)
    yield F.when(F.col("_lake_op").isin("c", "u") & _of_change("NewImage").isNull(), message)
    if declared in SAYS_DELETED_ROWS:
        message = problem_of("not_an_event", "no OldImage says what was deleted: StreamViewType is ", view, expected)
        yield F.when((F.col("_lake_op") == "d") & _of_change("OldImage").isNull(), message)


@dataclass(frozen=True)
class _Attribute:
    """The attribute of a column: its name in the records, and the types that its values have there."""

    column: Column
    name: str
    types: frozenset[str | None]
    is_key: bool

    @classmethod
    def of(cls, column: Column, table: Table, seen: Seen, reading: Reading) -> _Attribute:
        name = reading.names.get(column.name, column.name)
        return cls(column, name, seen.get(name, frozenset()), column.name in table.key)

    @property
    def place(self) -> str:
        """The working column of the value as it was read."""
        return f"_lake_attribute_{self.column.name}"

    @property
    def found(self) -> Expression:
        """The value in a record: of the key's columns where the record says the key."""
        of_image = F.col("_lake_image")[self.name]
        return F.coalesce(_of_change("Keys")[self.name], of_image) if self.is_key else of_image

    @property
    def field(self) -> Field:
        """The value, as text, bytes, or an array of these; null where it is of a type that the column cannot hold."""
        held, wanted = F.col(f"`{self.place}`"), self.column.source_type
        types = sorted(self._readable)
        if not types:
            return _nothing()
        if isinstance(wanted, T.BinaryType):
            return Field(from_base64(held["B"]), wanted, in_json=False)
        if isinstance(wanted, T.ArrayType) and isinstance(wanted.elementType, T.BinaryType):
            return Field(_all_or_none(F.transform(held["BS"], from_base64)), wanted, in_json=False)
        if isinstance(wanted, T.ArrayType):
            values = [_texts_of_list(held) if name == "L" else held[name] for name in types]
            return Field(F.coalesce(*values), T.ArrayType(T.StringType()), in_json=False)
        values = [_text(held, name) for name in types]
        if isinstance(wanted, T.IntegralType):
            values = [
                _without_exponent(value) if name == "N" else value for name, value in zip(types, values, strict=True)
            ]
        return Field(F.coalesce(*values), T.StringType(), in_json=False)

    @property
    def problem(self) -> Expression:
        """Why a record's value is none of the column, or null: what `field` has none of, though the record has one."""
        if self.types <= {"S", "BOOL", "SS", "NULL"} & {*self._readable, "NULL"}:
            return F.lit(None).cast("string")
        held, wanted = F.col(f"`{self.place}`"), self.column.source_type.simpleString()
        kind = type_of(held)
        is_there = F.coalesce(F.map_contains_key("_lake_image", self.name), F.lit(False)) | held.isNotNull()
        shown = F.lit("a value") if self.column.hashed_from is not None else F.substring(F.to_json(held), 1, 100)
        message = (
            f"column {self.column.name}: ",
            F.coalesce(shown, F.lit("null")),
            F.when(kind.isNull(), F.lit(" has no type that DynamoDB has")).otherwise(
                F.concat(F.lit(", of type "), kind, F.lit(f", is not exactly a {wanted}{self._advice}"))
            ),
        )
        is_wrong = is_there & (kind.isNull() | ((kind != "NULL") & self.field.value.isNull()))
        return F.when(is_wrong, problem_of("bad_value", *message))

    @property
    def _advice(self) -> str:
        is_time = isinstance(self.column.source_type, T.DateType | T.TimestampType)
        return ": its semantic_type says what a number counts" if is_time and "N" in self.types else ""

    @property
    def _readable(self) -> frozenset[str]:
        """Those of the types whose values the column can hold without a guess."""
        wanted = self.column.source_type
        if isinstance(wanted, T.ArrayType):
            fits = {"BS"} if isinstance(wanted.elementType, T.BinaryType) else {"SS", "NS", "L"}
        elif isinstance(wanted, T.BinaryType):
            fits = {"B"}
        elif isinstance(wanted, T.StringType):
            fits = {*_AS_TEXT}
        elif isinstance(wanted, T.BooleanType):
            fits = {"BOOL"}
        elif isinstance(wanted, T.DateType | T.TimestampType):
            fits = {"S", "N"} if self.column.semantic_type else {"S"}
        else:
            fits = {"N", "S"}
        return frozenset(name for name in self.types if name in fits)


def _text(held: Expression, name: str) -> Expression:
    """The value of that type as text: a number's own digits, lists, maps and sets as plain JSON."""
    value = held[name]
    if name == "N":
        return F.when(value.rlike(NUMBER), value)
    if name in ("L", "M"):
        return plain_json(held, name)
    if name in ("SS", "BS"):
        return F.to_json(value)
    if name == "NS":
        are_numbers = F.forall(value, lambda item: item.rlike(NUMBER))
        return F.when(are_numbers, F.concat(F.lit("["), F.array_join(value, ","), F.lit("]")))
    return value.cast("string")


def _without_exponent(number: Expression) -> Expression:
    """A number's text; of one with an exponent the digits of the whole number that it is, and the text of any other."""
    whole, is_whole = decimal_of_text(number, T.DecimalType(20, 0))
    assert is_whole is not None
    return F.when(number.rlike("[eE]") & is_whole, whole.cast("string")).otherwise(number)


def _texts_of_list(held: Expression) -> Expression:
    """The values of a list as texts, what is within them as plain JSON; null where one of them is no value."""

    def read(item: Expression) -> Expression:
        texts = (_text(item, name) for name in (*sorted(_AS_TEXT), "B", "BS"))
        return F.struct(type_of(item).alias("kind"), F.coalesce(*texts).alias("text"))

    def is_wrong(item: Expression) -> Expression:
        return item["kind"].isNull() | ((item["kind"] != "NULL") & item["text"].isNull())

    def texts_of(items: Expression) -> Expression:
        return F.when(~F.exists(items, is_wrong), F.transform(items, lambda item: item["text"]))

    items = F.transform(F.from_json(held["L"], T.ArrayType(ATTRIBUTE)), read)
    # As the item of an array it stands in the plan once: it is long, and looked at twice.
    return F.transform(F.array(items), texts_of)[0]


def _all_or_none(items: Expression) -> Expression:
    """The array; null where one of its items is."""
    return F.when(~F.exists(items, lambda item: item.isNull()), items)
