"""The 18 cases of a public matrix for `AUTO CDC` (ivanvyd/lakeflow-auto-cdc-torture-test, numbered as there), on silver
and on the history of tables with `history: true`.

Its events are those of a customer, here one for each case, ordered by declared columns, as its sources have no log:
`seq`, the source's own sequence; `updated_at`, the source's clock; `txn`, the place within a transaction;
`received_at`, the clock of whoever took the event. Times are seconds since 10:00. Where a log decides, the case is
played on PostgreSQL's as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from conftest import Played, Row, Scenario, play, unwrapped
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

START = datetime(2026, 3, 1, 10, tzinfo=UTC)
COLUMNS = {
    "customer_id": "int", "name": "string", "email": "string", "city": "string", "status": "string", "seq": "int",
    "txn": "int", "updated_at": "timestamp", "received_at": "timestamp", "synced_at": "timestamp",
}  # fmt: skip
# What a customer's history is told by.
SHOWN = ["email", "city", "status"]


def at(seconds: int) -> datetime:
    """A time of day as silver has it."""
    return (START + timedelta(seconds=seconds)).replace(tzinfo=None)


def event(op: str, seq: int, status: str | None, second: int = 0, *, received: int | None = None, **row: Any) -> Row:
    """An event of a customer; a delete has neither name nor anything else of its row."""
    known = {} if op == "d" else {"name": "Ada", "email": "ada@example.com", "city": "Oslo"}
    clocks = {"updated_at": second, "received_at": second if received is None else received, "synced_at": second}
    clocks |= {name: row.pop(name) for name in clocks.keys() & row.keys()}
    values = {"status": status, "seq": seq, "txn": 1, **known, **row}
    times = {name: (START + timedelta(seconds=seconds)).isoformat() for name, seconds in clocks.items()}
    made = int((START + timedelta(seconds=second)).timestamp() * 1000)
    return {**unwrapped(op, {}, {**values, **times}), "__source_ts_ms": made}


def logged(lsn: int, of: Row) -> Row:
    """The event as PostgreSQL's log has it, at a place of its own."""
    return {**of, "__lsn": lsn}


LATE = [[event("u", 12, "ACTIVE", 20)], [event("u", 10, "PENDING")]]
TIE = [event("u", 10, "ACTIVE"), event("u", 10, "SUSPENDED", txn=2, received=1)]
CLOCKS = [event("u", 20, "SUSPENDED", 300, received=360), event("u", 10, "ACTIVE", 0, received=600)]
SPARSE = [event("c", 10, "ACTIVE"), event("u", 20, "ACTIVE", 60, email=None, city="Bergen")]
WITHOUT_CITY = {name: value for name, value in event("u", 30, "ACTIVE", 90).items() if name != "city"}
DELETED = [[event("u", 17, "ACTIVE"), event("d", 20, None, 200)], [event("u", 18, "SUSPENDED", 150, received=250)]]
WHOLE = [
    event("c", 10, "PENDING"),
    event("u", 20, "ACTIVE", 60),
    event("u", 30, "ACTIVE", 120, city="Bergen"),
    event("u", 40, "SUSPENDED", 180, city="Tromsø"),
    event("d", 50, None, 240),
]
NOISE = [event("c", 10, "ACTIVE"), *(event("u", 10, "ACTIVE", n, synced_at=60 * n) for n in range(1, 51))]


def dated(op: str, seq: int, status: str | None, valid: int, known: int) -> Row:
    """An event whose `updated_at` says from when on its state holds, made at another time."""
    return {**event(op, seq, status, known), "updated_at": (START + timedelta(seconds=valid)).isoformat()}


