"""Asks an Athena, as any of its clients does."""

from __future__ import annotations

import time

from botocore.exceptions import BotoCoreError, ClientError

from dev.chain.aws import client_of
from ingest.errors import LakeError

_POLL_S = 0.1


def ask(address: str, sql: str) -> list[dict[str, str | None]]:
    """The rows of a query, each value as its text.

    Raises
    ------
    LakeError
        It failed, or Athena does not answer.
    """
    client = client_of(address, "athena")
    try:
        started = client.start_query_execution(QueryString=sql)["QueryExecutionId"]
        status = {"State": "QUEUED"}
        while status["State"] in ("QUEUED", "RUNNING"):
            time.sleep(_POLL_S)
            status = client.get_query_execution(QueryExecutionId=started)["QueryExecution"]["Status"]
        if status["State"] != "SUCCEEDED":
            raise LakeError(status["StateChangeReason"], where=f"Athena: {sql}")
        pages = client.get_paginator("get_query_results").paginate(QueryExecutionId=started)
        found = [row["Data"] for page in pages for row in page["ResultSet"]["Rows"]]
        rows = [[value.get("VarCharValue") for value in row] for row in found]
    except (BotoCoreError, ClientError) as error:
        raise LakeError(str(error), where=f"Athena at {address}") from error
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
