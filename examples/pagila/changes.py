"""What happens to Pagila's tables after the snapshot: the article's statements, and a day's work on other rows.

What the article does to films 1 to 5: film 1 is changed twice, film 2 three times, film 3 gets another category twice,
film 4 is changed once, film 5 is deleted once its actors and its category have gone to film 100. All actors of film 375
leave it in one transaction. A changed primary key is what Debezium makes of it: a delete and a create.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, Literal

from examples.generating.draw import stream
from examples.pagila.rows import ODD_FEATURES, RATINGS, fulltext_of
from examples.pagila.tables import ACTOR, CATEGORY, FILM, FILM_ACTOR, FILM_CATEGORY, TABLES, Key, Row, Table, Value

SNAPSHOT_AT: Final = datetime(2023, 8, 20, 1, 43, 37)
_BEGINS_AT: Final = datetime(2023, 8, 20, 2, 41, 32)
_EVERY: Final = timedelta(seconds=37, microseconds=120_457)
_STREAM: Final = 501
# Films of which the article or a test says what becomes of them.
_KEPT: Final = frozenset({1, 2, 3, 4, 5, 100, 375, *ODD_FEATURES})


@dataclass(frozen=True)
class Change:
    """One changed row; the primary key of an update stays.

    `is_moved`: a row that comes under another key, in the same change of the log as its delete under the old one.
    """

    table: Table
    op: Literal["c", "u", "d"]
    before: Row | None
    after: Row | None
    is_moved: bool = False

    @property
    def key(self) -> Key:
        """The primary key of the row."""
        return self.table.key_of(self.after or self.before or {})


@dataclass(frozen=True)
class Transaction:
    """Changes that were committed together."""

    committed_at: datetime
    changes: tuple[Change, ...]


@dataclass
class Database:
    """The tables as they are, by key, and how they became so."""

    tables: dict[str, dict[Key, Row]]
    transactions: list[Transaction] = field(default_factory=list)
    _pending: list[Change] = field(default_factory=list)

    @classmethod
    def of(cls, rows: Mapping[str, Sequence[Row]]) -> Database:
        """The tables with these rows."""
        return cls({table.name: {table.key_of(row): row for row in rows[table.name]} for table in TABLES})

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is changed within it is committed together."""
        yield
        self.transactions.append(Transaction(self._now, tuple(self._pending)))
        self._pending.clear()

    def insert(self, table: Table, **values: Value) -> None:
        """A new row, with the time in `last_update`."""
        row: Row = {column.name: values.get(column.name) for column in table.columns} | {"last_update": self._now}
        self.tables[table.name][table.key_of(row)] = row
        self._pending.append(Change(table, "c", None, row))

    def update(self, table: Table, *key: Value, **values: Value) -> None:
        """Other values of a row. A trigger of Pagila sets `last_update`, another one the words of a film."""
        before = self.tables[table.name].pop(key)
        after: Row = {**before, **values, "last_update": self._now}
        if table is FILM:
            told = after["description"]
            after = {**after, "fulltext": fulltext_of(str(after["title"]), None if told is None else str(told))}
        new = table.key_of(after)
        self.tables[table.name][new] = after
        if new == key:
            self._pending.append(Change(table, "u", before, after))
        else:
            self._pending += [Change(table, "d", before, None), Change(table, "c", None, after, is_moved=True)]

    def delete(self, table: Table, *key: Value) -> None:
        """No such row any more."""
        self._pending.append(Change(table, "d", self.tables[table.name].pop(key), None))

    def delete_film(self, film: Value) -> None:
        """No such film any more, nor what refers to it."""
        for table in (FILM_ACTOR, FILM_CATEGORY):
            for key in self.keys(table, "film_id", film):
                self.delete(table, *key)
        self.delete(FILM, film)

    def rows(self, table: Table) -> list[Row]:
        """The rows in the order of their key."""
        held = self.tables[table.name]
        return [held[key] for key in sorted(held, key=_sortable)]

    def keys(self, table: Table, column: str, value: Value) -> list[Key]:
        """Keys of the rows that have a value, in order."""
        return [table.key_of(row) for row in self.rows(table) if row[column] == value]

    @property
    def _now(self) -> datetime:
        return _BEGINS_AT + _EVERY * len(self.transactions)


