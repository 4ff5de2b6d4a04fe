"""What the brokers say of a table's topics, and when records have come: Kafka's own clients.

The brokers are asked through the Java client that comes with Spark's Kafka source, with the connection's settings: what
Spark can read, can be listed.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ingest.config.connections import KafkaConnection
from ingest.config.tables import Table
from ingest.errors import AbsentError, InputError, UnavailableError
from ingest.sources.base import Offsets
from ingest.spark.jvm import java_class, root_cause
from ingest.spark.shared import Shared

log = logging.getLogger(__name__)

_TIMEOUT_MS = 20_000
# The id of every topic where brokers tell none: before Kafka 2.8, and those of others that speak its protocol.
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


# What is shared: a session's clients, by their connections' settings, and the topics whose settings were looked at.
CLIENTS, _LOOKED_AT = "Kafka's clients", "settings of Kafka's topics"


@dataclass(frozen=True, order=True)
class Partition:
    """A partition as the broker has it: its topic's id, its first offset, and the one behind its last record.

    `high` is its high watermark: where it is beyond `end`, a transaction is open that begins at `end`.
    """

    topic: str
    topic_id: str
    number: int
    first: int
    end: int
    high: int = 0


def partitions(spark: SparkSession, table: Table) -> list[Partition]:
    """The partitions of a table's topics, as the brokers have them now.

    Ends are those of committed transactions, as a reader with `isolation.level=read_committed` sees them.

    Raises
    ------
    InputError
        There is no such topic, or it may not be read.
    UnavailableError
        The brokers do not answer.
    """
    connection = table.connection
    assert isinstance(connection, KafkaConnection)
    where = f"{table.relation}: {connection.bootstrap_servers}"
    client = _client(spark, connection)
    try:
        names = _topics(client, table)
        described = client.describeTopics(_java_list(spark, names)).allTopicNames().get() if names else {}
        found = [
            (name, str(described[name].topicId().toString()), int(part.partition()))
            for name in names
            for part in described[name].partitions()
        ]
        firsts = _offsets(spark, client, found, "earliest")
        # Before the ends: those of a topic that is written to meanwhile, without a transaction, are never behind it.
        highs = _offsets(spark, client, found, "latest", isolation="READ_UNCOMMITTED")
        ends = _offsets(spark, client, found, "latest")
    except Py4JJavaError as error:
        failure = _broker_error(error, table, connection, where)
        if isinstance(failure, UnavailableError):
            _forget(spark, connection)
        raise failure from error
    _warn_of_compacted(spark, connection, client, names)
    if any(topic_id == NO_ID for _, topic_id, _ in found):
        _warn_of_no_ids(spark, connection)
    return [Partition(*place, firsts[place], ends[place], highs[place]) for place in found]


def read_error(error: Py4JJavaError, *, where: str) -> InputError:
    """What it means that Spark could not read records: brokers may come back, and a list may be made anew."""
    reason = _reason(error)
    # Kafka's errors that a client may try again after, and those of a lost connection.
    if re.match(r"(Timeout|Disconnect|NotLeader\w*|LeaderNotAvailable|Network|Retriable|Connect)\w*Exception", reason):
        return _unavailable(reason, where, expected="every record of these")
    if reason.startswith("OffsetOutOfRangeException"):
        return UnavailableError(
            "records have gone since the topic was listed",
            where=where,
            expected="every record of these",
            action="see the topic's retention; nothing of this batch was landed, and the next run says what is gone "
            "for good",
        )
    return InputError(
        root_cause(error),
        where=where,
        expected="readable records of change events",
        action="correct what is named; nothing of this batch was landed",
    )


# Of a partition that the watch has fetched from: it stands behind what it was to wait for.
_READ = -1


class KafkaWatch:
    """Waits for records of some partitions with one consumer, which the brokers answer as soon as there are any.

    What it fetches is let go: it learns where there is something, the batch reads it. `wait` belongs to one thread, the
    other methods to any.

    Raises
    ------
    InputError
        The clients refuse the connection's settings.
    """

    def __init__(self, spark: SparkSession, connection: KafkaConnection) -> None:
        self._spark = spark
        serializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        settings = java_class(spark, "java.util.Properties")()
        # A partition that has anything answers with a batch of records, however small the limit.
        own = {"enable.auto.commit": "false", "max.partition.fetch.bytes": "1", "fetch.max.wait.ms": "500",
               "key.deserializer": serializer, "value.deserializer": serializer}  # fmt: skip
        for name, value in {**connection.settings, **own}.items():
            settings.setProperty(name, value)
        try:
            self._consumer = java_class(spark, "org.apache.kafka.clients.consumer.KafkaConsumer")(settings)
        except Py4JJavaError as error:
            raise _refused(error, connection) from None
        self._lock = threading.Lock()
        self._wanted: dict[tuple[str, int], int] = {}
        self._assigned: dict[tuple[str, int], int] = {}

    def listen(self, offsets: Offsets) -> None:
        """From now on, records of these partitions from these offsets on are waited for, until some have come."""
        with self._lock:
            self._wanted |= offsets
        self._consumer.wakeup()

    def wait(self, seconds: float) -> set[tuple[str, int]]:
        """The partitions that have records; they are not waited for any longer. Empty after that time, or `listen`."""
        with self._lock:
            if self._wanted != self._assigned:
                self._assign()
        found = set()
        try:
            if not self._assigned:
                time.sleep(min(seconds, 0.05))
                return set()
            records = self._consumer.poll(java_class(self._spark, "java.time.Duration").ofMillis(int(seconds * 1000)))
            found = {(str(place.topic()), int(place.partition())) for place in records.partitions()}
        except Py4JJavaError as error:
            if "WakeupException" not in _reason(error):
                raise read_error(error, where="the watch for new records") from error
        with self._lock:
            for place in found:
                self._wanted.pop(place, None)
                self._assigned[place] = _READ
        return found

    def close(self) -> None:
        """Ends the consumer."""
        self._consumer.close(java_class(self._spark, "java.time.Duration").ZERO)

    def _assign(self) -> None:
        partition_of = java_class(self._spark, "org.apache.kafka.common.TopicPartition")
        places = {place: partition_of(*place) for place in self._wanted}
        assigned = java_class(self._spark, "java.util.ArrayList")()
        for partition in places.values():
            assigned.add(partition)
        self._consumer.assign(assigned)
        for place, partition in places.items():
            if self._assigned.get(place) != self._wanted[place]:
                self._consumer.seek(partition, self._wanted[place])
        self._assigned = dict(self._wanted)


def _topics(client: Any, table: Table) -> list[str]:
    """The names of a table's topics: the declared one, and those that its pattern matches and that hold rows.

    Topics of schema changes (`<prefix>`), transactions (`<prefix>.transaction`) and heartbeats begin like those of
    tables, `<prefix>.<schema>.<table>`, and are none (Debezium's documentation of topic naming).
    """
    if table.options.topic_pattern is None:
        return [table.options.topic]
    pattern = re.compile(table.options.topic_pattern)

    def is_of_rows(name: str) -> bool:
        return name.count(".") >= 2 and not name.startswith("__") and name != table.transaction_topic

    matching = {name for name in map(str, client.listTopics().names().get()) if pattern.fullmatch(name)}
    return sorted({table.options.topic, *filter(is_of_rows, matching)})


def _warn_of_compacted(spark: SparkSession, connection: KafkaConnection, client: Any, topics: Sequence[str]) -> None:
    """Says of each topic once that it is compacted, where that is so and may be asked."""
    unknown = _not_looked_at(spark, connection, topics)
    if not unknown:
        return
    resource = java_class(spark, "org.apache.kafka.common.config.ConfigResource")
    of_topic = java_class(spark, "org.apache.kafka.common.config.ConfigResource$Type").TOPIC
    resources = {topic: resource(of_topic, topic) for topic in unknown}
    try:
        described = client.describeConfigs(_java_list(spark, resources.values())).all().get()
    except Py4JJavaError as error:
        log.debug("the topics' settings may not be read: %s", _reason(error))
        return
    for topic, asked in resources.items():
        if "compact" in str(described.get(asked).get("cleanup.policy").value()):
            log.warning(
                "topic %s is compacted (cleanup.policy): of each key the last record is kept. A delete that is not "
                "landed within delete.retention.ms is lost, and so are values that only an older record has; "
                "`lake reconcile` finds both",
                topic,
            )


def _warn_of_no_ids(spark: SparkSession, connection: KafkaConnection) -> None:
    """Says once of a connection what cannot be seen where its brokers tell no ids of topics."""
    if _not_looked_at(spark, connection, [NO_ID]):
        log.warning(
            "%s: the brokers tell no ids of topics (Kafka does from 2.8 on). A topic that was made anew is known by "
            "offsets that went back; one that has more records by then than were landed lacks its first ones. Whenever "
            "a topic is made anew, run `lake position ... --to earliest`, and raise `epoch` before the next run",
            connection.bootstrap_servers,
        )


def _not_looked_at(spark: SparkSession, connection: KafkaConnection, topics: Sequence[str]) -> list[str]:
    """Those of the topics that are asked for here for the first time."""
    key = _client_key(connection)
    return [topic for _, topic in Shared.of(spark).new_of(_LOOKED_AT, [(key, topic) for topic in topics])]


def _offsets(
    spark: SparkSession, client: Any, places: Sequence[tuple[str, str, int]], of: str, isolation: str = "READ_COMMITTED"
) -> dict[tuple[str, str, int], int]:
    wanted = java_class(spark, "java.util.HashMap")()
    spec = getattr(java_class(spark, "org.apache.kafka.clients.admin.OffsetSpec"), of)()
    partition_of = java_class(spark, "org.apache.kafka.common.TopicPartition")
    keys = {place: partition_of(place[0], place[2]) for place in places}
    for key in keys.values():
        wanted.put(key, spec)
    level = getattr(java_class(spark, "org.apache.kafka.common.IsolationLevel"), isolation)
    options = java_class(spark, "org.apache.kafka.clients.admin.ListOffsetsOptions")(level)
    listed = client.listOffsets(wanted, options).all().get()
    return {place: int(listed.get(key).offset()) for place, key in keys.items()}


def _java_list(spark: SparkSession, items: Iterable[str]) -> Any:
    made = java_class(spark, "java.util.ArrayList")()
    for item in items:
        made.add(item)
    return made


def _client(spark: SparkSession, connection: KafkaConnection) -> Any:
    """The session's client of a connection: made once, it keeps its connection to the brokers."""
    key, shared = _client_key(connection), Shared.of(spark)
    with shared.lock(CLIENTS):
        clients = shared.remembered(CLIENTS)
        if key not in clients:
            settings = java_class(spark, "java.util.Properties")()
            for name, value in {**connection.settings, **_limits(connection)}.items():
                settings.setProperty(name, value)
            try:
                clients[key] = java_class(spark, "org.apache.kafka.clients.admin.AdminClient").create(settings)
            except Py4JJavaError as error:
                raise _refused(error, connection) from None
        return clients[key]


def _limits(connection: KafkaConnection) -> dict[str, str]:
    """How long a call of the client may take, and one of its requests: Kafka refuses a call's that is the shorter one.

    Where the connection says one of them, the other goes with it.
    """
    call, request = "default.api.timeout.ms", "request.timeout.ms"
    given = {name: value for name, value in connection.settings.items() if name in (call, request)}
    numbers = {name: int(value) for name, value in given.items() if value.isdecimal()}
    longest = max(_TIMEOUT_MS, numbers.get(request, 0))
    return {call: str(longest), request: str(min(_TIMEOUT_MS // 2, numbers.get(call, _TIMEOUT_MS))), **given}


def _forget(spark: SparkSession, connection: KafkaConnection) -> None:
    """Ends the connection's client, which would go on trying: the next one that asks makes another."""
    shared = Shared.of(spark)
    with shared.lock(CLIENTS):
        client = shared.remembered(CLIENTS).pop(_client_key(connection), None)
    if client is not None:
        client.close(java_class(spark, "java.time.Duration").ZERO)


def _client_key(connection: KafkaConnection) -> str:
    return json.dumps(connection.settings, sort_keys=True)


def _refused(error: Py4JJavaError, connection: KafkaConnection) -> InputError:
    return InputError(
        f"the connection's settings are refused: {_reason(error)}",
        where=connection.bootstrap_servers,
        expected="settings of Kafka's clients",
        action="correct `options` of the connection in connections.yml",
    )


def _broker_error(error: Py4JJavaError, table: Table, connection: KafkaConnection, where: str) -> InputError:
    reason = _reason(error)
    if "UnknownTopic" in reason:
        return AbsentError(
            f"there is no topic {table.options.topic}",
            where=where,
            expected="the topic that the connector writes the table to",
            action="check `topic` in the declaration, and that the connector runs",
        )
    if "Authorization" in reason or "Authentication" in reason:
        return InputError(
            f"access is refused: {reason}",
            where=where,
            expected="rights to describe and read the topic",
            action="check the connection's `options`, and the rights of its user",
        )
    limit = int(_limits(connection)["default.api.timeout.ms"]) / 1000
    return _unavailable(reason, where, expected=f"an answer within {limit:g} s")


def _unavailable(reason: str, where: str, *, expected: str) -> UnavailableError:
    return UnavailableError(
        f"the brokers do not answer: {reason}",
        where=where,
        expected=expected,
        action="see whether they run, and whether `options` of the connection has the `security.protocol` of the port; "
        "nothing of this batch was landed",
    )


def _reason(error: Py4JJavaError) -> str:
    """Class and message of the innermost cause."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
