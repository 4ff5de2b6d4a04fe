"""Source transactions kept whole over the tables of a source (`consistent: transaction`).

Debezium's transaction topic says, at the end of each transaction, how many events of which table belong to it. Events
wait until all of their transaction, and of every transaction that ended before it, have come: what is landed is then
always the whole of the source's first so many commits. The tables commit one after the other nevertheless; a *cut*
names an instant of each that belong together, and is one commit itself. Readers travel to the instants of a cut.

Source: Debezium's documentation, "Transaction metadata" of each connector: one BEGIN and one END a transaction, in the
order of commits, on one partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.tables import Column, IngestOptions, SchemaPolicy, Table
from ingest.errors import InputError, UnavailableError
from ingest.silver.ledger import Ledger
from ingest.silver.table import SilverTable

# Instants of a cut that readers may still be at; older cuts are let go with the file versions they need.
CUTS_KEPT = 10
# A cut stays readable while a table makes this many commits beyond it; then the tables wait for the one that failed.
# Less than the commits whose files `ingest.silver.hudi` keeps for such tables.
COMMITS_BEYOND_A_CUT = 15
_COLLECTIONS = "array<struct<data_collection:string,event_count:bigint>>"


def is_consistent(tables: Sequence[Table]) -> bool:
    """Whether the tables, all of one source, are landed by whole transactions."""
    return bool(tables) and tables[0].options.consistent == "transaction"


def topic_table(table: Table) -> Table:
    """The transaction topic of a table's source as a table of its own: `_transactions`, a row for BEGIN and for END."""
    types = {"id": T.StringType(), "status": T.StringType(), "event_count": T.LongType()}
    types |= {"data_collections": T.StringType(), "ts_ms": T.LongType()}
    return replace(
        table,
        name="_transactions",
        location="_transactions",
        # Not declared: BEGIN lacks some, and that is no fault.
        columns=tuple(Column(name, data_type, declared=False) for name, data_type in types.items()),
        options=IngestOptions(
            connection=table.options.connection,
            topic=table.transaction_topic,
            key=("id", "status"),
            order_by=("ts_ms",),
            schema_policy=SchemaPolicy(add="keep"),
        ),
        where=f"{table.where}: transaction_topic",
        database=None,
    )


def released(schema: str) -> Ledger:
    """The transactions that may be landed: `transaction_id` (key), `released_at`, `forced`."""
    return Ledger(schema, "_released", key="transaction_id", ordering="released_at")


def cuts(schema: str) -> Ledger:
    """The newest cuts: `cut_id` (key), `source_table`, `instant`, `cut_at`."""
    return Ledger(schema, "_cuts", key="cut_id", ordering="cut_at")


@dataclass(frozen=True)
class Blocked:
    """The first transaction that is not whole, though it has ended: what it lacks of one table."""

    transaction: str
    table: str
    seen: int
    expected: int

    @property
    def told(self) -> str:
        """What is missing, in one sentence."""
        return (
            f"transaction {self.transaction} has ended with {self.expected} events of {self.table}, "
            f"of which {self.seen} have come"
        )


