"""The only writer of Hudi tables: how a table is laid out and written, and the operations on it.

Silver, its histories and its companion tables each describe their table with `TableOptions` and write by `HudiTable`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.lake import is_on_s3
from ingest.errors import LakeError, UnavailableError
from ingest.silver.process_lock import require_held
from ingest.silver.timeline import Timeline
from ingest.silver.write_errors import compaction_error, write_error
from ingest.spark.jvm import java_class
from ingest.spark.shared import Shared

log = logging.getLogger(__name__)

TableType = Literal["mor", "cow"]
Operation = Literal["upsert", "bulk_insert", "delete", "insert_overwrite_table"]
_NOTHING: Mapping[str, str] = MappingProxyType({})
# Hudi's settings for small commits: each of these was measured (bench/results/small_commits.md).
_SMALL_COMMITS = {
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    # No index here reads a bloom filter of keys, which takes 440 kB of each file, however few its rows are. A bulk
    # insert writes one nevertheless: it is for one key then, and says of each other that it may be there.
    "hoodie.parquet.bloom.filter.enabled": "false",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "1",
}
# Readers of a cut travel back to it: its files must outlast the commits that may follow (ingest.landing.transactions).
_KEEPS_CUTS = {
    "hoodie.clean.commits.retained": "20",
    "hoodie.keep.min.commits": "30",
    "hoodie.keep.max.commits": "40",
}
# Hudi's timeline has at least 20 commits by default, which must be more than the cleaner retains.
_MOST_RETAINED, _ARCHIVED_AT_ONCE = 20, 10
# A partition's value is a folder's name; encoded, or one with a slash would be read as two.
_ENCODED_PARTITIONS = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
# Hudi refuses a second write to a table below version 9 with one column for a key and several for partitions: releases
# before 1.1 disagreed on how such a key is stored. This project's tables were all written by 1.2, in one way.
_KEYS_ARE_STORED_ALIKE = {"hoodie.write.complex.keygen.validation.enable": "false"}
# Somebody may have added a column by SQL: a row that is written has null there. Silver's rows have all its columns.
_TAKES_FEWER_COLUMNS = {"hoodie.write.set.null.for.missing.columns": "true"}
# After so many commits a merge-on-read table is compacted: what its readers merge stays bounded.
_COMMITS_A_COMPACTION = 10
# An erasure compacts every file group, as a commit does where one delta commit is one too many.
_COMPACTS_ALL = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.schedule.inline": "false",
    "hoodie.compact.inline.max.delta.commits": "1",
}
# And it leaves one version of each file group, whatever time travel would like to see.
_KEEPS_ONE_VERSION = {
    "hoodie.compact.schedule.inline": "false",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.async.enabled": "false",
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
    "hoodie.clean.trigger.max.commits": "1",
}
# In the metadata of a companion table's commits: its number of buckets, which silver's may not be for good.
BUCKETS_KEY = "lake.buckets"
# How the id of a file group begins that is a bucket: with its number.
_OF_BUCKET = re.compile(r"\d{8}-")
PUT_BACK = "%s: its rows are put into buckets of their partitions, by a commit of its own"
_TABLE_TYPES: Mapping[TableType, str] = {"mor": "MERGE_ON_READ", "cow": "COPY_ON_WRITE"}


@dataclass(frozen=True)
class TableOptions:
    """How a Hudi table is laid out and written.

    Attributes
    ----------
    schema, name:
        Of the table in the catalog.
    key:
        The column that is the record key.
    ordering:
        Of two rows of a key the one with the greater value of this column is kept.
    partition_by:
        The partition columns; none where the table is not partitioned.
    buckets:
        Of each partition; None with a global index, and where the table is only read.
    removed_where:
        A column, and its value of those rows of an upsert that are to be removed; None where there are no such rows.
    table_type, version:
        Merge on read or copy on write, and the version of the table's format; None leaves both to Hudi.
    combines:
        Whether Hudi reduces the rows of a write to one a key first; None leaves it to Hudi.
    keeps_cuts:
        Whether files outlast the commits that may follow a cut.
    commits_retained:
        Of so many commits the cleaner leaves the files that they replaced; None leaves it to Hudi.
    is_companion:
        Whether it is one of ingest's own beside silver. Each commit of it notes its buckets: rows that another writer
        has put elsewhere since are put back before the next one (silver's state says so much of silver); and a column
        that another writer has added is null in the rows of the next ones.
    """

    schema: str
    name: str
    key: str
    ordering: str
    partition_by: tuple[str, ...] = ()
    buckets: int | None = None
    removed_where: tuple[str, str] | None = None
    table_type: TableType | None = None
    version: int | None = None
    combines: bool | None = None
    keeps_cuts: bool = False
    commits_retained: int | None = None
    is_companion: bool = False

    @property
    def relation(self) -> str:
        """The quoted name for Spark SQL."""
        return f"`{self.schema}`.`{self.name}`"

    @property
    def index(self) -> Literal["bucket", "global"]:
        """How a row is found; bucket: its file follows from its key and partition.

        global: it is looked up in every partition, and moves where its partition changes. Partitioned tables were made
        so once, and are where one value may name two folders (docs/decisions/0054-buckets-within-partitions.md).
        """
        return "global" if self.partition_by and self.buckets is None else "bucket"

    def as_hudi(self) -> dict[str, str]:
        """Hudi's options to write to the table, without the operation."""
        return {
            "hoodie.table.name": self.name,
            "hoodie.database.name": self.schema,
            "hoodie.datasource.write.recordkey.field": self.key,
            "hoodie.table.ordering.fields": self.ordering,
            "hoodie.write.auto.upgrade": "false",
            **_SMALL_COMMITS,
            **self._partitions(),
            **self._index(),
            **self._removing(),
            **self._storage(),
            **(_KEEPS_CUTS if self.keeps_cuts else {}),
            **(_TAKES_FEWER_COLUMNS if self.is_companion else {}),
            **self._cleaning(),
        }

    def _cleaning(self) -> dict[str, str]:
        """Hudi archives no commit that the cleaner has not passed: its timeline grows with what is retained."""
        if self.commits_retained is None:
            return {}
        options = {"hoodie.clean.commits.retained": str(self.commits_retained)}
        if self.commits_retained < _MOST_RETAINED:
            return options
        least = self.commits_retained + _ARCHIVED_AT_ONCE
        most = least + _ARCHIVED_AT_ONCE
        return {**options, "hoodie.keep.min.commits": str(least), "hoodie.keep.max.commits": str(most)}

    def _partitions(self) -> dict[str, str]:
        generator = {0: "Nonpartitioned", 1: "Simple"}.get(len(self.partition_by), "Complex")
        return {
            "hoodie.datasource.write.partitionpath.field": ",".join(self.partition_by),
            "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}KeyGenerator",
            **({"hoodie.datasource.write.hive_style_partitioning": "true"} if self.partition_by else {}),
            **(_KEYS_ARE_STORED_ALIKE if generator == "Complex" else {}),
        }

    def _index(self) -> dict[str, str]:
        if self.index == "global":
            # A row whose partition changes must move, not stand in both.
            return {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
        return {
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.hash.field": self.key,
            "hoodie.bucket.index.num.buckets": str(self.buckets),
        }

    def _removing(self) -> dict[str, str]:
        if self.removed_where is None:
            return {}
        column, value = self.removed_where
        return {"hoodie.payload.delete.field": column, "hoodie.payload.delete.marker": value}

    def _storage(self) -> dict[str, str]:
        options: dict[str, str] = {}
        if self.table_type is not None:
            options |= {
                "hoodie.datasource.write.table.type": _TABLE_TYPES[self.table_type],
                # A commit plans a compaction where one is due; `ingest.silver.compaction` carries it out.
                "hoodie.compact.inline": "false",
                "hoodie.compact.schedule.inline": str(self.table_type == "mor").lower(),
                "hoodie.compact.inline.max.delta.commits": str(_COMMITS_A_COMPACTION),
            }
        if self.version is not None:
            options["hoodie.write.table.version"] = str(self.version)
        if self.combines is not None:
            options["hoodie.combine.before.upsert"] = str(self.combines).lower()
        return options


@dataclass(frozen=True)
class HudiTable:
    """A Hudi table at a path.

    Each operation that writes makes one commit, or none where it raises `WriteError`. It may take `metadata`: entries
    for the commit's own metadata, whose names begin with `lake.`.
    """

    spark: SparkSession
    path: str
    options: TableOptions

    def of_buckets(self, buckets: int | None) -> HudiTable:
        """The table, to be written in so many buckets a partition."""
        return replace(self, options=replace(self.options, buckets=buckets))

    @property
    def timeline(self) -> Timeline:
        """The table's commits."""
        return Timeline(self.spark, self.path)

    def exists(self) -> bool:
        """Whether there is a Hudi table at the path.

        Raises
        ------
        WriteError
            It cannot be looked at.
        """
        try:
            properties, system = self._in_file_system("/.hoodie/hoodie.properties")
            return bool(system.exists(properties))
        except Py4JJavaError as error:
            raise write_error(error, where=self.path) from error

    def holds_no_file(self) -> bool:
        """Whether no file of rows was ever written to the place: there is none beside Hudi's own folder.

        Raises
        ------
        WriteError
            It cannot be listed.
        """
        try:
            path, system = self._in_file_system()
            if not system.exists(path):
                return True
            return all(str(each.getPath().getName()).startswith(".hoodie") for each in system.listStatus(path))
        except Py4JJavaError as error:
            raise write_error(error, where=self.path) from error

    def remove(self) -> None:
        """Removes the table with all its files.

        Raises
        ------
        WriteError
            It cannot be removed.
        """
        try:
            path, system = self._in_file_system()
            system.delete(path, True)
        except Py4JJavaError as error:
            raise write_error(error, where=self.path) from error

    def _in_file_system(self, below: str = "") -> tuple[Any, Any]:
        """The table's path, or one below it, and the file system that it is in, as Hadoop has them."""
        path = java_class(self.spark, "org.apache.hadoop.fs.Path")(f"{self.path}{below}")
        return path, path.getFileSystem(self.spark._jsc.hadoopConfiguration())

    def read(self) -> DataFrame:
        """The rows as they are, with Hudi's own columns."""
        return self._load(_NOTHING)

    def read_base_files(self) -> DataFrame:
        """The rows of the base files alone, without what log files say since, with Hudi's own columns."""
        return self._load({"hoodie.datasource.query.type": "read_optimized"})

    def as_of(self, instant: str) -> DataFrame:
        """The rows as they were at an instant, with Hudi's own columns."""
        return self._load({"as.of.instant": instant})

    def columns(self) -> list[str]:
        """The names of the columns without Hudi's own."""
        return [name for name in self.read().columns if not name.startswith("_hoodie_")]

    def stored_columns(self) -> T.StructType:
        """The columns of the files, Hudi's own among them: without those that name a partition's folder."""
        partitions = set(self.options.partition_by)
        return T.StructType([column for column in self.read().schema if column.name not in partitions])

    def upsert(self, rows: DataFrame, metadata: Mapping[str, str] = _NOTHING) -> None:
        """Writes each row in place of the one with its key; the first write makes the table."""
        self._write(rows, "upsert", metadata)

    def bulk_insert(self, rows: DataFrame, metadata: Mapping[str, str] = _NOTHING) -> None:
        """Writes the rows of a new table, without a look at their keys."""
        # A table that is there keeps the names of its folders: Hudi takes from it what is not said here.
        encoded = _ENCODED_PARTITIONS if self.options.partition_by and not self.exists() else _NOTHING
        self._write(rows, "bulk_insert", metadata, {"hoodie.bulkinsert.sort.mode": "NONE", **encoded})

    def delete(self, rows: DataFrame, metadata: Mapping[str, str] = _NOTHING) -> None:
        """Removes the rows with these keys; they have all the table's columns."""
        self._write(rows, "delete", metadata)

    def insert_overwrite(self, rows: DataFrame, metadata: Mapping[str, str] = _NOTHING) -> None:
        """Puts the rows in place of all that the table holds."""
        self._write(rows, "insert_overwrite_table", metadata)

    def has_strays(self, since: str | None) -> bool:
        """Whether another writer has put rows behind the instant `since` where no write of ours would find them.

        Written to files that are no buckets are those of a clustering or an `insert overwrite`. SQL's `insert into`
        knows neither the index nor the keys: its rows are in any bucket, and beside those of their keys. Where no
        instant says which commits are ours, those of an earlier version have inserted rows as well.
        """
        buckets = self.options.buckets or 0
        return any(
            (inserted and since is not None) or not (_OF_BUCKET.match(file) and int(file[:8]) < buckets)
            for file, inserted in self.timeline.written_after(since or "")
        )

    def index_anew(self, metadata: Mapping[str, str] = _NOTHING) -> None:
        """Puts each row into its bucket, by a commit that writes all of them.

        Of several rows of a key the one with the greatest `ordering` stays, and of equal ones the first that was
        committed: a row that somebody has added by hand may have none, or a copy of another one's.
        """
        rows, own = self.read(), F.col("_hoodie_commit_time")
        last = Window.partitionBy(f"`{self.options.key}`").orderBy(F.desc_nulls_last(f"`{self.options.ordering}`"), own)
        one = rows.withColumn("_lake_rank", F.row_number().over(last)).where("_lake_rank = 1").drop("_lake_rank")
        self.insert_overwrite(one.drop(*(name for name in one.columns if name.startswith("_hoodie_"))), metadata)

    def _put_back(self, client: Any) -> None:
        """Puts the rows of a companion table into their buckets that another writer has put elsewhere."""
        noted, is_followed = None, False
        for metadata, instant in self.timeline.commits(client):
            if metadata.getExtraMetadata().get(BUCKETS_KEY):
                noted = instant
                break
            is_followed = True
        if not is_followed or not self.has_strays(noted):
            return
        log.warning(PUT_BACK, self.options.relation)
        if self.timeline.has_planned_compaction():
            self.compact()
        self.index_anew()

    def erase(self, rows: DataFrame, metadata: Mapping[str, str] = _NOTHING) -> None:
        """Removes the rows with these keys, and each earlier version of them, by two commits."""
        self._write(rows, "delete", metadata, _COMPACTS_ALL if self.options.table_type == "mor" else _NOTHING)
        # Hudi cleans before it compacts: the versions that the compaction left go with a commit of their own.
        self._write(rows.limit(0), "upsert", metadata, _KEEPS_ONE_VERSION)

    def plan_compaction(self) -> None:
        """Plans a compaction of what is written, however few its commits are; after a commit that is being made."""
        with self._committing():
            self._settle()
            self._call_compaction("schedule", {"hoodie.compact.inline.max.delta.commits": "1"})

    def compact(self) -> None:
        """Carries out the compactions that are planned. Other commits may be made meanwhile."""
        with Shared.of(self.spark).lock(f"{self.path}: compaction"):
            self._settle()
            self._call_compaction("run")
            self._settle()

    def _settle(self) -> Any:
        """Before anything is written or cleaned: no other process may write the table (`require_held`), no cut plan may
        be there (`Timeline.withdraw_rollbacks`), it must be the newest commit (`Timeline.await_past`), and log files
        must go to their own base files (`Timeline.settle`). Returned is Hudi's client; None where no table is."""
        require_held(self.spark, self.path, where=self.options.relation)
        if not self.exists():
            return None
        try:
            client = self.timeline.client()
            self.timeline.withdraw_rollbacks(client)
            self.timeline.await_past(client)
            # Without log files none goes astray; a disk tells milliseconds, and Hudi's newest version keeps its record.
            if self.options.table_type != "cow" and (is_on_s3(self.path) or self.options.version):
                self.timeline.settle()
            return client
        except Py4JJavaError as error:
            raise write_error(error, where=self.path) from error

    def _call_compaction(self, operation: Literal["schedule", "run"], more: Mapping[str, str] = _NOTHING) -> None:
        options = ",".join(f"{name}={value}" for name, value in {**_SMALL_COMMITS, **more}.items())
        call = f"call run_compaction(op => '{operation}', path => {literal(self.path)}, options => '{options}')"
        try:
            self.spark.sql(call)
        except (PySparkException, Py4JJavaError) as error:
            self._withdraw_unreadable()
            raise compaction_error(error, where=self.options.relation) from error

    def _withdraw_unreadable(self) -> list[str]:
        """After a write that failed: of a commit that was not written to its end nothing stays. The files that it was
        kept in, where there were any."""
        with suppress(Py4JJavaError, LakeError):  # what kept it from being written is told
            return self.timeline.withdraw_unreadable() if self.exists() else []
        return []

    def _write_error(self, error: Exception) -> LakeError:
        """Why a write failed, once nothing stays of it: `UnavailableError` where the next one may go through."""
        told, withdrawn = write_error(error, where=self.path), self._withdraw_unreadable()
        if not withdrawn or isinstance(told, UnavailableError):
            return told
        return UnavailableError(
            f"{told.found} ({' and '.join(withdrawn)}, below .hoodie, cut as by a full disk, and removed by now)",
            where=self.path,
            action="run again: it is planned anew. Nothing of this batch was landed",
        )

    def _load(self, options: Mapping[str, Any]) -> DataFrame:
        return self.spark.read.format("hudi").options(**options).load(self.path)

    def _write(
        self, rows: DataFrame, operation: Operation, metadata: Mapping[str, str], more: Mapping[str, str] = _NOTHING
    ) -> None:
        if self.options.is_companion:
            metadata = {**metadata, BUCKETS_KEY: str(self.options.buckets)}
        options = {**self.options.as_hudi(), "hoodie.datasource.write.operation": operation, **metadata, **more}
        if metadata:
            options["hoodie.datasource.write.commitmeta.key.prefix"] = "lake."
        with self._committing():
            client = self._settle()
            if client and self.options.is_companion and operation in ("upsert", "delete"):
                self._put_back(client)
            try:
                rows.write.format("hudi").options(**options).mode("append").save(self.path)
            except (PySparkException, Py4JJavaError) as error:
                raise self._write_error(error) from error

    def _committing(self) -> AbstractContextManager[object]:
        """The lock of who commits or plans a compaction. Another thread may carry one out meanwhile.

        Of a table below version 8, a commit that begins while a plan is made writes its logs behind a base file that
        the compaction replaces, and no reader finds them (`ScheduleCompactionActionExecutor` and `HoodieAppendHandle`
        of Hudi 1.2). One that began before it keeps the plan from being made.
        """
        return Shared.of(self.spark).lock(f"{self.path}: commits")


def literal(text: str) -> str:
    """A text for Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
