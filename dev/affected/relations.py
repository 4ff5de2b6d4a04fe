"""What a changed row of a source table reaches, followed through the operators of a query.

A relation is what a part of a query gives. Beside its columns it has an `Effect` for each way in which a source table
comes into it: an occurrence of the table, or a window over one. An effect's pairs say which columns of the rows that a
changed row reaches hold a column of that row, as it is now or as it was.

Three answers are kept apart. A pair that needs nothing holds. One that needs an outer join's match (`#1`) does not hold
for the rows without it, unless a filter leaves none of these. One that needs anything else (a text) may hold: the query
does not tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Names = frozenset[str]
NONE: Names = frozenset()
ONE = "one row"  # among stable columns: there is one row, always
Kind = Literal["inner", "left", "right", "full"]
AGGREGATED = "an aggregate holds a row's own value only where its group is one row"
FILTERED = "a filter may leave only the rows that an outer join has matched"
UNEQUAL = "an outer join or a subquery compares by something other than the equality of two columns"
MULTIPLIED = "whether a join finds one row at most is not known"
BOTH_SIDES = "both sides of a join read the table"


@dataclass(frozen=True)
class Tie:
    """Two columns of a relation that are equal, nulls too, in each row where what is needed holds."""

    one: str
    other: str
    needs: Names = NONE


@dataclass(frozen=True)
class Pair:
    """A column of a relation that holds a column of the changed row, in each row reached where what is needed holds."""

    column: str
    of: str
    needs: Names = NONE


@dataclass(frozen=True)
class Effect:
    """One way in which changed rows of a source table reach the rows of a relation.

    Attributes
    ----------
    reads:
        By column of the relation, the columns of the table that its value depends on.
    rows:
        The columns of the table on which it depends which rows there are, and how often.
    repeats:
        The columns on which this depends besides, where a join may find more than one row for a row.
    stable:
        Columns whose combinations stay what they are, whatever changes: no row comes or goes, seen by these alone.
    steady:
        The combinations of `stable` stay as often as they are, too.
    doubts:
        Why more pairs may hold than were found.
    path:
        The views that lie between.
    """

    table: str
    pairs: frozenset[Pair]
    reads: Mapping[str, Names]
    rows: Names = NONE
    repeats: Names = NONE
    stable: Names = NONE
    steady: bool = False
    doubts: Names = NONE
    path: tuple[str, ...] = ()

    def read_by(self, columns: Iterable[str]) -> Names:
        """What some columns of the relation depend on."""
        return NONE.union(*(self.reads.get(column, NONE) for column in columns))

    def keeps(self, columns: Names) -> bool:
        """Whether some columns, none included, are stable."""
        return bool(self.stable) and columns <= self.stable


@dataclass(frozen=True)
class Relation:
    """What a part of a query gives.

    Attributes
    ----------
    nulls:
        By column, the outer joins without whose match it is null.
    unique:
        Sets of columns of which no two rows have the same values.
    merged:
        By two columns that an outer join compares, the column that `coalesce` of both is.
    ranks:
        By column that numbers the rows of a partition, the columns of the partition; each number is there once.
    """

    columns: Names
    effects: tuple[Effect, ...] = ()
    ties: frozenset[Tie] = frozenset()
    nulls: Mapping[str, Names] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    unique: frozenset[Names] = frozenset()
    merged: Mapping[Names, str] = field(default_factory=dict)
    ranks: Mapping[str, Names] = field(default_factory=dict)

    def is_one_row_per(self, columns: Names) -> bool:
        """Whether no two rows have the same values in some columns, or in columns that always equal these."""
        known = columns | {
            pair.column
            for pair in spread([Pair(column, "") for column in columns], self.ties)
            if not pair.needs
        }  # fmt: skip
        return any(key <= known for key in self.unique)


@dataclass(frozen=True)
class Item:
    """An expression: the columns in it, and the one that it equals if there are no doubts; its type if it is known."""

    name: str
    columns: Names = NONE
    plain: str | None = None
    doubts: Names = NONE
    type: str = ""


@dataclass(frozen=True)
class Condition:
    """What a filter or a join asks.

    Attributes
    ----------
    equal:
        Columns that must be equal; with what it needs.
    rejects:
        Columns that must not be null.
    ranked:
        Columns that must be 1.
    """

    columns: Names = NONE
    equal: tuple[Tie, ...] = ()
    rejects: Names = NONE
    ranked: Names = NONE


@dataclass(frozen=True)
class Window:
    """A window function: all columns in it, and its partition; None where a partition is by something else."""

    name: str
    columns: Names
    partition: tuple[Item, ...]
    is_row_number: bool = False


def spread(pairs: Iterable[Pair], ties: Iterable[Tie]) -> frozenset[Pair]:
    """The pairs, and those that hold because columns are equal; of two that differ in their needs alone, the lesser."""
    equal: dict[str, list[tuple[str, Names]]] = {}
    for tie in ties:
        equal.setdefault(tie.one, []).append((tie.other, tie.needs))
        equal.setdefault(tie.other, []).append((tie.one, tie.needs))
    found: dict[tuple[str, str], list[Names]] = {}
    waiting = list(pairs)
    while waiting:
        pair = waiting.pop()
        known = found.setdefault((pair.column, pair.of), [])
        if any(needs <= pair.needs for needs in known):
            continue
        known[:] = [needs for needs in known if not pair.needs <= needs] + [pair.needs]
        waiting += [Pair(other, pair.of, pair.needs | needs) for other, needs in equal.get(pair.column, [])]
    return frozenset(Pair(column, of, needs) for (column, of), known in found.items() for needs in known)
