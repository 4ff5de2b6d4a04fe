"""What a silver table knows of its source: the state that each commit of ingest holds, and the counts in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from ingest.errors import WriteError

STATE_KEY = "lake.state"
# Which rows have come to a partition by the commit (`ingest.silver.places`).
ARRIVALS_KEY, NONE_ARRIVED = "lake.arrivals", "[]"


@dataclass(frozen=True)
class Counts:
    """What became of the events of a run. Every event is counted once: `read` is the sum of the others."""

    read: int = 0
    applied: int = 0
    superseded: int = 0
    duplicate: int = 0
    ignored: int = 0
    quarantined: int = 0

    def __add__(self, other: Counts) -> Counts:
        mine, others = asdict(self), asdict(other)
        return Counts(**{name: mine[name] + others[name] for name in mine})

    def moved(self, number: int, source: str, to: str) -> Counts:
        """The counts with that many events counted under another name."""
        mine = asdict(self)
        return replace(self, **{source: mine[source] - number, to: mine[to] + number})

    def as_replayed(self, events: int) -> Counts:
        """What this run changes in the totals, where its events had been counted as quarantined before."""
        return replace(self, read=self.read - events, quarantined=self.quarantined - events)

    def require_conservation(self, *, where: str) -> None:
        """Raises WriteError where events are missing from the sum, or counted twice."""
        accounted = self.applied + self.superseded + self.duplicate + self.ignored + self.quarantined
        if accounted != self.read:
            raise WriteError(
                f"{self.read} events were read, {accounted} accounted for ({self})",
                where=where,
                expected="read = applied + superseded + duplicate + ignored + quarantined",
                action="nothing was written; this is a defect of ingest, please report it with the input",
            )


@dataclass(frozen=True)
class State:
    """What a silver table knows of its source, from its last commit by ingest.

    Attributes
    ----------
    position:
        The source's position, as the source wrote it.
    watermark:
        The greatest `__position` that was ever read; a change at or below it can be late.
    buckets:
        The number of buckets of each partition; None for a partitioned table that has a global index still
        (`TableOptions.index`).
    counts, totals:
        Of the last run, and of all runs.
    epoch:
        The declared epoch of the last run.
    epoch_begin:
        The source's position when that epoch began; '' in the first one, and in commits of older versions.
    truncated:
        The `__position` of the source's last truncate: changes before it are gone.
    truncated_ms:
        Its `__source_ts_ms`; None where there was none, and in commits of older versions.
    purged:
        The greatest `__position` of a tombstone that was removed for good.
    purged_ms:
        The greatest `__source_ts_ms` of these; None where it is not known of all.
    removals:
        How many times rows were removed for good, by `lake purge` or `lake erase`: increments of dbt compare it.
    unplaced:
        The greatest offset, in any partition of the epoch, of a change without a place in the log: a row that an
        incremental snapshot read, or a delete that is a bare tombstone.
    says_deletes:
        Whether events have said of rows if they are deleted, so that tombstones say nothing more.
    awaits_deletes:
        Whether bare tombstones that nothing explains were set aside, and may be replayed as deletes.
    columns:
        The columns of the source that silver has, by name, with their types; empty in commits of older versions.
    hashed:
        The columns of which silver has hashes, by name, with the fingerprint of the salt.
    erased:
        The fingerprints of the salts that keys were erased with, '' for none; empty where no key ever was
        (`ingest.operations.erase`).
    erased_ids:
        Which keys those are, by short hashes, or how many (`ingest.silver.erased_keys`); '' in commits of older
        versions.
    key, partition_by:
        What the rows are known by, and where they lie, as declared; None in commits of older versions.
    derived:
        The columns that silver derives from the key, by name, with how; None in commits of older versions.
    metadata:
        The columns of Debezium's metadata that silver has; None in commits of older versions.
    order:
        What the positions of the epoch are made of (`ingest.schema.connectors.Order`); '' in commits of older versions.
    told:
        The semantic types of key columns, by name, as schemas of events have told them: a record's key may have none.
    tables:
        The first and the last name of the source tables whose changes were landed (`ingest.landing.signs`).
    replayed:
        Of the last replay: the epoch of its events (None in rows of older versions), and up to when they had been set
        aside; None where there was none.
    has_history:
        Whether the batch was kept in the table's history; None in commits of older versions.
    history:
        The instant of the history's last commit before the batch's own; '' where none was kept, and in commits of older
        versions.
    quarantine:
        The instant of the quarantine's commit with the last events of the table that were set aside; '' where none
        were, where a position was set since, and in commits of older versions.
    counted:
        Of a commit that landed no events: the instant of the last one that did, '' in commits of older versions.
    instant:
        Hudi's instant of the commit (its completion time where the table's version records it).
    is_followed:
        Whether commits that hold no state have been made since: those of other writers, and compactions.
    """

    position: str
    watermark: str
    buckets: int | None
    counts: Counts
    totals: Counts
    epoch: int = 0
    epoch_begin: str = ""
    truncated: str = ""
    truncated_ms: int | None = None
    purged: str = ""
    purged_ms: int | None = None
    removals: int = 0
    unplaced: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    hashed: Mapping[str, str] = field(default_factory=dict)
    erased: tuple[str, ...] = ()
    erased_ids: str = ""
    says_deletes: bool = False
    awaits_deletes: bool = False
    key: tuple[str, ...] | None = None
    partition_by: tuple[str, ...] | None = None
    derived: Mapping[str, str] | None = None
    metadata: tuple[str, ...] | None = None
    order: str = ""
    told: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    has_history: bool | None = None
    history: str = ""
    quarantine: str = ""
    counted: str = ""
    replayed: tuple[int | None, str] | None = None
    instant: str = ""
    is_followed: bool = False

    @classmethod
    def none(cls, epoch: int) -> State:
        """Before the first commit."""
        return cls(position="", watermark="", buckets=None, counts=Counts(), totals=Counts(), epoch=epoch)

    @property
    def is_prepared(self) -> bool:
        """Whether the commit is that of a table made empty, before its first landing (`lake prepare`)."""
        return not self.position and self.counts == self.totals == Counts()

    @property
    def counted_until(self) -> str:
        """The instant up to which events in the quarantine are counted: younger ones are of a run that was killed."""
        return self.counted or self.instant

    def without_events(self, **changes: Any) -> State:
        """The state of a commit that lands no events, and counts none."""
        return replace(self, counts=Counts(), counted=self.counted_until, **changes)

    def after_removal(self, **changes: Any) -> State:
        """The state of a commit that removes rows for good, of which no tombstone tells."""
        return self.without_events(removals=self.removals + 1, **changes)

    def to_text(self) -> str:
        """The state as text for a commit's metadata."""
        content = asdict(self)
        del content["instant"], content["is_followed"]
        return json.dumps({"format": 1, **content}, separators=(",", ":"))

    def as_metadata(self) -> dict[str, str]:
        """The state as metadata of a Hudi commit."""
        return {STATE_KEY: self.to_text()}

    @classmethod
    def from_text(cls, text: str, instant: str) -> State:
        """The state that `to_text` wrote."""
        content: dict[str, Any] = json.loads(text)
        known = {each.name for each in fields(cls)} & content.keys()
        counted = {name: Counts(**content[name]) for name in ("counts", "totals")}
        erased = tuple(content.get("erased", ()))
        # Before tombstones could be deletes, they meant nothing.
        content.setdefault("says_deletes", True)
        for name in ("key", "partition_by", "metadata", "replayed", "tables"):
            if content.get(name) is not None:
                content[name] = tuple(content[name])
        known |= {"says_deletes"}
        return cls(**{**{name: content[name] for name in known}, **counted, "erased": erased, "instant": instant})
