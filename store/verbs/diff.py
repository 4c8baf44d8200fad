"""diff: a comparison of two stores, record by record and queue by queue.

A log offset is the same position in both logs, so the logs are walked side by side. Stale bytes past a valid end and
preallocated tails are not compared. By default these columns of the records are compared: offset, size, topic, queue,
times, flags and body CRC. `deep` compares every byte of the records. Queues are compared by their units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from store.files.readable import Stretch
from store.files.store_reader import StoredFile, StoreReader
from store.formats.run import Run
from store.formats.sets import is_in
from store.structures.commitlog.scan import ScanRules
from store.structures.commitlog.slices import LogSlice, walk_slice
from store.verbs.fingerprint import Digest, queue_digests

COMPARED = ("size", "queue_id", "queue_offset", "sys_flag", "store_timestamp_ms", "body_size", "body_crc", "topic_size")
ROWS_AT_ONCE = 1024
"""Records whose bytes are compared with one call."""


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of the log that hold records: [start, end) in log offsets."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first record that differs: its log offset, the name of the field, and both values."""

    log_offset: int
    field: str
    value_a: Any
    value_b: Any


@dataclass(frozen=True, slots=True)
class StoreDiff:
    """The differences between store A and store B.

    `only_a` and `only_b` are ranges of records that only one of the logs has.
    """

    first: FirstDifference | None
    differing_records: int
    same_records: int
    only_a: list[Range]
    only_b: list[Range]
    queues: list[dict[str, Any]]

    @property
    def is_equal(self) -> bool:
        return not (self.first or self.only_a or self.only_b or self.queues)


def diff_stores(a: StoreReader, b: StoreReader, *, deep: bool = False) -> StoreDiff:
    """Compare the logs in order of log offset, then the queues."""
    comparison = _Comparison(deep)
    segments_a, segments_b = ({file.number: file for file in one.segments()} for one in (a, b))
    common = segments_a.keys() & segments_b.keys()
    if all(segments_a[number].size == segments_b[number].size for number in common):
        stretches = [{number} for number in sorted(segments_a.keys() | segments_b.keys())]
    else:
        stretches = [segments_a.keys() | segments_b.keys()]
    for numbers in stretches:
        one, other = ([held[n] for n in sorted(numbers) if n in held] for held in (segments_a, segments_b))
        comparison.compare(_records(a, one), _records(b, other))
    return StoreDiff(
        comparison.first,
        comparison.differing,
        comparison.same,
        _merged(comparison.only_a),
        _merged(comparison.only_b),
        list(_queue_differences(a, b)),
    )


@dataclass(frozen=True, slots=True)
class _Records:
    """Records of one log: their offsets, the compared columns, and the stretches with their bytes."""

    offsets: Any
    columns: Any
    stretches: list[tuple[Stretch, int]]
    ends: Any

    def bytes_of(self, row: int, last: int | None = None) -> bytes:
        """Return the bytes of one record, or of the adjacent records up to `last`."""
        stretch, file_start = self.stretches[self.run_of(row)]
        end_row = row if last is None else last
        end = int(self.offsets[end_row] + self.columns[COMPARED.index("size"), end_row]) - file_start
        start = int(self.offsets[row]) - file_start
        # The walk's pages may have been released; require reads them again, and releases them later.
        stretch.require(start, end)
        return bytes(stretch.buffer[start:end])

    def run_of(self, row: int) -> int:
        return int(np.searchsorted(self.ends, row, side="right"))


def _records(reader: StoreReader, segments: list[StoredFile]) -> _Records:
    offsets, columns, stretches = [np.empty(0, np.int64)], [np.empty((len(COMPARED), 0), np.int64)], []
    for segment in segments:
        local = reader.map(segment.path) if reader.is_local else None
        whole = LogSlice(segment.path, segment.number, segment.size, 0, segment.size)
        for step in walk_slice(reader, whole, ScanRules(check_crc=False), past_zeros=True):
            if isinstance(step, Run):
                offsets.append(step.columns.position + step.file_start)
                columns.append(np.array([getattr(step.columns, name) for name in COMPARED]))
                stretches.append((local or Stretch(step.buffer), step.file_start))
    counts = [len(one) for one in offsets[1:]]
    return _Records(np.concatenate(offsets), np.concatenate(columns, axis=1), stretches, np.cumsum(counts))


