"""Lands cases side by side in one project, and says what differs from the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from decimal import Context, Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import DbtProject, new_project
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from registry_server import Served, serve

from deliveries import carriers
from deliveries.cases import LAYOUTS, Case
from deliveries.forms import Book, Record, key_schema, record_of, unknown_id, value_schema
from deliveries.history import File, Key, delivered
from deliveries.model import Expected, expected, expected_when_mended, mended
from deliveries.values import micros
from ingest.config.tables import Table
from ingest.decode import json_forms
from ingest.errors import WriteError
from ingest.landing.run import land
from ingest.landing.table import Landed
from ingest.operations.replay import replay
from ingest.silver import quarantine
from ingest.silver.state import Counts
from ingest.silver.table import SilverTable

Put = Callable[[Case, str, Sequence[Record], int], None]
# More digits than any column has: nothing is rounded.
_WIDE = Context(prec=80)
_COUNTED = ("applied", "superseded", "duplicate", "ignored", "quarantined")


@dataclass
class Stage:
    """Where cases are played: a session, a folder, and a registry."""

    spark: SparkSession
    where: Path
    book: Book
    registry: Served
    played: int = 0

    def project(self) -> DbtProject:
        """A project of its own for each time."""
        self.played += 1
        where = self.where / f"played_{self.played}"
        where.mkdir(parents=True)
        return new_project(where)


@contextmanager
def stage(spark: SparkSession, where: Path) -> Iterator[Stage]:
    """A stage with a registry that answers for as long as the block runs."""
    book = Book()
    with serve(book.schemas, global_ids=book.global_ids) as registry:
        yield Stage(spark, where, book, registry)


@dataclass
class _Played:
    """A case while it is played: its files, and what was found to differ."""

    case: Case
    topic: str
    files: Sequence[File]
    records: Mapping[tuple[int, int], Record]
    totals: Counts = field(default_factory=Counts)
    faults: list[str] = field(default_factory=list)
    kafka: Kafka | None = None

    def number(self, partition: int, offset: int) -> int:
        """Which record of its partition one with an offset is."""
        return self.kafka.offset_of(self.topic, partition, offset) if self.kafka else offset


def faults(on: Stage, cases: Sequence[Case], *, kafka: Kafka | None = None) -> dict[str, list[str]]:
    """Plays the cases side by side; what differs, by the case's name."""
    project = on.project()
    plays = []
    for case in cases:
        topic = f"{project.schema}.{case.name}" if kafka else f"shop.{case.name}"
        files = kafka.files(delivered(case)) if kafka else delivered(case)
        records = {event.at: record_of(case, event, topic, on.book) for file in files for event in file.events}
        plays.append(_Played(case, topic, files, records, kafka=kafka))
    _connect(on, project, kafka)
    _declare(project, plays)
    for play in plays if kafka else ():
        assert kafka is not None
        kafka.make(play.topic, play.case.partitions)
    for batch in sorted({file.batch for play in plays for file in play.files}):
        _land_batch(on, project, plays, batch, kafka)
    for play in plays:
        play.faults += _guarded(partial(_as_expected, on, project, play))
    _replay(on, project, plays)
    return {play.case.name: play.faults for play in plays}


class Kafka:
    """A broker in place of files: topics are made, records sent; offsets are as they come."""

    @property
    def address(self) -> str:
        """Where clients connect."""
        raise NotImplementedError

    @property
    def connection(self) -> dict[str, Any]:
        """The connection that leads there."""
        return {"type": "kafka", "bootstrap_servers": self.address}

    def offset_of(self, topic: str, partition: int, offset: int) -> int:
        """Which record of its partition has the offset: as many come before it."""
        return offset

    def make(self, topic: str, partitions: int) -> None:
        """Makes a topic."""
        raise NotImplementedError

    def send(self, topic: str, records: Sequence[Record]) -> None:
        """Writes records in order, and waits until they are there."""
        raise NotImplementedError

    @staticmethod
    def files(files: Sequence[File]) -> list[File]:
        """The files as records of a topic, which has no gaps, and nothing twice at one offset."""
        ends: dict[int, int] = {}
        sent = []
        for file in files:
            if file.again:
                continue
            events = []
            for event in file.events:
                offset = ends.get(event.partition, 0)
                ends[event.partition] = offset + 1
                events.append(replace(event, offset=offset))
            sent.append(replace(file, events=tuple(events)))
        return sent


# Declaring


