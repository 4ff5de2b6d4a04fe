"""Which types hold the values of which others."""

from __future__ import annotations

from pyspark.sql import types as T

from ingest.schema.connect import NO_MOMENTS


def union_members(data_type: T.DataType) -> list[T.StructField]:
    """The members of a struct that stands for an Avro union of several types, of which one has the value; else none.

    Spark's Avro reader calls them member0, member1 and so on ("Apache Avro Data Source Guide").
    """
    members = data_type.fields if isinstance(data_type, T.StructType) else []
    is_union = len(members) > 1 and [item.name for item in members] == [f"member{at}" for at in range(len(members))]
    return members if is_union else []


def is_wider(wide: T.DataType, narrow: T.DataType) -> bool:
    """Whether every value of `narrow` is one of `wide`, and Hudi can rewrite a column of the one as the other."""
    if wide == narrow:
        return False
    if isinstance(wide, T.DecimalType) and isinstance(narrow, T.DecimalType):
        return wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale
    return (type(narrow), type(wide)) in (
        (T.IntegerType, T.LongType),
        (T.FloatType, T.DoubleType),
        (T.IntegerType, T.DoubleType),
    )


def is_column_type(data_type: T.DataType) -> bool:
    return isinstance(
        data_type,
        T.BooleanType
        | T.IntegerType
        | T.LongType
        | T.FloatType
        | T.DoubleType
        | T.StringType
        | T.BinaryType
        | T.DateType
        | T.TimestampType
        | T.DecimalType,
    )


def is_convertible(data_type: T.DataType, meaning: str | None, wanted: T.DataType) -> bool:
    """Whether some values can be converted; those that cannot are quarantined one by one (`ingest.decode.types`).

    `meaning` is Debezium's semantic type of the values, where a schema names it.
    """
    if isinstance(data_type, T.NullType | T.StringType) or isinstance(wanted, T.StringType) or data_type == wanted:
        return True
    if isinstance(wanted, T.ArrayType):
        return isinstance(data_type, T.ArrayType) and is_convertible(data_type.elementType, meaning, wanted.elementType)
    if members := union_members(data_type):
        return any(is_convertible(item.dataType, meaning, wanted) for item in members)
    if isinstance(data_type, T.StructType):
        return isinstance(wanted, T.DecimalType) and {"scale", "value"} == set(data_type.names)
    if isinstance(data_type, T.BinaryType):
        return meaning is not None
    return _are_numbers(data_type, meaning, wanted)


def _are_numbers(data_type: T.DataType, meaning: str | None, wanted: T.DataType) -> bool:
    """Whether both are numbers, also as what dates and timestamps count: a timestamp's unit its semantic type says."""
    if isinstance(wanted, T.DateType | T.TimestampType):
        if (meaning or "").partition(";")[0] in NO_MOMENTS:
            return False
        return isinstance(data_type, T.IntegralType | T.DateType | T.TimestampType | T.TimestampNTZType)
    if isinstance(data_type, T.DateType | T.TimestampType):
        has_unit = isinstance(data_type, T.DateType) or meaning is not None
        return has_unit and isinstance(wanted, T.IntegerType | T.LongType)
    return not isinstance(wanted, T.BinaryType) and isinstance(data_type, T.NumericType | T.BooleanType)
