"""Scans of the log for records: by bytes anywhere in a record, or by a pattern in its body.

The bytes are searched in a whole run of records at once; a hit belongs to the record around it. A hit is only a
candidate: the caller decodes the record and decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

import numpy as np
import numpy.typing as npt

from store.errors import DamagedRecord
from store.files.byte_search import find_bytes
from store.files.store_reader import StoredFile, StoreReader
from store.formats.body import compression_of, decode_body
from store.formats.message import COMPRESSED, StoredMessage, decode_record
from store.formats.run import Run, Stretch
from store.formats.sets import distinct
from store.structures.commitlog.scan import ScanRules
from store.structures.commitlog.slices import LogSlice, readable_runs
from store.verbs.find.literal import required_literal

OnProgress = Callable[[int, int], None]
Choose = Callable[[Run], Iterable[int]]
"""Returns the numbers of the candidate records in a run, rising."""


def scan_log(
    reader: StoreReader,
    stretches: Iterable[Stretch],
    choose: Choose,
    on_progress: OnProgress = lambda done_bytes, bytes_in_all: None,
) -> Iterator[StoredMessage]:
    """Yield the chosen records of these stretches, in log order; damage is skipped."""
    done = 0
    ends = [(segment, segment.number + reader.written_end(segment.path)) for segment in reader.segments()]
    parts = [
        (segment, Stretch(max(stretch.start, segment.number), min(stretch.stop, end)))
        for stretch in stretches
        for segment, end in ends
    ]
    parts = [(segment, part) for segment, part in parts if part.start < part.stop]
    in_all = sum(part.stop - part.start for _, part in parts)
    for segment, part in parts:
        on_end = partial(_report, on_progress, in_all, done - part.start)
        yield from _scan_segment(reader, segment, part, choose, on_end)
        done += part.stop - part.start


def _report(on_progress: OnProgress, in_all: int, before: int, end: int) -> None:
    on_progress(before + end, in_all)


def _scan_segment(
    reader: StoreReader, segment: StoredFile, stretch: Stretch, choose: Choose, on_end: Callable[[int], None]
) -> Iterator[StoredMessage]:
    start, stop = stretch.start - segment.number, stretch.stop - segment.number
    part = LogSlice(segment.path, segment.number, segment.size, start, stop)
    for run in readable_runs(reader, part, ScanRules()):
        for number in choose(run):
            message = message_of(run, number)
            if message is not None:
                yield message
        on_end(run.end)


def message_of(run: Run, number: int) -> StoredMessage | None:
    """Return one record of a run; None if its bytes contradict each other."""
    try:
        return decode_record(run.record(number))
    except DamagedRecord:
        return None


def with_any_of(needles: Iterable[bytes]) -> Choose:
    """Choose records that hold one of these byte strings."""
    wanted = list(needles)

    def choose(run: Run) -> Iterable[int]:
        first, end = int(run.columns.position[0]), run.end - run.file_start
        hits = [hit for needle in wanted for hit in find_bytes(run.buffer, needle, first, end)]
        if not hits:
            return ()
        numbers: list[int] = distinct(np.searchsorted(run.columns.position, hits, side="right") - 1).tolist()
        return numbers

    return choose


def with_text(text: bytes) -> Choose:
    """Choose records that hold the bytes, in a compressed body too."""
    in_bytes = with_any_of([text])

    def choose(run: Run) -> Iterable[int]:
        columns = run.columns
        compressed = np.flatnonzero((columns.sys_flag & COMPRESSED) != 0).tolist()
        in_bodies = {number for number in compressed if text in (_decompressed(run, number) or b"")}
        return sorted({*in_bytes(run), *in_bodies}) if in_bodies else in_bytes(run)

    return choose


def _decompressed(run: Run, number: int) -> bytes | None:
    """Return the decompressed body of a record; None of a plain one."""
    columns = run.columns
    sys_flag, start = int(columns.sys_flag[number]), int(columns.body_position[number])
    if not compression_of(sys_flag):
        return None
    return decode_body(bytes(run.buffer[start : start + int(columns.body_size[number])]), sys_flag).data


def _may_hold(run: Run, literal: bytes) -> npt.NDArray[np.bool_]:
    """Mark the records that may hold the bytes; with many hits, all records."""
    first, end = int(run.columns.position[0]), run.end - run.file_start
    hits = list(islice(find_bytes(run.buffer, literal, first, end), run.count // 4 + 1))
    found = np.full(run.count, len(hits) > run.count // 4)
    found[np.searchsorted(run.columns.position, np.array(hits, np.int64), side="right") - 1] = True
    return found


# Anchors, lookarounds, atomic groups and possessive repeats: a match may depend on the bytes around the body.
_NEEDS_LIMITS = re.compile(rb"[\^$]|\\[bBAZ]|\(\?[=!<>]|[*+?}]\+")


def with_body(pattern: re.Pattern[bytes]) -> Choose:
    """Choose records whose decompressed body matches the pattern.

    If every match holds a literal, only records with the literal are searched. Otherwise a run without any match in
    its bytes is skipped. Compressed bodies are always searched.
    """
    literal = required_literal(pattern.pattern)
    is_free = _NEEDS_LIMITS.search(pattern.pattern) is None

    def choose(run: Run) -> Iterator[int]:
        columns = run.columns
        compressed = (columns.sys_flag & COMPRESSED) != 0
        rows = np.arange(run.count)
        if literal:
            rows = np.flatnonzero(compressed | _may_hold(run, literal))
        elif is_free and pattern.search(run.buffer, int(columns.position[0]), run.end - run.file_start) is None:
            rows = np.flatnonzero(compressed)
        names = (rows, columns.body_position[rows], columns.body_size[rows], compressed[rows])
        for number, start, size, is_compressed in zip(*(name.tolist() for name in names), strict=True):
            body = _decompressed(run, number) if is_compressed else None
            # Search a slice: with pos and endpos, ^ and a lookbehind would see the bytes before the body.
            if pattern.search(run.buffer[start : start + size] if body is None else body) is not None:
                yield number

    return choose
