"""Records of queues as columns, for readers that take thousands of messages at once.

    read_run     the next records of a queue, up to one that is damaged, has a wrong CRC or holds several messages
    merge_runs   runs of several queues as one stream, in the order of heapq.merge over their messages

What ends a run is read by get.py, and is then a message among the runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from store import kernels
from store.files import lost_pages
from store.files.mapped_file import MappedFile
from store.formats.columns import Column
from store.formats.derived import units_of
from store.formats.message import INNER_BATCH, RECORD_MIN_SIZE, StoredMessage
from store.formats.queue_unit import UNIT_SIZE
from store.formats.run import Int64Array, Run
from store.reading.get import Queue
from store.structures.commitlog.readable_log import ReadableLog
from store.structures.get_result import GetResult, GetStatus

Piece: TypeAlias = Run | StoredMessage

_BYTES_PER_RECORD = 8 << 10
"""A run of n records has about so many bytes for each, as their bodies are read for the CRC."""
_GAP_BYTES = 64 << 10
"""Records that are no farther apart are read into memory together."""


def read_run(log: ReadableLog, queue: Queue | None, offset: int, most: int) -> tuple[Run, GetResult] | None:
    """Return up to `most` records from a queue offset on; None where get_message has to answer.

    The result has no messages of its own.
    """
    if queue is None or queue.holds_batches or not queue.min_offset <= offset < queue.max_offset:
        return None
    data = queue.read_range(offset)
    units = units_of(data[: most * UNIT_SIZE] if data is not None else b"")
    file = log.segments.find_by_offset(int(units["log_offset"][0])) if len(units) else None
    if file is None:
        return None
    seen = lost_pages.count()
    places, sizes = _readable(file, units["log_offset"] - np.int64(file.file_start), units["size"].astype(np.int64))
    array = np.empty((len(Column), len(places)), np.int64)
    count = kernels.read_records(file.buffer, places, sizes, array)
    others = np.flatnonzero(array[Column.SYS_FLAG, :count] & INNER_BATCH)
    count = int(others[0]) if len(others) else count
    lost_pages.require_none_since(seen)
    if not count:
        return None
    run = Run(file.file_start, file.path, file.buffer, array[:, :count], count)
    return run, GetResult(GetStatus.FOUND, offset + count, queue.min_offset, queue.max_offset)


def _readable(file: MappedFile, places: Int64Array, sizes: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the leading records inside of the file's readable bytes, while they rise."""
    end = file.readable_position
    inside = (places >= 0) & (sizes >= RECORD_MIN_SIZE) & (sizes <= end - places)
    inside[1:] &= places[1:] >= places[:-1] + sizes[:-1]
    inside[1:] &= np.cumsum(sizes)[1:] <= len(sizes) * _BYTES_PER_RECORD
    count = int(np.argmin(np.append(inside, False)))
    ends = places[:count] + sizes[:count]
    starts = [0, *(np.flatnonzero(places[1:count] - ends[:-1] > _GAP_BYTES) + 1).tolist()]
    for first, stop in zip(starts, [*starts[1:], count], strict=True):
        if first < stop and file.readable_end(int(places[first]), int(ends[stop - 1])) < ends[stop - 1]:
            count = first
            break
    return places[:count], sizes[:count]


def merge_runs(
    streams: Iterable[Iterator[Piece]], since_ms: int | None = None, until_ms: int | None = None
) -> Iterator[Piece]:
    """Merge by store time, then log offset. Times of a stream that step back leave its order as it is.

    since_ms  a stream begins with its first record stored from then on
    until_ms  it ends before its first record stored later
    """
    rest = {number: _rising(stream, since_ms, until_ms) for number, stream in enumerate(streams)}
    heads: dict[int, _Head] = {}
    while True:
        heads |= {number: head for number in rest.keys() - heads.keys() if (head := next(rest[number], None))}
        rest = {number: rest[number] for number in sorted(heads)}
        if not heads:
            return
        *bound, last = min((*head.last, number) for number, head in heads.items())
        taken = {number: heads[number].count_to(*bound, or_equal=number <= last) for number in rest}
        yield from _in_order([heads[number].part(0, count) for number, count in taken.items() if count])
        heads = {
            number: head.part(taken[number], len(head.times))
            for number, head in heads.items()
            if taken[number] < len(head.times)
        }


