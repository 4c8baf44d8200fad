"""BackupFolder: a folder of backups, open for a writer. Its lock keeps a second writer out.

log/, tables/       finished files, renamed to here once they are durable; never written again
unfinished/         files that are being copied, deleted by the next writer
following/          the tail of a followed log, in the form of a store's log
unfinished.jsonl    finished files of a backup without a manifest; the next backup reuses them
lock
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from store.errors import StoreLocked
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
)
from store.verbs.backup.target import BackupTarget, Data, Packer

UNFINISHED, FOLLOWING = "unfinished", "following"
JOURNAL = "unfinished.jsonl"
_OWN = frozenset((LOG, TABLES, MANIFESTS, UNFINISHED, FOLLOWING, JOURNAL, "lock"))


class BackupFolder(BackupTarget):
    """The backups below `root`."""

    locks = True

    def __init__(self, root: Path, fs: Filesystem, *, compresses: bool = False) -> None:
        super().__init__(str(root), fs, compresses=compresses)
        self.root = Path(self.address)

    @contextmanager
    def writing(self, *, makes: bool = False, takes: bool = True) -> Iterator[None]:
        """Hold the lock inside of the block, unless `takes` is False."""
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
        self._fs.require_target(self.root)
        self._refuse_other_files(_OWN)
        for name in ("", LOG, TABLES, MANIFESTS):
            self._make_folder(self.root / name)

    def _make_folder(self, folder: Path) -> None:
        for made in self._fs.make_folder(folder):
            self._fs.fsync_folder(made.parent)

    def add(self, path: str, data: Data, mtime_ms: int = 0) -> BackedFile:
        """Copy a file durably; files with the same content are stored once."""
        packer, staged = Packer(compresses=self._compresses), self._open_new(Path(path).name)
        at = 0
        for part in packer.pack(data()):
            self._fs.write(staged, at, part)
            at += len(part)
        file = packer.named(path, mtime_ms)
        if self.stored_size(file.stored) != file.stored_size:
            target = self.root / file.stored
            self._make_folder(target.parent)
            self._fs.fdatasync(staged)
            self._fs.rename(staged.path, target)
            self._fs.fsync_folder(target.parent)
        else:
            self._fs.unlink(staged.path)
        return file

    def _open_new(self, name: str) -> Descriptor:
        self._fs.make_folder(self.root / UNFINISHED)
        return self._fs.open_new(self.root / UNFINISHED / name)

    # The finished files of a backup without a manifest.

    def note(self, file: BackedFile) -> None:
        """Add a line to the journal."""
        path = self.root / JOURNAL
        journal = self._fs.open_write(path) if self._fs.exists(path) else self._fs.open_new(path)
        line = json.dumps(asdict(file)).encode() + b"\n"
        self._fs.write(journal, self._fs.size_of(journal), line)

    def noted(self) -> list[BackedFile]:
        """Read the journal; torn lines are left out."""
        path, found = self.root / JOURNAL, []
        for line in self._fs.read_file(path).splitlines() if self._fs.exists(path) else []:
            try:
                found.append(decode_file(json.loads(line)))
            except (ValueError, RecursionError):
                continue
        return found

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, and delete the journal."""
        staged = self._open_new(f"{manifest.id}.json")
        self._fs.write(staged, 0, encode_manifest(manifest))
        self._fs.fdatasync(staged)
        self._fs.rename(staged.path, self.root / MANIFESTS / staged.path.name)
        self._fs.fsync_folder(self.root / MANIFESTS)
        self._fs.unlink(self.root / JOURNAL)
        self._fs.remove_tree(self.root / UNFINISHED)

    def remove(self, backups: Iterable[str], stored: Iterable[str]) -> None:
        """Delete manifests, and files after them."""
        for backup in backups:
            self._fs.unlink(self.root / MANIFESTS / f"{backup}.json")
        self._fs.fsync_folder(self.root / MANIFESTS)
        for path in stored:
            self._fs.unlink(self.root / path)
