"""Which models select a part of their rows, by their manifest: what `hudi_part` finds in a run (macros/hudi)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

_TEXT = r"""(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
# A mapping has braces of its own, one within another, and may end as the block does.
_INNER = """[^'"{}]"""
for _ in range(9):
    _INNER = rf"""(?:{_TEXT}|\{{{_INNER}*\}}|[^'"{{}}])"""
_CODE = re.compile(rf"(?s)\{{[{{%](?:(?!%\}}){_INNER})*[%}}]\}}")
_COMMENT = re.compile(r"(?s)\{#.*?#\}")
_CONFIG = re.compile(r"\{\{-?\s*config\s*\(")
_THIS = re.compile(r"(?<![\w.])this(?!\w|\s*\.\s*(?:name|identifier|table)\b)")
_ASKS = re.compile(r"\b(?:load_relation|get_relation)\b(?!\s*\(\s*(?:ref|source)\s*\()")
_QUERIES = re.compile(
    r"\b(?:run_query|statement|get_columns_in_\w+)\b|(?<![\w.])adapter\s*\.(?!\s*(?:quote|dispatch|type)\b)"
)
_OWN_NAME = re.compile(r"(?<![\w.])(?:model\s*(?:\[|\.\s*(?:name|alias)\b)|this\s*\.\s*(?:name|identifier|table)\b)")
_REFRESH = re.compile(r"\b(?:flags\s*\.\s*FULL_REFRESH|invocation_args_dict\s*\.\s*full_refresh|should_full_refresh)\b")
# `flags['FULL_REFRESH']` is `flags.FULL_REFRESH`, and `invocation_args_dict.get('full_refresh')` too.
_ITEM = re.compile(r"""(?:\[|\.\s*get\s*\()\s*(['"])(\w+)\1""")

_OF_DBT = ("dbt", "dbt_spark", "dbt_athena")


def why_a_part(node: Mapping[str, Any], manifest: Mapping[str, Any]) -> str | None:
    """Why a model may select a part of its rows; none where it selects all of them."""
    macros, sources = manifest.get("macros", {}), manifest.get("sources", {}).values()
    called = _calls(node)
    if any(key.endswith(".is_incremental") for key in reached(called, lambda key: _calls(macros.get(key, {})))):
        return "asks is_incremental()"
    if node["config"].get("materialized") == "incremental":
        code = "\n".join(_own_codes(node, macros))
        # What a macro of a package asks is of what it is given.
        asking = "\n".join(_own_codes(node, macros, of_packages=False))
        is_source = any(_is_its_source(source, code, node) for source in sources)
        if is_source or _says(code, _THIS) or _says(asking, _ASKS) or _names(code, node):
            return "reads itself, or asks for its own table"
        # A package's macro runs the query that it is given.
        if _says(code, _QUERIES) and (_says(asking, _OWN_NAME) or _has_its_name(asking, node)):
            return "runs a query, which may be on its own table"
        if _says(code, _REFRESH):
            return "asks for --full-refresh"
    return None


def _own_codes(node: Mapping[str, Any], macros: Mapping[str, Any], *, of_packages: bool = True) -> list[str]:
    """The text of a model, and those of the macros that it calls, and that they call; no hook's, and none of dbt's."""
    text = node.get("raw_code", "")

    def is_own(key: str) -> bool:
        return key in macros and key.split(".")[1] not in _OF_DBT

    called = [key for key in _calls(node) if _says(text, re.compile(rf"\b{key.split('.')[-1]}\b"))]
    found = reached(called, lambda key: _calls(macros[key]) if is_own(key) else ())
    own = [key for key in sorted(found) if is_own(key)]
    chosen = own if of_packages else [key for key in own if key.split(".")[1] == node["package_name"]]
    return [text, *(macros[key].get("macro_sql", "") for key in chosen)]


def _calls(node: Mapping[str, Any]) -> Sequence[str]:
    """The macros that a node or a macro of the manifest calls."""
    found: Sequence[str] = node.get("depends_on", {}).get("macros", [])
    return found


def reached(begin: Iterable[str], calls: Callable[[str], Iterable[str]]) -> set[str]:
    """Some macros, what they call, what these call, and so on."""
    waiting, found = [*begin], set[str]()
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting += calls(key)
    return found


def _says(raw_code: str, pattern: re.Pattern[str]) -> bool:
    """Whether the code of Jinja has a word, outside of its texts and of `config(...)`."""
    blocks = (block for block in _CODE.findall(re.sub(_COMMENT, "", raw_code)) if not _CONFIG.match(block))
    return any(pattern.search(re.sub(_TEXT, "", _ITEM.sub(r".\2", block))) for block in blocks)


def _names(raw_code: str, node: Mapping[str, Any]) -> bool:
    """Whether a text, of Jinja's code or not, has the model's own table, outside of `config(...)`."""
    text = _CODE.sub(lambda found: "" if _CONFIG.match(found[0]) else found[0], re.sub(_COMMENT, "", raw_code))
    own = rf"(?<![\w.])(?:\w+\.)?{re.escape(node['schema'])}\.{re.escape(node['alias'])}(?!\w)"
    return re.search(own, re.sub(r"""[`'"]""", "", text), re.IGNORECASE) is not None


def _is_its_source(source: Mapping[str, Any], raw_code: str, node: Mapping[str, Any]) -> bool:
    """Whether a source is declared on the model's own table, and its code names it."""
    places = [f"{each['schema']}.{each[name]}".lower() for each, name in ((source, "identifier"), (node, "alias"))]
    names = r"""['"]\s*,\s*['"]""".join(map(re.escape, (source["source_name"], source["name"])))
    return places[0] == places[1] and re.search(rf"""\bsource\s*\(\s*['"]{names}['"]""", raw_code) is not None


def _has_its_name(raw_code: str, node: Mapping[str, Any]) -> bool:
    """Whether a text of Jinja's code has the model's name, other than one that `ref` or `source` is given."""
    code = re.sub(r"(?s)\b(?:ref|source)\s*\([^()]*\)", "", re.sub(_COMMENT, "", raw_code))
    name = re.compile(rf"(?<!\w){re.escape(node['alias'])}(?!\w)", re.IGNORECASE)
    return any(name.search(block) for block in _CODE.findall(code) if not _CONFIG.match(block))


def columns_in(written: str | Sequence[str] | None) -> list[str]:
    """The columns of a `unique_key` or `partition_by`, which is one text or a list."""
    return [name.strip() for name in (written.split(",") if isinstance(written, str) else written or ())]
