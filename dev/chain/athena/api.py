"""Athena's API: queries that are started, looked at, stopped and read, each in a thread of its own."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from dev.chain.athena.dialect import HIVE, Dialect, RefusedError, Statement
from dev.chain.athena.engine import Engine, EngineError, Rows
from dev.chain.athena.names import Name, hive_type
from dev.chain.athena.values import column_info, datum, result
from dev.chain.aws import NAME, RESULTS_BUCKET, client_of

# Two workgroups: one that says where results go, as Athena's own does once somebody has set it; and one that does not.
WORKGROUPS: Mapping[str, str | None] = {"primary": f"s3://{RESULTS_BUCKET}/", "without_output": None}
_PAGE_ROWS = 1000
_ICEBERG_ERROR = 233


class ApiError(Exception):
    """A call that the API refuses; `code` is its name of the error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Query:
    """A query that was started."""

    id: str
    sql: str
    schema: str
    workgroup: str
    output: str
    engine: Engine
    submitted: float = field(default_factory=time.time)
    state: str = "RUNNING"
    kind: str = "DML"
    reason: str = ""
    error: dict[str, Any] = field(default_factory=dict)
    rows: Rows = field(default_factory=Rows)
    ended: float | None = None

    def told(self) -> dict[str, Any]:
        """What GetQueryExecution says of it."""
        took = int(1000 * ((self.ended or time.time()) - self.submitted))
        status: dict[str, Any] = {"State": self.state, "SubmissionDateTime": self.submitted}
        if self.ended:
            status["CompletionDateTime"] = self.ended
        if self.reason:
            status |= {"StateChangeReason": self.reason, "AthenaError": self.error}
        return {
            "QueryExecutionId": self.id, "Query": self.sql, "StatementType": self.kind, "WorkGroup": self.workgroup,
            "ResultConfiguration": {"OutputLocation": f"{self.output.rstrip('/')}/{self.id}.csv"},
            "QueryExecutionContext": {"Database": self.schema, "Catalog": HIVE}, "Status": status,
            "Statistics": {"EngineExecutionTimeInMillis": took, "TotalExecutionTimeInMillis": took,
                           "DataScannedInBytes": self.rows.scanned_bytes},
            "EngineVersion": {"SelectedEngineVersion": "AUTO", "EffectiveEngineVersion": "Athena engine version 3"},
        }  # fmt: skip


