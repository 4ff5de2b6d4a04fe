"""What a table remembers of the files it has landed: nothing is lost, nothing is landed twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.config.connections import FilesConnection
from ingest.config.tables import IngestOptions, Table
from ingest.errors import InputError
from ingest.sources.files import FilesPosition, UnreadFiles
from ingest.sources.raw import EventFile

ROOT = "s3a://lake/bronze/tickit.ecomm.sale"

names = st.one_of(
    st.builds(
        lambda day, partition, offset, suffix: f"/day={day:02d}/t+{partition}+{offset:010d}.{suffix}",
        st.integers(1, 28),
        st.integers(0, 3),
        st.integers(0, 500),
        st.sampled_from(["avro", "json", "jsonl", "json.gz", "ndjson", "avro.gz", "crc", "tmp"]),
    ),
    st.text(min_size=1, max_size=12).map(lambda text: f"/{text}.json"),
)
files = st.builds(
    lambda name, size, time: EventFile(ROOT + name, size, time), names, st.integers(0, 2**40), st.integers(0, 2**42)
)


def unique(found: list[EventFile]) -> list[EventFile]:
    """A folder holds one file of a name."""
    return list({file.path: file for file in found}.values())


listings = st.lists(files, max_size=20).map(unique)


@given(listings)
def test_the_text_of_a_position_gives_it_back(listed: list[EventFile]) -> None:
    position = FilesPosition(frozenset(listed))
    assert FilesPosition.from_text(position.to_text(ROOT), ROOT) == position


@given(listings, st.integers(1, 1000), st.integers(0, 5))
def test_a_file_that_gets_another_time_arrived_when_it_first_did(
    listed: list[EventFile], later: int, waits: int
) -> None:
    """As often as it gets one, and whether all of it was landed or a part; not where it is of another size."""
    position = FilesPosition().advanced(listed, listed, dict.fromkeys(listed, waits) if waits else None)
    for times in (1, 2):
        touched = [replace(file, modified_ms=file.modified_ms + times * later) for file in listed]
        pending = FilesPosition.from_text(position.to_text(ROOT), ROOT).pending(touched)
        before = {file.path: file.start_offset for file in listed}
        assert {file.path: file.start_offset for file in pending} == {
            file.path: before[file.path] for file in listed if file.encoding is not None
        }
        position = position.advanced(touched, pending)
    grown = [replace(file, size=file.size + 1, modified_ms=file.modified_ms + 9 * later) for file in listed]
    assert all(file.first_ms is None for file in position.pending(grown))


@given(listings)
def test_a_position_moves_with_its_folder(listed: list[EventFile]) -> None:
    """Paths are kept relative: a lake that was copied does not land its files again."""
    there = [replace(file, path=file.path.replace(ROOT, "file:/copy", 1)) for file in listed]
    text = FilesPosition(frozenset(listed)).to_text(ROOT)
    assert FilesPosition.from_text(text, "file:/copy").pending(there) == []


@given(listings, st.data())
def test_every_file_is_landed_exactly_once_in_whatever_portions(listed: list[EventFile], data: st.DataObject) -> None:
    events = [file for file in listed if file.encoding is not None]
    position, landed = FilesPosition(), []
    while pending := position.pending(listed):
        # A run may land only some: others are held back, or are not listed yet.
        part = data.draw(st.lists(st.sampled_from(pending), min_size=1, unique=True))
        landed += part
        position = FilesPosition.from_text(position.advanced(listed, part).to_text(ROOT), ROOT)
    assert sorted(landed) == sorted(events)
    assert position.pending(listed) == []


@given(listings, st.data())
def test_files_that_are_gone_are_forgotten_and_the_others_kept(listed: list[EventFile], data: st.DataObject) -> None:
    position = FilesPosition().advanced(listed, listed)
    remaining = data.draw(st.lists(st.sampled_from(listed), unique=True)) if listed else []
    assert position.advanced(remaining, []).files == frozenset(remaining)


@given(files, st.integers(1, 1000))
def test_a_file_that_was_written_again_is_pending_again(file: EventFile, more: int) -> None:
    position = FilesPosition(frozenset({file}))
    longer, newer = replace(file, size=file.size + more), replace(file, modified_ms=file.modified_ms + more)
    for rewritten in (longer, newer):
        assert position.pending([rewritten]) == ([rewritten] if rewritten.encoding else [])
        assert position.advanced([rewritten], [rewritten]).files == {rewritten}


@given(files, st.integers(1, 1000))
def test_a_file_that_was_landed_in_part_is_read_again_unless_it_was_written_again(file: EventFile, more: int) -> None:
    """Of a table without a key: nothing says which rows of another file are landed."""
    before = FilesPosition(partly={file: 1})
    same = unread(before, file)
    assert same.read().files == same.files
    grown = unread(before, replace(file, size=file.size + more))
    if grown.files and not file.is_named_by_sink:
        with pytest.raises(InputError, match="was written again since"):
            grown.read()
    else:
        assert grown.read().files == grown.files


@given(listings, st.data())
def test_what_is_known_of_a_file_stays_while_others_are_landed(listed: list[EventFile], data: st.DataObject) -> None:
    """A backlog is landed in portions: a file that was landed, in part or whole, may be written again meanwhile."""
    events = [file for file in listed if file.encoding is not None and not file.is_named_by_sink]
    known = data.draw(st.lists(st.sampled_from(events), unique=True)) if events else []
    partly = data.draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    rewritten = data.draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    before = FilesPosition().advanced(known, known, dict.fromkeys(partly, 1))
    there = [replace(file, size=file.size + 1) if file in rewritten else file for file in listed]
    others = [file for file in before.pending(there) if file.path not in {file.path for file in known}]
    after = FilesPosition.from_text(before.advanced(there, others).to_text(ROOT), ROOT)
    assert after.partly == before.partly
    if rewritten:
        with pytest.raises(InputError, match="was written again since"):
            unread(after, *there).read()
    else:
        assert set(unread(after, *there).read().files) == set(partly)


def unread(before: FilesPosition, *listed: EventFile) -> UnreadFiles:
    """What a table without a key has not landed."""
    table = Table(
        source="shop",
        name="item",
        schema="silver",
        location="item",
        columns=(),
        options=IngestOptions(connection="files", connector="postgresql", topic="item", key=()),
        connection=FilesConnection(type="files", path="bronze"),
        where="",
    )
    return UnreadFiles(table, ROOT, 1, listed, before, tuple(before.pending(listed)))


@given(listings)
def test_pending_files_come_by_partition_and_offset(listed: list[EventFile]) -> None:
    pending = FilesPosition().pending(listed)
    assert [(file.partition, file.start_offset) for file in pending] == sorted(
        (file.partition, file.start_offset) for file in pending
    )


@pytest.mark.parametrize(
    ("name", "partition", "offset", "encoding"),
    [
        ("tickit.ecomm.sale+3+0000012345.avro", 3, 12345, "avro"),
        ("name+with+plus+0+0000000007.json", 0, 7, "json"),
        ("events.jsonl", 0, 1_700_000_000_000, "json"),
        ("EXPORT.JSON", 0, 1_700_000_000_000, "json"),
        ("events.ndjson.gz", 0, 1_700_000_000_000, "json"),
        ("shop.order+2+0000000042.json.gz", 2, 42, "json"),
        ("shop.order+2+0000000042.avro.gz", 2, 42, "unread"),
        ("shop.order+2+0000000042.ORC", 2, 42, "unread"),
        ("shop.order+2+0000000042.json.GZ", 0, 1_700_000_000_000, "unread"),
        ("shop.order+2+0000000042+0000000051.json", 2, 42, "json"),
        ("name+with+plus+2+0000000042+0000000051.avro", 2, 42, "avro"),
        ("shop.order+2+0000000042.keys.json", 0, 1_700_000_000_000, None),
        ("shop.order+2+0000000042.headers.avro", 0, 1_700_000_000_000, None),
        ("shop.order-2-0000000042.keys.json", 0, 1_700_000_000_000, None),
        ("export-2024-01-15.keys.json", 0, 1_700_000_000_000, "json"),
        ("shop.public.order-2-0000000042.gz", 0, 1_700_000_000_000, "unread"),
        ("shop.public.order+2+0000000042.gz", 2, 42, "unread"),
        ("orders.gz", 0, 1_700_000_000_000, "unread"),
        ("dump.sql.gz", 0, 1_700_000_000_000, None),
        ("tickit+x+1.avro", 0, 1_700_000_000_000, "avro"),
        ("tickit+2+0000000300.parquet", 2, 300, "parquet"),
        ("tickit+2+0000000300.gz.parquet", 2, 300, "parquet"),
        ("tickit+0+0000000001.avro.crc", 0, 1_700_000_000_000, None),
        ("_SUCCESS", 0, 1_700_000_000_000, None),
    ],
)
def test_names_say_partition_offset_and_encoding(name: str, partition: int, offset: int, encoding: str | None) -> None:
    file = EventFile(f"{ROOT}/day=01/{name}", 10, 1_700_000_000_000)
    assert (file.name, file.partition, file.start_offset, file.encoding) == (name, partition, offset, encoding)


def test_ten_thousand_files_of_a_sink_fit_into_300_kb() -> None:
    """The text is part of every commit's metadata."""
    topic = "tickit.ecomm.sale"
    listed = [
        EventFile(
            f"{ROOT}/year=2023/month={1 + day // 28:02d}/day={1 + day % 28:02d}"
            f"/{topic}+{number % 4}+{number * 997:010d}.avro",
            60_000 + number * 7919 % 30_000,
            1_700_000_000_000 + number * 61_003 + number * number % 991,
        )
        for number in range(10_000)
        for day in [number // 40]
    ]
    position = FilesPosition(frozenset(listed))
    text = position.to_text(ROOT)
    assert len(text.encode()) < 300_000
    assert FilesPosition.from_text(text, ROOT) == position
