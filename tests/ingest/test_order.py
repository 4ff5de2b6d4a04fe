"""The newest change of each key wins by its place in the source's log, whatever the order and batches of delivery."""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from conftest import DbtProject, MakeProject, pg, table_of, unwrapped
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest.changes.latest import ranked
from ingest.changes.position import as_record_key, with_position
from ingest.config.connections import FilesConnection
from ingest.config.connectors import LOG_COLUMNS, ConnectorName
from ingest.config.sources_file import parse_data_type
from ingest.config.tables import Column, IngestOptions, Table
from ingest.schema.change import silver_columns
from ingest.silver.state import Counts
from ingest.spark.jvm import java_class

pytestmark = pytest.mark.spark

CONNECTORS: tuple[ConnectorName, ...] = ("postgresql", "mariadb", "mysql", "sqlserver")
TABLE_TYPES = (pytest.param("cow", marks=pytest.mark.slow), "mor")
CASES = 250
# What a decoded change has beside its columns.
PLACE = (
    "_lake_partition int, _lake_start_offset bigint, _lake_order bigint, _lake_file string, "
    "_lake_problem string, _lake_ignored boolean"
)


@dataclass(frozen=True)
class Change:
    """An event of a case: `place` is its rank in the source's log, equal for repeated deliveries."""

    case: int
    key: int
    op: Literal["c", "u", "d"]
    value: int
    place: int


def log_position(connector: ConnectorName, place: int) -> dict[str, Any]:
    """Metadata fields that grow with `place`, and carry over between their parts at awkward numbers."""
    if connector == "postgresql":
        # 9, 16, ... 93, 100: texts of other lengths sort otherwise
        return {"__lsn": 9 + place * 7, "__source_sequence": f'["{2 + place * 7}","{9 + place * 7}"]'}
    if connector in ("mariadb", "mysql"):
        file, rest = divmod(place, 6)
        pos, row = divmod(rest, 2)
        # From bin.999998 on, so that the number of the file grows by a digit.
        return {
            "__source_file": f"{connector}-bin.{999_998 + file:06d}",
            "__source_pos": 95 + pos * 5,
            "__source_row": 9 + row,
        }
    commit, rest = divmod(place, 6)
    change, serial = divmod(rest, 2)
    return {
        "__source_commit_lsn": f"0000002a:{0xFFFE + commit:08x}:0003",
        "__source_change_lsn": f"0000002a:{0xFFFE + commit:08x}:{9 + change:04x}",
        "__source_event_serial_no": 9 + serial,
    }


def a_case(case: int, rng: random.Random) -> list[Change]:
    """A few changes of a few keys, each at a place of its own, then shuffled, with some delivered more than once."""
    places = rng.sample(range(40), rng.randint(1, 10))
    changes = [Change(case, rng.randint(1, 3), rng.choice(("c", "u", "d")), number, place)
               for number, place in enumerate(places)]  # fmt: skip
    delivered = changes + [rng.choice(changes) for _ in range(rng.randint(0, 3))]
    rng.shuffle(delivered)
    return delivered


def a_table(connector: ConnectorName) -> Table:
    return Table(
        source="shop",
        name="item",
        schema="silver",
        location="item",
        columns=tuple(Column(name, parse_data_type("int", where="")) for name in ("case_id", "item_id", "value")),
        options=IngestOptions(connection="files", connector=connector, topic="item", key=("case_id", "item_id")),
        connection=FilesConnection(type="files", path="bronze"),
        where="",
    )


def decoded_rows(
    connector: ConnectorName, delivered: Sequence[Change], rng: random.Random
) -> Iterator[tuple[Any, ...]]:
    """Decoded changes: each case cut into files at random; offsets follow the delivery."""
    offset = 0
    for order, change in enumerate(delivered):
        if rng.random() < 0.3:
            offset += 1 + rng.randint(0, 20)
        position = log_position(connector, change.place)
        yield (
            change.case, change.key, change.value, change.op, *position.values(), str(change.op == "d").lower(),
            0, offset, order, f"file-{change.case}-{offset}", None, False,
        )  # fmt: skip


