"""Events that the quarantine kept as JSON, to decoded changes once more."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from json import loads

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.tables import Table
from ingest.decode.decoded import UNWRAPPED, Part
from ingest.decode.fields import EVENT_AS_JSON
from ingest.decode.json_events import JsonSource, debezium_parts, json_parts
from ingest.decode.record_key import RecordKeys
from ingest.decode.typed_events import typed_part
from ingest.schema import masking
from ingest.schema.change import READ
from ingest.schema.evolution import Reading


def texts_again(events: DataFrame, table: Table, keys: RecordKeys) -> list[Part]:
    """The parts of events that the quarantine kept as JSON.

    Parameters
    ----------
    events:
        Columns `value` string, `_lake_form` string (see `ingest.schema.change`) and those of `READ`.
    """
    parts: list[Part] = []
    for (form,) in events.select("_lake_form").distinct().collect():
        own = events.where(F.col("_lake_form").eqNullSafe(F.lit(form))).select("value", *READ)
        known = loads(form) if form is not None else {}
        if "type" in known:
            kept = _as_json_has_it(T.StructType.fromJson(known["type"])).simpleString()
            event = F.from_json("value", kept, EVENT_AS_JSON).alias("event")
            # The text itself is kept again where it waits on.
            text = [F.col("value").cast("binary").alias("_lake_value")] if known.get("masked") else []
            found = [typed_part(own.select(event, *text, *READ), known["semantic_types"], keys)]
        else:
            # What was decoded before it was set aside is an unwrapped event, whatever it was read from.
            parts_of = debezium_parts if known else json_parts
            found = parts_of(JsonSource(own, keys, are_records=True), table)
        if known.get("masked"):
            found = [Part(part.version, partial(_decode_masked, part, form)) for part in found]
        elif known == UNWRAPPED:
            found = [Part(part.version, partial(_decode_again, part)) for part in found]
        parts += found
    return parts


def _as_json_has_it(kept: T.DataType) -> T.DataType:
    """The type of an event that was kept as JSON, whose objects have texts for their keys."""
    if isinstance(kept, T.StructType):
        return T.StructType([T.StructField(item.name, _as_json_has_it(item.dataType)) for item in kept])
    if isinstance(kept, T.ArrayType):
        return T.ArrayType(_as_json_has_it(kept.elementType))
    if isinstance(kept, T.MapType):
        return T.MapType(T.StringType(), _as_json_has_it(kept.valueType))
    return kept


def _decode_masked(part: Part, form: str, table: Table, reading: Reading) -> DataFrame:
    decoded = part.decode(masking.taken_as_hashed(table), reading)
    return decoded.withColumn("_lake_form", F.when(F.col("_lake_raw").isNotNull(), F.lit(form)))


def _decode_again(part: Part, table: Table, reading: Reading) -> DataFrame:
    """What was decoded before: its values are written as silver's are, and no more as the source writes them."""
    columns = tuple(
        replace(column, semantic_type=None, decimal="number", binary="base64", unsigned=False)
        for column in table.columns
    )
    return part.decode(replace(table, columns=columns), reading)
