"""SlaveLog and HAClient: a store that is written to, filled by its master instead of by puts.

    HAClient          a thread with a Receiver that follows the master, and connects again after a lost connection
    SlaveLog          the log of the Receiver: the segments that dispatch reads
    find_torn_record  the first record that a power cut tore, by the master's bytes

Only verified, whole records are appended, so dispatch never meets a part of a record. A power cut may leave zeros in
unsynced bytes; in the heads of records no CRC shows them. So an opening compares the log's end with the master, and
truncates the log at such a record before dispatch begins.

Source: HAService.HAClient, CommitLog.appendData (4.9.8).
"""

from __future__ import annotations

import threading

import numpy as np

from store.engine.ha.link import CONNECT_TIMEOUT_S, Address
from store.engine.ha.receive import ReceiveOptions, Receiver
from store.engine.ha.segment_start import require_segment_start
from store.engine.ha.unwritten import ByteArray, unwritten
from store.errors import Diverged, LinkLost, ReplicationError, StoreError
from store.formats.run import Run
from store.structures.commitlog.readable_log import ReadableLog
from store.threads import Worker

TORN = "torn"
"""The code of a difference that a power cut explains."""


class SlaveLog:
    """The log of an opened store, at whose end a master's bytes are appended."""

    def __init__(self, log: ReadableLog) -> None:
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
        """Raise Diverged unless the log holds `data` at `log_offset`.

        Where a power cut left zeros, its code is TORN and its offset the record's start.
        """
        while len(data):
            part = data[: self.segment_size - log_offset % self.segment_size]
            held = self._log.read(log_offset, len(part))
            if held is None:
                raise _diverged(log_offset)
            self._require_same(log_offset, np.frombuffer(held, np.uint8), np.frombuffer(part, np.uint8))
            log_offset += len(part)
            data = data[len(part) :]

    def _require_same(self, log_offset: int, held: ByteArray, wanted: ByteArray) -> None:
        differs = held != wanted
        if not differs.any():
            return
        others = differs & ~unwritten(held, log_offset % self.segment_size)
        if others.any():
            raise _diverged(log_offset + int(np.argmax(others)))
        raise Diverged(
            "a power cut tore this record",
            offset=self._record_around(log_offset + int(np.argmax(differs))),
            hint="close the store and open it while its master answers: it is fetched again then",
            code=TORN,
        )

    def _record_around(self, log_offset: int) -> int:
        """Return the start of the record or blank that holds `log_offset`."""
        start = log_offset - log_offset % self.segment_size
        for step in self._log.scan(start):
            if not isinstance(step, Run) or step.start > log_offset:
                break
            if step.end > log_offset:
                return int(step.log_offsets[np.searchsorted(step.log_offsets, log_offset, "right") - 1])
            start = step.end
        return start

    def append(self, log_offset: int, data: memoryview) -> None:
        """Append `data`, across no segment's end."""
        assert log_offset == self.end, (log_offset, self.end)
        self._segments.last_file(log_offset).append(data)
        self.end += len(data)

    def sync(self) -> None:
        """Make all appended bytes durable."""
        while self._segments.flushed_where < self.end and not self._segments.flush(0):
            pass
        self.durable = self.end


class _ComparedLog(SlaveLog):
    """The log of a store that is being opened: it is compared with the master's, and stays as it is."""

    def __init__(self, log: ReadableLog) -> None:
        super().__init__(log)
        self.is_compared = False

    def append(self, log_offset: int, data: memoryview) -> None:
        """Do nothing: only bytes before the end are compared."""

    def sync(self) -> None:
        """Do nothing, as nothing was appended."""

    def require_same(self, log_offset: int, data: memoryview) -> None:
        super().require_same(log_offset, data)
        self.is_compared = log_offset + len(data) >= self.end


def find_torn_record(log: ReadableLog, address: Address) -> int | None:
    """Return the start of the first torn record near a log's end; None without one, or without an answer.

    Other errors of the connection are left to the client.
    """
    compared = _ComparedLog(log)
    if compared.is_empty:
        return None
    options = ReceiveOptions(observe=True, stall_s=CONNECT_TIMEOUT_S, should_stop=lambda: compared.is_compared)
    try:
        Receiver(address, compared, options).run()
    except StoreError as error:
        return error.offset if error.code == TORN else None
    return None


def _diverged(log_offset: int) -> Diverged:
    return Diverged("the slave holds other bytes than the master", offset=log_offset)


class HAClient:
    """A client that follows the master at `address` from start() to stop(), unless a `failure` ends it."""

    def __init__(self, log: ReadableLog, address: Address) -> None:
        self.failure: StoreError | None = None
        self.lost: list[StoreError] = []
        """The errors of the last 100 lost connections."""
        self._stopping = threading.Event()
        options = ReceiveOptions(follow=True, should_stop=self._should_stop, on_lost=self._note_lost)
        self._receiver = Receiver(address, SlaveLog(log), options)
        self._thread = Worker(self._run, "HAClient")

    def start(self) -> None:
        """Begin to copy."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and return once everything received is durable."""
        self._stopping.set()
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
