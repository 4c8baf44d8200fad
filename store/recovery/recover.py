"""Recovery: from what a crash or a shutdown left, to a store whose log, queues and index agree.

    1. the abort marker (or the caller) says normal or abnormal
    2. every consume queue is read to its end; the greatest log offset of all is how far the queues were built
    3. the starting segment (store.recovery.start)
    4. the walk with CRC from there finds the valid end; an abnormal one hands every record to queues and index
    5. the log is cut at the valid end: later segments go, the 8 bytes at the cut are zeroed
    6. queues that point at or behind the end are cut back
    7. beginnings of queues are corrected to where the log begins now
    8. dispatch goes on from where the queues end, as a broker does before it serves

Nothing is written: queues and index change in an overlay. store.recovery.plan makes a Change of it, which can be shown,
applied and undone.

Three differences from the broker, on purpose: the zeroed cut (else the stale record there is read again after the next
put), damage in a size is damage and no memory allocation, and `keep_index` rebuilds the index files that a broker
deletes after a crash.

Source: CommitLog.recoverNormally, recoverAbnormally, DefaultMessageStore.recover, start (4.9.8); the line 5.3 follows
5.3.3 where it differs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from store.commitlog.end import LogEnd, find_end
from store.commitlog.scan import scan_log
from store.disk.mapped_file import MappedFile
from store.disk.read_advice import ReadAdvice
from store.dispatch.dispatcher import Dispatcher
from store.dispatch.fan_out import FanOut, Handler
from store.kernels.run import Run
from store.opened.chain_end import find_chain_end, needs_walk
from store.opened.opened_store import OpenedStore
from store.recovery.lost import count_lost
from store.recovery.start import is_abnormal, starting_segment

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class RecoveryReport:
    """What a recovery found. Offsets are log offsets.

    end               where the log ends, and why
    behind            the segment that the log ends in, and those behind it
    lost              readable messages per topic behind the end
    dispatched_count  records that queues and index lacked at the log's end
    """

    mode: str
    start_reason: str
    end: LogEnd
    queue_end_before: int = -1
    dispatched_count: int = 0
    behind: list[MappedFile] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)

    @property
    def log_end(self) -> int:
        return self.end.log_end


def recover_store(
    opened: OpenedStore,
    *,
    mode: str = "auto",
    keep_index: bool = False,
    cold: bool = False,
    progress: Progress | None = None,
) -> RecoveryReport:
    """Steps 1 to 8 on an opened store; everything that changes lands in its overlay, or in memory."""
    abnormal = is_abnormal(opened, mode)
    queue_end = opened.queues.recover()
    rebuild_from = _drop_unsafe_index(opened, keep_index) if abnormal else None
    start, reason = starting_segment(opened, abnormal=abnormal)
    found = RecoveryReport("abnormal" if abnormal else "normal", reason, LogEnd(start, 0), queue_end_before=queue_end)
    if not opened.log.segments.files:
        opened.queues.destroy()
        return found
    handlers = _handlers(opened)
    if rebuild_from is not None and rebuild_from < start:
        dispatch_stretch(opened, rebuild_from, start, [opened.index])
    advice = ReadAdvice(opened.fs, cold=cold)
    with contextlib.ExitStack() as during:
        if not opened.line.recovers_with_delay_levels:
            during.enter_context(opened.queues.without_delay_levels())
        with FanOut(handlers if abnormal else []) as builders:
            found.end = walk(opened, start, [builders], progress, advice)
            # What is behind the end is read while the builders still work.
            cut_log(opened, found)
    advice.finish()
    if queue_end >= found.log_end:
        opened.queues.truncate_dirty(found.log_end)
    opened.queues.correct_min_offsets(opened.log.min_offset)
    # An abnormal walk has handed everything over; a damaged queue that was cut back may still lack its last units.
    _catch_up(opened, found, [opened.queues] if abnormal else handlers)
    return found


def view_as_it_is(opened: OpenedStore) -> RecoveryReport:
    """For readers of a store that was shut down or is in use: hands over what the log has behind the queues' end.

    Where the queues' units tell the log's end sooner than the broker's walk, they are trusted.
    """
    queue_end = opened.queues.recover()
    if not opened.log.segments.files or needs_walk(opened):
        return recover_store(opened, mode="normal")
    chain_end = find_chain_end(opened)
    if queue_end > chain_end:
        opened.queues.truncate_dirty(chain_end)
    opened.queues.correct_min_offsets(max(opened.log.min_offset, 0))
    begin = max(min(queue_end, chain_end), opened.log.min_offset, 0)
    with FanOut(_handlers(opened)) as builders:
        end = find_end(opened.log.segments.files, begin, opened.scan_rules(check_crc=False), builders.dispatch)
    found = RecoveryReport("as it is", "the end of the consume queues", end, dispatched_count=end.record_count)
    cut_log(opened, found, count=False)
    return found


def walk(
    opened: OpenedStore,
    start: int,
    handlers: Sequence[Handler],
    progress: Progress | None = None,
    advice: ReadAdvice | None = None,
) -> LogEnd:
    """Step 4: from log offset `start` to the first bytes that are no record; every run goes to the handlers."""
    segments = opened.log.segments.files
    total = segments[-1].file_start + segments[-1].size - start
    advice = advice or ReadAdvice(opened.fs)

    def on_run(run: Run) -> None:
        advice.moved_to(run.path, run.buffer, run.end - run.file_start)
        for handler in handlers:
            handler.dispatch(run)
        if progress is not None:
            progress(run.end - start, total)

    return find_end(segments, start, opened.scan_rules(check_crc=opened.config.check_crc_on_recover), on_run)


def cut_log(opened: OpenedStore, found: RecoveryReport, *, count: bool = True) -> None:
    """Step 5: ends the log at `log_end`, and notes in `found` what is at it and behind."""
    files = opened.log.segments
    found.behind = [file for file in files.files if file.file_start + file.size > found.log_end]
    files.truncate_dirty_files(found.log_end)
    files.flushed_where = files.committed_where = found.log_end
    if count:
        found.lost = count_lost(found.behind, found.log_end, opened.fs)


def dispatch_stretch(opened: OpenedStore, start: int, stop: int, handlers: Sequence[Handler]) -> None:
    """Hands the records from `start` to before `stop` to the handlers."""
    for step in scan_log(opened.log.segments.files, start, rules=opened.scan_rules(check_crc=False)):
        if isinstance(step, Run):
            columns = step.columns
            count = int((columns.position + step.file_start < stop).sum())
            for handler in handlers if count else ():
                handler.dispatch(step.part(0, count))
            if count < step.count:
                return


def _handlers(opened: OpenedStore) -> list[Handler]:
    return [opened.queues, opened.index] if opened.config.message_index_enable else [opened.queues]


def _drop_unsafe_index(opened: OpenedStore, keep_index: bool) -> int | None:
    """Removes the index files that a broker deletes after a crash; where to rebuild from, if they are to be kept."""
    unsafe = opened.index.unsafe_files(opened.checkpoint.index_ms)
    begins = [file.header.begin_log_offset for file in unsafe if file.header.index_count > 1]
    opened.index.remove(unsafe)
    return min(begins) if keep_index and begins else None


def _catch_up(opened: OpenedStore, found: RecoveryReport, handlers: Sequence[Handler]) -> None:
    """Step 8: what the queues lack is handed over from where the furthest one ends."""
    begin = max(opened.log.min_offset, opened.queues.max_physic_offset, 0)
    if begin < found.log_end:
        dispatcher = Dispatcher(opened.log, handlers, begin, opened.scan_rules(check_crc=False))
        found.dispatched_count = dispatcher.catch_up()
