"""How long the snapshot of all seven TICKIT tables takes to land, against the limit.

The limit is Spark reading the same files and writing them as plain Parquet: no order, no keys, no table. Both sides
run in one session, warmed up, with the same number of tables at a time; the best of the rounds counts.

    python -m bench.snapshot --scale 1 --form avro
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from bench.lake import lake_of_its_own, timed
from examples import generate
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.config.tables import Table
from ingest.landing.run import land
from ingest.sources.files import listing
from ingest.spark.session import open_session

WORKERS = 4


def main() -> None:
    """Prints seconds of both sides and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--form", default="avro", choices=["avro", "json", "envelope"])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with lake_of_its_own() as home:
        generate("tickit", home, scale=options.scale, form=options.form, phase="snapshot")
        project = Project.load(Path(__file__).resolve().parent.parent)
        spark = open_session(project)
        tables = load_source(project, "tickit").tables
        limits, ours = [], []
        for number in range(options.rounds + 1):
            limits.append(timed(_plain_parquet, spark, tables, home / f"plain{number}"))
            ours.append(timed(_land, spark, tables, number))
            kind = "warm-up" if number == 0 else f"round {number}"
            print(f"{kind}: plain Parquet {limits[-1]:.1f} s, landed {ours[-1]:.1f} s", flush=True)
        limit, landed = min(limits[1:]), min(ours[1:])
        print(
            f"snapshot, scale {options.scale:g}, {options.form}: "
            f"limit {limit:.1f} s, landed {landed:.1f} s, ratio {landed / limit:.2f}"
        )
        spark.stop()


def _land(spark: SparkSession, tables: Sequence[Table], number: int) -> None:
    for landed in land(spark, [replace(table, schema=f"bench_{number}") for table in tables], workers=WORKERS):
        if landed.error:
            raise landed.error


def _plain_parquet(spark: SparkSession, tables: Sequence[Table], out: Path) -> None:
    def copy(table: Table) -> None:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", table.name)
        _, files = listing(spark, table)
        events = [file for file in files if file.encoding]
        kind = "avro" if events[0].encoding == "avro" else "json"
        spark.read.format(kind).load([file.path for file in events]).write.parquet(str(out / table.name))

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(copy, tables))


if __name__ == "__main__":
    main()
