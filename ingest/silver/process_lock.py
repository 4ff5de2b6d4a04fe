"""Lets one process at a time write a table: Hudi's next writer rolls back what another one has begun. Two runs of one
source may overlap, and all that land into a schema share its companion tables.

On a disk it is a lock of the operating system, on a file beside the table: it ends with the process that holds it. On
S3 it is an object beside the table, which is made only where there is none, and written again all the time while it is
held. One that stays as it is was left by a process that is gone, and is taken over. No clocks are compared for it.

Source: the user guide of S3, "Conditional requests".
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from ingest.config.extras import boto3_for_lake
from ingest.config.lake import is_on_s3
from ingest.errors import LakeError, UnavailableError
from ingest.silver.write_errors import write_error
from ingest.spark.shared import Shared

# So long is waited for another process, and so long between two looks, in seconds.
_WAITS_S, _LOOKS_S = 120.0, 0.1
# An object on S3 that was not written again for so long was left behind.
LEFT_AFTER_S = 30.0
# What S3 answers where an object is not as a request wants it: it is there, is another one, is gone, is being written.
_IS_NOT_SO = ("PreconditionFailed", "NoSuchKey", "404", "ConditionalRequestConflict")


class _Lock(Protocol):
    """A lock between processes; an object of it is taken once."""

    def take(self) -> bool:
        """Takes it, where no other process holds it."""
        ...

    def holder(self) -> str:
        """Who holds it, as far as it is known."""
        ...

    @property
    def may_be_taken(self) -> bool:
        """Whether another process may have taken it over by now."""
        ...

    def release(self) -> bool:
        """Lets it go; whether it was held to the end."""
        ...


@dataclass
class _Held:
    """What a process holds of a table: its lock, None where it has none; and how many of its threads do."""

    lock: _Lock | None
    threads: int = 0


@contextmanager
def one_process(spark: SparkSession, path: str, *, where: str) -> Iterator[None]:
    """Held while the table at the path is written, by as many threads of this process as ask. Other processes wait.

    A table is not guarded that is neither on a disk nor at `s3://`, or whose folder alone this process may write.

    Raises
    ------
    UnavailableError
        Another process has held it for all the time that is waited, or has taken it over.
    WriteError
        The lock cannot be written.
    """
    shared, held = Shared.of(spark), _held(spark)
    with shared.lock(f"{path}.lock"):
        if path not in held:
            lock = _lock_beside(path)
            if lock is not None:
                _await(lock, where)
            held[path] = _Held(lock)
        mine = held[path]
        mine.threads += 1
    was_held = True
    try:
        yield
    finally:
        with shared.lock(f"{path}.lock"):
            mine.threads -= 1
            if not mine.threads:
                del held[path]
                was_held = mine.lock is None or mine.lock.release()
    if not was_held:
        raise _taken_over(where)


def require_held(spark: SparkSession, path: str, *, where: str) -> None:
    """Before a commit: what it is made of was read under the lock, and another process may have it by now.

    Raises
    ------
    UnavailableError
        This process holds the table's lock, and has not renewed it for so long that another one may take it over.
    """
    held = _held(spark).get(path)
    if held is not None and held.lock is not None and held.lock.may_be_taken:
        raise _taken_over(where)


def _held(spark: SparkSession) -> dict[str, _Held]:
    held: dict[str, _Held] = Shared.of(spark).remembered("tables that are written")
    return held


def _taken_over(where: str) -> UnavailableError:
    return UnavailableError(
        f"another process has taken over its lock, which this one had not renewed for {LEFT_AFTER_S:.0f} s",
        where=where,
        expected="a process that is not paused, and a storage that answers, while it writes",
        action="run again, which goes on from the last commit",
    )


def _await(lock: _Lock, where: str) -> None:
    deadline = time.monotonic() + _WAITS_S
    while not lock.take():
        if time.monotonic() > deadline:
            raise UnavailableError(
                f"another process has been writing it for {_WAITS_S:.0f} s: {lock.holder()}",
                where=where,
                expected="one process at a time",
                action="see what that process does; nothing of this batch was landed, run again once it has ended",
            )
        time.sleep(_LOOKS_S)


def _lock_beside(path: str) -> _Lock | None:
    folder, _, name = path.rstrip("/").rpartition("/")
    if is_on_s3(path):
        bucket, _, below = folder.removeprefix("s3://").partition("/")
        return ObjectLock(bucket, f"{below}/.{name}.lock".lstrip("/"))
    folder = folder.removeprefix("file:")
    # A location of its own may lie where nothing else may be written, as a mount does.
    is_closed = Path(folder).is_dir() and not os.access(folder, os.W_OK)
    return None if ":/" in folder or is_closed else FileLock(Path(folder) / f".{name}.lock")


def _this_process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


class FileLock:
    """A lock on a file of a disk, which stays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = ExitStack()

    def take(self) -> bool:
        """Takes it, where no other process holds it."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Open for as long as it is held: nothing else lets it go, and nothing stays of it.
            with ExitStack() as opened:
                file = opened.enter_context(self._path.open("a+b", buffering=0))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.truncate(0)
                file.write(_this_process().encode())
                self._opened = opened.pop_all()
        except BlockingIOError:
            return False
        except OSError as error:
            raise write_error(error, where=str(self._path)) from error
        return True

    def holder(self) -> str:
        """Who holds it, as the file says."""
        with suppress(OSError):
            return self._path.read_text(encoding="utf-8")
        return str(self._path)

    @property
    def may_be_taken(self) -> bool:
        """Never: it ends with the process."""
        return False

    def release(self) -> bool:
        """Lets it go."""
        self._opened.close()
        return True


class ObjectLock:
    """A lock by an object in a bucket of S3, which is removed when it is let go."""

    def __init__(self, bucket: str, key: str) -> None:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None
        self._s3 = _client(os.environ.get("AWS_REGION"), endpoint)
        self._place = {"Bucket": bucket, "Key": key}
        self._where = f"s3://{bucket}/{key}"
        # What it holds, and its ETag: of this process once it is taken; of another one, and since when, before.
        self._text, self._etag, self._since = "", "", 0.0
        # When it was written the last time, by the clock of this process.
        self._renewed = 0.0
        self._ends = threading.Event()
        self._renewing: threading.Thread | None = None

    def take(self) -> bool:
        """Takes it, where no other process holds it, or the one that did is gone."""
        if not self._written({"IfNoneMatch": "*"}):
            text, etag = self._found()
            if etag != self._etag:
                self._text, self._etag, self._since = text, etag, time.monotonic()
            is_left = etag and time.monotonic() - self._since > LEFT_AFTER_S
            if not is_left or not self._written({"IfMatch": etag}):
                return False
        self._renewing = threading.Thread(target=self._renew, name="lock", daemon=True)
        self._renewing.start()
        return True

    def holder(self) -> str:
        """Who holds it, as the object says."""
        return self._text

    @property
    def may_be_taken(self) -> bool:
        """Whether it was not written for as long as others wait for it."""
        return time.monotonic() - self._renewed > LEFT_AFTER_S

    def release(self) -> bool:
        """Lets it go; whether no other process has taken it over."""
        self._ends.set()
        if self._renewing is not None:
            self._renewing.join()
        if self._found() != (self._text, self._etag):
            return False
        self._call("delete_object")
        return True

    def _renew(self) -> None:
        while not self._ends.wait(LEFT_AFTER_S / 6):
            with suppress(LakeError):  # it is tried again, until another process has taken it
                if not self._written({"IfMatch": self._etag}):
                    return

    def _written(self, condition: dict[str, str]) -> bool:
        """Writes the object on a condition; whether it is this process's now."""
        text, began = f"{_this_process()} {uuid.uuid4()}", time.monotonic()
        answer = self._call("put_object", Body=text.encode(), **condition)
        etag = str(answer["ETag"]) if answer else ""
        if not answer:
            # The answer of a try before may have been lost.
            found, etag = self._found()
            if found != text:
                return False
        self._text, self._etag, self._renewed = text, etag, began
        return True

    def _found(self) -> tuple[str, str]:
        """What the object holds, and its ETag; both empty where there is none."""
        answer = self._call("get_object")
        return (answer["Body"].read().decode(), str(answer["ETag"])) if answer else ("", "")

    def _call(self, name: str, **more: Any) -> Any:
        """The answer of S3; None where the object is not as the request wants it."""
        import botocore.exceptions as boto  # noqa: PLC0415 - comes with an extra

        try:
            return getattr(self._s3, name)(**self._place, **more)
        except boto.ClientError as error:
            if str(error.response.get("Error", {}).get("Code")) in _IS_NOT_SO:
                return None
            raise write_error(error, where=self._where) from error
        except boto.BotoCoreError as error:
            raise write_error(error, where=self._where) from error


@lru_cache(maxsize=4)
def _client(region: str | None, endpoint: str | None) -> Any:
    """The client of a region and endpoint: made once, it keeps its connections."""
    boto3, config = boto3_for_lake()
    settings = config.Config(
        retries={"mode": "standard", "total_max_attempts": 6},
        connect_timeout=5,
        read_timeout=10,
        max_pool_connections=32,
    )
    # A session of its own: the one that boto3 shares must not be used by several threads at once.
    return boto3.session.Session().client("s3", region_name=region, endpoint_url=endpoint, config=settings)
