"""Rows of Pagila's six tables, made from a scale and a seed. The rows are our own; their number at scale 1 is Pagila's.

Films 1 to 5 begin with the numbers that the article's query shows of them; film 375 has five actors.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final

import numpy as np

from examples.generating.draw import stream
from examples.pagila.tables import Row, Value

_AT: Final = datetime(2022, 2, 15, 9, 34, 33)
_FILMS_AT: Final = datetime(2022, 9, 10, 16, 46, 3, 905795)
_STREAM: Final = 500

LANGUAGES: Final = ("English", "Italian", "Japanese", "Mandarin", "French", "German")
CATEGORIES: Final = (
    "Adventure", "Animation", "Biography", "Comedy", "Crime", "Dance", "Fantasy", "History",
    "Music", "Mystery", "Nature", "Romance", "Science", "Silent", "Thriller", "Western",
)  # fmt: skip
RATINGS: Final = ("G", "PG", "PG-13", "R", "NC-17")
FEATURES: Final = ("Trailers", "Commentaries", "Deleted Scenes", "Behind the Scenes")
# What a text[] may hold besides: nothing, null, a null among others, and every sign that PostgreSQL's text form quotes.
ODD_FEATURES: Final[Mapping[int, list[str | None] | None]] = {
    11: None,
    12: [],
    13: [None, "Trailers", None],
    14: ["Cut, uncut", 'The "lost" reel', "a\\b", "", "{braces}", " blanks "],
    15: ["Überlänge", "字幕", "🎬 making of", "null"],
}
_FIRST_NAMES: Final = (
    "ADA", "BRAM", "CLARA", "DARIO", "EDITH", "FARID", "GRETA", "HUGO", "INES", "JONAS", "KIRA", "LUIS", "MAREN",
    "NOAM", "OLGA", "PAVEL", "QUINN", "ROSA", "SVEN", "TILDA",
)  # fmt: skip
_LAST_NAMES: Final = (
    "ALDER", "BIRCH", "CEDAR", "DOGWOOD", "ELM", "FIR", "GORSE", "HAZEL", "IVY", "JUNIPER", "KAURI", "LARCH", "MAPLE",
    "NUTMEG", "OAK", "PINE", "QUINCE", "ROWAN", "SPRUCE", "TEAK", "VIBURNUM", "WILLOW", "YEW",
)  # fmt: skip
_ADJECTIVES: Final = (
    "AMBER", "BROKEN", "COPPER", "DISTANT", "ELECTRIC", "FROZEN", "GOLDEN", "HOLLOW", "IVORY", "JADE", "LUNAR",
    "MIDNIGHT", "NORTHERN", "PAPER", "QUIET", "RESTLESS", "SILVER", "TIDAL", "VELVET", "WANDERING",
)  # fmt: skip
_NOUNS: Final = (
    "ANCHOR", "BRIDGE", "CARAVAN", "DELTA", "EMBER", "FERRY", "GARDEN", "HARBOR", "ISLAND", "JOURNEY", "LANTERN",
    "MIRROR", "NOTEBOOK", "ORCHARD", "PASSAGE", "QUARRY", "RAILWAY", "SIGNAL", "TERMINUS", "WINDOW",
)  # fmt: skip
_PEOPLE: Final = ("baker", "cartographer", "diver", "florist", "gardener", "locksmith", "pilot", "tailor")
_PLACES: Final = ("a desert town", "a lighthouse", "an old station", "the mountains", "the suburbs", "two cities")
_RATES: Final = (Decimal("0.99"), Decimal("2.99"), Decimal("4.99"))
# release_year, rental_rate, rental_duration: the article's first rows of films 1 to 5.
_FIRST_FILMS: Final = ((2006, "0.99", 6), (2006, "4.99", 3), (2006, "2.99", 7), (2006, "2.99", 5), (2006, "2.99", 6))


def films_at(scale: float) -> int:
    """How many films there are; film 375 is always among them."""
    return max(400, round(1000 * scale))


def fulltext_of(title: str, description: str | None) -> str:
    """The words of a film as a tsvector shows them: sorted, each with its places."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(f"{title} {description or ''}".lower().split(), start=1):
        places.setdefault(word.strip(".,'\\"), []).append(place)
    return " ".join(f"'{word}':{','.join(map(str, places[word]))}" for word in sorted(places) if word)


