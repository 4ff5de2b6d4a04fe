"""What the whole way of a batch of updates costs: decode, order, deduplicate and upsert, against appending the events.

TICKIT's `sale` is landed; then an update of each of its rows comes at once. The limit is Spark reading the same files
and appending them as plain Parquet: no types, no order, no keys, no table. The peer is Hudi alone: the same rows, as
Spark infers them, upserted into a table of the same settings, with Hudi's own choice of the newest row of a key;
without exact types, late changes, counts, positions or a quarantine. The compaction of a batch so large comes once its
rows can be read, and is timed by itself. All sides run in one session, warmed up, in turns;
the median of the rounds' ratios counts: a machine that is slow for a while is slow for all sides of a round.

    python -m bench.updates --form json
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, cast

import fastavro
from pyspark.sql import DataFrame, SparkSession

from bench.lake import lake_of_its_own, timed
from examples import generate
from ingest.config.connections import FilesConnection
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.config.tables import Table
from ingest.landing.run import land
from ingest.landing.table import Upkeep
from ingest.silver.compaction import keep_up
from ingest.silver.table import SilverTable
from ingest.sources.files import listing
from ingest.spark.session import open_session

TABLE = "sale"
# How far an update lies behind the snapshot in its log: any LSN or binlog position is smaller.
BEHIND = 10**10


def main() -> None:
    """Prints seconds of both sides and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--form", default="json", choices=["avro", "json", "envelope"])
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    with lake_of_its_own() as home:
        generate("tickit", home, scale=options.scale, form=options.form, phase="snapshot")
        project = Project.load(Path(__file__).resolve().parent.parent)
        spark = open_session(project)
        (table,) = load_source(project, "tickit").choose([TABLE])
        landed(spark, table)
        peer = _Peer(spark, table, home / "peer")
        peer.upsert(table, "bulk_insert")
        limits, peers, ours, compactions = [], [], [], []
        for number in range(1, options.rounds + 2):
            connection = FilesConnection(type="files", path=str(home / f"updates{number}"))
            updated = replace(table, connection=connection)
            assert isinstance(table.connection, FilesConnection)
            events = _write_updates(Path(table.connection.path), Path(connection.path), table.options.topic, number)
            limits.append(timed(_appended, spark, updated, home / "plain"))
            peers.append(timed(peer.upsert, updated, "upsert"))
            ours.append(timed(landed, spark, updated, _none))
            compactions.append(timed(keep_up, SilverTable.of(spark, updated), False))
            kind = "warm-up" if number == 1 else f"round {number - 1}"
            told = f"appended {limits[-1]:.1f} s, Hudi alone {peers[-1]:.1f} s, landed {ours[-1]:.1f} s"
            told += f", compacted {compactions[-1]:.1f} s"
            print(f"{kind}: {events:,} updates, {told}", flush=True)
        limit, alone, best = min(limits[1:]), min(peers[1:]), min(ours[1:])
        of_peer, of_ours = (_ratio(side[1:], limits[1:]) for side in (peers, ours))
        print(
            f"{TABLE}, scale {options.scale:g}, {options.form}: limit {limit:.1f} s, "
            f"Hudi alone {alone:.1f} s, ratio {of_peer:.2f}; landed {best:.1f} s, ratio {of_ours:.2f}; "
            f"compacted behind it {min(compactions[1:]):.1f} s"
        )
        spark.stop()


def _write_updates(bronze: Path, out: Path, topic: str, number: int) -> int:
    """An update of each row that the snapshot has, as files of the same form; how many."""
    events = 0
    for path in sorted((bronze / topic).rglob("*.*")):
        to = out / path.relative_to(bronze)
        to.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".json":
            text = _updated_text(path.read_text(encoding="utf-8"), number)
            events += text.count("\n")
            to.write_text(text, encoding="utf-8")
        elif path.suffix == ".avro":
            events += _update_avro(path, to, number)
    return events


def _updated_text(text: str, number: int) -> str:
    text = text.replace('"__op":"r"', '"__op":"u"').replace('"op":"r"', '"op":"u"')
    text = re.sub(r'("(?:__source_)?pos":)\d+', lambda found: f"{found[1]}{BEHIND * number}", text)
    return re.sub(r'("(?:__)?lsn":)\d+', lambda found: f"{found[1]}{BEHIND * number}", text)


def _update_avro(path: Path, to: Path, number: int) -> int:
    with path.open("rb") as source:
        reader = fastavro.reader(source)
        records = cast("list[dict[str, Any]]", list(reader))
        schema, codec = reader.writer_schema, reader.codec
    for record in records:
        record["__op"] = "u"
        record |= {name: BEHIND * number for name in ("__lsn", "__source_pos") if name in record}
    with to.open("wb") as target:
        fastavro.writer(target, schema, records, codec=codec)
    return len(records)


def _none(silver: SilverTable, is_behind: bool) -> None:
    """No upkeep: it comes when the rows can be read already."""


def landed(spark: SparkSession, table: Table, upkeep: Upkeep = keep_up) -> None:
    """Lands what is pending of the table, all of which must be applied."""
    for done in land(spark, [table], upkeep=upkeep):
        if done.error:
            raise done.error
        if done.counts.read != done.counts.applied:
            raise SystemExit(f"not every event was applied: {done.counts}")


def _as_spark_reads(spark: SparkSession, table: Table) -> DataFrame:
    _, files = listing(spark, table)
    events = [file for file in files if file.encoding]
    kind = "avro" if events[0].encoding == "avro" else "json"
    return spark.read.format(kind).load([file.path for file in events])


def _appended(spark: SparkSession, table: Table, out: Path) -> None:
    _as_spark_reads(spark, table).write.mode("append").parquet(str(out))


class _Peer:
    """A Hudi table that is written without ingest, with the settings that ingest gives the silver table."""

    def __init__(self, spark: SparkSession, table: Table, path: Path) -> None:
        self._spark = spark
        self._path = str(path)
        silver = SilverTable.of(spark, table)
        state = silver.state()
        assert state is not None
        self._options = {
            **silver.hudi.of_buckets(state.buckets).options.as_hudi(),
            "hoodie.combine.before.upsert": "true",
            "hoodie.table.ordering.fields": "__source_pos",
        }

    def upsert(self, table: Table, operation: str) -> None:
        """Writes the table's events, the last of each key."""
        options = {**self._options, "hoodie.datasource.write.operation": operation}
        rows = _as_spark_reads(self._spark, table)
        if "after" in rows.columns:
            rows = rows.select("after.*", rows["source.pos"].alias("__source_pos"))
        rows.write.format("hudi").options(**options).mode("append").save(self._path)


def _ratio(seconds: list[float], limits: list[float]) -> float:
    return median(one / limit for one, limit in zip(seconds, limits, strict=True))


if __name__ == "__main__":
    main()