class Api:
    """The calls, over Trino at one address and the stand-in for S3 and Glue at another."""

    def __init__(self, trino: str, aws: str) -> None:
        self._trino = trino
        self._glue = client_of(aws, "glue")
        self._s3 = client_of(aws, "s3")
        self._queries: dict[str, Query] = {}
        self._calls: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "StartQueryExecution": self._start,
            "GetQueryExecution": lambda body: {"QueryExecution": self._query(body).told()},
            "GetQueryResults": self._results,
            "StopQueryExecution": self._stop,
            "GetWorkGroup": self._workgroup,
            "GetDataCatalog": lambda body: {"DataCatalog": {"Name": HIVE, "Type": "GLUE"}},
            "ListDataCatalogs": lambda body: {"DataCatalogsSummary": [{"CatalogName": HIVE, "Type": "GLUE"}]},
        }

    def call(self, action: str, body: Mapping[str, Any], name: str) -> dict[str, Any]:
        """What a call gives; `name` is the access key that signed it.

        Raises
        ------
        ApiError
            The call is refused.
        """
        if name != NAME:
            raise ApiError("UnrecognizedClientException", "The security token included in the request is invalid.")
        if action not in self._calls:
            raise ApiError("InvalidRequestException", f"the local Athena has no {action}")
        return self._calls[action](body)

    def _start(self, body: Mapping[str, Any]) -> dict[str, Any]:
        workgroup = body.get("WorkGroup") or "primary"
        output = body.get("ResultConfiguration", {}).get("OutputLocation") or self._output_of(workgroup)
        if output is None:
            raise ApiError(
                "InvalidRequestException",
                "No output location provided. An output location is required either through the Workgroup result "
                "configuration setting or as an API input.",
            )
        self._require_bucket(output)
        schema = body.get("QueryExecutionContext", {}).get("Database") or "default"
        query = Query(
            str(uuid.uuid4()), body["QueryString"], schema.lower(), workgroup, output,
            Engine(self._trino, HIVE, schema.lower()),
        )  # fmt: skip
        self._queries[query.id] = query
        threading.Thread(target=self._run, args=(query,), daemon=True).start()
        return {"QueryExecutionId": query.id}

    def _stop(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self._query(body).engine.cancelled.set()
        return {}

    def _results(self, body: Mapping[str, Any]) -> dict[str, Any]:
        query = self._query(body)
        if query.state != "SUCCEEDED":
            raise ApiError("InvalidRequestException", f"Query has not yet finished. Current state: {query.state}")
        rows = result(query.rows, plain=query.kind != "DML")
        begin = int(body.get("NextToken") or 0)
        end = begin + min(int(body.get("MaxResults") or _PAGE_ROWS), _PAGE_ROWS)
        told: dict[str, Any] = {
            "ResultSet": {
                "Rows": [{"Data": [datum(value) for value in row]} for row in rows[begin:end]],
                "ResultSetMetadata": {"ColumnInfo": [column_info(*column) for column in query.rows.columns]},
            },
            "UpdateCount": query.rows.update_count or 0,
        }
        return told | ({"NextToken": str(end)} if end < len(rows) else {})

    def _workgroup(self, body: Mapping[str, Any]) -> dict[str, Any]:
        output = self._output_of(body["WorkGroup"])
        configuration = {
            "ResultConfiguration": {"OutputLocation": output} if output else {},
            "EnforceWorkGroupConfiguration": False,
            "EngineVersion": {"SelectedEngineVersion": "Athena engine version 3"},
        }
        return {"WorkGroup": {"Name": body["WorkGroup"], "State": "ENABLED", "Configuration": configuration}}

    def _output_of(self, workgroup: str) -> str | None:
        if workgroup not in WORKGROUPS:
            raise ApiError("InvalidRequestException", f"WorkGroup {workgroup} is not found.")
        return WORKGROUPS[workgroup]

    def _require_bucket(self, output: str) -> None:
        bucket = output.removeprefix("s3://").partition("/")[0]
        try:
            self._s3.head_bucket(Bucket=bucket)
        except ClientError:
            raise ApiError("InvalidRequestException", f"Unable to verify/create output bucket {bucket}") from None

    def _query(self, body: Mapping[str, Any]) -> Query:
        found = self._queries.get(body["QueryExecutionId"])
        if found is None:
            raise ApiError("InvalidRequestException", f"QueryExecution {body['QueryExecutionId']} was not found")
        return found

    def _run(self, query: Query) -> None:
        try:
            statement = Dialect(query.schema, self._is_iceberg).translate(query.sql)
            query.kind = statement.kind
            self._execute(query, statement)
            query.state = "SUCCEEDED"
        except EngineError as error:
            query.reason = f"{error.name}: {error}" if error.name else str(error)
            query.state = "CANCELLED" if query.engine.cancelled.is_set() else "FAILED"
            query.error = _told_of(query.reason, by_user=error.by_user)
        except (RefusedError, ValueError, ClientError) as error:
            query.state, query.reason = "FAILED", str(error)
            query.error = _told_of(query.reason, by_user=True)
        finally:
            if query.state == "RUNNING":
                query.state, query.reason = "FAILED", "the local Athena failed: its log says how"
            query.ended = time.time()

    def _execute(self, query: Query, statement: Statement) -> None:
        if statement.iceberg_select:
            _require_iceberg_times(query.engine.types_of(statement.iceberg_select))
        for step in statement.steps:
            query.rows = query.engine.run(step)
        if statement.view:
            self._name_columns(query.engine, statement.view)
        if statement.properties:
            self._set_properties(*statement.properties)

    def _table(self, name: Name) -> dict[str, Any]:
        found: dict[str, Any] = self._glue.get_table(DatabaseName=name.schema, Name=name.table)["Table"]
        return found

    def _is_iceberg(self, name: Name) -> bool:
        try:
            return str(self._table(name).get("Parameters", {}).get("table_type", "")).upper() == "ICEBERG"
        except ClientError:
            return False

    def _name_columns(self, engine: Engine, view: Name) -> None:
        """Gives a view its columns in the catalog, as Athena does: Trino writes one that is called dummy."""
        table = self._table(view)
        described = engine.run(f"describe {view.within(HIVE)}").rows
        columns = [{"Name": name, "Type": hive_type(of_type)} for name, of_type, *_ in described]
        self._write(table | {"StorageDescriptor": {**table.get("StorageDescriptor", {}), "Columns": columns}})

    def _set_properties(self, name: Name, properties: Mapping[str, str]) -> None:
        table = self._table(name)
        self._write(table | {"Parameters": {**table.get("Parameters", {}), **properties}})

    def _write(self, table: Mapping[str, Any]) -> None:
        settable = ("Name", "Description", "Owner", "Retention", "StorageDescriptor", "PartitionKeys",
                    "ViewOriginalText", "ViewExpandedText", "TableType", "Parameters")  # fmt: skip
        self._glue.update_table(
            DatabaseName=table["DatabaseName"], TableInput={key: table[key] for key in settable if key in table}
        )


def _require_iceberg_times(types: Mapping[str, str]) -> None:
    """Refuses what Athena refuses: a new Iceberg table has times of six digits."""
    for name, of_type in types.items():
        wrong = [digits for digits in re.findall(r"\btimestamp\((\d+)\)", of_type) if digits != "6"]
        if wrong:
            raise RefusedError(
                f"NOT_SUPPORTED: Timestamp precision ({wrong[0]}) not supported for Iceberg. "
                f'Use "timestamp(6)" instead: {name}'
            )


def _told_of(reason: str, *, by_user: bool) -> dict[str, Any]:
    kind = _ICEBERG_ERROR if "ICEBERG_COMMIT_ERROR" in reason else 1003
    return {"ErrorCategory": 2 if by_user else 1, "ErrorType": kind, "Retryable": False, "ErrorMessage": reason}
