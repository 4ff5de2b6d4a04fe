"""What a silver table is made of: its layout, its commits, its files and its compactions. Nothing here reads a row."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ingest.config.tables import Table
from ingest.errors import WriteError
from ingest.silver.file_groups import FileGroup, file_groups
from ingest.silver.table import SilverTable
from ingest.silver.timeline import Commit, PlannedCompaction
from ingest.silver.write_errors import write_error


@dataclass(frozen=True)
class Layout:
    """How a table is laid out, and how large it is.

    Attributes
    ----------
    table_type, version:
        As the table itself says: MERGE_ON_READ or COPY_ON_WRITE, and the version of the table's format.
    key, ordering, partition_by:
        Hudi's record key, the columns that order two rows of a key, and those that partition the table.
    index:
        bucket, or global of a partitioned table that was made so once.
    partitions, file_groups, log_files, bytes:
        What a reader of all rows finds.
    columns:
        Types by name, in order, Hudi's own columns included.
    """

    table_type: str
    version: int
    path: str
    key: str
    ordering: str
    partition_by: str
    index: str
    partitions: int
    file_groups: int
    log_files: int
    bytes: int
    columns: dict[str, str]


def layout_of(spark: SparkSession, table: Table) -> Layout:
    """How a table is laid out.

    Raises
    ------
    WriteError
        It was never landed.
    """
    silver = _landed(spark, table)
    state, hudi = silver.state(), silver.hudi
    buckets = state.buckets if state else silver.buckets_for(0)
    config, groups = hudi.timeline.client().getTableConfig(), file_groups(hudi.timeline)
    fields = config.getPartitionFields()
    return Layout(
        table_type=str(config.getTableType()),
        version=config.getTableVersion().versionCode(),
        path=hudi.path,
        key=",".join(config.getRecordKeyFields().get()),
        ordering=",".join(config.getOrderingFields()),
        partition_by=",".join(fields.get()) if fields.isPresent() else "",
        index=hudi.of_buckets(buckets).options.index,
        partitions=len({group.partition for group in groups}),
        file_groups=len(groups),
        log_files=sum(len(group.log_files) for group in groups),
        bytes=sum(group.bytes for group in groups),
        columns={column.name: column.dataType.simpleString() for column in hudi.read().schema},
    )


def commits_of(spark: SparkSession, table: Table, limit: int) -> list[Commit]:
    """The last commits of a table, newest first.

    Raises
    ------
    WriteError
        It was never landed.
    """
    return list(islice(_landed(spark, table).hudi.timeline.described(), limit))


def files_of(spark: SparkSession, table: Table) -> list[FileGroup]:
    """The file groups of a table, by partition.

    Raises
    ------
    WriteError
        It was never landed.
    """
    return file_groups(_landed(spark, table).hudi.timeline)


def compactions_of(spark: SparkSession, table: Table) -> tuple[list[PlannedCompaction], list[Commit]]:
    """The compactions of a table that are planned, and those that were completed; each newest first.

    Raises
    ------
    WriteError
        It was never landed.
    """
    timeline = _landed(spark, table).hudi.timeline
    return timeline.planned_compactions(), [commit for commit in timeline.described() if commit.is_compaction]


def _landed(spark: SparkSession, table: Table) -> SilverTable:
    silver = SilverTable.to_look_at(spark, table)
    if silver is None or not silver.exists():
        raise WriteError(
            "there is no such table yet", where=table.relation, action=f"run `lake ingest {table.source}` first"
        )
    try:
        silver.hudi.timeline.client()
    except Py4JJavaError as error:
        raise write_error(error, where=silver.path) from error
    return silver
