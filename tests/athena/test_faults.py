"""S3 and Glue that refuse, fail, throttle or lose an answer: nothing is half there or lost, the next run heals."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from conftest import MakeProject, chosen, new_project
from continuously import landing, wait_until
from pyspark.sql import SparkSession

from athena.shop import TABLE, Shop, items
from dev.chain.moto_s3 import Breaking, Fault, Request, StandIn
from ingest.landing.continuous import Progress

pytestmark = [pytest.mark.athena, pytest.mark.spark]

THREE = {TABLE, f"{TABLE}_ro", f"{TABLE}_rt"}
DENIED = Fault(403, "AccessDenied")
# An answer that was lost, of which the client is told what it does not try again.
LOST = Fault(403, "AccessDenied", is_done=True)
BUSY = Fault(503, "SlowDown", "Please reduce your request rate.")
BROKEN = Fault(500, "InternalError", "We encountered an internal error.")

# What a phase of a commit asks S3 for: an action, and the key below the table's folder.
PHASES: Mapping[str, tuple[str, str]] = {
    "state read": ("GET", r"\.hoodie/\d+\.(delta)?commit"),
    "commit requested": ("PUT", r"\.hoodie/\d+\.deltacommit\.requested"),
    "commit begun": ("PUT", r"\.hoodie/\d+\.deltacommit\.inflight"),
    "files marked": ("PUT", r"\.hoodie/\.temp/.*"),
    "logs written": ("PUT", r"\.[^/]+\.log\.[^/]+"),
    "commit completed": ("PUT", r"\.hoodie/\d+\.deltacommit"),
    "compaction requested": ("PUT", r"\.hoodie/\d+\.compaction\.requested"),
    "files compacted": ("PUT", r"[^/]+\.parquet"),
    "compaction completed": ("PUT", r"\.hoodie/\d+\.commit"),
    "files listed": ("LIST", r".*"),
}


def at(shop: Shop, phase: str, fault: Fault, times: int = 1_000) -> Breaking:
    """Breaks so many requests of a phase of the shop's table."""
    action, key = PHASES[phase]
    folder = shop.path.removeprefix("s3:/")
    left = times

    def breaks(request: Request) -> Fault | None:
        nonlocal left
        below = request.path.removeprefix(f"{folder}/")
        if left and request.action == action and below != request.path and re.fullmatch(key, below):
            left -= 1
            return fault
        return None

    return breaks


def glue_at(action: str, fault: Fault, times: int = 1_000, skipped: int = 0) -> Breaking:
    """Breaks so many requests of Glue, after some that it lets through."""
    left, passing = times, skipped

    def breaks(request: Request) -> Fault | None:
        nonlocal left, passing
        if request.service != "glue" or not re.fullmatch(action, request.action):
            return None
        if passing:
            passing -= 1
            return None
        left -= 1
        return fault if left >= 0 else None

    return breaks


@pytest.fixture
def shop(make_project: MakeProject) -> Shop:
    """A shop that has delivered its first batch."""
    shop = Shop(make_project({"tables": [items()]}), random.Random(7))  # noqa: S311
    shop.change()
    return shop


