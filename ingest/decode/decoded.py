"""Decoded changes of events: every field as its column's type, with the first thing that is wrong of each event.

Sources of the rules: Debezium's documentation of the event envelope, of the ExtractNewRecordState transform and of the
data type mappings of each connector; events that Debezium 3 captured from real databases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import reduce
from json import dumps, loads

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.tables import Column, Table
from ingest.decode.event_problems import (
    event_op,
    is_deleted,
    key_problems,
    nothing_brings_it,
    op_problem,
    partition_problems,
    position_problem,
    tombstone_problem,
    transaction_problem,
    truncate_problem,
)
from ingest.decode.fields import EVENT_AS_JSON, Converted, Field, quoted
from ingest.decode.json_numbers import beyond_double, is_guessed_double
from ingest.decode.record_key import KEY_TEXT, RecordKeys, is_plainly_of
from ingest.decode.source_table import is_of_another_table, is_of_several, table_problem, truncate_of_one_problem
from ingest.decode.types import converted
from ingest.schema import masking
from ingest.schema.change import (
    OPTIONAL,
    READ,
    UNAVAILABLE_SEPARATOR,
    is_record,
    metadata_columns,
)
from ingest.schema.change import problem as problem_of
from ingest.schema.connectors import connector_of, order_of
from ingest.schema.evolution import Reading, Version

# `_lake_form` of an event that is kept as it was decoded: as an unwrapped one.
UNWRAPPED = {"unwrapped": True}
UNWRAPPED_FORM = dumps(UNWRAPPED)
# `_lake_problem` of an event that is not written as the examples of its batch are: the batch has to be read exactly.
MISREAD = "not of the form of the events before it"
# Whether a record's value is not of the kind that those of the first records are, where that was not looked at before.
UNLIKE = "_lake_unlike"
# The members of an envelope that say what a row is, or what a logical decoding message says.
IMAGES = ("before", "after", "message")
# Those that are objects, at least one of them: what tells an envelope from the row of a table that has such columns.
OBJECTS = ("source", "after", "before")
# What is wrong with a column of the key whose value is not that of the record's key.
_OTHER_KEY = (
    "the record's key has another value than the row, and a delete would miss the row: the connector masks, truncates "
    "or converts the value alone: let it leave the value, and declare `policy: hash`"
)
_UNDECLARED = (
    "a number of more digits than a double has, of a column that nobody has declared: declare it as a decimal (a table "
    "that has it as a double already is landed anew)"
)
# All members of an envelope.
MEMBERS = frozenset({*IMAGES, "source", "op", "transaction", "ts_ms", "ts_us", "ts_ns"})


@dataclass(frozen=True)
class Part:
    """Events that were written with one schema, not decoded yet: the fields they have, and how they are decoded."""

    version: Version
    decode: Callable[[Table, Reading], DataFrame]


@dataclass(frozen=True)
class Outline:
    """Events whose fields are found and not typed yet: what each of them has, and what is known of it as a whole.

    Attributes
    ----------
    fields:
        The value of each declared column, each metadata column and `__deleted`, as it stands in the event.
    raw:
        The event as bytes, as it was read.
    ignored:
        Whether it means no change.
    tombstone:
        Whether the record has no value, and so may be a delete (`tombstones`), of a key that is lost where it has none;
        in a file of values alone it says nothing.
    problem:
        What keeps it from being decoded, or null.
    says_deletes:
        Whether its form says of a row whether it is deleted.
    absent:
        Whether an event says nothing of a column, for those columns of which some may not.
    keys:
        How the records' keys are read.
    form:
        `_lake_form` of an event that is kept.
    placeholders:
        Some event may hold a placeholder.
    optional:
        Columns whose value is null where no earlier change brought one.
    unreadable, further:
        Where nothing of an event can be told apart, and what else of it is worth keeping in the quarantine. Looked at
        only for a table with column policies (`ingest.schema.masking`).
    """

    fields: Mapping[str, Field]
    raw: Expression
    ignored: Expression
    tombstone: Expression
    problem: Expression
    says_deletes: Expression
    is_envelope: bool
    absent: Mapping[str, Expression]
    unreadable: Expression
    further: Mapping[str, Field]
    keys: RecordKeys = dataclass_field(default_factory=RecordKeys)
    form: str | None = None
    placeholders: bool = True
    optional: Set[str] = frozenset()


def decoded_changes(events: DataFrame, table: Table, outline: Outline) -> DataFrame:
    """The decoded changes: every field cast to its type, with the first thing that is wrong as `_lake_problem`."""
    outline = _with_keys(_with_tombstones(_with_deletes(outline), table), table)
    fields = outline.fields
    untyped, key_fields = outline.keys.with_fields(_untyped(events, table, outline), table, fields)
    unavailable = {
        name: F.col("_lake_unavailable").isNotNull()
        & F.array_contains(F.split("_lake_unavailable", UNAVAILABLE_SEPARATOR), name)
        for name in _may_be_unavailable(fields, table, outline.absent)
    }
    values, checks = _typed(fields, table, key_fields, unavailable)
    # More than one step asks for a column of the key, and for what is wrong of it.
    asked = {f"_lake_key_value_{name}": values[name] for name in table.key}
    asked |= {f"_lake_key_wrong_{name}": checks[name] for name in table.key}
    untyped = untyped.withColumns(asked) if asked else untyped
    values |= {name: F.col(f"`_lake_key_value_{name}`") for name in table.key}
    checks |= {name: F.col(f"`_lake_key_wrong_{name}`") for name in table.key}
    found = _first_problem(table, values, checks, is_envelope=outline.is_envelope)
    kept, kept_form = F.col("_lake_raw"), outline.form
    if table.is_masked:
        hashes = {name: _kept_hash(name, values[name], unavailable.get(name), table) for name in table.hashed}
        masked, kept_form = _masked(fields, outline.further, hashes, outline.form)
        kept, found = _kept_masked(masked, found, table)
    # The problem is a column of its own before anything asks for it: it has an expression of every column in it.
    typed = untyped.select(
        *(values[column.name].alias(column.name) for column in table.columns),
        *(values[column.name].alias(column.name) for column in metadata_columns(table)),
        is_deleted().cast("string").alias("__deleted"),
        *READ,
        kept.alias("_lake_raw"),
        found.alias("_lake_problem"),
        "_lake_unavailable",
        _means_nothing(table).alias("_lake_ignored"),
        "_lake_says_deletes",
    )
    is_kept = F.col("_lake_problem").isNotNull() | F.col("_lake_unavailable").isNotNull()
    # A key may hold columns of which nothing is to be kept.
    of_kept = {
        "_lake_raw": F.col("_lake_raw"),
        "_lake_form": F.lit(kept_form),
        "_lake_record_key": F.lit(None).cast("binary") if table.is_masked else F.col("_lake_key"),
    }
    return typed.withColumns({name: F.when(is_kept, value) for name, value in of_kept.items()}).drop("_lake_key")


def _with_deletes(outline: Outline) -> Outline:
    """Rewritten deletes with their op: `__deleted` alone may say them, as `add.fields` need not have the op."""
    op, deleted = (outline.fields[name].value.cast("string") for name in ("__op", "__deleted"))
    op_of = F.when(deleted == "true", "d").otherwise(op)
    return replace(outline, fields={**outline.fields, "__op": Field(op_of, T.StringType())})


def _with_tombstones(outline: Outline, table: Table) -> Outline:
    """Tombstones that may be deletes, and are where the declaration says so."""
    may_delete = (F.col("_lake_key").isNotNull() | is_record()) & F.lit(bool(table.key))
    is_tombstone = F.coalesce(outline.tombstone, F.lit(False)) & F.coalesce(may_delete, F.lit(False))
    if table.options.tombstones != "delete":
        return replace(outline, tombstone=is_tombstone)
    op_of = F.when(is_tombstone, "d").otherwise(outline.fields["__op"].value)
    fields = {**outline.fields, "__op": Field(op_of, T.StringType())}
    return replace(outline, tombstone=is_tombstone, fields=fields, ignored=outline.ignored & ~is_tombstone)


def _with_keys(outline: Outline, table: Table) -> Outline:
    """Keys without placeholders: an unchanged key that is TOASTed has one, and its value in the record's key alone."""
    placeholder = connector_of(table).placeholder if outline.placeholders else None
    if placeholder is None:
        return outline
    fields = dict(outline.fields)
    types = {column.name: column.source_type for column in table.columns}
    for name in table.key:
        field = fields[name]
        if isinstance(types[name], T.StringType | T.BinaryType) and placeholder.may_replace(field.data_type):
            is_replaced = placeholder.replaces(field.value, field.data_type)
            fields[name] = replace(field, value=F.when(~is_replaced, field.value))
    return replace(outline, fields=fields)


