"""The six tables of Pagila, a DVD rental shop's database, that the article captures from PostgreSQL.

Source of columns, keys, types and defaults: Pagila's schema (github devrimgunduz/pagila, `pagila-schema.sql`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final, Literal

import pyarrow as pa

ColumnType = Literal["int", "text", "numeric", "timestamptz", "text[]", "enum", "tsvector"]
Value = int | str | Decimal | datetime | list[str | None] | None
Row = Mapping[str, Value]
Key = tuple[Value, ...]

DATABASE: Final = "pagila"  # also the connector's topic.prefix
SCHEMA: Final = "public"
_EPOCH: Final = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Column:
    """A column. `filler`: what a delete's `before` has of it, as the log holds nothing but the key.

    Debezium fills in the column's default, else the zero of a type that may not be null (PostgreSQL, replica identity
    default). Of `numeric` the digits are given.
    """

    name: str
    type: ColumnType
    filler: Value = None
    nullable: bool = False
    digits: tuple[int, int] = (4, 2)

    @property
    def arrow(self) -> pa.DataType:
        """The type of its values; times are of UTC."""
        if self.type == "numeric":
            return pa.decimal128(*self.digits)
        known = {"int": pa.int32(), "timestamptz": pa.timestamp("us"), "text[]": pa.list_(pa.string())}
        return known.get(self.type, pa.string())


@dataclass(frozen=True)
class Table:
    """A table of the schema `public`."""

    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...] = field(repr=False)

    @property
    def topic(self) -> str:
        """Debezium's topic of its changes."""
        return f"{DATABASE}.{SCHEMA}.{self.name}"

    @property
    def full_name(self) -> str:
        """`<schema>.<table>`."""
        return f"{SCHEMA}.{self.name}"

    @property
    def arrow_schema(self) -> pa.Schema:
        """The exact types of its rows."""
        return pa.schema([pa.field(column.name, column.arrow) for column in self.columns])

    def key_of(self, row: Row) -> Key:
        """The primary key of a row."""
        return tuple(row[name] for name in self.key)

    def key_and_fillers(self, row: Row) -> Row:
        """What is left of a deleted row: its key, and fillers."""
        return {column.name: row[column.name] if column.name in self.key else column.filler for column in self.columns}


_LAST_UPDATE: Final = Column("last_update", "timestamptz", _EPOCH)
ACTOR: Final = Table(
    "actor",
    ("actor_id",),
    (Column("actor_id", "int"), Column("first_name", "text", ""), Column("last_name", "text", ""), _LAST_UPDATE),
)
CATEGORY: Final = Table(
    "category", ("category_id",), (Column("category_id", "int"), Column("name", "text", ""), _LAST_UPDATE)
)
FILM: Final = Table(
    "film",
    ("film_id",),
    (
        Column("film_id", "int"),
        Column("title", "text", ""),
        Column("description", "text", nullable=True),
        Column("release_year", "int", nullable=True),
        Column("language_id", "int", 0),
        Column("original_language_id", "int", nullable=True),
        Column("rental_duration", "int", 3),
        Column("rental_rate", "numeric", Decimal("4.99")),
        Column("length", "int", nullable=True),
        Column("replacement_cost", "numeric", Decimal("19.99"), digits=(5, 2)),
        Column("rating", "enum", "G", nullable=True),
        _LAST_UPDATE,
        Column("special_features", "text[]", nullable=True),
        Column("fulltext", "tsvector", ""),
    ),
)
FILM_ACTOR: Final = Table(
    "film_actor", ("actor_id", "film_id"), (Column("actor_id", "int"), Column("film_id", "int"), _LAST_UPDATE)
)
FILM_CATEGORY: Final = Table(
    "film_category", ("film_id", "category_id"), (Column("film_id", "int"), Column("category_id", "int"), _LAST_UPDATE)
)
LANGUAGE: Final = Table(
    "language", ("language_id",), (Column("language_id", "int"), Column("name", "text", " " * 20), _LAST_UPDATE)
)
TABLES: Final = (ACTOR, CATEGORY, FILM, FILM_ACTOR, FILM_CATEGORY, LANGUAGE)
