"""Receiver: pulls a live master's commit log into a store folder, as a slave would.

1. Find the beginning. An empty copy begins at the master's first, last or a given segment. A copy with bytes requests
   its last OVERLAP_BYTES again and compares them, so that a divergence is found before a byte is written. The first
   request covers all bytes that a power cut may have left unwritten.
2. A report of 0 makes a master begin at its last segment. To begin at log offset 0 of a longer log, ask from 1: the
   first byte of a record is that of its size, 0 below 16 MiB, and the record's CRC, lengths and log offset prove it.
3. Receive, verify, append. When nothing more is available, sync, then report the durable log offset.
4. Without `follow`, end when the master has sent its whole log: at a heartbeat or, if the master is written to without
   a pause, after CAUGHT_UP_AFTER_S without a full frame. A segment's last frame is never full, so at least
   CAUGHT_UP_AFTER_FRAMES are needed.

Two differences from a broker's slave: only verified bytes are appended, and a report counts only synced bytes.

Source: HAClient, HAConnection (4.9.8); DefaultHAClient (5.3.3).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from store.engine.ha.link import Address, MasterLink
from store.engine.ha.protocol import HEARTBEAT_INTERVAL_S, HOUSEKEEPING_INTERVAL_S, MOST_FRAME_BYTES, FrameHeader
from store.engine.ha.segment_start import require_segment_start
from store.engine.ha.verifier import LogVerifier
from store.errors import BadRequest, Diverged, LinkLost, ReplicationError, StoreError, is_passing

OVERLAP_BYTES = 1 << 20
VERIFY_BYTES = 2 << 20
SYNC_BYTES = 16 << 20
UNSYNCED_BYTES = SYNC_BYTES + VERIFY_BYTES + MOST_FRAME_BYTES
"""At most this is written between two syncs; a sync comes at each segment's end."""
SYNC_INTERVAL_S = 1.0
CAUGHT_UP_AFTER_S = 1.5
CAUGHT_UP_AFTER_FRAMES = 3
RECONNECT_DELAY_S = 1.0
_POLL_S = 0.5


class CopiedLog(Protocol):
    """The log that a Receiver appends to: LogCopy, or SlaveLog in an open store."""

    first: int
    end: int
    durable: int
    segment_size: int
    is_size_assumed: bool

    @property
    def is_empty(self) -> bool: ...

    def begin(self, log_offset: int) -> None: ...

    def correct_segment_size(self, size: int) -> None: ...

    def require_same(self, log_offset: int, data: memoryview) -> None: ...

    def append(self, log_offset: int, data: memoryview) -> None: ...

    def sync(self) -> None: ...


class Begin(StrEnum):
    """The beginning of an empty copy, besides a log offset."""

    MIN = "min"
    LAST_SEGMENT = "last-segment"


@dataclass(frozen=True, slots=True)
class ReceiveOptions:
    """The options of a copy.

    observe        report only the requested offset, so that the master never counts received bytes as replicated
    overlap_bytes  bytes of a former copy that are requested again
    stall_s        the time limit for a frame
    should_stop    called twice a second
    on_progress    called with the received bytes
    on_lost        called if a connection is lost and will be made again, or too many files are open
    connect        makes a connection, given `stall_s`; by default one of the protocol of 4.x
    """

    begin: Begin | int = Begin.MIN
    follow: bool = False
    observe: bool = False
    overlap_bytes: int = OVERLAP_BYTES
    stall_s: float = HOUSEKEEPING_INTERVAL_S
    reconnect_delay_s: float = RECONNECT_DELAY_S
    should_stop: Callable[[], bool] = lambda: False
    on_progress: Callable[[int], None] = lambda count: None
    on_lost: Callable[[StoreError], None] = lambda error: None
    connect: Callable[[Address, float], MasterLink] = lambda address, stall_s: MasterLink(address, stall_s=stall_s)


@dataclass(slots=True)
class ReceiveReport:
    """One run. Offsets are log offsets; `log_end` is durable."""

    log_start: int = 0
    resumed_at: int = 0
    log_end: int = 0
    received_bytes: int = 0
    compared_bytes: int = 0
    record_count: int = 0
    unfinished_bytes: int = 0
    """Bytes of an incomplete last record; they are not in the copy."""
    connection_count: int = 0
    segment_size: int = 0
    is_size_assumed: bool = False
    transfer_seconds: float = field(default=0.0)
    """Seconds until the last byte came, without the wait for the master's heartbeat."""


@dataclass(frozen=True, slots=True)
class _Opening:
    """A link with an answer from the master: `asked` was reported, `header` is the first frame's."""

    link: MasterLink
    asked: int
    header: FrameHeader


