"""Files as Kafka Connect's sink leaves them, and the oracle and manifest beside them.

``<out>/bronze/<topic>/year=YYYY/month=MM/day=DD/<topic>+<partition>+<first offset, 10 digits>.avro|.json``, rotated
by number of records and by day of arrival (UTC). Every file is written under a hidden name and renamed when it is
complete.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from examples.generating.debezium import Form, avro_schema, encode, topic_of
from examples.generating.delivery import Delivery
from examples.generating.model import Table

_DAY_US: Final = 86_400_000_000
_DENSE: Final = (",", ":")
_AVRO_BLOCK: Final = 64_000  # bytes; the Java writer's default


@dataclass(frozen=True)
class Bronze:
    """A sink that writes one topic partition's records under ``<out>/bronze``."""

    out: Path
    form: Form
    flush_size: int

    def write(
        self,
        table: Table,
        deliveries: Sequence[Delivery],
        first_offset: int,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> tuple[Path, ...]:
        """Writes deliveries at contiguous offsets from ``first_offset`` on; returns the files."""
        topic = topic_of(table)
        files = []
        for start, batch in self._files(deliveries):
            day = datetime.fromtimestamp(batch[0].arrived_at_us // 1_000_000, tz=UTC)
            offset = first_offset + start
            suffix = "avro" if self.form == "avro" else "json"
            path = (
                self.out / "bronze" / topic / f"year={day:%Y}" / f"month={day:%m}" / f"day={day:%d}"
                / f"{topic}+0+{offset:010d}.{suffix}"
            )  # fmt: skip
            records = encode(self.form, [delivery.event for delivery in batch])
            write_whole(path, _avro(table, records, path.name) if self.form == "avro" else _json_lines(records))
            files.append(path)
            if progress is not None:
                progress(topic, start + len(batch), len(deliveries))
        return tuple(files)

    def _files(self, deliveries: Sequence[Delivery]) -> Iterator[tuple[int, Sequence[Delivery]]]:
        """Splits by day of arrival and by ``flush_size``; yields each part and the place of its first record."""
        start = 0
        for end in range(1, len(deliveries) + 1):
            if (
                end == len(deliveries)
                or end - start == self.flush_size
                or deliveries[end].arrived_at_us // _DAY_US != deliveries[start].arrived_at_us // _DAY_US
            ):
                yield start, deliveries[start:end]
                start = end


def oracle_file(out: Path, phase: str, table: str) -> Path:
    """Where the state of a table, ``<schema>.<table>``, after a phase stands."""
    return out / "oracle" / phase / f"{table}.parquet"


def write_oracle(out: Path, phase: str, state: Mapping[str, pa.Table]) -> tuple[Path, ...]:
    """Writes the state of every table after a phase, as Parquet; see :func:`oracle_file`."""
    files = []
    for name, rows in state.items():
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd")
        path = oracle_file(out, phase, name)
        write_whole(path, sink.getvalue())
        files.append(path)
    return tuple(files)


def write_whole(path: Path, content: bytes | pa.Buffer) -> None:
    """Writes a file so that it is never seen half written: under a hidden name beside it, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.part")
    hidden.write_bytes(content)
    hidden.replace(path)


def _avro(table: Table, records: Sequence[Mapping[str, Any]], name: str) -> bytes:
    """An Avro object container file without compression, as the sink's. The marker between blocks, random
    elsewhere, follows from the file's name, so that equal records make equal files."""
    content = io.BytesIO()
    fastavro.writer(
        content,
        fastavro.parse_schema(avro_schema(table)),
        records,
        codec="null",
        sync_interval=_AVRO_BLOCK,
        sync_marker=hashlib.md5(name.encode(), usedforsecurity=False).digest(),
    )
    return content.getvalue()


def _json_lines(records: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(r, separators=_DENSE, ensure_ascii=False) + "\n" for r in records).encode()
