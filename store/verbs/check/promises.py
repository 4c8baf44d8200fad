"""Compare the checkpoint with the files, with the same verdict as `checkpoint show`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from store.errors import StoreIOError
from store.files.store_reader import StoredFile, StoreReader
from store.structures.checkpoint.files import UNREADABLE, read_file, read_page
from store.structures.commitlog.readable_log import read_store_timestamp
from store.structures.consumequeue.survey import QueueFile
from store.structures.findings import CHECKPOINT_AHEAD, CHECKPOINT_INVALID, Finding
from store.structures.index.survey import IndexFile
from store.structures.registry import Names, rooms_with
from store.verbs.check.seams import SegmentSummary
from store.verbs.recover.checkpoint_review import Reached, page_faults, promises_of

# Enough of a record for its store time, whatever the size of its hosts.
HEAD_SIZE = 96
NOTHING_THERE = {
    "physic": "and the log holds no message",
    "logics": "and no queue has an entry of a message in the log",
    "index": "and no index file is full",
}
"""What the files lack of a time that is promised, by its field."""


def checkpoint_file_findings(files: StoreReader) -> Iterator[Finding]:
    """Yield faults of the file itself: missing, short, or numbers that no broker writes."""
    name = files.name_of("checkpoint")
    try:
        found = read_file(files)
    except StoreIOError as error:
        if error.errno not in UNREADABLE:
            raise
        yield Finding(CHECKPOINT_INVALID, name, 0, detail=error.reason)
        return
    for fault in page_faults(*found):
        yield Finding(CHECKPOINT_INVALID, name, 0, detail=fault)


def promise_findings(
    files: StoreReader,
    segments: Sequence[StoredFile],
    seams: Sequence[SegmentSummary],
    surveys: Sequence[QueueFile | IndexFile],
    lost: Collection[str] = (),
) -> Iterator[Finding]:
    """Yield the checkpoint's times and offsets that are ahead of the files.

    lost  fields of the page to skip, as another finding reports their lost files
    """
    page, file_size = read_page(files)
    if file_size is None:
        return
    reached = _reached(files, segments, seams, surveys)
    for number, promise in enumerate(promises_of(page, reached)):
        if promise.is_ahead and promise.field not in lost:
            unit = "bytes" if promise.is_offset else "ms"
            later = NOTHING_THERE.get(promise.field) if not promise.reached else None
            later = later or f"{promise.excess} {unit} later than anything in the files"
            detail = f"{promise.field} is {promise.said}, {later}"
            yield Finding(CHECKPOINT_AHEAD, files.name_of("checkpoint"), number * 8, detail=detail)


def _reached(
    files: StoreReader,
    segments: Sequence[StoredFile],
    seams: Sequence[SegmentSummary],
    surveys: Sequence[QueueFile | IndexFile],
) -> Reached:
    last = next((seam for seam in reversed(seams) if seam.record_count), None)
    newest_unit = max((s.high for s in surveys if isinstance(s, QueueFile)), default=-1)
    for room in rooms_with(Names.of_files(files, reads=False), "queues", "newest_record"):
        newest_unit = max(newest_unit, room.newest_record(files))
    log_end = _log_end(segments, last) if last is not None else 0
    log_ms = max((seam.newest_ms for seam in seams), default=0)
    queue_ms = _store_time(files, segments, newest_unit)
    if newest_unit >= log_end or (newest_unit >= 0 and not queue_ms):
        # A unit past the end or inside a record may be a leftover, or point to one.
        queue_ms = max(queue_ms, log_ms)
    return Reached(
        log_end=log_end,
        log_ms=log_ms,
        queue_ms=queue_ms,
        first_ms=_first_time(segments, seams),
        index_ms=max((s.end_timestamp_ms for s in surveys if isinstance(s, IndexFile) and s.is_full), default=0),
    )


def _log_end(segments: Sequence[StoredFile], last: SegmentSummary) -> int:
    """Return the end of a log with these last records.

    After a blank it is the start of the next segment, which has none.
    """
    following = (segment.number for segment in segments if segment.number > last.file_start)
    return next(following, last.end or 0) if last.outcome == "blank" else last.end or 0


def _first_time(segments: Sequence[StoredFile], seams: Sequence[SegmentSummary]) -> int:
    """Return the store time of the log's first record, 0 if it was not read."""
    is_first = bool(seams) and bool(segments) and seams[0].file_start == segments[0].number
    return seams[0].first_ms if is_first and seams[0].record_count else 0


def _store_time(files: StoreReader, segments: Sequence[StoredFile], log_offset: int) -> int:
    """Return the store time of the record at a log offset; 0 outside of all segments."""
    for segment in segments:
        if 0 <= log_offset - segment.number < segment.size:
            return read_store_timestamp(memoryview(files.read(segment.path, log_offset - segment.number, HEAD_SIZE)))
    return 0
