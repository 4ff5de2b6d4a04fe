"""Operators of queries over relations: what becomes of the rows that a changed row of a source table reaches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dev.affected.relations import (
    AGGREGATED,
    BOTH_SIDES,
    FILTERED,
    MULTIPLIED,
    NONE,
    ONE,
    UNEQUAL,
    Condition,
    Effect,
    Item,
    Kind,
    Names,
    Pair,
    Relation,
    Tie,
    Window,
    spread,
)  # fmt: skip


def base(table: str, types: Mapping[str, str], key: Names) -> Relation:
    """A source table."""
    columns = frozenset(types)
    effect = Effect(table, frozenset(Pair(name, name) for name in columns), {name: Names([name]) for name in columns})
    return Relation(columns, (effect,), types=types, unique=frozenset([key] if key and key <= columns else []))


def doubted(relation: Relation, reason: str) -> Relation:
    """The same, with a reason why more may hold of every effect."""
    return replace(relation, effects=tuple(replace(each, doubts=each.doubts | {reason}) for each in relation.effects))


def limited(relation: Relation) -> Relation:
    """As many rows of a relation as a limit leaves: where one comes or goes, so do others, which it says nothing of."""
    doubtful = doubted(relation, "limit leaves other rows out where one comes")
    others = (replace(each, pairs=frozenset(), stable=NONE, steady=False) for each in doubtful.effects)
    return replace(doubtful, effects=(*doubtful.effects, *others))


def through(relation: Relation, view: str) -> Relation:
    """The same, read through a view."""
    return replace(relation, effects=tuple(replace(each, path=(view, *each.path)) for each in relation.effects))


def projected(relation: Relation, items: Sequence[Item]) -> Relation:
    """A select's columns."""
    names = frozenset(item.name for item in items)
    named: dict[str, list[Item]] = {}
    for item in items:
        if item.plain is not None:
            named.setdefault(item.plain, []).append(item)

    def kept(pairs: Iterable[Pair]) -> frozenset[Pair]:
        return frozenset(
            Pair(item.name, pair.of, pair.needs | item.doubts)
            for pair in spread(pairs, relation.ties)
            for item in named.get(pair.column, [])
        )

    ties = frozenset(
        Tie(item.name, pair.column, pair.needs)
        for item in items
        if item.plain is not None
        for pair in kept([Pair(item.plain, "", item.doubts)])
        if pair.column != item.name
    )
    certain = {column: [each.name for each in some if not each.doubts] for column, some in named.items()}
    same = {
        column: {pair.column for pair in spread([Pair(column, "")], relation.ties) if not pair.needs}
        for key in relation.unique
        for column in key
    }
    unique = set()
    for key in relation.unique:
        found = [
            next((name for equal in sorted(same[column]) for name in certain.get(equal, [])), None) for column in key
        ]
        if None not in found:
            unique.add(frozenset(name for name in found if name is not None))
    effects = []
    for effect in relation.effects:
        stable = frozenset(item.name for item in items if effect.keeps(item.columns)) | (effect.stable & {ONE})
        reads = {item.name: effect.read_by(item.columns) for item in items}
        effects.append(
            replace(effect, pairs=kept(effect.pairs), reads=reads, stable=stable, steady=effect.steady and bool(stable))
        )
    return Relation(
        names,
        tuple(effects),
        ties,
        {item.name: relation.nulls.get(item.plain or "", NONE) for item in items},
        {item.name: item.type for item in items},
        frozenset(unique),
        ranks={
            item.name: frozenset(certain[column][0] for column in relation.ranks[item.plain])
            for item in items
            if item.plain is not None and all(certain.get(column) for column in relation.ranks.get(item.plain, [""]))
        },
    )


def renamed(relation: Relation, alias: str) -> Relation:
    """A relation's columns under an alias: `alias.column`."""
    items = [
        Item(f"{alias}.{name}", Names([name]), name, NONE, relation.types.get(name, "")) for name in relation.columns
    ]
    return projected(relation, items)


def settled(relation: Relation, matched: Names, maybe: Names) -> Relation:
    """The same, of whose rows it is known that some outer joins are matched, and that others may be."""

    def still(needs: Names) -> Names:
        left = needs - matched
        return (left - maybe) | {FILTERED} if left & maybe else left

    ties = frozenset(replace(tie, needs=still(tie.needs)) for tie in relation.ties)
    effects = tuple(
        replace(each, pairs=spread((replace(pair, needs=still(pair.needs)) for pair in each.pairs), ties))
        for each in relation.effects
    )
    nulls = {column: needs - matched for column, needs in relation.nulls.items()}
    return replace(relation, effects=effects, ties=ties, nulls=nulls)


