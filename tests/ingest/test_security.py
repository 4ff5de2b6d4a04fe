"""What must not be written is written nowhere: column policies, erased keys, secrets; and declarations run no code."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastavro
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from conftest import REPOSITORY, DbtProject, MakeProject, Row, pg, table_of
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from ingest.cli.app import app
from ingest.errors import DeclarationError, InputError
from ingest.operations.erase import erase, lines_of, parse_key
from ingest.operations.reconcile import reconcile
from ingest.operations.replay import replay
from ingest.schema.connectors import UNAVAILABLE_VALUE
from ingest.silver import erased_keys
from ingest.silver.state import Counts

SALT = "a salt for tests, and long enough"
COLUMNS = {"person_id": "int", "mail": "string", "pay": "decimal(10,2)", "tax": "string", "note": "string"}
POLICIES = {"mail": "hash", "pay": "hash", "tax": "exclude"}
# Text that stands in the events' protected values, and may be found nowhere else.
CANARY = "kanarienvogel"


def hashed(text: str) -> str:
    """HMAC-SHA256 by Python's own library."""
    return hmac.new(SALT.encode(), text.encode(), hashlib.sha256).hexdigest()


def protected(
    name: str, columns: Mapping[str, str], key: Sequence[str], policies: Mapping[str, str], **options: Any
) -> dict[str, Any]:
    """A table's entry, with policies of its columns."""
    entry = table_of(name, columns, key, **options)
    for column in entry["columns"]:
        if column["name"] in policies:
            column["config"] = {"meta": {"ingest": {"policy": policies[column["name"]]}}}
    return entry


def salted(project: DbtProject, variable: str = "LAKE_TEST_SALT") -> None:
    """Gives the project's connection a salt."""
    project.connect({"hash_salt": f"{{{{ env_var('{variable}') }}}}"})


@pytest.fixture(autouse=True)
def _salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_TEST_SALT", SALT)


def holds(folder: Path, *texts: str) -> list[str]:
    """Files below a folder that hold a text: in their bytes, or in the values of a Parquet file."""
    found = []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes().lower()
        if path.suffix == ".parquet":
            content += str(pq.read_table(path, partitioning=None).to_pydict()).lower().encode()
        found += [f"{path}: {text}" for text in texts if text.lower().encode() in content]
    return found


def lake_of(spark: SparkSession, project: DbtProject) -> Path:
    return Path(spark.catalog.getDatabase(project.schema).locationUri.removeprefix("file:"))


def person(op: str, lsn: int, person_id: int, *, mail: str | None = None, pay: Any = "10.50", **more: Any) -> Row:
    mail = f"{person_id}@{CANARY}.org" if mail is None else mail
    return pg(op, lsn, person_id=person_id, mail=mail, pay=pay, tax=f"{CANARY}-{person_id}", **{"note": "n", **more})


def envelope(event: Row) -> Row:
    """The same change as a whole envelope, with what was there before."""
    row = {name: value for name, value in event.items() if not name.startswith("__")}
    before = {**row, "mail": f"before@{CANARY}.org", "tax": CANARY}
    source = {"name": "shop", "db": "shop", "schema": "public", "table": "person", "ts_ms": 1, "lsn": event["__lsn"]}
    return {"before": before, "after": row, "source": source, "op": event["__op"], "ts_ms": 2}


def connected(event: Row) -> Row:
    """The same, as Kafka Connect writes it with its schema, whose default of a column is what may be found nowhere."""
    return {"schema": _connect_type(event), "payload": event}


def _connect_type(value: Any) -> Row:
    if isinstance(value, Mapping):
        fields = [{**_connect_type(of), "field": name, "optional": True} for name, of in value.items()]
        return {"type": "struct", "fields": [field | ({"default": CANARY} if field["field"] == "tax" else {})
                                             for field in fields]}  # fmt: skip
    return {"type": "int64" if isinstance(value, int) else "string"}


def avro(rows: Sequence[Row]) -> bytes:
    """An Avro object file of unwrapped events; what is no number is a text."""
    names = {name: "int" if name == "person_id" else "long" if name in ("__lsn", "__source_ts_ms") else "string"
             for name in rows[0]}  # fmt: skip
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in names.items()]
    schema = {"type": "record", "name": "Value", "namespace": "shop.person", "fields": fields}
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(schema), rows)
    return sink.getvalue()


