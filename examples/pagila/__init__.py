"""Pagila, the database of a shop that rents films, captured from PostgreSQL's log as full envelopes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from examples.pagila.generate import Pagila
from examples.system import ExampleSystem

SYSTEM: Final[ExampleSystem] = Pagila(
    name="pagila",
    about="films, actors and categories of a rental shop, as envelopes in Parquet",
    folder=Path(__file__).parent,
)