@pytest.fixture(scope="module")
def long_lived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A shop whose table is landed already, and meets one fault after the other."""
    shop = Shop(new_project(tmp_path_factory.mktemp("faults"), {"tables": [items()]}), random.Random(8), bad_every=1)  # noqa: S311
    shop.change()
    shop.project.land_well(spark)
    return shop


# Every change has to pass two; the others are slow tests.
@pytest.mark.parametrize("phase", chosen(PHASES, "logs written"))
def test_a_phase_that_s3_breaks_off_is_healed_by_the_next_run(
    spark: SparkSession, aws: StandIn, long_lived: Shop, phase: str
) -> None:
    shop = long_lived
    states = [shop.found(spark)]
    for fault in (DENIED, LOST):
        shop.change()
        states.append(dict(shop.rows))
        with aws.broken(at(shop, phase, fault)):
            error = shop.project.land(spark)[TABLE].error
        assert error is not None, "the phase was not met"
        assert "AccessDenied" in error.message
        assert shop.found(spark) in states, "a part of a batch is seen"
    shop.project.land_well(spark)
    shop.require_equal(spark)


@pytest.mark.parametrize("fault", [pytest.param(BUSY, marks=pytest.mark.slow), BROKEN], ids=["busy", "broken"])
def test_what_s3_fails_to_serve_is_asked_again(
    spark: SparkSession, aws: StandIn, long_lived: Shop, fault: Fault
) -> None:
    shop = long_lived
    for each in (fault, replace(fault, is_done=True)):
        shop.change()
        breaking = [at(shop, phase, each, times=1) for phase in PHASES]
        met: set[int] = set()

        def breaks(request: Request, breaking: list[Breaking] = breaking, met: set[int] = met) -> Fault | None:
            for number, phase in enumerate(breaking):
                if found := phase(request):
                    met.add(number)
                    return found
            return None

        with aws.broken(breaks):
            shop.project.land_well(spark)
        assert len(met) == len(PHASES), "each phase was met"
    shop.require_equal(spark)


@pytest.mark.parametrize(
    "fault",
    [BUSY, *(pytest.param(fault, marks=pytest.mark.slow) for fault in (BROKEN, DENIED))],
    ids=["busy", "broken", "denied"],
)
def test_continuous_ingest_goes_on_once_s3_serves_again_and_stops_for_what_is_for_good(
    spark: SparkSession, aws: StandIn, s3: Any, shop: Shop, fault: Fault
) -> None:
    bucket = f"of-{fault.code.lower()}"
    s3.create_bucket(Bucket=bucket)
    # Each request is made twice, and not for minutes.
    for setting in ("attempts.maximum", "retry.limit", "retry.throttle.limit"):
        spark._jsc.hadoopConfiguration().set(f"fs.s3a.bucket.{bucket}.{setting}", "1")
    shop.project.declare({"tables": [{**items(), "external": {"using": "hudi", "location": f"s3://{bucket}/item"}}]})
    told: list[Progress] = []

    def breaks(request: Request) -> Fault | None:
        return fault if request.path.startswith(f"/{bucket}") and request.action == "PUT" else None

    def in_state(*states: str) -> Callable[[], bool]:
        return lambda: any(progress.state in states for progress in told)

    with ExitStack() as broken:
        broken.enter_context(aws.broken(breaks))
        with landing(spark, shop.project.source().tables, told.append):
            wait_until(in_state("retrying", "failed"), "the fault is met")
            (met,) = {progress.state for progress in told} & {"retrying", "failed"}
            assert met == ("failed" if fault is DENIED else "retrying")
            error = next(progress.error for progress in told if progress.error)
            assert ("refuses it" if fault is DENIED else "does not serve it now") in error.message, error.message
            broken.close()
            if met == "retrying":
                wait_until(in_state("waiting"), "S3 serves again")
    if fault is not DENIED:
        assert {row["id"]: row["v"] for row in shop.project.rows(spark, TABLE)} == shop.rows


GLUE_REFUSES: Mapping[str, tuple[str, Fault, tuple[str, ...]]] = {
    "no right": ("CreateTable", Fault(400, "AccessDeniedException", "not authorized"), ("glue:GetDatabase", "rights")),
    "wrong credentials": (
        "Get.*",
        Fault(400, "UnrecognizedClientException", "The security token is invalid"),
        ("credentials",),
    ),
    "no credentials any more": ("Get.*", Fault(400, "ExpiredTokenException", "expired"), ("credentials",)),
    "a quota": ("CreateDatabase", Fault(400, "ResourceNumberLimitExceededException", "too many"), ("too many",)),
}


@pytest.mark.parametrize("case", chosen(GLUE_REFUSES, "no right", "no credentials any more"))
def test_what_glue_refuses_is_landed_and_registered_by_the_next_run(
    spark: SparkSession, aws: StandIn, glue: Any, shop: Shop, case: str
) -> None:
    action, fault, said = GLUE_REFUSES[case]
    with aws.broken(glue_at(action, fault)):
        error = shop.project.land(spark)[TABLE].error
    assert error is not None
    assert fault.code in error.message
    assert all(each in error.message for each in ("the next run registers it", *said))
    assert not names_in(glue, shop)
    shop.require_equal(spark)
    shop.project.land_well(spark)
    assert names_in(glue, shop) == THREE


def test_a_table_is_registered_with_its_views_or_not_at_all(
    spark: SparkSession, aws: StandIn, glue: Any, shop: Shop
) -> None:
    denied = Fault(400, "AccessDeniedException", "not authorized")
    with aws.broken(glue_at("CreateTable", denied, skipped=1)):
        error = shop.project.land(spark)[TABLE].error
    assert error is not None
    assert not names_in(glue, shop)
    shop.project.land_well(spark)
    assert names_in(glue, shop) == THREE


def test_throttling_of_glue_is_tried_again(spark: SparkSession, aws: StandIn, glue: Any, shop: Shop) -> None:
    with aws.broken(glue_at(".*", Fault(400, "ThrottlingException", "Rate exceeded"), times=3)):
        shop.project.land_well(spark)
    assert names_in(glue, shop) == THREE


OTHERS: Mapping[str, tuple[dict[str, Any], str]] = {
    "a view": ({"TableType": "VIRTUAL_VIEW", "ViewOriginalText": "select 1"}, "VIRTUAL_VIEW"),
    "of Iceberg": ({"TableType": "EXTERNAL_TABLE", "Parameters": {"table_type": "ICEBERG"}}, "ICEBERG"),
    "of text": (
        {
            "TableType": "EXTERNAL_TABLE",
            "StorageDescriptor": {"InputFormat": "org.apache.hadoop.mapred.TextInputFormat"},
        },
        "TextInputFormat",
    ),
    "elsewhere": (
        {
            "TableType": "EXTERNAL_TABLE",
            "StorageDescriptor": {
                "InputFormat": "org.apache.hudi.hadoop.HoodieParquetInputFormat",
                "Location": "s3://lake/elsewhere",
            },
        },
        "s3://lake/elsewhere",
    ),
}


@pytest.mark.parametrize("kind", chosen(OTHERS, "elsewhere"))
def test_another_table_of_that_name_is_left_as_it_is(spark: SparkSession, glue: Any, shop: Shop, kind: str) -> None:
    given, said = OTHERS[kind]
    schema = shop.project.schema
    glue.create_database(DatabaseInput={"Name": schema})
    glue.create_table(DatabaseName=schema, TableInput={"Name": f"{TABLE}_rt", **given})
    error = shop.project.land(spark)[TABLE].error
    assert error is not None
    assert said in error.message
    assert f"Glue, {schema}.{TABLE}_rt" in error.message
    assert names_in(glue, shop) == {f"{TABLE}_rt"}
    glue.delete_table(DatabaseName=schema, Name=f"{TABLE}_rt")
    shop.project.land_well(spark)
    assert names_in(glue, shop) == THREE
    shop.require_equal(spark)


def names_in(glue: Any, shop: Shop) -> set[str]:
    """The tables of the shop's schema in Glue, without ledgers."""
    try:
        names = {each["Name"] for each in glue.get_tables(DatabaseName=shop.project.schema)["TableList"]}
        return {name for name in names if not name.startswith("_")}
    except glue.exceptions.EntityNotFoundException:
        return set()


