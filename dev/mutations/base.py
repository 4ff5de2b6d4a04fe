"""What a breakage is, and the tests that breakages name."""

from __future__ import annotations

from dataclasses import dataclass

ORDER = "tests/ingest/test_order.py"
SCENES = "tests/ingest/test_operations.py"
UPKEEP = "tests/ingest/test_upkeep.py"
BAD = "tests/ingest/test_bad_input.py"
MODEL = "tests/ingest/test_model.py"
HISTORY = "tests/ingest/test_history.py"
TORTURE = "tests/ingest/test_torture.py"
TRANSACTIONS = "tests/ingest/test_transactions.py"
SECURITY = "tests/ingest/test_security.py"
EXAMPLES = "tests/ingest/test_examples.py"
LOST = "tests/ingest/test_nothing_lost.py"
VALUES = "tests/ingest/test_values_kept.py"
KEYS = "tests/ingest/test_record_keys.py"
DEBEZIUM = "tests/ingest/test_debezium_settings.py"
ODD = "tests/ingest/test_odd_events.py"
REGISTRY = "tests/ingest/test_registry.py"
FLAT = "tests/ingest/test_flat.py"
DYNAMODB = "tests/ingest/test_dynamodb.py"
KINESIS = "tests/ingest/test_kinesis.py"
SCHEMA_FILES = "tests/ingest/test_schema_files.py"
PLACES = "tests/ingest/test_places.py"
LANDED = "tests/ingest/test_habits_of_landing.py"
HUDI = "tests/ingest/test_habits_of_hudi.py"
HABITS = "tests/macros/test_habits.py"
PARTS = "tests/macros/test_parts.py"
INCREMENTS = "tests/macros/test_increments.py"
LATER_BATCHES = f"{ORDER}::test_late_and_repeated_events_of_later_batches_are_told_apart_and_counted"
MENDED = f"{MODEL}::test_a_delivery_that_once_differed"


def scene(*names: str) -> tuple[str, ...]:
    """Scenarios of tests/ingest/test_operations.py: only those that are asked for are played."""
    return tuple(f"{SCENES}::test_scenario[{name}]" for name in names)


@dataclass(frozen=True)
class Mutation:
    """One thing broken: a text that is in the file once, what stands there instead, and the tests to ask."""

    name: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]
