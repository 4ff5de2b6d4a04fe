"""The files that events come in: JSON lines, Avro object files, records of Kafka in Parquet, and rows in Parquet."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deliveries.cases import Case
from deliveries.forms import Record
from deliveries.schemas import avro_file, parquet_file

_WRITTEN_AT = 1_700_000_000


def put(case: Case, topic: str, folder: Path, records: Sequence[Record], again: int) -> None:
    """Writes the records into the topic's folder. What comes once more is another file, by its time."""
    where = folder / topic
    where.mkdir(parents=True, exist_ok=True)
    if case["carrier"] == "parquet":
        _write(where / f"{_name(case, topic, records)}.parquet", _parquet(case, topic, records), again)
    elif case["carrier"] == "lines":
        name = f"{_name(case, topic, records)}.json"
        lines = [record.value if record.value is not None else b"null" for record in records]
        content = b"".join(line + b"\n" for line in lines)
        if case.seed % 2:
            name, content = f"{name}.gz", gzip.compress(content)
        _write(where / name, content, again)
    else:
        write, suffix = (avro_file, "avro") if case["carrier"] == "objects" else (parquet_file, "snappy.parquet")
        # A file has one schema.
        for _, group in groupby(records, key=lambda record: repr(record.schema)):
            alike = list(group)
            name = f"{_name(case, topic, alike)}.{suffix}"
            content = write(alike[0].schema, [record.row for record in alike if record.row is not None])
            _write(where / name, content, again)


def _name(case: Case, topic: str, records: Sequence[Record]) -> str:
    """The topic, the partition and the offset of the first record; the sink of HDFS adds that of the last one."""
    first, last = records[0].event, records[-1].event
    name = f"{topic}+{first.partition}+{first.offset:010d}"
    return f"{name}+{last.offset:010d}" if case["names"] == "hdfs" else name


def _write(path: Path, content: bytes, again: int) -> None:
    path.write_bytes(content)
    os.utime(path, (_WRITTEN_AT + again, _WRITTEN_AT + again))


def _parquet(case: Case, topic: str, records: Sequence[Record]) -> bytes:
    events = [record.event for record in records]
    columns = {
        "value": pa.array([record.value for record in records], pa.binary()),
        "topic": pa.array([topic] * len(records), pa.string()),
        "partition": pa.array([event.partition for event in events], pa.int32()),
        "offset": pa.array([event.offset for event in events], pa.int64()),
    }
    # Records without keys are of null keys, or the sink has left the column out.
    if case["record_key"] != "absent" or case.seed % 2:
        columns["key"] = pa.array([record.key for record in records], pa.binary())
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()
