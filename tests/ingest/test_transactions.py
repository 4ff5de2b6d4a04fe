"""`consistent: transaction`: readers at a cut never see half of a source transaction over its tables."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from conftest import DbtProject, MakeProject, Row, new_project, pg, table_of
from pyspark.sql import SparkSession

from ingest.config.sources_file import Source
from ingest.errors import DeclarationError, InputError, UnavailableError
from ingest.landing import transactions
from ingest.landing.run import land
from ingest.landing.table import Landed
from ingest.landing.transactions import cuts, newest_cut, release
from ingest.operations.erase import erase
from ingest.operations.position import set_position
from ingest.silver.state import Counts

pytestmark = pytest.mark.spark

TABLES = ("checking", "saving")
BALANCE = {"id": "int", "balance": "bigint"}
TRANSACTIONS = "shop.transaction"


def accounts(**options: Any) -> dict[str, Any]:
    """Two tables of accounts whose balances always add up to the same sum, as one source."""
    tables = [table_of(name, BALANCE, ["id"], **options) for name in TABLES]
    for table in tables:
        table["config"]["meta"]["ingest"]["topic"] = f"shop.bank.{table['name']}"
    ingest = {"consistent": "transaction"}
    return {"config": {"meta": {"ingest": ingest}}, "tables": tables}


@dataclass
class Bank:
    """A source that delivers its events and transaction markers when told to, each topic in a file a call."""

    project: DbtProject
    number: int = 0
    offsets: dict[str, int] = field(default_factory=dict)

    def transaction(self, *changes: tuple[str, str, int, int]) -> tuple[str, list[tuple[str, Row]], Row]:
        """A transaction of changes (table, op, id, balance): its id, its events with their tables, and its END."""
        self.number += 1
        name = f"{700 + self.number}:{self.number * 1000}"
        events = []
        for place, (table, op, key, balance) in enumerate(changes, start=1):
            event = pg(op, self.number * 1000 + place, commit=self.number * 1000, id=key, balance=balance)
            events.append((table, event | {"__transaction_id": name, "__transaction_total_order": place}))
        counts = [
            {"data_collection": f"bank.{table}", "event_count": sum(1 for found, _ in events if found == table)}
            for table in TABLES
        ]
        end = {"status": "END", "id": name, "event_count": len(events), "ts_ms": 5, "data_collections": counts}
        return name, events, end

    def deliver(self, topic: str, events: Iterable[Row], partition: int = 0) -> Path:
        """Puts events into a topic, as its next file."""
        events = list(events)
        offset = self.offsets.get(topic, 0)
        self.offsets[topic] = offset + len(events)
        return self.project.deliver(topic, offset, events, partition=partition)

    def begin_and_end(self, *ends: Row) -> None:
        """Puts the markers of some transactions into their topic."""
        begins = [{**end, "status": "BEGIN", "event_count": None, "data_collections": None} for end in ends]
        self.deliver(TRANSACTIONS, [marker for pair in zip(begins, ends, strict=True) for marker in pair])

    def send(self, events: Iterable[tuple[str, Row]], *tables: str) -> None:
        """Puts the events of some tables into their topics, or of all."""
        events = list(events)
        for table in tables or TABLES:
            if chosen := [event for found, event in events if found == table]:
                self.deliver(f"shop.bank.{table}", chosen)

    def land(self, spark: SparkSession) -> dict[str, Landed]:
        """Lands the source."""
        return {landed.table.name: landed for landed in land(spark, self.source().tables)}

    def source(self) -> Source:
        """The declaration."""
        return self.project.source()

    def at_cut(self, spark: SparkSession) -> dict[str, dict[int, int]]:
        """What a reader of the newest cut sees: the balances of each table."""
        seen = {}
        for table, instant in newest_cut(spark, self.project.schema).items():
            query = f"select id, balance from {self.project.schema}.{table} timestamp as of '{instant}'"
            seen[table] = {
                row["id"]: row["balance"] for row in spark.sql(f"{query} where __deleted = 'false'").collect()
            }
        return seen


@pytest.fixture
def bank(make_project: MakeProject) -> Bank:
    """A bank whose accounts 1 hold 100 in each table, by a snapshot that has been delivered."""
    return opened(make_project(accounts()))


def opened(project: DbtProject) -> Bank:
    """A bank with its first accounts delivered. As of Debezium, there is no transaction topic before a transaction."""
    found = Bank(project)
    for table in TABLES:
        found.deliver(f"shop.bank.{table}", [pg("r", 1, id=1, balance=100)])
    return found


@pytest.mark.slow
def test_a_topic_that_is_kept_in_two_tables_is_whole_in_both(make_project: MakeProject, spark: SparkSession) -> None:
    source = accounts()
    mirror = table_of("mirror", BALANCE, ["id"])
    mirror["config"]["meta"]["ingest"]["topic"] = "shop.bank.checking"
    source["tables"].append(mirror)
    bank = opened(make_project(source))
    first, second = (bank.transaction(("checking", "u", 1, 100 - n), ("saving", "u", 1, 100 + n)) for n in (1, 2))
    bank.send(first[1])
    bank.send(second[1], "checking")
    bank.begin_and_end(first[2], second[2])
    landed = bank.land(spark)
    assert {name: each.waiting for name, each in landed.items()} == {"checking": 1, "saving": 0, "mirror": 1}
    assert bank.at_cut(spark) == {"checking": {1: 99}, "saving": {1: 101}, "mirror": {1: 99}}


@pytest.mark.slow
def test_half_a_transaction_waits_for_its_other_half(bank: Bank, spark: SparkSession) -> None:
    well = bank.land(spark)
    assert not [landed.error.message for landed in well.values() if landed.error]
    assert {name: landed.counts for name, landed in well.items()} == dict.fromkeys(TABLES, Counts(read=1, applied=1))
    assert bank.at_cut(spark) == {"checking": {1: 100}, "saving": {1: 100}}

    first, second, third = (
        bank.transaction(("checking", "u", 1, 100 - amount), ("saving", "u", 1, 100 + amount)) for amount in (1, 2, 3)
    )
    bank.send(first[1])
    bank.send(second[1], "checking")  # what saving has of it is still on its way
    bank.send(third[1])
    bank.begin_and_end(first[2], second[2], third[2])
    waiting = bank.land(spark)
    assert [waiting[name].waiting for name in TABLES] == [2, 1]
    assert (
        waiting["saving"].waits_for
        == f"transaction {second[0]} has ended with 1 events of saving, of which 0 have come"
    )
    assert waiting["checking"].counts == Counts(read=1, applied=1)
    assert bank.at_cut(spark) == {"checking": {1: 99}, "saving": {1: 101}}
    assert [row["balance"] for row in bank.project.rows(spark, "checking")] == [99]

    # Nothing has come: nothing is read again, and no commit is made.
    before = bank.project.state(spark, "checking").instant
    assert bank.land(spark)["checking"].counts == Counts()
    assert bank.project.state(spark, "checking").instant == before

    bank.send(second[1], "saving")
    done = bank.land(spark)
    assert [done[name].waiting for name in TABLES] == [0, 0]
    assert bank.at_cut(spark) == {"checking": {1: 97}, "saving": {1: 103}}
    assert done["saving"].taken == 2
    # Files that were landed in part are whole now.
    assert bank.land(spark)["checking"].taken == 0


@pytest.mark.slow
def test_a_portion_that_waits_makes_no_cut_before_what_lies_behind_it(bank: Bank, spark: SparkSession) -> None:
    """A portion whose events wait ends the table's run: what another table has landed of a transaction lacks there."""
    bank.project.connect({"batch_bytes": 1})
    bank.land(spark)
    before, open_ = (bank.transaction(("checking", "u", 1, 100 - n), ("saving", "u", 1, 100 + n)) for n in (1, 2))
    bank.send(open_[1], "checking")
    bank.deliver("shop.bank.checking", [event for table, event in before[1] if table == "checking"], partition=1)
    bank.send(before[1], "saving")
    bank.begin_and_end(before[2])
    landed = bank.land(spark)
    assert (landed["checking"].waiting, landed["checking"].unread, landed["saving"].counts.applied) == (1, 1, 1)
    assert bank.at_cut(spark) == {"checking": {1: 100}, "saving": {1: 100}}
    bank.send(open_[1], "saving")
    bank.begin_and_end(open_[2])
    bank.land(spark)
    assert bank.at_cut(spark) == {"checking": {1: 98}, "saving": {1: 102}}


