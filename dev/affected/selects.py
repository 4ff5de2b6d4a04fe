"""A select read as operators of the algebra: joins, filter, groups, windows, columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dev.affected import reach
from dev.affected.expressions import (
    UnknownQueryError,
    aggregate,
    column,
    columns_of,
    condition,
    conjuncts,
    crossing,
    item,
)  # fmt: skip
from dev.affected.relations import NONE, Condition, Item, Kind, Names, Relation, Window

if TYPE_CHECKING:
    from dev.affected.queries import Reader

Env = Mapping[str, tuple[exp.Expr, Any]]  # the names that stand for queries, each with those of its own
_AGGREGATES = (exp.AggFunc, exp.Filter, exp.WithinGroup)
_GENERATORS = (exp.UDTF, exp.Inline)
OUTER = "^"
SETS = Names(["rows of grouping sets lack the columns that are not among theirs"])


@dataclass(frozen=True)
class Shown:
    """The names of a relation's columns, in order; open where there may be more."""

    names: tuple[str, ...]
    is_open: bool = False


@dataclass(frozen=True)
class From:
    """One of the relations that a select reads, and how it is joined."""

    alias: str
    source: exp.Expr
    join: exp.Join | None = None


@dataclass(frozen=True)
class Question:
    """A subquery within an expression: what it reads, and what ties it to the row that asks."""

    name: str
    select: Select
    where: tuple[exp.Expr, ...]
    ties: tuple[tuple[exp.Expr, exp.Expr], ...]
    others: tuple[exp.Expr, ...]
    shows: tuple[exp.Expr, ...]
    doubts: Names


