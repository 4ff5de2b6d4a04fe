"""A catalog in PostgreSQL: many processes at a time, each of which sees what another lands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from conftest import REPOSITORY
from lake import Lake

from dev.chain.processes import free_port
from real.broker import PASSWORD
from real.conftest import Server

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]


# A session that stays, as that of a `dbt build` does: it looks once more when it is told to.
_LOOKS = """
import sys
from pathlib import Path
from ingest.config.project import Project
from ingest.spark.session import open_session
spark = open_session(Project.load(Path.cwd()))
for _ in range(2):
    print("last", spark.sql("select max(_hoodie_commit_time) from silver_tickit.user").first()[0], flush=True)
    sys.stdin.readline()
"""


def test_processes_share_a_catalog_in_postgresql(postgresql: Server, tmp_path: Path) -> None:
    postgresql.run("create database metastore;")
    lake = Lake({"LAKE_HOME": str(tmp_path), "LAKE_THRIFT_PORT": str(free_port()), "LAKE_MEMORY": "1g",
                 "LAKE_METASTORE_URL": postgresql.url.replace("/shop", "/metastore"),
                 "LAKE_METASTORE_USER": postgresql.user, "LAKE_METASTORE_PASSWORD": PASSWORD})  # fmt: skip
    generate = ("generate", "tickit", "--out", str(tmp_path), "--scale", "0.001", "--phase")
    assert lake.run(*generate, "snapshot").returncode == 0
    with lake.running("serve", "--ingest", "tickit", until_landed=("date", "user")) as process:
        started = psutil.Process(process.pid).children(recursive=True)
        commands = [" ".join(each.cmdline()) for each in started if each.name() == "java"]
        found = lake.run("sql", "select count(*) as dates from silver_tickit.`date`", "--json")
        with subprocess.Popen(
            [sys.executable, "-c", _LOOKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=REPOSITORY, env={**os.environ, **lake.environment},
        ) as session:  # fmt: skip
            assert session.stdin is not None
            assert session.stdout is not None
            seen = [next(line for line in session.stdout if line.startswith("last "))]
            assert lake.run(*generate, "changes").returncode == 0
            lake.wait_for("user")
            session.stdin.write("\n")
            session.stdin.flush()
            seen.append(next(line for line in session.stdout if line.startswith("last ")))
            session.stdin.close()
        assert seen[0] != seen[1], "the session does not see what another process has landed since"
    assert found.returncode == 0, found.stderr[-2000:]
    assert json.loads(found.stdout) == [{"dates": 365}]
    assert commands
    assert PASSWORD not in " ".join(commands)
    assert not (tmp_path / "metastore").exists(), "no embedded catalog was made"


@pytest.mark.slow
def test_a_catalog_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    url = f"jdbc:postgresql://127.0.0.1:{free_port()}/metastore"
    lake = Lake({"LAKE_HOME": str(tmp_path), "LAKE_METASTORE_URL": url, "LAKE_METASTORE_PASSWORD": PASSWORD})
    done = lake.run("sql", "show databases")
    assert done.returncode == 1
    assert "the catalog's database cannot be opened" in done.stderr
    assert "LAKE_METASTORE_URL" in done.stderr
    assert PASSWORD not in done.stderr
