"""follow_master: a standing backup, whose log comes from the store's master by replication.

    1. create   an ordinary backup of the store's files
    2. receive  the log from its newest segment on, into a folder of its own, durable within a second
    3. grow     the backup, every few seconds and at the end; received segments that it has as files are deleted

The received log stays in the folder of backups, so that the next run continues after a kill. For an object store it is
in a scratch folder. Other writers are kept out only while the backup grows, so that a prune can run in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from store.engine.ha.link import Address
from store.engine.ha.log_copy import LogCopy
from store.engine.ha.receive import Begin, ReceiveOptions, Receiver
from store.engine.ha.switch_link import connector
from store.errors import Diverged, LinkLost, StoreError, StoreLocked
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.formats.backup_manifest import Manifest
from store.verbs.backup.create import CreateOptions, create_backup, find_backed_store
from store.verbs.backup.folder import FOLLOWING, BackupFolder
from store.verbs.backup.grow import GrowingBackup
from store.verbs.backup.target import BackupTarget

DEFAULT_EVERY_S = 10.0


@dataclass(slots=True)
class FollowOptions:
    """The options of a follower.

    should_stop     called twice a second
    every_s         seconds between two manifests
    has_controller  whether the master is a broker in controller mode
    on_created      called after step 1
    on_lost         called if a connection is lost and will be made again, and if tables can't be read
    on_grown        called after step 3 with the new manifest
    """

    should_stop: Callable[[], bool]
    create: CreateOptions = field(default_factory=CreateOptions)
    every_s: float = DEFAULT_EVERY_S
    has_controller: bool = False
    on_created: Callable[[Manifest], None] = lambda manifest: None
    on_progress: Callable[[int], None] = lambda count: None
    on_lost: Callable[[StoreError], None] = lambda error: None
    on_grown: Callable[[Manifest], None] = lambda manifest: None


def follow_master(
    root: Path, address: Address, target: BackupTarget, options: FollowOptions, fs: Filesystem, clock: Callable[[], int]
) -> Manifest:
    """Back up the store at `root` until it should stop, and return the newest backup.

    address  the HA port of the store's master

    Raises the errors of create_backup and Receiver; the backup then has everything that was received.
    """
    found = find_backed_store(root, options.create, fs)
    created = create_backup(root, target, options.create, fs, clock)
    options.on_created(created)
    begin = created.segments[-1].file_start if created.segments else 0
    with Scratch(options.create.scratch) as scratch:
        folder = Path(target.address) if isinstance(target, BackupFolder) else scratch.folder
        copy = _open_copy(folder / FOLLOWING, created, begin)
        try:
            growing = GrowingBackup(
                created, found, target, folder / FOLLOWING, scratch.folder, fs, clock, options.on_lost
            )
            _Follower(copy, growing, target, options).run(address, begin if created.segments else Begin.MIN)
        finally:
            copy.close()
        return growing.manifest


def _open_copy(folder: Path, created: Manifest, begin: int) -> LogCopy:
    """Open the received log; begin it again if `begin` is not in it."""
    fs, settings = Filesystem(), {"mappedFileSizeCommitLog": created.segment_size}
    copy = LogCopy(folder, settings, fs, compat=created.line)
    if not copy.first <= begin <= copy.end:
        copy.close()
        fs.remove_tree(folder)
        copy = LogCopy(folder, settings, fs, compat=created.line)
    copy.drop_before(begin)
    return copy


class _Follower:
    """Steps 2 and 3."""

    def __init__(self, copy: LogCopy, growing: GrowingBackup, target: BackupTarget, options: FollowOptions) -> None:
        self._copy, self._growing, self._target, self._options = copy, growing, target, options
        self._due = time.monotonic() + options.every_s

    def run(self, address: Address, begin: Begin | int) -> None:
        options = self._options
        receive = ReceiveOptions(
            begin=begin,
            follow=True,
            should_stop=self._should_stop,
            on_progress=options.on_progress,
            on_lost=options.on_lost,
            connect=connector(self._copy, has_controller=options.has_controller),
        )
        try:
            Receiver(address, self._copy, receive).run()
        except LinkLost:
            # It was stopped while there was no connection.
            if not options.should_stop():
                raise
        except Diverged as error:
            error.hint = f"delete {self._copy.root} to follow this log; the backup has what was received"
            raise
        finally:
            self._grow()

    def _should_stop(self) -> bool:
        if time.monotonic() >= self._due:
            try:
                self._grow()
            except StoreLocked as error:
                self._options.on_lost(error)
            self._due = time.monotonic() + self._options.every_s
        return self._options.should_stop()

    def _grow(self) -> None:
        with self._target.writing():
            self._growing.grow(self._copy.durable)
        self._options.on_grown(self._growing.manifest)
        self._copy.drop_before(self._growing.manifest.log_end)