class Select:
    """A select that is being read."""

    def __init__(self, reader: Reader, query: exp.Select, env: Env, outer: Select | None = None) -> None:
        self.reader, self.query, self.env, self.outer = reader, query, env, outer
        self.froms = list(self._froms())
        self.known = {each.alias: reader.shown_of(each.source, env) for each in self.froms}
        self.laterals = [self._lateral(each) for each in query.args.get("laterals") or ()]
        self.known |= {alias: Shown(names) for alias, names, _ in self.laterals}
        self.using: dict[str, str] = {}
        self.questions: list[Question] = []
        self.generated: list[tuple[str, exp.Expr]] = []
        if query.args.get("pivots") or query.args.get("windows") or query.args.get("connect"):
            raise UnknownQueryError("a pivot, or a window that has a name")
        self.conditions = [self._on(each, place) for place, each in enumerate(self.froms)]

    # What there is

    def _froms(self) -> Iterator[From]:
        first = self.query.args.get("from_")
        if first is not None:
            yield From(_alias(first.this), first.this)
        for join in self.query.args.get("joins") or ():
            if isinstance(join.this, exp.Lateral) or join.args.get("method"):
                raise UnknownQueryError("a lateral or natural join")
            yield From(_alias(join.this), join.this, join)

    def _lateral(self, lateral: exp.Lateral) -> tuple[str, tuple[str, ...], exp.Lateral]:
        alias = lateral.args.get("alias")
        names = tuple(each.name.lower() for each in alias.columns) if alias is not None else ()
        return (alias.name.lower() if alias is not None else ""), names or ("col", "pos", "key", "value"), lateral

    def shown(self) -> Shown:
        """The columns of the select, in order."""
        names = [name for name, _ in self._items(None)]
        is_open = any(
            self.known[alias].is_open
            for each in self.query.expressions
            if each.is_star
            for alias in self._starred(each)
        )
        return Shown(tuple(dict.fromkeys(names)), is_open)

    def _starred(self, star: exp.Expr) -> list[str]:
        if isinstance(star, exp.Column) and star.table:
            return [star.table.lower()]
        return [
            each.alias
            for each in self.froms
            if each.join is None or each.join.args.get("kind") not in ("SEMI", "ANTI")
        ] + [alias for alias, _, _ in self.laterals]  # fmt: skip

    def _items(self, needed: Names | None) -> list[tuple[str, exp.Expr]]:
        """The select's columns by name; of a star, those that are needed."""
        found: list[tuple[str, exp.Expr]] = []
        opened = ""
        for place, each in enumerate(self.query.expressions):
            if each.is_star and not isinstance(each, exp.Func):
                star = each if isinstance(each, exp.Star) else each.this
                if star.args.get("replace") or star.args.get("rename"):
                    raise UnknownQueryError("a star that renames columns")
                left_out = {out.name.lower() for out in star.args.get("except_") or ()}
                for alias in self._starred(each):
                    if alias not in self.known:
                        raise UnknownQueryError(f"{alias}.* is of no relation of the select")
                    opened = opened or (alias if self.known[alias].is_open else "")
                    names = [name for name in self.known[alias].names if name not in left_out]
                    merged = self.using if isinstance(each, exp.Star) else {}
                    found += [(name, exp.column(name, table=None if name in merged else alias)) for name in names]
            elif isinstance(each, exp.Aliases):
                found += [(name.name.lower(), each.this) for name in each.expressions]
            else:
                found.append((each.output_name.lower() or f"_c{place}", each.unalias()))
        if needed is None:
            return list(dict(found).items()) if len(dict(found)) < len(found) else found
        kept = [(name, each) for name, each in found if name in needed]
        more = sorted(needed - {name for name, _ in found}) if opened else []
        return list(dict(kept).items()) + [(name, exp.column(name, table=opened)) for name in more]

    # Names

    def resolve(self, found: exp.Column) -> str | None:
        """The column of one of the select's relations that a name stands for, as `alias.name`."""
        table, name = found.table.lower(), found.name.lower()
        if table:
            return f"{table}.{name}" if table in self.known else None
        if name in self.using:
            return self.using[name]
        owners = [alias for alias, shown in self.known.items() if name in shown.names]
        if not owners:
            owners = [alias for alias, shown in self.known.items() if shown.is_open]
            if len(owners) > 1:
                raise UnknownQueryError(f"column {name} may be of any of {', '.join(owners)}")
        elif len(owners) > 1:
            raise UnknownQueryError(f"column {name} is of {' and '.join(owners)}")
        return f"{owners[0]}.{name}" if owners else None

    def named(
        self, expression: exp.Expr, aliases: dict[str, exp.Expr] | None = None, *, is_filter: bool = False
    ) -> exp.Expr:
        """An expression whose columns have the names of `resolve`; subqueries in it are columns as well.

        To a filter, a null is as good as false.
        """

        def change(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Exists | exp.Subquery) or (isinstance(node, exp.In) and node.args.get("query")):
                return column(self._asked(node, is_conjunct=is_filter and node is top))
            if isinstance(node, _GENERATORS) and not isinstance(node, exp.Subquery):
                name = f"generated {len(self.generated) + 1}"
                self.generated.append((name, self.named(node.this)))
                return column(name)
            if isinstance(node, exp.Column) and not node.is_star:
                return self._named_column(node, aliases or {})
            return node

        top = expression
        copied = expression.copy()
        if isinstance(copied, exp.Exists | exp.Subquery | exp.In):
            top = copied
        return copied.transform(change, copy=False)

    def _named_column(self, node: exp.Column, aliases: dict[str, exp.Expr]) -> exp.Expr:
        try:
            if (key := self.resolve(node)) is not None and not (
                not node.table and node.name.lower() in aliases and node.name.lower() not in self._sure_names()
            ):
                return column(key)
        except UnknownQueryError:
            if node.table or node.name.lower() not in aliases:
                raise
        if not node.table and (alias := aliases.get(node.name.lower())) is not None:
            return exp.Paren(this=self.named(alias))
        if self.outer is not None and (key := self.outer.resolve(node)) is not None:
            return column(OUTER + key)
        if node.table and (key := self.resolve(exp.column(node.table))) is not None:
            return exp.Anonymous(this="field", expressions=[column(key)])
        raise UnknownQueryError(f"column {node.sql()} is of no relation of the select")

    def _sure_names(self) -> set[str]:
        return {name for shown in self.known.values() for name in shown.names} | set(self.using)

    # Subqueries

    def _asked(self, node: exp.Expr, *, is_conjunct: bool) -> str:
        """A subquery, noted as a question; the name of the column that holds its answer."""
        name = f"answer {next(self.reader.numbers)}"
        inner = node.this if not isinstance(node, exp.In) else node.args["query"]
        while isinstance(inner, exp.Subquery):
            inner = inner.this
        if not isinstance(inner, exp.Select) or inner.args.get("with_"):
            raise UnknownQueryError("a subquery in an expression that is no plain select")
        select = Select(self.reader, inner, self.env, self)
        where = inner.args.get("where")
        parts = [select.named(each, is_filter=True) for each in conjuncts(where.this if where else None)]
        ties, others, own = [], [], []
        for part in parts:
            outer = {key for key in columns_of(part) if key.startswith(OUTER)}
            if not outer:
                own.append(part)
                continue
            sides = [part.left, part.right] if isinstance(part, exp.EQ) else []
            ours = [side for side in sides if columns_of(side) and columns_of(side) <= outer]
            theirs = [side for side in sides if columns_of(side) and not columns_of(side) & outer]
            if ours and theirs:
                ties.append((_within(ours[0]), theirs[0]))
            else:
                others.append(part)
        shows = [select.named(each) for _, each in select._items(None)] if not isinstance(node, exp.Exists) else []
        doubts: set[str] = set()
        if isinstance(node, exp.In):
            ties.append((self.named(node.this), shows[0]))
            doubts |= set() if is_conjunct else {"a null among what `in` reads decides for all rows"}
        rest = [inner.args.get(part) for part in ("group", "having", "qualify", "limit", "distinct", "laterals")]
        if any(rest) or select.generated or any(each.find(exp.Window) for each in shows):
            shows += [each for part in rest for each in ([select.named(part)] if isinstance(part, exp.Expr) else [])]
            doubts.add("a subquery in an expression has groups, windows or a limit")
        if any(key.startswith(OUTER) for key in columns_of(*shows)):
            raise UnknownQueryError("a subquery reads the row that asks elsewhere than in its where")
        self.questions.append(
            Question(name, select, tuple(own), tuple(ties), tuple(others), tuple(shows), frozenset(doubts))
        )
        return name

    def _answered(self, relation: Relation, question: Question) -> Relation:
        select = question.select
        theirs = [each for pair in question.ties for each in pair[1:]]
        inner = [*question.where, *theirs, *question.others, *question.shows]
        used = frozenset(key for key in columns_of(*inner) if not key.startswith(OUTER))
        read = select.joined(used)
        for part in question.where:
            read = reach.filtered(read, condition(part, read))
        both = replace(
            read, columns=read.columns | relation.columns, types={**relation.types, **read.types},
            merged={**relation.merged, **read.merged},
        )  # fmt: skip
        names = _renamed_columns(read, question.name)
        read = reach.projected(
            read,
            [Item(names[key], Names([key]), key, NONE, read.types.get(key, "")) for key in sorted(read.columns & used)],
        )
        both = replace(both, types={**relation.types, **read.types})
        asked: list[exp.Expr] = [exp.EQ(this=one, expression=_with(other, names)) for one, other in question.ties]
        asked += [_within(_with(each, names)) for each in question.others]
        on = crossing(condition(exp.and_(*asked) if asked else None, both), relation.columns, read.columns)
        on = replace(on, equal=tuple(replace(tie, needs=tie.needs | question.doubts) for tie in on.equal))
        for reason in question.doubts:
            read = reach.doubted(read, reason)
        return reach.answered(relation, read, on, question.name, f"#{next(self.reader.numbers)}")

    # Operators

    def joined(self, used: Names) -> Relation:
        """The select's relations, joined, by the columns that are used of them."""
        used = used | columns_of(*self.conditions, *(each for _, each in self.generated))
        sources = [(names, self.named(lateral.this.this), lateral) for _, names, lateral in self.laterals]
        used |= columns_of(*(each for _, each, _ in sources))
        used |= frozenset(key for question in self.questions for key in _outer_keys(question))
        result = Relation(NONE)
        for each, on in zip(self.froms, self.conditions, strict=True):
            needed = frozenset(key.partition(".")[2] for key in used if key.partition(".")[0] == each.alias)
            read = reach.renamed(self.reader.relation_of(each.source, needed, self.env), each.alias)
            result = read if each.join is None else self._join(result, read, each.join, on)
        for (alias, names, _), (_, source, lateral) in zip(self.laterals, sources, strict=True):
            keys = frozenset(f"{alias}.{name}" for name in names)
            result = reach.exploded(result, keys, columns_of(source), is_outer=bool(lateral.args.get("outer")))
        for question in self.questions:
            result = self._answered(result, question)
        for name, source in self.generated:
            result = reach.exploded(result, Names([name]), columns_of(source), is_outer=False)
        return result

    def _on(self, each: From, place: int) -> exp.Expr | None:
        """The condition of a join, its columns named; those of `using` stand for both sides from here on."""
        join = each.join
        if join is None:
            return None
        if join.args.get("on") is not None:
            before = len(self.questions)
            on = self.named(join.args["on"])
            if len(self.questions) > before:
                raise UnknownQueryError("a subquery in the condition of a join")
            return on
        names = [name.name.lower() for name in join.args.get("using") or ()]
        parts = []
        for name in names:
            owners = [other.alias for other in self.froms[:place] if name in self.known[other.alias].names]
            if len(owners) != 1 and name not in self.using:
                raise UnknownQueryError(f"column {name} of using is not of one relation")
            one, other = self.using.get(name) or f"{owners[0]}.{name}", f"{each.alias}.{name}"
            parts.append(exp.EQ(this=column(one), expression=column(other)))
            side = join.side
            self.using[name] = f"coalesce({one}, {other})" if side == "FULL" else other if side == "RIGHT" else one
        return exp.and_(*parts) if parts else None

    def _join(self, left: Relation, right: Relation, join: exp.Join, on: exp.Expr | None) -> Relation:
        types = {**left.types, **right.types}
        both = Relation(left.columns | right.columns, types=types, merged={**left.merged, **right.merged})
        asked = crossing(condition(on, both), left.columns, right.columns)
        match, kind = f"#{next(self.reader.numbers)}", join.args.get("kind") or ""
        if kind in ("SEMI", "ANTI"):
            name = f"answer {match}"
            compared = [Item(key, Names([key]), key) for key in sorted(right.columns & asked.columns)]
            found = reach.answered(left, reach.projected(right, compared), asked, name, match)
            return reach.filtered(found, Condition(Names([name])))
        kinds: dict[str, Kind] = {"": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}
        return reach.joined(left, right, asked, kinds[join.side or ""], match)

    def read(self, needed: Names | None) -> Relation:
        """What the select gives, by the columns that are needed of it."""
        query = self.query
        is_distinct = bool(query.args.get("distinct"))
        chosen = self._items(None if is_distinct else needed)
        aliases = dict(self._items(None))
        items = [
            (name, self.named(each, {key: value for key, value in aliases.items() if value is not each}))
            for name, each in chosen
        ]
        asked = query.args.get("where")
        where = [self.named(each, is_filter=True) for each in conjuncts(asked.this if asked else None)]
        having, qualify = (
            self.named(query.args[part].this, aliases, is_filter=True) if query.args.get(part) else None
            for part in ("having", "qualify")
        )
        keys = self._keys(aliases)
        used = columns_of(*(each for _, each in items), *where, having, qualify, *keys)
        relation = self.joined(frozenset(key for key in used if not key.startswith(OUTER)))
        for each in where:
            relation = reach.filtered(relation, condition(each, relation))
        later = [each for _, each in items] + [each for each in (having, qualify) if each is not None]
        if query.args.get("group") or any(_aggregates(each) for each in later):
            relation, later = _grouped(relation, keys, later, is_by_sets=_is_by_sets(query.args.get("group")))
        rest = iter(later)
        items = [(name, next(rest)) for name, _ in items]
        having, qualify = (next(rest) if each is not None else None for each in (having, qualify))
        for each in conjuncts(having):
            relation = reach.filtered(relation, condition(each, relation))
        relation, changed = _windowed(
            relation, [*(each for _, each in items), *([qualify] if qualify is not None else [])]
        )
        for each in conjuncts(changed[len(items)] if qualify is not None else None):
            relation = reach.filtered(relation, condition(each, relation))
        relation = reach.projected(
            relation, [item(name, each, relation) for (name, _), each in zip(items, changed, strict=False)]
        )
        return reach.distinct(relation) if is_distinct else relation

    def _keys(self, aliases: dict[str, exp.Expr]) -> list[exp.Expr]:
        group = self.query.args.get("group")
        if group is None:
            return []
        listed = list(group.expressions)
        if group.args.get("all"):
            listed = [each for each in aliases.values() if not _aggregates(each)]
        found = []
        values = list(aliases.values())
        for each in listed:
            for part in each.expressions if isinstance(each, exp.Rollup | exp.Cube | exp.GroupingSets) else [each]:
                if isinstance(part, exp.Literal) and not part.is_string:
                    part = values[int(part.name) - 1]
                inner = part.expressions if isinstance(part, exp.Tuple) else [part.unnest()]
                found += [self.named(one, aliases) for one in inner]
        return list(dict.fromkeys(found))