def test_a_transaction_that_has_not_ended_waits(
    bank: Bank, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    bank.land(spark)
    _, events, end = bank.transaction(("checking", "u", 1, 60), ("saving", "u", 1, 140))
    bank.send(events)
    waiting = bank.land(spark)
    assert caplog.text.count(f"there is no transaction topic {TRANSACTIONS}: no transaction has ended") == 1
    assert waiting["checking"].waits_for == "transactions that have not ended"
    assert bank.at_cut(spark) == {"checking": {1: 100}, "saving": {1: 100}}
    bank.begin_and_end(end)
    bank.land(spark)
    assert bank.at_cut(spark) == {"checking": {1: 60}, "saving": {1: 140}}
    # One that was there and has gone is missed.
    shutil.rmtree(bank.project.bronze / TRANSACTIONS)
    assert all("there is no such folder" in str(landed.error) for landed in bank.land(spark).values())


@pytest.mark.parametrize("markers_first", [False, True])
def test_a_table_that_no_transaction_names_is_refused(
    markers_first: bool, make_project: MakeProject, spark: SparkSession
) -> None:
    """A router has renamed the topics: by theirs, the tables have other names than the markers say."""
    source = accounts(transaction_topic=TRANSACTIONS)
    for table in source["tables"]:
        table["config"]["meta"]["ingest"]["topic"] = f"lake.{table['name']}"
    bank = Bank(make_project(source))
    name, events, end = bank.transaction(("checking", "c", 1, 60), ("saving", "c", 1, 140))
    bank.begin_and_end(end)
    bank.deliver("lake.saving", [])
    if markers_first:
        bank.deliver("lake.checking", [])
        assert bank.land(spark)["checking"].error is None, "nothing waits of the transaction yet"
    bank.deliver("lake.checking", [event for table, event in events if table == "checking"])
    told = bank.land(spark)["checking"].error
    assert told is not None
    assert f"transaction {name} has ended with events of bank.checking, bank.saving" in told.message
    assert "and with none of lake.checking, of which 1 have come" in told.message
    assert bank.at_cut(spark) == {}


@pytest.mark.slow
def test_a_table_that_fails_keeps_the_cut_where_it_is(
    bank: Bank, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank.land(spark)
    _, events, end = bank.transaction(("checking", "u", 1, 60), ("saving", "u", 1, 140))
    bank.send(events)
    bank.begin_and_end(end)
    source = accounts()
    source["tables"][1]["config"]["meta"]["ingest"]["quarantine_limit"] = {"rows": 0}
    bank.project.declare(source)
    broken = bank.project.deliver("shop.bank.saving", 50, ["no JSON"])
    failed = bank.land(spark)
    assert failed["checking"].error is None
    assert failed["saving"].error is not None
    # Silver has the half that could be landed, and no reader of the cut sees it.
    assert [row["balance"] for row in bank.project.rows(spark, "checking")] == [60]
    assert bank.at_cut(spark) == {"checking": {1: 100}, "saving": {1: 100}}

    # The cut's files are kept for so many commits: then the others wait for the table that fails.
    monkeypatch.setattr(transactions, "COMMITS_BEYOND_A_CUT", 1)
    _, events, end = bank.transaction(("checking", "u", 1, 50), ("saving", "u", 1, 150))
    bank.send(events)
    bank.begin_and_end(end)
    errors = {name: landed.error for name, landed in bank.land(spark).items()}
    assert isinstance(errors["checking"], UnavailableError)
    assert "1 commits lie beyond the newest cut" in errors["checking"].message
    assert errors["saving"] is not None
    assert "quarantine" in errors["saving"].message
    assert [row["balance"] for row in bank.project.rows(spark, "checking")] == [60]
    assert bank.at_cut(spark) == {"checking": {1: 100}, "saving": {1: 100}}

    broken.unlink()
    assert not any(landed.error for landed in bank.land(spark).values())
    assert bank.at_cut(spark) == {"checking": {1: 50}, "saving": {1: 150}}
    assert cuts(bank.project.schema).read(spark).select("cut_at").distinct().count() == 3  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_cut_can_be_read_though_a_run_makes_more_commits_than_are_kept(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """A large backlog, each portion of which is a commit, beside a table that fails: there is no newer cut."""
    source = accounts(table_type="cow")
    source["tables"][1]["config"]["meta"]["ingest"]["quarantine_limit"] = {"rows": 0}
    bank = opened(make_project(source))
    bank.project.connect({"batch_bytes": 1})
    bank.land(spark)
    sent = [bank.transaction(("checking", "u", 1, 100 - n), ("saving", "u", 1, 100 + n)) for n in range(1, 25)]
    for _, events, _ in sent:
        bank.send(events, "checking")
    bank.send([event for _, events, _ in sent for event in events], "saving")
    bank.begin_and_end(*(end for _, _, end in sent))
    broken = bank.project.deliver("shop.bank.saving", 50, ["no JSON"])
    assert bank.land(spark)["saving"].error is not None
    assert [row["balance"] for row in bank.project.rows(spark, "checking")] == [76]
    cut = newest_cut(spark, bank.project.schema)
    assert bank.project.silver(spark, "checking").commits_after(cut["checking"]) == len(sent)
    assert bank.at_cut(spark) == {"checking": {1: 100}, "saving": {1: 100}}

    broken.unlink()
    assert not any(landed.error for landed in bank.land(spark).values())
    assert bank.at_cut(spark) == {"checking": {1: 76}, "saving": {1: 124}}


@pytest.mark.slow
def test_a_cut_that_cannot_be_made_is_told_of_each_table_and_made_by_the_next_run(
    bank: Bank, spark: SparkSession
) -> None:
    spark.sql(f"create schema {bank.project.schema}")
    in_its_place = Path(urlparse(cuts(bank.project.schema).hudi(spark).path).path)
    in_its_place.write_text("no folder", encoding="utf-8")
    for landed in bank.land(spark).values():
        assert landed.counts.applied == 1
        assert isinstance(landed.error, UnavailableError)
        assert "`_cuts`: the cut cannot be made: " in landed.error.message
    in_its_place.unlink()
    assert not any(landed.error for landed in bank.land(spark).values())
    assert bank.at_cut(spark) == {"checking": {1: 100}, "saving": {1: 100}}


@pytest.mark.slow
def test_a_model_reads_the_newest_cut_that_there_was_when_it_began(bank: Bank, spark: SparkSession) -> None:
    bank.land(spark)
    (query,) = bank.project.compiled("{{ at_cut(source('shop', 'checking')) }}", introspect=True)
    _, events, end = bank.transaction(("checking", "u", 1, 60), ("saving", "u", 1, 140))
    bank.send(events)
    bank.begin_and_end(end)
    bank.land(spark)
    assert [row["balance"] for row in spark.sql(query).collect()] == [100]
    (later,) = bank.project.compiled("{{ at_cut(source('shop', 'checking')) }}", introspect=True)
    assert [row["balance"] for row in spark.sql(later).collect()] == [60]


@pytest.mark.slow
def test_a_lost_event_is_named_and_can_be_given_up(bank: Bank, spark: SparkSession) -> None:
    name, events, end = bank.transaction(("checking", "u", 1, 60), ("saving", "u", 1, 140))
    _, later, later_end = bank.transaction(("checking", "c", 2, 5))
    bank.send(events, "checking")
    bank.send(later)
    bank.begin_and_end(end, later_end)
    assert name in bank.land(spark)["checking"].waits_for
    with pytest.raises(InputError, match="one that is blocked, as `lake ingest shop` names it"):
        release(spark, bank.source().tables[0], f"{name}0")
    release(spark, bank.source().tables[0], name)
    assert [landed.waiting for landed in bank.land(spark).values()] == [0, 0]
    assert bank.at_cut(spark) == {"checking": {1: 60, 2: 5}, "saving": {1: 100}}


@pytest.mark.slow
def test_events_that_do_not_say_their_transaction_are_quarantined(bank: Bank, spark: SparkSession) -> None:
    bank.deliver("shop.bank.checking", [pg("u", 10, id=1, balance=7)])
    landed = bank.land(spark)
    assert landed["checking"].counts == Counts(read=2, applied=1, quarantined=1)
    (quarantined,) = bank.project.quarantined(spark)
    assert "no transaction: the connector must have provide.transaction.metadata" in quarantined["reason"]


@pytest.mark.slow
def test_envelopes_say_their_transaction_in_a_block_of_their_own(bank: Bank, spark: SparkSession) -> None:
    name, _, end = bank.transaction(("checking", "u", 1, 60))
    envelope: Row = {"before": None, "after": {"id": 1, "balance": 60}, "op": "u", "ts_ms": 1}
    envelope |= {"source": {"lsn": 2001, "sequence": '["2000","2001"]', "ts_ms": 1}}
    bank.deliver("shop.bank.checking", [{**envelope, "transaction": {"id": name, "total_order": 1}}])
    assert bank.land(spark)["checking"].waiting == 1
    bank.begin_and_end(end)
    assert bank.land(spark)["checking"].waiting == 0
    assert bank.at_cut(spark)["checking"] == {1: 60}


@pytest.mark.slow
def test_repeated_events_and_markers_change_nothing(bank: Bank, spark: SparkSession) -> None:
    _, events, end = bank.transaction(("checking", "u", 1, 60), ("saving", "u", 1, 140))
    _, more, more_end = bank.transaction(("checking", "u", 1, 50), ("saving", "u", 1, 150))
    bank.send([*events, *events])
    bank.begin_and_end(end)
    bank.land(spark)
    # The connector begins again before the first transaction: all comes a second time.
    bank.send([*events, *more])
    bank.begin_and_end(end, more_end)
    landed = bank.land(spark)
    assert landed["checking"].counts == Counts(read=2, applied=1, superseded=1)
    assert bank.at_cut(spark) == {"checking": {1: 50}, "saving": {1: 150}}


@pytest.mark.slow
def test_an_erasure_takes_the_cut_along_and_waits_for_one_that_lies_behind(bank: Bank, spark: SparkSession) -> None:
    """It leaves one version of each file: at an earlier commit a reader found no row, and no error."""
    bank.land(spark)
    _, events, end = bank.transaction(("checking", "u", 1, 90), ("saving", "u", 1, 110), ("saving", "c", 2, 0))
    bank.send(events)
    bank.begin_and_end(end)
    bank.land(spark)
    (saving,) = bank.source().choose(["saving"])
    assert erase(spark, saving, [("2",)]).places[0].rows == 1
    assert bank.at_cut(spark) == {"checking": {1: 90}, "saving": {1: 110}}
    assert cuts(bank.project.schema).read(spark).count() == 2  # type: ignore[union-attr]
    set_position(spark, saving, to_latest=True)
    with pytest.raises(InputError, match="run `lake ingest shop` until every table is well"):
        erase(spark, saving, [("1",)])
    bank.land(spark)
    assert erase(spark, saving, [("1",)]).places[0].rows == 1
    assert bank.at_cut(spark) == {"checking": {1: 90}, "saving": {}}


@pytest.mark.slow
def test_only_the_newest_cuts_are_kept(bank: Bank, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "CUTS_KEPT", 3)
    for amount in range(5):
        _, events, end = bank.transaction(("checking", "u", 1, 100 - amount), ("saving", "u", 1, 100 + amount))
        bank.send(events)
        bank.begin_and_end(end)
        assert not any(landed.error for landed in bank.land(spark).values())
    kept = cuts(bank.project.schema).read(spark)
    assert kept is not None
    assert kept.select("cut_at").distinct().count() == 3
    oldest = kept.orderBy("cut_at").where("source_table = 'checking'").first()
    assert oldest is not None
    query = f"select balance from {bank.project.schema}.checking timestamp as of '{oldest['instant']}'"
    assert spark.sql(query).collect()[0]["balance"] == 98


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"batch_bytes": 1}], ids=["one portion", "portions"])
def test_any_delivery_shows_whole_commits_only(tmp_path: Path, spark: SparkSession, settings: dict[str, int]) -> None:
    """Random transfers, their files and markers delivered in random portions, by several partitions: a reader sees a
    state of the source."""
    rng = random.Random("transfers")  # noqa: S311
    source = accounts()
    source["tables"][0]["config"]["meta"]["ingest"]["table_type"] = "cow"
    bank = opened(new_project(tmp_path, source))
    bank.project.connect(settings)
    balances = {table: {1: 100} for table in TABLES}
    states = [json.dumps(balances, sort_keys=True)]
    queues: dict[str, list[Row]] = {topic: [] for topic in (*(f"shop.bank.{table}" for table in TABLES), TRANSACTIONS)}
    for _ in range(25):
        changes = _transfer(rng, balances)
        _, events, end = bank.transaction(*changes)
        for table, event in events:
            queues[f"shop.bank.{table}"].append(event)
        queues[TRANSACTIONS].append(end)
        states.append(json.dumps(balances, sort_keys=True))
    reached = []
    while any(queues.values()):
        for topic, queue in queues.items():
            size = rng.randint(0, 30)
            if queue[:size]:
                # Of one partition the topic of transactions alone is in order.
                bank.deliver(topic, queue[:size], partition=0 if topic == TRANSACTIONS else rng.randint(0, 2))
                del queue[:size]
        assert not any(landed.error for landed in bank.land(spark).values())
        reached.append(states.index(json.dumps(_as_text(bank.at_cut(spark)), sort_keys=True)))
    assert reached == sorted(reached)
    assert reached[-1] == len(states) - 1


