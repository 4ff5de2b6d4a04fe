"""Covering arrays (tests/covering.py): every two values that may meet do, what is forbidden never does."""

from __future__ import annotations

import random
from itertools import combinations, product

import pytest
from covering import Row, Rule, Space, covering_rows, pairs_of, random_row, sample_rows

SPACE = Space(
    {
        "form": ["plain", "schema", "avro", "object"],
        "carrier": ["lines", "records", "objects"],
        "key": ["one", "several", "none"],
        "op": ["c", "u", "d", "t"],
        "bad": ["none", "cut", "empty"],
        "table": ["mor", "cow"],
    },
    [
        Rule(("form", "carrier"), lambda form, carrier: (form == "object") == (carrier == "objects")),
        Rule(("carrier", "bad"), lambda carrier, bad: bad != "empty" or carrier == "records"),
        Rule(("form", "carrier"), lambda form, carrier: form != "avro" or carrier == "records"),
        Rule(("form", "key", "op"), lambda form, key, op: not (form == "plain" and key == "none" and op == "t")),
    ],
)


def allowed_rows() -> list[Row]:
    """Every allowed row, found by trying all."""
    every = (dict(zip(SPACE.dimensions, values, strict=True)) for values in product(*SPACE.dimensions.values()))
    return [row for row in every if SPACE.allows(row)]


@pytest.mark.parametrize("seed", range(5))
def test_every_allowed_pair_is_covered_by_few_allowed_rows(seed: int) -> None:
    rows = covering_rows(SPACE, seed)
    names = list(SPACE.dimensions)
    wanted = {pair for row in allowed_rows() for pair in pairs_of(row, names)}
    assert {pair for row in rows for pair in pairs_of(row, names)} == wanted == SPACE.pairs()
    assert all(SPACE.allows(row) and list(row) == names for row in rows)
    # No two dimensions have more pairs than a row each; a greedy choice needs a few more than the greatest.
    least = max(len({(row[one], row[other]) for row in allowed_rows()}) for one, other in combinations(names, 2))
    assert least <= len(rows) <= 2 * least


def test_the_same_seed_gives_the_same_rows_and_what_is_asked_for_comes_first() -> None:
    asked = [{"form": "avro", "bad": "empty"}, {"op": "t", "key": "none"}]
    rows = covering_rows(SPACE, 3, asked)
    assert rows[:2] == sample_rows(SPACE, 3, asked)
    assert rows == covering_rows(SPACE, 3, asked)
    assert rows != covering_rows(SPACE, 4, asked)
    for part, row in zip(asked, rows, strict=False):
        assert part.items() <= row.items()
    assert {pair for row in rows for pair in pairs_of(row, list(SPACE.dimensions))} == SPACE.pairs()


def test_what_is_asked_for_must_be_allowed() -> None:
    with pytest.raises(ValueError, match="not allowed"):
        covering_rows(SPACE, 1, [{"form": "avro", "carrier": "lines"}])
    # Nothing forbids these two by themselves: there is no carrier for both.
    assert SPACE.allows({"form": "object", "bad": "empty"})
    assert not SPACE.is_possible({"form": "object", "bad": "empty"})
    with pytest.raises(ValueError, match="not allowed"):
        covering_rows(SPACE, 1, [{"form": "object", "bad": "empty"}])


def test_random_rows_are_allowed_and_completions_are_the_simplest() -> None:
    rng = random.Random(1)  # noqa: S311
    rows = [random_row(SPACE, rng) for _ in range(300)]
    assert all(SPACE.allows(row) for row in rows)
    assert {row["form"] for row in rows} == set(SPACE.dimensions["form"])
    assert SPACE.completed({"bad": "empty"}) == {
        "form": "plain", "carrier": "records", "key": "one", "op": "c", "bad": "empty", "table": "mor",
    }  # fmt: skip
    assert SPACE.completed({"form": "object", "bad": "empty"}) is None
