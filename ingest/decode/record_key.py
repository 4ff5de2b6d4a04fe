"""The keys of Kafka's records: what a delete deletes, where the event's value does not say it.

Debezium gives each record the columns of the row's primary key, or of `message.key.columns`, as its key. It is the
authority for the key columns of a delete: the event's `before` may be null or hold fillers, and a tombstone has no
value at all. Sources: Debezium's documentation of change event keys, and of `delete.tombstone.handling.mode`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from json import dumps, loads

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from ingest.config.schema_files import semantic_types
from ingest.config.tables import Table
from ingest.decode.avro_schema import without_logical_types
from ingest.decode.fields import Field
from ingest.decode.json_characters import has_half_a_character
from ingest.decode.json_numbers import wide_decimals, with_exact_fractions
from ingest.decode.registry import Registry, parsed, schema_of_file
from ingest.errors import InputError
from ingest.schema.connect import connect_schema

# The text of a record's key as a JSON object, where it was looked at.
KEY_TEXT = "_lake_key_text"
# A whole JSON string. Any other bare value is its own text, as Connect's StringConverter writes it: of `1.10` and
# `10 Downing Street` a JSON parser makes 1.1 and 10.
_JSON_STRING = r'^"(?:[^"\\]|\\.)*+"$'
# Not the text of a value: another kind of JSON, or a struct as that converter writes it.
_NO_SCALAR = r"^(\s*[\[{]|Struct\{)"


@dataclass(frozen=True)
class RecordKeys:
    """How the keys of some records are read: as JSON, with or without its schema, or as Avro.

    Attributes
    ----------
    schemas:
        Of Avro by the id of its schema: the schemas by their ids.
    id_bytes:
        How many bytes such an id has.
    bare:
        The schema of Avro without an id (`key_schema_file`).
    meanings:
        The semantic types of the key's columns, where a schema says them.
    """

    schemas: Mapping[str, str] = field(default_factory=dict)
    id_bytes: int = 4
    bare: str | None = None
    meanings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, spark: SparkSession, table: Table, registry: Registry | None, ids: Iterable[str], example: bytes | None
    ) -> RecordKeys:
        """How keys with schemas of these ids are read, and others like the example.

        Raises
        ------
        InputError
            The registry does not answer; the declared schema is none.
        """
        only = table.key[0] if len(table.key) == 1 else None
        if path := table.options.key_schema_file:
            schema, problem = parsed(spark, schema_of_file(path), only)
            if problem:
                raise InputError(
                    problem, where=path, expected="the Avro schema of a record", action="correct it; nothing was landed"
                )
            return cls(bare=without_logical_types(schema), meanings=semantic_types(without_logical_types(schema)))
        if registry is None:
            return cls(meanings=_meanings_of_json(example))
        schemas, meanings = {}, dict(_meanings_of_json(example))
        for schema_id, written in registry.schemas(sorted(ids)).items():
            schema, problem = parsed(spark, written, only)
            if not problem:
                schemas[schema_id] = without_logical_types(schema)
                meanings |= semantic_types(schemas[schema_id])
        return cls(schemas, registry.id_bytes, meanings=meanings)

    def text(self, table: Table) -> Expression:
        """The key of a record (`_lake_key`) as the text of a JSON object or scalar; null where it cannot be read.

        Half a character would be read as a question mark, and what it deletes is another row.
        """
        key = F.col("_lake_key")
        if self.bare:
            return F.to_json(from_avro(key, self.bare, {"mode": "PERMISSIVE"}))
        text = F.when(~has_half_a_character(key.cast("string")), key.cast("string"))
        text = with_exact_fractions(text, wide_decimals(table))
        keys = F.json_object_keys(text)
        is_wrapped = text.rlike(r'^\s*\{\s*"(schema|payload)"\s*:') & F.array_contains(keys, "payload")
        found = F.when(is_avro(), F.lit(None)).when(
            F.coalesce(is_wrapped & (F.size(F.array_except(keys, F.array(F.lit("schema"), F.lit("payload")))) == 0),
                       F.lit(False)),
            F.get_json_object(text, "$.payload"),
        ).otherwise(text)  # fmt: skip
        for schema_id, schema in self.schemas.items():
            value = from_avro(F.expr(f"substring(_lake_key, {2 + self.id_bytes})"), schema, {"mode": "PERMISSIVE"})
            is_its = is_avro() & (schema_id_of("_lake_key", self.id_bytes) == schema_id)
            found = F.when(F.coalesce(is_its, F.lit(False)), F.to_json(value)).otherwise(found)
        return found

    def is_unlike(self) -> Expression:
        """Whether a key is there that is of none of the known schemas. Never null."""
        if self.bare:
            return F.lit(False)
        return F.coalesce(is_avro() & ~schema_id_of("_lake_key", self.id_bytes).isin([*self.schemas, ""]), F.lit(False))

    def with_fields(
        self, events: DataFrame, table: Table, of_value: Mapping[str, Field]
    ) -> tuple[DataFrame, dict[str, Field]]:
        """The events with a column for each column of the table's key in their records' keys, and these as fields.

        A value is null where `KEY_TEXT` has none. What it means says the schema of the value where the key has none,
        and of a tombstone that of the last value: all are of one connector. Each is a column of its own, as what is
        made of one asks for it many times.
        """
        found = self._fields(table)
        semantic_types = {column.name: column.told for column in table.columns}
        columns = {f"_lake_of_key_{name}": field.value for name, field in found.items()}
        fields = {
            name: replace(
                field,
                value=F.col(f"`_lake_of_key_{name}`"),
                semantic_type=field.semantic_type or of_value[name].semantic_type or semantic_types[name],
            )
            for name, field in found.items()
        }
        return (events.withColumns(columns) if columns else events), fields

    def _fields(self, table: Table) -> dict[str, Field]:
        """The columns of the table's key in a record's key, from its `KEY_TEXT`."""
        text = F.col(KEY_TEXT)
        members = F.from_json(text, "map<string,string>")

        def value(name: str) -> Expression:
            # As elsewhere, a name may be written in another case.
            by_case = F.map_values(F.map_filter(members, lambda key, _: F.lower(key) == name.lower()))
            member = F.coalesce(F.get_json_object(text, f"$['{name}']"), F.get(by_case, 0))
            if len(table.key) > 1:
                return member
            is_string = text.rlike(_JSON_STRING)
            scalar = F.coalesce(F.when(is_string, F.get_json_object(text, "$")), text)
            return F.when(text.startswith("{"), member).otherwise(F.when(~text.rlike(_NO_SCALAR), scalar))

        def is_number(name: str) -> Expression:
            # Of a decimal: its number, and not the base64 of a string.
            return ~F.coalesce(text.rlike(rf'(?i)"{re.escape(name)}"\s*:\s*"|^"'), F.lit(False))

        return {
            name: Field(value(name), T.StringType(), self.meanings.get(name), is_number=is_number(name))
            for name in table.key
        }


def is_plainly_of(table: Table, fields: Mapping[str, Field]) -> Expression:
    """Whether a record's key is JSON or a bare value that says the same key as an event's fields. Never null.

    Only what a converter writes of numbers and simple texts is told: to read all keys takes a quarter of the time of
    decoding.
    """
    if not table.key:
        return F.lit(True)
    types = {column.name: column.source_type for column in table.columns}
    key, members, value = F.col("_lake_key").cast("string"), [], F.lit("")
    for name in table.key:
        value = fields[name].value.cast("string")
        quote = F.lit('"' if isinstance(types[name], T.StringType) else "")
        members.append(F.concat(F.lit(f'"{name}":'), quote, value, quote))
    struct = F.concat(F.lit("{"), F.concat_ws(",", *members), F.lit("}"))
    found = (key == struct) | key.endswith(F.concat(F.lit('"payload":'), struct, F.lit("}")))
    return F.coalesce(found | (key == value) if len(table.key) == 1 else found, F.lit(False))


def is_avro() -> Expression:
    """Whether the bytes of a key begin as Avro with the id of its schema does."""
    return F.coalesce(F.hex(F.substring("_lake_key", 1, 1)) == "00", F.lit(False))


def schema_id_of(column: str, id_bytes: int) -> Expression:
    """The id of a schema behind the first byte, as a text of digits."""
    return F.conv(F.hex(F.substring(column, 2, id_bytes)), 16, 10)


def _meanings_of_json(example: bytes | None) -> Mapping[str, str]:
    try:
        key = loads(example or b"null")
        found = connect_schema(dumps(key.get("schema"))) if isinstance(key, dict) and "payload" in key else None
    except (ValueError, RecursionError):
        return {}
    return found.meanings if found else {}
