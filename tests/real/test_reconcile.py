"""`lake reconcile` against real PostgreSQL and MariaDB servers, whose session time zone is not UTC."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from conftest import REPOSITORY, DbtProject, MakeProject, pg, table_of, unwrapped
from pyspark.sql import SparkSession

from examples import generate
from ingest.config.tables import Table
from ingest.operations.reconcile import Reconciled, reconcile
from real.broker import PASSWORD
from real.conftest import Server

pytestmark = [pytest.mark.spark, pytest.mark.real]

DECLARATION = REPOSITORY / "models" / "staging" / "tickit" / "_tickit__sources.yml"


def connect(project: DbtProject, monkeypatch: pytest.MonkeyPatch, server: Server, **files: str) -> None:
    monkeypatch.setenv("REAL_PASSWORD", PASSWORD)
    database = {"type": "jdbc", "url": server.url, "user": server.user, "password": "{{ env_var('REAL_PASSWORD') }}"}
    connections: dict[str, Any] = {name: {"type": "files", "path": path} for name, path in files.items()}
    text = yaml.safe_dump({**connections, "source_db": database})
    (project.root / "connections.yml").write_text(text, encoding="utf-8")


def compared(project: DbtProject, spark: SparkSession, table: str) -> Reconciled:
    result = reconcile(spark, project.source().choose([table])[0], limit=100)
    assert result.error is None, result.error
    return result


def told(result: Reconciled) -> set[tuple[str, str, tuple[str, ...]]]:
    return {(row.kind, "/".join(str(part) for part in row.key.values()), row.columns) for row in result.differences}


def literal(value: object) -> str:
    if value is None:
        return "null"
    text = str(value).replace("'", "''")
    return text.lower() if isinstance(value, bool) else f"'{text}'"


def fill(server: Server, table: Table, oracle: Path, types: dict[str, str]) -> None:
    rows = pq.read_table(oracle).to_pylist()
    name = table.options.topic.rsplit(".", 1)[-1]
    spelled = {column.name: column.data_type.simpleString() for column in table.columns}
    columns = ", ".join(f"{column} {types.get(spelling, spelling)}" for column, spelling in spelled.items())
    values = ",\n".join("(" + ", ".join(map(literal, row.values())) + ")" for row in rows)
    quote = "`" if "mariadb" in server.url else '"'
    server.run(f"create table {quote}{name}{quote} ({columns}, primary key ({', '.join(table.key)}));\n"
               f"insert into {quote}{name}{quote} values {values};\n")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("server_name", ["postgresql", "mariadb"])
def test_tickit(
    server_name: str,
    make_project: MakeProject,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """The example's tables are equal; then each kind of difference is found, and its key."""
    server: Server = request.getfixturevalue(server_name)
    schema = "public" if server_name == "postgresql" else "shop"
    types = {"string": "text", "timestamp": "timestamp(6)" if schema == "public" else "datetime(6)"}
    (source,) = [
        entry
        for entry in yaml.safe_load(DECLARATION.read_text(encoding="utf-8"))["sources"]
        if entry["name"] == "tickit"
    ]
    source["tables"] = [table for table in source["tables"] if table["name"] in ("sale", "user", "date", "category")]
    for table in source["tables"]:
        ingest = table["config"]["meta"]["ingest"]
        ingest["database"] = {"connection": "source_db", "table": f"{schema}.{ingest['topic'].rsplit('.', 1)[-1]}"}
    project = make_project(source, name="tickit")
    connect(project, monkeypatch, server, tickit_cdc=str(project.bronze))
    generate("tickit", project.root, scale=0.002, form="avro")
    project.land_well(spark)
    tables = project.source().tables
    for declared in tables:
        oracle = project.root / "oracle" / "changes" / f"{declared.options.topic.removeprefix('tickit.')}.parquet"
        fill(server, declared, oracle, types)
    monkeypatch.setattr("ingest.operations.databases.rows._ROWS_A_READ", 50)  # several reads, also of a small table
    for declared in tables:
        result = compared(project, spark, declared.name)
        assert result.equal, (declared.name, told(result))
        assert result.source_rows == result.silver_rows > 0

    keys = [row["salesid"] for row in project.rows(spark, "sale", "salesid")][:4]
    server.run(
        f"update sale set qtysold = qtysold + 1 where salesid = {keys[0]};"
        f"update sale set commission = commission + 0.01 where salesid = {keys[1]};"
        f"delete from sale where salesid = {keys[2]};"
        f"update sale set salesid = 99999999 where salesid = {keys[3]};"
    )
    assert told(compared(project, spark, "sale")) == {
        ("different", str(keys[0]), ("qtysold",)),
        ("different", str(keys[1]), ("commission",)),
        ("extra", str(keys[2]), ()),
        ("extra", str(keys[3]), ()),
        ("missing", "99999999", ()),
    }


