"""The schemas that Avro values were written with: fetched from a registry or read from a file, and what they say."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from json import dumps, loads
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

import httpx
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ingest.config.connections import RegistryConnection
from ingest.config.tables import Table
from ingest.decode.avro_schema import unreadable
from ingest.errors import InputError, SetupError, UnavailableError
from ingest.spark.jvm import first_line, java_class
from ingest.spark.shared import Shared

# Seconds before each further attempt: a registry that is started anew, or is busy, answers within a few seconds.
_PAUSES = (0.2, 0.6, 1.8)
_TIMEOUT = httpx.Timeout(10.0)
# Behind so many ids of a batch that a registry lacks, no more are asked for: these are no ids, but bytes of the values.
MOST_UNKNOWN = 30


@dataclass(frozen=True)
class WrittenSchema:
    """A schema as a registry holds it: its text, its type ('AVRO'), and the texts it refers to, the deepest first."""

    text: str
    kind: str = "AVRO"
    references: tuple[str, ...] = ()


class Registry:
    """The schemas of a registry, by the ids that values begin with.

    A content id is asked for from Confluent's API, which Apicurio (ccompat) and Karapace speak as well; a global id
    from Apicurio's own, the only one that knows it. In Apicurio a content has one content id, however often it is
    registered, and a global id for each artifact version that has it: the same number may be another schema's content
    id. So one is never taken for the other, not even where it is unknown.

    A schema never changes under its id: each is fetched once. An id that is unknown is asked for again by the next
    batch, as it may have been registered since.
    """

    def __init__(self, connection: RegistryConnection) -> None:
        self._url = connection.url.rstrip("/")
        self._api: type[_Api] = _Apicurio if connection.id_option == "globalId" else _Confluent
        self._auth = connection.auth
        self._known: dict[str, WrittenSchema] = {}
        self._fetching = threading.Lock()
        self.id_bytes = connection.id_bytes
        # Java's `int` or `long`: of a larger one a registry says that the place is none, and not that it lacks the id.
        self._largest_id = 2 ** (8 * self.id_bytes - 1) - 1

    @classmethod
    def of(cls, spark: SparkSession, table: Table) -> Registry | None:
        """The registry of a table's connection, if it has one: all tables of the session share what was fetched."""
        connection = table.connection.registry
        if connection is None:
            return None
        registry: Registry = Shared.of(spark).remembered("registries").setdefault(connection, cls(connection))
        return registry

    def schemas(self, ids: Sequence[str]) -> dict[str, WrittenSchema]:
        """The schemas of those ids, without the ids that the registry does not know.

        The lowest are asked for first: registries count. Behind `MOST_UNKNOWN` that are unknown, no more are.

        Raises
        ------
        UnavailableError
            The registry cannot be reached; nothing can be said about the ids then.
        InputError
            It refuses, is none, or does not speak the API that knows ids of this kind.
        SetupError
            Proxy or certificates of this machine's environment keep it from being asked.
        """
        # What is known needs no registry, and waits for none that is away.
        if unknown := [each for each in ids if each not in self._known and int(each) <= self._largest_id]:
            # In turn from both ends: ids that the registry has lost are lower ones, those of no schema are any.
            lowest = sorted(unknown, key=int)
            self._fetch(list(dict.fromkeys(chain.from_iterable(zip(lowest, reversed(lowest), strict=True)))))
        return {schema_id: self._known[schema_id] for schema_id in ids if schema_id in self._known}

    def _fetch(self, ids: Sequence[str]) -> None:
        with self._fetching, self._client() as client:
            api, lacking = self._api(self._url, client), 0
            for schema_id in ids:
                written = self._known.get(schema_id) or api.schema(schema_id)
                if written is not None:
                    self._known[schema_id] = written
                    continue
                lacking += 1
                if lacking == MOST_UNKNOWN:
                    return

    def _client(self) -> httpx.Client:
        try:
            return httpx.Client(auth=self._auth, timeout=_TIMEOUT)
        except (httpx.InvalidURL, ImportError, ValueError, OSError) as error:
            raise SetupError(
                f"the schema registry cannot be asked: {error}",
                where=self._url,
                expected="http://... in HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, a PEM file in SSL_CERT_FILE",
                action="correct or unset these variables of the environment; nothing of this batch was landed",
            ) from error


@dataclass(frozen=True)
class _Reference:
    """What a schema refers to: the name it uses, what that is called in the registry, and its place there."""

    name: str
    title: str
    place: str


