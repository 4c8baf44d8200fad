"""stale: records past the valid end of a segment, left by an earlier recovery.

    1. live      every record up to the blank or the zeros that end its segment, also after damage; in the newest
                 segment up to damage with an older record behind: new records overwrote the one before it
    2. stale     after that end, each record with its own log offset; all records of segments in the quarantine
    3. mark      duplicate    the live log has the same message: unique key, topic and queue, body's CRC
                 overwritten  the live log has another message at the same queue offset of the same queue;
                              a prepared or rolled back one has no unit there, and overwrites none
                 lost         neither: the live log has nothing of it

A broker that truncates its log does not zero the bytes after the cut. They are read again once records of the same
lengths overwrite the bytes before them. A record whose front was overwritten is not found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from store.change.workspace import quarantine_folder
from store.files.filesystem import Filesystem
from store.files.store_reader import StoredFile, StoreReader
from store.formats.message import BLANK_SIZE, StoredMessage, decode_record, is_queued
from store.formats.run import Run
from store.layout import parse_segment_name
from store.structures.commitlog.message_batch import MessageRows
from store.structures.commitlog.resync import find_record
from store.structures.commitlog.scan import Blank, End, ScanRules
from store.structures.commitlog.slices import LogSlice, Window, walk_slice, whole_segment

_KEPT_NAME = re.compile(r"^\d{6}-(\d{20})$")
_COLUMNS = pa.schema(
    [
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("body_crc", pa.int32()),
        ("uniq_key", pa.string()),
        ("log_offset", pa.int64()),
        ("sys_flag", pa.int32()),
    ]
)

OnProgress = Callable[[int], None]
QueuePlace = tuple[str, int, int]
"""Topic, queue id and queue offset."""
MessageKey = tuple[str | None, str, int, int]
"""Unique key, topic, queue id and the body's CRC."""


class StaleState(StrEnum):
    """Whether the live log repeats a stale record, replaces it, or has nothing of it."""

    DUPLICATE = "duplicate"
    OVERWRITTEN = "overwritten"
    LOST = "lost"


@dataclass(slots=True)
class StaleRecord:
    """One stale record. `live_log_offset` is that of its live duplicate or replacement, else -1."""

    file: Path
    position: int
    log_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    store_timestamp_ms: int
    body_crc: int
    uniq_key: str | None
    sys_flag: int
    state: StaleState = StaleState.LOST
    live_log_offset: int = -1

    @property
    def queue_place(self) -> QueuePlace:
        return self.topic, self.queue_id, self.queue_offset

    @property
    def message_key(self) -> MessageKey:
        return self.uniq_key, self.topic, self.queue_id, self.body_crc

    def read(self, fs: Filesystem) -> bytes:
        """Return the record's bytes."""
        return fs.read(fs.open_read(self.file), self.position, self.size)


def find_stale(
    reader: StoreReader, root: Path, fs: Filesystem, on_progress: OnProgress = lambda done: None
) -> list[StaleRecord]:
    """Run steps 1 to 3; return the records in the order of their files and positions."""
    found: list[StaleRecord] = []
    ends: dict[int, int] = {}
    segments = reader.segments()
    for segment in segments:
        end = _end_of(reader, segment, is_newest=segment is segments[-1])
        ends[segment.number] = segment.size if end is None else end
        if end is not None:
            found += _records_from(reader, segment, end)
    for kept_reader, segment in _kept_segments(root, fs):
        found += _records_from(kept_reader, segment, 0)
    if found:
        _mark(found, reader, ends, on_progress)
    return found


def _end_of(reader: StoreReader, segment: StoredFile, *, is_newest: bool) -> int | None:
    """Return the position after a segment's blank, or at its final zeros or leftovers; None if full."""
    end: int | None = None
    damaged, last_ms = -1, -1
    for step in walk_slice(reader, whole_segment(segment), ScanRules()):
        if isinstance(step, Run):
            times = step.columns.store_timestamp_ms
            if is_newest and damaged >= 0 and times[0] < last_ms:
                return damaged
            damaged, last_ms = -1, int(times[-1])
        elif isinstance(step, Blank):
            end = step.file_start + step.position + BLANK_SIZE - segment.number
        elif isinstance(step, End):
            end = step.file_start + step.position - segment.number
        else:
            damaged = step.file_start + step.position - segment.number
    return end


