"""A folder or bucket of backups, open for a writer."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager

from store.errors import BadRequest
from store.files.backup_files import BackupFiles
from store.files.filesystem import Filesystem
from store.formats.backup_manifest import LOG, MANIFESTS, TABLES, BackedFile, Manifest, stored_name
from store.formats.zstd_frames import CACHED_BYTES, FRAME_BYTES, compress_frame, encode_table

Data = Callable[[], Iterable[memoryview]]
"""Reads the bytes of a file; each call begins at the first."""


class BackupTarget(BackupFiles):
    """The backups at `address`, for a writer.

    compresses  whether new files are compressed
    reads       how often the bytes of a new file are read
    locks       whether a lock keeps a second writer out
    """

    reads = 1
    locks = False

    def __init__(self, address: str, fs: Filesystem, *, compresses: bool = False) -> None:
        super().__init__(address, fs)
        self._fs = fs
        self._compresses = compresses

    @abstractmethod
    def writing(self, *, makes: bool = False, takes: bool = True) -> AbstractContextManager[None]:
        """Keep other writers out inside of the block, if the target has a lock and `takes` is True.

        makes  whether to prepare an absent or empty place for backups; BadRequest if it has other files
        """

    @abstractmethod
    def add(self, path: str, data: Data, mtime_ms: int = 0) -> BackedFile:
        """Store a file durably; files with the same content are stored once."""

    @abstractmethod
    def note(self, file: BackedFile) -> None:
        """Note a finished file, so that the next backup reuses it if this one ends without a manifest."""

    @abstractmethod
    def noted(self) -> list[BackedFile]:
        """Return the finished files of a backup without a manifest."""

    @abstractmethod
    def finish(self, manifest: Manifest) -> None:
        """Write the manifest: now the backup exists."""

    @abstractmethod
    def remove(self, backups: Iterable[str], stored: Iterable[str]) -> None:
        """Delete manifests, and files after them: a kill between leaves files that no backup needs."""

    def stored_files(self) -> dict[str, int]:
        """Return every stored file with its size, by its path below the folder."""
        below = (one for folder in (LOG, TABLES) for one in self._place.list_below(folder))
        return {one.path: one.size for one in below if not one.is_folder}

    def _refuse_other_files(self, own: frozenset[str]) -> None:
        found = {entry.path.name for entry in self._place.list_folder("")}
        if MANIFESTS not in found and found - own:
            hint = "name a folder that does not exist yet, or one with backups"
            raise BadRequest("the folder has other files, and no backups", file=self.address, hint=hint)


class Packer:
    """A packer of one file: it counts, hashes and, if wanted, compresses the bytes."""

    def __init__(self, *, compresses: bool) -> None:
        self._compresses, self._hasher = compresses, hashlib.sha256()
        self.size = self.stored_size = 0

    def pack(self, data: Iterable[memoryview]) -> Iterator[bytes | memoryview]:
        """Yield the bytes to store."""
        frames: list[tuple[int, int]] = []
        for part in self._parts(data, FRAME_BYTES if self._compresses else CACHED_BYTES):
            kept = compress_frame(part) if self._compresses else part
            frames += [(len(kept), len(part))] if self._compresses else []
            self.stored_size += len(kept)
            yield kept
        if self._compresses:
            table = encode_table(frames)
            self.stored_size += len(table)
            yield table

    def hash(self, data: Iterable[memoryview]) -> None:
        """Hash the bytes alone."""
        for _ in self._parts(data, CACHED_BYTES):
            pass

    def _parts(self, data: Iterable[memoryview], step: int) -> Iterator[memoryview]:
        for part in (one[at : at + step] for one in data for at in range(0, len(one), step)):
            self._hasher.update(part)
            self.size += len(part)
            yield part

    def named(self, path: str, mtime_ms: int = 0) -> BackedFile:
        """Describe the packed file, with its path in the store."""
        digest = self._hasher.hexdigest()
        folder, name = (LOG, path.partition("/")[2]) if path.startswith("commitlog/") else (TABLES, path)
        stored_as = stored_name(folder, name, digest, is_compressed=self._compresses)
        return BackedFile(path, self.size, digest, stored_as, self.stored_size, mtime_ms)
