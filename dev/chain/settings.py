"""Where the chain keeps its state, the ports it listens on, and its passwords."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ingest.errors import SetupError

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
# Not the servers' usual ports: those may be taken by servers of the machine's own.
PORTS: Mapping[str, int] = {
    "LAKE_POSTGRESQL_PORT": 15432,
    "LAKE_MARIADB_PORT": 13306,
    "LAKE_KAFKA_PORT": 19092,
    "LAKE_KAFKA_CONTROLLER_PORT": 19093,
    "LAKE_REGISTRY_PORT": 18080,
    "LAKE_CONNECT_PORT": 18083,
    "LAKE_KINESIS_PORT": 15000,
    "LAKE_AWS_PORT": 15001,
    "LAKE_TRINO_PORT": 15002,
    "LAKE_ATHENA_PORT": 15003,
}
# Of the databases' owner (`lake`), and of the user that Debezium logs in as (`debezium`).
PASSWORDS = (
    "LAKE_POSTGRESQL_PASSWORD",
    "LAKE_MARIADB_PASSWORD",
    "LAKE_POSTGRESQL_DEBEZIUM_PASSWORD",
    "LAKE_MARIADB_DEBEZIUM_PASSWORD",
)


@dataclass(frozen=True)
class Settings:
    """What one chain is: everything below `home`, on `ports`."""

    home: Path
    ports: Mapping[str, int] = field(default_factory=lambda: dict(PORTS))

    @classmethod
    def of_environment(cls) -> Settings:
        """`LAKE_HOME/servers`, and the ports of the environment where it names any.

        Raises
        ------
        SetupError
            A port that is none, or two servers on one port.
        """
        ports = {name: _port(name, default) for name, default in PORTS.items()}
        for name, port in ports.items():
            if other := [twin for twin in ports if twin < name and ports[twin] == port]:
                raise SetupError(f"{name} and {other[0]} are both {port}", where="the environment",
                                 action="give each server a port of its own")  # fmt: skip
        return cls(Path(os.environ.get("LAKE_HOME") or ROOT / ".lake").resolve() / "servers", ports)

    @property
    def secrets_file(self) -> Path:
        """A line `NAME='value'` for each password, for a shell to source; readable by its owner alone."""
        return self.home / "secrets.env"

    @cached_property
    def passwords(self) -> Mapping[str, str]:
        """The chain's passwords: as kept; else of the environment; else made now. What is new is kept.

        Raises
        ------
        SetupError
            The environment has another password than the servers were made with.
        """
        kept = read_passwords(self.secrets_file)
        for name in PASSWORDS:
            given = os.environ.get(name)
            if given and not re.fullmatch(r"[!#-&(-\[\]-~]+", given):
                raise SetupError(f"{name} holds what SQL or a shell would read otherwise", where="the environment",
                                 expected="printable ASCII without spaces, quotes and backslashes")  # fmt: skip
            if given and kept.setdefault(name, given) != given:
                raise SetupError(
                    f"{name} is not the one that the servers were made with",
                    where="the environment",
                    expected=f"the one in {self.secrets_file}, or none",
                    action=f"unset {name}; or remove {self.home} to begin anew",
                )
            kept.setdefault(name, secrets.token_urlsafe(24))
        if kept != read_passwords(self.secrets_file):
            write_private(self.secrets_file, "".join(f"{name}='{value}'\n" for name, value in kept.items()))
        return kept

    @property
    def variables(self) -> Mapping[str, str]:
        """What deploy/connectors/*.json take from the environment of Kafka Connect."""
        return {
            "LAKE_POSTGRESQL_HOST": HOST,
            "LAKE_MARIADB_HOST": HOST,
            "LAKE_KAFKA_BOOTSTRAP": f"{HOST}:{self.ports['LAKE_KAFKA_PORT']}",
            "LAKE_REGISTRY_URL": f"http://{HOST}:{self.ports['LAKE_REGISTRY_PORT']}",
            **{name: str(port) for name, port in self.ports.items()},
            **{name: value for name, value in self.passwords.items() if "DEBEZIUM" in name},
        }


def read_passwords(file: Path) -> dict[str, str]:
    """The passwords that a file holds; none where there is no such file."""
    if not file.exists():
        return {}
    lines = file.read_text(encoding="utf-8").splitlines()
    return {name: value.strip("'") for name, found, value in (line.partition("=") for line in lines) if found}


def write_private(file: Path, text: str) -> None:
    """Writes a file that is never readable by others, and never half there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)
    new.replace(file)


def _port(name: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    if not text.isdigit() or not 1024 <= int(text) <= 65535:
        raise SetupError(f"{name} is '{text}'", where="the environment", expected="a port, 1024 to 65535")
    return int(text)