BITEMPORAL = [
    dated("u", 10, "PENDING", 0, 60),
    dated("u", 20, "ACTIVE", 120, 180),
    dated("u", 30, "SUSPENDED", 240, 300),
]
CORRECTED = [
    dated("c", 10, "PENDING", 0, 60),
    dated("u", 20, "ACTIVE", 120, 180),
    dated("u", 30, "TRIAL", 0, 240),
    dated("u", 40, "PAUSED", 60, 300),
    dated("d", 50, None, 0, 360),
]
# The cases by the table they are played in, each with a customer of its own: first and second batch.
BY_SEQ: dict[str, tuple[list[Row], list[Row]]] = {
    "duplicate": ([event("c", 10, "ACTIVE")] * 2, []),
    "replayed": ([event("c", 10, "ACTIVE")], [event("c", 10, "ACTIVE")]),
    "out_of_order": (LATE[0], LATE[1]),
    "tie": (TIE, []),
    "tie_cut": (TIE[:1], TIE[1:]),
    "sparse": ([*SPARSE, WITHOUT_CITY], []),
    "sparse_cut": (SPARSE, [WITHOUT_CITY]),
    "deleted": (DELETED[0], DELETED[1]),
    "whole": (WHOLE, WHOLE),
    "whole_cut": (WHOLE[3:], [*WHOLE[:4], *WHOLE]),
    "bitemporal": (BITEMPORAL[1:], BITEMPORAL[:1]),
    "corrected": (CORRECTED[2:], CORRECTED),
}
TABLES: dict[str, tuple[dict[str, tuple[list[Row], list[Row]]], dict[str, Any]]] = {
    "by_seq": (BY_SEQ, {"order_by": ["seq"], "history": True}),
    "by_seq_cow": (BY_SEQ, {"order_by": ["seq"], "history": True, "table_type": "cow"}),
    "by_seq_without_nulls": (
        {"sparse": (SPARSE[:1], SPARSE[1:])}, {"order_by": ["seq"], "history": True, "null_updates": "ignore"}
    ),
    "by_receipt": ({"clocks": (CLOCKS[1:], CLOCKS[:1])}, {"order_by": ["received_at"]}),
    "by_clock": (
        {"clocks": (CLOCKS[:1], CLOCKS[1:]), "tie": (TIE[::-1], []), "noise": (NOISE, [])},
        {"order_by": ["updated_at", "txn"], "history": True},
    ),
    "by_log": (
        {"clocks": ([logged(20, CLOCKS[0])], [logged(30, CLOCKS[1])]),
         "tie": ([logged(40, TIE[0]), logged(50, TIE[1])], [])},
        {"connector": "postgresql", "history": True},
    ),
}  # fmt: skip
CASES = tuple(dict.fromkeys(case for cases, _ in TABLES.values() for case in cases))
MERGE_ON_READ_AND_COPY_ON_WRITE = pytest.mark.parametrize("table", ["by_seq", "by_seq_cow"])


def scenes() -> Iterator[Scenario]:
    """The tables with both batches of all their cases."""
    for name, (cases, options) in TABLES.items():
        batches = [
            [{**each, "customer_id": CASES.index(case)} for case, both in cases.items() for each in both[number]]
            for number in (0, 1)
        ]
        yield Scenario(name, COLUMNS, ["customer_id"], batches, [], options={"connector": None, **options})


@dataclass(frozen=True)
class Told:
    """What silver and the history tell of the cases."""

    spark: SparkSession
    tables: Mapping[str, Played]
    queries: Mapping[str, str]

    def statuses(self, table: str, case: str) -> list[str]:
        """The status of each live row of a case."""
        return [row["status"] for row in self.rows(table, case)]

    def rows(self, table: str, case: str) -> list[Row]:
        """The live rows of a case."""
        played = self.tables[table]
        assert not played.errors and not played.reasons
        return [row for row in played.rows if row["customer_id"] == CASES.index(case)]

    def versions(self, query: str, case: str, *columns: str) -> list[tuple[Any, ...]]:
        """The chosen columns of a case's rows in the history, in the order of the log."""
        rows = self.spark.sql(self.queries[query]).where(f"customer_id = {CASES.index(case)}")
        return [tuple(row) for row in rows.orderBy("position_from", "valid_from").select(*columns).collect()]


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Both batches of all tables, landed, and the queries on their histories, compiled."""
    played = play(spark, tmp_path_factory.mktemp("torture"), list(scenes()))
    project = played["by_seq"].project
    kept = [name for name, (_, options) in TABLES.items() if options.get("history")]
    changes = {name: f"'{project.schema}.{name}__changes', ['customer_id']" for name in kept}
    synced = [*SHOWN, "synced_at"]
    calls = {name: f"history({changes[name]}, columns={SHOWN})" for name in kept}
    calls["every column"] = f"history({changes['by_clock']}, columns={synced})"
    calls["without synced_at"] = f"history({changes['by_clock']}, columns={synced}, except_columns=['synced_at'])"
    calls["known"] = f"bitemporal_history({changes['by_seq']}, 'updated_at', columns={SHOWN})"
    compiled = project.compiled(*(f"{{{{ {call} }}}}" for call in calls.values()))
    return Told(spark, played, dict(zip(calls, compiled, strict=True)))


def seq(position: str | None) -> int | None:
    """The sequence value of a position by one declared integer."""
    return None if position is None else int(position.split(".")[1], 16) - 2**63


def spans(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Versions with their two positions, which come last, as sequence values."""
    return [(*row[:-2], seq(row[-2]), seq(row[-1])) for row in rows]


