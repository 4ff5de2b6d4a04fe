"""MoMA, the museum of the article on open data lakes: its worked examples, on the files of its own sink.

The snapshot is what a real Kafka Connect sink wrote, where `../shared/data/moma-sink-avro` is there, and generated rows
elsewhere. The changes are the article's, in files of the sink's form; each step is landed before the next is delivered.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from conftest import REPOSITORY, Row
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from examples.generating.model import Table
from examples.moma.changes import worked_examples
from examples.moma.rows import BAKKER, BELJON, PICADOR, picador, snapshot
from examples.moma.tables import ARTISTS, ARTWORKS, TABLES
from ingest.cli.app import app
from ingest.config.project import Project
from ingest.config.sources_file import load_source
from ingest.config.tables import Table as Silver
from ingest.silver.table import SilverTable

pytestmark = [pytest.mark.spark, pytest.mark.systems]
DATA = REPOSITORY.parent / "shared" / "data"
# After those of the captured snapshot, and those of a generated one.
FIRST_LSN, FIRST_TS_MS = 3_692_866_569_488, 1_640_814_436_010
ODD, DEFAULT = "Film/Slides: 50% [a]=b", "__HIVE_DEFAULT_PARTITION__"
# An exposure is part of a build, and there is nothing to do for it. Works refer to artists that were not captured.
WELL = {"success", "pass", "no-op", "warn"}
Record = dict[str, Any]


def sink_schema(table: Table) -> Record:
    """The schema of unwrapped records with the article's `add.fields`, as the sink wrote it."""
    name = f"moma.public.{table.name}.Value"
    types = {"int32": "int", "string": "string"}
    added = dict.fromkeys(("__op", "__db", "__table", "__schema"), "string")
    added |= {"__lsn": "long", "__source_ts_ms": "long", "__deleted": "string"}
    fields: list[Record] = [
        {"name": column.name, "type": ["null", types[column.type]], "default": None}
        if column.nullable
        else {"name": column.name, "type": types[column.type]}
        for column in table.columns
    ]
    fields += [{"name": key, "type": ["null", kind], "default": None} for key, kind in added.items()]
    return {"type": "record", "name": name, "connect.name": name, "fields": fields}


@dataclass
class Step:
    """What a query found after a step was landed."""

    rt: Row
    ro: Row
    instants: dict[str, str]


@dataclass
class Museum:
    """The lake of the museum, and what it showed step by step."""

    spark: SparkSession
    tables: Mapping[str, Silver]
    bronze: Path
    captured: bool
    steps: list[Step] = field(default_factory=list)
    delivered: dict[str, int] = field(default_factory=dict)
    lsn: int = FIRST_LSN

    def deliver(self, table: Table, records: Sequence[Record]) -> None:
        """A file of a topic, named as the sink names it."""
        topic = f"moma.public.{table.name}"
        offset = self.delivered.get(topic, 0)
        self.delivered[topic] = offset + len(records)
        content = BytesIO()
        fastavro.writer(content, fastavro.parse_schema(sink_schema(table)), records)
        path = self.bronze / topic / f"{topic}+0+{offset:010d}.avro"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.getvalue())

    def record(self, table: Table, op: str, row: Sequence[object]) -> Record:
        """A record of a row; a deleted one has its key, and nulls or fillers."""
        self.lsn += 120
        columns = [column.name for column in table.columns]
        values = dict(zip(columns, row, strict=True))
        if op == "d":
            values = {column.name: None if column.nullable else 0 for column in table.columns} | {columns[0]: row[0]}
        added = {"__op": op, "__db": "moma", "__table": table.name, "__schema": "public", "__lsn": self.lsn}
        return {**values, **added, "__source_ts_ms": FIRST_TS_MS + self.lsn - FIRST_LSN,
                "__deleted": "true" if op == "d" else "false"}  # fmt: skip

    def land(self, *tables: str) -> None:
        """`lake ingest moma`, then a look at the work of the worked example and at when the tables were committed."""
        chosen = ["--tables", ",".join(tables)] if tables else []
        lake("ingest", "moma", *chosen)
        seen = {view: self.rows("artworks_mor" + view, PICADOR)[0] for view in ("_rt", "_ro")}
        instants = {name: self.landed_at(name) for name in ("artists_mor", "artworks_mor")}
        self.steps.append(Step(seen["_rt"], seen["_ro"], instants))

    def landed_at(self, table: str) -> str:
        """The instant of the newest commit of events; a compaction is none."""
        state = SilverTable.of(self.spark, self.tables[table]).state()
        assert state is not None
        return state.instant

    def rows(self, table: str, key: int, at: str | None = None) -> list[Row]:
        """Rows of a key in a table or view of silver, in all partitions."""
        column = "artist_id" if table.startswith("artists") else "artwork_id"
        travel = f"timestamp as of '{at}'" if at else ""
        return self.ask(f"select * from silver_moma.{table} {travel} where {column} = {key}")

    def ask(self, query: str) -> list[Row]:
        """The rows of a query."""
        return [row.asDict() for row in self.spark.sql(query).collect()]