def count_of(piece: Piece) -> int:
    return piece.count if isinstance(piece, Run) else 1


def leading(pieces: Iterator[Piece], count: int | None) -> Iterator[Piece]:
    """Yield the first records, None for all."""
    for piece in pieces:
        if count is not None and isinstance(piece, Run) and piece.count > count:
            piece = piece.part(0, count)
        yield piece
        count = count - count_of(piece) if count is not None else None
        if count == 0:
            return


def trailing(pieces: Iterator[Piece], count: int) -> Iterator[Piece]:
    """Yield the last records."""
    kept: deque[Piece] = deque()
    spare = -count
    for piece in pieces:
        kept.append(piece)
        spare += count_of(piece)
        while spare >= count_of(kept[0]):
            spare -= count_of(kept.popleft())
    for piece in kept:
        yield piece.part(spare, piece.count) if spare > 0 and isinstance(piece, Run) else piece
        spare = 0


class _Head(NamedTuple):
    """Records of a stream, none below the one before it."""

    piece: Piece
    times: Int64Array
    log_offsets: Int64Array

    @property
    def last(self) -> tuple[int, int]:
        return int(self.times[-1]), int(self.log_offsets[-1])

    def part(self, first: int, stop: int) -> _Head:
        piece = self.piece.part(first, stop) if isinstance(self.piece, Run) else self.piece
        return _Head(piece, self.times[first:stop], self.log_offsets[first:stop])

    def count_to(self, time_ms: int, log_offset: int, *, or_equal: bool) -> int:
        """Count the records below a time and log offset."""
        low, high = (int(np.searchsorted(self.times, time_ms, side)) for side in ("left", "right"))
        return low + int(np.searchsorted(self.log_offsets[low:high], log_offset, "right" if or_equal else "left"))


def _rising(stream: Iterator[Piece], since_ms: int | None, until_ms: int | None) -> Iterator[_Head]:
    """Cut runs in front of each record that is below the one before it, and by store time."""
    for piece in stream:
        head = _head_of(piece)
        _, times, log_offsets = head
        steps_back = (times[1:] < times[:-1]) | ((times[1:] == times[:-1]) & (log_offsets[1:] < log_offsets[:-1]))
        for first, stop in pairwise([0, *(np.flatnonzero(steps_back) + 1).tolist(), len(times)]):
            begin = first if since_ms is None else first + int(np.searchsorted(times[first:stop], since_ms))
            end = stop if until_ms is None else first + int(np.searchsorted(times[first:stop], until_ms, "right"))
            if begin < end:
                since_ms = None
                yield head.part(begin, end)
            if max(begin, end) < stop:
                return


def _head_of(piece: Piece) -> _Head:
    if isinstance(piece, Run):
        return _Head(piece, piece.columns.store_timestamp_ms, piece.columns.log_offset)
    return _Head(piece, np.array([piece.store_timestamp_ms]), np.array([piece.log_offset]))


def _in_order(heads: list[_Head]) -> Iterator[Piece]:
    """Yield the records of all heads in order, as many of a segment at once as follow each other."""
    if len(heads) == 1:
        yield heads[0].piece
        return
    times, log_offsets = (np.concatenate(columns) for columns in zip(*(head[1:] for head in heads), strict=True))
    order = np.lexsort((log_offsets, times))
    owners = np.repeat(np.arange(len(heads)), [len(head.times) for head in heads])[order]
    pieces = [head.piece for head in heads]
    starts = np.array([one.file_start if isinstance(one, Run) else -1 - at for at, one in enumerate(pieces)])[owners]
    columns = np.hstack([one.array if isinstance(one, Run) else np.zeros((len(Column), 1), np.int64) for one in pieces])
    for first, stop in pairwise([0, *(np.flatnonzero(np.diff(starts)) + 1).tolist(), len(order)]):
        piece = pieces[owners[first]]
        if isinstance(piece, Run):
            piece = replace(piece, array=columns.take(order[first:stop], 1), count=stop - first)
        yield piece
