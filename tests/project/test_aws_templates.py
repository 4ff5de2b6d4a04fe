"""The templates of deploy/aws beside the project that they are for, and beside the page that argues each right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cfnlint.decode import decode

REPOSITORY = Path(__file__).resolve().parents[2]
TEMPLATES = REPOSITORY / "deploy" / "aws"
PAGE = REPOSITORY / "docs" / "operate" / "aws.md"
BUCKETS = ("Bronze", "Silver", "Marts", "Results")
ROLES = {"Ingest": "ingest", "Dbt": "dbt", "Readers": "readers"}


def resources(name: str, kind: str = "") -> dict[str, Any]:
    """The properties of a template's resources, all or those of a type, by their logical id."""
    template, wrong = decode(str(TEMPLATES / f"{name}.yml"))
    assert not wrong
    found = template["Resources"].items()
    return {key: told["Properties"] for key, told in found if told["Type"] == kind or not kind}


def rules_of(bucket: str) -> dict[str, Any]:
    """The rules of a bucket's lifecycle, by their id; those of a condition as if it held."""
    rules = resources("storage", "AWS::S3::Bucket")[f"{bucket}Bucket"]["LifecycleConfiguration"]["Rules"]
    told = [rule["Fn::If"][1] if "Fn::If" in rule else rule for rule in rules]
    return {rule["Id"]: rule for rule in told}


