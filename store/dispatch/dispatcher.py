"""Dispatch follows the log and calls the handlers (queues, then the index) with every run of records.

    log ----scan----> Run ----> ConsumeQueueStore.dispatch
                          \\---> IndexService.dispatch          (side by side when there is much to do)

Dispatcher is the walk itself: `catch_up` goes on from where it stopped to the readable end of the log.
In a store that is written to, live.reput calls it from a thread.

At damage the walk does what the broker of a master does: a record whose sum alone is wrong is skipped, anything worse
skips the rest of the segment. This is rare: the log was verified when the store was opened.

Source: DefaultMessageStore.ReputMessageService (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from store.dispatch.fan_out import FanOut, Handler
from store.formats.columns import DamageReason
from store.formats.run import Run
from store.structures.commitlog.commit_log import CommitLog
from store.structures.commitlog.resync import find_record
from store.structures.commitlog.scan import Blank, Damage, End, ScanRules, Segment, Step, scan_segment

# With less to do, starting threads takes longer than they save.
THREADS_WORTH_BYTES = 4 << 20


class Dispatcher:
    """Hands the records from `log_offset` on to the handlers, in log order.

    as_broker  skips what 4.9.8 skips at a record whose sum alone is wrong: it does not count that one as read, and
               goes on as far behind the segment's end as the record is long; and stays at a missing segment
    """

    def __init__(
        self,
        log: CommitLog,
        handlers: Sequence[Handler],
        log_offset: int,
        rules: ScanRules,
        *,
        as_broker: bool = False,
    ) -> None:
        self.log_offset = log_offset
        """The log offset up to which everything was dispatched."""
        self.damages: list[Damage | End] = []
        """What was skipped, the newest 100; an End is one with records after it in its segment."""
        self.holes: list[tuple[int, int]] = []
        """Log offsets of the beginning of each missing part that was passed over, and of its end."""
        self._log = log
        self._handlers = handlers
        self._rules = rules
        self._as_broker = as_broker

    def describe_findings(self) -> list[str]:
        """Describe the records that were not dispatched, as sentences for people."""
        missing = [f"the log lacks {start} to {stop}: messages there are in no queue" for start, stop in self.holes]
        return missing + [f"not dispatched{_what_follows(one)}: {one.describe()}" for one in self.damages]

    @property
    def behind_bytes(self) -> int:
        """How much of the log has not been dispatched yet."""
        return self._log.max_offset - self.log_offset

    def catch_up(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Hand over everything up to the present readable end; give the number of records."""
        self.log_offset = max(self.log_offset, self._log.min_offset, 0)
        end = self._log.max_offset
        count = 0
        while self.log_offset < end:
            segment = self._log.segments.find_by_offset(self.log_offset) or self._pass_hole()
            if segment is None:
                break
            before = self.log_offset
            count += self._one_segment(segment, on_progress)
            if self.log_offset == before:
                break
        return count

    def _pass_hole(self) -> Segment | None:
        """Go on at the next segment where one is missing."""
        behind = (file for file in self._log.segments.files if file.file_start > self.log_offset)
        found = None if self._as_broker else next(behind, None)
        if found is not None:
            self.holes.append((self.log_offset, found.file_start))
            self.log_offset = found.file_start
        return found

    def _one_segment(self, segment: Segment, on_progress: Callable[[int], None] | None) -> int:
        position, readable = self.log_offset - segment.file_start, segment.readable_position
        count, reached = 0, self.log_offset
        with FanOut(self._handlers, in_threads=readable - position >= THREADS_WORTH_BYTES) as builders:
            for step in scan_segment(segment, position, readable, rules=self._rules):
                reached = self._end_of(step, segment, readable)
                if isinstance(step, Run):
                    builders.dispatch(step)
                    count += step.count
                    if on_progress is not None:
                        on_progress(reached)
        # Not before the builders are done: whoever waits for this place looks into queues and index next.
        self.log_offset = reached
        return count

    def _end_of(self, step: Step, segment: Segment, readable: int) -> int:
        """Return the log offset to go on from behind a step."""
        if isinstance(step, Run):
            return step.end
        if isinstance(step, Blank):
            return segment.file_start + segment.size
        if isinstance(step, Damage):
            self._note(step)
            if self._as_broker and step.size > 0:
                return segment.file_start + readable + step.size
            end = step.position + step.size if step.size > 0 else readable
            if step.reason == DamageReason.UNREADABLE:
                found = find_record(segment, step.unreadable[1], accept_v2=self._rules.accept_v2)
                end = found if found >= 0 else readable
            return segment.file_start + min(end, readable)
        # Zeros before the readable end are no record either.
        if step.position < readable:
            behind = find_record(segment, step.position, accept_v2=self._rules.accept_v2)
            if 0 <= behind < readable:
                self._note(step)
        return segment.file_start + readable

    def _note(self, skipped: Damage | End) -> None:
        self.damages = [*self.damages[-99:], skipped]


def _what_follows(skipped: Damage | End) -> str:
    """Say, as a clause for people, whether the records behind are skipped too."""
    if isinstance(skipped, Damage) and (skipped.size > 0 or skipped.reason == DamageReason.UNREADABLE):
        return ""
    return ", with the rest of the segment"
