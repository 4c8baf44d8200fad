"""Addresses of bundles that are none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.errors import NotAStore, StoreError, StoreIOError
from store.files.bundle_files import Archive, UnpackedFiles


def test_a_bundle_is_a_file(tmp_path: Path) -> None:
    for name in ("", "folder", "missing"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(NotAStore, match="there is no such file") as refused:
            Archive(f"file://{tmp_path}/{name}" if name else str(tmp_path))
        assert str(refused.value.file) == str(tmp_path / name)
    (tmp_path / "file").write_bytes(b"no frames")
    with pytest.raises(StoreError) as damaged:
        Archive(str(tmp_path / "file"))
    assert "there is no such file" not in str(damaged.value)


class Unpacked(Archive):
    """An archive of these bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self.size, self._at = data, len(data), 0

    def pieces(self, position: int, size: int) -> Iterator[memoryview]:
        yield memoryview(self._data[position : position + size])


def test_an_archive_is_read_as_a_stream() -> None:
    archive = Unpacked(b"abcdef")
    assert [archive.read(size) for size in (2, 0, 1, -1, -1, 5)] == [b"ab", b"", b"c", b"def", b"", b""]


@pytest.mark.parametrize(
    ("start", "stop", "is_readable"),
    [(0, 10, True), (0, 11, False), (10, 11, False), (19, 20, False), (20, 30, True), (12, 15, False), (5, 40, False)],
)
def test_bytes_beside_those_that_the_source_lacked_are_read(
    start: int, stop: int, is_readable: bool, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(50)))
    fs = UnpackedFiles({path: [(10, 20)]}, holds_log_alone=False)
    if is_readable:
        assert fs.read(fs.open_read(path), start, stop - start) == bytes(range(start, stop))
        assert fs.read(fs.open_read(tmp_path / "file"), 20, 5) == bytes(range(20, 25))
    else:
        with pytest.raises(StoreIOError, match="read the file"):
            fs.read(fs.open_read(path), start, stop - start)


@pytest.mark.parametrize(
    ("lacked", "size", "is_readable"), [((10, 20), 10, True), ((10, 20), 11, False), ((0, 1), 1, False)]
)
def test_the_start_of_a_file_is_read_up_to_what_the_source_lacked(
    lacked: tuple[int, int], size: int, is_readable: bool, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(50)))
    fs = UnpackedFiles({path: [lacked]}, holds_log_alone=False)
    if is_readable:
        assert fs.read_start(str(path), size) == bytes(range(size))
    else:
        with pytest.raises(StoreIOError):
            fs.read_start(str(path), size)