@pytest.mark.parametrize("connector", CONNECTORS)
def test_the_highest_position_of_each_key_wins_in_hundreds_of_random_cases(
    connector: ConnectorName, spark: SparkSession
) -> None:
    rng = random.Random(f"order {connector}")  # noqa: S311
    cases = [a_case(case, rng) for case in range(CASES)]
    rows = [row for case in cases for row in decoded_rows(connector, case, rng)]
    rng.shuffle(rows)  # Spark gives no order either
    position_type = {"long": "bigint", "integer": "int", "string": "string"}
    metadata = ", ".join(
        f"{column.name} {position_type[column.data_type.typeName()]}" for column in LOG_COLUMNS[connector]
    )
    changes = spark.createDataFrame(
        rows,
        f"case_id int, item_id int, value int, __op string, {metadata}, __deleted string, {PLACE}",
    )
    of_key = ranked(with_position(changes, a_table(connector)), a_table(connector)).groupBy("case_id", "item_id")
    last, repeats = F.max_by(F.struct("value", "__op"), -F.col("_lake_rank")), F.count_if("_lake_repeated")
    summed = of_key.agg(last.alias("last"), F.count_if(F.expr("_lake_rank = 1")), F.count("*"), repeats)
    found = {(case, item): (*newest, *counts) for case, item, newest, *counts in summed.collect()}

    expected: dict[tuple[int, int], tuple[int, str, int, int, int]] = {}
    for case in cases:
        of_its_key: dict[tuple[int, int], list[Change]] = defaultdict(list)
        for change in case:
            of_its_key[change.case, change.key].append(change)
        for key, events in of_its_key.items():
            newest = max(events, key=lambda change: change.place)
            expected[key] = (
                newest.value,
                newest.op,
                1,
                len(events),
                len(events) - len({change.place for change in events}),
            )
    assert found == expected


def test_a_shared_log_position_is_decided_by_partition_then_offset_then_order(spark: SparkSession) -> None:
    """Rows of a snapshot share one position: what was written last into the topic wins."""
    columns = "case_id int, item_id int, value int, __op string, __lsn bigint, __source_sequence string, "
    columns += "__deleted string"
    places = {
        1: [(0, 5, 900), (0, 11, 2)],  # the later file wins, whatever Spark's order
        2: [(0, 7, 3), (0, 7, 16)],  # within a file its order
        3: [(0, 900, 9), (1, 0, 1)],
        4: [(0, 9, 1), (0, 16, 0)],  # 0x9 < 0x10
        5: [(0, 4294967295, 1), (0, 4294967296, 0)],
    }
    rows = [
        (case, 1, winner, "r", 77, None, "false", *place, f"f{place[1]}", None, False)
        for case, pair in places.items()
        for winner, place in enumerate(pair)
    ]
    changes = spark.createDataFrame(rows, f"{columns}, {PLACE}")
    last = (
        ranked(with_position(changes, a_table("postgresql")), a_table("postgresql")).where("_lake_rank = 1").collect()
    )
    assert {row["case_id"]: row["value"] for row in last} == dict.fromkeys(places, 1)


def test_rows_of_an_incremental_snapshot_lose_against_any_change(spark: SparkSession) -> None:
    rows = [
        (1, 1, 10, "u", 5, None, "false", 0, 0, 0, "f", None, False),
        (1, 1, 11, "r", None, None, "false", 0, 0, 1, "f", None, False),
    ]
    changes = spark.createDataFrame(
        rows,
        "case_id int, item_id int, value int, __op string, __lsn bigint, __source_sequence string, __deleted string, "
        + PLACE,
    )
    placed = ranked(with_position(changes, a_table("postgresql")), a_table("postgresql")).orderBy("_lake_rank")
    found = [(row["value"], row["_lake_rank"], row["_lake_repeated"], row["_lake_mixed"]) for row in placed.collect()]
    assert found == [(10, 1, False, False), (11, 2, False, True)]


# End to end, over several batches


def items(
    table_type: str, connector: ConnectorName = "postgresql", name: str = "item", **options: Any
) -> dict[str, Any]:
    columns = {"case_id": "int", "item_id": "int", "value": "int"}
    return table_of(name, columns, ["case_id", "item_id"], connector=connector, table_type=table_type, **options)


def item(op: str, lsn: int | None, key: int, value: int) -> dict[str, Any]:
    return pg(op, lsn, case_id=0, item_id=key, value=value)


