"""Short words for tests of backups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from store import open_store
from store.files.backup_files import BackupFiles
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.backup_manifest import Manifest
from store.kernels.native import clock_ms
from store.verbs.backup.create import CreateOptions, create_backup
from store.verbs.backup.folder import BackupFolder
from store.verbs.backup.moment import Moment
from store.verbs.backup.restore import RestoreOptions, RestoreReport, restore_backup
from store.verbs.backup.selection import Selection
from store.verbs.backup.verify import verify_files
from store.verbs.check.check import check_files
from store.verbs.fingerprint import fingerprint_files
from tests.support.stores import SMALL, Clock, text_message

Messages = dict[tuple[str, int, int], bytes]


def back_up(
    store: Path,
    to: Path,
    *,
    compresses: bool = False,
    fs: Filesystem | None = None,
    target_fs: Filesystem | None = None,
    clock: Callable[[], int] = clock_ms,
    **options: Any,
) -> Manifest:
    """One more backup in the folder."""
    folder = BackupFolder(to, target_fs or Filesystem(), compresses=compresses)
    return create_backup(store, folder, CreateOptions(**options), fs or Filesystem(), clock)


def restore(
    folder: Path,
    root: Path,
    backup: str | None = None,
    fs: Filesystem | None = None,
    *,
    topics: Sequence[str] = (),
    bump: int = 0,
    settings: Mapping[str, object] = MappingProxyType({}),
    **moment: int,
) -> RestoreReport:
    """A new store of a backup, the newest by default."""
    files = BackupFiles(str(folder))
    return restore_backup(
        files,
        files.find(backup),
        root,
        fs or Filesystem(),
        selection=Selection(Moment(**moment), topics, bump),
        clock=lambda: 1_900_000_000_000,
        options=RestoreOptions(settings),
    )


def messages_of(root: Path | str) -> Messages:
    """The body of every message that the queues give, by topic, queue id and queue offset."""
    found = {}
    with open_store(root) as store:
        for queue in store.queues():
            for message in store.messages(queue.topic, queue.queue_id):
                found[queue.topic, queue.queue_id, message.queue_offset] = message.body
    return found


def next_offsets(root: Path) -> dict[tuple[str, int], int]:
    with open_store(root) as store:
        return {(queue.topic, queue.queue_id): queue.max_offset for queue in store.queues() if queue.max_offset}


def findings_of(root: Path) -> list[str]:
    return [one.kind for one in check_files(StoreReader(str(root)))]


def fingerprint(root: Path) -> str:
    return fingerprint_files(StoreReader(str(root)))[1]


def faults_in(folder: Path) -> list[tuple[str, str]]:
    """File and fault of everything that is wrong with the bytes of backups."""
    files = BackupFiles(str(folder))
    return [(one.file.rpartition(".")[0], one.fault) for one in verify_files(files, files.manifests())]


def stored(folder: Path) -> set[str]:
    """The stored files, by their paths."""
    return {str(one.relative_to(folder)) for part in ("log", "tables") for one in (folder / part).rglob("*.*")}


def put_more(root: Path, count: int, start: int = 1000) -> None:
    with open_store(root, settings=SMALL, read_only=False, clock=Clock(1_800_000_000_000)) as store:
        for number in range(start, start + count):
            assert store.put(text_message(number)).is_ok
