"""Reads the declarations of source systems: dbt `sources` files with `config.meta.ingest`.

dbt reads the same files; no table, key, column or topic is written down twice. A wrong declaration is refused before
anything starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pyspark.sql import types as T

from ingest.config.checks import (
    is_hashable,
    refuse_clashes,
    refuse_idle_options,
    refuse_mixed_topics,
    refuse_names,
    refuse_one_collection,
    refuse_shared_relations,
    require_chosen,
    require_derivable,
    require_hashable,
    require_one_consistency,
    require_places,
    require_sortable,
    require_told,
    require_topics,
)
from ingest.config.connections import EventConnection
from ingest.config.lake import is_absolute, required_table_version
from ingest.config.project import Project
from ingest.config.rendering import Yaml, declaration_error, read_yaml
from ingest.config.schema_files import with_meanings
from ingest.config.tables import Column, ColumnOptions, IngestOptions, Table
from ingest.errors import DeclarationError, Refusals

# Without tinyint and smallint: a Hudi table's schema is an Avro schema, whose smallest integer has 32 bits. A 16-bit
# column of the source is declared as int; a table written from Spark's smallint cannot be read back (Hudi 1.2).
SCALAR_TYPES: Mapping[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "integer": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
}
_DECIMAL = re.compile(r"(?:decimal|numeric)\((\d+),\s*(\d+)\)")
# What ingest adds to every silver table, and Hudi's own columns: a column of such a name could not be told apart.
RESERVED = re.compile(r"(__|_hoodie_).*")
# Between the folders of a path: one is meant, and none behind the last. What a scheme ends with stays (`file:///`).
_SLASHES = re.compile(r"(?<!:)(?<!:/)/+")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_]+")
_OF_EXTERNAL = {"using", "location"}


@dataclass(frozen=True)
class Source:
    """A source system: the tables of one dbt source that `lake` lands."""

    name: str
    schema: str
    tables: tuple[Table, ...]
    file: Path

    def choose(self, names: list[str] | None) -> tuple[Table, ...]:
        """The tables of those names, in the order of the declaration; all of them where `names` is empty.

        Raises
        ------
        DeclarationError
            A name that is not declared.
        """
        known = {table.name for table in self.tables}
        unknown = [name for name in names or [] if name not in known]
        if unknown:
            raise DeclarationError(
                f"source '{self.name}' has no table {', '.join(unknown)}",
                where=str(self.file),
                expected=f"one of: {', '.join(sorted(known))}",
            )
        return tuple(table for table in self.tables if not names or table.name in names)

    def landed_together(self, names: list[str] | None) -> tuple[Table, ...]:
        """As `choose`, but not a part of a source whose transactions are kept whole.

        Raises
        ------
        DeclarationError
            A name that is not declared, or tables chosen of a source that is landed as one.
        """
        chosen = self.choose(names)
        if len(chosen) < len(self.tables) and chosen[0].options.consistent == "transaction":
            raise DeclarationError(
                f"{', '.join(table.name for table in chosen)} alone cannot be landed",
                where=f"{self.file}: {self.name}",
                expected="all tables: the source is consistent by transaction",
                action="run without --tables",
            )
        return chosen


def load_sources(project: Project) -> dict[str, Source]:
    """Every source of the project that has a `config.meta.ingest`, by name.

    Raises
    ------
    DeclarationError
        Everything that cannot be meant, each with file, source, table and key.
    """
    refusals = Refusals()
    sources: dict[str, Source] = {}
    for path, raw in _source_entries(project, refusals):
        with refusals.collected():
            source = _source(project, path.relative_to(project.root), raw, refusals)
            if source is None:
                continue
            if source.name in sources:
                raise DeclarationError(
                    f"source '{source.name}' is declared twice",
                    where=str(source.file),
                    expected=f"once; the first is in {sources[source.name].file}",
                )
            sources[source.name] = source
    refusals.of(refuse_shared_relations, [(source.name, source.tables) for source in sources.values()])
    refusals.tell()
    return sources


def load_source(project: Project, name: str) -> Source:
    """The source of that name.

    Raises
    ------
    DeclarationError
        There is none, or a declaration is wrong.
    """
    sources = load_sources(project)
    if name not in sources:
        raise DeclarationError(
            f"no source '{name}' with config.meta.ingest is declared and enabled",
            where=f"{project.root}: {', '.join(project.model_paths)}",
            expected=f"one of: {', '.join(sources) or 'none is declared'}",
        )
    return sources[name]


def parse_data_type(text: str, *, where: str) -> T.DataType:
    """A Spark type from its SQL name: the scalar types, decimal(p,s) and array<...> of them.

    Raises
    ------
    DeclarationError
        Any other text.
    """
    lowered = text.strip().lower()
    if lowered in SCALAR_TYPES:
        return SCALAR_TYPES[lowered]
    if matched := _DECIMAL.fullmatch(lowered):
        precision, scale = int(matched[1]), int(matched[2])
        if scale <= precision <= 38:
            return T.DecimalType(precision, scale)
    if lowered.startswith("array<") and lowered.endswith(">"):
        return T.ArrayType(parse_data_type(lowered[6:-1], where=where))
    raise DeclarationError(
        f"data_type is '{text}'",
        where=where,
        expected=(
            f"{', '.join(SCALAR_TYPES)}, decimal(precision,scale) with scale <= precision <= 38, "
            "or array<...> of one of them"
        ),
    )


def _source_entries(project: Project, refusals: Refusals) -> Iterator[tuple[Path, Yaml]]:
    for directory in project.model_paths:
        folder = project.root / directory
        for path in sorted([*folder.rglob("*.yml"), *folder.rglob("*.yaml")]):
            where = str(path.relative_to(project.root))
            content = refusals.of(read_yaml, path)
            for entry in refusals.of(_entries, content or {}, "sources", where=where) or []:
                yield path, entry


def _source(project: Project, file: Path, raw: Yaml, refusals: Refusals) -> Source | None:
    """A source with those of its tables that can be meant; None where it has no `config.meta.ingest` or is disabled."""
    name = _text(raw, "name", where=f"{file}: sources")
    where = f"{file}: source {name}"
    tables = _entries(raw, "tables", where=where)
    if not _is_ingested(raw) and not any(_is_ingested(table) for table in tables):
        return None
    rendered = _rendered(project, raw, where=f"{file}: {name}")
    schema = _identifier(str(rendered.get("schema") or name), where=f"{file}: {name}.schema")
    defaults = _ingest_meta(rendered, where=where)
    enabled = [table for table in tables if refusals.of(_is_enabled, project, file, raw, table) is not False]
    if tables and not enabled:
        return None
    found = [refusals.of(_rendered_table, project, file, name, schema, defaults, table) for table in enabled]
    declared = tuple(table for table in found if table is not None)
    refusals.of(refuse_clashes, declared)
    refusals.of(refuse_mixed_topics, declared)
    refusals.of(require_one_consistency, declared, where=f"{file}: {name}")
    refusals.of(refuse_one_collection, declared)
    return Source(name=name, schema=schema, tables=declared, file=file)


def _is_enabled(project: Project, file: Path, source: Yaml, table: Any) -> bool:
    """Whether a table is there: dbt has none that is disabled, whatever else is said of it."""
    if not isinstance(table, dict):
        return True  # it is refused as what it is
    configs = [each.get("config") for each in (source, table)]
    said = [config.get("enabled") for config in configs if isinstance(config, dict)]
    return project.enables(file, str(source["name"]), str(table.get("name") or ""), *said)


def _is_ingested(raw: Any) -> bool:
    """Whether there is a `config.meta.ingest`, right or wrong."""
    try:
        return bool(_ingest_meta(raw, where=""))
    except DeclarationError:
        return True


def _rendered_table(project: Project, file: Path, source: str, schema: str, defaults: Yaml, raw: Any) -> Table:
    _ingest_meta(raw, where=f"{file}: source {source}")
    rendered = _rendered(project, raw, where=f"{file}: {source}.{raw.get('name') or 'tables'}")
    return _table(project, file, source, schema, defaults, {**rendered, "columns": raw.get("columns")})


def _rendered(project: Project, raw: Yaml, *, where: str) -> Yaml:
    """What is read of a source, table or column. The rest is dbt's alone, which renders it with more than is here."""
    read: Yaml = {key: raw[key] for key in ("name", "schema", "identifier", "data_type") if key in raw}
    if external := raw.get("external"):
        is_mapping = isinstance(external, dict)
        read["external"] = {key: external[key] for key in _OF_EXTERNAL & external.keys()} if is_mapping else external
    read["config"] = {"meta": {"ingest": _ingest_meta(raw, where=where)}}
    rendered: Yaml = project.renderer.render(read, where=where)
    return {**rendered, "description": project.described(str(raw.get("description") or ""))}