@dataclass(frozen=True)
class Gate:
    """Which events may be landed now.

    Attributes
    ----------
    passing:
        Column `transaction_id`: the transactions that may, of those that have events waiting.
    blocked:
        What the others wait for; None where their END has not come.
    beyond:
        How many commits each table had made beyond the newest cut.
    """

    passing: DataFrame
    blocked: Blocked | None
    beyond: Mapping[str, int] = field(default_factory=dict)

    @property
    def far(self) -> Mapping[str, int]:
        """The tables that have gone so far beyond the newest cut that another must be made first; by how many commits.

        What was let pass before is landed, and makes the tables whole; no more is let pass.
        """
        return {name: commits for name, commits in self.beyond.items() if commits >= COMMITS_BEYOND_A_CUT}

    def retained(self, table: str, landed: int) -> int | None:
        """Of how many commits a table must keep the files so that the newest cut can be read; None where those that are
        kept anyway are enough. `landed`: the portions that it has landed since the gate was opened.

        In tens, for what is prepared for a table is prepared anew with other options. A portion may be two commits: one
        of its rows, and a compaction.
        """
        commits = self.beyond.get(table, 0) + 2 * landed
        return None if commits < COMMITS_BEYOND_A_CUT else (commits // 10 + 2) * 10

    @property
    def waits_for(self) -> str:
        """What keeps the others waiting, in one sentence."""
        if self.far:
            return "the next cut, which a table that fails holds"
        return self.blocked.told if self.blocked else "transactions that have not ended"

    def marked(self, changes: DataFrame) -> DataFrame:
        """Adds `_lake_waits`: whether an event's transaction is not whole. An event without one does not wait."""
        passing = self.passing.select(
            F.col("transaction_id").alias("__transaction_id"), F.lit(True).alias("_lake_passes")
        )
        marked = changes.join(F.broadcast(passing), "__transaction_id", "left")
        waits = F.col("__transaction_id").isNotNull() & F.col("_lake_passes").isNull()
        return marked.select(*(f"`{name}`" for name in changes.columns), waits.alias("_lake_waits"))


def open_gate(spark: SparkSession, tables: Sequence[Table], pending: Mapping[str, DataFrame]) -> Gate:
    """Finds the transactions that are whole, remembers that they may be landed, and lets them pass.

    Remembered before anything of them is landed: a run that breaks off between two tables is gone on with, whatever
    the tables have of the transaction by then.

    Parameters
    ----------
    tables:
        All tables of the source; their transaction topic has been landed.
    pending:
        `__transaction_id` and `__transaction_total_order` of the events that wait, each once, by the name of their
        table.

    Raises
    ------
    InputError
        A table is none of those that the transactions of its events name.
    WriteError
        What was found cannot be remembered.
    """
    if not pending:
        # What has ended is looked at once events wait: each look of a source that is quiet read all transactions.
        return Gate(spark.createDataFrame([], "transaction_id string"), None)
    first = tables[0]
    beyond = _commits_beyond_cut(spark, tables)
    of_each = [places.withColumn("source_table", F.lit(name)) for name, places in pending.items()]
    none = spark.createDataFrame([], "__transaction_id string, __transaction_total_order bigint, source_table string")
    every = reduce(DataFrame.unionByName, of_each, none).withColumnRenamed("__transaction_id", "transaction_id")
    seen = every.groupBy("source_table", "transaction_id").agg(F.count("*").alias("seen")).localCheckpoint()
    waiting = seen.select("transaction_id").distinct()
    known = released(first.schema).read(spark)
    passed = waiting.limit(0) if known is None else known.select("transaction_id")
    # Read once: those that may pass by now, and those that events wait of, whose names are looked at.
    ended = (
        _ended(spark, first)
        .join(passed.withColumn("is_known", F.lit(True)), "transaction_id", "left")
        .join(F.broadcast(waiting.withColumn("is_seen", F.lit(True))), "transaction_id", "left")
        .where("is_known is null or is_seen")
        .localCheckpoint()
    )
    if not seen.isEmpty():
        _require_named(ended.join(F.broadcast(seen), "transaction_id"), tables)
    ended = ended.where("is_known is null")
    blocked_at, blocked = _first_blocked(ended, seen, tables)
    whole = ended if blocked_at is None else ended.where(F.col("place") < blocked_at)
    now = datetime.now(UTC)
    gate = Gate(waiting.limit(0), blocked, beyond)
    if not gate.far and not whole.isEmpty():
        news = whole.select("transaction_id", F.lit(now).alias("released_at"), F.lit(False).alias("forced"))
        released(first.schema).write(spark, news, "upsert")
        known = released(first.schema).read(spark)
    passing = waiting.join(known, "transaction_id", "left_semi") if known is not None else gate.passing
    return replace(gate, passing=passing.localCheckpoint())


def _ended(spark: SparkSession, table: Table) -> DataFrame:
    """The transactions that have ended: `transaction_id`, `place` in the order of commits, `collections`."""
    silver = SilverTable.of(spark, topic_table(table))
    if silver.state() is None:
        return spark.createDataFrame([], f"transaction_id string, place string, collections {_COLLECTIONS}")
    # The order of commits is the order of the topic, whatever the clocks say.
    place = F.substring_index("__position", "/", -1).alias("place")
    collections = F.from_json("data_collections", _COLLECTIONS).alias("collections")
    return silver.read().where("status = 'END'").select(F.col("id").alias("transaction_id"), place, collections)


def _first_blocked(ended: DataFrame, seen: DataFrame, tables: Sequence[Table]) -> tuple[str | None, Blocked | None]:
    # A topic may be kept in two tables.
    names: dict[str, list[Expression]] = {}
    for table in tables:
        names.setdefault(table.collection, []).append(F.lit(table.name))
    tables_of = F.create_map(*(part for name, found in names.items() for part in (F.lit(name), F.array(*found))))
    expected = (
        ended.select("transaction_id", "place", F.explode("collections").alias("collection"))
        .withColumn("source_table", F.explode(tables_of[_last_parts(F.col("collection.data_collection"))]))
        .select("transaction_id", "place", "source_table", F.col("collection.event_count").alias("expected"))
    )
    lacking = (
        expected.join(seen, ["transaction_id", "source_table"], "left")
        .withColumn("seen", F.coalesce("seen", F.lit(0)))
        .where("seen < expected")
    )
    row = lacking.orderBy("place", "source_table").first()
    if row is None:
        return None, None
    return row["place"], Blocked(row["transaction_id"], row["source_table"], row["seen"], row["expected"])


def _require_named(ended: DataFrame, tables: Sequence[Table]) -> None:
    """Nobody would wait for events of a table by whose name no END counts any.

    `ended`: the transactions that have ended, with `source_table` and how many events of it have been `seen`.
    """
    collection_of = F.create_map(*(F.lit(text) for each in tables for text in (each.name, each.collection)))
    named = F.transform("collections", lambda each: _last_parts(each["data_collection"]))
    row = ended.where(~F.array_contains(named, collection_of[F.col("source_table")])).orderBy("place").first()
    if row is None:
        return
    (table,) = (each for each in tables if each.name == row["source_table"])
    collections = ", ".join(each["data_collection"] for each in row["collections"])
    raise InputError(
        f"transaction {row['transaction_id']} has ended with events of {collections or 'no table'}, and with none of "
        f"{table.collection}, of which {row['seen']} have come",
        where=table.where,
        expected="the table's name as its transactions have it: the last two parts of `topic`, or of `database.table`",
        action="take out of the connector what renames topics (RegexRouter, ByLogicalTableRouter), or declare "
        "`database` with the table's name; nothing was landed",
    )


def _last_parts(collection: Expression) -> Expression:
    """What a table's `collection` has of the name."""
    return F.substring_index(collection, ".", -2)


def release(spark: SparkSession, table: Table, transaction: str) -> None:
    """Lets a transaction pass that will not become whole: some of its events are lost for good.

    Raises
    ------
    InputError
        The topic has brought no END of it.
    """
    ended = _ended(spark, table).where(F.col("transaction_id") == transaction)
    if ended.isEmpty():
        raise InputError(
            f"no transaction {transaction} has ended",
            where=f"{table.schema}._transactions",
            expected=f"the id of one that is blocked, as `lake ingest {table.source}` names it",
        )
    rows = ended.select("transaction_id", F.current_timestamp().alias("released_at"), F.lit(True).alias("forced"))
    released(table.schema).write(spark, rows, "upsert")


def make_cut(spark: SparkSession, tables: Sequence[Table]) -> None:
    """Names the newest commits of the tables as belonging together, unless the newest cut does already.

    Raises
    ------
    WriteError
        The cut could not be written: readers stay at the one before it.
    """
    ledger = cuts(tables[0].schema)
    states = {table.name: SilverTable.of(spark, table).state() for table in tables}
    now = {name: state.instant for name, state in states.items() if state is not None}
    if now == newest_cut(spark, tables[0].schema):
        return
    news = _as_cut(spark, now)
    before = ledger.read(spark)
    if before is not None:
        kept = before.select("cut_at").distinct().orderBy(F.col("cut_at").desc()).limit(CUTS_KEPT - 1)
        news = news.unionByName(before.join(kept, "cut_at", "left_semi").select(*news.columns)).localCheckpoint()
    ledger.write(spark, news, "overwrite")


def newest_cut(spark: SparkSession, schema: str) -> dict[str, str]:
    """The instants of the newest cut, by table; empty where there is none."""
    every = cuts(schema).read(spark)
    if every is None:
        return {}
    found = every.select("cut_at", "source_table", "instant").collect()
    newest = max(row["cut_at"] for row in found)
    return {row["source_table"]: row["instant"] for row in found if row["cut_at"] == newest}


def require_at_cut(spark: SparkSession, table: Table, instant: str) -> None:
    """What removes a table's earlier commits leaves a cut nothing to read, unless the cut is at the last one.

    Raises
    ------
    InputError
        It is at another one than `instant`.
    """
    at = newest_cut(spark, table.schema).get(table.name, instant)
    if at != instant:
        raise InputError(
            f"the newest cut of the source is at {at}, the last commit is {instant}",
            where=table.relation,
            expected="a cut at the last commit: no earlier one can be read afterwards",
            action=f"run `lake ingest {table.source}` until every table is well, then this again; nothing was erased",
        )


def move_cut(spark: SparkSession, table: Table, instant: str) -> None:
    """Puts the newest cut to another commit of a table, with the same rows; the older cuts can be read no more.

    Raises
    ------
    WriteError
        It could not be written: the next run of ingest makes a cut.
    """
    if instants := newest_cut(spark, table.schema):
        cuts(table.schema).write(spark, _as_cut(spark, {**instants, table.name: instant}), "overwrite")


def _as_cut(spark: SparkSession, instants: Mapping[str, str]) -> DataFrame:
    """The rows of a cut that is made now."""
    at = datetime.now(UTC)
    rows = [(f"{at.isoformat()} {name}", name, instant, at) for name, instant in instants.items()]
    return spark.createDataFrame(rows, "cut_id string, source_table string, instant string, cut_at timestamp")


def far_from_cut(table: Table, commits: int) -> UnavailableError:
    """What it means that a table has gone so far beyond the newest cut."""
    return UnavailableError(
        f"{commits} commits lie beyond the newest cut: another table of the source has been failing since",
        where=table.relation,
        expected=f"fewer than {COMMITS_BEYOND_A_CUT}: the cut's files are kept no longer",
        action="correct the table that fails; nothing of this one was landed, the run that lands the other goes on",
    )


def _commits_beyond_cut(spark: SparkSession, tables: Sequence[Table]) -> dict[str, int]:
    """A reader at the newest cut needs files that Hudi removes after so many commits."""
    instants = newest_cut(spark, tables[0].schema)
    known = [table for table in tables if table.name in instants]
    return {table.name: SilverTable.of(spark, table).commits_after(instants[table.name]) for table in known}
