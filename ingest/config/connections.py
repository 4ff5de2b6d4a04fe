"""Where events come from and databases are: the connections of `connections.yml`, typed, their secrets masked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from ingest.config.rendering import Renderer, declaration_error, read_yaml
from ingest.errors import DeclarationError

# Apicurio's two ids of a schema: of what was registered, and of the version of an artifact that was registered with it.
IdOption = Literal["contentId", "globalId"]
# What one commit lands by default: its sorts and joins stay within the memory of a small session.
_BATCH_BYTES = ByteSize(512 * 1024 * 1024)
# Keys of a connection that may only come from the environment.
_SECRET_KEYS = ("password", "hash_salt")
# Of Kafka's settings, those that Kafka itself takes for passwords (its documentation: settings of type password).
_SECRET_SETTING = re.compile(r"^sasl[.]jaas[.]config$|[.]password$|^ssl[.](keystore[.]key|keystore[.]certificate)")


class RegistryConnection(BaseModel):
    """The schema registry of a connection. The password stands in no text of it.

    Attributes
    ----------
    id_bytes:
        How many bytes of a value are its schema's id; 8 where Apicurio's own serializers write them.
    use_id:
        Which ids they are, in the words of those serializers' setting `apicurio.registry.use-id`. Not given: content
        ids in 4 bytes, global ids in 8, as the serializers of Apicurio 2 write them by default.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    id_bytes: Literal[4, 8] = 4
    use_id: IdOption | None = None
    username: str | None = None
    password: SecretStr | None = None

    @property
    def id_option(self) -> IdOption:
        """Which ids the values have: as declared, else by their width."""
        return self.use_id or ("contentId" if self.id_bytes == 4 else "globalId")

    @field_validator("url")
    @classmethod
    def _without_secret(cls, url: str) -> str:
        if not re.match(r"https?://", url):
            raise ValueError("expected http://... or https://...")
        if re.search(r"//[^/]*@", url):
            raise ValueError("username and password have keys of their own")
        return url

    @model_validator(mode="after")
    def _of_the_ids(self) -> RegistryConnection:
        # Asked there for a place of Confluent's API, Apicurio 2 answers as Confluent's does of an unknown id.
        if self.id_option == "contentId" and re.search(r"/apis/registry/v\d+/?$", self.url):
            raise ValueError(
                "registry.url is that of Apicurio's own API, and content ids are asked for from Confluent's: "
                "expected /apis/ccompat/v7 at its end, or `use_id: globalId`"
            )
        return self


class FilesConnection(BaseModel):
    """Change events as files: `<path>/<topic>/**`, as Kafka Connect's object-store sinks write them.

    Attributes
    ----------
    batch_bytes:
        No more files of a table than have this size together are landed by one commit, or one file.
    hash_salt:
        What the hashes of `policy: hash` are made with (see `ingest.schema.masking`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["files"]
    path: str
    batch_bytes: ByteSize = Field(default=_BATCH_BYTES, ge=1)
    registry: RegistryConnection | None = None
    hash_salt: SecretStr | None = None


class KafkaConnection(BaseModel):
    """Change events as records of Kafka, read in bounded ranges from the position that silver was committed with.

    Attributes
    ----------
    options:
        Settings of Kafka's clients, passed through: `security.protocol`, `sasl.*`, `ssl.*` and others.
    batch_records, batch_bytes:
        No more records of a table than this are landed by one commit, and no more than have about this size together.
    hash_salt:
        See `FilesConnection`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["kafka"]
    bootstrap_servers: str = Field(min_length=1)
    options: Mapping[str, SecretStr] = Field(default_factory=dict)
    batch_records: int = Field(default=500_000, ge=1)
    batch_bytes: ByteSize = Field(default=_BATCH_BYTES, ge=1)
    registry: RegistryConnection | None = None
    hash_salt: SecretStr | None = None

    @field_validator("options")
    @classmethod
    def _of_others(cls, options: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
        if ours := {"bootstrap.servers", "isolation.level", "group.id", "enable.auto.commit"} & options.keys():
            raise ValueError(f"options holds {', '.join(sorted(ours))}, which lake sets")
        return options

    @property
    def settings(self) -> dict[str, str]:
        """What Kafka's clients are given, secrets among it: not to be shown."""
        given = {name: value.get_secret_value() for name, value in self.options.items()}
        return {"bootstrap.servers": self.bootstrap_servers, "isolation.level": "read_committed", **given}


EventConnection = FilesConnection | KafkaConnection


class JdbcConnection(BaseModel):
    """A database that silver is compared with. The password stands in no text of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["jdbc"]
    url: str
    user: str
    password: SecretStr

    @field_validator("url")
    @classmethod
    def _without_secret(cls, url: str) -> str:
        if not re.match(r"jdbc:(postgresql|mariadb)://", url):
            raise ValueError("expected jdbc:postgresql://... or jdbc:mariadb://...")
        if re.search(r"password|[?&;]user=|//[^/?]*@", url, re.IGNORECASE):
            raise ValueError("user and password have keys of their own")
        return url

    @property
    def dialect(self) -> str:
        """The database's name in the URL: postgresql or mariadb."""
        return self.url.split(":")[1]


Connection = FilesConnection | KafkaConnection | JdbcConnection
_MODELS: Mapping[str, type[Connection]] = {"files": FilesConnection, "kafka": KafkaConnection, "jdbc": JdbcConnection}


def read_connections(path: Path, renderer: Renderer) -> dict[str, Connection]:
    connections: dict[str, Connection] = {}
    for name, raw in read_yaml(path).items():
        where = f"{path}: {name}"
        kind = raw.get("type") if isinstance(raw, dict) else None
        if isinstance(raw, dict) and kind not in _MODELS:
            raise DeclarationError(f"is of type '{kind}'", where=where, expected=f"one of: {', '.join(_MODELS)}")
        model = _MODELS.get(str(kind), FilesConnection)
        for key in _written_secrets(raw):
            raise DeclarationError(
                f"{key} is written into the file", where=where, expected=f"{key}: \"{{{{ env_var('...') }}}}\""
            )
        try:
            connections[name] = TypeAdapter(model).validate_python(renderer.render(raw, where=where))
        except ValidationError as error:
            # Without its cause, whose text has what the file's templates became.
            raise declaration_error(error, where=where, written=raw) from None
    return connections


def _written_secrets(raw: Any) -> Iterator[str]:
    """The secrets of a connection that stand in the file."""
    for key, value in raw.items() if isinstance(raw, dict) else ():
        if (key in _SECRET_KEYS or _SECRET_SETTING.search(str(key))) and "env_var(" not in str(value):
            yield key
        yield from _written_secrets(value)
