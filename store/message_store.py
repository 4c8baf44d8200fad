"""MessageStore: one store, opened. put, get, query; the parts know the bytes.

How a message travels:

    put → CommitLog (a record) → Dispatcher (a run of records) → ConsumeQueueStore (20 bytes) and IndexService (keys)
    get → ConsumeQueue (where the record is) → CommitLog (the record)
    query → IndexService (log offsets) → CommitLog (the records, compared with the key)

Opening for writing: take the lock; refuse after an unclean exit unless told to recover; plan and apply the recovery;
start the services; leave the abort marker. Closing undoes that in the broker's order: allocate, dispatch, flush,
checkpoint, abort marker, lock.

Opening read-only writes nothing and takes no lock. What is missing or behind is built in a scratch folder; a store
that was not shut down is shown as it will be after recovery, unless a live broker holds it or `as_is` is asked for.

Source: DefaultMessageStore (4.9.8).
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from store.change import interrupted_change, staging_folder
from store.commitlog.bulk import MessageColumns, PutManyResult
from store.commitlog.commit_log import CommitLog, PutResult, PutStatus
from store.config import StoreConfig
from store.consumequeue.consume_queue import ConsumeQueue
from store.disk.allocate import AllocateMappedFileService
from store.disk.filesystem import Filesystem
from store.disk.lock import StoreLock, is_locked
from store.disk.overlay import Overlay
from store.disk.transient_pool import TransientStorePool
from store.dispatch.dispatcher import Dispatcher, Handler, ReputMessageService
from store.errors import BadRequest, DamagedRecord, StoreClosed, StoreError, StoreIOError, UncleanStore
from store.flush.commit_real_time import CommitRealTimeService
from store.flush.flush_consume_queue import FlushConsumeQueueService
from store.flush.flush_real_time import FlushRealTimeService
from store.flush.group_commit import FlushStatus, GroupCommitService
from store.flush.service import ServiceThread
from store.formats.message import Message, StoredMessage
from store.formats.properties import WAIT, decode_properties
from store.get_message import GetResult, GetStatus, MessageFilter, get_message
from store.layout import StoreLayout
from store.opening import (
    detect_compat,
    infer_config,
    is_absent_or_empty,
    make_layout,
    require_compat,
    require_store,
)
from store.recovery import Progress, plan_recovery, recover_parts, scan_rules, view_as_it_is
from store.store_parts import StoreParts, open_parts

QUERY_ROUNDS = 3
DISK_CHECK_INTERVAL_MS = 10_000
END_OF_TIME_MS = (1 << 63) - 1
_WAIT_MARK = WAIT.encode()


def system_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class QueryResult:
    """Messages for a key, oldest first, and the index files that were looked into (names)."""

    messages: list[StoredMessage] = field(default_factory=list)
    index_files: list[str] = field(default_factory=list)
    last_update_timestamp_ms: int = 0
    last_update_log_offset: int = 0


@dataclass(frozen=True, slots=True)
class QueueState:
    """One consume queue: its first and next queue offset, and the log offset up to which it is built."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    max_physic_offset: int


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
    fs = fs or Filesystem()
    layout = make_layout(Path(root), settings or {})
    if compat is not None:
        require_compat(compat)
    if read_only:
        return _open_for_reading(layout, settings or {}, fs, clock, compat, as_is, progress)
    return _open_for_writing(layout, settings or {}, fs, clock, compat, recover, progress)


