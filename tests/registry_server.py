"""A schema registry as a real server on loopback, for tests."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml
from conftest import DbtProject


@dataclass
class Served:
    """A registry that answers on loopback: what it holds by id or path, and what was asked of it."""

    url: str
    schemas: Mapping[str, Mapping[str, Any]]
    status: int | None = None
    failures: int = 0
    password: str | None = None
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str, authorization: str | None) -> tuple[int, Any]:
        self.asked.append(path)
        expected = f"lake:{self.password}".encode()
        if self.password and authorization != f"Basic {base64.b64encode(expected).decode()}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.failures > 0:
            self.failures -= 1
            return 503, "busy"
        if self.status:
            return self.status, "no registry's answer"
        found = self.schemas.get(path.removeprefix("/schemas/ids/"))
        return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})


@contextmanager
def serve(schemas: Mapping[str, Mapping[str, Any]], **behaviour: Any) -> Iterator[Served]:
    """A registry as a real server, for as long as the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = served.answer(self.path, self.headers["Authorization"])
            content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Says nothing: what was asked stands in `asked`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Served(f"http://127.0.0.1:{server.server_port}", schemas, **behaviour)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def use_registry(project: DbtProject, url: str, **options: Any) -> None:
    """Declares the registry of the project's connection."""
    connection = {"type": "files", "path": str(project.bronze), "registry": {"url": url, **options}}
    (project.root / "connections.yml").write_text(yaml.safe_dump({"files": connection}), encoding="utf-8")