# A bucket, what is wrong with it, and what is said to do.
BUCKETS: Mapping[str, tuple[str, Fault | None, str]] = {
    "is missing": ("no-such-bucket", None, "make the bucket"),
    "takes no wrong key": (
        "guarded",
        Fault(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."),
        "check which credentials are found",
    ),
    "gives no right": ("forbidden", Fault(403, "AccessDenied", "Access Denied"), "give the role s3:ListBucket"),
    "meets nobody": ("nobody", None, "set AWS_PROFILE"),
}


@pytest.mark.parametrize("case", BUCKETS)
def test_what_is_wrong_with_the_bucket_of_a_table_is_said(
    spark: SparkSession, aws: StandIn, s3: Any, shop: Shop, case: str
) -> None:
    bucket, fault, said = BUCKETS[case]
    if case != "is missing":
        s3.create_bucket(Bucket=bucket)
    if case == "meets nobody":
        # Of what may have credentials, the one that has none here.
        provider = "com.amazonaws.auth.SystemPropertiesCredentialsProvider"
        spark._jsc.hadoopConfiguration().set(f"fs.s3a.bucket.{bucket}.aws.credentials.provider", provider)
    shop.project.declare({"tables": [{**items(), "external": {"using": "hudi", "location": f"s3://{bucket}/item"}}]})
    with aws.broken(lambda request: fault if request.path.startswith(f"/{bucket}") else None):
        error = shop.project.land(spark)[TABLE].error
    assert error is not None
    assert said in error.message, error.message
    assert f"s3://{bucket}" in error.message