def records(*values: bytes) -> bytes:
    """Kafka's records as a Parquet file."""
    offsets = pa.array(range(len(values)), pa.int64())
    columns = {"value": pa.array(values, pa.binary()), "partition": pa.array([0] * len(values), pa.int32())}
    sink = io.BytesIO()
    pq.write_table(pa.table({**columns, "offset": offsets}), sink)
    return sink.getvalue()


def events() -> list[Any]:
    """Every form of an event, well and not."""
    return [
        person("c", 10, 1),
        envelope(person("c", 11, 2, pay=7)),
        connected(person("c", 12, 3, pay="007.10")),
        connected(envelope(person("c", 13, 4, mail=""))),
        {**person("c", 14, 5), "Tax": CANARY},
        person("c", 15, 11, pay=f"{CANARY} thousand"),
        envelope(person("u", 16, 12, note=UNAVAILABLE_VALUE)),
        json.dumps(person("c", 17, 13))[:-20],
        connected(envelope({**person("c", 18, 14), "__op": "z"})),
    ]


BARE = {"type": "record", "name": "Value", "fields": [{"name": "mail", "type": "string"}]}


@pytest.mark.spark
@pytest.mark.slow
def test_protected_values_are_written_nowhere_and_replayed_events_have_the_same_hashes(
    make_project: MakeProject, spark: SparkSession
) -> None:
    people = protected("person", COLUMNS, ["person_id"], POLICIES)
    typed = protected("typed", COLUMNS, ["person_id"], POLICIES, table_type="cow")
    by_mail = protected("by_mail", {"mail": "string", "visits": "int"}, ["mail"], {"mail": "hash"})
    recorded = protected("recorded", COLUMNS, ["person_id"], POLICIES)
    bare = protected("bare", COLUMNS, ["person_id"], POLICIES, schema_file="bare.avsc")
    project = make_project({"tables": [people, typed, by_mail, recorded, bare]})
    salted(project)
    (project.root / "bare.avsc").write_text(json.dumps(BARE), encoding="utf-8")
    values = [json.dumps(person("c", 10, 1)).encode(), b"\x07" + CANARY.encode()]
    project.deliver("shop.recorded", 0, records(*values), "parquet")
    project.deliver("shop.bare", 0, records(CANARY.encode()), "parquet")
    project.deliver("shop.person", 0, events())
    texts = [{**person("c", 10, 1), "pay": "10.5"}, {**person("c", 11, 2), "pay": CANARY},
             {**person("u", 12, 3), "note": UNAVAILABLE_VALUE}]  # fmt: skip
    project.deliver("shop.typed", 0, avro(texts), "avro")
    project.deliver("shop.by_mail", 0, [pg("c", 1, mail=CANARY, visits=1), pg("c", 2, mail="other", visits=1)])
    landed = project.land_well(spark)
    assert landed["person"].counts == Counts(read=9, applied=5, quarantined=4)
    assert landed["recorded"].counts == Counts(read=2, applied=1, quarantined=1)
    assert landed["bare"].counts == Counts(read=1, quarantined=1)
    assert landed["typed"].counts == Counts(read=3, applied=1, quarantined=2)
    project.deliver("shop.by_mail", 2, [pg("u", 3, mail=CANARY, visits=2), pg("d", 4, mail="other", visits=None)])
    project.land_well(spark)
    assert project.rows(spark, "by_mail") == [{"mail": hashed(CANARY), "visits": 2}]

    rows = project.rows(spark, "person")
    assert "tax" not in rows[0]
    assert [row["mail"] for row in rows[:4]] == [hashed(f"{n}@{CANARY}.org" if n < 4 else "") for n in (1, 2, 3, 4)]
    assert [row["pay"] for row in rows[:3]] == [hashed("10.5"), hashed("7"), hashed("7.1")], "one text a number"
    assert project.rows(spark, "typed", "pay") == [{"pay": hashed("10.5")}], "the same in every table"
    quarantined = project.quarantined(spark)
    assert len(quarantined) == 8
    reasons = {row["reason"] for row in quarantined}
    assert any("pay: a value that is not exactly a decimal(10,2), and is not shown" in reason for reason in reasons)
    assert any("not kept" in reason and "HMAC-SHA256" in reason for reason in reasons)
    assert not holds(lake_of(spark, project), CANARY, SALT)

    # What was missing comes: masked events are taken again, and their hashes are not hashed once more.
    project.deliver("shop.person", 20, [person("c", 5, 12, note="long")])
    project.deliver("shop.typed", 20, [person("c", 5, 3, note="long")])
    project.land_well(spark)
    for table in project.source().choose(["person", "typed"]):
        replayed = replay(spark, table)
        assert replayed.counts.applied == 1, table.name
    (row,) = [row for row in project.rows(spark, "person") if row["person_id"] == 12]
    assert (row["mail"], row["pay"], row["note"]) == (hashed(f"12@{CANARY}.org"), hashed("10.5"), "long")
    (row,) = [row for row in project.rows(spark, "typed") if row["person_id"] == 3]
    assert (row["mail"], row["pay"], row["note"]) == (hashed(f"3@{CANARY}.org"), hashed("10.5"), "long")
    waiting = project.quarantined(spark)
    assert len(waiting) == 6, "what was not kept cannot be applied"
    for table in project.source().choose(["person", "typed", "recorded", "bare"]):
        assert replay(spark, table).counts.applied == 0
    again = [(row["file"], row["line"], row["raw"]) for row in project.quarantined(spark)]
    assert again == [(row["file"], row["line"], row["raw"]) for row in waiting]
    assert not holds(lake_of(spark, project), CANARY, SALT)


