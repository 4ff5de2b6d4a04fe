"""Files that a real Kafka Connect S3 sink wrote are landed as they are (captured, see their SOURCE.md)."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from conftest import DbtProject, MakeProject, pg, table_of
from pyspark.sql import SparkSession

from examples.pagila.files import avro_schema
from examples.pagila.tables import FILM
from ingest.silver.state import Counts
from ingest.spark.jvm import java_class

pytestmark = pytest.mark.spark

ARTISTS = {"artist_id": "int", "name": "string", "nationality": "string", "gender": "string",
           "birth_year": "int", "death_year": "int"}  # fmt: skip
TEXTS = ("medium", "dimensions", "acquisition_date", "credit", "catalogue", "department", "classification",
         "object_number", "diameter_cm", "circumference_cm", "height_cm", "length_cm", "width_cm", "depth_cm",
         "weight_kg")  # fmt: skip
ARTWORKS = {"artwork_id": "int", "title": "string", "artist_id": "int", "name": "string", "date": "int",
            **dict.fromkeys(TEXTS, "string"), "durations": "int"}  # fmt: skip
# Folder of the files, whose names also begin with the shape of their events; columns; key.
TOPICS = {
    "envelope.moma.public.artists": (ARTISTS, "artist_id"),
    "flat.moma.public.artists": (ARTISTS, "artist_id"),
    "flat.moma.public.artworks": (ARTWORKS, "artwork_id"),
}


@pytest.fixture
def sink_files(shared_data: Path) -> dict[str, list[Path]]:
    """The captured files by topic, in order of their offsets."""
    folder = shared_data / "moma-sink-avro"
    if not folder.is_dir():
        pytest.skip("../shared/data/moma-sink-avro is absent: the captured files of a real sink cannot be landed")
    return {topic: sorted(folder.glob(f"{topic}+*.avro")) for topic in TOPICS}


def records(paths: list[Path], key: str) -> list[dict[str, Any]]:
    """What an independent reader finds in the files: rows of the table, with offset and lsn, by key."""
    found: list[dict[str, Any]] = []
    for path in paths:
        with path.open("rb") as file:
            for event in fastavro.reader(file):
                assert isinstance(event, dict)
                row = dict(event.get("after", event))
                row["lsn"] = event["source"]["lsn"] if "source" in event else event["__lsn"]
                found.append({name: value for name, value in row.items() if not name.startswith("__")})
    return sorted(found, key=lambda row: int(row[key]))


@pytest.mark.slow
def test_captured_files_give_every_row_they_hold(
    sink_files: dict[str, list[Path]], make_project: MakeProject, spark: SparkSession
) -> None:
    tables = [
        table_of(topic.replace(".", "_"), columns, [key], topic=topic, table_type="cow" if "flat" in topic else "mor")
        for topic, (columns, key) in TOPICS.items()
    ]
    for table in tables:
        table["config"]["meta"]["ingest"]["topic"] = table["name"].replace("_", ".")
    project = make_project({"tables": tables})
    for topic, paths in sink_files.items():
        assert len(paths) == 3
        (project.bronze / topic).mkdir()
        for path in paths[:2]:
            shutil.copyfile(path, project.bronze / topic / path.name)
    for landed in project.land_well(spark).values():
        assert (landed.counts, landed.taken) == (Counts(read=600, applied=600), 2)
    assert_landed(spark, project, {topic: paths[:2] for topic, paths in sink_files.items()})

    for topic, paths in sink_files.items():
        shutil.copyfile(paths[2], project.bronze / topic / paths[2].name)
    for landed in project.land_well(spark).values():
        assert (landed.counts, landed.taken) == (Counts(read=300, applied=300), 1)
    assert_landed(spark, project, sink_files)

    again = project.land_well(spark)
    assert {(landed.counts, landed.taken) for landed in again.values()} == {(Counts(), 0)}
    assert project.quarantined(spark) == []


def assert_landed(spark: SparkSession, project: DbtProject, files: dict[str, list[Path]]) -> None:
    for topic, paths in files.items():
        columns, key = TOPICS[topic]
        rows = project.rows(spark, topic.replace(".", "_"), *columns, "__lsn", "__op", "__db", "__table", "__position")
        expected = records(paths, key)
        assert [{**{name: row[name] for name in columns}, "lsn": row["__lsn"]} for row in rows] == expected
        assert {(row["__op"], row["__db"], row["__table"]) for row in rows} == {("r", "moma", topic.rsplit(".", 1)[-1])}
        # <epoch>.<lsn>.<nothing>/<partition>-<first offset of the file>-<order>, from the name and place of the file
        offsets = {int(row["__position"].split("/")[1].split("-")[1], 16) for row in rows}
        assert offsets == {int(path.stem.rsplit("+", 1)[-1]) for path in paths}
        assert {int(row["__position"].split("/")[1].split("-")[0], 16) for row in rows} == {0}
        assert {int(row["__position"].split(".")[1], 16) for row in rows} == {row["lsn"] for row in expected}


FILMS = {"film_id": "int", "title": "string", "rental_rate": "decimal(4,2)", "rating": "string",
         "last_update": "timestamp", "special_features": "array<string>"}  # fmt: skip


def envelope_of(op: str, lsn: int, key: int, features: list[str]) -> dict[str, Any]:
    """An envelope of a film; a delete's before has fillers."""
    row = dict.fromkeys((column.name for column in FILM.columns), None) | {
        "film_id": key,
        "title": f"film {lsn}",
        "rental_rate": Decimal("4.99"),
        "rating": "PG-13",
        "last_update": "2023-08-20T02:41:32.000001Z",
        "special_features": features,
    }
    images = {"before": row if op == "d" else None, "after": None if op == "d" else row}
    return {**images, "op": op, "source": {"lsn": lsn, "ts_ms": lsn, "snapshot": "false", "db": "pagila"}}


