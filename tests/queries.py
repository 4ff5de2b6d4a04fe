"""Hudi's kinds of queries, as the analyses of the dbt project have them, and what each must answer of sale 200."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from conftest import REPOSITORY
from dbt.cli.main import dbtRunner
from pyarrow import parquet

Ask = Callable[[str], Iterable[tuple[Any, ...]]]
ASKED = ("qtysold", "pricepaid", "commission")
# Sale 200 after the changes.
CHANGED = ("3", "600.00", "90.00")


def compiled(analysis: str, room: Path, **variables: str) -> str:
    """An analysis as dbt compiles it."""
    where = ["--project-dir", str(REPOSITORY), "--profiles-dir", str(REPOSITORY)]
    rooms = ["--target-path", str(room), "--log-path", str(room), "--no-introspect", "--no-populate-cache"]
    words = ["--quiet", "compile", "--select", analysis, "--vars", json.dumps(variables)]
    done: Any = dbtRunner().invoke([*words, *where, *rooms])
    assert done.success, done.exception
    return str(done.result.results[0].node.compiled_code)


def require_queries_answer(ask: Ask, home: Path, room: Path) -> None:
    """Asks each kind of query about sale 200.

    Parameters
    ----------
    home:
        The lake, which has landed the snapshot by one commit, and the changes by some more.
    """
    oracle = parquet.read_table(home / "oracle/snapshot/ecomm.sale.parquet", filters=[("salesid", "=", 200)])
    before = tuple(str(oracle[name][0].as_py()) for name in ASKED)

    def sold(analysis: str, **variables: str) -> list[tuple[str, ...]]:
        rows = ask(compiled(analysis, room, **variables))
        return [tuple(str(value) for value in row[1:4]) for row in rows]

    found = ask("call show_commits(table => 'silver_tickit.sale', limit => 1000)")
    first, *_, last = sorted(row[1] for row in found)
    assert sold("sale_snapshot") == [CHANGED]
    assert sold("sale_snapshot", sale_id="0") == []
    assert sold("sale_time_travel") == sold("sale_time_travel", as_of=last) == [CHANGED]
    assert sold("sale_time_travel", as_of=first) == [before]
    assert sold("sale_incremental") == sold("sale_incremental", since=first) == [CHANGED]
    assert sold("sale_incremental", since=last) == []
    assert sold("sale_point_in_time", until=first) == [before]
    assert sold("sale_point_in_time", since=first) == [CHANGED]
    assert sold("sale_point_in_time", since=last) == []
    views = {row[0]: tuple(str(value) for value in row[2:5]) for row in ask(compiled("sale_read_optimized", room))}
    assert views == {"_ro": before, "_rt": CHANGED}, "nothing is compacted yet"
