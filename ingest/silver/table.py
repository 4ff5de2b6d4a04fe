"""Silver tables: one Hudi table per source table, written so that the data, the position it was read up to and the
counts of the run are one commit.

No checkpoint lies beside the table that could disagree with it: the state is read back from the table's timeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.sources_file import RESERVED, parse_data_type
from ingest.config.tables import Column, Table
from ingest.errors import UnavailableError, WriteError
from ingest.schema.change import metadata_columns, silver_columns
from ingest.schema.masking import fingerprint, salt_of
from ingest.silver.agreement import require_agreement
from ingest.silver.catalog.base import Entry
from ingest.silver.catalog.hive import HiveCatalog
from ingest.silver.catalog.kinds import catalog_of
from ingest.silver.hudi import HudiTable, TableOptions
from ingest.silver.process_lock import one_process
from ingest.silver.state import ARRIVALS_KEY, NONE_ARRIVED, STATE_KEY, State
from ingest.silver.write_errors import write_error

# `__op` of a row that an upsert removes from the partition that it leaves: no reader sees one.
LEFT = "left"
# The types of partition columns of which that is so (`SilverTable.may_have_buckets`).
_NAME_ONE_FOLDER = (T.StringType, T.IntegerType, T.LongType, T.DateType, T.BooleanType, T.DecimalType)
# A small table's bucket has about so many rows, so that several tasks read and write it; a large one's the more, as
# a commit of random rows writes a file into each bucket, however few they are (bench/results/growth.md).
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
        root = HiveCatalog(spark).made_folder_of(table.schema)
        absolute = "://" in table.location or table.location.startswith("/")
        return cls(spark, table, table.location if absolute else f"{root}/{table.location}")

    @classmethod
    def to_look_at(cls, spark: SparkSession, table: Table) -> SilverTable | None:
        """The table, where its schema is there: to look makes none, which `of` would.

        Raises
        ------
        WriteError
            It cannot be looked at.
        """
        return cls.of(spark, table) if HiveCatalog(spark).has_schema(table.schema) else None

    @property
    def hudi(self) -> HudiTable:
        """The Hudi table, to be read; a write says how many buckets it has (`HudiTable.of_buckets`)."""
        options = self.table.options
        return HudiTable(
            self.spark,
            self.path,
            TableOptions(
                schema=self.table.schema,
                name=self.table.name,
                key=self.table.record_key,
                ordering="__position",
                partition_by=options.partition_by,
                removed_where=("__op", LEFT) if self.rows_may_move else None,
                table_type=options.table_type,
                version=options.table_version,
                # A batch has one row a key: Hudi need not make sure of it by another shuffle.
                combines=False,
                keeps_cuts=options.consistent == "transaction",
                commits_retained=options.commits_retained,
            ),
        )

    @property
    def rows_may_move(self) -> bool:
        """Whether a row may change its partition: none does where its key says the partition, or it has no key."""
        of_key = {
            column.name
            for column in self.table.columns
            if column.name in self.table.key or (column.substring_of and column.substring_of.column in self.table.key)
        }
        return bool(self.table.key) and not of_key.issuperset(self.table.options.partition_by)

    @property
    def may_have_buckets(self) -> bool:
        """Whether a value of a partition column always names one folder, and no two values the same one.

        Of a floating-point number Hudi names a folder in two ways, by insert and by upsert, or two values alike.
        """
        types = {column.name: column.data_type for column in self.table.columns}
        return all(isinstance(types.get(name), _NAME_ONE_FOLDER) for name in self.table.options.partition_by)

    def is_bucketed_by_partition(self, state: State) -> bool:
        """Whether the index does not find a row that changes its partition (`ingest.silver.places`)."""
        return self.rows_may_move and state.buckets is not None

    def exists(self) -> bool:
        """Whether there is a Hudi table at the path."""
        return self.hudi.exists()

    def is_committed(self) -> bool:
        """Whether anything was ever committed to the table."""
        return self.exists() and not self.hudi.timeline.is_empty()

    def state(self) -> State | None:
        """The state in the newest commit that holds one; None where nothing was ever landed.

        Commits of other writers (compaction, a backfill) hold none and are passed over. A first landing that was
        broken off leaves a table without any commit, and `lake prepare` one that knows of no event.

        Raises
        ------
        WriteError
            There is a table, but no commit that ingest wrote: its position is not known. Or there are files that belong
            to no table.
        """
        if not self.exists():
            self._require_no_files()
            return None
        committed = False
        timeline = self.hudi.timeline
        try:
            client = timeline.client()
            timeline.require_no_rollback(client, f"{self.table.schema}.{self.table.name}")
        except Py4JJavaError as error:
            raise write_error(error, where=self.path) from error
        is_altered = False
        for metadata, instant in timeline.commits(client):
            is_followed, committed = committed, True
            if text := metadata.getExtraMetadata().get(STATE_KEY):
                state = replace(State.from_text(str(text), instant), is_followed=is_followed)
                if is_altered:
                    state = replace(state, columns={})
                if state.is_prepared:
                    return None
                require_agreement(self.table, state, client.getTableConfig())
                return state
            # Another writer may have altered the columns: they are looked up (`held`).
            is_altered = is_altered or str(metadata.getOperationType()) != "COMPACT"
        if not committed:
            if client.getActiveTimeline().empty():
                self._require_no_files()
            return None
        raise WriteError(
            "the table exists, but none of its commits holds a position",
            where=self.path,
            expected=f"a table written by lake ingest, with {STATE_KEY} in its timeline",
            action="move the table away to land it anew, or declare another location",
        )

    def gone(self) -> WriteError | None:
        """That the table was there, and is no longer: the catalog has it, and its folder is not there. Else None."""
        if self.exists() or not catalog_of(self.hudi).has(self._entry):
            return None
        return WriteError(
            "its folder is gone, and the catalog has the table still",
            where=self.path,
            expected="the table, as it was landed",
            action=f"put the folder back from a copy; or `lake ingest {self.table.source}` lands the table anew, with "
            "what its source still has",
        )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Held from reading the state that a commit goes on from until it is made: other processes wait.

        Raises
        ------
        UnavailableError
            Another process has been writing the table for longer than is waited.
        """
        with one_process(self.spark, self.path, where=self.table.relation):
            yield

    def required_state(self) -> State:
        """The state of a table that was landed before.

        Raises
        ------
        WriteError
            There is no such table yet, or its position is not known.
        """
        state = self.state()
        if state is None:
            raise WriteError(
                "there is no such table yet",
                where=self.table.relation,
                action=f"run `lake ingest {self.table.source}` first",
            )
        return state

    def commits_after(self, instant: str) -> int:
        """How many commits the table has made after that one."""
        return self.hudi.timeline.commits_after(instant)

    def _require_no_files(self) -> None:
        """Files that a table without its `.hoodie` has left would be rows of the new one, beside those of its own."""
        if not self.hudi.holds_no_file():
            raise WriteError(
                "there are files, and no Hudi table that they belong to: its .hoodie, or its timeline, is gone",
                where=self.path,
                expected="an empty folder, or a whole table",
                action="restore what is gone from a copy, or move the folder away to land the table anew; "
                "nothing was landed",
            )

    def has_left_its_buckets(self, state: State) -> bool:
        """Whether another writer has put rows since where no batch would find them (`HudiTable.has_strays`)."""
        if state.buckets is None or not state.is_followed:
            return False
        return self.hudi.of_buckets(state.buckets).has_strays(state.instant)

    def require_buckets(self, state: State) -> None:
        """Raises UnavailableError where rows are outside the table's buckets: no write would find them."""
        if self.has_left_its_buckets(state):
            raise UnavailableError(
                "another writer has written to it without its buckets",
                where=self.table.relation,
                expected="its rows in the buckets of their partitions",
                action=f"run `lake ingest {self.table.source}`, which puts them there, then this again",
            )

    @property
    def hashed(self) -> dict[str, str]:
        """The columns of which silver has hashes, as `State` keeps them."""
        return dict.fromkeys(self.table.hashed, fingerprint(salt_of(self.table)))

    def read(self) -> DataFrame:
        """The table's rows, tombstones included, with Hudi's columns and those of its next commit."""
        return self._conformed(self.stored())

    def read_base_files(self) -> DataFrame:
        """The rows of the base files alone, as `read` has them."""
        return self._conformed(self.hudi.read_base_files())

    @property
    def _types(self) -> dict[str, T.DataType]:
        """The types of the source's columns and of Debezium's metadata, by name."""
        types = {column.name: column.data_type for column in self.table.columns}
        return types | {column.name: column.data_type for column in metadata_columns(self.table)}

    def _conformed(self, stored: DataFrame) -> DataFrame:
        types = {column.name: column.dataType for column in stored.schema}
        changed = {
            name: (F.col(f"`{name}`") if name in types else F.lit(None)).cast(data_type)
            for name, data_type in self._types.items()
            if types.get(name) != data_type
        }
        return stored.withColumns(changed) if changed else stored

    def before(self, commit_time: str) -> DataFrame:
        """The rows as they were before that commit, which `_hoodie_commit_time` of its rows names.

        Hudi keeps the files of the last commits only: where they are gone, so are the rows.
        """
        instant = self.hudi.timeline.last_before(commit_time)
        return self._conformed(self.hudi.as_of(instant) if instant else self.stored().limit(0))

    def no_rows(self) -> DataFrame:
        """None, in the columns that the first landing gives the table."""
        columns = [T.StructField(name, self._types.get(name, T.StringType())) for name in silver_columns(self.table)]
        return self.spark.createDataFrame([], T.StructType(columns))

    def stored(self) -> DataFrame:
        """The table's rows as they are, with Hudi's columns."""
        return self.hudi.read()

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
        new = state.without_events(columns=self.column_types, hashed=self.hashed)
        self.write(rows, new, first=False)

    @property
    def column_types(self) -> dict[str, str]:
        """The columns of the source, by name, with their types, as `State` keeps them."""
        return {column.name: column.data_type.simpleString() for column in self.table.columns}

    def write(self, rows: DataFrame, state: State, *, first: bool, arrivals: str | None = NONE_ARRIVED) -> None:
        """Upserts the rows and commits them together with the state. The first batch makes the table, also anew.

        `arrivals`: what the commit notes of rows that come to a partition; None of too many (`ingest.silver.places`).

        Raises
        ------
        WriteError
            Hudi could not write. Nothing of the batch is visible then.
        """
        table, metadata = self.hudi.of_buckets(state.buckets), state.as_metadata()
        if arrivals is not None and self.rows_may_move:
            metadata[ARRIVALS_KEY] = arrivals
        if first:
            self.remove_empty()
            table.bulk_insert(rows, metadata)
        else:
            table.upsert(rows, metadata)

    def remove_empty(self) -> None:
        """Removes a table to which commits were made and no rows: the first landing makes it with its own settings.

        What `lake prepare` made has the number of buckets, the columns and the layout of its day. A table with a file
        beside Hudi's own folder is left as it is.

        Raises
        ------
        WriteError
            It cannot be removed.
        """
        hudi = self.hudi
        if self.is_committed() and hudi.holds_no_file():
            entry = self._entry
            catalog_of(hudi).drop(entry.schema, entry.names)
            hudi.remove()

    def delete(self, rows: DataFrame, state: State) -> None:
        """Removes the rows for good and commits that together with the state.

        Raises
        ------
        WriteError
            Hudi could not write; the rows are all there then.
        """
        self.hudi.of_buckets(state.buckets).delete(rows.select(*self.columns()), state.as_metadata())

    def columns(self) -> list[str]:
        """The table's columns without Hudi's own, quoted."""
        return [f"`{name}`" for name in self.hudi.columns()]

    def register(self) -> None:
        """Makes the table and its views known to the catalog, and its new commit to the running session.

        Raises
        ------
        WriteError
            The catalog refused.
        """
        catalog_of(self.hudi).register(self._entry)

    @property
    def _entry(self) -> Entry:
        views = {f"{self.table.name}{suffix}": is_ro for suffix, is_ro in self.table.views.items()}
        comments = {column.name: column.description for column in self.table.columns}
        return Entry(self.hudi, self.column_types, views, self.table.description, comments)

    def buckets_for(self, rows: int, sample: DataFrame | None = None) -> int | None:
        """The number of buckets of a new table, or of each of its partitions: as declared, or by its rows.

        None where it may not have any (`may_have_buckets`).

        Parameters
        ----------
        rows:
            How many the table is made for.
        sample:
            Rows that have most of its partitions; None where it has no rows yet.
        """
        if not self.may_have_buckets:
            return None
        if self.table.options.buckets:
            return self.table.options.buckets
        if not self.table.options.partition_by:
            small = min(round(rows / _ROWS_A_BUCKET), _BUCKETS_OF_A_SMALL_TABLE)
            return max(1, small, round(rows / _ROWS_A_LARGE_BUCKET))
        if sample is None or rows < 2 * _ROWS_A_LARGE_BUCKET:
            return 1
        partitions = sample.select(*(f"`{name}`" for name in self.table.options.partition_by)).distinct().count()
        return max(1, round(rows / partitions / _ROWS_A_LARGE_BUCKET))

    def index_anew(self, state: State, buckets: int | None) -> None:
        """Puts the rows of a table into buckets, as many as it had, one a key, by a commit of its own.

        `buckets`: of each partition, where it had a global index and none are declared; None for as many as its rows
        ask for.

        Raises
        ------
        WriteError
            Hudi could not write. The table is as it was then.
        """
        made = state.buckets or self.table.options.buckets or buckets
        if made is None:
            rows = self.stored()
            made = self.buckets_for(rows.count(), rows)
        new = state.without_events(buckets=made)
        self.hudi.of_buckets(made).index_anew(new.as_metadata())