def nulled(relation: Relation, columns: Names) -> Names:
    """The outer joins without whose match one of some columns is null."""
    return NONE.union(*(relation.nulls.get(column, NONE) for column in columns))


def filtered(relation: Relation, condition: Condition) -> Relation:
    """The rows for which a condition holds."""
    matched = nulled(relation, condition.rejects)
    relation = replace(relation, ties=relation.ties | frozenset(condition.equal))
    relation = settled(relation, matched, nulled(relation, condition.columns) - matched)
    effects = []
    for effect in relation.effects:
        keeps = effect.keeps(condition.columns)
        effects.append(
            replace(
                effect,
                rows=effect.rows | effect.read_by(condition.columns),
                stable=effect.stable if keeps else NONE,
                steady=effect.steady and keeps,
            )
        )
    unique = relation.unique | {relation.ranks[column] for column in condition.ranked if column in relation.ranks}
    return replace(relation, effects=tuple(effects), unique=unique)


def joined(left: Relation, right: Relation, on: Condition, kind: Kind, match: str) -> Relation:
    """A join. `match` is its name among the joins, and each equality goes from the left side to the right one."""
    # What is needed for a side's own columns to be there.
    needs_left = Names([f"{match}l"]) if kind in ("right", "full") else NONE
    needs_right = Names([f"{match}r"]) if kind in ("left", "full") else NONE
    merged, ties = dict(left.merged) | dict(right.merged), left.ties | right.ties
    for tie in on.equal:
        both = f"coalesce({tie.one}, {tie.other})"
        merged[frozenset((tie.one, tie.other))] = both
        ties |= {
            Tie(both, tie.one, needs_left | tie.needs),
            Tie(both, tie.other, needs_right | tie.needs),
            Tie(tie.one, tie.other, needs_left | needs_right | tie.needs),
        }
    columns = left.columns | right.columns | frozenset(merged.values())
    one_left = left.is_one_row_per(frozenset(tie.one for tie in on.equal if not tie.needs))
    one_right = right.is_one_row_per(frozenset(tie.other for tie in on.equal if not tie.needs))
    turned = replace(on, equal=tuple(Tie(tie.other, tie.one, tie.needs) for tie in on.equal))
    effects = [
        *(_across(each, left, right, on, needs_left, needs_right, merged, ties, one_right) for each in left.effects),
        *(
            _across(each, right, left, turned, needs_right, needs_left, merged, ties, one_left)
            for each in right.effects
        ),
    ]
    nulls = {column: left.nulls.get(column, NONE) | needs_left for column in left.columns}
    nulls |= {column: right.nulls.get(column, NONE) | needs_right for column in right.columns}
    unique = (left.unique if one_right else frozenset()) | (right.unique if one_left else frozenset())
    if kind != "full":
        unique |= frozenset(one | other for one in left.unique for other in right.unique)
    unique = frozenset(
        key for key in unique if kind == "inner" or _preserved(key, left if kind == "left" else right, kind)
    )
    types = {**left.types, **right.types}
    for pair, both in merged.items():
        types.setdefault(both, next((types[column] for column in sorted(pair) if types.get(column)), ""))
    ranks = {**(left.ranks if one_right else {}), **(right.ranks if one_left else {})}
    result = Relation(columns, tuple(effects), ties, nulls, types, unique, merged, ranks)
    if kind == "inner":
        matched = nulled(result, on.rejects)
        return settled(result, matched, nulled(result, on.columns) - matched)
    return result


def _preserved(key: Names, side: Relation, kind: Kind) -> bool:
    """Whether a key of an outer join's rows has a part of the side of which each row stays."""
    return kind != "full" and bool(key & side.columns)