def _table(project: Project, file: Path, source: str, schema: str, defaults: Yaml, raw: Yaml) -> Table:
    name = _text(raw, "name", where=f"{file}: {source}.tables")
    where = f"{file}: {source}.{name}"
    refusals = Refusals()
    external = refusals.of(_external, raw, where=where)
    location = _SLASHES.sub("/", str((external or {}).get("location") or name)).rstrip("/") or "/"
    version = required_table_version(location if is_absolute(location) else project.lake_root)
    by_place = {} if version is None else {"table_version": version}
    options = refusals.of(_options, {**by_place, **defaults, **_ingest_meta(raw, where=where)}, where=where)
    columns, excluded = refusals.of(_columns, project, raw, where=where) or ((), ())
    named = refusals.of(_identifier, str(raw.get("identifier") or name), where=where)
    if options is None:
        raise refusals.error
    place = f"{where}: config.meta.ingest"
    if columns:
        refusals.of(require_chosen, [column.name for column in columns], excluded, options, where=where)
        refusals.of(require_places, columns, options, where=where)
        refusals.of(require_sortable, columns, options, where=where)
        refusals.of(require_derivable, columns, options, where=where)
        refusals.of(require_told, columns, options, where=where)
    connection = refusals.of(_connection, project, columns, options, where=where)
    whole = refusals.of(_with_schema_files, project, options, where=where)
    database = options.database and refusals.of(
        project.database, options.database.connection, where=f"{place}.database.connection"
    )
    if columns and whole and whole.schema_file:
        columns = refusals.of(with_meanings, columns, Path(whole.schema_file), where=where) or columns
    refusals.tell()
    assert connection is not None
    assert whole is not None
    return Table(
        source=source,
        name=str(named),
        schema=schema,
        location=location,
        columns=columns,
        options=whole,
        connection=connection,
        where=where,
        database=database or None,
        excluded=excluded,
        description=raw["description"],
    )


