"""Covering arrays: few combinations of many dimensions, in which every two values that may meet do meet.

Most faults need one value of one dimension, or two of two: a set of cases with every pair finds them in some hundreds
of cases, where all combinations would be millions. The algorithm is greedy, as AETG's: a row begins with a pair that
no row has yet, and each further value is the one that brings the most new pairs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from typing import Any

Row = dict[str, str]
Pair = tuple[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True)
class Rule:
    """What values may stand together: a predicate of some dimensions, by name; asked once all of them have a value."""

    of: tuple[str, ...]
    allows: Callable[..., bool]


@dataclass(frozen=True)
class Space:
    """The dimensions with their values, the simplest first, and what may not stand together."""

    dimensions: Mapping[str, Sequence[str]]
    rules: Sequence[Rule] = ()
    _known: dict[frozenset[tuple[str, str]], bool] = field(default_factory=dict, repr=False, compare=False)
    _answers: dict[tuple[Any, ...], bool] = field(default_factory=dict, repr=False, compare=False)

    def allows(self, row: Mapping[str, str]) -> bool:
        """Whether nothing forbids what has been chosen so far."""
        return all(
            rule.allows(*(row[name] for name in rule.of)) for rule in self.rules if all(name in row for name in rule.of)
        )

    def completed(self, row: Mapping[str, str]) -> Row | None:
        """The row with a value of every dimension, the simplest that go with it; None where none is allowed."""
        found = dict(row)
        if not self.is_possible(found):
            return None
        for name, values in self.dimensions.items():
            if name not in found:
                found[name] = next(value for value in values if self.is_possible({**found, name: value}))
        return {name: found[name] for name in self.dimensions}

    def is_possible(self, row: Mapping[str, str]) -> bool:
        """Whether the row can be completed. Only dimensions that some rule names can keep it from that."""
        chosen = frozenset((name, value) for name, value in row.items() if name in self._rules_of)
        if chosen not in self._known:
            self._known[chosen] = self.allows(row) and self._has_completion(dict(chosen))
        return self._known[chosen]

    def pairs(self) -> set[Pair]:
        """Every two values of two dimensions that some allowed row has."""
        return {
            ((one, first), (other, second))
            for one, other in combinations(self.dimensions, 2)
            for first in self.dimensions[one]
            for second in self.dimensions[other]
            if self.is_possible({one: first, other: second})
        }

    @cached_property
    def _rules_of(self) -> Mapping[str, Sequence[Rule]]:
        return {name: rules for name in self.dimensions if (rules := [rule for rule in self.rules if name in rule.of])}

    def _has_completion(self, row: Row) -> bool:
        """Looks for one. The dimensions of the rule that lacks the fewest come first: what cannot be is found soon."""
        left = {name: values for name, values in self._left(row, self._rules_of) if name not in row}
        return self._search(row, left)

    def _search(self, row: Row, left: Mapping[str, Sequence[str]]) -> bool:
        if not left:
            return True

        def urgency(name: str) -> tuple[int, int]:
            return min(self._lacks(rule, row) for rule in self._rules_of[name]), len(left[name])

        name = min(left, key=urgency)
        for value in left[name]:
            further = {**row, name: value}
            touched = {item for rule in self._rules_of[name] for item in rule.of if item in left and item != name}
            narrowed = {**left, **dict(self._left(further, touched))}
            del narrowed[name]
            if all(narrowed.values()) and self._search(further, narrowed):
                return True
        return False

    @staticmethod
    def _lacks(rule: Rule, row: Row) -> int:
        missing = sum(name not in row for name in rule.of)
        return missing if missing < len(rule.of) else 99

    def _left(self, row: Row, names: Iterable[str]) -> Iterator[tuple[str, Sequence[str]]]:
        for name in names:
            yield name, [value for value in self.dimensions[name] if self._fits(row, name, value)]

    def _fits(self, row: Row, name: str, value: str) -> bool:
        further = {**row, name: value}
        return all(self._permits(rule, further) for rule in self._rules_of[name] if further.keys() >= set(rule.of))

    def _permits(self, rule: Rule, row: Row) -> bool:
        values = (rule.of, rule.allows, *(row[name] for name in rule.of))
        if values not in self._answers:
            self._answers[values] = rule.allows(*values[2:])
        return self._answers[values]


def pairs_of(row: Mapping[str, str], names: Sequence[str]) -> set[Pair]:
    """The pairs that a row covers; `names` in the order of the space."""
    return {((one, row[one]), (other, row[other])) for one, other in combinations(names, 2)}


def sample_rows(space: Space, seed: int, first: Sequence[Mapping[str, str]]) -> list[Row]:
    """The rows that `covering_rows` begins with: those that are asked for, completed with what brings the most pairs.

    Raises
    ------
    ValueError
        One of these is not allowed.
    """
    rng = random.Random(seed)  # noqa: S311
    return list(_first_rows(space, first, set(), rng))


def widest(rows: Sequence[Row], count: int) -> list[Row]:
    """So many of the rows, those that bring the most pairs first."""
    left, covered, found = list(rows), set[Pair](), list[Row]()
    while left and len(found) < count:
        best = max(left, key=lambda row: len(pairs_of(row, list(row)) - covered))
        left.remove(best)
        found.append(best)
        covered |= pairs_of(best, list(best))
    return found


def covering_rows(space: Space, seed: int, first: Sequence[Mapping[str, str]] = ()) -> list[Row]:
    """Allowed rows that have every possible pair; the same ones for the same seed.

    Parameters
    ----------
    first:
        Rows, or parts of some, to begin with. What they cover needs no other row.

    Raises
    ------
    ValueError
        One of these is not allowed.
    """
    rng = random.Random(seed)  # noqa: S311
    covered: set[Pair] = set()
    rows = list(_first_rows(space, first, covered, rng))
    wanted = space.pairs()
    while missing := wanted - covered:
        (one, first_value), (other, second_value) = rng.choice(sorted(missing))
        rows.append(_filled(space, {one: first_value, other: second_value}, covered, rng))
    return rows


def random_row(space: Space, rng: random.Random) -> Row:
    """An allowed row, whatever it covers."""
    row: Row = {}
    for name in rng.sample(list(space.dimensions), len(space.dimensions)):
        possible = [value for value in space.dimensions[name] if space.is_possible({**row, name: value})]
        row[name] = rng.choice(possible)
    return {name: row[name] for name in space.dimensions}


def _first_rows(
    space: Space, first: Sequence[Mapping[str, str]], covered: set[Pair], rng: random.Random
) -> Iterator[Row]:
    for begun in first:
        if not space.is_possible(begun):
            raise ValueError(f"not allowed: {dict(begun)}")
        yield _filled(space, dict(begun), covered, rng)


def _filled(space: Space, row: Row, covered: set[Pair], rng: random.Random) -> Row:
    """The row, completed with the values that bring the most pairs that are not `covered`, to which it adds its own."""
    names = list(space.dimensions)
    place = {name: number for number, name in enumerate(names)}

    def pair(one: tuple[str, str], other: tuple[str, str]) -> Pair:
        return (one, other) if place[one[0]] < place[other[0]] else (other, one)

    def gain(name: str, value: str) -> int:
        return sum(pair((name, value), chosen) not in covered for chosen in row.items())

    for name in rng.sample(names, len(names)):
        if name in row:
            continue
        values = list(space.dimensions[name])
        rng.shuffle(values)
        values.sort(key=partial(gain, name), reverse=True)
        row[name] = next(value for value in values if space.is_possible({**row, name: value}))
    covered |= pairs_of(row, names)
    return {name: row[name] for name in names}
