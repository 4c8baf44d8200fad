"""The cleaning of a live store, as a broker's services do it.

    CleanCommitLogService       checks hour and space, sets and clears DISK_FULL, deletes expired segments
    CorrectLogicOffsetService   5.x: moves the start of batch queues past expired entries
    CleanConsumeQueueService    deletes queue, extension and index files before the log's start, once the log's start
                                has moved

A message that a reader holds stays valid: it is a copy, or a view that keeps the segment's map.

Two differences from the broker. A segment that is not dispatched yet is kept, so that every message gets its unit.
Segments have no reference counts; if the disk refuses to delete a file, the next pass tries again
(redeleteHangedFile). Later files are deleted after it, so that the log gets no gap.

Source: DefaultMessageStore.CleanCommitLogService, CleanConsumeQueueService (4.9.8), CorrectLogicOffsetService (5.3.3).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from store.engine.live.running_flags import RunningFlag, RunningFlags
from store.engine.live.services import describe_full
from store.engine.live.timetable import TimedTask
from store.files.mapped_file import MappedFile
from store.opened.opened_store import OpenedStore
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.verbs.clean.expired import delete_expired
from store.verbs.clean.rules import Retention, SegmentAge, find_trigger, judge_segments

FIRST_RUN_MS = 60_000


class CleanCommitLogService:
    """Cleans the log of `opened`.

    dispatched_to  the log offset up to which queues and index are built
    """

    def __init__(self, opened: OpenedStore, flags: RunningFlags, dispatched_to: Callable[[], int]) -> None:
        self._opened, self._flags, self._dispatched_to = opened, flags, dispatched_to
        self._retention = Retention.of(opened.config, opened.line)
        self._hanging: MappedFile | None = None
        self._stopping = threading.Event()
        self.deleted: list[str] = []
        """Names of the deleted segments, the newest 100."""

    def stop(self) -> None:
        """End a pass after its present segment."""
        self._stopping.set()

    def run(self) -> int:
        """Make one pass, and return the number of deleted segments."""
        if self._hanging is not None:
            self._delete_from_disk(self._hanging)
        return self._delete(self._expired())

    def _expired(self) -> deque[MappedFile]:
        log_used, queues_used = self._look_at_space()
        now_ms = self._opened.clock()
        trigger = find_trigger(self._retention, now_ms, log_used, queues_used)
        if not trigger.is_on:
            return deque()
        segments = self._opened.log.segments.files
        ages = [SegmentAge(file.path.name, file.mtime_ms, file.size) for file in segments]
        verdicts = judge_segments(ages, trigger, self._retention, now_ms)
        return deque(file for file, verdict in zip(segments, verdicts, strict=True) if verdict.goes)

    def _look_at_space(self) -> tuple[float, float]:
        """Return the used shares of both partitions; set the flag and the full folders (isSpaceToDelete)."""
        opened, rules = self._opened, self._retention
        ratios = {folder: opened.fs.used_ratio(folder) for folder in opened.layout.writable_commitlogs}
        above = frozenset(folder for folder, used in ratios.items() if used > rules.forced_above)
        opened.log.segments.folders.full = above
        log_used, queues_used = min(ratios.values()), opened.fs.used_ratio(opened.layout.consumequeue)
        for used in (log_used, queues_used):
            if used > rules.full_above:
                self._flags.set(RunningFlag.DISK_FULL, describe_full(used, round(rules.full_above * 100)))
            elif used <= rules.forced_above:
                self._flags.clear(RunningFlag.DISK_FULL)
            if rules.is_short(used):
                break
        return log_used, queues_used

    def _delete(self, expired: deque[MappedFile]) -> int:
        pause_s, count = self._opened.config.delete_commit_log_files_interval / 1000, 0
        while expired and expired[0].file_start + expired[0].size <= self._dispatched_to():
            if count and self._stopping.wait(pause_s):
                break
            # The disk frees a segment once no view holds its map.
            self._delete_from_disk(expired.popleft())
            count += 1
        return count

    def _delete_from_disk(self, file: MappedFile) -> None:
        self._hanging = file
        self._opened.log.segments.delete_files([file])
        self._hanging = None
        self.deleted = [*self.deleted[-99:], file.path.name]


class CleanConsumeQueueService:
    """Cleans queues and index of `opened`, once the log's start has moved."""

    def __init__(self, opened: OpenedStore) -> None:
        self._opened = opened
        self._last_log_start = 0
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End a pass after its present queue."""
        self._stopping.set()

    def run(self) -> None:
        """Make one pass."""
        opened, log_start = self._opened, self._opened.log.min_offset
        if log_start <= self._last_log_start:
            return
        pause_s = opened.config.delete_consume_queue_files_interval / 1000
        opened.queues.correct_min_offsets(log_start)
        for queue in opened.queues.awake():
            if delete_expired(queue, log_start) and self._stopping.wait(pause_s):
                return
        opened.index.remove(opened.index.expired_files(log_start))
        self._last_log_start = log_start


class CorrectLogicOffsetService:
    """Moves the start of batch queues; those of 4.x are moved by CleanConsumeQueueService, as in 5.3.3."""

    def __init__(self, opened: OpenedStore) -> None:
        self._opened = opened
        self._last_look_ms = 0

    def run(self) -> None:
        """Make one pass."""
        log_start, now_ms = self._opened.log.min_offset, self._opened.clock()
        may_look = now_ms - self._last_look_ms >= self._opened.config.correct_logic_min_offset_force_interval
        if may_look:
            self._last_look_ms = now_ms
        for queue in self._opened.queues.awake():
            if queue.holds_batches and needs_correction(queue, log_start, may_look=may_look):
                delete_expired(queue, log_start)


def needs_correction(queue: ConsumeQueue, log_start: int, *, may_look: bool) -> bool:
    """Return whether a queue's start is before the log's.

    may_look  whether to read the queue's first unit; otherwise only queues that end before the log are found
    """
    if queue.max_physic_offset == -1 or log_start == -1:
        return False
    if queue.max_physic_offset < log_start:
        return queue.min_offset < queue.max_offset
    if not may_look:
        return False
    first = next(iter(queue.units_from(queue.min_offset) or ()), None)
    if first is None:
        return queue.min_offset != queue.max_offset
    return first.log_offset < log_start


class StoreCleaning:
    """The three services of one store, and their times."""

    def __init__(self, opened: OpenedStore, flags: RunningFlags, dispatched_to: Callable[[], int]) -> None:
        self.log = CleanCommitLogService(opened, flags, dispatched_to)
        self.queues = CleanConsumeQueueService(opened)
        self.offsets = CorrectLogicOffsetService(opened)
        self._period_ms = opened.config.clean_resource_interval

    def tasks(self) -> list[TimedTask]:
        """Return the services as tasks of a timetable."""
        steps = {
            "cleaning the commit log": self.log.run,
            "correcting the queues' starts": self.offsets.run,
            "cleaning the queues": self.queues.run,
        }
        return [TimedTask(name, run, FIRST_RUN_MS, self._period_ms) for name, run in steps.items()]

    def stop(self) -> None:
        """End passes that are under way, after their present file."""
        self.log.stop()
        self.queues.stop()
