"""A source of Kafka's records, against a real broker: what is read, where it goes on, and what it refuses."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
import pytest
import yaml
from conftest import DbtProject, pg
from continuously import wait_until
from pyspark.sql import SparkSession
from registry_server import serve
from typer.testing import CliRunner

from dev.chain.processes import free_port
from ingest.cli.app import app
from ingest.errors import UnavailableError
from ingest.operations.position import set_position, tables_of
from ingest.operations.status import status_of
from ingest.silver.state import Counts
from ingest.sources import kafka_client
from ingest.sources.kafka import UnreadRecords
from ingest.sources.kinds import source_of
from ingest.sources.raw import RawRecords
from ingest.spark.shared import Shared
from real.broker import PASSWORD, Broker
from real.live import MakeKafka

pytestmark = [pytest.mark.real, pytest.mark.spark]


def offsets(project: DbtProject, spark: SparkSession, table: str) -> dict[str, dict[str, int]]:
    """The offsets to go on from, as the table's last commit has them, by topic."""
    position = json.loads(project.state(spark, table).position)["kafka"]
    return {topic: told["next"] for topic, told in position.items()}


def confluent(schema_id: int, schema: Mapping[str, Any], event: Mapping[str, Any]) -> bytes:
    """A value in the wire format of Confluent's registry."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(dict(schema)), dict(event))
    return b"\x00" + schema_id.to_bytes(4, "big") + body.getvalue()


def test_records_are_landed_once_and_the_commit_says_up_to_where(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    broker.make("shop.once", partitions=2)
    broker.send("shop.once", pg("c", 10, id=1, v="a"), pg("u", 20, id=1, v="b"), None, "no JSON")
    broker.send("shop.once", pg("c", 30, id=2, v="c"), partition=1)
    project = make_kafka(broker.address, "shop.once")
    assert project.land_well(spark)["once"].counts == Counts(5, applied=2, superseded=1, ignored=1, quarantined=1)
    assert offsets(project, spark, "once") == {"shop.once": {"0": 4, "1": 1}}
    (bad,) = project.quarantined(spark)
    assert (bad["topic"], bad["file"], bad["partition"], bad["start_offset"]) == ("shop.once", "shop.once", 0, 3)
    assert bytes(bad["raw"]) == b"no JSON"

    again = project.land_well(spark)["once"]
    assert (again.counts, again.taken, again.unit) == (Counts(), 0, "records")
    broker.send("shop.once", pg("d", 40, id=2, v=None), pg("u", 20, id=1, v="b"), partition=1)
    assert project.land_well(spark)["once"].counts == Counts(2, applied=1, duplicate=1)
    assert project.rows(spark, "once") == [{"id": 1, "v": "b"}]
    assert offsets(project, spark, "once") == {"shop.once": {"0": 4, "1": 3}}


def test_values_with_a_registrys_schema_are_decoded(make_kafka: MakeKafka, broker: Broker, spark: SparkSession) -> None:
    fields = [("id", "int"), ("v", ["null", "string"]), ("__op", "string"), ("__lsn", "long"), ("__deleted", "string")]
    schema = {"type": "record", "name": "Value", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    row = {"__op": "c", "__deleted": "false"}
    broker.make("shop.avro")
    rows = ({"id": number, "v": f"v{number}", "__lsn": number, **row} for number in (1, 2))
    broker.send("shop.avro", *(confluent(7, schema, event) for event in rows), None)
    fields[1:2] = [("v", ["null", "string"]), ("more", "int")]
    later = {**schema, "fields": [{"name": name, "type": kind} for name, kind in fields]}
    with serve({"7": {"schema": json.dumps(schema)}, "8": {"schema": json.dumps(later)}}) as registry:
        project = make_kafka(broker.address, "shop.avro", connection={"registry": {"url": registry.url}})
        assert project.land_well(spark)["avro"].counts == Counts(3, applied=2, ignored=1)
        # The second batch is read as the first one was; the third cannot be.
        broker.send("shop.avro", confluent(7, schema, {"id": 1, "v": "again", "__lsn": 3, **row}), None)
        assert project.land_well(spark)["avro"].counts == Counts(2, applied=1, ignored=1)
        newer = ({"id": number, "v": "new", "more": 1, "__lsn": 10 + number, **row} for number in (2, 3))
        broker.send("shop.avro", *(confluent(8, later, event) for event in newer), b"\x00")
        assert project.land_well(spark)["avro"].counts == Counts(3, applied=2, quarantined=1)
    assert project.rows(spark, "avro", "id", "v") == [
        {"id": 1, "v": "again"},
        {"id": 2, "v": "new"},
        {"id": 3, "v": "new"},
    ]


def test_a_batch_is_bounded_and_a_run_ends_with_what_there_was(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    broker.make("shop.many", partitions=2)
    for partition in (0, 1):
        events = (pg("c", 10 + number, id=number * 2 + partition, v="x") for number in range(25))
        broker.send("shop.many", *events, partition=partition)
    project = make_kafka(broker.address, "shop.many", connection={"batch_records": 20})
    landed = project.land_well(spark)["many"]
    assert (landed.counts, landed.taken) == (Counts(50, applied=50), 50)
    commits = spark.sql(f"call show_commits(table => '{project.schema}.many')").count()
    assert commits == 3
    assert offsets(project, spark, "many") == {"shop.many": {"0": 25, "1": 25}}


def test_a_batch_of_long_records_is_bounded_by_their_size(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    broker.make("shop.long")
    broker.send("shop.long", *(pg("c", 10 + number, id=number, v="x" * 1000) for number in range(30)))
    project = make_kafka(broker.address, "shop.long", connection={"batch_bytes": "12KB"})
    assert project.land_well(spark)["long"].counts == Counts(30, applied=30)
    commits = spark.sql(f"call show_commits(table => '{project.schema}.long')").count()
    assert 3 <= commits <= 4, "some ten records of 1.1 KB or so in each"


def test_a_compacted_topic_is_told_of_once(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    for topic, policy in {"shop.compacted": "compact", "shop.kept": "delete"}.items():
        broker.make(topic, cleanup_policy=policy)
        broker.send(topic, pg("c", 10, id=1, v="a"))
        project = make_kafka(broker.address, topic)
        project.land_well(spark)
        project.land_well(spark)
    (warning,) = [record.getMessage() for record in caplog.records if "is compacted" in record.getMessage()]
    assert warning.startswith("topic shop.compacted is compacted (cleanup.policy)")


def test_a_partition_that_was_added_is_read_from_its_first_record(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    broker.make("shop.grown")
    broker.send("shop.grown", pg("c", 10, id=1, v="a"))
    project = make_kafka(broker.address, "shop.grown")
    project.land_well(spark)
    broker.add_partitions("shop.grown", 3)
    broker.send("shop.grown", pg("c", 20, id=2, v="b"), partition=2)
    assert project.land_well(spark)["grown"].counts == Counts(1, applied=1)
    assert offsets(project, spark, "grown") == {"shop.grown": {"0": 1, "1": 0, "2": 1}}


@pytest.mark.parametrize("to_latest", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_records_that_expired_before_they_were_landed_are_for_somebody_to_decide(
    to_latest: bool, make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    topic = f"shop.expired_{to_latest}".lower()
    name = topic.rpartition(".")[2]
    broker.make(topic)
    broker.send(topic, *(pg("c", number, id=number, v="a") for number in range(1, 11)))
    broker.expire(topic, 0, 4)
    project = make_kafka(broker.address, topic)
    assert project.land_well(spark)[name].counts.read == 6, "a first landing takes what there is"
    broker.send(topic, *(pg("u", 100 + number, id=number, v="b") for number in range(1, 11)))
    broker.expire(topic, 0, 15)
    error = project.land(spark)[name].error
    assert error is not None
    assert "partition 0: 5 records expired, from offset 10 on" in error.message
    assert f"`lake position shop --tables {name} --to earliest`" in error.message
    (declared,) = project.source().tables
    assert set_position(spark, declared, to_latest=to_latest).waiting == (0 if to_latest else 5)
    assert project.land_well(spark)[name].counts.read == (0 if to_latest else 5)
    broker.send(topic, pg("u", 200, id=10, v="c"))
    assert project.land_well(spark)[name].counts == Counts(1, applied=1)


def test_records_that_expire_while_they_are_read_are_listed_again(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Continuous ingest failed for good: only what may heal is tried again."""
    broker.make("shop.expiring")
    broker.send("shop.expiring", *(pg("c", number, id=number, v="a") for number in range(1, 11)))
    project = make_kafka(broker.address, "shop.expiring")
    read = UnreadRecords.read

    def read_too_late(unread: UnreadRecords) -> RawRecords:
        broker.expire("shop.expiring", 0, 6)
        return read(unread)

    with monkeypatch.context() as patch:
        patch.setattr(UnreadRecords, "read", read_too_late)
        error = project.land(spark)["expiring"].error
    assert isinstance(error, UnavailableError)
    assert "records have gone since the topic was listed" in error.message
    assert project.land_well(spark)["expiring"].counts == Counts(4, applied=4)


