"""Hudi tables of a lake on disk, as Athena finds them: their files in the lake's bucket, their names in Glue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import ClientError

from dev.chain.aws import LAKE_BUCKET, client_of

_INPUT = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
_OUTPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
_TYPES = {pa.int32(): "int", pa.int64(): "bigint", pa.string(): "string", pa.bool_(): "boolean", pa.date32(): "date",
          pa.float64(): "double", pa.float32(): "float", pa.binary(): "binary"}  # fmt: skip


def publish(aws: str, folder: Path, schema: str, table: str) -> None:
    """Brings a table's folder to the bucket, without what has been there and is gone, and its columns to Glue."""
    s3, place = client_of(aws, "s3"), f"silver/{schema}/{table}"
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=LAKE_BUCKET, Prefix=f"{place}/")
    there = {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", ())}
    files = {f"{place}/{file.relative_to(folder)}": file for file in folder.rglob("*") if file.is_file()}
    # Data before the timeline that names it, so that whoever reads meanwhile finds what a commit says.
    for key, file in sorted(files.items(), key=lambda each: "/.hoodie/" in each[0]):
        if there.get(key) != file.stat().st_size or "/.hoodie/" in key:
            s3.upload_file(str(file), LAKE_BUCKET, key)
    for key in there.keys() - files.keys():
        s3.delete_object(Bucket=LAKE_BUCKET, Key=key)
    newest = max(folder.glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    columns = [{"Name": field.name, "Type": hive_type(field.type)} for field in pq.read_schema(newest)]
    _register(client_of(aws, "glue"), schema, table, f"s3://{LAKE_BUCKET}/{place}", columns)


def hive_type(of: pa.DataType) -> str:
    """A type of Parquet's as Glue has it."""
    if pa.types.is_decimal(of):
        return f"decimal({of.precision},{of.scale})"
    if pa.types.is_timestamp(of):
        return "timestamp"
    if pa.types.is_list(of):
        return f"array<{hive_type(of.value_type)}>"
    return _TYPES[of]


def _register(glue: Any, schema: str, table: str, location: str, columns: list[dict[str, str]]) -> None:
    described = {
        "Name": table, "TableType": "EXTERNAL_TABLE", "Parameters": {"EXTERNAL": "TRUE"}, "PartitionKeys": [],
        "StorageDescriptor": {
            "Columns": columns, "Location": location, "InputFormat": _INPUT, "OutputFormat": _OUTPUT,
            "SerdeInfo": {"SerializationLibrary": _SERDE, "Parameters": {"hoodie.query.as.ro.table": "true",
                                                                        "path": location}},
        },
    }  # fmt: skip
    try:
        glue.create_database(DatabaseInput={"Name": schema})
    except ClientError as error:
        if error.response["Error"]["Code"] != "AlreadyExistsException":
            raise
    try:
        glue.update_table(DatabaseName=schema, TableInput=described)
    except ClientError:
        glue.create_table(DatabaseName=schema, TableInput=described)
