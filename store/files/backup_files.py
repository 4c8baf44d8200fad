"""Backups: reads the manifests and files of a folder of backups, local or in an object store.

    BackupFiles   the backups of a folder, and the bytes of their files, compressed or not
    BackupPlace   one backup as the folder of a store, for every reader: backup:FOLDER[@ID]

The newest segment of a backup ends with its last record. In the store, zeros fill the rest of its length.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from store.errors import BadRequest, DamagedFile, NotAStore, StoreError, StoreIOError, quoted
from store.files.descriptor import Entry, FolderEntry
from store.files.filesystem import Filesystem
from store.files.places import connect_folder
from store.files.readable import Stretch
from store.formats.backup_manifest import (
    BACKUP_DAMAGED,
    MANIFESTS,
    QUEUE_ENDS,
    ZSTD,
    BackedFile,
    Manifest,
    decode_manifest,
    is_backup_id,
)
from store.formats.zstd_frames import FRAME_BYTES, Frames, read_frames, read_table
from store.layout import BACKUP


def split_address(text: str) -> tuple[str, str | None]:
    """Split FOLDER@ID, with or without the scheme, into the folder and the id."""
    text = text.removeprefix(BACKUP)
    folder, _, backup = text.rpartition("@")
    return (folder, backup) if is_backup_id(backup) else (text, None)


class BackupFiles:
    """The backups in the folder at `address`, a path or a URI."""

    def __init__(self, address: str, fs: Filesystem | None = None) -> None:
        self.address = address if "://" in address else str(Path(address).expanduser().absolute())
        self._place = connect_folder(self.address, fs or Filesystem())
        self._tables: dict[str, Frames] = {}

    def manifests(self, warn: list[StoreError] | None = None) -> list[Manifest]:
        """Read all manifests, oldest first; append the errors of damaged ones to `warn`, or raise the first."""
        found = []
        for name in self._ids():
            try:
                found.append(self._manifest(name))
            except StoreError as error:
                if warn is None:
                    raise
                warn.append(error)
        return found

    def require(self) -> None:
        """Raise NotAStore unless the folder holds backups."""
        root = self._place.look_at("")
        if root is None:
            hint = "an id after @ looks like 20260115T083000.000" if "@" in self.address.rpartition("/")[2] else None
            raise NotAStore(self._place.absent().reason, file=self.address, hint=hint)
        if not root.is_folder:
            raise NotAStore("a file, where a folder of backups is expected", file=self.address, hint="name a folder")
        if self._place.look_at(MANIFESTS) is None:
            raise NotAStore("no backup is in it", file=self.address, code="no-backup")

    def find(self, backup: str | None) -> Manifest:
        """Read the manifest of this id, by default the newest; BadRequest for an unknown id."""
        ids = self.ids()
        if backup is not None and backup not in ids:
            raise BadRequest(f"no backup has the id {quoted(backup)}", file=self.address, code="unknown-backup")
        return self._manifest(backup or ids[-1])

    def ids(self) -> list[str]:
        """List the ids of all backups, oldest first; NotAStore without backups."""
        self.require()
        found = self._ids()
        if not found:
            raise NotAStore("no backup is in it", file=self.address, code="no-backup")
        return found

    def _ids(self) -> list[str]:
        files = (entry.path.name for entry in self._place.list_folder(MANIFESTS) if entry.is_file)
        return sorted(name for one in files if is_backup_id(name := one.removesuffix(".json")))

    def newest(self) -> Manifest | None:
        """Read the newest undamaged manifest; None without one."""
        for backup in reversed(self._ids()):
            with contextlib.suppress(DamagedFile):
                return self._manifest(backup)
        return None

    def _manifest(self, backup: str) -> Manifest:
        path = f"{MANIFESTS}/{backup}.json"
        data = bytes(self._place.map(path, 0, None).read())
        try:
            return decode_manifest(data)
        except ValueError as error:
            reason, file = f"no manifest of a backup: {error}", self.name_of(path)
            raise DamagedFile(reason, file=file, code="damaged-manifest") from None

    def name_of(self, path: str) -> str:
        """Return the full path, for messages."""
        return f"{self.address}/{path}"

    def stored_size(self, path: str) -> int:
        """Return the length of a stored file, -1 if it is missing."""
        entry = self._place.look_at(path)
        return entry.size if entry is not None and entry.is_file else -1

    def read(self, file: BackedFile, position: int, size: int) -> Stretch:
        """Read bytes of a file, fewer at its end.

        DamagedFile if they can't be unpacked, or if it is shorter than in the manifest.
        """
        size = max(0, min(size, file.size - position))
        if not size:
            return Stretch(memoryview(b""))
        if not file.stored.endswith(ZSTD):
            found = self._map(file, position, size)
        else:
            try:
                parts = list(read_frames(self._reader(file), self._frames(file), position, size))
            except ValueError as error:
                raise DamagedFile(str(error), file=self.name_of(file.stored), code=BACKUP_DAMAGED) from None
            found = Stretch(parts[0] if len(parts) == 1 else memoryview(b"".join(parts)))
        if len(found.buffer) < size:
            reason = f"the file ends at {self.stored_size(file.stored)} instead of {file.stored_size}"
            raise DamagedFile(reason, file=self.name_of(file.stored), code=BACKUP_DAMAGED)
        return found

    def chunks(self, file: BackedFile) -> Iterator[memoryview]:
        """Read a file from front to back."""
        for position in range(0, file.size, FRAME_BYTES):
            yield self.read(file, position, FRAME_BYTES).read()

    def _reader(self, file: BackedFile) -> Callable[[int, int], memoryview]:
        return lambda position, size: self._map(file, position, size).read()

    def _map(self, file: BackedFile, position: int, size: int) -> Stretch:
        try:
            return self._place.map(file.stored, position, size)
        except StoreIOError as error:
            if self.stored_size(file.stored) < 0:
                error.code = BACKUP_DAMAGED
            raise

    def _frames(self, file: BackedFile) -> Frames:
        if file.stored not in self._tables:
            size = self.stored_size(file.stored)
            if size < 0:
                raise DamagedFile("it is missing", file=self.name_of(file.stored), code=BACKUP_DAMAGED)
            self._tables[file.stored] = read_table(self._reader(file), size)
        return self._tables[file.stored]


class BackupPlace:
    """The backup at backup:FOLDER[@ID], as a store's folder."""

    member = None

    def __init__(self, address: str, fs: Filesystem) -> None:
        folder, backup = split_address(address)
        self._files = BackupFiles(folder, fs)
        self._address = address
        self._manifest = manifest = self._files.find(backup)
        self._by_path: dict[str, list[BackedFile]] = {}
        for file in manifest.files:
            if file.path != QUEUE_ENDS:
                self._by_path.setdefault(file.path, []).append(file)
        self._tree = self._make_tree()

    def _size(self, pieces: list[BackedFile]) -> int:
        end = pieces[-1].end
        return max(end, self._manifest.segment_size) if pieces[-1].is_log else end

    def list_tree(self) -> dict[str, Entry]:
        """Return all files and folders at any depth, by path below the root."""
        return self._tree

    def _make_tree(self) -> dict[str, Entry]:
        found = {}
        for path, pieces in self._by_path.items():
            for parent in Path(path).parents:
                found[str(parent)] = Entry(parent, 0, 0, is_folder=True, is_file=False)
            found[path] = Entry(Path(path), self._size(pieces), pieces[-1].mtime_ms * 1_000_000, is_folder=False)
        found.setdefault("commitlog", Entry(Path("commitlog"), 0, 0, is_folder=True, is_file=False))
        return {path: entry for path, entry in found.items() if path != "."}

    def look_at(self, path: str) -> Entry | None:
        return self._tree.get(path) if path else Entry(Path(), 0, 0, is_folder=True, is_file=False)

    def list_folder(self, path: str) -> list[Entry]:
        return [entry for name, entry in sorted(self._tree.items()) if name.rpartition("/")[0] == path]

    def list_folders(self, path: str) -> list[str]:
        return [entry.path.name for entry in self.list_folder(path) if entry.is_folder]

    def list_below(self, path: str) -> list[FolderEntry]:
        found = ((name, one) for name, one in self._tree.items() if name.startswith(f"{path}/"))
        return sorted(FolderEntry(name, one.is_folder, one.size, one.mtime_ns // 1_000_000) for name, one in found)

    def map(self, path: str, position: int, size: int | None) -> Stretch:
        if path not in self._by_path:
            raise StoreIOError("the backup has no such file", file=f"{self._address}/{path}")
        pieces = self._by_path[path]
        whole = self._size(pieces)
        wanted = max(0, whole - position if size is None else min(size, whole - position))
        found = [self._read(one, position, position + wanted) for one in pieces]
        parts = [one for one in found if len(one.buffer)] or found[:1]
        if len(parts[0].buffer) == wanted:
            return parts[0]
        return Stretch(memoryview(b"".join(one.read() for one in parts).ljust(wanted, b"\0")))

    def _read(self, piece: BackedFile, start: int, stop: int) -> Stretch:
        start = max(start, piece.position)
        return self._files.read(piece, start - piece.position, stop - start)

    def written(self, path: str, size: int) -> Stretch:
        return self.map(path, 0, min(size, self._by_path[path][-1].end))

    def written_ranges(self, path: str, position: int) -> Iterator[tuple[int, int]]:
        if position < (end := self._by_path[path][-1].end):
            yield position, end

    def absent(self) -> NotAStore:
        """Return the error for a backup without files."""
        return NotAStore("the backup holds no file", file=self._address)
