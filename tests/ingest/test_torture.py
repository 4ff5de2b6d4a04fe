"""The 18 cases of a public matrix for `AUTO CDC` (ivanvyd/lakeflow-auto-cdc-torture-test, numbered as there), on silver
and on the history of tables with `history: true`.

Its events are those of one customer, ordered by declared columns, as its sources have no log: `seq`, the source's own
sequence; `updated_at`, the source's clock; `txn`, the place within a transaction; `received_at`, the clock of whoever
took the event. Times are seconds since 10:00. Where a log decides, the case is played on PostgreSQL's as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from conftest import Played, Row, Scenario, play, unwrapped
from pyspark.sql import SparkSession

from ingest.silver import Counts

pytestmark = pytest.mark.spark

START = datetime(2026, 3, 1, 10, tzinfo=UTC)
COLUMNS = {
    "customer_id": "int", "name": "string", "email": "string", "city": "string", "status": "string", "seq": "int",
    "txn": "int", "updated_at": "timestamp", "received_at": "timestamp", "synced_at": "timestamp",
}  # fmt: skip
# What a customer's history is told by.
SHOWN = ("email", "city", "status")


def at(seconds: int) -> datetime:
    """A time of day as silver has it."""
    return (START + timedelta(seconds=seconds)).replace(tzinfo=None)


def event(op: str, seq: int, status: str | None, second: int = 0, *, received: int | None = None, **row: Any) -> Row:
    """An event of the customer; a delete has neither name nor anything else of its row."""
    known = {} if op == "d" else {"name": "Ada", "email": "ada@example.com", "city": "Oslo"}
    clocks = {"updated_at": second, "received_at": second if received is None else received, "synced_at": second}
    clocks |= {name: row.pop(name) for name in clocks.keys() & row.keys()}
    values = {"customer_id": 42, "status": status, "seq": seq, "txn": 1, **known, **row}
    times = {name: (START + timedelta(seconds=seconds)).isoformat() for name, seconds in clocks.items()}
    made = int((START + timedelta(seconds=second)).timestamp() * 1000)
    return {**unwrapped(op, {}, {**values, **times}), "__source_ts_ms": made}


def logged(lsn: int, of: Row) -> Row:
    """The event as PostgreSQL's log has it, at a place of its own."""
    return {**of, "__lsn": lsn}


DUPLICATE = [event("c", 10, "ACTIVE")]
LATE = [[event("u", 12, "ACTIVE", 20)], [event("u", 10, "PENDING")]]
TIE = [event("u", 10, "ACTIVE"), event("u", 10, "SUSPENDED", txn=2, received=1)]
CLOCKS = [event("u", 20, "SUSPENDED", 300, received=360), event("u", 10, "ACTIVE", 0, received=600)]
SPARSE = [event("c", 10, "ACTIVE"), event("u", 20, "ACTIVE", 60, email=None, city="Bergen")]
DELETED = [[event("u", 17, "ACTIVE"), event("d", 20, None, 200)], [event("u", 18, "SUSPENDED", 150, received=250)]]
WHOLE = [
    event("c", 10, "PENDING"),
    event("u", 20, "ACTIVE", 60),
    event("u", 30, "ACTIVE", 120, city="Bergen"),
    event("u", 40, "SUSPENDED", 180, city="Tromsø"),
    event("d", 50, None, 240),
]
NOISE = [event("c", 10, "ACTIVE"), *(event("u", 10, "ACTIVE", n, synced_at=60 * n) for n in range(1, 51))]
BITEMPORAL = [
    {**event("u", seq, status, known), "updated_at": (START + timedelta(seconds=valid)).isoformat()}
    for seq, status, valid, known in ((10, "PENDING", 0, 60), (20, "ACTIVE", 120, 180), (30, "SUSPENDED", 240, 300))
]


def scene(name: str, batches: Sequence[Sequence[Row]], *order_by: str, log: bool = False, **options: Any) -> Scenario:
    """A table of the customer that is fed the batches."""
    order = {"connector": "postgresql"} if log else {"connector": None, "order_by": order_by or ("seq",)}
    order = {key: list(value) if isinstance(value, tuple) else value for key, value in order.items()}
    return Scenario(name, COLUMNS, ["customer_id"], batches, [], options={**order, **options})


