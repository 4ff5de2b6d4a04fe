"""The example data sets: their rows, their history, and the events written for it."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, cast, get_args

import fastavro
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from examples import Form, Phase, generate
from examples.generating.model import Table, replay
from examples.tickit import tables as tickit
from examples.tickit.changes import history
from examples.tickit.rows import snapshot
from ingest.errors import LakeError

Record = dict[str, Any]
State = dict[str, list[Record]]
FORMS: tuple[Form, ...] = ("avro", "json", "envelope")
EPOCH = datetime(1970, 1, 1)
TABLES = tickit.TABLES


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data set of moderate size, as Avro."""
    out = tmp_path_factory.mktemp("tickit")
    generate("tickit", out, scale=0.02, seed=7, form="avro", phase="all")
    return out


def records_of(out: Path, table: Table) -> list[Record]:
    """All records of a table's topic in the order of their offsets."""
    files = sorted((out / "bronze" / f"tickit.{table.full_name}").rglob("*.*"), key=lambda path: path.stem)
    return [record for path in files for record in read_file(path)]


def read_file(path: Path) -> Iterator[Record]:
    if path.suffix == ".avro":
        with path.open("rb") as file:
            yield from cast("Iterator[Record]", fastavro.reader(file))
    else:
        yield from map(json.loads, path.read_text().splitlines())


def flatten(table: Table, record: Record) -> tuple[Record, str, Record]:
    """Row, operation and position fields of an unwrapped record or an envelope."""
    if "source" in record:
        row = record["before"] if record["op"] == "d" else record["after"]
        return row, record["op"], record["source"]
    source = {name.removeprefix("__source_").removeprefix("__"): value for name, value in record.items()}
    return record, record["__op"], source


def position(table: Table, source: Record) -> tuple[Any, ...]:
    if table.system == "postgresql":
        return (source["lsn"],)
    if table.system == "mariadb":
        return (int(source["file"].rpartition(".")[2]), source["pos"], source["row"])
    return (source["commit_lsn"], source["change_lsn"] or "", source["event_serial_no"] or 0)


def decoded(table: Table, row: Record) -> Record:
    """A Debezium row in the source's types."""
    result: Record = {}
    for column in table.columns:
        value = row[column.name]
        if value is not None:
            match column.type:
                case "decimal":
                    value = Decimal(str(value)).quantize(Decimal("0.01"))
                case "date":
                    value = date(1970, 1, 1) + timedelta(days=value)
                case "timestamp":
                    value = EPOCH + timedelta(microseconds=value)
                case "datetime":
                    value = EPOCH + timedelta(milliseconds=value)
                case "tinyint1":
                    value = bool(value)
        result[column.name] = value
    return result


def applied(table: Table, records: list[Record]) -> list[Record]:
    """The rows that remain when every key's event with the highest source position wins, whenever it came."""
    best: dict[int, tuple[tuple[Any, ...], str, Record]] = {}
    for record in records:
        row, op, source = flatten(table, record)
        entry = (position(table, source), op, row)
        key = row[table.key]
        if key not in best or entry[0] > best[key][0]:
            best[key] = entry
    return [decoded(table, row) for _, (_, op, row) in sorted(best.items()) if op != "d"]


def oracle(out: Path, phase: str) -> State:
    return {t.full_name: pq.read_table(out / "oracle" / phase / f"{t.full_name}.parquet").to_pylist() for t in TABLES}


def assert_business_rules(state: State) -> None:
    by_key = {t.full_name: {row[t.key]: row for row in state[t.full_name]} for t in TABLES}
    for table in TABLES:
        assert len(by_key[table.full_name]) == len(state[table.full_name]), f"{table.full_name} has a key twice"
        for column in table.columns:
            if column.references:
                missing = {row[column.name] for row in state[table.full_name]} - by_key[column.references].keys()
                assert not missing, f"{table.full_name}.{column.name} refers to nothing: {missing}"

    def dateid(moment: datetime) -> int:
        return 1827 + (moment.date() - date(2008, 1, 1)).days

    events, listings = by_key["ems.event"], by_key["ecomm.listing"]
    for event in state["ems.event"]:
        assert event["dateid"] == dateid(event["starttime"])
    for listing in state["ecomm.listing"]:
        assert listing["totalprice"] == listing["numtickets"] * listing["priceperticket"]
        assert listing["listtime"] < events[listing["eventid"]]["starttime"]
        assert listing["dateid"] == dateid(listing["listtime"])
    sold: dict[int, int] = defaultdict(int)
    for sale in state["ecomm.sale"]:
        listing = listings[sale["listid"]]
        sold[sale["listid"]] += sale["qtysold"]
        assert (sale["sellerid"], sale["eventid"]) == (listing["sellerid"], listing["eventid"])
        assert sale["buyerid"] != sale["sellerid"]
        assert listing["listtime"] < sale["saletime"] < events[sale["eventid"]]["starttime"]
        assert sale["dateid"] == dateid(sale["saletime"])
        assert sale["pricepaid"] == sale["qtysold"] * listing["priceperticket"]
        exact = sale["pricepaid"] * Decimal("0.15")
        assert sale["commission"] == exact.quantize(Decimal("0.01"), ROUND_HALF_UP)
    assert all(1 <= tickets <= listings[listid]["numtickets"] for listid, tickets in sold.items())
    users = state["crm.user"]
    assert len({user["username"] for user in users}) == len({user["email"] for user in users}) == len(users)
    assert all(len(user["username"]) == 8 for user in users)


