"""dump: every field of every record, unit or entry of one file, with its place in the bytes.

If several structures have the same kind of rows, a file belongs to the last one in the registry that holds it: the
plain one is the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from store.errors import NotAStore
from store.files.filesystem import Filesystem
from store.files.store_reader import StoredFile, StoreReader
from store.layout import StoreLayout
from store.structures.entry import Asked, Entry, EntryBlock
from store.structures.registry import STRUCTURES


class DumpedFile(NamedTuple):
    """A file, and the room that has its rows."""

    room: ModuleType
    reader: StoreReader
    file: StoredFile

    def entries(self, asked: Asked) -> Iterator[Entry]:
        """Return the entries of the file, in the order of its bytes."""
        return self.room.rows(self.reader, self.file, asked)  # type: ignore[no-any-return]


class DumpedFolder(NamedTuple):
    """A folder whose files are one database, and the room that has its rows."""

    room: ModuleType
    folder: Path

    def entries(self, asked: Asked) -> Iterator[Entry]:
        """Return the entries of the database.

        Raises BadRequest without the package that reads it, DamagedFile if it does not open.
        """
        return self.room.rows(self.folder, asked)  # type: ignore[no-any-return]

    def blocks(self, asked: Asked) -> Iterator[EntryBlock | Entry]:
        """Return the same as blocks; damage stays an Entry."""
        return self.room.blocks(self.folder, asked)  # type: ignore[no-any-return]


def dumped_folder(kind: str, layout: StoreLayout, fs: Filesystem) -> DumpedFolder | None:
    """Return the database with a store's rows of a kind; None if they are in files."""
    for room in _rooms(kind):
        if hasattr(room, "folder_in") and (folder := room.folder_in(layout, fs)) is not None:
            return DumpedFolder(room, folder)
    return None


def dumped_files(kind: str, reader: StoreReader, asked: Asked) -> list[DumpedFile]:
    """Return the files of a store that hold rows of a kind, from the first entry asked for on."""
    listed = (room.files(reader, asked) for room in _rooms(kind) if hasattr(room, "files"))
    return [DumpedFile(_room_of(kind, reader, file), reader, file) for files in listed for file in files]


def dumped_folder_at(kind: str, path: Path) -> DumpedFolder | None:
    """Return a database without a store around it; None if the path is another folder, or a file."""
    fs = Filesystem()
    for room in _rooms(kind):
        if hasattr(room, "is_folder") and fs.is_folder(path) and room.is_folder(path, fs):
            return DumpedFolder(room, path)
    return None


def dumped_at(kind: str, path: Path) -> list[DumpedFile]:
    """Return a file, or the files of a folder, without a store around them.

    Raises NotAStore if there is no such file.
    """
    fs = Filesystem()
    if not fs.is_folder(path):
        return [_single_file(kind, path, fs)]
    looked = ((path / name, fs.look_at(path / name)) for name in sorted(fs.list_names(path)))
    return [_single_file(kind, one, fs) for one, found in looked if found is not None and found.is_file]


def _single_file(kind: str, path: Path, fs: Filesystem) -> DumpedFile:
    found = fs.look_at(path)
    if found is None or not found.is_file:
        raise NotAStore("no such file" if found is None else "not a file", file=path)
    path = path.absolute()
    reader = StoreReader(str(path.parent), fs)
    file = StoredFile(path.name, -1, found.size, found.mtime_ns // 1_000_000)
    return DumpedFile(_room_of(kind, reader, file), reader, file)


def _rooms(kind: str) -> Iterator[ModuleType]:
    """Yield the rooms with rows of a kind, the plain one last."""
    rooms = (one.furniture("rows") for one in reversed(STRUCTURES) if one.dumped_as == kind)
    return (room for room in rooms if room is not None)


def _room_of(kind: str, reader: StoreReader, file: StoredFile) -> ModuleType:
    return next(room for room in _rooms(kind) if _is_its(room, reader, file))


def _is_its(room: ModuleType, reader: StoreReader, file: StoredFile) -> bool:
    if hasattr(room, "folder_in"):
        return False
    return not hasattr(room, "holds") or bool(room.holds(reader, file))
