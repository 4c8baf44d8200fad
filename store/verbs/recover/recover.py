"""Recovery: from a crash or shutdown to a store whose log, queues and index agree.

    1. the abort marker (or the caller) decides between normal and abnormal
    2. every consume queue is read to its end; the queues were built up to the greatest log offset of all
    3. the starting segment (store.structures.commitlog.start)
    4. the walk with CRC from there finds the valid end; an abnormal walk dispatches every record to queues and index
    5. the log is truncated at the valid end: later segments are removed, the 8 bytes at the cut are zeroed
    6. queues that point at or past the end are truncated, the truncated units are zeroed
    7. beginnings of queues are corrected to the log's beginning
    8. dispatch continues from the end of the queues, as a broker does before it serves

Nothing is written: queues and index change in an overlay. plan.py makes a Change of it, which can be shown,
applied and undone. differences.py lists the differences from a broker, with reasons. With `as_broker` the zeroed cut
is the only difference.

Source: CommitLog.recoverNormally, recoverAbnormally, DefaultMessageStore.recover, start (4.9.8); the line 5.3 follows
5.3.3 where it differs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from store.dispatch.dispatcher import Dispatcher
from store.dispatch.fan_out import FanOut, Handler
from store.files.mapped_file import MappedFile
from store.formats.run import Run
from store.formats.topics import SCHEDULE_TOPIC
from store.opened.opened_store import OpenedStore
from store.structures.commitlog.end import END_OF_LOG, LogEnd
from store.structures.commitlog.scan import End
from store.structures.commitlog.start import entered_from, first_store_timestamp, is_abnormal, starting_segment
from store.structures.index.index_file import IndexFile
from store.verbs.recover.confirm import up_to_confirmed
from store.verbs.recover.differences import Difference, applying
from store.verbs.recover.lost import LossCounter, LossReport
from store.verbs.recover.lost_index import build_lost_index, cut_index, find_lost_index, indexed_between
from store.verbs.recover.lost_queues import build_cut_short, build_lost_queues, sound_queue_end
from store.verbs.recover.rules import RecoveryRules
from store.verbs.recover.unseen import InDatabase
from store.verbs.recover.walk import Progress, dispatch_stretch, walk

if TYPE_CHECKING:
    from store.structures.trap import Trap

UNREADABLE_INDEX = (
    "an index file is unreadable or empty; it and later ones are deleted, and their keys are rebuilt from the log"
)


@dataclass(slots=True)
class RecoveryReport:
    """The result of a recovery.

    Offsets are log offsets.

    end               the log's end, and the reason for it
    entered_from      the log offset from which a broker dispatches walked records
    queue_end_before  the greatest end of all queues; of a batch queue the start of its newest record
    has_unit_at_end   whether the record that begins there has its unit, in a batch queue
    is_rebuilt        whether queues and index were rebuilt from the whole log
    behind            the segment with the log's end, and later segments
    lost              messages that are no longer shown
    dispatched_count  records that queues and index lacked at the log's end
    remarks           rebuilt parts of lost queues, and assumed sizes, as sentences for people
    findings          damage and disorder met while dispatching, as sentences for people
    differences       the differences from a broker's result
    lost_index        the part of the index that was lost before, "" for none
    traps             the traps that the room of a database of queues predicts
    shown             the entries of a database of queues; None if they can't be read
    """

    mode: str
    start_reason: str
    end: LogEnd
    entered_from: int = -1
    queue_end_before: int = -1
    has_unit_at_end: bool = False
    dispatched_count: int = 0
    is_rebuilt: bool = False
    behind: list[MappedFile] = field(default_factory=list)
    lost: LossReport = field(default_factory=LossReport)
    findings: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    traps: list[Trap] = field(default_factory=list)
    lost_index: str = ""
    shown: InDatabase | None = None

    @property
    def log_end(self) -> int:
        return self.end.log_end


def recover_store(
    opened: OpenedStore,
    rules: RecoveryRules,
    progress: Progress | None = None,
) -> RecoveryReport:
    """Run steps 1 to 8 on an opened store; all changes are made in its overlay, or in memory."""
    as_broker = opened.as_broker = rules.as_broker
    if opened.config.enable_calc_filter_bit_map:
        # Few stores have bit maps, and filters take long to import.
        from store.reading.filter.subscription import use_bit_maps

        use_bit_maps(opened)
    abnormal = is_abnormal(opened, rules.mode)
    queue_end = opened.queues.recover()
    opened.queues.finds_light = opened.finds_light and not as_broker
    start, reason = starting_segment(opened, abnormal=abnormal)
    found = RecoveryReport("abnormal" if abnormal else "normal", reason, LogEnd(start, 0), queue_end_before=queue_end)
    found.entered_from = entered_from(opened, start, queue_end, abnormal=abnormal)
    found.has_unit_at_end = opened.queues.built_to > queue_end
    if not opened.log.segments.files:
        found.lost = drop_derived(opened, as_broker=as_broker)
        return found
    work = _Recovery(opened, found, start, rules)
    if rules.only_confirmed:
        work.queues_only = up_to_confirmed(opened, work.queues_only, as_broker=as_broker)
        work.handlers = up_to_confirmed(opened, work.handlers, as_broker=as_broker)
    work.build_lost_queues(progress)
    work.walk_and_cut(progress)
    work.cut_queues()
    if rules.dispatch and not (as_broker and opened.line.dispatches_in_recovery):
        # An abnormal walk has dispatched everything; a damaged, truncated queue may still lack its last units.
        # The start of a broker hands them to the index once more.
        queues_only = abnormal and not as_broker
        found.differences += [Difference.REPEATED_KEYS] if queues_only and _broker_repeats_keys(opened) else []
        _catch_up(opened, found, work.queues_only if queues_only else work.handlers)
        if opened.line.dispatches_in_recovery and not abnormal and queue_end >= 0 and found.dispatched_count:
            found.differences.append(Difference.RECORD_AT_QUEUE_END)
    if not as_broker:
        work.keep_lost_ends()
    if not as_broker and cut_index(opened, found.log_end):
        found.differences.append(Difference.INDEX_PAST_END)
    work.count_losses()
    return found


def finish_start(opened: OpenedStore, found: RecoveryReport) -> None:
    """Run step 8 for the queues of a store that was recovered `as_broker` without it."""
    if not opened.line.dispatches_in_recovery:
        _catch_up(opened, found, up_to_confirmed(opened, [opened.queues], as_broker=True))
        opened.queues.correct_min_offsets(opened.log.min_offset)


def drop_derived(opened: OpenedStore, *, as_broker: bool = False) -> LossReport:
    """Drop the queues beside an empty log, as a broker does, and the index.

    Return the messages that the queues showed as lost."""
    losses = LossCounter(opened)
    losses.read_units(0, END_OF_LOG)
    lost = losses.report()
    opened.queues.destroy()
    if not as_broker:
        opened.index.remove(list(opened.index.files))
    return lost


class _Recovery:
    """Steps 4 to 8 on one store; each notes its results in the report."""

    def __init__(self, opened: OpenedStore, found: RecoveryReport, start: int, rules: RecoveryRules) -> None:
        self.opened, self.found, self.start, self.rules = opened, found, start, rules
        self.is_abnormal = found.mode == "abnormal"
        self.queue_end = sound_queue_end(opened, start, found.queue_end_before)
        self.queues_only: Sequence[Handler] = [opened.queues]
        indexes = [opened.index] if opened.config.writes_index_files else []
        self.handlers: Sequence[Handler] = [opened.queues, *indexes]
        self.keeps_times = opened.line.recovers_with_delay_levels or not rules.as_broker
        self.builds_lost_queues = self.builds_lost_index = False
        self.unkept_keys = 0
        self.delayed_count = 0

    def build_lost_queues(self, progress: Progress | None) -> None:
        """Rebuild lost queues; a broker does not notice them."""
        if not self.rules.as_broker:
            opened, found, abnormal = self.opened, self.found, self.is_abnormal
            built = build_lost_queues(opened, self.start, self.queue_end, abnormal=abnormal, progress=progress)
            found.remarks += [*opened.assumed, *built]
            self.builds_lost_queues = bool(built)
        self.losses = LossCounter(self.opened)

    def walk_and_cut(self, progress: Progress | None) -> None:
        """Run steps 4 and 5."""
        opened, queues = self.opened, self.opened.queues
        self._drop_index(progress)
        delayed_before = _delayed_units(opened)
        queues.rewrites_torn_units = not self.rules.as_broker
        levels = contextlib.nullcontext() if self.keeps_times else queues.without_delay_levels()
        with levels, FanOut(self._walked_by()) as builders:
            self.found.end = walk(opened, self.start, [builders, self.losses], progress, cuts_torn=self.is_abnormal)
            cut_log(opened, self.found)
            # Records past the end are read while the builders still work.
            self.losses.read_behind(self.found.behind, self.found.end)
        queues.rewrites_torn_units = False
        self.delayed_count = _delayed_units(opened) - delayed_before

    def cut_queues(self) -> None:
        """Run steps 6 and 7. Before them, the queues as they were show the differences from a broker."""
        opened, found = self.opened, self.found
        self.losses.read_units(found.log_end, END_OF_LOG)
        self._count_lost_log()
        found.differences = self._differences()
        if found.queue_end_before >= found.log_end:
            opened.queues.truncate_dirty(found.log_end, as_broker=self.rules.as_broker)
            if not self.rules.as_broker:
                self._mend_cut_queues()
        opened.queues.correct_min_offsets(opened.log.min_offset)

    def _count_lost_log(self) -> None:
        """Count the entries before a log without a message, after a crash or if the checkpoint promises one.

        They have not expired: a retention keeps the last segment, and a clean stop deletes one that was made ahead.
        """
        opened, end, first = self.opened, self.found.end, self.opened.log.segments.first
        is_bare = first is not None and not first_store_timestamp(first, opened.line)
        is_bare &= not end.record_count and isinstance(end.outcome, End)
        if is_bare and (self.is_abnormal or opened.checkpoint.physic_ms > 0):
            cut = self.losses.units_cut
            self.losses.read_units(0, opened.log.start)
            self.losses.units_cut = cut

    def _mend_cut_queues(self) -> None:
        """Rebuild the units that the truncation removed together with damaged ones."""
        opened, found = self.opened, self.found
        built = build_cut_short(opened, min(opened.queues.built_to, found.log_end), self.losses)
        found.remarks += built
        found.differences += [Difference.DAMAGED_UNITS] if built else []
        found.differences += [Difference.ZEROED_UNITS] if opened.queues.clear_cut_units() else []

    def keep_lost_ends(self) -> None:
        """Let queues whose files are lost, and whose messages have expired, go on at a consumer's offset."""
        opened = self.opened
        if opened.log.min_offset <= 0:
            return
        from store.structures.consumequeue.lost_ends import continue_lost

        kept = continue_lost(opened.queues, opened.layout.config, opened.log.min_offset, opened.fs)
        self.found.remarks += kept
        if kept and Difference.LOST_QUEUES not in self.found.differences:
            self.found.differences.append(Difference.LOST_QUEUES)

    def count_losses(self) -> None:
        """Note the losses, and the findings on the queues."""
        self.found.lost = self.losses.report()
        self.found.lost.index_keys = self.unkept_keys
        self.found.lost.delayed = 0 if self.keeps_times else self.delayed_count
        self.found.findings += [*self.found.end.describe_unreadable(), *self.opened.queues.describe_findings()]

    def _drop_index(self, progress: Progress | None) -> None:
        """Remove index files that a broker deletes after a crash; kept ones are rebuilt up to the start.

        An index that has lost files is built up to there as well.
        """
        opened, start = self.opened, self.start
        stop = start if self.is_abnormal else self.queue_end
        unread_from = opened.index.drop_unreadable(with_empty=not self.rules.as_broker)
        unsafe = opened.index.unsafe_files(opened.checkpoint.index_ms) if self.is_abnormal else []
        self.found.lost_index = self._find_lost_index(unsafe, stop, progress)
        if not self.rules.as_broker and (built := build_lost_index(opened, stop, self.found.lost_index, progress)):
            self.found.remarks += built
            self.builds_lost_index = True
            return
        begins = [file.header.begin_log_offset for file in unsafe if file.header.index_count > 1]
        if not self.rules.keep_index:
            self.unkept_keys = sum(indexed_between(file, opened.log.min_offset, start) for file in unsafe)
        opened.index.remove(unsafe)
        begins += [unread_from] if unread_from is not None else []
        if self.rules.keep_index and begins and min(begins) < start:
            dispatch_stretch(opened, min(begins), start, [opened.index])
        elif unread_from is not None and opened.config.writes_index_files:
            dispatch_stretch(opened, max(unread_from, opened.log.start), stop, [opened.index])
        if unread_from is not None:
            self.found.remarks.append(UNREADABLE_INDEX)

    def _find_lost_index(self, unsafe: list[IndexFile], stop: int, progress: Progress | None) -> str:
        """Describe the lost part of the index; files that a broker deletes now do not count."""
        reaches_stop = not self.is_abnormal or self.rules.keep_index
        judged = (
            self.opened.index.files
            if self.rules.keep_index
            else [f for f in self.opened.index.files if f not in unsafe]
        )
        return find_lost_index(self.opened, stop, judged=judged, to_stop=reaches_stop, progress=progress)

    def _walked_by(self) -> Sequence[Handler]:
        """Return the handlers of the records in the walk of step 4."""
        if self.is_abnormal:
            return self.handlers
        if self.rules.as_broker and self.opened.line.dispatches_in_recovery:
            return [_From(self.handlers, self.found.entered_from)]
        return []

    def _differences(self) -> list[Difference]:
        opened, found = self.opened, self.found
        differences = applying(
            opened,
            found.end,
            found.queue_end_before,
            self.rules,
            delayed=self.delayed_count,
        )
        differences += [Difference.LOST_QUEUES] if self.builds_lost_queues else []
        differences += [Difference.LOST_INDEX] if self.builds_lost_index else []
        differences += [Difference.MISPLACED_RECORD] if found.end.misplaced_count else []
        differences += [Difference.TORN_UNITS] if opened.queues.rewritten_units else []
        return differences


