"""The door to the operating system: what it creates is whole, what it can't do has a name."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from store.errors import ForeignFile, StoreIOError
from store.files.descriptor import COPY_CHUNK_SIZE, MAX_NAME, require_possible
from store.files.filesystem import Descriptor, Filesystem
from tests.support.faulty_filesystem import FaultyFilesystem, failing_each_time

SIZE = 8192
NAME = "00000000000000000000"


class WithoutUnnamedFiles(Filesystem):
    def open_unnamed(self, path: Path) -> Descriptor | None:
        return None


@pytest.fixture(params=[Filesystem, WithoutUnnamedFiles])
def fs(request: pytest.FixtureRequest) -> Filesystem:
    return request.param()


def test_a_created_file_has_its_length_its_blocks_and_only_zeros(fs: Filesystem, tmp_path: Path) -> None:
    fs.create_file(tmp_path / NAME, SIZE)
    assert (tmp_path / NAME).read_bytes() == bytes(SIZE)
    assert (tmp_path / NAME).stat().st_blocks * 512 >= SIZE


def test_a_link_is_not_opened_for_writing(fs: Filesystem, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert fs.open_write(tmp_path / "file").path == tmp_path / "file"
    with pytest.raises(ForeignFile, match="a link, where a file is expected"):
        fs.open_write(tmp_path / "link")
    with pytest.raises(StoreIOError, match="no such file") as missing:
        fs.open_write(tmp_path / "none")
    assert not isinstance(missing.value, ForeignFile)


@pytest.mark.parametrize(("ranges", "size"), [([], 0), ([(0, 5)], 5), ([(0, 5), (10, 20)], 20)])
def test_what_is_written_ends_with_the_last_range(
    ranges: list[tuple[int, int]], size: int, fs: Filesystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(Filesystem, "_written_ranges", lambda fs, descriptor, position: iter(ranges))
    assert fs.written_size(fs.open_read(tmp_path / "file")) == size


def test_no_bytes_of_a_map_can_be_read(fs: Filesystem, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    view = fs.map(fs.open_read(tmp_path / "file"), 3, writable=False)
    assert [fs.populate(tmp_path / "file", view, at, at) for at in (0, 2, 3)] == [True, True, True]


def test_a_file_is_never_created_over_another(fs: Filesystem, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"mine")
    with pytest.raises(StoreIOError, match="file exists"):
        fs.create_file(tmp_path / NAME, SIZE)
    assert (tmp_path / NAME).read_bytes() == b"mine"


def test_no_space_while_preallocating_leaves_no_file_behind(
    fs: Filesystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(StoreIOError, match="no space left") as caught:
        fs.create_file(tmp_path / NAME, SIZE)
    assert caught.value.file == tmp_path / NAME
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.hint is not None
    assert list(tmp_path.iterdir()) == []


def test_a_file_whose_creation_fails_anywhere_is_whole_or_absent(tmp_path: Path) -> None:
    folders = iter(tmp_path / str(number) for number in range(100))

    def create(fs: FaultyFilesystem) -> None:
        fs.make_folder(folder := next(folders))
        fs.create_file(folder / NAME, SIZE)

    failures = list(failing_each_time(create))
    assert {name for name, _ in (fs.failed for fs in failures if fs.failed)} >= {"preallocate", "publish"}
    assert {file.stat().st_size for file in tmp_path.glob("*/*")} == {SIZE}


def test_a_missing_folder_lists_as_empty_and_a_file_in_its_place_is_an_error(fs: Filesystem, tmp_path: Path) -> None:
    assert fs.list_folder(tmp_path / "absent") == []
    (tmp_path / "file").touch()
    with pytest.raises(StoreIOError, match="not a directory"):
        fs.list_folder(tmp_path / "file")


def test_a_listing_is_sorted_and_says_what_is_a_folder(fs: Filesystem, tmp_path: Path) -> None:
    (tmp_path / "2").write_bytes(b"12")
    (tmp_path / "1").mkdir()
    assert [(e.path.name, e.is_folder) for e in fs.list_folder(tmp_path)] == [("1", True), ("2", False)]
    assert fs.list_folder(tmp_path)[1].size == 2


def test_a_dangling_link_is_listed_with_the_length_of_nothing(fs: Filesystem, tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to(tmp_path / "gone")
    assert [entry.path.name for entry in fs.list_folder(tmp_path)] == [NAME]


def test_a_view_outlives_its_file_its_map_and_its_descriptor(fs: Filesystem, tmp_path: Path) -> None:
    descriptor = fs.create_file(tmp_path / NAME, SIZE)
    view = memoryview(fs.map(descriptor, SIZE, writable=True))[:4]
    view[:] = b"abcd"
    del descriptor
    fs.unlink(tmp_path / NAME)
    assert bytes(view) == b"abcd"


def test_a_file_shorter_than_the_map_is_refused_by_name(fs: Filesystem, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"short")
    with pytest.raises(StoreIOError, match="shorter than 8192 bytes"):
        fs.map(fs.open_read(tmp_path / NAME), SIZE, writable=False)


def test_reading_does_not_move_the_access_time(fs: Filesystem, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"content")
    os.utime(tmp_path / NAME, ns=(1_000_000_000, 2_000_000_000))
    assert fs.read_file(tmp_path / NAME) == b"content"
    assert (tmp_path / NAME).stat().st_atime_ns == 1_000_000_000


def test_a_file_of_another_owner_is_read_without_the_owners_privilege(
    fs: Filesystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / NAME).write_bytes(b"content")
    really_open = os.open

    def open_as_stranger(path: Path, flags: int, mode: int = 0o777, **named: Any) -> int:
        if flags & os.O_NOATIME:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return really_open(path, flags, mode, **named)

    monkeypatch.setattr(os, "open", open_as_stranger)
    assert fs.read_file(tmp_path / NAME) == b"content"


@pytest.mark.parametrize("size", [0, 1, 8, COPY_CHUNK_SIZE, COPY_CHUNK_SIZE + 1])
def test_zeroing_a_range_leaves_its_neighbours_and_the_length(size: int, fs: Filesystem, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"x" * (size + 12))
    fs.zero(fs.open_write(tmp_path / NAME), 4, size)
    assert (tmp_path / NAME).read_bytes() == b"xxxx" + bytes(size) + b"x" * 8


@pytest.mark.parametrize("kernel_copies", [True, False])
def test_a_copied_range_lands_at_the_same_place(
    kernel_copies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    if not kernel_copies:
        monkeypatch.setattr(os, "copy_file_range", refuse)
    fs = Filesystem()
    source, target = fs.create_file(tmp_path / "1", 16), fs.create_file(tmp_path / "2", 16)
    fs.write(source, 0, b"0123456789abcdef")
    fs.copy_range(source, target, 4, 8)
    assert (tmp_path / "2").read_bytes() == bytes(4) + b"456789ab" + bytes(4)
    with pytest.raises(StoreIOError, match="ends early"):
        fs.copy_range(source, target, 12, 8)


def test_the_limit_of_open_files_is_raised_when_it_is_reached(tmp_path: Path) -> None:
    import resource

    (tmp_path / NAME).touch()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = len(list(Path("/proc/self/fd").iterdir())) + 8
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        files = [Filesystem().open_read(tmp_path / NAME) for _ in range(lowest)]
        assert len(files) == lowest
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_used_share_of_a_missing_folder_is_minus_one(fs: Filesystem, tmp_path: Path) -> None:
    assert fs.used_ratio(tmp_path / "absent") == -1
    assert 0 <= fs.used_ratio(tmp_path) <= 1


def test_every_byte_that_was_written_lies_in_a_written_range(fs: Filesystem, tmp_path: Path) -> None:
    descriptor, places = fs.create_file(tmp_path / NAME, 64 * SIZE), (0, 5 * SIZE + 3, 40 * SIZE)
    for place in places:
        fs.write(descriptor, place, b"x")
    for begin in (0, 4 * SIZE, 5 * SIZE + 4, 64 * SIZE - 1):
        ranges = list(fs.written_ranges(tmp_path / NAME, begin))
        for place in places:
            assert any(start <= place < stop for start, stop in ranges) == (place >= begin)
        assert fs.next_written(tmp_path / NAME, begin) == next((start for start, _ in ranges), sys.maxsize)
    assert not list(fs.written_ranges(tmp_path / NAME, 64 * SIZE))
    assert fs.next_written(tmp_path / NAME, 64 * SIZE) == sys.maxsize


def test_the_next_written_position_is_found_without_a_search_for_the_ranges_end(
    fs: Filesystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs.write(fs.create_file(tmp_path / NAME, 64 * SIZE), 5 * SIZE, b"x")
    asked, lseek = [], os.lseek
    monkeypatch.setattr(os, "lseek", lambda number, at, how: asked.append(how) or lseek(number, at, how))
    assert fs.next_written(tmp_path / NAME, 0) == 5 * SIZE
    assert asked == [os.SEEK_DATA]


def test_a_file_system_that_does_not_know_calls_everything_written(
    fs: Filesystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs.create_file(tmp_path / NAME, SIZE)

    def unable(*_: int) -> int:
        raise OSError(errno.EINVAL, "invalid argument")

    monkeypatch.setattr(os, "lseek", unable)
    assert list(fs.written_ranges(tmp_path / NAME, 10)) == [(10, SIZE)]
    assert fs.next_written(tmp_path / NAME, 10) == 10


def test_a_link_that_leads_to_itself_is_no_folder(fs: Filesystem, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert fs.list_folders(tmp_path) == ["folder", "link"]


def test_everything_below_a_folder_is_listed_and_below_a_link_to_the_depth_of_a_queues_files(
    fs: Filesystem, tmp_path: Path
) -> None:
    for root in ("store/queues/T", "elsewhere"):
        (tmp_path / root / "0" / "deep").mkdir(parents=True)
        for name in ("0/file", "0/deep/file"):
            (tmp_path / root / name).write_bytes(b"12")
    (tmp_path / "store" / "queues" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "store" / "queues" / "T" / "0" / "gone").symlink_to(tmp_path / "none")
    os.mkfifo(tmp_path / "store" / "queues" / "fifo")
    found = fs.list_below(str(tmp_path / "store"), "queues")
    rows = [(one.path, one.is_folder, 0 if one.is_link else one.size, one.kind, one.is_link) for one in found]
    assert sorted(rows) == [
        ("queues/T", True, 0, "", False),
        ("queues/T/0", True, 0, "", False),
        ("queues/T/0/deep", True, 0, "", False),
        ("queues/T/0/deep/file", False, 2, "", False),
        ("queues/T/0/file", False, 2, "", False),
        ("queues/T/0/gone", False, 0, "a link", True),
        ("queues/fifo", False, 0, "a FIFO", False),
        ("queues/linked", True, 0, "", True),
        ("queues/linked/0", True, 0, "", False),
        ("queues/linked/0/deep", True, 0, "", False),
        ("queues/linked/0/file", False, 2, "", False),
    ]


@pytest.mark.parametrize(
    ("name", "is_possible"),
    [
        ("n" * MAX_NAME, True),
        ("n" * (MAX_NAME + 1), False),
        ("\u00e9" * 127, True),
        ("\u00e9" * 128, False),
        ("a\0b", False),
    ],
)
def test_a_name_that_no_file_can_have_is_that_of_no_file(
    name: str, is_possible: bool, fs: Filesystem, tmp_path: Path
) -> None:
    if is_possible:
        (tmp_path / name).touch()
        fs.open_read(tmp_path / name)
    with pytest.raises(StoreIOError, match="no such file"):
        fs.open_read(tmp_path / "none" / name if is_possible else tmp_path / name)


@pytest.mark.parametrize(("size", "is_possible"), [(4095, True), (4096, False), (4097, False)])
def test_a_path_of_4096_bytes_is_that_of_no_file(size: int, is_possible: bool) -> None:
    path = ("/n" * size)[:size]
    if is_possible:
        require_possible(path)
    else:
        with pytest.raises(FileNotFoundError):
            require_possible(path)


def test_a_new_file_may_be_read_by_all_and_written_by_its_owner(fs: Filesystem, tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        fs.open_new(tmp_path / NAME)
    finally:
        os.umask(mask)
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("at_once", [1, 4, 4096])
@pytest.mark.parametrize(
    ("start", "stop", "is_readable"),
    [(0, 0, True), (0, 9, True), (3, 9, True), (9, 9, True), (0, 10, False), (9, 10, False)],
)
def test_a_range_can_be_read_if_the_file_holds_all_of_it(
    start: int, stop: int, is_readable: bool, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.files.filesystem.COPY_CHUNK_SIZE", at_once)
    (tmp_path / "file").write_bytes(bytes(9))
    assert Filesystem()._can_read(tmp_path / "file", start, stop) is is_readable