def snapshot(scale: float, seed: int) -> dict[str, list[Row]]:
    """All rows before the first change, by table, in the order of the key."""
    films, actors = films_at(scale), max(40, round(200 * scale))
    rng = stream(seed, _STREAM)
    return {
        "actor": [_actor(number) for number in range(1, actors + 1)],
        "category": [_named("category_id", number, name) for number, name in enumerate(CATEGORIES, start=1)],
        "film": [_film(rng, number) for number in range(1, films + 1)],
        "film_actor": _film_actors(rng, films, actors),
        "film_category": [
            {"film_id": film, "category_id": 1 + film % len(CATEGORIES), "last_update": _AT}
            for film in range(1, films + 1)
        ],
        # character(20): PostgreSQL fills it up with blanks.
        "language": [_named("language_id", number, f"{name:<20}") for number, name in enumerate(LANGUAGES, start=1)],
    }


def _named(key: str, number: int, name: str) -> Row:
    return {key: number, "name": name, "last_update": _AT}


def _actor(number: int) -> Row:
    first, last = _FIRST_NAMES[number % len(_FIRST_NAMES)], _LAST_NAMES[number * 7 % len(_LAST_NAMES)]
    return {"actor_id": number, "first_name": first, "last_name": last, "last_update": _AT}


def _film(rng: np.random.Generator, number: int) -> Row:
    title = f"{_ADJECTIVES[number % len(_ADJECTIVES)]} {_NOUNS[number // len(_ADJECTIVES) % len(_NOUNS)]}"
    title += f" {number // 400 + 1}" if number >= 400 else ""
    drawn = [int(value) for value in rng.integers(0, 1_000_000, 12)]
    description = f"A {_PEOPLE[drawn[0] % 8]} and a {_PEOPLE[drawn[1] % 8]} meet in {_PLACES[drawn[2] % 6]}."
    year, rate, days = 2006 + drawn[3] % 18, _RATES[drawn[4] % 3], 3 + drawn[5] % 5
    if number <= len(_FIRST_FILMS):
        year, of_article, days = _FIRST_FILMS[number - 1]
        rate = Decimal(of_article)
    features: Value = [name for place, name in enumerate(FEATURES) if (1 + drawn[6] % 15) >> place & 1]
    return {
        "film_id": number,
        "title": title,
        "description": description if drawn[7] % 50 else None,
        "release_year": year,
        "language_id": 1 + drawn[8] % len(LANGUAGES) if drawn[8] % 4 == 0 else 1,
        "original_language_id": 1 + drawn[9] % len(LANGUAGES) if drawn[9] % 5 == 0 else None,
        "rental_duration": days,
        "rental_rate": rate,
        "length": 46 + drawn[10] % 140 if drawn[10] % 40 else None,
        "replacement_cost": Decimal(999 + 100 * (drawn[11] % 21)).scaleb(-2),
        "rating": RATINGS[drawn[11] % 5] if drawn[7] % 60 else None,
        "last_update": _FILMS_AT,
        "special_features": ODD_FEATURES.get(number, features),
        "fulltext": fulltext_of(title, description if drawn[7] % 50 else None),
    }


def _film_actors(rng: np.random.Generator, films: int, actors: int) -> list[Row]:
    """Who plays where. The actors of film 5, whom a change gives to film 100, play nowhere in that one."""
    chosen = {film: rng.permutation(actors)[: 2 + int(rng.integers(0, 8))] + 1 for film in range(1, films + 1)}
    chosen |= {5: np.array([5, 7, 9]), 100: np.array([2, 4, 6]), 375: np.array([5, 12, 21, 30, 39])}
    pairs = sorted((int(actor), film) for film, found in chosen.items() for actor in found)
    return [{"actor_id": actor, "film_id": film, "last_update": _AT} for actor, film in pairs]
