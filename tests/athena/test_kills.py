"""Landing on S3 is killed at a request of each phase: afterwards silver and Glue are what they had been without."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import chosen, new_project
from killing import LANDS_ON_DEMAND, LIMIT_S, child_of
from pyspark.sql import SparkSession

from athena.shop import TABLE, Shop, items
from dev.chain.moto_s3 import Fault, Request, StandIn

pytestmark = [pytest.mark.athena, pytest.mark.spark]

# A request at which the process is killed: before S3 has done it, or after.
MOMENTS: Mapping[str, tuple[str, bool]] = {
    "logs written": (r"PUT .*/item/\.[^/]+\.log\.[^/]+", True),
    "about to commit": (r"PUT .*/item/\.hoodie/\d+\.deltacommit", False),
    "committed, not registered": (r"PUT .*/item/\.hoodie/\d+\.deltacommit", True),
    "compacting": (r"PUT .*/item/[^/]+\.parquet", False),
    "table registered, views not": (r"CreateTable .*", True),
}


# Every change has to pass one; the others are slow tests.
@pytest.mark.parametrize("moment", chosen(MOMENTS, "about to commit"))
def test_a_kill_leaves_nothing_half_done(
    spark: SparkSession, aws: StandIn, glue: Any, tmp_path: Path, moment: str
) -> None:
    pattern, is_done = MOMENTS[moment]
    shop = Shop(new_project(tmp_path, {"tables": [items()]}), random.Random(moment))  # noqa: S311
    of_the_table = f"/lake/silver/{shop.project.schema}.db"
    home = tmp_path / "lake"
    killed = threading.Event()
    with child_of(LANDS_ON_DEMAND, shop.project.root, home) as child:
        if moment != "table registered, views not":
            shop.change()
            child.tell()
            child.answer()
        pid = child.pid

        def kill(request: Request) -> Fault | None:
            told = f"{request.action} {request.path}"
            is_here = request.service == "glue" or request.path.startswith(of_the_table)
            if not killed.is_set() and is_here and re.fullmatch(pattern, told):
                killed.set()
                os.killpg(pid, signal.SIGKILL)
                return Fault(500, "InternalError", is_done=is_done)
            return None

        shop.change()
        with aws.broken(kill):
            child.tell()
            assert killed.wait(LIMIT_S), "the moment did not come"
    with child_of(LANDS_ON_DEMAND, shop.project.root, home) as child:
        child.tell()
        child.answer()
    shop.require_equal(spark)
    found = {each["Name"] for each in glue.get_tables(DatabaseName=shop.project.schema)["TableList"]}
    assert found >= {TABLE, f"{TABLE}_ro", f"{TABLE}_rt", "_quarantine"}
