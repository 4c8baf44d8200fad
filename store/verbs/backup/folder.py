"""BackupFolder: a folder of backups that is written to. Its lock keeps a second writer out.

log/, tables/       finished files, each with its last name once it is durable; never written again
unfinished/         bytes that are being copied, deleted by the next writer
unfinished.jsonl    files that a backup without its manifest has finished, so that the next one takes them
lock
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from store.errors import BadRequest, StoreLocked
from store.files.backup_files import BackupFiles
from store.files.filesystem import Descriptor, Filesystem
from store.files.lock import StoreLock
from store.formats.backup_manifest import (
    LOG,
    MANIFESTS,
    TABLES,
    BackedFile,
    Manifest,
    decode_file,
    encode_manifest,
    stored_name,
)
from store.formats.zstd_frames import CACHED_BYTES, FRAME_BYTES, compress_frame, encode_table

UNFINISHED = "unfinished"
JOURNAL = "unfinished.jsonl"
_OWN = frozenset((LOG, TABLES, MANIFESTS, UNFINISHED, JOURNAL, "lock"))


class BackupFolder(BackupFiles):
    """The backups below `root`, for one writer.

    compresses  whether new files are compressed
    """

    def __init__(self, root: Path, fs: Filesystem, *, compresses: bool = False) -> None:
        super().__init__(str(root), fs)
        self.root = Path(self.address)
        self._fs = fs
        self._compresses = compresses

    @contextmanager
    def writing(self, *, makes: bool = False, takes: bool = True) -> Iterator[None]:
        """Hold the lock inside of the block, if it is to be taken.

        makes  whether an absent or empty folder becomes one of backups. BadRequest for one with other files.
        """
        if makes:
            self._make()
        else:
            self.require()
        if not takes:
            yield
            return
        lock = StoreLock(self.root / "lock", self._fs)
        try:
            lock.acquire()
        except StoreLocked as error:
            reason = error.reason.replace("the store is", "the folder of backups is")
            raise StoreLocked(reason, file=error.file, hint="wait for the other command") from None
        with lock:
            self._fs.remove_tree(self.root / UNFINISHED)
            yield

    def _make(self) -> None:
        self._fs.require_folder(self.root)
        found = {entry.path.name for entry in self._fs.list_folder(self.root)}
        if MANIFESTS not in found and found - _OWN:
            hint = "name a folder that does not exist yet, or one with backups"
            raise BadRequest("the folder has other files, and no backups", file=self.root, hint=hint)
        for name in ("", LOG, TABLES, MANIFESTS):
            self._make_folder(self.root / name)

    def _make_folder(self, folder: Path) -> None:
        for made in self._fs.make_folder(folder):
            self._fs.fsync_folder(made.parent)

    def add(self, path: str, data: Iterable[memoryview], mtime_ms: int = 0) -> BackedFile:
        """Store a file of a store, durably; one with the same content is there once."""
        hasher, staged, sizes = hashlib.sha256(), self._open_new(Path(path).name), [0, 0]
        for size, stored in self._written(data, hasher, staged):
            sizes = [size, stored]
        digest = hasher.hexdigest()
        folder, name = (LOG, path.partition("/")[2]) if path.startswith("commitlog/") else (TABLES, path)
        stored_as = stored_name(folder, name, digest, is_compressed=self._compresses)
        if self.stored_size(stored_as) != sizes[1]:
            target = self.root / stored_as
            self._make_folder(target.parent)
            self._fs.fdatasync(staged)
            self._fs.rename(staged.path, target)
            self._fs.fsync_folder(target.parent)
        else:
            self._fs.unlink(staged.path)
        return BackedFile(path, sizes[0], digest, stored_as, sizes[1], mtime_ms)

    def _open_new(self, name: str) -> Descriptor:
        self._fs.make_folder(self.root / UNFINISHED)
        return self._fs.open_new(self.root / UNFINISHED / name)

    def _written(
        self, data: Iterable[memoryview], hasher: hashlib._Hash, target: Descriptor
    ) -> Iterator[tuple[int, int]]:
        """Write the parts; yields the size and the stored size so far."""
        size, stored = 0, 0
        frames: list[tuple[int, int]] = []
        step = FRAME_BYTES if self._compresses else CACHED_BYTES
        for part in (one[at : at + step] for one in data for at in range(0, len(one), step)):
            hasher.update(part)
            kept = compress_frame(part) if self._compresses else part
            if self._compresses:
                frames.append((len(kept), len(part)))
            self._fs.write(target, stored, kept)
            size, stored = size + len(part), stored + len(kept)
            yield size, stored
        if self._compresses:
            table = encode_table(frames)
            self._fs.write(target, stored, table)
            yield size, stored + len(table)

    # Files that an unfinished backup has finished.

    def note(self, file: BackedFile) -> None:
        """Note a finished file for the next backup, in case this one does not get to its manifest."""
        path = self.root / JOURNAL
        journal = self._fs.open_write(path) if self._fs.exists(path) else self._fs.open_new(path)
        line = json.dumps(asdict(file)).encode() + b"\n"
        self._fs.write(journal, self._fs.size_of(journal), line)

    def noted(self) -> list[BackedFile]:
        """Files that a backup without a manifest has finished; torn lines are left out."""
        path, found = self.root / JOURNAL, []
        for line in self._fs.read_file(path).splitlines() if self._fs.exists(path) else []:
            try:
                found.append(decode_file(json.loads(line)))
            except (ValueError, TypeError):
                continue
        return found

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest: now the backup exists."""
        staged = self._open_new(f"{manifest.id}.json")
        self._fs.write(staged, 0, encode_manifest(manifest))
        self._fs.fdatasync(staged)
        self._fs.rename(staged.path, self.root / MANIFESTS / staged.path.name)
        self._fs.fsync_folder(self.root / MANIFESTS)
        self._fs.unlink(self.root / JOURNAL)
        self._fs.remove_tree(self.root / UNFINISHED)

    # Deleting.

    def stored_files(self) -> dict[str, int]:
        """Every stored file with its size, by its path below the folder."""
        below = (one for folder in (LOG, TABLES) for one in self._fs.list_below(str(self.root), folder))
        return {one.path: one.size for one in below if not one.is_folder}

    def remove(self, backups: Iterable[str], stored: Iterable[str]) -> None:
        """Delete manifests, and files after them: a kill between leaves files that no backup needs."""
        for backup in backups:
            self._fs.unlink(self.root / MANIFESTS / f"{backup}.json")
        self._fs.fsync_folder(self.root / MANIFESTS)
        for path in stored:
            self._fs.unlink(self.root / path)
