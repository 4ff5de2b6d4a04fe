"""The calls that are made of Glue's catalog, through boto3, and what its errors mean.

boto3 comes with the extra `aws`. It finds credentials and region as every tool of AWS does: in the environment, in the
user's profile, or from the machine's role. Nothing of them is kept here.

Sources: the API reference of Glue; "Quotas" of Glue: a call takes 100 partitions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ingest.config.extras import boto3_for_lake
from ingest.errors import LakeError, UnavailableError, WriteError
from ingest.silver.catalog.glue_forms import Input

# Throttled and broken calls are tried again so often, with pauses that grow to 20 s (botocore's mode `standard`).
_ATTEMPTS = 8
_PARTITIONS_A_CALL = 100
# What the API has for "later", of what the retries do not heal.
_LATER = ("Throttl", "TooManyRequests", "OperationTimeout", "InternalService", "InternalFailure", "ServiceUnavailable",
          "ConcurrentModification", "ConcurrentRun", "RequestLimitExceeded")  # fmt: skip
_REFUSED = ("AccessDenied", "UnrecognizedClient", "InvalidSignature", "ExpiredToken", "InvalidClientToken",
            "IncompleteSignature", "MissingAuthentication", "OptInRequired", "NotAuthorized", "GlueEncryption",
            "SignatureDoesNotMatch", "InvalidAccessKeyId")  # fmt: skip
_RIGHTS = (
    "the rights glue:GetDatabase, GetTables, CreateTable, UpdateTable, BatchDeleteTable, GetPartitions and "
    "BatchCreatePartition, and CreateDatabase where the database is not there yet"
)
_HEALS = "what was read is landed; the next run registers it"


class GlueClient:
    """Glue's catalog of the account and region that the environment leads to. Any thread may call it.

    Each method raises WriteError where Glue refuses, UnavailableError where it does not answer or serve now, and
    SetupError where boto3 is not installed.
    """

    def __init__(self) -> None:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_GLUE") or os.environ.get("AWS_ENDPOINT_URL") or None
        with _told("Glue"):
            self._client = _client(os.environ.get("AWS_REGION"), endpoint)

    def has_database(self, schema: str) -> bool:
        """Whether there is a database of that name."""
        with _told(f"Glue, database {schema}"):
            try:
                self._client.get_database(Name=schema)
            except self._client.exceptions.EntityNotFoundException:
                return False
        return True

    def create_database(self, given: Input) -> None:
        """Makes a database, unless there is one of that name."""
        with _told(f"Glue, database {given['Name']}"):
            try:
                self._client.create_database(DatabaseInput=given)
            except self._client.exceptions.AlreadyExistsException:
                return  # another process was first

    def tables(self, schema: str, names: Sequence[str]) -> dict[str, Input]:
        """Those of some tables that there are, by name: of one call. None of a database that is not there."""
        with _told(f"Glue, {schema}.{names[0]}"):
            try:
                pages = self._client.get_paginator("get_tables").paginate(
                    DatabaseName=schema, Expression="|".join(names)
                )
                found = {table["Name"]: table for page in pages for table in page["TableList"]}
            except self._client.exceptions.EntityNotFoundException:
                return {}
        return {name: found[name] for name in names if name in found}

    def create_table(self, schema: str, given: Input) -> None:
        """Makes a table."""
        with _told(f"Glue, {schema}.{given['Name']}"):
            self._client.create_table(DatabaseName=schema, TableInput=given)

    def update_table(self, schema: str, given: Input) -> None:
        """Replaces what is said of a table. Glue keeps no version of what it said before."""
        with _told(f"Glue, {schema}.{given['Name']}"):
            self._client.update_table(DatabaseName=schema, TableInput=given, SkipArchive=True)

    def delete_tables(self, schema: str, names: Sequence[str]) -> None:
        """Removes those of some tables that there are."""
        with _told(f"Glue, {schema}.{names[0]}"):
            try:
                answer = self._client.batch_delete_table(DatabaseName=schema, TablesToDelete=list(names))
            except self._client.exceptions.EntityNotFoundException:
                return
            _require_none(answer.get("Errors", ()), "EntityNotFoundException")

    def partitions(self, schema: str, name: str) -> set[tuple[str, ...]]:
        """The values of each partition of a table."""
        with _told(f"Glue, {schema}.{name}"):
            pages = self._client.get_paginator("get_partitions").paginate(
                DatabaseName=schema, TableName=name, ExcludeColumnSchema=True
            )
            return {tuple(partition["Values"]) for page in pages for partition in page["Partitions"]}

    def create_partitions(self, schema: str, name: str, given: Sequence[Input]) -> None:
        """Makes partitions of a table, but for those that there are."""
        with _told(f"Glue, partitions of {schema}.{name}"):
            for begin in range(0, len(given), _PARTITIONS_A_CALL):
                answer = self._client.batch_create_partition(
                    DatabaseName=schema, TableName=name, PartitionInputList=given[begin : begin + _PARTITIONS_A_CALL]
                )
                _require_none(answer.get("Errors", ()), "AlreadyExistsException")


@lru_cache(maxsize=4)
def _client(region: str | None, endpoint: str | None) -> Any:
    """The client of a region and endpoint: made once, it keeps its connections."""
    boto3, config = boto3_for_lake()
    settings = config.Config(
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        connect_timeout=5,
        read_timeout=60,
        max_pool_connections=32,
    )
    # A session of its own: the one that boto3 shares must not be used by several threads at once.
    return boto3.session.Session().client("glue", region_name=region, endpoint_url=endpoint, config=settings)


class _PartialError(Exception):
    """A call was answered, and part of what it asked for was refused."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def _require_none(errors: Sequence[Input], but: str) -> None:
    for error in errors:
        detail = error.get("ErrorDetail", {})
        if detail.get("ErrorCode") != but:
            raise _PartialError(str(detail.get("ErrorCode")), str(detail.get("ErrorMessage")))


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Errors of boto3 as the project's own."""
    try:
        import botocore.exceptions as boto  # noqa: PLC0415 - comes with an extra
    except ModuleNotFoundError:
        yield  # the client's own error says so
        return
    try:
        yield
    except _PartialError as error:
        raise _refusal(error.code, str(error), where) from error
    except boto.ClientError as error:
        answer = error.response.get("Error", {})
        raise _refusal(str(answer.get("Code")), str(answer.get("Message")), where) from error
    except (boto.NoCredentialsError, boto.PartialCredentialsError, boto.TokenRetrievalError, boto.ProfileNotFound,
            boto.NoRegionError, boto.CredentialRetrievalError) as error:  # fmt: skip
        raise WriteError(
            str(error),
            where=where,
            expected="credentials and a region, as every tool of AWS finds them",
            action=f"set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_REGION; {_HEALS}",
        ) from error
    except boto.BotoCoreError as error:
        raise UnavailableError(
            f"Glue does not answer: {error}",
            where=where,
            action=f"see whether Glue's endpoint of the region can be reached from here; {_HEALS}",
        ) from error


def _refusal(code: str, message: str, where: str) -> LakeError:
    shown = f"{code}: {message}"
    if any(part in code for part in _LATER):
        return UnavailableError(
            f"Glue does not serve this now, after {_ATTEMPTS} attempts: {shown}",
            where=where,
            action=f"see who else calls Glue in this account, or ask for a larger quota; {_HEALS}",
        )
    if any(part in code for part in _REFUSED):
        return WriteError(
            f"Glue refuses access: {shown}",
            where=where,
            expected=_RIGHTS,
            action=f"check which credentials are found, and the rights of their role (Lake Formation's too); {_HEALS}",
        )
    return WriteError(f"Glue refuses it: {shown}", where=where, action=f"correct what the message names; {_HEALS}")
