"""The commit log of a salvaged store, written from front to back.

    append      whole records after each other; if one does not fit, a blank and the next segment
    skip_to     a higher log offset: blanks up to the ends of segments, a filler record within a segment

A filler is a rolled-back message of the topic FILLER_TOPIC: it gets no unit and no index entry, and a broker's walk
skips it. Its smallest size is that of an empty record.

A moved record gets its new log offset. A commit, and a record that ends a half message by a property (5.5), get the
new log offset of the half message; a right __CRC32# (5.x) is computed again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np

from store.errors import BadRequest
from store.files.filesystem import Descriptor, Filesystem
from store.formats.host import IPV4_HOST_SIZE, IPV6_HOST_SIZE
from store.formats.message import (
    BLANK_SIZE,
    LOG_OFFSET_AT,
    STORE_HOST_IPV6,
    SYS_FLAG_AT,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
    Message,
    decode_record,
    encode_blank,
    encode_record,
    record_size,
    store_timestamp_at,
)
from store.formats.properties import PROPERTIES_CRC
from store.formats.property_crc import has_own_crc, with_crc
from store.formats.run import Int64Array
from store.formats.sets import distinct
from store.formats.topics import HALF_TOPIC, OPEN_IN_DATABASE
from store.layout import segment_name

FILLER_TOPIC = "F"
SMALLEST_FILLER = record_size(0, len(FILLER_TOPIC), 0)


class NoRoom(BadRequest):
    """A log that keeps its log offsets can't bridge a gap."""


class Moves:
    """The old and new log offsets of records, in runs by ascending old offsets.

    lost_half_count  commits whose half message was not moved
    begins_with_half  the record at old log offset 0 is a half message; else a commit of 0 names none
    rooms            of the structures with records that name other records in a property
    """

    def __init__(self) -> None:
        self.runs: list[tuple[Int64Array, Int64Array]] = []
        self.lost_half_count = 0
        self.begins_with_half = False
        self.rooms: list[ModuleType] = []

    def find(self, old: int) -> int:
        """Return the new log offset of a record, -1 if it was not moved."""
        number = bisect_right(self.runs, old, key=lambda run: int(run[0][0])) - 1
        if number < 0:
            return -1
        before, after = self.runs[number]
        row = int(np.searchsorted(before, old))
        return int(after[row]) if row < len(before) and before[row] == old else -1

    def correct(self, record: memoryview) -> None:
        """Set a commit's half message to its new log offset, -1 if it was not moved."""
        sys_flag = record[SYS_FLAG_AT + 3]
        store_host_size = IPV6_HOST_SIZE if sys_flag & STORE_HOST_IPV6 else IPV4_HOST_SIZE
        at = store_timestamp_at(sys_flag) + 8 + store_host_size + 4
        half = int.from_bytes(record[at : at + 8], "big", signed=True)
        if half > 0 or (half == 0 and self.begins_with_half):
            found = self.find(half)
            self.lost_half_count += found < 0
            record[at : at + 8] = found.to_bytes(8, "big", signed=True)

    def rewritten(self, data: memoryview, sizes: Int64Array) -> Iterator[tuple[memoryview, Int64Array]]:
        """Yield the records in parts, those that name another one by themselves and maybe of another size.

        The records of a part must have moved before the next part is asked for.
        """
        marks = [found.start() for room in self.rooms for found in re.finditer(re.escape(room.MARK), data)]
        ends, first = np.cumsum(sizes), 0
        for row in distinct(np.searchsorted(ends, np.asarray(marks, np.int64), side="right")).tolist():
            start, stop = int(ends[row] - sizes[row]), int(ends[row])
            yield data[int(ends[first] - sizes[first]) : start], sizes[first:row]
            record = bytes(data[start:stop])
            for room in self.rooms:
                record = room.moved_end(record, self.find)
            yield memoryview(record), np.array([len(record)], np.int64)
            first = row + 1
        if first < len(sizes):
            yield data[int(ends[first] - sizes[first]) :], sizes[first:]


def moved_start(segment_size: int) -> int:
    """Return the start of a log with moved records: its second segment.

    Queues that begin late have pre-blank units, with log offset 0. If the log began at 0, a broker would serve them,
    find no record of their size, and skip their file (DefaultMessageStore.getMessage, 4.9.8 and 5.5.0).
    """
    return segment_size


