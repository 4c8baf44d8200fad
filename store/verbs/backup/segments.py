"""The segments of a backup for a new store, each on its own: in this process or in a task."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from store.errors import DamagedFile
from store.files.backup_files import BackupFiles
from store.files.filesystem import Filesystem
from store.formats.backup_manifest import BACKUP_DAMAGED, BackedFile, Manifest
from store.formats.zstd_frames import CACHED_BYTES
from store.layout import segment_name

OnBytes = Callable[[int], None]


def digested(files: BackupFiles, file: BackedFile, on_bytes: OnBytes) -> Iterator[memoryview]:
    """Yield a file's bytes; DamagedFile at the end if its digest differs."""
    hasher = hashlib.sha256()
    for chunk in files.chunks(file):
        for part in (chunk[at : at + CACHED_BYTES] for at in range(0, len(chunk), CACHED_BYTES)):
            hasher.update(part)
            yield part
        on_bytes(len(chunk))
    if hasher.hexdigest() != file.sha256:
        raise DamagedFile(
            "its bytes have another SHA-256 than when they were written",
            file=files.name_of(file.stored),
            code=BACKUP_DAMAGED,
        )


@dataclass(frozen=True)
class SegmentWriter:
    """A durable writer of a segment from its pieces; the caller syncs the folder.

    address  of the backups
    folder   of the new store's segments; on a cluster every task sees it
    size     of a segment
    log_end  past it are zeros
    """

    address: str
    folder: Path
    size: int
    log_end: int

    def __call__(self, pieces: Sequence[BackedFile]) -> int:
        """Write one segment in a task that may be tried again, and return its bytes."""
        fs = Filesystem()
        fs.unlink(self.folder / segment_name(pieces[0].file_start))
        self.write(BackupFiles(self.address), fs, pieces, lambda count: None)
        return sum(one.size for one in pieces)

    def write(self, files: BackupFiles, fs: Filesystem, pieces: Sequence[BackedFile], on_bytes: OnBytes) -> None:
        """Write one segment of its whole length."""
        start = pieces[0].file_start
        size = max(pieces[-1].end, self.size)
        target = fs.create_file(self.folder / segment_name(start), size, reserved=0)
        for piece in pieces:
            position = piece.position
            for chunk in digested(files, piece, on_bytes):
                fs.write(target, position, chunk[: max(self.log_end - start - position, 0)])
                position += len(chunk)
        fs.fdatasync(target)


def segments_until(manifest: Manifest, log_end: int) -> list[list[BackedFile]]:
    """List the pieces of each segment before the log's end, and of the first one."""
    found = groupby(manifest.segments, key=lambda one: one.file_start)
    pieces = [(start, [one for one in files if start + one.position < log_end or not one.position])
              for start, files in found]  # fmt: skip
    return [files for start, files in pieces if start < log_end or start == manifest.log_start]
