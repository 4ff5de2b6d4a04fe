"""Nothing is lost and silver equals the source, in every form, by every carrier, whatever comes and goes wrong.

The cases are a covering array (tests/deliveries): every two values of two dimensions that may meet do, in some case. A
case that fails is made small and printed with its events.
"""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count, takewhile

import pytest
from covering import covering_rows, random_row, sample_rows, widest
from deliveries.cases import KNOWN, SPACE, Case, case_of
from deliveries.playing import Stage, faults, stage
from deliveries.shrinking import shown, smallest
from pyspark.sql import SparkSession

# All cases of a module are landed side by side, within its first test.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

SEED = 18
# So many tables are landed side by side.
_WIDTH = 24
# The array is played in so many parts, each of no more cases than are landed side by side.
_PARTS = 12
# Of the cases that were found wrong from outside, which the array begins with, those that cover the most.
SAMPLE = [case_of(f"t{number}", row, number) for number, row in enumerate(widest(sample_rows(SPACE, SEED, KNOWN), 2))]


@pytest.fixture(scope="module")
def on(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(spark, tmp_path_factory.mktemp("forms")) as made:
        yield made


def require_nothing_lost(on: Stage, cases: Sequence[Case], *, shrinks: int = 1) -> None:
    """Plays the cases, some side by side; fails with all that differs, and the first failing cases made small."""
    # Java keeps what Python has let go of until Python collects it: all tables of the array do not fit in its heap.
    gc.collect()
    starts = range(0, len(cases), _WIDTH)
    found = {case: told for at in starts for case, told in _failing(on, cases[at : at + _WIDTH]).items()}
    if not found:
        return
    told = [f"{len(found)} of {len(cases)} cases fail"]
    told += [f"{case}\n    " + "\n    ".join(line[:800] for line in lines[:6]) for case, lines in found.items()]
    for case, lines in list(found.items())[:shrinks]:
        small, of_small = smallest(on, case, lines)
        told += [f"{case.name} made small: {shown(small)}", *of_small[:10]]
    pytest.fail("\n".join(told))


def _failing(on: Stage, cases: Sequence[Case]) -> dict[Case, list[str]]:
    results = faults(on, cases)
    return {case: results[case.name] for case in cases if results[case.name]}


@pytest.fixture(scope="module")
def sampled(on: Stage) -> dict[str, list[str]]:
    """What differs of each case of the sample: all of them are landed side by side."""
    return faults(on, SAMPLE)


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_a_case_of_the_sample(case: Case, sampled: dict[str, list[str]], on: Stage) -> None:
    """Each is one that was found wrong from outside, completed with what else covers the most."""
    if sampled[case.name]:
        pytest.fail("\n".join([str(case), *(line[:1200] for line in sampled[case.name][:8])]))


@cache
def the_array() -> list[Case]:
    """The whole covering array."""
    return [case_of(f"a{number}", row, number) for number, row in enumerate(covering_rows(SPACE, SEED, KNOWN))]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_every_two_values_that_may_meet(part: int, on: Stage) -> None:
    """The parts have all cases, so that two values that may meet do so in one of them."""
    require_nothing_lost(on, the_array()[part::_PARTS])


@pytest.mark.long
@pytest.mark.timeout(2 * 3600)
def test_random_combinations(on: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """As many as there is time for: LAKE_HISTORIES_MINUTES, by default 45. Prints how many cases an hour are played."""
    started, played = time.monotonic(), 0
    ends = started + 60 * float(os.environ.get("LAKE_HISTORIES_MINUTES", "45"))
    for seed in takewhile(lambda _: time.monotonic() < ends, count(1_000)):
        rng = random.Random(seed)  # noqa: S311
        rows = [random_row(SPACE, rng) for _ in range(_WIDTH)]
        cases = [case_of(f"r{seed}_{number}", row, seed * 100 + number) for number, row in enumerate(rows)]
        require_nothing_lost(on, cases)
        played += len(cases)
    hours = (time.monotonic() - started) / 3600
    with capsys.disabled():
        print(f"\n{played:,} cases in {hours * 60:.0f} min: {played / hours:,.0f} cases an hour")  # noqa: T201
