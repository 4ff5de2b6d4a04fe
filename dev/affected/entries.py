"""The entries of `meta.affected_by`: those that a model's query implies, and what is wrong with those that are written.

An entry covers an effect where its `by` is among the pairs that hold: fewer pairs reach more rows. Where rows come or
go by an effect, only an entry by the whole unique key finds them. What an effect reads may stand in several entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dev.affected.expressions import UnknownQueryError
from dev.affected.queries import Reader
from dev.affected.relations import BOTH_SIDES, MULTIPLIED, NONE, Effect, Names


@dataclass(frozen=True)
class Entry:
    """One entry: `by` maps columns of the model to those of the source table; `reads` is None where all count."""

    source: str
    by: tuple[tuple[str, str], ...]
    reads: tuple[str, ...] | None = None

    @property
    def counts(self) -> Names | None:
        """The source's columns whose change counts; None where every change does."""
        return None if self.reads is None else frozenset(self.reads) | {of for _, of in self.by}

    def __str__(self) -> str:
        """As it is written in a model's config."""
        by = ", ".join(f"'{column}': '{of}'" for column, of in self.by)
        reads = ", ".join(f"'{column}'" for column in self.reads or ())
        return f"{{'source': '{self.source}', 'by': {{{by}}}" + (f", 'reads': [{reads}]}}" if reads else "}")


@dataclass(frozen=True)
class Declared:
    """A source table as it is declared: its columns and its key."""

    columns: tuple[str, ...]
    key: Names = NONE


