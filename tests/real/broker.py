"""A Kafka of the tests' own, and what is done to it: topics made and removed, records written, lost and given up."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from dev.chain.servers import Kafka
from dev.chain.settings import HOST
from ingest.spark.jvm import java_class

PASSWORD = "not-a-secret"  # noqa: S105 - of servers that live as long as the tests


class GuardedKafka(Kafka):
    """Kafka with a second listener that asks for a password. A topic that is asked for is made, by default."""

    def __init__(self, folder: Path, port: int, controller_port: int, guarded_port: int) -> None:
        super().__init__(folder, port, controller_port)
        self.guarded_port = guarded_port

    def prepare(self) -> None:
        super().prepare()
        file = self.folder / "server.properties"
        settings = dict(line.split("=", 1) for line in file.read_text(encoding="utf-8").splitlines())
        guarded = f"GUARDED://{HOST}:{self.guarded_port}"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        settings["listeners"] += f",{guarded}"
        settings["advertised.listeners"] += f",{guarded}"
        settings["listener.security.protocol.map"] += ",GUARDED:SASL_PLAINTEXT"
        settings["listener.name.guarded.sasl.enabled.mechanisms"] = "PLAIN"
        settings["listener.name.guarded.plain.sasl.jaas.config"] = f'{module} required user_lake="{PASSWORD}";'
        settings["inter.broker.listener.name"] = "PLAINTEXT"
        settings["auto.create.topics.enable"] = "true"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")


@dataclass(frozen=True)
class Broker:
    """A running Kafka, written to with the Java client that comes with Spark's Kafka source."""

    spark: SparkSession
    kafka: GuardedKafka

    @property
    def address(self) -> str:
        """Where clients without a password connect."""
        return self.kafka.address

    @property
    def guarded(self) -> str:
        """Where clients need one: user lake, `PASSWORD`."""
        return f"{HOST}:{self.kafka.guarded_port}"

    @contextmanager
    def admin(self) -> Iterator[Any]:
        """The broker's administration."""
        client = java_class(self.spark, "org.apache.kafka.clients.admin.AdminClient").create(self._settings({}))
        try:
            yield client
        finally:
            client.close()

    def make(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """Makes a topic; settings have `_` for `.`."""
        made = java_class(self.spark, "org.apache.kafka.clients.admin.NewTopic")(topic, partitions, self._short(1))
        made.configs(self._map({name.replace("_", "."): value for name, value in settings.items()}))
        with self.admin() as admin:
            admin.createTopics(self._list([made])).all().get()

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Gives a topic more partitions."""
        wanted = java_class(self.spark, "org.apache.kafka.clients.admin.NewPartitions").increaseTo(partitions)
        with self.admin() as admin:
            admin.createPartitions(self._map({topic: wanted})).all().get()

    def remove(self, topic: str) -> None:
        """Removes a topic, and waits until it is gone."""
        with self.admin() as admin:
            admin.deleteTopics(self._list([topic])).all().get()
        deadline = time.monotonic() + 60
        while topic in self.topics():
            assert time.monotonic() < deadline, f"{topic} is still there"

    def topics(self) -> set[str]:
        """The names of all topics."""
        with self.admin() as admin:
            return {str(name) for name in admin.listTopics().names().get()}

    def expire(self, topic: str, partition: int, before: int) -> None:
        """Lets the records before an offset go, as a topic's retention does."""
        place = java_class(self.spark, "org.apache.kafka.common.TopicPartition")(topic, partition)
        with self.admin() as admin:
            admin.deleteRecords(self._map({place: self._before_offset(before)})).all().get()

    def _before_offset(self, offset: int) -> Any:
        """`RecordsToDelete.beforeOffset`, by reflection: py4j takes it for the getter of the same name."""
        gateway = self.spark.sparkContext._gateway
        assert gateway is not None
        types, values = (
            gateway.new_array(java_class(self.spark, f"java.lang.{name}"), 1) for name in ("Class", "Object")
        )
        types[0], values[0] = java_class(self.spark, "java.lang.Long").TYPE, offset
        records = java_class(self.spark, "java.lang.Class").forName("org.apache.kafka.clients.admin.RecordsToDelete")
        return records.getMethod("beforeOffset", types).invoke(None, values)

    def send(self, topic: str, *values: Mapping[str, Any] | str | bytes | None, partition: int = 0) -> None:
        """Writes records, and waits until they are there."""
        with self.producer({}) as producer:
            for value in values:
                producer.send(self._record(topic, partition, value))

    @contextmanager
    def in_transaction(self, topic: str, *values: Mapping[str, Any], partition: int = 0) -> Iterator[None]:
        """Writes records in a transaction that is open until the block ends, and committed then."""
        with self.producer({"transactional.id": f"open {topic}"}) as producer:
            producer.initTransactions()
            producer.beginTransaction()
            for value in values:
                producer.send(self._record(topic, partition, value)).get()
            yield
            producer.commitTransaction()

    def send_in_vain(self, topic: str, *values: Mapping[str, Any], partition: int = 0) -> None:
        """Writes records in a transaction that is given up."""
        with self.producer({"transactional.id": f"aborting {topic}"}) as producer:
            producer.initTransactions()
            producer.beginTransaction()
            for value in values:
                producer.send(self._record(topic, partition, value)).get()
            producer.abortTransaction()

    @contextmanager
    def producer(self, settings: Mapping[str, str]) -> Iterator[Any]:
        """A producer of bytes, with these settings; what it has sent is there when the block ends."""
        serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
        made = self._settings({"key.serializer": serializer, "value.serializer": serializer, **settings})
        producer = java_class(self.spark, "org.apache.kafka.clients.producer.KafkaProducer")(made)
        try:
            yield producer
        finally:
            producer.close()

    def _record(self, topic: str, partition: int, value: Mapping[str, Any] | str | bytes | None) -> Any:
        if isinstance(value, Mapping):
            value = json.dumps(value)
        content = value.encode() if isinstance(value, str) else value
        record = java_class(self.spark, "org.apache.kafka.clients.producer.ProducerRecord")
        return record(topic, partition, None, bytearray(content) if content is not None else None)

    def _settings(self, more: Mapping[str, str]) -> Any:
        made = java_class(self.spark, "java.util.Properties")()
        for name, value in {"bootstrap.servers": self.address, **more}.items():
            made.setProperty(name, value)
        return made

    def _map(self, items: Mapping[Any, Any]) -> Any:
        made = java_class(self.spark, "java.util.HashMap")()
        for name, value in items.items():
            made.put(name, value)
        return made

    def _list(self, items: Sequence[Any]) -> Any:
        made = java_class(self.spark, "java.util.ArrayList")()
        for item in items:
            made.add(item)
        return made

    def _short(self, number: int) -> Any:
        return java_class(self.spark, "java.lang.Short").valueOf(str(number))
