"""The daily job on a project of a test's own: what failed is tried once more, and what stays is told."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import MakeProject
from modeling import Models
from pyspark.sql import SparkSession

from ci.nightly import WEBHOOK, nightly, notify


@pytest.fixture
def posted() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An address that takes messages, and those it has taken; `/no` refuses them."""
    taken: list[dict[str, Any]] = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path != "/no":
                taken.append(json.loads(body))
            self.send_response(403 if self.path == "/no" else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Taking) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", taken
        server.shutdown()
        thread.join()


@pytest.mark.spark
def test_what_fails_once_is_tried_again_and_what_stays_is_told(spark: SparkSession, make_project: MakeProject) -> None:
    models = Models.of(spark, make_project())
    root = str(models.project.root)
    settings = yaml.safe_load((models.project.root / "dbt_project.yml").read_text(encoding="utf-8"))
    # What `late` reads is there once the first run has come to its end.
    late = f"lakehouse_{models.project.schema}_late"
    settings["on-run-end"] = [f"create schema if not exists {late}", f"create table if not exists {late}.read (id int)"]
    (models.project.root / "dbt_project.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    models.write("well", "select 1 as id", materialized="table")
    models.write("late", f"select id from {late}.read", materialized="table")
    models.write("after_late", "select * from {{ ref('late') }}", materialized="table")
    where = ("--project-dir", root, "--profiles-dir", root, "--target-path", f"{root}/target", "--log-path", root)
    before = Path.cwd()
    assert nightly([], where, Path(root) / "target") == []
    assert models.tables() >= {"well", "late", "after_late"}
    models.write("broken", "select nothing from nowhere", materialized="table")
    models.write("after_broken", "select * from {{ ref('broken') }}", materialized="table")
    models.do(f"insert into {late}.read values (1)")
    stale = {"name": "read", "loaded_at_field": "timestamp '2020-01-01'",
             "freshness": {"error_after": {"count": 1, "period": "day"}}}  # fmt: skip
    sources = {"version": 2, "sources": [{"name": "other", "schema": late, "tables": [stale]}]}
    models.project.write_models(yaml.safe_dump(sources), "_other.yml")
    failed = nightly([], where, Path(root) / "target")
    os.chdir(before)
    assert [line.partition(":")[0] for line in failed] == ["other.read", "broken", "after_broken"]
    assert failed[0].endswith(" hours old")


def test_failures_are_posted_and_an_address_is_never_shown(
    posted: tuple[str, list[dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    address, taken = posted
    notify(f"{address}/secret", ["fct_sales: no space left", "fct_listings: skipped"])
    assert taken == [
        {
            "text": "lakehouse: 2 failed in the daily job\nfct_sales: no space left\nfct_listings: skipped",
            "failed": ["fct_sales: no space left", "fct_listings: skipped"],
        }
    ]
    notify(address, [str(number) for number in range(25)])
    assert taken[1]["text"].endswith("19\nand 5 more")
    for wrong in (f"{address}/no", "http://127.0.0.1:1/secret", "no address: secret"):
        notify(wrong, ["fct_sales: broken"])
    told = capsys.readouterr().out
    assert told.count(f"the address in {WEBHOOK}") == 3
    assert "answered 403: nobody was told" in told
    assert "secret" not in told
    assert "127.0.0.1" not in told


def test_a_command_without_a_result_is_an_error_that_names_it(tmp_path: Path) -> None:
    failed = nightly([], ("--project-dir", str(tmp_path)))
    assert len(failed) == 3
    assert all(line.startswith("dbt ") for line in failed)
