"""The interface of a catalog: by it readers find silver's tables by their names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ingest.silver.hudi import HudiTable


@dataclass(frozen=True)
class Entry:
    """A Hudi table as a catalog is to have it.

    Attributes
    ----------
    columns:
        The columns that the catalog must know, by name, with their types; it has all that the table has.
    views:
        Of a merge-on-read table: the names of its views, and whether each reads only what is compacted.
    description, comments:
        What is said of the table, and of its columns by name.
    """

    hudi: HudiTable
    columns: Mapping[str, str]
    views: Mapping[str, bool] = field(default_factory=dict)
    description: str = ""
    comments: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> str:
        """The schema that the table is in."""
        return self.hudi.options.schema

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the table: its own, then those of its views."""
        return (self.hudi.options.name, *self.views)


class Catalog(ABC):
    """A catalog of schemas and their tables."""

    @abstractmethod
    def register(self, entry: Entry) -> None:
        """Makes a table and its views known, or brings what is known of them up to its last commit.

        Raises
        ------
        WriteError
            The catalog refused. It knows what it knew before; the table itself has its commit.
        """

    @abstractmethod
    def has(self, entry: Entry) -> bool:
        """Whether it knows the table under its name, at its place.

        Raises
        ------
        WriteError
            The catalog does not say.
        """

    @abstractmethod
    def drop(self, schema: str, names: Sequence[str]) -> None:
        """Forgets tables; those that it does not know it leaves out. No file is touched.

        Raises
        ------
        WriteError
            The catalog refused.
        """
