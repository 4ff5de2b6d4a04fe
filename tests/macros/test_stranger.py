"""A project of the kind that people bring along, played at random: after each command every table is as it should be.

What the project is, and what a command must leave of it, is in `tests/stranger.py`.
"""

from __future__ import annotations

import random

import pytest
from conftest import MakeProject
from lake import Server
from pyspark.sql import SparkSession
from stranger import MakeStranger, Stranger, stranger_of
from stranger_texts import YEARS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.fixture
def make_stranger(spark: SparkSession, make_project: MakeProject, server: Server | None) -> MakeStranger:
    """Makes the project, lands its sources and builds it once."""
    return lambda draw: stranger_of(draw, spark, make_project, server)


COMMANDS: list[tuple[str, ...]] = [
    ("run",),
    ("build",),
    ("snapshot",),
    ("build", "--empty"),
    ("run", "--sample", "1 day"),
    ("run", "--select", "windowed+", "keyed"),
    ("run", "--select", "joined", "asks", "shaped"),
    ("run", "--full-refresh", "--select", "windowed", "asks", "appended", "shaped"),
    ("build", "--full-refresh", "--select", "daily", "keyed", "versions"),
    ("run", "--vars", "compare_whole: true"),
]


def a_command(draw: random.Random) -> tuple[str, ...]:
    """One of the commands, or some years of the batches."""
    if draw.random() < 0.8:
        return draw.choice(COMMANDS)
    first, last = sorted(draw.choices(YEARS, k=2))
    times = ("--event-time-start", f"{first}-01-01", "--event-time-end", f"{last + 1}-01-01")
    return ("run", "--select", "daily", *times, *draw.choice([(), ("--full-refresh",)]))


def some_steps(draw: random.Random, stranger: Stranger) -> None:
    """Some of what happens to a project between two commands."""
    steps = [
        stranger.change, stranger.edit, stranger.reseed, stranger.tamper, stranger.mistake, stranger.review,
        stranger.reshape,
    ]  # fmt: skip
    for step in draw.sample(steps, draw.randint(1, 3)):
        step()


ROUNDS = [
    (1, 1),
    *(pytest.param(seed, rounds, marks=pytest.mark.slow) for seed, rounds in ((1, 2), (2, 8), (3, 8))),
    *(pytest.param(seed, 12, marks=pytest.mark.long) for seed in range(4, 13)),
]


@pytest.mark.parametrize(("seed", "rounds"), ROUNDS)
def test_any_commands_leave_every_table_as_it_should_be(seed: int, rounds: int, make_stranger: MakeStranger) -> None:
    draw = random.Random(seed)  # noqa: S311
    stranger = make_stranger(draw)
    for _ in range(rounds):
        some_steps(draw, stranger)
        if not stranger.run(*a_command(draw)):
            stranger.mend()
        while not stranger.run():  # what was left out is right then, or is refused once more
            stranger.mend()
