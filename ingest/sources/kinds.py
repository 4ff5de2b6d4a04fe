"""Which source a connection is of, and a position: the one place where their kinds are told apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from ingest.config.connections import EventConnection, installed_source
from ingest.config.tables import Table
from ingest.errors import InputError
from ingest.sources.base import Source
from ingest.sources.files import FilesSource
from ingest.sources.kafka import KafkaSource
from ingest.sources.kinesis import KinesisSource

_OWN: Mapping[str, type[Source[Any]]] = {"files": FilesSource, "kafka": KafkaSource, "kinesis": KinesisSource}
# As sentences name them; any other is named as its connections are.
_NAMES = {"kafka": "Kafka", "kinesis": "Kinesis"}


def source_class(connection: EventConnection) -> type[Source[Any]]:
    """The class of a connection's source: one of the project's own, else the one that is installed for its type."""
    own = _OWN.get(connection.type)
    # Only a class that has been found here or there can have made the connection.
    found: type[Source[Any]] = own or installed_source(connection.type)
    return found


def source_of(spark: SparkSession, connection: EventConnection) -> Source[Any]:
    """The source of a connection."""
    return source_class(connection)(spark, connection)


def delivers_files(table: Table) -> bool:
    """Whether a table's events come in files, whose lines are their order."""
    return source_class(table.connection).delivers_files


def position_kind(position: str) -> str:
    """The type of connection that a position was written by.

    Positions of files and of Kafka are told by their form: they are older than the rule that a position names its kind,
    and lakes hold them.
    """
    if not position.startswith("{"):
        return "files"
    content = json.loads(position)
    return "kafka" if "kafka" in content else str(content.get("kind"))


def require_kind(table: Table, position: str) -> str:
    """The position, which must be of the kind of the table's connection.

    Raises
    ------
    InputError
        It is of another: what was read of one source says nothing of another.
    """
    kind = position_kind(position)
    if kind == table.connection.type:
        return position
    command = f"`lake position {table.alone} --to"
    unknown = "without a key nothing tells which of it is landed already. To land all of it drop the table first"
    raise InputError(
        f"the table was read from {_NAMES.get(kind, kind)}, and its connection is of type {table.connection.type} now",
        where=table.relation,
        expected="the kind of input that the table's position is of",
        action=f"decide where to go on: {command} earliest` or `--to latest`"
        if table.key
        else f"{command} latest` goes on with what will come: {unknown}",
    )
