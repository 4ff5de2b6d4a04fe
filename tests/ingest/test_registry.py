"""Values whose schema is elsewhere: in a registry, by an id of four or eight bytes, or in a file."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DbtProject, MakeProject, pg, table_of
from pyspark.sql import SparkSession
from registry_server import CCOMPAT, serve, use_registry

from dev.chain.processes import free_port
from ingest.config.connections import RegistryConnection
from ingest.decode.registry import MOST_UNKNOWN, Registry
from ingest.errors import DeclarationError, InputError, SetupError, UnavailableError
from ingest.silver.state import Counts

pytestmark = pytest.mark.spark

COLUMNS = {"item_id": "int", "stock": "bigint", "note": "string"}
PASSWORD = "open sesame"  # noqa: S105
LOGIN = {"username": "lake", "password": "{{ env_var('REGISTRY_PASSWORD') }}"}


def deliver_records(project: DbtProject, values: Sequence[bytes | None], *, offset: int = 0) -> Path:
    """Record files without headers, keys or times: all that is needed of a record."""
    rows = {
        "value": pa.array(values, pa.binary()),
        "partition": pa.array([3] * len(values), pa.int32()),
        "offset": pa.array(range(offset, offset + len(values)), pa.int64()),
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(rows), sink)
    return project.deliver("shop.item", offset, sink.getvalue(), "parquet")


def schema_of(**columns: Any) -> dict[str, Any]:
    """An unwrapped event's schema with these columns, all but the key's nullable."""
    metadata = {"__op": "string", "__lsn": "long", "__source_ts_ms": "long", "__deleted": "string"}
    fields: list[dict[str, Any]] = [{"name": "item_id", "type": columns.pop("item_id", "int")}]
    fields += [{"name": name, "type": ["null", kind], "default": None} for name, kind in (columns | metadata).items()]
    return {"type": "record", "name": "Value", "namespace": "shop.item", "fields": fields}


def written(schema: dict[str, Any], event: Mapping[str, Any], prefix: bytes = b"") -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), dict(event))
    return prefix + body.getvalue()


def known(schemas: Mapping[int, Any]) -> dict[str, dict[str, Any]]:
    return {str(number): {"schema": json.dumps(schema)} for number, schema in schemas.items()}


def item(number: int, **row: Any) -> dict[str, Any]:
    return pg("c", 100 + number, item_id=number, **row)


def items(**options: Any) -> dict[str, Any]:
    return {"tables": [table_of("item", COLUMNS, ["item_id"], **options)]}


OLD, NEW = schema_of(stock="int"), schema_of(stock="long", note="string")
# A schema that is written in two: the type of a column stands in a subject of its own.
SIZE = {"type": "enum", "name": "Size", "namespace": "shop", "symbols": ["S", "L"]}


def prefixed(number: int, width: int = 4) -> bytes:
    return b"\x00" + number.to_bytes(width, "big")


@pytest.mark.slow
def test_versions_in_one_batch_with_all_that_can_be_wrong_of_a_value(
    make_project: MakeProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", PASSWORD)
    project = make_project(items(quarantine_limit={"share": 1.0}))
    good = written(NEW, item(9, stock=2**40, note="whole"))
    bad = {
        prefixed(99) + good: "schema id 99 is not in the registry",
        prefixed(2**32 - 1) + good: "schema id 4294967295 is not in the registry",
        b"\x01" + prefixed(2)[1:] + good: "its first byte is 0x01",
        b"": "the value is empty",
        b"\x00\x00\x01": "truncated: 3 bytes",
        prefixed(2): "does not decode with schema id 2",
        prefixed(2) + good[:-9]: "does not decode with schema id 2",
        # A note of 2 GB: Java has no room for it, and ended when it made some.
        prefixed(2) + b"\x02\x00\x02" + b"\x80\xd0\xac\xf3\x0e": "does not decode with schema id 2",
        prefixed(3) + b"\x02a": "schema id 3 is a string, expected a record",
        prefixed(4) + good: "schema id 4 cannot be parsed",
        prefixed(5) + good: "schema id 5 is of type PROTOBUF",
        b"no JSON": "not a JSON object",
    }
    values = [
        written(OLD, item(1, stock=1), prefixed(1)),
        None,
        written(NEW, item(2, stock=2**40, note="new"), prefixed(2)),
        json.dumps(item(3, stock=3, note="text")).encode(),
        *bad,
        written(schema_of(note=SIZE), item(4, note="L"), prefixed(6)),
    ]
    schemas: dict[str, Any] = known({1: OLD, 2: NEW, 3: "string", 4: {"type": "record"}, 5: NEW})
    schemas["5"]["schemaType"] = "PROTOBUF"
    schemas["6"] = {
        "schema": json.dumps(schema_of(note="shop.Size")),
        "references": [{"name": "shop.Size", "subject": "shop/Size", "version": 7}],
    }
    schemas["/subjects/shop%2FSize/versions/7"] = {"schema": json.dumps(SIZE)}
    with serve(schemas, failures=2, password=PASSWORD) as registry:
        use_registry(project, registry.url, **LOGIN)
        deliver_records(project, values, offset=70)
        landed = project.land_well(spark)["item"]
        deliver_records(project, [written(OLD, item(5, stock=5), prefixed(1))], offset=200)
        project.land_well(spark)
        assert registry.asked.count("/schemas/ids/2") == 1
    assert landed.counts == Counts(read=len(values), applied=4, ignored=1, quarantined=len(bad))
    assert [(row["item_id"], row["stock"], row["note"]) for row in project.rows(spark, "item")] == [
        (1, 1, None), (2, 2**40, "new"), (3, 3, "text"), (4, None, "L"), (5, 5, None)
    ]  # fmt: skip
    quarantined = {row["start_offset"]: row for row in project.quarantined(spark)}
    assert sorted(quarantined) == list(range(74, 74 + len(bad)))
    for offset, (value, reason) in enumerate(bad.items(), start=74):
        assert reason in quarantined[offset]["reason"]
        assert (bytes(quarantined[offset]["raw"]), quarantined[offset]["partition"]) == (value, 3)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["avro", "json", "envelope"])
def test_values_of_another_form_behind_the_first_ones_are_read_all_the_same(
    first: str, make_project: MakeProject, spark: SparkSession
) -> None:
    texts = [json.dumps(item(number, stock=number)).encode() for number in range(60)]
    envelopes = [
        json.dumps({"op": "c", "source": {"lsn": 100 + number, "sequence": None}, "before": None,
                    "after": {"item_id": number, "stock": number, "note": None}}).encode()
        for number in range(60)
    ]  # fmt: skip
    records = [written(OLD, item(number, stock=number), prefixed(1)) for number in range(60)]
    forms = {"avro": records, "json": texts, "envelope": envelopes}
    values: list[bytes | None] = [*forms.pop(first)[:40], None]
    values += [form[number] for form, number in zip(forms.values(), (40, 41), strict=True)]
    values += [written(NEW, item(42, stock=42, note="new"), prefixed(2)), b"\x00\x00"]
    with serve(known({1: OLD, 2: NEW})) as registry:
        project = make_project(items())
        use_registry(project, registry.url)
        deliver_records(project, values)
        counts = project.land_well(spark)["item"].counts
    assert counts == Counts(read=45, applied=43, ignored=1, quarantined=1)
    assert [(row["item_id"], row["stock"]) for row in project.rows(spark, "item")] == [(n, n) for n in range(43)]
    assert [row["reason"] for row in project.quarantined(spark)] == ["truncated: 2 bytes hold no id of a schema"]


@pytest.mark.slow
def test_a_registry_that_does_not_answer_lands_nothing_and_says_so(
    make_project: MakeProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", PASSWORD)
    project = make_project(items())
    deliver_records(project, [written(OLD, item(1, stock=1), prefixed(1))])
    nobody = f"http://127.0.0.1:{free_port()}"

    def told(url: str, **options: Any) -> str:
        use_registry(project, url, **options)
        landed = project.land(spark)["item"]
        assert isinstance(landed.error, InputError)
        assert landed.counts == Counts()
        assert "to do:" in landed.error.message
        assert PASSWORD not in landed.error.message
        return landed.error.message

    assert "cannot be reached" in told(nobody)
    with serve(known({1: OLD}), status=503) as busy:
        assert "answers with 503 Service Unavailable, 4 times" in told(busy.url)
    with serve(known({1: OLD}), status=404) as other:
        assert "/apis/ccompat/v7" in told(other.url)
    with serve(known({1: OLD}), password=PASSWORD.upper()) as closed:
        message = told(closed.url, **LOGIN)
        assert "refuses with 401" in message
        assert len(closed.asked) == 1
    project.connect()
    error = project.land(spark)["item"].error
    assert error is not None
    assert "no registry is declared" in error.message
    with serve(known({1: OLD})) as well:
        use_registry(project, well.url)
        assert project.land_well(spark)["item"].counts == Counts(read=1, applied=1)


# In the wire format like NEW: whoever takes it for NEW's schema reads values without an error, and loses `stock`.
OTHER = schema_of(weight="long", note="string")


@pytest.mark.slow
@pytest.mark.parametrize("versions", [("v3", "v2"), ("v2",)])
def test_ids_of_eight_bytes_are_global_ids_whatever_has_that_number_as_its_content_id(
    versions: tuple[str, ...], make_project: MakeProject, spark: SparkSession
) -> None:
    wide, too_wide = 2**33 + 1, 2**64 - 1
    schemas: dict[str, Any] = known({1: OTHER, 2: NEW, 5: NEW, 7: NEW})
    schemas["3"] = {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}
    schemas["4"] = {
        "schema": json.dumps(schema_of(note="shop.Size")),
        "references": [{"name": "shop.Size", "subject": "shop/Size", "version": 7}],
    }
    schemas["/subjects/shop%2FSize/versions/7"] = {
        "schema": json.dumps({**SIZE, "symbols": ["S", "L"]}),
        "references": [{"name": "shop.Unit", "subject": "shop/Unit", "version": 1}],
    }
    schemas["/subjects/shop%2FUnit/versions/1"] = {"schema": json.dumps({**SIZE, "name": "Unit"})}
    good = written(NEW, item(9, stock=9, note="n"))
    values = [
        written(NEW, item(1, stock=1, note="n"), prefixed(1, 8)),
        written(NEW, item(2, stock=2, note="n"), prefixed(wide, 8)),
        written(schema_of(note=SIZE), item(3, note="L"), prefixed(4, 8)),
        prefixed(3, 8) + good,
        # No global id, and the content id of that very schema.
        prefixed(7, 8) + good,
        prefixed(too_wide, 8) + good,
        prefixed(1, 4),
    ]
    project = make_project(items())
    deliver_records(project, values)
    global_ids = {"1": "2", str(wide): "2", "3": "3", "4": "4"}
    with serve(schemas, global_ids=global_ids, versions=versions, failures=2) as registry:
        use_registry(project, registry.url + CCOMPAT, id_bytes=8)
        assert project.land_well(spark)["item"].counts == Counts(read=7, applied=3, quarantined=4)
        assert not [path for path in registry.asked if path.startswith(CCOMPAT)]
    assert project.rows(spark, "item") == [
        {"item_id": 1, "stock": 1, "note": "n"},
        {"item_id": 2, "stock": 2, "note": "n"},
        {"item_id": 3, "stock": None, "note": "L"},
    ]
    reasons = {row["start_offset"]: row["reason"] for row in project.quarantined(spark)}
    assert ("is of type PROTOBUF" if versions[0] == "v3" else "schema id 3 cannot be parsed") in reasons.pop(3)
    assert reasons == {
        4: "schema id 7 is not in the registry",
        5: f"schema id {too_wide} is not in the registry",
        6: "truncated: 5 bytes hold no id of a schema",
    }


@pytest.mark.parametrize(("width", "use_id", "number"), [(8, "contentId", 2), (4, "globalId", 1)])
def test_a_connection_says_which_ids_its_values_have(
    width: int, use_id: str, number: int, make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project(items())
    deliver_records(project, [written(NEW, item(1, stock=1, note="n"), prefixed(number, width))])
    with serve(known({1: OTHER, 2: NEW}), global_ids={"1": "2", "2": "1"}) as registry:
        use_registry(project, registry.url + CCOMPAT, id_bytes=width, use_id=use_id)
        assert project.land_well(spark)["item"].counts == Counts(read=1, applied=1)
    assert project.rows(spark, "item") == [{"item_id": 1, "stock": 1, "note": "n"}]


@pytest.mark.slow
def test_a_registry_that_knows_no_global_ids_lands_nothing_and_says_so(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project(items())
    deliver_records(project, [written(NEW, item(1, stock=1, note="n"), prefixed(1, 8))])
    with serve(known({1: NEW})) as confluent:
        use_registry(project, confluent.url, id_bytes=8)
        landed = project.land(spark)["item"]
        assert isinstance(landed.error, InputError)
        assert landed.counts == Counts()
        assert "does not speak Apicurio's own API, the only one that knows global ids" in landed.error.message
        assert "/apis/registry/v3/ids/globalIds/1 and /apis/registry/v2/ids/globalIds/1" in landed.error.message
        assert "say `use_id: contentId`" in landed.error.message
        use_registry(project, confluent.url, id_bytes=8, use_id="contentId")
        assert project.land_well(spark)["item"].counts == Counts(read=1, applied=1)


@pytest.mark.parametrize(
    ("path", "versions", "asked"),
    [
        ("", ("v3", "v2"), ["/apis/registry/v3"]),
        ("/", ("v2",), ["/apis/registry/v3", "/apis/registry/v2"]),
        ("/confluent", ("v3",), ["/apis/registry/v3"]),
        ("/apis/ccompat/v6/", ("v3",), ["/apis/registry/v3"]),
        ("/apis/registry/v3/", ("v3", "v2"), ["/apis/registry/v3"]),
        ("/apis/registry/v2", ("v3", "v2"), ["/apis/registry/v2"]),
    ],
)
def test_apicurios_own_api_is_found_from_the_url(path: str, versions: tuple[str, ...], asked: list[str]) -> None:
    with serve(known({1: OTHER, 2: NEW}), global_ids={"1": "2"}, versions=versions) as served:
        registry = Registry(RegistryConnection(url=served.url + path, id_bytes=8))
        assert json.loads(registry.schemas(["1", "7"])["1"].text) == NEW
        assert "7" not in registry.schemas(["1", "7"])
        assert list(dict.fromkeys(place.partition("/ids/")[0] for place in served.asked)) == asked
        assert [place.count("/globalIds/1?") for place in served.asked].count(1) == len(asked), "once of each version"


def test_a_registry_that_is_closed_or_whose_schema_lacks_a_part_is_told_of_alike_for_global_ids() -> None:
    lacking = {"schema": json.dumps(NEW), "references": [{"name": "a.B", "subject": "B", "version": 3}]}
    with serve({"2": lacking}, global_ids={"1": "2"}) as served:
        with pytest.raises(InputError, match="refers to artifact B of group default, version 3, which is not there"):
            Registry(RegistryConnection(url=served.url, id_bytes=8)).schemas(["1"])
        served.password = PASSWORD
        with pytest.raises(InputError, match="refuses with 401"):
            Registry(RegistryConnection(url=served.url, id_bytes=8)).schemas(["1"])
        served.password, served.status = None, 400
        with pytest.raises(InputError, match="answers /apis/registry/v3/ids/globalIds/1 with 400 Bad Request"):
            Registry(RegistryConnection(url=served.url, id_bytes=8)).schemas(["1"])
        served.status = 503
        with pytest.raises(UnavailableError, match="answers with 503 Service Unavailable, 4 times"):
            Registry(RegistryConnection(url=served.url, id_bytes=8)).schemas(["1"])


def test_an_answer_of_no_such_place_is_not_one_of_no_such_id() -> None:
    with serve(known({1: NEW})) as served:
        too_large = [str(2**31), str(2**32 - 1)]
        assert list(Registry(RegistryConnection(url=served.url)).schemas(["1", "7", *too_large])) == ["1"]
        with pytest.raises(InputError, match="answers /schemas/ids/1 with 404 Not Found, and no schema"):
            Registry(RegistryConnection(url=f"{served.url}/registry")).schemas(["1"])


def test_values_that_begin_with_no_ids_of_the_registry_are_quarantined_and_few_are_asked_for(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """The ids of registries are low: where one is among them, it is found."""
    project = make_project(items(quarantine_limit={"share": 1.0}))
    good = written(NEW, item(9, stock=9, note="n"))
    bare = [prefixed(number) + good for number in range(100, 100 + 40 * MOST_UNKNOWN, 40)]
    deliver_records(project, [*bare, prefixed(2**31 - 1) + good, prefixed(7) + good])
    with serve(known({7: NEW})) as registry:
        use_registry(project, registry.url)
        counts = project.land_well(spark)["item"].counts
        assert counts == Counts(read=len(bare) + 2, applied=1, quarantined=len(bare) + 1)
        assert len(registry.asked) == len(set(registry.asked)) == 1 + MOST_UNKNOWN
    told = {row["start_offset"]: row["reason"] for row in project.quarantined(spark)}
    assert told[len(bare)].startswith(f"schema id {2**31 - 1} is not in the registry, or was not asked for behind")
    assert "need `schema_file`" in told[len(bare)]


def test_what_is_known_needs_no_registry_and_a_proxy_that_is_none_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(known({1: NEW})) as served:
        registry = Registry(RegistryConnection(url=served.url))
        registry.schemas(["1"])
    for name, value in (("ALL_PROXY", "socks5://proxy:1080"), ("SSL_CERT_FILE", "/nowhere")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert list(registry.schemas(["1"])) == ["1"]
            with pytest.raises(SetupError, match=f"the schema registry cannot be asked: [^:]*\n.*{name}"):
                registry.schemas(["2"])


@pytest.mark.slow
def test_values_without_an_id_are_read_with_the_declared_schema(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project(items(schema_file="models/item.avsc"))
    project.write_models(json.dumps(OLD), "item.avsc")
    deliver_records(project, [written(OLD, item(61, stock=4)), None, b"\x02"])
    assert project.land_well(spark)["item"].counts == Counts(read=3, applied=1, ignored=1, quarantined=1)
    assert project.rows(spark, "item") == [{"item_id": 61, "stock": 4, "note": None}]


def test_files_that_are_no_records_are_left_out_and_named(make_project: MakeProject, spark: SparkSession) -> None:
    project = make_project(items())
    whole = deliver_records(project, [json.dumps(item(1, stock=1)).encode()]).read_bytes()
    other = io.BytesIO()
    pq.write_table(pa.table({"value": ["text"], "offset": [1]}), other)
    project.deliver("shop.item", 10, whole[:-5], "parquet")
    project.deliver("shop.item", 20, other.getvalue(), "parquet")
    packed = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(whole)), packed, compression="brotli")
    project.deliver("shop.item", 30, packed.getvalue(), "parquet")
    landed = project.land(spark)["item"]
    assert landed.counts == Counts(read=1, applied=1)
    assert landed.error is not None
    assert "0000000010.parquet is not a Parquet file, or truncated" in landed.error.message
    assert "0000000020.parquet is not a file of records: partition absent" in landed.error.message
    assert "0000000030.parquet is compressed by BROTLI, which Spark does not read" in landed.error.message


@pytest.mark.parametrize(
    ("options", "registry", "told"),
    [
        ({"schema_file": "models/none.avsc"}, {}, "models/none.avsc"),
        ({"schema_file": "models/none.avsc", "format": "json"}, {}, "models/none.avsc"),
        ({"format": "protobuf"}, {}, "format"),
        ({}, {"url": "http://lake:geheim@registry"}, "keys of their own"),
        ({}, {"url": "http://first:8081,http://second:8081"}, "expected one http://"),
        ({}, {"url": "https://first,https://second"}, "expected one http://"),
        ({}, {"url": "http://registry:port"}, "expected one http://"),
        ({}, {"password": "geheim", "username": "lake"}, "password is written into the file"),
        ({}, {"id_bytes": 5}, "id_bytes"),
        ({}, {"use_id": "artifactId"}, "use_id"),
        ({}, {"url": "http://registry:8080/apis/registry/v3"}, "expected /apis/ccompat/v7"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    options: dict[str, Any], registry: dict[str, Any], told: str, make_project: MakeProject
) -> None:
    project = make_project(items(**options))
    use_registry(project, **{"url": "http://registry:8081", **registry})
    with pytest.raises(DeclarationError) as refused:
        project.source()
    assert told in refused.value.message
    assert "geheim" not in refused.value.message