def _untyped(events: DataFrame, table: Table, outline: Outline) -> DataFrame:
    """The events' fields as columns, as they are written, beside what is known of each event."""
    fields, is_tombstone = outline.fields, outline.tombstone
    # Of a delete the record's key says the row; of any other change what its value lacks, and each is compared with its
    # row: of Avro by its schema.
    is_keyed = reduce(
        lambda left, right: left | right, (fields[name].value.isNull() for name in table.key), F.lit(False)
    )
    is_keyed |= (fields["__op"].value == "d") | is_tombstone | F.lit(bool(outline.keys.schemas))
    untyped = events.select(
        *READ,
        outline.raw.alias("_lake_raw"),
        outline.problem.alias("_lake_malformed"),
        outline.ignored.alias("_lake_empty"),
        is_tombstone.alias("_lake_tombstone"),
        F.coalesce(outline.says_deletes, F.lit(False)).alias("_lake_says_deletes"),
        F.when(is_keyed | ~is_plainly_of(table, fields), outline.keys.text(table)).alias(KEY_TEXT),
        _key_is_unlike(events, is_keyed, outline.keys).alias("_lake_key_unlike"),
        _unavailable(outline, table).alias("_lake_unavailable"),
        *(field.value.alias(name) for name, field in fields.items()),
        *(
            field.is_number.alias(f"_lake_number_{name}")
            for name, field in fields.items()
            if field.is_number is not None
        ),
        *(_looked_at_for_masks(outline) if table.is_masked else ()),
    )
    return masking.with_salt(untyped, table) if table.is_masked else untyped


