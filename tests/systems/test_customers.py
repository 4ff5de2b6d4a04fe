"""S7: customers in a DynamoDB table, by the records of its stream, from files to marts.

The example is landed as it comes, inserts first, then five days of changes, and built once by its selector.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import REPOSITORY
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

from examples import Written, system
from examples.customers.changes import WORKED_EXAMPLE, Change, History, history
from examples.customers.written import STREAM
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.landing.run import land
from ingest.silver import quarantine
from ingest.silver.state import Counts
from ingest.silver.table import SilverTable

pytestmark = [pytest.mark.spark, pytest.mark.systems]
SCALE, SEED = 0.2, 42
# An exposure is part of a build, and there is nothing to do for it.
WELL = {"success", "pass", "no-op"}


@dataclass(frozen=True)
class Customers:
    """The example, landed and built.

    Attributes
    ----------
    lived:
        What became of the items.
    written:
        What was generated of each phase.
    counts:
        What became of the records.
    built:
        Status of each node of the build, by name.
    """

    spark: SparkSession
    to: Path
    lived: History
    written: tuple[Written, ...]
    counts: Counts
    built: dict[str, str]
    location: Path

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        return [row.asDict() for row in self.spark.sql(query).collect()]

    @property
    def departed(self) -> dict[str, Change]:
        """The last change of each item that is gone, by key."""
        last = {change.id: change for change in (*self.lived.inserts, *self.lived.changes)}
        return {name: change for name, change in last.items() if change.after is None}


def build(home: Path) -> dict[str, str]:
    """Status of each node of `dbt build --selector customers`, by name."""
    where = ["--project-dir", str(REPOSITORY), "--profiles-dir", str(REPOSITORY)]
    rooms = ["--target-path", str(home / "target"), "--log-path", str(home / "target")]
    result = dbtRunner().invoke(["--quiet", "build", "--selector", "customers", *where, *rooms])
    assert result.exception is None, result.exception
    done: Any = result.result
    return {node.node.name: f"{node.status}" for node in done.results}


@pytest.fixture(scope="module")
def customers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Customers]:
    before, to = Path.cwd(), Path(os.environ["LAKE_HOME"]) / "customers"
    played, ends = system("customers"), (datetime.now(UTC) - timedelta(days=1)).date()
    tables = load_source(Project.load(REPOSITORY), played.demo.source).tables
    written, counts = [], Counts()
    for phase in ("snapshot", "changes"):
        written.append(played.generate(to, scale=SCALE, seed=SEED, phase=phase, ends=ends))
        (landed,) = land(spark, tables)
        assert landed.error is None, landed.error
        counts = counts + landed.counts
    location = Path(SilverTable.of(spark, tables[0]).path.removeprefix("file:"))
    built = build(tmp_path_factory.mktemp("customers"))
    yield Customers(spark, to, history(SCALE, SEED, ends), tuple(written), counts, built, location)
    os.chdir(before)


def test_an_insert_two_updates_out_of_order_and_a_delete_leave_one_tombstone(customers: Customers) -> None:
    """S7's worked example, in the order of the sequence numbers, which is not that of the texts nor of arrival."""
    own = [change for change in customers.lived.changes if change.id == WORKED_EXAMPLE]
    assert [change.after is None for change in own] == [False, False, False, True]
    names = "`__op`, `__deleted`, `__is_ttl_delete`, `__sequence_number`, email"
    found = customers.rows(f"select {names} from silver_customers.cust_hudi_f1 where id = '{WORKED_EXAMPLE}'")
    last = own[-1]
    assert found == [
        {"__op": "d", "__deleted": "true", "__is_ttl_delete": False, "__sequence_number": str(last.sequence),
         "email": (last.before or {}).get("email")},
    ]  # fmt: skip


def test_the_live_rows_are_the_items(customers: Customers) -> None:
    items = pq.read_table(system("customers").expected(customers.to, "changes")["customers.cust_hudi_f1"]).to_pylist()
    columns = ", ".join(f"`{name}`" for name in items[0])
    found = customers.rows(f"select {columns} from silver_customers.cust_hudi_f1 where `__deleted` = 'false'")
    expected = [{**item, "registrationDate": item["registrationDate"].replace(tzinfo=None)} for item in items]
    assert sorted(found, key=lambda row: row["id"]) == sorted(expected, key=lambda row: row["id"])
    # An item has what it has: some lack an attribute, and it is null, whatever it was before.
    assert any(row["email"] is None for row in found)


def test_every_record_is_accounted_for(customers: Customers) -> None:
    counts = customers.counts
    assert counts.read == sum(written.records for written in customers.written)
    assert counts.read == counts.applied + counts.superseded + counts.duplicate
    assert counts.duplicate >= sum(written.repeated for written in customers.written) > 0
    assert sum(written.late for written in customers.written) > 0


