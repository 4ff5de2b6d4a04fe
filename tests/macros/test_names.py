"""Names of models that the catalog has otherwise: in lower case."""

from __future__ import annotations

import pytest
from modeling import NUMBERS, MakeModels, hudi_models, numbers

pytestmark = pytest.mark.spark
make_models = pytest.fixture(hudi_models)


@pytest.mark.slow
def test_a_name_with_capitals_is_read_in_the_run_that_makes_its_table(make_models: MakeModels) -> None:
    models = make_models(materialized="incremental", unique_key="id")
    models.write("Numbers", NUMBERS.format(1, 3), alias="NUMBERS")
    models.write("Copies", "select * from {{ ref('Numbers') }}")
    for options in (False, False, True):
        models.run(whole=options)
        assert models.rows("copies", "id", "value") == numbers(1)
