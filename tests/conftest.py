"""One Spark session for the whole run, and small dbt projects to land into it."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.cli.main import dbtRunner
from dbt_common.tests import enable_test_caching
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ingest.config.project import Project
from ingest.config.sources_file import Source, load_source
from ingest.landing.run import land
from ingest.landing.table import Landed
from ingest.silver import quarantine
from ingest.silver.state import Counts, State
from ingest.silver.table import SilverTable
from ingest.spark.jvm import end_java
from ingest.spark.session import open_session

REPOSITORY = Path(__file__).resolve().parents[1]
# Each project of a test has the same macros. dbt's own cache for tests parses each text once in a process.
enable_test_caching()
# The processes that tests run in are told a terminal's width, and have none.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("COLUMNS", None)
Event = Mapping[str, Any]
Row = dict[str, Any]


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marks of this project."""
    config.addinivalue_line("markers", "spark: needs a Spark session")
    config.addinivalue_line("markers", "real: needs real database servers (make test-real)")
    config.addinivalue_line(
        "markers", "slow: histories, transactions, erasure, killed processes, full disks (make test-slow)"
    )
    config.addinivalue_line(
        "markers", "systems: whole systems; projects, lakes and captures of others (make test-systems)"
    )
    config.addinivalue_line("markers", "athena: a lake on a stand-in for S3 and Glue (make test-athena)")
    config.addinivalue_line("markers", "long: many random cases or crashes (make test-long)")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The embedded session of the repository's own profile, with a lake of its own."""
    with embedded_session(tmp_path_factory.mktemp("lake")) as session:
        yield session


@contextmanager
def embedded_session(home: Path) -> Iterator[SparkSession]:
    """The embedded session of the repository's own profile, with the folder of a lake; Java ends with the block."""
    before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LAKE_TARGET", "LAKE_SCHEMA", "DBT_PROFILES_DIR", "DBT_PROJECT_DIR", "SPARK_HOME"):
            patch.delenv(name, raising=False)
        patch.setenv("LAKE_HOME", str(home))
        patch.setenv("LAKE_MEMORY", "1500m")
        project = Project.load(REPOSITORY)
        session = open_session(
            project
        )  # with the quick compiler: a quarter less processor time of five minutes of tests
        yield session
        session.stop()
        os.chdir(before)
    gateway = SparkContext._gateway
    assert gateway is not None
    end_java(gateway)
    assert gateway.proc.poll() is not None
    SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture(scope="session")
