"""WritableStore: a store for puts.

    put → CommitLog (a record) → Dispatcher (a run of records) → ConsumeQueueStore (20 bytes) and IndexService (keys)

    1. refuse: the store is closed, a service failed, a flag is set, the log is held too long
    2. append the record                                                    commitlog/commit_log.py
    3. wait for disk and slaves, as settings and message require

The threads in store/engine/live/services.py dispatch and flush the record.

Source: DefaultMessageStore (4.9.8).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from store.errors import StoreClosed
from store.formats.given import check_call, check_flag
from store.formats.message import Message
from store.formats.properties import says_no_wait
from store.formats.run import Int64Array, Stretch
from store.opened.index_view import IndexView
from store.opened.opened_store import OpenedStore
from store.reading.message_store import MessageStore
from store.reading.stores import LiveStore
from store.structures.commitlog.bulk import MessageColumns, PutManyResult
from store.structures.commitlog.bulk_put import put_many, put_many_replayed
from store.structures.commitlog.commit_log import CommitLog
from store.structures.commitlog.put_result import PutResult, PutStatus
from store.structures.get_result import GetResult, MessageFilter
from store.structures.index.index_service import IndexService

if TYPE_CHECKING:
    from store.engine.live.arrivals import MessageArrivingListener
    from store.engine.live.running_flags import RunningFlags
    from store.engine.live.services import StoreServices


class WritableStore(MessageStore, LiveStore):
    """A store that messages can be put into; its services run until close()."""

    def __init__(self, opened: OpenedStore, services: StoreServices) -> None:
        super().__init__(opened)
        self.opening_findings: list[str] = []
        """Damage and disorder met while opening, as sentences for people."""
        # The compacted copies do not follow the puts of this process.
        self._copies = opened, []
        # This process is the only writer, so this log is never replaced.
        self._log: CommitLog = opened.commit_log
        self._clock = opened.clock
        self._services = services
        self.notes += services.notes
        sync = opened.config.puts_wait_for_disk
        self._group_commit = services.group_commit if sync else None
        self._flushed_by = services.woken_by_puts
        self._ha = services.ha if services.ha.is_waited_for else None
        self._waits = self._flushed_by is not None or self._ha is not None
        self._sync_timeout_ms = opened.config.sync_flush_timeout

    @property
    def flags(self) -> RunningFlags:
        """The bits that say whether the store can be read and written; they may be set and cleared."""
        return self._services.flags

    @property
    def flush_count(self) -> int:
        """The number of flushes of the log so far."""
        return self._log.segments.flush_count

    def add_listener(self, listener: MessageArrivingListener) -> None:
        """Call `listener` for every later message, once it can be got."""
        check_call("arriving of listener", getattr(listener, "arriving", None))
        self._services.arrivals.add(listener)

    def get(
        self, topic: str, queue_id: int, offset: int, max_count: int = 32, message_filter: MessageFilter | None = None
    ) -> GetResult:
        """Make one broker call, as a MessageStore does; StoreClosed while NOT_READABLE is set."""
        if not self.flags.is_readable:
            raise StoreClosed("the store's flag NOT_READABLE is set", file=self.layout.root)
        return super().get(topic, queue_id, offset, max_count, message_filter)

    def _index(self, opened: OpenedStore) -> IndexService:
        """Return the index files; if none are written, a view of the database and the log at this moment."""
        config, log = opened.config, opened.log
        if config.writes_index_files or not config.message_index_enable:
            return opened.index
        view = self._index_view
        stretch = Stretch(max(log.min_offset, 0), log.max_offset)
        view.show(log.segments.files, stretch, opened.scan_rules(check_crc=False), verify=False, indexed=True)
        return view

    @cached_property
    def _index_view(self) -> IndexView:
        opened = self.opened
        config, tags = opened.config, opened.line.indexes_tags
        view = IndexView(opened.layout, config, opened.fs, opened.clock, lambda text: None, with_tags=tags)
        view.load()
        return view

    def describe_findings(self) -> list[str]:
        """Return damage and disorder met so far, as sentences for people; complete after close()."""
        return self.opening_findings + self._services.describe_findings()

    def put(self, message: Message) -> PutResult:
        """Append one message. With SYNC_FLUSH it returns when the message is durable, or FLUSH_DISK_TIMEOUT.

        >>> import tempfile
        >>> from store import Message, open_store
        >>> with open_store(f"{tempfile.mkdtemp()}/store", read_only=False) as store:
        ...     first = store.put(Message.of("Orders", "hello", tags="paid"))
        ...     second = store.put(Message.of("Orders", b"", queue_id=1))
        >>> first.status.name, first.queue_offset, second.log_offset == first.size
        ('PUT_OK', 0, True)

        A message that cannot be put raises nothing: `status` and `reason` of the result have the cause.
        """
        services = self._services
        if not self._open or services.refusal or self._log.locked_since_ms:
            refusal = self._refusal()
            if refusal is not None:
                return refusal
        result = self._log.put(message)
        return self._after_put(result) if self._waits else result

    def put_replayed(
        self, message: Message, *, as_stored: bool = True, store_timestamp_ms: int | None = None, waits: bool = True
    ) -> PutResult:
        """Append a message of another store, with its former store time if one is given.

        as_stored  whether the message is not delayed again, and keeps a port that no client decodes
        waits      whether to wait for disk and slaves, as settings and message require

        Call it from one thread: a concurrent put may get the same store time.
        """
        check_flag("as_stored", as_stored)
        check_flag("waits", waits)
        refusal = self._refusal()
        if refusal is not None:
            return refusal
        result = self._log.put_replayed(message, as_stored=as_stored, store_timestamp_ms=store_timestamp_ms)
        if waits:
            return self._after_put(result)
        if self._flushed_by is not None:
            self._flushed_by.wakeup()
        return result

    def put_batch(self, messages: Sequence[Message]) -> PutResult:
        """Append messages of one queue together: all of them, or none."""
        refusal = self._refusal()
        if refusal is not None:
            return refusal
        return self._after_put(self._log.put_batch(messages))

    def put_many(self, messages: MessageColumns | Sequence[Message]) -> PutManyResult:
        """Append messages, fastest as columns; with SYNC_FLUSH it returns when all of them are durable."""
        refusal = self._refusal()
        if refusal is not None:
            return PutManyResult.all_refused(len(messages), refusal)
        columns = MessageColumns.of(messages)
        return self._after_put_many(columns, put_many(self._log, columns))

    def put_many_replayed(
        self, messages: MessageColumns, *, as_stored: bool = True, store_timestamps_ms: Int64Array | None = None
    ) -> PutManyResult:
        """Append columns of messages of another store, each like put_replayed.

        Call it from one thread: a concurrent put may get the same store time.
        """
        check_flag("as_stored", as_stored)
        refusal = self._refusal()
        if refusal is not None:
            return PutManyResult.all_refused(len(messages), refusal)
        result = put_many_replayed(self._log, messages, as_stored=as_stored, store_timestamps_ms=store_timestamps_ms)
        return self._after_put_many(messages, result)

    def _after_put_many(self, messages: MessageColumns, result: PutManyResult) -> PutManyResult:
        waiting = messages.waits_for_flush() & (result.log_offsets >= 0) if self._waits else None
        self._flush_many(result, waiting)
        if self._ha is not None and waiting is not None and waiting.any():
            status = self._ha.replicate(int((result.log_offsets + result.sizes)[waiting].max()))
            result.status = result.status if status is PutStatus.PUT_OK else status
        return result

    def _refusal(self) -> PutResult | None:
        """Return why puts are refused now, None if they are not (DefaultMessageStore.checkStoreStatus)."""
        services = self._services
        if not self._open:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason="the store is closed")
        services.raise_failure()
        if services.refusal:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=services.refusal)
        since_ms = self._log.locked_since_ms
        if since_ms and self._clock() - since_ms > self.config.os_page_cache_busy_time_out_mills:
            return PutResult(PutStatus.OS_PAGECACHE_BUSY, reason="another put has held the log for too long")
        return None

    def _after_put(self, result: PutResult) -> PutResult:
        """Wait for disk and slaves, if required (submitFlushRequest, submitReplicaRequest)."""
        if not result.is_ok:
            return result
        flushed = self._after_flush(result)
        if self._ha is None or (result.message is not None and says_no_wait(result.message.properties)):
            return flushed
        status = self._ha.replicate(result.log_offset + result.size)
        # As in the broker, a slave's failure hides a failure of the disk.
        return flushed if status is PutStatus.PUT_OK else result._replace(status=status)

    def _after_flush(self, result: PutResult) -> PutResult:
        if self._group_commit is None or (result.message is not None and says_no_wait(result.message.properties)):
            if self._flushed_by is not None:
                self._flushed_by.wakeup()
            return result
        if self._group_commit.flush_to(result.log_offset + result.size, self._sync_timeout_ms):
            return result
        return result._replace(status=PutStatus.FLUSH_DISK_TIMEOUT)

    def _flush_many(self, result: PutManyResult, waiting: npt.NDArray[np.bool_] | None) -> None:
        """Wait for the flush of the `waiting` messages; the time limit is per segment."""
        if self._group_commit is None or waiting is None or not waiting.any():
            if self._flushed_by is not None:
                self._flushed_by.wakeup()
            return
        first, end = int(result.log_offsets[waiting].min()), int((result.log_offsets + result.sizes)[waiting].max())
        segment_size = self.config.mapped_file_size_commit_log
        segment_count = (end - 1) // segment_size - first // segment_size + 1
        if not self._group_commit.flush_to(end, self._sync_timeout_ms * segment_count):
            result.status = PutStatus.FLUSH_DISK_TIMEOUT

    def catch_up(self) -> None:
        """Wait until everything put so far is in queues and index."""
        self._services.catch_up()

    def flush(self) -> int:
        """Make everything put so far durable, with queues and index; return the log's durable end.

        >>> import tempfile
        >>> from store import Message, open_store
        >>> with open_store(f"{tempfile.mkdtemp()}/store", read_only=False) as store:
        ...     result = store.put(Message.of("Orders", "hello"))
        ...     store.flush() == result.log_offset + result.size
        True
        """
        self._require_open()
        self.catch_up()
        return self._services.flush()

    def refresh(self) -> None:
        """Wait until readers see everything put so far."""
        self._require_open()
        self.catch_up()

    def close(self) -> None:
        """Make everything durable and release the store. Closing twice is fine."""
        if self._open:
            self._open = False
            try:
                self._services.stop()
            finally:
                self._current.close()
