"""The schemas that Avro values were written with: fetched from a registry or read from a file, and what they say."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ingest.errors import InputError, UnavailableError
from ingest.project import RegistryConnection
from ingest.session import first_line, java_class

# Seconds before each further attempt: a registry that is started anew, or is busy, answers within a few seconds.
_PAUSES = (0.2, 0.6, 1.8)
_TIMEOUT = httpx.Timeout(10.0)


@dataclass(frozen=True)
class WrittenSchema:
    """A schema as a registry holds it: its text, its type ('AVRO'), and the texts it refers to, the deepest first."""

    text: str
    kind: str = "AVRO"
    references: tuple[str, ...] = ()


class Registry:
    """The schemas of a registry that speaks Confluent's API (Confluent's own, Apicurio's ccompat, Karapace).

    A schema never changes under its id: each is fetched once. An id that is unknown is asked for again by the next
    batch, as it may have been registered since.
    """

    def __init__(self, connection: RegistryConnection) -> None:
        self._url = connection.url.rstrip("/")
        password = connection.password.get_secret_value() if connection.password else ""
        self._auth = (connection.username, password) if connection.username else None
        self._known: dict[str, WrittenSchema] = {}
        self._fetching = threading.Lock()
        self.id_bytes = connection.id_bytes

    @staticmethod
    @cache
    def of(connection: RegistryConnection) -> Registry:
        """The registry of a connection; the same one for all tables, so that they share what was fetched."""
        return Registry(connection)

    def schemas(self, ids: Sequence[str]) -> dict[str, WrittenSchema]:
        """The schemas of those ids, without the ids that the registry does not know.

        Raises
        ------
        UnavailableError
            The registry cannot be reached; nothing can be said about the ids then.
        InputError
            It refuses, or is none.
        """
        with self._fetching, httpx.Client(auth=self._auth, timeout=_TIMEOUT) as client:
            for schema_id in ids:
                if schema_id not in self._known:
                    answer = self._get(client, f"/schemas/ids/{schema_id}")
                    if answer is not None:
                        self._known[schema_id] = self._written(client, answer)
            return {schema_id: self._known[schema_id] for schema_id in ids if schema_id in self._known}

    def _written(self, client: httpx.Client, answer: dict[str, Any]) -> WrittenSchema:
        texts: dict[str, str] = {}

        def add_references(of: dict[str, Any]) -> None:
            for reference in of.get("references") or []:
                if reference["name"] in texts:
                    continue
                place = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
                found = self._get(client, place)
                if found is None:
                    raise self._error(
                        f"a schema refers to {reference['subject']}, version {reference['version']}, which is not there"
                    )
                add_references(found)
                texts[reference["name"]] = found["schema"]

        add_references(answer)
        return WrittenSchema(answer["schema"], answer.get("schemaType") or "AVRO", tuple(texts.values()))

    def _get(self, client: httpx.Client, place: str) -> dict[str, Any] | None:
        """The registry's answer; None where it says that it has no such thing."""
        response = self._response(client, place)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if response.status_code in (401, 403):
            raise self._error(
                f"refuses with {response.status_code} {response.reason_phrase}",
                action="check username and password of the connection's registry",
            )
        # A registry says what it lacks in an answer of its own; any other 404 comes from something else.
        if response.status_code == 404 and isinstance(answer, dict) and "error_code" in answer:
            return None
        if response.status_code != 200 or not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise self._error(
                f"answers {place} with {response.status_code} {response.reason_phrase}, and no schema",
                action="check the url: with Apicurio it ends in /apis/ccompat/v7",
            )
        return answer

    def _response(self, client: httpx.Client, place: str) -> httpx.Response:
        told = ""
        for pause in (*_PAUSES, None):
            try:
                response = client.get(self._url + place)
                if response.status_code < 500 and response.status_code != 429:
                    return response
                told = f"answers with {response.status_code} {response.reason_phrase}"
            except httpx.HTTPError as error:
                told = f"cannot be reached: {error}"
            if pause is not None:
                time.sleep(pause)
        told = f"{told}, {len(_PAUSES) + 1} times"
        raise self._error(told, action="run again when the registry is well", kind=UnavailableError)

    def _error(self, found: str, *, action: str = "", kind: type[InputError] = InputError) -> InputError:
        return kind(
            f"the schema registry {found}",
            where=self._url,
            expected="Confluent's API: GET /schemas/ids/<id>",
            action=f"{action or 'register what is missing'}; nothing of this batch was landed",
        )


def schema_of_file(path: str) -> WrittenSchema:
    """The schema that a table declares as `schema_file`.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    try:
        return WrittenSchema(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot be read: {error}",
            where=path,
            expected="an Avro schema (.avsc)",
            action="check schema_file in the declaration",
        ) from error


def parsed(spark: SparkSession, schema: WrittenSchema) -> tuple[str, str]:
    """The whole text of a record's schema, with all it refers to, and '' - or '' and why it is none.

    Avro's own parser reads it, so that what passes here is what Spark's decoder will take.
    """
    if schema.kind != "AVRO":
        return "", f"is of type {schema.kind}, expected AVRO"
    parser = java_class(spark, "org.apache.avro.Schema$Parser")()
    try:
        for text in schema.references:
            parser.parse(text)
        whole = parser.parse(schema.text)
    except Py4JJavaError as error:
        return "", f"cannot be parsed: {first_line(str(error.java_exception.getMessage()))}"
    kind = str(whole.getType().getName())
    return (str(whole.toString()), "") if kind == "record" else ("", f"is a {kind}, expected a record")


def semantic_types(schema: str) -> dict[str, str]:
    """Debezium's semantic type of each column whose Avro schema names one (`connect.name`), by column name.

    Looks into the record itself and, for an envelope, into its `before` and `after`; of an array, at its elements.
    Parameters that a value cannot be understood without stand behind the name (`...Decimal;scale=2`).
    """
    record = json.loads(schema)
    named: dict[str, Any] = {}
    for found in _records(record):
        named.setdefault(found.get("name", ""), found)

    def columns(fields: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str]]:
        for field in fields:
            for branch in _branches(field["type"]):
                resolved = _element(named.get(branch, {}) if isinstance(branch, str) else branch)
                if field["name"] in ("before", "after") and resolved.get("type") == "record":
                    yield from columns(resolved["fields"])
                elif "connect.name" in resolved and resolved.get("type") != "record":
                    known = resolved.get("connect.parameters", {})
                    parameters = [f"{key}={known[key]}" for key in ("scale", "length") if key in known]
                    yield field["name"], ";".join([resolved["connect.name"], *parameters])

    return dict(columns(record["fields"]))


def _element(avro_type: Any) -> Any:
    """The type of an array's elements, whatever else may be null; any other type as it is."""
    while isinstance(avro_type, dict) and avro_type.get("type") == "array":
        items = [item for item in _branches(avro_type["items"]) if item != "null"]
        avro_type = items[0] if items and isinstance(items[0], dict) else {}
    return avro_type


def _branches(avro_type: Any) -> list[Any]:
    return avro_type if isinstance(avro_type, list) else [avro_type]


def _records(avro_type: Any) -> Iterator[dict[str, Any]]:
    for branch in _branches(avro_type):
        if isinstance(branch, dict) and branch.get("type") == "record":
            yield branch
            for field in branch["fields"]:
                yield from _records(field["type"])
