"""What the commands write: text on standard output, and errors and progress on standard error."""

from __future__ import annotations

import json
import logging
import os
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any, TextIO

import typer
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from ingest.config.tables import Table
from ingest.errors import LakeError
from ingest.landing.failures import error_of
from ingest.spark.jvm import root_cause, why_java_ended

# What is no number of JSON, as Spark and Java write it.
_NO_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
# Where nobody watches, such as a log, tables are wide rather than cut.
_WIDE = None if "COLUMNS" in os.environ else 240
out = Console(width=None if sys.stdout.isatty() else _WIDE)
err = Console(stderr=True, width=None if sys.stderr.isatty() else _WIDE)


def print_error(message: str) -> None:
    """An error on standard error, in lines of its own making."""
    err.print(f"[bold red]error[/] {escape(message)}", soft_wrap=True)


def tell_warning(message: str) -> None:
    """What may be wrong, on standard error, in a line of its own."""
    err.print(f"[bold yellow]warning[/] {escape(message)}", soft_wrap=True)


class _Logged(logging.StreamHandler[TextIO]):
    """What is logged, on standard error: warnings of this package as `tell_warning` writes them.

    py4j logs, by the root logger and with its trace, each error of its connection that it raises too.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.WARNING and record.name.startswith("ingest."):
            tell_warning(record.getMessage())
        elif "py4j" not in record.pathname or logging.root.level == logging.DEBUG:
            super().emit(record)


@contextmanager
def errors_as_messages(debug: bool = False) -> Iterator[None]:
    """Turns an error of this project, or one of Spark's, into its message and exit code 1; Ctrl-C into 130."""
    if not sys.stdout.isatty():
        # A pipe has no width of its own: wide enough for the tables.
        os.environ.setdefault("COLUMNS", "140")
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[_Logged(sys.stderr)])
    for noisy in ("py4j", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        yield
    except LakeError as error:
        if debug:
            raise
        for each in error.each:
            print_error(each.message)
        raise typer.Exit(1) from error
    except (PySparkException, Py4JJavaError) as error:
        if debug:
            raise
        print_error(root_cause(error))
        raise typer.Exit(1) from error
    except (Py4JError, ConnectionError) as error:
        ended = why_java_ended()
        if debug or ended is None:
            raise
        print_error(ended.message)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as interruption:
        err.print("interrupted; run it again")
        raise typer.Exit(130) from interruption


def done_to_each(
    tables: Sequence[Table], name: str, do: Callable[[Table], object], *, otherwise: object
) -> list[dict[str, Any]]:
    """What was done to each table, as `name`, or why it could not be, as `error`, which is told: the others go on."""
    rows: list[dict[str, Any]] = []
    for table in tables:
        done, message = otherwise, None
        try:
            done = do(table)
        except (LakeError, PySparkException, Py4JJavaError) as error:
            message = error_of(table, error).message
            print_error(message)
        rows.append({"table": table.name, name: done, "error": message})
    return rows


def as_json_value(value: Any) -> Any:
    """A value of Spark's as one of JSON, as its `to_json` writes it: bytes in base64, NaN and infinity as texts."""
    if isinstance(value, dict):
        return {str(key): as_json_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_json_value(item) for item in value]
    if isinstance(value, bytearray):
        return b64encode(value).decode()
    is_plain = value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and isfinite(value))
    return value if is_plain else _NO_NUMBERS.get(str(value), str(value))


def show_rows(rows: Sequence[dict[str, Any]], names: Sequence[str], as_json: bool, *, nothing: str) -> None:
    """Rows as a grid with these columns, or as JSON; `nothing` is the text where there is no row."""
    if as_json:
        print(json.dumps(list(rows), default=str, indent=2))
        return
    if not rows:
        out.print(nothing)
        return
    grid = Grid(show_lines=True)
    for name in names:
        grid.add_column(name, overflow="fold")
    for row in rows:
        grid.add_row(*(escape(str(row[name])) for name in names))
    out.print(grid)
