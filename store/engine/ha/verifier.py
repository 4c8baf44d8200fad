"""LogVerifier: buffers received bytes of a log until they are whole, valid records.

    room, took   receive the next bytes, in any pieces
    verified     yields the verified bytes, and keeps the rest

A record is verified by size, magic, the sum of its parts, its CRC and its own log offset. A blank must end at its
segment's end; the unused bytes after it have no form and are passed on unchanged.

If the segment size is unknown, the first blank shows it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from store import kernels
from store.errors import ReplicationError
from store.formats.columns import COLUMN_NAMES, Column, DamageReason, ScanOutcome
from store.formats.message import BLANK_SIZE, RECORD_MIN_SIZE, TOPIC_SIZE_V2
from store.formats.run import Columns, Int64Array

LARGEST_RECORD_BYTES = 64 << 20
"""Larger records are refused at once; a broker's default limit is 4 MiB."""
_FIRST_CAPACITY = 8 << 20
_RUN_CAPACITY = 8192 + 64
_CUT_SHORT = (
    DamageReason.SIZE_BEYOND_SEGMENT,
    DamageReason.BODY_BEYOND,
    DamageReason.TOPIC_BEYOND,
    DamageReason.PROPERTIES_BEYOND,
)


class LogVerifier:
    """A verifier of a log from `log_offset` on, a record's start.

    is_assumed  the first blank may correct `segment_size`
    """

    def __init__(self, log_offset: int, segment_size: int, *, is_assumed: bool = False) -> None:
        self.segment_size = segment_size
        self.is_assumed = is_assumed
        self.record_count = 0
        self.has_v2 = False
        """Whether a record of version 2 was met: a 4.x broker writes none."""
        self.next_offset = log_offset
        """The log offset of the next received byte."""
        self._start = log_offset
        self._first_segment = log_offset - log_offset % segment_size
        self._filler_end = 0
        self._buffer = bytearray(_FIRST_CAPACITY)
        self._columns = np.empty((len(COLUMN_NAMES), _RUN_CAPACITY), np.int64)
        self._state = np.zeros(8, np.int64)

    @property
    def pending_bytes(self) -> int:
        """Received bytes that are not passed on yet."""
        return self.next_offset - self._start

    def room(self, size: int) -> memoryview:
        """Return memory for the next `size` bytes."""
        filled = self.pending_bytes
        if filled + size > len(self._buffer):
            grown = bytearray(max(2 * len(self._buffer), filled + size))
            grown[:filled] = memoryview(self._buffer)[:filled]
            self._buffer = grown
        return memoryview(self._buffer)[filled : filled + size]

    def took(self, size: int) -> None:
        """Count `size` bytes of the room as filled."""
        self.next_offset += size

    def verified(self) -> Iterator[tuple[int, memoryview]]:
        """Yield verified pieces with their log offsets. A piece is valid until the next one is read.

        ReplicationError if the bytes are no record.
        """
        filled = self.pending_bytes
        position = before = 0
        try:
            while position < filled:
                position, before = self._step(position, filled), position
                if position == before:
                    return
                yield self._start + before, memoryview(self._buffer)[before:position]
        finally:
            self._drop(position)

    def _drop(self, size: int) -> None:
        filled = self.pending_bytes
        if size:
            self._buffer[: filled - size] = self._buffer[size:filled]
            self._start += size

    def _step(self, position: int, filled: int) -> int:
        """Return the end of the verified bytes from `position` on; `position` if more bytes are needed."""
        log_offset = self._start + position
        if log_offset < self._filler_end:
            return min(filled, self._filler_end - self._start)
        segment_end = self._segment_end(log_offset)
        limit = min(filled, segment_end - self._start)
        count = kernels.scan_records(self._buffer, position, limit, True, True, self._columns, self._state)
        self._check_offsets(count)
        self.record_count += count
        self.has_v2 = self.has_v2 or bool((self._topic_widths(count) == TOPIC_SIZE_V2.size).any())
        stopped, outcome = int(self._state[0]), int(self._state[1])
        if outcome == ScanOutcome.BLANK:
            return self._pass_blank(stopped)
        if outcome in (ScanOutcome.END, ScanOutcome.DAMAGE):
            self._refuse_damage(stopped, limit, segment_end, outcome)
        return stopped

    def _segment_end(self, log_offset: int) -> int:
        return log_offset - log_offset % self.segment_size + self.segment_size

    def _topic_widths(self, count: int) -> Int64Array:
        """Return the bytes of each record's topic length."""
        columns = Columns(*self._columns[:, :count])
        return columns.topic_position - columns.body_position - columns.body_size

    def _check_offsets(self, count: int) -> None:
        named = self._columns[Column.LOG_OFFSET, :count]
        actual = self._columns[Column.POSITION, :count] + self._start
        wrong = np.flatnonzero(named != actual)
        if len(wrong):
            first = int(wrong[0])
            raise ReplicationError(
                f"the record here says that its log offset is {int(named[first])}", offset=int(actual[first])
            )

    def _pass_blank(self, position: int) -> int:
        log_offset, declared = self._start + position, int(self._state[3])
        end = log_offset + declared
        if end != self._segment_end(log_offset):
            self._learn_segment_size(log_offset, end)
        self.is_assumed = False
        self._filler_end = end
        return position + BLANK_SIZE

    def _learn_segment_size(self, log_offset: int, end: int) -> None:
        size = end - self._first_segment
        if not self.is_assumed or size < RECORD_MIN_SIZE or self._first_segment % size:
            raise ReplicationError(
                f"a segment ends at {end}, with segments of {self.segment_size} bytes it would end at "
                f"{self._segment_end(log_offset)}",
                offset=log_offset,
                code="segment-size",
            )
        self.segment_size = size

    def _refuse_damage(self, position: int, limit: int, segment_end: int, outcome: int) -> None:
        """Raise ReplicationError unless more bytes may complete the record at `position`."""
        left, log_offset = limit - position, self._start + position
        if left < BLANK_SIZE and log_offset + BLANK_SIZE <= segment_end:
            return
        reason = (
            "nothing was written here" if outcome == ScanOutcome.END else DamageReason(int(self._state[2])).describe()
        )
        size = int.from_bytes(self._buffer[position : position + 4], "big")
        is_cut_short = outcome == ScanOutcome.DAMAGE and int(self._state[2]) in _CUT_SHORT and size > left
        if is_cut_short and size <= min(LARGEST_RECORD_BYTES, segment_end - log_offset):
            return
        if is_cut_short:
            reason = f"a record of {size} bytes, {segment_end - log_offset} are left in the segment"
        raise ReplicationError(
            f"the master sent bytes that are no record: {reason}", offset=log_offset, code="no-record"
        )
