"""The rows of TICKIT's snapshot, in the databases of ``examples.tickit.tables``.

:func:`snapshot` makes the rows, ``examples.tickit.changes`` the transactions after them. Everything follows from
``scale`` and ``seed`` alone: one random stream a table, drawn in integers, so that no platform's floating point can
change a byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final

import numpy as np
import pyarrow as pa

from examples.generating.draw import (
    Ints,
    arrow_table,
    draw,
    epoch_s,
    require_scale,
    require_seed,
    shuffled,
    stream,
    words,
    zipf,
)
from examples.generating.model import Database
from examples.tickit.names import CATEGORIES, CITIES, FIRST_NAMES, LAST_NAMES, VENUE_KINDS, VENUE_PREFIXES, WORKS
from examples.tickit.tables import CATEGORY, DATE, EVENT, LIKES, LISTING, SALE, TABLES, USER, VENUE

MIN_SCALE: Final = 0.001
MAX_SCALE: Final = 100.0  # venueid is a smallint: 202 venues a scale of 1

_ROWS_AT_SCALE_1: Final = {"ems.venue": 202, "ems.event": 8798, "crm.user": 49990, "ecomm.listing": 192497,
                           "ecomm.sale": 172456}  # fmt: skip
_FEWEST_ROWS: Final = {"ems.venue": 3, "ems.event": 6, "crm.user": 20, "ecomm.listing": 40, "ecomm.sale": 30}

FIRST_DAY: Final = (date(2008, 1, 1) - date(1970, 1, 1)).days
FIRST_DATEID: Final = 1827
DAYS: Final = 365  # the original, too, leaves out the last day of 2008
DAY_S: Final = 86_400
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_HOLIDAYS: Final = frozenset(
    {(1, 1), (1, 21), (2, 18), (5, 26), (7, 4), (9, 1), (10, 13), (11, 11), (11, 27), (12, 25)}
)

# Share of the year's events by month and by weekday (Monday first): few in January, most before the holidays.
_MONTH_WEIGHTS: Final = (5, 6, 8, 9, 9, 8, 7, 7, 10, 11, 10, 13)
_WEEKDAY_WEIGHTS: Final = (3, 3, 4, 6, 10, 12, 8)
_START_TIMES_S: Final = (14 * 3600, 14 * 3600 + 1800, 15 * 3600, 19 * 3600, 19 * 3600 + 1800, 20 * 3600)
_CATEGORY_WEIGHTS: Final = (6, 5, 5, 6, 3, 18, 20, 9, 20, 4, 4)
CATEGORY_PRICES: Final = (60, 80, 110, 90, 40, 120, 90, 140, 100, 60, 70)  # dollars of an average ticket
_TICKET_COUNTS: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
_TICKET_COUNT_WEIGHTS: Final = (4, 16, 6, 18, 5, 8, 12, 8, 5, 4, 4, 3, 3, 2, 2, 1, 1, 1)

WORKED_SALE: Final = 200
"""The sale of the worked example; its listing's price is 200.00, and its first quantity 4."""
WORKED_BUYER: Final = 11694


def row_counts(scale: float) -> dict[str, int]:
    """Rows of every table in the snapshot, by ``<schema>.<table>``; ``category`` and ``date`` do not scale.

    Raises
    ------
    LakeError
        The scale is outside 0.001 to 100.
    """
    require_scale(scale, "tickit", MIN_SCALE, MAX_SCALE, "424,319 rows")
    scaled = {name: max(_FEWEST_ROWS[name], int(rows * scale + 0.5)) for name, rows in _ROWS_AT_SCALE_1.items()}
    return {table.full_name: scaled.get(table.full_name, len(CATEGORIES)) for table in TABLES} | {"ecomm.date": DAYS}


