"""GroupCommitService: one fdatasync for all waiting messages (flushDiskType SYNC_FLUSH).

    put threads    join the group that gathers, wait at the group's gate
    leader         flushes until the group's last byte is durable or a flush moves nothing, opens the gate
    gate           a lock: the leader releases it once, each thread that comes through releases it for the next

While several threads put, the leader is the first thread that joined: it waits for the flush before, then flushes
itself. That saves handing the interpreter over to another thread and back. A thread that puts alone wakes the service,
which leads then; so it gets its answer in time from a device that hangs, where a leader waits with the device. The
service also flushes every GROUP_INTERVAL_MS whatever waits, so no group depends on its leader.

While the device works, the interpreter is free and the next group gathers. A flush covers whatever was appended before
it. One release per group, not one per message, leaves the leader free to end at once.

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
from functools import partial

from store.disk.mapped_file_queue import MappedFileQueue
from store.errors import StoreClosed
from store.live.service import ServiceThread, note_flushed
from store.opened.checkpoint import StoreCheckpoint

GROUP_INTERVAL_MS = 10
LAST_GATHERING_SECONDS = 0.01


class CommitGroup:
    """Messages that wait for one flush: up to `next_offset`, the log offset behind the last of them.

    is_flushed  the gate is open, or about to be
    """

    __slots__ = ("failure", "gate", "is_flushed", "message_count", "next_offset")

    def __init__(self) -> None:
        self.next_offset = -1
        self.message_count = 0
        self.is_flushed = False
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
        self._flushing = threading.Lock()
        """Held by the leader of the group that is flushed."""
        self._has_company = False
        """Whether the last group had several messages, so that threads lead."""
        self._closed = False

    def join(self, next_offset: int) -> CommitGroup:
        """Join the group that gathers; StoreClosed when no group will be flushed any more."""
        group, _ = self._join(next_offset)
        self.wakeup()
        return group

    def flush_to(self, next_offset: int, timeout_ms: int) -> bool:
        """Wait until everything before `next_offset` is durable; False when the time is over first."""
        group, is_first = self._join(next_offset)
        if is_first and self._has_company:
            self._lead(group, timeout_ms)
        else:
            if is_first:
                self.wakeup()
            group.wait(timeout_ms)
        return self._segments.flushed_where >= next_offset

    def _join(self, next_offset: int) -> tuple[CommitGroup, bool]:
        """Join the group that gathers; tells whether it was empty."""
        with self._group_lock:
            if self._closed:
                raise StoreClosed("the store is closed")
            group = self._group
            is_first = group.is_empty
            group.message_count += 1
            if next_offset > group.next_offset:
                group.next_offset = next_offset
        return group, is_first

    def _lead(self, group: CommitGroup, timeout_ms: int) -> None:
        """Flush for a group in the thread that joined it first, when the flush before is over."""
        if self._flushing.acquire(timeout=timeout_ms / 1000):
            try:
                self._guarded(partial(self._commit, group))
            finally:
                self._flushing.release()
        if group.failure is not None:
            raise group.failure

    def work(self) -> None:
        with self._flushing:
            group = self._group
            if group.is_empty:
                # Messages without a waiting producer are flushed in passing; like the broker's, the checkpoint stays.
                self._segments.flush(0)
            else:
                self._commit(group)

    def last_work(self) -> None:
        """Flush for the requests that were under way when the store began to close."""
        time.sleep(LAST_GATHERING_SECONDS)
        with self._group_lock:
            self._closed = True
        self.work()

    def _commit(self, group: CommitGroup) -> None:
        """Flush for a group and open its gate; nothing is left to do where another thread was first."""
        if group.is_flushed:
            return
        with self._group_lock:
            self._group = CommitGroup()
        self._has_company = group.message_count > 1
        try:
            self._flush_for(group)
            note_flushed(self._segments, self._checkpoint)
        except Exception as error:
            group.failure = error
            raise
        finally:
            group.is_flushed = True
            group.gate.release()

    def _flush_for(self, group: CommitGroup) -> None:
        unmoved = 0
        while self._segments.flushed_where < group.next_offset and unmoved < 2:
            unmoved = unmoved + 1 if self._segments.flush(0) else 0