def _across(
    effect: Effect, own: Relation, other: Relation, on: Condition, needs_own: Names, needs_other: Names,
    merged: Mapping[Names, str], ties: frozenset[Tie], finds_one: bool,
) -> Effect:  # fmt: skip
    """An effect of one side of a join, seen in its rows; the equalities go from this side to the other."""
    is_optional, other_is_optional = bool(needs_own), bool(needs_other)
    # Where rows are reached by their match alone, what is compared has a value in each of them.
    is_by_match = not other_is_optional
    there = nulled(other, on.rejects & other.columns) if is_by_match else NONE
    equal = spread(effect.pairs, own.ties)
    pairs = {replace(pair, needs=pair.needs | needs_own) for pair in equal}
    for tie in on.equal:
        both = merged[frozenset((tie.one, tie.other))]
        matched = own.nulls.get(tie.one, NONE) if tie.one in on.rejects else NONE
        for pair in equal:
            if pair.column == tie.one:
                needs = (pair.needs - matched) | tie.needs
                found = spread([Pair(tie.other, pair.of, needs)], other.ties)
                pairs |= {replace(each, needs=(each.needs - there) | needs_other) for each in found}
                pairs.add(Pair(both, pair.of, needs if is_by_match else pair.needs | tie.needs))
    asked = on.columns & own.columns
    read, reads, rows, repeats = effect.read_by(asked), effect.reads, effect.rows, effect.repeats
    if other_is_optional and not is_optional:
        # Each row stays. What it finds depends on what is compared; so does how often it stays, if that is many rows.
        shown = other.columns | {merged[frozenset((tie.one, tie.other))] for tie in on.equal}
        reads = {**reads, **dict.fromkeys(shown, read)}
        repeats = repeats if finds_one else repeats | read
    else:
        rows = rows | read
    keeps = effect.keeps(asked)
    if is_optional and not other_is_optional:
        stable = other.columns | (effect.stable if keeps else NONE)
        steady = own.is_one_row_per(frozenset(tie.one for tie in on.equal if not tie.needs)) or (
            effect.steady and keeps
        )
    elif other_is_optional and not is_optional:
        stable = effect.stable | (other.columns if keeps and effect.stable else NONE)
        steady = effect.steady and (keeps or finds_one)
    else:
        stable, steady = (effect.stable | other.columns if keeps else NONE), effect.steady and keeps
    for tie in on.equal:
        kept = {tie.one} if not is_optional and other_is_optional else {tie.one, tie.other}
        kept = {tie.other} if is_optional and not other_is_optional else kept
        if kept <= stable:
            stable |= {merged[frozenset((tie.one, tie.other))]}
    doubts = set(effect.doubts)
    if is_optional and on.columns and not any(not tie.needs for tie in on.equal):
        doubts.add(UNEQUAL)
    if not is_optional and not other_is_optional and effect.table in {each.table for each in other.effects}:
        doubts.add(BOTH_SIDES)
    return replace(
        effect,
        pairs=spread(pairs, ties),
        reads=reads,
        rows=rows,
        repeats=repeats,
        stable=frozenset(stable),
        steady=steady,
        doubts=frozenset(doubts),
    )


def windowed(relation: Relation, windows: Sequence[Window]) -> Relation:
    """Window functions, as columns. A changed row reaches itself, and the rows of its partition by the window alone."""
    effects: list[Effect] = []
    for effect in relation.effects:
        reads, stable = dict(effect.reads), effect.stable
        for window in windows:
            reads[window.name] = effect.read_by(window.columns)
            if effect.keeps(window.columns) and effect.steady:
                stable |= {window.name}
                continue
            partition = {item.plain: item.doubts for item in window.partition if item.plain is not None}
            pairs = frozenset(
                # Of the partition's rows, others than the row itself may be matched.
                Pair(pair.column, pair.of, partition[pair.column] | ({FILTERED} if pair.needs else NONE))
                for pair in spread(effect.pairs, relation.ties)
                if pair.column in partition
            )
            effects.append(
                replace(
                    effect,
                    pairs=spread(pairs, relation.ties),
                    reads={},
                    rows=effect.rows | reads[window.name],
                    stable=relation.columns,
                    steady=True,
                    doubts=effect.doubts | ({MULTIPLIED} if effect.keeps(window.columns) else NONE),
                )
            )
        effects.append(replace(effect, reads=reads, stable=stable))
    ranks = {
        window.name: frozenset(item.plain for item in window.partition if item.plain is not None and not item.doubts)
        for window in windows
        if window.is_row_number and all(item.plain is not None and not item.doubts for item in window.partition)
    }
    return replace(
        relation,
        columns=relation.columns | {window.name for window in windows},
        effects=tuple(effects),
        ranks={**relation.ranks, **ranks},
    )