def _connect(on: Stage, project: DbtProject, kafka: Kafka | None) -> None:
    where: dict[str, Any] = {"type": "files", "path": str(project.bronze)}
    if kafka:
        where = kafka.connection
    url = f"{on.registry.url}/apis/ccompat/v7"
    connections = {"plain": where, **{f"avro{width}": {**where, "registry": {"url": url, "id_bytes": width}}
                                      for width in (4, 8)}}  # fmt: skip
    (project.root / "connections.yml").write_text(yaml.safe_dump(connections), encoding="utf-8")


def _declare(project: DbtProject, plays: Sequence[_Played], are_mended: Collection[str] = ()) -> None:
    entries = [_entry(project, play, is_mended=play.case.name in are_mended) for play in plays]
    project.declare({"tables": entries})


def _entry(project: DbtProject, play: _Played, *, is_mended: bool) -> dict[str, Any]:
    """The table's entry of the sources file."""
    case = mended(play.case) if is_mended else play.case
    options: dict[str, Any] = {
        "connection": case.encoding if case.encoding in ("avro4", "avro8") else "plain",
        "topic": play.topic,
        "key": [] if case["keys"] == "none" else list(case.key_columns),
        "table_type": case["table_type"],
        "table_version": int(case["table_version"]),
        "partition_by": list(LAYOUTS[case["layout"]]),
        "quarantine_limit": {"share": 1.0},
    }
    orders = {"order_column": "version", "order_ts": "__source_ts_ms"}
    if case.is_ordered:
        options["order_by"] = [orders[case["database"]]]
    else:
        options["connector"] = case["database"]
        # Kinesis says no sequence number of DynamoDB's.
        options |= {"order_by": ["__source_ts_us"]} if case.encoding == "kinesis" else {}
    if case["truncate"] != "none":
        options["truncate"] = case["truncate"]
    if case.shares_its_topic:
        options |= {"table_include_list": ["shop[.]T", "other"], "tombstones": "ignore"}
    if case["deletes"] == "bare":
        options["tombstones"] = "delete"
    if case["placeholder"] != "usual":
        options["unavailable_value_placeholder"] = case.placeholder
    if case.encoding == "declared":
        schemas = {"schema_file": value_schema(case, play.topic)}
        if case["record_key"] == "struct":
            schemas["key_schema_file"] = key_schema(case, play.topic)
        for name, schema in schemas.items():
            project.write_models(json.dumps(schema), f"{case.name}_{name}.avsc")
            options[name] = f"models/{case.name}_{name}.avsc"
    types = {**case.key_columns, **case.columns}
    if is_mended and case["bad"] == "out_of_range" and case.encoding == "plain":
        types["n"] = "bigint"
    return {
        "name": case.name,
        "config": {"meta": {"ingest": options}},
        "columns": [{"name": name, "data_type": kind, **_column_options(case, kind)} for name, kind in types.items()],
    }


def _column_options(case: Case, kind: str) -> dict[str, Any]:
    """What only a declaration can say: JSON without a schema does not say how it holds a decimal."""
    if not kind.startswith("decimal") or case.encoding != "plain":
        return {}
    return {
        "config": {"meta": {"ingest": {"decimal": "number" if case["decimals"] in ("text", "number") else "base64"}}}
    }


# Landing


def _land_batch(on: Stage, project: DbtProject, plays: Sequence[_Played], batch: int, kafka: Kafka | None) -> None:
    fed = {}
    for play in plays:
        files = [file for file in play.files if file.batch == batch]
        for file in files:
            records = [play.records[event.at] for event in file.events]
            if kafka:
                kafka.send(play.topic, records)
            else:
                carriers.put(play.case, play.topic, project.bronze, records, file.again)
        if files:
            fed[play.case.name] = play
    groups: dict[str, list[str]] = {}
    for name, play in fed.items():
        trouble = play.case["trouble"]
        is_killed = trouble.startswith("killed") and batch == play.case.batches - 1
        groups.setdefault(trouble if is_killed or trouble == "large" else "none", []).append(name)
    for trouble, names in groups.items():
        for name, landed in _landed(on.spark, project, names, trouble).items():
            play = fed[name]
            told = _guarded(partial(_miscounted, on.spark, project, play, batch, landed, trouble))
            play.faults += [f"batch {batch}: {fault}" for fault in told]


def _landed(spark: SparkSession, project: DbtProject, names: Sequence[str], trouble: str) -> dict[str, Landed]:
    tables = project.source().choose(list(names))
    with pytest.MonkeyPatch.context() as patch:
        if trouble == "large":
            patch.setattr(json_forms, "_MANY", 0)
        if trouble.startswith("killed"):
            patch.setattr(SilverTable, "write", _broken_off(SilverTable.write, after=trouble == "killed_after"))
        found = land(spark, tables)
    if trouble.startswith("killed"):
        found = land(spark, tables)
    return {landed.table.name: landed for landed in found}