def _kept_masked(masked: Expression, found: Expression, table: Table) -> tuple[Expression, Expression]:
    """`_lake_raw` and `_lake_problem` under column policies: of what cannot be told apart only its hash is kept."""
    is_unreadable = F.col("_lake_unreadable") | F.col("_lake_tombstone")
    told_of = F.coalesce(masking.not_kept(F.col("_lake_raw"), table), F.lit("not kept: the key of a tombstone"))
    kept = F.when(is_unreadable, told_of).otherwise(masked).cast("binary")
    found = F.concat(found, F.coalesce(F.when(is_unreadable, F.concat(F.lit("; "), told_of)), F.lit("")))
    # Only of what is kept: it takes as long as the rest of the event does.
    return F.when(found.isNotNull() | F.col("_lake_unavailable").isNotNull(), kept), found


def _means_nothing(table: Table) -> Expression:
    """Whether an event means no change of the table. Never null."""
    is_empty = F.coalesce(F.col("_lake_empty"), F.lit(False)) | (event_op() == "m")
    return is_empty | is_of_another_table(table)


def _typed(
    fields: Mapping[str, Field], table: Table, key_fields: Mapping[str, Field], unavailable: Mapping[str, Expression]
) -> tuple[dict[str, Expression], dict[str, Expression]]:
    """The values of the columns with their types, and what is wrong of each."""
    declared = {column.name: column for column in table.columns}
    wanted: dict[str, T.DataType] = {column.name: column.source_type for column in table.columns}
    wanted |= {column.name: column.data_type for column in metadata_columns(table)}
    wanted["__deleted"] = T.StringType()
    # The other columns of a deleted row are filled with values that were never there.
    hidden = is_deleted() & F.lit(connector_of(table).delete_holds == "key")
    places = {*table.options.partition_by, *order_of(table).columns}
    values: dict[str, Expression] = {}
    checks: dict[str, Expression] = {}
    for name, data_type in wanted.items():
        column = declared.get(name)
        is_number = F.col(f"`_lake_number_{name}`") if fields[name].is_number is not None else None
        found = replace(fields[name], value=F.col(f"`{name}`"), is_number=is_number)
        change = _as_silver_has_it(found, column, data_type, table)
        if name in key_fields:
            of_key = _as_silver_has_it(key_fields[name], column, data_type, table)
            change = _of_record_key(key_fields[name], found, of_key, change)
        wrong = change.problem
        if column is not None and is_guessed_double(column) and isinstance(found.data_type, T.StringType):
            wrong = F.coalesce(wrong, F.when(beyond_double(found.value), F.lit(_UNDECLARED)))
        message = problem_of("bad_value", f"column {name}: ", wrong)
        if name in declared and name not in table.key:
            nothing = hidden | unavailable[name] if name in unavailable else hidden
            values[name] = F.when(nothing, F.lit(None)).otherwise(change.value)
            # A row that is gone is so whatever it was, as long as its place and its change's are known.
            checks[name] = F.when(~nothing if name in places else ~(nothing | is_deleted()), message)
        else:
            values[name] = change.value
            checks[name] = message
    return values, checks


