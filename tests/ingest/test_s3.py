"""What follows from a table's place, and what Glue is told of a table: without S3, Glue or Spark."""

from __future__ import annotations

from typing import Any, cast

import pytest
from conftest import MakeProject, table_of
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from ingest.config.tables import Table
from ingest.errors import UnavailableError, WriteError
from ingest.landing.failures import error_of
from ingest.silver.catalog import glue_forms
from ingest.silver.catalog.base import Entry
from ingest.silver.hudi import HudiTable, TableOptions
from ingest.silver.write_errors import write_error
from ingest.spark import s3
from ingest.spark.passing import may_pass

COLUMNS = T.StructType([T.StructField("Id", T.LongType()), T.StructField("Tags", T.ArrayType(T.StringType()))])
THE_TABLE = cast(Table, None)
PARTITIONS = T.StructType([T.StructField("Day", T.DateType())])


def version(make_project: MakeProject, **declared: Any) -> int:
    """The table version of a source's only table."""
    location = declared.pop("location", None)
    table = table_of("item", {"id": "int"}, ["id"], **declared)
    if location:
        table["external"] = {"using": "hudi", "location": location}
    project = make_project({"tables": [table]})
    (found,) = project.source().tables
    return found.options.table_version


def test_a_table_on_s3_has_the_version_that_athena_reads(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKE_ROOT", raising=False)
    assert version(make_project) == 9
    assert version(make_project, location="s3://lake/item") == 6
    assert version(make_project, location="s3a://store/item") == 9, "an object store that Athena is not told of"
    assert version(make_project, location="s3://lake/item", table_version=8) == 8
    monkeypatch.setenv("LAKE_ROOT", "s3://lake/silver")
    assert version(make_project) == 6
    assert version(make_project, location="elsewhere/item") == 6
    assert version(make_project, location="/var/item") == 9
    assert version(make_project, table_version=9) == 9


def entry(*, views: bool, comment: str = "") -> Entry:
    """A table, merge-on-read where it has views."""
    options = TableOptions("Shop", "Item", key="id", ordering="at", partition_by=("Day",))
    named = {"Item_ro": True, "Item_rt": False} if views else {}
    hudi = HudiTable(cast(SparkSession, None), "s3://lake/shop/item", options)
    return Entry(hudi, {}, named, "One row\nper item.", {"Id": comment})


def test_what_glue_is_told_is_in_lower_case_and_on_one_line() -> None:
    told = glue_forms.table_inputs(entry(views=True, comment="é" * 200), COLUMNS, PARTITIONS)
    assert list(told) == ["item", "item_ro", "item_rt"]
    for name, table in told.items():
        assert table["Name"] == name
        assert table["Description"] == "One row per item."
        assert [(each["Name"], each["Type"]) for each in table["StorageDescriptor"]["Columns"]] == [
            ("id", "bigint"),
            ("tags", "array<string>"),
        ]
        assert [(each["Name"], each["Type"]) for each in table["PartitionKeys"]] == [("day", "date")]
        comment = table["StorageDescriptor"]["Columns"][0]["Comment"]
        assert len(comment.encode()) <= 255
        assert comment.endswith("é...")
    only_compacted = {name: "realtime" not in table["StorageDescriptor"]["InputFormat"] for name, table in told.items()}
    assert only_compacted == {"item": True, "item_ro": True, "item_rt": False}, (
        "Athena reads no timestamps of log files"
    )
    (plain,) = glue_forms.table_inputs(entry(views=False), COLUMNS, PARTITIONS).values()
    assert plain["StorageDescriptor"]["InputFormat"] == "org.apache.hudi.hadoop.HoodieParquetInputFormat"


def test_a_table_that_says_all_that_is_wanted_is_in_step_whatever_else_it_says() -> None:
    (wanted,) = glue_forms.table_inputs(entry(views=False), COLUMNS, PARTITIONS).values()
    found = {**wanted, "Owner": "analysts", "Parameters": {**wanted["Parameters"], "classification": "hudi"}}
    assert glue_forms.tells(found, wanted)
    assert not glue_forms.tells({**found, "Description": "Another."}, wanted)
    storage = wanted["StorageDescriptor"]
    narrower = {**storage, "Columns": storage["Columns"][:1]}
    assert not glue_forms.tells({**found, "StorageDescriptor": narrower}, wanted)
    updated = glue_forms.updated({**found, "CreateTime": 0}, wanted, ("Owner",))
    assert (updated["Owner"], updated["Parameters"]["classification"]) == ("analysts", "hudi")
    assert "CreateTime" not in updated, "Glue takes what it tells only in part"


def test_a_partitions_folder_gives_its_values() -> None:
    assert glue_forms.values_of("day=2026-11-25/kind=old%2Fnew%3D bowl") == ["2026-11-25", "old/new= bowl"]
    (table,) = glue_forms.table_inputs(entry(views=False), COLUMNS, PARTITIONS).values()
    partition = glue_forms.partition_input(table, "day=2026-11-25")
    assert partition["Values"] == ["2026-11-25"]
    assert partition["StorageDescriptor"]["Location"] == "s3://lake/shop/item/day=2026-11-25"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("The specified bucket does not exist (Service: Amazon S3; Error Code: NoSuchBucket)", "make the bucket"),
        ("Forbidden (Service: Amazon S3; Status Code: 403)", "give the role s3:ListBucket"),
        ("Please reduce your request rate. (Service: Amazon S3; Error Code: SlowDown)", "S3 did not serve this"),
    ],
)
def test_what_s3_refuses_has_something_to_do(told: str, said: str) -> None:
    assert (s3.to_do(f"com.amazonaws.services.s3.model.AmazonS3Exception: {told}") or "").startswith(said)


