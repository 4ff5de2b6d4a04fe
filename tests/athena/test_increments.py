"""Marts over silver on S3 follow its commits, whose times S3 tells in whole seconds."""

from __future__ import annotations

from datetime import datetime

import pytest
from moto.s3.models import s3_backends

from macros import test_increments as increments

pytestmark = [pytest.mark.athena, pytest.mark.spark]
make_shop = increments.make_shop


def end_within_their_second(shop: increments.Shop, table: str) -> None:
    """Gives the files of a table's commits the times that S3 has for them where none took longer than its second."""
    relation = f"{shop.models.project.schema}.{table}"
    commits = shop.models.ask(f"call show_commits(table => '{relation}', limit => 100)")
    times = {f"{each['commit_time']}.{each['action']}": each["commit_time"][:14] for each in commits}
    (bucket,) = (backend.buckets["lake"] for of in s3_backends.values() for backend in of.values() if backend.buckets)
    for key in bucket.keys.values():
        if f"{shop.models.project.schema}.db/{table}/" in key.name and key.name.rpartition("/")[2] in times:
            key.last_modified = datetime.strptime(times.pop(key.name.rpartition("/")[2]), "%Y%m%d%H%M%S")
    assert not times
    told = shop.models.ask(f"call show_commits(table => '{relation}', limit => 100)")
    assert all(each["state_transition_time"] < each["commit_time"] for each in told)


@pytest.mark.slow
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_commit_that_seems_completed_before_its_request_is_not_missed(
    table_type: str, make_shop: increments.MakeShop
) -> None:
    shop = make_shop(table_type=table_type)
    shop.change(("orders", "u", {"id": 1, "customer": 1, "amount": 100, "at": 99}))
    end_within_their_second(shop, "orders")
    shop.run()
    # The order leaves customer 1, whose total is found by the table as the last run has seen it.
    shop.change(("orders", "u", {"id": 1, "customer": 4, "amount": 7, "at": 7}))
    shop.run()
    assert shop.models.told("customer_totals") == ["2 rows differ"]
