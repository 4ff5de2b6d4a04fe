"""S5, Pagila by log-based change data capture: six tables from full envelopes in Parquet and in JSON, and their marts.

The rows are Pagila's own and the envelopes of film, actor and film_actor a real Debezium's, where ../shared/data has
them; `test_real_rows_and_captures_are_used` says where it has not, and generated ones took their place.
"""

from __future__ import annotations

import base64
import csv
import gzip
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from conftest import REPOSITORY, DbtProject, Row, new_project
from modeling import Models, Outcome
from pyspark.sql import SparkSession

from examples import system
from examples.generating.debezium import Form
from examples.pagila.changes import Database, a_days_work
from examples.pagila.events import Event, deliver, read_log, read_snapshot
from examples.pagila.files import envelope, write_file
from examples.pagila.rows import ODD_FEATURES
from examples.pagila.tables import FILM, TABLES, Column, Table
from ingest.landing.table import Landed
from ingest.silver.state import Counts

pytestmark = [pytest.mark.spark, pytest.mark.systems]
FORMS: Mapping[str, Form] = {"Parquet": "parquet", "JSON": "envelope"}
SHARED = REPOSITORY.parent / "shared" / "data"
CAPTURED = ("actor", "film", "film_actor")
BY_NAME = {table.name: table for table in TABLES}
Envelopes = Mapping[str, Sequence[Row]]


# Where envelopes come from


@dataclass(frozen=True)
class Delivered:
    """Envelopes as lines of JSON have them, by table, and what stands in the source's tables after them."""

    is_real: bool
    snapshot: Envelopes
    changes: Envelopes
    rows: Mapping[str, list[Row]]

    def deliver(self, bronze: Path, form: Form, *phases: str) -> None:
        """Writes files of some phases: `snapshot`, `changes`."""
        for phase in phases:
            for table in TABLES:
                first = 0 if phase == "snapshot" else len(self.snapshot[table.name])
                found = (self.snapshot if phase == "snapshot" else self.changes)[table.name]
                written = [of_form(table, each, form) for each in found]
                write_file(bronze, form, table, written, first) if written else None

    def number(self, table: str) -> int:
        """How many envelopes of a table there are."""
        return len(self.snapshot[table]) + len(self.changes[table])


def of_form(table: Table, told: Row, form: Form) -> Row:
    """An envelope of JSON with the values of another form: in Parquet a decimal is one."""
    if form == "envelope":
        return told
    scales = {column.name: column.digits[1] for column in table.columns if column.type == "numeric"}

    def image(row: Row | None) -> Row | None:
        return row and {
            name: decimal_of(value, scales[name]) if name in scales and value is not None else value
            for name, value in row.items()
        }

    return {**told, "before": image(told["before"]), "after": image(told["after"])}


def decimal_of(text: str, scale: int) -> Decimal:
    return Decimal(int.from_bytes(base64.b64decode(text), "big", signed=True)).scaleb(-scale)


def generated(where: Path) -> Delivered:
    """What the example system writes."""
    written = system("pagila").generate(where, form="envelope")
    assert written.late > 0 < written.repeated
    found: dict[str, dict[str, list[Row]]] = {"snapshot": {}, "changes": {}}
    for table in TABLES:
        files = sorted((where / "bronze" / table.topic).rglob("*.json"))
        told = [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]
        number = next(place for place, each in enumerate([*told, {"op": ""}]) if each["op"] != "r")
        found["snapshot"][table.name], found["changes"][table.name] = told[:number], told[number:]
    expected = system("pagila").expected(where, "changes")
    rows = {table.name: pq.read_table(expected[table.full_name]).to_pylist() for table in TABLES}
    return Delivered(False, found["snapshot"], found["changes"], rows)