def _options(merged: Yaml, *, where: str) -> IngestOptions:
    try:
        return IngestOptions.model_validate(merged)
    except ValidationError as error:
        raise declaration_error(error, where=f"{where}: config.meta.ingest") from error


def _columns(project: Project, raw: Yaml, *, where: str) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns that silver has, and the names of those that are excluded."""
    refusals = Refusals()
    found = [refusals.of(_column, project, column, where=where) for column in _entries(raw, "columns", where=where)]
    declared = [column for column in found if column is not None]
    columns = tuple(column for column, policy in declared if policy != "exclude")
    excluded = tuple(column.name for column, policy in declared if policy == "exclude")
    refusals.of(refuse_names, [column.name for column in columns], excluded, where=where)
    refusals.tell()
    if not columns:
        raise DeclarationError("declares no columns", where=where, expected="each column with name and data_type")
    return columns, excluded


def _connection(
    project: Project, columns: tuple[Column, ...], options: IngestOptions, *, where: str
) -> EventConnection:
    """Where the events come from: of a type that has what the options ask for."""
    connection = project.connection(options.connection, where=f"{where}: config.meta.ingest.connection")
    refusals = Refusals()
    refusals.of(require_hashable, project, columns, options, connection, where=where)
    if options.topic_pattern is not None:
        refusals.of(require_topics, options, connection, where=where)
    refusals.tell()
    return connection


def _external(raw: Yaml, *, where: str) -> Yaml:
    external = raw.get("external") or {}
    if not isinstance(external, dict):
        raise DeclarationError(
            f"external is {external!r}", where=where, expected="a mapping of keys, such as {using: hudi, location: ...}"
        )
    if external.get("using", "hudi") != "hudi":
        raise DeclarationError(f"external.using is '{external['using']}'", where=where, expected="hudi")
    return external


def _with_schema_files(project: Project, options: IngestOptions, *, where: str) -> IngestOptions:
    """The options with the whole paths of the schemas that they name."""
    paths: dict[str, str] = {}
    for key, named in (("schema_file", options.schema_file), ("key_schema_file", options.key_schema_file)):
        if named is None:
            continue
        if not (project.root / named).is_file():
            raise DeclarationError(
                f"names the schema file '{named}', which is not there",
                where=f"{where}: config.meta.ingest.{key}",
                expected=f"a path from {project.root}",
            )
        paths[key] = str(project.root / named)
    return options.model_copy(update=paths)


def _column(project: Project, written: Yaml, *, where: str) -> tuple[Column, str | None]:
    """A column as silver has it, and its policy."""
    among = f"{where}.columns"
    raw = _rendered(project, written, where=f"{among}.{_text(written, 'name', where=among)}")
    name = _text(raw, "name", where=among)
    here = f"{where}.{name}"
    if RESERVED.fullmatch(name.lower()):
        raise DeclarationError(
            "is a name that ingest or Hudi adds itself", where=here, expected="a column of the source table"
        )
    try:
        options = ColumnOptions.model_validate(_ingest_meta(raw, where=here))
    except ValidationError as error:
        raise declaration_error(error, where=f"{here}: config.meta.ingest") from error
    data_type = parse_data_type(_text(raw, "data_type", where=here), where=here)
    refuse_idle_options(options, data_type, where=f"{here}: config.meta.ingest")
    given = options.model_dump(exclude={"policy", "substring_of"})
    column = Column(name, data_type, **given, substring_of=options.substring_of, description=raw["description"])
    if options.policy != "hash":
        return column, options.policy
    if not is_hashable(data_type):
        raise DeclarationError(
            f"policy is hash, of a {data_type.simpleString()}",
            where=f"{here}: config.meta.ingest.policy",
            expected="a type whose equal values have one text: no float, double or array",
        )
    return replace(column, data_type=T.StringType(), hashed_from=data_type), options.policy


def _entries(raw: Yaml, key: str, *, where: str) -> list[Any]:
    entries = raw.get(key) or []
    if not isinstance(entries, list):
        raise DeclarationError(f"{key} is {entries!r}", where=where, expected="a list")
    return entries


def _ingest_meta(raw: Any, *, where: str) -> Yaml:
    """`config.meta.ingest`, or dbt's older place, `meta.ingest`."""
    if not isinstance(raw, dict):
        raise DeclarationError(f"holds {raw!r}", where=where, expected="a mapping of keys, with a name")
    config = raw.get("config") or {}
    meta = (config.get("meta") if isinstance(config, dict) else None) or raw.get("meta") or {}
    ingest = meta.get("ingest") or {} if isinstance(meta, dict) else {}
    if not isinstance(ingest, dict):
        raise DeclarationError(f"config.meta.ingest is {ingest!r}", where=where, expected="a mapping of keys")
    return dict(ingest)


def _text(raw: Any, key: str, *, where: str) -> str:
    value = raw.get(key) if isinstance(raw, dict) else None
    if not isinstance(value, str) or not value:
        raise DeclarationError(f"{key} is {value!r}", where=where, expected="a text")
    return value


def _identifier(text: str, *, where: str) -> str:
    if not _IDENTIFIER.fullmatch(text):
        raise DeclarationError(f"is named '{text}'", where=where, expected="letters, digits and underscores")
    return text
