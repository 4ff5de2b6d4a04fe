"""The lake on a cluster: Spark's standalone master and a worker, on loopback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from continuously import wait_until
from lake import Lake

from dev.chain.processes import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
_HOME = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
# Spark's own: what `make setup` writes leaves errors alone, and the news that is waited for is none.
_LOGGING = "-Dlog4j2.configurationFile=org/apache/spark/log4j2-defaults.properties"


@contextmanager
def running(log: Path, ready: str, role: str, *arguments: str) -> Iterator[None]:
    """A server of Spark's, until the block ends; begun once its log says that it is ready."""
    variables = {**os.environ, "SPARK_HOME": str(_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    variables["SPARK_DAEMON_JAVA_OPTS"] = _LOGGING
    command = [str(_HOME / "bin" / "spark-class"), f"{_DEPLOY}.{role}", "--host", "127.0.0.1", "--webui-port", "0"]
    with log.open("w", encoding="utf-8") as written:
        process = subprocess.Popen([*command, *arguments], env=variables, stdout=written, stderr=written)
        try:
            wait_until(lambda: process.poll() is not None or ready in log.read_text(encoding="utf-8"), ready)
            assert process.poll() is None, log.read_text(encoding="utf-8")
            yield
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a master with one worker of two cores."""
    room, port = tmp_path_factory.mktemp("cluster"), free_port()
    address = f"spark://127.0.0.1:{port}"
    worker = ("--cores", "2", "--memory", "2g", "--work-dir", str(room / "work"), address)
    with (
        running(room / "master.log", "New state: ALIVE", "master.Master", "--port", str(port)),
        running(room / "worker.log", "Successfully registered with master", "worker.Worker", *worker),
    ):
        yield address
    # Each session has had an executor there, which did all of its tasks.
    assert list((room / "work").glob("app-*/0/stderr"))


def test_a_system_is_landed_built_and_read_on_a_cluster(master: str, tmp_path: Path) -> None:
    """From the first event to the expected rows of its marts, with all of their tests."""
    lake = Lake({"LAKE_HOME": str(tmp_path / "home"), "LAKE_SPARK_MASTER": master, "LAKE_MEMORY": "1500m"})
    done = lake.run("demo", "orders")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "failed: 0" in done.stdout