def _sortable(key: Key) -> tuple[int, ...]:
    return tuple(int(str(part)) for part in key)


def changed(rows: Mapping[str, list[Row]], scale: float, seed: int) -> Database:
    """The tables after all changes, with these in commit order."""
    database = Database.of(rows)
    _first_statements(database)
    _second_statements(database)
    a_days_work(database, scale, seed)
    return database


def _first_statements(database: Database) -> None:
    """The article's statements under the envelope."""
    with database.transaction():
        database.insert(CATEGORY, category_id=17, name="Techno Thriller")
    with database.transaction():
        database.update(FILM, 1, release_year=2021, rental_rate=Decimal("2.99"))
    with database.transaction():
        database.update(FILM, 2, rental_duration=3)
    _move_category(database, film=3, category=17)
    with database.transaction():
        database.update(ACTOR, 6, first_name="KATE", last_name="WINSLET")
    with database.transaction():
        for key in database.keys(FILM_ACTOR, "film_id", 375):
            database.delete(FILM_ACTOR, *key)


def _second_statements(database: Database) -> None:
    """The article's statements before its query of films 1 to 5."""
    with database.transaction():
        database.update(FILM, 1, release_year=2019, rental_rate=Decimal("3.99"))
    for days in (4, 7):
        with database.transaction():
            database.update(FILM, 2, rental_duration=days)
    with database.transaction():
        database.insert(CATEGORY, category_id=18, name="Steampunk")
    _move_category(database, film=3, category=18)
    with database.transaction():
        database.update(FILM, 4, release_year=2017, rental_rate=Decimal("3.99"))
    with database.transaction():
        for actor, film in database.keys(FILM_ACTOR, "film_id", 5):
            database.update(FILM_ACTOR, actor, film, film_id=100)
    with database.transaction():
        for film, category in database.keys(FILM_CATEGORY, "film_id", 5):
            database.update(FILM_CATEGORY, film, category, film_id=100)
    with database.transaction():
        database.delete(FILM, 5)


def _move_category(database: Database, *, film: int, category: int) -> None:
    with database.transaction():
        for key in database.keys(FILM_CATEGORY, "film_id", film):
            database.update(FILM_CATEGORY, *key, category_id=category)


def a_days_work(database: Database, scale: float, seed: int) -> None:
    """Other films change, come and go, with who plays in them; of the films above none does."""
    rng = stream(seed, _STREAM)
    for number in range(max(40, round(200 * scale))):
        kind, which, value = (int(drawn) for drawn in rng.integers(0, 1_000_000, 3))
        films = [key[0] for key in database.tables["film"] if key[0] not in _KEPT]
        film = films[which % len(films)]
        with database.transaction():
            if kind % 10 == 0:
                _release(database, number, value)
            elif kind % 10 == 1:
                database.delete_film(film)
            elif kind % 10 == 2:
                features = list(ODD_FEATURES.values())[value % len(ODD_FEATURES)]
                database.update(FILM, film, special_features=features)
            elif kind % 10 == 3:
                database.update(FILM, film, rating=RATINGS[value % 5])
            elif kind % 10 == 4:
                database.update(ACTOR, 7 + value % 30, last_name=f"{value % 900 + 100:04d}")
            else:
                database.update(FILM, film, rental_rate=Decimal(99 + 100 * (value % 6)).scaleb(-2), length=None)


def _release(database: Database, number: int, value: int) -> None:
    """A new film, with an actor and a category."""
    film = 5_000 + number
    database.insert(
        FILM,
        film_id=film,
        title=f"PREMIERE {number}",
        release_year=2023,
        language_id=1 + value % 6,
        rental_duration=3,
        rental_rate=Decimal("4.99"),
        replacement_cost=Decimal("19.99"),
        rating="PG",
        special_features=["Trailers"],
        fulltext=fulltext_of(f"PREMIERE {number}", None),
    )
    database.insert(FILM_ACTOR, actor_id=1 + value % 30, film_id=film)
    database.insert(FILM_CATEGORY, film_id=film, category_id=1 + value % 16)
