"""Random queries over three tables, in SQL that Spark and SQLite share, and random changes of the tables' rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from dev.affected.entries import Entry

COLUMNS = ("id", "x", "y", "z")
TABLES = ("a", "b", "c")
KEYS = (("id",), ("x",), ("y",), ("id", "x"), ("id", "y"), ("x", "y"), ("id", "x", "y"), COLUMNS)
Value = int | None
Rows = Mapping[int, tuple[Value, ...]]
State = Mapping[str, Rows]
Key = tuple[Value, ...]

values = st.sampled_from([0, 1, 2, 3, None])
rows = st.dictionaries(st.integers(0, 4), st.tuples(values, values, values), max_size=5).map(
    lambda found: {number: (number, *rest) for number, rest in found.items()}
)
states = st.fixed_dictionaries(dict.fromkeys(TABLES, rows))
names = st.sampled_from(COLUMNS)


@st.composite
def one_source(draw: st.DrawFn) -> str:
    """A relation over one table."""
    table, one, other, third = draw(st.sampled_from(TABLES)), draw(names), draw(names), draw(names)
    return draw(
        st.sampled_from(
            [
                f"select * from {table}",
                f"select id, {one} as x, {other} as y, {third} as z from {table}",
                f"select id, x, y, z from {table} where {one} > 0",
                f"select id, x, coalesce({one}, 0) as y, {other} + 1 as z from {table}",
                f"select {one} as id, min({other}) as x, count(*) as y, sum({third}) as z from {table} group by {one}",
                f"select {one} as id, {other} as x, max(z) as y, count(x) as z from {table} group by {one}, {other}"
                f" having max({third}) > 0",
                f"select distinct {one} as id, {other} as x, {other} as y, {third} as z from {table}",
                f"select id, x, y, min({other}) over (partition by {one}) as z from {table}",
                f"select id, x, sum(y) over (partition by {one}, {other} order by {third}, id) as y, {one} as z"
                f" from {table}",
                "select id, x, y, z from"
                f" (select *, row_number() over (partition by {one} order by {other}, id) as place from {table})"
                " as ranked where place = 1",
                f"select max(id) as id, max({one}) as x, count(*) as y, min({other}) as z from {table}",
            ]
        )
    )


@st.composite
def two_sources(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    """A relation over two relations."""
    one, other = draw(inner), draw(inner)
    left, right, third = draw(names), draw(names), draw(names)
    kind = draw(st.sampled_from(["left", "left", "left", "inner", "right", "full", "cross"]))
    compared = f"l.{left} = r.{right}"
    extra = draw(
        st.sampled_from(["", "", "", f" and r.{third} > 0", f" and l.{third} = r.{left}", f" and l.{left} > 0"])
    )
    on = "" if kind == "cross" else f" on {draw(st.sampled_from([compared] * 5 + [f'l.{left} < r.{right}']))}{extra}"
    where = draw(
        st.sampled_from(
            [""] * 5 + [f" where r.{third} > 0", f" where l.{third} is null", f" where r.{right} = l.{third}"]
        )
    )
    sides = st.sampled_from([f"l.{name}" for name in COLUMNS] + [f"r.{name}" for name in COLUMNS])
    shown = [draw(sides) for _ in range(4)]
    if draw(st.booleans()):
        shown[0] = draw(st.sampled_from(["l.id", f"coalesce(l.{left}, r.{right})"]))
    columns = ", ".join(f"{expression} as {name}" for expression, name in zip(shown, COLUMNS, strict=True))
    join = f"from ({one}) as l {kind} join ({other}) as r{on}{where}"
    also = draw(st.sampled_from(["", f" and r.{third} > 0"]))
    asked = f"{draw(names)}, z from ({other}) as r where r.{right} = l.{left}{also}"
    return draw(
        st.sampled_from(
            [f"select {columns} {join}"] * 4
            + [
                f"select {shown[0]} as id, count(*) as x, max({shown[1]}) as y, min({shown[2]}) as z {join}"
                f" group by {shown[0]}",
                f"select {shown[0]} as id, {shown[1]} as x, min({shown[2]}) over (partition by {shown[3]}) as y,"
                f" {shown[3]} as z {join}",
                f"select id, x, y, z from ({one}) as l"
                f" union all select {left}, {right}, {third}, id from ({other}) as r",
                f"select id, x, y, z from ({one}) as l union select id, {left}, y, {third} from ({other}) as r",
                f"select id, x, y, z from ({one}) as l except select id, {left}, y, {third} from ({other}) as r",
                f"select * from ({one}) as l where exists (select {asked})",
                f"select * from ({one}) as l where not exists (select {asked})",
                f"select * from ({one}) as l where l.{left} in (select {right} from ({other}) as r)",
                f"select * from ({one}) as l where l.{left} not in (select {right} from ({other}) as r)",
                f"select id, x, y, l.{left} in (select {right} from ({other}) as r) as z from ({one}) as l",
                f"select id, x, {left} as y, (select max({third}) from ({other}) as r where r.{right} = l.{left}) as z"
                f" from ({one}) as l",
                f"select id, x, y, (select count(*) from ({other}) as r) as z from ({one}) as l",
                f"with l as ({one}), r as ({other}) select {columns} from l left join r on l.{left} = r.{right}"
                f" left join l as again on again.id = r.{third}",
                f"select {columns} from"
                f" (select *, row_number() over (partition by {left} order by {third}, id, x, y, z) as place"
                f" from ({one}) as n) as l left join ({other}) as r on l.{third} = r.{right} where place = 1",
            ]
        ).filter(lambda query: "as again" not in query or "select l." in query)
    )


queries = st.one_of(
    one_source(), two_sources(one_source()), two_sources(st.one_of(one_source(), two_sources(one_source())))
)


@dataclass(frozen=True)
class Output:
    """The rows of a query, each as often as it comes."""

    rows: tuple[tuple[Value, ...], ...]

    def by(self, key: Sequence[str]) -> dict[Key, tuple[Value, ...]] | None:
        """The rows by their key; None where that is none."""
        found = {tuple(row[COLUMNS.index(name)] for name in key): row for row in self.rows}
        is_key = len(found) == len(self.rows) and not any(value is None for values in found for value in values)
        return found if is_key else None


def output(query: str, state: State) -> Output:
    """What a query gives of the rows of some tables."""
    connection = sqlite3.connect(":memory:")
    try:
        for name, content in state.items():
            connection.execute(f"create table {name} (id, x, y, z)")
            connection.executemany(f"insert into {name} values (?, ?, ?, ?)", content.values())
        return Output(tuple(connection.execute(query).fetchall()))
    finally:
        connection.close()


def reached(
    entries: Iterable[Entry], key: Sequence[str], before: State, after: State, present: Mapping[Key, tuple[Value, ...]]
) -> set[Key]:
    """The keys that an increment computes again: those of changed rows, and of rows that are there."""
    found: set[Key] = set()
    for entry in entries:
        one, other = before[entry.source], after[entry.source]
        looked = COLUMNS if entry.counts is None else sorted(entry.counts)
        for number in one.keys() | other.keys():
            versions = [content[number] for content in (one, other) if number in content]
            seen = [tuple(version[COLUMNS.index(name)] for name in looked) for version in versions]
            if len(versions) == 2 and seen[0] == seen[1]:
                continue
            for version in versions:
                held = {column: version[COLUMNS.index(of)] for column, of in entry.by}
                if held.keys() == set(key):
                    found.add(tuple(held[name] for name in key))
                found |= {
                    own for own, row in present.items() if all(row[COLUMNS.index(name)] == held[name] for name in held)
                }
    return found
