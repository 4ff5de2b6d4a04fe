"""What is no event of a relational connector of Debezium's, though it holds one or looks like it: told by its fields.

Sources: the CloudEvents specification 1.0, "Required Attributes"; Debezium's documentation of its CloudEventsConverter
and of the MongoDB connector's change events; what kcat (-J) and other tools write of a record; Apicurio's
PrettyFormatStrategy; Maxwell's "Reference: Data Format"; Canal's FlatMessage; the DMS User Guide, "Using Apache Kafka
as a target".
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from ingest.config.tables import Table
from ingest.decode.fields import array_of
from ingest.schema.change import problem as problem_of
from ingest.schema.connectors import order_of


@dataclass(frozen=True)
class Foreign:
    """A form of such texts and records.

    Attributes
    ----------
    told:
        What it is, and what to do.
    has, has_any, lacks:
        Fields that it has, of which it has at least one, and that it has not.
    may_have:
        Further fields of it that a table may have for columns.
    """

    told: str
    has: frozenset[str]
    has_any: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()
    may_have: frozenset[str] = frozenset()

    def describes(self, names: Set[str], table: Table) -> bool:
        """Whether something with these fields has the form, and none that makes it a row of the table."""
        is_its = self.has <= names and (not self.has_any or bool(self.has_any & names))
        of_rows = self._not_in_it(table) & names or any(name.startswith("__") for name in names)
        return is_its and not of_rows and not self.has <= _declared(table)

    def is_in(self, keys: Expression, table: Table) -> Expression:
        """`describes`, of the keys of a JSON text. Never null."""
        is_its = F.lit(not self.has <= _declared(table)) & (F.size(F.array_except(array_of(self.has), keys)) == 0)
        if self.has_any:
            is_its &= F.arrays_overlap(keys, array_of(self.has_any))
        others = self._not_in_it(table)
        is_its &= ~F.exists(keys, lambda name: name.startswith("__") | name.isin(*others))
        return F.coalesce(is_its, F.lit(False))

    def _not_in_it(self, table: Table) -> Set[str]:
        """Fields that it has not: what the table has for columns, and what orders the table's rows."""
        own = self.has | self.has_any | self.may_have
        return self.lacks | (_declared(table) - own) | set(order_of(table).columns)


def _declared(table: Table) -> Set[str]:
    return {column.name for column in table.columns if column.declared}


_IMAGES = frozenset({"before", "after"})
_WHOLE = "write whole envelopes, or unwrapped events"
FOREIGN = (
    Foreign(
        "a CloudEvent, which has the change within its data: let the connector write it by another converter than "
        "CloudEventsConverter",
        has=frozenset({"specversion", "id", "source", "type"}),
        may_have=frozenset({"data", "time", "subject", "datacontenttype", "dataschema"}),
    ),
    Foreign(
        "an envelope of the MongoDB connector, whose documents are texts: unwrap it by ExtractNewDocumentState, and "
        "declare order_by in place of a connector",
        has=frozenset({"op", "source", "updateDescription"}),
        may_have=_IMAGES | {"ts_ms", "transaction"},
    ),
    Foreign(
        "a record of Kafka with its key and value within, as tools write it that dump topics: deliver the values "
        "alone, or records as Parquet",
        has=frozenset({"key"}),
        has_any=frozenset({"value", "payload"}),
        may_have=frozenset({"topic", "partition", "offset", "timestamp", "ts", "tstype", "headers", "broker"}),
    ),
    Foreign(
        "a change as Maxwell or Canal writes it: capture the table by Debezium",
        has=frozenset({"database", "table", "type", "data"}),
        may_have=frozenset(
            {"id", "ts", "es", "xid", "commit", "position", "gtid", "server_id", "thread_id", "old", "sql"}
        ),
    ),
    Foreign(
        "JSON beside the number of its schema, as Apicurio's ExtJsonConverter writes it: let the connector write Avro, "
        "or JSON with its schema (org.apache.kafka.connect.json.JsonConverter)",
        has=frozenset({"schemaId", "payload"}),
    ),
    Foreign(
        "a change as AWS DMS writes it to Kafka and Kinesis: capture the table by Debezium",
        has=frozenset({"data", "metadata"}),
    ),
    Foreign(
        f"a row before and after its change, without op and source, as the data of a CloudEvent is: {_WHOLE}",
        has=_IMAGES,
        lacks=frozenset({"op", "source"}),
    ),
    Foreign(f"an envelope without op: {_WHOLE}", has=frozenset({"source"}), has_any=_IMAGES, lacks=frozenset({"op"})),
    Foreign(
        f"an envelope without source, which says where in the log its change stands: {_WHOLE}",
        has=frozenset({"op"}),
        has_any=_IMAGES,
        lacks=frozenset({"source"}),
        may_have=frozenset({"ts_ms", "ts_us", "ts_ns", "transaction"}),
    ),
)


def foreign_of(names: Set[str], table: Table) -> Foreign | None:
    """What something with these fields is, where it is no event of the table."""
    return next((form for form in FOREIGN if form.describes(names, table)), None)


def foreign_problem(json: Expression, table: Table, forms: Sequence[Foreign]) -> Expression:
    """What is told of a JSON text that is of one of these forms; null of any other."""
    keys = F.json_object_keys(json)
    problems = (F.when(form.is_in(keys, table), problem_of("not_an_event", form.told)) for form in forms)
    return F.coalesce(*problems, F.lit(None).cast("string"))
