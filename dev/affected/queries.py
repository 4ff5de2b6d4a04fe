"""Queries read as operators of the algebra, down to the source tables; views and CTEs are read where they stand."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import sqlglot
from sqlglot import exp

from dev.affected import reach
from dev.affected.expressions import UnknownQueryError, type_name
from dev.affected.relations import NONE, Item, Names, Relation
from dev.affected.selects import Env, Select, Shown


@dataclass(frozen=True)
class Table:
    """What the name of a relation stands for: a source table, a view by its query, or any other table.

    Attributes
    ----------
    columns:
        The type of each declared column, '' where it is not known.
    key:
        The columns by which its rows are told apart, where that is known.
    not_compiled:
        Why a view has no query.
    """

    name: str
    columns: Mapping[str, str] = field(default_factory=dict)
    key: Names = NONE
    query: str = ""
    is_source: bool = False
    not_compiled: str = ""


@lru_cache(maxsize=1000)
def parsed(text: str) -> exp.Expr:
    """A query of Spark."""
    try:
        return sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        raise UnknownQueryError(f"the query cannot be read: {str(error).splitlines()[0]}") from error


def relation_name(text: str) -> str:
    """The name of a relation as it is looked up."""
    return text.replace("`", "").lower()


class Reader:
    """Reads the queries of a project whose relations are known by name."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self.tables = {relation_name(name): table for name, table in tables.items()}
        self.numbers = itertools.count(1)

    def read(self, text: str) -> Relation:
        """What a model's query gives."""
        return self.relation(parsed(text), None, {})

    def names(self, text: str) -> tuple[str, ...]:
        """The columns of a model's query."""
        return self.shown(parsed(text), {}).names

    def relation(self, query: exp.Expr, needed: Names | None, env: Env) -> Relation:
        """What a query gives, by the columns that are needed of it."""
        env = self.with_ctes(query, env)
        if isinstance(query, exp.Subquery) and not query.args.get("joins"):
            found = self.relation(query.this, needed, env)
        elif isinstance(query, exp.SetOperation):
            found = self._combined(query, needed, env)
        elif isinstance(query, exp.Select):
            found = Select(self, query, env).read(needed)
        else:
            raise UnknownQueryError(f"a query of the kind {query.key} is not known")
        if query.args.get("limit") or query.args.get("offset"):
            found = reach.limited(found)
        return found

    def with_ctes(self, query: exp.Expr, env: Env) -> Env:
        """The names that stand for queries below a query."""
        found = dict(env)
        clause = query.args.get("with_")
        if clause is not None and clause.args.get("recursive"):
            raise UnknownQueryError("a recursive query")
        for each in clause.expressions if clause is not None else ():
            found[each.alias.lower()] = (_with_names(each.this, _alias_names(each)), dict(found))
        return found

    def _combined(self, query: exp.SetOperation, needed: Names | None, env: Env) -> Relation:
        is_union = isinstance(query, exp.Union)
        if query.args.get("by_name"):
            raise UnknownQueryError("a union by name")
        is_distinct = not is_union or bool(query.args.get("distinct"))
        left = self.shown(query.left, env)
        second = _with_names(query.right, left.names) if _repeats_names(query.right) else query.right
        right = self.shown(second, env)
        if left.is_open or right.is_open or len(left.names) != len(right.names):
            raise UnknownQueryError("the columns of a union are not known")
        kept = [
            pair
            for pair in zip(left.names, right.names, strict=True)
            if needed is None or is_distinct or pair[0] in needed
        ]
        sides = []
        for side, place in ((query.left, 0), (second, 1)):
            read = self.relation(side, frozenset(pair[place] for pair in kept), env)
            items = [
                Item(pair[0], Names([pair[place]]), pair[place], NONE, read.types.get(pair[place], "")) for pair in kept
            ]
            sides.append(reach.projected(read, items))
        found = reach.combined(sides[0], sides[1], is_union=is_union)
        return reach.distinct(found) if is_distinct else found

    def shown(self, query: exp.Expr, env: Env) -> Shown:
        """The columns of a query."""
        env = self.with_ctes(query, env)
        if isinstance(query, exp.Subquery):
            return self.shown(query.this, env)
        if isinstance(query, exp.SetOperation):
            return self.shown(query.left, env)
        if not isinstance(query, exp.Select):
            raise UnknownQueryError(f"a query of the kind {query.key} is not known")
        return Select(self, query, env).shown()

    def shown_of(self, source: exp.Expr, env: Env) -> Shown:
        """The columns of what stands behind `from` or `join`."""
        if isinstance(source, exp.Table):
            if (cte := self._cte(source, env)) is not None:
                return self.shown(*cte)
            if (table := self._table(source)) is None:
                return Shown(_alias_names(source), is_open=True)
            return self.shown(parsed(table.query), {}) if table.query else Shown(tuple(table.columns), is_open=True)
        if isinstance(source, exp.Subquery):
            found = self.shown(source.this, self.with_ctes(source, env))
            return Shown(_alias_names(source) or found.names, found.is_open)
        return Shown(_alias_names(source), is_open=True)

    def relation_of(self, source: exp.Expr, needed: Names, env: Env) -> Relation:
        """What stands behind `from` or `join`."""
        if source.args.get("pivots") or source.args.get("sample") or source.args.get("joins"):
            raise UnknownQueryError("a pivot, a sample or a join in parentheses")
        if isinstance(source, exp.Table):
            if (cte := self._cte(source, env)) is not None:
                return self.relation(cte[0], needed, cte[1])
            table = self._table(source)
            if table is not None and table.query:
                return reach.through(self.relation(parsed(table.query), needed, {}), table.name)
            return self._base(table, needed)
        if isinstance(source, exp.Subquery):
            return self.relation(_with_names(source.this, _alias_names(source)), needed, self.with_ctes(source, env))
        if isinstance(source, exp.Values):
            return Relation(needed)
        raise UnknownQueryError(f"a relation of the kind {source.key} is not known")

    def _base(self, table: Table | None, needed: Names) -> Relation:
        if table is None:
            return Relation(needed)
        key = frozenset(name.lower() for name in table.key)
        declared = {name.lower(): type_name(kind) for name, kind in table.columns.items()}
        types = {name: declared.get(name, "") for name in needed | key}
        if table.is_source:
            return reach.base(table.name, types, key)
        return Relation(frozenset(types), types=types, unique=frozenset([key] if key else []))

    def _cte(self, source: exp.Table, env: Env) -> tuple[exp.Expr, Env] | None:
        return env.get(source.name.lower()) if not source.db else None

    def _table(self, source: exp.Table) -> Table | None:
        """A table by its name; None for a function of tables."""
        if not isinstance(source.this, exp.Identifier):
            return None
        parts = [part.name.lower() for part in source.parts]
        for start in range(len(parts)):
            if (found := self.tables.get(".".join(parts[start:]))) is not None:
                if found.not_compiled:
                    raise UnknownQueryError(f"{found.name}: {found.not_compiled}")
                return found
        raise UnknownQueryError(f"{'.'.join(parts)} is no relation of the project")


def _alias_names(source: exp.Expr) -> tuple[str, ...]:
    alias = source.args.get("alias")
    return tuple(each.name.lower() for each in alias.columns) if isinstance(alias, exp.TableAlias) else ()


def _with_names(query: exp.Expr, names: tuple[str, ...]) -> exp.Expr:
    """A query whose columns have other names, by their places."""
    if not names:
        return query
    inner = query.copy()
    is_plain = isinstance(inner, exp.Select) and not any(each.is_star for each in inner.expressions)
    if not is_plain or len(names) != len(inner.expressions):
        raise UnknownQueryError("columns that are named by their places")
    pairs = zip(inner.expressions, names, strict=True)
    inner.set("expressions", [exp.alias_(each.unalias(), name, quoted=True) for each, name in pairs])
    return inner


def _repeats_names(query: exp.Expr) -> bool:
    """Whether a select has two columns of one name, which a union tells apart by their places."""
    listed = [each.output_name.lower() for each in query.expressions] if isinstance(query, exp.Select) else []
    return len(set(listed)) < len(listed)
