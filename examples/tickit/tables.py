"""The tables of TICKIT, the ticket shop of Redshift's samples, spread over three databases as in the article.

=============  ========================  =======================================
system         database / schema         tables
=============  ========================  =======================================
PostgreSQL     ``tickit`` / ``ems``      ``category``, ``venue``, ``event``
MariaDB        ``ecomm``                 ``date``, ``listing``, ``sale``
SQL Server     ``tickit`` / ``crm``      ``user``
=============  ========================  =======================================
"""

from __future__ import annotations

from typing import Final

from examples.generating.model import Column, Table

PREFIX: Final = "tickit"  # topic.prefix of its connectors

CATEGORY: Final = Table(
    "postgresql", "tickit", "ems", "category",
    (
        Column("catid", "int16", nullable=False),
        Column("catgroup", "string"),
        Column("catname", "string"),
        Column("catdesc", "string"),
    ),
    prefix=PREFIX,
)  # fmt: skip
VENUE: Final = Table(
    "postgresql", "tickit", "ems", "venue",
    (
        Column("venueid", "int16", nullable=False),
        Column("venuename", "string"),
        Column("venuecity", "string"),
        Column("venuestate", "string"),
        Column("venueseats", "int32"),
    ),
    prefix=PREFIX,
)  # fmt: skip
EVENT: Final = Table(
    "postgresql", "tickit", "ems", "event",
    (
        Column("eventid", "int32", nullable=False),
        Column("venueid", "int16", nullable=False, references="ems.venue"),
        Column("catid", "int16", nullable=False, references="ems.category"),
        Column("dateid", "int16", nullable=False, references="ecomm.date"),
        Column("eventname", "string"),
        Column("starttime", "timestamp"),
    ),
    prefix=PREFIX,
)  # fmt: skip
DATE: Final = Table(
    "mariadb", "ecomm", "ecomm", "date",
    (
        Column("dateid", "int16", nullable=False),
        Column("caldate", "date", nullable=False),
        Column("day", "string", nullable=False),
        Column("week", "int16", nullable=False),
        Column("month", "string", nullable=False),
        Column("qtr", "string", nullable=False),
        Column("year", "int16", nullable=False),
        Column("holiday", "tinyint1"),
    ),
    prefix=PREFIX,
)  # fmt: skip
LISTING: Final = Table(
    "mariadb", "ecomm", "ecomm", "listing",
    (
        Column("listid", "int32", nullable=False),
        Column("sellerid", "int32", nullable=False, references="crm.user"),
        Column("eventid", "int32", nullable=False, references="ems.event"),
        Column("dateid", "int16", nullable=False, references="ecomm.date"),
        Column("numtickets", "int16", nullable=False),
        Column("priceperticket", "decimal"),
        Column("totalprice", "decimal"),
        Column("listtime", "datetime"),
    ),
    prefix=PREFIX,
)  # fmt: skip
SALE: Final = Table(
    "mariadb", "ecomm", "ecomm", "sale",
    (
        Column("salesid", "int32", nullable=False),
        Column("listid", "int32", nullable=False, references="ecomm.listing"),
        Column("sellerid", "int32", nullable=False, references="crm.user"),
        Column("buyerid", "int32", nullable=False, references="crm.user"),
        Column("eventid", "int32", nullable=False, references="ems.event"),
        Column("dateid", "int16", nullable=False, references="ecomm.date"),
        Column("qtysold", "int16", nullable=False),
        Column("pricepaid", "decimal"),
        Column("commission", "decimal"),
        Column("saletime", "datetime"),
    ),
    prefix=PREFIX,
)  # fmt: skip
LIKES: Final = (
    "likesports", "liketheatre", "likeconcerts", "likejazz", "likeclassical",
    "likeopera", "likerock", "likevegas", "likebroadway", "likemusicals",
)  # fmt: skip
USER: Final = Table(
    "sqlserver", "tickit", "crm", "user",
    (
        Column("userid", "int32", nullable=False),
        *(
            Column(name, "string")
            for name in ("username", "firstname", "lastname", "city", "state", "email", "phone")
        ),
        *(Column(name, "bit") for name in LIKES),
    ),
    prefix=PREFIX,
)  # fmt: skip
TABLES: Final = (CATEGORY, VENUE, EVENT, DATE, LISTING, SALE, USER)
