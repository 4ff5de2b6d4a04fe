"""Silver tables: one Hudi table per source table, written so that the data, the position it was read up to and the
counts of the run are one commit.

No checkpoint lies beside the table that could disagree with it: the state is read back from the table's timeline.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from types import MappingProxyType
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.sources_file import RESERVED, parse_data_type
from ingest.config.tables import Column, Table
from ingest.errors import WriteError
from ingest.schema.change import metadata_columns, silver_columns
from ingest.schema.masking import fingerprint, salt_of
from ingest.silver.catalog import register_columns
from ingest.silver.hudi import KEEPS_CUTS, SMALL_COMMITS, compaction_options, literal, write_error
from ingest.silver.state import STATE_KEY, Counts, State
from ingest.silver.timeline import completed_at, ends_with_a_large_batch, newest_first
from ingest.spark.jvm import java_class, refresh, root_cause

_making_schemas = threading.Lock()
# A small table's bucket has about so many rows, so that several tasks read and write it; a large one's the more, as
# a commit of random rows writes a file into each bucket, however few they are (docs/performance.md).
_ROWS_A_BUCKET, _ROWS_A_LARGE_BUCKET = 100_000, 1_000_000
_BUCKETS_OF_A_SMALL_TABLE = 4


@dataclass(frozen=True)
class SilverTable:
    """The Hudi table of one declared table."""

    spark: SparkSession
    table: Table
    path: str

    @classmethod
    def of(cls, spark: SparkSession, table: Table) -> SilverTable:
        """The silver table of a declaration; a relative location lies below the folder of its schema.

        Creates the schema where it is missing: the catalog says where its folder is.

        Raises
        ------
        WriteError
            The schema cannot be created.
        """
        try:
            # Tables are landed side by side, and the metastore does not take two creations of a schema at a time.
            with _making_schemas:
                if not spark.catalog.databaseExists(table.schema):
                    spark.sql(f"create database if not exists `{table.schema}`")
            root = spark.catalog.getDatabase(table.schema).locationUri
        except (PySparkException, Py4JJavaError) as error:
            raise write_error(error, where=f"schema {table.schema}") from error
        absolute = "://" in table.location or table.location.startswith("/")
        return cls(spark, table, table.location if absolute else f"{root}/{table.location}")

    def exists(self) -> bool:
        """Whether there is a Hudi table at the path."""
        properties = java_class(self.spark, "org.apache.hadoop.fs.Path")(f"{self.path}/.hoodie/hoodie.properties")
        return bool(properties.getFileSystem(self._hadoop).exists(properties))

    def is_committed(self) -> bool:
        """Whether anything was ever committed to the table."""
        return self.exists() and next(self._commits(), None) is not None

    def state(self) -> State | None:
        """The state in the newest commit that holds one; None where nothing was ever landed.

        Commits of other writers (compaction, a backfill) hold none and are passed over. A first landing that was
        broken off leaves a table without any commit, and `lake prepare` one that knows of no event.

        Raises
        ------
        WriteError
            There is a table, but no commit that ingest wrote: its position is not known.
        """
        if not self.exists():
            return None
        committed = False
        for metadata, instant in self._commits():
            committed = True
            if text := metadata.getExtraMetadata().get(STATE_KEY):
                state = State.from_text(str(text), instant)
                if state.is_prepared:
                    return None
                if state.epoch > self.table.options.epoch:
                    raise WriteError(
                        f"the declaration says epoch {self.table.options.epoch}, the table was landed in {state.epoch}",
                        where=self.table.where,
                        expected=f"epoch {state.epoch} or greater: an epoch only grows",
                        action="declare it; nothing was landed",
                    )
                self._require_salt(state)
                return state
        if not committed:
            return None
        raise WriteError(
            "the table exists, but none of its commits holds a position",
            where=self.path,
            expected=f"a table written by lake ingest, with {STATE_KEY} in its timeline",
            action="move the table away to land it anew, or declare another location",
        )

    def commits_after(self, instant: str) -> int:
        """How many commits the table has made after that one."""
        return sum(1 for _ in takewhile(lambda commit: commit[1] > instant, self._instants()))

    def _require_salt(self, state: State) -> None:
        """Another salt would give equal values different hashes, without a word."""
        known = set(state.erased) | {of for name, of in state.hashed.items() if name in self.table.hashed}
        other = known - {"", fingerprint(salt_of(self.table))}
        if other:
            raise WriteError(
                "the connection's hash_salt is not the one that the table's hashes, or its erased keys, are made with",
                where=self.table.where,
                expected=f"the salt with the fingerprint {', '.join(sorted(other))}",
                action="set the variable as before; a new salt needs another location and epoch. Nothing was landed",
            )

    @property
    def hashed(self) -> dict[str, str]:
        """The columns of which silver has hashes, as `State` keeps them."""
        return dict.fromkeys(self.table.hashed, fingerprint(salt_of(self.table)))

    def read(self) -> DataFrame:
        """The table's rows, tombstones included, with Hudi's columns and those of its next commit."""
        return self._conformed(self.stored())

    def _conformed(self, stored: DataFrame) -> DataFrame:
        types = {column.name: column.dataType for column in stored.schema}
        wanted = {column.name: column.data_type for column in self.table.columns}
        wanted |= {column.name: column.data_type for column in metadata_columns(self.table)}
        changed = {
            name: (F.col(f"`{name}`") if name in types else F.lit(None)).cast(data_type)
            for name, data_type in wanted.items()
            if types.get(name) != data_type
        }
        return stored.withColumns(changed) if changed else stored

    def before(self, commit_time: str) -> DataFrame:
        """The rows as they were before that commit, which `_hoodie_commit_time` of its rows names.

        Hudi keeps the files of the last commits only: where they are gone, so are the rows.
        """
        earlier = (completed for requested, completed in self._instants() if requested < commit_time)
        instant = next(earlier, None)
        return self._conformed(self.stored(instant) if instant else self.stored().limit(0))

    def no_rows(self) -> DataFrame:
        """None, in the columns that the first landing gives the table."""
        types = {column.name: column.data_type for column in self.table.columns}
        types |= {column.name: column.data_type for column in metadata_columns(self.table)}
        columns = [T.StructField(name, types.get(name, T.StringType())) for name in silver_columns(self.table)]
        return self.spark.createDataFrame([], T.StructType(columns))

    def stored(self, at: str | None = None) -> DataFrame:
        """The table's rows as they are, or as they were at an instant."""
        travel = {} if at is None else {"as.of.instant": at}
        return self.spark.read.format("hudi").options(**travel).load(self.path)

    def held(self, state: State) -> tuple[Column, ...]:
        """The columns of the source that the table has, in order, whether they are declared or not."""
        types = state.columns or {
            column.name: column.dataType.simpleString()
            for column in self.stored().schema
            if not RESERVED.fullmatch(column.name)
        }
        return tuple(
            Column(
                name,
                parse_data_type(text, where=self.path),
                hashed_from=T.StringType() if name in state.hashed else None,
            )
            for name, text in types.items()
        )

    def conform(self, state: State) -> None:
        """Gives the table the columns it should have, by a commit without rows.

        Raises
        ------
        WriteError
            Hudi could not write.
        """
        rows = self.read().limit(0).select(*(f"`{name}`" for name in silver_columns(self.table)))
        new = replace(state, counts=Counts(), columns=self.column_types, hashed=self.hashed)
        self.write(rows, new, first=False)

    @property
    def column_types(self) -> dict[str, str]:
        """The columns of the source, by name, with their types, as `State` keeps them."""
        return {column.name: column.data_type.simpleString() for column in self.table.columns}

    def write(self, rows: DataFrame, state: State, *, first: bool) -> None:
        """Upserts the rows and commits them together with the state. The first batch makes the table, also anew.

        Raises
        ------
        WriteError
            Hudi could not write. Nothing of the batch is visible then.
        """
        if first:
            self.remove_empty()
        self._commit(rows, state, "bulk_insert" if first else "upsert")

    def remove_empty(self) -> None:
        """Removes a table to which commits were made and no rows: the first landing makes it with its own settings.

        What `lake prepare` made has the number of buckets, the columns and the layout of its day. A table with a file
        beside Hudi's own folder is left as it is.

        Raises
        ------
        WriteError
            It cannot be removed.
        """
        if not self.is_committed():
            return
        try:
            path = java_class(self.spark, "org.apache.hadoop.fs.Path")(self.path)
            system = path.getFileSystem(self._hadoop)
            if all(str(each.getPath().getName()).startswith(".hoodie") for each in system.listStatus(path)):
                for suffix in (*self.table.views, ""):
                    self.spark.sql(f"drop table if exists `{self.table.schema}`.`{self.table.name}{suffix}`")
                system.delete(path, True)
        except (PySparkException, Py4JJavaError) as error:
            raise write_error(error, where=self.path) from error

    def delete(self, rows: DataFrame, state: State) -> None:
        """Removes the rows for good and commits that together with the state.

        Raises
        ------
        WriteError
            Hudi could not write; the rows are all there then.
        """
        self._commit(rows.select(*self.columns()), state, "delete")

    def compact(self, *, is_behind: bool = False) -> bool:
        """Carries out the compaction that is due, or that was broken off; whether there was one.

        Due is what a commit has planned, and what the last commit has written where that is much for the table. Other
        commits may be made meanwhile.

        Parameters
        ----------
        is_behind:
            More waits to be landed: only what is planned is compacted.

        Raises
        ------
        WriteError
            Hudi could not write. Nothing is lost then: the plan stays.
        """
        if self.table.options.table_type != "mor" or not self.exists():
            return False
        try:
            timeline = self._client().getActiveTimeline()
            if timeline.filterPendingCompactionTimeline().empty():
                if is_behind or not ends_with_a_large_batch(timeline):
                    return False
                self._run_compaction("schedule", {"hoodie.compact.inline.max.delta.commits": "1"})
            self._run_compaction("run")
        except (PySparkException, Py4JJavaError) as error:
            raise WriteError(
                f"it cannot be compacted: {root_cause(error)}",
                where=self.table.relation,
                action="what was read is landed, and readers see it; it is tried again after the next batch, or run",
            ) from error
        return True

    def _run_compaction(self, operation: str, more: Mapping[str, str] = MappingProxyType({})) -> None:
        options = ",".join(f"{name}={value}" for name, value in {**SMALL_COMMITS, **more}.items())
        path = literal(self.path)
        self.spark.sql(f"call run_compaction(op => '{operation}', path => {path}, options => '{options}')")

    def columns(self) -> list[str]:
        """The table's columns without Hudi's own, quoted."""
        return [f"`{name}`" for name in self.stored().columns if not name.startswith("_hoodie_")]

    def _commit(self, rows: DataFrame, state: State, operation: str) -> None:
        try:
            rows.write.format("hudi").options(**self.write_options(state, operation)).mode("append").save(self.path)
        except (PySparkException, Py4JJavaError) as error:
            raise write_error(error, where=self.path) from error

    def register(self) -> None:
        """Makes the table and its views known to the catalog, and its new commit to the running session.

        The views of a merge-on-read table are named and marked as Hudi's own sync with a catalog does it: `<table>_ro`
        reads what is compacted, `<table>_rt` everything.

        Raises
        ------
        WriteError
            The catalog refused.
        """
        relation = self.table.relation
        views = {
            f"`{self.table.schema}`.`{self.table.name}{suffix}`": f"'hoodie.query.as.ro.table' = '{str(is_ro).lower()}'"
            for suffix, is_ro in self.table.views.items()
        }
        try:
            for name, properties in {relation: "", **views}.items():
                if not self.spark.catalog.tableExists(name):
                    self.spark.sql(
                        f"create table if not exists {name} using hudi "
                        f"{f'tblproperties ({properties}) ' if properties else ''}location {literal(self.path)}"
                    )
            self._register_columns()
            for name in (relation, *views):
                refresh(self.spark, name)
        except (PySparkException, Py4JJavaError) as error:
            raise write_error(error, where=relation) from error

    def _register_columns(self) -> None:
        """Brings the catalog's columns up to the table's: an entry keeps those of the day it was made.

        In place, by Spark's own call for it: the table is there at every moment, and Hudi makes no commit of its own.
        """
        catalog = self.spark._jsparkSession.sessionState().catalog()
        parser = self.spark._jsparkSession.sessionState().sqlParser()
        entry = catalog.getTableMetadata(parser.parseTableIdentifier(self.table.relation))
        known = T.StructType.fromJson(json.loads(entry.schema().json()))
        if {column.name: column.dataType.simpleString() for column in known}.items() >= self.column_types.items():
            return
        partitions = set(self.table.options.partition_by)
        columns = T.StructType([column for column in self.stored().schema if column.name not in partitions])
        names = [f"{self.table.name}{suffix}" for suffix in (*self.table.views, "")]
        register_columns(self.spark, self.table.schema, names, columns)

    def buckets_for(self, rows: int) -> int | None:
        """The number of buckets for a new table: as declared, or by the rows that wait to be landed."""
        if self.table.options.partition_by:
            return None
        small = min(round(rows / _ROWS_A_BUCKET), _BUCKETS_OF_A_SMALL_TABLE)
        return self.table.options.buckets or max(1, small, round(rows / _ROWS_A_LARGE_BUCKET))

    def write_options(self, state: State, operation: str) -> dict[str, str]:
        """Hudi's options to write to the table, with the state for the commit."""
        options = self.table.options
        key = self.table.record_key
        common = {
            "hoodie.table.name": self.table.name,
            "hoodie.database.name": self.table.schema,
            "hoodie.datasource.write.recordkey.field": key,
            "hoodie.datasource.write.table.type": {"mor": "MERGE_ON_READ", "cow": "COPY_ON_WRITE"}[options.table_type],
            "hoodie.datasource.write.operation": operation,
            # A batch has one row a key; to make sure of it again took Hudi 1.9 of 4.0 s (docs/performance.md).
            "hoodie.combine.before.upsert": "false",
            "hoodie.table.ordering.fields": "__position",
            "hoodie.write.table.version": str(options.table_version),
            "hoodie.write.auto.upgrade": "false",
            "hoodie.datasource.write.commitmeta.key.prefix": "lake.",
            STATE_KEY: state.to_text(),
            **SMALL_COMMITS,
            "hoodie.bulkinsert.sort.mode": "NONE",
            **compaction_options(options.table_type),
        }
        if options.consistent == "transaction":
            common |= KEEPS_CUTS
        if options.partition_by:
            return {
                **common,
                "hoodie.datasource.write.partitionpath.field": ",".join(options.partition_by),
                "hoodie.datasource.write.hive_style_partitioning": "true",
                "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"
                if len(options.partition_by) > 1
                else "org.apache.hudi.keygen.SimpleKeyGenerator",
                # A row whose partition changes must move, not stand in both.
                "hoodie.index.type": "GLOBAL_SIMPLE",
                "hoodie.simple.index.update.partition.path": "true",
            }
        return {
            **common,
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.hash.field": key,
            "hoodie.bucket.index.num.buckets": str(state.buckets),
        }

    @property
    def _hadoop(self) -> Any:
        return self.spark._jsc.hadoopConfiguration()

    def _commits(self) -> Iterator[tuple[Any, str]]:
        """Metadata and instant of each completed commit, newest first."""
        for timeline, instant in self._completed():
            yield timeline.readCommitMetadata(instant), completed_at(instant)

    def _instants(self) -> Iterator[tuple[str, str]]:
        """When each completed commit was requested, and when it was completed, newest first."""
        for _, instant in self._completed():
            yield str(instant.requestedTime()), completed_at(instant)

    def _client(self) -> Any:
        storage = java_class(self.spark, "org.apache.hudi.hadoop.fs.HadoopFSUtils").getStorageConf(self._hadoop)
        return (
            java_class(self.spark, "org.apache.hudi.common.table.HoodieTableMetaClient")
            .builder()
            .setConf(storage)
            .setBasePath(self.path)
            .build()
        )

    def _completed(self) -> Iterator[tuple[Any, Any]]:
        client = self._client()
        active = client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        yield from newest_first(active)
        # Other writers' commits may have pushed ingest's last one out of the active timeline.
        archived = client.getArchivedTimeline()
        archived.loadCompletedInstantDetailsInMemory()
        yield from newest_first(archived.getCommitsTimeline().filterCompletedInstants())