class MessageStore:
    """One opened store. All methods may be called from several threads."""

    def __init__(self, parts: StoreParts, services: _Services | None = None, scratch: Any = None) -> None:
        self.layout: StoreLayout = parts.layout
        self.config: StoreConfig = parts.config
        self.notes: list[str] = []
        """What a reader should know about how this view came about."""
        self._parts = parts
        self._log: CommitLog = parts.log
        self._services = services
        self._scratch = scratch
        self._open = True
        sync = parts.config.flush_disk_type == "SYNC_FLUSH" and services is not None
        self._group_commit = services.group_commit if sync and services is not None else None
        self._sync_timeout_ms = parts.config.sync_flush_timeout

    def __enter__(self) -> MessageStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Writing.

    def put(self, message: Message) -> PutResult:
        """Appends one message. With SYNC_FLUSH it returns when the message is durable, or FLUSH_DISK_TIMEOUT."""
        services = self._services
        if services is None or not self._open or services.refusal or self._log.locked_since_ms:
            refusal = self._refusal()
            if refusal is not None:
                return refusal
        result = self._log.put(message)
        if self._group_commit is not None:
            return self._wait_for_flush(self._group_commit, message, result)
        return result

    def put_batch(self, messages: Sequence[Message]) -> PutResult:
        """Appends messages of one queue together: all of them, or none."""
        refusal = self._refusal()
        if refusal is not None:
            return refusal
        result = self._log.put_batch(messages)
        if self._group_commit is not None and result.is_ok:
            return self._wait_for_flush(self._group_commit, messages[0], result)
        return result

    def put_many(self, messages: MessageColumns) -> PutManyResult:
        """Appends columns of messages; with SYNC_FLUSH it returns when all of them are durable."""
        refusal = self._refusal()
        if refusal is not None:
            raise StoreClosed(refusal.reason, file=self.layout.root)
        result = self._log.put_many(messages)
        if self._group_commit is not None and result.end >= 0:
            status = self._group_commit.flush_to(result.end, self._sync_timeout_ms)
            if status is not FlushStatus.PUT_OK:
                raise StoreIOError("the flush took longer than syncFlushTimeout", file=self.layout.commitlog)
        return result

    def _refusal(self) -> PutResult | None:
        """Why nothing can be put now, None if it can (DefaultMessageStore.checkStoreStatus)."""
        services = self._services
        if services is None:
            raise BadRequest("the store was opened for reading", file=self.layout.root)
        if not self._open:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason="the store is closed")
        services.raise_failure()
        if services.refusal:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=services.refusal)
        since_ms = self._log.locked_since_ms
        if since_ms and self._parts.clock() - since_ms > self.config.os_page_cache_busy_time_out_mills:
            return PutResult(PutStatus.OS_PAGECACHE_BUSY, reason="another put has held the log for too long")
        return None

    def _wait_for_flush(self, group_commit: GroupCommitService, message: Message, result: PutResult) -> PutResult:
        if not result.is_ok or _does_not_wait(message):
            return result
        status = group_commit.flush_to(result.log_offset + result.size, self._sync_timeout_ms)
        if status is FlushStatus.PUT_OK:
            return result
        return result._replace(status=PutStatus.FLUSH_DISK_TIMEOUT)

    def catch_up(self) -> None:
        """Returns when everything put so far is in queues and index."""
        if self._services is not None:
            self._services.catch_up()

    # Reading.

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int = 32,
        message_filter: MessageFilter | None = None,
    ) -> GetResult:
        """One broker call: messages of one queue from a queue offset on."""
        self._require_open()
        if max_count < 1:
            raise BadRequest(f"a get needs a positive count, not {max_count}")
        queue = self._parts.queues.find(topic, queue_id)
        return get_message(self._log, queue, offset, max_count, self.config, message_filter)

    def lookup(self, log_offset: int, size: int | None = None) -> StoredMessage | None:
        """The message at a log offset, None where the log has none. DamagedRecord where the bytes are no record."""
        self._require_open()
        if not 0 <= log_offset < self._log.max_offset:
            return None
        return self._log.lookup(log_offset, size)

    def query(
        self,
        topic: str,
        key: str,
        max_count: int = 32,
        begin_ms: int = 0,
        end_ms: int = END_OF_TIME_MS,
        *,
        verify: bool = True,
    ) -> QueryResult:
        """Messages by key, as DefaultMessageStore.queryMessage finds them; `verify` drops hash collisions."""
        self._require_open()
        result = QueryResult()
        last_ms = end_ms
        for _ in range(QUERY_ROUNDS):
            found = self._parts.index.query(topic, key, max_count, begin_ms, last_ms)
            result.index_files = [path.name for path in found.files]
            if not found.log_offsets:
                break
            result.last_update_timestamp_ms = found.last_update_timestamp_ms
            result.last_update_log_offset = found.last_update_log_offset
            messages = [message for at in sorted(found.log_offsets) if (message := self._at_hit(at)) is not None]
            if messages:
                last_ms = messages[0].store_timestamp_ms
            result.messages = [one for one in messages if not verify or _has_key(one, topic, key)]
            if result.messages or last_ms < begin_ms:
                break
        return result

    def _at_hit(self, log_offset: int) -> StoredMessage | None:
        """The message an index entry points to, None for an entry that points nowhere."""
        try:
            return self.lookup(log_offset)
        except DamagedRecord:
            return None

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int) -> int:
        """Queue offset for a store time; 0 for an unknown queue."""
        queue = self._parts.queues.find(topic, queue_id)
        if queue is None:
            return 0
        return queue.offset_by_time(time_ms, self._log.store_timestamp, self._log.min_offset, self._parts.compat)

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Store time of a queue's first message, -1 without one."""
        queue = self._parts.queues.find(topic, queue_id)
        unit = queue.unit(queue.min_offset) if queue is not None else None
        return self._log.store_timestamp(unit.log_offset, unit.size) if unit is not None else -1

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset of a queue's first message; 0 for an unknown queue."""
        queue = self._parts.queues.find(topic, queue_id)
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset that a queue's next message gets; 0 for an unknown queue."""
        queue = self._parts.queues.find(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def queues(self) -> list[QueueState]:
        """Every queue, by topic and queue id."""
        return sorted((_state(queue) for queue in self._parts.queues), key=lambda one: (one.topic, one.queue_id))

    @property
    def min_log_offset(self) -> int:
        return self._log.min_offset

    @property
    def max_log_offset(self) -> int:
        return self._log.max_offset

    @property
    def checkpoint(self) -> Any:
        return self._parts.checkpoint

    @property
    def parts(self) -> StoreParts:
        """The parts, for checks and tools that look deeper."""
        return self._parts

    def locate(self, log_offset: int) -> tuple[Path, int]:
        """The segment file and the position in it of a log offset; BadRequest where the log has no such byte."""
        file = self._log.files.find_by_offset(log_offset)
        if file is None:
            raise BadRequest(f"log offset {log_offset} lies in no segment", file=self.layout.commitlog)
        return file.path, log_offset - file.file_start

    def refresh(self) -> None:
        """Takes in what another process wrote since a read-only store was opened."""
        if self._services is not None:
            self.catch_up()
            return
        fresh = _open_for_reading(
            self.layout, self._settings, self._parts.fs, self._parts.clock, self._parts.compat, True, None
        )
        old_parts, old_scratch = self._parts, self._scratch
        self._parts, self._scratch, self._log = fresh._parts, fresh._scratch, fresh._log
        _close_scratch(old_parts, old_scratch)

    _settings: Mapping[str, Any] = {}

    # Ending.

    def close(self) -> None:
        """Makes everything durable and gives the store back. Closing twice is fine."""
        if not self._open:
            return
        self._open = False
        if self._services is not None:
            self._services.stop()
        _close_scratch(self._parts, self._scratch)

    def _require_open(self) -> None:
        if not self._open:
            raise StoreClosed("the store is closed", file=self.layout.root)


class _Services:
    """The threads of a store that is written to, and the order in which they start and stop."""

    def __init__(
        self, parts: StoreParts, lock: StoreLock, allocate: AllocateMappedFileService, pool: TransientStorePool | None
    ) -> None:
        config, files = parts.config, parts.log.files
        self.refusal = "the broker role is SLAVE" if config.broker_role == "SLAVE" else ""
        """Why puts are refused, empty while they are not."""
        self._parts = parts
        self._lock = lock
        self._allocate = allocate
        self._pool = pool
        handlers: list[Handler] = [parts.queues, *([parts.index] if config.message_index_enable else [])]
        rules = scan_rules(parts, check_crc=False)
        self._reput = ReputMessageService(Dispatcher(parts.log, handlers, parts.log.max_offset, rules))
        self.group_commit = GroupCommitService(files, parts.checkpoint)
        self._flush_log = FlushRealTimeService(
            files,
            parts.checkpoint,
            interval_ms=config.flush_interval_commit_log,
            least_pages=config.flush_commit_log_least_pages,
            thorough_ms=config.flush_commit_log_thorough_interval,
            timed=config.flush_commit_log_timed,
        )
        self._commit_log = CommitRealTimeService(
            files,
            self._flush_log,
            interval_ms=config.commit_interval_commit_log,
            least_pages=config.commit_commit_log_least_pages,
            thorough_ms=config.commit_commit_log_thorough_interval,
        )
        self._flush_queues = FlushConsumeQueueService(
            lambda: parts.queues,
            parts.checkpoint,
            interval_ms=config.flush_interval_consume_queue,
            least_pages=config.flush_consume_queue_least_pages,
            thorough_ms=config.flush_consume_queue_thorough_interval,
        )
        self._disk_check = _DiskCheckService(self)
        self._running: list[Any] = []

    def check_disk(self) -> None:
        """Refuses puts while the log's partition is nearly full (CleanCommitLogService.isSpaceFull)."""
        config = self._parts.config
        used = self._parts.fs.used_ratio(self._parts.layout.commitlog)
        is_full = used > config.disk_space_warning_level_ratio / 100
        if config.broker_role != "SLAVE":
            self.refusal = f"the disk is {used:.0%} full" if is_full else ""

    def start(self) -> None:
        """The broker's order, with the abort marker last."""
        is_sync = self._parts.config.flush_disk_type == "SYNC_FLUSH"
        self._running = [self._reput, self.group_commit if is_sync else self._flush_log, self._flush_queues]
        if self._pool is not None:
            self._running.insert(1, self._commit_log)
        self._running.append(self._disk_check)
        for service in self._running:
            service.start()
        self._parts.abort.create()

    def catch_up(self) -> None:
        while self._reput.dispatcher.behind_bytes > 0 and self._reput.failure is None:
            time.sleep(0.001)
        self.raise_failure()

    def raise_failure(self) -> None:
        """StoreClosed, naming what a background service died of."""
        for service in self._running:
            if service.failure is not None:
                self.refusal = f"{type(service).__name__} has failed"
                if isinstance(service.failure, StoreError):
                    raise service.failure
                raise StoreClosed(f"{type(service).__name__} failed: {service.failure!r}") from service.failure

    def stop(self) -> None:
        """After this everything is durable; the abort marker goes only if that is true."""
        parts = self._parts
        self._allocate.stop()
        with contextlib.ExitStack() as at_end:
            at_end.callback(self._lock.release)
            # Bytes in lent buffers become readable by a commit, so that comes before the last dispatch.
            if self._pool is not None:
                self._commit_log.stop()
            self._reput.stop()
            for service in (self._disk_check, self._flush_log, self.group_commit, self._flush_queues):
                service.stop()
            self.raise_failure()
            while not parts.log.files.flush(0):
                pass
            parts.index.flush()
            if parts.queues.last_store_timestamp_ms:
                parts.checkpoint.logics_ms = parts.queues.last_store_timestamp_ms
            if parts.log.files.store_timestamp_ms:
                parts.checkpoint.physic_ms = parts.log.files.store_timestamp_ms
            parts.checkpoint.flush()
            if self._reput.dispatcher.behind_bytes <= 0:
                parts.abort.remove()
        if self._pool is not None:
            self._pool.destroy()


class _DiskCheckService(ServiceThread):
    """Looks every ten seconds whether the disk has room for puts, and whether a service has died."""

    def __init__(self, services: _Services) -> None:
        super().__init__(DISK_CHECK_INTERVAL_MS)
        self._services = services

    def work(self) -> None:
        self._services.check_disk()


# Opening.


def _open_for_reading(
    layout: StoreLayout,
    settings: Mapping[str, Any],
    fs: Filesystem,
    clock: Callable[[], int],
    compat: str | None,
    as_is: bool,
    progress: Progress | None,
) -> MessageStore:
    require_store(layout, fs)
    config = infer_config(layout, settings, fs)
    compat = compat or detect_compat(layout, fs)
    scratch = tempfile.TemporaryDirectory(prefix="rmqctl-", ignore_cleanup_errors=True)
    overlay = Overlay(Path(scratch.name), sparse=True)
    parts = open_parts(layout, config, fs, clock, compat=compat, overlay=overlay)
    store = MessageStore(parts, scratch=scratch)
    store._settings = settings
    is_live = is_locked(layout.lock, fs)
    if parts.abort.exists() and not is_live and not as_is:
        found = recover_parts(parts, mode="abnormal", keep_index=True, progress=progress)
        store.notes.append(
            f"the last owner did not shut down; this is the store as recovery will leave it "
            f"(the log ends at {found.log_end})"
        )
    else:
        found = view_as_it_is(parts)
        if found.dispatched_count:
            store.notes.append(
                f"queues and index are {found.dispatched_count} messages behind the log; "
                "what they lack was built in a scratch folder"
            )
    return store


def _open_for_writing(
    layout: StoreLayout,
    settings: Mapping[str, Any],
    fs: Filesystem,
    clock: Callable[[], int],
    compat: str | None,
    recover: bool,
    progress: Progress | None,
) -> MessageStore:
    if is_absent_or_empty(layout, fs):
        fs.make_folder(layout.root)
        fs.make_folder(layout.commitlog)
    else:
        require_store(layout, fs)
    lock = StoreLock(layout.lock, fs)
    lock.acquire()
    try:
        return _open_locked(layout, settings, fs, clock, compat, recover, progress, lock)
    except BaseException:
        lock.release()
        raise


def _open_locked(
    layout: StoreLayout,
    settings: Mapping[str, Any],
    fs: Filesystem,
    clock: Callable[[], int],
    compat: str | None,
    recover: bool,
    progress: Progress | None,
    lock: StoreLock,
) -> MessageStore:
    require_no_interrupted_change(layout, fs)
    config = infer_config(layout, settings, fs)
    compat = compat or detect_compat(layout, fs)
    if fs.exists(layout.abort) and not recover:
        raise UncleanStore(
            "the last owner did not shut down",
            file=layout.abort,
            hint="run `rmqctl recover --abnormal` first (with --dry-run to see what it does), or give --recover",
        )
    with _staged_parts(layout, config, fs, clock, compat) as plan_parts:
        change = plan_recovery(plan_parts, progress=progress)
        log_end = int(change.facts["valid_end"])
        change.apply()
    pool = _transient_pool(config)
    allocate = AllocateMappedFileService(fs, warm=config.warm_maped_file_enable, transient_pool=pool)
    parts = open_parts(
        layout, config, fs, clock, compat=compat, writable=True, allocate=allocate, transient_pool=pool
    )
    _set_positions(parts, log_end)
    services = _Services(parts, lock, allocate, pool)
    services.start()
    store = MessageStore(parts, services)
    store._settings = settings
    return store


def _set_positions(parts: StoreParts, log_end: int) -> None:
    """Puts every part where the recovery found its end (DefaultMessageStore.recoverTopicQueueTable)."""
    files = parts.log.files
    files.truncate_dirty_files(log_end)
    files.flushed_where = files.committed_where = log_end
    parts.queues.recover()
    if files.files:
        parts.queues.truncate_dirty(log_end)
    parts.queues.correct_min_offsets(parts.log.min_offset)
    for queue in parts.queues:
        parts.log.set_queue_offset(queue.topic, queue.queue_id, queue.max_offset)


@contextlib.contextmanager
def _staged_parts(
    layout: StoreLayout, config: StoreConfig, fs: Filesystem, clock: Callable[[], int], compat: str
) -> Iterator[StoreParts]:
    """The parts with an overlay beside the store, so that publishing is a rename."""
    overlay = Overlay(staging_folder(layout.root, f"open-{clock()}"), sparse=False)
    parts = open_parts(layout, config, fs, clock, compat=compat, overlay=overlay)
    try:
        yield parts
    finally:
        parts.close()


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


def _close_scratch(parts: StoreParts, scratch: Any) -> None:
    parts.close()
    if scratch is not None:
        scratch.cleanup()


def _state(queue: ConsumeQueue) -> QueueState:
    return QueueState(queue.topic, queue.queue_id, queue.min_offset, queue.max_offset, queue.max_physic_offset)


def _does_not_wait(message: Message) -> bool:
    """A producer may say WAIT=false: do not wait for the disk."""
    return _WAIT_MARK in message.properties and decode_properties(message.properties).get(WAIT) == "false"


def _has_key(message: StoredMessage, topic: str, key: str) -> bool:
    return message.topic == topic and (key == message.uniq_key or key in message.keys)


__all__ = ["GetStatus", "MessageStore", "QueryResult", "QueueState", "open_store"]