@dataclass(frozen=True)
class Findings:
    """What is to be said of a model.

    Attributes
    ----------
    proposed:
        The entries that its query implies.
    left_out:
        By source table that no entry can be right for, why.
    wrong:
        What is proven to be wrong with what is written.
    unsure:
        What cannot be told, and why.
    """

    proposed: tuple[Entry, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()


def find(
    query: str, unique_key: Sequence[str], written: Any, reader: Reader, sources: Mapping[str, Declared]
) -> Findings:
    """What a model's query implies, compared with what is written.

    Parameters
    ----------
    written:
        `meta.affected_by` as it is, or None.
    sources:
        The declared source tables, by `<source>.<table>`.
    """
    try:
        columns = reader.names(query)
        relation = reader.read(query)
    except UnknownQueryError as error:
        return underived(written, sources, str(error))
    key = frozenset(column.lower() for column in unique_key)
    entries, wrong = checked(written, sources, columns)
    if key - set(columns):
        wrong.append(f"unique_key {', '.join(sorted(key - set(columns)))}: expected one of {', '.join(columns)}")
    # Of rows that differ by their key, how often they come says nothing.
    effects = [effect for effect in relation.effects if not frozenset(columns) <= effect.stable]
    proposed, left_out = propose(effects, key, columns, sources)
    unsure: list[str] = []
    if not wrong:
        for effect in effects:
            own = [entry for entry in entries if entry.source == effect.table]
            if own and (told := missing(effect, own, key, columns, sources)):
                (wrong if told[0] else unsure).append(told[1])
    return Findings(tuple(proposed), left_out, tuple(dict.fromkeys(wrong)), tuple(dict.fromkeys(unsure)))


def underived(written: Any, sources: Mapping[str, Declared], reason: str) -> Findings:
    """What is found of entries whose model's query says nothing, for a reason: the names that are not known."""
    return Findings(wrong=tuple(checked(written, sources, None)[1]), unsure=(f"nothing is derived: {reason}",))


def checked(
    written: Any, sources: Mapping[str, Declared], columns: Sequence[str] | None
) -> tuple[list[Entry], list[str]]:
    """The written entries whose names are known, in lower case; and what is wrong with the others."""
    entries, wrong = [], []
    for each in written or []:
        shaped = isinstance(each, Mapping) and isinstance(each.get("by"), Mapping) and each["by"]
        reads = each.get("reads", []) if shaped else []
        if not shaped or not isinstance(reads, list) or set(each) - {"source", "by", "reads"} or "source" not in each:
            wrong.append(
                f"got {each}, expected {{source: <source>.<table>, "
                "by: {<column of the model>: <column of the table>}}, with reads: [<column of the table>] or without"
            )
            continue
        source = str(each["source"])
        if source not in sources:
            wrong.append(f"got source '{source}', expected one of {', '.join(sorted(sources))}")
            continue
        known = [name.lower() for name in sources[source].columns]
        unknown = [name for name in [*each["by"].values(), *reads] if str(name).lower() not in known]
        wrong += [f"got column '{name}' of {source}, expected one of {', '.join(known)}" for name in unknown]
        foreign = [name for name in each["by"] if columns is not None and str(name).lower() not in columns]
        wrong += [f"got column '{name}' of the model, expected one of {', '.join(columns or ())}" for name in foreign]
        if not unknown and not foreign:
            by = tuple((str(one).lower(), str(of).lower()) for one, of in each["by"].items())
            entries.append(Entry(source, by, tuple(str(name).lower() for name in reads) if reads else None))
    return entries, wrong


def read_of(effect: Effect) -> Names:
    """What the rows that are reached look at, or may; not that a row is deleted: rows that come and go count always."""
    return effect.rows.union(effect.repeats, *effect.reads.values()) - {"__deleted"}


def brings(effect: Effect, key: Names) -> bool:
    """Whether keys come or go by an effect."""
    return not key <= effect.stable


def certain(effect: Effect) -> set[tuple[str, str]]:
    """The pairs that hold."""
    return {(pair.column, pair.of) for pair in effect.pairs if not pair.needs}


def possible(effect: Effect) -> dict[tuple[str, str], Names]:
    """The pairs that may hold, and what they need; those that lack a row's match alone do not."""
    found: dict[tuple[str, str], Names] = {}
    for pair in effect.pairs:
        if not any(need.startswith("#") for need in pair.needs):
            found.setdefault((pair.column, pair.of), pair.needs)
    return found


def _path(effect: Effect) -> str:
    return f" (through {', '.join(effect.path)})" if effect.path else ""


def missing(
    effect: Effect, entries: Sequence[Entry], key: Names, columns: Sequence[str], sources: Mapping[str, Declared]
) -> tuple[bool, str] | None:
    """What the written entries lack for an effect, and whether that is proven; None where they lack nothing."""
    comes = brings(effect, key)
    fitting = [entry for entry in entries if not comes or {column for column, _ in entry.by} == key]
    sure = certain(effect)
    covering = [entry for entry in fitting if set(entry.by) <= sure]
    lacking = _uncounted(effect, covering)
    if lacking == NONE:
        return None
    may = possible(effect)
    likely = [entry for entry in fitting if set(entry.by) <= may.keys()]
    reasons = set(effect.doubts) - (NONE if comes else {BOTH_SIDES})
    if lacking is not None and lacking <= effect.repeats - effect.rows.union(*effect.reads.values()):
        reasons.add(MULTIPLIED)
    if _uncounted(effect, likely) == NONE:
        reasons |= {need for entry in likely for pair in entry.by for need in may[pair]}
    return not reasons, _told(effect, lacking, comes, key, columns, sources) + (
        f"; cannot tell: {'; '.join(sorted(reasons))}" if reasons else ""
    )


def _uncounted(effect: Effect, entries: Sequence[Entry]) -> Names | None:
    """The columns an effect reads whose change no entry counts; None where there is no entry."""
    if not entries:
        return None
    if any(entry.counts is None for entry in entries):
        return NONE
    return read_of(effect).difference(*(entry.counts or NONE for entry in entries))


def _told(
    effect: Effect,
    lacking: Names | None,
    comes: bool,
    key: Names,
    columns: Sequence[str],
    sources: Mapping[str, Declared],
) -> str:
    needed, why = entry_for(effect, key, columns, sources)
    reached = f"{effect.table}{_path(effect)}"
    if lacking is not None:
        undeclared = lacking - {name.lower() for name in sources[effect.table].columns}
        names = ", ".join(sorted(lacking))
        advice = f"; {', '.join(sorted(undeclared))} cannot be named: leave reads out" if undeclared else ""
        return f"{reached}: reads lacks {names}{advice}"
    if needed is None:
        return f"{reached}: {why}: leave the table out, so that its changes compare the whole table"
    rows = (
        "rows come or go by it, and no entry by the whole unique key is right"
        if comes
        else "no entry reaches all that it changes"
    )
    return f"{reached}: {rows}; expected {needed}"


def entry_for(
    effect: Effect, key: Names, columns: Sequence[str], sources: Mapping[str, Declared]
) -> tuple[Entry | None, str]:
    """The entry that an effect implies; or why there is none."""
    order = list(columns)
    sure = sorted(certain(effect), key=lambda pair: (pair[0] != pair[1], order.index(pair[0])))
    declared = sources[effect.table]
    sure = [pair for pair in sure if pair[1] in {name.lower() for name in declared.columns}]
    own_key = frozenset(name.lower() for name in declared.key)
    whole = [next((pair for pair in sure if pair[0] == column), None) for column in order if column in key]
    doubts = "; ".join(sorted(effect.doubts))
    if None not in whole:
        by = [pair for pair in whole if pair is not None]
    elif brings(effect, key):
        return None, doubts or "new rows may come by it, and their unique key is not in it"
    else:
        wanted = own_key if own_key and own_key <= {of for _, of in sure} else frozenset(of for _, of in sure)
        by = [next(pair for pair in sure if pair[1] == of) for of in sorted(wanted)]
        by.sort(key=lambda pair: order.index(pair[0]))
    if not by:
        return None, doubts or "which rows it reaches, no column of the model tells"
    reads = read_of(effect) - {of for _, of in by}
    looks_beyond = not {of for _, of in by} <= own_key
    is_named = reads and reads <= {name.lower() for name in declared.columns} and looks_beyond
    listed = [name.lower() for name in declared.columns if name.lower() in reads]
    return Entry(effect.table, tuple(by), tuple(listed) if is_named else None), ""


def propose(
    effects: Iterable[Effect], key: Names, columns: Sequence[str], sources: Mapping[str, Declared]
) -> tuple[list[Entry], dict[str, str]]:
    """The entries that a model's effects imply, those by the whole key first; and the tables that none is right for."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Entry] = {}
    left_out: dict[str, str] = {}
    for effect in sorted(effects, key=lambda each: (each.table, not brings(each, key))):
        entry, why = entry_for(effect, key, columns, sources)
        if entry is None:
            left_out.setdefault(effect.table, why + _path(effect))
            continue
        before = found.get((entry.source, entry.by))
        if before is not None:
            listed = (before.reads, entry.reads)
            named = [name.lower() for name in sources[entry.source].columns]
            both = [name for name in named if any(name in each for each in listed if each is not None)]
            reads = None if None in listed else tuple(both)
            entry = Entry(entry.source, entry.by, reads)
        found[entry.source, entry.by] = entry
    entries = [entry for entry in found.values() if entry.source not in left_out]
    entries.sort(key=lambda entry: ({column for column, _ in entry.by} != key, entry.source, entry.reads is not None))
    return entries, left_out
