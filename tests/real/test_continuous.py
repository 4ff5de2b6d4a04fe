"""`lake ingest --continuous`, against a real broker: what comes is landed, and what can heal is waited for."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import httpx
import pytest
from conftest import REPOSITORY, DbtProject, pg
from continuously import landing, wait_until
from pyspark.sql import SparkSession

from dev.chain import processes
from dev.chain.processes import free_port
from ingest.errors import UnavailableError
from ingest.landing.failures import failures
from ingest.silver.state import Counts
from real.broker import Broker, GuardedKafka
from real.live import MakeKafka

pytestmark = [pytest.mark.real, pytest.mark.spark]

_WITHIN_S = 60
# A broker that is gone is given up after this time, not after a minute.
IMPATIENT = {"options": {"default.api.timeout.ms": "4000", "request.timeout.ms": "2000"}}


def failed_tables(spark: SparkSession, project: DbtProject) -> list[str]:
    """The tables that `lake status` names."""
    known = failures(project.schema).read(spark)
    return [] if known is None else [row["source_table"] for row in known.collect()]


def test_each_table_lands_what_comes_and_a_broken_one_stops_alone(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    broker.make("live.left", partitions=2)
    broker.make("live.right")
    project = make_kafka(broker.address, "live.left", "live.right", "live.absent")
    with landing(spark, project.source().tables) as run:

        def has_applied(number: int) -> bool:
            return run.progress["left"].totals.applied == number

        wait_until(lambda: {item.state for item in run.progress.values()} == {"waiting", "failed"}, "listening")
        absent = run.progress["absent"]
        assert absent.error is not None
        assert "there is no topic live.absent" in absent.error.message
        for number in range(1, 4):
            broker.send("live.left", pg("c", number * 10, id=number, v="a"), partition=number % 2)
            wait_until(partial(has_applied, number), f"change {number}")
        broker.send("live.right", pg("c", 10, id=1, v="b"))
        wait_until(lambda: run.progress["right"].totals.applied == 1, "the other table's change")
        broker.add_partitions("live.left", 3)
        assert run.progress["left"].batches == 3
    assert {name: item.state for name, item in run.progress.items()} == {
        "left": "stopped", "right": "stopped", "absent": "failed",
    }  # fmt: skip
    assert [row["id"] for row in project.rows(spark, "left")] == [1, 2, 3]
    assert project.rows(spark, "right") == [{"id": 1, "v": "b"}]
    assert failed_tables(spark, project) == ["absent"]

    broker.make("live.absent")
    with landing(spark, project.source().tables) as run:
        wait_until(lambda: {item.state for item in run.progress.values()} == {"waiting"}, "all are well")
    assert failed_tables(spark, project) == []


def test_transactions_are_landed_as_their_last_event_comes(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    for topic in ("till.public.debit", "till.public.credit", "till.transaction"):
        broker.make(topic)
    project = make_kafka(broker.address, "till.public.debit", "till.public.credit", consistent="transaction")
    counts = [{"data_collection": f"public.{name}", "event_count": 1} for name in ("debit", "credit")]
    with landing(spark, project.source().tables) as run:
        wait_until(lambda: {item.state for item in run.progress.values()} == {"waiting"}, "listening")
        for order, name in enumerate(("debit", "credit"), start=1):
            moved = {"__transaction_id": "1", "__transaction_total_order": order}
            broker.send(f"till.public.{name}", {**pg("c", 10, id=1, v=name), **moved})
        wait_until(lambda: run.progress["credit"].last is not None, "the events wait")
        assert run.progress["debit"].totals.applied == run.progress["credit"].totals.applied == 0
        ended = {"status": "END", "id": "1", "event_count": 2, "data_collections": counts, "ts_ms": 1}
        broker.send("till.transaction", {"status": "BEGIN", "id": "1", "ts_ms": 1}, ended)
        wait_until(lambda: all(item.totals.applied == 1 for item in run.progress.values()), "the transaction's end")


def test_a_broker_that_goes_away_and_comes_back_is_waited_for(make_kafka: MakeKafka, spark: SparkSession) -> None:
    folder = Path(tempfile.mkdtemp(prefix="lake-real-"))
    kafka = GuardedKafka(folder, free_port(), free_port(), free_port())
    broker = Broker(spark, kafka)
    try:
        processes.start(kafka)
        broker.make("away.item")
        broker.send("away.item", pg("c", 10, id=1, v="a"))
        project = make_kafka(broker.address, "away.item", connection=IMPATIENT)
        with landing(spark, project.source().tables) as run:
            wait_until(lambda: run.progress["item"].totals.applied == 1, "the first change")
            processes.stop(kafka)
            run.wake()
            wait_until(lambda: run.progress["item"].state == "retrying", "the error")
            assert isinstance(run.progress["item"].error, UnavailableError)
            processes.start(kafka)
            broker.send("away.item", pg("u", 20, id=1, v="b"))
            wait_until(lambda: run.progress["item"].totals.applied == 2, "the second change")
            assert run.failed == []
        assert project.rows(spark, "item") == [{"id": 1, "v": "b"}]
    finally:
        processes.stop(kafka)
        shutil.rmtree(folder)


def test_the_command_ends_well_at_a_signal_and_tells_machines_how_it_was(
    make_kafka: MakeKafka, broker: Broker, tmp_path: Path, spark: SparkSession
) -> None:
    broker.make("told.item")
    broker.send("told.item", pg("c", 10, id=1, v="a"), "no JSON")
    project, port = make_kafka(broker.address, "told.item"), free_port()
    command = [sys.executable, "-m", "ingest", "ingest", "shop", "--continuous", "--json", "--metrics-port", str(port)]
    environment = {**os.environ, "LAKE_HOME": str(tmp_path / "lake"), "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        [*command, "--project-dir", str(project.root)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        events = (json.loads(line) for line in process.stdout)
        first = next(event for event in events if event["batches"] == 1)
        metrics = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
        broker.send("told.item", pg("u", 20, id=1, v="b"))
        assert next(event for event in events if event["state"] == "landing")
        during = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
        second = next(event for event in events if event["batches"] == 2)
        process.send_signal(signal.SIGTERM)
        last = list(events)[-1]
        assert process.wait(_WITHIN_S) == 0
    assert (first["table"], first["applied"], first["quarantined"], first["unit"]) == ("item", 1, 1, "records")
    assert (second["taken"], second["applied"], second["error"]) == (1, 1, None)
    assert last["state"] == "stopped"
    labels = 'source="shop",table="item"'
    assert f'lake_events_total{{{labels},outcome="quarantined"}} 1' in metrics.splitlines()
    assert f"lake_batches_total{{{labels}}} 1" in metrics.splitlines()
    assert f"lake_table_up{{{labels}}} 1" in metrics.splitlines()
    assert f"lake_table_landing{{{labels}}} 1" in during.splitlines(), "an alert asks for a batch that hangs"
    silver = tmp_path / "lake" / "warehouse" / f"{project.schema}.db" / "item"
    assert [(row["id"], row["v"]) for row in spark.read.format("hudi").load(str(silver)).collect()] == [(1, "b")]
    assert Counts(**{name: first[name] for name in Counts.__dataclass_fields__}).read == 2
