"""Athena's statements as Trino takes them: queries pass as they are, what defines tables is written anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dev.chain.athena.names import NAME, PART, Name, bracketed, listed, trino_type

HIVE, ICEBERG = "awsdatacatalog", "iceberg"
_NOT_TRINOS = ("is_external", "write_compression", "compression_level")


class RefusedError(Exception):
    """A statement that Athena refuses, or that nothing stands for here."""


@dataclass(frozen=True)
class Statement:
    """What is to be done for one statement of Athena's.

    Attributes
    ----------
    kind:
        `DDL`, `DML` or `UTILITY`, as Athena tells it; rows of the first and the last are plain text.
    steps:
        Statements for Trino, in order; the rows of the last are the result.
    view:
        The view that it makes, whose columns the catalog is to have.
    properties:
        A table, and parameters that it gets in the catalog.
    iceberg_select:
        The select of a new Iceberg table, whose times must have Iceberg's precision.
    """

    kind: str
    steps: tuple[str, ...] = ()
    view: Name | None = None
    properties: tuple[Name, dict[str, str]] | None = None
    iceberg_select: str | None = None


@dataclass(frozen=True)
class Dialect:
    """Translates, given the schema of a query and what the catalog says of a table.

    Attributes
    ----------
    is_iceberg:
        Whether a table is one of Iceberg.
    """

    schema: str
    is_iceberg: Callable[[Name], bool] = field(repr=False)

    def translate(self, sql: str) -> Statement:
        """What is to be done for a statement.

        Raises
        ------
        RefusedError
            It is none of Athena's, or none that is translated.
        """
        text = re.sub(r"\A(\s*--[^\n]*\n|\s*/\*.*?\*/)*", "", sql, flags=re.DOTALL).strip().rstrip(";").rstrip()
        for pattern, form in _FORMS:
            if found := re.match(pattern, text, re.IGNORECASE | re.DOTALL):
                if form in _HIVE_FORMS and '"' in found.group(0):
                    raise RefusedError(f"mismatched input '\"' in {text[:60]!r}: Athena's DDL quotes with backticks")
                return form(self, found, text[found.end() :])
        first = (text.split(None, 1) or [""])[0].lower()
        if first in (
            "select",
            "with",
            "insert",
            "merge",
            "update",
            "delete",
            "values",
            "explain",
            "(",
            "create",
            "show",
        ):
            return Statement("DML", (text,))
        raise RefusedError(f"mismatched input '{first}': no statement of Athena's that is translated here")

    def name(self, text: str) -> Name:
        """A name of a statement."""
        return Name.of(text, self.schema)

    def found(self, name: Name) -> str:
        """The name of a table in the catalog of its kind: Trino renames and alters it only there."""
        return name.within(ICEBERG if self.is_iceberg(name) else HIVE)


def _schema(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    return Statement("DDL", (f'create schema {found["if"] or ""} "{HIVE}"."{dialect.name(found["name"]).table}"',))


def _drop_schema(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    return Statement("DDL", (f'drop schema {found["if"] or ""} "{HIVE}"."{dialect.name(found["name"]).table}" {rest}',))


def _create_table_as(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    name = dialect.name(found["name"])
    given, query = bracketed(found["open"] + rest)
    properties = dict(_properties(given))
    kind = properties.pop("table_type", "'HIVE'").strip("'").lower()
    # What Trino's tables do not know: who owns the files, how they are packed, when old ones go.
    for option in list(properties):
        if option in _NOT_TRINOS or option.startswith(("vacuum_", "optimize_")):
            properties.pop(option)
    select = re.sub(r"\A\s*as\b\s*", "", query, flags=re.IGNORECASE)
    properties["format"] = properties.get("format", "'PARQUET'").upper()
    settings = ", ".join(f"{option} = {value}" for option, value in properties.items())
    made = name.within(ICEBERG if kind == "iceberg" else HIVE)
    return Statement(
        "DDL",
        (f"create table {found['if'] or ''} {made} with ({settings}) as\n{select}",),
        iceberg_select=select if kind == "iceberg" else None,
    )


def _create_table(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    """A table without rows of its own: files that are there, or a new Iceberg table."""
    name = dialect.name(found["name"])
    columns, after = bracketed(found["open"] + rest)
    clauses = _Clauses.of(after)
    declared = ", ".join(_declared(column) for column in listed(columns))
    if clauses.properties.get("table_type", "").lower() == "iceberg":
        parts = f", partitioning = array[{_texts(listed(clauses.partitions))}]" if clauses.partitions else ""
        return Statement(
            "DDL",
            (f"create table {name.within(ICEBERG)} ({declared}) with (location = {clauses.location}{parts})",),
        )
    if "OpenCSVSerde" not in clauses.serde:
        raise RefusedError(
            "create external table is translated for OpenCSVSerde alone; others are registered through Glue"
        )
    skipped = clauses.properties.get("skip.header.line.count", "0")
    return Statement(
        "DDL",
        (
            f"create table {found['if'] or ''} {name.within(HIVE)} ({declared}) with (external_location = "
            f"{clauses.location}, format = 'CSV', skip_header_line_count = {skipped})",
        ),
    )


def _alter(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    name = dialect.name(found["name"])
    table = dialect.found(name)
    for pattern, steps in (
        (rf"rename\s+to\s+(?P<to>{NAME})$", _rename),
        (r"add\s+columns\s*(?P<open>\()", _add_columns),
        (
            rf"drop\s+column\s+(?P<column>{PART})$",
            lambda _, table, of: [f"alter table {table} drop column {_plain(of['column'])}"],
        ),
        (rf"change\s+(?:column\s+)?(?P<column>{PART})\s+(?P<new>{PART})\s+(?P<type>.+)$", _change_column),
        (r"set\s+tblproperties\s*(?P<open>\()", None),
    ):
        if of := re.match(pattern, rest.strip(), re.IGNORECASE | re.DOTALL):
            if steps is None:
                return Statement(
                    "DDL", properties=(name, _quoted_properties(bracketed(rest.strip()[of.end() - 1 :])[0]))
                )
            values = {**of.groupdict(), "rest": rest.strip()[of.end() :]}
            return Statement("DDL", tuple(steps(dialect, table, values)))
    raise RefusedError(
        f"alter table is translated for rename, add, drop and change columns, and set tblproperties: {rest[:60]!r}"
    )


def _rename(dialect: Dialect, table: str, of: dict[str, str]) -> Iterator[str]:
    catalog = table.split(".", maxsplit=1)[0].strip('"')
    yield f"alter table {table} rename to {dialect.name(of['to']).within(catalog)}"


def _add_columns(dialect: Dialect, table: str, of: dict[str, str]) -> Iterator[str]:
    for column in listed(bracketed("(" + of["rest"])[0]):
        yield f"alter table {table} add column {_declared(column)}"


def _change_column(dialect: Dialect, table: str, of: dict[str, str]) -> Iterator[str]:
    column, new = _plain(of["column"]), _plain(of["new"])
    if column.lower() != new.lower():
        yield f"alter table {table} rename column {column} to {new}"
    else:
        yield f"alter table {table} alter column {column} set data type {trino_type(of['type'])}"


def _drop(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    name = dialect.name(found["name"])
    kind = found["kind"].lower()
    table = name.within(HIVE) if kind == "view" else dialect.found(name)
    return Statement("DDL", (f"drop {kind} {found['if'] or ''} {table}",))


def _create_view(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    name = dialect.name(found["name"])
    return Statement("DDL", (f"create {found['or'] or ''} view {name.within(HIVE)} as\n{rest}",), view=name)


def _repair(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    name = dialect.name(found["name"])
    return Statement("DDL", (f"call {HIVE}.system.sync_partition_metadata('{name.schema}', '{name.table}', 'FULL')",))


def _optimize(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    table = dialect.name(found["name"]).within(ICEBERG)
    return Statement("DML", (f"alter table {table} execute optimize {found['where'] or ''}",))


def _vacuum(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    table = dialect.name(found["name"]).within(ICEBERG)
    return Statement(
        "UTILITY",
        (
            f"alter table {table} execute expire_snapshots(retention_threshold => '0s')",
            f"alter table {table} execute remove_orphan_files(retention_threshold => '0s')",
        ),
    )


def _show_partitions(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    name = dialect.name(found["name"])
    parts = Name(name.schema, f"{name.table}$partitions")
    return Statement("UTILITY", (f"select * from {parts.within(HIVE)}",))


def _show_tables(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    schema = dialect.name(found["name"]).table if found["name"] else dialect.schema
    return Statement("UTILITY", (f'show tables from "{HIVE}"."{schema}"',))


def _show_schemas(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    return Statement("UTILITY", (f'show schemas from "{HIVE}"',))


def _describe(dialect: Dialect, found: re.Match[str], rest: str) -> Statement:
    return Statement("UTILITY", (f"describe {dialect.name(found['name']).within(HIVE)}",))


_IF = r"(?P<if>if\s+(?:not\s+)?exists\s+)?"
_FORMS: list[tuple[str, Callable[[Dialect, re.Match[str], str], Statement]]] = [
    (rf"create\s+(?:schema|database)\s+{_IF}(?P<name>{NAME})", _schema),
    (rf"drop\s+(?:schema|database)\s+{_IF}(?P<name>{NAME})", _drop_schema),
    (rf"create\s+table\s+{_IF}(?P<name>{NAME})\s+with\s*(?P<open>\()", _create_table_as),
    (rf"create\s+(?:external\s+)?table\s+{_IF}(?P<name>{NAME})\s*(?P<open>\()", _create_table),
    (rf"create\s+(?P<or>or\s+replace\s+)?view\s+(?P<name>{NAME})\s+as\b", _create_view),
    (rf"alter\s+table\s+(?P<name>{NAME})\s+", _alter),
    (rf"drop\s+(?P<kind>table|view)\s+{_IF}(?P<name>{NAME})$", _drop),
    (rf"msck\s+repair\s+table\s+(?P<name>{NAME})$", _repair),
    (rf"optimize\s+(?P<name>{NAME})\s+rewrite\s+data\s+using\s+bin_pack(?P<where>\s+where\s.*)?$", _optimize),
    (rf"vacuum\s+(?P<name>{NAME})$", _vacuum),
    (rf"show\s+partitions\s+(?P<name>{NAME})$", _show_partitions),
    (rf"show\s+tables(?:\s+(?:in|from)\s+(?P<name>{NAME}))?$", _show_tables),
    (r"show\s+(?:databases|schemas)$", _show_schemas),
    (rf"describe\s+(?P<name>{NAME})$", _describe),
]
# Those that Hive's grammar reads on Athena.
_HIVE_FORMS = (_schema, _drop_schema, _create_table, _alter, _repair)


def _properties(text: str) -> Iterator[tuple[str, str]]:
    for setting in listed(text):
        option, _, value = setting.partition("=")
        yield option.strip().lower(), value.strip()


def _quoted_properties(text: str) -> dict[str, str]:
    return {option.strip("'"): value.strip("'") for option, value in _properties(text)}


@dataclass(frozen=True)
class _Clauses:
    """What stands behind the columns of a `create table`."""

    serde: str
    location: str
    partitions: str
    properties: dict[str, str]

    @classmethod
    def of(cls, text: str) -> _Clauses:
        serde = re.search(r"row\s+format\s+serde\s+'([^']+)'", text, re.IGNORECASE)
        location = re.search(r"location\s+('[^']+')", text, re.IGNORECASE)
        partitions = re.search(r"partitioned\s+by\s*\(", text, re.IGNORECASE)
        properties = re.search(r"tblproperties\s*\(", text, re.IGNORECASE)
        if location is None:
            raise RefusedError("found no location, expected one: a table of files has its own")
        return cls(
            serde[1] if serde else "",
            location[1],
            bracketed(text[partitions.end() - 1 :])[0] if partitions else "",
            _quoted_properties(bracketed(text[properties.end() - 1 :])[0]) if properties else {},
        )


def _declared(column: str) -> str:
    """A column of a `create table` or `add columns`."""
    found = re.match(rf"({PART})\s+(.+?)(?:\s+comment\s+('(?:[^']|'')*'))?$", column.strip(), re.IGNORECASE | re.DOTALL)
    if found is None:
        raise RefusedError(f"found the column {column!r}, expected a name and a type")
    comment = f" comment {found[3]}" if found[3] else ""
    return f"{_plain(found[1])} {trino_type(found[2])}{comment}"


def _plain(part: str) -> str:
    return '"' + part.strip('`"').lower() + '"'


def _texts(parts: list[str]) -> str:
    return ", ".join("'" + part.replace("`", "").replace('"', "") + "'" for part in parts)
