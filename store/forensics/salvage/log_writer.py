"""The commit log of a salvaged store, written from front to back.

    append      whole records behind each other, a blank and the next segment where one does not fit
    skip_to     a place further on: blanks to the ends of segments, a filler record where the segment goes on

A filler is a rolled-back message of the topic FILLER_TOPIC: no queue and no index names it, and a broker's walk passes
over it. Its smallest size is that of an empty record.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from store.disk.filesystem import Descriptor, Filesystem
from store.errors import BadRequest
from store.formats.message import (
    BLANK_SIZE,
    TRANSACTION_ROLLBACK,
    Message,
    encode_blank,
    encode_record,
    record_size,
)
from store.formats.run import Int64Array
from store.layout import segment_name

FILLER_TOPIC = "F"
LOG_OFFSET_AT = 28
SMALLEST_FILLER = record_size(0, len(FILLER_TOPIC), 0)


class LogWriter:
    """Write segments of `segment_size` bytes to an empty folder. `position` is the log's end so far."""

    def __init__(self, folder: Path, segment_size: int, fs: Filesystem, start: int = 0) -> None:
        self._folder = folder
        self.segment_size = self._size = segment_size
        self._fs = fs
        self._file: Descriptor | None = None
        self.position = start
        self.filler_count = 0
        fs.make_folder(folder)

    def append(self, data: memoryview, sizes: Int64Array, *, keep_offsets: bool = False) -> Int64Array:
        """Append records that follow each other in `data`; give their log offsets, new unless kept."""
        placed = np.empty(len(sizes), np.int64)
        ends, first, taken = np.cumsum(sizes), 0, 0
        while first < len(sizes):
            room = self._size - self.position % self._size - BLANK_SIZE
            stop = int(np.searchsorted(ends, taken + room, side="right"))
            if stop == first:
                self._end_segment(int(sizes[first]))
                continue
            placed[first:stop] = self.position + ends[first:stop] - sizes[first:stop] - taken
            self._write(bytearray(data[taken : int(ends[stop - 1])]), placed[first:stop], keep_offsets)
            first, taken = stop, int(ends[stop - 1])
        return placed

    def skip_to(self, log_offset: int, store_timestamp_ms: int) -> None:
        """Fills the log up to `log_offset`. BadRequest where the gap is smaller than the smallest record."""
        while self.position < log_offset:
            segment_end = self.position - self.position % self._size + self._size
            if log_offset >= segment_end:
                self._end_segment()
                continue
            gap = log_offset - self.position
            if gap < SMALLEST_FILLER:
                raise BadRequest(
                    f"a gap of {gap} bytes is too small for a record",
                    offset=self.position,
                    code="no-room-for-placeholder",
                )
            self._write_filler(gap, store_timestamp_ms)

    def close(self) -> None:
        """Makes everything durable."""
        if self._file is not None:
            self._fs.fdatasync(self._file)
        self._fs.fsync_folder(self._folder)

    def _write(self, block: bytearray, placed: Int64Array, keep_offsets: bool) -> None:
        if not keep_offsets:
            content = np.frombuffer(block, np.uint8)
            at = (placed - placed[0] + LOG_OFFSET_AT)[:, None] + np.arange(8)
            content[at] = placed.astype(">i8").view(np.uint8).reshape(-1, 8)
        self._fs.write(self._segment(), self.position % self._size, block)
        self.position += len(block)

    def _write_filler(self, gap: int, store_timestamp_ms: int) -> None:
        # No larger than what any broker takes for a record.
        size = gap if gap <= 2 << 20 else 1 << 20
        topic, body = FILLER_TOPIC.encode(), bytes(size - SMALLEST_FILLER)
        record = encode_record(
            Message(FILLER_TOPIC, body, born_timestamp_ms=0),
            topic=topic,
            sys_flag=TRANSACTION_ROLLBACK,
            queue_offset=0,
            log_offset=self.position,
            store_timestamp_ms=store_timestamp_ms,
        )
        self._fs.write(self._segment(), self.position % self._size, record)
        self.position += len(record)
        self.filler_count += 1

    def _end_segment(self, wanted: int = 0) -> None:
        """Ends the segment with a blank. BadRequest for a record that no segment can take."""
        if wanted > self._size - BLANK_SIZE:
            raise BadRequest(f"a record of {wanted} bytes does not fit into a segment of {self._size} bytes")
        left = self._size - self.position % self._size
        if left >= BLANK_SIZE:
            self._fs.write(self._segment(), self.position % self._size, encode_blank(left))
        self._fs.fdatasync(self._segment())
        self.position += left
        self._file = None

    def _segment(self) -> Descriptor:
        if self._file is None:
            start = self.position - self.position % self._size
            self._file = self._fs.create_file(self._folder / segment_name(start), self._size, reserved=0)
        return self._file
