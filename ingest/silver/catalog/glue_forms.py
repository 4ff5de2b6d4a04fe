"""What Glue is told of a Hudi table: its API's inputs, as Hudi's own sync with a Hive catalog writes them.

Sources: the API reference of Glue (`DatabaseInput`, `TableInput`, `PartitionInput` and their limits), the user guide of
Athena ("Query Apache Hudi datasets").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from pyspark.sql import types as T

from ingest.config.lake import is_on_s3
from ingest.silver.catalog.base import Entry

Input = dict[str, Any]
# What a table of Glue is here.
TABLE_TYPE = "EXTERNAL_TABLE"
_FILES = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
# Reads log files as well.
_FILES_AND_LOGS = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
_OUTPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
# How many bytes the comment of a column, and the description of a table, may have.
_COMMENT, _DESCRIPTION = 255, 2048
_SPACES = re.compile(r"\s+")


def database_input(schema: str, folder: str) -> Input:
    """A schema, whose tables are below a folder; Glue is told of one on S3 only."""
    return {"Name": schema.lower(), **({"LocationUri": folder} if is_on_s3(folder) else {})}


def table_inputs(entry: Entry, columns: T.StructType, partitions: T.StructType) -> dict[str, Input]:
    """The table and its views, by name.

    Parameters
    ----------
    columns, partitions:
        The table's columns, and those of them that name the folders of its partitions.
    """
    described = _described(columns, entry.comments), _described(partitions, entry.comments)
    # Athena cannot read timestamps of log files, and models read the table by its own name: it reads what is compacted.
    own = {entry.hudi.options.name: _table_input(entry, *described, reads_logs=False)}
    views = {name: _table_input(entry, *described, reads_logs=not is_ro) for name, is_ro in entry.views.items()}
    return {name.lower(): {"Name": name.lower(), **given} for name, given in {**own, **views}.items()}


def _table_input(entry: Entry, columns: list[Input], partitions: list[Input], *, reads_logs: bool) -> Input:
    storage = _storage(columns, entry.hudi.path, _FILES_AND_LOGS if reads_logs else _FILES)
    # Spark opens the table of a path by it, and Hudi reads by it: hoodie.query.as.ro.table is how its sync marks views.
    is_ro = str(not reads_logs).lower()
    storage["SerdeInfo"]["Parameters"] |= {"path": entry.hudi.path, "hoodie.query.as.ro.table": is_ro}
    return {
        "Description": _one_line(entry.description, _DESCRIPTION),
        "TableType": TABLE_TYPE,
        "StorageDescriptor": storage,
        "PartitionKeys": partitions,
        "Parameters": {"EXTERNAL": "TRUE", "spark.sql.sources.provider": "hudi"},
    }


def partition_input(table: Mapping[str, Any], folder: str) -> Input:
    """A partition of a table.

    Parameters
    ----------
    table:
        The table, as Glue has it.
    folder:
        Of the partition, below the table's: `column=value/...`.
    """
    storage = table["StorageDescriptor"]
    place = f"{storage['Location'].rstrip('/')}/{folder}"
    return {
        "Values": values_of(folder),
        "StorageDescriptor": _storage(storage["Columns"], place, storage["InputFormat"]),
    }


def values_of(folder: str) -> list[str]:
    """The values that a partition's folder names."""
    return [unquote(part.partition("=")[2]) for part in folder.split("/")]


def tells(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether what Glue has says all that is wanted; what it has besides is left alone."""
    return all(_equals(found.get(key), value) for key, value in wanted.items())


def _equals(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return tells(found or {}, wanted)
    if isinstance(wanted, list):
        found = found or []
        return len(found) == len(wanted) and all(map(_equals, found, wanted))
    return bool((found or "") == wanted)


def updated(found: Mapping[str, Any], wanted: Input, kept: Iterable[str]) -> Input:
    """What a table is to be updated to: as wanted, with what others have said of it besides, of these keys."""
    others = {key: found[key] for key in kept if key in found and key not in wanted}
    return {**others, **wanted, "Parameters": {**(found.get("Parameters") or {}), **wanted["Parameters"]}}


def _described(columns: T.StructType, comments: Mapping[str, str]) -> list[Input]:
    return [
        {
            "Name": column.name.lower(),
            "Type": column.dataType.simpleString().lower(),
            "Comment": _one_line(comments.get(column.name, ""), _COMMENT),
        }
        for column in columns
    ]


def _one_line(text: str, longest: int) -> str:
    """A text without line breaks, which Glue refuses, and no longer than it takes."""
    line = _SPACES.sub(" ", text).strip()
    return line if len(line.encode()) <= longest else line.encode()[: longest - 3].decode(errors="ignore") + "..."


def _storage(columns: list[Input], place: str, input_format: str) -> Input:
    return {
        "Columns": columns,
        "Location": place,
        "InputFormat": input_format,
        "OutputFormat": _OUTPUT,
        "SerdeInfo": {"SerializationLibrary": _SERDE, "Parameters": {"serialization.format": "1"}},
    }
