"""What follows from where a table of the lake is: by its place it is known who else reads it.

A place `s3://...` is a bucket of S3: its tables are read by Athena, which has their names from Glue, reads Hudi's table
version 6, and of merge-on-read tables without log files only what is compacted.
"""

from __future__ import annotations

# In the name of a partition's folder, what Hive has for rows without a value, and reads as null.
HIVES_NULL = "__HIVE_DEFAULT_PARTITION__"
_S3 = "s3://"
# What Athena reads: its engine has Hudi 0.14.
_FOR_ATHENA = 6


def is_on_s3(place: str) -> bool:
    """Whether a folder or table is in a bucket of S3."""
    return place.startswith(_S3)


def is_absolute(place: str) -> bool:
    """Whether a location says by itself where it is, and not within the folder of a schema."""
    return "://" in place or place.startswith("/")


def required_table_version(place: str) -> int | None:
    """The version of the format of Hudi's tables that readers of a place need, where none is declared; None where any
    will do."""
    return _FOR_ATHENA if is_on_s3(place) else None