def _transfer(rng: random.Random, balances: dict[str, dict[int, int]]) -> list[tuple[str, str, int, int]]:
    """Some moves of money between accounts of either table, opened and closed on the way."""
    changes = []
    for _ in range(rng.randint(1, 3)):
        amount, source, to = rng.randint(1, 9), rng.choice(TABLES), rng.choice(TABLES)
        key, other = rng.choice(list(balances[source])), rng.randint(1, 4)
        if (source, key) == (to, other):
            continue
        balances[source][key] -= amount
        changes.append((source, "u", key, balances[source][key]))
        op = "u" if other in balances[to] else "c"
        balances[to][other] = balances[to].get(other, 0) + amount
        changes.append((to, op, other, balances[to][other]))
    return changes


def _as_text(balances: dict[str, dict[int, int]]) -> dict[str, dict[str, int]]:
    return {table: {str(key): balance for key, balance in rows.items()} for table, rows in balances.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"consistent": "table"}, "its tables are consistent by"),
        ({"transaction_topic": "other.transaction"}, "other.transaction"),
        ({"connector": "dynamodb"}, "it has no transactions"),
        ({"topic": "shop.other.bank.saving"}, "'checking' and 'saving' are both bank.saving"),
    ],
)
def test_a_source_is_consistent_as_a_whole_or_not_at_all(change: Row, told: str, make_project: MakeProject) -> None:
    source = accounts()
    source["tables"][0]["config"]["meta"]["ingest"] |= change
    with pytest.raises(DeclarationError, match="consistent") as error:
        make_project(source).source()
    assert told in error.value.message
