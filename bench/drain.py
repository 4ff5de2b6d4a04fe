"""How fast changes that wait in Kafka are landed: changes per second of ingest, of its peers, and of the limit.

A Kafka of its own (and a registry, for Avro) gets TICKIT's snapshot in seven topics of two partitions each; every side
drains it. Then updates of random rows come at once, in proportion to the tables' sizes: a tenth of them warms every
side up, the whole number is what is timed. All sides but the last run in one session, four topics at a time. The sides:

- ours: `ingest.landing.run.land` of all seven tables;
- limit: Spark reading the same records and appending their values as Parquet, as they are: bytes, no columns;
- columns: the same, decoded to columns first: no exact types, no order, no keys, no table;
- foreachbatch: Structured Streaming as Hudi's guide shows it: each batch is decoded to columns and upserted by key,
  with Hudi's own default options, also where the session has others; but without the timeline server, which would
  listen on every address of the machine, and takes time rather than saves it (docs/performance.md);
- hoodiestreamer: HoodieStreamer 0.14.0 on Spark 3.4.1 with the topic of `sale` alone: a merge-on-read table as
  ingest's, from Hudi's instant to its commit, so without the start of Java and Spark. Of JSON only: it reads Avro with
  Confluent's deserializer, which Maven Central does not have. Its rate is that of its one topic; its processor time has
  the start of Java and Spark in it.

The first run fetches HoodieStreamer, 300 MB, as bench/hoodiestreamer.lock has it.

    python -m bench.drain --form json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro
from rich.console import Console
from rich.table import Table as Grid

from bench.lake import lake_of_its_own
from dev.chain import processes
from dev.chain.servers import Chain, Registry
from dev.chain.settings import PORTS, Settings
from examples import generate
from examples.generating.debezium import avro_schema, topic_of
from examples.tickit.tables import TABLES
from ingest.config.connections import KafkaConnection, RegistryConnection
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.config.tables import Table
from ingest.landing.run import land
from ingest.sources import kafka
from ingest.sources.kafka_client import partitions
from ingest.spark.jars import choose_java, fetch
from ingest.spark.jvm import java_class
from ingest.spark.session import long_running, open_session

ROOT = Path(__file__).resolve().parent.parent
WORKERS = 4
PARTITIONS = 2
# How far each round of updates lies behind the one before in the source's log, and two updates of one round.
BEHIND, APART = 10**12, 200
LATER_MS = 10**9
# Hudi's defaults where the profile's session has settings of its own, but for the timeline server.
HUDI_DEFAULTS = {
    "hoodie.metadata.enable": "true",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
}
LOCK = Path(__file__).with_name("hoodiestreamer.lock")
STREAMED = "sale"
# The bundle of Hudi has these under another name, and its classes take them by that name.
RELOCATED = ("com.beust.jcommander", "com.codahale.metrics", "com.yammer.metrics", "org.apache.commons.io",
             "org.apache.spark.sql.avro")  # fmt: skip
# What Spark needs of Java 17, as its documentation lists it.
OPENED = ("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
          "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action",
          "sun.util.calendar")  # fmt: skip
# What says which of a row's changes is the last, by connector.
ORDERS = {"postgresql": "__lsn", "mariadb": "__source_pos", "sqlserver": "__source_commit_lsn"}
out = Console(width=110)


@dataclass(frozen=True)
class Drained:
    """How long a side took for so many changes: by the clock, and of the processors, which others disturb less."""

    changes: int
    seconds: float
    processor: float

    @property
    def rate(self) -> float:
        return self.changes / self.seconds

    @property
    def processor_rate(self) -> float:
        return self.changes / self.processor


@dataclass(frozen=True)
class Topic:
    """A topic of one table's changes, the rows of the table's snapshot, and how values are written and read."""

    table: Table
    rows: DataFrame
    schema: str
    prefix: bytes | None  # of an Avro value: the registry's id of its schema; None of JSON

    @property
    def name(self) -> str:
        return self.table.options.topic

    @property
    def order(self) -> str:
        """The column that says which of a row's changes is the last."""
        return ORDERS[str(self.table.options.connector)]

    @property
    def settings(self) -> Mapping[str, str]:
        """What Kafka's clients are given."""
        assert isinstance(self.table.connection, KafkaConnection)
        return self.table.connection.settings

    def encoded(self) -> Expression:
        """A row as the value of a record."""
        row = F.struct(*self.rows.columns)
        if self.prefix is None:
            return F.to_json(row, {"ignoreNullFields": "false"})
        return F.concat(F.lit(bytearray(self.prefix)), to_avro(row, self.schema))

    def decoded(self, records: DataFrame) -> DataFrame:
        """Records' values as rows."""
        row = F.from_json(F.col("value").cast("string"), self.rows.schema)
        if self.prefix is not None:
            row = from_avro(F.expr(f"substring(value, {len(self.prefix) + 1})"), self.schema)
        return records.select(row.alias("row")).select("row.*")

    def updates(self, number: int, count: int) -> DataFrame:
        """So many updates of random rows, each of a transaction of its own, as a round behind all others."""
        (key,) = self.table.key
        numbered = self.rows.withColumn("_row", F.row_number().over(Window.orderBy(key)) - 1)
        chosen = F.floor(F.rand(number) * self.rows.count()).cast("int")
        place = F.lit(BEHIND * number) + F.col("_number") * APART
        written_ms = F.col("__source_ts_ms") + LATER_MS * number + F.col("_number")
        news = {"__op": F.lit("u"), "__source_snapshot": F.lit("false"), "__source_ts_ms": written_ms}
        connector = self.table.options.connector
        if connector == "sqlserver":
            at = [F.format_string("%08x:%08x:%04x", F.lit(100 + number), F.col("_number"), F.lit(n)) for n in (2, 3)]
            serial = F.lit(2).cast("bigint")
            news |= {"__source_change_lsn": at[0], "__source_commit_lsn": at[1], "__source_event_serial_no": serial}
        else:
            news |= {self.order: place}
        if connector == "postgresql":
            news |= {"__source_sequence": F.format_string('["%d","%d"]', place - 48, place)}
        picked = self.rows.sparkSession.range(count).select(F.col("id").alias("_number"), chosen.alias("_row"))
        return picked.join(numbered, "_row").withColumns(news)

    def write(self, rows: DataFrame, order: str) -> None:
        """Writes rows, those of a partition in order."""
        (key,) = self.table.key
        partition = F.pmod(F.hash(key), F.lit(PARTITIONS)).cast("int")
        placed = rows.select(
            F.to_json(F.struct(key)).alias("key"), self.encoded().alias("value"), partition.alias("partition"), order
        )
        sent = placed.repartition(PARTITIONS, "partition").sortWithinPartitions(order).drop(order)
        clients = {f"kafka.{name}": value for name, value in self.settings.items()}
        sent.write.format("kafka").options(**clients).option("topic", self.name).save()


