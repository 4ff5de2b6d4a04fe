"""What a lakehouse on AWS costs, as `python -m dev.cost` computes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev import cost
from ingest.errors import LakeError

REPOSITORY = Path(__file__).resolve().parents[2]


def told(**inputs: float) -> dict[str, Any]:
    """Prices, inputs and formulas, some of the inputs others."""
    read: dict[str, Any] = yaml.safe_load(cost.COST.read_text(encoding="utf-8"))
    return {**read, "inputs": {**read["inputs"], **inputs}}


def of(**inputs: float) -> dict[str, float]:
    """What each component costs, and all of them."""
    rows = [line.strip("| ").split(" | ") for line in cost.table(told(**inputs))[2:]]
    return {row[0]: float(row[1]) for row in rows}


def test_the_page_shows_what_is_computed() -> None:
    page = (REPOSITORY / "docs" / "operate" / "cost.md").read_text(encoding="utf-8")
    assert "\n".join(cost.table(told())) in page
    assert str(told()["as_of"]) in page
    assert told()["region"] in page


def test_each_price_and_input_counts() -> None:
    formulas = " ".join(told()["components"].values())
    named = set(re.findall(r"[a-z]\w*", formulas)) - {"max"}
    assert named == {*told()["prices"], *told()["inputs"]}


def test_components_follow_their_inputs() -> None:
    before = of()
    assert of(tables=14)["commits of ingest: requests"] == pytest.approx(
        2 * before["commits of ingest: requests"], 1e-3
    )
    assert of(ingest_hours_per_day=12)["ingest: compute"] == pytest.approx(before["ingest: compute"] / 2, 1e-3)
    # Ten thousand queries a day of next to nothing: 300,000 times 10 MB.
    assert of(queries_per_day=10000, scanned_gb_per_query=0)["readers: scans"] == 15.00
    assert of(queries_per_day=10000, scanned_gb_per_query=0.02)["readers: scans"] == 30.00
    assert before["all"] == pytest.approx(sum(value for name, value in before.items() if name != "all"), abs=0.05)


@pytest.mark.parametrize(("formula", "value"), [
    ("2 * (a + 3) - b / 4", 9.0), ("max(a, b, 1)", 4.0), ("a", 2.0),
])  # fmt: skip
def test_a_formula_is_arithmetic(formula: str, value: float) -> None:
    assert cost.dollars(formula, {"a": 2, "b": 4}) == value


@pytest.mark.parametrize(("formula", "why"), [
    ("a * tables", "tables is no price and no input"), ("a **2", "cannot be computed"), ("'a'", "cannot be computed"),
    ("open('x')", "cannot be computed"), ("a *", "invalid syntax"),
])  # fmt: skip
def test_what_is_no_arithmetic_is_refused(formula: str, why: str) -> None:
    with pytest.raises(LakeError, match=re.escape(why)):
        cost.dollars(formula, {"a": 2})
