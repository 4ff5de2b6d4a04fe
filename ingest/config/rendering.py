"""The YAML of a project: read, rendered as dbt renders it, and refused where it cannot be meant."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml
from jinja2 import StrictUndefined
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import ValidationError

from ingest.errors import DeclarationError

Yaml = dict[str, Any]
_SECRET = re.compile(r"pass|pwd|secret|token|credential|salt|access.?key|//[^/]*@", re.IGNORECASE)


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

    def render(self, value: Any, *, where: str, **more: Any) -> Any:
        """The same structure with every text rendered, with `more` names than every value has.

        Raises
        ------
        DeclarationError
            A template that is none, or one that names a variable that is not set; `where` leads to the value.
        """
        if isinstance(value, dict):
            return {key: self.render(item, where=f"{where}.{key}", **more) for key, item in value.items()}
        if isinstance(value, list):
            return [self.render(item, where=f"{where}[{index}]", **more) for index, item in enumerate(value)]
        if not isinstance(value, str) or ("{{" not in value and "{%" not in value):
            return value
        try:
            return self._jinja.from_string(value).render(more)
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError,
                MemoryError) as error:  # fmt: skip
            message = f"cannot be rendered: {error or type(error).__name__}"
            for secret in filter(None, self._from_environment):
                message = message.replace(secret, "***")
            # Without its cause, whose text may hold what the environment has.
            raise DeclarationError(
                message, where=where, expected="text, or Jinja with env_var(...), var(...) and target"
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


class _UniqueKeys(yaml.SafeLoader):
    """YAML whose mappings have each key once: of two, the first would be passed over without a word."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """A mapping, as it stands in the file: keys that it merges in (`<<`) are none of its own."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key '{key.value}' is there twice", problem_mark=key.start_mark)
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else key)
        return node


def read_yaml(path: Path) -> Yaml:
    """A YAML file whose top level is a mapping; DeclarationError where it is none, or is not there."""
    if not path.is_file():
        raise DeclarationError(
            "there is no such file", where=str(path), action="check --project-dir and --profiles-dir"
        )
    try:
        content = _UniqueKeys(path.read_text(encoding="utf-8")).get_single_data()
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DeclarationError(f"is not YAML: {error}", where=str(path)) from error
    return mapping(content, where=str(path))


def mapping(content: Any, *, where: str) -> Yaml:
    """What should be a mapping of keys, empty where there is nothing; DeclarationError where it is something else."""
    if content is not None and not isinstance(content, dict):
        raise DeclarationError(f"holds a {type(content).__name__}", where=where, expected="a mapping of keys")
    return cast(Yaml, content or {})


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


def is_secret(key: str, value: str) -> bool:
    """Whether a setting may hold a secret, by its name or what stands in it."""
    return bool(_SECRET.search(f"{key} {value}"))


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
            # What it has may be a secret under another tool's name.
            found.append(f"{key} is not a known key")
        else:
            found.append(f"{key} is {shown}: {issue['msg']}")
    return DeclarationError("; ".join(found), where=where, action="see docs/reference/ for every key")
