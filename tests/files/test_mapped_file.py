"""One mapped file: positions, lent buffers, readers, and its end."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from store.errors import BadRequest, StoreClosed, StoreIOError
from store.files.filesystem import Filesystem
from store.files.mapped_file import MOST_DESCRIPTORS, PAGE_SIZE, WRITTEN_BYTES, MappedFile
from store.files.transient_pool import TransientStorePool
from tests.support.faulty_filesystem import FaultyFilesystem, failing_each_time

SIZE = 4 * PAGE_SIZE


def new_file(folder: Path, fs: Filesystem | None = None, pool: TransientStorePool | None = None) -> MappedFile:
    return MappedFile.create(folder / f"{0:020d}", 0, SIZE, fs or Filesystem(), transient_pool=pool)


def read_only(file: MappedFile, fs: Filesystem | None = None) -> MappedFile:
    again = MappedFile(file.path, 0, SIZE, fs or Filesystem(), writable=False)
    again.set_positions(SIZE)
    return again


def test_what_is_appended_can_be_read_up_to_the_wrote_position(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    assert [file.append(b"hello"), file.append(b"you")] == [0, 5]
    assert bytes(file.read(5, 3) or b"") == b"you"
    assert file.read(5, 4) is None
    assert file.read(-1, 2) is None


def test_the_head_of_a_file_is_read_without_a_map_and_ends_where_the_written_bytes_end(tmp_path: Path) -> None:
    new_file(tmp_path).append(b"hello")
    fs = FaultyFilesystem()
    file = read_only(MappedFile(tmp_path / f"{0:020d}", 0, SIZE, Filesystem(), writable=False), fs)
    file.set_positions(5)
    assert [bytes(file.head(3)), bytes(file.head(9))] == [b"hel", b"hello"]
    assert "map" not in [name for name, _ in fs.operations]
    assert bytes(file.buffer[:5]) == bytes(file.head(9))


def test_writing_into_the_buffer_and_raising_wrote_is_an_append(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    file.write_buffer[:4] = b"fast"
    file.wrote = 4
    file.flush(0)
    assert file.path.read_bytes()[:4] == b"fast"


def test_more_than_the_rest_of_the_file_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    file.append(bytes(SIZE - 2))
    with pytest.raises(BadRequest, match="3 bytes do not fit"):
        file.append(b"abc")
    assert file.wrote == SIZE - 2


def test_a_file_is_opened_at_its_first_use_only(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    file = read_only(new_file(tmp_path), fs)
    assert fs.operations == []
    assert file.buffer is file.buffer
    assert [name for name, _ in fs.operations] == ["open_read", "map"]


def test_a_read_only_file_can_not_be_written_through_its_view(tmp_path: Path) -> None:
    file = read_only(new_file(tmp_path))
    with pytest.raises(TypeError):
        file.buffer[0] = 1


def test_a_flush_waits_for_least_pages_or_a_full_file(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    file.append(bytes(2 * PAGE_SIZE - 1))
    assert file.flush(2) == 0
    file.append(b"x")
    assert file.flush(2) == 2 * PAGE_SIZE
    file.append(b"x")
    assert file.flush(1) == 2 * PAGE_SIZE
    assert file.flush(0) == 2 * PAGE_SIZE + 1
    file.append(bytes(file.size - file.wrote))
    assert file.is_full
    assert file.flush(4) == SIZE


def test_a_flush_of_a_file_that_another_process_has_shortened_is_an_error_and_moves_nothing(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    file.append(b"x")
    os.truncate(file.path, PAGE_SIZE)
    with pytest.raises(StoreIOError, match="shortened") as caught:
        file.flush(0)
    assert (caught.value.offset, file.flushed) == (PAGE_SIZE, 0)


def test_the_first_flush_makes_the_name_durable_and_later_ones_need_not(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    file = new_file(tmp_path, fs)
    for _ in range(3):
        file.append(b"x")
        file.flush(0)
    assert fs.count("fdatasync") == 3
    assert fs.count("fsync_folder") == 1


def test_a_new_file_is_made_durable_once(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    file = new_file(tmp_path, fs)
    for _ in range(2):
        file.sync_new()
        assert (fs.count("fdatasync"), fs.count("fsync_folder")) == (1, 1)


def test_a_flush_that_fails_anywhere_does_not_move_the_flushed_position(tmp_path: Path) -> None:
    files: list[MappedFile] = []

    def append_and_flush(fs: FaultyFilesystem) -> None:
        (folder := tmp_path / str(len(files))).mkdir()
        file = new_file(folder, Filesystem())
        file._fs = fs
        files.append(file)
        file.append(b"data")
        file.flush(0)

    for fs in failing_each_time(append_and_flush):
        assert files[-1].flushed == 0, fs.failed
    assert files[-1].flushed == 4


def test_a_lent_buffer_shows_readers_only_what_was_committed(tmp_path: Path) -> None:
    file = new_file(tmp_path, pool=TransientStorePool(1, SIZE))
    file.append(b"secret")
    assert file.read(0, 6) is None
    assert file.flush(0) == 0
    assert file.commit(0) == 6
    assert bytes(file.read(0, 6) or b"") == b"secret"
    assert file.flush(0) == 6


def test_a_commit_waits_for_least_pages(tmp_path: Path) -> None:
    file = new_file(tmp_path, pool=TransientStorePool(1, SIZE))
    file.append(bytes(PAGE_SIZE))
    assert file.commit(2) == 0
    assert file.commit(1) == PAGE_SIZE


def test_a_buffer_committed_to_its_end_goes_back_zeroed(tmp_path: Path) -> None:
    pool = TransientStorePool(1, SIZE)
    file = new_file(tmp_path, pool=pool)
    file.append(b"x" * SIZE)
    assert pool.available_count == 0
    file.commit(0)
    assert pool.available_count == 1
    assert bytes(pool.borrow() or b"x") == bytes(SIZE)
    assert not file.has_lent_buffer
    assert file.path.read_bytes() == b"x" * SIZE
    assert bytes(file.read(0, SIZE) or b"") == b"x" * SIZE


def test_an_empty_pool_lends_nothing_and_the_file_does_without(tmp_path: Path) -> None:
    file = new_file(tmp_path, pool=TransientStorePool(0, SIZE))
    file.append(b"direct")
    assert file.readable_position == 6
    assert file.commit(0) == 6


def test_a_failed_commit_leaves_the_committed_position(tmp_path: Path) -> None:
    fs = FaultyFilesystem(when=lambda name, _: name == "write")
    file = new_file(tmp_path, fs, TransientStorePool(1, SIZE))
    file.append(b"data")
    with pytest.raises(StoreIOError):
        file.commit(0)
    assert file.committed == 0
    fs.when = None
    assert file.commit(0) == 4


@pytest.mark.parametrize("was_mapped", [True, False])
def test_who_holds_a_destroyed_file_reads_on_and_neither_writes_nor_flushes(was_mapped: bool, tmp_path: Path) -> None:
    file = new_file(tmp_path)
    file.append(b"abc")
    if not was_mapped:
        file.unmap()
    file.destroy()
    assert not file.path.exists()
    file.require_written(0)
    file.unmap()
    assert (file.read(0, 3), file.head(2), file.mtime_ms) == (b"abc", b"ab", 0)
    with pytest.raises(StoreClosed):
        file.append(b"x")
    assert file.flush(0) == 0


@pytest.mark.parametrize(
    ("call", "use", "answer"),
    [
        ("written_ranges", lambda file: file.require_written(0), None),
        ("read_start", lambda file: bytes(file.head(2)), b"ab"),
        ("stat", lambda file: file.mtime_ms, 0),
    ],
)
def test_a_file_that_is_deleted_under_a_call_by_its_name_is_read_on(
    call: str, use: Callable[[MappedFile], object], answer: object, tmp_path: Path
) -> None:
    fs = FaultyFilesystem(when=lambda name, _: name == call and file.destroy() is None)
    file = new_file(tmp_path, fs)
    file.append(b"abc")
    file.unmap()
    assert use(file) == answer


def test_views_of_any_kind_never_stop_a_file_from_being_destroyed(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    file.append(b"abc")
    array = np.frombuffer(file.buffer, dtype=np.uint8)
    part = file.buffer[1:3]
    file.destroy()
    assert bytes(array[:3]) == b"abc"
    assert bytes(part) == b"bc"


def test_an_unmapped_file_maps_itself_again(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    file.append(b"abc")
    file.unmap()
    file.append(b"def")
    assert bytes(file.read(0, 6) or b"") == b"abcdef"
    assert file.flush(0) == 6


def open_descriptors(folder: Path) -> int:
    """Those of files below the folder: other threads of the process have some of their own."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            count += descriptor.readlink().is_relative_to(folder)
    return count