def lake(*arguments: str) -> Any:
    """What a command of `lake` says as JSON; it must be well."""
    where = ["--project-dir", str(REPOSITORY), "--profiles-dir", str(REPOSITORY), "--json"]
    result = CliRunner().invoke(app, [*arguments, *where])
    assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"
    return json.loads(result.stdout)


def deliver_snapshot(museum: Museum) -> dict[int, tuple[Any, ...]]:
    """The captured files where they are there, else generated rows; the rows of the worked examples before them."""
    rows: dict[int, tuple[Any, ...]] = {PICADOR: picador(4609)}
    for table in TABLES:
        topic = f"moma.public.{table.name}"
        if museum.captured:
            for path in sorted((DATA / "moma-sink-avro").glob(f"flat.{topic}+*.avro")):
                with path.open("rb") as file:
                    found: list[Any] = list(fastavro.reader(file))
                rows |= {each[table.key]: tuple(each[column.name] for column in table.columns) for each in found}
                (museum.bronze / topic).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, museum.bronze / topic / path.name.removeprefix("flat."))
                museum.delivered[topic] = museum.delivered.get(topic, 0) + len(found)
            if table is ARTWORKS:  # which is not among the captured ones
                museum.deliver(table, [museum.record(table, "r", rows[PICADOR])])
        else:
            made = [tuple(row.values()) for row in snapshot(0.001, 42)[table.full_name].to_pylist()]
            rows |= {row[0]: row for row in made}
            museum.deliver(table, [museum.record(table, "r", row) for row in made])
    return rows


def play(museum: Museum) -> None:
    """Each step of the worked examples, landed before the next; then works that move to partitions with odd names."""
    rows = deliver_snapshot(museum)
    museum.land()
    worked = [
        transaction.changes[0] for transaction in worked_examples({k: rows[k] for k in (BAKKER, BELJON, PICADOR)})
    ]
    of_work, beljon, *of_bakker = worked[:4], *worked[4:]
    further = dict(zip((column.name for column in ARTWORKS.columns), of_work[-1].after or (), strict=True))
    first, second, third = sorted(key for key in rows if key != PICADOR and len(rows[key]) == len(ARTWORKS.columns))[:3]
    place = ARTWORKS.positions["classification"]
    moved = [(*rows[key][:place], value, *rows[key][place + 1 :])
             for key, value in ((first, ODD), (second, None), (third, ""))]  # fmt: skip
    works: list[list[Sequence[Any]]] = [[change.after or ()] for change in of_work]
    works += [[tuple({**further, "date": 1960}.values())], [*moved]]
    for number, (change, of_works) in enumerate(zip(of_bakker, works, strict=True)):
        changes = [beljon, change] if number == 0 else [change]
        museum.deliver(ARTISTS, [museum.record(ARTISTS, each.op, each.after or each.before or ()) for each in changes])
        museum.deliver(ARTWORKS, [museum.record(ARTWORKS, "u", row) for row in of_works])
        museum.land("artists_mor", "artworks_mor")
    for title in ("once", "twice", "thrice", "again"):  # the tenth commit after the snapshot plans a compaction
        museum.deliver(ARTWORKS, [museum.record(ARTWORKS, "u", (third, title, *moved[2][2:]))])
        museum.land("artworks_mor")
    lake("ingest", "moma")


