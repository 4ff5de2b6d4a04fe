"""Expressions of SQL as the algebra sees them: the columns in them, and what they hold or ask."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from dev.affected.relations import NONE, Condition, Item, Names, Relation, Tie

_DIGITS = {"tinyint": 3, "byte": 3, "smallint": 5, "short": 5, "int": 10, "integer": 10, "bigint": 19, "long": 19}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.In, exp.Between)
_HELD = (exp.Min, exp.Max, exp.First, exp.Last, exp.AnyValue)


class UnknownQueryError(Exception):
    """What a query does that the algebra does not know."""


def column(key: str) -> exp.Column:
    """A column whose name is all there is of it."""
    return exp.Column(this=exp.to_identifier(key, quoted=True))


def columns_of(*expressions: exp.Expr | None) -> Names:
    """The names of all columns in some expressions."""
    return frozenset(
        found.name
        for each in expressions
        if each is not None
        for found in each.find_all(exp.Column)
        if not found.is_star
    )


def conjuncts(expression: exp.Expr | None) -> Iterator[exp.Expr]:
    """What must hold together."""
    if isinstance(expression, exp.Paren):
        yield from conjuncts(expression.this)
    elif isinstance(expression, exp.And):
        yield from conjuncts(expression.left)
        yield from conjuncts(expression.right)
    elif expression is not None:
        yield expression


def cast_doubt(before: str, after: str) -> Names:
    """Why a cast may give other values; nothing where it cannot.

    A cast keeps values where it could be undone: to the same type, of an integer to a wider one, to a decimal with
    room for it or to text, of a decimal to one with more digits on both sides, of a date to a timestamp.
    """
    one, other = _decimal(before), _decimal(after)
    keeps = before == after or (before == "date" and after == "timestamp") or (before in _DIGITS and after == "string")
    if one and other:
        keeps = keeps or (other[0] >= one[0] and other[1] >= one[1] and (before in _DIGITS or after not in _DIGITS))
    return (
        NONE
        if before and keeps
        else Names([f"a cast of {before or 'a column of unknown type'} to {after} may change values"])
    )


def _decimal(kind: str) -> tuple[int, int] | None:
    """Digits before and behind the point of a number's type."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    found = re.fullmatch(r"decimal\((\d+)(?:,(\d+))?\)", kind)
    return (int(found[1]) - int(found[2] or 0), int(found[2] or 0)) if found else None


def type_name(kind: str) -> str:
    """A type as it is compared."""
    return {"integer": "int", "long": "bigint", "text": "string"}.get(name := re.sub(r"\s", "", kind.lower()), name)


def item(name: str, expression: exp.Expr, relation: Relation) -> Item:
    """An expression over a relation, under a name."""
    found = _plain(expression, relation)
    kind = type_name(expression.to.sql("spark")) if isinstance(expression, exp.Cast) else ""
    if found is None:
        return Item(name, columns_of(expression), type=kind)
    return replace(found, name=name, columns=columns_of(expression))


def aggregate(name: str, expression: exp.Expr, relation: Relation) -> Item:
    """An aggregate: some hold a row's own value."""
    inner = expression.this if isinstance(expression, _HELD) else None
    held = _plain(inner, relation) if isinstance(inner, exp.Expr) else None
    return replace(held or Item(name), name=name, columns=columns_of(expression))


def _plain(expression: exp.Expr, relation: Relation) -> Item | None:
    if isinstance(expression, exp.Paren):
        return _plain(expression.this, relation)
    if isinstance(expression, exp.Column):
        return Item("", NONE, expression.name, NONE, relation.types.get(expression.name, ""))
    if isinstance(expression, exp.Cast):
        inner, after = _plain(expression.this, relation), type_name(expression.to.sql("spark"))
        if inner is None:
            return None
        return replace(inner, doubts=inner.doubts | cast_doubt(inner.type, after), type=after)
    if isinstance(expression, exp.Coalesce):
        sides = [expression.this, *expression.expressions]
        if all(isinstance(each, exp.Column) for each in sides):
            both = relation.merged.get(frozenset(each.name for each in sides))
            return Item("", NONE, both, NONE, relation.types.get(both, "")) if both else None
    return None


def _comparable(one: str, other: str) -> Names:
    """Why the equality of two columns may not be that of their values."""
    numbers = [_decimal(kind) is not None for kind in (one, other)]
    if not one or not other or one == other or all(numbers):
        return NONE
    return Names([f"{one} is compared with {other}"])


def condition(expression: exp.Expr | None, relation: Relation) -> Condition:
    """What a filter over a relation asks, or a join over both of its sides."""
    equal: list[Tie] = []
    rejects: set[str] = set()
    ranked: set[str] = set()
    for each in conjuncts(expression):
        if isinstance(each, exp.EQ | exp.NullSafeEQ):
            one, other = _plain(each.left, relation), _plain(each.right, relation)
            if one and other and one.plain and other.plain:
                doubts = one.doubts | other.doubts | _comparable(one.type, other.type)
                equal.append(Tie(one.plain, other.plain, doubts))
            if one and one.plain and each.right.sql() == "1":
                ranked.add(one.plain)
        if isinstance(each, _COMPARISONS):
            sides = [each.this, each.args.get("expression")]
            rejects |= {side.name for side in sides if isinstance(side, exp.Column)}
        elif isinstance(each, exp.Not) and isinstance(each.this, exp.Is) and isinstance(each.this.this, exp.Column):
            rejects.add(each.this.this.name)
        elif isinstance(each, exp.Column):
            rejects.add(each.name)
    return Condition(columns_of(expression), tuple(equal), frozenset(rejects), frozenset(ranked))


def crossing(asked: Condition, left: Names, right: Names) -> Condition:
    """The condition of a join, with the equalities of one side with the other alone, from left to right."""
    equal = [tie for tie in asked.equal if tie.one in left and tie.other in right]
    equal += [Tie(tie.other, tie.one, tie.needs) for tie in asked.equal if tie.one in right and tie.other in left]
    return replace(asked, equal=tuple(equal))