class LogWriter:
    """A writer of segments of `segment_size` bytes, from `start` on; `position` is the log's end so far."""

    def __init__(self, folder: Path, segment_size: int, fs: Filesystem, start: int = 0) -> None:
        self._folder = folder
        self.segment_size = self._size = segment_size
        self._fs = fs
        self._file: Descriptor | None = None
        self.position = start
        self.filler_count = 0
        fs.make_folder(folder)

    def append(self, data: memoryview, sizes: Int64Array, *, moves: Moves | None) -> None:
        """Append the consecutive records in `data`.

        moves  gets their new log offsets; with None the records keep the old ones
        """
        for part, part_sizes in moves.rewritten(data, sizes) if moves is not None else ((data, sizes),):
            self._append(part, part_sizes, moves)

    def _append(self, data: memoryview, sizes: Int64Array, moves: Moves | None) -> None:
        ends, first, taken = np.cumsum(sizes), 0, 0
        while first < len(sizes):
            room = self._size - self.position % self._size - BLANK_SIZE
            stop = int(np.searchsorted(ends, taken + room, side="right"))
            if stop == first:
                self._end_segment(int(sizes[first]))
                continue
            block, starts = bytearray(data[taken : int(ends[stop - 1])]), ends[first:stop] - sizes[first:stop] - taken
            if moves is not None:
                _move(block, starts, self.position, moves)
            self._fs.write(self._segment(), self.position % self._size, block)
            self.position += len(block)
            first, taken = stop, int(ends[stop - 1])

    def skip_to(self, log_offset: int, store_timestamp_ms: int) -> None:
        """Fill the log up to `log_offset`. NoRoom if the gap is smaller than the smallest record."""
        while self.position < log_offset:
            segment_end = self.position - self.position % self._size + self._size
            if log_offset >= segment_end:
                self._end_segment()
                continue
            gap = log_offset - self.position
            if gap < SMALLEST_FILLER:
                raise NoRoom(f"a gap of {gap} bytes is too small for a record", offset=self.position)
            self._write_filler(gap, store_timestamp_ms)

    def free_bytes(self) -> int:
        """Return the free bytes of the log's file system."""
        return self._fs.free_bytes(self._folder)

    def close(self) -> None:
        """Make everything durable."""
        if self._file is not None:
            self._fs.fdatasync(self._file)
        self._fs.fsync_folder(self._folder)

    def _write_filler(self, gap: int, store_timestamp_ms: int) -> None:
        # At most as large as any broker accepts.
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
        """End the segment with a blank. BadRequest for a record larger than a segment."""
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
            path, fs = self._folder / segment_name(start), self._fs
            self._file = fs.open_write(path) if fs.exists(path) else fs.create_file(path, self._size, reserved=0)
        return self._file


def _move(block: bytearray, starts: Int64Array, position: int, moves: Moves) -> None:
    """Move records to the log offsets from `position` on."""
    content = np.frombuffer(block, np.uint8)
    at = (starts + LOG_OFFSET_AT)[:, None] + np.arange(8)
    old = content[at].copy().view(">i8").reshape(-1).astype(np.int64)
    moves.runs.append((old, starts + position))
    bounds, view = [*starts.tolist(), len(block)], memoryview(block)
    if old[0] == 0:
        moves.begins_with_half = decode_record(view[bounds[0] : bounds[1]]).topic in (HALF_TOPIC, OPEN_IN_DATABASE)
    checked: list[memoryview] = []
    if PROPERTIES_CRC.encode() in block:
        checked = [view[start:stop] for start, stop in pairwise(bounds) if has_own_crc(view[start:stop])]
    content[at] = (starts + position).astype(">i8").view(np.uint8).reshape(-1, 8)
    is_commit = content[starts + SYS_FLAG_AT + 3] & TRANSACTION_MASK == TRANSACTION_COMMIT
    for row in np.flatnonzero(is_commit).tolist():
        moves.correct(view[bounds[row] :])
    for record in checked:
        record[:] = with_crc(bytes(record))
