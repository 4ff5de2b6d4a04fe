"""Spark's Thrift server on the session of this process: dbt, PyHive, beeline and BI tools see each commit at once."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ingest.errors import SetupError
from ingest.spark.jvm import java_class, root_cause

HOST = "127.0.0.1"
# Queries share the processors with ingest: each pool gets as much as the other, whatever the other has to do.
_POOL = "queries"


def server_settings(port: int) -> Mapping[str, str]:
    """What a session needs from its start to be served on a port of loopback."""
    return {
        "spark.hadoop.hive.server2.thrift.bind.host": HOST,
        "spark.hadoop.hive.server2.thrift.port": str(port),
        # Every connection works as the user that serves. With users of their own, the end of one connection closes the
        # file systems of all others of that name.
        "spark.hadoop.hive.server2.enable.doAs": "false",
        "spark.hadoop.hive.server2.logging.operation.enabled": "false",
        "spark.sql.thriftserver.scheduler.pool": _POOL,
        # Each connection is a session, with a memory of a table's files that the commit of another does not clear.
        "spark.sql.filesourceTableRelationCacheSize": "0",
    }


def require_free(port: int) -> None:
    """Looks whether the port can be had, before Spark is started to find it out.

    Raises
    ------
    SetupError
        It is in use.
    """
    with socket.socket() as asked:
        asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            asked.bind((HOST, port))
        except OSError as error:
            raise SetupError(
                f"port {port} is in use",
                where="Spark's Thrift server",
                expected="a port of loopback that nothing listens on",
                action="connect to the `lake serve` that listens there, or choose another port with LAKE_THRIFT_PORT",
            ) from error


@contextmanager
def serving(spark: SparkSession, port: int) -> Iterator[str]:
    """Serves the session, opened with `server_settings`, for as long as the block runs; gives the address.

    Raises
    ------
    SetupError
        The server does not start.
    """
    server_class = java_class(spark, "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2")
    try:
        server = server_class.startWithContext(spark._jsparkSession.sqlContext())
    except Py4JJavaError as error:
        raise SetupError(root_cause(error), where=f"Spark's Thrift server on port {port}") from error
    try:
        yield f"{HOST}:{port}"
    finally:
        server.stop()
