"""A schema registry as a real server on loopback, for tests."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import yaml
from conftest import DbtProject

CCOMPAT = "/apis/ccompat/v7"


class Answer(NamedTuple):
    """A status, a body (a text as it is, other things as JSON) and headers."""

    status: int
    body: Any
    headers: Mapping[str, str] = {}


@dataclass
class Served:
    """A registry that answers on loopback: what it holds by id or path, and what was asked of it.

    Attributes
    ----------
    url:
        Of Confluent's API; it is at `CCOMPAT` below it as well, where the registry is Apicurio's.
    schemas:
        By content id, or by path (`/subjects/<subject>/versions/<version>`), as Confluent's API answers with them.
    global_ids:
        The content id of each global id, where the registry is Apicurio's.
    versions:
        The versions of Apicurio's own API that it has.
    """

    url: str
    schemas: Mapping[str, Mapping[str, Any]]
    global_ids: Mapping[str, str] = field(default_factory=dict)
    versions: Sequence[str] = ()
    status: int | None = None
    failures: int = 0
    password: str | None = None
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str, authorization: str | None) -> Answer:
        self.asked.append(path)
        expected = f"lake:{self.password}".encode()
        if self.password and authorization != f"Basic {base64.b64encode(expected).decode()}":
            return Answer(401, {"error_code": 401, "message": "Unauthorized"})
        if self.failures > 0:
            self.failures -= 1
            return Answer(503, "busy")
        if self.status:
            return Answer(self.status, "no registry's answer")
        of_api = re.fullmatch(r"/apis/registry/(v\d)(/[^?]*)[?]?(.*)", path)
        if of_api:
            version, place, options = of_api.groups()
            return self._of_apicurio(version, place, options)
        place = path.removeprefix(CCOMPAT)
        by_id = re.fullmatch(r"/schemas/ids/(\d+)", place)
        # Confluent's ids are `int`, those of Apicurio `long`.
        is_too_large = by_id and int(by_id[1]) >= 2 ** (63 if self.versions else 31)
        if is_too_large or not re.match("/(schemas|subjects)/", place):
            return Answer(404, {"error_code": 404, "message": "HTTP 404 Not Found"})
        found = self.schemas.get(place.removeprefix("/schemas/ids/"))
        return Answer(200, found) if found else Answer(404, {"error_code": 40403, "message": "Schema not found"})

    def _of_apicurio(self, version: str, place: str, options: str) -> Answer:
        """As Apicurio 3.3.3 answers in both versions of its own API; Apicurio 2 has the second alone."""
        if not self.versions:
            return Answer(404, {"error_code": 404, "message": "HTTP 404 Not Found"})
        content = "/content" if version == "v3" else ""
        by_id = re.fullmatch(r"/ids/globalIds/(\d+)(/references)?", place)
        by_name = re.fullmatch(rf"/groups/default/artifacts(/[^/]+/versions/[^/]+)({content}|/references)", place)
        asked = by_id or by_name
        if version not in self.versions or not asked or (by_id and int(by_id[1]) >= 2**63):
            return _lacks(version, "NotFoundException")
        found = self.schemas.get(self.global_ids.get(asked[1], "") if by_id else f"/subjects{asked[1]}")
        if found is None:
            return _lacks(version, "VersionNotFoundException")
        if asked[2] == "/references":
            return Answer(200, [_as_apicurio_refers(reference) for reference in found.get("references", ())])
        kind = found.get("schemaType", "AVRO")
        headers = {"X-Registry-ArtifactType": kind} if version == "v3" and "returnArtifactType=true" in options else {}
        return Answer(200, found["schema"], headers)


def _lacks(version: str, name: str) -> Answer:
    error = {"status": 404, "title": name} if version == "v3" else {"error_code": 404, "message": name}
    return Answer(404, {**error, "name": name})


def _as_apicurio_refers(reference: Mapping[str, Any]) -> dict[str, str]:
    """A reference without its group, as Apicurio tells of those in the group `default`."""
    told = {"artifactId": reference["subject"], "version": reference["version"], "name": reference["name"]}
    return {key: str(value) for key, value in told.items()}


@contextmanager
def serve(schemas: Mapping[str, Mapping[str, Any]], **behaviour: Any) -> Iterator[Served]:
    """A registry as a real server, for as long as the block runs; Apicurio's where `global_ids` are given.

    It has the versions 3 and 2 of Apicurio's own API then, or those that `versions` names.
    """
    if "global_ids" in behaviour:
        behaviour.setdefault("versions", ("v3", "v2"))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body, headers = served.answer(self.path, self.headers["Authorization"])
            content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            for name, value in headers.items():
                self.send_header(name, value)
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
