"""Looks, without Spark, at all that landing a source needs: what its connections lead to, and a lake on S3."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from ingest.config.extras import boto3_for_lake
from ingest.config.lake import is_on_s3
from ingest.config.project import Project
from ingest.config.tables import Table
from ingest.errors import LakeError, UnavailableError
from ingest.sources.reach import Look, Seen, look
from ingest.spark.s3 import to_do

# In seconds: `lake check` takes about two, where something does not answer.
_WITHIN_S = 1.0


def look_at_all(project: Project, tables: Sequence[Table]) -> list[Seen]:
    """What there is: an item for each table and each server of the connections; for a lake on S3 its bucket, which must
    be there and show what it holds, and Glue, which must answer. That these take what is written is not tried.
    """
    return look(project, tables, _of_lake(project, tables))


def _of_lake(project: Project, tables: Sequence[Table]) -> Mapping[str, Look]:
    if not is_on_s3(project.lake_root):
        return {}
    with suppress(LakeError):
        boto3_for_lake()  # its import takes a third of the time that there is for the answers
    schemas = sorted({table.schema for table in tables})
    looks: dict[str, Look] = {f"lake {project.lake_root}": partial(_bucket, project.lake_root)}
    return looks | {f"Glue, database {schema}": partial(_database, schema) for schema in schemas}


def _bucket(root: str) -> str:
    client = _client("s3")
    place = urlsplit(root)
    try:
        client.list_objects_v2(Bucket=place.netloc, Prefix=place.path.lstrip("/"), MaxKeys=1)
    except _errors() as error:
        raise _unavailable(error, root, "Amazon S3") from error
    return "the bucket answers"


def _database(schema: str) -> str:
    client = _client("glue")
    try:
        client.get_database(Name=schema.lower())
    except client.exceptions.EntityNotFoundException:
        return "answers; the first landing makes the database"
    except _errors() as error:
        raise _unavailable(error, f"Glue, database {schema}", "AWS Glue") from error
    return "is there"


def _unavailable(error: Exception, where: str, service: str) -> UnavailableError:
    advice = to_do(f"{service}, s3a: {error}")
    return UnavailableError(
        f"{service} refuses, or does not answer: {error}",
        where=where,
        expected="a bucket, a region and credentials, as every tool of AWS finds them",
        action=advice or "see AWS_PROFILE, AWS_REGION and AWS_ENDPOINT_URL, and whether AWS can be reached from here",
    )


def _client(service: str) -> Any:
    """A client that asks once, and waits no longer than there is time."""
    boto3, config = boto3_for_lake()
    quick = config.Config(
        retries={"mode": "standard", "total_max_attempts": 1}, connect_timeout=_WITHIN_S, read_timeout=_WITHIN_S
    )
    region = os.environ.get("AWS_REGION")
    try:
        return boto3.session.Session().client(service, region_name=region, config=quick)
    except _errors() as error:
        raise _unavailable(error, service, service) from error


def _errors() -> tuple[type[Exception], ...]:
    import botocore.exceptions as boto  # noqa: PLC0415 - comes with an extra

    return boto.BotoCoreError, boto.ClientError