class Side(ABC):
    """Something that drains the topics, again and again."""

    def __init__(self, spark: SparkSession, topics: Sequence[Topic], home: Path) -> None:
        self.spark = spark
        self.topics = topics
        self.home = home / type(self).__name__

    def drain(self) -> float:
        """Takes all that waits; the seconds it took."""
        started = time.monotonic()
        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(self._drain_in_pool, self.topics))
        return time.monotonic() - started

    def _drain_in_pool(self, topic: Topic) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", topic.table.name)
        self.take(topic)

    @abstractmethod
    def take(self, topic: Topic) -> None:
        """Takes all that waits in one topic."""


class Ours(Side):
    """Ingest."""

    def drain(self) -> float:
        started, seconds = time.monotonic(), 0.0
        while read := self._landed():
            out.print(f"  landed {read:,}", highlight=False)
            seconds = time.monotonic() - started
        return seconds

    def _landed(self) -> int:
        read = 0
        for landed in land(self.spark, [topic.table for topic in self.topics], workers=WORKERS):
            if landed.error:
                raise landed.error
            counts = landed.counts
            if counts.read != counts.applied + counts.superseded:
                raise SystemExit(f"{landed.table.relation}: not every event was landed: {counts}")
            read += counts.read
        return read

    def take(self, topic: Topic) -> None:
        raise NotImplementedError