def grouped(relation: Relation, keys: Sequence[Item], aggregates: Sequence[Item], doubted_by: Names = NONE) -> Relation:
    """Groups. `plain` of an aggregate is the column of which it holds a row's value; `doubted_by`, why keys may not."""
    keys = [replace(each, doubts=each.doubts | doubted_by) for each in keys]
    shown = projected(relation, [*keys, *(replace(each, doubts=each.doubts | {AGGREGATED}) for each in aggregates)])
    names = frozenset(key.name for key in keys)
    asked = NONE.union(*(key.columns for key in keys))
    effects = []
    for before, effect in zip(relation.effects, shown.effects, strict=True):
        stable = effect.stable & names if keys else Names([ONE])
        keeps, doubts = before.keeps(asked) or not keys, before.doubts | doubted_by
        if keeps and before.steady:
            stable |= {each.name for each in aggregates if before.keeps(each.columns)}
        elif keeps and any(before.keeps(each.columns) for each in aggregates):
            doubts |= {MULTIPLIED}
        effects.append(
            replace(
                effect,
                rows=before.rows | before.read_by(asked),
                stable=stable,
                steady=keeps,
                doubts=doubts,
            )
        )
    return replace(
        shown,
        effects=tuple(effects),
        nulls={column: needs for column, needs in shown.nulls.items() if column in names},
        unique=frozenset([] if doubted_by else [names]),
        ranks={},
    )


def distinct(relation: Relation) -> Relation:
    """Rows without repetition."""
    keys = [Item(name, Names([name]), name, NONE, relation.types.get(name, "")) for name in sorted(relation.columns)]
    return replace(grouped(relation, keys, []), nulls=relation.nulls, unique=relation.unique | {relation.columns})


def combined(left: Relation, right: Relation, *, is_union: bool) -> Relation:
    """Rows of two relations with the same names for their columns; of `except` and `intersect`, some of the left."""
    effects = (*left.effects, *right.effects)
    if not is_union:
        effects = tuple(
            replace(each, rows=each.rows | each.read_by(each.reads), stable=NONE, steady=False) for each in effects
        )
    types = {name: kind for name, kind in left.types.items() if right.types.get(name) == kind}
    nulls = {name: left.nulls.get(name, NONE) | right.nulls.get(name, NONE) for name in left.columns}
    return Relation(left.columns, effects, left.ties & right.ties, nulls, types)


def exploded(relation: Relation, names: Names, source: Names, *, is_outer: bool) -> Relation:
    """Rows repeated for the elements of an expression, whose columns are added under some names."""
    effects = []
    for effect in relation.effects:
        read, keeps = effect.read_by(source), effect.keeps(source)
        stable = effect.stable | names if keeps else (effect.stable if is_outer else NONE)
        reads = {**effect.reads, **dict.fromkeys(names, read)}
        effects.append(
            replace(effect, reads=reads, rows=effect.rows | read, stable=stable, steady=effect.steady and keeps)
        )
    return replace(relation, columns=relation.columns | names, effects=tuple(effects), unique=frozenset(), ranks={})


def answered(relation: Relation, question: Relation, on: Condition, name: str, match: str) -> Relation:
    """A subquery's answer for each row, as a column: what it reads stands in `question`, what ties both in `on`."""
    sides = frozenset(question.columns)
    before = tuple(
        replace(each, reads={**each.reads, name: each.read_by(sides) | each.rows}) for each in question.effects
    )
    asked = replace(question, columns=question.columns | {name}, effects=before)
    both = joined(relation, asked, on, "left", match)
    own = len(relation.effects)
    effects = []
    for number, effect in enumerate(both.effects):
        if number < own:
            was = relation.effects[number]
            outer = on.columns & relation.columns
            stable = was.stable | ({name} if was.keeps(outer) else NONE)
            reads = {**was.reads, name: was.read_by(outer)}
            effects.append(replace(was, reads=reads, stable=stable))
        else:
            kept = frozenset(pair for pair in effect.pairs if pair.column in relation.columns)
            reads, rows = {name: effect.read_by([name]) | effect.rows}, NONE
            effects.append(replace(effect, pairs=kept, reads=reads, rows=rows, stable=relation.columns, steady=True))
    return replace(relation, columns=relation.columns | {name}, effects=tuple(effects))
