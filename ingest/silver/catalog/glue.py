"""Glue's catalog, which Athena reads, beside that of the Spark session.

A commit of a table that Glue knows costs no call, unless it brings columns, comments or partitions that are new: what
Glue was told is remembered as long as the process runs, and looked up once when it begins. So what a run that was
killed, or refused, has not registered is registered by the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import types as T

from ingest.config.lake import is_on_s3
from ingest.errors import LakeError, WriteError
from ingest.silver.catalog import glue_forms
from ingest.silver.catalog.base import Catalog, Entry
from ingest.silver.catalog.glue_client import GlueClient
from ingest.silver.catalog.glue_forms import Input
from ingest.silver.catalog.hive import HiveCatalog
from ingest.silver.hudi import HudiTable, TableOptions
from ingest.silver.write_errors import write_error
from ingest.spark.shared import Shared

# What others may say of a table, and is left as it is.
_OTHERS_SAY = ("Owner", "Retention", "ViewOriginalText", "ViewExpandedText", "TargetTable")


@dataclass(frozen=True)
class _Told:
    """What Glue was told of a table.

    Attributes
    ----------
    made_of:
        The entry that it was told, without its partitions.
    tables:
        The table and its views, as Glue has them.
    seen, partitions:
        The values of each partition that it has, and the requests of the commits that these are of: a compaction that
        was requested later may be completed sooner. Empty before it was told of any.
    """

    made_of: object
    tables: Mapping[str, Input]
    seen: frozenset[str] = frozenset()
    partitions: frozenset[tuple[str, ...]] = frozenset()


@dataclass(frozen=True)
class GlueCatalog(Catalog):
    """Glue's catalog, kept in step with the catalog of a Spark session, by which the session itself reads."""

    session: HiveCatalog

    def register(self, entry: Entry) -> None:
        """Registers a table and its views with the session, then in Glue: all of them, or none that is new. With them
        goes what the session has beside it and Glue was not told of, such as the quarantine."""
        self.session.register(entry)
        try:
            self._tell(entry)
            # Tables are landed side by side, and Glue takes a table's creation once.
            with Shared.of(self.session.spark).lock(f"companions of {entry.schema} in Glue"):
                for companion in self._companions(entry.schema):
                    self._tell(companion)
        except (PySparkException, Py4JJavaError) as error:
            raise write_error(error, where=entry.hudi.options.relation) from error

    def has(self, entry: Entry) -> bool:
        """Whether the session knows the table under its name, at its place."""
        return self.session.has(entry)

    def _companions(self, schema: str) -> list[Entry]:
        """What the session has beside the tables of a schema, and Glue was not told of."""
        spark, folder = self.session.spark, self.session.folder_of(schema)
        names = self.session.companions(schema) if is_on_s3(folder) else []
        tables = [
            HudiTable(spark, f"{folder}/{name}", TableOptions(schema, name, key="", ordering="")) for name in names
        ]
        return [Entry(table, {}) for table in tables if table.path not in self._remembered]

    def _tell(self, entry: Entry) -> None:
        """Tells Glue what is new of a table."""
        remembered = self._remembered
        registered = remembered.pop(entry.hudi.path, None)
        made_of = (dict(entry.columns), dict(entry.views), entry.description, dict(entry.comments))
        if registered is None or registered.made_of != made_of:
            registered = self._tables_told(entry, made_of)
        remembered[entry.hudi.path] = self._partitions_told(entry, registered)

    def drop(self, schema: str, names: Sequence[str]) -> None:
        """Forgets tables, in Glue and in the session."""
        GlueClient().delete_tables(schema.lower(), [name.lower() for name in names])
        self.session.drop(schema, names)
        remembered = self._remembered
        for path, registered in list(remembered.items()):
            if {name.lower() for name in names} & registered.tables.keys():
                remembered.pop(path, None)

    @property
    def _remembered(self) -> dict[Any, _Told]:
        return Shared.of(self.session.spark).remembered("told Glue")

    def _tables_told(self, entry: Entry, made_of: object) -> _Told:
        """Makes the tables, or brings them up to what the entry says; each only where it is not so yet."""
        client, schema = GlueClient(), entry.schema.lower()
        stored = entry.hudi.read().schema
        partitions = T.StructType([stored[name] for name in entry.hudi.options.partition_by])
        wanted = glue_forms.table_inputs(entry, entry.hudi.stored_columns(), partitions)
        found = client.tables(schema, list(wanted))
        for name, table in found.items():
            _require_same(schema, name, table, wanted[name])
        if not found and not client.has_database(schema):
            client.create_database(glue_forms.database_input(schema, self.session.folder_of(entry.schema)))
        self._create(client, schema, {name: given for name, given in wanted.items() if name not in found})
        for name, table in found.items():
            if not glue_forms.tells(table, wanted[name]):
                client.update_table(schema, glue_forms.updated(table, wanted[name], _OTHERS_SAY))
        return _Told(made_of, wanted)

    @staticmethod
    def _create(client: GlueClient, schema: str, wanted: Mapping[str, Input]) -> None:
        made: list[str] = []
        try:
            for name, given in wanted.items():
                client.create_table(schema, given)
                made.append(name)
        except LakeError:
            if made:
                client.delete_tables(schema, made)
            raise

    def _partitions_told(self, entry: Entry, registered: _Told) -> _Told:
        """Makes the partitions that commits have written to since Glue was told of some, or all that it lacks."""
        if not entry.hudi.options.partition_by:
            return registered
        timeline = entry.hudi.timeline
        seen, folders = timeline.written_besides(registered.seen)
        if not registered.seen:
            folders = frozenset(timeline.partitions())
        new = {folder: tuple(glue_forms.values_of(folder)) for folder in folders}
        new = {folder: values for folder, values in new.items() if values not in registered.partitions}
        if new:
            client, schema = GlueClient(), entry.schema.lower()
            for name, table in registered.tables.items():
                known = set() if registered.seen else client.partitions(schema, name)
                missing = sorted(folder for folder, values in new.items() if values not in known)
                client.create_partitions(schema, name, [glue_forms.partition_input(table, each) for each in missing])
        return replace(registered, seen=seen, partitions=registered.partitions | frozenset(new.values()))


def _require_same(schema: str, name: str, found: Input, wanted: Input) -> None:
    """Raises WriteError where Glue has another table of that name."""
    storage, here = found.get("StorageDescriptor") or {}, wanted["StorageDescriptor"]
    parameters = found.get("Parameters") or {}
    kind = str(parameters.get("table_type") or found.get("TableType") or "no table type").upper()
    place = str(storage.get("Location") or "")
    is_hudi = "hudi" in str(storage.get("InputFormat") or "").lower()
    partitions = [key["Name"] for key in found.get("PartitionKeys") or ()]
    keys = [key["Name"] for key in wanted["PartitionKeys"]]
    if kind != glue_forms.TABLE_TYPE or not is_hudi:
        what = kind if kind != glue_forms.TABLE_TYPE else f"of {storage.get('InputFormat') or 'no input format'}"
    elif place.rstrip("/") != here["Location"].rstrip("/"):
        what = f"at {place or 'no place'}"
    elif partitions != keys:
        what = f"partitioned by {', '.join(partitions) or 'nothing'}"
    else:
        return
    raise WriteError(
        f"there is a table of that name already, which is {what}",
        where=f"Glue, {schema}.{name}",
        expected=f"none, or the Hudi table at {here['Location']}, partitioned by {', '.join(keys) or 'nothing'}",
        action="remove it from Glue, or declare another schema or name; what was read is landed, and the next run "
        "registers it",
    )
