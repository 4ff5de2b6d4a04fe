"""Names of columns: those of silver, or refused with a reason; and they hold their values."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DbtProject, MakeProject, Row, pg, table_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_records import connect, connect_struct, with_schema
from pyspark.sql import SparkSession

from ingest.errors import DeclarationError
from ingest.silver.state import Counts

_LETTERS = [*"abzAZ019_ .`'\"-,:;$%&()[]{}\\/\n\tüßéÅ名字жא\u0661\u00b2\u00aa", "select", "_lake_file", "--", "/*"]
NAMES = st.lists(st.sampled_from(_LETTERS), min_size=1, max_size=4).map("".join)
KEYWORDS = ("select", "from", "where", "order", "table", "null", "timestamp", "map", "after", "op", "source", "key",
            "value", "position", "file", "_id", "ts_ms", "payload")  # fmt: skip


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(name=NAMES)
def test_a_name_of_a_column_is_one_of_silver_or_refused_with_a_reason(name: str, make_project: MakeProject) -> None:
    project = ODD.setdefault("project", make_project()) if not ODD else ODD["project"]
    project.declare({"tables": [table_of("t", {"id": "int", name: "string"}, ["id"])]})
    try:
        (table,) = project.source().tables
    except DeclarationError as error:
        assert "column" in error.message or "reserved" in error.message or "adds itself" in error.message
        return
    LANDED.add(name)
    assert name in [column.name for column in table.columns]


@pytest.mark.parametrize("name", ["", "\U00020bb7\u91ce\u5bb6", "_HOODIE_commit_time"])
def test_a_name_that_hudi_cannot_have_is_refused(name: str, make_project: MakeProject) -> None:
    project = make_project({"tables": [table_of("t", {"id": "int", name: "string"}, ["id"])]})
    with pytest.raises(DeclarationError, match="name"):
        project.source()


ODD: dict[str, DbtProject] = {}
LANDED: set[str] = set(KEYWORDS)


def _envelope(row: Row, lsn: int) -> Row:
    """A create as a whole envelope."""
    source = {
        "version": "3.0",
        "name": "shop",
        "db": "shop",
        "schema": "public",
        "table": "named",
        "ts_ms": 1,
        "lsn": lsn,
    }
    return {"before": None, "after": row, "source": source, "op": "c", "ts_ms": 2}


@pytest.mark.spark
@pytest.mark.slow
def test_names_that_are_not_refused_hold_their_values(make_project: MakeProject, spark: SparkSession) -> None:
    """Those that the property above let through, keywords, and a few by hand: as columns, and as the key."""
    names = {name.lower(): name for name in sorted({*LANDED, "größe", "名前", "ñ", "id2"}) if name.lower() != "id"}
    columns = {"id": "int", **dict.fromkeys(names.values(), "string")}
    keyed = {"größe": "string", "select": "int", "from": "string"}
    by_name = table_of("by_name", keyed, ["größe", "select"], partition_by=["from"])
    project = make_project({"tables": [table_of("named", columns, ["id"]), by_name]})
    row = {name: f"value of {name}" for name in names.values()}
    project.deliver("shop.named", 0, [{**pg("c", 1, id=1), **row}, _envelope({"id": 2, **row}, lsn=2)])
    odd = ("a b", "q`q", 'a"b', "a.b", "1st", "x'; drop", "Paid?", "customer's name", "_lake_file")
    key = {"größe": "é", "select": 1}
    lines = [{**pg("c", 1), **key, "from": "a/b c'd"}]
    lines += [{**pg("u", lsn), **key, "from": "b", name: "x"} for lsn, name in enumerate(odd, 2)]
    project.deliver("shop.by_name", 0, lines)
    results = project.land_well(spark)
    assert results["by_name"].counts == Counts(read=1 + len(odd), applied=1, quarantined=len(odd))
    assert all("silver cannot have a column of that name" in row["reason"] for row in project.quarantined(spark))
    quoted = [f"`{name}`" for name in columns]
    assert project.rows(spark, "named", *quoted) == [{"id": 1, **row}, {"id": 2, **row}]
    assert project.rows(spark, "by_name") == [{"größe": "é", "select": 1, "from": "a/b c'd"}]


# Of tables with the columns id, name and version: what is delivered, and what silver has of it.
CASES: dict[str, tuple[list[Row], list[Row]]] = {
    "columns that the envelope's source has as well": (
        [{"id": 1, "Name": "Ada", "Version": "v1"}, {"id": 2, "Name": "Bob", "VERSION": None}],
        [{"id": 1, "name": "Ada", "version": "v1"}, {"id": 2, "name": "Bob", "version": None}],
    ),
    "the key": ([{"ID": 1, "NAME": "Ada"}], [{"id": 1, "name": "Ada", "version": None}]),
    "among others": (
        [{"id": 1, "name": "Ada"}, {"Id": 2, "naMe": "Bob"}],
        [{"id": 1, "name": "Ada", "version": None}, {"id": 2, "name": "Bob", "version": None}],
    ),
    "beside its own name, which counts": (
        [{"id": 1, "name": None, "NAME": "Ada"}, {"id": 2, "NAME": "Bob"}],
        [{"id": 1, "name": None, "version": None}, {"id": 2, "name": "Bob", "version": None}],
    ),
}


FORMS: dict[str, dict[str, Any]] = {
    "envelope": {}, "described": {}, "flat": {}, "keep": {"schema_policy": {"add": "keep"}},
}  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize(
    "forms", [("flat",), pytest.param(("keep", "envelope", "described"), marks=pytest.mark.slow)], ids="+".join
)
def test_names_that_differ_by_case_alone_are_the_same(
    forms: tuple[str, ...], make_project: MakeProject, spark: SparkSession
) -> None:
    """In envelopes and unwrapped events, with a schema or not, and of a delete's row."""
    columns = {"id": "int", "name": "string", "version": "string"}
    names = {f"{form}_{number}": case for form in forms for number, case in enumerate(CASES)}
    tables = [table_of(name, columns, ["id"], **FORMS[name.partition("_")[0]]) for name in names]
    gone = {"before": {"ID": 3, "NAME": "Eve"}, "after": None, "op": "d",
            "source": {"name": "shop", "version": "3", "file": "bin.1", "pos": 4, "row": 0}}  # fmt: skip
    project = make_project({"tables": [*tables, table_of("gone", columns, ["id"], connector="mariadb")]})
    for name, case in names.items():
        rows = enumerate(CASES[case][0])
        if name.startswith("envelope"):
            project.deliver(f"shop.{name}", 0, [_envelope(row, lsn) for lsn, row in rows])
        elif name.startswith("described"):
            kinds = {"id": connect("int32")}
            events = [
                with_schema({**pg("c", lsn), **row}, {key: kinds.get(key.lower(), connect("string")) for key in row})
                for lsn, row in rows
            ]
            project.deliver(f"shop.{name}", 0, events)
        else:
            project.deliver(f"shop.{name}", 0, [{**pg("c", lsn), **row} for lsn, row in rows])
    project.deliver("shop.gone", 0, [gone])
    project.land_well(spark)
    found = {name: project.rows(spark, name) for name in names}
    assert found == {name: CASES[case][1] for name, case in names.items()}
    assert project.rows(spark, "gone", *columns, live=False) == [{"id": 3, "name": "Eve", "version": None}]


