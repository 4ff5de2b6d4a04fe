"""Where events come from and databases are: the connections of `connections.yml`, typed, their secrets masked."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

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
# Of Kafka's settings, those that lake sets, or that Spark's Kafka source does for itself and refuses (its guide).
_OWN_SETTINGS = {
    *("bootstrap.servers", "isolation.level", "group.id", "enable.auto.commit", "auto.offset.reset"),
    *("key.deserializer", "value.deserializer", "interceptor.classes"),
}
# What Spark and Kafka Connect put before the names of Kafka's settings. The clients pass over such names.
_PREFIX = re.compile(r"(spark[.])?(kafka|consumer|producer|admin)[.]")
# Of Kafka's settings, those that Kafka itself takes for passwords (its documentation: settings of type password).
_SECRET_SETTING = re.compile(
    r"(^|[.])(sasl[.]jaas[.]config|password|passphrase|client[.]secret|ssl[.]keystore[.](key|certificate[.]chain))$"
)
# A secret amid others: an option of a login module, as `sasl.jaas.config` has them.
_SECRET_OPTION = re.compile(r"(password|secret|passphrase)\w*\s*=\s*[\"']?[^\"'\s;]", re.IGNORECASE)


def of_one_folder(name: str) -> str:
    """A folder or a topic by its name. Of a pattern Spark reads several folders, and files have no place below one."""
    if re.search(r"[*?{}\[\]]", name):
        raise ValueError(f"'{name}' is a pattern: expected a name without any of *?{{}}[]")
    return name


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
    def _one_address(cls, url: str) -> str:
        if re.search(r"//[^/]*@", url):
            raise ValueError("username and password have keys of their own")
        if not _is_one_address(url):
            raise ValueError("expected one http://host:port/path or https://host/path")
        return url

    @property
    def auth(self) -> tuple[str, str] | None:
        """User and password for HTTP, the password readable: not to be shown. None where anybody may ask."""
        password = self.password.get_secret_value() if self.password else ""
        return (self.username, password) if self.username else None

    @model_validator(mode="after")
    def _of_the_ids(self) -> RegistryConnection:
        # Asked there for a place of Confluent's API, Apicurio 2 answers as Confluent's does of an unknown id.
        if self.id_option == "contentId" and re.search(r"/apis/registry/v\d+/?$", self.url):
            raise ValueError(
                "registry.url is that of Apicurio's own API, and content ids are asked for from Confluent's: "
                "expected /apis/ccompat/v7 at its end, or `use_id: globalId`"
            )
        return self


def _is_one_address(url: str) -> bool:
    """Whether it leads to one server by HTTP. Clients of Kafka take several registries, with commas between."""
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_server and not re.search(r"[,?#\s]", url)


class EventConnection(BaseModel):
    """Where events come from: what every such connection holds, whatever its type. Each type's own model extends it.

    Attributes
    ----------
    type:
        Which source it is of (`ingest.sources`).
    hash_salt:
        What the hashes of `policy: hash` are made with (see `ingest.schema.masking`).
    has_topics:
        Whether a table's events may lie in several topics, which `topic_pattern` names.
    numbers_records_anew:
        Whether what a database's own stream says of a record's place is not handed on.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    has_topics: ClassVar[bool] = False
    numbers_records_anew: ClassVar[bool] = False

    type: str
    registry: RegistryConnection | None = None
    hash_salt: SecretStr | None = None


class FilesConnection(EventConnection):
    """Change events as files: `<path>/<topic>/**`, as Kafka Connect's object-store sinks write them.

    Attributes
    ----------
    batch_bytes:
        No more files of a table than have this size together are landed by one commit, or one file.
    """

    type: Literal["files"]
    path: str
    batch_bytes: ByteSize = Field(default=_BATCH_BYTES, ge=1)

    @field_validator("path")
    @classmethod
    def _of_one_folder(cls, path: str) -> str:
        return of_one_folder(path)

    def folder_of(self, topic: str) -> str:
        """Where the files of a topic are."""
        return f"{self.path.rstrip('/')}/{topic}"


