"""Recovery: from what a crash or a shutdown left, to a store whose log, queues and index agree.

    1. the abort marker (or the caller) says normal or abnormal
    2. every consume queue is read to its end; the greatest log offset of all is how far the queues were built
    3. the starting segment
         normal    the third last
         abnormal  the newest whose first message is old enough for the checkpoint, else the first
    4. the walk with CRC from there finds the valid end; an abnormal one hands every record to queues and index
    5. the log is cut at the valid end: later segments go, the 8 bytes at the cut are zeroed
    6. queues that point at or behind the end are cut back
    7. beginnings of queues are corrected to where the log begins now
    8. dispatch goes on from where the queues end, as a broker does before it serves

Nothing is written: queues and index change in an overlay. store.recovery.plan makes a Change of it, which can be shown,
applied and undone.

Three differences from the broker, on purpose: the zeroed cut (else the stale record there comes back to life after the
next put), damage in a size is damage and no memory allocation, and `keep_index` rebuilds the index files that a broker
throws away after a crash.

Source: CommitLog.recoverNormally, recoverAbnormally, isMappedFileMatchedRecover, DefaultMessageStore.recover, start
(4.9.8); the line 5.3 follows 5.3.3 where it differs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from store.commitlog.commit_log import read_store_timestamp
from store.commitlog.resync import count_lost
from store.commitlog.scan import Outcome, ScanRules, scan_log
from store.config import BrokerLine
from store.disk.mapped_file import MappedFile
from store.disk.read_advice import ReadAdvice
from store.dispatch.dispatcher import Dispatcher, Handler
from store.dispatch.fan_out import FanOut
from store.errors import BadRequest
from store.formats.message import MAGIC_AT, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, RECORD_MIN_SIZE
from store.kernels.run import Run
from store.opened.chain_end import NORMAL_SEGMENTS, find_chain_end, needs_walk
from store.opened.opened_store import OpenedStore

MODES = ("auto", "normal", "abnormal")

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class RecoveryReport:
    """What a recovery found. Offsets are log offsets."""

    mode: str
    start_offset: int
    start_reason: str
    log_end: int = 0
    outcome: Outcome | None = None
    record_count: int = 0
    dispatched_count: int = 0
    """Records that queues and index lacked at the log's end."""
    walked_bytes: int = 0
    queue_end_before: int = -1
    last_store_timestamp_ms: int = 0
    behind: list[MappedFile] = field(default_factory=list)
    """The segment that the log ends in, and those behind it."""
    lost: dict[str, int] = field(default_factory=dict)
    """Readable messages per topic behind the end."""


def recover_store(
    opened: OpenedStore,
    *,
    mode: str = "auto",
    keep_index: bool = False,
    cold: bool = False,
    progress: Progress | None = None,
) -> RecoveryReport:
    """Steps 1 to 8 on opened parts; everything that changes lands in their overlay, or in memory."""
    if mode not in MODES:
        raise BadRequest(f"recovery is {' or '.join(MODES)}, not {mode}")
    abnormal = opened.abort.exists() if mode == "auto" else mode == "abnormal"
    queue_end = opened.queues.recover()
    rebuild_from = _drop_unsafe_index(opened, keep_index) if abnormal else None
    start, reason = starting_segment(opened, abnormal=abnormal)
    found = RecoveryReport("abnormal" if abnormal else "normal", start, reason, queue_end_before=queue_end)
    pages = ReadAdvice(opened.fs, cold=cold)
    if not opened.log.segments.files:
        opened.queues.destroy()
        return found
    handlers: list[Handler] = [opened.queues]
    if opened.config.message_index_enable:
        handlers.append(opened.index)
    if rebuild_from is not None and rebuild_from < start:
        dispatch_stretch(opened, rebuild_from, start, [opened.index])
    with contextlib.ExitStack() as during:
        if not opened.line.recovers_with_delay_levels:
            during.enter_context(opened.queues.without_delay_levels())
        with FanOut(handlers if abnormal else []) as builders:
            walk(opened, found, [builders], progress, pages)
            # What lies behind the end is read while the builders still work.
            end_log(opened, found)
            found.lost = count_lost(found.behind, found.log_end, opened.fs)
    pages.finish()
    if queue_end >= found.log_end:
        opened.queues.truncate_dirty(found.log_end)
    opened.queues.correct_min_offsets(opened.log.min_offset)
    # An abnormal walk has handed everything over; a damaged queue that was cut back may still lack its last units.
    _catch_up(opened, found, [opened.queues] if abnormal else handlers)
    return found


def starting_segment(opened: OpenedStore, *, abnormal: bool) -> tuple[int, str]:
    """Log offset of the segment where the walk begins, and why."""
    segments = opened.log.segments.files
    if not segments:
        return 0, "the commit log is empty"
    if not abnormal:
        if opened.line.starts_at_queue_end:
            return _newest_queued_segment(opened)
        first = max(0, len(segments) - NORMAL_SEGMENTS)
        return segments[first].file_start, "a normal recovery reads the last three segments"
    limit_ms = trusted_time_ms(opened)
    for segment in reversed(segments):
        time_ms = first_store_timestamp(segment, opened.line)
        if time_ms and time_ms <= limit_ms:
            return segment.file_start, f"the newest whose first message ({time_ms}) the checkpoint covers ({limit_ms})"
    return segments[0].file_start, f"no segment begins before the checkpoint's trusted time ({limit_ms})"


def reads_whole_log(opened: OpenedStore, mode: str) -> bool:
    """Whether a recovery in this mode walks the log from its first segment and hands all of it to queues and index."""
    segments = opened.log.segments.files
    abnormal = opened.abort.exists() if mode == "auto" else mode == "abnormal"
    return abnormal and bool(segments) and starting_segment(opened, abnormal=True)[0] == segments[0].file_start


