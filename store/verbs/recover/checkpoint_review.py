"""Compare the checkpoint's promises with the files.

    said > reached   the checkpoint is ahead of the files: a recovery would trust missing data
    said = 0         never set: an abnormal recovery reads the whole log
    else             the next abnormal recovery starts somewhat earlier than necessary

Lost units and index files are first rebuilt in an overlay, so they count as present.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import NamedTuple

from store.errors import DamagedRecord
from store.formats.checkpoint_page import CHECKPOINT_SIZE, FIELD_NAMES, CheckpointPage
from store.formats.wording import amount_is
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.end import LogEnd
from store.structures.commitlog.start import first_store_timestamp, starting_segment
from store.verbs.recover.lost_queues import build_all_lost, newest_time_ms
from store.verbs.recover.walk import Progress, dispatch_stretch, walk


class Reached(NamedTuple):
    """The reach of the files: the log's end, and the store times of log, queues and full index files.

    A promise about messages before `first_ms`, the log's first record, counts as kept: they expired, with their units
    and entries.
    """

    log_end: int
    log_ms: int
    queue_ms: int
    index_ms: int
    first_ms: int = 0


@dataclass(frozen=True, slots=True)
class Promise:
    """One field of the page: it promises `promise` up to `said`.

    Values are epoch ms, or log offsets if `is_offset`. Messages up to `expired` are no longer in the store.
    """

    field: str
    said: int
    reached: int
    promise: str
    is_offset: bool = False
    expired: int = 0

    @property
    def verdict(self) -> str:
        if self.is_ahead:
            return "ahead of the files"
        if not self.said:
            return "never set"
        return "behind" if self.said < self.reached else "ok"

    @property
    def is_ahead(self) -> bool:
        """Whether a recovery would trust missing data; a field of 0 promises nothing."""
        # The store times of messages from before 1970 are negative.
        return self.said > max(0, self.reached, self.expired)

    @property
    def excess(self) -> int:
        """The distance from the files' end to the promise, in ms or bytes."""
        return max(0, self.said - self.reached)


def promises_of(page: CheckpointPage, reached: Reached) -> list[Promise]:
    """Compare every promise of the page with the files: one verdict for `check` and `checkpoint show`."""
    promises = [
        Promise("physic", page.physic_ms, reached.log_ms, "log flushed", expired=reached.first_ms),
        Promise("logics", page.logics_ms, reached.queue_ms, "queues built", expired=reached.first_ms),
        Promise("index", page.index_ms, reached.index_ms, "index flushed", expired=reached.first_ms),
    ]
    if page.master_flushed_offset or page.confirm_log_offset or page.logics_log_offset:
        end = reached.log_end
        promises += [
            Promise("master_flushed", page.master_flushed_offset, end, "master flushed", is_offset=True),
            Promise("confirm", page.confirm_log_offset, end, "last valid record", is_offset=True),
        ]
    if page.logics_log_offset:
        promises.append(Promise("logics_log", page.logics_log_offset, end - 1, "units flushed", is_offset=True))
    return promises


def page_faults(page: CheckpointPage, file_size: int | None) -> list[str]:
    """Describe the faults of the file itself, as clauses for people; empty for a sound file."""
    if file_size is None:
        return ["there is no checkpoint: an abnormal recovery reads the whole log"]
    faults = []
    if file_size < CHECKPOINT_SIZE:
        faults.append(f"{file_size} bytes, expected {CHECKPOINT_SIZE}")
    fields = page._asdict()
    faults += [f"{name} is negative ({fields[name]})" for name in FIELD_NAMES if fields[name] < 0]
    return faults


@dataclass(frozen=True, slots=True)
class CheckpointReview:
    """The page, its promises, and the start of an abnormal recovery.

    `file_size` is None without a file.
    """

    page: CheckpointPage
    file_size: int | None
    faults: list[str]
    promises: list[Promise]
    log_end: int
    queue_end: int
    trusted_time_ms: int
    start_segment: int
    start_reason: str
    built: list[str]
    """Lost parts that were rebuilt from the log for the review, as sentences for people."""

    @property
    def is_ahead(self) -> bool:
        """Whether any promise goes beyond the files."""
        return any(promise.is_ahead for promise in self.promises)


