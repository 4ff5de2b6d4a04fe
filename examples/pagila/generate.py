"""Pagila as a system to play: its snapshot and its changes as files of envelopes, and the tables that they lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final, get_args

import pyarrow as pa

from examples.generating.debezium import Form
from examples.generating.draw import stream
from examples.generating.generate import (
    Phase,
    Progress,
    Summary,
    TopicSummary,
    earlier_phases,
    require_one_of,
    write_manifest,
)
from examples.generating.sink import oracle_file, write_oracle
from examples.pagila.changes import SNAPSHOT_AT, Database, changed
from examples.pagila.events import Delivery, Event, deliver, read_log, read_snapshot
from examples.pagila.files import FORMS, write
from examples.pagila.rows import snapshot
from examples.pagila.tables import TABLES, Row, Table
from examples.system import Demonstrated

_LAST_DAY: Final = SNAPSHOT_AT.date()
_STREAM: Final = 502


@dataclass(frozen=True)
class Pagila(Demonstrated):
    """An :class:`examples.system.ExampleSystem` of six tables in PostgreSQL."""

    def generate(
        self,
        to: Path,
        *,
        scale: float = 1.0,
        seed: int = 42,
        form: Form = "parquet",
        phase: Phase = "all",
        ends: date | None = None,
        progress: Progress | None = None,
    ) -> Summary:
        """Writes envelopes, and the states that they lead to. Same arguments, same bytes.

        Parameters
        ----------
        form:
            `parquet`, as the article's sink writes it, or `envelope`: lines of JSON.
        ends:
            The day of all events; the times in the rows stay.

        Raises
        ------
        LakeError
            Another form or phase; the folder holds what was made with other settings.
        """
        require_one_of("form", form, FORMS)
        require_one_of("phase", phase, get_args(Phase))
        settings: dict[str, Any] = {"dataset": self.name, "seed": seed, "scale": float(scale), "form": form,
                                    "ends": str(ends or _LAST_DAY)}  # fmt: skip
        earlier = earlier_phases(to, settings)
        write_manifest(to, settings, earlier)
        shift = timedelta(days=((ends or _LAST_DAY) - _LAST_DAY).days)
        rows = snapshot(scale, seed)
        of_snapshot = {table.name: read_snapshot(table, rows[table.name], shift) for table in TABLES}
        done: list[TopicSummary] = []
        if phase != "changes":
            arrivals = {name: [Delivery(event, "on_time") for event in found] for name, found in of_snapshot.items()}
            done += _written(to, form, "snapshot", arrivals, dict.fromkeys(rows, 0), progress)
            write_oracle(to, "snapshot", _state(Database.of(rows)))
        if phase != "snapshot":
            database = changed(rows, scale, seed)
            events: dict[str, list[Event]] = {table.name: [] for table in TABLES}
            for event in read_log(database.transactions, shift):
                events[event.table.name].append(event)
            arrivals = {
                name: deliver(found, of_snapshot[name], stream(seed, _STREAM, number))
                for number, (name, found) in enumerate(events.items())
            }
            done += _written(
                to, form, "changes", arrivals, {name: len(found) for name, found in rows.items()}, progress
            )
            write_oracle(to, "changes", _state(database))
        write_manifest(to, settings, [*earlier, *map(asdict, done)])
        return Summary(self.name, seed, scale, form, phase, tuple(done))

    def expected(self, to: Path, phase: Phase) -> Mapping[str, Path]:
        """Files with the tables as they must be after a phase, by `<schema>.<table>`."""
        after = "changes" if phase == "all" else phase
        return {table.full_name: oracle_file(to, after, table.full_name) for table in TABLES}


def _state(database: Database) -> dict[str, pa.Table]:
    return {table.full_name: _as_arrow(table, database.rows(table)) for table in TABLES}


def _as_arrow(table: Table, rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], schema=table.arrow_schema)


def _written(
    to: Path,
    form: Form,
    phase: Phase,
    arrivals: Mapping[str, Sequence[Delivery]],
    first_offsets: Mapping[str, int],
    progress: Progress | None,
) -> list[TopicSummary]:
    done = []
    for table in TABLES:
        delivered, first = arrivals[table.name], first_offsets[table.name]
        files = write(to, form, table, [delivery.event for delivery in delivered], first)
        if progress is not None:
            progress(table.topic, len(delivered), len(delivered))
        done.append(TopicSummary.of(table.topic, phase, first, delivered, len(files)))
    return done
