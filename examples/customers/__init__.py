"""Customers in a DynamoDB table, whose stream is landed: the system of the serverless article."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from examples.customers.written import StreamExample
from examples.system import ExampleSystem

SYSTEM: Final[ExampleSystem] = StreamExample(
    name="customers",
    about="customers in a DynamoDB table, by the records of its stream",
    folder=Path(__file__).parent,
)