SCENES = (
    scene("duplicate", [DUPLICATE * 2], history=True),
    scene("replayed", [DUPLICATE, DUPLICATE], history=True),
    scene("out_of_order", LATE, history=True),
    scene("tie", [TIE]),
    scene("tie_cut", [TIE[:1], TIE[1:]], history=True),
    scene("tie_broken", [TIE[1:], TIE[:1]], "updated_at", "txn", history=True),
    scene("tie_in_log", [[logged(30, TIE[0]), logged(40, TIE[1])]], log=True),
    scene("clock_of_receipt", [CLOCKS[1:], CLOCKS[:1]], "received_at"),
    scene("clock_of_source", [CLOCKS[:1], CLOCKS[1:]], "updated_at", history=True),
    scene("clock_back", [[logged(20, CLOCKS[0])], [logged(30, CLOCKS[1])]], log=True, history=True),
    scene("sparse", [SPARSE, [{k: v for k, v in event("u", 30, "ACTIVE").items() if k != "city"}]]),
    scene("sparse_ignored", [SPARSE[:1], SPARSE[1:]], null_updates="ignore", history=True),
    scene("deleted", DELETED, history=True),
    scene("whole", [WHOLE, WHOLE], history=True),
    scene("whole_cow", [WHOLE[3:], WHOLE[:4], WHOLE], history=True, table_type="cow"),
    scene("noise", [NOISE], "updated_at", history=True),
    scene("bitemporal", [BITEMPORAL[1:], BITEMPORAL[:1]], "seq", history=True),
)
# The queries of the cases: a table's history, and what it is asked with.
NO_NOISE = "columns=['name', 'email', 'city', 'status', 'synced_at']"
QUERIES: dict[str, str] = {
    **{each.name: f"history(%r, 'customer_id', columns={list(SHOWN)})" for each in SCENES},
    "every column": f"history(%r, 'customer_id', {NO_NOISE})",
    "without synced_at": f"history(%r, 'customer_id', {NO_NOISE}, except_columns=['synced_at'])",
    "known": f"bitemporal_history(%r, ['customer_id'], 'updated_at', columns={list(SHOWN)})",
}
ASKED = {"every column": "noise", "without synced_at": "noise", "known": "bitemporal"}


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Played]:
    return play(spark, tmp_path_factory.mktemp("torture"), SCENES)


@pytest.fixture(scope="module")
def versions(spark: SparkSession, played: Mapping[str, Played]) -> Callable[..., list[tuple[Any, ...]]]:
    """The chosen columns of a query's rows, in order."""
    project = next(iter(played.values())).project
    kept = {each.name for each in SCENES if each.options.get("history")}
    asked = {name: ASKED.get(name, name) for name in QUERIES if ASKED.get(name, name) in kept}
    calls = [f"{{{{ {QUERIES[name] % f'{project.schema}.{table}__changes'} }}}}" for name, table in asked.items()]
    compiled = dict(zip(asked, project.compiled(*calls), strict=True))

    def of(query: str, *columns: str) -> list[tuple[Any, ...]]:
        rows = spark.sql(compiled[query])
        order = ["valid_from", "position_from"] + [name for name in ("known_from",) if name in rows.columns]
        return [tuple(row) for row in rows.orderBy(*order).select(*columns).collect()]

    return of


Versions = Callable[..., list[tuple[Any, ...]]]
Tables = Mapping[str, Played]


def statuses(result: Played) -> list[str]:
    """The status of each live row."""
    assert not result.errors
    return [row["status"] for row in result.rows]


def seq(position: str | None) -> int | None:
    """The sequence value of a position by one declared integer."""
    return None if position is None else int(position.split(".")[1], 16) - 2**63


