"""What a command leaves: nothing in the temp folder, and no line of a library's own in the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import MakeProject, pg, table_of
from lake import Lake, serving

pytestmark = pytest.mark.spark


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    """The temp folder of a process of its own and of its Java."""
    folder = tmp_path / "temp"
    folder.mkdir()
    return folder


def environment(tmp_path: Path, temp: Path) -> Mapping[str, str]:
    # Java does not look at TMPDIR.
    java = f"-Djava.io.tmpdir={temp} -XX:-UsePerfData"
    return {"LAKE_HOME": str(tmp_path / "home"), "LAKE_MEMORY": "1g", "TMPDIR": str(temp), "JAVA_TOOL_OPTIONS": java}


def left_in(folder: Path) -> list[str]:
    """What is there once Java has ended too, which it does after its command; jars unpack libraries that stay."""
    deadline = time.monotonic() + 30
    while True:
        left = [path.name for path in folder.iterdir() if ".so" not in path.suffixes]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.2)


@pytest.mark.slow
def test_a_run_that_reads_log_files_says_nothing_of_a_library_and_leaves_nothing(
    make_project: MakeProject, tmp_path: Path, temp: Path
) -> None:
    project = make_project({"tables": [table_of("note", {"id": "int", "text": "string"}, ["id"])]})
    # Portion by portion: the last one is late, and is judged by what the first two have written.
    project.connect({"batch_bytes": 1})
    for number, lsn in enumerate((100, 200, 50)):
        project.deliver("shop.note", 1000 * number, [pg("u", lsn + at, id=at, text="x") for at in range(300)])
    run = Lake(environment(tmp_path, temp)).run("ingest", "shop", "--project-dir", str(project.root))
    assert run.returncode == 0, run.stderr
    assert "WARNING" not in run.stdout + run.stderr
    (warning,) = [line for line in run.stderr.splitlines() if line.startswith("warning ")]
    assert "a batch lies before what was landed" in warning
    assert "note" in run.stdout
    assert left_in(temp) == []


@pytest.mark.slow
def test_connections_that_are_opened_at_once_each_have_a_folder_and_take_it_with_them(
    tmp_path: Path, temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path, temp).items():
        monkeypatch.setenv(name, value)
    home = tmp_path / "home"
    with serving(home) as server, ThreadPoolExecutor(max_workers=8) as pool:
        for _ in range(3):
            answers = list(pool.map(lambda number: server.ask(f"select {number} as it"), range(8)))
            assert answers == [[{"it": number}] for number in range(8)]
    assert left_in(temp) == []
    assert list((home / "resources").iterdir()) == []


@pytest.mark.slow
def test_a_command_of_dbt_leaves_nothing_in_the_temp_folder_and_shows_times_as_they_are(
    tmp_path: Path, temp: Path
) -> None:
    """On a machine in Kolkata midnight was half past five, and a source as fresh as half a day ago."""
    folders = ("--target-path", str(tmp_path / "target"), "--log-path", str(tmp_path / "logs"))
    query = "select timestamp '2020-01-01 00:00:00' as at"
    dbt = (str(Path(sys.executable).with_name("dbt")), "--quiet", "show", "--output", "json", "--inline", query)
    run = Lake({**environment(tmp_path, temp), "TZ": "Asia/Kolkata"}).command(*dbt, *folders)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2020-01-01T00:00:00" in run.stdout
    assert left_in(temp) == []
