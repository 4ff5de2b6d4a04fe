"""Two runs of dbt at a time, as real processes over Thrift: no row is left that neither of them wanted.

A run fails with a message, or its table is right, and the next run leaves every model as its own select.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import MakeProject
from lake import Lake, Server, serving
from modeling import Models
from pyspark.sql import SparkSession

from macros import test_increments as increments
from macros import test_snapshots as snapshots

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]
make_shop = increments.make_shop
# What a run may say that finds another one at work.
OTHER_RUN = ("Cannot resolve conflicts for overlapping writes", "expected one writer at a time")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server, which dbt's target `thrift` leads to."""
    with serving(tmp_path_factory.mktemp("served")) as started, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKE_THRIFT_PORT", str(started.port))
        yield started


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 10))])
def test_two_runs_leave_no_phantoms(
    seed: int, make_shop: increments.MakeShop, spark: SparkSession, make_project: MakeProject, server: Server
) -> None:
    draw = random.Random(seed)  # noqa: S311
    shop = make_shop({"type": draw.choice(["cow", "mor"])})
    root = shop.models.project.root
    lake = Lake({"LAKE_THRIFT_PORT": str(server.port)})

    def run(number: int) -> tuple[int, str]:
        target = str(root / f"target{number}")
        where = ("--project-dir", str(root), "--profiles-dir", str(root), "--target-path", target, "--log-path", target)
        done = lake.command("dbt", "run", "--select", *increments.MODELS, *shop.models.target, *where)
        return done.returncode, done.stdout

    right = 0
    for _ in range(6):
        shop.change(*(increments.some_change(draw, shop) for _ in range(6)))
        if draw.random() < 0.5:  # a row by hand: the whole table is compared
            shop.models.do(f"delete from {shop.models.relation('fct_orders')} where id = {draw.randint(1, 12)}")
        with ThreadPoolExecutor(2) as both:
            ended = list(both.map(run, (1, 2)))
        for code, told in ended:
            assert code == 0 or any(words in told for words in OTHER_RUN), told
        # What failed has written nothing, or what is right.
        if any(code == 0 for code, _ in ended):
            right += 1
            shop.require_law()
        shop.run()  # requires the law
    assert right > 2, f"in {right} of 6 rounds a run went well"
    left = {name for name in shop.models.tables() if "__" in name}
    assert not left, left


def test_two_snapshots_leave_one_version_of_each_change(
    spark: SparkSession, make_project: MakeProject, server: Server
) -> None:
    models = Models.of(spark, make_project(), server)
    snapshots.snapshot(models, strategy="check", check_cols=["value"])
    root, lake = models.project.root, Lake({"LAKE_THRIFT_PORT": str(server.port)})

    def run(number: int) -> tuple[int, str]:
        target = str(root / f"target{number}")
        where = ("--project-dir", str(root), "--profiles-dir", str(root), "--target-path", target, "--log-path", target)
        done = lake.command("dbt", "snapshot", *models.target, *where)
        return done.returncode, done.stdout

    for number in range(5):
        rows = ", ".join(f"({key}, 'value {number}', '2026-01-0{number + 1}')" for key in (1, 2, 3))
        if number == 0:
            snapshots.taken(models, rows)
            continue
        sql = f"select id, value, timestamp(at) as at from values {rows} as rows (id, value, at)"
        models.write("rows", sql, materialized="view")
        models.run("rows")
        with ThreadPoolExecutor(2) as both:
            ended = list(both.map(run, (1, 2)))
        for code, told in ended:
            assert code == 0 or any(words in told for words in OTHER_RUN), told
        assert models.dbt("snapshot")["versions"].status == "success"
        found = models.rows("versions", "id", "value", "dbt_valid_to")
        assert [(row["id"], row["value"], row["dbt_valid_to"] is None) for row in found] == [
            (key, f"value {then}", then == number) for key in (1, 2, 3) for then in range(number + 1)
        ]