def _broken_off(write: Callable[..., None], *, after: bool) -> Callable[..., None]:
    """A write that ends as a process does that is killed: before it, or once it has committed."""

    def broken(*arguments: Any, **options: Any) -> None:
        if after:
            write(*arguments, **options)
        raise WriteError("the process was killed", where="a test")

    return broken


def _miscounted(
    spark: SparkSession, project: DbtProject, play: _Played, batch: int, landed: Landed, trouble: str
) -> Iterator[str]:
    """What is wrong with the counts of a batch, as its run and the table's commits have them."""
    if landed.error:
        yield f"the run failed: {landed.error.message}"
    state = project.silver(spark, play.case.name).state()
    totals = state.totals if state else Counts()
    now = {name: getattr(totals, name) - getattr(play.totals, name) for name in ("read", *_COUNTED)}
    play.totals = totals
    wanted = expected(play.case, play.files).batches[batch]
    for name, number in asdict(wanted).items():
        if number is not None and now[name] != number:
            yield f"{name} is {now[name]}, expected {number}: {now}"
    if now["read"] != sum(now[name] for name in _COUNTED):
        yield f"not conserved: {now}"
    if trouble != "killed_after" and landed.counts.read != wanted.read:
        yield f"the run read {landed.counts.read} of {wanted.read} records"


def _replay(on: Stage, project: DbtProject, plays: Sequence[_Played]) -> None:
    again = [play for play in plays if play.case["replay"] != "no" and not play.faults]
    if not again:
        return
    for play in again:
        if play.case["replay"] == "mended" and play.case["bad"] == "unknown_id":
            on.book.register_as(unknown_id(play.case), value_schema(play.case, play.topic))
    _declare(project, plays, {play.case.name for play in again if play.case["replay"] == "mended"})
    for table in project.source().choose([play.case.name for play in again]):
        (play,) = (play for play in again if play.case.name == table.name)
        told = f"replayed ({play.case['replay']})"
        play.faults += [f"{told}: {fault}" for fault in _guarded(partial(_replayed, on, project, play, table))]


def _replayed(on: Stage, project: DbtProject, play: _Played, table: Table) -> Iterator[str]:
    replay(on.spark, table)
    wanted = expected_when_mended if play.case["replay"] == "mended" else expected
    yield from _differences(on, project, play, wanted(play.case, play.files))


def _guarded(found: Callable[[], Iterator[str]]) -> list[str]:
    """The faults; a failure to look for them is one as well."""
    try:
        return list(found())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is of this case alone
        return [f"{type(error).__name__}: {str(error)[:600]}"]


# Comparing


def _as_expected(on: Stage, project: DbtProject, play: _Played) -> Iterator[str]:
    yield from _differences(on, project, play, expected(play.case, play.files))


def _differences(on: Stage, project: DbtProject, play: _Played, wanted: Expected) -> Iterator[str]:
    yield from _rows_that_differ(on.spark, project, play, wanted)
    yield from _quarantine_that_differs(on.spark, project, play, wanted)
    totals = project.state(on.spark, play.case.name).totals
    if totals.quarantined != len(wanted.quarantined):
        yield f"{totals.quarantined} events count as quarantined, expected {len(wanted.quarantined)}"
    if totals.read != sum(getattr(totals, name) for name in _COUNTED):
        yield f"totals are not conserved: {totals}"


