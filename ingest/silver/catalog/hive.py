"""The catalog of the Spark session: Hive's metastore, embedded or a server's. It says where a schema's tables are."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from ingest.errors import WriteError
from ingest.silver.catalog.base import Catalog, Entry
from ingest.silver.hudi import literal
from ingest.silver.write_errors import write_error
from ingest.spark.jvm import java_class, refresh
from ingest.spark.shared import Shared


@dataclass(frozen=True)
class HiveCatalog(Catalog):
    """The catalog of a Spark session."""

    spark: SparkSession

    def made_folder_of(self, schema: str) -> str:
        """Where the tables of a schema are, which is created where it is missing.

        Raises
        ------
        WriteError
            The schema cannot be created.
        """
        spark = self.spark
        try:
            with suppress(AnalysisException):
                return self.folder_of(schema)
            # Tables are landed side by side, and the metastore does not take two creations of a schema at a time.
            with Shared.of(spark).lock("schemas"):
                if not spark.catalog.databaseExists(schema):
                    spark.sql(f"create database if not exists `{schema}`")
            return self.folder_of(schema)
        except (PySparkException, Py4JJavaError) as error:
            raise write_error(error, where=f"schema {schema}") from error

    def has_schema(self, schema: str) -> bool:
        """Whether there is a schema. To look makes none; but one whose folder is there, as of a catalog that was lost,
        is made known again.

        Raises
        ------
        WriteError
            It cannot be looked at.
        """
        try:
            if self.spark.catalog.databaseExists(schema):
                return True
            # Where `create database` puts it.
            place = self.spark._jsparkSession.sessionState().catalog().getDefaultDBPath(schema).toString()
            warehouse = self.spark.conf.get("spark.sql.warehouse.dir")
            folder = java_class(self.spark, "org.apache.hadoop.fs.Path")(f"{warehouse}/{place}")
            is_there = bool(folder.getFileSystem(self.spark._jsc.hadoopConfiguration()).exists(folder))
        except (PySparkException, Py4JJavaError) as error:
            raise write_error(error, where=f"schema {schema}") from error
        return is_there and bool(self.made_folder_of(schema))

    def folder_of(self, schema: str) -> str:
        """Where the tables of a schema are that is there.

        As `spark.catalog.getDatabase` says it, but by one look-up in the metastore: each batch asks for it.
        """
        found = self._external.getDatabase(schema)
        utils = java_class(self.spark, "org.apache.spark.sql.catalyst.catalog.CatalogUtils")
        return str(utils.URIToString(found.locationUri()))

    def register(self, entry: Entry) -> None:
        """Makes a table and its views known to the catalog, and its new commit to the running session.

        The views of a merge-on-read table are marked as Hudi's own sync with a catalog does it.
        """
        spark, path = self.spark, literal(entry.hudi.path)
        marks = {name: f"'hoodie.query.as.ro.table' = '{str(is_ro).lower()}'" for name, is_ro in entry.views.items()}
        try:
            known = self._known(entry)
            for name in entry.names:
                if (found := known.get(name.lower())) is not None:
                    _require_same(found, entry, name)
                else:
                    properties = f"tblproperties ({marks[name]}) " if name in marks else ""
                    relation = f"`{entry.schema}`.`{name}`"
                    spark.sql(f"create table if not exists {relation} using hudi {properties}location {path}")
            self._register_new_columns(entry)
            for name in entry.names:
                refresh(spark, f"`{entry.schema}`.`{name}`")
        except (PySparkException, Py4JJavaError) as error:
            raise write_error(error, where=entry.hudi.options.relation) from error

    def has(self, entry: Entry) -> bool:
        """Whether it knows the table under its name, at its place."""
        name = entry.hudi.options.name
        try:
            found = self._known(entry).get(name.lower())
        except (PySparkException, Py4JJavaError) as error:
            raise write_error(error, where=entry.hudi.options.relation) from error
        return found is not None and _is_of(found, entry)

    def _known(self, entry: Entry) -> dict[str, Any]:
        """What the catalog has under the names of an entry, in lower case."""
        as_scala = java_class(self.spark, "org.apache.spark.api.python.PythonUtils").toSeq
        found = self._external.getTablesByName(entry.schema, as_scala(list(entry.names))).iterator()
        known = {}
        while found.hasNext():
            table = found.next()
            known[str(table.identifier().table()).lower()] = table
        return known

    def companions(self, schema: str) -> list[str]:
        """The names of the ledgers of a schema: those that begin with `_`, as no table of a source does."""
        names = java_class(self.spark, "scala.collection.JavaConverters").seqAsJavaList(
            self._external.listTables(schema, "_*")
        )
        return [str(name) for name in names if str(name).startswith("_")]

    def drop(self, schema: str, names: Sequence[str]) -> None:
        """Forgets tables; those that it does not know it leaves out. No file is touched."""
        try:
            for name in names:
                self.spark.sql(f"drop table if exists `{schema}`.`{name}`")
        except (PySparkException, Py4JJavaError) as error:
            raise write_error(error, where=f"schema {schema}") from error

    def _register_new_columns(self, entry: Entry) -> None:
        """Brings the catalog's columns up to the table's: an entry keeps those of the day it was made.

        In place, by Spark's own call for it: the table is there at every moment, and Hudi makes no commit of its own.
        """
        name, external = entry.hudi.options.name, self._external
        text, place = str(external.getTable(entry.schema, name).schema().json()), f"columns of {entry.schema}.{name}"
        made_of = (text, dict(entry.columns))
        if Shared.of(self.spark).built(place, made_of, lambda: _types_in(text).items() >= entry.columns.items()):
            return
        columns = entry.hudi.stored_columns()
        data_type = java_class(self.spark, "org.apache.spark.sql.types.DataType").fromJson(columns.json())
        for each in (*entry.views, name):
            external.alterTableDataSchema(entry.schema, each, data_type)

    @property
    def _external(self) -> Any:
        """Spark's own way to the metastore. `spark.catalog` looks up schema and table before it asks what it is
        asked."""
        return self.spark._jsparkSession.sessionState().catalog().externalCatalog()


def _require_same(found: Any, entry: Entry, name: str) -> None:
    """By its name readers find the table, and not a view, or a table that is somewhere else or of another kind."""
    if _is_of(found, entry):
        return
    place = _place(found)
    kind = f"a table of {_provider(found)} at {place}" if place else "a view"
    raise WriteError(
        f"the catalog has {kind} under that name",
        where=f"`{entry.schema}`.`{name}`",
        expected=f"none, or the Hudi table at {entry.hudi.path}",
        action="drop it there (`drop table`, `drop view`), or declare another `identifier`, and run again: what was "
        "read is landed, and readers do not find it by this name",
    )


def _is_of(found: Any, entry: Entry) -> bool:
    return _provider(found) == "hudi" and _plain(unquote(_place(found))) == _plain(entry.hudi.path)


def _provider(found: Any) -> str:
    return str(found.provider().get()).lower() if found.provider().isDefined() else "Hive"


def _place(found: Any) -> str:
    location = found.storage().locationUri()
    return str(location.get()) if location.isDefined() else ""


def _plain(place: str) -> str:
    """A place without what says that it is on a disk."""
    return re.sub(r"^file:/+", "/", place).rstrip("/")


def _types_in(schema: str) -> dict[str, str]:
    """The types of the columns, by name, in a schema as JSON."""
    return {column.name: column.dataType.simpleString() for column in T.StructType.fromJson(json.loads(schema))}