@pytest.mark.parametrize("name", BUCKETS)
def test_a_bucket_is_encrypted_private_and_kept(name: str) -> None:
    bucket = resources("storage")[f"{name}Bucket"]
    encryption = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"][0]["ServerSideEncryptionByDefault"]
    assert encryption["SSEAlgorithm"] == {"Fn::If": ["HasKey", "aws:kms", "AES256"]}
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert bucket["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    assert "VersioningConfiguration" not in bucket
    template, _ = decode(str(TEMPLATES / "storage.yml"))
    whole = template["Resources"][f"{name}Bucket"]
    assert (whole["DeletionPolicy"], whole["UpdateReplacePolicy"]) == ("Retain", "Retain")


@pytest.mark.parametrize("name", BUCKETS)
def test_a_bucket_takes_encrypted_connections_only(name: str) -> None:
    policy = resources("storage")[f"{name}Policy"]
    assert policy["Bucket"] == {"Ref": f"{name}Bucket"}
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "s3:*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert statement["Resource"] == [{"Fn::GetAtt": [f"{name}Bucket", "Arn"]}, {"Fn::Sub": f"${{{name}Bucket.Arn}}/*"}]


@pytest.mark.parametrize("name", BUCKETS)
def test_abandoned_uploads_are_removed(name: str) -> None:
    rule = rules_of(name)["abandoned-uploads"]
    assert rule["Status"] == "Enabled"
    assert rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] <= 7
    assert "Prefix" not in rule


def test_only_answers_of_readers_and_old_events_expire() -> None:
    ends = {name: [rule for rule in rules_of(name).values() if "ExpirationInDays" in rule] for name in BUCKETS}
    assert not ends["Silver"] and not ends["Marts"]
    assert [rule["Prefix"] for rule in ends["Results"]] == ["readers/"]
    assert [rule["Id"] for rule in ends["Bronze"]] == ["landed-long-ago"]


def declared_schemas() -> Iterator[str]:
    """The schemas of the project's sources, and those that dbt adds to its target's: `_<schema>`."""
    for file in (REPOSITORY / "models" / "staging").glob("*/_*__sources.yml"):
        for source in yaml.safe_load(re.sub(r"\{\{.*?\}\}", "x", file.read_text(encoding="utf-8")))["sources"]:
            yield source["schema"]
    for schema in re.findall(r"\+schema: (\w+)", (REPOSITORY / "dbt_project.yml").read_text(encoding="utf-8")):
        yield f"_{schema}"


def test_glue_has_a_database_for_each_source_and_area() -> None:
    databases = resources("catalog", "AWS::Glue::Database").values()
    names = [database["DatabaseInput"]["Name"] for database in databases]
    made = [name if isinstance(name, str) else name["Fn::Sub"].removeprefix("${Schema}") for name in names]
    assert sorted(made) == sorted(declared_schemas())


def test_a_database_of_silver_lies_where_ingest_writes() -> None:
    for database in resources("catalog", "AWS::Glue::Database").values():
        told = database["DatabaseInput"]
        if isinstance(told["Name"], str):
            place, of = told["LocationUri"]["Fn::Sub"]
            assert place == f"s3://${{Bucket}}/{told['Name']}.db"
            assert of == {"Bucket": {"Fn::ImportValue": {"Fn::Sub": "${Storage}-silver"}}}


@pytest.mark.parametrize("name", ["Readers", "Dbt"])
def test_a_workgroup_decides_where_results_lie_and_how_much_is_scanned(name: str) -> None:
    settings = resources("catalog")[f"{name}Workgroup"]["WorkGroupConfiguration"]
    assert settings["EnforceWorkGroupConfiguration"] is True
    place, of = settings["ResultConfiguration"]["OutputLocation"]["Fn::Sub"]
    assert place == f"s3://${{Bucket}}/{name.lower()}/"
    assert of == {"Bucket": {"Fn::ImportValue": {"Fn::Sub": "${Storage}-results"}}}
    assert settings["EngineVersion"] == {"SelectedEngineVersion": "Athena engine version 3"}
    limit = settings["BytesScannedCutoffPerQuery"]["Ref"]
    template, _ = decode(str(TEMPLATES / "catalog.yml"))
    assert 10**7 <= template["Parameters"][limit]["Default"] <= 10**12


def statements(role: str) -> list[Mapping[str, Any]]:
    """The statements of a role's policies."""
    policies = resources("access", "AWS::IAM::ManagedPolicy")
    told: list[Mapping[str, Any]] = [
        *policies[f"{role}Policy"]["PolicyDocument"]["Statement"],
        *policies["KeyPolicy"]["PolicyDocument"]["Statement"],
    ]
    return told


def listed(told: Any) -> list[Any]:
    """One or many, as a list."""
    return list(told) if isinstance(told, list) else [told]


@pytest.mark.parametrize("role", ROLES)
def test_a_right_is_for_named_actions_on_named_resources(role: str) -> None:
    for statement in statements(role):
        assert statement["Effect"] == "Allow"
        assert not [action for action in listed(statement["Action"]) if "*" in action], statement["Sid"]
        assert "*" not in listed(statement["Resource"]), statement["Sid"]


@pytest.mark.parametrize("role", ROLES)
def test_each_action_is_argued(role: str) -> None:
    section = PAGE.read_text(encoding="utf-8").partition(f"### {ROLES[role]}\n")[2].partition("\n##")[0]
    argued = {
        f"{service}:{action.strip()}"
        for service, actions in re.findall(r"^\| `(\w+):([\w, ]+)` \|", section, re.MULTILINE)
        for action in actions.split(",")
    }
    given = {action for statement in statements(role) for action in listed(statement["Action"])}
    assert argued == given


def test_readers_see_the_areas_of_marts_and_no_others() -> None:
    settings = yaml.safe_load(re.sub(r'"\{\{.*?\}\}"', "x", (REPOSITORY / "dbt_project.yml").read_text("utf-8")))
    marts = settings["models"]["lakehouse"]["marts"].values()
    areas = {f"${{Schema}}_{area['+schema']}" for area in marts if isinstance(area, dict) and "+schema" in area}
    by_name = {statement["Sid"]: listed(statement["Resource"]) for statement in statements("Readers")}
    tables = [each["Fn::Sub"].rpartition(":")[2] for each in by_name["SeeMarts"]]
    assert {name.split("/")[1] for name in tables if name != "catalog"} == areas
    assert {each["Fn::Sub"][0].split("/")[1] for each in by_name["ReadMarts"]} == areas


def test_ingest_has_the_rights_of_the_calls_that_it_makes_of_glue() -> None:
    client = (REPOSITORY / "ingest" / "silver" / "catalog" / "glue_client.py").read_text(encoding="utf-8")
    called = {name for pair in re.findall(r'_client\.(?:get_paginator\("(\w+)"|(\w+)\()', client) for name in pair}
    wanted = {f"glue:{name.title().replace('_', '')}" for name in called - {""}}
    given = {action for statement in statements("Ingest") for action in listed(statement["Action"])}
    # The databases are the stack's.
    assert wanted - {"glue:CreateDatabase"} == {action for action in given if action.startswith("glue:")}
