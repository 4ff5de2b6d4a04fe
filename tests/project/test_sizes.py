"""A file is read at one sitting, and a function on one screen: the sizes that this project keeps to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ingest", "dbt_lakehouse", "examples", "ci", "dev", "bench", "macros")
# About 500: one file is a little beyond it.
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 520, 60


def _too_long(path: Path) -> Iterator[tuple[str, int]]:
    text = path.read_text(encoding="utf-8")
    if (lines := len(text.splitlines())) > MOST_LINES:
        yield str(path.relative_to(ROOT)), lines
    for node in ast.walk(ast.parse(text)) if path.suffix == ".py" else ():
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            if lines > MOST_LINES_OF_A_FUNCTION:
                yield f"{path.relative_to(ROOT)}: {node.name}", lines


def test_no_file_and_no_function_is_too_long() -> None:
    files = [path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.suffix in (".py", ".sql")]
    assert len(files) > 300
    assert not dict(found for path in files for found in _too_long(path))
