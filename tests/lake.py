"""A lake of a test's own, worked with as users do: by commands, in processes of their own."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from conftest import REPOSITORY

_WITHIN_S = 300


@dataclass
class Lake:
    """The environment of the commands, and the news of the one that runs."""

    environment: Mapping[str, str]
    _news: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)
    _batches: dict[str, int] = field(default_factory=dict)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of `lake`, to its end."""
        return self.command(sys.executable, "-m", "ingest", *arguments)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Any command, to its end."""
        return subprocess.run(
            words, capture_output=True, text=True, check=False, cwd=REPOSITORY, env=self._variables, timeout=600
        )

    @contextmanager
    def running(self, *arguments: str, until_landed: Iterable[str] = ()) -> Iterator[subprocess.Popen[str]]:
        """A command that lands continuously with --json; the block runs once these tables have landed, or any news."""
        command = [sys.executable, "-m", "ingest", *arguments, "--json"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env=self._variables
        ) as process:
            assert process.stdout is not None
            self._news, self._batches = queue.Queue(), {}
            reader = threading.Thread(target=self._read, args=(process.stdout, self._news), daemon=True)
            reader.start()
            try:
                if until_landed:
                    self.wait_for(*until_landed)
                else:
                    self._news.get(timeout=_WITHIN_S)
                yield process
            finally:
                process.kill()
                process.wait()
                reader.join()

    def wait_for(self, *tables: str) -> None:
        """Until there is news of a batch of each table that there was no news of before."""
        known, missing, deadline = dict(self._batches), set(tables), time.monotonic() + _WITHIN_S
        while missing:
            news = self._news.get(timeout=max(0.1, deadline - time.monotonic()))
            self._batches[news["table"]] = news["batches"]
            missing -= {news["table"]} if news["batches"] > known.get(news["table"], 0) else set()

    @property
    def _variables(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    @staticmethod
    def _read(lines: Iterable[str], news: queue.Queue[dict[str, Any]]) -> None:
        for line in lines:
            news.put(json.loads(line))