@pytest.mark.parametrize("told", ["AccessDeniedException: /srv/lake", "FileNotFoundException: bucket does not exist"])
def test_what_a_disk_refuses_is_not_s3s(told: str) -> None:
    assert s3.to_do(f"java.nio.file.{told}") is None


@pytest.mark.parametrize(
    "told",
    [
        "AmazonS3Exception: Reduce your request rate. (Service: Amazon S3; Status Code: 503; Error Code: SlowDown)",
        "AmazonS3Exception: Your socket connection was idle (Service: Amazon S3; Error Code: RequestTimeout)",
        "botocore.errorfactory.ThrottlingException: Rate exceeded",
        "java.net.SocketException: Connection reset",
        "org.apache.http.NoHttpResponseException: s3 failed to respond",
        "org.postgresql.util.PSQLException: FATAL: the database system is starting up",
        "java.net.ConnectException: Connection refused",
    ],
)
def test_what_may_pass_is_told_from_what_is_for_good(told: str) -> None:
    assert may_pass(OSError(told))
    for error in (write_error(OSError(told), where="x"), error_of(THE_TABLE, wrapped(told))):
        assert isinstance(error, UnavailableError), error.message


@pytest.mark.parametrize(
    "told",
    [
        "AmazonS3Exception: Access Denied (Service: Amazon S3; Status Code: 403; Error Code: AccessDenied)",
        "AmazonS3Exception: The bucket does not exist (Service: Amazon S3; Error Code: NoSuchBucket), within a timeout",
        "AmazonS3Exception: clocks are apart (Service: Amazon S3; Error Code: RequestTimeTooSkewed)",
        "java.io.FileNotFoundException: /lake/a.parquet",
    ],
)
def test_what_is_for_good_is_not_tried_again(told: str) -> None:
    assert not may_pass(OSError(told))
    assert not isinstance(write_error(OSError(told), where="x"), UnavailableError)
    assert not isinstance(error_of(THE_TABLE, wrapped(told)), UnavailableError)
    assert not may_pass(WriteError("ends in a timeout", where="s3a: Throttling")), "what users have named says nothing"


def wrapped(told: str) -> WriteError:
    """An error of this project that came of another one."""
    try:
        raise WriteError("it cannot be read", where="a file") from OSError(told)
    except WriteError as error:
        return error


def test_one_endpoint_leads_spark_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "SPARK_HOME", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    assert not {name for name in s3.settings() if name.endswith(("endpoint", "path.style.access"))}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2")
    settings = s3.settings()
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:2"
    assert settings["spark.hadoop.fs.s3a.path.style.access"] == "true"
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert s3.settings() == {}, "a Spark of one's own has its own way"