@dataclass(frozen=True)
class _Answer:
    """A schema as an API answers with it."""

    text: str
    kind: str
    references: tuple[_Reference, ...]


class _Api(ABC):
    """An API of a registry, for as long as the client is open."""

    expected: ClassVar[str]

    def __init__(self, url: str, client: httpx.Client) -> None:
        self._url = url
        self._client = client

    def schema(self, schema_id: str) -> WrittenSchema | None:
        """The schema of an id, with all it refers to; None where the registry says that it has no such id."""
        answer = self._by_id(schema_id)
        if answer is None:
            return None
        texts: dict[str, str] = {}

        def add(references: Iterable[_Reference]) -> None:
            for reference in references:
                if reference.name in texts:
                    continue
                found = self._at(reference.place)
                if found is None:
                    raise self._error(f"a schema refers to {reference.title}, which is not there")
                add(found.references)
                texts[reference.name] = found.text

        add(answer.references)
        return WrittenSchema(answer.text, answer.kind, tuple(texts.values()))

    @abstractmethod
    def _by_id(self, schema_id: str) -> _Answer | None:
        """The schema of an id."""

    @abstractmethod
    def _at(self, place: str) -> _Answer | None:
        """A schema that another refers to."""

    def _get(self, url: str) -> httpx.Response:
        """The registry's answer, whatever it is, but for those that say nothing about what was asked for."""
        response = self._answered(url)
        if response.status_code in (401, 403):
            raise self._error(
                f"refuses with {response.status_code} {response.reason_phrase}",
                action="check username and password of the connection's registry",
            )
        return response

    def _answered(self, url: str) -> httpx.Response:
        message = ""
        for pause in (*_PAUSES, None):
            try:
                response = self._client.get(url)
                if response.status_code < 500 and response.status_code != 429:
                    return response
                message = f"answers with {response.status_code} {response.reason_phrase}"
            except httpx.HTTPError as error:
                message = f"cannot be reached: {error}"
            if pause is not None:
                time.sleep(pause)
        message = f"{message}, {len(_PAUSES) + 1} times"
        raise self._error(message, action="run again when the registry is well", kind=UnavailableError)

    def _error(self, found: str, *, action: str = "", kind: type[InputError] = InputError) -> InputError:
        return kind(
            f"the schema registry {found}",
            where=self._url,
            expected=self.expected,
            action=f"{action or 'register what is missing'}; nothing of this batch was landed",
        )


class _Confluent(_Api):
    """Confluent's API, as its documentation "Schema Registry API Reference" describes it."""

    expected = "Confluent's API: GET /schemas/ids/<id>"

    def _by_id(self, schema_id: str) -> _Answer | None:
        return self._at(f"/schemas/ids/{schema_id}")

    def _at(self, place: str) -> _Answer | None:
        response = self._get(self._url + place)
        answer = _json(response)
        if response.status_code == 404 and _is_of_confluent(answer):
            return None
        if response.status_code != 200 or not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise self._error(
                f"answers {place} with {response.status_code} {response.reason_phrase}, and no schema",
                action="check the url: with Apicurio it ends in /apis/ccompat/v7",
            )
        references = tuple(
            _Reference(
                reference["name"],
                f"{reference['subject']}, version {reference['version']}",
                f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}",
            )
            for reference in answer.get("references") or ()
        )
        return _Answer(answer["schema"], answer.get("schemaType") or "AVRO", references)


@dataclass(frozen=True)
class _Version:
    """A version of Apicurio's own API.

    Attributes
    ----------
    path:
        Where it is, from the registry's root on.
    content:
        Where an artifact version's content is, from the artifact version on.
    options:
        Ask for a content as it was registered, whatever the registry's default is, and for its type where it is told.
    """

    path: str
    content: str
    options: str


_VERSIONS = (
    _Version("/apis/registry/v3", "/content", "?references=PRESERVE&returnArtifactType=true"),
    _Version("/apis/registry/v2", "", "?dereference=false"),
)


