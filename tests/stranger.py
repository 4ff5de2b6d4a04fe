"""A small project of dbt of the kind that people bring along, what may happen to it, and what each command must leave.

A model that keeps the law equals its own select; what selects a part, batches, other columns and snapshots are what
dbt's documentation says of them. What is refused, was not chosen, or reads no rows or some, is as it was.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import stranger_texts as texts
import yaml
from conftest import MakeProject, Row, pg, table_of
from lake import Server
from modeling import BUCKETS, Models, Outcome
from pyspark.sql import SparkSession

from macros import test_snapshots as snapshots


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows as they can be compared: in one order, without Hudi's columns."""
    shown = [{name: row[name] for name in sorted(row) if not name.startswith("_hoodie_")} for row in rows]
    return sorted(shown, key=repr)


@dataclass
class Stranger:
    """The project, the rows of its sources, what its texts are, and what its tables hold."""

    models: Models
    draw: random.Random
    strategy: str
    history: snapshots.History
    offset: int = 0
    tables: dict[str, dict[int, Row]] = field(default_factory=lambda: {name: {} for name in texts.TABLES})
    numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(texts.CHANGING, 1))
    entries: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(texts.LAWFUL, True))
    shape: texts.Shape = field(default_factory=texts.Shape)
    keyed: str = "incremental"
    held: dict[str, list[Row]] = field(default_factory=dict)

    # What happens to the project.

    def change(self) -> None:
        """Some changes of the sources; orders may refer to customers that are not there, or to none."""
        for table, rows in self.tables.items():
            changed: list[tuple[str, Row]] = []
            for _ in range(self.draw.randint(0, 5) if rows else 14):
                number = self.draw.randint(1, 12)
                name, region = f"name {self.draw.randint(1, 3)}", self.draw.choice([None, 1, 2])
                row: Row = {"id": number, "name": name, "region": region, "code": 10 * number}
                if table == "orders":
                    customer, year = self.draw.choice([None, *range(1, 6)]), self.draw.choice([None, *texts.YEARS])
                    row = {"id": number, "customer": customer, "amount": self.draw.randint(0, 9), "year": year}
                op = "d" if number in rows and self.draw.random() < 0.3 else "u" if number in rows else "c"
                changed.append((op, row))
                rows.pop(number, None)
                if op != "d":
                    rows[number] = row
            self._deliver(table, changed)

    def mistake(self) -> None:
        """A customer has another one's code, or none."""
        customers = self.tables["customers"]
        if len(customers) > 1:
            one, other = self.draw.sample(sorted(customers), 2)
            customers[one] = {**customers[one], "code": self.draw.choice([None, customers[other]["code"]])}
            self._deliver("customers", [("u", customers[one])])

    def review(self) -> None:
        """The view that is a source shows something else."""
        schema, number = self.models.project.schema, self.draw.randint(2, 4)
        self.models.do(
            f"create or replace view {schema}.seen_customers as "
            f"select id, region % {number} as region from {schema}.customers where __deleted = 'false'"
        )

    def edit(self) -> None:
        """Another text of a model, an entry more or less, or another setting."""
        name = self.draw.choice(texts.CHANGING)
        if self.draw.random() < 0.3 and name in self.entries:
            self.entries[name] = not self.entries[name]
        elif self.draw.random() < 0.3 and name == "keyed":
            self.keyed = self.draw.choice(["incremental", "table"])
        else:
            self.numbers[name] = self.draw.randint(2, 99)
        self.write(name)

    def reshape(self) -> None:
        """A model has other columns, or another thing is to become of such."""
        self.shape.mode = self.draw.choice(texts.MODES)
        chosen = [name for name in texts.COLUMNS if self.draw.random() < 0.6]
        self.shape.text = {name: self.draw.choice(texts.COLUMNS[name]) for name in chosen}
        self.write("shaped")

    def reseed(self) -> None:
        """Another seed, which may have a number twice."""
        numbers = list(range(self.draw.randint(1, 3)))
        if self.held and self.draw.random() < 0.3:
            numbers.append(self.draw.choice(numbers))
        self._seed(numbers)

    def tamper(self) -> None:
        """A row goes by hand."""
        name = self.draw.choice(("windowed", "joined", "shaped"))
        self.models.do(f"delete from {self.models.relation(name)} where id = {self.draw.randint(1, 12)}")
        self.held[name] = self.found(name)[name]

    def mend(self) -> None:
        """Whatever a run may have refused is put right."""
        customers = self.tables["customers"]
        wrong = [{**row, "code": 10 * number} for number, row in customers.items() if row["code"] != 10 * number]
        customers.update({row["id"]: row for row in wrong})
        self._deliver("customers", [("u", row) for row in wrong])
        self._seed(range(3))
        self.shape.text = dict(self.shape.table)
        self.write("shaped")

    def _deliver(self, table: str, changed: Sequence[tuple[str, Row]]) -> None:
        events = []
        for op, row in changed:
            self.offset += 1
            if table == "orders":
                row["changed"] = self.offset
            events.append(pg(op, 1000 + self.offset, **row))
        if events:
            self.models.project.deliver(f"shop.{table}", self.offset, events)
            self.models.land(table)

    def _seed(self, numbers: Iterable[int]) -> None:
        lines = "".join(f"{number},band {self.draw.randint(1, 3)}\n" for number in numbers)
        folder = self.models.project.root / "seeds"
        folder.mkdir(exist_ok=True)
        (folder / "bands.csv").write_text(f"id,band\n{lines}", encoding="utf-8")
        self.models.dbt("seed", "--full-refresh")

    # Its files.

    def write(self, *names: str) -> None:
        """Writes models as they are to be now."""
        schema = self.models.relation("x").partition(".")[0]
        for name in names or texts.CHANGING:
            number = self.numbers[name]
            config: dict[str, Any] = {"materialized": self.keyed if name == "keyed" else "incremental"}
            if name == "daily":
                sql, config = texts.DAILY.format(number), {**config, **texts.BATCHES}
            elif name == "shaped":
                more = "".join(f", {value.format(number)} as {name}" for name, (value, _) in self.shape.text.items())
                sql = f"select id, amount{more} from {{{{ ref('stg_orders') }}}}"
                config |= {"unique_key": "id", "on_schema_change": self.shape.mode}
            else:
                select, config["unique_key"], entries = texts.LAWFUL[name]
                sql = select.format(number, schema)
                if entries and self.entries[name]:
                    config["meta"] = {"affected_by": entries}
            self.models.write(name, sql, **config)

    def write_rest(self) -> None:
        """Writes what no step changes."""
        for name, sql in texts.STAGED.items():
            self.models.write(f"stg_{name}", sql, materialized="view", event_time="at" if name == "orders" else None)
        for name, strategy in texts.PARTS.items():
            sql = "select id, amount from {{ ref('stg_orders') }}" + texts.NEWER
            self.models.write(name, sql, materialized="incremental", unique_key="id", incremental_strategy=strategy)
        told = {
            "file_format": "hudi",
            "options": BUCKETS,
            "unique_key": ["id", "customer"],
            "target_schema": self.models.relation("x").partition(".")[0],
            "hard_deletes": self.history.hard_deletes,
            **texts.STRATEGIES[self.strategy],
        }
        settings = ", ".join(f"{name}={value!r}" for name, value in told.items())
        text = f"{{% snapshot versions %}}{{{{ config({settings}) }}}} {texts.VERSIONS}{{% endsnapshot %}}"
        self.models.write("versions", text, below="snapshots")
        schema = self.models.project.schema
        self.models.project.write_models(
            f"version: 2\nsources:\n- name: seen\n  schema: {schema}\n  tables:\n  - name: seen_customers\n",
            "_seen.yml",
        )

    # What becomes of it.

    def found(self, *names: str) -> dict[str, list[Row]]:
        """The rows of tables, or of all."""
        there = self.models.tables()
        chosen = [name for name in names or texts.NAMES if name in there]
        return {name: self.rows(f"select * from {self.models.relation(name)}") for name in chosen}

    def rows(self, query: str) -> list[Row]:
        """The rows of a query, in order."""
        return in_order(self.models.ask(query))

    def run(self, command: str = "run", *words: str) -> bool:
        """A command of dbt, which must do what it should; whether nothing was refused."""
        return self.require(self.models.dbt(command, *words), words)

    def require(self, outcomes: dict[str, Outcome], words: Sequence[str]) -> bool:
        """What was chosen is right, or was refused and why; all else is as it was. Whether nothing was refused."""
        found, is_read, are_refused = self.found(), not {"--empty", "--sample"} & set(words), []
        chosen = [name for name in texts.CHANGING if name in outcomes and is_read]
        selects = self.models.compiled(*chosen) if chosen else {}
        given = {name: self.rows(sql) for name, sql in selects.items()}
        for name in texts.NAMES:
            expected, refusal, told = self.held.get(name), None, (name, words, outcomes.get(name))
            if name in outcomes and is_read:
                refusal = self._refusal(name, given, words)
            if name in outcomes and is_read and refusal is None:
                expected = self._expected(name, given, words, found[name])
            if name in outcomes:
                assert outcomes[name].status == ("error" if refusal else "success"), told
                assert (refusal or "") in outcomes[name].message, told
            assert found.get(name) == expected, told
            are_refused += [name] if refusal else []
        rest = {outcomes[name].status for name in outcomes.keys() - set(texts.NAMES)}
        assert rest <= {"success"}, outcomes
        self.held = found
        return not are_refused

    def _refusal(self, name: str, given: dict[str, list[Row]], words: Sequence[str]) -> str | None:
        """A part of the message with which a run of a model must be refused."""
        if name == "shaped":
            is_refused = not self._is_new(name, words) and self.shape.is_refused()
            return f"(on_schema_change = {self.shape.mode})" if is_refused else None
        if name not in texts.LAWFUL:
            return None
        key = texts.LAWFUL[name][1]
        keys = [tuple(row[column] for column in key) for row in given[name]]
        without = sum(None in each for each in keys)
        shared = sum(keys.count(each) > 1 for each in keys if None not in each)
        told = f"got {without} rows with a null in unique_key ({', '.join(key)}) and "
        # An increment that has found a row without a key looks no further.
        return told if without else f"{told}{shared} rows that share theirs" if shared else None

    def _expected(self, name: str, given: dict[str, list[Row]], words: Sequence[str], found: list[Row]) -> list[Row]:
        """The rows that a run must leave of a model, whose select has `given` some."""
        is_new = self._is_new(name, words)
        had = [] if is_new else self.held[name]
        if name in texts.PARTS:
            most = max((row["id"] for row in had), default=0)
            orders = sorted(self.tables["orders"].items())
            return in_order([*had, *({"id": n, "amount": row["amount"]} for n, row in orders if n > most)])
        if name == "versions":
            self._require_versions(found)
            return found
        rows = given[name]
        if name == "daily":
            years = range(texts.BEGIN if is_new else texts.THIS_YEAR - texts.BATCHES["lookback"], texts.THIS_YEAR + 1)
            if "--event-time-start" in words:
                start, end = (words[words.index(f"--event-time-{side}") + 1] for side in ("start", "end"))
                years = range(int(start[:4]), int(end[:4]))
            stay = [row for row in had if row["year"] not in years]
            return in_order([*stay, *(row for row in rows if row["year"] in years)])
        if name == "shaped":
            self.shape.table = dict(self.shape.text) if is_new else self.shape.after()
            names, before = ["id", "amount", *self.shape.table], {row["id"]: row for row in had}
            kept = [{**before.get(row["id"], dict.fromkeys(names)), **row} for row in rows]
            return in_order({column: row[column] for column in names} for row in kept)
        return rows

    def _is_new(self, name: str, words: Sequence[str]) -> bool:
        return name not in self.held or ("--full-refresh" in words and name != "versions")

    def _require_versions(self, found: list[Row]) -> None:
        """The snapshot's rows are its versions; none that has ended is another one now."""

        def seen(row: Row) -> str:
            return f"{row['amount']} at {row['changed']}" if self.strategy == "timestamp" else str(row["amount"])

        orders = self.tables["orders"]
        self.history.see({(str(n), row["customer"] or 0): (seen(row), "") for n, row in orders.items()})
        assert self.history.flat() == sorted(
            (
                str(each["id"]),
                each["customer"],
                seen(each),
                each.get("dbt_is_deleted") == "True",
                each["dbt_valid_to"] is None,
            )
            for each in found
        )
        assert all(row in found for row in self.held.get("versions", []) if row["dbt_valid_to"] is not None)


MakeStranger = Callable[[random.Random], Stranger]


def stranger_of(draw: random.Random, spark: SparkSession, make_project: MakeProject, server: Server | None) -> Stranger:
    """Makes the project, lands its sources and builds it once."""
    project = make_project({"tables": [table_of(name, columns, ["id"]) for name, columns in texts.TABLES.items()]})
    options = {**BUCKETS, "type": draw.choice(["cow", "mor"])}
    models = Models.of(
        spark, project, server, file_format="hudi", options=options, on_schema_change="append_new_columns"
    )
    settings = yaml.safe_load((project.root / "dbt_project.yml").read_text(encoding="utf-8"))
    settings["seeds"]["tested"]["+file_format"] = "parquet"
    (project.root / "dbt_project.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    history = snapshots.History(draw.choice(["ignore", "invalidate", "new_record"]))
    stranger = Stranger(models, draw, draw.choice(list(texts.STRATEGIES)), history)
    stranger.change()
    stranger.review()
    stranger.write_rest()
    stranger.write()
    stranger.reseed()
    assert stranger.run("build")
    return stranger
