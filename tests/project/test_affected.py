"""What `python -m dev.affected` derives of queries, and what it says of entries that are written."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from affected_queries import COLUMNS, KEYS, TABLES, State, output, queries, reached, states
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dev.affected.entries import Declared, Entry, Findings, find
from dev.affected.project import read
from dev.affected.queries import Reader, Table

TYPES = {"id": "int", "x": "int", "y": "int", "z": "int", "name": "string", "price": "decimal(8,2)"}
SOURCES = {f"shop.{name}": Declared(tuple(TYPES), frozenset({"id"})) for name in ("a", "b")}
RELATIONS = {f"silver.{name}": Table(f"shop.{name}", TYPES, frozenset({"id"}), is_source=True) for name in ("a", "b")}
RELATIONS |= {
    "staging.stg_b": Table(
        "stg_b", query="select id as b_id, x as b_x from silver.b where not coalesce(__deleted, false)"
    ),
    "reference.bands": Table("bands", {"low": "int", "band": "string"}),
}
Written = Sequence[Mapping[str, Any]]
WHOLE = {"source": "shop.a", "by": {"id": "id"}}
B_BY_X = {"source": "shop.b", "by": {"x": "id"}}


def found(query: str, written: Written = (), key: Sequence[str] = ("id",)) -> Findings:
    """What is found of a query over the tables of a shop."""
    return find(query, key, written, Reader(RELATIONS), SOURCES)


def proposed(query: str, key: Sequence[str] = ("id",)) -> set[str]:
    """The entries that a query implies: source, by and reads in short."""
    return {
        f"{entry.source[5:]} {' '.join(f'{column}={of}' for column, of in entry.by)}"
        + (f" reads {' '.join(entry.reads)}" if entry.reads else "")
        for entry in found(query, (), key).proposed
    }


LEFT = "select a.id, a.x, b.name from silver.a as a left join silver.b as b on a.x = b.id"
PER_GROUP = "select x, count(*) as n, sum(y) as total from silver.a where z > 0 group by x"
FIRST = "select id, x, min(y) over (partition by x) as first_y from silver.a"
LATEST = (
    "select id, x, y from (select *, row_number() over (partition by x order by y desc) as n from silver.a) where n = 1"
)
NUMBERED = "select *, row_number() over (partition by x order by y desc) as n from silver.b"
FULL = "select coalesce(a.id, b.id) as id, a.x, b.y from silver.a as a full join silver.b as b on a.id = b.id"
IMPLIED: list[tuple[str, str, Sequence[str], set[str]]] = [
    ("a table", "select id, x from silver.a", ("id",), {"a id=id"}),
    ("other names", "select id as a_id, x + 1 as more from silver.a", ("a_id",), {"a a_id=id"}),
    ("a filter", "select id from silver.a where x > 1", ("id",), {"a id=id"}),
    ("a left join", LEFT, ("id",), {"a id=id", "b x=id"}),
    (
        "a view",
        "select a.id, a.y, s.b_x from silver.a as a left join staging.stg_b as s on a.y = s.b_id",
        ("id",),
        {"a id=id", "b y=id"},
    ),
    (
        "a right join",
        "select a.id, a.x, b.y from silver.b as b right join silver.a as a on a.x = b.id",
        ("id",),
        {"a id=id", "b x=id"},
    ),
    (
        "an inner join by the key",
        "select a.id, b.y from silver.a as a join silver.b as b on a.id = b.id",
        ("id",),
        {"a id=id", "b id=id"},
    ),
    (
        "an inner join brings rows by both sides",
        "select a.id, a.x from silver.a as a join silver.b as b on a.x = b.id",
        ("id",),
        {"a id=id"},
    ),
    (
        "a comma",
        "select a.id, b.y from silver.a as a, silver.b as b where a.id = b.id",
        ("id",),
        {"a id=id", "b id=id"},
    ),
    ("a full join", FULL, ("id",), {"a id=id", "b id=id"}),
    (
        "using",
        "select id, a.x, b.y from silver.a as a full join silver.b as b using (id)",
        ("id",),
        {"a id=id", "b id=id"},
    ),
    ("groups", PER_GROUP, ("x",), {"a x=x reads y z"}),
    (
        "what each change gives another value",
        "select x, sum(y) as total, max(_hoodie_commit_time) as at from silver.a where not __deleted group by x",
        ("x",),
        {"a x=x"},
    ),
    ("groups by their place", "select x, max(y) as y from silver.a group by 1", ("x",), {"a x=x reads y"}),
    (
        "groups joined",
        "select a.id, a.x, s.n from silver.a as a left join (select y, count(*) as n from silver.b group by y) as s"
        " on a.x = s.y",
        ("id",),
        {"a id=id", "b x=y"},
    ),
    (
        "a key of groups that is not shown",
        "select x, count(*) as n from (select x, z from silver.b group by x, z) group by x",
        ("x",),
        {"b x=x reads z"},
    ),
    ("a window", FIRST, ("id",), {"a id=id", "a x=x reads y"}),
    ("the latest row", LATEST, ("x",), {"a x=x reads id y"}),
    ("a window that nobody reads", f"select id, x from ({FIRST}) as w", ("id",), {"a id=id"}),
    ("a union", "select id, x from silver.a union all select id, y from silver.b", ("id",), {"a id=id", "b id=id"}),
    ("distinct", "select distinct x, y from silver.a", ("x", "y"), {"a x=x y=y"}),
    (
        "exists by the key",
        "select id from silver.a where exists (select 1 from silver.b as b where b.y = a.id)",
        ("id",),
        {"a id=id", "b id=y"},
    ),
    ("in by the key", "select id from silver.a where id in (select x from silver.b)", ("id",), {"a id=id", "b id=x"}),
    (
        "a semi join by the key",
        "select a.id from silver.a as a left semi join silver.b as b on b.x = a.id",
        ("id",),
        {"a id=id", "b id=x"},
    ),
    (
        "a subquery's value",
        "select id, x, (select max(y) from silver.b as b where b.z = a.x) as m from silver.a as a",
        ("id",),
        {"a id=id", "b x=z reads y"},
    ),
    (
        "explode",
        "select id, element from silver.a lateral view explode(split(name, ',')) as element",
        ("id", "element"),
        set(),
    ),
    (
        "a scalar",
        "select id, m.y from silver.a cross join (select max(y) as y from silver.b) as m",
        ("id",),
        {"a id=id"},
    ),
    ("a seed", "select id, bands.band from silver.a left join reference.bands on x >= low", ("id",), {"a id=id"}),
    (
        "a wider cast",
        "select id, cast(x as bigint) as x, b.name from silver.a"
        " left join (select id as b_id, name from silver.b) as b on x = b_id",
        ("id",),
        {"a id=id", "b x=id"},
    ),
    ("the first rows", "select id, x from silver.a order by x desc limit 3", ("id",), set()),
    (
        "the first rows of what is joined",
        "select a.id, b.x from silver.a left join (select id, x from silver.b order by x limit 3) as b on a.id = b.id",
        ("id",),
        {"a id=id"},
    ),
    ("a narrower cast", "select cast(id as tinyint) as id from silver.a", ("id",), set()),
    ("ctes", f"with one as ({LEFT}), final as (select * from one) select * from final", ("id",), {"a id=id", "b x=id"}),
]


@pytest.mark.parametrize(("query", "key", "entries"), [case[1:] for case in IMPLIED], ids=[case[0] for case in IMPLIED])
def test_a_query_implies_entries(query: str, key: Sequence[str], entries: set[str]) -> None:
    assert proposed(query, key) == entries


OMITTED: list[tuple[str, str, Written, Sequence[str], str]] = [
    ("the row that is missing", LEFT.replace("a.x,", "b.id as x,"), [B_BY_X], ("id",), "no column of the model tells"),
    (
        "another column",
        LEFT.replace("a.x,", "a.x, a.y,"),
        [{"source": "shop.b", "by": {"y": "id"}}],
        ("id",),
        "'by': {'x': 'id'}",
    ),
    (
        "a column too much",
        LEFT.replace("a.x,", "a.x, a.y,"),
        [{"source": "shop.b", "by": {"x": "id", "y": "y"}}],
        ("id",),
        "expected",
    ),
    (
        "a join's other side",
        "select a.id, a.x from silver.a as a join silver.b as b on a.x = b.id",
        [B_BY_X],
        ("id",),
        "new rows may come",
    ),
    ("a filter on what is joined", f"{LEFT} where b.y > 0", [B_BY_X], ("id",), "new rows may come"),
    (
        "a column of a group",
        PER_GROUP,
        [{"source": "shop.a", "by": {"x": "x"}, "reads": ["z"]}],
        ("x",),
        "reads lacks y",
    ),
    (
        "a column of a filter",
        PER_GROUP,
        [{"source": "shop.a", "by": {"x": "x"}, "reads": ["y"]}],
        ("x",),
        "reads lacks z",
    ),
    ("the rows of a partition", FIRST, [WHOLE], ("id",), "'by': {'x': 'x'}, 'reads': ['y']"),
    (
        "a window's column",
        FIRST,
        [WHOLE, {"source": "shop.a", "by": {"x": "x"}, "reads": ["z"]}],
        ("id",),
        "reads lacks y",
    ),
    (
        "an earlier row comes back",
        LATEST,
        [WHOLE, {"source": "shop.a", "by": {"x": "x"}}],
        ("id",),
        "leave the table out",
    ),
    ("one side of a full join", FULL, [{"source": "shop.b", "by": {"y": "y"}}], ("id",), "'by': {'id': 'id'}"),
    (
        "a branch of a union",
        "select id, x from silver.a union all select y, x from silver.a",
        [WHOLE],
        ("id",),
        "'by': {'id': 'y'}",
    ),
    (
        "exists",
        "select id, x from silver.a where exists (select 1 from silver.b as b where b.id = a.x)",
        [B_BY_X],
        ("id",),
        "new rows may come",
    ),
    ("in", "select id, x from silver.a where x in (select id from silver.b)", [B_BY_X], ("id",), "new rows may come"),
    (
        "a scalar",
        "select a.id, m.y from silver.a as a cross join (select max(y) as y from silver.b) as m",
        [{"source": "shop.b", "by": {"id": "id"}}],
        ("id",),
        "leave the table out",
    ),
    (
        "a share of a total",
        "select a.id, a.x / whole.x as share from silver.a as a cross join (select sum(x) as x from silver.a) as whole",
        [WHOLE],
        ("id",),
        "leave the table out",
    ),
    (
        "a window over all",
        "select id, max(y) over () as m from silver.a",
        [WHOLE],
        ("id",),
        "no column of the model tells",
    ),
    (
        "distinct",
        "select distinct x, y from silver.a",
        [{"source": "shop.a", "by": {"x": "x"}}],
        ("x", "y"),
        "'by': {'x': 'x', 'y': 'y'}",
    ),
    (
        "the key of new rows",
        "select id, x from silver.a",
        [{"source": "shop.a", "by": {"x": "x"}}],
        ("id",),
        "'by': {'id': 'id'}",
    ),
    (
        "a column of ingest",
        "select x, max(__source_ts_ms) as at from silver.a group by x",
        [{"source": "shop.a", "by": {"x": "x"}, "reads": ["y"]}],
        ("x",),
        "leave reads out",
    ),
    (
        "a column of Hudi",
        "select x, sum(y) as total, max(_hoodie_commit_time) as at from silver.a group by x",
        [{"source": "shop.a", "by": {"x": "x"}, "reads": ["y"]}],
        ("x",),
        "reads lacks _hoodie_commit_time; _hoodie_commit_time cannot be named: leave reads out",
    ),
    (
        "through a view",
        "select a.id, a.x, a.y, s.b_x from silver.a as a left join staging.stg_b as s on a.y = s.b_id",
        [B_BY_X],
        ("id",),
        "through stg_b",
    ),
]


@pytest.mark.parametrize(
    ("query", "written", "key", "told"), [case[1:] for case in OMITTED], ids=[case[0] for case in OMITTED]
)
def test_an_omission_is_named(query: str, written: Written, key: Sequence[str], told: str) -> None:
    findings = found(query, written, key)
    assert any(told in wrong for wrong in findings.wrong), findings


@pytest.mark.parametrize(("query", "key"), [case[1:3] for case in IMPLIED], ids=[case[0] for case in IMPLIED])
def test_what_is_proposed_is_well(query: str, key: Sequence[str]) -> None:
    entries = [
        {"source": each.source, "by": dict(each.by), **({"reads": list(each.reads)} if each.reads else {})}
        for each in found(query, (), key).proposed
    ]
    findings = found(query, entries, key)
    assert (findings.wrong, findings.unsure) == ((), ())


COVERED: list[tuple[str, str, Written, Sequence[str]]] = [
    (
        "fewer columns reach more rows",
        "select a.id, a.x, a.y, b.z from silver.a as a left join silver.b as b on a.x = b.id and a.y = b.y",
        [B_BY_X],
        ("id",),
    ),
    (
        "reads over two entries",
        PER_GROUP,
        [
            {"source": "shop.a", "by": {"x": "x"}, "reads": ["y"]},
            {"source": "shop.a", "by": {"x": "x"}, "reads": ["z"]},
        ],
        ("x",),
    ),
    ("other cases of letters", PER_GROUP, [{"source": "shop.a", "by": {"X": "X"}, "reads": ["Y", "z"]}], ("X",)),
    (
        "a join that a filter makes inner",
        f"select id, b_id, name from ({LEFT.replace('a.x,', 'b.id as b_id,')}) where b_id > 0",
        [WHOLE],
        ("id",),
    ),
    ("a table that is not followed", FIRST, [], ("id",)),
    (
        "a join to one row does not repeat rows",
        "select a.id, a.x, b.y, sum(a.y) over (partition by a.x) as w"
        " from silver.a as a left join silver.b as b on a.x = b.id",
        [B_BY_X],
        ("id",),
    ),
]


@pytest.mark.parametrize(("query", "written", "key"), [case[1:] for case in COVERED], ids=[case[0] for case in COVERED])
def test_what_covers_is_well(query: str, written: Written, key: Sequence[str]) -> None:
    findings = found(query, written, key)
    assert (findings.wrong, findings.unsure) == ((), ())


UNSURE: list[tuple[str, str, Written, str]] = [
    (
        "no equality",
        "select a.id, b.y from silver.a as a left join silver.b as b on a.z > b.id",
        [B_BY_X | {"by": {"y": "y"}}],
        "other than the equality",
    ),
    (
        "an expression",
        "select a.id, a.name, b.y from silver.a as a left join silver.b as b on lower(a.name) = lower(b.name)",
        [B_BY_X | {"by": {"name": "name"}}],
        "other than the equality",
    ),
    (
        "a cast",
        "select a.id, a.x, b.y from silver.a as a left join silver.b as b on a.x = cast(b.price as int)",
        [B_BY_X | {"by": {"x": "price"}}],
        "a cast of decimal(8,2) to int",
    ),
    (
        "types that differ",
        "select a.id, a.x, b.y from silver.a as a left join silver.b as b on a.x = b.name",
        [B_BY_X | {"by": {"x": "name"}}],
        "int is compared with string",
    ),
    (
        "a null among others",
        "select id, x, x not in (select y from silver.b) as is_new from silver.a",
        [B_BY_X | {"by": {"x": "y"}}],
        "a null among what `in` reads",
    ),
    (
        "a null where `in` is shown",
        "select id, x, x in (select y from silver.b) as is_known from silver.a",
        [B_BY_X | {"by": {"x": "y"}}],
        "a null among what `in` reads",
    ),
    ("a limit", "select id, x from silver.a order by x limit 3", [{"source": "shop.a", "by": {"x": "x"}}], "limit"),
    (
        "an aggregate of one row",
        "select a.id, max(a.x) as x, max(b.y) as y from silver.a as a"
        " left join silver.b as b on a.x = b.id group by a.id",
        [B_BY_X],
        "a group is one row",
    ),
    (
        "the latest row, exploded",
        "select a.id, count(*) as n from silver.a as a left join"
        f" (select x, word from ({NUMBERED}) as l lateral view explode(split(name, ' ')) as word where n = 1) as l"
        " on a.id = l.x group by a.id",
        [{"source": "shop.b", "by": {"id": "x"}, "reads": ["y"]}],
        "reads lacks name",
    ),
    (
        "the latest row, joined to many",
        "select a.id, count(*) as n from silver.a as a left join"
        f" (select l.x from ({NUMBERED}) as l left join silver.a as r on l.y = r.y where n = 1) as l"
        " on a.id = l.x group by a.id",
        [WHOLE],
        "whether a join finds one row",
    ),
    (
        "the total of all groups",
        "select a.id, a.y, g.n from silver.a as a"
        " left join (select x, y, count(*) as n from silver.b group by x, y with rollup) as g on g.x <=> a.y",
        [{"source": "shop.b", "by": {"y": "x"}}],
        "rows of grouping sets",
    ),
    (
        "the key of groups and their total",
        "select x as id, z, count(*) as n from silver.a group by z, cube(x)",
        [{"source": "shop.a", "by": {"id": "x"}}],
        "rows of grouping sets",
    ),
    ("what is not known", "select * from silver.a pivot (sum(y) for x in (1, 2))", [WHOLE], "nothing is derived"),
]


@pytest.mark.parametrize(("query", "written", "told"), [case[1:] for case in UNSURE], ids=[case[0] for case in UNSURE])
def test_what_cannot_be_told_is_no_omission(query: str, written: Written, told: str) -> None:
    findings = found(query, written)
    assert findings.wrong == ()
    assert any(told.replace("a group", "its group") in each for each in findings.unsure), findings


WRONG: list[tuple[Any, str]] = [
    ({"source": "shop.c", "by": {"id": "id"}}, "got source 'shop.c', expected one of shop.a, shop.b"),
    ({"source": "shop.a", "by": {"id": "number"}}, "got column 'number' of shop.a, expected one of id, x, y, z"),
    ({"source": "shop.a", "by": {"id": "id"}, "reads": ["cost"]}, "got column 'cost' of shop.a, expected one of id"),
    ({"source": "shop.a", "by": {"a_id": "id"}}, "got column 'a_id' of the model, expected one of id, x"),
    ({"source": "shop.a", "by": {}}, "expected {source: <source>.<table>, by: "),
    ({"source": "shop.a", "by": {"id": "id"}, "reads": "x"}, "with reads: [<column of the table>]"),
    ("shop.a", "expected {source: <source>.<table>, by: "),
]


@pytest.mark.parametrize(("entry", "told"), WRONG)
def test_unknown_names_are_named_with_the_known_ones(entry: Any, told: str) -> None:
    assert any(told in wrong for wrong in found("select id, x from silver.a", [entry]).wrong)


def test_a_key_that_the_query_lacks_is_named() -> None:
    assert found("select id, x from silver.a", [], ("a_id",)).wrong == ("unique_key a_id: expected one of id, x",)


@pytest.mark.parametrize("written", ["a_id, b_id", ["a_id", "b_id"]])
def test_a_key_of_several_columns_is_one_text_or_a_list(written: Any) -> None:
    config = {"materialized": "incremental", "unique_key": written}
    node = {"name": "model", "resource_type": "model", "config": config, "columns": {}, "relation_name": "shop.model"}
    project = read({"sources": {}, "nodes": {"model.shop.model": node}})
    assert project.models["model"].unique_key == ("a_id", "b_id")


def test_a_snapshot_may_find_many_rows_for_its_key() -> None:
    config = {"materialized": "snapshot", "unique_key": "y"}
    node = {"name": "versions", "resource_type": "snapshot", "config": config, "columns": {}}
    versions = read({"sources": {}, "nodes": {"snapshot.shop.versions": {**node, "relation_name": "old.versions"}}})
    query = "select a.x, sum(a.z) as z from silver.a as a left join old.versions as v on a.y = v.y group by a.x"
    (entry,) = find(query, ["x"], None, Reader({**RELATIONS, **versions.tables}), SOURCES).proposed
    assert entry.reads == ("y", "z")


# Random queries and changes: SQLite gives the rows before and after.

OF_TABLES = {name: Table(name, dict.fromkeys(COLUMNS, "int"), frozenset({"id"}), is_source=True) for name in TABLES}
DECLARED = {name: Declared(COLUMNS, frozenset({"id"})) for name in TABLES}


def require_law(query: str, key: Sequence[str], entries: Sequence[Entry], before: State, after: State) -> None:
    """Every row that differs is computed again, where tables with entries change. What is no key is passed over."""
    followed = {entry.source for entry in entries}
    after = {name: (after if name in followed else before)[name] for name in TABLES}
    was, now = output(query, before).by(key), output(query, after).by(key)
    if was is not None and now is not None:
        differing = {values for values in was.keys() | now.keys() if was.get(values) != now.get(values)}
        assert differing <= reached(entries, key, before, after, was), [str(entry) for entry in entries]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(queries, states, states)
def test_random_changes_reach_no_row_beyond_what_is_proposed(query: str, before: State, after: State) -> None:
    for key in KEYS:
        require_law(query, key, find(query, key, None, Reader(OF_TABLES), DECLARED).proposed, before, after)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(queries, states, states, st.sampled_from(KEYS), st.randoms(use_true_random=False))
def test_entries_in_which_nothing_is_missed_reach_every_row(
    query: str, before: State, after: State, key: Sequence[str], draw: random.Random
) -> None:
    written = list(changed_entries(find(query, key, None, Reader(OF_TABLES), DECLARED).proposed, draw))
    told = [
        {"source": each.source, "by": dict(each.by), **({"reads": list(each.reads)} if each.reads else {})}
        for each in written
    ]
    findings = find(query, key, told, Reader(OF_TABLES), DECLARED)
    if not findings.wrong and not findings.unsure:
        require_law(query, key, written, before, after)


def changed_entries(entries: Sequence[Entry], draw: random.Random) -> Sequence[Entry]:
    """Entries as a person may write them: one left out, a column of `reads` or `by` forgotten, another one named."""
    some = [each for each in entries if draw.random() > 0.15]
    found = []
    for each in some:
        reads, by = each.reads, each.by
        if draw.random() < 0.3:
            reads = tuple(name for name in reads or COLUMNS if draw.random() < 0.7) or None
        if draw.random() < 0.2:
            by = ((draw.choice(COLUMNS), draw.choice(COLUMNS)),)
        found.append(Entry(each.source, by, reads))
    return found