@pytest.mark.slow
def test_parquet_of_a_sinks_own_writer_is_landed_as_its_avro_is(make_project: MakeProject, spark: SparkSession) -> None:
    """Connect's Parquet format writes by parquet-avro, which by default has lists of two levels."""
    project = make_project({"tables": [table_of(name, FILMS, ["film_id"]) for name in ("avro", "rows")]})
    told = [envelope_of("c", 10, 1, ["Trailers", "a, b"]), envelope_of("c", 20, 2, []), envelope_of("u", 30, 1, ["字"]),
            envelope_of("d", 40, 2, [])]  # fmt: skip
    path = project.deliver("shop.avro", 0, b"", "avro")
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(avro_schema(FILM)), told)
    (project.bronze / "shop.rows").mkdir()
    written = project.bronze / "shop.rows" / "shop.rows+0+0000000000.gz.parquet"
    write_as_sink(spark, path, written, json.dumps(avro_schema(FILM)))
    for landed in project.land_well(spark).values():
        assert landed.counts == Counts(read=4, applied=2, superseded=2)
    found = [project.rows(spark, table, *FILMS, "__op", "__lsn", live=False) for table in ("avro", "rows")]
    assert found[0] == found[1]
    assert [(row["film_id"], row["special_features"], row["rental_rate"]) for row in found[1]] == [
        (1, ["字"], Decimal("4.99")), (2, None, None)
    ]  # fmt: skip


def write_as_sink(spark: SparkSession, avro: Path, target: Path, schema: str) -> None:
    """The records of an Avro object file as Parquet, by the writer that Kafka Connect's sinks use."""
    of_nulls = schema.replace('"items": ["null", "string"]', '"items": "string"')
    known = java_class(spark, "org.apache.avro.Schema$Parser")().parse(of_nulls)
    decoder = java_class(spark, "org.apache.avro.generic.GenericDatumReader")(known)
    reader = java_class(spark, "org.apache.avro.file.DataFileReader")(
        java_class(spark, "java.io.File")(str(avro)), decoder
    )
    place = java_class(spark, "org.apache.hadoop.fs.Path")(str(target))
    settings = java_class(spark, "org.apache.hadoop.conf.Configuration")()
    settings.setBoolean("parquet.avro.write-old-list-structure", True)
    writer = (
        java_class(spark, "org.apache.parquet.avro.AvroParquetWriter")
        .builder(place)
        .withSchema(known)
        .withConf(settings)
        .withCompressionCodec(java_class(spark, "org.apache.parquet.hadoop.metadata.CompressionCodecName").GZIP)
        .build()
    )
    while reader.hasNext():
        writer.write(reader.next())
    writer.close()
    reader.close()


@pytest.mark.slow
def test_files_of_the_hdfs_sink_are_placed_by_their_first_offset_and_what_is_not_read_is_named(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """Their names have the last offset, too: it was taken for the first one, and the first one for the partition."""
    options: dict[str, Any] = {"connector": None, "order_by": ["__source_ts_ms"]}
    columns = {"id": "int", "note": "string"}
    project = make_project({"tables": [table_of("note", columns, ["id"], **options), table_of("log", columns, [])]})

    def deliver(name: str, table: str, key: int, note: str) -> None:
        path = project.bronze / f"shop.{table}" / f"shop.{table}+{name}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(pg("c", 1, id=key, note=note)) + "\n")

    for offset, note in ((65_535, "older"), (65_536, "newer"), (3_000_000_000, "newest")):
        deliver(f"0+{offset:010d}+{offset:010d}.json", "note", 1, note)
    for name in ("0000000000.orc", "0000000000.json.bz2", "0000000000.keys.json"):
        deliver(f"0+{name}", "note", 2, "not read")
    deliver("0+0000000000+0000000000.json", "log", 1, "of partition 0")
    error = project.land(spark)["note"].error
    assert error is not None
    assert [name in error.message for name in (".orc", ".bz2", ".keys.json")] == [True, True, False]
    assert project.rows(spark, "note") == [{"id": 1, "note": "newest"}]
    deliver("1+0000000000+0000000000.json", "log", 2, "of partition 1")
    assert project.land_well(spark, "log")["log"].counts == Counts(read=1, applied=1)
    assert [row["id"] for row in project.rows(spark, "log")] == [1, 2]
