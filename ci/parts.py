"""Which models select a part of their rows, by their manifest: what `hudi_part` finds in a run (macros/hudi)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TEXT = r"""(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
# A mapping has braces of its own, one within another, and may end as the block does.
_INNER = """[^'"{}]"""
for _ in range(9):
    _INNER = rf"""(?:{_TEXT}|\{{{_INNER}*\}}|[^'"{{}}])"""
_CODE = re.compile(rf"(?s)\{{[{{%](?:(?!%\}}){_INNER})*[%}}]\}}")
_CONFIG = re.compile(r"\{\{-?\s*config\s*\(")
_THIS = re.compile(r"(?<![\w.])this(?!\w|\s*\.\s*(?:name|identifier|table)\b)")
_ASKS = re.compile(r"\b(?:load_relation|get_relation)\b")
_MODEL = re.compile(r"(?<![\w.])model\s*(?:\[|\.\s*(?:name|alias)\b)")
_REFRESH = re.compile(r"\b(?:flags\s*\.\s*FULL_REFRESH|invocation_args_dict\s*\.\s*full_refresh|should_full_refresh)\b")

_OF_DBT = ("dbt", "dbt_spark", "dbt_athena")


def why_a_part(node: Mapping[str, Any], macros: Mapping[str, Any]) -> str | None:
    """Why a model may select a part of its rows; none where it selects all of them."""

    def asks(key: str, seen: set[str]) -> bool:
        if key in seen:
            return False
        seen.add(key)
        called = macros.get(key, {}).get("depends_on", {}).get("macros", [])
        return key.endswith(".is_incremental") or any(asks(each, seen) for each in called)

    seen: set[str] = set()
    if any(asks(each, seen) for each in node.get("depends_on", {}).get("macros", [])):
        return "asks is_incremental()"
    if node["config"].get("materialized") == "incremental":
        code = "\n".join(_own_codes(node, macros))
        if _says(code, _THIS) or (_says(code, _ASKS) and _says(code, _MODEL)):
            return "reads itself, or asks for its own table"
        if _says(code, _REFRESH):
            return "asks for --full-refresh"
    return None


def _own_codes(node: Mapping[str, Any], macros: Mapping[str, Any]) -> list[str]:
    """The text of a model, and those of the macros that it calls, and that they call; no hook's, and none of dbt's."""
    text, found = node.get("raw_code", ""), dict[str, str]()
    called = node.get("depends_on", {}).get("macros", [])
    waiting = [key for key in called if _says(text, re.compile(rf"\b{key.split('.')[-1]}\b"))]
    while waiting:
        key = waiting.pop()
        if key in macros and key not in found and key.split(".")[1] not in _OF_DBT:
            found[key] = macros[key].get("macro_sql", "")
            waiting += macros[key]["depends_on"]["macros"]
    return [text, *found.values()]


def _says(raw_code: str, pattern: re.Pattern[str]) -> bool:
    """Whether the code of Jinja has a word, outside of its texts and of `config(...)`."""
    blocks = (re.sub(_TEXT, "", block) for block in _CODE.findall(re.sub(r"(?s)\{#.*?#\}", "", raw_code)))
    return any(pattern.search(block) and not _CONFIG.match(block) for block in blocks)