def real() -> Delivered:
    """Pagila's rows, and what a Debezium told of three of the tables; of the others as it tells a snapshot."""
    snapshot: dict[str, list[Row]] = {}
    changes: dict[str, list[Row]] = {}
    rows: dict[str, list[Row]] = {}
    for table in TABLES:
        if table.name in CAPTURED:
            path = SHARED / f"debezium-captures/events/{table.topic}.jsonl.gz"
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                values = [json.loads(line)["value"] for line in lines]
            told = [json.loads(value) for value in values if value is not None]  # a sink leaves tombstones out
            snapshot[table.name] = [each for each in told if each["op"] == "r"]
            changes[table.name] = [each for each in told if each["op"] != "r"]
            rows[table.name] = read_rows(table, SHARED / f"debezium-captures/final/pagila.{table.name}.csv.gz", ",")
        else:
            rows[table.name] = read_rows(table, SHARED / f"pagila/{table.name}.tsv.gz", "\t")
            events = read_snapshot(table, rows[table.name], timedelta())
            snapshot[table.name], changes[table.name] = [envelope(event, "envelope") for event in events], []
    return Delivered(True, snapshot, changes, rows)


def read_rows(table: Table, path: Path, separator: str) -> list[Row]:
    """Rows in PostgreSQL's text forms, with the values that Spark gives."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        found = csv.DictReader(
            file, delimiter=separator, quoting=csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE
        )
        return [{column.name: value_of(column, row[column.name]) for column in table.columns} for row in found]


def value_of(column: Column, text: str) -> Any:
    if text == r"\N":
        return None
    if column.type == "int":
        return int(text)
    if column.type == "numeric":
        return Decimal(text)
    if column.type == "timestamptz":
        return datetime.fromisoformat(f"{text}:00").replace(tzinfo=None)
    if column.type == "text[]":
        [items] = csv.reader([text[1:-1]])
        return items
    return text


# What is played


def project_of(where: Path) -> DbtProject:
    """This repository's declaration and models of Pagila, with a schema and files of their own."""
    made = new_project(where, name="pagila")
    for folder in ("staging/pagila", "marts/films"):
        shutil.copytree(REPOSITORY / "models" / folder, made.root / "models" / folder)
    shutil.copy(REPOSITORY / "models/_groups.yml", made.root / "models")
    (made.root / "macros").symlink_to(REPOSITORY / "macros")
    declared = made.root / "models/staging/pagila/_pagila__sources.yml"
    text = declared.read_text(encoding="utf-8")
    declared.write_text(text.replace("schema: silver_pagila", f"schema: {made.schema}"), encoding="utf-8")
    settings = yaml.safe_load((REPOSITORY / "dbt_project.yml").read_text(encoding="utf-8"))
    of_layers = settings["models"]["lakehouse"]
    for each in (of_layers["staging"], of_layers["marts"]["films"]):
        each["+schema"] = made.schema
    settings["models"]["lakehouse"] = {
        "staging": of_layers["staging"],
        "marts": {name: value for name, value in of_layers["marts"].items() if name[0] == "+" or name == "films"},
    }
    kept = ("name", "version", "profile", "model-paths", "macro-paths", "on-run-start", "on-run-end", "models")
    (made.root / "dbt_project.yml").write_text(
        yaml.safe_dump({name: settings[name] for name in kept}), encoding="utf-8"
    )
    connections = {"pagila_cdc": {"type": "files", "path": str(made.bronze)}}
    (made.root / "connections.yml").write_text(yaml.safe_dump(connections), encoding="utf-8")
    return made


