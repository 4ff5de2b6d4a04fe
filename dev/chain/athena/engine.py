"""Runs a statement on Trino over its REST protocol."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

import httpx

_ANSWERS_WITHIN_S = 60


class EngineError(Exception):
    """A statement failed, or Trino does not answer.

    Attributes
    ----------
    name:
        Trino's name of the error, such as `TABLE_NOT_FOUND`; empty where it does not answer.
    by_user:
        Whether the statement is wrong, and not the server.
    """

    def __init__(self, message: str, *, name: str = "", by_user: bool = False) -> None:
        super().__init__(message)
        self.name = name
        self.by_user = by_user


@dataclass(frozen=True)
class Rows:
    """What a statement gave.

    Attributes
    ----------
    columns:
        Name and Trino's type of each.
    update_count:
        How many rows it wrote.
    scanned_bytes:
        How much of tables it read.
    """

    columns: list[tuple[str, str]] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    update_count: int | None = None
    scanned_bytes: int = 0


@dataclass
class Engine:
    """Trino at an address, with the catalog and the schema that unqualified names are of."""

    address: str
    catalog: str
    schema: str
    cancelled: threading.Event = field(default_factory=threading.Event)

    def types_of(self, query: str) -> dict[str, str]:
        """The columns that a query would give, with their types.

        Raises
        ------
        EngineError
            It is wrong, or Trino does not answer.
        """
        found = self.run("describe output wanted", **{"X-Trino-Prepared-Statement": f"wanted={quote_plus(query)}"})
        return {str(row[0]): str(row[4]) for row in found.rows}

    def run(self, sql: str, **more_headers: str) -> Rows:
        """The rows of a statement, once it has ended.

        Raises
        ------
        EngineError
            It failed, it was cancelled, or Trino does not answer.
        """
        headers = {
            "X-Trino-User": "lake", "X-Trino-Catalog": self.catalog, "X-Trino-Schema": self.schema,
            "X-Trino-Time-Zone": "UTC", "X-Trino-Client-Capabilities": "PARAMETRIC_DATETIME", **more_headers,
        }  # fmt: skip
        columns: list[tuple[str, str]] = []
        rows: list[list[Any]] = []
        try:
            with httpx.Client(headers=headers, timeout=_ANSWERS_WITHIN_S) as client:
                answer = _json(client.post(f"{self.address}/v1/statement", content=sql.encode()))
                while True:
                    columns = [(each["name"], each["type"]) for each in answer.get("columns", ())] or columns
                    rows += answer.get("data", ())
                    if error := answer.get("error"):
                        raise EngineError(error["message"], name=error["errorName"],
                                          by_user=error["errorType"] == "USER_ERROR")  # fmt: skip
                    if "nextUri" not in answer:
                        if "updateType" in answer:
                            columns, rows = [], []
                        scanned = int(answer["stats"].get("physicalInputBytes", 0))
                        return Rows(columns, rows, answer.get("updateCount"), scanned)
                    if self.cancelled.is_set():
                        client.delete(answer["nextUri"])
                        raise EngineError("it was cancelled", name="USER_CANCELED", by_user=True)
                    answer = _json(client.get(answer["nextUri"]))
        except httpx.HTTPError as error:
            raise EngineError(f"Trino does not answer: {error}") from error


def _json(response: httpx.Response) -> dict[str, Any]:
    if response.status_code != 200:
        raise EngineError(f"Trino answers {response.status_code}: {response.text[:200]}")
    answer: dict[str, Any] = response.json()
    return answer
