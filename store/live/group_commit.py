"""GroupCommitService: one fdatasync for all messages that wait at the moment (flushDiskType SYNC_FLUSH).

    put threads    put_request ->  write list          wait() until the service releases the request
    service        swaps write list and read list,
                   for each request: flush at most twice until flushed_where >= next_offset,
                   answers all of them

While the device works, the interpreter is free and the next group gathers in the write list. A flush covers whatever
was appended before it, so one usually serves a whole list.

The broker completes late requests from a watcher thread. Here the waiting thread is its own watcher: its wait ends
at the deadline with FLUSH_DISK_TIMEOUT, and a late answer is ignored.

After a failed flush every request fails with the error. It must not be answered by a later fdatasync, which would
succeed because the kernel has already given the dirty pages up.

Source: CommitLog.GroupCommitService, GroupCommitRequest and FlushDiskWatcher, 4.9.8.
"""

from __future__ import annotations

import threading
import time
from enum import StrEnum

from store.errors import StoreClosed
from store.live.service import Checkpoint, LogQueue, ServiceThread, note_flushed

FLUSHES_PER_REQUEST = 2
GROUP_INTERVAL_MS = 10
LAST_GATHERING_SECONDS = 0.01


class FlushStatus(StrEnum):
    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"


class GroupCommitRequest:
    """One message waiting to be durable up to `next_offset` (the log offset behind it)."""

    __slots__ = ("_answered", "_deadline", "_failure", "_status", "next_offset")

    def __init__(self, next_offset: int, timeout_ms: int) -> None:
        self.next_offset = next_offset
        self._deadline = time.monotonic() + timeout_ms / 1000
        self._status: FlushStatus | None = None
        self._failure: BaseException | None = None
        # A bare lock, taken by its maker and released by the answer: the cheapest way to wait once.
        self._answered = threading.Lock()
        self._answered.acquire()

    def wait(self) -> FlushStatus:
        """PUT_OK, or FLUSH_DISK_TIMEOUT; raises what the flush raised."""
        if self._status is None and not self._answered.acquire(timeout=max(0.0, self._deadline - time.monotonic())):
            self._status = FlushStatus.FLUSH_DISK_TIMEOUT
        if self._failure is not None:
            raise self._failure
        return self._status or FlushStatus.FLUSH_DISK_TIMEOUT

    def answer(self, status: FlushStatus, failure: BaseException | None = None) -> None:
        """Only the first answer counts."""
        if self._status is None:
            self._failure = failure
            self._status = status
            self._answered.release()


class GroupCommitService(ServiceThread):
    """Flushes `queue` for the requests given to it, and tells `checkpoint` the time up to which all is durable."""

    def __init__(self, queue: LogQueue, checkpoint: Checkpoint) -> None:
        super().__init__(GROUP_INTERVAL_MS)
        self._queue = queue
        self._checkpoint = checkpoint
        self._list_lock = threading.Lock()
        self._write_list: list[GroupCommitRequest] = []
        self._closed = False

    def put_request(self, request: GroupCommitRequest) -> None:
        """Gives the request to the next group; StoreClosed once there will be none."""
        with self._list_lock:
            if self._closed:
                raise StoreClosed("the store is closed")
            self._write_list.append(request)
        self.wakeup()

    def flush_to(self, next_offset: int, timeout_ms: int) -> FlushStatus:
        """Waits until everything before `next_offset` is durable, or the time is over."""
        request = GroupCommitRequest(next_offset, timeout_ms)
        self.put_request(request)
        return request.wait()

    def work(self) -> None:
        read_list = self._swap()
        if not read_list:
            # Messages that nobody waits for are flushed in passing; the checkpoint is left as it is, like the broker's.
            self._queue.flush(0)
            return
        try:
            for request in read_list:
                request.answer(self._flush_for(request))
            note_flushed(self._queue, self._checkpoint)
        except Exception as error:
            for request in read_list:
                request.answer(FlushStatus.FLUSH_DISK_TIMEOUT, error)
            raise

    def last_work(self) -> None:
        """Requests that were under way when the store began to close still get their answer."""
        time.sleep(LAST_GATHERING_SECONDS)
        with self._list_lock:
            self._closed = True
        self.work()

    def _swap(self) -> list[GroupCommitRequest]:
        with self._list_lock:
            read_list, self._write_list = self._write_list, []
        return read_list

    def _flush_for(self, request: GroupCommitRequest) -> FlushStatus:
        for _ in range(FLUSHES_PER_REQUEST):
            if self._queue.flushed_where >= request.next_offset:
                break
            self._queue.flush(0)
        done = self._queue.flushed_where >= request.next_offset
        return FlushStatus.PUT_OK if done else FlushStatus.FLUSH_DISK_TIMEOUT
