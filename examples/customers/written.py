"""The records of the table's stream, as files of what Lambda and GetRecords give, and the items they must lead to.

``<out>/bronze/test_cdc_cust/year=YYYY/month=MM/day=DD/test_cdc_cust+0+<first offset, 10 digits>.json``: a record a
line; the first file of the changes has whole batches instead, `{"Records": [...]}`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa

from examples.customers.changes import WORKED_EXAMPLE, Change, History, Item, history
from examples.generating.debezium import Form
from examples.generating.draw import require_seed, stream
from examples.generating.generate import (
    Phase,
    Progress,
    Summary,
    TopicSummary,
    earlier_phases,
    require_one_of,
    write_manifest,
)
from examples.generating.sink import oracle_file, write_oracle, write_whole
from examples.system import Demonstrated, StreamRecord
from ingest.errors import LakeError

STREAM: Final = "test_cdc_cust"
TABLE: Final = "customers.cust_hudi_f1"
_LAST_DAY: Final = date(2023, 10, 5)
_FLUSH_SIZE: Final = 500
_BATCH: Final = 10
_ITEMS: Final = pa.schema(
    [
        ("id", pa.string()),
        ("custName", pa.string()),
        ("email", pa.string()),
        ("registrationDate", pa.timestamp("us", tz="UTC")),
        ("expiresAt", pa.int64()),
    ]
)


@dataclass(frozen=True)
class StreamExample(Demonstrated):
    """The example of a DynamoDB table (see `examples.system.ExampleSystem`)."""

    def generate(
        self,
        to: Path,
        *,
        scale: float = 1.0,
        seed: int = 42,
        form: Form | None = None,
        phase: Phase = "all",
        ends: date | None = None,
        progress: Progress | None = None,
    ) -> Summary:
        """Writes the stream's records below `bronze/`, the items that they must lead to, and `manifest.json`.

        A second phase adds to the first; anything else needs its own folder.

        Raises
        ------
        LakeError
            Any form, for the stream's records have one alone; another phase; a scale or seed out of range; the folder
            holds what was made with other settings.
        """
        if form is not None:
            raise LakeError(
                f"form {form!r}",
                where="generate",
                expected="none: the records of a DynamoDB table's stream have one form",
                action="leave it out",
            )
        require_one_of("phase", phase, get_args(Phase))
        require_seed(seed, self.name)
        if not scale > 0:
            raise LakeError(f"scale is {scale}", where="generate", expected="a number above 0", action="give another")
        last_day = ends or _LAST_DAY
        lived = history(scale, seed, last_day)
        scale = float(scale)
        settings: dict[str, Any] = {"dataset": self.name, "seed": seed, "scale": scale, "ends": str(last_day)}
        earlier = earlier_phases(to, settings)
        # Before any record: a run that breaks off leaves its settings behind.
        write_manifest(to, settings, earlier)
        done: list[TopicSummary] = []
        if phase != "changes":
            write_oracle(to, "snapshot", {TABLE: _rows(lived.items(after_changes=False).values())})
            files = _written(to, lived.inserts, 0, progress)
            done.append(_summary("snapshot", lived.inserts, lived.inserts, 0, files=files))
        if phase != "snapshot":
            write_oracle(to, "changes", {TABLE: _rows(lived.items(after_changes=True).values())})
            delivered, late = _delivered(lived.changes, stream(seed, 701))
            files = _written(to, delivered, len(lived.inserts), progress, batches=1)
            done.append(_summary("changes", lived.changes, delivered, len(lived.inserts), files=files, late=late))
        write_manifest(to, settings, [*earlier, *map(asdict, done)])
        return Summary(self.name, seed, scale, None, phase, tuple(done))

    @property
    def stream(self) -> str:
        """The stream that the table's changes go into."""
        return STREAM

    def records(self, *, scale: float, seed: int, phase: Phase) -> Iterator[StreamRecord]:
        """The same changes as records of Kinesis Data Streams for DynamoDB, in the order of their arrival in files."""
        lived = history(scale, seed, _LAST_DAY)
        at_us = dict(_created(lived))
        delivered = [] if phase == "changes" else list(lived.inserts)
        if phase != "snapshot":
            delivered += _delivered(lived.changes, stream(seed, 701))[0]
        for change in delivered:
            record = kinesis_record_of(change, at_us[change.sequence])
            yield StreamRecord(change.id, json.dumps(record, ensure_ascii=False).encode())

    def expected(self, to: Path, phase: Phase) -> Mapping[str, Path]:
        """The file with the items as they must be after a phase."""
        return {TABLE: oracle_file(to, "changes" if phase == "all" else phase, TABLE)}


