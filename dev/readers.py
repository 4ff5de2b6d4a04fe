"""Who reads what dbt has built: the embedded session, or Athena."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dev.chain.athena.client import ask
from ingest.config.project import Project
from ingest.spark.session import open_session


class Reader(Protocol):
    """Reads by queries."""

    def rows(self, query: str, most: int) -> list[dict[str, str | None]]:
        """So many rows of a query, each value as its text."""


@dataclass(frozen=True)
class SparkReader:
    """The embedded session of a project."""

    project: Project

    def rows(self, query: str, most: int) -> list[dict[str, str | None]]:
        """So many rows of a query, each value as its text."""
        return [
            {name: None if value is None else str(value) for name, value in row.asDict().items()}
            for row in open_session(self.project).sql(query).limit(most).collect()
        ]


@dataclass(frozen=True)
class AthenaReader:
    """Athena at an address."""

    address: str

    def rows(self, query: str, most: int) -> list[dict[str, str | None]]:
        """So many rows of a query, each value as its text."""
        return ask(self.address, query)[:most]