def spans(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Versions with their two positions, which come last, as sequence values."""
    return [(*row[:-2], seq(row[-2]), seq(row[-1])) for row in rows]


def test_1a_an_exact_duplicate_is_one_row(played: Tables, versions: Versions) -> None:
    """One event, twice in one batch: one row, one version, and the second is counted as a duplicate."""
    assert statuses(played["duplicate"]) == ["ACTIVE"]
    assert played["duplicate"].totals == Counts(read=2, applied=1, duplicate=1)
    assert versions("duplicate", "status", "is_current") == [("ACTIVE", True)]


def test_1b_a_replayed_batch_changes_nothing(played: Tables, versions: Versions) -> None:
    """The event again, in a batch of its own after the first was landed."""
    assert statuses(played["replayed"]) == ["ACTIVE"]
    assert played["replayed"].totals == Counts(read=2, applied=1, duplicate=1)
    assert versions("replayed", "status", "is_current") == [("ACTIVE", True)]


def test_2a_a_late_event_does_not_overwrite_a_newer_one(played: Tables) -> None:
    """Sequence 12 is landed, then 10 comes: the row stays that of 12."""
    assert statuses(played["out_of_order"]) == ["ACTIVE"]
    assert played["out_of_order"].totals == Counts(read=2, applied=1, superseded=1)


def test_2b_a_late_event_takes_its_place_in_the_history(versions: Versions) -> None:
    """The same two events: the history has 10 until 12, and 12 as the current version, as if they had come in order."""
    assert spans(versions("out_of_order", "status", "valid_from", "valid_to", "position_from", "position_to")) == [
        ("PENDING", at(0), at(20), 10, 12),
        ("ACTIVE", at(20), None, 12, None),
    ]


def test_3a_of_a_tie_the_last_delivered_counts(played: Tables) -> None:
    """Two states of one row share the only sequence value that is declared.

    The declaration gives no order. What decides then is the order of delivery, which Kafka keeps for each key.
    """
    assert statuses(played["tie"]) == ["SUSPENDED"]


def test_3b_a_tie_does_not_depend_on_how_batches_are_cut(played: Tables, versions: Versions) -> None:
    """The same tie, where the events hold a tie-breaker that is not declared: each event in a batch of its own.

    The state is that of 3A, and the history's current version says the same.
    """
    assert statuses(played["tie_cut"]) == ["SUSPENDED"]
    assert versions("tie_cut", "status", "is_current")[-1] == ("SUSPENDED", True)


def test_3c_a_second_ordering_column_or_a_log_breaks_the_tie(played: Tables, versions: Versions) -> None:
    """The tie-breaker is declared behind the clock, and the events come the wrong way round.

    With a log there is no tie: each change has a place of its own.
    """
    assert statuses(played["tie_broken"]) == ["SUSPENDED"]
    assert versions("tie_broken", "status", "is_current") == [("ACTIVE", False), ("SUSPENDED", True)]
    assert statuses(played["tie_in_log"]) == ["SUSPENDED"]


def test_4a_the_declared_clock_orders_even_where_it_is_the_wrong_one(played: Tables) -> None:
    """The newer state was received first: by the clock of receipt the older one wins, however they are delivered.

    That is what was declared, and it is why no clock of ours is ever an order by itself.
    """
    assert statuses(played["clock_of_receipt"]) == ["ACTIVE"]


def test_4b_the_sources_order_holds_against_every_other_clock(played: Tables, versions: Versions) -> None:
    """By the source's own clock the newer state stays, though the older one is received later.

    Where there is a log, its place counts and not its times: a clock that is set back between two changes does not turn
    them round, and the history keeps their order.
    """
    assert statuses(played["clock_of_source"]) == ["SUSPENDED"]
    assert versions("clock_of_source", "status", "valid_from") == [("ACTIVE", at(0)), ("SUSPENDED", at(300))]
    assert statuses(played["clock_back"]) == ["ACTIVE"]
    assert sorted(versions("clock_back", "position_from", "status", "valid_from", "valid_to", "is_current")) == [
        (f"0000.{20:016x}.{20:016x}", "SUSPENDED", at(300), at(0), False),
        (f"0000.{30:016x}.{30:016x}", "ACTIVE", at(0), None, True),
    ]


def test_5a_a_null_is_a_value_and_an_absent_column_is_none(played: Tables) -> None:
    """An update whose email is null empties it; one that does not name the city keeps it."""
    [row] = played["sparse"].rows
    assert (row["email"], row["city"], row["seq"]) == ("ada@example.com", "Bergen", 30)


def test_5b_nulls_of_updates_are_ignored_where_that_is_declared(played: Tables, versions: Versions) -> None:
    """`null_updates: ignore`: the update with a null email keeps the email and changes the city, in the history too."""
    [row] = played["sparse_ignored"].rows
    assert (row["email"], row["city"]) == ("ada@example.com", "Bergen")
    assert versions("sparse_ignored", *SHOWN[:2]) == [("ada@example.com", "Oslo"), ("ada@example.com", "Bergen")]


def test_6a_a_late_event_does_not_bring_a_deleted_row_back(played: Tables) -> None:
    """Sequence 17, its delete at 20, then 18: no row."""
    assert statuses(played["deleted"]) == []
    assert played["deleted"].totals == Counts(read=3, applied=1, superseded=2)


def test_6b_a_late_event_stands_before_the_delete_in_the_history(versions: Versions) -> None:
    """The same events: 17 until 18, 18 until the delete at 20, and no current version."""
    assert spans(versions("deleted", "status", "is_current", "position_from", "position_to")) == [
        ("ACTIVE", False, 17, 18),
        ("SUSPENDED", False, 18, 20),
    ]


@pytest.mark.parametrize("table", ["whole", "whole_cow"])
def test_7a_a_full_replay_leaves_silver_as_it_was(played: Tables, table: str) -> None:
    """A create, three updates and a delete, and all of it again, the second time cut and overlapping as well."""
    assert statuses(played[table]) == []
    totals = played[table].totals
    assert totals.applied == 1 and totals.read == totals.applied + totals.superseded + totals.duplicate


@pytest.mark.parametrize("table", ["whole", "whole_cow"])
def test_7b_a_full_replay_leaves_the_history_as_it_was(versions: Versions, table: str) -> None:
    """The same events: four versions, each until the next, the last until the delete."""
    assert spans(versions(table, "status", "city", "position_from", "position_to")) == [
        ("PENDING", "Oslo", 10, 20),
        ("ACTIVE", "Oslo", 20, 30),
        ("ACTIVE", "Bergen", 30, 40),
        ("SUSPENDED", "Tromsø", 40, 50),
    ]


def test_8a_every_change_of_a_tracked_column_is_a_version(versions: Versions) -> None:
    """A create and 50 updates that change the time of the last synchronisation alone: 51 versions where it counts."""
    found = versions("every column", "status", "synced_at", "valid_to")
    assert found == [("ACTIVE", at(60 * n), at(n + 1) if n < 50 else None) for n in range(51)]


def test_8b_changes_of_columns_that_do_not_count_make_no_version(versions: Versions) -> None:
    """The same 51 events with that column excepted: one version, which shows the column's last value.

    Without the column altogether it is one as well: an update that changes nothing is no version.
    """
    expected = [("ACTIVE", at(0), None, True)]
    assert versions("without synced_at", "status", "valid_from", "valid_to", "is_current") == expected
    assert versions("without synced_at", "synced_at") == [(at(3000),)]
    assert versions("noise", "status", "valid_from", "valid_to", "is_current") == expected


def test_9_bitemporal_history_keeps_what_was_known_when(versions: Versions) -> None:
    """Three states, each valid from a time of its own and known a minute later.

    Each one that becomes known ends the one before it in valid time, and that end is known only from then on: five rows.
    """
    found = versions("known", "status", "valid_from", "valid_to", "known_from", "known_to")
    assert sorted(found, key=lambda row: (row[1], row[3])) == [
        ("PENDING", at(0), None, at(60), at(180)),
        ("PENDING", at(0), at(120), at(180), None),
        ("ACTIVE", at(120), None, at(180), at(300)),
        ("ACTIVE", at(120), at(240), at(300), None),
        ("SUSPENDED", at(240), None, at(300), None),
    ]
