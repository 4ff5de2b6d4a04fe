"""What must not be written is written nowhere: column policies, erased keys, secrets; and declarations run no code."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pytest
import yaml
from conftest import DbtProject, MakeProject, Row, new_project, pg, table_of
from pyspark.sql import SparkSession

from ingest.decode.columns import UNAVAILABLE_VALUE
from ingest.erase import erase, parse_key
from ingest.runner import replay
from ingest.silver import Counts

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
    connection = {"type": "files", "path": str(project.bronze), "hash_salt": f"{{{{ env_var('{variable}') }}}}"}
    (project.root / "connections.yml").write_text(yaml.safe_dump({"files": connection}), encoding="utf-8")


@pytest.fixture(autouse=True)
def _salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_TEST_SALT", SALT)


def holds(spark: SparkSession, folder: Path, *texts: str) -> list[str]:
    """Files below a folder that hold a text: in their bytes, or in what Spark reads of a Parquet file."""
    found = []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes().lower()
        if path.suffix == ".parquet":
            rows = spark.read.parquet(f"file:{path}")
            text = [f"decode({name}, 'UTF-8')" if kind == "binary" else f"cast({name} as string)"
                    for name, kind in ((f"`{n}`", k) for n, k in rows.dtypes)]  # fmt: skip
            joined = rows.selectExpr(f"concat_ws(' ', {', '.join(text)}) as line").collect()
            content += "\n".join(row["line"] for row in joined).lower().encode()
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
    """The same, as Kafka Connect writes it with its schema."""
    fields = [{"field": "tax", "type": "string", "default": CANARY}]
    return {"schema": {"type": "struct", "fields": fields}, "payload": event}


def avro(rows: Sequence[Row]) -> bytes:
    """An Avro object file of unwrapped events; what is no number is a text."""
    names = {name: "int" if name == "person_id" else "long" if name in ("__lsn", "__source_ts_ms") else "string"
             for name in rows[0]}  # fmt: skip
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in names.items()]
    schema = {"type": "record", "name": "Value", "namespace": "shop.person", "fields": fields}
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(schema), rows)
    return sink.getvalue()


BAD = ("a value that is no number", "lacks a value", "no object", "an operation that is none")


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


def expected(**mails: str) -> list[Row]:
    return []


@pytest.mark.spark
def test_protected_values_are_written_nowhere_and_replayed_events_have_the_same_hashes(
    make_project: MakeProject, spark: SparkSession
) -> None:
    people = protected("person", COLUMNS, ["person_id"], POLICIES)
    typed = protected("typed", COLUMNS, ["person_id"], POLICIES, table_type="cow")
    by_mail = protected("by_mail", {"mail": "string", "visits": "int"}, ["mail"], {"mail": "hash"})
    project = make_project({"tables": [people, typed, by_mail]})
    salted(project)
    project.deliver("shop.person", 0, events())
    texts = [{**person("c", 10, 1), "pay": "10.5"}, {**person("c", 11, 2), "pay": CANARY},
             {**person("u", 12, 3), "note": UNAVAILABLE_VALUE}]  # fmt: skip
    project.deliver("shop.typed", 0, avro(texts), "avro")
    project.deliver("shop.by_mail", 0, [pg("c", 1, mail=CANARY, visits=1), pg("c", 2, mail="other", visits=1)])
    landed = project.land_well(spark)
    assert landed["person"].counts == Counts(read=9, applied=5, quarantined=4)
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
    assert len(quarantined) == 6
    reasons = {row["reason"] for row in quarantined}
    assert any("pay: a value that is not exactly a decimal(10,2), and is not shown" in reason for reason in reasons)
    assert any("not kept" in reason and "HMAC-SHA256" in reason for reason in reasons)
    assert not holds(spark, lake_of(spark, project), CANARY, SALT)

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
    assert len(waiting) == 4, "what was not kept cannot be applied"
    for table in project.source().choose(["person", "typed"]):
        assert replay(spark, table).counts.applied == 0
    again = [(row["file"], row["line"], row["raw"]) for row in project.quarantined(spark)]
    assert again == [(row["file"], row["line"], row["raw"]) for row in waiting]
    assert not holds(spark, lake_of(spark, project), CANARY, SALT)
