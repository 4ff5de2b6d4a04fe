"""An example system in live databases: its tables, its rows, and its changes as transactions at a rate.

What is applied is the same, row for row, as what `lake generate` writes as events: the generator's snapshot and history
know nothing of where they go.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal

from dev.chain.processes import run
from dev.chain.servers import MariaDB, PostgreSQL
from dev.chain.settings import HOST, Settings
from examples import DatabaseExample
from examples.generating.model import Row, RowChange, Table, Transaction, Value
from ingest.errors import LakeError

System = Literal["postgresql", "mariadb"]
SYSTEMS: tuple[System, ...] = ("postgresql", "mariadb")
DEFAULT_ROW_CHANGES = 25_000
_ROWS_A_FILE = 50_000


@dataclass(frozen=True)
class Progress:
    """What the databases were filled with, and how many transactions of its history have been applied since."""

    scale: float
    seed: int
    row_changes: int
    transactions: int


def system_of(table: Table) -> System:
    """Where a table lives here: SQL Server, which is no free software, is stood in for by PostgreSQL's schema `crm`."""
    return "mariadb" if table.system == "mariadb" else "postgresql"


@dataclass(frozen=True)
class Databases:
    """An example's live databases, as their owner sees them."""

    settings: Settings
    postgresql: PostgreSQL
    mariadb: MariaDB
    example: DatabaseExample

    @property
    def systems(self) -> tuple[System, ...]:
        """The database systems that the example has tables in."""
        found = {system_of(table) for table in self.example.tables}
        return tuple(system for system in SYSTEMS if system in found)

    def create(self) -> None:
        """Makes databases, tables, publications and Debezium's users, where they are not there yet."""
        if "postgresql" in self.systems:
            listed = self._run("postgresql", "select datname from pg_database;", database="postgres")
            if self._database not in listed.split():
                self._run("postgresql", f"create database {self._database};", database="postgres")
        login = {
            "postgresql": "alter role debezium password {};\n",
            "mariadb": f"alter user debezium@'{HOST}' identified by {{}};\n",
        }
        for system in self.systems:
            password = literal(self.settings.passwords[f"LAKE_{system.upper()}_DEBEZIUM_PASSWORD"])
            self._run(system, self.example.ddl(system) + login[system].format(password))

    def progress(self) -> Progress | None:
        """How far the databases are; None where they have not been filled.

        Raises
        ------
        LakeError
            Only some of them were filled, or each with something else.
        """
        query = "select scale, seed, row_changes, transactions from lake.progress;"
        kept: dict[System, Progress | None] = {}
        for system in self.systems:
            fields = self._run(system, query).replace("|", "\t").split()
            kept[system] = Progress(float(fields[0]), *map(int, fields[1:])) if fields else None
        filled = [progress for progress in kept.values() if progress]
        if not filled:
            return None
        if len(filled) < len(kept) or len({(progress.scale, progress.seed) for progress in filled}) > 1:
            raise LakeError(
                ", ".join(f"{system} holds {progress or 'nothing'}" for system, progress in kept.items()),
                where=str(self.settings.home),
                expected="all filled with the same",
                action="`make down`, remove that folder, `make up`",
            )
        # Transactions are applied one after the other, whichever database they are of.
        return max(filled, key=lambda progress: progress.transactions)

    def fill(self, scale: float, seed: int, row_changes: int = DEFAULT_ROW_CHANGES) -> int:
        """Loads the generator's snapshot into the empty tables, each database in one transaction; the rows loaded."""
        rows = self.example.snapshot(scale, seed)
        begun = f"insert into lake.progress values ({scale}, {seed}, {row_changes}, 0);\n"
        with tempfile.TemporaryDirectory(prefix="lake-fill-") as folder:
            for system in self.systems:
                script = ["begin;\n"]
                for table in (table for table in self.example.tables if system_of(table) == system):
                    values = zip(*(column.to_pylist() for column in rows[table.full_name].columns), strict=True)
                    for number, part in enumerate(_parts(values, _ROWS_A_FILE)):
                        file = Path(folder) / f"{table.name}-{number}.txt"
                        file.write_text("".join(map(_text_line, part)), encoding="utf-8")
                        script.append(
                            f"\\copy {name(table)} from '{file}'\n"
                            if system == "postgresql"
                            else f"load data local infile '{file}' into table {name(table)};\n"
                        )
                self._run(system, "".join([*script, begun, "commit;\n"]))
        return sum(table.num_rows for table in rows.values())

    def open(self, system: System) -> Session:
        """A session that stays open."""
        server, database = self._server(system)
        return Session(server.client(database), server.client_environment(), system)

    def counts(self) -> dict[str, int]:
        """Rows of each table, by `<schema>.<table>`."""
        counted = {}
        for table in self.example.tables:
            counted[table.full_name] = int(self._run(system_of(table), f"select count(*) from {name(table)};"))
        return counted

    @property
    def _database(self) -> str:
        """PostgreSQL's; MariaDB's databases are what PostgreSQL's schemas are."""
        (name,) = {table.database for table in self.example.tables if system_of(table) == "postgresql"}
        return name

    def _server(self, system: System) -> tuple[PostgreSQL | MariaDB, str]:
        return (self.postgresql, self._database) if system == "postgresql" else (self.mariadb, "")

    def _run(self, system: System, script: str, *, database: str = "") -> str:
        server, usual = self._server(system)
        return run(server.client(database or usual), where=server.folder, text=script, **server.client_environment())


