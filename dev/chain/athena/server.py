"""The local Athena as a server of the chain: HTTP around its API."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError

from dev.chain.athena.api import Api, ApiError
from dev.chain.aws import client_of
from dev.chain.processes import Server
from dev.chain.settings import HOST, ROOT


class Athena(Server):
    """The server, over Trino and the stand-in for AWS at their addresses."""

    name = "athena"
    port_variable = "LAKE_ATHENA_PORT"

    def __init__(self, folder: Path, port: int, trino: str, aws: str) -> None:
        super().__init__(folder, port)
        self._trino = trino
        self._aws = aws

    @property
    def address(self) -> str:
        """What a client finds in AWS_ENDPOINT_URL_ATHENA."""
        return f"http://{super().address}"

    def prepare(self) -> None:
        """Nothing: it holds nothing on disk."""

    def command(self) -> Sequence[str | Path]:
        """The server, by this interpreter."""
        return [sys.executable, "-m", "dev.chain.athena.server", "--port", str(self.port), "--trino", self._trino,
                "--aws", self._aws]  # fmt: skip

    def environment(self) -> dict[str, str]:
        """Where its module is."""
        return {"PYTHONPATH": str(ROOT)}

    def is_ready(self) -> bool:
        """Whether it knows its workgroups; that queries pass is Trino's to say."""
        try:
            client_of(self.address, "athena").get_work_group(WorkGroup="primary")
        except (BotoCoreError, ClientError):
            return False
        return True


def serving(port: int, api: Api) -> ThreadingHTTPServer:
    """A server of an API on loopback, not yet at work."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Or each answer waits for the client's acknowledgement of its head.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            action = str(self.headers.get("X-Amz-Target", "")).rpartition(".")[2]
            signed = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization", ""))
            try:
                self._answer(200, api.call(action, body, signed[1] if signed else ""))
            except ApiError as error:
                self._answer(400, {"__type": error.code, "Message": str(error), "message": str(error)})

        def _answer(self, status: int, told: dict[str, Any]) -> None:
            text = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *words: Any) -> None:
            """Nothing: dbt asks ten times a second."""

    server = ThreadingHTTPServer((HOST, port), Handler)
    server.daemon_threads = True
    return server


def serve(
    port: Annotated[int, typer.Option(help="The port on loopback.")],
    trino: Annotated[str, typer.Option(help="Trino's address.")],
    aws: Annotated[str, typer.Option(help="The address of the stand-in for S3 and Glue.")],
) -> None:
    """Serves until the process is stopped."""
    serving(port, Api(trino, aws)).serve_forever()


if __name__ == "__main__":
    typer.run(serve)
