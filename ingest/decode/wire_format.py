"""Records of Kafka to parts of one schema each: values that are JSON, or Avro with its schema elsewhere.

Sources of the forms: Confluent's "Wire format" of its Schema Registry (0x00, four bytes of a schema id, big-endian,
Avro), Apicurio's serializers (the same with eight bytes), and bare Avro by a schema that is declared as a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from json import dumps

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from ingest.config.schema_files import defaults_of_nullables, semantic_types
from ingest.config.tables import Table
from ingest.decode.avro_schema import readable
from ingest.decode.decoded import MISREAD, UNLIKE, Part
from ingest.decode.json_events import JsonSource, json_parts, tombstones_part
from ingest.decode.json_forms import EXAMPLES
from ingest.decode.record_key import RecordKeys, is_avro, schema_id_of
from ingest.decode.registry import MOST_UNKNOWN, Registry, WrittenSchema, parsed, schema_of_file
from ingest.decode.set_aside import texts_again
from ingest.decode.typed_events import typed_part
from ingest.errors import InputError
from ingest.schema import masking
from ingest.schema.change import ORIGIN, READ, metadata_columns, problem, reason_of
from ingest.schema.evolution import Reading, Version
from ingest.spark.shared import Shared

# What is read of a record; Spark's Kafka source has these columns among others.
RECORD_COLUMNS = T.StructType(
    [
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
    ]
)
# `_lake_form` of a quarantined event whose `_lake_raw` is a record's value as it was.
RECORD_FORM = dumps({"record": "value"})
_TOMBSTONE, _JSON, _BARE, _ID, _BAD = "tombstone", "json", "bare", "id:", "!"


def record_parts(
    records: DataFrame,
    table: Table,
    registry: Registry | None,
    *,
    thorough: bool,
    by_examples: bool,
    events: int = 0,
) -> list[Part]:
    """The parts of some records: one for each schema, one for JSON, one for what holds no change.

    One aggregate finds which kinds of values there are, and brings no more than those to the driver.

    Parameters
    ----------
    records:
        Columns `key` binary, `value` binary, `partition` int, `offset` bigint, as Spark's Kafka source has them
        (further columns are not looked at); `order` bigint where several have one offset (`ingest.sources.raw`); and
        `_lake_file` string where they come from files. A null value is a tombstone.
    registry:
        Of the table's connection; None where it has none.
    thorough, by_examples, events:
        See `ingest.decode.json_events.json_parts`.

    Raises
    ------
    InputError
        The registry does not answer, or the records need one and the connection has none.
    """
    file = F.col("_lake_file") if "_lake_file" in records.columns else F.lit(table.options.topic)
    order = F.col("order") if "order" in records.columns else F.lit(0)
    values = records.select(
        "value",
        F.col("partition").alias("_lake_partition"),
        F.col("offset").alias("_lake_start_offset"),
        # One without an offset is known by its place among the others.
        F.when(F.col("offset").isNull(), F.monotonically_increasing_id())
        .otherwise(order)
        .cast("bigint")
        .alias("_lake_order"),
        file.alias("_lake_file"),
        F.col("key").alias("_lake_key"),
    )
    return _parts(values, table, registry, thorough=thorough, by_examples=by_examples, events=events)


def parts_again(events: DataFrame, table: Table, registry: Registry | None) -> list[Part]:
    """The parts of quarantined events, whatever they were read from.

    Parameters
    ----------
    events:
        Columns `_lake_raw` binary, `_lake_form` string and those of `READ`.
    """
    table = table.in_events
    is_record = F.coalesce(F.col("_lake_form") == RECORD_FORM, F.lit(False))
    values = events.where(is_record).select(F.col("_lake_raw").alias("value"), *READ)
    texts = events.where(~is_record).select(F.col("_lake_raw").cast("string").alias("value"), "_lake_form", *READ)
    keys = _keys(texts, table, registry)
    return [*_parts(values, table, registry), *texts_again(texts, table, keys)]


def _keys(values: DataFrame, table: Table, registry: Registry | None) -> RecordKeys:
    """How the keys of some records are read: one aggregate."""
    if not table.key:
        return RecordKeys()
    found = values.agg(*_seen_of_keys(registry)).first()
    return RecordKeys.of(values.sparkSession, table, registry, *(found or ((), None)))


def _seen_of_keys(registry: Registry | None) -> list[Expression]:
    """What is looked at of keys: the ids of their schemas, and one that is no Avro."""
    schema_id, text = _seen_of_key(registry)
    return [F.collect_set(schema_id).alias("key_ids"), F.max(text).alias("key_example")]


def _parts(
    values: DataFrame,
    table: Table,
    registry: Registry | None,
    *,
    thorough: bool = False,
    by_examples: bool = False,
    events: int = 0,
) -> list[Part]:
    kind = _kind(table, registry)
    # The form of a table's last Avro records and the schemas of their keys: the next are taken to be of it, until one
    # is not.
    last_forms = Shared.of(values.sparkSession).remembered("form of the last records")
    known: tuple[str, RecordKeys] | None = last_forms.pop(table.relation, None)
    if by_examples and not table.is_masked and (alike := _parts_alike(values, table, registry, kind, known, events)):
        parts, form, keys = alike
        if form != _JSON:
            last_forms[table.relation] = (form, keys)
        return parts
    found = values.agg(F.collect_set(kind).alias("kinds"), *_seen_of_keys(registry)).first()
    assert found is not None
    kinds = sorted(found["kinds"])
    keys = RecordKeys()
    if table.key and kinds:
        keys = RecordKeys.of(values.sparkSession, table, registry, found["key_ids"], found["key_example"])
    ids = [name.removeprefix(_ID) for name in kinds if name.startswith(_ID)]
    if ids and registry is None and _JSON not in kinds:
        raise InputError(
            "the values begin with 0x00 and the id of a schema, and no registry is declared",
            where=table.relation,
            expected=f"`registry` of the connection '{table.options.connection}'",
            action="declare it in connections.yml; nothing of this batch was landed",
        )
    by_schema, reasons, lacks = _schemas(values.sparkSession, registry, ids)
    parts = []
    for schema, its_ids in by_schema.items():
        own = values.where(kind.isin([_ID + schema_id for schema_id in its_ids]))
        assert registry is not None
        parts.append(_avro_part(own, _payload(registry), schema, f"schema id {', '.join(its_ids)}", keys))
    if _BARE in kinds:
        schema, path = _declared_schema(values, table)
        parts.append(_avro_part(values.where(kind == _BARE), F.col("value"), schema, path, keys))
    of_text = {_JSON, _TOMBSTONE} & set(kinds)
    if of_text:
        own = values if len(kinds) == len(of_text) else values.where(kind.isin(*of_text))
        texts = _texts(own, keys, events)
        options = {"thorough": thorough, "by_examples": by_examples}
        parts += json_parts(texts, table, **options) if _JSON in of_text else [tombstones_part(texts)]
    read = {_TOMBSTONE, _JSON, _BARE, *(_ID + schema_id for its_ids in by_schema.values() for schema_id in its_ids)}
    if set(kinds) - read:
        # Not by their own kinds, which may be as many as there are values.
        aside = values.withColumn("_lake_kind", kind).where(~F.col("_lake_kind").isin(*sorted(read)))
        parts.append(_part_aside(aside, reasons, lacks))
    return parts


def _schemas(
    spark: SparkSession, registry: Registry | None, ids: Sequence[str]
) -> tuple[dict[str, list[str]], dict[str, str], Expression]:
    """The ids of each schema that can be read, of each other one of the registry why it cannot, and what is said of all
    other ids (by `_lake_kind`)."""
    if registry is None:
        return {}, {}, F.lit("0x00 and the id of a schema, and the connection has no registry")
    reasons: dict[str, str] = {}
    by_schema: dict[str, list[str]] = {}
    found = registry.schemas(ids)
    for schema_id, written in found.items():
        schema, why = parsed(spark, written)
        if schema:
            by_schema.setdefault(schema, []).append(schema_id)
        else:
            reasons[schema_id] = f"schema id {schema_id} {why}"
    lacks = " is not in the registry"
    if len(ids) - len(found) > MOST_UNKNOWN:
        lacks += (
            f", or was not asked for behind {MOST_UNKNOWN} that are not. Do the values begin with ids of it? See "
            "`id_bytes` of the registry; values without ids, or with ids in their headers, need `schema_file`"
        )
    its_id = F.expr(f"substring(_lake_kind, {len(_ID) + 1})")
    return by_schema, reasons, F.concat(F.lit("schema id "), its_id, F.lit(lacks))


def _texts(values: DataFrame, keys: RecordKeys, events: int, *more: Expression) -> JsonSource:
    lines = values.select(_text().alias("value"), *more, *READ)
    return JsonSource(lines, keys, are_records=True, events=events)


def _text() -> Expression:
    return F.col("value").cast("string")


def _parts_alike(
    values: DataFrame,
    table: Table,
    registry: Registry | None,
    kind: Expression,
    known: tuple[str, RecordKeys] | None,
    events: int,
) -> tuple[list[Part], str, RecordKeys] | None:
    """All records as one part, of the form that is known or that the first of them have; that form, and their keys'.

    None where the first are not of one form. It is read in one pass: to see which forms there are takes another one. A
    record of another form is `MISREAD`.
    """
    rows: list[Row] = []
    if known:
        kinds, keys = {known[0]}, known[1]
    else:
        text = F.when(kind == _JSON, _text()).alias("text")
        rows = values.select(kind.alias("kind"), text, *_seen_of_key(registry)).limit(EXAMPLES).collect()
        kinds = {row["kind"] for row in rows} - {_TOMBSTONE}
        if len(kinds) != 1:
            return None
        keys = RecordKeys()
        if table.key:
            ids = {row["key_id"] for row in rows if row["key_id"] is not None}
            example = next((row["key_text"] for row in rows if row["key_text"] is not None), None)
            keys = RecordKeys.of(values.sparkSession, table, registry, ids, example)
    (only,) = kinds
    unlike = ~kind.isin(only, _TOMBSTONE)
    if only == _JSON:
        texts = [row["text"] for row in rows if row["text"] is not None]
        source = replace(_texts(values, keys, events, unlike.alias(UNLIKE)), first=texts)
        return json_parts(source, table, by_examples=True), only, keys
    if only == _BARE:
        schema, path = _declared_schema(values, table)
        return [_avro_part(values, F.col("value"), schema, path, keys, unlike)], only, keys
    schema_id = only.removeprefix(_ID)
    written = registry.schemas([schema_id]).get(schema_id) if registry and only.startswith(_ID) else None
    schema, problem = parsed(values.sparkSession, written) if written else ("", "is not there")
    if registry is None or problem:
        return None
    return [_avro_part(values, _payload(registry), schema, f"schema id {schema_id}", keys, unlike)], only, keys


def _seen_of_key(registry: Registry | None) -> list[Expression]:
    """What is looked at of one key: the id of its schema, or itself where it is no Avro."""
    schema_id = F.when(is_avro(), schema_id_of("_lake_key", registry.id_bytes if registry else 4))
    return [schema_id.alias("key_id"), F.when(~is_avro(), F.col("_lake_key")).alias("key_text")]


def _payload(registry: Registry) -> Expression:
    return F.expr(f"substring(value, {2 + registry.id_bytes})")


def _kind(table: Table, registry: Registry | None) -> Expression:
    """What a record's value is: a tombstone, JSON, bare Avro, `id:` and its schema's id, or `!` and what is wrong."""
    value, declared = F.col("value"), table.options.format
    id_bytes = registry.id_bytes if registry else 4
    first = F.hex(F.substring("value", 1, 1))
    schema_id = F.conv(F.hex(F.substring("value", 2, id_bytes)), 16, 10)
    unknown = F.concat(
        F.lit(f"{_BAD}the value is empty or of another form: its first byte is 0x"),
        F.lower(first),
        F.lit(", expected 0x00 and the id of a schema" + ("" if declared == "avro" else ", or JSON")),
    )
    is_cut = F.length("value") < 1 + id_bytes
    prefixed = F.when(
        is_cut, F.concat(F.lit(f"{_BAD}truncated: "), F.length("value"), F.lit(" bytes hold no id of a schema"))
    ).otherwise(F.concat(F.lit(_ID), schema_id))
    # No text begins with a control character, but for white space, or with a byte that is not ASCII's.
    is_text = first.between("20", "7E") | first.isin("09", "0A", "0D")
    other = F.when(is_text, F.lit(_JSON)).otherwise(unknown)
    kind = F.when(F.col("_lake_start_offset").isNull(), F.lit(f"{_BAD}a record without an offset")).when(
        value.isNull(), F.lit(_TOMBSTONE)
    )
    if table.options.schema_file and declared != "json":
        return kind.when(F.length(value) == 0, unknown).otherwise(F.lit(_BARE))
    if declared == "json":
        return kind.when(F.length(value) == 0, unknown).otherwise(F.lit(_JSON))
    return kind.when(first == "00", prefixed).otherwise(unknown if declared == "avro" else other)


def _declared_schema(values: DataFrame, table: Table) -> tuple[str, str]:
    path = table.options.schema_file
    assert path is not None
    schema, problem = parsed(values.sparkSession, WrittenSchema(schema_of_file(path).text))
    if problem:
        raise InputError(
            problem, where=path, expected="the Avro schema of a record", action="correct it; nothing was landed"
        )
    return schema, path


def _avro_part(
    values: DataFrame,
    payload: Expression,
    schema: str,
    name: str,
    keys: RecordKeys,
    unlike: Expression | None = None,
) -> Part:
    schema = readable(schema)
    # PERMISSIVE gives a record of nulls for what does not decode.
    event = from_avro(payload, schema, {"mode": "PERMISSIVE"}).alias("event")
    examined = [] if unlike is None else [unlike.alias(UNLIKE)]
    rows = values.select(event, F.col("value").alias("_lake_value"), *examined, *READ)
    part = typed_part(rows, semantic_types(schema), keys, RECORD_FORM, defaults_of_nullables(schema))

    def decode(table: Table, reading: Reading) -> DataFrame:
        decoded = part.decode(table, reading)
        taken = [*(column.name for column in table.columns), *(column.name for column in metadata_columns(table))]
        # A column of the key may have come from the record's key.
        of_record = F.col("_lake_record_key").isNotNull()
        is_null = [F.col(f"`{name}`").isNull() | (of_record if name in table.key else F.lit(False)) for name in taken]
        is_nothing = reduce(lambda left, right: left & right, is_null)
        _, why = reason_of(F.col("_lake_problem"))
        message = problem("invalid_avro", f"the value does not decode with {name}, or holds none of the columns: ", why)
        does_not_decode = (F.col("_lake_problem") != MISREAD) & ~F.col("_lake_ignored") & is_nothing
        return decoded.withColumn("_lake_problem", F.when(does_not_decode, message).otherwise(F.col("_lake_problem")))

    return Part(part.version, decode)


def _part_aside(values: DataFrame, reasons: dict[str, str], lacks: Expression) -> Part:
    """Values that are none of an event, whatever they are.

    Parameters
    ----------
    told:
        Why some schemas cannot be read, by their ids.
    lacks:
        What is said of the other ids.
    """

    def decode(table: Table, _: Reading) -> DataFrame:
        kind = F.col("_lake_kind")
        found = F.when(
            kind.startswith(_BAD), problem("invalid_record", F.expr(f"substring(_lake_kind, {len(_BAD) + 1})"))
        )
        for schema_id, reason in reasons.items():
            found = found.when(kind == _ID + schema_id, problem("unknown_schema", reason))
        found = found.otherwise(problem("unknown_schema", lacks))
        rows, raw, form, key = values, F.col("value"), RECORD_FORM, F.col("_lake_key")
        if table.is_masked:
            rows, form, key = masking.with_salt(values, table), masking.MASKED_FORM, F.lit(None).cast("binary")
            told_of = F.coalesce(masking.not_kept(F.col("value"), table), F.lit("not kept: a record without a value"))
            found, raw = F.concat(found, F.lit("; "), told_of), told_of.cast("binary")
        return rows.select(
            *_nulls((column.name, column.data_type) for column in table.columns),
            *_nulls((column.name, column.data_type) for column in metadata_columns(table)),
            F.lit("false").alias("__deleted"),
            *ORIGIN,
            raw.alias("_lake_raw"),
            F.lit(form).alias("_lake_form"),
            key.alias("_lake_record_key"),
            found.alias("_lake_problem"),
            F.lit(None).cast("string").alias("_lake_unavailable"),
            F.lit(False).alias("_lake_ignored"),
            F.lit(False).alias("_lake_says_deletes"),
        )

    return Part(Version((), whole=False), decode)


def _nulls(columns: Iterable[tuple[str, T.DataType]]) -> Sequence[Expression]:
    return [F.lit(None).cast(data_type).alias(name) for name, data_type in columns]
