"""The rows of the collection's snapshot: artists from number 1, works from number 128,001.

:func:`snapshot` makes the rows, ``examples.moma.changes`` the transactions after them. Everything follows from
``scale`` and ``seed`` alone: one random stream a table, drawn in integers, so that no platform's floating point can
change a byte. Artists 299 and 441 and the work 128,447 are those of the article at each scale.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from examples.generating.draw import Ints, draw, require_scale, require_seed, stream, zipf
from examples.generating.model import Database, Row
from examples.moma.names import CLASSES, FAMILY, GIVEN, GIVERS, KINDS, NATIONALITIES, NATIONALITY_WEIGHTS, SUBJECTS
from examples.moma.tables import ARTISTS, ARTWORKS

MIN_SCALE: Final = 0.001
MAX_SCALE: Final = 100.0
# As many artists as the article's data has; the number of works is ours.
_ROWS_AT_SCALE_1: Final = {"public.artists": 15_089, "public.artworks": 130_000}
_FEWEST_ROWS: Final = {"public.artists": 500, "public.artworks": 600}

FIRST_ARTWORK: Final = 128_001
# The artists and the work of the worked examples.
BAKKER: Final = 299
BELJON: Final = 441
PICADOR: Final = 128_447
_PICASSO: Final = 4609
RESERVED: Final = (BAKKER, BELJON)
_ARTISTS: Final[dict[int, Row]] = {
    BAKKER: (BAKKER, "Gerhard H. Bakker", "American", "Male", 1906, 1988),
    BELJON: (BELJON, "J. J. Beljon", "Dutch", "Male", 1922, 2002),
}


def row_counts(scale: float) -> dict[str, int]:
    """Rows of both tables in the snapshot, by ``<schema>.<table>``.

    Raises
    ------
    LakeError
        The scale is outside 0.001 to 100.
    """
    require_scale(scale, "moma", MIN_SCALE, MAX_SCALE, f"{sum(_ROWS_AT_SCALE_1.values()):,} rows")
    return {name: max(_FEWEST_ROWS[name], int(rows * scale + 0.5)) for name, rows in _ROWS_AT_SCALE_1.items()}


def snapshot(scale: float, seed: int) -> Database:
    """All rows of both tables, sorted by key.

    What holds: every work's artist has a row, whose name the work repeats; a work is not older than 20 years of its
    artist's life; no work is by artist 299 or 441.

    Raises
    ------
    LakeError
        The scale or the seed is out of range.
    """
    require_seed(seed, "moma")
    counts = row_counts(scale)
    made = artists(1, counts["public.artists"], seed)
    by = picasso(len(made))
    special = {**_ARTISTS, by: (by, "Pablo Picasso", "Spanish", "Male", 1881, 1973)}
    made = [special.get(number, row) for number, row in enumerate(made, start=1)]
    works = artworks(FIRST_ARTWORK, counts["public.artworks"], made, seed)
    works[PICADOR - FIRST_ARTWORK] = picador(by)
    return {"public.artists": ARTISTS.to_arrow(made), "public.artworks": ARTWORKS.to_arrow(works)}


def picasso(artist_count: int) -> int:
    """The artist of the worked example's print: 4609, or the last where there are fewer artists."""
    return min(_PICASSO, artist_count)


def picador(artist_id: int) -> Row:
    """The print of the worked example, as it is before its four updates."""
    return (
        PICADOR, "Picador (La Pique)", artist_id, "Pablo Picasso", None, "Linoleum cut",
        "composition: 20 13/16 x 25 3/16' (52.9 x 64 cm); sheet: 24 7/16 x 29 1/2' (62.1 x 75 cm)", "2009-04-01",
        "Gift of the artist", "Y", "Prints & Illustrated Books", "Print", "330.2009", None, None, "52.9", None, "64",
        None, None, None,
    )  # fmt: skip


def artists(first: int, count: int, seed: int) -> list[Row]:
    """``count`` artists from ``artist_id`` ``first`` on."""
    rng = stream(seed, 0, first)
    given, family = rng.integers(0, len(GIVEN), count), rng.integers(0, len(FAMILY), count)
    nationality = draw(rng, np.array(NATIONALITY_WEIGHTS), count)
    gender = draw(rng, np.array([70, 20, 10]), count)
    born, aged, unknown = rng.integers(1840, 1986, count), rng.integers(24, 95, count), rng.integers(0, 10, count)
    rows: list[Row] = []
    for n in range(count):
        birth = None if unknown[n] == 0 else int(born[n])
        death = int(born[n] + aged[n])
        rows.append(
            (
                first + n,
                f"{GIVEN[given[n]]} {FAMILY[family[n]]}",
                NATIONALITIES[nationality[n]],
                ("Male", "Female", None)[gender[n]],
                birth,
                death if birth is not None and death <= 2017 and unknown[n] < 9 else None,
            )
        )
    return rows


def artworks(first: int, count: int, by: list[Row], seed: int) -> list[Row]:
    """``count`` works from ``artwork_id`` ``first`` on, of these artists; none of the two of the worked examples."""
    rng = stream(seed, 1, first)
    makers = [row for row in by if row[0] not in RESERVED]
    chosen = draw(rng, zipf(len(makers), 12), count)
    classes = draw(rng, np.array([weight for *_, weight in CLASSES]), count)
    draws = rng.integers(0, 1 << 30, (count, 8))
    return [_artwork(first + n, makers[chosen[n]], classes[n], draws[n]) for n in range(count)]


def _artwork(key: int, maker: Row, kind: np.int64, draws: Ints) -> Row:
    classification, medium, department, _ = CLASSES[kind]
    subject, form, size, age, year, giver, number, rest = (int(each) for each in draws)
    height, width = 8 + size % 190, 8 + (size >> 10) % 190
    acquired = 1929 + year % 87
    born = maker[4] if isinstance(maker[4], int) else 1900
    family = FAMILY[giver % len(FAMILY)]
    return (
        key,
        KINDS[form % len(KINDS)].format(SUBJECTS[subject % len(SUBJECTS)]),
        maker[0],
        maker[1],
        None if rest % 11 == 0 else born + 20 + age % 40,
        medium,
        f"{height} x {width} cm",
        None if rest % 13 == 0 else f"{acquired}-{1 + year % 12:02d}-{1 + year % 28:02d}",
        GIVERS[giver % len(GIVERS)].format(family),
        "Y" if rest % 4 else "N",
        department,
        classification,
        f"{1 + number % 900}.{acquired}",
        None,
        None,
        str(height),
        None,
        str(width),
        f"{rest % 90}.5" if classification == "Sculpture" else None,
        f"{1 + rest % 400}" if classification == "Sculpture" else None,
        30 + rest % 5400 if classification in ("Video", "Film/Slides") else None,
    )
