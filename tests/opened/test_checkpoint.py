"""The checkpoint's file: read as a broker reads it, written whole, durable, and with what is not understood."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from store.files.filesystem import Descriptor, Filesystem
from store.formats.checkpoint_page import CHECKPOINT_SIZE, YEAR_10000_MS, CheckpointPage
from store.opened.checkpoint import StoreCheckpoint
from tests.support.faulty_filesystem import FaultyFilesystem

PAGE = CheckpointPage(7000, 8000, 3500, 5, 6, 7, b"more")


def load(path: Path) -> StoreCheckpoint:
    return StoreCheckpoint.load(path, Filesystem())


def test_a_missing_checkpoint_reads_as_zeros_and_is_not_made(tmp_path: Path) -> None:
    found = load(tmp_path / "checkpoint")
    assert (found.page, found.file_size) == (CheckpointPage(), None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "page"),
    [
        (PAGE.encode(), PAGE),
        (PAGE.encode()[:24], CheckpointPage(7000, 8000, 3500)),
        (b"", CheckpointPage()),
        (PAGE.encode() + b"behind the page", PAGE),
    ],
    ids=["whole", "short", "empty", "long"],
)
def test_a_page_is_read_and_its_files_size_kept(data: bytes, page: CheckpointPage, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(data)
    assert (load(tmp_path / "checkpoint").page, load(tmp_path / "checkpoint").file_size) == (page, len(data))


def test_the_times_are_those_of_the_page_as_it_would_be_written(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(PAGE.encode())
    checkpoint = load(tmp_path / "checkpoint")
    assert (checkpoint.min_timestamp_ms, checkpoint.min_timestamp_index_ms) == (4000, 3500)
    checkpoint.physic_ms = 9000
    checkpoint.note_stored(9500)
    assert (checkpoint.min_timestamp_ms, checkpoint.min_timestamp_index_ms) == (6000, 3500)
    assert checkpoint.page == PAGE._replace(physic_ms=9000, logics_ms=9500)


def test_a_flush_keeps_what_is_not_understood(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(PAGE.encode())
    checkpoint = load(tmp_path / "checkpoint")
    checkpoint.index_ms = 4000
    checkpoint.flush()
    assert (tmp_path / "checkpoint").read_bytes() == PAGE._replace(index_ms=4000).encode()


def test_a_flush_makes_the_file_with_its_folder_and_both_durable(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    checkpoint = StoreCheckpoint.load(tmp_path / "store" / "checkpoint", fs)
    checkpoint.physic_ms = 1
    checkpoint.flush()
    assert (tmp_path / "store" / "checkpoint").read_bytes() == CheckpointPage(1).encode()
    assert (tmp_path / "store" / "checkpoint").stat().st_size == CHECKPOINT_SIZE
    assert (fs.count("fsync_folder"), fs.count("fdatasync")) == (1, 1)
    checkpoint.flush()
    assert (fs.count("fsync_folder"), fs.count("fdatasync")) == (1, 2)


def test_two_services_may_flush_the_first_checkpoint_at_once(tmp_path: Path) -> None:
    class SlowFilesystem(Filesystem):
        def create_file(self, path: Path, size: int) -> Descriptor:
            time.sleep(0.02)
            return super().create_file(path, size)

    checkpoint = StoreCheckpoint.load(tmp_path / "checkpoint", SlowFilesystem())
    with ThreadPoolExecutor(2) as threads:
        for flushed in [threads.submit(checkpoint.flush) for _ in range(2)]:
            flushed.result(timeout=120)
    assert (tmp_path / "checkpoint").stat().st_size == CHECKPOINT_SIZE


# Bytes of the file, None without one.
SIZES = [(None, False), (0, False), (4095, False), (4096, True), (4097, True), (8192, True)]


@pytest.mark.parametrize(("size", "is_whole"), SIZES)
def test_a_file_is_whole_from_a_page_on(size: int | None, is_whole: bool, tmp_path: Path) -> None:
    if size is not None:
        (tmp_path / "checkpoint").write_bytes(bytes(size))
    assert load(tmp_path / "checkpoint").is_whole is is_whole


# The fields' first one, and whether what stands behind the fields is kept.
FIRST_FIELDS = [(0, True), (YEAR_10000_MS - 1, True), (YEAR_10000_MS, False), (-1, False)]


@pytest.mark.parametrize(("first", "is_kept"), FIRST_FIELDS)
def test_behind_fields_that_no_broker_writes_nothing_is_kept(first: int, is_kept: bool, tmp_path: Path) -> None:
    page = PAGE._replace(physic_ms=first, rest=b"more")
    (tmp_path / "checkpoint").write_bytes(page.encode())
    assert load(tmp_path / "checkpoint").page == (page if is_kept else page._replace(logics_log_offset=0, rest=b""))