AT = datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=UTC)
MICROS = int(AT.timestamp()) * 1_000_000 + AT.microsecond
DAY = (date(1969, 12, 31) - date(1970, 1, 1)).days
LONG = "☃" * 100_000


def test_keys_and_texts_of_postgresql(
    make_project: MakeProject, spark: SparkSession, postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"id": "string", "order": "string", "doc": "string", "price": "decimal(20,4)", "at": "timestamp",
               "zoned": "timestamp", "day": "date", "flag": "boolean", "tags": "array<string>", "weight": "double",
               "small": "float", "note": "string", "filled": "string"}  # fmt: skip
    table = table_of("Order", columns, ["id", "order"], database={"connection": "source_db", "table": "public.Order"})
    project = make_project({"tables": [table]})
    connect(project, monkeypatch, postgresql, files=str(project.bronze))
    uuid = "6f1c0f0e-0000-4000-8000-0000000000{:02d}"
    rows: list[dict[str, Any]] = [
        {"id": uuid.format(number), "order": f"Zürich {number}'", "doc": '{"a":  1}', "price": "1234567890123456.7891",
         "at": MICROS, "zoned": "2024-02-29T23:59:59.123456Z", "day": DAY, "flag": True, "tags": ["a", None, 'b"'],
         "weight": 0.1, "small": 0.5, "note": note, "filled": "ab   "}
        for number, note in enumerate(("", None, LONG))
    ]  # fmt: skip
    project.deliver("shop.Order", 0, [pg("c", 1 + number, **row) for number, row in enumerate(rows)])
    project.land_well(spark)
    values = ",".join(
        f"('{row['id']}', {literal(row['order'])}, '{{\"a\":  1}}', {row['price']}, '2024-02-29 23:59:59.123456', "
        f"'2024-03-01 08:59:59.123456+09', '1969-12-31', true, array['a', null, 'b\"'], 0.1, 0.5, "
        f"{literal(row['note'])}, 'ab')" for row in rows
    )  # fmt: skip
    postgresql.run(
        'create table "Order" (id uuid, "order" text, doc json, price numeric, at timestamp, zoned timestamptz, '
        "day date, flag boolean, tags text[], weight float8, small float4, note text, filled char(5), "
        'primary key (id, "order"));'
        f'insert into "Order" values {values};'
    )
    monkeypatch.setattr("ingest.operations.databases.rows._ROWS_A_READ", 1)
    result = compared(project, spark, "Order")
    assert result.equal, told(result)
    postgresql.run("""update "Order" set note = coalesce(note, '') || case when note is null then '' else '.' end;
                      update "Order" set price = price + 0.00001 where id::text like '%00';""")
    assert {(row.key["id"], row.columns) for row in compared(project, spark, "Order").differences} == {
        (uuid.format(0), ("price", "note")), (uuid.format(1), ("note",)), (uuid.format(2), ("note",))
    }  # fmt: skip


