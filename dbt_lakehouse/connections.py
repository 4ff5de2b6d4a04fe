"""The connections of dbt-spark, as this project has them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dbt.adapters.contracts.connection import Connection
from dbt.adapters.spark.connections import SparkConnectionManager, SparkConnectionMethod, SparkCredentials

from dbt_lakehouse.errors import told_briefly


class ConnectionManager(SparkConnectionManager):
    """dbt-spark's connections. Errors are told briefly: of a statement, and of its rows.

    In the embedded session a query runs when its rows are fetched, for which dbt-spark handles no error.
    """

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Opens a connection; of the embedded session in UTC, its zone: PySpark gives timestamps in the process's."""
        if isinstance(connection.credentials, SparkCredentials) and (
            connection.credentials.method == SparkConnectionMethod.SESSION
        ):
            os.environ["TZ"] = "UTC"
            time.tzset()
        return super().open(connection)

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Around each statement."""
        with told_briefly(), super().exception_handler(sql):
            yield

    @classmethod
    def get_result_from_cursor(cls, cursor: Any, limit: int | None) -> Any:
        """The rows of a statement."""
        with told_briefly():
            return super().get_result_from_cursor(cursor, limit)
