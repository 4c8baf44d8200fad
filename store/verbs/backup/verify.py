"""backup verify: every byte against the digests of the manifests, and a check of the log.

Files that backups share are read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from store.errors import StoreError
from store.files.backup_files import BackupFiles
from store.files.store_reader import StoreReader
from store.formats.backup_manifest import BackedFile, Manifest
from store.layout import BACKUP
from store.structures.findings import Finding
from store.verbs.backup.segments import digested
from store.verbs.check.check import check_files


@dataclass(frozen=True, slots=True)
class BackupFault:
    """A damaged file of a backup; `file` is its path below the folder of backups."""

    backup_id: str
    file: str
    fault: str


def verify_files(
    files: BackupFiles, manifests: Sequence[Manifest], on_progress: Callable[[int], None] = lambda done_bytes: None
) -> Iterator[BackupFault]:
    """Yield each file that is missing, or has other bytes than when it was written."""
    faults: dict[str, str] = {}
    done = 0
    for manifest in manifests:
        for file in manifest.files:
            if file.stored not in faults:
                faults[file.stored] = _fault_of(files, file)
                done += file.size
                on_progress(done)
            if fault := faults[file.stored]:
                yield BackupFault(manifest.id, file.stored, fault)


def bytes_to_verify(manifests: Sequence[Manifest]) -> int:
    """Count the bytes that a verification reads."""
    return sum({file.stored: file.size for manifest in manifests for file in manifest.files}.values())


def check_backup(files: BackupFiles, manifest: Manifest) -> list[Finding]:
    """Check a backup as a store, without restoring it."""
    return list(check_files(StoreReader(f"{BACKUP}{files.address}@{manifest.id}")))


def _fault_of(files: BackupFiles, file: BackedFile) -> str:
    if files.stored_size(file.stored) < 0:
        return "it is missing"
    try:
        for _ in digested(files, file, lambda count: None):
            pass
    except StoreError as error:
        return error.reason
    return ""
