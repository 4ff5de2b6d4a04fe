"""A stand-in for Amazon's S3, Glue and STS: moto's server, which holds everything in memory."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import boto3
import typer
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dev.chain.processes import Server
from dev.chain.settings import ROOT

REGION = "us-east-1"
# The name and the key that every client of the stand-ins has: S3, Glue and STS let everybody in, Athena only this one.
NAME, KEY = "lake", "lake-on-this-machine"
# What is made when the stand-ins start: the lake, and where Athena writes the rows of its queries.
LAKE_BUCKET, RESULTS_BUCKET = "lakehouse", "lakehouse-results"


class Aws(Server):
    """moto's server. What it holds is gone once it is stopped."""

    name = "aws"
    port_variable = "LAKE_AWS_PORT"

    @property
    def address(self) -> str:
        """What a client has as `endpoint_url`, or finds in AWS_ENDPOINT_URL."""
        return f"http://{super().address}"

    def prepare(self) -> None:
        """Nothing: it holds nothing on disk."""

    def command(self) -> Sequence[str | Path]:
        """The server, by this interpreter."""
        return [sys.executable, "-m", "dev.chain.aws", "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        """Where its module is."""
        return {"PYTHONPATH": str(ROOT)}

    def is_ready(self) -> bool:
        """Whether it lists its buckets."""
        try:
            client_of(self.address, "s3").list_buckets()
        except (BotoCoreError, ClientError):
            return False
        return True


def client_of(address: str, service: str) -> Any:
    """A client of the stand-in for a service (`s3`, `glue`, `sts`), or of the local Athena (`athena`)."""
    config = Config(
        connect_timeout=2, read_timeout=60, retries={"total_max_attempts": 1}, s3={"addressing_style": "path"},
        max_pool_connections=32,
    )  # fmt: skip
    session: Any = boto3.session.Session(aws_access_key_id=NAME, aws_secret_access_key=KEY)
    return session.client(service, region_name=REGION, endpoint_url=address, config=config)


def environment_of(aws: str, athena: str) -> dict[str, str]:
    """What a client of Amazon's finds in its environment, so that it asks the stand-ins."""
    return {
        "AWS_ENDPOINT_URL": aws,
        "AWS_ENDPOINT_URL_ATHENA": athena,
        "AWS_ACCESS_KEY_ID": NAME,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        # Or who finds no other credentials asks a machine of Amazon's, which does not answer.
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def make_buckets(address: str) -> list[str]:
    """Makes the buckets of the lake and of Athena's results, where they are not there; their names."""
    s3 = client_of(address, "s3")
    for bucket in (LAKE_BUCKET, RESULTS_BUCKET):
        s3.create_bucket(Bucket=bucket)
    return [LAKE_BUCKET, RESULTS_BUCKET]


def serve(port: Annotated[int, typer.Option(help="The port on loopback.")]) -> None:
    """Serves until the process is stopped."""
    from dev.chain.moto_s3 import served  # noqa: PLC0415 - takes half a second, and only this process needs it

    _answer_for_statistics()
    with served(port):
        threading.Event().wait()


def _answer_for_statistics() -> None:
    """moto has no calls for the statistics of columns, which Trino makes when a table changes: there are none."""
    from moto.core.responses import ActionResult  # noqa: PLC0415
    from moto.glue.responses import GlueResponse  # noqa: PLC0415

    for of in ("table", "partition"):
        for action in ("get", "update", "delete"):
            answer: dict[str, list[str]] = {} if action == "delete" else {"Errors": []}
            answer |= {"ColumnStatisticsList": []} if action == "get" else {}
            name = f"{action}_column_statistics_for_{of}"
            setattr(GlueResponse, name, lambda self, answer=answer: ActionResult(answer))


if __name__ == "__main__":
    typer.run(serve)
