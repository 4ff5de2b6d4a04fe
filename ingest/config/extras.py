"""Packages that come with an extra of this one: asked for where they are used first."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ingest.errors import SetupError


def required(extra: str, needed: str, *modules: str) -> list[Any]:
    """The modules of an extra; `needed` says what for, such as `connections of type kinesis need it`.

    Raises
    ------
    SetupError
        One of them is not installed.
    """
    try:
        return [import_module(name) for name in modules]
    except ModuleNotFoundError as error:
        raise SetupError(
            f"{error.name} is not installed, and {needed}",
            where="this environment",
            action=f"run `make setup` in a clone of this project; elsewhere pip install '<clone>[{extra}]'",
        ) from error


def boto3_for_lake() -> tuple[Any, Any]:
    """boto3, and botocore's settings, for a lake on S3.

    Raises
    ------
    SetupError
        They are not installed: they come with the extra `aws`.
    """
    boto3, config = required("aws", "a lake on S3 is registered in Glue by it", "boto3", "botocore.config")
    return boto3, config