@dataclass(frozen=True)
class Played:
    """Pagila landed in both forms; the marts built from Parquet, and again after a day's work.

    Attributes
    ----------
    landed:
        The live rows of each table as soon as what was delivered is landed, by form and table.
    tombstones:
        The deleted rows likewise, of film_actor.
    after:
        The source's tables after the day's work.
    """

    spark: SparkSession
    delivered: Delivered
    landed: Mapping[str, Mapping[str, list[Row]]]
    tombstones: Mapping[str, list[Row]]
    totals: Mapping[str, Mapping[str, Counts]]
    after: Mapping[str, list[Row]]
    project: DbtProject
    models: Models
    built: Mapping[str, Outcome]

    def mart(self, name: str, where: str = "true") -> list[Row]:
        """Rows of a mart, without Hudi's columns."""
        found = self.spark.sql(f"select * from {self.models.relation(name)} where {where}")
        columns = [column for column in found.columns if not column.startswith("_hoodie_")]
        return [row.asDict() for row in found.select(*columns).collect()]


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All of it."""
    where = tmp_path_factory.mktemp("pagila")
    has_real = all((SHARED / folder).is_dir() for folder in ("pagila", "debezium-captures"))
    delivered = real() if has_real else generated(where / "generated")
    projects = {form: project_of(where) for form in FORMS}
    landed, tombstones, totals = {}, {}, {}
    for form, project in projects.items():
        delivered.deliver(project.bronze, FORMS[form], "snapshot", "changes")
        project.land_well(spark)
        landed[form] = {table.name: project.rows(spark, table.name) for table in TABLES}
        columns = ("actor_id", "film_id", "last_update", "__op", "__deleted")
        every = project.rows(spark, "film_actor", *columns, live=False)
        tombstones[form] = [row for row in every if row["__deleted"] == "true"]
        totals[form] = {table.name: project.state(spark, table.name).totals for table in TABLES}
    of_parquet = projects["Parquet"]
    models = Models(spark, of_parquet)
    models.run()
    further = a_day_after(delivered)
    for table in TABLES:
        told = [envelope(event, "parquet") for event in further.events[table.name]]
        write_file(of_parquet.bronze, "parquet", table, told, delivered.number(table.name)) if told else None
    of_parquet.land_well(spark)
    built = models.dbt("build")
    return Played(spark, delivered, landed, tombstones, totals, further.rows, of_parquet, models, built)


@dataclass(frozen=True)
class Further:
    """Events after those that were delivered, late and repeated ones among them, and the tables after these."""

    events: Mapping[str, list[Event]]
    rows: Mapping[str, list[Row]]


def a_day_after(delivered: Delivered) -> Further:
    """A day's work on the rows that are there, real or not; film 5 goes, if it has not gone."""
    database = Database.of(delivered.rows)
    if (5,) in database.tables["film"]:
        with database.transaction():
            database.delete_film(5)
    a_days_work(database, 1.0, 7)
    log = list(read_log(database.transactions, timedelta(), begins=90_000_000))
    rng = np.random.default_rng(7)
    events = {}
    for table in TABLES:
        again = read_snapshot(table, delivered.rows[table.name], timedelta())
        changes = [event for event in log if event.table is table]
        events[table.name] = [delivery.event for delivery in deliver(changes, again, rng)]
    return Further(events, {table.name: [dict(row) for row in database.rows(table)] for table in TABLES})


def by_key(table: Table, rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [row[name] for name in table.key])


def test_real_rows_and_captures_are_used(played: Played) -> None:
    if not played.delivered.is_real:
        pytest.skip(
            "../shared/data has no Pagila or no captures: generated rows and envelopes were used in this module"
        )


@pytest.mark.parametrize("table", [table.name for table in TABLES])
@pytest.mark.parametrize("form", FORMS)
def test_current_rows_are_exactly_the_sources(form: str, table: str, played: Played) -> None:
    assert played.landed[form][table] == by_key(BY_NAME[table], played.delivered.rows[table])
    totals = played.totals[form][table]
    assert (totals.read, totals.quarantined) == (played.delivered.number(table), 0)


@pytest.mark.parametrize("film", range(1, 6))
def test_films_1_to_5_are_as_their_last_change_left_them(film: int, played: Played) -> None:
    told = [each for each in played.delivered.changes["film"] if (each["after"] or each["before"])["film_id"] == film]
    expected = [row for row in played.delivered.rows["film"] if row["film_id"] == film]
    for form in FORMS:
        assert [row for row in played.landed[form]["film"] if row["film_id"] == film] == expected
    columns = {"release_year": "release_year", "rental_rate": "rental_rate", "rental_duration_days": "rental_duration"}
    found = [{of: row[name] for name, of in columns.items()} for row in played.mart("dim_films", f"film_id = {film}")]
    # Film 5 is deleted at last.
    assert found == [{name: row[name] for name in columns.values()} for row in expected if film != 5]
    # Film 3 of the generated rows gets other categories, and no other values.
    assert told or (film == 3 and not played.delivered.is_real)


