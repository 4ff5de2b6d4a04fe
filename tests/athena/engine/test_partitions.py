"""Columns that a silver table is partitioned by, read by Athena."""

from __future__ import annotations

import pytest
from conftest import MakeProject, pg, table_of
from pyspark.sql import SparkSession

from athena.engine.building import AthenaModels

pytestmark = [pytest.mark.athena, pytest.mark.spark]
VALUES = [("a", None), (None, "b"), (None, None), ("x/kind=__HIVE_DEFAULT_PARTITION__", "\\N"), ("%=é", "b")]


@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_a_null_of_a_partition_is_one(
    spark: SparkSession, make_project: MakeProject, models: AthenaModels, table_type: str
) -> None:
    """As `partition_value` gives it: whatever the engine shows for it, and also where a value looks like it."""
    columns = {"id": "int", "kind": "string", "place": "string"}
    project = make_project({
        "tables": [table_of("item", columns, ["id"], table_type=table_type, partition_by=["kind", "place"])]
    })  # fmt: skip
    events = [pg("c", number, id=number, kind=kind, place=place) for number, (kind, place) in enumerate(VALUES, 1)]
    project.deliver("shop.item", 0, events)
    project.land_well(spark)
    shown = "{{ partition_value('kind') }} as kind, {{ partition_value('place') }} as place"
    models.write("items", f"select id, {shown} from {project.schema}.item", materialized="view")
    models.run()
    assert models.rows("items") == [[str(number), *values] for number, values in enumerate(VALUES, 1)]
    assert [tuple(row.values()) for row in project.rows(spark, "item", "kind", "place")] == VALUES
