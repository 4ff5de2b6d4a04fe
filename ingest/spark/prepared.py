"""Transformations of DataFrames that are built once and applied to the frame of each batch.

Each expression that Python writes, and each operation on a DataFrame, is a call to the JVM: a small batch made 2,000 of
them, which were the same for every batch of a table with the same columns. What is prepared is the sequence of
operations with their Java expressions; a frame of the same schema takes one call for each operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from ingest.spark.jvm import java_class
from ingest.spark.shared import Shared

Transformation = Callable[[DataFrame], DataFrame]
# The operations of a Java dataset that are recorded: each gives a dataset, and looks at no row.
_RECORDED = frozenset(
    {"select", "withColumn", "withColumns", "withColumnRenamed", "filter", "drop", "unionByName", "join", "crossJoin"}
)
# What may be asked of a dataset meanwhile: all frames of the same schema answer alike.
_ASKED = frozenset({"schema"})


def prepared(frame: DataFrame, place: str, made_of: object, transform: Transformation) -> DataFrame:
    """The frame, transformed; the transformation is built only where the place, or what it is made of, is new.

    A transformation that asks for more than a schema, or takes a column of the frame itself (`frame["name"]`), is built
    anew each time.

    Parameters
    ----------
    place:
        A name for the transformation of one table. The last one of each place is kept, as long as the Spark application
        runs.
    made_of:
        All that the transformation depends on besides the frame's schema. Compared with `==`.
    transform:
        Depends on nothing else, and reads no rows.
    """
    spark = frame.sparkSession
    schema = frame._jdf.schema().json()
    now: list[DataFrame] = []

    def build() -> _Recording | None:
        result, recording = _recorded(frame, transform)
        now.append(result)
        return recording

    known = Shared.of(spark).built(place, (spark, schema, made_of), build)
    if now:
        return now[0]
    return known.applied(frame) if known is not None else transform(frame)


@dataclass(frozen=True)
class _Made:
    """Stands for the dataset that a step before has made."""

    by: int


@dataclass(frozen=True)
class _Step:
    """An operation on the dataset that a step before has made; step 0 is the frame itself."""

    on: int
    operation: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class _Recording:
    """The steps of a transformation, and which of them made its result."""

    steps: tuple[_Step, ...]
    result: int

    def applied(self, frame: DataFrame) -> DataFrame:
        made = [frame._jdf]
        for step in self.steps:
            arguments = (made[each.by] if isinstance(each, _Made) else each for each in step.arguments)
            made.append(getattr(made[step.on], step.operation)(*arguments))
        return DataFrame(made[self.result], frame.sparkSession)


class _Recorder:
    """Stands for a Java dataset while a transformation is built: does what it is told, and notes it."""

    def __init__(self, dataset: Any, number: int, notes: _Notes) -> None:
        self._dataset, self._number, self._notes = dataset, number, notes

    def __getattr__(self, name: str) -> Any:
        if name not in _RECORDED:
            self._notes.is_whole &= name in _ASKED
            return getattr(self._dataset, name)

        def operation(*arguments: Any) -> _Recorder:
            given = (each._dataset if isinstance(each, _Recorder) else each for each in arguments)
            dataset = getattr(self._dataset, name)(*given)
            noted = tuple(_Made(each._number) if isinstance(each, _Recorder) else each for each in arguments)
            self._notes.steps.append(_Step(self._number, name, noted))
            return _Recorder(dataset, len(self._notes.steps), self._notes)

        return operation


class _Notes:
    """What is noted of a transformation; `is_whole` unless it did what cannot be repeated."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []
        self.is_whole = True


def planned(frame: DataFrame) -> DataFrame:
    """The frame's rows, for frames that are made of it: these ask no more of its expressions, and no rows are kept.

    Spark pushes a condition into the projections below it, with the expressions of all columns that it asks for: of one
    on what is wrong of an event, into which every column goes, the plan took minutes (landing two changed keys of a
    decimal: 230 s; so 28 s).
    """
    spark = frame.sparkSession
    # What an action does: readers take settings from the thread's session, such as the calendar of old dates.
    java_class(spark, "org.apache.spark.sql.SparkSession").setActiveSession(spark._jsparkSession)
    rows = frame._jdf.queryExecution().toRdd()
    return DataFrame(spark._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False), spark)


def _recorded(frame: DataFrame, transform: Transformation) -> tuple[DataFrame, _Recording | None]:
    """The frame, transformed, and the steps that did it; None where they cannot be repeated."""
    notes = _Notes()
    spark = frame.sparkSession
    result = transform(DataFrame(_Recorder(frame._jdf, 0, notes), spark))
    last: Any = result._jdf
    if not isinstance(last, _Recorder):
        return result, None
    recording = _Recording(tuple(notes.steps), last._number) if notes.is_whole else None
    return DataFrame(last._dataset, spark), recording