GONE, KEPT = 987_654_321, 123_456_789


def sold(op: str, lsn: int, sale_id: int, note: str = "n", **more: Any) -> Row:
    return pg(op, lsn, sale_id=sale_id, note=note, **more)


def met(op: str, lsn: int, mail: str, region: str, text: str) -> Row:
    return pg(op, lsn, mail=mail, region=region, text=text)


ids = st.frozensets(st.integers(0, 2**32 - 1), max_size=8)


@given(st.lists(ids, max_size=4), ids, st.sampled_from([8, 20_000]))
def test_erased_keys_that_were_lost_are_missed_until_each_is_erased_again(
    erasures: list[frozenset[int]], others: frozenset[int], most: int
) -> None:
    """Of very many keys only their number is known."""
    every, note = frozenset[int](), ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(erased_keys, "_MOST_NOTED", most)
        for erased in erasures:
            every |= erased
            note = erased_keys.noted(note, every)
        assert erased_keys.lacking(note, every) == 0
        # They are gone; then others are erased, then each of them.
        known, note = others - every, erased_keys.noted(note, others - every)
        for number, key in enumerate(sorted(every)):
            if len(every) <= most:
                assert erased_keys.lacking(note, known) == len(every) - number
            elif number < len(every) - len(others):
                assert erased_keys.lacking(note, known)
            known |= {key}
            note = erased_keys.noted(note, known)
        assert erased_keys.lacking(note, known) == 0


