"""Which paths no file can have, and what an entry says of its kind."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from store.errors import ForeignFile
from store.files.descriptor import copy_some, entry_of, require_kind, require_possible


@pytest.mark.parametrize(
    ("path", "is_possible"),
    [
        ("a" * 255, True), ("a" * 256, False), ("é" * 127, True), ("é" * 128, False), ("x\0", False),
        ("/" + "a" * 255 + "/" + "b" * 255, True), ("/" + "a" * 256 + "/b", False), ("/ab" * 1365, True),
        ("/ab" * 1365 + "/", False),
    ],
)  # fmt: skip
def test_a_name_has_255_bytes_and_a_path_4095(path: str, is_possible: bool) -> None:
    if is_possible:
        require_possible(path)
        return
    with pytest.raises(FileNotFoundError):
        require_possible(path)


def test_an_entry_has_size_time_and_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_bytes(b"abc")
    os.utime("file", ns=(5, 7))
    Path("folder").mkdir()
    os.mkfifo("fifo")
    Path("link").symlink_to("file")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    found = {
        name: entry_of(Path(name), Path(name).lstat()) for name in ("file", "folder", "fifo", "link", "socket")
    } | {"null": entry_of(Path("/dev/null"), Path("/dev/null").stat())}
    assert {name: (one.kind, one.is_file, one.is_folder) for name, one in found.items()} == {
        "file": ("a file", True, False), "folder": ("a folder", False, True), "fifo": ("a FIFO", False, False),
        "link": ("a link", False, False), "socket": ("a socket", False, False), "null": ("a device", False, False),
    }  # fmt: skip
    assert (found["file"].size, found["file"].mtime_ns, found["file"].is_link) == (3, 7, False)
    require_kind(0o100000, Path("file").stat(), Path("file"))
    with pytest.raises(ForeignFile, match="a folder, where a file is expected"):
        require_kind(0o100000, Path("folder").stat(), Path("folder"))


@pytest.mark.parametrize("in_kernel", [True, False])
@pytest.mark.parametrize(("position", "size", "copied"), [(0, 6, b"abcdef"), (2, 3, b"\0\0cde"), (4, 9, b"\0\0\0\0ef")])
def test_a_range_is_copied_to_its_own_place(
    position: int, size: int, copied: bytes, in_kernel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_kernel:
        monkeypatch.delattr(os, "copy_file_range")
    (tmp_path / "a").write_bytes(b"abcdef")
    source, target = os.open(tmp_path / "a", os.O_RDONLY), os.open(tmp_path / "b", os.O_RDWR | os.O_CREAT)
    try:
        assert copy_some(source, target, position, size) == min(size, 6 - position)
    finally:
        os.close(source)
        os.close(target)
    assert (tmp_path / "b").read_bytes() == copied