class _Comparison:
    """The sums of differences over the compared stretches of log."""

    def __init__(self, deep: bool) -> None:
        self.deep = deep
        self.first: FirstDifference | None = None
        self.differing = self.same = 0
        self.only_a: list[Range] = []
        self.only_b: list[Range] = []

    def compare(self, a: _Records, b: _Records) -> None:
        in_both_a, in_both_b = is_in(a.offsets, b.offsets), is_in(b.offsets, a.offsets)
        rows_a, rows_b = np.flatnonzero(in_both_a), np.flatnonzero(in_both_b)
        self.only_a += _ranges(a, np.flatnonzero(~in_both_a))
        self.only_b += _ranges(b, np.flatnonzero(~in_both_b))
        unlike = (a.columns[:, rows_a] != b.columns[:, rows_b]).any(axis=0)
        if self.deep:
            unlike[_unlike_bytes(a, rows_a, b, rows_b, np.flatnonzero(~unlike))] = True
        self.differing += int(unlike.sum())
        self.same += int((~unlike).sum())
        if self.first is None and unlike.any():
            row = int(np.flatnonzero(unlike)[0])
            self.first = self._explain(a, int(rows_a[row]), b, int(rows_b[row]))

    def _explain(self, a: _Records, row_a: int, b: _Records, row_b: int) -> FirstDifference:
        offset = int(a.offsets[row_a])
        for number, name in enumerate(COMPARED):
            values = int(a.columns[number, row_a]), int(b.columns[number, row_b])
            if values[0] != values[1]:
                return FirstDifference(offset, name, *values)
        one, other = a.bytes_of(row_a), b.bytes_of(row_b)
        at = next(i for i, (x, y) in enumerate(zip(one, other, strict=True)) if x != y)
        return FirstDifference(offset, f"byte {at} of the record", f"{one[at]:02x}", f"{other[at]:02x}")


def _unlike_bytes(a: _Records, rows_a: Any, b: _Records, rows_b: Any, alike: Any) -> list[int]:
    """Return the rows of both logs whose bytes differ; adjacent records are compared together first."""
    unlike: list[int] = []
    for first in range(0, len(alike), ROWS_AT_ONCE):
        some = alike[first : first + ROWS_AT_ONCE].tolist()
        ends = (int(rows_a[some[0]]), int(rows_a[some[-1]])), (int(rows_b[some[0]]), int(rows_b[some[-1]]))
        are_adjacent = all(
            last - row == len(some) - 1 and one.run_of(row) == one.run_of(last)
            for one, (row, last) in zip((a, b), ends, strict=True)
        )
        if not are_adjacent or a.bytes_of(*ends[0]) != b.bytes_of(*ends[1]):
            unlike += [i for i in some if a.bytes_of(int(rows_a[i])) != b.bytes_of(int(rows_b[i]))]
    return unlike


def _ranges(records: _Records, rows: Any) -> list[Range]:
    """Return the ranges that these rows cover; adjacent rows form one range."""
    if not len(rows):
        return []
    starts = records.offsets[rows]
    ends = starts + records.columns[COMPARED.index("size"), rows]
    breaks = [0, *(np.flatnonzero(starts[1:] != ends[:-1]) + 1).tolist(), len(rows)]
    return [Range(int(starts[first]), int(ends[last - 1])) for first, last in pairwise(breaks)]


def _merged(ranges: list[Range]) -> list[Range]:
    merged: list[Range] = []
    for one in sorted(ranges, key=lambda each: each.start):
        if merged and merged[-1].end == one.start:
            merged[-1] = Range(merged[-1].start, one.end)
        else:
            merged.append(one)
    return merged


def _queue_differences(a: StoreReader, b: StoreReader) -> Iterator[dict[str, Any]]:
    """Yield the queues that one store lacks, or with other offsets or entries."""
    digests_a, digests_b = ({one.name: one for one in queue_digests(each)} for each in (a, b))
    for name in sorted(digests_a.keys() | digests_b.keys()):
        one, other = digests_a.get(name), digests_b.get(name)
        difference = _queue_difference(one, other)
        if difference:
            topic, _, queue_id = name.rpartition("/")
            yield {
                "topic": topic,
                "queue_id": int(queue_id),
                "difference": difference,
                "min_offset_a": one and one.start,
                "max_offset_a": one and one.end,
                "min_offset_b": other and other.start,
                "max_offset_b": other and other.end,
            }


def _queue_difference(one: Digest | None, other: Digest | None) -> str:
    if one is None or other is None:
        return "only in B" if one is None else "only in A"
    if (one.start, one.end) != (other.start, other.end):
        return "offsets differ"
    return "entries differ" if one.sha256 != other.sha256 else ""