def server() -> None:
    """None: dbt works in the embedded session. tests/macros/test_thrift.py has a server under this name."""


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of captured and example data beside the repository."""
    path = REPOSITORY.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("../shared/data is absent: what is tested on captured files cannot run here")
    return path


@dataclass(frozen=True)
class DbtProject:
    """A dbt project of one source, with event files of its own and a schema that no other test uses."""

    root: Path
    bronze: Path
    source_name: str
    schema: str

    def declare(self, source: Mapping[str, Any]) -> None:
        """Writes the source's declaration anew; its name and schema are this project's."""
        entry = {**source, "name": self.source_name, "schema": self.schema}
        self.write_models(yaml.safe_dump({"version": 2, "sources": [entry]}, sort_keys=False))

    def write_models(self, text: str, name: str = "_sources.yml") -> None:
        """Writes a file of the models folder as it stands."""
        (self.root / "models" / name).write_text(text, encoding="utf-8")

    def source(self) -> Source:
        """The declaration, as `lake` reads it."""
        return load_source(Project.load(self.root), self.source_name)

    def connect(self, settings: Mapping[str, Any] | None = None) -> None:
        """Writes the connection of the project's folder of events, with settings of its own."""
        connections = {"files": {"type": "files", "path": str(self.bronze), **(settings or {})}}
        (self.root / "connections.yml").write_text(yaml.safe_dump(connections), encoding="utf-8")

    def deliver(
        self,
        topic: str,
        offset: int,
        content: Sequence[Event | str] | bytes,
        suffix: str = "json",
        *,
        partition: int = 0,
    ) -> Path:
        """Puts a file into a topic's folder, named as a sink names it: events, lines of text, or bytes."""
        path = self.bronze / topic / f"{topic}+{partition}+{offset:010d}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, bytes):
            lines = (item if isinstance(item, str) else json.dumps(item) for item in content)
            content = "".join(f"{line}\n" for line in lines).encode()
        path.write_bytes(content)
        return path

    def land(self, spark: SparkSession, *tables: str) -> dict[str, Landed]:
        """Lands what is pending of some tables, or of all; by name."""
        return {landed.table.name: landed for landed in land(spark, self.source().choose(list(tables)))}

    def land_well(self, spark: SparkSession, *tables: str) -> dict[str, Landed]:
        """`land`, where every table must be well."""
        results = self.land(spark, *tables)
        assert not {name: landed.error.message for name, landed in results.items() if landed.error}
        return results

    def silver(self, spark: SparkSession, table: str) -> SilverTable:
        """The silver table of that name."""
        return SilverTable.of(spark, self.source().choose([table])[0])

    def state(self, spark: SparkSession, table: str) -> State:
        """What the table's last commit says."""
        state = self.silver(spark, table).state()
        assert state is not None
        return state

    def rows(self, spark: SparkSession, table: str, *columns: str, live: bool = True) -> list[Row]:
        """Rows of the silver table, as its catalog entry gives them: the live ones, or tombstones too; by key."""
        declared = self.source().choose([table])[0]
        found = spark.table(declared.relation)
        chosen = columns or tuple(column.name for column in declared.columns)
        if live:
            found = found.where("__deleted = 'false'")
        order = declared.key or ("__position",)
        return [row.asDict() for row in found.orderBy(*order).select(*chosen).collect()]

    def compiled(self, *texts: str, introspect: bool = False) -> list[str]:
        """Queries as dbt compiles them, with the macros of macros/read; `introspect` lets them ask the catalog."""
        shutil.copytree(REPOSITORY / "macros" / "read", self.root / "macros", dirs_exist_ok=True)
        shutil.copy(REPOSITORY / "macros" / "adapter" / "columns.sql", self.root / "macros")
        here, mark, target = Path.cwd(), "\n-- the next query\n", str(self.root / "target")
        offline = () if introspect else ("--no-introspect", "--no-populate-cache")
        result = dbtRunner().invoke(
            [
                *("--quiet", "compile", "--inline", mark.join(texts), *offline, "--project-dir", str(self.root)),
                *("--profiles-dir", str(self.root), "--target-path", target, "--log-path", target),
            ]
        )
        os.chdir(here)
        assert result.success, result.exception
        return str(result.result.results[0].node.compiled_code).split(mark)  # type: ignore[union-attr]

    def quarantined(self, spark: SparkSession) -> list[Row]:
        """The source's quarantine, by file and line."""
        events = quarantine.events(spark, self.source())
        return [] if events is None else [row.asDict() for row in events.orderBy("file", "line").collect()]


MakeProject = Callable[..., DbtProject]


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    """Makes a dbt project below the test's folder: `make_project(source, name="shop")`."""

    def make(source: Mapping[str, Any] | None = None, *, name: str = "shop") -> DbtProject:
        return new_project(tmp_path, source, name=name)

    return make


