"""Which files are salvaged, where each begins in the log, and where its last byte is."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.errors import NotAStore
from store.files.filesystem import Filesystem
from store.verbs.salvage.sources import config_of, find_sources, is_store_root, open_source
from store.verbs.salvage.walk import find_start
from tests.support.stores import SMALL, make_store
from tests.verbs.salvage.records import LENGTH, SIZE, log, write


def sources(path: Path, logs: list[Path] | None = None) -> list[tuple[str, int, int]]:
    """Name each source with its log offset and its limit."""
    return [(source.name, start, source.limit) for source, start in find_sources(path, Filesystem(), logs or [])]


def test_the_segments_of_a_store_are_in_log_order_and_as_large_as_the_largest(tmp_path: Path) -> None:
    for name, data in ((f"{SIZE:020d}", log(SIZE, 3, 8192)), (f"{0:020d}", log(0, 3)), ("empty", b"")):
        write(tmp_path / "commitlog" / name, data)
    write(tmp_path / "other", log(4096, 1))
    (tmp_path / "commitlog/folder").mkdir()
    expected = [(f"{0:020d}", 0, SIZE), (f"{SIZE:020d}", SIZE, 2 * SIZE)]
    assert sources(tmp_path) == sources(tmp_path / "commitlog") == expected
    assert sources(tmp_path / "commitlog" / f"{SIZE:020d}") == [(f"{SIZE:020d}", SIZE, SIZE + 8192)]
    (tmp_path / "without").mkdir()
    assert sources(tmp_path / "without", [tmp_path / "commitlog"]) == expected


@pytest.mark.parametrize(
    ("name", "data", "start"),
    [
        ("lost", log(8192, 2), 8192),
        ("lost", log(8192 + 1, 2), None),
        ("lost", bytes(100), None),
        (f"{0:020d}", log(8192, 1), 8192),
        (f"{8192:020d}", bytes(100), 8192),
        (f"{0:020d}", log(0, 2, LENGTH * 2) + log(4096, 3, LENGTH * 3)[LENGTH * 2 :], 0),
        ("lost", log(0, 2, LENGTH * 2) + log(4096, 5, LENGTH * 5)[LENGTH * 2 :], 4096),
    ],
)
def test_a_file_begins_where_most_of_its_records_say_or_else_its_name(
    name: str, data: bytes, start: int | None, tmp_path: Path
) -> None:
    write(tmp_path / name, data)
    assert [one[1] for one in sources(tmp_path)] == ([] if start is None else [start])
    assert find_start(open_source(tmp_path / name, Filesystem())) == (-1 if start is None else start)


@pytest.mark.parametrize(
    ("data", "stop"),
    [
        (b"", 0),
        (bytes(9), 0),
        (b"\1", 1),
        (b"\1" + bytes(99), 1),
        (bytes(99) + b"\1", 100),
        (bytes(98) + b"\1\0", 99),
        (b"\1" + bytes(50) + b"\1" + bytes(9), 52),
    ],
)
@pytest.mark.parametrize("chunk", [1, 7, 99, 100, 1 << 20])
def test_a_file_ends_behind_its_last_byte_that_is_not_zero(
    chunk: int, data: bytes, stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.verbs.salvage.sources._CHUNK_BYTES", chunk)
    assert open_source(write(tmp_path / "one", data), Filesystem()).stop == stop


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    none, other = tmp_path / "none", tmp_path / "other"
    for path, logs in ((none, []), (tmp_path, [none]), (tmp_path, [none, other])):
        with pytest.raises(NotAStore, match="no such file or folder") as refused:
            find_sources(path, Filesystem(), logs)
        assert str(refused.value.file) == str(none)


def test_loose_files_are_segments_as_large_as_the_largest_and_a_store_says_itself(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10)
    fs = Filesystem()
    assert [is_store_root(path, fs) for path in (root, root / "commitlog", tmp_path)] == [True, False, False]
    found = config_of(root, {}, fs)
    assert found.mapped_file_size_commit_log == SMALL["mappedFileSizeCommitLog"]
    assert found.mapped_file_size_consume_queue == SMALL["mappedFileSizeConsumeQueue"]
    write(tmp_path / "loose/a", bytes(10))
    write(tmp_path / "loose/b", bytes(4096))
    assert config_of(tmp_path / "loose", {}, fs).mapped_file_size_commit_log == 4096
    assert config_of(tmp_path / "loose", {"mappedFileSizeCommitLog": "77"}, fs).mapped_file_size_commit_log == 77
    (tmp_path / "no files").mkdir()
    assert config_of(tmp_path / "no files", {}, fs).mapped_file_size_commit_log == 1 << 30


def test_a_file_with_a_hole_ends_in_its_last_written_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "one", b"\1" * 10 + bytes(40) + b"\1" * 5 + bytes(5))
    for ranges, stop in (([(0, 10), (50, 60)], 55), ([(0, 10), (56, 60)], 10), ([(0, 10)], 10), ([], 0)):
        monkeypatch.setattr(Filesystem, "written_ranges", lambda *_, ranges=ranges: iter(ranges))
        assert open_source(path, Filesystem()).stop == stop
