"""What Athena refuses and Trino accepts: a rule each, with the page of Athena's documentation that says so.

The local Athena runs SQL on Trino (docs/reference). These rules look at what it cannot show.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from ci.athena.queries import HIVE_PRECISION, Compiled, Query, calls
from ci.athena.words import FUNCTIONS, RESERVED
from dev.affected.project import NOT_COMPILED

HUDI_VERSION = 6
QUERY_BYTES = 262_144
NAME_BYTES = 255
PARTITIONS = 100
TIMESTAMPS = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ, exp.DataType.Type.DATETIME)
ZONED = (exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ)

Found = Iterator[tuple[str, str]]
Rule = Callable[[Compiled], Found]
RULES: dict[str, Rule] = {}


def rule(check: Rule) -> Rule:
    """Makes a function one of the rules, under its name."""
    RULES[check.__name__] = check
    return check


@rule
def hudi_table_versions(compiled: Compiled) -> Found:
    """A silver table that declares a Hudi table version above 6.

    Athena reads what Hudi 0.14 and 0.15 write, and they write table version 6; Trino 476 reads 8 and 9 as well.
    https://docs.aws.amazon.com/athena/latest/ug/querying-hudi-in-athena-considerations-and-limitations.html
    """
    for source in compiled.sources:
        version = _version(source)
        if version and version > HUDI_VERSION:
            yield _name(source), f"declares Hudi table version {version}, expected {HUDI_VERSION}, which Athena reads"


def _version(source: Mapping[str, Any]) -> int | None:
    """The highest table version that a source declares: for ingest, or as a property of the table itself."""
    external = source.get("external") or {}
    properties = [external.get(kind) or {} for kind in ("tbl_properties", "table_properties", "options")]
    own, inherited = (
        (told or {}).get("ingest") or {} for told in (source["config"]["meta"], source.get("source_meta"))
    )
    found = [{**inherited, **own}.get("table_version")]
    found += [each.get(name) for each in properties for name in ("hoodie.write.table.version", "hoodie.table.version")]
    return max((int(version) for version in map(str, found) if version.isdecimal()), default=None)


@rule
def real_time_timestamps(compiled: Compiled) -> Found:
    """A query of timestamps of a merge-on-read table's real-time view: it fails, or gives no rows.

    https://docs.aws.amazon.com/athena/latest/ug/querying-hudi-in-athena-considerations-and-limitations.html
    ("Timestamp queries"). The read-optimized view is what every engine agrees on.
    """
    for query in compiled.queries:
        tables = query.tree.find_all(exp.Table) if isinstance(query.tree, exp.Expr) else ()
        for table in sorted({table.name for table in tables if table.name.endswith("_rt")}):
            yield query.name, f"reads {table}, whose timestamps Athena cannot read: read {table[:-3]}_ro"


@rule
def functions(compiled: Compiled) -> Found:
    """A function that Athena's engine version 3 is not known to have.

    https://docs.aws.amazon.com/athena/latest/ug/functions-env3.html; ci/athena/words.yml has the list. Trino's newer
    functions, such as bitwise_xor_agg of its release 447, are not on it, and those of Spark neither.
    """
    texts = [(query.name, query.text) for query in compiled.queries]
    texts += [(str(each["source_name"]), str(each.get("loaded_at_field") or "")) for each in compiled.sources]
    for name, text in dict.fromkeys(texts):
        unknown = sorted({word for word in calls(text) if word not in FUNCTIONS})
        if unknown:
            yield name, f"calls {', '.join(unknown)}, which Athena's engine version 3 is not known to have"


@rule
def timestamp_precisions(compiled: Compiled) -> Found:
    """A timestamp that the table Athena writes cannot hold: Hive tables hold milliseconds, Iceberg tables microseconds.

    A Hive table and a view hold none with time zone. Of Iceberg tables that the project makes itself it looks at those
    alone that are within an array, a map or a row, for the others are cast as the table is made.
    https://docs.aws.amazon.com/athena/latest/ug/engine-versions-reference-0003.html ("Timestamp changes") and
    https://docs.aws.amazon.com/athena/latest/ug/querying-iceberg-supported-data-types.html. Trino writes what it gets.
    """
    for query in compiled.queries:
        is_asked = query.is_table and not (query.is_iceberg and compiled.has_own_tables)
        for column, kind in query.types.items():
            times = [each for each in kind.find_all(exp.DataType) if each.this in (*TIMESTAMPS, *ZONED)]
            wrong = [each for each in times if query.is_table and _precision(each) != query.precision]
            if any(each.this in ZONED for each in times) and not (query.is_table and query.is_iceberg):
                yield query.name, f"shows {column} with time zone, expected a timestamp without"
            elif wrong and wrong[0] is not kind:
                told = f"writes {column} with a timestamp({_precision(wrong[0])}) within"
                yield query.name, f"{told}, expected {_wanted(query)}"
            elif wrong and is_asked:
                yield query.name, f"writes {column} as timestamp({_precision(kind)}), expected {_wanted(query)}"
        for column in _untold(query) if is_asked else ():
            yield (
                query.name,
                f"writes {column} with an unknown precision, expected a cast to {_wanted(query)}",
            )


def _precision(kind: exp.DataType) -> int:
    """The digits of a second that a type has: 3 where it does not say."""
    return int(kind.expressions[0].name) if kind.expressions else HIVE_PRECISION


def _wanted(query: Query) -> str:
    return f"timestamp({query.precision}) of {'an Iceberg' if query.is_iceberg else 'a Hive'} table"


def _untold(query: Query) -> list[str]:
    """The columns that are declared as timestamps, and whose type could not be derived; not those that dbt adds."""
    names = [name for name, column in query.node["columns"].items() if column.get("data_type") == "timestamp"]
    own = [name for name in names if query.config.get("materialized") != "snapshot" or not name.startswith("dbt_")]
    return [name for name in own if name.lower() not in query.types]


@rule
def open_partitions(compiled: Compiled) -> Found:
    """A partitioned table that one statement may write more than 100 partitions of.

    https://docs.aws.amazon.com/athena/latest/ug/ctas-insert-into.html. `partition_by` is what models say for every
    engine, and `partitioned_by` dbt-athena's own, which it writes in parts of 100 with `force_batch: true`. A bucket
    transform of at most 100 has no more.
    """
    for query in compiled.queries:
        own = [] if query.config.get("force_batch") else _listed(query.config.get("partitioned_by"))
        parts = [*_listed(query.config.get("partition_by")), *own]
        if query.is_table and parts and not _is_bounded(parts):
            told = f"is partitioned by {', '.join(parts)}, and one statement writes at most {PARTITIONS} partitions"
            yield query.name, f"{told}: expected few, with the reason in the baseline, or a bucket transform"


def _listed(told: Any) -> list[str]:
    return [told] if isinstance(told, str) else list(told or ())


def _is_bounded(parts: list[str]) -> bool:
    buckets = [re.fullmatch(r"bucket\(\s*\w+\s*,\s*(\d+)\s*\)", part.strip(), re.IGNORECASE) for part in parts]
    number = 1
    for bucket in buckets:
        number *= int(bucket[1]) if bucket else PARTITIONS + 1
    return number <= PARTITIONS


@rule
def reserved_words(compiled: Compiled) -> Found:
    """A name that Athena reserves, without quotes. Trino reserves fewer: `first`, `last` and `skip` are names there.

    https://docs.aws.amazon.com/athena/latest/ug/reserved-words.html. A contract's columns are written into SQL, too.
    """
    for query in compiled.queries:
        names = set()
        if isinstance(query.tree, exp.Expr):
            names = {each.name.lower() for each in query.tree.find_all(exp.Identifier) if not each.args.get("quoted")}
        if query.config.get("contract", {}).get("enforced"):
            names |= {name.lower() for name, column in query.node["columns"].items() if not column.get("quote")}
        for name in sorted(names & RESERVED):
            yield query.name, f"names {name}, which Athena reserves, without quotes"


@rule
def upper_case(compiled: Compiled) -> Found:
    """A table or column with upper case in its name: Athena and Glue have lower case alone.

    https://docs.aws.amazon.com/athena/latest/ug/tables-databases-columns-names.html
    """
    for subject, names in _named(compiled):
        wrong = list(dict.fromkeys(name for name in names if name != name.lower()))
        if wrong:
            yield subject, f"has names with upper case: {', '.join(wrong)}, expected lower case"


def _named(compiled: Compiled) -> Iterator[tuple[str, list[str]]]:
    """The names of tables and columns that the catalog gets."""
    for source in compiled.sources:
        yield _name(source), [source["schema"], source["identifier"], *source["columns"]]
    for query in compiled.queries:
        shown = query.tree.named_selects if isinstance(query.tree, exp.Query) else []
        yield query.name, [query.node["schema"], query.node["alias"], *query.node["columns"], *shown]


@rule
def long_names(compiled: Compiled) -> Found:
    """A name of more than 255 bytes, which Glue does not take.

    https://docs.aws.amazon.com/athena/latest/ug/tables-databases-columns-names.html
    """
    named = [(_name(each), [each["schema"], each["identifier"], *each["columns"]]) for each in compiled.sources]
    named += [
        (each.name, [each.node["schema"], each.node["alias"], *each.node["columns"]]) for each in compiled.queries
    ]
    for subject, names in named:
        for name in names:
            if len(name.encode()) > NAME_BYTES:
                yield (
                    subject,
                    f"has a name of {len(name.encode())} bytes, {name[:20]}..., expected at most {NAME_BYTES}",
                )


@rule
def query_sizes(compiled: Compiled) -> Found:
    """A query of more than 262,144 bytes, which Athena does not take.

    https://docs.aws.amazon.com/athena/latest/ug/service-limits.html ("Query string length")
    """
    for query in compiled.queries:
        size = len(query.text.encode())
        if size > QUERY_BYTES:
            yield query.name, f"compiles to {size} bytes, expected at most {QUERY_BYTES}"


@rule
def unreadable(compiled: Compiled) -> Found:
    """SQL that cannot be read as Athena's, or is not compiled: the other rules have not looked at it.

    https://docs.aws.amazon.com/athena/latest/ug/select.html has the grammar.
    """
    for query in compiled.queries:
        if isinstance(query.tree, SqlglotError):
            yield query.name, query.node.get(NOT_COMPILED) or f"cannot be read: {str(query.tree).splitlines()[0]}"


@rule
def newer_syntax(compiled: Compiled) -> Found:
    """Syntax that Trino has and Athena's SELECT has not: functions in WITH, `group by auto`.

    https://docs.aws.amazon.com/athena/latest/ug/select.html has the grammar; Trino's releases 431 and later add these.
    """
    for query in compiled.queries:
        text = re.sub(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", " ", query.text, flags=re.DOTALL)
        for what in (r"with\s+function", r"with\s+session", r"group\s+by\s+auto"):
            if found := re.search(rf"\b{what}\b", text, re.IGNORECASE):
                yield query.name, f"says {' '.join(found[0].lower().split())}, which Athena's SELECT has not"


def _name(source: Mapping[str, Any]) -> str:
    return f"{source['source_name']}.{source['name']}"
