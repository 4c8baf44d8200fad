"""GroupCommitService: one fdatasync for all waiting messages (flushDiskType SYNC_FLUSH).

    put threads    join the next group, and wait for its answer                 kernels/commit_groups.py
    this service   takes the group, flushes until its last byte is durable or a flush moves nothing, answers it

CommitGroups.flush_file flushes usual groups one after another, without the interpreter's lock between them. The
service's own steps, in Python, are for other cases: a new segment, a file system with an fdatasync of its own,
uncompiled kernels, a shortened file, a lost page.

While the device works, the next group gathers. A flush covers all bytes appended before it. The service also flushes
all waiting bytes every GROUP_INTERVAL_MS.

A flush covers one segment. The broker makes at most two flushes per request. So it answers FLUSH_DISK_TIMEOUT to
messages more than a segment past the flushed position. Here flushes continue as long as they move, and PUT_OK means
durable.

The broker completes late requests from a watcher thread. Here the waiting thread watches for itself: its wait ends at
the deadline with FLUSH_DISK_TIMEOUT. So no thread that puts ever syncs by itself: a hanging device would block it.

After a failed flush every request fails with the error. A later fdatasync is no answer: it would succeed, because the
kernel has already dropped the dirty pages.

Source: CommitLog.GroupCommitService, GroupCommitRequest and FlushDiskWatcher, 4.9.8.
"""

from __future__ import annotations

import time

from store.engine.live.service import ServiceThread, note_flushed
from store.errors import StoreClosed, StoreError
from store.files.mapped_file_queue import MappedFileQueue
from store.kernels import CommitGroups
from store.kernels.commit_groups import CLOSED, DURABLE, FAILED
from store.opened.checkpoint import StoreCheckpoint

GROUP_INTERVAL_MS = 10
LAST_GATHERING_SECONDS = 0.01


class GroupCommitService(ServiceThread):
    """Flushes `segments` for the groups, and sets the time of the last durable message in `checkpoint`."""

    def __init__(self, segments: MappedFileQueue, checkpoint: StoreCheckpoint) -> None:
        super().__init__(GROUP_INTERVAL_MS)
        self._segments = segments
        self._checkpoint = checkpoint
        self._groups = CommitGroups()
        self._flush_error: Exception | None = None
        """The error of the last flush that failed."""

    def flush_to(self, next_offset: int, timeout_ms: int) -> bool:
        """Wait until everything before `next_offset` is durable; False if the time is over first."""
        answer = self._groups.wait(next_offset, timeout_ms)
        if answer == CLOSED:
            raise StoreClosed("the store is closed")
        if answer == FAILED and self._flush_error is not None:
            raise self._flush_error.with_traceback(None)
        return answer == DURABLE

    def sleep(self) -> None:
        """Wait for a group until the interval is over or a wake-up comes."""
        self._groups.sleep(GROUP_INTERVAL_MS)

    def _ring(self) -> None:
        self._groups.ring()

    def work(self) -> None:
        next_offset = self._groups.take()
        if next_offset < 0:
            # This flushes messages without a waiting producer; as in the broker, the checkpoint stays.
            self._segments.flush(0)
            return
        try:
            while not self._flush_group(next_offset):
                pass
        except Exception as error:
            self._flush_error = error
            self._groups.fail()
            raise
        note_flushed(self._segments, self._checkpoint)

    def last_work(self) -> None:
        """Flush for the requests that were under way when the store began to close."""
        time.sleep(LAST_GATHERING_SECONDS)
        self._groups.close()
        self._guarded(self.work)
        while self._groups.take() >= 0:
            self._guarded(self.work)

    def _flush_group(self, next_offset: int) -> bool:
        """Flush and answer the group that ends at `next_offset`; False if it is to be tried again."""
        try:
            if not self._segments.flush_groups(self._groups):
                unmoved = 0
                while self._segments.flushed_where < next_offset and unmoved < 2:
                    unmoved = unmoved + 1 if self._segments.flush(0) else 0
                self._groups.answer(self._segments.flushed_where)
        except StoreError as error:
            if not self._waits_for_next_try(error):
                raise
            return False
        return True