def _alias(source: exp.Expr) -> str:
    return str(source.alias_or_name).lower()


def _within(expression: exp.Expr) -> exp.Expr:
    """An expression of a subquery as the select around it reads it."""

    def change(node: exp.Expr) -> exp.Expr:
        return (
            column(node.name.removeprefix(OUTER))
            if isinstance(node, exp.Column) and node.name.startswith(OUTER)
            else node
        )

    return expression.copy().transform(change)


def _renamed_columns(relation: Relation, name: str) -> dict[str, str]:
    return {key: f"{name}: {key}" for key in relation.columns}


def _with(expression: exp.Expr, names: dict[str, str]) -> exp.Expr:
    def change(node: exp.Expr) -> exp.Expr:
        return column(names[node.name]) if isinstance(node, exp.Column) and node.name in names else node

    return expression.copy().transform(change)


def _outer_keys(question: Question) -> Names:
    """The columns of the row that asks."""
    others = frozenset(key for key in columns_of(*question.others) if key.startswith(OUTER))
    return columns_of(*(one for one, _ in question.ties)) | {key.removeprefix(OUTER) for key in others}


def _aggregates(expression: exp.Expr) -> list[exp.Expr]:
    """The aggregates in an expression, but for those that are windows."""
    if isinstance(expression, _AGGREGATES):
        return [expression]
    children = list(expression.iter_expressions())
    if isinstance(expression, exp.Window):
        function = expression.this
        inner = [each for child in function.iter_expressions() for each in _aggregates(child)]
        return inner + [each for child in children if child is not function for each in _aggregates(child)]
    if isinstance(expression, exp.Subquery | exp.Exists):
        return []
    return [each for child in children for each in _aggregates(child)]


