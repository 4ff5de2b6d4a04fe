"""How a continuous run is doing, in the text form that Prometheus reads, over HTTP on this machine alone.

Source: Prometheus' documentation, "Exposition formats", version 0.0.4.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ingest.errors import SetupError
from ingest.landing.continuous import Progress

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def served(port: int, progress: Callable[[], Mapping[str, Progress]]) -> Iterator[int]:
    """Answers `GET /metrics` for as long as the block runs; the port, which is chosen where 0 is asked for.

    Raises
    ------
    SetupError
        The port is in use.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            content = as_text(progress()).encode() if found else b"see /metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", _TYPE)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """A line for each scrape would hide what matters."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise SetupError(
            f"port {port} cannot be listened on: {error.strerror}",
            where="--metrics-port",
            action="stop what listens there, or choose another port",
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def as_text(progress: Mapping[str, Progress]) -> str:
    """The metrics of some tables."""
    lines: list[str] = []

    def metric(name: str, kind: str, described: str, samples: Iterator[tuple[dict[str, str], float]]) -> None:
        lines.extend((f"# HELP {name} {described}", f"# TYPE {name} {kind}"))
        for labels, value in samples:
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"{name}{{{shown}}} {value:.17g}")

    every = list(progress.values())

    def of(item: Progress) -> dict[str, str]:
        return {"source": item.table.source, "table": item.table.name}

    metric(
        "lake_events_total", "counter", "Events of this process, by what became of them.",
        (({**of(item), "outcome": outcome}, number) for item in every
         for outcome, number in asdict(item.totals).items() if outcome != "read"),
    )  # fmt: skip
    metric("lake_batches_total", "counter", "Commits of this process.", ((of(item), item.batches) for item in every))
    metric(
        "lake_batch_seconds", "gauge", "How long the last batch took, from looking to being visible.",
        ((of(item), item.last.seconds) for item in every if item.last),
    )  # fmt: skip
    metric(
        "lake_waiting_events", "gauge", "Events that wait for the rest of their transaction.",
        ((of(item), item.last.waiting) for item in every if item.last),
    )  # fmt: skip
    metric(
        "lake_unread_input", "gauge", "Records, or files, that the last batch has left to the next ones.",
        ((of(item), item.last.unread) for item in every if item.last),
    )  # fmt: skip
    metric(
        "lake_behind_seconds", "gauge", "How far the last batch is behind the newest of a source that tells it.",
        ((of(item), behind / 1000) for item in every if item.last and (behind := item.last.behind_ms) is not None),
    )  # fmt: skip
    metric(
        "lake_last_commit_timestamp_seconds", "gauge", "When the last batch was visible; 0 before the first.",
        ((of(item), item.committed_at) for item in every),
    )  # fmt: skip
    metric(
        "lake_table_landing", "gauge", "1 while a batch is at work; 0 while the table waits, or has stopped.",
        ((of(item), int(item.state == "landing")) for item in every),
    )  # fmt: skip
    metric(
        "lake_table_up", "gauge",
        "1 where the table is well; 0 where it has failed, is retrying, is unwell or could not be compacted.",
        ((of(item), 0 if item.error else 1) for item in every),
    )  # fmt: skip
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
