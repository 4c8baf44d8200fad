"""Opening a store, for reading or for writing.

For writing: take the lock; refuse after an unclean exit unless asked to recover; plan and apply the recovery; start the
services; leave the abort marker. MessageStore.close undoes that in the broker's order.

For reading nothing is written and no lock is taken. What is missing or behind is built in a scratch folder; a store
that was not shut down is shown as it will be after recovery, unless a live broker holds it or `as_is` is asked for.

Source: DefaultMessageStore.load, start (4.9.8).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast, overload

from store.change.change import Change
from store.commitlog.resync import has_bytes_behind
from store.config import StoreConfig
from store.consumequeue.consume_queue_store import QueueKey
from store.consumequeue.resting import RestingQueue
from store.disk.allocate import AllocateMappedFileService
from store.disk.filesystem import Filesystem
from store.disk.lock import StoreLock, is_locked
from store.disk.overlay import Overlay
from store.disk.transient_pool import TransientStorePool
from store.errors import BadRequest, UncleanStore
from store.ha.link import Address
from store.layout import StoreLayout
from store.message_store import MessageStore, WritableStore
from store.opened.detect import (
    FoundStore,
    find_store,
    is_absent_or_empty,
    make_layout,
    refuse_unchangeable,
    refuse_wrong_queue_types,
    require_store,
)
from store.opened.opened_store import OpenedStore, system_clock_ms
from store.opened.reach import reach_store
from store.opened.scratch import Scratch
from store.opened.staged import staging
from store.opened.verified import remember_verified
from store.recovery.view import show_view

if TYPE_CHECKING:
    from store.live.services import StoreServices
    from store.recovery.recover import Progress
    from store.services.served_store import ServedStore


class OpenOptions(TypedDict, total=False):
    """Options of open_store besides the folder and whether to write."""

    settings: Mapping[str, Any] | None
    clock: Callable[[], int]
    recover: bool
    compat: str | None
    as_is: bool
    fs: Filesystem | None
    scratch: str | Path | None
    note: Callable[[str], None] | None
    force_empty_log: bool
    progress: Progress | None
    listen: str | None
    master: str | None


@overload
def open_store(
    root: str | Path, *, read_only: Literal[True] = True, **options: Unpack[OpenOptions]
) -> MessageStore: ...


@overload
def open_store(
    root: str | Path, *, read_only: Literal[False], services: Collection[str], **options: Unpack[OpenOptions]
) -> ServedStore: ...


@overload
def open_store(root: str | Path, *, read_only: Literal[False], **options: Unpack[OpenOptions]) -> WritableStore: ...


def open_store(
    root: str | Path,
    *,
    read_only: bool = True,
    services: Collection[str] | None = None,
    **options: Unpack[OpenOptions],
) -> MessageStore:
    """Opens the store at `root`; use it as a context manager, or close() it.

    >>> import tempfile
    >>> from store import Message, open_store
    >>> root = f"{tempfile.mkdtemp()}/store"
    >>> with open_store(root, read_only=False, settings={"flushDiskType": "SYNC_FLUSH"}) as store:
    ...     result = store.put(Message.of("Orders", "hello"))
    >>> with open_store(root) as store:
    ...     store.topics(), store.max_offset("Orders", 0)
    (['Orders'], 1)

    root       a folder, or for reading a URI that pyarrow.fs knows (s3://, gs://, hdfs://)
    read_only  write nothing, take no lock; otherwise create the store if the folder is absent or empty
    services   when writing: those of a broker that run beside it, of "schedule", "transactions", "cleaning" and
               "statistics"; without the option a store delivers, checks and deletes nothing by itself
    settings   RocketMQ names to values; what is not given is read off the files, then the broker's defaults
    clock      milliseconds for store times and index file names
    recover    when writing: recover after an unclean exit instead of refusing
    force_empty_log  when writing: go on where the commit log is empty and queues are not, which go to quarantine
    compat     the broker line to follow, "4.9" or "5.3"; by default the one whose traces the store shows
    scratch    when reading: where to make a folder for what has to be built, the temporary folder by default
    as_is      when reading: show an unclean store's queues as they are on disk, without recovering them
    note       when reading: called with each note, also with those that come up later
    progress   called with bytes done and bytes in all while the log is read
    listen     when writing: serve slaves at this HOST:PORT, as the broker's haListenPort does
    master     when writing, with the role SLAVE: follow the master at this HOST:PORT
    fs         the door to the disk, for tests

    Raises NotAStore, UnsupportedFormat, StoreLocked, UncleanStore, DamagedFile, StoreIOError.
    """
    opener = _make_opener(root, options, to_change=not read_only)
    if not read_only:
        return opener.for_writing(options.get("recover", False), services)
    if services is not None:
        raise BadRequest("services need a store that is opened for writing")
    return opener.for_reading(options.get("as_is", False))


def _make_opener(root: str | Path, options: OpenOptions, *, to_change: bool) -> _Opener:
    settings, scratch = options.get("settings") or {}, options.get("scratch")
    scratch = Path(scratch) if scratch is not None else None
    folder, fs = reach_store(root, options.get("fs"), scratch, to_change=to_change)
    return _Opener(
        make_layout(folder, settings, fs),
        settings,
        fs,
        options.get("clock", system_clock_ms),
        options.get("compat"),
        options.get("progress"),
        scratch,
        options.get("note"),
        options.get("force_empty_log", False),
        _address(options.get("listen")),
        _address(options.get("master")),
    )


@dataclass(frozen=True, slots=True)
class _Opener:
    """The common base of opening for reading and for writing."""

    layout: StoreLayout
    settings: Mapping[str, Any]
    fs: Filesystem
    clock: Callable[[], int]
    compat: str | None
    progress: Progress | None
    scratch: Path | None
    note: Callable[[str], None] | None
    force_empty_log: bool
    listen: Address | None
    master: Address | None

    def for_reading(self, as_is: bool) -> MessageStore:
        require_store(self.layout, self.fs)
        notes: list[str] = []
        store = MessageStore(self._view(as_is, notes), reopen=lambda: self._view(as_is=True, notes=[]))
        store.notes = notes
        return store

    def _view(self, as_is: bool, notes: list[str]) -> OpenedStore:
        """The store as readers see it.

        `notes` takes sentences about that for them, also of later findings.
        """

        def note(text: str) -> None:
            if text not in notes:
                notes.append(text)
                if self.note is not None:
                    self.note(text)

        scratch = Scratch(self.scratch)
        try:
            opened = OpenedStore.for_view(self._find(), self.fs, self.clock, Overlay(scratch.folder), note)
            opened.scratch = scratch
            is_live = is_locked(self.layout.lock, self.fs)
            show_view(opened, is_live=is_live, as_is=as_is, note=note, progress=self.progress)
        except BaseException:
            scratch.close()
            raise
        return opened

    def for_writing(self, recover: bool, services: Collection[str] | None) -> WritableStore:
        if is_absent_or_empty(self.layout, self.fs):
            made = self.fs.make_folder(self.layout.root)
            for folder in self.layout.writable_commitlogs:
                made += self.fs.make_folder(folder)
            for folder in made:
                self.fs.fsync_folder(folder.parent)
        else:
            require_store(self.layout, self.fs)
            refuse_unchangeable(self.layout, self.fs)
            refuse_wrong_queue_types(self.layout, self.fs)
        lock = StoreLock(self.layout.lock, self.fs)
        lock.acquire()
        try:
            return self._with_lock(lock, recover, services)
        except BaseException:
            lock.release()
            raise

    def _with_lock(self, lock: StoreLock, recover: bool, services: Collection[str] | None) -> WritableStore:
        # Readers need neither, and both take long to import.
        from store.live.services import StoreServices
        from store.reading.filter.subscription import use_bit_maps
        from store.recovery.plan import plan_recovery

        if self.fs.exists(self.layout.abort) and not recover:
            raise UncleanStore(
                "the last owner did not shut down",
                file=self.layout.abort,
                code="unclean",
            )
        # Found before the recovery: it may take away the files that tell the sizes.
        found = self._find()
        with (
            staging(self.layout, self.fs, "open", dry_run=False) as folder,
            contextlib.closing(self._load(found, overlay=Overlay(folder))) as staged,
        ):
            change = plan_recovery(staged, force_empty_log=self.force_empty_log, progress=self.progress)
            log_end, confirmed = int(change.facts["log_end"]), staged.checkpoint.confirm_log_offset
            resting = _unchanged(staged.queues.resting(), change, self.layout)
            change_id = change.apply()
        pool = _transient_pool(found.config)
        allocate = AllocateMappedFileService(self.fs, warm=found.config.warm_maped_file_enable, transient_pool=pool)
        opened = self._load(found, writable=True, allocate=allocate, transient_pool=pool, resting=resting)
        _set_positions(opened, log_end)
        if found.config.enable_calc_filter_bit_map:
            use_bit_maps(opened)
        opened.checkpoint.confirm_log_offset = confirmed
        base = StoreServices(opened, lock, allocate, pool, listen=self.listen, master=self.master)
        store = _store_with(opened, base, services)
        remember_verified(opened)
        base.start()
        if services is not None:
            _start_services(store)
        store.notes += [*change.remarks, *change.notes]
        store.notes += _what_opening_cut(change, change_id, self.layout.commitlogs)
        return store

    def _find(self) -> FoundStore:
        return find_store(self.layout, self.settings, self.fs, compat=self.compat)

    def _load(self, found: FoundStore, **options: Any) -> OpenedStore:
        return OpenedStore.load(found, self.fs, self.clock, **options)


def _store_with(opened: OpenedStore, base: StoreServices, services: Collection[str] | None) -> WritableStore:
    if services is None:
        return WritableStore(opened, base)
    from store.services.served_store import ServedStore

    return ServedStore(opened, base, services)


def _start_services(store: WritableStore) -> None:
    try:
        cast("ServedStore", store).start_services()
    except BaseException:
        # The caller gets no store to close.
        store.close()
        raise


def _address(text: str | None) -> Address | None:
    return Address.parse(text) if text is not None else None


def _what_opening_cut(change: Change, change_id: str | None, commitlogs: Sequence[Path]) -> list[str]:
    """Describes the cut of a damaged log for the user; a broker writes a line in its own log."""
    if not change.lost or not any(action.path.parent in commitlogs for action in change.actions):
        return []
    cut = f"the log was cut at {change.facts['log_end']} because of {change.facts['stopped_by']}"
    return [f"{cut}; {sum(change.lost.values())} messages behind it are kept in the quarantine as {change_id}"]


def _unchanged(
    resting: Mapping[QueueKey, RestingQueue], change: Change, layout: StoreLayout
) -> Mapping[QueueKey, RestingQueue]:
    """Leaves out the queues of topics that the change touches."""
    in_queues = [action.path for action in change.actions if action.path.is_relative_to(layout.consumequeue)]
    if layout.consumequeue in in_queues:
        return {}
    topics = {path.relative_to(layout.consumequeue).parts[0] for path in in_queues}
    return {key: queue for key, queue in resting.items() if key[0] not in topics} if topics else resting


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
    for (topic, queue_id), next_offset in opened.queues.next_offsets():
        opened.log.set_queue_offset(topic, queue_id, next_offset)


def _transient_pool(config: StoreConfig) -> TransientStorePool | None:
    if not config.uses_transient_pool:
        return None
    return TransientStorePool(config.transient_store_pool_size, config.mapped_file_size_commit_log)
