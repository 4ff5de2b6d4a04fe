"""What stands in Kafka's topics, read with Kafka's own console consumer and told as rows."""

from __future__ import annotations

import io
import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import fastavro
import httpx

from dev.chain.processes import run
from dev.chain.servers import Kafka, Registry, java_command
from ingest.errors import LakeError

_ESCAPED = re.compile(rb"\\x([0-9A-F]{2})")
_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@dataclass(frozen=True)
class Record:
    """A record of a topic. `written_ms` is when the producer sent it, `read_s` when it was read here, since 1970."""

    partition: int
    offset: int
    written_ms: int
    read_s: float
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Topics:
    """The topics of one broker, with the schemas of one registry."""

    kafka: Kafka
    registry: Registry
    _schemas: dict[int, Any] = field(default_factory=dict, repr=False)

    def ends(self) -> dict[str, int]:
        """Records ever written, by topic, without Kafka's own topics."""
        told = run([*java_command("org.apache.kafka.tools.GetOffsetShell", heap_mb=128), "--bootstrap-server",
                    self.kafka.address, "--exclude-internal-topics"], where=self.kafka.folder)  # fmt: skip
        ends: dict[str, int] = {}
        for topic, _, end in (line.rsplit(":", 2) for line in told.splitlines() if line.count(":") >= 2):
            ends[topic] = ends.get(topic, 0) + int(end)
        return ends

    @contextmanager
    def reading(self, topics: str, *, from_beginning: bool = True) -> Iterator[Iterator[Record]]:
        """The records of the topics that match a regular expression, as they come, until the block ends.

        Raises
        ------
        LakeError
            The consumer has ended by itself.
        """
        settings = {"print.key": "true", "print.partition": "true", "print.offset": "true", "print.timestamp": "true",
                    "key.separator": "\t", "null.literal": "-",
                    "key.deserializer": "org.apache.kafka.common.serialization.BytesDeserializer",
                    "value.deserializer": "org.apache.kafka.common.serialization.BytesDeserializer"}  # fmt: skip
        command = [*java_command(_CONSUMER, heap_mb=192), "--bootstrap-server", self.kafka.address, "--include", topics,
                   "--consumer-property", "metadata.max.age.ms=1000",
                   *(word for name, value in settings.items() for word in ("--property", f"{name}={value}")),
                   *(["--from-beginning"] if from_beginning else [])]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            try:
                yield self._records(process)
            finally:
                process.kill()

    def decode(self, data: bytes | None) -> Any:
        """A key or value: Avro with the registry's schema, or JSON; None where there is none."""
        if data is None:
            return None
        if data[:1] != b"\x00":
            return json.loads(data)
        schema_id = int.from_bytes(data[1:5], "big")
        if schema_id not in self._schemas:
            answer = httpx.get(f"{self.registry.address}/schemas/ids/{schema_id}", timeout=30)
            answer.raise_for_status()
            self._schemas[schema_id] = fastavro.parse_schema(json.loads(answer.json()["schema"]))
        return fastavro.schemaless_reader(io.BytesIO(data[5:]), self._schemas[schema_id], None)

    @staticmethod
    def _records(process: subprocess.Popen[bytes]) -> Iterator[Record]:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            now = time.time()
            written, partition, offset, key, value = line.rstrip(b"\n").split(b"\t")
            yield Record(
                partition=int(partition.removeprefix(b"Partition:")),
                offset=int(offset.removeprefix(b"Offset:")),
                written_ms=int(written.split(b":")[1]),
                read_s=now,
                key=_bytes(key),
                value=_bytes(value),
            )
        told = process.stderr.read().decode(errors="replace").strip()
        raise LakeError(f"the consumer has ended: {told[-600:]}", where="Kafka")


def _bytes(printed: bytes) -> bytes | None:
    """What Kafka's BytesDeserializer has printed with escapes."""
    return None if printed == b"-" else _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), printed)
