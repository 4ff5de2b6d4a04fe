"""Errors of Spark and Hudi, told in a few lines: what was found, and what it came from.

The stack trace is in dbt's log, and on the terminal with `--debug` (docs/decisions/0036-errors-without-traces.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dbt.adapters.events.logging import AdapterLogger
from dbt.flags import get_flags
from dbt_common.exceptions import DbtRuntimeError

_FRAME = re.compile(r"\s*at [^\s(]+\(.*\)$")
_NOISE = re.compile(r"\s*(\.\.\. \d+ more|(Driver|JVM) stacktrace:|An error occurred while calling \S+)?$")
_CAUSE = "Caused by: "
# What stands before the error itself: of py4j, of Spark's Thrift server, and of a task that has failed.
_AROUND = re.compile(
    r"^: |^org\.apache\.hive\.service\.cli\.HiveSQLException: (Error running query: )?(\[[A-Z_.]+\] (?=\S+: ))?"
    r"|(\S+: )?Job aborted due to stage failure: .*?\(\S+ executor \S+\): "
)
_LONGEST = 1000


def brief(text: str) -> str:
    """An error's text without stack traces and plans: its first lines, and those of its innermost cause.

    Spark's error class and the place in the SQL stay.
    """
    lines = text.splitlines()
    if lines and lines[0] in ("Database Error", "Runtime Error"):  # dbt's own, around another error's text
        lines = [line.removeprefix("  ") for line in lines[1:]]
    blocks: list[list[str]] = [[]]
    for line in lines:
        if line.startswith(_CAUSE):
            blocks.append([])
        if not _FRAME.match(line) and not _NOISE.match(line):
            blocks[-1].append((line if blocks[-1] else _AROUND.sub("", line))[:_LONGEST])
    head, *causes = [_abridged(block) for block in blocks if block] or [[text]]
    if not causes:
        return "\n".join(head)
    cause = next((block for block in reversed(causes) if ": " in block[0].removeprefix(_CAUSE)), causes[-1])
    told = cause[0].removeprefix(_CAUSE)
    # Of two that say the same the cause has nothing around it.
    return "\n".join([told, *cause[1:]] if told in head[0] else [head[0], *cause])


def _abridged(block: list[str]) -> list[str]:
    """A message without the plan that Spark adds to it, and of the SQL what stands before the mark."""
    end = next((at for at, line in enumerate(block) if line.endswith(";")), None)
    if end is not None and any(line.lstrip().startswith(("+- ", ":- ")) for line in block[end:]):
        block = [*block[:end], block[end].removesuffix(";")]
    sql = next((at for at, line in enumerate(block) if line.startswith("== SQL")), None)
    mark = next((at for at, line in enumerate(block) if re.match(r"[ -]*\^\^\^", line)), None)
    return block if sql is None or mark is None else [*block[: sql + 1], *block[max(sql + 1, mark - 3) : mark + 1]]


@contextmanager
def told_briefly() -> Iterator[None]:
    """Raises an error of the block again, told in a few lines; all of it is logged."""
    try:
        yield
    except Exception as error:
        status = getattr(error.args[0] if error.args else None, "status", None)  # an answer of the Thrift server
        whole = str(getattr(status, "errorMessage", None) or getattr(error, "msg", None) or error)
        told = brief(whole)
        if any(_FRAME.match(line) for line in whole.splitlines()):
            AdapterLogger("Spark").debug(whole)
            log = Path(get_flags().LOG_PATH) / "dbt.log"  # type: ignore[no-untyped-call]
            told += f"\nThe stack trace is in {log}, or here with --debug."
        raise DbtRuntimeError(told) from error