def _is_by_sets(group: exp.Group | None) -> bool:
    if group is None:
        return False
    parts = [
        *group.expressions,
        *(each for part in ("rollup", "cube", "grouping_sets") for each in group.args.get(part) or ()),
    ]
    return any(isinstance(each, exp.Rollup | exp.Cube | exp.GroupingSets) for each in parts)


def _grouped(
    relation: Relation, keys: list[exp.Expr], later: list[exp.Expr], *, is_by_sets: bool
) -> tuple[Relation, list[exp.Expr]]:
    """A relation's groups, and expressions over them: keys and aggregates are columns there."""
    aggregates: dict[exp.Expr, str] = {}

    def over_groups(node: exp.Expr, function: exp.Expr | None = None) -> exp.Expr:
        if node in keys:
            return column(f"key {keys.index(node)}")
        if (isinstance(node, _AGGREGATES) and node is not function) or isinstance(node, exp.Column):
            return column(aggregates.setdefault(node, f"aggregate {len(aggregates)}"))
        inner = node.this if isinstance(node, exp.Window) else None
        copied = node.copy()
        for before, after in zip(list(node.iter_expressions()), list(copied.iter_expressions()), strict=True):
            changed = over_groups(before, inner)
            after.replace(changed)
        return copied

    changed = [over_groups(each) for each in later]
    shown = [item(f"key {place}", key, relation) for place, key in enumerate(keys)]
    found = [aggregate(name, each, relation) for each, name in aggregates.items()]
    return reach.grouped(relation, shown, found, SETS if is_by_sets else NONE), changed


def _windowed(relation: Relation, expressions: list[exp.Expr]) -> tuple[Relation, list[exp.Expr]]:
    """A relation with the window functions of some expressions as columns, and the expressions over these."""
    windows: dict[exp.Expr, str] = {}

    def change(node: exp.Expr) -> exp.Expr:
        return column(windows.setdefault(node, f"window {len(windows)}")) if isinstance(node, exp.Window) else node

    changed = [each.copy().transform(change) for each in expressions]
    found = [
        Window(
            name,
            columns_of(each),
            tuple(item("", part, relation) for part in each.args.get("partition_by") or ()),
            isinstance(each.this, exp.RowNumber),
        )
        for each, name in windows.items()
    ]
    return (reach.windowed(relation, found) if found else relation), changed
