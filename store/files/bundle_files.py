"""Bundles: unpacks the archive of a store without bodies into a folder.

Archive         the unpacked bytes of a local or remote bundle, frame by frame
unpack_bundle   its store, in a scratch folder until the process ends; blocks of zeros become holes
UnpackedFiles   the files of that folder; bytes that were unreadable in the store are so again
"""

from __future__ import annotations

import atexit
import errno
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from store.errors import DamagedFile, NotAStore, StoreIOError
from store.files.filesystem import Descriptor, Filesystem
from store.files.places import connect_folder
from store.files.scratch import Scratch
from store.formats.bundle import DOCUMENT, FOLDER, UNREADABLE, Ranges, decode_document, decode_unreadable
from store.formats.zstd_frames import FRAME_BYTES, check_digest, read_frames, read_table

_BLOCK_BYTES = 4096
_unpacked: dict[tuple[str, int, int], tuple[Path, UnpackedFiles]] = {}


class UnpackedFiles(Filesystem):
    """The files of an unpacked bundle. `unreadable` are the unreadable ranges of bytes, by file."""

    def __init__(self, unreadable: Mapping[Path, Ranges], *, holds_log_alone: bool) -> None:
        self._unreadable, self.holds_log_alone = unreadable, holds_log_alone

    def populate(self, path: Path, view: memoryview, start: int, stop: int) -> bool:
        return not self._is_unreadable(path, start, stop) and super().populate(path, view, start, stop)

    def read(self, descriptor: Descriptor, position: int, size: int) -> bytes:
        self._require_readable(descriptor.path, position + size, position)
        return super().read(descriptor, position, size)

    def read_start(self, path: str, size: int) -> bytes:
        self._require_readable(Path(path), size)
        return super().read_start(path, size)

    def read_alone(self, path: str, size: int) -> bytes | None:
        self._require_readable(Path(path), size)
        return super().read_alone(path, size)

    def _is_unreadable(self, path: Path, start: int, stop: int) -> bool:
        return any(start < behind and first < stop for first, behind in self._unreadable.get(path, ()))

    def _require_readable(self, path: Path, stop: int, start: int = 0) -> None:
        if self._is_unreadable(path, start, stop):
            raise StoreIOError.from_os(OSError(errno.EIO, os.strerror(errno.EIO)), path, "read the file")


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
        return self._place.map(self._name, position, size).read()

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
    return _document(Archive(address))[0]


def _document(archive: Archive) -> tuple[dict[str, str], bool]:
    """Read the settings of a bundle, and whether it holds the log alone."""
    head = next(_heads(archive))
    try:
        return decode_document(b"".join(archive.pieces(head.offset_data, head.size)))
    except ValueError as error:
        raise archive.damaged(f"no bundle: {error}") from None


def unpack_bundle(address: str, scratch: str | Path | None = None) -> tuple[Path, Filesystem]:
    """Unpack a bundle once per process, and return its folder and files; NotAStore, DamagedFile."""
    archive, fs = Archive(address), Filesystem()
    if archive.version not in _unpacked or not fs.exists(_unpacked[archive.version][0]):
        folder = Scratch(scratch)
        atexit.register(folder.close)
        try:
            root = folder.folder / FOLDER
            fs.make_folder(root)
            unreadable = dict[Path, Ranges]()
            _, holds_log_alone = _document(archive)
            for head in _heads(archive):
                _unpack(archive, head, root, fs)
                if head.name == UNREADABLE:
                    unreadable = dict(_unreadable(archive, head, root, fs))
        except BaseException:
            folder.close()
            raise
        _unpacked[archive.version] = root, UnpackedFiles(unreadable, holds_log_alone=holds_log_alone)
    return _unpacked[archive.version]


def _unreadable(archive: Archive, head: tarfile.TarInfo, root: Path, fs: Filesystem) -> Iterator[tuple[Path, Ranges]]:
    """Yield the unreadable ranges of each file, and fill them: readers look at no page of a hole."""
    try:
        found = decode_unreadable(b"".join(archive.pieces(head.offset_data, head.size)))
    except (TypeError, ValueError) as error:
        raise archive.damaged(f"no bundle: {error}") from None
    for name, ranges in found.items():
        path = root / name
        if ".." in path.parts or not fs.exists(path) or ranges[-1][1] > fs.stat(path).st_size:
            raise archive.damaged(f"no bundle: it has no such unreadable bytes: {name}")
        mtime_ns, file = fs.mtime_ns(path), fs.open_write(path)
        for start, stop in ranges:
            fs.write(file, start, bytes(stop - start))
        fs.utime(path, mtime_ns)
        yield path, ranges


def _heads(archive: Archive) -> Iterator[tarfile.TarInfo]:
    """Read the heads of all files in a bundle; DamagedFile if the file is no bundle."""
    archive.seek(0)
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
