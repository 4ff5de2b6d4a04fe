"""Makes failing cases small, and shows them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from deliveries.cases import DIMENSIONS, SPACE, Case
from deliveries.forms import Book, record_of
from deliveries.history import delivered
from deliveries.model import expected
from deliveries.playing import Stage, faults


def smallest(
    on: Stage, case: Case, told: Sequence[str], *, seconds: float = 600, width: int = 8
) -> tuple[Case, list[str]]:
    """The simplest case found in time that still fails: with simple values of the dimensions, and with fewer events."""
    best, of_best, ends = case, list(told), time.monotonic() + seconds
    while True:
        candidates = [replace(one, name=f"{case.name}_{number}") for number, one in enumerate(_simpler(best))]
        failing = False
        for start in range(0, len(candidates), width):
            if time.monotonic() > ends:
                return best, of_best
            results = faults(on, some := candidates[start : start + width])
            found = [one for one in some if results[one.name]]
            if found:
                best, of_best, failing = found[0], results[found[0].name], True
                break
        if not failing:
            return best, of_best


def _simpler(case: Case) -> Iterator[Case]:
    """Cases with one dimension simpler, the most that can be said first; then with some events less."""
    for name, values in DIMENSIONS.items():
        for value in values[: list(values).index(case[name])][:1]:
            row = {**case.row, name: value}
            if SPACE.allows(row):
                yield case.but(**{name: value})
    numbers = [event.number for file in delivered(case) for event in file.events if event.number < 10_000]
    half = max(1, len(numbers) // 4)
    for start in range(0, len(numbers), half):
        fewer = replace(case, without=case.without | set(numbers[start : start + half]))
        if _is_possible(fewer):
            yield fewer


def _is_possible(case: Case) -> bool:
    files = delivered(case)
    try:
        expected(case, files)
    except LookupError:
        return False
    return any(file.events for file in files)


def shown(case: Case) -> str:
    """The case and what is delivered of it."""
    lines, book = [str(case)], Book()
    for file in delivered(case):
        lines.append(f"batch {file.batch}{', again' if file.again else ''}")
        for event in file.events:
            record = record_of(case, event, "shop.t", book)
            value = record.row if record.schema is not None else record.value
            lines.append(f"  {event.kind} {event.at}: key {record.key!r}, value {str(value)[:1500]}")
    return "\n".join(lines)
