"""Resuming a scan after damage: at the next record whose log offset field equals its position.

A record holds its magic and its log offset. After bytes that are no record, the scan searches for the next record whose
log offset field equals its position, and goes on there. A leftover of a reused file, or a copy inside a message, has
another log offset.
`read_on` is the rule; `readable_behind` applies it to mapped segments, slices.py to windows on files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from store import kernels
from store.files.filesystem import Filesystem
from store.files.mapping import PAGE_SIZE
from store.formats.columns import COLUMN_NAMES, DamageReason
from store.formats.message import BLANK_SIZE, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2
from store.formats.run import Run
from store.structures.commitlog.scan import DEFAULT_RULES, Blank, Damage, ScanRules, Segment, Step, scan_segment

if TYPE_CHECKING:
    from store.files.store_reader import StoreReader

# The next record is mostly near, and paced processes pay for every requested byte: so the search begins small.
FIRST_FIND_BYTES = 1 << 20
FIND_BYTES = 128 << 20
LARGEST_RECORD_BYTES = 16 << 20
"""More than a broker takes by default (4 MiB and 64 KiB)."""
MAGIC = re.compile(b"|".join(re.escape(one.to_bytes(4, "big")) for one in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2)))
_ZERO_CHECK_SIZE = 16 * 1024 * 1024

Scan = Callable[[int], Iterable[Step]]
"""The steps of a scan from a position to its Outcome."""
Find = Callable[[int], int | None]
"""The position of the next record at or after a position; None without one."""


def read_on(
    scan: Scan,
    find: Find,
    position: int | None,
    *,
    behind_end: bool = False,
    scan_bad_body: Scan | None = None,
) -> Iterator[Step]:
    """Yield the steps from `position`, a record's start; resume after a Damage at the next record.

    behind_end     resume after Blank and End too
    scan_bad_body  reads one record without checking its CRC: a record with a damaged body then gives
                   a Damage and after it a Run

    Positions are those of `scan` and `find`; positions in steps are relative to their file_start.
    """
    while position is not None:
        last: Step | None = None
        for last in scan(position):
            yield last
        if last is None or isinstance(last, Run) or not (behind_end or isinstance(last, Damage)):
            return
        at = last.file_start + last.position
        following = at + (BLANK_SIZE if isinstance(last, Blank) else 1)
        if scan_bad_body is not None and isinstance(last, Damage) and last.reason == DamageReason.BAD_CRC:
            for step in scan_bad_body(at):
                if isinstance(step, Run):
                    yield step
                    following = step.end
        position = find(following)


def find_record(segment: Segment, position: int, *, accept_v2: bool = True) -> int:
    """Return the position of the first record at or after `position` whose log offset is right, else -1."""
    columns = np.empty((len(COLUMN_NAMES), 1), np.int64)
    buffer, limit, size = segment.buffer, segment.size, FIRST_FIND_BYTES
    while (position := segment.next_written(position)) < limit:
        # A page that is read counts as written: pieces end with a page, so that a hole after one is still a hole.
        beyond = (segment.file_start + position + size) % PAGE_SIZE
        wanted, size = min(limit, position + size - beyond), min(4 * size, FIND_BYTES)
        end = segment.readable_end(position, wanted)
        found = int(kernels.find_record_start(buffer, position, end, segment.file_start, accept_v2, columns))
        if found >= 0:
            return found
        if end < wanted:
            position = segment.behind_unreadable(end, limit)
        elif end < limit:
            if segment.next_written(end) >= limit:
                if MAGIC.search(buffer[position:end]) is None:
                    return -1
                # Only the hole's first bytes can belong to a record.
                limit = min(limit, end + LARGEST_RECORD_BYTES)
            # A record may begin in one piece and end in the next, so pieces grow until one holds more than a record.
            position = max(position, end - LARGEST_RECORD_BYTES)
        else:
            return -1
    return -1


def readable_behind(
    segments: Sequence[Segment],
    log_offset: int,
    *,
    rules: ScanRules = DEFAULT_RULES,
    with_bad_bodies: bool = False,
    behind_end: bool = True,
) -> Iterator[Step]:
    """Read every record at or after `log_offset`, and the Damage, Blank and End between the runs.

    with_bad_bodies  yield a record with a damaged body as a Run after its Damage
    behind_end       False: skip leftovers of a truncation past the end of a segment

    Missing segments are skipped.
    """
    behind = [segment for segment in segments if segment.file_start + segment.size > log_offset]
    for segment in behind:
        start = max(segment.file_start, log_offset)
        yield from _readable_in(segment, start, rules, with_bad_bodies, behind_end=behind_end)


def read_log(files: StoreReader) -> tuple[int, Iterator[Step]]:
    """Return the start of a store's log, 0 without segments, and the steps of its readable records."""
    from store.files.stored_segment import StoredSegment

    segments = [StoredSegment(files, file) for file in files.segments()]
    start = segments[0].file_start if segments else 0
    return start, readable_behind(segments, start, rules=ScanRules(accept_v2=True), behind_end=False)


def runs_between(segments: Sequence[Segment], start: int, stop: int, *, rules: ScanRules) -> Iterator[Run]:
    """Read the records that begin in [start, stop) of the log, also after damage."""
    for step in readable_behind(segments, start, rules=rules) if start < stop else ():
        if isinstance(step, Run):
            inside = int(np.count_nonzero(step.columns.position + step.file_start < stop))
            if inside:
                yield step.part(0, inside)
            if inside < step.count:
                return


def _readable_in(
    segment: Segment, log_offset: int, rules: ScanRules, with_bad_bodies: bool, *, behind_end: bool
) -> Iterator[Step]:
    start = segment.file_start

    def scan(at: int) -> Iterator[Step]:
        return scan_segment(segment, at - start, segment.size, rules=rules)

    def find(at: int) -> int | None:
        found = find_record(segment, at - start, accept_v2=rules.accept_v2)
        return start + found if found >= 0 else None

    def scan_bad_body(at: int) -> Iterator[Step]:
        size = int.from_bytes(segment.buffer[at - start : at - start + 4], "big")
        unchecked = replace(rules, check_crc=False)
        return scan_segment(segment, at - start, at - start + size, rules=unchecked)

    bad_body = scan_bad_body if with_bad_bodies else None
    return read_on(scan, find, log_offset, behind_end=behind_end, scan_bad_body=bad_body)


def has_bytes_behind(segment: Segment, position: int, fs: Filesystem) -> bool:
    """Return whether any byte at or after `position` is not zero; unreadable bytes count as written."""

    def read(start: int, stop: int) -> memoryview:
        end = segment.readable_end(start, min(stop, segment.size))
        # Unreadable bytes were written once.
        return segment.buffer[start:end] if end == min(stop, segment.size) else memoryview(b"?")

    return has_bytes_in(fs.written_ranges(segment.path, position), read)


def has_bytes_in(ranges: Iterable[tuple[int, int]], read: Callable[[int, int], bytes | memoryview]) -> bool:
    """Return whether the ranges hold a byte other than zero; `read(start, stop)` returns one piece."""
    return any(
        np.frombuffer(read(at, min(at + _ZERO_CHECK_SIZE, stop)), np.uint8).any()
        for start, stop in ranges
        for at in range(start, stop, _ZERO_CHECK_SIZE)
    )
