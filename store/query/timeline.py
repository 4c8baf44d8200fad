"""timeline: messages and bytes of the log over time, pauses in it, and clock jumps.

A store time before that of the previous record is a backward jump: the broker's clock was set back. A forward pause
longer than `gap_ms` means that nothing was put, or that the broker was down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from store.files.store_reader import StoreReader
from store.formats.run import Int64Array, Run
from store.structures.commitlog.message_batch import MessageRows
from store.structures.commitlog.scan import ScanRules
from store.structures.commitlog.slices import LogSlice, readable_runs

UNITS_MS = {"second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
LAST_SECONDS = 10
MAX_JUMPS = 1000
END_OF_TIME_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Jump:
    """Two adjacent records with too large a step in store time; `log_offset` is the later record's."""

    kind: str
    log_offset: int
    before_ms: int
    after_ms: int


@dataclass(slots=True)
class Timeline:
    """Sums by bucket; a bucket's key is its start in epoch ms.

    last_seconds  messages by second, for the last LAST_SECONDS seconds with messages
    jump_count    the number of all jumps; `jumps` has the first MAX_JUMPS
    """

    unit: str
    messages: Counter[int] = field(default_factory=Counter)
    size_bytes: Counter[int] = field(default_factory=Counter)
    last_seconds: Counter[int] = field(default_factory=Counter)
    jumps: list[Jump] = field(default_factory=list)
    jump_count: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    """The least and the greatest store time of what was counted; None without a message."""

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """Yield (start in ms, messages, bytes) of every bucket with a message, by time."""
        for start in sorted(self.messages):
            yield start, self.messages[start], self.size_bytes[start]


def build_timeline(
    reader: StoreReader,
    unit: str = "minute",
    topic: str | None = None,
    gap_ms: int = 3_600_000,
    on_progress: Callable[[int], None] = lambda done_bytes: None,
    times: tuple[int, int] = (0, END_OF_TIME_MS),
) -> Timeline:
    """Scan the whole log, also past damage.

    `topic` and `times` (first and last store time in ms) limit the counts; jumps are those of the whole log.
    """
    timeline, done, last_ms = Timeline(unit), 0, -1
    for segment in reader.segments():
        whole = LogSlice(segment.path, segment.number, segment.size, 0, segment.size)
        for run in readable_runs(reader, whole, ScanRules(check_crc=False)):
            _add_jumps(timeline, run, last_ms, gap_ms)
            last_ms = int(run.columns.store_timestamp_ms[-1])
            _add_run(timeline, run, topic, times)
            on_progress(done + run.end - segment.number)
        done += segment.size
    return timeline


def _add_run(timeline: Timeline, run: Run, topic: str | None, span: tuple[int, int] = (0, END_OF_TIME_MS)) -> None:
    times, sizes = run.columns.store_timestamp_ms, run.columns.size
    if topic is not None:
        rows = _rows_of_topic(run, topic)
        times, sizes = times[rows], sizes[rows]
    if span != (0, END_OF_TIME_MS):
        rows = np.flatnonzero((times >= span[0]) & (times <= span[1]))
        times, sizes = times[rows], sizes[rows]
    if not len(times):
        return
    first, last = int(times.min()), int(times.max())
    timeline.first_ms = first if timeline.first_ms is None else min(timeline.first_ms, first)
    timeline.last_ms = last if timeline.last_ms is None else max(timeline.last_ms, last)
    _count(timeline.messages, times, UNITS_MS[timeline.unit])
    _count(timeline.size_bytes, times, UNITS_MS[timeline.unit], sizes)
    _count(timeline.last_seconds, times, 1000)
    for start in sorted(timeline.last_seconds)[:-LAST_SECONDS]:
        del timeline.last_seconds[start]


def _count(into: Counter[int], times: Int64Array, unit_ms: int, weights: Int64Array | None = None) -> None:
    starts, inverse = np.unique(times // unit_ms * unit_ms, return_inverse=True)
    sums = np.zeros(len(starts), np.int64)
    np.add.at(sums, inverse, 1 if weights is None else weights)
    for start, amount in zip(starts.tolist(), sums.tolist(), strict=True):
        into[start] += amount


def _rows_of_topic(run: Run, topic: str) -> Int64Array:
    batch = MessageRows(run.buffer, run.file_start, run.columns).batch(pa.schema([("topic", pa.string())]))
    return np.flatnonzero(pc.equal(batch.column(0), topic).to_numpy(zero_copy_only=False))


def _add_jumps(timeline: Timeline, run: Run, last_ms: int, gap_ms: int) -> None:
    times = run.columns.store_timestamp_ms
    before = np.concatenate(([last_ms if last_ms >= 0 else times[0]], times[:-1]))
    steps = times - before
    found = np.flatnonzero((steps < 0) | (steps > gap_ms))
    timeline.jump_count += len(found)
    for row in found[: max(0, MAX_JUMPS - len(timeline.jumps))].tolist():
        kind = "clock-back" if steps[row] < 0 else "pause"
        offset = run.file_start + int(run.columns.position[row])
        timeline.jumps.append(Jump(kind, offset, int(before[row]), int(times[row])))
