"""Parts of segments: how the log is divided among tasks, and the scan of one part.

A segment is cut every `part_bytes`. A cut need not be a record's start: the scan of a part goes on to the first record
at or past its end, and the next part searches for that record. Each part finds it alone, as a record holds its position
(magic at 4, log offset at 28). So planning the parts reads nothing.

        cut                   cut
    |    :  |     |      |     :   |
    part 0  ><-    part 1     ->   part 2 …

A part is read through a window on its file. For a local file, the window is its whole rest, mapped. For a remote file
it has WINDOW_BYTES; the next window begins at the first record that did not fit.
After damage the scan resumes by the rule of store.structures.commitlog.resync. Readers of messages resume after zeros
too, if other bytes follow: a lost page or a zeroed head leaves such a place, and the file's unused rest does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from store.files.readable import Stretch, shortened
from store.files.store_reader import StoredFile, StoreReader
from store.formats.columns import DamageReason
from store.formats.message import BLANK_SIZE
from store.formats.run import Run
from store.structures.commitlog.resync import LARGEST_RECORD_BYTES, find_record, read_on
from store.structures.commitlog.scan import Blank, Damage, End, ScanRules, Step, scan_segment

DEFAULT_PART_BYTES = 256 << 20
WINDOW_BYTES = 64 << 20
FIRST_ZERO_CHUNK_BYTES = 64 << 10
ZERO_CHUNK_BYTES = 4 << 20
BATCH_ROWS = 1 << 16


class LogSlice(NamedTuple):
    """The records of one segment that start in [start, stop), both positions in the file.

    is_exact  the scan begins at `start` itself, even if no record begins there; else at the first record from there on
    """

    path: str
    file_start: int
    file_size: int
    start: int
    stop: int
    is_exact: bool = False

    @property
    def log_start(self) -> int:
        return self.file_start + self.start

    @property
    def log_stop(self) -> int:
        return self.file_start + self.stop


@dataclass(slots=True)
class Window:
    """Some bytes of a segment as a Segment for the scan (store.structures.commitlog.scan)."""

    path: Path
    file_start: int
    size: int
    bytes: Stretch

    @property
    def buffer(self) -> memoryview:
        return self.bytes.buffer

    @property
    def readable_position(self) -> int:
        return self.size

    def readable_end(self, start: int, stop: int) -> int:
        return self.bytes.readable_end(start, stop)

    def behind_unreadable(self, start: int, stop: int) -> int:
        return self.bytes.behind_unreadable(start, stop)

    def next_written(self, position: int) -> int:
        return self.bytes.next_written(position)

    def written_end(self) -> int:
        return self.size


def split(segments: Sequence[StoredFile], part_bytes: int = DEFAULT_PART_BYTES) -> list[LogSlice]:
    """Return the parts of these segments, in log order."""
    return [
        LogSlice(file.path, file.number, file.size, start, min(start + part_bytes, file.size))
        for file in segments
        for start in range(0, file.size, part_bytes)
    ]


def whole_segment(segment: StoredFile) -> LogSlice:
    """Return a slice of the whole segment, scanned from its first byte."""
    return LogSlice(segment.path, segment.number, segment.size, 0, segment.size, is_exact=True)


def split_into(segments: Sequence[StoredFile], count: int) -> list[LogSlice]:
    """Split as `split` does, with `count` parts per segment."""
    return [part for file in segments for part in split([file], max(1, -(-file.size // count)))]


def walk_slice(
    files: StoreReader,
    part: LogSlice,
    rules: ScanRules,
    *,
    go_on: bool = True,
    with_bad_bodies: bool = False,
    past_zeros: bool = False,
) -> Iterator[Step]:
    """Scan a part: its runs and their end; with `go_on` also the readable rest after every damage.

    with_bad_bodies  yield a record with a damaged body as a Run after its Damage
    past_zeros       yield an End before other bytes as a Damage

    Positions in a step are relative to its file_start, the window's start. Their sum is the log offset.
    """

    def scan(log_offset: int) -> Iterator[Step]:
        if log_offset >= part.log_stop:
            return iter(())
        steps = _walk_windows(files, part, log_offset - part.file_start, rules)
        return _with_zeros_as_damage(files, part, steps) if past_zeros else steps

    def scan_bad_body(log_offset: int) -> Iterator[Step]:
        start = log_offset - part.file_start
        one = part._replace(start=start, stop=start + 1)
        return _walk_windows(files, one, start, replace(rules, check_crc=False))

    def find(log_offset: int) -> int | None:
        return _find_in_file(files, part, log_offset - part.file_start, rules)

    first = part.log_start if part.is_exact or not part.start else find(part.log_start)
    if go_on:
        return read_on(scan, find, first, scan_bad_body=scan_bad_body if with_bad_bodies else None)
    return iter(()) if first is None else scan(first)


def readable_runs(files: StoreReader, part: LogSlice, rules: ScanRules) -> Iterator[Run]:
    """Read the runs of a part, also after damage and zeros; record the skipped bytes in `files`."""
    skipped: tuple[str, int] | None = None
    for step in walk_slice(files, part, rules, past_zeros=True):
        if isinstance(step, Run):
            if skipped is not None:
                files.damage[skipped] += f" (up to offset {step.start - part.file_start})"
                skipped = None
            yield step
        elif isinstance(step, Damage):
            skipped = files.name_of(part.path), step.file_start + step.position - part.file_start
            files.damage[skipped] = step.describe_reason()


def _with_zeros_as_damage(files: StoreReader, part: LogSlice, steps: Iterator[Step]) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, End):
            position = step.file_start + step.position - part.file_start
            has_head = position + BLANK_SIZE <= part.file_size
            is_followed = has_head and _behind_zeros(files, part, position) < part.stop
            # Read again: a broker may have put the record meanwhile.
            if is_followed and not any(files.map(part.path, position, BLANK_SIZE).read()):
                step = Damage(step.file_start, step.path, step.position, DamageReason.ZEROS, -1)
        yield step


def _walk_windows(files: StoreReader, part: LogSlice, position: int, rules: ScanRules) -> Iterator[Step]:
    """Scan from a record's start to the part's stop or the first outcome, window by window."""
    size = part.file_size if files.is_local else WINDOW_BYTES
    while True:
        window = _window(files, part, position, size)
        is_last = window.file_start + window.size >= part.file_start + part.file_size
        stop, moved = part.stop - position, position
        for step in scan_segment(window, 0, rules=rules, capacity=BATCH_ROWS):
            if isinstance(step, Run):
                inside = int(np.searchsorted(step.columns.position, stop))
                if inside:
                    yield step.part(0, inside)
                    moved = step.part(0, inside).end - part.file_start
                if inside < step.count:
                    return
            elif is_last or not _may_be_cut(step):
                if step.position < stop:
                    yield step
                return
            else:
                size, position = (size, moved) if moved > position else (size * 2, position)
    # The loop above leaves through a return: a scan's last value is always an outcome.


def _may_be_cut(step: Blank | End | Damage) -> bool:
    """Return whether more bytes after the window could turn this outcome into a record."""
    return isinstance(step, End) or (isinstance(step, Damage) and step.reason == DamageReason.SIZE_BEYOND_SEGMENT)


def _window(files: StoreReader, part: LogSlice, position: int, size: int) -> Window:
    data = files.map(part.path, position, size)
    path, mapped = Path(files.name_of(part.path)), len(data.buffer)
    if mapped < min(size, part.file_size - position):
        # Otherwise the loop would request the rest forever.
        raise shortened(path, part.file_size, position + mapped)
    return Window(path, part.file_start + position, mapped, data)


def _find_in_file(files: StoreReader, part: LogSlice, position: int, rules: ScanRules) -> int | None:
    """Return the log offset of the first record from `position` on, even past the stop; else None."""
    while position < part.stop:
        # The window reaches beyond the stop, as a record may begin before the stop and end after it.
        position = _behind_zeros(files, part, position)
        size = part.stop - position + LARGEST_RECORD_BYTES if files.is_local else WINDOW_BYTES
        window = _window(files, part, position, size)
        found = find_record(window, 0, accept_v2=rules.accept_v2)
        if found >= 0:
            return window.file_start + found
        if window.size < size or files.is_local:
            return None  # the window held the whole rest
        position += size - LARGEST_RECORD_BYTES
    return None


def _behind_zeros(files: StoreReader, part: LogSlice, position: int) -> int:
    """Skip zeros of a preallocated file: return `position`, or a later position after only zeros."""
    size = FIRST_ZERO_CHUNK_BYTES
    while position < part.stop:
        start, stop = next(files.written_ranges(part.path, position), (part.stop, part.stop))
        if start >= part.stop:
            return part.stop
        # On a tmpfs the pages of a hole count as written once they are read.
        position = max(position, start - 8)
        data, size = files.map(part.path, position, min(size, stop - position)), min(4 * size, ZERO_CHUNK_BYTES)
        if data.readable_end(0, len(data.buffer)) < len(data.buffer):
            return position
        if np.count_nonzero(np.frombuffer(data.buffer, np.uint8)):
            return position
        # A record begins with the zero bytes of its size, so it may begin shortly before the first other byte.
        position += max(len(data.buffer) - 8, 8)
    return position