@pytest.mark.parametrize("table_type", TABLE_TYPES)
def test_late_and_repeated_events_of_later_batches_are_told_apart_and_counted(
    table_type: str, make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project({"tables": [items(table_type)]})
    topic = "shop.item"

    def lands(offset: int, *events: Mapping[str, Any], total: Counts, **counts: int) -> None:
        project.deliver(topic, offset, events)
        landed = project.land_well(spark)["item"]
        assert landed.counts == Counts(**counts)
        state = project.state(spark, "item")
        assert (state.counts, state.totals) == (landed.counts, total)

    def values() -> dict[int, tuple[int | None, str]]:
        rows = project.rows(spark, "item", "item_id", "value", "__deleted", live=False)
        return {row["item_id"]: (row["value"], row["__deleted"]) for row in rows}

    first = (
        item("c", 100, 1, 10),
        item("c", 110, 2, 20),
        item("u", 200, 1, 11),
        item("u", 200, 1, 11),
        item("c", 120, 3, 30),
    )
    lands(0, *first, read=5, applied=3, superseded=1, duplicate=1, total=Counts(5, 3, 1, 1))
    # An older change after a newer one, and the newest event of all once more.
    lands(5, item("u", 150, 1, 99), item("u", 200, 1, 11), read=2, duplicate=1, superseded=1, total=Counts(7, 3, 2, 2))
    lands(7, item("u", 150, 1, 99), item("u", 115, 2, 21), item("c", 400, 4, 40),
          read=3, applied=2, superseded=1, total=Counts(10, 5, 3, 2))  # fmt: skip
    assert values() == {1: (11, "false"), 2: (21, "false"), 3: (30, "false"), 4: (40, "false")}
    # A delete, and then what was before it.
    lands(10, item("d", 300, 3, 0), read=1, applied=1, total=Counts(11, 6, 3, 2))
    lands(11, item("u", 250, 3, 31), item("d", 300, 3, 0), item("c", 120, 3, 30),
          read=3, superseded=2, duplicate=1, total=Counts(14, 6, 5, 3))  # fmt: skip
    assert values()[3] == (None, "true")
    # The whole of the first batch again, and a key that comes back to life.
    lands(14, *first, item("c", 500, 3, 33), read=6, applied=1, duplicate=2, superseded=3, total=Counts(20, 7, 8, 5))
    assert values() == {1: (11, "false"), 2: (21, "false"), 3: (33, "false"), 4: (40, "false")}


@pytest.mark.parametrize("table_type", TABLE_TYPES)
def test_a_key_without_log_position_takes_its_newest_snapshot_row(
    table_type: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """Incremental snapshots have no lsn: among themselves the offset decides, in one batch as in two."""
    project = make_project({"tables": [items(table_type)]})
    project.deliver("shop.item", 0, [item("r", None, 1, 10), item("c", 50, 9, 1)])
    project.land_well(spark)
    project.deliver("shop.item", 2, [item("r", None, 1, 11), item("r", None, 9, 0), item("r", None, 2, 20)])
    counts = project.land_well(spark)["item"].counts
    values = {row["item_id"]: row["value"] for row in project.rows(spark, "item")}
    assert values == {1: 11, 2: 20, 9: 0}
    assert (counts.read, counts.applied, counts.superseded) == (3, 3, 0)


@pytest.mark.parametrize("table_type", TABLE_TYPES)
def test_the_table_itself_lets_the_higher_position_win(
    table_type: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """Whoever else writes to it, such as a backfill: an older row does not displace a newer one."""
    project = make_project({"tables": [items(table_type)]})
    project.deliver("shop.item", 0, [item("c", 100, 1, 10), item("c", 100, 2, 20)])
    project.land_well(spark)
    silver = project.silver(spark, "item")
    older, newer = (f"0000.{lsn:016x}.{lsn:016x}/0" for lsn in (99, 101))
    position = F.when(F.col("item_id") == 1, F.lit(older)).otherwise(F.lit(newer))
    rows = silver.read().select(*silver_columns(silver.table))
    rows = rows.withColumn("value", F.lit(99)).withColumn("__position", position).localCheckpoint()
    silver.write(rows, project.state(spark, "item"), first=False)
    silver.register()
    assert [row["value"] for row in project.rows(spark, "item")] == [10, 99]


@pytest.mark.slow
@pytest.mark.parametrize("table_type", TABLE_TYPES)
def test_random_histories_in_random_batches_end_as_the_source_does(
    table_type: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """Every connector at once, 60 histories each, delivered shuffled and repeated over four batches."""
    connectors: tuple[ConnectorName, ...] = ("postgresql", "mariadb", "sqlserver")
    project = make_project({"tables": [items(table_type, connector, connector) for connector in connectors]})
    delivered: dict[ConnectorName, list[Change]] = {}
    for connector in connectors:
        rng = random.Random(f"batches {connector} {table_type}")  # noqa: S311
        delivered[connector] = [change for case in range(60) for change in a_case(case, rng)]
        rng.shuffle(delivered[connector])
    read = dict.fromkeys(connectors, 0)
    for batch in range(4):
        for connector in connectors:
            part = delivered[connector][batch::4]
            _deliver_in_two_files(project, connector, read[connector], part)
            read[connector] += len(part)
        for name, landed in project.land_well(spark).items():
            counts = landed.counts
            assert counts.read == len(delivered[cast(ConnectorName, name)][batch::4])
            assert counts.read == counts.applied + counts.superseded + counts.duplicate
            assert counts == project.state(spark, name).counts
    for connector in connectors:
        newest: dict[tuple[int, int], Change] = {}
        for change in delivered[connector]:
            held = newest.get((change.case, change.key))
            if held is None or change.place > held.place:
                newest[change.case, change.key] = change
        rows = project.rows(spark, connector, "case_id", "item_id", "value", "__op", live=False)
        found = {(row["case_id"], row["item_id"]): (row["__op"], row["value"]) for row in rows}
        hidden = connector == "postgresql"  # the columns of its deleted rows are fillers, kept as nulls
        assert found == {
            key: (change.op, None if change.op == "d" and hidden else change.value) for key, change in newest.items()
        }
        totals = project.state(spark, connector).totals
        assert totals.read == len(delivered[connector])
        # Every repetition is seen, in its own batch or a later one, unless something newer has already won.
        assert totals.duplicate <= totals.read - len({(c.case, c.key, c.place) for c in delivered[connector]})


def _deliver_in_two_files(
    project: DbtProject, connector: ConnectorName, offset: int, changes: Sequence[Change]
) -> None:
    events = [
        unwrapped(
            change.op,
            log_position(connector, change.place),
            {"case_id": change.case, "item_id": change.key, "value": change.value},
        )
        for change in changes
    ]
    half = len(events) // 2
    project.deliver(f"shop.{connector}", offset, events[:half])
    project.deliver(f"shop.{connector}", offset + half, events[half:])


def test_a_file_without_a_sinks_name_is_ordered_by_its_time(make_project: MakeProject, spark: SparkSession) -> None:
    """Two snapshots of one row at one log position, in files named by hand: the file written last wins."""
    project = make_project({"tables": [items("cow")]})
    for name, value, seconds in (("b.json", 1, 1_700_000_000), ("a.json", 2, 1_700_000_060)):
        path = project.deliver("shop.item", 0, [item("r", 5, 1, value)])
        path = path.rename(path.with_name(name))
        _set_time(path, seconds)
    project.land_well(spark)
    assert project.rows(spark, "item", "value") == [{"value": 2}]


def _set_time(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


def test_hudi_reads_every_record_key_to_its_end(spark: SparkSession) -> None:
    """It searched forever where no comma stands between the last two colons: a key of a time and something else."""
    texts = ["".join(text) for length in range(2, 7) for text in itertools.product(":,a", repeat=length)]
    texts += ['["2023-11-14 22:13:20.5","1"]', '["aa:bb:cc"]', '["urn:a:b, c"]', "0000.002a:01:0003/c/[1,2]"]
    rows = spark.createDataFrame([(text,) for text in texts], "text string")
    keys = [row["key"] for row in rows.select(as_record_key(F.col("text")).alias("key")).collect()]
    assert len(set(keys)) == len(texts)
    assert all(key == text for key, text in zip(keys, texts, strict=True) if "," not in text or text.count(":") < 2)
    fields = java_class(spark, "java.util.List").of("__key")
    read: list[int] = []

    def read_all() -> None:
        split = java_class(spark, "org.apache.hudi.keygen.KeyGenUtils").extractRecordKeysByFields
        read.extend(len(split(key, fields)) for key in keys)

    reader = threading.Thread(target=read_all, daemon=True)
    reader.start()
    reader.join(timeout=60)
    assert len(read) == len(keys)
