"""What happens in TICKIT's databases in the five days after the snapshot, as transactions in commit order.

The mix is that of a shop - sales, new listings, price changes, people who move - plus, on purpose, what makes
change data capture hard: changed primary keys, rows deleted and inserted again, several changes of a row within one
millisecond or one transaction, statements that change many rows. What :func:`examples.tickit.rows.snapshot`
promises about the rows holds after every transaction as well.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final, cast

import numpy as np

from examples.generating.model import Database, Row, Table, Transaction, Value
from examples.tickit.rows import CATEGORY_PRICES, FIRST_DATEID, WORKED_SALE, event_name, venue_name
from examples.tickit.shop import Shop
from examples.tickit.tables import EVENT, LIKES, LISTING, SALE, USER, VENUE


def _us(day: int, hour: int = 0, minute: int = 0, second: int = 0) -> int:
    return int(datetime(2023, 2, day, hour, minute, second, tzinfo=UTC).timestamp()) * 1_000_000


# The days of the article's demonstration.
SNAPSHOT_AT_US: Final = _us(26, 22, 39, 7) + 203_000
HISTORY_FROM_US: Final = _us(27)
WORKED_EXAMPLE_AT_US: Final = _us(27, 3, 16, 58)
HISTORY_DAYS: Final = 5
LAST_DAY: Final = date(2023, 3, 3)
_ROW_CHANGES_AT_SCALE_1: Final = 25_000
_FEWEST_ROW_CHANGES: Final = 240
_LAST_START: Final = datetime(2008, 12, 29, 20, 0)


def history(database: Database, scale: float, seed: int, row_changes: int | None = None) -> list[Transaction]:
    """Transactions after the snapshot ``database``, made with the same scale and seed; about 25,000 row changes at 1.

    ``row_changes`` asks for another number of them, which makes another history.

    The update of sale 200 is among them wherever the snapshot has that sale, committed at 03:16:58 of the first day;
    neither that sale nor its listing nor its buyer is touched by any other transaction.
    """
    target = max(_FEWEST_ROW_CHANGES, int(_ROW_CHANGES_AT_SCALE_1 * scale)) if row_changes is None else row_changes
    return _ShopLife(database, target, seed).run()


class _ShopLife(Shop):
    """What happens in the shop, kind by kind."""

    def __init__(self, database: Database, target: int, seed: int) -> None:
        super().__init__(database, HISTORY_FROM_US, target // 4 + 50, seed)
        self._target = target
        # A step has 1.12 row changes on average; the last should come near the end of the fifth day.
        self._gap_us = HISTORY_DAYS * 86_400_000_000 * 112 // 100 // target

    def run(self) -> list[Transaction]:
        """Each kind once, then a weighted mix of them until the target is reached."""
        kinds: tuple[tuple[int, Callable[[], None]], ...] = (
            (30, self._sell),
            (12, self._offer),
            (10, self._sign_up),
            (14, self._reprice),
            (10, self._move_house),
            (6, self._change_likes),
            (8, self._correct_sale),
            (6, self._cancel_sale),
            (6, self._withdraw_listing),
            (3, self._leave),
            (4, self._rename_event),
            (4, self._postpone_event),
            (2, self._reseat_venue),
            (1, self._announce_event),
            (1, self._cancel_event),
            (1, self._open_venue),
            (2, self._rekey_listing),
            (2, self._rekey_user),
            (1, self._rekey_event),
            (3, self._haggle),
            (2, self._fix_event_twice),
            (2, self._fumble_user),
            (2, self._undo_cancellation),
            (2, self._list_and_withdraw),
            (1, self._reprice_many),
        )
        for _, act in kinds:
            self._step(act)
        weights = np.cumsum([weight for weight, _ in kinds])
        while self._row_changes < self._target:
            self._step(kinds[int(np.searchsorted(weights, self._rng.integers(0, weights[-1]), side="right"))][1])
        return self._log

    def _step(self, act: Callable[[], None]) -> None:
        self._now_us += self._int(self._gap_us // 10, self._gap_us * 19 // 10)
        if self._worked and self._now_us >= WORKED_EXAMPLE_AT_US:
            later, self._now_us = self._now_us, WORKED_EXAMPLE_AT_US
            self._update(SALE, WORKED_SALE, self._worked)
            self._commit("mariadb")
            self._now_us, self._worked = max(later, self._now_us + 1000), {}
        act()

    # Shop life: each makes one transaction, or several that belong together

    def _make_sale(self) -> Row | None:
        listid = self._pick(LISTING, tickets=1)
        buyer = self._pick(USER)
        if listid is None or buyer is None:
            return None
        listing = self._row(LISTING, listid)
        assert listing is not None
        seller, event = self._of(LISTING, listing, "sellerid"), self._of(LISTING, listing, "eventid")
        if buyer == seller:
            return None
        quantity = self._int(1, min(4, self._left[listid]) + 1)
        sold_at = self._between(cast(datetime, listing[-1]) + timedelta(seconds=1), event)
        key = self._tables["ecomm.sale"].next_key()
        return (
            key, listid, seller, buyer, event, _dateid(sold_at), quantity,
            *_paid(quantity, cast(Decimal, listing[LISTING.positions["priceperticket"]])), sold_at,
        )  # fmt: skip

    def _make_listing(self) -> Row | None:
        event, seller = self._pick(EVENT), self._pick(USER)
        if event is None or seller is None:
            return None
        row = self._row(EVENT, event)
        assert row is not None
        dollars = CATEGORY_PRICES[self._of(EVENT, row, "catid") - 1]
        price = Decimal(max(20, dollars * self._int(60, 220) // 100)).quantize(Decimal("0.01"))
        tickets = self._int(1, 21)
        listed_at = self._between(datetime(2008, 1, 1), event)
        key = self._tables["ecomm.listing"].next_key()
        return (key, seller, event, _dateid(listed_at), tickets, price, price * tickets, listed_at)

    def _between(self, earliest: datetime, event: int) -> datetime:
        """A whole second from ``earliest`` on, well before the event starts."""
        row = self._row(EVENT, event)
        assert row is not None
        start = cast(datetime, row[EVENT.positions["starttime"]])
        span = int((start - earliest).total_seconds()) - 1200
        return earliest + timedelta(seconds=self._int(0, max(1, span)))

    def _sell(self) -> None:
        if row := self._make_sale():
            self._insert(SALE, row)
            self._commit("mariadb")

    def _offer(self) -> None:
        if row := self._make_listing():
            self._left[cast(int, row[0])] = self._of(LISTING, row, "numtickets")
            self._insert(LISTING, row)
            self._commit("mariadb")

    def _next_user(self) -> Row:
        template = self._newcomers.pop(0)
        return (self._tables["crm.user"].next_key(), *template[1:])

    def _sign_up(self) -> None:
        self._insert(USER, self._next_user())
        self._commit("sqlserver")

    def _set_price(self, listid: int, price: Decimal, *, same_statement: bool = False) -> None:
        listing = self._row(LISTING, listid)
        assert listing is not None
        total = price * self._of(LISTING, listing, "numtickets")
        self._update(LISTING, listid, {"priceperticket": price, "totalprice": total}, same_statement=same_statement)

    def _price_near(self, listid: int, low: int, high: int) -> Decimal:
        """A whole number of dollars between ``low`` and ``high`` percent of the listing's price."""
        listing = self._row(LISTING, listid)
        assert listing is not None
        dollars = int(cast(Decimal, listing[LISTING.positions["priceperticket"]]))
        return Decimal(min(4000, max(20, dollars * self._int(low, high) // 100))).quantize(Decimal("0.01"))

    def _reprice(self) -> None:
        if listid := self._pick(LISTING, unused=True):
            self._set_price(listid, self._price_near(listid, 60, 125))
            self._commit("mariadb")

    def _reprice_many(self) -> None:
        """One statement that changes several rows: on MariaDB they share file and position and differ by row."""
        chosen = {key for _ in range(6) if (key := self._pick(LISTING, unused=True))}
        for n, listid in enumerate(sorted(chosen)):
            self._set_price(listid, self._price_near(listid, 50, 95), same_statement=n > 0)
        self._commit("mariadb")

    def _haggle(self) -> None:
        """Three transactions on one listing within a millisecond."""
        if listid := self._pick(LISTING, unused=True):
            self._start_of_millisecond()
            for _ in range(3):
                self._set_price(listid, self._price_near(listid, 80, 98))
                self._commit("mariadb")
                self._now_us += 130

    def _move_house(self) -> None:
        if userid := self._pick(USER):
            city, state = self._city()
            self._update(USER, userid, {"city": city, "state": state, "phone": self._phone()})
            self._commit("sqlserver")

    def _change_likes(self) -> None:
        if userid := self._pick(USER):
            like = LIKES[self._int(0, len(LIKES))]
            self._update(USER, userid, {like: (True, False, None)[self._int(0, 3)]})
            self._commit("sqlserver")

    def _fumble_user(self) -> None:
        """One transaction that changes a user three times, and another within the same millisecond."""
        if userid := self._pick(USER):
            self._start_of_millisecond()
            for _ in range(3):
                city, state = self._city()
                self._update(USER, userid, {"city": city, "state": state})
            self._commit("sqlserver")
            self._now_us += 400
            self._update(USER, userid, {"phone": self._phone()})
            self._commit("sqlserver")

    def _correct_sale(self) -> None:
        salesid = self._pick(SALE)
        if salesid is None:
            return
        sale = self._row(SALE, salesid)
        assert sale is not None
        left = self._left[self._of(SALE, sale, "listid")]
        quantity = self._of(SALE, sale, "qtysold")
        corrected = self._int(1, min(8, quantity + left) + 1)
        buyer = self._of(SALE, sale, "buyerid")
        if self._int(0, 4) == 0 and (other := self._pick(USER)) and other != self._of(SALE, sale, "sellerid"):
            buyer = other
        price = cast(Decimal, sale[SALE.positions["pricepaid"]]) / quantity
        paid, commission = _paid(corrected, price)
        values: dict[str, Value] = {"buyerid": buyer, "qtysold": corrected, "pricepaid": paid, "commission": commission}
        self._update(SALE, salesid, values)
        self._commit("mariadb")

    def _cancel_sale(self) -> None:
        if salesid := self._pick(SALE):
            self._delete(SALE, salesid)
            self._commit("mariadb")

    def _undo_cancellation(self) -> None:
        """A sale deleted and inserted again under its key: at once, or in a later transaction."""
        if salesid := self._pick(SALE):
            row = self._row(SALE, salesid)
            assert row is not None
            self._delete(SALE, salesid)
            if self._int(0, 2):
                self._commit("mariadb")
                self._now_us += self._int(10, 400_000)
            self._insert(SALE, row)
            self._commit("mariadb")

    def _withdraw_listing(self) -> None:
        if listid := self._pick(LISTING, unused=True):
            self._delete(LISTING, listid)
            self._commit("mariadb")

    def _list_and_withdraw(self) -> None:
        """A listing inserted, changed and deleted in one transaction."""
        if row := self._make_listing():
            listid = cast(int, row[0])
            self._insert(LISTING, row)
            self._set_price(listid, self._price_near(listid, 130, 160))
            self._delete(LISTING, listid)
            self._commit("mariadb")

    def _leave(self) -> None:
        if userid := self._pick(USER, unused=True):
            self._delete(USER, userid)
            self._commit("sqlserver")

    def _rekey(self, table: Table, *, tickets_too: bool = False) -> None:
        key = self._pick(table, unused=True)
        if key is None:
            return
        new_key = self._tables[table.full_name].next_key()
        self._update(table, key, {table.key: new_key})
        if tickets_too:
            self._left[new_key] = self._left.pop(key)
        self._commit(table.system)

    def _rekey_listing(self) -> None:
        self._rekey(LISTING, tickets_too=True)

    def _rekey_user(self) -> None:
        self._rekey(USER)

    def _rekey_event(self) -> None:
        self._rekey(EVENT)

    def _rename_event(self) -> None:
        if eventid := self._pick(EVENT):
            row = self._row(EVENT, eventid)
            assert row is not None
            name = event_name(self._of(EVENT, row, "catid"), self._int(0, 1 << 20))
            self._update(EVENT, eventid, {"eventname": name})
            self._commit("postgresql")

    def _later_start(self, eventid: int) -> dict[str, Value]:
        """A later start and its dateid; never an earlier one, so that listings and sales stay older than it."""
        row = self._row(EVENT, eventid)
        assert row is not None
        start = cast(datetime, row[EVENT.positions["starttime"]])
        later = min(start + timedelta(days=self._int(0, 15), minutes=30 * self._int(1, 3)), max(start, _LAST_START))
        return {"dateid": _dateid(later), "starttime": later}

    def _postpone_event(self) -> None:
        if eventid := self._pick(EVENT):
            self._update(EVENT, eventid, self._later_start(eventid))
            self._commit("postgresql")

    def _fix_event_twice(self) -> None:
        """Two changes of one row in one transaction: on PostgreSQL the same time, two log positions."""
        if eventid := self._pick(EVENT):
            row = self._row(EVENT, eventid)
            assert row is not None
            for _ in range(2):
                name = event_name(self._of(EVENT, row, "catid"), self._int(0, 1 << 20))
                self._update(EVENT, eventid, {"eventname": name})
            self._update(EVENT, eventid, self._later_start(eventid))
            self._commit("postgresql")

    def _announce_event(self) -> None:
        venue = self._pick(VENUE)
        if venue is None:
            return
        catid = self._int(1, 12)
        start = datetime(2008, 2, 1, 19, 30) + timedelta(days=self._int(0, 330))
        name = event_name(catid, self._int(0, 1 << 20))
        self._insert(EVENT, (self._tables["ems.event"].next_key(), venue, catid, _dateid(start), name, start))
        self._commit("postgresql")

    def _cancel_event(self) -> None:
        if eventid := self._pick(EVENT, unused=True):
            self._delete(EVENT, eventid)
            self._commit("postgresql")

    def _open_venue(self) -> None:
        venueid = self._tables["ems.venue"].next_key()
        if venueid > 32_000:  # venueid is a smallint
            return
        city, state = self._city()
        self._insert(VENUE, (venueid, venue_name(city, self._int(0, 72)), city, state, None))
        self._commit("postgresql")

    def _reseat_venue(self) -> None:
        if venueid := self._pick(VENUE):
            self._update(VENUE, venueid, {"venueseats": self._int(20, 900) * 100})
            self._commit("postgresql")


def _dateid(moment: datetime) -> int:
    return FIRST_DATEID + (moment - datetime(2008, 1, 1)).days


def _paid(quantity: int, price: Decimal) -> tuple[Decimal, Decimal]:
    """``pricepaid`` and ``commission`` of a sale."""
    cents = int(price * 100) * quantity
    commission = (cents * 15 + 50) // 100
    return Decimal(cents).scaleb(-2), Decimal(commission).scaleb(-2)