class _Apicurio(_Api):
    """Apicurio's own API, in the newest version that the registry has: 3 has both, 2 has v2 alone.

    Source: the OpenAPI descriptions of both (`ids/globalIds`, `groups/.../versions`), which answer with the schema
    itself and with what it refers to at a place of its own.
    """

    expected = "Apicurio's API: GET /apis/registry/v3/ids/globalIds/<id>, or v2"

    def __init__(self, url: str, client: httpx.Client) -> None:
        super().__init__(url, client)
        root, of_api, _ = url.partition("/apis/")
        parts = urlsplit(url)
        self._root = root if of_api else f"{parts.scheme}://{parts.netloc}"
        named = tuple(version for version in _VERSIONS if url.endswith(version.path))
        self._versions = named or _VERSIONS

    def _by_id(self, schema_id: str) -> _Answer | None:
        places = [f"{version.path}/ids/globalIds/{schema_id}" for version in self._versions]
        for version, place in zip(self._versions, places, strict=True):
            response = self._get(self._root + place + version.options)
            if response.status_code != 404 or _is_of_apicurio(response):
                self._versions = (version,)
                return self._answer(response, place)
        raise self._error(
            "does not speak Apicurio's own API, the only one that knows global ids: "
            f"{' and '.join(places)} answered with 404 Not Found",
            action="where the ids are content ids, say `use_id: contentId` in the connection's registry; "
            "else check the url: with Apicurio it ends in /apis/registry/v3 or /apis/ccompat/v7",
        )

    def _at(self, place: str) -> _Answer | None:
        (version,) = self._versions
        whole = version.path + place
        return self._answer(self._get(self._root + whole + version.content + version.options), whole)

    def _answer(self, response: httpx.Response, place: str) -> _Answer | None:
        if response.status_code == 404 and _is_of_apicurio(response):
            return None
        # A page for people is what something else answers with, whatever it was asked for.
        if response.status_code != 200 or "html" in response.headers.get("Content-Type", ""):
            raise self._unlike(response, place, "no schema")
        kind = response.headers.get("X-Registry-ArtifactType") or "AVRO"
        return _Answer(response.text, kind, self._references(place))

    def _references(self, place: str) -> tuple[_Reference, ...]:
        response = self._get(f"{self._root}{place}/references")
        # The first releases of Apicurio 2 have no such place.
        if response.status_code == 404 and not _is_of_apicurio(response):
            return ()
        listed = _json(response)
        if response.status_code != 200 or not isinstance(listed, list):
            raise self._unlike(response, f"{place}/references", "no list of references")
        return tuple(_reference(reference) for reference in listed)

    def _unlike(self, response: httpx.Response, place: str, lacks: str) -> InputError:
        return self._error(
            f"answers {place} with {response.status_code} {response.reason_phrase}, and {lacks}",
            action="check the url: with Apicurio it ends in /apis/registry/v3 or /apis/ccompat/v7",
        )


def _reference(given: dict[str, Any]) -> _Reference:
    # What is in the group `default`, as all that Confluent's API registers, is told without a group.
    group, artifact, version = given.get("groupId") or "default", given["artifactId"], given.get("version")
    place = f"/groups/{quote(group, safe='')}/artifacts/{quote(artifact, safe='')}/versions/{version}"
    return _Reference(given["name"], f"artifact {artifact} of group {group}, version {version}", place)


def _is_of_confluent(answer: Any) -> bool:
    """Whether a 404 says what the registry lacks, and not that the place is none of its API.

    Both have an `error_code`. Of a place that is none the message is that of its web server, `HTTP 404 Not Found`. An
    answer without a code is another server's.
    """
    return isinstance(answer, dict) and "error_code" in answer and not str(answer.get("message")).startswith("HTTP 404")


def _is_of_apicurio(response: httpx.Response) -> bool:
    """Whether a 404 says what the registry lacks, and not that the place is none of its API.

    Apicurio names its error: `VersionNotFoundException` and others like it for what it lacks, and `NotFoundException`
    for a place that is none. An answer without such a name is another server's.
    """
    answer = _json(response)
    name = str(answer.get("name")) if isinstance(answer, dict) else ""
    return name.endswith("NotFoundException") and name != "NotFoundException"


def _json(response: httpx.Response) -> Any:
    """The answer's JSON; None where it is none."""
    try:
        return response.json()
    except ValueError:
        return None


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


def parsed(spark: SparkSession, schema: WrittenSchema, only: str | None = None) -> tuple[str, str]:
    """The whole text of a record's schema, with all it refers to, and '' - or '' and why it is none.

    Avro's own parser reads it, so that what passes here is what Spark's decoder will take.

    `only`: the column that a value of another type is: it is encoded as a record of this column alone (Avro
    specification, "Complex Types", of records).
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
    kind, text = str(whole.getType().getName()), str(whole.toString())
    if kind != "record" and only:
        fields = [{"name": only, "type": loads(text)}]
        text = dumps({"type": "record", "name": "lake_value", "fields": fields})
    elif kind != "record":
        return "", f"is a {kind}, expected a record"
    reason = unreadable(spark, text)
    return ("", f"is {reason}") if reason else (text, "")
