"""A case's events as the records of a DynamoDB table's stream: of DynamoDB Streams, or of Kinesis."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from deliveries.cases import Case
from deliveries.history import Event
from deliveries.schemas import STRING, text_of
from deliveries.values import written

_EVENTS = {"c": "INSERT", "u": "MODIFY", "d": "REMOVE", "bad": "INSERT"}
# From 21 digits to 22: as texts they would sort the other way round.
_FIRST_NUMBER = 10**21 - 12
_CREATED_US = 1_700_000_000_000_000


def stream_record(case: Case, event: Event) -> str:
    """The event as a record of the case's stream."""
    bad = case["bad"] if event.kind == "bad" else ""
    names = list(case.key_columns)
    keys = _image(dict(zip(names, event.key or (None,) * len(names), strict=True)), case)
    images = {"NewImage": None if event.kind == "d" else event.row, "OldImage": event.before}
    told = {name: {**keys, **_image(row, case)} for name, row in images.items() if row is not None}
    change = {"Keys": keys, **told, "SizeBytes": 1}
    if event.place is not None:
        change |= _place(case, event)
    record = {"eventID": str(event.number), "eventName": "UPSERT" if bad == "unknown_op" else _EVENTS[event.kind],
              "awsRegion": "eu-west-1", "eventSource": "aws:dynamodb", "tableName": "shop",
              "userIdentity": None, "dynamodb": change}  # fmt: skip
    return text_of(record)


def _place(case: Case, event: Event) -> dict[str, Any]:
    assert event.place is not None
    place = 2 * event.place + event.serial
    if case.encoding == "kinesis":
        return {"ApproximateCreationDateTime": _CREATED_US + place,
                "ApproximateCreationDateTimePrecision": "MICROSECOND"}  # fmt: skip
    return {"SequenceNumber": str(_FIRST_NUMBER + place), "ApproximateCreationDateTime": _CREATED_US // 1_000_000,
            "StreamViewType": "NEW_AND_OLD_IMAGES"}  # fmt: skip


def _image(row: Mapping[str, Any], case: Case) -> dict[str, Any]:
    """An item's attributes; one that is null is left out, or says so."""
    types = {**case.key_columns, **case.columns}
    known = {name: value for name, value in row.items() if name in types}
    return {name: _attribute(value, types[name]) for name, value in known.items()
            if value is not None or case.seed % 2 or name in case.key_columns}  # fmt: skip


def _attribute(value: Any, data_type: str) -> dict[str, Any]:
    if isinstance(value, list):
        items = data_type.removeprefix("array<").removesuffix(">")
        return {"L": [_attribute(item, items) for item in value]}
    if isinstance(value, float) and not math.isfinite(value):
        # No number of DynamoDB's is one of these: an application writes them as texts.
        return {"S": {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]}
    kind, told = _WRITTEN[type(value)]
    return {kind: told(value)}


_WRITTEN: Mapping[type, tuple[str, Callable[[Any], Any]]] = {
    type(None): ("NULL", lambda _: True),
    bool: ("BOOL", bool),
    bytes: ("B", lambda data: base64.b64encode(data).decode()),
    datetime: ("S", partial(written, STRING)),
    date: ("S", lambda day: f"{day.year:04d}-{day:%m-%d}"),
    str: ("S", str),
    int: ("N", repr),
    float: ("N", repr),
    Decimal: ("N", lambda number: f"{number:f}"),
}