class Limit(Side):
    """Values as they are, appended as Parquet."""

    def __init__(self, spark: SparkSession, topics: Sequence[Topic], home: Path) -> None:
        super().__init__(spark, topics, home)
        self._positions = {topic.name: kafka.KafkaPosition() for topic in topics}

    def take(self, topic: Topic) -> None:
        listed = partitions(self.spark, topic.table)
        waiting = self._positions[topic.name].pending(listed, topic.table)
        rows = self.rows(topic, kafka.read(self.spark, topic.table, waiting))
        rows.write.mode("append").parquet(str(self.home / topic.name))
        ends = {(part.topic, part.partition): part.end for part in waiting}
        self._positions[topic.name] = self._positions[topic.name].advanced(listed, ends)

    def rows(self, topic: Topic, records: DataFrame) -> DataFrame:
        return records.select("value")


class Columns(Limit):
    """The same, decoded first."""

    def rows(self, topic: Topic, records: DataFrame) -> DataFrame:
        return topic.decoded(records)


class HudiSide(Side):
    """A side that keeps a Hudi table for each topic, in a folder of the topic's name."""

    def check(self, number: int, shares: Mapping[str, int]) -> None:
        """Sees to it that each table has every row once, and the last update of the last round."""
        for topic in self.topics:
            held = self.spark.read.format("hudi").load(str(self.home / topic.name))
            found, wanted = (rows.agg(F.count("*"), F.max("__source_ts_ms")).first() for rows in (held, topic.rows))
            assert found is not None
            assert wanted is not None
            if tuple(found) != (wanted[0], wanted[1] + LATER_MS * number + shares[topic.name] - 1):
                raise SystemExit(f"{type(self).__name__}, {topic.name}: rows and last change are {tuple(found)}")


class ForeachBatch(HudiSide):
    """The pattern of Hudi's guide, with Hudi's own defaults."""

    def take(self, topic: Topic) -> None:
        (key,) = topic.table.key
        options = {**HUDI_DEFAULTS, "hoodie.table.name": topic.table.name,
                   "hoodie.datasource.write.recordkey.field": key,
                   "hoodie.datasource.write.precombine.field": topic.order}  # fmt: skip

        def upsert(batch: DataFrame, _: int) -> None:
            batch.write.format("hudi").options(**options).mode("append").save(str(self.home / topic.name))

        clients = {f"kafka.{name}": value for name, value in topic.settings.items()}
        records = self.spark.readStream.format("kafka").options(**clients).option("subscribe", topic.name)
        stream = topic.decoded(records.option("startingOffsets", "earliest").load()).writeStream.foreachBatch(upsert)
        checkpoint = str(self.home / "checkpoints" / topic.name)
        stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


