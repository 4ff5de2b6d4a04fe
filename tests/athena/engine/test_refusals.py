"""What dbt says where Athena, S3 or Glue refuses it, and that the next run heals."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from athena.engine.building import AthenaModels, invoked
from athena.engine.local import LocalAthena
from dev.chain.athena.api import Api, ApiError
from dev.chain.athena.server import serving
from dev.chain.aws import LAKE_BUCKET, client_of

pytestmark = pytest.mark.athena
WRONG = {
    "a workgroup without results": ({"LAKE_ATHENA_WORKGROUP": "without_output"}, "No output location provided"),
    "an unknown workgroup": ({"LAKE_ATHENA_WORKGROUP": "unknown"}, "WorkGroup unknown is not found"),
    "no bucket for tables": ({"LAKE_ATHENA_DATA": "s3://nowhere/marts"}, "The specified bucket does not exist"),
    "wrong credentials": ({"AWS_ACCESS_KEY_ID": "another"}, "The security token included in the request is invalid"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_refusal_is_told_and_the_next_run_heals(
    models: AthenaModels, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """In the words of AWS, by which the page of dbt on Athena says what to do."""
    environment, expected = WRONG[wrong]
    models.write("items", "select 1 as id", unique_key="id")
    with monkeypatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        done = invoked(models.root, "run")
        told = str(done.exception or [each.message for each in done.result.results])
    assert not done.success
    assert expected in told
    models.run()
    assert models.rows("items") == [["1"]]


@pytest.mark.parametrize(
    ("materialized", "config"),
    [
        ("incremental", {}),
        *(
            pytest.param(materialized, config, marks=pytest.mark.slow)
            for materialized, config in (
                ("table", {}),
                ("view", {}),
                ("incremental", {"incremental_strategy": "append"}),
                ("table", {"table_type": "hive"}),
            )
        ),
    ],
)
def test_somebody_else_s_table_is_left_as_it_is(
    models: AthenaModels, athena: LocalAthena, materialized: str, config: dict[str, str]
) -> None:
    """A table of CSV in another place had a model's name: its files were deleted. One of dbt's own makes room, once the
    select has been looked at."""
    s3, place = client_of(athena.aws, "s3"), f"theirs/{models.schema}/items/"
    s3.put_object(Bucket=LAKE_BUCKET, Key=f"{place}data.csv", Body=b"1\n2\n")
    athena.ask(
        f"create external table `{models.schema}`.`items` (id string) "
        f"row format serde 'org.apache.hadoop.hive.serde2.OpenCSVSerde' location 's3://{LAKE_BUCKET}/{place}'"
    )
    models.write("items", "select 7 as id", unique_key="id", materialized=materialized, **config)
    models.write("own", "select 7 as id", materialized="table", table_type="hive")
    for more in ([], ["--full-refresh"]):
        told = models.refusal("items", *more)
        assert f"there is a table of that name already, which is at s3://{LAKE_BUCKET}/{place}" in told
    assert s3.list_objects_v2(Bucket=LAKE_BUCKET, Prefix=place)["KeyCount"] == 1
    assert models.rows("items") == [["1"], ["2"]]
    models.run("--select", "own")
    if config:
        return
    models.write("own", "select nothing as id", unique_key="id", materialized=materialized)
    assert "COLUMN_NOT_FOUND" in models.refusal("own")
    assert models.rows("own") == [["7"]]
    models.write("own", "select 8 as id", unique_key="id", materialized=materialized)
    models.run("--select", "own")
    assert models.rows("own") == [["8"]]


@pytest.mark.parametrize(
    "config", [{"s3_data_naming": "schema_table"}, {"external_location": f"s3://{LAKE_BUCKET}/place/items"}]
)
@pytest.mark.parametrize("materialized", ["incremental", pytest.param("table", marks=pytest.mark.slow)])
def test_a_rebuild_has_a_folder_of_its_own(models: AthenaModels, materialized: str, config: dict[str, str]) -> None:
    """One that all builds share was emptied, and with it the table that is there."""
    models.write("items", "select 1 as id", materialized=materialized, unique_key="id")
    models.run()
    models.write("items", "select 1 as id, 2 as n", materialized=materialized, unique_key="id", **config)
    (name,) = config
    assert f"model.tested.items: got {name} = '{config[name]}', expected" in models.refusal("items", "--full-refresh")
    assert models.rows("items") == [["1"]]


class ThrottledApi(Api):
    """Refuses the first calls of each kind that dbt makes for a query."""

    def __init__(self, trino: str, aws: str, times: int) -> None:
        super().__init__(trino, aws)
        self.left = dict.fromkeys(("StartQueryExecution", "GetQueryExecution", "GetQueryResults"), times)

    def call(self, action: str, body: Mapping[str, Any], name: str) -> dict[str, Any]:
        if self.left.get(action, 0) > 0:
            self.left[action] -= 1
            raise ApiError("ThrottlingException", "Rate exceeded")
        return super().call(action, body, name)


@contextmanager
def throttled(athena: LocalAthena, times: int) -> Iterator[tuple[ThrottledApi, str]]:
    """An Athena beside the other one, over the same Trino, and its address."""
    api = ThrottledApi(athena.trino, athena.aws, times)
    server = serving(0, api)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield api, "http://{}:{}".format(*server.server_address[:2])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_throttled_calls_are_made_again(
    models: AthenaModels, athena: LocalAthena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind of call."""
    models.write("items", "select 1 as id", unique_key="id")
    with throttled(athena, 2) as (api, address):
        monkeypatch.setenv("AWS_ENDPOINT_URL_ATHENA", address)
        models.run()
    assert set(api.left.values()) == {0}
    assert models.rows("items") == [["1"]]
