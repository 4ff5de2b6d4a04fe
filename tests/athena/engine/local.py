"""The local Athena, as tests ask it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from dev.chain.aws import client_of, environment_of

_QUERY_WITHIN_S = 120


@dataclass(frozen=True)
class LocalAthena:
    """The three servers, by their addresses."""

    aws: str
    trino: str
    athena: str

    def run(self, sql: str, **how: Any) -> dict[str, Any]:
        """A query that has ended, as GetQueryExecution tells of it."""
        client = client_of(self.athena, "athena")
        started = client.start_query_execution(QueryString=sql, QueryExecutionContext={"Database": "shop"}, **how)
        return self.ended(str(started["QueryExecutionId"]))

    def ended(self, query_id: str) -> dict[str, Any]:
        """A query that was started, once it has ended."""
        client, deadline = client_of(self.athena, "athena"), time.monotonic() + _QUERY_WITHIN_S
        while time.monotonic() < deadline:
            query = client.get_query_execution(QueryExecutionId=query_id)["QueryExecution"]
            if query["Status"]["State"] not in ("QUEUED", "RUNNING"):
                return dict(query)
            time.sleep(0.05)
        raise AssertionError(f"no end after {_QUERY_WITHIN_S} s: {query['Query']}")

    def ask(self, sql: str) -> list[list[str | None]]:
        """The rows of a query, as texts."""
        query = self.run(sql)
        assert query["Status"]["State"] == "SUCCEEDED", query["Status"]["StateChangeReason"]
        pages = client_of(self.athena, "athena").get_paginator("get_query_results")
        rows = [
            [value.get("VarCharValue") for value in row["Data"]]
            for page in pages.paginate(QueryExecutionId=query["QueryExecutionId"])
            for row in page["ResultSet"]["Rows"]
        ]
        return rows[1:] if query["StatementType"] == "DML" else rows

    def refusal(self, sql: str) -> str:
        """Why a query fails."""
        status = self.run(sql)["Status"]
        assert status["State"] == "FAILED", status
        return str(status["StateChangeReason"])

    @property
    def environment(self) -> dict[str, str]:
        """What dbt finds in its environment."""
        return environment_of(self.aws, self.athena)
