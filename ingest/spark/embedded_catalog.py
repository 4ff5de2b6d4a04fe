"""The embedded catalog: Hive's metastore in a Derby database of the lake, which one process has open at a time."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

from pyspark.sql import SparkSession

from ingest.config.project import Project
from ingest.errors import SetupError
from ingest.spark.classes import CATALOG

# How long a command waits for another one to leave the catalog.
_WITHIN_S = 15
# Files of a database that is open: they are no part of a copy.
_OF_AN_OPEN_ONE = shutil.ignore_patterns("*.lck")
log = logging.getLogger(__name__)


def folder_of(settings: Mapping[str, str]) -> Path | None:
    """The folder of the embedded catalog; None where it is a server's."""
    url = settings.get("spark.hadoop.javax.jdo.option.ConnectionURL", "")
    found = re.fullmatch(r"jdbc:derby:[^;]*;.*?databaseName=([^;]+).*", url)
    return Path(found[1]) if found else None


def require_free(project: Project, settings: Mapping[str, str]) -> None:
    """Looks whether another process has the embedded catalog open, before Java is started to find it out.

    Derby holds a lock of the operating system on the file `dbex.lck` of an open database. The Java process of a
    command that was killed holds it for some seconds more, until it has seen that its parent is gone.

    Raises
    ------
    SetupError
        Another process has it, or its files cannot be written.
    """
    folder = folder_of(settings)
    if folder is None:
        return
    _require_writable(folder)
    file = folder / "dbex.lck"
    deadline, is_logged = time.monotonic() + _WITHIN_S, False
    while _is_locked(file):
        if time.monotonic() > deadline:
            raise in_use(project)
        if not is_logged:
            log.warning("another process has the embedded catalog open: waiting for it to end")
            is_logged = True
        time.sleep(0.1)


def begin(settings: Mapping[str, str]) -> None:
    """Gives a lake that has none an empty catalog, which `make setup` has made: Hive takes seconds to make its tables.

    It is that of the Hive within PySpark; where another one is asked for, or the lake has a catalog, nothing is done.
    """
    folder = folder_of(settings)
    others = "SPARK_HOME" in os.environ or any(name.startswith("spark.sql.hive.metastore.") for name in settings)
    if folder is None or others or folder.exists() or not CATALOG.is_dir():
        return
    copy = folder.with_name(f"{folder.name}.{os.getpid()}")
    try:
        shutil.copytree(CATALOG, copy, ignore=_OF_AN_OPEN_ONE)
        copy.rename(folder)
    except OSError as error:
        # Another process was first, or the disk is full: Hive makes its own, or says why it cannot.
        log.debug("no catalog was copied", exc_info=error)
        shutil.rmtree(copy, ignore_errors=True)


def require_own(session: SparkSession, project: Project, settings: Mapping[str, str]) -> None:
    """A catalog has the whole paths of its schemas: that of a copied lake leads to the lake that it was copied from.

    Its first schema, `default`, is where the warehouse was when the catalog was made.

    Raises
    ------
    SetupError
        It is that of another lake.
    """
    folder = folder_of(settings)
    if folder is None:
        return
    own = folder.resolve().parent / "warehouse"
    made_for = Path(unquote(urlparse(session.catalog.getDatabase("default").locationUri).path))
    if (project.root / project.lake_root).resolve() == own and made_for.name == own.name and made_for.resolve() != own:
        raise SetupError(
            f"the catalog is that of the lake in {made_for.parent}: its tables are there",
            where=str(folder.resolve()),
            expected="a lake in the folder in which it was made",
            action=f"put the lake back into {made_for.parent}; or, for a lake of its own, remove this folder: `lake "
            "ingest` makes silver known again, `create table ... using hudi location ...` a snapshot with its history, "
            "and dbt builds its other tables, once their folders in warehouse are moved away",
        )


def in_use(project: Project) -> SetupError:
    """That another process has the embedded catalog open."""
    return SetupError(
        "the embedded catalog cannot be opened: another process (a dbt or lake command) has it open",
        where=f"target '{project.target_name}'",
        expected="one process at a time on an embedded catalog",
        action="use one `lake serve` for all (dbt: --target thrift), wait for the other process to end, or give this "
        "one a lake of its own with LAKE_HOME",
    )


def _require_writable(folder: Path) -> None:
    """Derby opens a database that it cannot write to, for reading alone, and Hive's pool of connections wants to write:
    it asks for another one every seven seconds, and for ever."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    places = (there, *(there.rglob("*") if there == folder else ()))
    if closed := next((place for place in places if not os.access(place, os.W_OK)), None):
        raise SetupError(
            "the embedded catalog cannot be written here",
            where=str(closed.resolve()),
            expected="files of this user's, on a disk that can be written: each command opens the catalog for writing",
            action="run as the user whose lake it is, or let this one write to the whole folder; or use another lake, "
            "by LAKE_HOME",
        )


def _is_locked(file: Path) -> bool:
    try:
        with file.open("r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass  # there is none yet, or it cannot be written: Spark will say so
    return False
