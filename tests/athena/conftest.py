"""A lake on a stand-in for S3, Glue and STS, which counts what it is asked for and breaks where a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from conftest import embedded_session
from pyspark.sql import SparkSession

from dev.chain.moto_s3 import StandIn, served

BUCKET = "lake"


@pytest.fixture(scope="session")
def aws() -> Iterator[StandIn]:
    """The stand-in, to which the environment of this process leads; the lake's bucket is made."""
    with pytest.MonkeyPatch.context() as patch, served() as stand_in:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_GLUE"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_ACCESS_KEY_ID", "lake")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "lake")
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_ENDPOINT_URL", stand_in.url)
        patch.setenv("LAKE_ROOT", f"s3://{BUCKET}/silver")
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield stand_in


@pytest.fixture(scope="session")
def spark(aws: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The embedded session of the repository's own profile, whose lake is on S3."""
    assert SparkSession.getActiveSession() is None, "run these tests by themselves: their session has another lake"
    with embedded_session(tmp_path_factory.mktemp("lake")) as session:
        yield session


@pytest.fixture
def glue(aws: StandIn) -> Any:
    """A client of Glue."""
    return boto3.client("glue")


@pytest.fixture
def s3(aws: StandIn) -> Any:
    """A client of S3."""
    return boto3.client("s3")