def snapshot(scale: float, seed: int) -> Database:
    """All rows of the seven tables, keys 1..n (dates 1827..2191), sorted by key.

    What holds: every reference has its row; a listing is older than its event; a sale is younger than its listing
    and older than its event, has its listing's seller and event, and another buyer; a listing's sales never exceed
    its tickets; ``pricepaid`` is ``qtysold`` times the listing's price, ``commission`` 15 % of it, rounded half up;
    ``dateid`` is the day of the row's own time.

    Raises
    ------
    LakeError
        The scale or the seed is out of range.
    """
    require_seed(seed, "tickit")
    rows = row_counts(scale)
    event, event_prices = _events(rows["ems.event"], rows["ems.venue"], stream(seed, 1))
    listing, sale = _listings_and_sales(
        rows["ecomm.listing"],
        rows["ecomm.sale"],
        rows["crm.user"],
        epoch_s(event, "starttime"),
        event_prices,
        stream(seed, 2),
    )
    return {
        "ems.category": CATEGORY.to_arrow(CATEGORIES),
        "ems.venue": _venues(rows["ems.venue"], stream(seed, 0)),
        "ems.event": event,
        "ecomm.date": _dates(),
        "ecomm.listing": listing,
        "ecomm.sale": sale,
        "crm.user": users(1, rows["crm.user"], seed),
    }


def users(first: int, count: int, seed: int) -> pa.Table:
    """``count`` users from ``userid`` ``first`` on; ``username`` and ``email`` are unique over all users of a seed."""
    rng = stream(seed, 3, first)
    ids = np.arange(first, first + count, dtype=np.int64)
    given = words(FIRST_NAMES)[rng.integers(0, len(FIRST_NAMES), count)]
    family = words(LAST_NAMES)[rng.integers(0, len(LAST_NAMES), count)]
    homes = draw(rng, zipf(len(CITIES), 6), count)
    domains = words(("com", "org", "net"))[draw(rng, np.array([6, 2, 2]), count)]
    numbers = rng.integers(0, 10_000, count)
    likes: dict[str, pa.Array] = {}
    for name in LIKES:  # as in the original, most people have not said
        answer = rng.integers(0, 100, count)
        likes[name] = pa.array(answer < 22, mask=answer >= 40)
    return arrow_table(
        USER,
        userid=ids,
        username=_usernames(ids, seed),
        firstname=given,
        lastname=family,
        city=words([city for city, _ in CITIES])[homes],
        state=words([state for _, state in CITIES])[homes],
        email=[
            f"{a}.{b}.{n}@example.{d}".lower() for a, b, n, d in zip(given, family, ids, domains, strict=True)
        ],
        phone=[f"(555) 555-{n:04d}" for n in numbers],
        **likes,
    )  # fmt: skip


def commission_cents(pricepaid_cents: Ints) -> Ints:
    """15 % of the price, rounded half up to whole cents."""
    return (pricepaid_cents * 15 + 50) // 100


def event_name(catid: int, pick: int) -> str:
    """The name that belongs to a number, for an event of a category: a work, or two cities that play."""
    works = WORKS.get(CATEGORIES[catid - 1][2])
    if works:
        return works[pick % len(works)]
    home, guest = pick % len(CITIES), pick // len(CITIES) % (len(CITIES) - 1)
    return f"{CITIES[home][0]} vs. {CITIES[(home + 1 + guest) % len(CITIES)][0]}"


