"""A local Athena for the tests of this folder, on free ports, in a folder of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import embedded_session
from pyspark.sql import SparkSession

from athena.engine.building import AthenaModels
from athena.engine.local import LocalAthena
from dev.chain.athena.server import Athena
from dev.chain.aws import LAKE_BUCKET, Aws, make_buckets
from dev.chain.processes import Server, free_ports, start, stop
from dev.chain.trino import Trino


@pytest.fixture(scope="session")
def athena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAthena]:
    """The servers, ready for queries."""
    home = tmp_path_factory.mktemp("athena")
    with ExitStack() as running:
        aws, trino, server = _servers(home, free_ports(3))
        for each in (aws, trino, server):
            start(each)
            running.callback(stop, each)
        make_buckets(aws.address)
        yield LocalAthena(aws.address, trino.address, server.address)


def _servers(home: Path, ports: Sequence[int]) -> tuple[Server, Server, Server]:
    aws = Aws(home / "aws", ports[0])
    trino = Trino(home / "trino", ports[1], aws.address)
    return aws, trino, Athena(home / "server", ports[2], trino.address, aws.address)


@pytest.fixture(scope="session")
def spark(athena: LocalAthena, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The embedded session of the repository's own profile, whose lake is where the local Athena reads."""
    assert SparkSession.getActiveSession() is None, "run these tests by themselves: their session has another lake"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**athena.environment, "LAKE_ROOT": f"s3://{LAKE_BUCKET}/silver"}.items():
            patch.setenv(name, value)
        with embedded_session(tmp_path_factory.mktemp("lake")) as session:
            yield session


@pytest.fixture
def models(athena: LocalAthena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AthenaModels:
    """An empty project of dbt, in a schema of its own."""
    schema = f"marts_{uuid.uuid4().hex[:8]}"
    for name, value in {**athena.environment, "LAKE_SCHEMA": schema}.items():
        monkeypatch.setenv(name, value)
    return AthenaModels.of(athena, tmp_path / "project", schema)