def review_checkpoint(opened: OpenedStore, *, progress: Progress | None = None) -> CheckpointReview:
    """Compare the page with newest segment, queues' ends and full index files; write nothing.

    Lost units and index files are first rebuilt in the overlay. Queues in a database end at the database's own end.
    """
    walked: LogEnd | None = None
    if opened.config.queues_in_database:
        start, reason, queue_end, log_end = _ends_by_database(opened, progress)
        built = _build_lost_index(opened, log_end)
    else:
        start, reason = starting_segment(opened, abnormal=True)
        built, found = build_all_lost(opened, finds_absent=False, progress=progress)
        walked = found.end
        built += _build_lost_index(opened, walked.log_end)
    end = _log_end(opened, walked, progress)
    if built:
        opened.queues.recover()
    if opened.config.queues_in_database:
        queue_ms = end.last_store_timestamp_ms if queue_end >= end.log_end else 0
    else:
        queue_end, queue_ms = max(opened.queues.max_physic_offset, 0), newest_time_ms(opened)
        # A unit past the end may point to a leftover.
        queue_ms = queue_ms if queue_end <= end.log_end else max(queue_ms, end.last_store_timestamp_ms)
    page, file_size = opened.checkpoint.page, opened.checkpoint.file_size
    reached = Reached(
        end.log_end, end.last_store_timestamp_ms, queue_ms, opened.index.flushed_until_ms, first_time_ms(opened)
    )
    return CheckpointReview(
        page=page,
        file_size=file_size,
        faults=page_faults(page, file_size),
        promises=promises_of(page, reached),
        log_end=end.log_end,
        queue_end=queue_end,
        trusted_time_ms=page.min_timestamp_ms,
        start_segment=start,
        start_reason=reason,
        built=[*opened.assumed, *built] if built else [],
    )


def _log_end(opened: OpenedStore, walked: LogEnd | None, progress: Progress | None) -> LogEnd:
    """Return the end of the newest written segment.

    An earlier walk that reached this segment has found the same end.
    """
    newest = _newest_written_segment(opened)
    if walked is not None and walked.log_end > newest:
        return walked
    return walk(opened, newest, progress=progress, check_crc=False)


def _ends_by_database(opened: OpenedStore, progress: Progress | None) -> tuple[int, str, int, int]:
    """Return an abnormal recovery's start with its reason, the end of database queues, and the log's."""
    from store.verbs.recover.database import foretell_on_database

    assert opened.overlay is not None, "a review is made on a store with an overlay"
    found = foretell_on_database(opened, "abnormal", opened.overlay.folder, progress, passes_damage=True)
    return found.end.start, found.start_reason, found.queue_end_before, found.log_end


def _build_lost_index(opened: OpenedStore, log_end: int) -> list[str]:
    """Build the index files after the newest one; return a sentence if some were lost."""
    if not opened.config.writes_index_files or opened.index.failures:
        return []
    if not opened.index.files or opened.index.files[-1].is_readable():
        dispatch_stretch(opened, max(opened.log.start, _index_end(opened)), log_end, [opened.index])
    count = len(opened.index.staged_files())
    return [f"{amount_is(count, 'index file')} missing or incomplete, and built from the log"] if count else []


def _index_end(opened: OpenedStore) -> int:
    """Return the end of the last message in the index; its start if the log does not have the message."""
    ends = [file.header.end_log_offset for file in opened.index.files if file.header.index_count > 1]
    last = max(ends, default=0)
    with contextlib.suppress(DamagedRecord):
        message = opened.log.lookup(last) if ends else None
        last += message.size if message is not None else 0
    return last


def first_time_ms(opened: OpenedStore) -> int:
    """Return the store time of the log's first record, 0 without one."""
    first = opened.log.segments.first
    return first_store_timestamp(first, opened.line) if first is not None else 0


def _newest_written_segment(opened: OpenedStore) -> int:
    segments = opened.log.segments.files
    written = (one for one in reversed(segments) if first_store_timestamp(one, opened.line))
    newest = next(written, segments[0] if segments else None)
    return newest.file_start if newest is not None else 0
