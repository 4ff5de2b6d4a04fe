"""A chain of the tests' own, as `make up` starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import inf
from typing import Any

import psutil
from conftest import REPOSITORY, DbtProject
from continuously import wait_until

from dev.chain.databases import Databases
from dev.chain.processes import running
from dev.chain.servers import Chain
from dev.chain.topics import Topics
from examples import databases

SCALE, SEED, ROW_CHANGES = 0.002, 7, 2_000
MakeKafka = Callable[..., DbtProject]


@dataclass(frozen=True)
class Live:
    """A chain of the tests' own."""

    environment: dict[str, str]
    chain: Chain

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """One of the chain's commands, as `make` runs it."""
        command = [sys.executable, "-m", "dev.chain", *arguments]
        variables = {**os.environ, **self.environment, **environment}
        return subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, check=False, env=variables, timeout=600
        )

    def well(self, *arguments: str) -> str:
        """What a command says that must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @cached_property
    def topics(self) -> Topics:
        return Topics(self.chain.kafka, self.chain.registry)

    @property
    def databases(self) -> Databases:
        return self.databases_of("tickit")

    def databases_of(self, system: str) -> Databases:
        """An example system's databases."""
        return Databases(self.chain.settings, self.chain.postgresql, self.chain.mariadb, databases(system))

    def processes(self) -> dict[str, psutil.Process | None]:
        """The process of each server."""
        return {server.name: running(server) for server in self.chain.servers}

    def events(self, prefix: str, expected: Mapping[str, int]) -> dict[str, list[Any]]:
        """The decoded values of the tables' topics, by the table's name, once each topic has so many records."""
        ends: dict[str, int] = {}

        def are_there() -> bool:
            ends.update(self.topics.ends())
            return all(ends.get(f"{prefix}.{table}", -inf) >= records for table, records in expected.items())

        wait_until(are_there, f"{expected} records")
        values: dict[str, list[Any]] = {table: [] for table in expected}
        with self.topics.reading(f"{prefix}[.](ems|crm|ecomm)[.].*") as coming:
            for record in islice(coming, sum(ends[f"{prefix}.{table}"] for table in expected)):
                value = self.topics.decode(record.value)
                source = value.get("source") or {name.removeprefix("__"): value[name] for name in value}
                values[f"{source.get('schema') or source['db']}.{source['table']}"].append(value)
        return values