@pytest.fixture(scope="module")
def museum(spark: SparkSession) -> Iterator[Museum]:
    """The museum's lake after all steps. `captured` says whose rows its snapshot has."""
    before = Path.cwd()
    bronze = Path(os.environ["LAKE_HOME"]) / "moma" / "bronze"
    tables = {table.name: table for table in load_source(Project.load(REPOSITORY), "moma").tables}
    made = Museum(spark, tables, bronze, captured=(DATA / "moma-sink-avro").is_dir())
    play(made)
    yield made
    os.chdir(before)


def chosen(row: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def test_silver_has_the_rows_of_the_real_tables(museum: Museum) -> None:
    if not museum.captured or not (DATA / "moma").is_dir():
        pytest.skip("../shared/data/moma is absent: the other tests have used generated rows")
    for table, file in ((ARTISTS, "moma_public_artists"), (ARTWORKS, "moma_public_artworks_small")):
        with gzip.open(DATA / "moma" / f"{file}.txt.gz", "rt", encoding="utf-8") as text:
            real = {row[table.key]: row for row in csv.DictReader(text, delimiter="|", quoting=csv.QUOTE_NONE)}
        for kind in ("mor", "cow"):
            first = museum.ask(f"select * from silver_moma.{table.name}_{kind} where __op = 'r'")
            ours = {str(row[table.key]): row for row in first}
            compared = real.keys() & ours.keys()
            assert len(compared) > (800 if table is ARTISTS else 40)
            as_text = [
                {name: "" if ours[key][name] is None else str(ours[key][name]) for name in real[key]}
                for key in compared
            ]
            assert as_text == [real[key] for key in compared]


def test_the_snapshot_is_in_both_table_types(museum: Museum) -> None:
    for table in ("artists", "artworks"):
        counts = {
            museum.ask(f"select count(*) as n, count(distinct __position) as p from silver_moma.{table}_{kind}")[0]["n"]
            for kind in ("mor", "cow")
        }
        assert (
            counts == {901 if table == "artworks" else 900}
            if museum.captured
            else {600 if table == "artworks" else 500}
        )


def test_work_128447_is_in_rt_at_once_and_in_ro_after_the_compaction(museum: Museum) -> None:
    names = ("date", "acquisition_date", "dimensions")
    inches = picador(4609)[6]
    written = str(inches).replace("'", " in")
    updates = [
        (None, "2009-04-01", inches),
        (1959, "2009-04-01", inches),
        (1959, "2009-04-15", inches),
        (1959, "2009-04-15", written),
        (1959, "2009-04-19", written),
        (1960, "2009-04-19", written),
    ]
    last = len(museum.steps) - 1
    for number, step in enumerate(museum.steps):
        now = updates[min(number, len(updates) - 1)]
        assert chosen(step.rt, *names) == now, number
        # Until the tenth commit has planned a compaction, the read-optimized view has what was there first.
        assert chosen(step.ro, *names) == (now if number == last else updates[0]), number
        is_base_file = [".parquet" in str(row["_hoodie_file_name"]) for row in (step.rt, step.ro)]
        assert is_base_file == [number in (0, last), True], number
    (compaction,) = lake("table", "compactions", "moma.artworks_mor")["completed"]
    assert compaction["files"] >= 1
    assert len(lake("table", "commits", "moma.artworks_mor", "--limit", "100")) == 12


def test_artist_441_deleted_is_a_tombstone_in_the_default_partition(museum: Museum) -> None:
    for kind in ("mor", "cow"):
        (row,) = museum.rows(f"artists_{kind}", BELJON)
        assert chosen(row, "__op", "__deleted", "_hoodie_partition_path") == ("d", "true", f"nationality={DEFAULT}")
        assert {row[column.name] for column in ARTISTS.columns[1:]} == {None}
    (before,) = museum.rows("artists_mor", BELJON, museum.steps[0].instants["artists_mor"])
    assert chosen(before, "__op", "name") == ("r", "J. J. Beljon")


def test_every_state_of_artist_299_is_reachable_by_time_travel(museum: Museum) -> None:
    names = ("__op", "_hoodie_partition_path", "name", "nationality", "birth_year", "death_year")
    american, german = "nationality=American", "nationality=German"
    states = [
        ("r", american, "Gerhard H. Bakker", "American", 1906, 1988),
        ("u", american, "Gerhard H. Bakker", "American", 1907, 1988),
        ("u", american, "Gerhard H. Bakker", "American", 1907, 1989),
        ("u", american, "Gerhard M. Bakker", "American", 1907, 1989),
        ("u", german, "Gerhard M. Bakker", "German", 1907, 1989),
        ("u", german, "Gerhard M. Bakker", "German", 1905, 1989),
        ("d", f"nationality={DEFAULT}", None, None, None, None),
    ]
    for step, state in zip(museum.steps, states, strict=False):
        # One row, whatever its partition was before.
        (row,) = museum.rows("artists_mor", BAKKER, step.instants["artists_mor"])
        assert chosen(row, *names) == state
    for table in ("artists_mor", "artists_mor_rt", "artists_cow"):
        (row,) = museum.rows(table, BAKKER)
        assert chosen(row, *names) == states[-1]


def test_partitions_with_odd_names_are_found_by_value_and_are_one_folder_each(museum: Museum) -> None:
    for kind in ("mor", "cow"):
        table = f"silver_moma.artworks_{kind}"
        found = museum.ask(f"select classification from {table} where classification = '{ODD}'")
        assert [row["classification"] for row in found] == [ODD]
        # Hudi has one partition for null and the empty text, and reads both as null.
        assert len(museum.ask(f"select 1 from {table} where classification is null and __op = 'u'")) == 2
        folders = {group["partition"] for group in lake("table", "files", f"moma.artworks_{kind}")}
        assert f"classification={DEFAULT}" in folders
        (odd,) = [folder for folder in folders if "Film" in folder and "50" in folder]
        assert "/" not in odd


def test_the_models_are_built_and_tested(museum: Museum, tmp_path: Path) -> None:
    where = ["--project-dir", str(REPOSITORY), "--profiles-dir", str(REPOSITORY)]
    result: Any = dbtRunner().invoke(
        ["--quiet", "build", "--selector", "moma", *where, "--target-path", str(tmp_path), "--log-path", str(tmp_path)]
    )
    assert result.exception is None, result.exception
    statuses = {node.node.name: str(node.status) for node in result.result.results}
    assert {name: status for name, status in statuses.items() if status not in WELL} == {}
    assert statuses["assert_moma_artists_are_the_same_in_both_table_types"] == "pass"
    (work,) = museum.ask(f"select * from lakehouse_collection.fct_artworks where artwork_id = {PICADOR}")
    assert chosen(work, "title", "artist_name", "creation_year", "acquisition_year") == (
        "Picador (La Pique)", "Pablo Picasso", 1960, 2009,
    )  # fmt: skip
    gone = f"select * from lakehouse_collection.dim_artists where artist_id in ({BAKKER}, {BELJON})"
    assert museum.ask(gone) == []
    live = museum.ask("select count(*) as n from silver_moma.artworks_cow where __deleted = 'false'")[0]["n"]
    counted = "select sum(artwork_count) as n from lakehouse_collection.fct_nationality_classifications"
    assert museum.ask(counted)[0]["n"] == live