class HoodieStreamer(HudiSide):
    """Hudi's own tool, of one topic, in a process of its own."""

    def __init__(self, spark: SparkSession, topics: Sequence[Topic], home: Path) -> None:
        super().__init__(spark, [topic for topic in topics if topic.table.name == STREAMED], home)
        self._java = choose_java() / "bin" / "java"
        self.home.mkdir()
        self._jars = self._fetched()

    def drain(self) -> float:
        (topic,) = self.topics
        self.take(topic)
        last = max((self.home / topic.name / ".hoodie").glob("*.deltacommit"))
        begun = datetime.strptime(last.stem, "%Y%m%d%H%M%S%f").replace(tzinfo=UTC).timestamp()
        return last.stat().st_mtime - begun

    def take(self, topic: Topic) -> None:
        (key,) = topic.table.key
        schema, properties, log = (self.home / f"{topic.name}.{kind}" for kind in ("avsc", "properties", "log"))
        schema.write_text(topic.schema, encoding="utf-8")
        settings = {
            **topic.settings,
            "auto.offset.reset": "earliest",
            "hoodie.streamer.source.kafka.topic": topic.name,
            "hoodie.streamer.schemaprovider.source.schema.file": schema.as_uri(),
            "hoodie.datasource.write.recordkey.field": key,
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.embed.timeline.server": "false",
            "hoodie.write.markers.type": "DIRECT",
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
        spark = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
        command: list[str | Path] = [
            self._java, "-Xmx3g", "-Duser.timezone=UTC",
            "-Djol.skipHotspotSAAttach=true", "-Djol.skipDynamicAttach=true",
            *(f"-D{name}={value}" for name, value in spark.items()),
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
            "-cp", ":".join(map(str, self._jars)), "org.apache.hudi.utilities.streamer.HoodieStreamer",
            "--spark-master", "local[*]", "--table-type", "MERGE_ON_READ", "--op", "UPSERT",
            "--props", properties.as_uri(),
            "--source-class", "org.apache.hudi.utilities.sources.JsonKafkaSource",
            "--schemaprovider-class", "org.apache.hudi.utilities.schema.FilebasedSchemaProvider",
            "--source-ordering-field", topic.order,
            "--target-base-path", self.home / topic.name, "--target-table", topic.table.name,
        ]  # fmt: skip
        with log.open("w", encoding="utf-8") as told:
            done = subprocess.run(command, stdout=told, stderr=told, check=False)
        if done.returncode != 0:
            causes = [line for line in log.read_text(encoding="utf-8").splitlines() if "Caused by" in line]
            raise SystemExit(f"HoodieStreamer ended with {done.returncode}: {' / '.join(causes)[-2000:]}")

    def _fetched(self) -> list[Path]:
        """The class path: what is locked, with hudi-utilities taking classes as the bundle names them."""
        jars = fetch(LOCK, choose_java())
        tools = [jar for jar in jars if jar.name.startswith(("org.pantsbuild", "org.ow2.asm"))]
        (utilities,) = [jar for jar in jars if jar.name.startswith("org.apache.hudi_hudi-utilities")]
        rules, relocated = self.home / "rules", self.home / "hudi-utilities.jar"
        lines = (f"rule {name}.** org.apache.hudi.{name}.@1\n" for name in RELOCATED)
        rules.write_text("".join(lines), encoding="utf-8")
        words: list[str | Path] = [":".join(map(str, tools)), "org.pantsbuild.jarjar.Main", "process", rules]
        subprocess.run([self._java, "-cp", *words, utilities, relocated], check=True, capture_output=True)
        return [relocated, *(jar for jar in jars if jar not in (*tools, utilities))]


SIDES: Mapping[str, Callable[[SparkSession, Sequence[Topic], Path], Side]] = {
    "limit": Limit,
    "columns": Columns,
    "ours": Ours,
    "foreachbatch": ForeachBatch,
    "hoodiestreamer": HoodieStreamer,
}


def main() -> None:
    """Prints changes per second of each side, and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--form", default="json", choices=["avro", "json"])
    parser.add_argument("--only", default=",".join(SIDES), help="Sides, with commas between.")
    options = parser.parse_args()
    names = [name for name in options.only.split(",") if options.form == "json" or name != "hoodiestreamer"]
    if unknown := set(names) - set(SIDES):
        parser.error(f"no such side: {', '.join(unknown)}; there are {', '.join(SIDES)}")
    # Servers outlive what has started them, unless it comes to its end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    ports = dict(zip(PORTS, processes.free_ports(len(PORTS)), strict=True))
    # The generator's databases, of which one is an SQL Server.
    os.environ["TICKIT_CONNECTION"] = "tickit_cdc"
    with ExitStack() as ending:
        home = ending.enter_context(lake_of_its_own())
        chain = Chain.of(Settings(home / "servers", ports))
        for server in (chain.kafka, *([chain.registry] if options.form == "avro" else [])):
            ending.callback(processes.stop, server)
            processes.start(server)
        generate("tickit", home, scale=options.scale, form="avro", phase="snapshot")
        project = Project.load(ROOT)
        spark = open_session(project, long_running(project))
        ending.callback(spark.stop)
        topics = _topics(spark, project, chain, home / "bronze", options.form)
        sides = {name: SIDES[name](spark, topics, home) for name in names}
        _write_side_by_side(topics, lambda topic: topic.write(topic.rows, topic.table.key[0]))
        _drained("snapshot", sides, {topic.name: topic.rows.count() for topic in topics})
        _drained("warm-up", sides, _write_updates(topics, 1, options.changes // 10))
        written = _write_updates(topics, 2, options.changes)
        drained = _drained("changes", sides, written)
        for side in sides.values():
            if isinstance(side, HudiSide):
                side.check(2, written)
    title = f"{sum(written.values()):,} changes, {options.form}, scale {options.scale:g}"
    grid = Grid("", "seconds", "changes/s", "ours / its", "processor s", "changes/s", "ours / its", title=title)
    ours = drained.get("ours")
    for name, took in drained.items():
        ratio = f"{ours.rate / took.rate:.2f}" if ours else ""
        of_processor = f"{ours.processor_rate / took.processor_rate:.2f}" if ours else ""
        grid.add_row(name, f"{took.seconds:.1f}", f"{took.rate:,.0f}", ratio,
                     f"{took.processor:.1f}", f"{took.processor_rate:,.0f}", of_processor)  # fmt: skip
    out.print(grid)


def _topics(spark: SparkSession, project: Project, chain: Chain, bronze: Path, form: str) -> list[Topic]:
    """The tables' topics, made; and their schemas registered where the form is Avro."""
    registry = RegistryConnection(url=chain.registry.address)
    connection = KafkaConnection(type="kafka", bootstrap_servers=chain.kafka.address, registry=registry)
    tables = {table.options.topic: table for table in load_source(project, "tickit").tables}
    topics = []
    for source in TABLES:
        name, schema = topic_of(source), json.dumps(avro_schema(source))
        rows = spark.read.format("avro").option("recursiveFileLookup", "true").load(str(bronze / name))
        prefix = _registered(chain.registry, name, schema) if form == "avro" else None
        topics.append(Topic(replace(tables[name], connection=connection), rows, schema, prefix))
    _make(spark, topics)
    return topics


def _registered(registry: Registry, topic: str, schema: str) -> bytes:
    """What stands before an Avro value: 0x00, and four bytes of its schema's id."""
    answer = httpx.post(f"{registry.address}/subjects/{topic}-value/versions", json={"schema": schema}, timeout=30)
    return b"\x00" + int(answer.raise_for_status().json()["id"]).to_bytes(4, "big")


def _make(spark: SparkSession, topics: Sequence[Topic]) -> None:
    settings = java_class(spark, "java.util.Properties")()
    for name, value in topics[0].settings.items():
        settings.setProperty(name, value)
    made: Any = java_class(spark, "java.util.ArrayList")()
    once = java_class(spark, "java.lang.Short").valueOf("1")
    for topic in topics:
        made.add(java_class(spark, "org.apache.kafka.clients.admin.NewTopic")(topic.name, PARTITIONS, once))
    client = java_class(spark, "org.apache.kafka.clients.admin.AdminClient").create(settings)
    client.createTopics(made).all().get()
    client.close()


def _write_updates(topics: Sequence[Topic], number: int, changes: int) -> dict[str, int]:
    """So many updates of all tables; how many of each topic."""
    rows = {topic.name: topic.rows.count() for topic in topics}
    shares = {name: max(1, round(changes * own / sum(rows.values()))) for name, own in rows.items()}
    _write_side_by_side(topics, lambda topic: topic.write(topic.updates(number, shares[topic.name]), topic.order))
    return shares


def _write_side_by_side(topics: Sequence[Topic], write: Callable[[Topic], None]) -> None:
    started = time.monotonic()
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(write, topics))
    out.print(f"written to Kafka in {time.monotonic() - started:.1f} s", highlight=False)


def _drained(what: str, sides: Mapping[str, Side], written: Mapping[str, int]) -> dict[str, Drained]:
    drained = {}
    for name, side in sides.items():
        before = _processor_seconds(side.spark)
        seconds = side.drain()
        changes = sum(written[topic.name] for topic in side.topics)
        drained[name] = Drained(changes, seconds, _processor_seconds(side.spark) - before)
        out.print(f"{what}: {name} {seconds:.1f} s, processor {drained[name].processor:.1f} s", highlight=False)
    return drained


def _processor_seconds(spark: SparkSession) -> float:
    """What the session's Java process and the processes that have ended have used."""
    java = psutil.Process(int(java_class(spark, "java.lang.ProcessHandle").current().pid())).cpu_times()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return float(java.user + java.system + ended.ru_utime + ended.ru_stime)


if __name__ == "__main__":
    main()