def test_scale_1_has_the_row_counts_of_the_article() -> None:
    database = snapshot(1, 42)
    assert {name: rows.num_rows for name, rows in database.items()} == {
        "ems.category": 11,
        "ems.venue": 202,
        "ems.event": 8798,
        "ecomm.date": 365,
        "ecomm.listing": 192497,
        "ecomm.sale": 172456,
        "crm.user": 49990,
    }
    sale, users = database["ecomm.sale"], set(database["crm.user"]["userid"].to_pylist())
    buyers, sellers = set(sale["buyerid"].to_pylist()), set(database["ecomm.listing"]["sellerid"].to_pylist())
    assert len(users - buyers) > 10_000
    assert len(users - sellers) > 10_000
    per_event = sorted(pc.value_counts(sale["eventid"]).field("counts").to_pylist(), reverse=True)
    assert sum(per_event[: len(per_event) // 10]) > 0.2 * sum(per_event), "the best tenth of events sells no better"


@pytest.mark.parametrize("seed", [1, 42])
def test_snapshot_and_final_state_keep_every_rule(seed: int) -> None:
    database = snapshot(0.03, seed)
    final = replay(TABLES, database, history(database, 0.03, seed))
    assert_business_rules({name: rows.to_pylist() for name, rows in database.items()})
    assert_business_rules({name: rows.to_pylist() for name, rows in final.items()})
    assert all(final[t.full_name].schema == t.arrow_schema for t in TABLES)


def test_the_references_hold_after_every_transaction() -> None:
    """A row whose parent disappears for a moment could not be written into a real database."""
    database = snapshot(0.002, 3)
    transactions = history(database, 0.002, 3)
    for end in range(1, len(transactions), 7):
        state = replay(TABLES, database, transactions[:end])
        for table in TABLES:
            for column in table.columns:
                if column.references:
                    parents = set(state[column.references].column(0).to_pylist())
                    assert set(state[table.full_name][column.name].to_pylist()) <= parents


def test_history_is_in_commit_order_and_holds_the_hard_cases() -> None:
    database = snapshot(0.01, 5)
    transactions = history(database, 0.01, 5)
    times = [transaction.committed_at_us for transaction in transactions]
    assert times == sorted(times)
    assert len({us // 86_400_000_000 for us in times}) >= 4

    changes = [change for transaction in transactions for change in transaction.changes]
    assert {c.table.full_name for c in changes if c.is_key_change} >= {"crm.user", "ecomm.listing"}
    within_one: list[list[str]] = []
    for transaction in transactions:
        by_key: dict[Any, list[str]] = defaultdict(list)
        for change in transaction.changes:
            row = change.after or change.before
            assert row is not None
            by_key[(change.table.full_name, row[0])].append(change.op)
        within_one += by_key.values()
    assert ["c", "u", "d"] in within_one, "no row lives within one transaction only"
    statements = [(id(t), c.statement) for t in transactions for c in t.changes]
    assert len(set(statements)) < len(statements), "no statement changes several rows"
    gone: set[tuple[str, Any]] = set()
    again = 0
    for change in changes:
        if change.op == "d" and change.before:
            gone.add((change.table.full_name, change.before[0]))
        elif change.op == "c" and change.after:
            again += (change.table.full_name, change.after[0]) in gone
    assert again, "no deleted key is inserted again"


def test_history_grows_with_the_scale_and_gives_sale_200_the_buyer_of_the_article() -> None:
    database = snapshot(0.25, 42)
    transactions = history(database, 0.25, 42)
    assert 6_250 <= sum(len(t.changes) for t in transactions) < 6_400
    assert worked_updates(transactions) == [(11694, 3, Decimal("600.00"), Decimal("90.00"))]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sale_200_is_updated_wherever_it_exists(seed: int) -> None:
    database = snapshot(0.01, seed)
    ((buyer, *rest),) = worked_updates(history(database, 0.01, seed))
    assert rest == [3, Decimal("600.00"), Decimal("90.00")]
    assert buyer in database["crm.user"]["userid"].to_pylist()


def worked_updates(transactions: list[Any]) -> list[tuple[Any, ...]]:
    changes = [c for t in transactions for c in t.changes if c.table is tickit.SALE]
    return [
        (c.after[3], *c.after[6:9]) for c in changes if c.after and c.before and 200 in (c.before[0], c.after[0])
    ]  # fmt: skip


def fingerprints(out: Path) -> dict[str, str]:
    paths = sorted(path for path in out.rglob("*") if path.is_file())
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.mark.parametrize("form", FORMS)
def test_same_seed_and_scale_give_the_same_bytes_in_one_phase_or_two(form: Form, tmp_path: Path) -> None:
    def make(name: str, seed: int, *phases: Phase) -> dict[str, str]:
        for phase in phases:
            generate("tickit", tmp_path / name, scale=0.002, seed=seed, form=form, phase=phase)
        return fingerprints(tmp_path / name)

    once = make("once", 11, "all")
    assert once == make("twice", 11, "snapshot", "changes")
    assert once != make("other", 12, "all")
    assert not [name for name in once if name.endswith(".part")]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("avro", "46a27412c137bc21"),
        ("json", "03e08ee60589d7e9"),
        ("envelope", "9a80f5421de5a41e"),
    ],
)
def test_the_events_are_those_of_every_version_before(form: Form, expected: str, tmp_path: Path) -> None:
    """Whoever generates with a seed gets the bytes that everybody got; a change of them is a decision."""
    generate("tickit", tmp_path, scale=0.002, seed=11, form=form)
    events = json.dumps(fingerprints(tmp_path / "bronze"), sort_keys=True)
    assert hashlib.sha256(events.encode()).hexdigest()[:16] == expected


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("form", FORMS)
def test_events_applied_by_position_lead_to_the_oracle(form: Form, seed: int, tmp_path: Path) -> None:
    generate("tickit", tmp_path, scale=0.004, seed=seed, form=form, phase="all")
    final = oracle(tmp_path, "changes")
    for table in TABLES:
        assert applied(table, records_of(tmp_path, table)) == final[table.full_name], table.full_name


def test_snapshot_files_alone_lead_to_the_oracle_of_the_snapshot(tmp_path: Path) -> None:
    generate("tickit", tmp_path, scale=0.002, seed=1, form="json", phase="snapshot")
    expected = oracle(tmp_path, "snapshot")
    for table in TABLES:
        records = records_of(tmp_path, table)
        assert {record["__op"] for record in records} == {"r"}
        assert applied(table, records) == expected[table.full_name]


def test_late_and_repeated_deliveries_exist_and_are_counted(lake: Path) -> None:
    manifest = json.loads((lake / "manifest.json").read_text())
    late = repeated = 0
    resurrecting = False
    order_by_arrival_is_wrong = False
    for table in TABLES:
        newest: dict[int, tuple[tuple[Any, ...], str]] = {}
        seen: set[tuple[int, tuple[Any, ...]]] = set()
        arrived: dict[int, tuple[str, Record]] = {}
        for record in records_of(lake, table):
            row, op, source = flatten(table, record)
            key, place = row[table.key], position(table, source)
            arrived[key] = (op, row)
            if (key, place) in seen:
                repeated += 1
                continue
            seen.add((key, place))
            if key in newest and place < newest[key][0]:
                late += 1
                resurrecting |= newest[key][1] == "d" and op != "d"
            else:
                newest[key] = (place, op)
        by_arrival = [decoded(table, row) for _, (op, row) in sorted(arrived.items()) if op != "d"]
        order_by_arrival_is_wrong |= by_arrival != oracle(lake, "changes")[table.full_name]
    assert (late, repeated) == (manifest["late"], manifest["repeated"])
    changes = sum(topic["events"] for topic in manifest["topics"] if topic["phase"] == "changes")
    assert 0.005 * changes <= late <= 0.04 * changes
    assert 0.005 * changes <= repeated <= 0.04 * changes
    assert resurrecting, "no older event arrives after its row's delete"
    assert order_by_arrival_is_wrong


def test_some_late_event_arrives_in_a_later_file(lake: Path) -> None:
    table = tickit.LISTING
    newest: dict[int, tuple[tuple[Any, ...], str]] = {}
    found = False
    for path in sorted((lake / "bronze" / "tickit.ecomm.listing").rglob("*.avro"), key=lambda path: path.stem):
        for record in read_file(path):
            row, _, source = flatten(table, record)
            place = position(table, source)
            previous = newest.get(row["listid"])
            if previous and place < previous[0]:
                found |= previous[1] != path.name
            else:
                newest[row["listid"]] = (place, path.name)
    assert found


@pytest.mark.parametrize("table", [tickit.EVENT, tickit.LISTING, tickit.USER], ids=lambda table: table.full_name)
def test_rows_change_several_times_within_a_millisecond(table: Table, lake: Path) -> None:
    places: dict[Any, set[Any]] = defaultdict(set)
    for record in records_of(lake, table):
        places[record[table.key], record["__source_ts_ms"]].add(position(table, flatten(table, record)[2]))
    assert max(map(len, places.values())) >= 3


def test_changed_keys_come_as_delete_and_create_with_one_position_and_time(lake: Path) -> None:
    """On SQL Server the two differ in the event's serial number, elsewhere in nothing but the row."""
    for table, pair in ((tickit.LISTING, None), (tickit.USER, [1, 2])):
        together: dict[Any, dict[Any, Record]] = defaultdict(dict)
        for record in records_of(lake, table):
            if record["__op"] in "cd":
                place = position(table, flatten(table, record)[2])
                together[place if pair is None else place[:2]][record[table.key]] = record
        moved = [list(records.values()) for records in together.values() if len(records) == 2]
        assert moved
        for old, new in moved:
            assert (old["__op"], new["__op"]) == ("d", "c")
            assert old["__source_ts_ms"] == new["__source_ts_ms"]
            if pair:
                assert [old["__source_event_serial_no"], new["__source_event_serial_no"]] == pair


def test_deletes_carry_what_each_database_knows_of_the_old_row(lake: Path) -> None:
    deleted_event = next(record for record in records_of(lake, tickit.EVENT) if record["__op"] == "d")
    assert deleted_event["eventid"] > 0
    assert [deleted_event[name] for name in ("venueid", "catid", "dateid")] == [0, 0, 0]
    assert deleted_event["eventname"] is deleted_event["starttime"] is None
    for table in (tickit.SALE, tickit.USER):
        deleted = next(record for record in records_of(lake, table) if record["__op"] == "d")
        assert deleted["__deleted"] == "true"
        assert all(deleted[c.name] is not None for c in table.columns if not c.name.startswith("like"))


def test_positions_look_like_each_connector_s(lake: Path) -> None:
    events = [r for r in records_of(lake, tickit.EVENT) if r["__op"] != "r"]
    for event in events[1:]:
        last_commit, lsn = json.loads(event["__source_sequence"])
        assert int(lsn) == event["__lsn"]
        assert last_commit is None or int(last_commit) < int(lsn)
    assert len({r["__lsn"] for r in records_of(lake, tickit.EVENT) if r["__op"] == "r"}) == 1

    sales = records_of(lake, tickit.SALE)
    assert all(sale["__source_ts_ms"] % 1000 == 0 for sale in sales)
    files = {file: [s["__source_pos"] for s in sales if s["__source_file"] == file] for file in
             sorted({sale["__source_file"] for sale in sales})}  # fmt: skip
    assert next(iter(files)) == "mariadb-bin.000003"
    assert min(files["mariadb-bin.000004"]) < max(files["mariadb-bin.000003"]), "positions never go back"

    users = records_of(lake, tickit.USER)
    assert {user["__source_change_lsn"] for user in users if user["__op"] == "r"} == {None}
    assert {user["__source_event_serial_no"] for user in users if user["__op"] == "u"} == {2}


def test_avro_files_have_the_schema_of_connect_s_converter(lake: Path) -> None:
    def schema_of(table: Table) -> dict[str, Any]:
        path = next((lake / "bronze" / f"tickit.{table.full_name}").rglob("*.avro"))
        with path.open("rb") as file:
            metadata = fastavro.reader(file).metadata["avro.schema"]
        return cast("dict[str, Any]", json.loads(metadata))

    def types(table: Table) -> dict[str, Any]:
        return {field["name"]: field["type"] for field in schema_of(table)["fields"]}

    assert types(tickit.EVENT)["starttime"][1]["connect.name"] == "io.debezium.time.MicroTimestamp"
    assert types(tickit.SALE)["saletime"][1]["connect.name"] == "io.debezium.time.Timestamp"
    assert types(tickit.DATE)["caldate"]["connect.name"] == "io.debezium.time.Date"
    assert types(tickit.SALE)["pricepaid"] == ["null", "double"]
    assert types(tickit.EVENT)["venueid"] == {"type": "int", "connect.type": "int16"}
    assert types(tickit.USER)["likejazz"] == ["null", "boolean"]
    schema = schema_of(tickit.SALE)
    assert schema["name"] == schema["connect.name"] == "tickit.ecomm.sale.Value"
    assert list(types(tickit.SALE))[-10:] == [
        "__op", "__name", "__db", "__table", "__source_ts_ms", "__source_file", "__source_pos", "__source_row",
        "__source_snapshot", "__deleted",
    ]  # fmt: skip


def test_offsets_in_file_names_are_contiguous(lake: Path) -> None:
    for table in TABLES:
        topic = f"tickit.{table.full_name}"
        expected = 0
        for path in sorted((lake / "bronze" / topic).rglob("*.avro"), key=lambda path: path.stem):
            assert path.name == f"{topic}+0+{expected:010d}.avro"
            assert [part.partition("=")[0] for part in path.parts[-4:-1]] == ["year", "month", "day"]
            expected += sum(1 for _ in read_file(path))


def test_envelopes_have_what_the_connector_reports(tmp_path: Path) -> None:
    generate("tickit", tmp_path, scale=0.002, seed=1, form="envelope", phase="changes")
    by_op = {record["op"]: record for record in records_of(tmp_path, tickit.SALE)}
    assert list(by_op["u"]) == ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    assert by_op["u"]["before"]["salesid"] == by_op["u"]["after"]["salesid"]
    assert by_op["d"]["after"] is by_op["c"]["before"] is None
    updates = [record for record in records_of(tmp_path, tickit.EVENT) if record["op"] == "u"]
    assert {record["before"] for record in updates} == {None}


def test_progress_is_told_after_each_file(tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    summary = generate(
        "tickit", tmp_path, scale=0.001, seed=1, form="json", phase="all", progress=lambda *call: calls.append(call)
    )
    assert len(calls) == summary.files == len(list(tmp_path.glob("bronze/**/*.json")))
    assert [done for topic, done, total in calls if done == total]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scale": 0.0001}, "scale 0.0001"),
        ({"scale": float("nan")}, "scale nan"),
        ({"seed": -1}, "seed -1"),
        ({"form": "xml"}, "form 'xml'"),
        ({"phase": "later"}, "phase 'later'"),
        ({"dataset": "tickets"}, "dataset 'tickets'"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_written(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {
        "dataset": "tickit",
        "scale": 0.01,
        "seed": 1,
        "form": "json",
        "phase": "all",
    } | changed
    dataset = arguments.pop("dataset")
    with pytest.raises(LakeError, match=message):
        generate(dataset, tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_another_data_set_is_refused(tmp_path: Path) -> None:
    generate("tickit", tmp_path, scale=0.001, seed=1, form="json", phase="snapshot")
    with pytest.raises(LakeError, match="seed 1"):
        generate("tickit", tmp_path, scale=0.001, seed=2, form="json", phase="changes")


def test_the_stream_of_customers_has_a_manifest_and_one_form_and_keeps_to_its_folder(tmp_path: Path) -> None:
    phases: tuple[Phase, ...] = ("snapshot", "changes")
    written = [generate("customers", tmp_path, scale=0.05, seed=1, phase=phase) for phase in phases]
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert [manifest[name] for name in ("dataset", "seed", "scale", "ends")] == ["customers", 1, 0.05, "2023-10-05"]
    assert [(topic["phase"], topic["records"]) for topic in manifest["topics"]] == [
        (phase, summary.records) for phase, summary in zip(phases, written, strict=True)
    ]
    assert manifest["records"] == manifest["events"] + manifest["repeated"]
    before = fingerprints(tmp_path)
    for other in ({"seed": 2}, {"scale": 0.1}, {"ends": date(2023, 10, 6)}):
        arguments: dict[str, Any] = {"scale": 0.05, "seed": 1, **other}
        with pytest.raises(LakeError, match="a dataset made with dataset customers, seed 1"):
            generate("customers", tmp_path, **arguments)
    for form in get_args(Form):
        with pytest.raises(LakeError, match=f"form '{form}'"):
            generate("customers", tmp_path, scale=0.05, seed=1, form=form)
    assert fingerprints(tmp_path) == before
