"""Landing is killed in every phase, or has no disk to write to: afterwards silver is what it had been without."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import MakeProject, pg, table_of
from killing import PHASES, TABLE, a_source, kill_when
from lake import Lake
from pyspark.sql import SparkSession

from ingest.config.tables import HISTORY

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("table_type", ["mor"])
def test_a_kill_in_any_phase_leaves_nothing_half_done(table_type: str, spark: SparkSession, tmp_path: Path) -> None:
    source = a_source(tmp_path, table_type, "phases")
    seen = {phase: kill_when(source, phase) for phase in PHASES}
    ended = source.lake("ingest", "shop")
    assert ended.returncode == 0, ended.stderr
    state = source.require_equal(spark)
    then = source.found(spark)
    # What a reader saw at an earlier commit it sees again, after one more crash and landing.
    kill_when(source, "committed, not registered")
    source.change()
    assert source.lake("ingest", "shop").returncode == 0
    source.require_equal(spark)
    assert source.found(spark, state.instant) == then
    assert [phase for phase, was_seen in seen.items() if not was_seen] == []


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_a_kill_between_the_commits_of_history_and_silver_doubles_nothing(
    table_type: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Silver's first commit is not there yet, then it is an older one; the history is a batch ahead of it."""
    source = a_source(tmp_path, table_type, "history", history=True)
    committed = PHASES["committed, not registered"]
    for phase in ("committed, not registered", "files written, not committed", "committed, not registered"):
        before = committed(source.table)
        assert kill_when(source, phase, HISTORY), phase
        assert committed(source.table) == before, f"silver was committed before the kill: {phase}"
        if phase == "committed, not registered":
            ahead = spark.read.format("hudi").load(f"{source.table}{HISTORY}")
            assert ahead.count() == len(source.changes)
            if not before:
                continue
        ended = source.lake("ingest", "shop")
        assert ended.returncode == 0, ended.stderr
        source.require_equal(spark)
        source.require_history(spark)
    # What is delivered again is known to the history as well.
    assert source.lake("position", "shop", "--tables", TABLE, "--to", "earliest").returncode == 0
    assert source.lake("ingest", "shop").returncode == 0
    source.require_history(spark)
    assert {key: value for key, value in source.found(spark).items() if value is not None} == source.rows


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    """The folder, on a disk of its own of a few megabytes."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_or_read_only_disk_is_named_and_landed_on_once_it_can_be_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = a_source(tmp_path, "cow", "full")
    with _small_disk(source.home / "warehouse") as disk:
        source.change()
        ended = source.lake("ingest", "shop")
        assert ended.returncode == 0, ended.stderr
        before = source.require_equal(spark)
        source.change()
        ballast = disk / "ballast"
        with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(b"x" * 4096)
        full = source.lake("ingest", "shop")
        ballast.unlink()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        read_only = source.lake("ingest", "shop")
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        assert source.silver(spark).state() == before
        assert (full.returncode, read_only.returncode) == (1, 1)
        assert "the disk is full" in full.stderr
        assert "was landed" in read_only.stderr
        ended = source.lake("ingest", "shop")
        assert ended.returncode == 0, ended.stderr
        source.require_equal(spark)


@pytest.mark.slow
@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_a_disk_that_is_full_at_any_page_of_a_commit_leaves_nothing_of_it(
    table_type: str, make_project: MakeProject, spark: SparkSession, tmp_path: Path
) -> None:
    """A commit, or a plan of a cleaning or compaction, whose file was cut was there: each later run failed of it."""
    with _small_disk(tmp_path / "disk") as disk:
        table = table_of("note", {"id": "int"}, ["id"], table_type=table_type, buckets=1)
        project = make_project({"tables": [{**table, "external": {"location": str(disk / "note")}}]})
        for page in range(20):
            project.deliver("shop.note", page, [pg("c", page + 1, id=page)])
            if page:
                with (disk / "ballast").open("wb") as file:
                    file.write(b"x" * (shutil.disk_usage(disk).free - 4096 * page))
                told = project.land(spark)["note"].error
                assert told is None or re.search("the disk is full|No space left", told.message)
                (disk / "ballast").unlink()
            project.land_well(spark)
            assert project.rows(spark, "note") == [{"id": number} for number in range(page + 1)]


def test_a_catalog_on_a_read_only_or_full_disk_is_told_as_such(tmp_path: Path) -> None:
    """On the former each command came to no end; of the latter it told of errors that nobody had seen."""
    lake = Lake({"LAKE_HOME": str(tmp_path / "disk"), "LAKE_MEMORY": "1g"})
    with _small_disk(tmp_path / "disk") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        read_only = lake.run("sql", "select 1")
        subprocess.run(["mount", "-o", "remount,rw,size=1m", str(disk)], check=True)
        full = lake.run("sql", "select 1")
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        ended = lake.run("sql", "select 1")
    assert (read_only.returncode, full.returncode, ended.returncode) == (1, 1, 0), ended.stderr
    assert f"{disk}: the embedded catalog cannot be written here" in read_only.stderr
    assert "the catalog's database cannot be opened: java.io.IOException: No space left on device" in full.stderr
