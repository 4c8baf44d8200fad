"""Many files as one address space: loading, rolling, finding, flushing, and both ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from store import kernels
from store.broker_line import broker_line
from store.errors import ForeignFile, StoreError, StoreIOError, WrongFileSize
from store.files.allocate import AllocateMappedFileService
from store.files.filesystem import Filesystem
from store.files.mapped_file import MappedFile
from store.files.mapped_file_queue import MappedFileQueue
from store.files.transient_pool import TransientStorePool
from store.layout import segment_name
from tests.support.faulty_filesystem import FaultyFilesystem, failing_each_time

SIZE = 4096


def new_queue(folder: Path, size: int = 0, fs: Filesystem | None = None) -> MappedFileQueue:
    """A queue with `size` bytes appended in pieces of 1024."""
    queue = MappedFileQueue(folder, SIZE, fs or Filesystem(), writable=True)
    for _ in range(size // 1024):
        queue.last_file().append(b"m" * 1024)
    return queue


def loaded(folder: Path, compat: str = "4.9", *, writable: bool = True) -> MappedFileQueue:
    queue = MappedFileQueue(folder, SIZE, Filesystem(), writable=writable)
    queue.load(broker_line(compat))
    return queue


def starts(queue: MappedFileQueue) -> list[int]:
    return [file.file_start for file in queue.files]


def names(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir())


def age(queue: MappedFileQueue, *mtimes_ms: int) -> None:
    for file, mtime_ms in zip(queue.files, mtimes_ms, strict=True):
        os.utime(file.path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))


# Loading.


def test_a_missing_folder_loads_as_an_empty_queue_and_is_not_created(tmp_path: Path) -> None:
    queue = loaded(tmp_path / "commitlog")
    assert (queue.min_offset, queue.max_offset, queue.files) == (-1, 0, [])
    assert not (tmp_path / "commitlog").exists()


def test_loaded_files_count_as_written_to_their_end(tmp_path: Path) -> None:
    new_queue(tmp_path, 5 * 1024)
    queue = loaded(tmp_path)
    assert starts(queue) == [0, SIZE]
    assert (queue.min_offset, queue.max_offset) == (0, 2 * SIZE)


def test_loading_opens_nothing(tmp_path: Path) -> None:
    new_queue(tmp_path, 5 * 1024)
    fs = FaultyFilesystem()
    MappedFileQueue(tmp_path, SIZE, fs, writable=False).load()
    assert {name for name, _ in fs.operations} == {"list_folder"}


@pytest.mark.parametrize("length", [0, 1, SIZE - 1, SIZE + 1])
def test_a_wrong_length_stops_the_load_and_deletes_nothing(tmp_path: Path, length: int) -> None:
    new_queue(tmp_path, 5 * 1024)
    (tmp_path / segment_name(2 * SIZE)).write_bytes(bytes(length))
    with pytest.raises(WrongFileSize, match=f"{length} bytes instead of {SIZE}") as caught:
        loaded(tmp_path)
    assert caught.value.file == tmp_path / segment_name(2 * SIZE)
    assert names(tmp_path) == [0, SIZE, 2 * SIZE]


def test_an_empty_last_file_is_deleted_by_the_5_3_rule_only_when_writing_is_allowed(tmp_path: Path) -> None:
    new_queue(tmp_path, 1024)
    (empty := tmp_path / segment_name(SIZE)).touch()
    assert starts(loaded(tmp_path, "5.3", writable=False)) == [0]
    assert empty.exists()
    assert starts(loaded(tmp_path, "5.3")) == [0]
    assert not empty.exists()
    os.mkfifo(empty)
    with pytest.raises(StoreError):
        loaded(tmp_path, "5.3")
    assert empty.exists()


def test_an_empty_file_in_the_middle_stops_the_load_by_both_rules(tmp_path: Path) -> None:
    (tmp_path / segment_name(0)).touch()
    (tmp_path / segment_name(SIZE)).write_bytes(bytes(SIZE))
    for compat in ("4.9", "5.3"):
        with pytest.raises(WrongFileSize):
            loaded(tmp_path, compat)


@pytest.mark.parametrize("compat", ["4.9", "5.3"])
def test_a_foreign_file_stops_the_load(tmp_path: Path, compat: str) -> None:
    (tmp_path / "notes.txt").write_bytes(bytes(SIZE))
    with pytest.raises(ForeignFile, match="not the name of a segment"):
        loaded(tmp_path, compat)


def test_a_folder_among_the_files_stops_4_9_and_is_skipped_by_5_3(tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    with pytest.raises(ForeignFile, match="a folder among the segments"):
        loaded(tmp_path, "4.9")
    assert loaded(tmp_path, "5.3").files == []


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "commitlog").touch()
    with pytest.raises(StoreIOError, match="not a directory"):
        loaded(tmp_path / "commitlog")


# Finding.


def test_the_file_of_an_offset_is_found_also_after_the_first_files_are_gone(tmp_path: Path) -> None:
    new_queue(tmp_path, 4 * SIZE)
    (tmp_path / segment_name(0)).unlink()
    queue = loaded(tmp_path)
    found = {offset: queue.find_by_offset(offset) for offset in (0, SIZE, 3 * SIZE - 1, 4 * SIZE - 1, 4 * SIZE)}
    assert {offset: file and file.file_start for offset, file in found.items()} == {
        0: None, SIZE: SIZE, 3 * SIZE - 1: 2 * SIZE, 4 * SIZE - 1: 3 * SIZE, 4 * SIZE: None,
    }  # fmt: skip
    assert queue.find_by_offset(0, first_if_missing=True) is queue.first


def test_the_file_of_an_offset_is_found_around_a_gap(tmp_path: Path) -> None:
    new_queue(tmp_path, 4 * SIZE)
    (tmp_path / segment_name(SIZE)).unlink()
    queue = loaded(tmp_path)
    assert queue.find_by_offset(SIZE) is None
    assert [queue.find_by_offset(start) for start in (0, 2 * SIZE, 3 * SIZE)] == queue.files


def test_the_file_of_a_time_is_the_first_not_older_else_the_last(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, 3 * SIZE)
    age(queue, 1000, 2000, 3000)
    assert [queue.find_by_time(ms) for ms in (0, 1001, 2000, 9999)] == [queue.files[i] for i in (0, 1, 1, 2)]


# Appending.


def test_a_full_file_is_followed_by_the_next(tmp_path: Path) -> None:
    queue = new_queue(tmp_path / "queue", SIZE)
    assert queue.last_file().file_start == SIZE
    assert [file.first_created_in_queue for file in queue.files] == [True, False]


def test_an_empty_queue_starts_with_the_file_that_holds_the_offset(tmp_path: Path) -> None:
    assert new_queue(tmp_path).last_file(3 * SIZE + 20).file_start == 3 * SIZE


def test_a_roll_that_fails_anywhere_can_be_tried_again(tmp_path: Path) -> None:
    folders: list[Path] = []

    def append(fs: FaultyFilesystem) -> None:
        folders.append(tmp_path / str(len(folders)))
        new_queue(folders[-1], 2 * SIZE, fs)

    for fs in failing_each_time(append):
        there = {path.stat().st_size for path in folders[-1].glob("*")}
        assert there <= {SIZE}, fs.failed
        queue = loaded(folders[-1])
        assert queue.last_file().file_start == len(queue.files[:-1]) * SIZE


# Flushing.


def test_a_flush_moves_through_one_file_at_a_time(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, SIZE + 1024)
    moved = []
    while not queue.flush(0):
        moved.append((queue.flushed_where, queue.flush_count))
    assert moved == [(SIZE, 1), (SIZE + 1024, 2)]
    assert queue.flush_count == 2


def test_a_flush_goes_on_behind_a_gap_and_before_a_late_first_file(tmp_path: Path) -> None:
    new_queue(tmp_path, 4 * SIZE)
    (tmp_path / segment_name(0)).unlink()
    (tmp_path / segment_name(2 * SIZE)).unlink()
    queue = loaded(tmp_path)
    for file in queue.files:
        file.flushed = 0
    while not queue.flush(0):
        pass
    assert queue.flushed_where == 4 * SIZE


def waits(queue: MappedFileQueue) -> list[bool]:
    """Whether a byte, a page, or two pages wait to be flushed."""
    return [queue.waits_for_flush(least_pages) for least_pages in range(3)]


@pytest.mark.parametrize(
    ("size", "before", "flushes", "after"),
    [
        (0, [False, False, False], 0, [False, False, False]),
        (1024, [True, False, False], 1, [False, False, False]),
        (SIZE, [True, True, True], 1, [False, False, False]),
        (SIZE + 1024, [True, True, True], 1, [True, False, False]),
    ],
)
def test_a_flush_is_waited_for_by_bytes_pages_and_full_files(
    size: int, before: list[bool], flushes: int, after: list[bool], tmp_path: Path
) -> None:
    queue = new_queue(tmp_path, size)
    assert waits(queue) == before
    for _ in range(flushes):
        queue.flush(0)
    assert waits(queue) == after


def test_a_failed_flush_is_waited_for_so_that_it_is_raised_again(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, 1024, FaultyFilesystem(when=lambda name, _: name == "fdatasync"))
    with pytest.raises(StoreIOError):
        queue.flush(0)
    assert waits(queue) == [True, True, True]


def test_only_a_thorough_flush_takes_over_the_store_time(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, 2048)
    queue.last_file().store_timestamp_ms = 77
    queue.flush(4)
    assert queue.store_timestamp_ms == 0
    queue.flush(0)
    assert queue.store_timestamp_ms == 77


def test_after_a_failed_flush_no_later_flush_succeeds(tmp_path: Path) -> None:
    fs = FaultyFilesystem(when=lambda name, _: name == "fdatasync")
    queue = new_queue(tmp_path, 1024, fs)
    with pytest.raises(StoreIOError):
        queue.flush(0)
    fs.when = None
    with pytest.raises(StoreIOError):
        queue.flush(0)
    assert queue.flushed_where == 0


@pytest.mark.skipif(not kernels.COMPILED, reason="kernels run uncompiled")
@pytest.mark.parametrize(
    ("put", "flushed", "is_served"),
    [(0, 0, False), (1024, 0, False), (1024, 1024, True), (SIZE, SIZE, False)],
    ids=["no file", "a new name", "a known name", "a full file"],
)
def test_groups_are_served_at_once_in_a_file_with_a_durable_name(
    put: int, flushed: int, is_served: bool, tmp_path: Path
) -> None:
    queue = MappedFileQueue(tmp_path, SIZE, Filesystem(), writable=True, keeps_descriptors=True)
    for _ in range(put // 1024):
        queue.last_file().append(b"m" * 1024)
    if flushed:
        queue.flush(0)
    groups = kernels.CommitGroups()
    groups.wait(flushed, 0)
    assert queue.flush_groups(groups) is is_served
    assert queue.flushed_where == flushed


def test_committing_moves_from_lent_buffers_into_the_files(tmp_path: Path) -> None:
    pool = TransientStorePool(2, SIZE)
    allocate = AllocateMappedFileService(Filesystem(), transient_pool=pool)
    # No file is made ahead, which would borrow a buffer too.
    allocate.stop()
    queue = MappedFileQueue(tmp_path, SIZE, Filesystem(), writable=True, allocate=allocate)
    for _ in range(5):
        queue.last_file().append(b"m" * 1024)
    assert (queue.max_offset, queue.max_wrote_offset) == (SIZE, SIZE + 1024)
    assert not queue.commit(0)
    assert not queue.commit(0)
    assert queue.commit(0)
    assert queue.committed_where == queue.max_offset == SIZE + 1024
    assert pool.available_count == 1


def test_groups_that_no_sync_has_served_are_left_to_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = MappedFileQueue(tmp_path, SIZE, Filesystem(), writable=True, keeps_descriptors=True)
    queue.last_file().append(b"m" * 1024)
    queue.flush(0)
    monkeypatch.setattr(Filesystem, "sync_for_groups", lambda fs, descriptor, groups, size, where, end: (0, 0, where))
    assert queue.flush_groups(kernels.CommitGroups()) is False


# The ends.


def test_a_full_file_before_the_new_end_is_as_durable_as_it_was(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, 2 * SIZE)
    queue.truncate_dirty_files(SIZE)
    assert [(file.wrote, file.flushed) for file in queue.files] == [(SIZE, 0), (0, 0)]


def test_files_are_deleted_from_queue_and_disk(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, 3 * SIZE)
    queue.delete_files(queue.files[:2])
    assert (names(tmp_path), [file.file_start for file in queue.files]) == ([2 * SIZE], [2 * SIZE])


def test_truncation_sets_the_end_and_deletes_what_is_behind(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, 3 * SIZE)
    removed = queue.truncate_dirty_files(SIZE + 100)
    assert removed == [tmp_path / segment_name(2 * SIZE)]
    assert names(tmp_path) == [0, SIZE]
    assert queue.max_offset == SIZE + 100
    assert (tmp_path / segment_name(SIZE)).read_bytes() == b"m" * SIZE


def test_truncation_at_a_files_start_keeps_it_as_an_empty_file_like_the_broker(tmp_path: Path) -> None:
    queue = new_queue(tmp_path, 4 * SIZE)
    queue.truncate_dirty_files(2 * SIZE)
    assert queue.max_offset == 2 * SIZE
    assert names(tmp_path) == [0, SIZE, 2 * SIZE]


def test_a_truncation_that_fails_anywhere_leaves_no_gap(tmp_path: Path) -> None:
    folders: list[Path] = []

    def truncate(fs: FaultyFilesystem) -> None:
        folders.append(tmp_path / str(len(folders)))
        new_queue(folders[-1], 4 * SIZE)
        queue = MappedFileQueue(folders[-1], SIZE, fs, writable=True)
        queue.load()
        queue.truncate_dirty_files(SIZE)

    for _ in failing_each_time(truncate):
        left = names(folders[-1])
        assert left == [i * SIZE for i in range(len(left))]
    assert names(folders[-1]) == [0, SIZE]


def test_a_destroyed_queue_leaves_neither_files_nor_folder(tmp_path: Path) -> None:
    queue = new_queue(tmp_path / "queue", 3 * SIZE)
    queue.flush(0)
    queue.destroy()
    assert not (tmp_path / "queue").exists()
    assert (queue.flushed_where, queue.max_offset) == (0, 0)


def test_a_read_only_queue_changes_nothing_on_disk(tmp_path: Path) -> None:
    new_queue(tmp_path, 5 * 1024)
    before = [(path, path.stat(), path.read_bytes()) for path in sorted(tmp_path.iterdir())]
    fs = FaultyFilesystem()
    queue = MappedFileQueue(tmp_path, SIZE, fs, writable=False)
    queue.load()
    assert bytes(queue.files[0].read(0, 4) or b"") == b"mmmm"
    queue.close()
    assert {name for name, _ in fs.operations} == {"list_folder", "open_read", "map", "populate"}
    for path, status, content in before:
        assert (path.stat().st_mtime_ns, path.stat().st_size) == (status.st_mtime_ns, status.st_size)
        assert path.read_bytes() == content


def test_views_stay_readable_after_the_queue_was_closed(tmp_path: Path) -> None:
    new_queue(tmp_path, 1024)
    queue = loaded(tmp_path, writable=False)
    view = queue.files[0].read(0, 4)
    queue.close()
    assert bytes(view or b"") == b"mmmm"


def test_every_error_names_a_file(tmp_path: Path) -> None:
    fs = FaultyFilesystem(when=lambda *_: True)
    with pytest.raises(StoreError) as caught:
        MappedFileQueue(tmp_path, SIZE, fs, writable=False).load()
    assert caught.value.file == tmp_path


def test_a_queue_without_files_ends_at_0(tmp_path: Path) -> None:
    queue = MappedFileQueue(tmp_path, SIZE, Filesystem(), writable=True)
    assert (queue.max_offset, queue.max_wrote_offset, queue.flush_count) == (0, 0, 0)
    assert (queue.flushed_where, queue.committed_where, queue.store_timestamp_ms) == (0, 0, 0)


def test_a_closed_queue_has_closed_each_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, closed = new_queue(tmp_path, 5 * 1024), list[int]()
    monkeypatch.setattr(MappedFile, "close", lambda file: closed.append(file.file_start))
    queue.close()
    assert (closed, queue.files, names(tmp_path)) == ([0, SIZE], [], [0, SIZE])