def venue_name(city: str, pick: int) -> str:
    """A venue's name that belongs to a number, such as ``Boston Arena``."""
    prefix = VENUE_PREFIXES[pick // len(VENUE_KINDS) % len(VENUE_PREFIXES)]
    return f"{prefix}{city} {VENUE_KINDS[pick % len(VENUE_KINDS)]}"


def _dates() -> pa.Table:
    rows = []
    for n in range(DAYS):
        day = date.fromordinal(date(2008, 1, 1).toordinal() + n)
        rows.append(
            (
                FIRST_DATEID + n,
                day,
                _WEEKDAYS[day.weekday()],
                n // 7 + 1,
                _MONTHS[day.month - 1],
                str((day.month - 1) // 3 + 1),
                day.year,
                (day.month, day.day) in _HOLIDAYS,
            )
        )
    return DATE.to_arrow(rows)


def _venues(count: int, rng: np.random.Generator) -> pa.Table:
    places = [CITIES[n] for n in draw(rng, zipf(len(CITIES), 20), count)]
    picks = rng.permutation(count)  # so that a city's venues differ in name
    seats = rng.integers(20, 900, count) * 100
    return arrow_table(
        VENUE,
        venueid=np.arange(1, count + 1),
        venuename=[venue_name(city, int(pick)) for (city, _), pick in zip(places, picks, strict=True)],
        venuecity=[city for city, _ in places],
        venuestate=[state for _, state in places],
        venueseats=pa.array(seats, mask=rng.integers(0, 100, count) < 35),
    )


def _events(count: int, venues: int, rng: np.random.Generator) -> tuple[pa.Table, Ints]:
    """The events, and what an average ticket to each costs in dollars.

    Events are sorted by popularity nowhere: :func:`_listings_and_sales` draws its own order of best sellers.
    """
    venue = shuffled(rng, venues)[draw(rng, zipf(venues, 10), count)] + 1
    category = draw(rng, np.array(_CATEGORY_WEIGHTS), count) + 1
    first_weekday = date(2008, 1, 1).weekday()
    calendar = [date.fromordinal(date(2008, 1, 1).toordinal() + n) for n in range(DAYS)]
    weights = [
        0 if n < 4 else _MONTH_WEIGHTS[day.month - 1] * _WEEKDAY_WEIGHTS[(first_weekday + n) % 7]
        for n, day in enumerate(calendar)
    ]
    day = draw(rng, np.array(weights), count)
    start = (FIRST_DAY + day) * DAY_S + np.array(_START_TIMES_S)[rng.integers(0, len(_START_TIMES_S), count)]
    picks = rng.integers(0, 1 << 20, count)
    table = arrow_table(
        EVENT,
        eventid=np.arange(1, count + 1),
        venueid=venue,
        catid=category,
        dateid=FIRST_DATEID + day,
        eventname=[event_name(int(c), int(p)) for c, p in zip(category, picks, strict=True)],
        starttime=start,
    )
    prices = np.array(CATEGORY_PRICES)[category - 1] * rng.integers(60, 200, count) // 100
    return table, prices


@dataclass(frozen=True)
class _Listings:
    """The listings as arrays, a place for each; prices in cents, times in seconds since 1970.

    Attributes
    ----------
    event:
        Places of the events, not their keys.
    sold:
        How many sales a listing has.
    """

    event: Ints
    seller: Ints
    listed: Ints
    tickets: Ints
    price: Ints
    sold: Ints

    def table(self) -> pa.Table:
        """The rows of ``listing``."""
        return arrow_table(
            LISTING,
            listid=np.arange(1, len(self.event) + 1),
            sellerid=self.seller,
            eventid=self.event + 1,
            dateid=FIRST_DATEID + self.listed // DAY_S - FIRST_DAY,
            numtickets=self.tickets,
            priceperticket=self.price,
            totalprice=self.tickets * self.price,
            listtime=self.listed,
        )


def _listings_and_sales(
    listings: int, sales: int, users_: int, starts_s: Ints, event_prices: Ints, rng: np.random.Generator
) -> tuple[pa.Table, pa.Table]:
    events = len(starts_s)
    rank = shuffled(rng, events)  # popularity: 0 sells best
    sellers = shuffled(rng, users_)[: max(2, users_ * 6 // 10)] + 1
    buyers = shuffled(rng, users_)[: max(2, users_ * 7 // 10)] + 1
    listed = _listings(listings, sales, sellers, rank, starts_s, event_prices, rng)
    of_listing = np.repeat(np.arange(listings), listed.sold)
    worked = WORKED_SALE - 1
    if sales > worked:
        example = of_listing[worked]
        listed.price[example] = 200_00
        listed.tickets[example] = max(listed.tickets[example], 4 * listed.sold[example])
        if listed.seller[example] == WORKED_BUYER:
            listed.seller[example] = sellers[sellers != WORKED_BUYER][0]
    return listed.table(), _sales(listed, of_listing, buyers, starts_s, rng)


def _listings(
    count: int, sales: int, sellers: Ints, rank: Ints, starts_s: Ints, event_prices: Ints, rng: np.random.Generator
) -> _Listings:
    """The listings, well-known events first, and how many of the sales each has."""
    events = len(rank)
    popularity = zipf(events, events // 20 + 1)
    popularity[events - max(1, events // 25) :] = 0  # what nobody offers tickets for
    by_rank = np.empty(events, dtype=np.int64)
    by_rank[rank] = np.arange(events)

    event = by_rank[draw(rng, popularity, count)]
    seller = sellers[draw(rng, zipf(len(sellers), 30), count)]
    earliest = np.maximum(FIRST_DAY * DAY_S, starts_s[event] - 90 * DAY_S)
    listed = earliest + rng.integers(0, starts_s[event] - 2 * 3600 - earliest)
    tickets = np.array(_TICKET_COUNTS)[draw(rng, np.array(_TICKET_COUNT_WEIGHTS), count)]
    premium = 100 + 80 * (events - rank[event]) // events  # percent: well-known events cost more
    price = event_prices[event] * premium // 100 * rng.integers(70, 140, count) // 100 * 100
    price = np.maximum(price, 2000) + 50 * (rng.integers(0, 10, count) == 0)

    # Each listing may sell up to four times. All listings' chances compete; the best `sales` of them win, later
    # chances and unpopular events having worse odds. Only how many a listing has won matters.
    chance = np.arange(4 * count) // count
    odds = rng.integers(1, 1 << 32, 4 * count) * (chance + 1) ** 2 * (events + np.tile(rank[event], 4))
    won = np.argsort(odds, kind="stable")[:sales] % count
    sold = np.bincount(won, minlength=count).astype(np.int64)
    return _Listings(event, seller, listed, np.maximum(tickets, sold), price, sold)


def _sales(listings: _Listings, of_listing: Ints, buyers: Ints, starts_s: Ints, rng: np.random.Generator) -> pa.Table:
    """The rows of ``sale``; ``of_listing`` has the place of each one's listing."""
    count = len(of_listing)
    most = np.minimum(8, listings.tickets[of_listing] // listings.sold[of_listing])
    quantity = 1 + rng.integers(0, most)
    if count >= WORKED_SALE:
        quantity[WORKED_SALE - 1] = 4
    seller, event = listings.seller[of_listing], listings.event[of_listing]
    chosen = draw(rng, zipf(len(buyers), 30), count)
    buyer = buyers[chosen]
    buyer = np.where(buyer == seller, buyers[(chosen + 1) % len(buyers)], buyer)
    # From the next second after the listing to half an hour before the event.
    from_s = listings.listed[of_listing] + 1
    sold_at = from_s + rng.integers(0, starts_s[event] - 1800 - from_s)
    paid = quantity * listings.price[of_listing]
    return arrow_table(
        SALE,
        salesid=np.arange(1, count + 1),
        listid=of_listing + 1,
        sellerid=seller,
        buyerid=buyer,
        eventid=event + 1,
        dateid=FIRST_DATEID + sold_at // DAY_S - FIRST_DAY,
        qtysold=quantity,
        pricepaid=paid,
        commission=commission_cents(paid),
        saletime=sold_at,
    )


def _usernames(ids: Ints, seed: int) -> list[str]:
    """Names such as ``JSG99FHE``: a bijection of the ids, so that no two are the same."""
    letters = 26**3
    names = letters * 100 * letters
    step = 7_368_787 * 2_221  # has no factor 2, 5 or 13, hence none in common with the number of names
    spread = (ids.astype(object) * step + seed * 1_000_003 + 12_345) % names

    def three(number: int) -> str:
        return "".join(chr(65 + number // power % 26) for power in (676, 26, 1))

    return [f"{three(n // (100 * letters))}{n // letters % 100:02d}{three(n % letters)}" for n in spread]
