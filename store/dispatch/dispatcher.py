"""Dispatcher: scan the log and pass every run of records to the handlers (queues, then the index).

    log ----scan----> Run ----> ConsumeQueueStore.dispatch
                          \\---> IndexService.dispatch          (side by side when there is much to do)

`catch_up` scans from `log_offset` to the readable end of the log. In a writable store, live.reput calls it in a thread.

At damage the scan does as a master broker: it skips a record with a wrong checksum; other damage skips the rest of the
segment. This is rare: the log was verified when the store was opened.

Source: DefaultMessageStore.ReputMessageService (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from store.dispatch.fan_out import FanOut, Handler
from store.formats.columns import DamageReason
from store.formats.run import Run
from store.structures.commitlog.readable_log import ReadableLog
from store.structures.commitlog.resync import find_record
from store.structures.commitlog.scan import Blank, Damage, End, ScanRules, Segment, Step, scan_segment

# For fewer bytes, starting threads takes longer than they save.
THREADS_WORTH_BYTES = 4 << 20


class Dispatcher:
    """Pass the records from `log_offset` on to the handlers, in log order.

    as_broker  does as 4.9.8: at a record with a wrong checksum, continues past the segment's end by the record's size;
               stops at a missing segment
    """

    def __init__(
        self,
        log: ReadableLog,
        handlers: Sequence[Handler],
        log_offset: int,
        rules: ScanRules,
        *,
        as_broker: bool = False,
    ) -> None:
        self.log_offset = log_offset
        """The log offset up to which everything was dispatched."""
        self.damages: list[Damage | End] = []
        """The newest 100 skipped parts; an End has records after it in its segment."""
        self.holes: list[tuple[int, int]] = []
        """Start and end log offset of each missing part of the log that was skipped."""
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
        """The bytes of the log that are not dispatched yet."""
        return self._log.max_offset - self.log_offset

    def catch_up(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Dispatch everything up to the present readable end; return the number of records."""
        self.log_offset = max(self.log_offset, self._log.start)
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
        """Continue at the next segment if one is missing; return it, None without one."""
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
        # Set after the handlers are done: a thread that waits for this log offset reads queues and index next.
        self.log_offset = reached
        return count

    def _end_of(self, step: Step, segment: Segment, readable: int) -> int:
        """Return the log offset after a step."""
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
        # Zeros before the readable end may be damage, with records after them.
        if step.position < readable:
            behind = find_record(segment, step.position, accept_v2=self._rules.accept_v2)
            if 0 <= behind < readable:
                self._note(step)
        return segment.file_start + readable

    def _note(self, skipped: Damage | End) -> None:
        self.damages = [*self.damages[-99:], skipped]


def _what_follows(skipped: Damage | End) -> str:
    """Return the clause of a message for skipped records after the damage, "" if there are none."""
    if isinstance(skipped, Damage) and (skipped.size > 0 or skipped.reason == DamageReason.UNREADABLE):
        return ""
    return ", with the rest of the segment"
