"""What dbt compiles for Athena, as the rules ask it: queries with the types of their columns, and declared tables.

Types are derived by sqlglot, from the declared types of source tables and seeds through views and tables to each
column. Where they cannot be, a column has none.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema
from sqlglot.tokenizer_core import Token, TokenType

from ci.athena.words import NO_CALLS

Node = Mapping[str, Any]
DIALECT = "athena"
# The digits of a second in the tables that Athena writes; in Hudi's it reads as many as in Hive's.
HIVE_PRECISION, ICEBERG_PRECISION = 3, 6
# What a declared type is called in Athena's queries: https://docs.aws.amazon.com/athena/latest/ug/data-types.html
TYPES = {"string": "varchar", "int": "integer", "float": "real", "binary": "varbinary", "timestamp": "timestamp(3)"}
# What ingest adds to silver's tables: docs/reference/silver.md.
ADDED = {
    "__op": "varchar", "__deleted": "varchar", "__source_ts_ms": "bigint", "__source_ts_us": "bigint",
    "__is_ttl_delete": "boolean", "_hoodie_commit_time": "varchar", "_hoodie_partition_path": "varchar",
}  # fmt: skip
# Functions of Trino that give a timestamp with time zone, of which sqlglot says that they give one without.
ZONED = (exp.CurrentTimestamp, exp.UnixToTime)


@dataclass(frozen=True)
class Query:
    """A model or snapshot as it is compiled; `types` has the columns whose type could be derived."""

    node: Node
    types: Mapping[str, exp.DataType]

    @property
    def name(self) -> str:
        """The name that people know it by."""
        return str(self.node["name"])

    @property
    def config(self) -> Mapping[str, Any]:
        """Its settings."""
        config: Mapping[str, Any] = self.node["config"]
        return config

    @property
    def text(self) -> str:
        """Its SQL."""
        return str(self.node.get("compiled_code") or "")

    @property
    def is_table(self) -> bool:
        """Whether its rows are written."""
        return self.config.get("materialized") in ("table", "incremental", "snapshot")

    @property
    def is_iceberg(self) -> bool:
        """Whether they are written as an Iceberg table; dbt-athena's default is a Hive table."""
        return self.config.get("table_type") == "iceberg"

    @property
    def precision(self) -> int:
        """The digits of a second that it writes."""
        return ICEBERG_PRECISION if self.is_iceberg else HIVE_PRECISION

    @cached_property
    def tree(self) -> exp.Expr | SqlglotError:
        """Its SQL as a tree; or why it cannot be read."""
        return parsed(self.text)


@dataclass(frozen=True)
class Compiled:
    """What the rules look at.

    Attributes
    ----------
    queries:
        The models and snapshots.
    sources:
        The declared tables, as the manifest has them.
    has_own_tables:
        Whether the project makes Iceberg tables by a macro of its own, which casts their timestamps (`macros/athena/`).
    """

    queries: tuple[Query, ...]
    sources: tuple[Node, ...]
    has_own_tables: bool = False

    @classmethod
    def of(cls, manifest: Node) -> Compiled:
        """The queries of a compiled manifest, each after those that it reads."""
        schema = MappingSchema(dialect=DIALECT)
        for node in [*manifest["sources"].values(), *_of_kind(manifest, "seed")]:
            _add(schema, node, (ADDED if "source_name" in node else {}) | declared(node))
        queries = []
        for node in _in_order({node["unique_id"]: node for node in _of_kind(manifest, "model", "snapshot")}):
            types = derived(str(node.get("compiled_code") or ""), schema)
            _add(schema, node, declared(node) | {name: kind.sql(DIALECT) for name, kind in types.items()})
            queries.append(Query(node, types))
        own = f"macro.{manifest['metadata']['project_name']}.athena__create_table_as"
        return cls(tuple(queries), tuple(manifest["sources"].values()), own in manifest["macros"])


def parsed(text: str) -> exp.Expr | SqlglotError:
    """A text as a tree; or why it cannot be read."""
    try:
        return sqlglot.parse_one(text, dialect=DIALECT)
    except SqlglotError as error:
        return error


def declared(node: Node) -> dict[str, str]:
    """The declared types of a node's columns, as Athena's queries have them."""
    return {name.lower(): in_queries(str(column.get("data_type") or "")) for name, column in node["columns"].items()}


def in_queries(kind: str) -> str:
    """A declared type as it is written in a query; what is not declared is taken for a text."""
    kind = re.sub(r"array<(.*)>", lambda found: f"array({in_queries(found[1])})", kind.strip().lower())
    return TYPES.get(kind, kind) or "varchar"


def derived(text: str, schema: MappingSchema) -> dict[str, exp.DataType]:
    """The types of a query's columns, where they can be derived."""
    tree = parsed(text)
    if isinstance(tree, SqlglotError):
        return {}
    try:
        tree = qualify(tree.transform(_zoned), schema=schema, dialect=DIALECT, validate_qualify_columns=False)
        tree = annotate_types(tree, schema=schema, dialect=DIALECT)
    except SqlglotError:
        return {}
    shown = tree.selects if isinstance(tree, exp.Query) else []
    return {
        column.alias_or_name.lower(): column.type
        for column in shown
        if column.type is not None and not column.type.is_type(exp.DataType.Type.UNKNOWN)
    }


def calls(text: str) -> Iterator[str]:
    """The functions that a text calls, in lower case.

    Token by token: the tree has many of them under a name of its own. A name with columns behind it (`as t (a, b)`) and
    a type (`as decimal(8, 2)`) follow an `as`.
    """
    try:
        tokens: list[Token] = sqlglot.tokenize(text, read=DIALECT)
    except SqlglotError:
        return
    for place, (token, after) in enumerate(itertools.pairwise(tokens)):
        before = tokens[place - 1].token_type if place else None
        if after.token_type != TokenType.L_PAREN or before == TokenType.ALIAS:
            continue
        word = token.text.lower()
        if token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING) and re.fullmatch(r"[a-z_]\w*", word):
            named = before in (TokenType.WITH, TokenType.COMMA) and _is_cte(tokens, place + 1)
            if word not in NO_CALLS and not named:
                yield word


def _is_cte(tokens: list[Token], opening: int) -> bool:
    """Whether a bracket holds the columns of a common table expression: `as (` stands behind it."""
    depth = 0
    for place in range(opening, len(tokens)):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[place].token_type, 0)
        if depth == 0:
            behind = [token.token_type for token in tokens[place + 1 : place + 3]]
            return behind == [TokenType.ALIAS, TokenType.L_PAREN]
    return False


def _zoned(node: exp.Expr) -> exp.Expr:
    inside_cast = isinstance(node.parent, exp.Cast) and node.parent.is_type("timestamptz")
    return exp.cast(node.copy(), "timestamptz(3)") if isinstance(node, ZONED) and not inside_cast else node


def _of_kind(manifest: Node, *kinds: str) -> list[Node]:
    return [node for node in manifest["nodes"].values() if node["resource_type"] in kinds]


def _in_order(nodes: dict[str, Node]) -> Iterator[Node]:
    while nodes:
        ready = [key for key, node in nodes.items() if not nodes.keys() & set(node["depends_on"]["nodes"])]
        yield from [nodes.pop(key) for key in ready]


def _add(schema: MappingSchema, node: Node, columns: Mapping[str, str]) -> None:
    schema.add_table(node["relation_name"], dict(columns), dialect=DIALECT, match_depth=False)


def written_to(folder: Path) -> Path:
    """Where dbt writes what it compiles for Athena: beside what it compiles for the target of every day."""
    return folder / "athena"