def _first_problem(
    table: Table, values: Mapping[str, Expression], checks: Mapping[str, Expression], *, is_envelope: bool
) -> Expression:
    """The first thing that keeps an event from being applied, or null."""
    rowless = event_op() == "t"
    is_tombstone = F.col("_lake_tombstone")
    # A value of the key that cannot be read says more than that there is none.
    keyed = [*(checks[name] for name in table.key), *key_problems(table, values)]
    of_change = F.coalesce(
        F.when(~is_tombstone, F.col("_lake_malformed")),
        op_problem(),
        *([table_problem(table)] if table.options.table_include_list else []),
        *([truncate_problem()] if table.options.truncate == "quarantine" else []),
        *([truncate_of_one_problem()] if table.options.truncate == "apply" and is_of_several(table) else []),
        *(F.when(~rowless, wrong) for wrong in keyed),
        *(F.when(~rowless & ~is_tombstone, wrong) for wrong in partition_problems(table, values)),
        F.when(~is_tombstone, position_problem(table, is_envelope=is_envelope)),
        *([F.when(~is_tombstone, transaction_problem())] if table.options.consistent == "transaction" else []),
        *(wrong for name, wrong in checks.items() if name not in table.key),
        *([nothing_brings_it()] if not table.key else []),
    )
    found = F.when(~_means_nothing(table), of_change)
    if table.options.tombstones is None:
        found = F.when(is_tombstone, tombstone_problem()).otherwise(found)
    return F.when(F.col("_lake_key_unlike"), F.lit(MISREAD)).otherwise(found)


def _as_silver_has_it(found: Field, column: Column | None, data_type: T.DataType, table: Table) -> Converted:
    """A field as the column of silver: typed, and hashed where the column's policy says so."""
    change = converted(found.value, found, column, data_type, table.options.connector)
    if column is not None and column.hashed_from is not None:
        return _hashed(change, column.hashed_from)
    if column is not None and column.hashed_before is not None:
        return Converted(*masking.taken(change.value, column.hashed_before))
    return change


def _of_record_key(key: Field, value: Field, of_key: Converted, of_value: Converted) -> Converted:
    """A column of the key: of a delete, or where the value lacks it, as the record's key has it.

    Where a row has another value than its record's key by that name, the delete of that key would miss it. The row of a
    delete may hold fillers, and says nothing; a bare key may be any value that the records are partitioned by. What
    was to be masked is not shown.
    """
    is_keyed = is_deleted() | F.col("_lake_tombstone")
    is_there = key.value.isNotNull() & (is_keyed | value.value.isNull())
    is_other = ~is_keyed & F.col(KEY_TEXT).startswith("{") & (of_key.value != of_value.value)
    return Converted(
        F.when(is_there, of_key.value).otherwise(of_value.value),
        F.when(is_there, of_key.problem).when(is_other, F.lit(_OTHER_KEY)).otherwise(of_value.problem),
    )


def _key_is_unlike(events: DataFrame, is_wanted: Expression, keys: RecordKeys) -> Expression:
    """Whether a key is needed that is not of the form of the examples' keys."""
    if UNLIKE not in events.columns:
        return F.lit(False)
    return F.coalesce(is_wanted, F.lit(False)) & keys.is_unlike()


def _looked_at_for_masks(outline: Outline) -> list[Expression]:
    named = [F.when(condition, F.lit(name)) for name, condition in outline.absent.items()]
    lacks = F.array_compact(F.array(*named)) if named else F.array().cast("array<string>")
    return [
        F.coalesce(outline.unreadable, F.lit(False)).alias("_lake_unreadable"),
        lacks.alias("_lake_absent"),
        *(field.value.alias(f"_lake_further_{name}") for name, field in outline.further.items()),
    ]