def record_of(change: Change, *, view: str = "NEW_AND_OLD_IMAGES") -> dict[str, Any]:
    """A change as a record of DynamoDB Streams with that view of the items.

    Source: the DynamoDB API Reference, "Record" of DynamoDB Streams.
    """
    name = "REMOVE" if change.after is None else "INSERT" if change.before is None else "MODIFY"
    images = {"NewImage": change.after, "OldImage": change.before}
    held = {"KEYS_ONLY": (), "NEW_IMAGE": ("NewImage",), "OLD_IMAGE": ("OldImage",)}.get(view, tuple(images))
    record: dict[str, Any] = {
        "eventID": f"{change.sequence:032x}"[-32:],
        "eventName": name,
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            "ApproximateCreationDateTime": change.at_ms // 1000,
            "Keys": _image({"id": change.id}),
            **{of: _image(item) for of, item in images.items() if of in held and item is not None},
            "SequenceNumber": str(change.sequence),
            "SizeBytes": 100,
            "StreamViewType": view,
        },
        "eventSourceARN": "arn:aws:dynamodb:us-east-1:111122223333:table/cust/stream/2023-01-01T00:00:00.000",
    }
    if change.is_ttl:
        record["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    return record


def kinesis_record_of(change: Change, at_us: int) -> dict[str, Any]:
    """A change as a record of Kinesis Data Streams for DynamoDB: both images, no sequence number, no view type.

    Source: the DynamoDB Developer Guide, "Using Kinesis Data Streams to capture changes to DynamoDB".
    """
    record = record_of(change)
    told = {name: record["dynamodb"][name] for name in ("Keys", "NewImage", "OldImage", "SizeBytes")
            if name in record["dynamodb"]}  # fmt: skip
    return {
        "awsRegion": record["awsRegion"],
        "eventID": record["eventID"],
        "eventName": record["eventName"],
        "userIdentity": record.get("userIdentity"),
        "recordFormat": "application/json",
        "tableName": "cust",
        "dynamodb": {
            "ApproximateCreationDateTime": at_us,
            "ApproximateCreationDateTimePrecision": "MICROSECOND",
            **told,
        },
        "eventSource": "aws:dynamodb",
    }


def _created(lived: History) -> Iterator[tuple[int, int]]:
    """When each change was made, in microseconds that grow with the sequence numbers, by these."""
    at_us = 0
    for change in (*lived.inserts, *lived.changes):
        at_us = max(at_us + 1, 1_000 * change.at_ms)
        yield change.sequence, at_us


def _image(item: Item) -> dict[str, dict[str, str]]:
    return {name: {"N" if isinstance(value, int) else "S": str(value)} for name, value in item.items()}


def _rows(items: Iterator[Item] | Any) -> pa.Table:
    rows = [
        {**item, "registrationDate": datetime.fromisoformat(str(item["registrationDate"])).replace(tzinfo=UTC)}
        for item in items
    ]
    return pa.Table.from_pylist(rows, schema=_ITEMS)


def _delivered(changes: Sequence[Change], rng: np.random.Generator) -> tuple[list[Change], int]:
    """The changes as they arrive: some behind a newer change of their item, some twice; and how many are late.

    Of the items with several changes every second has the first two in turned order; that of the worked example has its
    two updates so.
    """
    arrived = list(changes)
    by_id: dict[str, list[int]] = {}
    for place, change in enumerate(changes):
        by_id.setdefault(change.id, []).append(place)
    late = 0
    turned = {name: each[:2] for number, (name, each) in enumerate(by_id.items()) if len(each) > 1 and number % 2 == 0}
    # Those between the insert and the delete.
    turned[WORKED_EXAMPLE] = by_id[WORKED_EXAMPLE][1:3]
    for first, second in turned.values():
        arrived[first], arrived[second] = arrived[second], arrived[first]
        late += 1
    again = sorted(rng.integers(0, len(arrived), max(2, len(arrived) // 100)).tolist())
    for number, place in enumerate(again):
        arrived.insert(min(len(arrived), place + number + 3), arrived[place + number])
    return arrived, late


def _written(
    out: Path, delivered: Sequence[Change], first_offset: int, progress: Progress | None, *, batches: int = 0
) -> int:
    """Writes the records, of which the first so many files hold batches; the number of files."""
    files = 0
    for start in range(0, len(delivered), _FLUSH_SIZE):
        part = delivered[start : start + _FLUSH_SIZE]
        day = datetime.fromtimestamp(part[0].at_ms / 1000, UTC)
        name = f"{STREAM}+0+{first_offset + start:010d}.json"
        path = out / "bronze" / STREAM / f"year={day:%Y}" / f"month={day:%m}" / f"day={day:%d}" / name
        write_whole(path, "".join(_lines(part, in_batches=files < batches)).encode())
        files += 1
        if progress is not None:
            progress(STREAM, start + len(part), len(delivered))
    return files


def _summary(
    phase: Phase,
    changes: Sequence[Change],
    delivered: Sequence[Change],
    first_offset: int,
    *,
    files: int,
    late: int = 0,
) -> TopicSummary:
    operations = Counter("d" if each.after is None else "c" if each.before is None else "u" for each in delivered)
    return TopicSummary(
        topic=STREAM,
        phase=phase,
        first_offset=first_offset,
        records=len(delivered),
        events=len(changes),
        operations=dict(sorted(operations.items())),
        late=late,
        repeated=len(delivered) - len(changes),
        files=files,
    )


def _lines(changes: Sequence[Change], *, in_batches: bool) -> Iterator[str]:
    records = [record_of(change) for change in changes]
    told: list[Any] = records
    if in_batches:
        told = [{"Records": records[at : at + _BATCH]} for at in range(0, len(records), _BATCH)]
    for each in told:
        yield json.dumps(each, separators=(",", ":"), ensure_ascii=False) + "\n"
