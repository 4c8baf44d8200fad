"""Opening a store, for reading or for writing.

For writing: take the lock; refuse after an unclean exit unless told to recover; plan and apply the recovery; start the
services; leave the abort marker. MessageStore.close undoes that in the broker's order.

For reading nothing is written and no lock is taken. What is missing or behind is built in a scratch folder; a store
that was not shut down is shown as it will be after recovery, unless a live broker holds it or `as_is` is asked for.

Source: DefaultMessageStore.load, start (4.9.8).
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store.change.change import Change
from store.change.quarantine import interrupted_change
from store.change.workspace import staging_folder
from store.commitlog.resync import has_bytes_behind
from store.commitlog.scan import Damage
from store.config import BrokerLine, StoreConfig, broker_line
from store.disk.allocate import AllocateMappedFileService
from store.disk.filesystem import Filesystem
from store.disk.lock import StoreLock, is_locked
from store.disk.overlay import Overlay
from store.disk.transient_pool import TransientStorePool
from store.errors import StoreIOError, UncleanStore
from store.layout import StoreLayout
from store.live.services import StoreServices
from store.message_store import MessageStore
from store.opened.detect import (
    detect_line,
    infer_config,
    is_absent_or_empty,
    make_layout,
    require_store,
)
from store.opened.opened_store import OpenedStore, load_store
from store.recovery.plan import plan_recovery
from store.recovery.recover import Progress, recover_store, view_as_it_is


def system_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def open_store(
    root: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    read_only: bool = True,
    clock: Callable[[], int] = system_clock_ms,
    recover: bool = False,
    compat: str | None = None,
    as_is: bool = False,
    fs: Filesystem | None = None,
    progress: Progress | None = None,
) -> MessageStore:
    """Opens the store at `root`; use it as a context manager, or close() it.

    settings   RocketMQ names to values; what is not given is read off the files, then the broker's defaults
    read_only  write nothing, take no lock; otherwise create the store if the folder is absent or empty
    clock      milliseconds for store times and index file names
    recover    when writing: recover after an unclean exit instead of refusing
    compat     the broker line to follow, "4.9" or "5.3"; by default the one whose traces the store shows
    as_is      when reading: show an unclean store's queues as they lie there, without recovering in a scratch folder

    Raises NotAStore, UnsupportedFormat, StoreLocked, UncleanStore, DamagedFile, StoreIOError.
    """
    line = broker_line(compat) if compat is not None else None
    settings = settings or {}
    opener = _Opener(make_layout(Path(root), settings), settings, fs or Filesystem(), clock, line, progress)
    return opener.for_reading(as_is) if read_only else opener.for_writing(recover)


@dataclass(frozen=True, slots=True)
class _Opener:
    """What both ways of opening need."""

    layout: StoreLayout
    settings: Mapping[str, Any]
    fs: Filesystem
    clock: Callable[[], int]
    line: BrokerLine | None
    progress: Progress | None

    def for_reading(self, as_is: bool) -> MessageStore:
        require_store(self.layout, self.fs)
        scratch = tempfile.TemporaryDirectory(prefix="rmqctl-", ignore_cleanup_errors=True)
        opened = self._load(overlay=Overlay(Path(scratch.name)))
        store = MessageStore(opened, scratch=scratch, reopen=lambda: self.for_reading(as_is=True))
        is_live = is_locked(self.layout.lock, self.fs)
        if opened.abort.exists() and not is_live and not as_is:
            found = recover_store(opened, mode="abnormal", keep_index=True, progress=self.progress)
            store.notes.append(
                f"the last owner did not shut down; this is the store as recovery will leave it "
                f"(the log ends at {found.log_end})"
            )
        else:
            found = view_as_it_is(opened)
            if found.dispatched_count:
                store.notes.append(
                    f"queues and index are {found.dispatched_count} messages behind the log; "
                    "what they lack was built in a scratch folder"
                )
        if isinstance(found.end.outcome, Damage) and not is_live:
            store.notes.append(f"the log ends at {found.log_end} because of {found.end.describe()}")
        return store

    def for_writing(self, recover: bool) -> MessageStore:
        if is_absent_or_empty(self.layout, self.fs):
            self.fs.make_folder(self.layout.root)
            for folder in self.layout.writable_commitlogs:
                self.fs.make_folder(folder)
        else:
            require_store(self.layout, self.fs)
        lock = StoreLock(self.layout.lock, self.fs)
        lock.acquire()
        try:
            return self._with_lock(lock, recover)
        except BaseException:
            lock.release()
            raise

    def _with_lock(self, lock: StoreLock, recover: bool) -> MessageStore:
        require_no_interrupted_change(self.layout, self.fs)
        if self.fs.exists(self.layout.abort) and not recover:
            raise UncleanStore(
                "the last owner did not shut down",
                file=self.layout.abort,
                hint="run `rmqctl recover --abnormal` first (with --dry-run to see what it does), or give --recover",
            )
        with self._staged() as staged:
            config = staged.config
            change = plan_recovery(staged, progress=self.progress)
            log_end = int(change.facts["valid_end"])
            change_id = change.apply()
        pool = _transient_pool(config)
        allocate = AllocateMappedFileService(self.fs, warm=config.warm_maped_file_enable, transient_pool=pool)
        # The sizes found before the recovery: it may have taken away the files that told them.
        opened = self._load(config, writable=True, allocate=allocate, transient_pool=pool)
        _set_positions(opened, log_end)
        services = StoreServices(opened, lock, allocate, pool)
        services.start()
        store = MessageStore(opened, services)
        store.notes += _what_opening_cut(change, change_id, self.layout.commitlogs)
        return store

    @contextlib.contextmanager
    def _staged(self) -> Iterator[OpenedStore]:
        """The parts with an overlay beside the store, so that publishing is a rename."""
        folder = staging_folder(self.layout.root, f"open-{self.clock()}")
        opened = self._load(overlay=Overlay(folder))
        try:
            yield opened
        finally:
            opened.close()
            self.fs.remove_tree(folder)

    def _load(self, config: StoreConfig | None = None, **options: Any) -> OpenedStore:
        config = config or infer_config(self.layout, self.settings, self.fs)
        line = self.line or detect_line(self.layout, self.fs)
        return load_store(self.layout, config, self.fs, self.clock, line=line, **options)


def _what_opening_cut(change: Change, change_id: str | None, commitlogs: Sequence[Path]) -> list[str]:
    """A broker that starts on a damaged log cuts it and says so in a line of its own log; here the user is told."""
    if not change.lost or not any(action.path.parent in commitlogs for action in change.actions):
        return []
    cut = f"the log was cut at {change.facts['valid_end']} because of {change.facts['stopped_by']}"
    return [f"{cut}; {sum(change.lost.values())} messages behind it are kept in the quarantine as {change_id}"]


def _set_positions(opened: OpenedStore, log_end: int) -> None:
    """Puts every part where the recovery found its end (DefaultMessageStore.recoverTopicQueueTable)."""
    files = opened.log.segments
    files.truncate_dirty_files(log_end)
    files.flushed_where = files.committed_where = log_end
    last = files.last
    if last is not None and has_bytes_behind(last, log_end - last.file_start, opened.fs):
        opened.log.stale_segment = last.file_start
    opened.queues.recover()
    if files.files:
        opened.queues.truncate_dirty(log_end)
    opened.queues.correct_min_offsets(opened.log.min_offset)
    for queue in opened.queues:
        opened.log.set_queue_offset(queue.topic, queue.queue_id, queue.max_offset)


def require_no_interrupted_change(layout: StoreLayout, fs: Filesystem) -> None:
    """StoreIOError when a crash left a change half done."""
    change_id = interrupted_change(layout.root, fs)
    if change_id is not None:
        raise StoreIOError(
            f"the change {change_id} was interrupted", file=layout.own, hint=f"run `rmqctl undo {change_id}` first"
        )


def _transient_pool(config: StoreConfig) -> TransientStorePool | None:
    if not config.uses_transient_pool:
        return None
    return TransientStorePool(config.transient_store_pool_size, config.mapped_file_size_commit_log)