def test_1a_an_exact_duplicate_is_one_row(told: Told) -> None:
    """One event, twice in one batch: one row, and one version."""
    assert told.statuses("by_seq", "duplicate") == ["ACTIVE"]
    assert told.versions("by_seq", "duplicate", "status", "is_current") == [("ACTIVE", True)]


def test_1b_a_replayed_batch_changes_nothing(told: Told) -> None:
    """The event again, in a batch of its own after the first was landed."""
    assert told.statuses("by_seq", "replayed") == ["ACTIVE"]
    assert told.versions("by_seq", "replayed", "status", "is_current") == [("ACTIVE", True)]


def test_2a_a_late_event_does_not_overwrite_a_newer_one(told: Told) -> None:
    """Sequence 12 is landed, then 10 comes: the row stays that of 12."""
    assert told.statuses("by_seq", "out_of_order") == ["ACTIVE"]


@MERGE_ON_READ_AND_COPY_ON_WRITE
def test_2b_a_late_event_takes_its_place_in_the_history(told: Told, table: str) -> None:
    """The same two events: the history has 10 until 12, and 12 as the current version, as if they had come in order."""
    found = told.versions(table, "out_of_order", "status", "valid_from", "valid_to", "position_from", "position_to")
    assert spans(found) == [("PENDING", at(0), at(20), 10, 12), ("ACTIVE", at(20), None, 12, None)]


def test_3a_of_a_tie_the_last_delivered_counts(told: Told) -> None:
    """Two states of one row share the only sequence value that is declared.

    The declaration gives no order. What decides then is the order of delivery, which Kafka keeps for each key.
    """
    assert told.statuses("by_seq", "tie") == ["SUSPENDED"]


def test_3b_a_tie_does_not_depend_on_how_batches_are_cut(told: Told) -> None:
    """The same tie, where the events hold a tie-breaker that is not declared: each event in a batch of its own.

    The state is that of 3A, and the history's current version says the same.
    """
    assert told.statuses("by_seq", "tie_cut") == ["SUSPENDED"]
    for case in ("tie", "tie_cut"):
        assert told.versions("by_seq", case, "status", "is_current")[-1] == ("SUSPENDED", True)


def test_3c_a_second_ordering_column_or_a_log_breaks_the_tie(told: Told) -> None:
    """The tie-breaker is declared behind the clock, and the events come the wrong way round.

    With a log there is no tie: each change has a place of its own.
    """
    for table in ("by_clock", "by_log"):
        assert told.statuses(table, "tie") == ["SUSPENDED"]
        found = told.versions(table, "tie", "status", "is_current")
        assert found == [("ACTIVE", False), ("SUSPENDED", True)]


def test_4a_the_declared_clock_orders_even_where_it_is_the_wrong_one(told: Told) -> None:
    """The newer state was received first: by the clock of receipt the older one wins, whichever is delivered last.

    That is what was declared, and it is why no clock of ours is ever an order by itself.
    """
    assert told.statuses("by_receipt", "clocks") == ["ACTIVE"]


def test_4b_the_sources_order_holds_against_every_other_clock(told: Told) -> None:
    """By the source's own clock the newer state stays, though the older one is received later.

    Where there is a log, its place counts and not its times: a clock that is set back between two changes does not turn
    them round, and the history keeps their order.
    """
    assert told.statuses("by_clock", "clocks") == ["SUSPENDED"]
    found = told.versions("by_clock", "clocks", "status", "valid_from", "valid_to")
    assert found == [("ACTIVE", at(0), at(300)), ("SUSPENDED", at(300), None)]
    assert told.statuses("by_log", "clocks") == ["ACTIVE"]
    found = told.versions("by_log", "clocks", "status", "valid_from", "valid_to", "is_current")
    assert found == [("SUSPENDED", at(300), at(0), False), ("ACTIVE", at(0), None, True)]


def test_5a_a_null_is_a_value_and_an_absent_column_is_none(told: Told) -> None:
    """An update whose email is null empties it; one that does not name the city keeps it, in silver and the history."""
    for case in ("sparse", "sparse_cut"):
        [row] = told.rows("by_seq", case)
        assert (row["email"], row["city"], row["seq"]) == ("ada@example.com", "Bergen", 30)
        found = told.versions("by_seq", case, "email", "city", "unknown_columns")
        assert found == [
            ("ada@example.com", "Oslo", []), (None, "Bergen", []), ("ada@example.com", "Bergen", [])
        ]  # fmt: skip


def test_5b_nulls_of_updates_are_ignored_where_that_is_declared(told: Told) -> None:
    """`null_updates: ignore`: the update with a null email keeps the email and changes the city, in the history too."""
    [row] = told.rows("by_seq_without_nulls", "sparse")
    assert (row["email"], row["city"]) == ("ada@example.com", "Bergen")
    found = told.versions("by_seq_without_nulls", "sparse", "email", "city")
    assert found == [("ada@example.com", "Oslo"), ("ada@example.com", "Bergen")]


