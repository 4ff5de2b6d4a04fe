"""What a lakehouse on AWS costs a month, by component: python -m dev.cost [FILE]

Prices, inputs and formulas come from deploy/aws/cost.yml, or from a file of the same form. docs/operate/cost.md shows
the result.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from ingest.errors import LakeError

COST = Path(__file__).resolve().parent.parent / "deploy" / "aws" / "cost.yml"
_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def dollars(formula: str, values: Mapping[str, float]) -> float:
    """What a formula gives: numbers and names, the four operations, brackets, max.

    Raises
    ------
    LakeError
        It has something else, or a name without a value.
    """
    try:
        return _value(ast.parse(formula, mode="eval").body, values)
    except (SyntaxError, ValueError) as error:
        raise LakeError(
            f"{formula}: {error}",
            where="components",
            expected="names of prices and inputs, numbers, + - * / ( ) and max",
            action="correct the formula",
        ) from error


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name) if name in values:
            return float(values[name])
        case ast.Name(id=name):
            raise ValueError(f"{name} is no price and no input")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, values), _value(right, values))
        case ast.Call(func=ast.Name(id="max"), args=parts, keywords=[]) if parts:
            return max(_value(part, values) for part in parts)
    raise ValueError(f"`{ast.unparse(node)}` cannot be computed")


def table(told: Mapping[str, Any]) -> list[str]:
    """The components as a table of Markdown, the whole last.

    Raises
    ------
    LakeError
        A formula cannot be computed.
    """
    values = {**told["prices"], **told["inputs"]}
    costs = [(name, formula, dollars(formula, values)) for name, formula in told["components"].items()]
    lines = ["| component | dollars a month | computed from |", "| --- | --- | --- |"]
    lines += [f"| {name} | {cost:.2f} | `{formula}` |" for name, formula, cost in costs]
    return [*lines, f"| all | {sum(cost for *_, cost in costs):.2f} | |"]


def main(file: Annotated[Path, typer.Argument(help="Prices, inputs and formulas.")] = COST) -> None:
    """Prints what a lakehouse on AWS costs a month."""
    told = yaml.safe_load(file.read_text(encoding="utf-8"))
    print(f"{told['region']}, prices of {told['as_of']}:\n")
    try:
        print("\n".join(table(told)))
    except LakeError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    typer.run(main)