class KafkaConnection(EventConnection):
    """Change events as records of Kafka, read in bounded ranges from the position that silver was committed with.

    Attributes
    ----------
    options:
        Settings of Kafka's clients, passed through: `security.protocol`, `sasl.*`, `ssl.*` and others.
    batch_records, batch_bytes:
        No more records of a table than this are landed by one commit, and no more than have about this size together.
    """

    has_topics = True

    type: Literal["kafka"]
    bootstrap_servers: str = Field(min_length=1)
    options: Mapping[str, SecretStr] = Field(default_factory=dict)
    batch_records: int = Field(default=500_000, ge=1)
    batch_bytes: ByteSize = Field(default=_BATCH_BYTES, ge=1)

    @field_validator("options", mode="before")
    @classmethod
    def _as_texts(cls, options: Any) -> Any:
        """Numbers and booleans, as YAML reads them, in the words of Kafka's settings."""
        if not isinstance(options, dict):
            return options
        return {name: json.dumps(it) if isinstance(it, bool | int | float) else it for name, it in options.items()}

    @field_validator("options")
    @classmethod
    def _of_others(cls, options: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
        if ours := _OWN_SETTINGS & options.keys():
            raise ValueError(f"options holds {', '.join(sorted(ours))}, which lake sets")
        if prefixed := sorted(name for name in options if _PREFIX.match(name)):
            own = ", ".join(_PREFIX.sub("", name, count=1) for name in prefixed)
            raise ValueError(f"options holds {', '.join(prefixed)}: expected the names of Kafka's clients, {own}")
        return options

    @property
    def settings(self) -> dict[str, str]:
        """What Kafka's clients are given, secrets among it: not to be shown."""
        given = {name: value.get_secret_value() for name, value in self.options.items()}
        # A consumer that asks for a topic that is gone would have the broker make it anew.
        own = {"isolation.level": "read_committed", "allow.auto.create.topics": "false"}
        return {"bootstrap.servers": self.bootstrap_servers, **given, **own}


class KinesisConnection(EventConnection):
    """Change events as records of Kinesis Data Streams; a table's topic is the name of its stream.

    Credentials are found as every tool of AWS finds them: in the environment, in a profile, from the machine's role.

    Attributes
    ----------
    region:
        The streams' region; where there is none, that of the environment or of the profile.
    endpoint_url:
        Another endpoint than AWS's own, such as a stand-in's. Empty is none.
    batch_records, batch_bytes:
        No more records of a table than this are landed by one commit, and no more than have about this size together:
        the driver holds them.
    """

    numbers_records_anew: ClassVar[bool] = True

    type: Literal["kinesis"]
    region: str | None = Field(default=None, min_length=1)
    endpoint_url: str | None = None
    batch_records: int = Field(default=500_000, ge=1)
    batch_bytes: ByteSize = Field(default=ByteSize(64 * 1024 * 1024), ge=1)

    @field_validator("endpoint_url")
    @classmethod
    def _of_http(cls, url: str | None) -> str | None:
        if url and not re.match(r"https?://[^/@]+/?$", url):
            raise ValueError("expected http://host:port or https://host, without user or password")
        return url or None

    @property
    def where(self) -> str:
        """Where the streams are, in words."""
        return self.endpoint_url or f"Kinesis in {self.region or 'the region of the environment'}"


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


Connection = EventConnection | JdbcConnection
_MODELS: Mapping[str, type[Connection]] = {
    "files": FilesConnection,
    "kafka": KafkaConnection,
    "kinesis": KinesisConnection,
    "jdbc": JdbcConnection,
}
# The group of entry points by which another distribution brings a source. Each is named as the type of its connections.
_GROUP = "lake.sources"


def read_connections(path: Path, renderer: Renderer) -> dict[str, Connection]:
    """The connections of a `connections.yml`, by name, with their templates rendered.

    Raises
    ------
    DeclarationError
        One says what cannot be meant, or has a secret written into the file.
    """
    connections: dict[str, Connection] = {}
    for name, raw in ((str(key), raw) for key, raw in read_yaml(path).items()):
        where = f"{path}: {name}"
        kind = raw.get("type") if isinstance(raw, dict) else None
        model = _model(str(kind), where) if isinstance(raw, dict) else FilesConnection
        for key in _written_secrets(raw, {*_SECRET_KEYS, *_secrets_of(model)}):
            raise DeclarationError(
                f"{key} is written into the file", where=where, expected=f"{key}: \"{{{{ env_var('...') }}}}\""
            )
        try:
            connections[name] = TypeAdapter(model).validate_python(renderer.render(raw, where=where))
        except ValidationError as error:
            # Without its cause, whose text has what the file's templates became.
            raise declaration_error(error, where=where, written=raw) from None
    return connections


def installed_source(kind: str) -> Any:
    """The class that another distribution brings for a type of connections; None where none does.

    Raises
    ------
    DeclarationError
        The distribution is broken, or its entry point names no source.
    """
    found = next(iter(entry_points(group=_GROUP, name=kind)), None)
    if found is None:
        return None
    try:
        source = found.load()
    except (ImportError, AttributeError) as error:
        raise DeclarationError(
            f"the source '{kind}' cannot be loaded: {error}",
            where=f"entry point {_GROUP}: {found.value}",
            expected="a class of that name",
            action="correct or reinstall the distribution that it belongs to",
        ) from error
    model = getattr(source, "model", None)
    if not (isinstance(model, type) and issubclass(model, EventConnection)):
        raise DeclarationError(
            f"the source '{kind}' has no model of its connections",
            where=f"entry point {_GROUP}: {found.value}",
            expected="a subclass of ingest.sources.base.Source, whose `model` extends EventConnection",
        )
    return source


def _model(kind: str, where: str) -> type[Connection]:
    """What connections of a type hold."""
    if kind in _MODELS:
        return _MODELS[kind]
    source = installed_source(kind)
    if source is None:
        known = [*_MODELS, *sorted(entry_points(group=_GROUP).names - _MODELS.keys())]
        raise DeclarationError(f"is of type '{kind}'", where=where, expected=f"one of: {', '.join(known)}")
    model: type[EventConnection] = source.model
    return model


def _secrets_of(model: type[Connection]) -> set[str]:
    """The keys of a model that are secrets by their type."""
    return {key for key, field in model.model_fields.items() if field.annotation in (SecretStr, SecretStr | None)}


def _written_secrets(raw: Any, secrets: Collection[str]) -> Iterator[str]:
    """The secrets of a connection that stand in the file."""
    for key, value in raw.items() if isinstance(raw, dict) else ():
        if (key in secrets or _SECRET_SETTING.search(str(key))) and not _is_of_environment(str(value)):
            yield key
        yield from _written_secrets(value, secrets)


def _is_of_environment(text: str) -> bool:
    """Whether a secret comes from the environment, and none stands beside what does."""
    return "env_var(" in text and not _SECRET_OPTION.search(re.sub(r"(?s){{.*?}}", "", text))