class Session:
    """A database client that is kept open: a statement is sent at once, and its end waited for."""

    def __init__(self, client: Sequence[str | Path], environment: Mapping[str, str], system: System) -> None:
        unbuffered = ["--unbuffered"] if system == "mariadb" else []
        self._process = subprocess.Popen(
            [*client, *unbuffered], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            encoding="utf-8", cwd="/", env={**os.environ, **environment},
        )  # fmt: skip
        self._system = system

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def run(self, statements: str) -> list[str]:
        """Runs statements, which end with a semicolon, to their end; the lines of their results.

        Raises
        ------
        LakeError
            The database refused one.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        lines: list[str] = []
        try:
            self._process.stdin.write(f"{statements}\nselect '{_END}';\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                if line.strip() == _END:
                    return lines
                lines.append(line.rstrip("\n"))
        except BrokenPipeError:
            pass  # the client ended at an earlier error, which it has told
        raise LakeError(self._process.stderr.read().strip() or "the client has ended", where=self._system)


_END = "-- end --"


def apply_changes(
    databases: Databases,
    *,
    count: int | None,
    rate: float | None,
    applied: Callable[[Transaction], None],
) -> int:
    """Applies the next transactions of the history, where an earlier call has stopped; how many.

    Parameters
    ----------
    count:
        How many at most; of none all that are left.
    rate:
        Transactions a second; of none as fast as the databases take them.
    applied:
        Called after each, when it is committed.

    Raises
    ------
    LakeError
        The databases have not been filled, or the history has ended.
    """
    progress = databases.progress()
    if progress is None:
        raise LakeError("the databases are empty", where=str(databases.settings.home), action="run `make up`")
    database = databases.example.snapshot(progress.scale, progress.seed)
    transactions = databases.example.history(database, progress.scale, progress.seed, progress.row_changes)
    left = list(islice(transactions, progress.transactions, None if count is None else progress.transactions + count))
    if not left and count != 0:
        raise LakeError(
            f"all {len(transactions)} transactions of the history have been applied",
            where=str(databases.settings.home),
            action="`make down`, remove that folder, `make up`; `--row-changes` of `up` makes the history longer",
        )
    with ExitStack() as stack:
        sessions = {system: stack.enter_context(databases.open(system)) for system in databases.systems}
        began = time.monotonic()
        for number, transaction in enumerate(left):
            if rate:
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
            session = sessions[system_of(transaction.changes[0].table)]
            done = progress.transactions + number + 1
            changes = "".join(statements(transaction))
            session.run(f"begin;\n{changes}update lake.progress set transactions = {done};\ncommit;")
            applied(transaction)
    return len(left)


def statements(transaction: Transaction) -> Iterator[str]:
    """The SQL of a transaction, a line for each statement."""
    for _, changes in groupby(transaction.changes, key=lambda change: change.statement):
        yield _statement(list(changes))


def _statement(changes: Sequence[RowChange]) -> str:
    change = changes[0]
    table, before, after = change.table, change.before, change.after
    if len(changes) > 1:
        return _update_of_many(table, changes)
    if before is None:
        assert after is not None
        return f"insert into {name(table)} values ({', '.join(map(literal, after))});\n"
    key = f"{table.key} = {literal(before[0])}"
    if after is None:
        return f"delete from {name(table)} where {key};\n"
    changed = ", ".join(f"{column} = {literal(value)}" for column, value in _changed(table, before, after).items())
    return f"update {name(table)} set {changed} where {key};\n"


def _update_of_many(table: Table, changes: Sequence[RowChange]) -> str:
    """One statement that gives each of several rows values of its own."""
    rows: dict[Value, dict[str, Value]] = {}
    for change in changes:
        assert change.before is not None
        assert change.after is not None
        rows[change.before[0]] = _changed(table, change.before, change.after)
    columns = dict.fromkeys(column for values in rows.values() for column in values)
    settings = []
    for column in columns:
        cases = " ".join(
            f"when {literal(key)} then {literal(values[column])}" for key, values in rows.items() if column in values
        )
        settings.append(f"{column} = case {table.key} {cases} else {column} end")
    keys = ", ".join(map(literal, rows))
    return f"update {name(table)} set {', '.join(settings)} where {table.key} in ({keys});\n"


def _changed(table: Table, before: Row, after: Row) -> dict[str, Value]:
    rows = zip(table.columns, before, after, strict=True)
    return {column.name: new for column, old, new in rows if new != old}


def name(table: Table) -> str:
    """The table's name in the SQL of its database."""
    quote = "`" if system_of(table) == "mariadb" else '"'
    return f"{quote}{table.schema}{quote}.{quote}{table.name}{quote}"


def literal(value: Value) -> str:
    """A value in SQL, as both databases read it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # PostgreSQL takes a backslash as it is, MariaDB for the start of an escape.
        if "\\" in value:
            raise LakeError(f"a text with a backslash: {value!r}", where="SQL", expected="a text without")
        return "'" + value.replace("'", "''") + "'"
    return f"'{value}'" if isinstance(value, date | datetime) else str(value)


def _text_line(row: Iterable[Any]) -> str:
    """A row in the text format of PostgreSQL's COPY, which is that of MariaDB's LOAD DATA as well."""
    fields = []
    for value in row:
        if value is None:
            fields.append("\\N")
        elif isinstance(value, bool):
            fields.append("1" if value else "0")
        else:
            text = str(value).replace("\\", "\\\\")
            fields.append(text.replace("\t", "\\t").replace("\n", "\\n"))
    return "\t".join(fields) + "\n"


def _parts(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while part := list(islice(remaining, size)):
        yield part
