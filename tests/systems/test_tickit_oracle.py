"""TICKIT's example events end as the source's tables, column by column, type by type, with one row per key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from conftest import REPOSITORY, DbtProject, MakeProject
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from examples import Form, Summary, Written, generate, system
from ingest.config.tables import Table
from ingest.decode import json_forms

pytestmark = [pytest.mark.spark, pytest.mark.systems]

SCALE, SEED = 0.005, 42
DECLARATION = REPOSITORY / "models" / "staging" / "tickit" / "_tickit__sources.yml"
TABLE_TYPES = ("cow", "mor")
# A table of PostgreSQL, MariaDB and SQL Server.
ONE_OF_EACH = ("tickit.ems.event", "tickit.ecomm.sale", "tickit.crm.user")
# Silver's smallest integer has 32 bits (ingest.config.sources_file.SCALAR_TYPES).
SPARK_TYPES: dict[pa.DataType, T.DataType] = {
    pa.int16(): T.IntegerType(),
    pa.int32(): T.IntegerType(),
    pa.string(): T.StringType(),
    pa.decimal128(8, 2): T.DecimalType(8, 2),
    pa.date32(): T.DateType(),
    pa.timestamp("us"): T.TimestampType(),
    pa.bool_(): T.BooleanType(),
}

MakeTickit = Callable[[str], DbtProject]


@pytest.fixture
def make_tickit(make_project: MakeProject) -> MakeTickit:
    """The repository's own declaration of TICKIT, of either table type in turn, in a project of the test's."""

    def make(first_type: str) -> DbtProject:
        declared = yaml.safe_load(DECLARATION.read_text(encoding="utf-8"))
        (source,) = [entry for entry in declared["sources"] if entry["name"] == "tickit"]
        for number, entry in enumerate(sorted(source["tables"], key=lambda entry: str(entry["name"]))):
            ingest = entry.setdefault("config", {}).setdefault("meta", {}).setdefault("ingest", {})
            ingest["table_type"] = TABLE_TYPES[(number + TABLE_TYPES.index(first_type)) % 2]
        project = make_project(source, name="tickit")
        connections = yaml.safe_load((REPOSITORY / "profiles" / "connections.yml").read_text(encoding="utf-8"))
        connections["tickit_cdc"]["path"] = str(project.bronze)
        (project.root / "connections.yml").write_text(yaml.safe_dump(connections), encoding="utf-8")
        return project

    return make


def assert_equals_oracle(
    spark: SparkSession, project: DbtProject, data: Path, phase: str, tables: Sequence[str] = ()
) -> dict[str, list[Row]]:
    """Silver's live rows are the rows of the source's tables; returns each table's tombstones."""
    tombstones = {}
    for table in project.source().choose(list(tables)):
        oracle = pq.read_table(data / "oracle" / phase / f"{oracle_name(table)}.parquet")
        silver = spark.table(table.relation)
        assert [field.name for field in oracle.schema] == [column.name for column in table.columns]
        for field in oracle.schema:
            assert silver.schema[field.name].dataType == SPARK_TYPES[field.type], f"{table.name}.{field.name}"
        # Python would shift a timestamp to the machine's zone.
        columns = [
            F.col(field.name).cast("timestamp_ntz") if pa.types.is_timestamp(field.type) else F.col(field.name)
            for field in oracle.schema
        ]
        rows = silver.select("__deleted", "__op", *columns).collect()
        (key,) = table.key
        assert len({row[key] for row in rows}) == len(rows), f"{table.name} holds a key twice"
        live = [tuple(row)[2:] for row in rows if row["__deleted"] == "false"]
        expected = [tuple(row.values()) for row in oracle.to_pylist()]
        assert sorted(live) == sorted(expected), f"{table.name} after {phase}"
        tombstones[table.name] = [row for row in rows if row["__deleted"] != "false"]
    return tombstones


def oracle_name(table: Table) -> str:
    return table.options.topic.removeprefix("tickit.")


def instants(spark: SparkSession, project: DbtProject, tables: Iterable[str]) -> dict[str, str]:
    return {name: project.state(spark, name).instant for name in tables}


def chosen(project: DbtProject, form: Form) -> list[str]:
    """Every table in one form; of the other forms a table of each connector, which is quicker."""
    return [] if form == "avro" else [name_in(project, topic) for topic in ONE_OF_EACH]


def name_in(project: DbtProject, topic: str) -> str:
    (name,) = [table.name for table in project.source().tables if table.options.topic == topic]
    return name


@dataclass(frozen=True)
class Ops:
    """What a phase's manifest says of a topic."""

    records: int
    files: int

    @classmethod
    def of(cls, written: Written, topic: str) -> Ops:
        """Of the summary's one entry for the topic."""
        assert isinstance(written, Summary)
        return next((cls(entry.records, entry.files) for entry in written.topics if entry.topic == topic), cls(0, 0))