def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    broker.make("shop.anew")
    broker.send("shop.anew", pg("c", 10, id=1, v="a"))
    project = make_kafka(broker.address, "shop.anew")
    project.land_well(spark)
    broker.remove("shop.anew")
    clients = Shared.of(spark).remembered(kafka_client.CLIENTS)
    before = dict(clients)
    error = project.land(spark)["anew"].error
    assert error is not None
    assert "there is no topic shop.anew" in error.message
    assert clients == before, "other tables of the connection may be asking by the same client"
    broker.make("shop.anew")
    broker.send("shop.anew", pg("c", 20, id=2, v="b"), pg("c", 30, id=3, v="c"))
    error = project.land(spark)["anew"].error
    assert error is not None
    assert "shop.anew was deleted and made anew" in error.message
    assert "raise the table's `epoch` by one" in str(error.action)
    set_position(spark, project.source().tables[0], to_latest=False)
    assert project.land_well(spark)["anew"].counts == Counts(2, applied=2)


@pytest.mark.slow
def test_brokers_that_tell_no_ids_of_topics_are_told_of_once(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    broker.make("shop.nameless")
    project = make_kafka(broker.address, "shop.nameless")
    broker.send("shop.nameless", pg("c", 10, id=1, v="a"))
    project.land_well(spark)
    given = json.loads(project.state(spark, "nameless").position)["kafka"]["shop.nameless"]["id"]
    assert "no ids of topics" not in caplog.text
    monkeypatch.setattr(kafka_client, "NO_ID", given)
    for _ in range(2):
        project.land_well(spark)
    assert caplog.text.count("no ids of topics") == 1


def test_a_topic_that_is_gone_is_not_made_anew_by_those_who_wait_for_it(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    """Made anew by nobody's wish it would have one partition, and no records."""
    broker.make("shop.there")
    (table,) = make_kafka(broker.address, "shop.there").source().tables
    watch = source_of(spark, table.connection).watch()
    assert watch is not None
    watch.listen({("shop.there", 0): 0, ("shop.gone", 0): 0})
    broker.send("shop.there", pg("c", 10, id=1, v="a"))
    # Both are asked for by one request, and a topic is made behind those that the broker was asked for before.
    wait_until(lambda: watch.wait(1.0) == {("shop.there", 0)}, "the record")
    watch.close()
    broker.make("shop.later")
    assert {"shop.there", "shop.later"} <= broker.topics()
    assert "shop.gone" not in broker.topics()


def test_a_pattern_finds_the_topics_of_rows_and_those_that_come_later(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    for topic in ("shard1", "shard1.transaction", "shard1.public.item", "shard2.public.item", "__shard1.public.item"):
        broker.make(topic)
    broker.send("shard1.public.item", pg("c", 10, id=1, v="a"))
    broker.send("shard2.public.item", pg("c", 5, id=2, v="b"))
    broker.send("shard1.transaction", {"status": "BEGIN", "id": "1", "event_count": None})
    broker.send("shard1", {"ddl": "create table", "tableChanges": []})
    project = make_kafka(broker.address, "shard1.public.item", topic_pattern=r"(__)?shard.*")
    assert project.land_well(spark)["item"].counts == Counts(2, applied=2)
    broker.make("shard3.public.item")
    broker.send("shard3.public.item", pg("c", 7, id=3, v="c"))
    assert project.land_well(spark)["item"].counts == Counts(1, applied=1)
    assert sorted(offsets(project, spark, "item")) == [f"shard{number}.public.item" for number in (1, 2, 3)]
    broker.send("shard2.public.item", pg("d", 8, id=2))
    broker.remove("shard2.public.item")
    error = project.land(spark)["item"].error
    assert error is not None
    assert "shard2.public.item was read, and is none of the table's topics now, or may not be described" in str(error)
    set_position(spark, project.source().tables[0], to_latest=False)
    assert project.land_well(spark)["item"].counts == Counts(2, duplicate=2)


def test_records_of_transactions_that_were_given_up_are_not_read(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    broker.make("shop.aborted")
    broker.send("shop.aborted", pg("c", 10, id=1, v="a"))
    broker.send_in_vain("shop.aborted", pg("c", 20, id=2, v="never"))
    project = make_kafka(broker.address, "shop.aborted")
    assert project.land_well(spark)["aborted"].counts == Counts(1, applied=1)
    broker.send("shop.aborted", pg("c", 30, id=3, v="c"))
    assert project.land_well(spark)["aborted"].counts == Counts(1, applied=1)
    assert [row["id"] for row in project.rows(spark, "aborted")] == [1, 3]


def test_records_behind_an_open_transaction_are_told_until_it_ends(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    """The table was called up to date, for as long as a producer that is gone had left its transaction open."""
    broker.make("shop.open")
    broker.send("shop.open", pg("c", 10, id=1, v="a"))
    project = make_kafka(broker.address, "shop.open")
    project.land_well(spark)

    def told() -> tuple[list[dict[str, Any]], str]:
        results = [CliRunner().invoke(app, ["status", "shop", "--project-dir", str(project.root), *words])
                   for words in (["--json"], [])]  # fmt: skip
        assert [result.exit_code for result in results] == [0, 0]
        (row,) = json.loads(results[0].stdout)
        assert row["waiting"] == 0
        return row["open_transactions"], " ".join(results[1].stderr.split())

    with broker.in_transaction("shop.open", pg("u", 20, id=1, v="b")):
        broker.send("shop.open", *(pg("c", number, id=number, v="behind") for number in range(30, 33)))
        found, message = told()
        assert found == [{"topic": "shop.open", "partition": 0, "offset": 1, "records": 4}]
        assert "shop.open: 4 records of shop.open, partition 0, stand behind a transaction" in message
        assert "abort --topic shop.open --partition 0 --start-offset 1` ends it" in message
        assert project.land_well(spark)["open"].counts == Counts()
    assert project.land_well(spark)["open"].counts == Counts(4, applied=4)
    # The marker at the end of a transaction is no record that waits.
    assert told() == ([], "")


def test_offsets_without_records_are_left_behind(make_kafka: MakeKafka, broker: Broker, spark: SparkSession) -> None:
    broker.make("shop.empty")
    broker.send_in_vain("shop.empty", *(pg("c", number, id=number, v="never") for number in range(1, 8)))
    broker.send("shop.empty", pg("c", 10, id=1, v="a"))
    project = make_kafka(broker.address, "shop.empty", connection={"batch_records": 3})
    assert project.land_well(spark)["empty"].counts == Counts(1, applied=1)
    broker.send_in_vain("shop.empty", pg("u", 20, id=1, v="never"))
    assert project.land_well(spark)["empty"].counts == Counts()
    assert offsets(project, spark, "empty") == {"shop.empty": {"0": 11}}
    (seen,) = status_of(spark, project.source())
    assert (seen.state, seen.landed, seen.waiting) == ("up to date", 11, 0)
    broker.expire("shop.empty", 0, 11)
    broker.send("shop.empty", pg("u", 30, id=1, v="b"))
    assert project.land_well(spark)["empty"].counts == Counts(1, applied=1)


@pytest.mark.slow
def test_a_partition_whose_records_expired_before_the_first_run_has_lost_none(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    broker.make("shop.quiet", partitions=2)
    for partition in (0, 1):
        broker.send("shop.quiet", pg("c", 10, id=partition, v="a"), partition=partition)
    broker.expire("shop.quiet", 1, 1)
    project = make_kafka(broker.address, "shop.quiet")
    assert project.land_well(spark)["quiet"].counts == Counts(1, applied=1)
    broker.send("shop.quiet", pg("c", 20, id=2, v="b"), partition=1)
    assert project.land_well(spark)["quiet"].counts == Counts(1, applied=1)


@pytest.mark.slow
def test_transactions_of_kafkas_records_are_kept_whole(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    for topic in ("bank.public.debit", "bank.public.credit"):
        broker.make(topic)
    project = make_kafka(broker.address, "bank.public.debit", "bank.public.credit", consistent="transaction")
    # Debezium makes the topic with the first transaction.
    project.land_well(spark)
    broker.make("bank.transaction")

    def move(number: int) -> dict[str, Any]:
        return {"__transaction_id": str(number), "__transaction_total_order": 1}

    def ends(number: int) -> dict[str, Any]:
        counts = [{"data_collection": f"public.{name}", "event_count": 1} for name in ("debit", "credit")]
        return {"status": "END", "id": str(number), "event_count": 2, "data_collections": counts, "ts_ms": 1}

    for number in (1, 2):
        broker.send("bank.transaction", {"status": "BEGIN", "id": str(number), "ts_ms": 1}, ends(number))
        broker.send("bank.public.debit", {**pg("c", 10 * number, id=number, v="-"), **move(number)})
    broker.send("bank.public.credit", {**pg("c", 11, id=1, v="+"), **move(1), "__transaction_total_order": 2})
    done = project.land_well(spark)
    assert {name: (landed.counts.applied, landed.waiting) for name, landed in done.items()} == {
        "debit": (1, 1), "credit": (1, 0),
    }  # fmt: skip
    assert offsets(project, spark, "debit") == {"bank.public.debit": {"0": 1}}
    broker.send("bank.public.credit", {**pg("c", 21, id=2, v="+"), **move(2), "__transaction_total_order": 2})
    assert {landed.counts.applied for landed in project.land_well(spark).values()} == {1}
    assert offsets(project, spark, "debit") == {"bank.public.debit": {"0": 2}}

    broker.send("bank.transaction", {"status": "BEGIN", "id": "3", "ts_ms": 1}, ends(3), ends(4))
    broker.expire("bank.transaction", 0, 5)
    assert all("records expired" in str(landed.error) for landed in project.land(spark).values())
    for number in (3, 4):
        broker.send("bank.public.debit", {**pg("c", 10 * number, id=number, v="-"), **move(number)})
        second = {**pg("c", 10 * number + 1, id=number, v="+"), **move(number), "__transaction_total_order": 2}
        broker.send("bank.public.credit", second)
    (log,) = tables_of(project.source(), ["_transactions"])
    set_position(spark, log, to_latest=False)
    assert {landed.counts.applied for landed in project.land_well(spark).values()} == {2}


def test_settings_of_kafkas_clients_are_passed_on_and_secrets_are_not_told(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.make("shop.guarded")
    broker.send("shop.guarded", pg("c", 10, id=1, v="a"))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    # A request may take longer than a whole call of lake's own may.
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "request.timeout.ms": 25_000,
               "sasl.jaas.config": "{{ env_var('KAFKA_LOGIN') }}"}  # fmt: skip
    project = make_kafka(broker.guarded, "shop.guarded", connection={"options": options})
    monkeypatch.setenv("KAFKA_LOGIN", f'{module} required username="lake" password="wrong-{PASSWORD}";')
    error = project.land(spark)["guarded"].error
    assert error is not None
    assert "access is refused" in error.message
    assert PASSWORD not in f"{error.message} {error!r} {error.__cause__!r} {project.source().tables[0]!r}"
    monkeypatch.setenv("KAFKA_LOGIN", f'{module} required username="lake" password="{PASSWORD}";')
    assert project.land_well(spark)["guarded"].counts == Counts(1, applied=1)


def test_brokers_that_do_not_answer_may_heal(make_kafka: MakeKafka, spark: SparkSession) -> None:
    options = {"default.api.timeout.ms": "2000"}
    project = make_kafka(f"127.0.0.1:{free_port()}", "shop.away", connection={"options": options})
    error = project.land(spark)["away"].error
    assert isinstance(error, UnavailableError)
    assert "the brokers do not answer" in error.message
    assert "an answer within 2 s" in error.message
    assert "`security.protocol` of the port" in str(error.action)


@pytest.mark.slow
def test_a_table_that_goes_over_to_kafka_is_told_to_decide(
    make_kafka: MakeKafka, broker: Broker, spark: SparkSession
) -> None:
    broker.make("shop.moved")
    broker.send("shop.moved", pg("c", 10, id=1, v="a"), pg("u", 20, id=1, v="b"))
    project = make_kafka(broker.address, "shop.moved")
    kafka = (project.root / "connections.yml").read_text(encoding="utf-8")
    files = yaml.safe_dump({"kafka": {"type": "files", "path": str(project.bronze)}})
    (project.root / "connections.yml").write_text(files, encoding="utf-8")
    project.deliver("shop.moved", 0, [pg("c", 10, id=1, v="a")])
    project.land_well(spark)
    (project.root / "connections.yml").write_text(kafka, encoding="utf-8")
    error = project.land(spark)["moved"].error
    assert error is not None
    assert "the table was read from files, and its connection is of type kafka now" in error.message
    set_position(spark, project.source().tables[0], to_latest=False)
    assert project.land_well(spark)["moved"].counts == Counts(2, applied=1, superseded=1)