@pytest.mark.parametrize("form", FORMS)
def test_all_actors_of_film_375_left_it_and_no_other_film(form: str, played: Played) -> None:
    before = [each["after"] for each in played.delivered.snapshot["film_actor"]]
    gone = sorted(row["actor_id"] for row in before if row["film_id"] == 375)
    of_375 = [row for row in played.tombstones[form] if row["film_id"] == 375]
    assert len(gone) == 5
    assert sorted(row["actor_id"] for row in of_375) == gone
    # A delete's before has the key, and fillers: 1970 was never in the table.
    assert {(row["last_update"], row["__op"]) for row in of_375} == {(None, "d")}
    others = {(row["actor_id"], row["film_id"]) for row in played.landed[form]["film_actor"]}
    assert {actor for actor, _ in others} >= set(gone)
    assert 375 not in {film for _, film in others}


def test_film_375_has_no_actors_in_the_marts(played: Played) -> None:
    assert played.mart("fct_film_actors", "film_id = 375") == []
    (film,) = played.mart("dim_films", "film_id = 375")
    assert (film["actor_count"], film["actor_names"]) == (0, [])


@pytest.mark.parametrize("table", [table.name for table in TABLES])
def test_rows_are_the_sources_after_a_day_of_late_and_repeated_events(table: str, played: Played) -> None:
    assert played.project.rows(played.spark, table) == by_key(BY_NAME[table], played.after[table])


def test_models_and_their_tests_are_well(played: Played) -> None:
    assert not {name: each for name, each in played.built.items() if each.status not in ("success", "pass", "no-op")}
    assert sum(each.status == "pass" for each in played.built.values()) > 40
    # An increment, and not a table that was made anew.
    assert [len(played.models.commits(name)) for name in ("dim_films", "fct_film_actors")] == [2, 2]


def test_films_have_their_languages_categories_and_actors(played: Played) -> None:
    rows = played.after
    languages = {row["language_id"]: row["name"].rstrip() for row in rows["language"]}
    categories = {row["category_id"]: row["name"] for row in rows["category"]}
    actors = {row["actor_id"]: f"{row['first_name']} {row['last_name']}" for row in rows["actor"]}

    def named(table: str, key: str, names: Mapping[int, str]) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {row["film_id"]: [] for row in rows["film"]}
        for row in rows[table]:
            found.get(row["film_id"], []).append(names[row[key]])
        return {film: sorted(each) for film, each in found.items()}

    of_categories = named("film_category", "category_id", categories)
    of_actors = named("film_actor", "actor_id", actors)
    expected = {
        row["film_id"]: (
            row["title"],
            row["rating"] or "NR",
            languages[row["language_id"]],
            languages.get(row["original_language_id"]),
            row["special_features"],
            of_categories[row["film_id"]],
            of_actors[row["film_id"]],
        )
        for row in rows["film"]
    }
    columns = ("title", "rating", "language_name", "original_language_name", "special_features", "category_names",
               "actor_names")  # fmt: skip
    found = {row["film_id"]: tuple(row[name] for name in columns) for row in played.mart("dim_films")}
    assert {film: found.get(film) for film in {*found, *expected} if found.get(film) != expected.get(film)} == {}


# Generated rows: arrays of every kind, and what is bad


Odd = tuple[DbtProject, Delivered, dict[str, Landed]]


