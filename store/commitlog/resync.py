"""What can still be read behind damage.

A record carries its magic and its own log offset, so behind a place that is no record the walk looks for the next one
that names the very place where it stands, and goes on from there. Blanks are followed, segments that are missing are
passed over. What was skipped is counted, never silently dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from store.commitlog.scan import DEFAULT_RULES, Blank, Damage, End, ScanRules, Segment, Step, scan_segment
from store.disk.filesystem import Filesystem
from store.formats.columns import COLUMN_NAMES
from store.formats.java import decode_utf8
from store.kernels import Kernels, for_work
from store.kernels.run import Run

_ZERO_CHECK_SIZE = 16 * 1024 * 1024


def readable_behind(
    segments: Sequence[Segment], log_offset: int, *, rules: ScanRules = DEFAULT_RULES, kernels: Kernels | None = None
) -> Iterator[Step]:
    """Every readable record at or behind `log_offset`, and between the runs the Damage, Blank and End that were met."""
    behind = [segment for segment in segments if segment.file_start + segment.size > log_offset]
    kernels = kernels or for_work(sum(segment.size for segment in behind))
    for segment in behind:
        yield from _readable_in(segment, max(0, log_offset - segment.file_start), rules, kernels)


def _readable_in(segment: Segment, position: int, rules: ScanRules, kernels: Kernels) -> Iterator[Step]:
    view, limit = kernels.view(segment.buffer), segment.size
    row = np.empty((len(COLUMN_NAMES), 1), np.int64)
    while position < limit:
        # A record that merely stands here, but names another place, is a leftover of an earlier life of the file.
        for step in scan_segment(segment, position, limit, rules=rules, kernels=kernels):
            position = _next_position(step, position)
            yield step
        if isinstance(step, Blank):
            position = step.position + 8
        elif isinstance(step, End | Damage):
            position = step.position + 1
        found = kernels.find_record_start(view, position, limit, segment.file_start, rules.accept_v2, row)
        if found < 0:
            return
        position = int(found)


def _next_position(step: Step, position: int) -> int:
    return step.end - step.file_start if isinstance(step, Run) else position


def count_topics(run: Run) -> Counter[str]:
    """Messages per topic in a run."""
    columns, buffer = run.columns, run.buffer
    places = zip(columns.topic_position.tolist(), columns.topic_size.tolist(), strict=True)
    counts = Counter(bytes(buffer[at : at + size]) for at, size in places)
    return Counter({decode_utf8(topic): count for topic, count in counts.items()})


def has_bytes_behind(segment: Segment, position: int, fs: Filesystem) -> bool:
    """Whether anything but zeros stands at or behind `position`."""
    return has_bytes_in(
        fs.written_ranges(segment.path, position), lambda start, stop: segment.buffer[start : min(stop, segment.size)]
    )


def has_bytes_in(ranges: Iterable[tuple[int, int]], read: Callable[[int, int], Any]) -> bool:
    """Whether anything but zeros stands in the ranges, of which `read(start, stop)` gives piece after piece."""
    return any(
        np.frombuffer(read(at, min(at + _ZERO_CHECK_SIZE, stop)), np.uint8).any()
        for start, stop in ranges
        for at in range(start, stop, _ZERO_CHECK_SIZE)
    )


def count_lost(segments: Sequence[Segment], log_offset: int, fs: Filesystem) -> dict[str, int]:
    """Readable messages per topic at or behind `log_offset`: what a cut there takes out of sight.

    Segments in which nothing was ever written behind that place are not read.
    """
    counts: Counter[str] = Counter()
    written = [
        segment
        for segment in segments
        if segment.file_start + segment.size > log_offset
        and has_bytes_behind(segment, max(0, log_offset - segment.file_start), fs)
    ]
    for step in readable_behind(written, log_offset):
        if isinstance(step, Run):
            counts += count_topics(step)
    return dict(sorted(counts.items()))
