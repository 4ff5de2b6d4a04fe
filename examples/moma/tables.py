"""The tables of MoMA, a museum's collection: artists and their works, in one PostgreSQL database as in the article."""

from __future__ import annotations

from typing import Final

from examples.generating.model import Column, Table

PREFIX: Final = "moma"  # topic.prefix of its connector

ARTISTS: Final = Table(
    "postgresql", "moma", "public", "artists",
    (
        Column("artist_id", "int32", nullable=False),
        Column("name", "string"),
        Column("nationality", "string"),
        Column("gender", "string"),
        Column("birth_year", "int32"),
        Column("death_year", "int32"),
    ),
    prefix=PREFIX,
)  # fmt: skip
ARTWORKS: Final = Table(
    "postgresql", "moma", "public", "artworks",
    (
        Column("artwork_id", "int32", nullable=False),
        Column("title", "string"),
        Column("artist_id", "int32", nullable=False, references="public.artists"),
        Column("name", "string"),
        Column("date", "int32"),
        *(
            Column(name, "string")
            for name in (
                "medium", "dimensions", "acquisition_date", "credit", "catalogue", "department", "classification",
                "object_number", "diameter_cm", "circumference_cm", "height_cm", "length_cm", "width_cm", "depth_cm",
                "weight_kg",
            )
        ),
        Column("durations", "int32"),
    ),
    prefix=PREFIX,
)  # fmt: skip
TABLES: Final = (ARTISTS, ARTWORKS)