@pytest.mark.spark
@pytest.mark.slow
def test_an_erased_key_is_in_no_file_and_no_older_event_brings_it_back(
    make_project: MakeProject, spark: SparkSession, tmp_path: Path
) -> None:
    sale = table_of("sale", {"sale_id": "bigint", "note": "string"}, ["sale_id"], history=True)
    columns = {"mail": "string", "region": "string", "text": "string"}
    options = {"table_type": "cow", "partition_by": ["region"], "history": True}
    visit = protected("visit", columns, ["mail"], {"mail": "hash"}, **options)
    project = make_project({"tables": [sale, visit]})
    salted(project)
    first = [sold("c", 10, GONE, f"{CANARY} 1"), sold("c", 11, KEPT, "one"),
             sold("u", 12, GONE, UNAVAILABLE_VALUE), {**sold("u", 13, GONE), "__op": f"{CANARY} z"}]  # fmt: skip
    project.deliver("shop.sale", 0, [*first, sold("u", 14, 7, UNAVAILABLE_VALUE), "{" + CANARY[:4]])
    visits = [met("c", 10, CANARY, "a", "rare words 1"), met("c", 11, "other", "a", "o")]
    project.deliver("shop.visit", 0, visits)
    project.land_well(spark)
    project.deliver("shop.sale", 6, [sold("u", 20, GONE, f"{CANARY} 2"), sold("u", 21, KEPT, "two")])
    project.deliver("shop.visit", 2, [met("u", 20, CANARY, "a", "rare words 2"), met("u", 21, "other", "b", "moved")])
    project.land_well(spark)
    lake = lake_of(spark, project)
    assert holds(lake, str(GONE), CANARY, "rare words")
    before = project.state(spark, "sale")

    keys = tmp_path / "keys"
    keys.write_text(f"sale_id={GONE}\n\n", encoding="utf-8")
    told = json.loads(lake_command(project, "erase", "shop", "--table", "sale", "--keys", keys, "--json").stdout)
    assert [(place["rows"], place["holding"]) for place in told["places"]] == [(1, []), (3, []), (1, [])]
    assert (told["keys"], told["unsearched_events"], told["waiting"]) == (1, 1, 0)
    assert all(place["files"] for place in told["places"])
    (sales, met_people) = project.source().tables
    erasure = erase(spark, met_people, [parse_key(met_people, f"mail={CANARY}")])
    assert [(place.rows, place.holding) for place in erasure.places] == [(1, ()), (2, ()), (0, ())]
    assert not holds(lake, str(GONE), CANARY, "rare words", hashed(CANARY))
    assert [row["line"] for row in project.quarantined(spark)] == [4, 5]
    assert project.rows(spark, "sale") == [{"sale_id": KEPT, "note": "two"}]
    assert project.rows(spark, "visit", "text") == [{"text": "moved"}]
    after = project.state(spark, "sale")
    assert (after.position, after.watermark, after.totals) == (before.position, before.watermark, before.totals)

    project.deliver("shop.sale", 0, [*first, sold("u", 22, KEPT, "three")])
    project.deliver("shop.visit", 4, [*visits, met("c", 30, CANARY, "a", "new life")])
    landed = project.land_well(spark)
    assert landed["sale"].counts == Counts(read=5, applied=1, duplicate=0, superseded=1, ignored=3)
    assert landed["visit"].counts == Counts(read=3, applied=1, superseded=1, ignored=1)
    assert not holds(lake, str(GONE), CANARY, "rare words")
    assert {row["text"] for row in project.rows(spark, "visit", "text")} == {"new life", "moved"}
    assert replay(spark, sales).counts.applied == 0
    for wrong in ("7.5", "x", "99999999999999999999"):
        with pytest.raises(InputError, match="1 of 1 keys have a sale_id that is not exactly a bigint"):
            erase(spark, sales, [(wrong,)])


