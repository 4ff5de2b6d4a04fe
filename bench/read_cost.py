"""What a query of a partitioned table costs: `_ro`, `_rt` and copy-on-write, by key, by partition, by both, by neither.

MoMA's works are landed merge-on-read and copy-on-write; then eight batches of 900 updates of random works, too few
for a compaction. Each query is asked of the three in turns, before and after a compaction; the median of the rounds
counts, and its ratio to `_ro`, which merges no log files. The session is warmed up. A query reads the same rows of all
three, but for the updates that `_ro` does not show yet.

    python -m bench.read_cost --scale 0.5
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table as Grid

from bench.lake import lake_of_its_own
from examples import databases
from examples.generating.debezium import Event, read_log
from examples.generating.delivery import deliver_in_order
from examples.generating.draw import stream
from examples.generating.model import Database, RowChange, Transaction, row_at
from examples.generating.sink import Bronze
from examples.moma.changes import HISTORY_FROM_US, changed
from examples.moma.rows import PICADOR
from examples.moma.tables import ARTWORKS
from ingest.config.connections import FilesConnection
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.config.tables import Table
from ingest.landing.run import land
from ingest.silver.compaction import compact
from ingest.silver.file_groups import file_groups
from ingest.silver.table import SilverTable
from ingest.spark.session import long_running, open_session

TABLES = ("artworks_mor", "artworks_cow")
READ = ("artworks_mor_ro", "artworks_mor_rt", "artworks_cow")
# With fewer than 1,000 rows a batch is not compacted at once, and with fewer than ten commits none is planned.
BATCHES, ROWS_A_BATCH = 8, 900
_UPDATES_STREAM = 300
QUERIES = {
    "by neither": "department = 'Photography'",
    "by partition": "classification = 'Print'",
    "by key": f"artwork_id = {PICADOR}",
    "by key and partition": f"artwork_id = {PICADOR} and classification = 'Print'",
}
out = Console(width=None if Console().is_terminal else 120, highlight=False)


def main() -> None:
    """Prints seconds of each query, and their ratio to the read-optimized view."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with lake_of_its_own():
        project = Project.load(Path(__file__).resolve().parent.parent)
        spark = open_session(project, long_running(project))
        tables = load_source(project, "moma").choose(list(TABLES))
        connection = tables[0].connection
        assert isinstance(connection, FilesConnection)
        home = Path(connection.path).parent
        databases("moma").generate(home, scale=options.scale, seed=options.seed, phase="snapshot")
        landed(spark, tables)
        rows = databases("moma").snapshot(options.scale, options.seed)
        offset = rows[ARTWORKS.full_name].num_rows
        for batch in batches(rows, options.seed):
            Bronze(home, "avro", ROWS_A_BATCH).write(ARTWORKS, deliver_in_order(batch), offset)
            offset += len(batch)
            landed(spark, tables)
        merged = SilverTable.of(spark, tables[0])
        for when in ("before", "after"):
            if when == "after":
                merged.hudi.plan_compaction()
                compact(merged)
                merged.register()
            groups = file_groups(merged.hudi.timeline)
            logs = sum(len(group.log_files) for group in groups)
            title = f"{when} the compaction: {len(groups)} file groups, {logs} log files; scale {options.scale:g}"
            out.print(measured(spark, title, options.rounds))
        spark.stop()


def landed(spark: SparkSession, tables: tuple[Table, ...]) -> None:
    """Lands the unread input of the tables."""
    for done in land(spark, tables):
        if done.error:
            raise done.error


def batches(rows: Database, seed: int) -> list[list[Event]]:
    """Updates of random works, in batches: their years, which are in no query."""
    draws = stream(seed, _UPDATES_STREAM)
    works = rows[ARTWORKS.full_name]
    transactions = []
    for number in range(BATCHES * ROWS_A_BATCH):
        before = row_at(works, int(draws.integers(0, works.num_rows)))
        after = changed(ARTWORKS, before, {"date": int(draws.integers(1860, 2015))})
        at_us = HISTORY_FROM_US + 1000 * number
        transactions.append(Transaction("postgresql", at_us, (RowChange(ARTWORKS, "u", before, after),)))
    events = list(read_log(transactions))
    return [events[start : start + ROWS_A_BATCH] for start in range(0, len(events), ROWS_A_BATCH)]


def measured(spark: SparkSession, title: str, rounds: int) -> Grid:
    """A row for each query: seconds of each relation, and their ratio to the first."""
    grid = Grid(title=title, title_justify="left")
    grid.add_column("query")
    for relation in READ:
        grid.add_column(f"{relation}, s", justify="right")
    for relation in READ[1:]:
        grid.add_column(f"{relation.rpartition('_')[2]} / ro", justify="right")
    for name, condition in QUERIES.items():
        seconds: dict[str, list[float]] = {relation: [] for relation in READ}
        for _ in range(rounds + 1):
            for relation in READ:
                started = time.monotonic()
                spark.sql(
                    f"select count(*), max(title), max(date) from silver_moma.{relation} where {condition}"
                ).collect()
                seconds[relation].append(time.monotonic() - started)
        middle = {relation: median(each[1:]) for relation, each in seconds.items()}
        ratios = (f"{middle[relation] / middle[READ[0]]:.2f}" for relation in READ[1:])
        grid.add_row(name, *(f"{middle[relation]:.2f}" for relation in READ), *ratios)
    return grid


if __name__ == "__main__":
    main()
