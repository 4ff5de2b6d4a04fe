"""A stand-in for S3, Glue and STS in this process: moto's server behind a door that counts what comes in, and breaks it
where it is told to.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote
from xml.sax.saxutils import escape

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from dev.chain.settings import HOST

_Wsgi = dict[str, Any]
_Start = Callable[..., Any]


@dataclass(frozen=True)
class Request:
    """A request, as it came in.

    Attributes
    ----------
    service:
        s3, or glue, sts and others.
    action:
        Of S3: GET, PUT, HEAD, DELETE, LIST, or POST (deletes of many, parts of an upload). Of others: the API's name.
    path:
        Of S3: bucket and key.
    """

    service: str
    action: str
    path: str

    @classmethod
    def of(cls, wsgi: Mapping[str, Any]) -> Request:
        """The request of a WSGI environment."""
        target = str(wsgi.get("HTTP_X_AMZ_TARGET") or "")
        path, query = unquote(str(wsgi["PATH_INFO"])), str(wsgi.get("QUERY_STRING") or "")
        if target:
            return cls(target.partition(".")[0].removeprefix("AWS").lower(), target.rpartition(".")[2], path)
        method = str(wsgi["REQUEST_METHOD"])
        is_list = method == "GET" and ("list-type=" in query or "prefix=" in query)
        prefix = next((unquote(each[7:]) for each in query.split("&") if each.startswith("prefix=")), "")
        return cls("s3", "LIST" if is_list else method, f"{path.rstrip('/')}/{prefix}" if is_list else path)


@dataclass(frozen=True)
class Fault:
    """An answer in place of the service's own.

    Attributes
    ----------
    is_done:
        Whether the service did what it was asked for before the answer was lost.
    """

    status: int
    code: str
    message: str = "injected"
    is_done: bool = False

    def answer(self, request: Request) -> tuple[str, list[tuple[str, str]], bytes]:
        """Status line, headers and body, as the service writes its errors."""
        status = f"{self.status} {self.code}"
        if request.service == "s3":
            text = f"<Error><Code>{escape(self.code)}</Code><Message>{escape(self.message)}</Message></Error>"
            body = b"" if request.action == "HEAD" else text.encode()
            return status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))], body
        body = f'{{"__type": "{self.code}", "message": "{self.message}"}}'.encode()
        return status, [("Content-Type", "application/x-amz-json-1.1"), ("Content-Length", str(len(body)))], body


Breaking = Callable[[Request], Fault | None]


@dataclass
class StandIn:
    """The stand-in: its address, what it was asked, and how it is broken.

    Attributes
    ----------
    breaks:
        Which fault a request meets; None where it meets none.
    """

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    breaks: Breaking | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def seen(self, request: Request) -> Fault | None:
        """Notes a request; the fault that it meets."""
        with self._lock:
            self.requests.append(request)
            return self.breaks(request) if self.breaks else None

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """What the block asks for, by service and action: filled when the block ends."""
        counts: Counter[str] = Counter()
        begin = len(self.requests)
        yield counts
        counts.update(f"{request.service} {request.action}" for request in self.requests[begin:])

    @contextmanager
    def broken(self, breaks: Breaking) -> Iterator[None]:
        """Requests of the block meet faults."""
        self.breaks = breaks
        try:
            yield
        finally:
            self.breaks = None


def _door(stand_in: StandIn, application: Any) -> Any:
    def answered(wsgi: _Wsgi, start: _Start) -> Iterable[bytes]:
        request = Request.of(wsgi)
        fault = stand_in.seen(request)
        if fault is None:
            return application(wsgi, start)  # type: ignore[no-any-return]
        if fault.is_done:
            for _ in application(wsgi, lambda *_: None):
                pass
        elif length := int(wsgi.get("CONTENT_LENGTH") or 0):
            wsgi["wsgi.input"].read(length)  # or the next request of the connection begins with it
        status, headers, body = fault.answer(request)
        start(status, headers)
        return [body]

    return answered


@contextmanager
def served(port: int = 0) -> Iterator[StandIn]:
    """The stand-in on loopback, for as long as the block runs. A free port is chosen where none is given."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    stand_in = StandIn()
    application = _door(stand_in, DomainDispatcherApplication(create_backend_app))
    server = make_server(HOST, port, application, threaded=True, request_handler=MotoRequestHandler)
    stand_in.url = f"http://{HOST}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        thread.join()