@MERGE_ON_READ_AND_COPY_ON_WRITE
def test_6a_a_late_event_does_not_bring_a_deleted_row_back(told: Told, table: str) -> None:
    """Sequence 17, its delete at 20, then 18: no row."""
    assert told.statuses(table, "deleted") == []


@MERGE_ON_READ_AND_COPY_ON_WRITE
def test_6b_a_late_event_stands_before_the_delete_in_the_history(told: Told, table: str) -> None:
    """The same events: 17 until 18, 18 until the delete at 20, and no current version."""
    assert spans(told.versions(table, "deleted", "status", "is_current", "position_from", "position_to")) == [
        ("ACTIVE", False, 17, 18),
        ("SUSPENDED", False, 18, 20),
    ]


@MERGE_ON_READ_AND_COPY_ON_WRITE
@pytest.mark.parametrize("case", ["whole", "whole_cut"])
def test_7a_a_full_replay_leaves_silver_as_it_was(told: Told, table: str, case: str) -> None:
    """A create, three updates and a delete, and all of it again; also with the end first and parts of it twice."""
    assert told.statuses(table, case) == []
    totals = told.tables[table].totals
    assert totals.read == totals.applied + totals.superseded + totals.duplicate


@MERGE_ON_READ_AND_COPY_ON_WRITE
@pytest.mark.parametrize("case", ["whole", "whole_cut"])
def test_7b_a_full_replay_leaves_the_history_as_it_was(told: Told, table: str, case: str) -> None:
    """The same events: four versions, each until the next, the last until the delete."""
    assert spans(told.versions(table, case, "status", "city", "position_from", "position_to")) == [
        ("PENDING", "Oslo", 10, 20),
        ("ACTIVE", "Oslo", 20, 30),
        ("ACTIVE", "Bergen", 30, 40),
        ("SUSPENDED", "Tromsø", 40, 50),
    ]


def test_8a_every_change_of_a_tracked_column_is_a_version(told: Told) -> None:
    """A create and 50 updates that change the time of the last synchronisation alone: 51 versions where it counts."""
    found = told.versions("every column", "noise", "status", "synced_at", "valid_to")
    assert found == [("ACTIVE", at(60 * n), at(n + 1) if n < 50 else None) for n in range(51)]


def test_8b_changes_of_columns_that_do_not_count_make_no_version(told: Told) -> None:
    """The same 51 events with that column excepted: one version, which shows the column's last value.

    Without the column altogether it is one as well: an update that changes nothing is no version.
    """
    columns = ("status", "valid_from", "valid_to", "is_current")
    found = told.versions("without synced_at", "noise", "synced_at", *columns)
    assert found == [(at(3000), "ACTIVE", at(0), None, True)]
    assert told.versions("by_clock", "noise", *columns) == [("ACTIVE", at(0), None, True)]


def test_9_bitemporal_history_keeps_what_was_known_when(told: Told) -> None:
    """Three states, each valid from a time of its own and known a minute later; the first is delivered last.

    Each one that becomes known ends the one before it in valid time; that end is known only from then on: five rows.
    """
    found = told.versions("known", "bitemporal", "status", "valid_from", "valid_to", "known_from", "known_to")
    assert sorted(found, key=lambda row: (row[1], row[3])) == [
        ("PENDING", at(0), None, at(60), at(180)),
        ("PENDING", at(0), at(120), at(180), None),
        ("ACTIVE", at(120), None, at(180), at(300)),
        ("ACTIVE", at(120), at(240), at(300), None),
        ("SUSPENDED", at(240), None, at(300), None),
    ]


def test_9_bitemporal_corrections_and_deletes(told: Told) -> None:
    """Beyond the matrix: a state that is corrected, one that turns out to lie between two others, and a delete.

    What was known before is kept; the delete holds from the time it was made.
    """
    found = told.versions("known", "corrected", "status", "valid_from", "valid_to", "known_from", "known_to")
    assert sorted(found, key=lambda row: (row[1], row[3])) == [
        ("PENDING", at(0), None, at(60), at(180)),
        ("PENDING", at(0), at(120), at(180), at(240)),
        ("TRIAL", at(0), at(120), at(240), at(300)),
        ("TRIAL", at(0), at(60), at(300), None),
        ("PAUSED", at(60), at(120), at(300), None),
        ("ACTIVE", at(120), None, at(180), at(360)),
        ("ACTIVE", at(120), at(360), at(360), None),
    ]
