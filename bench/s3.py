"""Silver on S3 beside silver on disk: the requests and the seconds of a commit, its registration and its compaction.

One table is landed three times: on disk as it is by default, on disk in Hudi's table version 6, and on a stand-in for
S3, where it has version 6 and is registered in Glue. Each round commits the same few rows to all three, registers the
commit and compacts what is merge-on-read. The stand-in answers in a few milliseconds; `--delay` adds to each request
what a real S3 takes.

    python -m bench.s3 --delay 20
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import boto3
from pyspark.sql import SparkSession
from rich.console import Console

from bench.lake import lake_of_its_own
from bench.updates import landed
from dev.chain.moto_s3 import Fault, Request, StandIn, served
from examples import generate
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.config.tables import Table
from ingest.schema.change import silver_columns
from ingest.silver.compaction import compact
from ingest.silver.table import SilverTable
from ingest.spark.session import long_running, open_session

TABLE, BUCKET = "sale", "lake"
_STEPS = ("commit", "register", "compact")
out = Console(width=None if Console().is_terminal else 140, highlight=False)


@dataclass
class Measured:
    """Seconds and requests of each step, a value a round."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {step: [] for step in _STEPS})
    requests: dict[str, list[Counter[str]]] = field(default_factory=lambda: {step: [] for step in _STEPS})

    def step(self, name: str, stand_in: StandIn, do: Callable[[], object]) -> None:
        """Does a step, and notes what it took."""
        with stand_in.counted() as asked:
            begin = time.monotonic()
            do()
            self.seconds[name].append(time.monotonic() - begin)
        self.requests[name].append(asked)

    def told(self, step: str) -> str:
        """Seconds in the median, then the requests of the last round."""
        asked = self.requests[step][-1]
        kinds = ", ".join(f"{number} {kind.removeprefix('s3 ')}" for kind, number in asked.most_common())
        return f"{step} {statistics.median(self.seconds[step]):.2f} s" + (
            f", {asked.total()} requests ({kinds})" if asked else ""
        )


def main() -> None:
    """Prints what each step takes on disk and on S3."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.1, help="Of TICKIT's database.")
    parser.add_argument("--rows", type=int, default=100, help="Rows of a commit.")
    parser.add_argument("--rounds", type=int, default=6, help="Without the first two, which are not counted.")
    parser.add_argument("--delay", type=float, default=0, help="Milliseconds more for each request.")
    parser.add_argument("--table-type", choices=("mor", "cow"), default="mor")
    options = parser.parse_args()
    with lake_of_its_own() as home, served() as stand_in:
        _lead_to(stand_in, options.delay)
        generate("tickit", home, scale=options.scale, form="json", phase="snapshot")
        project = Project.load(Path(__file__).resolve().parent.parent)
        spark = open_session(project, long_running(project))
        (declared,) = load_source(project, "tickit").choose([TABLE])
        for place, table in _placed(declared, options.table_type).items():
            measured, first = Measured(), time.monotonic()
            with stand_in.counted() as asked:
                landed(spark, table)
            told = f", {asked.total()} requests" if asked else ""
            out.print(f"{place}: first landing {time.monotonic() - first:.1f} s{told}")
            _rounds(spark, table, options.rows, options.rounds, measured, stand_in)
            for step in _STEPS:
                out.print(f"{place}: {measured.told(step)}")
        spark.stop()


def _lead_to(stand_in: StandIn, delay_ms: float) -> None:
    """Lets the environment lead to the stand-in, and this one wait."""
    anybody = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "lake")
    region = dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), "us-east-1")
    os.environ.update({**anybody, **region, "AWS_ENDPOINT_URL": stand_in.url, "AWS_EC2_METADATA_DISABLED": "true"})
    boto3.client("s3").create_bucket(Bucket=BUCKET)

    def waits(_: Request) -> Fault | None:
        time.sleep(delay_ms / 1000)
        return None

    stand_in.breaks = waits if delay_ms else None


def _placed(table: Table, table_type: str) -> dict[str, Table]:
    """The table in each place, with the settings it has there."""

    def there(name: str, location: str, version: int) -> Table:
        options = table.options.model_copy(update={"table_type": table_type, "table_version": version})
        return replace(table, name=name, location=location, options=options)

    return {
        "disk, version 9": there("sale_9", "sale_9", 9),
        "disk, version 6": there("sale_6", "sale_6", 6),
        "S3, version 6": there("sale_s3", f"s3://{BUCKET}/bench/sale_s3", 6),
    }


def _rounds(spark: SparkSession, table: Table, rows: int, rounds: int, measured: Measured, stand_in: StandIn) -> None:
    silver = SilverTable.of(spark, table)
    state = silver.state()
    assert state is not None
    columns = [f"`{name}`" for name in silver_columns(table)]
    same = silver.stored().select(*columns).limit(rows).coalesce(1).localCheckpoint()
    for number in range(rounds + 2):
        into = measured if number >= 2 else Measured()
        into.step("commit", stand_in, lambda: silver.write(same, state, first=False))
        into.step("register", stand_in, silver.register)

        def compacted() -> None:
            if table.options.table_type == "mor":
                if "://" not in table.location:
                    silver.hudi.plan_compaction()  # what is due on S3 after each commit
                compact(silver)

        into.step("compact", stand_in, compacted)


if __name__ == "__main__":
    main()