def new_project(where: Path, source: Mapping[str, Any] | None = None, *, name: str = "shop") -> DbtProject:
    """A dbt project below a folder."""
    schema = f"silver_{uuid.uuid4().hex[:12]}"
    root = where / schema
    project = DbtProject(root, root / "bronze", name, schema)
    (root / "models").mkdir(parents=True)
    project.bronze.mkdir()
    settings = {"name": "tested", "version": "1.0.0", "profile": "lakehouse", "model-paths": ["models"]}
    (root / "dbt_project.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    profiles = (REPOSITORY / "profiles" / "profiles.yml").read_text(encoding="utf-8")
    (root / "profiles.yml").write_text(profiles, encoding="utf-8")
    project.connect()
    if source is not None:
        project.declare(source)
    return project


def table_of(
    name: str, columns: Mapping[str, str], key: Sequence[str], *, connector: str = "postgresql", **options: Any
) -> dict[str, Any]:
    """A table's entry of a sources file; its topic is `shop.<name>`."""
    ingest = {"connection": "files", "connector": connector, "topic": f"shop.{name}", "key": list(key), **options}
    return {
        "name": name,
        "config": {"meta": {"ingest": ingest}},
        "columns": [{"name": column, "data_type": data_type} for column, data_type in columns.items()],
    }


def unwrapped(op: str, position: Mapping[str, Any], row: Mapping[str, Any]) -> Row:
    """An event as Debezium's unwrap transform writes it; `position` are its metadata fields of the log."""
    return {**row, "__op": op, "__db": "shop", **position, "__source_ts_ms": 1_700_000_000_000,
            "__deleted": "true" if op == "d" else "false"}  # fmt: skip


def pg(op: str, lsn: int | None, *, commit: int | None = None, **row: Any) -> Row:
    """An unwrapped event of PostgreSQL; `commit` is the LSN of the last commit before it."""
    sequence = {} if lsn is None else {"__source_sequence": json.dumps([commit and str(commit), str(lsn)])}
    return unwrapped(op, {"__lsn": lsn, **sequence}, row)


def chosen(every: Iterable[str], *names: str) -> list[Any]:
    """Parameters of a test: those of these names, and the others as slow ones."""
    return [pytest.param(each, marks=[] if each in names else pytest.mark.slow) for each in every]


def asked(request: pytest.FixtureRequest) -> set[str]:
    """The ids of the parameters of all tests that a run of pytest has chosen."""
    return {str(item.callspec.id) for item in request.session.items if hasattr(item, "callspec")}


@dataclass(frozen=True)
class Scenario:
    """A table, what is delivered to it batch by batch, and what must come of it.

    Attributes
    ----------
    batches:
        Events of each batch; one file each. A text is a line as it stands.
    rows:
        The live rows at the end, in the order of the key.
    totals:
        What became of all events.
    reasons:
        A part of each reason in the quarantine, by file and line.
    """

    name: str
    columns: Mapping[str, str]
    key: Sequence[str]
    batches: Sequence[Sequence[Event | str]]
    rows: Sequence[Mapping[str, Any]]
    totals: Counts | None = None
    reasons: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Played:
    """What came of a scenario, and the project it was played in."""

    project: DbtProject
    rows: list[Row]
    totals: Counts
    reasons: list[str]
    errors: list[str]


def play(spark: SparkSession, where: Path, scenarios: Sequence[Scenario]) -> dict[str, Played]:
    """Lands all scenarios side by side, batch by batch; by name."""
    tables = [table_of(scene.name, scene.columns, scene.key, **scene.options) for scene in scenarios]
    project = new_project(where, {"tables": tables})
    errors: dict[str, list[str]] = {scene.name: [] for scene in scenarios}
    for number in range(max(len(scene.batches) for scene in scenarios)):
        fed = [scene for scene in scenarios if len(scene.batches) > number]
        for scene in fed:
            offset = sum(len(batch) for batch in scene.batches[:number])
            project.deliver(f"shop.{scene.name}", offset, scene.batches[number])
        for name, landed in project.land(spark, *(scene.name for scene in fed)).items():
            errors[name] += [landed.error.message] if landed.error else []
    quarantined = project.quarantined(spark)
    return {
        scene.name: Played(
            project,
            project.rows(spark, scene.name),
            project.state(spark, scene.name).totals,
            [row["reason"] for row in quarantined if row["source_table"] == scene.name],
            errors[scene.name],
        )
        for scene in scenarios
    }
