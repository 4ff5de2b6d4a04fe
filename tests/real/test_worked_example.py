"""The worked example on the real chain: what happens in the databases stands in silver, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY, MakeProject, table_of
from continuously import landing, wait_until
from lake import Lake
from pyspark.sql import SparkSession

from dev.chain import processes
from dev.chain.processes import running
from ingest.config.project import Project
from ingest.config.sources_file import Source, load_source
from ingest.operations.reconcile import reconcile
from real.live import Live

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.timeout(1800)]

LONG = "x" * 20_000
CONTINUOUSLY = ("ingest", "tickit", "--continuous")


@dataclass
class Example:
    """The chain, TICKIT's declaration on it, and the session that lands it."""

    live: Live
    spark: SparkSession
    source: Source

    def mariadb(self, script: str) -> None:
        """Runs SQL in the database of sales."""
        server = self.live.chain.mariadb
        processes.run(server.client("ecomm"), where=server.folder, text=script, **server.client_environment())

    def postgresql(self, script: str) -> None:
        """Runs SQL in the database of events and users."""
        server = self.live.chain.postgresql
        processes.run(server.client("tickit"), where=server.folder, text=script, **server.client_environment())

    def row(self, table: str, key: int) -> dict[str, Any] | None:
        """A row of silver, tombstones included."""
        declared = self.source.choose([table])[0]
        if not self.spark.catalog.tableExists(declared.relation):
            return None
        found = self.spark.table(declared.relation).where(f"{declared.key[0]} = {key}").collect()
        return found[0].asDict() if found else None

    def require_equal(self, *but: str) -> None:
        """No difference between silver and the databases, once what is on its way has come."""

        def differing() -> list[str]:
            compared = [reconcile(self.spark, table) for table in self.source.tables if table.name not in but]
            assert not any(result.error for result in compared), [result.error for result in compared]
            return [result.table.name for result in compared if not result.equal]

        wait_until(lambda: not differing(), "silver equals the databases")


@pytest.fixture(scope="module")
def example(live: Live, spark: SparkSession) -> Iterator[Example]:
    live.well("up", "--with-json")  # another test of this session may have stopped it
    settings = {**live.environment, **live.chain.settings.passwords, "TICKIT_CONNECTION": "tickit_kafka"}
    with pytest.MonkeyPatch.context() as patch:
        lake_home = os.environ["LAKE_HOME"]
        for name, value in settings.items():
            patch.setenv(name, value)
        patch.setenv("LAKE_HOME", lake_home)
        yield Example(live, spark, load_source(Project.load(REPOSITORY), "tickit"))


def is_live(row: dict[str, Any] | None) -> bool:
    return row is not None and row["__deleted"] == "false"


def test_what_happens_in_the_databases_stands_in_silver(example: Example) -> None:
    with landing(example.spark, example.source.tables) as run:
        wait_until(lambda: all(is_live(example.row(*key)) for key in (("sale", 200), ("user", 1))), "the snapshot")
        example.mariadb(
            "update sale set buyerid = 11694, qtysold = 3, pricepaid = 600.00, commission = 90.00 where salesid = 200;"
            "delete from sale where salesid = 201; update sale set salesid = 900201 where salesid = 202;"
        )
        wait_until(lambda: is_live(example.row("sale", 900201)), "the changed key")
        sold = example.row("sale", 200)
        assert sold is not None
        assert [str(sold[name]) for name in ("buyerid", "qtysold", "pricepaid", "commission")] == [
            "11694", "3", "600.00", "90.00",
        ]  # fmt: skip
        for gone in (201, 202):
            row = example.row("sale", gone)
            assert row is not None
            assert (row["__op"], row["__deleted"]) == ("d", "true")

        # A column that was added, with a value too long to be logged again.
        example.postgresql(
            "alter table ems.event add column notes text; alter table ems.event alter notes set storage external;"
            f"update ems.event set notes = '{LONG}' where eventid = 1;"
        )
        wait_until(lambda: (example.row("event", 1) or {}).get("notes") == LONG, "the new column")
        example.postgresql("update ems.event set eventname = 'renamed' where eventid = 1;")
        wait_until(lambda: (example.row("event", 1) or {})["eventname"] == "renamed", "the later change")
        assert (example.row("event", 1) or {})["notes"] == LONG
        assert run.progress["event"].totals.quarantined == 0
        assert run.failed == []
    example.require_equal()


@pytest.mark.slow
def test_killed_servers_and_a_killed_ingest_lose_and_double_nothing(example: Example, tmp_path: Path) -> None:
    live = example.live
    lake = Lake({"LAKE_HOME": str(tmp_path / "lake")})
    with lake.running(*CONTINUOUSLY) as process:
        process.send_signal(signal.SIGKILL)
    live.well("changes", "--count", "50")
    with lake.running(*CONTINUOUSLY, until_landed=("sale", "listing", "event", "user")) as process:
        worker = running(live.chain.connect)
        assert worker is not None
        worker.send_signal(signal.SIGKILL)
        live.well("changes", "--count", "50")
        live.well("up", "--with-json")
        example.mariadb("update sale set qtysold = 5 where salesid = 203;")
        lake.wait_for("sale")
        process.send_signal(signal.SIGKILL)
    live.well("changes", "--count", "50")
    with lake.running(*CONTINUOUSLY, until_landed=("sale",)) as process:
        broker = running(live.chain.kafka)
        assert broker is not None
        broker.send_signal(signal.SIGKILL)
        live.well("up", "--with-json")
        live.well("changes", "--count", "50")
        example.mariadb("update sale set qtysold = 6 where salesid = 203;")
        lake.wait_for("sale")
        # Of a table that has not found the broker again, the command's end says so.
        lake.wait_until_nothing_is_tried_again()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    # What is still on its way from the databases comes within a few runs.
    for _ in range(5):
        assert lake.run("ingest", "tickit").returncode == 0
        compared = json.loads(lake.run("reconcile", "tickit", "--json").stdout)
        assert not any(table["error"] for table in compared), compared
        if all(table["state"] == "equal" for table in compared):
            break
    assert {table["table"]: table["counts"] for table in compared if table["state"] != "equal"} == {}


def test_a_truncate_is_told_by_envelopes_and_found_missing_where_it_was_dropped(
    example: Example, make_project: MakeProject
) -> None:
    """Debezium's unwrap transform drops truncates: the set of connectors with envelopes tells them."""
    columns = {"catid": "int", "catgroup": "string", "catname": "string", "catdesc": "string"}
    options = {"connection": "chain", "topic": "tickit_json.ems.category"}
    project = make_project({"tables": [table_of("category", columns, ["catid"], **options)]})
    connection = {"type": "kafka", "bootstrap_servers": example.live.chain.kafka.address}
    (Path(project.root) / "connections.yml").write_text(yaml.safe_dump({"chain": connection}), encoding="utf-8")
    project.land_well(example.spark)
    assert project.rows(example.spark, "category")
    example.postgresql("truncate ems.category;")

    def is_empty() -> bool:
        project.land_well(example.spark)
        return not project.rows(example.spark, "category")

    wait_until(is_empty, "the truncate")
    (unwrapped,) = example.source.choose(["category"])
    found = reconcile(example.spark, unwrapped)
    assert not found.equal
    assert found.counts["extra"] == found.silver_rows > 0