@pytest.mark.spark
@pytest.mark.parametrize("form", [pytest.param("json", marks=pytest.mark.slow), "json with a schema"])
def test_a_column_that_is_named_as_metadata_is_not_passed_over(
    form: str, make_project: MakeProject, spark: SparkSession
) -> None:
    """In an envelope's row it can be no metadata; beside the columns of an unwrapped event it is."""
    kinds = {"id": connect("int32"), "name": connect("string"), "__v": connect("int64")}
    columns = {"id": "int", "name": "string"}
    tables = [table_of("row", columns, ["id"]), table_of("left_out", columns, ["id"], schema_policy={"add": "keep"})]
    project = make_project({"tables": [*tables, table_of("flat", columns, ["id"])]})
    rows = [{"id": 1, "name": "Ada", "__v": None}, {"id": 2, "name": "Bob", "__v": 7}]
    for name in ("row", "left_out", "flat"):
        events = [{**pg("c", lsn), **row} if name == "flat" else _envelope(row, lsn) for lsn, row in enumerate(rows)]
        described = form == "json with a schema"
        project.deliver(f"shop.{name}", 0, [with_schema(event, kinds) for event in events] if described else events)
    project.land_well(spark)
    (reason,) = [row["reason"] for row in project.quarantined(spark)]
    assert "field '__v': silver cannot have a column of that name" in reason
    both = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}]
    assert {name: project.rows(spark, name) for name in ("row", "left_out", "flat")} == {
        "row": both[:1],
        "left_out": both,
        "flat": both,
    }


@pytest.mark.slow
@pytest.mark.spark
def test_columns_that_are_named_as_an_envelope_s_members_are_a_row_s(
    make_project: MakeProject, spark: SparkSession
) -> None:
    """Where the event says that it is unwrapped, as JSON without a schema does: all of it was quarantined."""
    kinds = {"id": "int32", "op": "string", "source": "string", "after": "string", "__op": "string", "__lsn": "int64"}
    types = {"int32": ("int", pa.int32()), "string": ("string", pa.string()), "int64": ("long", pa.int64())}
    row = {"id": 1, "op": "plus", "source": "web", "after": "lunch"}
    event = {**row, "__op": "c", "__lsn": 1}
    described = {"schema": connect_struct({name: connect(kind) for name, kind in kinds.items()}), "payload": event}
    avro, parquet = io.BytesIO(), io.BytesIO()
    fields = [{"name": name, "type": ["null", types[kind][0]]} for name, kind in kinds.items()]
    fastavro.writer(avro, {"type": "record", "name": "Value", "fields": fields}, [event])
    schema = pa.schema([(name, types[kind][1]) for name, kind in kinds.items()])
    pq.write_table(pa.Table.from_pylist([event], schema), parquet)
    columns = {name: types[kinds[name]][0] for name in row}
    forms = ("plain", "described", "avro", "parquet")
    project = make_project({"tables": [table_of(name, columns, ["id"]) for name in forms]})
    project.deliver("shop.plain", 0, [event])
    project.deliver("shop.described", 0, [described])
    project.deliver("shop.avro", 0, avro.getvalue(), "avro")
    project.deliver("shop.parquet", 0, parquet.getvalue(), "parquet")
    project.land_well(spark)
    assert {name: project.rows(spark, name) for name in forms} == {name: [row] for name in forms}
