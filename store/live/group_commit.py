"""GroupCommitService: one fdatasync for all waiting messages (flushDiskType SYNC_FLUSH).

    put threads    join the group that gathers, wake the service, wait at the group's gate
    service        takes the group, flushes until its last byte is durable or a flush moves nothing, opens the gate
    gate           a lock: the service releases it once, each thread that comes through releases it for the next

While the device works, the interpreter is free and the next group gathers. A flush covers whatever was appended before
it. One release per group, not one per message, leaves the service free to begin the next flush at once.

A flush covers one segment. The broker makes at most two per request, so it answers FLUSH_DISK_TIMEOUT to messages more
than a segment behind the flushed place. Here flushes go on as long as they move, and PUT_OK means durable.

The broker completes late requests from a watcher thread. Here the waiting thread is its own watcher: its wait ends
at the deadline with FLUSH_DISK_TIMEOUT.

After a failed flush every request fails with the error. It must not be answered by a later fdatasync, which would
succeed because the kernel has already given the dirty pages up.

Source: CommitLog.GroupCommitService, GroupCommitRequest and FlushDiskWatcher, 4.9.8.
"""

from __future__ import annotations

import threading
import time

from store.disk.mapped_file_queue import MappedFileQueue
from store.errors import StoreClosed
from store.live.service import ServiceThread, note_flushed
from store.opened.checkpoint import StoreCheckpoint

GROUP_INTERVAL_MS = 10
LAST_GATHERING_SECONDS = 0.01


class CommitGroup:
    """Messages that wait for one flush: up to `next_offset`, the log offset behind the last of them."""

    __slots__ = ("failure", "gate", "next_offset")

    def __init__(self) -> None:
        self.next_offset = -1
        self.failure: BaseException | None = None
        self.gate = threading.Lock()
        self.gate.acquire()

    @property
    def is_empty(self) -> bool:
        return self.next_offset < 0

    def wait(self, timeout_ms: int) -> None:
        """Returns when the gate is open or the time is over; raises the flush's error."""
        if self.gate.acquire(timeout=timeout_ms / 1000):
            self.gate.release()
        if self.failure is not None:
            raise self.failure


class GroupCommitService(ServiceThread):
    """Flushes `segments` for the groups, and gives `checkpoint` the time of the last durable message."""

    def __init__(self, segments: MappedFileQueue, checkpoint: StoreCheckpoint) -> None:
        super().__init__(GROUP_INTERVAL_MS)
        self._segments = segments
        self._checkpoint = checkpoint
        self._group_lock = threading.Lock()
        self._group = CommitGroup()
        self._closed = False

    def join(self, next_offset: int) -> CommitGroup:
        """Join the group that gathers; StoreClosed when no group will be flushed any more."""
        with self._group_lock:
            if self._closed:
                raise StoreClosed("the store is closed")
            group = self._group
            if next_offset > group.next_offset:
                group.next_offset = next_offset
        self.wakeup()
        return group

    def flush_to(self, next_offset: int, timeout_ms: int) -> bool:
        """Wait until everything before `next_offset` is durable; False when the time is over first."""
        self.join(next_offset).wait(timeout_ms)
        return self._segments.flushed_where >= next_offset

    def work(self) -> None:
        group = self._take()
        if group.is_empty:
            # Messages without a waiting producer are flushed in passing; like the broker's, the checkpoint stays.
            self._segments.flush(0)
            return
        try:
            self._flush_for(group)
            note_flushed(self._segments, self._checkpoint)
        except Exception as error:
            group.failure = error
            raise
        finally:
            group.gate.release()

    def last_work(self) -> None:
        """Flush for the requests that were under way when the store began to close."""
        time.sleep(LAST_GATHERING_SECONDS)
        with self._group_lock:
            self._closed = True
        self.work()

    def _take(self) -> CommitGroup:
        with self._group_lock:
            group, self._group = self._group, CommitGroup()
        return group

    def _flush_for(self, group: CommitGroup) -> None:
        unmoved = 0
        while self._segments.flushed_where < group.next_offset and unmoved < 2:
            unmoved = unmoved + 1 if self._segments.flush(0) else 0
