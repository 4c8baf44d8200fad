"""CommitGroups: threads that wait until bytes are durable, in groups, and one that flushes for them.

    wait         joins the gathering group, and waits at its gate
    take         the flushing thread takes that group, and a new one gathers
    answer       sets the durable end of the log, and opens the gate of the taken group
    fail         the same after a failed flush
    flush_file   does all that for one file, group after group

    gate    a lock: the flushing thread releases it once, and each thread that passes releases it for the next
    bell    a lock that is released to wake the flushing thread

A thread joins with the log offset after its bytes, when they are written. So a flush that begins after `take` covers
the group. Only bytes up to the group's last offset count as durable then.

Compiled (commit_groups.pxd), `flush_file` syncs group after group without the GIL. So a sync begins as soon as the one
before ends, and the threads of one group put again while the next group is synced. Uncompiled, it leaves every group to
the caller.
"""

from __future__ import annotations

import threading

DURABLE, NOT_DURABLE, FAILED, CLOSED = range(4)
"""Outcomes of a wait. NOT_DURABLE: the time is over, or the flush did not reach the thread's offset."""


class _Group:
    """Threads that wait for a flush up to `next_offset`, the last of their offsets; -1 without members."""

    __slots__ = ("gate", "is_failed", "next_offset")

    def __init__(self) -> None:
        self.next_offset = -1
        self.is_failed = False
        self.gate = threading.Lock()
        self.gate.acquire()


class CommitGroups:
    """The gathering group, and the taken group that is being flushed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bell = threading.Lock()
        self._bell.acquire()
        self._gathering = _Group()
        self._taken: _Group | None = None
        self._flushed = -1
        self.waiting_count = 0
        """Number of waiting threads."""
        self._is_closed = False
        self._is_rung = False
        self._is_asleep = False

    # For threads that wait.

    def wait(self, next_offset: int, timeout_ms: int) -> int:
        """Wait for a flush up to `next_offset`; return DURABLE, NOT_DURABLE, FAILED or CLOSED."""
        with self._lock:
            if self._is_closed:
                return CLOSED
            self.waiting_count += 1
            group = self._gathering
            group.next_offset = max(group.next_offset, next_offset)
        try:
            self._wake()
            if group.gate.acquire(timeout=min(max(timeout_ms, 0) / 1000, threading.TIMEOUT_MAX)):
                group.gate.release()
        finally:
            with self._lock:
                self.waiting_count -= 1
                is_durable = self._flushed >= next_offset
        if group.is_failed:
            return FAILED
        return DURABLE if is_durable else NOT_DURABLE

    def close(self) -> None:
        """Let no more threads join."""
        with self._lock:
            self._is_closed = True

    def ring(self) -> None:
        """End the flushing thread's sleep, or its next one."""
        with self._lock:
            self._is_rung = True
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            was_asleep, self._is_asleep = self._is_asleep, False
        if was_asleep:
            self._bell.release()

    # For the flushing thread.

    def sleep(self, timeout_ms: int) -> None:
        """Return when there is a group to flush, the bell rings, or the time is over."""
        with self._lock:
            self._is_asleep = not (self._is_rung or self._has_group())
            is_awake = not self._is_asleep
        if not is_awake and not self._bell.acquire(timeout=timeout_ms / 1000):
            with self._lock:
                is_ringing, self._is_asleep = not self._is_asleep, False
            if is_ringing:
                self._bell.acquire()
        self._is_rung = False

    def _has_group(self) -> bool:
        return self._taken is not None or self._gathering.next_offset >= 0

    def take(self) -> int:
        """Take the gathering group, unless one is taken; return its last offset, -1 without members."""
        with self._lock:
            if self._taken is None:
                if self._gathering.next_offset < 0:
                    return -1
                self._taken, self._gathering = self._gathering, _Group()
            return self._taken.next_offset

    def answer(self, flushed_where: int) -> None:
        """Open the taken group's gate: the log is durable up to `flushed_where`."""
        with self._lock:
            self._flushed = max(self._flushed, flushed_where)
        self._open(is_failed=False)

    def fail(self) -> None:
        """Open the taken group's gate: the flush has failed."""
        self._open(is_failed=True)

    def _open(self, *, is_failed: bool) -> None:
        with self._lock:
            group, self._taken = self._taken, None
            if group is not None:
                group.is_failed = is_failed
        if group is not None:
            group.gate.release()

    def flush_file(
        self, descriptor: int, size: int, flushed_where: int, file_end: int, limit_ms: int
    ) -> tuple[int, int, int, int]:
        """Sync a file for group after group; return gates opened, syncs, durable end, and errno or 0.

        size      bytes of the file; a shorter one is left to the caller
        file_end  log offset after the file; a group that needs more is left to the caller

        Return after `limit_ms`, or when no group has come for a millisecond. Also return, with the gate shut, if the
        caller must flush the group itself or a sync has failed.
        """
        return 0, 0, flushed_where, 0
