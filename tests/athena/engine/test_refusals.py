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