def test_keys_of_mariadb(
    make_project: MakeProject, spark: SparkSession, mariadb: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"id": "decimal(20,0)", "flag": "int", "at": "timestamp", "stamped": "timestamp", "day": "date",
               "price": "decimal(12,4)", "note": "string", "born": "date"}  # fmt: skip
    table = table_of("order", columns, ["id"], connector="mariadb", database={"connection": "source_db"})
    # Twenty digits could be base64 as well.
    table["columns"][0]["config"] = {"meta": {"ingest": {"decimal": "number"}}}
    project = make_project({"tables": [table]})
    connect(project, monkeypatch, mariadb, files=str(project.bronze))
    row = {"id": "18446744073709551615", "flag": 1, "at": MICROS // 1000, "stamped": "2024-02-29T23:59:59Z", "day": DAY,
           "price": "1.0001", "note": "", "born": 0}  # fmt: skip
    position = {"__source_file": "bin.000001", "__source_pos": 4, "__source_row": 0}
    project.deliver("shop.order", 0, [unwrapped("c", position, row)])
    project.land_well(spark)
    mariadb.run(
        "create table `order` (id bigint unsigned primary key, flag tinyint(1), at datetime(3), stamped timestamp, "
        "day date, price decimal(12,4), note longtext, born date not null); set sql_mode = '';"
        "insert into `order` values (18446744073709551615, 1, '2024-02-29 23:59:59.123', '2024-03-01 08:59:59', "
        "'1969-12-31', 1.0001, '', '0000-00-00');"
    )
    result = compared(project, spark, "order")
    assert result.equal, told(result)
    mariadb.run("update `order` set note = null, at = '2024-02-29 23:59:59.124', price = 1.0002")
    assert told(compared(project, spark, "order")) == {
        ("different", "18446744073709551615", ("at", "price", "note"))
    }  # fmt: skip