def _newest_queued_segment(opened: OpenedStore) -> tuple[int, str]:
    """Where 5.3.3 begins a normal recovery."""
    queue_end = opened.queues.max_physic_offset
    for segment in reversed(opened.log.segments.files):
        if segment.file_start <= queue_end:
            return segment.file_start, "the newest that the consume queues reach into"
    return opened.log.segments.files[0].file_start, "no consume queue reaches into a segment"


def trusted_time_ms(opened: OpenedStore) -> int:
    """The checkpoint's time up to which everything is on disk, as an abnormal recovery takes it."""
    config = opened.config
    if config.message_index_enable and config.message_index_safe:
        return opened.checkpoint.min_timestamp_index_ms
    return opened.checkpoint.min_timestamp_ms


def first_store_timestamp(segment: MappedFile, line: BrokerLine) -> int:
    """Store time of a segment's first message, 0 when it does not begin with one."""
    magics = (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2) if line.accepts_v2 else (MESSAGE_MAGIC_V1,)
    head = segment.buffer[: RECORD_MIN_SIZE + 24]
    if len(head) < RECORD_MIN_SIZE or int.from_bytes(head[MAGIC_AT : MAGIC_AT + 4], "big") not in magics:
        return 0
    return read_store_timestamp(head)


def _drop_unsafe_index(opened: OpenedStore, keep_index: bool) -> int | None:
    """Removes the index files that a broker deletes after a crash; where to rebuild from, if they are to be kept."""
    unsafe = opened.index.unsafe_files(opened.checkpoint.index_ms)
    begins = [file.header.begin_log_offset for file in unsafe if file.header.index_count > 1]
    opened.index.remove(unsafe)
    return min(begins) if keep_index and begins else None


def dispatch_stretch(opened: OpenedStore, start: int, stop: int, handlers: list[Handler]) -> None:
    """Hands the records from `start` to before `stop` to the handlers."""
    for step in scan_log(opened.log.segments.files, start, rules=opened.scan_rules(check_crc=False)):
        if isinstance(step, Run):
            columns = step.columns
            count = int((columns.position + step.file_start < stop).sum())
            for handler in handlers if count else ():
                handler.dispatch(step.part(0, count))
            if count < step.count:
                return


def end_log(opened: OpenedStore, found: RecoveryReport) -> None:
    """Makes `log_end` the end of the log, and remembers what lies at it and behind."""
    files = opened.log.segments
    found.behind = [file for file in files.files if file.file_start + file.size > found.log_end]
    files.truncate_dirty_files(found.log_end)
    files.flushed_where = files.committed_where = found.log_end


def walk(
    opened: OpenedStore,
    found: RecoveryReport,
    handlers: Sequence[Handler],
    progress: Progress | None,
    pages: ReadAdvice | None = None,
) -> None:
    """Step 4: from the starting segment to the first thing that is no record."""
    last = opened.log.segments.files[-1]
    total = last.file_start + last.size - found.start_offset
    rules = opened.scan_rules(check_crc=opened.config.check_crc_on_recover)
    follow(opened, found, found.start_offset, handlers, rules, lambda done: progress and progress(done, total), pages)


def follow(
    opened: OpenedStore,
    found: RecoveryReport,
    begin: int,
    handlers: Sequence[Handler],
    rules: ScanRules,
    on_progress: Callable[[int], object] | None = None,
    pages: ReadAdvice | None = None,
) -> None:
    """Walks on from `begin`, hands every run to the handlers, and notes in `found` where the walk ended."""
    found.log_end = begin
    pages = pages or ReadAdvice(opened.fs)
    for step in scan_log(opened.log.segments.files, begin, rules=rules):
        if isinstance(step, Run):
            pages.moved_to(step.path, step.buffer, step.end - step.file_start)
            for handler in handlers:
                handler.dispatch(step)
            found.record_count += step.count
            found.walked_bytes += step.end - step.start
            found.log_end = step.end
            found.last_store_timestamp_ms = int(step.columns.store_timestamp_ms[-1])
        else:
            found.outcome = step
            found.log_end = step.file_start + step.position
        if on_progress is not None:
            on_progress(found.log_end - begin)


def _catch_up(opened: OpenedStore, found: RecoveryReport, handlers: list[Handler]) -> None:
    """Step 8: what the queues lack is handed over from where the furthest one ends."""
    begin = max(opened.log.min_offset, opened.queues.max_physic_offset, 0)
    if begin < found.log_end:
        dispatcher = Dispatcher(opened.log, handlers, begin, opened.scan_rules(check_crc=False))
        found.dispatched_count = dispatcher.catch_up()


def view_as_it_is(opened: OpenedStore) -> RecoveryReport:
    """For readers of a store that was shut down or is in use: hands over what the log has behind the queues' end.

    Where the log's end is found sooner by the queues' units than by the broker's walk, they are trusted.
    """
    queue_end = opened.queues.recover()
    if not opened.log.segments.files or needs_walk(opened):
        return recover_store(opened, mode="normal")
    chain_end = find_chain_end(opened)
    if queue_end > chain_end:
        opened.queues.truncate_dirty(chain_end)
    opened.queues.correct_min_offsets(max(opened.log.min_offset, 0))
    begin = max(min(queue_end, chain_end), opened.log.min_offset, 0)
    found = RecoveryReport("as it is", begin, "the end of the consume queues")
    handlers: list[Handler] = [opened.queues]
    if opened.config.message_index_enable:
        handlers.append(opened.index)
    with FanOut(handlers) as builders:
        follow(opened, found, begin, [builders], opened.scan_rules(check_crc=False))
    found.dispatched_count = found.record_count
    end_log(opened, found)
    return found
