"""S7 by way of Kinesis: the customers' changes are put into a stream, landed from its shards, and end as the items."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import pytest
from conftest import REPOSITORY, Row
from pyspark.sql import SparkSession

from dev.chain import processes
from dev.chain.kinesis import ANYBODY
from dev.chain.servers import Chain
from dev.chain.settings import Settings
from examples.customers.changes import WORKED_EXAMPLE, history
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.landing.run import land
from ingest.silver.state import Counts

pytestmark = [pytest.mark.real, pytest.mark.spark]
SCALE, SEED = 0.02, 7
LIVED = history(SCALE, SEED, date(2023, 10, 5))


@dataclass
class Stream:
    """The stand-in for Kinesis, and the session that lands the customers' stream of it."""

    spark: SparkSession

    def put(self, system: str, *options: str) -> subprocess.CompletedProcess[str]:
        """`python -m dev.chain put`."""
        command = [sys.executable, "-m", "dev.chain", "put", system, "--scale", str(SCALE), "--seed", str(SEED)]
        return subprocess.run([*command, *options], cwd=REPOSITORY, capture_output=True, text=True, check=False)

    def land(self) -> Counts:
        """What became of the records that are new."""
        (landed,) = land(self.spark, load_source(Project.load(REPOSITORY), "customers").tables)
        assert landed.error is None, landed.error
        return landed.counts

    def rows(self, *names: str, where: str) -> list[Row]:
        found = self.spark.table("silver_customers.cust_hudi_f1").where(where).select(*names).orderBy("id")
        return [row.asDict() for row in found.collect()]


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> Iterator[Stream]:
    """The server, as the chain starts it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKE_KINESIS_PORT", str(processes.free_port()))
        server = Chain.of(Settings.of_environment()).kinesis
        for name, value in {
            "LAKE_KINESIS_URL": server.address,
            "CUSTOMERS_CONNECTION": "kinesis",
            "AWS_ACCESS_KEY_ID": ANYBODY,
            "AWS_SECRET_ACCESS_KEY": ANYBODY,
        }.items():
            patch.setenv(name, value)
        assert processes.start(server)
        try:
            yield Stream(spark)
        finally:
            processes.stop(server)


def test_the_changes_of_a_stream_end_as_the_items(stream: Stream) -> None:
    """Inserts, then changes of which some come late and some twice, out of two shards."""
    counts = Counts()
    for phase in ("snapshot", "changes"):
        told = stream.put("customers", "--phase", phase)
        assert told.returncode == 0, told.stderr
        counts = counts + stream.land()
    assert counts.read == counts.applied + counts.superseded + counts.duplicate
    assert counts.read > len(LIVED.inserts) + len(LIVED.changes), "some come twice"
    items = LIVED.items(after_changes=True)
    live = stream.rows("id", "custName", "email", "expiresAt", where="`__deleted` = 'false'")
    assert live == [
        {"id": name, **{column: items[name].get(column) for column in ("custName", "email", "expiresAt")}}
        for name in sorted(items)
    ]
    # The last change of an item counts.
    gone = {change.id: change.is_ttl for change in LIVED.changes if change.id not in items}
    tombstones = stream.rows("id", "`__is_ttl_delete`", where="`__deleted` = 'true'")
    assert tombstones == [{"id": name, "__is_ttl_delete": gone[name]} for name in sorted(gone)]
    assert WORKED_EXAMPLE in gone


def test_a_system_without_a_stream_is_named_with_those_that_have_one(stream: Stream) -> None:
    told = stream.put("pagila")
    assert told.returncode == 1
    assert "the example 'pagila' has no stream" in told.stderr
    assert "expected: one of customers" in told.stderr