class _From:
    """A handler that dispatches the records from a log offset on to other handlers."""

    def __init__(self, handlers: Sequence[Handler], log_offset: int) -> None:
        self._handlers = handlers
        self._log_offset = log_offset

    def dispatch(self, run: Run) -> None:
        rows = np.flatnonzero(run.columns.log_offset >= self._log_offset)
        if len(rows):
            for handler in self._handlers:
                handler.dispatch(run.part(int(rows[0]), run.count))


def _delayed_units(opened: OpenedStore) -> int:
    return sum(queue.max_offset for queue in opened.queues.of_topic(SCHEDULE_TOPIC))


def cut_log(opened: OpenedStore, found: RecoveryReport) -> None:
    """Run step 5: end the log at `log_end`, and note the segments at and after the end in `found`."""
    files = opened.log.segments
    found.behind = [file for file in files.files if file.file_start + file.size > found.log_end]
    files.truncate_dirty_files(found.log_end)
    files.flushed_where = files.committed_where = found.log_end


def _broker_repeats_keys(opened: OpenedStore) -> bool:
    """Return whether a broker's start enters the keys of the newest indexed record once more.

    An index that ends past the log takes no keys of records in the log.
    """
    if opened.line.dispatches_in_recovery or not opened.config.writes_index_files:
        return False
    index_end = max((file.header.end_log_offset for file in opened.index.files), default=-1)
    return _queues_end(opened) <= index_end < opened.log.max_offset


def _queues_end(opened: OpenedStore) -> int:
    """Return the greatest end of all queues, not before the log's start."""
    return max(opened.log.start, opened.queues.built_to)


def _catch_up(opened: OpenedStore, found: RecoveryReport, handlers: Sequence[Handler]) -> None:
    """Run step 8: dispatch the records that queues lack, from the greatest end of all queues."""
    begin = _queues_end(opened)
    if begin < found.log_end:
        rules = opened.scan_rules(check_crc=False)
        dispatcher = Dispatcher(opened.log, handlers, begin, rules, as_broker=opened.as_broker)
        found.dispatched_count = dispatcher.catch_up()
        found.findings += dispatcher.describe_findings()
        # 5.3 skips a missing segment too.
        is_passed = bool(dispatcher.holes) and not opened.line.dispatches_in_recovery
        found.differences += [Difference.MISSING_SEGMENT] if is_passed else []
