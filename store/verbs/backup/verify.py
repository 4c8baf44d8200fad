"""backup verify: every byte against the digests of the manifests, and a check of the log.

Files that backups share are read once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from store.errors import StoreError
from store.files.backup_files import BackupFiles
from store.files.connect import own_settings
from store.files.store_reader import StoreReader
from store.formats.backup_manifest import MANIFESTS, BackedFile, Manifest
from store.layout import BACKUP
from store.structures.findings import Finding
from store.verbs.backup.segments import OnBytes, digested
from store.verbs.backup.side_by_side import SideBySide
from store.verbs.check.check import check_files
from store.verbs.check.options import CheckOptions


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
    once = {file.stored: file for manifest in manifests for file in manifest.files}
    work = SideBySide(bytes_to_verify(manifests), lambda done, in_all: on_progress(done))
    largest = max((one.size for one in once.values()), default=0)
    found = work.map(lambda file: _fault_of(files, file, work.tell), list(once.values()), largest)
    faults = dict(zip(once, found, strict=True))
    for manifest in manifests:
        for file in manifest.files:
            if fault := faults[file.stored]:
                yield BackupFault(manifest.id, file.stored, fault)


def manifest_faults(errors: Sequence[StoreError]) -> list[BackupFault]:
    """Return the errors of manifests that can't be read as damaged files."""
    files = ((error, error.file) for error in errors if error.file is not None)
    return [BackupFault(file.stem, f"{MANIFESTS}/{file.name}", error.reason) for error, file in files]


def bytes_to_verify(manifests: Sequence[Manifest]) -> int:
    """Count the bytes that a verification reads."""
    return sum({file.stored: file.size for manifest in manifests for file in manifest.files}.values())


def check_backup(files: BackupFiles, manifest: Manifest) -> list[Finding]:
    """Check a backup as a store, without restoring it."""
    address = f"{BACKUP}{files.address}@{manifest.id}"
    return list(check_files(StoreReader(address), CheckOptions(settings=own_settings(address))))


def _fault_of(files: BackupFiles, file: BackedFile, on_bytes: OnBytes) -> str:
    if files.stored_size(file.stored) < 0:
        return "it is missing"
    try:
        deque(digested(files, file, on_bytes), maxlen=0)
    except StoreError as error:
        return error.reason
    return ""