def _rows_that_differ(spark: SparkSession, project: DbtProject, play: _Played, wanted: Expected) -> Iterator[str]:
    case = play.case
    (declared,) = project.source().choose([case.name])
    table = spark.table(declared.relation)
    yield from _types_that_differ(case, {column.name: column.data_type for column in declared.columns}, table.schema)
    shown = [
        F.unix_micros(name).alias(name) if kind == "timestamp" else F.col(name)
        for name, kind in {**case.key_columns, **case.columns}.items()
    ]
    found = table.select(*shown, "__deleted").collect()
    live: list[str] = []
    dead: dict[Any, Mapping[str, Any]] = {}
    for row in found:
        values = {name: _plain(row[name]) for name in case.columns}
        key = tuple(_plain(row[name]) for name in case.key_columns)
        if row["__deleted"] == "true":
            dead[key] = values
        else:
            live.append(_shown(key, values))
    due = [_shown(_meant_key(key), _due(case, row)) for key, row in wanted.rows]
    gone = {_meant_key(key): left for key, left in wanted.gone.items()}
    for text in sorted(set(live) - set(due)):
        yield f"silver has  {text}"
    for text in sorted(set(due) - set(live)):
        yield f"silver lacks {text}"
    if set(live) == set(due) and len(live) != len(due):
        yield f"silver has {len(live)} live rows, expected {len(due)}"
    if case["keys"] == "none":
        return
    # What a truncate removes of the batch that brought it never was in silver.
    missing = set() if case["truncate"] != "none" else gone.keys() - dead.keys()
    if missing or dead.keys() - gone.keys():
        yield f"tombstones are of {sorted(dead, key=repr)}, expected {sorted(gone, key=repr)}"
    for key, tombstone in dead.items():
        left = gone.get(key)
        due_left = None if left is None else _shown(key, _due(case, left))
        if due_left is not None and _shown(key, tombstone) != due_left:
            yield f"the tombstone is {_shown(key, tombstone)}, expected {due_left}"


def _types_that_differ(case: Case, declared: Mapping[str, T.DataType], found: T.StructType) -> Iterator[str]:
    for name, wanted in declared.items():
        # A wider decimal of a message widens silver's (schema_policy.widen).
        may_widen = case["decimals"] in ("scale_more", "money") and isinstance(wanted, T.DecimalType)
        if found[name].dataType != wanted and not may_widen:
            yield f"column {name} is of type {found[name].dataType.simpleString()}, expected {wanted.simpleString()}"


def _due(case: Case, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the model as silver has it."""
    return {name: _meant(row[name]) for name in case.columns}


def _meant_key(key: Key) -> Key:
    return tuple(map(_meant, key))


def _meant(value: Any) -> Any:
    return micros(value) if isinstance(value, datetime) else _plain(value)


def _plain(value: Any) -> Any:
    """A value as it is compared: exactly, but for the scale a decimal is written with."""
    if isinstance(value, Decimal):
        return value.normalize(_WIDE) if value else Decimal(0)
    return bytes(value) if isinstance(value, bytearray) else value


def _shown(key: Any, values: Mapping[str, Any]) -> str:
    """A row as text; long values by their length and their end."""
    parts = {name: repr(value) for name, value in values.items()}
    told = (
        f"{name}={text if len(text) < 400 else f'{len(text)} letters, {hash(text)}'}" for name, text in parts.items()
    )
    return f"{key}: {', '.join(told)}"


def _quarantine_that_differs(
    spark: SparkSession, project: DbtProject, play: _Played, wanted: Expected
) -> Iterator[str]:
    events = quarantine.events(spark, project.source())
    rows = [] if events is None else events.where(F.col("source_table") == play.case.name).collect()
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in (row.asDict() for row in rows):
        line = 0 if play.case["carrier"] == "parquet" else row["line"]
        number = play.number(row["partition"], row.get("offset", row["start_offset"] + line))
        found.setdefault((row["partition"], number), []).append(row)
    for at in sorted(wanted.quarantined.keys() | found.keys()):
        told = [f"{row.get('reason_code')}: {row['reason']}" for row in found.get(at, [])]
        if at not in wanted.quarantined:
            yield f"quarantined is {at}, which is well: {told}; {play.records[at].event if at in play.records else ''}"
        elif len(told) != 1:
            record = play.records[at]
            yield f"in the quarantine {len(told)} times: {at}, expected {set(wanted.quarantined[at])}, {record.value!r}"
        else:
            yield from _entry_that_differs(play, at, found[at][0], wanted.quarantined[at])


def _entry_that_differs(
    play: _Played, at: tuple[int, int], row: Mapping[str, Any], codes: frozenset[str]
) -> Iterator[str]:
    record = play.records[at]
    if row.get("reason_code") not in codes:
        yield f"{at} is quarantined as {row.get('reason_code')} ({row['reason']}), expected {set(codes)}"
    if row["topic"] != play.topic:
        yield f"{at} is quarantined of topic {row['topic']}, expected {play.topic}"
    raw = None if row["raw"] is None else bytes(row["raw"])
    if play.case.encoding == "objects":
        if not isinstance(json.loads(raw or b"0"), dict):
            yield f"{at} is quarantined with {raw!r}, expected the event as JSON"
    elif raw != record.value:
        yield f"{at} is quarantined with {raw!r}, expected {record.value!r}"
    key = row.get("record_key")
    if (None if key is None else bytes(key)) != record.key:
        yield f"{at} is quarantined with the key {key!r}, expected {record.key!r}"