class Receiver:
    """A receiver that copies the log of the master at `address` into `copy`."""

    def __init__(self, address: Address, copy: CopiedLog, options: ReceiveOptions) -> None:
        self._address = address
        self._copy = copy
        self._options = options
        self.report = ReceiveReport()
        self._began = time.monotonic()
        self._verifier: LogVerifier | None = None

    def run(self) -> ReceiveReport:
        """Copy up to the configured end; afterwards everything received is durable."""
        copy, options = self._copy, self._options
        while True:
            try:
                self._one_connection()
                break
            except StoreError as error:
                if isinstance(error, LinkLost):
                    self._settle()
                elif not is_passing(error):
                    raise
                if not options.follow or options.should_stop():
                    raise
                options.on_lost(error)
                time.sleep(options.reconnect_delay_s)
            finally:
                copy.sync()
                self._note_ends()
        return self.report

    def _note_ends(self) -> None:
        copy, report = self._copy, self.report
        report.log_start, report.log_end = copy.first, copy.durable
        report.segment_size, report.is_size_assumed = copy.segment_size, copy.is_size_assumed
        if self._verifier is not None:
            report.record_count = self._verifier.record_count
            report.unfinished_bytes = self._verifier.pending_bytes

    @property
    def has_v2(self) -> bool:
        """Whether a record of version 2 was received."""
        return self._verifier is not None and self._verifier.has_v2

    # Beginning.

    def _one_connection(self) -> None:
        opening = self._begin_empty() if self._copy.is_empty else self._resume()
        self.report.connection_count += 1
        if opening is None:
            return
        with opening.link:
            if self._verifier is None or self._verifier.next_offset != self._copy.end:
                self._verifier = self._new_verifier()
            _Transfer(opening, self._copy, self._verifier, self._options, self.report, self._began).run()

    def _new_verifier(self) -> LogVerifier:
        copy, before = self._copy, self._verifier
        verifier = LogVerifier(copy.end, copy.segment_size, is_assumed=copy.is_size_assumed)
        if before is not None:
            verifier.record_count, verifier.has_v2 = before.record_count, before.has_v2
        elif not copy.is_empty:
            self.report.resumed_at = copy.end
        return verifier

    def _ask(self, log_offset: int) -> _Opening | None:
        """Connect and report `log_offset`; None if it is stopped before the master answers."""
        link = self._options.connect(self._address, self._options.stall_s)
        try:
            link.report(log_offset)
            header = None
            while header is None:
                header = link.next_header(_POLL_S)
                if self._options.should_stop():
                    link.close()
                    return None
            return _Opening(link, log_offset, header)
        except BaseException:
            link.close()
            raise

    def _resume(self) -> _Opening | None:
        copy, overlap = self._copy, self._options.overlap_bytes
        if self._verifier is None:
            overlap = max(overlap, min(UNSYNCED_BYTES, (copy.end - 1) % copy.segment_size + 1))
        return self._ask(max(1, copy.first, copy.end - overlap))

    def _begin_empty(self) -> _Opening | None:
        """Find the first segment of the copy, and make the master begin there."""
        opening = self._ask(0)
        if opening is None:
            return None
        last_start, begin, size = opening.header.log_offset, self._options.begin, self._copy.segment_size
        wanted = last_start
        if isinstance(begin, int):
            wanted = begin - begin % size
        elif begin is Begin.MIN and not opening.link.begins_at_first:
            wanted = 0
        if wanted == last_start:
            self._copy.begin(wanted)
            return opening
        opening.link.close()
        if not self._copy.is_size_assumed:
            require_segment_start(last_start, size)
        if begin is Begin.MIN:
            return self._ask_first_segment(last_start // size)
        found = self._ask(max(1, wanted))
        return self._begun(found, wanted)

    def _ask_first_segment(self, last: int) -> _Opening | None:
        """Begin at the master's oldest segment, found by bisection over 0 … last."""
        found, size = self._ask(1), self._copy.segment_size
        if found is None or not found.header.is_heartbeat:
            return self._begun(found, 0)
        if self._copy.is_size_assumed:
            raise BadRequest(
                "the master has no data at log offset 1, and nothing tells where its segments begin",
                code="segment-size",
            )
        found.link.close()
        absent = 0
        while last - absent > 1:
            middle = (absent + last) // 2
            found = self._ask(middle * size)
            if found is None:
                return None
            absent, last = (middle, last) if found.header.is_heartbeat else (absent, middle)
            found.link.close()
        return self._begun(self._ask(last * size), last * size)

    def _begun(self, opening: _Opening | None, log_offset: int) -> _Opening | None:
        if opening is not None:
            if opening.header.is_heartbeat:
                opening.link.close()
                raise BadRequest("the master has no data there", offset=log_offset, code="not-in-log")
            self._copy.begin(log_offset)
        return opening

    def _settle(self) -> None:
        """Append the verified bytes that came before the connection was lost."""
        if self._verifier is not None:
            _append_verified(self._verifier, self._copy)


class _Transfer:
    """The frames of one connection."""

    def __init__(
        self,
        opening: _Opening,
        copy: CopiedLog,
        verifier: LogVerifier,
        options: ReceiveOptions,
        report: ReceiveReport,
        began: float,
    ) -> None:
        self._link, self._asked = opening.link, opening.asked
        self._header: FrameHeader | None = opening.header
        self._copy, self._verifier, self._options, self._report = copy, verifier, options, report
        self._began = began
        self._next = opening.asked or opening.header.log_offset
        self._reported = opening.asked
        now = time.monotonic()
        self._synced_at = self._reported_at = self._full_at = now
        self._largest = self._small_count = 0

    def run(self) -> None:
        """Receive frames up to the end of the log, or for ever with `follow`."""
        if self._asked == 1 and self._verifier.next_offset == 0:
            # The byte at log offset 0 can't be requested: 0 is the report of an empty slave.
            self._verifier.room(1)[:] = b"\0"
            self._verifier.took(1)
        is_over = False
        while not is_over and not self._options.should_stop():
            header = self._header or self._link.next_header(0)
            self._header = None
            if header is None:
                self._settle()
                header = self._link.next_header(_POLL_S)
            if header is not None:
                is_over = self._take(header) and not self._options.follow
            self._settle_in_passing()
            if time.monotonic() - self._reported_at > HEARTBEAT_INTERVAL_S:
                self._report_now(self._reported)
        self._settle()

    def _take(self, header: FrameHeader) -> bool:
        """Receive one frame, and return whether the master has nothing more."""
        if header.log_offset != self._next:
            raise ReplicationError(
                f"the master sends log offset {header.log_offset}, {self._next} comes next", offset=self._next
            )
        if header.is_heartbeat:
            if self._next < self._copy.end:
                raise Diverged(
                    f"the copy ends at {self._copy.end}, and the master has nothing at {self._next}",
                    hint="its log ends before that, or begins after it",
                )
            return True
        is_late = time.monotonic() - self._full_at > CAUGHT_UP_AFTER_S
        self._receive(header.size)
        self._small_count += 1
        if header.size >= self._largest:
            self._largest, self._full_at, self._small_count = header.size, time.monotonic(), 0
        return is_late and self._small_count >= CAUGHT_UP_AFTER_FRAMES

    def _receive(self, size: int) -> None:
        known = min(size, self._verifier.next_offset - self._next)
        if known:
            body = memoryview(bytearray(size))
            self._link.read_body(body)
            self._copy.require_same(self._next, body[:known])
            self._verifier.room(size - known)[:] = body[known:]
            self._report.compared_bytes += known
        else:
            self._link.read_body(self._verifier.room(size))
        self._verifier.took(size - known)
        self._next += size
        self._report.received_bytes += size
        self._report.transfer_seconds = time.monotonic() - self._began
        self._options.on_progress(self._report.received_bytes)

    def _settle_in_passing(self) -> None:
        """Append and sync at intervals while frames come without a pause."""
        if self._verifier.pending_bytes >= VERIFY_BYTES:
            _append_verified(self._verifier, self._copy)
        is_due = time.monotonic() - self._synced_at > SYNC_INTERVAL_S
        if self._copy.end - self._copy.durable >= SYNC_BYTES or (is_due and self._copy.durable < self._copy.end):
            self._settle()

    def _settle(self) -> None:
        """Append the verified bytes, sync and report them."""
        _append_verified(self._verifier, self._copy)
        self._copy.sync()
        self._synced_at = time.monotonic()
        durable = min(self._copy.durable, self._next)
        if durable > self._reported and not self._options.observe:
            self._report_now(durable)

    def _report_now(self, log_offset: int) -> None:
        self._link.report(log_offset)
        self._reported, self._reported_at = log_offset, time.monotonic()


def _append_verified(verifier: LogVerifier, copy: CopiedLog) -> None:
    for log_offset, piece in verifier.verified():
        if not verifier.is_assumed:
            copy.correct_segment_size(verifier.segment_size)
            copy.is_size_assumed = False
        copy.append(log_offset, piece)