def test_mapped_files_keep_no_descriptor(tmp_path: Path) -> None:
    before = open_descriptors(tmp_path)
    files = [MappedFile.create(tmp_path / str(number), 0, SIZE, Filesystem()) for number in range(50)]
    for file in files:
        file.append(b"x")
        file.flush(0)
        assert file.steady_descriptor is None
    assert open_descriptors(tmp_path) == before
    assert all(bytes(file.read(0, 1) or b"") == b"x" for file in files)


def test_a_file_that_is_flushed_all_the_time_keeps_its_descriptor_until_it_is_full(tmp_path: Path) -> None:
    before, fs = open_descriptors(tmp_path), FaultyFilesystem()
    file = MappedFile.create(tmp_path / "log", 0, SIZE, fs, keeps_descriptor=True)
    for data in (b"x", b"x", bytes(SIZE - 2)):
        file.append(data)
        assert file.steady_descriptor is (None if file.flushed == 0 else file._descriptor)
        file.flush(0)
    assert (fs.count("open_write"), file.steady_descriptor) == (0, None)
    fs.operations.clear()
    assert open_descriptors(tmp_path) == before


def blocks(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_a_new_file_is_a_hole_with_blocks_for_what_is_written_first(tmp_path: Path) -> None:
    size = 1024 * PAGE_SIZE
    file = MappedFile.create(tmp_path / "log", 0, size, Filesystem())
    assert 0 < blocks(file.path) < size // 100


def test_bytes_have_blocks_before_they_are_written_through_the_map(tmp_path: Path) -> None:
    size = 1024 * PAGE_SIZE
    fs = FaultyFilesystem()
    file = mapped(MappedFile.create(tmp_path / "log", 0, size, fs))
    reserved = []
    while not file.is_full:
        file.append(bytes(PAGE_SIZE // 2))
        assert file.wrote <= file.reserved
        reserved.append(file.reserved)
    assert fs.count("preallocate") == len(set(reserved))
    assert blocks(file.path) >= size


@pytest.mark.parametrize(
    ("position", "calls"),
    [
        (4, ["open_write", "write"]),
        (PAGE_SIZE - 1, ["open_write", "write"]),
        (PAGE_SIZE, ["open_write", "preallocate", "open_write", "map"]),
    ],
)
def test_a_sparse_copy_is_written_by_a_call_up_to_its_first_page_and_gets_blocks_for_more(
    position: int, calls: list[str], tmp_path: Path
) -> None:
    (tmp_path / "log").write_bytes(b"a" * position)
    os.truncate(tmp_path / "log", SIZE)
    fs = FaultyFilesystem()
    file = MappedFile(tmp_path / "log", 0, SIZE, fs, writable=True)
    file.set_positions(position)
    file.append(b"x")
    assert [name for name, _ in fs.operations] == calls
    assert (tmp_path / "log").read_bytes().rstrip(bytes(1)) == b"a" * position + b"x"


def mapped(file: MappedFile) -> MappedFile:
    """The file with its map made, so that small appends go through it."""
    assert len(file.buffer) == file.size
    return file


@pytest.mark.parametrize(("size", "calls"), [(8191, 0), (8192, 1)])
def test_from_8192_bytes_on_a_mapped_file_is_written_by_a_call(tmp_path: Path, size: int, calls: int) -> None:
    fs = FaultyFilesystem()
    file = mapped(new_file(tmp_path, fs))
    file.append(b"b" * size)
    assert [name for name, _ in fs.operations].count("write") == calls


@pytest.mark.parametrize("count", [1, 5000])
def test_first_bytes_and_many_bytes_are_written_by_a_call(tmp_path: Path, count: int) -> None:
    fs = FaultyFilesystem()
    file = new_file(tmp_path, fs)
    file.append(b"a" * count)
    file.append(b"b" * WRITTEN_BYTES)
    assert [name for name, _ in fs.operations if name in ("write", "map", "open_write")] == ["write", "write"]
    assert mapped(file).append(b"c") == count + WRITTEN_BYTES
    assert file.path.read_bytes().rstrip(bytes(1)) == b"a" * count + b"b" * WRITTEN_BYTES + b"c"
    assert file.reserved >= file.wrote


def test_a_failed_write_leaves_the_end_where_it_was(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    file = new_file(tmp_path, fs)
    fs.when, fs.errno_code = lambda name, _: name == "write", errno.ENOSPC
    with pytest.raises(StoreIOError, match="no space"):
        file.append(b"x")
    assert not file.wrote
    fs.when = None
    assert file.append(b"x") == 0


def test_files_that_were_written_by_a_call_keep_few_descriptors(tmp_path: Path) -> None:
    before = open_descriptors(tmp_path)
    files = [MappedFile.create(tmp_path / str(number), 0, SIZE, Filesystem()) for number in range(200)]
    for file in [*files, *files]:
        file.append(b"x")
    assert open_descriptors(tmp_path) - before <= MOST_DESCRIPTORS


def test_a_full_disk_refuses_an_append_and_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    file = mapped(MappedFile.create(tmp_path / "log", 0, 1024 * PAGE_SIZE, fs))
    fs.when = lambda name, _: name == "preallocate"
    fs.errno_code = errno.ENOSPC
    file.append(bytes(file.reserved))
    with pytest.raises(StoreIOError, match="no space"):
        file.append(b"x")
    assert file.wrote == file.reserved
    fs.when = None
    assert file.append(b"x") == file.wrote - 1


def test_descriptors_are_given_back_with_the_file(tmp_path: Path) -> None:
    before = open_descriptors(tmp_path)
    file = new_file(tmp_path)
    file.append(b"x")
    file.flush(0)
    file.destroy()
    assert open_descriptors(tmp_path) == before


def test_warming_writes_the_zeros_out_and_is_only_for_new_files(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    file = new_file(tmp_path, fs)
    file.warm()
    assert fs.count("fdatasync") == 1
    assert file.path.read_bytes() == bytes(SIZE)
    file.append(b"x")
    with pytest.raises(BadRequest):
        file.warm()


def test_memory_that_can_not_be_locked_is_a_note_and_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    from store.files import transient_pool

    tries: list[int] = []

    class Refusing:
        @staticmethod
        def mlock(_address: object, size: ctypes.c_size_t) -> int:
            tries.append(size.value)
            ctypes.set_errno(errno.ENOMEM)
            return -1

    monkeypatch.setattr(transient_pool, "_libc", Refusing)
    pool = TransientStorePool(2, SIZE)
    assert tries == [SIZE]
    assert pool.note == "write buffers are not locked in memory: cannot allocate memory"
    assert pool.available_count == 2


@pytest.mark.parametrize(
    ("position", "size", "read"),
    [
        (-1, 1, None),
        (0, -1, None),
        (0, 0, b""),
        (0, 5, b"hello"),
        (5, 0, b""),
        (4, 1, b"o"),
        (4, 2, None),
        (6, 0, None),
    ],
)
def test_written_bytes_are_read_and_nothing_beside_them(
    position: int, size: int, read: bytes | None, tmp_path: Path
) -> None:
    file = new_file(tmp_path)
    file.append(b"hello")
    found = file.read(position, size)
    assert (None if found is None else bytes(found)) == read


def test_the_head_of_a_lent_buffer_is_what_was_committed_of_it(tmp_path: Path) -> None:
    file = new_file(tmp_path, pool=TransientStorePool(1, SIZE))
    file.append(b"hello")
    assert bytes(file.head(5)) == b""
    file.commit(0)
    assert bytes(file.head(9)) == b"hello"


def test_a_commit_without_new_bytes_writes_nothing(tmp_path: Path) -> None:
    fs = FaultyFilesystem()
    file = new_file(tmp_path, fs, TransientStorePool(1, SIZE))
    file.append(b"hello")
    for _ in range(2):
        assert file.commit(0) == 5
    assert fs.count("write") == 1


PAGE = 4096


@pytest.mark.parametrize(
    ("least_pages", "done", "end", "has_pages"),
    [
        (0, 0, 0, False),
        (0, 5, 5, False),
        (0, 5, 6, True),
        (1, 0, PAGE - 1, False),
        (1, 0, PAGE, True),
        (1, PAGE - 1, PAGE, True),
        (2, 1, 2 * PAGE - 1, False),
        (2, PAGE - 1, 2 * PAGE, True),
        (4, 3 * PAGE, 3 * PAGE + 5, True),
        (4, 3 * PAGE + 5, 3 * PAGE + 5, False),
        (4, 0, 3 * PAGE, False),
    ],
)
def test_bytes_are_due_by_pages_or_at_the_end_of_the_file(
    least_pages: int, done: int, end: int, has_pages: bool, tmp_path: Path
) -> None:
    file = MappedFile(tmp_path / "f", 0, 3 * PAGE + 5, Filesystem(), writable=True)
    assert file._has_pages(least_pages, done, end) is has_pages


@pytest.mark.parametrize("end", [MappedFile.close, MappedFile.destroy])
def test_the_end_of_a_file_gives_its_lent_buffer_back(end: Callable[[MappedFile], None], tmp_path: Path) -> None:
    pool = TransientStorePool(1, SIZE)
    file = new_file(tmp_path, pool=pool)
    file.append(b"hello")
    assert (pool.available_count, file.steady_descriptor) == (0, None)
    end(file)
    assert (pool.available_count, file.is_closed) == (1, True)
