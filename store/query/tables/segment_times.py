"""Chooses the segments that a filter on store times can skip.

Store times rise along the log, except after a clock was set back, or if a time is damaged. Only a scan shows all times.
So a segment is skipped only if two times that need no scan agree: the store time of each segment's first record, and
the time of each file's last change:

    all segments    the first times rise from segment to segment, none is later than its own file's last change, and
                    only empty files at the log's end have none; otherwise every segment is read
    too old         the next segment's first time and this file's last change are before the wanted times: so a copy
                    that lost its files' times is read
    too new         this first time and every later one are after the wanted times

"Before" and "after" mean by more than BOUND_SLACK_US, so a clock set back by up to that never loses a row. Only one
kind of record is missed: one in the middle of a segment, whose time differs by more than that from the first times of
this and the next segment. Its clock was wrong for a part of the segment, or its time is damaged. `check` and `audit`
report it as time-backwards; limits on log_offset find it with any time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from store.files.store_reader import StoredFile, StoreReader
from store.formats.message import (
    BORN_HOST_AT,
    BORN_HOST_IPV6,
    SYS_FLAG_AT,
)
from store.formats.segment_head import SEGMENT_HEAD_SIZE, first_record_at

# An error of daylight saving is one hour; the wanted times are extended by it at both ends.
BOUND_SLACK_US = 3600 * 1_000_000

# A file's time may be a little before its last record, and clocks are corrected by seconds.
CLOCK_SLACK_US = 60 * 1_000_000


def segment_times(files: StoreReader, segments: Sequence[StoredFile]) -> list[tuple[int | None, int | None]]:
    """Return the smallest and largest store time that each segment may have, in µs; None for no limit.

    segments  the whole log
    """
    firsts = [first_store_time_us(files, file) for file in segments]
    filled = len(firsts) - len(list(itertools.takewhile(lambda first: first is None, reversed(firsts))))
    times = [first for first in firsts[:filled] if first is not None]
    if len(times) < filled or not _are_plausible(times, segments):
        return [(None, None)] * len(segments)

    def times_of(i: int, file: StoredFile) -> tuple[int | None, int | None]:
        smallest = min(times[i:]) - BOUND_SLACK_US if i < filled else None
        largest = max(times[i + 1], file.mtime_ms * 1000) + BOUND_SLACK_US if i + 1 < filled else None
        return smallest, largest

    return [times_of(i, file) for i, file in enumerate(segments)]


def _are_plausible(times: Sequence[int], segments: Sequence[StoredFile]) -> bool:
    rises = all(before <= after + CLOCK_SLACK_US for before, after in itertools.pairwise(times))
    return rises and all(
        first <= file.mtime_ms * 1000 + CLOCK_SLACK_US for first, file in zip(times, segments, strict=False)
    )


def first_store_time_us(files: StoreReader, file: StoredFile) -> int | None:
    """Return the store time of the record at the segment's start; None without a record there."""
    head = bytes(files.read(file.path, 0, SEGMENT_HEAD_SIZE))
    start = first_record_at(head)
    if start is None or len(head) < start + BORN_HOST_AT + 28:
        return None
    head = head[start:]
    sys_flag = int.from_bytes(head[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big")
    at = BORN_HOST_AT + (20 if sys_flag & BORN_HOST_IPV6 else 8)
    return int.from_bytes(head[at : at + 8], "big", signed=True) * 1000