@pytest.mark.parametrize(
    ("form", "first_type"),
    [
        ("avro", "mor"),
        pytest.param("json", "cow", marks=pytest.mark.long),
        pytest.param("envelope", "mor", marks=pytest.mark.long),
    ],
)
def test_snapshot_then_changes_give_the_source(
    form: Form, first_type: str, make_tickit: MakeTickit, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # JSON events are cut here, few as they are; in the tests below they are parsed.
    monkeypatch.setattr(json_forms, "_MANY", 1)
    project = make_tickit(first_type)
    data = project.root  # its bronze folder is the project's
    topics = {table.name: table.options.topic for table in project.source().choose(chosen(project, form))}

    snapshot = system("tickit").generate(data, scale=SCALE, seed=SEED, form=form, phase="snapshot")
    landed = project.land_well(spark, *topics)
    for name, topic in topics.items():
        expected = Ops.of(snapshot, topic)
        assert (landed[name].counts.applied, landed[name].counts.read) == (expected.records, expected.records)
        assert landed[name].taken == expected.files
    assert_equals_oracle(spark, project, data, "snapshot", list(topics))

    before = instants(spark, project, topics)
    again = project.land_well(spark, *topics)
    assert {(result.taken, result.counts.read) for result in again.values()} == {(0, 0)}
    assert instants(spark, project, topics) == before

    changes = system("tickit").generate(data, scale=SCALE, seed=SEED, form=form, phase="changes")
    landed = project.land_well(spark, *topics)
    for name, topic in topics.items():
        expected = Ops.of(changes, topic)
        assert (landed[name].counts.read, landed[name].taken) == (expected.records, expected.files), name
        state = project.state(spark, name)
        assert state.totals.read == Ops.of(snapshot, topic).records + expected.records
        for counts in (state.counts, state.totals):
            parts = (counts.applied, counts.superseded, counts.duplicate, counts.ignored, counts.quarantined)
            assert counts.read == sum(parts)
        assert state.totals.ignored == state.totals.quarantined == 0
    assert_tombstones(project, data, assert_equals_oracle(spark, project, data, "changes", list(topics)))
    assert_worked_example(spark, project)


def assert_tombstones(project: DbtProject, data: Path, tombstones: dict[str, list[Row]]) -> None:
    """Every row that the source deleted is still there, marked as deleted; and nothing else is."""
    for table in project.source().choose(list(tombstones)):
        (key,) = table.key
        assert {(row["__deleted"], row["__op"]) for row in tombstones[table.name]} <= {("true", "d")}
        keys = {row[key] for row in tombstones[table.name]}
        before, after = (
            set(pq.read_table(data / "oracle" / phase / f"{oracle_name(table)}.parquet")[key].to_pylist())
            for phase in ("snapshot", "changes")
        )
        assert before - after <= keys
        assert keys.isdisjoint(after)
    assert any(tombstones.values())


def assert_worked_example(spark: SparkSession, project: DbtProject) -> None:
    """Sale 200: the article's buyer, three tickets of 200.00."""
    rows = project.rows(spark, name_in(project, "tickit.ecomm.sale"))
    (sale,) = [row for row in rows if row["salesid"] == 200]
    assert (sale["qtysold"], sale["pricepaid"], sale["commission"]) == (3, Decimal("600.00"), Decimal("90.00"))
    buyers = {row["userid"] for row in project.rows(spark, name_in(project, "tickit.crm.user"))}
    assert sale["buyerid"] in buyers
    assert isinstance(sale["saletime"], datetime)


@pytest.mark.slow
def test_everything_in_one_go_gives_the_source(make_tickit: MakeTickit, spark: SparkSession) -> None:
    project = make_tickit("cow")
    generate("tickit", project.root, scale=SCALE, seed=SEED + 1, form="envelope", phase="all")
    project.land_well(spark)
    assert_equals_oracle(spark, project, project.root, "changes")


@pytest.mark.long
@pytest.mark.parametrize(("form", "first_type"), [pytest.param("avro", "cow", marks=pytest.mark.slow), ("json", "mor")])
def test_the_order_of_delivery_does_not_matter(
    form: Form, first_type: str, make_tickit: MakeTickit, spark: SparkSession, tmp_path: Path
) -> None:
    """The files of the changes come one run each, the last of them first, and the snapshot after all of them."""
    project = make_tickit(first_type)
    made = tmp_path / "made"
    generate("tickit", made, scale=SCALE, seed=SEED, form=form, phase="all")
    tables = {name_in(project, topic): topic for topic in ONE_OF_EACH}
    waiting = {topic: sorted(path for path in (made / "bronze" / topic).rglob("*.*") if path.is_file())
               for topic in tables.values()}  # fmt: skip
    for topic in waiting:
        (project.bronze / topic).mkdir()
    total: Counter[str] = Counter()
    while any(waiting.values()):
        for topic, files in waiting.items():
            if files:
                path = files.pop()
                path.rename(project.bronze / topic / path.name)
        for name, landed in project.land_well(spark, *tables).items():
            total[name] += landed.counts.read
    assert_equals_oracle(spark, project, made, "changes", list(tables))
    assert total == {name: project.state(spark, name).totals.read for name in total}


def test_metadata_columns_say_where_a_row_came_from(make_tickit: MakeTickit, spark: SparkSession) -> None:
    project = make_tickit("cow")
    generate("tickit", project.root, scale=0.001, seed=SEED, form="envelope", phase="snapshot")
    databases = {"tickit.ems.event": "tickit", "tickit.ecomm.sale": "ecomm", "tickit.crm.user": "tickit"}
    tables = {name_in(project, topic): topic for topic in databases}
    project.land_well(spark, *tables)
    for name, topic in tables.items():
        rows = project.rows(spark, name, "__db", "__name", "__table", "__source_ts_ms", "__op", live=False)
        of_table = (databases[topic], "tickit", topic.rsplit(".", 1)[-1], "r")
        assert {(row["__db"], row["__name"], row["__table"], row["__op"]) for row in rows} == {of_table}
        assert all(1_600_000_000_000 < row["__source_ts_ms"] < 2_000_000_000_000 for row in rows)
