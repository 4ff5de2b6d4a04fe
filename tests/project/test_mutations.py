"""What `make mutations` breaks is there to be broken: the code moves on, and the list with it."""

from __future__ import annotations

import pytest
from conftest import REPOSITORY

from dev.mutations import MUTATIONS, Mutation
from dev.mutations.__main__ import written


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_finds_its_place_and_its_tests(mutation: Mutation) -> None:
    text = (REPOSITORY / mutation.file).read_text(encoding="utf-8")
    assert text.count(mutation.text) == 1
    assert mutation.tests
    assert all((REPOSITORY / test.partition("::")[0]).is_file() for test in mutation.tests)


def test_the_table_of_breakages_is_whole_and_none_passed_unnoticed() -> None:
    found = written()
    assert list(found) == [mutation.name for mutation in MUTATIONS]
    assert all(found.values())
