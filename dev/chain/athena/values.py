"""Rows of Trino as Athena's API gives them: every value a text."""

from __future__ import annotations

import base64
import re
from typing import Any

from dev.chain.athena.engine import Rows
from dev.chain.athena.names import bracketed, field_of, listed


def column_info(name: str, trino: str) -> dict[str, Any]:
    """What the API says of a column."""
    base = re.sub(r"\(.*?\)", "", trino, count=1) if not trino.startswith(("array", "map", "row")) else trino
    numbers = [int(number) for number in re.findall(r"\d+", trino)] if trino.startswith("decimal") else []
    precision, scale = (*numbers, 0, 0)[:2]
    return {
        "CatalogName": "hive", "SchemaName": "", "TableName": "", "Name": name, "Label": name,
        "Type": {"real": "float"}.get(base, base.split("(")[0]), "Precision": precision, "Scale": scale,
        "Nullable": "UNKNOWN", "CaseSensitive": False,
    }  # fmt: skip


def result(rows: Rows, *, plain: bool) -> list[list[str | None]]:
    """The rows with their header; of a statement whose result is plain text, a line each."""
    if plain:
        return [["\t".join(str(value) for value in row if value is not None)] for row in rows.rows]
    header: list[str | None] = [name for name, _ in rows.columns]
    types = [of_type for _, of_type in rows.columns]
    return [header, *([_text(value, of_type) for value, of_type in zip(row, types, strict=True)] for row in rows.rows)]


def datum(value: str | None) -> dict[str, str]:
    """A value of a row; a null has none."""
    return {} if value is None else {"VarCharValue": value}


def _text(value: Any, of_type: str) -> str | None:
    if value is None:
        return None
    if of_type.startswith(("array(", "map(", "row(")):
        return _text_of_many(value, of_type)
    if of_type == "varbinary":
        return base64.b64decode(value).hex(" ")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text_of_many(value: Any, of_type: str) -> str:
    if of_type.startswith("array("):
        inner = bracketed(of_type[5:])[0]
        return f"[{', '.join(_shown(each, inner) for each in value)}]"
    if of_type.startswith("map("):
        of_key, of_value = listed(bracketed(of_type[3:])[0])
        return "{" + ", ".join(f"{_text(k, of_key)}={_shown(v, of_value)}" for k, v in value.items()) + "}"
    fields = [field_of(part, number) for number, part in enumerate(listed(bracketed(of_type[3:])[0]))]
    pairs = zip(fields, value, strict=True)
    return "{" + ", ".join(f"{name}={_shown(each, inner)}" for (name, inner), each in pairs) + "}"


def _shown(value: Any, of_type: str) -> str:
    text = _text(value, of_type)
    return "null" if text is None else text
