"""SlaveLog and HAClient: a store that is written to, filled by its master instead of by puts.

    HAClient    a thread with a Receiver that follows the master, over lost connections too
    SlaveLog    what the Receiver appends to: the segments that dispatch reads from

Only verified, whole records are appended, so dispatch never meets half a one.

Source: HAService.HAClient, CommitLog.appendData (4.9.8).
"""

from __future__ import annotations

import threading

import numpy as np

from store.engine.ha.link import Address
from store.engine.ha.receive import ReceiveOptions, Receiver
from store.engine.ha.segment_start import require_segment_start
from store.errors import Diverged, LinkLost, ReplicationError, StoreError
from store.structures.commitlog.commit_log import CommitLog


class SlaveLog:
    """The log of an opened store, at whose end a master's bytes are appended."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._segments = log.segments
        self.segment_size = log.segments.file_size
        self.is_size_assumed = False
        self.first = max(0, log.min_offset)
        self.end = self.durable = max(self.first, log.max_offset)

    @property
    def is_empty(self) -> bool:
        return self.end <= self.first

    def begin(self, log_offset: int) -> None:
        """Let an empty log begin at `log_offset`."""
        require_segment_start(log_offset, self.segment_size)
        self.first = self.end = self.durable = log_offset

    def correct_segment_size(self, size: int) -> None:
        """Refuse another segment size than the store's."""
        if size != self.segment_size:
            raise ReplicationError(f"the master's segments have {size} bytes", code="segment-size")

    def require_same(self, log_offset: int, data: memoryview) -> None:
        """Raise Diverged unless the log holds `data` at `log_offset`."""
        while len(data):
            part = data[: self.segment_size - log_offset % self.segment_size]
            held = self._log.read(log_offset, len(part))
            if held is None or not np.array_equal(np.frombuffer(held, np.uint8), np.frombuffer(part, np.uint8)):
                raise Diverged("the slave holds other bytes than the master", offset=log_offset)
            log_offset += len(part)
            data = data[len(part) :]

    def append(self, log_offset: int, data: memoryview) -> None:
        """Append `data`, across no segment's end."""
        assert log_offset == self.end, (log_offset, self.end)
        self._segments.last_file(log_offset).append(data)
        self.end += len(data)

    def sync(self) -> None:
        """Make everything durable that was appended."""
        while self._segments.flushed_where < self.end and not self._segments.flush(0):
            pass
        self.durable = self.end


class HAClient:
    """Follows the master at `address` from start() to stop(); `failure` says why it ended by itself."""

    def __init__(self, log: CommitLog, address: Address) -> None:
        self.failure: StoreError | None = None
        self.lost: list[StoreError] = []
        """The newest 100 connections that were lost."""
        self._stopping = threading.Event()
        options = ReceiveOptions(follow=True, should_stop=self._should_stop, on_lost=self._note_lost)
        self._receiver = Receiver(address, SlaveLog(log), options)
        self._thread = threading.Thread(target=self._run, name="HAClient")

    def start(self) -> None:
        """Begin to copy."""
        self._thread.start()

    def stop(self) -> None:
        """Return when everything received is durable."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _should_stop(self) -> bool:
        # A program that ends without closing its store must not hang.
        return self._stopping.is_set() or not threading.main_thread().is_alive()

    def _note_lost(self, error: StoreError) -> None:
        self.lost = [*self.lost[-99:], error]

    def _run(self) -> None:
        try:
            self._receiver.run()
        except LinkLost as error:
            if not self._stopping.is_set():
                self.failure = error
        except StoreError as error:
            self.failure = error