@pytest.mark.spark
@pytest.mark.slow
def test_an_erased_key_is_looked_for_in_files_from_before_its_columns_were_widened(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """The history's older months keep their types, and Spark reads no int as a bigint."""
    project = make_project({"tables": []})
    for number, (kind, day) in enumerate((("int", 1), ("bigint", 40))):
        columns = {"sale_id": kind, "n": kind}
        project.declare({"tables": [table_of("sale", columns, ["sale_id"], history=True)]})
        at = 1_700_000_000_000 + day * 86_400_000
        sales = [pg("cu"[number], 10 + number, sale_id=sale_id, n=1, __source_ts_ms=at) for sale_id in (GONE, KEPT)]
        project.deliver("shop.sale", 10 * number, [*sales, "{broken"])
        project.land_well(spark)
    (table,) = project.source().tables
    erasure = erase(spark, table, [(str(GONE),)])
    assert [(place.rows, place.holding) for place in erasure.places] == [(1, ()), (2, ()), (0, ())]
    assert project.rows(spark, "sale", "sale_id") == [{"sale_id": KEPT}]


@pytest.mark.spark
@pytest.mark.slow
def test_a_key_of_one_digit_is_not_found_in_what_hudi_says_of_a_folder(
    make_project: MakeProject, spark: SparkSession
) -> None:
    project = make_project({"tables": [table_of("sale", {"sale_id": "bigint", "note": "string"}, ["sale_id"])]})
    project.deliver("shop.sale", 0, [sold("c", 10 + sale_id, sale_id) for sale_id in range(10)])
    project.land_well(spark)
    (sales,) = project.source().tables
    erasure = erase(spark, sales, [(str(sale_id),) for sale_id in range(9)])
    assert (erasure.places[0].rows, erasure.holding) == (9, ())
    assert project.rows(spark, "sale", "sale_id") == [{"sale_id": 9}]


def lake_command(project: DbtProject, *arguments: str | Path, code: int = 0) -> Result:
    """Runs a command in this process."""
    everything = [*map(str, arguments), "--project-dir", str(project.root)]
    result = CliRunner().invoke(app, everything, env={"COLUMNS": "240"})
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


def test_a_file_of_keys_is_a_text_in_utf_8(make_project: MakeProject, tmp_path: Path) -> None:
    """A byte order mark, as editors on Windows write it, is none of the first key; U+2028 in a text ends no line."""
    project, file = make_project({"tables": [table_of("x", {"a": "string"}, ["a"])]}), tmp_path / "keys.txt"
    file.write_text('["Jos\u00e9\u2028"]\r\n\na=b\n', encoding="utf-8-sig")
    assert list(lines_of(file)) == [('["Jos\u00e9\u2028"]', f"{file}, line 1"), ("a=b", f"{file}, line 3")]
    file.write_text(f"a=b\n\n{CANARY}\n", encoding="utf-8")
    told = lake_command(project, "erase", "shop", "--table", "x", "--keys", file, code=1).output
    assert "keys.txt, line 3: a key of x cannot be read" in told
    assert CANARY not in told
    file.write_text("a=Jos\u00e9", encoding="latin-1")
    told = lake_command(project, "erase", "shop", "--table", "x", "--keys", file, code=1).output
    assert "keys.txt: is no text in UTF-8" in told


def test_a_key_is_a_list_or_pairs(make_project: MakeProject) -> None:
    (table,) = make_project({"tables": [table_of("x", {"a": "string", "b": "int"}, ["a", "b"])]}).source().tables
    for text, key in (('["x, b=1", 2]', ("x, b=1", "2")), ("b=2,a=x", ("x", "2")), ("a=x, y,b=2", ("x, y", "2")),
                      ("[null, 2]", (None, "2")), ("a=,b=2", ("", "2")),
                      ("[12345678901234567.89, 2]", ("12345678901234567.89", "2"))):  # fmt: skip
        assert parse_key(table, text) == key
    for text in (CANARY, "[1]", f'["{CANARY}", {{}}]', f"a={CANARY}", f"[{CANARY}", "[1,2,3]", '"x"'):
        with pytest.raises(InputError, match=r"a JSON list of a, b, or a=\.\.\.,b=") as error:
            parse_key(table, text)
        assert CANARY not in error.value.message
    (keyless,) = make_project({"tables": [table_of("x", {"a": "string"}, [])]}).source().tables
    with pytest.raises(InputError, match="has no key that rows could be found by"):
        parse_key(keyless, "a=x")


@pytest.mark.parametrize(
    ("columns", "policies", "options", "told"),
    [
        ({"a": "int", "b": "int"}, {"a": "exclude"}, {}, "column 'a' is excluded, and key names it"),
        ({"a": "int", "b": "string"}, {"b": "exclude"}, {"partition_by": ["b"]}, "partition_by names it"),
        ({"a": "int", "b": "bigint"}, {"b": "exclude"}, {"order_by": ["b"]}, "order_by names it"),
        ({"a": "int", "b": "bigint"}, {"b": "hash"}, {"order_by": ["b"]}, "hashes have no order"),
        ({"a": "int", "b": "string"}, {"b": "hash"}, {"partition_by": ["b"]}, "each value would be a partition"),
        ({"a": "int", "b": "double"}, {"b": "hash"}, {}, "policy is hash, of a double"),
        ({"a": "int", "b": "array<int>"}, {"b": "hash"}, {}, "policy is hash, of a array<int>"),
        ({"a": "int", "b": "int"}, {"b": "drop"}, {}, "policy is 'drop'"),
        ({"a": "int", "b": "int", "B": "int"}, {"B": "exclude"}, {}, "differs from another by case alone"),
    ],
)
def test_policies_that_cannot_be_meant_are_refused(
    make_project: MakeProject,
    columns: dict[str, str],
    policies: dict[str, str],
    options: dict[str, Any],
    told: str,
) -> None:
    project = make_project({"tables": [protected("t", columns, ["a"], policies, **options)]})
    salted(project)
    with pytest.raises(DeclarationError) as error:
        project.source()
    assert told in error.value.message


def test_hashes_need_a_salt_from_the_environment(make_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project({"tables": [protected("t", {"a": "int", "b": "int"}, ["a"], {"b": "hash"})]})
    with pytest.raises(DeclarationError, match="needs a salt, and the connection 'files' has none"):
        project.source()
    salted(project)
    assert SALT not in f"{project.source()!r}"
    monkeypatch.setenv("LAKE_TEST_SALT", "")
    with pytest.raises(DeclarationError, match="needs a salt"):
        project.source()
    monkeypatch.delenv("LAKE_TEST_SALT")
    with pytest.raises(DeclarationError, match="LAKE_TEST_SALT is not set"):
        project.source()
    written = {"type": "files", "path": "x", "hash_salt": SALT}
    (project.root / "connections.yml").write_text(yaml.safe_dump({"files": written}), encoding="utf-8")
    with pytest.raises(DeclarationError, match="hash_salt is written into the file") as error:
        project.source()
    assert SALT not in error.value.message


@pytest.mark.parametrize(
    "template",
    [
        "{{ env_var('CANARY_SECRET').nothing }}",
        "{{ env_var('CANARY_SECRET') + 1 }}",
        "{{ var(env_var('CANARY_SECRET')) }}",
        "{{ target[env_var('CANARY_SECRET')] }}",
        "{{ env_var('CANARY_SECRET').encode(env_var('CANARY_SECRET')) }}",
        "{{ env_var.__self__ }}",
        "{{ var.__func__.__globals__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ (''|attr('format'))|attr('__self__') }}",
        "{% include 'dbt_project.yml' %}",
        "{% import 'os' as os %}",
        "{{ self.__init__ }}",
        "{{ lipsum.__globals__ }}{{ cycler }}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{{ [].append(1) }}",
    ],
)
def test_a_template_runs_no_code_and_its_error_tells_no_secret(
    template: str, make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = f"{CANARY} secret"
    monkeypatch.setenv("CANARY_SECRET", secret)
    for place in ("topic", "connection"):
        project = make_project({"tables": [table_of("t", {"a": "int"}, ["a"], **{place: template})]})
        with pytest.raises(DeclarationError) as error:
            project.source()
        whole = "".join(traceback.format_exception(error.value))
        assert secret not in whole
        assert "cannot be rendered" in error.value.message or "None" in error.value.message
    for unknown in ("wachtwort", "user_name", "registry"):
        (project.root / "connections.yml").write_text(
            yaml.safe_dump({"files": {"type": "files", "path": "x", unknown: "{{ env_var('CANARY_SECRET') }}"}})
        )
        with pytest.raises(DeclarationError) as error:
            project.source()
        assert secret not in "".join(traceback.format_exception(error.value))


@pytest.mark.spark
@pytest.mark.slow
def test_what_silver_has_in_plain_is_not_mixed_with_hashes_and_hashes_are_compared(
    make_project: MakeProject, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"id": "int", "mail": "string", "at": "timestamp", "tax": "string"}
    project = make_project({"tables": [protected("t", columns, ["id"], {"mail": "hash", "at": "hash"})]})
    salted(project)
    rows: list[Row] = [
        {"id": 1, "mail": "a@b", "at": 1_500_000_000_000_001, "tax": "x"},
        {"id": 2, "mail": None, "at": None},
    ]
    project.deliver("shop.t", 0, [pg("c", 10 + row["id"], **{"tax": None, **row}) for row in rows])
    project.land_well(spark)
    (source_file,) = [tmp_path / "t.csv"]
    source_file.write_text("id,mail,at,tax\n1,a@b,2017-07-14T02:40:00.000001Z,x\n2,\\N,\\N,\\N\n", encoding="utf-8")
    (table,) = project.source().tables
    assert reconcile(spark, table, against=tmp_path).told == "equal"
    source_file.write_text("id,mail,at,tax\n1,A@b,2017-07-14T02:40:00.000001Z,x\n2,\\N,\\N,\\N\n", encoding="utf-8")
    (difference,) = reconcile(spark, table, against=tmp_path).differences
    assert difference.columns == ("mail",)

    project.deliver("shop.t", 2, [pg("c", 20, id=3, mail="c", at=None, tax="y")])
    for policies, told in (
        ({"mail": "hash"}, "at: declared plain, hashed in silver"),
        ({"mail": "hash", "at": "hash", "tax": "hash"}, "tax: declared hashed, plain in silver"),
        ({"mail": "hash", "at": "hash", "tax": "exclude"}, "tax: not declared, a string in silver"),
        ({"mail": "exclude", "at": "hash"}, "mail: not declared, a string in silver"),
    ):
        project.declare({"tables": [protected("t", columns, ["id"], policies)]})
        error = project.land(spark)["t"].error
        assert error is not None
        assert told in error.message
    project.declare({"tables": [protected("t", columns, ["id"], {"mail": "hash", "at": "hash"})]})
    monkeypatch.setenv("LAKE_TEST_SALT", "another salt")
    error = project.land(spark)["t"].error
    assert error is not None
    assert "hash_salt is not the one" in error.message
    assert "another salt" not in error.message
    monkeypatch.setenv("LAKE_TEST_SALT", SALT)
    project.land_well(spark)
    assert [row["mail"] for row in project.rows(spark, "t")] == [hashed("a@b"), None, hashed("c")]


COMMANDS = """
import sys, traceback
from ingest.cli.app import app
for command in (["check"], ["ingest"], ["ingest", "--json"], ["plan", "--json"], ["status", "--json"], ["reconcile"],
                ["quarantine", "show"]):
    try:
        print(command, app([*command, "shop", "--debug", "--project-dir", sys.argv[1]], standalone_mode=False))
    except Exception:
        traceback.print_exc()
"""


@pytest.mark.spark
@pytest.mark.slow
def test_secrets_stand_in_no_file_no_output_and_no_process_list(make_project: MakeProject, tmp_path: Path) -> None:
    """A process of its own, with Spark's event log: its files, what it says, and what the machine's users see of it."""
    people = protected("person", COLUMNS, ["person_id"], POLICIES, database={"connection": "db", "table": "public.p"})
    project = make_project({"tables": [people, table_of("record", {"id": "int"}, ["id"])]})
    home, log = tmp_path / "home", tmp_path / "events"
    log.mkdir()
    template = "{{ env_var('CANARY_SECRET') }}"
    connections = {
        "files": {"type": "files", "path": str(project.bronze), "hash_salt": template,
                  "registry": {"url": "http://127.0.0.1:9", "username": "lake", "password": template}},
        "db": {"type": "jdbc", "url": "jdbc:postgresql://127.0.0.1:9/shop", "user": "lake", "password": template},
    }  # fmt: skip
    (project.root / "connections.yml").write_text(yaml.safe_dump(connections), encoding="utf-8")
    profiles = yaml.safe_load((project.root / "profiles.yml").read_text(encoding="utf-8"))
    parameters = profiles["lakehouse"]["outputs"]["dev"]["server_side_parameters"]
    parameters |= {"spark.hadoop.fs.s3a.secret.key": template, "spark.eventLog.enabled": "true",
                   "spark.eventLog.dir": log.as_uri()}  # fmt: skip
    (project.root / "profiles.yml").write_text(yaml.safe_dump(profiles), encoding="utf-8")
    project.deliver("shop.person", 0, events())
    project.deliver("shop.record", 0, records(b"\0\0\0\0\1rest"), "parquet")

    secret = f"{CANARY}-secret"
    said = tmp_path / "said"
    seen: set[str] = set()
    environment = {
        **os.environ,
        "LAKE_HOME": str(home),
        "COLUMNS": "400",
        "CANARY_SECRET": secret,
        "PYTHONPATH": str(REPOSITORY),
    }
    with said.open("wb") as file:
        command = [sys.executable, "-c", COMMANDS, str(project.root)]
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file, cwd=project.root)
        while process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    seen.add(" ".join(child.cmdline()))
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.2)
    text = said.read_text(encoding="utf-8")
    assert "HTTP" in text or "registry" in text
    assert "the schema registry cannot be reached" in text
    assert "Connection to 127.0.0.1:9 refused" in text, "the database's error is told"
    assert "is not shown (policy: hash)" in text, "the quarantine is shown"
    assert CANARY not in text
    assert any("spark.driver.memory" in line for line in seen), "the process list was seen"
    assert not [line for line in seen if CANARY in line]
    assert any(path.stat().st_size for path in log.iterdir())
    assert not holds(home, CANARY)
    # What HMAC makes of the salt would show it as well: as literals of a plan, in hexadecimal digits.
    assert not holds(log, CANARY, *(bytes(byte ^ pad for byte in secret.encode()).hex() for pad in (0x36, 0x5C)))
