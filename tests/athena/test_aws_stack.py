"""The stacks of deploy/aws, made by moto: what is there, and what each role may do.

moto's CloudFormation makes buckets and IAM, and passes over the rest: tests/project/test_aws_templates.py looks at it.
Requests to S3 are refused by the roles' policies as on AWS. For Glue and Athena moto does not say which resource a
request is for: there the policies themselves are asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.server import ThreadedMotoServer

pytestmark = pytest.mark.athena
TEMPLATES = Path(__file__).resolve().parents[2] / "deploy" / "aws"
REGION, ACCOUNT = "us-east-1", "123456789012"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555"
# A request to S3 without what moto does not verify as S3 does.
PLAIN = Config(request_checksum_calculation="when_required", s3={"addressing_style": "path"})


class Account:
    """An account of AWS, as moto has it."""

    def __init__(self, address: str) -> None:
        self.address = address

    def client(self, service: Any, keys: dict[str, Any] | None = None) -> Any:
        """A client of a service: of the account's owner, or with the keys of a role."""
        told = keys or {"AccessKeyId": "owner", "SecretAccessKey": "owner", "SessionToken": None}
        session = boto3.session.Session(
            told["AccessKeyId"], told["SecretAccessKey"], told["SessionToken"], region_name=REGION
        )
        return session.client(service, endpoint_url=self.address, config=PLAIN)

    def make(self, name: str, *, stack: str = "lakehouse", **parameters: str) -> None:
        """Makes the stack of a template."""
        cloudformation = self.client("cloudformation")
        cloudformation.create_stack(
            StackName=f"{stack}-{name}", TemplateBody=(TEMPLATES / f"{name}.yml").read_text(encoding="utf-8"),
            Capabilities=["CAPABILITY_NAMED_IAM"],
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        )  # fmt: skip
        (made,) = cloudformation.describe_stacks(StackName=f"{stack}-{name}")["Stacks"]
        assert made["StackStatus"] == "CREATE_COMPLETE"

    def refuse(self, after: str) -> None:
        """Asks policies of each request, after so many; `inf` is never."""
        httpx.post(f"{self.address}/moto-api/reset-auth", content=after).raise_for_status()

    def policies(self, role: str) -> list[IAMPolicy]:
        """The policies that a role has."""
        iam = self.client("iam")
        attached = iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
        versions = [iam.get_policy_version(PolicyArn=each["PolicyArn"], VersionId="v1") for each in attached]
        return [IAMPolicy(json.dumps(each["PolicyVersion"]["Document"])) for each in versions]


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    """An account with the stacks."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    made = Account(f"http://127.0.0.1:{port}")
    for name in ("storage", "catalog", "access"):
        made.make(name)
    yield made
    server.stop()


def test_the_buckets_are_there_and_encrypted(account: Account) -> None:
    s3 = account.client("s3")
    names = {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
    assert {f"lakehouse-{ACCOUNT}-{each}" for each in ("bronze", "silver", "marts", "results")} <= names
    for name in names:
        (rule,) = s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]["Rules"]
        assert rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] in ("AES256", "aws:kms")


def test_with_a_key_buckets_and_roles_use_it(account: Account) -> None:
    account.make("storage", stack="keyed", Prefix="keyed", KeyArn=KEY, BronzeDays="30")
    account.make("access", stack="keyed", Prefix="keyed", KeyArn=KEY, Storage="keyed-storage")
    encryption = account.client("s3").get_bucket_encryption(Bucket=f"keyed-{ACCOUNT}-silver")
    (rule,) = encryption["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
    for role in ("ingest", "dbt", "readers"):
        assert is_allowed(account.policies(f"keyed-{role}"), "kms:Decrypt", KEY)
        assert not is_allowed(account.policies(f"lakehouse-{role}"), "kms:Decrypt", KEY)


@pytest.fixture(scope="module")
def refusing(account: Account, policies: dict[str, list[IAMPolicy]]) -> Iterator[dict[str, Any]]:
    """S3 as each role sees it, by its name. From here on requests are refused as on AWS."""
    s3, sts = account.client("s3"), account.client("sts")
    for each in ("bronze", "silver", "marts", "results"):
        bucket = f"lakehouse-{ACCOUNT}-{each}"
        for key in ("a", "lakehouse_sales/a", "lakehouse_staging/a", "readers/a", "dbt/a"):
            s3.put_object(Bucket=bucket, Key=key, Body=b"row")
    keys = {
        role: sts.assume_role(RoleArn=f"arn:aws:iam::{ACCOUNT}:role/lakehouse-{role}", RoleSessionName="test")
        for role in ("ingest", "dbt", "readers")
    }
    account.refuse("0")
    yield {role: account.client("s3", told["Credentials"]) for role, told in keys.items()}
    account.refuse("inf")


def works(s3: Any, what: str, bucket: str, key: str) -> bool:
    """Whether a request is answered, and not refused."""
    place = {"Bucket": f"lakehouse-{ACCOUNT}-{bucket}", "Key": key}
    calls = {
        "get": lambda: s3.get_object(**place),
        "put": lambda: s3.put_object(**place, Body=b"new"),
        "delete": lambda: s3.delete_object(**place),
        "list": lambda: s3.list_objects_v2(Bucket=place["Bucket"]),
        "abort": lambda: s3.abort_multipart_upload(**place, UploadId="none"),
    }
    try:
        calls[what]()
    except ClientError as error:
        if error.response["Error"]["Code"] == "AccessDenied":
            return False
        assert error.response["Error"]["Code"] in ("NoSuchUpload", "NoSuchKey"), error
    return True


@pytest.mark.parametrize(("role", "bucket", "key", "allowed"), [
    ("ingest", "bronze", "a", "get list"),
    ("ingest", "silver", "a", "get put delete list abort"),
    ("ingest", "marts", "a", ""),
    ("ingest", "results", "a", ""),
    ("dbt", "bronze", "a", ""),
    ("dbt", "silver", "a", "get list"),
    ("dbt", "marts", "lakehouse_sales/a", "get put delete list abort"),
    ("dbt", "results", "dbt/a", "get put delete list abort"),
    ("dbt", "results", "readers/a", "list"),
    ("readers", "bronze", "a", ""),
    ("readers", "silver", "a", ""),
    ("readers", "marts", "lakehouse_sales/a", "get list"),
    ("readers", "marts", "lakehouse_staging/a", "list"),
    ("readers", "results", "readers/a", "get put list abort"),
    ("readers", "results", "dbt/a", "list"),
])  # fmt: skip
def test_a_role_may_do_what_it_needs_on_s3(
    refusing: dict[str, Any], role: str, bucket: str, key: str, allowed: str
) -> None:
    asked = ("get", "put", "list", "abort", "delete")
    assert {what for what in asked if works(refusing[role], what, bucket, key)} == set(allowed.split())


@pytest.fixture(scope="module")
def policies(account: Account) -> dict[str, list[IAMPolicy]]:
    """The policies of each role, asked for while no request is refused."""
    return {role: account.policies(f"lakehouse-{role}") for role in ("ingest", "dbt", "readers")}


def is_allowed(policies: list[IAMPolicy], action: str, resource: str) -> bool:
    """Whether policies allow an action on a resource."""
    answers = [policy.is_action_permitted(action, resource) for policy in policies]
    return PermissionResult.PERMITTED in answers and PermissionResult.DENIED not in answers


GLUE, ATHENA = f"arn:aws:glue:{REGION}:{ACCOUNT}:", f"arn:aws:athena:{REGION}:{ACCOUNT}:workgroup/"
SALE, FACT, VIEW = "table/silver_tickit/sale", "table/lakehouse_sales/fct_sales", "table/lakehouse_staging/stg_sales"
PULL, OTHERS = "database/lakehouse__pr_42_sales", "table/payroll/salaries"


@pytest.mark.parametrize(("role", "action", "resource", "allowed"), [
    ("ingest", "glue:UpdateTable", GLUE + SALE, True),
    ("ingest", "glue:BatchCreatePartition", GLUE + SALE, True),
    ("ingest", "glue:UpdateTable", GLUE + FACT, False),
    ("ingest", "glue:CreateDatabase", GLUE + "database/silver_new", False),
    ("ingest", "glue:DeleteDatabase", GLUE + "database/silver_tickit", False),
    ("ingest", "athena:StartQueryExecution", ATHENA + "lakehouse-dbt", False),
    ("dbt", "glue:GetTable", GLUE + SALE, True),
    ("dbt", "glue:UpdateTable", GLUE + SALE, False),
    ("dbt", "glue:UpdateTable", GLUE + FACT, True),
    ("dbt", "glue:DeleteTable", GLUE + FACT, True),
    ("dbt", "glue:GetTable", GLUE + OTHERS, False),
    ("dbt", "glue:CreateDatabase", GLUE + PULL, True),
    ("dbt", "glue:DeleteDatabase", GLUE + PULL, True),
    ("dbt", "glue:DeleteDatabase", GLUE + "database/lakehouse_sales", False),
    ("dbt", "athena:StartQueryExecution", ATHENA + "lakehouse-dbt", True),
    ("dbt", "athena:StartQueryExecution", ATHENA + "lakehouse-readers", False),
    ("dbt", "athena:UpdateWorkGroup", ATHENA + "lakehouse-dbt", False),
    ("readers", "glue:GetTable", GLUE + FACT, True),
    ("readers", "glue:GetTable", GLUE + VIEW, False),
    ("readers", "glue:GetTable", GLUE + SALE, False),
    ("readers", "glue:UpdateTable", GLUE + FACT, False),
    ("readers", "athena:StartQueryExecution", ATHENA + "lakehouse-readers", True),
    ("readers", "athena:StartQueryExecution", ATHENA + "primary", False),
])  # fmt: skip
def test_a_role_may_do_what_it_needs_on_glue_and_athena(
    policies: dict[str, list[IAMPolicy]], role: str, action: str, resource: str, allowed: bool
) -> None:
    assert is_allowed(policies[role], action, resource) is allowed
