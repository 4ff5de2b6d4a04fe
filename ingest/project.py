"""The dbt project that `lake` works on: where it is, how its YAML is rendered, which target and connections it uses.

`lake` looks for things where dbt looks for them, so that one pair of options (`--project-dir`, `--profiles-dir`)
means the same to both. Nothing in here knows any particular source.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import yaml
from jinja2 import StrictUndefined
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
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

from ingest.errors import DeclarationError

Yaml = dict[str, Any]
# Apicurio's two ids of a schema: of what was registered, and of the version of an artifact that was registered with it.
IdOption = Literal["contentId", "globalId"]
# What one commit lands by default: its sorts and joins stay within the memory of a small session.
_BATCH_BYTES = ByteSize(512 * 1024 * 1024)
_SECRET = re.compile(r"pass|pwd|secret|token|credential|salt|access.?key|//[^/]*@", re.IGNORECASE)
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
        What the hashes of `policy: hash` are made with (see `ingest.policies`).
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


class Renderer:
    """Renders the Jinja in YAML values the way dbt does, with `env_var`, `var` and `target`, in a sandbox.

    Declarations are data: the sandbox has no access to files, modules or attributes that could run code.
    """

    def __init__(self, variables: Mapping[str, Any], target: Mapping[str, Any] | None = None) -> None:
        self._variables = variables
        self._from_environment: set[str] = set()
        self._jinja = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
        # dbt's names of types: what reads a value here gives it its type.
        self._jinja.filters |= dict.fromkeys(("as_text", "as_bool", "as_number", "as_native"), str)
        self._jinja.globals = {"env_var": self._env_var, "var": self._var, "target": dict(target or {})}

    def render(self, value: Any, *, where: str) -> Any:
        """The same structure with every text rendered.

        Raises
        ------
        DeclarationError
            A template that is none, or one that names a variable that is not set; `where` leads to the value.
        """
        if isinstance(value, dict):
            return {key: self.render(item, where=f"{where}.{key}") for key, item in value.items()}
        if isinstance(value, list):
            return [self.render(item, where=f"{where}[{index}]") for index, item in enumerate(value)]
        if not isinstance(value, str) or ("{{" not in value and "{%" not in value):
            return value
        try:
            return self._jinja.from_string(value).render()
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError,
                MemoryError) as error:  # fmt: skip
            told = f"cannot be rendered: {error or type(error).__name__}"
            for secret in filter(None, self._from_environment):
                told = told.replace(secret, "***")
            # Without its cause, whose text may hold what the environment has.
            raise DeclarationError(
                told, where=where, expected="text, or Jinja with env_var(...), var(...) and target"
            ) from None

    def _env_var(self, name: str, default: str | None = None) -> str:
        value = os.environ.get(name)
        if value is None:
            value = _secret_of_file(name)
        if value is not None:
            self._from_environment.add(value)
            return value
        if default is None:
            raise TemplateError(f"environment variable {name} is not set and has no default")
        return default

    def _var(self, name: str, default: Any = None) -> Any:
        value = self._variables.get(name, default)
        if value is None:
            raise TemplateError(f"variable {name} is not in dbt_project.yml and has no default")
        return value


@dataclass(frozen=True)
class Project:
    """A dbt project with the target chosen for this run."""

    root: Path
    profiles_dir: Path
    name: str
    target_name: str
    target: Yaml
    model_paths: tuple[str, ...]
    connections: Mapping[str, Connection]
    renderer: Renderer

    @classmethod
    def load(
        cls,
        project_dir: Path | None = None,
        profiles_dir: Path | None = None,
        target: str | None = None,
    ) -> Project:
        """Reads dbt_project.yml, profiles.yml and connections.yml.

        Raises
        ------
        DeclarationError
            A file is missing or wrong; names the file, the key and the places that were searched.
        """
        root = _find_project(project_dir)
        project_file = root / "dbt_project.yml"
        raw = read_yaml(project_file)
        variables = raw.get("vars") or {}
        renderer = Renderer(variables)
        name = str(renderer.render(raw.get("profile") or raw.get("name"), where=f"{project_file}: profile"))
        directory = _find_profiles(root, profiles_dir)
        profiles_file = directory / "profiles.yml"
        profiles = read_yaml(profiles_file)
        if name not in profiles:
            raise DeclarationError(
                f"has no profile '{name}'",
                where=str(profiles_file),
                expected=f"the profile that {project_file} names; found: {', '.join(profiles) or 'none'}",
            )
        profile = profiles[name] or {}
        target_name = target or str(
            renderer.render(profile.get("target", "default"), where=f"{profiles_file}: {name}.target")
        )
        outputs = profile.get("outputs") or {}
        if target_name not in outputs:
            raise DeclarationError(
                f"profile '{name}' has no target '{target_name}'",
                where=f"{profiles_file}: {name}.outputs",
                expected=f"one of: {', '.join(outputs) or 'none is there'}",
                action="choose one with --target, or add it",
            )
        output = renderer.render(outputs[target_name], where=f"{profiles_file}: {name}.outputs.{target_name}")
        shown = {
            "name": target_name,
            "profile_name": name,
            "schema": output.get("schema"),
            "type": output.get("type"),
            "threads": output.get("threads"),
        }
        with_target = Renderer(variables, shown)
        return cls(
            root=root,
            profiles_dir=directory,
            name=str(raw.get("name")),
            target_name=target_name,
            target=output,
            model_paths=tuple(raw.get("model-paths") or ["models"]),
            connections=_read_connections(directory / "connections.yml", with_target),
            renderer=with_target,
        )

    def connection(self, name: str, *, where: str) -> EventConnection:
        """The connection for events of that name; `where` is the place that asks for it."""
        found = self.connections.get(name)
        if isinstance(found, FilesConnection | KafkaConnection):
            return found
        raise self._no_connection(name, (FilesConnection, KafkaConnection), where)

    def database(self, name: str, *, where: str) -> JdbcConnection:
        """The connection to a database of that name; `where` is the place that asks for it."""
        found = self.connections.get(name)
        if isinstance(found, JdbcConnection):
            return found
        raise self._no_connection(name, (JdbcConnection,), where)

    def _no_connection(self, name: str, kinds: tuple[type[Connection], ...], where: str) -> DeclarationError:
        found = self.connections.get(name)
        known = [other for other, connection in self.connections.items() if isinstance(connection, kinds)]
        return DeclarationError(
            f"names the connection '{name}', which is " + ("not there" if found is None else f"of type {found.type}"),
            where=where,
            expected=f"one of {self.profiles_dir / 'connections.yml'}: {', '.join(known) or 'none'}",
        )


def read_yaml(path: Path) -> Yaml:
    """A YAML file whose top level is a mapping."""
    if not path.is_file():
        raise DeclarationError(
            "there is no such file", where=str(path), action="check --project-dir and --profiles-dir"
        )
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DeclarationError(f"is not YAML: {error}", where=str(path)) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise DeclarationError(
            f"holds a {type(content).__name__}", where=str(path), expected="a mapping of keys at the top level"
        )
    return cast(Yaml, content)


def _secret_of_file(name: str) -> str | None:
    """What the folder LAKE_SECRETS has under a name: a file a secret, as orchestrators and agents of vaults mount them.

    Raises
    ------
    DeclarationError
        The file is there and cannot be read.
    """
    folder = os.environ.get("LAKE_SECRETS")
    if not folder or not re.fullmatch(r"\w+", name):
        return None
    file = Path(folder).expanduser() / name
    try:
        return file.read_text(encoding="utf-8").rstrip("\n") if file.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        # Without its cause, whose text may hold what the file has.
        raise DeclarationError(
            f"cannot be read: {type(error).__name__}", where=str(file), expected="a text file that this user may read"
        ) from None


def _find_project(project_dir: Path | None) -> Path:
    start = (project_dir or Path(os.environ.get("DBT_PROJECT_DIR", "."))).expanduser().resolve()
    if (start / "dbt_project.yml").is_file():
        return start
    raise DeclarationError(
        "there is no dbt_project.yml",
        where=str(start),
        expected="a dbt project",
        action="go there, or give --project-dir",
    )


def _find_profiles(root: Path, profiles_dir: Path | None) -> Path:
    given = profiles_dir or (Path(os.environ["DBT_PROFILES_DIR"]) if "DBT_PROFILES_DIR" in os.environ else None)
    searched = [given.expanduser()] if given else [root, Path.home() / ".dbt"]
    for directory in searched:
        if (directory / "profiles.yml").is_file():
            # connections.yml lies beside the real file, also where profiles.yml is a link to it
            return (directory / "profiles.yml").resolve().parent
    raise DeclarationError(
        "there is no profiles.yml",
        where=", ".join(str(directory) for directory in searched),
        action="give --profiles-dir or set DBT_PROFILES_DIR",
    )


_MODELS: Mapping[str, type[Connection]] = {"files": FilesConnection, "kafka": KafkaConnection, "jdbc": JdbcConnection}


def _read_connections(path: Path, renderer: Renderer) -> dict[str, Connection]:
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


def is_secret(key: str, value: str) -> bool:
    """Whether a setting may hold a secret, by its name or what stands in it."""
    return bool(_SECRET.search(f"{key} {value}"))


def _written_secrets(raw: Any) -> Iterator[str]:
    """The secrets of a connection that stand in the file."""
    for key, value in raw.items() if isinstance(raw, dict) else ():
        if (key in _SECRET_KEYS or _SECRET_SETTING.search(str(key))) and "env_var(" not in str(value):
            yield key
        yield from _written_secrets(value)


def declaration_error(error: ValidationError, *, where: str, written: Any = None) -> DeclarationError:
    """Pydantic's findings as one error that names each key, what was found there and what is allowed.

    `written` is the same structure as it stands in the file: a template is shown, and not what became of it.
    """
    found = []
    for issue in error.errors():
        key = ".".join(str(part) for part in issue["loc"]) or "(the whole)"
        template = written
        for part in issue["loc"]:
            template = template.get(part) if isinstance(template, dict) else None
        value = template if isinstance(template, str) else issue["input"]
        shown = "***" if is_secret(key, str(value)) and "env_var(" not in str(value) else repr(value)
        if issue["type"] == "value_error":
            found.append(issue["msg"].removeprefix("Value error, "))
        elif issue["type"] == "missing":
            found.append(f"{key} is missing")
        elif issue["type"] == "extra_forbidden":
            found.append(f"{key} is not a known key (found {shown})")
        else:
            found.append(f"{key} is {shown}: {issue['msg']}")
    return DeclarationError("; ".join(found), where=where, action="see docs/declarations.md for every key")
