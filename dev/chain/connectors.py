"""The connectors of deploy/connectors, given to Kafka Connect as they are."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from dev.chain.processes import wait_until
from dev.chain.servers import Connect
from dev.chain.settings import ROOT
from examples import DatabaseExample
from ingest.errors import LakeError

FOLDER = ROOT / "deploy" / "connectors"
_TIMEOUT_S = 60


@dataclass(frozen=True)
class Connector:
    """A connector as its file describes it."""

    name: str
    config: dict[str, str]

    @classmethod
    def read(cls, file: Path) -> Connector:
        """The connector of a file, which must bear its name."""
        told = json.loads(file.read_text(encoding="utf-8"))
        if told["name"] != file.stem:
            raise LakeError(f"the connector is named {told['name']}", where=str(file), expected=file.stem)
        return cls(told["name"], told["config"])


def connectors(example: DatabaseExample, *, with_json: bool) -> list[Connector]:
    """An example system's connectors, and on demand those that write JSON envelopes beside them."""
    names = sorted(name for name in example.connectors if with_json or "-json-" not in name)
    return [Connector.read(FOLDER / f"{name}.json") for name in names]


def deploy(connect: Connect, wanted: Sequence[Connector]) -> list[str]:
    """Sees to it that connectors run as their files say; what was done, a line each.

    What has failed is started again; what runs as it should is left alone.

    Raises
    ------
    LakeError
        Connect refuses a connector, or one has failed, with the reason.
    """
    done = []
    for connector in wanted:
        kept = _ask(connect, "GET", f"/connectors/{connector.name}/config", missing=True)
        if kept is None or kept != {**connector.config, "name": connector.name}:
            _ask(connect, "PUT", f"/connectors/{connector.name}/config", connector.config)
            done.append(f"{connector.name} {'made' if kept is None else 'changed'}")
        elif _failure(connect, connector):
            _ask(connect, "POST", f"/connectors/{connector.name}/restart?includeTasks=true&onlyFailed=true")
            done.append(f"{connector.name} started again")
        else:
            done.append(f"{connector.name} was there")
    for connector in wanted:
        wait_until(
            partial(_runs, connect, connector),
            f"connector {connector.name} does not run",
            server=connect,
            gone=partial(_failure, connect, connector),
        )
    return done


def _status(connect: Connect, connector: Connector) -> dict[str, Any]:
    return _ask(connect, "GET", f"/connectors/{connector.name}/status", missing=True) or {}


def _runs(connect: Connect, connector: Connector) -> bool:
    status = _status(connect, connector)
    states = [part["state"] for part in (status.get("connector"), *status.get("tasks", [])) if part]
    return len(states) > 1 and set(states) == {"RUNNING"}


def _failure(connect: Connect, connector: Connector) -> str | None:
    status = _status(connect, connector)
    for part in (status.get("connector"), *status.get("tasks", [])):
        if part and part["state"] == "FAILED":
            lines = [line.strip() for line in part.get("trace", "").splitlines() if not line.startswith("\t")]
            return f"connector {connector.name} has failed: {' / '.join(lines)}"
    return None


def _ask(connect: Connect, method: str, path: str, body: object = None, *, missing: bool = False) -> Any:
    """Connect's answer; None where it has nothing to say, or where `missing` is allowed and nothing is there.

    A worker that takes its connectors over says that a rebalance is expected, and is asked again.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    answer = httpx.request(method, connect.address + path, json=body, timeout=_TIMEOUT_S)
    while answer.status_code in (409, 500) and "rebalance" in answer.text and time.monotonic() < deadline:
        time.sleep(0.2)
        answer = httpx.request(method, connect.address + path, json=body, timeout=_TIMEOUT_S)
    if missing and answer.status_code == 404:
        return None
    if answer.is_error:
        raise LakeError(
            f"{method} {path} is answered with {answer.status_code}: {answer.text[:600]}",
            where=f"Kafka Connect at {connect.address}",
            action="mend the file in deploy/connectors; `make logs` shows more",
        )
    return answer.json() if answer.content else None
