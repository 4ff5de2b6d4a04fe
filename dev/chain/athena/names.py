"""Names in Athena's statements, quoted or not, and types as its DDL has them and as Trino has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Athena's DDL is Hive's, which quotes with backticks; its queries and `create table as` are Trino's.
PART = r"(?:`[^`]+`|\"[^\"]+\"|[\w]+)"
NAME = rf"{PART}(?:\s*\.\s*{PART}){{0,2}}"


@dataclass(frozen=True)
class Name:
    """A table or view."""

    schema: str
    table: str

    @classmethod
    def of(cls, text: str, schema: str) -> Name:
        """A name as a statement has it; `schema` is where one without is."""
        parts = [part.strip('`"').lower() for part in re.findall(PART, text)]
        return cls(parts[-2] if len(parts) > 1 else schema, parts[-1])

    def within(self, catalog: str) -> str:
        """The name as Trino takes it."""
        return f'"{catalog}"."{self.schema}"."{self.table}"'


def _outside_quotes(text: str) -> Iterator[tuple[int, str, int]]:
    """Place and character of all that stands in no quotes, and how many brackets are open behind it."""
    depth, quote = 0, ""
    for place, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"`":
            quote = char
        else:
            depth += (char in "([<") - (char in ")]>")
            yield place, char, depth


def bracketed(text: str) -> tuple[str, str]:
    """What stands between the bracket that a text begins with and its end, and what follows."""
    for place, char, depth in _outside_quotes(text):
        if char in ")]>" and depth == 0:
            return text[1:place], text[place + 1 :]
    raise ValueError(f"a bracket is not closed: {text[:60]}")


def listed(text: str) -> list[str]:
    """The parts of a list, at the commas that stand in no bracket and no quotes."""
    parts, began = [], 0
    for place, char, depth in _outside_quotes(text):
        if char == "," and depth == 0:
            parts.append(text[began:place].strip())
            began = place + 1
    last = text[began:].strip()
    return [*parts, last] if last else parts


def field_of(part: str, number: int) -> tuple[str, str]:
    """Name and type of a field of Trino's `row(...)`; one without a name is numbered."""
    found = re.match(r'("[^"]+"|\w+) (?!with |precision)(.+)', part, re.DOTALL)
    return (found[1].strip('"'), found[2]) if found else (f"field{number}", part)


_TO_TRINO = {"string": "varchar", "int": "integer", "float": "real", "binary": "varbinary", "timestamp": "timestamp(6)"}
_TO_HIVE = {"varchar": "string", "integer": "int", "real": "float", "varbinary": "binary"}


def trino_type(hive: str) -> str:
    """A type of Athena's DDL, as Trino has it."""
    text = hive.strip().lower()
    for word, form in (("array", "array({0})"), ("map", "map({0}, {1})")):
        if text.startswith(f"{word}<"):
            return form.format(*map(trino_type, listed(bracketed(text[len(word) :])[0])))
    if text.startswith("struct<"):
        fields = (part.split(":", 1) for part in listed(bracketed(text[6:])[0]))
        return f"row({', '.join(f'{name.strip()} {trino_type(of_type)}' for name, of_type in fields)})"
    return _TO_TRINO.get(text, text)


def hive_type(trino: str) -> str:
    """A type of Trino's, as Glue has it."""
    text = trino.strip().lower()
    if text.startswith("array("):
        return f"array<{hive_type(bracketed(text[5:])[0])}>"
    if text.startswith("map("):
        return f"map<{','.join(map(hive_type, listed(bracketed(text[3:])[0])))}>"
    if text.startswith("row("):
        fields = (field_of(part, number) for number, part in enumerate(listed(bracketed(text[3:])[0])))
        return "struct<" + ",".join(f"{name}:{hive_type(of_type)}" for name, of_type in fields) + ">"
    if text.startswith("timestamp") and "zone" not in text:
        return "timestamp"
    if text.startswith(("varchar", "char")):
        return "string"
    return _TO_HIVE.get(text, text)
