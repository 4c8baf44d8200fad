"""BackupBucket: backups in an object store, open for a writer.

    1. hash     the digest is in the name, and an object with this name and size is not sent again
    2. send     an object appears whole, with its last byte
    3. compare  an object with another digest than in step 1 is deleted

So a killed writer leaves only whole objects; the next writer sends the rest. There is no lock. Concurrent backups send
the same bytes under the same names, but a concurrent prune may delete files that a new manifest needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from store.errors import DamagedFile, StoreIOError
from store.files.filesystem import Filesystem
from store.files.places import RemotePlace
from store.formats.backup_manifest import LOG, MANIFESTS, TABLES, BackedFile, Manifest, encode_manifest
from store.verbs.backup.folder import BackupFolder
from store.verbs.backup.target import BackupTarget, Data, Packer

_OWN = frozenset((LOG, TABLES, MANIFESTS))


def open_target(address: str, fs: Filesystem, *, compresses: bool = False) -> BackupTarget:
    """Return the place of backups at a path or URI, for a writer."""
    parts = urlsplit(address)
    if "://" in address and parts.scheme != "file":
        return BackupBucket(address, fs, compresses=compresses)
    path = Path(unquote(parts.path) if parts.scheme == "file" else address)
    fs.require_target(path)
    return BackupFolder(path, fs, compresses=compresses)


class BackupBucket(BackupTarget):
    """The backups at a URI."""

    reads = 2
    _place: RemotePlace

    @contextmanager
    def writing(self, *, makes: bool = False, takes: bool = True) -> Iterator[None]:
        """Require a bucket with backups or, with `makes`, an empty one; there is no lock to take."""
        if makes:
            self._place.require_bucket()
            self._refuse_other_files(_OWN)
        else:
            self.require()
        yield

    def add(self, path: str, data: Data, mtime_ms: int = 0) -> BackedFile:
        """Send a file, unless it is there."""
        hashed = Packer(compresses=self._compresses)
        hashed.hash(data())
        wanted = hashed.named(path, mtime_ms)
        found = self._find(wanted)
        if found is not None:
            return found
        packer = hashed

        def parts() -> Iterable[bytes | memoryview]:
            nonlocal packer
            packer = Packer(compresses=self._compresses)
            return packer.pack(data())

        self._place.write(wanted.stored, parts)
        sent = packer.named(path, mtime_ms)
        if sent.sha256 != wanted.sha256:
            self._place.delete(wanted.stored)
            raise StoreIOError("another process has changed the file", file=path)
        return sent

    def _find(self, file: BackedFile) -> BackedFile | None:
        """Describe a file as it is stored; None if it is missing or not whole."""
        found = replace(file, stored_size=self.stored_size(file.stored))
        if self._compresses and found.stored_size >= 0:
            try:
                is_whole = sum(size for _, size in self._frames(found)) == file.size
            except (DamagedFile, ValueError):
                is_whole = False
            return found if is_whole else None
        return found if found.stored_size == file.size else None

    def note(self, file: BackedFile) -> None:
        """Do nothing: the next backup finds an object by the digest in its name."""

    def noted(self) -> list[BackedFile]:
        """Return nothing."""
        return []

    def finish(self, manifest: Manifest) -> None:
        """Send the manifest."""
        self._place.write(f"{MANIFESTS}/{manifest.id}.json", lambda: [encode_manifest(manifest)])

    def remove(self, backups: Iterable[str], stored: Iterable[str]) -> None:
        """Delete manifests, and files after them."""
        for path in (*(f"{MANIFESTS}/{one}.json" for one in backups), *stored):
            self._place.delete(path)