def test_what_time_to_live_deleted_is_told_from_what_users_did(customers: Customers) -> None:
    rows = customers.rows("select customer_id, is_expired from lakehouse_customers.dim_departed_customers")
    found = {row["customer_id"]: row["is_expired"] for row in rows}
    assert found == {name: change.is_ttl for name, change in customers.departed.items()}
    assert set(found.values()) == {True, False}


def test_the_customers_of_the_mart_are_the_items_that_are_there(customers: Customers) -> None:
    rows = customers.rows("select customer_id, email, is_on_trial from lakehouse_customers.dim_customers")
    items = customers.lived.items(after_changes=True)
    expected = {name: (item.get("email"), "expiresAt" in item) for name, item in items.items()}
    assert {row["customer_id"]: (row["email"], row["is_on_trial"]) for row in rows} == expected
    assert len(rows) == len(expected)


def test_rows_lie_in_the_partition_of_their_last_two_digits(customers: Customers) -> None:
    """As in the article: the last digit, and within it the one before."""
    found = {f"{path.parent.name}/{path.name}" for path in customers.location.glob("partitionkey=*/partitionkey2=*")}
    assert found == {f"partitionkey={last}/partitionkey2={other}" for last in range(10) for other in range(10)}
    wrong = "partitionkey is distinct from right(id, 1) or partitionkey2 is distinct from substring(id, -2, 1)"
    assert customers.rows(f"select id from silver_customers.cust_hudi_f1 where {wrong}") == []


def test_the_build_is_well(customers: Customers) -> None:
    assert {name: told for name, told in customers.built.items() if told not in WELL} == {}
    assert {"dim_customers", "dim_departed_customers", "stg_customers__customers"} <= customers.built.keys()


def test_bad_records_are_set_aside_and_the_items_stay(customers: Customers) -> None:
    """The last of those that look at the lake: what no item can be of is quarantined, with the reason."""
    keys = {"id": {"S": "100010"}}
    good: dict[str, Any] = {**keys, "custName": {"S": "A"}, "registrationDate": {"S": "2023-10-05 00:00:00"}}
    bad = {
        "has no type that DynamoDB has": ("MODIFY", {"Keys": keys, "NewImage": {**good, "email": {"X": "a"}}}),
        "no NewImage says the row": ("MODIFY", {"Keys": keys}),
        "no OldImage says what was deleted": ("REMOVE", {"Keys": keys}),
        "the item's key has sort as well": ("REMOVE", {"Keys": {**keys, "sort": {"S": "a"}}, "OldImage": good}),
        "key column id is null": ("INSERT", {"Keys": {}, "NewImage": {"custName": {"S": "A"}}}),
        "is not exactly a timestamp": ("MODIFY", {"Keys": keys, "NewImage": {**good, "registrationDate": {"S": "?"}}}),
        "eventName is UPSERT": ("UPSERT", {"Keys": keys, "NewImage": good}),
    }
    number = str(10**23)
    lines = [json.dumps({"eventName": event, "dynamodb": {**change, "SequenceNumber": number}})
             for event, change in bad.values()]  # fmt: skip
    folder = customers.to / "bronze" / STREAM
    (folder / f"{STREAM}+0+0000900000.json").write_text("".join(f"{line}\n" for line in [*lines, lines[0][:-9]]))
    (folder / f"{STREAM}+0+0000900100.json").touch()
    source = load_source(Project.load(REPOSITORY), "customers")
    before = customers.rows("select * from silver_customers.cust_hudi_f1 order by id")
    (landed,) = land(customers.spark, source.tables)
    assert (landed.counts.read, landed.counts.quarantined) == (len(lines) + 1, len(lines) + 1)
    kept = quarantine.events(customers.spark, source)
    assert kept is not None
    reasons = [str(row["reason"]) for row in kept.orderBy("line").collect()]
    expected = [*bad, "does not parse as JSON"]
    assert [told in reason for told, reason in zip(expected, reasons, strict=True)] == [True] * len(expected), reasons
    assert customers.rows("select * from silver_customers.cust_hudi_f1 order by id") == before


def test_the_stream_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    day, played = date(2023, 10, 5), system("customers")
    for name, phases in (("at_once", ("all",)), ("in_two", ("snapshot", "changes"))):
        for phase in phases:
            played.generate(tmp_path / name, scale=0.1, seed=3, phase=phase, ends=day)  # type: ignore[arg-type]
    files = {name: sorted((tmp_path / name).rglob("*.json")) for name in ("at_once", "in_two")}
    assert [path.read_bytes() for path in files["at_once"]] == [path.read_bytes() for path in files["in_two"]]
    assert len(files["at_once"]) > 1