def _hashed(change: Converted, data_type: T.DataType) -> Converted:
    message = F.lit(f"a value that is not exactly a {data_type.simpleString()}, and is not shown (policy: hash)")
    return Converted(masking.hashed(change.value, data_type), F.when(change.problem.isNotNull(), message))


def _masked(
    fields: Mapping[str, Field], further: Mapping[str, Field], hashes: Mapping[str, Expression], form: str | None
) -> tuple[Expression, str]:
    """What the quarantine keeps of an event: an unwrapped one with the columns, but for the excluded ones; its form.

    A list of what is kept, and not of what is left out: nothing else of the event can get through, such as another
    image of the row, or the same column written differently.
    """
    values = {name: hashes.get(name, F.col(f"`{name}`")) for name in fields}
    values |= {name: F.col(quoted(f"_lake_further_{name}")) for name in further}
    if form is None:
        return masking.masked_text(values, F.col("_lake_absent")), masking.MASKED_FORM
    types = {name: field.data_type for name, field in (*fields.items(), *further.items())}
    types |= dict.fromkeys(hashes, T.StringType())
    names = [name for name, data_type in types.items() if not isinstance(data_type, T.NullType)]
    event = F.to_json(F.struct(*(values[name].alias(name) for name in names)), EVENT_AS_JSON)
    known = {name: meaning for name, meaning in loads(form)["semantic_types"].items() if name not in hashes}
    kept = T.StructType([T.StructField(name, types[name]) for name in names])
    return event, dumps({"type": kept.jsonValue(), "semantic_types": known, "masked": True})


def _kept_hash(name: str, value: Expression, unavailable: Expression | None, table: Table) -> Expression:
    """What a masked event has of a hashed column: the hash, Debezium's placeholder, null, or that nothing was kept."""
    kept = F.coalesce(value, F.lit(masking.NOT_KEPT))
    placeholder = connector_of(table).placeholder
    if unavailable is not None and placeholder is not None:
        kept = F.when(unavailable, F.lit(placeholder.value)).otherwise(kept)
    return F.when(F.col(f"`{name}`").isNotNull(), kept)


def _may_be_unavailable(fields: Mapping[str, Field], table: Table, absent: Mapping[str, Expression]) -> Iterator[str]:
    """The declared columns, but for the key's, whose value an event of the table may lack."""
    placeholder = connector_of(table).placeholder
    ignored = table.options.null_updates == "ignore"
    for column in table.columns:
        is_replaced = placeholder is not None and placeholder.may_replace(fields[column.name].data_type)
        if column.name not in table.key and (is_replaced or ignored or column.name in absent):
            yield column.name


def _unavailable(outline: Outline, table: Table) -> Expression:
    """The names of the columns that an event says nothing of, or null.

    Such are the values that the log lacks, which Debezium fills with a placeholder (TOAST, LOBs; as text, bytes, base64
    of these, or the only item of an array), columns that an update leaves out, and nulls of an update where the
    declaration ignores them. A column that the event's table did not have, or that nobody declared, is named once more,
    behind `OPTIONAL`; so is each of a delete, which is applied without them.
    """
    fields, absent = outline.fields, outline.absent
    op = fields["__op"].value
    placeholder = connector_of(table).placeholder if outline.placeholders else None
    named = []
    for name in _may_be_unavailable(fields, table, absent):
        field = fields[name]
        lacks = absent.get(name, F.lit(False))
        if table.options.null_updates == "ignore":
            lacks = lacks | (field.value.isNull() & F.coalesce(op == "u", F.lit(True)))
        if placeholder is not None:
            replaced = placeholder.replaces(field.value, field.data_type)
            lacks = lacks | replaced
            named.append(F.when(replaced & (op == "d"), F.lit(OPTIONAL + name)))
        named.append(F.when(lacks, F.lit(name)))
        if name in outline.optional and name in absent:
            named.append(F.when(absent[name], F.lit(OPTIONAL + name)))
    if not named:
        return F.lit(None).cast("string")
    return F.nullif(F.concat_ws(UNAVAILABLE_SEPARATOR, *named), F.lit(""))
