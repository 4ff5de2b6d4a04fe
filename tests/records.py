"""Records of Kafka as a file that a connection of type files takes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq


def records_file(records: Sequence[tuple[bytes | None, bytes | None]], *, offset: int = 0) -> bytes:
    """Parquet with the columns that are read of records: key and value of each, of partition 0, from an offset on."""
    rows = {
        "key": pa.array([key for key, _ in records], pa.binary()),
        "value": pa.array([value for _, value in records], pa.binary()),
        "partition": pa.array([0] * len(records), pa.int32()),
        "offset": pa.array(range(offset, offset + len(records)), pa.int64()),
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(rows), sink)
    return bytes(sink.getvalue().to_pybytes())