def _records_from(reader: StoreReader, segment: StoredFile, start: int) -> Iterator[StaleRecord]:
    """Yield records with their own log offset from a position on, with any bytes between them."""
    path = Path(reader.name_of(segment.path))
    # Listed first: on a tmpfs pages count as written once they are read.
    for begin, stop in list(reader.written_ranges(segment.path, start)):
        position: int | None = max(begin, start)
        while position is not None and position < stop:
            position = _next_record(reader, segment, position, stop)
            if position is None:
                break
            part = LogSlice(segment.path, segment.number, segment.size, position, stop, is_exact=True)
            last = position
            for step in walk_slice(reader, part, ScanRules(), go_on=False):
                if isinstance(step, Run):
                    yield from _of_run(step, segment, path)
                    last = step.end - segment.number
            position = last + 1 if last == position else last


def _next_record(reader: StoreReader, segment: StoredFile, position: int, stop: int) -> int | None:
    data = reader.map(segment.path, position)
    window = Window(Path(segment.path), segment.number + position, len(data.buffer), data)
    found = find_record(window, 0)
    return position + found if found >= 0 and position + found < stop else None


def _of_run(run: Run, segment: StoredFile, path: Path) -> Iterator[StaleRecord]:
    rows = MessageRows(run.buffer, run.file_start, run.columns).batch(_COLUMNS).to_pylist()
    for row, size, time_ms in zip(
        rows, run.columns.size.tolist(), run.columns.store_timestamp_ms.tolist(), strict=True
    ):
        yield StaleRecord(
            path,
            row["log_offset"] - segment.number,
            row["log_offset"],
            size,
            row["topic"],
            row["queue_id"],
            row["queue_offset"],
            time_ms,
            row["body_crc"],
            row["uniq_key"],
            row["sys_flag"],
        )


def _kept_segments(root: Path, fs: Filesystem) -> Iterator[tuple[StoreReader, StoredFile]]:
    """Yield segments in the quarantine; queue files have such names too, and hold no record."""
    for change in fs.list_folder(quarantine_folder(root)):
        folder = change.path / "files"
        for entry in fs.list_folder(folder) if change.is_folder else ():
            name = _KEPT_NAME.match(entry.path.name)
            start = parse_segment_name(name[1]) if name is not None else None
            if start is not None and entry.is_file:
                yield (
                    StoreReader(str(folder), fs),
                    StoredFile(entry.path.name, start, entry.size, entry.mtime_ns // 1_000_000),
                )


# The marks.


def _mark(stale: list[StaleRecord], reader: StoreReader, ends: Mapping[int, int], on_progress: OnProgress) -> None:
    """Run step 3, in one walk of the live log up to the end of each segment."""
    by_key: dict[MessageKey, list[StaleRecord]] = {}
    by_place: dict[QueuePlace, list[StaleRecord]] = {}
    for one in stale:
        if is_queued(one.sys_flag):
            by_place.setdefault(one.queue_place, []).append(one)
        if one.uniq_key:
            by_key.setdefault(one.message_key, []).append(one)
    topics = pa.array(sorted({one.topic for one in stale}))
    for batch in _live_batches(reader, ends, topics, on_progress):
        for row in batch.to_pylist():
            for one in by_key.get((row["uniq_key"], row["topic"], row["queue_id"], row["body_crc"]), ()):
                _take(one, StaleState.DUPLICATE, row)
            place = (row["topic"], row["queue_id"], row["queue_offset"])
            for one in by_place.get(place, ()) if is_queued(row["sys_flag"]) else ():
                is_same = row["body_crc"] == one.body_crc and row["uniq_key"] == one.uniq_key
                _take(one, StaleState.DUPLICATE if is_same else StaleState.OVERWRITTEN, row)


def _take(one: StaleRecord, state: StaleState, row: dict[str, int]) -> None:
    if one.state is not StaleState.DUPLICATE:
        one.state, one.live_log_offset = state, row["log_offset"]


def _live_batches(
    reader: StoreReader, ends: Mapping[int, int], topics: pa.Array, on_progress: OnProgress
) -> Iterator[pa.RecordBatch]:
    """Yield live records of these topics."""
    done = 0
    for segment in reader.segments():
        live = whole_segment(segment)._replace(stop=ends[segment.number])
        for step in walk_slice(reader, live, ScanRules()):
            if isinstance(step, Run):
                batch = MessageRows(step.buffer, step.file_start, step.columns).batch(_COLUMNS)
                yield batch.filter(pc.is_in(batch.column("topic"), value_set=topics))
                on_progress(done + step.end - segment.number)
        done += segment.size


def message_of(record: StaleRecord, fs: Filesystem) -> StoredMessage:
    """Return the record, decoded."""
    return decode_record(record.read(fs), file=record.file, position=record.position)