def test_keys_of_mariadb_may_lie_far_apart(
    make_project: MakeProject, spark: SparkSession, mariadb: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges are parts of the way from the least to the greatest, whose product with their number a bigint has not."""
    database = {"connection": "source_db"}
    project = make_project(
        {"tables": [table_of("far", {"id": "bigint"}, ["id"], connector="mariadb", database=database)]}
    )
    connect(project, monkeypatch, mariadb, files=str(project.bronze))
    keys = [-9 * 10**18, 1, 2, 9 * 10**18]
    position = {"__source_file": "bin.000001", "__source_pos": 4}
    events = [unwrapped("c", {**position, "__source_row": row}, {"id": key}) for row, key in enumerate(keys)]
    project.deliver("shop.far", 0, events)
    project.land_well(spark)
    mariadb.run(
        f"create table far (id bigint primary key); insert into far values {', '.join(f'({key})' for key in keys)};"
    )
    monkeypatch.setattr("ingest.operations.databases.rows._ROWS_A_READ", 1)
    result = compared(project, spark, "far")
    assert (result.equal, result.source_rows) == (True, len(keys)), told(result)


@dataclass(frozen=True)
class Typed:
    """A column: its type in the database and in silver, a value as Debezium writes it, and that and another in SQL."""

    kind: str
    declared: str
    event: Any
    value: str
    other: str
    options: Mapping[str, Any] = field(default_factory=dict)


def bits(**options: Any) -> dict[str, Any]:
    return {"semantic_type": "io.debezium.data.Bits", **options}


def time_of(name: str) -> dict[str, Any]:
    return {"semantic_type": f"io.debezium.time.{name}"}


TO_NULL = {"special_values": "null"}
MORNING = 86_399_123_456  # microseconds of 23:59:59.123456
INTERVAL = 14 * 2_629_800_000_000 + 3 * 86_400_000_000 + 14_706_780_000
UUID = "6f1c0f0e-0000-4000-8000-00000000000a"
# What Debezium writes in its default modes, and with decimal.handling.mode=string: its documentation of the connector,
# "Data type mappings".
OF_POSTGRESQL: Mapping[str, Typed] = {
    "flag": Typed("boolean", "boolean", True, "true", "false"),
    "flag_as_text": Typed("boolean", "string", True, "true", "false"),
    "small": Typed("smallint", "int", -7, "-7", "-8"),
    "large": Typed("bigint", "bigint", 2**63 - 1, "9223372036854775807", "9223372036854775806"),
    "object_id": Typed("oid", "bigint", 4_000_000_000, "4000000000", "4000000001"),
    "number": Typed("numeric", "decimal(20,4)", "1234567890123456.7891", "1234567890123456.7891",
                    "1234567890123456.78911"),
    "widest": Typed("numeric", "decimal(38,2)", "1.25", "1.25", "1.2500000001"),
    "overflowing": Typed("numeric", "decimal(4,2)", None, "null", "12345"),
    "number_as_text": Typed("numeric", "string", "1.50", "1.50", "1.500"),
    "number_as_double": Typed("numeric", "double", 1.5, "1.5", "1.5000001"),
    "scaled": Typed("numeric(10,2)", "decimal(10,2)", "-1.50", "-1.5", "1.5"),
    "nothing": Typed("numeric", "decimal(4,2)", "NaN", "'NaN'", "1", TO_NULL),
    "price": Typed("price", "decimal(8,2)", "1.50", "1.5", "1.51"),  # a domain over a domain
    "coins": Typed("money", "decimal(12,2)", "1234.50", "1234.5", "1234.51"),
    "single": Typed("real", "float", 0.1, "0.1", "0.2"),
    "single_as_double": Typed("real", "double", 0.1, "0.1", "0.2"),
    "double_precision": Typed("double precision", "double", 0.1, "0.1", "0.10000000000000002"),
    "no_number": Typed("double precision", "double", "NaN", "'NaN'", "'Infinity'"),
    "identity": Typed("uuid", "string", UUID, f"'{UUID.upper()}'", f"'{UUID[:-1]}b'"),
    "document": Typed("json", "string", '{"b":  1, "a": 2}', """'{"b":  1, "a": 2}'""", """'{"b": 1, "a": 2}'"""),
    "binary_document": Typed("jsonb", "string", '{"a": 2, "b": 1}', """'{"b":1,"a":2}'""", """'{"b":1,"a":3}'"""),
    "markup": Typed("xml", "string", "<a> b</a>", "'<a> b</a>'", "'<a>b</a>'"),
    "host": Typed("inet", "string", "10.0.0.1", "'10.0.0.1'", "'10.0.0.1/24'"),
    "network": Typed("cidr", "string", "10.0.0.0/8", "'10.0.0.0/8'", "'10.0.0.0/16'"),
    "hardware": Typed("macaddr", "string", "08:00:2b:01:02:03", "'08002b010203'", "'08002b010204'"),
    "mood": Typed("mood", "string", "so so", "'so so'", "'well'"),
    "range": Typed("int4range", "string", "[1,5)", "'[1,4]'", "'[1,5]'"),
    "filled": Typed("char(5)", "string", "ab   ", "'ab'", "'ac'"),
    "limited": Typed("varchar(9)", "string", "a ", "'a '", "'a'"),
    "empty": Typed("text", "string", "", "''", "' '"),
    "bytes": Typed("bytea", "binary", "AP8Q", r"'\x00ff10'", r"'\x00ff1000'"),
    "bytes_as_text": Typed("bytea", "string", "AP8Q", r"'\x00ff10'", r"'\x00ff11'"),
    "bit_one": Typed("bit(1)", "boolean", True, "B'1'", "B'0'"),
    "bit_ten": Typed("bit(10)", "bigint", "AwI=", "B'1000000011'", "B'1000000010'", bits()),
    "bit_bytes": Typed("bit(10)", "binary", "AwI=", "B'1000000011'", "B'0100000011'", bits()),
    "bit_varying": Typed("bit varying(12)", "int", "BQA=", "B'101'", "B'1010'", bits()),
    "day": Typed("date", "date", -1, "'1969-12-31'", "'1970-01-01'"),
    "day_as_number": Typed("date", "int", 19_782, "'2024-02-29'", "'2024-03-01'"),
    "day_as_text": Typed("date", "string", 19_782, "'2024-02-29'", "'2024-03-01'"),
    "day_without_end": Typed("date", "date", 2**31 - 1, "'infinity'", "'2024-03-01'", TO_NULL),
    "at": Typed("timestamp", "timestamp", MICROS, f"'{AT:%F %T.%f}'", "'2024-02-29 23:59:59.123457'"),
    "at_millis": Typed("timestamp(3)", "timestamp", MICROS // 1000, "'2024-02-29 23:59:59.123'",
                       "'2024-02-29 23:59:59.124'", time_of("Timestamp")),
    "at_as_number": Typed("timestamp", "bigint", MICROS, f"'{AT:%F %T.%f}'", "'2024-02-29 23:59:59.123457'"),
    "at_millis_as_number": Typed("timestamp(3)", "bigint", -1, "'1969-12-31 23:59:59.999'",
                                 "'1969-12-31 23:59:59.998'"),
    "without_end": Typed("timestamp", "timestamp", 9_223_372_036_825_200_000, "'infinity'", "'2024-03-01'", TO_NULL),
    "turned_infinite": Typed("timestamp", "timestamp", None, "null", "'-infinity'"),
    "zoned": Typed("timestamptz", "timestamp", "2024-02-29T23:59:59.123456Z", "'2024-03-01 08:59:59.123456+09'",
                   "'2024-03-01 08:59:59.123456+08'"),
    "zoned_as_text": Typed("timestamptz", "string", "2024-02-29T23:59:59.500000Z", "'2024-03-01 08:59:59.5+09'",
                           "'2024-03-01 08:59:59.500001+09'"),
    "clock": Typed("time", "string", MORNING, "'23:59:59.123456'", "'23:59:59.123457'", time_of("MicroTime")),
    "clock_undeclared": Typed("time", "string", MORNING, "'23:59:59.123456'", "'23:59:59.123457'"),
    "clock_as_number": Typed("time", "bigint", 86_400_000_000, "'24:00:00'", "'23:59:59'"),
    "clock_millis": Typed("time(3)", "int", 500, "'00:00:00.5'", "'00:00:00.501'", time_of("Time")),
    "zoned_clock": Typed("timetz", "string", "15:04:05.5Z", "'17:04:05.5+02'", "'17:04:05.5+01'"),
    "duration": Typed("interval", "bigint", INTERVAL, "'14 months 3 days 04:05:06.78'",
                      "'14 months 3 days 04:05:06.780001'"),
    "duration_as_text": Typed("interval", "string", "P1Y2M3DT4H5M6.78S", "'14 months 3 days 04:05:06.78'",
                              "'13 months 33 days 04:05:06.78'"),
    "duration_back": Typed("interval", "string", "P0Y-1M3DT-4H0M-0.5S", "'-1 months 3 days -04:00:00.5'",
                           "'-1 months 3 days -04:00:00.4'"),
    "texts": Typed("text[]", "array<string>", ["a", None, 'b"', ""], """array['a', null, 'b"', '']""",
                   """array[null, 'a', 'b"', '']"""),
    "no_texts": Typed("text[]", "array<string>", [], "'{}'", "array[null]"),
    "texts_as_json": Typed("text[]", "string", ["a", None], "array['a', null]", "array['a']"),
    "numbers": Typed("int[]", "array<int>", [1, None, 3], "'{1,null,3}'", "'{1,3,null}'"),
    "flags": Typed("boolean[]", "array<boolean>", [True, False], "'{t,f}'", "'{t,t}'"),
    "decimals": Typed("numeric(10,2)[]", "array<decimal(10,2)>", ["1.50", None], "'{1.5,null}'", "'{1.51,null}'"),
    "decimals_too_fine": Typed("numeric[]", "array<decimal(4,2)>", ["1.50"], "'{1.5}'", "'{1.501}'"),
    "doubles": Typed("float8[]", "array<double>", [0.1, None], "'{0.1,null}'", "'{0.10000000000000002,null}'"),
    "singles": Typed("float4[]", "array<double>", [0.1], "'{0.1}'", "'{0.2}'"),
    "identities": Typed("uuid[]", "array<string>", [UUID], f"array['{UUID}'::uuid]", "'{}'"),
    "documents": Typed("jsonb[]", "array<string>", ['{"a": 1}'], """array['{"a":1}'::jsonb]""",
                       """array['{"a":2}'::jsonb]"""),
    "pieces": Typed("bytea[]", "array<binary>", ["AP8Q", None], r"array['\x00ff10'::bytea, null]",
                    r"array['\x00ff11'::bytea, null]"),
    "days": Typed("date[]", "array<date>", [-1, None], "'{1969-12-31,null}'", "'{1969-12-30,null}'"),
    "moments": Typed("timestamp[]", "array<timestamp>", [MICROS], f"array['{AT:%F %T.%f}'::timestamp]",
                     "array['2024-02-29 23:59:59.123457'::timestamp]"),
    "zoned_moments": Typed("timestamptz[]", "array<timestamp>", ["2024-02-29T23:59:59.123456Z"],
                           "array['2024-02-29 23:59:59.123456+00'::timestamptz]",
                           "array['2024-02-29 23:59:59.123457+00'::timestamptz]"),
    "clocks": Typed("time[]", "array<string>", [MORNING], "'{23:59:59.123456}'", "'{23:59:59.123457}'",
                    time_of("MicroTime")),
}  # fmt: skip
# The same of MariaDB; a bigint unsigned as a long, which wraps.
OF_MARIADB: Mapping[str, Typed] = {
    "flag": Typed("tinyint(1)", "int", 1, "1", "2"),
    "flag_as_boolean": Typed("tinyint(1)", "boolean", 1, "true", "false"),
    "flag_out_of_range": Typed("tinyint(1)", "boolean", None, "null", "5"),
    "medium": Typed("mediumint", "int", -8_388_608, "-8388608", "-8388607"),
    "whole": Typed("int unsigned", "bigint", 4_294_967_295, "4294967295", "4294967294"),
    "filled_number": Typed("int(8) zerofill", "int", 42, "42", "43"),
    "large": Typed("bigint", "bigint", -(2**63), "-9223372036854775808", "-9223372036854775807"),
    "huge": Typed("bigint unsigned", "decimal(20,0)", -1, f"{2**64 - 1}", f"{2**64 - 2}", {"unsigned": True}),
    "huge_wrapped": Typed("bigint unsigned", "bigint", -1, f"{2**64 - 1}", f"{2**64 - 2}"),
    "huge_as_text": Typed("bigint unsigned", "string", -1, f"{2**64 - 1}", f"{2**64 - 2}"),
    "bit_one": Typed("bit(1)", "boolean", True, "b'1'", "b'0'"),
    "bit_ten": Typed("bit(10)", "bigint", "AwI=", "b'1000000011'", "b'1000000010'", bits()),
    "bit_bytes": Typed("bit(10)", "binary", "AwI=", "b'1000000011'", "b'0100000011'", bits()),
    "single": Typed("float", "float", 0.1, "0.1", "0.2"),
    "single_as_double": Typed("float", "double", 0.1, "0.1", "0.2"),
    "double_precision": Typed("double", "double", 0.1, "0.1", "0.10000000000000002"),
    "price": Typed("decimal(30,10)", "decimal(30,10)", "12345678901234567890.0123456789",
                   "12345678901234567890.0123456789", "12345678901234567890.0123456788"),
    "price_as_text": Typed("decimal(6,3)", "string", "1.500", "1.5", "1.501"),
    "price_narrowed": Typed("decimal(12,4)", "decimal(6,2)", "1.50", "1.5", "1.501"),
    "day": Typed("date", "date", -1, "'1969-12-31'", "'1970-01-01'"),
    "day_of_zeros": Typed("date", "date", None, "'0000-00-00'", "'2024-02-29'"),
    "at": Typed("datetime(6)", "timestamp", MICROS, f"'{AT:%F %T.%f}'", "'2024-02-29 23:59:59.123457'",
                time_of("MicroTimestamp")),
    "at_millis": Typed("datetime(3)", "timestamp", -1, "'1969-12-31 23:59:59.999'", "'1969-12-31 23:59:59.998'"),
    "at_as_number": Typed("datetime", "bigint", 1_000, "'1970-01-01 00:00:01'", "'1970-01-01 00:00:02'"),
    "at_micros_as_number": Typed("datetime(6)", "bigint", MICROS, f"'{AT:%F %T.%f}'", "'2024-02-29 23:59:59.123457'"),
    "stamped": Typed("timestamp(6) null", "timestamp", "2024-02-29T23:59:59.123456Z", "'2024-03-01 08:59:59.123456'",
                     "'2024-03-01 08:59:59.123457'"),
    "stamped_as_text": Typed("timestamp(3) null", "string", "2024-02-29T23:59:59.5Z", "'2024-03-01 08:59:59.5'",
                             "'2024-03-01 08:59:59.501'"),
    "clock": Typed("time(6)", "string", -3_020_399_123_456, "'-838:59:59.123456'", "'838:59:59.123456'",
                   time_of("MicroTime")),
    "clock_undeclared": Typed("time", "string", 43_200_000_000, "'12:00:00'", "'12:00:01'"),
    "clock_as_number": Typed("time(3)", "bigint", 43_200_500_000, "'12:00:00.5'", "'12:00:00.501'"),
    "season": Typed("year", "int", 2024, "2024", "2025"),
    "fixed": Typed("char(5)", "string", "ab", "'ab  '", "'ac'"),
    "limited": Typed("varchar(9)", "string", "a ☃", "'a ☃'", "'a  ☃'"),
    "long": Typed("longtext", "string", "", "''", "' '"),
    "upper": Typed("text collate utf8mb4_general_ci", "string", "a", "'a'", "'A'"),
    "mood": Typed("enum('so so', 'well')", "string", "so so", "'so so'", "'well'"),
    "traits": Typed("set('a', 'b', 'c')", "string", "a,c", "'c,a'", "'a,b,c'"),
    "document": Typed("json", "string", '{"b":  1}', """'{"b":  1}'""", """'{"b": 1}'"""),
    "identity": Typed("uuid", "string", UUID, f"'{UUID}'", f"'{UUID[:-1]}b'"),
    "fixed_bytes": Typed("binary(4)", "binary", "YWIAAA==", "'ab'", "'ac'"),
    "bytes": Typed("varbinary(9)", "binary", "AP8Q", "x'00ff10'", "x'00ff1000'"),
    "blob": Typed("longblob", "binary", "AP8Q", "x'00ff10'", "x'00ff11'"),
    "blob_as_text": Typed("blob", "string", "AP8Q", "x'00ff10'", "x'00ff11'"),
}  # fmt: skip


def require_every_difference_found(
    project: DbtProject,
    spark: SparkSession,
    server: Server,
    columns: Mapping[str, Typed],
    position: Callable[[int], Mapping[str, Any]],
    extra: Mapping[str, Any],
) -> None:
    """A row a column, which are equal; a column of each is changed and must be named, and made null and named.

    `extra` are the columns that cannot be compared, with what an event holds of them.
    """
    quote = "`" if "mariadb" in server.url else '"'
    names = list(columns)
    events = [
        unwrapped("c", position(number), {"id": number, **{name: columns[name].event for name in names}, **extra})
        for number in range(len(names))
    ]
    nulls = {"id": -1, **dict.fromkeys([*names, *extra])}
    project.deliver("shop.every", 0, [*events, unwrapped("c", position(len(names)), nulls)])
    landed = project.land_well(spark)["every"]
    assert landed.counts.applied == len(names) + 1, project.quarantined(spark)

    def fill() -> None:
        rows = [f"({number}, {', '.join(columns[name].value for name in names)})" for number in range(len(names))]
        rows.append(f"(-1, {', '.join('null' for _ in names)})")
        told = ", ".join(f"{quote}{name}{quote}" for name in ("id", *names))
        server.run(f"delete from every; insert into every ({told}) values {','.join(rows)};")

    def change(to: Sequence[str | None]) -> set[tuple[str, str, tuple[str, ...]]]:
        changed = [(number, name, value) for number, (name, value) in enumerate(zip(names, to, strict=True)) if value]
        server.run("".join(f"update every set {quote}{name}{quote} = {value} where id = {number};\n"
                           for number, name, value in changed))  # fmt: skip
        return {("different", str(number), (name,)) for number, name, _ in changed}

    fill()
    result = compared(project, spark, "every")
    assert told(result) == set()
    assert (result.source_rows, result.silver_rows) == (len(names) + 1, len(names) + 1)
    assert set(result.left_out) == set(extra)
    assert all(name in result.told for name in extra)

    expected = change([columns[name].other for name in names])
    assert told(compared(project, spark, "every")) == expected

    fill()
    in_silver = project.rows(spark, "every", "id", *names)[1]
    expected = change(["null" if in_silver[name] is not None else None for name in names])
    assert told(compared(project, spark, "every")) == expected


def declared(columns: Mapping[str, Typed], extra: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    types = {
        "id": "int",
        **{name: column.declared for name, column in columns.items()},
        **dict.fromkeys(extra, "string"),
    }
    table = table_of("every", types, ["id"], **options)
    for entry in table["columns"]:
        if entry["name"] in columns and columns[entry["name"]].options:
            entry["config"] = {"meta": {"ingest": dict(columns[entry["name"]].options)}}
    return table


def test_every_type_of_postgresql(
    make_project: MakeProject, spark: SparkSession, postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"place": {"x": 1.0, "y": 2.0}}
    table = declared(OF_POSTGRESQL, extra, database={"connection": "source_db", "table": "public.every"})
    project = make_project({"tables": [table]})
    connect(project, monkeypatch, postgresql, files=str(project.bronze))
    written = ", ".join(f'"{name}" {column.kind}' for name, column in OF_POSTGRESQL.items())
    postgresql.run(
        "create type mood as enum ('so so', 'well'); create domain cost as numeric(8,2); create domain price as cost;"
        f"create table every (id int primary key, {written}, place point);"
    )
    require_every_difference_found(
        project, spark, postgresql, OF_POSTGRESQL, lambda number: {"__lsn": 1 + number}, extra
    )


@pytest.mark.slow
def test_every_type_of_mariadb(
    make_project: MakeProject, spark: SparkSession, mariadb: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"place": {"x": 1.0, "y": 2.0}}
    table = declared(OF_MARIADB, extra, connector="mariadb", database={"connection": "source_db"})
    project = make_project({"tables": [table]})
    connect(project, monkeypatch, mariadb, files=str(project.bronze))
    written = ", ".join(f"`{name}` {column.kind}" for name, column in OF_MARIADB.items())
    mariadb.run(f"set global sql_mode = ''; create table every (id int primary key, {written}, place point);")

    def position(number: int) -> dict[str, Any]:
        return {"__source_file": "bin.000001", "__source_pos": 4 + number, "__source_row": 0}

    require_every_difference_found(project, spark, mariadb, OF_MARIADB, position, extra)
