"""Bundles: unpacks the archive of a store without bodies into a folder.

Archive         the unpacked bytes of a local or remote bundle, frame by frame
unpack_bundle   its store, in a scratch folder until the process ends; blocks of zeros become holes
"""

from __future__ import annotations

import atexit
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from store.errors import DamagedFile, NotAStore
from store.files.filesystem import Filesystem
from store.files.places import connect_folder
from store.files.scratch import Scratch
from store.formats.bundle import DOCUMENT, FOLDER, decode_settings
from store.formats.zstd_frames import FRAME_BYTES, check_digest, read_frames, read_table

_BLOCK_BYTES = 4096
_unpacked: dict[tuple[str, int, int], Path] = {}


class Archive(io.RawIOBase):
    """The unpacked bytes of a bundle. `version` differs for another bundle at the same address."""

    def __init__(self, address: str) -> None:
        address = address.removeprefix("file://")
        self.address = address if "://" in address else str(Path(address).expanduser().absolute())
        folder, _, self._name = self.address.rpartition("/")
        self._place = connect_folder(folder or "/", Filesystem())
        found = self._place.look_at(self._name)
        if found is None or not found.is_file:
            raise NotAStore("there is no such file", file=self.address)
        self.version = self.address, found.size, found.mtime_ns
        try:
            self._frames = read_table(self._read, found.size)
            check_digest(self._read, self._frames)
        except ValueError as error:
            raise self.damaged(f"no bundle: {error}") from None
        self.size = sum(size for _, size in self._frames)
        self._at, self._kept = 0, (-1, memoryview(b""))

    def damaged(self, fault: str) -> DamagedFile:
        """Return the error for an unreadable archive."""
        return DamagedFile(fault, file=self.address, code="no-bundle")

    def _read(self, position: int, size: int) -> memoryview:
        stretch = self._place.map(self._name, position, size)
        stretch.require(0, len(stretch.buffer))
        return stretch.buffer

    def pieces(self, position: int, size: int) -> Iterator[memoryview]:
        """Read bytes, one piece per frame; all frames but the last have FRAME_BYTES."""
        while size > 0 and position < self.size:
            number, start = divmod(position, FRAME_BYTES)
            if self._kept[0] != number:
                try:
                    frame = b"".join(read_frames(self._read, self._frames, number * FRAME_BYTES, FRAME_BYTES))
                except ValueError as error:
                    raise self.damaged(str(error)) from None
                self._kept = number, memoryview(frame)
            piece = self._kept[1][start : start + size]
            if not piece:
                raise self.damaged(f"frame {number} is too short")
            yield piece
            position, size = position + len(piece), size - len(piece)

    # The methods of a file that tarfile uses.

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self.size)[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        found = b"".join(self.pieces(self._at, self.size if size < 0 else size))
        self._at += len(found)
        return found


def bundle_settings(address: str) -> dict[str, str]:
    """Read a bundle's settings for reading its store."""
    archive = Archive(address)
    head = next(_heads(archive))
    try:
        return decode_settings(b"".join(archive.pieces(head.offset_data, head.size)))
    except ValueError as error:
        raise archive.damaged(f"no bundle: {error}") from None


def unpack_bundle(address: str) -> Path:
    """Unpack the store of a bundle, once per process, and return its folder; NotAStore, DamagedFile."""
    archive, fs = Archive(address), Filesystem()
    if archive.version not in _unpacked or not fs.exists(_unpacked[archive.version]):
        scratch = Scratch()
        atexit.register(scratch.close)
        try:
            root = scratch.folder / FOLDER
            fs.make_folder(root)
            for head in _heads(archive):
                _unpack(archive, head, root, fs)
        except BaseException:
            scratch.close()
            raise
        _unpacked[archive.version] = root
    return _unpacked[archive.version]


def _heads(archive: Archive) -> Iterator[tarfile.TarInfo]:
    """Read the heads of all files in a bundle; DamagedFile if the file is no bundle."""
    try:
        with tarfile.open(fileobj=archive, mode="r:", encoding="utf-8", errors="surrogateescape") as found:
            first = found.next()
            if first is None or first.name != DOCUMENT:
                raise archive.damaged(f"no bundle: it does not begin with {DOCUMENT}")
            yield first
            yield from iter(found.next, None)
    except tarfile.TarError as error:
        raise archive.damaged(f"no bundle: {error}") from None


def _unpack(archive: Archive, head: tarfile.TarInfo, root: Path, fs: Filesystem) -> None:
    """Write one file or folder below the root."""
    top, _, name = head.name.partition("/")
    if top != FOLDER:
        return
    if not (head.isfile() or head.isdir()) or {"", ".", ".."} & set(name.split("/")):
        raise archive.damaged(f"an entry of the archive is no file of a store: {head.name}")
    path = root / name
    fs.make_folder(path if head.isdir() else path.parent)
    if head.isdir():
        return
    file, at = fs.open_new(path), 0
    fs.truncate(file, head.size)
    for piece in archive.pieces(head.offset_data, head.size):
        for start in _written_blocks(piece):
            fs.write(file, at + start, piece[start : start + _BLOCK_BYTES])
        at += len(piece)
    fs.utime(path, round(head.mtime * 1000) * 1_000_000)


def _written_blocks(piece: memoryview) -> list[int]:
    """Return the starts of blocks with other bytes than zeros."""
    found = np.frombuffer(piece, np.uint8)
    blocks = np.add.reduceat(found != 0, np.arange(0, len(found), _BLOCK_BYTES), dtype=np.int64)
    return (np.flatnonzero(blocks) * _BLOCK_BYTES).tolist()