@pytest.fixture(scope="module")
def odd(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Odd]:
    """Tables of which files are empty, broken or of something else, beside films, whose sink changes its form."""
    where = tmp_path_factory.mktemp("odd")
    delivered, project = generated(where / "generated"), project_of(where)

    def put(table: str, form: Form, told: Sequence[Row], offset: int = 0) -> Path:
        of = BY_NAME[table]
        return write_file(project.bronze, form, of, [of_form(of, each, form) for each in told], offset)

    put("film", "parquet", delivered.snapshot["film"])
    put("film", "envelope", delivered.changes["film"], len(delivered.snapshot["film"]))
    # An empty table: a file of Parquet with a schema and no rows, and one of no lines.
    put("language", "parquet", [])
    put("language", "envelope", [], 10)
    # An envelope of nothing in each form.
    actors = delivered.snapshot["actor"]
    nothing = {**actors[0], "before": None, "after": None, "op": "u"}
    put("actor", "parquet", [*actors[:5], nothing])
    put("actor", "envelope", [*actors[5:9], nothing], 6)
    # A file that breaks off, one whose rows cannot be read, and one of something else.
    of_films = delivered.snapshot["film_category"]
    put("film_category", "parquet", of_films[:10])
    cut = put("film_category", "parquet", of_films[10:20], 10)
    cut.write_bytes(cut.read_bytes()[:-20])
    folder = cut.parent
    pq.write_table(pa.table({"film": [1], "shelf": ["A"]}), folder / "pagila.public.film_category+0+0000000020.parquet")
    put("category", "parquet", delivered.snapshot["category"][:4])
    spoilt = put("category", "parquet", delivered.snapshot["category"][4:], 4)
    spoilt.write_bytes(scrambled(spoilt))
    yield project, delivered, project.land(spark, "film", "language", "actor", "film_category", "category")


def scrambled(path: Path) -> bytes:
    """A Parquet file with a footer that is whole, and pages that are not."""
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    for place in range(4, len(content) - footer):
        content[place] ^= 0x5A
    return bytes(content)


@pytest.mark.slow
def test_arrays_come_with_nulls_nothing_commas_quotes_and_any_letters(odd: Odd, spark: SparkSession) -> None:
    project, delivered, _ = odd
    found = project.rows(spark, "film")
    assert found == by_key(FILM, delivered.rows["film"])
    arrays = {row["film_id"]: row["special_features"] for row in found}
    assert {film: arrays[film] for film in ODD_FEATURES} == ODD_FEATURES
    # The changes came as JSON: each kind of array is among them, too.
    told = [each["after"]["special_features"] for each in delivered.changes["film"] if each["after"]]
    assert all(features in told for features in ODD_FEATURES.values())


@pytest.mark.slow
def test_a_deleted_film_stays_away_when_its_row_of_the_snapshot_comes_again(odd: Odd, spark: SparkSession) -> None:
    project, delivered, _ = odd
    last = [each["op"] for each in delivered.changes["film"] if (each["after"] or each["before"])["film_id"] == 5]
    assert last == ["d", "r"]
    assert 5 not in [row["film_id"] for row in project.rows(spark, "film", "film_id")]
    (gone,) = [row for row in project.rows(spark, "film", live=False) if row["film_id"] == 5]
    # Defaults such as 4.99 and G, which a delete's before is filled with, were never the film's.
    assert {name for name, value in gone.items() if value is not None} == {"film_id"}


@pytest.mark.slow
def test_an_empty_table_is_empty_and_well(odd: Odd) -> None:
    _, _, landed = odd
    assert landed["language"].error is None
    assert landed["language"].counts == Counts()


@pytest.mark.slow
def test_an_envelope_of_nothing_is_quarantined_and_the_rest_landed(odd: Odd, spark: SparkSession) -> None:
    project, _, landed = odd
    assert landed["actor"].counts == Counts(read=11, applied=9, quarantined=2)
    assert [row["actor_id"] for row in project.rows(spark, "actor")] == list(range(1, 10))
    reasons = {row["reason"] for row in project.quarantined(spark) if row["source_table"] == "actor"}
    assert reasons == {"the envelope has no row image"}


@pytest.mark.slow
def test_files_that_cannot_be_read_are_named_and_the_rest_landed(odd: Odd) -> None:
    _, _, landed = odd
    of_films, categories = landed["film_category"], landed["category"]
    assert (of_films.counts, categories.counts) == (Counts(read=10, applied=10), Counts(read=4, applied=4))
    assert of_films.error is not None and categories.error is not None
    told = of_films.error.message
    assert "+0000000010.gz.parquet is not a Parquet file, or truncated" in told
    assert "+0000000020.parquet is not a file of records: value absent" in told
    assert "nor of events: neither an envelope" in told
    assert "+0000000004.gz.parquet is corrupt" in categories.error.message
    assert landed["film"].error is None
